"""What a filter pass that is linear in the prompt's length still finds: sinks and a window in place of full attention.

Below the filter layer most rows see the start of the prompt and the tokens right before them; the rows of the question
see everything. The paper has no such pass. Here the exact one and several windows choose tokens of the same prompts;
one plain `generate` then answers from each choice. Times belong to `benchmarks/gemfilter.py`: a window pays off at
lengths far above those that two cores answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.core import SettingError
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.methods.gemfilter import SinksAndWindow, select_chunked
from featlearn.report import style
from featlearn.report.plots import Picture, Series, curves
from featlearn.tasks.needles import found_in, recall
from featlearn.works.gemfilter.experiments.prompts import (
    OnReplies,
    loaded,
    needs,
    prompt_of,
    sentence_of,
)
from featlearn.works.gemfilter.experiments.replies import answers, chosen_layers
from featlearn.works.gemfilter.rows import Sparse, less, mean_by_unit

METRICS = {"accuracy": "%", "recall": "%", "products": "%"}


@dataclass(frozen=True, kw_only=True)
class Config(OnReplies):
    """Needles found by the exact filter pass and by windows of several sizes."""

    windows: tuple[int, ...] = (512, 128, 32)
    """Tokens that a row sees before it, itself included."""
    sinks: int = 16
    """First tokens that every row sees."""
    dense_tail: int = 16
    """Last rows that see everything, at least; the question does in any case."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.windows or len(set(self.windows)) < len(self.windows):
            raise SettingError("windows", self.windows, "different sizes, at least one", "512 128 32 are usual")
        for window in self.windows:
            SinksAndWindow(self.sinks, window, self.dense_tail)
        if self.keep < 64:
            raise SettingError("keep", self.keep, "at least 64", "the question and the start stay in any case")


@dataclass(frozen=True)
class Trial:
    """One needle at one length and all depths."""

    model: str
    haystack: str
    length: int
    depths: tuple[float, ...]
    needle: int
    windows: tuple[int, ...]
    sinks: int
    dense_tail: int
    keep: int
    layer: int
    protect_start: int
    chat: bool
    which: str
    max_new_tokens: int
    dtype: str
    device: str


def trials(config: Config) -> list[Trial]:
    """One trial per needle and length."""
    c = config
    return [
        Trial(
            c.model,
            c.haystack,
            n,
            c.depths,
            i,
            c.windows,
            c.sinks,
            c.dense_tail,
            c.keep,
            c.layer,
            c.protect_start,
            c.chat,
            c.which,
            c.max_new_tokens,
            c.dtype,
            c.device,
        )
        for i, n in c.pairs()
    ]


def run_trial(trial: Trial) -> TrialResult:
    """Choose tokens by every pattern, answer from each choice."""
    model, tokenizer = loaded(trial.model, trial.dtype, trial.device)
    layer, scoring, _ = chosen_layers(model, trial.layer, -1)
    patterns: dict[int | None, Any] = {None: "full"}
    patterns |= {w: SinksAndWindow(trial.sinks, w, trial.dense_tail) for w in trial.windows}
    rows: list[Sparse] = []
    for depth in trial.depths:
        prompt = prompt_of(tokenizer, trial.haystack, trial.which, trial.needle, trial.length, depth, trial.chat)
        n, tail = len(prompt.input_ids), len(prompt.input_ids) - prompt.question[0]
        kept = {
            window: select_chunked(
                model,
                prompt.input_ids[None],
                layer=layer,
                keep=trial.keep,
                scoring=scoring,
                protect=(trial.protect_start, tail),
                attention=pattern,
            ).indices[0]
            for window, pattern in patterns.items()
        }
        texts = answers(model, tokenizer, prompt.input_ids, list(kept.values()), trial.max_new_tokens)
        rows += [
            Sparse(
                length=trial.length,
                sentence=sentence_of(trial.which, trial.needle),
                needle=trial.needle,
                depth=depth,
                window=window,
                accuracy=100.0 * found_in(text, prompt.answer),
                recall=100.0 * recall(chosen, prompt.needle),
                products=100.0 * products_of(n, patterns[window], max(tail, scoring.rows)),
                reply=text,
            )
            for (window, chosen), text in zip(kept.items(), texts, strict=True)
        ]
    return TrialResult(rows)


def products_of(n: int, pattern: Any, tail: int) -> float:
    """Products of a query and a key that a pattern forms, as a share of the n (n + 1) / 2 of causal attention."""
    if not isinstance(pattern, SinksAndWindow):
        return 1.0
    i = np.arange(n)
    dense = i >= n - max(tail, pattern.dense_tail)
    near = np.minimum(i + 1, pattern.window) + np.minimum(pattern.sinks, np.maximum(0, i + 1 - pattern.window))
    return float(np.where(dense, i + 1, near).sum() / (n * (n + 1) / 2))


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means by length over kinds of sentence, and differences to the exact pass on the same prompts."""
    found = []
    for length, part in table.of(Sparse, allow_absent=True).by("length").items():
        setting = f"n = {length}"
        for window, mine in part.by("window").items():
            for metric, unit in METRICS.items():
                found.append(SummaryRow.of(setting, named(window), metric, mean_by_unit(mine, metric), unit=unit))
            if window is not None:
                for metric in ("accuracy", "recall"):
                    gap = less(part, metric, {"window": window}, {"window": None})
                    found.append(SummaryRow.of(setting, f"{named(window)} - exact", metric, gap, unit="points"))
    return found


def named(window: int | None) -> str:
    """Words for a pattern."""
    return "exact" if window is None else f"window {window}"


def draw(table: Rows) -> Mapping[str, Picture]:
    """Needle tokens kept and right answers against the share of attention that the pass forms."""
    if not table.rows:
        return {}
    fig, data = style.figure(9, 4.2), []
    with style.applied(9):
        panels = fig.subplots(1, 2, sharex=True)
    for axes, metric, label in zip(
        panels, ("recall", "accuracy"), ("needle tokens kept (%)", "right answers (%)"), strict=True
    ):
        series = []
        for length, part in table.of(Sparse, allow_absent=True).by("length").items():
            points = []
            for window, mine in part.by("window").items():
                found, share = mean_by_unit(mine, metric), float(mine.column("products").mean())
                points.append((share, found.value, *found.at(0.95)))
                data.append({"length": length, "pattern": named(window), "products": share, metric: found.value})
            series.append(Series(f"n = {length}", *np.array(sorted(points)).T))
        curves(axes, series, "products of attention formed (% of causal)", label)
    caption = "Sparse filter pass: what is kept and answered as fewer products of attention are formed; the rightmost "
    return {"gemfilter.sparse": Picture(fig, caption + "point of each curve is the exact pass.", data=data)}


def cost(trial: Trial) -> Cost:
    """Measured for SmolLM2 on one core."""
    n, passes = trial.length, 1 + len(trial.windows)
    return Cost(len(trial.depths) * passes * (2 + n * 0.004 * (1 + n / 7000)), 1500 + n * 0.3)


EXPERIMENT = Experiment(
    id="gemfilter/sparse",
    title="A filter pass with sinks and a window beside the exact one",
    reproduces=(),
    Config=Config,
    presets={
        "smoke": Config(lengths=(512,), depths=(0.5,), windows=(64,), keep=128),
        "small": Config(),
        "paper": Config(
            lengths=(1024, 2048, 4096),
            depths=(0.05, 0.25, 0.5, 0.75, 0.95),
            needles=(3, 2, 1),
            windows=(1024, 512, 256, 128, 64, 32),
        ),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "filter pass",
            reported="full attention in every layer",
            ours="sinks and a window below the filter layer, the question's rows dense",
            why="linear in the prompt's length; not in the paper",
        ),
    ),
    cost=cost,
    rows=(Sparse,),
)
