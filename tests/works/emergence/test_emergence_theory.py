"""Claims on definitions, existence and the two steps: a fault planted in what they measure contradicts them."""

import dataclasses

import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.emergence import setup
from featlearn.works.emergence.claims import (
    definitions,
    existence,
    first_step,
    main_theorem,
    other_laws,
    second_layer,
    second_step,
    training,
)

MODULES = (definitions, other_laws, existence, first_step, second_step, second_layer, main_theorem, training)
CLAIMS = {c.id.removeprefix("emergence."): c for module in MODULES for c in module.CLAIMS}
NAMES = {
    definitions: ("ParityMix",),
    other_laws: ("ParityMix", "Interval"),
    training: ("slope",),
    existence: ("bump_neurons", "construct"),
    first_step: ("gradients", "fit", "population_terms"),
    main_theorem: ("loss_bound", "two_sampled_steps"),
    second_step: ("forward", "fit", "population_terms"),
    second_layer: ("forward",),
}
honest = {(module, n): getattr(module, n) for module, names in NAMES.items() for n in names}


def wrong_rate(D, k, p_o=0.5):
    return setup.parity_mix(D, k, 0.9 * p_o)


def task(module, name, **change):
    return lambda **given: honest[module, name](**{**given, **change})


def tilted(*args):
    family = setup.by_count(*args)
    return dataclasses.replace(family, y=-0.9 * family.y)


def scaled(module, name, factor):
    return lambda *args, **more: factor * honest[module, name](*args, **more)


def noisier(*args, noise, **more):
    return honest[first_step, "gradients"](*args, noise=1.001 * noise, **more)


def leaky(module, kept):
    """The old weights are not quite forgotten."""

    def fit(net, x, y, stages, key, **more):
        changed = [dataclasses.replace(s, keep_w=s.keep_w + kept) for s in stages]
        return honest[module, "fit"](net, x, y, changed, key, **more)

    return fit


def wrong_terms(module, at):
    """Terms of a family with other noise, in what is observed alone: the statements call the same name first."""
    calls = []

    def terms(family, q, b, noise):
        calls.append(0)
        return honest[module, "population_terms"](family, q, b, noise * (1.3 if len(calls) > at else 1.0))

    return terms


def rescaled_bumps(s, slope, half_width):
    a, b = honest[existence, "bump_neurons"](s, slope, half_width)
    return a * [1, 1.02, 1], b


def off(k, mu, positive):
    star = honest[existence, "construct"](k, mu, positive)
    return existence.Construction(k, 1.0001 * star.a, star.b)


FAULTS = {
    "lemma7": (existence, "bump_neurons", rescaled_bumps),
    "lemma5": (existence, "construct", off),
    "lemma6": (first_step, "gradients", noisier),
    "lemma6_orders": (first_step, "population_terms", wrong_terms(first_step, 0)),
    "lemma6_rates": (first_step, "by_count", lambda D, *_: setup.parity_mix(D, 3, 0.5)),
    "lemma6_bounds": (first_step, "eps_e", lambda *_: 1e-6),
    "lemma18": (first_step, "fit", leaky(first_step, 0.01)),
    "lemma19": (second_step, "forward", scaled(second_step, "forward", 1.02)),
    "lemma20": (second_step, "population_terms", wrong_terms(second_step, 1)),
    "lemma23": (second_layer, "forward", scaled(second_layer, "forward", 0.98)),
    "theorem1": (main_theorem, "loss_bound", lambda k, m, T: honest[main_theorem, "loss_bound"](k, m, T) / k**2),
    "theorem34": (main_theorem, "two_sampled_steps", lambda *at: at[3]),
    "method_mds": (second_step, "fit", leaky(second_step, 0.5)),
    "notation": (definitions, "parity_mix", wrong_rate),
    "definition_data": (definitions, "ParityMix", task(definitions, "ParityMix", p_o=0.45)),
    "definition_parity_mix": (definitions, "parity_mix", wrong_rate),
    "parity_mix_membership": (definitions, "parity_mix", wrong_rate),
    "definition_no_structure": (other_laws, "ParityMix", task(other_laws, "ParityMix", structure=True)),
    "definition_interval": (other_laws, "Interval", task(other_laws, "Interval", t1=21)),
    "method_training": (training, "slope", lambda z, kind, s: honest[training, "slope"](z, kind, 1.01 * s)),
    "lemma14": (training, "by_count", tilted),
}
"""Claim -> module, name of what is at fault, and the fault."""


@pytest.mark.parametrize("name", CLAIMS)
def test_a_fault_in_what_is_measured_contradicts(name, monkeypatch):
    module, attribute, fault = FAULTS[name]
    monkeypatch.setattr(module, attribute, fault)
    assert not verdict_of(CLAIMS[name], Key("verify")).as_expected
