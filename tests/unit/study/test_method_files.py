"""config/methods: every file is used, labels are unique, citations are complete, and rows have their method's label."""

import re

import pytest

from recheck.study.compose import Files, compose
from recheck.study.schema import validate
from recheck.study.yaml import names_in, read_yaml
from support.project import ROOT

STUDIES = names_in([ROOT / "config/studies"])
METHODS = names_in([ROOT / "config/methods"])
FILES = Files(STUDIES, METHODS)
PAPERS = {name: read_yaml(path)["paper"] for name, path in METHODS.items() if "paper" in read_yaml(path)}
# Rows with settings that differ from their method's, and with a label that says so.
REGULARISED = {"contrastive", "roadmap", "triplet"}
HYPERBOLIC = {"sph_deit", "sph_dino", "hyp_deit", "hyp_dino"}
FROZEN = {
    *("deit_s", "dino_s", "vit_s", "unicom_b32", "unicom_b16", "unicom_l14", "unicom_l14_336"),
    *("dinov2_s", "dinov2_b", "siglip_b16", "clip_b16"),
}
OWN_LABELS = {
    "contextual_224": REGULARISED,
    "mlrc_pretrained": {"standardise_pca", "pca", "random_linear"},
    "unbiased": {"dreml"},
    "unbiased_resnet50": {"dreml"},
    "unbiased_tiny": {"dreml"},
    "contextual_tiny": {"hybrid_products", *REGULARISED},
    "contextual_tiny_256": {"hybrid_products"},
    "contextual_ablations": {"hybrid", *(f"ablation_{number}" for number in range(1, 11))},
    "contextual_tiny_ablations": {"hybrid", *(f"ablation_{number}" for number in range(1, 11))},
    "grand": {"norm_proxy_float", "dreml"},
    "grand_emoji": {"norm_proxy_float", "dreml"},
    "grand_emoji_chosen": {"norm_proxy_float", "dreml"},
    "hyperbolic": HYPERBOLIC,
    "modern_tiny": HYPERBOLIC,
    "frozen": FROZEN,
    "frozen_tiny": FROZEN,
    "recipe_2025": {"no_head"},
    "recipe_2025_tiny": {"no_head"},
    "calibration_faults": {
        *("corrected", "fresh_weights", "fresh_rounded", "scaled_twice", "legacy_loss", "unbalanced"),
        *("largest_distance", "all_but_fresh", "all_faults"),
    },
}


@pytest.fixture(scope="module")
def studies():
    return {name: compose(name, FILES) for name in STUDIES}


def test_every_method_is_valid_and_used_by_a_study(studies):
    for path in METHODS.values():
        validate(read_yaml(path), "method", path)
    rows = [row for study in studies.values() for row in study["methods"].values()]
    assert {row["method"] for row in rows if "method" in row} == set(METHODS)
    # rows without a method are losses of the library, with its default arguments, under the names of their classes
    assert all(row["label"] == row["loss"]["class"] for row in rows if "method" not in row)


def test_labels_of_methods_are_unique():
    labels = [read_yaml(path)["label"] for path in METHODS.values()]
    assert len(set(labels)) == len(labels)


def test_rows_have_the_label_of_their_method_if_their_settings_are_the_same(studies):
    for name, study in studies.items():
        rows = {row: settings["method"] for row, settings in study["methods"].items() if "method" in settings}
        labels = {row: read_yaml(METHODS[method])["label"] for row, method in rows.items()}
        if study["sweep"]:
            labels = {row: f"{label}, {row.rpartition('_')[2]}" for row, label in labels.items()}
        labelled = {row for row, label in labels.items() if study["methods"][row]["label"] != label}
        assert labelled == OWN_LABELS.get(name, set()), name


def test_labels_are_unique_within_a_study(studies):
    for name, study in studies.items():
        labels = [row["label"] for row in study["methods"].values()]
        assert len(set(labels)) == len(labels), name


@pytest.mark.parametrize("name", [name for name, paper in PAPERS.items() if isinstance(paper, dict)])
def test_a_citation_is_complete_and_agrees_with_its_bibtex(name):
    paper = PAPERS[name]
    entry = re.fullmatch(r"@(article|inproceedings|misc)\{(\w+),\n(.*),?\n\}\n", paper["bibtex"], re.DOTALL)
    assert entry, paper["bibtex"]
    lines = [re.fullmatch(r"\s+(\w+) = \{(.*)\}", line) for line in re.split(r",\n", entry[3])]
    assert all(lines), entry[3]
    fields = {line[1]: line[2] for line in lines}
    assert all(value.count("{") == value.count("}") for value in fields.values())
    assert re.sub(r"[{}]", "", fields["title"]) == paper["title"]
    assert fields["year"] == str(paper["year"])
    assert {"inproceedings": "booktitle", "article": "journal", "misc": "eprint"}[entry[1]] in fields
    plain = re.sub(r"\{\\.([a-z])\}", r"\1", fields["author"])
    accents = str.maketrans("äüé", "aue")
    authors = [" ".join(reversed(author.split(", "))) for author in plain.split(" and ")]
    assert authors == paper["authors"].translate(accents).split(", ")


def test_bibtex_keys_are_unique():
    keys = [re.match(r"@\w+\{(\w+),", paper["bibtex"])[1] for paper in PAPERS.values() if isinstance(paper, dict)]
    assert len(set(keys)) == len(keys)
    titles = [paper["title"] for paper in PAPERS.values() if isinstance(paper, dict)]
    assert len(set(titles)) == len(titles), "methods that cite the same paper share one entry"
