"""Wrong claims that try to come out confirmed: a rule stops each of these.

What no rule of the engine can stop is at the end, as claims that do come out confirmed, so that a reader of the form
knows what a person has to look at.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import pytest

from featlearn.core.key import Key
from featlearn.errors import BadStatement, DuplicateRow, LabError, MissingUnit, NotFinite, OutOfRange, UnknownLevel
from featlearn.lab.blind import blind
from featlearn.lab.claim import Claim, verdict_of
from featlearn.lab.quantity import PERCENT, POSITIVE, REAL, SEED, SHARE
from featlearn.lab.row import Row
from featlearn.lab.statement import at_least, at_most, control, equal, order
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, mean_of

KEY = Key("test")


@dataclass(frozen=True, kw_only=True)
class Score(Row):
    key = ("model",)
    kind: Literal["score"] = "score"
    model: Literal["small", "large"]
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, PERCENT]
    samples: Annotated[float, POSITIVE] | None = None


def rows(small, large):
    return [
        Score(model=m, seed=s, accuracy=a) for m, v in (("small", small), ("large", large)) for s, a in enumerate(v)
    ]


ROWS = rows((60.0, 61.0, 62.0, 58.0, 61.5), (90.0, 91.5, 91.0, 89.0, 92.5))
GUESSING = {"rival": 50.0, "rival_says": "guessing"}


def verdict(statements, observe, *tables):
    claim = Claim(
        id="toy.wrong",
        entries=(),
        says="",
        statements=lambda s: statements,
        observe=observe,
        reads=tuple(t.kind for t in tables),
    )
    return verdict_of(claim, KEY, tables)


def reported(statement, seen, **others):
    return verdict((statement,), lambda s, key: {statement.observed_as: seen, **others}).reported


def test_rows_of_two_models_are_mixed():
    table = Table.of(Score, ROWS)
    s = at_least("accuracy", PERCENT, 70.0, "(1)", **GUESSING)
    with pytest.raises(BadStatement, match="2 values of model"):
        verdict((s,), lambda _, t: {"accuracy": t.mean("accuracy")}, table)
    with pytest.raises(DuplicateRow):
        Table.of(Score, [replace(r, model="large") for r in ROWS])


def test_what_is_nan_is_left_out():
    with pytest.raises(NotFinite):
        Table.of(Score, [*ROWS[:-1], replace(ROWS[-1], accuracy=math.nan)])
    lacking = Table.of(Score, [replace(r, samples=None if r.seed == 3 else 5.0) for r in ROWS])
    s = at_most("samples", POSITIVE, 9.0, "(1)", rival=20.0, rival_says="more")
    with pytest.raises(MissingUnit):
        verdict((s,), lambda _, t: {"samples": t.where(model="large").mean("samples")}, lacking)
    with pytest.raises(NotFinite):
        reported(s, np.array([1.0, math.nan]))


def test_failing_seeds_are_left_out():
    table = Table.of(Score, rows((60.0,) * 5, (90.0, 91.0, 92.0, 88.0, 10.0)))
    s = at_least("accuracy", PERCENT, 80.0, "(1)", **GUESSING)

    def learnt(_, t):
        return {"accuracy": t.where(model="large").keep(lambda r: r.accuracy > 50, "learnt").mean("accuracy")}

    with pytest.raises(BadStatement, match="chosen by accuracy"):
        verdict((s,), learnt, table)

    def some(_, t):
        return {"accuracy": t.where(model="large").keep(lambda r: r.seed != 4, "seeds below 4").mean("accuracy")}

    assert verdict((s,), some, table).findings[0].why == "agrees; 4 of 5 rows: seeds below 4"


def test_a_margin_is_wider_than_the_effect():
    for margin in (3.0, 5.0):
        with pytest.raises(BadStatement, match="two margins"):
            equal("accuracy", PERCENT, 55.0, "(1)", margin=margin, **GUESSING)
    with pytest.raises(BadStatement, match="within the limits"):
        at_least("accuracy", PERCENT, 55.0, "(1)", margin=5.0, **GUESSING)


def test_one_failing_instance_is_hidden_in_an_ensemble():
    s = at_most("error", POSITIVE, 1.0, "(1)", axis="instance")
    assert reported(s, np.append(np.full(999, 0.9), 1.1)) == "contradicted"
    with pytest.raises(BadStatement, match="quantifier_says"):
        at_most("error", POSITIVE, 1.0, "(1)", quantifier="some")


def test_three_seeds_agree_exactly():
    s = equal("error", POSITIVE, 0.5, "(1)", margin=0.1, rival=1.0, rival_says="one")
    assert reported(s, mean_of([0.5, 0.5, 0.5], POSITIVE, "seed")) == "inconclusive"
    assert reported(
        at_least("share", SHARE, 0.9, "(1)", rival=0.1, rival_says="few"), mean_of([1.0] * 3, SHARE, "seed")
    ) == ("inconclusive")


def test_one_seed_stands_for_all():
    s = at_least("accuracy", PERCENT, 55.0, "(1)", **GUESSING)
    assert reported(s, mean_of([99.0], PERCENT, "seed")) == "inconclusive"


def test_the_best_of_many_arms_is_taken():
    """Twenty arms of pure noise, "some arm gains": one of them is beyond its own 90 % interval."""
    rng = np.random.default_rng(2)
    arms = [mean_of(x, REAL, "seed") for x in rng.normal(0, 1, (20, 5))]
    assert any(e.at(0.9)[0] > 0 for e in arms)
    s = at_least(
        "gain", REAL, 1e-9, "(1)", rival=-9.0, rival_says="loss", quantifier="some", quantifier_says="some gain"
    )
    assert reported(s, arms) != "confirmed"


def test_names_are_averaged_and_levels_misspelt():
    table = Table.of(Score, ROWS)
    s = at_least("accuracy", PERCENT, 55.0, "(1)", **GUESSING)
    for observe, error in (
        (lambda _, t: {"accuracy": t.mean("seed")}, BadStatement),
        (lambda _, t: {"accuracy": t.where(model="Large").mean("accuracy")}, UnknownLevel),
        (lambda _, t: {"accurracy": t.where(model="large").mean("accuracy")}, MissingUnit),
    ):
        with pytest.raises(error):
            verdict((s,), observe, table)


def test_a_bound_stands_at_the_edge_of_its_domain():
    assert reported(at_most("share", SHARE, 1.0, "(1)"), np.array([0.3])) == "too weak to test"
    assert reported(at_least("share", SHARE, 1e-9, "(1)"), np.array([0.3])) == "too weak to test"
    with pytest.raises(BadStatement):
        at_most("share", SHARE, 1.0, "(1)", rival=1.01, rival_says="all and more")


def test_a_premise_drops_the_elements_that_fail():
    x = np.append(np.full(5, 0.5), np.full(195, 9.0))
    with pytest.raises(BadStatement, match="least"):
        at_most("x", POSITIVE, 0.6, "(1)", where=lambda c: c["x"] < 1, where_says="x small")
    s = at_most("x", POSITIVE, 0.6, "(1)", where=lambda c: c["x"] < 1, where_says="x small", least=5)
    claim = Claim(
        id="toy.x", entries=(), says="", statements=lambda _: (s,), observe=lambda _, k: {"x": Derived(x, {"x": x})}
    )
    assert any("which is the observation" in f for f in blind(claim, KEY))
    found = verdict_of(claim, KEY).findings[0]
    assert (found.kept, found.of) == (5, 200)


def test_percent_is_taken_for_a_share():
    with pytest.raises(OutOfRange):
        reported(at_least("x", SHARE, 0.9, "(1)", rival=0.5, rival_says="half"), np.array([95.0]))
    with pytest.raises(BadStatement, match="in plain numbers"):
        reported(
            at_most("x", PERCENT, 5.0, "(1)", rival=50.0, rival_says="half"), mean_of([0.9, 0.8, 0.85], SHARE, "seed")
        )


def test_an_arm_is_compared_with_itself_or_with_one_at_the_ceiling():
    table = Table.of(Score, rows((99.5, 99.6, 99.4, 99.5, 99.6), (99.9, 99.8, 99.9, 99.7, 99.9)))
    with pytest.raises(BadStatement):
        table.paired("accuracy", {"model": "large"}, {"model": "large"})
    s = order("gain", PERCENT, "(1)", delta=1.0)
    observe = lambda _, t: {"gain": t.paired("accuracy", {"model": "large"}, {"model": "small"})}  # noqa: E731
    assert verdict((s,), observe, table).reported == "too weak to test"
    assert verdict((s,), observe, Table.of(Score, ROWS)).reported == "confirmed"


def test_a_rival_is_made_from_the_observation():
    with pytest.raises(BadStatement, match="another observation"):
        at_most("x", REAL, 1.0, "(1)", rival=control("x"), rival_says="itself")
    x = np.array([0.5, 0.7, 0.9])
    s = at_most("x", REAL, 0.9, "(1)", rival=control("more"), rival_says="more than any has")
    claim = Claim(
        id="toy.x", entries=(), says="", statements=lambda _: (s,), observe=lambda _, k: {"x": x, "more": x * 1.001}
    )
    assert any("computed from" in f for f in blind(claim, KEY))


def test_a_wrong_sentence_is_expected_to_be_wrong_without_saying_why():
    s = at_most("x", REAL, 1.0, "(1)", rival=9.0, rival_says="nine", expect="contradicted")
    with pytest.raises(LabError, match="accuses"):
        reported(s, np.array([2.0]))


# What stays possible: each of these is wrong, and confirmed.


def confirmed_though_wrong():
    points = np.random.default_rng(0).normal(0.8, 0.1, 1000).clip(0, 1)
    few = {"rival": 0.1, "rival_says": "few"}
    yield (
        "units that are not independent",
        at_least("x", SHARE, 0.5, "(1)", **few),
        mean_of(points, SHARE, "test point"),
    )
    yield "a mean that hides an instance", at_most("x", POSITIVE, 1.0, "(1)"), float(np.mean([0.1] * 9 + [5.0]))
    yield "nan left out by hand", at_most("x", POSITIVE, 1.0, "(1)"), float(np.nanmean([0.9, math.nan]))
    yield "a rival of straw", at_most("x", POSITIVE, 100.0, "(1)", rival=101.0, rival_says="more"), 0.001
    yield "an outcome that is copied", at_most("x", POSITIVE, 0.737, "(1)", rival=2.0, rival_says="two"), 0.7369


@pytest.mark.parametrize("name, statement, seen", list(confirmed_though_wrong()))
def test_what_no_rule_stops(name, statement, seen):
    assert reported(statement, seen) == "confirmed", name
