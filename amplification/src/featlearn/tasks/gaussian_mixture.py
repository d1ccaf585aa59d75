"""Mixtures of Gaussians with any assignment of labels to components, XOR of four clusters included.

Source: gradient_features.definition_mog, gradient_features.definition_xor.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked
from featlearn.tasks.patterns import orthonormal_dictionary

Arrangement = Literal["orthogonal", "antipodal", "given"]


@dataclass(frozen=True)
class MixtureTruth(Truth):
    """features (r, d): D_j = mu_j / ||mu_j||. means (r, d). labels, weights, sigma (r); sigma: standard deviations."""

    means: Float[Tensor, "r d"]
    labels: Float[Tensor, " r"]
    weights: Float[Tensor, " r"]
    sigma: Float[Tensor, " r"]


def check_signs(labels: Sequence[float | int]) -> None:
    """Refuse labels outside -1 and +1."""
    for i, label in enumerate(labels):
        if label not in (-1, 1):
            raise SettingError(f"labels[{i}]", label, "-1 or +1", "two-layer networks are trained on y g(x)")


def check_orthogonal(means: Float[Tensor, "r d"], antipodal: bool = False) -> None:
    """Refuse means that are not orthogonal in pairs (with antipodal: orthogonal or opposite).

    Shapes: means (r, d). Errors: `SettingError` naming the worst pair and its cosine.
    """
    units = (means / means.norm(dim=1, keepdim=True)).double()
    cosine = (units @ units.T).abs()
    cosine.fill_diagonal_(0)
    if antipodal:
        cosine = torch.minimum(cosine, 1 - cosine)
    worst = int(cosine.argmax())
    if cosine.numel() and float(cosine.flatten()[worst]) > 1e-4:
        i, j = divmod(worst, len(means))
        value = float(units[i] @ units[j])
        allowed = "orthogonal in pairs" + (", or opposite" if antipodal else "")
        raise SettingError(
            f"means[{i}], means[{j}]", f"cosine {value:.3g}", allowed, 'orthogonalise them or set arrangement = "given"'
        )


@dataclass(frozen=True)
class GaussianMixture:
    """Component j with probability p_j, x ~ N(mu_j, sigma_j^2 I), y = labels[j] (gradient_features.definition_mog).

    d: dimension. labels: one sign a component. weights: p_j, equal if empty. separation: ||mu_j|| / sqrt(d), one number
    or one a component (the B_mu of the work). sigma: standard deviation, one number or one a component.
    arrangement of the means: "orthogonal" (a random orthonormal frame), "antipodal" (components 2i and 2i + 1 opposite,
    pairs orthogonal: with labels (1, 1, -1, -1) the XOR mixture, see `xor`) or "given", any `means` at all.
    means: r vectors of length d; with the first two arrangements they are checked, and separation is not used.

    Where paper and code differ: the paper writes covariance sigma_j I but uses sigma_j as a standard deviation in every
    bound; here it is one. Weights are total probabilities, so that labels are balanced if each class has 1/2.
    Errors: `SettingError` for labels outside +-1, too many components for the dimension, weights that do not sum to 1,
    and means that are not orthogonal where the arrangement says so.

    Example:
        >>> task = GaussianMixture.xor(d=50)
        >>> task.sample(task.draw(Key("demo")), 6, Key("demo/data")).x.shape
        torch.Size([6, 50])
    """

    d: int = 100
    labels: tuple[int, ...] = (1, -1, 1, -1)
    weights: tuple[float, ...] = ()
    separation: float | tuple[float, ...] = 1.0
    sigma: float | tuple[float, ...] = 1.0
    arrangement: Arrangement = "orthogonal"
    means: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def xor(cls, d: int, sigma: float = 1.0, separation: float = 1.0) -> "GaussianMixture":
        """Four clusters, +-mu_1 with label +1 and +-mu_3 with label -1 (gradient_features.definition_xor)."""
        return cls(d, (1, 1, -1, -1), sigma=sigma, separation=separation, arrangement="antipodal")

    def __post_init__(self) -> None:
        r = len(self.labels)
        if self.d < 1:
            raise SettingError("d", self.d, "a positive dimension", "set d >= 1")
        if not r:
            raise SettingError("labels", self.labels, "one sign for each component", "name at least one component")
        check_signs(self.labels)
        if self.arrangement not in get_args(Arrangement):
            raise SettingError("arrangement", self.arrangement, "orthogonal, antipodal or given", "choose one of them")
        if self.arrangement == "antipodal" and r % 2:
            raise SettingError("labels", f"{r} components", "an even number where means come in pairs", "add one")
        directions = {"orthogonal": r, "antipodal": r // 2, "given": 0}[self.arrangement]
        if directions > self.d:
            raise SettingError("labels", f"{r} components", f"at most d = {self.d} orthogonal means", "raise d")
        for name, least in (("separation", 0.0), ("sigma", 0.0)):
            value = getattr(self, name)
            values = value if isinstance(value, tuple) else (value,)
            if isinstance(value, tuple) and len(value) != r:
                raise SettingError(name, value, f"one number or one for each of {r} components", "give as many")
            if any(not math.isfinite(v) or v < least or (name == "separation" and v == 0) for v in values):
                raise SettingError(name, value, "positive and finite" if name == "separation" else "at least 0", "fix")
        if self.weights:
            if len(self.weights) != r:
                raise SettingError("weights", self.weights, f"one for each of {r} components", "give as many")
            if min(self.weights) <= 0 or abs(sum(self.weights) - 1) > 1e-6:
                raise SettingError("weights", self.weights, "positive with sum 1", "divide them by their sum")
        if (self.arrangement == "given") and not self.means:
            raise SettingError("means", self.means, f"{r} vectors of length {self.d}", "give them or draw a frame")
        if self.means:
            if len(self.means) != r or any(len(mu) != self.d for mu in self.means):
                shape = (len(self.means), len(self.means[0]))
                raise SettingError("means", shape, f"{r} vectors of length {self.d}", "one mean for each label")
            means = torch.tensor(self.means)
            if not torch.isfinite(means).all() or not means.norm(dim=1).all():
                raise SettingError("means", "an entry", "finite vectors that are not zero", "D_j = mu_j / ||mu_j||")
            if self.arrangement != "given":
                check_orthogonal(means, self.arrangement == "antipodal")

    def _each(self, name: str) -> Float[Tensor, " r"]:
        value = getattr(self, name)
        return torch.tensor(value) if isinstance(value, tuple) else torch.full((len(self.labels),), float(value))

    def draw(self, key: Key) -> MixtureTruth:
        """The given means, or a random frame scaled to separation * sqrt(d)."""
        r = len(self.labels)
        if self.means:
            means = torch.tensor(self.means)
        else:
            pairs = r if self.arrangement == "orthogonal" else r // 2
            frame = orthonormal_dictionary(self.d, pairs, key / "means").T
            if self.arrangement == "antipodal":
                frame = torch.stack([frame, -frame], 1).reshape(r, self.d)
            means = frame * (self._each("separation") * self.d**0.5)[:, None]
        weights = torch.tensor(self.weights) if self.weights else torch.full((r,), 1 / r)
        units = means / means.norm(dim=1, keepdim=True)
        return MixtureTruth(units, means, torch.tensor(self.labels).float(), weights, self._each("sigma"))

    @checked(sizes=("d",))
    def sample(self, truth: MixtureTruth, n: int, key: Key) -> Batch:
        """n independent samples; group is the component."""
        g = key.torch()
        which = torch.multinomial(truth.weights, n, replacement=True, generator=g)
        noise = torch.randn(n, self.d, generator=g)
        return Batch(truth.means[which] + truth.sigma[which, None] * noise, truth.labels[which], None, which)
