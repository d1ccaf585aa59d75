"""SWAD by the rule of its paper, and by that of the released code, beside the rule of `averaging.window`.

All three begin alike and have the same threshold; they differ in which segments they average (`SwadRule.kind`):

- valley: from the first segment k to the last one before the loss stays above the threshold, also where training ends
- paper: the same while training goes on; all that is left where training ends, all of it where no valley is found
- released: each segment counts as one, however many its steps; those before k that lie under the threshold come in, k
  twice as a rule, and a few more than once, as the queue of the code has it
"""

from collections.abc import Mapping
from typing import Any

import torch

from featlearn.methods.domains.averaging import Mean, Swad, SwadRule, Weights, Window, _Segment


class PaperSwad(Swad):
    """The rule of the paper: a valley that has not ended reaches to the end of training.

    Source: Cha et al. (2021), algorithm 1, with evaluations in place of steps; thesis sec. 6.3.3 names it
    (nuclear.table6_3).
    """

    def __init__(self, rule: SwadRule) -> None:
        super().__init__(rule)
        self._all = Mean()

    def step(self, weights: Weights) -> None:
        """Take the weights after a step in."""
        if not self.over and self._threshold is None:
            self._all.add(weights)
        super().step(weights)

    def finish(self) -> Window:
        """End of training. Without a valley all steps are averaged, those after the last evaluation too."""
        if self._threshold is None:
            self._first, self._last, self._total = 0, self._evaluations - 1, self._all
            self.over, self._queue = True, []
            return Window(self._first, self._last, float("inf"), False)
        while self._queue and not self.over:
            self._take(self._queue.pop(0))
        return super().finish()

    def state(self) -> dict[str, Any]:
        """As of Swad."""
        kept = {name: value.to("cpu", copy=True) for name, value in self._all.weights.items()}
        return {**super().state(), "all": (self._all.count, kept)}

    def go_on(self, state: Mapping[str, Any], device: torch.device) -> None:
        """As of Swad."""
        super().go_on(state, device)
        count, weights = state["all"]
        self._all = Mean(count, {name: value.to(device) for name, value in weights.items()})


class ReleasedSwad(Swad):
    """The rule of the released code of SWAD and of DG-NU. taken: numbers of the averaged segments, in the order in
    which they came in, each as often as it counts.

    With c = converge, t = tolerance, v_j the loss of segment j, and k the first with v_k least of v_k .. v_{k+c-1}, the
    threshold is set at evaluation k + c - 1. If t > c, the first t - c + 1 of the last t segments are looked at: what
    comes after the one that follows the last of them above the threshold (after the first, if none is above) is taken.
    If t < c, segments k + 1 .. k + c - t are. Then at each evaluation, once the oldest of the last t segments is not
    before k: if all t are above the threshold, training ends; else the oldest is taken, for the first time or again. At
    the end of training the oldest is dropped, and of the others the oldest is taken while one of those that are left is
    under the threshold. Where nothing was taken, segment k stands alone.

    Source: the released code (nuclear.method_ermnu, swad). The paper has no segment before k, and none twice.
    """

    def __init__(self, rule: SwadRule) -> None:
        super().__init__(rule)
        self.taken: list[int] = []
        self._begin: _Segment | None = None

    def evaluated(self, loss: float) -> None:
        """End the segment with its validation loss."""
        if self.over:
            return
        c, t = self.rule.converge, self.rule.tolerance
        mean = Mean(self._current.count, {k: v.to("cpu", copy=True) for k, v in self._current.weights.items()})
        self._queue = [*self._queue, _Segment(mean, loss, self._evaluations)][-max(c, t) :]
        self._evaluations += 1
        self._current = Mean()
        if self._begin is None:
            first = self._queue[-c:]
            if len(first) == c and first[0].loss == min(s.loss for s in first):
                self._begin = first[0]
                self._threshold = (1 + self.rule.ratio) * sum(s.loss for s in first) / c
                self._take_around(first)
            return
        last = self._queue[-t:]
        if last[0].number < self._begin.number:
            return
        assert self._threshold is not None
        if min(s.loss for s in last) > self._threshold:
            self.over, self._queue = True, []
        else:
            self._take(last[0])

    def _take_around(self, first: list[_Segment]) -> None:
        c, t = self.rule.converge, self.rule.tolerance
        assert self._threshold is not None
        for segment in first[1 : 1 + max(c - t, 0)]:
            self._take(segment)
        if t > c:
            looked_at = self._queue[-t:][: t - c + 1]
            above = [i for i, s in enumerate(looked_at) if s.loss > self._threshold]
            for segment in looked_at[(above[-1] + 2 if above else 1) :]:
                self._take(segment)

    def _take(self, segment: _Segment) -> None:
        self.taken.append(segment.number)
        self._total.add(segment.mean.weights, 1)

    def finish(self) -> Window:
        """End of training. Further steps are ignored."""
        if self._begin is None:
            for segment in self._queue[-1:]:
                self._take(segment)
        else:
            assert self._threshold is not None
            left = [] if self.over else self._queue[-self.rule.tolerance :][1:]
            while left and min(s.loss for s in left) <= self._threshold:
                self._take(left.pop(0))
            if not self.taken:
                self._take(self._begin)
        self.over, self._queue = True, []
        threshold = float("inf") if self._threshold is None else self._threshold
        return Window(min(self.taken, default=-1), max(self.taken, default=-1), threshold, self._begin is not None)

    def state(self) -> dict[str, Any]:
        """As of Swad."""
        b = self._begin
        begin = None if b is None else ((b.mean.count, dict(b.mean.weights)), b.loss, b.number)
        return {**super().state(), "taken": list(self.taken), "begin": begin}

    def go_on(self, state: Mapping[str, Any], device: torch.device) -> None:
        """As of Swad."""
        super().go_on(state, device)
        self.taken = list(state["taken"])
        if state["begin"] is not None:
            mean, loss, number = state["begin"]
            self._begin = _Segment(Mean(*mean), loss, number)


def swad_of(rule: SwadRule) -> Swad:
    """What follows a rule while training goes on."""
    return {"valley": Swad, "paper": PaperSwad, "released": ReleasedSwad}[rule.kind](rule)
