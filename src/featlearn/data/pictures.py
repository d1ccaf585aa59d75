"""Image files as tensors: resizing, augmentation from an explicit key, normalisation."""

import importlib.util
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.data.decoding import Scale as Scale
from featlearn.data.decoding import open_rgb as open_rgb
from featlearn.data.listing import SUFFIXES as SUFFIXES


@dataclass(frozen=True)
class Preprocessing:
    """How images become inputs.

    size: height and width; mean, std: of each channel of [0, 1], those of ImageNet; augment: whether inputs for
    training are cropped, flipped and coloured at random; scale: what counts as white in values wider than a byte.
    """

    size: int = 224
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    augment: bool = False
    scale: Scale = field(default_factory=Scale)

    def __post_init__(self) -> None:
        if self.size < 8:
            raise SettingError("size", self.size, "8 pixels or more", "224 suits a ResNet, 64 a small network")
        if self.augment and importlib.util.find_spec("torchvision") is None:
            remedy = "pip install 'featlearn[domains]', or leave it out"
            raise SettingError("augment", True, "available with torchvision", remedy)


def pixels(image: Any, size: int) -> UInt8[Tensor, "3 size size"]:
    """The whole picture at size x size, whatever its shape was: (3, size, size)."""
    from PIL import Image

    return _array(image.resize((size, size), Image.Resampling.BILINEAR))


def augmented(image: Any, size: int, key: Key) -> UInt8[Tensor, "3 size size"]:
    """A random part of the picture (3, size, size), flipped and coloured, by numbers of the key.

    Crop of 70 to 100 % of the area and ratio 3/4 to 4/3, flip with probability 1/2, brightness, contrast and saturation
    times U(0.7, 1.3) and hue by U(-0.3, 0.3) of the circle in a random order, grey with probability 0.1. Pixels are
    torchvision's; it draws from the one random state of the process, so that the numbers are drawn here.

    Source: the released code (nuclear.method_ermnu, augment); the paper does not say.
    """
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as change

    draw = key.numpy()
    left, upper, right, lower = _crop(image.width, image.height, draw)
    place = (upper, left, lower - upper, right - left)
    image = change.resized_crop(image, *place, [size, size], InterpolationMode.BILINEAR)
    if draw.random() < 0.5:
        image = change.horizontal_flip(image)
    factors = draw.uniform(0.7, 1.3, 3)
    hue = draw.uniform(-0.3, 0.3)
    coloured = (change.adjust_brightness, change.adjust_contrast, change.adjust_saturation)
    for i in draw.permutation(4):
        image = coloured[i](image, float(factors[i])) if i < 3 else change.adjust_hue(image, float(hue))
    if draw.random() < 0.1:
        image = change.to_grayscale(image, 3)
    return _array(image)


def _crop(width: int, height: int, draw: np.random.Generator) -> tuple[int, int, int, int]:
    """Left, upper, right, lower."""
    for _ in range(10):
        area = width * height * draw.uniform(0.7, 1.0)
        ratio = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, upper = int(draw.integers(0, width - w + 1)), int(draw.integers(0, height - h + 1))
            return left, upper, left + w, upper + h
    side = min(width, height)  # a long, thin picture: its middle
    return (width - side) // 2, (height - side) // 2, (width + side) // 2, (height + side) // 2


def _array(image: Any) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def normalised(values: UInt8[Tensor, "n 3 h w"], preprocessing: Preprocessing) -> Float[Tensor, "n 3 h w"]:
    """Pixels (n, 3, h, w) of 0..255 as inputs."""
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (preprocessing.mean, preprocessing.std))
    return values.float().div_(255).sub_(mean).div_(std)


def read(
    paths: Sequence[str | Path], preprocessing: Preprocessing, key: Key | None = None, threads: int = 1
) -> Float[Tensor, "n 3 h w"]:
    """Inputs (n, 3, size, size) of image files: augmented by numbers of `key / place` if there is a key and
    `preprocessing` says so. The result does not depend on the number of threads.

    Errors: DataError for the first file that cannot be read.
    """
    size = preprocessing.size
    out = torch.empty(len(paths), 3, size, size)

    def one(item: tuple[int, str | Path]) -> None:  # bytes become floats while they are in the cache
        place, path = item
        image = open_rgb(path, preprocessing.scale)
        values = (
            augmented(image, size, key / place) if key is not None and preprocessing.augment else pixels(image, size)
        )
        out[place] = normalised(values[None], preprocessing)[0]

    mapped(one, list(enumerate(paths)), threads)
    return out


def mapped(work: Any, items: Sequence[Any], threads: int) -> list[Any]:
    """work(item) of each, in order, in `threads` threads."""
    if threads <= 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))
