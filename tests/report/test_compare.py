"""Our numbers beside the reported ones: boundaries, missing reported numbers, refused input."""

import math

import canned
import pytest

from featlearn.errors import ReportError
from featlearn.lab.estimate import Estimate
from featlearn.report.compare import against_reported

LOOKUP = {e.id: e for e in canned.work().entries}.__getitem__


def rows(value, low=None, high=None, tolerance=None, row="NTK", setting="", n=5):
    low, high = value if low is None else low, value if high is None else high
    ours = [(setting, row, "test_acc", value, low, high, n)]
    return against_reported(ours, ["toy.table1"], tolerance or {}, lookup=LOOKUP)[0]


@pytest.mark.parametrize(
    "value, half, tolerance, verdict",
    [
        (86.4, 0.0, 0.0, "reproduced"),
        (85.4, 0.0, 1.0, "reproduced"),  # exactly the tolerance, not exact in binary
        (87.4, 0.0, 1.0, "reproduced"),
        (85.39, 0.0, 1.0, "deviates"),
        (87.41, 0.0, 1.0, "deviates"),
        (84.4, 2.0, 1.0, "reproduced"),  # the interval is the wider of the two
        (82.0, 50.0, 1.0, "deviates"),  # few seeds excuse three tolerances, not everything
        (84.4, 1.99, 1.0, "deviates"),
        (84.4, 1.0, 2.0, "reproduced"),
    ],
)
def test_boundaries(value, half, tolerance, verdict):
    got = rows(value, value - half, value + half, {"test_acc": tolerance})
    assert (got.verdict, got.reported, got.entry, got.unit) == (verdict, 86.4, "toy.table1", "%")


@pytest.mark.parametrize("low, high", [(-math.inf, math.inf), (0.0, math.inf), (math.nan, math.nan)])
def test_an_infinite_interval_reproduces_nothing(low, high):
    assert rows(50.0, low, high).verdict == "deviates"


def test_a_value_that_is_not_finite_deviates():
    assert rows(math.nan, tolerance={"test_acc": 1e9}).verdict == "deviates"


def test_setting_and_row_match_exactly():
    for other in (rows(86.4, setting="d = 100"), rows(86.4, row="ntk"), rows(86.4, row="Linear")):
        assert (other.verdict, other.reported, other.entry) == ("not reported", None, "")


def test_estimates_of_the_run_room_are_taken_and_the_first_entry_wins():
    entries = {
        "a.1": canned.entry("a.1", reported=[canned.Reported("s", "r", "m", 1.0)]),
        "a.2": canned.entry("a.2", reported=[canned.Reported("s", "r", "m", 2.0)]),
    }
    ours = [Estimate(("s", "r"), "m", 2.0, 2.0, 2.0, 1), Estimate(("s", "q"), "m", 2.0, 2.0, 2.0, 1)]
    got = against_reported(ours, ["a.2", "a.1"], {}, {"m": "steps"}, entries.__getitem__)
    assert [(r.entry, r.reported, r.verdict, r.unit) for r in got] == [
        ("a.2", 2.0, "reproduced", "steps"),
        ("", None, "not reported", "steps"),
    ]


def test_the_inventory_is_the_default():
    got = against_reported([("", "NTK", "test_acc", 85.2, 84.9, 85.5, 5)], ["emergence.table1"], {"test_acc": 1.2})
    assert (got[0].reported, got[0].verdict) == (86.4, "reproduced")


@pytest.mark.parametrize(
    "estimates, tolerance, says",
    [
        ([("", "a", "m", 1.0, 1.0, 1.0, 1)], {"m": -1.0}, "tolerance"),
        ([("", "a", "m", 1.0, 1.0, 1.0, 1)], {"m": math.nan}, "tolerance"),
        ([("", "a", "m", 1.0, 1.1, 1.2, 1)], {}, "interval"),
        ([("", "a", "m", 1.0, 0.8, 0.9, 1)], {}, "interval"),
        ([("", "a", "m", 1.0, 1.0, 1.0, 0)], {}, "n = 0"),
        ([("", "a", "m", 1.0, 1.0, 1.0, 1)] * 2, {}, "twice"),
        ([Estimate(("a",), "m", 1.0, 1.0, 1.0, 1)], {}, "group"),
    ],
)
def test_refused(estimates, tolerance, says):
    with pytest.raises(ReportError, match=says) as error:
        against_reported(estimates, ["toy.table1"], tolerance, lookup=LOOKUP)
    assert "\n" not in str(error.value)
