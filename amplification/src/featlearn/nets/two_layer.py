"""Two-layer networks, many at once, with gradients written by hand.

g(x) = sum_i a_i sigma(<w_i, x> + b_i). The leading axis e of every parameter counts networks: seeds, rates and widths
train together. `gradients` is the plain form of the engine in `featlearn.learn.fit`, and both are checked against
autograd in float64.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_fields, checked
from featlearn.nets.pointwise import Activation, Loss, activate, check_choice, gated, loss_slope, noisy


@dataclass(frozen=True)
class TwoLayer:
    """e networks of m neurons on R^d; calling it gives the scores (n, e), so it is a Predictor.

    w: first layer (e, m, d). b: biases (e, m). a: second layer (e, m). activation: "relu" or "clip" (truncated ReLU).
    """

    w: Float[Tensor, "e m d"]
    b: Float[Tensor, "e m"]
    a: Float[Tensor, "e m"]
    activation: Activation = "clip"

    def __post_init__(self) -> None:
        check_choice("activation", self.activation, Activation)
        check_fields(self)

    def __call__(self, x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"], /) -> Float[Tensor, "n e"]:
        return forward(self, x).T

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, members: slice) -> "TwoLayer":
        return replace(self, w=self.w[members], b=self.b[members], a=self.a[members])

    def to(self, device: str | torch.device) -> "TwoLayer":
        """The same networks on another device."""
        return replace(self, w=self.w.to(device), b=self.b.to(device), a=self.a.to(device))


@dataclass(frozen=True)
class Gradients:
    """Gradients of the mean loss, shaped as the parameters."""

    w: Float[Tensor, "e m d"]
    b: Float[Tensor, "e m"]
    a: Float[Tensor, "e m"]


def stack(nets: Sequence[TwoLayer]) -> TwoLayer:
    """Several ensembles of one width and activation as one: (e1, m, d), (e2, m, d) -> (e1 + e2, m, d).

    Errors: `SettingError` for no network, and for networks of different shape or activation.
    """
    if not nets:
        raise SettingError("nets", "none", "at least one network", "there is nothing to stack")
    for net in nets[1:]:
        if net.activation != nets[0].activation:
            raise SettingError("activation", net.activation, f"{nets[0].activation}, as the first", "stack one kind")
        if net.w.shape[1:] != nets[0].w.shape[1:]:
            m, d = nets[0].w.shape[1:]
            raise SettingError("w", tuple(net.w.shape), f"(e, {m}, {d}), as the first", "stack equal shapes")
    return TwoLayer(
        torch.cat([n.w for n in nets]),
        torch.cat([n.b for n in nets]),
        torch.cat([n.a for n in nets]),
        nets[0].activation,
    )


def _check_noise(noise: float, block: int) -> None:
    if not 0 <= noise < math.inf:
        raise SettingError("noise", noise, "a finite number of at least 0", "0 is the exact activation")
    if block < 1:
        raise SettingError("block", block, "at least 1", "4096 rows at a time is the default")


def _per_member(x: Tensor) -> Tensor:
    return x if x.ndim == 3 else x[None]


def preactivation(net: TwoLayer, x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"]) -> Float[Tensor, "e n m"]:
    """<w_i, x> + b_i for every network, sample and neuron; x is shared (n, d) or one set per network (e, n, d)."""
    return torch.matmul(_per_member(x), net.w.transpose(1, 2)) + net.b[:, None, :]


@checked(loose=("net",))
def forward(
    net: TwoLayer, x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"], noise: float = 0.0, block: int = 4096
) -> Float[Tensor, "e n"]:
    """Scores g(x), with pre-activation noise integrated out if noise > 0; samples go in blocks to bound memory.

    Shapes: x (n, d) shared or (e, n, d) one set per network -> (e, n).
    Errors: `SettingError` for x that does not fit the networks or is not finite; a network may hold nan (one that has
    diverged among others), and its scores then do.
    """
    _check_noise(noise, block)
    x = _per_member(x)
    parts = []
    for i in range(0, x.shape[1], block):
        act = activate(preactivation(net, x[:, i : i + block]), net.activation, noise)
        parts.append(torch.matmul(act, net.a[:, :, None])[..., 0])
    return torch.cat(parts, 1)


@checked(signs=("y",), mixed=("weights",))
def gradients(
    net: TwoLayer,
    x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"],
    y: Float[Tensor, " n"] | Float[Tensor, "#e n"],
    *,
    loss: str = "hinge",
    noise: float = 0.0,
    weights: Float[Tensor, " n"] | Float[Tensor, "#e n"] | None = None,
    block: int = 4096,
) -> Gradients:
    """Gradients of mean_s weight_s l(g(x_s), y_s) in w, b and a.

    dw_i = a_i mean l' sigma'(z_i) x, db_i = a_i mean l' sigma'(z_i), da_i = mean l' sigma(z_i), where l' is the slope
    of the loss, z_i = <w_i, x> + b_i, and sigma, sigma' are averaged over pre-activation noise N(0, noise^2).
    Shapes: x (n, d) and y, weights (n) shared by all networks, or (e, n, d) and (e, n) with one data set each.
    Source: Lemma 12 of the emergence work (emergence.lemma12); its reported db lacks the noise inside the indicator.
    Errors: `SettingError` for data that do not fit the networks, for what is not finite, for labels other than -1 and
    +1 unless loss = "squared", and for an unknown loss.
    """
    check_choice("loss", loss, Loss)
    _check_noise(noise, block)
    x = _per_member(x)
    n = x.shape[1]
    e, m, d = net.w.shape
    dw, db, da = net.w.new_zeros(e, m, d), net.w.new_zeros(e, m), net.w.new_zeros(e, m)
    for i in range(0, n, block):
        rows = slice(i, i + block)
        z = preactivation(net, x[:, rows])
        act, gate = noisy(z, net.activation, noise) if noise else (activate(z, net.activation), None)
        score = torch.matmul(act, net.a[:, :, None])[..., 0]
        delta = loss_slope(score, y[..., rows], loss) / n
        if weights is not None:
            delta = delta * weights[..., rows]
        da += torch.matmul(delta[:, None, :], act)[:, 0]
        delta = delta[:, :, None]
        gate = gated(delta, z, net.activation, out=act) if gate is None else gate.mul_(delta)
        dw += torch.matmul(gate.transpose(1, 2), x[:, rows])
        db += gate.sum(1)
    return Gradients(dw * net.a[:, :, None], db * net.a, da)
