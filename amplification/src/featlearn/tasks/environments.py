"""Invariant features beside environmental ones, whose agreement with the label changes out of distribution.

Source: nuclear.fig6_2 (thesis sec. 6.3.1), nuclear.data_theory (thesis sec. 6.4).
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked


@dataclass(frozen=True)
class Environments2d:
    """Two inputs: x1 = y u always has the sign of the label, x2 = y s v has it with probability `agree`.

        u, v ~ U[0, 1];  s = +1 with probability agree, else -1;  y fair

    In distribution agree is 0.7; out of distribution it is 1 - agree (`shifted`). hidden: y x (n, 2); group: 1 where x2
    agrees with the label, else 0. features (1, 2): the invariant direction.

    Source: nuclear.fig6_2. The paper gives the law for y = 1 only; for y = -1 it is taken as the mirror image.
    Errors: SettingError unless agree is in [0, 1].

    Example:
        >>> task = Environments2d(0.7)
        >>> task.accuracy(torch.tensor([[1.0, 0.0], [1.0, 1.0]])), task.shifted.accuracy(torch.tensor([[1.0, 1.0]]))
        (tensor([1.0000, 0.8500]), tensor([0.6500]))
    """

    agree: float = 0.7

    def __post_init__(self) -> None:
        if not 0 <= self.agree <= 1:
            raise SettingError("agree", self.agree, "in [0, 1]", "0.7 is the paper's in distribution")

    @property
    def shifted(self) -> "Environments2d":
        """The same plane out of distribution: x2 agrees with probability 1 - agree."""
        return replace(self, agree=1 - self.agree)

    @property
    def mean(self) -> Float[Tensor, " 2"]:
        """E[y x] (2): (1/2, agree - 1/2), float64."""
        return torch.tensor([0.5, self.agree - 0.5], dtype=torch.float64)

    @property
    def second_moments(self) -> Float[Tensor, "2 2"]:
        """E[x x'] (2, 2): 1/3 on the diagonal, (2 agree - 1) / 4 beside it, float64."""
        off = (2 * self.agree - 1) / 4
        return torch.tensor([[1 / 3, off], [off, 1 / 3]], dtype=torch.float64)

    @checked()
    def accuracy(self, direction: Float[Tensor, "*e 2"]) -> Float[Tensor, "*e"]:
        """P(y <w, x> > 0) of a linear classifier without bias, exactly.

            w = (1, b), 0 <= b <= 1:  1 - (1 - agree) b / 2;   b >= 1:  agree + (1 - agree) / (2 b)

        b < 0 exchanges agree and 1 - agree; w1 < 0 gives 1 minus that of -w; w = 0 is never right. Shapes: (*e, 2) to
        (*e). Source: nuclear.fig6_2.
        """
        first, second = direction.unbind(-1)
        a, b = first.abs(), second.abs()
        agree = torch.full_like(a, self.agree)
        with_sign = torch.where(first * second >= 0, agree, 1 - agree)
        # the share of points with x2 against the label on which x1 still wins
        ratio = torch.minimum(a, b) / torch.maximum(a, b).clamp(min=torch.finfo(a.dtype).tiny)
        kept = torch.where(b <= a, 1 - ratio / 2, ratio / 2)
        right = with_sign + (1 - with_sign) * kept
        right = torch.where(first == 0, torch.where(second > 0, agree, 1 - agree), right)
        right = torch.where(first < 0, 1 - right, right)
        return torch.where((first == 0) & (second == 0), torch.zeros_like(right), right)

    def draw(self, key: Key) -> Truth:
        """The one member: the invariant direction (1, 0)."""
        return Truth(torch.tensor([[1.0, 0.0]]))

    @checked()
    def sample(self, truth: Truth, n: int, key: Key) -> Batch:
        """n independent samples."""
        g = key.torch()
        y = (torch.rand(n, generator=g) < 0.5).float() * 2 - 1
        group = (torch.rand(n, generator=g) < self.agree).long()
        z = torch.rand(n, 2, generator=g)
        z[:, 1] *= 2 * group - 1
        return Batch(y[:, None] * z, y, z, group)


@dataclass(frozen=True)
class Environments:
    """d independent features z = y x: r invariant ones U[0, 1], the others D_gamma.

        D_gamma: U[0, 1] with probability 1/2 + gamma, U[-1, 0] with probability 1/2 - gamma

    Out of distribution gamma changes its sign (`shifted`). The law of theory needs gamma in (3 / sqrt(r), 1/2), which
    is not demanded here: `in_theory`. hidden: z (n, d). features (r, d): unit vectors of the invariant coordinates R,
    a random subset.

    Source: nuclear.data_theory (thesis sec. 6.4, Lemma E.3). The share of labels is not said; here it is fair.
    Errors: SettingError unless 1 <= r <= d and gamma is in [-1/2, 1/2].

    Example:
        >>> task = Environments(d=215, r=40, gamma=0.48)
        >>> task.in_theory, task.shifted.gamma
        (True, -0.48)
    """

    d: int = 215
    r: int = 40
    gamma: float = 0.48

    def __post_init__(self) -> None:
        if not 1 <= self.r <= self.d:
            raise SettingError("r", self.r, f"in 1..d = {self.d}", "invariant features are some of the d")
        if not -0.5 <= self.gamma <= 0.5:
            raise SettingError("gamma", self.gamma, "in [-1/2, 1/2]", "1/2 + gamma is a probability")

    @property
    def shifted(self) -> "Environments":
        """The same features out of distribution: -gamma."""
        return replace(self, gamma=-self.gamma)

    @property
    def in_theory(self) -> bool:
        """Whether 3 / sqrt(r) < |gamma| < 1/2, which needs r > 36."""
        return 3 / self.r**0.5 < abs(self.gamma) < 0.5

    @property
    def mean(self) -> tuple[float, float]:
        """E[z_j] of an invariant and of an environmental feature: 1/2, gamma."""
        return 0.5, self.gamma

    @property
    def variance(self) -> tuple[float, float]:
        """Var[z_j] of an invariant and of an environmental feature: 1/12, 1/3 - gamma^2."""
        return 1 / 12, 1 / 3 - self.gamma**2

    @checked()
    def density(self, z: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """Density of an environmental feature at z (*n): 1/2 - gamma on [-1, 0), 1/2 + gamma on [0, 1]."""
        below, above = (z >= -1) & (z < 0), (z >= 0) & (z <= 1)
        return below.to(z.dtype) * (0.5 - self.gamma) + above.to(z.dtype) * (0.5 + self.gamma)

    def draw(self, key: Key) -> Truth:
        """A random subset R of r coordinates."""
        chosen = torch.randperm(self.d, generator=key.torch())[: self.r].sort().values
        return Truth(torch.eye(self.d)[chosen])

    @checked(sizes=("d", "r"))
    def sample(self, truth: Truth, n: int, key: Key) -> Batch:
        """n independent samples."""
        g = key.torch()
        y = (torch.rand(n, generator=g) < 0.5).float() * 2 - 1
        sign = (torch.rand(n, self.d, generator=g) < 0.5 + self.gamma).float() * 2 - 1
        invariant = truth.features.sum(0) > 0.5
        z = torch.rand(n, self.d, generator=g) * torch.where(invariant, 1.0, sign)
        return Batch(y[:, None] * z, y, z, None)
