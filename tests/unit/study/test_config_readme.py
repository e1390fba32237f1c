"""The workflow can read the studies, methods and datasets that the manual shows."""

import re
from itertools import groupby

import pytest

from recheck.data.description import load_dataset
from recheck.study.checks import check_study
from recheck.study.compose import Files, compose
from recheck.study.model import load_study
from recheck.study.yaml import names_in
from support.project import ROOT
from support.project.studies import FILES, weights_of
from support.report import pages

KINDS = ("studies", "methods", "datasets")
NAME = re.compile(rf"config/({'|'.join(KINDS)})/(\w+)\.yaml")
# examples whose modules the page shows: test_extending.py runs them
WITH_MODULES = ("docs/extending.md",)
# heading → rows of each study in the section
ROWS = {
    "A minimal study": [["angular", "contrastive_within_pair", "proxy_anchor"]],
    "Base: changing another study": [["hybrid", "no_expansion", "no_complement"]],
    "Rows: a method with other settings": [["triplet", "triplet_wide"]],
    "Sweep: one setting, several values": [["npair_8", "npair_32", "margin_8", "margin_32"]],
    "Searching for hyper-parameters": [["triplet", "arcface"]],
    "Published numbers": [["pca"]],
    "Released checkpoints": [["ms_within_pair_released"]],
    "Tune your loss": [["triplet", "soft_margin"]],
    "Your own loss": [["triplet", "arcface", "soft_margin"]],
    "Your own method file": [["triplet", "soft_margin", "soft_margin_warm"]],
    "Add it to another loss": [["nt_xent", "nt_xent_within_pair"]],
    "Selection on the test set": [["npair", "proxy_triplet"]],
    "Weights of the hybrid loss": [["hybrid", "hybrid_half"]],
    "Mistakes of the published run": [["circle_loss", "circle_largest"]],
}


def examples():
    """One parameter per section that shows files: [(kind, name, text), …], with the heading as its id."""
    shown = [block for block in pages.all_blocks("yaml") if NAME.fullmatch(block.file or "")]
    for (page, heading), blocks in groupby(shown, lambda block: (block.page, block.heading)):
        if page not in WITH_MODULES:
            yield pytest.param([(*NAME.fullmatch(block.file).groups(), block.body) for block in blocks], id=heading)


def paths_with(folder, files):
    """Name → path of all files of each kind, including the files of an example."""
    paths = {kind: names_in([ROOT / "config" / kind]) for kind in KINDS}
    for kind, name, text in files:
        if name in paths[kind]:
            # The example extends an existing file (its lines go below the key of the same name), or replaces it.
            key, existing = text.partition("\n")[0], paths[kind][name].read_text(encoding="utf-8")
            text = existing.replace(f"{key}\n", text, 1) if f"\n{key}\n" in existing else text
        path = folder / f"{kind}_{name}.yaml"
        path.write_text(text, encoding="utf-8")
        paths[kind][name] = path
    return paths


def read(folder, files):
    """The studies of an example, after every variant has been read and checked."""
    paths = paths_with(folder, files)
    known, studies = Files(paths["studies"], paths["methods"]), []
    for kind, name, _ in files:
        if kind == "datasets":
            load_dataset(name, paths["datasets"], "here")
        if kind != "studies":
            continue
        for variant in [None, *compose(name, known)["variants"]]:
            study = load_study(name, known, with_weights=weights_of, variant=variant)
            check_study(study)
            for dataset in study.datasets:
                load_dataset(dataset, paths["datasets"], study.path)
        studies.append(load_study(name, known, with_weights=weights_of))
    return studies


def section(heading):
    return next(param.values[0] for param in examples() if param.id == heading)


@pytest.fixture(autouse=True)
def _modules_of_the_examples(tmp_path, monkeypatch):
    """The examples name the manual's `my_losses.py`, a file beside the Snakefile."""
    (tmp_path / "my_losses.py").write_text(pages.files("docs/own_loss.md")["my_losses.py"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("files", list(examples()))
def test_an_example_can_be_read(files, tmp_path):
    studies = read(tmp_path, files)
    assert len(studies) == sum(kind == "studies" for kind, _, _ in files)


@pytest.mark.parametrize("heading", ROWS)
def test_an_example_has_the_rows_that_its_text_names(heading, tmp_path):
    assert [list(study.rows) for study in read(tmp_path, section(heading))] == ROWS[heading]


def test_a_study_inherits_the_settings_of_the_datasets_of_its_base(tmp_path):
    (study,) = read(tmp_path, section("Base: changing another study"))
    base = load_study("contextual_256", FILES, with_weights=weights_of)
    assert study.datasets == ("cub200", "sop") and study.published is None
    assert study.run("sop", "hybrid").settings["sampler"] == base.run("sop", "hybrid").settings["sampler"]
    assert study.run("sop", "hybrid").settings["schedule"]["epochs"] == 40
    losses = {row: study.run("cub200", row).settings["loss"] for row in study.rows}
    assert losses["no_complement"] == {**losses["no_expansion"], "variant": 7}
    weights = ("w_context", "w_contrastive", "w_reg", "target")
    assert len({tuple(loss[key] for key in weights) for loss in losses.values()}) == 1


def test_hyperparameters_of_uses_the_tuned_values_of_that_dataset(tmp_path):
    tuned, mlrc = read(tmp_path, section("Tuned values per dataset, and `hyperparameters_of`"))
    assert {tuned.run(name, "triplet").settings["loss"]["margin"] for name in tuned.datasets} == {0.096}
    base = load_study("mlrc", FILES, with_weights=weights_of)
    assert list(mlrc.rows) == list(base.rows)
    assert mlrc.run("my_images", "arcface").settings["loss"] == base.run("cub200", "arcface").settings["loss"]


def test_every_row_takes_label_and_paper_from_its_method_file(tmp_path):
    (study,) = read(tmp_path, section("Your own method file"))
    assert study.rows["soft_margin"].label == "Soft margin"
    assert study.rows["soft_margin_warm"].paper == study.rows["soft_margin"].paper
    assert study.run("emoji", "soft_margin_warm").settings["loss"]["temperature"] == 0.5
