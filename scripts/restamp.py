"""Say again that committed rows are those of the code as it stands, after a change that should not have changed them.

    python scripts/restamp.py xor_sgd/samples xor_sgd/time
    python scripts/restamp.py --since 19ee2e81

For each experiment the cheapest trial of every kind is computed again. If its rows are the committed ones bit for bit,
all records of its preset `paper` (or `cpu`) get the digest of the code as it stands; if not, nothing is written and
the exit status is 1: run the experiment again.

--since REVISION: after a change of how digests are made. Where the digests of that revision, on the code as it stands,
are those of a record or a verdict, the record or verdict is of this code and gets the digest as it is made now, without
any computation; of a verdict the statements are made once more and have to be those that were judged. What is of other
code stays as it is and is named, with the exit status 1.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from featlearn import works
from featlearn.core import Key
from featlearn.lab import verdicts
from featlearn.lab.claim import Claim, predict, settle
from featlearn.lab.digest import code_digest, rows_digest
from featlearn.lab.files import write_atomic
from featlearn.lab.find import latest_complete
from featlearn.lab.provenance import fixed_threads
from featlearn.lab.statement import Control
from featlearn.lab.store import Record, Store, plain_rows, seal_of
from featlearn.lab.trial import trial_hash
from featlearn.lab.uncertainty import Law

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "evidence"


def restamp(id_: str) -> str:
    """What came of one experiment, in words; "" where its rows differ."""
    experiment, store = works.load_experiment(id_), Store(EVIDENCE)
    found = latest_complete(experiment, store, ("paper", "cpu"))
    if found is None:
        return "has no committed rows"
    trials = experiment.trials(found.config)
    ordered = sorted(trials, key=lambda t: -float(experiment.cost(t).seconds))
    cheapest = list({type(t): t for t in ordered}.values())  # the last of each kind stays
    for trial in cheapest:
        kept = store.read(id_, trial_hash(id_, experiment.version, trial))
        with fixed_threads(kept.threads if kept else 1):
            again = plain_rows(experiment.run_trial(trial).rows)
        if kept is None or json.dumps(again) != json.dumps(list(kept.rows)):
            return ""
    code = code_digest(experiment.run_trial)
    for trial in trials:
        record = store.read(id_, trial_hash(id_, experiment.version, trial))
        if record is not None:
            stamp(store, record, code)
    return f"{len(trials)} records stamped {code}, {len(cheapest)} trials computed again"


def stamp(store: Store, record: Record, code: str) -> None:
    """Write a record with another digest of code."""
    stamped = dataclasses.replace(record, code=code, digest=rows_digest(record.rows))
    stamped = dataclasses.replace(stamped, seal=seal_of(stamped))
    path = store.folder(record.experiment) / f"{record.hash}.json"
    write_atomic(path, json.dumps(dataclasses.asdict(stamped), allow_nan=False, indent=1).encode())


# --- after a change of how digests are made --------------------------------------------------------------------------


def digests_of(revision: str) -> Any:
    """The module of digests as it was."""
    name = f"{revision}:src/featlearn/lab/digest.py"
    text = subprocess.run(["git", "-C", ROOT, "show", name], capture_output=True, text=True, check=True).stdout
    module = sys.modules["digests_of_before"] = ModuleType("digests_of_before")
    exec(compile(text, name, "exec"), vars(module))
    return module


def stamp_rows(id_: str, before: Any) -> str:
    """What came of the records of one experiment, in words; it ends with what is of other code."""
    experiment, store = works.load_experiment(id_), Store(EVIDENCE)
    old, new = before.code_digest(experiment.run_trial), code_digest(experiment.run_trial)
    records = store.records(id_)
    found = [r for r in records if r.code == old and r.code != new]
    for record in found:
        sound = store.read(id_, record.hash, arrays=True)
        assert sound is not None
        stamp(store, sound, new)
    other = [r for r in records if r.code not in ("", old, new)]
    unknown = sum(not r.code for r in records)
    said = f"{len(found)} of {len(records)} records stamped {new}"
    return (
        said + (f", {unknown} without a digest" if unknown else "") + (f"; OTHER CODE: {len(other)}" if other else "")
    )


def stamp_verdict(claim: Claim, before: Any) -> str:
    """What came of the verdict on a claim: "stamped", "" where it was before, or why not."""
    path = verdicts.path_of(EVIDENCE, claim.id)
    data = json.loads(path.read_bytes()) if path.exists() else {}
    old = before.code_digest(
        *[f for f in (claim.statements, claim.observe, claim.settings, claim.premises) if callable(f)]
    )
    new = verdicts.digest_of(claim)
    if data.get("code") == new and data.get("seal") == verdicts.seal_of(data):
        return ""
    if data.get("code") != old:
        return "OTHER CODE: featlearn verify"
    kept = verdicts.built(data)
    statements = predict(claim, settle(claim, Key("verify") / claim.id)) if kept.statements else ()
    if len(statements) != len(kept.statements) or not all(map(same, kept.statements, statements)):
        return "OTHER STATEMENTS: featlearn verify"
    judged = tuple(dataclasses.replace(j, twin=s.twin) for j, s in zip(kept.statements, statements, strict=True))
    kept = dataclasses.replace(kept, code=new, statements=judged)
    if wrong := verdicts.wrong(kept):
        return f"ANOTHER {wrong}: featlearn verify"
    write_atomic(path, verdicts.file_of(kept))
    return "stamped"


def same(judged: verdicts.JudgedStatement, statement: Any) -> bool:
    """Whether a statement is the one that was judged: its words and, where no premise chose among them, its numbers."""
    words = ("name", "relation", "form", "source", "axis", "expect")
    if any(getattr(statement, w) != getattr(judged, w) for w in words):
        return False
    if not judged.rival_says.startswith(statement.rival_says):  # a law has its constants after it
        return False
    numbers = [(judged.margin, float(np.max(statement.margin)))]
    if judged.upper is not None:
        numbers.append((judged.upper, statement.upper))
    for shown, made in ((judged.value, statement.value), (judged.rival, statement.rival)):
        if shown and judged.kept == judged.of and made is not None and not isinstance(made, Law | Control):
            numbers += zip(shown, np.broadcast_to(np.ravel(made), judged.of)[list(judged.at)], strict=True)
    return all(float(f"{b:.12g}") == float(f"{a:.12g}") for a, b in numbers)


def since(revision: str) -> int:
    """Stamp all evidence of the code as it stands; 1 where some is of other code."""
    before, status = digests_of(revision), 0
    for id_ in works.EXPERIMENTS:
        said = stamp_rows(id_, before)
        print(f"{id_}: {said}", flush=True)
        status |= "OTHER" in said
    for work in works.WITH_CLAIMS:
        found = {c.id: stamp_verdict(c, before) for c in works.load_claims(work)}
        different = {i: said for i, said in found.items() if said not in ("", "stamped")}
        print(f"{work}: {sum(s == 'stamped' for s in found.values())} of {len(found)} verdicts stamped", flush=True)
        for id_, said in different.items():
            print(f"  {id_}: {said}")
        status |= bool(different)
    return status


def main(given: Sequence[str]) -> int:
    """Restamp the experiments named, or all since a revision; 1 where rows differ."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("experiments", nargs="*")
    flags.add_argument("--since", default="", metavar="REVISION")
    options = flags.parse_args(given)
    if options.since:
        return since(options.since)
    status = 0
    for id_ in options.experiments:
        said = restamp(id_)
        print(f"{id_}: {said or 'the cheapest trial gives other rows: run it again'}")
        status |= not said
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
