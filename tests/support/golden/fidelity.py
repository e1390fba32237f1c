"""Collect what the tests compare with the original programs, and write docs/fidelity.md.

A test that compares something has the decorator :func:`compares`; tests/golden/deviations.yaml lists every
deviation and everything that cannot be compared, with the test that shows it, if one exists. `make fidelity` writes the
page.
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from recheck.study.model import Study
from recheck.study.yaml import read_yaml
from support.project import ROOT
from support.project.studies import FILES, shipped

CONTEXTUAL = ("contextual_224", "contextual_256", "contextual_released")
PAGE = ROOT / "docs/fidelity.md"
DEVIATIONS = ROOT / "tests/golden/deviations.yaml"
# Studies of published systems; each page of docs/ names its own.
TITLES = {
    "mlrc": "A Metric Learning Reality Check",
    "contextual": "Contextual similarity",
    "unbiased": "Unbiased evaluation",
    "calibration": "TensorFlow Similarity",
    "modern": "Today's backbones",
}
STUDIES = {
    "mlrc": ("mlrc", "mlrc_pretrained", "mlrc_released", "mlrc_tuning", "mlrc_tuning_256"),
    "contextual": (
        *("contextual_224", "contextual_weight", "contextual_weight_cars"),
        *("contextual_256", "contextual_ablations", "contextual_regulariser", "contextual_released"),
    ),
    "unbiased": ("unbiased", "unbiased_resnet50", "unbiased_embedding_size", "unbiased_batch_size"),
    "calibration": ("calibration", "calibration_trainable", "calibration_faults"),
    "modern": ("hyperbolic", "frozen", "recipe_2025"),
}
ASPECTS = {
    "split": "which images are for training, validation and testing",
    "transform": "pixels that the network sees",
    "network": "features and embeddings from given weights",
    "sampler": "images of a batch, or batches of an epoch",
    "loss": "value of the loss from given embeddings",
    "gradient": "its gradient",
    "optimiser": "weights after steps with given gradients",
    "schedule": "learning rates, warm-up and frozen parts over the epochs",
    "trajectory": "losses, weights and embeddings over whole training steps",
    "metric": "metrics from given embeddings",
}


@dataclass(frozen=True)
class Comparison:
    """One aspect of some rows that a test compares. Without ``rows`` and ``parts`` it covers every row.

    ``parts`` are words of a row's settings, such as the class of its loss; one of them is enough. ``studies`` stand for
    the studies based on them, too, unless the comparison is ``exact``.
    """

    aspect: str
    tolerance: str
    studies: tuple[str, ...]
    parts: frozenset[str] = frozenset()
    rows: frozenset[str] = frozenset()
    exact: bool = False
    test: str = field(default="", compare=False)

    def covers(self, study: Study, row: str, words: Mapping[str, set[str]]) -> bool:
        family = [study.name] if self.exact else bases(study.name)
        if not set(self.studies) & set(family):
            return False
        return (not self.rows or row in self.rows) and (not self.parts or bool(self.parts & words[row]))


def compares(
    *aspects: str,
    studies: Iterable[str],
    tolerance: float | str,
    parts: Iterable[str] = (),
    rows: Iterable[str] = (),
    exact: bool = False,
) -> Callable[[Callable], Callable]:
    """Decorator for a test that compares these aspects of these rows with the original; tolerance 0 means equality."""
    assert set(aspects) <= set(ASPECTS), aspects
    text = tolerance if isinstance(tolerance, str) else short(tolerance) if tolerance else "equal"

    def mark(test: Callable) -> Callable:
        made = [Comparison(name, text, tuple(studies), frozenset(parts), frozenset(rows), exact) for name in aspects]
        test.comparisons = [*getattr(test, "comparisons", []), *made]
        return test

    return mark


def short(tolerance: float) -> str:
    """The tolerance as it is written in code: 1e-8."""
    return f"{tolerance:.0e}".replace("e-0", "e-")


def both(double: float, single: float) -> str:
    """Tolerances of arrays that an original program computed in float64 and in float32."""
    return f"{short(double)} (float64), {short(single)} (float32)"


@cache
def bases(name: str) -> list[str]:
    """The study and those it is based on."""
    base = read_yaml(FILES.studies[name]).get("base")
    return [name, *(bases(base) if base else [])]


def comparisons() -> list[Comparison]:
    """All comparisons of all tests, in the order of files."""
    collected = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "compares(" in path.read_text(encoding="utf-8"):
            tests = {name: value for name, value in vars(_load(path)).items() if name.startswith("test_")}
            for name, function in tests.items():
                for comparison in getattr(function, "comparisons", []):
                    test = f"{path.relative_to(ROOT).as_posix()}::{name}"
                    collected.append(Comparison(**{**vars(comparison), "test": test}))
    return collected


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fidelity_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_names() -> set[str]:
    """Every test of the repository as file::name."""
    pattern = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
    return {
        f"{path.relative_to(ROOT).as_posix()}::{name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in pattern.findall(path.read_text(encoding="utf-8"))
    }


def words_of(settings: Any) -> set[str]:
    """Every key and every text in settings."""
    if isinstance(settings, Mapping):
        return {str(key) for key in settings}.union(*(words_of(value) for value in settings.values()))
    if isinstance(settings, (list, tuple)):
        return set().union(*(words_of(value) for value in settings))
    return {settings} if isinstance(settings, str) else set()


def page() -> str:
    """docs/fidelity.md."""
    made, notes = comparisons(), read_yaml(DEVIATIONS)
    tests = {name: number for number, name in enumerate(dict.fromkeys(comparison.test for comparison in made), 1)}
    lines = [HEAD]
    lines += [f"| {aspect} | {meaning} |" for aspect, meaning in ASPECTS.items()]
    for chapter, names in STUDIES.items():
        lines += [
            "",
            f"## {TITLES[chapter]}",
            "",
            f"Protocol, decisions and sources: [{chapter}.md]({chapter}.md).",
        ]
        for name in names:
            if name in FILES.studies:
                lines += ["", *_table(shipped(name), made, tests)]
        lines += ["", "### Known deviations", ""]
        lines += list(_deviations(notes["deviations"][chapter]))
        lines += ["", "### Not compared", "", *(f"- {text}" for text in notes["not_compared"][chapter])]
    lines += ["", "## Tests", ""]
    lines += [f"{number}. `{test}`" for test, number in tests.items()]
    return "\n".join(lines) + "\n"


HEAD = """\
# Fidelity to the originals

<!-- `make fidelity` writes this page. -->

This page lists what was compared with the original programs, how closely it agrees, and which test shows it. It is
generated from the tests, and a test fails if it is out of date. Numbers in brackets refer to the list of tests at the
end.

- Tolerances are relative unless they say otherwise; “equal” means exactly equal.
- A dash means that no test compares this aspect by itself. A trajectory covers everything that a training step does.
- No GPU and no image of the published datasets was available, so no published number was regenerated by training.

| aspect | what is compared |
|---|---|"""


def _table(study: Study, made: list[Comparison], tests: Mapping[str, int]) -> Iterator[str]:
    """Rows with the same comparisons share a line."""
    words = {row: words_of([runs[row].settings for runs in study.runs.values()]) for row in study.rows}
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in study.rows:
        cells = []
        for aspect in ASPECTS:
            matching = [one for one in made if one.aspect == aspect and one.covers(study, row, words)]
            by_tolerance: dict[str, list[int]] = {}
            for one in matching:
                numbers = by_tolerance.setdefault(one.tolerance, [])
                if tests[one.test] not in numbers:
                    numbers.append(tests[one.test])
            texts = [f"{tolerance} [{', '.join(map(str, numbers))}]" for tolerance, numbers in by_tolerance.items()]
            cells.append("; ".join(texts) or "–")
        groups.setdefault(tuple(cells), []).append(row)
    used = [number for number, _ in enumerate(ASPECTS) if any(cells[number] != "–" for cells in groups)]
    names = list(ASPECTS)
    yield f"### `{study.name}`"
    yield ""
    if not used:
        yield "These rows were not compared."
        return
    yield "| rows | " + " | ".join(names[number] for number in used) + " |"
    yield "|---" * (len(used) + 1) + "|"
    for cells, rows in groups.items():
        names_of_rows = ", ".join(_short(study, rows)) if len(groups) > 1 else "all rows"
        yield f"| {names_of_rows} | " + " | ".join(cells[number] for number in used) + " |"


def _short(study: Study, rows: list[str]) -> list[str]:
    """Names of rows; all values of a sweep have one name."""
    methods = (study.sweep or {}).get("methods", [])
    return list(dict.fromkeys(next((f"{m}_…" for m in methods if row.startswith(f"{m}_")), row) for row in rows))


def _deviations(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        yield f"- **{entry['what']}.** {entry['original']} {entry['ours']} Reason: {entry['reason']}"
        if entry.get("follow"):
            yield f"  To follow the original: {entry['follow']}."
        if entry.get("test"):
            yield f"  Test: `{entry['test']}`."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
