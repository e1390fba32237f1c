"""The training loop: fold data → batches → model → loss → optimisers → evaluation → best checkpoint.

A run depends only on its settings, seed, fold and data. Its state can be saved between any two steps, and a run
resumed from there produces results bit-identical to an uninterrupted one.
"""

import copy
import itertools
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from recheck.blame import user_code
from recheck.data import transforms
from recheck.data.fold import FoldData
from recheck.data.splits import searched
from recheck.errors import UserError
from recheck.evaluation.gpu_search import search_device
from recheck.evaluation.views import Measure
from recheck.methods.forward import build_forward
from recheck.methods.losses import build_loss, build_miner, compute_loss
from recheck.methods.optimisers import Together, build_optimisers, build_schedulers, keeping_gradients
from recheck.methods.relabelling import training_labels
from recheck.methods.samplers import build_sampler
from recheck.methods.samplers.passes import draw_pass
from recheck.models.embedding import LOSS, EmbeddingModel
from recheck.models.precision import at_least_float32
from recheck.names import watched_metrics
from recheck.parts import build
from recheck.progress import Progress
from recheck.sanity import Finding
from recheck.training import tf32
from recheck.training.checkpoint import StateFile
from recheck.training.compiled import compiled
from recheck.training.device import PRECISIONS, autocast, check_precision, parameters_of
from recheck.training.devices_used import note_device
from recheck.training.history import LEARNED, Events, Row, learned
from recheck.training.interrupt import Interrupted, StopNow, StopRequest
from recheck.training.loading import Batches, Loading, Task, embed_batches, evaluation_tasks
from recheck.training.saving import SAVE_EVERY, Saver
from recheck.training.seeding import derive, generator_of_pass, random_state, restore_random_state, seed_everything
from recheck.training.trial import Diverged
from recheck.training.watch import Watch, needs_pairs, random_frozen_batch_norm

log = logging.getLogger("recheck")
LOSS_SCALE = 2.0**16
"""Default of ``loss_scale``, the same as torch's."""


@dataclass
class Outcome:
    """A finished run: its chosen weights, including the state of its loss, and its history.

    If the test set selects the epoch, ``best_on_test`` holds the weights of the best epoch and ``weights`` holds the
    weights of the last one.
    """

    weights: dict[str, torch.Tensor]
    history: list[Row]
    best_epoch: int
    best_value: float | None
    best_on_test: dict[str, torch.Tensor] | None = None
    warnings: list[Finding] = field(default_factory=list)

    @property
    def best_row(self) -> Row:
        """Best epoch and its metrics."""
        row = next(row for row in self.history if row["epoch"] == self.best_epoch)
        others = ("step", "loss", "images_per_second")
        return {name: value for name, value in row.items() if name not in others and not name.startswith(LEARNED)}


@dataclass
class _Position:
    """Progress of a run. ``offset`` counts batches within the sampler's current pass."""

    epoch: int = 0
    step: int = 0
    step_in_epoch: int = 0
    drawn_passes: int = 0
    offset: int = 0
    loss_sum: float = 0.0
    best_epoch: int = 0
    best_value: float | None = None
    finished: bool = False
    history: list[Row] = field(default_factory=list)
    devices: list[dict[str, Any]] = field(default_factory=list)


class Run:
    """One training run of a (method, dataset, seed, fold), from pretrained weights to the best checkpoint."""

    def __init__(
        self,
        configuration: dict[str, Any],
        data: FoldData,
        seed: int,
        fold: int,
        device: torch.device,
        state: StateFile,
        events: Path,
        workers: int = 0,
        stop: StopRequest | None = None,
        name: str = "",
        save_every: float = SAVE_EVERY,
        clock: Callable[[], float] = time.monotonic,
        device_name: str = "",
    ):
        """``save_every`` is the number of seconds between two states, on the given clock."""
        self.configuration, self.data = configuration, data
        self.seed, self.fold = seed, fold
        self.device, self.workers = device, workers
        self.state_file, self.events_folder = state, events
        self.saver = Saver(state, save_every, clock)
        self.stop = stop or StopRequest()
        self.name, self.device_name = name, device_name
        self.schedule = configuration["schedule"]
        self.selection = configuration["selection"]
        self.watched = watched_metrics(self.selection)
        self.evaluation = configuration.get("evaluation", {})
        self.precision = configuration.get("precision", "float32")
        self.eval_transform = transforms.build(configuration["transforms"]["eval"])
        self.evaluation_seconds = math.inf  # unknown before this process has evaluated
        self.position = _Position()
        self.passes: dict[int, list[list[int]]] = {}
        self.train_indices = data.roles.get("train", np.empty(0, np.int64))
        labels = data.labels[self.train_indices]
        self.train_labels, self.num_classes = training_labels(configuration.get("relabel"), labels, seed, fold)

        check_precision(device, self.precision)
        tf32.warn_if_unavailable(device, self.precision)
        seed_everything(derive(seed, fold, "start"))
        with parameters_of(self.precision):
            self.model = EmbeddingModel(configuration["model"], num_classes=self.num_classes).to(device)
            if self.trains:
                self._build_training()
        self.best = _copy(self._weights) if self._selects else {}
        seed_everything(derive(seed, fold, "run"))

    @property
    def trains(self) -> bool:
        return self.schedule["epochs"] > 0

    def _build_training(self) -> None:
        configuration = self.configuration
        self.train_transform = transforms.build(configuration["transforms"]["train"])
        super_labels = None if self.data.super_labels is None else self.data.super_labels[self.train_indices]
        self.sampler = build_sampler(configuration["sampler"], self.train_labels, super_labels)
        self.projector, dim = None, self.model.dim
        if spec := configuration["model"].get("projector"):
            self.projector = build(spec, "projector", features=dim).to(self.device)
            dim = getattr(self.projector, "dim", spec.get("dim"))
            if dim is None:
                raise UserError("'model.projector' needs 'dim', the size of its output.")
        self.loss = build_loss(configuration["loss"], self.num_classes, dim).to(self.device)
        self.forward = build_forward(configuration.get("forward"))
        self.miner = build_miner(configuration.get("miner"))
        if self.miner is not None:
            self.miner.to(self.device)
        modules = {
            "backbone": self.model.backbone,
            "head": self.model.head,
            "projector": self.projector,
            "loss": self.loss,
        }
        modules = {name: module for name, module in modules.items() if module is not None}
        if configuration.get("compile"):
            self.model.run_backbone = compiled(self.model.backbone, self.device)
        self.warm_up = self.schedule.get("warm_up") or {"epochs": 0}
        if self.warm_up["epochs"] and self.schedule.get("train_affine_after_warm_up"):
            self.model.train_affine()
        self.backbone_parameters = [weight for weight in self.model.backbone.parameters() if weight.requires_grad]
        self.optimisers = build_optimisers(configuration["optimisers"], modules)
        self.schedulers = build_schedulers(
            configuration.get("lr_schedule"), self.optimisers, configuration["optimisers"]
        )
        self.keeping_gradients = keeping_gradients(configuration["optimisers"], self.optimisers)
        self.clip_gradient_norm = configuration.get("clip_gradient_norm")
        if self.clip_gradient_norm is not None and self.keeping_gradients:
            raise UserError(
                "'clip_gradient_norm' would shrink the gradients of earlier steps, which 'keep_gradients' keeps: "
                "remove one of the two."
            )
        self.scaler = torch.amp.GradScaler(
            self.device.type,
            init_scale=float(configuration.get("loss_scale", LOSS_SCALE)),
            enabled=PRECISIONS[self.precision] is torch.float16,
        )
        if self.warm_up["epochs"] and not set(self.optimisers) - {"backbone"}:
            raise UserError(
                "'schedule.warm_up' freezes the backbone, but no other module has trainable parameters: remove it."
            )
        always_warm = self.warm_up["epochs"] >= self.schedule["epochs"]
        self.watch = Watch(
            {
                name: [weight for group in optimiser.param_groups for weight in group["params"]]
                for name, optimiser in self.optimisers.items()
                if not (name == "backbone" and always_warm)
            },
            needs_pairs(self.loss, dim, self.num_classes),
            random_frozen_batch_norm(self.model),
        )

    @property
    def images_forwarded(self) -> int:
        """Images that training has passed through the network so far; an image counts once per pass."""
        if not self.trains:
            return 0
        return self.position.step * self.configuration["sampler"]["batch"] * getattr(self.forward, "passes", 1)

    @property
    def trainable_parameters(self) -> dict[str, int]:
        """Module → number of its parameters that an optimiser changes; those of a loss are proxies, for example."""
        if not self.trains:
            return {}
        return {
            name: sum(weight.numel() for group in optimiser.param_groups for weight in group["params"])
            for name, optimiser in self.optimisers.items()
        }

    @property
    def epoch_steps(self) -> int:
        """Steps in the current epoch."""
        return self._steps_of(self.position.epoch)

    def _steps_of(self, epoch: int) -> int:
        """Steps in an epoch: ``steps_per_epoch`` of the schedule, or one pass of the sampler."""
        return self.schedule.get("steps_per_epoch") or len(self._draw_pass(epoch))

    def train(self) -> Outcome:
        with self.state_file.refusing():
            self._resume()
        if not self.position.finished:
            position = self.position
            note_device(position.devices, self.device.type, self.device_name, position.epoch, position.step)
        events = Events(self.events_folder, len(self.position.history))
        try:
            with self.saver, self._loaded(self._tasks()) as self.batches:
                if not self.position.history:
                    self._end_epoch(events, self._evaluate(0))
                while self.trains and not self.position.finished:
                    self._train_epoch(events)
        finally:
            events.close()
        position = self.position
        chosen = (position.history, position.best_epoch, position.best_value)
        findings = self.watch.findings() if self.trains else []
        if not self._selects:
            return Outcome(_copy(self._weights), *chosen, warnings=findings)
        if self.selection["role"] == "test":
            return Outcome(_copy(self._weights), *chosen, best_on_test=self.best, warnings=findings)
        return Outcome(self.best, *chosen, warnings=findings)

    def take_step(self) -> tuple[torch.Tensor, torch.Tensor, float]:
        """Take the next training step; return its images, its labels and its loss."""
        self.model.train()
        pixels, labels = next(self._remaining_batches())
        return pixels, labels, self._step(pixels, labels)

    def evaluate(self) -> Row:
        """Metrics that training would compute now."""
        with self._loaded(self._evaluation_tasks()) as batches:
            return self._metrics(batches)

    def _train_epoch(self, events: Events) -> None:
        self.model.train()
        self._warm_up()
        position = self.position
        moment, first_step = time.perf_counter(), position.step_in_epoch
        batch, steps = self.configuration["sampler"]["batch"], self.epoch_steps
        total, done = self.schedule["epochs"] * steps * batch, position.step * batch
        name = f"{self.name} epoch {position.epoch + 1}".strip()
        with Progress(total=total, initial=done, unit="img", desc=name) as bar:
            while position.step_in_epoch < steps:
                loss = self._step(*next(self.batches))
                bar.set_postfix_str(f"loss {loss:.4g}", refresh=False)
                bar.update(batch)
                self._stop_if_asked()
                if self.saver.due(self._seconds_to_next_step):
                    self._save()
        images = (position.step_in_epoch - first_step) * batch
        speed = round(images / (time.perf_counter() - moment), 1)
        metrics = self._evaluate(position.epoch + 1)
        position.epoch += 1
        with warnings.catch_warnings():
            # PyTorch warns because the backbone's optimiser does not step during warm-up.
            warnings.filterwarnings("ignore", "Detected call of `lr_scheduler.step")
            for scheduler in self.schedulers.values():
                scheduler.step()
        self.watch.epoch()
        if self.warm_up["epochs"] + 1 == position.epoch < self.schedule["epochs"]:
            # Early, so that nobody waits for days for a run that learns nothing.
            for finding in self.watch.findings():
                log.warning("After epoch %d: %s", position.epoch, finding["text"])
        self._end_epoch(events, metrics, speed)

    @property
    def _seconds_to_next_step(self) -> float:
        """Expected duration of an evaluation before the next step, or 0; no state can be taken during it."""
        position = self.position
        evaluates = position.step_in_epoch == self.epoch_steps and self._evaluates(position.epoch + 1)
        return self.evaluation_seconds if evaluates else 0.0

    @property
    def _warm(self) -> bool:
        return self.position.epoch < self.warm_up["epochs"]

    def _warm_up(self) -> None:
        """Freeze the backbone's weights in the first epochs; batch norm behaves as in normal training.

        Afterwards the same parameters train as without warm-up; with ``train_affine_after_warm_up`` also the frozen
        scales and shifts of batch norm, which one published program begins to train here by mistake.
        ``fresh_optimisers`` then clears the optimisers' moments; learning rates follow the schedule. Called before the
        first step of each epoch, so that a run resumed at the end of an epoch does it too.
        """
        for parameter in self.backbone_parameters:
            parameter.requires_grad_(not self._warm)
        first = self.position.epoch == self.warm_up["epochs"] > 0 and self.position.step_in_epoch == 0
        if first and self.warm_up.get("fresh_optimisers"):
            for optimiser in self.optimisers.values():
                optimiser.state.clear()

    def _step(self, pixels: torch.Tensor, labels: torch.Tensor) -> float:
        position = self.position
        with autocast(self.device, self.precision):
            with user_code("forward pass", self.forward, images=pixels):
                embeddings = self.forward(self.model, pixels)
            if self.projector is not None:
                with user_code("projector", self.projector, embeddings=embeddings):
                    embeddings = at_least_float32(self.projector(embeddings))
        loss = compute_loss(self.loss, self.miner, embeddings, labels)
        value = loss.item()
        if not math.isfinite(value):
            raise Diverged(
                f"The loss became {value} at step {position.step + 1} (epoch {position.epoch + 1}): lower "
                "'optimisers.*.lr' or check the settings of the loss.",
                self.saver.kept(),
            )
        for name, optimiser in self.optimisers.items():
            if name not in self.keeping_gradients:
                optimiser.zero_grad(set_to_none=True)
        with tf32.backward_pass(self.precision):
            self.scaler.scale(loss).backward()
        self.watch.gradients()
        # one decision for all: an overflow anywhere skips the whole step
        stepping = Together(each for name, each in self.optimisers.items() if name != "backbone" or not self._warm)
        if self.clip_gradient_norm is not None:
            self.scaler.unscale_(stepping)
            clip_grad_norm_(stepping.parameters, self.clip_gradient_norm)
        self.scaler.step(stepping)
        self.scaler.update()
        self._forget_overflow()
        self.watch.batch(self.train_labels[self._advance(position)], value)
        position.loss_sum += value
        return value

    def _forget_overflow(self) -> None:
        """Clear kept gradients that are not finite: they would otherwise prevent every later step."""
        if self.scaler.is_enabled():
            for name in self.keeping_gradients:
                if not all(
                    gradient is None or gradient.isfinite().all() for gradient in gradients(self.optimisers[name])
                ):
                    self.optimisers[name].zero_grad(set_to_none=True)

    def _advance(self, position: _Position) -> list[int]:
        """Move a position by one step, if necessary into the sampler's next pass; return the batch of this step."""
        if position.offset >= len(self._draw_pass(position.drawn_passes)):
            position.drawn_passes += 1
            position.offset = 0
        batch = self._draw_pass(position.drawn_passes)[position.offset]
        position.step += 1
        position.step_in_epoch += 1
        position.offset += 1
        return batch

    def _tasks(self) -> Iterator[Task]:
        """Everything that the run reads from here to its last epoch, in the order in which it is used."""
        position = copy.copy(self.position)
        if not position.history and self._evaluates(0):
            yield from self._evaluation_tasks()
        while self.trains and not position.finished:
            yield from self._training_tasks(position)
            position.epoch += 1
            position.step_in_epoch = 0
            position.finished = position.epoch >= self.schedule["epochs"]
            if self._evaluates(position.epoch):
                yield from self._evaluation_tasks()

    def _training_tasks(self, position: _Position) -> Iterator[Task]:
        """Training batches up to the end of the epoch; each one advances the position."""
        while position.step_in_epoch < self._steps_of(position.epoch):
            step, batch = position.step, self._advance(position)
            yield Task(self.train_indices[batch], self.train_labels[batch], step)

    def _evaluation_tasks(self) -> Iterator[Task]:
        for role in self.watched:
            yield from evaluation_tasks(self._evaluated(role), self.configuration["sampler"]["batch"])

    def _loaded(self, tasks: Iterator[Task]) -> Batches:
        augmented = self.train_transform if self.trains else None
        loading = Loading(self.data.images, self.eval_transform, augmented, self.seed, self.fold)
        return Batches(loading, tasks, self.workers, self.device)

    def _remaining_batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Training batches up to the end of the epoch."""
        with self._loaded(self._training_tasks(copy.copy(self.position))) as batches:
            yield from batches

    def _draw_pass(self, number: int) -> list[list[int]]:
        """Batches of a pass, kept until training has taken the last step of it, because loading runs ahead."""
        if number not in self.passes:
            drawn = draw_pass(self.sampler, number, partial(generator_of_pass, self.seed, self.fold))
            self.passes = {n: p for n, p in self.passes.items() if n >= self.position.drawn_passes} | {number: drawn}
        return self.passes[number]

    def _end_epoch(self, events: Events, metrics: Row, speed: float | None = None) -> None:
        """Keep the best weights and decide whether to stop; ``speed`` is None before training."""
        position = self.position
        row: Row = {"epoch": position.epoch, "step": position.step, "loss": None}
        if speed is not None:
            row["loss"] = position.loss_sum / position.step_in_epoch
            row["images_per_second"] = speed
        row.update(metrics)
        row.update(learned(self.loss) if self.trains else {})
        better = False
        if not self._selects:
            position.best_epoch = position.epoch
        elif metrics:
            value = row[f"{self.selection['role']}_{self.selection['metric']}"]
            if position.best_value is None or value > position.best_value:
                position.best_epoch, position.best_value = position.epoch, value
                self.best = _copy(self._weights)
                better = True
        position.history.append(row)
        position.step_in_epoch, position.loss_sum = 0, 0.0
        position.finished = position.epoch >= self.schedule["epochs"] or self._out_of_patience()
        events.add(row)
        log.info("Epoch %d: %s", position.epoch, {key: value for key, value in row.items() if key != "epoch"})
        # A run that has ended before its first state is due needs none.
        wanted = (position.finished and self.state_file.exists()) or (better and self.saver.cheap())
        if self.trains and (self.saver.due() or wanted):
            self._save()

    @property
    def _selects(self) -> bool:
        """Whether the run selects its best epoch. An ensemble selects its number of members later instead."""
        return self.trains and self.selection.get("role") is not None and self.selection.get("what") != "members"

    def _evaluates(self, epoch: int) -> bool:
        last = epoch == self.schedule["epochs"]
        return self.trains and bool(self.watched) and (last or epoch % self.schedule["evaluate_every"] == 0)

    def _out_of_patience(self) -> bool:
        patience = self.schedule.get("patience")
        position = self.position
        if patience is None or not self._selects or not self._evaluates(position.epoch):
            return False
        return position.epoch - position.best_epoch > patience

    def _evaluate(self, epoch: int) -> Row:
        """Metrics that select the epoch, and metrics that are only recorded; empty if the epoch is not evaluated.

        This is called before the epoch is counted, so that a run stopped here resumes with the evaluation.
        """
        if not self._evaluates(epoch):
            return {}
        started = self.saver.clock()
        try:
            with self.stop.at_once():
                metrics = self._metrics(self.batches)
        except StopNow:
            raise self._interrupted(self.stop.signal_number) from None
        self.evaluation_seconds = self.saver.clock() - started
        return metrics

    def _metrics(self, batches: Batches) -> Row:
        return {
            f"{role}_{name}": value
            for role, names in self.watched.items()
            for name, value in self._metrics_of(role, names, batches).items()
        }

    def _evaluated(self, role: str) -> np.ndarray:
        """Numbers of the images that an evaluation of the role embeds."""
        return np.concatenate([self.data.roles[name] for name in searched(self.data.roles, role)])

    def _metrics_of(self, role: str, names: list[str], batches: Batches) -> dict[str, float]:
        sets = [self.data.roles[name] for name in searched(self.data.roles, role)]
        indices = self._evaluated(role)
        count = math.ceil(len(indices) / self.configuration["sampler"]["batch"])
        embeddings = embed_batches(self.model, itertools.islice(batches, count), autocast(self.device, self.precision))
        if not np.isfinite(embeddings).all():
            raise Diverged(
                f"The model produced non-finite embeddings after step {self.position.step}: lower 'optimisers.*.lr'.",
                self.saver.kept(),
            )
        measure = Measure(
            self.data.labels[indices],
            gallery=len(sets[1]) if len(sets) > 1 else 0,
            unit=self.evaluation.get("normalise", True),
            clusters=self.evaluation.get("clustering"),
            curvature=self.evaluation.get("curvature"),
            device=search_device(self.device.type, len(sets[0]), len(sets[-1]), embeddings.shape[1]),
        )
        return measure(measure.prepare(embeddings), names)

    def _stop_if_asked(self) -> None:
        if (number := self.stop.signal_number) is not None:
            raise self._interrupted(number)

    def _interrupted(self, number: int) -> Interrupted:
        """Write the state, and return the exception that ends a run stopped by a signal."""
        self._save()
        self.saver.wait()
        return Interrupted(number, self.position.step)

    @property
    def _weights(self) -> dict[str, torch.Tensor]:
        """Weights of the model and, with a prefix, the state of the loss, which are stored in one file."""
        of_loss = self.loss.state_dict() if self.trains else {}
        return {**self.model.state_dict(), **{f"{LOSS}{name}": tensor for name, tensor in of_loss.items()}}

    @property
    def _stateful(self) -> dict[str, torch.nn.Module]:
        modules = {"model": self.model, "projector": self.projector, "loss": self.loss, "miner": self.miner}
        return {name: module for name, module in modules.items() if module is not None}

    def _save(self) -> None:
        """Save everything that the next step depends on; a thread writes it while the run continues."""
        self.saver.save(
            {
                "position": vars(self.position),
                "parts": {name: module.state_dict() for name, module in self._stateful.items()},
                "hidden": {name: hidden_tensors(module) for name, module in self._stateful.items()},
                "scaler": self.scaler.state_dict(),
                "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
                "gradients": {name: gradients(self.optimisers[name]) for name in sorted(self.keeping_gradients)},
                "schedulers": {name: scheduler.state_dict() for name, scheduler in self.schedulers.items()},
                "watch": self.watch.state(),
                "random": random_state(),
            },
            best=self.best,
        )

    def _resume(self) -> None:
        state = self.state_file.load() if self.trains else None
        if state is None:
            return
        self.position = _Position(**state["position"])
        self.best = state["best"]
        for name, module in self._stateful.items():
            module.load_state_dict(state["parts"][name])
            restore_hidden_tensors(module, state["hidden"][name], self.device)
        self.scaler.load_state_dict(state["scaler"])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        for name in self.keeping_gradients:
            restore_gradients(self.optimisers[name], state["gradients"][name])
        for name, scheduler in self.schedulers.items():
            scheduler.load_state_dict(state["schedulers"][name])
        if "watch" in state:  # states of version 0.1 have no watch
            self.watch.resume(state["watch"])
        restore_random_state(state["random"])
        log.info("Resuming at epoch %d, step %d", self.position.epoch, self.position.step)


def gradients(optimiser: torch.optim.Optimizer) -> list[torch.Tensor | None]:
    """Gradients of an optimiser's parameters, in order."""
    return [parameter.grad for group in optimiser.param_groups for parameter in group["params"]]


def restore_gradients(optimiser: torch.optim.Optimizer, stored: list[torch.Tensor | None]) -> None:
    parameters = (parameter for group in optimiser.param_groups for parameter in group["params"])
    for parameter, gradient in zip(parameters, stored, strict=True):
        parameter.grad = None if gradient is None else gradient.to(parameter.device)


def hidden_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Tensors stored as plain attributes (a miner's running histogram, …), which ``state_dict`` leaves out."""
    return {
        f"{prefix}:{name}": value.detach()
        for prefix, submodule in module.named_modules()
        for name, value in vars(submodule).items()
        if isinstance(value, torch.Tensor)
    }


def restore_hidden_tensors(module: torch.nn.Module, tensors: dict[str, torch.Tensor], device: torch.device) -> None:
    """Set the attributes; a tensor that the new module does not have yet goes to the run's device."""
    submodules = dict(module.named_modules())
    for key, value in tensors.items():
        prefix, name = key.rsplit(":", 1)
        old = getattr(submodules[prefix], name, None)
        setattr(submodules[prefix], name, value.to(device if old is None else old.device))


def _copy(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in weights.items()}
