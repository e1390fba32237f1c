"""The first deterministic resize of a protocol, and its name in paths."""

import re

Resize = dict[str, int | list[int]] | None


def resize_slug(resize: Resize) -> str:
    """``None`` → original, ``{shorter: 256}`` → shorter256, ``{exact: [288, 288]}`` → exact288x288.

    With ``jpeg`` (the quality that a protocol saved its resized images with) → shorter288jpeg75.
    """
    if not resize:
        return "original"
    jpeg = f"jpeg{resize['jpeg']}" if "jpeg" in resize else ""
    if "shorter" in resize:
        return f"shorter{resize['shorter']}{jpeg}"
    height, width = resize["exact"]
    return f"exact{height}x{width}{jpeg}"


def parse_resize(slug: str) -> Resize:
    """The inverse of :func:`resize_slug`."""
    found = re.fullmatch(r"(?:shorter(\d+)|exact(\d+)x(\d+))(?:jpeg(\d+))?", slug)
    if not found:
        return None
    shorter, height, width, jpeg = (int(part) if part else None for part in found.groups())
    resize = {"exact": [height, width]} if shorter is None else {"shorter": shorter}
    return resize | ({} if jpeg is None else {"jpeg": jpeg})
