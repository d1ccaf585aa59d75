"""The distribution, network, algorithm and regime, and the four-neuron classifier (sections 2 to 4, App. D)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE, Quantity
from featlearn.lab.statement import Statement, at_most, equal
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.learn import Stage, fit
from featlearn.nets import TwoLayer, fixed_signs_init
from featlearn.tasks import XorClusters
from featlearn.tasks.xor_clusters import Law, Noise, XorTruth
from featlearn.works.amplification.setup import allowed_constants, steps_of

Array = np.ndarray
LAWS: tuple[Law, ...] = ("gaussian", "laplace", "uniform", "exponential")
NOISES: tuple[Noise, ...] = ("random", "adversarial")
ABSOLUTE = np.array([math.sqrt(2 / math.pi), math.sqrt(0.5), math.sqrt(0.75), 2 / math.e])
"""E |zeta| of these laws at variance 1; each has a density exp(-U) with a convex U."""
D, N, SIGMA, ETA, BLOCKS = 6, 100_000, 0.3, 0.15, 20
SOURCE = "Section 2"


def averages(values: Array | torch.Tensor, quantity: Quantity = REAL, blocks: int = BLOCKS) -> list[Estimate]:
    """The mean of each column of (n, k) independent samples; a block of them is the unit, or with n blocks a sample."""
    x = np.asarray(values, dtype=np.float64).reshape(blocks, len(values) // blocks, -1).mean(1)
    return [mean_of(column, quantity, "block of samples") for column in x.T]


# the distribution ----------------------------------------------------------------------------------------------------


def says_data(settings: None) -> Sequence[Statement]:
    """E z = 0, Cov z = sigma^2 I, four clusters of weight 1/4, labels of an XOR, flips of mean eta."""
    eye, both = np.eye(D).ravel(), "law, kind of flips"
    return (
        equal(
            "mean of z",
            REAL,
            np.zeros(8 * D),
            SOURCE,
            margin=0.01,
            axis=f"{both}, coordinate",
            rival=np.full(8 * D, SIGMA),
            rival_says="an exponential law that is not centred",
        ),
        equal(
            "covariance of z",
            REAL,
            np.tile(SIGMA**2 * eye, 8),
            SOURCE,
            margin=0.006,
            axis=f"{both}, entry",
            rival=np.tile(SIGMA * eye, 8),
            rival_says="sigma I, with sigma taken for the variance",
        ),
        equal(
            "E |<mu, z>| over sigma",
            POSITIVE,
            np.repeat(ABSOLUTE, 2),
            f"{SOURCE}: log-concave laws, here Gaussian, Laplace, uniform and centred exponential",
            margin=0.01,
            axis=both,
            rival=np.repeat(np.roll(ABSOLUTE, 1), 2),
            rival_says="another of the four laws",
        ),
        equal(
            "share of each cluster",
            SHARE,
            np.full(32, 0.25),
            SOURCE,
            margin=0.01,
            axis=f"{both}, cluster",
            rival=np.tile([0.5, 0.0, 0.5, 0.0], 8),
            rival_says="one cluster a label",
        ),
        equal(
            "share of clean labels +1 in each cluster",
            SHARE,
            np.tile([1.0, 1.0, 0.0, 0.0], 8),
            SOURCE,
            axis=f"{both}, cluster",
            rival=np.tile([1.0, 0.0, 1.0, 0.0], 8),
            rival_says="a label for each sign, which is linear",
        ),
        equal(
            "share of flipped labels",
            SHARE,
            np.full(8, ETA),
            f"{SOURCE}: E eta(x) = eta",
            margin=0.005,
            axis=both,
            rival=np.full(8, ETA / 2),
            rival_says="labels that are drawn anew, half of which stay",
        ),
        equal(
            "accuracy of linear classifiers through 0, symmetric laws",
            SHARE,
            np.full(3 * 55, 0.5),
            f"{SOURCE}: z and -z have the same law, so x and -x have the same label",
            margin=0.02,
            axis="law, direction",
            rival=np.full(3 * 55, 0.75),
            rival_says="three of the four clusters on the right side",
            form="derived",
        ),
    )


def sees_data(settings: None, key: Key) -> Mapping[str, Observation]:
    """Samples of the task, of each law with each kind of flips."""
    mean, cov, size, share, flips, linear, labels = [], [], [], [], [], [], []
    for law in LAWS:
        for noise in NOISES:
            here = key / law / noise
            task = XorClusters(D, SIGMA, ETA, noise, law)
            truth = task.draw(here / "means")
            batch = task.sample(truth, N, here / "data")
            assert batch.group is not None
            assert batch.hidden is not None
            z = (batch.x - truth.centres[batch.group]).double()
            members = torch.nn.functional.one_hot(batch.group, 4).double()
            mean += averages(z)
            cov += averages(z[:, :, None] * z[:, None, :])
            size += averages((z @ truth.features.T.double()).abs().mean(1) / SIGMA, POSITIVE)
            share += averages(members, SHARE)
            flips += averages((batch.y != batch.hidden).double(), SHARE)
            labels.append((members.T @ (batch.hidden > 0).double() / members.sum(0)).numpy())
            if law != "exponential" and noise == "random":
                mu1, mu2 = truth.features
                w = torch.randn(50, D, generator=(here / "directions").torch())
                half = batch.x[: N // 2].T @ batch.y[: N // 2]  # the direction that the data suggest
                w = torch.cat([w, torch.stack([mu1, mu2, mu1 + mu2, mu1 - mu2, half])])
                right = batch.x[N // 2 :] @ w.T * batch.hidden[N // 2 :, None] > 0
                linear += averages(right.double(), SHARE)
    return {
        "mean of z": mean,
        "covariance of z": cov,
        "E |<mu, z>| over sigma": size,
        "share of each cluster": share,
        "share of clean labels +1 in each cluster": np.concatenate(labels),
        "share of flipped labels": flips,
        "accuracy of linear classifiers through 0, symmetric laws": linear,
    }


# the signal in the variance ------------------------------------------------------------------------------------------


def says_variance(settings: None) -> Sequence[Statement]:
    """1 + sigma^2 along the mean of a class among its own samples; over all four clusters 1/2 + sigma^2."""
    mixture = "E <mu_1, x>^2: half of the samples have <mu_1, x> = +-1 + <mu_1, z>, the others <mu_1, z>"
    return (
        equal(
            "variance along mu_1 and mu_2, of the class that has this mean",
            POSITIVE,
            np.full(2, 1 + SIGMA**2),
            "Section 3: 'the variance in the direction of mu_1 and mu_2 is equal to 1 + sigma^2', read class by class",
            margin=0.02,
            axis="mean",
            rival=np.full(2, 0.5 + SIGMA**2),
            rival_says="that of all samples",
        ),
        equal(
            "variance along mu_1 and mu_2, of all samples",
            POSITIVE,
            np.full(2, 0.5 + SIGMA**2),
            mixture,
            margin=0.02,
            axis="mean",
            rival=np.full(2, 1 + SIGMA**2),
            rival_says="that of one class",
            form="derived",
        ),
        equal(
            "variance along a direction orthogonal to both",
            POSITIVE,
            SIGMA**2,
            "Section 3",
            margin=0.005,
            rival=1.0,
            rival_says="isotropic inputs, as those of the rates that are compared",
        ),
    )


def sees_variance(settings: None, key: Key) -> Mapping[str, Observation]:
    """Squared projections of samples (their mean is 0)."""
    truth = XorTruth(torch.eye(D)[:2])
    batch = XorClusters(D, SIGMA, ETA).sample(truth, N, key)
    assert batch.group is not None
    square, first = batch.x.double() ** 2, batch.group < 2
    classes = [square[first][: N // 4, 0], square[~first][: N // 4, 1]]
    return {
        "variance along mu_1 and mu_2, of the class that has this mean": [averages(c, POSITIVE)[0] for c in classes],
        "variance along mu_1 and mu_2, of all samples": averages(square[:, :2], POSITIVE),
        "variance along a direction orthogonal to both": averages(square[:, 2], POSITIVE)[0],
    }


# linear classifiers --------------------------------------------------------------------------------------------------

ROOM = 0.1
"""sigma of the linear classifiers that are better than chance."""
BETTER = "accuracy of sign(<mu_1, x> - 1/2), Gaussian, and of sign(-<mu_2, x>), centred exponential"


def says_linear(settings: None) -> Sequence[Statement]:
    """No linear classifier beats chance; one with a threshold does, and one through 0 for a skewed law."""
    q = norm.cdf(np.array([0.5, -1.5]) / ROOM)
    values = np.array([0.25 * (3 * q[0] + q[1]), 0.75 - 0.5 * math.exp(-1)])
    name = BETTER
    more = {"margin": 0.01, "axis": "classifier"}
    return (
        at_most(
            f"{name}, as reported",
            SHARE,
            np.full(2, 0.5),
            "Section 1",
            of=name,
            rival=values,
            rival_says="as corrected",
            expect="contradicted",
            **more,
        ),
        equal(
            name,
            SHARE,
            values,
            "Section 1, corrected: for classifiers through 0 and symmetric laws alone",
            rival=np.full(2, 0.5),
            rival_says="as reported",
            form="corrected",
            twin=f"{name}, as reported",
            **more,
        ),
    )


def sees_linear(settings: None, key: Key) -> Mapping[str, Observation]:
    """Two classifiers on clean samples."""
    truth = XorTruth(torch.eye(4)[:2])
    one = XorClusters(4, ROOM, 0.0).sample(truth, N, key / "gaussian")
    two = XorClusters(4, ROOM, 0.0, law="exponential").sample(truth, N, key / "skewed")
    right = torch.stack([(one.x[:, 0] - 0.5) * one.y > 0, -two.x[:, 1] * two.y > 0], 1)
    return {BETTER: averages(right.double(), SHARE)}


# the network ---------------------------------------------------------------------------------------------------------

M, WIDE, OMEGA = 400, 50, 0.02


@dataclass(frozen=True)
class Start:
    """A start and inputs, as float64 arrays, and the network of the library that has them."""

    net: TwoLayer
    x: torch.Tensor

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """w (m, d), a (m) and x (n, d)."""
        return tuple(v.double().numpy() for v in (self.net.w[0], self.net.a[0], self.x))


def draw_start(key: Key) -> Start:
    """400 neurons in 50 dimensions, 2000 inputs."""
    x = torch.randn(2000, WIDE, generator=(key / "x").torch())
    return Start(fixed_signs_init(M, WIDE, key / "start", omega=OMEGA), x)


def says_model(settings: Start) -> Sequence[Statement]:
    """f = sum_j a_j relu(<w_j, x>); half of the a_j are 1/sqrt(m), half -1/sqrt(m); omega is a standard deviation."""
    w, a, x = settings.arrays
    source = f"{SOURCE}, eq. (1)"
    return (
        equal(
            "f(x)",
            REAL,
            np.maximum(x @ w.T, 0) @ a,
            source,
            margin=1e-6,
            axis="input",
            rival=x @ w.T @ a,
            rival_says="a network without activation",
        ),
        equal(
            "positive and negative neurons",
            COUNT,
            np.array([M / 2, M / 2]),
            SOURCE,
            axis="sign",
            rival=np.array([M, 0.0]),
            rival_says="all of one sign",
        ),
        equal(
            "|a_j| sqrt(m)",
            POSITIVE,
            np.ones(M),
            SOURCE,
            margin=1e-6,
            axis="neuron",
            rival=np.full(M, math.sqrt(M)),
            rival_says="|a_j| = 1",
        ),
        equal(
            "mean square of a first weight over omega^2",
            POSITIVE,
            1.0,
            f"{SOURCE}: N(0, omega^2)",
            margin=0.06,
            rival=1 / OMEGA,
            rival_says="omega taken for the variance",
        ),
        at_most("|f| over ||W||_F ||x||", POSITIVE, np.ones(2), "Lemma 11, eq. (18)", axis="weights", margin=1e-6),
        equal(
            "the same, positive neurons along x and the others 0",
            POSITIVE,
            1 / math.sqrt(2),
            "Cauchy-Schwarz over the half of the neurons that are positive",
            margin=1e-6,
            rival=1.0,
            rival_says="a bound that balanced signs attain",
            form="derived",
        ),
    )


def sees_model(settings: Start, key: Key) -> Mapping[str, Observation]:
    """The network at its start, and with its positive neurons along one input."""
    net, x = settings.net, settings.x
    score = net(x)[:, 0]
    ray = torch.zeros(1, WIDE)
    ray[0, 0] = 2.0
    along = TwoLayer(torch.where(net.a[..., None] > 0, 3 * ray, torch.zeros(())), net.b, net.a, "relu")
    sharp = float(along(ray)[0, 0] / (along.w.norm() * ray.norm()))
    square = net.w[0].double().square().mean(1) / OMEGA**2
    return {
        "f(x)": score.double().numpy(),
        "positive and negative neurons": np.array([float((net.a > 0).sum()), float((net.a < 0).sum())]),
        "|a_j| sqrt(m)": net.a[0].abs().double().numpy() * math.sqrt(M),
        "mean square of a first weight over omega^2": mean_of(square.numpy(), POSITIVE, "neuron"),
        "|f| over ||W||_F ||x||": np.array([float((score.abs() / (net.w.norm() * x.norm(dim=1))).max()), sharp]),
        "the same, positive neurons along x and the others 0": sharp,
    }


# gradient descent ----------------------------------------------------------------------------------------------------

STEPS, RATE = 3, 0.3


@dataclass(frozen=True)
class Problem:
    """A small network in float64 and its samples."""

    net: TwoLayer
    x: torch.Tensor
    y: torch.Tensor


def draw_problem(key: Key) -> Problem:
    """Six neurons on thirty samples in four dimensions."""
    start = fixed_signs_init(6, 4, key / "start", omega=0.5)
    x = torch.randn(30, 4, generator=(key / "x").torch(), dtype=torch.float64)
    y = torch.randint(0, 2, (30,), generator=(key / "y").torch()) * 2.0 - 1
    return Problem(TwoLayer(start.w.double(), start.b.double(), start.a.double(), "relu"), x, y.double())


def literal(p: Problem, loss: str, both: bool = False) -> tuple[Array, Array]:
    """w and (a, b) after some steps of autograd on the reported risk; both: all of them are trained."""
    w, a, b = (v[0].clone() for v in (p.net.w, p.net.a, p.net.b))
    for _ in range(STEPS):
        parts = [v.detach().requires_grad_() for v in (w, a, b)]
        z = p.y * (torch.relu(p.x @ parts[0].T + parts[2]) @ parts[1])
        risk = (torch.log1p(torch.exp(-z)) if loss == "logistic" else torch.relu(1 - z)).mean()
        found = torch.autograd.grad(risk, parts)
        w = w - RATE * found[0]
        if both:
            a, b = a - RATE * found[1], b - RATE * found[2]
    return w.detach().numpy(), torch.cat([a, b]).detach().numpy()


def says_gd(settings: Problem) -> Sequence[Statement]:
    """W <- W - alpha grad of the mean logistic loss, first layer only, for T = 1 + 1/(4 alpha) steps."""
    w, rest = literal(settings, "logistic")
    return (
        equal(
            "W after three steps",
            REAL,
            w,
            SOURCE,
            margin=1e-12,
            axis="weight",
            rival=literal(settings, "hinge")[0],
            rival_says="the hinge loss",
        ),
        equal(
            "second layer and biases after three steps",
            REAL,
            rest,
            SOURCE,
            axis="weight",
            rival=literal(settings, "logistic", both=True)[1],
            rival_says="all layers trained",
        ),
        equal(
            "T at alpha = 0.05 and 0.25",
            COUNT,
            np.array([6.0, 2.0]),
            "Theorem 1: T = 1 + 1/(4 alpha)",
            axis="step size",
            rival=np.array([5.0, 1.0]),
            rival_says="1/(4 alpha)",
        ),
    )


def sees_gd(settings: Problem, key: Key) -> Mapping[str, Observation]:
    """The engine."""
    stage = Stage(STEPS, rate_w=RATE)
    got = fit(settings.net, settings.x, settings.y, [stage], Key(), loss="logistic").net
    return {
        "W after three steps": got.w[0].numpy(),
        "second layer and biases after three steps": torch.cat([got.a[0], got.b[0]]).numpy(),
        "T at alpha = 0.05 and 0.25": np.array([float(steps_of(0.05)), float(steps_of(0.25))]),
    }


# the regime ----------------------------------------------------------------------------------------------------------

POINTS: tuple[dict[str, Any], ...] = (
    {"d": 800, "n": 200, "m": 400, "sigma": 800**-0.6, "eta": 0.15, "scale": 0.1, "alpha": 0.1, "delta": 0.1},
    {"d": 2, "n": 5000, "m": 500, "sigma": 50**-0.5, "eta": 0.15, "scale": 0.25, "alpha": 0.05, "delta": 0.1},
    {"d": 10**7, "n": 10_000, "m": 10_000, "sigma": 3e-6, "eta": 0.01, "scale": 0.01, "alpha": 0.1, "delta": 0.05},
)
"""Figure 2 at one d and n, Figure 1, and a point at which one C satisfies all; scale = omega sqrt(m d)."""


def largest_constants(p: Mapping[str, Any], *, squared: bool = True) -> list[float]:
    """The largest C of each inequality as it is written, by bisection; squared: whether A1, A2 and A6 square."""
    two = 2 if squared else 1
    d, n, m, sigma, eta, scale, alpha, delta = p.values()
    holds = (
        lambda c: d >= c * max(math.log(n / delta) ** two, math.log(m / delta)),
        lambda c: sigma**2 <= 1 / (c**two * d),
        lambda c: n >= c * math.log(m / delta),
        lambda c: eta <= 1 / c,
        lambda c: m >= c * math.log(1 / delta),
        lambda c: (scale**2 / (m * d)) <= 1 / (c**two * m * d),
        lambda c: alpha <= 1 / math.sqrt(c),
        lambda c: not 1 / (2 * math.sqrt(c)) <= alpha,
    )
    found = []
    for test in holds:
        low, high = 1e-12, 1e12
        for _ in range(200):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if test(middle) else (low, middle)
        found.append(low)
    return found


def says_assumptions(settings: None) -> Sequence[Statement]:
    """A1 d >= C max(log^2(n/delta), log(m/delta)); A2 sigma^2 <= 1/(C^2 d); A3 n >= C log(m/delta); A4 eta <= 1/C;
    A5 m >= C log(1/delta); A6 omega^2 <= 1/(C^2 m d); A7 1/(2 sqrt C) <= alpha <= 1/sqrt C."""
    right = np.array([largest_constants(p) for p in POINTS])
    return (
        equal(
            "largest C of A1 to A7 and least C of A7, at three settings",
            POSITIVE,
            right,
            f"{SOURCE}, A1 to A7 (A6 as it is used in the proofs)",
            margin=1e-6 * right,
            axis="setting, bound",
            rival=np.array([largest_constants(p, squared=False) for p in POINTS]),
            rival_says="A1, A2 and A6 without their squares",
        ),
    )


def sees_assumptions(settings: None, key: Key) -> Mapping[str, Observation]:
    """What the premises of this work are decided by."""
    found = [allowed_constants(**p) for p in POINTS]
    return {
        "largest C of A1 to A7 and least C of A7, at three settings": np.array(
            [[*(high for _, high in f.values()), f["A7"][0]] for f in found]
        )
    }


# the classifier of four neurons --------------------------------------------------------------------------------------

SIZES, TAILS = (0.2, 0.3, 0.5), np.array([0.05, 0.1, 0.2, 0.3])


def says_oracle(settings: tuple[XorTruth, torch.Tensor]) -> Sequence[Statement]:
    """|<mu_1, x>| - |<mu_2, x>| as four neurons; Gaussian clusters: error 2 p (1 - p), p = Q(1/(sqrt(2) sigma))."""
    truth, x = settings
    one, two = (x @ truth.features.T).double().numpy().T
    p = norm.cdf(-1 / (math.sqrt(2) * np.array(SIZES)))
    bound = np.tile(3 * np.exp(-1 / (3 * TAILS)), (2, 1))
    return (
        equal(
            "f of the four neurons",
            REAL,
            np.abs(one) - np.abs(two),
            "Section 4, eq. (2)",
            margin=1e-5,
            axis="input",
            rival=np.abs(one) - np.abs(two) - np.maximum(one, 0),
            rival_says="three neurons",
        ),
        equal(
            "its error on clean labels, Gaussian clusters",
            SHARE,
            2 * p * (1 - p),
            "Section 4: wrong if one of <mu_1 +- mu_2, x> alone changes its sign, two independent Gaussians",
            margin=0.003,
            axis="sigma",
            rival=p,
            rival_says="the tail of one of them",
            form="derived",
        ),
        at_most(
            "P(|<mu, z>| > 1/3), the two laws of heaviest tails",
            SHARE,
            bound,
            "Appendix D: 3 exp(-1/(3 sigma)), exponent as read in our copy",
            axis="law, sigma",
            margin=0.005,  # three standard errors of 10^5 samples at a half
            rival=np.tile(9 * TAILS**2, (2, 1)),
            rival_says="Chebyshev's 9 sigma^2, where the law need not be log-concave",
        ),
    )


def draw_oracle(key: Key) -> tuple[XorTruth, torch.Tensor]:
    """Means in five dimensions and 500 inputs."""
    return XorClusters(5).draw(key / "means"), torch.randn(500, 5, generator=(key / "x").torch())


def sees_oracle(settings: tuple[XorTruth, torch.Tensor], key: Key) -> Mapping[str, Observation]:
    """The four neurons, their mistakes on clean samples, and how often a projection of the noise is large."""
    truth, x = settings
    m = 4
    net = TwoLayer(truth.centres[None] * math.sqrt(m), torch.zeros(1, m), (truth.labels / math.sqrt(m))[None], "relu")
    wrong, tails = [], []
    for sigma in SIZES:
        batch = XorClusters(5, sigma, 0.0).sample(truth, N, key / "data" / str(sigma))
        wrong += averages((net(batch.x)[:, 0] * batch.y <= 0).double(), SHARE, N)
    for law in ("laplace", "exponential"):
        batch = XorClusters(5, 1.0, 0.0, law=law).sample(truth, N, key / "tail" / law)
        assert batch.group is not None
        along = ((batch.x - truth.centres[batch.group]) @ truth.features[0]).abs()
        tails += [float((along > 1 / (3 * t)).double().mean()) for t in TAILS]
    return {
        "f of the four neurons": net(x)[:, 0].double().numpy(),
        "its error on clean labels, Gaussian clusters": wrong,
        "P(|<mu, z>| > 1/3), the two laws of heaviest tails": np.array(tails),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="amplification.data",
        entries=("amplification.data",),
        says="Four log-concave clusters with E z = 0, Cov z = sigma^2 I, label +1 at +-mu_1, flips of mean eta; linear "
        "classifiers through 0 are right half of the time.",
        statements=says_data,
        observe=sees_data,
    ),
    Claim(
        id="amplification.signal_variance",
        entries=("amplification.rate_comparison",),
        says="Along mu_1 and mu_2 the variance is 1 + sigma^2, along directions orthogonal to both sigma^2.",
        statements=says_variance,
        observe=sees_variance,
        remarks="The sentence is true of the samples of the class that has the mean. Over all four clusters, each of "
        "weight 1/4, the variance is 1/2 + sigma^2; the signal-to-noise ratio Omega(1) that it serves is the same.",
    ),
    Claim(
        id="amplification.linear",
        entries=("amplification.data",),
        says="No linear classifier does better than random guessing.",
        statements=says_linear,
        observe=sees_linear,
        accuses=Accusation(
            quote="no linear classifier (that use input features) can perform better than random guessing",
            place="Section 1; the abstract has it too",
            reading="of every classifier sign(<w, x> - b) and every law that the setting admits; through the origin "
            "and for symmetric clusters it is true (amplification.data)",
            hits="remark",
            derivation="sign(<mu_1, x> - 1/2) puts the cluster at +mu_1 on one side and the other three on the other "
            "as sigma -> 0, which is right on three of four. Through 0, sign(-<mu_2, x>) is right on -mu_2 and wrong "
            "on +mu_2, and on the clusters +-mu_1 right where <mu_2, z> < 0, for a centred exponential with "
            "probability 1 - 1/e: (2 (1 - 1/e) + 1)/4.",
        ),
    ),
    Claim(
        id="amplification.model",
        entries=("amplification.model",),
        says="f = sum_j a_j relu(<w_j, x>), half of the a_j +1/sqrt(m), half -1/sqrt(m); |f| <= ||W||_F ||x||.",
        settings=draw_start,
        statements=says_model,
        observe=sees_model,
    ),
    Claim(
        id="amplification.gd",
        entries=("amplification.gd",),
        says="W <- W - alpha grad mean log(1 + exp(-y f)) on the first layer, T = 1 + 1/(4 alpha) steps.",
        settings=draw_problem,
        statements=says_gd,
        observe=sees_gd,
    ),
    Claim(
        id="amplification.assumptions",
        entries=("amplification.assumptions",),
        says="A1 to A7 in one constant C, as intervals of the C that satisfy each.",
        statements=says_assumptions,
        observe=sees_assumptions,
        remarks="The bound of A6 is unreadable in our copy; omega^2 <= 1/(C^2 m d) serves every use. A1 is read with "
        "log^2, as Appendix D uses it. At alpha = 0.1 A7 asks for C >= 25 and A4 at eta = 0.15 for C <= 6.7, so that "
        "no C fits the figures, which do not claim one.",
    ),
    Claim(
        id="amplification.oracle",
        entries=("amplification.oracle",),
        says="|<mu_1, x>| - |<mu_2, x>| is a network of four neurons, whose error is a tail of the cluster law.",
        settings=draw_oracle,
        statements=says_oracle,
        observe=sees_oracle,
    ),
)
