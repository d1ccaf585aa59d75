"""What transformers of the work show, judged on rows of the experiments: attention matrices, accuracy, grokking."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from featlearn.core import Key
from featlearn.lab.experiment import Rows
from featlearn.lab.pending import Case, Claim, Evidence, needs, reads
from featlearn.lab.statistics import Trend, falling_trend
from featlearn.works.fourier.claims.sizes import at_sizes
from featlearn.works.fourier.rows import ATTENTION, DECAYED, EQUAL, GROKKING, REPORTED, START, SWAPPED, TRAINED

Records = Sequence[Mapping[str, Any]]
SPARSE, PLAIN, HEADS = 0.8, 0.2, 80.0
"""Share of power in the four strongest pairs of bins: of trained heads at least, of heads at the start at most; percent
of heads. The paper shows pictures without numbers; these are the inventory's."""


FIGURES = ((3, 61), (4, 31), (5, 17))
CURVES = ((2, 97), (3, 31), (4, 11), (5, 5))
"""Reported (k, p) of the attention matrices and of the grokking curves."""

Task = tuple[int, int, str]


def by_task(table: Rows) -> dict[Task, dict[str, Records]]:
    """(k, p, readout) -> row name -> rows of all seeds."""
    found: dict[Task, dict[str, list[Mapping[str, Any]]]] = {}
    for r in table.rows:
        found.setdefault((r["k"], r["p"], r["readout"]), {}).setdefault(r["row"], []).append(r)
    return {task: dict(rows) for task, rows in sorted(found.items())}


def reported_sizes(
    experiment: str, reported: Sequence[tuple[int, int]], judge: Callable[[Rows], Evidence], variant: str = ""
) -> Callable[[Rows], Evidence]:
    """The judge, with the reported (k, p) as a premise; variant: whose rows count."""

    def check(table: Rows) -> Evidence:
        found = {(r["k"], r["p"]) for r in table.rows if not variant or r.get("variant") == variant}
        return at_sizes(judge(table), experiment, found, reported)

    return check


def named(tasks: Iterable[Task]) -> str:
    """Tasks and places of reading as text."""
    return ", ".join(f"k = {k}, p = {p}, read at {where}" for k, p, where in tasks)


def mean(rows: Records, name: str) -> float:
    """The mean of a column."""
    return float(np.mean([r[name] for r in rows]))


def sparse_cosines(trained: Records, start: Records) -> list[bool]:
    """Whether 80 % of trained heads are sparse, and whether heads at the start are not."""
    return [mean(trained, "sparse") >= HEADS, mean(start, "top4") <= PLAIN]


def judge_attention(table: Rows) -> Evidence:
    """Figures 4.3, C.5, C.6: cosines in two dimensions."""
    tasks = by_task(table)
    found, swapped, notes = [], [], []
    for task, rows in tasks.items():
        found += sparse_cosines(rows[TRAINED], rows[START])
        swapped += sparse_cosines(rows[START], rows[TRAINED])
        notes.append(
            f"{named([task])}: {mean(rows[TRAINED], 'sparse'):.0f} % of heads, median share "
            f"{mean(rows[TRAINED], 'top4'):.2f} against {mean(rows[START], 'top4'):.2f}"
        )
    return Evidence(
        (
            Case(
                f"80 % of trained heads have {SPARSE} of their power in four pairs of bins; at the start the median "
                f"head has at most {PLAIN}; " + named(tasks),
                predict=np.ones(len(found)),
                observe=found,
                rival=swapped,
                rival_says="the start in place of the trained network",
            ),
        ),
        comment="Heads E^T W^KQ E with means of rows and columns removed; " + "; ".join(notes) + ".",
    )


def judge_learned_attention(table: Rows) -> Evidence:
    """Whether the cosines are in W^KQ, or only in the embedding around it."""
    tasks = by_task(table)
    gain, notes = [], []
    for task, rows in tasks.items():
        with_start = {r["seed"]: r["top4"] for r in rows[SWAPPED]}
        each = [r["top4"] - with_start[r["seed"]] for r in rows[TRAINED]]
        gain.append(np.mean(each))
        notes.append(f"{named([task])}: {mean(rows[TRAINED], 'top4'):.2f} against {mean(rows[SWAPPED], 'top4'):.2f}")
    found = np.array(gain)
    return Evidence(
        (
            Case(
                "trained heads have a median share 0.05 above that with W^KQ of the start; " + named(tasks),
                predict=np.ones(len(found)),
                observe=found > 0.05,
                rival=-found > 0.05,
                rival_says="the two exchanged",
            ),
        ),
        comment="A control of our own: the trained embedding around W^KQ of the start. " + "; ".join(notes) + ".",
    )


def judge_accuracy(table: Rows) -> Evidence:
    """Section 4.6: one-layer transformers learn the task up to k = 5."""
    tasks = by_task(table)
    least = [min(r["test_acc"] for r in rows[TRAINED]) for rows in tasks.values()]
    chance = [100 / p for _, p, _ in tasks]
    return Evidence(
        (
            Case(
                "test accuracy of the worst seed, percent: " + named(tasks),
                predict=np.full(len(least), 95.0),
                observe=least,
                rival=np.full(len(least), 100.5),
                relation="at least",
                tolerance=0.0,
                rival_says="more than all points",
            ),
            Case(
                "the same over chance 100 / p",
                predict=np.ones(len(least)),
                observe=np.array(least) > 10 * np.array(chance),
                rival=np.zeros(len(least)),
                rival_says="no better than chance",
            ),
        )
    )


Waits = dict[int, list[tuple[float, bool]]]


def ratios(rows: Records, level: int) -> Waits:
    """k -> (step of the test accuracy over step of the training accuracy at `level` percent, whether the test accuracy
    never came and the ratio is what was waited, so a lower bound), for each seed whose training accuracy came."""
    found: Waits = {}
    for r in rows:
        train, test = r[f"train{level}"], r[f"test{level}"]
        if train is not None:
            last = r["steps"] if test is None else test
            found.setdefault(r["k"], []).append((last / max(train, 1), test is None))
    return dict(sorted(found.items()))


def fall(waits: Waits, level: float = 0.05) -> tuple[float, Trend]:
    """1 where the waits fall with k by Jonckheere's test at this two-sided level, -1 where they rise, 0 where neither
    is established."""
    trend = falling_trend(list(waits.values()), Key("fourier/grokking/claim").numpy())
    return (math.copysign(1.0, trend.statistic) if trend.p < level and trend.statistic else 0.0), trend


def judge_grokking(variant: str, level: int = 99) -> Callable[[Rows], Evidence]:
    """A judge of one variant: a delay at the smallest k, and a ratio that falls with k."""

    def judge(table: Rows) -> Evidence:
        rows = [r for r in table.rows if r["variant"] == variant]
        if not rows:
            return needs(GROKKING)
        found = ratios(rows, level)
        if len(found) < 2:
            return Evidence(
                (
                    Case(
                        "values of k at which the training accuracy came",
                        predict=2.0,
                        observe=float(len(found)),
                        rival=5.0,
                        relation="at least",
                        tolerance=0.0,
                        rival_says="more than there are",
                    ),
                )
            )
        sign, trend = fall(found)
        first = min(found)
        delay = float(np.exp(np.mean([math.log(v) for v, _ in found[first]])))
        each = "; ".join(
            f"k = {k}: " + ", ".join(f"{v:.3g}{'+' if open_ else ''}" for v, open_ in waits)
            for k, waits in found.items()
        )
        fits = {k: np.mean([r[f"train{level}"] for r in rows if r["k"] == k and r[f"train{level}"]]) for k in found}
        return Evidence(
            (
                Case(
                    f"step of test over step of training accuracy {level} %, k = {first}, geometric mean over seeds",
                    predict=2.0,
                    observe=delay,
                    rival=2 * delay,
                    relation="at least",
                    tolerance=0.0,
                    rival_says="twice as much",
                ),
                # where the test tells neither, both stay within the tolerance: not established, rather than refuted
                Case(
                    "whether the ratio falls with k: 1 yes, -1 it rises, 0 neither at 5 %",
                    predict=1.0,
                    observe=sign,
                    rival=-1.0,
                    tolerance=0.5 if sign else 2.0,
                    rival_says="a ratio that rises with k",
                ),
            ),
            comment=f"Ratios by seed (+: the test accuracy never came, the ratio is what was waited): {each}. "
            f"Jonckheere statistic {trend.statistic:.2f}, p = {trend.p:.2g}. Steps to fit the training points: "
            + ", ".join(f"{v:.0f} at k = {k}" for k, v in fits.items())
            + ".",
        )

    return judge


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "fourier.attention",
        entries=("fourier.figure4_3", "fourier.figureC_5", "fourier.figureC_6"),
        says="After training, attention matrices of one-layer transformers are sums of few two-dimensional cosines.",
        check=reads(ATTENTION, reported_sizes(ATTENTION, FIGURES, judge_attention)),
        expected="not run",
    ),
    Claim(
        "fourier.attention_learned",
        entries=("fourier.figure4_3", "fourier.figureC_5", "fourier.figureC_6"),
        says="The cosines are in W^KQ, not only in the embedding on both sides of it.",
        check=reads(ATTENTION, reported_sizes(ATTENTION, FIGURES, judge_learned_attention)),
        expected="assumptions unmet",
    ),
    Claim(
        "fourier.transformer_accuracy",
        entries=("fourier.figureC_6", "fourier.method_transformer_training"),
        says="A one-layer transformer learns the task for k = 3, 4 and 5.",
        check=reads(ATTENTION, reported_sizes(ATTENTION, FIGURES, judge_accuracy)),
        expected="not run",
    ),
    Claim(
        "fourier.grokking",
        entries=("fourier.figure4_4",),
        says="Two-layer transformers learn test points later than training points for the smallest k, twice as late or "
        "more, and by a smaller factor for larger k.",
        check=reads(GROKKING, reported_sizes(GROKKING, CURVES, judge_grokking(REPORTED), REPORTED)),
        expected="not established",
        reported="Figure 4.4 shows 'a grokking phenomenon in all figures' that weakens with k. Its data sets, chosen "
        "'roughly equal', hold 9409, 29791, 14641 and 3125 points; fourier.grokking_equal_data has as many for "
        "every k.",
    ),
    Claim(
        "fourier.grokking_decay",
        entries=("fourier.figure4_4",),
        says="The same with a weight decay some hundred times the reported one.",
        check=reads(GROKKING, reported_sizes(GROKKING, CURVES, judge_grokking(DECAYED), DECAYED)),
        expected="not established",
    ),
    Claim(
        "fourier.grokking_equal_data",
        entries=("fourier.figure4_4",),
        says="The same with as many training points for every k.",
        check=reads(GROKKING, judge_grokking(EQUAL)),
        expected="holds",
    ),
)
