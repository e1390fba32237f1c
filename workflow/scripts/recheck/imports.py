"""What libraries import and a job hardly ever uses, imported when it is used.

Most jobs of a small study take longer to start than to compute. Half of the start of a training job was modules that it
never called: scipy's statistics (for one function of pytorch-metric-learning's), scikit-learn (for a tester), and the
compiler of PyTorch (every optimiser tells it to look away). Nothing is taken away: who uses one of them gets it then.
"""

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

COMPILER = "torch._dynamo"


class Later(ModuleType):
    """In a module's place until something in it is asked for.

    ``importlib.util.LazyLoader`` would be loaded by the next ``import`` of the same name, which looks for its spec.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__path__", "__all__"):
            raise AttributeError(name)
        return getattr(self._module(), name)

    def _module(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)


class Compiler(Later):
    """In the place of PyTorch's compiler, with what optimisers call: where nothing compiles, nothing is hidden."""

    def graph_break(self, *args: Any, **kwargs: Any) -> None:
        if self._is_used():
            self._module().graph_break(*args, **kwargs)

    def disable(self, fn: Any = None, *args: Any, **kwargs: Any) -> Any:
        return self._module().disable(fn, *args, **kwargs) if fn is None or self._is_used() else fn

    def _is_used(self) -> bool:
        return sys.modules.get(self.__name__) is not self


def later(*names: str) -> None:
    """Load these modules when something in them is asked for; those that are loaded already stay."""
    for name in names:
        sys.modules.setdefault(name, Compiler(name) if name == COMPILER else Later(name))


def alone(name: str) -> ModuleType:
    """A module of a package without all that the package's ``__init__`` imports beside it."""
    package, _, own = name.rpartition(".")
    parent, _, folder = package.rpartition(".")
    if package in sys.modules:
        return importlib.import_module(name)
    path = f"{importlib.import_module(parent).__path__[0]}/{folder}/{own}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
