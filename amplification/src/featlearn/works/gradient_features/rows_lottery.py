"""Rows that the lottery experiment writes and claims read."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COUNT, NAME, PERCENT, POSITIVE, SEED
from featlearn.lab.row import Row

LOTTERY = "gradient_features/lottery"
FULL = "full network"
TICKET = "ticket"
ZERO = "ticket, second layer from 0"
CUT = "ticket, one feature missing"
REWOUND = "ticket, rewound"
START = "ticket, rewound, no step one"
MAGNITUDE = "largest neurons"
RANDOM = "random neurons"
SUBNETWORKS = (TICKET, ZERO, CUT, REWOUND, START, MAGNITUDE, RANDOM)
INSIDE, OUTSIDE = "ticket within the full network", "the rest of the full network"
XOR, PARITY = "XOR", "parity"

Network = Literal[
    "full network",
    "ticket",
    "ticket, second layer from 0",
    "ticket, one feature missing",
    "ticket, rewound",
    "ticket, rewound, no step one",
    "largest neurons",
    "random neurons",
    "ticket within the full network",
    "the rest of the full network",
]


@dataclass(frozen=True, kw_only=True)
class Total(Row):
    """A network at the end: its error and loss, its error averaged over training, steps to 1 % and the share of draws
    that do not arrive there; for the ticket its share of the 4 m neurons, its neurons, the features that have some, and
    error and loss of a~. None where step one sends no neuron to a feature."""

    experiment, key = "gradient_features/lottery", ("setting", "row")
    kind: Literal["total"] = "total"
    setting: Annotated[str, NAME]
    task: Literal["XOR", "parity"]
    d: Annotated[int, COUNT]
    level: Annotated[float, POSITIVE]
    row: Network
    seed: Annotated[int, SEED]
    end_error: Annotated[float, PERCENT] | None = None
    end_loss: Annotated[float, POSITIVE] | None = None
    mean_error: Annotated[float, PERCENT] | None = None
    steps_to_1: Annotated[float, POSITIVE] | None = None
    not_arrived: Annotated[float, PERCENT] | None = None
    share: Annotated[float, PERCENT] | None = None
    neurons: Annotated[int, COUNT] | None = None
    features: Annotated[float, PERCENT] | None = None
    sparse_error: Annotated[float, PERCENT] | None = None
    sparse_loss: Annotated[float, POSITIVE] | None = None


@dataclass(frozen=True, kw_only=True)
class Course(Row):
    """Test error and loss of a network at one step after the first."""

    experiment, key = "gradient_features/lottery", ("setting", "row", "step")
    kind: Literal["course"] = "course"
    setting: Annotated[str, NAME]
    task: Literal["XOR", "parity"]
    d: Annotated[int, COUNT]
    level: Annotated[float, POSITIVE]
    row: Network
    seed: Annotated[int, SEED]
    step: Annotated[int, COUNT]
    error: Annotated[float, PERCENT]
    loss: Annotated[float, POSITIVE]
