"""The binary-code networks of Theorem 5.5.1: what they solve, and networks that do better; the remark on coverage."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.nets import ReluAttention, binary_code_heads, diagonal_heads

Array = np.ndarray
GAMMA = 0.125
"""With 1/(4 gamma) = 2 and 2 gamma = 1/4 all margins of integer heads are exact in floating point."""
SIZES = ((1, 2), (1, 3), (2, 3), (2, 4), (3, 4))
"""(nu_1, nu_2): k = 2^nu_1 important signs of d = 2^nu_2."""
LARGE = (1, 2, 3, 4)
"""nu_2."""
SIGNS = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])
QUARTER = np.array([[-9, 5, -7, 11], [9, 7, -5, -11], [-9, 1, 13, -5], [9, -13, -1, 5]])
"""Negative heads of a network of six at d = 4, in twelfths of 1/(4 gamma); its positive heads have 20 of them."""

# what is measured ----------------------------------------------------------------------------------------------------


def margins(net: ReluAttention, d: int) -> Array:
    """y g on a prompt without end, (pairs i < j, 4): at the four values of the two signs."""
    found = []
    for i, j in itertools.combinations(range(d), 2):
        z, phi = torch.zeros(4, d, dtype=torch.float64), torch.ones(4, d, dtype=torch.float64)
        z[:, [i, j]] = 2 * GAMMA
        phi[:, [i, j]] = torch.from_numpy(SIGNS).double()
        found.append(net.read(z, phi).numpy() * SIGNS.prod(1))
    return np.array(found)


def hinge(found: Array) -> Array:
    """Expected hinge loss of each pair."""
    return np.maximum(0, 1 - found) @ np.array([0.25 + GAMMA, 0.25, 0.25, 0.25 - GAMMA])


def inside(d: int, k: int) -> Array:
    """Which pairs are of S_1."""
    return np.array([j < k for _, j in itertools.combinations(range(d), 2)])


def construction(d: int, bits: int, positive: float | None = None) -> ReluAttention:
    """The construction, positive heads in units of 1/(4 gamma)."""
    return binary_code_heads(d, GAMMA, bits, positive, dtype=torch.float64)


def coded(negative: Array, plus: float, minus: float) -> ReluAttention:
    """Negative heads (n, d) and two positive ones, plus and -minus everywhere, in units of 1/(4 gamma)."""
    d = negative.shape[1]
    rows = np.vstack([negative, np.full((1, d), plus), np.full((1, d), -minus)]) / (4 * GAMMA)
    outer = np.append(-np.ones(len(negative)), [1.0, 1.0])
    return diagonal_heads(torch.from_numpy(rows), torch.from_numpy(outer))


def subsets(size: int, of: int, d: int) -> Array:
    """(of, d): +1 where the head is in the subset of the sign, d different subsets of this size, in order."""
    found = list(itertools.islice(itertools.cycle(itertools.combinations(range(of), size)), d))
    return np.array([[1.0 if head in subset else -1.0 for subset in found] for head in range(of)])


# Theorem 5.5.1 -------------------------------------------------------------------------------------------------------

ALL, FAINT = "hinge loss of g_2 over all pairs", "the same with positive heads of (nu_2 - 1/2)/(4 gamma)"
FIRST, FAINT_1 = "hinge loss of g_1 over S_1", "hinge loss of g_1 over S_1, positive heads of (nu_1 - 1/2)/(4 gamma)"
DISTANCE, LOW = "y g_2, every pair and signs", "y g_1, every pair and signs"
ENTRIES = "entries of V at nu_2 = 3 in units of 1/(4 gamma)"
SUBSET = "entries of V of g_1 at (nu_1, nu_2) = (1, 3) in units of 1/(4 gamma)"
LESS = "S_2 loss over that of g_1, positive heads of (nu_1 + 1)/(4 gamma) in g_1"
STILL = "S_1 loss of g_1 with positive heads of (nu_1 + 1)/(4 gamma)"
CODE = "S_2 loss over that of g_1 at k = 4, d = 8, digits in pairs of four heads"
LETTER = "S_2 loss of these codes over that of g_1 with positive heads of nu_2/(4 gamma)"
WHOLE, PART = "loss over all pairs of eight heads at d = 16", "loss over all pairs of g_1 at k = 8, d = 16"
SHORT, SHORTER = "sum of |V|^2 over that of g_2, at d = 4, 8, 16", "least y g of these networks"
TRIMMED = "sum of |V|^2 over that of g_1, zeros outside of the important signs"
SQUARES, FREE = "sum of |V|^2 of g_2 over d/(16 gamma^2)", "hinge loss of g_2 times 1, 2 and 10"


def differing(nu: int, bits: int) -> Array:
    """How many of the last `bits` digits of two numbers differ, for every pair and the four signs."""
    pairs = itertools.combinations(range(2**nu), 2)
    return np.repeat([((i ^ j) % 2**bits).bit_count() for i, j in pairs], 4)


def says_heads(nu: int, bits: int, positive: float) -> Array:
    """Diagonals, (2 (bits + 1), d), in units of 1/(4 gamma)."""
    half = [[1.0 if format(t, f"0{nu}b")[-i] == "1" else -1.0 for t in range(2**nu)] for i in range(1, bits + 1)]
    rows = np.array([*half, [-positive] * 2**nu])
    return np.vstack([rows, -rows])


def says_optimal(settings: None) -> Sequence[Statement]:
    """Margins count digits, so that g_2 has no loss and g_1 none on S_1; the loss of g_1 can be halved on S_2."""
    sizes, nus = np.array(SIZES), np.array(LARGE)
    two, one = [differing(n, n) for n in LARGE], [differing(b, a) for a, b in SIZES]
    full, flipped = says_heads(3, 3, 3.0), says_heads(3, 3, 3.0)[[2, 1, 0, 3, 6, 5, 4, 7]]
    quiet = {"margin": 1e-12}
    return (
        equal(
            ALL,
            POSITIVE,
            np.zeros(len(LARGE)),
            "Theorem 5.5.1: g_2 attains the least hinge loss there is",
            axis="nu_2",
            rival=control(FAINT),
            rival_says="smaller positive heads",
            **quiet,
        ),
        equal(
            FIRST,
            POSITIVE,
            np.zeros(len(SIZES)),
            "Proof of Theorem 5.5.1: g_1 covers all patterns in (I)",
            axis="(nu_1, nu_2)",
            rival=control(FAINT_1),
            rival_says="smaller positive heads",
            **quiet,
        ),
        equal(
            DISTANCE,
            REAL,
            np.concatenate(two),
            "Digits that differ leave a negative head each and take one from nu_2",
            axis="pair and signs",
            rival=np.concatenate([n - t for n, t in zip(LARGE, two, strict=True)]),
            rival_says="digits that agree",
            form="derived",
            **quiet,
        ),
        equal(
            LOW,
            REAL,
            np.concatenate(one),
            "The same of the last nu_1 digits: 0 where they coincide",
            axis="pair and signs",
            rival=np.concatenate([differing(b, b) for _, b in SIZES]),
            rival_says="all digits",
            form="derived",
            **quiet,
        ),
        equal(
            ENTRIES,
            REAL,
            full.ravel(),
            "Example for Theorem 5.5.1",
            axis="entry",
            rival=flipped.ravel(),
            rival_says="digits counted from the left",
            **quiet,
        ),
        equal(
            SUBSET,
            REAL,
            (full[[0, 3, 4, 7]] / np.array([[1], [3], [1], [3]])).ravel(),
            "Theorem 5.5.1: heads 1, 4, 5 and 8 with -nu_1/(4 gamma)",
            axis="entry",
            rival=full[[0, 3, 4, 7]].ravel(),
            rival_says="those of g_2 as they are",
            **quiet,
        ),
        at_least(
            LESS + ", as reported",
            POSITIVE,
            np.ones(len(SIZES)),
            "Theorem 5.5.1: no network of 2 (nu_1 + 1) heads has less loss than g_1",
            of=LESS,
            axis="(nu_1, nu_2)",
            rival=0.5,
            rival_says="half",
            expect="contradicted",
            **quiet,
        ),
        equal(
            LESS,
            POSITIVE,
            np.full(len(SIZES), 0.5),
            "Where the last digits coincide the label 1 then has margin 1, and -1 margin 0: half the loss",
            axis="(nu_1, nu_2)",
            rival=1.0,
            rival_says="as reported",
            form="derived",
            **quiet,
        ),
        equal(
            STILL,
            POSITIVE,
            np.zeros(len(SIZES)),
            "Margins of the label 1 grow by 1",
            axis="(nu_1, nu_2)",
            rival=control(FAINT_1),
            rival_says="smaller positive heads",
            form="derived",
            **quiet,
        ),
        equal(
            CODE,
            POSITIVE,
            0.25,
            "Six pairs of four heads for eight signs: two pairs of signs share one, where the label -1 has margin 0;"
            " g_1 has four pairs with none",
            rival=0.5,
            rival_says="no more than larger positive heads",
            form="derived",
            **quiet,
        ),
        equal(
            LETTER,
            POSITIVE,
            np.array([0.5, 0.0]),
            "The same codes where g_1 takes the heads of g_2 as they are: then it has half the loss where digits"
            " coincide",
            axis="(nu_1, nu_2) = (2, 3), (3, 4)",
            rival=1.0,
            rival_says="g_1 with the positive heads of g_2 is optimal",
            form="derived",
            **quiet,
        ),
        equal(
            WHOLE,
            POSITIVE,
            0.0,
            "Sixteen threes of six heads, none inside another, and two positive heads: 8 = 2 (nu_1 + 1) at k = 8",
            rival=control(PART),
            rival_says="g_1, with as many heads",
            form="derived",
            **quiet,
        ),
        equal(
            SHORT,
            POSITIVE,
            np.array([269 / 36 / 12, 18 / 24, 24 / 40]),
            "Squares of the entries listed, summed by hand; (2 nu + 2 nu^2) for g_2",
            axis="d",
            rival=1.0,
            rival_says="as short as g_2",
            form="derived",
            **quiet,
        ),
        equal(
            SHORTER,
            REAL,
            np.ones(3),
            "Codes of which none is inside another",
            axis="d",
            rival=0.0,
            rival_says="a pair that is not told apart",
            form="derived",
            **quiet,
        ),
        equal(
            TRIMMED,
            POSITIVE,
            2.0 ** (sizes[:, 0] - sizes[:, 1]),
            "By construction: k of d entries of equal size are left",
            axis="(nu_1, nu_2)",
            rival=1.0,
            rival_says="nothing to spare",
            form="derived",
            **quiet,
        ),
        equal(
            SQUARES,
            POSITIVE,
            2.0 * nus + 2.0 * nus**2,
            "By construction: 2 nu_2 heads of d entries 1/(4 gamma), two of nu_2/(4 gamma)",
            axis="nu_2",
            rival=4.0 * nus,
            rival_says="positive heads of 1/(4 gamma)",
            form="derived",
            margin=1e-9,
        ),
        equal(
            FREE,
            POSITIVE,
            np.zeros(3),
            "By construction: the limit of L^lambda is the hinge loss, and a margin that grows has none",
            axis="factor",
            rival=0.5,
            rival_says="one size alone",
            form="derived",
            **quiet,
        ),
    )


def sees_optimal(settings: None, key: Key) -> Mapping[str, Observation]:
    """The library's construction and networks of codes, on every pair and every pair of signs."""
    two = [margins(construction(2**n, n), 2**n) for n in LARGE]
    faint = [margins(construction(2**n, n, n - 0.5), 2**n) for n in LARGE]
    one, low, first, faint_1, ratio, still, trimmed = [], [], [], [], [], [], []
    for a, b in SIZES:
        d, s1 = 2**b, inside(2**b, 2**a)
        net, here = construction(d, a), margins(construction(d, a), d)
        other = margins(construction(d, a, a + 1.0), d)
        low.append(here.ravel())
        first.append(hinge(here)[s1].mean())
        faint_1.append(hinge(margins(construction(d, a, a - 0.5), d))[s1].mean())
        ratio.append(hinge(other)[~s1].mean() / hinge(here)[~s1].mean())
        still.append(hinge(other)[s1].mean())
        v = torch.diagonal(net.query_key, dim1=1, dim2=2) * (torch.arange(d) < 2**a)
        short = diagonal_heads(v, net.outer)
        loss = hinge(margins(short, d))[s1].mean()
        trimmed.append(float(short.penalty / net.penalty) if loss == 0 else 1.0)
        one.append(hinge(here))
    s1 = inside(8, 4)
    pairs = hinge(margins(coded(subsets(2, 4, 8), 3.0, 3.0), 8))
    code = pairs[~s1].mean() / one[SIZES.index((2, 3))][~s1].mean() if pairs[s1].max() == 0 else 1.0
    nets = [
        (coded(QUARTER, 20.0, 20.0), 12),
        (coded(subsets(2, 5, 8), 2.0, 3.0), 1),
        (coded(subsets(3, 6, 16), 3.0, 3.0), 1),
    ]
    found = [margins(net, d) / unit for (net, unit), d in zip(nets, (4, 8, 16), strict=True)]
    sums = [
        float(net.penalty / construction(d, d.bit_length() - 1).penalty) / unit**2
        for (net, unit), d in zip(nets, (4, 8, 16), strict=True)
    ]
    s1, last = inside(16, 8), hinge(found[2])
    taken = [hinge(margins(construction(2**b, a, float(b)), 2**b)) for a, b in ((2, 3), (3, 4))]
    letter = [pairs[~inside(8, 4)].mean() / taken[0][~inside(8, 4)].mean(), last[~s1].mean() / taken[1][~s1].mean()]
    entries = torch.diagonal(construction(8, 3).query_key, dim1=1, dim2=2) * 4 * GAMMA
    small = torch.diagonal(construction(8, 1).query_key, dim1=1, dim2=2) * 4 * GAMMA
    return {
        ALL: np.array([hinge(m).mean() for m in two]),
        FAINT: np.array([hinge(m).mean() for m in faint]),
        FIRST: np.array(first),
        FAINT_1: np.array(faint_1),
        DISTANCE: np.concatenate([m.ravel() for m in two]),
        LOW: np.concatenate(low),
        ENTRIES: entries.numpy().ravel(),
        SUBSET: small.numpy().ravel(),
        LESS: np.array(ratio),
        STILL: np.array(still),
        CODE: code,
        LETTER: np.array(letter),
        WHOLE: float(hinge(found[2]).mean()),
        PART: float(one[SIZES.index((3, 4))].mean()),
        SHORT: np.array(sums),
        SHORTER: np.array([m.min() for m in found]),
        TRIMMED: np.array(trimmed),
        SQUARES: np.array([float(construction(2**n, n).penalty) * 16 * GAMMA**2 / 2**n for n in LARGE]),
        FREE: np.array([hinge(c * two[2]).mean() for c in (1, 2, 10)]),
    }


# coverage ------------------------------------------------------------------------------------------------------------

SOLVED, REST = "share of S_1 that g_1 solves", "share of S_1 that g_2 solves without the digits of g_1"
FURTHER, SMALL = "share of S_2 that g_2 solves", "share of S_2 that g_1 solves"


def says_coverage(settings: None) -> Sequence[Statement]:
    """g_1 solves S_1, g_2 also S_2; g_1 solves those of S_2 whose last digits differ."""
    share = [1 - 2**a * math.comb(2 ** (b - a), 2) / (math.comb(2**b, 2) - math.comb(2**a, 2)) for a, b in SIZES]
    return (
        equal(
            SOLVED,
            SHARE,
            np.ones(len(SIZES)),
            "Example for Theorem 5.5.1: the neurons in g_1 are used for tasks from S_1",
            axis="(nu_1, nu_2)",
            rival=control(REST),
            rival_says="the other neurons",
        ),
        equal(
            FURTHER,
            SHARE,
            np.ones(len(SIZES)),
            "Example for Theorem 5.5.1: with the other neurons g_2 does the task from S_2",
            axis="(nu_1, nu_2)",
            rival=control(SMALL),
            rival_says="without them",
        ),
        equal(
            SMALL,
            SHARE,
            np.array(share),
            "d/k signs to each of k values of the last digits, pairs of which coincide",
            margin=1e-12,
            axis="(nu_1, nu_2)",
            rival=0.0,
            rival_says="tasks from S_1 alone, which is not said",
            form="derived",
        ),
    )


def sees_coverage(settings: None, key: Key) -> Mapping[str, Observation]:
    """Pairs without hinge loss."""
    found: dict[str, list[float]] = {SOLVED: [], REST: [], FURTHER: [], SMALL: []}
    for a, b in SIZES:
        d, s1 = 2**b, inside(2**b, 2**a)
        large = construction(d, b)
        kept = [i for i in range(2 * (b + 1)) if i % (b + 1) >= a]  # digits above the a-th, and the positive heads
        small, whole = hinge(margins(construction(d, a), d)) == 0, hinge(margins(large, d)) == 0
        others = hinge(margins(ReluAttention(large.query_key[kept], large.outer[kept]), d)) == 0
        found[SOLVED].append(float(small[s1].mean()))
        found[REST].append(float(others[s1].mean()))
        found[FURTHER].append(float(whole[~s1].mean()))
        found[SMALL].append(float(small[~s1].mean()))
    return {name: np.array(values) for name, values in found.items()}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.theorem5_5_1",
        entries=("icl_scale.theorem5_5_1",),
        says="Binary-code heads solve all tasks with 2 (nu_2 + 1) heads and those of S_1 with 2 (nu_1 + 1).",
        statements=says_optimal,
        observe=sees_optimal,
        accuses=Accusation(
            quote="let g_1^* and g_2^* denote the optimal solutions for m = 2(nu_1 + 1) and m = 2(nu_2 + 1)",
            place="Theorem 5.5.1, with V = -nu_j/(4 gamma) in the positive heads of g_j^*, Section 5.5.1",
            reading="Of g_1^*, for every p_T in the range of the theorem and nu_1 < nu_2. Optimal means least in"
            " the limit of L^lambda at lambda -> 0+, which is the hinge loss, or of least norm among those of least"
            " loss. If p_T went to 0 before lambda did, S_2 would not count, but then heads with zeros outside of"
            " [k] have no loss either and k/d of the norm. If the neurons of g_1^* are a subset of those of g_2^*"
            " to the letter, with positive heads of nu_2/(4 gamma), larger positive heads gain nothing; then the"
            " accusation is of nu_1 >= 2, where other codes have less loss, and m = 4 stays open. Nothing is said"
            " against g_2^*, which has no loss.",
            hits="statement",
            derivation="Where the last nu_1 digits of a pair coincide, all 2 nu_1 negative heads of g_1^* cancel its"
            " positive ones at the label 1, and none is active at -1: g_1^* = 0, hinge loss 1. With positive heads"
            " larger by 1/(4 gamma) the margin at the label 1 grows by 1 for every pair and that at -1 stays, so that"
            " S_1 still has no loss and each such pair loss 1/2: p_T times half the S_2 loss in place of all of it."
            " With nu_1 = 3, nu_2 = 4 and eight heads a network has no loss at all: six negative heads, on for the"
            " signs of 16 different threes of 6, and two positive ones of 3/(4 gamma). Two threes A, B leave a head of"
            " A without B for each order of the pair, and at most two heads that both or neither have.",
        ),
        remarks="We hold no corrected form: which networks of 2 (nu_1 + 1) heads are optimal is not known to us. Larger"
        " or other codes do better still: at k = 4, d = 8 pairs of four heads leave a quarter of the"
        " S_2 loss of g_1. g_2^* is optimal and not of least norm at d = 4, 8 and 16, which the text does not ask."
        " That networks of fewer heads use the important signs first is not touched.",
    ),
    Claim(
        id="icl_scale.small_model_coverage",
        entries=("icl_scale.remark_small_model_coverage",),
        says="g_1 solves the tasks of S_1 and g_2 those of S_2 too.",
        statements=says_coverage,
        observe=sees_coverage,
        remarks="The text says that the smaller model will mainly focus on important features; g_1 also solves every"
        " task of S_2 whose last nu_1 digits differ, more than half of them in all sizes here.",
    ),
)
