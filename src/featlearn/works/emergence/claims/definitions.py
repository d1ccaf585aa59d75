"""The objects of the emergence work as identities that can fail: symbols and data families."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import REAL, SHARE
from featlearn.lab.statement import Statement, both, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks import ParityMix
from featlearn.tasks.patterns import PatternTruth
from featlearn.works.emergence.setup import fair, parity_mix

Array = np.ndarray
ERROR_RATE = 1e-6
"""Of each Monte Carlo statement, over all of its comparisons."""
N = 100_000
EXACT = 1e-12


def band(comparisons: int, deviation: float) -> float:
    """What a mean over N draws may be off by: a family of two-sided comparisons fails at most at ERROR_RATE."""
    return float(norm.isf(ERROR_RATE / (2 * comparisons))) * deviation / math.sqrt(N)


def scale(D: int, k: int, p: float) -> float:
    """st = sqrt(k/4 + (D - k) p (1 - p)) with fair relevant patterns."""
    return math.sqrt(k / 4 + (D - k) * p * (1 - p))


def flat(values: torch.Tensor | None) -> Array:
    """As float64; pattern tasks always give their hidden bits."""
    assert values is not None
    return values.double().numpy()


# symbols -------------------------------------------------------------------------------------------------------------

SIZES = ((8, 3, 0.5), (8, 3, 0.25), (10, 5, 0.4), (7, 3, 0.1))
"""D, k, p_o of the mixtures that are enumerated."""


def notation_statements(settings: None) -> tuple[Statement, ...]:
    """st, sphi2 and E||x||^2 by formula."""
    st, p = np.array([scale(*s) for s in SIZES]), np.array([s[2] for s in SIZES])
    alike = {"axis": "D, k, p_o", "margin": EXACT}
    small = scale(20, 5, 0.5)
    return (
        equal(
            "st",
            REAL,
            st,
            "st^2 = E||xt - E xt||^2",
            rival=st / np.sqrt([s[0] for s in SIZES]),
            rival_says="a standard deviation per coordinate",
            **alike,
        ),
        equal(
            "E||x||^2",
            REAL,
            np.ones(4),
            "x = (xt - E xt)/st",
            rival=np.array([float(s[0]) for s in SIZES]),
            rival_says="every coordinate scaled to unit variance",
            **alike,
        ),
        equal(
            "Var(phi_l), l not in A",
            REAL,
            p * (1 - p) / st**2,
            "sphi2 = p_o (1 - p_o)/st^2",
            rival=p * (1 - p),
            rival_says="variance of the raw pattern",
            **alike,
        ),
        equal(
            "<st wstar, x> less count and mean count",
            REAL,
            np.zeros(500),
            "wstar = sum_A M_j",
            axis="input",
            margin=1e-4,
            rival=np.full(500, 2.5),
            rival_says="inputs that were not centred",
        ),
        equal(
            "largest |M^T x - phi|",
            REAL,
            0.0,
            "x = M phi",
            margin=1e-5,
            rival=0.5 - 0.5 / small,
            rival_says="x = M (phit - E phit) without 1/st",
        ),
    )


def notation_observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """Enumeration of all inputs, and 500 samples in input coordinates (d = 40)."""
    st, moment, background = [], [], []
    for D, k, p_o in SIZES:
        family = parity_mix(D, k, p_o)
        phi, _, prob = family.support()
        xt = phi * family.scale + family.mean
        st.append(math.sqrt(prob @ ((xt - prob @ xt) ** 2).sum(1)))
        moment.append(prob @ (phi**2).sum(1))
        background.append(prob @ phi[:, -1] ** 2)
    task = ParityMix(d=40, D=20, k=5, p_o=0.5, coordinates="input")
    truth = task.draw(key / "task")
    batch = task.sample(truth, 500, key / "data")
    relevant, M, hidden = truth.relevant.numpy(), flat(truth.dictionary), flat(batch.hidden)
    projection = flat(batch.x) @ (truth.scale * M[:, relevant].sum(1))
    phi = (hidden - flat(truth.mean)) / truth.scale
    return {
        "st": np.array(st),
        "E||x||^2": np.array(moment),
        "Var(phi_l), l not in A": np.array(background),
        "<st wstar, x> less count and mean count": projection - (hidden[:, relevant].sum(1) - 2.5),
        "largest |M^T x - phi|": float(np.abs(flat(batch.x) @ M - phi).max()),
    }


# the family ----------------------------------------------------------------------------------------------------------

ODD, EVEN = (3, 5, 7, 9), (4, 6, 8, 10)


def draw_data(key: Key) -> PatternTruth:
    """The size of Table 1, in 120 input dimensions."""
    return ParityMix(d=120, D=100, k=5, p_o=0.5, coordinates="input").draw(key)


def data_statements(truth: PatternTruth) -> tuple[Statement, ...]:
    """A0 to A2 and the first moments; |phi_j| = 1/(2 st) exactly, so that every standard error is known."""
    inside, st = np.zeros(100, dtype=bool), scale(100, 5, 0.5)
    inside[truth.relevant.numpy()] = True
    star, se = truth.dictionary.double().numpy()[:, inside].sum(1), 1 / (2 * st)
    return (
        equal(
            "Pr[y = +1]",
            SHARE,
            0.5,
            "A0",
            margin=band(1, 0.5),
            rival=0.45,
            rival_says="classes off balance by 5 %",
        ),
        equal(
            "E[y phi_j]",
            REAL,
            np.where(inside, 0.25 / st, 0.0),
            "A1: gamma/st on A, 0 elsewhere",
            axis="pattern",
            margin=band(100, se),
            rival=np.where(inside, 0.375 / st, 0.0),
            rival_says="gamma of p_o = 1/4",
        ),
        equal(
            "E[y x]",
            REAL,
            star * 0.25 / st,
            "(gamma/st) wstar",
            axis="input coordinate",
            margin=band(120, se),
            rival=star,
            rival_says="wstar itself",
        ),
        equal(
            "covariances of background patterns",
            REAL,
            np.zeros(780),
            "A2",
            axis="pair",
            margin=band(780, 0.25),
            rival=np.full(780, 1 / 48 * 2.5),
            rival_says="patterns that are alike in five of a hundred draws",
        ),
        equal("E||x||^2", REAL, 1.0, "unit second moment", margin=1e-3, rival=1.2, rival_says="divided by D, not by d"),
        equal(
            "gamma of Example 1, fair coins",
            REAL,
            np.array([math.comb(k - 1, k // 2) / 2**k for k in ODD]),
            "count > k/2: C(k-1, (k-1)/2)/2^k",
            axis="k",
            margin=EXACT,
            rival=np.array([math.comb(k, k // 2) / 2**k for k in ODD]),
            rival_says="C(k, (k-1)/2)/2^k",
            form="derived",
        ),
        equal(
            "Pr[y = +1] of Example 1, odd k",
            SHARE,
            np.full(4, 0.5),
            "A0",
            axis="k",
            margin=EXACT,
            rival=np.array([0.5 * (1 - math.comb(k, k // 2) / 2**k) for k in EVEN]),
            rival_says="even k, where ties break A0",
        ),
    )


def data_observe(truth: PatternTruth, key: Key) -> Mapping[str, Observation]:
    """100,000 samples; fair relevant blocks enumerated."""
    task = ParityMix(d=120, D=100, k=5, p_o=0.5, coordinates="input")
    batch = task.sample(truth, N, key / "data")
    x, y = flat(batch.x), flat(batch.y)
    phi = x @ flat(truth.dictionary)
    outside = np.setdiff1d(np.arange(100), truth.relevant.numpy())[:40]
    rest = phi[:, outside] * truth.scale
    threshold = [fair(k + 1, k, tuple(i for i in range(k + 1) if 2 * i > k)) for k in ODD]
    return {
        "Pr[y = +1]": float((y > 0).mean()),
        "E[y phi_j]": (y[:, None] * phi).mean(0),
        "E[y x]": (y[:, None] * x).mean(0),
        "covariances of background patterns": (rest.T @ rest / N)[np.triu_indices(40, 1)],
        "E||x||^2": float((x**2).sum(1).mean()),
        "gamma of Example 1, fair coins": np.array([float(f.gamma.mean()) for f in threshold]),
        "Pr[y = +1] of Example 1, odd k": np.array([float(f.chance[0][f.y > 0].sum()) for f in threshold]),
    }


# the structured parity -----------------------------------------------------------------------------------------------

MIXES = ((8, 3, 0.5), (8, 3, 0.25), (9, 5, 0.4), (10, 3, 0.05))
RATES = np.array([0.05, 0.1, 0.25, 0.4, 0.5])


def draw_mix(key: Key) -> PatternTruth:
    """A mixture with p_o = 1/4."""
    return ParityMix(D=100, k=5, p_o=0.25).draw(key)


def mix_statements(truth: PatternTruth) -> tuple[Statement, ...]:
    """Marginals, gamma and balance of the mixture."""
    p, inside = np.array([s[2] for s in MIXES]), np.zeros(100, dtype=bool)
    inside[truth.relevant.numpy()] = True
    alike = {"axis": "D, k, p_o", "margin": EXACT}

    def law(gamma: float) -> Array:
        return np.where(inside, gamma, 0.0)

    return (
        equal(
            "Pr[phit_j = 1], j in A",
            SHARE,
            np.full(4, 0.5),
            "either component has fair marginals",
            rival=p,
            rival_says="p_o for every pattern",
            **alike,
        ),
        equal(
            "Pr[phit_j = 1], j not in A",
            SHARE,
            p,
            "p_o/2 + (1 - p_o) p_o/(2 - 2 p_o) = p_o",
            rival=p / (2 - 2 * p),
            rival_says="the rate of one component",
            **alike,
        ),
        equal(
            "gamma",
            REAL,
            (1 - p) / 2,
            "gamma = (1 - p_o)/2",
            rival=1 - p,
            rival_says="signs in place of bits",
            **alike,
        ),
        equal("E y", REAL, np.zeros(4), "A0", rival=p / 2, rival_says="one component's share", **alike),
        equal(
            "st at d = 500, D = 100, k = 5, p_o = 1/2",
            REAL,
            5.0,
            "sqrt(100/4)",
            margin=1e-6,
            rival=math.sqrt(5 / 4),
            rival_says="the relevant patterns alone",
        ),
        equal(
            "marginals of the sampler, p_o = 1/4",
            SHARE,
            np.where(inside, 0.5, 0.25),
            "1/2 on A, p_o elsewhere",
            axis="pattern",
            margin=band(100, 0.5),
            rival=np.full(100, 0.5),
            rival_says="fair coins",
        ),
        equal(
            "E[y phit_j] of the sampler, p_o = 1/4",
            REAL,
            law(0.375),
            "(1 - p_o)/2 on A",
            axis="pattern",
            margin=band(100, 1.0),
            rival=law(0.25),
            rival_says="gamma of p_o = 1/2",
        ),
    )


def mix_observe(truth: PatternTruth, key: Key) -> Mapping[str, Observation]:
    """Every input enumerated for D <= 10; the sampler at D = 100."""
    on, off, gamma, balance = [], [], [], []
    for D, k, p_o in MIXES:
        family = parity_mix(D, k, p_o)
        phi, y, prob = family.support()
        phit = phi * family.scale + family.mean
        on.append(prob @ phit[:, 0])
        off.append(prob @ phit[:, -1])
        gamma.append((prob * y) @ phit[:, 0])
        balance.append(prob @ y)
    batch = ParityMix(D=100, k=5, p_o=0.25).sample(truth, N, key / "data")
    hidden, y = flat(batch.hidden), flat(batch.y)
    return {
        "Pr[phit_j = 1], j in A": np.array(on),
        "Pr[phit_j = 1], j not in A": np.array(off),
        "gamma": np.array(gamma),
        "E y": np.array(balance),
        "st at d = 500, D = 100, k = 5, p_o = 1/2": float(ParityMix().draw(key / "reported").scale),
        "marginals of the sampler, p_o = 1/4": hidden.mean(0),
        "E[y phit_j] of the sampler, p_o = 1/4": (y[:, None] * hidden).mean(0),
    }


def membership_statements(settings: None) -> tuple[Statement, ...]:
    """Two background patterns share the mixture index, and so does the block."""
    law = RATES * (1 - 2 * RATES) ** 2 / (4 * (1 - RATES))
    # Pr[block all equal | component] is 1/4 (k = 3, fair) or 1; its covariance with the rate of the component
    beside = RATES * (1 - RATES) * (0.25 - 1) * (0.5 - RATES / (2 - 2 * RATES))
    independent = {"axis": "p_o", "margin": EXACT, "rival": np.zeros(5), "rival_says": "independence"}
    return (
        *both(
            "covariance of two background patterns",
            REAL,
            "A2: independent of all others",
            reported=np.zeros(5),
            corrected=law,
            says="p_o (1 - 2 p_o)^2 / (4 (1 - p_o)), from the mixture index that they share",
            axis="p_o",
            margin=EXACT,
        ),
        equal(
            "covariance of [block all equal] with a background pattern, k = 3",
            REAL,
            beside,
            "the mixture index that both share",
            form="derived",
            **independent,
        ),
    )


def membership_observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """Enumeration."""
    exact, between = [], []
    for p_o in RATES:
        phi, _, prob = (family := parity_mix(6, 3, float(p_o))).support()
        phit = phi * family.scale + family.mean
        exact.append(prob @ (phit[:, -1] * phit[:, -2]) - (prob @ phit[:, -1]) ** 2)
        same = (phit[:, :3].sum(1) % 3 == 0).astype(float)
        between.append(prob @ (same * phit[:, -1]) - (prob @ same) * (prob @ phit[:, -1]))
    return {
        "covariance of two background patterns": np.array(exact),
        "covariance of [block all equal] with a background pattern, k = 3": np.array(between),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.notation",
        entries=("emergence.notation",),
        says="The scalar st, the variance sphi2, E||x||^2 = 1 and <st wstar, x> = count - mean count.",
        statements=notation_statements,
        observe=notation_observe,
    ),
    Claim(
        id="emergence.definition_data",
        entries=("emergence.definition_data",),
        says="Balanced (A0), equal correlations gamma (A1), independent background (A2); E[y x] = (gamma/st) wstar.",
        settings=draw_data,
        statements=data_statements,
        observe=data_observe,
        remarks="The structured parity stands for the family at p_o = 1/2. The paper has P inside [k], so that the "
        "count 0 always has the label -1; the code also allows 0 in P.",
    ),
    Claim(
        id="emergence.definition_parity_mix",
        entries=("emergence.definition_parity_mix",),
        says="The structured parity: marginals 1/2 and p_o, gamma = (1 - p_o)/2, st^2 = k/4 + (D - k) p_o (1 - p_o).",
        settings=draw_mix,
        statements=mix_statements,
        observe=mix_observe,
    ),
    Claim(
        id="emergence.parity_mix_membership",
        entries=("emergence.definition_parity_mix",),
        says="Background patterns of the mixture are independent of all others, as A2 asks of the family.",
        statements=membership_statements,
        observe=membership_observe,
        accuses=Accusation(
            quote="It can be verified that such distributions are included in",
            place="Proof of Theorem 2 (ICLR paper, appendix C; thesis, proof of Theorem A.22)",
            reading="the family of data with A0 to A2; by A2 background patterns are independent of all others",
            hits="proof",
            derivation="Given the component, a background bit is 1 at rate 1/2 (weight p_o) or p_o/(2 - 2 p_o) "
            "(weight 1 - p_o). The covariance of two of them is the variance of that rate, p_o (1 - p_o) "
            "((1 - 2 p_o)/(2 - 2 p_o))^2, which for 0 < p_o <= 1/2 is 0 at 1/2 alone. There the mixture belongs to "
            "the family. The hinge loss on the mixture has the bound of Theorem 2 at every p_o; whether some member of "
            "the family has it for p_o < 1/2 is open.",
        ),
    ),
)
