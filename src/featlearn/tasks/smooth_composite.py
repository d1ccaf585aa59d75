"""Smooth targets that are composed: H(x) = F(x) + alpha G(F(x)) with ||x|| = ||F(x)|| = 1 (resnet.concept1)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key, SettingError, Truth, VectorBatch
from featlearn.core.check import check_number, checked


@dataclass(frozen=True)
class SmoothTruth(Truth):
    """features (k/2, d): unit vectors u_j of the waves in F. v (k, p, k): vectors in G, a (k, p): their weights."""

    v: Float[Tensor, "k p k"]
    a: Float[Tensor, "k p"]


@dataclass(frozen=True)
class SmoothComposite:
    """y = F(x) + alpha G(F(x)) in R^k, x uniform on the unit sphere: every condition of Concept 1 holds exactly.

    F_2j = sqrt(2/k) sin(wave <w_j, x>) and F_2j+1 = sqrt(2/k) cos(wave <w_j, x>), so that ||F|| = 1, with w_j of norm
    1/sqrt(2) (half of k of them, p_F = 1). G_r(h) = sum_{i <= p_G} a_ri <v_ri, h>^power, |a| <= 1, ||v|| = 1/sqrt(2).
    power = 1 makes H a network of two layers.

    Source: resnet.concept1 (eq. 5.1 and 5.2). Errors: `SettingError` for odd k, sizes below 1, alpha < 0.

    Example:
        >>> task = SmoothComposite(d=10)
        >>> batch = task.sample(task.draw(Key("demo")), 3, Key("data"))
        >>> batch.hidden.norm(dim=1)
        tensor([1.0000, 1.0000, 1.0000])
    """

    d: int = 20
    k: int = 4
    p_G: int = 3
    power: int = 2
    wave: float = 3.0
    alpha: float = 0.3

    def __post_init__(self) -> None:
        for name in ("d", "k", "p_G", "power"):
            if getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "at least 1", "see the defaults")
        if self.k % 2:
            raise SettingError("k", self.k, "even", "each wave fills two coordinates of F")
        check_number(self.alpha, "alpha", "a finite number of at least 0", "0 leaves F alone")
        check_number(self.wave, "wave", "a finite number above 0", "it is the frequency of F", above=True)

    def draw(self, key: Key) -> SmoothTruth:
        """Random directions, vectors and weights."""
        u = torch.randn(self.k // 2, self.d, generator=(key / "u").torch())
        v = torch.randn(self.k, self.p_G, self.k, generator=(key / "v").torch())
        a = 2 * torch.rand(self.k, self.p_G, generator=(key / "a").torch()) - 1
        v = v / (v.norm(dim=-1, keepdim=True) * math.sqrt(2))
        return SmoothTruth(u / u.norm(dim=1, keepdim=True), v, a)

    @checked()
    def base(self, truth: SmoothTruth, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """F(x): (n, d) -> (n, k)."""
        angle = self.wave / math.sqrt(2) * (x @ truth.features.T)
        return math.sqrt(2 / self.k) * torch.stack([angle.sin(), angle.cos()], -1).flatten(1)

    @checked()
    def composite(self, truth: SmoothTruth, base: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """G of values of F: (n, k) -> (n, k)."""
        return (truth.a * torch.einsum("nk,rpk->nrp", base, truth.v) ** self.power).sum(-1)

    @checked(sizes=("d", "k"))
    def sample(self, truth: SmoothTruth, n: int, key: Key) -> VectorBatch:
        """n independent samples; y is (n, k), hidden is F(x) (n, k)."""
        x = torch.randn(n, self.d, generator=key.torch())
        x = x / x.norm(dim=1, keepdim=True)
        base = self.base(truth, x)
        return VectorBatch(x, base + self.alpha * self.composite(truth, base), base, None)
