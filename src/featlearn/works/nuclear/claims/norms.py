"""The nuclear norm, and the method as reported and as released, as identities that can fail."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods import nuclear_norm
from featlearn.methods.domains import (
    Minibatch,
    Objective,
    Settings,
    State,
    algorithm,
    build,
    erm,
    with_nuclear_norm,
)

EXACT = 1e-9
METHODS = ("svd", "gram", "newton-schulz")
Matrices = tuple[np.ndarray, ...]


def draw_matrices(key: Key) -> Matrices:
    """200 tall, wide, square and rank-deficient matrices of 2 to 9 rows and columns, some of rank one."""
    rng = key.numpy()
    found = []
    for i in range(200):
        n, d = (int(v) for v in rng.integers(2, 10, size=2))
        rank = min(n, d) if i % 2 else int(rng.integers(1, min(n, d) + 1))
        found.append(rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) * float(rng.uniform(0.2, 3)))
    return tuple(found)


def values_of(m: np.ndarray) -> np.ndarray:
    """Singular values, for predictions."""
    return np.linalg.svd(m, compute_uv=False)


def tensor(m: np.ndarray) -> torch.Tensor:
    """The matrix as the library takes it."""
    return torch.from_numpy(m)


# --- nuclear norm ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Norms:
    """Matrices; those of full rank with a direction each; one 40 x 60 with singular values from 1 down to 1e-4."""

    some: Matrices
    full: Matrices
    ways: Matrices
    steep: np.ndarray


def draw_norms(key: Key) -> Norms:
    """Of the drawn matrices the first 20 with a condition below 10."""
    some, rng = draw_matrices(key / "matrices"), (key / "ways").numpy()
    full = tuple(m for m in some if (s := np.linalg.svd(m, compute_uv=False))[-1] > 0.1 * s[0])[:20]
    u, v = (np.linalg.qr(rng.standard_normal((k, 40)))[0] for k in (40, 60))
    return Norms(some, full, tuple(rng.standard_normal(m.shape) for m in full), u * np.logspace(0, -4, 40) @ v.T)


def norm_said(settings: Norms) -> tuple[Statement, ...]:
    """Sum of singular values, |M|_F <= ||M||_* <= sqrt(rank) |M|_F and sigma_1 rank, subgradient U V'."""
    s = [values_of(m) for m in settings.some]
    exact, top, frobenius = (np.array([f(v) for v in s]) for f in (np.sum, np.max, np.linalg.norm))
    rank = np.array([int((v > 1e-9 * v[0]).sum()) for v in s])
    source, steep = "Section 6.2.1", float(np.logspace(0, -4, 40).sum())
    polar, unit, slope = [], [], []
    for m, way in zip(settings.full, settings.ways, strict=True):
        u, _, vt = np.linalg.svd(m, full_matrices=False)
        polar.append((u @ vt).ravel())
        unit.append(m.ravel() / np.linalg.norm(m))
        slope.append((values_of(m + 1e-5 * way).sum() - values_of(m - 1e-5 * way).sum()) / 2e-5)
    slope = np.array(slope)
    return (
        equal(
            "||M||_*",
            POSITIVE,
            exact,
            source,
            margin=EXACT * exact,
            axis="matrix",
            rival=frobenius,
            rival_says="|M|_F",
        ),
        *(
            equal(
                f"||M||_* of singular values from 1 to 1e-4, by {method}",
                POSITIVE,
                steep,
                f"{source}: the sum of a geometric series",
                margin=1e-4 * steep,
                rival=float(np.logspace(0, -4, 40)[:-10].sum()),
                rival_says="without the ten smallest, as after few steps of an iteration",
            )
            for method in METHODS
        ),
        at_most("||M||_* over sigma_1 rank", POSITIVE, top * rank, source, of="||M||_*", axis="matrix", margin=EXACT),
        at_most(
            "||M||_* over sqrt(rank) |M|_F",
            POSITIVE,
            np.sqrt(rank) * frobenius,
            source,
            of="||M||_*",
            axis="matrix",
            margin=EXACT,
        ),
        at_least("||M||_* under |M|_F", POSITIVE, frobenius, source, of="||M||_*", axis="matrix", margin=EXACT),
        *(
            equal(
                f"gradient at full rank, by {method}",
                REAL,
                np.concatenate(polar),
                f"{source}: U V'",
                margin=1e-5,
                axis="entry",
                rival=np.concatenate(unit),
                rival_says="M / |M|_F",
            )
            for method in METHODS
        ),
        equal(
            "slope along drawn directions",
            REAL,
            slope,
            "finite differences of the sum of singular values",
            margin=1e-6,
            axis="matrix",
            rival=1.001 * slope,
            rival_says="a slope 0.1 % off",
        ),
    )


def norm_observed(settings: Norms, key: Key) -> Mapping[str, Observation]:
    """Values and gradients of the library."""
    seen: dict[str, Observation] = {"||M||_*": np.array([float(nuclear_norm(tensor(m), "sum")) for m in settings.some])}
    for method in METHODS:
        seen[f"||M||_* of singular values from 1 to 1e-4, by {method}"] = float(
            nuclear_norm(tensor(settings.steep), "sum", method)
        )
        leaves = [tensor(m).requires_grad_() for m in settings.full]
        slopes = [torch.autograd.grad(nuclear_norm(x, "sum", method), x)[0].numpy() for x in leaves]
        seen[f"gradient at full rank, by {method}"] = np.concatenate([v.ravel() for v in slopes])
        along = [float((v * w).sum()) for v, w in zip(slopes, settings.ways, strict=True)]
        seen.setdefault("slope along drawn directions", np.array(along))
    return seen


@dataclass(frozen=True)
class Ball:
    """Matrices of operator norm 1, and those all of whose singular values are 1."""

    some: Matrices
    isometries: Matrices


def draw_ball(key: Key) -> Ball:
    """Drawn matrices over their largest singular value."""
    found = draw_matrices(key / "matrices")
    made = tuple(np.linalg.qr(m if m.shape[0] >= m.shape[1] else m.T)[0] for m in found[1::2])
    return Ball(tuple(m / np.linalg.norm(m, 2) for m in found if min(m.shape) > 1), made)


def envelope_said(settings: Ball) -> tuple[Statement, ...]:
    """On the unit ball ||M||_* <= rank M, with equality where every singular value is 1 or 0 alone; and M is a mixture,
    with weights s_k - s_(k+1), of partial isometries of rank k, so that no convex function below the rank is larger."""
    source = "Section 6.2.1: the convex envelope of the rank on the unit ball"
    rank = np.array([np.linalg.matrix_rank(m) for m in settings.some], dtype=float)
    sums = np.array([values_of(m).sum() for m in settings.some])
    least = np.array([min(m.shape) for m in settings.isometries], dtype=float)
    mixed = np.concatenate([m.ravel() for m in settings.some])
    return (
        equal(
            "||M||_* where every singular value is 1",
            POSITIVE,
            least,
            source,
            margin=EXACT,
            axis="matrix",
            rival=least - 1,
            rival_says="one less",
        ),
        at_most(
            "||M||_* less the rank elsewhere, at ranks above 1",
            REAL,
            -1e-6,
            f"{source}, with equality there alone",
            axis="matrix",
            rival=0.0,
            rival_says="equality elsewhere",
        ),
        equal(
            "M as a mixture of partial isometries",
            REAL,
            mixed,
            "Abel summation: sum_k (s_k - s_(k+1)) U_k V_k'",
            margin=EXACT,
            axis="entry",
            rival=1.001 * mixed,
            rival_says="0.1 % more",
            form="derived",
        ),
        equal(
            "mean rank of that mixture",
            POSITIVE,
            sums,
            "the tightest bound of a convex function below the rank",
            margin=EXACT,
            axis="matrix",
            rival=rank,
            rival_says="the rank of M",
            form="derived",
        ),
    )


def envelope_observed(settings: Ball, key: Key) -> Mapping[str, Observation]:
    """Norms by the library, mixtures as they are built."""
    gap, rebuilt, mean = [], [], []
    for m in settings.some:
        u, s, vt = np.linalg.svd(m, full_matrices=False)
        share, rank = s - np.append(s[1:], 0.0), int((s > 1e-9).sum())
        mean.append(float(share @ np.arange(1, len(s) + 1)))
        rebuilt.append(np.sum([w * u[:, : k + 1] @ vt[: k + 1] for k, w in enumerate(share)], axis=0).ravel())
        if rank > 1:
            gap.append(float(nuclear_norm(tensor(m), "sum")) - rank)
    return {
        "||M||_* where every singular value is 1": np.array(
            [float(nuclear_norm(tensor(m), "sum")) for m in settings.isometries]
        ),
        "||M||_* less the rank elsewhere, at ranks above 1": np.array(gap),
        "M as a mixture of partial isometries": np.concatenate(rebuilt),
        "mean rank of that mixture": np.array(mean),
    }


# --- method ----------------------------------------------------------------------------------------------------------

LAMBDA = 0.01
SCALES = (2.0, 1.0, 0.1, 1e-3)


@dataclass(frozen=True)
class Step:
    """A linear featurizer (d, k) and head (c, d), and three domains of equal size: x (n, k), y (n)."""

    features: np.ndarray
    head: np.ndarray
    x: np.ndarray
    y: np.ndarray
    wide: np.ndarray


def draw_step(key: Key) -> Step:
    """72 rows of 12 inputs, 40 features, 3 classes; and a batch of 32 x 2048."""
    rng = key.numpy()
    shapes = ((40, 12), (3, 40), (72, 12), (32, 2048))
    a, head, x, wide = (rng.standard_normal(s) for s in shapes)
    return Step(a / 12**0.5, head / 40**0.5, x, np.arange(72) % 3, wide)


def method_said(settings: Step) -> tuple[Statement, ...]:
    """Equation 6.3 adds lambda ||Phi(X)||_*; the released code divides by the rows and starts at step 101."""
    norm = float(values_of(settings.x @ settings.features.T).sum())
    rows, wide = len(settings.x), float(values_of(settings.wide).sum())
    return (
        equal(
            "loss(lambda) - loss(0), summed",
            REAL,
            LAMBDA * norm,
            "Equation 6.3",
            margin=EXACT,
            rival=LAMBDA * norm / rows,
            rival_says="divided by the rows",
        ),
        equal(
            "the same as released, at steps 100 and 101",
            REAL,
            np.array([0.0, LAMBDA * norm / rows] * 2),
            "released code (from_code of nuclear.method_ermnu): / N, step > 100",
            margin=EXACT,
            axis="function and step",
            rival=np.full(4, LAMBDA * norm / rows),
            rival_says="from the first step",
        ),
        equal(
            "||Phi(X)||_* by mean and by root",
            POSITIVE,
            np.array([norm / rows, norm / rows**0.5]),
            "nuclear_norm: over n, and over sqrt(n)",
            margin=EXACT * norm,
            axis="reduction",
            form="derived",
            rival=np.full(2, norm / rows),
            rival_says="both over n",
        ),
        equal(
            "||Phi||_* of 32 x 2048 in float32, by gram and newton-schulz",
            POSITIVE,
            np.full(2, wide),
            "Section 6.2.2: min(n, d) singular values",
            margin=1e-4 * wide,
            axis="method",
            rival=np.full(2, 1.001 * wide),
            rival_says="0.1 % more",
        ),
    )


def linear(weight: np.ndarray) -> nn.Linear:
    """A linear layer of these weights."""
    module = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.float64)
    module.weight.data = tensor(weight)
    return module


def method_observed(settings: Step, key: Key) -> Mapping[str, Observation]:
    """One step of the objective that ships."""
    features, head = (linear(w) for w in (settings.features, settings.head))
    batches = [
        Minibatch(tensor(x), tensor(y)) for x, y in zip(np.split(settings.x, 3), np.split(settings.y, 3), strict=True)
    ]

    named = build(algorithm("erm-nu"), Settings(), 5001, 3, features, batches[0].x).objective

    def extra(step: int, objective: Objective | None = None, **how: object) -> float:
        state = State(key, step=step)
        objective = objective or with_nuclear_norm(erm, LAMBDA, **how)  # pyright: ignore[reportArgumentType]
        added = objective(features, head, batches, state).loss - erm(features, head, batches, state).loss
        return float(added.detach())

    wide, phi = tensor(settings.wide).float(), tensor(settings.x @ settings.features.T)
    return {
        "||Phi(X)||_* by mean and by root": np.array([float(nuclear_norm(phi, how)) for how in ("mean", "root")]),
        "loss(lambda) - loss(0), summed": extra(0, start=0, reduction="sum"),
        "the same as released, at steps 100 and 101": np.array(
            [extra(step, objective) for objective in (None, named) for step in (100, 101)]
        ),
        "||Phi||_* of 32 x 2048 in float32, by gram and newton-schulz": np.array(
            [float(nuclear_norm(wide, "sum", m)) for m in METHODS[1:]]
        ),
    }


def entropy(logits: np.ndarray, y: np.ndarray) -> float:
    """Mean cross entropy."""
    top = logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(logits - top).sum(1)) + top[:, 0] - logits[np.arange(len(y)), y]))


def loophole_said(settings: Step) -> tuple[Statement, ...]:
    """c Phi with head / c keeps the cross entropy and has c times the penalty, whose infimum is 0."""
    phi = settings.x @ settings.features.T
    norm, plain = float(values_of(phi).sum()), phi @ settings.head.T
    source = "equation 6.3 with a free head and no weight decay: homogeneity"
    return (
        equal(
            "cross entropy with c Phi and head / c",
            POSITIVE,
            np.full(4, entropy(plain, settings.y)),
            source,
            margin=EXACT,
            axis="c = 2, 1, 0.1, 0.001",
            rival=np.array([entropy(c * plain, settings.y) for c in SCALES]),
            rival_says="the head left as it was",
            form="derived",
        ),
        equal(
            "penalty of c Phi",
            POSITIVE,
            norm * np.array(SCALES),
            source,
            margin=EXACT * norm,
            axis="c = 2, 1, 0.1, 0.001",
            rival=np.full(4, norm),
            rival_says="unchanged, as a rank is",
            form="derived",
        ),
    )


def loophole_observed(settings: Step, key: Key) -> Mapping[str, Observation]:
    """The same by torch and the library."""
    phi, head = tensor(settings.x) @ tensor(settings.features).T, tensor(settings.head).T
    y = tensor(settings.y)
    return {
        "cross entropy with c Phi and head / c": np.array(
            [float(functional.cross_entropy(c * phi @ (head / c), y)) for c in SCALES]
        ),
        "penalty of c Phi": np.array([float(nuclear_norm(c * phi, "sum")) for c in SCALES]),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="nuclear.norm",
        entries=("nuclear.def_nuclear_norm",),
        says="The nuclear norm is the sum of singular values, between |M|_F and sqrt(rank) |M|_F, with gradient U V'.",
        statements=norm_said,
        observe=norm_observed,
        settings=draw_norms,
    ),
    Claim(
        id="nuclear.norm_envelope",
        entries=("nuclear.def_nuclear_norm",),
        says="On the unit ball of the operator norm it is the largest convex function below the rank.",
        statements=envelope_said,
        observe=envelope_observed,
        settings=draw_ball,
    ),
    Claim(
        id="nuclear.method",
        entries=("nuclear.method_ermnu",),
        says="ERM-NU adds lambda ||Phi(X)||_* to the loss; the released code divides by the rows and starts later.",
        statements=method_said,
        observe=method_observed,
        settings=draw_step,
    ),
    Claim(
        id="nuclear.method_loophole",
        entries=("nuclear.method_ermnu",),
        says="With a free head and no weight decay the penalty has infimum 0 at fixed predictions.",
        statements=loophole_said,
        observe=loophole_observed,
        settings=draw_step,
    ),
)
