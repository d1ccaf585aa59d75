"""Population optima: weight decay on many features, and both penalties in the plane of two inputs."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from featlearn.tasks import Environments, Environments2d
from featlearn.works.nuclear.claims.sums import Part, law, log_tail, quadrature

Objective = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]
"""Value, gradient and Hessian at a point."""


def logistic(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log(1 + exp(-z)), its slope -1 / (1 + exp(z)) and its curvature."""
    wrong = expit(-z)
    return np.logaddexp(0, -z), -wrong, wrong * expit(z)


def newton(objective: Objective, start: np.ndarray, tolerance: float = 1e-13, most: int = 100) -> np.ndarray:
    """Minimum of a strictly convex objective by damped Newton steps until the gradient is below the tolerance.

    Errors: ArithmeticError where it does not get there.
    """
    w = start
    value, gradient, hessian = objective(w)
    for _ in range(most):
        size = np.abs(gradient).max()
        if size < tolerance:
            return w
        step = -np.linalg.solve(hessian, gradient)
        length = 1.0
        while True:
            new = objective(w + length * step)
            # near the end values are equal up to rounding and the gradient decides
            if np.abs(new[1]).max() < size:
                break
            if size < 1e-10:
                return w  # rounding: no step makes the gradient smaller
            if new[0] <= value + 1e-4 * length * float(gradient @ step):
                break
            length /= 2
            if length < 1e-12:
                raise ArithmeticError(f"no descent at {w}, gradient {gradient}")
        w = w + length * step
        value, gradient, hessian = new
    raise ArithmeticError(f"gradient {gradient} after {most} steps")


def root(f: Callable[[float], float], low: float, high: float, tolerance: float = 1e-12) -> float:
    """Where f, of opposite signs at low and high, is 0 (Brent)."""
    return float(brentq(f, low, high, xtol=tolerance))  # pyright: ignore[reportArgumentType]


# --- many features ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Optimum:
    """ERM with weight decay on the law: weights alpha (invariant) and beta (environmental), largest |gradient|."""

    alpha: float
    beta: float
    gradient: float

    @property
    def ratio(self) -> float:
        """alpha / beta."""
        return self.alpha / self.beta


def decayed_objective(task: Environments, lam: float, finer: int = 1) -> Objective:
    """L(alpha, beta) = E l(alpha S_R + beta S_U) + (lam / 2)(r alpha^2 + (d - r) beta^2), per feature and exact.

    Source: nuclear.objectives (eq. 6.4, E.10). The gradient is that of one feature of each kind, E[l' z_j] + lam w_j.
    """
    r, m = task.r, task.d - task.r
    counts = np.array([r, m], dtype=float)

    def objective(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        found = law([Part(r, float(w[0])), Part(m, float(w[1]), task.gamma)], finer)
        loss, slope, curvature = logistic(found.x)
        value = float(found.p @ loss) + lam / 2 * float(counts @ w**2)
        gradient = found.first @ slope + lam * counts * w
        hessian = found.second @ curvature + lam * np.diag(counts)
        return value, gradient, hessian

    return objective


@lru_cache(maxsize=256)
def decayed(task: Environments, lam: float, finer: int = 1) -> Optimum:
    """The unique optimum by Newton from the step that the curvature at 0 gives.

    finer: times the points of the law, to see what discretisation is left.
    """
    r, m = task.r, task.d - task.r
    mean = np.array([r / 2, m * task.gamma])
    spread = np.diag([r / 12, m * (1 / 3 - task.gamma**2)])
    curvature = (spread + np.outer(mean, mean)) / 4 + lam * np.diag([r, m])
    start = np.linalg.solve(curvature, mean / 2)
    # the law needs two weights of like size: the quadratic model's, but never 0
    start = np.maximum(start, 0.2 * start.max())
    objective = decayed_objective(task, lam, finer)
    w = newton(objective, start)
    gradient = np.abs(objective(w)[1] / np.array([r, m])).max()
    return Optimum(float(w[0]), float(w[1]), float(gradient))


def log_accuracy(task: Environments, alpha: float, beta: float) -> float:
    """log P(alpha S_R + beta S_U >= 0) in the environment of the task (eq. E.45)."""
    return log_tail([Part(task.r, alpha), Part(task.d - task.r, beta, task.gamma)])


# --- the plane of two inputs -----------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def plane(agree: float, order: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """y x (N, 2) and probabilities (N) by Gauss-Legendre quadrature on the two squares: exact for smooth functions."""
    x, w = quadrature(order)
    one, two = np.meshgrid(x, x, indexing="ij")
    square = np.stack([one.ravel(), two.ravel()], 1)
    each = np.outer(w, w).ravel()
    return np.concatenate([square, square * [1, -1]]), np.concatenate([agree * each, (1 - agree) * each])


def plane_loss(w: np.ndarray, agree: float = 0.7) -> float:
    """E log(1 + exp(-y <w, x>))."""
    z, p = plane(agree)
    return float(p @ logistic(z @ w)[0])


def plane_objective(decay: float, nuclear: float, agree: float = 0.7) -> Objective:
    """E l(y <w, x>) + (decay / 2) |w|^2 + nuclear * sqrt(w' Sigma w): for a head of norm 1 and A of rank one the last
    is ||Phi(X)||_* / sqrt(N) of many samples (nuclear.fig6_3)."""
    z, p = plane(agree)
    sigma = Environments2d(agree).second_moments.numpy()

    def objective(w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        loss, slope, curvature = logistic(z @ w)
        value = float(p @ loss) + decay / 2 * float(w @ w)
        gradient = z.T @ (p * slope) + decay * w
        hessian = (z.T * (p * curvature)) @ z + decay * np.eye(2)
        if nuclear:
            pull = sigma @ w
            size = math.sqrt(float(w @ pull))
            value += nuclear * size
            gradient = gradient + nuclear * pull / size
            hessian = hessian + nuclear * (sigma / size - np.outer(pull, pull) / size**3)
        return value, gradient, hessian

    return objective


@lru_cache(maxsize=1024)
def plane_decayed(lam: float, agree: float = 0.7) -> tuple[float, float]:
    """The classifier w of ERM with (lam / 2) |w|^2 on the law of the plane."""
    mean = Environments2d(agree).mean.numpy()
    w = newton(plane_objective(lam, 0.0, agree), mean / (2 * lam + 1))
    return float(w[0]), float(w[1])


@lru_cache(maxsize=1024)
def plane_nuclear(mu: float, agree: float = 0.7) -> tuple[float, float]:
    """The classifier w of ERM with mu * sqrt(w' Sigma w); (0, 0) from `largest_nuclear` on."""
    if mu >= largest_nuclear(agree):
        return 0.0, 0.0
    task = Environments2d(agree)
    toward = np.linalg.solve(task.second_moments.numpy(), task.mean.numpy())
    w = newton(plane_objective(0.0, mu, agree), toward * (largest_nuclear(agree) - mu))
    return float(w[0]), float(w[1])


def largest_nuclear(agree: float = 0.7) -> float:
    """mu from which w = 0 is optimal: (1/2) sqrt(E[yx]' Sigma^-1 E[yx])."""
    task = Environments2d(agree)
    mean = task.mean.numpy()
    return 0.5 * math.sqrt(float(mean @ np.linalg.solve(task.second_moments.numpy(), mean)))


def matched(solve: Callable[[float], tuple[float, float]], loss: float, low: float, high: float) -> tuple[float, float]:
    """The classifier on the path of a penalty whose training loss is `loss`; low and high: weights around."""

    def above(log_weight: float) -> float:
        return plane_loss(np.array(solve(math.exp(log_weight)))) - loss

    return solve(math.exp(root(above, math.log(low), math.log(high))))
