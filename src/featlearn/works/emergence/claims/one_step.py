"""What one gradient step gives and what the second adds: accuracies of Table A.1, cosines of Tables A.1 and A.3."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import beta

from featlearn.lab.claim import Claim
from featlearn.lab.inventory import reported
from featlearn.lab.quantity import COSINE, PERCENT, POSITIVE, REAL
from featlearn.lab.statement import Outcome, Statement, at_least, between, equal, exponent, order
from featlearn.lab.statistics import within_slope
from featlearn.lab.table import Table
from featlearn.lab.uncertainty import Estimate, Observation
from featlearn.works.emergence.claims.simulated_tables import AS_ONE, RATES, TABLES, against, said
from featlearn.works.emergence.rows import KEPT, Final, Point

# --- accuracies ------------------------------------------------------------------------------------------------------

NEAR, ONE, TWO = "largest cosine after step 2", "test accuracy of One Step", "test accuracy of Two Step"
LESS = {how: f"Two Step less One Step, {how}" for how in ("its best first step", "the start kept")}
BEST = "validation accuracy of One Step at each first step and rate, the worst seed"
[SAID_ONE], [SAID_TWO], [COS_ONE] = (
    said(TABLES[1], *which) for which in (("test_acc", "One Step"), ("test_acc", "Two Step"), ("cos", "One Step"))
)


def says_chain(settings: None) -> Sequence[Statement]:
    """About 52 % after one step, about 100 % after two, with cosines above 0.99: after the first step that is best for
    the row, and where the start is kept."""
    text = "Section A.7.1: "
    less = f"{text}the features need to be improved in the second step; five points by our criterion"
    one = against(SAID_TWO, "as reported for Two Step", "seed", margin=5.0)
    two = against(SAID_ONE, "as reported for One Step", "seed", margin=1.0)
    near = {"axis": "seed", "rival": COS_ONE, "rival_says": AS_ONE}
    full: Mapping[str, Outcome] = {"its best first step": "too weak to test"}
    return [
        at_least(NEAR, COSINE, 0.99, f"{text}cosine similarity > 0.99", **near),
        equal(ONE, PERCENT, SAID_ONE, f"{text}about 52 %, by the best classifiers", expect="contradicted", **one),
        equal(TWO, PERCENT, SAID_TWO, f"{text}Two Step gets accuracy about 100 %", **two),
        *(
            order(name, PERCENT, less, delta=5.0, form="criterion", expect=full.get(how, "confirmed"))
            for how, name in LESS.items()
        ),
    ]


def sees_chain(settings: None, table: Table[Final]) -> Mapping[str, Observation]:
    """By seed."""
    part = table.where(structure=True)
    gaps = (part.paired("test_acc", {"row": "Two Step"}, {"row": r}) for r in ("One Step", KEPT))
    return {
        NEAR: part.where(row="Two Step").column("cos"),
        ONE: part.where(row="One Step").column("test_acc"),
        TWO: part.where(row="Two Step").column("test_acc"),
    } | dict(zip(LESS.values(), gaps, strict=True))


def says_any(settings: None) -> Sequence[Statement]:
    """Some first step is enough."""
    some = {"quantifier": "some", "quantifier_says": "at some size of the first step"}
    more = against(SAID_ONE, "near chance at each, as the reported row", "point of the grid", **some)
    source = "our question: the paper does not give its first step"
    return [at_least(BEST, PERCENT, 99.0, source, **{**more, "form": "derived"})]


def sees_any(settings: None, points: Table[Point]) -> Mapping[str, Observation]:
    """The whole grid."""
    grid = points.where(setting="parity", row="One Step").by("scale", "rate")
    return {BEST: np.array([p.column("val_acc").min() for p in grid.values()])}


# --- cosines ---------------------------------------------------------------------------------------------------------

DIMENSIONS, NEURONS, D = (100, 500, 2000), 300, 100
KEEPS = "exponent of d in 1/cos^2 - 1, start kept"
REPORTED = "exponents of d in 1/cos^2 - 1, reported"
LARGEST, INSIDE, FALL = "largest cosine at random, times sqrt(d)", "largest cosine at random, d = 500", "exponent of d"


def cosines(row: str, one: Table[Final], three: Table[Final]) -> np.ndarray:
    """(seeds, dimensions) of the cosine column."""
    parts = [three.where(setting="d=100"), one, three.where(setting="d=2000")]
    return np.array([p.where(structure=True, row=row).column("cos") for p in parts]).T


def power(y: np.ndarray) -> Estimate:
    """Exponent of d within seeds."""
    return within_slope(np.broadcast_to(np.log(DIMENSIONS), y.shape), np.log(y), "seed")


def says_cosine(settings: None) -> Sequence[Statement]:
    """A start that is kept adds sigma_w^2 (d - D). One that is forgotten leaves w^(1) in the span of the data, which
    our rows are computed in: that it does not depend on d there could not fail, and is no statement."""
    kept = "||w||^2 off the signal is sigma_w^2 d, the part along it does not depend on d; nearer to 1 than to 0"
    read = "Tables A.1 and A.3 read with a start that is kept; nearer to 1 than to 0"
    none = {"rival": 0.0, "rival_says": "the start forgotten", "form": "derived"}
    return [
        equal(KEEPS, REAL, 1.0, kept, margin=0.5, **none),
        between(REPORTED, REAL, 0.5, 1.5, read, axis="d = 100 to 500, 500 to 2000", **none),
    ]


def sees_cosine(settings: None, one: Table[Final], three: Table[Final]) -> Mapping[str, Observation]:
    """Our rows in both ways, and the reported cells."""
    theirs = {p.setting: p.value for n in (1, 3) for p in reported(f"emergence.table{n}", row="One Step", metric="cos")}
    cos = np.array([theirs[s] for s in ("d=100", "", "d=2000")])
    return {
        KEEPS: power(1 / cosines(KEPT, one, three) ** 2 - 1),
        REPORTED: np.diff(np.log(1 / cos**2 - 1)) / np.diff(np.log(DIMENSIONS)),
    }


def largest(d: int, p: float) -> float:
    """Quantile of the largest of NEURONS cosines with a fixed direction in d dimensions, times sqrt(d): a cosine c has
    (1 + c)/2 ~ Beta((d - 1)/2, (d - 1)/2)."""
    return math.sqrt(d) * (2 * float(beta.ppf(p ** (1 / NEURONS), (d - 1) / 2, (d - 1) / 2)) - 1)


def says_random(settings: None) -> Sequence[Statement]:
    """The law of the largest of 300 cosines of isotropic vectors; 99.9 % of draws."""
    law = "(1 + cos)/2 ~ Beta((d - 1)/2, (d - 1)/2) for each of 300 directions"
    low, high = np.array([largest(d, 5e-4) for d in DIMENSIONS]), max(largest(d, 1 - 5e-4) for d in DIMENSIONS)
    middle, flat = largest(D, 0.5) / math.sqrt(D), "cosines in the D pattern coordinates alone"
    each = np.repeat(middle * np.sqrt(DIMENSIONS), 5)
    seeds = {"axis": "dimension and seed", "rival": each, "rival_says": flat}
    return [
        between(LARGEST, POSITIVE, np.repeat(low, 5), high, law, **seeds),
        between(INSIDE, COSINE, 0.08, 0.18, "Table A.1: 0.114; its check", **against(middle, flat, "seed")),
        exponent(FALL, "equal", -0.5, f"{law}, nearly N(0, 1/d)", margin=0.15, rival=0.0, rival_says=flat),
    ]


def sees_random(settings: None, one: Table[Final], three: Table[Final]) -> Mapping[str, Observation]:
    """The row RF at the start, which no step size touches."""
    seen = cosines("RF", one, three)
    return {LARGEST: (seen * np.sqrt(DIMENSIONS)).T.ravel(), INSIDE: seen[:, 1], FALL: power(seen)}


CHAIN_ENTRY = "emergence.claim_onestep_twostep"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.one_step_two_step",
        entries=(CHAIN_ENTRY,),
        says="A classifier on one-step features has about 52 %, on two-step features about 100 %.",
        statements=says_chain,
        observe=sees_chain,
        premises=(RATES,),
        reads=(TABLES[1].rows.final,),
        remarks="The sentence speaks of runs whose first step and penalty the paper does not give. Ours is not true of "
        "the first step that is best for the row. After one as small as the theory asks nothing is said: the step size "
        "of that row's classifier was not chosen for it, and the classifier has not fitted its samples. The start is "
        "kept at a scale that was fitted to the reported cosines; at larger ones the gap is smaller.",
    ),
    Claim(
        id="emergence.one_step_any_size",
        entries=(CHAIN_ENTRY,),
        says="A question of ours: is a classifier on one-step features near perfect after some first step?",
        statements=says_any,
        observe=sees_any,
        reads=(Point,),
    ),
    Claim(
        id="emergence.one_step_cosine",
        entries=("emergence.table3", CHAIN_ENTRY),
        says="After a first step that keeps the start, with sigma_w independent of d, 1/cos^2 - 1 of one-step weights "
        "is proportional to d, and so is that of the reported cosines.",
        statements=says_cosine,
        observe=sees_cosine,
        reads=(TABLES[1].rows.final, TABLES[3].rows.final),
        remarks="The reported cosines 0.967, 0.848, 0.560 fall with d, which those of a step that forgets its start "
        "(lambda = 1/(2 eta)) cannot: it lies in the span of the data. The paper does not list the penalty of its "
        "simulations; that its first step keeps the start is a conjecture. One size of our first step was fitted to "
        "these cosines, so that their height says nothing, and their exponent does.",
    ),
    Claim(
        id="emergence.random_cosine",
        entries=("emergence.table1", "emergence.table3"),
        says="The closest of 300 random directions has the cosine of the largest of as many isotropic ones: about "
        "E max N(0, 1)/sqrt(d).",
        statements=says_random,
        observe=sees_random,
        reads=(TABLES[1].rows.final, TABLES[3].rows.final),
    ),
)
