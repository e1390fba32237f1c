"""A GPU that does not exist: tensors that say they are on ``cuda:0`` and compute on the CPU.

    with SimulatedGPU() as gpu:
        model.to("cuda")
        with gpu.counting() as counts:
            model(images.to("cuda")).sum().item()
    print(counts.syncs)

Operations raise where CUDA would: on tensors of two devices, on generators of the other device, on ``numpy()``. Four
things are counted: moments in which the host waits for the GPU, operations that launch kernels, bytes copied to the
device, and operations for which CUDA has no deterministic kernel.

PyTorch itself sees tensors on its device "meta", which needs no driver, so ``backward`` works too. ``"cuda"`` becomes
"meta" before PyTorch's C++ sees it; ``tensor.device`` is ``cuda:0``.
"""

import contextlib
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
DEVICE = torch.device("cuda", 0)
META = torch.device("meta")
ROOT = Path(__file__).resolve().parents[3]
INSTALLED = "/site-packages"

# Operations after which the host knows a value or a size that the GPU has computed, and how often they wait.
WAITING = {
    "_local_scalar_dense": 1,
    "nonzero": 1,
    "masked_select": 1,
    "_unique": 1,
    "_unique2": 1,
    "unique_dim": 1,
    "unique_consecutive": 1,
    "unique_dim_consecutive": 1,
    "equal": 1,
    "histc": 1,
    "bincount": 1,
    "multinomial": 2,  # checks that its input is finite and not all zero
    "linalg_eig": 1,
    "linalg_inv_ex": 1,
    "_linalg_eigh": 1,
    "_linalg_svd": 1,
    "linalg_cholesky_ex": 1,
}
# From the documentation of torch.use_deterministic_algorithms: operations that raise an error on a GPU.
NOT_DETERMINISTIC = {
    "avg_pool3d_backward",
    "_adaptive_avg_pool2d_backward",
    "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward",
    "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward",
    "max_unpool2d",
    "max_unpool3d",
    "upsample_linear1d_backward",
    "upsample_bilinear2d_backward",
    "upsample_bicubic2d_backward",
    "upsample_trilinear3d_backward",
    "_upsample_bilinear2d_aa_backward",
    "_upsample_bicubic2d_aa_backward",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "nll_loss2d_forward",
    "_ctc_loss_backward",
    "put",
    "put_",
    "histc",
    "kthvalue",
    "median",
    "grid_sampler_2d_backward",
    "grid_sampler_3d_backward",
}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
# Operations on tensors that launch no kernel; views are recognised by their schema.
NO_KERNEL = {"_unsafe_view", "_local_scalar_dense", "lift_fresh", "set_data"}
# What ``autocast`` computes in low precision, as far as networks here use it.
LOW_PRECISION = {"conv2d", "linear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "addmm", "baddbmm"}
# Functions whose arguments may be changed; others only if they have a ``device``.
CHANGED = {"cuda", "to", *LOW_PRECISION}


# Products in half precision: summed in float32, as a GPU does. A CPU is many times slower without this.
PRODUCTS = {"convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm"}


class MixedDevices(RuntimeError):
    """Raised where CUDA would refuse tensors or generators of another device."""


@dataclass
class Counts:
    """What happened on the GPU; the keys of the counters are "operation file:line"."""

    launches: int = 0
    bytes_to_device: int = 0
    syncs: Counter[str] = field(default_factory=Counter)
    not_deterministic: Counter[str] = field(default_factory=Counter)


class OnGPU(torch.Tensor):
    """A tensor on the simulated GPU; ``on_host`` has its values."""

    on_host: torch.Tensor
    gpu: "SimulatedGPU"
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: torch.Tensor, gpu: "SimulatedGPU"):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            layout=values.layout,
            device=META,
        )
        tensor.on_host, tensor.gpu = values, gpu
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Compute operations where the GPU's modes are not active, such as in another thread."""
        tensors = _tensors((args, kwargs), [])
        gpu = next(tensor for tensor in tensors if isinstance(tensor, OnGPU)).gpu
        with torch._C.DisableTorchFunction():
            return gpu.compute(func, args, kwargs or {})

    device = property(lambda self: DEVICE)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return self.on_host.data_ptr()

    def __repr__(self) -> str:
        return f"OnGPU({self.on_host})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.ndim == 0 else repr(self)

    def tolist(self) -> Any:
        self.gpu.wait("tolist")
        return self.on_host.tolist()

    def numpy(self, *args: Any, **kwargs: Any):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    __array__ = numpy

    def __reduce_ex__(self, protocol):
        """Store a CPU tensor, which is what loading a stored GPU tensor to the CPU gives."""
        self.gpu.wait("save")
        return self.on_host.__reduce_ex__(protocol)


class SimulatedGPU(contextlib.ExitStack):
    """Context in which ``"cuda"`` names the simulated GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counts()

    def __enter__(self) -> "SimulatedGPU":
        super().__enter__()
        # Automatic precision switches itself off if there is no GPU.
        self.enter_context(mock.patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: False))
        self.enter_context(mock.patch("torch.cuda.is_bf16_supported", lambda *args: True))
        self.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", "'pin_memory' argument is set as true but no accelerator")
        # Optimisers update all tensors at once on a GPU, but not tensors of a class that they don't know.
        for module in ("torch.optim.optimizer", "torch.utils._foreach_utils"):
            known = [*sys.modules[module]._foreach_supported_types, OnGPU]
            self.enter_context(mock.patch(f"{module}._foreach_supported_types", known))
        functions = self.enter_context(_Functions(self))
        # PyTorch leaves this context while it calls `backward`, which may compute a part of the forward pass again.
        run = torch.autograd._engine_run_backward
        self.enter_context(mock.patch("torch.autograd._engine_run_backward", _within(functions, run)))
        self.enter_context(_Operations(self))
        return self

    @contextlib.contextmanager
    def counting(self) -> Iterator[Counts]:
        """Counts of what happens in this context."""
        before, self.counts = self.counts, Counts()
        try:
            yield self.counts
        finally:
            self.counts = before

    def wait(self, why: str, times: int = 1) -> None:
        """Count that the host waits for the GPU."""
        self.counts.syncs[f"{why} {_place()}"] += times

    def put(self, values: torch.Tensor) -> OnGPU:
        return OnGPU(values, self)

    def compute(self, func, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The result of an operation, on the device where CUDA would put it."""
        name = func._schema.name.removeprefix("aten::")
        tensors = _tensors((args, kwargs), [])
        gpu_tensors = [tensor for tensor in tensors if isinstance(tensor, OnGPU)]
        wanted = kwargs.get("device")
        on_gpu = bool(gpu_tensors) if wanted is None else torch.device(wanted).type in ("meta", "cuda")
        if name == "copy_":
            return self._copy(args[0], args[1], args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        if name == "_to_copy":
            return self._to_copy(func, args[0], on_gpu, kwargs)
        if name == "_pin_memory":
            if gpu_tensors:
                raise MixedDevices(f"only tensors on the CPU can be pinned ({_place()})")
            return args[0].clone()
        if name == "is_pinned":
            return False
        if not (gpu_tensors or on_gpu):
            return func(*args, **kwargs)
        self._check(name, args, tensors, gpu_tensors, kwargs)
        self._count(func, name, args, kwargs)
        kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
        if wanted is not None:
            kwargs["device"] = "cpu"
        result = _computed(func, name, _mapped(_on_host, args), _mapped(_on_host, kwargs))
        if not on_gpu:
            return result
        if _writes(func):
            return self._written(name, args, kwargs, result)
        return _mapped(self.put, result)

    def _written(self, name: str, args: tuple, kwargs: dict[str, Any], result: Any) -> Any:
        """The tensor that an operation changed in place, which must keep its shape here."""
        changed = kwargs.get("out", args[0] if args else None)
        if isinstance(changed, OnGPU) and changed.shape != changed.on_host.shape:
            raise NotImplementedError(f"'{name}' changes the shape of a tensor in place, which is not supported here.")
        return changed if isinstance(changed, OnGPU) else None if result is None else changed

    def _copy(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> torch.Tensor:
        self._count_copy(source, isinstance(source, OnGPU), isinstance(target, OnGPU), non_blocking)
        aten.copy_(_on_host(target), _on_host(source))
        return target

    def _to_copy(self, func, source: torch.Tensor, to_gpu: bool, kwargs: dict[str, Any]) -> torch.Tensor:
        self._count_copy(source, isinstance(source, OnGPU), to_gpu, kwargs.get("non_blocking", False))
        kept = {key: value for key, value in kwargs.items() if key not in ("device", "pin_memory", "non_blocking")}
        values = func(_on_host(source), **kept)
        return self.put(values) if to_gpu else values

    def _count_copy(self, source: torch.Tensor, from_gpu: bool, to_gpu: bool, non_blocking: bool) -> None:
        self.counts.launches += from_gpu or to_gpu
        if to_gpu and not from_gpu:
            self.counts.bytes_to_device += source.numel() * source.element_size()
        if from_gpu != to_gpu and not non_blocking:
            self.wait("copy to the device" if to_gpu else "copy to the host")

    def _check(self, name: str, args: tuple, tensors: list, gpu_tensors: list, kwargs: dict[str, Any]) -> None:
        """Raise where CUDA would. Of the CPU's tensors, only single numbers and indices of GPU tensors are allowed."""
        generator = kwargs.get("generator")
        if generator is not None and generator.device.type != "cuda":
            raise MixedDevices(f"{name}: expected a 'cuda' generator, found '{generator.device}' ({_place()})")
        cpu_tensors = [tensor for tensor in tensors if not isinstance(tensor, OnGPU)]
        if not gpu_tensors or not cpu_tensors:
            return
        if name in INDEXING:
            if not isinstance(args[0], OnGPU):
                raise MixedDevices(f"{name}: a tensor on the CPU cannot be indexed by one on cuda:0 ({_place()})")
            indices = [index for index in args[1] if isinstance(index, torch.Tensor) and not isinstance(index, OnGPU)]
            for index in indices:
                self._count_copy(index, False, True, False)
            cpu_tensors = [tensor for tensor in cpu_tensors if not any(tensor is index for index in indices)]
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        changes_cpu = name.endswith("_") and first is not None and not isinstance(first, OnGPU)
        if changes_cpu or name in ("cat", "stack") or any(tensor.ndim for tensor in cpu_tensors):
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in cpu_tensors)
            raise MixedDevices(
                f"{name}: expected all tensors to be on the same device, found cuda:0 and cpu {shapes} ({_place()})"
            )

    def _count(self, func, name: str, args: tuple, kwargs: dict[str, Any]) -> None:
        self.counts.launches += _launches(func)
        if waits := WAITING.get(name, 0):
            self.wait(name, waits)
        if name == "repeat_interleave" and kwargs.get("output_size") is None:
            self.wait(name)
        if name in INDEXING and any(_is_mask(index) for index in args[1]):
            self.wait("boolean index")
        summed = name in ("cumsum", "cumsum_") and args[0].is_floating_point()
        weighted = name == "bincount" and (args[1] if len(args) > 1 else kwargs.get("weights")) is not None
        product = name.startswith("scatter_reduce") and "prod" in args
        if name in NOT_DETERMINISTIC or summed or weighted or product:
            self.counts.not_deterministic[f"{name} {_place()}"] += 1


class _Operations(TorchDispatchMode):
    """Hands every operation of PyTorch in this context to the simulated GPU."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # importing the compiler only to skip it takes seconds

    def __init__(self, gpu: SimulatedGPU):
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # Most operations of a run load images on the host, where nothing is counted.
        if not types and kwargs.get("device") is None and not _is_pinning(func):
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # sizes and strides of tensors are read without _Functions
            return self.gpu.compute(func, args, kwargs)


class _Functions(TorchFunctionMode):
    """Replaces "cuda" by "meta" in arguments, copies Python's numbers, and lowers the precision in ``autocast``."""

    def __init__(self, gpu: SimulatedGPU):
        super().__init__()
        self.gpu = gpu

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if "device" not in kwargs and name not in CHANGED:
            return func(*args, **kwargs)
        kwargs = dict(kwargs)
        if name in ("tensor", "as_tensor", "asarray") and _is_cuda(kwargs.get("device")):
            del kwargs["device"]
            return func(*args, **kwargs).to(META)
        if name == "cuda":
            return args[0].to(META)
        if "device" in kwargs:
            kwargs["device"] = _renamed(kwargs["device"])
        if name == "to":
            args = tuple(_renamed(value) for value in args)
        if name in LOW_PRECISION and torch.is_autocast_enabled("cuda"):
            args, kwargs = _mapped(_lowered, (args, kwargs))
        return func(*args, **kwargs)


def _within(context: TorchFunctionMode, function: Callable) -> Callable:
    def called(*args, **kwargs):
        with context:
            return function(*args, **kwargs)

    return called


def _lowered(tensor: torch.Tensor) -> torch.Tensor:
    lowers = isinstance(tensor, OnGPU) and tensor.dtype is torch.float32
    return tensor.to(torch.get_autocast_dtype("cuda")) if lowers else tensor


def _is_cuda(device: Any) -> bool:
    return str(device).split(":")[0] == "cuda" if isinstance(device, (str, torch.device)) else False


def _renamed(value: Any) -> Any:
    return META if _is_cuda(value) else value


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.on_host if isinstance(tensor, OnGPU) else tensor


def _computed(func, name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Result of an operation on the CPU."""
    if name not in PRODUCTS:
        return func(*args, **kwargs)
    halves = {tensor.dtype for tensor in _tensors(args, [])} & {torch.float16, torch.bfloat16}
    if len(halves) != 1:
        return func(*args, **kwargs)
    (half,) = halves
    result = func(*_mapped(lambda tensor: tensor.float(), args), **kwargs)
    return _mapped(lambda tensor: tensor.to(half), result)


def _mapped(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The arguments or results of an operation with their tensors replaced; faster than PyTorch's ``tree_map``."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)([_mapped(function, item) for item in value])
    return {key: _mapped(function, item) for key, item in value.items()} if isinstance(value, dict) else value


def _tensors(values: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Append all tensors in a list, tuple or mapping of an operation's arguments; return the list."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple, dict)):
            _tensors(value, tensors)
    return tensors


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


@cache
def _is_pinning(func) -> bool:
    return func._schema.name in ("aten::_pin_memory", "aten::is_pinned")


@cache
def _writes(func) -> bool:
    returned = func._schema.returns
    return bool(returned) and returned[0].alias_info is not None and returned[0].alias_info.is_write


@cache
def _launches(func) -> bool:
    """Whether an operation launches kernels; one that only makes a view or reserves memory does not."""
    name, returned = func._schema.name.removeprefix("aten::"), func._schema.returns
    views = bool(returned) and returned[0].alias_info is not None and not returned[0].alias_info.is_write
    return not (views or name in NO_KERNEL or name.startswith(("empty", "new_empty")))


def _place() -> str:
    """file:line of the innermost frame outside of PyTorch and this file."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename):
        frame = frame.f_back
    path = frame.f_code.co_filename
    for folder in (f"{INSTALLED}/", f"{ROOT}/"):
        path = path.rpartition(folder)[2]
    return f"{path}:{frame.f_lineno}"


@cache
def _is_inside(path: str) -> bool:
    return f"{INSTALLED}/torch/" in path or path.endswith((f"/{Path(__file__).name}", "/contextlib.py"))
