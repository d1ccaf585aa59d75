"""What transformers of the work show, judged on rows of the experiments: attention matrices, accuracy, grokking."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featlearn.run.claim import Case, Claim, Evidence, reads
from featlearn.run.estimate import interval
from featlearn.run.experiment import Table
from featlearn.theory.fourier.rows import ATTENTION, EQUAL, GROKKING, PRINTED, START, SWAPPED, TRAINED

Rows = Sequence[Mapping[str, Any]]
SPARSE, PLAIN, HEADS = 0.8, 0.2, 80.0
"""Share of power in the four strongest pairs of bins: of trained heads at least, of heads at the start at most; percent
of heads. The print shows pictures without numbers; these are the inventory's."""


def by_task(table: Table) -> dict[tuple[int, int], dict[str, Rows]]:
    """(k, p) -> row name -> rows of all seeds."""
    found: dict[tuple[int, int], dict[str, list[Mapping[str, Any]]]] = {}
    for r in table.rows:
        found.setdefault((r["k"], r["p"]), {}).setdefault(r["row"], []).append(r)
    return {task: dict(rows) for task, rows in sorted(found.items())}


def mean(rows: Rows, name: str) -> float:
    return float(np.mean([r[name] for r in rows]))


def sparse_cosines(trained: Rows, start: Rows) -> list[bool]:
    """Whether 80 % of trained heads are sparse, and whether heads at the start are not."""
    return [mean(trained, "sparse") >= HEADS, mean(start, "top4") <= PLAIN]


def judge_attention(table: Table) -> Evidence:
    """Figures 4.3, C.5, C.6: cosines in two dimensions."""
    tasks = by_task(table)
    found, swapped, notes = [], [], []
    for (k, p), rows in tasks.items():
        found += sparse_cosines(rows[TRAINED], rows[START])
        swapped += sparse_cosines(rows[START], rows[TRAINED])
        notes.append(f"k = {k}, p = {p}: {mean(rows[TRAINED], 'sparse'):.0f} % of heads, median share "
                     f"{mean(rows[TRAINED], 'top4'):.2f} against {mean(rows[START], 'top4'):.2f}")  # fmt: skip
    return Evidence(
        (
            Case(f"80 % of trained heads have {SPARSE} of their power in four pairs of bins; at the start the median "
                 f"head has at most {PLAIN}; (k, p) = " + ", ".join(map(str, tasks)), np.ones(len(found)), found,
                 swapped, rival_says="the start in place of the trained network"),
        ),
        comment="Heads E^T W^KQ E with means of rows and columns removed; " + "; ".join(notes) + ".",
    )  # fmt: skip


def judge_learned_attention(table: Table) -> Evidence:
    """Whether the cosines are in W^KQ, or only in the embedding around it."""
    tasks = by_task(table)
    gain, notes = [], []
    for (k, p), rows in tasks.items():
        with_start = {(r["readout"], r["seed"]): r["top4"] for r in rows[SWAPPED]}
        each = [r["top4"] - with_start[r["readout"], r["seed"]] for r in rows[TRAINED]]
        gain.append(np.mean(each))
        notes.append(f"k = {k}, p = {p}: {mean(rows[TRAINED], 'top4'):.2f} against {mean(rows[SWAPPED], 'top4'):.2f}")
    found = np.array(gain)
    return Evidence(
        (
            Case("trained heads have a median share 0.05 above that with W^KQ of the start; (k, p) = "
                 + ", ".join(map(str, tasks)), np.ones(len(found)), found > 0.05, -found > 0.05,
                 rival_says="the two exchanged"),
        ),
        comment="A control that the print lacks: the trained embedding around W^KQ of the start. "
        + "; ".join(notes) + ".",
    )  # fmt: skip


def judge_accuracy(table: Table) -> Evidence:
    """Section 4.6: one-layer transformers learn the task up to k = 5."""
    tasks = by_task(table)
    least = [min(r["test_acc"] for r in rows[TRAINED]) for rows in tasks.values()]
    chance = [100 / p for _, p in tasks]
    return Evidence(
        (
            Case("test accuracy of the worst seed, percent, (k, p) = " + ", ".join(map(str, tasks)),
                 np.full(len(least), 95.0), least, np.full(len(least), 100.5), "at least", 0.0, "more than all points"),
            Case("the same over chance 100 / p", np.ones(len(least)), np.array(least) > 10 * np.array(chance),
                 np.zeros(len(least)), rival_says="no better than chance"),
        )
    )  # fmt: skip


def ratios(rows: Rows, level: int) -> tuple[dict[int, dict[int, float]], int]:
    """k -> seed -> step of the test accuracy over step of the training accuracy at `level` percent; where the test
    accuracy never came, what was waited (a lower bound), and how many of those there are."""
    found: dict[int, dict[int, float]] = {}
    censored = 0
    for r in rows:
        train, test = r[f"train{level}"], r[f"test{level}"]
        if train is None:
            continue
        censored += test is None
        found.setdefault(r["k"], {})[r["seed"]] = (r["steps"] if test is None else test) / max(train, 1)
    return dict(sorted(found.items())), censored


def sign_of_trend(values: Mapping[int, Mapping[int, float | int]]) -> tuple[float, tuple[float, float, float]]:
    """Sign of the slope of log values against k, 0 where its 95 % interval over seeds holds 0; and the interval."""
    seeds = set.intersection(*(set(v) for v in values.values())) if values else set()
    if len(values) < 2 or len(seeds) < 2:
        return 0.0, (math.nan, math.nan, math.nan)
    ks = np.array(list(values), dtype=float)
    slopes = [np.polyfit(ks, [np.log(values[int(k)][s]) for k in ks], 1)[0] for s in sorted(seeds)]
    middle, low, high = interval(slopes)
    return float(low > 0) - float(high < 0), (middle, low, high)


def judge_grokking(variant: str, level: int = 95):
    """A judge of one variant: a delay at k = 2, and a delay that falls with k."""

    def judge(table: Table) -> Evidence:
        rows = [r for r in table.rows if r["variant"] == variant]
        if not rows:
            return Evidence(not_run=f"featlearn run {GROKKING} --preset paper")
        found, censored = ratios(rows, level)
        if len(found) < 2:
            return Evidence(
                (Case("values of k at which training accuracy came", 2.0, float(len(found)), 5.0, "at least"),)
            )
        sign, (middle, low, high) = sign_of_trend(found)
        first = min(found)
        delay = float(np.exp(np.mean(np.log(list(found[first].values())))))
        trains = {k: {r["seed"]: r[f"train{level}"] for r in rows if r["k"] == k and r[f"train{level}"]} for k in found}
        up, _ = sign_of_trend(trains)
        each = "; ".join(
            f"k = {k}: " + ", ".join(f"{v:.3g}" for v in seeds.values()) for k, seeds in found.items()
        )  # fmt: skip
        return Evidence(
            (
                Case(f"step of test over step of training accuracy {level} %, k = {first}, mean over seeds", 2.0, delay,
                     2 * delay, "at least", 0.0, "twice as much"),
                Case("sign of its trend with k (0: the interval over seeds holds 0)", -1.0, sign, 1.0,
                     rival_says="a delay that grows with k"),
            ),
            comment=f"Ratios {each}; slope of their logarithm {middle:.2f} [{low:.2f}, {high:.2f}]; "
            f"{censored} runs never reached {level} % on test points and count with the steps they had. Steps to fit "
            f"the training points {'rise' if up > 0 else 'fall' if up < 0 else 'show no trend'} with k.",
        )  # fmt: skip

    return judge


CLAIMS: tuple[Claim, ...] = (
    Claim("fourier.attention", ("fourier.figure4_3", "fourier.figureC_5", "fourier.figureC_6"),
          "After training, attention matrices of one-layer transformers are sums of few two-dimensional cosines.",
          reads(ATTENTION, judge_attention)),
    Claim("fourier.attention_learned", ("fourier.figure4_3", "fourier.figureC_5", "fourier.figureC_6"),
          "The cosines are in W^KQ, not only in the embedding on both sides of it.",
          reads(ATTENTION, judge_learned_attention)),
    Claim("fourier.transformer_accuracy", ("fourier.figureC_6", "fourier.method_transformer_training"),
          "A one-layer transformer learns the task for k = 3, 4 and 5.", reads(ATTENTION, judge_accuracy)),
    Claim("fourier.grokking", ("fourier.figure4_4",),
          "Two-layer transformers grok for every k, and less so for larger k.",
          reads(GROKKING, judge_grokking(PRINTED)),
          printed="Data sets called roughly equal differ by 9.5 times (3125 to 29791 points); the text says SGD, the "
          "caption AdamW."),
    Claim("fourier.grokking_equal_data", ("fourier.figure4_4",),
          "The same with as many training points for every k.", reads(GROKKING, judge_grokking(EQUAL))),
)  # fmt: skip
