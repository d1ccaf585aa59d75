"""The folder of a site: the list of what we made there, and files that are put in place together."""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from featlearn.errors import ReportError
from featlearn.report import export
from featlearn.report.pictures import Drawn, Job, as_json, from_json

MARKER = ".featlearn-site.json"
MAKING = ".making-"
LEFT = 3600.0  # seconds after which a folder of unfinished files is one that a killed command left


@dataclass(frozen=True)
class Listed:
    """What the list in a folder says.

    files: every file we wrote, with what wrote it: build or page. digests: of their content. pictures: by experiment or
    claim, the key of what they depend on and what a page says of them. inputs: a digest of all that the last whole site
    was made from, "" where something failed; state: of sizes and times of its files; pages: how many they were.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, Any] = field(default_factory=dict)
    inputs: str = ""
    state: str = ""
    pages: int = 0


def listed(out: Path) -> Listed:
    """The list in a folder; empty where there is none that can be read. Names that leave the folder are dropped."""
    try:
        data = json.loads((out / MARKER).read_text(encoding="utf-8"))
        files, digests = (
            {str(k): str(v) for k, v in data.get(part, {}).items() if _inside(str(k))} for part in ("files", "digests")
        )
        pictures, last = dict(data.get("pictures", {})), dict(data.get("last", {}))
        return Listed(
            files, digests, pictures, str(last.get("inputs", "")), str(last.get("state", "")), int(last.get("pages", 0))
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return Listed()  # then nothing is removed


def _inside(name: str) -> bool:
    p = PurePosixPath(name)
    return not p.is_absolute() and ".." not in p.parts and "\\" not in name and ":" not in name


def guard(out: Path) -> None:
    """Refuse a folder that is not ours. Errors: ReportError."""
    if out.exists() and not out.is_dir():
        raise ReportError(f"out = {out} is not allowed: it is a file; choose another folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise ReportError(
            f"out = {out} is not allowed: it holds files that are not ours; choose an empty or new folder"
        )


def unchanged(out: Path, inputs: str) -> int | None:
    """How many pages a whole site has that was made from these inputs and whose files nobody touched; else None."""
    found = listed(out)
    if not inputs or found.inputs != inputs or found.state != _state(out, found.files):
        return None
    return found.pages


def standing(out: Path, jobs: Iterable[Job]) -> dict[str, list[Drawn]]:
    """The pictures, by owner, that lie in the folder as we left them and depend on nothing that has changed."""
    found, out_ = listed(out), {}
    for job in jobs:
        entry = found.pictures.get(job.owner)
        with suppress(TypeError, KeyError, OSError):
            if job.key and entry and entry["key"] == job.key:
                drawn = from_json(entry["drawn"])
                names = [f"{d.name}.{kind}" for d in drawn for kind in d.kinds]
                if all(_digest((out / n).read_bytes()) == found.digests[n] for n in names):
                    out_[job.owner] = drawn
    return out_


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _state(out: Path, names: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for name in sorted(names):
        try:
            found = (out / name).stat()
        except OSError:
            return "a file is gone"
        digest.update(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


class Stage:
    """Files that will be put in place together. pictures, inputs, pages: for the list, as in `Listed`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.made: dict[str, str] = {}
        self.moving: dict[str, Path] = {}
        self.pictures: dict[str, Any] = {}
        self.inputs, self.pages = "", 0
        self.folder: Path | None = None

    def put(self, name: str, data: bytes) -> None:
        """A file of the site; one that lies there with these bytes is left alone."""
        self.made[name] = _digest(data)
        self.moving.pop(name, None)
        with suppress(OSError):
            if (self.out / name).read_bytes() == data:
                return
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(dir=self.out, prefix=MAKING))
        self.moving[name] = self.folder / name
        self.moving[name].parent.mkdir(parents=True, exist_ok=True)
        self.moving[name].write_bytes(data)

    def keep(self, owner: str, key: str, drawn: Sequence[Drawn]) -> None:
        """Remember on what the pictures of an owner depend."""
        self.pictures[owner] = {"key": key, "drawn": as_json(drawn)}

    def stands(self, drawn: Sequence[Drawn]) -> None:
        """Pictures that lie there already."""
        for name in (f"{d.name}.{kind}" for d in drawn for kind in d.kinds):
            self.made[name] = _digest((self.out / name).read_bytes())


@contextmanager
def staged(out: Path, by: str) -> Generator[Stage, None, None]:
    """A stage whose files are moved to their places at the end; by: build, which also removes what an earlier build
    made and this one did not, or page.

    An exception, Ctrl-C included, before the end leaves the earlier site as it was, and no folder that was not there.
    """
    new, unmarked = not out.exists(), not (out / MARKER).is_file()
    stage = Stage(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        if unmarked:
            _mark(out, Listed())  # at once, so that a second command beside this one knows the folder as ours
        _sweep(out)
        yield stage
        _commit(out, by, stage)
    except OSError as error:
        raise ReportError(
            f"out = {out} cannot be written: {error.strerror or error}; free space there or choose another folder"
        ) from error
    finally:
        if stage.folder is not None:
            shutil.rmtree(stage.folder, ignore_errors=True)
        if unmarked and out.is_dir() and [p.name for p in out.iterdir()] == [MARKER]:
            (out / MARKER).unlink()
        if new and out.is_dir() and not any(out.iterdir()):
            out.rmdir()


def _commit(out: Path, by: str, stage: Stage) -> None:
    before = listed(out)
    for name in stage.moving:
        if name not in before.files and (out / name).exists():
            raise ReportError(
                f"out = {out} is not allowed: {name} there is not ours; move it away or choose another folder"
            )
    # the list first, and with both: a run killed from here on still knows every file as ours
    both = {**before.files, **dict.fromkeys(stage.made, by)}
    digests = {n: d for n, d in before.digests.items() if n not in stage.moving}
    pictures = {**before.pictures, **stage.pictures}
    if stage.moving:
        _mark(out, Listed(both, digests, before.pictures))
    for name, file in stage.moving.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(file, out / name)
    digests |= stage.made
    last = (before.inputs, before.state, before.pages)
    if by == "build":
        stale = [n for n, who in before.files.items() if who == "build" and n not in stage.made]
        for name in stale:
            _remove(out / name, before.digests.get(name))
        both = {n: who for n, who in both.items() if n not in stale}
        state = _state(out, both) if stage.inputs else ""
        last, pictures = (stage.inputs, state, stage.pages), stage.pictures
    _mark(out, Listed(both, {n: d for n, d in digests.items() if n in both}, pictures, *last))


def _remove(file: Path, digest: str | None) -> None:
    """Remove a file that we made, unless someone has written something else there since."""
    with suppress(FileNotFoundError):
        if file.is_file() and digest in (None, _digest(file.read_bytes())):
            file.unlink()


def _sweep(out: Path) -> None:
    """Remove what commands that were killed have left."""
    for folder in out.glob(f"{MAKING}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > LEFT:
                shutil.rmtree(folder, ignore_errors=True)


def _mark(out: Path, found: Listed) -> None:
    data = {
        "made_by": "featlearn report",
        "files": dict(sorted(found.files.items())),
        "digests": dict(sorted(found.digests.items())),
        "pictures": dict(sorted(found.pictures.items())),
        "last": {"inputs": found.inputs, "state": found.state, "pages": found.pages},
    }
    text = (json.dumps(data, indent=0) + "\n").encode()
    with suppress(OSError):
        if (out / MARKER).read_bytes() == text:
            return
    export.replace(out / MARKER, text)
