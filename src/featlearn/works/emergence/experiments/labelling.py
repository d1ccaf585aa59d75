"""Networks that label inputs for others: images, Gaussian inputs like them, FC(m) and ResNet(m), training with the
balance regulariser.

Pixels are centred one by one and divided by one number, the root of their mean variance, both of the training images of
the set. Injected Gaussian inputs have the mean and the variance of each pixel of these images, independent, not
clipped. Other images are moved and divided by the same numbers as the set's.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.data import digits, fashion_mnist, labelled_images, mnist
from featlearn.learn.balance import regulariser
from featlearn.works.emergence.experiments.resnet import ResNet18
from featlearn.works.emergence.rows_teachers import Injected, Net, Target

CLASSES = 10
NAMES: dict[Target, str] = {
    "digits": "",
    "MNIST": "mnist",
    "Fashion-MNIST": "fashion-mnist",
    "CIFAR-10": "cifar10",
    "SVHN": "svhn",
}
"""What `featlearn data` calls them; the digits are bundled."""
OTHERS = {
    "digits": "",
    "MNIST": "fashion-mnist",
    "Fashion-MNIST": "mnist",
    "CIFAR-10": "tiny-imagenet",
    "SVHN": "tiny-imagenet",
}
"""Other images of each set; the digits have themselves, turned by 90 degrees."""
EDGES: dict[Target, tuple[int, ...]] = {
    "digits": (8,),
    "MNIST": (14, 28),
    "Fashion-MNIST": (14, 28),
    "CIFAR-10": (32,),
    "SVHN": (32,),
}
"""Pixels of an edge that each set can have."""
MOST = {"digits": 1348, "MNIST": 60_000, "Fashion-MNIST": 60_000, "CIFAR-10": 50_000, "SVHN": 73_257}
TESTED = {"digits": 449, "MNIST": 10_000, "Fashion-MNIST": 10_000, "CIFAR-10": 10_000, "SVHN": 10_000}
"""Training images at most, and test images, of a set and of the other images."""


def needs(target: Target, injected: Collection[Injected]) -> tuple[str, ...]:
    """Names of what `featlearn data` brings, or asks a folder for."""
    wanted = (NAMES[target], OTHERS[target] if "images" in injected else "")
    return tuple(name for name in wanted if name)


@lru_cache(maxsize=4)
def loaded(name: str, size: int, split: Literal["train", "test"]) -> tuple[Float[Tensor, "n c h w"], Int[Tensor, " n"]]:
    """All images of a set in [0, 1], grey ones made smaller by means of squares, and their classes; "" for the digits.

    Errors: DataError with the command that fetches it, or for a folder that is not here.
    """
    if name in ("cifar10", "svhn"):
        held = labelled_images(name, split=split)
        return held.floats(), held.y
    if name == "tiny-imagenet":
        held = labelled_images(name, split={"train": "train", "test": "val"}[split], size=size)
        return held.floats(), held.y
    classes = tuple(range(CLASSES))
    if name == "fashion-mnist":
        found = fashion_mnist(split=split, classes=classes)
    else:
        found = {"": digits, "mnist": mnist}[name](split=split, digits=classes)
    x = found.x.view(-1, 1, *found.shape)
    return functional.avg_pool2d(x, found.shape[0] // size), found.y


@dataclass(frozen=True)
class Inputs:
    """Inputs as networks read them: images of the set with their classes and injected ones without, to train on, and
    fresh ones of both."""

    x: Float[Tensor, "n c h w"]
    y: Int[Tensor, " n"]
    u: Float[Tensor, "n c h w"]
    x_new: Float[Tensor, "k c h w"]
    y_new: Int[Tensor, " k"]
    u_new: Float[Tensor, "k c h w"]


def drawn(target: Target, injected: Injected, size: int, n: int, tested: int, key: Key) -> Inputs:
    """n images of the set, as many injected inputs, and `tested` fresh ones of each, of the published test images.

    Images of the set depend on the key and not on what is injected.
    """
    (x, y), (x_new, y_new) = (_some(*loaded(NAMES[target], size, s), m, key / s) for s, m in splits(n, tested))
    mean = x.mean(0)
    deviation = (x - mean).square().mean(0).sqrt()
    scale = deviation.square().mean().sqrt()
    if injected == "Gaussian":
        shape = (n + tested, *x.shape[1:])
        both = deviation / scale * torch.randn(shape, generator=(key / "gaussian").torch())
        u, u_new = both[:n], both[n:]
    else:
        turned = (lambda v: v.rot90(1, (2, 3))) if target == "digits" else (lambda v: v)
        others = [_some(*loaded(OTHERS[target], size, s), m, key / "others" / s)[0] for s, m in splits(n, tested)]
        u, u_new = ((turned(v) - mean) / scale for v in others)
    return Inputs((x - mean) / scale, y, u, (x_new - mean) / scale, y_new, u_new)


def splits(n: int, tested: int) -> tuple[tuple[Literal["train", "test"], int], ...]:
    """How many of which split."""
    return ("train", n), ("test", tested)


def _some(x: Tensor, y: Tensor, n: int, key: Key) -> tuple[Tensor, Tensor]:
    rows = torch.from_numpy(key.numpy().permutation(len(x)))[:n]
    return x[rows], y[rows]


# --- networks --------------------------------------------------------------------------------------------------------


class FC(nn.Module):
    """FC(m): one hidden layer with the square as activation, and biases.

        f_c(x) = sum_j a_cj (w_j . x + b_j)^2 + c_c;    at the start w ~ N(0, 1/d), a ~ N(0, 1/m), biases 0

    Shapes: images (n, c, h, w), d = c h w -> scores (n, 10); m (d + 11) + 10 parameters.

    Source: E.5.2, "one-hidden-layer fully-connected networks with m hidden units and quadratic activation"; biases and
    start are not stated.

    Example:
        >>> FC(4, 3, Key("demo"))(torch.zeros(2, 1, 2, 2)).tolist() == torch.zeros(2, 10).tolist()
        True
    """

    def __init__(self, d: int, m: int, key: Key) -> None:
        super().__init__()
        g = key.torch()
        self.w = nn.Parameter(torch.randn(m, d, generator=g) / d**0.5)
        self.a = nn.Parameter(torch.randn(CLASSES, m, generator=g) / m**0.5)
        self.b, self.c = nn.Parameter(torch.zeros(m)), nn.Parameter(torch.zeros(CLASSES))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Scores."""
        return (x.flatten(1) @ self.w.mT + self.b).square() @ self.a.mT + self.c


class ResNet(ResNet18):
    """ResNet(m): the ResNet-18 for small images with m filters in its first block, and a score for each class.

    Shapes: images (n, channels, h, w) -> scores (n, 10).

    Source: E.5.2; the front for small images is not stated.

    Example:
        >>> ResNet(1, 2, Key("demo"))(torch.zeros(3, 1, 14, 14)).shape
        torch.Size([3, 10])
    """

    def __init__(self, channels: int, m: int, key: Key) -> None:
        super().__init__(channels, m, key)
        with torch.random.fork_rng(devices=[]):  # layers draw from the global state: it is set, and comes back
            torch.manual_seed((key / "map").seed)
            self.map = nn.Linear(self.map.in_features, CLASSES)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k"]:
        """Scores."""
        x = functional.relu(self.norm(self.stem(x)))
        for stage in self.stages:
            x = stage(x)
        return self.map(x.mean((2, 3)))


def built(net: Net, m: int, x: Float[Tensor, "n c h w"], key: Key) -> nn.Module:
    """A network of size m for such images, at its start, on their device."""
    made = FC(x[0].numel(), m, key) if net == "FC" else ResNet(x.shape[1], m, key)
    return made.to(x.device)


# --- training --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """Adam on the cross-entropy, whole batches of a new order in each epoch, a rate that falls linearly to 0.

    rate: at the start, of FC(m) over the root of m, so that a step changes scores of all sizes alike. weight, mixing:
    of R = R1 + mixing R2 beside the cross-entropy, and of R2 in it, where there are inputs to balance.
    """

    epochs: int
    batch: int
    rate: float
    weight: float = 0.0
    mixing: float = 0.0

    def steps(self, n: int) -> int:
        """On n examples."""
        return self.epochs * (n // self.batch)


def train(
    net: nn.Module,
    x: Float[Tensor, "n c h w"],
    y: Int[Tensor, " n"],
    settings: Training,
    key: Key,
    balance: Float[Tensor, "n c h w"] | None = None,
    watch: Callable[[int], None] | None = None,
) -> nn.Module:
    """The network itself, trained on n examples; with `balance` also with R on as many inputs without labels, which it
    reads in one batch with the others. `watch` is called after every step with its number, from 1."""
    optimiser = torch.optim.Adam(net.parameters())
    rate = settings.rate / (len(net.w) ** 0.5 if isinstance(net, FC) else 1.0)
    last, step = settings.steps(len(y)), 0
    for epoch in range(settings.epochs):
        order = torch.from_numpy((key / epoch).numpy().permutation(len(y)))[: last // settings.epochs * settings.batch]
        for rows in order.to(x.device).split(settings.batch):
            for group in optimiser.param_groups:
                group["lr"] = rate * (1 - step / last)
            net.train()
            optimiser.zero_grad()
            if balance is None:
                loss = functional.cross_entropy(net(x[rows]), y[rows])
            else:
                own, other = net(torch.cat([x[rows], balance[rows]])).split(len(rows))
                one, two = regulariser(other.softmax(1))
                loss = functional.cross_entropy(own, y[rows]) + settings.weight * (one + settings.mixing * two)
            loss.backward()
            optimiser.step()
            step += 1
            if watch is not None:
                watch(step)
    return net


@torch.no_grad()
def scores(net: nn.Module, x: Float[Tensor, "n c h w"], batch: int = 1000) -> Float[Tensor, "n k"]:
    """Of all inputs, with the running statistics of norms."""
    net.eval()
    return torch.cat([net(part) for part in x.split(batch)])


def labels(net: nn.Module, x: Float[Tensor, "n c h w"]) -> Int[Tensor, " n"]:
    """The class of the largest score."""
    return scores(net, x).argmax(1)


def agreement(found: Int[Tensor, " n"], y: Int[Tensor, " n"]) -> float:
    """Percent that agree."""
    return 100 * float((found == y).double().mean())


def largest(y: Int[Tensor, " n"]) -> float:
    """The share of the most frequent label in percent."""
    return 100 * float(y.bincount().max()) / len(y)


def divergence(share: Float[Tensor, " k"]) -> float:
    """Kullback-Leibler divergence of shares from uniform, in nats.

    Example:
        >>> round(divergence(torch.tensor([0.5, 0.5, 0.0, 0.0])), 4)
        0.6931
    """
    share = share.double() / share.double().sum()
    return max(0.0, float(torch.xlogy(share, share * len(share)).sum()))


def shares(y: Int[Tensor, " n"]) -> Float[Tensor, " k"]:
    """Of all classes among labels."""
    return y.bincount(minlength=CLASSES).double() / len(y)


def check_set(target: Target, size: int, **counts: int) -> None:
    """Refuse sets, edges of pixels and numbers of images that are not there.

    counts: by the name of the field; `tested` is of the test images, others of the training images.
    """
    if target not in NAMES:
        raise SettingError("target", target, f"one of {', '.join(NAMES)}", "digits need no download")
    if size not in EDGES[target]:
        raise SettingError("size", size, f"one of {EDGES[target]} for {target}", "14 suits a CPU, digits have 8")
    for name, value in counts.items():
        most = (TESTED if name == "tested" else MOST)[target]
        if not 1 <= value <= most:
            raise SettingError(name, value, f"1 to {most} for {target}", "lower it")


def check_training(n: int, settings: Training, prefix: str = "") -> None:
    """Refuse a training that cannot be; `prefix` stands before the names of the fields."""
    if settings.epochs < 1:
        raise SettingError(f"{prefix}epochs", settings.epochs, "at least 1", "see the default")
    if not 2 <= settings.batch <= n:
        raise SettingError(f"{prefix}batch", settings.batch, f"2 to {n} images", "200 is the default")
    if not settings.rate > 0:
        raise SettingError(f"{prefix}rate", settings.rate, "above 0", "see the default")
    for name, value in (("weight", settings.weight), ("mixing", settings.mixing)):
        if not value >= 0:
            raise SettingError(name, value, "at least 0", "0 leaves the regulariser out")
