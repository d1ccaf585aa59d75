"""Protocols that one can cite: the settings of the released code of DG-NU and of DomainBed on five sets of photographs,
and the reported numbers beside those of a run.

Sources: nuclear.method_ermnu (from_code: the released code of DG-NU at 3617312) and the thesis, sec. 6.3.2; for
DomainBed its code at 05a8cc0. Reported numbers are those of Tables E.1 to E.6 and 6.1.
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from featlearn.apply.domains.scores import AVERAGE, Score
from featlearn.core import SettingError
from featlearn.data.domains import DomainSet
from featlearn.data.names import shown, some
from featlearn.data.tables import rows_of
from featlearn.lab.experiment import SummaryRow
from featlearn.lab.inventory import entry
from featlearn.methods.domains import Settings, algorithm
from featlearn.methods.domains.algorithms import settings_of
from featlearn.report.compare import against_reported

Protocol = Literal["dg-nu", "domainbed"]
PROTOCOLS: tuple[Protocol, ...] = ("dg-nu", "domainbed")


@dataclass(frozen=True)
class Benchmark:
    """A set of photographs. entry: of its table; column: of Tables 6.1 and E.6; classes, images: how many there are;
    domains: patterns of their names by column of the table."""

    name: str
    entry: str
    column: str
    classes: int
    images: int | None
    domains: Mapping[str, str]

    def column_of(self, name: str) -> str:
        """Column of the table of a domain; "" for a name that is none of this set's."""
        fits = (c for c, pattern in self.domains.items() if re.fullmatch(pattern, name, re.IGNORECASE))
        return next(fits, "")

    def has(self, names: Sequence[str]) -> bool:
        """Whether these are all the domains of the set, and no others."""
        return sorted(map(self.column_of, names)) == sorted(self.domains)


BENCHMARKS = (
    Benchmark(
        "PACS",
        "nuclear.tableE_2",
        "pacs",
        7,
        9991,
        {"a": "a|art.*", "c": "c|cartoon.*", "p": "p|photo.*", "s": "s|sketch.*"},
    ),
    Benchmark(
        "VLCS",
        "nuclear.tableE_1",
        "vlcs",
        5,
        10729,
        {"c": "c|caltech.*", "l": "l|labelme.*", "s": "s|sun.*", "v": "v|voc.*|pascal.*"},
    ),
    Benchmark(
        "OfficeHome",
        "nuclear.tableE_3",
        "officehome",
        65,
        None,
        {"a": "a|art.*", "c": "c|clip.*", "p": "p|product.*", "r": "r|real.*"},
    ),
    Benchmark(
        "TerraIncognita",
        "nuclear.tableE_4",
        "terrainc",
        10,
        24788,
        {f"l{n}": rf"(l|loc|location)?[ _-]?{n}" for n in (100, 38, 43, 46)},
    ),
    Benchmark(
        "DomainNet",
        "nuclear.tableE_5",
        "domainnet",
        345,
        586575,
        {word: f"{word}.*" for word in ("clip", "info", "paint", "quick", "real", "sketch")},
    ),
)
"""Numbers of classes and images as thesis and benchmark state them; those of OfficeHome's images are not stated."""


def benchmark_of(names: Sequence[str], data: str = "these data") -> Benchmark:
    """The set of photographs whose domains these are. Errors: SettingError for others."""
    for benchmark in BENCHMARKS:
        if benchmark.has(names):
            return benchmark
    known = ", ".join(b.name for b in BENCHMARKS)
    remedy = f"the domains of {data} are {some(list(names))}: give the settings by flags"
    raise SettingError("protocol", "on other data", f"for {known}", remedy)


def domains_in(data: str) -> list[str]:
    """Names of the domains of a folder or a .csv file, before anything else is looked at; [] where there are none."""
    path = Path(os.path.expanduser(data))
    if path.is_dir():
        return sorted(shown(p.name) for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    return sorted({shown(row.domain) for row in rows_of(path).rows}) if path.is_file() else []


def preset(protocol: Protocol, benchmark: Benchmark) -> dict[str, Any]:
    """Values of the flags of `featlearn domains evaluate` by name.

    dg-nu: as the released code runs: no search, an evaluation after steps 1, 101, 201, ... (VLCS 51, DomainNet 501),
    the nuclear norm from step 101 and the annealing to step 500 whatever the length, SWAD by the rule of its code.
    domainbed: an evaluation after steps 1, 301, 601, ... (DomainNet 1001) and twenty draws.
    """
    big, small = benchmark.name == "DomainNet", benchmark.name == "VLCS"
    released = protocol == "dg-nu"
    steps = 15001 if big and released else 5001
    every = (500 if big else 50 if small else 100) if released else (1000 if big else 300)
    return {
        "backbone": "resnet50",
        "weights": "IMAGENET1K_V1",
        "batch_norm": "frozen",
        "size": 224,
        "augment": "yes",
        "split": "random",
        "balance": "none",
        "steps": steps,
        "batch": 32,
        "rate": 5e-5,
        "weight_decay": 0.0,
        "precision": "float32",
        "evaluate_every": every,
        "evaluate_from": 1,
        "nuclear_weight": 0.01,
        "nuclear_start": 0.02 if steps == 5001 else 100.5 / steps,
        "anneal": 0.1 if steps == 5001 else 500 / steps,
        "swad_converge": 3,
        "swad_tolerance": 6,
        "swad_ratio": 0.2 if small else 0.3,
        "swad_rule": "released",
        "seeds": (0, 1, 2),
        "search": 1 if released else 20,
        "selection": "training-domain",
    }


def departures(protocol: Protocol, benchmark: Benchmark, flags: Mapping[str, Any], found: DomainSet) -> list[str]:
    """Where flags or data are not those of the protocol, a few words each; flags: by name, those that are there."""
    return differences(protocol, benchmark, flags, len(found.labels), sum(len(d.y) for d in found.domains))


def differences(
    protocol: Protocol, benchmark: Benchmark, flags: Mapping[str, Any], classes: int, images: int
) -> list[str]:
    """As `departures`, for data of so many classes and images. Settings of the algorithms that are run and that the
    preset leaves at their defaults count too."""
    own = {n for name in flags.get("algorithm", ()) for n in settings_of(algorithm(name))}
    wanted = {n: v for n, v in asdict(Settings()).items() if n in own} | preset(protocol, benchmark)
    out = [
        f"--{name.replace('_', '-')} {_told(flags[name])} in place of {_told(value)}"
        for name, value in wanted.items()
        if name in flags and flags[name] != value
    ]
    out += [f"--{n.replace('_', '-')} {flags[n]}" for n in ("group", "split_column", "probe") if flags.get(n)]
    if classes != benchmark.classes:
        out.append(f"{classes} classes in place of {benchmark.classes}")
    if benchmark.images not in (None, images):
        out.append(f"{images} images in place of {benchmark.images}")
    return out


def _told(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value) or "none"


def notes(protocol: Protocol) -> tuple[str, ...]:
    """What is not as in the code of a protocol, whatever the flags."""
    shared = (
        "random numbers are our own",
        "validation counts images alike over the training domains, as the paper says; the code counts domains alike",
    )
    if protocol == "dg-nu":
        return shared
    searched = "the search draws batch (32 to 64) and the weights of the algorithms; not rate, weight decay and dropout"
    return (*shared, searched)


# --- reported numbers -----------------------------------------------------------------------------------------------

ROWS = {"erm": "ERM", "mixup": "Mixup", "coral": "CORAL", "irm": "IRM", "vrex": "VREx", "group-dro": "GroupDRO"}
ROWS |= {"dann": "DANN", "sam": "SAM", "miro": "MIRO"}
"""Names of the tables."""
COMPARABLE = {
    "dg-nu": {"ERM-NU", "Mixup-NU", "SWAD", "SWAD-NU", "SWAD-CORAL", "SAM"},
    "domainbed": {"ERM", "Mixup", "CORAL", "IRM", "VREx", "GroupDRO"},
}
"""Rows of the tables by the code that made them: the authors' and that of SWAD, which it continues, or DomainBed's.
Those of MIRO are of a third; DANN is here in the form of its paper, and in the table in that of DomainBed."""
LEAST, OF_AVERAGE = 0.5, 1.0
"""Points within which a number counts as reproduced, whatever its printed deviation; and an average, which has none."""
TWO_MEANS = 2.8
"""Two means of three trials differ by less than this many standard errors 19 times in 20, or nearly so."""


def row_of(name: str) -> str:
    """An algorithm as the tables call it.

    Example:
        >>> row_of("swad-nu"), row_of("mixup-nu"), row_of("swad-coral")
        ('SWAD-NU', 'Mixup-NU', 'SWAD-CORAL')
    """
    chosen = algorithm(name)
    base = "" if chosen.averaged and chosen.base == "erm" else ROWS[chosen.base]
    return "-".join(["SWAD"] * chosen.averaged + [base] * bool(base) + ["NU"] * chosen.nuclear)


def beside(
    found: Sequence[Score],
    benchmark: Benchmark,
    protocol: Protocol,
    departures: Sequence[str] = (),
    missing: Collection[tuple[str, str]] = (),
) -> list[SummaryRow]:
    """A run's accuracies in per cent beside the reported ones: of each domain, and the average over domains.

    reproduced: off by no more than TWO_MEANS printed deviations (OF_AVERAGE points for an average), or than half the
    interval of our own where that is more, up to three times as much; LEAST points always. departures: settings that
    are not those of the protocol; with one of them nothing is comparable, and neither are rows of another protocol, a
    number without some of its seeds, and the average over some of the domains. missing: (algorithm, held-out domain) of
    which a run is not there, such as one draw of a search.
    """
    names = list(dict.fromkeys(s.domain for s in found if s.domain != AVERAGE))
    columns = {name: benchmark.column_of(name) or name for name in names}
    some_only = sorted(columns.values()) != sorted(benchmark.domains)
    ids = (benchmark.entry, "nuclear.table6_1", "nuclear.tableE_6")
    out = []
    for s in found:
        if s.mean is None or len(s.values) < 1:
            continue
        row, metric = row_of(s.algorithm), "average" if s.domain == AVERAGE else columns[s.domain]
        id_, there = _where(ids, row, metric, benchmark)
        value, low, high = (100 * (s.mean if v is None else v) for v in (s.mean, s.low, s.high))
        spread = _spread(id_, row, there)
        tolerance = OF_AVERAGE if metric == "average" else max(LEAST, TWO_MEANS * (spread or 0.0))
        partly = departures or len(s.values) < s.expected or (metric == "average" and some_only)
        away = names if s.domain == AVERAGE else [s.domain]
        partly = partly or any((s.algorithm, d) in missing for d in away)
        (summary,) = against_reported(
            [("", row, there, value, low, high, len(s.values))],
            [id_],
            {there: tolerance},
            units={there: "%"},
            incomparable=[id_] if partly or row not in COMPARABLE[protocol] else (),
        )
        out.append(summary)
    return out


def _where(ids: Sequence[str], row: str, metric: str, benchmark: Benchmark) -> tuple[str, str]:
    """(entry, column) that has a number of this row: tables 6.1 and E.6 have averages alone, in a column a set."""
    for id_ in ids:
        there = benchmark.column if id_ != benchmark.entry else metric
        if (id_ == benchmark.entry or metric == "average") and any(
            p.row == row and p.metric == there for p in entry(id_).reported
        ):
            return id_, there
    return ids[0], metric


def _spread(id_: str, row: str, metric: str) -> float | None:
    return next((p.spread for p in entry(id_).reported if p.row == row and p.metric == metric), None)


def outcome(rows: Sequence[SummaryRow]) -> str:
    """Of a whole table, the worst of its cells: deviates, not comparable, reproduced; not reported where it has none.

    Example:
        >>> outcome([])
        'not reported'
    """
    seen = {r.verdict for r in rows} - {"not reported"}
    return next((v for v in ("deviates", "not comparable", "reproduced") if v in seen), "not reported")
