"""The standard picture of a typed claim: what is drawn where, and that it can be read."""

import dataclasses
import itertools

import canned_typed
import numpy as np
import pytest

from featlearn.report import statements, style
from featlearn.report.statements import limits, statements_picture

PHONE = 332
"""Pixels that a picture has on a phone of 390: the page and the frame take the rest."""


def boxes(figure):
    """Every text of a drawn figure with its box and its height of letters in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with style.applied(float(figure.get_size_inches()[0])):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        found = [t for ax in figure.axes for t in (ax.xaxis.label, ax.yaxis.label, ax.title, ax._left_title)]
        for ax in figure.axes:
            for axis in (ax.xaxis, ax.yaxis):
                low, high = sorted(axis.get_view_interval())
                ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
                found += [label for where, label in ticks if low <= where <= high]
        for legend in figure.legends:
            found += legend.get_texts()
        found += figure.texts
        kept = [t for t in found if t.get_visible() and t.get_text().strip()]
        return [(t.get_text(), t.get_window_extent(canvas.get_renderer()), t.get_size()) for t in kept]


def check_text(figure):
    """No text leaves the figure or crosses another, and all of it can be read on a phone."""
    width, height = figure.get_size_inches() * figure.dpi
    found = boxes(figure)
    assert len(found) > 3
    for text, box, size in found:
        ends = [box.x0, width - box.x1, box.y0, height - box.y1]
        assert min(ends) >= -0.5, text
        assert size * 96 / 72 * PHONE / (96 * figure.get_size_inches()[0]) >= 8, text
    for (one, a, _), (two, b, _) in itertools.combinations(found, 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, (one, two)


@pytest.mark.parametrize("i", range(5))
def test_text_stays_inside_apart_and_readable_on_a_phone(i):
    check_text(statements_picture(canned_typed.verdicts()[i].statements).figure)


def test_text_stays_apart_where_names_and_numbers_are_long():
    one = canned_typed.statement(
        name="a_name_without_any_space_" * 12, value=(1.23456e-7,), observed=(9.87654e6,), low=(1e-9,), high=(1e9,)
    )
    two = canned_typed.statement(
        name="$x_1$ and more " * 30, value=(-1234.5678,), observed=(-1234.6,), rival=(-1235.0,)
    )
    low = dataclasses.replace(two, low=(None,), high=(None,), margin=0.0, quantity="percent", unit="%")
    check_text(statements_picture([one, two, low] * 3).figure)


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


def one_axes(s):
    (axes,) = statements_picture([s]).figure.axes
    return axes


def marks(axes, marker):
    return [line for line in axes.lines if line.get_marker() == marker]


def test_one_value_is_a_band_a_dot_with_its_interval_and_a_cross():
    s = canned_typed.statement(observed=(2.01,), low=(1.98,), high=(2.03,))
    axes = one_axes(s)
    (band,) = axes.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((1.95, 2.05))
    assert [list(m.get_xdata()) for m in marks(axes, "o")] == [[2.01]]
    assert [list(m.get_xdata()) for m in marks(axes, "X")] == [[2.5]]
    (interval,) = axes.collections
    assert interval.get_segments()[0][:, 0] == pytest.approx((1.98, 2.03))


@pytest.mark.parametrize("relation, side", [("at most", 0), ("at least", 1)])
def test_a_bound_is_a_band_to_one_side(relation, side):
    axes = one_axes(canned_typed.statement(relation=relation))
    (band,) = axes.patches
    ends = (band.get_x(), band.get_x() + band.get_width())
    assert ends[side] == pytest.approx(axes.get_xlim()[side])
    assert ends[1 - side] == pytest.approx((2.05, 1.95)[side])


def test_many_elements_with_one_limit_have_a_row_each_and_share_one_where_they_coincide():
    n = 6
    many = {"value": (2.0,) * n, "rival": (2.5,) * n, "at": tuple(range(n)), "of": n, "kept": n}
    seen = tuple(np.linspace(1.95, 2.05, n))
    apart = one_axes(canned_typed.statement(**many, observed=seen, low=seen, high=seen))
    assert len(set(marks(apart, "o")[0].get_ydata())) == n
    same = one_axes(canned_typed.statement(**many, observed=(2.0,) * n, low=(2.0,) * n, high=(2.0,) * n))
    assert len(set(marks(same, "o")[0].get_ydata())) == 1


def test_limits_that_differ_are_sorted_by_predicted_value():
    value, seen = (3.0, 1.0, 2.0), (3.1, 1.1, 2.1)
    s = canned_typed.statement(value=value, observed=seen, low=seen, high=seen, rival=(6.0, 2.0, 4.0), at=(0, 1, 2))
    axes = one_axes(s)
    assert list(marks(axes, "o")[0].get_ydata()) == [1.1, 2.1, 3.1]
    assert list(marks(axes, "X")[0].get_ydata()) == [2.0, 4.0, 6.0]
    assert "sorted by predicted value" in axes.get_xlabel()


@pytest.mark.parametrize("domain, shown", [((0.0, 1.0), [0.0, 1.0]), ((0.0, None), [0.0]), ((-50.0, 50.0), [])])
def test_ends_of_the_domain_are_drawn_where_they_are_near(domain, shown):
    s = canned_typed.statement(
        value=(0.2,), observed=(0.25,), low=(0.2,), high=(0.3,), rival=(0.8,), domain=domain, relation="at most"
    )
    axes = one_axes(s)
    assert sorted(line.get_xdata()[0] for line in axes.lines if line.get_linewidth() == 4) == shown
    legend = [t.get_text() for t in axes.figure.legends[0].get_texts()]
    assert legend == ["predicted (limits)", "observed", "rival", *(["domain end"] if shown else [])]


def test_a_scale_of_logarithms_only_for_positive_numbers_far_apart():
    far = canned_typed.statement(value=(1e-3,), observed=(1e-3,), low=(1e-3,), high=(1e-3,), rival=(10.0,), margin=0.0)
    assert one_axes(far).get_xscale() == "log"
    assert one_axes(dataclasses.replace(far, rival=(-10.0,))).get_xscale() == "linear"


def test_where_not_all_fit_those_that_are_not_confirmed_come_first():
    fine, bad = canned_typed.statement(), canned_typed.statement(outcome="inconclusive")
    picture = statements_picture([fine] * 14 + [bad])
    assert len(picture.figure.axes) == statements.MOST
    assert "inconclusive (expected: confirmed)" in picture.figure.axes[0].get_title(loc="left")
    assert picture.figure._supxlabel.get_text() == "3 more statements are in the table"
    check_text(picture.figure)


def test_the_picture_in_words_and_numbers():
    j = canned_typed.verdicts()[0]
    picture = statements_picture(j.statements)
    assert "trace: predicted 1.95 to 2.05, observed 2.01, rival 2.5; confirmed." in picture.alt
    rows = [r for r in picture.data if r["statement"] == "trace"]
    assert [(r["least"], r["largest"], r["observed"], r["rival"]) for r in rows] == [(1.95, 2.05, 2.01, 2.5)]
    assert len(picture.data) == sum(len(s.observed) for s in j.statements)
    assert statements_picture([]) is None
