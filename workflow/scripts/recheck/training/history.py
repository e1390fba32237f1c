"""History of a run, one row per epoch: a CSV for people and plots, and TensorBoard events."""

import csv
import io
import shutil
from pathlib import Path
from typing import Any

from recheck.files import write_text

Row = dict[str, Any]


def write_history(path: str | Path, rows: list[Row]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


class Events:
    """TensorBoard events of the epochs since the run started or resumed; earlier events of the run are kept."""

    def __init__(self, folder: str | Path, first_epoch: int):
        from torch.utils.tensorboard import SummaryWriter

        if first_epoch == 0:
            shutil.rmtree(folder, ignore_errors=True)
        self.writer = SummaryWriter(str(folder), purge_step=first_epoch or None)

    def add(self, row: Row) -> None:
        for name, value in row.items():
            if name not in ("epoch", "step") and value is not None:
                self.writer.add_scalar(name, value, row["epoch"])
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()
