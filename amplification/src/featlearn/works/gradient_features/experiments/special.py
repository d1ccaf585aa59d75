"""One network of a special case: its task and start, training by the reported algorithm, and what is read off it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Batch, Diverged, Key, Truth
from featlearn.learn.framework import forgetful_step, joint, one_step, residual
from featlearn.measure import best_network, cosines, in_cone
from featlearn.measure.best_network import BestNetwork
from featlearn.measure.gradient_features import gaussian_gradients, membership, simplified_gradients
from featlearn.nets import TwoLayer, sign_init, symmetric_init
from featlearn.nets.pointwise import activate
from featlearn.tasks import BlockParity, GaussianMixture, LinearData, MultiIndex, UniformParity
from featlearn.tasks.gaussian_mixture import MixtureTruth
from featlearn.works.gradient_features.rows import (
    GAMMAS,
    LINEAR,
    MIXTURE,
    MULTI,
    OPPOSITE,
    PARITY,
    SHARES,
    SKEWED,
    UNIFORM,
    XOR,
)
from featlearn.works.gradient_features.setup import turned, xi

P_A = 0.25
MULTI_EPS = 0.1
"""Target of the multi-index regression, which sets its number of steps m^2 / eps."""
FEW = 1500
"""Samples of the convex problem of the best network."""


@dataclass(frozen=True)
class Trial:
    """One seed of one setting of one case, trained at every step size from the same start on the same samples.

    m: as in the work, so 4 m neurons (2 m for the uniform parity). level: b / (sigma_w |<x, D>|), how rare a neuron is
    that fires at the start. ratio: typical <w, x> / b after the first step. first: samples of the first step. etas:
    step sizes of the later ones (first step sizes for the multi-index task, whose later one is 1 / L).
    """

    case: str
    name: str
    d: int
    r: int
    k: int
    m: int
    level: float
    ratio: float
    eta_1: float
    first: int
    steps: int
    batch: int
    etas: tuple[float, ...]
    seed: int
    n_test: int
    draws: int


def task_of(trial: Trial) -> LinearData | GaussianMixture | BlockParity | UniformParity | MultiIndex:
    """The family of problems of a trial."""
    d, pairs = trial.d, trial.r // 2
    if trial.case == LINEAR:
        return LinearData(d=d)
    if trial.case == MIXTURE:
        return GaussianMixture(d=d, labels=(1, -1) * pairs)
    if trial.case == XOR:
        return GaussianMixture.xor(d=d)
    if trial.case == OPPOSITE:
        return GaussianMixture(d=d, labels=(1, 1, -1, -1) * (pairs // 2), arrangement="antipodal")
    if trial.case == SKEWED:  # both classes have probability 1/2
        weights = tuple(p / 2 for p in SHARES for _ in range(2))
        return GaussianMixture(d=d, labels=(1, 1, -1, -1, -1, -1, 1, 1), weights=weights, arrangement="antipodal")
    if trial.case == PARITY:
        return BlockParity(d=d, r=1, k=trial.k, p_A=P_A, p_o=round(trial.k / (d - trial.k), 3))
    if trial.case == UNIFORM:
        return UniformParity(d=d, k=trial.k)
    return MultiIndex(d=d)


def reach(trial: Trial) -> tuple[float, float]:
    """|<x, D>| of a typical x of the feature, and ||G|| of a neuron that has found it."""
    if trial.case == LINEAR:
        return 1.0, 1.0
    if trial.case == PARITY:
        return math.sqrt(trial.k), P_A * math.sqrt(trial.k)
    least = min(SHARES) / 2 if trial.case == SKEWED else 1 / max(trial.r, 1)
    return math.sqrt(trial.d), least * math.sqrt(trial.d)


def start_of(trial: Trial, m: int, key: Key) -> TwoLayer:
    """The start (3.9) with b = 1, or that of Algorithms 6 and 7; what is free follows from level and ratio."""
    if trial.case == UNIFORM:
        return sign_init(m, trial.d, trial.k, key)
    if trial.case == MULTI:
        net = symmetric_init(m, trial.d, key, sigma_w=trial.d**-0.5, sigma_a=1.0, bias=1e-9)
        return replace(net, a=net.a.sign())
    size, gain = reach(trial)
    sigma_a = trial.ratio / (trial.eta_1 * gain * size)
    return symmetric_init(m, trial.d, key, sigma_w=1 / (trial.level * size), sigma_a=sigma_a, bias=1.0)


def hidden(w: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """relu(<w, x> + b) in float64: w (m, d), b (m), x (n, d) -> (n, m)."""
    return activate(x @ w.T + b, "relu").double()


def error_of(score: Tensor, y: Tensor) -> tuple[float, float]:
    """Percent of wrong signs, and mean hinge loss."""
    margin = score * y
    return 100 * float((margin <= 0).double().mean()), float((1 - margin).clamp_min(0).mean())


def squared_error(score: Tensor, y: Tensor) -> float:
    """Mean squared error."""
    return float((score - y).square().mean())


def frozen(w: Tensor, b: Tensor, train: Batch, test: Batch) -> Tensor:
    """Scores on test of the second layer of least squares on the first layer as it is, penalty by a held-out fifth."""
    f, y = activate(train.x @ w.T + b, "relu"), train.y
    cut = len(f) * 4 // 5
    parts = [
        ((f[rows].T @ f[rows]).double(), (f[rows].T @ y[rows]).double()) for rows in (slice(cut), slice(cut, None))
    ]

    def solve(gram: Tensor, right: Tensor, penalty: float) -> Tensor:
        size = penalty * float(gram.diagonal().mean()) + 1e-12
        return torch.linalg.solve(gram + size * torch.eye(len(gram), dtype=torch.float64), right)

    def held_out(penalty: float) -> float:
        return squared_error(f[cut:].double() @ solve(*parts[0], penalty), y[cut:].double())

    penalty = min((1e-6, 1e-4, 1e-2, 1.0), key=held_out)
    return hidden(w, b, test.x) @ solve(parts[0][0] + parts[1][0], parts[0][1] + parts[1][1], penalty)


def best_of(trial: Trial, truth: Truth, batch: Batch) -> BestNetwork:
    """OPT: the best second layer, within the budget of the comparison network, on its own neurons.

    Mixtures: relu(<D_j, x> - 2 s), s = ||mu|| / 4.35, ||a|| <= sqrt(r) / s (lemma3_17, lemma_b41). Linear: +-w*, b = 0,
    ||a|| <= sqrt 2 / margin (lemma_b26). Parities: the breakpoints of the bumps, ||a|| <= sqrt(6 k (k + 1)), that
    of g* neuron by neuron (lemma3_21, lemma_b64). Multi-index: +-u_i with biases -3 to 3, ||a|| <= 4; the text has no
    such network.
    """
    D = truth.features
    if trial.case == LINEAR:
        w, b, norm = torch.cat([D, -D]), torch.zeros(2), math.sqrt(2) / 0.5
    elif trial.case in (PARITY, UNIFORM):
        at = torch.tensor([2.0 * i - trial.k + s for i in range(trial.k + 1) for s in (-1, 0, 1)]) / trial.k**0.5
        w, b, norm = D.expand(len(at), -1), -at, math.sqrt(6 * trial.k * (trial.k + 1))
    elif trial.case == MULTI:
        at = torch.linspace(-3, 3, 13)
        w, b, norm = torch.cat([D, -D]).repeat_interleave(13, 0), at.repeat(2 * len(D)), 4.0
    else:
        s = reach(trial)[0] / 4.35
        w, b, norm = D, torch.full((len(D),), -2 * s), math.sqrt(len(D)) / s
    f = hidden(w, b, batch.x[:FEW])
    return best_network(f, batch.y[:FEW].double(), norm, "squared" if trial.case == MULTI else "hinge")


def directions(trial: Trial, truth: Truth, key: Key) -> Tensor:
    """A true feature and its rival: one wrong coordinate for parities, turned by 20 degrees out of the span else."""
    D = truth.features[0].double()
    if trial.case in (PARITY, UNIFORM):
        on = D.nonzero()[:, 0]
        off = (D == 0).nonzero()[0, 0]
        wrong = D.clone()
        wrong[off], wrong[on[0]] = D[on[0]], 0.0
        return torch.stack([D, wrong])
    others = truth.features[(truth.features @ truth.features[0]).abs() < 0.5]
    return torch.stack([D, turned(truth.features[0], 20.0, key, others)])


def neurons(trial: Trial, truth: Truth, one: TwoLayer, batch: Batch, key: Key) -> dict[str, Any]:
    """Share of neurons in cones of true features after the first step, and membership of one of them in S.

    Membership is of neurons drawn by the law of the start, of the bias sign that the work gives the feature, with
    ||G|| >= half of `reach`; G exactly for mixtures, from the samples of the first step else.
    """
    gammas = torch.tensor(GAMMAS, dtype=torch.float64)
    inside = in_cone(one.w[0].double(), truth.features, gammas)
    share = inside.any(1).double().mean(0)
    D = torch.nn.functional.normalize(truth.features.double(), dim=1)
    near = (torch.nn.functional.normalize(one.w[0].double(), dim=1) @ D.T).abs()
    net = start_of(trial, -(-trial.draws // 2), key / "draws")
    least = 0.5 * reach(trial)[1]
    if trial.case in (UNIFORM, MULTI):
        w, b, least = net.w[0][: trial.draws], -net.b[0][: trial.draws], 0.0
    else:
        half = slice(0, trial.draws // 2) if trial.case != LINEAR else slice(-(-trial.draws // 2), trial.draws)
        w, b = net.w[0][half], -net.b[0][half]
    if isinstance(truth, MixtureTruth):
        g = gaussian_gradients(w, b, truth.means, truth.labels, truth.weights, truth.sigma)
    else:
        g = simplified_gradients(w, b, batch.x, batch.y).double()
    found = membership(g, directions(trial, truth, key / "aside"), gammas, least)
    return {
        **{f"cone_{round(100 * gamma)}": 100 * float(v) for gamma, v in zip(GAMMAS, share, strict=True)},
        "slack": float(1 - near.amax(0).min()),
        "member": 100 * float(found.share[0, 0]),
        "member_low": 100 * float(found.low[0, 0]),
        "rival": 100 * float(found.share[1, 0]),
        "rival_high": 100 * float(found.high[1, 0]),
        "draws": found.n,
    }


def effective(net: TwoLayer) -> Tensor:
    """Effective number of neurons in use: (sum s)^2 / sum s^2 with s_i = |a_i| ||w_i||. (e)."""
    s = net.a.abs() * net.w.norm(dim=2)
    return s.sum(1).square() / s.square().sum(1).clamp_min(1e-30)


def evaluate(net: TwoLayer, start: TwoLayer, truth: Truth, test: Batch) -> Tensor:
    """Features with a neuron of cosine 0.9, 0.95, effective neurons, groups of mean margin >= 1/2, error, hinge loss,
    ||W - W_1|| / ||W_1||, then the mean margin of every group: (7 + groups)."""
    cos = torch.stack([cosines(net.w, D)[0] for D in truth.features]).amax(1)
    score = net(test.x)[:, 0]
    margin = (score * test.y).double()
    group = torch.zeros(len(margin), dtype=torch.long) if test.group is None else test.group
    total = torch.zeros(int(group.max()) + 1, dtype=torch.float64).index_add_(0, group, margin)
    means = total / torch.bincount(group).clamp_min(1)
    error, hinge = error_of(score, test.y)
    moved = float((net.w - start.w).norm() / start.w.norm())
    first = [(cos > 0.9).sum(), (cos > 0.95).sum(), effective(net)[0], (means >= 0.5).sum(), error, hinge, moved]
    return torch.cat([torch.tensor([float(v) for v in first], dtype=torch.float64), means])


EVALUATED = ("found_90", "found_95", "used", "learned", "error", "loss", "moved")


def ladder(steps: int) -> list[int]:
    """0, 1, 2, 4, ... and the last step."""
    return sorted({0, steps, *(2**i for i in range(int(math.log2(steps)) + 1))})


@dataclass(frozen=True)
class Trained:
    """One step size. steps and evaluations (t, 7 + groups): see `evaluate`; net at the end, or None where it left
    the finite."""

    eta: float
    steps: tuple[int, ...]
    evaluations: Tensor
    net: TwoLayer | None


def train(
    trial: Trial, net: TwoLayer, one: TwoLayer, first: Batch, rest: Batch, test: Batch, truth: Truth, key: Key
) -> Iterator[Trained]:
    """Algorithm 1, or Algorithm 6 for the uniform parity, at every step size."""
    at = ladder(trial.steps)
    probes = {"evaluations": lambda nets, members: evaluate(nets, one, truth, test)[None]}
    for eta in trial.etas:
        try:
            if trial.case == UNIFORM:
                run = one_step(
                    net, first.x, first.y, eta_1=trial.eta_1, steps=trial.steps, eta=eta, probes=probes, probe_at=at
                )
            else:
                run = joint(
                    net,
                    (first.x, first.y),
                    (rest.x, rest.y),
                    eta_1=trial.eta_1,
                    eta=eta,
                    steps=trial.steps,
                    batch=trial.batch,
                    key=key / "order",
                    probes=probes,
                    probe_at=at,
                )
            yield Trained(eta, run.steps, run.trace["evaluations"][:, 0], run.net)
        except Diverged:
            yield Trained(eta, (), torch.empty(0), None)


def descent(gram: Tensor, right: Tensor, a: Tensor, steps: int) -> Tensor:
    """`steps` steps of gradient descent at 1 / L on the squared loss of a second layer, in closed form.

    a_t = a* + (1 - K / L)^t (a_0 - a*), K = F^T F / n with largest eigenvalue L; directions that K does not see stay.
    """
    values, basis = torch.linalg.eigh(gram)
    values = values.clamp_min(0)
    keep = (1 - values / values[-1]) ** steps
    seen = values > 1e-12 * values[-1]
    target = torch.where(seen, basis.T @ right / values.masked_fill(~seen, 1), basis.T @ a)
    return basis @ (target + keep * (basis.T @ a - target))


def regression(
    trial: Trial, key: Key, train_: Batch, test: Batch
) -> Iterator[tuple[float, TwoLayer, dict[str, list[float]]]]:
    """Algorithm 7 at every first step size: it, the network after the step, test errors at `times` of the network and
    of the same training on the first layer of the start, scaled to the same norm."""
    left, rho, beta = residual(train_.x, train_.y)
    net = start_of(trial, trial.m, key / "start")
    b = torch.randn(net.b.shape, generator=(key / "biases").torch())
    linear = (rho + test.x @ beta).double()
    for eta in trial.etas:
        one = forgetful_step(net, train_.x, left, eta, second=False, loss="squared")
        other = net.w * (one.w.norm() / net.w.norm())
        errors: dict[str, list[float]] = {}
        for name, w in (("own", one.w[0]), ("other", other[0])):
            gram, right = torch.zeros(len(w), len(w), dtype=torch.float64), torch.zeros(len(w), dtype=torch.float64)
            for x, t in zip(train_.x.split(8192), left.split(8192), strict=True):
                f = activate(x @ w.T + b[0], "relu")
                gram += (f.T @ f).double() / len(left)
                right += (f.T @ t).double() / len(left)
            tested = hidden(w, b[0], test.x)
            errors[name] = [
                squared_error(tested @ descent(gram, right, net.a[0].double(), t) + linear, test.y)
                for t in times(trial.steps)
            ]
        yield eta, one, errors


def times(steps: int) -> list[int]:
    """Decades up to the last step."""
    return sorted({*(10**i for i in range(1, int(math.log10(steps)) + 1)), steps})


def in_span(net: TwoLayer, truth: Truth) -> float:
    """Mean share of ||w_i||^2 in the span of the true features, in percent."""
    w = net.w[0]
    return 100 * float(((w @ truth.features.T).square().sum(1) / w.square().sum(1)).mean())


def plane(net: TwoLayer, truth: Truth) -> np.ndarray:
    """Cosines of the neurons with the first feature and the first orthogonal to it: (m, 2)."""
    D = truth.features
    other = D[int((D @ D[0]).abs().argmin())]
    unit = torch.nn.functional.normalize(net.w[0], dim=1)
    return (unit @ torch.stack([D[0], other]).T).numpy()


def first_rate(trial: Trial) -> float:
    """eta_1 of Algorithm 6 as reported, 1 / (k |xi_(k-1)|)."""
    return 1 / (trial.k * abs(xi(trial.d, trial.k - 1)))
