"""Linear regression in context: standard Gaussian inputs and labels that are linear in them."""

from dataclasses import dataclass

import torch

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import check_number, checked


@dataclass(frozen=True)
class LinearRegression:
    """y = <theta*, x> + noise g: x ~ N(0, I_d), g ~ N(0, 1), theta* uniform on the unit sphere of R^d.

    n samples of one member are the examples of a prompt; `featlearn.nets.prompt_matrix` puts them into one.
    features (1, d): theta*. Source: looped.definition8_3 (no noise), looped.figure8_1 (Gaussian inputs). Differs: the
    thesis writes the sphere of R^d as S^d.

    Errors: `SettingError` for d < 1, and noise below 0 or not finite.

    Example:
        >>> task = LinearRegression(d=4)
        >>> batch = task.sample(task.draw(Key("demo")), 16, Key("demo/examples"))
        >>> batch.x.shape, batch.y.shape
        (torch.Size([16, 4]), torch.Size([16]))
    """

    d: int = 4
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.d < 1:
            raise SettingError("d", self.d, "at least 1", "4 is that of Figure 8.1")
        check_number(self.noise, "noise", "a finite number of at least 0", "0 is the realisable setting")

    def draw(self, key: Key) -> Truth:
        """A random unit vector theta*."""
        star = torch.randn(self.d, generator=key.torch())
        return Truth((star / star.norm())[None])

    @checked(sizes=("d",))
    def sample(self, truth: Truth, n: int, key: Key) -> Batch:
        """n independent samples; y is (n), real."""
        g, star = key.torch(), truth.features[0]
        x = torch.randn(n, self.d, generator=g, dtype=star.dtype)
        y = x @ star
        if self.noise:
            y = y + self.noise * torch.randn(n, generator=g, dtype=star.dtype)
        return Batch(x, y)
