"""Views of inputs for contrastive learning: batches of random crops, flips and colours, noise and dropout, stored ones.

Views are a function of a batch and a key alone, computed on the device of the batch.
"""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.core.check import checked


@runtime_checkable
class Views(Protocol):
    """x (n, ...) and a key -> one random view of each row; the same key gives the same views."""

    def __call__(self, x: Tensor, key: Key, /) -> Tensor: ...


def pair_of(views: Views, x: Tensor, key: Key) -> tuple[Tensor, Tensor]:
    """Two views of each row: by the views' own `pair` where they have one, else independent."""
    own = getattr(views, "pair", None)
    return own(x, key) if own is not None else (views(x, key / 0), views(x, key / 1))


def first_of(views: Views, x: Tensor, key: Key) -> Tensor:
    """The first view of `pair_of`, without the second where that is another draw."""
    own = getattr(views, "pair", None)
    return own(x, key)[0] if own is not None else views(x, key / 0)


@dataclass(frozen=True)
class ImageViews:
    """The recipe of SimSiam without blur, for a batch at once: crop, flip, colours, grey.

    scale: area of the crop, as a share of the image, of an aspect between 3/4 and 4/3, resized to the image's size.
    flip: probability of a mirror image. brightness, contrast, saturation, hue: of colours, with probability `jitter`;
    hue is a share of the circle. grey: probability of losing the colours.

    Shapes: (n, c, h, w) in [0, 1] -> the same. Of grey images (c = 1) brightness and contrast change; they have no
    saturation, hue or colours to lose, so that these settings do nothing. Other numbers of channels than 1 and 3 take
    crops and flips only.

    Source: thesis F.3.2 ("the same data augmentation methods as SimSiam"); the released code leaves the blur out, also
    for digits (augmentations/moco_aug.py). Differs: colours in the order of this list, where torchvision shuffles it,
    and hue turns the chroma of YIQ, where torchvision shifts that of HSV.
    Errors: SettingError for probabilities and shares outside of their ranges.

    Example:
        >>> ImageViews()(torch.rand(5, 3, 14, 14), Key("demo")).shape
        torch.Size([5, 3, 14, 14])
    """

    scale: tuple[float, float] = (0.2, 1.0)
    flip: float = 0.5
    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    grey: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise SettingError("scale", self.scale, "0 < low <= high <= 1", "(0.2, 1) is that of SimSiam")
        for name in ("flip", "jitter", "grey"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingError(name, getattr(self, name), "a probability", "0 leaves it out")
        for name, high in (("brightness", 1), ("contrast", 1), ("saturation", 1), ("hue", 0.5)):
            if not 0 <= getattr(self, name) <= high:
                raise SettingError(name, getattr(self, name), f"in [0, {high}]", "0 leaves it out")

    def check(self, images: Tensor) -> None:
        """SettingError for a whole set that is no images in [0, 1]; `pretrain` asks once, before any work."""
        if images.ndim != 4:
            remedy = "give views of yours, such as NoiseViews, for other inputs"
            raise SettingError("images", f"of shape {tuple(images.shape)}", "(n, channels, height, width)", remedy)
        low, high = (float(v) for v in images.aminmax())
        if low < 0 or high > 1:
            raise SettingError("images", f"from {low:g} to {high:g}", "in [0, 1]", "divide pixels by 255")
        colours = max(self.saturation, self.hue) > 0 and self.jitter > 0
        if images.shape[1] not in (1, 3) and (colours or self.grey > 0):
            remedy = "set saturation, hue and grey to 0: they are of three colours"
            raise SettingError("images", f"of {images.shape[1]} channels", "1 or 3", remedy)

    @checked(loose=("x",))
    def __call__(self, x: Float[Tensor, "n c h w"], key: Key) -> Float[Tensor, "n c h w"]:
        """One random view of each image (n, c, h, w)."""
        draw = key.torch(x.device)
        x = self._crops(x, draw)
        return self._colours(x, draw) if x.shape[1] in (1, 3) else x

    def _crops(self, x: Tensor, draw: torch.Generator) -> Tensor:
        n = len(x)
        u = torch.rand(5, n, generator=draw, device=x.device, dtype=x.dtype)
        area = self.scale[0] + (self.scale[1] - self.scale[0]) * u[0]
        aspect = torch.exp(math.log(4 / 3) * (2 * u[1] - 1))
        wide, high = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
        place = torch.zeros(n, 2, 3, device=x.device, dtype=x.dtype)
        place[:, 0, 0] = torch.where(u[4] < self.flip, -wide, wide)
        place[:, 1, 1] = high
        place[:, 0, 2], place[:, 1, 2] = (2 * u[2] - 1) * (1 - wide), (2 * u[3] - 1) * (1 - high)
        grid = functional.affine_grid(place, list(x.shape), align_corners=False)
        return functional.grid_sample(x, grid, "bilinear", "border", align_corners=False)

    def _colours(self, x: Tensor, draw: torch.Generator) -> Tensor:
        u = torch.rand(6, len(x), 1, 1, 1, generator=draw, device=x.device, dtype=x.dtype)
        changed = u[0] < self.jitter
        one = torch.ones_like(u[0])

        def factor(i: int, strength: float) -> Tensor:
            return torch.where(changed, 1 + strength * (2 * u[i] - 1), one)

        x = (x * factor(1, self.brightness)).clamp(0, 1)
        f = factor(2, self.contrast)
        x = (f * x + (1 - f) * _grey(x).mean((1, 2, 3), keepdim=True)).clamp(0, 1)
        if x.shape[1] == 1:
            return x
        f = factor(3, self.saturation)
        x = (f * x + (1 - f) * _grey(x)).clamp(0, 1)
        if self.hue:
            x = _turned(x, torch.where(changed, 2 * math.pi * self.hue * (2 * u[4] - 1), 0 * one).flatten())
        return torch.where(u[5] < self.grey, _grey(x).expand_as(x), x)


_YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


def _grey(x: Tensor) -> Tensor:
    if x.shape[1] == 1:
        return x
    return (x * x.new_tensor(_YIQ[0]).view(1, 3, 1, 1)).sum(1, keepdim=True)


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    """The chroma plane of YIQ turned by an angle for each image; brightness stays."""
    to = x.new_tensor(_YIQ)
    turn = torch.zeros(len(x), 3, 3, device=x.device, dtype=x.dtype)
    turn[:, 0, 0] = 1
    turn[:, 1, 1], turn[:, 1, 2] = angle.cos(), -angle.sin()
    turn[:, 2, 1], turn[:, 2, 2] = angle.sin(), angle.cos()
    return torch.einsum("nij,njhw->nihw", torch.linalg.inv(to) @ turn @ to, x).clamp(0, 1)


@dataclass(frozen=True)
class NoiseViews:
    """Gaussian noise and dropout of coordinates, for vectors such as embeddings of another model.

        x'_j = m_j (x_j + noise * s * e_j) / (1 - dropout),   e_j ~ N(0, 1),  m_j = 0 with probability dropout

    s: root mean square of the entries of the batch, so that `noise` is in units of the data.

    Shapes: (n, ...) -> the same. Errors: SettingError for noise below 0, dropout outside [0, 1), and both 0: two equal
    views teach nothing.

    Example:
        >>> NoiseViews(0.1)(torch.ones(5, 8), Key("demo")).shape
        torch.Size([5, 8])
    """

    noise: float = 0.1
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.noise < math.inf:
            raise SettingError("noise", self.noise, "0 or more", "0.1 is a tenth of the data's size")
        if not 0 <= self.dropout < 1:
            raise SettingError("dropout", self.dropout, "in [0, 1)", "0.1 is usual")
        if not self.noise and not self.dropout:
            raise SettingError("noise", 0, "above 0 where dropout is 0", "two equal views teach nothing")

    @checked(loose=("x",))
    def __call__(self, x: Float[Tensor, "n ..."], key: Key) -> Float[Tensor, "n ..."]:
        """One random view of each row (n, ...)."""
        draw = key.torch(x.device)
        noise = torch.randn(x.shape, generator=draw, device=x.device, dtype=x.dtype)
        kept = torch.rand(x.shape, generator=draw, device=x.device, dtype=x.dtype) >= self.dropout
        return (x + self.noise * x.square().mean().sqrt() * noise) * kept / (1 - self.dropout)


@dataclass(frozen=True)
class StoredViews:
    """Views that were computed beforehand, such as embeddings of ten augmentations of each image.

    Shapes: (n, v, ...) with v >= 2 views of each row -> (n, ...); a pair is two different ones of each row.

    Source: thesis F.3.4 and Table 7.2: "10 augmentations to each training images".

    Example:
        >>> one, two = StoredViews().pair(torch.arange(6.0).view(3, 2, 1), Key("demo"))
        >>> bool((one != two).all())
        True
    """

    @checked(loose=("x",))
    def __call__(self, x: Shaped[Tensor, "n v ..."], key: Key) -> Shaped[Tensor, "n ..."]:
        """One of the views of each row (n, ...)."""
        return self.pair(x, key)[0]

    @checked(loose=("x",))
    def pair(self, x: Shaped[Tensor, "n v ..."], key: Key) -> tuple[Tensor, Tensor]:
        """Two different views of each row, in random order (n, ...)."""
        if x.shape[1] < 2:
            remedy = "store more, or use NoiseViews on one"
            raise SettingError("x", f"with {x.shape[1]} view of each row", "at least two views", remedy)
        order = torch.rand(x.shape[:2], generator=key.torch(x.device), device=x.device).argsort(1)
        rows = torch.arange(len(x), device=x.device)
        return x[rows, order[:, 0]], x[rows, order[:, 1]]


def check_views(views: Views, x: Tensor) -> None:
    """SettingError where views say that a whole set (n, ...) is none of theirs, by a method `check` of their own."""
    own = getattr(views, "check", None)
    if own is not None:
        own(x)


def as_they_are(x: Tensor, key: Key) -> Tensor:  # noqa: ARG001
    """No change (n, ...): for simcse, whose views are passes with dropout, and for fine-tuning without augmentation."""
    return x
