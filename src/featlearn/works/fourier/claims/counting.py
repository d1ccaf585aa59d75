"""The construction of Lemma 4.11, and how many neurons a max-margin network takes."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, both, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.works.fourier.claims.by_hand import Array
from featlearn.works.fourier.claims.exact import (
    everything,
    off_family,
    random_network,
    ratio_of,
    without,
)
from featlearn.works.fourier.setup import (
    constructed,
    cosines,
    cyclic_phases,
    fewest,
    group_phases,
    logits,
    monomials,
    network_norm,
)

EXACT = 1e-12
PAIRS = tuple(itertools.product((2, 3, 4, 5), (5, 7, 11, 13)))
MANY = 1e7
FEWER = "one neuron fewer"


# Lemma 4.11 ----------------------------------------------------------------------------------------------------------

SHAPES = ((2, 5), (2, 7), (3, 5), (3, 7), (4, 5), (5, 5))
COUNTED = "neurons of the constructed network"
EACH = "neurons of one frequency, k = 3"
FAMILY = {
    "share": "power of a vector outside the common frequency, at most over neurons",
    "phase": "|sum theta_u - theta_w|, at most over neurons",
    "balance": "difference of two of the k + 1 norms over the neuron's, at most over neurons",
}
RIGHT, WRONG = "f over its scale on the right class", "f over its scale on wrong classes"
NORM = "|theta|_{2, k+1}"
SINES = "four neurons with the phases of the sine example, summed"
EXAMPLE = ((0.5, 0.5, 0, 1), (0.5, 0.5, -1, 0), (0.5, -0.5, 0, 0), (-0.5, 0.5, 0, 0))
"""Reported phases of u_1, u_2, u_3 and w in units of pi."""


def construction_statements(settings: None) -> Sequence[Statement]:
    """Lemma 4.11: count, family, what the network computes, norm; a step of the proof."""
    k, p = (np.array(v, dtype=float) for v in zip(*SHAPES, strict=True))
    m = 4 ** (k - 1) * (p - 1)
    lemma, angle = "Lemma 4.11", 2 * np.pi * np.arange(7) / 7
    a, b, d, c = np.ix_(*[np.arange(7)] * 4)
    product = -24 * np.sin(angle)[a] * np.sin(angle)[b] * np.cos(angle)[d] * np.cos(angle)[c]
    return (
        equal(
            COUNTED,
            COUNT,
            m,
            f"{lemma}: 2^(2k-1) for each of (p-1)/2",
            axis="(k, p)",
            rival=2 * m,
            rival_says="both halves of the sign patterns",
        ),
        equal(
            EACH,
            COUNT,
            32.0,
            "Lemma C.17, first lines of the proof: 8 terms of 4",
            rival=56.0,
            rival_says="56, as near its end",
        ),
        *(
            equal(
                name,
                POSITIVE,
                np.zeros(len(SHAPES)),
                f"{lemma}: neurons of Lemma 4.10",
                margin=1e-7 if short == "phase" else EXACT,  # the angle of a number near 1 has half of its digits
                axis="(k, p)",
                rival=control(f"{name}, of 20 random neurons"),
                rival_says="the middle one of 20 random neurons",
            )
            for short, name in FAMILY.items()
        ),
        equal(
            RIGHT,
            REAL,
            (p - 1) / 2,
            f"{lemma}: sum over zeta of cos 0",
            margin=1e-11,
            axis="(k, p)",
            rival=p / 2,
            rival_says="the frequency 0 as well",
        ),
        *both(
            WRONG,
            REAL,
            "proofs of Lemmas C.17 and C.18",
            reported=np.zeros(2 * len(SHAPES)),
            corrected=np.full(2 * len(SHAPES), -0.5),
            says="-1/2, since the frequency 0 is not in the sum",
            margin=1e-11,
            axis="(k, p), least and largest",
        ),
        equal(
            NORM,
            POSITIVE,
            np.ones(len(SHAPES)),
            f"{lemma}, scaled by beta",
            margin=EXACT,
            axis="(k, p)",
            rival=m ** (1 / (k + 1)),
            rival_says="the amplitude of a lone neuron",
        ),
        equal(
            SINES,
            REAL,
            product.ravel(),
            "Eq. (C.20): -24 sin sin cos cos",
            margin=EXACT,
            axis="point, class",
            rival=-product.ravel(),
            rival_says="+24",
        ),
    )


def construction_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """The engine at all points of each task."""
    right, wrong, worst = [], [], {short: [] for short in FAMILY}
    nets = [constructed(k, p) for k, p in SHAPES]
    for (k, p), net in zip(SHAPES, nets, strict=True):
        for short, value in off_family(net).items():
            worst[short].append(float(value.max()))
        beta = math.sqrt(2 / ((k + 1) * p)) * len(net[0]) ** (-1 / (k + 1))
        x, y = everything(p, k)
        f = logits(*net, x) / (beta ** (k + 1) * 2 ** (k - 1) * math.factorial(k))
        at = torch.nn.functional.one_hot(y, p).bool()
        right.append(float(f[at][(f[at] - f[at].mean()).abs().argmax()]))
        wrong += [float(f[~at].min()), float(f[~at].max())]
    loose = off_family(random_network(20, 3, 7, key))
    theta = math.pi * torch.tensor(EXAMPLE, dtype=torch.float64)
    waves = cosines(theta, torch.ones(4, 4, dtype=torch.int64), 7)
    return {
        COUNTED: np.array([len(net[0]) for net in nets]),
        EACH: float(len(constructed(3, 3)[0])),
        **{FAMILY[short]: np.array(values) for short, values in worst.items()},
        **{f"{FAMILY[short]}, of 20 random neurons": float(np.median(loose[short])) for short in FAMILY},
        RIGHT: np.array(right),
        WRONG: np.array(wrong),
        NORM: np.array([network_norm(*net) for net in nets]),
        SINES: logits(waves[:, :3], waves[:, 3], everything(7, 3)[0]).numpy().ravel(),
    }


# how many neurons ----------------------------------------------------------------------------------------------------

COUNTS = tuple((k, p) for k, p in PAIRS if 4 ** (k - 1) * (p - 1) * p**k <= MANY)
HAD = "neurons of a network that attains gamma*"
ATTAINS = "its margin over gamma*"
BARE = "the same with one neuron fewer"
LEFT = "monomials that do not average out, k = 2..8, cyclic and grouped phases"
INTEGER = "least neurons of a frequency with any shares, k = 2, phases in sixths of a turn, by an integer program"
VERTEX = "neurons of a frequency at a vertex of the linear program, k = 3, phases in sixths of a turn"


def fewer_statements(settings: None) -> Sequence[Statement]:
    """Fewer neurons than Theorem 4.9 asks for attain gamma*, as Section 4.4 leaves open."""
    k, p = (np.array(v, dtype=float) for v in zip(*COUNTS, strict=True))
    enough = 4 ** (k - 1) * (p - 1)
    return (
        at_most(
            HAD,
            COUNT,
            enough - 1,
            "Section 4.4: 2^(2k-2) (p-1) are enough, and may not be the fewest",
            axis="(k, p)",
            rival=enough,
            rival_says="the number of Theorem 4.9",
            form="derived",
        ),
        equal(
            ATTAINS,
            REAL,
            np.ones(len(COUNTS)),
            "Theorem 4.9: gamma*",
            margin=EXACT,
            axis="(k, p)",
            rival=control(BARE),
            rival_says=FEWER,
            form="derived",
        ),
        equal(
            LEFT,
            COUNT,
            np.ones(14),
            "Lemma 4.11: of the k-th power only the product is left",
            axis="k, phases",
            rival=0.0,
            rival_says="none, not even the product",
            form="derived",
        ),
        at_most(
            INTEGER,
            COUNT,
            6.0,
            "cyclic phases attain gamma* with six",
            rival=8.0,
            rival_says="2^(2k-1)",
            form="derived",
        ),
        at_most(
            VERTEX,
            COUNT,
            31.0,
            "fewer than 2^(2k-1)",
            rival=32.0,
            rival_says="2^(2k-1)",
            form="derived",
        ),
    )


def dictionary(k: int, n: int) -> Array:
    """Conditions on the shares alpha^(k+1) of neurons with phases in n-ths of a turn, in which E g' and h are linear.

    Every monomial but the product averages out, and the shares sum to 1 (the last row). A neuron whose k vectors all
    turn by a half is the same one, so the first phase stays below a half.
    """
    e = monomials(k) - 1
    t = np.array([s for s in itertools.product(range(n), repeat=k) if s[0] < n // 2])
    angle = 2 * np.pi / n * (t @ e[np.abs(e).sum(1) > 0].T).T
    rows = np.unique(np.round(np.concatenate([np.cos(angle), np.sin(angle)]), 12), axis=0)
    return np.concatenate([rows[np.abs(rows).sum(1) > 0], np.ones((1, len(t)))])


def fewer_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Networks known here with the fewest neurons; programs over a dictionary of cosines with unequal shares."""
    nets = [fewest(k, p) for k, p in COUNTS]
    left, also = [], []
    for k in range(2, 9):
        e = monomials(k) - 1
        n, s = cyclic_phases(k)
        left.append(int(((e @ np.array(s)) % n == 0).sum()))
        moduli, s = group_phases(k)
        also.append(int(((e @ s) % moduli == 0).all(1).sum()))
    a, vertex = dictionary(2, 6), dictionary(3, 6)
    m, b = a.shape[1], np.append(np.zeros(len(a) - 1), 1.0)
    chosen_ = milp(
        np.repeat([0.0, 1.0], m),
        constraints=[
            LinearConstraint(np.hstack([a, np.zeros_like(a)]), b, b),  # pyright: ignore[reportArgumentType]
            LinearConstraint(np.hstack([np.eye(m), -np.eye(m)]), -np.inf, 0.0),
        ],
        integrality=np.repeat([0, 1], m),
        bounds=Bounds(0, 1),
    )
    right = np.append(np.zeros(len(vertex) - 1), 1.0)
    found = linprog(np.arange(vertex.shape[1]), A_eq=vertex, b_eq=right, bounds=(0, None))
    return {
        HAD: np.array([len(net[0]) for net in nets]),
        ATTAINS: np.array([ratio_of(net) for net in nets]),
        BARE: np.array([ratio_of(without(net, 0)) for net in nets]),
        LEFT: np.array(left + also),
        INTEGER: float(round(chosen_.fun)),
        VERTEX: float((found.x > 1e-9).sum()),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.construction",
        entries=("fourier.lemma4_11",),
        says="2^(2k-1) neurons for each frequency compute cos_zeta(a_1 + ... + a_k - c); all of them: (p-1)/2 on the "
        "right class, -1/2 on every other.",
        statements=construction_statements,
        observe=construction_observed,
        accuses=Accusation(
            quote="0 otherwise",
            place="proofs of Lemmas C.17 and C.18, the output of the network summed over frequencies",
            reading="The sum over zeta = 1..(p-1)/2 of cos(2 pi zeta d / p) at d != 0. A slip of a constant: all wrong "
            "classes are equal, which is all that the proofs use, and the lemmas stand.",
            hits="proof",
            derivation="p = 3: the one term is cos(2 pi / 3) = -1/2. In general the sum over all p frequencies is "
            "0 and that of frequency 0 is 1.",
        ),
        remarks="'Such 56 neurons' near the end of the proof of C.17 are read as the 32 of its first lines. Its second "
        "example reads theta = pi/2 as sin, the mirror image of cos(theta + 2 pi a / p); the sum of the four neurons, "
        "Eq. (C.20), is the same for both.",
    ),
    Claim(
        id="fourier.necessary_neurons",
        entries=("fourier.lemma4_11",),
        says="2^(2k-2) (p-1) neurons are enough for the maximum margin and need not be the fewest: networks with fewer "
        "attain it.",
        statements=fewer_statements,
        observe=fewer_observed,
        remarks="Theorem 4.9 says how many are enough, and Section 4.4 that this 'may not be the tightest'; 'the "
        "necessary number of neurons' of Section 4.1 is read in this way. All counts here grow exponentially in k, as "
        "in Section 4.6. By hand for k = 2: for each frequency six neurons t = 0..5 with theta_u = 2 pi t (1, 4) / 6 "
        "and theta_w = theta_u1 + theta_u2. Of exp(i (e . theta_u - theta_w)) only e = (1, 1) does not turn with t: "
        "(2,0) turns by -3t, (0,2) by 3t, (0,0) by -5t, (1,-1) by -8t, (-1,1) by -2t, (-1,-1) by -10t, (-2,0) by -7t, "
        "(0,-2) by -13t sixths, no multiple of 6t, so each averages out. 6 is less than 8.",
    ),
)
