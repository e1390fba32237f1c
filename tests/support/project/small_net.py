"""A tiny user-defined backbone: importing a library of networks would take longer than the tests."""

from torch import nn


class SmallNet(nn.Sequential):
    num_features, mean, std = 32, (127.0,) * 3, (128.0,) * 3

    def __init__(self, dropout: float = 0.0):
        super().__init__(
            nn.Conv2d(3, 16, 3, 2, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.pooling = nn.AdaptiveAvgPool2d(1)
        self.append(nn.Flatten()).append(nn.Dropout(dropout))
