"""From runs to tables: what selection picks, means with standard errors, missing runs, paired differences."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from featlearn.apply.domains.runs import Trial
from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Rows
from featlearn.methods.domains import algorithm

Selection = Literal["training-domain", "oracle"]
AVERAGE = "average"
STEP = "step"


@dataclass(frozen=True)
class Choice:
    """What selection picks for one algorithm, held-out domain and seed: draw, step, and the accuracies there.

    converged: False where SWAD found no valley and the last segment of training stands for its average.
    """

    algorithm: str
    held_out: str
    seed: int
    draw: int
    step: int
    validation: float
    test: float
    oracle: float
    converged: bool = True


def choose(rows: Sequence[Mapping[str, Any]], selection: Selection) -> Choice | None:
    """One of the rows of an algorithm, held-out domain and seed; None where there is none.

    training-domain: over all draws and evaluations the highest accuracy on the validation parts of the training
    domains taken together, the first of equals. oracle: over draws, after their last step, the highest accuracy on the
    fifth of the held-out domain that is not tested on. SWAD has one row a draw, that of its average.

    Source: thesis sec. 6.3.2 (nuclear.method_ermnu); oracle as in the benchmark, without early stopping. The released
    code averages the accuracies of the validation parts; here images count alike, as the paper says.
    """
    if not rows:
        return None
    averaged = algorithm(rows[0]["algorithm"]).averaged
    kept = [r for r in rows if r["kind"] == ("average" if averaged else STEP)]
    if selection == "oracle":
        last = {t: max(r["step"] for r in kept if r["draw"] == t) for t in {r["draw"] for r in kept}}
        kept = [r for r in kept if r["step"] == last[r["draw"]]]
    measure = "oracle" if selection == "oracle" else "validation"
    best = max(kept, key=lambda r: (r[measure], -r["draw"], -r["step"]))
    names = ("algorithm", "held_out", "seed", "draw", "step", "validation", "test", "oracle")
    return Choice(**{name: best[name] for name in names}, converged=best.get("swad_converged", True))


@dataclass(frozen=True)
class Score:
    """Accuracy of an algorithm on a held-out domain, or AVERAGE over all of them for the seeds that have all.

    values: by seed; error: standard error over seeds, None for fewer than two; expected: how many seeds were asked for;
    without_valley: seeds whose SWAD average is the last segment alone.
    """

    algorithm: str
    domain: str
    values: Mapping[int, float]
    mean: float | None
    error: float | None
    expected: int
    without_valley: tuple[int, ...] = ()


def _score(name: str, domain: str, values: Mapping[int, float], expected: int, without: Sequence[int] = ()) -> Score:
    found = list(values.values())
    mean = sum(found) / len(found) if found else None
    error = None
    if mean is not None and len(found) > 1:
        error = math.sqrt(sum((v - mean) ** 2 for v in found) / (len(found) - 1) / len(found))
    return Score(name, domain, dict(values), mean, error, expected, tuple(s for s in values if s in without))


def choices(table: Rows, selection: Selection) -> list[Choice]:
    """What is picked for every algorithm, held-out domain and seed that has a run."""
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for row in table.rows:
        groups.setdefault((row["algorithm"], row["held_out"], row["seed"]), []).append(row)
    return [c for c in (choose(rows, selection) for rows in groups.values()) if c is not None]


def scores(trials: Sequence[Trial], found: Sequence[Choice]) -> list[Score]:
    """One Score per algorithm and held-out domain, and AVERAGE, in the order of the trials."""
    algorithms, domains, seeds = (
        list(dict.fromkeys(getattr(c, name) for c in trials)) for name in ("algorithm", "held_out", "seed")
    )
    by = {(c.algorithm, c.held_out, c.seed): c.test for c in found}
    flat = {(c.algorithm, c.held_out, c.seed) for c in found if not c.converged}
    out = []
    for name in algorithms:
        for domain in domains:
            values = {s: by[name, domain, s] for s in seeds if (name, domain, s) in by}
            out.append(_score(name, domain, values, len(seeds), [s for s in seeds if (name, domain, s) in flat]))
        whole = {
            s: sum(by[name, d, s] for d in domains) / len(domains)
            for s in seeds
            if all((name, d, s) in by for d in domains)
        }
        without = [s for s in seeds if any((name, d, s) in flat for d in domains)]
        out.append(_score(name, AVERAGE, whole, len(seeds), without))
    return out


@dataclass(frozen=True)
class Missing:
    """A run without rows: status is "missing", "failed" or "diverged"."""

    algorithm: str
    held_out: str
    seed: int
    draw: int
    status: str
    trial: str


def missing(trials: Sequence[Trial], hashes: Sequence[str], table: Rows) -> list[Missing]:
    """Which runs have no rows, in the order of the trials."""
    status = {h: s for s in ("missing", "failed", "diverged") for h in getattr(table, s)}
    return [
        Missing(c.algorithm, c.held_out, c.seed, c.draw, status[h], h)
        for c, h in zip(trials, hashes, strict=True)
        if h in status
    ]


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
