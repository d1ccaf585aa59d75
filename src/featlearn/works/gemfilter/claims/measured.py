"""Claims about figures and tables that need a model which was really run: they read rows of experiments.

Prompts of one needle share their text, so needles, not prompts, are the independent units: every difference is a mean
over the depths (or kinds) of a needle (or item), paired within it. Filter layer and scoring are those that were chosen
on other needles and essays.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Rows
from featlearn.lab.pending import Case, Claim, Evidence, reads
from featlearn.methods.gemfilter.recommended import KNOWN
from featlearn.works.gemfilter.rows import (
    BEST,
    FULL,
    H2O,
    LAST,
    LOGITS,
    MIDDLE,
    ONE_RUN,
    OURS,
    QUERY,
    RANDOM,
    RAW_ROW,
    SNAPKV,
    STREAMING,
)

Records = Sequence[Mapping[str, Any]]
LAYERS, HEADS, GROUPS, HEAD_DIM = 30, 9, 3, 64
"""SmolLM2-135M."""
MIDDLE_HALF = range(LAYERS // 4, 3 * LAYERS // 4 + 1)


def filter_layer() -> int:
    """The layer that was chosen for SmolLM2-135M."""
    return KNOWN["llama", LAYERS, 576, 49152].layer


def units(rows: Records, metric: str, by: Sequence[str] = ("setting", "needle")) -> dict[tuple[Any, ...], float]:
    """Mean of a metric by independent unit."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for r in rows:
        if r.get(metric) is not None:
            found.setdefault(tuple(r[name] for name in by), []).append(float(r[metric]))
    return {unit: float(np.mean(values)) for unit, values in found.items()}


def of(table: Rows, row: str, layers: Sequence[int] | None = None) -> Records:
    """The rows of a method or rule, of some layers."""
    return [r for r in table.rows if r["row"] == row and (layers is None or r["layer"] in layers)]


def paired(one: Mapping[Any, float], two: Mapping[Any, float]) -> np.ndarray:
    """Differences over the units that both have."""
    return np.array([one[k] - two[k] for k in one if k in two])


def separated(differences: np.ndarray, share: float = 0.98) -> int:
    """Sign of the mean where its interval leaves 0 out, else 0; 98 % two-sided is 1 % on one side."""
    _, low, high = interval(differences, share)
    return int(low > 0) - int(high < 0)


def above(name: str, differences: np.ndarray) -> Case:
    """Differences separated above 0, one-sided p < .01; not separated, they leave the claim not established."""
    return Case(
        name,
        predict=1,
        observe=separated(differences),
        rival=-1,
        tolerance=1.0,
        rival_says="no difference, or below",
        unit="sign",
    )


MARGIN = 5.0
"""Points that count as no difference."""


def not_below(name: str, differences: np.ndarray) -> Case:
    """Differences above -MARGIN with p < .01; refuted where they are separated below 0, else not established."""
    _, low, high = interval(differences, 0.98)
    found = -1 if high < 0 else int(low > -MARGIN)
    return Case(
        name,
        predict=1,
        observe=found,
        rival=-1,
        tolerance=1.0,
        rival_says=f"as much as {MARGIN:g} points below",
        unit="sign",
    )


def means(values: Mapping[str, np.ndarray]) -> str:
    """Mean and 95 % interval of some differences, for a comment."""
    parts = []
    for name, value in values.items():
        mean, low, high = interval(value)
        parts.append(f"{name} {mean:+.1f} [{low:+.1f}, {high:+.1f}]")
    return "; ".join(parts)


# --- gemfilter/layers ------------------------------------------------------------------------------------------------


def recall_by_layer(table: Rows, row: str) -> np.ndarray:
    """Mean share of the needle kept, in percent, by layer."""
    rows = of(table, row)
    return np.array([np.mean([r["recall"] for r in rows if r["layer"] == i]) for i in range(LAYERS)])


def chance(table: Rows) -> float:
    """Mean recall of random tokens: k / n."""
    return float(np.mean([r["recall"] for r in of(table, RANDOM)]))


def judge_recall(table: Rows) -> Evidence:
    """Figure 9.1: the needle survives at filter layers of the middle half."""
    found = recall_by_layer(table, BEST)
    middle = found[list(MIDDLE_HALF)]
    good = [i for i in MIDDLE_HALF if found[i] >= 90]
    return Evidence(
        (
            Case(
                "best layer of the middle half: needle kept",
                predict=100.0,
                observe=middle.max(),
                rival=chance(table),
                tolerance=10.0,
                rival_says="k / n, random tokens",
                unit="%",
            ),
            Case(
                "chosen filter layer: needle kept",
                predict=100.0,
                observe=found[filter_layer()],
                rival=chance(table),
                tolerance=10.0,
                rival_says="k / n, random tokens",
                unit="%",
            ),
        ),
        comment=f"Layers of the middle half that keep at least 90 % of the needle: {good}. Raw products of the last "
        f"row keep at most {recall_by_layer(table, LAST)[list(MIDDLE_HALF)].max():.0f} % there.",
        data={"layer": np.arange(LAYERS), "recall": found},
    )


def judge_last_row(table: Rows) -> Evidence:
    """Figure 9.2: the last row against the middle row and random tokens, over the middle half of the layers."""
    last = units(of(table, LAST, MIDDLE_HALF), "recall")
    less = {
        "last row - random tokens": paired(last, units(of(table, RANDOM, MIDDLE_HALF), "recall")),
        "last row - middle row": paired(last, units(of(table, MIDDLE, MIDDLE_HALF), "recall")),
    }
    return Evidence(
        tuple(above(name, d) for name, d in less.items()),
        comment=f"Needle kept, points, mean over layers {MIDDLE_HALF[0]} to {MIDDLE_HALF[-1]}, paired by needle: "
        f"{means(less)}.",
    )


def located_share(rows: Records, layer: int) -> float:
    """Share of prompts in which a layer keeps at least 90 % of the needle."""
    here = [r["recall"] >= 90 for r in rows if r["layer"] == layer]
    return float(np.mean(here)) if here else 0.0


def first_layer(rows: Records) -> int:
    """The first layer that keeps the needle in at least 90 % of the prompts; the depth if none does."""
    return next((i for i in range(LAYERS) if located_share(rows, i) >= 0.9), LAYERS)


def judge_first_layer(table: Rows) -> Evidence:
    """Figure 9.5: an early layer locates the needle, and the same one for other needles."""
    rows = of(table, BEST)
    halves = [first_layer([r for r in rows if r["needle"] % 2 == i]) for i in (0, 1)]
    early = range(LAYERS // 2 + 4)
    located = [max(located_share(of(table, row), i) for i in early) for row in (BEST, RANDOM)]
    hit = np.mean([r["distance"] == 0 for r in of(table, RANDOM)])
    return Evidence(
        (
            Case(
                "best layer up to m / 2 + 3: share of prompts in which it keeps the needle",
                predict=1.0,
                observe=located[0],
                rival=located[1],
                tolerance=0.1,
                rival_says="random tokens",
            ),
            Case(
                "first such layer, of odd needles by that of even ones",
                predict=halves[0],
                observe=halves[1],
                rival=LAYERS,
                tolerance=2.0,
                rival_says="no layer",
            ),
        ),
        comment=f"First layers: {first_layer(rows)} of all needles, {halves} of two halves. The figure's criterion, "
        f"distance 0, is met by random tokens in {hit:.0%} of these prompts; here 90 % of the needle has to be kept.",
    )


def judge_plateau(table: Rows) -> Evidence:
    """Table 9.2: best inside, flat around the best, worse at both ends."""
    found = recall_by_layer(table, BEST)
    best = int(found.argmax())
    width = int((found >= found.max() - 5).sum())
    ends = found[[0, -1]]
    return Evidence(
        (
            Case(
                "best layer strictly inside",
                predict=1.0,
                observe=float(0 < best < LAYERS - 1),
                rival=0.0,
                tolerance=0.5,
                rival_says="first or last",
            ),
            Case(
                "layers within 5 points of the best, at least 3",
                predict=3,
                observe=width,
                rival=LAYERS,
                relation="at least",
                tolerance=0.0,
                rival_says="all of them",
            ),
            Case(
                "first and last layer below the best, points",
                predict=[10.0, 10.0],
                observe=found.max() - ends,
                rival=[100.0, 100.0],
                relation="at least",
                tolerance=0.0,
                rival_says="nothing kept at all",
            ),
        ),
        comment=f"Best layer {best}; {width} layers within 5 points; first {ends[0]:.0f} %, last {ends[1]:.0f} %.",
        data={"layer": np.arange(LAYERS), "recall": found},
    )


def judge_neighbours(table: Rows) -> Evidence:
    """Figure G.1: the layer after the filter layer is as good."""
    found, at = recall_by_layer(table, BEST), filter_layer()
    return Evidence(
        (
            Case(
                "needle kept by the layer after the filter layer",
                predict=found.max(),
                observe=found[at + 1],
                rival=found[0],
                tolerance=5.0,
                rival_says="the first layer",
                unit="%",
            ),
        ),
        comment=f"Layers {at - 1}, {at}, {at + 1}: {found[at - 1 : at + 2].round(1)} %.",
    )


def judge_middle_row(table: Rows) -> Evidence:
    """Figure G.3 (a): the middle row keeps no more of the needle than random tokens."""
    last = units(of(table, LAST, MIDDLE_HALF), "recall")
    middle = units(of(table, MIDDLE, MIDDLE_HALF), "recall")
    less = {
        "last row - middle row": paired(last, middle),
        "random tokens - middle row": paired(units(of(table, RANDOM, MIDDLE_HALF), "recall"), middle),
    }
    names = list(less)
    return Evidence(
        (above(names[0], less[names[0]]), not_below(names[1], less[names[1]])),
        comment=f"Points of needle kept: {means(less)}. A middle row sees the first half of the prompt only.",
    )


def judge_largest_row(table: Rows) -> Evidence:
    """The rule of Figure G.3 (b) on our model: rows of largest norm, in two readings, against the chosen scoring."""
    best = np.array([float(recall_by_layer(table, row).max()) for row in (QUERY, LOGITS)])
    at = [int(recall_by_layer(table, row).argmax()) for row in (QUERY, LOGITS)]
    last, chosen = recall_by_layer(table, LAST), float(recall_by_layer(table, BEST).max())
    return Evidence(
        (
            Case(
                "needle kept at the best layer by rows of largest norm, 20 points below the chosen scoring at its",
                predict=[chosen - 20] * 2,
                observe=best,
                rival=[0.0] * 2,
                relation="at most",
                tolerance=0.0,
                rival_says="nothing kept",
                unit="%",
            ),
        ),
        comment=f"Largest query, largest logits: {best[0]:.0f} % at layer {at[0]}, {best[1]:.0f} % at layer {at[1]}; "
        f"the chosen scoring {chosen:.0f} %; raw products of the last row {last.max():.0f} % at layer "
        f"{int(last.argmax())}; random {chance(table):.0f} %. Figure G.3 is about Mistral Nemo 12B at layer 19; "
        "another model at other layers does not speak for or against it.",
    )


def judge_focus(table: Rows) -> Evidence:
    """Figure G.5: GemFilter keeps more inside the needle and the last 32 than SnapKV, whose heads spread."""
    ours = units(of(table, BEST, [filter_layer()]), "focus")
    snap = units(of(table, SNAPKV), "focus")
    spread = np.array([r["union"] / r["keep"] for r in with_keep(of(table, SNAPKV))])
    less = {"GemFilter - SnapKV": paired(ours, snap)}
    return Evidence(
        (
            above("share of the kept tokens in needle or last 32: GemFilter - SnapKV", less["GemFilter - SnapKV"]),
            Case(
                "SnapKV: positions of a layer's heads together, over those of one",
                predict=1.1,
                observe=spread.mean(),
                rival=float(GROUPS),
                relation="at least",
                tolerance=0.0,
                rival_says="no position in common",
            ),
        ),
        comment=f"{means(less)} points; SnapKV over all layers, as the figure shows it. Its {GROUPS} groups of heads "
        f"together keep {spread.mean():.2f} times the positions of one.",
    )


def with_keep(rows: Records, keep: int = 256) -> list[dict[str, Any]]:
    """Rows with the budget of the experiment's paper preset beside them."""
    return [{**r, "keep": r.get("keep", keep)} for r in rows]


# --- gemfilter/needle ------------------------------------------------------------------------------------------------


def accuracy(table: Rows, one: str, two: str) -> np.ndarray:
    """Differences of accuracy in points, by length and needle."""
    return paired(units(of(table, one), "accuracy"), units(of(table, two), "accuracy"))


def judge_needle(table: Rows) -> Evidence:
    """Figure 9.4: GemFilter is not below SnapKV at the same budget."""
    rivals = (SNAPKV, H2O, STREAMING, FULL)
    less = {f"GemFilter - {r}": accuracy(table, OURS, r) for r in rivals if of(table, r)}
    kept = float(np.mean([r["recall"] for r in of(table, OURS)]))
    return Evidence(
        (
            not_below("right answers: GemFilter - SnapKV", less["GemFilter - SnapKV"]),
            Case(
                "needle kept by GemFilter",
                predict=100.0,
                observe=kept,
                rival=25.0,
                tolerance=10.0,
                rival_says="k / n, random tokens",
                unit="%",
            ),
        ),
        comment=f"Points, paired by length and needle: {means(less)}.",
    )


def judge_cost_of_filtering(table: Rows) -> Evidence:
    """At lengths where the full cache answers half: the lower end of the interval of what filtering costs."""
    one, two = OURS, FULL
    full = units(of(table, two), "accuracy", ("setting",))
    answered = [r for r in table.rows if full[(r["setting"],)] >= 50]
    by_prompt = ("setting", "needle", "depth")
    part = Rows(tuple(answered))
    prompts = paired(units(of(part, one), "accuracy", by_prompt), units(of(part, two), "accuracy", by_prompt))
    raw = float(accuracy(part, RAW_ROW, two).mean())
    _, low, _ = interval(prompts)
    needles = {"by needle, GemFilter - full": accuracy(part, one, two)}
    return Evidence(
        (
            Case(
                "lower 95 % end of GemFilter - full, by prompt",
                predict=0.0,
                observe=min(low, 0.0),
                rival=raw,
                tolerance=5.0,
                rival_says="raw products of the last row",
                unit="points",
            ),
        ),
        comment=f"{len(prompts)} prompts. With needles as units: {means(needles)}.",
    )


def judge_needle_raw(table: Rows) -> Evidence:
    """Raw products of the last row, scored at the end of a chat template: fewer answers than SnapKV."""
    less = {f"{r} - GemFilter raw": accuracy(table, r, RAW_ROW) for r in (SNAPKV, OURS)}
    return Evidence(
        (above("right answers: SnapKV - raw products of the last row", less[f"{SNAPKV} - GemFilter raw"]),),
        comment=f"Points: {means(less)}. The last token of a chat prompt belongs to the template; its raw products "
        "hardly see the needle. The paper's figure is about other models, and its released code uses no chat template.",
    )


def judge_one_run(table: Rows) -> Evidence:
    """Figure G.4: two runs are not worse than one."""
    less = {"two runs - one run": accuracy(table, OURS, ONE_RUN)}
    return Evidence(
        (not_below("right answers: two runs - one run", less["two runs - one run"]),),
        comment=f"Points, paired by length and needle, the same tokens kept: {means(less)}.",
    )


# --- gemfilter/minibench, gemfilter/cost -----------------------------------------------------------------------------


def scores(table: Rows, setting: str, row: str) -> dict[tuple[Any, ...], float]:
    """Mean score over kinds, by item."""
    return units([r for r in of(table, row) if r["setting"] == setting], "score", ("item",))


def judge_kinds(table: Rows) -> Evidence:
    """Table 9.1: GemFilter against SnapKV and H2O at equal budgets, kinds of task together."""
    budgets = sorted({int(r["row"].split("-")[1]) for r in table.rows if r["row"].startswith(f"{SNAPKV}-")})
    cases, less = [], {}
    for k in budgets:
        ours = scores(table, "chat", f"GemFilter-{k}")
        for rival in (SNAPKV, H2O):
            less[f"GemFilter-{k} - {rival}-{k}"] = paired(ours, scores(table, "chat", f"{rival}-{k}"))
        less[f"GemFilter-{k} - full"] = paired(ours, scores(table, "chat", FULL))
        cases.append(not_below(f"mean score: GemFilter-{k} - SnapKV-{k}", less[f"GemFilter-{k} - SnapKV-{k}"]))
    worst = {}
    for kind in dict.fromkeys(r["kind"] for r in table.rows):
        part = Rows(tuple(r for r in table.rows if r["kind"] == kind))
        ours, snap = (scores(part, "chat", f"{row}-{budgets[-1]}") for row in (OURS, SNAPKV))
        worst[kind] = float(paired(ours, snap).mean())
    kind = min(worst, key=lambda name: worst[name])
    return Evidence(
        cases,
        comment=f"Points, paired by item: {means(less)}. Largest loss at {budgets[-1]} tokens: {kind}, "
        f"{worst[kind]:+.0f} points to SnapKV.",
    )


def judge_template(table: Rows) -> Evidence:
    """Table G.1: GemFilter with the chat template is within 3.1 points of SnapKV."""
    budgets = sorted({int(r["row"].split("-")[1]) for r in table.rows if r["row"].startswith(f"{SNAPKV}-")})
    k = budgets[-1]
    less = {
        name: paired(scores(table, setting, f"GemFilter-{k}"), scores(table, setting, f"SnapKV-{k}"))
        for name, setting in (("with template", "chat"), ("without", "plain"))
    }
    gains = {
        row: paired(scores(table, "chat", row), scores(table, "plain", row))
        for row in (FULL, f"{SNAPKV}-{k}", f"{OURS}-{k}")
    }
    return Evidence(
        (above(f"GemFilter-{k} - SnapKV-{k} + 3.1, with template", less["with template"] + 3.1),),
        comment=f"Points: {means(less)}. Gain by the template: {means(gains)}.",
    )


def judge_cost(table: Rows) -> Evidence:
    """Figures 9.3 and 9.6: pass one against the full prompt, time per token against length, bytes kept."""
    lengths = sorted({r["length"] for r in table.rows})

    def mean(row: str, metric: str, n: int) -> float:
        return float(np.mean([r[metric] for r in of(table, row) if r["length"] == n]))

    shares = [r["layer share"] for r in of(table, OURS)]
    r = round(shares[0] * LAYERS) - 1
    n, least = lengths[-1], lengths[0]
    ratio = mean(OURS, "pass one", n)
    growth = {row: mean(row, "token", n) / mean(row, "token", least) for row in (FULL, OURS, SNAPKV)}
    kept = 2 * LAYERS * GROUPS * HEAD_DIM * 4 / 2**20
    return Evidence(
        (
            Case(
                "pass one over the full prompt: r / m",
                predict=r / LAYERS,
                observe=ratio,
                rival=1.0,
                tolerance=0.25 * r / LAYERS,
                rival_says="no saving",
            ),
            Case(
                "cache of GemFilter, SnapKV and full, MiB: 2 m h_kv k d",
                predict=[256 * kept, 256 * kept, n * kept],
                observe=[mean(row, "cache", n) for row in (OURS, SNAPKV, FULL)],
                rival=np.array([256, 256, n]) * kept * HEADS / GROUPS,
                tolerance=1e-3,
                rival_says="query heads for h_kv",
                unit="MiB",
            ),
            Case(
                f"seconds per token, n = {n} over n = {least}: GemFilter, SnapKV",
                predict=[1.0, 1.0],
                observe=[growth[OURS], growth[SNAPKV]],
                rival=growth[FULL],
                tolerance=0.2,
                rival_says="growth of the full cache",
            ),
        ),
        comment=f"r = {r} of {LAYERS}, n = {n}: pass one takes {ratio:.2f} of the prompt, r / m = {r / LAYERS:.2f}; a "
        f"token costs {growth['Full cache']:.2f} times as much as at n = {least} with the full cache, "
        f"{growth['GemFilter']:.2f} with GemFilter, {growth['SnapKV']:.2f} with SnapKV.",
    )


ON = "On SmolLM2-135M"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gemfilter.measured_fig9_1",
        entries=("gemfilter.fig9_1",),
        says=f"{ON}, filter layers of the middle half keep 90 to 100 % of the needle with k of 256.",
        check=reads("gemfilter/layers", judge_recall),
    ),
    Claim(
        "gemfilter.measured_fig9_2",
        entries=("gemfilter.fig9_2",),
        says=f"{ON}, the last row keeps more of the needle than the middle row and than random tokens (p < .01).",
        check=reads("gemfilter/layers", judge_last_row),
        expected="not established",
    ),
    Claim(
        "gemfilter.measured_fig9_5",
        entries=("gemfilter.fig9_5",),
        says=f"{ON}, a layer up to m/2 + 3 keeps the needle in 90 % of the prompts, and other needles "
        f"give the same layer "
        "within 2.",
        check=reads("gemfilter/layers", judge_first_layer),
    ),
    Claim(
        "gemfilter.measured_table9_2",
        entries=("gemfilter.table9_2",),
        says=f"{ON}, the best filter layer lies inside, on a plateau of at least 3 layers, above both ends.",
        check=reads("gemfilter/layers", judge_plateau),
    ),
    Claim(
        "gemfilter.measured_figG_1",
        entries=("gemfilter.figG_1",),
        says=f"{ON}, the layer after the filter layer keeps as much of the needle as the best layer, within 5 points.",
        check=reads("gemfilter/layers", judge_neighbours),
    ),
    Claim(
        "gemfilter.measured_figG_3_middle",
        entries=("gemfilter.figG_3",),
        says=f"{ON}, the middle row keeps less of the needle than the last, and no more than random tokens.",
        check=reads("gemfilter/layers", judge_middle_row),
        expected="not established",
    ),
    Claim(
        "gemfilter.measured_figG_3_largest",
        entries=("gemfilter.figG_3",),
        says=f"{ON}, rows of largest norm, in two readings, keep at least 20 points less of the needle at their best "
        "layer than the chosen scoring does at its; the paper's figure is about Mistral Nemo at layer 19.",
        check=reads("gemfilter/layers", judge_largest_row),
    ),
    Claim(
        "gemfilter.measured_figG_5",
        entries=("gemfilter.figG_5",),
        says=f"{ON}, GemFilter keeps a larger share inside needle and last 32 tokens than SnapKV (p < "
        f".01), whose heads "
        "keep different positions.",
        check=reads("gemfilter/layers", judge_focus),
    ),
    Claim(
        "gemfilter.measured_fig9_4",
        entries=("gemfilter.fig9_4",),
        says=f"{ON}, GemFilter answers no fewer needles than SnapKV at the same budget.",
        check=reads("gemfilter/needle", judge_needle),
    ),
    Claim(
        "gemfilter.measured_fig9_4_full",
        entries=("gemfilter.fig9_4",),
        says="GemFilter at 256 tokens costs less than 5 points against the full cache, where that answers half",
        check=reads("gemfilter/needle", judge_cost_of_filtering),
    ),
    Claim(
        "gemfilter.measured_fig9_4_raw",
        entries=("gemfilter.fig9_4",),
        says=f"{ON} with its chat template, raw products of the last row (a line feed of the template) answer fewer "
        "needles than SnapKV; the paper's figure has other models and no template.",
        check=reads("gemfilter/needle", judge_needle_raw),
    ),
    Claim(
        "gemfilter.measured_figG_4",
        entries=("gemfilter.figG_4",),
        says=f"{ON}, two runs answer no fewer needles than one run on the same tokens.",
        check=reads("gemfilter/needle", judge_one_run),
        expected="not established",
    ),
    Claim(
        "gemfilter.measured_table9_1",
        entries=("gemfilter.table9_1",),
        says=f"{ON}, over six kinds of task GemFilter's mean score is not below SnapKV's at the same budget.",
        check=reads("gemfilter/minibench", judge_kinds),
        expected="not established",
    ),
    Claim(
        "gemfilter.measured_tableG_1",
        entries=("gemfilter.tableG_1",),
        says=f"{ON} with its chat template, GemFilter is not more than 3.1 points below SnapKV.",
        check=reads("gemfilter/minibench", judge_template),
        expected="not established",
    ),
    Claim(
        "gemfilter.measured_fig9_3",
        entries=("gemfilter.fig9_3", "gemfilter.fig9_6"),
        says=f"{ON}, pass one takes r/m of the full prompt's time within a quarter, caches take 2 m h_kv k d, and a "
        "token's time does not depend on n.",
        check=reads("gemfilter/cost", judge_cost),
    ),
)
