"""Claims of the ResNet work that are computed from its formulas: planted faults change their verdicts."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.resnet.claims import (
    complexity,
    coupling,
    existence,
    initialisation,
    minimum_norm,
    network,
    targets,
)

MODULES = (complexity, coupling, existence, initialisation, minimum_norm, network, targets)
CLAIMS = {c.id.removeprefix("resnet."): c for module in MODULES for c in module.CLAIMS}


# faults ---------------------------------------------------------------------------------------------------------------

honest = {
    "residual_forward": network.residual_forward,
    "residual_gradients": network.residual_gradients,
    "fit_residual": network.fit_residual,
    "built": minimum_norm.built,
    "transferred": minimum_norm.transferred,
    "supremum": minimum_norm.supremum,
    "smooth": complexity.smooth_complexity,
    "log": complexity.log_complexity,
    "residual_init": targets.residual_init,
    "at_points": complexity.at_points,
    "cheapest": coupling.cheapest,
    "gated": existence.gated,
    "gate_function": existence.gate_function,
    "weights_of": existence.weights_of,
    "optimize": initialisation.optimize,
    "stats": initialisation.stats,
}


def small_gradient(net, x, y):
    """The first layer's slopes are 1 % too small."""
    found = honest["residual_gradients"](net, x, y)
    return {n: v * (0.99 if n == "w" else 1.0) for n, v in found.items()}


def one_rate(net, data, schedule, key, **more):
    return honest["fit_residual"](net, data, dataclasses.replace(schedule, rates=None, rate=0.05), key, **more)


def uneven(m, d):
    """Weights whose rows of one sign are 1 % too long: they no longer cancel."""
    net = honest["built"](m, d)
    return dataclasses.replace(net, w=torch.where(net.a[..., None] > 0, 1.01 * net.w, net.w))


def not_rescaled(net, copies, d):
    moved = honest["transferred"](net, copies, d)
    return dataclasses.replace(moved, w=moved.w / (d / 6) ** 0.5)


def greedier(power):
    """Budgets that grow with the number of neurons."""
    return lambda gain, cost, budget: honest["cheapest"](gain, cost, budget * len(cost) ** power)


def steeper(net, x, y):
    """Slopes of the first layer in proportion to the square of the second."""
    found = honest["residual_gradients"](net, x, y)
    return {n: v * (net.v.norm() if n in ("w", "b1") else 1.0) for n, v in found.items()}


def halved_constant(coefficients):
    """c_0 in place of 2 c_0."""
    series = honest["gate_function"](coefficients)
    series[0] /= 2
    return series


later_roots = SimpleNamespace(
    root_scalar=lambda *args, **more: SimpleNamespace(root=honest["optimize"].root_scalar(*args, **more).root + 0.01)
)
heavier = SimpleNamespace(
    chi2=honest["stats"].chi2, gamma=lambda a, scale: honest["stats"].gamma(1.05 * a, scale=scale)
)


class Shifted(targets.HierarchicalParity):
    def composite(self, base):
        return super().composite(base).roll(1, 1)


class Wide(targets.SmoothComposite):
    def base(self, truth, x):
        return super().base(truth, 1.001 * x)


FAULTS = {
    "learner": (network, "engine", lambda net: dataclasses.replace(engine(net), b2=1.001 * engine(net).b2)),
    "algorithm1": (network, "fit_residual", one_rate),
    "gradient_factC4": (network, "residual_gradients", small_gradient),
    "gradient_factC4 loss": (
        network,
        "residual_forward",
        lambda net, x: dataclasses.replace(found := honest["residual_forward"](net, x), out=1.001 * found.out),
    ),
    "sec8_2_setup": (minimum_norm, "TwoLayer", lambda w, b, a, _: honest_two_layer(w, b, a, "clip")),
    "minnorm": (minimum_norm, "built", uneven),
    "minnorm transfer": (minimum_norm, "transferred", not_rescaled),
    "rademacher": (minimum_norm, "supremum", lambda x, s, key: 1.01 * honest["supremum"](x, s, key)),
    "rademacher dimension": (
        minimum_norm,
        "supremum",
        lambda x, s, key: honest["supremum"](x * (x.shape[1] / 10) ** (x.shape[1] > x.shape[0] / 2), s, key),
    ),
    "complexity": (complexity, "smooth_complexity", lambda c: honest["smooth"]([0.0, *c][:-1])),
    "complexity eps": (complexity, "log_complexity", lambda c, eps, **more: 1.001 * honest["log"](c, eps, **more)),
    "complexity power": (complexity, "log_complexity", lambda c, eps, **more: honest["log"](c, eps**1.01, **more)),
    "factA3": (complexity, "at_points", lambda f, x: 1.01 * honest["at_points"](f, x)),
    "concept2": (targets, "smooth_complexity", lambda c: honest["smooth"]([v * 0.1**i for i, v in enumerate(c)])),
    "table1": (initialisation, "optimize", later_roots),
    "propB1": (initialisation, "stats", heavier),
    "propB4": (
        initialisation,
        "cheapest",
        lambda gain, cost, budget: honest["cheapest"](gain, cost, budget**0.7),
    ),
    "lemmaC1": (coupling, "cheapest", greedier(0.4)),
    "lemmaC1_f": (coupling, "cheapest", greedier(-0.4)),
    "claimC6_C7": (
        coupling,
        "residual_gradients",
        lambda *args: {n: 0.5 * v for n, v in honest["residual_gradients"](*args).items()},
    ),
    "claimC6_C7 size": (
        coupling,
        "residual_gradients",
        lambda *args: {n: 1.001 * v for n, v in honest["residual_gradients"](*args).items()},
    ),
    "claimC6_C7 growth": (coupling, "residual_gradients", lambda net, x, y: steeper(net, x, y)),
    "claimE3": (
        existence,
        "gated",
        lambda f, nodes, weights, x: honest["gated"](f, nodes, weights, min(x + 0.01, 1.0)),
    ),
    "lemmaE2": (existence, "gate_function", halved_constant),
    "lemmaE1": (existence, "weights_of", lambda *args: 1.5 * honest["weights_of"](*args)),
    "lemmaE1 rate": (existence, "weights_of", lambda t, w0, a: honest["weights_of"](t, w0, a) * (len(w0) / 256) ** 0.1),
    "sec8_1_setup": (
        targets,
        "residual_init",
        lambda *args, **more: honest["residual_init"](*args, variance=1.25 / args[0], **more),
    ),
}
"""Claim -> module, name of what is at fault, and the fault."""
engine, honest_two_layer = network.engine, minimum_norm.TwoLayer


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_what_is_measured_contradicts(name, monkeypatch):
    module, attribute, fault = FAULTS[name]
    monkeypatch.setattr(module, attribute, fault)
    assert not verdict_of(CLAIMS[name.split()[0]], Key("verify")).as_expected


def test_targets_of_another_task_contradict(monkeypatch):
    data, concept = CLAIMS["sec8_1_setup"], CLAIMS["concept1"]
    assert not verdict_of(dataclasses.replace(data, settings=Shifted()), Key("verify")).as_expected
    monkeypatch.setattr(targets, "SmoothComposite", Wide)
    assert not verdict_of(concept, Key("verify")).as_expected
