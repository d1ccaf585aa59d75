"""The framework's own statements: losses, starts, gradients and cones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, control, equal, order
from featlearn.lab.uncertainty import Observation
from featlearn.learn.framework import forgetful_step, joint
from featlearn.measure.gradient_features import gaussian_gradients, in_cone, membership, simplified_gradients
from featlearn.nets import TwoLayer, gradients, symmetric_init
from featlearn.nets.pointwise import loss_slope, loss_value
from featlearn.tasks import GaussianMixture
from featlearn.tasks.gaussian_mixture import MixtureTruth
from featlearn.works.gradient_features.setup import (
    Array,
    Problem,
    double,
    mixture_gradient,
    over_groups,
    sample_gradient,
    turned,
    xor_sample,
)

EXACT = 1e-12


def problem(
    m: int, d: int, n: int, key: Key, *, sigma_w: float = 0.4, sigma_a: float = 1.0, bias: float = 0.5
) -> Problem:
    """A symmetric start of 4 m neurons and n samples of the XOR mixture."""
    net = double(symmetric_init(m, d, key / "net", sigma_w=sigma_w, sigma_a=sigma_a, bias=bias))
    return Problem(net, *xor_sample(d, n, key))


# Assumption 3.1 ------------------------------------------------------------------------------------------------------


def says_loss(settings: None) -> Sequence[Statement]:
    """l(0) = 1, 1-Lipschitz, |l'(0)| of order 1, l(infinity) = 0, convex and decreasing."""
    facts = "l(0), Lipschitz constant, |l'(0)|, l at 60"
    plain = np.array([math.log(2), 1.0, 0.5, math.log1p(math.exp(-60))])

    def shape(name: str) -> tuple[Statement, Statement]:
        return (
            equal(
                f"{name}: smallest second difference",
                REAL,
                0.0,
                "Assumption 3.1: convex, and a line far out",
                margin=1e-8,
                rival=-4.8e-4,
                rival_says="that of the sigmoid loss 2/(1 + exp(z)) at this spacing, 0.05",
            ),
            equal(
                f"{name}: largest slope",
                REAL,
                0.0,
                "Assumption 3.1: decreasing to 0",
                margin=1e-9,
                rival=1.0,
                rival_says="the absolute loss |1 - z|",
            ),
        )

    return (
        equal(
            f"hinge: {facts}",
            POSITIVE,
            np.array([1.0, 1.0, 1.0, 0.0]),
            "Assumption 3.1 for max(0, 1 - z)",
            margin=1e-9,
            rival=plain,
            rival_says="the logistic loss",
        ),
        equal(
            f"log2(1 + 2^-z): {facts}",
            POSITIVE,
            np.array([1.0, 1.0, 0.5, 0.0]),
            "Remark 3.2, in the units of Assumption 3.1",
            margin=1e-8,
            rival=plain,
            rival_says="log(1 + exp(-z)), in natural units",
        ),
        *shape("hinge"),
        *shape("log2(1 + 2^-z)"),
    )


def sees_loss(settings: None, key: Key) -> Mapping[str, Observation]:
    """The engine's losses and slopes on a grid."""
    z, seen = torch.linspace(-60, 60, 240_001, dtype=torch.float64), {}
    half = len(z) // 2
    for name, kind, unit in (("hinge", "hinge", 1.0), ("log2(1 + 2^-z)", "logistic", math.log(2))):
        value, slope = (
            loss_value(unit * z, torch.ones_like(z), kind) / unit,
            loss_slope(unit * z, torch.ones_like(z), kind),
        )
        seen[f"{name}: l(0), Lipschitz constant, |l'(0)|, l at 60"] = np.array(
            [float(value[half]), float(slope.abs().max()), float(slope[half].abs()), float(value[-1])]
        )
        seen[f"{name}: smallest second difference"] = float(value[::100].diff().diff().min())
        seen[f"{name}: largest slope"] = float(slope.max())
    return seen


# eq. (3.9) and Lemma B.71 --------------------------------------------------------------------------------------------

M, BIAS, RATE = 6, 0.6, 0.7
MANY, SIGMA_W, SIGMA_A = 400, 0.4, 0.6
"""Neurons in each quarter of a start whose spread is seen, and its deviations."""


def draw_start(key: Key) -> Problem:
    """Six neurons in each quarter, and a sample on which the mean of y x is not 0."""
    start = problem(M, 8, 300, key, bias=BIAS)
    return Problem(start.net, start.x + 0.5 * start.y[:, None], start.y)


def says_start(settings: Problem) -> Sequence[Statement]:
    """Signs of the four quarters, and what one forgetful step makes of them."""
    s, one = settings, np.ones(M)
    first = RATE * s.a[:, None] * sample_gradient(s.w, s.b, s.X, s.Y)
    both, signs = np.concatenate([s.X, -s.X]), np.concatenate([s.Y, s.Y])  # then the mean of y x is exactly 0
    even = RATE * s.a[:, None] * sample_gradient(s.w, s.b, both, signs)

    def quarter(name: str, quarters: tuple[int, ...], rival: tuple[int, ...], says: str) -> Statement:
        return equal(
            name,
            REAL,
            np.concatenate([q * one for q in quarters]),
            "eq. (3.9)",
            margin=1e-6,
            axis="neuron",
            rival=np.concatenate([q * one for q in rival]),
            rival_says=says,
        )

    return (
        quarter("a_i over that of its first twin", (1, -1, -1, 1), (1, -1, 1, -1), "the second half not mirrored"),
        quarter("w_i over that of its first twin", (1, -1, 1, -1), (1, 1, 1, 1), "twins with the same weights"),
        quarter("b_i over bt", (1, -1, 1, -1), (1, 1, 1, 1), "one sign of the bias"),
        equal(
            "root mean square of the w_i over sigma_w and of the a_i over sigma_a",
            POSITIVE,
            np.ones(2),
            "eq. (3.9)",
            margin=0.12,  # three standard errors of 400 neurons
            rival=np.array([SIGMA_W**-0.5, SIGMA_A**-0.5]),
            rival_says="sigma_w and sigma_a taken for variances",
        ),
        equal(
            "g at the start",
            REAL,
            np.zeros(300),
            "Lemma B.71, first",
            margin=EXACT,
            rival=control("g of the first half at the start"),
            rival_says="the first 2 m neurons alone",
        ),
        equal(
            "w_i^(1), i > 2 m",
            REAL,
            -first[: 2 * M],
            "Lemma B.71, second: -w_(i - 2m)^(1)",
            margin=EXACT,
            rival=first[: 2 * M],
            rival_says="equal, not opposite",
        ),
        equal(
            "w_i^(1), m < i <= 2 m, where E[yx] = 0",
            REAL,
            even[:M],
            "Lemma B.71, third: w_(i - m)^(1)",
            margin=EXACT,
            rival=first[M : 2 * M],
            rival_says="what it is on the sample with E[yx] other than 0",
        ),
    )


def sees_start(settings: Problem, key: Key) -> Mapping[str, Observation]:
    """The engine's start and its first step."""
    net = double(symmetric_init(M, 8, key, sigma_w=0.4, sigma_a=1.0, bias=BIAS))
    many = double(symmetric_init(MANY, 8, key / "many", sigma_w=SIGMA_W, sigma_a=SIGMA_A, bias=BIAS))
    w, a, s = net.w[0], net.a[0], settings
    half = TwoLayer(s.net.w[:, : 2 * M], s.net.b[:, : 2 * M], s.net.a[:, : 2 * M], "relu")
    both, signs = torch.cat([s.x, -s.x]), torch.cat([s.y, s.y])
    return {
        "a_i over that of its first twin": (a / a[:M].repeat(4)).numpy(),
        "w_i over that of its first twin": (w[:, 0] / w[:M, 0].repeat(4)).numpy(),
        "b_i over bt": -net.b[0].numpy() / BIAS,
        "root mean square of the w_i over sigma_w and of the a_i over sigma_a": np.array(
            [float(v.square().mean().sqrt()) / spread for v, spread in ((many.w, SIGMA_W), (many.a, SIGMA_A))]
        ),
        "g at the start": s.net(s.x)[:, 0].numpy(),
        "g of the first half at the start": half(s.x)[:, 0].numpy(),
        "w_i^(1), i > 2 m": forgetful_step(s.net, s.x, s.y, RATE).w[0, 2 * M :].numpy(),
        "w_i^(1), m < i <= 2 m, where E[yx] = 0": forgetful_step(s.net, both, signs, RATE).w[0, M : 2 * M].numpy(),
    }


# Algorithms 1 and 5 --------------------------------------------------------------------------------------------------

ETA_1, ETA, LATER = 0.3, 0.05, 4
LARGE, GROUPS = 4000, 40


@dataclass(frozen=True)
class TwoProblems:
    """A sample for Algorithm 1, and the task of which Algorithm 5 takes the population's gradient."""

    sample: Problem
    truth: MixtureTruth


def draw_algorithm1(key: Key) -> TwoProblems:
    """Sixteen neurons in six dimensions, 160 samples of the XOR mixture."""
    return TwoProblems(problem(4, 6, 160, key), GaussianMixture.xor(d=6).draw(key / "truth"))


def listing(p: Problem, forget: float | int) -> tuple[Array, Array, Array, Array]:
    """Algorithm 1 with the hinge loss, line by line: W and a after the first step and after the last."""
    w, a, x, y = p.w, p.a, p.X, p.Y
    path = []
    for eta, lam in ((ETA_1, forget), *(((ETA, 0.0),) * LATER)):
        z = x @ w.T - p.b
        pull = -(y * (y * (np.maximum(z, 0) @ a) <= 1))[:, None] / len(x)
        dw, da = a[:, None] * ((pull * (z > 0)).T @ x), (pull * np.maximum(z, 0)).sum(0)
        w, a = w - eta * (dw + lam * w), a - eta * (da + lam * a)
        path.append((w, a))
    return *path[0], *path[-1]


def says_algorithm1(settings: TwoProblems) -> Sequence[Statement]:
    """The listing with lambda_1 = 1/eta_1; the first step in closed form; the population's first step."""
    p = settings.sample
    right, half = listing(p, 1 / ETA_1), listing(p, 0.5 / ETA_1)
    says = "lambda_1 = 1/(2 eta_1), as in the emergence work: half of the start stays"
    names = ("W after 1 step", "a after 1 step", "W after 5 steps", "a after 5 steps")
    law = ETA_1 * p.a[:, None] * sample_gradient(p.w, p.b, p.X, p.Y)
    exact = (
        ETA_1
        * p.a[:, None]
        * mixture_gradient(
            p.w, p.b, settings.truth.means.double().numpy(), settings.truth.labels.numpy(), np.full(4, 0.25), 1.0
        )
    )
    return (
        *(
            equal(n, REAL, value, "Algorithm 1, the listing", margin=EXACT, rival=rival, rival_says=says)
            for n, value, rival in zip(names, right, half, strict=True)
        ),
        equal(
            "W after 1 step, by the gradient vector",
            REAL,
            law,
            "Algorithm 1 with eq. (3.7): -eta_1 l'(0) a^(0) G(w^(0), b)",
            of="W after 1 step",
            margin=EXACT,
            rival=2 * law,
            rival_says="twice that",
        ),
        equal(
            "biases after 5 steps",
            REAL,
            p.b,
            "Algorithm 1: b is fixed",
            margin=0.0,
            rival=-p.b,
            rival_says="biases of the other sign",
        ),
        equal(
            "W after 1 step of Algorithm 5",
            REAL,
            exact,
            "Algorithm 5: population gradients",
            margin=0.03,
            axis="weight",
            rival=exact + 0.5 * p.w,
            rival_says="half of the start stays",
        ),
    )


def sees_algorithm1(settings: TwoProblems, key: Key) -> Mapping[str, Observation]:
    """The engine's joint training; for Algorithm 5 its first step on 40 samples of 4000."""
    p = settings.sample
    sample = (p.x, p.y)
    got = joint(p.net, sample, sample, eta_1=ETA_1, eta=ETA, steps=LATER, batch=160, key=key / "order").net
    first = forgetful_step(p.net, p.x, p.y, ETA_1)
    task, many = GaussianMixture.xor(d=6), []
    for i in range(GROUPS):
        batch = task.sample(settings.truth, LARGE, key / "many" / i)
        many.append(forgetful_step(p.net, batch.x.double(), batch.y.double(), ETA_1).w[0].numpy().ravel())
    return {
        "W after 1 step": first.w[0].numpy(),
        "a after 1 step": first.a[0].numpy(),
        "W after 5 steps": got.w[0].numpy(),
        "a after 5 steps": got.a[0].numpy(),
        "biases after 5 steps": -got.b[0].numpy(),
        "W after 1 step of Algorithm 5": over_groups(np.array(many), GROUPS, REAL),
    }


# Definition 3.5 and Lemma B.70 ---------------------------------------------------------------------------------------


def draw_gradients(key: Key) -> tuple[Problem, Problem]:
    """A start, and the same network elsewhere."""
    p = problem(5, 6, 200, key)
    return p, Problem(TwoLayer(p.net.w + 0.1, p.net.b, p.net.a + 0.2, "relu"), p.x, p.y)


def autograd(p: Problem) -> tuple[Array, Array]:
    """Gradients of the logistic loss, written out."""
    w, a = p.net.w[0].clone().requires_grad_(), p.net.a[0].clone().requires_grad_()
    loss = torch.nn.functional.softplus(-p.y * (torch.relu(p.x @ w.T + p.net.b[0]) @ a)).mean()
    found = torch.autograd.grad(loss, (w, a))
    return found[0].numpy(), found[1].numpy()


def says_gradients(settings: tuple[Problem, Problem]) -> Sequence[Statement]:
    """At the start l'(0) a_i G(w_i, b_i), with l'(0) = -1/2 of the logistic loss; autograd elsewhere."""
    start, moved = settings
    (w0, a0), (w1, a1) = autograd(start), autograd(moved)
    law = -0.5 * start.a[:, None] * sample_gradient(start.w, start.b, start.X, start.Y)
    plus = sample_gradient(start.w, -start.b, start.X, start.Y)

    def exact(name: str, source: str, value: Array, rival: Array, says: str, of: str = "") -> Statement:
        return equal(name, REAL, value, source, of=of, margin=EXACT, rival=rival, rival_says=says)

    return (
        exact("G(w, b)", "Definition 3.5", w0 / (-0.5 * start.a[:, None]), plus, "threshold -b in place of b"),
        exact("dL/dw at the start", "Lemma B.70: l'(0) a_i G(w_i, b_i)", law, 2 * law, "l'(0) = -1, the hinge's"),
        exact("dL/da at the start", "Lemma B.70, by autograd", a0, -a0, "the other sign"),
        exact("dL/dw elsewhere", "Lemma B.70, by autograd", w1, w0, "its value at the start"),
        exact("dL/da elsewhere", "Lemma B.70, by autograd", a1, a0, "its value at the start"),
    )


def sees_gradients(settings: tuple[Problem, Problem], key: Key) -> Mapping[str, Observation]:
    """The engine's gradients, and the simplified gradient."""
    start = settings[0]
    one, two = (gradients(p.net, p.x, p.y, loss="logistic") for p in settings)
    return {
        "G(w, b)": simplified_gradients(start.net.w[0], -start.net.b[0], start.x, start.y).numpy(),
        "dL/dw at the start": one.w[0].numpy(),
        "dL/da at the start": one.a[0].numpy(),
        "dL/dw elsewhere": two.w[0].numpy(),
        "dL/da elsewhere": two.a[0].numpy(),
    }


# Definition 3.7 and Lemma B.72 ---------------------------------------------------------------------------------------

GAMMAS, D_XOR = (0.01, 0.02, 0.03, 0.05), 400


@dataclass(frozen=True)
class Vectors:
    """Vectors around a direction, in space."""

    v: Array
    direction: Array


def draw_cone(key: Key) -> Vectors:
    """4000 of them."""
    rng = key.numpy()
    return Vectors(rng.normal(size=(4000, 3)), rng.normal(size=3))


def says_cone(settings: Vectors) -> Sequence[Statement]:
    """|cos| > 1 - gamma, so no scale and no sign; a feature of the XOR mixture against its rotation by 20 degrees."""
    v, D = settings.v, settings.direction
    cosine = v @ D / np.linalg.norm(v, axis=1) / np.linalg.norm(D)
    inside, signed = (np.abs(cosine) > 0.8).astype(float), (cosine > 0.8).astype(float)
    p, n, z = float(inside.mean()), len(v), float(norm.ppf(0.975))
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2)
    ends = np.array([middle - half, middle + half]) / (1 + z * z / n)

    def member(name: str, source: str) -> Statement:
        return equal(name, SHARE, inside, source, axis="vector", rival=signed, rival_says="a signed cosine")

    return (
        member("in the cone of 0.2", "Definition 3.7"),
        member("-3.7 times the vector in the cone", "Lemma B.72: rho w"),
        member("in the cone of -D", "Lemma B.72: (-D, s) in S iff (D, s) in S"),
        equal("0 in a cone", SHARE, 0.0, "Lemma B.72", rival=1.0, rival_says="it is"),
        equal(
            "ends of the interval of a share",
            SHARE,
            ends,
            "Definition 3.7: Pr, estimated; Wilson's 95 % interval",
            margin=1e-6,
            rival=p + np.array([-1.0, 1.0]) * z * math.sqrt(p * (1 - p) / n),
            rival_says="the normal interval about the share",
        ),
        order(
            "neurons in the cone of D_1 less those in the cone of D_1 turned by 20 degrees",
            SHARE,
            "Definition 3.7: (D_1, +1) in S with p = 0.005",
            delta=0.005,
            axis="gamma",
            form="criterion",
        ),
    )


def sees_cone(settings: Vectors, key: Key) -> Mapping[str, Observation]:
    """The library's cones and its estimate of membership, on 8 groups of 1000 neurons."""
    v, D = torch.as_tensor(settings.v), torch.as_tensor(settings.direction)[None]
    test = lambda v, D, gamma: in_cone(v, D, gamma)[:, 0, 0].double().numpy()  # noqa: E731
    planted = membership(v, D, torch.tensor([0.2], dtype=torch.float64))
    task = GaussianMixture.xor(d=D_XOR)
    truth = task.draw(key / "truth")
    directions = torch.stack([turned(truth.features[0], t, key / "aside", truth.features[[2]]) for t in (0.0, 20.0)])
    gap = []
    for i in range(8):
        w = torch.randn(1000, D_XOR, generator=(key / "w" / i).torch(), dtype=torch.float64)
        b = torch.full((1000,), 1.4 * math.sqrt(D_XOR), dtype=torch.float64)
        g = gaussian_gradients(w, b, truth.means, truth.labels, truth.weights, truth.sigma)
        share = membership(g, directions, torch.tensor(GAMMAS, dtype=torch.float64), 2.0).share
        gap.append((share[0] - share[1]).numpy())
    return {
        "in the cone of 0.2": test(v, D, 0.2),
        "-3.7 times the vector in the cone": test(-3.7 * v, D, 0.2),
        "in the cone of -D": test(v, -D, 0.2),
        "0 in a cone": float(in_cone(0 * D, D, 0.9).sum()),
        "ends of the interval of a share": np.array([float(planted.low[0, 0]), float(planted.high[0, 0])]),
        "neurons in the cone of D_1 less those in the cone of D_1 turned by 20 degrees": over_groups(
            np.array(gap), 8, REAL
        ),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.assumption3_1",
        entries=("gradient_features.assumption3_1",),
        says="The hinge, and the logistic loss scaled to log2(1 + 2^-z), are convex decreasing 1-Lipschitz losses with "
        "l(0) = 1 and l(infinity) = 0.",
        statements=says_loss,
        observe=sees_loss,
        remarks="log(1 + exp(-z)) itself has l(0) = ln 2: value and argument are scaled together. Theorem 3.4 asks in "
        "addition for a smooth loss, which the hinge is not at 1; Gaussian inputs keep ||x|| <= B_x only with high "
        "probability.",
    ),
    Claim(
        id="gradient_features.method_init",
        entries=("gradient_features.method_init", "gradient_features.lemma_b70"),
        says="The symmetric start is zero everywhere and stays symmetric after one step (B.71).",
        settings=draw_start,
        statements=says_start,
        observe=sees_start,
        remarks="sigma_a and sigma_w are standard deviations here.",
    ),
    Claim(
        id="gradient_features.algorithm1",
        entries=("gradient_features.algorithm1", "gradient_features.algorithm5"),
        says="Algorithm 1, with lambda_1 = 1/eta_1 forgetting the start; Algorithm 5 is the same on the population.",
        settings=draw_algorithm1,
        statements=says_algorithm1,
        observe=sees_algorithm1,
    ),
    Claim(
        id="gradient_features.definition3_5",
        entries=("gradient_features.definition3_5", "gradient_features.lemma_b70", "gradient_features.notation"),
        says="Gradients in closed form; at the start they are l'(0) a_i G(w_i, b_i).",
        settings=draw_gradients,
        statements=says_gradients,
        observe=sees_gradients,
    ),
    Claim(
        id="gradient_features.definition3_7",
        entries=("gradient_features.definition3_7",),
        says="Cones are lines and scale-free, 0 lies in none (B.72); features are told from rotated ones.",
        settings=draw_cone,
        statements=says_cone,
        observe=sees_cone,
        remarks="A cone of gamma holds angles up to arccos(1 - gamma), 18 degrees at 0.05, so a feature and its "
        "rotation by 20 degrees are told apart.",
    ),
)
