"""What `featlearn domains` trains on: the data by name, folder or table, and the network by name."""

import hashlib
import os
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import nn

from featlearn.apply.domains import libraries
from featlearn.apply.domains.identity import digest_of
from featlearn.core import Key, SettingError
from featlearn.data.decoding import Scale
from featlearn.data.domains import Checks, DomainSet, folder, in_memory, table
from featlearn.data.mnist_domains import NAMES, colored_mnist, rotated_mnist
from featlearn.data.pictures import Preprocessing
from featlearn.errors import DataError, DataUnavailable
from featlearn.lab.trial import NOTE
from featlearn.nets import backbone, linear_head, load_weights

TOTALS = AVERAGE, ALL = "average", "all images"
"""What tables call the mean over domains and all images together, and no domain."""


@dataclass(frozen=True)
class Source:
    """Where the images come from and how they are read.

    data: one of NAMES, a folder, or a .csv file; size, augment: of image files; per_domain: images of each domain of
    NAMES, None for all; fingerprint: of the files when they were first looked at; depth, float_range: what counts as
    white beyond 8 bits (see Scale), None for what the range of the whole set says; mean, std: of each channel of
    [0, 1], None for those of ImageNet. Where the data lie is a note: what they are is the fingerprint.
    """

    data: str = field(metadata=NOTE)
    size: int = 64
    augment: bool = False
    per_domain: int | None = None
    skip_unreadable: bool = field(default=False, metadata=NOTE)
    merge_case: bool = field(default=False, metadata=NOTE)
    fingerprint: str = ""
    depth: int | None = None
    float_range: tuple[float, float] | None = None
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None

    def preprocessing(self) -> Preprocessing:
        """How its images become inputs."""
        out = Preprocessing(self.size, augment=self.augment, scale=Scale(self.depth, self.float_range))
        return replace(out, mean=self.mean or out.mean, std=self.std or out.std)


@dataclass(frozen=True)
class Network:
    """backbone: cnn, resnet18, resnet50 or a name of `libraries`; width: of cnn; weights: a file of pretrained ones, a
    name of the library's own, or "", and the hash of what they are; frozen: batch norm keeps its statistics, None:
    where there are pretrained weights, since those of a random start are mean 0 and variance 1 of nothing (a module of
    the user's keeps the modes it came in); probe: the head alone learns; config: what makes a CLIP without its folder;
    called: the backbone without the place of a CLIP's folder or of a user's module, whose contents are in the hash.
    Where backbone and weights lie is a note."""

    backbone: str = field(default="cnn", metadata=NOTE)
    width: int = 64
    weights: str = field(default="", metadata=NOTE)
    weights_hash: str = ""
    frozen: bool | None = None
    probe: bool = False
    config: str = ""
    called: str = field(init=False, default="")

    def __post_init__(self) -> None:
        library = libraries.library_of(self.backbone)
        kept = library if library in ("clip", libraries.OWN) else self.backbone
        object.__setattr__(self, "called", kept)

    @property
    def library(self) -> str:
        """Where the backbone comes from, "" for featlearn."""
        return libraries.library_of(self.backbone)

    @property
    def keeps_statistics(self) -> bool:
        """Whether batch norm is frozen; cnn has none."""
        if self.backbone == "cnn":
            return False
        if self.frozen is None:
            return bool(self.weights) and self.library != libraries.OWN
        return self.frozen

    @property
    def pretrained(self) -> bool:
        """Whether it starts from weights that somebody trained; of a module of the user's, who can tell."""
        return bool(self.weights) or self.library == libraries.OWN


def load(
    source: Source, threads: int = 1, least: int = 2, decode: bool | None = None, *, held: bool = True
) -> DomainSet:
    """The domains of a source; small images that are not augmented are held in memory, unless `held` is false.

    Errors: DataError or SettingError, one line, before anything is trained.
    """
    if source.data in NAMES:
        make = rotated_mnist if source.data.startswith("rotated") else colored_mnist
        fashion = "fashion" in source.data
        _fetch("fashion-mnist" if fashion else "mnist")
        found = make(per_domain=source.per_domain, size=source.size, fashion=fashion)
        told = f"{source.data} is the built-in set and not what lies here under that name: ./{source.data} is that"
        return replace(found, remarks=(*found.remarks, told)) if os.path.exists(source.data) else found
    if source.per_domain is not None:
        raise SettingError("per_domain", source.per_domain, f"given with {', '.join(NAMES)} only", "leave it out")
    path = Path(os.path.expanduser(source.data))
    if not os.path.exists(path):
        known = ", ".join(NAMES)
        raise DataError(f"data = {source.data!r} is not there: a folder, a .csv file or one of {known}; check it")
    preprocessing = source.preprocessing()
    checks = Checks(source.skip_unreadable, source.merge_case, threads, least, decode)
    found = (folder if path.is_dir() else table)(path, preprocessing, checks)
    taken = [name for name in found.names if name in TOTALS]
    if taken:
        raise DataError(f"domain {', '.join(taken)} is called as tables call what all domains come to; rename it")
    return in_memory(found) if held else found


def _fetch(name: str) -> None:
    from featlearn.data import fetch, find

    try:
        find(name)
    except DataError:
        fetch(name)


@lru_cache(maxsize=1)
def loaded(source: Source, threads: int) -> DomainSet:
    """As `load`, of files that were checked before; the last one is kept for the next run of this process.

    Errors: DataError where the files are not those of the fingerprint any more.
    """
    found = load(source, threads, least=1, decode=None if source.skip_unreadable else False)
    if found.fingerprint != source.fingerprint:
        raise DataUnavailable(f"{source.data} has changed since this run was planned; start the command again")
    return found


def with_fingerprint(source: Source, found: DomainSet) -> Source:
    """The source of what was loaded; a path becomes absolute, for processes elsewhere, and what counts as white is
    fixed."""
    data = source.data if source.data in NAMES else str(Path(os.path.expanduser(source.data)).resolve())
    scale = found.scale
    return replace(source, data=data, fingerprint=found.fingerprint, depth=scale.bits, float_range=scale.floats)


def with_hash(network: Network, size: int = 224) -> Network:
    """The network with the hash of its weights, and with what becomes of its batch norm. size: pixels of the images.

    Weights that torchvision has become a file; those of other libraries are known by their tensors, a module of the
    user's by its tensors, its layers and its file.

    Errors: SettingError where there is no such file or backbone; DataUnavailable where a hub does not answer.
    """
    library = network.library
    if library == "clip":
        if network.weights not in ("", libraries.PRETRAINED):
            raise SettingError("weights", network.weights, "left out for clip/NAME", "they are those of the folder")
        config = libraries.config_of(network.backbone)
        network = replace(network, weights=libraries.PRETRAINED, config=config)
    network = replace(network, frozen=network.keeps_statistics)
    named = network.weights and not os.path.isfile(os.path.expanduser(network.weights))
    if named and library != OWN and (network.weights == libraries.PRETRAINED or _is_version(network.weights)):
        if library in ("timm", "clip"):
            return replace(network, weights_hash=_digest(replace(network, weights=libraries.PRETRAINED), size))
        if network.backbone != "cnn":
            network = replace(network, weights=str(libraries.weights_file(network.backbone, network.weights)))
    if not network.weights:
        return replace(network, weights_hash=_digest(network, size)) if library == OWN else network
    path = Path(os.path.expanduser(network.weights))
    if not os.path.isfile(path):
        raise SettingError("weights", network.weights, "a file with a state dict", "there is none: check the path")
    with open(path, "rb") as f:
        digest = hashlib.file_digest(f, lambda: hashlib.blake2b(digest_size=8)).hexdigest()
    if library == OWN:
        digest = f"{digest} {_digest(replace(network, weights=''), size)}"
    return replace(network, weights=str(path.resolve()), weights_hash=digest)


OWN = libraries.OWN


def _is_version(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Z0-9_]+_V\d+", name))


def _digest(network: Network, size: int) -> str:
    featurizer, _ = build(replace(network, probe=False), 3, 2, Key("domains/digest"), size)
    return digest_of(network.backbone, featurizer.net, size)


def build(network: Network, channels: int, classes: int, key: Key, size: int = 224) -> tuple[Any, nn.Linear]:
    """Featurizer and head of a network, with its pretrained weights where it has some. size: pixels of the images.

    Errors: SettingError for a backbone that cannot be had, and for weights that do not fit; DataUnavailable where a hub
    does not answer.
    """
    featurizer = empty(network, channels, key / "featurizer", size)
    if network.weights and network.weights != libraries.PRETRAINED:
        load_weights(featurizer, network.weights)
    head = linear_head(featurizer.features, classes, key / "head")
    return (libraries.Frozen(featurizer) if network.probe else featurizer), head


def empty(network: Network, channels: int, key: Key, size: int) -> Any:
    """The featurizer of a network before weights from a file are loaded."""
    if not network.library:
        return backbone(network.backbone, key, channels, network.width, network.keeps_statistics)
    if channels != 3:
        raise SettingError("backbone", network.backbone, f"cnn for images of {channels} channels", "others take three")
    return libraries.featurizer_of(
        network.backbone,
        key,
        size=size,
        frozen=network.keeps_statistics,
        pretrained=network.weights == libraries.PRETRAINED,
        config=network.config,
    )
