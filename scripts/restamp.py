"""Say again that committed rows are those of the code as it stands, after a change that should not have changed them.

    python scripts/restamp.py xor_sgd/samples xor_sgd/time

For each experiment the cheapest trial of every kind is computed again. If its rows are the committed ones bit for bit,
all records of its preset `paper` (or `cpu`) get the digest of the code as it stands; if not, nothing is written and
the exit status is 1: run the experiment again.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from featlearn import works
from featlearn.lab.digest import code_digest, rows_digest
from featlearn.lab.files import write_atomic
from featlearn.lab.find import latest_complete
from featlearn.lab.provenance import fixed_threads
from featlearn.lab.store import Store, plain_rows, seal_of
from featlearn.lab.trial import trial_hash

EVIDENCE = Path(__file__).resolve().parents[1] / "evidence"


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
            stamped = dataclasses.replace(record, code=code, digest=rows_digest(record.rows))
            stamped = dataclasses.replace(stamped, seal=seal_of(stamped))
            path = store.folder(id_) / f"{record.hash}.json"
            write_atomic(path, json.dumps(dataclasses.asdict(stamped), allow_nan=False, indent=1).encode())
    return f"{len(trials)} records stamped {code}, {len(cheapest)} trials computed again"


def main(ids: Sequence[str]) -> int:
    """Restamp the experiments named; 1 where rows differ."""
    status = 0
    for id_ in ids:
        said = restamp(id_)
        print(f"{id_}: {said or 'the cheapest trial gives other rows: run it again'}")
        status |= not said
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
