"""The resize that a pack applies to all images, and its name in paths."""

import re

Resize = dict[str, int | list[int]] | None
PLAIN_GB = 100
"""Packs with more gigabytes of pixels than this are encoded, unless the config says otherwise."""


def resize_slug(resize: Resize) -> str:
    """The name of a resize: ``None`` → original, ``{shorter: 256}`` → shorter256, ``{fit: [288, 288]}`` → fit288x288.

    ``exact`` stretches an image to its size; ``fit`` scales to fit and pads with black. ``jpeg`` is the quality with
    which a protocol saved its resized images: ``{shorter: 288, jpeg: 75}`` → shorter288jpeg75.
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
    match = re.fullmatch(r"(?:shorter(\d+)|(exact|fit)(\d+)x(\d+))(?:jpeg(\d+))?", slug)
    if not match:
        return None
    shorter, kind, height, width, jpeg = match.groups()
    resize: Resize = {kind: [int(height), int(width)]} if kind else {"shorter": int(shorter)}
    return resize | ({} if jpeg is None else {"jpeg": int(jpeg)})
