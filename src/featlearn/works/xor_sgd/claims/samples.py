"""Claims about sample complexity, read from the rows of `xor_sgd/samples`."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.errors import EmptyArm
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COUNT, REAL
from featlearn.lab.statement import Statement, at_least, equal, exponent
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation, slope
from featlearn.works.xor_sgd.rows import Budget, Selected, chosen, saved_at_edges

THEOREM = "Theorem 3.1"
PRIOR = "Section 1"


def growth(found: Sequence[Selected[Budget]]) -> Estimate:
    """Exponent of the budgets of reported seeds in d."""
    d = [float(p.d) for p in found for _ in p.samples]
    if not d:
        raise EmptyArm("no grid point brought a reported seed to the target")
    return slope(np.log(d), np.log([n for p in found for n in p.samples]), Budget.unit)


def lead(table: Table[Budget], found: Sequence[Selected[Budget]]) -> np.ndarray:
    """For each d the log of the budget at the median point of the grid over that at the selected point.

    Geometric means of the reported seeds; a point at which one of them never arrives is worse than any other.
    """
    leads = []
    for p in found:
        points = table.where(learner="Network", d=p.d, role="reported").by("share", "noise")
        logs = {
            point: float(np.mean([math.log(r.samples) if r.samples else math.inf for r in part.rows]))
            for point, part in points.items()
        }
        arrived = [v for v in logs.values() if math.isfinite(v)]
        leads.append(float(np.median(arrived)) - min(logs[p.choice.point], 1e3))
    return np.array(leads)


def theorem_statements(settings: None) -> tuple[Statement, ...]:
    """d polylog(d) samples, found by sweeping the batch down to failure."""
    return (
        exponent(
            "exponent of the samples in d",
            "between",
            0.95,
            f"{THEOREM}: d polylog(d); 1.5 is half way to the kernels' 2, 0.95 leaves no power below d",
            upper=1.5,
            rival=2.0,
            rival_says="the rate of kernels",
            form="criterion",
        ),
        equal(
            "reported seeds that never reach 95 %, at the selected points",
            COUNT,
            0.0,
            f"{THEOREM}: with probability 1 - d^(-omega(1))",
            axis="dimension",
            rival=5.0,
            rival_says="no seed arrives",
        ),
        at_least(
            "log of the budget at the median point of the grid over that at the selected point",
            REAL,
            math.log(1.1),
            "Section 3: the smallest m t, so the selected point is a tenth ahead of the median point at least",
            axis="dimension",
            rival=0.0,
            rival_says="a point that is no better than half of the grid",
            form="criterion",
        ),
    )


def theorem_observed(settings: None, table: Table[Budget]) -> Mapping[str, Observation]:
    """What the networks needed at the points selected on validation seeds."""
    found = chosen(table, "Network")
    return {
        "exponent of the samples in d": growth(found),
        "reported seeds that never reach 95 %, at the selected points": np.array([float(p.missed) for p in found]),
        "log of the budget at the median point of the grid over that at the selected point": lead(table, found),
    }


def theorem_premises(settings: None, table: Table[Budget]) -> tuple[Premise, ...]:
    """Batches of at least d / theta are what the theorem asks for; constants it does not give."""
    largest = max(p.choice.point[0] for p in chosen(table, "Network"))
    return (
        Premise("theta = 1/log^C(d), p >= 1/theta, C of the proof", None, "C is not given"),
        Premise("batches m >= d/theta", largest >= 10, f"the selected batches are d/{1 / largest:.0f} and smaller"),
    )


def prior_statements(settings: None) -> tuple[Statement, ...]:
    """Theta(d^2) for the NTK, a power of d that no kernel beats for others."""
    return tuple(
        exponent(
            f"exponent of the samples in d, {kernel}",
            "between",
            1.7,
            f"{PRIOR}: d^2, up to 0.3 at the dimensions at hand",
            upper=2.3,
            rival=1.0,
            rival_says="linear growth, the rate of networks",
            form="criterion",
        )
        for kernel in ("NTK", "RBF")
    )


def prior_observed(settings: None, table: Table[Budget]) -> Mapping[str, Observation]:
    """Exponents of both kernels at penalty and bandwidth selected on validation seeds."""
    return {f"exponent of the samples in d, {k}": growth(chosen(table, k)) for k in ("NTK", "RBF")}


AT_EDGES = 0.05
"""A grid may end at the selected point where its last step saves a smaller share of the samples than this: on a plateau
the exponent between d = 16 and 128 cannot move by more than log(1.05) / log(8) = 0.02."""


def prior_premises(settings: None, table: Table[Budget]) -> tuple[Premise, ...]:
    """A kernel has its least budget where its grid goes on, or hardly saves any more, beyond what was selected."""
    shares = {k: saved_at_edges(table, k) for k in ("NTK", "RBF")}
    said = ", ".join(f"{k} up to {100 * max(of, default=1.0):.1f} %" for k, of in shares.items())
    name = "penalty and bandwidth of each kernel are inside their grid, or its last step saves under 5 % of the samples"
    met = all(max(of, default=1.0) < AT_EDGES for of in shares.values())
    return (Premise(name, met, f"the last step before an end saves {said}"),)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.theorem3_1",
        entries=("xor_sgd.theorem3_1",),
        says="Minibatch SGD reaches a small test error with d polylog(d) new samples.",
        statements=theorem_statements,
        observe=theorem_observed,
        premises=theorem_premises,
        reads=(Budget,),
        remarks="Batches are swept down to a single sample, which is where samples, not steps, are measured. In our "
        "copy Theorem 3.1 has batches m >= d/theta, Lemma C.1 d/theta^2: a power of log d apart, within d polylog(d).",
    ),
    Claim(
        id="xor_sgd.prior_rates",
        entries=("xor_sgd.prior_rates",),
        says="The NTK, and kernels, need about d^2 samples.",
        statements=prior_statements,
        observe=prior_observed,
        premises=prior_premises,
        reads=(Budget,),
        remarks="Budgets over d^2 still fall with d: both exponents are a little below 2.",
    ),
)
