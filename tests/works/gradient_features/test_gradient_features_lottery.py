"""Lottery tickets: smoke preset, the support of a~, sub-networks, settings that are refused."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from featlearn import works
from featlearn.core import Key, SettingError
from featlearn.lab.execute import run
from featlearn.lab.store import Store
from featlearn.learn import Stage, fit
from featlearn.learn.framework import forgetful_step
from featlearn.nets import symmetric_init
from featlearn.tasks import GaussianMixture
from featlearn.works.gradient_features.experiments import lottery
from featlearn.works.gradient_features.rows_lottery import FULL, RANDOM, SUBNETWORKS, TICKET, Total


def test_smoke(tmp_path):
    experiment = works.load_experiment("gradient_features/lottery")
    assert {"smoke", "small", "paper"} <= set(experiment.presets)
    report = run(experiment, experiment.presets["smoke"], store=Store(tmp_path), preset="smoke")
    assert report.failed == 0, report.errors
    totals = report.table.where(kind="total").rows
    assert {r["row"] for r in totals} >= {FULL, *SUBNETWORKS}
    assert all(0 < r["share"] <= 25 for r in totals if r["row"] == TICKET)
    assert report.summary
    assert all(np.isfinite(r.value) for r in report.summary)
    assert len(experiment.draw(report.table)) == 3
    for preset in experiment.presets.values():
        assert all(experiment.cost(c).seconds > 0 for c in experiment.trials(preset))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_merged_bumps_are_the_parity(k):
    """With the breakpoint 1/2 (B_eps) put back to 0 the comparison network is the parity on every sign vector."""
    parts = lottery.parity_comparison(k, torch.ones(k) / k**0.5)
    phi = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=k)))
    score = torch.zeros(len(phi))
    for part in parts:
        for at, second in zip(part.breaks, part.second, strict=True):
            exact = 0.0 if at < 0.9 / k**0.5 else at
            score += second * torch.relu(phi @ part.direction - exact)
    torch.testing.assert_close(score, phi.prod(1), atol=1e-4, rtol=0)


def after_step_one(m=150, d=40, eta=0.15):
    task = GaussianMixture.xor(d)
    truth = task.draw(Key("t"))
    batch = task.sample(truth, 8000, Key("t/data"))
    start = symmetric_init(m, d, Key("t/net"), sigma_w=1 / d**0.5, sigma_a=1.0, bias=1.0)
    return truth, start, forgetful_step(start, batch.x, batch.y, eta)


def test_ticket_is_made_of_nice_neurons_whose_length_fits():
    truth, start, one = after_step_one()
    at, gamma, least = 3.0, 0.2, 0.4 * 40**0.5 / 4
    parts = [lottery.Comparison(D, (at,), (y,)) for D, y in zip(truth.features, truth.labels.tolist(), strict=True)]
    support, second = lottery.ticket(start, one, parts, 0.15, gamma, least)
    assert not support[:, 150:].any()
    cos = (one.w[0] @ truth.features.T) / one.w[0].norm(dim=1, keepdim=True)
    for j, chosen in enumerate(support):
        nice = (cos[:, j] > 1 - gamma) & (one.w[0].norm(dim=1) >= 0.15 * start.a[0].abs() * least)
        nice[150:] = False
        count = int(np.ceil(np.sqrt(2 * int(nice.sum()))))
        assert chosen.sum() == min(count, int(nice.sum())) > 0
        assert bool(nice[chosen].all())
        off = (one.w[0].norm(dim=1) * at - 1).abs()
        if (nice & ~chosen).any():
            assert off[chosen].max() <= off[nice & ~chosen].min()
        assert float(second[chosen].sum()) == pytest.approx(float(truth.labels[j]) * at, rel=1e-5)
    assert torch.equal(second != 0, support.any(0))


def test_silenced_neurons_stay_dead_and_the_others_learn():
    truth, _, one = after_step_one(m=20)
    off = torch.zeros(80, dtype=torch.bool)
    off[:30] = True
    batch = GaussianMixture.xor(40).sample(truth, 500, Key("more"))
    stages = [Stage(5, 0.1, 0.0, 0.1, batch=50)]
    dead = fit(lottery.silenced(one, off), batch.x, batch.y, stages, Key("b")).net
    rest = fit(lottery.only(one, (~off).nonzero()[:, 0]), batch.x, batch.y, stages, Key("b")).net
    torch.testing.assert_close(dead(batch.x), rest(batch.x), atol=1e-4, rtol=1e-4)
    assert not dead.w[0, off].any()
    assert not torch.allclose(rest.w, lottery.only(one, (~off).nonzero()[:, 0]).w, atol=1e-3)


def test_arrival_is_for_good():
    steps = (0, 1, 2, 4)
    assert lottery.arrival(steps, (50.0, 0.5, 9.0, 0.9)) == 4.0
    assert lottery.arrival(steps, (50.0, 1.0, 0.5, 0.9)) == 1.0
    assert lottery.arrival(steps, (0.0, 0.0, 0.0, 0.0)) == 0.0
    assert lottery.arrival(steps, (0.0, 0.0, 0.0, 2.0)) is None


def test_more_draws_leave_everything_else_alone():
    config = replace(lottery.EXPERIMENT.presets["smoke"], k=(3,), seeds=(0,))
    [trial, _] = lottery.trials(config)
    found = [
        {r.row: r for r in lottery.run_trial(replace(trial, draws=draws)).rows if isinstance(r, Total)}
        for draws in (1, 3)
    ]
    for row in found[0]:
        same = found[0][row].end_loss == pytest.approx(found[1][row].end_loss, abs=1e-5)
        assert same == (row != RANDOM), row


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: lottery.Config(sigma=()), "sigma"),
        (lambda: lottery.Config(sigma=(3.0,)), "sigma"),
        (lambda: lottery.Config(k=(4,)), "k"),
        (lambda: lottery.Config(k=(51,)), "r * k"),
        (lambda: lottery.Config(m=0), "m"),
        (lambda: lottery.Config(eta=0.0), "eta"),
        (lambda: lottery.Config(seeds=(1, 1)), "seeds"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert error.value.field == field
    assert "\n" not in str(error.value)
