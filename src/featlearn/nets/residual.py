"""Three-layer ReLU networks with one skip, with gradients written by hand, many at once; and their relatives without.

h = relu(W x + b1), inner = h (full) or A1 h (bottleneck, k numbers), h2 = relu(V inner + b2), out = A (s h + h2) with
the skip s = 1 or 0. With A1 = A ("residual bottleneck") the network is out1 + A relu(V out1 + b2), out1 = A h: the
form of resnet.learner_eq2_1 with U = V A. The leading axis e counts networks: seeds and settings train together.
"""

from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import check_fields, check_number, checked
from featlearn.nets.pointwise import check_choice

Wiring = Literal["residual", "residual bottleneck", "bottleneck", "two readouts", "three layers", "two layers"]
SKIPS = ("residual", "residual bottleneck", "two layers")
NARROW = ("residual bottleneck", "bottleneck", "two readouts")


@dataclass(frozen=True)
class Residual:
    """e networks of width m from R^d to R^k; calling one gives scores (n, e, k).

    w (e, m, d), b1 (e, m): first layer. v (e, m, h), b2 (e, m): second, with h = m where it reads the first layer
    ("residual", "three layers") and h = k where it reads k values ("residual bottleneck" and "bottleneck": A h, "two
    readouts": A1 h). a (e, k, m): read-out. a1 (e, k, m): the inner read-out of "two readouts", else None. "two
    layers" has neither v nor b2.
    Source: resnet.learner_eq2_1 (section 2, eq. 2.1; section 6); the wirings without a skip are controls of ours.
    """

    w: Float[Tensor, "e m d"]
    b1: Float[Tensor, "e m"]
    a: Float[Tensor, "e k m"]
    v: Float[Tensor, "e m h"] | None = None
    b2: Float[Tensor, "e m"] | None = None
    a1: Float[Tensor, "e k m"] | None = None
    wiring: Wiring = "residual"

    def __post_init__(self) -> None:
        check_choice("wiring", self.wiring, Wiring)
        check_fields(self)
        _, k, m = self.a.shape
        deep = self.wiring != "two layers"
        if (self.v is not None) != deep or (self.b2 is not None) != deep:
            raise SettingError(
                "v, b2", "absent" if deep else "given", f"as wiring {self.wiring!r} asks", "see Residual"
            )
        if (self.a1 is not None) != (self.wiring == "two readouts"):
            raise SettingError("a1", "absent or given", f"as wiring {self.wiring!r} asks", "only 'two readouts' has it")
        inner = k if self.wiring in NARROW else m
        if self.v is not None and self.v.shape[2] != inner:
            raise SettingError("v", tuple(self.v.shape), f"{inner} columns for wiring {self.wiring!r}", "match them")

    def __call__(self, x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"], /) -> Float[Tensor, "n e k"]:
        return residual_forward(self, x).out.transpose(0, 1)

    def __len__(self) -> int:
        return len(self.a)

    def __getitem__(self, members: slice) -> "Residual":
        return replace(self, **{name: value[members] for name, value in parameters(self).items()})


@dataclass(frozen=True)
class Activations:
    """What a pass leaves. out (e, n, k), h and h2 (e, n, m) after their gates, inner (e, n, h): what layer 2 reads."""

    out: Float[Tensor, "e n k"]
    h: Float[Tensor, "e n m"]
    inner: Float[Tensor, "e n h"] | None = None
    h2: Float[Tensor, "e n m"] | None = None


def parameters(net: Residual) -> dict[str, Tensor]:
    """The tensors of a network that are there, by name."""
    found = {f.name: getattr(net, f.name) for f in fields(net) if f.name != "wiring"}
    return {name: value for name, value in found.items() if value is not None}


def residual_init(
    m: int, d: int, k: int, key: Key, *, wiring: Wiring = "residual", variance: float | None = None
) -> Residual:
    """One network (e = 1): every weight and bias independent N(0, variance), 1/m by default.

    Shapes: w (1, m, d), v (1, m, h), a (1, k, m). Source: resnet.sec8_1_setup, whose "N(1, 1/m)" is read as N(0, 1/m).
    Errors: `SettingError` for sizes below 1, an unknown wiring and a variance below 0.

    Example:
        >>> residual_init(4, 3, 2, Key("start"), wiring="residual bottleneck").v.shape
        torch.Size([1, 4, 2])
    """
    check_choice("wiring", wiring, Wiring)
    for name, value in (("m", m), ("d", d), ("k", k)):
        if value < 1:
            raise SettingError(name, value, "at least 1", "section 8.1 has m = 200, d = 30, k = 15")
    sd = (1 / m if variance is None else variance) ** 0.5
    check_number(sd, "variance", "a finite number of at least 0", "1/m is the reported one")

    def normal(name: str, *shape: int) -> Tensor:
        return sd * torch.randn(1, *shape, generator=(key / name).torch())

    deep = wiring != "two layers"
    return Residual(
        w=normal("w", m, d),
        b1=normal("b1", m),
        a=normal("a", k, m),
        v=normal("v", m, k if wiring in NARROW else m) if deep else None,
        b2=normal("b2", m) if deep else None,
        a1=normal("a1", k, m) if wiring == "two readouts" else None,
        wiring=wiring,
    )


def residual_stack(nets: "list[Residual]") -> Residual:
    """Several ensembles of one shape and wiring as one along e. Errors: `SettingError` for none and for others."""
    if not nets:
        raise SettingError("nets", "none", "at least one network", "there is nothing to stack")
    for net in nets[1:]:
        if net.wiring != nets[0].wiring or net.w.shape[1:] != nets[0].w.shape[1:]:
            raise SettingError("nets", net.wiring, f"wiring {nets[0].wiring!r} and its shape", "stack one kind")
    return replace(nets[0], **{n: torch.cat([parameters(p)[n] for p in nets]) for n in parameters(nets[0])})


def residual_forward(net: Residual, x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"]) -> Activations:
    """The pass, with what the backward one needs. Shapes: x (n, d) shared, or (e, n, d) -> out (e, n, k)."""
    x3 = x if x.ndim == 3 else x.expand(len(net), *x.shape)
    h = torch.baddbmm(net.b1[:, None], x3, net.w.mT).clamp_min_(0)
    if net.v is None or net.b2 is None:
        return Activations(torch.bmm(h, net.a.mT), h)
    inner = h
    if net.wiring in NARROW:
        inner = torch.bmm(h, (net.a if net.a1 is None else net.a1).mT)
    h2 = torch.baddbmm(net.b2[:, None], inner, net.v.mT).clamp_min_(0)
    out = torch.bmm(h2 + h if net.wiring in SKIPS else h2, net.a.mT)
    return Activations(out, h, inner, h2)


@checked(loose=("net",))
def residual_gradients(
    net: Residual, x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"], y: Float[Tensor, "n k"] | Float[Tensor, "#e n k"]
) -> dict[str, Tensor]:
    """Gradients of mean_s ||out(x_s) - y_s||^2 / 2 in every parameter, by name; gates at 0 count as closed.

    Shapes: x (n, d) and y (n, k) shared by all networks, or (e, n, d) and (e, n, k); each as its parameter.
    Source: resnet.algorithm1 (eq. 6.1), resnet.gradient_factC4.
    """
    x3 = x if x.ndim == 3 else x.expand(len(net), *x.shape)
    seen = residual_forward(net, x3)
    return backward(net, x3, seen, (seen.out - y) / x3.shape[1])


def backward(
    net: Residual, x: Float[Tensor, "e n d"], seen: Activations, delta: Float[Tensor, "e n k"]
) -> dict[str, Tensor]:
    """Gradients of a loss with slope `delta` (e, n, k) in the outputs, by name of parameter."""
    found: dict[str, Tensor] = {}
    through = torch.bmm(delta, net.a)
    if net.v is None or seen.h2 is None or seen.inner is None:
        found["a"] = torch.bmm(delta.mT, seen.h)
        into = through
    else:
        found["a"] = torch.bmm(delta.mT, seen.h2 + seen.h if net.wiring in SKIPS else seen.h2)
        gate2 = through * (seen.h2 > 0)
        found["v"], found["b2"] = torch.bmm(gate2.mT, seen.inner), gate2.sum(1)
        back = torch.bmm(gate2, net.v)
        if net.wiring in NARROW:
            inner = net.a if net.a1 is None else net.a1
            read = torch.bmm(back.mT, seen.h)
            if net.a1 is None:
                found["a"] = found["a"] + read
            else:
                found["a1"] = read
            back = torch.bmm(back, inner)
        into = through + back if net.wiring in SKIPS else back
    gate = into * (seen.h > 0)
    found["w"], found["b1"] = torch.bmm(gate.mT, x), gate.sum(1)
    return found


WIRINGS: tuple[Wiring, ...] = get_args(Wiring)
