"""Cutting positions into batches."""


def cut(positions: list[int], batch: int) -> list[list[int]]:
    """Consecutive batches of ``batch`` positions; an incomplete last batch is dropped."""
    return [positions[start : start + batch] for start in range(0, len(positions) - batch + 1, batch)]
