"""How far the looped transformer is from its query: Lemma 8.15, Theorems 8.16 and 8.17, Gaussian examples."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.nets import gradient_descent_weights, inverse_smoothness, prompt_matrix
from featlearn.works.looped.setup import Array, Prompt, draw_prompts, tensor

PROMPTS, EXACT = 40, 1e-9
LOOPS, SHORT = (0, 1, 2, 5, 10, 40, 200), (1, 2, 5)
Prompts = tuple[Prompt, ...]


def draw_linear(key: Key) -> Prompts:
    """y = X theta*, q = 0."""
    return draw_prompts(key, PROMPTS, from_zero=True)


def said(p: Prompt, step: float = 1.0) -> Array:
    """What is generated after 0 to 200 loops, (201, d), with a step in units of 1/L."""
    rates = step * inverse_smoothness(tensor(p.x), max(LOOPS))
    net = gradient_descent_weights(len(p.theta), dtype=torch.float64)
    return net.loops(prompt_matrix(tensor(p.x), tensor(p.y), tensor(p.alpha)), rates)[:, 0].numpy()


# Theorem 8.16 --------------------------------------------------------------------------------------------------------

BOUND, SHARP = "error over |alpha| exp(-T/(2 kappa))", "error over |alpha| exp(-T/kappa)"
CAUCHY, FREE = "error over |alpha| |theta_T - theta*|", "the same for theta* of norm 2"
LONG = "error over |alpha| exp(-T/(2 kappa)), steps of 2.2/L"
WORST = "log of error over |alpha|, theta* along the bottom eigenvector"


def says_error(settings: Prompts) -> Sequence[Statement]:
    """|<TF, theta*> - alpha| <= |alpha| |theta_T - theta*|, |alpha| exp(-T/(2 kappa)) and |alpha| exp(-T/kappa)."""
    numbers = len(LOOPS) * PROMPTS
    kappa = [p.spectrum[-1] / p.spectrum[0] for p in settings if len(p.theta) > 1]
    worst = np.array([t * math.log(1 - 1 / k) for k in kappa for t in SHORT])
    half = np.array([-t / (2 * k) for k in kappa for t in SHORT])
    return (
        at_most(
            CAUCHY,
            POSITIVE,
            1.0,
            "Lemma 8.15",
            margin=1e-6,
            axis="prompt and T",
            rival=control(FREE),
            rival_says="a theta* that is no unit vector",
        ),
        at_most(
            BOUND,
            POSITIVE,
            np.ones(numbers),
            "Theorem 8.16, with the steps of Theorem 8.25",
            margin=EXACT,
            axis="prompt and T",
            rival=control(LONG),
            rival_says="steps beyond 2/L; the proof takes those of Theorem 8.25, 1/L",
        ),
        at_most(
            SHARP,
            POSITIVE,
            np.ones(numbers),
            "error = |alpha| theta*^T (I - H/L)^T theta* <= |alpha| (1 - 1/kappa)^T",
            margin=EXACT,
            axis="prompt and T",
            rival=control(LONG),
            rival_says="steps beyond 2/L",
            form="derived",
        ),
        equal(
            WORST,
            REAL,
            worst,
            "error = |alpha| theta*^T (I - H/L)^T theta*, along the bottom eigenvector |alpha| (1 - 1/kappa)^T",
            margin=1e-5,
            axis="prompt and T",
            rival=half,
            rival_says="the bound of Theorem 8.16",
            form="derived",
        ),
    )


def sees_error(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """By the looped transformer; 1e-12 a loop of rounding are taken off."""
    bound, sharp, long, cauchy, free, worst = [], [], [], [], [], []
    for p in settings:
        kappa = float(p.spectrum[-1] / p.spectrum[0])
        q, far = said(p), said(p, 2.2)
        two = Prompt(p.x, 2 * p.theta, 2 * p.y, p.alpha, p.q)
        other = said(two)
        for t in LOOPS:
            error = max(abs(q[t] @ p.theta - p.alpha) / abs(p.alpha) - 1e-12 * t, 0.0)
            bound.append(error * math.exp(t / (2 * kappa)))
            sharp.append(error * math.exp(t / kappa) if error else 0.0)
            long.append(min(abs(far[t] @ p.theta - p.alpha) / abs(p.alpha) * math.exp(t / (2 * kappa)), 1e300))
            away = float(np.linalg.norm(q[t] / p.alpha - p.theta))
            cauchy.append(abs(q[t] @ p.theta / p.alpha - 1) / away if away > 1e-8 else 0.0)  # rounding alone
            distance = float(np.linalg.norm(other[t] / p.alpha - two.theta))
            free.append(abs(other[t] @ two.theta / p.alpha - 1) / distance if distance > 1e-8 else 2.0)
        if len(p.theta) > 1:
            bottom = np.linalg.eigh(p.gram)[1][:, 0]
            along = said(Prompt(p.x, bottom, p.x @ bottom, p.alpha, p.q))
            worst += [math.log(abs(along[t] @ bottom - p.alpha) / abs(p.alpha)) for t in SHORT]
    return {
        BOUND: np.array(bound),
        SHARP: np.array(sharp),
        LONG: np.array(long),
        CAUCHY: np.array(cauchy),
        FREE: np.array(free),
        WORST: np.array(worst),
    }


# Theorem 8.17 --------------------------------------------------------------------------------------------------------

D, DEPTHS = 4, (1, 2, 5, 10)
NEEDED, THERE = "examples that Theorem 8.17 needs, d = 4, in units of 10^5", "its bound with so many examples"
GROWS, OURS = "its bound at n = 10^9, T = 1 to 3, from one T to the next", "measured error with so many examples, T = 1"


def says_prior(settings: None) -> Sequence[Statement]:
    """8 T d^2/sqrt(n) <= 2^(-2T): n >= 64 T^2 d^4 2^(4T); the bound 8 T d^2 2^(2T)/sqrt(n) is at most 1 there."""
    n = np.array([64 * t**2 * D**4 * 2.0 ** (4 * t) for t in DEPTHS]) / 1e5
    return (
        equal(
            NEEDED,
            POSITIVE,
            n,
            "Theorem 8.17, solved for n",
            margin=1e-9 * n,
            axis="T",
            rival=n / 2.0 ** (2 * np.array(DEPTHS)),
            rival_says="2^(2 T), the square of 2^T",
            form="derived",
        ),
        equal(
            THERE,
            POSITIVE,
            np.ones(len(DEPTHS)),
            "Theorem 8.17: the condition is that the bound be at most 1",
            margin=1e-9,
            axis="T",
            rival=0.5,
            rival_says="a bound that says more",
            form="derived",
        ),
        at_least(
            GROWS,
            POSITIVE,
            np.full(2, 4.0),
            "Below Theorem 8.17: exponentially increasing in T",
            margin=EXACT,
            axis="T",
            rival=1.0,
            rival_says="level",
            form="derived",
        ),
        at_most(
            OURS,
            POSITIVE,
            math.exp(-1 / 2),
            "Theorem 8.16 at kappa = 1, which so many Gaussian examples come near",
            margin=0.02,
            rival=1.0,
            rival_says="no more than Theorem 8.17 says",
            form="derived",
        ),
    )


def sees_prior(settings: None, key: Key) -> Mapping[str, Observation]:
    """n by bisection of the condition; the error by the looped transformer."""

    def bound(t: int, n: float) -> float:
        return 8 * t * D**2 * 2 ** (2 * t) / math.sqrt(n)

    needed = []
    for t in DEPTHS:
        low, high = 0.0, 200.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if 8 * t * D**2 / math.exp(middle / 2) <= 2.0 ** (-2 * t) else (middle, high)
        needed.append(math.exp(high))
    g = key.numpy()
    x, theta = g.normal(size=(round(needed[0]), D)), g.normal(size=D)
    theta /= np.linalg.norm(theta)
    q = said(Prompt(x, theta, x @ theta, 1.0, np.zeros(D)))
    return {
        NEEDED: np.array(needed) / 1e5,
        THERE: np.array([bound(t, n) for t, n in zip(DEPTHS, needed, strict=True)]),
        GROWS: np.array([bound(t + 1, 1e9) / bound(t, 1e9) for t in (1, 2)]),
        OURS: abs(float(q[1] @ theta) - 1.0),
    }


# Gaussian examples ---------------------------------------------------------------------------------------------------

SIZES, DRAWS = ((64, 0.25), (128, 0.25), (64, 0.1)), 100
"""d and eps; at the first two 16 d examples."""
KAPPA, LINEAR = "kappa over ((1 + eps)/(1 - eps))^2", "share of draws with (kappa - 1)/eps <= 8"


def says_gaussian(settings: None) -> Sequence[Statement]:
    """n = d/eps^2 Gaussian examples have kappa near ((1 + eps)/(1 - eps))^2 = 1 + O(eps), whatever d."""
    law = np.array([((1 + e) / (1 - e)) ** 2 for _, e in SIZES])
    return (
        equal(
            KAPPA,
            POSITIVE,
            np.ones(law.size),
            "Edges of the Marchenko-Pastur law",
            margin=0.1,
            axis="d and eps",
            rival=1 / np.sqrt(law),
            rival_says="the condition number of X",
            form="derived",
        ),
        at_least(
            LINEAR,
            SHARE,
            np.full(law.size, 0.95),
            "Below Theorem 8.1: kappa <= 1 + O(eps); 8 for the constant by our criterion",
            axis="d and eps",
            rival=0.0,
            rival_says="kappa - 1 of another order",
            form="criterion",
        ),
    )


def sees_gaussian(settings: None, key: Key) -> Mapping[str, Observation]:
    """Draws of examples."""
    ratio, linear = [], []
    for d, e in SIZES:
        shape, found = (round(d / e**2), d), []
        for i in range(DRAWS):
            x = (key / d / shape[0] / i).numpy().standard_normal(shape)
            values = np.linalg.eigvalsh(x.T @ x)
            found.append(float(values[-1] / values[0]))
        kappa = np.array(found)
        ratio.append(mean_of(kappa / ((1 + e) / (1 - e)) ** 2, POSITIVE, "draw"))
        linear.append(mean_of((kappa - 1) / e <= 8, SHARE, "draw"))
    return {KAPPA: ratio, LINEAR: linear}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="looped.theorem8_16",
        entries=("looped.theorem8_16", "looped.lemma8_15"),
        says="From q = 0 the error after T loops is at most |alpha| exp(-T/(2 kappa)).",
        settings=draw_linear,
        statements=says_error,
        observe=sees_error,
        premises=(Premise("steps of 1/L", True, "left out of the theorem, named in Theorem 8.25"),),
        remarks="The text calls the bound tight. It is exponential in T/kappa, as the error of the worst theta* is, "
        "|alpha|"
        " (1 - 1/kappa)^T; the constant in that exponent is at least twice as good.",
    ),
    Claim(
        id="looped.theorem8_17",
        entries=("looped.theorem8_17",),
        says="The earlier bound needs 64 T^2 d^4 2^(4T) examples and grows with T.",
        statements=says_prior,
        observe=sees_prior,
        premises=(Premise("the bound holds for the model of the earlier work", None, "quoted; its formula is read"),),
        remarks="Formulas quoted from another work, worked out: nothing here could speak against them, so that all"
        " statements are derived. It bounds the error of another model on regression, and grows with T at a fixed n "
        "only as long as its"
        " condition holds, below 1.",
    ),
    Claim(
        id="looped.gaussian_kappa",
        entries=("looped.corollary_gaussian_kappa",),
        says="d/eps^2 Gaussian examples have kappa <= 1 + O(eps).",
        statements=says_gaussian,
        observe=sees_gaussian,
    ),
)
