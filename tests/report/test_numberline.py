"""Number lines: what lies where, that all of it lies inside, and that it can be read on a phone."""

import itertools
import math
import re
from xml.etree import ElementTree

import canned
import canned_typed
import numpy as np
import pytest

from featlearn.report import numberline, statements
from featlearn.report.numberline import marks

PHONE, DESK = 310, 704
"""Pixels of a line on a screen of 390 and at most."""
LETTER = 6.8


def drawn(found, words="words"):
    """The SVG as a tree; what stands below it is left out."""
    text = str(numberline.line(found, words))
    return ElementTree.fromstring(text[: text.rindex("</svg>") + len("</svg>")])


def share(text):
    return float(text.removesuffix("%")) / 100


def across(svg, cls):
    """Where the strokes of a class of the lane begin, as shares of the width."""
    return [
        float(x) / 1000 for e in svg.iter("path") if e.get("class") == cls for x in re.findall(r"M([\d.]+)", e.get("d"))
    ]


def interval(svg, cls="interval"):
    (d,) = [e.get("d") for e in svg.iter("path") if e.get("class") == cls]
    a, b = re.fullmatch(r"M([\d.]+) [\d.]+H([\d.]+)", d).groups()
    return float(a) / 1000, float(b) / 1000


def band(svg):
    (rect,) = svg.iter("rect")
    x = share(rect.get("x"))
    return x, x + share(rect.get("width"))


def of(svg, shape):
    """Shares at which a shape is drawn: "cross", "diamond" or "dot"."""
    if shape == "dot":
        return [share(c.get("cx")) for c in svg.iter("circle")]
    return [share(s.get("x")) for s in svg.iter("svg") if any(p.get("class") == shape for p in s.findall("path"))]


def texts(svg, width):
    """Every text with its ends in pixels."""
    out = []
    for e in svg.iter("text"):
        x, wide = share(e.get("x")) * width, LETTER * len(e.text)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[e.get("text-anchor")]
        out.append((e.text, left, left + wide, float(e.get("y"))))
    return out


def check_inside(found):
    """Nothing leaves the box, no letters meet, at either width."""
    svg = drawn(found)
    height = float(svg.get("height"))
    (lane,) = [s for s in svg.findall("svg") if s.get("viewBox")]
    _, _, wide, high = map(float, lane.get("viewBox").split())
    assert float(lane.get("y")) + high <= height
    for path in lane.iter("path"):
        for x, y in re.findall(r"M([\d.-]+) ([\d.-]+)", path.get("d")):
            assert 0 <= float(x) <= wide
            assert 0 <= float(y) <= high
        assert all(0 <= float(x) <= wide for x in re.findall(r"H([\d.-]+)", path.get("d")))
        assert all(0 <= float(y) <= high for y in re.findall(r"V([\d.-]+)", path.get("d")))
    left, right = band(svg)
    assert -1e-9 <= left <= right <= 1 + 1e-9
    for width in (PHONE, DESK):
        for shape, reach in (("dot", 5), ("cross", 5), ("diamond", 6)):
            assert all(reach <= x * width <= width - reach for x in of(svg, shape)), shape
        found_texts = texts(svg, width)
        assert all(a >= -0.5 and b <= width + 0.5 for _, a, b, _ in found_texts), found_texts
        assert all(0 < y <= height for *_, y in found_texts)
        for y in {y for *_, y in found_texts}:
            row = sorted((a, b) for _, a, b, at in found_texts if at == y)
            assert all(one[1] <= two[0] for one, two in itertools.pairwise(row)), found_texts


# seven numbers that give one axis: 0.9 to 1.1 agree, the rival is 2
ONE = {"least": [0.9], "largest": [1.1], "observed": [1.05], "low": [1.0], "high": [1.2], "rival": [2.0]}


def test_limits_observation_interval_and_rival_lie_where_they_belong():
    svg = drawn(marks(**ONE))
    # the axis goes from 0.9 to 2 with 4 % of it left free at each end, within 4 % of the width on each side
    low, high = 0.9 - 0.04 * 1.1, 2.0 + 0.04 * 1.1

    def at(v):
        return 0.04 + 0.92 * (v - low) / (high - low)

    assert band(svg) == pytest.approx((at(0.9), at(1.1)), abs=1e-3)
    assert across(svg, "edge") == pytest.approx([at(0.9), at(1.1)], abs=1e-3)
    assert interval(svg) == pytest.approx((at(1.0), at(1.2)), abs=1e-3)
    assert of(svg, "dot") == pytest.approx([at(1.05)], abs=1e-3)
    assert of(svg, "cross") == pytest.approx([at(2.0)], abs=1e-3)
    assert of(svg, "cross")[0] > band(svg)[1]
    for text, *_ in texts(svg, PHONE):
        (tick,) = [e for e in svg.iter("text") if e.text == text]
        assert share(tick.get("x")) == pytest.approx(at(float(text)), abs=1e-3)
    check_inside(marks(**ONE))


@pytest.mark.parametrize("least, largest, ends", [(-math.inf, 1.0, (0.0, None)), (1.0, math.inf, (None, 1.0))])
def test_a_bound_is_a_band_to_the_end_of_the_axis(least, largest, ends):
    svg = drawn(marks([least], [largest], [0.5 if largest == 1 else 1.5], rival=[3.0 if largest == 1 else 0.2]))
    assert [b for b, e in zip(band(svg), ends, strict=True) if e is not None] == [e for e in ends if e is not None]
    assert len(across(svg, "edge")) == 1
    assert not band(svg)[0] < of(svg, "cross")[0] < band(svg)[1]


def test_a_scale_of_logarithms_only_for_positive_numbers_far_apart():
    far = {"least": [1e-3], "largest": [2e-3], "observed": [1.5e-3], "rival": [10.0]}
    svg = drawn(marks(**far))
    low, high = 1e-3 / (1e4**0.03), 10 * 1e4**0.03
    where = 0.04 + 0.92 * math.log(1.5e-3 / low) / math.log(high / low)
    assert of(svg, "dot") == pytest.approx([where], abs=1e-3)
    assert {"10⁻³", "0.01", "10"} & {t for t, *_ in texts(svg, DESK)}
    check_inside(marks(**far))
    for linear in ({"rival": [-10.0]}, {"observed": [3e-18]}):  # the second is a rounding error
        found = drawn(marks(**far | linear))
        assert not {"10⁻³", "0.01"} & {t for t, *_ in texts(found, DESK)}


def test_a_rival_too_far_away_stands_aside_with_its_number():
    svg = drawn(marks([-0.1], [0.1], [0.05], rival=[20.0]))
    assert "20 →" in {t for t, *_ in texts(svg, PHONE)}
    assert of(svg, "cross")[0] > 0.95
    assert band(svg)[1] - band(svg)[0] > 0.3  # what agrees is still seen
    check_inside(marks([-0.1], [0.1], [0.05], rival=[20.0]))
    left = drawn(marks([-0.1], [0.1], [0.05], rival=[-12345.6]))
    assert "← −12300" in {t for t, *_ in texts(left, PHONE)}
    assert of(left, "cross")[0] < 0.05
    check_inside(marks([-0.1], [0.1], [0.05], rival=[-12345.6]))


def test_rounding_errors_are_a_point_on_the_scale_of_the_rival():
    svg = drawn(marks([-1e-12], [1e-12], [1e-16], rival=[0.5]))
    assert of(svg, "cross")[0] - of(svg, "dot")[0] > 0.8


def test_many_elements_are_ticks_with_the_one_nearest_to_failing_marked():
    seen = np.linspace(0.0, 1.0, 50)
    found = marks(np.full(50, -math.inf), np.full(50, 1.2), seen, seen - 0.1, seen + 0.1, np.full(50, 2.0))
    assert found.worst == 49
    svg = drawn(found)
    assert len(across(svg, "seen")) == 50
    assert of(svg, "dot") == pytest.approx([max(across(svg, "seen"))], abs=1e-3)
    assert interval(svg)[1] > band(svg)[1] - 0.06
    check_inside(found)


@pytest.mark.parametrize(
    "least, largest, observed, axis, limits, seen",
    [
        ([0.9, 1.9], [1.1, 2.1], [1.0, 2.05], "difference from the prediction", (-0.1, 0.1), [0.0, 0.05]),
        ([0.9, 1.0], [1.1, 3.0], [1.05, 2.5], "difference from the prediction, in tolerances", (-1, 1), [0.5, 0.5]),
        ([1.0, 2.0], [math.inf] * 2, [1.5, 2.1], "difference from the bound", (0, math.inf), [0.5, 0.1]),
        ([-math.inf] * 2, [1.0, 100.0], [0.5, 80.0], "share of the bound", (-math.inf, 1.0), [0.5, 0.8]),
    ],
)
def test_limits_of_their_own_have_one_axis(least, largest, observed, axis, limits, seen):
    found = marks(least, largest, observed)
    assert found.axis == axis
    assert (found.least, found.largest) == pytest.approx(limits)
    assert found.observed == pytest.approx(seen)
    assert axis in str(numberline.line(found, "w"))


def test_numbers_that_share_their_leading_digits_are_shown_as_differences():
    found = marks([0.43499], [0.43501], [0.435001], rival=[0.43510])
    assert found.axis == "difference from 0.435"
    assert found.rival == pytest.approx((1e-4,))
    check_inside(found)


def test_the_end_of_the_domain_is_a_wall_where_it_is_near():
    near = {"least": [-math.inf], "largest": [0.2], "observed": [0.25], "rival": [0.8]}
    assert len(across(drawn(marks(**near, domain=(0.0, 1.0))), "wall")) == 2
    assert len(across(drawn(marks(**near, domain=(-50.0, None))), "wall")) == 0


def test_what_has_learnt_nothing_is_a_diamond_and_stands_in_the_key():
    svg = drawn(marks(**ONE, trivial=[1.6]))
    assert band(svg)[1] < of(svg, "diamond")[0] < of(svg, "cross")[0]
    assert "nothing learnt" in numberline.key(trivial=True)
    assert "nothing learnt" not in numberline.key()
    s = canned_typed.verdicts()[3].statements[0]
    assert s.trivial_value == (1.0,)
    assert 'class="diamond"' in str(statements.number_line(s)[0])


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_observations_that_are_not_finite_are_counted(lost):
    found = marks([0.0] * 3, [1.0] * 3, [0.5, lost, 0.7])
    assert found.observed == (0.5, 0.7)
    assert "1 of 3 not finite" in str(numberline.line(found, "w"))
    assert marks([0.0], [1.0], [lost]) is None


def test_names_are_escaped():
    text = str(statements.number_line(canned_typed.statement(name=canned.NASTY))[0])
    assert "<script>" not in text
    assert canned.NASTY in drawn(marks(**ONE), f"{canned.NASTY}").get("aria-label")


def test_all_lines_of_the_canned_claims_stay_inside_and_refuse_their_rivals():
    for verdict in canned_typed.verdicts():
        for s in verdict.statements:
            low, high = ([math.nan if e is None else e for e in v] for v in (s.low, s.high))
            ends = [statements.limits(s, i) for i in range(len(s.observed))]
            found = marks(*zip(*ends, strict=True), s.observed, low, high, s.rival, s.trivial_value, s.domain)
            check_inside(found)
            if s.rival and s.outcome == "confirmed":
                (cross,) = of(drawn(found), "cross")
                assert not band(drawn(found))[0] <= cross <= band(drawn(found))[1], s.name


def test_lines_of_random_numbers_stay_inside():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.choice([1, 2, 7, 60]))
        centre = rng.normal(0, 10.0 ** rng.integers(-9, 9), n) if rng.random() < 0.6 else np.full(n, rng.normal())
        half = 10.0 ** rng.uniform(-12, 3, n if rng.random() < 0.3 else 1) * np.ones(n)
        seen = centre + half * rng.normal(0, 1, n)
        wide = half * rng.random(n)
        least = centre - half if rng.random() < 0.8 else np.full(n, -math.inf)
        rival = centre + half * 10.0 ** rng.uniform(0, 9) * rng.choice([-1, 1])
        check_inside(marks(least, centre + half, seen, seen - wide, seen + wide, rival if rng.random() < 0.9 else ()))


def test_a_line_survives_anything_that_is_observed():
    inf, nan = np.inf, np.nan
    odd = [
        ([-inf], [inf], [1.0], [0.5]),
        ([nan], [nan], [1.0], [0.5]),
        ([0.0], [0.0], [0.0], [0.0]),
        ([-1e-12], [1e-12], [1e-16], [0.05]),
        ([], [], [], []),
        ([1.0] * 3, [1.0] * 3, [1.0, nan, 1.0], [2.0] * 3),
        ([0.9, -inf], [1.1, inf], [1.0, 1.0], [2.0, 2.0]),
        ([1e300], [1e300], [1e300], [-1e300]),
        ([0.0], [0.0], [5e-324], [1e-320]),
    ]
    found = [marks(least, largest, seen, rival=rival) for least, largest, seen, rival in odd]
    assert [f is not None for f in found] == [True, False, True, True, False, True, True, True, True]
    assert all(numberline.line(f, "words") for f in found if f is not None)
