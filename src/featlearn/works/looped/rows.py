"""Rows of the experiment on looped transformers."""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SEED
from featlearn.lab.row import Row

FIGURE = "looped/figure8_1"


@dataclass(frozen=True, kw_only=True)
class Conditioning(Row):
    """A prompt. kappa: condition number of X^T X. crossing: first loop after which the float64 loops lie above the
    bound on the squared error, exp(-t/kappa), or the one of Theorem 8.16, exp(-t/(2 kappa)); None for neither."""

    experiment, key = FIGURE, ("n",)
    kind: Literal["conditioning"] = "conditioning"
    n: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    kappa: Annotated[float, POSITIVE]
    above_squared: Annotated[int, COUNT] | None
    above_reported: Annotated[int, COUNT] | None


@dataclass(frozen=True, kw_only=True)
class Decay(Row):
    """log(||theta_t - theta*||^2 / ||theta_0 - theta*||^2) after t loops. looped: of the looped transformer in float64,
    None where it is 0; descent: of gradient descent, likewise; exact: from the eigenvalues, without a floor."""

    experiment, key = FIGURE, ("n", "t")
    kind: Literal["decay"] = "decay"
    n: Annotated[int, COUNT]
    t: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    kappa: Annotated[float, POSITIVE]
    looped: Annotated[float, REAL] | None
    descent: Annotated[float, REAL] | None
    exact: Annotated[float, REAL]
