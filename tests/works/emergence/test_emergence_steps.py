"""Exact population quantities against enumeration, and the programs over a second layer by hand."""

import numpy as np
import pytest

from featlearn.works.emergence import setup
from featlearn.works.emergence.claims import first_step, second_layer


@pytest.mark.parametrize("p_o", [0.5, 0.25])
@pytest.mark.parametrize("noise", [0.3, 0.05])
def test_population_terms_equal_enumeration(p_o, noise):
    family = setup.parity_mix(9, 3, p_o)
    rng = np.random.default_rng(3)
    q, b = rng.normal(0, 1.0, (5, 9)), rng.normal(0, 0.5, 5)
    terms = setup.population_terms(family, q, b, noise)
    phi, y, prob = family.support()
    z = phi @ q.T + b
    weight = (prob * y)[:, None] * setup.gate(z, noise)
    np.testing.assert_allclose(terms.T, weight.T @ phi, atol=2e-14)
    np.testing.assert_allclose(terms.T_b, weight.sum(0), atol=2e-14)
    np.testing.assert_allclose(terms.T_a, (prob * y) @ setup.smooth_clip(z, noise), atol=2e-14)
    rest = prob @ setup.gate(phi[:, 3:] @ q[:, 3:].T + b, noise)
    np.testing.assert_allclose(setup.background_gate(family, q, b, noise), rest, atol=2e-14)


def test_tiny_weights_keep_relative_accuracy():
    """After a first step background terms are of order 1e-22; cancellation would leave 1e-17."""
    family = setup.parity_mix(30, 3, 0.5)
    rng = np.random.default_rng(4)
    q, b, noise = 1e-10 * rng.normal(size=(4, 30)), rng.normal(0, 0.1, 4), 0.2
    terms = setup.population_terms(family, q, b, noise)
    pull = float(family.gamma[0]) * q[:, :3].sum(1) / family.scale
    law = setup.gate_second_derivative(b, noise)[:, None] * family.sphi2 * q[:, 3:] * pull[:, None]
    np.testing.assert_allclose(terms.T[:, 3:], law, rtol=1e-5)
    assert np.abs(law).max() < 1e-20


def test_derivatives_of_the_gate():
    z, s, h = np.linspace(-0.5, 1.5, 9), 0.2, 1e-5
    slope = (setup.gate(z + h, s) - setup.gate(z - h, s)) / (2 * h)
    bend = (setup.gate_derivative(z + h, s) - setup.gate_derivative(z - h, s)) / (2 * h)
    area = (setup.smooth_clip(z + h, s) - setup.smooth_clip(z - h, s)) / (2 * h)
    np.testing.assert_allclose(setup.gate_derivative(z, s), slope, atol=1e-8)
    np.testing.assert_allclose(setup.gate_second_derivative(z, s), bend, atol=1e-7)
    np.testing.assert_allclose(setup.gate(z, s), area, atol=1e-8)
    family = setup.parity_mix(8, 3, 0.3)
    q, b = np.random.default_rng(5).normal(size=(3, 8)), np.array([0.0, 0.2, -0.4])
    up, down = (setup.background_gate(family, q, b + e, s) for e in (h, -h))
    np.testing.assert_allclose(setup.background_gate(family, q, b, s, order=1), (up - down) / (2 * h), atol=1e-8)


def test_unbalanced_components_are_refused():
    family = setup.fair(6, 2, (2,))
    with pytest.raises(ValueError, match="must be 0"):
        setup.population_terms(family, np.zeros((1, 6)), np.zeros(1), 0.1)


def test_error_rate_of_the_sigmas():
    assert setup.sigmas(0.05, 1) == pytest.approx(1.959964, abs=1e-5)
    assert setup.sigmas(1e-6, 100) == pytest.approx(5.73, abs=0.01)


def test_least_norms_and_smallest_hinge():
    """Two rows and two neurons, solved by hand: the least layer is a = (1, -1/2)."""
    features, y = np.array([[1.0, 0.0], [1.0, 4.0]]), np.array([1.0, -1.0])
    a, square, top = second_layer.least_norms(features, y)
    np.testing.assert_allclose(a, [1.0, -0.5], atol=1e-6)
    assert square == pytest.approx(1.25, abs=1e-5)
    assert top == pytest.approx(1.0, abs=1e-6)
    assert second_layer.smallest_hinge(features, y, np.array([0.5, 0.5])) == pytest.approx(0.0, abs=1e-9)
    same = np.array([[1.0], [1.0]])
    assert second_layer.smallest_hinge(same, y, np.array([0.25, 0.75])) == pytest.approx(0.5, abs=1e-9)


def test_eps_e_at_the_size_of_table_1():
    assert first_step.eps_e(100, 5, 300, 0.5) == pytest.approx(12.83, abs=0.005)
