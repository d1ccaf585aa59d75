"""The end-to-end theorems of the special cases against trained networks: rows of `special_cases`."""

import math
from collections.abc import Callable

import numpy as np
from scipy.stats import spearmanr

from featlearn.lab.estimate import VALIDATION, interval
from featlearn.lab.experiment import Rows
from featlearn.lab.pending import Assumption, Case, Claim, Evidence, needs, reads
from featlearn.works.gradient_features.claims.bounds import excess, width, xor_numbers
from featlearn.works.gradient_features.rows import (
    BEST,
    FIRST,
    FIXED,
    GAMMAS,
    LINEAR,
    MIXTURE,
    MULTI,
    NETWORK,
    NEURONS,
    OPPOSITE,
    PARITY,
    SHARES,
    SKEWED,
    SPECIAL,
    TIME,
    UNIFORM,
    XOR,
    chosen,
    column,
    reported,
    settings,
)

Array = np.ndarray
LEARNED = 0.5
"""Mean margin from which on a pair of clusters counts as learned."""
BLOCK = Assumption("k >= tau log d, tau >= 8", False, "9 < 37")


def spread(values: Array) -> tuple[float, float, float]:
    """Mean and interval over seeds; where a seed left the finite numbers all of the line, which agrees with nothing."""
    return interval(values) if np.isfinite(values).all() else (np.inf, -np.inf, np.inf)


def ends(table: Rows, names: list[str], row: str, metric: str) -> tuple[Array, Array, Array]:
    """Mean, low and high over the reported seeds, setting by setting."""
    mean, low, high = np.array([spread(column(reported(table, s, row), metric)) for s in names]).T
    return mean, low, high


def trained_cases(table: Rows, names: list[str], target: float, eps: float) -> list[Case]:
    """Error and loss at the end; the rivals are what the same samples give without the later steps or the first."""
    where, zero = ", ".join(names), np.zeros(len(names))
    return [
        Case(
            f"test error at the end, upper ends: {where}",
            predict=zero,
            observe=ends(table, names, NETWORK, "error")[2],
            rival=ends(table, names, FIXED, "error")[0],
            tolerance=target,
            unit="%",
            rival_says="the best second layer on the first layer of the start",
        ),
        Case(
            "hinge loss less that of the best network on true features, upper ends",
            predict=zero,
            observe=column_gap(table, names),
            rival=ends(table, names, FIRST, "loss")[0] - ends(table, names, BEST, "loss")[0],
            tolerance=eps,
            rival_says="after the first step alone",
        ),
    ]


def column_gap(table: Rows, names: list[str]) -> Array:
    """Upper ends over seeds of loss - OPT, paired, as both are measured on the same test set; below 0 counts as 0."""
    high = []
    for s in names:
        best = {r["seed"]: r["loss"] for r in reported(table, s, BEST)}
        rows = reported(table, s, NETWORK)
        high.append(spread(column(rows, "loss") - np.array([best[r["seed"]] for r in rows]))[2])
    return np.maximum(high, 0.0)


def member_case(table: Rows, names: list[str]) -> Case:
    """A true feature is in the set, its rival is not: ends of exact 95 % intervals over drawn neurons."""
    low = [column(reported(table, s, NEURONS), "member low").min() for s in names]
    high = [column(reported(table, s, NEURONS), "rival high").max() for s in names]
    return Case(
        f"neurons whose G is within gamma = {GAMMAS[0]:g} of a true feature, against its rival, every seed",
        high,
        low,
        relation="at least",
        unit="%",
    )


def said(table: Rows, names: list[str]) -> str:
    """Step size, neurons in cones and movement, in words."""
    parts = []
    for s in names:
        cone = ends(table, [s], NEURONS, f"cone {GAMMAS[-1]:g}")[0][0]
        moved = ends(table, [s], NETWORK, "moved")[0][0]
        parts.append(
            f"{s}: eta = {chosen(table, s):.3g}, {cone:.0f} % of neurons within {GAMMAS[-1]:g} of a true "
            f"feature after step one, W moves by {moved:.2f} of it later"
        )
    return "; ".join(parts) + "."


def plain(
    cases: tuple[str, ...], target: float, eps: float, counted: str, unmet: Assumption | None = None
) -> Callable[..., Evidence]:
    """A judge of the settings of some cases: error within `target` points, loss within `eps` of OPT, membership.

    counted: the case whose neurons in the set are frequent enough to count; the others are integrated exactly in the
    claims on their lemmas.
    """

    def judge(table: Rows) -> Evidence:
        names = [s for case in cases for s in settings(table, case)]
        members = member_case(table, settings(table, counted))
        fixed = ends(table, names, FIXED, "error")[0]
        easy = [f"{s} ({e:.2g} %)" for s, e in zip(names, fixed, strict=True) if e <= target]
        also = f" The fixed first layer is within the target as well on {', '.join(easy)}." if easy else ""
        return Evidence(
            (*trained_cases(table, names, target, eps), members), (unmet,) if unmet else (), said(table, names) + also
        )

    return judge


def judge_xor(table: Rows) -> Evidence:
    """Theorem B.42: error at most 5 % with m = C log d and n = C d^1.5, and no worse in larger dimension."""
    names = settings(table, XOR)
    _, low, high = ends(table, names, NETWORK, "error")
    rise = high[-1] - low[0]
    fixed = ends(table, names, FIXED, "error")[0][-1]
    return Evidence(
        (
            *trained_cases(table, names, 5.0, 0.05),
            Case(
                "error in the largest dimension less that in the smallest, at most",
                predict=0.0,
                observe=max(rise, 0.0),
                rival=fixed,
                tolerance=2.0,
                unit="%",
                rival_says="the fixed first layer's error in the largest",
            ),
            member_case(table, names),
        ),
        comment=said(table, names),
    )


def parity_excess(k: int, gamma: float) -> float:
    """r_net B_a1 B_x1 sqrt(2 gamma) of a structured parity, r = 1: 3 (k + 1) neurons, 2 sqrt k (lemma3_21), and
    B_x1 <= sqrt(E ||x||^2) = sqrt(3 k) at p_o = k/(d - k), as trained."""
    return 6 * (k + 1) * math.sqrt(k) * math.sqrt(3 * k) * math.sqrt(2 * gamma)


def judge_main(table: Rows) -> Evidence:
    """Theorem 3.12 evaluated at the trained sizes, beside what training does there."""
    names, blocks = settings(table, XOR), settings(table, PARITY)
    d = [reported(table, s, NETWORK)[0]["d"] for s in names]
    k = [reported(table, s, NETWORK)[0]["k"] for s in blocks]
    bound = np.array([excess(xor_numbers(v)) for v in d])
    slack = ends(table, blocks, NEURONS, "slack")[0]  # of the best neuron: the theorem's gamma can be no smaller
    parity = np.array([parity_excess(v, float(g)) for v, g in zip(k, slack, strict=True)])
    gap, gap_parity = column_gap(table, names), column_gap(table, blocks)
    size = max(d)
    while excess(xor_numbers(size)) > 1:
        size *= 2
    m = width(xor_numbers(4 * size), 0.5)
    least = parity_excess(k[0], 1.0) ** -2
    both = [*names, *blocks]
    first = ends(table, both, FIRST, "loss")[0] - ends(table, both, BEST, "loss")[0]
    return Evidence(
        (
            Case(
                f"XOR mixture: loss less OPT, upper ends, d = {', '.join(map(str, d))}",
                bound,
                gap,
                relation="at most",
                vacuous=f"d >= {size:.2g}, with m >= {m:.2g} neurons for eps = 0.5 (constants 1)",
            ),
            Case(
                f"structured parity: the same, k = {', '.join(map(str, k))}",
                parity,
                gap_parity,
                relation="at most",
                vacuous=f"gamma <= {least:.1g} at k = {k[0]}, where the best neuron has {slack[0]:.1g}",
            ),
            Case(
                "both against 0",
                predict=np.zeros(len(both)),
                observe=np.concatenate([gap, gap_parity]),
                rival=first,
                tolerance=0.05,
                rival_says="after the first step alone",
            ),
        ),
        comment=f"r B_a1 B_x1 sqrt(2 gamma) is {bound.min():.3g} to {bound.max():.3g} on the mixture and "
        f"{parity.min():.3g} to {parity.max():.3g} on the parity, above any loss seen; trained networks are "
        f"within {max(gap.max(), gap_parity.max()):.2g} of OPT.",
    )


def judge_uniform(table: Rows) -> Evidence:
    """Theorem B.56 at k = 2, with a step of our choice, and what 1/(d^2 m) does in as many steps."""
    names = settings(table, UNIFORM)
    with_theirs = []
    for s in names:
        rows = [r for r in table.rows if r["setting"] == s and r["row"] == NETWORK and r["seed"] < VALIDATION]
        least = min(r["eta"] for r in rows)
        with_theirs.append(column([r for r in rows if r["eta"] == least], "loss").mean())
    cases = trained_cases(table, names, 5.0, 0.2)
    steps = max(reported(table, s, NETWORK)[0]["steps"] for s in names)
    return Evidence(
        (
            *cases,
            Case(
                "hinge loss, upper ends",
                predict=np.zeros(len(names)),
                observe=ends(table, names, NETWORK, "loss")[2],
                rival=with_theirs,
                tolerance=0.2,
                rival_says="at the step size 1/(d^2 m), after as many steps",
            ),
        ),
        (Assumption("d >= C k^4 log(k d/eps)", False, "111 > 101 with C = 1"),),
        f"{steps} steps at a larger step size; T = k^3 m d^2/eps at 1/(d^2 m) would be millions. {said(table, names)}",
    )


def judge_multi(table: Rows) -> Evidence:
    """Theorem B.69 for (<u_1, x>^2 - <u_2, x>^2)/2 in d = 50."""
    names = settings(table, MULTI)
    _, low, _ = ends(table, names, NETWORK, "span")
    row = reported(table, names[0], NETWORK)[0]
    best, other = ends(table, names, BEST, "loss")[0], ends(table, names, FIXED, "loss")[0]
    return Evidence(
        (
            Case(
                "share of ||w||^2 in the span of u_1, u_2 after step one, lower end",
                predict=100.0,
                observe=low[0],
                rival=100 * row["r"] / row["d"],
                tolerance=20.0,
                rival_says="r/d, random weights",
                unit="%",
            ),
            Case(
                "mean squared error less that of the best network on true features, upper end",
                predict=0.0,
                observe=ends(table, names, NETWORK, "loss")[2][0] - best[0],
                rival=other[0] - best[0],
                tolerance=0.1,
                rival_says="the same training on the first layer of the start",
            ),
        ),
        (Assumption("m, n with (C_l log(n m d))^(6 tau + 1)", False, "more than 1e17 at these sizes, constants 1"),),
    )


def learned_at(table: Rows, setting: str) -> list[list[float]]:
    """By reported seed: the first evaluation from which on each pair's mean margin stays at LEARNED or more, plus 1."""
    rows = reported(table, setting, TIME)
    out = []
    for seed in sorted({r["seed"] for r in rows}):
        own = sorted((r for r in rows if r["seed"] == seed), key=lambda r: r["step"])
        steps = [r["step"] for r in own]
        times = []
        for i in range(len(SHARES)):
            ok = [(r[f"margin {2 * i}"] + r[f"margin {2 * i + 1}"]) / 2 >= LEARNED for r in own]
            late = max((j + 1 for j, v in enumerate(ok) if not v), default=0)
            times.append(steps[late] + 1.0 if late < len(steps) else np.inf)
        out.append(times)
    return out


def judge_family(table: Rows) -> Evidence:
    """B.3.1: the frequent pairs of clusters are learned first, the rarest much later."""
    if not settings(table, SKEWED):
        return needs(SPECIAL)
    [setting] = settings(table, SKEWED)
    times = np.array(learned_at(table, setting))
    order = [float(np.asarray(spearmanr(SHARES, t))[0]) for t in np.minimum(times, 1e9)]
    ratio = np.log(times[:, -1] / times[:, 0])
    mean, low, _ = spread(ratio)
    return Evidence(
        (
            Case(
                "rank correlation of a pair's probability and the step at which it is learned, mean",
                predict=-1.0,
                observe=float(np.mean(order)),
                rival=0.0,
                tolerance=0.35,
                rival_says="in any order",
            ),
            Case(
                "log of the rarest pair's step over the most frequent pair's, lower end; log 4 is the ratio of their "
                "probabilities",
                np.log(SHARES[0] / SHARES[-1]),
                low,
                relation="at least",
            ),
        ),
        comment=f"Geometric mean of the ratio: {np.exp(mean):.0f}; steps by pair: "
        + ", ".join(f"p = {p:g}: {np.exp(v):.0f}" for p, v in zip(SHARES, np.log(times).mean(0), strict=True))
        + ".",
    )


def _claim(
    name: str,
    says: str,
    cases: tuple[str, ...],
    judge: Callable[[Rows], Evidence],
    expected: str = "holds",
    also: tuple[str, ...] = (),
) -> Claim:
    entries = tuple(f"gradient_features.{entry}" for entry in (name, *also))

    def check(table: Rows) -> Evidence:
        return judge(table) if all(settings(table, c) for c in cases) else needs(SPECIAL)

    return Claim(
        f"gradient_features.{name}_trained", entries=entries, says=says, check=reads(SPECIAL, check), expected=expected
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "theorem3_12",
        "Algorithm 1 on XOR mixtures and structured parities ends within the theorem's bound of OPT.",
        (XOR, PARITY),
        judge_main,
        "vacuous",
        also=("theorem_b3", "theorem_b23"),
    ),
    _claim(
        "theorem_b27",
        "Linear data: error at most 1 %, loss near that of the best network on +-w*.",
        (LINEAR,),
        plain((LINEAR,), 1.0, 0.05, LINEAR),
    ),
    _claim(
        "theorem3_18",
        "Mixtures of 4 to 8 clusters with any labels: error at most 1 %.",
        (MIXTURE, OPPOSITE, SKEWED),
        plain((MIXTURE, OPPOSITE, SKEWED), 1.0, 0.05, SKEWED),
    ),
    _claim(
        "theorem_b42",
        "XOR mixture with m = C log d and n = C d^1.5: error at most 5 %, no larger in larger d.",
        (XOR,),
        judge_xor,
    ),
    _claim(
        "theorem3_22",
        "Structured parities of 5 to 9 bits in d = 100: error at most 1 % with 500 neurons.",
        (PARITY,),
        plain((PARITY,), 1.0, 0.1, PARITY, BLOCK),
        "assumptions unmet",
    ),
    _claim(
        "theorem_b56",
        "Uniform parity of 2 bits: Algorithm 6 reaches a small loss.",
        (UNIFORM,),
        judge_uniform,
        "assumptions unmet",
    ),
    _claim(
        "theorem_b69",
        "Multi-index regression: Algorithm 7 reaches a mean squared error of at most eps = 0.1.",
        (MULTI,),
        judge_multi,
        "assumptions unmet",
    ),
    Claim(
        "gradient_features.simplicity_bias",
        entries=("gradient_features.skipped",),
        says="The family that the network represents grows over time: frequent pairs of clusters first (B.3.1).",
        check=reads(SPECIAL, judge_family),
    ),
)
