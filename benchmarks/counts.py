"""Count the networks of all studies on meta tensors, for the time and memory limits of their jobs.

Writes workflow/scripts/recheck/cost/counts.csv in about ten seconds:

python benchmarks/counts.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow/scripts"))

from recheck.cost.counts import Key, key_of, side_of, write_table  # noqa: E402
from recheck.cost.meta import count  # noqa: E402
from recheck.study.compose import Files  # noqa: E402
from recheck.study.model import load_study  # noqa: E402
from recheck.study.yaml import names_in  # noqa: E402


def networks() -> dict[Key, dict]:
    """Key of the backbone of every run → model settings of one such run, with a plain linear head."""
    files = Files(*(names_in([ROOT / "config" / folder]) for folder in ("studies", "methods")))
    models = {}
    for name in files.studies:
        for runs in load_study(name, files).runs.values():
            for run in runs.values():
                backbone, transforms = run.settings["model"]["backbone"], run.settings["transforms"]
                plain = {"backbone": backbone, "head": {"class": "Linear", "dim": 512}, "batch_norm": "frozen"}
                for phase in ("train", "eval") if run.trained else ("eval",):
                    if (side := side_of(transforms, phase)) is not None:
                        models.setdefault(key_of(backbone, side), plain)
    return models


def main() -> None:
    write_table({key: count(model, key[-1]) for key, model in networks().items()})


if __name__ == "__main__":
    main()
