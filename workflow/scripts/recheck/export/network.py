"""A model as one plain network: uint8 RGB images in, embeddings of length 1 out."""

import torch
from torch import nn
from torch.nn.functional import normalize

from recheck.api.model import Model


class Network(nn.Module):
    """What ``Model.embed`` computes after its transforms, without checks, so that it can be traced."""

    def __init__(self, model: Model):
        super().__init__()
        self.networks = nn.ModuleList(model.networks)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        outputs = [normalize(self._embedded(network, images)) for network in self.networks]
        return outputs[0] if len(outputs) == 1 else normalize(torch.cat(outputs, dim=1))

    @staticmethod
    def _embedded(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
        ordered = images.flip(1) if network.bgr else images
        pixels = ordered.to(network.mean.dtype) * network.input_scale
        return network.head(network.backbone((pixels - network.mean) / network.std))
