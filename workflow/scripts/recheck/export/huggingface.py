"""The layout of a model repository: weights as safetensors, recheck.json, config.json and a model card."""

from dataclasses import asdict
from pathlib import Path

from safetensors.torch import save_file

from recheck import __version__, seal
from recheck.api.model import Model
from recheck.api.runs import EXPORTED, MODEL
from recheck.export.card import card
from recheck.export.facts import licences, row_of_table
from recheck.files import sha256, write_json, write_text
from recheck.models.embedding import stored_settings

KEPT = ("study", "dataset", "method", "seed", "fold")


def write_huggingface(model: Model, folder: Path) -> str:
    """Write a folder that ``recheck.load`` can read; the loaded model gives bit-identical embeddings."""
    description = model.description
    files = {}
    for number, (network, source) in enumerate(zip(model.networks, description.files, strict=True)):
        name = MODEL if len(model.networks) == 1 else f"model-{number}.safetensors"
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in network.state_dict().items()}
        seal.write(folder / name, tensors, save_file, stored_settings(source))
        files[name] = sha256(folder / name)
    about = {
        **{key: description.about[key] for key in KEPT if key in description.about},
        "recheck": __version__,
        "files": files,
        "transforms": description.transforms,
        "images": dict(description.preparation.reading),
        "batch": description.batch,
        "precision": description.precision,
        "row": row_of_table(description),
        "licences": licences(description),
        "records": [dict(record) for record in description.records],
    }
    if model.thresholds:
        measured = {name: asdict(threshold) for name, threshold in model.thresholds.items()}
        about["thresholds"] = {
            name: {key: value for key, value in values.items() if key != "name"} for name, values in measured.items()
        }
    write_json(folder / EXPORTED, about)
    configuration = {"library_name": "recheck", "embedding_size": model.dim, "files": list(files)}
    write_json(folder / "config.json", configuration)
    write_text(folder / "README.md", card(model, "huggingface"))
    return "recheck.load reads this folder."
