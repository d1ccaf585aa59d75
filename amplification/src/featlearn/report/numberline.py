"""A number line as inline SVG: what agrees, what was observed, and what does not agree.

Positions across are shares of the width, so that letters and marks keep their size at any width; colours are those of
the style sheet, light and dark.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from featlearn.report.html import Html, tag

EDGE = 0.04
"""Share of the width on each side that marks leave free."""
ASIDE = 0.24
"""Share of the width for a value that lies too far away to be drawn to scale."""
NARROW = 280
"""Pixels of the narrowest line: labels that would meet there are left out."""
HEIGHT, TOP, BOTTOM = 46, 4, 28  # of the whole and of the lane, in pixels
_MIDDLE = (TOP + BOTTOM) / 2
_LETTER = 6.8  # pixels of a digit, generously
_LOG_RATIO, _NOISE = 30.0, 1e12  # positive numbers this far apart: logarithms; further, the least is a rounding error
_FAR, _POINT = 25.0, 1e6  # a value this many widths away stands aside; beyond, the rest is a point to its scale
_NEAR = 0.35  # an end of the domain within this share of the axis is shown
_FINE = 1e-3  # an axis shorter than this share of its numbers shows differences


@dataclass(frozen=True)
class Marks:
    """What one number line shows.

    least, largest: the numbers between which all agrees, infinite where there is no limit. observed, low, high: of each
    element, with the ends of its interval (an open end is the observation itself). worst: the element nearest to
    failing. rival, trivial: values that should not agree, or none. domain: what the quantity can be, None where it has
    no end. axis: what is drawn, in words, where it is not the quantity itself. lost: observations that are not finite.
    """

    least: float
    largest: float
    observed: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    worst: int
    rival: tuple[float, ...] = ()
    trivial: tuple[float, ...] = ()
    domain: tuple[float | None, float | None] = (None, None)
    axis: str = ""
    lost: int = 0


@dataclass(frozen=True)
class Scale:
    """From numbers to shares of the width. before, after: room on the left and on the right."""

    low: float
    high: float
    log: bool
    before: float = EDGE
    after: float = EDGE

    def at(self, v: float | int) -> float:
        """Where a number lies, cut at the ends of the axis."""
        if v == math.inf or v == -math.inf:
            return float(v > 0)
        low, high, v = (math.log(max(x, 1e-300)) if self.log else x for x in (self.low, self.high, v))
        share = (v - low) / (high - low)
        return self.before + (1 - self.before - self.after) * min(max(share, 0.0), 1.0)


def marks(
    least: Sequence[float] | np.ndarray,
    largest: Sequence[float] | np.ndarray,
    observed: Sequence[float] | np.ndarray,
    low: Sequence[float] | np.ndarray = (),
    high: Sequence[float] | np.ndarray = (),
    rival: Sequence[float] | np.ndarray = (),
    trivial: Sequence[float] | np.ndarray = (),
    domain: tuple[float | None, float | None] = (None, None),
) -> Marks | None:
    """The elements of a statement on one axis; None where nothing finite was observed.

    Each argument has a number an element, rival and trivial may be empty. One pair of limits for all elements: the axis
    is the quantity. Else it is the difference from the middle of the limits, or from the bound; in units of the
    tolerance where that differs too, or as a share of a positive bound that spans decades.

    Example:
        >>> marks([1.9, 2.9], [2.1, 3.1], [2.0, 3.05], rival=[4.0, 4.0]).axis
        'difference from the prediction'
    """
    a, b, seen = (np.asarray(v, np.float64) for v in (least, largest, observed))
    kept = np.isfinite(seen) & ~np.isnan(a) & ~np.isnan(b)
    if not kept.any():
        return None
    parts = [np.asarray(v, np.float64) for v in (low, high, rival, trivial)]
    low_, high_, other, none = (p[kept] if p.size else p for p in parts)
    a, b, seen, lost = a[kept], b[kept], seen[kept], int((~kept).sum())
    low_ = np.where(np.isfinite(low_), low_, seen) if low_.size else seen
    high_ = np.where(np.isfinite(high_), high_, seen) if high_.size else seen
    axis, to = "", _same
    if len(set(a)) > 1 or len(set(b)) > 1:
        axis, to = _common(a, b, np.concatenate([seen, low_, high_]))
        domain = (None, None)
    a, b, seen, low_, high_, other, none = (to(v) if v.size else v for v in (a, b, seen, low_, high_, other, none))
    over = np.maximum(a - seen, seen - b)
    worst = int(np.argmax(over))
    found = Marks(
        least=float(a[worst]),
        largest=float(b[worst]),
        observed=tuple(map(float, seen)),
        low=tuple(map(float, low_)),
        high=tuple(map(float, high_)),
        worst=worst,
        rival=tuple(float(v) for v in other if math.isfinite(v)),
        trivial=tuple(float(v) for v in none if math.isfinite(v)),
        domain=domain,
        axis=axis,
        lost=lost,
    )
    return _fine(found)


def _same(v: np.ndarray) -> np.ndarray:
    return v


def _common(a: np.ndarray, b: np.ndarray, seen: np.ndarray) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    """What the common axis of elements with limits of their own is, and the map to it."""
    bounds = a if np.isfinite(a).all() else b
    if np.isfinite(a).all() and np.isfinite(b).all():
        middle, half = (a + b) / 2, (b - a) / 2
        if np.ptp(half) <= 1e-6 * half.max() or half.min() <= 0:
            return "difference from the prediction", lambda v: v - middle
        return "difference from the prediction, in tolerances", lambda v: (v - middle) / half
    if not np.isfinite(bounds).all():  # limits on different sides: the axis of the quantity, limits of the worst
        return "", _same
    if bounds.min() > 0 and seen.min() > 0 and bounds.max() / bounds.min() > _LOG_RATIO:
        return "share of the bound", lambda v: v / bounds
    return "difference from the bound", lambda v: v - bounds


def _fine(m: Marks) -> Marks:
    """Differences in place of numbers that share their leading digits."""
    scale = _scale(m)
    span, size = scale.high - scale.low, max(abs(scale.low), abs(scale.high))
    if scale.log or span > _FINE * size:
        return m
    ends = [v for v in (m.least, m.largest) if math.isfinite(v)]
    middle = sum(ends) / len(ends) if ends else m.observed[m.worst]
    moved = {n: tuple(v - middle for v in getattr(m, n)) for n in ("observed", "low", "high", "rival", "trivial")}
    axis = m.axis or f"difference from {digits(middle, 6)}"
    return replace(m, least=m.least - middle, largest=m.largest - middle, domain=(None, None), axis=axis, **moved)


def _beyond(m: Marks, v: float) -> float:
    """How far a number lies outside the limits."""
    return max(m.least - v, v - m.largest)


def _core(m: Marks) -> tuple[float, float]:
    """Ends of what must be seen to scale: limits, observations, intervals."""
    values = [v for v in (m.least, m.largest, *m.observed, *m.low, *m.high) if math.isfinite(v)]
    return min(values), max(values)


def _scale(m: Marks) -> Scale:
    """The axis of some marks."""
    low, high = _core(m)
    others = [*m.rival, *m.trivial]
    every = [low, high, *others]
    least, largest = min(every), max(every)
    if least > 0 and _LOG_RATIO < largest / least < _NOISE:
        pad = (largest / least) ** 0.03
        return Scale(least / pad, largest * pad, True)
    wide = high - low
    aside = [v for v in others if _FAR * wide < max(low - v, v - high) < _POINT * wide]
    low, high = (f([x, *(v for v in others if v not in aside)]) for f, x in ((min, low), (max, high)))
    before, after = (ASIDE if any(v < low for v in aside) else EDGE), (ASIDE if any(v > high for v in aside) else EDGE)
    for end in m.domain:
        if end is not None and high > low and min(abs(end - low), abs(end - high)) <= _NEAR * (high - low):
            low, high = min(low, end), max(high, end)
    pad = 0.04 * (high - low) or 0.1 * abs(high) or 1.0
    return Scale(low - pad, high + pad, False, before, after)


def line(m: Marks, words: str) -> Html:
    """The SVG, and below it what its axis is. words: the same for people who cannot see it.

    A band holds the numbers that agree; ticks are observations, a dot with its interval the one nearest to failing;
    crosses are rivals, diamonds what nothing that has learnt attains. Rivals too far away to be drawn to scale stand
    beside the axis with an arrow.
    """
    s = _scale(m)
    ok = [s.at(v) for v in (m.least, m.largest)]
    lane: list[Html] = [_path("axis", [f"M0 {BOTTOM - TOP}H1000"])]
    walls = [e for e in m.domain if e is not None and s.low <= e <= s.high]
    lane.append(_path("wall", _ticks(map(s.at, walls), 0, BOTTOM - TOP)))
    limits = [s.at(v) for v in (m.least, m.largest) if math.isfinite(v)]
    lane.append(_path("edge", _ticks(limits, 0, BOTTOM - TOP)))
    near = [v for v in m.rival if s.low <= v <= s.high]
    if len({round(1000 * s.at(v)) for v in m.rival}) > 1:
        lane.append(_path("rival", _ticks(map(s.at, near), 5, BOTTOM - TOP - 5)))
        # a cross for the one that is refused most clearly, which may stand aside
        near = [v for v in near if len(near) == len(m.rival) and v == max(near, key=lambda v: _beyond(m, v))]
    if len(m.observed) > 1:
        lane.append(_path("seen", _ticks(map(s.at, m.observed), 4, BOTTOM - TOP - 4)))
    ends = {i: (round(1000 * s.at(m.low[i]), 1), round(1000 * s.at(m.high[i]), 1)) for i in range(len(m.observed))}
    spans = dict.fromkeys(e for i, e in ends.items() if i != m.worst and e[1] > e[0])
    lane.append(_path("spans", [f"M{_short(a)} {_MIDDLE - TOP:g}H{_short(b)}" for a, b in spans]))
    a, b = ends[m.worst]
    lane.append(_path("interval", [f"M{_short(a)} {_MIDDLE - TOP:g}H{_short(b)}"] if b > a else []))
    drawn: list[Html] = [_mark(s.at(v), "cross") for v in near[:1]]
    drawn += [_mark(s.at(v), "diamond") for v in m.trivial if s.low <= v <= s.high][:1]
    for values, shape in ((m.rival, "cross"), (m.trivial, "diamond")):
        drawn += _aside([v for v in values if v < s.low], shape, False)
        drawn += _aside([v for v in values if v > s.high], shape, True)
    dot = tag("circle", class_="dot", cx=_percent(s.at(m.observed[m.worst])), cy=f"{_MIDDLE:g}", r="5")
    band = tag("rect", class_="ok", x=_percent(ok[0]), y=TOP, width=_percent(ok[1] - ok[0]), height=BOTTOM - TOP)
    inner = {"viewBox": f"0 0 1000 {BOTTOM - TOP}", "preserveAspectRatio": "none"}
    svg = tag(
        "svg",
        band,
        tag("svg", [p for p in lane if p], y=TOP, height=BOTTOM - TOP, **inner),
        drawn,
        dot,
        _labels(s),
        class_="line",
        height=HEIGHT,
        role="img",
        aria_label=words,
    )
    lost = f"{m.lost} of {m.lost + len(m.observed)} not finite" if m.lost else ""
    below = "; ".join(part for part in (m.axis, lost) if part)
    return Html(svg + tag("div", below, class_="soft small under")) if below else svg


def key(trivial: bool = False, rival: bool = True, interval: bool = True) -> Html:
    """What the marks mean, once for all lines of a page: those of these kinds that there are."""
    interval_icon = [tag("path", class_="interval", d="M2 8H22")] if interval else []
    observed = f"observed{', with its interval' if interval else ''}; of several the one nearest to failing, the "
    observed += "others as ticks"
    icons: list[tuple[Sequence[Html], str]] = [
        (
            [
                tag("rect", class_="ok", x=4, y=1, width=16, height=14),
                tag("path", class_="edge", d="M4 1V15M20 1V15"),
            ],
            "agrees",
        ),
        ([*interval_icon, tag("circle", class_="dot", cx=12, cy=8, r=5)], observed),
    ]
    if rival:
        icons.append(([_mark(0.5, "cross", 8.0)], "rival"))
    if trivial:
        icons.append(([_mark(0.5, "diamond", 8.0)], "nothing learnt"))
    shown = [
        tag("span", tag("svg", icon, class_="line icon", width=24, height=16, aria_hidden="true"), text)
        for icon, text in icons
    ]
    return tag("p", shown, class_="key small soft")


def _aside(values: Sequence[float], shape: str, right: bool) -> list[Html]:
    """The nearest of some values that lie beyond the axis: its mark, its number and an arrow."""
    if not values:
        return []
    v = min(values) if right else max(values)
    text = f"{digits(v, 3)} →" if right else f"← {digits(v, 3)}"
    at, label = (1 - EDGE / 2 - 0.01, 0.94) if right else (EDGE / 2 + 0.01, 0.06)
    side = "end" if right else "start"
    return [_mark(at, shape), tag("text", text, x=_percent(label), y=_MIDDLE + 4, text_anchor=side)]


def _mark(at: float, shape: str, y: float = _MIDDLE) -> Html:
    d = {"cross": "M-5-5 5 5M-5 5 5-5", "diamond": "M0-6 6 0 0 6-6 0Z"}[shape]
    return tag("svg", tag("path", class_=shape, d=d), x=_percent(at), y=f"{y:g}", overflow="visible")


def _ticks(at: Iterable[float], top: float | int, bottom: float | int) -> list[str]:
    return [f"M{_short(x)} {top:g}V{bottom:g}" for x in sorted({round(1000 * v, 1) for v in at})]


def _path(cls: str, parts: Sequence[str]) -> Html:
    return tag("path", class_=cls, d="".join(parts)) if parts else Html("")


def _short(v: float | int) -> str:
    return f"{v:.1f}".removesuffix(".0")


def _percent(share: float | int) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + "%"


def _labels(s: Scale) -> list[Html]:
    """Numbers below the axis, as many as have room on the narrowest line."""
    out: list[Html] = []
    taken = -math.inf
    for v, text in ticks(s):
        at = s.at(v)
        half = _LETTER * len(text) / 2 / NARROW
        where = min(max(at, half), 1 - half)
        if where - half < taken + 6 / NARROW:
            continue
        taken = where + half
        side = "start" if at < half else "end" if at > 1 - half else "middle"
        shown = {"start": 0.0, "end": 1.0}.get(side, at)
        out.append(tag("text", text, x=_percent(shown), y=HEIGHT - 4, text_anchor=side))
        out.append(
            tag("line", class_="axis", x1=_percent(at), x2=_percent(at), y1=BOTTOM, y2=BOTTOM + 4),
        )
    return out


def ticks(s: Scale) -> list[tuple[float, str]]:
    """Round numbers along an axis, with their text.

    Example:
        >>> [text for _, text in ticks(Scale(0.0, 1.0, False))]
        ['0', '0.25', '0.5', '0.75', '1']
    """
    if s.log:
        first, last = math.ceil(math.log10(s.low) - 1e-9), math.floor(math.log10(s.high) + 1e-9)
        step = max(1, -(-(last - first) // 4))
        found = [10.0**k for k in range(first, last + 1) if (k - first) % step == 0]
        if len(found) < 2:
            found = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
            found = [v for v in found if s.low <= v <= s.high]
        plain = found[0] >= 1e-3 and found[-1] < 1e5
        return [(v, digits(v) if plain else _power(v)) for v in found]
    raw = (s.high - s.low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    low, high = math.ceil(s.low / step - 1e-9), math.floor(s.high / step + 1e-9)
    return [(k * step, digits(k * step, 6)) for k in range(low, high + 1)]


_UP = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def digits(v: float | int, most: int = 4) -> str:
    """A number with at most so many significant digits, as people write it.

    Example:
        >>> digits(-0.25), digits(1e-7), digits(0.0)
        ('−0.25', '10⁻⁷', '0')
    """
    if not math.isfinite(v):
        return "∞" if v > 0 else "−∞" if v < 0 else "–"
    if v == int(v) and abs(v) < 1e6:
        return f"{v + 0.0:.0f}".replace("-", "−", 1)  # no minus before a zero
    v = float(f"{v:.{most}g}")
    if 1e-4 <= abs(v) < 1e5:
        text = f"{v:.{most}g}" if "e" not in f"{v:.{most}g}" else f"{v:.0f}"
        return text.replace("-", "−", 1)
    return _power(v, most)


def _power(v: float, most: int = 4) -> str:
    mantissa, _, power = f"{v:.{most - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    up = str(int(power)).translate(_UP)
    if up == "⁰":
        return mantissa
    return f"10{up}" if mantissa == "1" else f"−10{up}" if mantissa == "−1" else f"{mantissa}·10{up}"
