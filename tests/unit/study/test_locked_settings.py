"""The `params` of the rules for every study, variant, dataset and row: Snakemake compares their repr.

If one changes, every user has to repeat a training, embedding or evaluation. To change settings on
purpose, in a separate commit: `PYTHONPATH=tests:workflow/scripts python tests/unit/study/test_locked_settings.py`.
"""

import json

import pytest

from recheck.data.description import load_dataset
from recheck.study.compose import compose
from recheck.study.yaml import names_in
from support.project import ROOT
from support.project.studies import FILES, shipped

GOLDEN = ROOT / "tests/golden/settings"
DATASETS = names_in([ROOT / "config/datasets"])


def locked_study(name):
    """All distinct reprs, and the repr of each row by its number."""
    reprs, rows = [], {}

    def number(value):
        if repr(value) not in reprs:
            reprs.append(repr(value))
        return reprs.index(repr(value))

    for variant in dict.fromkeys(["recommended", *(compose(name, FILES).get("variants") or {})]):
        study = shipped(name, variant=variant)
        for dataset in study.datasets:
            where = f"{variant}/{dataset}"
            rows[where] = {"split": number(study.split(dataset)), "classes": number(study.classes[dataset])}
            for row in study.rows.values():
                run = study.run(dataset, row.name)
                assert run.split == study.split(dataset)
                rows[f"{where}/{row.name}"] = {
                    "training": number(run.training),
                    "embedding": number(run.embedding),
                    "evaluation": number(run.evaluation),
                    "transforms": number(run.eval_transforms),
                    "released": number(run.released),
                    "seeds": number(list(row.seeds)),
                    "members": number(run.members),
                }
    return {"reprs": reprs, "rows": rows}


def locked_datasets():
    datasets = {name: load_dataset(name, DATASETS, "here") for name in DATASETS}
    return {
        name: {"parser": repr(dataset.parser), "images": repr(dataset.image_reading)}
        for name, dataset in datasets.items()
    }


def read(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES.studies)
def test_no_setting_of_a_run_has_changed(name):
    locked, result = read(name), locked_study(name)
    assert result["rows"].keys() == locked["rows"].keys()
    for place, parts in locked["rows"].items():
        for kind, number in parts.items():
            assert result["reprs"][result["rows"][place][kind]] == locked["reprs"][number], f"{place}, {kind}"


def test_no_setting_of_a_dataset_has_changed():
    assert locked_datasets() == read("_datasets")


def test_every_study_is_locked():
    assert {path.stem for path in GOLDEN.glob("*.json")} == {*FILES.studies, "_datasets"}


def write(name, value):
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"{name}.json").write_text(json.dumps(value, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for study in FILES.studies:
        write(study, locked_study(study))
    write("_datasets", locked_datasets())
