"""The network, its training and its gradient: eq. (2.1), Algorithm 1 and Fact C.4."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import REAL
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.learn import ResidualSchedule, fit_residual
from featlearn.learn.residual import HIDDEN
from featlearn.nets import Residual, residual_forward, residual_gradients
from featlearn.works.resnet.setup import Net, Sample, draw_sample, tensor, with_one

EXACT = 1e-10


def relu(z: np.ndarray) -> np.ndarray:
    """max(z, 0)."""
    return np.maximum(z, 0)


def literal(net: Net, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """out1 = A s(W (x, 1)), out = out1 + A s(V (out1, 1)), as section 6 writes them."""
    first = relu(with_one(x) @ net.w.T) @ net.a.T
    return first, first + relu(with_one(first) @ net.v.T) @ net.a.T


def engine(net: Net) -> Residual:
    """The same network in the library."""
    return Residual(
        w=tensor(net.w[:, :-1]),
        b1=tensor(net.w[:, -1]),
        a=tensor(net.a),
        v=tensor(net.v[:, :-1]),
        b2=tensor(net.v[:, -1]),
        wiring="residual bottleneck",
    )


# the network ---------------------------------------------------------------------------------------------------------


def says_network(settings: Sample) -> Sequence[Statement]:
    """out(x) = A (s(W x + b1) + s(U s(W x + b1) + b2)) with U = V A."""
    net, x = settings.net, settings.x
    first, whole = literal(net, x)
    h = relu(with_one(x) @ net.w.T)
    u = net.v[:, :-1] @ net.a
    full = (h + relu(h @ u.T + net.v[:, -1])) @ net.a.T
    without = relu(h @ u.T + net.v[:, -1]) @ net.a.T
    return (
        equal(
            "out of the bottleneck",
            REAL,
            whole,
            "Section 6, eq. (6.1)",
            margin=EXACT,
            axis="output",
            rival=first,
            rival_says="the first layer alone",
        ),
        equal(
            "out with U = V A in full",
            REAL,
            full,
            "Section 2, eq. (2.1)",
            margin=EXACT,
            axis="output",
            rival=without,
            rival_says="no skip",
        ),
    )


def sees_network(settings: Sample, key: Key) -> Mapping[str, Observation]:
    """The library's bottleneck, and its full network with the product as second layer."""
    net = engine(settings.net)
    x = torch.from_numpy(settings.x)
    full = replace(net, v=torch.bmm(net.v, net.a), wiring="residual") if net.v is not None else net
    return {"out of the bottleneck": net(x)[:, 0].numpy(), "out with U = V A in full": full(x)[:, 0].numpy()}


# Algorithm 1 ---------------------------------------------------------------------------------------------------------

RATES = (0.05, 0.02)


def says_steps(settings: Sample) -> Sequence[Statement]:
    """W -= eta_w grad_W, V -= eta_v grad_V of ||y - out||^2 / 2 on one sample, both at the same weights."""
    net, later = settings.net, settings.net
    for x, y in zip(settings.x, settings.y, strict=True):
        net = _step(net, x[None], y[None], together=True)
        later = _step(later, x[None], y[None], together=False)
    source = "Algorithm 1"
    return tuple(
        equal(
            name,
            REAL,
            getattr(net, attribute),
            source,
            margin=EXACT,
            axis="weight",
            rival=getattr(later, attribute),
            rival_says="V moved after W, at its new value",
        )
        for name, attribute in (("W after one pass", "w"), ("V after one pass", "v"))
    )


def _slopes(net: Net, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of ||y - out||^2 / 2 by the chain rule, one sample: of W (m, d+1) and of V (m, k+1)."""
    z1, (first, whole) = with_one(x) @ net.w.T, literal(net, x)
    z2 = with_one(first) @ net.v.T
    into = (whole - y) @ net.a
    into_v = into * (z2 > 0)
    back = into_v @ net.v[:, :-1] @ net.a
    return ((into + back) * (z1 > 0)).T @ with_one(x), into_v.T @ with_one(first)


def _step(net: Net, x: np.ndarray, y: np.ndarray, together: bool) -> Net:
    dw, dv = _slopes(net, x, y)
    w = net.w - RATES[0] * dw
    if not together:
        dv = _slopes(replace(net, w=w), x, y)[1]
    return replace(net, w=w, v=net.v - RATES[1] * dv)


def sees_steps(settings: Sample, key: Key) -> Mapping[str, Observation]:
    """One-pass SGD of the library on the same samples, A at rest."""
    at = iter(range(len(settings.x)))

    def sampler(n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
        i = next(at)
        return torch.from_numpy(settings.x[i : i + n]), torch.from_numpy(settings.y[i : i + n])

    rates = {"w": RATES[0], "b1": RATES[0], "v": RATES[1], "b2": RATES[1]}
    schedule = ResidualSchedule(steps=len(settings.x), rate=1.0, rates=rates, momentum=0.0, batch=1)
    net = fit_residual(engine(settings.net), sampler, schedule, key, trained=HIDDEN).net
    assert net.v is not None
    assert net.b2 is not None
    return {
        "W after one pass": torch.cat([net.w, net.b1[..., None]], -1)[0].numpy(),
        "V after one pass": torch.cat([net.v, net.b2[..., None]], -1)[0].numpy(),
    }


# Fact C.4 ------------------------------------------------------------------------------------------------------------


def says_slope(settings: Sample) -> Sequence[Statement]:
    """<grad Obj, (-W', -V')> = <y - out, f(W') + g(V')>."""
    net, x = settings.net, settings.x
    first, whole = literal(net, x)
    gate_w, gate_v = with_one(x) @ net.w.T >= 0, with_one(first) @ net.v.T >= 0
    moved = (gate_w * (with_one(x) @ settings.dw.T)) @ net.a.T
    through = (gate_v * (moved @ net.v[:, :-1].T)) @ net.a.T
    own = (gate_v * (with_one(first) @ settings.dv.T)) @ net.a.T
    gap = settings.y - whole
    return (
        equal(
            "descent along (-W', -V') at each sample",
            REAL,
            (gap * (moved + through + own)).sum(1),
            "Fact C.4",
            margin=1e-8,
            axis="sample",
            rival=(gap * (moved + own)).sum(1),
            rival_says="W' seen through the skip alone",
        ),
        equal(
            "central difference of the loss along (-W', -V')",
            REAL,
            (gap * (moved + through + own)).sum(1),
            "Fact C.4",
            margin=1e-3,
            axis="sample",
            rival=(gap * (moved + own)).sum(1),
            rival_says="W' seen through the skip alone",
        ),
    )


def sees_slope(settings: Sample, key: Key) -> Mapping[str, Observation]:
    """The library's gradients, and its losses a small step to either side, sample by sample."""
    net, step = settings.net, 1e-6
    x, y = torch.from_numpy(settings.x), torch.from_numpy(settings.y)
    descent, difference = [], []
    for i in range(len(x)):
        found = residual_gradients(engine(net), x[i : i + 1], y[i : i + 1])
        along = sum(
            -float((found[name][0] * torch.from_numpy(part)).sum())
            for name, part in (
                ("w", settings.dw[:, :-1]),
                ("b1", settings.dw[:, -1]),
                ("v", settings.dv[:, :-1]),
                ("b2", settings.dv[:, -1]),
            )
        )
        descent.append(along)
        loss = [
            float((residual_forward(engine(moved), x[i : i + 1]).out[0] - y[i : i + 1]).square().sum()) / 2
            for moved in (
                replace(net, w=net.w + s * step * settings.dw, v=net.v + s * step * settings.dv) for s in (-1, 1)
            )
        ]
        difference.append((loss[0] - loss[1]) / (2 * step))
    return {
        "descent along (-W', -V') at each sample": np.array(descent),
        "central difference of the loss along (-W', -V')": np.array(difference),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.learner",
        entries=("resnet.learner_eq2_1",),
        says="The three-layer network with one skip is the bottleneck form with U = V A and biases folded in.",
        settings=partial(draw_sample, 40, 7, 3, 20),
        statements=says_network,
        observe=sees_network,
    ),
    Claim(
        id="resnet.algorithm1",
        entries=("resnet.algorithm1",),
        says="SGD moves W and V on one sample a step at two rates, both by gradients at the same weights.",
        settings=partial(draw_sample, 30, 6, 3, 8),
        statements=says_steps,
        observe=sees_steps,
    ),
    Claim(
        id="resnet.gradient_factC4",
        entries=("resnet.gradient_factC4",),
        says="The derivative of the loss along (W', V') is <y - out, f(W') + g(V')> with the gates of the weights.",
        settings=partial(draw_sample, 30, 6, 3, 12),
        statements=says_slope,
        observe=sees_slope,
    ),
)
