"""Claims on the general setting: a fault planted in what they measure contradicts them."""

import dataclasses
import itertools

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import settle, verdict_of
from featlearn.lab.judge import judge
from featlearn.works.emergence import setup
from featlearn.works.emergence.claims import general, general_network, general_second, general_steps

MODULES = (general, general_network, general_steps, general_second)
CLAIMS = {c.id.removeprefix("emergence."): c for module in MODULES for c in module.CLAIMS}
fit, two_steps = general_steps.fit, general_second.two_steps
gradients, build = general.gradients, general_network.build


def unweighted(law, w, b, noise, weights=None):
    return setup.general_terms(law, w, b, noise, np.ones_like(law.y))


def biased(law, w, b, noise, weights=None):
    """A part of T that does not shrink with the start, as large as a tenth of the signal."""
    t = setup.general_terms(law, w, b, noise, weights)
    return dataclasses.replace(t, T=t.T + 0.005, T_a=0.9 * t.T_a)


def keeping(net, x, y, stages, key, **more):
    return fit(net, x, y, [dataclasses.replace(s, keep_w=0.5) for s in stages], key, **more)


def tilted(*sizes, negative_share, **more):
    return setup.general_parity(*sizes, negative_share=0.9 * negative_share, **more)


def noisier(*given, noise, **more):
    return gradients(*given, noise=1.001 * noise, **more)


def lower(k, mu, positive):
    g = build(k, mu, positive)
    return dataclasses.replace(g, a=0.95 * g.a)


def one_fewer(k, mu, positive):
    g = build(k, mu, positive)
    return dataclasses.replace(g, a=g.a[:-1], b=g.b[:-1])


FAULTS = {
    "definition_general": (general, "general_parity", tilted),
    "lemma39": (general, "gradients", noisier),
    "lemma35": (general_network, "build", lower),
    "lemma35 neuron": (general_network, "build", one_fewer),
    "lemma40 weights": (general_steps, "general_terms", unweighted),
    "lemma40 background": (general_steps, "general_terms", biased),
    "lemma40 start": (general_steps, "fit", keeping),
    "lemma42_sign": (general_steps, "general_terms", biased),
    "lemma40_noise": (general_steps, "gate", lambda z, noise: setup.gate(z, 5 * noise)),
    "lemma44": (general_second, "two_steps", lambda s, **more: two_steps(s, **{**more, "weighted": False})),
    "lemma44 background": (general_second, "general_terms", biased),
}
"""Claim -> module, name of what is at fault, and the fault."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_what_is_measured_contradicts(name, monkeypatch):
    module, attribute, fault = FAULTS[name]
    claim = CLAIMS[name.split()[0]]
    settings = settle(claim, Key("verify") / claim.id)
    said = claim.statements(settings)  # predicted without the fault
    monkeypatch.setattr(module, attribute, fault)
    verdict = verdict_of(dataclasses.replace(claim, settings=settings, statements=lambda _: said), Key("verify"))
    assert not verdict.as_expected


def test_columns_that_are_no_unit_vectors_contradict_a_typical_start():
    claim = CLAIMS["lemma36"]
    seen = claim.observe(1.3 * claim.settings(Key("columns")), Key("columns"))
    findings = [judge(s, seen) for s in claim.statements(claim.settings(Key("columns")))]
    assert sum(f.outcome == "contradicted" for f in findings) >= 2


def test_counts_that_look_alike_cost_what_the_best_rule_costs():
    k = 3
    law = general_network.counts_law(k)
    y = np.where(np.arange(k + 1) % 2 == 1, 1.0, -1.0)
    centred = np.arange(k + 1) / k - 0.5
    assert (law.sum(), law @ y, law @ (y * centred)) == pytest.approx((1.0, 0.0, 0.25))
    wrong = []
    for rule in itertools.product((-1.0, 1.0), repeat=k + 2):  # an answer for every count -+ 1/2
        lower, upper = np.array(rule[:-1]), np.array(rule[1:])
        wrong.append(0.5 * float(law @ ((lower != y).astype(float) + (upper != y))))
    assert general_network.least_rate(k) == pytest.approx(min(wrong))
    assert general_network.tied_rate(k, 1 / (k * general_network.REST)) >= min(wrong)


def test_biases_keep_their_distance_from_0_by_the_smallest_move():
    for mu in np.linspace(0, 4, 65):
        g = build(4, mu, (1, 3))
        assert np.abs(g.b).min() * 8 * 4 >= 0.125 - 1e-12
        assert np.abs(g.a).max() == 64 * 4
