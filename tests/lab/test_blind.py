"""Blind tests: honest claims pass for every kind of observation, and each planted fault is caught by name."""

import dataclasses
import inspect
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest
import torch

from featlearn.core.key import Key
from featlearn.errors import LabError, NotFinite
from featlearn.lab import blind as blind_module
from featlearn.lab import claim as claim_module
from featlearn.lab.blind import apart, blind, blind_rows, blind_statement, calls_of, like, without_results
from featlearn.lab.claim import Claim
from featlearn.lab.judge import judge
from featlearn.lab.quantity import COSINE, PERCENT, POINTS, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row
from featlearn.lab.statement import at_least, at_most, between, control, equal, exponent, order
from featlearn.lab.table import VALIDATION, Table
from featlearn.lab.uncertainty import Derived, Law, Waits, elements, mean_of, slope
from featlearn.measure.fourier import gini
from featlearn.tasks import boolean_xor

KEY = Key("test")
LAW = Law(lambda t, rate: rate * t, rate=2.0)
T = np.arange(1.0, 9.0)
RNG = np.random.default_rng(0)
POWER = slope(np.repeat(np.log([8.0, 16.0, 32.0]), 4), np.repeat([0.0, 0.9, 1.5], 4) + RNG.normal(0, 0.02, 12), "seed")


def near(value, quantity=REAL, spread=0.01):
    return mean_of(value + spread * np.array([-1.0, 0.5, 0.0, 1.0, -0.5]), quantity, "seed")


HONEST = {
    "number": (equal("x", REAL, 1.0, "(1)", margin=0.1, rival=2.0, rival_says="two"), 1.0),
    "array": (at_most("x", POSITIVE, np.array([1.0, 2.0, 3.0]), "(1)"), np.array([0.9, 1.9, 3.0])),
    "matrix": (at_most("x", POSITIVE, 3.0, "(1)"), np.array([[0.9, 1.9], [2.0, 3.0]])),
    "estimate": (equal("x", REAL, 1.0, "(1)", margin=0.1, rival=2.0, rival_says="two"), near(1.02)),
    "bounded estimate": (
        at_least("x", PERCENT, 80.0, "(1)", rival=50.0, rival_says="guessing"),
        near(95.0, PERCENT, 1.0),
    ),
    "share of units": (
        at_most("x", SHARE, 0.6, "(1)", rival=0.9, rival_says="most"),
        mean_of(np.zeros(5), SHARE, "seed"),
    ),
    "estimates": (
        between("x", COSINE, 0.1, 0.5, "(1)", rival=0.9, rival_says="nine"),
        [near(0.2, COSINE), near(0.4, COSINE)],
    ),
    "difference": (order("x", PERCENT, "(1)", delta=1.0), near(6.0, POINTS)),
    "fit": (exponent("x", "at most", 1.6, "(1)", rival=2.0, rival_says="two"), POWER),
    "law": (
        equal(
            "x",
            REAL,
            LAW,
            "(4.3)",
            margin=0.1,
            rival=LAW.but(rate=1.0),
            rival_says="half",
            where=lambda c: c["t"] > 2,
            where_says="t above 2",
            least=4,
        ),
        Derived(np.where(T > 2, 2 * T, 0.0), {"t": T}),
    ),
    "times": (at_least("x", POSITIVE, 5.0, "(1)", rival=1.0, rival_says="at once"), Waits(T + 5, T > 4)),
    "some": (
        at_least("x", SHARE, 0.5, "(1)", rival=0.1, rival_says="few", quantifier="some", quantifier_says="there is"),
        np.array([0.1, 0.6, 0.2]),
    ),
    "each margin": (
        equal("x", REAL, T, "(1)", margin=T / 10, rival=2 * T, rival_says="twice"),
        T * 1.05,
    ),
}


def flaws(statement, seen, judging=None, monkeypatch=None, **others):
    if judging is not None:
        monkeypatch.setattr(blind_module, "judge", judging)
    return blind_statement(statement, {"x": seen, **others}, 2, np.random.default_rng(1))


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_statement_has_no_flaw(kind):
    statement, seen = HONEST[kind]
    assert judge(statement, {"x": seen}, 2).outcome == "confirmed"
    assert flaws(statement, seen) == []


def says(outcome_of):
    """A judge whose outcome is replaced where the observation was planted."""

    def judging(statement, seen, m=1, alpha=0.05):
        found = judge(statement, seen, m, alpha)
        return dataclasses.replace(found, outcome=outcome_of(statement, seen, found))

    return judging


@pytest.mark.parametrize("kind", HONEST)
def test_a_judge_that_confirms_everything_is_caught_three_times(kind, monkeypatch):
    statement, seen = HONEST[kind]
    found = flaws(statement, seen, says(lambda s, o, f: "confirmed"), monkeypatch)
    assert any("its rival is confirmed" in f for f in found) is (statement.rival is not None)
    assert any("both ends" in f for f in found)
    assert any("past its limit" in f for f in found) is (statement.quantifier == "every")


@pytest.mark.parametrize("kind", HONEST)
def test_a_judge_without_power_is_caught(kind, monkeypatch):
    statement, seen = HONEST[kind]
    first = []

    def stingy(s, o, f):
        first.append(1)
        return "confirmed" if len(first) == 1 else "inconclusive"

    assert any("too little power" in f for f in flaws(statement, seen, says(stingy), monkeypatch))


@pytest.mark.parametrize("kind", HONEST)
def test_a_judge_that_drops_nan_is_caught(kind, monkeypatch):
    statement, seen = HONEST[kind]

    def dropping(s, o, m=1, alpha=0.05):
        try:
            return judge(s, o, m, alpha)
        except NotFinite:
            return judge(s, {"x": seen}, m, alpha)

    assert f"{statement.name}: nan is judged" in flaws(statement, seen, dropping, monkeypatch)


@pytest.mark.parametrize("kind", ["array", "matrix", "estimates", "law", "times", "each margin"])
def test_a_judge_that_looks_at_the_mean_alone_is_caught(kind, monkeypatch):
    statement, seen = HONEST[kind]

    def averaging(s, o, found):
        low, high = s.limits(found.value)
        shift = float(np.mean(found.observed - np.where(np.isfinite(low), low, high)))
        width = float(np.mean(high - low))
        return "confirmed" if (0 <= shift <= width if np.isfinite(low).all() else shift <= 0) else "contradicted"

    assert any("past its limit" in f for f in flaws(statement, seen, says(averaging), monkeypatch))


def test_the_element_farthest_from_its_limit_is_pushed_past_it(monkeypatch):
    """20 elements of 400 are drawn beside it, and this draw has not the one that the judge does not look at."""
    seen = np.where(np.arange(400) == 137, -10.0, 9.0)
    statement = at_most("x", REAL, np.full(400, 10.0), "(1)")
    found = flaws(statement, seen, says(lambda s, o, f: "confirmed" if o["x"][137] > 10 else f.outcome), monkeypatch)
    assert any("element 137 at" in f for f in found)


def test_a_margin_of_zero_for_an_equality_of_estimates_has_too_little_power():
    statement = equal("x", REAL, 1.0, "(1)", rival=2.0, rival_says="two")
    assert any("too little power" in f for f in flaws(statement, near(1.0)))
    narrow = equal("x", REAL, 1.0, "(1)", margin=0.001, rival=2.0, rival_says="two")
    assert any("too little power" in f for f in flaws(narrow, near(1.0)))


def test_statements_that_are_too_weak_or_unmet_have_no_further_flaw():
    assert flaws(at_most("x", POSITIVE, 1e6, "(1)"), np.array([1.0])) == []
    unmet = at_most("x", POSITIVE, 1.0, "(1)", where=lambda c: c["t"] > 99, where_says="t above 99", least=1)
    assert flaws(unmet, Derived(2 * np.cos(T), {"t": T})) == []


@pytest.mark.parametrize("made", [lambda x: 1.001 * x, lambda x: x + 1, lambda x: 3 - 2 * x])
def test_a_control_that_is_computed_from_the_observation_is_caught(made):
    statement = at_most("x", REAL, 0.95, "(1)", rival=control("start"), rival_says="the start")
    seen = np.array([0.1, 0.5, 0.9])
    assert any("computed from" in f for f in flaws(statement, seen, start=made(seen) + 0.0))
    assert flaws(statement, seen, start=np.array([2.0, 1.4, 1.9])) == []
    # two numbers lie on a line with any other two
    assert flaws(statement, seen[:2], start=np.array([2.0, 1.4])) == []
    trivial = at_most("x", REAL, 0.95, "(1)", rival=3.0, rival_says="three", trivial=control("start"))
    assert any("computed from" in f for f in flaws(trivial, seen, start=made(seen) + 0.0))


def test_a_control_in_the_order_of_the_observation_is_caught():
    seen = np.random.default_rng(0).uniform(1, 5, 50)
    statement = at_least("x", POSITIVE, 0.9, "(1)", rival=control("start"), rival_says="the start")
    assert any("computed from" in f for f in flaws(statement, seen, start=np.sqrt(seen) - 0.9))
    assert not any("computed from" in f for f in flaws(statement, seen, start=np.sqrt(seen[::-1]) - 0.9))


def test_a_control_of_one_number_is_watched_with_other_keys():
    statements = (at_least("x", REAL, 0.9, "(1)", rival=control("half"), rival_says="half of it"),)

    def halved(settings, key):
        x = 1 + 0.5 * key.numpy().uniform()
        return {"x": x, "half": x / 2}

    def honest(settings, key):
        return {"x": 1 + key.numpy().uniform(), "half": 0.8 * (key / "half").numpy().uniform()}

    assert any("computed from" in f for f in blind(toy(lambda s: statements, halved), KEY))
    assert blind(toy(lambda s: statements, honest), KEY) == []


@pytest.mark.parametrize("made", [np.copy, lambda x: 1.0000001 * x, lambda x: 3 - 2 * x, np.sqrt])
def test_a_premise_that_can_see_the_observation_is_caught(made):
    x = np.append(np.linspace(0.1, 0.9, 15), 7.0)
    statement = at_most("x", POSITIVE, 1.0, "(1)", where=lambda c: c["size"] < 3, where_says="small", least=3)
    assert any("which is the observation" in f for f in flaws(statement, Derived(x, {"size": made(x)})))
    other = np.random.default_rng(0).permutation(x)
    assert not any("which is the observation" in f for f in flaws(statement, Derived(x, {"size": other})))


@pytest.mark.parametrize("kind", HONEST)
def test_a_planted_observation_keeps_its_kind_and_precision(kind):
    _, seen = HONEST[kind]
    values = elements(seen, 0.9, 0.95)[0]
    planted = like(seen, values + 1)
    found = elements(planted, 0.9, 0.95)
    assert found[0] == pytest.approx(values + 1)
    if kind not in ("times", "share of units", "bounded estimate"):
        before = elements(seen, 0.9, 0.95)
        assert found[1] - before[1] == pytest.approx(np.ones_like(before[1]))


# Whole claims.


def toy(statements, observe, **more):
    return Claim(id="toy.x", entries=(), says="", statements=statements, observe=observe, **more)


STATE: dict[str, float] = {}


def test_statements_that_follow_what_was_observed_are_caught():
    def observe(settings, key):
        settings["limit"] = 0.7
        return {"x": np.array([0.65])}

    smuggled = toy(lambda s: (at_most("x", SHARE, s.get("limit", 0.9), "(1)"),), observe, settings={})
    assert any("changes once it has observed" in f for f in blind(smuggled, KEY))
    honest = toy(lambda s: (at_most("x", SHARE, 0.9, "(1)"),), lambda s, key: {"x": np.array([0.65])})
    assert blind(honest, KEY) == []


@pytest.mark.parametrize("field", ["value", "margin", "rival", "law", "upper", "where"])
def test_every_number_of_a_statement_is_watched(field):
    state = {"v": 0.1}

    def observe(settings, key):
        state["v"] = 0.2
        return {"x": Derived(np.array([0.5]), {"t": np.array([0.25])})}

    def statements(settings):
        v, law = state["v"], Law(lambda t, a: a * t, a=2 + state["v"])
        two = {"rival": 2.0, "rival_says": "two"}
        made = {
            "value": lambda: equal("x", REAL, 0.4 + v, "(1)", margin=0.3, **two),
            "margin": lambda: equal("x", REAL, 0.5, "(1)", margin=v, **two),
            "rival": lambda: equal("x", REAL, 0.5, "(1)", rival=2.0 + v, rival_says="two"),
            "law": lambda: equal("x", REAL, law, "(1)", margin=0.2, rival=law.but(a=9.0), rival_says="nine"),
            "upper": lambda: between("x", REAL, 0.3, 0.6 + v, "(1)", **two),
            "where": lambda: equal(
                "x", REAL, 0.5, "(1)", where=lambda c: c["t"] < v + 0.1, where_says="t", least=1, **two
            ),
        }
        return (made[field](),)

    assert any("changes once it has observed" in f for f in blind(toy(statements, observe), KEY))


def test_a_premise_that_is_written_anew_each_time_says_the_same():
    def statements(settings):
        more = {"where": lambda c: c["t"] > 2, "where_says": "t above 2", "least": 4}
        return (equal("x", REAL, LAW, "(4.3)", margin=0.1, rival=LAW.but(rate=1.0), rival_says="half", **more),)

    assert blind(toy(statements, lambda s, key: {"x": Derived(2 * T, {"t": T})}), KEY) == []


def by_os(path):
    found = os.open(path, os.O_RDONLY)
    try:
        return float(os.read(found, 9))
    finally:
        os.close(found)


WAYS = {
    "found.json": lambda path: float(path.read_text()),
    "found.npy": lambda path: float(np.load(path)),
    "found.txt": lambda path: float(path.read_bytes()),
    "found": by_os,
}


@pytest.mark.parametrize("where", ["statements", "settings"])
@pytest.mark.parametrize("name", WAYS)
def test_a_prediction_that_reads_a_file_is_caught(name, where, tmp_path):
    path, read = tmp_path / name, WAYS[name]
    np.save(path, 0.7) if name.endswith(".npy") else path.write_text("0.7")
    if where == "statements":
        claim = toy(lambda s: (at_most("x", SHARE, read(path), "(1)"),), lambda s, key: {"x": 0.65})
    else:
        claim = toy(
            lambda s: (at_most("x", SHARE, s, "(1)"),), lambda s, key: {"x": 0.65}, settings=lambda key: read(path)
        )
    assert set(blind(claim, KEY)) == {f"toy.x: statements read {name}"}


def test_writing_importing_and_what_a_library_reads_are_no_results(tmp_path):
    with without_results() as wanted:
        (tmp_path / "notes.txt").write_text("x")
        Path(np.__file__).read_text()
        (Path(inspect.getfile(LabError)).parent / "works/fourier/work.toml").read_text()
    assert wanted == []
    with without_results() as wanted:
        subprocess.run(["true"], check=True)
    assert "subprocess.Popen" in wanted
    before = list(wanted)
    (tmp_path / "notes.txt").read_text()
    assert wanted == before  # no one listens any more


@dataclass(frozen=True, kw_only=True)
class Score(Row):
    key = ("method",)
    kind: Literal["score"] = "score"
    method: Literal["ours", "theirs"]
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, PERCENT]


TABLE = Table.of(
    Score,
    [
        Score(method=m, seed=s, accuracy=a + b)
        for m, a in (("ours", 80.0), ("theirs", 70.0))
        for s, b in enumerate((0.0, 0.5, 1.0, 6.0))
    ],
)
ARMS = {"method": "ours"}, {"method": "theirs"}


def reading(observe):
    statements = [at_least("x", PERCENT, 79.0, "Table 1", rival=50.0, rival_says="guessing")]
    return toy(lambda s: statements, observe, reads=(Score,))


def test_an_honest_claim_on_rows_has_no_flaw():
    wide = toy(
        lambda s: [at_least("x", PERCENT, 70.0, "Table 1", rival=50.0, rival_says="guessing")],
        lambda s, table: {"x": table.where(method="ours").mean("accuracy")},
        reads=(Score,),
    )
    assert blind(wide, KEY, (TABLE,)) == []


def test_a_claim_that_hangs_on_the_names_of_its_seeds_is_caught():
    first = reading(lambda s, table: {"x": np.array([table.where(method="ours").rows[0].accuracy - 2])})
    assert any("renaming units" in f for f in blind_rows(first, KEY, (TABLE,)))
    named = reading(
        lambda s, table: {"x": np.array([r.accuracy - 4 for r in table.where(method="ours").rows if r.seed == 3])}
    )
    assert any("renaming units" in f for f in blind_rows(named, KEY, (TABLE,)))


def test_a_verdict_on_less_than_was_planned_is_caught(monkeypatch):
    claim = reading(lambda s, table: {"x": table.where(method="ours").mean("accuracy")})
    assert blind_rows(claim, KEY, (TABLE,)) == []
    monkeypatch.setattr(claim_module, "_refuse_absent", lambda claim, table: None)
    assert blind_rows(claim, KEY, (TABLE,)) == ["toy.x: Score without a planned trial is accepted"]


def test_seeds_keep_their_role_when_they_are_renamed():
    """A claim that keeps the reported seeds is an honest one."""
    worse = [dataclasses.replace(r, seed=r.seed + VALIDATION, accuracy=r.accuracy - 30) for r in TABLE.rows]
    both = Table.of(Score, [*TABLE.rows, *worse])

    def reported(settings, table):
        return {"x": table.where(method="ours").keep(lambda r: r.seed < VALIDATION, "reported seeds").mean("accuracy")}

    assert blind_rows(reading(reported), KEY, (both,)) == []


def test_more_units_than_the_rows_have_are_caught():
    many = np.repeat([r.accuracy for r in TABLE.where(method="ours").rows], 10)
    prompts = reading(lambda s, table: {"x": mean_of(many, PERCENT, "prompt")})
    assert blind(prompts, KEY, (TABLE,)) == ["toy.x: x is estimated from 40 values called prompt, of 4 units"]
    runs = dataclasses.replace(TABLE, trials=40)  # as many independent runs, whatever their seeds are called
    assert blind(prompts, KEY, (runs,)) == []
    x = np.tile(np.log([1.0, 2.0, 4.0]), 40)
    fit = slope(x, x + np.random.default_rng(0).normal(0, 0.1, x.size), "seed")
    steep = [exponent("x", "at least", 0.5, "(1)", rival=0.1, rival_says="flat")]
    claim = toy(lambda s: steep, lambda s, table: {"x": fit}, reads=(Score,))
    assert blind(claim, KEY, (TABLE,)) == ["toy.x: x is estimated from 120 values called seed, of 4 units"]


def test_a_table_that_keeps_the_order_of_rows_is_caught(monkeypatch):
    def lax(kind, rows, absent=(), **more):
        return Table(kind, tuple(rows), absent)

    monkeypatch.setattr(blind_module.Table, "of", staticmethod(lax))
    claim = reading(lambda s, table: {"x": np.array([table.rows[-1].accuracy])})
    assert "toy.x: the order of its rows changes an outcome" in blind_rows(claim, KEY, (TABLE,))


def test_a_key_with_a_single_level_can_be_left_out_too():
    claim = toy(
        lambda s: [at_least("x", PERCENT, 70.0, "Table 1", rival=50.0, rival_says="guessing")],
        lambda s, table: {"x": table.mean("accuracy")},
        reads=(Score,),
    )
    alone = Table.of(Score, [r for r in TABLE.rows if r.method == "ours"])
    assert blind_rows(claim, KEY, (alone,)) == []


# Apart.


def spread(p):
    return gini(torch.tensor([0.5, 0.25, 0.25]) * p).item()


def test_halves_that_share_a_function_of_the_package_are_caught():
    shared = toy(lambda s: (at_most("x", POSITIVE, spread(1) + 0.1, "(1)"),), lambda s, key: {"x": spread(2)})
    found = apart(shared, KEY)
    assert [f for f in found if f.endswith("measure/fourier.py:gini")]
    assert apart(shared, KEY, allowed=[f.rsplit(" ", 1)[1] for f in found]) == []
    root = Path(inspect.getfile(LabError)).parent
    calls = calls_of(lambda: shared.observe(None, KEY), root)
    assert apart(shared, KEY, ran=(calls, {"x": 0.25})) == found  # watched where it was measured anyway
    assert apart(shared, KEY, ran=(set(), {"x": 0.25})) == []
    honest = toy(lambda s: (at_most("x", POSITIVE, 0.3, "(1)"),), lambda s, key: {"x": spread(2)})
    assert apart(honest, KEY) == []


def test_settings_that_measure_are_caught():
    measured = toy(
        lambda s: (at_most("x", POSITIVE, s + 0.1, "(1)"),),
        lambda s, key: {"x": spread(2)},
        settings=lambda key: spread(1),
    )
    assert any("fourier.py:gini" in f for f in apart(measured, KEY))
    task = boolean_xor.BooleanXor(d=8)
    drawn = toy(
        lambda s: (at_most("x", REAL, 2.0, "(1)", rival=9.0, rival_says="nine"),),
        lambda s, key: {"x": float(task.sample(s, 4, key).y.abs().max()) + 0.5},
        settings=lambda key: task.draw(key),
    )
    assert apart(drawn, KEY) == []


def test_a_law_or_a_premise_that_measures_is_caught():
    law = Law(lambda t, rate: rate * t + 0 * spread(1), rate=2.0)
    for more in ({"value": law}, {"where": lambda c: c["t"] > spread(1)}):
        fields = {"value": LAW, "where": lambda c: c["t"] > 0, "where_says": "t", "least": 1, **more}
        statement = equal("x", REAL, fields.pop("value"), "(1)", rival=LAW.but(rate=1.0), rival_says="half", **fields)
        claim = toy(lambda s, made=statement: (made,), lambda s, key: {"x": Derived(2 * T + 0 * spread(2), {"t": T})})
        assert any("fourier.py:gini" in f for f in apart(claim, KEY))


def test_what_a_cache_holds_is_run_again():
    """A cached function that one half has called would leave no trace in the other."""
    signs = boolean_xor._bytes_as_signs
    claim = toy(
        lambda s: (at_most("x", REAL, float(signs().max()) + 1, "(1)"),),
        lambda s, key: {"x": float(signs().max())},
    )
    signs()
    assert any("_bytes_as_signs" in f for f in apart(claim, KEY))
