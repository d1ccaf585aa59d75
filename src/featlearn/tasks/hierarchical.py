"""Regression on a base signal plus a small composite of it: H(x) = beta F(x) + alpha G(F(x)) (resnet.concept1)."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Key, SettingError, Truth, VectorBatch
from featlearn.core.check import check_number, checked

Signs = Literal["alternating", "equal"]
Background = Literal["signs", "gaussian", "zero"]


@dataclass(frozen=True)
class HierarchicalTruth(Truth):
    """features (r, d): the coordinates that matter, as unit vectors. blocks (k, q): the coordinates behind each F_r."""

    blocks: Int[Tensor, "k q"]


@dataclass(frozen=True)
class HierarchicalParity:
    """y = beta F(x) + alpha G(F(x)) in R^k: F_r is a product of `degree` signs, G_r a product of `top` values of F.

    F_r(x) = prod_{i in block r} s_i with s = x / scale, and G_r(y) = (sign r) y_1 ... y_top for every r: sign r is
    (-1)^r for r = 1..k ("alternating") or 1 ("equal"). The first `live` coordinates of x are +scale or -scale with
    equal probability; the other d - live follow `background`: signs too, N(0, scale^2), or 0. These have no say.
    Defaults are section 8.1 (resnet.sec8_1_setup), with the pairs in order. `hard_instance` gives eq. (7.1), whose k
    coordinates are drawn. What is left of y when F is known and G is not is k alpha^2: the `threshold`.

    Errors: `SettingError` for blocks that do not fit, top > k, scale <= 0 and numbers that are not finite.

    Example:
        >>> task = HierarchicalParity()
        >>> task.sample(task.draw(Key("demo")), 4, Key("data")).y.shape
        torch.Size([4, 15])
        >>> round(task.threshold, 4)
        1.35
    """

    d: int = 30
    k: int = 15
    degree: int = 2
    top: int = 4
    alpha: float = 0.3
    beta: float = 1.0
    signs: Signs = "alternating"
    scale: float = 1.0
    live: int | None = None
    background: Background = "signs"
    drawn: bool = False

    def __post_init__(self) -> None:
        for name in ("d", "k", "degree", "top"):
            if getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "at least 1", "section 8.1 has 30, 15, 2 and 4")
        if self.live is not None and not 1 <= self.live <= self.d:
            raise SettingError("live", self.live, f"in 1..d = {self.d}, or None for all", "it counts coordinates")
        if self.k * self.degree > self.signs_at_hand:
            allowed = f"at most the {self.signs_at_hand} coordinates that are signs"
            raise SettingError("k * degree", self.k * self.degree, allowed, "raise d, or lower k or degree")
        if self.top > self.k:
            raise SettingError("top", self.top, f"at most k = {self.k}", "G multiplies values of F")
        for name in ("alpha", "beta"):
            check_number(abs(getattr(self, name)), name, "a finite number", "0 leaves a signal out")
        check_number(self.scale, "scale", "a finite number above 0", "inputs are +scale and -scale", above=True)
        for name, allowed in (("signs", ("alternating", "equal")), ("background", ("signs", "gaussian", "zero"))):
            if getattr(self, name) not in allowed:
                raise SettingError(name, getattr(self, name), "one of " + ", ".join(allowed), "choose one of them")

    @classmethod
    def hard_instance(
        cls, d: int, k: int, *, alpha: float, live: int | None = None, background: Background = "signs"
    ) -> "HierarchicalParity":
        """Eq. (7.1): F(x) = sqrt(d) (x_i1, ..., x_ik) for drawn coordinates, every G_r their product, x_i = +-1/sqrt d.

        Source: resnet.hard_instance. Errors: as the class.
        """
        return cls(
            d=d,
            k=k,
            degree=1,
            top=k,
            alpha=alpha,
            signs="equal",
            scale=1 / math.sqrt(d) if d > 0 else 1.0,
            live=live,
            background=background,
            drawn=True,
        )

    @property
    def signs_at_hand(self) -> int:
        """How many coordinates are fair signs that F may read."""
        return self.d if self.live is None else self.live

    @property
    def threshold(self) -> float:
        """E ||alpha G(F(x))||^2 = k alpha^2: the error of whoever knows F and nothing of G."""
        return self.k * self.alpha**2

    def draw(self, key: Key) -> HierarchicalTruth:
        """Blocks in order, or at random among the coordinates that are signs."""
        used = self.k * self.degree
        order = torch.arange(self.signs_at_hand)
        if self.drawn:
            order = torch.randperm(self.signs_at_hand, generator=key.torch())
        blocks = order[:used].reshape(self.k, self.degree).sort(1).values
        return HierarchicalTruth(torch.eye(self.d)[blocks.flatten().sort().values], blocks)

    @checked()
    def base(self, truth: HierarchicalTruth, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """F(x): (n, d) -> (n, k)."""
        return (x / self.scale)[:, truth.blocks].prod(-1)

    @checked()
    def composite(self, base: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """G of values of F: (n, k) -> (n, k)."""
        sign = (-1.0) ** torch.arange(1, self.k + 1) if self.signs == "alternating" else torch.ones(self.k)
        return base[:, : self.top].prod(1)[:, None] * sign.to(base)

    @checked(sizes=("d", "k"))
    def sample(self, truth: HierarchicalTruth, n: int, key: Key) -> VectorBatch:
        """n independent samples; y is (n, k), hidden is F(x) (n, k)."""
        signs = (torch.rand(n, self.d, generator=(key / "signs").torch()) < 0.5).float() * 2 - 1
        x = signs * self.scale
        rest = self.signs_at_hand
        if self.background == "gaussian":
            x[:, rest:] = torch.randn(n, self.d - rest, generator=(key / "rest").torch()) * self.scale
        elif self.background == "zero":
            x[:, rest:] = 0
        base = self.base(truth, x)
        return VectorBatch(x, self.beta * base + self.alpha * self.composite(base), base, None)
