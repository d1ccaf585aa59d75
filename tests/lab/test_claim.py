"""Claims: scope, faces, what covers, and predictions that hold no measurement."""

import functools
import itertools
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest

from featlearn.core.key import Key
from featlearn.errors import BadStatement, MissingUnit
from featlearn.lab.claim import (
    HITS,
    SCOPES,
    Accusation,
    Claim,
    Premise,
    Verdict,
    broken,
    faces,
    predict,
    scope_of,
    settle,
    verdict_of,
)
from featlearn.lab.judge import Finding
from featlearn.lab.quantity import PERCENT, REAL, SEED
from featlearn.lab.row import Row
from featlearn.lab.statement import OUTCOMES, Statement, at_least, at_most, both, equal
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, Waits, mean_of

KEY = Key("test")
ACCUSED = Accusation(quote="x = 2", place="Section 1", reading="for all d", hits="number", derivation="1 + 0 = 1")


def claim(statements=None, seen=None, **more):
    given = {"statements": lambda settings: statements, "observe": lambda settings, key: seen, **more}
    return Claim(id="toy.claim", entries=("toy.lemma1",), says="x is one", **given)


def statement(name="x", **more):
    return equal(name, REAL, 1.0, "(1)", **{"rival": 2.0, "rival_says": "two", **more})


def finding(outcome, form="reported", name="x", twin="", expect="confirmed"):
    none = np.zeros(1)
    made = Statement(
        name=name,
        quantity=REAL,
        relation="equal",
        value=1.0,
        source="(1)",
        rival=2.0,
        rival_says="two",
        form=form,
        twin=twin,
        expect=expect,
    )
    return Finding(made, outcome, "", none, none, none, none)


def verdict(findings, scope="as stated", error=""):
    reported, corrected = faces(findings)
    made = claim((statement(),), {"x": 1.0})
    return Verdict(
        claim=made, reported=reported, corrected=corrected, scope=scope, findings=tuple(findings), error=error
    )


# Scope.


@pytest.mark.parametrize("kinds", [k for n in range(4) for k in itertools.product("mnus", repeat=n)])
def test_truth_table_of_scopes(kinds):
    """met, not decidable, unmet, unmet size: every combination of up to three premises."""
    made = {
        "m": Premise("a", True),
        "n": Premise("a", None),
        "u": Premise("a", False),
        "s": Premise("a", False, size=True),
    }
    words = {"m": "as stated", "n": "premise not decidable", "u": "premise unmet", "s": "other size"}
    expected = min((words[k] for k in kinds), key=SCOPES.index, default="as stated")
    assert scope_of([made[k] for k in kinds]) == expected


def test_a_size_that_is_not_decidable_is_not_decidable():
    assert scope_of([Premise("a", None, size=True)]) == "premise not decidable"


# Faces, expectation, cover.


@pytest.mark.parametrize("one", OUTCOMES)
@pytest.mark.parametrize("two", OUTCOMES)
def test_truth_table_of_faces(one, two):
    worse = min(one, two, key=OUTCOMES.index)
    for form in ("reported", "derived", "criterion"):
        assert faces([finding(one, form), finding(two, name="y")]) == (worse, "")
    pair = [finding(one, name="x, as reported"), finding(two, "corrected", twin="x, as reported")]
    assert faces(pair) == (one, two)
    for third in OUTCOMES:
        both_worse = [min(o, third, key=OUTCOMES.index) for o in (one, two)]
        assert faces([*pair, finding(third, name="z")]) == tuple(both_worse)
        assert faces([finding(third, name="z"), *reversed(pair)]) == tuple(both_worse)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("form", ["reported", "derived", "criterion", "audit"])
def test_truth_table_of_cover(outcome, form, scope):
    made = verdict([finding(outcome, form)], scope)
    expected = (
        outcome in ("confirmed", "contradicted") and form in ("reported", "criterion") and scope != "premise unmet"
    )
    assert made.covers is expected
    assert not verdict([finding(outcome, form)], scope, error="Traceback").covers


def test_a_weak_statement_beside_a_strong_one_covers_nothing():
    assert not verdict([finding("confirmed"), finding("too weak to test", name="y")]).covers
    assert verdict([finding("confirmed"), finding("confirmed", "derived", name="y")]).covers
    corrected = finding("confirmed", "corrected", twin="x, as reported")
    assert verdict([finding("contradicted", name="x, as reported", expect="contradicted"), corrected]).covers


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("expect", OUTCOMES)
def test_a_claim_is_as_expected_if_every_statement_is(outcome, expect):
    alike = outcome == expect
    assert verdict([finding(outcome, expect=expect)]).as_expected is alike
    assert verdict([finding("confirmed", name="y"), finding(outcome, expect=expect)]).as_expected is alike
    assert not verdict([finding(outcome, expect=expect)], error="Traceback").as_expected


def test_a_claim_that_could_not_be_judged_is_neither_expected_nor_cover():
    for outcome in OUTCOMES:
        for error in ("", "EmptyArm"):
            made = broken(claim((statement(),), {}), outcome, "no rows", error)
            assert (made.as_expected, made.covers, made.reported) == (False, False, outcome)


# Predictions.


def test_a_claim_is_judged_statement_by_statement():
    reported, corrected = both("y", REAL, "(2)", reported=2.0, corrected=1.0, says="a factor of two")
    made = claim(
        (statement(), reported, corrected),
        {"x": 1.0, "y": 1.0},
        accuses=ACCUSED,
        premises=(Premise("d is large", None),),
    )
    found = verdict_of(made, KEY)
    assert [f.outcome for f in found.findings] == ["confirmed", "contradicted", "confirmed"]
    assert (found.reported, found.corrected, found.scope) == ("contradicted", "confirmed", "premise not decidable")
    assert found.as_expected
    assert found.covers
    assert found.why == "y, as reported: lies outside the limits"


def test_the_number_of_statements_is_what_contradiction_is_corrected_by():
    e = mean_of([1.0, 2.0, 3.0, 2.5, 1.5], REAL, "seed")
    limit = (e.at(0.95)[0] + e.at(1 - 0.05 / 4)[0]) / 2
    alone = at_most("a", REAL, limit, "(1)", of="x", rival=9.0, rival_says="nine")
    others = [at_most(n, REAL, 5.0, "(1)", of="x", rival=9.0, rival_says="nine") for n in "bcd"]
    assert verdict_of(claim((alone,), {"x": e}), KEY).reported == "contradicted"
    assert verdict_of(claim((alone, *others), {"x": e}), KEY).reported == "inconclusive"


def test_settings_and_observation_are_drawn_apart():
    seen = []
    made = Claim(
        id="toy.drawn",
        entries=(),
        says="",
        settings=lambda key: seen.append(key) or 3,
        statements=lambda s: (statement(),),
        observe=lambda s, key: seen.append(key) or {"x": float(s) - 2},
    )
    assert verdict_of(made, KEY).reported == "confirmed"
    assert seen == [KEY / "toy.drawn" / "settings", KEY / "toy.drawn" / "observe"]


@pytest.mark.parametrize(
    "statements, words",
    [
        ((), "no statement"),
        ((statement(), statement()), "one name"),
        ((statement(form="corrected", twin="y"),), "corrects 'y'"),
        ((statement(expect="contradicted"),), "accuses"),
    ],
)
def test_statements_that_do_not_fit_each_other_are_refused(statements, words):
    with pytest.raises(BadStatement, match=words):
        verdict_of(claim(statements, {"x": 1.0}), KEY)


def test_a_threshold_of_ours_that_is_not_met_accuses_nobody_but_at_the_reported_size():
    missed = (statement(form="criterion", expect="contradicted"),)
    smaller = (Premise("p = 97", False, "p = 47", size=True),)
    verdict = verdict_of(claim(missed, {"x": 3.0}, premises=smaller), KEY)
    assert (verdict.reported, verdict.scope, verdict.as_expected) == ("contradicted", "other size", True)
    with pytest.raises(BadStatement, match="accuses"):
        verdict_of(claim(missed, {"x": 3.0}), KEY)


def test_an_accusation_needs_every_part():
    parts = {"quote": "x = 2", "place": "1", "reading": "all d", "hits": "proof", "derivation": "1 + 0 = 1"}
    assert Accusation(**parts).hits in HITS
    for name in ("quote", "place", "reading", "derivation"):
        with pytest.raises(BadStatement, match=name):
            Accusation(**{**parts, name: ""})
    with pytest.raises(BadStatement, match="hits"):
        Accusation(**{**parts, "hits": "theorem"})


@dataclass(frozen=True, kw_only=True)
class Score(Row):
    key = ()
    kind: Literal["score"] = "score"
    seed: Annotated[int, SEED]
    accuracy: Annotated[float, PERCENT]


ROWS = [Score(seed=s, accuracy=90.0 + s) for s in range(5)]
TABLE = Table.of(Score, ROWS)
MEASURED = {
    "row": ROWS[0],
    "table": TABLE,
    "estimate": TABLE.mean("accuracy"),
    "derived": Derived(np.ones(2)),
    "waits": Waits(np.ones(1), np.zeros(1, bool)),
}


@dataclass(frozen=True)
class Config:
    d: int
    found: object


@pytest.mark.parametrize("kind", MEASURED)
def test_settings_that_hold_a_measurement_are_refused(kind):
    for held in (MEASURED[kind], [1, MEASURED[kind]], {"a": (MEASURED[kind],)}, Config(3, MEASURED[kind])):
        with pytest.raises(BadStatement, match="settings hold a"):
            settle(claim((statement(),), {}, settings=held), KEY)
        with pytest.raises(BadStatement, match="settings hold a"):
            settle(claim((statement(),), {}, settings=lambda key, held=held: held), KEY)
    assert settle(claim((statement(),), {}, settings=[Config(3, "x")]), KEY) == [Config(3, "x")]


def from_module(settings):
    return (at_least("x", PERCENT, float(ROWS[0].accuracy), "(1)"),)


def from_argument(settings, rows=ROWS):
    return (at_least("x", PERCENT, float(rows[0].accuracy), "(1)"),)


def from_partial(best, settings):
    return (at_least("x", PERCENT, best.value, "(1)"),)


@dataclass
class Keeper:
    rows: list

    def statements(self, settings):
        return from_argument(settings, self.rows)


def test_statements_that_hold_rows_are_refused():
    def closing(settings, table=None):
        return (at_least("x", PERCENT, best.value, "(1)"),)

    best = TABLE.mean("accuracy")
    for way in (closing, from_module, from_argument, functools.partial(from_partial, best), Keeper(ROWS).statements):
        with pytest.raises(BadStatement, match="statements hold a"):
            predict(Claim(id="toy.x", entries=(), says="", statements=way, observe=lambda s, k: {}), None)


def test_a_measurement_that_observe_did_not_return_is_missing():
    with pytest.raises(MissingUnit):
        verdict_of(claim((statement("z"),), {"x": 1.0}), KEY)


def test_a_claim_on_rows_is_given_its_tables_and_no_key():
    made = Claim(
        id="toy.rows",
        entries=(),
        says="",
        reads=(Score,),
        statements=lambda s: (at_least("a", PERCENT, 80.0, "(1)", rival=50.0, rival_says="guessing", form="derived"),),
        observe=lambda s, table: {"a": table.mean("accuracy")},
        premises=lambda s, table: (Premise("five seeds", len(table) == 5),),
    )
    found = verdict_of(made, KEY, (TABLE,))
    assert (found.reported, found.scope, found.covers) == ("confirmed", "as stated", False)
    assert found.premises[0].met
