"""Trials: the canonical JSON of a frozen dataclass, and the short hash that names a trial in the store.

Example:
    >>> @dataclasses.dataclass(frozen=True)
    ... class Trial:
    ...     seed: int = 0
    ...     rates: tuple[float, ...] = (0.1,)
    >>> canonical_json(Trial())
    '{"rates":[0.1],"seed":0}'
"""

import dataclasses
import hashlib
import json
import math
import re
from typing import Any

from featlearn.errors import TrialError

NOTE = {"note": True}
"""Metadata of a field that is no part of what a value is, such as where a file lies or on which device a trial runs:
it travels with the value and is in no hash and no record."""
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*")


def fields_of(value: Any, where: str = "trial") -> dict[str, Any]:
    """The fields of a dataclass instance as plain JSON values, those of NOTE left out; tuples become lists, nested
    dataclasses dicts.

    Errors: TrialError for anything that JSON cannot carry unchanged (nan and infinities included), naming the field.
    """
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TrialError(
            f"{where} = {value!r} is not allowed: a dataclass instance is needed; return one from trials()"
        )
    fields = [f for f in dataclasses.fields(value) if not f.metadata.get("note")]
    return {f.name: _plain(getattr(value, f.name), f"{where}.{f.name}") for f in fields}


def _plain(value: Any, where: str) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):  # numpy's float64 is a float too
        if not math.isfinite(value):
            raise TrialError(f"{where} = {value!r} is not allowed: a finite number; use None for 'no value'")
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise TrialError(f"{where} has the key {key!r}, which is not allowed: keys are strings; use str(key)")
        return {k: _plain(v, f"{where}[{k!r}]") for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return fields_of(value, where)
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    raise TrialError(
        f"{where} of type {kind} is not allowed: None, bool, int, float, str, and tuples, lists or dataclasses of them;"
        " convert it (for example int(x) or x.tolist())"
    )


def canonical_json(value: Any, where: str = "trial") -> str:
    """One text per value: sorted keys, no spaces, ASCII, floats by repr."""
    plain = fields_of(value, where) if dataclasses.is_dataclass(value) else _plain(value, where)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def trial_hash(experiment: str, version: int, trial: Any) -> str:
    """16 hexadecimal characters of BLAKE2 over experiment id, version and canonical fields; equal on every machine."""
    text = canonical_json([experiment, version]) + canonical_json(trial)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def config_hash(experiment: str, version: int, config: Any) -> str:
    """As trial_hash, of a whole config; names the manifest of a run."""
    text = "config" + canonical_json([experiment, version]) + canonical_json(config, "config")
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check_id(experiment: str) -> str:
    """An experiment id, if it is "<work>/<item>" of letters, digits, dot, dash and underscore; else TrialError."""
    if not ID.fullmatch(experiment):
        raise TrialError(
            f"id = {experiment!r} is not allowed: <work>/<item> of letters, digits, '.', '-', '_'; rename it"
        )
    return experiment
