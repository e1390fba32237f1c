"""Weights and pixels from numpy seeds, as the original programs were given them before their steps were recorded."""

import zlib

import numpy as np


def weight(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The initial values of a tensor, in float64, from its name in the recipe and its shape."""
    generator = np.random.RandomState(zlib.crc32(name.encode()))
    if name.endswith("running_var"):
        return generator.uniform(0.8, 1.2, shape)
    if name.endswith("running_mean"):
        return generator.uniform(-0.1, 0.1, shape)
    if len(shape) == 1 and name.endswith("weight"):  # a scale of batch norm
        low, high = (0.2, 0.4) if "bn3" in name else (0.8, 1.2)
        return generator.uniform(low, high, shape)
    if len(shape) == 1:
        return generator.uniform(-0.05, 0.05, shape)
    variance = (2.0 if len(shape) == 4 else 1.0) / int(np.prod(shape[1:]))
    return generator.standard_normal(shape) * np.sqrt(variance)


def images(count: int, classes: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(count, size, size, 3) uint8 pixels and their sorted labels; each class has its own coarse pattern."""
    generator = np.random.RandomState(seed)
    coarse = generator.randint(-60, 61, (classes, size // 8, size // 8, 3))
    patterns = 128 + coarse.repeat(8, axis=1).repeat(8, axis=2)
    labels = np.sort(np.arange(count) % classes)
    noise = generator.randint(-60, 61, (count, size, size, 3))
    tint = generator.randint(-30, 31, (count, 1, 1, 3))
    return (patterns[labels] + noise + tint).clip(0, 255).astype(np.uint8), labels.astype(np.int64)
