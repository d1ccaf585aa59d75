"""Limits and words of a typed statement."""

import canned_typed
import numpy as np
import pytest

from featlearn.report.statements import in_words, limits, number_line


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
