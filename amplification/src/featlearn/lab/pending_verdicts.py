"""Verdicts on disk: `<root>/verdicts/<work>/<claim id>.json`, the arrays of the picture in the .npz beside it."""

import json
import math
import re
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from featlearn.errors import DamagedError, StoreError, TrialError
from featlearn.lab.coverage import PENDING
from featlearn.lab.files import FORMAT, read_json, write_atomic
from featlearn.lab.load import last_line
from featlearn.lab.pending import Assumption, Case, Claim, Evidence, Tables, Verdict, verify
from featlearn.lab.provenance import provenance
from featlearn.lab.store import Store, now, npz_bytes
from featlearn.lab.verdicts import Judged

SHOWN = 200
NUMBERS = ("predict", "observe", "rival", "tolerance")
AGAIN = "run `featlearn verify` again or restore it from a copy"
ID = re.compile(r"[A-Za-z0-9_]+\.[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Saved:
    """A verdict read back. error: the exception in one line where the check itself broke (then "not run")."""

    verdict: Verdict
    when: str
    provenance: Mapping[str, Any]
    error: str = ""
    mechanism: bool = False


def mechanism(evidence: Evidence) -> bool:
    """Whether something beside vacuous bounds was tested: a case that agrees and whose rival is rejected."""
    return any(c.rival is not None and not c.vacuous and c.ok and c.rival_rejected for c in evidence.cases)


def numbers_of(case: Case) -> dict[str, Any]:
    """predict, observe, rival, tolerance as JSON: a number, or shape and at most SHOWN values at common positions.

    The positions where observe stands worst to predict and to the rival are always among them, so that the case is
    judged alike when it is read back.
    """
    given = {name: getattr(case, name) for name in NUMBERS}
    arrays = {name: np.asarray(v, dtype=np.float64) for name, v in given.items() if v is not None}
    shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
    size = math.prod(shape)
    if size <= SHOWN:
        return {name: None if name not in arrays else _encode(arrays[name]) for name in given}
    worst = [_worst(case.relation, arrays, name, shape) for name in ("predict", "rival") if name in arrays]
    at = np.unique(np.append(np.linspace(0, size - 1, SHOWN - len(worst)).astype(np.int64), worst))
    out: dict[str, Any] = {"at": at.tolist(), "shape": list(shape)}
    for name in given:
        if name not in arrays:
            out[name] = None
        elif arrays[name].ndim == 0:
            out[name] = _encode(arrays[name])
        else:
            out[name] = _encode(np.broadcast_to(arrays[name], shape).ravel()[at])
    return out


def _worst(relation: str, arrays: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> int:
    over = arrays["observe"] - arrays[name]
    over = {"equal": np.abs(over), "at most": over, "at least": -over}[relation] - arrays["tolerance"]
    over = np.broadcast_to(over, shape).ravel()
    return int(np.argmax(np.where(np.isnan(over), np.inf, over)))


def _encode(a: np.ndarray | np.float64) -> Any:
    if a.ndim == 0:
        value = float(a)
        return value if math.isfinite(value) else str(value)
    return [_encode(x) for x in np.asarray(a)]


def to_json(verdict: Verdict, error: str = "") -> dict[str, Any]:
    """A verdict as JSON; finite numbers are exact, others the words nan, inf, -inf."""
    claim, evidence = verdict.claim, verdict.evidence
    return {
        "format": FORMAT,
        "id": claim.id,
        "entries": list(claim.entries),
        "says": claim.says,
        "reported": claim.reported,
        "hits": claim.hits,
        "expected": claim.expected,
        "verdict": verdict.verdict,
        "why": verdict.why,
        "error": error,
        "mechanism": mechanism(evidence),
        "seconds": round(verdict.seconds, 3),
        "when": now(),
        "comment": evidence.comment,
        "data_needed": evidence.data_needed,
        "not_run": evidence.not_run,
        "assumptions": [{"says": a.says, "met": bool(a.met), "detail": a.detail} for a in evidence.assumptions],
        "cases": [
            {
                "name": c.name,
                "relation": c.relation,
                "ok": c.ok,
                "rival_rejected": c.rival_rejected,
                "rival_says": c.rival_says,
                "vacuous": c.vacuous,
                "unit": c.unit,
                **numbers_of(c),
            }
            for c in evidence.cases
        ],
        "provenance": provenance(),
    }


def path_of(root: Path, claim: str) -> Path:
    """File of a claim's verdict."""
    if not ID.fullmatch(claim):
        raise TrialError(
            f"claim id = {claim!r} is not allowed: <work>.<slug> of letters, digits, '.', '-', '_'; rename"
        )
    return root / "verdicts" / claim.split(".")[0] / f"{claim}.json"


def write_verdict(store: Store, verdict: Verdict, error: str = "") -> Path:
    """Write the arrays, then the verdict; the path of the JSON."""
    path = path_of(store.root, verdict.claim.id)
    if path.exists():
        try:
            read_json(path, AGAIN)  # NewerError passes: what a newer version wrote is not ours to replace
        except DamagedError:
            path.rename(path.with_name(path.name + ".damaged"))
    text = json.dumps(to_json(verdict, error), indent=1, allow_nan=False)
    if verdict.evidence.data:
        write_atomic(path.with_suffix(".npz"), npz_bytes(verdict.evidence.data))
    write_atomic(path, text.encode())
    return path


def read_summary(store: Store, claim: str) -> dict[str, Any] | None:
    """The JSON of the nearest layer that has a verdict on this claim; None if there is none."""
    for root in (store.root, *store.below):
        path = path_of(root, claim)
        if path.exists():
            data = read_json(path, AGAIN)
            if not {"verdict", "why", "cases", "seconds", "expected"} <= data.keys():
                raise DamagedError(f"{path} is damaged (fields are missing): {AGAIN}")
            return {**data, "path": str(path)}
    return None


def read_verdict(store: Store, claim: Claim) -> Saved | None:
    """The last verdict on a claim, with cases (as shown) and arrays; None if it was never checked."""
    data = read_summary(store, claim.id)
    if data is None:
        return None
    arrays = Path(data["path"]).with_suffix(".npz")
    loaded: dict[str, np.ndarray] | None = None
    try:
        if arrays.exists():
            with np.load(arrays, allow_pickle=False) as f:
                loaded = {name: f[name] for name in f.files}
        evidence = Evidence(
            tuple(_case(c) for c in data["cases"]),
            tuple(Assumption(a["says"], a["met"], a["detail"]) for a in data["assumptions"]),
            data["comment"],
            loaded,
            data["data_needed"],
            data["not_run"],
        )
        verdict = Verdict(claim, data["verdict"], data["why"], evidence, float(data["seconds"]))
    except StoreError:
        raise
    except Exception as e:
        raise DamagedError(f"{data['path']} or its .npz is damaged ({type(e).__name__}): {AGAIN}") from e
    return Saved(verdict, data["when"], data["provenance"], data["error"], data["mechanism"])


def _case(data: Mapping[str, Any]) -> Case:
    values = {name: _decode(data[name]) for name in NUMBERS}
    rest = {name: data[name] for name in ("name", "relation", "rival_says", "vacuous", "unit")}
    return Case(**values, **rest)


def _decode(value: Any) -> Any:
    if value is None:
        return None
    return (
        np.asarray(value, dtype=np.float64)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else float(value)
    )


def check(claim: Claim, key: Any, tables: Tables, store: Store) -> Judged:
    """Judge a claim in its former form, keep the verdict, and give it in the words of the typed form, counting for
    nothing. A check that breaks is "not run"."""
    start, error = time.perf_counter(), ""
    try:
        verdict = verify(claim, key, tables)
    except Exception as e:
        error = traceback.format_exc()
        why = f"the check broke: {last_line(e)}"
        verdict = Verdict(claim, "not run", why, Evidence(not_run=why), time.perf_counter() - start)
    write_verdict(store, verdict, error)
    return Judged(
        id=claim.id,
        entries=claim.entries,
        says=claim.says,
        verdict=verdict.verdict,
        corrected="",
        scope=PENDING,
        why=verdict.why,
        error=error,
        as_expected=verdict.as_expected and not error,
        covers=False,
        remarks=claim.reported,
        accuses={},
        premises=(),
        statements=(),
        code="",
        rows="",
        seconds=verdict.seconds,
    )
