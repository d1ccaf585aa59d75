"""Quantities: what a number can be."""

import math

import pytest

from featlearn.lab.quantity import COSINE, COUNT, PERCENT, POINTS, POSITIVE, REAL, SEED, SHARE


@pytest.mark.parametrize(
    "quantity, inside, outside",
    [
        (SHARE, (0.0, 0.5, 1.0), (-1e-12, 1.0001, math.nan)),
        (PERCENT, (0.0, 100.0), (-0.1, 100.1)),
        (COSINE, (-1.0, 1.0), (-1.01, 1.01)),
        (COUNT, (0.0, 7.0), (-1.0, 2.5)),
        (POSITIVE, (0.0, 1e300), (-1e-300,)),
        (POINTS, (-100.0, 100.0), (100.5,)),
        (REAL, (-1e300, 1e300), (math.nan,)),
    ],
)
def test_a_domain_holds_its_ends_and_nothing_beyond(quantity, inside, outside):
    assert all(map(quantity.holds, inside))
    assert not any(map(quantity.holds, outside))


def test_only_shares_and_the_like_are_bounded_and_only_names_are_nominal():
    assert [q.bounded for q in (SHARE, PERCENT, COSINE, POINTS)] == [True] * 4
    assert [q.bounded for q in (COUNT, POSITIVE, REAL)] == [False] * 3
    assert SEED.nominal
    assert not COUNT.nominal


def test_chance_is_a_copy():
    assert PERCENT.at_chance(50.0).chance == 50.0
    assert PERCENT.chance is None
