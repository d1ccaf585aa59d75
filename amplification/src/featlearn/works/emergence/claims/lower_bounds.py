"""Fixed features and kernels cannot: the averaging lower bounds (Theorem 2, Theorem 29, Corollary 3), exactly.

One lemma carries all three. Parities of different sets are orthonormal on the cube, so by Bessel's inequality
sum_A E[psi f_A]^2 <= E psi^2 <= 1 for each feature psi bounded by 1: N features share a correlation of at most N among
C(D,k) parities, and on the worst one a classifier of norm B has hinge loss at least 1 - B sqrt(N / C(D,k)).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float, Int

from featlearn.core import Key
from featlearn.kernels import fourier_features, hinge_classifier, kernel_ridge, rbf
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, between, equal
from featlearn.lab.uncertainty import Derived, Law, Observation

Array = np.ndarray
D, K, N = 12, 3, 64
"""The enumerated problem: 4096 inputs, 220 parities."""
TOTAL = math.comb(D, K)
GAP = 1e-3
"""How far the certified lower end of a hinge loss may lie below the loss that was found."""


def cube(dim: int) -> Float[Array, "n D"]:
    """All 2^dim sign vectors; row r has z_j = -1 where bit j of r is set."""
    return 1.0 - 2.0 * ((np.arange(2**dim)[:, None] >> np.arange(dim)) & 1)


def walsh(values: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """Mean of values times every parity: entry S is E[values prod_{j in S} z_j], S a bit mask; n log n."""
    out = np.array(values, dtype=np.float64)
    n, half = len(out), 1
    while half < n:
        pairs = out.reshape(n // (2 * half), 2, half, *out.shape[1:])
        low, high = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = low + high, low - high
        half *= 2
    return out / n


def subsets(dim: int, size: int) -> Int[Array, " s"]:
    """Bit masks of all subsets of `size` elements."""
    return np.array([sum(1 << j for j in chosen) for chosen in combinations(range(dim), size)])


def parity(z: Float[Array, "n D"], mask: int) -> Float[Array, " n"]:
    """prod_{j in A} z_j."""
    return z[:, [j for j in range(z.shape[1]) if mask >> j & 1]].prod(1)


def parities(z: Float[Array, "n D"], masks: Int[Array, " s"]) -> Float[Array, "n s"]:
    """All of them as columns."""
    return np.stack([parity(z, int(m)) for m in masks], 1)


def shares(features: Float[Array, "n N"], table: Float[Array, "n s"]) -> Float[Array, " s"]:
    """sum_i E[Psi_i f_A]^2 for every A: how much of a parity the features hold."""
    return ((table.T @ features / len(table)) ** 2).sum(1)


def fixed_features(key: Key, dim: int, width: int) -> dict[str, Float[Array, "n N"]]:
    """Two families drawn before any label is seen, bounded by 1."""
    rng = key.numpy()
    z = cube(dim)
    ridge = np.tanh(z @ rng.normal(size=(dim, width)) * (2 / math.sqrt(dim)) + 0.5 * rng.normal(size=width))
    return {"tanh of a projection": ridge, "random signs": rng.choice([-1.0, 1.0], (len(z), width))}


def hinge_losses(features: Array, y: Array, norm: float, weights: Array | None = None) -> tuple[float, float]:
    """Certified lower end of the least hinge loss over ||w|| <= norm, and the loss of the classifier that was found."""
    given = torch.from_numpy(features)
    p = None if weights is None else torch.from_numpy(weights)
    found = hinge_classifier(given, torch.from_numpy(y), norm, weights=p, tolerance=GAP)
    loss = np.maximum(1 - y * found(given)[:, 0].numpy(), 0)
    return found.lower, float(loss.mean() if weights is None else weights @ loss)


@dataclass(frozen=True)
class Fixed:
    """Features bounded by 1, at most so many norms of a classifier, the share p_o of the fair component (1: uniform).

    planted: they hold every parity, so that all are alike.
    """

    features: Array
    norms: Array
    p_o: float = 1.0
    planted: bool = False


def uniform_settings(key: Key) -> tuple[Fixed, ...]:
    """Two families drawn before any label is seen, and all parities as features."""
    norms = np.array([0.25, 1.0, 1.75])
    every = parities(cube(D), subsets(D, K))
    return (
        *(Fixed(f, norms) for f in fixed_features(key, D, N).values()),
        Fixed(every, np.array([0.25, 0.5, 0.9]), planted=True),
    )


def averaging(settings: tuple[Fixed, ...]) -> Array:
    """p_o (1 - B sqrt(N / C(D,k))) for every family and norm."""
    return np.concatenate([s.p_o * (1 - s.norms * math.sqrt(s.features.shape[1] / TOTAL)) for s in settings])


def certificate(settings: tuple[Fixed, ...]) -> Statement:
    """The certified lower ends are lower ends, and near."""
    return between(
        "loss that was found less the certified lower end",
        REAL,
        0.0,
        GAP,
        "a lower end certified by the dual problem, to the tolerance asked for",
        axis="features and norm",
        margin=1e-9,
        form="derived",
    )


def uniform_statements(settings: tuple[Fixed, ...]) -> tuple[Statement, ...]:
    """Theorem 29 in its averaging form, what features share, and C(D,k) >= 16^k for k <= D/16."""
    planted = settings[-1]
    k = np.arange(5, 16, 2)
    return (
        at_most(
            "sum_A sum_i E[Psi_i f_A]^2",
            POSITIVE,
            np.array([float(s.features.shape[1]) for s in settings]),
            "Theorem 29, proof: Bessel's inequality",
            axis="features",
            margin=1e-9,
        ),
        at_least(
            "hinge loss on the worst parity",
            POSITIVE,
            averaging(settings),
            "Theorem 29, averaging: 1 - B sqrt(N / C(D,k))",
            axis="features and norm",
            margin=2e-6,
        ),
        equal(
            "hinge loss with all parities as features",
            POSITIVE,
            1 - planted.norms,
            "a classifier of norm B on the parity itself has margin B",
            axis="norm",
            margin=2e-6,
            rival=1 - planted.norms / math.sqrt(2),
            rival_says="C(D,k) / 2 in place of C(D,k): the bound is attained",
            form="derived",
        ),
        certificate(settings),
        at_least(
            "log C(16k, k), k = 5, 7, ..., 15",
            POSITIVE,
            k * math.log(16.0),
            "Theorem 29: with k <= D/16 the bound is at least 1 - B sqrt(N) / 4^k, below either reading of the root",
            axis="k",
            form="derived",
        ),
    )


def worst_losses(settings: tuple[Fixed, ...]) -> tuple[list[float], list[float], list[float]]:
    """For every family the sum of its shares; for every norm lower end and loss found on the worst parity."""
    z, masks = cube(D), subsets(D, K)
    every = parities(z, masks)
    totals, lower, found = [], [], []
    for s in settings:
        share = shares(s.features, every)
        mask = int(masks[0 if s.planted else share.argmin()])
        weights = None if s.p_o == 1 else mixture_weights(z, mask, s.p_o)
        ends = [hinge_losses(s.features, parity(z, mask), float(b), weights) for b in s.norms]
        totals.append(float(share.sum()))
        lower += [e[0] for e in ends]
        found += [e[1] for e in ends]
    return totals, lower, found


def uniform_observe(settings: tuple[Fixed, ...], key: Key) -> Mapping[str, Observation]:
    """By enumeration and convex optimisation."""
    totals, lower, found = worst_losses(settings)
    return {
        "sum_A sum_i E[Psi_i f_A]^2": np.array(totals),
        "hinge loss on the worst parity": np.array(lower),
        "hinge loss with all parities as features": np.array(lower[-len(settings[-1].norms) :]),
        "loss that was found less the certified lower end": np.array(found) - np.array(lower),
        "log C(16k, k), k = 5, 7, ..., 15": np.array([math.log(math.comb(16 * k, k)) for k in range(5, 16, 2)]),
    }


def premises(settings: tuple[Fixed, ...]) -> tuple[Premise, ...]:
    """Of Theorem 2 at the size that can be enumerated."""
    bounded = all(float(np.abs(s.features).max()) <= 1 for s in settings)
    return (
        Premise("k odd, 3 < k <= D/16", K % 2 == 1 and 3 < K <= D / 16, f"D = {D}, k = {K}"),
        Premise("features bounded by 1", bounded),
    )


def mixture_weights(z: Float[Array, "n D"], mask: int, p_o: float) -> Float[Array, " n"]:
    """Probabilities of the structured parity mixture (emergence.definition_parity_mix) on the cube."""
    inside = np.array([bool(mask >> j & 1) for j in range(z.shape[1])])
    rate = p_o / (2 - 2 * p_o)
    on = (z[:, ~inside] > 0).sum(1)
    rest = rate**on * (1 - rate) ** ((~inside).sum() - on)
    same = np.abs(z[:, inside].sum(1)) == inside.sum()
    return p_o / len(z) + (1 - p_o) * same * rest / 2


def mixture_settings(key: Key) -> tuple[Fixed, ...]:
    """As on uniform inputs, coordinates at two shares of the fair component; then all parities with all coordinates."""
    z, norms = cube(D), np.array([0.5, 1.5])
    families = fixed_features(key, D, N).values()
    every = np.hstack([parities(z, subsets(D, K)), z])
    return (
        *(Fixed(f, norms, 0.5) for f in families),
        *(Fixed(z, np.array([3**-0.5]), p_o) for p_o in (0.5, 0.25)),
        Fixed(every, np.array([0.9]), 0.5, planted=True),
    )


def mixture_statements(settings: tuple[Fixed, ...]) -> tuple[Statement, ...]:
    """Theorem 2: p_o times the bound on the fair component, hinge losses being at least 0."""
    return (
        at_least(
            "hinge loss on the mixture, worst set",
            POSITIVE,
            averaging(settings),
            "Theorem 2, averaging: p_o (1 - B sqrt(N / C(D,k)))",
            axis="features, p_o and norm",
            margin=2e-6,
        ),
        equal(
            "hinge loss with coordinates as features, p_o = 1/2 and 1/4",
            POSITIVE,
            np.array([0.5, 0.25]),
            "weights 1/3 on A solve the all-or-none component and see nothing of the parity",
            axis="p_o",
            margin=GAP,
            rival=np.array([1.0, 1.0]),
            rival_says="the factor p_o dropped",
            form="derived",
        ),
        certificate(settings),
    )


def mixture_observe(settings: tuple[Fixed, ...], key: Key) -> Mapping[str, Observation]:
    """By enumeration and convex optimisation."""
    _, lower, found = worst_losses(settings)
    return {
        "hinge loss on the mixture, worst set": np.array(lower),
        "hinge loss with coordinates as features, p_o = 1/2 and 1/4": np.array(lower[-3:-1]),
        "loss that was found less the certified lower end": np.array(found) - np.array(lower),
    }


def eigenvalue(dim: int, size: int | Array, bandwidth: float | Array) -> Array:
    """Eigenvalue of the Gaussian kernel on the uniform cube at every parity of `size`: a binomial weight."""
    e = np.exp(-2 / np.asarray(bandwidth) ** 2)
    return np.asarray(((1 - e) / 2) ** size * ((1 + e) / 2) ** (dim - size))


def best_bandwidth(dim: int, size: int) -> float:
    """The bandwidth most favourable to parities of `size`: (1 - e^(-2/h^2)) / 2 = size / dim."""
    return math.sqrt(-2 / math.log(1 - 2 * size / dim))


SMALL = 8
"""Patterns of the cube on which kernels are written out."""
WIDTH, WIDTH_D = best_bandwidth(SMALL, K), best_bandwidth(D, K)
RADII = np.array([0.5, 2.0, 5.0])


def small_parity(key: Key) -> Array:
    """f_A on the small cube."""
    return parity(cube(SMALL), 2**K - 1)


def kernel_statements(y: Array) -> tuple[Statement, ...]:
    """Corollary 3: one function, a ball of the kernel's space, its coefficients, and the route of the proof."""
    lam = float(eigenvalue(D, K, WIDTH_D))
    return (
        equal(
            "K f_A",
            REAL,
            eigenvalue(SMALL, K, WIDTH) * y,
            "Corollary 3: parities are eigenfunctions, with a binomial weight",
            axis="input",
            margin=1e-12,
            rival=eigenvalue(SMALL, K + 1, WIDTH) * y,
            rival_says="the eigenvalue of one more pattern",
            form="derived",
        ),
        at_most(
            "C(D,k) times the eigenvalue of k-parities",
            POSITIVE,
            1.0,
            "trace of a kernel with K(x,x) = 1",
            axis="bandwidth and k",
            margin=1e-9,
            form="derived",
        ),
        at_least(
            "largest hinge loss of one function over all parities",
            POSITIVE,
            1 - 1 / math.sqrt(TOTAL),
            "Corollary 3: some member of the family has at least 1 - 1/sqrt(C(D,k)) on the fair component",
            axis="function",
            margin=1e-9,
        ),
        at_least(
            "hinge loss in the ball of radius L",
            POSITIVE,
            1 - RADII / math.sqrt(math.comb(SMALL, K)),
            "Corollary 3, uniformly over RKHS norm L: 1 - L/sqrt(C(D,k))",
            axis="L",
            margin=1e-9,
            form="derived",
        ),
        equal(
            "hinge loss of f_A written with all 2^D inputs as centres",
            POSITIVE,
            0.0,
            "f_A is an eigenfunction",
            margin=1e-9,
            rival=1 - 2 ** (-D / 2) / lam / math.sqrt(TOTAL),
            rival_says="1 - ||alpha||/sqrt(C(D,k)): the norm of the coefficients in place of the RKHS norm",
            form="derived",
        ),
    )


def kernel_observe(y: Array, key: Key) -> Mapping[str, Observation]:
    """On the cube, exactly; kernel ridge on a sample through Fourier features."""
    z = cube(SMALL)
    points = torch.from_numpy(z)
    kernel = rbf(points, points, bandwidth=WIDTH).numpy()
    sizes = np.array([bin(m).count("1") for m in range(2**SMALL)])
    counts = np.array([math.comb(SMALL, k) for k in range(SMALL + 1)])
    products = []
    for width in np.geomspace(0.3, 30, 20):
        spectrum = walsh(rbf(points[:1], points, bandwidth=float(width))[0].numpy())
        products.append(counts * np.array([spectrum[sizes == k].mean() for k in range(SMALL + 1)]))
    spectrum = walsh(kernel[0])
    ball = parities(z, np.arange(2**SMALL)) * np.sqrt(np.maximum(spectrum, 0))

    z, masks = cube(D), subsets(D, K)
    table, label = parities(z, masks), parity(z, 2**K - 1)
    vote = np.sign(table.sum(1))
    functions = (np.zeros(len(z)), label, vote, vote / 2)
    points = torch.from_numpy(z)
    full = rbf(points, points, bandwidth=WIDTH_D).numpy() / len(z)
    image = full @ label
    own = label / float(image @ label / len(z))  # coefficients: f_A over its Rayleigh quotient
    return {
        "K f_A": kernel @ y / len(y),
        "C(D,k) times the eigenvalue of k-parities": np.concatenate(products),
        "largest hinge loss of one function over all parities": np.array(
            [np.maximum(1 - table * f[:, None], 0).mean(0).max() for f in functions]
        ),
        "hinge loss in the ball of radius L": np.array([hinge_losses(ball, y, float(b))[0] for b in RADII]),
        "hinge loss of f_A written with all 2^D inputs as centres": float(
            np.maximum(1 - label * (full @ own), 0).mean()
        ),
    }


def route_statements(settings: None) -> tuple[Statement, ...]:
    """The route of the proof of Corollary 3."""
    return (
        at_least(
            "hinge loss of kernel ridge on the mixture",
            POSITIVE,
            Law(
                lambda p_o, norm, width, error, total: p_o * (1 - norm * np.sqrt(width / total)) - error,
                total=float(TOTAL),
            ),
            "Corollary 3, route of the proof: Theorem 2 with the realised N and B, less the sup error of the features",
            axis="set",
            expect="too weak to test",
        ),
    )


def rff_route(key: Key, width: int = 2048, p_o: float = 0.5) -> Derived:
    """Kernel ridge on 300 samples of a set, the one the features know least, and its replacement by the features."""
    z, masks, h = cube(D), subsets(D, K), best_bandwidth(D, 1)
    points = torch.from_numpy(z)
    psi = fourier_features(D, width, key / "features", bandwidth=h)(points) * math.sqrt(width / 2)  # in [-1, 1]
    mask = int(masks[shares(psi.numpy(), parities(z, masks)).argmin()])
    weights, y = mixture_weights(z, mask, p_o), parity(z, mask)
    rows = (key / "data").numpy().choice(len(z), 300, p=weights)
    fit = kernel_ridge(lambda u, v: rbf(u, v, bandwidth=h), points[rows], torch.from_numpy(y[rows]), penalty=10.0)
    score = fit(points)[:, 0]
    w = (2 / width) * (psi[rows].T @ fit.coefficients)[:, 0]
    error, norm = float((psi @ w - score).abs().max()), float(w.norm())
    hinge = float((torch.from_numpy(weights) * (1 - torch.from_numpy(y) * score).clamp_min(0)).sum())
    given = {"p_o": p_o, "norm": norm, "width": float(width), "error": error}
    return Derived(np.array([hinge]), {name: np.array([v]) for name, v in given.items()})


def route_observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """At D = 12, k = 3."""
    return {"hinge loss of kernel ridge on the mixture": rff_route(key)}


CLAIMS = (
    Claim(
        id="emergence.theorem2",
        entries=("emergence.theorem2",),
        says="A linear model of norm at most B on N fixed features bounded by 1 has hinge loss at least p_o (1 - B "
        "sqrt(N / C(D,k))) on some member of the family, hence at least p_o (1 - sqrt(2N) B / 2^k).",
        settings=mixture_settings,
        statements=mixture_statements,
        observe=mixture_observe,
        premises=premises,
        remarks="The averaging bound needs no premise on D and k. How far the root of sqrt(2NB) reaches is not legible "
        "in our copies; both readings follow from it where k <= D/16.",
    ),
    Claim(
        id="emergence.theorem29",
        entries=("emergence.theorem29",),
        says="For uniform inputs some k-parity leaves every classifier of norm B on N fixed bounded features with "
        "hinge loss at least 1 - B sqrt(N / C(D,k)), hence at least 1 - sqrt(2N) B / 2^k when k <= D/16.",
        settings=uniform_settings,
        statements=uniform_statements,
        observe=uniform_observe,
        premises=premises,
        remarks="The averaging bound holds for every D and k, is attained by the features that are all parities, and "
        "implies both readings of the root where k <= D/16.",
    ),
    Claim(
        id="emergence.corollary3",
        entries=("emergence.corollary3",),
        says="Any one predictor has hinge loss at least p_o (1 - 1 / sqrt(C(D,k))) on some member of the family, and "
        "on one and the same member all predictors of RKHS norm L have at least p_o (1 - L / sqrt(C(D,k))).",
        settings=small_parity,
        statements=kernel_statements,
        observe=kernel_observe,
        remarks="As stated, for any f some member of the family: true of every f, as the mean over all sets is at "
        "least 1 - 1/sqrt(C(D,k)) on the fair component. Uniformly over coefficients ||alpha|| <= L, which the "
        "corollary does not say, the number of centres counts.",
    ),
    Claim(
        id="emergence.corollary3_route",
        entries=("emergence.corollary3",),
        says="Kernel ridge, replaced by N Fourier features of norm B up to a sup error, has at least Theorem 2's hinge "
        "loss less that error.",
        statements=route_statements,
        observe=route_observe,
        remarks="The route is walked, but at a size that can be enumerated nothing comes near its bound.",
    ),
)
