"""Starts whose output is zero everywhere, as the gradient-feature framework uses them.

The work writes a neuron as relu(<w, x> - b); `TwoLayer` adds its bias, so net.b = -b throughout.
"""

from dataclasses import replace

import torch

from featlearn.core import Key, SettingError
from featlearn.nets.two_layer import TwoLayer


def symmetric_init(m: int, d: int, key: Key, *, sigma_w: float, sigma_a: float, bias: float) -> TwoLayer:
    """4m ReLU neurons with g = 0: m Gaussian ones, their point mirror, and both again with the opposite a.

    Formula: i <= m: a ~ N(0, sigma_a^2), w ~ N(0, sigma_w^2 I), b = bias > 0; i + m: (-a, -w, -b); i + 2m: (-a, w, b)
    for i <= 2m. Shapes: w (1, 4m, d), b and a (1, 4m); net.b holds -b. Standard deviations, not variances.
    Source: eq. 3.9 (gradient_features.method_init). Errors: `SettingError` for a bias that is not positive, m or d < 1.

    Example:
        >>> net = symmetric_init(2, 3, Key("demo"), sigma_w=1.0, sigma_a=1.0, bias=0.5)
        >>> float(net(torch.randn(5, 3)).abs().max())
        0.0
    """
    for name, value in (("m", m), ("d", d)):
        if value < 1:
            raise SettingError(name, value, "at least 1", "the network has 4m neurons on R^d")
    if not bias > 0:
        raise SettingError("bias", bias, "positive", "the sign of a bias says which half a neuron belongs to")
    w = sigma_w * torch.randn(1, m, d, generator=(key / "w").torch())
    a = sigma_a * torch.randn(1, m, generator=(key / "a").torch())
    b = torch.full((1, m), float(bias))
    half = TwoLayer(torch.cat([w, -w], 1), -torch.cat([b, -b], 1), torch.cat([a, -a], 1), "relu")
    return replace(
        half,
        w=torch.cat([half.w, half.w], 1),
        b=torch.cat([half.b, half.b], 1),
        a=torch.cat([half.a, -half.a], 1),
    )


def sign_init(m: int, d: int, k: int, key: Key) -> TwoLayer:
    """m ReLU neurons and their copies with opposite a: w and a fair signs, b from the grid -1 + 1/k, ..., 1 - 1/k.

    The start of Algorithm 6; the print leaves the spacing of the grid open, it is 1/k here. The copies, which the
    print does not list, make g = 0, which its analysis assumes. Shapes: w (1, 2m, d), b and a (1, 2m); net.b holds -b.
    Source: eq. B.479 (gradient_features.algorithm6). Errors: `SettingError` for k < 2 or m < 1.
    """
    if k < 2:
        raise SettingError("k", k, "at least 2", "the grid of biases lies inside (-1, 1)")
    if m < 1:
        raise SettingError("m", m, "at least 1", "the network has 2m neurons")

    def signs(*shape: int, name: str) -> torch.Tensor:
        return (torch.rand(*shape, generator=(key / name).torch()) < 0.5).float() * 2 - 1

    w, a = signs(1, m, d, name="w"), signs(1, m, name="a")
    at = torch.randint(1, 2 * k, (1, m), generator=(key / "b").torch())
    b = -1 + at / k
    return TwoLayer(torch.cat([w, w], 1), -torch.cat([b, b], 1), torch.cat([a, -a], 1), "relu")
