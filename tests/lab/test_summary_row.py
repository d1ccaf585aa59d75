"""Summary rows: intervals stay in the range of what they are of, and differences of percentages are points."""

import pytest

from featlearn.errors import ReportError
from featlearn.lab.experiment import SummaryRow
from featlearn.report import tables


def row(value, low, high, unit="%", **more):
    return SummaryRow("", "r", "m", value, low, high, 3, unit=unit, **more)


def test_an_interval_of_percentages_ends_at_0_and_100():
    assert (row(3.5, -3.6, 10.8).low, row(99.5, 98.0, 101.0).high) == (0.0, 100.0)
    assert (row(3.5, -3.6, 10.8, "points").low, row(2.0, 0.5, 130.0, "steps").high) == (-3.6, 130.0)


@pytest.mark.parametrize("value", [-0.2, 100.2])
def test_a_percentage_beyond_its_range_is_refused(value):
    with pytest.raises(
        ReportError, match=f"m = {value:g} % is not allowed: 0 to 100; give a difference the unit points"
    ):
        row(value, value - 1, value + 1)


def test_the_tolerance_that_decides_is_shown():
    judged = row(50.0, 49.0, 51.0, reported=51.0, verdict="reproduced", tolerance=1.5)
    grid = tables.long([judged, row(50.0, 49.0, 51.0)])
    at = [name for name, _ in grid.columns].index("tolerance")
    assert [r[at] for r in grid.rows] == ["1.5", "–"]
    assert "tolerance" not in [name for name, _ in tables.long([row(50.0, 49.0, 51.0)]).columns]
