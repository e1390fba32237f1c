"""The Poincaré ball by its textbook formulas, in float64: Möbius addition, distance and exponential map."""

import numpy as np


def in_ball(count, dimensions, curvature, reach, seed=0):
    """Random float32 points whose lengths are up to ``reach`` of the ball's radius."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, dimensions))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return (points * reach * rng.uniform(0.02, 1, (count, 1)) / np.sqrt(curvature)).astype(np.float32)


def mobius_add(x, y, c):
    """x ⊕ y = ((1 + 2c⟨x,y⟩ + c|y|²) x + (1 − c|x|²) y) / (1 + 2c⟨x,y⟩ + c²|x|²|y|²)."""
    xy, xx, yy = x @ y, x @ x, y @ y
    return ((1 + 2 * c * xy + c * yy) * x + (1 - c * xx) * y) / (1 + 2 * c * xy + c**2 * xx * yy)


def distance(x, y, c):
    """(2/√c) artanh(√c |(−x) ⊕ y|)."""
    return 2 / np.sqrt(c) * np.arctanh(np.sqrt(c) * np.linalg.norm(mobius_add(-x, y, c)))


def exponential(x, c):
    """The exponential map at the origin, tanh(√c |x|) x / (√c |x|)."""
    length = np.sqrt(c) * np.linalg.norm(x)
    return np.tanh(length) * x / length if length else x
