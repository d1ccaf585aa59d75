"""Classes of very different sizes: weights of classes in the loss, or batches that hold all classes alike."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from featlearn.core import Key, SettingError
from featlearn.methods.domains import Minibatch, Objective, Outcome, Part, State
from featlearn.methods.domains.training import _order

Balance = Literal["none", "weights", "batches"]


def check(balance: Balance, algorithm_base: str) -> None:
    """Errors: SettingError for weights of classes in IRM, whose slopes are not those of a cross entropy."""
    if balance == "weights" and algorithm_base == "irm":
        raise SettingError("balance", balance, "none or batches for irm", "batches serves every algorithm")


def class_weights(parts: Sequence[Part], classes: int) -> Float[Tensor, " k"]:
    """Weight of each class, n / (k n_c) over the k classes that have rows, 0 for the others.

    Source: "balanced" of scikit-learn's compute_class_weight.

    Example:
        >>> from featlearn.data.domains import TensorDomain
        >>> domain = TensorDomain("a", torch.zeros(4, 1, 1, 1), torch.tensor([0, 0, 0, 2]))
        >>> class_weights([Part(domain, torch.arange(4))], 3)
        tensor([0.6667, 0.0000, 2.0000])
    """
    from sklearn.utils.class_weight import compute_class_weight

    y = torch.cat([p.domain.y[p.rows] for p in parts]).numpy()
    there = torch.from_numpy(y).unique()
    out = torch.zeros(classes)
    out[there] = torch.from_numpy(compute_class_weight("balanced", classes=there.numpy(), y=y)).float()
    return out


class _Weighted(TorchFunctionMode):
    """Every cross entropy inside has the weights."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is functional.cross_entropy:
            kwargs["weight"] = self.weights.to(args[0].device, args[0].dtype)
        return func(*args, **kwargs)


def weighted(objective: Objective, weights: Float[Tensor, " k"]) -> Objective:
    """The same objective with weights of classes in each of its cross entropies.

        R_e = sum_i w_{y_i} CE(z_i, y_i) / sum_i w_{y_i}

    as torch.nn.CrossEntropyLoss(weight) has it; penalties are as they were.
    """

    def call(featurizer: nn.Module, classifier: nn.Module, minibatches: Sequence[Minibatch], state: State) -> Outcome:
        with _Weighted(weights):
            return objective(featurizer, classifier, minibatches, state)

    return call


def balanced_rows(
    y: Int[Tensor, " n"], batch: int, step: int, key: Key, index: int = 0, count: int = 1
) -> Int[Tensor, " b"]:
    """Places (b) in y that process `index` of `count` takes in a step: classes in turns, in a random order each turn,
    and the rows of a class as one endless sequence of permutations, so that rare ones come again sooner."""
    classes = y.unique()
    k = len(classes)
    members = [(y == c).nonzero()[:, 0] for c in classes]
    out = []
    for place in (torch.arange(batch) + (step * count + index) * batch).tolist():
        turn = place // k
        c = int(_order(key / "turn" / turn, k)[place % k])
        n = len(members[c])
        out.append(members[c][_order(key / "order" / c / (turn // n), n)[turn % n]])
    return torch.stack(out)


def balanced_minibatches(
    parts: Sequence[Part], batch: int, step: int, key: Key, index: int = 0, count: int = 1
) -> list[Minibatch]:
    """As `minibatches_of_step`, with all classes of a domain alike in each of its minibatches."""
    found = []
    for part in parts:
        own = key / part.domain.name
        chosen = part.rows[balanced_rows(part.domain.y[part.rows], batch, step, own / "balanced", index, count)]
        found.append(Minibatch(part.domain.inputs(chosen, own / "augment" / step / index), part.domain.y[chosen]))
    return found
