"""Structured clustering by facility location: the true clustering must score higher than the best wrong one."""

from dataclasses import dataclass

import torch
from torch import nn

from recheck.methods.geometry import distances, same_class

FLOOR = 1e-10
"""Smallest denominator of the NMI, because the entropy of a single cluster is 0."""


@dataclass
class Facilities:
    """Clustering that violates the margin most. A slot is the number of a cluster; its medoid is its central row."""

    greedy: torch.Tensor
    """Medoid of each slot, in the order in which they were picked."""
    medoids: torch.Tensor
    """Medoid of each slot after refinement."""
    assignment: torch.Tensor
    """Slot of each row."""
    nmi: torch.Tensor


class FacilityLocationLoss(nn.Module):
    """max(0, F(S) + gamma (1 − NMI(y, assign S)) − G), where D are the Euclidean distances of the batch.

        F(S) = −Σ_j min_s D[S_s, j]                      energy of the medoids S,
        G    = −Σ_classes min_{i in c} Σ_{j in c} D_ij   energy of the true classes around their medoids.

    S has as many medoids as the batch has classes. It is found greedily, then refined slot by slot in ``sweeps`` sweeps
    unless ``refine`` is false. Gradients flow through the distances in F and G; S, its assignment and the NMI are
    constants.
    """

    def __init__(self, gamma: float = 1.0, sweeps: int = 5, refine: bool = True):
        super().__init__()
        self.gamma, self.sweeps = gamma, sweeps if refine else 0

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        matrix = distances(embeddings, embeddings)
        facilities = self.search(matrix.detach(), labels)
        predicted, true = energy(matrix, facilities), true_energy(matrix, labels, len(facilities.medoids))
        return torch.relu(predicted + self.gamma * (1 - facilities.nmi) - true)

    def search(self, matrix: torch.Tensor, labels: torch.Tensor) -> Facilities:
        """Search for the clustering with the largest F + gamma (1 − NMI), on distances without gradients.

        On a GPU the host waits once for the number of classes and once per round of a sweep, never per class.
        """
        names, classes = labels.unique(return_inverse=True)
        agreement = Agreement(classes, len(names), matrix.dtype)
        greedy = self._greedy(matrix, agreement, len(names))
        medoids = greedy.clone()
        for _ in range(self.sweeps):
            if not self._sweep(matrix, agreement, medoids):  # later sweeps would not change them either
                break
        assignment = assign(matrix, medoids[None])
        return Facilities(greedy, medoids, assignment[0], agreement(assignment)[0])

    def _greedy(self, matrix: torch.Tensor, agreement: "Agreement", kinds: int) -> torch.Tensor:
        """Pick one medoid per class, each time the row with the largest F + gamma (1 − NMI); the first wins ties."""
        rows = torch.arange(len(matrix), device=matrix.device)
        nearest = torch.full_like(matrix[0], torch.inf)
        slots = torch.zeros_like(rows)
        medoids = rows[:0]
        for slot in range(kinds):
            # All candidates at once: a row moves to the new slot if that is nearer, or if it is the candidate itself.
            moves = (matrix < nearest) | (rows[:, None] == rows)
            moved = torch.where(moves, slot, slots)
            augmented = self.gamma * (1 - agreement(moved))
            score = -torch.minimum(matrix, nearest).sum(dim=1) + augmented
            score[medoids] = -torch.inf
            best = score.argmax(dim=0, keepdim=True)  # a tensor of one row: a plain number would have to be read first
            medoids = torch.cat((medoids, best))
            nearest, slots = torch.minimum(nearest, matrix[best][0]), moved[best][0]
        return medoids

    def _sweep(self, matrix: torch.Tensor, agreement: "Agreement", medoids: torch.Tensor) -> bool:
        """Give each slot in turn the best medoid among the rows it had at the start of the sweep.

        Returns whether any medoid changed. Later slots see the changes of earlier ones: a round tries the candidates of
        all slots at once, its result is valid up to the first slot that changes, and the next round tries only the
        slots after it.
        """
        assignment = assign(matrix, medoids[None])[0]
        slots = torch.arange(len(medoids), device=matrix.device)
        energies = -(matrix * same_class(assignment)).sum(dim=1)
        rows = assignment.argsort(stable=True)  # slot by slot
        any_changed, changed = False, -1
        while len(rows):
            of_rows = assignment[rows]
            candidates = torch.where(of_rows[:, None] == slots, rows[:, None], medoids)
            score = energies[rows] + self.gamma * (1 - agreement(assign(matrix, candidates)))
            # The first of a slot's rows wins ties. Slots whose turn is over have no rows here and keep their medoid.
            best = torch.where(of_rows == slots[:, None], score, -torch.inf).argmax(dim=1)
            better = torch.where(slots > changed, rows[best], medoids)
            first = torch.where(better != medoids, slots, len(medoids)).min()
            changed, tried = torch.stack((first, (of_rows <= first).sum())).tolist()
            if changed < len(medoids):
                medoids[changed] = better[changed]
                any_changed = True
            rows = rows[tried:]
        return any_changed


def assign(matrix: torch.Tensor, medoids: torch.Tensor) -> torch.Tensor:
    """Slot of the nearest medoid for each row: medoids (sets, slots) → slots (sets, rows).

    The lowest slot wins ties. A medoid always belongs to its own slot.
    """
    slots = matrix[medoids].argmin(dim=1)
    of_medoids = torch.arange(medoids.shape[1], device=medoids.device).expand_as(medoids)
    return slots.scatter(1, medoids, of_medoids)


class Agreement:
    """NMI (mutual information / geometric mean of the entropies) of the rows' classes and each set of slots.

    Classes (rows,) and slots (sets, rows) are numbers below ``kinds``. Information and entropies are means over rows of
    the logarithms of shares. Shares are ratios of whole numbers, so the information of a single cluster is exactly 0.
    """

    def __init__(self, classes: torch.Tensor, kinds: int, dtype: torch.dtype):
        self.kinds, self.dtype, self.rows = kinds, dtype, classes.shape[0]
        self.cells = classes * kinds
        self.by_class = self._shares(classes[None], kinds)
        self.entropy = self.by_class.log().mean(dim=1)

    def __call__(self, slots: torch.Tensor) -> torch.Tensor:
        by_slot = self._shares(slots, self.kinds)
        both = self._shares(self.cells + slots, self.kinds**2)
        information = (both / (self.by_class * by_slot)).log().mean(dim=1)
        entropies = self.entropy * by_slot.log().mean(dim=1)
        return information / entropies.sqrt().clamp_min(FLOOR)

    def _shares(self, groups: torch.Tensor, kinds: int) -> torch.Tensor:
        """Group numbers (sets, rows) → for each row, the share of its set's rows that are in the same group."""
        sizes = groups.new_zeros(len(groups), kinds).scatter_add_(1, groups, torch.ones_like(groups))
        return sizes.gather(1, groups).to(self.dtype) / self.rows


def energy(matrix: torch.Tensor, facilities: Facilities) -> torch.Tensor:
    """F of the medoids found by the search."""
    rows = torch.arange(len(matrix), device=matrix.device)
    return -matrix[facilities.medoids[facilities.assignment], rows].sum()


def true_energy(matrix: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """G: energy of each class around its medoid, summed; if several rows tie, the first gets the gradient."""
    same = same_class(labels)
    within = (matrix * same).sum(dim=1)
    of_class = within.detach().expand_as(matrix).masked_fill(~same, torch.inf)
    is_medoid = torch.zeros_like(labels).scatter(0, of_class.argmin(dim=1), 1)
    medoids = is_medoid.argsort(descending=True, stable=True)[:classes]
    return -within[medoids].sum()
