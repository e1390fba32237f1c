"""Control of the verdicts on real training: a study repeated with other seeds, and the same study with mistakes.

Seeds 0–4 of a small emoji study are written as a published table, with five runs and their standard deviations. Seeds
5–9 are compared with it, by the same rows and by rows with a deliberate mistake in their protocol. The program prints
the verdicts as Markdown. It can be interrupted: the same command resumes in the same folder.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd
import yaml
from quickstart import ROOT, copy_of_project, snakemake

sys.path.insert(0, str(ROOT / "workflow" / "scripts"))

FIRST, SECOND = "control_published", "control_repeated"
PROTOCOL = {
    "base": "quickstart",
    "keep": ["contrastive", "triplet"],
    "datasets": {"emoji": {"classes": {"every": 8, "first": 128}}},
    "protocol": {
        "split": {"scheme": "class_disjoint_folds", "folds": 2},
        "schedule": {"epochs": 3, "steps_per_epoch": 10, "evaluate_every": 1},
        "evaluation": {"metrics": ["P@1", "RP", "MAP@R"], "table": ["P@1", "RP", "MAP@R"]},
    },
}
MISTAKES = {
    "triplet_fast": {
        "method": "triplet",
        "label": "Triplet, mistake: learning rate × 10",
        "compare_to": "triplet",
        "seeds": 3,
        "loss": {"margin": 0.1},
        "optimisers": {"backbone": {"lr": 1e-3}},
    },
    "triplet_not_frozen": {
        "method": "triplet",
        "label": "Triplet, mistake: batch norm not frozen",
        "compare_to": "triplet",
        "seeds": 3,
        "loss": {"margin": 0.1},
        "model": {"batch_norm": "trained"},
    },
}


def control(folder: Path) -> pd.DataFrame:
    """The lines of ``verdicts.csv`` of the second study."""
    from recheck.report import verdicts

    if not folder.exists():
        copy_of_project(folder)
    first = _measured(folder, FIRST, {**PROTOCOL, "seeds": [0, 1, 2, 3, 4]})
    _write(folder / "resources/published/control.yaml", {"documents": [_document(first)]})
    repeated = {**PROTOCOL, "seeds": [5, 6, 7, 8, 9], "published": "control.yaml", "methods": MISTAKES}
    return verdicts.lines({"emoji": _measured(folder, SECOND, repeated)})


def _measured(folder: Path, name: str, study: dict) -> pd.DataFrame:
    """The frame of the study's table, after its runs."""
    from recheck.report import tables

    _write(folder / f"config/studies/{name}.yaml", study)
    path = f"results/{name}/emoji/table.json"
    snakemake(folder, path, "--config", "device=cpu", "reuse=false")
    return tables.load(folder / path).frame


def _document(frame: pd.DataFrame) -> dict:
    """The means over the seeds as a published document, rounded as papers print them."""
    document = {"source": "Seeds 0 to 4", "runs": 5, "values": {"emoji": {}}, "spread": {"emoji": {}}}
    for row in frame.itertuples():
        for key, number in (("values", row.mean), ("spread", row.sd)):
            views = document[key]["emoji"].setdefault(row.method, {})
            views.setdefault(row.view, {})[row.metric] = round(float(number), 2)
    return document


def _write(path: Path, content: dict) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def markdown(frame: pd.DataFrame) -> str:
    from recheck.report import verdicts

    head = ["row", "view", "metric", "published", "mean", "sd", "prediction interval", "p", "p adjusted", "verdict"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|" + "---:|" * 6 + "---|"]
    for row in frame.itertuples():
        numbers = [f"{row.published:.2f}", f"{row.mean:.2f}", f"{row.sd:.2f}", f"{row.low:.2f} to {row.high:.2f}"]
        cells = [row.label, row.view, row.metric, *numbers, f"{row.p:.2g}", f"{row.p_adjusted:.2g}"]
        lines.append(f"| {' | '.join([*cells, verdicts.words(row)])} |")
    return "\n".join([*lines, "", verdicts.sentence(frame["verdict"]), verdicts.multiplicity(frame), ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the copy of the project to work in; created if missing")
    parser.add_argument("--csv", type=Path, help="where to write the verdicts")
    options = parser.parse_args()
    frame = control(options.folder.resolve())
    if options.csv:
        frame.round(4).to_csv(options.csv, index=False, lineterminator="\n")
    print(markdown(frame))
