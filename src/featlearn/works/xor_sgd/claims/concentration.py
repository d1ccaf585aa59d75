"""What phase 1 rests on: layers that stay balanced, minibatches and random directions that concentrate, envelopes."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.learn import Stage, fit_one_pass
from featlearn.measure import signal_parts
from featlearn.nets import TwoLayer, mean_field_rates, neuron_weights, sphere_init
from featlearn.tasks import BooleanXor
from featlearn.works.xor_sgd.setup import TAU1, TAU2, Array, Net, centres, cube, engine_step, labels, random_net

EXACT = 1e-12


# Lemma B.13 ----------------------------------------------------------------------------------------------------------

D, THETA, NEURONS, STEPS = 16, 0.3, 30, 150
BATCH = math.ceil(D * math.log(D) ** 2)
LARGE, SMALL = 0.25, 0.1
"""Step sizes: the largest allowed, and one at which a frozen second layer breaks S4."""
ALONE = "on one sample along the neuron"
TALL = "|a| - ||w||, from |a| = 1.5 ||w||"
FROZEN = "gain of ||w||^2 - a^2 a step over eta^2 a^2, first layer alone"


def draw_balanced(key: Key) -> tuple[Net, ...]:
    """Random networks of three sizes, and one that is wrong by far on every cluster, where |l'| is 2."""
    mu = centres(8)
    w = np.concatenate([mu, np.eye(8)[:2], [[1.0, 1.0, 0, 0, 0, 0, 0, 0]]])
    wrong = Net(w, np.array([-1e4, -1e4, 1e4, 1e4, 1e-6, 1e-6, 1e-6]))
    return (*(random_net(20, 8, key / i, size) for i, size in enumerate((0.1, 1.0, 5.0))), wrong)


def says_balanced(settings: tuple[Net, ...]) -> Sequence[Statement]:
    """S1 to S4; what breaks each is one sample, another start, a layer that stays."""
    first = np.concatenate([2 * np.abs(n.a) for n in settings])
    second = np.concatenate([2 * np.linalg.norm(n.w, axis=1) for n in settings])
    source, one = "Lemma B.13", "one sample in place of the distribution: no isotropy"
    return (
        at_most(
            "||grad_w||",
            POSITIVE,
            first,
            f"{source}, S1",
            margin=EXACT,
            axis="neuron",
            rival=control(f"||grad_w||, {ALONE}"),
            rival_says=one,
        ),
        at_most(
            "|grad_a|",
            POSITIVE,
            second,
            f"{source}, S2",
            margin=EXACT,
            axis="neuron",
            rival=control(f"|grad_a|, {ALONE}"),
            rival_says=one,
        ),
        at_most(
            "|a| - ||w||, from |a| = ||w||",
            REAL,
            0.0,
            f"{source}, S3",
            margin=EXACT,
            axis="step",
            rival=control(TALL),
            rival_says="a start that breaks the premise",
        ),
        at_most(
            "gain of ||w||^2 - a^2 a step over eta^2 a^2",
            REAL,
            4.0,
            f"{source}, S4",
            margin=1e-9,
            axis="step",
            rival=control(FROZEN),
            rival_says="one layer alone, whose gain is of first order in eta",
        ),
    )


def trace(key: Key, *, ratio: float = 1.0, eta: float, frozen: bool = False) -> tuple[Array, Array]:
    """||w|| and |a| (step, neuron) of the engine's SGD, in float64, from |a| = ratio ||w||."""
    start = sphere_init(NEURONS, D, key / "start", theta=THETA)
    w = start.w.double()
    a = start.a.sign().double() * w.norm(dim=2) * ratio / NEURONS
    task, (rate_w, rate_a) = BooleanXor(d=D), mean_field_rates(eta, NEURONS)

    def pairs(n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
        batch = task.sample(task.draw(key), n, key)
        return batch.x.double(), batch.y.double()

    def sizes(net: TwoLayer, members: slice) -> torch.Tensor:
        return torch.stack([net.w.norm(dim=2), neuron_weights(net).abs()], 1)

    run = fit_one_pass(
        TwoLayer(w, torch.zeros_like(a), a, "relu"),
        pairs,
        [Stage(STEPS, rate_w, 0.0, 0.0 if frozen else rate_a, batch=BATCH)],
        key / "data",
        probes={"sizes": sizes},
        probe_at=range(STEPS + 1),
    )
    found = run.trace["sizes"][:, 0].numpy()
    return found[:, 0], found[:, 1]


def gains(sizes: tuple[Array, Array], eta: float) -> Array:
    """The most that a step adds to ||w||^2 - a^2, over eta^2 a^2, of all neurons: (step)."""
    gap = sizes[0] ** 2 - sizes[1] ** 2
    return ((gap[1:] - gap[:-1]) / (eta * sizes[1][:-1]) ** 2).max(1)


def sees_balanced(settings: tuple[Net, ...], key: Key) -> Mapping[str, Observation]:
    """Gradients of the engine on the cube and on single samples, and its SGD."""
    x = cube(8)
    ends = [engine_step(net, x, labels(x), 1.0) for net in settings]
    first = [np.linalg.norm(n.w - e.w, axis=1) for n, e in zip(settings, ends, strict=True)]
    single_w, single_a = [], []
    for net in settings:
        for j, w in enumerate(net.w):
            at = np.where(w >= 0, 1.0, -1.0)[None]
            end = engine_step(net, at, -np.sign(net(at)), 1.0)
            single_w.append(np.linalg.norm(net.w[j] - end.w[j]))
            single_a.append(abs(net.a[j] - end.a[j]))
    level, tall = trace(key, eta=LARGE), trace(key, ratio=1.5, eta=LARGE)
    return {
        "||grad_w||": np.concatenate(first),
        f"||grad_w||, {ALONE}": np.array(single_w),
        "|grad_a|": np.concatenate([np.abs(n.a - e.a) for n, e in zip(settings, ends, strict=True)]),
        f"|grad_a|, {ALONE}": np.array(single_a),
        "|a| - ||w||, from |a| = ||w||": (level[1] - level[0])[1:].max(1),
        TALL: (tall[1] - tall[0])[1:].max(1),
        "gain of ||w||^2 - a^2 a step over eta^2 a^2": gains(trace(key, eta=SMALL), SMALL),
        FROZEN: gains(trace(key, eta=SMALL, frozen=True), SMALL),
    }


# Lemma B.12 ----------------------------------------------------------------------------------------------------------

DIMENSION, TRIALS, DIRECTIONS = 64, 100, 40
MINIBATCH = math.ceil(DIMENSION * math.log(DIMENSION) ** 2)


def says_minibatch(settings: None) -> Sequence[Statement]:
    """The three bounds, times m, for the worst neuron and coordinate, and the variances behind them."""
    d, log2 = DIMENSION, math.log(DIMENSION) ** 2
    source, square = "Lemma B.12, item", "d in place of log^2 d: no concentration"

    def bound(name: str, item: str, value: float, rival: float) -> Statement:
        return at_most(name, POSITIVE, value, f"{source} {item}", axis="minibatch", rival=rival, rival_says=square)

    def mean(name: str, item: str, says: str) -> Statement:
        return equal(
            name,
            POSITIVE,
            0.5,
            f"{source} {item}: {says} has variance 1/2 where its mean is small, as l' = -y and half are active",
            margin=0.2,
            rival=1.0,
            rival_says="a linear neuron, active on all samples",
            form="derived",
        )

    return (
        bound("m ||minibatch - grad_w||^2 / a^2", "1", d * log2, float(d * d)),
        bound("m times the square of one coordinate / a^2", "1", log2, float(d)),
        bound("m |minibatch - grad_a|^2 / ||w||^2", "2", d * log2, float(d * d)),
        mean("mean of m ||minibatch - grad_w||^2 / (d a^2)", "1", "y relu'(w.x) x_i"),
        mean("mean of m |minibatch - grad_a|^2 / ||w||^2", "2", "y relu(w.x) / ||w||"),
    )


def sees_minibatch(settings: None, key: Key) -> Mapping[str, Observation]:
    """The engine's gradients on minibatches at f = 0: neurons beside their twins of the opposite a."""
    start = sphere_init(DIRECTIONS, DIMENSION, key / "start", theta=1.0)
    w, a = start.w[0].double().numpy(), neuron_weights(start)[0].double().numpy()
    net = Net(np.concatenate([w, w]), np.concatenate([a, -a]))
    task, first, second = BooleanXor(d=DIMENSION), [], []
    for trial in range(TRIALS):
        batch = task.sample(task.draw(key), MINIBATCH, key / "data" / trial)
        end = engine_step(net, batch.x.double().numpy(), batch.y.double().numpy(), 1.0)
        first.append(((net.w - end.w) / net.a[:, None])[:DIRECTIONS])
        second.append((net.a - end.a)[:DIRECTIONS])
    # the mean of all minibatches stands for the population; the factor makes its squares unbiased
    m = MINIBATCH * TRIALS / (TRIALS - 1)
    one = m * (np.array(first) - np.mean(first, 0)) ** 2
    two = m * (np.array(second) - np.mean(second, 0)) ** 2
    return {
        "m ||minibatch - grad_w||^2 / a^2": one.sum(2).max(1),
        "m times the square of one coordinate / a^2": one.max((1, 2)),
        "m |minibatch - grad_a|^2 / ||w||^2": two.max(1),
        "mean of m ||minibatch - grad_w||^2 / (d a^2)": mean_of(one.mean((1, 2)), POSITIVE, "minibatch"),
        "mean of m |minibatch - grad_a|^2 / ||w||^2": mean_of(two.mean(1), POSITIVE, "minibatch"),
    }


# Definition B.1 and Theorem B.5 --------------------------------------------------------------------------------------

LONG, SHORT, BERRY_ESSEEN = 4096, 12, 0.56
"""Dimensions of the directions and of the enumeration; the constant of Shevtsova (2010) for sums of unlike terms."""


def draw_directions(key: Key) -> Array:
    """Twenty random unit vectors and e_1."""
    v = key.numpy().normal(size=(20, SHORT))
    return np.concatenate([v / np.linalg.norm(v, axis=1, keepdims=True), np.eye(SHORT)[:1]])


def says_spread(settings: Array) -> Sequence[Statement]:
    """Item 1 of Definition B.1 for the start, and Theorem B.5."""
    d, axis = LONG, "a vector along one axis"
    third = (np.abs(settings) ** 3).sum(1)
    mean = 2 * math.sqrt(2 / math.pi)
    return (
        at_most(
            "sqrt(d) ||v||_3^3",
            POSITIVE,
            20.0,
            "Definition B.1, item 1; Lemma B.2",
            axis="neuron",
            rival=math.sqrt(d),
            rival_says=axis,
        ),
        at_most(
            "sqrt(d) ||v||_inf",
            POSITIVE,
            math.log(d),
            "Definition B.1, item 1; Lemma B.2",
            axis="neuron",
            rival=math.sqrt(d),
            rival_says=axis,
        ),
        equal(
            "mean of sqrt(d) ||v||_3^3",
            POSITIVE,
            mean,
            "Lemma B.2: w is a Gaussian vector over its length, E|g|^3 = 2 sqrt(2/pi)",
            margin=0.05,
            rival=1.0,
            rival_says="coordinates of one size",
            form="derived",
        ),
        at_most(
            "sup_t |Pr[xi.v <= t] - Phi(t)|",
            SHARE,
            BERRY_ESSEEN * third,
            "Theorem B.5, with C_BE = 0.56 (Shevtsova 2010)",
            axis="vector",
            form="criterion",
        ),
    )


def kolmogorov(v: Array) -> float:
    """sup_t |Pr[xi.v <= t] - Phi(t)| for a unit vector v, by enumeration; equal sums are one jump."""
    values, counts = np.unique(np.round(cube(len(v)) @ v, 12), return_counts=True)
    at, ranks = norm.cdf(values), np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    return float(max(np.abs(ranks[1:] - at).max(), np.abs(ranks[:-1] - at).max()))


def sees_spread(settings: Array, key: Key) -> Mapping[str, Observation]:
    """The product's start in many dimensions; the cube in few."""
    v = sphere_init(200, LONG, key / "start", theta=1.0).w[0].double()
    v = (v / v.norm(dim=1, keepdim=True)).numpy()
    cubes = (np.abs(v) ** 3).sum(1) * math.sqrt(LONG)
    return {
        "sqrt(d) ||v||_3^3": cubes,
        "sqrt(d) ||v||_inf": np.abs(v).max(1) * math.sqrt(LONG),
        "mean of sqrt(d) ||v||_3^3": mean_of(cubes, POSITIVE, "neuron"),
        "sup_t |Pr[xi.v <= t] - Phi(t)|": np.array([kolmogorov(u) for u in settings]),
    }


# Definitions C.7 and C.8 ---------------------------------------------------------------------------------------------

WIDTH, EARLY, ETA, SEEDS = 256, 12, 0.1, 5


def says_envelope(settings: None) -> Sequence[Statement]:
    """The rate of the envelope B_t^2 in phase 1a, and the one that eq. (4.3) gives while |a| stays near ||w||."""
    envelope = math.log(1 + 2 * ETA * TAU1 * (1 + 1 / math.log(WIDTH)))
    growth = 2 * math.log(1 + ETA * TAU1)
    return (
        at_most(
            "growth of log ||w_sig||^2 a step, against the envelope",
            REAL,
            envelope,
            "Definition C.7, B_t",
            of="growth of log ||w_sig||^2 a step",
            rival=2 * growth,
            rival_says="twice the rate, since both layers train",
        ),
        equal(
            "growth of log ||w_sig||^2 a step",
            REAL,
            growth,
            "eq. (4.3) with |a| = ||w||: ||w_sig|| grows by 1 + eta tau a step",
            margin=0.003,
            rival=2 * math.log(1 + ETA * TAU2),
            rival_says="the rate sqrt(2)/4 of phase 2",
            form="derived",
        ),
    )


def sees_envelope(settings: None, key: Key) -> Mapping[str, Observation]:
    """Growth along the start: <sig_t, sig_0> over neurons, which the noise of the minibatches does not raise."""
    task, (rate_w, rate_a) = BooleanXor(d=WIDTH), mean_field_rates(ETA, 200)
    means = task.draw(key).means
    found = []
    for seed in range(SEEDS):

        def pairs(n: int, key: Key) -> tuple[torch.Tensor, torch.Tensor]:
            batch = task.sample(task.draw(key), n, key)
            return batch.x, batch.y

        start = sphere_init(200, WIDTH, key / seed / "start", theta=THETA / 3)
        stage = Stage(EARLY, rate_w, 0.0, rate_a, batch=20 * WIDTH)
        end = fit_one_pass(start, pairs, [stage], key / seed / "data").net
        before, after = (signal_parts(n.w, n.a, means).sig[0].double() for n in (start, end))
        found.append(2 * math.log(float(before @ after) / float(before @ before)) / EARLY)
    return {"growth of log ||w_sig||^2 a step": mean_of(found, REAL, "seed")}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.homogeneity_B13",
        entries=("xor_sgd.homogeneity_B13",),
        says="S1 ||grad_w|| <= 2|a|; S2 |grad_a| <= 2||w||; S3 |a| <= ||w|| persists; S4 ||w||^2 - a^2 gains at most "
        "4 eta^2 a^2 a step.",
        settings=draw_balanced,
        statements=says_balanced,
        observe=sees_balanced,
        premises=(
            Premise("m >= d log^2 d", True, f"{BATCH} at d = {D}"),
            Premise("eta <= 1/4", True, f"{LARGE} for S3, {SMALL} for S4"),
        ),
        remarks="S1 and S2 on the whole cube in eight dimensions; S3 and S4 over 150 steps of 30 neurons.",
    ),
    Claim(
        id="xor_sgd.lemmaB12",
        entries=("xor_sgd.lemmaB12",),
        says="Minibatch gradients are within d log^2(d)/m (log^2(d)/m for a coordinate) of their means.",
        statements=says_minibatch,
        observe=sees_minibatch,
        premises=(Premise("m >= d log^2 d", True, f"{MINIBATCH} at d = {DIMENSION}"),),
        remarks=f"{DIRECTIONS} neurons at f = 0, {TRIALS} minibatches. The factor d of the second item is read from "
        "where it is used: our copy is damaged there.",
    ),
    Claim(
        id="xor_sgd.wellspread",
        entries=("xor_sgd.wellspread",),
        says="Random directions are well spread, so their projections of the cube are nearly Gaussian.",
        settings=draw_directions,
        statements=says_spread,
        observe=sees_spread,
        remarks="The start of 200 neurons in 4096 dimensions; Pr by enumeration of 4096 signs for 20 random "
        "vectors and e_1. The exponents c of item 2 and of the bounds that use it are not legible in our copy: the "
        "statements have none.",
    ),
    Claim(
        id="xor_sgd.control_params",
        entries=("xor_sgd.control_params",),
        says="In phase 1a ||w_sig||^2 grows no faster than the envelope B_t^2, which grows by "
        "1 + 2 eta tau (1 + 1/log d) a step, tau = 1/sqrt(2 pi).",
        statements=says_envelope,
        observe=sees_envelope,
        premises=(
            Premise("zeta = log^-c d and theta = log^-C d with c, C sufficiently large", None, "c and C are not given"),
        ),
        remarks=f"{SEEDS} networks of 200 neurons, d = {WIDTH}, m = 20 d, the first {EARLY} steps of eta = {ETA}. The "
        "start log^3(d) theta^2 / d of the envelope is 170 times the mean square of w_sig there, and its end T_1a is "
        "negative below d = 332000 even with zeta = 1/log d, so its growth alone is tested. log^3 is "
        "the power that T_1a asks for. The exponents in Q_t and T_1b are not legible in our copy, and nothing rests on "
        "them here.",
    ),
)
