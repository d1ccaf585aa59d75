"""One style for every picture: a colour per method, sizes that stay readable at 400 pixels.

The hues are Okabe and Ito's, which stay apart for the common kinds of colour blindness; a method without input
structure keeps its hue, lighter and dashed, so the pair reads as a pair.
"""

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

METHODS: Mapping[str, str] = {
    "Network": "#0072B2",
    "NTK": "#D55E00",
    "RF": "#E69F00",
    "One Step": "#56B4E9",
    "Two Step": "#009E73",
    "Linear": "#CC79A7",
}
WITHOUT = (" w/o structure", ", without the norm")
REPORTED = "#1F2328"  # reported numbers: near black, hollow diamonds
OBSERVE = "#0072B2"
RIVAL = "#D55E00"
STAR_PLUS = "#D62728"  # the ground truth, red, as in the paper
STAR_MINUS = "#F28E2B"  # its negative, orange
NEURON = "#8A94A0"
FONT = "DejaVu Sans"
FONTS = "'DejaVu Sans', Verdana, 'Bitstream Vera Sans', 'Liberation Sans', Arial, sans-serif"
"""Fonts of text in SVG: laid out in the first, which is as wide as Verdana and wider than all others."""
_OTHERS = ("#7F6A00", "#5B4FA2", "#A1284E", "#3B7A78", "#6E6E6E", "#8C564B")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")


@dataclass(frozen=True)
class SeriesStyle:
    """How one series is drawn."""

    colour: str
    dash: str
    marker: str
    hatch: str


def lighter(colour: str, share: float = 0.45) -> str:
    """The colour mixed with white: share 0 leaves it, 1 gives white."""
    rgb = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * share):02X}" for c in rgb)


def series_styles(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """A style per name: fixed for the methods, by order of first appearance for other names.

    Example:
        >>> series_styles(["Network", "Network w/o structure"])["Network w/o structure"].dash
        '--'
    """
    out: dict[str, SeriesStyle] = {}
    others: list[str] = []
    for name in names:
        base = next((name.removesuffix(w) for w in WITHOUT if name.endswith(w)), name)
        if base in METHODS:
            hue, marker = METHODS[base], _MARKERS[list(METHODS).index(base)]
        else:
            if base not in others:
                others.append(base)
            i = others.index(base)
            hue, marker = _OTHERS[i % len(_OTHERS)], _MARKERS[i % len(_MARKERS)]
        plain = base == name
        out[name] = SeriesStyle(hue if plain else lighter(hue), "-" if plain else "--", marker, "" if plain else "///")
    return out


def settings(width: float | int) -> dict[str, Any]:
    """matplotlib settings for a figure `width` inches wide: letters grow with the figure, so that any width shown at
    400 pixels has letters of about 10 pixels."""
    size = min(max(1.85 * width, 9.0), 17.0)
    return {
        "font.family": [FONT],
        "font.size": size,
        "axes.titlesize": size,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": size,
        "axes.labelcolor": "#1F2328",
        "axes.edgecolor": "#6B7380",
        "axes.linewidth": 0.9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.xmargin": 0.03,
        "grid.color": "#E3E6EA",
        "grid.linewidth": 0.8,
        "xtick.labelsize": 0.9 * size,
        "ytick.labelsize": 0.9 * size,
        "xtick.color": "#4A525C",
        "ytick.color": "#4A525C",
        "legend.fontsize": 0.9 * size,
        "legend.frameon": False,
        "legend.handlelength": 1.8,
        "legend.columnspacing": 1.2,
        "lines.linewidth": 2.0,
        "lines.markersize": 6.5,
        "hatch.linewidth": 0.8,
        "figure.facecolor": "white",
        "axes.facecolor": "white",
        "savefig.facecolor": "white",
        "svg.fonttype": "none",  # text stays text: small, and a reader can search and copy it
        "svg.hashsalt": "featlearn",  # the same figure gives the same bytes
        "text.usetex": False,
        "mathtext.fontset": "dejavusans",
    }


@contextmanager
def applied(width: float | int = 6.0) -> Generator[None, None, None]:
    """The project's style inside a `with`; the user's matplotlib settings are as before afterwards.

    Example:
        >>> with applied(6.0):
        ...     axes = figure(6.0, 3.6).subplots()
    """
    import matplotlib

    rc: Any = settings(width)
    with matplotlib.rc_context(rc):
        yield


def figure(width: float | int = 6.0, height: float | int = 3.6) -> Any:
    """A matplotlib Figure, inches, outside pyplot (so nothing is registered or shown), laid out without overlaps.

    Axes added to it later take the style of the moment: add them inside `with applied(width)`.
    """
    from matplotlib.figure import Figure

    with applied(width):
        return Figure(figsize=(width, height), layout="constrained", dpi=110)


_UP = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def powers(text: str) -> str:
    r"""What matplotlib writes at a scale of logarithms, as plain text: no formula has to be set for it.

    Example:
        >>> powers(r"$\mathdefault{10^{-3}}$"), powers(r"$\mathdefault{2\times10^{4}}$"), powers("1")
        ('10⁻³', '2×10⁴', '1')
    """
    found = re.fullmatch(r"\$\\mathdefault\{(-?[\d.]*)(?:\\times)?(?:10\^\{(-?\d+)\})?\}\$", text)
    if found is None:
        return text
    factor, power = found[1].replace("-", "−"), found[2]
    if power is None:
        return factor
    return (f"{factor}×" if factor.strip("−") else factor) + f"10{power.translate(_UP)}"


def plain_powers(formatter: Any) -> Any:
    """A formatter of matplotlib that writes what this one does, by `powers`."""
    from matplotlib.ticker import Formatter

    class Plain(Formatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return powers(formatter(x, pos))

        def set_locs(self, locs: Any) -> None:
            super().set_locs(locs)
            formatter.set_locs(locs)

    return Plain()
