"""P2SGrad."""

import torch
from pytorch_metric_learning import losses
from torch.nn.functional import mse_loss, normalize, one_hot


class P2SGradLoss(losses.P2SGradLoss):
    """pytorch-metric-learning's ``P2SGradLoss``: the mean of (cos θ − t)², where t is 1 for the image's class, else 0.

    The library replaces its weights in each step and fails if rounding has changed their length; here they are scaled
    to length 1 in place. ``embedding_size`` is the library's ``descriptors_dim``.
    """

    def __init__(self, num_classes: int, embedding_size: int, **kwargs):
        super().__init__(descriptors_dim=embedding_size, num_classes=num_classes, **kwargs)

    def compute_loss(self, embeddings, labels, indices_tuple, ref_emb, ref_labels):
        with torch.no_grad():
            self.weight.copy_(normalize(self.weight, dim=0))
        cosines = (normalize(embeddings) @ self.weight).clamp(-1, 1)
        value = mse_loss(cosines, one_hot(labels, self.num_classes).to(cosines.dtype))
        return {"loss": {"losses": value, "indices": None, "reduction_type": "already_reduced"}}
