"""What a larger rank loses where the smaller one suffices: Theorem 5.4.3, and the kinds of noise of section 5.7."""

from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.works.icl_scale.claims.noise import SETTING, best, rows
from featlearn.works.icl_scale.setup import LARGE, Instance, draw_instances, exact_loss, inputs_of, inside

Instances = tuple[Instance, ...]

# Theorem 5.4.3 -------------------------------------------------------------------------------------------------------

GAP, PAIRED = "loss at rank r' less that at r, in units of (|s|^2 + sigma^2)/M", "the same on drawn prompts, in pairs"
SLOPE = "change of the gap with sigma^2, times M"
LIMIT = "the same at N = 10^7"


def says_gap(settings: Instances) -> Sequence[Statement]:
    """Squares of N lambda/((N + 1) lambda + tr D), summed over i = r + 1 .. r'."""
    gaps, shifted, ones, slopes, quiet, silent = [], [], [], [], [], []
    for p in settings:
        small, large = inside(p)
        square = (p.n * p.values / ((p.n + 1) * p.values + p.values.sum())) ** 2
        size = np.sum(small.coordinates**2 * p.values) + p.sigma**2
        gaps.append(square[small.rank : large.rank].sum())
        shifted.append(square[small.rank - 1 : large.rank - 1].sum())
        ones.append(float(large.rank - small.rank))
        slopes.append(gaps[-1])
        quiet.append(gaps[-1] * (size - p.sigma**2) / size)
        silent.append(gaps[-1] * p.sigma**2 / size)
    gap, theorem = np.array(gaps), "Theorem 5.4.3"
    rivals = {
        "directions r to r' - 1": shifted,
        "one for each direction, its limit for large N": ones,
        "label noise alone": silent,
        "input noise alone": quiet,
    }
    return (
        *(
            equal(
                f"{GAP}, against {name}",
                POSITIVE,
                gap,
                theorem,
                of=GAP,
                margin=1e-8,
                axis=SETTING,
                rival=np.array(rival),
                rival_says=name,
            )
            for name, rival in rivals.items()
        ),
        equal(
            PAIRED,
            POSITIVE,
            gap,
            theorem,
            margin=0.06 * gap,
            axis=SETTING,
            rival=np.array(quiet),
            rival_says="input noise alone",
        ),
        equal(
            SLOPE,
            POSITIVE,
            np.array(slopes),
            f"{theorem}: linear in sigma^2",
            margin=1e-8,
            axis=SETTING,
            rival=gap / 3,
            rival_says="linear in sigma, from 1 to 2",
            form="derived",
        ),
        equal(
            LIMIT,
            POSITIVE,
            np.array(ones),
            "Implications of Theorem 5.4.3: (r' - r)/M |s|^2 + (r' - r)/M sigma^2",
            margin=1e-4,
            axis=SETTING,
            rival=gap,
            rival_says="as at the N of the setting",
        ),
    )


def sees_gap(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """Exact by quadrature, and on drawn prompts that both ranks answer."""
    gaps, paired, slopes, limits = [], [], [], []
    for i, p in enumerate(settings):
        small, large = inside(p)
        size = (float(small.w @ p.covariance @ small.w) + p.sigma**2) / p.m

        def gap(changed: float, n: int, pair: tuple[Instance, Instance] = (small, large)) -> float:
            a, b = (q.but(sigma=changed, n=n) for q in pair)
            return max(exact_loss(b, best(b)) - exact_loss(a, best(a)), 0.0)

        gaps.append(gap(p.sigma, p.n) / size)
        limits.append(gap(p.sigma, LARGE) / size)
        slopes.append((gap(2.0, p.n) - gap(1.0, p.n)) / 3 * p.m)
        seen = rows(small, key / i)
        two, one = (
            np.einsum("bd,de,be->b", miss, p.covariance, miss)
            for miss in (seen @ best(q) - q.w for q in (large, small))
        )
        paired.append(mean_of((two - one) / size, REAL, "prompt"))
    return {
        GAP: np.array(gaps),
        PAIRED: paired,
        SLOPE: np.array(slopes),
        LIMIT: np.array(limits),
    }


# the kinds of noise --------------------------------------------------------------------------------------------------

ALIVE, DEAD = "gap, further directions alive", "gap where further directions have no variance, over sigma^2 + |s|^2"
NARROW = "gap after pretraining on w in the first r directions, over sigma^2 + |s|^2"
VANISHES, QUIET = "gap at 4 M over that at M", "gap without label noise over that with it"


def says_kinds(settings: Instances) -> Sequence[Statement]:
    """No gap without further directions, none in the limit of M, one without label noise."""
    share = []
    for p in settings:
        if p.sigma:
            small, _ = inside(p)
            signal = np.sum(small.coordinates**2 * p.values)
            share.append(signal / (signal + p.sigma**2))
    source = "Section 5.7: without pretraining noise the larger model is as robust"
    return (
        equal(
            NARROW,
            POSITIVE,
            0.0,
            source,
            margin=1e-10,
            axis=SETTING,
            rival=control(ALIVE),
            rival_says="pretraining on w in all directions",
        ),
        equal(
            DEAD,
            POSITIVE,
            0.0,
            f"{source}; by construction, with inputs that have no further directions",
            margin=1e-10,
            axis=SETTING,
            rival=control(ALIVE),
            rival_says="further directions as in the setting",
            form="derived",
        ),
        equal(
            VANISHES,
            POSITIVE,
            0.25,
            "Section 5.7: without noise of inference, M to infinity, as robust; by Theorem 5.4.3 the gap has the "
            "factor 1/M",
            margin=1e-6,
            axis=SETTING,
            rival=1.0,
            rival_says="a gap that stays",
            form="derived",
        ),
        equal(
            QUIET,
            POSITIVE,
            np.array(share),
            "Section 5.7: input noise is a finite sampling error, apart from that of labels",
            margin=1e-6,
            axis=SETTING,
            rival=0.0,
            rival_says="no gap without label noise",
            form="derived",
        ),
    )


def pretrained(p: Instance) -> np.ndarray:
    """The best U of any rank where w of pretraining is N(0, P), P the projection on the first r directions.

    E (w^T L U x_q - <w, x_q>)^2 for L = X^T X/N is least at E(L P L)^(-1) E(L) P, with moments by the rule.
    """
    x, _, weights = inputs_of(p.covariance)
    plane = p.vectors[:, : p.rank] @ p.vectors[:, : p.rank].T
    once = (x * weights[:, None]).T @ x
    twice = (x * (weights * np.einsum("ki,ij,kj->k", x, plane, x))[:, None]).T @ x
    return np.linalg.solve((1 - 1 / p.n) * once @ plane @ once + twice / p.n, once @ plane)


def sees_kinds(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """By quadrature."""

    def gap(p: Instance) -> float:
        small, large = inside(p)
        return max(exact_loss(large, best(large)) - exact_loss(small, best(small)), 0.0)

    alive, dead, narrow, falls, quiet = [], [], [], [], []
    for p in settings:
        small, _ = inside(p)
        bare = p.but(values=p.values * (np.arange(p.d) < small.rank))
        size = float(small.w @ p.covariance @ small.w) + p.sigma**2
        alive.append(gap(p) / size)
        dead.append(gap(bare) / size)
        left, values, right = np.linalg.svd(pretrained(small))
        cut = left[:, : small.rank] * values[: small.rank] @ right[: small.rank]
        narrow.append(abs(exact_loss(small, left * values @ right) - exact_loss(small, cut)) / size)
        falls.append(gap(p.but(m=4 * p.m)) / gap(p))
        if p.sigma:
            quiet.append(gap(p.but(sigma=0.0)) / gap(p))
    return {
        ALIVE: np.array(alive),
        DEAD: np.array(dead),
        NARROW: np.array(narrow),
        VANISHES: np.array(falls),
        QUIET: np.array(quiet),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.theorem5_4_3",
        entries=("icl_scale.theorem5_4_3",),
        says="For w in the first r directions a larger rank r' adds noise: (|s|^2 + sigma^2)/M times "
        "(N lambda/((N + 1) lambda + tr D))^2 for each further one.",
        settings=draw_instances,
        statements=says_gap,
        observe=sees_gap,
        remarks="In our copy its proof weights |s|^2 with V^2 D^2 where Theorem 5.4.2 has V^2 D^3; it cancels "
        "either way.",
    ),
    Claim(
        id="icl_scale.method_noise_taxonomy",
        entries=("icl_scale.method_noise_taxonomy",),
        says="Larger models are less robust only where both pretraining and inference have noise.",
        settings=draw_instances,
        statements=says_kinds,
        observe=sees_kinds,
        remarks="Section 5.7 names xi for the noise of pretraining: without it, tasks of pretraining have w in the "
        "first r directions alone. Then the best U of any rank has rank r, so that a larger limit on the rank adds "
        "nothing. The xi of Theorem 5.4.3 belongs to the task of evaluation and is another one.",
    ),
)
