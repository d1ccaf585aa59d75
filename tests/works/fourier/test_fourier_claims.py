"""Claims of the Fourier work: faults of the engine and rows of another kind contradict them; ascent; smaller sizes."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.lab.find import latest_complete
from featlearn.lab.store import Store
from featlearn.lab.table import Table
from featlearn.measure import fourier as measured
from featlearn.works import load_claims, load_experiment
from featlearn.works.fourier import setup
from featlearn.works.fourier.claims import (
    by_hand,
    counting,
    exact,
    identities,
    margins,
    minimised,
    networks,
    neurons,
    trained,
    transformers,
)
from featlearn.works.fourier.rows import REPORTED, SWAPPED, TRAINED, Arrival, Climb, Heads, Learned, Minimised, Network

CLAIMS = {c.id.removeprefix("fourier."): c for c in load_claims("fourier")}
EVIDENCE = Store("runs-that-are-not-there", below=[Path(__file__).parents[3] / "evidence"])


@pytest.fixture(scope="module")
def tables():
    found = {}

    def table(kind):
        if kind not in found:
            done = latest_complete(load_experiment(kind.experiment), EVIDENCE, ("paper", "cpu"))
            assert done is not None, kind.experiment
            found[kind] = done.table.of(kind)
        return found[kind]

    return table


def judged(name, *tables):
    return verdict_of(CLAIMS[name], Key("verify"), tables)


def outcomes(verdict):
    return {f.statement.name: f.outcome for f in verdict.findings}


def changed(table, change):
    """The table with every row changed by a function of it."""
    return Table.of(table.kind, [dataclasses.replace(r, **change(r)) for r in table.rows], allow_absent=True)


# faults of the engine ------------------------------------------------------------------------------------------------


def test_a_constant_counted_twice_is_seen_by_the_share_of_a_frequency(monkeypatch):
    fold = measured._fold

    def doubled(power, p):
        out = fold(power, p).clone()
        out[..., 0] *= 2
        return out

    monkeypatch.setattr(measured, "_fold", doubled)
    assert outcomes(judged("normalised_power"))[identities.RAISED] == "contradicted"


@pytest.mark.parametrize(
    "module, name, fault, claim, statement",
    [
        (networks, "gamma_star", lambda k, p: 0.95 * setup.gamma_star(k, p), "best_margin", networks.CONSTRUCTED),
        (
            identities,
            "neuron_margins",
            lambda u, w: 1.01 * setup.neuron_margins(u, w),
            "transform",
            identities.BY_SPECTRA,
        ),
        (margins, "minimum", lambda k, p, lam: (1.01, 1.0), "objective", "L"),
        (counting, "fewest", setup.constructed, "necessary_neurons", counting.HAD),
        (counting, "constructed", setup.cyclic, "construction", counting.COUNTED),
        (neurons, "gamma_star", lambda k, p: setup.gamma_star(k, p) * 1.001, "optimal_neuron", neurons.ENDS),
    ],
)
def test_faults_of_the_engine_change_the_outcome(module, name, fault, claim, statement, monkeypatch):
    before = outcomes(judged(claim))[statement]
    monkeypatch.setattr(module, name, fault)
    assert outcomes(judged(claim))[statement] != before


def test_ascent_arrives_and_stays():
    """To nine digits, which wrong slopes would not allow."""
    k, p = 3, 5
    start = Key("tests/ascent").numpy().standard_normal((k + 1) * p)
    value, end = neurons.ascend(k, p, start)
    assert value == pytest.approx(1, abs=1e-9)
    again, _ = neurons.ascend(k, p, end.ravel())
    assert again == pytest.approx(value, abs=1e-12)


def test_margins_by_orders_only_where_the_network_sees_none(monkeypatch):
    assert networks.whole(setup.constructed(2, 5)).points == 25
    monkeypatch.setattr(networks, "MANY", 1.0)
    assert networks.whole(setup.constructed(2, 5)).points == 15
    with pytest.raises(ValueError, match="enumerated"):
        networks.whole(setup.cyclic(3, 5))


def test_a_dictionary_holds_the_known_networks_and_no_smaller_one():
    """The cyclic phases of k = 2 are a solution with equal shares; five of its six neurons are none."""
    a = counting.dictionary(2, 6)
    pairs = [(s, t) for s in range(3) for t in range(6)]
    cyclic = {min((t % 6, 4 * t % 6), ((t + 3) % 6, (4 * t + 3) % 6)) for t in range(6)}
    x = np.array([1 / 6 if pair in cyclic else 0.0 for pair in pairs])
    target = np.append(np.zeros(len(a) - 1), 1.0)
    assert len(cyclic) == 6
    assert a @ x == pytest.approx(target, abs=1e-9)
    x[np.flatnonzero(x)[0]] = 0
    assert np.abs(a @ (x / x.sum()) - target).max() > 0.1


# rows of another kind ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column, value, statement",
    [
        ("cosine_low", 0.5, "r^2 of the best cosine, worst vector of a neuron, 5th percentile"),
        ("same", 80.0, "live neurons whose k + 1 vectors have one frequency"),
        ("phase", 0.4, "|sum theta_u - theta_w| of live neurons, median"),
        ("held", 90.0, "summed (k+1)-th powers of norms that live neurons hold"),
    ],
)
def test_one_run_without_cosines_contradicts_the_figure(tables, column, value, statement):
    here = "p = 47, half of all points"
    worse = changed(tables(Network), lambda r: {column: value} if (r.p, r.seed) == (47, 1) else {})
    found = outcomes(judged("trained_cosines_k3", worse))
    assert found[f"{statement}; {here}"] == "contradicted"
    assert list(found.values()).count("contradicted") == 3  # with the two at p = 97


@pytest.mark.parametrize(
    "column, value, statement",
    [
        ("covered", 95.0, "(a) frequencies that dominate a live neuron"),
        ("most_over_least", None, "(a) neurons of the rarest over the commonest frequency"),
        ("most_over_least", 4.0, "(a) neurons of the rarest over the commonest frequency"),
        ("share_start", 0.1, "(b) share of power at one frequency at the start over that of Gaussian vectors"),
        ("share_vectors", 0.9, "(c) share at the end, mean over vectors of live neurons"),
        ("share_low", 0.7, "(c) share at the end, 5th percentile over live neurons"),
    ],
)
def test_one_run_with_other_frequencies_contradicts_the_figure(tables, column, value, statement):
    worse = changed(tables(Network), lambda r: {column: value} if (r.k, r.train, r.seed) == (4, 1.0, 2) else {})
    assert outcomes(judged("trained_frequencies_k4", worse))[f"{statement}; p = 7, all points"] == "contradicted"


def test_margins_of_runs_on_half_of_the_points_are_shown_and_breach_a_premise(tables):
    verdict = judged("trained_reached", changed(tables(Network), lambda r: {"margin": 0.99}))
    assert (verdict.reported, verdict.scope) == ("confirmed", "premise unmet")
    low = outcomes(judged("trained_reached", changed(tables(Network), lambda r: {"margin": 0.94})))
    assert set(low.values()) == {"contradicted"}
    assert len(low) == sum(map(len, trained.GROUPS.values()))


def test_success_and_failure_have_the_same_scope(tables):
    fine = changed(tables(Network), lambda r: {"cosine_low": 0.99, "same": 100.0, "phase": 0.01, "held": 100.0})
    for k in (3, 4, 5):
        good, bad = judged(f"trained_cosines_k{k}", fine), judged(f"trained_cosines_k{k}", tables(Network))
        assert (good.reported, bad.reported) == ("confirmed", "contradicted")
        assert good.scope == bad.scope != "as stated"


def test_sizes_other_than_k_and_p_are_premises(tables):
    """Rows at every reported (k, p) with another batch, or fewer heads, are of another size."""
    premises = {p.says: p.met for p in judged("trained_cosines_k3", tables(Network)).premises}
    assert premises["batch = 1024"] is False
    for name in ("grokking", "grokking_equal_data"):
        premises = {p.says: p.met for p in judged(name, tables(Arrival)).premises}
        assert [premises[f"{what}"] for what in ("heads = 160", "width = 128", "batch = 1024")] == [False] * 3
    learned = judged("transformer_accuracy", tables(Learned))
    assert {p.says: p.met for p in learned.premises}["heads = 160"] is False
    for verdict in (learned, judged("trained_recipe", tables(Network)), judged("attention", tables(Heads))):
        assert {p.says: p.met for p in verdict.premises}["as many steps as reported"] is None


@pytest.mark.parametrize(
    "claim, change, statement",
    [
        ("trained_loss", {"loss": 1e-3}, minimised.OVER),
        ("trained_margin", {"margin": 1.01}, minimised.BOUND),
        ("trained_margin", {"margin": 0.9}, minimised.MINIMISERS),
        ("trained_margin", {"covered": 90.0}, minimised.COVERED),
        ("trained_margin", {"same": 99.0}, minimised.SAME),
        ("trained_margin", {"phase": 0.1}, minimised.PHASES),
        ("trained_margin", {"cosine_low": 0.9}, minimised.COSINES),
        ("trained_near_best", {"cosine_low": 0.9}, minimised.COSINES),
    ],
)
def test_one_run_contradicts_claims_on_all_points(tables, claim, change, statement):
    other = changed(tables(Minimised), lambda r: change if (r.k, r.p, r.seed, r.penalty) == (3, 11, 2, 0.01) else {})
    assert (
        outcomes(judged(claim, other, *(tables(kind) for kind in CLAIMS[claim].reads[1:])))[statement] == "contradicted"
    )


@pytest.mark.parametrize(
    "claim, change, statement",
    [
        ("trained_margin", {"cosine_low": 0.99}, minimised.COSINES),
        ("trained_margin", {"same": 100.0}, minimised.SAME),
        ("trained_near_best", {"phase": 0.001}, minimised.PHASES),
    ],
)
def test_neurons_that_are_the_same_far_from_the_best_margin_say_nothing(tables, claim, change, statement):
    """Networks below half of gamma* are the control."""
    others = [tables(kind) for kind in CLAIMS[claim].reads]
    others[-1] = changed(tables(Network), lambda r: change if r.margin < minimised.FAR else {})
    assert outcomes(judged(claim, *others))[statement] == "too weak to test"


def test_a_loss_that_was_once_below_the_closed_form_contradicts_it(tables):
    """At one evaluation of one run, whatever the loss is at the end."""
    least = next(r.least_loss for r in tables(Minimised).rows if (r.k, r.p, r.penalty) == (2, 31, 0.003))
    first = next(r for r in tables(Climb).rows if (r.k, r.p, r.penalty) == (2, 31, 0.003) and r.step > 0)
    below = changed(tables(Climb), lambda r: {"loss": least - 1e-6} if r == first else {})
    found = outcomes(judged("trained_loss", tables(Minimised), below))
    assert found == {minimised.OVER: "confirmed", minimised.ALONG: "contradicted", minimised.WITHIN: "confirmed"}


@pytest.mark.parametrize("k, within", [(2, "contradicted"), (3, "confirmed")])
def test_the_inventorys_one_percent_is_of_runs_at_two_inputs(tables, k, within):
    far = changed(tables(Minimised), lambda r: {"loss": 1.02 * r.least_loss} if (r.k, r.seed) == (k, 1) else {})
    assert outcomes(judged("trained_loss", far, tables(Climb)))[minimised.WITHIN] == within


def test_inputs_are_one_hot_in_predictions():
    """Products with one-hot vectors, weight by weight, and the powers that an argument asks for."""
    net = exact.random_network(2, 2, 3, Key("tests/one-hot"))
    phi, y = by_hand.neurons_by_hand(net)
    u, w = (t.numpy() for t in net)
    for i, (a, b) in enumerate(itertools.product(range(3), repeat=2)):
        assert y[i] == (a + b) % 3
        assert phi[1, i] == pytest.approx((u[1, 0, a] + u[1, 1, b]) ** 2 * w[1])


def test_runs_that_are_no_minimisers_are_dropped_and_counted(tables):
    finding = next(
        f
        for f in judged("trained_margin", *(tables(kind) for kind in (Minimised, Climb, Network))).findings
        if f.statement.name == minimised.MINIMISERS
    )
    assert finding.kept < finding.of
    far = changed(tables(Minimised), lambda r: {"loss": 1.1 * r.least_loss})
    assert (
        outcomes(judged("trained_margin", far, tables(Climb), tables(Network)))[minimised.MINIMISERS] == "inconclusive"
    )


@pytest.mark.parametrize("margin, cosines", [(0.96, "confirmed"), (0.98, "contradicted")])
def test_only_networks_near_the_best_margin_have_to_be_cosines(tables, margin, cosines):
    """A run below 0.97 gamma* may have other neurons, one above may not."""
    row = {"margin": margin, "cosine_low": 0.5}
    other = changed(tables(Minimised), lambda r: row if (r.k, r.p, r.seed, r.penalty) == (3, 11, 2, 0.01) else {})
    assert outcomes(judged("trained_near_best", other, tables(Network)))[minimised.COSINES] == cosines


def test_heads_that_are_not_sparse_contradict_the_figures(tables):
    none = changed(tables(Heads), lambda r: {"sparse": 5.0 + r.seed} if r.weights == TRAINED else {})
    found = outcomes(judged("attention", none))
    assert [v for n, v in found.items() if n.startswith("trained heads")] == ["contradicted"] * 2
    all_ = changed(tables(Heads), lambda r: {"sparse": 98.0 + 0.1 * r.seed} if r.weights == TRAINED else {})
    assert [v for n, v in outcomes(judged("attention", all_)).items() if n.startswith("trained heads")] != [
        "contradicted"
    ] * 2


def test_cosines_of_the_embedding_alone_contradict_that_they_are_learned(tables):
    own = {(r.k, r.readout, r.seed): r.top4 for r in tables(Heads).rows if r.weights == TRAINED}
    same = changed(
        tables(Heads),
        lambda r: {"top4": own[r.k, r.readout, r.seed] - 1e-3 * r.seed} if r.weights == SWAPPED else {},
    )
    # a control near 1 leaves no room for a difference, which decides nothing
    assert set(outcomes(judged("attention_learned", same)).values()) == {"contradicted", "too weak to test"}


def test_one_transformer_that_fails_contradicts_that_all_learn(tables):
    worse = changed(tables(Learned), lambda r: {"test_acc": 90.0} if (r.k, r.seed) == (3, 1) else {})
    found = outcomes(judged("transformer_accuracy", worse))
    assert (found[transformers.AT_LAST], found[transformers.AT_EQUALS]) == ("contradicted", "contradicted")
    one = changed(tables(Learned), lambda r: {"test_acc": 99.0} if (r.k, r.readout, r.seed) == (5, "equals", 1) else {})
    assert outcomes(judged("transformer_accuracy", one))[transformers.LATE] == "contradicted"


def test_starts_that_all_reach_the_inventorys_number_contradict_that_some_do_not(tables):
    fine = changed(tables(Minimised), lambda r: {"margin": max(r.margin, 0.95)})
    assert outcomes(judged("trained_starts", fine))[minimised.EVERY] == "contradicted"


# grokking ------------------------------------------------------------------------------------------------------------


def grokked(table, ratio):
    """Rows of the reported variant whose test accuracy stays at ratio(k, seed) times the steps; None: never."""

    def change(r):
        value = ratio(r.k, r.seed)
        end = None if value is None else round(100 * value)
        return {"train95": 100, "test95": end, "steps": 100_000, "test_acc": 99.0 if end else 12.0}

    return changed(table.where(variant=REPORTED), change)


@pytest.mark.parametrize(
    "ratio, falls",
    [
        (lambda k, s: 20 / k + s / 10, "confirmed"),
        (lambda k, s: 3.0 + s / 10, "contradicted"),
        (lambda k, s: 2.0 + k + s / 10, "contradicted"),
        (lambda k, s: None if k == 2 else 3.0 - k / 10 + s / 100, "confirmed"),
    ],
)
def test_a_ratio_that_falls_with_k_is_told_from_others(tables, ratio, falls):
    found = outcomes(judged("grokking", grokked(tables(Arrival), ratio)))
    if falls == "confirmed":
        assert found[transformers.FALLS] == "confirmed"
    else:
        assert found[transformers.FALLS] != "confirmed"


def test_a_lag_that_falls_with_a_constant_ratio_is_no_fall(tables):
    """Runs that are slower in all their steps: the lag falls with k, the ratio does not."""
    rows = grokked(tables(Arrival), lambda k, s: 3.0 + s / 10)
    slow = changed(rows, lambda r: {"train95": r.train95 * 2 ** (5 - r.k), "test95": r.test95 * 2 ** (5 - r.k)})
    assert outcomes(judged("grokking", slow))[transformers.FALLS] != "confirmed"


def test_a_run_that_loses_its_accuracy_counts_as_never_arrived(tables):
    """A wait that ended at the same ratio as another's arrival is longer, and accuracy at the end must be there."""
    lost = grokked(tables(Arrival), lambda k, s: None if (k, s) == (5, 0) else 20 / k)
    found = outcomes(judged("grokking", lost))
    assert found[transformers.ENDS] == "contradicted"
    tied = changed(lost, lambda r: {"steps": 1000} if r.test95 is None else {})  # ratio 10, as k = 2 has
    assert (
        transformers.fall(tied.rows).value < transformers.fall(grokked(tables(Arrival), lambda k, s: 20 / k).rows).value
    )


def test_points_that_are_never_learnt_are_no_grokking(tables):
    """A wait as long as can be decides nothing; one run that arrives does."""
    never = grokked(tables(Arrival), lambda k, s: None)
    assert outcomes(judged("grokking", never))[transformers.RATIO] == "inconclusive"
    for ratio, outcome in ((2.1, "confirmed"), (1.9, "contradicted")):
        one = grokked(tables(Arrival), lambda k, s, ratio=ratio: ratio if s == 1 else None)
        assert outcomes(judged("grokking", one))[transformers.RATIO] == outcome


def test_a_test_accuracy_that_comes_at_once_contradicts_a_delay(tables):
    found = outcomes(judged("grokking", grokked(tables(Arrival), lambda k, s: 1.0 + s / 10)))
    assert found[transformers.RATIO] == "contradicted"
