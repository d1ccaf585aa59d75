"""Second moments of a label times its input: Lemma D.2."""

from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import REAL
from featlearn.lab.statement import Statement, both, equal
from featlearn.lab.uncertainty import Observation
from featlearn.works.icl_scale.setup import Array, Instance, draw_instances, label_moments

Instances = tuple[Instance, ...]

SECOND, MEAN, SPREAD = "E y^2 x x^T", "E y x", "covariance of y x"


def says_moments(settings: Instances) -> Sequence[Statement]:
    """As in the lemma, and with w w^T where it has w^T w."""
    second, mean, spread = {"number": [], "matrix": []}, [], {"number": [], "matrix": []}
    plain = []
    for p in settings:
        c, w = p.covariance, p.w
        first = (p.sigma**2 + w @ c @ w) * c
        for form, product in (("number", (w @ w) * c @ c), ("matrix", np.outer(c @ w, w @ c))):
            second[form].append(np.ravel(first + 2 * product))
            spread[form].append(np.ravel(first + product))
        mean.append(c @ w)
        plain.append(w)

    def row(of: list[Array]) -> Array:
        return np.concatenate(of)

    return (
        *both(
            SECOND,
            REAL,
            "Lemma D.2",
            reported=row(second["number"]),
            corrected=row(second["matrix"]),
            says="Lambda w w^T Lambda for Lambda w^T w Lambda",
            margin=1e-8,
            axis="setting and entry",
        ),
        equal(
            MEAN,
            REAL,
            row(mean),
            "Lemma D.2: E(yx) E(yx)^T = Lambda w w^T Lambda",
            margin=1e-9,
            axis="setting and entry",
            rival=row(plain),
            rival_says="w",
        ),
        *both(
            SPREAD,
            REAL,
            "Lemma D.2",
            reported=row(spread["number"]),
            corrected=row(spread["matrix"]),
            says="Lambda w w^T Lambda for Lambda w^T w Lambda",
            margin=1e-8,
            axis="setting and entry",
        ),
    )


def sees_moments(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """By quadrature."""
    found = [label_moments(p) for p in settings]
    return {
        MEAN: np.concatenate([mean for mean, _ in found]),
        SECOND: np.concatenate([np.ravel(second) for _, second in found]),
        SPREAD: np.concatenate([np.ravel(second - np.outer(mean, mean)) for mean, second in found]),
    }


TYPESET = Accusation(
    quote="E[y^2 x x^T] = sigma^2 Lambda + ||w||_Lambda^2 Lambda + 2 Lambda w^T w Lambda",
    place="Lemma D.2, first and third line, the end of its proof, and the proof of Theorem 5.4.2",
    reading="w is a column, as in y = <w, x> and in the second line of the same lemma, E(yx) E(yx)^T = Lambda^T w w^T "
    "Lambda; then w^T w is a number. With w as a row the first and third lines are right, and the second is not: no "
    "reading of w serves all three.",
    hits="statement",
    derivation="The proof's own line for an entry, (sigma^2 + w^T Lambda w) Lambda_ij + 2 Lambda_i^T w w^T Lambda_j, "
    "is Lambda w w^T Lambda in matrix form. In one dimension the two agree; for Lambda = I, w = e_1 without noise "
    "E y^2 x_2^2 = E x_1^2 E x_2^2 = 1, where the line as it stands gives 1 + 2. So w w^T is meant; Theorem 5.4.2 has "
    "the right form after its next step, and nothing depends on the slip.",
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.lemmaD_2",
        entries=("icl_scale.lemmaD_2",),
        says="E y^2 x x^T = (sigma^2 + |w|^2) Lambda + 2 Lambda w w^T Lambda for Gaussian x and y = <w, x> + noise.",
        settings=draw_instances,
        statements=says_moments,
        observe=sees_moments,
        accuses=TYPESET,
    ),
)
