"""Points given by flat indices: what decodes them, and what is refused before training on them."""

from collections.abc import Callable

import torch
from torch import Tensor

from featlearn.core import SettingError

Decode = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Flat indices (...) -> inputs (..., k) and labels (...), on the device of the indices."""
BLOCK = 2**18  # points decoded at once


def check_points(name: str, index: Tensor, decode: Decode, k: int, p: int) -> None:
    """Refuse points of other sums: k inputs each, inputs and labels in 0..p-1. Once, since a step must not wait.

    Shapes: index (n) or (e, n).
    """
    for part in index.split(BLOCK, -1):
        x, y = decode(part)
        if x.shape != (*part.shape, k) or y.shape != part.shape:
            shapes = f"inputs {tuple(x.shape)} and labels {tuple(y.shape)} of {tuple(part.shape)} points"
            raise SettingError("decode", shapes, f"inputs (..., {k}) and labels (...)", f"the network adds {k} inputs")
        if x.is_floating_point() or y.is_floating_point():
            raise SettingError("decode", f"{x.dtype} and {y.dtype}", "whole numbers", "inputs are numbers modulo p")
        low, high = (int(f(torch.stack([f(x), f(y)]))) for f in (torch.amin, torch.amax))
        if low < 0 or high >= p:
            found = f"points with inputs or labels from {low} to {high}"
            raise SettingError(name, found, f"0 to {p - 1}", f"flat indices lie in 0..{p}^{k} - 1 = {p**k - 1}")


def check_apart(train: Tensor, test: Tensor) -> None:
    """Refuse points that are on both sides: the test accuracy would be that of training. Shapes: (e, n), (e, m)."""
    both = sum(int(torch.isin(one, other).sum()) for one, other in zip(test, train, strict=True))
    if both:
        raise SettingError(
            "test", f"{both} points that are in train", "points that training does not see", "split anew"
        )
