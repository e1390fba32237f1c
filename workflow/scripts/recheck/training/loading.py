"""Batches of augmented images, the same whatever the number of loader workers."""

import signal
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from recheck.data.packed import PackedImages
from recheck.errors import UserError
from recheck.training.seeding import derive

Transform = Callable[[np.ndarray, torch.Generator], torch.Tensor]


class _Batches(Dataset):
    """Item i is batch i of the list, augmented with a generator of its own for each position."""

    def __init__(self, images, indices, labels, batches, first_step, transform, seed, fold):
        self.images: PackedImages = images
        self.indices, self.labels, self.batches = indices, labels, batches
        self.first_step, self.transform = first_step, transform
        self.seed, self.fold = seed, fold

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        positions = self.batches[number]
        generator = torch.Generator()
        tensors = []
        for place, position in enumerate(positions):
            generator.manual_seed(derive(self.seed, self.fold, "augment", self.first_step + number, place))
            tensors.append(self.transform(self.images.image(int(self.indices[position])), generator))
        return torch.stack(tensors), torch.from_numpy(self.labels[positions])


def _leave_signals_to_parent(worker: int) -> None:
    """A signal to the whole process group must not kill the loader before the run has saved its state."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def training_batches(
    images: PackedImages,
    indices: np.ndarray,
    labels: np.ndarray,
    batches: list[list[int]],
    first_step: int,
    transform: Transform,
    seed: int,
    fold: int,
    workers: int,
    device: torch.device,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The given batches in order; ``first_step`` is the run's step number of the first."""
    dataset = _Batches(images, indices, labels, batches, first_step, transform, seed, fold)
    # The generator is given so that the loader does not draw from the global one, which belongs to the run.
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
        worker_init_fn=_leave_signals_to_parent,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(0),
    )
    iterator, sentence = iter(loader), None
    try:
        for pixels, targets in iterator:
            yield pixels.to(device, non_blocking=True), targets.to(device, non_blocking=True)
    except UserError as error:  # of a worker: torch puts its traceback before the sentence
        sentence = str(error).rsplit("UserError: ", 1)[-1].strip()
    finally:
        # Not left to the garbage collector: who keeps a traceback keeps the workers, which ignore being terminated, and
        # Python would wait for them when it exits.
        if workers:
            iterator._shutdown_workers()
    if sentence is not None:
        raise UserError(sentence)


@torch.inference_mode()
def embed(
    model: torch.nn.Module,
    images: PackedImages,
    indices: np.ndarray,
    transform: Transform,
    batch: int,
    device: torch.device,
    autocast: torch.autocast,
    progress: Callable = iter,
) -> np.ndarray:
    """Embeddings (float32) of the images, in the order given; the model is in evaluation mode meanwhile."""
    was_training = model.training
    model.eval()
    generator = torch.Generator()
    rows = []
    for start in progress(range(0, len(indices), batch)):
        chosen = indices[start : start + batch]
        pixels = torch.stack([transform(images.image(int(index)), generator) for index in chosen])
        with autocast:
            rows.append(model(pixels.to(device)).float().cpu().numpy())
    model.train(was_training)
    return np.concatenate(rows)
