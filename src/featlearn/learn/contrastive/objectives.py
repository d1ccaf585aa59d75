"""The losses and heads of five contrastive methods around any encoder, from lightly's parts."""

import contextlib
import copy
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.core.check import checked
from featlearn.learn.contrastive.settings import Contrastive

INSTALL = "pip install 'featlearn[contrastive]'"


def lightly_parts() -> Any:
    """lightly's modules `loss`, `heads`, `banks` and `utils` as attributes of one object.

    Errors: SettingError where lightly is not installed.
    """
    try:
        from lightly import loss
        from lightly.models import modules, utils
        from lightly.models.modules import heads
    except ModuleNotFoundError as why:
        if why.name not in ("lightly", "torchvision", "pytorch_lightning", "hydra"):
            raise
        raise SettingError("method", "of contrastive learning", "available with lightly", INSTALL) from None
    return _Parts(loss, heads, modules, utils)


@dataclass(frozen=True)
class _Parts:
    loss: Any
    heads: Any
    modules: Any
    utils: Any


@contextlib.contextmanager
def random_numbers_of(key: Key, device: torch.device | None = None) -> Generator[None, None, None]:
    """Layers, dropout and lightly's queues draw from torch's global state: it is set from the key, and comes back."""
    devices = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(key.seed)
        yield


@dataclass(frozen=True)
class Step:
    """Of one batch: the loss with its gradient, and the embeddings of both views (n, dim) that it compares."""

    loss: Tensor
    first: Float[Tensor, "n k"]
    second: Float[Tensor, "n k"]


class Objective(nn.Module):
    """An encoder with the heads, slow copies and queues of a method; `forward` takes two views.

    NT-Xent (lightly's NTXentLoss), over both views of all images, cosines s and temperature t:

        L = - (1 / 2n) sum_i log exp(s(z_i, z_i+) / t) / sum_{j != i} exp(s(z_i, z_j) / t)

    simclr: L of the projections. moco: the denominator holds the positive and the queue; keys are embeddings of a slow
    copy, updated before they are made, and enter the queue after use. nnclr: z_i is the nearest neighbour of a
    projection in the queue and z_i+ a prediction, both ways, half each. simsiam: minus the cosine of the prediction of
    one view with the projection of the other, which has no gradient, both ways, half each. simcse: the denominator
    holds the other views alone, one way.

    Views pass the encoder one after the other, so that batch norm sees each alone, as in lightly's own loops.
    Embeddings are compared in float32.

    Source: the papers of the methods; thesis F.3.2. Differs: the released code of the thesis sums both directions of
    moco, where version 2 as published, and this, takes one; lightly has no simcse, whose loss is written out here.
    """

    def __init__(self, encoder: nn.Module, features: int, settings: Contrastive, key: Key) -> None:
        super().__init__()
        parts = lightly_parts()
        self.settings, self.parts, self.encoder = settings, parts, encoder
        hidden, dim = settings.hidden or features, settings.dim if settings.head == "mlp" else features
        self.projection: nn.Module = nn.Identity()
        self.prediction: nn.Module = nn.Identity()
        with random_numbers_of(key):
            if settings.method == "nnclr":
                self.projection = parts.heads.NNCLRProjectionHead(features, hidden, dim)
                self.prediction = parts.heads.NNCLRPredictionHead(dim, hidden, dim)
            elif settings.method == "simsiam":
                self.projection = parts.heads.SimSiamProjectionHead(features, hidden, dim)
                self.prediction = parts.heads.SimSiamPredictionHead(dim, max(dim // 4, 1), dim)
            elif settings.head == "mlp" and settings.method == "simcse":
                self.projection = nn.Sequential(nn.Linear(features, dim), nn.Tanh())
            elif settings.head == "mlp":
                kind = (
                    parts.heads.SimCLRProjectionHead if settings.method == "simclr" else parts.heads.MoCoProjectionHead
                )
                self.projection = kind(features, hidden, dim)
            if settings.method == "moco":
                self.slow = copy.deepcopy(nn.Sequential(self.encoder, self.projection))
                parts.utils.deactivate_requires_grad(self.slow)
                self.loss = parts.loss.NTXentLoss(settings.heat, memory_bank_size=(settings.queue, dim))
            elif settings.method == "nnclr":
                self.neighbours = parts.modules.NNMemoryBankModule(size=(settings.queue, dim))
                self.loss = parts.loss.NTXentLoss(settings.heat)
            elif settings.method == "simsiam":
                self.loss = parts.loss.NegativeCosineSimilarity()
            elif settings.method == "simclr":
                self.loss = parts.loss.NTXentLoss(settings.heat)

    def forward(self, x1: Tensor, x2: Tensor) -> Step:
        """Loss and embeddings of two views (n, ...) of the same images."""
        method = self.settings.method
        if method == "moco":
            fast = nn.ModuleList((self.encoder, self.projection))
            self.parts.utils.update_momentum(fast, self.slow, self.settings.slow)
            q = self._embedded(x1)
            with torch.no_grad():
                k = self.slow(x2).float()
            return Step(self.loss(q, k), q, k)
        z1, z2 = self._embedded(x1), self._embedded(x2)
        if method == "simclr":
            return Step(self.loss(z1, z2), z1, z2)
        if method == "simcse":
            return Step(simcse_loss(z1, z2, self.settings.heat), z1, z2)
        p1, p2 = self.prediction(z1), self.prediction(z2)
        if method == "simsiam":
            return Step((self.loss(p1, z2.detach()) + self.loss(p2, z1.detach())) / 2, z1, z2)
        n1 = self.neighbours(z1.detach(), update=False)
        n2 = self.neighbours(z2.detach(), update=True)
        return Step((self.loss(n1, p2) + self.loss(n2, p1)) / 2, z1, z2)

    def _embedded(self, x: Tensor) -> Tensor:
        return self.projection(self.encoder(x)).float()

    def tensors(self) -> dict[str, Tensor]:
        """All weights, statistics and queues by name; lightly leaves its queues out of `state_dict`."""
        return {**dict(self.named_parameters()), **dict(self.named_buffers())}


@checked()
def simcse_loss(first: Float[Tensor, "n k"], second: Float[Tensor, "n k"], temperature: float) -> Float[Tensor, ""]:
    """Loss of unsupervised SimCSE: which of the second embeddings belongs to each first one.

        - (1 / n) sum_i log exp(s_ii / t) / sum_j exp(s_ij / t),   s_ij the cosine of first i and second j

    Shapes: (n, k) and (n, k) -> (). Source: Gao et al. 2021, equation 4, as the thesis uses it (F.3.4).
    Errors: SettingError for one row, and a temperature that is not above 0.

    Example:
        >>> simcse_loss(torch.eye(2), torch.ones(2, 2), 0.05)
        tensor(0.6931)
    """
    if len(first) < 2:
        raise SettingError("first", "of one row", "two rows or more", "an embedding alone has no negatives")
    if not 0 < temperature < float("inf"):
        raise SettingError("temperature", temperature, "above 0 and finite", "0.05 is usual")
    s = functional.normalize(first, dim=1) @ functional.normalize(second, dim=1).T
    return functional.cross_entropy(s / temperature, torch.arange(len(first), device=first.device))


@checked()
def matched_share(first: Float[Tensor, "n k"], second: Float[Tensor, "n k"]) -> float:
    """Share of rows whose own second embedding has the largest cosine among all second ones; ties count in part.

    Shapes: (n, k) and (n, k) -> a share; 1/n where all embeddings are equal, which is chance.

    Example:
        >>> matched_share(torch.eye(3), torch.eye(3)), round(matched_share(torch.ones(4, 2), torch.ones(4, 2)), 2)
        (1.0, 0.25)
    """
    s = functional.normalize(first.double(), dim=1) @ functional.normalize(second.double(), dim=1).T
    own = s.diagonal()[:, None]
    close = 1e-6  # embeddings of float32
    ties = ((s - own).abs() <= close).sum(1)
    return float(((s <= own + close).all(1) / ties).mean())


@checked()
def spread_of(embeddings: Float[Tensor, "n k"]) -> tuple[float, float]:
    """(spread, effective rank) of embeddings (n, k): whether they have collapsed.

        spread = sqrt(k) mean_j std_i(u_ij),  u_i = z_i / |z_i|;   rank = exp(- sum p log p),  p = s^2 / sum s^2

    s are the singular values of the centred u. The spread is 1 for directions that are uniform on the sphere, 0 for one
    direction; the rank is between 1 and k, and 0 where all rows are equal.

    Source: Chen and He 2021 (std of normalised outputs, near 1 / sqrt(k)); Roy and Vetterli 2007, of s^2 in place of s.

    Example:
        >>> spread_of(torch.ones(5, 3))
        (0.0, 0.0)
    """
    u = functional.normalize(embeddings.double(), dim=1)
    u = u - u.mean(0)
    spread = float(embeddings.shape[1] ** 0.5 * u.square().mean(0).sqrt().mean())
    gram = u.T @ u if u.shape[1] <= len(u) else u @ u.T
    energy = torch.linalg.eigvalsh(gram).clamp(min=0)
    if float(energy.sum()) < 1e-12 * len(u):
        return 0.0 if spread < 1e-6 else spread, 0.0
    p = energy / energy.sum()
    return spread, float(torch.exp(-torch.special.xlogy(p, p).sum()))
