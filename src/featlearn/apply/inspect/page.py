"""An inspection as one page of its own: table, spectra, and neurons in the plane; style and pictures are inside."""

from collections.abc import Sequence
from typing import Any

import torch

from featlearn.apply.inspect.layers import Clustering, Layer, flat
from featlearn.apply.inspect.public import Inspection, Pair, Source
from featlearn.core import Key
from featlearn.data.weights import read_weights
from featlearn.measure import mds
from featlearn.report import alone, html, style
from featlearn.report.html import Html, tag

SHOWN = 40
"""Bars of the picture of movement; of more layers, those that moved most."""
MAPPED = 3
"""Layers whose neurons are drawn."""
NUMBER, TEXT = "num", "text"


def page(found: Inspection, before: Source, after: Sequence[Source]) -> str:
    """The whole page as text. before, after: what was compared; the neurons that are drawn are read from them again."""
    body: list[Any] = [tag("h1", "What moved"), html.facts([("before", found.before)])]
    for pair, source in zip(found.pairs, after, strict=True):
        body += _pair(pair, before, source)
    if found.layers:
        body += [tag("h2", found.before), _table(found.layers, alone=True)]
    body += [tag("h2", "Remarks"), html.bullets(found.remarks)] if found.remarks else []
    return alone.page(f"What moved: {found.before}", body, "featlearn inspect")


def _pair(pair: Pair, before: Source, after: Source) -> list[Any]:
    reading = pair.reading
    out: list[Any] = [tag("h2", pair.after), tag("p", tag("strong", reading.regime), ": ", reading.why, ".")]
    facts = [("largest spectral change", _number(reading.statistic)), ("in", reading.layer)]
    out.append(html.facts([*facts, ("read-out, left out", reading.head)]))
    moved = [layer for layer in pair.layers if layer.spectral]
    if moved:
        out += [_movement(moved), _spectra(moved), *_maps(moved, before, after)]
    out.append(_table(pair.layers, alone=False))
    for text, names in (("only before", pair.only_before), ("only after", pair.only_after)):
        if names:
            out += [tag("h3", f"Tensors that are there {text}"), tag("p", ", ".join(names))]
    return out


def _table(layers: Sequence[Layer], *, alone: bool) -> Html:
    heads = [("layer", TEXT), ("shape", TEXT)]
    if alone:
        heads += [("norm", NUMBER), ("stable rank", NUMBER), ("effective rank", NUMBER), ("dead", NUMBER)]
        rows = [
            (layer.name, _shape(layer), *_spectrum(layer), str(layer.dead[1]) if layer.dead else "–")
            for layer in layers
            if layer.after or layer.state == "not finite"
        ]
        return html.table(heads, rows, "Matrices of one checkpoint")
    heads += [("state", TEXT), ("change", NUMBER), ("spectral change", NUMBER), ("rank of it", NUMBER)]
    heads += [("stable rank", TEXT), ("effective rank", TEXT), ("along top 8 in, out", TEXT), ("dead", TEXT)]
    return html.table(heads, [_row(layer) for layer in layers], "Every tensor")


def _row(layer: Layer) -> list[str]:
    b, a = layer.before, layer.after
    return [
        layer.name,
        _shape(layer),
        f"{layer.state}: {layer.why}" if layer.why else layer.state,
        _number(layer.change),
        _number(layer.spectral),
        rank_of(layer),
        f"{b.stable:.3g} to {a.stable:.3g}" if b and a else "–",
        f"{b.effective:.3g} to {a.effective:.3g}" if b and a else "–",
        " ".join(f"{100 * v:.0f} % (chance {100 * c:.0f})" for v, c in zip(layer.within, layer.chance, strict=True))
        if layer.within and layer.chance
        else "–",
        f"{layer.dead[0]} to {layer.dead[1]}" if layer.dead and any(layer.dead) else "–",
    ]


def rank_of(layer: Layer) -> str:
    """The rank of a change in words."""
    if layer.rank is None:
        return "–"
    return f"above {layer.rank}" if layer.more else str(layer.rank)


def _spectrum(layer: Layer) -> list[str]:
    s = layer.after
    return [_number(s.norm), f"{s.stable:.3g}", f"{s.effective:.3g}"] if s else ["–", "–", "–"]


def _shape(layer: Layer) -> str:
    return " x ".join(map(str, layer.shape)) or "one number"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


# --- pictures --------------------------------------------------------------------------------------------------------


WIDTH = 7.5


def _movement(moved: Sequence[Layer]) -> Html:
    """Spectral change by layer, in the order of the network."""
    most = {layer.name for layer in sorted(moved, key=_spectral)[-SHOWN:]}
    kept = [layer for layer in moved if layer.name in most]
    with style.applied(WIDTH):
        fig = style.figure(WIDTH, 1.4 + 0.32 * len(kept))
        axes = fig.subplots()
        axes.barh([*range(len(kept))], [_spectral(layer) for layer in kept], color=style.OBSERVE)
        axes.set_yticks([*range(len(kept))], _short([layer.name for layer in kept]))
        axes.grid(visible=False, axis="y")
        axes.invert_yaxis()
        axes.set_xlabel("spectral norm, change over before")
    left = f" The {SHOWN} that moved most of {len(moved)}." if len(kept) < len(moved) else ""
    return alone.picture(fig, f"How far every matrix moved.{left}")


def _spectra(moved: Sequence[Layer]) -> Html:
    """Singular values of the changes that are largest."""
    kept = sorted(moved, key=_spectral)[::-1][:5]
    styles = style.series_styles(_short([layer.name for layer in kept]))
    with style.applied(WIDTH):
        fig = style.figure(WIDTH, 5.2)
        axes = fig.subplots()
        for layer, (name, form) in zip(kept, styles.items(), strict=True):
            if layer.moved and layer.before:
                values = [v / layer.before.values[0] for v in layer.moved.values if v > 0]
                drawn = {"color": form.colour, "marker": form.marker, "markersize": 4}
                axes.plot(range(1, len(values) + 1), values, label=name, **drawn)
        axes.set(yscale="log", xlabel="direction of the change", ylabel="singular value, over before")
        fig.legend(loc="outside lower center", ncols=1)
    return alone.picture(fig, "Singular values of the changes of the matrices that moved most.")


def _spectral(layer: Layer) -> float:
    return layer.spectral or 0.0


def _short(names: Sequence[str]) -> list[str]:
    """Names without what all of them begin and end with, up to dots."""
    parts = [name.split(".") for name in names]
    least = min(map(len, parts))
    start = next((i for i in range(least - 1) if len({p[i] for p in parts}) > 1), max(least - 1, 0))
    end = 1 if start < least - 1 and len({p[-1] for p in parts}) == 1 else 0
    return [".".join(p[start : len(p) - end]) for p in parts]


def _maps(moved: Sequence[Layer], before: Source, after: Source) -> list[Html]:
    """Directions of neurons in the plane, before and after, of the layers that have the clearest clusters."""
    layers = [layer for layer in moved if layer.clusters]
    layers = sorted(layers, key=lambda layer: -layer.clusters.after if layer.clusters else 0.0)[:MAPPED]
    first, second = read_weights(before), read_weights(after)
    out = []
    for layer in layers:
        c = layer.clusters
        assert c is not None
        rows = torch.tensor(c.rows)
        points = [flat(w.load(layer.name))[rows] for w in (first, second)]
        out.append(_map(layer.name, c, points))
    return out


def _map(name: str, c: Clustering, points: Sequence[torch.Tensor]) -> Html:
    values = (c.before, c.after)
    with style.applied(WIDTH):
        fig = style.figure(WIDTH, 4.2)
        panels = fig.subplots(1, 2)
        for axes, when, value, x in zip(panels, ("before", "after"), values, points, strict=True):
            place = mds(x, x[:0], Key("inspect/map") / name)
            axes.scatter(place[:, 0], place[:, 1], c=[list(style.METHODS.values())[i] for i in c.labels], s=16)
            axes.set_title(when if value is None else f"{when}: {value:.2f}")
            axes.set(xticks=[], yticks=[], aspect="equal")
    caption = f"{name}: directions of {c.neurons} neurons, distances 1 - cosine, and the silhouette of {c.k} clusters."
    return alone.picture(fig, f"{caption} Colours are the clusters after.")
