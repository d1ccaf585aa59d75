"""What an evaluation comes to, for people and for other tools: chosen settings, measures, levels of guessing, rows."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featlearn.apply.domains.measures import Measures, total
from featlearn.apply.domains.runs import Trial
from featlearn.apply.domains.scores import (
    AVERAGE,
    STEP,
    Choice,
    Score,
    Selection,
    by_other_domains,
    choices,
    ends,
    scores,
)
from featlearn.lab.experiment import Rows, SummaryRow
from featlearn.methods.domains import algorithm
from featlearn.methods.domains.algorithms import settings_of

Chosen = tuple[Choice, Trial]
"""What selection picked, and the run that it is of."""


def own_settings(trial: Trial) -> dict[str, Any]:
    """The settings that have an effect on a run's algorithm, by name."""
    return {name: getattr(trial.settings, name) for name in settings_of(algorithm(trial.algorithm))}


def with_trials(found: Sequence[Choice], trials: Sequence[Trial], hashes: Sequence[str]) -> list[Chosen]:
    """Each choice beside its run."""
    by = dict(zip(hashes, trials, strict=True))
    return [(c, by[c.trial]) for c in found]


def rows_of(found: Sequence[Chosen], labels: Sequence[str]) -> list[dict[str, Any]]:
    """A flat row for each choice: the run, its settings, and all that was measured; for CSV and parquet."""
    out = []
    for c, trial in found:
        row = {n: getattr(c, n) for n in ("algorithm", "held_out", "seed", "draw", "trial", "step")}
        row |= {"batch": trial.schedule.batch, "rate": trial.schedule.rate, **own_settings(trial)}
        row |= {"validation": c.validation, "test": c.test, "oracle": c.oracle, "selected_by": c.by}
        row |= {name: value for name, value in c.measures.items() if name != "classes"}
        out.append(row | {"chance": 1 / len(labels), "swad_converged": c.converged})
    return out


def measures_of(table: Rows, found: Sequence[Choice]) -> dict[tuple[str, str, int], Measures]:
    """What each choice predicts on the images tested on, by algorithm, held-out domain and seed."""
    arrays: dict[str, Mapping[str, np.ndarray]] = {}
    out = {}
    for c in found:
        if c.trial not in table.arrays:
            continue
        if c.trial not in arrays:
            arrays[c.trial] = table.arrays[c.trial]()
        kept = arrays[c.trial]
        out[c.algorithm, c.held_out, c.seed] = Measures(
            kept["confusion"][c.place].astype(np.int64), kept["bins"][c.place]
        )
    return out


# --- measures of algorithms -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """What guessing reaches on a held-out domain: chance is one over the classes, majority the share of the class that
    is commonest where the model was trained, a mean over seeds."""

    domain: str
    chance: float
    majority: float


def levels(found: Sequence[Choice], classes: int) -> list[Level]:
    """A Level for each held-out domain, and AVERAGE."""
    by: dict[str, dict[int, float]] = {}
    for c in found:
        if "majority" in c.measures:
            by.setdefault(c.held_out, {})[c.seed] = c.measures["majority"]
    out = [Level(d, 1 / classes, sum(v.values()) / len(v)) for d, v in by.items()]
    return [*out, Level(AVERAGE, 1 / classes, sum(x.majority for x in out) / len(out))] if out else []


@dataclass(frozen=True)
class Measured:
    """One measure of an algorithm over all held-out domains: mean over the seeds that have all, with its 95 % interval
    of Student's t within [0, 1], None for fewer than two. which: the domain or class, where it is the worst one."""

    algorithm: str
    measure: str
    mean: float
    low: float | None
    high: float | None
    n: int
    which: str = ""


def measured(
    by: Mapping[tuple[str, str, int], Measures], domains: Sequence[str], labels: Sequence[str]
) -> list[Measured]:
    """Accuracy and balanced accuracy (means over domains), the worst domain and the worst class of each seed, and the
    calibration error; class and calibration on the images of all domains together. `which`: the commonest of seeds."""
    out = []
    for name in dict.fromkeys(a for a, _, _ in by):
        seeds = sorted({s for a, _, s in by if a == name})
        whole = {s: [by[name, d, s] for d in domains] for s in seeds if all((name, d, s) in by for d in domains)}
        if not whole:
            continue
        pooled = [total(ms) for ms in whole.values()]
        lowest = [min(range(len(ms)), key=lambda i, ms=ms: ms[i].accuracy) for ms in whole.values()]
        worst = [m.worst for m in pooled]
        values: dict[str, tuple[list[float], list[str]]] = {
            "accuracy": ([_mean([m.accuracy for m in ms]) for ms in whole.values()], []),
            "balanced": ([_mean([m.balanced for m in ms]) for ms in whole.values()], []),
            "worst domain": (
                [ms[i].accuracy for ms, i in zip(whole.values(), lowest, strict=True)],
                [domains[i] for i in lowest],
            ),
            "worst class": ([r for _, r in worst], [labels[c] for c, _ in worst]),
            "calibration error": ([m.ece for m in pooled], []),
        }
        for measure, (numbers, which) in values.items():
            low, high = ends(numbers)
            commonest = max(which, key=which.count) if which else ""
            out.append(Measured(name, measure, _mean(numbers), low, high, len(numbers), commonest))
    return out


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# --- settings for a fit ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """Settings of an algorithm that were tried, and how they did.

    score: mean over held-out domains, of each over seeds, of what selection goes by; runs: how many it is of; of: how
    many candidates the algorithm has.
    """

    algorithm: str
    batch: int
    rate: float
    settings: Mapping[str, Any]
    score: float
    runs: int
    of: int = 1


def best_settings(
    trials: Sequence[Trial], hashes: Sequence[str], table: Rows, selection: Selection, domains: Sequence[str]
) -> list[Candidate]:
    """For each algorithm the settings with the highest score, of those that were run on every held-out domain; the
    first of equals. Test domains do not count, but for oracle selection."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    pairs: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in table.rows:
        rows.setdefault(row["trial"], []).append(row)
        if row.get("second"):
            pairs.setdefault((row["algorithm"], row["seed"]), []).append(row)
    found: dict[str, dict[str, tuple[Trial, dict[str, list[float]]]]] = {}
    for trial, name in zip(trials, hashes, strict=True):
        if trial.second or name not in rows:
            continue
        by = by_other_domains(pairs.get((trial.algorithm, trial.seed), ()), trial.held_out, domains)
        value = _value(rows[name], selection, by)
        if value is None:
            continue
        same = repr((trial.schedule.batch, trial.schedule.rate, own_settings(trial)))
        of = found.setdefault(trial.algorithm, {}).setdefault(same, (trial, {}))
        of[1].setdefault(trial.held_out, []).append(value)
    held_out = {t.held_out for t in trials if not t.second}
    out = []
    for name, several in found.items():
        whole = [(t, v) for t, v in several.values() if set(v) == held_out]
        if not whole:
            continue
        scored = [(_mean([_mean(x) for x in v.values()]), t, sum(map(len, v.values()))) for t, v in whole]
        score, trial, runs = max(scored, key=lambda s: s[0])
        own = own_settings(trial)
        out.append(Candidate(name, trial.schedule.batch, trial.schedule.rate, own, score, runs, len(whole)))
    return out


def _value(
    rows: Sequence[Mapping[str, Any]], selection: Selection, by: Mapping[tuple[int, int], float]
) -> float | None:
    """What selection goes by, of one run."""
    averaged = algorithm(rows[0]["algorithm"]).averaged
    kept = [r for r in rows if r["kind"] == (AVERAGE if averaged else STEP)]
    if selection == "oracle":
        return max(kept, key=lambda r: r["step"])["oracle"] if kept else None
    if selection == "leave-one-domain-out":
        return max((by[at] for at in by if at[0] == rows[0]["draw"]), default=None)
    return max((r["validation"] for r in kept), default=None)


# --- for other tools ------------------------------------------------------------------------------------------------


def summary_rows(found: Sequence[Score], level: Sequence[Level]) -> list[SummaryRow]:
    """Accuracy of each algorithm on each held-out domain with its interval, and the levels of guessing below."""
    out = [
        SummaryRow("", s.algorithm, s.domain, 100 * s.mean, *_percent(s.mean, s.low, s.high), len(s.values), unit="%")
        for s in found
        if s.mean is not None
    ]
    named: tuple[tuple[str, Callable[[Level], float]], ...] = (
        ("commonest class", lambda x: x.majority),
        ("chance", lambda x: x.chance),
    )
    for name, value in named:
        out += [SummaryRow.of("", name, x.domain, 100 * value(x), unit="%") for x in level]
    return out


def _percent(mean: float, low: float | None, high: float | None) -> tuple[float, float]:
    return 100 * (mean if low is None else low), 100 * (mean if high is None else high)


@dataclass(frozen=True)
class Results:
    """All of an evaluation: what the table, the JSON document, the files and the page are made of.

    searched: settings that differ between runs of one algorithm; by: as `measures_of`.
    """

    data: str
    labels: tuple[str, ...]
    domains: tuple[str, ...]
    selection: Selection
    scores: Sequence[Score]
    chosen: Sequence[Chosen]
    measured: Sequence[Measured]
    levels: Sequence[Level]
    best: Sequence[Candidate]
    by: Mapping[tuple[str, str, int], Measures]
    searched: tuple[str, ...] = ()

    def pooled(self, name: str, domain: str = "") -> Measures | None:
        """Of an algorithm over seeds, on one held-out domain or on all; None where there is none."""
        own = [m for (a, d, _), m in self.by.items() if a == name and domain in ("", d)]
        return total(own) if own else None

    def no_better(self) -> list[Choice]:
        """Choices that are right no more often than the commonest class is."""
        return [c for c, _ in self.chosen if c.test <= c.measures.get("majority", -1.0)]

    def as_json(self) -> dict[str, Any]:
        """Under names, for one JSON document."""
        names = dict.fromkeys(a for a, _, _ in self.by)
        pooled = {name: self.pooled(name) for name in names}
        return {
            "scores": [
                {**dataclasses.asdict(s), "values": {str(k): v for k, v in s.values.items()}} for s in self.scores
            ],
            "levels": [dataclasses.asdict(x) for x in self.levels],
            "measures": [dataclasses.asdict(m) for m in self.measured],
            "chosen": rows_of(self.chosen, self.labels),
            "images": {name: m.as_json(self.labels) for name, m in pooled.items() if m},
        }


def results(
    data: str,
    labels: Sequence[str],
    domains: Sequence[str],
    trials: Sequence[Trial],
    hashes: Sequence[str],
    table: Rows,
    selection: Selection,
) -> Results:
    """Everything from the rows of the runs that are there. domains: of the data, all of them."""
    found = choices(table, selection, domains)
    chosen = with_trials(found, trials, hashes)
    by = measures_of(table, found)
    held_out = tuple(dict.fromkeys(t.held_out for t in trials if not t.second))
    return Results(
        data,
        tuple(labels),
        held_out,
        selection,
        scores(trials, found),
        chosen,
        measured(by, held_out, labels),
        levels(found, len(labels)),
        best_settings(trials, hashes, table, selection, domains),
        by,
        searched_settings(trials),
    )


def searched_settings(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Names of the settings that differ between runs of one algorithm."""
    values: dict[tuple[str, str], set[Any]] = {}
    for t in trials:
        for name, value in own_settings(t).items():
            values.setdefault((t.algorithm, name), set()).add(value)
    return tuple(dict.fromkeys(name for (_, name), found in values.items() if len(found) > 1))
