"""What samplers share."""


def cut(positions: list[int], batch: int) -> list[list[int]]:
    return [positions[start : start + batch] for start in range(0, len(positions) - batch + 1, batch)]
