"""The loss of linear attention on average over tasks, and what a rank limit leaves of it: Lemmas 5.1 and D.1, Theorem
5.4.1, size as rank."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import minimize

from featlearn.core import Key, Truth
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.nets import LinearSelfAttention, optimal_matrix
from featlearn.tasks import RegressionPrompts
from featlearn.works.icl_scale.setup import Array, Instance, draw_instances, inputs_of, matrix_of, searched, short

Instances = tuple[Instance, ...]
EXACT, SETTING = 1e-9, "setting"


def expected_loss(p: Instance, matrix: Array) -> float:
    """E (y^T X U x_q / N - <w, x_q>)^2 / 2 over w ~ N(0, I), without noise: by quadrature of E x x^T A x x^T."""
    c = p.covariance
    x, _, weights = inputs_of(c)
    middle = matrix @ c @ matrix.T
    fourth = (x * (weights * np.einsum("ka,ab,kb->k", x, middle, x))[:, None]).T @ x
    square = (1 - 1 / p.n) * c @ middle @ c + fourth / p.n
    return float(np.trace(square) - 2 * np.trace(c @ matrix @ c) + np.trace(c)) / 2


# Lemma 5.1 -----------------------------------------------------------------------------------------------------------

LOSS, DRAWN = "loss", "loss of a layer on drawn prompts over tr Lambda"
SCALED = "answers of (u, U) less those of (2 u, U / 2)"
DRAWS = 20_000


def quadratic(p: Instance, u: Array, gamma: Array) -> float:
    """tr(Gamma Lambda U Lambda U^T) / 2 - tr(Lambda^2 U^T) + tr(Lambda) / 2."""
    c = p.covariance
    return float(np.trace(gamma @ c @ u @ c @ u.T) / 2 - np.trace(c @ c @ u.T) + np.trace(c) / 2)


def gamma_of(p: Instance) -> Array:
    """(1 + 1/N) Lambda + tr(Lambda) I / N."""
    return (1 + 1 / p.n) * p.covariance + p.values.sum() / p.n * np.eye(p.d)


def says_loss(settings: Instances) -> Sequence[Statement]:
    """The quadratic form of Lemma 5.1 with its constant tr(Lambda) / 2."""
    us = [matrix_of(p, i) for i, p in enumerate(settings)]
    loss = np.array([quadratic(p, u, gamma_of(p)) for p, u in zip(settings, us, strict=True)])
    rivals = {
        "Lambda for Gamma, its limit": [quadratic(p, u, p.covariance) for p, u in zip(settings, us, strict=True)],
        "Gamma without tr(Lambda) I / N": [
            quadratic(p, u, (1 + 1 / p.n) * p.covariance) for p, u in zip(settings, us, strict=True)
        ],
        "U^T for U": [quadratic(p, u.T, gamma_of(p)) for p, u in zip(settings, us, strict=True)],
    }
    some = np.array([loss[i] / settings[i].values.sum() for i in short(settings)])
    return (
        *(
            equal(
                f"{LOSS}, against {name}",
                POSITIVE,
                loss,
                "Lemma 5.1, with tr(Lambda) / 2 for its constant",
                of=LOSS,
                margin=EXACT * (1 + loss),
                axis=SETTING,
                rival=np.array(rival),
                rival_says=name,
            )
            for name, rival in rivals.items()
        ),
        equal(
            DRAWN,
            POSITIVE,
            some,
            "Lemma 5.1",
            margin=0.15 * some,
            axis="setting with N up to 20",
            rival=2 * some,
            rival_says="the mean square error, not half of it",
        ),
        equal(
            SCALED,
            REAL,
            0.0,
            "Below Lemma 5.1: the loss depends only on u U",
            margin=1e-12,
            axis="setting and prompt",
            rival=control("answers of (u, U) less those of (2 u, U)"),
            rival_says="a layer that doubles u alone",
        ),
    )


def layer_of(matrix: Array, u: float) -> LinearSelfAttention:
    """A layer of the form (5.3)."""
    d = len(matrix)
    net = LinearSelfAttention(d, d, Key("form"), scale=0.0, dtype=torch.float64)
    with torch.no_grad():
        net.key[0, :, :-1], net.query[0, :, :-1] = torch.eye(d), torch.from_numpy(matrix)
        net.value[0, -1, -1] = u
    return net


def sees_loss(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """Exact by quadrature; by the library's layer on prompts of its task."""
    loss, drawn, same, other = [], [], [], []
    for i, p in enumerate(settings):
        u = matrix_of(p, i)
        loss.append(expected_loss(p, u))
        if i not in short(settings):
            continue
        task = RegressionPrompts(variances=tuple(p.values.tolist()), examples=p.n)
        batch = task.sample(Truth(torch.from_numpy(p.vectors.T.copy())), DRAWS, key / i)
        with torch.no_grad():
            said = layer_of(u, 1.0)(batch.x)[0]
            same.append((said[:20] - layer_of(u / 2, 2.0)(batch.x[:20])[0]).numpy())
            other.append((said[:20] - layer_of(u, 2.0)(batch.x[:20])[0]).numpy())
        drawn.append(mean_of((said - batch.y).square().numpy() / (2 * p.values.sum()), POSITIVE, "prompt"))
    return {
        LOSS: np.array(loss),
        DRAWN: drawn,
        SCALED: np.concatenate(same),
        "answers of (u, U) less those of (2 u, U)": np.concatenate(other),
    }


# Lemma D.1 -----------------------------------------------------------------------------------------------------------

LEAST, EXCESS = "loss at Gamma^-1 less tr(Lambda) / 2", "loss less that at Gamma^-1"


def root(a: Array) -> Array:
    """The square root of a symmetric matrix."""
    values, vectors = np.linalg.eigh(a)
    return vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T


def says_minimum(settings: Instances) -> Sequence[Statement]:
    """-tr(Lambda^2 Gamma^-1) / 2 at Gamma^-1, and a squared norm above it."""
    least, twice, excess, plain = [], [], [], []
    for i, p in enumerate(settings):
        c, gamma, u = p.covariance, gamma_of(p), matrix_of(p, i)
        inverse = np.linalg.inv(gamma)
        least.append(-np.trace(c @ c @ inverse) / 2)
        twice.append(-np.trace(c @ inverse) / 2)
        inner = root(c) @ u @ root(c) - c @ inverse
        excess.append(np.sum((root(gamma) @ inner) ** 2) / 2)
        plain.append(np.sum(inner**2) / 2)
    return (
        equal(
            LEAST,
            REAL,
            np.array(least),
            "Lemma D.1",
            margin=1e-10 * (1 - np.array(least)),
            axis=SETTING,
            rival=np.array(twice),
            rival_says="tr(Lambda Gamma^-1)",
        ),
        equal(
            EXCESS,
            POSITIVE,
            np.array(excess),
            "Eq. (D.4)",
            margin=1e-10 * (1 + np.array(excess)),
            axis=SETTING,
            rival=np.array(plain),
            rival_says="without Gamma^(1/2)",
        ),
        equal(
            FLAT,
            POSITIVE,
            0.0,
            "Lemma D.1: a minimum",
            margin=1e-6,
            axis=SETTING,
            rival=control(STEEP),
            rival_says="Lambda^-1, that for N to infinity",
        ),
    )


FLAT, STEEP = "slope of the loss at Gamma^-1", "slope of the loss at Lambda^-1"


def sees_minimum(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """By quadrature, slopes by differences."""
    least, excess, flat, steep = [], [], [], []
    for i, p in enumerate(settings):
        inverse, u = optimal_matrix(torch.from_numpy(p.covariance), p.n, p.d).numpy(), matrix_of(p, i)
        lowest = expected_loss(p, inverse)
        least.append(lowest - p.values.sum() / 2)
        excess.append(max(expected_loss(p, u) - lowest, 0.0))
        step = u / np.linalg.norm(u) * 1e-3
        for at, into in ((inverse, flat), (np.linalg.inv(p.covariance), steep)):
            into.append(abs(expected_loss(p, at + step) - expected_loss(p, at - step)) / 2e-3)
    return {LEAST: np.array(least), EXCESS: np.array(excess), FLAT: np.array(flat), STEEP: np.array(steep)}


# Theorem 5.4.1 -------------------------------------------------------------------------------------------------------

STARTS = 20
AT, FOUND = "loss at U* less tr(Lambda) / 2", "least loss of a search over U = A B less tr(Lambda) / 2"
BELOW, MATRIX = "least loss of a search", "entries of the best U found"
BEYOND, WHOLE = "loss at U* less that without a rank limit", "U* of rank d less Gamma^-1"


def gains(p: Instance) -> Array:
    """lambda_i^2 / T_i / 2."""
    return p.values**2 / ((1 + 1 / p.n) * p.values + p.values.sum() / p.n) / 2


def says_best(settings: Instances) -> Sequence[Statement]:
    """-sum of lambda_i^2/T_i / 2 over i <= r, which no matrix of rank r is below."""
    value = np.array([-gains(p)[: p.rank].sum() for p in settings])
    last = np.array([-gains(p)[p.d - p.rank :].sum() for p in settings])
    naive = []  # V = D^-1 on the first r directions: sum of T_i/2 - lambda_i
    for p in settings:
        t = (1 + 1 / p.n) * p.values + p.values.sum() / p.n
        naive.append((t / 2 - p.values)[: p.rank].sum())
    tried = searched(settings)
    reached = np.array([-gains(p)[: p.rank].sum() for p in tried])
    further = np.array([-gains(p)[: p.rank + 1].sum() for p in tried])
    best, other = [], []
    for p in tried:
        v = 1 / ((1 + 1 / p.n) * p.values + p.values.sum() / p.n)
        for kept, into in ((np.arange(p.d) < p.rank, best), (np.arange(p.d) >= p.d - p.rank, other)):
            into.append(np.ravel(p.vectors * (v * kept) @ p.vectors.T))
    above = np.array([gains(p)[p.rank :].sum() for p in settings])
    squares = np.array([(p.values**2)[p.rank :].sum() / 2 for p in settings])
    theorem = "Theorem 5.4.1"
    return (
        *(
            equal(
                f"{AT}, against {name}",
                REAL,
                value,
                theorem,
                of=AT,
                margin=EXACT * (1 - value),
                axis=SETTING,
                rival=np.array(rival),
                rival_says=name,
            )
            for name, rival in (("the r last eigenvectors", last), ("Lambda^-1 truncated", naive))
        ),
        equal(
            FOUND,
            REAL,
            reached,
            theorem,
            margin=1e-6,
            axis=SETTING,
            rival=further,
            rival_says="rank r + 1",
        ),
        at_least(
            BELOW,
            REAL,
            reached,
            f"{theorem}: nothing of the rank is below",
            of=FOUND,
            margin=1e-8,
            axis=SETTING,
            rival=further,
            rival_says="rank r + 1",
        ),
        equal(
            MATRIX,
            REAL,
            np.concatenate(best),
            f"{theorem}, with c = 1; unique as lambda_r > lambda_(r + 1)",
            margin=1e-3,
            axis="setting and entry",
            rival=np.concatenate(other),
            rival_says="the r last eigenvectors",
        ),
        equal(
            BEYOND,
            POSITIVE,
            above,
            "Theorem 5.4.1 and Lemma D.1: what is cut off (Eckart and Young)",
            margin=EXACT,
            axis=SETTING,
            rival=squares,
            rival_says="lambda^2, as for Lambda itself",
            form="derived",
        ),
        equal(
            WHOLE,
            REAL,
            0.0,
            "Theorem 5.4.1 at r = d and Lemma D.1",
            margin=1e-9,
            axis="setting and entry",
            rival=control("U* of rank d less Lambda^-1"),
            rival_says="Lambda^-1",
            form="derived",
        ),
    )


def search(p: Instance, key: Key) -> tuple[float, Array]:
    """The least loss of U = A B, A (d, r) and B (r, d), over starts of BFGS, and its U."""
    c, d, r = p.covariance, p.d, p.rank
    x, _, weights = inputs_of(c)
    fourth = np.einsum("k,ka,kb,kc,ke->abce", weights, x, x, x, x, optimize=True)
    fourth = np.einsum("aabc->bc", fourth)  # E |x|^2 x x^T: the trace of E x x^T A x x^T is <it, A>
    inner = (1 - 1 / p.n) * c @ c + fourth / p.n

    def loss(flat: Array) -> tuple[float, Array]:
        a, b = flat[: d * r].reshape(d, r), flat[d * r :].reshape(r, d)
        u = a @ b
        left = inner @ u @ c
        slope = left - c @ c
        return float(np.sum(left * u) / 2 - np.sum(c @ c * u)), np.concatenate(
            [np.ravel(slope @ b.T), np.ravel(a.T @ slope)]
        )

    g = key.numpy()
    ends = [
        minimize(loss, 0.3 * g.normal(size=2 * d * r), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 3000})
        for _ in range(STARTS)
    ]
    best = min(ends, key=lambda e: e.fun)
    return float(best.fun), best.x[: d * r].reshape(d, r) @ best.x[d * r :].reshape(r, d)


def sees_best(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """Losses by quadrature, at the library's U* and at those of a search."""
    at, beyond, whole, limit = [], [], [], []
    for p in settings:
        c = torch.from_numpy(p.covariance)
        cut, full = optimal_matrix(c, p.n, p.rank).numpy(), optimal_matrix(c, p.n, p.d).numpy()
        at.append(expected_loss(p, cut) - p.values.sum() / 2)
        beyond.append(max(expected_loss(p, cut) - expected_loss(p, full), 0.0))
        gamma = (1 + 1 / p.n) * p.covariance + np.trace(p.covariance) / p.n * np.eye(p.d)
        whole.append(np.ravel(full - np.linalg.inv(gamma)))
        limit.append(np.ravel(full - np.linalg.inv(p.covariance)))
    ends = [search(p, key / i) for i, p in enumerate(searched(settings))]
    return {
        AT: np.array(at),
        BEYOND: np.array(beyond),
        WHOLE: np.concatenate(whole),
        "U* of rank d less Lambda^-1": np.concatenate(limit),
        FOUND: np.array([e for e, _ in ends]),
        MATRIX: np.concatenate([np.ravel(u) for _, u in ends]),
    }


# rank as size --------------------------------------------------------------------------------------------------------

RANK, FACTORS = (
    "singular value r + 1 over the first of W_KQ",
    "U of rank r less its W_K^T W_Q of width r, over its norm",
)
WIDER, NARROWER = "the same of a layer one wider", "the same with width r - 1"


def says_rank(settings: Instances) -> Sequence[Statement]:
    """A width of r gives a rank of r at most, and every U of rank r has such factors."""
    return (
        equal(
            RANK,
            POSITIVE,
            0.0,
            "Section 5.4: W_KQ = W_K^T W_Q with W_K, W_Q of r rows",
            margin=1e-12,
            axis=SETTING,
            rival=control(WIDER),
            rival_says="r + 1 rows",
        ),
        equal(
            FACTORS,
            POSITIVE,
            0.0,
            "Section 5.4: a low-rank U is equivalent to the constraint",
            margin=1e-12,
            axis=SETTING,
            rival=control(NARROWER),
            rival_says="r - 1 rows",
        ),
    )


def sees_rank(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """The library's layers; factors by singular values."""
    rank, wider, factors, narrower = [], [], [], []
    for i, p in enumerate(q for q in settings if q.rank < q.d):
        for width, into in ((p.rank, rank), (p.rank + 1, wider)):
            net = LinearSelfAttention(p.d, width, key / i, dtype=torch.float64)
            found = torch.linalg.svdvals(net.key_query[0].detach())
            into.append(float(found[p.rank] / found[0]))
        g = (key / "u" / i).numpy()
        u = g.normal(size=(p.d, p.rank)) @ g.normal(size=(p.rank, p.d))
        left, values, right = np.linalg.svd(u)
        for width, into in ((p.rank, factors), (p.rank - 1, narrower)):
            k = (left[:, :width] * np.sqrt(values[:width])).T
            q = np.sqrt(values[:width, None]) * right[:width]
            into.append(float(np.linalg.norm(u - k.T @ q) / np.linalg.norm(u)))
    return {RANK: np.array(rank), WIDER: np.array(wider), FACTORS: np.array(factors), NARROWER: np.array(narrower)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.lemma5_1",
        entries=("icl_scale.lemma5_1",),
        says="The loss is tr(Gamma Lambda U Lambda U^T) / 2 - tr(Lambda^2 U^T) and a constant, a function of u U.",
        settings=draw_instances,
        statements=says_loss,
        observe=sees_loss,
        premises=(Premise("w21_PV = w21_KQ = 0", True, "of the form (5.3), which the lemma does not say"),),
    ),
    Claim(
        id="icl_scale.lemmaD_1",
        entries=("icl_scale.lemmaD_1",),
        says="Without a rank limit Gamma^-1 has the least loss, and the excess of others is a squared Frobenius norm.",
        settings=draw_instances,
        statements=says_minimum,
        observe=sees_minimum,
    ),
    Claim(
        id="icl_scale.theorem5_4_1",
        entries=("icl_scale.theorem5_4_1",),
        says="The best U of rank r keeps the r leading eigenvectors of Lambda, with N/((N + 1) lambda_i + tr D) each.",
        settings=draw_instances,
        statements=says_best,
        observe=sees_best,
        remarks="Unique, up to the constant c, where lambda_r > lambda_(r + 1) and all lambda_i are positive. That "
        "V* is diagonal, which the proof takes for granted, follows from Eckart and Young's theorem.",
    ),
    Claim(
        id="icl_scale.method_rank_scale",
        entries=("icl_scale.method_rank_scale",),
        says="Keys and queries of width r are the same as a rank of r at most.",
        settings=draw_instances,
        statements=says_rank,
        observe=sees_rank,
    ),
)
