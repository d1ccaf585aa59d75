"""Margins of classifiers: of samples, of a whole data set, and normalised by a norm."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Predictor, SettingError
from featlearn.core.check import checked

BLOCK = 2**16  # samples whose scores are held at once


@checked(empty=("scores", "y"))
def margins(scores: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Score of the right class minus the largest of the others: g = f[y] - max_{c != y} f[c].

    Shapes: scores (n, c), y (n) -> (n). Source: Definition 4.2 (fourier.definition4_2).
    Errors: SettingError for one class, a class that is not there, or scores that are not finite.

    Example:
        >>> margins(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([1]))
        tensor([-2.])
    """
    right, rest = _parted(scores, y)
    return right - rest.amax(1)


@checked(empty=("scores", "y"))
def class_weighted_margins(scores: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Score of the right class minus the mean of the others: at least the margin, and additive over parts of a network.

    Formula: g' = f[y] - sum_{c != y} tau_c f[c] with tau = 1/(c - 1). Shapes: scores (n, c), y (n) -> (n).
    Source: Definition 4.6 with uniform weights (fourier.definition4_6). Errors as in `margins`.

    Example:
        >>> class_weighted_margins(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([1]))
        tensor([-1.5000])
    """
    right, rest = _parted(scores, y)
    return right - rest.mean(1)


def _parted(scores: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of the right class (n) and of the others (n, c - 1)."""
    n, c = scores.shape
    if c < 2:
        raise SettingError("scores", tuple(scores.shape), "at least 2 classes", "a margin needs a wrong class")
    if len(y) != n:
        raise SettingError("y", tuple(y.shape), f"({n}), a class for each row of scores", "pair scores and labels")
    if n and not (int(y.min()) >= 0 and int(y.max()) < c):
        raise SettingError("y", f"{int(y.min())} to {int(y.max())}", f"0 to {c - 1}", "classes are columns of scores")
    right = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, y[:, None], True)
    return scores[right], scores[~right].view(n, c - 1)


@dataclass(frozen=True)
class DataMargin:
    """Margins over a data set. least: the margin h of the set. mean: of the samples. right: share with a positive one.

    weighted: mean of the class-weighted margins. n: samples.
    """

    least: float
    mean: float
    right: float
    weighted: float
    n: int


@checked(empty=("x", "y"))
def data_margin(net: Predictor, x: Int[Tensor, "n ..."] | Float[Tensor, "n ..."], y: Int[Tensor, " n"]) -> DataMargin:
    """Smallest and mean margin of a predictor on a data set, samples in blocks to bound memory.

    Formula: h = min_s g(x_s, y_s). Divide by norm^degree for the normalised margin of a homogeneous network.
    Shapes: x (n, ...), y (n). Source: Definition 4.3 (fourier.definition4_3). Errors: as `margins`, and for n = 0.

    Example:
        >>> data_margin(lambda x: x, torch.tensor([[3.0, 1.0], [0.0, 4.0]]), torch.tensor([0, 1])).least
        2.0
    """
    if not len(y):
        raise SettingError("x", tuple(x.shape), "at least one sample", "an empty set has no margin")
    least, total, right, weighted = float("inf"), 0.0, 0, 0.0
    for xb, yb in zip(x.split(BLOCK), y.split(BLOCK), strict=True):
        scores = net(xb)
        found = margins(scores, yb)
        least = min(least, float(found.min()))
        total += float(found.double().sum())
        right += int((found > 0).sum())
        weighted += float(class_weighted_margins(scores, yb).double().sum())
    n = len(y)
    return DataMargin(least, total / n, right / n, weighted / n, n)
