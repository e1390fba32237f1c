"""Settings that run but cannot give a sound result, and reductions to more components than test images."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recheck.errors import UserError
from recheck.files import read_json
from recheck.names import QUERY_VIEWS
from recheck.study.model import Run, Study


def doubtful_settings(study: Study) -> list[str]:
    """One sentence per doubtful setting, with the file and the rows that have it."""
    rows: dict[str, dict[str, None]] = {}
    for runs in study.runs.values():
        for row in study.rows:
            for sentence in _of_run(runs[row]):
                rows.setdefault(sentence, {})[row] = None
    return _same_labels(study) + [
        f"{study.path}, {'row' if len(named) == 1 else 'rows'} {', '.join(map(repr, named))}: {sentence}"
        for sentence, named in rows.items()
    ]


def _of_run(run: Run) -> Iterator[str]:
    if not run.trained:
        return
    if one_class_per_batch(run.settings["sampler"]):
        sampler = run.settings["sampler"]
        yield (
            f"'sampler.per_class' ({sampler['per_class']}) fills whole batches of {sampler['batch']} images, so every "
            "batch has images of only one class and no negative pairs. Lower 'per_class', or raise 'batch'."
        )
    model = run.settings["model"]
    frozen = model.get("batch_norm") in ("frozen", "frozen_affine") or model["backbone"].get("frozen") is True
    # a user's own function may load weights itself; the run checks the network
    if frozen and run.weights == "none" and ":" not in model["backbone"]["name"]:
        key = "model.backbone.frozen" if model["backbone"].get("frozen") is True else "model.batch_norm"
        yield (
            f"'{key}' freezes batch norm, but the backbone has random weights ('weights: none'). Do not freeze it, or "
            "choose pretrained weights."
        )


def one_class_per_batch(sampler: Mapping[str, Any]) -> bool:
    """Whether the images of one class fill whole batches."""
    per_class, batch = sampler.get("per_class"), sampler.get("batch")
    return isinstance(per_class, int) and isinstance(batch, int) and batch > 1 and per_class % batch == 0


@dataclass(frozen=True)
class Reductions:
    """The principal components that rows of a study ask for.

    Snakemake ignores a parameter of this type when it looks for changes: a changed reduction needs no new split.
    """

    source: str
    dataset: str
    components: Mapping[str, int]

    @classmethod
    def of(cls, study: Study, dataset: str, rows: Collection[str] | None = None) -> "Reductions":
        """The reductions of a study's rows (default: all)."""
        components = {}
        for row, run in study.runs[dataset].items():
            reduction = run.settings.get("reduction") or {}
            if reduction.get("kind") in ("pca", "standardise_pca") and (not rows or row in rows):
                components[row] = max(reduction["dims"].values())
        # query views use no reduction
        return cls(str(study.path), dataset, {} if set(study.views) & set(QUERY_VIEWS) else components)

    def problems(self, roles: Mapping[str, Collection[int]]) -> list[str]:
        """One sentence per row that asks for more components than there are test images."""
        images = sum(len(roles.get(role, ())) for role in ("test", "query", "gallery"))
        return [
            f"{self.source}, row '{row}': 'reduction.dims' asks for {count} principal components, but dataset "
            f"'{self.dataset}' has only {images} test images. Set every value of 'reduction.dims' to at most {images}, "
            "or remove the row."
            for row, count in self.components.items()
            if count > images
        ]

    def check(self, roles: Mapping[str, Collection[int]]) -> None:
        for sentence in self.problems(roles):
            raise UserError(sentence)


def _same_labels(study: Study) -> list[str]:
    rows: dict[str, list[str]] = {}
    for row in study.rows.values():
        rows.setdefault(row.label, []).append(row.name)
    return [
        f"{study.path}: the rows {', '.join(names)} have the same label '{label}', so tables and figures do not tell "
        "them apart. Give each its own 'label'."
        for label, names in rows.items()
        if len(names) > 1
    ]


def doubtful_splits(study: Study, place: Callable[[str], str]) -> list[str]:
    """One sentence per row that asks for more principal components than the split has test images, if a split exists.

    ``place`` replaces pathvars by folders.
    """
    return [sentence for dataset in study.datasets for sentence in _too_few(study, dataset, place)]


def _too_few(study: Study, dataset: str, place: Callable[[str], str]) -> list[str]:
    """The problems of reductions with an existing split, which Snakemake may be about to replace."""
    path = Path(place(f"<results>/{study.name}/{dataset}/split.json"))
    try:
        roles = read_json(path)["folds"][0]
        return [f"{sentence} (According to {path}.)" for sentence in Reductions.of(study, dataset).problems(roles)]
    except (OSError, UserError, LookupError, TypeError, AttributeError):
        return []  # the job that reads the split reports what is wrong with it
