"""Proxy losses with proxies that belong to no class."""

from pytorch_metric_learning.losses import ProxyAnchorLoss, ProxyNCALoss

from recheck.methods.losses.arguments import checked_count


class _ExtraProxies:
    """The released code of the contextual study took the number of images for the number of classes, so thousands of
    proxies were never positive and took part as negatives only. ``extra_proxies`` (images − classes) brings them back.
    """

    def __init__(self, num_classes: int, embedding_size: int, extra_proxies: int, **kwargs):
        checked_count("extra_proxies", extra_proxies, self, least=0)
        super().__init__(num_classes=num_classes + extra_proxies, embedding_size=embedding_size, **kwargs)


class ExtraProxyAnchorLoss(_ExtraProxies, ProxyAnchorLoss):
    """pytorch-metric-learning's ``ProxyAnchorLoss`` with ``extra_proxies``."""


class ExtraProxyNCALoss(_ExtraProxies, ProxyNCALoss):
    """pytorch-metric-learning's ``ProxyNCALoss`` with ``extra_proxies``."""
