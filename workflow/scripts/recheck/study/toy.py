"""Toy experiments (config/toys) with points in a plane. They have no images, so they are not studies."""

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
        """The settings that a run depends on; the label is not one of them."""
        experiments = self.content["experiments"]
        if name not in experiments:
            raise UserError(f"{self.path}: unknown experiment '{name}'; {nearest(name, experiments)}.")
        experiment = {key: value for key, value in experiments[name].items() if key != "label"}
        return canonical({"experiment": experiment, **{key: self.content[key] for key in ("seed", "steps", "points")}})


def load_toy(path: str | Path) -> Toy:
    """The toy experiment of a file, validated."""
    content = read_yaml(path)
    validate(content, "toy", path)
    for name, experiment in content["experiments"].items():
        parts.check(experiment["loss"], "loss", f"{path}, experiment '{name}'", "loss")
    name = Path(path).stem
    return Toy(name, Path(path), {"name": name, "description": "", **content})
