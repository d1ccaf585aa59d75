"""Pictures as files: drawn beside each other, kept while nothing they depend on changes, text as text."""

import functools
import io
import os
import re
from pathlib import Path

import canned
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from featlearn.lab.experiment import Rows
from featlearn.report import pictures, plots, style
from featlearn.report.pictures import Drawn, Job, drawing, made
from featlearn.works.emergence.experiments.pictures import draw as committed


def draw_one(rows):
    """Importable by a process of its own."""
    return {"toy.table1": plots.curves(style.figure(), [plots.Series("a", [1, 2], [1.0, 2.0])], "x", "y").figure}


def draw_broken(rows):
    raise ZeroDivisionError("no rows")


def draw_and_die(rows):
    os._exit(3)


def half(rows):
    return {**draw_one(rows), "toy.figure3": plots.Picture(None)}


def job(draw, owner="toy/a"):
    return Job(owner, f"experiment.{owner}", draw, Rows(({"x": 1.0},)))


def test_letters_are_text_in_fonts_that_readers_have():
    ((drawn, files),) = made(job(draw_one))
    text = files["svg"].decode()
    assert drawn.kinds == ("svg",)
    assert "<text" in text
    assert "<use" not in "".join(re.findall(r'<g id="text_\d+">.*?</g>', text, re.S))
    found = re.findall(r"(?:font-family: |font: [^;\"]*px )([^;\"]*)", text)  # matplotlib 3.8 writes the latter
    assert found
    assert set(found) == {style.FONTS}


def test_a_picture_that_is_too_large_as_svg_is_pixels(monkeypatch):
    monkeypatch.setattr(pictures, "SVG_MOST", 100)
    ((drawn, files),) = made(job(draw_one))
    assert drawn.kinds == ("png",)
    assert files["png"].startswith(b"\x89PNG")


def boxes(figure, dpi):
    with style.applied(float(figure.get_size_inches()[0])):
        figure.set_dpi(dpi)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        found = [t for ax in figure.axes for t in (ax.xaxis.label, ax.yaxis.label, ax.title, ax._left_title)]
        for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
            low, high = sorted(axis.get_view_interval())
            ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
            found += [label for where, label in ticks if low <= where <= high]  # others are there and not drawn
        found += [t for legend in figure.legends for t in legend.get_texts()] + figure.texts
        kept = [t for t in found if t.get_visible() and t.get_text().strip()]
        return [(t.get_text(), t.get_window_extent(canvas.get_renderer())) for t in kept]


def test_no_text_leaves_a_figure_that_is_laid_out_once():
    figures = [p.figure if isinstance(p, plots.Picture) else p for p in canned.draw(None).values()]
    assert len(figures) == 2
    for figure in figures:
        with style.applied(float(figure.get_size_inches()[0])):
            pictures._settle(figure)
        width, height = figure.get_size_inches() * 72
        found = boxes(figure, 72)
        assert len(found) > 8
        for text, box in found:
            assert min(box.x0, width - box.x1, box.y0, height - box.y1) >= -0.5, text


def test_the_titles_of_four_panels_do_not_cross():
    curve = plots.Series("training", [1, 10, 100], [50.0, 80.0, 100.0])
    panels = [plots.Panel([curve], "alpha x steps", "accuracy (%)", f"d = {d}, n = 100, alpha = 0.1") for d in "1234"]
    figure = plots.line_picture(panels, "").figure
    with style.applied(float(figure.get_size_inches()[0])):
        pictures._settle(figure)
    found = [box for text, box in boxes(figure, 72) if text.startswith("d = ")]
    assert len(found) == 4
    assert not any(a.overlaps(b) for i, a in enumerate(found) for b in found[:i])


def test_powers_of_ten_are_plain_text():
    figure = plots.curves(style.figure(), [plots.Series("a", [1, 1000], [1e-5, 1.0])], "x", "y", log="xy").figure
    with style.applied(6.0):
        pictures._settle(figure)
        figure.savefig(io.BytesIO(), format="svg")
    labels = [t.get_text() for t in figure.axes[0].get_yticklabels()]
    assert "10⁻³" in labels
    assert not any("$" in t for t in labels)


@pytest.mark.parametrize("draw, owner", [(draw_broken, "toy/a"), (functools.partial(draw_broken), "toy/b")])
def test_what_drawing_raises_is_words(draw, owner):
    assert made(job(draw, owner)) == ["the picture could not be drawn: ZeroDivisionError: no rows"]


def test_a_picture_that_cannot_be_saved_costs_itself_alone():
    one, two = made(job(half))
    assert isinstance(one[0], Drawn)
    assert two.startswith("toy.figure3: the picture could not be drawn: AttributeError")


def test_several_are_drawn_by_other_processes_and_one_that_ends_costs_its_picture_alone(monkeypatch):
    monkeypatch.setattr(pictures, "cores", lambda: 2)
    monkeypatch.setattr(pictures, "made", functools.partial(_fail_here, os.getpid(), pictures.made))
    jobs = [job(draw_one, f"toy/{i}") for i in range(4)] + [job(draw_and_die, "toy/dies")]
    with drawing(jobs) as of:
        found = {j.owner: of(j.owner) for j in jobs}
    assert [len(found[f"toy/{i}"]) for i in range(4)] == [1] * 4
    assert {f[0][1]["svg"] for o, f in found.items() if o != "toy/dies"} == {made(jobs[0])[0][1]["svg"]}
    assert found["toy/dies"][0].startswith("the picture could not be drawn: BrokenProcessPool")


def _fail_here(pid, make, job):
    assert os.getpid() != pid, "drawn in the process of the test"
    return make(job)


def test_what_cannot_be_sent_is_drawn_here(monkeypatch):
    monkeypatch.setattr(pictures, "cores", lambda: 1)
    with drawing([job(lambda rows: draw_one(rows))]) as of:
        assert len(of("toy/a")) == 1
        assert of("toy/other") == []


def test_a_key_changes_with_rows_code_settings_and_the_drawing_code(monkeypatch):
    rows = Rows(({"x": 1.0},), missing=("a",))
    first = pictures.key(committed, rows, "small")
    assert first
    assert first == pictures.key(committed, Rows(({"x": 1.0},), missing=("a",)), "small")
    others = [
        pictures.key(committed, Rows(({"x": 2.0},), missing=("a",)), "small"),
        pictures.key(committed, Rows(({"x": 1.0},)), "small"),
        pictures.key(committed, rows, "paper"),
        pictures.key(plots.plain_ticks, rows, "small"),
    ]
    monkeypatch.setattr(pictures, "_engine", lambda: "another")
    others.append(pictures.key(committed, rows, "small"))
    assert len({first, *others}) == 6


def test_what_cannot_be_known_has_no_key():
    assert pictures.key(draw_one, Rows(())) == ""  # code outside of the package
    assert pictures.key(committed, object()) == ""


def test_the_drawing_code_covers_its_own_files():
    assert Path(pictures.__file__).name in pictures.SHARED
    assert len(pictures._engine()) == 64
