"""Theorem 1 and the example of section 2.1: planted rows, the choice of step sizes, and the experiment itself."""

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.table import Table
from featlearn.works.resnet.claims.rates import CLAIMS
from featlearn.works.resnet.experiments import scaling
from featlearn.works.resnet.rows import Arrival, Risk, arrivals

THEOREM, EXAMPLE = CLAIMS


def risks(power, scale=0.5):
    """Mean risks 2 scale alpha^power, 3 % apart between seeds, beside a first layer that learns F alone."""
    return Table.of(
        Risk,
        [
            Risk(network=network, alpha=a, d=10, steps=100, seed=s, average=value * (1 + 0.03 * (s - 2)), final=0.0)
            for a in (0.42, 0.5, 0.6, 0.7)
            for s in range(5)
            for network, value in (("residual bottleneck", 2 * scale * a**power), ("two layers", 2.2 * a**2))
        ],
    )


def outcomes(claim, table):
    return [f.outcome for f in verdict_of(claim, Key("verify"), (table,)).findings]


def test_risk_that_falls_as_alpha_to_the_fourth_agrees_and_as_its_square_does_not():
    assert outcomes(THEOREM, risks(4)) == ["confirmed", "confirmed"]
    assert blind(THEOREM, Key("verify"), (risks(4),)) == []
    assert apart(THEOREM, Key("verify"), (risks(4),)) == []
    assert outcomes(THEOREM, risks(2, scale=1.0)) == ["contradicted", "contradicted"]
    assert outcomes(THEOREM, risks(2, scale=0.2)) == ["contradicted", "confirmed"]


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


def test_samples_that_grow_as_d_agree_and_as_its_square_do_not():
    assert outcomes(EXAMPLE, found(1)) == ["confirmed"]
    assert blind(EXAMPLE, Key("verify"), (found(1),)) == []
    assert outcomes(EXAMPLE, found(2)) == ["contradicted"]


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
    assert first.steps == 239  # 40 / 0.8^8 = 238.4
    late = [r.samples for r in rows if isinstance(r, Arrival) and r.samples is not None]
    assert all(n <= 20 * 8 for n in late)


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"alphas": (0.5, 1.0)}, "alphas"), ({"dims": (40, 20)}, "dims"), ({"seeds": (1000,)}, "seeds"), ({"m": 0}, "m")],
)
def test_impossible_settings_are_refused(settings, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        scaling.Config(**settings)
