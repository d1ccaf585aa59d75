"""What both image experiments share: sources of small images, encoders, pretraining and linear probes.

A source is a data set, or one that is turned by 90 degrees, inverted or mirrored, so that its classes are the same and
its pixels are not. Sources of one data set are made of different images.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.data import digits, fashion_mnist, mnist
from featlearn.learn import Adaptation, label_share, linear_probe
from featlearn.learn.contrastive import Contrastive, Pretrained, features_of, pretrain
from featlearn.nets import SmallEncoder, SmallResNet
from featlearn.works._settings import check_counts
from featlearn.works.tradeoff.rows_images import Method, Source, Target

SOURCES: dict[Target, tuple[Source, ...]] = {
    "MNIST": ("MNIST", "Fashion-MNIST", "Fashion-MNIST turned", "Fashion-MNIST inverted"),
    "Fashion-MNIST": ("Fashion-MNIST", "MNIST", "MNIST turned", "MNIST inverted"),
    "digits": ("digits", "digits turned", "digits inverted", "digits mirrored"),
}
"""The sources of each target in the order in which they are added; the first is the target's own."""
CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "turned": lambda x: x.rot90(1, (2, 3)),
    "inverted": lambda x: 1 - x,
    "mirrored": lambda x: x.flip(3),
}
CLASSES = tuple(range(10))
PROBE = Adaptation(solver="lbfgs", standardise=True, weight_decay=1e-3)
"""Of every linear probe, fixed before any row."""
MOST = {"MNIST": 15_000, "Fashion-MNIST": 15_000, "digits": 300}
"""Images of a source at most: three or four of them come from one data set, and some are left for validation."""
HELD = {"MNIST": 10_000, "Fashion-MNIST": 10_000, "digits": 140}
"""Test images at most, and as many training images for validation."""


@dataclass(frozen=True, kw_only=True)
class Common:
    """What is pretrained, and how it is measured."""

    method: Method = "simclr"
    """Contrastive method: simclr or moco."""
    encoder: Literal["small", "resnet18"] = "small"
    """Three convolutions, or the ResNet-18 for small images."""
    width: int = 8
    """Channels of the first convolution of the small encoder."""
    features: int = 32
    """Features of the small encoder, few, so that sources compete for them; the ResNet-18 has 512."""
    size: int = 14
    """Pixels of an edge: 28, or 14 by means of squares; digits have 8."""
    n: int = 2560
    """Unlabelled images of each source; in fixed mixtures of all sources together."""
    epochs: int = 15
    """Passes of pretraining over its images, whatever their number."""
    batch: int = 256
    """Images a step, of pretraining and of fine-tuning."""
    queue: int = 1024
    """Embeddings in the queue of moco."""
    labelled: int = 5000
    """Labelled training images of each source, all of its labels."""
    tested: int = 2000
    """Test images of each source."""
    shares: tuple[float, ...] = (0.01, 0.1, 1.0)
    """Shares of the target's labels."""
    device: str = "cpu"
    """cpu or cuda."""


SIZES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"targets": ("digits",), "size": 8, "batch": 64, "queue": 128, "shares": (0.2, 1.0), "seeds": (0, 1)},
    "cpu": {
        "targets": ("MNIST", "Fashion-MNIST"),
        "width": 16,
        "n": 10_240,
        "queue": 4096,
        "labelled": 10_000,
        "tested": 10_000,
        "seeds": (0, 1, 2, 3, 4),
    },
    "paper": {
        "method": "moco",
        "encoder": "resnet18",
        "size": 28,
        "n": 10_240,
        "epochs": 40,
        "queue": 4096,
        "labelled": 10_000,
        "tested": 10_000,
        "device": "cuda",
    },
}
"""Settings by preset that both experiments have."""


def check_common(c: Common, targets: Sequence[str]) -> None:
    """Refuse settings that cannot be."""
    check_counts(c, "epochs", "tested", "labelled", "width", "features", "queue")
    if not targets or len(set(targets)) < len(targets) or not set(targets) <= set(SOURCES):
        raise SettingError("targets", targets, f"different ones of {', '.join(SOURCES)}", "digits need no download")
    for name, known, remedy in (
        ("method", get_args(Method), "simclr learns in fewer steps"),
        ("encoder", ("small", "resnet18"), "small suits a CPU"),
    ):
        if getattr(c, name) not in known:
            raise SettingError(name, getattr(c, name), f"one of {', '.join(known)}", remedy)
    for target in targets:
        sizes = (8,) if target == "digits" else (14, 28)
        if c.size not in sizes:
            raise SettingError("size", c.size, f"one of {sizes} for {target}", "14 suits a CPU")
        for name, most in (("n", MOST), ("labelled", MOST), ("tested", HELD)):
            if getattr(c, name) > most[target]:
                remedy = "sources of one data set are made of different images"
                raise SettingError(name, getattr(c, name), f"at most {most[target]} for {target}", remedy)
    if not 2 <= c.batch <= c.n:
        raise SettingError("batch", c.batch, f"2 to n = {c.n}", "256 is usual")
    if c.method == "moco" and not 1 <= c.queue <= c.n:
        raise SettingError("queue", c.queue, f"1 to n = {c.n}", "a longer one holds an image as its own negative")
    if not c.shares or list(c.shares) != sorted(set(c.shares)) or not c.shares[0] > 0 or c.shares[-1] != 1:
        raise SettingError("shares", c.shares, "ascending, above 0, up to 1", "0.01 0.1 1 is the default")
    if c.shares[0] * c.labelled < 15:
        remedy = "every class needs a label: raise `labelled`"
        raise SettingError("shares", c.shares[0], f"15 labels of {c.labelled} or more", remedy)


def common_of(config: Common) -> dict[str, Any]:
    """The settings that a trial takes from its experiment's."""
    return {f.name: getattr(config, f.name) for f in fields(Common)}


@dataclass(frozen=True)
class Part:
    """A source as images (n, 1, h, w) in [0, 1] with classes: to train on, to test on, and others for validation."""

    name: Source
    x: Float[Tensor, "n 1 h w"]
    y: Int[Tensor, " n"]
    x_test: Float[Tensor, "m 1 h w"]
    y_test: Int[Tensor, " m"]
    x_held: Float[Tensor, "m 1 h w"]
    y_held: Int[Tensor, " m"]


@lru_cache(maxsize=4)
def loaded(name: str, size: int, split: str) -> tuple[Tensor, Tensor]:
    """All images of a data set (n, 1, size, size) and their classes.

    Errors: DataError with the command that fetches it.
    """
    load = {"MNIST": mnist, "Fashion-MNIST": fashion_mnist, "digits": digits}[name]
    found = load(split=split, **{"classes" if name == "Fashion-MNIST" else "digits": CLASSES})
    x = found.x.view(-1, 1, *found.shape)
    return functional.avg_pool2d(x, found.shape[0] // size), found.y


def sources(c: Common, target: Target, key: Key) -> list[Part]:
    """The sources of a target, each of its own images, drawn by the key."""
    block, parts, used = max(c.n, c.labelled), [], {str(name): 0 for name in SOURCES}
    for source in SOURCES[target]:
        name, _, change = source.partition(" ")
        changed = CHANGES[change]
        (x, y), (x_test, y_test) = (loaded(name, c.size, split) for split in ("train", "test"))
        order = torch.from_numpy((key / "images" / name).numpy().permutation(len(y)))
        rows, held = order[used[name] : used[name] + block], order[len(order) - c.tested :]
        used[name] += block
        test = torch.from_numpy((key / "test" / name).numpy().permutation(len(y_test)))[: c.tested]
        parts.append(
            Part(source, changed(x[rows]), y[rows], changed(x_test[test]), y_test[test], changed(x[held]), y[held])
        )
    return parts


def start(c: Common, key: Key) -> nn.Module:
    """An encoder at its random start."""
    if c.encoder == "resnet18":
        return SmallResNet(1, key)
    return SmallEncoder(1, key, width=c.width, features=c.features)


def pretrained(c: Common, encoder: nn.Module, images: Tensor, key: Key, epochs: int = 0) -> Pretrained:
    """Pretraining with the loss on the features themselves, as the released code has it for MoCo."""
    settings = Contrastive(c.method, epochs=epochs or c.epochs, batch=c.batch, queue=c.queue, head="none")
    return pretrain(encoder, images, settings, key=key, device=c.device)


def features(c: Common, encoder: nn.Module, x: Tensor) -> Float[Tensor, "n d"]:
    """Features, computed on the device, on the CPU."""
    found = features_of(encoder.to(c.device), x.to(c.device)).cpu()
    encoder.cpu()
    return found


def probe(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], share: float, key: Key, draws: int = 1) -> float:
    """Test accuracy in percent of linear probes on features with a share of their labels, mean over draws of them."""
    f, y = train
    found: list[float] = []
    for draw in range(draws if share < 1 else 1):
        rows = label_share(y, share, key / draw)
        run = linear_probe(nn.Identity(), f[rows], y[rows], PROBE, key=key / draw, watch={"test": test}, classes=10)
        found.append(100 * run.accuracy["test"])
    return sum(found) / len(found)


def needs(target: str) -> tuple[str, ...]:
    """Names of what `featlearn data fetch` brings."""
    return () if target == "digits" else ("mnist", "fashion-mnist")


def seconds_a_step(c: Common) -> float:
    """Of SimCLR: on one core as measured, which other processes shared; with a ResNet-18 by its operations."""
    pixels = c.batch / 256 * (c.size / 14) ** 2
    if c.encoder == "resnet18":
        return pixels * (0.01 if c.device != "cpu" else 20.0)
    return pixels * (0.01 + 0.003 * c.width)
