"""Training that goes on where it was stopped: `methods.domains.train` with measures and a checkpoint in a file."""

import contextlib
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

from featlearn.apply.domains.measures import Details, Measures, evaluated
from featlearn.core import Key
from featlearn.errors import StoreError
from featlearn.lab.files import write_whole
from featlearn.methods.domains import Evaluation, Objective, Part, Schedule, SwadRule, Trained, train
from featlearn.methods.domains.training import Batches, Processes, minibatches_of_step

FORMAT = 1
SECONDS = 60.0
"""Between two checkpoints: what a kill costs."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its place. identity: of the run and of its code, so that no other run goes on from here."""

    path: Path
    identity: str
    seconds: float = SECONDS

    def read(self) -> dict[str, Any] | None:
        """What was kept of this very run; None where nothing was, or what is there is damaged or of another run."""
        try:
            found = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception:  # no file, half a file, another kind of file: the run begins anew
            return None
        same = isinstance(found, dict) and found.get("format") == FORMAT and found.get("identity") == self.identity
        return found if same else None

    def write(self, data: Mapping[str, Any]) -> None:
        """Keep the place, whole or not at all. Errors: StoreError in one line."""
        buffer = io.BytesIO()
        torch.save({"format": FORMAT, "identity": self.identity, **data}, buffer)
        try:
            write_whole(self.path, buffer.getvalue())
        except OSError as why:
            remedy = "free some space, or choose another --store"
            raise StoreError(f"{self.path} cannot be written ({why.strerror or why}): {remedy}") from why

    def due(self, step: int, over: bool, waited: bool, trouble: bool) -> bool:
        """Whether to keep the place now. waited: for `seconds`; trouble: it could not be kept before."""
        return (over or waited) and not trouble

    def remove(self) -> None:
        """The run is over."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


@runtime_checkable
class Keeps(Protocol):
    """A Checkpoint, or that of one of several processes (`together`)."""

    @property
    def seconds(self) -> float: ...
    def read(self) -> dict[str, Any] | None: ...
    def due(self, step: int, over: bool, waited: bool, trouble: bool) -> bool: ...
    def write(self, data: Mapping[str, Any]) -> None: ...
    def remove(self) -> None: ...


@dataclass(frozen=True)
class Result:
    """As training left it. details: measures of each evaluation; averaged: those of SWAD's average; resumed: the step
    that the run went on from, 0 for its beginning; trouble: why no checkpoint could be kept, "" otherwise."""

    trained: Trained
    details: Sequence[Details]
    averaged: Details | None
    resumed: int = 0
    trouble: str = ""

    def chosen(self, averaged: bool) -> tuple[Evaluation, Details]:
        """Of the weights that are selected, or of SWAD's."""
        if averaged:
            assert self.trained.averaged_evaluation is not None, "train with average=SwadRule()"
            assert self.averaged is not None
            return self.trained.averaged_evaluation, self.averaged
        assert self.trained.best is not None, "train with a validation part"
        return self.trained.best, self.details[self.trained.evaluations.index(self.trained.best)]


def train_resumable(
    featurizer: nn.Module,
    classifier: nn.Module,
    objective: Objective,
    parts: Sequence[Part],
    schedule: Schedule,
    *,
    key: Key,
    watch: Mapping[str, Sequence[Part]],
    average: SwadRule | None = None,
    extra: Sequence[tuple[nn.Module, float]] = (),
    processes: Processes | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Keeps | None = None,
    batches: Batches = minibatches_of_step,
) -> Result:
    """As `methods.domains.train`, number by number, with measures at each evaluation, and a place to go on from.

    checkpoint: written every so many seconds and after the last step; a run that finds its own goes on from it, and who
    keeps the result removes it. Where it cannot be written the run goes on without. batches: what makes the minibatches
    of a step, a function of step and key alone.

    Errors: Diverged.
    """
    details: list[Details] = []
    place = None if checkpoint is None else _Place(checkpoint, details)

    def measure(*given: Any) -> Evaluation:
        found, detail = evaluated(*given)
        details.append(detail)
        return found

    trained = train(
        featurizer,
        classifier,
        objective,
        parts,
        schedule,
        key=key,
        watch=watch,
        average=average,
        extra=extra,
        processes=processes,
        progress=progress,
        place=place,
        batches=batches,
        measure=measure,
    )
    averaged = details.pop() if trained.averaged_evaluation is not None else None  # the last that was measured
    return Result(trained, tuple(details), averaged, place.begun if place else 0, place.trouble if place else "")


class _Place:
    """A training in a checkpoint, with the details of its evaluations. begun: the step it went on from; trouble: why it
    could not be written."""

    def __init__(self, checkpoint: Keeps, details: list[Details]) -> None:
        self.checkpoint, self.details = checkpoint, details
        self.begun, self.trouble, self.saved = 0, "", time.perf_counter()

    def begin(self) -> Mapping[str, Any] | None:
        before = self.checkpoint.read()
        if before is not None:
            self.begun = before["step"]
            self.details[:] = [_details_of(d) for d in before["details"]]
        self.saved = time.perf_counter()
        return before

    def after(self, step: int, over: bool, state: Callable[[], dict[str, Any]]) -> None:
        waited = time.perf_counter() - self.saved >= self.checkpoint.seconds
        if not self.checkpoint.due(step, over, waited, bool(self.trouble)):
            return
        try:
            self.checkpoint.write({**state(), "details": [_plain(d) for d in self.details]})
        except StoreError as why:
            self.trouble = str(why)
        self.saved = time.perf_counter()


# --- what a checkpoint holds --------------------------------------------------------------------------------------


def _plain(details: Details) -> dict[str, Any]:
    return {
        name: {domain: (torch.from_numpy(m.confusion), torch.from_numpy(m.bins)) for domain, m in by.items()}
        for name, by in details.items()
    }


def _details_of(plain: Mapping[str, Any]) -> Details:
    return {
        name: {domain: Measures(np.asarray(c), np.asarray(b)) for domain, (c, b) in by.items()}
        for name, by in plain.items()
    }
