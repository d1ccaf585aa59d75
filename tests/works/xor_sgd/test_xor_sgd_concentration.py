"""Claims on what phase 1 of the XOR work rests on: balanced layers, concentration, envelopes."""

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.xor_sgd.claims import concentration

BY_NAME = {c.id.removeprefix("xor_sgd."): c for c in concentration.CLAIMS}


def test_one_coordinate_is_as_far_from_a_gaussian_as_half_a_jump():
    """F of a single sign jumps by 1/2 at -1, where Phi is 0.1587."""
    assert concentration.kolmogorov(np.eye(4)[0]) == pytest.approx(0.5 - 0.158655, abs=1e-6)
    even = np.full(4, 0.5)  # sums -2, -1, 0, 1, 2 with weights 1, 4, 6, 4, 1: the jump at 0 is the largest
    assert concentration.kolmogorov(even) == pytest.approx(3 / 16, abs=1e-12)


def test_each_control_breaks_its_statement():
    """One sample, another start and a frozen layer violate what the lemma says of the network as it is."""
    claim = BY_NAME["homogeneity_B13"]
    key = Key("verify") / claim.id
    nets = claim.settings(key / "settings")
    seen = claim.observe(nets, key / "observe")
    for s in claim.statements(nets):
        assert not s.inside(np.ravel(seen[s.rival.name]), np.asarray(s.value)).all(), s.name


def test_the_gradient_on_one_wrong_sample_along_a_neuron():
    """Where the network is wrong by far, |l'| is 2: 2 |a| ||x|| in the first layer and 2 ||w||_1 in the second."""
    claim = BY_NAME["homogeneity_B13"]
    nets = claim.settings(Key("one sample"))
    seen = claim.observe(nets, Key("one sample"))
    wrong = nets[-1]
    own = slice(-len(wrong.a), None)
    of_w = seen[f"||grad_w||, {concentration.ALONE}"][own]
    of_a = seen[f"|grad_a|, {concentration.ALONE}"][own]
    np.testing.assert_allclose(of_w, 2 * np.abs(wrong.a) * np.sqrt(8), rtol=1e-3)
    np.testing.assert_allclose(of_a, 2 * np.abs(wrong.w).sum(1), rtol=1e-3, atol=2e-3)


def test_training_that_moves_the_first_layer_too_far_contradicts_the_envelope(monkeypatch):
    honest = concentration.mean_field_rates
    monkeypatch.setattr(concentration, "mean_field_rates", lambda eta, p: honest(1.3 * eta, p))
    assert verdict_of(BY_NAME["control_params"], Key("verify")).reported == "contradicted"
