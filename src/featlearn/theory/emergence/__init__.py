"""Executable claims of the emergence work, one module per part of its argument."""

from featlearn.run.claim import Claim
from featlearn.theory.emergence import (
    definitions,
    existence,
    first_step,
    general,
    general_steps,
    initialisation,
    lower_bounds,
    main_theorem,
    optimisation,
    second_step,
    simulations,
    statistical_queries,
)

CLAIMS: tuple[Claim, ...] = (
    *definitions.CLAIMS,
    *main_theorem.CLAIMS,
    *lower_bounds.CLAIMS,
    *statistical_queries.CLAIMS,
    *existence.CLAIMS,
    *initialisation.CLAIMS,
    *first_step.CLAIMS,
    *second_step.CLAIMS,
    *optimisation.CLAIMS,
    *general.CLAIMS,
    *general_steps.CLAIMS,
    *simulations.CLAIMS,
)
