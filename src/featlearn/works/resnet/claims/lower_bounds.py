"""Lemmas of appendix D that Theorems 2 and 3 rest on, and what a background of any law leaves of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.kernels import (
    cube,
    fourier_coefficients,
    rbf,
)
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.works.resnet.setup import ALPHA, GOOD, Cube, pivots, planted_groups

EXACT = 1e-9

# Lemma D.1 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """Functions on the cube (2^d points, bit c of the index gives coordinate c, 0 is +1), a target set and i in it."""

    d: int
    values: np.ndarray
    s: tuple[int, ...]
    i: int

    @property
    def characters(self) -> np.ndarray:
        """chi_T at every point (points, T), T by bits."""
        index = np.arange(2**self.d)
        return (-1.0) ** np.bitwise_count(index[:, None] & index)


def draw_functions(key: Key) -> Function:
    """40 random functions of eight signs."""
    return Function(8, key.numpy().normal(size=(40, 2**8)), (1, 3, 6), 3)


def says_parseval(settings: Function) -> Sequence[Statement]:
    """E |f - x_i - alpha chi_S|^2 = (l_i - 1)^2 + (l_S - alpha)^2 + the sum of all other l^2, and what follows."""
    lam = settings.values @ settings.characters / 2**settings.d
    one, whole = 2**settings.i, sum(2**c for c in settings.s)
    two = (lam[:, one] - 1) ** 2 + (lam[:, whole] - ALPHA) ** 2
    same = np.bitwise_count(np.arange(2**settings.d)) == len(settings.s)
    same[whole] = False
    others = (lam**2).sum(1) - lam[:, one] ** 2 - lam[:, whole] ** 2
    return (
        equal(
            "E |f - x_i - alpha chi_S|^2",
            POSITIVE,
            two + others,
            "Lemma D.1, proof",
            margin=EXACT,
            axis="function",
            rival=two + (lam[:, same] ** 2).sum(1),
            rival_says="other sets of k coordinates alone",
        ),
        at_least(
            "l_S / alpha where the risk is alpha^2/16",
            REAL,
            0.75,
            "Lemma D.1",
            margin=EXACT,
            axis="function",
            rival=1 - 8**-0.5,
            rival_says="a risk of alpha^2/8",
            trivial=0.0,
            trivial_says="the function x_i",
        ),
        at_most(
            "sum of l_S'^2 over other S' of k coordinates, over alpha^2, where the risk is alpha^2/16",
            POSITIVE,
            1 / 16,
            "Lemma D.1",
            margin=EXACT,
            axis="function",
            rival=1 / 8,
            rival_says="a risk of alpha^2/8",
        ),
    )


def sees_parseval(settings: Function, key: Key) -> Mapping[str, Observation]:
    """Means over all points; random functions at risk alpha^2/16, and the two that lose or gain most there."""
    points = cube(settings.d)
    s = list(settings.s)
    target = points[:, settings.i] + ALPHA * points[:, s].prod(1)
    values = torch.from_numpy(settings.values).T
    off = torch.cat([values, -points[:, s].prod(1)[:, None], points[:, [0, 2, 4]].prod(1)[:, None]], 1)
    off = off * (ALPHA / 4 / off.square().mean(0).sqrt())
    lam = fourier_coefficients(target[:, None] + off)
    sizes = torch.tensor([t.bit_count() for t in range(2**settings.d)])
    whole = sum(2**c for c in s)
    same = (sizes == len(s)) & (torch.arange(2**settings.d) != whole)
    return {
        "E |f - x_i - alpha chi_S|^2": (values - target[:, None]).square().mean(0).numpy(),
        "l_S / alpha where the risk is alpha^2/16": (lam[whole] / ALPHA).numpy(),
        "sum of l_S'^2 over other S' of k coordinates, over alpha^2, where the risk is alpha^2/16": (
            lam[same].square().sum(0) / ALPHA**2
        ).numpy(),
    }


# Lemma D.2 -----------------------------------------------------------------------------------------------------------

COUNTED, HALF = 120, 30
RANK, ENERGY = "rank of I + E over R", "largest row energy left at R = 2 N"
NEAR = "largest row energy left at R = N + 1"


def says_rank(settings: None) -> Sequence[Statement]:
    """rank(I + E) >= 8 R/9 where rows of E have energy 1/9 at most; N vectors cannot tell 2 N apart so well."""
    trace = at_least(
        "rank of I + E over R, by the trace",
        SHARE,
        0.9,
        "tr(A)^2 <= rank(A) ||A||_F^2 with A = I + E, ||A||_F^2 <= 10 R/9",
        of=RANK,
        axis="matrix",
        rival=8 / 9,
        rival_says="the lemma's own bound",
        form="derived",
    )
    leverage = at_least(
        "largest row energy left at R = 2 N, by leverages",
        POSITIVE,
        1.0,
        "1 + least energy = 1/h_r with leverages h_r that add up to N",
        of=ENERGY,
        axis="matrix",
        margin=EXACT,
        rival=1 / 9,
        rival_says="the lemma's own bound",
        form="derived",
    )
    return (
        at_least(
            RANK,
            SHARE,
            8 / 9,
            "Appendix D.3, proof of Lemma D.2",
            axis="matrix",
            rival=0.5,
            rival_says="N = R/2 vectors",
        ),
        trace,
        at_least(
            ENERGY,
            POSITIVE,
            1 / 9,
            "Lemma D.2, rows scaled to <M_r, b_r> = 1",
            axis="matrix",
            rival=control(NEAR),
            rival_says="one target more than vectors",
        ),
        leverage,
    )


def least_energy(m: Tensor) -> float:
    """max over r of min over b with <M_r, b> = 1 of the sum over r' != r of <M_r', b>^2: m (N, R)."""
    b = torch.linalg.solve(m @ m.T, m)
    b = b / (m * b).sum(0)
    products = (b.T @ m).square()
    return float((products.sum(1) - products.diagonal()).max())


def searched(n: int, r: int, key: Key, steps: int = 150) -> Tensor:
    """M (n, r) by gradient descent on the largest energies, from a random start."""
    m = torch.randn(n, r, generator=key.torch(), dtype=torch.float64)
    for _ in range(steps):
        m = m.requires_grad_()
        leverage = (m * torch.linalg.solve(m @ m.T, m)).sum(0)
        (g,) = torch.autograd.grad((1 / leverage).square().sum(), m)
        m = (m - 0.1 * g / g.norm() * m.norm()).detach()
        m = m / m.norm(dim=0)
    return m


def errors(key: Key) -> dict[str, Tensor]:
    """Matrices E without a diagonal and rows of energy 1/9: random, blocks of ten, and what a low rank leaves."""
    r = COUNTED
    g = torch.randn(r, r, generator=key.torch(), dtype=torch.float64)
    blocks = torch.block_diag(*[torch.full((10, 10), -1.0, dtype=torch.float64)] * (r // 10))
    low = torch.linalg.svd(torch.eye(r).double() + g / r)
    flat = low.U[:, : r * 9 // 10] @ low.U[:, : r * 9 // 10].T
    found = {"random": g, "sparse": g * (g.abs() > 2), "blocks": blocks, "projection": flat}
    for name, e in found.items():
        e = e - torch.diag(e.diagonal())
        found[name] = e / e.norm(dim=1, keepdim=True).clamp_min(1e-300) / 3
    return found


def sees_rank(settings: None, key: Key) -> Mapping[str, Observation]:
    """Ranks by singular values, and energies of random, descended and evenly spread M."""
    ranks = [
        int(torch.linalg.matrix_rank(torch.eye(COUNTED) + e, atol=1e-9)) / COUNTED for e in errors(key / "e").values()
    ]
    q = torch.linalg.qr(torch.randn(HALF, HALF, generator=(key / "q").torch(), dtype=torch.float64)).Q
    even = torch.cat([torch.eye(HALF).double(), q], 1)
    drawn = torch.randn(HALF, 2 * HALF, generator=(key / "m").torch(), dtype=torch.float64)
    simplex = torch.linalg.eigh(torch.eye(HALF + 1).double() - 1 / (HALF + 1)).eigenvectors[:, 1:].T
    return {
        RANK: np.array(ranks),
        ENERGY: np.array([least_energy(m) for m in (even, drawn, searched(HALF, 2 * HALF, key / "search"))]),
        NEAR: least_energy(simplex),
    }


# Remark D.3 ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Background:
    """Signs of six coordinates that matter, and four others with an arbitrary law: atoms in R^4 with weights.

    values: functions on (point, atom), the first of which does not see the atoms.
    """

    atoms: np.ndarray
    weights: np.ndarray
    values: np.ndarray
    s: tuple[int, ...] = (0, 2, 5)


def draw_background(key: Key) -> Background:
    """Seven atoms of unequal weight, far from Gaussian."""
    g = key.numpy()
    values = g.normal(size=(20, 64, 7))
    values[0] = values[0, :, :1]
    return Background(g.exponential(size=(7, 4)) ** 2, g.dirichlet(np.ones(7)), values)


AFTER, GAP = "risk of E[K | x_1] over that of K", "risk of K less that of E[K | x_1]"
BEHIND = "target sets within alpha^2/16 of kernels that see the background"
HIDDEN = Cube(8, 4, 16)


def says_background(settings: Background) -> Sequence[Statement]:
    """E |K - t|^2 >= E |E[K | x_1] - t|^2 for a background of any law; what is lost is the conditional variance."""
    mean = settings.values @ settings.weights
    spread = ((settings.values - mean[..., None]) ** 2) @ settings.weights
    return (
        at_most(
            AFTER,
            POSITIVE,
            1.0,
            "Remark D.3, last display",
            margin=EXACT,
            axis="function",
        ),
        equal(
            GAP,
            REAL,
            spread.mean(1),
            "E Var(K | x_1), since t does not see the background",
            margin=EXACT,
            axis="function",
            rival=settings.values.var(2).mean(1),
            rival_says="atoms of equal weight",
            form="derived",
        ),
        at_most(
            BEHIND,
            COUNT,
            2.0 * HIDDEN.n - 1,
            "Theorem 2 (restated), Remark D.3, Lemma D.2",
            axis="kernel",
            rival=2.0 * HIDDEN.n,
            rival_says="2 N sets",
        ),
    )


def sees_background(settings: Background, key: Key) -> Mapping[str, Observation]:
    """Risks over all points and atoms; projections in L2 of the joint law."""
    points = cube(6).numpy()
    s = list(settings.s)
    t = points[:, s[1]] + ALPHA * points[:, s].prod(1)
    before = ((settings.values - t[:, None]) ** 2).mean(1) @ settings.weights
    after = ((settings.values @ settings.weights - t) ** 2).mean(1)
    return {AFTER: after / before, GAP: before - after, BEHIND: np.array(joint_counts(settings, key))}


def joint_counts(settings: Background, key: Key) -> list[int]:
    """Good sets of kernels of (x_1, x_2): a Gaussian, a planted one of x_1 and one that also sees the atoms."""
    c, atoms = HIDDEN, torch.from_numpy(settings.atoms)
    points = cube(c.d)
    joint = torch.cat([points.repeat_interleave(len(atoms), 0), atoms.repeat(len(points), 1)], 1)
    weight = (torch.from_numpy(settings.weights).repeat(len(points)) / len(points)).sqrt()[:, None]
    centres = torch.randperm(len(joint), generator=key.torch())[: c.n]
    planted = planted_groups(c).repeat_interleave(len(atoms), 0)
    seen = planted * (1 + 0.1 * torch.sin(joint[:, -1:]))
    sets = list(combinations(range(c.d), c.k))
    chi = torch.stack([joint[:, list(s)].prod(1) for s in sets], 1) * weight
    single = joint[:, : c.d] * weight
    found = []
    for columns in (rbf(joint, joint[centres], bandwidth=4.0), *(phi @ phi[pivots(phi)].T for phi in (planted, seen))):
        u, scale, _ = torch.linalg.svd(columns * weight, full_matrices=False)
        u = u[:, scale > 1e-10 * scale[0]].T
        risks = [
            min(
                1 + ALPHA**2 - float((u @ single[:, i] + ALPHA * (u @ chi[:, j])).square().sum())
                for i in range(c.d)
                if i in s
            )
            for j, s in enumerate(sets)
        ]
        found.append(sum(r <= GOOD * (1 + EXACT) for r in risks))
    return found


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.lemmaD1",
        entries=("resnet.lemmaD1",),
        says="Parseval: a function within alpha^2/16 of x_i + alpha chi_S has l_S >= 3 alpha/4 and little of other S'.",
        settings=draw_functions,
        statements=says_parseval,
        observe=sees_parseval,
    ),
    Claim(
        id="resnet.lemmaD2",
        entries=("resnet.lemmaD2",),
        says="rank(I + E) >= 8 R/9 for rows of energy 1/9 at most, so N vectors do not tell R >= 2 N targets apart.",
        statements=says_rank,
        observe=sees_rank,
    ),
    Claim(
        id="resnet.remarkD3",
        entries=("resnet.remarkD3",),
        says="A background of any law does not help: averaging K over it lowers the risk.",
        settings=draw_background,
        statements=says_background,
        observe=sees_background,
    ),
)
