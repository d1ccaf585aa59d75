"""What statements and observations of this work share: mixtures of tasks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mixture:
    """weights of the tasks; deviations of shared and of own features, task by task; r, s."""

    weights: tuple[float, ...]
    shared: tuple[float, ...]
    own: tuple[float, ...]
    r: int = 4
    s: int = 2

    @property
    def k(self) -> int:
        """Invariant features."""
        return self.s + len(self.weights) * (self.r - self.s)
