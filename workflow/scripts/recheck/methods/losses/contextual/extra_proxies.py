"""Proxy losses with proxies that belong to no class."""

from pytorch_metric_learning.losses import ProxyAnchorLoss, ProxyNCALoss

from recheck.methods.losses.arguments import checked_count


class _ExtraProxies:
    """Adds ``extra_proxies`` proxies that no image belongs to, so that they act as negatives only.

    The released code of the contextual study used the number of images as the number of classes, so thousands of its
    proxies were never positive. To reproduce this, set ``extra_proxies`` to images − classes.
    """

    def __init__(self, num_classes: int, embedding_size: int, extra_proxies: int, **kwargs):
        checked_count("extra_proxies", extra_proxies, self, least=0)
        super().__init__(num_classes=num_classes + extra_proxies, embedding_size=embedding_size, **kwargs)


class ExtraProxyAnchorLoss(_ExtraProxies, ProxyAnchorLoss):
    """pytorch-metric-learning's ``ProxyAnchorLoss`` with ``extra_proxies``."""


class ExtraProxyNCALoss(_ExtraProxies, ProxyNCALoss):
    """pytorch-metric-learning's ``ProxyNCALoss`` with ``extra_proxies``."""
