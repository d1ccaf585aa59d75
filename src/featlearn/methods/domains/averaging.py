"""SWAD: the mean of the weights of every step in the valley of the validation loss.

Training is cut into segments by its evaluations: segment k holds the steps up to evaluation k, whose validation loss is
v_k. `window` is the rule on a list of losses; `Swad` follows it while training goes on, with a few segments in memory.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from featlearn.core import SettingError

Weights = Mapping[str, Tensor]
Kind = Literal["valley", "paper", "released"]


@dataclass(frozen=True)
class SwadRule:
    """converge: evaluations without improvement that begin the valley; tolerance: evaluations above the threshold that
    end it; ratio: the threshold is (1 + ratio) times the mean loss of the first `converge` ones (0.2 for VLCS); kind:
    which segments are averaged then, by `window`, or as paper or released code do (`valleys`)."""

    converge: int = 3
    tolerance: int = 6
    ratio: float = 0.3
    kind: Kind = "valley"

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise SettingError("swad rule", repr(self.kind), f"one of {', '.join(get_args(Kind))}", "valley is usual")
        for name in ("converge", "tolerance"):
            if getattr(self, name) < 1:
                raise SettingError(f"swad {name}", getattr(self, name), "1 or more", "3 and 6 are those of the paper")
        if not 0 <= self.ratio < float("inf"):
            raise SettingError("swad ratio", self.ratio, "0 or more", "0.3 is that of the paper")


@dataclass(frozen=True)
class Window:
    """Segments first..last (from 0, both included) are averaged; converged: False where the loss never stopped falling,
    and the last segment stands alone."""

    first: int
    last: int
    threshold: float
    converged: bool


def window(losses: Sequence[float], rule: SwadRule) -> Window:
    """Which segments SWAD averages.

        first = min { k : v_k = min(v_k .. v_{k+c-1}) },  c = converge evaluations that are all there
        threshold l = (1 + ratio) mean(v_first .. v_{first+c-1})
        last = one before the first k with min(v_k .. v_{k+t-1}) > l, t = tolerance; at the end of training with the
        evaluations that are left

    Source: thesis sec. 6.3.3 names SWAD (nuclear.table6_3; settings in nuclear.method_ermnu); Cha et al. (2021),
    algorithm 1. The published code also takes segments before `first` in that are under the threshold; this does not.
    Errors: SettingError for no losses, and losses that are not finite.

    Example:
        >>> found = window([3.0, 2.0, 1.0, 1.1, 1.2, 9.0, 9.0], SwadRule(converge=3, tolerance=1))
        >>> found.first, found.last, round(found.threshold, 2), found.converged
        (2, 4, 1.43, True)
    """
    c, n = rule.converge, len(losses)
    if not n or not all(map(math.isfinite, losses)):
        found = f"{n} losses, {sum(not math.isfinite(v) for v in losses)} of them not finite"
        raise SettingError("losses", found, "at least one, all finite", "give the loss of every evaluation")
    starts = (k for k in range(n - c + 1) if losses[k] == min(losses[k : k + c]))
    first = next(starts, None)
    if first is None:
        return Window(n - 1, n - 1, float("inf"), False)
    threshold = (1 + rule.ratio) * sum(losses[first : first + c]) / c
    ends = (k for k in range(first, n) if min(losses[k : k + rule.tolerance]) > threshold)
    return Window(first, next(ends, n) - 1, threshold, True)


@dataclass
class Mean:
    """Running mean of weights. count: how many; weights: by name, floating point ones in float32 or better."""

    count: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, weights: Weights, count: int = 1) -> None:
        """Take `weights`, the mean of `count` others, in."""
        self.count += count
        for name, value in weights.items():
            value = value.detach()
            if not value.is_floating_point() or name not in self.weights:
                wide = torch.promote_types(value.dtype, torch.float32) if value.is_floating_point() else value.dtype
                self.weights[name] = value.to(wide, copy=True)  # whole numbers, such as batches seen: the latest
            else:
                mean = self.weights[name]
                mean.add_(value.to(mean) - mean, alpha=count / self.count)


@dataclass(frozen=True)
class _Segment:
    mean: Mean
    loss: float
    number: int


class Swad:
    """The rule of `window`, followed while training goes on; at most max(converge, tolerance) segments are kept, on the
    CPU.

    Example:
        >>> net, swad = nn.Linear(2, 1), Swad(SwadRule())
        >>> swad.step(net.state_dict())  # after every step
        >>> swad.evaluated(0.5)  # the loss, after every evaluation; swad.over says that the valley has ended
        >>> swad.finish()
        Window(first=0, last=0, threshold=inf, converged=False)
        >>> net.load_state_dict(swad.weights())
        <All keys matched successfully>
    """

    def __init__(self, rule: SwadRule) -> None:
        self.rule = rule
        self.over = False
        self._current = Mean()
        self._queue: list[_Segment] = []
        self._total = Mean()
        self._threshold: float | None = None
        self._evaluations = 0
        self._first = self._last = -1

    def step(self, weights: Weights) -> None:
        """Take the weights after a step in."""
        if not self.over:
            self._current.add(weights)

    def evaluated(self, loss: float) -> None:
        """End the segment with its validation loss."""
        if self.over:
            return
        mean = Mean(self._current.count, {k: v.to("cpu", copy=True) for k, v in self._current.weights.items()})
        self._queue.append(_Segment(mean, loss, self._evaluations))
        self._evaluations += 1
        self._current = Mean()
        c = self.rule.converge
        if self._threshold is None:
            self._queue = self._queue[-c:]
            losses = [s.loss for s in self._queue]
            if len(losses) == c and losses[0] == min(losses):
                self._threshold = (1 + self.rule.ratio) * sum(losses) / c
        if self._threshold is not None:
            while len(self._queue) >= self.rule.tolerance and not self.over:
                self._advance(self._queue[: self.rule.tolerance])

    def _advance(self, ahead: Sequence[_Segment]) -> None:
        assert self._threshold is not None
        if min(s.loss for s in ahead) > self._threshold:
            self.over, self._queue = True, []
        else:
            self._take(self._queue.pop(0))

    def _take(self, segment: _Segment) -> None:
        self._first = segment.number if self._first < 0 else self._first
        self._last = segment.number
        self._total.add(segment.mean.weights, segment.mean.count)

    def finish(self) -> Window:
        """End of training: what is left in the queue is taken in or dropped. Further steps are ignored."""
        if self._threshold is None:
            if self._queue:
                self._take(self._queue[-1])
        else:
            while self._queue and not self.over:
                self._advance(self._queue)
        self.over, self._queue = True, []
        threshold = float("inf") if self._threshold is None else self._threshold
        return Window(self._first, self._last, threshold, self._threshold is not None)

    def state(self) -> dict[str, Any]:
        """All that it takes to go on from here, as plain values and tensors on the CPU."""

        def plain(mean: Mean) -> tuple[int, dict[str, Tensor]]:
            return mean.count, {name: value.to("cpu", copy=True) for name, value in mean.weights.items()}

        return {
            "over": self.over,
            "current": plain(self._current),
            "queue": [(plain(s.mean), s.loss, s.number) for s in self._queue],
            "total": plain(self._total),
            "threshold": self._threshold,
            "evaluations": self._evaluations,
            "first": self._first,
            "last": self._last,
        }

    def go_on(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Be what gave this `state()`, with the weights of the present segment on a device."""
        self.over = state["over"]
        count, weights = state["current"]
        self._current = Mean(count, {name: value.to(device) for name, value in weights.items()})
        self._queue = [_Segment(Mean(*mean), loss, number) for mean, loss, number in state["queue"]]
        self._total = Mean(*state["total"])
        self._threshold, self._evaluations = state["threshold"], state["evaluations"]
        self._first, self._last = state["first"], state["last"]

    def weights(self) -> dict[str, Tensor]:
        """The mean, after `finish`. Errors: SettingError where no evaluation ended a segment."""
        if not self._total.count:
            raise SettingError("swad", "no segment", "at least one evaluation after a step", "call finish() first")
        return dict(self._total.weights)


def refresh_statistics(module: nn.Module, batches: Iterable[Tensor]) -> None:
    """Running statistics of batch norm anew, as plain means over `batches`: an average of weights has others than any
    of its parts. Batch norm that is in evaluation mode, or goes into it when its module trains (frozen), is left as it
    is, and so are the modes of all modules.

    Source: as the released code does for SWAD where batch norm is not frozen (nuclear.method_ermnu froze it).
    """
    given = {m: m.training for m in module.modules()}
    set_modes(training_modes(module))
    norms = [
        m for m in given if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.training and m.track_running_stats
    ]
    momenta = {m: m.momentum for m in norms}
    try:
        for m in norms:
            m.reset_running_stats()
            m.momentum = None  # a plain mean
        with torch.no_grad():
            for x in batches if norms else ():
                module(x)
    finally:
        for m, momentum in momenta.items():
            m.momentum = momentum
        set_modes(given)


def training_modes(*modules: nn.Module) -> dict[nn.Module, bool]:
    """The mode that each part has while its module trains: that of training where it is in it as given and stays in it
    when its module is told to train. A part that its owner put into evaluation mode stays there.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval())
        >>> list(training_modes(net).values())
        [True, True, False]
    """
    given = {m: m.training for module in modules for m in module.modules()}
    for module in modules:
        module.train()
    out = {m: mode and m.training for m, mode in given.items()}
    set_modes(given)
    return out


def set_modes(modes: Mapping[nn.Module, bool]) -> None:
    """Put each module into its mode, those that hold others first, by its own train(): layers that merge their weights
    for evaluation take them apart again. Modules are in the order of `modules()`."""
    for _ in range(2):  # a part that two modules share is told anew by the second of them
        for module, mode in modes.items():
            if module.training != mode:
                module.train(mode)
    for module, mode in modes.items():  # of a module whose train() does not go there
        module.training = mode
