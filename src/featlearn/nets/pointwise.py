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


def smooth_relu(u: Float[Tensor, "*s"], noise: float) -> Float[Tensor, "*s"]:
    """E max(u + noise xi, 0) = u Phi(u/s) + s phi(u/s), xi standard normal."""
    t = u / noise
    return u * torch.special.ndtr(t) + (noise / math.sqrt(2 * math.pi)) * torch.exp(-0.5 * t * t)


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
        upper = torch.special.ndtr(z / noise)
        return upper if kind == "relu" else upper - torch.special.ndtr((z - 1) / noise)
    return (z > 0).to(z.dtype) if kind == "relu" else ((z > 0) & (z < 1)).to(z.dtype)


def gated(scale: Float[Tensor, "*r"], z: Float[Tensor, "*s"], kind: str, noise: float, out: Tensor) -> Tensor:
    """`scale * slope(z)` in one pass over z, into `out`; scale broadcasts against z.

    The two aten kernels are those autograd itself runs; they multiply by the gate without storing it.
    """
    if noise:
        return torch.mul(slope(z, kind, noise), scale, out=out)
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
    """Derivative of `loss_value` in the score; the hinge is active where y g <= 1, as in Lemma 12 of the emergence work."""
    if kind == "hinge":
        return torch.where(y * score <= 1, -y, torch.zeros((), dtype=y.dtype, device=y.device))
    if kind == "logistic":
        return -y * torch.sigmoid(-y * score)
    return score - y
