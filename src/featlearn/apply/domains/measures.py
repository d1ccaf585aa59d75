"""What is measured on labelled images: who is taken for whom, and how far stated probabilities are true."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import SettingError
from featlearn.methods.domains import Evaluation, Part
from featlearn.methods.domains.training import _check_parts, _in_batches

BINS = 15
"""Bins of equal width of the probability of the predicted class."""


@dataclass(frozen=True)
class Measures:
    """Predictions on labelled images, summed.

    confusion: (k, k) counts, rows are true classes and columns predicted ones; bins: (BINS, 3), of each bin of the
    probability of the predicted class the images, the sum of that probability, and how many are right.
    """

    confusion: Int[np.ndarray, "k k"]
    bins: Float[np.ndarray, "b 3"]

    @staticmethod
    def of(probabilities: Float[Tensor, "n k"], y: Int[Tensor, " n"]) -> "Measures":
        """Of probabilities (n, k) of all classes, and true classes (n).

        Example:
            >>> found = Measures.of(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), torch.tensor([0, 1, 1]))
            >>> found.confusion.tolist(), round(found.accuracy, 3), found.balanced, round(found.ece, 3)
            ([[1, 0], [1, 1]], 0.667, 0.75, 0.3)
        """
        from sklearn.metrics import confusion_matrix

        sure, guess = probabilities.double().max(1)
        right = (guess == y).double()
        place = (sure * BINS).ceil().long().clamp(1, BINS) - 1  # (0, 1/15], (1/15, 2/15], ...
        bins = torch.zeros(BINS, 3, dtype=torch.float64)
        bins.index_add_(0, place, torch.stack([torch.ones_like(sure), sure, right], 1))
        k = probabilities.shape[1]
        confusion = (
            confusion_matrix(y.numpy(), guess.numpy(), labels=range(k)) if len(y) else np.zeros((k, k), np.int64)
        )
        return Measures(confusion.astype(np.int64), bins.numpy())

    @property
    def n(self) -> int:
        """Images."""
        return int(self.confusion.sum())

    @property
    def right(self) -> int:
        """Images whose class is found."""
        return int(self.confusion.trace())

    @property
    def accuracy(self) -> float:
        """Share of images whose class is found."""
        return self.right / self.n

    @property
    def recalls(self) -> list[float | None]:
        """Share found of each class, "per-class accuracy"; None for a class without an image."""
        counts = self.confusion.sum(1)
        return [float(self.confusion[c, c] / n) if n else None for c, n in enumerate(counts)]

    @property
    def balanced(self) -> float:
        """Mean of `recalls` over classes that have images, as scikit-learn's balanced_accuracy_score."""
        found = [r for r in self.recalls if r is not None]
        return sum(found) / len(found)

    @property
    def worst(self) -> tuple[int, float]:
        """The class with the smallest recall, the first of equals, and that recall."""
        return min(((c, r) for c, r in enumerate(self.recalls) if r is not None), key=lambda pair: pair[1])

    @property
    def ece(self) -> float:
        """Expected calibration error, from 0.

            sum_b (n_b / n) | right_b / n_b - mean probability_b |

        Source: Guo et al. (2017), with the 15 bins of equal width that are usual. It is biased upward on few images.
        """
        return float(np.abs(self.bins[:, 2] - self.bins[:, 1]).sum() / self.bins[:, 0].sum())

    def as_json(self, labels: Sequence[str]) -> dict[str, Any]:
        """All of it under names, for JSON and for the file of a model."""
        worst, recall = self.worst
        return {
            "images": self.n,
            "accuracy": self.accuracy,
            "balanced": self.balanced,
            "worst_class": {"class": labels[worst], "accuracy": recall},
            "per_class": dict(zip(labels, self.recalls, strict=True)),
            "ece": self.ece,
            "bins": self.bins.tolist(),
            "confusion": self.confusion.tolist(),
        }


def total(found: Iterable[Measures]) -> Measures:
    """All of them together, images counting alike. Errors: SettingError for none."""
    several = list(found)
    if not several:
        raise SettingError("measures", "none", "one or more", "evaluate something first")
    return Measures(sum(m.confusion for m in several), sum(m.bins for m in several))  # pyright: ignore[reportArgumentType]


def majority(training: Sequence[Part], classes: int) -> int:
    """The class with the most rows to train on, the first of equals."""
    return int(torch.bincount(torch.cat([p.domain.y[p.rows] for p in training]), minlength=classes).argmax())


def share_of(parts: Sequence[Part], label: int) -> float:
    """Accuracy on some parts of always answering `label`."""
    y = torch.cat([p.domain.y[p.rows] for p in parts])
    return float((y == label).double().mean())


def against_majority(found: Measures, label: int) -> tuple[float, float]:
    """(accuracy of always answering `label`, p-value of a model that is no better).

    Exact, by images of which one of the two is right and the other is not (McNemar): p = Pr[Bin(b + c, 1/2) >= b] for b
    images where the model alone is right and c where the label alone is; images count as independent.
    """
    from scipy.stats import binomtest

    alone = found.right - int(found.confusion[label, label])
    other = int(found.confusion[label].sum()) - int(found.confusion[label, label])
    level = float(found.confusion[label].sum() / found.n)
    if not alone + other:
        return level, 1.0
    return level, float(binomtest(alone, alone + other, alternative="greater").pvalue)


Details = Mapping[str, Mapping[str, Measures]]
"""Measures by name of what is watched, then by domain."""


def evaluated(
    featurizer: nn.Module,
    classifier: nn.Module,
    watch: Mapping[str, Sequence[Part]],
    step: int = 0,
    training: Mapping[str, float] | None = None,
    precision: str = "float32",
) -> tuple[Evaluation, Details]:
    """As `methods.domains.evaluate`, to the last bit, and the measures of each domain beside it.

    Errors: SettingError for parts without rows, and classes that the classifier does not have.
    """
    accuracy: dict[str, float] = {}
    loss: dict[str, float] = {}
    details: dict[str, dict[str, Measures]] = {}
    for name, parts in watch.items():
        _check_parts(name, parts, classifier)
        missed = 0.0
        details[name] = {}
        for part in (p for p in parts if len(p.rows)):
            several = []
            for _, logits, y in _in_batches(featurizer, classifier, [part], precision):
                missed += float(functional.cross_entropy(logits.double(), y, reduction="sum"))
                several.append(Measures.of(logits.float().softmax(1).cpu(), y.cpu()))
            details[name][part.domain.name] = total(several)
        whole = total(details[name].values())
        accuracy[name], loss[name] = whole.accuracy, missed / whole.n
    return Evaluation(step, accuracy, loss, dict(training or {})), details
