"""Number formats of tables and figures."""

PLUS_MINUS, MINUS, ABOUT = "±", "−", "≈\u00a0"


def number(value: float, digits: int = 2) -> str:
    """The value with ``digits`` decimals and a real minus sign."""
    return f"{value:.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int = 2) -> str:
    """A difference with its sign; zero has no sign."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def quote(value: float, approximate: bool, digits: int = 2) -> str:
    """A published value; a value read off a plot is marked with ≈ and keeps its number of digits."""
    if not approximate:
        return number(value, digits)
    return ABOUT + (f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}")
