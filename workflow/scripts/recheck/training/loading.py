"""Batches of augmented images, identical for any number of loader workers."""

import contextlib
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
    """Item i is batch i of the list; each image in it is augmented with a separately seeded generator."""

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


@contextlib.contextmanager
def _signals_left_to_parent() -> Iterator[None]:
    """Block TERM and INT for workers that start in this context, from their first moment to their last.

    A signal to the process group must not kill them before the run saves. This process gets the signal afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
    """Yield the given batches in order; ``first_step`` is the run's step number of the first one."""
    dataset = _Batches(images, indices, labels, batches, first_step, transform, seed, fold)
    # Pass a generator: the loader would otherwise draw from the global one and change the run.
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(0),
    )
    with _signals_left_to_parent():
        iterator, message = iter(loader), None
    try:
        for pixels, targets in iterator:
            yield pixels.to(device, non_blocking=True), targets.to(device, non_blocking=True)
    except UserError as error:  # torch prepends a worker's traceback to its message
        message = str(error).rsplit("UserError: ", 1)[-1].strip()
    finally:
        # Don't leave this to the garbage collector: a stored traceback would keep the workers alive, they block TERM,
        # and Python would wait for them at exit.
        if workers:
            iterator._shutdown_workers()
    if message is not None:
        raise UserError(message)


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
    """Float32 embeddings of the images, in the given order, with the model in evaluation mode."""
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
