"""Theorem 1 and the example of section 2.1: planted rows, the choice of step sizes, and the experiment itself."""

import dataclasses

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.errors import EmptyArm
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.table import Table
from featlearn.works.resnet.claims.rates import CLAIMS
from featlearn.works.resnet.experiments import scaling
from featlearn.works.resnet.rows import Arrival, Risk, arrivals

THEOREM, EXAMPLE = CLAIMS


def risks(power, scale=0.5, alone=2.0):
    """Mean risks 6 scale alpha^power, 2 or 3 % apart between seeds, beside a first layer at 6.6 alpha^alone."""
    return Table.of(
        Risk,
        [
            risk(network=network, alpha=a, role=role, seed=s, average=value * (1 + spread * (s % 5 - 2)))
            for a in (0.42, 0.46, 0.5, 0.55)
            for role, first in (("reported", 0), ("validation", 1000))
            for s in range(first, first + 5)
            for network, value, spread in (
                ("residual bottleneck", 6 * scale * a**power, 0.03),
                ("two layers", 6.6 * a**alone, -0.02),
            )
        ],
    )


def risk(*, alpha, average, constant=1.6, network="residual bottleneck", role="reported", seed=0):
    return Risk(
        network=network,
        alpha=alpha,
        left=6 * alpha**2,
        constant=constant,
        steps=100,
        role=role,
        seed=seed,
        average=average,
        final=None if average is None else 0.0,
    )


def outcomes(claim, table):
    return [f.outcome for f in verdict_of(claim, Key("verify"), (table,)).findings]


def test_risk_that_falls_as_alpha_to_the_fourth_agrees_and_as_its_square_does_not():
    assert outcomes(THEOREM, risks(4.3)) == ["confirmed"] * 3
    assert blind(THEOREM, Key("verify"), (risks(4.3, alone=1.8),)) == []
    assert apart(THEOREM, Key("verify"), (risks(4.3),)) == []
    assert outcomes(THEOREM, risks(3.7)) == ["contradicted", "confirmed", "confirmed"]
    assert outcomes(THEOREM, risks(2, scale=1.0)) == ["contradicted"] * 3
    assert outcomes(THEOREM, risks(2, scale=0.2)) == ["contradicted", "confirmed", "confirmed"]


def test_a_first_layer_that_falls_as_fast_leaves_the_theorem_too_weak_to_test():
    assert outcomes(THEOREM, risks(4.3, alone=5.0)) == ["too weak to test"] * 2 + ["contradicted"]


def test_a_first_layer_that_is_as_good_contradicts_the_ratio():
    assert outcomes(THEOREM, risks(4.3, scale=1.0, alone=4.1))[2] == "contradicted"


def test_validation_seeds_choose_the_constant_of_each_network_and_a_run_that_diverged_is_out():
    rows = [
        risk(alpha=a, constant=c, role=role, seed=seed, average=average)
        for a, c, role, seed, average in (
            (0.4, 1.6, "validation", 1000, 0.5),
            (0.5, 1.6, "validation", 1000, 0.5),
            (0.4, 3.2, "validation", 1000, 0.4),
            (0.5, 3.2, "validation", 1000, 0.7),  # 0.417 + 0.467 against 0.521 + 0.333 with 1.6: 1.6 it is
            (0.4, 6.4, "validation", 1000, 0.1),
            (0.5, 6.4, "validation", 1000, None),
            (0.4, 1.6, "reported", 0, 0.9),
            (0.4, 3.2, "reported", 0, 0.2),
            (0.4, 6.4, "reported", 0, 0.1),
        )
    ]
    chosen = scaling.risks(Table.of(Risk, rows))["residual bottleneck"]
    assert [(r.constant, r.average) for r in chosen.rows] == [(1.6, 0.9)]
    with pytest.raises(EmptyArm):
        scaling.risks(Table.of(Risk, [r for r in rows if r.constant == 6.4]))


def test_the_target_is_linear_signals_and_a_product_of_four():
    task = scaling.target(0.5)
    batch = task.sample(task.draw(Key("t")), 64, Key("x"))
    assert torch.allclose(batch.hidden.abs(), torch.ones(64, 6))
    assert torch.allclose(batch.y, batch.hidden + 0.5 * batch.hidden[:, :4].prod(1)[:, None])
    assert torch.allclose(batch.x.square().sum(1), torch.ones(64))


def found(power, best=0.2):
    """Samples 20 (d/20)^power at the best step size and three times as many at the other, a little apart by seed."""
    return Table.of(
        Arrival,
        [
            Arrival(d=d, rate=rate, role=role, seed=s, samples=20 * (d / 20) ** power * slow * (1 + 0.02 * (s % 3)))
            for d in (20, 40, 80, 160)
            for rate, slow in ((best, 1.0), (3 * best, 3.0))
            for role, first in (("reported", 0), ("validation", 1000))
            for s in range(first, first + 5)
        ],
    )


def test_samples_that_grow_as_d_agree_and_as_its_square_or_root_do_not():
    assert outcomes(EXAMPLE, found(1)) == ["confirmed"]
    assert blind(EXAMPLE, Key("verify"), (found(1),)) == []
    assert outcomes(EXAMPLE, found(2)) == ["contradicted"]
    assert outcomes(EXAMPLE, found(0.5)) == ["contradicted"]


def test_a_seed_that_does_not_arrive_is_not_left_out():
    rows = [dataclasses.replace(r, samples=None) if r.seed == 3 and r.d == 80 else r for r in found(1).rows]
    with pytest.raises(EmptyArm, match="d = 80"):
        EXAMPLE.observe(None, Table.of(Arrival, rows))


def test_validation_seeds_choose_and_reported_seeds_count():
    rows = [
        Arrival(d=20, rate=rate, role=role, seed=seed, samples=samples)
        for rate, role, seed, samples in (
            (0.1, "validation", 1000, 50.0),
            (0.1, "validation", 1001, None),
            (0.2, "validation", 1000, 60.0),
            (0.2, "validation", 1001, 60.0),
            (0.1, "reported", 0, 10.0),
            (0.2, "reported", 0, 70.0),
        )
    ]
    # 0.1: (50 + 2 * 70) / 2 = 95 against 60
    assert arrivals(Table.of(Arrival, rows)) == [(20, 70.0)]


def test_the_gaussian_target_by_hand():
    w = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    y = scaling.gaussian_target(w, torch.tensor([[1.0, 3.0]]), 0.5)  # F = (2, 3)
    assert y.tolist() == [[2 + 0.5 * 6, 3 + 0.5 * (4 - 9) / 2]]


def test_smoke():
    trials = scaling.EXPERIMENT.trials(scaling.EXPERIMENT.presets["smoke"])
    rows = [row for trial in trials for row in scaling.EXPERIMENT.run_trial(trial).rows]
    first = next(r for r in rows if isinstance(r, Risk))
    assert first.steps == 477  # 80 / 0.8^8 = 476.8
    assert first.left == pytest.approx(6 * 0.8**2)
    late = [r.samples for r in rows if isinstance(r, Arrival) and r.samples is not None]
    assert all(n <= 20 * 8 for n in late)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"alphas": (0.5, 1.0)}, "alphas"),
        ({"dims": (40, 20)}, "dims"),
        ({"seeds": (1000,)}, "seeds"),
        ({"m": 0}, "m"),
        ({"constants": (2.0, 1.0)}, "constants"),
    ],
)
def test_impossible_settings_are_refused(settings, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        scaling.Config(**settings)
