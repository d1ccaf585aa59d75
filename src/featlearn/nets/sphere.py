"""Networks that start on a sphere with balanced layers, and the mean-field scaling of their output.

Source: xor_sgd.model, xor_sgd.loss, xor_sgd.minibatch_sgd.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.nets.two_layer import TwoLayer


def sphere_init(p: int, d: int, key: Key, *, theta: float, mean_field: bool = True) -> TwoLayer:
    """One ReLU network (e = 1) without biases: w_j uniform on the sphere of radius theta, a_j = +-||w_j||, fair signs.

    Formula: f(x) = (1/p) sum_j a_j max(<w_j, x>, 0). The engine has no factor 1/p, so the net returned holds a_j / p in
    its second layer (mean_field=False: a_j itself); `mean_field_rates` gives the step sizes that go with it and
    `neuron_weights` the a_j back.
    Shapes: w (1, p, d), b and a (1, p). Source: xor_sgd.model; section 2.2 (radius theta; Theorem 3.1 prints
    theta/sqrt(p) in its place, see the claim xor_sgd.theorem3_1).
    Errors: `SettingError` for p < 1, d < 1 or theta that is not positive.

    Example:
        >>> net = sphere_init(6, 4, Key("demo"), theta=0.5)
        >>> torch.allclose(net.w.norm(dim=2), neuron_weights(net).abs())
        True
    """
    for name, value in (("p", p), ("d", d)):
        if value < 1:
            raise SettingError(name, value, "at least 1", "100 neurons in dimension 32 are a usual start")
    if not (theta > 0 and math.isfinite(theta)):
        raise SettingError("theta", theta, "positive and finite", "0.1 is a usual radius")
    w = torch.randn(1, p, d, generator=(key / "w").torch())
    w = w * (theta / w.norm(dim=2, keepdim=True))
    coins = torch.randint(2, (1, p), generator=(key / "a").torch()).float() * 2 - 1
    return TwoLayer(w, torch.zeros(1, p), coins * theta / (p if mean_field else 1), "relu")


def neuron_weights(net: TwoLayer) -> Float[Tensor, "e p"]:
    """a_j of the printed form f = (1/p) sum_j a_j relu(<w_j, x>), from a net that holds a_j / p: (e, p)."""
    return net.a * net.a.shape[1]


def mean_field_rates(eta: float | Float[Tensor, " e"], p: int) -> tuple[float | Tensor, float | Tensor]:
    """(rate_w, rate_a) with which the engine takes the printed step of size eta.

    Printed: w -= eta mean[a l' 1(w.x > 0) x], a -= eta mean[l' relu(w.x)] with l = 2 softplus(-y f), that is the
    gradient times p. The engine holds a / p and descends softplus(-y f) = l / 2, so rate_w = 2 p eta and
    rate_a = 2 eta / p. Shapes: eta a number or (e), results alike. Source: xor_sgd.minibatch_sgd, footnote 3.

    Example:
        >>> mean_field_rates(0.1, 50)
        (10.0, 0.004)
    """
    return 2 * p * eta, 2 * eta / p
