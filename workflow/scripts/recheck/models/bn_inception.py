"""BN-Inception for its published Caffe weights, up to the pooled features.

Most metric-learning papers before 2021 use it as their trunk. Two details come from Caffe: pooling with stride 2 rounds
the size of the map up, and every convolution has a bias although batch norm follows. Module names are those of the
weights file ``bn_inception-52deb4733.pth``.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from recheck.models.pooling import Average

average = partial(F.avg_pool2d, kernel_size=3, stride=1, padding=1, count_include_pad=True)
maximum = partial(F.max_pool2d, kernel_size=3, stride=1, padding=1)
halve = partial(F.max_pool2d, kernel_size=3, stride=2, ceil_mode=True)


class Unit(NamedTuple):
    """A convolution followed by batch norm and ReLU."""

    name: str
    width: int
    kernel: int = 1
    stride: int = 1


class Block(NamedTuple):
    """Widths of four branches whose outputs are concatenated; 0 means no convolution."""

    one: int
    three: tuple[int, int]  # 1x1, 3x3
    double: tuple[int, int]  # 1x1, both 3x3
    projection: int  # 1x1 after the pool
    pool: Callable[[torch.Tensor], torch.Tensor] = average

    def branches(self) -> list[list[Unit]]:
        """Units of each branch. The last branch starts with the pool and may consist of it only."""
        stride = 2 if self.pool is halve else 1
        one = [[Unit("1x1", self.one)]] if self.one else []
        three = [Unit("3x3_reduce", self.three[0]), Unit("3x3", self.three[1], 3, stride)]
        reduce, width = self.double
        double = [
            Unit("double_3x3_reduce", reduce),
            Unit("double_3x3_1", width, 3),
            Unit("double_3x3_2", width, 3, stride),
        ]
        return [*one, three, double, [Unit("pool_proj", self.projection)] if self.projection else []]


BLOCKS = {
    "3a": Block(64, (64, 64), (64, 96), 32),
    "3b": Block(64, (64, 96), (64, 96), 64),
    "3c": Block(0, (128, 160), (64, 96), 0, halve),
    "4a": Block(224, (64, 96), (96, 128), 128),
    "4b": Block(192, (96, 128), (96, 128), 128),
    "4c": Block(160, (128, 160), (128, 160), 128),
    "4d": Block(96, (128, 192), (160, 192), 128),
    "4e": Block(0, (128, 192), (192, 256), 0, halve),
    "5a": Block(352, (192, 320), (160, 224), 128),
    "5b": Block(352, (192, 320), (192, 224), 128, maximum),
}


class BNInception(nn.Module):
    """Maps normalised BGR images to 1024 features; it has no classifier."""

    num_features = 1024

    def __init__(self) -> None:
        super().__init__()
        self._add("conv1_7x7_s2", 3, 64, 7, 2)
        self._add("conv2_3x3_reduce", 64, 64)
        self._add("conv2_3x3", 64, 192, 3)
        channels = 192
        for name, block in BLOCKS.items():
            widths = []
            for branch in block.branches():
                width = channels
                for unit in branch:
                    self._add(f"inception_{name}_{unit.name}", width, unit.width, unit.kernel, unit.stride)
                    width = unit.width
                widths.append(width)
            channels = sum(widths)
        self.pooling = Average()

    def _add(self, name: str, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        self.add_module(name, nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(outputs, eps=1e-5))

    def _unit(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.relu(getattr(self, f"{name}_bn")(getattr(self, name)(x)), inplace=True)

    def _block(self, name: str, x: torch.Tensor) -> torch.Tensor:
        *convolved, pooled = BLOCKS[name].branches()
        outputs = []
        for branch, y in [*((branch, x) for branch in convolved), (pooled, BLOCKS[name].pool(x))]:
            for unit in branch:
                y = self._unit(f"inception_{name}_{unit.name}", y)
            outputs.append(y)
        return torch.cat(outputs, 1)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Last feature map: 1024×7×7 for images of 224 or 227 pixels."""
        x = halve(self._unit("conv1_7x7_s2", x))
        x = halve(self._unit("conv2_3x3", self._unit("conv2_3x3_reduce", x)))
        for name in BLOCKS:
            x = self._block(name, x)
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pooling(self.features(x)).flatten(1)
