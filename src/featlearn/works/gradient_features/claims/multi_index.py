"""Polynomials of a few directions: B.66 to B.69."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from featlearn.core import Batch, Key, Truth
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import EXPONENT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation, mean_of, slope
from featlearn.learn.framework import forgetful_step, multi_index, residual
from featlearn.nets import TwoLayer, symmetric_init
from featlearn.tasks import MultiIndex
from featlearn.works.gradient_features.setup import over_groups

TASKS = (MultiIndex(d=6), MultiIndex(d=6, terms=((1, 1, 0), (0, 0, 2), (3, 0, 0)), coefficients=(1.0, 2.0, 0.5)))


def says_definition(settings: tuple[Truth, ...]) -> Sequence[Statement]:
    """Stein's identity, the norm, and kappa."""
    H = np.concatenate([t.hessian.double().numpy().ravel() for t in settings])  # pyright: ignore[reportAttributeAccessIssue]
    return (
        equal(
            "E[g*(x) (x x^T - I)]",
            REAL,
            H,
            "Definition B.67: H = E Hess g*, by Stein",
            margin=0.12,
            axis="task, entry",
            rival=H / 2,
            rival_says="half of it",
        ),
        equal("E g*^2", POSITIVE, np.ones(2), "Assumption B.66", margin=0.08, rival=np.full(2, 2.0), rival_says="2"),
        equal(
            "kappa of (z_1^2 - z_2^2)/2",
            POSITIVE,
            math.sqrt(0.5),
            "Definition B.67: ||H^+||/sqrt r",
            margin=1e-6,
            rival=1.0,
            rival_says="without the root of r",
        ),
    )


def sees_definition(settings: tuple[Truth, ...], key: Key) -> Mapping[str, Observation]:
    """200 000 samples of either task."""
    stein, second, eye = [], [], np.eye(6)
    for i, (task, truth) in enumerate(zip(TASKS, settings, strict=True)):
        batch = task.sample(truth, 200_000, key / i)  # pyright: ignore[reportArgumentType]
        x, y = batch.x.double().numpy(), batch.y.double().numpy()
        parts = zip(np.array_split(x, 20), np.array_split(y, 20), strict=True)
        groups = np.array([((u * v[:, None]).T @ u / len(v) - v.mean() * eye).ravel() for u, v in parts])
        stein += over_groups(groups, 20, REAL)
        second += over_groups(y**2, 20, POSITIVE)
    return {"E[g*(x) (x x^T - I)]": stein, "E g*^2": second, "kappa of (z_1^2 - z_2^2)/2": MultiIndex(d=6).kappa}


LINEAR = MultiIndex(d=6, terms=((2, 0), (0, 1), (0, 0)), coefficients=(1.0, 1.0, 1.0))


def draw_linear(key: Key) -> tuple[Batch, Batch]:
    """Training and test samples of a polynomial with a mean and a linear part."""
    truth = LINEAR.draw(key / "truth")
    return LINEAR.sample(truth, 6000, key / "train"), LINEAR.sample(truth, 3000, key / "test")


def says_residual(settings: tuple[Batch, Batch]) -> Sequence[Statement]:
    """What is taken off, and what is left."""
    x, y = settings[0].x.double().numpy(), settings[0].y.double().numpy()
    rho, beta = y.mean(), (x * y[:, None]).mean(0)
    left = y - rho - x @ beta
    plain = y - x @ np.linalg.lstsq(x, y, rcond=None)[0]
    return (
        equal(
            "the target of step one",
            REAL,
            left,
            "Algorithm 7: y - rho - <beta, x>",
            margin=1e-4,
            axis="sample",
            rival=plain,
            rival_says="the residual of a least-squares fit",
        ),
        equal(
            "mean of the residual and its correlations with x",
            REAL,
            np.zeros(7),
            "Algorithm 7 in words",
            margin=0.1,
            rival=np.array([rho, *beta]),
            rival_says="those of y itself",
            form="criterion",
        ),
        equal(
            "mean square of the biases after step one",
            POSITIVE,
            1.0,
            "Algorithm 7: re-drawn from N(0, 1)",
            margin=0.4,  # three and a half standard errors of 160
            rival=0.0,
            rival_says="those of the start",
        ),
        at_most(
            "test error with the linear part added back",
            POSITIVE,
            0.25,
            "Algorithm 7: a predictor of y",
            rival=control("the same without it"),
            rival_says="the linear part left off",
            form="criterion",
        ),
    )


def sees_residual(settings: tuple[Batch, Batch], key: Key) -> Mapping[str, Observation]:
    """The engine's Algorithm 7."""
    train, test = settings
    left, _, _ = residual(train.x.double(), train.y.double())
    net = symmetric_init(40, 6, key / "net", sigma_w=6**-0.5, sigma_a=0.1, bias=1e-6)
    found, run = multi_index(net, train.x, train.y, eta_1=30.0, steps=150, key=key)
    error = lambda g: float((g(test.x)[:, 0] - test.y).square().mean())  # noqa: E731
    return {
        "the target of step one": left.numpy(),
        "mean of the residual and its correlations with x": np.r_[
            float(left.mean()), (left[:, None] * train.x.double()).mean(0).numpy()
        ],
        "mean square of the biases after step one": mean_of(run.net.b[0].square().numpy(), POSITIVE, "neuron"),
        "test error with the linear part added back": error(found),
        "the same without it": error(run.net),
    }


# Lemma B.68 and Theorem B.69 -----------------------------------------------------------------------------------------

D, N, M = 50, 50_000, 400
WIDTHS, SEEDS = (128, 512, 2048), 3


def one_step(task: MultiIndex, n: int, m: int, key: Key) -> tuple[Truth, Batch, torch.Tensor, TwoLayer, TwoLayer]:
    """Truth, sample, residual, and the network before and after the step of Algorithm 7, with new biases."""
    truth = task.draw(key / "truth")
    batch = task.sample(truth, n, key / "train")
    net = symmetric_init(m // 4, task.d, key / "net", sigma_w=task.d**-0.5, sigma_a=1.0, bias=1e-9)
    left, _, _ = residual(batch.x, batch.y)
    moved = forgetful_step(net, batch.x, left, math.sqrt(task.d), second=False, loss="squared")
    return truth, batch, left, net, replace(moved, b=torch.randn(moved.b.shape, generator=(key / "b").torch()))


def energy(w: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Share of ||w_i||^2 in the span of the directions."""
    return (w @ features.T).square().sum(1) / w.square().sum(1)


def ridge(net: TwoLayer, train: tuple[torch.Tensor, torch.Tensor], test: Batch) -> float:
    """Test error of the best ridge fit on unit-norm neurons, penalty by a held-out fifth of the training sample."""
    unit = net.w[0] / net.w[0].norm(dim=1, keepdim=True)
    f = lambda x: torch.relu(x @ unit.T + net.b[0]).double()  # noqa: E731
    x, y, found = f(train[0]), train[1].double(), []
    cut = len(x) * 4 // 5
    values, basis = torch.linalg.eigh(x[:cut].T @ x[:cut] / cut)
    right = basis.T @ (x[:cut].T @ y[:cut]) / cut
    for penalty in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        a = basis @ (right / (values + penalty))
        found.append((float((x[cut:] @ a - y[cut:]).square().mean()), a))
    a = min(found, key=lambda v: v[0])[1]
    return float((f(test.x) @ a - test.y.double()).square().mean())


def says_features(settings: None) -> Sequence[Statement]:
    """Directions, and the fit."""
    return (
        at_least(
            "share of ||w^(1)||^2 in span(u_1, u_2)",
            SHARE,
            0.8,
            "work.toml, lemma_b68: check",
            form="criterion",
            rival=control("the same before the step"),
            rival_says="the start, 2/50 on average",
        ),
        at_most(
            "test error of the best second layer",
            POSITIVE,
            0.1,
            "work.toml, lemma_b68: check",
            form="criterion",
            rival=control("the same on the first layer of the start"),
            rival_says="random features",
        ),
        at_least(
            "test error of the best second layer on random features",
            POSITIVE,
            0.5,
            "work.toml, lemma_b68: check",
            of="the same on the first layer of the start",
            rival=control("test error of the best second layer"),
            rival_says="features after one step",
            form="criterion",
        ),
    )


def sees_features(settings: None, key: Key) -> Mapping[str, Observation]:
    """d = 50, n = 50 000, 400 neurons."""
    task = MultiIndex(d=D)
    truth, batch, left, net, moved = one_step(task, N, M, key)
    test, few = task.sample(truth, 4000, key / "test"), slice(0, 12_000)  # pyright: ignore[reportArgumentType]
    net = replace(net, b=moved.b)
    return {
        "share of ||w^(1)||^2 in span(u_1, u_2)": mean_of(energy(moved.w[0], truth.features).numpy(), SHARE, "neuron"),
        "the same before the step": mean_of(energy(net.w[0], truth.features).numpy(), SHARE, "neuron"),
        "test error of the best second layer": ridge(moved, (batch.x[few], left[few]), test),
        "the same on the first layer of the start": ridge(net, (batch.x[few], left[few]), test),
    }


def premises(settings: None) -> Sequence[Premise]:
    """Lemma B.68 with C_l = 1, at r = tau = 2 and kappa = 1/sqrt 2."""
    log = math.log(N * M * D)
    return (
        Premise("n >= d^2 r kappa^2 log(nmd)^(tau + 1)", D**2 * log**3 <= N, f"{N} against {D**2 * log**3:.1e}"),
        Premise("m >= r^tau kappa^(2 tau) log(nmd)^(6 tau + 1)", log**13 <= M, f"{M} against {log**13:.1e}"),
    )


def says_theorem(settings: None) -> Sequence[Statement]:
    """eta = Theta(1/m) is 1/L."""
    return (
        equal(
            "exponent in m of the smoothness L of the loss in a",
            EXPONENT,
            1.0,
            "Theorem B.69: eta = Theta(1/m) = 1/L",
            margin=0.1,
            rival=0.5,
            rival_says="1/sqrt m",
            form="derived",
        ),
    )


def sees_theorem(settings: None, key: Key) -> Mapping[str, Observation]:
    """The largest eigenvalue of the features of 500 samples, on unit-norm one-step features; a start is a unit."""
    x, y = [], []
    for m in WIDTHS:
        for seed in range(SEEDS):
            _, batch, _, _, moved = one_step(MultiIndex(d=20), 3000, m, key / m / seed)
            unit = moved.w[0] / moved.w[0].norm(dim=1, keepdim=True)
            f = torch.relu(batch.x[:500] @ unit.T + moved.b[0]).double()
            x.append(math.log(m))
            y.append(math.log(float(torch.linalg.eigvalsh(f @ f.T / len(f))[-1])))
    return {"exponent in m of the smoothness L of the loss in a": slope(x, y, "start")}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.definition_multi_index",
        entries=("gradient_features.definition_multi_index",),
        says="Polynomials of r directions with E g*^2 = 1 and mean Hessian H.",
        settings=lambda key: tuple(t.draw(key / i) for i, t in enumerate(TASKS)),
        statements=says_definition,
        observe=sees_definition,
    ),
    Claim(
        id="gradient_features.algorithm7",
        entries=("gradient_features.algorithm7",),
        says="Mean and linear part are taken off before the step; a network fitted to the residual predicts with both "
        "added back.",
        settings=draw_linear,
        statements=says_residual,
        observe=sees_residual,
        remarks="Which target the later steps use is not said; (B.569) has g*. With the residual as the target, as "
        "here, the linear part comes back in the predictor. Mean and correlation are of order 1/sqrt n, not 0: rho "
        "and beta are no least-squares fit.",
    ),
    Claim(
        id="gradient_features.lemma_b68",
        entries=("gradient_features.lemma_b68",),
        says="One step turns the first layer into the span of the directions; a second layer then fits.",
        statements=says_features,
        observe=sees_features,
        premises=premises,
        remarks="Log factors make the lemma's m and n astronomical.",
    ),
    Claim(
        id="gradient_features.theorem_b69",
        entries=("gradient_features.theorem_b69",),
        says="The step size 1/m of gradient descent on the second layer is one over the smoothness of the loss.",
        statements=says_theorem,
        observe=sees_theorem,
        remarks="The proof puts on ||a~||_2 what Lemma B.68 gives for its square, which leaves the number of steps as "
        "it is. The squared loss and real targets lie outside Assumption 3.1. Training is in theorem_b69_trained.",
    ),
)
