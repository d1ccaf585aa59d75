"""Labelled grey images: MNIST, and scikit-learn's bundled 8 x 8 digits that need no download."""

import gzip
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.data import download
from featlearn.data.names import shown
from featlearn.errors import DataError

FASHION = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_SPLITS = ("train", "test")
_MOST_AXES = 32  # of NumPy before 2
_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@dataclass(frozen=True)
class Images:
    """Grey images as rows.

    x: pixels (n, p) in [0, 1]. y: index of the class in the `digits` that were asked for (n).
    shape: (height, width), height * width = p.
    """

    x: Float[Tensor, "n p"]
    y: Int[Tensor, " n"]
    shape: tuple[int, int]


def parse_idx(data: bytes, name: str = "data") -> np.ndarray:
    """Array in an IDX file: two zero bytes, a type code, the number of axes, the axes as big-endian int32, the values.

    Errors: DataError for a wrong header, or a size that does not follow from it (a truncated file).
    """
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_TYPES:
        raise DataError(f"{name} is not an IDX file: header {data[:4].hex() or 'empty'}; expected 0000, a type, axes")
    kind, axes = np.dtype(_IDX_TYPES[data[2]]), data[3]
    start = 4 + 4 * axes
    shape = tuple(int(n) for n in np.frombuffer(data[4:start], ">i4")) if len(data) >= start else ()
    if axes > _MOST_AXES or min(shape, default=0) < 0:
        raise DataError(f"{name} is damaged: {axes} axes, the shortest of {min(shape, default=0)}; fetch it again")
    expected = start + math.prod(shape) * kind.itemsize  # of Python's integers: a product may be beyond 64 bits
    if len(shape) != axes or len(data) != expected:
        raise DataError(
            f"{name} is truncated or too long: expected {expected} bytes, found {len(data)}; fetch it again"
        )
    try:
        return np.frombuffer(data, kind, offset=start).reshape(shape)
    except ValueError:  # one axis of length 0 and others that no array has
        raise DataError(f"{name} is damaged: axes of {' x '.join(map(str, shape))}; fetch it again") from None


def read_idx(path: str | Path) -> np.ndarray:
    """Array in an IDX file on disk, gzip or not.

    Errors: as `parse_idx`; DataError for a file that cannot be read or unpacked.

    Example:
        >>> read_idx("train-labels-idx1-ubyte.gz").shape  # doctest: +SKIP
        (60000,)
    """
    path = Path(path)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as f:
            data = f.read()
    except (OSError, EOFError, zlib.error) as why:
        reason = why.strerror if isinstance(why, OSError) and why.strerror else str(why)
        raise DataError(f"{shown(path)} cannot be read ({' '.join(reason.split())}); check the file") from None
    return parse_idx(data, shown(path))


def _check(digits: tuple[int, ...], split: str) -> None:
    if split not in _SPLITS:
        raise SettingError("split", split, " or ".join(_SPLITS), "choose one of them")
    if not digits or len(set(digits)) != len(digits) or not set(digits) <= set(range(10)):
        raise SettingError("digits", digits, "different numbers 0..9, at least one", "for example (0, 1)")


def _select(pixels: np.ndarray, labels: np.ndarray, digits: tuple[int, ...], white: int) -> Images:
    index = np.full(10, -1)
    index[list(digits)] = np.arange(len(digits))
    keep = index[labels] >= 0
    x = pixels[keep].reshape(int(keep.sum()), -1).astype(np.float32) / np.float32(white)
    return Images(torch.from_numpy(x), torch.from_numpy(index[labels][keep]), (pixels.shape[1], pixels.shape[2]))


def mnist(root: str | Path | None = None, digits: tuple[int, ...] = (0, 1), split: str = "train") -> Images:
    """MNIST images of the given digits, pixels in [0, 1], in the order of the files.

    Read from the cache or from `root` after their SHA-256 was checked; nothing is downloaded here.

    Shapes: x (n, 784), y (n) the index in `digits`; 12665 training and 2115 test images of the digits 0 and 1.
    Errors: DataError for missing or damaged files, with the command that brings them; SettingError for digits, split.

    Example:
        >>> mnist().x.shape  # doctest: +SKIP
        torch.Size([12665, 784])
    """
    return _idx_images("mnist", root, digits, split)


def fashion_mnist(root: str | Path | None = None, classes: tuple[int, ...] = (0, 1), split: str = "train") -> Images:
    """Fashion-MNIST images of the given classes (indices of FASHION), in the format of `mnist`.

    Shapes: x (n, 784), y (n) the index in `classes`; 6000 training and 1000 test images a class.
    Errors: as `mnist`.

    Example:
        >>> fashion_mnist().x.shape  # doctest: +SKIP
        torch.Size([12000, 784])
    """
    return _idx_images("fashion-mnist", root, classes, split)


def _idx_images(name: str, root: str | Path | None, digits: tuple[int, ...], split: str) -> Images:
    _check(digits, split)
    files = download.read(name, root)
    prefix = {"train": "train", "test": "t10k"}[split]
    pixels = parse_idx(files[f"{prefix}-images-idx3-ubyte"], f"{prefix}-images")
    labels = parse_idx(files[f"{prefix}-labels-idx1-ubyte"], f"{prefix}-labels")
    return _select(pixels, labels, digits, 255)


def digits(digits: tuple[int, ...] = (0, 1), split: str = "train", test_share: float = 0.25) -> Images:
    """The 1797 digits bundled with scikit-learn (8 x 8, 17 grey levels), pixels in [0, 1]; no download.

    There is no published split: all 1797 images are permuted once by a fixed key and the last `test_share` are the
    test set, before the digits are chosen, so that an image never changes sides with the choice of digits.

    Shapes: x (n, 64), y (n) the index in `digits`.
    Errors: SettingError for digits, split, test_share.

    Example:
        >>> digits().x.shape[1], digits().shape
        (64, (8, 8))
    """
    _check(digits, split)
    if not 0 < test_share < 1:
        raise SettingError("test_share", test_share, "in (0, 1)", "0.25 is the default")
    from sklearn.datasets import load_digits  # only here: importing it takes a second

    values, labels = (np.asarray(v) for v in load_digits(return_X_y=True))
    pixels = values.reshape(-1, 8, 8)
    order = Key("data/digits/split").numpy().permutation(len(labels))
    cut = len(order) - round(test_share * len(order))
    chosen = np.sort(order[:cut] if split == "train" else order[cut:])
    return _select(pixels[chosen], labels[chosen], digits, 16)
