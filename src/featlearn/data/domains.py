"""Labelled images from several domains: a folder tree, a table, or MNIST rotated and coloured; checked when loaded."""

import csv
import hashlib
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from featlearn.core import Key
from featlearn.data import pictures
from featlearn.data.catalogue import DataError
from featlearn.data.pictures import Reading

DECODED = 20000
"""Up to so many files are decoded when a set is loaded; of more only the beginning is looked at."""
ENDS = 4096
"""Bytes of a file's beginning and end that the fingerprint takes in."""
SHOWN = 3
"""How many files or classes an error or remark names."""


@dataclass(frozen=True)
class TensorDomain:
    """A domain in memory: inputs x (n, c, h, w), class indices y (n)."""

    name: str
    x: Float[Tensor, "n c h w"]
    y: Int[Tensor, " n"]

    def inputs(self, rows: Int[Tensor, " b"], key: Key | None) -> Float[Tensor, "b c h w"]:
        """Inputs (b, c, h, w) of these rows, never augmented."""
        return self.x[rows]


@dataclass(frozen=True)
class PixelDomain:
    """A domain of small images in memory, a byte a value: (n, 3, h, w)."""

    name: str
    values: UInt8[Tensor, "n 3 h w"]
    y: Int[Tensor, " n"]
    reading: Reading

    def inputs(self, rows: Int[Tensor, " b"], key: Key | None) -> Float[Tensor, "b 3 h w"]:
        """Inputs (b, 3, h, w) of these rows, never augmented."""
        return pictures.normalised(self.values[rows], self.reading)


@dataclass(frozen=True)
class FileDomain:
    """A domain of image files. threads: how many decode at the same time."""

    name: str
    paths: tuple[Path, ...]
    y: Int[Tensor, " n"]
    reading: Reading
    threads: int = 1

    def inputs(self, rows: Int[Tensor, " b"], key: Key | None) -> Float[Tensor, "b 3 h w"]:
        """Inputs (b, 3, size, size) of these rows, augmented by numbers of `key` where `reading` says so."""
        return pictures.read([self.paths[i] for i in rows.tolist()], self.reading, key, self.threads)


AnyDomain = TensorDomain | PixelDomain | FileDomain


@dataclass(frozen=True)
class DomainSet:
    """Several domains with common labels.

    labels: names of the classes; shape: (channels, height, width); remarks: one line each, what is odd about the data;
    fingerprint: changes when a file is added, removed, renamed, moved between classes, or other in its size, its first
    or its last ENDS bytes.
    """

    name: str
    domains: tuple[AnyDomain, ...]
    labels: tuple[str, ...]
    shape: tuple[int, int, int]
    remarks: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the domains."""
        return tuple(d.name for d in self.domains)

    def domain(self, name: str) -> AnyDomain:
        """A domain by name; DataError with the names there are."""
        found = next((d for d in self.domains if d.name == name), None)
        if found is None:
            raise DataError(f"domain = {name!r} is not in {self.name}: one of {', '.join(self.names)}")
        return found


@dataclass(frozen=True)
class Checks:
    """What to do about odd data.

    skip_unreadable: leave files out that are no images, instead of refusing the set; merge_case: labels that differ by
    case alone are one class; threads: to decode with; least: how many domains there must be; decode: whether every file
    is decoded, None for sets of up to DECODED.
    """

    skip_unreadable: bool = False
    merge_case: bool = False
    threads: int = 1
    least: int = 2
    decode: bool | None = None


@dataclass(frozen=True)
class _File:
    domain: str
    label: str
    path: Path


def folder(path: str | Path, reading: Reading | None = None, checks: Checks | None = None) -> DomainSet:
    """A tree domain/class/image, as PACS, VLCS, OfficeHome, TerraIncognita and DomainNet are kept.

    Folders below a class count for it; names that begin with a dot and files without the suffix of an image are left
    out (the latter are counted in a remark). Inputs are (n, 3, size, size).

    Errors: DataError, one line: no such folder, no image, fewer than two domains or classes, a domain with one image,
    labels that differ by case or Unicode form alone, unreadable images (how many and which). Remarks: classes that a
    domain lacks, or that one domain alone has, files that are not images or lie outside of a class, folders without an
    image, images with an alpha channel or without colour.

    Example:
        >>> folder("PACS").names  # doctest: +SKIP
        ('art_painting', 'cartoon', 'photo', 'sketch')
    """
    root = Path(path).expanduser()
    if not root.is_dir():
        raise DataError(f"data = {str(path)!r} is not a folder; give a folder of domain/class/image, or a .csv file")
    found, other, stray, empty = [], 0, 0, []
    for domain in _folders(root):
        stray += sum(f.is_file() and f.suffix.lower() in pictures.SUFFIXES for f in domain.iterdir())
        counts = {}
        for label in _folders(domain):
            inside = [
                file
                for file in sorted(label.rglob("*"))
                if file.is_file() and not any(part.startswith(".") for part in file.relative_to(root).parts)
            ]
            images = [file for file in inside if file.suffix.lower() in pictures.SUFFIXES]
            found += [_File(domain.name, label.name, file) for file in images]
            other += len(inside) - len(images)
            counts[label.name] = len(images)
        without = [f"{domain.name}/{name}" for name, n in counts.items() if not n]
        empty += without if any(counts.values()) else [domain.name]
    if not found:
        raise DataError(f"data = {str(path)!r} holds no image at domain/class/image; is it the right level?")
    remarks = [f"{other} files without the suffix of an image are left out"] if other else []
    remarks += [f"{stray} images lie in a domain outside of any class and are left out"] if stray else []
    known = {f.label for f in found}  # a class that other domains have is missed below
    empty = [name for name in empty if name.partition("/")[2] not in known]
    remarks += [f"{len(empty)} folders hold no image and are left out: {_some(empty)}"] if empty else []
    return _assembled(root.resolve().name, root, found, remarks, reading or Reading(), checks or Checks())


def _folders(root: Path) -> list[Path]:
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def table(path: str | Path, reading: Reading | None = None, checks: Checks | None = None) -> DomainSet:
    """A CSV file with the columns path, label and domain; others are ignored. Relative paths count from its folder.

    Errors and remarks: as `folder`; a missing column or value names its line.

    Example:
        >>> table("images.csv").labels  # doctest: +SKIP
        ('dog', 'house')
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError(f"data = {str(path)!r} does not exist; give a .csv file with the columns path, label, domain")
    found, needed = [], ("path", "label", "domain")
    try:
        with open(path, encoding="utf-8-sig", newline="") as f:
            rows = csv.DictReader(f)
            missing = [name for name in needed if name not in (rows.fieldnames or ())]
            if missing:
                has = ", ".join(rows.fieldnames or ()) or "nothing"
                raise DataError(f"{path} has no column {', '.join(missing)} (its first line: {has}); name all three")
            for row in rows:
                empty = [name for name in needed if not (row[name] or "").strip()]
                if empty:
                    raise DataError(f"{path}, line {rows.line_num}: no {', '.join(empty)}; fill it or remove the line")
                file = Path(row["path"].strip()).expanduser()
                found.append(_File(row["domain"].strip(), row["label"].strip(), path.parent / file))
    except (OSError, UnicodeDecodeError, csv.Error) as why:
        raise DataError(f"{path} cannot be read as UTF-8 CSV ({why}); save it anew") from None
    if not found:
        raise DataError(f"{path} has no line below its names; add one per image")
    return _assembled(path.stem, path.parent, found, [], reading or Reading(), checks or Checks())


# --- checks ----------------------------------------------------------------------------------------------------------


def _assembled(
    name: str, root: Path, files: Sequence[_File], remarks: list[str], reading: Reading, checks: Checks
) -> DomainSet:
    """The set of these files, in the order of domains and paths, or DataError in one line."""
    files, remarks = list(files), list(remarks)
    _one_spelling({f.domain for f in files}, "domains", files, "domain")
    spelling = _one_spelling({f.label for f in files}, "labels", files, "label", checks.merge_case)
    files = [_File(f.domain, spelling[f.label], f.path) for f in files]
    files.sort(key=lambda f: (f.domain, f.label, str(f.path)))
    _enough(files, checks.least)
    decode = len(files) <= DECODED if checks.decode is None else checks.decode
    bad = pictures.unreadable([f.path for f in files], checks.threads, decode)
    if bad:
        names = ", ".join(str(files[i].path) for i, _ in bad[:SHOWN]) + (", ..." if len(bad) > SHOWN else "")
        what = f"{len(bad)} of {len(files)} images cannot be read: {names}"
        if not checks.skip_unreadable:
            raise DataError(f"{what}; replace or remove them, or skip them (skip_unreadable, --skip-unreadable)")
        remarks.append(f"{what}; they are left out")
        files = [f for i, f in enumerate(files) if i not in {j for j, _ in bad}]
        _enough(files, checks.least)
    remarks += _missing_classes(files) + _repeated(files)
    remarks += _modes([f.path for f in files], checks.threads) if decode else []
    if len(files) > DECODED:
        remarks.append(
            f"{len(files)} files: only their beginnings were checked; a damaged one ends the run that meets it"
        )
    labels = sorted({f.label for f in files})
    index = {label: i for i, label in enumerate(labels)}
    domains = []
    for domain in sorted({f.domain for f in files}):
        own = [f for f in files if f.domain == domain]
        y = torch.tensor([index[f.label] for f in own])
        domains.append(FileDomain(domain, tuple(f.path for f in own), y, reading, checks.threads))
    shape = (3, reading.size, reading.size)
    return DomainSet(name, tuple(domains), tuple(labels), shape, tuple(remarks), _fingerprint(root, files))


def _one_spelling(
    names: set[str], what: str, files: Sequence[_File], field: str, merge: bool = False
) -> Mapping[str, str]:
    """The spelling to use for each name; DataError where two differ by case or Unicode form alone."""

    def same(name: str) -> str:
        return unicodedata.normalize("NFC", name).casefold()

    first: dict[str, str] = {}
    for name in sorted(names):
        first.setdefault(same(name), name)
    for name in sorted(names):
        other = first[same(name)]
        if other != name and not merge:
            places = [sorted({f.domain for f in files if getattr(f, field) == n}) for n in (other, name)]
            where = f" ({', '.join(places[0][:SHOWN])}; {', '.join(places[1][:SHOWN])})" if field == "label" else ""
            more = ", or merge them (merge_case, --merge-case)" if field == "label" else ""
            forms = {unicodedata.normalize("NFC", n) for n in (name, other)}
            alone, shown = ("case", repr) if len(forms) > 1 else ("Unicode form", ascii)
            raise DataError(f"{what} {shown(other)} and {shown(name)}{where} differ by {alone} alone; rename one{more}")
    return {name: first[same(name)] for name in names}


def _enough(files: Sequence[_File], least: int) -> None:
    counts = {d: sum(f.domain == d for f in files) for d in sorted({f.domain for f in files})}
    if len(counts) < least:
        which = f"one domain ({next(iter(counts))})" if counts else "no domain"
        raise DataError(
            f"the data has {which}; at least {least} are needed, so that one can be held out; is it domain/class/image?"
        )
    small = [f"{d} has {n} image" for d, n in counts.items() if n < 2]
    if small:
        raise DataError(
            f"domain {', '.join(small)}; at least 2 are needed to train and to validate; add some or remove it"
        )
    labels = sorted({f.label for f in files})
    if len(labels) < 2:
        raise DataError(f"the data has one class ({labels[0]}); at least 2 are needed; is it domain/class/image?")


def _missing_classes(files: Sequence[_File]) -> list[str]:
    domains = sorted({f.domain for f in files})
    there: dict[str, set[str]] = {}
    for f in files:
        there.setdefault(f.label, set()).add(f.domain)
    alone = [f"{label!r} ({next(iter(found))})" for label, found in sorted(there.items()) if len(found) == 1]
    out = []
    for domain in domains:
        lacking = [label for label, found in sorted(there.items()) if domain not in found]
        if lacking:
            out.append(f"domain {domain} has no image of {len(lacking)} of {len(there)} classes: {_some(lacking)}")
    if alone:
        out.append(
            f"{len(alone)} classes are in one domain alone; nothing teaches them when it is held out: {_some(alone)}"
        )
    return out


def _repeated(files: Sequence[_File]) -> list[str]:
    places: dict[str, list[tuple[str, str]]] = {}
    for f in files:
        places.setdefault(os.path.normpath(f.path), []).append((f.domain, f.label))
    several = [path for path, found in places.items() if len(set(found)) > 1]
    twice = [path for path, found in places.items() if len(set(found)) < len(found)]
    out = [f"{len(several)} files stand under several domains or labels: {_some(several)}"] if several else []
    if twice:
        out.append(f"{len(twice)} files are listed more than once; one image can train and validate: {_some(twice)}")
    return out


def _modes(paths: Sequence[Path], threads: int) -> list[str]:
    """A remark on images that are not plain colour."""
    found = pictures.kinds(paths, threads)
    odd = {what: found.count(what) for what in ("with an alpha channel", "without colour")}
    told = ", ".join(f"{n} {what}" for what, n in odd.items() if n)
    return [f"of {len(paths)} images {told}: read as RGB, transparent as white"] if told else []


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _fingerprint(root: Path, files: Sequence[_File]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for f in files:
        path = f.path.relative_to(root) if f.path.is_relative_to(root) else f.path
        size = f.path.stat().st_size
        digest.update(f"{f.domain}\0{f.label}\0{path.as_posix()}\0{size}\n".encode())
        with open(f.path, "rb") as file:
            digest.update(file.read(ENDS))
            file.seek(max(ENDS, size - ENDS))
            digest.update(file.read(ENDS))
    return digest.hexdigest()


def in_memory(found: DomainSet, limit: int = 2**30) -> DomainSet:
    """The same set with its images decoded once, if they fit into `limit` bytes and are not augmented."""
    sizes = sum(len(d.y) for d in found.domains) * found.shape[0] * found.shape[1] * found.shape[2]
    files = [d for d in found.domains if isinstance(d, FileDomain)]
    if sizes > limit or len(files) < len(found.domains) or any(d.reading.augment for d in files):
        return found
    plain = []
    for d in files:
        size = d.reading.size
        values = pictures.mapped(lambda p, size=size: pictures.pixels(pictures.open_rgb(p), size), d.paths, d.threads)
        plain.append(PixelDomain(d.name, torch.stack(values), d.y, d.reading))
    return DomainSet(found.name, tuple(plain), found.labels, found.shape, found.remarks, found.fingerprint)
