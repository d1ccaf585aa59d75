"""Propositions 7.3, F.8 and F.9: weights of even mixtures, what the bounds make of them, and tuning on the target."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import chi2
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, control, equal, exponent
from featlearn.lab.uncertainty import Observation
from featlearn.works.tradeoff.claims.linear_data import exact_loss
from featlearn.works.tradeoff.setup import Mixture

Array = np.ndarray

# Proposition 7.3 -----------------------------------------------------------------------------------------------------

LOSSES: Mapping[str, Callable[[Array], Array]] = {
    "logistic": lambda t: np.logaddexp(0, -t),
    "logistic at temperature 10": lambda t: np.logaddexp(0, -t / 10),
    "exponential": lambda t: np.exp(-t),
    "hinge at 10": lambda t: np.maximum(0, 10 - t),
    "linear": lambda t: -t,
}
SIZES = ((5, 10, 2), (5, 10, 8), (1, 10, 2), (1, 10, 20), (9, 10, 2), (8, 10, 1))
"""s, r, T."""
ALPHAS = np.linspace(0, 1, 51)
CASES = tuple((name, *size) for name in LOSSES for size in SIZES)
POINTS = 100
SHARED, OWN = "alpha of even mixtures, five losses", "beta at alpha = 0.2, 0.6 and 1, two tasks and one"
GIVEN = tuple((t, a) for t in (2, 1) for a in (0.2, 0.6, 1.0))


def says_even(settings: None) -> Sequence[Statement]:
    """Some alpha in [0, 1], beta = min(1, (r - alpha s)/(T (r - s))); alpha = 1 for every s, r, T and l."""
    betas = [min(1.0, (10 - 5 * a) / (t * 5)) for t, a in GIVEN]
    return (
        equal(
            OWN,
            POSITIVE,
            np.array(betas),
            "Proposition 7.3, s = 5, r = 10",
            margin=1e-5,
            axis="tasks and alpha",
            rival=np.array([(10 - 5 * a) / (t * 5) for t, a in GIVEN]),
            rival_says="the whole budget, beyond weights of 1",
        ),
        equal(
            SHARED,
            SHARE,
            np.ones(len(CASES)),
            "chi^2_1 has a larger likelihood ratio than chi^2_1/T, so that shared features are worth more of the "
            "budget at alpha = 1 (Proposition F.8 has it for r = 2s)",
            margin=0.01,
            axis="loss and sizes",
            rival=np.array([r / (s + t * (r - s)) for _, s, r, t in CASES]),
            rival_says="the budget shared evenly",
            form="derived",
        ),
    )


def quantiles(n: int) -> Array:
    """Middles of equal shares of chi^2_n."""
    return chi2.ppf((np.arange(POINTS) + 0.5) / POINTS, n)


def sees_even(settings: None, key: Key) -> Mapping[str, Observation]:
    """Losses on a grid of quantiles; alpha by a scan, all beta_t together by SLSQP."""
    found = []
    for name, s, r, t in CASES:
        z, own = quantiles(s)[:, None], quantiles(r - s)[None]
        values = [LOSSES[name](a * z + min(1.0, (r - a * s) / (t * (r - s))) * own).mean() for a in ALPHAS]
        found.append(float(ALPHAS[int(np.argmin(values))]))
    z, own = quantiles(5)[:, None], quantiles(5)[None]
    betas = []
    for t, a in GIVEN:

        def loss(b: Array, a: float = a, t: int = t) -> float:
            return float(np.mean([LOSSES["logistic at temperature 10"](a * z + v * own).mean() for v in b[:t]]))

        left = {"type": "ineq", "fun": lambda b, a=a: 10 - 5 * a - 5 * b.sum()}
        start = key.numpy().uniform(0.1, 0.4, t)
        made = minimize(loss, start, bounds=[(0, 1)] * t, constraints=[left], method="SLSQP", options={"ftol": 1e-13})
        betas.append(float(made.x.mean()))
    return {SHARED: np.array(found), OWN: np.array(betas)}


# Proposition F.8 -----------------------------------------------------------------------------------------------------

TASKS = (1, 2, 3, 4, 8, 16, 64)
RATIO = "leading term of the bound for T tasks over that for one, v_1 = v_2"
ROOT = "exponent of the leading term in r"
ABOVE, UNCAPPED = (
    "largest Pr[Z + Z_1/T <= x] less Pr[alpha Z + beta Z_1 <= x], s = 2, T = 1, 2, 4, 10",
    "the same for T = 1 and beta = 2 - alpha, above 1",
)
ALPHA = (0.0, 0.3, 0.5, 0.7, 0.9)


def says_ratio(settings: None) -> Sequence[Statement]:
    """sqrt(v_1 + T v_2) sqrt(r (T + 1)/(2 T)) against sqrt(r) ||u||: (T + 1)/(2 sqrt(T))."""
    t = np.array(TASKS, dtype=float)
    return (
        equal(
            RATIO,
            POSITIVE,
            (t + 1) / (2 * np.sqrt(t)),
            "Propositions F.8 and 7.4",
            margin=1e-9 * t,
            axis="tasks",
            rival=np.sqrt(t),
            rival_says="sqrt(T), as the text rounds it",
        ),
        exponent(
            ROOT,
            "equal",
            0.5,
            "Proposition F.8: sqrt(r (T + 1)/(2 T)); section 7.2.2 has it in its O()",
            margin=1e-9,
            rival=0.0,
            rival_says="L sqrt(T/m) ||u|| for every r",
            form="derived",
        ),
        at_most(
            ABOVE,
            REAL,
            0.0,
            "Appendix F.2.3: alpha = 1 stochastically dominates; beta = min(1, (2 - alpha)/T), five alpha",
            margin=1e-12,
            rival=control(UNCAPPED),
            rival_says="beta outside the constraints",
        ),
    )


def leading(t: float, s: int, key: Key) -> float:
    """sqrt(m) times the bound's leading term over 4L: least norm of a predictor without error times the root of
    tr Cov(phi), from samples of Q A z with ||u||^2 = 1, half of it on s shared features and half on s of the task."""
    g = key.numpy()
    root = np.concatenate([np.ones(s), np.full(s, t**-0.5)])
    q = np.linalg.qr(g.normal(size=(2 * s, 2 * s)))[0]
    u = g.normal(size=(2, s))
    u = (u / np.linalg.norm(u, axis=1, keepdims=True) / math.sqrt(2)).ravel()
    z = g.normal(size=(6 * s, 2 * s))
    phi = (z * root) @ q.T
    cov = (q * root**2) @ q.T
    return float(np.linalg.norm(np.linalg.lstsq(phi, z @ u, rcond=1e-12)[0])) * math.sqrt(float(np.trace(cov)))


def summed(a: float, b: float, x: Array) -> Array:
    """Pr[a Z + b Z_1 <= x] for independent chi^2_2, which are twice exponentials."""
    if min(a, b) < 1e-12:
        return 1 - np.exp(-x / (2 * max(a, b)))
    if abs(a - b) < 1e-12:
        return 1 - np.exp(-x / (2 * a)) * (1 + x / (2 * a))
    return 1 - (a * np.exp(-x / (2 * a)) - b * np.exp(-x / (2 * b))) / (a - b)


def sees_ratio(settings: None, key: Key) -> Mapping[str, Observation]:
    """From matrices; distribution functions in closed form for s = 2."""
    one = leading(1.0, 5, key)
    sizes = np.array([2, 4, 8, 16])
    terms = [leading(4.0, int(s), key / int(s)) for s in sizes]
    x = np.linspace(0.01, 40, 4000)

    def above(t: float, most: float = 1.0) -> float:
        gaps = [summed(1.0, 1 / t, x) - summed(a, min(most, (2 - a) / t), x) for a in ALPHA]
        return float(np.max(gaps))

    return {
        RATIO: np.array([leading(float(t), 5, key) / one for t in TASKS]),
        ROOT: float(np.polyfit(np.log(sizes), np.log(terms), 1)[0]),
        ABOVE: max(above(t) for t in (1.0, 2.0, 4.0, 10.0)),
        UNCAPPED: above(1.0, math.inf),
    }


# Proposition F.9 -----------------------------------------------------------------------------------------------------

TUNED = Mixture((1.0,), (1.0,), (1.0,))
"""The target alone; its features come first."""
T, GAMMAS = 3, (0.2, 0.5, 0.8)
WEIGHTS, KEPT = "sqrt(beta) after tuning, gamma = 0.2, 0.5, 0.8", "other entries of W M, gamma = 0.2 and 0.5"
FACTOR = "leading term squared over r ||u||^2/4 at beta = 1/16, 0.1, 0.3, 1"
BETAS = (1 / 16, 0.1, 0.3, 1.0)


def says_tuning(settings: None) -> Sequence[Statement]:
    """sqrt(alpha) = 1, sqrt(beta) = min(1, sqrt(1/T) + gamma/sqrt(s)), other tasks' weights 1/sqrt(T); the bound's
    leading term is in proportion to sqrt(2 + alpha/beta + beta/alpha)."""
    s, start = TUNED.s, T**-0.5
    g = np.array(GAMMAS)
    b = np.array(BETAS)
    ideal = np.diag([1.0] * s + [0.0] * s + [start] * ((T - 1) * s) + [0.0])
    level = np.diag([1.0] * s + [0.0] * s + [0.0] * ((T - 1) * s) + [0.0])
    return (
        equal(
            WEIGHTS,
            POSITIVE,
            np.repeat(np.minimum(1, start + g / math.sqrt(s)), s),
            "Proposition F.9",
            margin=1e-5,
            axis="gamma and feature",
            rival=np.repeat(np.minimum(1, start + g / math.sqrt(2 * s)), s),
            rival_says="the distance shared by all r features of the target",
        ),
        equal(
            KEPT,
            REAL,
            np.stack([ideal] * 2),
            "Proposition F.9 and its proof",
            margin=1e-4,
            axis="gamma and entry",
            rival=np.stack([level] * 2),
            rival_says="features of other tasks are given up",
        ),
        equal(
            FACTOR,
            POSITIVE,
            2 + 1 / b + b,
            "Appendix F.2.4, last display",
            margin=1e-9 / b,
            axis="beta",
            rival=2 + 1 / b,
            rival_says="without beta/alpha",
        ),
    )


@dataclass(frozen=True)
class Start:
    """W* M = Q [A, 0] (k, d) and the rotation Q."""

    w: Tensor
    q: Tensor


def universal(key: Key) -> Start:
    """Pretrained on an even mixture of T tasks, with one spurious feature."""
    k = TUNED.s * (1 + T)
    q = torch.linalg.qr(torch.randn(k, k, generator=key.torch(), dtype=torch.float64))[0]
    root = torch.full((k,), T**-0.5, dtype=torch.float64)
    root[: TUNED.s] = 1
    return Start(torch.cat([q * root, torch.zeros(k, 1, dtype=torch.float64)], 1), q)


def near(w: Tensor, start: Tensor, gamma: float) -> Tensor:
    """The nearest matrix within gamma of the start in Frobenius norm and of spectral norm at most 1, by Dykstra's
    alternating projections."""
    p, q = torch.zeros_like(w), torch.zeros_like(w)
    for _ in range(200):
        u, values, v = torch.linalg.svd(w + p, full_matrices=False)
        y = (u * values.clamp(max=1)) @ v
        p = w + p - y
        away = y + q - start
        new = start + away * min(1.0, gamma / max(float(away.norm()), 1e-300))
        q = y + q - new
        moved, w = float((new - w).abs().max()), new
        if moved < 1e-12:
            break
    return w


def tuned(start: Start, gamma: float) -> Tensor:
    """Q^T W M of the least loss on the target with l(t) = exp(-t), by projected descent over all W from W*."""
    s, w = TUNED.s, start.w.clone()
    alive = [*range(2 * s), w.shape[1] - 1]  # the target's features and the spurious one
    for _ in range(400):
        point = w.clone().requires_grad_()
        seen = point[:, alive]
        loss = exact_loss(seen.T @ seen, TUNED)
        (slope,) = torch.autograd.grad(loss.log(), point)
        new = near(w - 0.5 * slope, start.w, gamma)
        moved, w = float((new - w).abs().max()), new
        if moved < 1e-9:
            break
    return start.q.T @ w


def sees_tuning(settings: None, key: Key) -> Mapping[str, Observation]:
    """Over all W; bounds from matrices."""
    s, start = TUNED.s, universal(key)
    found = [tuned(start, gamma) for gamma in GAMMAS]
    own = [m.diagonal()[s : 2 * s].numpy() for m in found]
    kept = []
    for m in found[:2]:
        rest = torch.zeros(start.w.shape[1], start.w.shape[1], dtype=m.dtype)
        rest[: len(m)] = m
        rest[range(s, 2 * s), range(s, 2 * s)] = 0.0
        kept.append(rest.numpy())
    return {
        WEIGHTS: np.concatenate(own),
        KEPT: np.stack(kept),
        FACTOR: np.array([leading_of(b, key) for b in BETAS]),
    }


def leading_of(beta: float, key: Key) -> float:
    """Twice the square of the leading term's factors over s at ||u||^2 = 1."""
    return 2 * leading(1 / beta, 5, key) ** 2 / 5


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.prop7_3",
        entries=("tradeoff.prop7_3",),
        says="Even mixtures: shared features get weight sqrt(alpha), own ones sqrt(beta), beta = min(1, (r - alpha s)/"
        "(T (r - s))).",
        statements=says_even,
        observe=sees_even,
        remarks="Alpha is left open by the proposition. 1 is an optimum for every convex decreasing loss, and the only "
        "one unless the loss is flat where the argument lies.",
    ),
    Claim(
        id="tradeoff.propF_8",
        entries=("tradeoff.propF_8",),
        says="For r = 2s the bound for T tasks is (T + 1)/(2 sqrt(T)) times that for one, to leading order.",
        statements=says_ratio,
        observe=sees_ratio,
        remarks="The ratio and the exponent are arithmetic of the bound's formula on matrices, and no evidence on the "
        "risk, which tradeoff.risk_worse measures. The proof's domination in distribution is looked at for s = 2 and "
        "five values of alpha, within the constraint beta <= 1.",
    ),
    Claim(
        id="tradeoff.propF_9",
        entries=("tradeoff.propF_9",),
        says="Contrastive fine-tuning on the target within gamma raises its weights alone: sqrt(beta) = min(1, "
        "sqrt(1/T) + gamma/sqrt(s)), and the bound's leading term is in proportion to sqrt(2 + alpha/beta + "
        "beta/alpha).",
        statements=says_tuning,
        observe=sees_tuning,
        remarks="At alpha = 1 the factor falls as beta rises to 1: arithmetic of the bound, no evidence on the risk.",
    ),
)
