"""The stable rank, in the usual form and in that of our copy, as identities that can fail."""

from collections.abc import Mapping

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE
from featlearn.lab.statement import Statement, at_least, at_most, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods import stable_rank
from featlearn.works.nuclear.claims.norms import EXACT, Matrices, draw_matrices, tensor, values_of


def usual(m: np.ndarray) -> float:
    """|M|_F^2 / |M|_2^2, for predictions."""
    s = values_of(m)
    return float((s**2).sum() / s[0] ** 2)


def rank_said(settings: Matrices) -> tuple[Statement, ...]:
    """|M|_F^2 / |M|_2^2, between 1 and the rank, blind to scale; centred, of the columns less their means."""
    exact = np.array([usual(m) for m in settings])
    centred = np.array([usual(m - m.mean(0)) for m in settings])
    rank = np.array([np.linalg.matrix_rank(m) for m in settings], dtype=float)
    source = "Section 6.3.3 with the usual square"
    return (
        equal(
            "stable rank",
            POSITIVE,
            exact,
            source,
            margin=EXACT,
            axis="matrix",
            rival=np.sqrt(exact),
            rival_says="its square root",
        ),
        equal(
            "stable rank of centred columns",
            POSITIVE,
            centred,
            f"{source}, of M less the means of its columns",
            margin=EXACT,
            axis="matrix",
            rival=exact,
            rival_says="not centred",
        ),
        equal(
            "stable rank of 10 M",
            POSITIVE,
            exact,
            f"{source}: sr(c M) = sr(M)",
            margin=EXACT,
            axis="matrix",
            rival=10 * exact,
            rival_says="10 times that of M",
        ),
        at_most("stable rank up to the rank", POSITIVE, rank, source, of="stable rank", axis="matrix", margin=EXACT),
        at_least("stable rank from 1", POSITIVE, np.ones(200), source, of="stable rank", axis="matrix", margin=EXACT),
    )


def rank_observed(settings: Matrices, key: Key) -> Mapping[str, Observation]:
    """By the library."""

    def of(factor: float = 1.0, centred: bool = False) -> np.ndarray:
        return np.array([float(stable_rank(tensor(factor * m), centred=centred)) for m in settings])

    return {
        "stable rank": of(),
        "stable rank of centred columns": of(centred=True),
        "stable rank of 10 M": of(10.0),
    }


K = 6
SIZES = (1.0, 1e-2, 1e-4)


def copied_said(settings: Matrices) -> tuple[Statement, ...]:
    """|M|_F^2 / |M|_2, the form of our copy: c times larger for c M, above the rank, Lipschitz with constant min(m, n);
    the usual form is away from 0 alone: (k - 1) 3/4 over e sqrt(k - 1)/2 between e I and e diag(1, 1/2, ...)."""
    exact = np.array([(values_of(m) ** 2).sum() / values_of(m)[0] for m in settings])
    source = "Section 6.3.3, in our copy"
    steep = 1.5 * (K - 1) ** 0.5 / np.array(SIZES)
    return (
        equal(
            "|M|_F^2 / |M|_2 of 2 M",
            POSITIVE,
            2 * exact,
            f"{source}: homogeneous of degree one",
            margin=EXACT * exact,
            axis="matrix",
            rival=exact,
            rival_says="unchanged, as a rank is",
        ),
        equal(
            "of 10 I_3, whose rank is 3: with the square and without",
            POSITIVE,
            np.array([3.0, 30.0]),
            "by hand (verified_by_hand of nuclear.def_stable_rank)",
            margin=EXACT,
            axis="form",
            rival=np.array([30.0, 3.0]),
            rival_says="the other way round",
        ),
        at_most(
            "change of |M|_F^2 / |M|_2 over the distance of 8 x 6 matrices",
            POSITIVE,
            float(K),
            f"{source}, 'Lipschitz': its gradient has norm |M|_F^2 / |M|_2^2 <= min(m, n)",
            axis="pair",
            margin=EXACT,
        ),
        equal(
            "change of |M|_F^2 / |M|_2^2 over the distance, at sizes 1, 0.01, 0.0001",
            POSITIVE,
            steep,
            "by hand: 1.5 sqrt(k - 1) / e",
            margin=1e-6 * steep,
            axis="size",
            rival=np.full(3, steep[0]),
            rival_says="one constant at every size",
            form="derived",
        ),
    )


def copied_observed(settings: Matrices, key: Key) -> Mapping[str, Observation]:
    """Both forms by the library."""
    g = (key / "pairs").torch()
    a = torch.randn(300, 8, K, generator=g, dtype=torch.float64)
    b = a + torch.randn(300, 8, K, generator=g, dtype=torch.float64) * torch.logspace(-4, 0, 300)[:, None, None]
    one, two = torch.eye(8, K, dtype=torch.float64).expand(2, 8, K).clone()
    one[0, 0], two[0, 0] = 1.01, 1.02  # the first of equal singular values moves: the steepest way there is, up to 2
    a, b = torch.cat([a, one[None]]), torch.cat([b, two[None]])
    apart = (stable_rank(a, "reported") - stable_rank(b, "reported")).abs() / (a - b).norm(dim=(1, 2))
    eye = torch.eye(K, dtype=torch.float64)
    half = torch.diag(torch.tensor([1.0] + [0.5] * (K - 1), dtype=torch.float64))
    steep = [float((stable_rank(e * eye) - stable_rank(e * half)).abs() / (e * (eye - half)).norm()) for e in SIZES]
    ten = 10 * torch.eye(3, dtype=torch.float64)
    return {
        "|M|_F^2 / |M|_2 of 2 M": np.array([float(stable_rank(tensor(2 * m), "reported")) for m in settings]),
        "of 10 I_3, whose rank is 3: with the square and without": np.array(
            [float(stable_rank(ten)), float(stable_rank(ten, "reported"))]
        ),
        "change of |M|_F^2 / |M|_2 over the distance of 8 x 6 matrices": apart.numpy(),
        "change of |M|_F^2 / |M|_2^2 over the distance, at sizes 1, 0.01, 0.0001": np.array(steep),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="nuclear.stable_rank",
        entries=("nuclear.def_stable_rank",),
        says="|M|_F^2 / |M|_2^2 lies between 1 and the rank and does not depend on scale.",
        statements=rank_said,
        observe=rank_observed,
        settings=draw_matrices,
    ),
    Claim(
        id="nuclear.stable_rank_reported",
        entries=("nuclear.def_stable_rank",),
        says="|M|_F^2 / |M|_2 is continuous and Lipschitz, and goes up with the scale of M; the usual form does not.",
        statements=copied_said,
        observe=copied_observed,
        settings=draw_matrices,
        remarks="Our copy of Section 6.3.3 has |M|_2 without a square, which may have been lost in it: which form "
        "Figure 6.5 shows is open.",
    ),
)
