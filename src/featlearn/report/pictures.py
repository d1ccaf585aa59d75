"""Pictures as files: drawn by matplotlib, beside each other where there are several, and kept where nothing changed."""

import contextlib
import functools
import hashlib
import io
import json
import pickle
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from featlearn.lab.digest import code_digest, rows_digest, text_digest
from featlearn.lab.experiment import Rows
from featlearn.lab.submit import Handle, ProcessPool, Serial, cores
from featlearn.report import export, style
from featlearn.report.plots import Picture

SVG_MOST = 700_000  # bytes; a larger drawing is kept as PNG alone, which phones render faster
SEVERAL = 4  # pictures' owners that are worth starting processes for
DPI = 120
SHARED = ("export.py", "pictures.py", "plots.py", "style.py")  # files of this folder that all drawing uses


@dataclass(frozen=True)
class Drawn:
    """A picture whose files are there, with what a page says of it.

    ids: the entries it stands for. name: its files without their endings. kinds: the endings, the one that is shown
    first. width, height: pixels on a page.
    """

    ids: tuple[str, ...]
    name: str
    kinds: tuple[str, ...]
    caption: str
    alt: str
    width: int
    height: int


Made = tuple[Drawn, Mapping[str, bytes]] | str
"""A picture with its files by ending, or why it could not be drawn."""


@dataclass(frozen=True)
class Job:
    """What one page wants drawn: draw(given) gives a picture, or pictures by entry.

    owner: id of the experiment or claim. name: the beginning of the file names. key: a digest of all that the pictures
    depend on, "" where that is not known.
    """

    owner: str
    name: str
    draw: Callable[[Any], Any]
    given: Any
    key: str = ""


def safe(id_: str) -> str:
    """An id as a file name: the same every time, without anything a file system or an address could misread."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", id_.replace("/", ".")).lstrip(".") or "_"


def made(job: Job) -> list[Made]:
    """The pictures of a job. Whatever drawing raises is told in words: it costs that picture and nothing else."""
    try:
        found = job.draw(job.given)
    except Exception as error:
        return [failed(error)]
    pictures = found if isinstance(found, Mapping) else {} if found is None else {"": found}
    shared: dict[int, list[str]] = {}
    for id_, picture in pictures.items():  # one picture may stand for several entries: it is saved and shown once
        shared.setdefault(id(picture), []).append(id_)
    out: list[Made] = []
    for ids in shared.values():
        try:
            out.append(_saved(pictures[ids[0]], ids, job))
        except Exception as error:
            out.append(f"{ids[0]}: {failed(error)}" if ids[0] else failed(error))
    return out


def failed(error: Exception) -> str:
    """Why there is no picture, in one line."""
    return f"the picture could not be drawn: {type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _saved(picture: Any, ids: Sequence[str], job: Job) -> tuple[Drawn, Mapping[str, bytes]]:
    p = picture if isinstance(picture, Picture) else Picture(picture)
    width, height = (float(v) for v in p.figure.get_size_inches())
    out: dict[str, bytes] = {}
    with style.applied(width):
        _settle(p.figure)
        out["svg"] = _svg(p.figure)
        if len(out["svg"]) > SVG_MOST:
            buffer = io.BytesIO()
            p.figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": "featlearn"})
            out = {"png": buffer.getvalue()}
    if p.data is not None:
        out["csv"] = export.csv_text(records(p.data)).encode()
    name = f"pictures/{safe('.'.join(part for part in (job.name, ids[0]) if part))}"
    sizes = (round(96 * width), round(96 * height))
    return Drawn(tuple(ids), name, tuple(out), p.caption, p.alt, *sizes), out


def _settle(figure: Any) -> None:
    """Lay a figure out once: matplotlib would draw all of it once more for that. Powers of ten become plain text."""
    from matplotlib.ticker import LogFormatterSciNotation

    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        for which in ("major", "minor"):
            formatter = getattr(axis, f"get_{which}_formatter")()
            if type(formatter) is LogFormatterSciNotation:
                getattr(axis, f"set_{which}_formatter")(style.plain_powers(formatter))
    engine = figure.get_layout_engine()
    if engine is not None:
        figure.set_dpi(72)  # that of the SVG
        engine.execute(figure)
        figure.set_layout_engine("none")


def _svg(figure: Any) -> bytes:
    """Letters as text in the fonts of the reader's machine, coordinates to a hundredth of a point."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "featlearn"})
    text = buffer.getvalue().decode()
    text = re.sub(r"font-family: '" + style.FONT + "'", f"font-family: {style.FONTS}", text)
    text = re.sub(r"(font: [^;\"]*)'" + style.FONT + "'", rf"\1{style.FONTS}", text)
    return re.sub(r' (?:d|x|y)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m[0]), text).encode()


def records(data: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Rows from rows, or from columns; shorter columns end in empty fields."""
    if not isinstance(data, Mapping):
        return list(data)
    columns = {k: np.ravel(np.asarray(v)) for k, v in data.items()}
    n = max((len(v) for v in columns.values()), default=0)
    return [{k: (v[i].item() if i < len(v) else None) for k, v in columns.items()} for i in range(n)]


@contextlib.contextmanager
def drawing(jobs: Sequence[Job]) -> Generator[Callable[[str], list[Made]], None, None]:
    """A function that gives the pictures of an owner, drawn by as many processes as there are cores if there are
    several. What cannot be sent to another process is drawn in this one when it is asked for."""
    sent: list[tuple[Job, bytes | None]] = []
    for job in jobs:
        try:
            sent.append((job, pickle.dumps(job)))
        except Exception:  # a function without a name, say: pickle raises whatever it meets
            sent.append((job, None))
    away = sum(data is not None for _, data in sent)
    pool = ProcessPool(min(cores(), away)) if away >= SEVERAL and cores() > 1 else contextlib.nullcontext(Serial())
    with pool as submit:
        handles: dict[str, Handle] = {}
        for job, data in sent:
            handles[job.owner] = Serial().submit(made, job) if data is None else submit.submit(_made_from, data)

        def of(owner: str) -> list[Made]:
            if owner not in handles:
                return []
            try:
                return handles[owner].result()
            except BrokenProcessPool:  # a process ended that drew this picture or another one: each gets its own
                return _alone(next(data for job, data in sent if job.owner == owner and data is not None))

        yield of


def _alone(data: bytes) -> list[Made]:
    with ProcessPool(1) as pool:
        try:
            return pool.submit(_made_from, data).result()
        except BrokenProcessPool as error:
            return [failed(error)]


def _made_from(data: bytes) -> list[Made]:
    return made(pickle.loads(data))


# --- what pictures depend on ---------------------------------------------------------------------------------------


def key(draw: Callable[..., Any], given: Any, *more: Any) -> str:
    """A digest of the code that draws, of what it is given, and of the versions of what it uses; "" where it cannot be
    told, and the picture is drawn each time."""
    function = draw.func if isinstance(draw, functools.partial) else draw
    if not getattr(function, "__module__", "").startswith("featlearn."):
        return ""
    with contextlib.suppress(TypeError, ValueError, OSError):
        return text_digest("\0".join((_engine(), code_digest(draw), _digest(given), *map(repr, more))))
    return ""


@functools.cache
def _engine() -> str:
    """Of the code that all drawing shares, and of what it stands on."""
    digest = hashlib.sha256()
    root = files("featlearn")
    for folder, names in (("lab", None), ("report", SHARED)):
        for file in sorted(root.joinpath(folder).iterdir(), key=lambda f: f.name):
            if file.name.endswith(".py") and (names is None or file.name in names):
                digest.update(file.read_bytes())
    for package in ("matplotlib", "numpy"):
        digest.update(f"{package} {version(package)}\n".encode())
    return digest.hexdigest()


def _digest(given: Any) -> str:
    if isinstance(given, Rows):
        rest = [list(given.arrays), list(given.missing), list(given.failed), list(given.diverged)]
        return rows_digest(given.rows) + text_digest(json.dumps(rest))
    raise TypeError(type(given).__name__)


def as_json(drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
    """For the list of what a site holds."""
    return [asdict(d) for d in drawn]


def from_json(data: Sequence[Mapping[str, Any]]) -> list[Drawn]:
    """From the list of what a site holds. Errors: TypeError, KeyError where it is not one of this version."""
    return [Drawn(**dict(d, ids=tuple(d["ids"]), kinds=tuple(d["kinds"]))) for d in data]
