"""Pictures on canned data: what is drawn, where, and in which colour."""

import itertools

import canned
import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from featlearn.errors import ReportError
from featlearn.report import plots, style

# Machado, Oliveira and Fernandes 2009, severity 1: linear RGB as seen with protanopia, deuteranopia, tritanopia
BLINDNESS = {
    "none": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, matrix):
    srgb = np.array(to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(matrix @ linear, 0, 1) / (XYZ @ np.ones(3))
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", BLINDNESS)
def test_method_colours_stay_apart(kind):
    seen = [lab(c, BLINDNESS[kind]) for c in style.METHODS.values()]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(gaps) > 10  # about 2.3 is just noticeable


def test_without_structure_is_lighter_and_dashed():
    look = style.series_styles(["Network", "Network w/o structure", "mine", "other"])
    assert look["Network"].dash == "-"
    assert look["Network w/o structure"].dash == "--"
    assert lab(look["Network w/o structure"].colour, np.eye(3))[0] > lab(look["Network"].colour, np.eye(3))[0] + 15
    assert look["mine"].colour != look["other"].colour
    assert style.series_styles(["NTK"])["NTK"].colour == style.series_styles(["RF", "NTK"])["NTK"].colour


def test_users_settings_are_as_before_also_after_an_error():
    before = dict(matplotlib.rcParams)
    plots.curves(style.figure(), [plots.Series("a", [1, 2], [1, 2])], "x", "y")
    with pytest.raises(ReportError):
        plots.curves(style.figure(), [plots.Series("a", [1, 2], [1])], "x", "y")
    assert dict(matplotlib.rcParams) == before


def test_letters_are_readable_at_400_pixels():
    for width in (4.0, 6.0, 7.0, 9.0):
        points = style.settings(width)["xtick.labelsize"]
        assert points / 72 * 400 / width >= 9, width  # in pixels, smallest letters


def test_curves_draw_the_interval():
    x = np.arange(20.0)
    axes = plots.curves(style.figure(), [plots.Series("Network", x, x, x - 3, x + 5)], "step", "accuracy (%)")
    (band,) = axes.collections
    assert band.get_paths()[0].get_extents().ymin == -3
    assert band.get_paths()[0].get_extents().ymax == 24
    assert axes.lines[0].get_color() == style.METHODS["Network"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "accuracy (%)")


def test_axes_made_outside_the_style_take_it():
    axes = style.figure().subplots(1, 2)[0]
    plots.curves(axes, [plots.Series("a", [1, 2], [1, 2])], "x", "y", title="left")
    assert not axes.spines["top"].get_visible()
    assert axes.get_title(loc="left") == "left"
    assert axes.xaxis.label.get_size() == style.settings(6.0)["axes.labelsize"]


def test_curves_log_and_print():
    series = [plots.Series("NTK", [1, 10], [1e-3, 1.0])]
    axes = plots.curves(style.figure(), series, "n", "error", log="xy", reported={"NTK": [(5, 0.1)]})
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.lines[1].get_xydata().tolist() == [[5, 0.1]]


@pytest.mark.parametrize("bad", [{"y": [1]}, {"low": [0, 0]}, {"low": [0], "high": [2, 2]}])
def test_curves_refuse_what_does_not_match(bad):
    with pytest.raises(ReportError, match="'a'"):
        plots.curves(style.figure(), [plots.Series("a", **({"x": [1, 2], "y": [1, 2]} | bad))], "x", "y")


def test_bars_show_ours_print_and_interval():
    rows = [r for r in canned.summary() if r.metric == "test_acc"]
    axes = plots.bars_against_reported(style.figure(), rows, "test_acc", baseline=50)
    assert [round(p.get_width(), 6) for p in axes.patches] == [round(r.value, 6) for r in rows]
    assert all(p.get_x() == 0 for p in axes.patches)
    diamonds = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "D"]
    assert diamonds == [r.reported for r in rows if r.reported is not None]
    ends = sorted(x for c in axes.collections for p in c.get_paths() for x in p.vertices[:, 0])
    assert np.allclose(ends, sorted(v for r in rows for v in (r.low, r.high)))
    assert [t.get_text() for t in axes.get_yticklabels()] == [r.row for r in rows]
    assert axes.get_xlabel() == "test_acc (%)"
    with pytest.raises(ReportError, match="'f1'"):
        plots.bars_against_reported(style.figure(), rows, "f1")


def test_neuron_map_colours():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    panels = [
        plots.NeuronPanel("init", points, np.ones(2), -np.ones(2)),
        plots.NeuronPanel("step 2", points, np.ones(2), -np.ones(2), [True, False, False], [False, False, True]),
    ]
    first, second = plots.neuron_map(style.figure(9, 3.4), panels)
    grey, plus, minus, red, orange = second.collections
    assert [len(c.get_offsets()) for c in first.collections] == [3, 0, 0, 1, 1]
    assert [c.get_offsets().tolist() for c in (grey, plus, minus)] == [[[1, 0]], [[0, 0]], [[2, 0]]]
    assert red.get_offsets().tolist() == [[1, 1]]
    assert second.get_xlabel() == "1 + 1 of 3 near a star"
    assert np.allclose(red.get_facecolors()[0][:3], to_rgb(style.STAR_PLUS))
    assert np.allclose(orange.get_facecolors()[0][:3], to_rgb(style.STAR_MINUS))
    five = plots.neuron_map(style.figure(9, 6.8), [panels[0]] * 5)
    assert len(five) == 5
    assert five[3].get_position().y0 < five[0].get_position().y0
    with pytest.raises(ReportError, match=r"\(n, 2\)"):
        plots.neuron_map(style.figure(), [plots.NeuronPanel("x", np.zeros((3, 3)), np.ones(2), np.ones(2))])


def spans(texts, renderer):
    return [t.get_window_extent(renderer) for t in texts if t.get_text()]


@pytest.mark.parametrize(("steps", "shown"), [((12, 400), {"30", "100", "300"}), ((15, 70), {"20", "50"})])
def test_ticks_of_a_short_logarithmic_axis_and_titles_of_panels_do_not_overlap(steps, shown):
    rise = plots.Series.of("Network", {steps[0]: [49.0, 51.0], steps[1]: [98.0, 99.0]})
    titles = [f"Fashion-MNIST, Gaussian, ResNet({i})" for i in range(3)]
    picture = plots.line_picture(
        [plots.Panel([rise], "step", "accuracy (%)", title=t, log="x") for t in titles], "Accuracy."
    )
    canvas, axes = FigureCanvasAgg(picture.figure), picture.figure.axes
    canvas.draw()
    renderer = canvas.get_renderer()
    labels = spans([*axes[0].get_xticklabels(), *axes[0].get_xticklabels(minor=True)], renderer)
    assert all(one.x1 < two.x0 for one, two in itertools.pairwise(sorted(labels, key=lambda b: b.x0)))
    assert {t.get_text() for t in axes[0].get_xticklabels()} >= shown
    heads = spans([a._left_title for a in axes], renderer)
    assert all(one.x1 < two.x0 for one, two in itertools.pairwise(heads))
    assert heads[-1].x1 < picture.figure.bbox.x1
