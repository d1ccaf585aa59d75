"""The two entropies that keep the labels of a teacher balanced and decided on inputs without labels."""

import torch
from jaxtyping import Float
from torch import Tensor

LEAST = 1e-38
"""Below it a probability is as good as 0: its logarithm, which gradients hold, stays finite."""


def regulariser(prob: Float[Tensor, "n c"]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """R1 and R2 of class probabilities, each with a gradient; probabilities of 0 add nothing and have finite gradients.

        R1 = sum_j pbar_j ln pbar_j, pbar the mean over rows (minus its entropy);    R2 = mean over rows of the entropy

    Shapes: prob (n, C) -> two numbers, R1 in [-ln C, 0] and R2 in [0, ln C].
    Source: emergence.algorithm1, eq. 291 to 293, whose penalty is R1 + lambda R2.

    Example:
        >>> one, two = regulariser(torch.eye(2))
        >>> round(float(one), 4), float(two) == 0
        (-0.6931, True)
    """
    mean = prob.mean(0)
    return _xlogx(mean).sum(), -_xlogx(prob).sum(1).mean()


def _xlogx(p: Tensor) -> Tensor:
    return torch.xlogy(p, p.clamp_min(LEAST))
