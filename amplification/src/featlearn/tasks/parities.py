"""Sparse parities on signs: blocks with a mixture that betrays them, and the uniform parity.

Source: gradient_features.definition_parity, gradient_features.definition_uniform_parity. Unlike the pattern tasks of
the emergence work, hidden variables are in {-1, 0, 1} and inputs are neither centred nor normalised.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked
from featlearn.tasks.patterns import orthonormal_dictionary

Coordinates = Literal["pattern", "input"]


@dataclass(frozen=True)
class ParityTruth(Truth):
    """features (r, d): D_j = sum_{l in A_j} M_l / sqrt(k). blocks (r, k): the sets A_j. dictionary (d, d)."""

    blocks: Int[Tensor, "r k"]
    dictionary: Float[Tensor, "d d"]


def _truth(d: int, r: int, k: int, coordinates: str, key: Key) -> ParityTruth:
    blocks = torch.randperm(d, generator=(key / "relevant").torch())[: r * k].reshape(r, k).sort(1).values
    dictionary = torch.eye(d) if coordinates == "pattern" else orthonormal_dictionary(d, d, key / "dictionary")
    features = dictionary[:, blocks].sum(2).T / k**0.5
    return ParityTruth(features, blocks, dictionary)


def _inputs(truth: ParityTruth, phi: Float[Tensor, "n d"], coordinates: str) -> Float[Tensor, "n d"]:
    return phi if coordinates == "pattern" else phi @ truth.dictionary.T


def _check(d: int, r: int, k: int, coordinates: str) -> None:
    if d < 1:
        raise SettingError("d", d, "a positive dimension", "set d >= 1")
    if r < 1:
        raise SettingError("r", r, "at least 1 block", "1 is the usual sparse parity")
    if k < 1:
        raise SettingError("k", k, "at least 1", "a block has k relevant patterns")
    if r * k > d:
        raise SettingError("r * k", r * k, f"at most d = {d}", "raise d, or lower r or k")
    if coordinates not in ("pattern", "input"):
        raise SettingError("coordinates", coordinates, "pattern or input", "choose one of them")


@dataclass(frozen=True)
class BlockParity:
    """y = sign(sum_j prod_{l in A_j} phi_l) over r blocks of k patterns, x = M phi (definition_parity).

    With probability p_A for each block and sign s, the block is all s and the other blocks are 0 (so y = s); else the
    r k relevant patterns are fair signs. Background patterns are +1 or -1 with probability p_o each, otherwise 0.
    r and k are odd, so y is never 0 and odd in phi; E[y] = 0, while E[y x] = 2 p_A sum_j sum_{l in A_j} M_l for k > 1:
    the structure betrays the blocks. (The paper claims E[y x] = 0, see the claims of the work.)
    coordinates: "pattern" takes M = I, "input" a random orthonormal M. Parity of one block with M = I, p_A = 1/4 and
    p_o = 1/2 is the case of Daniely and Malach.

    Errors: `SettingError` for r k > d, even r or k, p_A outside [0, 1/(2 r)] and p_o outside [0, 1/2].

    Example:
        >>> task = BlockParity(d=30, r=3, k=5, p_A=0.1)
        >>> task.draw(Key("demo")).features.shape
        torch.Size([3, 30])
    """

    d: int = 100
    r: int = 1
    k: int = 5
    p_A: float = 0.25
    p_o: float = 0.5
    coordinates: Coordinates = "pattern"

    def __post_init__(self) -> None:
        _check(self.d, self.r, self.k, self.coordinates)
        for name in ("r", "k"):
            if getattr(self, name) % 2 == 0:
                value = getattr(self, name)
                raise SettingError(name, value, "odd (the label is the sign of a sum of signs)", f"try {value + 1}")
        if not 0 <= 2 * self.r * self.p_A <= 1:
            raise SettingError("p_A", self.p_A, f"in [0, 1/(2 r)] = [0, {1 / (2 * self.r):g}]", "lower p_A or r")
        if not 0 <= self.p_o <= 0.5:
            raise SettingError("p_o", self.p_o, "in [0, 1/2]", "+1 and -1 have probability p_o each")

    def draw(self, key: Key) -> ParityTruth:
        """Random disjoint blocks and, in input coordinates, a random orthonormal dictionary."""
        return _truth(self.d, self.r, self.k, self.coordinates, key)

    @checked(sizes=("d", "r", "k"))
    def sample(self, truth: ParityTruth, n: int, key: Key) -> Batch:
        """n independent samples; hidden is phi, group 0 for fair blocks and 1 + 2 j + (s < 0) for block j all s."""
        g = key.torch()
        u = torch.rand(n, self.d, generator=g)
        phi = (u < self.p_o).float() - (u >= 1 - self.p_o).float()
        fair = (torch.rand(n, self.r, self.k, generator=g) < 0.5).float() * 2 - 1
        v = torch.rand(n, generator=g)
        which = torch.zeros(n, dtype=torch.long)
        if self.p_A > 0:
            which = ((v / self.p_A).long() + 1).where(v < 2 * self.r * self.p_A, which).clamp_max(2 * self.r)
        block, sign = (which - 1).clamp_min(0) // 2, 1.0 - 2.0 * ((which - 1).clamp_min(0) % 2)
        own = (torch.arange(self.r) == block[:, None]).float() * sign[:, None]
        values = torch.where((which > 0)[:, None, None], own[:, :, None].expand(-1, -1, self.k), fair)
        phi[:, truth.blocks.flatten()] = values.reshape(n, -1)
        y = values.prod(2).sum(1).sign()
        return Batch(_inputs(truth, phi, self.coordinates), y, phi, which)


@dataclass(frozen=True)
class UniformParity:
    """y = prod_{l in A} x_l of k among d fair signs (gradient_features.definition_uniform_parity).

    The work takes k even and d odd; any 1 <= k <= d is allowed here. features is the one direction of the relevant
    coordinates, sum_{l in A} e_l / sqrt(k). Errors: `SettingError` for k > d.

    Example:
        >>> task = UniformParity(d=11, k=2)
        >>> task.sample(task.draw(Key("demo")), 5, Key("demo/data")).y.shape
        torch.Size([5])
    """

    d: int = 51
    k: int = 2

    def __post_init__(self) -> None:
        _check(self.d, 1, self.k, "pattern")

    def draw(self, key: Key) -> ParityTruth:
        """A random relevant set."""
        return _truth(self.d, 1, self.k, "pattern", key)

    @checked(sizes=("d", "k"))
    def sample(self, truth: ParityTruth, n: int, key: Key) -> Batch:
        """n independent samples; hidden is x itself."""
        x = (torch.rand(n, self.d, generator=key.torch()) < 0.5).float() * 2 - 1
        return Batch(x, x[:, truth.blocks[0]].prod(1), x, None)
