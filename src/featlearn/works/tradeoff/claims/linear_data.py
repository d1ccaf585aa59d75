"""Linear data of section 7.2.2: optimal representations of mixtures (Lemma F.3) and predictors on them."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.special import expit, gammaln, roots_genlaguerre
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, between, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.learn import project_gram
from featlearn.works.tradeoff.setup import Mixture

Array = np.ndarray

# Lemma F.3 -----------------------------------------------------------------------------------------------------------


ONES = (1.0, 1.0, 1.0)
MIXTURES = {
    "(1/2, 1/2)": Mixture((0.5, 0.5), ONES[:2], ONES[:2]),
    "(1/3, 1/3, 1/3)": Mixture((1 / 3,) * 3, ONES, ONES),
    "(0.6, 0.4)": Mixture((0.6, 0.4), ONES[:2], ONES[:2]),
    "(0.5, 0.35, 0.15)": Mixture((0.5, 0.35, 0.15), ONES, ONES),
    "(0.95, 0.05)": Mixture((0.95, 0.05), ONES[:2], ONES[:2]),
    "(1/2, 1/2), sigma_R = (1, 2)": Mixture((0.5, 0.5), ONES[:2], (1.0, 2.0)),
    "(1/2, 1/2), sigma_S = 0.3": Mixture((0.5, 0.5), (0.3, 0.3), ONES[:2]),
}
ONE_TASK = Mixture((1.0,), (1.0,), (1.0,))
SOLVED = 1e-6


def program(m: Mixture) -> Array:
    """alpha and alpha_1..T of (F.40)-(F.42) for l(t) = exp(-t), where E exp(-a chi^2_n) = (1 + 2 a)^(-n/2): Newton's
    method with a barrier on all constraints, whose gap is known."""
    n, p, t = m.r - m.s, np.array(m.weights), len(m.weights)
    a, b = np.array(m.shared) ** 2, np.array(m.own) ** 2
    budget = np.concatenate([[m.s], np.full(t, n)]).astype(float)

    def derivatives(v: Array, gap: float) -> tuple[Array, Array]:
        x, y = 1 + 2 * v[0] * a, 1 + 2 * v[1:] * b
        f = p * x ** (-m.s / 2) * y ** (-n / 2)
        slack = m.r - budget @ v
        g = np.concatenate([[-(f * m.s * a / x).sum()], -f * n * b / y])
        h = np.zeros((t + 1, t + 1))
        h[0, 0] = (f * m.s * (m.s + 2) * (a / x) ** 2).sum()
        h[0, 1:] = h[1:, 0] = f * m.s * n * a * b / (x * y)
        h[np.arange(1, t + 1), np.arange(1, t + 1)] = f * n * (n + 2) * (b / y) ** 2
        g += gap * (budget / slack - 1 / v + 1 / (1 - v))
        h += gap * (np.outer(budget, budget) / slack**2 + np.diag(1 / v**2 + 1 / (1 - v) ** 2))
        return g, h

    v, gap = np.full(t + 1, 0.9 * m.r / m.k), 1.0
    while gap > 1e-11:
        for _ in range(30):
            g, h = derivatives(v, gap)
            step, length = np.linalg.solve(h, -g), 1.0
            while True:
                new = v + length * step
                if new.min() > 0 and new.max() < 1 and budget @ new < m.r:
                    break
                length *= 0.7
            v = v + 0.95 * length * step if length < 1 else new
            if np.abs(step).max() < 1e-13:
                break
        gap *= 0.3
    return v


def weights_of(m: Mixture, v: Array) -> Array:
    """Diagonal of (WM)^T WM: alpha on S, alpha_t on P_t, 0 on one spurious feature."""
    return np.concatenate([np.full(m.s, v[0]), np.repeat(v[1:], m.r - m.s), [0.0]])


def says_optimum(settings: None) -> Sequence[Statement]:
    """W* = [Q A*, 0] M^(-1) with A* = diag(sqrt(alpha) on S, sqrt(alpha_t) on P_t)."""
    found = []
    for name, m in MIXTURES.items():
        v = program(m)
        spread = np.diag(np.full(m.k + 1, m.r / m.k))
        spread[-1, -1] = 0
        found.append(
            equal(
                f"(WM)^T WM, weights {name}",
                REAL,
                np.diag(weights_of(m, v)),
                "Lemma F.3, (F.40)-(F.44), l(t) = exp(-t)",
                margin=SOLVED,
                axis="features",
                rival=spread,
                rival_says="the budget shared evenly by all invariant features",
            )
        )
    return found


REFERENCE = {
    ((0.5, 0.5), 1.0, (1.0, 1.0)): (1.0, 0.5, 0.5),
    ((0.8, 0.2), 1.0, (1.0, 1.0)): (1.0, 0.86304, 0.13696),
    ((0.95, 0.05), 1.0, (1.0, 1.0)): (1.0, 1.0, 0.0),
    ((0.6, 0.3, 0.1), 1.0, (1.0, 1.0, 1.0)): (1.0, 0.68472, 0.31528, 0.0),
    ((0.5, 0.5), 1.0, (1.0, 2.0)): (1.0, 0.57424, 0.42576),
    ((0.5, 0.5), 0.3, (1.0, 1.0)): (0.0, 1.0, 1.0),
}
"""Weights, sigma_S and sigma_R of mixtures with r = 4, s = 2, and the optimum (alpha, alpha_1, ...) of the inventory's
check, to five digits."""
LOGISTIC, EVENLY = (
    "first-order gain of (F.40) over the optima of the inventory, logistic loss, six mixtures",
    "the same over the budget shared evenly",
)
ROUNDED = 1e-4
"""Optima are rounded to 5e-6, and slopes change by at most 16 times as much (sigma_R = 2: E (4 Z)^2/4 = 32, weight
1/2)."""


def says_logistic(settings: None) -> Sequence[Statement]:
    """A convex program gains nothing to first order at its optimum, and only there."""
    return (
        equal(
            LOGISTIC,
            POSITIVE,
            np.zeros(len(REFERENCE)),
            "tradeoff.lemmaF_3, check: reference optima",
            margin=ROUNDED,
            axis="mixture",
            rival=control(EVENLY),
            rival_says="the budget shared evenly",
            form="derived",
        ),
    )


def slope_of(v: Array, weights: Sequence[float], shared: float, own: Sequence[float]) -> Array:
    """Derivatives of (F.40) for the logistic loss on Gauss-Laguerre nodes: chi^2_2 is twice an exponential."""
    x, w = roots_genlaguerre(80, 0.0)
    z, p, slope = 2 * x, np.outer(w, w), np.zeros(len(v))
    for t, (weight, sigma) in enumerate(zip(weights, own, strict=True), 1):
        one, two = shared**2 * z[:, None], sigma**2 * z[None]
        pull = weight * p * expit(-v[0] * one - v[t] * two)
        slope[[0, t]] -= [float((pull * one).sum()), float((pull * two).sum())]
    return slope


def sees_logistic(settings: None, key: Key) -> Mapping[str, Observation]:
    """The least of a linear program, slopes times weights in the budget and in [0, 1], against the slopes there."""
    found = []
    for (weights, shared, own), optimum in REFERENCE.items():
        n, gains = len(optimum), []
        for v in (np.array(optimum), np.full(n, 2 / n)):
            slope = slope_of(v, weights, shared, own)
            least = linprog(slope, A_ub=np.full((1, n), 2.0), b_ub=[4.0], bounds=(0, 1)).fun
            gains.append(max(float(slope @ v) - float(least), 0.0))
        found.append(gains)
    return {LOGISTIC: np.array(found)[:, 0], EVENLY: np.array(found)[:, 1]}


def exact_loss(gram: Tensor, m: Mixture) -> Tensor:
    """sum_t w_t E exp(-z^T G z+) for z = [z_R; z_U], z+ = [z_R; z_U+], by Gaussian integrals: with v = (z_R, z_U, z_U+)
    normal and z^T G z+ = v^T H v / 2 it is det(I + H)^(-1/2) on each task."""
    n, own, total = len(gram), m.r - m.s, gram.new_zeros(())
    u = n - m.k
    for t, (w, a, b) in enumerate(zip(m.weights, m.shared, m.own, strict=True)):
        scale = gram.new_zeros(n, m.r + u)
        alive = [*range(m.s), *range(m.s + t * own, m.s + (t + 1) * own), *range(m.k, n)]
        for column, row in enumerate(alive):
            scale[row, column] = a if row < m.s else b if row < m.k else 1.0
        first = torch.cat([scale, gram.new_zeros(n, u)], 1)
        second = torch.cat([scale[:, : m.r], gram.new_zeros(n, u), scale[:, m.r :]], 1)
        h = first.T @ gram @ second
        total = total + w * torch.linalg.det(torch.eye(m.r + 2 * u, dtype=gram.dtype) + h + h.T).rsqrt()
    return total


def solve(m: Mixture, key: Key, spurious: int = 1) -> Array:
    """(WM)^T WM of the least loss over all symmetric matrices G with eigenvalues in [0, 1] and trace at most r, in a
    random basis M: accelerated projected gradient steps with restarts."""
    n = m.k + spurious
    q = torch.linalg.qr(torch.randn(n, n, generator=key.torch(), dtype=torch.float64))[0]
    g = project_gram(torch.eye(n, dtype=torch.float64) * m.r / n / 2, m.r)
    ahead, momentum, rate, before = g.clone(), 1.0, 2.0, math.inf
    for _ in range(4000):
        point = ahead.clone().requires_grad_()
        loss = exact_loss(q.T @ point @ q, m)
        (slope,) = torch.autograd.grad(loss, point)
        value = float(loss.detach())
        new = project_gram(ahead - rate * (slope + slope.T) / 2, m.r)
        moved = float((new - g).abs().max())
        if value > before or float(((ahead - new) * (new - g)).sum()) > 0:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - g)
        ahead = project_gram(ahead, m.r)
        g, momentum, before = new, following, value
        if moved < 1e-10 and momentum > 2:
            break
    return (q.T @ g @ q).numpy()


def sees_optimum(settings: None, key: Key) -> Mapping[str, Observation]:
    """Over all matrices."""
    return {f"(WM)^T WM, weights {name}": solve(m, key / name) for name, m in MIXTURES.items()}


# Proposition 7.4 -----------------------------------------------------------------------------------------------------

FEATURES, LABELS, DRAWS = 20, 12, 24_000
ONLY, COMPLEXITY, MEAN = (
    "(WM)^T WM of one task",
    "Rademacher complexity over sqrt(r/m) ||u||",
    "the same against the mean of chi_r",
)
FLOOR, KNOWN = (
    "least squared risk on another task, of all linear predictors",
    "the same after pretraining on both tasks",
)
BOTH, FIRST = MIXTURES["(1/2, 1/2)"], Mixture((1.0, 0.0), ONES[:2], ONES[:2])
"""Two tasks of r = 4 and s = 2: the other task is the second, of weight 0 where the first is pretrained on alone."""


def draw_label(key: Key) -> Array:
    """Labels: (r), the first s for shared features."""
    return key.numpy().normal(size=FEATURES)


def says_specific(settings: Array) -> Sequence[Statement]:
    """phi_t* keeps R_t with weights 1; R_m <= sqrt(r/m) ||u||; on task i it knows z_S alone."""
    own = float((settings[FIRST.s : FIRST.r] ** 2).sum())
    mean = math.exp(gammaln((FEATURES + 1) / 2) - gammaln(FEATURES / 2)) * math.sqrt(2 / FEATURES)
    ones = np.diag([1.0] * ONE_TASK.r + [0.0])
    return (
        equal(
            ONLY,
            REAL,
            ones,
            "Proposition 7.4",
            margin=SOLVED,
            axis="features",
            rival=np.eye(ONE_TASK.r + 1) * ONE_TASK.r / (ONE_TASK.r + 1),
            rival_says="the budget shared with the spurious feature",
        ),
        at_most(COMPLEXITY, POSITIVE, 1.0, "Proposition 7.4, (F.99)-(F.100)"),
        equal(
            MEAN,
            POSITIVE,
            mean,
            "E chi_r / sqrt(r)",
            of=COMPLEXITY,
            margin=0.006,
            rival=1.0,
            rival_says="Jensen's inequality taken for an equality",
            form="derived",
        ),
        equal(
            FLOOR,
            POSITIVE,
            own,
            "Proposition 7.4: min over u of E (u^T z_S - y)^2, what the task's own features have in y",
            margin=1e-6 * own,
            rival=control(KNOWN),
            rival_says="features of all tasks are encoded",
        ),
    )


def sees_specific(settings: Array, key: Key) -> Mapping[str, Observation]:
    """The solver of Lemma F.3, for the target alone also in a basis with another task's features; complexities by drawn
    samples and signs."""
    g = key.numpy()
    samples, signs = g.normal(size=(DRAWS, LABELS, FEATURES)), g.choice([-1.0, 1.0], (DRAWS, LABELS))
    sums = np.linalg.norm(np.einsum("nm,nmr->nr", signs, samples), axis=1)  # over ||u|| <= B the supremum is B times it
    return {
        ONLY: solve(ONE_TASK, key / "start"),
        COMPLEXITY: mean_of(sums / math.sqrt(LABELS * FEATURES), POSITIVE, "draw"),
        FLOOR: least_risk(solve(FIRST, key / "first"), settings),
        KNOWN: least_risk(solve(BOTH, key / "both"), settings),
    }


def least_risk(gram: Array, label: Array) -> float:
    """Least E (u^T phi - y)^2 on the second of two tasks, phi = G^(1/2) z; directions of weight below 1e-4 are rounding
    errors and left out."""
    s, r = FIRST.s, FIRST.r
    values, vectors = np.linalg.eigh(gram)
    seen = (vectors * np.sqrt(values.clip(0)))[[*range(s), *range(r, 2 * r - s)]]
    y = label[:r]
    u = np.linalg.lstsq(seen, y, rcond=1e-4)[0]
    return float(((seen @ u - y) ** 2).sum())


# Lemma F.5 -----------------------------------------------------------------------------------------------------------

MANY, FEWER, SIGMAS, PRIVATE = 50, 4000, (1.0, 1.5), (1.0, 0.25, 1 / 16)
"""Samples; draws; sigma_S and sigma_R; alpha_t, at alpha = 1."""
NORM, RATIO = "least norm of a predictor without error", "Rademacher complexity over its leading term"


def says_predictors(settings: Array) -> Sequence[Statement]:
    """B = sqrt(v1/alpha + v2/alpha_t); R_m is B sqrt((s alpha sigma_S^2 + (r - s) alpha_t sigma_R^2)/m) but for the
    distance of a Gaussian norm's mean from the root of its square's, which Jensen and Poincare bound."""
    s = FEATURES // 2
    shared, own = float((settings[:s] ** 2).sum()), float((settings[s:] ** 2).sum())
    a = np.array(PRIVATE)
    norms = np.sqrt(shared + own / a)
    energy = s * SIGMAS[0] ** 2 + (FEATURES - s) * a * SIGMAS[1] ** 2
    largest = np.maximum(SIGMAS[0] ** 2, a * SIGMAS[1] ** 2)
    return (
        equal(
            NORM,
            POSITIVE,
            norms,
            "Lemma F.5, (F.64)-(F.68)",
            margin=1e-9 * norms,
            axis="alpha_t",
            rival=np.sqrt(shared + own / a**2),
            rival_says="weights alpha in place of their roots",
        ),
        between(
            RATIO,
            POSITIVE,
            1 - largest / energy,
            1.0,
            "Lemma F.5, (F.91)-(F.93), with the constant of the Gaussian Poincare inequality",
            axis="alpha_t",
            rival=math.sqrt(2 / math.pi),
            rival_says="that of a single coordinate",
            form="criterion",
        ),
    )


def sees_predictors(settings: Array, key: Key) -> Mapping[str, Observation]:
    """Least-norm solutions on many samples of Q A z; complexities by drawn samples and signs."""
    s, g = FEATURES // 2, key.numpy()
    rotation = np.linalg.qr(g.normal(size=(2 * FEATURES, 2 * FEATURES)))[0][:, :FEATURES]
    sigma = np.repeat(SIGMAS, (s, FEATURES - s))
    norms, ratios = [], []
    for a in PRIVATE:
        root = np.sqrt(np.repeat((1.0, a), (s, FEATURES - s)))
        z = g.normal(size=(3 * FEATURES, FEATURES)) * sigma
        u = np.linalg.lstsq((z * root) @ rotation.T, z @ settings, rcond=1e-12)[0]
        norms.append(float(np.linalg.norm(u)))
        sums = (g.normal(size=(FEWER, MANY, FEATURES)) * g.choice([-1.0, 1.0], (FEWER, MANY, 1))).sum(1) * sigma
        length = np.linalg.norm((sums * root) @ rotation.T, axis=1)  # the supremum over ||u|| <= B is B times it
        scale = math.sqrt(MANY * float((root**2 * sigma**2).sum()))
        ratios.append(mean_of(length / scale, POSITIVE, "draw"))
    return {NORM: np.array(norms), RATIO: ratios}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.lemmaF_3",
        entries=("tradeoff.lemmaF_3", "tradeoff.prop7_3", "tradeoff.propF_8"),
        says="The optimal representation of a mixture weighs features by a small convex program and leaves z_U out.",
        statements=says_optimum,
        observe=sees_optimum,
        remarks="With l(t) = exp(-t) the loss of any W is exact. It depends on W by G = W^T W alone and is convex in "
        "it, so that descent over all G finds what all W attain.",
    ),
    Claim(
        id="tradeoff.lemmaF_3_logistic",
        entries=("tradeoff.lemmaF_3",),
        says="Program (F.40) for the logistic loss gains nothing over the optima that the inventory has.",
        statements=says_logistic,
        observe=sees_logistic,
        remarks="A regression test of the inventory's numbers: it solves the program, and says nothing of all W.",
    ),
    Claim(
        id="tradeoff.prop7_4",
        entries=("tradeoff.prop7_4",),
        says="Pretraining on one task keeps its features with weights 1, and of another task knows what both share.",
        settings=draw_label,
        statements=says_specific,
        observe=sees_specific,
    ),
    Claim(
        id="tradeoff.lemmaF_5",
        entries=("tradeoff.lemmaF_5",),
        says="Least norm of a predictor without error, and Rademacher complexity of predictors up to that norm.",
        settings=draw_label,
        statements=says_predictors,
        observe=sees_predictors,
        remarks="In the proof X_tj is sqrt(alpha) times the sum over samples, as A* has it and as its variance says.",
    ),
)
