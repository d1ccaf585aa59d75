"""Tasks that share some features and own others, and pairs of their mixture. Source: tradeoff.linear_setting."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked


@dataclass(frozen=True)
class MixtureTruth(Truth):
    """features (r, d): what the target task's labels depend on. dictionary (d, d): orthonormal, x = dictionary z;
    label (r): y = <label, z> over the target's features, the shared ones first."""

    dictionary: Float[Tensor, "d d"]
    label: Float[Tensor, " r"]


@dataclass(frozen=True)
class TaskMixture:
    """T tasks of r features each: s that all share and r - s of its own; x = M z with M orthonormal.

    z: the s shared features, then r - s of each task, then `spurious` ones. In task t its own r features and the
    spurious ones are standard normal, those of other tasks 0. The target is task 0, with real labels y = <u, z_R>:
    half of ||u||^2 = 1 on shared features, half on its own. weights: of the tasks in the mixture, () for even ones.

    Errors: `SettingError` unless 1 <= s < r, one task or more, one spurious feature or more, and weights that fit.

    Example:
        >>> task = TaskMixture(tasks=2, r=4, s=2, spurious=1)
        >>> x, positive = task.pairs(task.draw(Key("demo")), 5, Key("demo/pairs"))
        >>> task.d, x.shape
        (7, torch.Size([5, 7]))
    """

    tasks: int = 4
    r: int = 6
    s: int = 3
    spurious: int = 4
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.tasks < 1:
            raise SettingError("tasks", self.tasks, "at least 1", "one task is its own mixture")
        if not 1 <= self.s < self.r:
            raise SettingError("s", self.s, f"in 1..r - 1 = {self.r - 1}", "tasks share some features and own others")
        if self.spurious < 1:
            raise SettingError("spurious", self.spurious, "at least 1", "pairs of the same features teach nothing")
        fits = len(self.weights) == self.tasks and min(self.weights) > 0 and abs(sum(self.weights) - 1) < 1e-9
        if self.weights and not fits:
            raise SettingError("weights", self.weights, f"{self.tasks} positive numbers of sum 1", "() is even")

    @property
    def k(self) -> int:
        """Invariant features of all tasks."""
        return self.s + self.tasks * (self.r - self.s)

    @property
    def d(self) -> int:
        """All features."""
        return self.k + self.spurious

    def of_task(self, t: int) -> Tensor:
        """Which features are invariant and alive in task t: (r)."""
        own = self.s + t * (self.r - self.s) + torch.arange(self.r - self.s)
        return torch.cat([torch.arange(self.s), own])

    def draw(self, key: Key) -> MixtureTruth:
        """A random dictionary, and random labels of the target."""
        g = key.torch()
        q, upper = torch.linalg.qr(torch.randn(self.d, self.d, generator=g, dtype=torch.float64))
        dictionary = (q * upper.diagonal().sign()).float()
        parts = [torch.randn(n, generator=g) for n in (self.s, self.r - self.s)]
        label = torch.cat([p / p.norm() for p in parts]) / 2**0.5
        return MixtureTruth(dictionary[:, self.of_task(0)].T.contiguous(), dictionary, label)

    @checked(sizes=("d",))
    def sample(self, truth: MixtureTruth, n: int, key: Key) -> Batch:
        """n labelled samples of the target task; hidden is z (n, d)."""
        z = torch.zeros(n, self.d)
        alive = torch.cat([self.of_task(0), torch.arange(self.k, self.d)])
        z[:, alive] = torch.randn(n, len(alive), generator=key.torch())
        return Batch(z @ truth.dictionary.T, z[:, self.of_task(0)] @ truth.label, z, None)

    @checked(sizes=("d",))
    def pairs(self, truth: MixtureTruth, n: int, key: Key) -> tuple[Tensor, Tensor]:
        """n positive pairs x, x+ (n, d) of the mixture: the same invariant features, spurious ones drawn anew."""
        g = key.torch()
        weights = torch.tensor(self.weights or (1 / self.tasks,) * self.tasks)
        group = torch.multinomial(weights, n, replacement=True, generator=g)
        alive = torch.stack([self.of_task(t) for t in range(self.tasks)])[group]
        z = torch.zeros(n, self.d).scatter_(1, alive, torch.randn(n, self.r, generator=g))
        both = []
        for _ in range(2):
            z[:, self.k :] = torch.randn(n, self.spurious, generator=g)
            both.append(z @ truth.dictionary.T)
        return both[0], both[1]
