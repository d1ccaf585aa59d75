"""Training on frozen features, and online gradient descent: Algorithm 4, Theorems 3.4 and B.7."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, control, equal
from featlearn.lab.uncertainty import Derived, Law, Observation, mean_of
from featlearn.learn.framework import forgetful_step, one_step, smoothness
from featlearn.measure.best_network import best_network, mean_loss
from featlearn.nets import TwoLayer
from featlearn.works.gradient_features.claims.framework import EXACT, problem
from featlearn.works.gradient_features.setup import (
    Array,
    Problem,
    sample_gradient,
    xor_sample,
)

# Algorithm 4 and Theorem 3.4 -----------------------------------------------------------------------------------------


def says_one_step(settings: Problem) -> Sequence[Statement]:
    """W stands still after the first step, and at 1/L the loss never rises."""
    first = sample_gradient(settings.w, settings.b, settings.X, settings.Y) * settings.a[:, None]
    plus, minus = (np.maximum(settings.X @ first.T - b, 0) for b in (settings.b, -settings.b))
    L, other = (float(np.linalg.eigvalsh(F.T @ F / len(F))[-1]) for F in (plus, minus))
    return (
        equal(
            "L of the squared loss in a",
            POSITIVE,
            L,
            "Theorem 3.4: the largest eigenvalue of F^T F/n at W^(1)",
            margin=1e-9,
            rival=other,
            rival_says="the other sign of the biases",
            form="derived",
        ),
        equal(
            "W after 41 steps",
            REAL,
            first,
            "Algorithm 4: W^(t) = W^(1) = -eta_1 dL/dw for t >= 2, squared loss",
            margin=EXACT,
            rival=settings.w,
            rival_says="W^(0)",
        ),
        equal(
            "steps that raise the loss at 1/L",
            COUNT,
            0.0,
            "Algorithm 4 on a smooth loss, eta <= 1/L",
            rival=control("steps that raise the loss at 2.2/L"),
            rival_says="a step of 2.2/L",
        ),
    )


def sees_one_step(settings: Problem, key: Key) -> Mapping[str, Observation]:
    """The engine's Algorithm 4 on the squared loss (y - g)^2 / 2."""
    s = settings
    L = smoothness(forgetful_step(s.net, s.x, s.y, 1.0, loss="squared"), s.x, "squared")

    def trace(eta: float | int) -> tuple[TwoLayer, int]:
        probe = lambda nets, members: 0.5 * (nets(s.x).T - s.y).square().mean(1)  # noqa: E731
        run = one_step(
            s.net, s.x, s.y, eta_1=1.0, eta=eta, steps=40, loss="squared", probes={"l": probe}, probe_at=range(41)
        )
        return run.net, int((np.diff(run.trace["l"][:, 0].numpy()) > 1e-12).sum())

    (frozen, rises), (_, far) = trace(1 / L), trace(2.2 / L)
    return {
        "L of the squared loss in a": L,
        "W after 41 steps": frozen.w[0].numpy(),
        "steps that raise the loss at 1/L": float(rises),
        "steps that raise the loss at 2.2/L": float(far),
    }


RUNS, STEPS, REACH = 50, 50, 3.0


@dataclass(frozen=True)
class Frozen:
    """A start and its sample; a^(1) and features after one step of Algorithm 4 with eta_1 = 1 and the logistic loss,
    written out; the best second layer of norm 3; signs for the Rademacher complexity; features of a test sample."""

    sample: Problem
    first: Array
    features: Array
    best: Array
    signs: Array
    test: Array
    labels: Array


def logistic(margin: Array) -> float:
    """Mean logistic loss."""
    return float(np.logaddexp(0, -margin).mean())


def optimum(features: Array, y: Array, radius: float | int) -> Array:
    """The best second layer in a ball for the logistic loss, by a general solver."""
    z = features * y[:, None]
    value = lambda a: logistic(z @ a)  # noqa: E731
    slope = lambda a: -(z / (1 + np.exp(z @ a))[:, None]).mean(0)  # noqa: E731
    ball = {"type": "ineq", "fun": lambda a: radius**2 - a @ a, "jac": lambda a: -2 * a}
    options = {"maxiter": 300, "ftol": 1e-10}
    return minimize(value, np.zeros(z.shape[1]), jac=slope, constraints=[ball], method="SLSQP", options=options).x


def draw_frozen(key: Key) -> tuple[Frozen, ...]:
    """Fifty of them."""
    made = []
    for i in range(RUNS):
        p = problem(3, 8, 150, key / i)
        x, y = (v.numpy()[150:] for v in xor_sample(8, 2150, key / i))
        z = p.X @ p.w.T - p.b
        w = 0.5 * p.a[:, None] * sample_gradient(p.w, p.b, p.X, p.Y)
        first = 0.5 * (p.Y[:, None] * np.maximum(z, 0)).mean(0)
        F, test = (np.maximum(v @ w.T - p.b, 0) for v in (p.X, x))
        signs = (key / i / "signs").numpy().choice([-1.0, 1.0], (200, 150))
        made.append(Frozen(p, first, F, optimum(F, p.Y, REACH), signs, test, y))
    return tuple(made)


T_LONG, NEAR, DROP = 400, 0.2, 0.475
"""Steps, distance and least slope of a logistic loss that is nearly a line on the way."""


def says_frozen(settings: tuple[Frozen, ...]) -> Sequence[Statement]:
    """Optimisation and Rademacher term; a planted case of each that comes near its bound."""
    gaps, spread, coins, best, half = [], [], [], [], []
    for f in settings:
        L = float(np.linalg.eigvalsh(f.features.T @ f.features / 150)[-1]) / 4
        distance = float(np.linalg.norm(f.first - f.best))
        gaps.append(distance**2 * L / (2 * STEPS))
        rademacher = float(np.linalg.norm(f.signs[:100] @ f.features, axis=1).mean()) / 150
        spread.append(2 * (np.linalg.norm(f.best) + distance) * rademacher)  # ||a|| is no larger on the way
        coins.append(2 * rademacher)
    for f in settings[:4]:
        z = f.features * f.sample.Y[:, None]
        best.append(logistic(z @ f.best))
        half.append(logistic(z @ optimum(f.features, f.sample.Y, REACH / 2)))
    return (
        at_most(
            "mean over t of L(a^(t)) less L(a*)",
            REAL,
            np.array([*gaps, NEAR * DROP / 2]),
            "Theorem B.2: ||a^(1) - a*||^2 / (2 T eta), eta = 1/L",
            axis="run, the last a nearly linear loss",
        ),
        at_most(
            "L on the population less L on the sample",
            REAL,
            np.array([*spread, *coins]),
            "Theorem 3.4: twice the Rademacher complexity of the ball",
            axis="run, then the worst second layer for labels that are coins",
        ),
        equal(
            "best loss in the ball",
            POSITIVE,
            np.array(best),
            "Definition 3.3, by sequential quadratic programming",
            margin=1e-4,
            rival=np.array(half),
            rival_says="that of half the norm",
        ),
    )


def sees_frozen(settings: tuple[Frozen, ...], key: Key) -> Mapping[str, Observation]:
    """The engine's Algorithm 4 on the logistic loss at 1/L, and the library's solver."""
    gaps, spread, coins, best = [], [], [], []
    for f in settings:
        p, F = f.sample, torch.as_tensor(f.features)
        probe = lambda nets, members, p=p: torch.nn.functional.softplus(-nets(p.x).T * p.y).mean(1)  # noqa: E731
        run = one_step(
            p.net, p.x, p.y, eta_1=1.0, steps=STEPS, loss="logistic", probes={"l": probe}, probe_at=range(STEPS + 1)
        )
        gaps.append(float(run.trace["l"][1:, 0].mean()) - mean_loss(F @ torch.as_tensor(f.best), p.y, "logistic"))
        a = run.net.a[0]
        each = np.logaddexp(0, -f.labels * (f.test @ a.numpy())) - mean_loss(F @ a, p.y, "logistic")
        spread.append(mean_of(each, REAL, "test sample"))
        # a 1-Lipschitz loss that is a line on the ball of norm 1: the worst second layer is along the mean of y F
        coins.append(mean_of(np.linalg.norm(f.signs[100:] @ f.features, axis=1) / 150, REAL, "draw"))
        if len(best) < 4:
            best.append(best_network(F, p.y, REACH, "logistic").loss)
    # one feature that is 1 everywhere: the loss is nearly a line
    eta, a, total = NEAR / (DROP * T_LONG), 0.0, 0.0
    for _ in range(T_LONG):
        a += eta / (1 + math.exp(a))
        total += math.log1p(math.exp(-a))
    gaps.append(total / T_LONG - math.log1p(math.exp(-NEAR)))
    return {
        "mean over t of L(a^(t)) less L(a*)": np.array(gaps),
        "L on the population less L on the sample": [*spread, *coins],
        "best loss in the ball": np.array(best),
    }


# Theorem B.7 ---------------------------------------------------------------------------------------------------------


def online_bound(
    start: Array, star: Array, mean: Array, square: Array, eta: Array, T: Array, two: float | int
) -> Array:
    """||theta*||^2 / (2 eta T) + ||theta_1|| mean ||g_t|| + eta mean ||g_t||^2."""
    return star**2 / (two * eta * T) + start * mean + eta * square


def says_online(settings: None) -> Sequence[Statement]:
    """The bound on sequences of convex losses, some random and one that comes near it."""
    return (
        at_most(
            "mean loss less that of a fixed theta*", REAL, Law(online_bound, two=2.0), "Theorem B.7", axis="sequence"
        ),
    )


def sees_online(settings: None, key: Key) -> Mapping[str, Observation]:
    """Gradient descent on 200 random sequences |<A_t, theta> - c_t|, and on linear losses from 0."""
    rng, rows = key.numpy(), []
    for _ in range(200):
        T, eta = int(rng.integers(5, 40)), float(rng.uniform(0.01, 0.5))
        A, c = rng.normal(size=(T, 5)), rng.normal(size=T)
        theta, star = rng.normal(size=5), rng.normal(size=5) * 2
        start, value, sizes = np.linalg.norm(theta), 0.0, []
        for t in range(T):
            u = A[t] @ theta - c[t]
            value += abs(u) / T
            sizes.append(np.linalg.norm(A[t]))
            theta = theta - eta * np.sign(u) * A[t]
        rows.append(
            (
                value - np.abs(A @ star - c).mean(),
                start,
                np.linalg.norm(star),
                np.mean(sizes),
                np.mean(np.square(sizes)),
                eta,
                T,
            )
        )
    T, eta = 200, 0.1
    reach = eta * T  # f_t = -theta: theta_t = eta t, against theta* = eta T
    rows.append((float(np.mean([-eta * t for t in range(T)])) + reach, 0.0, reach, 1.0, 1.0, eta, T))
    value, *rest = np.array(rows, dtype=float).T
    names = ("start", "star", "mean", "square", "eta", "T")
    return {"mean loss less that of a fixed theta*": Derived(value, dict(zip(names, rest, strict=True)))}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.algorithm4",
        entries=("gradient_features.algorithm4",),
        says="One joint step, then a alone: W stays, and at 1/L the loss never rises.",
        settings=lambda key: problem(10, 8, 300, key),
        statements=says_one_step,
        observe=sees_one_step,
    ),
    Claim(
        id="gradient_features.theorem3_4",
        entries=("gradient_features.theorem3_4", "gradient_features.definition3_3"),
        says="Training a on frozen features comes within ||a_1 - a*||^2 / (2 T eta) of OPT on average, and its loss on "
        "the population is within twice the Rademacher complexity of that on the sample.",
        settings=draw_frozen,
        statements=says_frozen,
        observe=sees_frozen,
        remarks="The step is 1/L as in the full statement (Theorem B.2); our copy of Theorem 3.4 reads 1/t. The "
        "logistic loss is used, as the hinge has no L. Trained networks alone stay far below the Rademacher term; the "
        "worst second layer for labels that are coins comes near it.",
    ),
    Claim(
        id="gradient_features.theorem_b7",
        entries=("gradient_features.theorem_b7",),
        says="Online gradient descent: average loss within ||theta*||^2/(2 eta T) + ... of any fixed theta*.",
        statements=says_online,
        observe=sees_online,
    ),
)
