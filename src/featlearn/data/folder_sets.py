"""Sets of labelled images that no package registry has: what they are, where they come from, where they lie.

Standard library only. Nothing is downloaded: each is a folder of yours, and until it is here whatever asks for it says
that data are needed, and how to bring them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from featlearn.data.download import cache_root
from featlearn.data.names import shown, some
from featlearn.errors import DataError, DataUnavailable

_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".7z", ".tar.bz2")


@dataclass(frozen=True)
class FolderSet:
    """A set that comes as a folder of yours.

    archive: what its source calls the download; home: the page that offers it; licence: the terms of the data, as far
    as its source states them; size_mib: of the download, about. counts: images of each split as published. folders:
    where in yours the files may lie, besides in itself. kind: which of several sets in one download, "" where there is
    one. cached: the name of its folder in the cache, "" for its own. optional: splits that need not be there.
    """

    name: str
    about: str
    licence: str
    archive: str
    home: str
    size_mib: int
    counts: Mapping[str, int]
    folders: tuple[str, ...] = ()
    kind: str = ""
    cached: str = ""
    optional: tuple[str, ...] = ()

    @property
    def place(self) -> Path:
        """Where it is looked for without a folder: in the cache, as a folder or a link to one."""
        return cache_root() / (self.cached or self.name)


def _emnist(kind: str, classes: int, train: int, test: int) -> FolderSet:
    return FolderSet(
        name=f"emnist-{kind}",
        about=f"handwritten characters, 28 x 28 grey pixels, {classes} classes: the set {kind} of EMNIST",
        licence="none stated (NIST)",
        archive="gzip.zip",
        home="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        size_mib=536,
        counts={"train": train, "test": test},
        folders=("gzip", "EMNIST/raw", "raw"),
        kind=kind,
        cached="emnist",
    )


def _cifar100(name: str, kind: str, classes: int) -> FolderSet:
    return FolderSet(
        name=name,
        about=f"photographs, 32 x 32 in colour, {classes} {kind} classes",
        licence="none stated (A. Krizhevsky)",
        archive="cifar-100-python.tar.gz or cifar-100-binary.tar.gz",
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        size_mib=161,
        counts={"train": 50000, "test": 10000},
        folders=("cifar-100-python", "cifar-100-binary"),
        kind=kind,
        cached="cifar100",
    )


_ALL = (
    FolderSet(
        name="cifar10",
        about="photographs, 32 x 32 in colour, 10 classes",
        licence="none stated (A. Krizhevsky)",
        archive="cifar-10-python.tar.gz or cifar-10-binary.tar.gz",
        home="https://www.cs.toronto.edu/~kriz/cifar.html",
        size_mib=163,
        counts={"train": 50000, "test": 10000},
        folders=("cifar-10-batches-py", "cifar-10-batches-bin"),
    ),
    _cifar100("cifar100", "fine", 100),
    _cifar100("cifar100-coarse", "coarse", 20),
    FolderSet(
        name="svhn",
        about="house numbers, 32 x 32 in colour, 10 digits",
        licence="for non-commercial use (Y. Netzer et al.)",
        archive="train_32x32.mat, test_32x32.mat, extra_32x32.mat",
        home="http://ufldl.stanford.edu/housenumbers/",
        size_mib=234,
        counts={"train": 73257, "test": 26032, "extra": 531131},
        folders=("SVHN", "svhn"),
        optional=("extra",),
    ),
    _emnist("balanced", 47, 112800, 18800),
    _emnist("byclass", 62, 697932, 116323),
    _emnist("bymerge", 47, 697932, 116323),
    _emnist("letters", 26, 124800, 20800),
    _emnist("digits", 10, 240000, 40000),
    _emnist("mnist", 10, 60000, 10000),
    FolderSet(
        name="kmnist",
        about="cursive Japanese characters, 28 x 28 grey pixels, 10 classes",
        licence="CC BY-SA 4.0 (CODH)",
        archive="train-images-idx3-ubyte.gz and the three beside it, or the four .npz files",
        home="https://codh.rois.ac.jp/kmnist/",
        size_mib=21,
        counts={"train": 60000, "test": 10000},
        folders=("KMNIST/raw", "raw"),
    ),
    FolderSet(
        name="imagenet32",
        about="ImageNet at 32 x 32 in colour, 1000 classes",
        licence="ImageNet's terms: research and education, not commercial",
        archive="Imagenet32_train and Imagenet32_val, as .zip or .npz",
        home="https://image-net.org/download-images.php",
        size_mib=3750,
        counts={"train": 1281167, "val": 50000},
        folders=("Imagenet32_train", "Imagenet32_val", "Imagenet32_train_npz", "Imagenet32_val_npz"),
    ),
    FolderSet(
        name="cinic10",
        about="CIFAR-10 and ImageNet pictures, 32 x 32 in colour, 10 classes",
        licence="as its page states; most pictures are ImageNet's",
        archive="CINIC-10.tar.gz",
        home="https://datashare.ed.ac.uk/handle/10283/3192",
        size_mib=656,
        counts={"train": 90000, "valid": 90000, "test": 90000},
        folders=("CINIC-10",),
    ),
    FolderSet(
        name="gtsrb",
        about="German traffic signs of many sizes in colour, 43 classes",
        licence="free to use, with citation (Ruhr-Universität Bochum)",
        archive="GTSRB_Final_Training_Images.zip, GTSRB_Final_Test_Images.zip and GTSRB_Final_Test_GT.zip",
        home="https://benchmark.ini.rub.de/gtsrb_dataset.html",
        size_mib=367,
        counts={"train": 39209, "test": 12630},
        folders=("GTSRB", "gtsrb/GTSRB", "gtsrb"),
    ),
    FolderSet(
        name="tiny-imagenet",
        about="ImageNet at 64 x 64 in colour, 200 classes",
        licence="ImageNet's terms: research and education, not commercial",
        archive="tiny-imagenet-200.zip",
        home="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        size_mib=237,
        counts={"train": 100000, "val": 10000},
        folders=("tiny-imagenet-200",),
    ),
)
_BY_NAME: Mapping[str, FolderSet] = MappingProxyType({c.name: c for c in _ALL})


def folder_sets() -> Mapping[str, FolderSet]:
    """Every set that comes as a folder of yours, by name.

    Example:
        >>> folder_sets()["cifar10"].counts["train"]
        50000
    """
    return _BY_NAME


def folder_set(name: str) -> FolderSet:
    """The entry of that name. Errors: DataError with the names that exist."""
    if name not in _BY_NAME:
        raise DataError(f"set = {name!r} is not allowed: one of {', '.join(_BY_NAME)}; see `featlearn data`")
    return _BY_NAME[name]


def folder_of(name: str, root: str | Path | None = None) -> Path:
    """The folder of a set: `root`, or its place in the cache.

    Errors: DataError for a root that is no folder; DataUnavailable, "data needed", where none was given and there is
    none in the cache, with the page that offers it and the commands that make it known.
    """
    found = folder_set(name)
    if root is not None:
        given = Path(root).expanduser()
        if not given.is_dir():
            raise DataError(f"root = {shown(given)} is not a folder; give the one that holds {found.archive}, unpacked")
        return given
    if not found.place.is_dir():
        raise DataUnavailable(needed(found))
    return found.place


def needed(found: FolderSet) -> str:
    """What is said until the data are here, in one line."""
    place = shown(found.place)
    return (
        f"data needed: {found.name} is in no package registry and not here; get {found.archive} from {found.home}, "
        f"unpack it, check it with `featlearn data fetch {found.name} --root FOLDER`, and link it: "
        f"ln -s FOLDER {place}"
    )


def located(found: FolderSet, folder: Path, names: tuple[str, ...]) -> Path:
    """The first file or folder of these names, in a folder or where it is kept below it.

    Errors: DataUnavailable naming the folder, what is missing and, where its archive lies there, that it is packed.
    """
    places = [folder, *(folder / inner for inner in found.folders)]
    for place in places:
        for name in names:
            if os.path.exists(place / name):
                return place / name
    try:
        there = sorted(p.name for p in folder.iterdir())
    except OSError as why:
        raise DataUnavailable(f"{shown(folder)} cannot be listed ({why.strerror}); make it readable") from None
    packed = [n for n in there if n.lower().endswith(_ARCHIVES)]
    remedy = f"unpack {some(packed)} there" if packed else f"get {found.archive} from {found.home}"
    missing = " or ".join(names)
    inner = f", also in {', '.join(found.folders)}" if found.folders else ""
    raise DataUnavailable(f"{found.name} is not whole in {shown(folder)}: no {missing}{inner}; {remedy}")
