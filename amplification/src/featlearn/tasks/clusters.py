"""Gaussian clusters on the corners of a cube, labelled by parity."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked
from featlearn.tasks.patterns import orthonormal_dictionary


@dataclass(frozen=True)
class ClusterTruth(Truth):
    """features (2^k, d): unit vectors to the centres. dictionary (d, k). centres (2^k, d). labels (2^k)."""

    dictionary: Float[Tensor, "d k"]
    centres: Float[Tensor, "c d"]
    labels: Float[Tensor, " c"]


@dataclass(frozen=True)
class GaussianClusters:
    """x = sum_i eps_i M_i + g, eps fair signs, g ~ N(0, sigma_r^2 (k/d) I), y = prod eps_i (emergence.table6).

    2^k clusters whose centres have norm sqrt(k); E||g||^2 = sigma_r^2 k.

    Example:
        >>> GaussianClusters(d=25, k=4, sigma_r=0.7).draw(Key("demo")).centres.shape
        torch.Size([16, 25])
    """

    d: int = 100
    k: int = 4
    sigma_r: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.k <= min(self.d, 16):
            raise SettingError("k", self.k, f"1 <= k <= min(d = {self.d}, 16)", "there are 2^k clusters in R^d")
        if self.sigma_r < 0:
            raise SettingError("sigma_r", self.sigma_r, "at least 0", "0 puts every point on its centre")

    def draw(self, key: Key) -> ClusterTruth:
        """A random orthonormal frame and its 2^k signed sums."""
        m = orthonormal_dictionary(self.d, self.k, key / "dictionary")
        bits = (torch.arange(2**self.k)[:, None] >> torch.arange(self.k)) & 1
        signs = bits.float() * 2 - 1
        centres = signs @ m.T
        return ClusterTruth(centres / self.k**0.5, m, centres, signs.prod(1))

    @checked(sizes=("d", "k"))
    def sample(self, truth: ClusterTruth, n: int, key: Key) -> Batch:
        """n independent samples; hidden is eps (n, k), group the index of the centre."""
        g = key.torch()
        which = torch.randint(2**self.k, (n,), generator=g)
        noise = torch.randn(n, self.d, generator=g) * (self.sigma_r * (self.k / self.d) ** 0.5)
        signs = ((which[:, None] >> torch.arange(self.k)) & 1).float() * 2 - 1
        return Batch(truth.centres[which] + noise, truth.labels[which], signs, which)
