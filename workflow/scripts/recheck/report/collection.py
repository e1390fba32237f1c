"""Copies the small files of finished studies into a folder that is kept: tables, comparison, chosen values, figures."""

import csv
import io
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from recheck.errors import UserError
from recheck.files import write_text
from recheck.names import metric_title
from recheck.report import tables
from recheck.report.tables.table import Table
from recheck.statistics.rank_correlation import kendall, spearman

LARGEST = 2_000_000
"""Bytes of the largest file that is copied."""
OF_DATASET = ("table.csv", "table.md", "comparison.csv")
FIGURES = ("metrics", "pareto", "differences", "seed_ranks", "critical_difference", "gallery")
OF_STUDY = ("chosen.yaml", "references.bib", *(f"figures/*{name}.png" for name in FIGURES))
BACKBONES = ("backbones.csv", "backbones.md")


def collect(results: Path, study: str, others: Sequence[str], target: Path) -> list[Path]:
    """Copy the small files of ``study`` and the tables of ``others`` to ``target``; return what was written.

    ``others`` are studies with rows of ``study`` on other backbones: backbones.csv and .md compare their orders.
    """
    written = [*_copied(results / study, target, OF_STUDY), *_of_datasets(results, study, target)]
    for other in others:
        written += _of_datasets(results, other, target / other)
    if others:
        table, text = _backbones(results, study, others)
        written += [target / name for name in BACKBONES]
        write_text(written[-2], table)
        write_text(written[-1], text)
    return sorted(written)


def _of_datasets(results: Path, study: str, target: Path) -> list[Path]:
    table_files = sorted((results / study).glob("*/table.json"))
    if not table_files:
        raise UserError(f"{results / study} has no table: run `snakemake --cores all {study}` first.")
    return [path for table in table_files for path in _copied(table.parent, target / table.parent.name, OF_DATASET)]


def _copied(source: Path, target: Path, patterns: Sequence[str]) -> list[Path]:
    """The files that match the patterns, copied; those that are too large are refused."""
    written = []
    for path in sorted(path for pattern in patterns for path in source.glob(pattern)):
        if path.stat().st_size > LARGEST:
            raise UserError(
                f"{path} has {path.stat().st_size:,} bytes, but a collected file may have at most {LARGEST:,}: "
                "delete it to collect the others without it."
            )
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        written.append(copy)
    return written


def _backbones(results: Path, study: str, others: Sequence[str]) -> tuple[str, str]:
    """Values of the shared rows under each study's backbone, as CSV, and the rank correlations as Markdown."""
    lines, text = [["dataset", "view", "metric", "method", "label", *(f"{name}_mean" for name in (study, *others))]], []
    for path in sorted((results / study).glob("*/table.json")):
        loaded = [tables.load(results / name / path.parent.name / "table.json") for name in (study, *others)]
        for view, metric in dict.fromkeys(zip(loaded[0].frame["view"], loaded[0].frame["metric"], strict=True)):
            values = [_values(table, view, metric) for table in loaded]
            shared = [row for row in values[0] if all(row in each for each in values)]
            labels = loaded[0].labels
            lines += [
                [path.parent.name, view, metric, row, labels[row], *(each[row] for each in values)] for row in shared
            ]
            text += [
                _agreement(view, metric, others[place], shared, values[0], each)
                for place, each in enumerate(values[1:])
            ]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    head = "| view | metric | study | rows | Spearman's ρ (95 %) | Kendall's τ (95 %) |\n|---|---|---|---:|---:|---:|\n"
    about = (
        f"\nRank correlation of each study with {study} over the rows that all studies have. Intervals are percentiles "
        "of a bootstrap over the rows: they show how much the value depends on which rows were compared.\n"
    )
    return buffer.getvalue(), head + "".join(text) + about


def _values(table: Table, view: str, metric: str) -> dict[str, float]:
    """Row → mean of a metric, of the rows that were measured."""
    frame = table.frame
    shown = frame[(frame["view"] == view) & (frame["metric"] == metric) & frame["mean"].notna()]
    return dict(zip(shown["method"], map(float, shown["mean"]), strict=True))


def _agreement(
    view: str, metric: str, other: str, rows: Sequence[str], first: Mapping[str, float], second: Mapping[str, float]
) -> str:
    if len(rows) < 3:
        raise UserError(
            f"Study '{other}' has only {len(rows)} measured rows in common with the other studies, "
            "but a rank correlation needs at least three: run more rows."
        )
    pair = [first[row] for row in rows], [second[row] for row in rows]
    cells = [f"{each.value:.2f} ({each.low:.2f} to {each.high:.2f})" for each in (spearman(*pair), kendall(*pair))]
    return f"| {view} | {metric_title(metric)} | {other} | {len(rows)} | {' | '.join(cells)} |\n".replace("-", "−")
