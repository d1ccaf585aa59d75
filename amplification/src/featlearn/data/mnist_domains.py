"""Domains made of MNIST or Fashion-MNIST: turned by an angle, or coloured in agreement with the label or against it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.data.domains import DomainSet, TensorDomain
from featlearn.data.images import FASHION, fashion_mnist, mnist

ANGLES = (0, 15, 30, 45, 60, 75)
FLIPS = (0.1, 0.2, 0.9)
NAMES = ("rotated-mnist", "colored-mnist", "rotated-fashion-mnist", "colored-fashion-mnist")


def rotated_mnist(
    root: str | Path | None = None,
    *,
    angles: Sequence[int] = ANGLES,
    per_domain: int | None = None,
    size: int = 28,
    fashion: bool = False,
    key: Key | None = None,
) -> DomainSet:
    """All 70000 images in a random order, dealt to the angles in turns; each domain is turned by its own.

    Shapes: x (n, 1, size, size) in [0, 1], y (n) the digit. Turned by PIL with bicubic interpolation and black corners.
    per_domain: only so many of each; size: 28, or 14 or 7 by means of squares; key: of the order.

    Source: RotatedMNIST of the benchmark (nuclear.method_ermnu, small_images).
    Errors: SettingError for settings, DataError where the files are not here.
    """
    _check(size, per_domain)
    if len(angles) < 2 or len(set(angles)) < len(angles):
        raise SettingError("angles", tuple(angles), "two or more different ones", "0, 15, ..., 75 are usual")

    def make(x: Tensor, y: Tensor, angle: int | float, own: Key) -> tuple[Tensor, Tensor]:  # noqa: ARG001
        return _turned(x, angle), y

    name, labels = ("rotated-fashion-mnist", FASHION) if fashion else ("rotated-mnist", tuple("0123456789"))
    made = [(f"{a}", a) for a in angles]
    return _dealt(name, made, make, labels, root, per_domain, size, fashion, key or Key("data") / name)


def colored_mnist(
    root: str | Path | None = None,
    *,
    flips: Sequence[float] = FLIPS,
    noise: float = 0.25,
    per_domain: int | None = None,
    size: int = 28,
    fashion: bool = False,
    key: Key | None = None,
) -> DomainSet:
    """Two classes that the colour shows better than the shape in some domains, and worse than chance in the last.

        y = [class < 5] flipped with probability noise;  colour = y flipped with the probability of the domain

    Shapes: x (n, 2, size, size) in [0, 1], one channel of the two filled; y (n) in {0, 1}. The domain of flip 0.1 is
    named "+90%", that of 0.9 "-90%". Best accuracy by shape alone: 1 - noise; by colour: 1 - flip.

    Source: ColoredMNIST of the benchmark (nuclear.table6_1, small analogue), which also keeps all 28 x 28 pixels.
    Errors: as `rotated_mnist`.
    """
    _check(size, per_domain)
    for name, values in (("flips", flips), ("noise", (noise,))):
        if not all(0 <= v <= 1 for v in values):
            raise SettingError(name, tuple(values), "probabilities", "0.1, 0.2, 0.9 and 0.25 are usual")
    made = [(f"+{round(100 * (1 - f))}%" if f < 0.5 else f"-{round(100 * f)}%", f) for f in flips]
    if len(flips) < 2 or len({n for n, _ in made}) < len(flips):
        raise SettingError("flips", tuple(flips), "two or more that differ by a percent", "0.1, 0.2, 0.9 are usual")

    def make(x: Tensor, y: Tensor, flip: int | float, own: Key) -> tuple[Tensor, Tensor]:
        draw = own.numpy()
        label = (y < 5).long() ^ torch.from_numpy((draw.random(len(y)) < noise).astype(np.int64))
        colour = label ^ torch.from_numpy((draw.random(len(y)) < flip).astype(np.int64))
        both = torch.zeros(len(y), 2, *x.shape[1:])
        both[torch.arange(len(y)), colour] = x
        return both, label

    name = "colored-fashion-mnist" if fashion else "colored-mnist"
    return _dealt(name, made, make, ("5-9", "0-4"), root, per_domain, size, fashion, key or Key("data") / name)


def _check(size: int, per_domain: int | None) -> None:
    if size not in (28, 14, 7):
        raise SettingError("size", size, "28, 14 or 7", "28 is that of the files")
    if per_domain is not None and per_domain < 2:
        raise SettingError("per_domain", per_domain, "2 or more", "leave it out for all images")


def _dealt(
    name: str,
    kinds: Sequence[tuple[str, int | float]],
    make: Callable[[Tensor, Tensor, int | float, Key], tuple[Tensor, Tensor]],
    labels: tuple[str, ...],
    root: str | Path | None,
    per_domain: int | None,
    size: int,
    fashion: bool,
    key: Key,
) -> DomainSet:
    both = [(fashion_mnist if fashion else mnist)(root, tuple(range(10)), part) for part in ("train", "test")]
    x, y = torch.cat([b.x for b in both]).view(-1, 28, 28), torch.cat([b.y for b in both])
    order = torch.from_numpy((key / "order").numpy().permutation(len(y)))
    domains = []
    for i, (domain, kind) in enumerate(kinds):
        own = order[i :: len(kinds)][:per_domain]
        inputs, target = make(x[own], y[own], kind, key / domain)
        inputs = inputs if inputs.ndim == 4 else inputs[:, None]
        domains.append(TensorDomain(domain, functional.avg_pool2d(inputs, 28 // size), target))
    shape = (domains[0].x.shape[1], size, size)
    fingerprint = f"{key.path}:{len(y)}:{per_domain}:{size}:{','.join(str(k) for _, k in kinds)}"
    return DomainSet(name, tuple(domains), labels, shape, (), fingerprint)


def _turned(x: Tensor, angle: int | float) -> Tensor:
    if not angle:
        return x
    from PIL import Image

    grey = (x * 255).round().to(torch.uint8).numpy()
    turned = [np.asarray(Image.fromarray(g).rotate(angle, Image.Resampling.BICUBIC)) for g in grey]
    return torch.from_numpy(np.stack(turned)).float() / 255
