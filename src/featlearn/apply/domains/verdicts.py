"""The verdict of a table of accuracies on photographs (nuclear.tableE_1 to nuclear.tableE_5) by a run of the user's:
the result file of `featlearn domains evaluate --protocol ... --out FILE.json`."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featlearn.apply.domains.protocols import (
    BENCHMARKS,
    COMPARABLE,
    PROTOCOLS,
    Benchmark,
    Protocol,
    benchmark_of,
    beside,
    differences,
    notes,
    outcome,
    preset,
)
from featlearn.apply.domains.scores import AVERAGE, Score, score_of
from featlearn.core import SettingError
from featlearn.data.names import shown
from featlearn.errors import DataError, FeatlearnError
from featlearn.lab.experiment import SummaryRow
from featlearn.lab.inventory import entry

TABLES = {b.entry: b for b in BENCHMARKS}
"""The set of photographs of each table."""
NEEDED = ("domains", "labels", "sizes", "flags", "chosen", "scores", "missing", "protocol")
MADE = "featlearn domains evaluate --protocol ... --out FILE.json makes one"
FIRST = 6
"""Departures that a verdict names."""


@dataclass(frozen=True)
class TableVerdict:
    """What a run says of a table.

    outcome: by the rows that the code of the protocol made: reproduced where all numbers are, deviates where one is
    off, not comparable; not reported where the table has none of the run's rows; numbers: of the run beside the
    reported ones, those of Tables 6.1 and E.6 where this one has no average; reported: how many the table has; why:
    what keeps the run from being comparable; notes: what is not as in the released code in any run of ours.
    """

    entry: str
    benchmark: str
    protocol: str
    outcome: str
    numbers: tuple[SummaryRow, ...]
    reported: int
    why: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def own(self) -> tuple[SummaryRow, ...]:
        """Numbers that the table itself has."""
        return tuple(r for r in self.numbers if r.entry == self.entry)

    @property
    def says(self) -> str:
        """The verdict in one sentence."""
        n = len(self.own)
        of = f"{self.reported} reported numbers"
        if self.outcome == "not reported":
            return f"not reported: the table has no row of what was run ({of})"
        if self.outcome == "not comparable":
            more = f"; and {len(self.why) - FIRST} more" if len(self.why) > FIRST else ""
            return f"not comparable: {'; '.join(self.why[:FIRST])}{more}"
        good = sum(r.verdict == "reproduced" for r in self.own)
        other = sum(r.verdict == "not comparable" for r in self.own)
        left = f", {other} not comparable" if other else ""
        return f"{self.outcome}: {good} of {n} numbers reproduced{left}; {self.reported - n} of {of} not compared"


def table_verdict(id_: str, path: str | Path) -> TableVerdict:
    """The verdict of the table `id_` by a result file; nothing is written.

    Settings, classes, images, domains and seeds are compared with those of the protocol that the file names, one by
    one; numbers are computed anew from the accuracy of each algorithm, held-out domain and seed. What the file says of
    itself is taken as said: who ran it answers for it.

    Errors: SettingError for an entry that is no such table; DataError, one line, for a file that is not there, is no
    result file, or says two things at once.
    """
    if id_ not in TABLES:
        remedy = "accuracies of other entries have no protocol"
        raise SettingError("entry", id_, f"with results: one of {', '.join(sorted(TABLES))}", remedy)
    document = read_results(path)
    try:
        return _verdict(id_, document)
    except FeatlearnError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as why:
        raise DataError(f"results = {shown(path)!r} is no result file ({type(why).__name__}: {why}); {MADE}") from None


def _verdict(id_: str, document: Mapping[str, Any]) -> TableVerdict:
    benchmark, name = TABLES[id_], dict(document["protocol"]).get("name", "")
    protocol: Protocol = name if name in PROTOCOLS else PROTOCOLS[0]
    names = [str(d) for d in document["domains"]]
    same = benchmark.has(names)
    why = [] if same else [f"{_set_of(names)} in place of {benchmark.name}"]
    why += [] if name in PROTOCOLS else [f"--protocol {name or 'none'} in place of {' or '.join(PROTOCOLS)}"]
    why += _unlike(protocol, benchmark, document) if same else []
    found = _scores(document, tuple(preset(protocol, benchmark)["seeds"]))
    gone = {(m["algorithm"], d) for m in document["missing"] for d in (m["held_out"], m.get("second")) if d}
    numbers = beside(found, benchmark, protocol, why, gone) if same else []
    numbers = [r for r in numbers if r.reported is not None]
    own = [r for r in numbers if r.entry == id_]
    deciding = [r for r in own if r.row in COMPARABLE[protocol]]
    came = "not comparable" if why else outcome(deciding or own)
    if came == "not comparable" and not why:
        why = _partly(found, benchmark, protocol, deciding, own, gone)
    told = notes(protocol) if name in PROTOCOLS else ()
    return TableVerdict(id_, benchmark.name, name, came, tuple(numbers), len(entry(id_).reported), tuple(why), told)


def read_results(path: str | Path) -> dict[str, Any]:
    """The document of a result file. Errors: DataError."""
    try:
        found = json.loads(Path(os.path.expanduser(path)).read_bytes())
    except OSError as why:
        raise DataError(f"results = {shown(path)!r} cannot be read ({why.strerror or why}); {MADE}") from None
    except ValueError:
        raise DataError(f"results = {shown(path)!r} is no JSON document; {MADE}") from None
    lacking = [n for n in NEEDED if not isinstance(found, Mapping) or n not in found]
    if lacking:
        raise DataError(f"results = {shown(path)!r} is no result file: it has no {', '.join(lacking)}; {MADE}")
    return dict(found)


def _set_of(names: list[str]) -> str:
    try:
        return benchmark_of(names).name
    except SettingError:
        return f"the domains {', '.join(map(shown, names))}"


def _unlike(protocol: Protocol, benchmark: Benchmark, document: Mapping[str, Any]) -> list[str]:
    """Settings and data of a file that are not those of a protocol."""
    flags = {n: tuple(v) if isinstance(v, list) else v for n, v in document["flags"].items()}
    unstated = [n for n in preset(protocol, benchmark) if n not in flags]
    images = sum(document["sizes"].values())
    out = differences(protocol, benchmark, flags, len(document["labels"]), images)
    return out + [f"--{n.replace('_', '-')} is not stated" for n in unstated]


def _scores(document: Mapping[str, Any], seeds: tuple[int, ...]) -> list[Score]:
    """Scores from the choices of a file. Errors: DataError where they contradict its own scores."""
    by: dict[tuple[str, str], dict[int, float]] = {}
    for c in document["chosen"]:
        values = by.setdefault((c["algorithm"], c["held_out"]), {})
        known = isinstance(c["test"], int | float) and math.isfinite(c["test"]) and 0 <= c["test"] <= 1
        if not known or c["seed"] in values:
            what = "two accuracies" if known else f"the accuracy {c['test']}"
            raise DataError(f"results: {what} of {c['algorithm']}, {c['held_out']} held out, seed {c['seed']}; run it")
        values[c["seed"]] = float(c["test"])
    for s in document["scores"]:
        said = {int(seed): v for seed, v in s["values"].items()}
        if s["domain"] != AVERAGE and said != by.get((s["algorithm"], s["domain"]), {}):
            raise DataError(f"results: scores and choices of {s['algorithm']} on {s['domain']} differ; run it again")
    out = []
    domains = list(dict.fromkeys(d for _, d in by))
    for name in dict.fromkeys(a for a, _ in by):
        own = {d: {s: v for s, v in by.get((name, d), {}).items() if s in seeds} for d in domains}
        out += [score_of(name, d, values, len(seeds)) for d, values in own.items()]
        whole = {s: sum(own[d][s] for d in domains) / len(domains) for s in seeds if all(s in own[d] for d in domains)}
        out.append(score_of(name, AVERAGE, whole, len(seeds)))
    return out


def _partly(
    found: list[Score],
    benchmark: Benchmark,
    protocol: Protocol,
    deciding: list[SummaryRow],
    own: list[SummaryRow],
    gone: set[tuple[str, str]],
) -> list[str]:
    """Why numbers are not comparable though all settings are those of the protocol. deciding: those of rows that its
    code made."""
    if not deciding:
        rows = ", ".join(dict.fromkeys(r.row for r in own))
        return [f"the table has {rows} by other code than that of {protocol}"]
    held_out = list(dict.fromkeys(s.domain for s in found if s.domain != AVERAGE))
    out = [f"a run of {name} with {domain} held out is missing" for name, domain in sorted(gone)]
    out += [
        f"{s.algorithm} on {s.domain} has {len(s.values)} of {s.expected} seeds"
        for s in found
        if s.domain != AVERAGE and len(s.values) < s.expected and (s.algorithm, s.domain) not in gone
    ]
    if not benchmark.has(held_out):
        out.append(f"--held-out {' '.join(map(shown, held_out))} in place of all domains")
    return out
