"""Transforms from packed images to network inputs: crop, flip and resize uint8 pixels.

A transform is a list of steps from a protocol's YAML, for example::

    - random_resized_crop: {size: 64, scale: [0.5, 1], ratio: [0.75, 1.333]}
    - horizontal_flip: {p: 0.5}

``custom: {class: "module:Class", …}`` is a user's step: an object that is called with a uint8 tensor (3, height, width)
and a generator and returns such a tensor.

All randomness comes from the generator passed with the image, so an augmentation depends only on seed, epoch and
position. Results and distributions match torchvision, which is not imported because its import takes as long as a short
run. The backbones normalise the pixels.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.nn.functional import interpolate, pad

from recheck import parts
from recheck.blame import user_code, wrong_result
from recheck.data import opencv_resize
from recheck.errors import UserError, nearest

Step = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
Transform = Callable[[np.ndarray, torch.Generator], torch.Tensor]
BY_TORCH = ("bilinear", "bicubic", "nearest")
BY_PILLOW = {"area": "BOX", "lanczos": "LANCZOS"}
INTERPOLATIONS = (*BY_TORCH, *BY_PILLOW)
ANY_OF = ("nearest", "bilinear", "bicubic", "area", "lanczos")
"""The choices of ``interpolation: random``."""
RESAMPLINGS = ("antialiased", "opencv")
OFFSETS = {"nearest": round, "down": math.floor}

with warnings.catch_warnings():
    # PyTorch warns once per process that a tensor made from a read-only array could be written to
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"0", np.uint8))


class Compose:
    """(height, width, 3) uint8 array → (3, height', width') uint8 tensor.

    The array is not copied: steps read only the pixels they need from the memory map, and never write to it.
    """

    def __init__(self, steps: list[Step]):
        self.steps = steps

    def __call__(self, image: np.ndarray, generator: torch.Generator) -> torch.Tensor:
        pixels = torch.from_numpy(image).permute(2, 0, 1)
        for step in self.steps:
            pixels = step(pixels, generator)
        return pixels.contiguous()


class Resize:
    """Resize to an exact [height, width], or resize the shorter side and keep the aspect ratio.

    ``resampling: opencv`` interpolates as OpenCV does, without antialiasing.
    """

    def __init__(
        self,
        shorter: int | None = None,
        exact: list[int] | None = None,
        interpolation: str = "bilinear",
        resampling: str = "antialiased",
    ):
        if (shorter is None) == (exact is None):
            raise UserError(
                "Transform 'resize' must have either 'shorter' or 'exact', "
                f"found {'neither' if shorter is None else 'both'}."
            )
        self.shorter = None if shorter is None else _whole("resize", "shorter", shorter)
        self.exact = None if exact is None else _pair("resize", "exact", exact, whole=True)
        self.interpolation = _mode("resize", interpolation)
        self.resampling = _choice("resize", "resampling", resampling, RESAMPLINGS)

    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        size = self.exact
        if size is None:
            least = min(pixels.shape[-2:])
            size = [self.shorter * side // least for side in pixels.shape[-2:]]
        return _resized(pixels, size, self.interpolation, self.resampling)


class CenterCrop:
    """The central square; smaller images are padded with black.

    If the margin is odd, ``offset: nearest`` rounds half of it to the nearest even number, as torchvision does, and
    ``offset: down`` rounds it down, as MXNet does.
    """

    def __init__(self, size: int, offset: str = "nearest"):
        self.size = _whole("center_crop", "size", size)
        self.rounded = OFFSETS[_choice("center_crop", "offset", offset, OFFSETS)]

    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        pixels = _padded(pixels, self.size)
        top, left = (self.rounded((side - self.size) / 2) for side in pixels.shape[-2:])
        return pixels[:, top : top + self.size, left : left + self.size]


class RandomCrop:
    """A square at a random position; smaller images are padded with black."""

    def __init__(self, size: int):
        self.size = _whole("random_crop", "size", size)

    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        pixels = _padded(pixels, self.size)
        top, left = (_up_to(side - self.size, generator) for side in pixels.shape[-2:])
        return pixels[:, top : top + self.size, left : left + self.size]


class RandomResizedCrop:
    """A random crop (uniform in area, log-uniform in aspect ratio), resized to a square.

    ``interpolation: random`` draws one of nearest, bilinear, bicubic, area and lanczos for each image. ``resampling:
    opencv`` interpolates as OpenCV does, without antialiasing.
    """

    def __init__(
        self,
        size: int,
        scale: list,
        ratio: list,
        interpolation: str = "bilinear",
        resampling: str = "antialiased",
    ):
        self.size = [_whole("random_resized_crop", "size", size)] * 2
        self.scale = _pair("random_resized_crop", "scale", scale)
        self.ratio = _pair("random_resized_crop", "ratio", ratio)
        self.interpolation = _mode("random_resized_crop", interpolation, (*INTERPOLATIONS, "random"))
        self.resampling = _choice("random_resized_crop", "resampling", resampling, RESAMPLINGS)

    def box(self, height: int, width: int, generator: torch.Generator) -> tuple[int, int, int, int]:
        """Top, left, height and width of a crop: up to ten random tries, then the largest central one allowed."""
        log_ratio = (math.log(self.ratio[0]), math.log(self.ratio[1]))
        for _ in range(10):
            area = height * width * _uniform(*self.scale, generator)
            shape = math.exp(_uniform(*log_ratio, generator))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                return _up_to(height - h, generator), _up_to(width - w, generator), h, w
        h, w = height, width
        if width / height < self.ratio[0]:
            h = round(width / self.ratio[0])
        elif width / height > self.ratio[1]:
            w = round(height * self.ratio[1])
        return (height - h) // 2, (width - w) // 2, h, w

    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        top, left, height, width = self.box(*pixels.shape[-2:], generator)
        crop = pixels[:, top : top + height, left : left + width]
        mode = self.interpolation
        if mode == "random":
            mode = ANY_OF[_up_to(len(ANY_OF) - 1, generator)]
        return _resized(crop, self.size, mode, self.resampling)


class _Custom:
    """A step of the user's own class, with its result checked."""

    def __init__(self, step: Step):
        self.step = step

    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        with user_code("transform", self.step, pixels=pixels):
            changed = self.step(pixels, generator)
        if not isinstance(changed, torch.Tensor) or changed.dtype != torch.uint8 or changed.shape[:-2] != (3,):
            raise wrong_result("transform", self.step, changed, "a uint8 tensor of shape (3, height, width)")
        return changed


class HorizontalFlip:
    def __init__(self, p: float):
        if not _is_number(p) or not 0 <= p <= 1:
            raise UserError(f"'p' of transform 'horizontal_flip' must be a probability from 0 to 1, found {p!r}.")
        self.p = p

    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return pixels.flip(-1) if _uniform(0, 1, generator) < self.p else pixels


class RandAugment:
    """``operations`` random operations of torchvision's RandAugment, each with strength ``magnitude`` of ``bins``.

    The operations work on Pillow images, as in most published programs; torchvision interpolates tensors differently.
    """

    def __init__(self, operations: int = 2, magnitude: int = 9, bins: int = 31, interpolation: str = "nearest"):
        for key, value, least in (("operations", operations, 1), ("magnitude", magnitude, 0), ("bins", bins, 2)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UserError(
                    f"'{key}' of transform 'rand_augment' must be a whole number of at least {least}, found {value!r}."
                )
        if magnitude >= bins:
            raise UserError(
                f"'magnitude' of transform 'rand_augment' must be below 'bins' ({bins}), found {magnitude}."
            )
        self.operations, self.magnitude, self.bins = operations, magnitude, bins
        self.interpolation = _mode("rand_augment", interpolation, BY_TORCH)

    @cached_property
    def _augment(self) -> Callable:
        from torchvision.transforms import InterpolationMode, RandAugment

        return RandAugment(self.operations, self.magnitude, self.bins, InterpolationMode(self.interpolation))

    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        image = _as_pillow(pixels)
        # torchvision draws from the global generator, whose state must be the same after this step as before
        before = torch.get_rng_state()
        try:
            torch.default_generator.manual_seed(int(torch.randint(0, 2**63 - 1, (), generator=generator)))
            image = self._augment(image)
        finally:
            torch.set_rng_state(before)
        return _as_tensor(image)


def build(spec: list[dict], own_code: bool = True) -> Transform:
    """A stateless, picklable transform from its YAML; ``own_code=False`` refuses ``custom`` steps."""
    if not isinstance(spec, list) or not all(isinstance(step, dict) and len(step) == 1 for step in spec):
        raise UserError(f"A transform must be a list of steps such as `- center_crop: {{size: 227}}`, found {spec!r}.")
    if not own_code and any("custom" in step for step in spec):
        raise UserError(
            "The transform has a step 'custom', which would run code from outside Recheck. If you trust its author, "
            "pass `own_code=True` (on the command line, `--own-code`)."
        )
    return Compose([_step(*next(iter(step.items()))) for step in spec])


def padding_notes(transforms: dict[str, Any], shapes: np.ndarray) -> list[str]:
    """One sentence each for training and evaluation, if the first step is a crop larger than some images.

    ``transforms`` has the steps of both, and ``shapes`` height and width of each image.
    """
    sentences = []
    for phase in ("train", "eval"):
        name, options = next(iter(transforms[phase][0].items())) if transforms.get(phase) else ("", {})
        smaller = int((shapes.min(axis=1) < options["size"]).sum()) if name in ("center_crop", "random_crop") else 0
        if smaller:
            sentences.append(
                f"'transforms.{phase}' crops {options['size']} pixels and pads smaller images with black: {smaller} of "
                f"{len(shapes)}. 'transforms.resize: {{shorter: {options['size']}}}' would enlarge them."
            )
    return sentences


def _step(name: str, options: dict | None) -> Step:
    known = [*parts.names("transform"), "custom"]
    if name not in known:
        raise UserError(f"Unknown transform '{name}'; {nearest(str(name), known)}.")
    options = {} if options is None else options
    if not isinstance(options, dict):
        raise UserError(f"The options of transform '{name}' must be keys, e.g. `{{size: 64}}`, found {options!r}.")
    if name == "custom":
        return _Custom(parts.build(options, "transform"))
    cls = parts.find(name, "transform")
    parameters = inspect.signature(cls).parameters
    for key in options:
        if key not in parameters:
            raise UserError(f"Unknown key '{key}' of transform '{name}'; {nearest(str(key), parameters)}.")
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in options:
            raise UserError(f"Transform '{name}' needs the key '{key}'.")
    return cls(**options)


def _padded(pixels: torch.Tensor, size: int) -> torch.Tensor:
    missing = [max(0, size - side) for side in pixels.shape[-2:]]
    (top, left), (bottom, right) = ([m // 2 for m in missing], [(m + 1) // 2 for m in missing])
    return pad(pixels, (left, right, top, bottom)) if any(missing) else pixels


def _resized(pixels: torch.Tensor, size: list[int], mode: str, resampling: str) -> torch.Tensor:
    if list(pixels.shape[-2:]) == size:
        return pixels
    if resampling == "opencv":
        return opencv_resize.resize(pixels, size, mode)
    if mode in BY_PILLOW:
        return _resized_by_pillow(pixels, size, BY_PILLOW[mode])
    smooth = {} if mode == "nearest" else {"align_corners": False, "antialias": True}
    return interpolate(pixels[None], size=size, mode=mode, **smooth)[0]


def _resized_by_pillow(pixels: torch.Tensor, size: list[int], filter_name: str) -> torch.Tensor:
    """Resized by a filter that torch lacks; Pillow uses integers throughout, so results are identical everywhere."""
    from PIL import Image

    return _as_tensor(_as_pillow(pixels).resize((size[1], size[0]), Image.Resampling[filter_name]))


def _as_pillow(pixels: torch.Tensor) -> Any:
    from PIL import Image

    return Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())


def _as_tensor(image: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _uniform(low: float, high: float, generator: torch.Generator) -> float:
    return low + (high - low) * torch.rand((), generator=generator, dtype=torch.float64).item()


def _up_to(most: int, generator: torch.Generator) -> int:
    """A whole number from 0 to ``most``."""
    return int(torch.randint(0, most + 1, (), generator=generator))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(step: str, key: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"'{key}' of transform '{step}' must be a whole number of at least 1 pixel, found {value!r}.")
    return value


def _pair(step: str, key: str, value: Any, whole: bool = False) -> list:
    valid = (
        isinstance(value, (list, tuple)) and len(value) == 2 and all(_is_number(item) and item > 0 for item in value)
    )
    if not valid or (not whole and value[0] > value[1]):
        expected = (
            "a height and a width in pixels, e.g. [256, 256]"
            if whole
            else "two numbers above 0, the smaller one first, e.g. [0.5, 1]"
        )
        raise UserError(f"'{key}' of transform '{step}' must be {expected}, found {value!r}.")
    return [_whole(step, key, item) for item in value] if whole else [float(item) for item in value]


def _mode(step: str, name: str, known: tuple[str, ...] = INTERPOLATIONS) -> str:
    return _choice(step, "interpolation", name, known)


def _choice(step: str, key: str, name: str, known: Collection[str]) -> str:
    if name not in known:
        raise UserError(f"Unknown {key} '{name}' of transform '{step}'; {nearest(str(name), known)}.")
    return name
