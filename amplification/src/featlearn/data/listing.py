"""Which files of a folder are images: links are followed without loops, hidden files and other kinds are set aside."""

import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from featlearn.data.names import shown, some
from featlearn.errors import DataError

SUFFIXES = frozenset(".jpg .jpeg .jpe .jfif .png .apng .ppm .pgm .pbm .pnm .bmp .dib .tif .tiff .webp .gif".split())
OTHER_KINDS = frozenset(
    (
        ".avif .heic .heif .jp2 .j2k .jpx .jxl .tga .ico .psd .svg .exr .hdr .pfm .dcm .nii .mha .nrrd .npy .npz "
        ".mat .h5 .hdf5 .raw .dng .cr2 .nef .arw .pdf .mp4 .avi .mov .zip .tar .tgz .gz .7z .rar .parquet "
        ".tfrecord"
    ).split()
)
"""Suffixes of images, arrays and archives that are not read: they are named, since they may be what was meant."""
OF_SYSTEMS = frozenset(("thumbs.db", "desktop.ini", "__macosx", "@eadir", "lost+found"))
SNIFFED = 200
"""Of so many files without the suffix of an image the first bytes are looked at."""


@dataclass
class Listing:
    """What lies below a folder. other: without the suffix of an image; hidden: names that begin with a dot, and those
    that systems leave behind; broken: links into nothing; loops: links to a folder that holds them; again: folders
    that a link reaches a second time; special: neither files nor folders."""

    images: list[Path] = field(default_factory=list)
    other: list[Path] = field(default_factory=list)
    hidden: list[Path] = field(default_factory=list)
    broken: list[Path] = field(default_factory=list)
    loops: list[Path] = field(default_factory=list)
    again: list[Path] = field(default_factory=list)
    special: list[Path] = field(default_factory=list)

    def add(self, other: "Listing") -> None:
        """Take what another one found in."""
        for name, value in vars(other).items():
            getattr(self, name).extend(value)

    def remarks(self) -> list[str]:
        """A line for each kind of file that is left out."""
        kinds = Counter(p.suffix.lower() for p in self.other if p.suffix.lower() in OTHER_KINDS)
        plain = [p for p in self.other if p.suffix.lower() not in OTHER_KINDS]
        named = [p for p in plain if p.suffix.lower() not in (".txt", ".csv", ".json", ".xml", ".md", ".html")]
        disguised = [p for p in named[:SNIFFED] if looks_like_an_image(p)]
        out = []
        if plain:
            out.append(f"{len(plain)} files without the suffix of an image are left out: {some(plain)}")
        if disguised:
            what = "images by their content, without the suffix of one"
            out.append(f"{len(disguised)} of them are {what}: {some(disguised)}; rename them, and they are read")
        if kinds:
            told = ", ".join(f"{n} {suffix}" for suffix, n in sorted(kinds.items()))
            first = next(p for p in self.other if p.suffix.lower() in OTHER_KINDS)
            what = f"of a kind that is not read are left out: {told}, first {shown(first)}"
            out.append(f"{sum(kinds.values())} files {what}; convert images to PNG or JPEG, unpack archives")
        for found, what in (
            (self.hidden, "hidden files and folders are left out"),
            (self.broken, "links lead nowhere and are left out"),
            (self.loops, "links lead back to a folder that holds them and are not followed"),
            (self.again, "links reach a folder a second time and are not followed"),
            (self.special, "names are neither files nor folders and are left out"),
        ):
            if found:
                out.append(f"{len(found)} {what}: {some(found)}")
        return out


def is_hidden(name: str) -> bool:
    """Whether a name begins with a dot, or is one that a system leaves behind."""
    return name.startswith(".") or name.casefold() in OF_SYSTEMS


def identity(path: str | Path) -> tuple[int, int]:
    """What a folder is, by whatever name."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def holders(path: Path) -> set[tuple[int, int]]:
    """Identities of a folder and of all that hold it, along its name and behind its links."""
    out = set()
    for start in (Path(os.path.abspath(path)), path.resolve()):
        out |= {identity(p) for p in (start, *start.parents)}
    return out


def entries(folder: Path, found: Listing) -> tuple[list[Path], list[Path]]:
    """(folders, regular files) of a folder by name; what is hidden, broken or special goes into `found`.

    Errors: DataError for a folder that cannot be listed.
    """
    folders, files = [], []
    try:
        names = sorted(os.listdir(folder), key=os.fsencode)
    except OSError as why:
        reason = why.strerror or type(why).__name__
        raise DataError(f"folder {shown(folder)} cannot be listed ({reason}); make it readable or remove it") from None
    for name in names:
        path = folder / name
        if is_hidden(name):
            found.hidden.append(path)
            continue
        try:
            mode = os.stat(path).st_mode
        except OSError:  # a link into nothing or to itself; a path that is too long
            found.broken.append(path)
            continue
        if stat.S_ISDIR(mode):
            folders.append(path)
        elif stat.S_ISREG(mode):
            files.append(path)
        else:
            found.special.append(path)
    return folders, files


def walk(folder: Path, outside: set[tuple[int, int]] | None = None) -> Listing:
    """All below a folder, by name. A link is followed unless it leads to a folder that holds it (`outside`: identities
    of those above), or that was met before.

    Example:
        >>> walk(Path("PACS/photo/dog")).images[0]  # doctest: +SKIP
        PosixPath('PACS/photo/dog/056_0001.jpg')
    """
    found = Listing()
    above = holders(folder) if outside is None else outside | holders(folder)
    seen: set[tuple[int, int]] = set()

    def visit(at: Path, within: set[tuple[int, int]]) -> None:
        folders, files = entries(at, found)
        for path in files:
            (found.images if path.suffix.lower() in SUFFIXES else found.other).append(path)
        # real folders first, so that of two names the one that is no link is kept
        for path in sorted(folders, key=lambda p: (p.is_symlink(), os.fsencode(p))):
            here = identity(path)
            if here in within:
                found.loops.append(path)
            elif here in seen:
                found.again.append(path)
            else:
                seen.add(here)
                visit(path, within | {here})

    visit(folder, above)
    found.images.sort()
    return found


def looks_like_an_image(path: Path) -> bool:
    """Whether the first bytes of a file are those of a format that is read."""
    try:
        with open(path, "rb") as f:
            head = f.read(12)
    except OSError:
        return False
    starts = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*")
    return head.startswith(starts) or (head[:4] == b"RIFF" and head[8:] == b"WEBP")


def images_in(paths: Sequence[str | Path]) -> Listing:
    """Files as they are named, and the images below folders, in the order given."""
    found = Listing()
    for path in map(Path, paths):
        if path.is_dir():
            found.add(walk(path))
        else:
            found.images.append(path)
    return found
