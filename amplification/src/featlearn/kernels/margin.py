"""The smallest hinge loss of a norm-bounded linear classifier, with a certificate from the dual problem."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_number, checked


@dataclass(frozen=True)
class HingeFit:
    """A linear classifier w (f), its hinge loss, and a value below which no classifier of that norm can go.

    The true minimum lies in [lower, loss]; the gap is at most the tolerance asked for.
    """

    w: Float[Tensor, " f"]
    loss: float
    lower: float

    @checked(empty=("features",), moves=True)
    def __call__(self, features: Float[Tensor, "n f"], /) -> Float[Tensor, "n 1"]:
        return features.to(self.w) @ self.w[:, None]


def _hinge(phi: Tensor, y: Tensor, p: Tensor, w: Tensor) -> float:
    return float((p * (1 - y * (phi @ w)).clamp_min(0)).sum())


@checked(signs=("y",), moves=True)
def hinge_classifier(
    features: Float[Tensor, "n f"],
    y: Float[Tensor, " n"],
    max_norm: float,
    *,
    weights: Float[Tensor, " n"] | None = None,
    tolerance: float = 1e-6,
    max_steps: int = 100,
) -> HingeFit:
    """Minimise sum_s p_s max(1 - y_s <w, features_s>, 0) subject to ||w|| <= max_norm.

    p: `weights` normalised to sum 1 (default uniform). A primal-dual interior-point method (predictor and corrector)
    whose slack variables are eliminated, so that a step solves an (f, f) system: O(n f^2 + f^3), some tens of steps.
    The lower value is the dual objective sum_s alpha_s - max_norm ||sum_s alpha_s y_s features_s||, 0 <= alpha <= p.

    Errors: SettingError for features, labels or weights that are not finite or do not fit, labels other than -1 and +1,
    weights that are no probabilities, and max_norm not above 0. If
    max_steps end first the certificate is wider than the tolerance, and says so.

    Example:
        >>> hinge_classifier(torch.tensor([[1.0], [-1.0]]), torch.tensor([1.0, -1.0]), 0.25).loss
        0.75
    """
    check_number(max_norm, "max_norm", "a finite number above 0", "with 0 every loss is 1", above=True)
    check_number(tolerance, "tolerance", "a finite number of at least 0", "1e-6 is the default")
    if weights is not None and not (bool((weights >= 0).all()) and bool((weights > 0).any())):
        raise SettingError("weights", f"{float(weights.min()):g} the least", "from 0, not all 0", "give probabilities")
    phi = features.double() * y.double()[:, None]
    n, f = phi.shape
    p = torch.full((n,), 1.0 / n, dtype=torch.float64) if weights is None else weights.double() / weights.double().sum()
    keep = p > 0
    phi, p = phi[keep], p[keep]
    ones = torch.ones(len(p), dtype=torch.float64)
    # two exact candidates: the best direction if every sample stays active, and zero
    mean = phi.T @ p
    w = torch.zeros(f, dtype=torch.float64)
    best, lower = 1.0, max(0.0, 1.0 - max_norm * float(mean.norm()))
    best_w = w
    straight = mean * (max_norm / mean.norm().clamp_min(1e-300))
    if (loss := _hinge(phi, ones, p, straight)) < best:
        best, best_w = loss, straight
    slack, top = torch.full_like(p, 2.0), torch.ones_like(p)  # slack > 0 and top = slack - 1 + margin > 0
    alpha, beta = p / 2, p / 2  # their multipliers, alpha + beta = p
    pull = 1.0 / max_norm**2  # multiplier of ||w||^2 <= max_norm^2
    eye = torch.eye(f, dtype=torch.float64)
    for _ in range(max_steps):
        if best - lower <= tolerance:
            break
        room = (max_norm**2 - float(w @ w)) / 2
        gap = float(alpha @ top + beta @ slack) + pull * room
        steep, flat = alpha / top, beta / slack
        total = steep + flat
        hessian = (phi * (steep * flat / total)[:, None]).T @ phi + pull * eye + (pull / room) * torch.outer(w, w)
        factor = torch.linalg.cholesky(hessian)
        target = 0.0
        for _ in ("predict", "correct"):  # a pure Newton step says how far the path may be followed
            shift = (target / top + target / slack - p) / total
            right = phi.T @ (target / top - steep * shift) - (target / room) * w
            step_w = torch.cholesky_solve(right[:, None], factor)[:, 0]
            step_t = shift + flat / total * (phi @ step_w)
            step_s = step_t - phi @ step_w
            step_a = target / top - alpha - steep * step_t
            step_b = target / slack - beta - flat * step_s
            step_p = target / room - pull + pull / room * float(w @ step_w)
            pairs = ((slack, step_s), (top, step_t), (alpha, step_a), (beta, step_b))
            size = min(1.0, 0.99 * _longest(pairs, pull, step_p, w, step_w, max_norm**2))
            if target == 0.0:
                left = float((alpha + size * step_a) @ (top + size * step_t))
                left += float((beta + size * step_b) @ (slack + size * step_s))
                target = max(min(left / gap, 1.0) ** 3, 1e-4) * gap / (2 * len(p) + 1)
        w, slack, top = w + size * step_w, slack + size * step_s, top + size * step_t
        alpha, beta, pull = alpha + size * step_a, beta + size * step_b, pull + size * step_p
        if (loss := _hinge(phi, ones, p, w)) < best:
            best, best_w = loss, w
        dual = torch.minimum(alpha, p)
        lower = max(lower, float(dual.sum()) - max_norm * float((phi.T @ dual).norm()))
    return HingeFit(best_w, best, min(lower, best))  # rounding may cross the two by one unit


def _longest(
    pairs: Iterable[tuple[Tensor, Tensor]], pull: float, step_p: float, w: Tensor, step_w: Tensor, radius: float
) -> float:
    """Largest step that keeps every value of `pairs` and the multiplier positive and ||w||^2 < radius."""
    longest = pull / -step_p if step_p < 0 else float("inf")
    for value, change in pairs:
        down = change < 0
        if bool(down.any()):
            longest = min(longest, float((value[down] / -change[down]).min()))
    a, b, c = float(step_w @ step_w), float(w @ step_w), float(w @ w) - radius
    if a > 0:
        longest = min(longest, ((b * b - a * c) ** 0.5 - b) / a)
    return longest
