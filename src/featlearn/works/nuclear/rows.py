"""Names of the rows that experiments of this work write and claims read, and how a weight is chosen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

SYNTHETIC, DIGITS, RANK = "nuclear/synthetic", "nuclear/digits", "nuclear/rank"

# nuclear/synthetic: two kinds of rows, both with n (0: the whole law), row, head and seed; id, ood: exact accuracies
ERM, NU = "ERM", "ERM-NU"
FREE, UNIT = "free head", "unit head"
"""Row and head of a path: a row per evaluation (step), with quantiles over starts of ood (ood_low, ood, ood_high: 5, 50
and 95 percent), mean id and train_loss, near (share of starts whose ood is within NEAR of the number reported for that
row), scale (of the start)."""
NEAR = 0.02
DECAY_UNIT, DECAY_FREE = "l2 of the features, unit head", "weight decay of both layers, free head"
NUCLEAR_UNIT, NUCLEAR_FREE = "nuclear norm, unit head", "nuclear norm, free head"
PENALTIES = (DECAY_UNIT, DECAY_FREE, NUCLEAR_UNIT, NUCLEAR_FREE)
"""Row of an end of training with a penalty: weight, slope (b of the direction (1, b)), id, ood, train_loss, spread (of
ood over starts), head_norm, top (largest singular value of A)."""

# nuclear/digits and nuclear/rank: one row per run and way to take weights, row: name of the algorithm without "-nu"
BASES = {"erm": "ERM", "mixup": "Mixup", "swad": "SWAD"}
"""Algorithms that the paper regularises, as rows name them and as it does.

Fields of a row: setting (kind and images), kind, held_out, seed, weight (of the norm by the rows of a step) and raw (of
the norm itself), validation and test (accuracies), step, and of the features of the held-out domain norm (nuclear norm
by rows), rank and rank_centred (stable rank, usual form, raw and centred), reported (|M|_F^2 / |M|_2)."""

RANKS = {"rank": "stable rank", "rank_centred": "stable rank, centred", "reported": "stable rank, norm not squared"}


@dataclass(frozen=True)
class Pair:
    """One seed and held-out domain of an algorithm: test accuracy without the nuclear norm, and with the weight above 0
    of the highest validation accuracy (the smallest of equals), in percent."""

    setting: str
    row: str
    held_out: str
    seed: int
    weight: float
    without: float
    with_: float

    @property
    def gain(self) -> float:
        return self.with_ - self.without


def pairs(rows: Iterable[Mapping[str, Any]]) -> list[Pair]:
    """What training-domain validation picks, beside no penalty, for every run that has both; no test accuracy is used
    at in picking."""
    groups: dict[tuple[str, str, str, int], list[Mapping[str, Any]]] = {}
    for r in rows:
        groups.setdefault((r["setting"], r["row"], r["held_out"], r["seed"]), []).append(r)
    out = []
    for key, group in groups.items():
        without = [r for r in group if r["weight"] == 0]
        with_ = [r for r in group if r["weight"] > 0]
        if without and with_:
            best = max(with_, key=lambda r: (r["validation"], -r["weight"]))
            out.append(Pair(*key, best["weight"], 100 * without[0]["test"], 100 * best["test"]))
    return out


def settings(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of the kinds of data, in order of first appearance."""
    return list(dict.fromkeys(r["setting"] for r in rows))


def correlations(rows: Iterable[Mapping[str, Any]], metric: str) -> list[float]:
    """Spearman's correlation of a measure with the weight, one for every data, held-out domain and seed that has at
    least three weights. A measure that does not change counts as 0."""
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for r in rows:
        groups.setdefault((r["setting"], r["held_out"], r["seed"]), []).append(r)
    out = []
    for group in groups.values():
        if len(group) >= 3:
            weight, value = (rankdata([r[name] for r in group]) for name in ("weight", metric))
            flat = np.ptp(value) == 0 or np.ptp(weight) == 0
            out.append(0.0 if flat else float(np.corrcoef(weight, value)[0, 1]))
    return out
