"""Groups of networks in training: what `fit` and `fit_one_pass` share.

On a CPU networks are independent, so they train in small groups, each on one thread for all its steps.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Shaped
from torch import Tensor

from featlearn.core import Diverged
from featlearn.learn.schedules import Rate
from featlearn.nets import TwoLayer, stack

CACHE_FLOATS = 2**18  # 1 MiB: activations of a group and a block of rows should stay near the core
Probe = Callable[[TwoLayer, slice], Tensor]
Part = TypeVar("Part")
Trained = tuple[TwoLayer, dict[str, list[Tensor]]]
"""The networks of a group, and for every probe its values at each evaluation."""


@dataclass(frozen=True)
class Run:
    """Result of training. net: the trained networks. trace: for every probe its values (t, e, ...) at `steps` (t)."""

    net: TwoLayer
    steps: tuple[int, ...]
    trace: Mapping[str, Shaped[Tensor, "t e ..."]]


def with_ones(x: Tensor) -> Tensor:
    """x with a last column of ones, so that a bias is one more weight."""
    return torch.cat([x, x.new_ones(*x.shape[:-1], 1)], -1)


def column(rate: Rate, members: slice, like: Tensor, ndim: int) -> Tensor | float:
    """A rate, per network or common, ready to multiply a gradient with `ndim` axes."""
    if not isinstance(rate, Tensor):
        return rate
    own = rate if len(rate) == 1 else rate[members]
    return own.to(like).reshape(-1, *[1] * (ndim - 1))


def is_zero(rate: Rate) -> bool:
    """Whether nothing is learned at this rate."""
    return bool((rate == 0).all()) if isinstance(rate, Tensor) else rate == 0


def least_rows(d1: int) -> int:
    """Each block of a wide product reads the first layer and adds to its gradient: about as much as 2 d rows cost."""
    return 2 * d1


def all_finite(v: Tensor, a: Tensor) -> bool:
    """Whether both layers are in the finite numbers."""
    # a sum is finite only if all its terms are; one that overflowed needs the full check
    return bool(torch.isfinite(v.sum() + a.sum())) or bool(torch.isfinite(v).all() and torch.isfinite(a).all())


def diverged(step: int, stage: int) -> Diverged:
    """The error of weights that have left the finite numbers."""
    return Diverged(f"weights are not finite after step {step}; lower the step sizes of stage {stage + 1}")


def each_group(
    work: Callable[[Part], Trained], groups: Sequence[Part], device: torch.device, threads: int | None
) -> list[Trained]:
    """work(group) for every group, in order: on a CPU `threads` at a time, by default as many as torch uses."""

    def alone(group: Part) -> Trained:
        if device.type == "cpu":
            torch.set_num_threads(1)  # per thread: each pool thread owns its group, products inside stay serial
        with torch.no_grad():
            return work(group)

    if device.type != "cpu":
        return [alone(group) for group in groups]
    before = torch.get_num_threads()
    workers = min(len(groups), threads or before)
    try:
        if workers == 1:  # short stages would spend their time on starting a thread
            return [alone(group) for group in groups]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(alone, groups))
    finally:
        torch.set_num_threads(before)  # the workers' 1 would be what every thread made from now on starts with


def joined(parts: Sequence[Trained], probes: Mapping[str, Probe], at: frozenset[int], total: int) -> Run:
    """The groups as one ensemble; `at` the steps of the evaluations, of `total`."""
    steps = tuple(sorted(s for s in at if 0 <= s <= total))
    trace = {name: torch.cat([torch.stack(p[1][name]) for p in parts], 1) for name in probes} if steps else {}
    return Run(stack([p[0] for p in parts]), steps, trace)
