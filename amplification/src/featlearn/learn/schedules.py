"""Stages of training: how many steps, at which rates, on how much data; and the schedules that the paper gives."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import check_finite, check_number

Rate = float | Float[Tensor, " e"]
RATES = ("rate_w", "rate_b", "rate_a")


@dataclass(frozen=True)
class Stage:
    """A run of equal gradient steps: theta <- keep * theta - rate * gradient.

    steps: how many. rate_w, rate_b, rate_a: step size of first layer, biases and second layer, one number or one per
    network (e); 0 leaves a layer as it is. keep_w, keep_a: the factor 1 - 2 eta lambda that an l2 penalty
    lambda ||theta||^2 leaves of a weight at each step; 0 forgets the weight, as lambda = 1/(2 eta) does.
    noise: standard deviation of the smoothing pre-activation noise. batch: samples a step, None for all of them.
    momentum: heavy-ball factor (0 is plain gradient descent).
    """

    steps: int
    rate_w: Rate = 0.0
    rate_b: Rate = 0.0
    rate_a: Rate = 0.0
    keep_w: float = 1.0
    keep_a: float = 1.0
    noise: float = 0.0
    batch: int | None = None
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise SettingError("steps", self.steps, "at least 0", "0 skips the stage")
        if self.batch is not None and self.batch < 1:
            raise SettingError("batch", self.batch, "at least 1, or None for full batches", "try 1000")
        check_number(self.noise, "noise", "at least 0", "0 is the exact activation")
        for name in (*RATES, "keep_w", "keep_a"):
            value = getattr(self, name)
            if isinstance(value, Tensor):
                check_finite(value, name)
            elif not math.isfinite(value):
                raise SettingError(
                    name, value, "a finite number", "0 leaves a layer as it is, and keep = 1 its weights"
                )
        if not 0 <= self.momentum < 1:
            raise SettingError("momentum", self.momentum, "in [0, 1)", "0 is plain gradient descent")


def check_rates(stage: Stage, e: int) -> None:
    """Refuse rates of another number of networks than e."""
    for name in RATES:
        rate = getattr(stage, name)
        if isinstance(rate, Tensor) and rate.shape not in ((1,), (e,)):
            raise SettingError(name, tuple(rate.shape), f"a number or one for each of e = {e}", "stack e rates")


def check_batch(n: int, batch: int | None) -> None:
    """Refuse a batch above n."""
    if batch is not None and batch > n:
        raise SettingError("batch", batch, f"at most n = {n}", "lower batch or raise n")


def batches(n: int, batch: int | None, steps: int, key: Key) -> Iterator[Int[Tensor, " b"] | None]:
    """Index sets of `steps` minibatches: epochs of a new permutation each, None where the batch is the whole set.

    The last n mod batch samples of an epoch are left out of it. Errors: `SettingError` at once for a batch above n.
    """
    check_batch(n, batch)
    return _epochs(n, n if batch is None else batch, steps, key)


def _epochs(n: int, batch: int, steps: int, key: Key) -> Iterator[Int[Tensor, " b"] | None]:
    if batch == n:
        for _ in range(steps):
            yield None
        return
    generator = key.torch()
    order = torch.empty(0, dtype=torch.long)
    at = 0
    for _ in range(steps):
        if at + batch > len(order):  # the last short batch of an epoch is dropped, so that every batch is full
            order, at = torch.randperm(n, generator=generator), 0
        yield order[at : at + batch]
        at += batch
