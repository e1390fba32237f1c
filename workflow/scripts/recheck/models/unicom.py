"""UNICOM's vision transformer (An et al., ICLR 2023), with the tensor names of its released weights.

It differs from timm's vision transformer in four ways: no class token, ReLU6 in the blocks, no bias for queries, keys
and values, and a final layer over the outputs of all patches.
"""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

# name of the backbone in studies → its sizes
UNICOM: dict[str, dict[str, int]] = {
    "unicom_b32": {"side": 224, "patch": 32, "width": 768, "depth": 12, "heads": 12, "dim": 512},
    "unicom_b16": {"side": 224, "patch": 16, "width": 768, "depth": 12, "heads": 12, "dim": 768},
    "unicom_l14": {"side": 224, "patch": 14, "width": 1024, "depth": 24, "heads": 16, "dim": 768},
    "unicom_l14_336": {"side": 336, "patch": 14, "width": 1024, "depth": 24, "heads": 16, "dim": 768},
}


class Unicom(nn.Module):
    """Images of ``side`` pixels → ``dim`` features."""

    def __init__(self, side: int, patch: int, width: int, depth: int, heads: int, dim: int):
        super().__init__()
        self.num_features, patches = dim, (side // patch) ** 2
        self.patch_embed = _Patches(patch, width)
        self.pos_embed = nn.Parameter(torch.zeros(1, patches, width))
        self.blocks = nn.ModuleList([_Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.feature = nn.Sequential(
            nn.Linear(width * patches, width, bias=False),
            nn.BatchNorm1d(width, eps=2e-5),
            nn.Linear(width, dim, bias=False),
            nn.BatchNorm1d(dim, eps=2e-5),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens = self.patch_embed(images) + self.pos_embed
        for block in self.blocks:
            tokens = block(tokens)
        return self.feature(self.norm(tokens).flatten(1))


class _Patches(nn.Module):
    def __init__(self, patch: int, width: int):
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, stride=patch)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.proj(images).flatten(2).transpose(1, 2)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = _Attention(width, heads)
        self.mlp = _Layers(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        tokens = tokens + self.attn(self.norm1(tokens))
        return tokens + self.mlp(self.norm2(tokens))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(tokens).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class _Layers(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(width, 4 * width), nn.ReLU6(), nn.Linear(4 * width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(tokens)))
