"""Exact nearest neighbours by the hyperbolic distance of points in a Poincaré ball.

The distance (2/√c) arsinh(√c |x − y| / √((1 − c|x|²)(1 − c|y|²))) grows with |x − y|² / (1 − c|y|²), if x is the query.
So the order is *defined* by this quotient, computed in float64 from the float32 points; ties go to the smaller index.
All queries are compared with the whole gallery by float64 products, in blocks, and rows too close to call are compared
by the defining quotient.
"""

import numpy as np

from recheck.errors import UserError
from recheck.evaluation.search import Search, blocks, checked, sum_by_halves


class HyperbolicSearch(Search):
    """Search for the nearest rows of one gallery in the Poincaré ball of curvature −``curvature``; on the CPU only."""

    def __init__(self, gallery: np.ndarray, curvature: float):
        super().__init__(gallery)
        self.curvature = curvature
        self.room = rooms(self.gallery, curvature)

    def pair_up(self, k: int) -> None:
        """Nothing to prepare: there are no candidates in float32."""

    def _candidates(
        self, queries: np.ndarray, norms: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Prove the order for no query, so that each is compared with the whole gallery in float64."""
        rooms(queries, self.curvature)
        none = np.zeros((len(queries), count), np.int64)
        return none.astype(np.float32), none, np.full(len(queries), np.inf)

    def _all_distances(self, queries: np.ndarray, query_rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        distance, bound = super()._all_distances(queries, query_rows)
        distance /= self.room
        # a tenth more covers the rounding of both quotients
        return distance, 1.1 * bound / self.room.min()

    def _distances(self, queries: np.ndarray, row: np.ndarray, index: np.ndarray) -> np.ndarray:
        return super()._distances(queries, row, index) / self.room[index]


def searching(gallery: np.ndarray, device: str = "cpu", curvature: float | None = None) -> Search:
    """The Euclidean search of a gallery or, with a curvature, the hyperbolic one."""
    return Search(gallery, device) if curvature is None else HyperbolicSearch(gallery, curvature)


def rooms(points: np.ndarray, curvature: float) -> np.ndarray:
    """1 − c|x|² of each point in float64; refuses points that are not inside the ball."""
    points, _ = checked(points)
    room = np.empty(len(points))
    for chunk in blocks(len(points), (1 << 17) // points.shape[1]):
        room[chunk] = 1 - curvature * sum_by_halves(np.square(points[chunk], dtype=np.float64))
    outside = np.flatnonzero(room <= 0)
    if len(outside):
        raise UserError(
            f"Embeddings outside the Poincaré ball of 'evaluation.curvature' ({curvature:g}): {len(outside)} of "
            f"{len(points)} (the first is row {outside[0]}). Use 'model.head: {{class: PoincareBall, curvature: "
            f"{curvature:g}, …}}'."
        )
    return room
