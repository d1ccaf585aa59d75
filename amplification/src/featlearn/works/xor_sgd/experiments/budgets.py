"""The smallest sample budget at which a learner reaches a test accuracy: networks by one-pass SGD, and kernels."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from featlearn.core import Batch, Key
from featlearn.core.device import resolve
from featlearn.kernels import ntk, rbf
from featlearn.lab.estimate import VALIDATION
from featlearn.lab.statistics import crossing
from featlearn.learn import Stage, fit_one_pass
from featlearn.nets import TwoLayer, mean_field_rates, sphere_init, stack
from featlearn.nets.pointwise import Loss
from featlearn.tasks import BooleanXor
from featlearn.works.xor_sgd.rows import Role

Draw = Callable[[int, Key], Batch]


@dataclass(frozen=True)
class NetworkTrial:
    """Networks of one dimension and batch size, all noise levels of a few seeds.

    noise: step size as eta d / batch. most: budget, in units of d, after which nobody trains on. patience: a member
    stops where it needs this many times the samples of the first of its seed that arrived.
    """

    d: int
    batch: int
    share: float
    noise: tuple[float, ...]
    seeds: tuple[int, ...]
    p: int
    theta: float
    target: float
    n_test: int
    most: float
    patience: float
    device: str
    method: str = "Network"


@dataclass(frozen=True)
class KernelTrial:
    """Ridge regression with one kernel in one dimension: all penalties and bandwidths of one seed.

    penalties: in units of the kernel's diagonal. bandwidths: squared and divided by d (RBF). most: largest training
    set in units of d^2.
    """

    d: int
    method: str
    penalties: tuple[float, ...]
    bandwidths: tuple[float, ...]
    seeds: tuple[int, ...]
    target: float
    n_test: int
    most: float


@dataclass(frozen=True)
class Measured:
    """One grid point of one seed: share (or bandwidth), noise (or penalty), and what it needed; see rows.Budget."""

    share: float
    noise: float
    seed: int
    samples: float | None
    over: float | None
    best: float


def boolean(d: int, device: str) -> Draw:
    """Samples of the XOR of the first two coordinates, as (n, key) -> Batch on a device."""
    task = BooleanXor(d=d)
    truth = task.draw(Key("xor_sgd"))
    return lambda n, key: task.sample(truth, n, key, device)


def gaussian(d: int, device: str) -> Draw:
    """The same labels on x ~ N(0, I): y = -sign(x_1 x_2)."""

    def draw(n: int, key: Key) -> Batch:
        x = torch.randn(n, d, generator=key.torch()).to(device)
        return Batch(x, -(x[:, 0] * x[:, 1]).sign(), None, None)

    return draw


def percent_right(net: TwoLayer, test: Batch) -> Tensor:
    """Test accuracy of every member, in percent."""
    return 100 * (net(test.x) * test.y[:, None] > 0).double().mean(0)


def network_budgets(
    trial: NetworkTrial, draw: Draw, key: Key, *, loss: Loss = "logistic", both: bool = True
) -> list[Measured]:
    """What every member needed: `samples` until test accuracy reaches the target (None: not within `over`).

    Accuracy is evaluated every 10 % of the budget, from 4 d on, and the crossing is interpolated. Members that arrived
    or gave up leave the ensemble; the others see the same data as if they had stayed.
    """
    resolve(trial.device)
    tests = {seed: draw(trial.n_test, key / "test" / seed) for seed in trial.seeds}
    who = [(seed, noise) for seed in trial.seeds for noise in trial.noise]
    starts = {s: sphere_init(trial.p, trial.d, key / "start" / s, theta=trial.theta) for s in trial.seeds}
    net = stack([starts[seed] for seed, _ in who]).to(trial.device)
    evaluations: dict[tuple[int, float], tuple[list[float], list[float]]] = {w: ([], []) for w in who}
    samples: dict[tuple[int, float], float] = {}
    over: dict[tuple[int, float], float] = {}
    done, budget, alive = 0, 4.0 * trial.d, list(who)

    def pairs(n: int, key: Key) -> tuple[Tensor, Tensor]:
        batch = draw(n, key)
        return batch.x, batch.y

    evaluation = 0
    while alive:
        goal = max(done + 1, round(budget / trial.batch))
        eta = torch.tensor([noise * trial.batch / trial.d for _, noise in alive])
        # the squared loss has slope -y at the start, as the reported loss has, and twice that of the engine's logistic
        rate_w, rate_a = mean_field_rates(eta / 2 if loss == "squared" else eta, trial.p)
        stage = Stage(goal - done, rate_w, 0.0, rate_a if both else 0.0, batch=trial.batch)
        sets = [seed for seed, _ in alive]
        net = fit_one_pass(net, pairs, [stage], key / "data" / evaluation, loss=loss, sets=sets, diverging="rest").net
        done, evaluation = goal, evaluation + 1
        n, kept = float(done * trial.batch), []
        right = torch.cat(
            [
                percent_right(net[sets.index(s) : sets.index(s) + sets.count(s)], tests[s]).cpu()
                for s in dict.fromkeys(sets)
            ]
        )
        broken = ~torch.isfinite(net.a.sum(1)).cpu()
        for i, w in enumerate(alive):
            evaluations[w][0].append(n)
            evaluations[w][1].append(float(right[i]))
            found = crossing(evaluations[w][0][-2:], evaluations[w][1][-2:], trial.target)
            if found is not None and not broken[i]:
                samples[w] = found
        for i, w in enumerate(alive):
            first = min((samples[v] for v in who if v[0] == w[0] and v in samples), default=math.inf)
            if w not in samples and (broken[i] or n >= min(trial.most * trial.d, trial.patience * first)):
                over[w] = n
            if w not in samples and w not in over:
                kept.append(i)
        net = TwoLayer(net.w[kept], net.b[kept], net.a[kept], net.activation)
        alive, budget = [alive[i] for i in kept], max(budget * 1.1, n)
    return [
        Measured(
            share=trial.share,
            noise=noise,
            seed=seed,
            samples=samples.get((seed, noise)),
            over=over.get((seed, noise)),
            best=max(evaluations[seed, noise][1]),
        )
        for seed, noise in who
    ]


def kernel_of(method: str, d: int, bandwidth: float) -> Callable[[Tensor, Tensor], Tensor]:
    """NTK of the two-layer ReLU network, or the Gaussian kernel of bandwidth^2 = bandwidth d."""
    if method == "NTK":
        return lambda x, y: ntk(x, y)
    return lambda x, y: rbf(x, y, bandwidth=math.sqrt(bandwidth * d))


def kernel_budgets(trial: KernelTrial, draw: Draw, key: Key) -> list[Measured]:
    """What every regressor needed: `samples`, the smallest training set whose ridge regressor reaches the target.

    Sets are nested, so one Cholesky factor serves all sizes: that of the first n rows is its leading block, and so are
    the triangular solves, of which the predictions are sums.
    """
    rows = []
    most = round(trial.most * trial.d**2)
    for seed in trial.seeds:
        train, test = draw(most, key / "train" / seed), draw(trial.n_test, key / "test" / seed)
        y = train.y.double()[:, None]
        for bandwidth in trial.bandwidths if trial.method == "RBF" else (0.0,):
            kernel = kernel_of(trial.method, trial.d, bandwidth)
            gram = torch.cat([kernel(part, train.x) for part in train.x.split(1024)])
            across, diagonal = kernel(test.x, train.x), float(gram.diagonal().mean())
            for penalty in trial.penalties:
                shifted = gram.clone()
                shifted.diagonal().add_(penalty * diagonal)
                lower = torch.linalg.cholesky(shifted)
                # with L L^T = K, u = L^-1 y and B = L^-1 K(x, test), the first n rows predict sum_(i < n) B_i u_i
                u = torch.linalg.solve_triangular(lower, y, upper=False)
                b = torch.linalg.solve_triangular(lower, across.T, upper=False)
                sizes, scores, size, done = [], [], 0.1 * trial.d**2, 0
                score = torch.zeros_like(b[0])
                while round(size) <= most and (not scores or scores[-1] < trial.target):
                    n = round(size)
                    score += b[done:n].T @ u[done:n, 0]
                    done, size = n, size * 1.1
                    sizes.append(float(n))
                    scores.append(100 * float((score * test.y > 0).double().mean()))
                found = crossing(sizes, scores, trial.target)
                over = None if found else sizes[-1]
                rows.append(Measured(bandwidth, penalty, seed, found, over, max(scores)))
    return rows


def role_of(seed: int) -> Role:
    """Validation seeds select, the others are reported."""
    return "validation" if seed >= VALIDATION else "reported"
