"""Experiments with points in a plane (config/toys): they have no images and are no studies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recheck import parts
from recheck.errors import UserError, nearest
from recheck.files import canonical
from recheck.study.schema import validate
from recheck.study.yaml import read_yaml

PICTURES = ("data", "losses", "embeddings")


@dataclass(frozen=True)
class Toy:
    name: str
    path: Path
    content: dict[str, Any]

    @property
    def labels(self) -> list[str]:
        return [experiment["label"] for experiment in self.content["experiments"].values()]

    @property
    def runs(self) -> list[str]:
        return [f"<results>/{self.name}/{experiment}.npz" for experiment in self.content["experiments"]]

    def settings(self, name: str) -> dict[str, Any]:
        """What a run depends on; a label does not belong to it."""
        experiments = self.content["experiments"]
        if name not in experiments:
            raise UserError(f"{self.path}: there is no experiment '{name}'; {nearest(name, experiments)}.")
        own = {key: value for key, value in experiments[name].items() if key != "label"}
        return canonical({"experiment": own, **{key: self.content[key] for key in ("seed", "steps", "points")}})


def load_toy(path: str | Path) -> Toy:
    content = read_yaml(path)
    validate(content, "toy", path)
    for name, experiment in content["experiments"].items():
        parts.check(experiment["loss"], "loss", f"{path}, experiment '{name}'", "loss")
    name = Path(path).stem
    return Toy(name, Path(path), {"name": name, "description": "", **content})
