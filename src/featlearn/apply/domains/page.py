"""An evaluation, or a model on labelled images, as one page of its own; style and pictures are inside."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featlearn.apply.domains.measures import BINS, Measures
from featlearn.apply.domains.results import Chosen, Measured, Results, own_settings
from featlearn.apply.domains.scores import Score
from featlearn.apply.domains.scoring import ALL, ModelScore
from featlearn.report import alone, html, style
from featlearn.report.html import Html, tag

NUMBERED = 12
"""Classes up to which a picture of the confusion has its numbers in it."""
SHOWN = 60
"""Classes of the table of accuracies by class, those that are found worst."""
CHOSEN = 200
"""Choices in the table of settings."""
WIDTH = 7.5
MAKER = "featlearn domains"
NUMBER, TEXT = "num", "text"


def percent(value: float | None) -> str:
    """A share in per cent."""
    return "–" if value is None else f"{100 * value:.1f}"


def spanned(mean: float | None, low: float | None, high: float | None) -> str:
    """A share with its interval, where it has one.

    Example:
        >>> spanned(0.5, 0.25, 0.75), spanned(0.5, None, None)
        ('50.0 [25.0, 75.0]', '50.0')
    """
    return percent(mean) if low is None else f"{percent(mean)} [{percent(low)}, {percent(high)}]"


def reported_table(against: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A run beside the reported numbers: row, column, value here (one seed has no interval), reported, tolerance,
    verdict."""
    return [
        (
            r["row"],
            r["metric"],
            f"{r['value']:.1f} [{r['low']:.1f}, {r['high']:.1f}]" if r["n"] > 1 else f"{r['value']:.1f}",
            "–" if r["reported"] is None else f"{r['reported']:.1f}",
            "" if r["tolerance"] is None else f"{r['tolerance']:.1f}",
            r["verdict"],
        )
        for r in against["reported"]
    ]


def evaluation_page(
    found: Results,
    command: str,
    fits: Mapping[str, str],
    remarks: Sequence[str],
    missing: Sequence[str],
    against: Mapping[str, Any] | None = None,
) -> str:
    """The whole page as text. command: what made it; fits: command lines by algorithm; missing: a line each run;
    against: of a protocol, the reported numbers beside those of the run."""
    names = list(dict.fromkeys(s.algorithm for s in found.scores))
    body: list[Any] = [tag("h1", f"{found.data}: domains never seen")]
    body.append(tag("p", f"Each domain is held out in turn; {found.selection} selection; {len(found.labels)} classes."))
    if missing:
        body.append(tag("p", f"{len(missing)} runs are missing from what follows.", class_="note"))
    poor = found.no_better()
    if poor:
        told = "; ".join(f"{c.algorithm}, {c.held_out} held out, seed {c.seed}" for c in poor[:5])
        more = f" and {len(poor) - 5} more" if len(poor) > 5 else ""
        text = f"No better than always answering the commonest class: {told}{more}."
        body.append(tag("p", text, class_="note bad"))
    body += [tag("h2", "Accuracy"), _accuracy(found, names)]
    body += _reported(against) if against else []
    body += [tag("h2", "Other measures"), _measures(found.measured)]
    for name in names:
        whole = found.pooled(name)
        if whole is not None:
            body += [tag("h2", name), *_pictures(whole, found.labels, f"{name}, images of all domains and seeds")]
            by_domain = {d: m for d in found.domains if (m := found.pooled(name, d)) is not None}
            body.append(_classes(by_domain, found.labels))
    body += [tag("h2", "Chosen settings"), _settings(found.chosen, found.searched)]
    if fits:
        body.append(tag("p", "To train on all domains with the settings that did best:"))
        body += [html.command(line) for line in fits.values()]
    body += [tag("h2", "Missing runs"), html.bullets(missing)] if missing else []
    body += [tag("h2", "Remarks on the data"), html.bullets(remarks)] if remarks else []
    body += [tag("h2", "How this was made"), html.command(command)]
    return alone.page(f"{found.data}: domains never seen", body, MAKER)


def score_page(
    data: str, found: ModelScore, labels: Sequence[str], lines: Sequence[str], about: Mapping[str, Any]
) -> str:
    """The page of a model on labelled images. lines: what else to say; about: of the model."""
    rows = [[d, *_told(m)] for d, m in found.as_json(labels).items()]
    heads = [("domain", TEXT), ("images", NUMBER), ("accuracy", NUMBER), ("balanced", NUMBER), ("worst class", TEXT)]
    heads += [("calibration error", NUMBER), ("commonest class", TEXT)]
    caption = "In per cent; intervals of 95 %, exact, images counted as independent"
    body: list[Any] = [tag("h1", f"A model on {data}"), html.table(heads, rows, caption)]
    body += [tag("p", line[:1].upper() + line[1:] + ".", class_="note") for line in lines]
    body += _pictures(found.measures[ALL], labels, "all images")
    body.append(_classes({d: m for d, m in found.measures.items() if d != ALL}, labels))
    body += [tag("h2", "The model"), html.nested({k: v for k, v in about.items() if k != "measures"})]
    return alone.page(f"A model on {data}", body, MAKER)


def _told(m: Mapping[str, Any]) -> list[str]:
    worst, level = m["worst_class"], m["commonest"]
    return [
        str(m["images"]),
        spanned(m["accuracy"], m["low"], m["high"]),
        percent(m["balanced"]),
        f"{worst['class']}: {percent(worst['accuracy'])}",
        percent(m["ece"]),
        f"{level['class']}: {percent(level['accuracy'])}",
    ]


def _reported(against: Mapping[str, Any]) -> list[Any]:
    heads = [("row", TEXT), ("column", TEXT), ("here", NUMBER), ("reported", NUMBER), ("may be off by", NUMBER)]
    caption = f"{against['benchmark']}, {against['entry']}, in per cent with 95 % intervals over seeds"
    lines = [f"Not as in {against['name']}: {line}." for line in (*against["departures"], *against["notes"])]
    return [
        tag("h2", "Beside the reported numbers"),
        html.table([*heads, ("", TEXT)], reported_table(against), caption),
        html.bullets(lines),
    ]


# --- tables ----------------------------------------------------------------------------------------------------------


def _accuracy(found: Results, names: Sequence[str]) -> Html:
    domains = list(dict.fromkeys(s.domain for s in found.scores))
    by: dict[tuple[str, str], Score] = {(s.algorithm, s.domain): s for s in found.scores}
    level = {x.domain: x for x in found.levels}
    rows = [[n, *(_score(by[n, d]) for d in domains)] for n in names]
    if level:
        rows.append(["commonest class", *(percent(level[d].majority) if d in level else "–" for d in domains)])
        rows.append(["chance", *(percent(level[d].chance) if d in level else "–" for d in domains)])
    heads = [("algorithm", TEXT), *((d, NUMBER) for d in domains)]
    caption = "In per cent, on the held-out domain: mean over seeds and its 95 % interval, by seed"
    return html.table(heads, rows, caption)


def _score(s: Score) -> str:
    part = f" ({len(s.values)} of {s.expected} seeds)" if len(s.values) < s.expected else ""
    return f"{spanned(s.mean, s.low, s.high)}{part}{' *' if s.without_valley else ''}"


def _measures(found: Sequence[Measured]) -> Html:
    names = list(dict.fromkeys(m.algorithm for m in found))
    measures = list(dict.fromkeys(m.measure for m in found))
    by = {(m.algorithm, m.measure): m for m in found}
    rows = []
    for name in names:
        row = [name]
        for measure in measures:
            m = by[name, measure]
            row.append(f"{spanned(m.mean, m.low, m.high)}{m.which and f' ({m.which})'}")
        rows.append(row)
    return html.table([("algorithm", TEXT), *((m, NUMBER) for m in measures)], rows, "In per cent")


def _classes(by: Mapping[str, Measures], labels: Sequence[str]) -> Html:
    shares = {d: m.recalls for d, m in by.items()}

    def lowest(c: int) -> float:
        return min((s[c] for s in shares.values() if s[c] is not None), default=2.0)  # pyright: ignore[reportArgumentType, reportReturnType]

    order = list(range(len(labels)))
    caption = "Accuracy by class, in per cent"
    if len(order) > SHOWN:
        order = sorted(order, key=lowest)[:SHOWN]
        caption += f": the {SHOWN} of {len(labels)} that are found worst somewhere"
    rows = [[labels[c], *(percent(s[c]) for s in shares.values())] for c in order]
    return html.table([("class", TEXT), *((d, NUMBER) for d in shares)], rows, caption)


def _settings(found: Sequence[Chosen], names: Sequence[str]) -> Html:
    heads = [("algorithm", TEXT), ("held out", TEXT), ("seed", NUMBER), ("draw", NUMBER), ("batch", NUMBER)]
    heads += [(n.replace("_", " "), NUMBER) for n in names]
    heads += [("step", NUMBER), ("validation", NUMBER), ("test", NUMBER), ("run", TEXT)]
    rows = []
    for c, t in found[:CHOSEN]:
        own = own_settings(t)
        row = [c.algorithm, c.held_out, str(c.seed), str(c.draw), str(t.schedule.batch)]
        row += [f"{own[n]:.3g}" if n in own else "–" for n in names]
        rows.append([*row, str(c.step), percent(c.validation), percent(c.test), c.trial])
    more = f"; the first {CHOSEN} of {len(found)}" if len(found) > CHOSEN else ""
    return html.table(heads, rows, f"What was chosen for each held-out domain and seed{more}")


# --- pictures --------------------------------------------------------------------------------------------------------


def _pictures(found: Measures, labels: Sequence[str], of: str) -> list[Html]:
    return [tag("div", confusion_picture(found, labels, of), reliability_picture(found, of), class_="pictures")]


def confusion_picture(found: Measures, labels: Sequence[str], of: str) -> Html:
    """Who is taken for whom: each row is a true class, its shares add up to one."""
    k = len(labels)
    counts = found.confusion.sum(1, keepdims=True)
    shares = np.divide(found.confusion, counts, out=np.zeros((k, k)), where=counts > 0)
    with style.applied(WIDTH):
        fig = style.figure(WIDTH, 6.8)
        axes = fig.subplots()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        axes.grid(visible=False)
        step = -(-k // 30)
        ticks = [*range(0, k, step)]
        names = _drawable([_short(labels[i]) for i in ticks], ticks)
        axes.set_xticks(ticks, names, rotation=90, parse_math=False)
        axes.set_yticks(ticks, names, parse_math=False)
        axes.set(xlabel="predicted", ylabel="true")
        if k <= NUMBERED:
            small = 17 if k <= 6 else 12.5
            for i in range(k):
                for j in range(k):
                    colour = "white" if shares[i, j] > 0.5 else "#1F2328"
                    text = f"{100 * shares[i, j]:.0f}"
                    axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=small)
    return alone.picture(fig, f"Who is taken for whom, per cent of each true class; {of}.", dpi=110)


def _drawable(names: Sequence[str], ticks: Sequence[int]) -> list[str]:
    """The names as the font can write them; the numbers of classes, from 1 in the order of the table, where it lacks a
    character."""
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    return [n if all(font.get_char_index(ord(c)) for c in n) else str(i + 1) for n, i in zip(names, ticks, strict=True)]


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"


def reliability_picture(found: Measures, of: str) -> Html:
    """How often a class that has a probability is right."""
    kept = [b for b in found.bins if b[0] > 0]
    with style.applied(WIDTH):
        fig = style.figure(WIDTH, 6.8)
        top, bottom = fig.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        top.plot([0, 1], [0, 1], color=style.NEURON, linestyle="--", label="as stated")
        x, y = [b[1] / b[0] for b in kept], [b[2] / b[0] for b in kept]
        top.plot(x, y, color=style.OBSERVE, marker="o", label="found")
        top.set(ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
        top.legend(loc="upper left")
        edges = np.arange(BINS) / BINS
        bottom.bar(edges, found.bins[:, 0], width=1 / BINS, align="edge", color=style.NEURON, edgecolor="white")
        bottom.set(xlabel="probability of the predicted class", ylabel="images")
    return alone.picture(fig, f"Calibration: the error is {percent(found.ece)} %, over {BINS} bins; {of}.", dpi=110)
