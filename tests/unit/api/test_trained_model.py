"""A calibrated model in use: the study's embeddings and threshold to the bit, and clear errors."""

import contextlib
import json
import os
import pickle
import shutil
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from recheck import seal
from recheck.api.model import load
from recheck.api.runs import BATCH
from recheck.data import transforms
from recheck.data.folder import parse_folder
from recheck.data.found_images import images_below
from recheck.data.images import reading_of
from recheck.data.packed import PackedImages, pack
from recheck.errors import UserError
from recheck.evaluation.calibration import calibrate, is_accepted, neighbours
from recheck.evaluation.views import concatenated, normalise
from recheck.files import sha256
from recheck.models.embedding import EmbeddingModel, load_any, save_model
from recheck.training.loading import embed
from support.project.trained import (
    DATA,
    EVAL,
    MEASURED,
    RESIZE,
    SPEC,
    change,
    paths_of,
    with_distances,
    write_fold,
    write_run,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run")


@pytest.fixture
def model(run):
    return load(run, own_code=True)


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
    result = load(folder, own_code=True).embed([root / path for path in index["path"]])
    assert result.dtype == np.float32 and result.shape == (48, 16)
    assert np.array_equal(result, normalise(study))
    np.testing.assert_allclose(np.linalg.norm(result.astype(np.float64), axis=1), 1, atol=1e-6)
    assert len(np.unique(result, axis=0)) == 48


def test_reading_options_change_the_embeddings(tmp_path):
    """Without this, the test above would not notice options that are not passed on."""
    Image.new("RGBA", (40, 40), (200, 30, 30, 60)).save(tmp_path / "clear.png")
    models = [load(write_run(tmp_path / alpha, images={"alpha": alpha}), own_code=True) for alpha in ("white", "drop")]
    white, drop = (model.embed([tmp_path / "clear.png"]) for model in models)
    assert not np.allclose(white, drop, atol=1e-3)


def test_a_search_depends_only_on_the_images(model, glyphs):
    """Not on what else is in a batch: all batches have the same size, and the last one is filled up."""
    query, *paths = paths_of(glyphs)
    sizes = set()
    model.networks[0].register_forward_pre_hook(lambda module, images: sizes.add(len(images[0])))
    together = {match.image: match for match in model.nearest(query, paths, 100)}
    assert {match.image: match for match in model.nearest(query, reversed(paths), 100)} == together
    for count in (1, 2, BATCH - 1, BATCH + 1):
        assert all(together[match.image] == match for match in model.nearest(query, paths[:count], 100))
    assert sizes == {BATCH}
    assert model.embed([]).shape == (0, 16)


def test_loading_again_gives_bit_identical_embeddings(run, model, glyphs):
    torch.manual_seed(5)
    again = load(run / "calibration.json", own_code=True)
    assert np.array_equal(again.embed(paths_of(glyphs)), model.embed(paths_of(glyphs)))
    assert not again.networks[0].training
    other = load(write_run(run.with_name("other"), seed=1), own_code=True)
    assert not np.allclose(other.embed(paths_of(glyphs)), model.embed(paths_of(glyphs)), atol=1e-3)


def test_images_of_other_shapes_need_no_crop(tmp_path):
    model = load(write_run(tmp_path / "run", resize=None, steps=[]), own_code=True)
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
    result = model.same(a, str(b))
    assert result.distance == pytest.approx(1 - first @ second, abs=1e-7)
    assert model.same(b, a).distance == result.distance
    assert model.same(a, a) == (pytest.approx(0, abs=1e-7), 0.2, True)


def test_a_distance_equal_to_the_threshold_is_accepted(run, model, glyphs):
    """Compared as in the table, as float32 rounded to 8 decimals, so the neighbour that defined it is accepted."""
    a, b, *_ = paths_of(glyphs)
    distance = model.same(a, b).distance
    edge = np.round(np.float32(distance), 8)
    below, above = np.nextafter(edge, np.float32(0)), np.nextafter(edge, np.float32(2))
    for limit, same in ((below, False), (edge, True), (above, True)):
        assert model.same(a, b, float(limit)) == (distance, float(limit), same)
        changed = with_distances(run, unseen_queries=float(limit))
        assert changed.same(a, b).same is same
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
        match.accepted and labels[match.image] == labels[query] for match, query in zip(matches, queries, strict=True)
    ]
    assert np.mean(right) == calibration.optimal.binary_accuracy
    assert sum(right) / sum(match.accepted for match in matches) == calibration.optimal.precision


def test_nearest_agrees_with_a_full_comparison(model, glyphs):
    query, *paths = paths_of(glyphs)
    embeddings = model.embed(paths).astype(np.float64)
    distances = np.maximum(0, 1 - embeddings @ model.embed([query])[0].astype(np.float64))
    order = np.argsort(distances)
    matches = model.nearest(query, paths, 7)
    assert [match.image for match in matches] == [paths[place] for place in order[:7]]
    np.testing.assert_allclose([match.distance for match in matches], distances[order[:7]], atol=1e-7)
    assert [match.accepted for match in matches] == [bool(is_accepted(match.distance, 0.2)) for match in matches]
    for match in matches:
        assert model.same(query, match.image).distance == match.distance
    assert len(model.nearest(query, paths[:3], 7)) == 3
    assert len(model.nearest(query, paths)) == 5
    assert model.nearest(query, []) == []


def test_copies_keep_the_given_order(model, glyphs, tmp_path):
    query, other, *_ = paths_of(glyphs)
    copies = [Path(shutil.copy(other, tmp_path / f"{name}.png")) for name in "cab"]
    fillers = paths_of(glyphs)[10 : 10 + BATCH]  # so that the copies are in different batches
    matches = model.nearest(query, [copies[0], *fillers, *copies[1:]], 100)
    places = [number for number, match in enumerate(matches) if match.image in copies]
    assert [matches[place].image for place in places] == copies
    assert len({matches[place].distance for place in places}) == 1
    assert places == list(range(places[0], places[0] + 3))


def test_thresholds_have_names_or_are_numbers(run, glyphs):
    a, b, *_ = paths_of(glyphs)
    model = with_distances(run, seen_queries=1.5, unseen_queries=0.0)
    assert model.same(a, b).threshold == model.same(a, b, "unseen").threshold == 0.0
    assert model.same(a, b, "seen") == model.same(a, b, "seen_queries")
    assert model.same(a, b, "seen").same and not model.same(a, b).same
    assert model.same(a, b, np.float32(0.5)).threshold == 0.5
    assert model.threshold("seen").queries == 980
    for wrong, sentence in (
        ("sen", "Unknown threshold 'sen'; did you mean 'seen'? Known: seen, seen_queries, unseen, "),
        (-0.1, "must be a cosine distance from 0 to 2, found -0.1"),
        (2.1, "from 0 to 2"),
        (float("nan"), "from 0 to 2"),
        (True, "from 0 to 2"),
    ):
        with pytest.raises(UserError, match="threshold") as raised:
            model.same(a, b, wrong)
        assert sentence in str(raised.value)
    for count in (0, -1, 1.5, True):
        with pytest.raises(UserError, match="must be a whole number of at least 1"):
            model.nearest(a, [b], count)


def test_a_missing_query_set_is_named_when_it_is_used(run, glyphs):
    change(run, lambda about: about["thresholds"].pop("unseen_queries"))
    a, b, *_ = paths_of(glyphs)
    model = load(run, own_code=True)
    assert model.same(a, b, "seen").threshold == 0.4
    with pytest.raises(UserError, match="Unknown threshold 'unseen_queries'"):
        model.same(a, b)


# Wrong and damaged files


def test_a_damaged_model_is_refused(run):
    file = run / "fold0" / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    with pytest.raises(UserError, match=r"is not the model that .*calibration\.json describes"):
        load(run, own_code=True)
    change(run, lambda about: about.update(model_sha256=sha256(file)))
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        load(run, own_code=True)
    file.unlink()
    with pytest.raises(UserError, match="which does not exist: run the study again"):
        load(run, own_code=True)


def test_another_model_is_refused(run):
    other = write_run(run.with_name("other"), seed=1)
    shutil.copy(other / "fold0" / "model.safetensors", run / "fold0")
    with pytest.raises(UserError, match="is not the model"):
        load(run, own_code=True)


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
            load(run, own_code=True)
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
        load(run)
    assert not (tmp_path / "made").exists()


def test_a_model_of_the_package_needs_no_permission(tmp_path, glyphs):
    spec = {**SPEC, "backbone": {"name": "efficientnet_lite0", "weights": "imagenet"}}
    file = write_run(tmp_path / "run", spec=spec) / "fold0" / "model.safetensors"
    with safe_open(file, framework="pt") as opened:
        assert json.loads(opened.metadata()["recheck"])["model"] == spec
    assert load(tmp_path / "run").embed(paths_of(glyphs)[:2]).shape == (2, 16)


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
    with pytest.raises(
        UserError, match=r"cannot be built \(it would have 128,[\d,]* numbers, but the file has [\d,]*\)"
    ):
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
        load(run, own_code=True)
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
        load(run, own_code=True)


def test_folders_without_a_calibrated_run_are_named(run, tmp_path):
    for path in (tmp_path / "nowhere", run / "fold0" / "model.safetensors", tmp_path):
        with pytest.raises(UserError, match=r"Found no model at .*: pass the folder of a finished run"):
            load(path)
    with pytest.raises(UserError, match=r"run\.json does not exist: run the study again"):
        load(run / "fold0")
    for text, sentence in (("{", "is not valid JSON"), ("[]", "must be a mapping of keys to values")):
        (run / "calibration.json").write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=sentence):
            load(run)
    with pytest.raises(UserError, match="Unknown device 'gpux'"):
        load(run, "gpux")


def test_images_that_cannot_be_read_are_all_named(model, glyphs, tmp_path):
    good, *_ = paths_of(glyphs)
    (tmp_path / "text.png").write_text("no picture", encoding="utf-8")
    (tmp_path / "half.png").write_bytes(good.read_bytes()[:150])
    paths = [tmp_path / "text.png", good, tmp_path / "half.png", tmp_path / "none.png"]
    with pytest.raises(UserError, match=r"text\.png cannot be read \(not an image\): replace it, or leave it out\.$"):
        model.same(good, paths[0])
    with pytest.raises(UserError, match=r"none\.png cannot be read \(no such file\): replace it, or leave it out\.$"):
        model.nearest(paths[3], [good])
    with pytest.raises(UserError, match="3 images cannot be read; replace them, or leave them out:") as raised:
        model.embed(paths)
    assert all(f"{path}: " in str(raised.value) for path in paths if path != good)
    with pytest.raises(UserError, match="3 images cannot be read"):
        model.nearest(good, paths)
    skipped = []
    matches = model.nearest(good, paths, skipped=lambda path, why: skipped.append((path, why)))
    assert [match.image for match in matches] == [good]
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


# Runs without thresholds, folds and arrays


def test_the_folds_of_a_seed_form_one_model(tmp_path, glyphs):
    folds = [write_fold(tmp_path / "seed0" / f"fold{number}", seed=number) for number in range(3)]
    paths = paths_of(glyphs)
    whole, members = load(tmp_path / "seed0", own_code=True), [load(fold, own_code=True) for fold in folds]
    assert whole.dim == 48 and members[0].dim == 16 and len(whole.networks) == 3
    raw = [model.embed(paths, normalise=False) for model in members]
    assert np.array_equal(whole.embed(paths), concatenated(raw))
    assert np.array_equal(whole.embed(paths, normalise=False), np.concatenate(raw, axis=1))
    assert np.array_equal(members[1].embed(paths), normalise(raw[1]))
    assert whole.about["method"] == "triplet" and "fold" not in whole.about and members[1].about["fold"] == 1


def test_a_model_without_thresholds_needs_a_distance(tmp_path, glyphs):
    model = load(write_fold(tmp_path / "fold0"), own_code=True)
    a, b, *_ = paths_of(glyphs)
    with pytest.raises(UserError, match="This model has no calibrated threshold: pass a cosine distance"):
        model.same(a, b)
    assert model.same(a, b, 2.0).same
    assert [match.accepted for match in model.nearest(a, [a, b])] == [None, None]
    assert [match.accepted for match in model.nearest(a, [a, b], threshold=2.0)] == [True, True]
    with pytest.raises(UserError, match="Unknown threshold 'seen'"):
        model.same(a, b, "seen")


@pytest.mark.parametrize("resize", [None, {"exact": [20, 24], "jpeg": 75}, {"fit": [30, 30]}, {"shorter": 30}])
def test_arrays_and_pillow_images_are_embedded_like_their_files(tmp_path, glyphs, resize):
    model = load(write_fold(tmp_path / "fold0", resize=resize), own_code=True)
    paths = paths_of(glyphs)[:5]
    pixels = [np.asarray(Image.open(path).convert("RGB")) for path in paths]
    expected = model.embed(paths)
    assert np.array_equal(model.embed(pixels), expected)
    assert np.array_equal(model.embed(Image.open(path) for path in paths), expected)
    assert model.same(paths[0], pixels[0], 0.5).distance == pytest.approx(0, abs=1e-6)
    for wrong, description in ((pixels[0] / 255, "float64"), (pixels[0][..., 0], "uint8"), (3, "int")):
        with pytest.raises(UserError, match=f"RGB array of uint8 with shape .*, found {description}"):
            model.embed([wrong])
    with pytest.raises(UserError, match="must be a list of images, found the path"):
        model.embed(str(paths[0]))


def test_folds_that_do_not_fit_together_are_refused(tmp_path):
    write_fold(tmp_path / "seed0" / "fold0")
    write_fold(tmp_path / "seed0" / "fold1", resize=None)
    with pytest.raises(UserError, match=r"fold1.run\.json and .*fold0.run\.json have different settings"):
        load(tmp_path / "seed0", own_code=True)
    (tmp_path / "seed0" / "fold1" / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"fold1.model\.safetensors does not exist"):
        load(tmp_path / "seed0", own_code=True)


def test_a_record_without_the_reading_of_images_is_refused(tmp_path):
    fold = write_fold(tmp_path / "fold0")
    change(fold, lambda about: about.pop("images"), "run.json")
    with pytest.raises(UserError, match=r"run\.json does not say how image files are read.*\"images\": "):
        load(fold, own_code=True)


def test_memory_holds_one_batch_of_images(tmp_path, glyphs, monkeypatch):
    """Counted, not timed: of 400 images, no more than a batch and the next image are alive at any moment."""
    model = load(write_fold(tmp_path / "fold0", batch=16), own_code=True)
    alive, most, prepare = weakref.WeakSet(), [0], model.prepare

    def watched(image):
        tensor = prepare(image)
        alive.add(tensor)
        most[0] = max(most[0], len(alive))
        return tensor

    monkeypatch.setattr(model, "prepare", watched)
    paths = (path for _ in range(9) for path in paths_of(glyphs))
    sizes = [len(positions) for positions, _ in model.stream(paths)]
    assert sizes == [16] * 27 and most[0] <= 17
