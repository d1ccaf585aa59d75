"""XOR of two coordinates of the Boolean cube, in any orthogonal basis.

Source: xor_sgd.data.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked
from featlearn.tasks.patterns import orthonormal_dictionary

Basis = Literal["standard", "random"]


@dataclass(frozen=True)
class BooleanXorTruth(Truth):
    """features (2, d): mu_1 / sqrt(2) and mu_2 / sqrt(2). means (2, d): mu_1 (label +1) and mu_2 (label -1).

    basis (d, d): columns are the axes of the cube, x = basis s; None for the standard basis.
    """

    means: Float[Tensor, "2 d"]
    basis: Float[Tensor, "d d"] | None = None


@lru_cache(maxsize=1)
def _bytes_as_signs() -> Float[np.ndarray, "256 8"]:
    """The 8 signs of every byte: a look-up is several times faster than drawing floats and comparing."""
    return np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1


def signs(n: int, d: int, key: Key, device: str | torch.device = "cpu") -> Float[Tensor, "n d"]:
    """n d independent fair signs, one random bit each, as (n, d) floats on `device`; the same on every device.

    Example:
        >>> signs(3, 5, Key("demo")).shape
        torch.Size([3, 5])
    """
    count = n * d
    raw = np.frombuffer(key.numpy().bytes(-(-count // 8)), dtype=np.uint8)
    table = _bytes_as_signs()
    if torch.device(device).type == "cpu":
        flat = torch.from_numpy(table.take(raw, axis=0))
    else:  # an eighth of a byte per sign crosses the bus
        flat = torch.from_numpy(table).to(device)[torch.from_numpy(raw.copy()).to(device).int()]
    return flat.flatten()[:count].view(n, d)


@dataclass(frozen=True)
class BooleanXor:
    """x uniform on the cube, y = -s_i s_j of two of its coordinates s (xor_sgd.data).

    Four clusters x = z + xi of equal weight: z in {+-mu_1, +-mu_2} with mu_1 = q_i - q_j (label +1) and
    mu_2 = q_i + q_j (label -1), q the axes of the cube, ||mu||^2 = 2, and xi the other d - 2 coordinates.
    d: dimension. pair: the two coordinates i and j. basis: "standard" (x = s) or "random" (x = Q s for a random
    orthogonal Q); a rotationally invariant learner cannot tell them apart (Remark 2.1).

    Errors: `SettingError` for d < 2, a pair that is no two different coordinates, or another basis.

    Example:
        >>> task = BooleanXor(d=8)
        >>> batch = task.sample(task.draw(Key("demo")), 5, Key("demo/data"))
        >>> bool((batch.y == -batch.x[:, 0] * batch.x[:, 1]).all())
        True
    """

    d: int = 32
    pair: tuple[int, int] = (0, 1)
    basis: Basis = "standard"

    def __post_init__(self) -> None:
        if self.d < 2:
            raise SettingError("d", self.d, "at least 2", "the label is the product of two coordinates")
        if len(self.pair) != 2 or self.pair[0] == self.pair[1] or not all(0 <= i < self.d for i in self.pair):
            raise SettingError("pair", self.pair, f"two different coordinates below d = {self.d}", "(0, 1) is usual")
        if self.basis not in get_args(Basis):
            raise SettingError("basis", self.basis, "standard or random", "choose one of them")

    def draw(self, key: Key) -> BooleanXorTruth:
        """The two means; in a random basis, their rotation by an orthogonal matrix drawn from `key`."""
        i, j = self.pair
        means = torch.zeros(2, self.d)
        means[:, i] = 1.0
        means[:, j] = torch.tensor([-1.0, 1.0])
        basis = None
        if self.basis == "random":
            basis = orthonormal_dictionary(self.d, self.d, key / "basis")
            means = means @ basis.T
        return BooleanXorTruth(means / means.norm(dim=1, keepdim=True), means, basis)

    @checked(sizes=("d",))
    def sample(self, truth: BooleanXorTruth, n: int, key: Key, device: str | torch.device = "cpu") -> Batch:
        """n independent samples; hidden is (s_i, s_j), group the cluster: +mu_1, -mu_1, +mu_2, -mu_2 are 0 to 3."""
        s = signs(n, self.d, key, device)
        i, j = self.pair
        pair = torch.stack([s[:, i], s[:, j]], 1)
        y = -pair[:, 0] * pair[:, 1]
        group = (2 * (y < 0) + (pair[:, 0] < 0)).long()
        x = s if truth.basis is None else s @ truth.basis.to(s).T
        return Batch(x, y, pair, group)
