"""Four clusters at +-mu1 and +-mu2, labelled as an XOR, with a share of the labels flipped at random or on purpose."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked
from featlearn.tasks.patterns import orthonormal_dictionary

Law = Literal["gaussian", "laplace", "uniform", "exponential"]
Noise = Literal["random", "adversarial"]
ORTHONORMAL = 1e-4  # of float32 means


@dataclass(frozen=True)
class XorTruth(Truth):
    """features (2, d): the orthonormal means mu1, mu2. Build it from means of your own, or draw it from the task.

    Errors: `SettingError` for means that are not two orthonormal vectors of R^d with d >= 2, or not finite.

    Example:
        >>> XorTruth(torch.eye(3)[:2]).centres.shape
        torch.Size([4, 3])
    """

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or len(self.features) != 2 or self.features.shape[1] < 2:
            raise SettingError("features", tuple(self.features.shape), "(2, d) with d >= 2", "give mu1 and mu2")
        gram = self.features.double() @ self.features.double().T
        if not bool((gram - torch.eye(2, dtype=gram.dtype, device=gram.device)).abs().max() <= ORTHONORMAL):
            found = f"|mu1| = {float(gram[0, 0].sqrt()):.4g}, |mu2| = {float(gram[1, 1].sqrt()):.4g}"
            says = f"{found}, <mu1, mu2> = {float(gram[0, 1]):.4g}"
            raise SettingError("features", says, "orthonormal means", "orthonormalise them, e.g. by torch.linalg.qr")

    @property
    def centres(self) -> Float[Tensor, "4 d"]:
        """+mu1, -mu1, +mu2, -mu2: the order of `Batch.group`."""
        mu1, mu2 = self.features
        return torch.stack([mu1, -mu1, mu2, -mu2])

    @property
    def labels(self) -> Float[Tensor, " 4"]:
        """Clean label of each centre: +1, +1, -1, -1."""
        return self.features.new_tensor([1.0, 1.0, -1.0, -1.0])

    @property
    def opposite(self) -> Int[Tensor, " 4"]:
        """Index of the centre on the other side of the origin: 1, 0, 3, 2."""
        return torch.tensor([1, 0, 3, 2], device=self.features.device)


def unit_noise(law: Law, shape: tuple[int, int], generator: torch.Generator) -> Float[Tensor, "n d"]:
    """Independent coordinates of mean 0 and variance 1; every law is log-concave, "exponential" is skewed.

    Shapes: (n, d).
    """
    if law == "gaussian":
        return torch.randn(shape, generator=generator)
    if law == "uniform":
        return (2 * torch.rand(shape, generator=generator) - 1) * math.sqrt(3)
    e = torch.empty(shape).exponential_(generator=generator)
    if law == "exponential":
        return e - 1
    signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    return e * signs / math.sqrt(2)


def lower_quantile(law: Law, share: float) -> float:
    """The t with P(zeta < t) = share for one coordinate of `unit_noise`; -inf for share 0."""
    if share == 0:
        return -math.inf
    if law == "gaussian":
        return math.sqrt(2) * float(torch.erfinv(torch.tensor(2 * share - 1, dtype=torch.float64)))
    if law == "uniform":
        return (2 * share - 1) * math.sqrt(3)
    if law == "exponential":
        return -math.log1p(-share) - 1
    return math.log(2 * share) / math.sqrt(2) if share <= 0.5 else -math.log(2 * (1 - share)) / math.sqrt(2)


def turn_to(z: Float[Tensor, "n d"], features: Float[Tensor, "2 d"]) -> Float[Tensor, "n d"]:
    """z in place, turned so that its first two coordinates lie along mu1 and mu2: two reflections, 4 n d operations.

    Shapes: z (n, d), features (2, d) -> (n, d).
    """
    axis = torch.eye(2, features.shape[1], dtype=features.dtype, device=features.device)
    first = _reflection(axis[0], features[0])
    second = _reflection(_reflect(axis[1:], first)[0], features[1])  # orthogonal to mu1, as both its arguments are
    return _reflect(_reflect(z, first), second)


def _reflection(source: Tensor, target: Tensor) -> Tensor:
    """v of the reflection I - v v^T that takes one unit vector to another; 0 where they agree."""
    v = source - target
    norm = float(v.norm())
    return v * (math.sqrt(2) / norm if norm > 1e-6 else 0.0)


def _reflect(z: Tensor, v: Tensor) -> Tensor:
    return z.addmm_((z @ v)[:, None], v[None], alpha=-1)


@dataclass(frozen=True)
class XorClusters:
    """x = c + sigma zeta with c uniform over {+-mu1, +-mu2}; label +1 at +-mu1, -1 at +-mu2, flipped with P = eta(x).

    zeta has independent coordinates of mean 0 and variance 1 along mu1, mu2 and d - 2 further directions, of a
    log-concave law: "gaussian", "laplace", "uniform", or the skewed "exponential". E eta(x) = eta exactly:
        noise "random": eta(x) = eta everywhere;
        noise "adversarial": eta(x) is 1 on the share eta of every cluster that lies nearest to the origin,
        <zeta, c> < F^-1(eta) with F the law of one coordinate, and 0 elsewhere.
    Source: amplification.data (section 2). Batch: y the labels given to the learner; hidden (n) the clean labels, so
    `y != hidden` are the flipped ones; group (n) the cluster in the order +mu1, -mu1, +mu2, -mu2.
    Errors: `SettingError` for eta outside [0, 1/2), d < 2, sigma < 0, an unknown law or noise; for means of your own
    that are not orthonormal (`XorTruth`).

    Example:
        >>> task = XorClusters(d=20, sigma=0.2, eta=0.1)
        >>> batch = task.sample(task.draw(Key("task")), 1000, Key("data"))
        >>> 0.05 < float((batch.y != batch.hidden).float().mean()) < 0.15
        True
    """

    d: int = 50
    sigma: float = 0.1
    eta: float = 0.15
    noise: Noise = "random"
    law: Law = "gaussian"

    def __post_init__(self) -> None:
        if self.d < 2:
            raise SettingError("d", self.d, "at least 2", "two orthogonal means need two dimensions")
        if not (self.sigma >= 0 and math.isfinite(self.sigma)):
            raise SettingError("sigma", self.sigma, "a finite number of at least 0", "0 puts every point on its centre")
        if not 0 <= self.eta < 0.5:
            raise SettingError("eta", self.eta, "in [0, 1/2)", "above it the labels mean the opposite: swap them")
        for field, value, allowed in (("noise", self.noise, Noise), ("law", self.law, Law)):
            if value not in get_args(allowed):
                raise SettingError(field, value, "one of " + ", ".join(get_args(allowed)), "choose one of them")

    def draw(self, key: Key) -> XorTruth:
        """A random orthonormal pair of means."""
        return XorTruth(orthonormal_dictionary(self.d, 2, key / "means").T.contiguous())

    @checked()
    def sample(self, truth: XorTruth, n: int, key: Key) -> Batch:
        """n independent samples: x (n, d), y (n), hidden (n) the clean labels, group (n) the cluster."""
        if truth.features.shape[1] != self.d:
            raise SettingError("truth", tuple(truth.features.shape), f"means in R^{self.d}", "draw it from this task")
        which = torch.randint(4, (n,), generator=(key / "cluster").torch())
        zeta = unit_noise(self.law, (n, self.d), (key / "noise").torch())
        clean = truth.labels[which]
        if self.noise == "random":
            flipped = torch.rand(n, generator=(key / "flips").torch(), dtype=torch.float64) < self.eta
        else:
            outward = zeta[:, :2].gather(1, which[:, None] // 2)[:, 0] * (1.0 - 2 * (which % 2))
            if self.law == "exponential":  # -zeta has another law: the lower tail of -zeta is the upper one of zeta
                up = -lower_quantile(self.law, 1 - self.eta) if self.eta else -math.inf
                limit = torch.where(which % 2 == 0, lower_quantile(self.law, self.eta), up)
            else:
                limit = lower_quantile(self.law, self.eta)
            flipped = outward < limit
        x = turn_to(zeta, truth.features).mul_(self.sigma).add_(truth.centres[which])
        return Batch(x, torch.where(flipped, -clean, clean), clean, which)
