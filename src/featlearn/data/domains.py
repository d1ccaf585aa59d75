"""Labelled images from several domains: a folder tree, a table, or MNIST rotated and coloured; checked when loaded."""

import hashlib
import os
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from featlearn.core import Key
from featlearn.data import pictures
from featlearn.data.decoding import Scale
from featlearn.data.inspection import DECODED, decide, inspected, is_split, split_names, told_troubles, twins
from featlearn.data.inspection import remarks as image_remarks
from featlearn.data.listing import Listing, entries, holders, identity, walk
from featlearn.data.names import SHOWN, counted, shown, some
from featlearn.data.pictures import Preprocessing
from featlearn.data.tables import resolved, rows_of
from featlearn.errors import DataError


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
    preprocessing: Preprocessing
    twins: tuple[str, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def inputs(self, rows: Int[Tensor, " b"], key: Key | None) -> Float[Tensor, "b 3 h w"]:
        """Inputs (b, 3, h, w) of these rows, never augmented."""
        return pictures.normalised(self.values[rows], self.preprocessing)


@dataclass(frozen=True)
class FileDomain:
    """A domain of image files. threads: how many decode at the same time; twins: of each file a name that it has in
    common with the files of the same bytes alone; columns: values of further columns of its table, by name."""

    name: str
    paths: tuple[Path, ...]
    y: Int[Tensor, " n"]
    preprocessing: Preprocessing
    threads: int = 1
    twins: tuple[str, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def inputs(self, rows: Int[Tensor, " b"], key: Key | None) -> Float[Tensor, "b 3 h w"]:
        """Inputs (b, 3, size, size) of these rows, augmented by numbers of `key` where `preprocessing` says so."""
        return pictures.read([self.paths[i] for i in rows.tolist()], self.preprocessing, key, self.threads)


AnyDomain = TensorDomain | PixelDomain | FileDomain


@dataclass(frozen=True)
class DomainSet:
    """Several domains with common labels.

    labels: names of the classes; shape: (channels, height, width); remarks: one line each, what is odd about the data;
    fingerprint: changes when a file is added, removed, moved between classes or domains, or other in any of its bytes,
    but not with names of files and folders above the domains; scale: what counts as white in images of more than 8
    bits.
    """

    name: str
    domains: tuple[AnyDomain, ...]
    labels: tuple[str, ...]
    shape: tuple[int, int, int]
    remarks: tuple[str, ...] = ()
    fingerprint: str = ""
    scale: Scale = field(default_factory=Scale)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the domains."""
        return tuple(d.name for d in self.domains)

    def domain(self, name: str) -> AnyDomain:
        """A domain by name; DataError with the names there are."""
        found = next((d for d in self.domains if d.name in (name, shown(name))), None)
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
    columns: Mapping[str, str] = field(default_factory=dict)


def folder(path: str | Path, preprocessing: Preprocessing | None = None, checks: Checks | None = None) -> DomainSet:
    """A tree domain/class/image, as PACS, OfficeHome, TerraIncognita and DomainNet are kept.

    Folders below a class count for it, those behind links too; names that begin with a dot and files without the suffix
    of an image are left out. Inputs are (n, 3, size, size).

    Errors: DataError, one line: no such folder, no image, fewer than two domains or classes, a domain with one image,
    labels that differ by case or Unicode form alone, classes that are splits (as VLCS has them below its domains),
    images that cannot be read (how many, which and why) or whose values fit no rule. Remarks: classes that a domain
    lacks, or that one domain alone has, what is left out, links into nothing or back, the same picture in two places,
    images of more than 8 bits or otherwise not plain, with counts and the first of each.

    Example:
        >>> folder("PACS").names  # doctest: +SKIP
        ('art_painting', 'cartoon', 'photo', 'sketch')
    """
    root = Path(os.path.expanduser(path))
    if not os.path.isdir(root):
        raise DataError(f"data = {shown(path)!r} is not a folder; give a folder of domain/class/image, or a .csv file")
    listing, loose, stray, empty, found = Listing(), [], [], [], []
    inner: dict[str, set[str]] = {}  # domain/label -> folders below it, of those that hold no image themselves
    above = holders(root)
    for domain in _folders(root, listing, above, loose):
        counts = {}
        within = above | holders(domain)
        for label in _folders(domain, listing, within, stray):
            below = walk(label, within)
            listing.add(below)
            found += [_File(shown(domain.name), shown(label.name), file) for file in below.images]
            counts[label.name] = len(below.images)
            if below.images:
                parts = {file.relative_to(label).parts[0] for file in below.images if file.parent != label}
                direct = any(file.parent == label for file in below.images)
                inner[f"{domain.name}/{label.name}"] = set() if direct else parts
        without = [f"{domain.name}/{name}" for name, n in counts.items() if not n]
        empty += without if any(counts.values()) else [domain.name]
    if not found:
        why = "; ".join([f"{counted(len(stray), 'image')} at domain/image"] if stray else listing.remarks()[:2])
        said = f" ({why})" if why else ""
        raise DataError(f"data = {shown(path)!r} holds no image at domain/class/image{said}; is it the right level?")
    remarks = listing.remarks()
    for files, where in ((stray, "in a domain outside of any class"), (loose, "outside of any domain")):
        remarks += [f"{len(files)} images lie {where} and are left out: {some(files)}"] if files else []
    known = {f.label for f in found}  # a class that other domains have is missed below
    empty = [name for name in empty if shown(name.partition("/")[2]) not in known]
    remarks += [f"{len(empty)} folders hold no image and are left out: {some(empty)}"] if empty else []
    nested: dict[str, set[str]] = {}
    for place, parts in inner.items():
        nested.setdefault(shown(place.partition("/")[2]), set()).update(shown(part) for part in parts)
    labels = sorted({f.label for f in found})
    remarks += split_names(labels, sorted({f.domain for f in found}), nested) + _same_inside(inner)
    name = shown(root.resolve().name)
    return _assembled(name, found, remarks, preprocessing or Preprocessing(), checks or Checks())


def _folders(root: Path, listing: Listing, above: set[tuple[int, int]], files: list[Path]) -> list[Path]:
    """Folders of a folder that do not hold it; `files` takes its images in."""
    folders, plain = entries(root, listing)
    files += [f for f in plain if f.suffix.lower() in pictures.SUFFIXES]
    loops = [p for p in folders if identity(p) in above]
    listing.loops += loops
    return [p for p in folders if p not in loops]


def _same_inside(inner: Mapping[str, set[str]]) -> list[str]:
    """A remark where every class has its images in folders of the same names: they may be classes, or splits."""
    every = list(inner.values())
    if len(every) < 2 or not every[0] or any(parts != every[0] for parts in every):
        return []
    names = sorted(every[0])
    if all(is_split(name) for name in names):
        return [f"every class holds the splits {some(names)}: they are put together, and images to test on can train"]
    return [f"every class holds the same folders and no image besides: are the classes one level deeper? {some(names)}"]


def table(path: str | Path, preprocessing: Preprocessing | None = None, checks: Checks | None = None) -> DomainSet:
    """A CSV file with the columns path, label and domain; others can say how to split. Relative paths count from its
    folder.

    Errors and remarks: as `folder`; no CSV file, another separator, a missing column or value names its line; paths to
    no file say where they were looked for.

    Example:
        >>> table("images.csv").labels  # doctest: +SKIP
        ('dog', 'house')
    """
    path = Path(os.path.expanduser(path))
    rows = rows_of(path)
    found = [
        _File(shown(row.domain), shown(row.label), file, row.columns)
        for row, file in zip(rows.rows, resolved(rows, path.parent), strict=True)
    ]
    remarks = rows.remarks + split_names(sorted({f.label for f in found}), sorted({f.domain for f in found}))
    hint = rows.hint(path.parent)
    return _assembled(shown(path.stem), found, remarks, preprocessing or Preprocessing(), checks or Checks(), hint)


# --- checks ----------------------------------------------------------------------------------------------------------


def _assembled(
    name: str,
    files: Sequence[_File],
    remarks: list[str],
    preprocessing: Preprocessing,
    checks: Checks,
    hint: str = "",
) -> DomainSet:
    """The set of these files, in the order of domains and paths, or DataError in one line."""
    files, remarks = list(files), list(remarks)
    _one_spelling({f.domain for f in files}, "domains", files, "domain")
    spelling = _one_spelling({f.label for f in files}, "labels", files, "label", checks.merge_case)
    files = [replace(f, label=spelling[f.label]) for f in files]
    files.sort(key=lambda f: (f.domain, f.label, os.fsencode(f.path)))
    _enough(files, checks.least)
    decode = len(files) <= DECODED if checks.decode is None else checks.decode
    facts = inspected([f.path for f in files], checks.threads, decode)
    if any(f.trouble for f in facts):
        what, remedy = told_troubles(facts, len(files), hint)
        if not checks.skip_unreadable:
            raise DataError(f"{what}; {remedy}, or skip them (skip_unreadable, --skip-unreadable)")
        remarks.append(f"{what}; they are left out")
        files, before = [file for file, f in zip(files, facts, strict=True) if not f.trouble], files
        remarks += _gone(before, files)
        facts = [f for f in facts if not f.trouble]
        _enough(files, checks.least)
    scale, told = decide(facts, [f.domain for f in files], preprocessing.scale)
    preprocessing = replace(preprocessing, scale=scale)
    remarks += _missing_classes(files) + told
    remarks += image_remarks(facts, [f.domain for f in files], scale) + _repeated(files)
    contents = _contents(files, checks.threads)
    digests = [f.digest for f in facts] if decode else contents
    remarks += twins(facts, digests, [(f.domain, f.label) for f in files])
    if len(files) > DECODED:
        remarks.append(
            f"{len(files)} files: only their beginnings were checked; a damaged one ends the run that meets it"
        )
    order = sorted(range(len(files)), key=lambda i: (files[i].domain, files[i].label, contents[i]))  # not by name
    labels = sorted({f.label for f in files})
    index = {label: i for i, label in enumerate(labels)}
    domains = []
    for domain in sorted({f.domain for f in files}):
        own = [i for i in order if files[i].domain == domain]
        y = torch.tensor([index[files[i].label] for i in own])
        paths = tuple(files[i].path for i in own)
        same = tuple(contents[i].hex() for i in own)
        columns = {name: tuple(files[i].columns[name] for i in own) for name in files[0].columns}
        domains.append(FileDomain(domain, paths, y, preprocessing, checks.threads, same, columns))
    shape = (3, preprocessing.size, preprocessing.size)
    fingerprint = _fingerprint([files[i] for i in order], [contents[i] for i in order])
    return DomainSet(name, tuple(domains), tuple(labels), shape, tuple(remarks), fingerprint, scale)


def _one_spelling(
    names: set[str], what: str, files: Sequence[_File], field: str, merge: bool = False
) -> Mapping[str, str]:
    """The spelling to use for each name; DataError where two differ by case or Unicode form alone."""

    def same(name: str) -> str:
        return " ".join(unicodedata.normalize("NFC", name).casefold().split())

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
            alone, told = ("case", repr) if len(forms) > 1 else ("Unicode form", ascii)
            alone = "spaces" if len({form.casefold() for form in forms}) > 1 else alone
            raise DataError(f"{what} {told(other)} and {told(name)}{where} differ by {alone} alone; rename one{more}")
    return {name: first[same(name)] for name in names}


def _enough(files: Sequence[_File], least: int) -> None:
    counts = dict(sorted(Counter(f.domain for f in files).items()))
    if len(counts) < least:
        which = f"one domain ({next(iter(counts))})" if counts else "no domain"
        raise DataError(
            f"the data has {which}; at least {least} are needed, so that one can be held out; is it domain/class/image?"
        )
    small = [f"{d} has {n} image" for d, n in counts.items() if n < 2]
    if small:
        raise DataError(f"domain {some(small)}; at least 2 are needed to train and to validate; add some or remove it")
    labels = sorted({f.label for f in files})
    if len(labels) < 2:
        raise DataError(f"the data has one class ({labels[0]}); at least 2 are needed; is it domain/class/image?")


def _gone(before: Sequence[_File], after: Sequence[_File]) -> list[str]:
    """Domains and classes of which no file is left."""
    out = []
    for what, field_name in (("domains", "domain"), ("classes", "label")):
        names, kept = ({getattr(f, field_name) for f in files} for files in (before, after))
        lost = sorted(names - kept)
        if lost:
            out.append(
                f"{len(lost)} of {len(names)} {what} have no file that can be read and are left out whole: {some(lost)}"
            )
    return out


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
            out.append(f"domain {domain} has no image of {len(lacking)} of {len(there)} classes: {some(lacking)}")
    if alone and len(domains) > 1:
        out.append(
            f"{len(alone)} classes are in one domain alone; nothing teaches them when it is held out: {some(alone)}"
        )
    return out


def _repeated(files: Sequence[_File]) -> list[str]:
    places: dict[str, list[tuple[str, str]]] = {}
    for f in files:
        places.setdefault(os.path.normpath(f.path), []).append((f.domain, f.label))
    several = [path for path, found in places.items() if len(set(found)) > 1]
    twice = [path for path, found in places.items() if len(set(found)) < len(found)]
    out = [f"{len(several)} files stand under several domains or labels: {some(several)}"] if several else []
    if twice:
        out.append(f"{len(twice)} files are listed more than once; one image can train and validate: {some(twice)}")
    return out


def _contents(files: Sequence[_File], threads: int) -> list[bytes]:
    """Of each file a digest of all its bytes."""

    def digest(file: _File) -> bytes:
        with open(file.path, "rb") as f:
            return hashlib.file_digest(f, lambda: hashlib.blake2b(digest_size=16)).digest()

    return pictures.mapped(digest, files, threads)


def _fingerprint(files: Sequence[_File], contents: Sequence[bytes]) -> str:
    """Of domains, labels and contents in their order; where files lie and what they are called is no part of it."""
    digest = hashlib.blake2b(digest_size=8)
    for f, content in zip(files, contents, strict=True):
        digest.update(f"{f.domain}\0{f.label}\0".encode() + content)
    return digest.hexdigest()


def in_memory(found: DomainSet, limit: int = 2**30) -> DomainSet:
    """The same set with its images decoded once, if they fit into `limit` bytes and are not augmented."""
    sizes = sum(len(d.y) for d in found.domains) * found.shape[0] * found.shape[1] * found.shape[2]
    files = [d for d in found.domains if isinstance(d, FileDomain)]
    if sizes > limit or len(files) < len(found.domains) or any(d.preprocessing.augment for d in files):
        return found
    plain = []
    for d in files:

        def one(path: Path, preprocessing: Preprocessing = d.preprocessing) -> Tensor:
            return pictures.pixels(pictures.open_rgb(path, preprocessing.scale), preprocessing.size)

        values = pictures.mapped(one, d.paths, d.threads)
        plain.append(PixelDomain(d.name, torch.stack(values), d.y, d.preprocessing, d.twins, d.columns))
    return replace(found, domains=tuple(plain))
