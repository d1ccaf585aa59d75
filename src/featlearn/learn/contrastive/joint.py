"""MoCo v3, BYOL and Barlow Twins around any encoder, from lightly's parts: settings and losses."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.learn.contrastive.objectives import Step, lightly_parts, random_numbers_of
from featlearn.learn.contrastive.settings import Contrastive

JointMethod = Literal["mocov3", "byol", "barlow"]
SLOW = {"mocov3": 0.99, "byol": 0.996}
"""Of which share the slow copy keeps itself at the first step, where none is given."""

ROUNDING = 1e-5
"""Features of a batch whose distance from their mean is below this share of their size are called equal."""


@dataclass(frozen=True)
class JointEmbedding:
    """Settings of pretraining by MoCo v3, BYOL or Barlow Twins; `pretrain_across` takes them.

    method: mocov3 (the positive is the slow copy's embedding of the other view, the negatives are those of the batch;
    no queue), byol (no negatives: predict the slow copy's embedding), barlow (the cross-correlation of both views is to
    be the identity; no slow copy). epochs, batch, rate, momentum, weight_decay, warmup: as of `Contrastive`.
    optimizer: sgd, or adamw, which transformers want (momentum is then that of AdamW's first moment).
    temperature: of mocov3. slow: of mocov3 and byol, what the slow copy keeps of itself at the first step; it rises as
    a cosine to 1; None: SLOW. redundancy: weight of the off-diagonal terms of barlow. hidden: units of the hidden
    layers of the heads, 0 for as many as there are features. dim: of the embeddings.

    Source: Chen, Xie and He 2021 (temperature 0.2, slow 0.99, as for their transformers); Grill et al. 2020 (0.996);
    Zbontar et al. 2021 (redundancy 0.005). Differs: rate and sizes are those of `Contrastive`, not the papers' for
    ImageNet (LARS or AdamW, batch 4096, hidden 4096, dim 256, and 8192 for both in Barlow Twins).
    Errors: SettingError, one line.

    Example:
        >>> JointEmbedding("byol").slow_at(0, 100), JointEmbedding("byol").slow_at(100, 100)
        (0.996, 1.0)
    """

    method: JointMethod = "mocov3"
    epochs: int = 800
    batch: int = 512
    rate: float = 0.06
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: int = 0
    optimizer: Literal["sgd", "adamw"] = "sgd"
    temperature: float = 0.2
    slow: float | None = None
    redundancy: float = 5e-3
    hidden: int = 0
    dim: int = 128

    def __post_init__(self) -> None:
        if self.method not in get_args(JointMethod):
            known = ", ".join(get_args(JointMethod))
            raise SettingError("method", repr(self.method), f"one of {known}", "Contrastive has five others")
        if self.optimizer not in ("sgd", "adamw"):
            raise SettingError("optimizer", repr(self.optimizer), "'sgd' or 'adamw'", "adamw suits a transformer")
        if self.slow is not None and not 0 <= self.slow < 1:
            raise SettingError("slow", self.slow, "in [0, 1)", "leave it out for that of the method's paper")
        if not 0 <= self.redundancy < math.inf:
            raise SettingError("redundancy", self.redundancy, "0 or more", "0.005 is that of the paper")
        self.schedule  # noqa: B018 - it refuses what both kinds of settings refuse

    @property
    def schedule(self) -> Contrastive:
        """The settings that both kinds have, and how the rate moves."""
        same = ("epochs", "batch", "rate", "momentum", "weight_decay", "warmup", "temperature", "hidden", "dim")
        return Contrastive("simclr", **{name: getattr(self, name) for name in same})

    def rate_at(self, step: int, steps_an_epoch: int) -> float:
        """The rate of a step, as of `Contrastive`."""
        return self.schedule.rate_at(step, steps_an_epoch)

    def slow_at(self, step: int, steps: int) -> float:
        """What the slow copy keeps of itself at a step of `steps`: 1 - (1 - slow) (1 + cos(pi step / steps)) / 2.

        Source: Grill et al. 2020, section 3.3 (implementation details); also MoCo v3. 0 for barlow, which has none.
        """
        start = SLOW.get(self.method, 0.0) if self.slow is None else self.slow
        return 1 - (1 - start) * (1 + math.cos(math.pi * step / steps)) / 2

    def chance(self) -> float:
        """The loss of embeddings that say nothing: log(batch) for mocov3 (all cosines equal), 0 for byol (independent
        directions; its lowest, -1, is reached by a collapse), and for barlow the mean over independent Gaussian ones:

            d + (d + redundancy d (d - 1)) / (n - 1)
        """
        if self.method == "mocov3":
            return math.log(self.batch)
        if self.method == "byol":
            return 0.0
        d, n = self.dim, self.batch
        return d + (d + self.redundancy * d * (d - 1)) / (n - 1)


def itself(z: Tensor) -> Tensor:
    """All embeddings of a batch, in a single process."""
    return z


class JointObjective(nn.Module):
    """An encoder with the heads and the slow copy of a method of `JointEmbedding`; `forward` takes two views.

    With projections z, predictions q = p(z), embeddings k of the slow copy (no gradient), cosines s, temperature t:

        mocov3   (C(q, k') + C(q', k)) / 2,  C(q, k) = - mean_i log exp(s(q_i, k_i) / t) / sum_j exp(s(q_i, k_j) / t)
        byol     - mean_i (s(q_i, k'_i) + s(q'_i, k_i)) / 2
        barlow   sum_a (1 - c_aa)^2 + redundancy sum_{a != b} c_ab^2,  c = Z^T Z' / n, columns of mean 0 and variance 1

    The slow copy moves before its embeddings are made: by 1 - `keep` of the distance, which training sets at each step.
    Embeddings are given out as zeros where the features of the batch are equal up to rounding: the batch norm of these
    heads would make unlike directions of what is left.
    `gather` brings the embeddings of all processes together; heads behind it and the loss are then those of the whole
    batch in every process.

    Source: the papers. Differs: mocov3 is without the factor 2 t of the released code and has the mean of both
    directions for their sum, byol has minus the cosine for 2 - 2 cos: other rates, the same gradients' direction. Heads
    are lightly's; the last batch norm of its MoCo v3 head has scales and shifts, that of the released code none.
    """

    def __init__(
        self,
        encoder: nn.Module,
        features: int,
        settings: JointEmbedding,
        key: Key,
        gather: Callable[[Tensor], Tensor] = itself,
    ) -> None:
        super().__init__()
        parts = lightly_parts()
        self.settings, self.parts, self.encoder, self.gather = settings, parts, encoder, gather
        self.keep = settings.slow_at(0, 1)
        hidden, dim = settings.hidden or features, settings.dim
        self.prediction: nn.Module = nn.Identity()
        with random_numbers_of(key):
            if settings.method == "mocov3":
                head = parts.heads.MoCoProjectionHead
                self.projection: nn.Module = head(features, hidden, dim, num_layers=3, batch_norm=True)
                self.prediction = head(dim, hidden, dim, num_layers=2, batch_norm=True)
            elif settings.method == "byol":
                self.projection = parts.heads.BYOLProjectionHead(features, hidden, dim)
                self.prediction = parts.heads.BYOLPredictionHead(dim, hidden, dim)
            else:
                self.projection = parts.heads.BarlowTwinsProjectionHead(features, hidden, dim)
            if settings.method == "barlow":
                self.loss = parts.loss.BarlowTwinsLoss(settings.redundancy)
            else:
                self.slow = copy.deepcopy(nn.Sequential(self.encoder, self.projection))
                parts.utils.deactivate_requires_grad(self.slow)

    def forward(self, x1: Tensor, x2: Tensor) -> Step:
        """Loss and embeddings of two views (n, ...) of the same images."""
        if self.settings.method != "barlow":
            self.parts.utils.update_momentum(nn.ModuleList((self.encoder, self.projection)), self.slow, self.keep)
        f1, f2 = self.encoder(x1).float(), self.encoder(x2).float()
        z1, z2 = (self.gather(self.projection(f).float()) for f in (f1, f2))
        if self.settings.method == "barlow":
            return self._step(self.loss(z1, z2), z1, z2, f1)
        with torch.no_grad():
            k1, k2 = (self.gather(self.slow[1](self.slow[0](x).float()).float()) for x in (x1, x2))
        q1, q2 = self.prediction(z1), self.prediction(z2)
        return self._step((self._one_way(q1, k2) + self._one_way(q2, k1)) / 2, q1, k2, f1)

    @torch.no_grad()
    def _apart(self, features: Tensor) -> Tensor:
        f = self.gather(features.detach())
        return ((f - f.mean(0)).norm() > ROUNDING * f.norm()).float()

    def _step(self, loss: Tensor, first: Tensor, second: Tensor, features: Tensor) -> Step:
        apart = self._apart(features)
        return Step(loss, first.detach() * apart, second.detach() * apart)

    def _one_way(self, q: Tensor, k: Tensor) -> Tensor:
        q, k = functional.normalize(q, dim=1), functional.normalize(k, dim=1)
        if self.settings.method == "byol":
            return -(q * k).sum(1).mean()
        return functional.cross_entropy(q @ k.T / self.settings.temperature, torch.arange(len(q), device=q.device))

    def tensors(self) -> dict[str, Tensor]:
        """All weights and statistics by name."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}
