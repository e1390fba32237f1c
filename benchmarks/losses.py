"""Losses, compared with the least work of any pair loss, and with plain loops that compute the same value.

The least work is the similarity matrix of the batch and its gradient: one product forwards, two backwards. Batches have
the sizes of the studies: images, images per class, dimensions.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import in_turn, ratios, spread
from torch import nn
from torch.nn.functional import dropout, normalize

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))
from recheck.methods.forward import MultiView
from recheck.methods.geometry import distances
from recheck.methods.losses import build_loss
from recheck.methods.losses.contextual.contextual import ContextualLoss
from recheck.methods.losses.mlrc.within_pair import WithinPairLoss
from recheck.methods.losses.unbiased.facility_location import FacilityLocationLoss, true_energy

TRIPLET = {"class": "TripletMarginLoss", "triplets_per_anchor": "all"}
SHIFTED = {"class": "ShiftedLpDistance", "shift": 1e-6}
HYBRID = {"class": "HybridLoss", "k": 4, "w_context": 0.4, "w_contrastive": 0.5, "w_reg": 0.1, "target": 0.25}
CONTRASTIVE = {"class": "ContrastiveLoss", "pos_margin": 0.2, "neg_margin": 0.5}
VIEWS = 64
BATCHES = {"unbiased": (128, 2, 64), "contextual_256": (128, 4, 512), "mlrc": (32, 4, 128)}

# name: (study, loss, batch if it differs from the study's); the table shows the ten slowest
LOSSES: dict[str, tuple[str, dict[str, Any], tuple[int, int, int] | None]] = {
    "Facility location": ("unbiased", {"class": "FacilityLocationLoss"}, (120, 5, 64)),
    "Ranked list": ("unbiased", {"class": "UnbiasedRankedListLoss"}, (180, 3, 64)),
    "Semi-hard triplet": ("unbiased", {"class": "SemiHardTripletLoss", "margin": 0.2}, None),
    "Contextual": ("contextual_256", {"class": "ContextualLoss", "k": 4}, None),
    "Contextual, minimum": ("contextual_256", {"class": "ContextualLoss", "k": 4, "variant": 5}, None),
    "Hybrid": ("contextual_256", HYBRID, None),
    "ROADMAP": ("contextual_256", {"class": "RoadmapLoss"}, None),
    "SmoothAP": ("contextual_256", {"class": "ContextualSmoothAPLoss"}, None),
    "SoftBinAP": ("contextual_256", {"class": "SoftBinAPLoss"}, None),
    "Within-pair, contrastive": ("mlrc", {"class": "WithinPairLoss", "sharpness": 32, "loss": CONTRASTIVE}, None),
    "Within-pair, triplet": (
        "mlrc",
        {"class": "WithinPairLoss", "sharpness": 32, "loss": {**TRIPLET, "distance": SHIFTED}},
        None,
    ),
}


def batch(images: int, per_class: int, dimensions: int, views: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings of unit length in overlapping classes, and their labels; several views get dropout."""
    labels = torch.arange(images) // per_class
    centres = torch.randn(int(labels[-1]) + 1, dimensions)
    embeddings = normalize(centres[labels] + 1.5 * torch.randn(images, dimensions))
    return (embeddings if views == 1 else dropout(embeddings.expand(views, -1, -1), 0.05)), labels


def step(loss: Callable, embeddings: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    """A function that runs the loss forwards and backwards once."""

    def run() -> None:
        loss(embeddings.clone().requires_grad_(), labels).backward()

    return run


def least_work(embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return (embeddings @ embeddings.mT).sum()


def loop_facility_location(embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Facility location with a loop over the candidates."""
    matrix = distances(embeddings, embeddings)
    fixed, kinds = matrix.detach(), len(labels.unique())

    def assigned(medoids: list[int]) -> torch.Tensor:
        slots = fixed[medoids].argmin(dim=0)
        slots[medoids] = torch.arange(len(medoids))
        return slots

    def nmi(slots: torch.Tensor) -> torch.Tensor:
        logs = []
        for groups in (labels, slots, labels * kinds + slots):
            logs.append((groups[:, None] == groups).to(matrix.dtype).mean(dim=1).log())
        both = (logs[2] - logs[0] - logs[1]).mean()
        return both / (logs[0].mean() * logs[1].mean()).sqrt().clamp_min(1e-10)

    medoids: list[int] = []
    for _ in range(kinds):
        scores = {}
        for row in range(len(matrix)):
            if row not in medoids:
                chosen = [*medoids, row]
                scores[row] = -fixed[chosen].amin(dim=0).sum() + 1 - nmi(assigned(chosen))
        medoids.append(max(scores, key=lambda row: float(scores[row])))
    for _ in range(5):
        before, slots = list(medoids), assigned(medoids)
        for slot in range(kinds):
            members = (slots == slot).nonzero().flatten().tolist()
            scores = {}
            for row in members:
                chosen = [*medoids[:slot], row, *medoids[slot + 1 :]]
                scores[row] = -fixed[row, members].sum() + 1 - nmi(assigned(chosen))
            medoids[slot] = max(scores, key=lambda row: float(scores[row]))
        if medoids == before:
            break
    slots = assigned(medoids)
    energy = -matrix[torch.tensor(medoids)[slots], torch.arange(len(matrix))].sum()
    return torch.relu(energy + 1 - nmi(slots) - true_energy(matrix, labels, kinds))


class LoopContextual(nn.Module):
    """The contextual loss with a loop over pairs of rows for their intersection."""

    def __init__(self):
        super().__init__()
        self.loss = ContextualLoss(k=4)
        self.loss.similarity._matrix_and = self.pairs

    @staticmethod
    def pairs(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        columns = right.T.unbind()
        return torch.stack([torch.stack([(row * column).sum() for column in columns]) for row in left.unbind()])

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.loss(embeddings, labels)


class LoopWithinPair(WithinPairLoss):
    """The within-pair loss with a loop over views, then over pairs."""

    def forward(self, views: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        values = torch.stack([self.distance(view) for view in views])
        rows = []
        for i in range(len(labels)):
            row = []
            for j in range(len(labels)):
                largest = bool(labels[i] == labels[j]) != self.distance.is_inverted
                sign = self.sharpness if largest else -self.sharpness
                row.append((torch.softmax(sign * values[:, i, j], dim=0) * values[:, i, j]).sum())
            rows.append(torch.stack(row))
        return self.loss(torch.stack(rows), labels)


def compared_with_loops(quick: bool) -> list[str]:
    """Table of the time of plain loops ÷ ours. Exits if the two values differ."""

    def within(kind: type[WithinPairLoss]) -> WithinPairLoss:
        inner = build_loss(CONTRASTIVE, 8, 128)
        return kind(inner, 32)

    cases = {
        "Facility location": (loop_facility_location, FacilityLocationLoss(), batch(120, 5, 64)),
        "Contextual": (LoopContextual(), ContextualLoss(k=4), batch(128, 4, 512)),
        f"Within-pair, {VIEWS} views": (within(LoopWithinPair), within(WithinPairLoss), batch(32, 4, 128, VIEWS)),
    }
    lines = ["| loss | loops ÷ ours |", "|---|---:|"]
    for name, (loops, ours, (embeddings, labels)) in cases.items():
        if quick:
            embeddings, labels = embeddings[..., :16, :], labels[:16]
        values = loops(embeddings, labels), ours(embeddings, labels)
        if not torch.allclose(*values, rtol=1e-3, atol=1e-5):
            sys.exit(f"{name}: the loops give {values[0]:.6f}, our loss gives {values[1]:.6f}; they must agree.")
        turns = {"loops": step(loops, embeddings, labels), "ours": step(ours, embeddings, labels)}
        seconds = in_turn(turns, 1 if quick else 3)
        lines.append(f"| {name} | {spread(ratios(seconds['loops'], seconds['ours']), 0)} |")
    return lines


def slowest(quick: bool) -> list[str]:
    """Table of the ten slowest losses: time ÷ the least work of a pair loss."""
    results = {}
    for name, (study, spec, shape) in LOSSES.items():
        images, per_class, dimensions = shape or BATCHES[study]
        views = VIEWS if spec["class"] == "WithinPairLoss" else 1
        embeddings, labels = batch(images, per_class, dimensions, views)
        turns = {"ours": step(build_loss(spec, int(labels[-1]) + 1, dimensions), embeddings, labels)}
        turns["least"] = step(least_work, embeddings, labels)
        for run in turns.values():
            run()
        seconds = in_turn(turns, 2 if quick else 15)
        size = f"{study}: {images} images, {per_class} per class, {dimensions} dimensions"
        results[name] = (size + f", {views} views" * (views > 1), ratios(seconds["ours"], seconds["least"]))
    order = sorted(results, key=lambda name: -sorted(results[name][1])[len(results[name][1]) // 2])[:10]
    lines = ["| loss | batch | time ÷ least work |", "|---|---|---:|"]
    return lines + [f"| {name} | {results[name][0]} | {spread(results[name][1], 1)} |" for name in order]


def held(forward: Callable[[nn.Module, torch.Tensor], torch.Tensor], model: nn.Module, images: torch.Tensor) -> int:
    """Bytes kept for the gradient by a forward pass and its loss, without parameters. Shared storage counts once."""
    storages: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    labels = torch.arange(len(images)) // 2
    loss = WithinPairLoss(build_loss(CONTRASTIVE, 2, 128), 32)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        value = loss(forward(model, images), labels)
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    value.backward()
    return sum(size for storage, size in storages.items() if storage not in parameters)


def multi_view() -> str:
    """Memory of 8 passes × 8 masks ÷ memory of 64 passes."""
    from torchvision.models import resnet18

    model = nn.Sequential(resnet18(num_classes=128), nn.Dropout(0.1))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    images = torch.randn(4, 3, 32, 32)
    ours = held(MultiView(passes=8, masks=8, dropout=0.05), model, images)
    everything = held(MultiView(passes=VIEWS, masks=1, dropout=0.05), model, images)
    return f"{ours / everything:.3f}"


def section(quick: bool) -> str:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    lines = [
        "## Losses",
        "",
        "Forward and backward pass, one thread, with the batch size of the study. The table shows our ten slowest "
        "losses, compared with the least work that any pair loss must do: compute the similarities of the batch (in "
        "every view) and their gradient.",
        "",
        *slowest(quick),
        "",
        "The same values computed by plain loops, written as the definitions suggest:",
        "",
        *compared_with_loops(quick),
        "",
        f"The {VIEWS} views of within-pair mining are 8 passes with 8 masks each. For the gradient they "
        f"keep {multi_view()} times the memory of {VIEWS} passes (ResNet-18, 4 images of 32 × 32 pixels, including the "
        "loss).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a shortened run; its figures mean nothing")
    print(section(parser.parse_args().quick))


if __name__ == "__main__":
    main()
