"""Theorem 1 and the example of section 2.1: how risk falls with alpha, and samples grow with d.

All constants of the theorem are hidden, so that its bound itself cannot be tested; what can is the power of alpha that
it promises, against the power two that is left for whoever learns F alone.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE
from featlearn.lab.statement import Statement, at_most, control, exponent
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Observation, mean_of, slope
from featlearn.works.resnet.rows import Arrival, Risk, arrivals, log_risks

K = 2
FALLS, SHARE, ALONE = "exponent of the mean risk in alpha", "mean risk over k alpha^2", "the same, first layer alone"
GROWS = "exponent of the samples in d"


def says_risk(settings: None) -> Sequence[Statement]:
    """delta of the order of alpha^4, where F alone leaves k alpha^2."""
    return (
        exponent(
            FALLS,
            "at least",
            3.0,
            "Theorem 1: delta of the order of alpha^4; half way to the alpha^2 of G unlearned, by our criterion",
            rival=2.0,
            rival_says="F learned and nothing of G",
            form="criterion",
        ),
        at_most(
            SHARE,
            POSITIVE,
            0.5,
            "Theorem 1: below k alpha^2 at every alpha; half of it by our criterion",
            axis="alpha",
            rival=control(ALONE),
            rival_says="as the first layer alone under the same schedule",
            trivial=2.0,
            trivial_says="the zero network, more than twice k alpha^2 for alpha below 1",
            form="criterion",
        ),
    )


def sees_risk(settings: None, risks: Table[Risk]) -> Mapping[str, Observation]:
    """Over reported seeds; the control is trained on the same samples."""
    found = {
        name: [
            mean_of(part.column("average") / (K * alpha**2), POSITIVE, Risk.unit)
            for alpha, part in risks.where(network=network).by("alpha").items()
        ]
        for name, network in ((SHARE, "residual bottleneck"), (ALONE, "two layers"))
    }
    x, y = log_risks(risks.where(network="residual bottleneck"))
    return {FALLS: slope(x, y, Risk.unit), **found}


def says_samples(settings: None) -> Sequence[Statement]:
    """C_F^2, of the order of d for linear signals, whatever the degree of G."""
    return (
        exponent(
            GROWS,
            "between",
            0.7,
            "Section 2.1: of the order of d for accuracy alpha^2; within 0.3 of it by our criterion",
            upper=1.3,
            rival=2.0,
            rival_says="d^2, what kernels need for the products of G",
            form="criterion",
        ),
    )


def sees_samples(settings: None, found: Table[Arrival]) -> Mapping[str, Observation]:
    """Over reported seeds at the step size that validation seeds choose."""
    logs = arrivals(found)
    return {GROWS: slope(np.log([d for d, _ in logs]), np.log([n for _, n in logs]), Arrival.unit)}


def open_constants(settings: None, *tables: Table) -> tuple[Premise, ...]:
    """What no run can decide."""
    return (Premise("alpha, M, step sizes and steps up to the constants of the theorem", None, "not given"),)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.theorem1",
        entries=("resnet.theorem1",),
        says="One-pass SGD on the bottleneck network reaches a mean risk of the order of alpha^4 in of the order of "
        "alpha^-8 steps.",
        statements=says_risk,
        observe=sees_risk,
        premises=open_constants,
        reads=(Risk,),
        remarks="Labels here have no noise (OPT = 0), and k = 2. A mean risk that falls faster than alpha^4 agrees "
        "with the theorem.",
    ),
    Claim(
        id="resnet.example_sec2_1",
        entries=("resnet.example_sec2_1", "resnet.theorem1"),
        says="With two linear signals of Gaussian inputs the samples for a risk of alpha^2 grow as d.",
        statements=says_samples,
        observe=sees_samples,
        premises=open_constants,
        reads=(Arrival,),
        remarks="G has degree two here, ten in the paper. What earlier bounds need (d^10, d^5) is a comparison with "
        "the literature and is not run.",
    ),
)
