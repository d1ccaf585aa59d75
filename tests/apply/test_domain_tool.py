"""`featlearn domains` as functions: runs and their pairing, selection, tables, comparison."""

import dataclasses
import math
import pickle

import pytest
from colours import FAST, made, pictures_in

from featlearn.apply.domains import runs, scores, sources
from featlearn.apply.domains.runs import EXPERIMENT, ORACLE, TEST, divide, run_trial, trials
from featlearn.apply.domains.sources import Network
from featlearn.core import SettingError
from featlearn.data import DataError
from featlearn.lab.execute import run
from featlearn.lab.experiment import Rows
from featlearn.lab.load import source_of
from featlearn.lab.trial import trial_hash
from featlearn.methods.domains import VALIDATION, Settings


@pytest.fixture
def tree(tmp_path):
    return pictures_in(tmp_path)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_the_trials_are_the_product(tree):
    _, config = made(tree, algorithms=("erm", "erm-nu", "swad"), seeds=(0, 5), search=2)
    found = trials(config)
    assert len(found) == 3 * 3 * 2 * 2
    assert {(c.held_out, c.seed, c.draw) for c in found if c.algorithm == "swad"} == {
        (d, s, t) for d in ("day", "dusk", "night") for s in (0, 5) for t in (0, 1)
    }
    fewer = dataclasses.replace(config, algorithms=("erm-nu",), seeds=(5,), held_out=("dusk",))
    assert set(trials(fewer)) < set(found)  # so that runs made for one table serve another


def test_trials_are_drawn_alike_for_all_algorithms(tree):
    _, config = made(tree, algorithms=("erm", "erm-nu"), search=3, held_out=("day",), seeds=(0, 1))
    by = {(c.algorithm, c.seed, c.draw): c for c in trials(config)}
    for seed in (0, 1):
        assert by["erm-nu", seed, 0].settings == Settings()
        assert by["erm-nu", seed, 0].schedule == FAST
        for draw in (1, 2):
            assert by["erm", seed, draw].schedule == by["erm-nu", seed, draw].schedule
            assert 32 <= by["erm", seed, draw].schedule.batch < 64
            assert by["erm", seed, draw].settings == Settings()
    other = dataclasses.replace(config, settings=Settings(nuclear_weight=0.3, coral_weight=7.0))
    changed = {c for c in trials(other) if c not in set(by.values())}
    assert {c.algorithm for c in changed} == {"erm-nu"}  # a weight that plain ERM does not have makes no new run of it
    weights = {c.settings.nuclear_weight for c in by.values() if c.algorithm == "erm-nu"}
    assert len(weights) == 5  # the given one, and four draws


def test_a_run_has_a_row_per_evaluation_and_one_of_the_average(tree):
    _, config = made(tree, algorithms=("erm", "swad-nu"), held_out=("night",))
    plain, averaged = (run_trial(c).rows for c in trials(config))
    assert [(r["kind"], r["step"]) for r in plain] == [("step", 2), ("step", 4)]
    assert [(r["kind"], r["step"]) for r in averaged] == [("step", 2), ("step", 4), ("average", 4)]
    assert all(0 <= r[m] <= 1 for r in (*plain, *averaged) for m in ("validation", "test", "oracle"))
    assert sum("stable_rank" in r for r in plain) == 1
    assert 1 <= averaged[-1]["stable_rank"] <= 16
    assert averaged[0]["nuclear_weight"] == 0.01
    assert plain[0]["nuclear_weight"] == 0
    assert run_trial(trials(config)[0]).rows == plain


def test_algorithms_start_alike(tree):
    """Before the penalty sets in, two algorithms of a seed are the same run."""
    _, config = made(tree, algorithms=("erm", "erm-nu"), held_out=("day",), settings=Settings(nuclear_start=0.5))
    one, other = (run_trial(c).rows for c in trials(config))
    assert one[0]["training_loss"] == other[0]["training_loss"]
    assert one[1]["validation_loss"] != other[1]["validation_loss"]


def test_nothing_selects_on_what_is_tested(tree):
    found, _ = made(tree)
    parts = divide(found, "dusk", 3)
    assert [p.domain.name for p in parts.training] == ["day", "night"]
    assert [p.domain.name for p in parts.watch[VALIDATION]] == ["day", "night"]
    (test,), (oracle,) = parts.watch[TEST], parts.watch[ORACLE]
    assert (len(test.rows), len(oracle.rows)) == (16, 4)
    assert not set(test.rows.tolist()) & set(oracle.rows.tolist())
    assert test.domain.name == oracle.domain.name == "dusk"
    whole = divide(found, None, 3)
    assert set(whole.watch) == {VALIDATION}
    assert len(whole.training) == 3


def test_files_that_changed_end_the_run(tree):
    _, config = made(tree)
    trial = trials(config)[0]
    (tree / "day" / "red" / "0.png").unlink()
    sources.loaded.cache_clear()
    with pytest.raises(DataError, match="has changed since"):
        run_trial(trial)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"algorithms": ()}, "algorithm"),
        ({"algorithms": ("erm", "erm")}, "algorithm"),
        ({"algorithms": ("cdann",)}, "algorithm"),
        ({"algorithms": ("miro",)}, "pretrained weights"),
        ({"held_out": ("noon",)}, "held_out"),
        ({"seeds": ()}, "seeds"),
        ({"seeds": (-1,)}, "seeds"),
        ({"search": 0}, "search"),
        ({"algorithms": ("coral",), "domains": ("a", "b")}, "at least 3"),
    ],
)
def test_senseless_settings_are_refused(tree, changed, said):
    with pytest.raises(SettingError, match=said):
        made(tree, **changed)


def test_a_second_call_does_what_is_missing(tree, tmp_path):
    _, config = made(tree, algorithms=("erm",), held_out=("day", "dusk"))
    first = run(EXPERIMENT, config, store=tmp_path / "runs")
    assert (first.ok, first.skipped) == (2, 0)
    again = run(EXPERIMENT, dataclasses.replace(config, held_out=()), store=tmp_path / "runs")
    assert (again.ok, again.skipped) == (1, 2)
    assert len(again.table.rows) == 6


def test_other_processes_can_run_a_trial(tree):
    _, config = made(tree)
    assert source_of(EXPERIMENT) == "featlearn.apply.domains.runs"
    assert pickle.loads(pickle.dumps(trials(config))) == trials(config)


def test_the_expected_time_grows_with_the_work(tree):
    _, config = made(tree)
    trial = trials(config)[0]
    more = dataclasses.replace(trial, schedule=dataclasses.replace(FAST, steps=40))
    resnet = dataclasses.replace(trial, network=Network("resnet50"))
    wide = dataclasses.replace(trial, network=Network(width=64))
    assert runs.cost(more).seconds == pytest.approx(10 * runs.cost(trial).seconds)
    assert runs.cost(resnet).seconds > runs.cost(trial).seconds
    assert runs.cost(wide).seconds > runs.cost(trial).seconds


# --- selection and tables ----------------------------------------------------------------------------------------


def row(step=10, validation=0.5, test=0.1, oracle=0.2, *, kind="step", draw=0, name="erm", held_out="a", seed=0):
    return {
        "algorithm": name,
        "held_out": held_out,
        "seed": seed,
        "draw": draw,
        "kind": kind,
        "step": step,
        "validation": validation,
        "test": test,
        "oracle": oracle,
    }


def test_training_domain_selection_takes_the_first_best_of_all_trials():
    rows = [
        row(10, 0.7, 0.1),
        row(20, 0.9, 0.2),
        row(30, 0.9, 0.3),
        row(10, 0.9, 0.4, draw=1),
        row(20, 0.8, 0.5, draw=1),
    ]
    found = scores.choose(rows, "training-domain")
    assert (found.draw, found.step, found.test) == (0, 20, 0.2)
    better = scores.choose([*rows, row(30, 0.95, 0.6, draw=1)], "training-domain")
    assert (better.draw, better.test) == (1, 0.6)
    assert scores.choose([], "oracle") is None


def test_oracle_selection_looks_at_the_last_steps_only():
    rows = [row(10, oracle=0.9), row(20, oracle=0.5, test=0.3), row(20, oracle=0.6, test=0.4, draw=1)]
    found = scores.choose(rows, "oracle")
    assert (found.draw, found.step, found.test) == (1, 20, 0.4)


def test_swad_is_judged_by_its_average():
    rows = [
        row(10, 0.99, 0.1, name="swad"),
        row(20, 0.5, 0.7, kind="average", name="swad"),
        row(15, 0.6, 0.6, kind="average", draw=1, name="swad"),
    ]
    assert scores.choose(rows, "training-domain").test == 0.6
    rows[0] = row(10, 0.99, 0.1)
    plain = scores.choose([row(10, 0.4, 0.1), row(20, 0.9, 0.8, kind="average")], "training-domain")
    assert plain.test == 0.1


def choice(name, held_out, seed, test):
    return scores.Choice(name, held_out, seed, 0, 1, 0.0, test, 0.0)


def test_means_and_standard_errors_by_hand(tree):
    _, config = made(tree, algorithms=("erm",), seeds=(0, 1, 2), held_out=("day", "dusk"))
    found = [
        choice("erm", d, s, v)
        for d, values in (("day", (0.5, 0.7, 0.9)), ("dusk", (0.1, 0.3)))
        for s, v in enumerate(values)
    ]
    day, dusk, average = scores.scores(trials(config), found)
    assert (day.domain, day.mean, day.expected) == ("day", pytest.approx(0.7), 3)
    assert day.error == pytest.approx(0.2 / math.sqrt(3))
    assert dusk.values == {0: 0.1, 1: 0.3}
    assert dusk.error == pytest.approx(math.sqrt(0.02) / math.sqrt(2))
    assert average.domain == "average"
    assert average.values == {0: pytest.approx(0.3), 1: pytest.approx(0.5)}  # seed 2 has no run of dusk
    one, none, _ = scores.scores(trials(config), found[:1])
    assert (one.mean, one.error) == (0.5, None)
    assert (none.mean, none.error, none.values) == (None, None, {})


def test_a_run_says_whether_swad_found_a_valley(tree):
    """Two evaluations cannot show three without improvement; one of one can."""
    _, config = made(tree, algorithms=("swad",), held_out=("night",))
    valley = dataclasses.replace(config, settings=Settings(swad_converge=1))
    flat, found = (run_trial(trials(c)[0]).rows[-1] for c in (config, valley))
    assert (flat["swad_converged"], flat["swad_first"], flat["swad_last"]) == (False, 2, 2)
    assert (found["swad_converged"], found["swad_first"], found["swad_last"]) == (True, 1, 2)
    assert scores.choose([flat], "training-domain").converged is False
    assert scores.choose([found], "training-domain").converged is True
    assert scores.choose([row()], "training-domain").converged is True


def test_scores_name_the_seeds_without_a_valley(tree):
    _, config = made(tree, algorithms=("swad",), seeds=(0, 1), held_out=("day", "dusk"))
    found = [
        dataclasses.replace(choice("swad", d, s, 0.5), converged=(d, s) != ("dusk", 1))
        for d in ("day", "dusk")
        for s in (0, 1)
    ]
    assert [s.without_valley for s in scores.scores(trials(config), found)] == [(), (1,), (1,)]


def test_runs_without_rows_are_named(tree):
    _, config = made(tree, algorithms=("erm",), seeds=(0,))
    all_trials = trials(config)
    hashes = [trial_hash(EXPERIMENT.id, EXPERIMENT.version, c) for c in all_trials]
    table = Rows((), missing=(hashes[0],), failed=(hashes[2],))
    found = scores.missing(all_trials, hashes, table)
    assert [(m.held_out, m.status) for m in found] == [("day", "missing"), ("night", "failed")]


def test_differences_by_hand():
    found = [choice("erm", d, s, v) for d, s, v in (("a", 0, 0.5), ("a", 1, 0.6), ("b", 0, 0.2), ("b", 1, 0.4))]
    found += [choice("erm-nu", d, s, v) for d, s, v in (("a", 0, 0.6), ("a", 1, 0.6), ("b", 0, 0.3), ("b", 1, 0.6))]
    a, b, whole = scores.compare(found, "erm", "erm-nu", ("a", "b"))
    assert (a.domain, a.n, a.mean) == ("a", 2, pytest.approx(0.05))
    assert b.mean == pytest.approx(0.15)
    assert (whole.domain, whole.n, whole.mean) == ("average", 4, pytest.approx(0.1))
    half = 3.182446 * math.sqrt(0.02 / 3) / 2  # t of 3 degrees; squared deviations 0, 0.01, 0, 0.01
    assert (whole.low, whole.high) == (pytest.approx(0.1 - half, rel=1e-5), pytest.approx(0.1 + half, rel=1e-5))
    assert whole.by_seed[0] == pytest.approx(0.1)
    assert whole.by_seed[1] == whole.by_seed[2] == pytest.approx(0.1)  # both seeds: 0.1
    assert scores.compare(found, "erm", "swad", ("a", "b")) == []
    part = scores.compare([f for f in found if (f.held_out, f.seed) != ("b", 1)], "erm", "erm-nu", ("a", "b"))
    assert part[-1].n == 3
    assert part[-1].by_seed is None  # one seed has all domains


def test_none_is_the_best_of_more_draws_than_the_other():
    """A difference of 20 points came of three draws against one."""
    row = {"kind": "step", "step": 6, "oracle": None, "seed": 0, "held_out": "A", "second": "", "draw": 0}
    rows = [row | {"algorithm": "erm", "validation": 0.5, "test": 0.5}]
    rows += [
        row | {"algorithm": "erm-nu", "draw": k, "validation": 0.5 + k / 10, "test": 0.5 + k / 10} for k in (0, 1, 2)
    ]

    def difference(status):
        gone = [scores.Missing("erm", "A", 0, k, status, "") for k in (1, 2)]
        found = scores.choices(scores.shared_draws(Rows(tuple(rows)), gone), "training-domain")
        return scores.compare(found, "erm", "erm-nu", ["A"])[0].mean

    assert difference("missing") == 0
    assert difference("diverged") == pytest.approx(0.2)  # those were tried
