"""ResNet(m0): the ResNet-18 for small images with m0 filters in its first block, its training, and what is read of its
filters."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key
from featlearn.measure.clusters import spherical_kmeans, unit

STAGES = (1, 2, 3, 4)
SHARE = 6
"""A group has one filter of so many: a third of a cluster, if both are of one size."""


class Block(nn.Module):
    """Two 3 x 3 convolutions with norms, and what they are added to: the input, or a 1 x 1 convolution of it."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.two = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.past: nn.Module = nn.Identity()
        if stride > 1:
            past = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.past = nn.Sequential(past, nn.BatchNorm2d(outputs))

    def forward(self, x: Float[Tensor, "n i h w"]) -> Float[Tensor, "n o k l"]:
        """relu(f(x) + past(x))."""
        inner = functional.relu(self.norms[0](self.one(x)))
        return functional.relu(self.norms[1](self.two(inner)) + self.past(x))


class ResNet18(nn.Module):
    """ResNet-18 with `width` filters in its first block instead of 64, in proportion elsewhere, and one output.

    A 3 x 3 convolution in front without pooling, four stages of two blocks of width, 2, 4 and 8 width filters, strides
    1, 2, 2, 2, the mean over places, a linear map. Convolutions start as He et al. have them, N(0, 2 / (9 outputs)).

    Shapes: images (n, channels, height, width) -> (n).

    Source: emergence.figure20 (setting); the stem for small images is not in the text.

    Example:
        >>> ResNet18(1, 4, Key("demo"))(torch.zeros(5, 1, 14, 14)).shape
        torch.Size([5])
    """

    def __init__(self, channels: int, width: int, key: Key) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):  # layers draw from the global state: it is set, and comes back
            torch.manual_seed(key.seed)
            self.stem = nn.Conv2d(channels, width, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(width)
            self.stages = nn.ModuleList()
            inputs = width
            for stage in STAGES:
                outputs = width * 2 ** (stage - 1)
                self.stages.append(nn.Sequential(Block(inputs, outputs, min(stage, 2)), Block(outputs, outputs, 1)))
                inputs = outputs
            self.map = nn.Linear(inputs, 1)
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, " n"]:
        """The output, above 0 for +1."""
        x = functional.relu(self.norm(self.stem(x)))
        for stage in self.stages:
            x = stage(x)
        return self.map(x.mean((2, 3)))[:, 0]

    def last(self, stage: int) -> Tensor:
        """Weights (filters, inputs, 3, 3) of the last convolution of a stage, counted from 1."""
        return self.stages[stage - 1][1].two.weight  # pyright: ignore[reportIndexIssue, reportReturnType]

    def filters(self) -> dict[int, Float[Tensor, "m d"]]:
        """A copy of the weights of the last convolution of every stage, on the CPU, a filter a row."""
        return {stage: self.last(stage).detach().cpu().flatten(1).clone() for stage in STAGES}


@dataclass(frozen=True)
class History:
    """Filters by epoch and stage, and the mean gradients (3, filters, d) of the last one over the first, second and
    third ten steps."""

    filters: Mapping[int, Mapping[int, Tensor]]
    early: Float[Tensor, "3 m d"]


def train(
    net: ResNet18,
    x: Float[Tensor, "n c h w"],
    y: Float[Tensor, " n"],
    key: Key,
    *,
    epochs: int,
    batch: int,
    rate: float,
    momentum: float,
    keep: tuple[int, ...],
    trunk: int = 10,
) -> History:
    """Minimise the logistic loss by SGD in whole batches of a new order each epoch; the filters after the epochs in
    `keep` are copied, and the gradients of the last convolution averaged over three times `trunk` steps."""
    optimiser = torch.optim.SGD(net.parameters(), lr=rate, momentum=momentum)
    seen, step = {0: net.filters()}, 0
    last = net.last(STAGES[-1])
    early = torch.zeros(3, *last.flatten(1).shape, dtype=last.dtype, device=x.device)
    for epoch in range(1, epochs + 1):
        net.train()
        order = torch.randperm(len(y), generator=(key / epoch).torch()).to(x.device)
        for rows in order.split(batch):
            if len(rows) < batch:
                break
            optimiser.zero_grad()
            functional.softplus(-y[rows] * net(x[rows])).mean().backward()
            if step < 3 * trunk and last.grad is not None:
                early[step // trunk] += last.grad.flatten(1) / trunk
            optimiser.step()
            step += 1
        if epoch in keep:
            seen[epoch] = net.filters()
    return History(seen, early.cpu())


@torch.no_grad()
def accuracy(net: ResNet18, x: Float[Tensor, "n c h w"], y: Float[Tensor, " n"], batch: int = 1000) -> float:
    """Percent of the images whose label is the sign of the output, with the running statistics of the norms."""
    net.eval()
    right = sum(float(((net(a) > 0) == (b > 0)).sum()) for a, b in zip(x.split(batch), y.split(batch), strict=True))
    return 100 * right / len(y)


@dataclass(frozen=True)
class Groups:
    """Rows of the filters of both groups, and the filter of the first that is nearest to its centre."""

    green: Tensor
    red: Tensor
    nearest: int


def groups(filters: Float[Tensor, "m d"], key: Key) -> Groups:
    """Two groups of max(2, m // 6) filters each, instead of picking them by hand.

    Spherical 2-means splits the directions; the groups are the filters whose cosine with one centre exceeds that with
    the other most, and least. Green is the group of the larger cluster. Sizes are the same of every network of a width.
    """
    u, found = unit(filters), spherical_kmeans(filters, 2, key)
    first = int((found.labels == 0).sum() * 2 >= len(u))
    own, other = (found.centres[0], found.centres[1]) if first else (found.centres[1], found.centres[0])
    order = (u @ (own - other)).argsort(descending=True, stable=True)
    members = max(2, len(u) // SHARE)
    green, red = order[:members], order[-members:]
    centre = centre_of(u[green])
    return Groups(green, red, int(green[(u[green] @ centre).argmax()]))


def centre_of(u: Float[Tensor, "k d"]) -> Float[Tensor, " d"]:
    """The direction of the mean of unit vectors; 0 where they cancel."""
    mean = u.mean(0)
    return mean / mean.norm().clamp_min(1e-30)


def grouped(filters: Float[Tensor, "m d"], at: Groups) -> dict[str, float | int]:
    """Mean cosines of members with the centre of their group, of two members of one group, and of the two centres."""
    u = unit(filters)
    parts = [u[at.green], u[at.red]]
    centres = [centre_of(p) for p in parts]
    green, red = (float((p @ c).mean()) for p, c in zip(parts, centres, strict=True))
    k = len(at.green)
    within = [float((p.sum(0).square().sum() - k) / (k * (k - 1))) for p in parts]
    between = float((centres[0] @ centres[1]).clamp(-1, 1))
    means = {"to_centre": (green + red) / 2, "within": max(-1.0, min(1.0, sum(within) / 2))}
    return {"members": k, "green": min(green, 1.0), "red": min(red, 1.0), **means, "centres": between}


def table7(v: Float[Tensor, "k 3 d"]) -> Float[Tensor, "k 9"]:
    """Six cosines in the order of Table 7, with the mean and between v1, v2 and v3, and the norms over their sum."""
    v = v.double()
    w = torch.cat([v, v.mean(1, keepdim=True)], 1)
    norm = w.norm(dim=2)
    u = w / norm.clamp_min(1e-30)[:, :, None]
    gram = (u @ u.mT).clamp(-1, 1)
    places = ((0, 3), (1, 3), (2, 3), (0, 1), (0, 2), (1, 2))
    cosines = torch.stack([gram[:, i, j] for i, j in places], 1)
    return torch.cat([cosines, norm[:, :3] / norm[:, :3].sum(1, keepdim=True).clamp_min(1e-30)], 1)


def mixed(early: Float[Tensor, "3 m d"], key: Key, draws: int = 200) -> Float[Tensor, "k 3 d"]:
    """v1, v2 and v3 of three different filters, for drawn triples of them."""
    m, rng = early.shape[1], key.numpy()
    triples = torch.from_numpy(np.stack([rng.permutation(m)[:3] for _ in range(draws)]))
    return torch.stack([early[i][triples[:, i]] for i in range(3)], 1)
