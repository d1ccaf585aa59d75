"""Learners that `kernels` sets beside each other: networks, kernels and random features on the same samples."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from featlearn.core import Batch, Key, Task
from featlearn.kernels import ntk, random_features, rbf
from featlearn.kernels.ridge import feature_ridge
from featlearn.learn import Stage, fit
from featlearn.learn.framework import forgetful_step
from featlearn.nets import TwoLayer, stack, symmetric_init
from featlearn.tasks import UniformParity
from featlearn.works.gradient_features.experiments.problems import block_parity, xor_mixture
from featlearn.works.gradient_features.rows_kernels import NETWORK, NTK, PARITY, RBF, XOR

Point = tuple[float, float]
"""What is chosen: (step size, when to stop), or (squared bandwidth over E||x||^2 or bias variance, penalty)."""


@dataclass(frozen=True)
class Trial:
    """One learner on one task, all sizes and seeds. level: sigma of the mixture or k of the parity."""

    kind: str
    d: int
    level: float
    learner: str
    shares: tuple[float, ...]
    sizes: tuple[int, ...]
    width: int
    steps: int
    first: tuple[float, ...]
    second: tuple[float, ...]
    n_test: int
    seeds: tuple[int, ...]
    validation_seeds: tuple[int, ...]


def task_of(trial: Trial) -> tuple[Task, float, float]:
    """The task, the typical norm of the noise in x, and the squared size of a feature in x."""
    k = int(trial.level)
    if trial.kind == XOR:
        return xor_mixture(trial.d, trial.level)
    return block_parity(trial.d, k) if trial.kind == PARITY else (UniformParity(trial.d, k), trial.d**0.5, float(k))


def norm_of(trial: Trial) -> float:
    """The typical norm of x."""
    return (trial.d * (1 + trial.level**2)) ** 0.5 if trial.kind == XOR else trial.d**0.5


def data(trial: Trial, seed: int) -> tuple[Batch, Batch]:
    """Training and test set of a seed: the same for every learner, smaller training sets being parts of it."""
    key = Key("gradient_features/kernels") / trial.kind / trial.d / f"{trial.level:.6g}" / seed
    task = task_of(trial)[0]
    truth = task.draw(key / "truth")
    return task.sample(truth, max(trial.sizes), key / "train"), task.sample(truth, trial.n_test, key / "test")


def start_of(trial: Trial, seed: int, x: Tensor, y: Tensor) -> TwoLayer:
    """The network after its first step: bias 1, sigma_w such that it is half a deviation of a pre-activation.

    eta_1 makes <w, feature> about 8 (3 on parities) for |a| = sigma_a and a full gradient, p_j ||mu_j|| or p_A sqrt k.
    """
    _, noise, scale = task_of(trial)
    key = Key("gradient_features/kernels/start") / trial.kind / trial.d / seed
    sigma_a = 3.0
    eta_1 = (8.0 if trial.kind == XOR else 3.0) * 4 / (scale * sigma_a)
    net = symmetric_init(trial.width, trial.d, key, sigma_w=2 / noise, sigma_a=sigma_a, bias=1.0)
    return forgetful_step(net, x, y, eta_1)


def network_errors(trial: Trial, seeds: Sequence[int], points: Sequence[Point]) -> Tensor:
    """Errors in percent (sizes, seeds, points) of networks that stop at the given times."""
    sets = [data(trial, seed) for seed in seeds]
    etas = sorted({eta for eta, _ in points})
    evaluations = [max(1, round(share * trial.steps)) for _, share in points]
    test_x = torch.stack([test.x for _, test in sets for _ in etas])
    test_y = torch.stack([test.y for _, test in sets for _ in etas])

    def wrong(net: TwoLayer, members: slice) -> Tensor:
        return 100 * ((net(test_x[members]).T * test_y[members]) <= 0).double().mean(1)

    found = []
    for n in trial.sizes:
        starts = [start_of(trial, seed, train.x[:n], train.y[:n]) for seed, (train, _) in zip(seeds, sets, strict=True)]
        net = stack([s for s in starts for _ in etas])
        x = torch.stack([train.x[:n] for train, _ in sets for _ in etas])
        y = torch.stack([train.y[:n] for train, _ in sets for _ in etas])
        rate = torch.tensor(etas * len(seeds))
        stage = Stage(trial.steps, rate, 0.0, rate, batch=min(n, 32 if trial.kind == XOR else 64))
        key = Key("gradient_features/kernels/batches") / n
        run = fit(net, x, y, [stage], key, probes={"wrong": wrong}, probe_at=evaluations)
        trace = run.trace["wrong"].reshape(len(run.steps), len(seeds), len(etas))
        picks = [
            trace[run.steps.index(evaluation), :, etas.index(eta)]
            for (eta, _), evaluation in zip(points, evaluations, strict=True)
        ]
        found.append(torch.stack(picks, 1))
    return torch.stack(found)


def kernel_errors(trial: Trial, seeds: Sequence[int], points: Sequence[Point]) -> Tensor:
    """Errors in percent (sizes, seeds, points) of ridge regression with a kernel.

    Sets are nested, so one Cholesky factor serves all sizes: that of the first n rows is its leading block.
    """
    norm = norm_of(trial)
    found = torch.zeros(len(trial.sizes), len(seeds), len(points), dtype=torch.float64)
    for i, seed in enumerate(seeds):
        train, test = data(trial, seed)
        for bandwidth in {b for b, _ in points}:
            kernel: Callable[[Tensor, Tensor], Tensor] = (
                ntk if trial.learner == NTK else lambda x, y, b=bandwidth: rbf(x, y, bandwidth=norm * math.sqrt(b))
            )
            gram = torch.cat([kernel(part, train.x) for part in train.x.split(512)])
            across, diagonal = kernel(test.x, train.x), float(gram.diagonal().mean())
            for j, (b, penalty) in enumerate(points):
                if b != bandwidth:
                    continue
                shifted = gram.clone()
                shifted.diagonal().add_(penalty * diagonal)
                lower = torch.linalg.cholesky(shifted)
                for s, n in enumerate(trial.sizes):
                    alpha = torch.cholesky_solve(train.y[:n, None].double(), lower[:n, :n])
                    found[s, i, j] = 100 * ((across[:, :n] @ alpha)[:, 0] * test.y <= 0).double().mean()
    return found


def feature_fits(trial: Trial, seeds: Sequence[int], points: Sequence[Point]) -> tuple[Tensor, Tensor, Tensor]:
    """Errors in percent, hinge losses and norms B, each (sizes, seeds, points), of ridge regression on random features.

    B is the norm of the coefficients where features are scaled into [-1, 1] on the training set, as Proposition 3.23
    has them. One feature is constant.
    """
    norm = norm_of(trial)
    found = torch.zeros(3, len(trial.sizes), len(seeds), len(points), dtype=torch.float64)
    for i, seed in enumerate(seeds):
        train, test = data(trial, seed)
        key = Key("gradient_features/kernels/features") / trial.d / trial.width / seed
        for bias in {b for b, _ in points}:
            draw = random_features(trial.d, trial.width, key, weight_var=norm**-2, bias_var=bias)
            one = 1 / math.sqrt(trial.width)
            phi, other = (
                torch.cat([f, torch.full_like(f[:, :1], one)], 1)
                for f in (draw(train.x.double()), draw(test.x.double()))
            )
            wide = trial.width > max(trial.sizes)  # then one Gram matrix serves all sizes and penalties
            gram, across = (phi @ phi.T, other @ phi.T) if wide else (phi[:0], phi[:0])
            squares, largest = phi.square().sum(1), phi.abs().amax(1)
            for (j, (b, penalty)), (s, n) in itertools.product(enumerate(points), enumerate(trial.sizes)):
                if b != bias:
                    continue
                y, scale = train.y[:n].double(), penalty * float(squares[:n].mean())
                if wide:
                    shifted = gram[:n, :n].clone()
                    shifted.diagonal().add_(scale)
                    alpha = torch.cholesky_solve(y[:, None], torch.linalg.cholesky(shifted))[:, 0]
                    score, size = across[:, :n] @ alpha, float((alpha @ gram[:n, :n] @ alpha).sqrt())
                else:
                    ridge = feature_ridge(lambda z: z, phi[:n], y, penalty=scale)
                    score, size = ridge(other)[:, 0], float(ridge.coefficients.norm())
                margin, B = score * test.y, size * float(largest[:n].max())
                found[:, s, i, j] = torch.tensor(
                    [100 * float((margin <= 0).double().mean()), float((1 - margin).clamp_min(0).mean()), B]
                )
    return found[0], found[1], found[2]


def errors_of(trial: Trial, seeds: Sequence[int], points: Sequence[Point]) -> tuple[Tensor, dict[str, Tensor]]:
    """Errors (sizes, seeds, points), and what else is known about each fit, in the same shape."""
    if trial.learner == NETWORK:
        return network_errors(trial, seeds, points), {}
    if trial.learner in (NTK, RBF):
        return kernel_errors(trial, seeds, points), {}
    error, hinge, B = feature_fits(trial, seeds, points)
    return error, {"hinge": hinge, "B": B}
