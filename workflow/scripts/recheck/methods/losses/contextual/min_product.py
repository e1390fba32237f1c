"""A matrix product with the minimum in place of the product of two entries."""

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
        # left = 0 is the minimum unless right is 0 too (a tie); left = 1 is never smaller, but ties with right = 1.
        of_left = (1 - left) * (gradient @ (1 - none / 2).T) + left * (gradient @ (all_ / 2).T)
        of_right = none / 2 * ((1 - left).T @ gradient) + (1 - all_ / 2) * (left.T @ gradient)
        return of_left, of_right


def min_product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Σ_p min(left_ip, right_pj), where ``left`` is 0 or 1 and ``right`` is between 0 and 1.

    For such values the minimum equals the product; only the derivative differs. It goes to the smaller of the two, and
    in equal shares to both if they tie. Both directions use matrix products, so n³ numbers are never stored.
    """
    return _MinProduct.apply(left, right)
