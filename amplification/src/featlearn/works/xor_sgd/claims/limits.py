"""What no rotation-invariant learner can do, and what the work says that its techniques cannot."""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from featlearn.core import Key
from featlearn.kernels import kernel_ridge, ntk, polynomial, rbf
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COUNT, POSITIVE, SHARE
from featlearn.lab.statement import (
    Statement,
    at_least,
    at_most,
    control,
    equal,
    exponent,
)
from featlearn.lab.uncertainty import Estimate, Observation, mean_of, slope
from featlearn.learn.fit import fit
from featlearn.learn.schedules import Stage
from featlearn.nets.initial import mean_field_rates, sphere_init
from featlearn.nets.two_layer import TwoLayer, gradients
from featlearn.tasks.boolean_xor import BooleanXor
from featlearn.works.xor_sgd.setup import TAU1, Array, cube

SOURCE = "Proposition F.1"
FLOOR = 0.03
"""The error of Proposition F.1."""


def few(d: int) -> int:
    """The largest n of Proposition F.1."""
    return math.floor(d / math.log(d) ** 2)


# Proposition F.1, learners at a large d ------------------------------------------------------------------------------


@dataclass(frozen=True)
class LowerBound:
    """d: dimension of the learners that are trained; draws: of each, quick_draws of the one that is quick.

    small: (d, n) at which the best learner of all is enumerated, with n <= d / log^2 d. ample: with far more samples.
    """

    d: int = 2048
    draws: int = 8
    quick_draws: int = 240
    small: tuple[tuple[int, int], ...] = ((3, 1), (3, 2), (4, 1), (4, 2), (5, 1), (6, 1), (7, 1), (8, 1))
    ample: tuple[int, int] = (3, 6)

    @property
    def n(self) -> int:
        """Samples."""
        return few(self.d)


KERNELS = {
    "NTK": ntk,
    "Gaussian kernel": lambda u, v: rbf(u, v, bandwidth=u.shape[1] ** 0.5),
    "quadratic kernel": lambda u, v: polynomial(u, v, degree=2),
}


def kernel_scores(name: str, x: torch.Tensor, y: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Scores at `new` of a ridge regressor on x."""
    return kernel_ridge(KERNELS[name], x, y, penalty=1e-6 * x.shape[1])(new)[:, 0]


def network_scores(x: torch.Tensor, y: torch.Tensor, new: torch.Tensor, key: Key) -> torch.Tensor:
    """Of a two-layer network whose start is rotation-invariant in law, after 50 steps on these samples."""
    net = sphere_init(64, x.shape[1], key, theta=0.1)
    rate_w, rate_a = mean_field_rates(0.1, 64)
    stage = Stage(steps=50, rate_w=rate_w, rate_a=rate_a)
    return fit(net, x, y, [stage], key / "batches", loss="logistic").net(new)[:, 0]


def axes_scores(x: torch.Tensor, y: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Of the learner that knows the axes: minus the product of the pair that agrees best with all labels."""
    at = int(((x * y[:, None]).T @ x).flatten().argmin())
    return -new[:, at // x.shape[1]] * new[:, at % x.shape[1]]


def drawn_task(d: int, n: int, new: int, key: Key) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """n samples and their labels, new inputs and theirs, with a random pair of coordinates."""
    i, j = (key / "pair").numpy().choice(d, 2, replace=False)
    task = BooleanXor(d, pair=(int(i), int(j)))
    batch = task.sample(task.draw(key), n + new, key / "data")
    return batch.x[:n], batch.y[:n], batch.x[n:], batch.y[n:]


def trained_errors(plan: LowerBound, key: Key) -> dict[str, Estimate]:
    """Share of wrong labels, draw by draw; the learner that knows the axes is quick and has more draws."""
    wrong: dict[str, list[float]] = {name: [] for name in (*KERNELS, "network", "axes")}

    def note(scores: dict[str, torch.Tensor], truth: torch.Tensor) -> None:
        for name, s in scores.items():
            wrong[name].append(float((s * truth <= 0).double().mean()))

    for t in range(plan.draws):
        x, y, new, truth = drawn_task(plan.d, plan.n, 2500, key / t)
        note({name: kernel_scores(name, x, y, new) for name in KERNELS}, truth)
        note({"network": network_scores(x, y, new, key / t / "net")}, truth)
    for t in range(plan.quick_draws):
        x, y, new, truth = drawn_task(plan.d, plan.n, 10, key / "quick" / t)
        note({"axes": axes_scores(x, y, new)}, truth)
    return {name: mean_of(v, SHARE, "draw") for name, v in wrong.items()}


# The best learner of all, and cells of the cube ----------------------------------------------------------------------


def best_error(d: int, n: int) -> float:
    """Error of the best rotation-invariant learner from n samples, over all inputs, samples and pairs.

    Such a learner sees the inner products of the n + 1 inputs and the n labels alone, so the best one takes the more
    frequent label of each such record. x is fixed to ones, as signs of coordinates carry any x there: then y(x_k) y(x)
    is the product of the pair at x_k, and y(x) is a fair coin.
    """
    x = cube(d)
    samples = [x[i] for i in np.indices((len(x),) * n).reshape(n, -1)]
    record = np.zeros(len(samples[0]), dtype=np.int64)
    for u, v in combinations([x[:1], *samples], 2):
        record = record * (d + 1) + ((u * v).sum(1).astype(np.int64) + d) // 2
    keys = []
    for i, j in combinations(range(d), 2):
        agree = sum(2**k * (s[:, i] * s[:, j] > 0).astype(np.int64) for k, s in enumerate(samples))
        keys.append((record * 2**n + agree, record * 2**n + 2**n - 1 - agree))
    states = np.concatenate([np.concatenate(pair) for pair in zip(*keys, strict=True)])
    _, group = np.unique(states, return_inverse=True)
    ones = np.bincount(group, np.arange(len(states)) < len(states) // 2)
    return float(np.minimum(ones, np.bincount(group) - ones).sum() / len(states))


def pairs_in_doubt(points: Array) -> float:
    """Share of pairs whose label no distribution guesses on these points with an error below 0.15."""
    mean = points.T @ points / len(points)
    least = (1 - np.abs(mean[np.triu_indices(points.shape[1], 1)])) / 2
    return float((least >= 0.15 - 1e-12).mean())


def cells_of(points: Array, samples: Array) -> Array:
    """Number of the cell of each point: its products with all samples."""
    return np.unique(points @ samples.T, axis=0, return_inverse=True)[1]


def large_cells(key: Key) -> list[Array]:
    """Sets of at least 2^(d/2) points in d = 12: cells of one and two samples, a ball, and a subcube."""
    x, rng = cube(12), key.numpy()
    found = [x[x.sum(1) >= 8], x[(x[:, :6] > 0).all(1)]]
    for n in (1, 2):
        cell = cells_of(x, rng.choice([-1.0, 1.0], (n, 12)))
        found += [x[cell == c] for c in range(cell.max() + 1) if (cell == c).sum() >= 2**6]
    return found


# Proposition F.1: both halves ----------------------------------------------------------------------------------------


def overlap(d: int) -> tuple[Array, Array]:
    """Inner products of two inputs and their probabilities."""
    h = np.arange(d + 1)
    return d - 2.0 * h, np.array([math.comb(d, int(v)) for v in h]) / 2.0**d


@dataclass(frozen=True)
class Drawn:
    """plan, and samples (n, 10) of which the cells are counted: five sets for each n of 1, 2, 3."""

    plan: LowerBound
    samples: tuple[Array, ...]


def draw_lower_bound(key: Key) -> Drawn:
    """The plan, and random samples."""
    rng = key.numpy()
    return Drawn(LowerBound(), tuple(rng.choice([-1.0, 1.0], (n, 10)) for n in (1, 2, 3) for _ in range(5)))


def one_sample(d: int, replace: bool) -> float:
    """Error of the best learner with one sample at inner product s: (1 - |E u_i u_j|) / 2 over pairs, E over s.

    E u_i u_j = (s^2 - d) / (d (d - 1)) for i, j without replacement; with it, s^2 / d^2.
    """
    s, weight = overlap(d)
    mean = s**2 / d**2 if replace else (s**2 - d) / (d * (d - 1))
    return float(weight @ (1 - np.abs(mean))) / 2


def lower_statements(drawn: Drawn) -> tuple[Statement, ...]:
    """The bound, at a large d and for the best of all learners; Claim F.2; and the count of cells."""
    singles = [d for d, n in drawn.plan.small if n == 1]
    doubles = [s for s in drawn.samples if len(s) == 2]
    same = np.array([int((s[0] == s[1]).sum()) for s in doubles])
    return (
        at_least(
            "error of invariant learners",
            SHARE,
            FLOOR,
            SOURCE,
            axis="learner",
            rival=control("error of a learner that knows the axes"),
            rival_says="a learner that is not invariant, at the same d and n",
        ),
        at_least(
            "error of the best invariant learner",
            SHARE,
            FLOOR,
            SOURCE,
            axis="d, n",
            rival=control("error of the best invariant learner, many samples"),
            rival_says="six samples at d = 3: n is not small against d",
        ),
        equal(
            "error of the best invariant learner, one sample",
            SHARE,
            np.array([one_sample(d, replace=False) for d in singles]),
            "Proposition F.1 at n = 1, where the cells of its proof are spheres: (1 - E|s^2 - d|/(d (d - 1)))/2",
            axis="d",
            margin=1e-12,
            rival=np.array([one_sample(d, replace=True) for d in singles]),
            rival_says="i and j drawn with replacement",
            form="derived",
        ),
        at_least(
            "share of pairs with an error of 0.15 at least",
            SHARE,
            0.25,
            "Claim F.2 with c = 1/2: sets of at least 2^(d/2) points",
            axis="set of points",
            rival=control("share of pairs with an error of 0.15 at least, two points"),
            rival_says="two points that differ in one coordinate",
            form="criterion",
        ),
        at_most(
            "cells",
            COUNT,
            np.array([11.0 ** len(s) for s in drawn.samples]),
            "Proposition F.1, end of its proof: K <= (d + 1)^n",
            axis="samples",
        ),
        equal(
            "cells of two samples",
            COUNT,
            (same + 1.0) * (11.0 - same),
            "the two products are those with the coordinates where the samples agree, k of them, and differ",
            axis="samples",
            rival=121.0,
            rival_says="(d + 1)^2, all pairs of products",
            form="derived",
        ),
    )


def lower_observe(drawn: Drawn, key: Key) -> dict[str, Observation]:
    """Trained learners, and enumeration."""
    plan, x = drawn.plan, cube(10)
    wrong = trained_errors(plan, key / "trained")
    best = np.array([best_error(d, n) for d, n in plan.small])
    count = np.array([cells_of(x, s).max() + 1.0 for s in drawn.samples])
    return {
        "error of invariant learners": [wrong[name] for name in (*KERNELS, "network")],
        "error of a learner that knows the axes": wrong["axes"],
        "error of the best invariant learner": best,
        "error of the best invariant learner, one sample": best[[n == 1 for _, n in plan.small]],
        "error of the best invariant learner, many samples": best_error(*plan.ample),
        "share of pairs with an error of 0.15 at least": np.array([pairs_in_doubt(q) for q in large_cells(key)]),
        "share of pairs with an error of 0.15 at least, two points": pairs_in_doubt(cube(12)[:2]),
        "cells": count,
        "cells of two samples": count[[len(s) == 2 for s in drawn.samples]],
    }


def turned(scores: Any, key: Key) -> float:
    """Largest change of scores when all inputs are rotated, as a share of the largest score."""
    task = BooleanXor(32)
    batch = task.sample(task.draw(key), 60, key / "data")
    x, y = batch.x.double(), batch.y.double()
    rotation = torch.linalg.qr(torch.randn(32, 32, generator=key.torch(), dtype=torch.float64))[0]
    before, after = (scores(v[:20], y[:20], v[20:]) for v in (x, x @ rotation))
    return float((before - after).abs().max() / before.abs().max())


def lower_premises(drawn: Drawn) -> tuple[Premise, ...]:
    """n, invariance, and the size of d that the proof leaves open."""
    moved = max(turned(lambda *v, name=name: kernel_scores(name, *v), Key("rotation")) for name in KERNELS)
    sizes = (*drawn.plan.small, (drawn.plan.d, drawn.plan.n))
    return (
        Premise("n <= d / log^2 d", all(n <= d / math.log(d) ** 2 for d, n in sizes)),
        Premise(
            "rotation-invariant learners",
            moved < 1e-6 < turned(axes_scores, Key("rotation")),
            "scores of the kernels stay when all inputs are rotated, those of the learner that knows the axes change; "
            "the start of the network is invariant in law",
        ),
        Premise(
            "d so large that 0.0375 (1 - o(1)) >= 0.03 in the last step of the proof",
            None,
            "the constant c of Claim F.2 is not given; at d = 2 there is one pair, and one sample tells all labels",
        ),
    )


# Section 5 -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Uniform:
    """d, and what gradients are compared on: independent draws of random neurons and of minibatches of samples."""

    d: tuple[int, ...] = (32, 64, 128, 256)
    draws: int = 6
    neurons: int = 500
    samples: int = 1000


def limits_statements(plan: Uniform) -> tuple[Statement, ...]:
    """n at which E||empirical - population gradient||^2 = ||signal||^2: (d/2) / (2 tau_1^2 / d) = (pi/2) d^2."""
    return (
        exponent(
            "exponent of the samples that resolve the whole gradient",
            "at least",
            2.0,
            "Section 5: uniform convergence of the empirical gradient to the population gradient is Omega(d^2) samples",
            margin=0.1,
            rival=1.0,
            rival_says="linear growth, as the samples that minibatch SGD needs",
        ),
        equal(
            "those samples over d^2",
            POSITIVE,
            1 / (4 * TAU1**2),
            "at a random neuron the error is d/(2 n) and the signal 2 tau_1^2/d by Eq. (4.3), w_sig and w_opp "
            "together: (pi/2) d^2",
            axis="d",
            margin=0.2,
            rival=1 / (2 * TAU1**2),
            rival_says="the signal of one of the two alone: pi",
            form="derived",
        ),
    )


def start_gradient(net: TwoLayer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """E[-y 1(w.x > 0) x], the gradient at the start (l' = -y) of neurons with a = 1, over these samples: (e, m, d)."""
    return gradients(net, x, net(x).T + y, loss="squared").w.double() / net.a[..., None]


def resolving_samples(plan: Uniform, d: int, key: Key) -> float:
    """Samples at which the squared error of a gradient equals its squared part in the plane of the signal.

    The error of one sample is N E||g - g'||^2 / 2, g and g' from N samples each, other samples for every neuron. The
    signal is E<P g, P g'> over large minibatches, in which each sample comes with its mirror image -x, of the same
    label. Both are means over random neurons of length 1.
    """
    task, net = BooleanXor(d), sphere_init(plan.neurons, d, key / "net", theta=1.0)
    truth, few_samples = task.draw(key), 8
    lone = TwoLayer(net.w[0][:, None], net.b[0][:, None], net.a[0][:, None], "relu")
    own = task.sample(truth, 2 * few_samples * plan.neurons, key / "own")
    x, y = own.x.reshape(2, plan.neurons, few_samples, d), own.y.reshape(2, plan.neurons, few_samples)
    apart = start_gradient(lone, x[0], y[0]) - start_gradient(lone, x[1], y[1])
    shared = [task.sample(truth, plan.samples, key / half) for half in (0, 1)]
    plane = [start_gradient(net, torch.cat([b.x, -b.x]), b.y.repeat(2))[0, :, :2] for b in shared]
    error = few_samples * float(apart.square().sum(2).mean()) / 2
    return error / float((plane[0] * plane[1]).sum(1).mean())


def limits_observe(plan: Uniform, key: Key) -> dict[str, Observation]:
    """Draws at every d; the exponent by least squares on logarithms."""
    needed = {d: [resolving_samples(plan, d, key / d / t) for t in range(plan.draws)] for d in plan.d}
    log_d = np.repeat(np.log(plan.d), plan.draws)
    return {
        "exponent of the samples that resolve the whole gradient": slope(
            log_d, np.log(np.concatenate([needed[d] for d in plan.d])), "draw"
        ),
        "those samples over d^2": [mean_of(np.array(needed[d]) / d**2, POSITIVE, "draw") for d in plan.d],
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.lower_bound_F1",
        entries=("xor_sgd.lower_bound_F1",),
        says="A rotationally invariant learner with n <= d/log^2 d samples errs on 3 % at least, averaged over pairs.",
        settings=draw_lower_bound,
        statements=lower_statements,
        observe=lower_observe,
        premises=lower_premises,
        remarks="The bound is loose: the best invariant learner of all, by enumeration, errs far more often where n <= "
        "d / log^2 d. What breaks it is a learner that knows the axes (log d samples are enough) or many samples.",
    ),
    Claim(
        id="xor_sgd.discussion_limits",
        entries=("xor_sgd.discussion_limits",),
        says="Uniform convergence of the empirical gradient needs about d^2 samples, so it cannot prove d polylog(d).",
        settings=Uniform(),
        statements=limits_statements,
        observe=limits_observe,
        remarks="Phase 1 needs the signal alone to be resolved, not the whole gradient, and gets by with about d. "
        "Batch 1, Gaussian inputs, squared loss and a fixed set: experiment xor_sgd/limits.",
    ),
)
