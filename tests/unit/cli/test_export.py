"""Exported models: loaded again they give the same embeddings; the card has the row, the hashes and the licences."""

import json
import shutil

import numpy as np
import onnxruntime
import pytest
import timm
import torch
from safetensors.torch import load_file

from recheck.api.model import load
from recheck.cli.main import main
from recheck.files import write_json
from support.datasets.glyphs import make_glyphs
from support.project.trained import paths_of, write_fold, write_run

pytestmark = pytest.mark.slow

ROW = {"method": "triplet", "view": "separated", "metric": "P@1", "mean": 61.5, "interval": 1.25, "seeds": 3}
ROW |= {"published": 63.0, "warned": False}
TIMM = {
    "backbone": {"name": "timm/test_resnet", "weights": "none", "options": {"global_pool": "max"}},
    "head": {"class": "Linear", "dim": 16},
}


@pytest.fixture(scope="module")
def glyphs(tmp_path_factory):
    return make_glyphs(tmp_path_factory.mktemp("images") / "glyphs", classes=4, per_class=4, size=40)


@pytest.fixture
def seed(tmp_path):
    """A seed of two folds, with the study's table."""
    folder = tmp_path / "results" / "letters" / "glyphs" / "triplet" / "seed0"
    for fold in range(2):
        write_fold(folder / f"fold{fold}", seed=fold)
    other = {**ROW, "method": "arcface", "mean": 12.0}
    write_json(folder.parents[1] / "table.json", {"rows": [other, ROW, {**ROW, "metric": "RP", "mean": None}]})
    return folder


def export(*arguments):
    return main(["export", *map(str, arguments), "--own-code"])


def test_a_model_repository_can_be_loaded_again(seed, glyphs, tmp_path, capsys):
    assert export(seed, "--to", "huggingface", "-o", tmp_path / "made") == 0
    assert "recheck.load reads this folder" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "made").iterdir()}
    assert names == {"README.md", "config.json", "recheck.json", "model-0.safetensors", "model-1.safetensors"}
    moved = shutil.move(tmp_path / "made", tmp_path / "elsewhere")
    before, after = load(seed, own_code=True), load(moved, own_code=True)
    assert np.array_equal(before.embed(paths_of(glyphs)), after.embed(paths_of(glyphs)))
    card = (moved / "README.md").read_text(encoding="utf-8")
    assert "| separated | P@1 | 61.50 ± 1.25 | 3 | 63.00 |" in card and "12.00" not in card
    assert "`b`" in card and "`a`" in card  # hashes of pixels and split
    assert "Pretrained weights: none (trained from random weights)" in card
    assert export(moved, "--to", "huggingface", "-o", tmp_path / "again") == 0
    assert (tmp_path / "again" / "README.md").read_text(encoding="utf-8") == card


def test_thresholds_are_exported(glyphs, tmp_path):
    run = write_run(tmp_path / "run")
    assert export(run, "--to", "huggingface", "-o", tmp_path / "made") == 0
    a, b, *_ = paths_of(glyphs)
    assert load(tmp_path / "made", own_code=True).same(a, b) == load(run, own_code=True).same(a, b)


@pytest.mark.parametrize(
    ("backbone", "words"),
    [
        ({"name": "resnet50", "weights": "imagenet"}, "BSD-3-Clause, like torchvision"),
        ({"name": "resnet50", "weights": "resources/weights/resnet50-0676ba61.pth"}, "BSD-3-Clause, like torchvision"),
        ({"name": "mine:Net", "weights": "own.pth"}, "not stated"),
        ({"name": "efficientnet_lite0", "weights": "imagenet"}, "not stated by the package efficientnet_lite0"),
    ],
)
def test_the_card_names_the_licences(tmp_path, backbone, words):
    from recheck.export.facts import licences

    model = load(write_fold(tmp_path / "fold0"), own_code=True)
    record = model.description.records[0]
    record["configuration"]["model"] = {"backbone": backbone}
    model.description.about["dataset"] = "cub200"
    terms = licences(model.description)
    assert words in terms["weights"] and "photos from Flickr" in terms["images"]


def test_onnx_agrees_with_pytorch_on_images(seed, glyphs, tmp_path, capsys):
    assert export(seed, "--to", "onnx", "-o", tmp_path / "made", "--images", glyphs) == 0
    assert "agrees with PyTorch on 16 images" in capsys.readouterr().out
    model, paths = load(seed, own_code=True), paths_of(glyphs)
    session = onnxruntime.InferenceSession(str(tmp_path / "made" / "model.onnx"))
    images = np.stack([model.prepare(path).numpy() for path in paths])
    for batch in (images, images[:1], images[:5]):
        (theirs,) = session.run(None, {"images": batch})
        np.testing.assert_allclose(theirs, model.embed(paths)[: len(batch)], atol=1e-4)
    about = json.loads((tmp_path / "made" / "preparation.json").read_text(encoding="utf-8"))
    assert about["input"] == [3, 26, 26] and about["output"] == 32


def test_images_that_onnx_cannot_be_tested_on(seed, glyphs, tmp_path, capsys, monkeypatch):
    """Broken images are listed and left out. Images of several sizes, and no readable image, are errors."""
    from recheck.export import folder

    given = []
    monkeypatch.setitem(folder.LAYOUTS, "onnx", lambda model, work, images: given.append(images) or "Done.")
    root = shutil.copytree(glyphs, tmp_path / "photos")
    (root / "A" / "text.png").write_text("no picture", encoding="utf-8")
    assert export(seed, "--to", "onnx", "-o", tmp_path / "made", "--images", root) == 0
    shown = capsys.readouterr().err
    assert f"skipped 1 file(s) that cannot be read:\nwarning:   {root / 'A' / 'text.png'}: not an image\n" in shown
    assert [images.shape for images in given] == [(16, 3, 26, 26)]
    assert export(seed, "--to", "onnx", "-o", tmp_path / "other", "--images", root / "A" / "text.png") == 2
    assert "None of the images from --images can be read: pass other images." in capsys.readouterr().err
    free = write_fold(tmp_path / "free", resize=None, steps=[])
    assert export(free, "--to", "onnx", "-o", tmp_path / "other", "--images", root) == 2
    assert "of 512 x 512 and of 40 x 40 pixels, but an ONNX file has one size" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_an_output_that_cannot_be_written_is_refused(seed, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert export(seed, "--to", "huggingface", "-o", tmp_path / "file" / "made") == 2
    assert "cannot be written" in capsys.readouterr().err


def test_an_onnx_file_that_differs_is_not_kept(seed, tmp_path, capsys, monkeypatch):
    from recheck.export import onnx

    monkeypatch.setattr(onnx, "difference", lambda *arguments: 2e-4)
    monkeypatch.setattr(torch.onnx, "export", lambda *arguments, **options: None)
    assert export(seed, "--to", "onnx", "-o", tmp_path / "made") == 2
    assert "differ by 2.0e-04, more than 0.0001, so the ONNX file was not kept" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"results"}


def test_timm_reads_the_backbone(glyphs, tmp_path, capsys):
    fold = write_fold(tmp_path / "fold0", spec=TIMM)
    assert export(fold, "--to", "timm", "-o", tmp_path / "made") == 0
    assert "A new timm model with these weights has the same features" in capsys.readouterr().out
    about = json.loads((tmp_path / "made" / "config.json").read_text(encoding="utf-8"))
    backbone = timm.create_model(about["architecture"], num_classes=0, **about["model_args"]).eval()
    backbone.load_state_dict(load_file(tmp_path / "made" / "model.safetensors"))
    head = load_file(tmp_path / "made" / "head.safetensors")
    model = load(fold)
    pixels = model.prepare(paths_of(glyphs)[0])[None].float() / 255
    mean, std = (torch.tensor(about["pretrained_cfg"][key]).view(1, 3, 1, 1) for key in ("mean", "std"))
    with torch.inference_mode():
        features = backbone((pixels - mean) / std)
        embedding = features @ head["weight"].T + head["bias"]
    np.testing.assert_allclose(embedding, model.embed(paths_of(glyphs)[:1], normalise=False), rtol=1e-3, atol=1e-4)


def test_what_timm_cannot_hold_is_refused(seed, tmp_path, capsys, monkeypatch):
    assert export(seed, "--to", "timm", "-o", tmp_path / "made") == 2
    assert "this run has 2 folds: export one fold" in capsys.readouterr().err
    assert export(seed / "fold0", "--to", "timm", "-o", tmp_path / "made") == 2
    assert "is not one of timm's" in capsys.readouterr().err
    monkeypatch.setattr("recheck.export.timm.TOLERANCE", -1.0)
    assert export(write_fold(tmp_path / "fold0", spec=TIMM), "--to", "timm", "-o", tmp_path / "made") == 2
    assert "gives features that differ by up to" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_nothing_is_overwritten(seed, tmp_path, capsys):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine.txt").touch()
    assert export(seed, "--to", "huggingface", "-o", tmp_path / "made") == 2
    assert "exists and is not an empty folder" in capsys.readouterr().err
    assert export(seed, "--to", "huggingface", "-o", tmp_path / "other", "--images", tmp_path) == 2
    assert "--images works only with `--to onnx`" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert export(seed, "--to", "huggingface", "-o", tmp_path / "empty") == 0


def test_a_changed_export_is_refused(seed, tmp_path):
    from recheck.errors import UserError

    export(seed, "--to", "huggingface", "-o", tmp_path / "made")
    file = tmp_path / "made" / "model-0.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=r"is not the model that .*recheck\.json describes"):
        load(tmp_path / "made", own_code=True)
    file.unlink()
    with pytest.raises(UserError, match="which does not exist: export it again"):
        load(tmp_path / "made", own_code=True)
