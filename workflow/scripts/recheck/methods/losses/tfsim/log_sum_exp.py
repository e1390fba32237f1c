"""Soft maximum of 0 and the terms of an anchor's pairs."""

import torch


def log_sum_exp(values: torch.Tensor, mask: torch.Tensor, maths: str) -> torch.Tensor:
    """Log-sum-exp over the entries x_j of each row where ``mask`` is true: (rows, columns) → (rows,).

        fixed   log(1 + Σ_j exp x_j)
        legacy  log(exp M + Σ_j exp x_j),   M the largest of *all* entries of the row, a constant

    The legacy form is a mistake: the 1 was added after all terms had been divided by exp M. Besides, M also covers
    entries where ``mask`` is false, such as the anchor's distance to itself, and can be large enough to hide the sum.
    """
    chosen = values.masked_fill(~mask, -torch.inf)
    largest = values.detach().amax(dim=1, keepdim=True)
    first = largest if maths == "legacy" else torch.zeros_like(largest)
    return torch.cat([first, chosen], dim=1).logsumexp(dim=1)
