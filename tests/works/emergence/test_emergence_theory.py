"""Claims on definitions, existence and the two steps: a fault planted in what they measure contradicts them."""

import dataclasses

import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.emergence import setup
from featlearn.works.emergence.claims import definitions

MODULES = (definitions,)
CLAIMS = {c.id.removeprefix("emergence."): c for module in MODULES for c in module.CLAIMS}
honest = {
    (m, n): getattr(m, n) for m, names in {definitions: ("slope", "ParityMix", "Interval")}.items() for n in names
}


def wrong_rate(D, k, p_o=0.5):
    return setup.parity_mix(D, k, 0.9 * p_o)


def task(module, name, **change):
    return lambda **given: honest[module, name](**{**given, **change})


def tilted(*args):
    family = setup.by_count(*args)
    return dataclasses.replace(family, y=-0.9 * family.y)


FAULTS = {
    "notation": (definitions, "parity_mix", wrong_rate),
    "definition_data": (definitions, "ParityMix", task(definitions, "ParityMix", p_o=0.45)),
    "definition_parity_mix": (definitions, "parity_mix", wrong_rate),
    "parity_mix_membership": (definitions, "parity_mix", wrong_rate),
    "definition_no_structure": (definitions, "ParityMix", task(definitions, "ParityMix", structure=True)),
    "definition_interval": (definitions, "Interval", task(definitions, "Interval", t1=21)),
    "method_training": (definitions, "slope", lambda z, kind, s: honest[definitions, "slope"](z, kind, 1.01 * s)),
    "lemma14": (definitions, "by_count", tilted),
}
"""Claim -> module, name of what is at fault, and the fault."""


@pytest.mark.parametrize("name", CLAIMS)
def test_a_fault_in_what_is_measured_contradicts(name, monkeypatch):
    module, attribute, fault = FAULTS[name]
    monkeypatch.setattr(module, attribute, fault)
    assert not verdict_of(CLAIMS[name], Key("verify")).as_expected
