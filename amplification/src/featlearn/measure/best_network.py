"""The best second layer on given features, and the loss of sub-networks.

A convex problem, so the answer comes with a lower bound: nobody can do better than `lower` within the stated norm.
Source: gradient_features.definition3_3, definition3_9, prop_b1.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.linalg import eigh
from scipy.optimize import linprog, minimize, root_scalar
from scipy.sparse import csr_matrix, hstack, identity
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import checked

Loss = Literal["hinge", "logistic", "squared"]


@dataclass(frozen=True)
class BestNetwork:
    """a (m): the second layer. loss: its mean loss. lower: a bound that no second layer within the norm beats."""

    a: Float[Tensor, " m"]
    loss: float
    lower: float


def mean_loss(score: Float[Tensor, " n"], y: Float[Tensor, " n"], loss: str) -> float:
    """Mean of max(1 - y g, 0), log(1 + exp(-y g)) or (g - y)^2.

    Shapes: score, y (n). The squared loss has no factor 1/2 here, as in gradient_features.definition_multi_index.
    """
    if loss == "hinge":
        return float((1 - y * score).clamp_min(0).mean())
    if loss == "logistic":
        return float(torch.nn.functional.softplus(-y * score).mean())
    return float((score - y).square().mean())


def _check(features: Tensor, y: Tensor, weights: Tensor | None, loss: str, bound: float | None) -> None:
    if loss not in get_args(Loss):
        raise SettingError("loss", loss, "hinge, logistic or squared", "choose one of them")
    if len(features) != len(y) or not len(y):
        raise SettingError("y", tuple(y.shape), f"one for each of {len(features)} rows, at least 1", "match them")
    if loss != "squared" and not bool((y.abs() == 1).all()):
        raise SettingError("y", float(y[(y.abs() != 1)][0]), "-1 or +1", 'use loss="squared" for real targets')
    if weights is not None and not (bool((weights >= 0).all()) and bool((weights > 0).any())):
        raise SettingError("weights", f"{float(weights.min()):g} the least", "from 0, not all 0", "give probabilities")
    if bound is not None and not (bound > 0 and math.isfinite(bound)):
        raise SettingError("norm", bound, "positive and finite", "it bounds the second layer")


@checked(moves=True)
def best_network(
    features: Float[Tensor, "n m"],
    y: Float[Tensor, " n"],
    norm: float,
    loss: Loss = "hinge",
    *,
    weights: Float[Tensor, " n"] | None = None,
) -> BestNetwork:
    """min of the mean loss over second layers with ||a||_2 <= norm: OPT of fixed first-layer features.

    Formula: min sum_s weight_s l(y_s <a, F_s>), ||a|| <= norm; weights are probabilities, 1/n each by default.
    hinge: the dual max sum alpha - norm ||F^T (y alpha)||, 0 <= alpha <= weight, by L-BFGS-B, whose value is the lower
    bound; squared: exact, by eigenvalues and one root; logistic: bound from the dual point of the gradient.
    Shapes: features (n, m) = relu(<w, x> - b), y (n), weights (n) -> a (m). Float64.
    Source: gradient_features.definition3_3. Errors: `SettingError` for labels outside +-1 (hinge, logistic), data that
    are not finite, an unknown loss and a norm that is not positive.

    Example:
        >>> f = torch.tensor([[1.0], [-1.0]])
        >>> round(best_network(f, torch.tensor([1.0, -1.0]), norm=0.5).loss, 6)
        0.5
    """
    _check(features, y, weights, loss, norm)
    f, t = features.double().numpy(), y.double().numpy()
    p = np.full(len(t), 1 / len(t)) if weights is None else weights.double().numpy()
    if loss == "squared":
        a = _least_squares(f, t, p, norm)
        value = float(p @ (f @ a - t) ** 2)
        return BestNetwork(torch.as_tensor(a), value, value)
    z = f * t[:, None]
    a, lower = (_hinge if loss == "hinge" else _logistic)(z, p, norm)
    margin = z @ a
    value = float(p @ (np.maximum(1 - margin, 0) if loss == "hinge" else np.logaddexp(0, -margin)))
    return BestNetwork(torch.as_tensor(a), value, lower)


def _least_squares(f: np.ndarray, t: np.ndarray, p: np.ndarray, norm: float) -> np.ndarray:
    values, basis = eigh((f * p[:, None]).T @ f)
    right = basis.T @ (f.T @ (p * t))
    keep = values > len(values) * np.finfo(float).eps * max(values.max(), 0)
    free = np.where(keep, right / np.where(keep, values, 1), 0)
    if np.linalg.norm(free) <= norm:
        return basis @ free
    size = lambda log: np.linalg.norm(right / (np.maximum(values, 0) + math.exp(log))) - norm  # noqa: E731
    top = math.log(np.linalg.norm(right) / norm + 1e-300)
    low = top
    while size(low) < 0:
        low -= 5
    return basis @ (right / (np.maximum(values, 0) + math.exp(root_scalar(size, bracket=(low, top), xtol=1e-12).root)))


def _inside(a: np.ndarray, norm: float) -> np.ndarray:
    return a * min(1.0, norm / max(float(np.linalg.norm(a)), 1e-300))


def _hinge(z: np.ndarray, p: np.ndarray, norm: float) -> tuple[np.ndarray, float]:
    """Smoothed dual, ever less smooth: its maximiser gives a primal point on or in the ball and a lower bound."""
    best, value, lower = np.zeros(z.shape[1]), float(p.sum()), 0.0
    alpha = p * 0.5
    scale = float(np.abs(z).max()) or 1.0
    for smooth in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        delta = smooth * scale * 0.1

        def dual(alpha: np.ndarray, delta: float = delta) -> tuple[float, np.ndarray]:
            v = z.T @ alpha
            size = math.sqrt(float(v @ v) + delta * delta)
            return norm * size - float(alpha.sum()), norm * (z @ v) / size - 1

        found = minimize(
            dual,
            alpha,
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([0 * p, p], 1),
            options={"maxiter": 1000, "maxfun": 2000, "ftol": 1e-14, "gtol": 1e-9},
        )
        alpha = found.x
        v = z.T @ alpha
        lower = max(lower, float(alpha.sum() - norm * np.linalg.norm(v)))
        a = _inside(norm * v / math.sqrt(float(v @ v) + delta * delta), norm)
        now = float(p @ np.maximum(1 - z @ a, 0))
        if now < value:
            best, value = a, now
        if value - lower < 1e-6:
            return best, lower
        if smooth == 1e-2 and np.linalg.norm(a) < 0.5 * norm:
            break  # the ball does not bind, where this dual is slow and a linear program exact
    if value - lower > 1e-5:
        a, bound = _linear_program(z, p, norm)  # the box around the ball
        lower = max(lower, bound)
        if np.linalg.norm(a) <= norm:
            return a, bound
    return best, lower


def _logistic(z: np.ndarray, p: np.ndarray, norm: float) -> tuple[np.ndarray, float]:
    def penalised(penalty: float, start: np.ndarray) -> np.ndarray:
        def value(a: np.ndarray) -> tuple[float, np.ndarray]:
            margin = z @ a
            pull = p / (1 + np.exp(np.clip(margin, -500, 500)))
            return float(p @ np.logaddexp(0, -margin)) + penalty * float(a @ a) / 2, penalty * a - z.T @ pull

        return minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "gtol": 1e-10}).x

    # ||gradient|| at 0 bounds the penalty at which the ball is reached
    top = math.log(float(np.linalg.norm(z.T @ p)) / 2 / norm + 1e-300) + 1
    a, bottom, least = np.zeros(z.shape[1]), top, top - 30
    while bottom > least and np.linalg.norm(a) <= norm:  # small penalties are slow: go no further than needed
        top, bottom = bottom, bottom - 2
        a = penalised(math.exp(bottom), a)
    if np.linalg.norm(a) > norm:
        for _ in range(30):
            middle = (top + bottom) / 2
            a = penalised(math.exp(middle), a)
            top, bottom = (top, middle) if np.linalg.norm(a) > norm else (middle, bottom)
            if abs(np.linalg.norm(a) - norm) < 1e-6 * norm:
                break
    a = _inside(a, norm)
    q = 1 / (1 + np.exp(np.clip(z @ a, -500, 500)))  # dual point: entropy of q less the best linear gain
    entropy = -(q * np.log(np.maximum(q, 1e-300)) + (1 - q) * np.log(np.maximum(1 - q, 1e-300)))
    return a, float(p @ entropy) - norm * float(np.linalg.norm(z.T @ (p * q)))


@checked(moves=True)
def best_bounded_network(
    features: Float[Tensor, "n m"],
    y: Float[Tensor, " n"],
    largest: float,
    *,
    weights: Float[Tensor, " n"] | None = None,
) -> BestNetwork:
    """min of the mean hinge loss over second layers with max|a_i| <= largest: a linear program, solved exactly.

    Shapes: features (n, m), y (n), weights (n) -> a (m). Source: gradient_features.definition3_9 (B_a1), lemma_b54.
    Errors: as `best_network`; RuntimeError if the solver gives up.
    """
    _check(features, y, weights, "hinge", largest)
    z = features.double().numpy() * y.double().numpy()[:, None]
    p = np.full(len(z), 1 / len(z)) if weights is None else weights.double().numpy()
    a, lower = _linear_program(z, p, largest)
    return BestNetwork(torch.as_tensor(a), float(p @ np.maximum(1 - z @ a, 0)), lower)


def _linear_program(z: np.ndarray, p: np.ndarray, largest: float) -> tuple[np.ndarray, float]:
    n, m = z.shape
    found = linprog(
        np.r_[np.zeros(m), p],
        A_ub=hstack([csr_matrix(-z), -identity(n)]),
        b_ub=-np.ones(n),
        bounds=[(-largest, largest)] * m + [(0, None)] * n,
        method="highs",
    )
    if found.status:
        raise RuntimeError(f"the linear program was not solved: {found.message}")
    return np.clip(found.x[:m], -largest, largest), float(found.fun)


@checked()
def subnetwork_scores(
    features: Float[Tensor, "n m"], a: Float[Tensor, " m"], keep: Bool[Tensor, " m"]
) -> Float[Tensor, " n"]:
    """Scores of the sub-network of the neurons in `keep`, with the second layer that the whole network gave them.

    Shapes: features (n, m), a (m), keep (m) -> (n). Source: gradient_features.prop_b1.
    """
    return features[:, keep] @ a[keep]


@checked(signs=("y",), mixed=("y", "a"))
def loss_by_size(
    features: Float[Tensor, "n m"],
    y: Float[Tensor, " n"],
    a: Float[Tensor, " m"],
    order: Int[Tensor, " m"],
    sizes: Int[Tensor, " s"],
    loss: Loss = "hinge",
) -> Float[Tensor, " s"]:
    """Mean loss of the sub-networks of the first neurons in an order: how small a winning ticket may be.

    Shapes: features (n, m), y (n), a (m), order (m) a permutation, sizes (s) -> (s). Source: gradient_features.prop_b1.
    Errors: `SettingError` for an order that is no permutation and sizes outside 0..m.
    """
    m = len(a)
    if not torch.equal(order.sort().values, torch.arange(m)):
        raise SettingError("order", tuple(order.shape), f"a permutation of 0..{m - 1}", "use argsort")
    if bool((sizes < 0).any()) or bool((sizes > m).any()):
        raise SettingError("sizes", sizes.tolist(), f"within 0..{m}", "a sub-network has at most all neurons")
    scores = torch.cumsum(features[:, order] * a[order], 1)
    scores = torch.cat([torch.zeros_like(scores[:, :1]), scores], 1)[:, sizes]
    return torch.tensor([mean_loss(s, y, loss) for s in scores.T])
