"""Targets: the two concept classes, and the data of section 8.1."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from featlearn.core import Key
from featlearn.kernels import cube
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, equal
from featlearn.lab.uncertainty import Derived, Law, Observation, mean_of
from featlearn.measure import log_complexity, smooth_complexity
from featlearn.nets import residual_init
from featlearn.nets.residual import parameters
from featlearn.tasks import HierarchicalParity, SmoothComposite
from featlearn.tasks.smooth_composite import SmoothTruth

Array = np.ndarray

# Concept 1 -----------------------------------------------------------------------------------------------------------

HALF = 1 / math.sqrt(2)


@dataclass(frozen=True)
class Composite:
    """A smooth task and its drawn target: u (k/2, d) unit vectors, v (k, p, k), a (k, p)."""

    task: SmoothComposite
    truth: SmoothTruth
    u: Array
    v: Array
    a: Array


def draw_composite(key: Key) -> Composite:
    """k = 4 outputs in nine dimensions, p_G = 3, G of degree 3."""
    task = SmoothComposite(d=9, k=4, p_G=3, power=3, alpha=0.4)
    truth = task.draw(key)
    return Composite(task, truth, *(t.double().numpy() for t in (truth.features, truth.v, truth.a)))


def composed(settings: Composite, x: Array, length: float, alpha: float, inner: float) -> Array:
    """H(x) = F(x) + alpha G(F(x)) by eq. (5.1) and (5.2), vectors of norm `length`; inner = 0: G of the input of F."""
    angle = settings.task.wave * x @ (length * settings.u).T
    f = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(x), -1) * math.sqrt(2 / settings.task.k)
    v = settings.v * (length / HALF)
    read = f if inner else np.repeat(angle, 2, axis=1)
    g = (settings.a * np.einsum("nk,rpk->nrp", read, v) ** settings.task.power).sum(-1)
    return (f + alpha * g).ravel()


def says_concept1(settings: Composite) -> Sequence[Statement]:
    """F_r and G_r are sums of smooth functions of <w, x> and <v, h>, |a| <= 1, ||w|| = ||v|| = 1/sqrt(2)."""
    law = Law(partial(composed, settings), length=HALF, alpha=settings.task.alpha, inner=1.0)
    source = "Concept 1, eq. (5.1) and (5.2)"
    k = settings.task.k
    return (
        equal(
            "H(x)",
            REAL,
            law,
            source,
            margin=1e-5,
            axis="output",
            rival=law.but(length=1.0),
            rival_says="||w|| = ||v|| = 1",
        ),
        equal(
            "F(x) + alpha G(F(x))",
            REAL,
            law,
            source,
            of="H(x)",
            margin=1e-5,
            axis="output",
            rival=law.but(inner=0.0),
            rival_says="G reads the projections of x, not F(x)",
        ),
        equal(
            "||x|| and ||F(x)||",
            POSITIVE,
            np.ones(2),
            "Section 5: 'we assume ||x|| = 1 and ||F(x)|| = 1'",
            margin=1e-5,
            axis="vector",
            rival=np.array([math.sqrt(settings.task.d), math.sqrt(k / 2)]),
            rival_says="vectors that are not scaled",
        ),
        equal(
            "||v||",
            POSITIVE,
            np.full(settings.v.shape[:2], HALF),
            source,
            margin=1e-6,
            axis="vector",
            rival=np.ones(settings.v.shape[:2]),
            rival_says="unit vectors",
        ),
        at_most("|a|", POSITIVE, np.ones(settings.a.shape), source, axis="weight"),
    )


def sees_concept1(settings: Composite, key: Key) -> Mapping[str, Observation]:
    """The library's task on samples of its own."""
    batch = settings.task.sample(settings.truth, 60, key)
    x = batch.x.double().numpy()
    hidden = settings.task.base(settings.truth, batch.x).double().numpy()
    drawn = settings.task.draw(key)
    lengths = [np.linalg.norm(z, axis=1) for z in (x, hidden)]
    return {
        "H(x)": Derived(batch.y.double().numpy().ravel(), {"x": x}),
        "||x|| and ||F(x)||": np.array([z[np.abs(z - 1).argmax()] for z in lengths]),
        "||v||": drawn.v.double().norm(dim=-1).numpy(),
        "|a|": drawn.a.double().abs().numpy(),
    }


# Concept 2 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """sum_i a_i phi_i(<w_i, x>/sqrt(2)), |w_i| = 1, phi_i = sum_q c_iq z^q; x (n, d) of norm 1."""

    a: Array
    w: Array
    c: Array
    x: Array


def draw_sum(key: Key) -> Sum:
    """Five functions with Taylor terms up to order 8 in six dimensions, the last two odd and even."""
    rng = key.numpy()
    w, x = rng.normal(size=(5, 6)), rng.normal(size=(40, 6))
    w, x = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (w, x))
    c = rng.normal(size=(5, 9))
    c[3, 0::2], c[4, 1::2], c[4, 0] = 0, 0, 0
    return Sum(rng.uniform(-1, 1, 5), w, c, x)


def says_concept2(settings: Sum) -> Sequence[Statement]:
    """F' of Lemma A.2: phi = phi+ + z phi-, read at <(w, 0), (x, 1)>/||(x, 1)||, equals F on the sphere."""
    x = np.concatenate([settings.x, np.ones((len(settings.x), 1))], 1)
    w = np.concatenate([settings.w, np.zeros((len(settings.w), 1))], 1)
    z = x @ w.T / np.linalg.norm(x, axis=1, keepdims=True)
    orders = np.arange(settings.c.shape[1])
    even = (orders % 2 == 0) & (orders > 0)
    plus = np.where(even, 0, settings.c)
    minus = np.where(even, settings.c, 0)[:, 1:]
    first = np.stack([np.polynomial.polynomial.polyval(z[:, i], plus[i]) for i in range(len(w))], 1)
    second = np.stack([np.polynomial.polynomial.polyval(z[:, i], minus[i]) for i in range(len(w))], 1)
    source = "Lemma A.2, proof"
    values = [(settings.a * (first + factor * second * (x @ w.T))).sum(1) for factor in (HALF, 1.0)]
    return (
        equal(
            "F(x) on the unit sphere",
            REAL,
            values[0],
            source,
            margin=1e-12,
            axis="input",
            rival=values[1],
            rival_says="the second term without 1/sqrt(2)",
        ),
        *(
            at_most(
                name,
                POSITIVE,
                np.ones((5, 2)),
                "Lemma A.2: complexity (2 p, C_s(F), C_eps(F)), doubled in p alone",
                margin=1e-12,
                axis="function",
                rival=np.full((5, 2), 2.0),
                rival_says="doubled in the complexity too",
            )
            for name in ("C_s of phi+ and phi- over that of phi", "C_eps of phi+ and phi- over that of phi")
        ),
    )


def sees_concept2(settings: Sum, key: Key) -> Mapping[str, Observation]:
    """F as Concept 1 has it, term by term, and the library's measures of the two parts."""
    total = np.zeros(len(settings.x))
    for a, w, c in zip(settings.a, settings.w, settings.c, strict=True):
        total += a * sum(c[q] * (settings.x @ w / math.sqrt(2)) ** q for q in range(len(c)))
    size, spread = [], []
    for c in settings.c.tolist():
        plus = [v if q % 2 or q == 0 else 0.0 for q, v in enumerate(c)]
        parts = plus, [v if q % 2 == 0 and q else 0.0 for q, v in enumerate(c)][1:]
        size.append([smooth_complexity(part) / smooth_complexity(c) for part in parts])
        spread.append([math.exp(log_complexity(part, 1e-3) - log_complexity(c, 1e-3)) for part in parts])
    return {
        "F(x) on the unit sphere": total,
        "C_s of phi+ and phi- over that of phi": np.array(size),
        "C_eps of phi+ and phi- over that of phi": np.array(spread),
    }


# the data of section 8.1 ---------------------------------------------------------------------------------------------

WIDTH, SEEDS = 200, 20
NAMES = ("w", "b1", "v", "b2", "a")
VARIANCES = "m times the variance of W, b1, V, b2 and A at the start, m = 200"


def says_data(settings: HierarchicalParity) -> Sequence[Statement]:
    """F = (x1 x2, ..., x29 x30), G_i = (-1)^i y1 y2 y3 y4, alpha = 0.3; k alpha^2 = 1.35; a start of variance 1/m."""
    source, sign = "Section 8.1", (-1.0) ** np.arange(1, 16)

    def literal(x: Array, alternating: float) -> Array:
        f = x[:, 0::2] * x[:, 1::2]
        top = f[:, 0] * f[:, 1] * f[:, 2] * f[:, 3]
        return (f + 0.3 * top[:, None] * (sign if alternating else -sign)).ravel()

    law = Law(literal, alternating=1.0)
    fan_in = WIDTH / np.array([30.0, 30.0, 15.0, 15.0, WIDTH])
    return (
        equal(
            "H(x)",
            REAL,
            law,
            source,
            margin=1e-6,
            axis="output",
            rival=law.but(alternating=0.0),
            rival_says="signs (-1)^(i+1)",
        ),
        equal("|x_i|", POSITIVE, 1.0, source, margin=1e-7, rival=1 / math.sqrt(30), rival_says="inputs of norm 1"),
        equal(
            "E ||alpha G||^2 over all 2^15 values of F",
            POSITIVE,
            1.35,
            f"{source}: k alpha^2 = 1.35",
            margin=1e-5,
            rival=0.675,
            rival_says="with the 1/2 of the objective",
        ),
        equal(
            "E ||H||^2 over all 2^15 values of F",
            POSITIVE,
            15 * (1 + 0.3**2),
            "F and G(F) are orthogonal: parities of different sets",
            margin=1e-4,
            rival=15 * 1.3**2,
            rival_says="a cross term 2 alpha k",
            form="derived",
        ),
        equal(
            VARIANCES,
            POSITIVE,
            np.ones(5),
            f"{source}: N(., 1/m) for all entries and bias terms, the mean read as 0",
            margin=0.1,
            axis="parameter",
            rival=fan_in,
            rival_says="1/fan_in, footnote 15; 1/m for A",
        ),
    )


def sees_data(settings: HierarchicalParity, key: Key) -> Mapping[str, Observation]:
    """The library's task: its samples, and its G on every value of F; its starts."""
    truth = settings.draw(key)
    batch = settings.sample(truth, 400, key)
    every = cube(15)
    top = settings.alpha * settings.composite(every)
    starts = [
        parameters(residual_init(WIDTH, 30, 15, key / seed, wiring="residual bottleneck")) for seed in range(SEEDS)
    ]
    variances = [[float(s[name].double().square().mean()) * WIDTH for s in starts] for name in NAMES]
    return {
        "H(x)": Derived(batch.y.double().numpy().ravel(), {"x": batch.x.double().numpy()}),
        "|x_i|": float(batch.x.double().abs().mean()),
        "E ||alpha G||^2 over all 2^15 values of F": float(top.square().sum(1).mean()),
        "E ||H||^2 over all 2^15 values of F": float((settings.beta * every + top).square().sum(1).mean()),
        VARIANCES: [mean_of(v, POSITIVE, "seed") for v in variances],
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.concept1",
        entries=("resnet.concept1",),
        says="Targets are F(x) + alpha G(F(x)), each coordinate a two-layer network of smooth functions.",
        settings=draw_composite,
        statements=says_concept1,
        observe=sees_concept1,
    ),
    Claim(
        id="resnet.concept2",
        entries=("resnet.concept2",),
        says="Concept 1 is Concept 2 with twice as many functions, none more complex: even orders move into a factor.",
        settings=draw_sum,
        statements=says_concept2,
        observe=sees_concept2,
    ),
    Claim(
        id="resnet.sec8_1_setup",
        entries=("resnet.sec8_1_setup",),
        says="Fifteen products of two signs and a product of four of them, alpha = 0.3: not knowing G costs 1.35.",
        settings=HierarchicalParity(),
        statements=says_data,
        observe=sees_data,
    ),
)
