"""The place of a training of several processes: a file each, and the same step for all that go on from there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from featlearn.apply.domains.resumable import Checkpoint

EVERY = 20
"""Steps between two times that the processes agree on whether to keep their places: each one waits for a GPU."""


@runtime_checkable
class Gathering(Protocol):
    """Processes that can tell each other whole numbers."""

    def gathered(self, values: Sequence[int], /) -> list[list[int]]:
        """The values of each process, in their order."""
        ...


@dataclass(frozen=True)
class SharedCheckpoint:
    """As Checkpoint, for one of several processes. own: the file of this process, beside which there is another one, so
    that a kill between two writes leaves one step that all processes have.

    All of them keep their places after the same steps, once one of them has waited long enough; where one cannot write
    any more, none does. Those that start again go on from the last step that all have.
    """

    own: Checkpoint
    processes: Gathering
    turns: list[int] = field(default_factory=lambda: [0])

    @property
    def seconds(self) -> float:
        """Between two checkpoints."""
        return self.own.seconds

    def _file(self, turn: int) -> Checkpoint:
        return replace(self.own, path=self.own.path.with_suffix(f".{turn}.pt"))

    def read(self) -> dict[str, Any] | None:
        """What was kept at the last step that all processes have; None where there is none."""
        found = [self._file(turn).read() for turn in range(2)]
        steps = [f["step"] if f else 0 for f in found]
        common = set.intersection(*map(set, self.processes.gathered(steps))) - {0}
        if not common:
            return None
        turn = steps.index(max(common))
        self.turns[0] = 1 - turn
        return found[turn]

    def due(self, step: int, over: bool, waited: bool, trouble: bool) -> bool:
        """Whether to keep the place now: the same for all processes."""
        if step % EVERY and not over:
            return False
        told = self.processes.gathered([int(waited), int(trouble)])
        return (over or any(w for w, _ in told)) and not any(t for _, t in told)

    def write(self, data: Mapping[str, Any]) -> None:
        """Keep the place in the older of the two files. Errors: StoreError in one line."""
        self._file(self.turns[0]).write(data)
        self.turns[0] = 1 - self.turns[0]

    def remove(self) -> None:
        """The run is over."""
        for turn in range(2):
            self._file(turn).remove()
