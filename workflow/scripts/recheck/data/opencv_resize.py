"""Resizing as OpenCV does it: without antialiasing, except for ``area``; at most one grey level apart from OpenCV.

Pillow and torchvision widen the filter when an image gets smaller, so that every pixel counts. OpenCV always takes the
same few pixels around a position. Programs built on OpenCV, such as those of MXNet, therefore see different pixels.
"""

import functools
import math
from collections.abc import Callable

import numpy as np
import torch

CUBIC = -0.75
"""The parameter of the cubic filter; Pillow uses -0.5."""
Taps = tuple[np.ndarray, np.ndarray]
"""The source pixels of every target pixel, and their weights: two matrices with one row per target pixel."""


def resize(pixels: torch.Tensor, size: list[int], mode: str) -> torch.Tensor:
    """(channels, height, width) uint8 pixels at another size."""
    old, new = pixels.shape[-2:], tuple(size)
    taps = TAPS[mode]
    if mode == "area" and any(before < after for before, after in zip(old, new, strict=True)):
        taps = _enlarged_area
    resized = pixels.float()
    for axis, before, after in zip((-2, -1), old, new, strict=True):
        resized = _along(resized, axis, *taps(before, after))
    return resized.round().clamp(0, 255).to(torch.uint8)


def _along(pixels: torch.Tensor, axis: int, sources: np.ndarray, weights: np.ndarray) -> torch.Tensor:
    """Resized along one axis. Pixels beyond the border repeat it."""
    inside = torch.from_numpy(sources.clip(0, pixels.shape[axis] - 1))
    weights = torch.from_numpy(weights).to(pixels.dtype)
    shape = (-1, 1) if axis == -2 else (-1,)
    # one tap at a time: sums in a fixed order are the same on every machine
    taken = (
        pixels.index_select(axis, tap) * weight.view(shape) for tap, weight in zip(inside.T, weights.T, strict=True)
    )
    return functools.reduce(torch.add, taken)


def _nearest(before: int, after: int) -> Taps:
    return _left(before, after)[:, None], np.ones((after, 1))


def _left(before: int, after: int) -> np.ndarray:
    """For every target pixel the source pixel at its left edge.

    Where edges coincide, the rounding of ``1 / (after / before)`` decides between two pixels, as in OpenCV.
    """
    return np.floor(np.arange(after) * (1 / (after / before))).astype(np.int64)


def _positions(before: int, after: int) -> tuple[np.ndarray, np.ndarray]:
    """For every target pixel the source pixel left of its centre, and how far the centre is to the right of it."""
    centres = (np.arange(after) + 0.5) * (before / after) - 0.5
    left = np.floor(centres).astype(np.int64)
    return left, centres - left


def _bilinear(before: int, after: int) -> Taps:
    left, beyond = _positions(before, after)
    return left[:, None] + np.arange(2), np.stack([1 - beyond, beyond], axis=1)


def _bicubic(before: int, after: int) -> Taps:
    left, beyond = _positions(before, after)
    offsets = np.arange(-1, 3)
    distance = np.abs(offsets - beyond[:, None])
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * CUBIC - 4 * CUBIC
    return left[:, None] + offsets, np.where(distance <= 1, near, far)


def _lanczos(before: int, after: int) -> Taps:
    left, beyond = _positions(before, after)
    offsets = np.arange(-3, 5)
    distance = offsets - beyond[:, None]
    weights = np.sinc(distance) * np.sinc(distance / 4)
    return left[:, None] + offsets, weights / weights.sum(axis=1, keepdims=True)


def _area(before: int, after: int) -> Taps:
    """The mean of the source pixels that a target pixel covers, partly or completely."""
    scale = before / after
    start = np.arange(after)[:, None] * scale
    sources = np.floor(start).astype(np.int64) + np.arange(math.ceil(scale) + 1)
    covered = np.minimum(start + scale, sources + 1) - np.maximum(start, sources)
    return sources, covered.clip(0) / scale


def _enlarged_area(before: int, after: int) -> Taps:
    """The method ``area`` for images that grow in at least one direction: a narrow ramp between two pixels."""
    left = _left(before, after)
    beyond = (np.arange(1, after + 1) - (left + 1) * (after / before)).astype(np.float32)  # 1 - 1e-14 counts as 1
    beyond = np.where(beyond <= 0, 0, beyond - np.floor(beyond))
    return left[:, None] + np.arange(2), np.stack([1 - beyond, beyond], axis=1)


TAPS: dict[str, Callable[[int, int], Taps]] = {
    "nearest": _nearest,
    "bilinear": _bilinear,
    "bicubic": _bicubic,
    "area": _area,
    "lanczos": _lanczos,
}
