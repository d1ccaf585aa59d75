"""Shares of labels, drawn class by class."""

import torch
from jaxtyping import Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import checked

SHARES = (0.01, 0.05, 0.1, 0.2, 1.0)
"""Of the labels, in the tables of the thesis."""


@checked()
def label_share(y: Int[Tensor, " n"], share: float, key: Key) -> Int[Tensor, " m"]:
    """Rows whose labels are kept: of each class the share, rounded to the nearest number, in ascending order.

        m_c = round(share n_c) for each class c

    The rows of a smaller share are among those of a larger one under the same key, since both begin one random order
    of the class. A class may come down to a single label, which can be learned from; one that would have none is an
    error.

    Shapes: y (n) class indices -> rows (m). Source: thesis F.3.2 (1, 5, 10, 20 and 100 % of the labels); stratified in
    the released code, there with one fixed order for every repeat (datasets/dataset_main.py).
    Errors: SettingError for a share outside (0, 1], negative labels, and a share that leaves a class empty, which is
    named with the smallest share that does not.

    Example:
        >>> y = torch.arange(40) % 4
        >>> rows = label_share(y, 0.2, Key("demo"))
        >>> y[rows].bincount().tolist()
        [2, 2, 2, 2]
        >>> label_share(y, 0.01, Key("demo"))
        Traceback (most recent call last):
        featlearn.errors.SettingError: share = 0.01 is not allowed: enough for one of the 10 labels of class 0; ...
    """
    if not 0 < share <= 1:
        raise SettingError("share", share, "in (0, 1]", "1 keeps all labels")
    kept = []
    for c, rows in _by_class(y):
        m = int(share * len(rows) + 0.5)
        if not m:
            allowed = f"enough for one of the {len(rows)} labels of class {c}"
            raise SettingError("share", share, allowed, f"raise it to {0.5 / len(rows):.3g} or more")
        kept.append(rows[_order(key, c, len(rows))[:m]])
    return torch.cat(kept).sort().values


@checked()
def label_split(y: Int[Tensor, " n"], share: float, key: Key) -> tuple[Int[Tensor, " a"], Int[Tensor, " b"]]:
    """(rows to train on, rows to validate on), class by class: `share` of each is kept back, and at least one row of
    each class is on both sides.

    Shapes: y (n) class indices -> rows (a) and (b), ascending.
    Errors: SettingError for a share outside (0, 1), negative labels, and a class with a single label, which is named.

    Example:
        >>> train, held = label_split(torch.tensor([0, 0, 0, 0, 1, 1]), 0.25, Key("demo"))
        >>> len(train), len(held)
        (4, 2)
    """
    if not 0 < share < 1:
        raise SettingError("share", share, "in (0, 1)", "0.2 is usual")
    train, held = [], []
    for c, rows in _by_class(y):
        if len(rows) < 2:
            remedy = "label more of it, or leave it out"
            raise SettingError("y", f"with a single label of class {c}", "two labels a class, to be split", remedy)
        m = min(max(int(share * len(rows) + 0.5), 1), len(rows) - 1)
        order = _order(key, c, len(rows))
        held.append(rows[order[:m]])
        train.append(rows[order[m:]])
    return torch.cat(train).sort().values, torch.cat(held).sort().values


def check_labels(y: Tensor, n: int, name: str = "y", classes: int | None = None) -> int:
    """How many classes labels (n) have, or `classes`. SettingError for another length, and labels outside of them."""
    if len(y) != n:
        raise SettingError(name, f"{len(y)} labels", f"one for each of {n} inputs", "label every row")
    low, high = int(y.min()), int(y.max())
    if low < 0 or (classes is not None and high >= classes):
        allowed = f"classes 0 to {classes - 1}" if classes is not None else "class indices from 0"
        raise SettingError(name, f"classes {low} to {high}", allowed, "number the classes from 0")
    return classes if classes is not None else high + 1


def _by_class(y: Tensor) -> list[tuple[int, Tensor]]:
    check_labels(y, len(y))
    return [(int(c), (y == c).nonzero().flatten()) for c in y.unique()]


def _order(key: Key, c: int, n: int) -> Tensor:
    return torch.from_numpy((key / "labels" / c).numpy().permutation(n))
