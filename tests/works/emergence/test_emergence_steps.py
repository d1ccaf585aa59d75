"""Claims on definitions, existence, start, the two steps and the last stage: verdicts, and that each can be refuted."""

import dataclasses
import math
from functools import cache, partial

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.pending import Claim, Verdict, judge, verify
from featlearn.works.emergence.claims import (
    existence,
    first_step,
    population,
    second_step,
)

MODULES = (existence, first_step, second_step)
CLAIMS = {claim.id: claim for module in MODULES for claim in module.CLAIMS}
ENTRIES = """method_mds lemma5 lemma6 lemma7 lemma18
lemma19 lemma20 lemma23""".split()
KEY = Key("tests/theory")


def no_tables(name: str) -> None:
    return None


@cache
def verdict(claim_id: str) -> Verdict:
    return verify(CLAIMS[claim_id], KEY, no_tables)


def test_every_entry_is_covered():
    covered = {entry for claim in CLAIMS.values() for entry in claim.entries}
    assert covered == {f"emergence.{name}" for name in ENTRIES}
    assert len(CLAIMS) == sum(len(module.CLAIMS) for module in MODULES)


@pytest.mark.parametrize("claim_id", CLAIMS)
def test_expected_verdict(claim_id):
    got = verdict(claim_id)
    assert got.as_expected, f"{got.verdict}: {got.why}"
    for case in got.evidence.cases:
        if case.rival is not None:
            assert case.rival_says, case.name


@pytest.mark.parametrize("claim_id", [c.id for c in CLAIMS.values() if c.expected == "assumptions unmet"])
def test_unmet_claims_stand_beside_a_mechanism_that_holds(claim_id):
    for entry in CLAIMS[claim_id].entries:
        assert any(entry in c.entries and c.expected == "holds" for c in CLAIMS.values()), entry


@pytest.mark.parametrize("claim_id", [c.id for c in CLAIMS.values() if c.draw is not None])
def test_pictures(claim_id):
    claim = CLAIMS[claim_id]
    assert claim.draw is not None
    figure = claim.draw(verdict(claim_id).evidence)
    figure.canvas.draw()
    assert figure.axes
    assert all(axes.has_data() for axes in figure.axes)


def _noisier(original, factor=1.1):
    return lambda *args, noise, **kw: original(*args, noise=factor * noise, **kw)


def _leaky(original, **change):
    """`fit` with a field of every stage changed."""

    def fit(net, x, y, stages, key, **kw):
        changed = [dataclasses.replace(s, **{k: f(getattr(s, k)) for k, f in change.items()}) for s in stages]
        return original(net, x, y, changed, key, **kw)

    return fit


def _rescaled_bumps(s, slope, half_width):
    a, b = population_bumps(s, slope, half_width)
    return a * np.array([1, 1.02, 1]), b


population_bumps = existence.bump_neurons

# claim -> module, name and its mutated replacement: what a wrong program or a wrong statement would do
MUTANTS = {
    "emergence.lemma7": (existence, "bump_neurons", _rescaled_bumps),
    "emergence.lemma6": (first_step, "gradients", _noisier(first_step.gradients, 1.001)),
    "emergence.lemma6_bounds": (first_step, "by_count", lambda D, *_: population.parity_mix(D, 3, 0.5)),
    "emergence.lemma18": (first_step, "fit", _leaky(first_step.fit, keep_w=lambda v: v + 0.01)),
    "emergence.lemma19": (second_step, "forward", lambda *a, **kw: 1.02 * second_step_forward(*a, **kw)),
    "emergence.lemma20": (second_step, "gradients", _noisier(second_step.gradients, 1.001)),
    "emergence.lemma23": (second_step, "forward", lambda *a, **kw: 0.98 * second_step_forward(*a, **kw)),
    "emergence.second_step_bounds": (second_step, "gate", lambda z, s: population.gate(z, 1.5 * s)),
    "emergence.method_mds": (second_step, "fit", _leaky(second_step.fit, keep_w=lambda v: v + 0.5)),
}
second_step_forward = second_step.forward


@pytest.mark.parametrize("claim_id", MUTANTS)
def test_a_mutant_is_refuted(claim_id, monkeypatch):
    module, name, replacement = MUTANTS[claim_id]
    monkeypatch.setattr(module, name, replacement)
    assert judge(CLAIMS[claim_id].check(KEY / claim_id, no_tables))[0] == "refuted"


def test_every_claim_has_a_mutant():
    assert set(MUTANTS) | {"emergence.lemma5"} == set(CLAIMS)


def test_existence_is_refuted_by_a_wrong_coefficient():
    def off(k, mu, positive):
        star = existence.construct(k, mu, positive)
        return existence.Construction(k, 1.0001 * star.a, star.b)

    assert judge(existence.check_existence(KEY, no_tables, build=off))[0] == "refuted"


def test_a_rival_that_fits_establishes_nothing():
    blunt = partial(existence.check_triangle, KEY, no_tables)
    evidence = blunt()
    wide = [dataclasses.replace(case, tolerance=10.0) for case in evidence.cases]
    assert judge(dataclasses.replace(evidence, cases=wide))[0] == "not established"


def test_claims_are_well_formed():
    for claim in CLAIMS.values():
        assert isinstance(claim, Claim)
        assert claim.says.endswith(".")
        assert claim.id.startswith("emergence.")


@pytest.mark.parametrize("p_o", [0.5, 0.25])
@pytest.mark.parametrize("noise", [0.3, 0.05])
def test_population_terms_equal_enumeration(p_o, noise):
    family = population.parity_mix(9, 3, p_o)
    rng = np.random.default_rng(3)
    q, b = rng.normal(0, 1.0, (5, 9)), rng.normal(0, 0.5, 5)
    terms = population.population_terms(family, q, b, noise)
    phi, y, prob = family.support()
    z = phi @ q.T + b
    weight = (prob * y)[:, None] * population.gate(z, noise)
    np.testing.assert_allclose(terms.T, weight.T @ phi, atol=2e-14)
    np.testing.assert_allclose(terms.T_b, weight.sum(0), atol=2e-14)
    np.testing.assert_allclose(terms.T_a, (prob * y) @ population.smooth_clip(z, noise), atol=2e-14)
    rest = prob @ population.gate(phi[:, 3:] @ q[:, 3:].T + b, noise)
    np.testing.assert_allclose(population.background_gate(family, q, b, noise), rest, atol=2e-14)


def test_tiny_weights_keep_relative_accuracy():
    """After a first step background terms are of order 1e-22; cancellation would leave 1e-17."""
    family = population.parity_mix(30, 3, 0.5)
    rng = np.random.default_rng(4)
    q, b, noise = 1e-10 * rng.normal(size=(4, 30)), rng.normal(0, 0.1, 4), 0.2
    terms = population.population_terms(family, q, b, noise)
    pull = float(family.gamma[0]) * q[:, :3].sum(1) / family.scale
    law = population.gate_second_derivative(b, noise)[:, None] * family.sphi2 * q[:, 3:] * pull[:, None]
    np.testing.assert_allclose(terms.T[:, 3:], law, rtol=1e-5)
    assert np.abs(law).max() < 1e-20


def test_derivatives_of_the_gate():
    z, s, h = np.linspace(-0.5, 1.5, 9), 0.2, 1e-5
    slope = (population.gate(z + h, s) - population.gate(z - h, s)) / (2 * h)
    bend = (population.gate_derivative(z + h, s) - population.gate_derivative(z - h, s)) / (2 * h)
    area = (population.smooth_clip(z + h, s) - population.smooth_clip(z - h, s)) / (2 * h)
    np.testing.assert_allclose(population.gate_derivative(z, s), slope, atol=1e-8)
    np.testing.assert_allclose(population.gate_second_derivative(z, s), bend, atol=1e-7)
    np.testing.assert_allclose(population.gate(z, s), area, atol=1e-8)
    family = population.parity_mix(8, 3, 0.3)
    q, b = np.random.default_rng(5).normal(size=(3, 8)), np.array([0.0, 0.2, -0.4])
    up, down = (population.background_gate(family, q, b + e, s) for e in (h, -h))
    np.testing.assert_allclose(population.background_gate(family, q, b, s, order=1), (up - down) / (2 * h), atol=1e-8)


def test_unbalanced_components_are_refused():
    family = population.fair(6, 2, (2,))
    with pytest.raises(ValueError, match="must be 0"):
        population.population_terms(family, np.zeros((1, 6)), np.zeros(1), 0.1)


def test_error_rate_of_the_sigmas():
    assert population.sigmas(0.05, 1) == pytest.approx(1.959964, abs=1e-5)
    assert population.sigmas(1e-6, 100) == pytest.approx(5.73, abs=0.01)


def test_least_norms_and_smallest_hinge():
    """Two rows and two neurons, solved by hand: the least layer is a = (1, -1/2)."""
    features, y = np.array([[1.0, 0.0], [1.0, 4.0]]), np.array([1.0, -1.0])
    a, square, top = second_step.least_norms(features, y)
    np.testing.assert_allclose(a, [1.0, -0.5], atol=1e-6)
    assert square == pytest.approx(1.25, abs=1e-5)
    assert top == pytest.approx(1.0, abs=1e-6)
    assert second_step.smallest_hinge(features, y, np.array([0.5, 0.5])) == pytest.approx(0.0, abs=1e-9)
    same = np.array([[1.0], [1.0]])
    assert second_step.smallest_hinge(same, y, np.array([0.25, 0.75])) == pytest.approx(0.5, abs=1e-9)


def test_eps_e_and_sizes():
    assert first_step.eps_e(100, 5, 300, 0.5) == pytest.approx(12.83, abs=0.005)
    D, k = first_step.smallest_biting_size(None, 300, 0.125)
    assert k >= math.log(D * 300 / 0.1) ** 2 - 1e-9
    assert first_step.eps_e(D, k, 300, 0.5) <= 0.125 < first_step.eps_e(D / 1.05, k, 300, 0.5)
