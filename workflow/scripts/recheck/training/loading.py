"""Batches of images, identical for any number of loader processes.

A run lists what it will read as *tasks*: training batches and evaluated images, in the order in which it uses them. One
set of processes loads them ahead of time, from the start of the run to its end, so neither a new epoch nor an
evaluation waits for its first batch.
"""

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from recheck.data.packed import PackedImages
from recheck.errors import UserError
from recheck.training.seeding import derive

Transform = Callable[[np.ndarray, torch.Generator], torch.Tensor]


def loader_processes(config: Mapping[str, Any], threads: int) -> int:
    """Number of loader processes of a job: ``workers`` of the config, or the job's threads minus one."""
    return threads - 1 if config["workers"] is None else config["workers"]


class Task(NamedTuple):
    """A batch to load: the numbers of its images; in training also their labels and the run's step."""

    numbers: np.ndarray
    labels: np.ndarray | None = None
    step: int | None = None


def evaluation_tasks(numbers: np.ndarray, batch: int) -> list[Task]:
    """Consecutive batches of the images; the last one may be smaller."""
    return [Task(numbers[start : start + batch]) for start in range(0, len(numbers), batch)]


class Loading(Dataset):
    """Turns a task into a batch: ``augmented`` transforms its images if it has a step, ``evaluated`` if it has none.

    Every image has its own generator, seeded by (seed, fold, step, place in the batch) in training and by the image's
    number in an evaluation.
    """

    def __init__(
        self,
        images: PackedImages,
        evaluated: Transform | None = None,
        augmented: Transform | None = None,
        seed: int = 0,
        fold: int = 0,
    ):
        self.images, self.evaluated, self.augmented = images, evaluated, augmented
        self.seed, self.fold = seed, fold

    def __getitem__(self, task: Task) -> tuple[torch.Tensor, torch.Tensor | None]:
        generator, tensors = torch.Generator(), []
        transform = self.evaluated if task.step is None else self.augmented
        for place, number in enumerate(task.numbers.tolist()):
            training = task.step is not None
            generator.manual_seed(derive(self.seed, self.fold, "augment", task.step, place) if training else number)
            tensors.append(transform(self.images.image(number), generator))
        return torch.stack(tensors), None if task.labels is None else torch.from_numpy(task.labels)


class Batches:
    """The batches of tasks, in order, on the device.

    Loader processes start with the first batch and live until the context ends. The tasks themselves are drawn in this
    process, ahead of the batch that is used.
    """

    def __init__(self, loading: Loading, tasks: Iterable[Task], workers: int, device: torch.device):
        self.workers, self.device = workers, device
        on_gpu = device.type == "cuda"
        # A separate stream, so that a batch is copied while the one before it is computed.
        self.copies = torch.cuda.Stream(device) if on_gpu and torch.cuda.is_available() else None
        self.iterator = None
        self.loader = DataLoader(
            loading,
            sampler=tasks,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            pin_memory=on_gpu,
            # Without a generator the loader would draw from the global one and change the run.
            generator=torch.Generator().manual_seed(0),
        )

    def __enter__(self) -> "Batches":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        # Don't leave this to the garbage collector: a stored traceback would keep the workers alive, they block TERM,
        # and Python would wait for them at exit.
        if self.workers and self.iterator is not None:
            self.iterator._shutdown_workers()

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self.iterator is None:
            with _signals_left_to_parent():
                self.iterator = iter(self.loader)
        try:
            pixels, labels = next(self.iterator)
        except UserError as error:
            if not self.workers:
                raise
            message = str(error).rsplit("UserError: ", 1)[-1].strip()  # without the worker's traceback before it
        else:
            return self._copied(pixels), None if labels is None else self._copied(labels)
        raise UserError(message)

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.copies is None:
            return tensor.to(self.device, non_blocking=self.device.type == "cuda")
        with torch.cuda.stream(self.copies):
            copied = tensor.to(self.device, non_blocking=True)
        computing = torch.cuda.current_stream(self.device)
        computing.wait_stream(self.copies)
        copied.record_stream(computing)  # so that its memory is not reused before the computation has ended
        return copied


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


@torch.inference_mode()
def embed_batches(
    model: torch.nn.Module, batches: Iterable[tuple[torch.Tensor, None]], autocast: torch.autocast
) -> np.ndarray:
    """Float32 embeddings of the images, in order, with the model in evaluation mode.

    Embeddings stay on the device until the last batch: copying each batch to the host would wait for the device.
    """
    was_training = model.training
    model.eval()
    rows = []
    for pixels, _ in batches:
        with autocast:
            rows.append(model(pixels).float())
    model.train(was_training)
    return torch.cat(rows).cpu().numpy()


def embed(
    model: torch.nn.Module,
    images: PackedImages,
    numbers: np.ndarray,
    transform: Transform,
    batch: int,
    device: torch.device,
    autocast: torch.autocast,
    progress: Callable = iter,
    workers: int = 0,
) -> np.ndarray:
    """Float32 embeddings of the images with these numbers, in order, loaded by ``workers`` processes."""
    tasks = evaluation_tasks(numbers, batch)
    with Batches(Loading(images, evaluated=transform), tasks, workers, device) as batches:
        bar = progress(range(len(tasks)))
        return embed_batches(model, (loaded for _, loaded in zip(bar, batches, strict=False)), autocast)
