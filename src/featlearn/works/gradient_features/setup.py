"""What experiments and claims of the gradient features share."""

import math

import torch

from featlearn.core import Key


def log_choose(n: float | int, k: float | int) -> float:
    """log of the binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def log_xi(d: int, k: int) -> float:
    """log |xi_k|, the Fourier coefficient of majority on d (odd) bits at a set of k (odd)."""
    half = (d - 1) / 2
    return log_choose(half, (k - 1) / 2) - log_choose(d - 1, k - 1) - (d - 1) * math.log(2) + log_choose(d - 1, half)


def xi(d: int, k: int) -> float:
    """xi_k with its sign (-1)^((k-1)/2)."""
    return (-1) ** ((k - 1) // 2) * math.exp(log_xi(d, k))


def turned(feature: torch.Tensor, degrees: float, key: Key, off: torch.Tensor) -> torch.Tensor:
    """The direction rotated by an angle towards a random direction orthogonal to the rows of `off` and itself."""
    basis = torch.linalg.qr(torch.cat([feature[None], off]).double().T)[0]
    aside = torch.randn(len(feature), generator=key.torch(), dtype=torch.float64)
    aside = aside - basis @ (basis.T @ aside)
    t = math.radians(degrees)
    return math.cos(t) * feature.double() + math.sin(t) * aside / aside.norm()
