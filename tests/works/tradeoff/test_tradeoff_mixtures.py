"""Mixtures of tasks: the experiment on hand-made cases, its claims on the committed rows, and on rows that differ."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from mutation import CHECKOUT
from scipy.optimize import minimize

from featlearn.core import Key
from featlearn.errors import SettingError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.find import evidence_state, latest_complete
from featlearn.lab.store import Store, plain_rows
from featlearn.lab.table import Table
from featlearn.works.tradeoff.claims import mixtures
from featlearn.works.tradeoff.experiments.mixtures import EXPERIMENT, ClosedForm, Config, Pretraining, probe_risks
from featlearn.works.tradeoff.rows import CLOSED, TRAINED, TUNED, Learned, Probe

CLAIMS = {c.id.removeprefix("tradeoff."): c for c in mixtures.CLAIMS}
STORE = Store("runs-that-are-not-there", below=[CHECKOUT / "evidence"])


@pytest.fixture(scope="module")
def table():
    done = latest_complete(EXPERIMENT, STORE, ("paper", "cpu"))
    assert done is not None
    return done.table


def test_rows_are_of_the_code_as_it_stands():
    assert evidence_state(EXPERIMENT, STORE, latest_complete(EXPERIMENT, STORE, ("paper", "cpu"))) == "ok"


@pytest.mark.parametrize("name", CLAIMS)
def test_claims_on_the_committed_rows(name, table):
    claim = CLAIMS[name]
    tables = tuple(table.of(kind) for kind in claim.reads)
    verdict = verdict_of(claim, Key("verify"), tables)
    assert verdict.as_expected, [(f.statement.name, f.outcome, f.why) for f in verdict.findings if not f.as_expected]
    assert blind(claim, Key("verify"), tables) == []
    assert apart(claim, Key("apart"), tables) == []


# probing -------------------------------------------------------------------------------------------------------------


def problem(d=7, r=5, m=3, draws=1):
    g = Key("tests/tradeoff/probing").torch()
    a = torch.randn(d, d, generator=g, dtype=torch.float64)
    label = torch.randn(r, generator=g, dtype=torch.float64)
    return a @ a.T / d, label, torch.randn(draws, m, d, generator=g, dtype=torch.float64)


def test_least_norm_is_that_of_ridgeless_regression():
    gram, label, z = problem(draws=4)
    u = torch.cat([label, torch.zeros(2).double()])
    found = []
    for sample in z:
        v = gram @ sample.T @ torch.linalg.solve(sample @ gram @ sample.T, sample @ u)
        found.append(math.sqrt(2 / math.pi) * float((v - u).norm()))
    assert probe_risks(gram, label, z)[0] == pytest.approx(np.mean(found), rel=1e-9)


def test_worst_is_the_largest_risk_among_interpolators_of_the_norm_of_the_truth():
    gram, label, z = problem()
    k, sample, u = gram.numpy(), z[0].numpy(), np.r_[label.numpy(), 0, 0]
    inverse = np.linalg.inv(k)
    least = k @ sample.T @ np.linalg.solve(sample @ k @ sample.T, sample @ u)
    free = np.linalg.svd(sample)[2][len(sample) :].T
    room = {"type": "ineq", "fun": lambda c: u @ inverse @ u - (least + free @ c) @ inverse @ (least + free @ c)}
    best = 0.0
    for i in range(12):
        start = np.random.default_rng(i).normal(size=free.shape[1])
        made = minimize(lambda c: -(((least + free @ c - u) ** 2).sum()), start, constraints=[room], method="SLSQP")
        best = max(best, math.sqrt(-made.fun)) if made.success else best
    assert probe_risks(gram, label, z)[1] == pytest.approx(math.sqrt(2 / math.pi) * best, rel=1e-5)


def test_equal_weights_make_the_worst_twice_the_least():
    """Without a preference the null space is a ball about the truth's part of it, whose far end is its mirror image."""
    label, z = problem(d=5)[1], problem(d=5)[2]
    least, worst = probe_risks(torch.eye(5).double(), label, z)
    assert worst == pytest.approx(2 * least, rel=1e-4)


# the experiment ------------------------------------------------------------------------------------------------------


def test_trials_are_mixtures_and_closed_forms():
    config = Config(tasks=(1, 4), more=(9,), labels=(2, 3), r=6, s=2, gamma=0.5, seeds=(3,))
    found = EXPERIMENT.trials(config)
    trained = [t for t in found if isinstance(t, Pretraining)]
    forms = [t for t in found if isinstance(t, ClosedForm)]
    assert [(t.tasks, t.weights) for t in trained] == [(1, ()), (4, ()), (2, (0.55, pytest.approx(0.45)))]
    assert [(t.representation, t.tasks) for t in forms] == [(CLOSED, 1), (CLOSED, 4), (CLOSED, 9), (TUNED, 4)]
    assert [t.own for t in forms] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 2 + 0.5 / 2])


@pytest.mark.parametrize(
    "change, field",
    [
        ({"labels": (20,)}, "labels"),
        ({"s": 20}, "s"),
        ({"gamma": -1.0}, "gamma"),
        ({"uneven": 1.0}, "uneven"),
        ({"more": (16,)}, "more"),
        ({"tasks": ()}, "tasks"),
        ({"seeds": (0, 0)}, "seeds"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        Config(**change)


def test_smoke_rows_have_a_summary_and_a_picture():
    rows = [r for t in EXPERIMENT.trials(EXPERIMENT.presets["smoke"]) for r in plain_rows(EXPERIMENT.run_trial(t).rows)]
    table = Rows(tuple(rows))
    names = {(s.row, s.metric) for s in EXPERIMENT.summarise(table)}
    assert {("closed form", "risk"), ("trained", "worst"), ("trained", "spurious"), (TUNED, "risk")} <= names
    assert EXPERIMENT.draw(table)


# rows that differ ----------------------------------------------------------------------------------------------------


def changed(table, kind, name, test, factor):
    """The table with one column scaled where a test holds."""
    rows = [
        dataclasses.replace(r, **{name: getattr(r, name) * factor(r)})
        if test(r) and getattr(r, name) is not None
        else r
        for r in table.of(kind).rows
    ]
    return Table.of(kind, rows)


def expected(name, table):
    return verdict_of(CLAIMS[name], Key("verify"), (table,)).as_expected


def test_each_claim_falls_with_its_rows(table):
    probe = table.of(Probe)
    assert expected("risk_worse", probe)
    assert not expected("risk_worse", changed(table, Probe, "risk", lambda r: r.tasks == 2, lambda r: 0.9))
    assert not expected("risk_tuned", changed(table, Probe, "risk", lambda r: r.representation == TUNED, lambda r: 1.5))
    assert not expected("worst_risk", changed(table, Probe, "worst", lambda r: r.m == 5, lambda r: r.tasks**-0.25))
    assert not expected("worst_risk", changed(table, Probe, "worst", lambda r: r.m == 15, lambda r: r.tasks**0.5))
    for column, factor in {"shared": 0.98, "own": 0.9, "other": 0.9, "spurious": 4}.items():
        rows = changed(table, Learned, column, lambda r: True, lambda r, factor=factor: factor)
        assert not expected("pretraining", rows), column


def test_growth_as_the_root_of_the_tasks_would_have_been_seen(table):
    """Rows whose risk grows as sqrt(T) contradict, also at one number of labels alone."""
    start = {(r.representation, r.seed): r.risk for r in table.of(Probe).rows if r.m == 10 and r.tasks == 1}
    rows = []
    for r in table.of(Probe).rows:
        if r.m == 10 and r.representation in (CLOSED, TRAINED):
            noise = 1 + 0.02 * math.sin(r.seed * 7 + r.tasks)
            r = dataclasses.replace(r, risk=start[r.representation, r.seed] * r.tasks**0.5 * noise)
        rows.append(r)
    verdict = verdict_of(CLAIMS["sqrt_T"], Key("verify"), (Table.of(Probe, rows),))
    assert [f.outcome for f in verdict.findings] == ["contradicted"] * 2


def test_rows_of_another_size_are_another_premise(table):
    rows = [dataclasses.replace(r, r=24) for r in table.of(Probe).rows]
    assert verdict_of(CLAIMS["risk_worse"], Key("verify"), (Table.of(Probe, rows),)).scope == "premise unmet"
