"""Features of the engine for published protocols; every feature with state resumes bit-identically."""

import copy
import json

import numpy as np
import pytest
import torch

from recheck.data.fold import FoldData
from recheck.data.folder import parse_folder
from recheck.data.index import write_index
from recheck.data.packed import pack
from recheck.data.splits import make_split, searched
from recheck.errors import UserError
from recheck.evaluation.metrics import evaluate
from recheck.evaluation.views import normalise
from recheck.files import sha256
from recheck.methods.forward import InTurns, Recomputed, Single
from recheck.methods.samplers import build_sampler
from recheck.methods.samplers.passes import draw_pass
from recheck.models.embedding import EmbeddingModel, load_model, load_models, network_weights, save_model
from recheck.training.checkpoint import StateFile
from recheck.training.engine import Run
from recheck.training.interrupt import Interrupted
from recheck.training.loading import embed
from support.datasets.glyphs import make_glyphs
from support.project.runs import CONFIGURATION, CPU, StopAfter, make_run, packed_glyphs, same, with_

pytestmark = pytest.mark.slow

DATA = {"split": "s", "pixels": "p"}
PROJECTED = {**CONFIGURATION["model"], "projector": {"class": "LinearProjector", "dim": 24}}
PROJECTOR_TOO = {**CONFIGURATION["optimisers"], "projector": {"class": "Adam", "lr": 1e-2}}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glyphs")
    images, labels = packed_glyphs(folder, classes=10)
    test, place = labels >= 6, np.arange(len(labels)) % 6
    roles = {
        "train": np.flatnonzero(labels < 6),
        "query": np.flatnonzero(test & (place < 2)),
        "gallery": np.flatnonzero(test & (place >= 2)),
    }
    return FoldData(images, labels, roles, np.where(labels % 2, "odd", "even"))


@pytest.fixture(scope="module")
def one_test_set(data):
    roles = {"train": data.roles["train"], "test": np.flatnonzero(data.labels >= 6)}
    return FoldData(data.images, data.labels, roles, data.super_labels)


def stopped_and_continued(data, folder, configuration, steps):
    with pytest.raises(Interrupted):
        make_run(data, folder, configuration, stop=StopAfter(steps)).train()
    return make_run(data, folder, configuration).train()


ON_TEST = with_(selection={"role": "test", "metric": "R@1", "also": ["MAP@R"]})


def test_selection_on_test_keeps_the_last_epoch_and_the_best(one_test_set, tmp_path):
    run = make_run(one_test_set, tmp_path, ON_TEST)
    outcome = run.train()
    values = [row["test_R@1"] for row in outcome.history]
    assert outcome.best_epoch == values.index(max(values))
    assert outcome.best_row == {
        "epoch": outcome.best_epoch,
        "test_R@1": max(values),
        "test_MAP@R": outcome.history[outcome.best_epoch]["test_MAP@R"],
    }
    for weights, row in ((outcome.weights, outcome.history[-1]), (outcome.best_on_test, outcome.best_row)):
        run.model.load_state_dict(network_weights(weights))
        assert run.evaluate()["test_MAP@R"] == row["test_MAP@R"]
    last = make_run(one_test_set, tmp_path / "last", with_(selection={})).train()
    assert all(torch.equal(outcome.weights[name], last.weights[name]) for name in last.weights)


class Foretold(Run):
    """A run whose middle epoch is best, so that both checkpoints differ."""

    def _evaluate(self, epoch):
        super()._evaluate(epoch)  # takes its images from the loader, before those of the next epoch
        return {"test_R@1": (0.1, 0.9, 0.2, 0.9)[epoch]}


def test_selection_on_test_resumes_bit_identically(one_test_set, tmp_path):
    def run(folder, **more):
        return Foretold(ON_TEST, one_test_set, 0, 1, CPU, StateFile(folder / "state", "f"), folder / "events", **more)

    expected = run(tmp_path / "a").train()
    assert (expected.best_epoch, expected.best_value) == (1, 0.9)
    assert not torch.equal(expected.weights["head.weight"], expected.best_on_test["head.weight"])
    for steps in (3, 7, 15):
        with pytest.raises(Interrupted):
            run(tmp_path / str(steps), stop=StopAfter(steps)).train()
        result = run(tmp_path / str(steps)).train()
        same(result, expected)
        for name, tensor in expected.best_on_test.items():
            assert torch.equal(result.best_on_test[name], tensor)
    again = run(tmp_path / "7")
    again._step = None
    same(again.train(), expected)


def test_both_checkpoints_are_in_one_file(one_test_set, tmp_path):
    outcome = make_run(one_test_set, tmp_path, ON_TEST).train()
    spec = CONFIGURATION["model"]
    save_model(tmp_path / "m.safetensors", outcome.weights, spec, DATA, 6, outcome.best_on_test)
    result = dict(load_models(tmp_path / "m.safetensors", spec, DATA, CPU))
    assert list(result) == ["", "best_on_test/"]
    for prefix, weights in (("", outcome.weights), ("best_on_test/", outcome.best_on_test)):
        assert all(torch.equal(tensor, weights[name]) for name, tensor in result[prefix].state_dict().items())
    main = load_model(tmp_path / "m.safetensors", spec, DATA, CPU)
    assert all(torch.equal(tensor, outcome.weights[name]) for name, tensor in main.state_dict().items())
    save_model(tmp_path / "one.safetensors", outcome.weights, spec, DATA)
    assert [prefix for prefix, _ in load_models(tmp_path / "one.safetensors", spec, DATA, CPU)] == [""]


def test_queries_search_the_gallery_while_training(data, tmp_path):
    run = make_run(data, tmp_path, ON_TEST)
    expected = {}
    with torch.inference_mode():
        for role in ("query", "gallery"):
            indices = data.roles[role]
            rows = embed(
                run.model, data.images, indices, run.eval_transform, 8, CPU, torch.autocast("cpu", enabled=False)
            )
            expected[role] = (normalise(rows), data.labels[indices])
    values = evaluate(*expected["query"], ["R@1", "MAP@R"], *expected["gallery"])
    assert run.evaluate() == {"test_R@1": values["R@1"], "test_MAP@R": values["MAP@R"]}


def test_the_error_for_a_missing_role_lists_the_roles_of_the_split():
    assert searched({"train": 0, "query": 0, "gallery": 0}, "test") == ("query", "gallery")
    assert searched({"train": 0, "test": 0, "query": 0, "gallery": 0}, "test") == ("test",)
    with pytest.raises(UserError, match=r"no images with the role 'val', only train, test"):
        searched({"train": 0, "test": 0}, "val")


def test_watched_roles_are_recorded_but_do_not_select(one_test_set, tmp_path):
    schedule = {"epochs": 3, "steps_per_epoch": 5, "evaluate_every": 2}
    watching = with_(selection={"watch": {"train": ["R@1"], "test": ["R@1", "RP"]}}, schedule=schedule)
    blind = with_(selection={}, schedule=schedule)
    seen = make_run(one_test_set, tmp_path / "a", watching).train()
    unseen = make_run(one_test_set, tmp_path / "b", blind).train()
    assert all(torch.equal(seen.weights[name], unseen.weights[name]) for name in seen.weights)
    assert (seen.best_epoch, seen.best_value, seen.best_on_test) == (3, None, None)
    columns = {"train_R@1", "test_R@1", "test_RP"}
    assert [columns <= set(row) for row in seen.history] == [True, False, True, True]
    selecting = with_(selection={**ON_TEST["selection"], "watch": {"test": ["R@1"], "train": ["RP"]}})
    row = make_run(one_test_set, tmp_path / "c", selecting).train().history[0]
    assert [name for name in row if "@" in name or "RP" in name] == ["test_R@1", "test_MAP@R", "train_RP"]


def test_metrics_while_training_follow_the_study(one_test_set, tmp_path):
    rows = []
    for change in ({}, {"evaluation": {"normalise": False}}):
        run = make_run(one_test_set, tmp_path / str(len(change)), {**ON_TEST, **change})
        with torch.no_grad():
            run.model.head.bias += 3  # lengths differ then
        rows.append(run.evaluate())
    assert rows[0] != rows[1]


# Warm-up

SCHEDULE = {"epochs": 4, "steps_per_epoch": 3, "evaluate_every": 1}


def warm(**more):
    return with_(
        model=PROJECTED, optimisers=PROJECTOR_TOO, selection={}, schedule={**SCHEDULE, "warm_up": {"epochs": 2, **more}}
    )


class Watcher(Run):
    """Records the weights after each epoch."""

    seen: list

    def _end_epoch(self, *arguments):
        if not hasattr(self, "seen"):
            self.seen = []
        moments = {name: len(optimiser.state) for name, optimiser in self.optimisers.items()}
        rates = {name: optimiser.param_groups[0]["lr"] for name, optimiser in self.optimisers.items()}
        self.seen.append((copy.deepcopy(self.model.state_dict()), moments, rates))
        super()._end_epoch(*arguments)


def watch(data, folder, configuration):
    run = Watcher(configuration, data, 0, 1, CPU, StateFile(folder / "state", "f"), folder / "events")
    run.train()
    return run


def test_the_backbone_is_frozen_during_warm_up(one_test_set, tmp_path):
    run = watch(one_test_set, tmp_path, warm())
    weights = [seen[0] for seen in run.seen]

    def moved(name, one, other):
        return not torch.equal(weights[one][name], weights[other][name])

    assert not moved("backbone.0.weight", 0, 2) and not moved("backbone.1.weight", 0, 2)
    assert moved("backbone.1.running_mean", 0, 1), "batch-norm statistics are not weights"
    assert moved("head.weight", 0, 1)
    assert moved("backbone.0.weight", 2, 3) and moved("backbone.1.weight", 2, 3)
    assert [moments["backbone"] > 0 for _, moments, _ in run.seen] == [False, False, False, True, True]
    assert [rates["backbone"] for *_, rates in run.seen] == [1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4]


def test_frozen_batch_norm_stays_frozen_after_warm_up(one_test_set, tmp_path):
    configuration = warm()
    configuration["model"] = {**PROJECTED, "batch_norm": "frozen_affine"}
    run = watch(one_test_set, tmp_path, configuration)
    first, last = run.seen[0][0], run.seen[-1][0]
    for name in ("weight", "bias", "running_mean", "running_var"):
        assert torch.equal(first[f"backbone.1.{name}"], last[f"backbone.1.{name}"]), name
    assert not torch.equal(first["backbone.0.weight"], last["backbone.0.weight"])


def test_fresh_optimisers_forget_and_others_remember(one_test_set, tmp_path):
    outcomes, steps = {}, {}
    for fresh in (True, False):
        run = watch(one_test_set, tmp_path / str(fresh), warm(fresh_optimisers=fresh))
        outcomes[fresh] = run.seen[-1][0]["head.weight"]
        steps[fresh] = next(iter(run.optimisers["projector"].state.values()))["step"].item()
        assert [rates["projector"] for *_, rates in run.seen] == [1e-2, 1e-2, 5e-3, 5e-3, 2.5e-3]
    assert steps == {True: 6, False: 12}
    assert not torch.equal(outcomes[True], outcomes[False])


@pytest.mark.parametrize("fresh", [True, False])
def test_warm_up_resumes_bit_identically_before_and_after_its_end(one_test_set, tmp_path, fresh):
    configuration = warm(fresh_optimisers=fresh)
    expected = make_run(one_test_set, tmp_path / "all", configuration).train()
    for steps in (2, 5, 6, 7, 9):
        same(stopped_and_continued(one_test_set, tmp_path / str(steps), configuration, steps), expected)
    # Killed right after the boundary, before a step of the new epoch was saved.
    with pytest.raises(ZeroDivisionError):
        killed = make_run(one_test_set, tmp_path / "killed", configuration)
        step = killed._step
        killed._step = lambda *batch: step(*batch) if killed.position.step < 7 else 1 / 0
        killed.train()
    same(make_run(one_test_set, tmp_path / "killed", configuration).train(), expected)


def test_warm_up_needs_something_to_train(one_test_set, tmp_path):
    configuration = with_(
        model={**CONFIGURATION["model"], "head": {"class": "Identity"}},
        loss={"class": "TripletMarginLoss"},
        schedule={**SCHEDULE, "warm_up": {"epochs": 1}},
    )
    with pytest.raises(
        UserError, match=r"'schedule.warm_up' freezes the backbone, but no other module has trainable parameters"
    ):
        make_run(one_test_set, tmp_path, configuration)


def test_warm_up_in_half_precision(one_test_set, tmp_path):
    outcome = make_run(one_test_set, tmp_path, {**warm(fresh_optimisers=True), "precision": "bfloat16"}).train()
    assert all(np.isfinite(row["loss"]) for row in outcome.history[1:])


# Projector


def test_the_loss_sees_the_projector_and_evaluation_does_not(one_test_set, tmp_path):
    configuration = with_(model=PROJECTED, optimisers=PROJECTOR_TOO, selection=ON_TEST["selection"])
    run = make_run(one_test_set, tmp_path / "a", configuration)
    seen = []
    run.loss.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    before = copy.deepcopy(run.projector.state_dict())
    outcome = run.train()
    assert {rows.shape for rows in seen} == {(8, 24)}
    torch.testing.assert_close(seen[-1].norm(dim=1), torch.ones(8))
    assert run.loss.proxies.shape == (6, 24)
    assert all(not torch.equal(before[name], tensor) for name, tensor in run.projector.state_dict().items())
    assert set(network_weights(outcome.weights)) == set(EmbeddingModel(CONFIGURATION["model"]).state_dict())
    assert run.model.dim == 16
    same(stopped_and_continued(one_test_set, tmp_path / "b", configuration, 7), outcome)


def test_a_projector_needs_an_optimiser(one_test_set, tmp_path):
    with pytest.raises(UserError, match=r"'optimisers.projector' is missing"):
        make_run(one_test_set, tmp_path, with_(model=PROJECTED))


# Samplers


class Leftover:
    """Every image once per pass; images that do not fill a batch are carried over to the next pass."""

    def __init__(self, labels, batch):
        self.count, self.batch = len(labels), batch

    def draw_pass(self, number, generator_of):
        drawn = np.concatenate([generator_of(n).permutation(self.count) for n in range(number + 1)])
        first, last = number * self.count // self.batch, (number + 1) * self.count // self.batch
        return [drawn[n * self.batch : (n + 1) * self.batch].tolist() for n in range(first, last)]


class BySuperLabel:
    """Batches within a super-category."""

    def __init__(self, labels, super_labels, batch):
        self.super_labels, self.batch = super_labels, batch

    def draw(self, generator):
        groups = [np.flatnonzero(self.super_labels == name) for name in np.unique(self.super_labels)]
        return [generator.permutation(group)[: self.batch].tolist() for group in groups]


def test_an_epoch_is_a_pass_of_any_length(one_test_set, tmp_path):
    configuration = with_(
        sampler={"class": f"{__name__}:Leftover", "batch": 16},
        schedule={"epochs": 4, "evaluate_every": 1},
        selection={"watch": {"test": ["R@1"]}},
    )
    expected = make_run(one_test_set, tmp_path / "all", configuration).train()
    assert [row["step"] for row in expected.history] == [0, 2, 4, 6, 9]
    for steps in (2, 3, 7):
        same(stopped_and_continued(one_test_set, tmp_path / str(steps), configuration, steps), expected)


def test_passes_of_samplers_of_both_kinds():
    carried = Leftover(np.zeros(36), 16)
    passes = [draw_pass(carried, number, np.random.RandomState) for number in range(4)]
    assert [len(batches) for batches in passes] == [2, 2, 2, 3]
    assert sorted(np.concatenate([batch for batches in passes for batch in batches])) == sorted([*range(36)] * 4)
    plain = build_sampler({"class": "Shuffled", "batch": 4}, np.zeros(12))
    assert draw_pass(plain, 3, np.random.RandomState) == plain.draw(np.random.RandomState(3))


def test_super_labels_reach_the_sampler(one_test_set, tmp_path):
    configuration = with_(sampler={"class": f"{__name__}:BySuperLabel", "batch": 6}, selection={})
    run = make_run(one_test_set, tmp_path, configuration)
    assert run.sampler.super_labels.tolist() == one_test_set.super_labels[one_test_set.roles["train"]].tolist()
    run.train()
    bare = FoldData(one_test_set.images, one_test_set.labels, one_test_set.roles)
    empty = FoldData(one_test_set.images, one_test_set.labels, one_test_set.roles, np.full(60, ""))
    for without in (bare, empty):
        with pytest.raises(UserError, match=r"needs a super-label for every training image"):
            make_run(without, tmp_path, configuration)


# Labels


def test_meta_classes_are_labels_of_a_member(one_test_set, tmp_path):
    configuration = with_(relabel={"class": "MetaClasses", "count": 3, "members": 5}, selection={})
    mapping = np.random.RandomState(0).randint(0, 3, (5, 6))
    train = one_test_set.labels[one_test_set.roles["train"]]
    for fold in (0, 4):
        run = make_run(one_test_set, tmp_path / str(fold), configuration, fold)
        assert run.train_labels.tolist() == mapping[fold][train].tolist()
        assert run.loss.proxies.shape == (3, 16)
    expected = run.train()
    with pytest.raises(Interrupted):
        make_run(one_test_set, tmp_path / "b", configuration, 4, stop=StopAfter(7)).train()
    same(make_run(one_test_set, tmp_path / "b", configuration, 4).train(), expected)


def test_members_use_the_folds_of_a_split_in_turn(tmp_path):
    root = make_glyphs(tmp_path / "images", classes=8, per_class=2)
    index = parse_folder({"name": "glyphs"}, tmp_path, root)
    index["super_label"] = np.where(index["label"] % 2, "odd", "even")
    write_index(tmp_path / "images.csv", index)
    digest = sha256(tmp_path / "images.csv")
    pack(index, root, None, tmp_path / "packed", index_sha256=digest)
    split = make_split(index["label"], {"scheme": "class_disjoint_folds", "folds": 2})
    (tmp_path / "split.json").write_text(json.dumps({"index_sha256": digest, **split}), encoding="utf-8")
    loaded = [FoldData.load(tmp_path / "images.csv", tmp_path / "split.json", tmp_path / "packed", n) for n in range(5)]
    for number, each in enumerate(loaded):
        assert each.roles["train"].tolist() == split["folds"][number % 2]["train"]
        assert each.super_labels.tolist() == index["super_label"].tolist()


# Heads and forward passes


class OfClasses(torch.nn.Linear):
    """A head with one output per training class."""

    def __init__(self, features, num_classes):
        super().__init__(features, num_classes)
        self.dim = num_classes


def test_a_head_can_take_the_number_of_training_classes(one_test_set, tmp_path):
    spec = {**CONFIGURATION["model"], "head": {"class": f"{__name__}:OfClasses"}}
    run = make_run(one_test_set, tmp_path, with_(model=spec, selection={}))
    assert run.model.dim == 6
    assert run.loss.proxies.shape == (6, 6)
    outcome = run.train()
    save_model(tmp_path / "m.safetensors", outcome.weights, spec, DATA, run.num_classes)
    again = load_model(tmp_path / "m.safetensors", spec, DATA, CPU)
    assert torch.equal(again.head.weight, outcome.weights["head.weight"])
    with pytest.raises(UserError, match=r"^The head '.*OfClasses' needs the argument 'num_classes': add it"):
        EmbeddingModel(spec)


def test_the_number_of_classes_is_stored_only_for_heads_that_take_it(tmp_path):
    spec = CONFIGURATION["model"]
    weights = EmbeddingModel(spec).state_dict()
    save_model(tmp_path / "a.safetensors", weights, spec, DATA)
    save_model(tmp_path / "b.safetensors", weights, spec, DATA, num_classes=6)
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_in_turns_computes_batch_norm_statistics_per_chunk():
    torch.manual_seed(0)
    images = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8)
    model = EmbeddingModel(
        {**CONFIGURATION["model"], "backbone": {"name": "support.project.small_net:SmallNet", "weights": "none"}}
    )
    model.train()
    expected = torch.cat([model(images[:4]), model(images[4:])])
    torch.testing.assert_close(InTurns(2)(model, images), expected)
    assert not torch.allclose(Single()(model, images), expected, atol=1e-3)
    model.eval()
    torch.testing.assert_close(InTurns(4)(model, images), Single()(model, images))
    with pytest.raises(UserError, match=r"'forward\.parts' \(3\) must divide 'sampler\.batch' \(8\)"):
        InTurns(3)(model, images)


def test_recomputed_chunks_give_the_same_step_and_keep_less_for_the_backward_pass():
    """The same embeddings, gradients, batch-norm statistics and dropout as ``InTurns``."""
    images = torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8)
    steps, kept = [], []
    for forward in (InTurns(4), Recomputed(4)):
        torch.manual_seed(0)
        model = EmbeddingModel(CONFIGURATION["model"]).train()
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, s=sizes: s.append(t.nbytes) or t, lambda t: t):
            embeddings = forward(model, images)
        embeddings.square().sum().backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        steps.append([embeddings.detach(), gradients, model.state_dict(), torch.rand(1)])
        kept.append(sum(sizes))
    torch.testing.assert_close(*steps, rtol=0, atol=0)
    assert kept[1] < kept[0] / 4
