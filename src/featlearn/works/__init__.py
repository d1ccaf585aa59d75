"""The eleven bodies of work, a folder each: `work.toml`, `rows.py`, `setup.py`, `experiments/` and `claims/`.

Adding an experiment or a module of claims takes its file and its name in the tuple of its work's `__init__.py`. Only
what is asked for is imported.
"""

import importlib
from typing import Any

from featlearn.lab.claim import Claim
from featlearn.lab.experiment import Experiment
from featlearn.lab.inventory import WORKS


def _work(work: str) -> Any:
    return importlib.import_module(f"featlearn.works.{work}")


EXPERIMENTS: tuple[str, ...] = tuple(f"{work}/{name}" for work in WORKS for name in _work(work).EXPERIMENTS)
WITH_CLAIMS: tuple[str, ...] = tuple(work for work in WORKS if _work(work).CLAIMS)


def load_experiment(id: str) -> Experiment:
    """The experiment "<work>/<item>"; LookupError if it is not listed."""
    if id not in EXPERIMENTS:
        raise LookupError(f"no experiment {id!r}: one of {', '.join(EXPERIMENTS) or 'none yet'}")
    work, name = id.split("/")
    found = importlib.import_module(f"featlearn.works.{work}.experiments.{name}").EXPERIMENT
    if found.id != id:
        raise LookupError(f"{work}/experiments/{name}.py calls itself {found.id!r}: give it the id {id!r}")
    return found


def load_claims(work: str) -> tuple[Claim, ...]:
    """The claims of a work, in the order of its modules; LookupError if it has none."""
    if work not in WITH_CLAIMS:
        raise LookupError(f"no claims for {work!r}: one of {', '.join(WITH_CLAIMS)}")
    modules = (importlib.import_module(f"featlearn.works.{work}.claims.{name}") for name in _work(work).CLAIMS)
    claims = tuple(claim for module in modules for claim in module.CLAIMS)
    for claim in claims:
        if not claim.id.startswith(f"{work}."):
            raise LookupError(f"claim {claim.id!r} of {work} is not allowed: its id begins with '{work}.'")
    return claims
