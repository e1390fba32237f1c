"""A soft maximum of 0 and of what the pairs of an anchor contribute."""

import torch


def log_sum_exp(values: torch.Tensor, mask: torch.Tensor, maths: str) -> torch.Tensor:
    """Over the entries x_j of each row where ``mask`` is true: (rows, columns) → (rows,).

        fixed   log(1 + Σ_j exp x_j)
        legacy  log(exp M + Σ_j exp x_j),   M the largest of *all* entries of the row, a constant

    The legacy form is a slip: the 1 was added after all terms had been divided by exp M. It also has M from entries
    that do not take part, such as the anchor's distance to itself, which can drown all that do.
    """
    taking_part = values.masked_fill(~mask, -torch.inf)
    largest = values.detach().amax(dim=1, keepdim=True)
    first = largest if maths == "legacy" else torch.zeros_like(largest)
    return torch.cat([first, taking_part], dim=1).logsumexp(dim=1)
