"""Gradient features: every claim has its expected verdict, and a wrong formula or measure changes it."""

import itertools

import numpy as np
import pytest
import torch

from featlearn import works
from featlearn.core import Key
from featlearn.lab import inventory
from featlearn.lab.pending import verify
from featlearn.works import load_claims
from featlearn.works.gradient_features import setup
from featlearn.works.gradient_features.claims import (
    bounds,
    dynamics,
    framework,
    linear,
    mixtures,
    multi_index,
    parities,
    uniform_parity,
    xor_mixture,
)

CLAIMS = load_claims("gradient_features")

BY_NAME = {claim.id.removeprefix("gradient_features."): claim for claim in CLAIMS}
EXACT = [name for name, claim in BY_NAME.items() if claim.check.__qualname__ != "reads.<locals>.check"]
"""Claims that need no rows; the others are tested on planted rows."""
REFUTED = {
    "lemma_b78": 1,
    "lemma3_17_reported": 1,
    "lemma_b37_gamma": 1,
    "definition_parity_mean": 1,
    "lemma3_21_sign": 2,
    "theorem3_22": 1,
    "theorem_b65": 1,
}
"""Claims that fail, and how many of their cases do."""
OPEN = {"lemma_b54", "lemma_b68", "theorem_b69"}
"""Claims whose mechanism is checked where the premises are not met."""
NO_CLAIM = {"notation", "skipped"}


def judged(name: str, key: str = "test"):
    return verify(BY_NAME[name], Key(key), lambda _: None)


@pytest.mark.parametrize("name", EXACT)
def test_verdict_is_the_expected_one(name):
    verdict = judged(name)
    assert verdict.as_expected, f"{verdict.verdict}: {verdict.why}"
    cases = verdict.evidence.cases
    assert all(case.rival is not None or case.vacuous for case in cases)
    failing = [case.name for case in cases if not case.ok]
    assert len(failing) == REFUTED.get(name, 0), failing
    assert all(case.rival_rejected for case in cases if case.ok)
    if name in REFUTED:  # beside what fails stands what is right, the quotation, and what of the paper it hits
        assert BY_NAME[name].reported
        assert BY_NAME[name].hits
        assert len(failing) < len(cases)


def test_refuted_and_open_claims_are_listed_here():
    assert {n for n in EXACT if BY_NAME[n].expected == "refuted"} == set(REFUTED)
    assert {n for n in EXACT if BY_NAME[n].expected == "assumptions unmet"} == OPEN
    assert {n for n in EXACT if BY_NAME[n].expected == "vacuous"} == {"theorem3_12_xor"}


def test_every_entry_is_covered():
    covered = {entry.removeprefix("gradient_features.") for claim in CLAIMS for entry in claim.entries}
    every = {e.id.removeprefix("gradient_features.") for e in inventory.load("gradient_features").entries}
    assert every - covered <= NO_CLAIM
    assert covered <= every
    assert len(BY_NAME) == len(CLAIMS)
    assert works.load_claims("gradient_features") == CLAIMS


def test_claims_do_not_use_the_global_generator():
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    judged("definition_xor")
    assert torch.equal(torch.random.get_rng_state(), state)


right_gradients, right_g = framework.simplified_gradients, mixtures.gaussian_gradients
right_parity, right_hats, right_own = parities.simplified_gradients, parities.hats, mixtures.own_loss
right_xi, right_first, right_step = uniform_parity.log_xi, uniform_parity.first_gradient, framework.forgetful_step
right_box = mixtures.draw_in_box


def louder(w, b, *rest):
    return right_g(w, b, *rest) * 1.1


WRONG = {
    "assumption3_1": (framework, "loss_facts", lambda kind, unit=1.0: np.array([1, 1.01, 1, 0, 0])),
    "assumption3_1_logistic": (framework, "loss_facts", lambda kind, unit=1.0: np.array([1, 1, 0.51, 0, 0])),
    "method_init": (framework, "forgetful_step", lambda net, x, y, e, **k: right_step(net, x + 0.1, y.roll(1), e, **k)),
    "algorithm1": (framework, "simplified_gradients", lambda w, b, x, y: right_gradients(w, b + 0.2, x, y)),
    "definition3_5": (framework, "simplified_gradients", lambda w, b, x, y: right_gradients(w, b, x, -y)),
    "definition3_7": (framework, "in_cone", lambda v, D, g: right_cone(v.abs(), D, g)),
    "algorithm4": (framework, "smoothness", lambda net, x, loss: right_L(net, x, loss) / 3),
    "theorem3_4": (framework, "average_gap", lambda *a: 3.0),
    "lemma_b8": (dynamics, "recursion", lambda a, z, e, B, n: np.arange(1.0, n + 1) * a),
    "lemma3_13": (dynamics, "nice_neurons", lambda *a: torch.ones(6000, dtype=torch.bool)),
    "lemma_b18": (dynamics, "gaussian_gradients", lambda *a: louder(*a) + 1),
    "theorem3_12": (bounds, "reported_steps", lambda *a: 1.0),
    "lemma_b77": (bounds, "closed", lambda a, z, e, B, n: dynamics.closed(a, z, e, 1.01 * B, n)),
    "lemma_b25": (linear, "simplified_gradients", lambda w, b, x, y: right_gradients(w, -b, x, y)),
    "definition_b29": (mixtures, "log_sure", lambda *a: -1.0),
    "lemma3_17_features": (mixtures, "gaussian_gradients", louder),
    "lemma3_17_network": (mixtures, "own_loss", lambda C, s: right_own(C - 0.4, s)),
    "lemma_b37": (xor_mixture, "xor_sure", lambda d, s, tau=1.0: 0.04),
    "lemma3_21_norm": (parities, "twin_tips", lambda k: (right_tips(k)[0] * 1.01, right_tips(k)[1])),
    "lemma3_21": (parities, "hats", lambda u, k, h=1.0, shift=0: right_hats(u, k, 0.97 * h, shift)),
    "lemma3_21_features": (parities, "simplified_gradients", lambda w, b, x, y: right_parity(w, 0 * b, x, y)),
    "definition_uniform_parity": (setup, "log_xi", lambda d, k: right_xi(d, k) + 0.1),
    "lemma_b63": (uniform_parity, "first_gradient", lambda w, k, d: 2 * right_first(w, k, d)),
    "lemma_b64": (uniform_parity, "hats", lambda u, k, h=1.0, shift=0: right_hats(u, k, 0.97 * h, shift)),
    "lemma_b68": (multi_index, "projection", lambda w, u: 0.5),
}
right_cone, right_L, right_tips = framework.in_cone, framework.smoothness, parities.twin_tips


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_formula_or_measure_does_not_hold(name, monkeypatch):
    module, attribute, wrong = WRONG[name]
    monkeypatch.setattr(module, attribute, wrong)
    assert judged(name).verdict in ("refuted", "not established")


@pytest.mark.parametrize("r, k", [(1, 3), (3, 3)])
def test_bumps_are_the_sum_of_parities(r, k):
    phi = np.array(list(itertools.product((-1.0, 1.0), repeat=r * k))).reshape(-1, r, k)
    got = parities.hats(phi.sum(2) / k**0.5, k).sum(1)
    np.testing.assert_allclose(got, phi.prod(2).sum(1), atol=1e-9)


def test_the_chance_of_the_cone_is_that_of_drawn_starts():
    """d = 1e4, 2e6 starts: about 2e5 of them in the cone, so one standard error is 0.3 %."""
    d, m = 1e4, 2_000_000
    rng = Key("cone").numpy()
    u, v, rest = rng.normal(size=m), rng.normal(size=m), np.sqrt(rng.chisquare(d - 2, size=m))
    level = np.log(np.log(d)) ** 0.5
    g1, g3, g0 = dynamics.xor_components(u, v, rest, np.full(m, level * d**0.5), 1.0, int(d))
    size = np.sqrt(g1**2 + g3**2 + g0**2)
    share = ((np.abs(g1) > (1 - d**-0.5) * size) & (size >= d**0.5 / 8)).mean()
    assert xor_mixture.cone_chance(d, Key("chance"), draws=20_000) == pytest.approx(share, rel=0.05)


def test_xor_components_equal_the_closed_form():
    d, m = 50, 40
    rng = Key("xor").numpy()
    w = rng.normal(size=(m, d))
    means = np.zeros((4, d))
    means[0, 0], means[1, 0], means[2, 1], means[3, 1] = d**0.5 * np.array([1, -1, 1, -1])
    y, p, s = np.array([1.0, 1, -1, -1]), np.full(4, 0.25), np.full(4, 1.3)
    b = np.full(m, 5.0)
    full = right_g(*(torch.as_tensor(v) for v in (w, b, means, y, p, s))).numpy()
    g1, g3, g0 = dynamics.xor_components(w[:, 0], w[:, 1], np.linalg.norm(w[:, 2:], axis=1), b, 1.3, d)
    np.testing.assert_allclose(full[:, 0], g1, atol=1e-10)
    np.testing.assert_allclose(full[:, 1], g3, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(full[:, 2:], axis=1), np.abs(g0), atol=1e-10)
