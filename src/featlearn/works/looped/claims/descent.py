"""Least squares and gradient descent on it: Definitions 8.9 to 8.12 and 8.18, Lemmas 8.11 and 8.20 to 8.25."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.nets import gradient_descent_weights, least_squares, prompt_matrix, smoothness
from featlearn.works.looped.setup import Array, Prompt, draw_prompts, joined, points_of, tensor

PROMPTS, EXACT = 20, 1e-9
Prompts = tuple[Prompt, ...]


def draw_any(key: Key) -> Prompts:
    """Labels that are no linear function of x."""
    return draw_prompts(key, PROMPTS, free_labels=True)


def draw_linear(key: Key) -> Prompts:
    """y = X theta*, q = 0."""
    return draw_prompts(key, PROMPTS, from_zero=True)


def loss(p: Prompt, theta: Tensor) -> Tensor:
    """|y - X theta|^2 / 2."""
    return (torch.from_numpy(p.y) - torch.from_numpy(p.x) @ theta).square().sum() / 2


def slope(p: Prompt, theta: Array) -> Array:
    """Its gradient, by differentiation."""
    at = torch.from_numpy(theta).requires_grad_()
    (found,) = torch.autograd.grad(loss(p, at), at)
    return found.numpy()


# least squares -------------------------------------------------------------------------------------------------------

GRADIENT = "gradient at a random theta over 1 + L"
FLAT = "gradient at the least-squares solution over |X^T y|"
SOLUTION, NOISY = "least-squares solution less theta*", "least-squares solution less theta*, labels with noise of 0.1"
TWINS = "distance of the least-norm solution from theta* where two columns are equal"


def says_gradient(settings: Prompts) -> Sequence[Statement]:
    """X^T X theta - X^T y; 0 at (X^T X)^-1 X^T y."""
    found = joined([(p.gram @ points_of(p, i)[0] - p.x.T @ p.y) / (1 + p.spectrum[-1]) for i, p in enumerate(settings)])
    return (
        equal(
            GRADIENT,
            REAL,
            found,
            "Eq. (8.1)",
            margin=1e-12,
            axis="entry",
            rival=2 * found,
            rival_says="the loss without 1/2",
        ),
        equal(
            FLAT,
            POSITIVE,
            np.zeros(PROMPTS),
            "Definition 8.10",
            margin=EXACT,
            axis="prompt",
            rival=1.0,
            rival_says="theta = 0",
        ),
    )


def sees_gradient(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """By automatic differentiation; the library's solution."""
    found, flat = [], []
    for i, p in enumerate(settings):
        found.append(slope(p, points_of(p, i)[0]) / (1 + p.spectrum[-1]))
        best = least_squares(tensor(p.x), tensor(p.y))[0].numpy()
        flat.append(float(np.linalg.norm(slope(p, best)) / np.linalg.norm(p.x.T @ p.y)))
    return {GRADIENT: joined(found), FLAT: np.array(flat)}


def says_solution(settings: Prompts) -> Sequence[Statement]:
    """theta* itself, for X^T X invertible; n > d alone does not do."""
    twins = [p for p in settings if len(p.theta) > 1]
    gap = np.array([abs(p.theta[0] - p.theta[1]) / math.sqrt(2) for p in twins])
    return (
        equal(
            SOLUTION,
            REAL,
            0.0,
            "Lemma 8.11",
            margin=1e-10,
            axis="entry",
            rival=control(NOISY),
            rival_says="labels with noise of 0.1",
        ),
        equal(
            TWINS,
            POSITIVE,
            gap,
            "Lemma 8.11 without the invertible X^T X of the sentence before it: X (e_1 - e_2) = 0",
            margin=1e-10,
            axis="prompt",
            rival=0.0,
            rival_says="n > d is enough",
            form="derived",
        ),
    )


def sees_solution(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """The library's solution."""

    def solved(x: Array, y: Array) -> Array:
        return least_squares(tensor(x), tensor(y))[0].numpy()

    clean, noisy, twins = [], [], []
    for i, p in enumerate(settings):
        clean.append(solved(p.x, p.y) - p.theta)
        noisy.append(solved(p.x, p.y + 0.1 * (key / i).numpy().normal(size=len(p.y))) - p.theta)
        if len(p.theta) > 1:
            x = p.x.copy()
            x[:, 1] = x[:, 0]
            twins.append(float(np.linalg.norm(solved(x, x @ p.theta) - p.theta)))
    return {SOLUTION: joined(clean), NOISY: joined(noisy), TWINS: np.array(twins)}


# constants of the loss -----------------------------------------------------------------------------------------------

LIPSCHITZ, TOP, BOTTOM = (
    "|grad(a) - grad(b)| over L |a - b|",
    "the same along the top eigenvector of X^T X",
    "the same along the bottom one",
)
SLACK, LOW = "slack of strong convexity with lambda_min", "slack of strong convexity with lambda_max"
LEAST = "least v^T H v over mu |v|^2"
CONDITION = "L over mu"
SHARE = 0.3
"""gamma of Definition 8.18."""


def says_constants(settings: Prompts) -> Sequence[Statement]:
    """L = lambda_max, mu = lambda_min of X^T X; kappa is their ratio, the square of that of singular values."""
    ones = np.ones(PROMPTS)
    ratio = []
    for p in settings:
        singular = np.linalg.svd(p.x, compute_uv=False)
        ratio.append((singular[0] / singular[-1]) ** 2)
    several = np.array([len(p.theta) > 1 for p in settings])
    ratio = np.array(ratio)
    return (
        at_most(
            LIPSCHITZ,
            POSITIVE,
            ones,
            "Lemma 8.20",
            margin=EXACT,
            axis="prompt",
            rival=control("the same with lambda_min for L"),
            rival_says="lambda_min",
        ),
        equal(
            TOP,
            POSITIVE,
            ones,
            "Lemma 8.20: L is the least such constant",
            margin=EXACT,
            axis="prompt",
            rival=control(BOTTOM),
            rival_says="the bottom eigenvector",
        ),
        at_least(
            SLACK,
            REAL,
            0 * ones,
            "Lemma 8.22",
            margin=EXACT,
            axis="prompt",
            rival=control(LOW),
            rival_says="lambda_max for mu",
        ),
        at_least(
            LEAST,
            POSITIVE,
            ones,
            "Lemma 8.21",
            margin=EXACT,
            axis="prompt",
            rival=control("least v^T H v over L |v|^2"),
            rival_says="lambda_max for mu",
        ),
        equal(
            CONDITION,
            POSITIVE,
            ratio,
            "Definition 8.12",
            margin=1e-7 * ratio,
            axis="prompt",
            rival=np.where(several, np.sqrt(ratio), 2.0),
            rival_says="the condition number of X",
        ),
    )


def sees_constants(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """Gradients by differentiation, L by the library."""
    found: dict[str, list[float]] = {n: [] for n in (LIPSCHITZ, TOP, BOTTOM, SLACK, LOW, LEAST, CONDITION)}
    low, high = [], []
    for i, p in enumerate(settings):
        a, b = points_of(p, i)
        large = float(smoothness(tensor(p.x))[0])
        values, vectors = np.linalg.eigh(p.gram)
        small = float(values[0])

        def change(step: Array, a: Array = a, p: Prompt = p) -> float:
            return float(np.linalg.norm(slope(p, a + step) - slope(p, a)) / np.linalg.norm(step))

        found[LIPSCHITZ].append(change(b - a) / large)
        low.append(change(b - a) / small if len(values) > 1 else 2.0)
        found[TOP].append(change(vectors[:, -1]) / large)
        found[BOTTOM].append(change(vectors[:, 0]) / large)
        values_at = [float(loss(p, torch.from_numpy(t))) for t in (a, b, SHARE * a + (1 - SHARE) * b)]
        over = SHARE * values_at[0] + (1 - SHARE) * values_at[1] - values_at[2]
        square = SHARE * (1 - SHARE) / 2 * float(np.square(a - b).sum())
        found[SLACK].append((over - small * square) / (1 + abs(over)))
        found[LOW].append((over - 1.001 * large * square) / (1 + abs(over)))
        v = a / np.linalg.norm(a)
        found[LEAST].append(float(v @ p.gram @ v) / small)
        high.append(float(v @ p.gram @ v) / large if len(values) > 1 else 0.0)
        found[CONDITION].append(large / small)
    return {
        **{k: np.array(v) for k, v in found.items()},
        "the same with lambda_min for L": np.array(low),
        "least v^T H v over L |v|^2": np.array(high),
    }


# descent -------------------------------------------------------------------------------------------------------------

LOOPS = (1, 3, 10, 40)
STEPS = (0.2, 0.7, 1.0)
SQUARES, LOGISTIC, LONG = (
    "|theta_t - theta*|^2 over (1 - eta mu)^t |theta_0 - theta*|^2, least squares",
    "the same, ridge-logistic loss",
    "the same, least squares with steps of 2.2/L",
)
TWICE = "|theta_t - theta*|^2 over (1 - eta mu)^(2 t) |theta_0 - theta*|^2, least squares"
DECAY, SHARP = "|theta_T - theta*|^2 over exp(-T/kappa) |theta_0 - theta*|^2", "log of it along the bottom eigenvector"
ELEMENTARY, OTHER = "(1 - 1/n)^T exp(T/n)", "(1 - 1/n)^T exp(T/(n - 0.7))"


def says_descent(settings: Prompts) -> Sequence[Statement]:
    """(1 - eta mu)^t for steps of at most 1/L, and exp(-T/kappa) with 1/L; for least squares the square of both."""
    numbers = len(LOOPS) * len(STEPS) * PROMPTS
    exact = [2 * t * math.log(1 - 1 / k) + t / k for k in kappas(settings) for t in LOOPS]
    return (
        at_most(
            SQUARES,
            POSITIVE,
            np.ones(numbers),
            "Lemma 8.23",
            margin=EXACT,
            axis="prompt, step and t",
            rival=control(LONG),
            rival_says="steps beyond 1/L",
        ),
        at_most(
            LOGISTIC,
            POSITIVE,
            np.ones(len(LOOPS) * len(STEPS)),
            "Lemma 8.23: any such loss",
            margin=EXACT,
            axis="step and t",
            trivial=control("the same of a theta that stays"),
            trivial_says="a theta that stays where it starts",
        ),
        at_most(
            TWICE,
            POSITIVE,
            np.ones(numbers),
            "theta_t - theta* = (I - eta H)^t (theta_0 - theta*)",
            margin=1e-6,
            axis="prompt, step and t",
            rival=control(LONG),
            rival_says="steps beyond 1/L",
            form="derived",
        ),
        at_most(
            DECAY,
            POSITIVE,
            np.ones(len(LOOPS) * PROMPTS),
            "Theorem 8.25",
            margin=EXACT,
            axis="prompt and T",
            rival=control("the same with steps of 2.2/L"),
            rival_says="steps beyond 1/L",
        ),
        equal(
            SHARP,
            REAL,
            np.array(exact),
            "theta_T - theta* = (1 - 1/kappa)^T (theta_0 - theta*) there: the theorem's exponent could be doubled",
            margin=1e-6,
            axis="prompt and T",
            rival=0.0,
            rival_says="the bound itself",
            form="derived",
        ),
        at_most(
            ELEMENTARY,
            POSITIVE,
            1.0,
            "Fact 8.24, of real n >= 1 as it is used",
            margin=1e-12,
            axis="n and T",
            rival=control(OTHER),
            rival_says="exp(-T/(n - 0.7))",
        ),
    )


def kappas(settings: Prompts) -> list[float]:
    """Condition numbers of prompts with more than one feature."""
    return [float(p.spectrum[-1] / p.spectrum[0]) for p in settings if len(p.theta) > 1]


def looped(x: Array, theta: Array, step: float, loops: int) -> Array:
    """theta_0, ..., theta_t by the looped transformer on y = X theta, with a step in units of 1/L."""
    net = gradient_descent_weights(len(theta), dtype=torch.float64)
    rates = torch.full((1, loops), step / float(smoothness(tensor(x))[0]), dtype=torch.float64)
    one = torch.ones(1, dtype=torch.float64)
    return net.loops(prompt_matrix(tensor(x), tensor(x @ theta), one), rates)[:, 0].numpy()


def ratios(p: Prompt, step: float, power: int) -> list[float]:
    """Squared error over (1 - eta mu)^(power t) at LOOPS; a floor of float64 is taken off."""
    away = np.square(looped(p.x, p.theta, step, max(LOOPS)) - p.theta).sum(1)
    eta_mu = min(step, 1.0) * p.spectrum[0] / p.spectrum[-1]
    return [max(away[t] - 1e-26, 0.0) / max((1 - eta_mu) ** (power * t), 1e-280) for t in LOOPS]


def logistic_path(key: Key, step: float) -> tuple[list[float], list[float]]:
    """The same ratio, and that of a theta that stays, on sum log(1 + exp(-y x theta)) + 0.5 |theta|^2.

    mu = 1 and L = 1 + lambda_max / 4 for sure.
    """
    g = key.numpy()
    x, y = g.normal(size=(40, 5)), g.choice([-1.0, 1.0], 40)
    large = 1 + float(np.linalg.eigvalsh(x.T @ x)[-1]) / 4

    def gradient(theta: Array) -> Array:
        return theta - x.T @ (y / (1 + np.exp(y * (x @ theta))))

    best = np.zeros(5)
    for _ in range(4000):
        best = best - gradient(best) / large
    path = [g.normal(size=5)]
    for _ in range(max(LOOPS)):
        path.append(path[-1] - step / large * gradient(path[-1]))
    away = [float(np.square(t - best).sum()) for t in path]
    bounds = [(1 - step / large) ** t for t in LOOPS]
    return [away[t] / away[0] / b for t, b in zip(LOOPS, bounds, strict=True)], [1 / b for b in bounds]


def sees_descent(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """By the looped transformer with alpha = 1, whose q is minus theta_t."""
    found: dict[str, list[float]] = {name: [] for name in (SQUARES, TWICE, LONG, DECAY, SHARP)}
    beyond = []
    for p in settings:
        for step in STEPS:
            found[SQUARES] += ratios(p, step, 1)
            found[TWICE] += ratios(p, step, 2)
            found[LONG] += ratios(p, 2.2, 1)
        kappa = p.spectrum[-1] / p.spectrum[0]
        for step, into in ((1.0, found[DECAY]), (2.2, beyond)):
            away = np.square(looped(p.x, p.theta, step, max(LOOPS)) - p.theta).sum(1)
            into += [float(max(away[t] - 1e-26, 0.0) * np.exp(t / kappa)) for t in LOOPS]
        if len(p.theta) > 1:
            bottom = np.linalg.eigh(p.gram)[1][:, 0]
            away = np.square(looped(p.x, bottom, 1.0, max(LOOPS)) - bottom).sum(1)
            found[SHARP] += [float(np.log(away[t]) + t / kappa) for t in LOOPS]
    logistic = [logistic_path(key / i, s) for i, s in enumerate(STEPS)]
    n, t = np.meshgrid(np.geomspace(1, 1000, 60), np.arange(1, 201))
    return {
        **{k: np.array(v) for k, v in found.items()},
        "the same with steps of 2.2/L": np.array(beyond),
        LOGISTIC: joined([np.array(moved) for moved, _ in logistic]),
        "the same of a theta that stays": joined([np.array(still) for _, still in logistic]),
        ELEMENTARY: ((1 - 1 / n) ** t * np.exp(t / n)).ravel(),
        OTHER: ((1 - 1 / n) ** t * np.exp(t / (n - 0.7))).ravel(),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="looped.least_squares",
        entries=("looped.definition8_9",),
        says="The gradient of |y - X theta|^2 / 2 is X^T X theta - X^T y, 0 at (X^T X)^-1 X^T y.",
        settings=draw_any,
        statements=says_gradient,
        observe=sees_gradient,
    ),
    Claim(
        id="looped.lemma8_11",
        entries=("looped.lemma8_11",),
        says="Without noise the least-squares solution is theta*.",
        settings=draw_linear,
        statements=says_solution,
        observe=sees_solution,
        remarks="The lemma names n > d; the sentence before it assumes X^T X invertible ('inevitable' in our copy),"
        " which is what it needs, and n = d would do.",
    ),
    Claim(
        id="looped.constants",
        entries=("looped.lemma8_20", "looped.lemma8_22", "looped.definition8_18", "looped.definition8_12"),
        says="The gradient is L-Lipschitz and the loss mu-strongly convex, L and mu the extreme eigenvalues of X^T X;"
        " kappa = L/mu.",
        settings=draw_any,
        statements=says_constants,
        observe=sees_constants,
        remarks="Definition 8.18 speaks of t and writes gamma. The first inequality in the proof of Lemma 8.22 is an"
        " equality.",
    ),
    Claim(
        id="looped.theorem8_25",
        entries=("looped.theorem8_25", "looped.lemma8_23", "looped.fact8_24"),
        says="T steps of 1/L shrink the squared distance to theta* by exp(-T/kappa).",
        settings=draw_linear,
        statements=says_descent,
        observe=sees_descent,
        remarks="For least squares the squared distance falls as (1 - 1/kappa)^(2 T), twice the exponent.",
    ),
)
