"""The small files of finished studies, copied to a folder that is kept."""

import numpy as np
import pandas as pd
import pytest

from recheck.errors import UserError
from recheck.files import write_json, write_text
from recheck.report import tables
from recheck.report.collection import LARGEST, collect
from support.report.facts import facts

ROWS = {"pretrained": "Pretrained", "ms": "MS", "triplet": "Triplet", "contrastive": "Contrastive"}


def finished(results, study, values):
    """A study on emoji with a table of these means (row → fraction)."""
    about = facts(ROWS, metrics=["MAP@R"], views=["concatenated"], study=study)
    summary = pd.DataFrame(
        {
            "method": list(values),
            "view": "concatenated",
            "metric": "MAP@R",
            "mean": list(values.values()),
            "interval": np.nan,
            "seeds": 1,
            "dim": 512,
            "by_seed": [{0: value} for value in values.values()],
        }
    )
    made, folder = tables.make(about, summary), results / study / "emoji"
    write_json(folder / "table.json", made.json())
    write_text(folder / "table.csv", made.csv())
    write_text(folder / "table.md", made.markdown())
    write_text(folder / "comparison.csv", "first,second\n")
    write_text(results / study / "chosen.yaml", "base: x\n")
    (results / study / "figures").mkdir()
    (results / study / "figures" / "emoji_pareto.png").write_bytes(b"png")
    (results / study / "figures" / "emoji_pareto.svg").write_bytes(b"svg")


def test_small_files_are_copied_and_the_orders_on_other_backbones_compared(tmp_path):
    results, target = tmp_path / "results", tmp_path / "docs"
    finished(results, "grand", {"pretrained": 0.2, "ms": 0.4, "triplet": 0.3, "contrastive": 0.25})
    finished(results, "small", {"pretrained": 0.1, "ms": 0.3, "triplet": 0.2})
    written = collect(results, "grand", ["small"], target)
    assert [path.relative_to(target).as_posix() for path in written] == [
        "backbones.csv",
        "backbones.md",
        "chosen.yaml",
        "emoji/comparison.csv",
        "emoji/table.csv",
        "emoji/table.md",
        "figures/emoji_pareto.png",
        "small/emoji/comparison.csv",
        "small/emoji/table.csv",
        "small/emoji/table.md",
    ]
    lines = (target / "backbones.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "dataset,view,metric,method,label,grand_mean,small_mean"
    assert [line.split(",")[3] for line in lines[1:]] == ["pretrained", "ms", "triplet"]
    text = (target / "backbones.md").read_text(encoding="utf-8")
    assert "| concatenated | MAP@R | small | 3 | 1.00 (1.00 to 1.00) | 1.00 (1.00 to 1.00) |" in text
    first = {path: path.read_bytes() for path in written}
    assert {path: path.read_bytes() for path in collect(results, "grand", ["small"], target)} == first


def test_studies_that_have_not_run_and_large_files_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"has no table: run `snakemake --cores all grand` first"):
        collect(tmp_path, "grand", [], tmp_path / "docs")
    finished(tmp_path, "grand", {"ms": 0.4})
    (tmp_path / "grand" / "figures" / "emoji_gallery.png").write_bytes(bytes(LARGEST + 1))
    with pytest.raises(UserError, match="bytes, but a collected file may have at most 2,000,000"):
        collect(tmp_path, "grand", [], tmp_path / "docs")
