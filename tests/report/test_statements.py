"""Limits and words of a typed statement."""

import canned_typed
import numpy as np
import pytest

from featlearn.lab.judge import judge
from featlearn.lab.quantity import REAL
from featlearn.lab.statement import order
from featlearn.lab.uncertainty import mean_of
from featlearn.report.statements import in_words, levels, limits, number_line


@pytest.mark.parametrize(
    "relation, upper, expected",
    [
        ("equal", None, (1.9, 2.1)),
        ("at most", None, (-np.inf, 2.1)),
        ("at least", None, (1.9, np.inf)),
        ("between", 3.0, (1.9, 3.1)),
        ("between", 0.0, (1.9, 0.1)),
    ],
)
def test_limits_are_those_that_the_judge_uses(relation, upper, expected):
    s = canned_typed.statement(relation=relation, value=(2.0,), margin=0.1, upper=upper)
    assert limits(s, 0) == pytest.approx(expected)


def test_a_statement_in_words():
    s = canned_typed.statement()
    assert in_words(s) == "trace: agrees from 1.95 to 2.05, observed 2.01, rival 2.5; confirmed."
    bound = canned_typed.statement(relation="at most", rival=())
    assert in_words(bound) == "trace: agrees at most 2, observed 2.01; confirmed."


def test_nothing_observed_has_no_line():
    assert number_line(canned_typed.statement(observed=(), value=(), low=(), high=(), rival=())) == []


def test_levels_are_those_of_the_judge():
    one = {"low": (1.9,), "high": (2.1,), "kept": 1, "of": 1}
    assert levels(canned_typed.statement(**one), 2) == "90 % intervals; outside where one of 97.5 % is"
    four = {
        name: value * 4 for name, value in {"value": (2.0,), "observed": (2.0,), "low": (1.9,), "high": (2.1,)}.items()
    }
    assert levels(canned_typed.statement(**four, kept=4, of=4), 3) == "90 % intervals; outside where one of 99.58 % is"
    some = canned_typed.statement(**four, kept=4, of=4, quantifier="some: a bird")
    assert levels(some, 1) == "97.5 % intervals; outside where one of 95 % is"
    assert levels(canned_typed.statement(low=(2.01,), high=(2.01,)), 3) == ""


@pytest.mark.parametrize("slack, outcome", [(1e-6, "inconclusive"), (-1e-6, "contradicted")])
def test_what_is_called_outside_is_outside_by_that_level(slack, outcome):
    found = mean_of([-3.0, -2.0, -1.0, -2.5, -1.5], REAL, "seed")
    statement = order("gain", REAL, "Table 1", delta=0.1)
    assert levels(canned_typed.statement(low=(1.9,), high=(2.1,)), 3).endswith("98.33 % is")
    end = found.moved(0.0).at(1 - 0.05 / 3)[1]
    assert judge(statement, {"gain": found.moved(0.1 - end + slack)}, 3).outcome == outcome
