"""What the rules pass on as `params`, for every study, variant, dataset and row: Snakemake compares the repr.

A difference here is a training, embedding or evaluation that every user would have to make again. To change settings on
purpose, in a commit of its own: `PYTHONPATH=tests:workflow/scripts python tests/unit/test_locked_settings.py`.
"""

import json

import pytest
from project import ROOT

from recheck import config
from recheck.data import description
from recheck.study.yaml import names_in

GOLDEN = ROOT / "tests/golden/settings"
STUDIES = names_in([ROOT / "config/studies"])
DATASETS = names_in([ROOT / "config/datasets"])
WEIGHTS = description.load_weights(names_in([ROOT / "config/weights"]))
PARSER = ("name", "parser", "distribution", "root", "csv", "expected", "options")


def locked_study(name):
    """Each different repr once, and which of them a row has."""
    reprs, rows = [], {}

    def number(value):
        text = repr(config.canonical(value))
        if text not in reprs:
            reprs.append(text)
        return reprs.index(text)

    for variant in variants(name):
        study = config.load_study(name, STUDIES, variant)
        for dataset in study["datasets"]:
            where = f"{variant}/{dataset}"
            rows[where] = {
                "split": number(config.split_of(study, dataset)),
                "classes": number(study["datasets"][dataset].get("classes")),
            }
            for method in study["methods"]:
                run = config.resolve(study, dataset, method)
                run = description.with_weights(run, WEIGHTS, "resources/weights", method)
                rows[f"{where}/{method}"] = {
                    "training": number(config.training_part(run)),
                    "embedding": number(config.embedding_part(run)),
                    "evaluation": number(config.evaluation_part(run)),
                    "transforms": number(config.eval_transforms(run)),
                    "released": number(run.get("released")),
                    "seeds": number(config.seeds_of(study, method)),
                    "members": number(config.folds_of(run)),
                }
    return {"reprs": reprs, "rows": rows}


def variants(name):
    found = config.load_study(name, STUDIES).get("fidelities") or {}
    return list(dict.fromkeys(["recommended", *found]))


def locked_datasets():
    found = {}
    for name in DATASETS:
        dataset = description.with_distribution(description.load_dataset(name, DATASETS, "here"), [])
        options = dataset["options"]
        found[name] = {
            "parser": repr(config.canonical({key: dataset[key] for key in PARSER if key in dataset})),
            "images": repr(config.canonical({key: options[key] for key in ("exif", "alpha") if key in options})),
        }
    return found


def read(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", STUDIES)
def test_no_setting_of_a_run_has_changed(name):
    locked, found = read(name), locked_study(name)
    assert found["rows"].keys() == locked["rows"].keys()
    for place, parts in locked["rows"].items():
        for part, number in parts.items():
            assert found["reprs"][found["rows"][place][part]] == locked["reprs"][number], f"{place}, {part}"


def test_no_setting_of_a_dataset_has_changed():
    assert locked_datasets() == read("_datasets")


def test_every_study_is_locked():
    assert {path.stem for path in GOLDEN.glob("*.json")} == {*STUDIES, "_datasets"}


def write(name, value):
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{name}.json").write_text(json.dumps(value, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for study in STUDIES:
        write(study, locked_study(study))
    write("_datasets", locked_datasets())
