"""Bounds as formulas, and the tails behind them: Theorems 3.12, B.3, B.23, B.62; Lemmas B.73 to B.78."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import chi2, norm

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, equal
from featlearn.lab.uncertainty import Derived, Law, Observation
from featlearn.measure.best_network import mean_loss
from featlearn.tasks import UniformParity
from featlearn.works.gradient_features.setup import Array


@dataclass(frozen=True)
class Numbers:
    """What the main theorem takes: sizes of the comparison network, of x and of the gradient features."""

    r: float
    B_a1: float
    B_a2: float
    B_b: float
    B_x1: float
    B_x2: float
    B_x: float
    p: float
    gamma: float
    B_G: float


def excess(v: Numbers) -> float:
    """r B_a1 B_x1 sqrt(2 gamma), the part of the bound that neither width nor time removes."""
    return v.r * v.B_a1 * v.B_x1 * math.sqrt(2 * v.gamma)


def width(v: Numbers, eps: float | int) -> float:
    """The first term of m in eq. 3.10, constants 1."""
    return (v.r * v.B_a1 * v.B_x1 * math.sqrt(v.B_b / v.B_G) / eps) ** 4 / v.p


def schedule(v: Numbers, m: float | int, eps: float | int) -> tuple[float, float, float]:
    """bt, eta and T of Theorem B.11, constants 1."""
    q = (m * v.p) ** 0.25
    bt = v.B_G**0.25 * v.B_a2 * v.B_b**0.75 / (math.sqrt(v.r) * v.B_a1)
    size = math.sqrt(v.r) * v.B_a2 * v.B_b * v.B_x1 / q + m * bt
    eta = eps / (size * (math.sqrt(math.log(m)) * v.B_x1 * q / math.sqrt(v.B_b * v.B_G) + 1))
    return bt, eta, 1 / (eta * v.B_x1 * q)


def reported_steps(v: Numbers, m: float | int, eps: float | int, bt: float | int) -> float:
    """T of eq. 3.11, constants 1."""
    q = (m * v.p) ** 0.25
    size = math.sqrt(v.r) * v.B_a2 * v.B_b * v.B_x1 / q + m * bt
    return size / eps * (math.sqrt(math.log(m)) / math.sqrt(v.B_b * v.B_G) + 1 / (v.B_x1 * q))


def reported_samples(v: Numbers, m: float | int, eps: float | int) -> float:
    """n^(1/3) of eq. 3.12, its first term, constants 1."""
    above = m * v.B_x * v.B_a2**2 * math.sqrt(v.B_b) * math.sqrt(m * v.p) * math.log(m)
    return above / (eps * v.r * v.B_a1 * math.sqrt(v.B_G))


def before_tuning(v: Numbers, m: float | int, eps: float | int) -> tuple[float, float, float]:
    """The terms of Theorem B.11 beside OPT + r B_a1 B_x1 sqrt(2 gamma), constants 1, with its hyper-parameters."""
    q, (bt, eta, T) = (m * v.p) ** 0.25, schedule(v, m, eps)
    wide = v.r * v.B_a1 * 2 * v.B_x1 / q * math.sqrt(v.B_b / v.B_G)
    drift = eta * (math.sqrt(v.r) * v.B_a2 * v.B_b * T * eta * v.B_x1**2 + m * bt)
    drift *= math.sqrt(math.log(m)) * v.B_x1 * q / math.sqrt(v.B_b * v.B_G) + 1
    return wide, drift, v.B_a2**2 * v.B_b**2 / (eta * T * bt**2 * q**2)


def sampling(v: Numbers, m: float | int, eps: float | int) -> float:
    """The terms in n^(-1/3) of Theorem B.23, constants 1; the "+ 1" read inside the numerator, as eq. B.181 shows."""
    q, (bt, eta, T) = (m * v.p) ** 0.25, schedule(v, m, eps)
    w = bt * math.sqrt(math.log(m)) * q / math.sqrt(v.B_b * v.B_G)
    moved = w + T * eta**2 * v.B_x1 * bt
    first = (v.r * v.B_a1 * v.B_b / bt + m * (w + bt / v.B_x1)) * (moved * v.B_x + bt) + 1
    return (first + m * eta * moved * math.sqrt(v.B_x2)) / reported_samples(v, m, eps)


def xor_numbers(d: float | int, sigma: float | int = 1.0, C: float | int = 4.35) -> Numbers:
    """Lemma B.41 at tau~ = d / (C^2 sigma^2 log d), the largest that keeps the comparison network good."""
    s = math.sqrt(d) / C  # sqrt(tau~ log d) sigma
    B_x = (1 + sigma) * math.sqrt(d)
    p = math.exp(-min(700.0, math.log(sigma) + sigma**2 * math.log(math.log(d))))  # 1/(sigma (log d)^(sigma^2))
    return Numbers(4.0, 1 / s, 2 / s, 2 * s, B_x, B_x**2, 2 * B_x, p, sigma / math.sqrt(d), math.sqrt(d) / 5)


TERMS = (
    "T of (3.11) over T of B.11",
    "width term over eps, m of (3.10)",
    "drift term over eps",
    "start term over eps, m of (3.10)",
    "terms in n^(-1/3) over eps, n of (3.12), wide networks",
)
EPS, WIDE = (0.02, 0.2), 1e40
"""Targets, and a width at which one term of those in n^(-1/3) leads."""


def sweep(key: Key) -> tuple[Numbers, ...]:
    """16 sets of numbers, each log-uniform over two decades about 1."""
    v = np.exp((key / "sweep").numpy().uniform(-2.3, 2.3, (16, 7)))
    return tuple(Numbers(r, a, e, b, x, 4 * x * x, 3 * x, 0.03 * p, 1e-3, g) for r, a, e, b, x, p, g in v)


def says_main(settings: tuple[Numbers, ...]) -> Sequence[Statement]:
    """What the hyper-parameters make of each term, simplified by hand; the first inequality of the theorem."""
    B_a1 = np.array([v.B_a1 for v in settings for _ in EPS])
    eps, one = np.array([e for _ in settings for e in EPS]), np.ones(len(B_a1))
    names, source = TERMS, "Theorem 3.12 with B.11 and B.23, simplified by hand"

    def term(name: str, value: Array, rival: Array, says: str) -> Statement:
        more = {"margin": 1e-6 * value, "axis": "numbers, eps", "form": "derived"}
        return equal(name, POSITIVE, value, source, rival=rival, rival_says=says, **more)

    return (
        at_most(
            "Pr[sign g != y]", SHARE, Law(lambda loss: loss), "Theorem 3.12: at most L(g), as l(0) = 1", form="derived"
        ),
        term(names[0], one, eps, "off by eps"),
        term(names[1], 2 * one, 2 * eps**-0.5, "eps^2 in place of eps^4"),
        term(names[2], one, B_a1, "a factor B_a1"),
        term(names[3], B_a1, one, "without the factor B_a1"),
        term(names[4], 1 / B_a1, one, "without the factor 1/B_a1"),
    )


def sees_main(settings: tuple[Numbers, ...], key: Key) -> Mapping[str, Observation]:
    """The chain of formulas, evaluated; errors and losses of random scores and of one that is just wrong."""
    rng, loss, error = key.numpy(), [], []
    for i in range(40):
        y, score = rng.choice([-1.0, 1.0], 500), rng.normal(size=500)
        score = np.where(rng.random(500) < i / 40, y, 1) * score if i else np.where(rng.random(500) < 0.5, -0.01, 2) * y
        loss.append(mean_loss(torch.as_tensor(score), torch.as_tensor(y), "hinge"))
        error.append((score * y <= 0).mean())
    terms = []
    for v in settings:
        for eps in EPS:
            m = width(v, eps)
            m = max(m, math.e)
            bt, _, T = schedule(v, 100.0, eps)
            exact = replace(v, p=v.p * width(v, eps) / m)  # m p is what the terms take
            wide, _, start = (t / eps for t in before_tuning(exact, m, eps))
            drift = before_tuning(v, 100.0, eps)[1] / eps
            terms.append((reported_steps(v, 100.0, eps, bt) / T, wide, drift, start, sampling(v, WIDE, eps) / eps))
    return {
        "Pr[sign g != y]": Derived(np.array(error), {"loss": np.array(loss)}),
        **dict(zip(TERMS, np.array(terms).T, strict=True)),
    }


# Theorem B.62 --------------------------------------------------------------------------------------------------------

DIMENSIONS, DRAWS, EPS_MAX = (21, 81, 321), 40_000, 0.1
B_G1 = 0.7


def says_max_norm(settings: tuple[Numbers, ...]) -> Sequence[Statement]:
    """Hoeffding with 1 - 2/d, and the theorem's m in the bound of Lemma B.59."""
    d, x = np.array(DIMENSIONS), np.array([v.B_x1 for v in settings])
    more = {"margin": 1e-9, "axis": "numbers", "form": "derived"}
    return (
        at_most(
            "1 - 2/d quantile of |<v, x>| over ||v||_inf",
            POSITIVE,
            np.sqrt(2 * d * np.log(d)),
            "Theorem B.62: sqrt(2 d log d) gamma_inf",
            axis="d = 21, 81, 321; v with equal coordinates",
        ),
        equal(
            "terms of Lemma B.59 over eps, m of Theorem B.62",
            POSITIVE,
            np.full(len(x), 2.0),
            "Theorem B.62: B_eps = sqrt(B_x1 B_G1) (mp)^(-1/4) sqrt(B_b/B_G), simplified by hand",
            rival=2 * np.sqrt(B_G1 / x),
            rival_says="m of Theorem 3.12, with B_x1 for sqrt(B_x1 B_G1)",
            **more,
        ),
    )


def sees_max_norm(settings: tuple[Numbers, ...], key: Key) -> Mapping[str, Observation]:
    """Uniform inputs, and the chain of formulas."""
    quantiles, terms = [], []
    for d in DIMENSIONS:
        task = UniformParity(d=d, k=2)
        x = task.sample(task.draw(key), DRAWS, key / d).x
        quantiles.append(float(np.quantile(np.abs(x.sum(1).numpy()), 1 - 2 / d)))
    for v in settings:
        size = math.sqrt(v.B_x1 * B_G1)
        m = (v.r * v.B_a1 * size * math.sqrt(v.B_b / v.B_G) / EPS_MAX) ** 4 / v.p
        B_eps = size * (m * v.p) ** -0.25 * math.sqrt(v.B_b / v.B_G)
        found = v.r * v.B_a1 * (v.B_x1 * B_G1 * v.B_b / (math.sqrt(m * v.p) * v.B_G * B_eps) + B_eps)
        terms.append(found / EPS_MAX)
    return {
        "1 - 2/d quantile of |<v, x>| over ||v||_inf": np.array(quantiles),
        "terms of Lemma B.59 over eps, m of Theorem B.62": np.array(terms),
    }


# Lemmas B.73 to B.76 -------------------------------------------------------------------------------------------------

COUNTS, FREEDOM = np.array([2, 10, 1000, 10**6])[:, None], np.array([1, 5, 50, 1000])[:, None]
Z, G = np.linspace(0.0, 30, 301), np.linspace(0.05, 36, 2000)
WHOLE = np.linspace(-8, 37, 4501)


def says_tails(settings: None) -> Sequence[Statement]:
    """Logarithms of probabilities, on grids; no competitor, as all come near."""
    grid = np.broadcast_to(-Z, (4, 301))
    return (
        at_most(
            "log Pr[largest of n normals >= sqrt(2 log n) + z/sqrt(2 log n)]", REAL, grid, "B.73, n >= 2", axis="n, z"
        ),
        at_most("log Pr[chi2_k >= k + 2 sqrt(k z) + 2 z]", REAL, grid, "B.74, z >= 0", margin=1e-12, axis="k, z"),
        at_most("Q(z)/npdf(z)", POSITIVE, 1 / G, "B.75: below 1/z", axis="z"),
        at_least(
            "Q(z)/npdf(z), from below", POSITIVE, G / (G**2 + 1), "B.75: above z/(z^2 + 1)", of="Q(z)/npdf(z)", axis="z"
        ),
    )


def sees_tails(settings: None, key: Key) -> Mapping[str, Observation]:
    """Exact distribution functions."""
    top = np.sqrt(2 * np.log(COUNTS))
    return {
        "log Pr[largest of n normals >= sqrt(2 log n) + z/sqrt(2 log n)]": np.log(
            -np.expm1(COUNTS * log_ndtr(top + Z / top))
        ),
        "log Pr[chi2_k >= k + 2 sqrt(k z) + 2 z]": chi2.logsf(FREEDOM + 2 * np.sqrt(FREEDOM * Z) + 2 * Z, FREEDOM),
        "Q(z)/npdf(z)": np.exp(norm.logsf(G) - norm.logpdf(G)),
    }


def says_truncated(settings: None) -> Sequence[Statement]:
    """npdf(z) < 2 Q(z)^0.9, and where it is nearest."""
    where = "largest npdf(z)/(2 Q(z)^0.9), and its z"
    steady = lambda z: float(norm.pdf(z)) - z * float(norm.sf(z)) / 0.9  # noqa: E731
    top = float(brentq(steady, 1.0, 6.0))  # pyright: ignore[reportArgumentType]
    return (
        at_most("npdf(z)/(2 Q(z)^0.9)", POSITIVE, np.ones(len(WHOLE)), "Lemma B.76", axis="z from -8 to 37"),
        equal(
            where,
            POSITIVE,
            np.array([float(norm.pdf(top)) / 2 / float(norm.sf(top)) ** 0.9, top]),
            "where the slope of log npdf - 0.9 log Q is 0: npdf(z)/Q(z) = z/0.9",
            margin=np.array([1e-5, 0.01]),  # of the grid
            rival=np.array([math.sqrt(1 / (2 * math.pi)) * 2**-0.1, 0.0]),
            rival_says="at z = 0",
            form="derived",
        ),
    )


def sees_truncated(settings: None, key: Key) -> Mapping[str, Observation]:
    """|E[1[g > z] g]| is npdf(z)."""
    ratio = np.exp(norm.logpdf(WHOLE) - math.log(2) - 0.9 * norm.logsf(WHOLE))
    at = int(np.argmax(ratio))
    return {
        "npdf(z)/(2 Q(z)^0.9)": ratio,
        "largest npdf(z)/(2 Q(z)^0.9), and its z": np.array([ratio[at], WHOLE[at]]),
    }


# Lemma B.78 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """Neurons relu(<w, x> - b) and inputs."""

    w: Array
    b: Array
    x: Array


def draw_layers(key: Key) -> tuple[Layer, ...]:
    """Three of Gaussian neurons and inputs, then one neuron relu(x + 1) at x = 1."""
    rng = key.numpy()
    drawn = [
        Layer(rng.normal(size=(m, d)), rng.normal(size=m), rng.normal(size=(n, d)))
        for d, m, n in ((5, 20, 50), (20, 100, 200), (50, 10, 400))
    ]
    return (*drawn, Layer(np.ones((1, 1)), -np.ones(1), np.ones((1, 1))))


def says_rademacher(settings: tuple[Layer, ...]) -> Sequence[Statement]:
    """B sqrt((||W||_F^2 B_x^2 + ||b||^2)/n) at B = 1, and sqrt 2 times that."""
    bound = np.array(
        [math.sqrt(((v.w**2).sum() * (v.x**2).sum(1).max() + (v.b**2).sum()) / len(v.x)) for v in settings]
    )
    reported = "complexity of relu(x + 1) at x = 1, as reported"
    return (
        at_most(
            reported,
            POSITIVE,
            bound[-1],
            "Lemma B.78, (B.595)",
            rival=math.sqrt(2) * bound[-1],
            rival_says="with the factor sqrt 2",
            expect="contradicted",
        ),
        at_most(
            "complexity",
            POSITIVE,
            math.sqrt(2) * bound,
            "Lemma B.78, corrected: (u + v)^2 <= 2 u^2 + 2 v^2",
            margin=1e-12,
            axis="layer",
            form="corrected",
            twin=reported,
        ),
    )


def sees_rademacher(settings: tuple[Layer, ...], key: Key) -> Mapping[str, Observation]:
    """(1/n) E ||sum_i s_i F(x_i)|| over 400 draws of the signs."""
    rng, found = key.numpy(), []
    for v in settings:
        f, signs = np.maximum(v.x @ v.w.T - v.b, 0), rng.choice([-1.0, 1.0], (400, len(v.x)))
        found.append(float(np.linalg.norm(signs @ f, axis=1).mean()) / len(v.x))
    return {"complexity of relu(x + 1) at x = 1, as reported": found[-1], "complexity": np.array(found)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.theorem3_12",
        entries=("gradient_features.theorem3_12", "gradient_features.theorem_b3", "gradient_features.theorem_b23"),
        says="What the main theorem's hyper-parameters make of every term of its bound, and Pr[sign g != y] <= L(g).",
        settings=sweep,
        statements=says_main,
        observe=sees_main,
        remarks="All constants set to 1. At the bt of Theorem B.23 the start term comes to B_a1 eps and the leading "
        "term of sampling to eps/B_a1, so that O(eps) takes B_a1 as a constant there. |l'(0)|, which the full "
        "statement carries, is Theta(1) by Assumption 3.1. "
        "The theorem itself is set beside trained networks in theorem3_12_trained.",
    ),
    Claim(
        id="gradient_features.theorem_b62",
        entries=("gradient_features.theorem_b62", "gradient_features.lemma_b59"),
        says="The version in the largest coordinate pays sqrt(2 d log d) gamma_inf.",
        settings=sweep,
        statements=says_max_norm,
        observe=sees_max_norm,
        remarks="In our copy gamma_inf stands under the root in (B.495), and behind it in (B.508), (B.530) and "
        "(B.536). Hoeffding gives sqrt(2 d log d) gamma_inf, from which the former follows as well.",
    ),
    Claim(
        id="gradient_features.lemma_b73",
        entries=("gradient_features.lemma_b73",),
        says="Tails of the largest normal, of chi-square and of the normal.",
        statements=says_tails,
        observe=sees_tails,
        remarks="B.74 is read where its root exists, z >= 0, and B.73 where log n > 0, n >= 2.",
    ),
    Claim(
        id="gradient_features.lemma_b76",
        entries=("gradient_features.lemma_b76",),
        says="The mean of a normal above a threshold is below 2 Pr^0.9.",
        statements=says_truncated,
        observe=sees_truncated,
        remarks="The mean is npdf(z) exactly. In our copy the integrand of (B.594) lacks a factor x.",
    ),
    Claim(
        id="gradient_features.lemma_b78",
        entries=("gradient_features.lemma_b78",),
        says="Rademacher complexity of second layers of norm B is at most B sqrt((||W||^2 B_x^2 + ||b||^2)/n).",
        settings=draw_layers,
        statements=says_rademacher,
        observe=sees_rademacher,
        accuses=Accusation(
            quote="R(F_{W,b,B_a2}, S) <= sqrt(B_a2^2 (||W||_F^2 B_x^2 + ||b||^2) / n)",
            place="Lemma B.78, (B.595)",
            reading="the complexity is the mean over signs of the supremum of (1/n) sum s_i g(x_i)",
            hits="statement",
            derivation="One sample x = 1 and one neuron relu(x + 1), w = 1, b = -1: the supremum over |a| <= B of "
            "s a 2 is 2 B for either sign, and the bound is B sqrt(1 + 1) = sqrt 2 B. The proof needs relu(<w, x> - "
            "b)^2 <= <w, x>^2 + b^2, which fails where <w, x> and -b have one sign; 2 <w, x>^2 + 2 b^2 is right. The "
            "O() of Theorem 3.4, where the lemma is used, absorbs the constant.",
        ),
    ),
)
