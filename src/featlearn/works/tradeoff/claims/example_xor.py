"""Appendix F.1.1: a representation that is optimal for the contrastive loss and useless for linear predictors."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.works.tradeoff.claims.invariance import Pairs, logistic, optimum

SQUARE = "least logistic loss over representations of norm 1 in the plane"
STATED = "loss of the stated representation"
HALF = "share of the four points that sign(u^T phi) gets right, over directions u"
OFFSET = "largest share with an offset"


def says_xor(settings: None) -> Sequence[Statement]:
    """z_R uniform on {-1, 1}^2: phi at the corners of a square is optimal; y = z_1 is then an XOR of the plane."""
    l0, l1, l2 = (math.log1p(math.exp(-t)) for t in (0.0, 1.0, 2.0))
    best, pairs = (l0 + 2 * l1 + l2) / 4, (l0 + l2) / 2
    source = "Appendix F.1.1"
    more = {"margin": 1e-9, "rival": pairs, "rival_says": "two antipodal points, two values of z_R on each"}
    return (
        equal(SQUARE, POSITIVE, best, f"{source}: 'this phi is optimal'", **more),
        equal(STATED, POSITIVE, best, f"{source}: 'this phi is optimal'", **more),
        equal(
            HALF,
            POSITIVE,
            np.full(50, 0.5),
            f"{source}: an XOR problem for linear predictors",
            axis="direction",
            rival=0.75,
            rival_says="as with an offset",
        ),
        equal(
            OFFSET,
            POSITIVE,
            0.75,
            "an XOR has no separating line",
            rival=1.0,
            rival_says="separable",
            form="derived",
        ),
    )


STATED_MAP = {(-1, -1): (-1.0, 0.0), (-1, 1): (1.0, 0.0), (1, -1): (0.0, -1.0), (1, 1): (0.0, 1.0)}


def sees_xor(settings: None, key: Key) -> Mapping[str, Observation]:
    """Descent over four points of the circle; directions and lines that are drawn."""
    pairs = Pairs.of((0.25,) * 4, (1.0,))
    g = key.numpy()
    phi, y = np.array(list(STATED_MAP.values())), np.array([z[0] for z in STATED_MAP])
    best = optimum(pairs, 1.0, 2, key / "start", starts=8)
    u, b = g.normal(size=(50, 2)), g.normal(size=(4000, 3))
    lines = np.sign(b[:, :2] @ phi.T + b[:, 2:]) == y
    return {
        SQUARE: pairs.loss(best @ best.T, logistic),
        STATED: pairs.loss(phi @ phi.T, logistic),
        HALF: (np.sign(u @ phi.T) == y).mean(1),
        OFFSET: float(lines.mean(1).max()),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.example_xor",
        entries=("tradeoff.example_xor",),
        says="An optimal representation may make a label that is one invariant feature an XOR for linear predictors.",
        statements=says_xor,
        observe=sees_xor,
    ),
)
