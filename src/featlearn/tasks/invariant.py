"""Hidden features that a transformation keeps and others that it draws anew. Source: tradeoff.def_contrastive."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked


@dataclass(frozen=True)
class InvariantTruth(Truth):
    """features (nr, d): the mean input of each z_R, as a unit vector. inputs (nr, nu, d): x = g(z_R, z_U)."""

    inputs: Float[Tensor, "nr nu d"]


@dataclass(frozen=True)
class InvariantFeatures:
    """x = g(z_R, z_U) for independent hidden z_R and z_U, each on finitely many values.

    A positive pair has the same z_R and two independent z_U; a negative is an independent sample. g is a table of
    random unit vectors, all different, so that z_R can be recovered from x. The label is 1 for values of z_R in the
    upper half, -1 below. invariant, spurious: probabilities of the values of z_R and of z_U.

    Errors: `SettingError` for fewer than two values or for numbers that are no probabilities.

    Example:
        >>> task = InvariantFeatures(invariant=(0.5, 0.5), spurious=(0.2, 0.8), d=3)
        >>> x, positive, negative = task.triples(task.draw(Key("demo")), 5, Key("demo/data"))
        >>> bool((x.hidden[:, 0] == positive.hidden[:, 0]).all())
        True
    """

    invariant: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    spurious: tuple[float, ...] = (0.5, 0.3, 0.2)
    d: int = 8

    def __post_init__(self) -> None:
        for name in ("invariant", "spurious"):
            p = getattr(self, name)
            if len(p) < 2 or min(p) <= 0 or abs(sum(p) - 1) > 1e-9:
                raise SettingError(name, p, "two or more positive numbers of sum 1", "they are probabilities")
        if self.d < 2:
            raise SettingError("d", self.d, "at least 2", "inputs are random directions")

    def draw(self, key: Key) -> InvariantTruth:
        """A random table of inputs."""
        x = torch.randn(len(self.invariant), len(self.spurious), self.d, generator=key.torch())
        x = x / x.norm(dim=-1, keepdim=True)
        means = (torch.tensor(self.spurious)[:, None] * x).sum(1)
        return InvariantTruth(means / means.norm(dim=1, keepdim=True), x)

    @checked(sizes=("d",))
    def sample(self, truth: InvariantTruth, n: int, key: Key) -> Batch:
        """n labelled samples; hidden is (z_R, z_U) (n, 2), group z_R."""
        return self._batch(truth, self._values("invariant", n, key / "invariant"), key / "spurious")

    @checked(sizes=("d",))
    def triples(self, truth: InvariantTruth, n: int, key: Key) -> tuple[Batch, Batch, Batch]:
        """n samples, a positive of each, and as many negatives."""
        x = self.sample(truth, n, key / "x")
        assert x.group is not None
        return x, self._batch(truth, x.group, key / "positive"), self.sample(truth, n, key / "negative")

    def _values(self, name: str, n: int, key: Key) -> Tensor:
        return torch.multinomial(torch.tensor(getattr(self, name)), n, replacement=True, generator=key.torch())

    def _batch(self, truth: InvariantTruth, z_r: Tensor, key: Key) -> Batch:
        z_u = self._values("spurious", len(z_r), key)
        y = torch.where(2 * z_r >= len(self.invariant), 1.0, -1.0)
        return Batch(truth.inputs[z_r, z_u], y, torch.stack([z_r, z_u], 1), z_r)
