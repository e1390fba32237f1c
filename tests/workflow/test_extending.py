"""Every template of docs/extending.md runs as it stands, on a study that takes seconds."""

import json
import re
from pathlib import Path

import pytest
import yaml

from support.report import pages

FILES = pages.files("docs/extending.md")
PYTHON = {name: text for name, text in FILES.items() if name.endswith(".py")}
YAML = {name: text for name, text in FILES.items() if name.endswith(".yaml")}
# Studies that are tested by a training step
TRIED = ("my_loss", "my_miner", "my_sampler", "my_head", "my_net", "my_transform")


def all_in_one() -> str:
    """One study with the rows of all templates, so that one job tries them.

    A template that changes the protocol becomes a row.
    """
    rows = {}
    for name in TRIED:
        study = yaml.safe_load(YAML[f"config/studies/{name}.yaml"])
        rows |= study.get("methods") or {name: {"method": "triplet", "label": name, **study["protocol"]}}
    protocol = {"evaluation": {"metrics": ["P@1", "RP", "MAP@R", "my_metrics:nearest_mean"]}}
    return yaml.safe_dump({"base": "letters", "title": "All", "keep": [], "protocol": protocol, "methods": rows})


@pytest.fixture(scope="module")
def mine(finished, tmp_path_factory):
    """A finished study, with the files of the page beside it."""
    project = finished.copy(tmp_path_factory.mktemp("extending") / "project")
    for name, text in (PYTHON | YAML).items():
        project.write(name, text.replace("base: quickstart", "base: letters"))
    project.path("glyphs").rename(project.path("my_images"))
    project.path("glyphs").symlink_to("my_images")
    return project


def test_the_page_has_a_template_for_everything_that_it_names():
    assert len(PYTHON) == 9 and len(YAML) == 8
    assert {f"config/studies/{name}.yaml" for name in TRIED} < set(YAML)


def test_the_studies_of_the_page_can_be_read(mine):
    for name in YAML:
        if name.startswith("config/studies"):
            mine.succeed("--cores", "1", "--dry-run", "--config", f"study={Path(name).stem}")


def test_templates_can_be_tried(mine):
    mine.write("config/studies/all_in_one.yaml", all_in_one())
    output = mine.succeed("--cores", "1", "try", "--config", "study=all_in_one")
    rows = output.split(" on glyphs, cpu: images of resources/datasets/glyphs/images.csv, packed in ")[1:]
    assert len(rows) == len(TRIED)
    for tried in rows:
        for name in ("model", "batch", "embeddings", "loss", "gradients", "evaluation"):
            assert re.search(rf"^  {name} +\S", tried, re.MULTILINE), name
        assert re.search(r"^  evaluation .*, val_my_metrics:nearest_mean \d\.\d+$", tried, re.MULTILINE)
        assert "looks wrong  nothing" in tried, tried
    assert re.search(r"^  learned +loss_temperature 0\.2 → 0\.\d+$", output, re.MULTILINE)
    assert not mine.path("results/all_in_one").exists(), "nothing is trained"


def test_a_row_that_fails_is_named_and_the_others_are_tried(mine):
    mine.write("broken.py", PYTHON["my_losses.py"].replace("unit @ unit.T", "unit @ unit"))
    text = YAML["config/studies/my_loss.yaml"].replace("base: quickstart", "base: letters")
    mine.write("config/studies/broken.yaml", text.replace("my_losses:", "broken:").replace("methods:", "methods:\n"))
    mine.edit(
        "config/studies/broken.yaml", "keep:", "protocol: {transforms: {eval: [{center_crop: {size: 64}}]}}\nkeep:"
    )
    output = mine.fail("--cores", "1", "try", "--config", "study=broken")
    assert "  failed       broken.py, line 15, in forward (loss 'broken:Contrast'): RuntimeError" in output
    assert "  looks wrong  'transforms.eval' crops 64 pixels and pads smaller images with black: 12 of 12." in output
    assert "triplet on glyphs" in output and "1 of 2 rows failed: contrast. See the reasons above." in output


def test_without_images_noise_is_tried(fresh):
    """A dataset that has not been fetched: nothing is downloaded or written."""
    fresh.write("config/datasets/glyphs.yaml", fresh.read("config/datasets/emoji.yaml"))
    output = fresh.succeed("--cores", "1", "try", "--config", "methods=[triplet]")
    assert (
        "triplet on glyphs, cpu: noise instead of images, because resources/datasets/glyphs/images.csv does not"
        in output
    )
    assert "looks wrong  nothing" in output
    assert not fresh.path("results").exists() and not fresh.path("resources/datasets").exists()


def test_metric_and_figure(mine):
    """They are evaluated and drawn for models that are already trained, and an edit reruns only them."""
    arguments = ("--cores", "2", "--config", "figures=['my_figures:Speed']", "--")
    mine.edit("config/studies/letters.yaml", "metrics: [P@1,", "metrics: ['my_metrics:nearest_mean', P@1,")
    mine.edit("config/studies/letters.yaml", "table: [P@1,", "table: ['my_metrics:nearest_mean', P@1,")
    targets = ("results/letters/figures/glyphs_speed.svg", "results/letters/glyphs/table.md")
    mine.succeed(*arguments, *targets)
    evaluation = json.loads(mine.read("results/letters/glyphs/triplet/seed0/concatenated.json"))
    assert 0 < evaluation["metrics"]["my_metrics:nearest_mean"] <= 1
    assert "nearest mean" in mine.read("results/letters/glyphs/table.md")
    assert "images per second" in mine.read(targets[0])
    assert mine.planned(*arguments, *targets) == {}
    mine.write("my_metrics.py", PYTHON["my_metrics.py"] + "\n# edited\n")
    assert mine.planned(*arguments, *targets).keys() == {"evaluate", "table"}
    mine.write("my_figures.py", PYTHON["my_figures.py"] + "\n# edited\n")
    assert mine.planned(*arguments, *targets[:1]) == {"figure": 1}


def test_parser(mine):
    mine.succeed("--cores", "1", "--", "resources/datasets/my_dataset/images.csv")
    assert "A/DejaVuSans.png,0,A,," in mine.read("resources/datasets/my_dataset/images.csv")
