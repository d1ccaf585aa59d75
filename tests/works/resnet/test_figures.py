"""Figures of the ResNet work: verdicts on committed rows, and rows that must contradict them."""

import dataclasses

import pytest
from mutation import CHECKOUT

from featlearn.core import Key, SettingError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import predict, settle, verdict_of
from featlearn.lab.find import latest_complete
from featlearn.lab.store import Store
from featlearn.lab.table import Table
from featlearn.works.resnet.claims.figures import CLAIMS
from featlearn.works.resnet.experiments import figure2, figure3, figure4
from featlearn.works.resnet.rows import Run, Searched, Weighted, by_hand, chosen, median_seed

BY_ID = {c.id.split(".")[1]: c for c in CLAIMS}
ON_FIGURE2 = [name for name, c in BY_ID.items() if Run in c.reads]


@pytest.fixture(scope="module")
def tables():
    store = Store("runs-that-are-not-there", below=[CHECKOUT / "evidence"])
    done = latest_complete(figure2.EXPERIMENT, store, ("cpu",))
    assert done is not None
    return lambda claim: tuple(done.table.of(kind) for kind in claim.reads)


def judged(claim, tables):
    return {f.statement.name: f.outcome for f in verdict_of(claim, Key("verify"), tables).findings}


@pytest.mark.parametrize("name", ON_FIGURE2)
def test_figure_2_on_the_committed_rows(name, tables):
    claim = BY_ID[name]
    assert verdict_of(claim, Key("verify"), tables(claim)).as_expected
    assert blind(claim, Key("verify"), tables(claim)) == []
    assert apart(claim, Key("verify"), tables(claim)) == []


@pytest.mark.parametrize("name", ON_FIGURE2)
def test_figure_2_is_contradicted_where_wirings_change_places(name, tables):
    """Each claim says which network learns: rows of another network under its name must not be accepted."""
    claim, other = BY_ID[name], {"residual bottleneck": "three layers", "three layers": "residual bottleneck"}
    other |= {"residual": "bottleneck", "bottleneck": "residual"}
    runs, *rest = tables(claim)
    swapped = [dataclasses.replace(r, wiring=other.get(r.wiring, r.wiring)) for r in runs.rows]
    if name == "forward_feature_learning":  # ways of training in place of networks
        how = {"all": "layer by layer", "layer by layer": "all"}
        swapped = [
            dataclasses.replace(r, trained=how[r.trained])
            for r in runs.rows
            if r.wiring == "residual bottleneck" and r.trained in how
        ]
    outcomes = judged(claim, (Table.of(Run, swapped), *rest))
    assert "contradicted" in outcomes.values()


def weighted(beta, seed, test, rate=0.1, validation=None):
    return Weighted(
        wiring="residual bottleneck",
        trained="all",
        n=500,
        m=200,
        alpha=0.3,
        beta=beta,
        rate=rate,
        decay=0.005,
        seed=seed,
        train=0.0,
        validation=test if validation is None else validation,
        test=test,
    )


def test_figure_3_is_judged_at_each_weight():
    right = {1.0: 0.05, 0.5: 0.3, 0.3: 1.5, 0.2: 1.6, 0.0: 1.9}
    rows = [weighted(b, s, e + 0.01 * s) for b, e in right.items() for s in range(3)]
    claim = BY_ID["figure3b"]
    rows = [dataclasses.replace(r, trained="hidden") for r in rows]
    assert verdict_of(claim, Key("verify"), (Table.of(Weighted, rows),)).as_expected
    assert blind(claim, Key("verify"), (Table.of(Weighted, rows),)) == []
    for beta, error in ((0.5, 1.5), (0.2, 0.2)):
        wrong = [weighted(b, s, (error if b == beta else e) + 0.01 * s) for b, e in right.items() for s in range(3)]
        wrong = [dataclasses.replace(r, trained="hidden") for r in wrong]
        assert "contradicted" in judged(claim, (Table.of(Weighted, wrong),)).values()


def test_figure_3_on_the_committed_rows():
    """All layers at beta = 0.5 learn on some seeds only: nothing is confirmed of them, everything else is."""
    store = Store("runs-that-are-not-there", below=[CHECKOUT / "evidence"])
    done = latest_complete(figure3.EXPERIMENT, store, ("cpu",))
    assert done is not None
    for name in ("figure3a", "figure3b"):
        table = (done.table.of(Weighted),)
        verdict = verdict_of(BY_ID[name], Key("verify"), table)
        assert verdict.as_expected
        assert verdict.reported == ("inconclusive" if name == "figure3a" else "confirmed")
        assert blind(BY_ID[name], Key("verify"), table) == []
        assert apart(BY_ID[name], Key("verify"), table) == []


def test_one_run_that_learns_at_a_weak_base_signal_is_seen():
    rows = [
        weighted(b, s, e + 0.01 * s) for b, e in ((1.0, 0.05), (0.5, 0.3), (0.2, 1.6), (0.0, 1.9)) for s in range(3)
    ]
    rows = [dataclasses.replace(r, trained="hidden") for r in rows]
    more = [dataclasses.replace(r, rate=0.2, test=0.2 if r.seed == 1 else 3.0, validation=3.0) for r in rows]
    seen = judged(BY_ID["figure3b"], (Table.of(Weighted, [*rows, *more]),))
    assert [o for n, o in seen.items() if n.startswith("least")] == ["contradicted"]
    assert list(seen.values()).count("confirmed") == 3


def test_a_seed_that_diverged_does_not_choose_and_is_the_worst():
    rows = [weighted(1.0, s, 0.1, rate=0.1, validation=0.5) for s in range(3)]
    gone = [dataclasses.replace(weighted(1.0, s, 0.01, rate=0.2), validation=0.1) for s in range(2)]
    gone.append(dataclasses.replace(gone[0], seed=2, validation=None, test=None, train=None))
    table = Table.of(Weighted, [*rows, *gone])
    assert chosen(table).point == (0.1, 0.005)
    assert median_seed(Table.of(Weighted, gone)) == 0.01
    assert median_seed(Table.of(Weighted, [gone[2]])) == 1e6


def test_validation_chooses_where_the_test_would_choose_otherwise():
    rows = [weighted(1.0, s, test, rate, validation) for s in range(3) for rate, test, validation in GRID]
    assert chosen(Table.of(Weighted, rows)).point == (0.1, 0.005)
    assert median_seed(Table.of(Weighted, rows)) == 0.9


GRID = ((0.05, 0.4, 0.7), (0.1, 0.9, 0.2), (0.2, 0.1, 0.8))


def searched(seed, train, test, norm):
    return Searched(d=40, n=5000, m=2000, rate=1.0, decay=1e-5, seed=seed, train=train, test=test, norm=norm)


def test_weights_by_hand_have_the_norms_that_are_reported():
    # section 8.2: errors of at most 0.12, 0.037 and 0.011 at norms of 9.7, 12.5 and 13.8
    assert by_hand(0.0) == pytest.approx(13.064, abs=1e-3)
    assert by_hand(0.12) == pytest.approx(8.538, abs=1e-3)
    assert all(by_hand(e) < norm for e, norm in ((0.12, 9.7), (0.037, 12.5), (0.011, 13.8)))


@pytest.mark.parametrize(
    ("change", "contradicted"),
    [
        ({}, set()),
        ({"test": 0.3}, {0}),
        ({"norm": 10.0}, {1}),
        ({"train": 0.3, "norm": 1.0}, set()),
        ({"train": 0.3, "test": 0.2}, {0}),
    ],
)
def test_figure_4_is_judged_on_all_runs_and_norms_on_those_that_fit(change, contradicted):
    """A small norm of a run that does not fit its samples speaks neither for nor against; a small test error does."""
    right = [searched(s, 0.01, 0.95, 60.0) for s in range(3)]
    more = dataclasses.replace(right[0], rate=2.0, **change)
    table = Table.of(Searched, [*right, more])
    outcomes = list(judged(BY_ID["figure4"], (table,)).values())
    assert {i for i, o in enumerate(outcomes) if o == "contradicted"} == contradicted
    assert len(predict(BY_ID["figure4"], settle(BY_ID["figure4"], Key("verify")))) == 2


@pytest.mark.parametrize("module", [figure2, figure3, figure4])
def test_smoke(module):
    experiment = module.EXPERIMENT
    trials = experiment.trials(experiment.presets["smoke"])
    rows = [row for trial in trials for row in experiment.run_trial(trial).rows]
    assert {type(r) for r in rows} == set(experiment.rows)
    for kind in experiment.rows:
        assert len(Table.of(kind, [r for r in rows if isinstance(r, kind)]))


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: figure2.Config(n=510), "n"),
        (lambda: figure2.Config(m=()), "m"),
        (lambda: figure3.Config(betas=(0.3, 0.2)), "betas"),
        (lambda: figure3.Config(trained=("layer by layer",)), "trained"),
        (lambda: figure4.Config(m=(201,)), "m"),
        (lambda: figure4.Config(d=5), "d"),
        (lambda: figure4.Config(n=5001), "n"),
    ],
)
def test_impossible_settings_are_refused_by_field_and_remedy(make, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        make()
