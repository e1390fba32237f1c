"""A matrix product whose "and" is the minimum instead of the product."""

import torch


class _MinProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(left, right)
        return left @ right

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = ctx.saved_tensors
        none, all_ = (right == 0).to(right.dtype), (right == 1).to(right.dtype)
        # where left is 0 it is the smaller one, unless right is 0 too; where left is 1 it is never smaller, but may tie
        of_left = (1 - left) * (gradient @ (1 - none / 2).T) + left * (gradient @ (all_ / 2).T)
        of_right = none / 2 * ((1 - left).T @ gradient) + (1 - all_ / 2) * (left.T @ gradient)
        return of_left, of_right


def min_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Σ_p min(left_ip, right_pj) for ``left`` of zeros and ones and ``right`` between 0 and 1.

    There the minimum *is* the product; only its derivative differs, which goes to the smaller of the two and in equal
    parts to both where they tie. All of it is matrix products, so no n³ numbers are held.
    """
    return _MinProduct.apply(left, right)
