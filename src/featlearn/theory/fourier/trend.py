"""Does a waiting time fall or rise along ordered groups, when some of the times never ended?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BLOCK = 1000  # assignments at once


@dataclass(frozen=True)
class Trend:
    """statistic: pairs that fall minus pairs that rise, over pairs of different groups, in -1..1, so above 0 for a
    fall. p: two-sided level. pairs: how many pairs of different groups can be ordered at all, and how many there are.
    """

    statistic: float
    p: float
    pairs: tuple[int, int]


def _orders(times: np.ndarray, censored: np.ndarray) -> np.ndarray:
    """(n, n): 1 where time i surely is above time j, -1 below, 0 where they tie or censoring leaves it open."""
    above = (times[:, None] > times[None]) & ~censored[None]
    above |= (times[:, None] == times[None]) & censored[:, None] & ~censored[None]  # still waiting when j ended
    return above.astype(float) - above.T


def falling_trend(
    groups: Sequence[Sequence[tuple[float | int, bool]]], rng: np.random.Generator, draws: int = 20_000
) -> Trend:
    """Jonckheere's test for ordered groups with right-censored times, by permutation.

    groups: in order, each with (time, censored); a censored time is one that was only waited for. Statistic: over all
    pairs of times from different groups +1 if the later group's is surely smaller, -1 if surely larger (Gehan's
    scores), divided by the number of pairs. Level: the share of `draws` random assignments of times to groups whose
    statistic is at least as far from 0, the observed one counted in. It is exact up to the draws if times and waits
    would be exchangeable between groups without a trend, so waits should be alike in all of them.

    Errors: ValueError for fewer than two groups that hold a time, and for times that are not finite.

    Example:
        >>> groups = [[(9.0, True), (8.0, False)], [(5.0, False), (4.0, False)], [(1.0, False), (2.0, False)]]
        >>> falling_trend(groups, np.random.default_rng(0)).statistic
        1.0
    """
    filled = [g for g in groups if len(g)]
    if len(filled) < 2:
        raise ValueError(f"groups = {len(filled)} with times is not allowed: at least 2; run more values of k")
    times = np.array([t for g in filled for t, _ in g], dtype=float)
    censored = np.array([c for g in filled for _, c in g], dtype=bool)
    if not np.isfinite(times).all():
        raise ValueError("times that are not finite are not allowed; give what was waited and mark it censored")
    rank = np.repeat(np.arange(len(filled)), [len(g) for g in filled])
    later = (rank[:, None] < rank[None]).astype(float)
    orders = _orders(times, censored)
    total = float(later.sum())
    found = float((orders * later).sum()) / total
    hits = 1
    for start in range(0, draws, BLOCK):
        order = rng.permuted(np.tile(np.arange(len(times)), (min(BLOCK, draws - start), 1)), axis=1)
        values = (orders[order[:, :, None], order[:, None]] * later).sum((1, 2)) / total
        hits += int((np.abs(values) >= abs(found) - 1e-12).sum())
    return Trend(found, hits / (draws + 1), (int((np.abs(orders) * later).sum()), int(total)))
