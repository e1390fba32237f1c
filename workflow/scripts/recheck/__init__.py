"""Recheck as a library: exact retrieval metrics, the losses of the papers, and trained models.

    import recheck

    recheck.metrics(embeddings, labels)                    # {'P@1': 0.71, 'RP': 0.41, 'MAP@R': 0.34}
    recheck.losses.ContextualLoss(k=4)                     # also recheck.miners and recheck.samplers
    model = recheck.load("results/quickstart/emoji/triplet/seed0")
    model.embed(["one.png", "other.png"])                  # (2, 512) float32, of length 1

Everything else in this package serves the workflow and may change without notice. ``import recheck`` takes
milliseconds: each of these names imports its libraries when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recheck import losses, miners, samplers
    from recheck.api.metrics import metrics
    from recheck.api.model import Comparison, Match, Model, load
    from recheck.errors import UserError

__version__ = "0.2.0"
__all__ = [
    "Comparison",
    "Match",
    "Model",
    "UserError",
    "__version__",
    "load",
    "losses",
    "metrics",
    "miners",
    "samplers",
]

# public name → its module; a module that is itself public has no entry
_PLACES = {
    "Comparison": "recheck.api.model",
    "Match": "recheck.api.model",
    "Model": "recheck.api.model",
    "UserError": "recheck.errors",
    "load": "recheck.api.model",
    "metrics": "recheck.api.metrics",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'recheck' has no attribute '{name}'")
    try:
        module = importlib.import_module(_PLACES.get(name, f"recheck.{name}"))
    except ModuleNotFoundError as error:
        from recheck.errors import MissingPackage

        raise MissingPackage(error, f"'recheck.{name}'", "train") from error
    if name in _PLACES:
        globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
