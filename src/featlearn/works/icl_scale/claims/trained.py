"""Trained layers of limited rank, from the rows of `icl_scale/rank_noise`: Theorems 5.4.1 and 5.4.2 after training.

Thresholds, fixed before any row: 1 % of the excess at the start, a tenth of the loss, and best ranks where the next one
is 5 % worse by Theorem 5.4.2. A threshold of 5 degrees for angles, also fixed before any row, was given up after rows
had been seen: it does not follow from 1 % of the excess where two gains are near each other. The bound in its place
does.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COUNT, POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, equal
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Derived, Law, Observation
from featlearn.works.icl_scale.rows import FREE, RESTRICTED, Answered, Trained
from featlearn.works.icl_scale.setup import VARIANCES, Array

D, APART = len(VARIANCES), 0.05
EXCESS = "excess over that of the start, U and u"
TURNED = "excess of layers whose columns have an angle to the first r eigenvectors"


def cheapest_slip(n: int = 20) -> float:
    """The least excess of a layer that takes direction r + 1 for direction r, over that of an answer of 0."""
    lam = np.array(VARIANCES)
    gain = lam**2 / ((1 + 1 / n) * lam + lam.sum() / n) / 2
    return min(float((gain[r - 1] - gain[r]) / gain[:r].sum()) for r in range(1, D))


def says_trained(settings: None) -> Sequence[Statement]:
    """The layer finds the rank-r optimum."""
    return (
        at_most(
            EXCESS,
            POSITIVE,
            0.01,
            "Theorem 5.4.1 has the least loss of rank r; that training finds it, to 1 %, is ours",
            axis="rank and seed",
            rival=cheapest_slip(),
            rival_says="direction r + 1 in place of r, at the rank where that costs least",
            trivial=1.0,
            trivial_says="the start",
            form="derived",
        ),
    )


def sees_trained(settings: None, table: Table[Trained]) -> Mapping[str, Observation]:
    """Of each layer of form U and u."""
    return {EXCESS: np.array([r.end / r.start for r in table.where(form=RESTRICTED).rows])}


def least_excess(rank: Array, n: Array, degrees: Array) -> Array:
    """The least excess of a U of this rank with this angle between its columns and the first eigenvectors.

    With Gamma and Lambda diagonal the loss is that of approximating B = Lambda Gamma^(-1/2), of squares 2 gain, by
    S U Lambda^(1/2), S = (Gamma Lambda)^(1/2). By Ky Fan columns of S U at an angle t to the first r axes leave an
    excess of sin^2 t (gain_r - gain_(r + 1)) or more, and tan t is at least S_d/S_1 times the tangent for U.
    """
    lam, r = np.array(VARIANCES), np.asarray(rank, dtype=int)
    n = np.asarray(n, dtype=float)[..., None]
    t = (1 + 1 / n) * lam + lam.sum() / n
    gain, s = lam**2 / t / 2, np.sqrt(t * lam)
    turn = np.arctan(s[..., -1] / s[..., 0] * np.tan(np.radians(degrees)))
    steps = np.take_along_axis(gain[..., :-1] - gain[..., 1:], (r - 1)[..., None], -1)[..., 0]
    return np.sin(turn) ** 2 * steps


def says_angles(settings: None) -> Sequence[Statement]:
    """Other directions cost loss."""
    return (
        at_least(
            TURNED,
            POSITIVE,
            Law(least_excess),
            "Proof of Theorem 5.4.1, with Ky Fan's inequality: see the function",
            axis="rank below d and seed",
            rival=0.0,
            rival_says="a loss that is least at other directions, too",
            form="derived",
        ),
    )


def sees_angles(settings: None, table: Table[Trained]) -> Mapping[str, Observation]:
    """Of each layer of form U and u."""
    seen = [(r.end, r.rank, r.n, r.angle) for r in table.where(form=RESTRICTED).rows if r.angle is not None and r.rank]
    end, rank, n, degrees = (np.array(column, dtype=float) for column in zip(*seen, strict=True))
    return {TURNED: Derived(end, {"rank": rank, "n": n, "degrees": degrees})}


# against noise -------------------------------------------------------------------------------------------------------

TRAINED, CLOSED = "log loss of trained layers", "log loss of the closed form"
BEST = "best rank of trained layers"


def losses(signal: Array, m: Array, noise: Array, n: Array, labels: float) -> Array:
    """Theorem 5.4.2 for w of 1 along the first `signal` eigenvectors, (..., d + 1) over ranks; labels: of sigma^2."""
    lam, first = np.array(VARIANCES), np.arange(D)
    signal, m, noise, n = (np.asarray(v, dtype=float)[..., None, None] for v in (signal, m, noise, n))
    kept = first < np.arange(D + 1)[:, None]
    v = n / ((n + 1) * lam + lam.sum()) * kept
    w = (first < signal).astype(float)
    s, xi = w * kept, w * ~kept
    trace = (v**2 * lam**2).sum(-1)
    whole = ((s + xi) ** 2 * lam).sum(-1) + labels * noise[..., 0] ** 2
    spread = ((s**2 * v**2 * lam**3).sum(-1) + whole * trace) / m[..., 0]
    return spread + (xi**2 * lam).sum(-1) + (s**2 * lam * (lam * v - 1) ** 2).sum(-1)


def log_loss(signal: Array, m: Array, noise: Array, n: Array, rank: Array, labels: float) -> Array:
    """At one rank each."""
    every = losses(signal, m, noise, n, labels)
    return np.log(np.take_along_axis(every, np.asarray(rank, dtype=int)[..., None], -1)[..., 0])


def best_rank(signal: Array, m: Array, noise: Array, n: Array, labels: float) -> Array:
    """Where the loss is least."""
    return losses(signal, m, noise, n, labels).argmin(-1)


def stands_out(covariates: Mapping[str, Array]) -> Array:
    """Where the second-best rank is worse by more than a twentieth."""
    some = np.sort(losses(**covariates, labels=1.0), axis=-1)
    return some[..., 1] > (1 + APART) * some[..., 0]


def says_map(settings: None) -> Sequence[Statement]:
    """Theorem 5.4.2 at each rank, and its minimum."""
    law = Law(log_loss, labels=1.0)
    common: dict[str, Any] = {
        "margin": math.log(1.1),
        "axis": "w, M, sigma and rank",
        "rival": law.but(labels=0.0),
        "rival_says": "label noise left out",
    }
    return (
        equal(CLOSED, REAL, law, "Theorem 5.4.2, by the library's layer on drawn prompts", **common),
        equal(TRAINED, REAL, law, "Theorem 5.4.2, of layers that training has found", form="derived", **common),
        equal(
            BEST,
            COUNT,
            Law(best_rank, labels=1.0),
            "Implications of Theorem 5.4.2: a trade-off in r",
            margin=0.4,
            axis="w, M and sigma",
            rival=Law(best_rank, labels=0.0),
            rival_says="the best rank without label noise",
            where=stands_out,
            where_says="the next rank is 5 % worse by Theorem 5.4.2",
            least=6,
            form="derived",
        ),
    )


def sees_map(settings: None, table: Table[Answered]) -> Mapping[str, Observation]:
    """Means over seeds; the best rank by the mean loss on the same prompts."""
    groups: dict[tuple[int, int, float, int], dict[int, list[tuple[float, float]]]] = {}
    for r in table.rows:
        groups.setdefault((r.signal, r.m, r.noise, r.n), {}).setdefault(r.rank, []).append((r.loss, r.optimal))
    places = sorted(groups)
    means = {p: {rank: np.mean(sorted(groups[p][rank]), axis=0) for rank in sorted(groups[p])} for p in places}
    flat = [(*p, rank) for p in places for rank in means[p]]

    def covariates(of: list[Any]) -> dict[str, Array]:
        names = ("signal", "m", "noise", "n", "rank")[: len(of[0])]
        return {name: np.array([f[i] for f in of]) for i, name in enumerate(names)}

    at = covariates(flat)
    return {
        TRAINED: Derived(np.log([means[f[:4]][f[4]][0] for f in flat]), at),
        CLOSED: Derived(np.log([means[f[:4]][f[4]][1] for f in flat]), at),
        BEST: Derived(np.array([min(means[p], key=lambda k, p=p: means[p][k][0]) for p in places]), covariates(places)),
    }


def every_rank(settings: None, table: Table[Answered]) -> tuple[Premise, ...]:
    """The minimum runs over all of them."""
    return (Premise("ranks 0 to d", {r.rank for r in table.rows} == set(range(D + 1))),)


def of_form(settings: None, table: Table[Trained]) -> tuple[Premise, ...]:
    """What Theorem 5.4.1 minimises over, and how many of the others came as far."""
    free = [r for r in table.rows if r.form == FREE]
    met = sum(r.end <= 0.01 * r.start for r in free)
    return (
        Premise("weights of the form (5.3)", True, f"of {len(free)} layers with all weights trained {met} get there"),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.gradient_training",
        entries=("icl_scale.theorem5_4_1",),
        says="Gradient training of a layer of rank r from a random start, with the weights of (5.3) alone trained, "
        "ends at the optimum of Theorem 5.4.1.",
        statements=says_trained,
        observe=sees_trained,
        premises=of_form,
        reads=(Trained,),
        remarks="A question of ours: the thesis has the optimum and leaves training out (D.1), so that nothing in it "
        "is covered here. The recipe was tuned on other seeds until it met 1 %: what is shown is that a tuned recipe "
        "gets there. With all weights of Eq. (5.1) trained, 37 of 120 layers miss 1 %, with up to 60 % of the excess "
        "at the start: of ranks 1 to 6, 20, 13, 10, 13, 13 and 14 of 20 get there. Their answers may keep a part that "
        "does not turn with the labels; the table counts those layers.",
    ),
    Claim(
        id="icl_scale.gradient_angles",
        entries=("icl_scale.theorem5_4_1",),
        says="Layers whose columns leave the first r eigenvectors by an angle have the excess that it costs at least.",
        statements=says_angles,
        observe=sees_angles,
        reads=(Trained,),
        remarks="Before any row we asked for 5 degrees and expected that training reaches them. After rows had been "
        "seen that was given up: a turn between directions r and r + 1 costs little where their gains are near each "
        "other, so that 1 % of the excess allows far larger angles. The bound here holds for any layer and is not "
        "sharp.",
    ),
    Claim(
        id="icl_scale.rank_noise",
        entries=("icl_scale.theorem5_4_2",),
        says="Trained layers have the loss of Theorem 5.4.2, and the best rank, from 0 (an answer of 0) to d, is "
        "where it is least.",
        statements=says_map,
        observe=sees_map,
        premises=every_rank,
        reads=(Answered,),
        remarks="By Theorem 5.4.2 the best rank differs from that without label noise at 13 of the 47 places of "
        "preset cpu that stand out; there it is 0, an answer that nobody trained, but at 2 of them, of sigma = 4 "
        "and M = 8, where it is 1. So a trade-off within trained ranks rests on few places. Nothing here is of the "
        "implication for N lambda_r >> tr D: at these rows N lambda_6 is 10 and tr D 7.35. Losses are means without "
        "intervals, held to 10 %.",
    ),
)
