"""Which layer, row and smoothing find the needle: every choice of Algorithm 2 on the same forward pass.

The work plots the distance between needle and selected tokens by layer (Figure 9.5), shows that the middle row and the
row of largest norm fail (Figure G.3), and that SnapKV spreads its choices (Figures G.5 to G.7). Here one forward pass
per prompt shows the queries and keys of all layers; each rule then picks `keep` tokens at each layer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.table import Table
from featlearn.methods.gemfilter import RAW, SOFTMAX, Layout, Scoring, layout_of
from featlearn.methods.gemfilter.selecting import best, last_queries, probabilities, products, smooth
from featlearn.methods.gemfilter.views import PLAIN_OUTPUT, undisturbed
from featlearn.report import style
from featlearn.report.plots import Picture, Series, curves
from featlearn.tasks.needles import Prompt, distance, recall
from featlearn.works.gemfilter.experiments.prompts import (
    OnNeedles,
    keeping,
    kept_at,
    loaded,
    needs,
    prompt_of,
    sentence_of,
)
from featlearn.works.gemfilter.rows import (
    BEST,
    LAST,
    LOGITS,
    MIDDLE,
    QUERY,
    RANDOM,
    SNAPKV,
    Kept,
    Rule,
    by_unit,
    mean_by_unit,
)

ENTRIES = ("gemfilter.fig9_5", "gemfilter.fig9_2", "gemfilter.figG_3", "gemfilter.figG_5", "gemfilter.listing")
WHY = "SmolLM2-135M, in place of Mistral Nemo 12B; the share of the needle kept, in place of a score of replies"
WINDOW = 32
RULES: dict[Rule, Scoring] = {
    LAST: RAW,
    "last row, no pooling": Scoring(pooling="none"),
    "last row, max pooling": Scoring(pooling="max"),
    "last row, probabilities": Scoring(softmax=True),
    "16 rows, probabilities, pooled over 5": Scoring(rows=16, softmax=True),
    "16 rows, probabilities": Scoring(rows=16, softmax=True, pool=25),
    BEST: SOFTMAX,
}
ROWS = (MIDDLE, QUERY, LOGITS)
ROW_RULES: dict[Rule, Callable[[Tensor, Tensor], int]] = {
    MIDDLE: lambda queries, logits: logits.shape[0] // 2,
    QUERY: lambda queries, logits: int(queries.norm(dim=1).argmax()),
    LOGITS: lambda queries, logits: int(logits.norm(dim=1).argmax()),
}


@dataclass(frozen=True, kw_only=True)
class Config(OnNeedles):
    """Needle recall and distance by layer for every way of scoring."""

    chat: tuple[bool, ...] = (True, False)
    """Ask through the model's chat template, or plainly, or both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.chat or len(set(self.chat)) < len(self.chat):
            raise SettingError("chat", self.chat, "True, False, or both", "give each once")
        if self.keep <= WINDOW:
            raise SettingError("keep", self.keep, f"above {WINDOW}", "SnapKV keeps a window of 32 in any case")


@dataclass(frozen=True)
class Trial:
    """One needle at one length and all depths."""

    model: str
    haystack: str
    length: int
    depths: tuple[float, ...]
    needle: int
    keep: int
    chat: bool
    which: str
    dtype: str
    device: str


def trials(config: Config) -> list[Trial]:
    """One trial per needle, length and template."""
    c = config
    return [
        Trial(c.model, c.haystack, n, c.depths, i, c.keep, chat, c.which, c.dtype, c.device)
        for i, n in c.pairs()
        for chat in c.chat
    ]


def run_trial(trial: Trial) -> TrialResult:
    """One forward pass per depth, all rules at all layers."""
    model, tokenizer = loaded(trial.model, trial.dtype, trial.device)
    layout, rows = layout_of(model), []
    for depth in trial.depths:
        prompt = prompt_of(tokenizer, trial.haystack, trial.which, trial.needle, trial.length, depth, trial.chat)
        ids = prompt.input_ids[None].to(model.get_input_embeddings().weight.device)
        layers = range(len(layout.layers(model)))
        with keeping(layout, model, layers) as (seeing, seen), undisturbed(seeing) as own:
            own.get_decoder()(input_ids=ids, use_cache=False, **PLAIN_OUTPUT)
        for layer in layers:
            found = by_rule(layout, seen[layer], prompt, trial.keep, Key("gemfilter/random") / trial.needle / layer)
            rows += [
                Kept(
                    length=trial.length,
                    chat=trial.chat,
                    sentence=sentence_of(trial.which, trial.needle),
                    needle=trial.needle,
                    depth=depth,
                    layer=layer,
                    sees_all=layout.window(model, layer) is None,
                    rule=rule,
                    recall=values["recall"],
                    distance=values["distance"],
                    focus=values["focus"],
                    union=values.get("union"),
                )
                for rule, values in found.items()
            ]
    return TrialResult(rows)


def by_rule(layout: Layout, seen: tuple[Any, ...], prompt: Prompt, keep: int, key: Key) -> dict[Rule, dict[str, float]]:
    """What each rule keeps at one layer: recall, distance, and the share inside needle or last tokens."""
    attn, hidden, rotary = seen
    n, mask = hidden.shape[1], torch.ones(1, hidden.shape[1], dtype=torch.bool, device=hidden.device)
    sets: dict[Rule, Tensor] = {name: kept_at(layout, seen, scoring, keep) for name, scoring in RULES.items()}
    with torch.inference_mode():
        queries, keys = layout.queries(attn, hidden, rotary), layout.keys(attn, hidden, rotary)
        summed = queries.float().unflatten(1, (keys.shape[1], -1)).sum(2)[0]  # g n d: heads of a group together
        logits = torch.einsum("gid,gjd->ij", summed, keys[0].float()).tril()
        for name, rule in ROW_RULES.items():
            row = rule(queries[0].float().transpose(0, 1).flatten(1), logits)
            found = products(queries[:, :, row : row + 1], keys)
            found[:, row + 1 :] = -torch.inf  # an attention row sees no later key
            pooled = smooth(found.nan_to_num(neginf=0.0), mask, RAW).masked_fill(found == -torch.inf, -torch.inf)
            sets[name] = best(pooled, mask, torch.zeros_like(mask), [keep])[0].cpu()
        window = last_queries(layout, attn, hidden, rotary, mask, WINDOW)
        by_head = probabilities(window, keys, mask, layout.scale(attn), layout.softcap(attn))
    sets[RANDOM] = torch.from_numpy(np.sort(key.numpy().choice(n, keep, replace=False)))
    out = {name: _measures(kept, prompt, n) for name, kept in sets.items()}
    snap = [
        torch.cat(
            [
                smooth(head[None, : n - WINDOW], mask[:, : n - WINDOW], RAW)[0].topk(keep - WINDOW).indices.cpu(),
                torch.arange(n - WINDOW, n),
            ]
        )
        for head in by_head.unflatten(1, (keys.shape[1], -1)).sum(2)[0]
    ]
    each = [_measures(kept.sort().values, prompt, n) for kept in snap]
    out[SNAPKV] = {name: float(np.mean([m[name] for m in each])) for name in each[0]}
    out[SNAPKV]["union"] = float(len(torch.cat(snap).unique()))
    return out  # pyright: ignore[reportReturnType]


def _measures(kept: Tensor, prompt: Prompt, n: int) -> dict[str, float]:
    inside = (kept >= prompt.needle[0]) & (kept < prompt.needle[1]) | (kept >= n - WINDOW)
    return {
        "recall": 100 * recall(kept, prompt.needle),
        "distance": float(distance(kept, prompt.needle)),
        "focus": 100 * float(inside.float().mean()),
    }


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Recall and focus at each rule's best layer that sees the whole prompt, and which layer that is."""
    found = []
    for (length, chat), setting in table.of(Kept, allow_absent=True).by("length", "chat").items():
        for rule, part in setting.by("rule").items():
            layers = whole(part)
            if not layers:
                continue
            recalls = {i: mean_by_unit(p, "recall") for i, p in layers.items()}
            layer = max(recalls, key=lambda i: recalls[i].value)
            focus = mean_by_unit(layers[layer], "focus")
            for metric, value, unit in (
                ("recall", recalls[layer], "%"),
                ("focus", focus, "%"),
                ("best layer", float(layer), ""),
            ):
                name = named(length, chat)
                found.append(SummaryRow.of(name, rule, metric, value, entry=ENTRIES[0], unit=unit))
    return found


def named(length: int, chat: bool) -> str:
    """Words for a setting."""
    return f"n = {length}, {'chat' if chat else 'plain'}"


def whole(part: Table[Kept]) -> dict[int, Table[Kept]]:
    """The rows by layer, layers with a window left out."""
    return {i: p for i, p in part.by("layer").items() if p.rows[0].sees_all}


def draw(table: Rows) -> Mapping[str, Picture]:
    """Distance by layer (Figure 9.5), rows (G.3), focus against SnapKV (G.5)."""
    if not table.rows:
        return {}
    settings = table.of(Kept, allow_absent=True).by("length", "chat")
    pictures = {}
    for entry, metric, label, names, says in (
        (
            ENTRIES[0],
            "distance",
            "distance to the needle (tokens)",
            (LAST, "16 rows, probabilities", BEST),
            "Distance between the needle and the nearest kept token by layer",
        ),
        (
            ENTRIES[1],
            "recall",
            "needle tokens kept (%)",
            (LAST, "last row, probabilities", BEST, RANDOM),
            "Share of the needle's tokens that are kept by layer",
        ),
        (ENTRIES[2], "recall", "needle tokens kept (%)", (LAST, *ROWS), "Row ablation: share of the needle kept"),
        (
            ENTRIES[3],
            "focus",
            "kept in needle or last 32 (%)",
            (LAST, BEST, SNAPKV),
            "Share of the kept tokens that lie in the needle or among the last 32",
        ),
    ):
        fig, data = style.figure(11, 0.6 + 4.6 * -(-len(settings) // 2)), []
        with style.applied(11):
            panels = np.ravel(fig.subplots(-(-len(settings) // 2), min(2, len(settings)), squeeze=False, sharey=True))
        for axes, setting in zip(panels, settings, strict=False):
            series = []
            title, rules = named(*setting), settings[setting].by("rule")
            for name in names:
                found = {i: interval(list(by_unit(p, metric).values())) for i, p in whole(rules[name]).items()}
                if not found:
                    continue
                at, points = list(found), np.array(list(found.values()))
                points = np.clip(points, 0, None if metric == "distance" else 100)
                series.append(Series(name, np.array(at), *points.T))
                data += [
                    {"setting": title, "rule": name, "layer": i, metric: m, "low": lo, "high": hi}
                    for i, (m, lo, hi) in zip(at, points.tolist(), strict=True)
                ]
            curves(axes, series, "layer", label if axes is panels[0] else "", title=named(*setting))
        for axes in panels[len(settings) :]:
            axes.set_axis_off()
        handles, labels = panels[len(settings) - 1].get_legend_handles_labels()
        for axes in panels[: len(settings)]:  # one legend above all panels covers no curve
            axes.get_legend().remove()
        with style.applied(11):
            fig.legend(handles, labels, loc="outside upper left", ncols=2)
        pictures[entry] = Picture(fig, f"{says}; mean and 95 % interval over kinds of sentence.", data=data)
    return pictures


def cost(trial: Trial) -> Cost:
    """Measured for SmolLM2 on one core."""
    n = trial.length
    return Cost(len(trial.depths) * (2 + n * 0.009 * (1 + n / 3000)), 1500 + n * 0.6)


EXPERIMENT = Experiment(
    id="gemfilter/layers",
    title="Which layer, row and smoothing find the needle",
    reproduces=ENTRIES,
    Config=Config,
    presets={
        "smoke": Config(lengths=(512,), depths=(0.5,), needles=(1,), keep=128, chat=(True,)),
        "small": Config(lengths=(1024,)),
        "paper": Config(lengths=(1024, 2048), depths=(0.05, 0.25, 0.5, 0.75, 0.95), needles=(4, 2)),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "model",
            reported="LLaMA 3.1 8B, Mistral Nemo 12B, Phi 3.5 Mini",
            ours="SmolLM2-135M",
            why="see gemfilter/needle",
        ),
        Deviation(
            "largest norm",
            reported="row with the largest l2 norm, of what is not said",
            ours="of queries, and of rows of logits summed over heads",
            why="both readings; rows of probabilities have norm 1 at the first token",
        ),
        Deviation(
            "depth", reported="50 %", ours="several depths", why="the middle alone hides what happens at the start"
        ),
    ),
    cost=cost,
    incomparable=dict.fromkeys(ENTRIES, WHY),
    rows=(Kept,),
)
