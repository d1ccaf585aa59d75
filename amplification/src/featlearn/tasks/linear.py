"""Linearly separable data with margin. Source: gradient_features.definition_linear."""

from dataclasses import dataclass

import torch

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked


@dataclass(frozen=True)
class LinearData:
    """x = y s w* + v: y fair, s uniform on [margin, 2 rho - margin], v ~ N(0, sigma^2 I) orthogonal to w*.

    E[y <w*, x>] = rho, min y <w*, x> = margin (the beta of the work), E[y P x] = 0 for the projection P off w*. The
    work fixes no distribution; this is one that meets its conditions. features (1, d): w*.

    Errors: `SettingError` unless 0 < margin <= rho and sigma >= 0.

    Example:
        >>> task = LinearData(d=20, margin=0.5, rho=1.0)
        >>> task.sample(task.draw(Key("demo")), 5, Key("demo/data")).x.shape
        torch.Size([5, 20])
    """

    d: int = 100
    margin: float = 0.5
    rho: float = 1.0
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if self.d < 2:
            raise SettingError("d", self.d, "at least 2", "noise is orthogonal to the direction")
        if not 0 < self.margin <= self.rho:
            raise SettingError("margin", self.margin, f"in (0, rho = {self.rho}]", "the mean cannot be below it")
        if self.sigma < 0:
            raise SettingError("sigma", self.sigma, "at least 0", "0 puts every point on the line of w*")

    def draw(self, key: Key) -> Truth:
        """A random unit vector w*."""
        star = torch.randn(self.d, generator=key.torch())
        return Truth((star / star.norm())[None])

    @checked(sizes=("d",))
    def sample(self, truth: Truth, n: int, key: Key) -> Batch:
        """n independent samples; hidden is s (n, 1)."""
        g, star = key.torch(), truth.features[0]
        y = (torch.rand(n, generator=g) < 0.5).float() * 2 - 1
        s = self.margin + 2 * (self.rho - self.margin) * torch.rand(n, generator=g)
        v = self.sigma * torch.randn(n, self.d, generator=g)
        v = v - (v @ star)[:, None] * star
        return Batch((y * s)[:, None] * star + v, y, s[:, None], None)
