"""Pictures on canned data: what is drawn, where, and in which colour."""

import canned
import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from featlearn.errors import ReportError
from featlearn.lab.pending import Case, Evidence
from featlearn.report import cases, plots, style

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


def marks(axes):
    return {line.get_marker(): line.get_xdata()[0] for line in axes.lines}


def test_cases_scalar_shows_prediction_band_observation_rival():
    case = Case("trace", predict=1.0, observe=1.01, rival=1.2, tolerance=0.05)
    (axes,) = cases.cases_picture(Evidence([case])).axes
    assert marks(axes) == {"X": 1.2, "o": 1.01}
    band = axes.patches[0]
    assert np.allclose([band.get_x(), band.get_x() + band.get_width()], [0.95, 1.05])
    assert axes.collections[0].get_segments()[0][:, 0].tolist() == [1.0, 1.0]
    assert axes.get_xscale() == "linear"


@pytest.mark.parametrize("relation, side", [("at most", "right"), ("at least", "left")])
def test_cases_bound_allows_one_side(relation, side):
    observe = 0.2 if relation == "at most" else 5e5
    (axes,) = cases.cases_picture(
        Evidence([Case("b", predict=5e3, observe=observe, rival=None, relation=relation, vacuous="later")])
    ).axes
    band, (low, high) = axes.patches[0], axes.get_xlim()
    assert axes.get_xscale() == "log"
    ends = (low, 5e3) if side == "right" else (5e3, high)
    assert np.allclose([band.get_x(), band.get_x() + band.get_width()], ends)


def test_cases_of_one_unit_share_an_axis_only_where_rivals_stay_visible():
    near = [
        Case(f"c{i}", predict=v, observe=v, rival=v * 1.5, tolerance=0.1 * v, unit="s")
        for i, v in enumerate((1.0, 2.0))
    ]
    assert len(cases.cases_picture(Evidence(near)).axes) == 1
    far = [
        Case(f"c{i}", predict=v, observe=v, rival=v * 1.01, tolerance=0.001 * v, unit="s")
        for i, v in enumerate((1.0, 1e6))
    ]
    assert len(cases.cases_picture(Evidence(far)).axes) == 2
    units = [
        Case("a", predict=1.0, observe=1.0, rival=2.0, unit="s"),
        Case("b", predict=1.0, observe=1.0, rival=2.0, unit="m"),
    ]
    assert [a.get_xlabel() for a in cases.cases_picture(Evidence(units)).axes] == ["value (s)", "value (m)"]


def test_cases_arrays_and_their_abscissa():
    x = np.linspace(1, 2, 30)
    case = Case("decay", predict=1 / x, observe=1 / x + 0.01, rival=1.2 / x, tolerance=0.02, unit="nats")
    axes = cases.cases_picture(Evidence([case], data={"decay x": x})).axes[0]
    predict, rival, observe = axes.lines
    assert predict.get_xdata().tolist() == x.tolist()
    assert np.allclose(observe.get_ydata(), case.observe)
    assert np.allclose(rival.get_ydata(), case.rival)
    assert axes.get_ylabel() == "value (nats)"
    many = Case("many", predict=np.cos(np.arange(100.0)), observe=np.cos(np.arange(100.0)), rival=2.0, tolerance=0.1)
    axes = cases.cases_picture(Evidence([many])).axes[0]
    assert np.all(np.diff(axes.lines[0].get_ydata()) >= 0)
    assert "sorted" in axes.get_xlabel()


def test_cases_picture_survives_anything_a_check_returns():
    odd = [
        Case("inf", predict=np.inf, observe=1.0, rival=0.5, relation="at most"),
        Case("nan", predict=np.nan, observe=1.0, rival=0.5),
        Case("zero", predict=0.0, observe=0.0, rival=0.0),
        Case("tiny", predict=0.0, observe=1e-16, rival=0.05, tolerance=1e-12),
        Case("dollars $x_1$", predict=1.0, observe=1.0, rival=2.0, tolerance=np.inf),
        Case("empty", predict=np.zeros(0), observe=np.zeros(0), rival=np.zeros(0)),
        Case("2-d", predict=np.ones((3, 4)), observe=np.ones((3, 4)), rival=2.0, tolerance=np.full((3, 4), 0.1)),
        Case("nan array", predict=np.ones(3), observe=np.array([1, np.nan, 1]), rival=2.0),
    ]
    for evidence in [Evidence([c]) for c in odd] + [Evidence(odd)]:
        cases.cases_picture(evidence).canvas.draw()
    assert cases.cases_picture(Evidence()) is None


def test_failures_are_shown_first_where_not_all_fit():
    many = [Case(f"c{i}", predict=1.0, observe=1.0, rival=2.0, tolerance=0.1, unit=str(i)) for i in range(30)]
    many.append(Case("bad", predict=1.0, observe=1.5, rival=2.0, tolerance=0.1, unit="bad"))
    figure = cases.cases_picture(Evidence(many))
    assert "bad" in figure.axes[0].get_title(loc="left")
    assert len(figure.axes) == cases.MAX_PANELS


def test_cases_data_is_flat():
    rows = cases.cases_data(canned.evidence("holds"))
    assert len(rows) == 4 + 30
    assert rows[0] == {
        "case": "trace",
        "element": 0,
        "relation": "equal",
        "predict": 1.0,
        "observe": 1.01,
        "rival": 1.2,
        "tolerance": 0.05,
        "unit": "",
    }
