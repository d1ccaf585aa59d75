"""Contrastive pretraining of a linear representation x -> W x with ||W|| <= 1 and ||W||_F^2 <= r, by its Gram matrix.

The loss E l(x^T G (x+ - E x-)) depends on W by G = W^T W alone and is convex in it for convex l, over the convex set
0 <= G <= I, tr G <= r: so projected steps on G find what all W attain. Source: tradeoff.lemmaF_3.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_finite, checked


@checked()
def project_gram(g: Float[Tensor, "d d"], budget: float | int) -> Float[Tensor, "d d"]:
    """The symmetric matrix (d, d) nearest to g with eigenvalues in [0, 1] of sum at most `budget`.

    Errors: SettingError for a budget that is not above 0.

    Example:
        >>> project_gram(torch.diag(torch.tensor([2.0, 0.75, 0.25, -1.0])), 1.5).diagonal().tolist()
        [1.0, 0.5, 0.0, 0.0]
    """
    if not budget > 0:
        raise SettingError("budget", budget, "above 0", "it bounds the sum of eigenvalues")
    values, vectors = torch.linalg.eigh((g + g.T) / 2)
    shift = torch.zeros_like(values[0])
    if float(values.clamp(0, 1).sum()) > budget:
        # the sum of clamped values falls piecewise linearly in the shift; its kinks are at the values and 1 below
        kinks = torch.cat([values, values - 1, shift[None]])
        kinks = kinks[kinks >= 0].sort().values
        sums = (values[None] - kinks[:, None]).clamp(0, 1).sum(1)
        i = int((sums > budget).sum()) - 1
        shift = kinks[i] + (kinks[i + 1] - kinks[i]) * (sums[i] - budget) / (sums[i] - sums[i + 1])
    return (vectors * (values - shift).clamp(0, 1)) @ vectors.T


def fit_linear_contrastive(
    pairs: Callable[[int], tuple[Tensor, Tensor]],
    *,
    budget: float | int,
    steps: int,
    rate: float,
    temperature: float = 1.0,
) -> Tensor:
    """G = W^T W (d, d) by projected minibatch steps on the logistic loss l(t) = log(1 + exp(-t / temperature)).

    pairs(step): positive pairs x, x+ (n, d), new ones at every step; the mean of the x of a step stands for E phi(x-)
    in the next. The start is budget/d times the identity; the result is the mean over the second half of the steps.

    Errors: SettingError for steps below 2 or numbers not above 0; NotFiniteInput for pairs that are not finite.

    Example:
        >>> def same(step):
        ...     x = torch.randn(64, 3, generator=torch.Generator().manual_seed(step))
        ...     return x[:, :2], x[:, ::2]
        >>> fit_linear_contrastive(same, budget=1.0, steps=200, rate=0.5).diagonal().argmax()
        tensor(0)
    """
    for name, value in (("budget", budget), ("rate", rate), ("temperature", temperature)):
        if not value > 0:
            raise SettingError(name, value, "above 0", "see the default")
    if steps < 2:
        raise SettingError("steps", steps, "at least 2", "the result is a mean over the second half")
    x, positive = pairs(0)
    check_finite(x, "x")
    d = x.shape[1]
    g = budget / d * torch.eye(d, dtype=x.dtype)
    total, mean = torch.zeros_like(g), x.mean(0)
    for step in range(1, steps + 1):
        t = ((x @ g) * (positive - mean)).sum(1) / temperature
        pull = torch.sigmoid(-t) / temperature
        ascent = (pull[:, None] * x).T @ (positive - mean) / len(x)
        g = project_gram(g + rate * (ascent + ascent.T) / 2, budget)
        if step > steps // 2:
            total += g
        mean = x.mean(0)
        x, positive = pairs(step)
    return total / (steps - steps // 2)
