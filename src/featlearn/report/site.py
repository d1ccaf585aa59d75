"""The site: written beside what is there, then put in place file by file."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from featlearn.errors import ReportError
from featlearn.lab.pending import Verdict
from featlearn.lab.pending_verdicts import Saved
from featlearn.lab.verdicts import Judged
from featlearn.report import claims as claim_pages
from featlearn.report import entry, export, glossary, pages, results
from featlearn.report.context import Site, path
from featlearn.report.model import ClaimPage, ExperimentPage, as_claim_page

MARKER = ".featlearn-site.json"


@dataclass(frozen=True)
class Built:
    """What was written. index: the page to open; pages: how many; problems: pictures that could not be drawn."""

    index: Path
    pages: int
    problems: tuple[str, ...] = ()


def build(
    out: Path | str,
    works: Sequence[Any],
    experiments: Sequence[ExperimentPage],
    verdicts: Sequence[Judged | Verdict | Saved | ClaimPage],
    progress: Callable[[int, int], None] | None = None,
) -> Built:
    """Write the whole site into `out`: an index, a page per work, entry, experiment and claim, pictures and CSV.

    Opens from disk without network. Files of an earlier site of ours that this one no longer has are removed;
    pages written by `page` and files of anyone else stay. progress(done, pages) is called after each page.
    verdicts: in the typed form, or in the former one, which is shown as pending and counts for nothing.
    Errors, before anything is written: ReportError where `out` is a file, holds files we did not make, or two ids
    would share a file name.

    Example:
        >>> from featlearn.lab import inventory
        >>> build("site", [inventory.load("emergence")], [], []).index  # doctest: +SKIP
        PosixPath('site/index.html')
    """
    out = Path(out)
    claims = [as_claim_page(v) for v in verdicts]
    _guard(out)
    with _staged(out, "build") as stage:
        site = Site(works, experiments, claims, stage)
        if clash := site.clashes():
            raise ReportError(
                f"{clash[0]} is not allowed twice: two ids share this page; pass each id once, or rename one"
            )
        site.known = set(site.pages())
        jobs: list[tuple[str, Callable[[], str]]] = []
        jobs += [(path("experiment", x.experiment.id), lambda x=x: results.experiment(site, x)) for x in experiments]
        jobs += [(path("claim", c.id), lambda c=c: claim_pages.claim(site, c)) for c in claims]
        jobs += [(path("work", w.id), lambda w=w: pages.work(site, w)) for w in works]
        # after the experiments, whose pictures they show
        jobs += [(path("entry", e.id), lambda w=w, e=e: entry.entry(site, w, e)) for w in works for e in w.entries]
        jobs.append((glossary.PATH, glossary.page))
        jobs.append(("index.html", lambda: pages.index(site)))  # last, so that it never points at missing pages
        stage("style.css", files("featlearn.report").joinpath("style.css").read_bytes())
        for i, (name, make) in enumerate(jobs, start=1):
            stage(name, make().encode())
            if progress is not None:
                progress(i, len(jobs))
    return Built(out / "index.html", len(jobs), tuple(site.problems))


def page(experiment_page: ExperimentPage, out: Path | str, works: Sequence[Any] = ()) -> Path:
    """Write the page of one experiment with its pictures into `out` and return its path.

    Links only to pages that lie in `out` already. works: where what the paper says is taken from; empty leaves that
    out. Errors: as `build`.
    """
    out = Path(out)
    _guard(out)
    name = path("experiment", experiment_page.experiment.id)
    with _staged(out, "page") as stage:
        known = {p for p in _manifest(out) if p.endswith(".html") and (out / p).is_file()}
        site = Site(works, [experiment_page], [], stage, known)
        stage("style.css", files("featlearn.report").joinpath("style.css").read_bytes())
        stage(glossary.PATH, glossary.page().encode())
        stage(name, results.experiment(site, experiment_page).encode())
    return out / name


def _guard(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ReportError(f"out = {out} is not allowed: it is a file; choose another folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise ReportError(
            f"out = {out} is not allowed: it holds files that are not ours; choose an empty or new folder"
        )


def _manifest(out: Path) -> dict[str, str]:
    """Files we wrote, with what wrote them; names that leave the folder are not believed."""
    try:
        listed = json.loads((out / MARKER).read_text(encoding="utf-8"))["files"]
        return {str(k): str(v) for k, v in listed.items() if _inside(str(k))}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # then nothing is removed


def _inside(name: str) -> bool:
    p = PurePosixPath(name)
    return not p.is_absolute() and ".." not in p.parts and "\\" not in name and ":" not in name


def _mark(out: Path, names: dict[str, str]) -> None:
    data = {"made_by": "featlearn report", "files": dict(sorted(names.items()))}
    export.replace(out / MARKER, (json.dumps(data, indent=0) + "\n").encode())


@contextmanager
def _staged(out: Path, by: str) -> Generator[Callable[[str, bytes], None], None, None]:
    """A function that puts files into a temporary folder in `out`; at the end they are moved to their places.

    An exception, Ctrl-C included, before the end leaves the earlier site as it was, and no folder that was not there.
    """
    new, unmarked = not out.exists(), not (out / MARKER).is_file()
    made: list[str] = []
    staging = None
    try:
        out.mkdir(parents=True, exist_ok=True)
        if unmarked:
            _mark(out, {})  # at once, so that a second command beside this one knows the folder as ours
        staging = Path(tempfile.mkdtemp(dir=out, prefix=".making-"))

        def stage(name: str, data: bytes) -> None:
            if name not in made:
                made.append(name)
            target = staging / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

        yield stage
        before = _manifest(out)
        # the list first, and with both: a run killed from here on still knows every file as ours
        _mark(out, before | dict.fromkeys(made, by))
        for name in made:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(staging / name, out / name)
        if by == "build":
            stale = [n for n, who in before.items() if who == "build" and n not in made]
            for name in stale:
                if (out / name).is_file():
                    (out / name).unlink()
            _mark(out, {n: who for n, who in before.items() if n not in stale} | dict.fromkeys(made, by))
    except OSError as error:
        raise ReportError(
            f"out = {out} cannot be written: {error.strerror or error}; free space there or choose another folder"
        ) from error
    finally:
        if staging is not None:
            shutil.rmtree(staging, ignore_errors=True)
        if unmarked and out.is_dir() and [p.name for p in out.iterdir()] == [MARKER]:
            (out / MARKER).unlink()
        if new and out.is_dir() and not any(out.iterdir()):
            out.rmdir()
