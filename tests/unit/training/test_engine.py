"""The engine learns, selects the best epoch, and resumes bit-identically after any interruption."""

import itertools
import os
import random
import signal
import threading
from concurrent.futures import wait

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from recheck.data.fold import FoldData
from recheck.errors import UserError
from recheck.models.embedding import network_weights
from recheck.training.checkpoint import StateFile, _Hashed
from recheck.training.engine import Run
from recheck.training.interrupt import Interrupted, StopRequest
from support.faults.crashes import KILLED, crash, forked
from support.project.runs import CONFIGURATION, CPU, StopAfter, make_run, packed_glyphs, same, with_
from support.project.small_net import SmallNet
from support.suite.hang import children_end

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glyphs")
    images, labels = packed_glyphs(folder, classes=10)
    roles = {"train": np.flatnonzero(labels < 6), "val": np.flatnonzero(labels >= 6)}
    return FoldData(images, labels, roles)


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    return make_run(data, tmp_path_factory.mktemp("undisturbed")).train()


@pytest.mark.parametrize("steps", [1, 4, 5, 6, 13, 15])
def test_a_stopped_run_resumes_bit_identically(data, tmp_path, undisturbed, steps):
    with pytest.raises(Interrupted, match=f"at step {steps}, state saved"):
        make_run(data, tmp_path, stop=StopAfter(steps)).train()
    same(make_run(data, tmp_path).train(), undisturbed)


def test_a_run_lists_the_devices_that_it_has_used(data, tmp_path):
    """The run stops in its second epoch and resumes on another device, on which it stops once more."""
    for name, steps in (("A100", 7), ("H100", 2)):
        with pytest.raises(Interrupted):
            make_run(data, tmp_path, device_name=name, stop=StopAfter(steps)).train()
    run = make_run(data, tmp_path, device_name="H100")
    run.train()
    assert run.position.devices == [
        {"device": "cpu", "name": "A100", "from_epoch": 0, "from_step": 0},
        {"device": "cpu", "name": "H100", "from_epoch": 2, "from_step": 7},
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.clear(),
        lambda state: state["parts"]["model"].popitem(),
        lambda state: state["parts"]["model"].update({"head.bias": torch.ones(3)}),
        lambda state: state["optimisers"].update(head={}),
        lambda state: state.update(position={"odd": 1}),
    ],
)
def test_an_intact_state_that_does_not_fit_is_refused_in_one_sentence(data, tmp_path, change):
    with pytest.raises(Interrupted):
        make_run(data, tmp_path, stop=StopAfter(2)).train()
    run = make_run(data, tmp_path)
    state = run.state_file.load()
    change(state)
    run.state_file.save(state)
    with pytest.raises(
        UserError, match=r"The state in .*state does not fit this run: delete this folder and run again"
    ):
        run.train()


class Impatient(SmallNet):
    """A backbone that receives TERM while it embeds the images of an evaluation."""

    calls, last = 0, None

    def forward(self, images):
        if not self.training:
            Impatient.calls += 1
            if Impatient.calls == Impatient.last:
                signal.raise_signal(signal.SIGTERM)
        return super().forward(images)


@pytest.fixture
def listening():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield StopRequest().listen()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("batch", "step"), [(2, 0), (4, 5), (12, 15)])
def test_a_signal_ends_an_evaluation_at_once_and_the_run_resumes_bit_identically(
    data, tmp_path, undisturbed, listening, monkeypatch, batch, step
):
    """An evaluation has three batches: the start is evaluated, then each of three epochs."""
    backbone = {**CONFIGURATION["model"]["backbone"], "name": f"{__name__}:Impatient"}
    configuration = with_(model={**CONFIGURATION["model"], "backbone": backbone})
    monkeypatch.setattr(Impatient, "calls", 0)
    monkeypatch.setattr(Impatient, "last", batch)
    with pytest.raises(Interrupted, match=f"SIGTERM at step {step}, state saved"):
        make_run(data, tmp_path, configuration, stop=listening).train()
    assert Impatient.calls == batch, "no further batch was embedded"
    same(make_run(data, tmp_path, configuration).train(), undisturbed)


def test_learned_parameters_of_the_loss_are_recorded_and_kept(data, tmp_path, undisturbed):
    norms = [row["loss_proxies_norm"] for row in undisturbed.history]
    assert len(set(norms)) == len(norms) == 4, "the proxies are trained in every epoch"
    kept = undisturbed.weights["loss/proxies"]
    assert kept.shape == (6, 16)
    assert torch.linalg.vector_norm(kept).item() == pytest.approx(norms[undisturbed.best_epoch], rel=1e-6)
    events = EventAccumulator(str(tmp_path / "events"))
    make_run(data, tmp_path).train()
    values = [event.value for event in events.Reload().Scalars("loss_proxies_norm")]
    assert values == pytest.approx(norms, rel=1e-6)


class Drifting(torch.nn.Module):
    """A loss with a running mean stored as a plain attribute, outside its state_dict."""

    def __init__(self):
        super().__init__()
        self.centre = torch.zeros(16)

    def forward(self, embeddings, labels, mined=None):
        self.centre = 0.9 * self.centre + 0.1 * embeddings.detach().mean(0)
        return (embeddings - self.centre).square().mean() + embeddings[labels == labels[0]].var()


def test_a_loss_with_tensors_outside_its_state_dict_resumes_bit_identically(data, tmp_path):
    optimisers = {name: CONFIGURATION["optimisers"][name] for name in ("backbone", "head")}
    configuration = with_(
        loss={"class": f"{__name__}:Drifting"},
        miner={"class": "MultiSimilarityMiner", "epsilon": 0.1},
        optimisers=optimisers,
    )
    expected = make_run(data, tmp_path / "a", configuration).train()
    with pytest.raises(Interrupted):
        make_run(data, tmp_path / "b", configuration, stop=StopAfter(7)).train()
    same(make_run(data, tmp_path / "b", configuration).train(), expected)


def test_several_views_per_image_resume_bit_identically(data, tmp_path):
    """Within-pair mining draws dropout masks in every step, in the model and after it."""
    loss = {"class": "MarginLoss", "margin": 0.2, "beta": 0.9, "learn_beta": True, "num_classes": None}
    configuration = with_(
        model={**CONFIGURATION["model"], "batch_norm": "frozen", "channel_dropout": 0.1},
        loss={"class": "WithinPairLoss", "sharpness": 32, "loss": loss},
        forward={"class": "MultiView", "passes": 3, "masks": 2, "dropout": 0.05},
    )
    expected = make_run(data, tmp_path / "a", configuration).train()
    with pytest.raises(Interrupted):
        make_run(data, tmp_path / "b", configuration, stop=StopAfter(7)).train()
    same(make_run(data, tmp_path / "b", configuration).train(), expected)
    assert expected.history[-1]["loss"] < expected.history[1]["loss"]


def test_stopped_after_every_second_step(data, tmp_path, undisturbed):
    for _ in range(7):
        with pytest.raises(Interrupted):
            make_run(data, tmp_path, stop=StopAfter(2)).train()
    same(make_run(data, tmp_path).train(), undisturbed)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_number_of_loader_workers_does_not_matter(data, tmp_path, undisturbed, workers):
    with pytest.raises(Interrupted):
        make_run(data, tmp_path, stop=StopAfter(7), workers=workers).train()
    same(make_run(data, tmp_path, workers=3 - workers).train(), undisturbed)


class Traced:
    """Images that note which process reads them."""

    def __init__(self, images, notes):
        self.images, self.notes = images, notes

    def image(self, number):
        with self.notes.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return self.images.image(number)


def test_loader_workers_live_for_all_epochs_and_evaluations(data, tmp_path, undisturbed):
    traced = FoldData(Traced(data.images, tmp_path / "notes"), data.labels, data.roles)
    same(make_run(traced, tmp_path, workers=2).train(), undisturbed)
    readers = set((tmp_path / "notes").read_text().split())
    assert len(readers) == 2
    assert str(os.getpid()) not in readers
    assert children_end()


def test_a_run_killed_at_random_moments_resumes_bit_identically(data, tmp_path, undisturbed):
    """SIGKILL leaves no time to react. A short run mostly writes its state, so kills also hit writes."""
    chance, codes = random.Random(0), []
    for attempt in range(5):
        run = make_run(data, tmp_path, workers=attempt % 2)
        codes.append(crash(run.train, chance.randrange(10, 18)))
    assert set(codes) <= {0, KILLED}
    assert codes.count(KILLED) >= 3, "the children finished before they were killed, so nothing was tested"
    assert StateFile(tmp_path / "state", "f").load(), (
        "no child saved its state before it was killed, so nothing was tested"
    )
    same(make_run(data, tmp_path).train(), undisturbed)


def test_killed_while_a_state_is_written_beside_training(data, tmp_path, undisturbed, monkeypatch):
    """The second state is half written when the run has taken another step; then the process is killed."""
    states, saves, half_written, went_on = [], [], threading.Event(), threading.Event()
    write, step = _Hashed.write, Run._step

    def slow_write(file, block):
        if len(states) == 2 and len(block) > 1000:
            file.file.write(block[:1000])
            file.file.flush()
            half_written.set()
            went_on.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        return write(file, block)

    def noted_step(run, *batch):
        if run.saver.writing is not None and run.saver.writing not in saves:
            saves.append(run.saver.writing)
        if len(saves) == 1:
            wait(saves)  # or the run might end before the second state is due
        elif len(saves) == 2:
            half_written.wait()
        loss = step(run, *batch)
        if len(saves) == 2:
            went_on.set()
        return loss

    def save(file, state):
        states.append(state["position"]["step"])
        StateFile.save(file, state)

    run = make_run(data, tmp_path, save_every=1, clock=itertools.count().__next__)
    run.state_file.save = save.__get__(run.state_file)
    monkeypatch.setattr(_Hashed, "write", slow_write)
    monkeypatch.setattr(Run, "_step", noted_step)
    assert forked(run.train) == -signal.SIGKILL
    monkeypatch.undo()
    (half,) = (tmp_path / "state").glob(".state.bin.*")
    assert 1000 < half.stat().st_size < (tmp_path / "state" / "state.bin").stat().st_size
    same(make_run(data, tmp_path).train(), undisturbed)
    assert not half.exists()


def test_states_are_saved_by_time_in_the_middle_of_an_epoch(data, tmp_path, undisturbed):
    """Ten seconds pass in every step; a state is due after a minute, and at the end of a run that has one.

    A resumed run does not know how long an evaluation takes, so it saves before its first one. Writing takes no time
    here, so a state is also saved when the best changes.
    """
    saved, seconds = [], [0]

    class Paced(Run):
        def _step(self, *batch):
            loss = super()._step(*batch)
            if self.saver.writing is not None:
                wait([self.saver.writing])
            seconds[0] += 10
            return loss

    class Noted(StateFile):
        def save(self, state):
            saved.append((state["position"]["epoch"], state["position"]["step"]))
            super().save(state)

    def paced(kind=Paced, folder="state", **more):
        return kind(CONFIGURATION, data, 0, 1, CPU, Noted(tmp_path / folder, "f"), tmp_path / "events", **more)

    with pytest.raises(Interrupted):
        paced(clock=lambda: seconds[0], stop=StopAfter(13)).train()
    assert saved == [(1, 6), (2, 12), (2, 13)]
    (tmp_path / "state" / "state.bin").unlink()
    same(paced(clock=lambda: 0).train(), undisturbed)
    assert saved[3:] == [(2, 15), (3, 15)]

    class Improving(Paced):
        def _metrics(self, batches):
            return super()._metrics(batches) | {"val_MAP@R": self.position.step}

    saved.clear()
    paced(Improving, "improving", clock=lambda: seconds[0]).train()
    assert saved == [(1, 6), (2, 10), (3, 15)]


@pytest.mark.parametrize(("seconds", "saved"), [(10, None), (61, 5)])
def test_killed_in_an_evaluation(data, tmp_path, undisturbed, seconds, saved):
    """The state before an evaluation is on the disk if the last one would be more than a minute old after it."""
    clock = [0]

    class Slow(Run):
        def _step(self, *batch):
            clock[0] += 0.1
            return super()._step(*batch)

        def _metrics(self, batches):
            if self.position.step:
                if self.saver.writing is not None:
                    wait([self.saver.writing])
                os.kill(os.getpid(), signal.SIGKILL)
            clock[0] += seconds
            return super()._metrics(batches)

    run = Slow(
        CONFIGURATION, data, 0, 1, CPU, StateFile(tmp_path / "state", "f"), tmp_path / "e", clock=lambda: clock[0]
    )
    assert forked(run.train) == -signal.SIGKILL
    state = StateFile(tmp_path / "state", "f").load()
    assert (state and state["position"]["step"]) == saved
    same(make_run(data, tmp_path).train(), undisturbed)


def test_a_run_that_ends_before_its_first_state_is_due_writes_none(data, tmp_path, undisturbed):
    same(make_run(data, tmp_path, save_every=60, clock=lambda: 0).train(), undisturbed)
    assert not (tmp_path / "state").exists()


def test_killed_in_the_middle_of_a_state_write(data, tmp_path, undisturbed):
    """A kill during a save leaves a half-written temporary file and only the previous state."""
    with pytest.raises(Interrupted):
        make_run(data, tmp_path, stop=StopAfter(9)).train()
    state = tmp_path / "state"
    whole = (state / "state.bin").read_bytes()
    (state / ".state.bin.half.bin").write_bytes(whole[: len(whole) // 2])
    (state / "state.bin").unlink()
    assert (state / "previous.bin").exists()
    same(make_run(data, tmp_path).train(), undisturbed)


def test_a_finished_run_is_not_trained_again(data, tmp_path, undisturbed):
    make_run(data, tmp_path).train()
    again = make_run(data, tmp_path)
    again._step = None
    same(again.train(), undisturbed)


def test_other_settings_start_from_the_beginning(data, tmp_path, undisturbed):
    with pytest.raises(Interrupted):
        make_run(data, tmp_path, with_(loss={"class": "NTXentLoss"}), fingerprint="g", stop=StopAfter(7)).train()
    same(make_run(data, tmp_path).train(), undisturbed)


def test_another_seed_or_fold_is_another_run(data, tmp_path, undisturbed):
    other = Run(CONFIGURATION, data, 1, 1, CPU, StateFile(tmp_path / "s", "f"), tmp_path / "e").train()
    assert other.history[-1]["loss"] != undisturbed.history[-1]["loss"]
    other = Run(CONFIGURATION, data, 0, 0, CPU, StateFile(tmp_path / "t", "f"), tmp_path / "e").train()
    assert other.history[-1]["loss"] != undisturbed.history[-1]["loss"]


def test_it_learns(data, tmp_path):
    long = with_(schedule={"epochs": 6, "steps_per_epoch": 10, "evaluate_every": 3}, lr_schedule=None)
    outcome = make_run(data, tmp_path, long).train()
    losses = [row["loss"] for row in outcome.history[1:]]
    assert losses[-1] < 0.8 * losses[0]
    assert [row["epoch"] for row in outcome.history] == list(range(7))
    assert [row["epoch"] for row in outcome.history if "val_MAP@R" in row] == [0, 3, 6]


def test_the_best_checkpoint_is_kept_and_belongs_to_its_value(data, tmp_path, undisturbed):
    values = [row["val_MAP@R"] for row in undisturbed.history]
    assert undisturbed.best_value == max(values)
    assert undisturbed.best_epoch == values.index(max(values))
    run = make_run(data, tmp_path)
    run.model.load_state_dict(network_weights(undisturbed.weights))
    assert run.evaluate()["val_MAP@R"] == undisturbed.best_value


def test_without_selection_the_last_epoch_is_used(data, tmp_path):
    outcome = make_run(data, tmp_path, with_(selection={})).train()
    assert outcome.best_epoch == 3
    assert outcome.best_value is None


def test_patience_stops_a_run_that_no_longer_improves(data, tmp_path):
    """With a learning rate of zero nothing improves: epoch 0 stays the best."""
    still = {name: {"class": "SGD", "lr": 0.0} for name in ("backbone", "head", "loss")}
    model = {**CONFIGURATION["model"], "batch_norm": "frozen"}
    schedule = {"epochs": 50, "steps_per_epoch": 1, "evaluate_every": 2, "patience": 3}
    outcome = make_run(
        data, tmp_path, with_(model=model, optimisers=still, schedule=schedule, lr_schedule=None)
    ).train()
    assert outcome.best_epoch == 0
    assert outcome.history[-1]["epoch"] == 4


def test_zero_epochs(data, tmp_path):
    configuration = {key: CONFIGURATION[key] for key in ("model", "transforms", "selection")}
    outcome = make_run(data, tmp_path, {**configuration, "schedule": {"epochs": 0, "evaluate_every": 1}}).train()
    assert outcome.best_epoch == 0
    assert len(outcome.history) == 1
    assert not (tmp_path / "state").exists()


def test_a_loss_that_is_not_finite_stops_with_the_step_and_keeps_the_last_good_state(data, tmp_path):
    wild = {name: {"class": "SGD", "lr": 1e30} for name in ("backbone", "head", "loss")}
    with pytest.raises(
        UserError, match=r"(The loss became (nan|inf) at step \d+|non-finite embeddings after step \d+)"
    ):
        make_run(data, tmp_path, with_(optimisers=wild)).train()
    state = StateFile(tmp_path / "state", "f").load()
    assert state["position"]["epoch"] == 0
    assert all(torch.isfinite(tensor).all() for tensor in state["best"].values())


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_low_precision_trains_and_gives_losses_float32(data, tmp_path, precision):
    seen = []
    run = make_run(data, tmp_path, with_(precision=precision))
    run.loss.register_forward_pre_hook(lambda module, args: seen.append(args[0].dtype))
    outcome = run.train()
    assert set(seen) == {torch.float32}
    assert all(np.isfinite(row["loss"]) for row in outcome.history[1:])


def test_only_the_training_split_is_trained_on(data, tmp_path):
    class Watched:
        def __init__(self, images):
            self.images, self.seen = images, set()

        def image(self, number):
            self.seen.add(number)
            return self.images.image(number)

    watched = Watched(data.images)
    configuration = with_(selection={})
    Run(
        configuration, FoldData(watched, data.labels, data.roles), 0, 0, CPU, StateFile(tmp_path, "f"), tmp_path / "e"
    ).train()
    assert watched.seen <= set(data.roles["train"].tolist())
