"""A calibrated model in use: the study's embeddings and threshold to the bit, and clear errors."""

import contextlib
import importlib.util
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from recheck import seal
from recheck.data import transforms
from recheck.data.folder import images_below, parse_folder
from recheck.data.images import reading_of
from recheck.data.packed import PackedImages, pack
from recheck.errors import UserError
from recheck.evaluation import calibrated_model
from recheck.evaluation.calibrated_model import BATCH, CalibratedModel
from recheck.evaluation.calibration import calibrate, is_accepted, neighbours
from recheck.evaluation.views import normalise
from recheck.files import sha256, write_json
from recheck.models.embedding import EmbeddingModel, load_any, save_model
from recheck.training.loading import embed
from support.datasets.glyphs import make_glyphs
from support.project import ROOT

pytestmark = pytest.mark.slow

COMMAND = Path(calibrated_model.__file__).parents[2] / "recognise.py"
SPEC = {"backbone": {"name": "support.small_net:SmallNet", "weights": "none"}, "head": {"class": "Linear", "dim": 16}}
DATA = {"split": "a", "pixels": "b"}
RESIZE = {"shorter": 30}
EVAL = [{"resize": {"exact": [28, 32]}}, {"center_crop": {"size": 26}}]
MEASURED = {"precision": 0.91, "recall": 0.8, "f1": 0.85, "binary_accuracy": 0.6, "accuracy": 0.7, "value": 0.85}


def write_run(folder, spec=SPEC, resize=RESIZE, steps=EVAL, images=None, seed=0, **distances):
    """Files of a study for one method and seed, with an untrained model."""
    torch.manual_seed(seed)
    file = folder / "fold0" / "model.safetensors"
    save_model(file, EmbeddingModel(spec).state_dict(), spec, DATA)
    distances = {"seen_queries": 0.4, "unseen_queries": 0.2, **distances}
    about = {
        "study": "calibration",
        "dataset": "glyphs",
        "method": "circle",
        "seed": seed,
        "model": "fold0/model.safetensors",
        "model_sha256": sha256(file),
        "transforms": {"resize": resize, "eval": steps},
        "images": images or {},
        "thresholds": {
            name: {"distance": distance, **MEASURED, "queries": 980} for name, distance in distances.items()
        },
    }
    write_json(folder / "calibration.json", about)
    return folder


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory):
    return make_glyphs(tmp_path_factory.mktemp("images") / "glyphs", classes=8, per_class=6, size=40)


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run")


@pytest.fixture
def model(run):
    return CalibratedModel.load(run, own_code=True)


def with_distances(run, **distances):
    """The same run with other thresholds."""
    change(run, lambda about: [about["thresholds"][name].update(distance=d) for name, d in distances.items()])
    return CalibratedModel.load(run, own_code=True)


def change(run, how):
    about = json.loads((run / "calibration.json").read_text(encoding="utf-8"))
    how(about)
    write_json(run / "calibration.json", about)


def paths_of(glyphs):
    return sorted(glyphs.rglob("*.png"))


# Embeddings


@pytest.mark.parametrize(
    ("resize", "steps", "reading"),
    [
        (RESIZE, EVAL, {}),
        (None, [{"center_crop": {"size": 48}}], {"exif": "ignore", "alpha": "drop"}),
        ({"exact": [20, 24], "jpeg": 75}, [{"resize": {"shorter": 32, "interpolation": "lanczos"}}], {"alpha": "drop"}),
    ],
)
def test_embeddings_equal_those_of_the_study_bit_for_bit(tmp_path, glyphs, resize, steps, reading):
    """Packed, read, transformed and embedded by the functions of the workflow, in batches of the same size."""
    root = shutil.copytree(glyphs, tmp_path / "glyphs")
    see_through = Image.linear_gradient("L").resize((40, 40)).convert("RGBA")
    see_through.putalpha(Image.linear_gradient("L").resize((40, 40)))
    see_through.save(root / "A" / "DejaVuSans.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.linear_gradient("L").resize((40, 40)).rotate(180).save(root / "B" / "DejaVuSans.png", exif=turned)

    folder = write_run(tmp_path / "run", resize=resize, steps=steps, images=reading)
    index = parse_folder({"name": "glyphs"}, tmp_path, root)
    assert len(index) % BATCH == 0
    pack(index, root, resize, tmp_path / "packed", index_sha256="0", reading=reading_of(reading))
    network = load_any(folder / "fold0" / "model.safetensors", torch.device("cpu"), own_code=True)
    study = embed(
        network,
        PackedImages(tmp_path / "packed"),
        np.arange(len(index)),
        transforms.build(steps),
        BATCH,
        torch.device("cpu"),
        contextlib.nullcontext(),
    )
    result = CalibratedModel.load(folder, own_code=True).embed([root / path for path in index["path"]])
    assert result.dtype == np.float32 and result.shape == (48, 16)
    assert np.array_equal(result, normalise(study))
    np.testing.assert_allclose(np.linalg.norm(result.astype(np.float64), axis=1), 1, atol=1e-6)
    assert len(np.unique(result, axis=0)) == 48


def test_reading_options_change_the_embeddings(tmp_path):
    """Without this, the test above would not notice options that are not passed on."""
    Image.new("RGBA", (40, 40), (200, 30, 30, 60)).save(tmp_path / "clear.png")
    models = [
        CalibratedModel.load(write_run(tmp_path / alpha, images={"alpha": alpha}), own_code=True)
        for alpha in ("white", "drop")
    ]
    white, drop = (model.embed([tmp_path / "clear.png"]) for model in models)
    assert not np.allclose(white, drop, atol=1e-3)


def test_an_embedding_depends_only_on_the_image(model, glyphs):
    paths = paths_of(glyphs)
    sizes = set()
    model.model.register_forward_pre_hook(lambda module, images: sizes.add(len(images[0])))
    together = model.embed(paths)
    assert np.array_equal(model.embed(reversed(paths)), together[::-1])
    for count in (1, 2, BATCH - 1, BATCH + 1):
        assert np.array_equal(model.embed(paths[:count]), together[:count])
    assert model.embed([]).shape == (0, 16)
    assert sizes == {BATCH}


def test_loading_again_gives_bit_identical_embeddings(run, model, glyphs):
    torch.manual_seed(5)
    again = CalibratedModel.load(run / "calibration.json", own_code=True)
    assert np.array_equal(again.embed(paths_of(glyphs)), model.embed(paths_of(glyphs)))
    assert not again.model.training
    other = CalibratedModel.load(write_run(run.with_name("other"), seed=1), own_code=True)
    assert not np.allclose(other.embed(paths_of(glyphs)), model.embed(paths_of(glyphs)), atol=1e-3)


def test_images_of_other_shapes_need_no_crop(tmp_path):
    model = CalibratedModel.load(write_run(tmp_path / "run", resize=None, steps=[]), own_code=True)
    for number, size in enumerate([(20, 30), (20, 30), (31, 17)]):
        Image.effect_noise(size, 60).save(tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in (0, 2, 1)]
    result = model.embed(paths)
    assert np.array_equal(result, np.concatenate([model.embed([path]) for path in paths]))


def test_the_best_on_test_is_not_used(tmp_path, glyphs):
    torch.manual_seed(0)
    weights = EmbeddingModel(SPEC).state_dict()
    file = tmp_path / "model.safetensors"
    save_model(file, weights, SPEC, DATA, best_on_test={name: tensor + 1 for name, tensor in weights.items()})
    loaded = load_any(file, torch.device("cpu"), own_code=True).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in weights.items())


# Comparing and searching


def test_two_images_are_compared_by_cosine_distance(model, glyphs):
    a, b, *_ = paths_of(glyphs)
    first, second = model.embed([a, b]).astype(np.float64)
    result = model.compare(a, str(b))
    assert result.distance == pytest.approx(1 - first @ second, abs=1e-7)
    assert model.compare(b, a).distance == result.distance
    assert model.compare(a, a) == (pytest.approx(0, abs=1e-7), 0.2, True)


def test_a_distance_equal_to_the_threshold_is_accepted(run, model, glyphs):
    """Compared as in the table, as float32 rounded to 8 decimals, so the neighbour that defined it is accepted."""
    a, b, *_ = paths_of(glyphs)
    distance = model.compare(a, b).distance
    edge = np.round(np.float32(distance), 8)
    below, above = np.nextafter(edge, np.float32(0)), np.nextafter(edge, np.float32(2))
    for limit, same in ((below, False), (edge, True), (above, True)):
        assert model.compare(a, b, float(limit)) == (distance, float(limit), same)
        changed = with_distances(run, unseen_queries=float(limit))
        assert changed.compare(a, b).same is same
        assert changed.nearest(a, [b])[0].accepted is same


def test_a_calibrated_threshold_accepts_what_calibration_accepted(run, model, glyphs):
    paths = paths_of(glyphs)
    index, queries = paths[::2], paths[1::2]
    labels = {path: ord(path.parent.name) for path in paths}
    closest = neighbours(model.embed(queries), model.embed(index), np.array([labels[path] for path in index]), 1)
    calibration = calibrate(np.array([labels[path] for path in queries]), closest)
    changed = with_distances(run, unseen_queries=calibration.optimal.distance)
    matches = [changed.nearest(query, index, 1)[0] for query in queries]
    assert [match.distance for match in matches] == closest.distances[:, 0].tolist()
    right = [
        match.accepted and labels[match.path] == labels[query] for match, query in zip(matches, queries, strict=True)
    ]
    assert np.mean(right) == calibration.optimal.binary_accuracy
    assert sum(right) / sum(match.accepted for match in matches) == calibration.optimal.precision


def test_nearest_agrees_with_a_full_comparison(model, glyphs):
    query, *paths = paths_of(glyphs)
    embeddings = model.embed(paths).astype(np.float64)
    distances = np.maximum(0, 1 - embeddings @ model.embed([query])[0].astype(np.float64))
    order = np.argsort(distances)
    matches = model.nearest(query, paths, 7)
    assert [match.path for match in matches] == [paths[place] for place in order[:7]]
    np.testing.assert_allclose([match.distance for match in matches], distances[order[:7]], atol=1e-7)
    assert [match.accepted for match in matches] == [bool(is_accepted(match.distance, 0.2)) for match in matches]
    for match in matches:
        assert model.compare(query, match.path).distance == match.distance
    assert len(model.nearest(query, paths[:3], 7)) == 3
    assert len(model.nearest(query, paths)) == 5
    assert model.nearest(query, []) == []


def test_copies_keep_the_given_order(model, glyphs, tmp_path):
    query, other, *_ = paths_of(glyphs)
    copies = [Path(shutil.copy(other, tmp_path / f"{name}.png")) for name in "cab"]
    fillers = paths_of(glyphs)[10 : 10 + BATCH]  # so that the copies are in different batches
    matches = model.nearest(query, [copies[0], *fillers, *copies[1:]], 100)
    places = [number for number, match in enumerate(matches) if match.path in copies]
    assert [matches[place].path for place in places] == copies
    assert len({matches[place].distance for place in places}) == 1
    assert places == list(range(places[0], places[0] + 3))


def test_thresholds_have_names_or_are_numbers(run, glyphs):
    a, b, *_ = paths_of(glyphs)
    model = with_distances(run, seen_queries=1.5, unseen_queries=0.0)
    assert model.compare(a, b).threshold == model.compare(a, b, "unseen").threshold == 0.0
    assert model.compare(a, b, "seen") == model.compare(a, b, "seen_queries")
    assert model.compare(a, b, "seen").same and not model.compare(a, b).same
    assert model.compare(a, b, np.float32(0.5)).threshold == 0.5
    assert model.threshold("seen").queries == 980
    for wrong, sentence in (
        ("sen", "Unknown threshold 'sen'; did you mean 'seen'? Known: seen, seen_queries, unseen, "),
        (-0.1, "must be a cosine distance from 0 to 2, found -0.1"),
        (2.1, "from 0 to 2"),
        (float("nan"), "from 0 to 2"),
        (True, "from 0 to 2"),
        (None, "from 0 to 2"),
    ):
        with pytest.raises(UserError, match="threshold") as raised:
            model.compare(a, b, wrong)
        assert sentence in str(raised.value)
    for count in (0, -1, 1.5, True):
        with pytest.raises(UserError, match="must be a whole number from 1"):
            model.nearest(a, [b], count)


def test_a_missing_query_set_is_named_when_it_is_used(run, glyphs):
    change(run, lambda about: about["thresholds"].pop("unseen_queries"))
    a, b, *_ = paths_of(glyphs)
    model = CalibratedModel.load(run, own_code=True)
    assert model.compare(a, b, "seen").threshold == 0.4
    with pytest.raises(UserError, match="Unknown threshold 'unseen_queries'"):
        model.compare(a, b)


# Wrong and damaged files


def test_a_damaged_model_is_refused(run):
    file = run / "fold0" / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    with pytest.raises(UserError, match=r"is not the model that .*calibration\.json describes"):
        CalibratedModel.load(run, own_code=True)
    change(run, lambda about: about.update(model_sha256=sha256(file)))
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        CalibratedModel.load(run, own_code=True)
    file.unlink()
    with pytest.raises(UserError, match="which does not exist: run the study again"):
        CalibratedModel.load(run, own_code=True)


def test_another_model_is_refused(run):
    other = write_run(run.with_name("other"), seed=1)
    shutil.copy(other / "fold0" / "model.safetensors", run / "fold0")
    with pytest.raises(UserError, match="is not the model"):
        CalibratedModel.load(run, own_code=True)


@pytest.mark.parametrize("about", [None, {"recheck": "[1]"}, {"recheck": "{"}])
def test_a_file_without_a_seal_is_refused(run, about):
    file = run / "fold0" / "model.safetensors"
    save_file(load_file(file), file, metadata=about)
    with pytest.raises(UserError, match="is damaged"):
        load_any(file, torch.device("cpu"), own_code=True)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path(os.environ["TRAP"]),)


def test_nothing_is_unpickled(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TRAP", str(tmp_path / "sprung"))
    file = run / "fold0" / "model.safetensors"
    for content in (pickle.dumps(Trap()), None):
        file.write_bytes(content) if content else torch.save({"weight": Trap()}, file)
        change(run, lambda about: about.update(model_sha256=sha256(file)))
        with pytest.raises(UserError, match="is damaged"):
            CalibratedModel.load(run, own_code=True)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("place", ["backbone", "head", "nested", "pooling"])
def test_a_model_does_not_run_code_unless_it_is_allowed_to(run, tmp_path, place):
    """Otherwise the metadata of a file could run any function of any module."""
    call = {"name": "os:mkdir", "class": "os:mkdir", "options": {"path": str(tmp_path / "made")}}
    spec = {"backbone": {"name": "efficientnet_lite0", "weights": "none"}, "head": {"class": "Linear", "dim": 16}}
    spec |= {"nested": {"head": {"class": "Linear", "dim": 16, "parts": [{"class": "os:mkdir"}]}}}.get(
        place, {place: call}
    )
    file = run / "fold0" / "model.safetensors"
    seal.write(file, load_file(file), save_file, {"model": spec, "data": DATA})
    change(run, lambda about: about.update(model_sha256=sha256(file)))
    with pytest.raises(UserError, match="would run code from outside Recheck, 'os:mkdir'"):
        CalibratedModel.load(run)
    assert not (tmp_path / "made").exists()


def test_a_model_of_the_package_needs_no_permission(tmp_path, glyphs):
    spec = {**SPEC, "backbone": {"name": "efficientnet_lite0", "weights": "imagenet"}}
    file = write_run(tmp_path / "run", spec=spec) / "fold0" / "model.safetensors"
    with safe_open(file, framework="pt") as opened:
        assert json.loads(opened.metadata()["recheck"])["model"] == spec
    assert CalibratedModel.load(tmp_path / "run").embed(paths_of(glyphs)[:2]).shape == (2, 16)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({}, "is not a model trained by Recheck"),
        ({"model": [1]}, "is not a model trained by Recheck"),
        ({"model": {"backbone": {"name": "efficientnet_lite0"}}}, "is not a model trained by Recheck"),
        ({"model": {"backbone": {}, "head": {}}}, "model.safetensors describes a network that cannot be built"),
        (
            {"model": {**SPEC, "backbone": {"name": ["x"]}}},
            "model.safetensors describes a network that cannot be built",
        ),
        ({"model": {**SPEC, "head": {"class": "Linear", "dim": 10**30}}}, "describes a network that cannot be built"),
        ({"model": {**SPEC, "head": {"class": "Linear", "dim": 8}}}, "do not fit"),
    ],
)
def test_a_file_with_wrong_metadata_is_refused(run, made, sentence):
    file = run / "fold0" / "model.safetensors"
    seal.write(file, load_file(file), save_file, made)
    with pytest.raises(UserError, match=sentence):
        load_any(file, torch.device("cpu"), own_code=True)


def test_a_network_larger_than_its_file_is_not_built(run):
    """A few bytes of metadata may ask for a layer of a terabyte."""
    file = run / "fold0" / "model.safetensors"
    spec = {"backbone": {"name": "efficientnet_lite0", "weights": "none"}, "head": {"class": "Linear", "dim": 10**8}}
    seal.write(file, load_file(file), save_file, {"model": spec})
    with pytest.raises(UserError, match=r"cannot be built \(it would have 128,[\d,]* numbers, the file has [\d,]*\)"):
        load_any(file, torch.device("cpu"))


def test_metadata_nested_too_deeply(run):
    file = run / "fold0" / "model.safetensors"
    nested = []
    for _ in range(900):
        nested = [nested]
    seal.write(file, load_file(file), save_file, {"model": nested})
    content = file.read_bytes()
    assert b"[" * 900 in content
    with pytest.raises(UserError, match=r"is not a model trained by Recheck|is damaged"):
        load_any(file, torch.device("cpu"))


@pytest.mark.parametrize(
    "key", ["model", "model_sha256", "transforms", "transforms.resize", "transforms.eval", "images", "thresholds",
            "thresholds.unseen_queries.distance", "thresholds.seen_queries.queries"],
)  # fmt: skip
def test_missing_keys_are_named(run, key):
    *parents, last = key.split(".")

    def remove(about):
        for parent in parents:
            about = about[parent]
        del about[last]

    change(run, remove)
    with pytest.raises(UserError) as raised:
        CalibratedModel.load(run, own_code=True)
    assert f"calibration.json has no '{key}'" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("model", 3, "'model' of .* has the invalid value 3"),
        ("thresholds", [], "'thresholds' of"),
        ("thresholds", {"unseen_queries": 0.2}, r"'thresholds\.unseen_queries' of"),
        (
            "thresholds",
            {"unseen_queries": {**MEASURED, "queries": 9, "distance": "0.2"}},
            "has the invalid value '0.2'",
        ),
        ("thresholds", {"unseen_queries": {**MEASURED, "queries": 9, "distance": -1}}, "has the invalid value -1"),
        ("thresholds", {"unseen_queries": {**MEASURED, "queries": 9, "distance": True}}, "has the invalid value True"),
        ("transforms", {"resize": {"longer": 3}, "eval": []}, r"'transforms\.resize' of .* has the invalid value"),
        ("transforms", {"resize": {"exact": 3}, "eval": []}, r"'transforms\.resize' of .* has the invalid value"),
        ("transforms", {"resize": None, "eval": [{"centre_crop": {"size": 3}}]}, "Unknown transform 'centre_crop'"),
        ("images", {"alpha": "black"}, "alpha"),
    ],
)
def test_wrong_values_are_named(run, key, value, sentence):
    change(run, lambda about: about.update({key: value}))
    with pytest.raises(UserError, match=sentence):
        CalibratedModel.load(run, own_code=True)


def test_folders_without_a_calibrated_run_are_named(run, tmp_path):
    for path in (tmp_path / "nowhere", run / "fold0", run / "fold0" / "model.safetensors"):
        with pytest.raises(UserError, match=r"Found no calibration\.json at"):
            CalibratedModel.load(path)
    for text, sentence in (("{", "is not valid JSON"), ("[]", "must be a mapping of keys to values")):
        (run / "calibration.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=sentence):
            CalibratedModel.load(run)
    with pytest.raises(UserError, match="Unknown device 'gpux'"):
        CalibratedModel.load(run, "gpux")


def test_images_that_cannot_be_read_are_all_named(model, glyphs, tmp_path):
    good, *_ = paths_of(glyphs)
    (tmp_path / "text.png").write_text("no picture", encoding="utf-8")
    (tmp_path / "half.png").write_bytes(good.read_bytes()[:150])
    paths = [tmp_path / "text.png", good, tmp_path / "half.png", tmp_path / "none.png"]
    with pytest.raises(UserError, match=r"text\.png cannot be read: not an image\.$"):
        model.compare(good, paths[0])
    with pytest.raises(UserError, match=r"none\.png cannot be read: missing\.$"):
        model.nearest(paths[3], [good])
    with pytest.raises(UserError, match="3 images cannot be read:") as raised:
        model.embed(paths)
    assert all(f"{path}: " in str(raised.value) for path in paths if path != good)
    with pytest.raises(UserError, match="3 images cannot be read"):
        model.nearest(good, paths)
    skipped = []
    matches = model.nearest(good, paths, skipped=lambda path, why: skipped.append((path, why)))
    assert [match.path for match in matches] == [good]
    assert [path for path, _ in skipped] == [path for path in paths if path != good]
    with pytest.raises(UserError, match="text"):  # the query is never skipped
        model.nearest(paths[0], paths, skipped=lambda path, why: None)


def test_images_below_a_folder(tmp_path):
    names = ["b/x.PNG", "a.jpg", "b/c/y.webp", "notes.txt", "b/list.csv", ".hidden/z.png", ".z.png", "b/README"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b" / "loop").symlink_to(tmp_path)
    images, others = images_below(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in images] == ["a.jpg", "b/c/y.webp", "b/x.PNG"]
    assert others == 3
    with pytest.raises(UserError, match=r"^Folder .* does not exist: check the path\.$"):
        images_below(tmp_path / "nowhere")


# The command


@pytest.fixture(scope="module")
def command():
    """Call the command in this process; a new process would import torch again for each of many cases."""
    spec = importlib.util.spec_from_file_location("recognise", COMMAND)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def call(*arguments):
        return module.main([str(argument) for argument in arguments])

    return call


def far_and_near(model, glyphs):
    """A query, the other images by distance, and a threshold between the second and the third."""
    query, *paths = paths_of(glyphs)
    matches = model.nearest(query, paths, len(paths))
    return query, matches, (matches[1].distance + matches[2].distance) / 2


def started(*arguments, cwd):
    return subprocess.run(
        [sys.executable, COMMAND, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
    )


def test_the_command_in_a_separate_process(run, model, glyphs, tmp_path):
    """In any folder, with the user's backbone beside it: yes, no, error."""
    (tmp_path / "support").mkdir()
    shutil.copy(ROOT / "tests/support/small_net.py", tmp_path / "support")
    query, matches, limit = far_and_near(model, glyphs)
    with_distances(run, unseen_queries=limit)
    yes = started("same", "run", query, matches[0].path, "--own-code", cwd=tmp_path)
    assert (yes.returncode, yes.stderr) == (0, "")
    assert yes.stdout.startswith("same class: distance 0.") and yes.stdout.count("\n") == 1
    assert yes.stdout.endswith("(threshold of unseen queries: precision 91 %, recall 80 % on 980 queries)\n")
    no = started("same", "run", query, matches[-1].path, "--own-code", cwd=tmp_path)
    assert (no.returncode, no.stderr) == (1, "")
    assert no.stdout.startswith("not the same class: distance 0.")
    error = started("same", "run", query, matches[0].path, cwd=tmp_path)
    assert (error.returncode, error.stdout) == (2, "")
    assert error.stderr.startswith("error: ") and "--own-code" in error.stderr and error.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["same", "--help"], ["nearest", "--help"]])
def test_help_has_examples_and_says_what_the_threshold_means(arguments, tmp_path):
    shown = started(*arguments, cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in ("recognise.py same results/", "calibrated for the nearest image of an index", "Arbitrary pairs"):
        assert words in shown.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["same"], ["other", "run"], ["nearest", "run", "a.png", "b", "--count", "x"]]
)
def test_wrong_use_is_an_error(command, arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        command(*arguments)
    assert raised.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_same_as_json(command, run, model, glyphs, capsys):
    a, b, *_ = paths_of(glyphs)
    code = command("same", run, a, b, "--own-code", "--json", "--threshold", "seen")
    shown = json.loads(capsys.readouterr().out)
    assert shown.pop("calibration") == {"name": "seen_queries", "distance": 0.4, **MEASURED, "queries": 980}
    assert shown == model.compare(a, b, "seen")._asdict()
    assert code == (0 if shown["same"] else 1)
    assert command("same", run, a, b, "--own-code", "--json", "--threshold", "2") == 0
    assert json.loads(capsys.readouterr().out)["calibration"] is None


def test_digits_tell_a_distance_from_its_threshold(command, run, model, glyphs, capsys):
    a, b, *_ = paths_of(glyphs)
    distance = model.compare(a, b).distance
    assert command("same", run, a, b, "--own-code", "--threshold", distance - 1e-6) == 1
    left, right = capsys.readouterr().out.split("distance ")[1].split(" (")[0].split(" > ")
    assert float(left) > float(right)
    assert command("same", run, a, b, "--own-code", "--threshold", distance + 1e-6) == 0
    assert "your own threshold" in capsys.readouterr().out
    query, matches, _ = far_and_near(model, glyphs)
    limit = matches[2].distance - 1e-5
    assert command("nearest", run, query, glyphs, "--own-code", "--threshold", limit) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    shown = float(last.split("≤ ")[1].split()[0])
    assert [float(line.split()[1]) <= shown for line in lines] == ["accepted" in line for line in lines]


def test_nearest_in_a_folder(command, run, model, glyphs, tmp_path, capsys):
    root = shutil.copytree(glyphs, tmp_path / "photos")
    query, matches, limit = far_and_near(model, root)
    (root / "notes.txt").write_text("text", encoding="utf-8")
    (root / "A" / "text.png").write_text("no picture", encoding="utf-8")
    assert command("nearest", run, query, root, "--own-code", "--threshold", limit, "--count", 4) == 0
    shown = capsys.readouterr()
    *lines, last = shown.out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2", "3", "4"]
    assert ["accepted" in line for line in lines] == [True, True, False, False]
    assert [line.rsplit("  ", 1)[1] for line in lines] == [str(match.path) for match in matches[:4]]
    assert last.startswith("2 of these 4 are near enough: distance ≤")
    assert "skipped 1 file(s) without the suffix of an image" in shown.err
    assert f"skipped 1 file(s) that cannot be read: {root / 'A' / 'text.png'}: not an image" in shown.err

    assert command("nearest", run, query, root, "--own-code", "--threshold", limit, "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["matches"] == [
        {"path": str(match.path), "distance": match.distance, "accepted": match.distance <= limit}
        for match in matches[:5]
    ]
    assert (listed["searched"], listed["skipped"], listed["threshold"]) == (47, 2, limit)


def test_no_accepted_image_is_reported(command, run, glyphs, capsys):
    query = paths_of(glyphs)[0]
    for form in ([], ["--json"]):
        assert command("nearest", run, query, glyphs, "--own-code", "--threshold", "0", *form) == 1
    lines, _ = capsys.readouterr().out.split("{", 1)
    assert lines.splitlines()[-1].startswith("nothing is near enough: the nearest has distance 0.")


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("empty", "There are no images in"),
        ("only_query", "There are no images in"),
        ("text_only", "There are no images in"),
        ("all_broken", "None of the 2 images in"),
        ("no_folder", "does not exist: check the path"),
        ("no_run", "Found no calibration.json at"),
        ("broken_query", "cannot be read: not an image."),
        ("threshold", "Unknown threshold 'sceen'"),
        ("count", "must be a whole number from 1, found 0"),
        ("device", "Unknown device 'gpux'"),
    ],
)
def test_errors_are_one_line_with_exit_code_2(command, run, glyphs, tmp_path, capsys, case, sentence):
    folder = tmp_path / "photos"
    folder.mkdir()
    query, options = folder / "query.png", []
    shutil.copy(paths_of(glyphs)[0], query)
    if case in ("empty", "text_only", "all_broken"):
        query = Path(shutil.move(query, tmp_path))
    if case == "text_only":
        (folder / "notes.txt").write_text("text", encoding="utf-8")
    if case == "all_broken":
        (folder / "a.png").touch()
        (folder / "b.png").touch()
    if case in ("threshold", "count", "device", "broken_query"):
        shutil.copy(paths_of(glyphs)[1], folder)
        options = {"threshold": ["--threshold", "sceen"], "count": ["--count", 0], "device": ["--device", "gpux"]}.get(
            case, []
        )
    if case == "broken_query":
        query.write_text("no picture", encoding="utf-8")
    where = tmp_path / "nowhere"
    arguments = [where if case == "no_run" else run, query, where if case == "no_folder" else folder]
    assert command("nearest", *arguments, "--own-code", *options) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    errors = [line for line in shown.err.splitlines() if not line.startswith("warning: ")]
    assert len(errors) == 1 and errors[0].startswith("error: ") and sentence in errors[0]


def test_an_unexpected_error_does_not_mean_no(command, run, glyphs, capsys, monkeypatch):
    """Python exits with 1 after an exception, which would mean \"no\"."""
    monkeypatch.setattr(CalibratedModel, "compare", lambda *arguments: 1 / 0)
    a, b, *_ = paths_of(glyphs)
    assert command("same", run, a, b, "--own-code") == 2
    assert "Unexpected ZeroDivisionError" in capsys.readouterr().err
