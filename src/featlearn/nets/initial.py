"""Starts of two-layer networks whose second layer is fixed signs."""

import math

import torch

from featlearn.core import Key, SettingError
from featlearn.nets.two_layer import TwoLayer


def fixed_signs_init(m: int, d: int, key: Key, *, omega: float) -> TwoLayer:
    """One ReLU network (e = 1) without biases: w_j ~ N(0, omega^2 I), a_j = +1/sqrt(m) for the first half of the
    neurons and -1/sqrt(m) for the rest.

    The second layer is not trained: give `fit` stages with rate_a = rate_b = 0. omega is a standard deviation; what
    matters is omega sqrt(m d), the typical Frobenius norm of the first layer.
    Shapes: w (1, m, d), b and a (1, m). Source: amplification.model (section 2, equation 1).
    Errors: `SettingError` for m odd or below 2 (the source sets one a_j = 0 then; take m - 1), d < 1, omega <= 0.

    Example:
        >>> fixed_signs_init(4, 3, Key("start"), omega=0.1).a
        tensor([[ 0.5000,  0.5000, -0.5000, -0.5000]])
    """
    if m < 2 or m % 2:
        raise SettingError("m", m, "even and at least 2", "half of the neurons are positive: take one neuron less")
    if d < 1:
        raise SettingError("d", d, "at least 1", "give the dimension of the inputs")
    if not (omega > 0 and math.isfinite(omega)):
        raise SettingError("omega", omega, "a finite number above 0", "a zero start has no features to amplify")
    w = omega * torch.randn(1, m, d, generator=(key / "w").torch())
    a = torch.full((1, m), 1 / math.sqrt(m))
    a[:, m // 2 :] *= -1
    return TwoLayer(w, torch.zeros(1, m), a, "relu")
