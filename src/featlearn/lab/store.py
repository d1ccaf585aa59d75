"""Store: one JSON file a trial, its arrays beside it, and a manifest a run.

`<root>/<work>/<item>/<hash>.json`, `<hash>.npz`, `<config hash>.run.json`. Every file is written under a temporary name
in the same folder and renamed; arrays come before the JSON that mentions them, so that a JSON implies its arrays.
Tables are always read back from here, and nothing that is read is trusted: the fields of a record have to give its
hash, its content its seal, its arrays their digest.
"""

import contextlib
import dataclasses
import functools
import io
import json
import math
import os
import re
import time
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from featlearn.errors import DamagedError, NewerError, StoreError
from featlearn.lab.digest import bytes_digest, code_digest, rows_digest, text_digest
from featlearn.lab.experiment import Experiment, Rows, TrialResult
from featlearn.lab.files import FORMAT, locked, read_json, sweep, write_atomic
from featlearn.lab.row import Row
from featlearn.lab.row import plain as plain_row
from featlearn.lab.trial import ID, check_id, config_hash, trial_hash

T = TypeVar("T")

STATUSES = ("ok", "diverged", "failed")
JSON_TYPES: Mapping[Any, list[type]] = {Mapping: [dict], Sequence: [list], float: [int, float]}
HASH = re.compile(r"[0-9a-f]{16}")
LOCKS = ".locks"
"""One byte a trial, locked while somebody computes it."""


@dataclass(frozen=True)
class Record:
    """What is kept of one trial.

    trial: its fields; status: "ok", "diverged" (error says where) or "failed" (error is the traceback); rows: flat,
    JSON-able; arrays: size in bytes of the sibling .npz, 0 for none; seeds: of the trial, where it has any;
    started: UTC; seconds: wall clock; peak_mib: highest memory of the process so far; code: digest
    of what its run_trial reached, "" where it was not kept; digest: of its rows; arrays_digest: of the .npz;
    provenance: commit, versions; seal: digest of all other fields. Digests are "" in records older than they are.
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
    seconds: float | int = 0.0
    peak_mib: float | int | None = None
    device: str = "cpu"
    threads: int = 1
    code: str = ""
    digest: str = ""
    arrays_digest: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    seal: str = ""
    format: int = FORMAT


@dataclass(frozen=True)
class Manifest:
    """What is kept of one run, so that `diff` and `report` find it again.

    config: all fields; changed: those that differ from the preset; sweep: the swept settings of this member; sweeps:
    by the name of each sweep that the run is a member of, its swept settings there; trials: hashes in table order;
    seconds: None while it runs or after it was interrupted; summary: the summary rows at its end, so that they can be
    read without the experiment's code.
    """

    experiment: str
    version: int
    hash: str
    preset: str
    config: Mapping[str, Any]
    trials: Sequence[str]
    changed: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, Any] = field(default_factory=dict)
    sweeps: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    command: str = ""
    started: str = ""
    seconds: float | int | None = None
    summary: Sequence[Mapping[str, Any]] = ()
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


@functools.cache
def _known(cls: type) -> dict[str, tuple[tuple[type, ...], tuple[type, ...], bool]]:
    """Field -> (types that its value may have in JSON, those of the elements of a list, whether it has to be there)."""
    out: dict[str, tuple[tuple[type, ...], tuple[type, ...], bool]] = {}
    for f in dataclasses.fields(cls):
        hints: tuple[Any, ...] = typing.get_args(f.type) if isinstance(f.type, types.UnionType) else (f.type,)
        kinds: list[type] = []
        inner: list[type] = []
        for hint in hints:
            kind: Any = typing.get_origin(hint) or hint
            kinds += JSON_TYPES.get(kind, [kind])
            if kind is Sequence:
                (element,) = typing.get_args(hint)
                inner += JSON_TYPES.get(typing.get_origin(element) or element, [element])
        needed = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        out[f.name] = (tuple(kinds), tuple(inner), needed)
    return out


def _build(cls: type[T], data: dict[str, Any], path: Path, remedy: str) -> T:
    known = _known(cls)
    missing = sorted(n for n, (_, _, needed) in known.items() if needed and n not in data)
    if missing:
        raise DamagedError(f"{path} is damaged (no {', '.join(missing)}): {remedy}")
    given = {n: v for n, v in data.items() if n in known}
    for name, value in given.items():
        kinds, inner, _ = known[name]
        if type(value) not in kinds or (inner and not all(type(v) in inner for v in value)):
            raise DamagedError(f"{path} is damaged ({name} = {str(value)[:40]!r}): {remedy}")
    return cls(**given)


def seal_of(record: Record) -> str:
    """Digest of all fields of a record but its seal."""
    return text_digest(json.dumps({k: v for k, v in vars(record).items() if k != "seal"}, sort_keys=True))


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

    def _find(self, experiment: str, name: str) -> list[Path]:
        """The files of this name in all layers, nearest first."""
        paths = (root / check_id(experiment) / name for root in (self.root, *self.below))
        return [path for path in paths if path.exists()]

    # --- records ---------------------------------------------------------------------------------------------------

    def read(self, experiment: str, hash_: str, *, arrays: bool = False, code: str = "") -> Record | None:
        """The record of a trial, None if there is none; raises DamagedError or NewerError and changes nothing.

        arrays: read the arrays as well, to see that they are as they were written. code: take the nearest record of
        this digest of code (or without any), and only where no layer has one the nearest of all.
        """
        found = self._nearest(experiment, hash_, arrays, code)
        return None if found is None else found[1]

    def _nearest(self, experiment: str, hash_: str, arrays: bool, code: str) -> tuple[Path, Record] | None:
        """The record that `read` takes, and its file."""
        first = None
        for path in self._find(experiment, f"{hash_}.json"):
            found = path, self._sound(path, experiment, hash_, arrays)
            first = first or found
            if not code or found[1].code in ("", code):
                return found
        return first

    def _sound(self, path: Path, experiment: str, hash_: str, arrays: bool) -> Record:
        """The record in a file. Errors: DamagedError, NewerError."""
        record = _build(Record, read_json(path, AGAIN), path, AGAIN)
        wrong = _wrong(record, experiment, hash_)
        if wrong:
            raise DamagedError(f"{path} is damaged ({wrong}): {AGAIN}")
        if record.arrays:
            beside = path.with_suffix(".npz")
            size = beside.stat().st_size if beside.exists() else 0
            if size != record.arrays:
                raise DamagedError(f"{beside} is damaged ({size} of {record.arrays} bytes): {AGAIN}")
            if arrays and record.arrays_digest not in ("", bytes_digest(beside.read_bytes())):
                raise DamagedError(f"{beside} is damaged (its bytes were changed): {AGAIN}")
        return record

    def write(self, record: Record, arrays: Mapping[str, np.ndarray] | None = None) -> Record:
        """Write arrays, then the record; the record as written. ValueError for rows or arrays of a wrong kind."""
        path = self.folder(record.experiment) / f"{record.hash}.json"
        packed = npz_bytes(arrays) if arrays else b""
        record = dataclasses.replace(record, rows=plain_rows(record.rows), arrays=len(packed))
        record = dataclasses.replace(
            record, digest=rows_digest(record.rows), arrays_digest=bytes_digest(packed) if packed else "", seal=""
        )
        record = dataclasses.replace(record, seal=seal_of(record))
        text = json.dumps(vars(record), allow_nan=False, indent=1)
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

    def load_arrays(self, experiment: str, hash_: str, code: str = "") -> dict[str, np.ndarray]:
        """The arrays of the record that `read` takes."""
        found = self._nearest(experiment, hash_, True, code)
        if found is None or not found[1].arrays:  # arrays are written first: those of a trial that never ended
            return {}
        path = found[0].with_suffix(".npz")
        try:
            with np.load(path, allow_pickle=False) as data:
                return {name: data[name] for name in data.files}
        except Exception as e:  # zip, numpy and zlib each raise their own kinds for a damaged file
            raise DamagedError(f"{path} is damaged ({type(e).__name__}): delete its trial's .json and run again") from e

    def clean(self, experiment: str) -> None:
        """Remove temporary files that killed runs left behind."""
        sweep(self.folder(experiment))

    def locked(self, experiment: str, hash_: str, *, wait: bool = False) -> contextlib.AbstractContextManager[bool]:
        """Hold a trial while it is computed, so that runs of one machine do not compute it twice: see lab.files."""
        return locked(self.folder(experiment) / LOCKS, int(hash_[:15], 16), wait=wait)

    # --- tables ----------------------------------------------------------------------------------------------------

    def table(self, experiment: Experiment, trials: Sequence[Any]) -> Rows:
        """The rows of these trials in this order, whatever order they finished in; those of today's code first."""
        hashes = [trial_hash(experiment.id, experiment.version, trial) for trial in trials]
        return self.table_of(experiment.id, hashes, code=code_digest(experiment.run_trial))

    def table_of(
        self, experiment: str, hashes: Sequence[str], known: Mapping[str, Record] | None = None, code: str = ""
    ) -> Rows:
        """As `table`, by experiment id and trial hashes (of a manifest, for instance).

        known: records that were read already. code: see `read`; "" where it does not matter.
        """
        rows: list[Mapping[str, Any]] = []
        arrays, other = {}, {"missing": [], "failed": [], "diverged": [], "other_code": []}
        for hash_ in hashes:
            record = (known or {}).get(hash_) or self.read(experiment, hash_, code=code)
            if code and record is not None and record.code not in ("", code):
                other["other_code"].append(hash_)
            if record is None:
                other["missing"].append(hash_)
            elif record.status != "ok":
                other[record.status].append(hash_)
            else:
                rows += [{**row, "trial": hash_} for row in record.rows]
                if record.arrays:
                    arrays[hash_] = partial(self.load_arrays, experiment, hash_, code)
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
        write_atomic(path, json.dumps(vars(manifest), allow_nan=False, indent=1).encode())
        return path

    def manifest(self, experiment: str, hash_: str) -> Manifest | None:
        """A manifest by the hash of its config, None if there is none; raises DamagedError or NewerError."""
        paths = self._find(experiment, f"{hash_}.run.json")
        return read_manifest(paths[0]) if paths else None

    def manifests(self, experiment: str | None = None) -> list[tuple[Path, Manifest]]:
        """Path and manifest of every run in any layer, newest first; damaged ones are skipped."""
        found: dict[tuple[str, str], tuple[Path, Manifest]] = {}
        for root in (self.root, *self.below):
            for path in sorted(root.glob(f"{experiment or '*/*'}/*.run.json")):
                with contextlib.suppress(StoreError):
                    manifest = read_manifest(path)
                    found.setdefault((manifest.experiment, manifest.hash), (path, manifest))
        return sorted(found.values(), key=lambda f: f[1].started, reverse=True)


def _wrong(record: Record, experiment: str, hash_: str) -> str:
    """What is wrong with a record that was read, "" if nothing is."""
    if record.hash != hash_ or record.experiment != experiment:
        return f"it holds trial {record.hash[:40]!r} of {record.experiment[:40]!r}"
    if record.status not in STATUSES:
        return f"status {record.status!r}"
    if record.seal:
        if record.seal != seal_of(record):
            return "it was changed"
    elif record.digest and record.digest != rows_digest(record.rows):
        return "its rows were changed"
    try:
        if trial_hash(experiment, record.version, record.trial) != hash_:
            return "its fields are not those of its hash"
        if not record.seal:  # what is sealed was checked when it was written
            plain_rows(record.rows)
    except (ValueError, AttributeError) as e:
        return " ".join(str(e).split())[:200]
    return ""


def read_manifest(path: str | Path) -> Manifest:
    """The manifest in a file; StoreError in one line."""
    remedy = "run the experiment again to write it anew"
    found = _build(Manifest, read_json(Path(path), remedy), Path(path), remedy)
    if not (ID.fullmatch(found.experiment) and all(type(h) is str and HASH.fullmatch(h) for h in found.trials)):
        raise DamagedError(f"{path} is damaged (its experiment or its trials are no names): {remedy}")
    if not HASH.fullmatch(found.hash):
        raise DamagedError(f"{path} is damaged (hash = {found.hash[:40]!r}): {remedy}")
    return found


def manifest_hash(experiment: Experiment, config: Any) -> str:
    """Name of the manifest of this experiment at this config."""
    return config_hash(experiment.id, experiment.version, config)


__all__ = ["DamagedError", "Manifest", "NewerError", "Record", "Store", "StoreError", "TrialResult", "read_manifest"]
