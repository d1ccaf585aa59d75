"""Two classes of real images, by name, with their own labels or balanced shuffled ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.data import digits, fashion_mnist, labelled_images, mnist
from featlearn.works.emergence.rows_images import Labels, Pair

PAIRS: tuple[Pair, ...] = get_args(Pair)
GREY = {"MNIST": mnist, "digits": digits}
NEEDED = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist", "CIFAR-10": "cifar10", "SVHN": "svhn", "digits": ""}
EDGES = {"MNIST": 28, "Fashion-MNIST": 28, "CIFAR-10": 32, "SVHN": 32, "digits": 8}
"""Pixels of an edge as published."""
FASHION = {"t-shirt/trouser": (0, 1), "pullover/coat": (2, 4)}


@dataclass(frozen=True)
class Two:
    """Images (n, c, h, w) in [0, 1] of two classes, y = +1 for the first that is named and -1 for the other."""

    x: Float[Tensor, "n c h w"]
    y: Float[Tensor, " n"]
    x_test: Float[Tensor, "k c h w"]
    y_test: Float[Tensor, " k"]


def set_of(pair: Pair) -> tuple[str, str]:
    """The data set and the two classes.

    Example:
        >>> set_of("MNIST 4/9")
        ('MNIST', '4/9')
    """
    name, _, classes = pair.partition(" ")
    return name, classes


def needs(pair: Pair) -> tuple[str, ...]:
    """Names of what `featlearn data` brings, or asks a folder for."""
    needed = NEEDED[set_of(pair)[0]]
    return (needed,) if needed else ()


def check_pairs(pairs: Sequence[Pair], size: int = 0) -> None:
    """Refuse no pairs, unknown ones, one that is named twice, and an edge that is not that of a set or half of it."""
    if not pairs or len(set(pairs)) < len(pairs) or not set(pairs) <= set(PAIRS):
        raise SettingError("pairs", tuple(pairs), f"different ones of {', '.join(PAIRS)}", "digits need no download")
    for pair in pairs:
        edge = EDGES[set_of(pair)[0]]
        if size and size not in (edge, edge // 2):
            raise SettingError("size", size, f"{edge // 2} or {edge} for {pair}", "half the edge suits a CPU")


@lru_cache(maxsize=2)
def loaded(pair: Pair, size: int = 0) -> Two:
    """All images of the pair; size: of an edge, half of the published one by means of squares, 0 for all pixels.

    Errors: DataError with the command that fetches them, or with what is needed of yours.
    """
    parts: list[Tensor] = []
    for split in ("train", "test"):
        x, y = _split(pair, split)
        parts += [functional.avg_pool2d(x, x.shape[-1] // size) if size else x, 1.0 - 2.0 * y]
    return Two(*parts)


def _split(pair: Pair, split: str) -> tuple[Tensor, Tensor]:
    """Images (n, c, h, w) and 0 or 1 (n)."""
    name, classes = set_of(pair)
    if name in ("CIFAR-10", "SVHN"):
        found = labelled_images(NEEDED[name], split=split)
        one, two = (found.labels.index(c) for c in classes.split("/"))
        rows = ((found.y == one) | (found.y == two)).nonzero().flatten()
        return found.floats(rows), (found.y[rows] == two).float()
    grey: Any
    if name == "Fashion-MNIST":
        grey = fashion_mnist(classes=FASHION[classes], split=split)
    else:
        one, two = (int(c) for c in classes.split("/"))
        grey = GREY[name](digits=(one, two), split=split)
    return grey.x.view(-1, 1, *grey.shape), grey.y.float()


def sample(two: Two, n: int, tested: int, key: Key) -> Two:
    """At most n training and `tested` test images, drawn by the key, half of them of each class."""
    parts: list[Tensor] = []
    for x, y, most, name in ((two.x, two.y, n, "train"), (two.x_test, two.y_test, tested, "test")):
        kept: list[Tensor] = []
        for sign in (1.0, -1.0):
            rows = (y == sign).nonzero().flatten()
            order = torch.randperm(len(rows), generator=(key / name / int(sign > 0)).torch())
            kept.append(rows[order[: most // 2]])
        rows = torch.cat(kept).sort().values
        parts += [x[rows], y[rows]]
    return Two(*parts)


def labels_of(y: Float[Tensor, " n"], labels: Labels, key: Key) -> Float[Tensor, " n"]:
    """The labels themselves, or shuffled within each class so that half of it gets either: they say nothing about it.

    Of an odd class +1 has one more in the first class, and -1 in the other.

    Example:
        >>> labels_of(torch.tensor([1.0, 1.0, -1.0, -1.0]), "shuffled", Key("demo")).sum()
        tensor(0.)
    """
    if labels == "true":
        return y
    out = torch.empty_like(y)
    for sign in (1.0, -1.0):
        rows = (y == sign).nonzero().flatten()
        order = torch.randperm(len(rows), generator=(key / int(sign > 0)).torch())
        half = len(rows) // 2 if sign < 0 else -(-len(rows) // 2)
        out[rows[order[:half]]], out[rows[order[half:]]] = 1.0, -1.0
    return out
