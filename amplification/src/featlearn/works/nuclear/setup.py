"""What both halves of the claims on many features share: the grid of sizes, and the lambda that E.31 asks for."""

import math
from dataclasses import dataclass

from featlearn.lab.claim import Premise
from featlearn.tasks import Environments

GRID = ((40, 0.48), (49, 0.45), (64, 0.40), (100, 0.31), (100, 0.45), (144, 0.26), (225, 0.21))
"""(r, gamma) of the checks, with the least d that the statements allow, plus one."""


@dataclass(frozen=True)
class Point:
    """A task and a weight of the decay."""

    task: Environments
    lam: float

    @property
    def r(self) -> int:
        """Invariant features."""
        return self.task.r

    @property
    def m(self) -> int:
        """Environmental features."""
        return self.task.d - self.task.r

    @property
    def gamma(self) -> float:
        """The bias of the environmental features in distribution."""
        return self.task.gamma


def least(r: int, gamma: float) -> Environments:
    """The smallest d above r / gamma^2 + r, plus one."""
    return Environments(math.ceil(r / gamma**2 + r) + 1, r, gamma)


def right_side(task: Environments, alpha: float) -> float:
    """Right-hand side of E.31 at alpha."""
    r, m = task.r, task.d - task.r
    return (
        1 / (2 * (1 + math.exp(alpha * (r - 1) / 4)))
        + math.exp(-(r - 1) / 8) / 4
        + math.exp(-m * task.gamma**2 / 2) / 2
    )


def sufficient(task: Environments) -> float:
    """lambda from which E.31 forbids alpha >= 1 / sqrt(r): the constant that Omega hides."""
    return math.sqrt(task.r) * right_side(task, 1 / math.sqrt(task.r))


POINTS = tuple(Point(t, c * sufficient(t)) for t in (least(*at) for at in GRID) for c in (1.0, 3.0))
"""The grid at the sufficient lambda and at three times that."""


def premises(settings: tuple[Point, ...]) -> tuple[Premise, ...]:
    """The premises of Proposition 6.3 on the grid."""
    return (
        Premise("gamma in (3 / sqrt(r), 1/2)", all(p.task.in_theory for p in settings)),
        Premise("d > r / gamma^2 + r", all(p.task.d > p.r / p.gamma**2 + p.r for p in settings)),
        Premise("lambda at least that of E.31", all(p.lam >= sufficient(p.task) for p in settings)),
    )
