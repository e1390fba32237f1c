"""The model card: what a model is, its measured values, and the licences that apply to it."""

import json
from typing import Any

from recheck import __version__
from recheck.api.model import Model
from recheck.export.facts import licences, row_of_table

EXAMPLES = {
    "huggingface": """```python
import recheck

model = recheck.load("path/of/this/folder")
embeddings = model.embed(["one.png", "other.png"])
```""",
    "timm": """```python
import safetensors.torch
import timm

backbone = timm.create_model("{architecture}", num_classes=0, **{options})
backbone.load_state_dict(safetensors.torch.load_file("model.safetensors"))
```

`head.safetensors` contains the head, which maps the features of the backbone to the embedding: `{head}`.""",
    "onnx": """```python
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx")
(embeddings,) = session.run(None, {{"images": images}})  # images: uint8, (batch, 3, height, width), RGB
```""",
}


INPUT = {"timm": "Pixels from 0 to 1 are then normalised with `mean` and `std` of config.json."}


def card(model: Model, to: str, **words: str) -> str:
    """The text of README.md in an exported folder; ``words`` fill the example of the layout."""
    about, record = model.about, (model.description.records or [{}])[0]
    configuration = record.get("configuration", {})
    backbone = configuration.get("model", {}).get("backbone", {})
    terms = licences(model.description)
    data = record.get("data", {})
    name = f"{about.get('method', 'model')} on {about.get('dataset', 'unknown images')}"
    folds = len(model.networks)
    facts = {
        "study": about.get("study"),
        "dataset": about.get("dataset"),
        "method": about.get("method"),
        "seed": about.get("seed"),
        "networks": f"{folds}, concatenated" if folds > 1 else "1",
        "backbone": backbone.get("name"),
        "pretrained weights": backbone.get("weights"),
        "dimensions": model.dim,
        "loss": json.dumps(configuration["loss"]) if "loss" in configuration else None,
        "SHA-256 of the packed training and test images": data.get("pixels"),
        "SHA-256 of the split": data.get("split"),
        "fingerprint of the run": record.get("fingerprint"),
        "exported by": f"recheck {__version__}",
    }
    example = EXAMPLES[to].format(**words)
    return f"""---
library_name: {"timm" if to == "timm" else "recheck"}
pipeline_tag: image-feature-extraction
license: other
license_name: see-licences-below
tags: [metric-learning, image-retrieval]
---

# {name}

A model that embeds images for retrieval, from Recheck's study
`{about.get("study", "unknown")}`.

{_table(["", ""], [[key, f"`{value}`"] for key, value in facts.items() if value is not None])}

## Measured

{_row(model)}

## Use

{example}

Images must be prepared as in the study:

```json
{json.dumps({"images": dict(model.description.preparation.reading), **model.description.transforms}, indent=2)}
```

{INPUT.get(to, "The network itself normalises the pixels: its input is RGB, 0–255.")}

## Licences

- Pretrained weights: {terms["weights"]}.
- Training images: {terms["images"]}.
- If you redistribute this model, follow both licences: its weights were made from these files. Recheck itself is
  licensed under Apache-2.0.
"""


def _row(model: Model) -> str:
    rows = row_of_table(model.description)
    if not rows:
        return "The study's table was not found beside the run, so this card has no measured values."
    shown = [[row["view"], row["metric"], _value(row), str(row["seeds"]), _published(row)] for row in rows]
    note = (
        "This method's row of the study's table, in percent (distances unscaled): mean over seeds, ± the 95 % interval "
        "if there are several."
    )
    return f"{note}\n\n{_table(['view', 'metric', 'measured', 'seeds', 'published'], shown)}"


def _value(row: dict[str, Any]) -> str:
    spread = f" ± {row['interval']:.2f}" if row.get("interval") is not None else ""
    return f"{row['mean']:.2f}{spread}{' (with a warning)' if row.get('warned') else ''}"


def _published(row: dict[str, Any]) -> str:
    return "–" if row.get("published") is None else f"{row['published']:.2f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
