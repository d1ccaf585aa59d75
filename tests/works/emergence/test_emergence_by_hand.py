"""Statements of the emergence work and what they are computed with, at inputs whose answer is known by hand.

Bounds that nothing comes near, wrong answers far away and sizes of steps are seen by no verdict, so they are here.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from featlearn.core import Key
from featlearn.lab.table import Table
from featlearn.nets import TwoLayer
from featlearn.works.emergence import setup
from featlearn.works.emergence.claims import (
    definitions,
    existence,
    first_step,
    general,
    general_network,
    general_second,
    general_steps,
    initialisation,
    lower_bounds,
    main_theorem,
    optimisation,
    other_laws,
    second_step,
    simulated_figures,
)


def by_name(statements):
    return {s.name: s for s in statements}


# --- definitions -----------------------------------------------------------------------------------------------------


def test_bands_and_rivals_of_the_family():
    """A share of 100,000 is known to 4.8916 standard errors of 0.5/sqrt(100,000); of four coins 5 in 16 have a majority
    of ones, of six 22 in 64."""
    told = by_name(definitions.data_statements(definitions.draw_data(Key("hand"))))
    assert told["Pr[y = +1]"].margin == pytest.approx(4.8916 * 0.5 / math.sqrt(100_000), rel=1e-4)
    ties = [5 / 16, 22 / 64, 93 / 256, 386 / 1024]
    np.testing.assert_allclose(told["Pr[y = +1] of Example 1, odd k"].rival, ties, rtol=1e-12)
    assert told["E||x||^2"].rival == pytest.approx(120 / 100)


def test_covariance_of_label_and_bit_where_classes_are_unbalanced():
    """E y = -0.6, E phit = 0.2 x 3/4 + 0.8 x 1/4 = 0.35 and E[y phit] = 0.15 - 0.2."""
    told = by_name(general.definition_statements(general.draw_dictionary(Key("hand"))))
    assert told["gamma, unbalanced"].rival == pytest.approx(-0.05 + 0.6 * 0.35)


def test_interval_moments_of_three_coins():
    """y = +1 iff one of three: Pr 3/8, E[y count] = 3/8 - 2 x 3/8 - 3/8, and gamma = E[y count]/3 - E y / 2."""
    plus, gamma = other_laws.interval_moments(3, 1, 1, other_laws.COINS[1])
    assert (plus, gamma) == (3 / 8, -0.75 / 3 + 0.25 / 2)


def test_labels_of_the_next_count():
    """Parity of three patterns: counts 0 to 3 have -1, 1, -1, 1, the next ones 1, -1, 1 and, beyond P, -1."""
    told = by_name(existence.existence_statements((existence.Member(3, (1, 3), 1.5),)))["g*(x)"]
    np.testing.assert_array_equal(told.value[:: existence.REPEATS], [-1, 1, -1, 1])
    np.testing.assert_array_equal(told.rival[:: existence.REPEATS], [1, -1, 1, -1])


# --- starts ----------------------------------------------------------------------------------------------------------


def poisson_tails(d):
    """(Pr[chi2_d < d/2], Pr[chi2_d > 3d/2]) for an even d: a sum of exponentials is a time of a Poisson process."""

    def poisson(mean, counts):
        return sum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in counts)

    return poisson(d / 4, range(d // 2, 2 * d)), poisson(3 * d / 4, range(d // 2))


def test_tails_of_norms():
    seen = general_network.start_observe(general_network.draw_columns(Key("hand")), Key("hand"))
    told = by_name(general_network.start_statements(general_network.draw_columns(Key("hand"))))
    name = "log Pr[||w||^2 outside (1/2, 3/2) sigma_w^2 d]"
    law = [math.log(sum(poisson_tails(d))) for d in (50, 100, 200, 400)]
    np.testing.assert_allclose(seen[name], law, rtol=1e-6)
    np.testing.assert_allclose(told[name].value, [math.log(2) - 0.0472674 * d for d in (50, 100, 200, 400)], atol=1e-4)


def test_tails_of_95_squares():
    """By the density of a chi-square variable."""
    log = 47.5 * math.log(2) + math.lgamma(47.5)

    def density(t):
        return math.exp(46.5 * math.log(t) - t / 2 - log)

    lower, upper = quad(density, 1e-9, 47.5)[0], quad(density, 142.5, 400)[0]
    told = by_name(initialisation.start_statements(None))["share of neurons of atypical background energy"]
    assert told.value == pytest.approx(lower + upper, rel=1e-6)
    assert told.rival == pytest.approx(2 * upper, rel=1e-6)


def test_the_bound_of_a_block():
    """Four fair bits of weight 1, noise 1: V = 2, sum E|phi q|^3 = 4/8 and E|nu|^3 = 2 sqrt(2/pi)."""
    at = initialisation.projection(0.5, np.ones(4), 1.0)
    [bound, _] = initialisation.block_statements((initialisation.Block(at, 1.0, 2.0, 1.0),))
    assert bound.value[0] == pytest.approx(2 / math.sqrt(4 * math.pi) + 1.12 * (1.595769 + 0.5) / 2**1.5, rel=1e-6)


def test_ten_fair_bits_moved_by_one_bit():
    """The likeliest number of ones has 252 of 1024."""
    at = initialisation.projection(0.5, np.full(10, 0.3), 1.0)
    seen = initialisation.block_observe((initialisation.Block(at, 0.0, 0.225, 0.3),), Key("hand"))
    assert seen["largest change of a tail probability over thresholds"][0] == pytest.approx(252 / 1024)


# --- steps -----------------------------------------------------------------------------------------------------------


def test_bounds_of_the_first_step_at_the_size_of_table_1():
    """eps_e = 12.83, st = 5, sphi2 = 1/100, constant 3."""
    told = [s.value for s in first_step.bounds_statements(None)]
    np.testing.assert_allclose(told, [3 * 12.83 / 5, 3 * 0.01 * 12.83 * 5, 3 * 12.83], rtol=1e-3)


def test_rivals_of_the_rates_are_the_powers_of_d_that_they_say():
    told = first_step.rates_statements(None)
    assert {s.rival for s in told if s.rival_says.startswith("1/D")} == {-1.0}
    assert {s.rival for s in told if s.rival_says == "an error that stays"} == {0.0}


def test_components_that_are_unbalanced_one_by_one_are_refused():
    """E y is 0, but 1 in a component and -1 in the other; or 0 in one alone."""
    block, y = setup.bits(1), np.array([-1.0, 1.0])
    for chance in (((0.0, 0.5), (0.5, 0.0)), ((0.25, 0.25), (0.0, 0.5))):
        family = setup.Family(3, block, y, np.array(chance), np.array([0.5, 0.5]))
        with pytest.raises(ValueError, match="must be 0"):
            setup.population_terms(family, np.zeros((1, 3)), np.zeros(1), 0.1)


def test_each_stage_of_the_neuron_maps_is_one_step(monkeypatch):
    stages = []

    def noted(net, x, y, given, key):
        stages.extend(given)
        return SimpleNamespace(net=net)

    monkeypatch.setattr(second_step, "fit", noted)
    second_step.directions_observe(second_step.draw_start(Key("hand")), Key("hand"))
    assert [s.steps for s in stages] == [1, 1, 1, 1]


def test_two_steps_of_one_neuron():
    """x = y = 1. Step 1 at z = 0.3, score 0.3: w = 0.1, b = 0.2, a = 1.03; step 2 at z = 0.3, score 0.309."""
    one = torch.ones(1, dtype=torch.float64)
    start = TwoLayer(*(torch.tensor(v, dtype=torch.float64) for v in ([[[0.2]]], [[0.1]], [[1.0]])))
    found = main_theorem.two_sampled_steps(one[:, None], one, one, start, 0.1, 0.0)
    np.testing.assert_allclose([float(v) for v in (found.w, found.b, found.a)], [1.03, 1.23, 0.3])


def test_the_start_and_first_step_of_theorem_34(monkeypatch):
    """st^2 = 5 x 0.35 x 0.65 + 35/4 + 60 x 0.02^2 = 9.9115; sigma_a = st^2 / (k^2/4), eta_1 = st / 80 / (k m^3)."""
    seen = []

    class Enough(Exception):
        pass

    def noted(x, y, weights, start, eta, noise):
        seen.append((weights[y > 0].mean(), weights[y < 0].mean(), start.a.square().mean() ** 0.5, eta, noise))
        raise Enough

    monkeypatch.setattr(main_theorem, "two_sampled_steps", noted)
    with pytest.raises(Enough):
        main_theorem.general_steps(Key("hand"), 0.8, True)
    [(plus, minus, spread, eta, noise)] = seen
    assert (plus, minus, noise) == pytest.approx((2.5, 0.625, 5**-1.5))
    assert spread == pytest.approx(9.9115 / 6.25, rel=0.3)
    assert eta == pytest.approx(math.sqrt(9.9115) / 80 / (5 * 60**3), rel=1e-4)


def test_the_margin_of_the_second_gradient_is_a_ten_thousandth_of_it():
    told = by_name(second_step.second_statements(second_step.draw_second(Key("hand"))))["T_j of step 2, j in A"]
    np.testing.assert_allclose(told.margin / told.value, 1e-4)


def test_the_bounds_of_the_second_step_in_the_general_setting():
    """80 neurons: sqrt(2 log 800) = 3.65639; st^2 = 3 x 0.35 x 0.65 + 7/4 + 14 x 0.02^2."""
    told = by_name(general_second.second_statements(general_second.draw_wide(Key("hand"))))
    assert told["largest ||w^(2)||"].value == pytest.approx(3.65639 * math.sqrt(2.4381) / 3**1.5, rel=1e-4)
    assert told["largest |b^(2)|"].value == pytest.approx(3.65639 / 9, rel=1e-4)
    assert told["largest |a^(2)|"].value == pytest.approx(1 / (3 * 40**2))


def test_a_first_step_beyond_its_condition_closes_hinges():
    seen = general_second.second_observe(general_second.draw_wide(Key("hand")), Key("hand"))
    assert seen["share of inputs with y g^(1) < 1"] == 1
    assert seen["the same at a thousand times the largest step of the lemma"] < 0.9


def test_the_start_of_the_leading_orders_has_the_error_that_is_said():
    start = general_steps.draw_start(Key("hand"), general_steps.NARROW)
    sigma_w = float(np.sqrt((start.w**2).mean()))
    assert general_steps.eps_e(start.law, sigma_w, start.noise) == pytest.approx(1e-4, rel=0.3)


def test_a_failure_rate_falls_by_a_hundredth_a_pattern():
    """From k = 9 to 65."""
    told = by_name(general_network.existence_statements(None))
    assert told["fall of the log of the least failure rate, k = 9 to 65, as reported"].value == pytest.approx(0.56)


# --- the last stage --------------------------------------------------------------------------------------------------


def test_the_gap_of_sixteen_equal_neurons():
    """Each moves by 0.05 and counts 1/2; the norm of sixteen halves is 2."""
    same, moved = (
        TwoLayer(
            torch.tensor([[[w, 0.1]] * 16]).double(), torch.full((1, 16), 0.1).double(), torch.ones(1, 16).double()
        )
        for w in (0.3, 0.35)
    )
    found = optimisation._gap(np.full(16, 0.5), same, moved, np.array([[1.0, 0.0]]))
    assert {n: float(v[0]) for n, v in found.items()} == pytest.approx(
        {"gap": 16 * 0.05 / 2, "norm": 2.0, "used": 16.0, "shift": 0.05}, rel=1e-6
    )


def test_losses_that_need_a_part_of_the_bound_each():
    """Slopes 1, 1, 1, 1 with step 0.1 pass 0, -0.1, -0.2, -0.3, against -0.4; 5 against 0; 0 and 0.5 against 0."""
    last = optimisation.descent_settings(Key("hand"))[-3:]
    found = optimisation.descent_observe(last, Key("hand"))["regret"]
    np.testing.assert_allclose(found.value, [-0.15 + 0.4, 5.0, 0.25], atol=1e-12)
    assert {n: tuple(np.round(v, 12)) for n, v in found.covariates.items()} == {
        "star": (0.4, 0.0, 0.0),
        "start": (0.0, 5.0, 0.0),
        "eta": (0.1, 0.01, 0.5),
        "T": (4.0, 1.0, 2.0),
        "size": (1.0, 1.0, 1.0),
        "square": (1.0, 1.0, 1.0),
    }


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_rivals_of_the_lower_bounds():
    """At B = 1/4, 1/2 and 0.9; the eigenvalue of three of twelve is (1/4)^3 (3/4)^9."""
    told = by_name(lower_bounds.uniform_statements(lower_bounds.uniform_settings(Key("hand"))))
    found = told["hinge loss with all parities as features"].rival
    np.testing.assert_allclose(found, [0.823223, 0.646447, 0.363604], atol=1e-6)
    told = by_name(lower_bounds.kernel_statements(lower_bounds.small_parity(Key("hand"))))
    found = told["hinge loss of f_A written with all 2^D inputs as centres"].rival
    assert found == pytest.approx(1 - 4**3 * (4 / 3) ** 9 / 64 / math.sqrt(220))


# --- rows ------------------------------------------------------------------------------------------------------------


def test_the_largest_cosine_comes_nearer_to_1():
    """From 0.8 to 0.9: half as far."""
    table = simulated_figures.TABLES[1]
    kind = table.rows.gathered
    cosines = {"init": 0.1, "step 1": 0.8, "step 2": 0.9}
    made = [kind(setting="", snapshot=n, seed=s, share=0.0, cos=c) for n, c in cosines.items() for s in range(2)]
    curve = Table.of(
        table.rows.curve, [table.rows.curve(setting="", structure=True, row="RF", step=0, seed=0, acc=50.0)]
    )
    seen = simulated_figures.sees_gathering(table, None, Table.of(kind, made), curve)
    np.testing.assert_allclose(seen[simulated_figures.BETTER], [0.5, 0.5])
