"""Minibatches of image files, made beforehand in processes by torch's DataLoader."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader, Dataset

from featlearn.core import Key
from featlearn.data.domains import FileDomain
from featlearn.errors import FeatlearnError
from featlearn.methods.domains import Minibatch, Part
from featlearn.methods.domains.training import Batches

WORKERS = 16
"""Processes that read, at most."""
AHEAD = 2
"""Steps that each of them has ready or is at."""
SHARED = Path("/dev/shm")
"""Memory in which Linux hands tensors from process to process; containers often have 64 MB of it."""


class Prepared:
    """The minibatches of `make`, those of the next steps made beforehand by `workers` processes.

    A function of step and key alone, as `make` is: with another step than the next one the processes start anew from
    there. steps: of training, after which nothing is made. Errors: those of `make`.
    """

    def __init__(self, make: Batches, steps: int, workers: int) -> None:
        self.make, self.steps, self.workers = make, steps, workers
        self._ready: Iterator[Any] | None = None
        self._next = -1

    def __call__(
        self, parts: Sequence[Part], batch: int, step: int, key: Key, index: int = 0, count: int = 1
    ) -> list[Minibatch]:
        """The minibatches of a step."""
        if self._ready is None or step != self._next:
            steps = _Steps(self.make, [_by_itself(p) for p in parts], batch, key, index, count)
            order: Any = range(step, max(self.steps, step + 1))
            loader = DataLoader(
                steps, batch_size=None, sampler=order, num_workers=self.workers, prefetch_factor=AHEAD - 1
            )
            self._ready = iter(loader)
        found = next(self._ready)
        self._next = step + 1
        if self._next >= self.steps or isinstance(found, FeatlearnError):
            self._ready = None
        if isinstance(found, FeatlearnError):
            raise found
        return found


def prepared(make: Batches, parts: Sequence[Part], batch: int, steps: int, workers: int) -> Prepared | None:
    """`make` with so many processes that read ahead, fewer where there is little shared memory; None where one reads as
    well: for domains in memory, and for fewer than two processes."""
    files = [p.domain for p in parts if isinstance(p.domain, FileDomain)]
    if not files:
        return None
    values = sum(batch * 3 * d.preprocessing.size**2 for d in files)
    free = shutil.disk_usage(SHARED).free if SHARED.is_dir() else None
    room = WORKERS if free is None else free // (4 * values * (AHEAD + 1))
    workers = min(workers, WORKERS, room)
    return Prepared(make, steps, workers) if workers > 1 else None


def _by_itself(part: Part) -> Part:
    """A process reads its files one after the other."""
    domain = part.domain
    return Part(replace(domain, threads=1), part.rows) if isinstance(domain, FileDomain) else part


class _Steps(Dataset[Any]):
    """The minibatches of each step; an error of ours is handed over as it is, to be raised where the step is asked."""

    def __init__(self, make: Batches, parts: Sequence[Part], *given: Any) -> None:
        self.make, self.parts, self.given = make, parts, given

    def __getitem__(self, step: int) -> Any:
        batch, key, index, count = self.given
        try:
            return self.make(self.parts, batch, step, key, index, count)
        except FeatlearnError as why:
            return why
