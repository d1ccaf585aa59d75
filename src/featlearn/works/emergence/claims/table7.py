"""Table 7 (A.7): whether six reported cosines of three vectors and their mean can be those of three vectors and their
mean."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.inventory import reported
from featlearn.lab.quantity import REAL
from featlearn.lab.statement import Statement, at_least, equal
from featlearn.lab.uncertainty import Observation
from featlearn.works._audit import audited

NETWORKS = ("ResNet(128)", "ResNet(256)")
MEANS, PAIRS = ("cos_v1_vbar", "cos_v2_vbar", "cos_v3_vbar"), ("cos_v1_v2", "cos_v1_v3", "cos_v2_v3")
HALF_DIGIT = 0.5e-4
"""Four digits are reported."""
INSIDE, LENGTHS = "t' G^-1 t of either network", "lengths of v1, v2 and v3 over that of their sum, of either network"
Array = np.ndarray


def reported_cosines(key: Key) -> Array:
    """(2, 6): cosines with the mean, then those of pairs, by network."""
    found = {(p.row, p.metric): p.value for p in reported("emergence.table7")}
    return np.array([[found[row, metric] for metric in (*MEANS, *PAIRS)] for row in NETWORKS])


def bordered(cosines: Array) -> tuple[float, Array]:
    """det of the Gram matrix of v1, v2, v3 and their mean over that of the first three; cofactors of its last row."""
    t1, t2, t3, a, b, c = cosines
    whole = np.array([[1, a, b, t1], [a, 1, c, t2], [b, c, 1, t3], [t1, t2, t3, 1]])
    minors = [np.linalg.det(np.delete(whole[:3], j, axis=1)) * (-1) ** (3 + j) for j in range(4)]
    return float(whole[3] @ minors / minors[3]), -np.array(minors[:3]) / minors[3]


def rounding(cosines: Array) -> float:
    """How far t' G^-1 t can be moved by half a digit in each of six numbers: the gradient by differences, summed."""
    ways = HALF_DIGIT * np.eye(6)
    return float(sum(abs(bordered(cosines + e)[0] - bordered(cosines - e)[0]) / 2 for e in ways))


def says_consistent(settings: Array) -> Sequence[Statement]:
    """The mean lies in the span of the three, and lengths above 0 give it."""
    source = "Table 7: v = (v1 + v2 + v3) / 3, so that det Gram(v1, v2, v3, v) = 0, that is t' G^-1 t = 1"
    exchanged = settings[:, [0, 1, 2, 3, 5, 4]]
    rivals = [bordered(row) for row in exchanged]
    common = {"axis": "network", "form": "derived", "rival_says": "cos(v1, v3) and cos(v2, v3) in each other's column"}
    return (
        equal(
            INSIDE,
            REAL,
            np.ones(2),
            f"{source}; up to half a digit in each of the six",
            margin=np.array([rounding(row) for row in settings]),
            rival=np.array([1 - r[0] for r in rivals]),
            **common,
        ),
        at_least(
            LENGTHS,
            REAL,
            np.zeros(6),
            "Table 7: G n = t with n_i = |v_i| / |v1 + v2 + v3|, which are lengths",
            rival=np.concatenate([r[1] for r in rivals]),
            **{**common, "axis": "network and vector"},
        ),
    )


def sees_consistent(settings: Array, key: Key) -> Mapping[str, Observation]:
    """By solving for the lengths."""
    inside: list[float] = []
    lengths: list[Array] = []
    for row in settings:
        gram = np.eye(3)
        for (i, j), value in zip(itertools.combinations(range(3), 2), row[3:], strict=True):
            gram[i, j] = gram[j, i] = value
        n = np.linalg.solve(gram, row[:3])
        inside.append(float(row[:3] @ n))
        lengths.append(n)
    return {INSIDE: np.array(inside), LENGTHS: np.concatenate(lengths)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.table7_consistent",
        entries=("emergence.table7",),
        says="The reported cosines of v1, v2, v3 with their mean follow from those between them, for lengths above 0: "
        "t' G^-1 t = 1 with t the former and G the matrix of the latter.",
        settings=reported_cosines,
        statements=audited(says_consistent),
        observe=sees_consistent,
        remarks="Whether the numbers agree with each other, not whether filters have them. The lengths that they need "
        "are far from equal: v1 to v3 as 5.7 to 1.8 to 1 in ResNet(128), and 4.3 to 7.9 to 1 in ResNet(256), so that "
        "the mean is nearly the longest of the three, whose cosine with it is the largest. Three orthogonal vectors of "
        "one length have cosines of 0.58 with their mean; the other three columns are what says that they are alike.",
    ),
)
