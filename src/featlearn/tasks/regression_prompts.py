"""Prompts of linear regression in context: Gaussian inputs of any covariance, labels with noise, and a query."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import check_number, checked


@dataclass(frozen=True)
class RegressionPrompts:
    """E = [[x_1 .. x_N, x_q], [y_1 .. y_N, 0]]: x ~ N(0, Lambda), y_i = <w, x_i> + noise g_i; wanted is <w, x_q>.

    A sample is a prompt: x (n, d + 1, N + 1), y (n) = <w, x_q>, hidden w (n, d).
    variances: eigenvalues lambda_1 >= ... >= lambda_d >= 0 of Lambda; examples: N, M where it is not the one of
    pretraining; noise: sigma of the labels, the wanted one has none; weight: coordinates of w along the eigenvectors,
    in every prompt, () for a w ~ N(0, I) of its own for each. features (d, d): eigenvectors of Lambda as rows.
    Source: icl_scale.definition_prompt, definition_regression_task (no noise, w drawn), definition_eval_prompt (a
    weight, M examples and noise).

    Errors: `SettingError` for variances that are negative, all 0 or not in descending order, fewer than 1 example,
    noise below 0 or not finite, and a weight of another length than the variances.

    Example:
        >>> task = RegressionPrompts(variances=(2.0, 1.0, 0.0), examples=7)
        >>> batch = task.sample(task.draw(Key("demo")), 4, Key("demo/prompts"))
        >>> batch.x.shape, batch.y.shape
        (torch.Size([4, 4, 8]), torch.Size([4]))
    """

    variances: tuple[float, ...] = (3.0, 2.0, 1.2, 0.6, 0.2)
    examples: int = 20
    noise: float = 0.0
    weight: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        v = self.variances
        falls = bool(v) and float("inf") > v[0] > 0 and all(a >= b >= 0 for a, b in pairwise(v))
        if not falls:
            allowed = "numbers of at least 0 in descending order, the first above 0"
            raise SettingError("variances", self.variances, allowed, "they are eigenvalues of the inputs' covariance")
        if self.examples < 1:
            raise SettingError(
                "examples", self.examples, "at least 1", "what attends to none divides by 0; 16 is usual"
            )
        check_number(self.noise, "noise", "a finite number of at least 0", "0 is that of pretraining")
        if self.weight and len(self.weight) != len(self.variances):
            allowed = f"{len(self.variances)} numbers, one of each variance, or ()"
            raise SettingError("weight", self.weight, allowed, "() draws a weight for every prompt")

    @property
    def d(self) -> int:
        """Dimension of the inputs."""
        return len(self.variances)

    def draw(self, key: Key) -> Truth:
        """Random orthonormal eigenvectors (d, d), as rows."""
        g = torch.randn(self.d, self.d, generator=key.torch(), dtype=torch.float64)
        q, upper = torch.linalg.qr(g)
        return Truth((q * upper.diagonal().sign()).T.float().contiguous())

    def covariance(self, truth: Truth) -> Float[Tensor, "d d"]:
        """Lambda (d, d)."""
        return truth.features.T @ (self._scales(truth)[:, None] ** 2 * truth.features)

    @checked(sizes=("d",))
    def sample(self, truth: Truth, n: int, key: Key) -> Batch:
        """n independent prompts in the precision of the eigenvectors; y (n) is <w, x_q>."""
        g, basis = key.torch(), truth.features
        x = torch.randn(n, self.examples + 1, self.d, generator=g, dtype=basis.dtype) * self._scales(truth) @ basis
        if self.weight:
            w = (basis.new_tensor(self.weight) @ basis).expand(n, -1)
        else:
            w = torch.randn(n, self.d, generator=g, dtype=basis.dtype)
        said = (x @ w[..., None])[..., 0]
        answer = said[:, -1].clone()
        if self.noise:
            said = said + self.noise * torch.randn(said.shape, generator=g, dtype=basis.dtype)
        said = torch.cat([said[:, :-1], torch.zeros_like(answer)[:, None]], 1)
        return Batch(torch.cat([x.mT, said[:, None]], 1), answer, w.contiguous())

    def _scales(self, truth: Truth) -> Tensor:
        return truth.features.new_tensor(self.variances).sqrt()
