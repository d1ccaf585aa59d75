"""Image files as tensors: conversion to RGB, resizing, augmentation from an explicit key, normalisation."""

import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.data.catalogue import DataError

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp", ".gif"))


@dataclass(frozen=True)
class Reading:
    """How images become inputs.

    size: height and width; mean, std: of each channel of [0, 1], those of ImageNet; augment: whether inputs for
    training are cropped, flipped and coloured at random.
    """

    size: int = 224
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    augment: bool = False

    def __post_init__(self) -> None:
        if self.size < 8:
            raise SettingError("size", self.size, "8 pixels or more", "224 suits a ResNet, 64 a small network")


def open_rgb(path: str | Path) -> Any:
    """The image in a file as an RGB picture of PIL, fully decoded.

    Grey values fill the three channels, 16-bit ones scaled; whatever is transparent shows white.

    Errors: DataError, one line, for a file that is not there or not a complete image.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings(), Image.open(path) as image:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image.load()
            return _rgb(image)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the path") from None
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        Image.DecompressionBombWarning,
        Image.DecompressionBombError,
    ) as e:
        reason = " ".join(str(e).split()).replace(str(path), "it")[:120] or type(e).__name__
        raise DataError(f"{path} cannot be read as an image ({reason}); replace it or leave it out") from None


def _has_alpha(image: Any) -> bool:
    return image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info


def _rgb(image: Any) -> Any:
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, for which convert() would clip everything above 255
        values = np.asarray(image).astype(np.float64)
        image = Image.fromarray((values / (257 if values.max() > 255 else 1)).clip(0, 255).astype(np.uint8))
    if _has_alpha(image):
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def pixels(image: Any, size: int) -> UInt8[Tensor, "3 size size"]:
    """The whole picture at size x size, whatever its shape was: (3, size, size)."""
    from PIL import Image

    return _array(image.resize((size, size), Image.Resampling.BILINEAR))


def augmented(image: Any, size: int, key: Key) -> UInt8[Tensor, "3 size size"]:
    """A random part of the picture (3, size, size), flipped and coloured.

    Crop of 70 to 100 % of the area and ratio 3/4 to 4/3, flip with probability 1/2, brightness, contrast and saturation
    times U(0.7, 1.3) and hue by U(-0.3, 0.3) of the circle in a random order, grey with probability 0.1.

    Source: the released code (nuclear.method_ermnu, augment); the print does not say.
    """
    from PIL import Image, ImageEnhance

    draw = key.numpy()
    image = image.crop(_crop(image.width, image.height, draw)).resize((size, size), Image.Resampling.BILINEAR)
    if draw.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    factors = draw.uniform(0.7, 1.3, 3)
    hue = draw.uniform(-0.3, 0.3)
    for i in draw.permutation(4):
        if i < 3:
            kind: Any = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)[i]
            image = kind(image).enhance(float(factors[i]))
        else:
            h, s, v = image.convert("HSV").split()
            turned = (np.asarray(h).astype(np.int64) + round(hue * 255)) % 256
            image = Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8)), s, v)).convert("RGB")
    if draw.random() < 0.1:
        image = image.convert("L").convert("RGB")
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


def normalised(values: UInt8[Tensor, "n 3 h w"], reading: Reading) -> Float[Tensor, "n 3 h w"]:
    """Pixels (n, 3, h, w) of 0..255 as inputs."""
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (reading.mean, reading.std))
    return (values.float() / 255 - mean) / std


def read(
    paths: Sequence[str | Path], reading: Reading, key: Key | None = None, threads: int = 1
) -> Float[Tensor, "n 3 h w"]:
    """Inputs (n, 3, size, size) of image files: augmented by numbers of `key / place` if there is a key and `reading`
    says so. The result does not depend on the number of threads.

    Errors: DataError for the first file that cannot be read.
    """

    def one(item: tuple[int, str | Path]) -> Tensor:
        image = open_rgb(item[1])
        if key is None or not reading.augment:
            return pixels(image, reading.size)
        return augmented(image, reading.size, key / item[0])

    return normalised(torch.stack(mapped(one, list(enumerate(paths)), threads)), reading)


def unreadable(paths: Sequence[str | Path], threads: int = 1, decode: bool = True) -> list[tuple[int, str]]:
    """(place, reason) of each file that is not an image. decode False looks at the beginning of the files alone."""
    from PIL import Image

    def why(path: str | Path) -> str:
        try:
            if decode:
                open_rgb(path)
            else:
                with Image.open(path):
                    pass
        except (DataError, OSError, ValueError, SyntaxError) as e:
            return str(e)
        return ""

    return [(i, reason) for i, reason in enumerate(mapped(why, list(paths), threads)) if reason]


def kinds(paths: Sequence[str | Path], threads: int = 1) -> list[str]:
    """Of each image by the beginning of its file: "with an alpha channel", "without colour", or ""."""
    from PIL import Image

    def kind(path: str | Path) -> str:
        with Image.open(path) as image:
            if _has_alpha(image):
                return "with an alpha channel"
            return "without colour" if image.mode in ("1", "L", "F") or image.mode.startswith("I") else ""

    return mapped(kind, list(paths), threads)


def mapped(work: Any, items: Sequence[Any], threads: int) -> list[Any]:
    """work(item) of each, in order, in `threads` threads."""
    if threads <= 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))
