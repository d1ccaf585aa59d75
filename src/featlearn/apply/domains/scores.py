"""From runs to tables: what selection picks, means with standard errors, missing runs, paired differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from featlearn.apply.domains.runs import Trial
from featlearn.apply.domains.sources import AVERAGE as AVERAGE
from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Rows
from featlearn.methods.domains import algorithm

Selection = Literal["training-domain", "leave-one-domain-out", "oracle"]
MEASURES = ("test_balanced", "test_worst_class", "test_ece", "majority", "validation_balanced", "validation_majority")
"""Columns of a row that a choice keeps besides accuracies."""
STEP = "step"


@dataclass(frozen=True)
class Choice:
    """What selection picks for one algorithm, held-out domain and seed: draw, step, and the accuracies there.

    converged: False where SWAD found no valley and the last segment of training stands for its average; trial: hash of
    the run; place: of the row in the arrays of the run; by: what selected it; measures: those of MEASURES, and classes.
    """

    algorithm: str
    held_out: str
    seed: int
    draw: int
    step: int
    validation: float
    test: float
    oracle: float | None
    converged: bool = True
    trial: str = ""
    place: int = 0
    by: float = 0.0
    measures: Mapping[str, float] = field(default_factory=dict)


def choose(
    rows: Sequence[Mapping[str, Any]], selection: Selection, by: Mapping[tuple[int, int], float] | None = None
) -> Choice | None:
    """One of the rows of an algorithm, held-out domain and seed; None where there is none.

    training-domain: over all draws and evaluations the highest accuracy on the validation parts of the training
    domains taken together, the first of equals. leave-one-domain-out: over both the highest mean of accuracies on
    training domains that were held out in their turn, as `by` has it for (draw, step). oracle: over draws, after their
    last step, the highest accuracy on the fifth of the held-out domain that is not tested on. SWAD has one row a draw,
    that of its average, the step of which is 0 in `by`.

    Source: thesis sec. 6.3.2 (nuclear.method_ermnu); the others as in the benchmark, oracle without early stopping. The
    released code averages the accuracies of the validation parts; here images count alike, as the paper says.
    """
    rows = [r for r in rows if not r.get("second")]
    if not rows:
        return None
    averaged = algorithm(rows[0]["algorithm"]).averaged
    kept = [r for r in rows if r["kind"] == ("average" if averaged else STEP)]
    if selection == "oracle":
        last = {t: max(r["step"] for r in kept if r["draw"] == t) for t in {r["draw"] for r in kept}}
        kept = [r for r in kept if r["step"] == last[r["draw"]] and r["oracle"] is not None]
    measured = {"oracle": lambda r: r["oracle"], "training-domain": lambda r: r["validation"]}
    if selection == "leave-one-domain-out":
        known = by or {}
        kept = [r for r in kept if _at(r) in known]
        measured[selection] = lambda r: known[_at(r)]
    if not kept:
        return None
    measure = measured[selection]
    best = max(kept, key=lambda r: (measure(r), -r["draw"], -r["step"]))
    names = ("algorithm", "held_out", "seed", "draw", "step", "validation", "test", "oracle")
    return Choice(
        **{name: best[name] for name in names},
        converged=best.get("swad_converged", True),
        trial=best.get("trial", ""),
        place=best.get("place", 0),
        by=measure(best),
        measures={n: best[n] for n in (*MEASURES, "classes") if n in best},
    )


def _at(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["draw"], 0 if row["kind"] == AVERAGE else row["step"]


def by_other_domains(
    rows: Sequence[Mapping[str, Any]], held_out: str, domains: Sequence[str]
) -> dict[tuple[int, int], float]:
    """By (draw, step), 0 for SWAD's average: mean over the other domains of the accuracy on each by a run that saw
    neither it nor the one held out. Rows are those of one algorithm and seed; points that lack a domain are left out.

    Source: leave-one-domain-out cross-validation of Gulrajani and Lopez-Paz (2021).
    """
    others = [d for d in domains if d != held_out]
    found: dict[tuple[int, int], dict[str, float]] = {}
    for r in rows:
        pair = (r["held_out"], r.get("second"))
        if held_out not in pair or not r.get("second") or r["kind"] not in (STEP, AVERAGE):
            continue
        first = pair[0] == held_out
        found.setdefault(_at(r), {})[str(pair[1] if first else pair[0])] = r["second_accuracy"] if first else r["test"]
    return {at: sum(v.values()) / len(v) for at, v in found.items() if set(v) == set(others)}


@dataclass(frozen=True)
class Score:
    """Accuracy of an algorithm on a held-out domain, or AVERAGE over all of them for the seeds that have all.

    values: by seed; error: standard error over seeds, None for fewer than two; expected: how many seeds were asked for;
    without_valley: seeds whose SWAD average is the last segment alone; low, high: 95 % interval of Student's t over
    seeds, within [0, 1], None for fewer than two.
    """

    algorithm: str
    domain: str
    values: Mapping[int, float]
    mean: float | None
    error: float | None
    expected: int
    without_valley: tuple[int, ...] = ()
    low: float | None = None
    high: float | None = None


def score_of(name: str, domain: str, values: Mapping[int, float], expected: int, without: Sequence[int] = ()) -> Score:
    """Mean over the seeds that are there, with its error and its interval; expected: how many there should be."""
    found = list(values.values())
    mean = sum(found) / len(found) if found else None
    error = None
    if mean is not None and len(found) > 1:
        error = math.sqrt(sum((v - mean) ** 2 for v in found) / (len(found) - 1) / len(found))
    low, high = ends(found)
    flat = tuple(s for s in values if s in without)
    return Score(name, domain, dict(values), mean, error, expected, flat, low, high)


def ends(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Ends of the 95 % interval of Student's t of the mean of shares, within [0, 1]; None for fewer than two."""
    if len(values) < 2:
        return None, None
    _, low, high = interval(values)
    return max(low, 0.0), min(high, 1.0)


def choices(table: Rows, selection: Selection, domains: Sequence[str] = ()) -> list[Choice]:
    """What is picked for every algorithm, held-out domain and seed that has a run. domains: all of them, needed for
    leave-one-domain-out."""
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    pairs: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in table.rows:
        if row.get("second"):
            pairs.setdefault((row["algorithm"], row["seed"]), []).append(row)
        else:
            groups.setdefault((row["algorithm"], row["held_out"], row["seed"]), []).append(row)
    out = []
    for (name, held_out, seed), rows in groups.items():
        by = by_other_domains(pairs.get((name, seed), ()), held_out, domains)
        out.append(choose(rows, selection, by))
    return [c for c in out if c is not None]


def scores(trials: Sequence[Trial], found: Sequence[Choice]) -> list[Score]:
    """One Score per algorithm and held-out domain, and AVERAGE, in the order of the trials."""
    algorithms, domains, seeds = (
        list(dict.fromkeys(getattr(c, name) for c in trials if not c.second))
        for name in ("algorithm", "held_out", "seed")
    )
    by = {(c.algorithm, c.held_out, c.seed): c.test for c in found}
    flat = {(c.algorithm, c.held_out, c.seed) for c in found if not c.converged}
    out = []
    for name in algorithms:
        for domain in domains:
            values = {s: by[name, domain, s] for s in seeds if (name, domain, s) in by}
            out.append(score_of(name, domain, values, len(seeds), [s for s in seeds if (name, domain, s) in flat]))
        whole = {
            s: sum(by[name, d, s] for d in domains) / len(domains)
            for s in seeds
            if all((name, d, s) in by for d in domains)
        }
        without = [s for s in seeds if any((name, d, s) in flat for d in domains)]
        out.append(score_of(name, AVERAGE, whole, len(seeds), without))
    return out


@dataclass(frozen=True)
class Missing:
    """A run without rows: status is "missing", "failed" or "diverged"; second: another domain that it holds out."""

    algorithm: str
    held_out: str
    seed: int
    draw: int
    status: str
    trial: str
    second: str = ""


def missing(trials: Sequence[Trial], hashes: Sequence[str], table: Rows) -> list[Missing]:
    """Which runs have no rows, in the order of the trials."""
    status = {h: s for s in ("missing", "failed", "diverged") for h in getattr(table, s)}
    return [
        Missing(c.algorithm, c.held_out, c.seed, c.draw, status[h], h, c.second)
        for c, h in zip(trials, hashes, strict=True)
        if h in status
    ]


def shared_draws(table: Rows, gone: Sequence[Missing]) -> Rows:
    """The rows of draws that no algorithm lacks, so that none is the best of more draws than another. gone: of
    `missing`; one that diverged is not lacking: it was tried."""
    absent = {(m.held_out, m.second, m.seed, m.draw) for m in gone if m.status != "diverged"}
    places = ((r["held_out"], r.get("second") or "", r["seed"], r["draw"]) for r in table.rows)
    return replace(table, rows=tuple(r for r, at in zip(table.rows, places, strict=True) if at not in absent))


@dataclass(frozen=True)
class Difference:
    """Accuracy of the second algorithm minus that of the first, over runs that both have.

    domain: a held-out domain, or AVERAGE; mean, low, high: with the 95 % interval of Student's t over the n pairs of
    seed and held-out domain (for a domain: over seeds); by_seed: the interval for AVERAGE where first the domains of a
    seed are averaged and the seeds alone count as independent, None for fewer than two seeds with all domains.
    """

    domain: str
    n: int
    mean: float
    low: float
    high: float
    by_seed: tuple[float, float, float] | None = None


def compare(found: Sequence[Choice], first: str, second: str, domains: Sequence[str]) -> list[Difference]:
    """Paired differences, a line per held-out domain with a pair, and last AVERAGE; [] where no pair is there."""
    by = {(c.algorithm, c.held_out, c.seed): c.test for c in found}
    pairs = {
        (d, s): by[second, d, s] - by[first, d, s]
        for (name, d, s) in by
        if name == first and (second, d, s) in by and d in domains
    }
    if not pairs:
        return []
    out = []
    for domain in domains:
        own = [v for (d, _), v in sorted(pairs.items()) if d == domain]
        if own:
            out.append(Difference(domain, len(own), *interval(own)))
    seeds = sorted({s for _, s in pairs})
    whole = [sum(pairs[d, s] for d in domains) / len(domains) for s in seeds if all((d, s) in pairs for d in domains)]
    by_seed = interval(whole) if len(whole) > 1 else None
    return [*out, Difference(AVERAGE, len(pairs), *interval(list(pairs.values())), by_seed=by_seed)]
