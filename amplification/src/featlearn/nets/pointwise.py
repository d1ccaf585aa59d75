"""Activations (exact and smoothed by Gaussian noise) and losses, each with its derivative written by hand."""

import math
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError

Activation = Literal["relu", "clip"]
Loss = Literal["hinge", "logistic", "squared"]


def check_choice(field: str, value: str, allowed: object) -> None:
    """Refuse a name outside a Literal."""
    names = get_args(allowed)
    if value not in names:
        raise SettingError(field, value, "one of " + ", ".join(names), "choose one of them")


def normal_cdf(t: Float[Tensor, "*s"]) -> Float[Tensor, "*s"]:
    """Standard normal distribution function, by erf (vectorised, unlike torch.special.ndtr on a CPU)."""
    return 0.5 * torch.erf(t * math.sqrt(0.5)) + 0.5


def smooth_relu(u: Float[Tensor, "*s"], noise: float) -> Float[Tensor, "*s"]:
    """E max(u + noise xi, 0) = u Phi(u/s) + s phi(u/s), xi standard normal."""
    t = u / noise
    bell = torch.exp(-0.5 * (t * t).clamp_max(80))  # beyond, e^-40 stands for less: denormal numbers are slow
    return u * normal_cdf(t) + (noise / math.sqrt(2 * math.pi)) * bell


def activate(z: Float[Tensor, "*s"], kind: str, noise: float = 0.0) -> Float[Tensor, "*s"]:
    """sigma(z), or its mean E sigma(z + noise xi) over standard normal xi.

    relu: max(z, 0). clip (the truncated ReLU of the emergence work): min(1, max(z, 0)).
    Source: emergence.method_training, closed forms.
    """
    if noise:
        return smooth_relu(z, noise) if kind == "relu" else smooth_relu(z, noise) - smooth_relu(z - 1, noise)
    return torch.relu(z) if kind == "relu" else z.clamp(0.0, 1.0)


def slope(z: Float[Tensor, "*s"], kind: str, noise: float = 0.0) -> Float[Tensor, "*s"]:
    """Derivative of `activate` in z; at the kinks of the exact functions it is 0."""
    if noise:
        upper = normal_cdf(z / noise)
        return upper if kind == "relu" else upper - normal_cdf((z - 1) / noise)
    return (z > 0).to(z.dtype) if kind == "relu" else ((z > 0) & (z < 1)).to(z.dtype)


def noisy(z: Float[Tensor, "*s"], kind: str, noise: float) -> tuple[Tensor, Tensor]:
    """(activate, slope) of the smoothed activation together, each error function evaluated once."""
    u, t = z, z / noise
    slope_, act = normal_cdf(t), (t * t).clamp_max_(80).mul_(-0.5).exp_()
    if kind == "clip":
        u1, t1 = z - 1, (z - 1) / noise
        lower, bell = normal_cdf(t1), (t1 * t1).clamp_max_(80).mul_(-0.5).exp_()
        act.sub_(bell).mul_(noise / math.sqrt(2 * math.pi)).addcmul_(u, slope_).addcmul_(u1, lower, value=-1)
        return act, slope_.sub_(lower)
    return act.mul_(noise / math.sqrt(2 * math.pi)).addcmul_(u, slope_), slope_


def gated(scale: Float[Tensor, "*r"], z: Float[Tensor, "*s"], kind: str, out: Tensor) -> Tensor:
    """`scale * slope(z)` of the exact activation in one pass over z, into `out`; scale broadcasts against z.

    The two aten kernels are those autograd itself runs; they multiply by the gate without storing it.
    """
    if kind == "relu":
        return torch.ops.aten.threshold_backward(scale, z, 0.0, grad_input=out)
    return torch.ops.aten.hardtanh_backward(scale, z, 0.0, 1.0, grad_input=out)


def loss_value(score: Float[Tensor, "*s"], y: Float[Tensor, "*#s"], kind: str) -> Float[Tensor, "*s"]:
    """Loss per sample. hinge: max(1 - y g, 0); logistic: log(1 + exp(-y g)); squared: (g - y)^2 / 2."""
    if kind == "hinge":
        return (1 - y * score).clamp_min(0)
    if kind == "logistic":
        return torch.nn.functional.softplus(-y * score)
    return 0.5 * (score - y).square()


def loss_slope(score: Float[Tensor, "*s"], y: Float[Tensor, "*#s"], kind: str) -> Float[Tensor, "*s"]:
    """Derivative of `loss_value` in the score; the hinge is active where y g <= 1 (emergence.lemma12)."""
    if kind == "hinge":
        return torch.where(y * score <= 1, -y, torch.zeros((), dtype=y.dtype, device=y.device))
    if kind == "logistic":
        # slopes below e^-60 would make denormal numbers further on, which are slow
        return -y * torch.sigmoid((-y * score).clamp_min(-60.0))
    return score - y
