"""Read from a finished run's folder how to use its model: weights, preparation of images, and thresholds.

Three kinds of folder describe a model:

- one fold, ``seed0/fold0``: ``run.json`` beside ``model.safetensors``;
- one seed, ``seed0``: its folds, and ``calibration.json`` if the study calibrates;
- an exported model: ``recheck.json`` beside its weights (:mod:`recheck.export.folder`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from numbers import Real
from pathlib import Path
from typing import Any

from recheck.data import transforms
from recheck.data.images import Reading, reading_of
from recheck.errors import UserError
from recheck.evaluation.calibration import CutPoint
from recheck.files import read_json, sha256
from recheck.resize import Resize, parse_resize, resize_slug

CALIBRATION, RECORD, EXPORTED, MODEL = "calibration.json", "run.json", "recheck.json", "model.safetensors"
BATCH = 16
"""Images per batch if a folder does not record the batch size of its study."""
AGAIN = "run the study again"


@dataclass(frozen=True)
class Threshold(CutPoint):
    """Best threshold of a query set, with the set's name and number of queries."""

    queries: int
    name: str


@dataclass(frozen=True)
class Preparation:
    """Steps from an image file to the network's input, as in the study."""

    reading: Reading
    resize: Resize
    transform: transforms.Transform


@dataclass(frozen=True)
class Description:
    """A model on disk: its files (one per fold), its preparation, and how the study embedded its images.

    ``about`` is the content of the JSON file that describes it, ``records`` are the records of its training runs.
    """

    files: list[Path]
    preparation: Preparation
    transforms: dict[str, Any]
    batch: int = BATCH
    precision: str = "float32"
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    records: list[Mapping[str, Any]] = field(default_factory=list)


def describe(path: str | Path, own_code: bool = False) -> Description:
    """Description of the model in a folder; refuses incomplete and inconsistent folders."""
    path = Path(path)
    if path.name in (CALIBRATION, RECORD, EXPORTED) and path.is_file():
        path = path.parent
    if (path / EXPORTED).is_file():
        return _exported(path, own_code)
    if (path / CALIBRATION).is_file():
        return _calibrated(path, own_code)
    if (path / MODEL).is_file():
        return _of_folds([path], own_code, of_seed=False)
    folds = sorted(
        (folder for folder in path.glob("fold*") if folder.name[4:].isdecimal()),
        key=lambda folder: int(folder.name[4:]),
    )
    if any((folder / MODEL).is_file() for folder in folds):
        return _of_folds(folds, own_code, of_seed=True)
    hint = "" if path.is_dir() else ", which is not a folder"
    raise UserError(
        f"Found no model at {path}{hint}: pass the folder of a finished run, such as "
        "results/quickstart/emoji/triplet/seed0 (all folds together) or results/quickstart/emoji/triplet/seed0/fold0."
    )


def _of_folds(folders: list[Path], own_code: bool, of_seed: bool) -> Description:
    """The model of one fold, or the ensemble of all folds of a seed, which has no fold number."""
    for folder in folders:
        for name in (MODEL, RECORD):
            if not (folder / name).is_file():
                raise UserError(f"{folder / name} does not exist: {AGAIN}, or pass the folder of a finished fold.")
    records = [Entries(read_json(folder / RECORD), folder / RECORD) for folder in folders]
    all_settings = [_settings(record, own_code) for record in records]
    for record, settings in zip(records, all_settings, strict=True):
        if settings != all_settings[0]:
            raise UserError(f"{record.source} and {records[0].source} have different settings: {AGAIN}.")
    about = {key: value for key, value in records[0].values.items() if key != "fold" or not of_seed}
    return Description(
        [folder / MODEL for folder in folders],
        _preparation(all_settings[0]["transforms"], all_settings[0]["images"], records[0].source, own_code),
        **{key: all_settings[0][key] for key in ("transforms", "batch", "precision")},
        about=about,
        records=[record.values for record in records],
    )


def _settings(record: "Entries", own_code: bool) -> dict[str, Any]:
    """How the study embedded its images, from run.json."""
    if "images" not in record.values:
        raise UserError(
            f"{record.source} does not say how image files are read, because an older version of Recheck wrote it: "
            f'{AGAIN}, or add the options of its dataset, such as "images": {{"exif": "apply", "alpha": "white"}}.'
        )
    configuration = record.below("configuration")
    steps = configuration.below("transforms")
    return {
        "transforms": {"resize": steps.values.get("resize"), "eval": steps.take("eval", list)},
        "images": record.below("images").values,
        "batch": configuration.below("sampler").take("batch", int),
        "precision": configuration.values.get("precision", "float32"),
    }


def _calibrated(folder: Path, own_code: bool) -> Description:
    """The model of a seed with calibrated thresholds; refuses a model that has changed since its calibration."""
    source = folder / CALIBRATION
    about = Entries(read_json(source), source)
    thresholds = _thresholds(about)
    steps = about.below("transforms")
    described = {"resize": steps.take("resize", (dict, type(None))), "eval": steps.take("eval", list)}
    preparation = _preparation(described, about.below("images").values, source, own_code)
    file = folder / about.take("model", str)
    expected = about.take("model_sha256", str)
    if not file.is_file():
        raise UserError(f"{source} describes the model {file}, which does not exist: {AGAIN}.")
    if sha256(file) != expected:
        raise UserError(f"{file} is not the model that {source} describes (sha256 differs): {AGAIN}.")
    record = file.with_name(RECORD)
    records = [Entries(read_json(record), record)] if record.is_file() else []
    configuration = records[0].below("configuration").values if records else {}
    return Description(
        [file],
        preparation,
        described,
        batch=configuration.get("sampler", {}).get("batch", BATCH),
        precision=configuration.get("precision", "float32"),
        thresholds=thresholds,
        about=about.values,
        records=[entries.values for entries in records],
    )


def _exported(folder: Path, own_code: bool) -> Description:
    """A model that ``recheck export`` has written."""
    source = folder / EXPORTED
    about = Entries(read_json(source), source)
    steps = about.below("transforms")
    described = {"resize": steps.take("resize", (dict, type(None))), "eval": steps.take("eval", list)}
    files = []
    for name, expected in about.below("files").values.items():
        file = folder / Path(name).name
        if not file.is_file():
            raise UserError(f"{source} describes the model {file}, which does not exist: export it again.")
        if sha256(file) != expected:
            raise UserError(f"{file} is not the model that {source} describes (sha256 differs): export it again.")
        files.append(file)
    return Description(
        files,
        _preparation(described, about.below("images").values, source, own_code),
        described,
        batch=about.take("batch", int),
        precision=about.take("precision", str),
        thresholds=_thresholds(about) if "thresholds" in about.values else {},
        about=about.values,
        records=about.take("records", list),
    )


class Entries:
    """Entries of a JSON file; a missing entry or one of the wrong type is a UserError."""

    def __init__(self, values: Any, source: Path, where: str = ""):
        self.source, self.where = source, where
        if not isinstance(values, dict):
            raise UserError(f"{self._name(where)} must be a mapping of keys to values: {AGAIN}.")
        self.values = values

    def take(self, key: str, kind: type | tuple[type, ...]) -> Any:
        if key not in self.values:
            raise UserError(f"{self.source} has no '{self.where}{key}': {AGAIN}.")
        value = self.values[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{self._name(self.where + key)} has the invalid value {value!r}: {AGAIN}.")
        return value

    def below(self, key: str) -> "Entries":
        return Entries(self.take(key, dict), self.source, f"{self.where}{key}.")

    def _name(self, where: str) -> str:
        return f"'{where.rstrip('.')}' of {self.source}" if where else str(self.source)


def _thresholds(about: Entries) -> dict[str, Threshold]:
    """Thresholds of all query sets in the file."""
    sets = about.below("thresholds")
    thresholds = {}
    for name in sets.values:
        entries = sets.below(name)
        values = {
            field.name: entries.take(field.name, (int, float)) for field in fields(Threshold) if field.name != "name"
        }
        for key, value in values.items():
            if not is_number(value) or value < 0:
                raise UserError(
                    f"'thresholds.{name}.{key}' of {about.source} has the invalid value {value!r}: {AGAIN}."
                )
        thresholds[name] = Threshold(**values, name=name)
    return thresholds


def _preparation(steps: Mapping[str, Any], reading: Mapping[str, Any], source: Path, own_code: bool) -> Preparation:
    resize = steps["resize"]
    try:
        understood = not resize or parse_resize(resize_slug(resize)) == resize
    except (KeyError, TypeError, ValueError):
        understood = False
    if not understood:
        raise UserError(f"'transforms.resize' of {source} has the invalid value {resize!r}: {AGAIN}.")
    return Preparation(reading_of(dict(reading)), resize, transforms.build(steps["eval"], own_code))


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
