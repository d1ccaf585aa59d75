"""Store: one JSON file a trial, its arrays beside it, and a manifest a run.

`<root>/<work>/<item>/<hash>.json`, `<hash>.npz`, `<config hash>.run.json`. Every file is written under a temporary name
in the same folder, flushed to disk and renamed; arrays come before the JSON that mentions them, so that a JSON implies
its arrays. Tables are always read back from here.
"""

import contextlib
import dataclasses
import errno
import io
import json
import math
import os
import time
import types
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from featlearn.errors import DamagedError, NewerError, OlderError, StoreError
from featlearn.lab.digest import rows_digest
from featlearn.lab.experiment import Experiment, Rows, TrialResult
from featlearn.lab.row import Row
from featlearn.lab.row import plain as plain_row
from featlearn.lab.trial import check_id, config_hash, trial_hash

FORMAT = 2
"""Raised when a name in a file changes: 2 says trial and reported where 1 said cell and reported."""
STATUSES = ("ok", "diverged", "failed")
DAY = 86400.0


@dataclass(frozen=True)
class Record:
    """What is kept of one trial.

    trial: its fields; status: "ok", "diverged" (error says where) or "failed" (error is the traceback); rows: flat,
    JSON-able; arrays: size in bytes of the sibling .npz, 0 for none; seeds: of the trial, where it has any;
    started: UTC; seconds: wall clock; peak_mib: highest memory of the process so far; code: digest
    of what its run_trial reached, "" where it was not kept; digest: of its rows; provenance: commit, versions.
    """

    experiment: str
    version: int
    hash: str
    trial: Mapping[str, Any]
    status: str
    rows: Sequence[Mapping[str, Any]] = ()
    error: str = ""
    arrays: int = 0
    seeds: Sequence[int] = ()
    started: str = ""
    seconds: float = 0.0
    peak_mib: float | None = None
    device: str = "cpu"
    threads: int = 1
    code: str = ""
    digest: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT


@dataclass(frozen=True)
class Manifest:
    """What is kept of one run, so that `diff` and `report` find it again.

    config: all fields; changed: those that differ from the preset; sweep: the swept settings of this member;
    trials: hashes in table order; seconds: None while it runs or after it was interrupted.
    """

    experiment: str
    version: int
    hash: str
    preset: str
    config: Mapping[str, Any]
    trials: Sequence[str]
    changed: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    command: str = ""
    started: str = ""
    seconds: float | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT


def now() -> str:
    """UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def plain_rows(rows: Iterable[Mapping[str, Any] | Row]) -> list[dict[str, Any]]:
    """Rows as they will be read back: numpy scalars become numbers; ValueError for what JSON cannot carry."""
    out = []
    for i, given in enumerate(rows):
        row = plain_row(given) if isinstance(given, Row) else given
        plain: dict[str, Any] = {}
        for name, value in row.items():
            v = value.item() if isinstance(value, np.generic) else value
            if isinstance(v, float) and not math.isfinite(v):
                raise ValueError(f"rows[{i}].{name} = {v} is not allowed: a finite number, or None for 'no value'")
            if not (v is None or isinstance(v, bool | int | float | str)):
                raise ValueError(
                    f"rows[{i}].{name} of type {type(value).__name__} is not allowed: rows are flat numbers and text;"
                    " return arrays in TrialResult.arrays"
                )
            plain[str(name)] = v
        if "trial" in plain:
            raise ValueError(f"rows[{i}].trial is not allowed: the store adds that column; use another name")
        out.append(plain)
    return out


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as the bytes of an .npz file, the same for the same arrays; ValueError for arrays of objects."""
    plain = {name: np.asarray(value) for name, value in arrays.items()}
    for name, value in plain.items():
        if value.dtype.hasobject:
            raise ValueError(f"arrays[{name!r}] of dtype {value.dtype} is not allowed: numbers or text; convert it")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **plain)  # pyright: ignore[reportArgumentType]
    return buffer.getvalue()


def write_atomic(path: Path, data: bytes) -> None:
    """All of `data` under `path`, or StoreError and everything as it was."""
    try:
        write_whole(path, data)
    except OSError as e:
        remedy = "free some space" if e.errno in (errno.ENOSPC, errno.EDQUOT) else "make the folder writable"
        raise StoreError(
            f"{path} cannot be written ({e.strerror or e}): {remedy} or choose another --store, then run again;"
            " what was finished is kept"
        ) from e


def temporary_beside(path: Path) -> Path:
    """A new name in the folder of `path`, shorter than many names of files: whatever is legal there can be written."""
    return path.with_name(f".{uuid.uuid4().hex[:16]}.tmp")


def write_whole(path: Path, data: bytes) -> None:
    """As `write_atomic`, for files outside of a store. Errors: OSError, and everything as it was."""
    temporary = temporary_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a JSON file of a known format; DamagedError, NewerError, OlderError or StoreError in one line."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError as e:
        raise StoreError(f"{path} does not exist: {remedy}") from e
    except OSError as e:
        raise StoreError(f"{path} cannot be read ({e.strerror or e}): make it readable") from e
    except ValueError as e:
        raise DamagedError(f"{path} is damaged (not complete JSON): {remedy}") from e
    if not isinstance(data, dict) or type(data.get("format")) is not int:
        raise DamagedError(f"{path} is damaged (no format number): {remedy}")
    if data["format"] > FORMAT:
        raise NewerError(
            f"{path} has format {data['format']}, this featlearn reads up to {FORMAT}: update featlearn or choose"
            " another --store; nothing was changed"
        )
    if data["format"] < FORMAT:
        raise OlderError(
            f"{path} has format {data['format']}, this featlearn reads format {FORMAT}: choose another --store and run"
            " again, or read it with the featlearn that wrote it; nothing was changed"
        )
    return data


def _build(cls: type, data: dict[str, Any], path: Path, remedy: str) -> Any:
    known = {f.name: f for f in dataclasses.fields(cls)}
    needed = {
        n for n, f in known.items() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    missing = sorted(needed - set(data))
    if missing:
        raise DamagedError(f"{path} is damaged (no {', '.join(missing)}): {remedy}")
    for name in sorted(known.keys() & data.keys()):
        if not _fits(data[name], known[name].type):
            raise DamagedError(f"{path} is damaged ({name} = {str(data[name])[:40]!r}): {remedy}")
    return cls(**{k: v for k, v in data.items() if k in known})


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON can stand for a field of this type."""
    if isinstance(hint, types.UnionType):
        return any(_fits(value, h) for h in typing.get_args(hint))
    kind = typing.get_origin(hint) or hint
    if kind is float:
        return type(value) in (int, float)
    return type(value) is {Mapping: dict, Sequence: list}.get(kind, kind)


AGAIN = "run again (it is moved aside and computed anew) or restore it from a copy"


class Store:
    """Records, arrays and manifests under `root`; `below` are further roots that are only read, nearest first.

    Example:
        >>> store = Store("runs", below=["evidence"])
        >>> store.read("emergence/table1", "0123456789abcdef") is None
        True
    """

    def __init__(self, root: str | Path, below: Sequence[str | Path] = ()) -> None:
        self.root, self.below = Path(root), tuple(Path(b) for b in below)

    def folder(self, experiment: str) -> Path:
        """Folder of an experiment in the writable root."""
        return self.root / check_id(experiment)

    def _find(self, experiment: str, name: str) -> Path | None:
        for root in (self.root, *self.below):
            path = root / check_id(experiment) / name
            if path.exists():
                return path
        return None

    # --- records ---------------------------------------------------------------------------------------------------

    def read(self, experiment: str, hash_: str) -> Record | None:
        """The record of a trial, None if there is none; raises DamagedError or NewerError and changes nothing."""
        path = self._find(experiment, f"{hash_}.json")
        if path is None:
            return None
        record = _build(Record, read_json(path, AGAIN), path, AGAIN)
        if record.hash != hash_ or record.experiment != experiment:
            raise DamagedError(f"{path} is damaged (it holds trial {record.hash} of {record.experiment}): {AGAIN}")
        if record.digest and record.digest != rows_digest(record.rows):
            raise DamagedError(f"{path} is damaged (its rows were changed): {AGAIN}")
        if record.status not in STATUSES:
            raise DamagedError(f"{path} is damaged (status {record.status!r}): {AGAIN}")
        if record.arrays:
            arrays = path.with_suffix(".npz")
            size = arrays.stat().st_size if arrays.exists() else 0
            if size != record.arrays:
                raise DamagedError(f"{arrays} is damaged ({size} of {record.arrays} bytes): {AGAIN}")
        return record

    def write(self, record: Record, arrays: Mapping[str, np.ndarray] | None = None) -> Record:
        """Write arrays, then the record; the record as written. ValueError for rows or arrays of a wrong kind."""
        path = self.folder(record.experiment) / f"{record.hash}.json"
        packed = npz_bytes(arrays) if arrays else b""
        record = dataclasses.replace(record, rows=plain_rows(record.rows), arrays=len(packed))
        record = dataclasses.replace(record, digest=rows_digest(record.rows))
        text = json.dumps(dataclasses.asdict(record), allow_nan=False, indent=1)
        if packed:
            write_atomic(path.with_suffix(".npz"), packed)
        write_atomic(path, text.encode())
        return record

    def set_aside(self, experiment: str, hash_: str) -> list[Path]:
        """Rename the files of a damaged record to `<name>.damaged` (numbered if that exists); the new names."""
        moved = []
        for name in (f"{hash_}.json", f"{hash_}.npz"):
            path = self.folder(experiment) / name
            if not path.exists():
                continue
            target, n = path.with_name(f"{name}.damaged"), 1
            while target.exists():
                n += 1
                target = path.with_name(f"{name}.damaged{n}")
            try:
                os.rename(path, target)
            except OSError as e:
                raise StoreError(f"{path} is damaged and cannot be moved ({e.strerror or e}): move it yourself") from e
            moved.append(target)
        return moved

    def load_arrays(self, experiment: str, hash_: str) -> dict[str, np.ndarray]:
        """The arrays of a trial."""
        path = self._find(experiment, f"{hash_}.npz")
        if path is None:
            return {}
        try:
            with np.load(path, allow_pickle=False) as data:
                return {name: data[name] for name in data.files}
        except Exception as e:  # zip, numpy and zlib each raise their own kinds for a damaged file
            raise DamagedError(f"{path} is damaged ({type(e).__name__}): delete its trial's .json and run again") from e

    def clean(self, experiment: str, older_than: float = DAY) -> None:
        """Remove temporary files that killed runs left behind, once they are a day old."""
        for path in self.folder(experiment).glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > older_than:
                    path.unlink()

    # --- tables ----------------------------------------------------------------------------------------------------

    def table(self, experiment: Experiment, trials: Sequence[Any]) -> Rows:
        """The rows of these trials in this order, whatever order they finished in."""
        hashes = [trial_hash(experiment.id, experiment.version, trial) for trial in trials]
        return self.table_of(experiment.id, hashes)

    def table_of(self, experiment: str, hashes: Sequence[str]) -> Rows:
        """As `table`, by experiment id and trial hashes (of a manifest, for instance)."""
        rows: list[Mapping[str, Any]] = []
        arrays, other = {}, {"missing": [], "failed": [], "diverged": []}
        for hash_ in hashes:
            record = self.read(experiment, hash_)
            if record is None:
                other["missing"].append(hash_)
            elif record.status != "ok":
                other[record.status].append(hash_)
            else:
                rows += [{**row, "trial": hash_} for row in record.rows]
                if record.arrays:
                    arrays[hash_] = partial(self.load_arrays, experiment, hash_)
        return Rows(tuple(rows), arrays, **{name: tuple(found) for name, found in other.items()})

    def records(self, experiment: str) -> list[Record]:
        """Every readable record of an experiment in any layer, other versions included; damaged files are skipped."""
        found: dict[str, Record] = {}
        for root in (self.root, *self.below):
            for path in sorted((root / check_id(experiment)).glob("[0-9a-f]*.json")):
                if path.name.endswith(".run.json") or path.stem in found:
                    continue
                with contextlib.suppress(StoreError):
                    found[path.stem] = _build(Record, read_json(path, AGAIN), path, AGAIN)
        return list(found.values())

    # --- manifests -------------------------------------------------------------------------------------------------

    def write_manifest(self, manifest: Manifest) -> Path:
        """Write the manifest of a run; its path."""
        path = self.folder(manifest.experiment) / f"{manifest.hash}.run.json"
        write_atomic(path, json.dumps(dataclasses.asdict(manifest), allow_nan=False, indent=1).encode())
        return path

    def manifest(self, experiment: str, hash_: str) -> Manifest | None:
        """A manifest by the hash of its config, None if there is none; raises DamagedError or NewerError."""
        path = self._find(experiment, f"{hash_}.run.json")
        return None if path is None else read_manifest(path)

    def manifests(self, experiment: str | None = None) -> list[tuple[Path, Manifest]]:
        """Path and manifest of every run in any layer, newest first; damaged ones are skipped."""
        found: dict[tuple[str, str], tuple[Path, Manifest]] = {}
        for root in (self.root, *self.below):
            for path in sorted(root.glob(f"{experiment or '*/*'}/*.run.json")):
                with contextlib.suppress(StoreError):
                    manifest = read_manifest(path)
                    found.setdefault((manifest.experiment, manifest.hash), (path, manifest))
        return sorted(found.values(), key=lambda f: f[1].started, reverse=True)


def read_manifest(path: str | Path) -> Manifest:
    """The manifest in a file; StoreError in one line."""
    remedy = "run the experiment again to write it anew"
    return _build(Manifest, read_json(Path(path), remedy), Path(path), remedy)


def manifest_hash(experiment: Experiment, config: Any) -> str:
    """Name of the manifest of this experiment at this config."""
    return config_hash(experiment.id, experiment.version, config)


__all__ = ["DamagedError", "Manifest", "NewerError", "Record", "Store", "StoreError", "TrialResult", "read_manifest"]
