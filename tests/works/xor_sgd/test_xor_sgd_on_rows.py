"""Claims of xor_sgd that read rows: on the committed rows, blind, and on rows of another kind."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import observed, predict, verdict_of
from featlearn.lab.find import latest_complete
from featlearn.lab.store import Store
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate
from featlearn.works import load_claims, load_experiment
from featlearn.works.xor_sgd import rows
from featlearn.works.xor_sgd.rows import Budget, Crossing, Growth, Phase

CLAIMS = {c.id.removeprefix("xor_sgd."): c for c in load_claims("xor_sgd")}
ON_ROWS = [name for name, c in CLAIMS.items() if c.reads]
EVIDENCE = Store("runs-that-are-not-there", below=[Path(__file__).parents[3] / "evidence"])


@pytest.fixture(scope="module")
def tables():
    found = {}

    def table(kind):
        if kind not in found:
            done = latest_complete(load_experiment(kind.experiment), EVIDENCE, ("paper",))
            assert done is not None, kind.experiment
            found[kind] = done.table.of(kind)
        return found[kind]

    return table


def judged(name, *tables):
    return verdict_of(CLAIMS[name], Key("verify"), tables)


def outcomes(verdict):
    return {f.statement.name: f.outcome for f in verdict.findings}


# rows of another kind ------------------------------------------------------------------------------------------------


def changed(table, change):
    """The table with every row changed by a function of it."""
    return Table.of(table.kind, [dataclasses.replace(r, **change(r)) for r in table.rows], allow_absent=True)


def contradicted(verdict):
    return [name for name, outcome in outcomes(verdict).items() if outcome == "contradicted"]


def test_a_larger_power_of_d_contradicts_the_theorem(tables):
    worse = changed(tables(Budget), lambda r: {"samples": r.samples and r.samples * r.d**0.7})
    assert contradicted(judged("theorem3_1", worse)) == ["exponent of the samples in d"]


def test_seeds_that_never_arrive_contradict_the_theorem(tables):
    at = {p.d: p.choice.point for p in rows.chosen(tables(Budget), "Network")}

    def lost(r):
        here = r.learner == "Network" and r.role == "reported" and (r.share, r.noise) == at[r.d]
        return {"samples": None, "over": 1e6} if here and r.seed == 3 and r.d == 256 else {}

    found = contradicted(judged("theorem3_1", changed(tables(Budget), lost)))
    assert "reported seeds that never reach 95 %, at the selected points" in found


def test_the_worst_grid_point_changes_the_verdict(tables, monkeypatch):
    def worst(grid, axes):
        return rows.Choice(max(grid, key=lambda p: np.mean(grid[p])), 0.0, (), (), False)

    monkeypatch.setattr(rows, "select", worst)
    assert judged("theorem3_1", tables(Budget)).reported == "contradicted"


@pytest.mark.parametrize("power", [-0.6, 0.5])
def test_kernels_of_another_rate_contradict_the_quoted_one(tables, power):
    other = changed(tables(Budget), lambda r: {"samples": r.samples and r.samples * r.d**power})
    assert len(contradicted(judged("prior_rates", other))) == 2


def test_a_kernel_whose_grid_ends_where_it_still_saves_was_not_given_its_best(tables):
    budgets = tables(Budget)

    def met(table):
        return [p.met for p in judged("prior_rates", table).premises]

    def grid(kernel, saved):
        """A grid of three points (bandwidths, or penalties) of which the last saves this share of the samples."""
        at, points = ("share", (1.0, 4.0, 16.0)) if kernel == "RBF" else ("noise", (1e-3, 1e-6, 1e-9))
        one = [r for r in budgets.rows if r.learner == kernel and (r.share, r.noise) in ((1.0, 1e-6), (0.0, 1e-6))]
        shares = zip(points, (1.0, 0.7, 0.7 * (1 - saved)), strict=True)
        return [dataclasses.replace(r, samples=r.samples * part, **{at: v}) for v, part in shares for r in one]

    def table(ntk, rbf):
        network = [r for r in budgets.rows if r.learner == "Network"]
        return Table.of(Budget, [*network, *grid("NTK", ntk), *grid("RBF", rbf)])

    assert met(table(0.04, 0.04)) == [True]  # a plateau
    assert met(table(-0.2, -0.2)) == [True]  # a point inside
    assert met(table(0.04, 0.06)) == [False]
    assert met(table(0.06, 0.04)) == [False]
    two = [r for r in table(0.04, 0.04).rows if r.learner != "NTK" or r.noise != 1e-3]
    assert met(Table.of(Budget, two)) == [False]


def test_growth_at_the_rate_of_phase_2_contradicts_the_induction(tables):
    slow = changed(tables(Growth), lambda r: {"sig": r.sig * 0.886})
    assert "growth of w_sig over eq. (4.3), largest d" in contradicted(
        judged("phase1_induction", slow, tables(Crossing))
    )


def test_growth_at_the_rate_of_the_envelope_contradicts_the_induction(tables):
    tau = (2 * math.pi) ** -0.5
    other = changed(
        tables(Crossing), lambda r: {"growth": r.growth * math.sqrt(1 + 2 * r.eta * tau) / (1 + r.eta * tau)}
    )
    found = contradicted(judged("phase1_induction", tables(Growth), other))
    assert found == ["growth of ||w_sig|| a step, eta = 0.2, batch 40 d, largest d"]


def test_networks_whose_clusters_never_fill_contradict_lemma_4_1(tables):
    empty = changed(tables(Phase), lambda r: {"least_cluster": 5.0 if r.d == 256 else r.least_cluster})
    found = contradicted(judged("lemma4_1_C1", empty))
    assert "time until each cluster has a tenth of the neurons, with more signal than rest" in found


@pytest.mark.parametrize(
    "column, factor, statement",
    [("margin_min", 0.5, "growth of the smallest margin"), ("margin_max", 1.6, "growth of the largest margin")],
)
def test_one_step_of_one_run_contradicts_lemma_4_4(tables, column, factor, statement):
    def jump(r):
        here = (r.layers, r.d, r.seed, r.time) == (rows.BOTH, 256, 2, 30.0)
        return {column: getattr(r, column) * factor} if here else {}

    assert contradicted(judged("lemma4_4_D3", changed(tables(Phase), jump))) == [statement]


def test_margins_that_stay_apart_contradict_lemma_4_4(tables):
    apart_ = changed(tables(Phase), lambda r: {"margin_max": r.margin_max * 1.15})
    assert "largest over smallest margin, end" in contradicted(judged("lemma4_4_D3", apart_))


def test_exponential_growth_of_the_frozen_network_contradicts_the_remark(tables):
    """Rates differ a little by seed, since units without any spread decide nothing."""
    frozen = changed(
        tables(Phase),
        lambda r: (
            {"sig": 0.02 * math.exp(0.09 * r.time + 2e-5 * r.seed * r.time**2)} if r.layers == rows.FROZEN else {}
        ),
    )
    assert "first layer alone: late over early rate of log signal" in contradicted(judged("remark4_3", frozen))


def test_a_frozen_network_that_learns_as_well_contradicts_the_remark(tables):
    same = changed(tables(Phase), lambda r: {"loss": 0.02 + 1e-4 * r.seed} if r.layers == rows.FROZEN else {})
    found = contradicted(judged("remark4_3", same))
    assert found == ["loss left by the first layer alone beyond that of both"]


@pytest.mark.parametrize("factor, found", [(1.3508 / 1.3027, True), (1.2533 / 1.3027, True), (1.0, False)])
def test_the_time_of_another_law_is_told_apart(tables, factor, found):
    """Times whose part that grows with log d has another slope: the envelope's, that of continuous time, ours."""
    other = changed(tables(Crossing), lambda r: {"time": r.time and r.time + (factor - 1) * 1.3027 * math.log(r.d)})
    name = "slope of the time in log d, eta = 0.2, batch 40 d"
    assert (outcomes(judged("theorem3_1_time", other, tables(Phase)))[name] != "confirmed") == found


@pytest.mark.parametrize("name", ON_ROWS)
def test_estimates_have_the_range_of_their_statements(name, tables):
    """The interval of an estimate ends where its quantity does, so that of another quantity is another interval."""
    claim = CLAIMS[name]
    seen = observed(claim, claim.settings, Key("verify"), [tables(kind) for kind in claim.reads])
    for statement in predict(claim, claim.settings):
        found, said = seen[statement.name], statement.quantity
        if isinstance(found, Estimate) and statement.relation != "order":
            assert (found.quantity.low, found.quantity.high) == (said.low, said.high), statement.name


def test_the_selection_does_not_see_reported_seeds():
    def row(noise, seed, samples):
        role = "validation" if seed >= 1000 else "reported"
        return Budget(learner="Network", d=8, share=1.0, noise=noise, role=role, seed=seed, samples=samples, over=None)

    grid = [row(1.0, 0, 50.0), row(1.0, 1000, 100.0), row(2.0, 0, 10.0), row(2.0, 1000, 200.0)]
    [found] = rows.chosen(Table.of(Budget, grid), "Network")
    assert (found.choice.point, found.samples) == ((1.0, 1.0), (50.0,))
    lost = [dataclasses.replace(r, samples=None) if (r.seed, r.noise) == (1000, 1.0) else r for r in grid]
    [found] = rows.chosen(Table.of(Budget, lost), "Network")
    assert (found.choice.point, found.samples) == ((1.0, 2.0), (10.0,))
    one_of_two = Table.of(Budget, [*grid, row(1.0, 1001, None), row(2.0, 1001, 200.0)])
    assert list(rows.grid_of(one_of_two)) == [(1.0, 2.0)]  # every validation seed has to arrive
