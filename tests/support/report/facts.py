"""Facts for tables and figures, written by hand for tests."""

from recheck.study.verdict_rule import verdict_rule


def facts(labels, *, seeds=1, released=(), quoted=(), **changes):
    """Facts of a study with these rows (name -> label); ``quoted`` are documents: dataset -> row -> view -> metric."""
    rows = [
        {
            "name": name,
            "label": label,
            "seeds": 1 if name in released else seeds,
            "released": name in released,
            "trained": name not in ("pretrained", *released),
            "compare_to": name,
            "family": None,
            "paper": None,
            "reduction": None,
            "normalise": True,
            "calibration": "fixed",
        }
        for name, label in labels.items()
    ]
    dataset = changes.get("dataset", "emoji")
    return {
        "study": "quick",
        "title": "Quick",
        "description": "",
        "command": "snakemake --cores all quick",
        "scope": "all",
        "dataset": dataset,
        "dataset_title": dataset,
        "views": ["concatenated", "separated"],
        "metrics": ["P@1", "MAP@R"],
        "recalls": 4,
        "lead_metric": "MAP@R",
        "rows": rows,
        "reference": "pretrained" if "pretrained" in labels else None,
        "baseline": None,
        "backbone": "",
        "scale": "",
        "show_cost": False,
        "show_size": False,
        "selection_column": None,
        "generalisation_columns": None,
        "distances": "test",
        "normalise": True,
        "sweep": None,
        "validation": None,
        "verdicts": verdict_rule(changes.pop("verdicts", {}), changes.get("metrics", ["P@1", "MAP@R"])),
        "quoted_searches": [],
        "published": [of_dataset(document, dataset) for document in quoted],
        "measured": [] if changes.get("scope") == "published" else list(labels),
        **changes,
    }


def of_dataset(document, dataset):
    """A published document in the form of the facts of one dataset."""
    return {
        "source": document["source"],
        "paper": document.get("paper"),
        "approximate": document.get("approximate", False),
        "reading_error": document.get("reading_error", 0.005),
        "values": document["values"].get(dataset, {}),
        "runs": document.get("runs", {}).get(dataset, {}),
        "spread": document.get("spread", {}).get(dataset, {}),
        "notes": document.get("notes", {}).get(dataset, {}),
    }
