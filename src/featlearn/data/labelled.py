"""Readers of sets that come as a folder of yours, in the formats in which they are published, as bytes in memory."""

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from featlearn.core import SettingError
from featlearn.data.decoding import open_rgb
from featlearn.data.folder_sets import FolderSet, folder_of, folder_set, located
from featlearn.data.images import read_idx
from featlearn.data.listing import Listing, entries, walk
from featlearn.data.names import shown, some
from featlearn.data.pickles import read_pickle
from featlearn.data.pictures import mapped, pixels
from featlearn.errors import DataUnavailable

KANA = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
_BATCHES = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
_BLOCK = 1024
"""Image files that are decoded before they are put into the one tensor."""


@dataclass(frozen=True)
class LabelledImages:
    """Images with classes, a byte a value: a set of a million small pictures fits into memory, its floats need not.

    values: (n, c, h, w). y: (n), the index in `labels`, names of the classes. remarks: one line each, what differs from
    the set as it is published.

    Example:
        >>> x = LabelledImages(torch.full((2, 1, 4, 4), 255, dtype=torch.uint8), torch.tensor([0, 1]), ("a", "b"))
        >>> x.floats(torch.tensor([1])).shape, float(x.floats().max())
        (torch.Size([1, 1, 4, 4]), 1.0)
    """

    values: UInt8[Tensor, "n c h w"]
    y: Int[Tensor, " n"]
    labels: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    def floats(self, rows: Int[Tensor, " b"] | None = None) -> Float[Tensor, "b c h w"]:
        """Values in [0, 1] of these rows, or of all."""
        return (self.values if rows is None else self.values[rows]).float() / 255


_Found = tuple[np.ndarray | Tensor, np.ndarray, Sequence[str]]
"""Bytes (n, c, h, w), classes (n) and the names of the classes."""


def labelled_images(
    name: str, root: str | Path | None = None, split: str = "train", *, size: int = 0, threads: int = 1
) -> LabelledImages:
    """A split of a set of `folder_sets()`, from the folder `root` or from its place in the cache; only read.

    size: edge in pixels of sets that come as image files, 0 for their own (32 for gtsrb, whose pictures are of many
    sizes). threads: that decode image files; the result does not depend on it.

    Formats: cifar10 and cifar100 as Python or binary batches, svhn as .mat, emnist as IDX (turned upright), kmnist as
    IDX or .npz, imagenet32 as batches or .npz, cinic10, tiny-imagenet and gtsrb as folders of image files. Batches of
    Python are read without running anything they name (`read_pickle`).

    Errors, one line: DataUnavailable, "data needed", without a folder; for a file that is missing or damaged.
    SettingError for a split that the set does not have, and a size of arrays.

    Example:
        >>> labelled_images("cifar10", "~/cifar-10-batches-py").values.shape  # doctest: +SKIP
        torch.Size([50000, 3, 32, 32])
    """
    found = folder_set(name)
    if split not in found.counts:
        raise SettingError("split", repr(split), f"one of {', '.join(found.counts)} for {name}", "train is the default")
    files = name in _OF_FILES
    if size < 0 or 0 < size < 8 or (size and not files):
        allowed = "8 pixels or more, or 0" if files else f"0 for {name}, whose pictures have one size"
        raise SettingError("size", size, allowed, "0 takes the set's own")
    if threads < 1:
        raise SettingError("threads", threads, "1 or more", "it decodes image files")
    folder = folder_of(name, root)
    if files:
        own, of_files = _OF_FILES[name]
        paths, y, labels = of_files(found, folder, split)
        values: Any = _decoded(paths, size or own, threads)
    else:
        values, y, labels = next(read for start, read in _READERS.items() if name.startswith(start))(
            found, folder, split
        )
    return _assembled(found, folder, split, values, y, labels)


def splits_of(name: str, root: str | Path | None = None) -> Iterator[tuple[str, LabelledImages]]:
    """Every split of a set with its name, one after the other; those that need not be there are passed over.

    Errors: as `labelled_images`.
    """
    found = folder_set(name)
    for split in found.counts:
        try:
            yield split, labelled_images(name, root, split)
        except DataUnavailable:
            if split not in found.optional:
                raise


def _assembled(
    found: FolderSet, folder: Path, split: str, values: Any, y: np.ndarray, labels: Sequence[str]
) -> LabelledImages:
    where = f"{found.name} in {shown(folder)}"
    if not len(values):
        raise DataUnavailable(f"{where} has no image for {split}; fetch it again")
    if len(values) != len(y):
        raise DataUnavailable(f"{where} has {len(values)} images and {len(y)} labels for {split}; fetch it again")
    if y.min() < 0 or y.max() >= len(labels):
        odd = int(y.min() if y.min() < 0 else y.max())
        raise DataUnavailable(f"{where} has a label {odd} for {split}, of {len(labels)} classes; fetch it again")
    x = values if isinstance(values, Tensor) else torch.from_numpy(np.require(values, np.uint8, ("C", "W")))
    remarks, published = [], found.counts[split]
    if len(x) != published:
        remarks.append(f"{where} has {len(x)} images for {split}; the published set has {published}")
    absent = sorted(set(range(len(labels))) - set(np.unique(y).tolist()))
    if absent:
        remarks.append(
            f"{where} has no image of {len(absent)} classes for {split}: {some([labels[i] for i in absent])}"
        )
    return LabelledImages(x, torch.from_numpy(y.astype(np.int64)), tuple(labels), tuple(remarks))


# arrays ---------------------------------------------------------------------------------------------------------------


def _rows(path: Path, data: Any, edge: int = 32) -> np.ndarray:
    """Bytes (n, 3, edge, edge) of rows (n, 3 edge^2), red before green before blue."""
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3 * edge**2:
        kind = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
        raise DataUnavailable(f"{shown(path)}: its data are {kind}, expected uint8 (n, {3 * edge**2}); fetch it again")
    return data.reshape(-1, 3, edge, edge)


def _classes(path: Path, labels: Any) -> np.ndarray:
    """Class indices (n) of a list of whole numbers or an array of them."""
    plain = isinstance(labels, list) and all(type(v) is int and abs(v) < 2**31 for v in labels)
    array = np.asarray(labels, np.int64) if plain else labels if isinstance(labels, np.ndarray) else np.zeros((0, 2))
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2) or array.size != len(array):
        raise DataUnavailable(f"{shown(path)}: its labels are no whole numbers, one an image; fetch it again")
    return array.reshape(-1).astype(np.int64)


def _value(path: Path, held: Any, key: str) -> Any:
    if key not in held:
        there = some(sorted(str(k) for k in held)) or "nothing"
        raise DataUnavailable(f"{shown(path)} has no {key} (it has {there}); is it the right file?")
    return held[key]


def _texts(path: Path, held: Any, key: str) -> tuple[str, ...]:
    names = _value(path, held, key)
    if not isinstance(names, list) or not all(isinstance(n, str | bytes) for n in names):
        raise DataUnavailable(f"{shown(path)}: {key} is no list of names; fetch it again")
    return tuple(n.decode("utf-8", "replace") if isinstance(n, bytes) else n for n in names)


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as why:
        reason = getattr(why, "strerror", None) or "it is no UTF-8 text"
        raise DataUnavailable(f"{shown(path)} cannot be read ({reason}); fetch it again") from None


def _binary(path: Path, labels: int) -> np.ndarray:
    """Rows (n, labels + 3072) of a binary batch."""
    try:
        data = path.read_bytes()
    except OSError as why:
        raise DataUnavailable(f"{shown(path)} cannot be read ({why.strerror}); check the path") from None
    row = labels + 3072
    if not data or len(data) % row:
        raise DataUnavailable(f"{shown(path)} has {len(data)} bytes, no multiple of {row}; fetch it again")
    return np.frombuffer(data, np.uint8).reshape(-1, row)


def _cifar10(found: FolderSet, folder: Path, split: str) -> _Found:
    first = located(found, folder, tuple(f"{_BATCHES[split][0]}{end}" for end in ("", ".bin")))
    binary = first.suffix == ".bin"
    paths = [located(found, first.parent, (f"{batch}{first.suffix}",)) for batch in _BATCHES[split]]
    if binary:
        labels = _lines(located(found, first.parent, ("batches.meta.txt",)))
        rows = np.concatenate([_binary(path, 1) for path in paths])
        return _rows(first, rows[:, 1:]), rows[:, 0].astype(np.int64), labels
    meta = located(found, first.parent, ("batches.meta",))
    labels = _texts(meta, read_pickle(meta), "label_names")
    x, y = [], []
    for path in paths:
        held = read_pickle(path)
        x.append(_rows(path, _value(path, held, "data")))
        y.append(_classes(path, _value(path, held, "labels")))
    return np.concatenate(x), np.concatenate(y), labels


def _cifar100(found: FolderSet, folder: Path, split: str) -> _Found:
    path = located(found, folder, (split, f"{split}.bin"))
    if path.suffix == ".bin":
        labels = _lines(located(found, path.parent, (f"{found.kind}_label_names.txt",)))
        rows = _binary(path, 2)
        return _rows(path, rows[:, 2:]), rows[:, int(found.kind == "fine")].astype(np.int64), labels
    if path.is_dir():
        raise DataUnavailable(f"{shown(path)} is a folder; give the one that holds the file {split} of {found.archive}")
    meta, held = located(found, path.parent, ("meta",)), read_pickle(path)
    labels = _texts(meta, read_pickle(meta), f"{found.kind}_label_names")
    return _rows(path, _value(path, held, "data")), _classes(path, _value(path, held, f"{found.kind}_labels")), labels


def _svhn(found: FolderSet, folder: Path, split: str) -> _Found:
    from scipy.io import loadmat

    path = located(found, folder, (f"{split}_32x32.mat",))
    try:
        held = loadmat(path, variable_names=["X", "y"])
    except Exception as why:
        reason = " ".join(str(why).split())[:80] or type(why).__name__
        raise DataUnavailable(f"{shown(path)} is no whole .mat file ({reason}); fetch it again") from None
    x, y = _value(path, held, "X"), _classes(path, _value(path, held, "y"))
    if x.ndim != 4 or x.shape[:3] != (32, 32, 3) or x.dtype != np.uint8:
        raise DataUnavailable(f"{shown(path)}: X is {x.dtype} {x.shape}, expected uint8 (32, 32, 3, n); fetch it again")
    return x.transpose(3, 2, 0, 1), np.where(y == 10, 0, y), "0123456789"


def _idx_pair(images: Path, labels: Path) -> tuple[np.ndarray, np.ndarray]:
    x, y = read_idx(images), read_idx(labels)
    if x.ndim != 3 or x.dtype != np.uint8 or x.shape[1:] != (28, 28):
        raise DataUnavailable(f"{shown(images)} holds {x.dtype} {x.shape}, expected bytes (n, 28, 28); fetch it again")
    return x[:, None], _classes(labels, y)


def _both(found: FolderSet, folder: Path, start: str) -> tuple[np.ndarray, np.ndarray]:
    names = [f"{start}-{part}-ubyte" for part in ("images-idx3", "labels-idx1")]
    images = located(found, folder, (names[0], f"{names[0]}.gz"))
    return _idx_pair(images, located(found, images.parent, (names[1], f"{names[1]}.gz")))


def _emnist(found: FolderSet, folder: Path, split: str) -> _Found:
    """EMNIST stores its pictures turned and mirrored; its letters count from 1."""
    x, y = _both(found, folder, f"emnist-{found.kind}-{split}")
    mapping = _lines(located(found, folder, (f"emnist-{found.kind}-mapping.txt",)))
    try:
        codes = [[int(v) for v in line.split()] for line in mapping]
        names = {code[0]: chr(code[1]) for code in codes}
    except (ValueError, IndexError, OverflowError):
        raise DataUnavailable(
            f"the mapping of {found.name} in {shown(folder)} is no table of numbers; fetch it again"
        ) from None
    first = min(names, default=0)
    if not names or sorted(names) != list(range(first, first + len(names))):
        raise DataUnavailable(f"the mapping of {found.name} in {shown(folder)} leaves classes out; fetch it again")
    return x.transpose(0, 1, 3, 2), y - first, [names[i] for i in sorted(names)]


def _kmnist(found: FolderSet, folder: Path, split: str) -> _Found:
    start = {"train": "train", "test": "t10k"}[split]
    idx, packed = f"{start}-images-idx3-ubyte", f"kmnist-{split}-imgs.npz"
    path = located(found, folder, (idx, f"{idx}.gz", packed))
    if path.name != packed:
        return (*_both(found, path.parent, start), KANA)
    labels = located(found, path.parent, (f"kmnist-{split}-labels.npz",))
    x = _arrays(path, ("arr_0",))["arr_0"]
    if x.dtype != np.uint8 or x.shape[1:] != (28, 28):
        raise DataUnavailable(f"{shown(path)} holds {x.dtype} {x.shape}, expected bytes (n, 28, 28); fetch it again")
    return x[:, None], _classes(labels, _arrays(labels, ("arr_0",))["arr_0"]), KANA


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Arrays of a .npz archive; nothing is unpickled."""
    try:
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name] for name in names}
    except Exception as why:
        reason = " ".join(str(why).split())[:80] or type(why).__name__
        raise DataUnavailable(
            f"{shown(path)} is no .npz file of {' and '.join(names)} ({reason}); fetch it again"
        ) from None


def _imagenet32(found: FolderSet, folder: Path, split: str) -> _Found:
    """Labels count from 1; batches of training are ten."""
    batches = tuple(f"train_data_batch_{i}" for i in range(1, 11)) if split == "train" else ("val_data",)
    x, y = [], []
    for batch in batches:
        path = located(found, folder, (batch, f"{batch}.npz"))
        held = _arrays(path, ("data", "labels")) if path.suffix == ".npz" else read_pickle(path)
        x.append(_rows(path, _value(path, held, "data")))
        y.append(_classes(path, _value(path, held, "labels")) - 1)
    return np.concatenate(x), np.concatenate(y), [str(i) for i in range(1, 1001)]


_READERS: dict[str, Callable[[FolderSet, Path, str], _Found]] = {
    "cifar100": _cifar100,
    "cifar10": _cifar10,
    "svhn": _svhn,
    "emnist-": _emnist,
    "kmnist": _kmnist,
    "imagenet32": _imagenet32,
}
"""By the beginning of a name, longer ones first."""


# folders of image files -----------------------------------------------------------------------------------------------

_Files = tuple[list[Path], np.ndarray, Sequence[str]]


def _decoded(paths: Sequence[Path], edge: int, threads: int) -> UInt8[Tensor, "n 3 h w"]:
    out = torch.empty(len(paths), 3, edge, edge, dtype=torch.uint8)
    for start in range(0, len(paths), _BLOCK):
        block = paths[start : start + _BLOCK]
        for i, image in enumerate(mapped(lambda path: pixels(open_rgb(path), edge), block, threads)):
            out[start + i] = image
    return out


def _class_folders(place: Path) -> list[Path]:
    folders = entries(place, Listing())[0] if place.is_dir() else []
    if len(folders) < 2:
        raise DataUnavailable(f"{shown(place)} holds {len(folders)} folders of classes; is it the right folder?")
    return folders


def _listed(folders: Sequence[Path]) -> _Files:
    """All image files below folders of classes."""
    paths: list[Path] = []
    y: list[int] = []
    for i, folder in enumerate(folders):
        images = walk(folder).images
        paths += images
        y += [i] * len(images)
    return paths, np.array(y, dtype=np.int64), [shown(f.name) for f in folders]


def _cinic10(found: FolderSet, folder: Path, split: str) -> _Files:
    return _listed(_class_folders(located(found, folder, (split,))))


def _tiny_imagenet(found: FolderSet, folder: Path, split: str) -> _Files:
    train = located(found, folder, ("train",))
    if split == "train":
        return _listed(_class_folders(train))
    names = [shown(f.name) for f in _class_folders(train)]
    place = located(found, train.parent, ("val",))
    table = place / "val_annotations.txt"
    if not table.is_file():  # sorted into folders of classes by a script, as many do
        return _listed(_class_folders(place))
    rows = [line.split("\t") for line in _lines(table)]
    return _from_table(table, [(place / "images", row[0], row[1] if len(row) > 1 else "") for row in rows], names)


def _gtsrb(found: FolderSet, folder: Path, split: str) -> _Files:
    """Names of classes are their numbers, of five digits."""
    if split == "train":
        return _listed(_class_folders(located(found, folder, ("Final_Training/Images", "Training"))))
    place = located(found, folder, ("Final_Test/Images",))
    table = located(
        found, place.parent.parent, ("GT-final_test.csv", "Final_Test/Images/GT-final_test.csv", "../GT-final_test.csv")
    )
    rows = list(csv.reader(_lines(table), delimiter=";"))
    if not rows or not {"Filename", "ClassId"} <= set(rows[0]):
        raise DataUnavailable(f"{shown(table)} has no columns Filename and ClassId; the one without classes is another")
    file, label = rows[0].index("Filename"), rows[0].index("ClassId")
    told = [(place, row[file], row[label].zfill(5)) for row in rows[1:] if len(row) > max(file, label)]
    return _from_table(table, told, [f"{i:05}" for i in range(43)])


def _from_table(table: Path, rows: Sequence[tuple[Path, str, str]], names: Sequence[str]) -> _Files:
    index = {name: i for i, name in enumerate(names)}
    for _, file, label in rows:
        if os.path.basename(file) != file or not file:
            raise DataUnavailable(f"{shown(table)} names {shown(file)!r}, which is no file beside it; fetch it again")
        if label not in index:
            raise DataUnavailable(f"{shown(table)} gives {shown(file)} the class {label!r}, which the set has not")
    gone = [file for place, file, _ in rows if not os.path.isfile(place / file)]
    if gone:
        raise DataUnavailable(
            f"{shown(table)} names {len(gone)} files that are not there: {some(gone)}; fetch it again"
        )
    return [place / file for place, file, _ in rows], np.array([index[r[2]] for r in rows], dtype=np.int64), names


_OF_FILES: dict[str, tuple[int, Callable[[FolderSet, Path, str], _Files]]] = {
    "cinic10": (32, _cinic10),
    "tiny-imagenet": (64, _tiny_imagenet),
    "gtsrb": (32, _gtsrb),
}
"""Sets of image files, and the edge in pixels at which each is read."""
