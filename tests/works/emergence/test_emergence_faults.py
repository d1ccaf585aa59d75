"""Claims on bounds, start and last stage: a fault planted in what they measure contradicts them."""

import dataclasses

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.emergence.claims import (
    initialisation,
    lower_bounds,
    optimisation,
    regulariser,
    statistical_queries,
)

MODULES = (initialisation, lower_bounds, optimisation, regulariser, statistical_queries)
CLAIMS = {c.id.removeprefix("emergence."): c for module in MODULES for c in module.CLAIMS}


def wider(m, d, key, **scales):
    return honest["gaussian_init"](m, d, key, **{n: 1.02 * v for n, v in scales.items()})


def noisier(*args, noise, **more):
    return honest["gradients"](*args, noise=1.001 * noise, **more)


def false_certificate(*args):
    """A dual value that is no lower end: 20 % too high."""
    lower, found = honest["hinge_losses"](*args)
    return 1.2 * lower, found


def steeper(net, x, y, stages, key, **more):
    faster = [dataclasses.replace(s, rate_a=1.05 * s.rate_a) for s in stages]
    return honest["fit"](net, x, y, faster, key, **more)


def unlike_halves(net, x, y, rates, key, **more):
    factor = 1.01 if net.a.shape[1] > 6 else 1
    return honest["fit_linearised"](net, x, y, [factor * r for r in rates], key, **more)


honest = {
    name: getattr(module, name)
    for module, names in (
        (initialisation, ("gaussian_init", "gradients", "bits")),
        (optimisation, ("fit", "fit_linearised", "online_descent")),
        (regulariser, ("regulariser",)),
        (statistical_queries, ("few_advantage",)),
        (lower_bounds, ("hinge_losses", "rbf", "shares")),
    )
    for name in names
}
FAULTS = {
    "lemma9": (initialisation, "gaussian_init", wider),
    "lemma12": (initialisation, "gradients", noisier),
    "lemma13": (initialisation, "bits", lambda n: 3 * honest["bits"](n)),
    "theorem2": (lower_bounds, "hinge_losses", false_certificate),
    "theorem29": (lower_bounds, "hinge_losses", false_certificate),
    "theorem29 shares": (lower_bounds, "shares", lambda f, table: 2 * honest["shares"](f, table)),
    "corollary3": (lower_bounds, "rbf", lambda *a, bandwidth: honest["rbf"](*a, bandwidth=1.1 * bandwidth)),
    "theorem4 structure": (statistical_queries, "first_order", lambda *_: 1.0),
    "theorem4 oracle": (statistical_queries, "all_parities", lambda z, masks, signs: np.ones(len(z))),
    "theorem4 sign": (statistical_queries, "few_advantage", lambda *a: honest["few_advantage"](*a) + 1e-3),
    "lemma24": (optimisation, "fit", steeper),
    "theorem27": (optimisation, "online_descent", lambda *data: honest["online_descent"](*data[:-1], 2.5 * data[-1])),
    "method_baselines": (optimisation, "fit_linearised", unlike_halves),
    "algorithm1_regulariser": (
        regulariser,
        "regulariser",
        lambda p: tuple(0.99 * r for r in honest["regulariser"](p)),
    ),
}
"""Claim -> module, name of what is at fault, and the fault."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_what_is_measured_contradicts(name, monkeypatch):
    module, attribute, fault = FAULTS[name]
    monkeypatch.setattr(module, attribute, fault)
    claim = CLAIMS[name.split()[0]]
    assert not verdict_of(claim, Key("verify")).as_expected


def test_skewed_backgrounds_contradict_the_normal_tail():
    claim = CLAIMS["lemma11"]
    settings = claim.settings(Key("skew"))
    rare = tuple(s if s.alike else dataclasses.replace(s, sd=1.3 * s.sd) for s in settings)
    seen = claim.observe(rare, Key("skew"))
    said = {s.name: s for s in claim.statements(settings)}
    name = "Pr[background >= c sd], typical q, c = 1/2 and 1"
    assert (abs(seen[name] - said[name].value) > said[name].margin).any()


def test_the_example_of_lemma_12_by_hand():
    """One neuron just below its threshold at x = 0, and x = 0.9 with a hinge that is not active: half is right."""
    given = ([[1.0]], [-1e-9], [2.0], [[0.0], [0.9]], [1.0, 1.0])
    at = initialisation.Loss(*(np.array(v) for v in given), noise=1e-3)
    [reported, corrected] = [s.value[0] for s in initialisation.gradient_statements(at) if s.observed_as == "dL/db"]
    assert reported == 0
    assert corrected == pytest.approx(-0.5, rel=1e-4)
