"""The second layer on two-step features (Lemma 23): that a good one exists, its norms, and what the two steps leave."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from scipy.optimize import linprog, nnls

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COSINE, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal, exponent
from featlearn.lab.uncertainty import Observation
from featlearn.nets import forward
from featlearn.works.emergence.claims.existence import construct
from featlearn.works.emergence.claims.second_step import (
    GAMMA,
    NOISE,
    SIGMA_A,
    ST,
    D,
    K,
    Start,
    many,
    population_step,
    samples,
)
from featlearn.works.emergence.setup import (
    Family,
    background_gate,
    draw_init,
    eta_1,
    gate,
    network,
    parity_mix,
    population_terms,
)

Array = np.ndarray

# Lemma 23 ------------------------------------------------------------------------------------------------------------


PAIRS = 128
"""More than D, as the lemma asks."""


def draw_layer(key: Key) -> Start:
    """The mixture of Table 1 and the first halves of 128 mirrored pairs."""
    family = parity_mix(D, K, 0.5)
    return Start(family, draw_init(family, PAIRS, key.numpy()))


def _features(family: Family, b: Array, a: Array, noise: float) -> Array:
    """Neurons after two steps on the counts 0..k: clip(a beta gamma (S - mu)/st^2 + b), (k+1, n)."""
    k, st = family.k, family.scale
    slope = a * gate(b, noise) * float(family.gamma[0]) / st**2
    return np.clip(slope * (np.arange(k + 1)[:, None] - k / 2) + b, 0, 1)


def least_norms(features: Array, y: Array) -> tuple[Array, float, float]:
    """Second layers with y g >= 1 on every row: the one of least 2-norm, its square, and the least largest entry."""
    G = y[:, None] * features
    # dual of min |a|^2/2 s.t. G a >= 1: min_{lam >= 0} |G^T lam|^2/2 - 1'lam, as non-negative least squares
    scale = np.abs(G).max()
    root = np.linalg.cholesky(G @ G.T / scale**2)
    lam, _ = nnls(root.T, np.linalg.solve(root, np.ones(len(y))))
    a = G.T @ lam / scale**2
    a = a / (G @ a).min()
    # least largest entry: the widest margin of second layers in [-1, 1]^n, inverted
    n = G.shape[1]
    top = linprog(
        np.r_[np.zeros(n), -1.0], np.c_[-G, np.ones(len(y))], np.zeros(len(y)), bounds=[(-1, 1)] * n + [(0, None)]
    )
    return a, float(a @ a), -1 / float(top.fun)


def smallest_hinge(features: Array, y: Array, chance: Array) -> float:
    """Least expected hinge loss over second layers, a linear program."""
    n, rows = features.shape[1], len(y)
    cost = np.r_[np.zeros(n), chance]
    left = np.c_[-y[:, None] * features, -np.eye(rows)]
    return float(linprog(cost, left, -np.ones(rows), bounds=[(None, None)] * n + [(0, None)] * rows).fun)


def planted_margin(family: Family, error: float, rng: np.random.Generator) -> float:
    """Least y g~ over counts when each neuron of g* has ten copies with slopes off by +-error, signs at their worst.

    The copies have random |b| in [1/2, 2]/k^2 and slopes |b|/|b*| (1 + delta); a~ = 2 a* |b*| / (|b| n_a) (Lemma 23).
    """
    k = family.k
    star = construct(k, k / 2, tuple(range(1, k + 1, 2)))
    count = np.arange(k + 1)
    y = np.where(count % 2 == 1, 1.0, -1.0)
    u = (count - k / 2) / (4 * k)
    margin = []
    for target in range(k + 1):  # the worst signs for this count
        g = np.zeros(k + 1)
        for a, b in zip(star.a, star.b, strict=True):
            size = rng.uniform(0.5, 2, 10) / k**2
            sign = -np.sign(a * y[target] * u[target])
            slope = size / abs(b) * (1 + error * sign)
            act = np.clip(slope * u[:, None] + size * np.sign(b), 0, 1)
            g += act @ (2 * a * abs(b) / (size * 10))
        margin.append(y[target] * g[target])
    return float(min(margin))


WIDTHS = (200, 800, 3200)


def layer_statements(at: Start) -> tuple[Statement, ...]:
    """Lemma 23: a second layer without hinge loss, its norms, and what the two steps leave."""
    b, a = np.r_[at.init.b, at.init.b], np.r_[at.init.a, -at.init.a]
    m, beta = len(at.init.b), gate(b, NOISE)
    eta = GAMMA**2 * ST / (K * m**3)
    norm = np.abs(a) * beta * GAMMA * math.sqrt(K) / ST
    # step 1 leaves weights eta a beta_1 gamma/st with the background in the gate; to first order T_a of step 2
    first = background_gate(at.family, at.init.q, at.init.b, NOISE)
    layer = eta * a * np.r_[first, first] * beta * K * GAMMA**2 / ST**2
    source = "Lemma 23"
    fall = {"margin": 0.3, "rival": 0.0, "rival_says": "norms that do not shrink with width"}
    return (
        equal(
            "largest hinge loss of the least-norm second layer, 10,000 samples",
            POSITIVE,
            0.0,
            f"{source}: y g~ >= 1 on the features of the population steps",
            margin=0.01,
            rival=control("least mean hinge loss, biases started at 0"),
            rival_says="biases started at 0",
        ),
        at_most(
            "test error of that layer",
            SHARE,
            0.005,
            f"{source}; half a percent is our criterion",
            rival=0.5,
            rival_says="guessing",
            form="criterion",
        ),
        at_least(
            "largest cosine of w^(2) with wstar",
            COSINE,
            0.99,
            f"{source}; 0.99 is our criterion",
            rival=control("largest cosine of w^(0) with wstar"),
            rival_says="the start",
            form="criterion",
        ),
        at_least(
            "least margin of the construction with slopes off by 1/(16 k (k+1)), worst signs",
            REAL,
            1.0,
            f"{source}, the construction of its proof",
            margin=1e-9,
        ),
        exponent("exponent in m of the least ||a~||_2^2", "equal", -1.0, f"{source}: k^9/m", **fall),
        exponent("exponent in m of the least ||a~||_inf", "equal", -1.0, f"{source}: k^5/m", **fall),
        equal(
            "||w^(2)||",
            POSITIVE,
            norm,
            "|a| beta gamma sqrt(k)/st; the lemma's bound st/k is larger by sqrt(k) |sigma_a/a|",
            axis="neuron",
            margin=1e-3 * norm,
            rival=math.sqrt(K) * norm,
            rival_says="larger by sqrt(k), the bound taken as sharp",
            form="derived",
        ),
        equal(
            "b^(2)",
            REAL,
            b,
            f"{source}: |b^(2)| of the size of b^(0)",
            axis="neuron",
            margin=1e-5,
            rival=np.zeros(2 * m),
            rival_says="forgotten like w",
            form="derived",
        ),
        equal(
            "a^(2)",
            REAL,
            layer,
            f"{source}: T_a of step 2, eta a beta_1 beta k gamma^2/st^2, beta_1 with the background",
            axis="neuron",
            margin=0.1 * float(np.abs(layer).max()),
            rival=a,
            rival_says="a^(0) kept",
            form="derived",
        ),
    )


def layer_observe(at: Start, key: Key) -> Mapping[str, Observation]:
    """Population steps, then linear and quadratic programs over the second layer and the engine's scores."""
    rng, m = key.numpy(), len(at.init.b)
    eta = eta_1(at.family, m)
    after = population_step(at.family, at.init, eta, NOISE)
    t = population_terms(at.family, after.q, after.b, NOISE)
    w, b = after.a[:, None] * t.T, after.b + after.a * t.T_b  # eta_2 = 1, lam = 1/2: the old w and a are forgotten
    count = np.arange(K + 1)
    y = np.where(count % 2 == 1, 1.0, -1.0)
    chance = np.array([0.5 * math.comb(K, s) / 2**K + 0.25 * (s in (0, K)) for s in count])
    bias, sign = np.r_[at.init.b, at.init.b], np.r_[at.init.a, -at.init.a]
    good, _, _ = least_norms(_features(at.family, bias, sign, NOISE), y)
    x, label = samples(D, K, 10_000, key)
    g = forward(network(w, b, good), torch.as_tensor(x))[0].numpy()
    norms = []
    for width in WIDTHS:
        several = []
        for rep in range(5):
            r = (key / "norm" / width / rep).numpy()
            a, own = r.normal(0, SIGMA_A, width), r.normal(0, 1 / K**2, width)
            several.append(least_norms(_features(at.family, np.r_[own, own], np.r_[a, -a], NOISE), y)[1:])
        norms.append(np.log(several).mean(0))
    slope = np.polyfit(np.log(WIDTHS), norms, 1)[0]
    cosine = [float((v[:, :K].sum(1) / np.linalg.norm(v, axis=1)).max()) / math.sqrt(K) for v in (w, at.init.q)]
    return {
        "largest hinge loss of the least-norm second layer, 10,000 samples": float(np.maximum(1 - label * g, 0).max()),
        "least mean hinge loss, biases started at 0": smallest_hinge(
            _features(at.family, np.zeros(2 * m), sign, NOISE), y, chance
        ),
        "test error of that layer": float((label * g <= 0).mean()),
        "largest cosine of w^(2) with wstar": cosine[0],
        "largest cosine of w^(0) with wstar": cosine[1],
        "least margin of the construction with slopes off by 1/(16 k (k+1)), worst signs": planted_margin(
            at.family, 1 / (16 * K * (K + 1)), rng
        ),
        "exponent in m of the least ||a~||_2^2": float(slope[0]),
        "exponent in m of the least ||a~||_inf": float(slope[1]),
        "||w^(2)||": np.linalg.norm(w, axis=1),
        "b^(2)": b,
        "a^(2)": t.T_a,
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.lemma23",
        entries=("emergence.lemma23",),
        says="On the two-step features some second layer has zero hinge loss, with norms that fall like 1/m; "
        "||w^(2)||, b^(2) and a^(2) as derived.",
        settings=draw_layer,
        statements=layer_statements,
        observe=layer_observe,
        premises=(
            Premise("m >= D", PAIRS >= D, f"{PAIRS} against {D}"),
            Premise("m >= Omega(k^4), p_o = Omega(k^2/D)", None, f"{PAIRS} against {K**4}; 0.5 against {K**2 / D}"),
            many(PAIRS, "D m/(delta gamma)"),
        ),
        remarks="Constants of the bounds are not given. The construction of the proof needs slopes that few neurons "
        "have by chance, so it is planted here; the norms are those of the best layer on drawn neurons.",
    ),
)
