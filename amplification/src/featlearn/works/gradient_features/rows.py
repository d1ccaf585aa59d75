"""Rows of `special_cases`, which claims read, and the step size that counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from featlearn.lab import row
from featlearn.lab.estimate import VALIDATION
from featlearn.lab.experiment import Rows
from featlearn.lab.quantity import COUNT, NAME, PERCENT, POSITIVE, REAL, SEED

SPECIAL = "gradient_features/special_cases"
LINEAR, MIXTURE, OPPOSITE, SKEWED, XOR = "linear", "mixture", "opposite pairs", "unequal pairs", "XOR mixture"
PARITY, UNIFORM, MULTI = "structured parity", "uniform parity", "multi-index"
CASES = (LINEAR, MIXTURE, OPPOSITE, SKEWED, XOR, PARITY, UNIFORM, MULTI)
NETWORK, FIRST, FIXED, BEST = "network", "first step only", "fixed first layer", "best on true features"
NEURONS, TIME = "neurons", "time"
GAMMAS = (0.03, 0.05, 0.1)
"""Cone widths at which neurons are counted; membership is judged at the first: 14 degrees, below the rival's 20."""
SHARES = (0.4, 0.3, 0.2, 0.1)
"""Probability of each pair of opposite clusters where they differ."""

Row = Mapping[str, Any]
Case = Literal[
    "linear",
    "mixture",
    "opposite pairs",
    "unequal pairs",
    "XOR mixture",
    "structured parity",
    "uniform parity",
    "multi-index",
]


@dataclass(frozen=True, kw_only=True)
class Setting(row.Row):
    """What all rows say: case and setting; dimension, clusters or directions r, block size k, m."""

    experiment = "gradient_features/special_cases"
    case: Case
    setting: Annotated[str, NAME]
    d: Annotated[int, COUNT]
    r: Annotated[int, COUNT]
    k: Annotated[int, COUNT]
    m: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    role: Literal["reported", "validation"]


@dataclass(frozen=True, kw_only=True)
class Trained(Setting):
    """A network at the end, at one step size: test error in percent, loss and its gap to the best on true features, how
    far W moved after the first step, neurons in use, share of ||w||^2 in the span. None where it is not finite."""

    key = ("setting", "eta")
    kind: Literal["trained"] = "trained"
    row: Literal["network"] = "network"
    eta: Annotated[float, POSITIVE]
    steps: Annotated[int, COUNT]
    batch: Annotated[int, COUNT] | None = None
    error: Annotated[float, PERCENT] | None = None
    loss: Annotated[float, POSITIVE] | None = None
    gap: Annotated[float, REAL] | None = None
    moved: Annotated[float, POSITIVE] | None = None
    used: Annotated[float, REAL] | None = None
    span: Annotated[float, PERCENT] | None = None


@dataclass(frozen=True, kw_only=True)
class Reference(Setting):
    """What the network is compared with; lower: the solver's bound on the best loss. eta, where it is trained too."""

    key = ("setting", "row", "eta")
    kind: Literal["reference"] = "reference"
    row: Literal["first step only", "fixed first layer", "best on true features"]
    eta: Annotated[float, POSITIVE] | None = None
    steps: Annotated[int, COUNT] | None = None
    error: Annotated[float, PERCENT] | None = None
    loss: Annotated[float, POSITIVE] | None = None
    lower: Annotated[float, REAL] | None = None


@dataclass(frozen=True, kw_only=True)
class Neurons(Setting):
    """Neurons after step one: percent of them in cones of 0.03, 0.05 and 0.1 of a true feature, the smallest slack; and
    of `draws` new ones the percent in the set of a true feature and of its rival, with ends of 95 % intervals."""

    key = ("setting",)
    kind: Literal["neurons"] = "neurons"
    row: Literal["neurons"] = "neurons"
    cone_3: Annotated[float, PERCENT]
    cone_5: Annotated[float, PERCENT]
    cone_10: Annotated[float, PERCENT]
    slack: Annotated[float, POSITIVE]
    member: Annotated[float, PERCENT]
    member_low: Annotated[float, PERCENT]
    rival: Annotated[float, PERCENT]
    rival_high: Annotated[float, PERCENT]
    draws: Annotated[int, COUNT]


@dataclass(frozen=True, kw_only=True)
class Course(Setting):
    """A network at one later step; found_90, found_95: features with a neuron of that cosine; learned: clusters of mean
    margin 1/2; margin_0 to margin_7: by cluster, where they differ in probability."""

    key = ("setting", "eta", "step")
    kind: Literal["course"] = "course"
    row: Literal["time"] = "time"
    eta: Annotated[float, POSITIVE]
    steps: Annotated[int, COUNT] | None = None
    step: Annotated[int, COUNT]
    found_90: Annotated[float, REAL] | None = None
    found_95: Annotated[float, REAL] | None = None
    used: Annotated[float, REAL] | None = None
    learned: Annotated[float, REAL] | None = None
    error: Annotated[float, PERCENT] | None = None
    loss: Annotated[float, POSITIVE] | None = None
    moved: Annotated[float, POSITIVE] | None = None
    margin_0: Annotated[float, REAL] | None = None
    margin_1: Annotated[float, REAL] | None = None
    margin_2: Annotated[float, REAL] | None = None
    margin_3: Annotated[float, REAL] | None = None
    margin_4: Annotated[float, REAL] | None = None
    margin_5: Annotated[float, REAL] | None = None
    margin_6: Annotated[float, REAL] | None = None
    margin_7: Annotated[float, REAL] | None = None


def chosen(table: Rows, setting: str) -> float | None:
    """The step size with the smallest mean loss over the validation seeds, all of which must have stayed finite."""
    found: dict[float, list[float | None]] = {}
    for r in table.rows:
        if r["setting"] == setting and r["row"] == NETWORK and r["seed"] >= VALIDATION:
            found.setdefault(r["eta"], []).append(r["loss"])
    means = {eta: sum(v) / len(v) for eta, v in found.items() if all(x is not None for x in v)}  # type: ignore[arg-type]
    return min(means, key=lambda eta: (means[eta], eta)) if means else None


def reported(table: Rows, setting: str, row: str) -> list[Row]:
    """Rows of the reported seeds, at the chosen step size where rows differ by it."""
    eta = chosen(table, setting)
    return [
        r
        for r in table.rows
        if r["setting"] == setting and r["row"] == row and r["seed"] < VALIDATION and r.get("eta") in (None, eta)
    ]


def settings(table: Rows, case: str) -> list[str]:
    """Settings of a case that have a chosen step size and reported rows, in order of size."""
    names = {r["setting"]: (r["d"], r["r"], r["k"]) for r in table.rows if r["case"] == case}
    return [n for n in sorted(names, key=lambda n: names[n]) if reported(table, n, NETWORK)]
