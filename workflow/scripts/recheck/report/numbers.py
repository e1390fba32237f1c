"""How numbers are written in tables and figures."""

PLUS_MINUS, MINUS, ABOUT = "±", "−", "≈\u00a0"


def number(value: float) -> str:
    """Two decimals, with a real minus sign."""
    return f"{value:.2f}".replace("-", MINUS)


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign; zero has none."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def quote(value: float, approximate: bool) -> str:
    """A published value; one that was read off a plot is marked and has no more digits than it was noted with."""
    if not approximate:
        return number(value)
    return ABOUT + (f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}")
