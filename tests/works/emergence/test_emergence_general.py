"""Claims on the general setting: a fault planted in what they measure contradicts them."""

import dataclasses

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.emergence import setup
from featlearn.works.emergence.claims import general_second, general_steps

MODULES = (general_steps, general_second)
CLAIMS = {c.id.removeprefix("emergence."): c for module in MODULES for c in module.CLAIMS}
fit, two_steps = general_steps.fit, general_second.two_steps


def unweighted(law, w, b, noise, weights=None):
    return setup.general_terms(law, w, b, noise, np.ones_like(law.y))


def biased(law, w, b, noise, weights=None):
    """A part of T that does not shrink with the start, as large as a tenth of the signal."""
    t = setup.general_terms(law, w, b, noise, weights)
    return dataclasses.replace(t, T=t.T + 0.005, T_a=0.9 * t.T_a)


def keeping(net, x, y, stages, key, **more):
    return fit(net, x, y, [dataclasses.replace(s, keep_w=0.5) for s in stages], key, **more)


FAULTS = {
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
    settings = claim.settings(Key("verify") / claim.id / "settings")
    said = claim.statements(settings)  # predicted without the fault
    monkeypatch.setattr(module, attribute, fault)
    verdict = verdict_of(dataclasses.replace(claim, settings=settings, statements=lambda _: said), Key("verify"))
    assert not verdict.as_expected
