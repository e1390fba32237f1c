"""The first deterministic resize of a protocol, and its name in paths."""

import re

Resize = dict[str, int | list[int]] | None


def resize_slug(resize: Resize) -> str:
    """``None`` → original, ``{shorter: 256}`` → shorter256, ``{exact: [288, 288]}`` → exact288x288."""
    if not resize:
        return "original"
    if "shorter" in resize:
        return f"shorter{resize['shorter']}"
    height, width = resize["exact"]
    return f"exact{height}x{width}"


def parse_resize(slug: str) -> Resize:
    """The inverse of :func:`resize_slug`."""
    if shorter := re.fullmatch(r"shorter(\d+)", slug):
        return {"shorter": int(shorter[1])}
    if exact := re.fullmatch(r"exact(\d+)x(\d+)", slug):
        return {"exact": [int(exact[1]), int(exact[2])]}
    return None
