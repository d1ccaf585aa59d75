"""Statements: what could not fail, or contradicts itself, is refused when it is made."""

import math

import numpy as np
import pytest

from featlearn.errors import BadStatement
from featlearn.lab.quantity import COSINE, COUNT, EXPONENT, PERCENT, POSITIVE, SHARE
from featlearn.lab.statement import (
    OUTCOMES,
    Statement,
    at_least,
    at_most,
    between,
    both,
    control,
    equal,
    exponent,
    order,
)
from featlearn.lab.uncertainty import Law

RIVAL = {"rival": 0.2, "rival_says": "none"}


def test_short_forms_set_relation_form_and_quantity():
    made = equal("x", SHARE, 0.5, "(1)", **RIVAL)
    assert (made.relation, made.form, made.expect, made.observed_as) == ("equal", "reported", "confirmed", "x")
    assert at_most("x", SHARE, 0.5, "(1)").relation == "at most"
    assert at_least("x", SHARE, 0.5, "(1)").relation == "at least"
    assert between("x", SHARE, 0.2, 0.5, "(1)").upper == 0.5
    assert equal("x", SHARE, 0.5, "(1)", form="derived", **RIVAL).form == "derived"
    assert exponent("x", "at most", 1.0, "(1)", of="slope").quantity is EXPONENT
    assert at_most("x", SHARE, 0.5, "(1)", of="y").observed_as == "y"


def test_an_order_is_a_difference_of_at_least_delta_whose_rival_is_none():
    made = order("gain", PERCENT, "Table 1", delta=2.0)
    assert (made.relation, made.value, made.rival) == ("at least", 2.0, 0.0)
    assert (made.quantity.low, made.quantity.high, made.quantity.unit) == (-100.0, 100.0, "%")
    assert not order("gain", COUNT, "Table 1", delta=0.5).quantity.whole
    for delta in (0.0, -1.0, math.nan):
        with pytest.raises(BadStatement, match="delta"):
            order("gain", PERCENT, "Table 1", delta=delta)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"source": ""}, "source"),
        ({"margin": -0.1}, "margin"),
        ({"margin": math.nan}, "margin"),
        ({"margin": math.inf}, "margin"),
        ({"margin": np.array([0.01, -0.01])}, "margin"),
        ({"rival": None}, "without rival"),
        ({"rival_says": ""}, "without words"),
        ({"value": math.nan}, "not finite"),
        ({"value": 1.5}, "from 0 to 1"),
        ({"rival": 1.5}, "cannot be"),
        ({"rival": math.nan}, "cannot be"),
        ({"rival": 0.5}, "within the limits"),
        ({"margin": 0.16}, "two margins"),
        ({"margin": 0.5}, "two margins"),
        ({"where": lambda c: c["t"] > 0}, "where_says"),
        ({"where_says": "t > 0"}, "where_says"),
        ({"where": lambda c: c["t"] > 0, "where_says": "t > 0"}, "least"),
        ({"least": 3}, "least"),
        ({"quantifier": "share", "share": 1.0, "quantifier_says": "most"}, "share"),
        ({"quantifier": "some"}, "quantifier_says"),
        ({"quantifier_says": "there exists"}, "quantifier_says"),
        ({"rival": control("x")}, "another observation"),
        ({"trivial": control("x")}, "another observation"),
        ({"relation": "between", "upper": 0.4}, "upper"),
        ({"relation": "between"}, "upper"),
    ],
)
def test_what_could_not_fail_is_refused(fields, words):
    good = {"name": "x", "quantity": SHARE, "relation": "equal", "value": 0.5, "source": "(1)", "margin": 0.1, **RIVAL}
    Statement(**good)
    with pytest.raises(BadStatement, match=words) as caught:
        Statement(**{**good, **fields})
    assert "'x'" in str(caught.value)


def test_a_rival_exactly_two_margins_away_is_allowed():
    equal("x", SHARE, 0.5, "(1)", margin=0.15, **RIVAL)


def test_a_rival_must_be_refused_in_as_many_elements_as_the_quantifier_needs():
    value, rival = np.array([0.1, 0.5, 0.9]), np.array([0.1, 0.5, 0.2])
    equal("x", SHARE, value, "(1)", rival=rival, rival_says="flat")
    for quantifier, share in (("some", 1.0), ("share", 0.6)):
        with pytest.raises(BadStatement, match="rival within"):
            equal(
                "x",
                SHARE,
                value,
                "(1)",
                rival=rival,
                rival_says="flat",
                quantifier=quantifier,
                share=share,
                quantifier_says="there is",
            )


def test_how_many_elements_are_needed():
    some = {"quantifier": "some", "quantifier_says": "there is"}
    most = {"quantifier": "share", "share": 0.75, "quantifier_says": "three quarters"}
    counts = [[at_most("x", SHARE, 0.5, "(1)", **q).needed(n) for n in (1, 4, 5)] for q in ({}, some, most)]
    assert counts == [[1, 4, 5], [1, 1, 1], [1, 3, 4]]


def test_limits_carry_the_margin_outward():
    v = np.array([2.0, 3.0])
    ends = {
        "equal": ([1.5, 2.5], [2.5, 3.5]),
        "at most": ([-math.inf] * 2, [2.5, 3.5]),
        "at least": ([1.5, 2.5], [math.inf] * 2),
        "between": ([1.5, 2.5], [4.5, 4.5]),
    }
    for relation, (low, high) in ends.items():
        made = Statement(
            name="x",
            quantity=POSITIVE,
            relation=relation,
            value=v,
            source="(1)",
            margin=0.5,
            upper=4.0,
            rival=0.1 if relation == "at least" else 9.0,
            rival_says="far",
        )
        assert made.limits(v)[0].tolist() == low
        assert made.limits(v)[1].tolist() == high
        assert made.inside(np.array([1.5, 9.0]), v).tolist() == [True, relation == "at least"]


def test_each_element_keeps_its_own_margin():
    made = at_most("x", POSITIVE, np.array([1.0, 2.0, 3.0]), "(1)", margin=np.array([0.1, 0.2, 0.3]))
    part = made.only(np.array([False, True, True]))
    assert part.margin.tolist() == [0.2, 0.3]
    assert made.margin.tolist() == [0.1, 0.2, 0.3]
    scalar = at_most("x", POSITIVE, 1.0, "(1)")
    assert scalar.only(np.array([True])) is scalar


def test_two_forms_are_each_the_others_rival():
    reported, corrected = both("norm", COSINE, "Lemma C.4", reported=0.5, corrected=0.25, says="half", margin=0.01)
    assert (reported.name, reported.form, reported.expect) == ("norm, as reported", "reported", "contradicted")
    assert (corrected.form, corrected.twin, corrected.expect) == ("corrected", reported.name, "confirmed")
    assert (reported.value, reported.rival) == (corrected.rival, corrected.value)
    assert reported.observed_as == corrected.observed_as == "norm"
    with pytest.raises(BadStatement, match="two margins"):
        both("norm", COSINE, "Lemma C.4", reported=0.5, corrected=0.49, says="half", margin=0.01)


def test_laws_are_checked_when_they_are_judged():
    law = Law(lambda t, rate: rate * t, rate=2.0)
    assert equal("x", POSITIVE, law, "(1)", rival=law.but(rate=1.0), rival_says="slower").value is law


def test_outcomes_go_from_worst_to_best():
    assert OUTCOMES == ("contradicted", "not run", "data needed", "inconclusive", "too weak to test", "confirmed")
