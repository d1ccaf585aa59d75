"""Which rows of a domain train and which validate: by class, by groups that stay together, or as a column says."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.data.domains import DomainSet
from featlearn.data.names import matched, shown, some
from featlearn.methods.domains import VALIDATION, Part, split

TEST, ORACLE, SECOND = "test", "oracle", "second"
"""Four fifths of the held-out domain, which nothing selects on, the fifth for selection that looks at it, and four
fifths of the second domain that is held out, of runs that select by it."""
TRAINING = "training"
MEANS = {
    **dict.fromkeys(("train", "training"), TRAINING),
    **dict.fromkeys(("val", "valid", "validation", "dev"), VALIDATION),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""What values of a column of splits mean, whatever their case."""
FOLDS = 5
SHARE = 1 / FOLDS
"""Of each domain, kept back."""


@dataclass(frozen=True)
class Splitting:
    """How each domain is parted.

    kind: "stratified" keeps a fifth of each class back, at least one image of a class with two, and images of the same
    bytes together; "random" a fifth of all, as the benchmark does; group: a column of the table whose rows stay
    together, classes as equal as can be; column: one that says train, val or test itself; digest: of the values of the
    two columns.
    """

    kind: Literal["stratified", "random"] = "stratified"
    group: str = ""
    column: str = ""
    digest: str = ""


@dataclass(frozen=True)
class Division:
    """Rows of a seed: training parts, parts to watch by name."""

    training: list[Part]
    watch: dict[str, list[Part]] = field(default_factory=dict)


def checked(splitting: Splitting, found: DomainSet) -> Splitting:
    """The same with the digest of its columns.

    Errors: SettingError, one line: columns together with another rule, one that the data does not have, a column of
    groups without a value in some row, or one of splits with other values or without a row to train on.
    """
    for name, value in (("group", splitting.group), ("split_column", splitting.column)):
        if value and splitting.kind == "random":
            raise SettingError(name, value, "without split = random", "leave one of them out")
    if splitting.group and splitting.column:
        raise SettingError("group", splitting.group, "without split_column", "leave one of them out")
    if splitting.group:
        _all_grouped(splitting.group, found)
    digest = hashlib.blake2b(digest_size=8)
    for name, column in (("group", splitting.group), ("split_column", splitting.column)):
        for domain in found.domains if column else ():
            values = _column(domain, column, name)
            digest.update("\0".join(values).encode("utf-8", "surrogateescape") + b"\n")
            if name == "split_column":
                where = [_meaning(v, column) for v in sorted(set(values))]  # rows lie in an order of their contents
                if TRAINING not in where and TEST not in where:
                    raise SettingError(name, column, "train, val or test", f"domain {domain.name} has val alone")
            elif len(set(values)) < 2:
                remedy = f"domain {domain.name} has one ({values[0]!r}): leave it out, or merge domains"
                raise SettingError(name, column, "a column with two or more values in each domain", remedy)
    return replace(splitting, digest=digest.hexdigest() if splitting.group or splitting.column else "")


def _all_grouped(column: str, found: DomainSet) -> None:
    """Rows without a value would be one group."""
    empty = {d.name: sum(not v.strip() for v in _column(d, column, "group")) for d in found.domains}
    if any(empty.values()):
        where = some([d for d, n in empty.items() if n])
        rows = f"{sum(empty.values())} of {sum(len(d.y) for d in found.domains)} rows have none ({where})"
        raise SettingError("group", column, "a column with a value in each row", f"{rows}: give each of them one")


def check_trains(splitting: Splitting, found: DomainSet, held_out: Sequence[str] = ()) -> None:
    """Errors: SettingError, before any run, where a domain that trains in some of the runs has no row to train on.

    held_out: those that are held out in turn, () for all."""
    if not splitting.column:
        return
    column = splitting.column
    meant = {d.name: [_meaning(v, column) for v in _column(d, column, "split_column")] for d in found.domains}
    tested = [name for name, values in meant.items() if TRAINING not in values]
    away = [matched(shown(name), found.names) for name in held_out] or found.names
    if any(set(tested) - {name} for name in away):
        alone = f"--held-out {shown(tested[0])} alone holds it out, or " if len(tested) == 1 else ""
        remedy = f"{some(tested)} has none: {alone}mark some rows train"
        raise SettingError("split_column", column, "with rows to train on in each domain that trains", remedy)


def shared(splitting: Splitting, found: DomainSet) -> list[str]:
    """A remark on groups that several domains have: of a domain that is held out they were trained on elsewhere."""
    if not splitting.group:
        return []
    places: dict[str, set[str]] = {}
    for domain in found.domains:
        for value in _column(domain, splitting.group, "group"):
            places.setdefault(value, set()).add(domain.name)
    several = [f"{value} ({some(sorted(names))})" for value, names in sorted(places.items()) if len(names) > 1]
    if not several:
        return []
    what = f"{len(several)} of {len(places)} groups of {splitting.group} are in several domains"
    return [f"{what}: {some(several)}; where one of these is held out, the others train on groups that it is tested on"]


def _column(domain: Any, name: str, field_name: str) -> tuple[str, ...]:
    columns: Mapping[str, tuple[str, ...]] = getattr(domain, "columns", {})
    if name not in columns:
        there = f"it has {some(list(columns))}" if columns else "only a .csv file has columns, besides its three"
        raise SettingError(field_name, name, "a column of the data", there)
    return columns[name]


def _meaning(value: str, column: str) -> str:
    found = MEANS.get(value.strip().casefold())
    if found is None:
        raise SettingError("split_column", column, "train, val or test in each line", f"one has {value!r}")
    return found


def parted(domain: Any, key: Key, splitting: Splitting) -> tuple[Part, Part]:
    """(rows to train on, rows kept back) of a domain, a function of its contents and the key.

    Errors: SettingError as `checked`, and for fewer than two rows.
    """
    if splitting.kind == "random":
        return split(domain, key)
    if splitting.group:
        return grouped([domain], key, splitting.group)[0]
    return _stratified(domain, torch.arange(len(domain.y)), key)


def _stratified(domain: Any, rows: Tensor, key: Key) -> tuple[Part, Part]:
    draw = (key / "split" / domain.name).numpy()
    twins = getattr(domain, "twins", ()) or tuple(map(str, range(len(domain.y))))
    units: dict[str, list[int]] = {}
    for row in rows[torch.from_numpy(draw.permutation(len(rows)))].tolist():
        units.setdefault(twins[row], []).append(row)
    by_class: dict[int, list[list[int]]] = {}
    for unit in units.values():
        by_class.setdefault(int(domain.y[unit[0]]), []).append(unit)
    inside: list[int] = []
    outside: list[int] = []
    for _, own in sorted(by_class.items()):
        wanted = max(round(SHARE * sum(map(len, own))), 1) if len(own) > 1 else 0
        kept = 0
        while kept < len(own) - 1 and sum(map(len, own[:kept])) < wanted:
            kept += 1
        outside += [row for unit in own[:kept] for row in unit]
        inside += [row for unit in own[kept:] for row in unit]
    if not outside and len(rows) > 1:  # one image a class: some class has to do without
        whole = rows[torch.from_numpy(draw.permutation(len(rows)))]
        return Part(domain, whole[1:]), Part(domain, whole[:1])
    return Part(domain, torch.tensor(inside)), Part(domain, torch.tensor(outside, dtype=torch.int64))


def grouped(domains: Sequence[Any], key: Key, column: str) -> list[tuple[Part, Part]]:
    """(rows to train on, rows kept back) of each domain, with every group of all of them on one side: a fold of
    scikit-learn's StratifiedGroupKFold by domain and class, the one that leaves the fewest classes of a domain without
    a row on either side, the first of equals.

    Errors: SettingError where a domain would have nothing to train on.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    values = [v for d in domains for v in _column(d, column, "group")]
    groups = np.unique(np.asarray(values), return_inverse=True)[1]
    where = np.repeat(np.arange(len(domains)), [len(d.y) for d in domains])
    y = np.unique(np.stack([where, np.concatenate([d.y.numpy() for d in domains])], 1), axis=0, return_inverse=True)[1]
    y = y.reshape(-1)
    own = key / "split"
    for domain in domains:
        own = own / domain.name
    folds = StratifiedGroupKFold(
        min(FOLDS, int(groups.max()) + 1), shuffle=True, random_state=int(own.numpy().integers(2**31))
    )

    def lacking(pair: tuple[np.ndarray, np.ndarray]) -> tuple[int, int]:
        return -len(set(where[pair[0]])), -sum(len(set(y[rows])) for rows in pair)

    inside, outside = min((pair for pair in _quietly(folds, y, groups) if all(map(len, pair))), key=lacking)
    empty = [d.name for i, d in enumerate(domains) if not (where[inside] == i).any()]
    if empty:
        remedy = f"domain {some(empty)} has its groups kept back: add groups, or leave --group out"
        raise SettingError("group", column, "groups that leave each domain some to train on", remedy)
    starts = np.concatenate([[0], np.cumsum([len(d.y) for d in domains])])

    def part(i: int, rows: np.ndarray) -> Part:
        return Part(domains[i], torch.from_numpy(rows[where[rows] == i] - starts[i]))

    return [(part(i, inside), part(i, outside)) for i in range(len(domains))]


def _quietly(folds: Any, y: np.ndarray, groups: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Without the warning that a class has fewer members than there are folds, which `lacking` looks after."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return list(folds.split(np.zeros(len(y)), y, groups))


def _as_said(domain: Any, key: Key, column: str) -> dict[str, Tensor]:
    """Rows by what a column says; a fifth of the rows to train on validates where it names none."""
    where = [_meaning(v, column) for v in _column(domain, column, "split_column")]
    rows = {
        name: torch.tensor([i for i, w in enumerate(where) if w == name], dtype=torch.int64)
        for name in (TRAINING, VALIDATION, TEST)
    }
    if not len(rows[VALIDATION]) and len(rows[TRAINING]) > 1:
        inside, outside = _stratified(domain, rows[TRAINING], key)
        rows |= {TRAINING: inside.rows, VALIDATION: outside.rows}
    return rows


def divide(
    found: DomainSet, held_out: str | None, seed: int, splitting: Splitting | None = None, second: str = ""
) -> Division:
    """Four fifths of each training domain to train on and one to validate on; of the held-out domain four fifths to
    test on and one for oracle selection; of a second one that is held out, four fifths to select by.

    Groups stay on one side over all training domains together; a domain that is held out is parted by itself.
    As a column says: val validates, test is left out of domains that train; of a domain that is held out, test is
    tested on (all but val, where it has none), val is for oracle selection.

    Errors: SettingError for a domain that has nothing to train on, or nothing that validates.
    """
    splitting = splitting or Splitting()
    key = Key("domains/split") / seed
    training, watch = [], {VALIDATION: []}
    stay = [d for d in found.domains if d.name not in (held_out, second)] if splitting.group else []
    together = dict(zip([d.name for d in stay], grouped(stay, key, splitting.group), strict=True)) if stay else {}
    for domain in found.domains:
        if splitting.column:
            rows = _as_said(domain, key, splitting.column)
            tested = rows[TEST] if len(rows[TEST]) else rows[TRAINING]
            away = domain.name in (held_out, second)
            inside, outside = Part(domain, tested if away else rows[TRAINING]), Part(domain, rows[VALIDATION])
        else:
            inside, outside = together.get(domain.name) or parted(domain, key, splitting)
        if domain.name == held_out:
            watch |= {TEST: [inside], ORACLE: [outside]}
        elif domain.name == second:
            watch[SECOND] = [inside]
        else:
            if not len(inside.rows):
                raise SettingError("split_column", splitting.column, "with rows to train on", f"{domain.name} has none")
            training.append(inside)
            watch[VALIDATION].append(outside)
    if not training:
        raise SettingError("held_out", held_out, "one of several domains", "no other is left to train on")
    if not sum(len(p.rows) for p in watch[VALIDATION]):
        raise SettingError("split", splitting.kind, "with rows that validate", "there are none: add images")
    kept = {name: [p for p in parts if len(p.rows)] for name, parts in watch.items()}
    return Division(training, {name: parts for name, parts in kept.items() if parts})
