"""The first deterministic resize of a protocol, and its name in paths."""

import re

Resize = dict[str, int | list[int]] | None


def resize_slug(resize: Resize) -> str:
    """``None`` → original, ``{shorter: 256}`` → shorter256, ``{exact: [288, 288]}`` → exact288x288, and the same with
    ``fit``, which keeps an image's shape and fills the rest with black.

    With ``jpeg`` (the quality that a protocol saved its resized images with) → shorter288jpeg75.
    """
    if not resize:
        return "original"
    jpeg = f"jpeg{resize['jpeg']}" if "jpeg" in resize else ""
    if "shorter" in resize:
        return f"shorter{resize['shorter']}{jpeg}"
    kind = "fit" if "fit" in resize else "exact"
    height, width = resize[kind]
    return f"{kind}{height}x{width}{jpeg}"


def parse_resize(slug: str) -> Resize:
    """The inverse of :func:`resize_slug`."""
    found = re.fullmatch(r"(?:shorter(\d+)|(exact|fit)(\d+)x(\d+))(?:jpeg(\d+))?", slug)
    if not found:
        return None
    shorter, kind, height, width, jpeg = found.groups()
    resize: Resize = {kind: [int(height), int(width)]} if kind else {"shorter": int(shorter)}
    return resize | ({} if jpeg is None else {"jpeg": int(jpeg)})
