"""History of a run, one row per epoch: a CSV for people and plots, and TensorBoard events."""

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import torch

from recheck.files import write_text

Row = dict[str, Any]
LEARNED = "loss_"
"""Prefix of the columns with the learned parameters of a loss."""


def learned(loss: torch.nn.Module) -> Row:
    """The loss's learned parameters: a single number by its value, a vector or matrix by its Euclidean norm."""
    row: Row = {}
    for name, parameter in loss.named_parameters():
        if parameter.numel() == 1:
            row[f"{LEARNED}{name}"] = parameter.item()
        else:
            row[f"{LEARNED}{name}_norm"] = torch.linalg.vector_norm(parameter.detach().float()).item()
    return row


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
