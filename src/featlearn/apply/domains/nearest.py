"""Which runs in a store are nearest to those that are asked for, and which settings tell them apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featlearn.apply.domains.runs import EXPERIMENT, Trial
from featlearn.lab.provenance import same_settings
from featlearn.lab.store import Record
from featlearn.lab.trial import fields_of

FREE = ("held_out", "seed", "draw", "second")
"""What tells the runs of one evaluation apart."""
FLAGS = {
    "source.fingerprint": "the contents of --data",
    "network.called": "--backbone",
    "network.weights_hash": "the contents of --weights",
    "network.frozen": "--batch-norm",
    "splitting.kind": "--split",
    "splitting.group": "--group",
    "splitting.column": "--split-column",
    "splitting.digest": "the values of the column of the split",
    "domains": "how many domains there are",
}


@dataclass(frozen=True)
class Nearest:
    """Runs of an algorithm that differ from those asked for in the fewest settings.

    runs: how many; differs: flag -> (there, here); version: of the runs, where it is another one.
    """

    algorithm: str
    runs: int
    differs: Mapping[str, tuple[Any, Any]]
    version: int

    def told(self) -> str:
        """In one line."""
        if self.version != EXPERIMENT.version:
            return f"{self.runs} runs of {self.algorithm} are of an earlier version of featlearn: run them anew"
        parts = [f"{name} ({_told(there)} there, {_told(here)} here)" for name, (there, here) in self.differs.items()]
        what = ", ".join(parts) or "held-out domains or seeds alone"
        return f"{self.runs} runs of {self.algorithm} differ in {what}"


def _told(value: Any) -> str:
    return "none" if value in (None, "") else f"{value:g}" if isinstance(value, float) else str(value)


def nearest(records: Sequence[Record], trials: Sequence[Trial], name: str) -> Nearest | None:
    """The nearest runs of an algorithm; None where the store has none of it."""
    wanted = [dict(_flat(fields_of(t))) for t in trials if t.algorithm == name]
    found: dict[tuple[Any, ...], Nearest] = {}
    for r in records:
        if r.trial.get("algorithm") != name or r.status != "ok" or not wanted:
            continue
        there = dict(_flat(r.trial))
        differs = min((_apart(there, w) for w in wanted), key=len) if r.version == EXPERIMENT.version else {}
        same = (r.version, repr(sorted(differs.items())))
        runs = found[same].runs + 1 if same in found else 1
        found[same] = Nearest(name, runs, differs, r.version)
    return min(found.values(), key=lambda n: (-n.version, len(n.differs), -n.runs), default=None)


def _flat(fields: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _apart(there: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    apart = same_settings(
        {n: v for n, v in there.items() if n not in FREE}, {n: v for n, v in here.items() if n not in FREE}
    )
    return {FLAGS.get(n, "--" + n.rpartition(".")[2].replace("_", "-")): values for n, values in apart.items()}
