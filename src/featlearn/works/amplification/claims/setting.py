"""Network, algorithm and regime, and the four-neuron classifier (sections 2 and 4, App. D)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.learn import Stage, fit
from featlearn.nets import TwoLayer, fixed_signs_init, stack
from featlearn.tasks import XorClusters
from featlearn.tasks.xor_clusters import XorTruth
from featlearn.works.amplification.claims.data import SOURCE, N, averages
from featlearn.works.amplification.setup import allowed_constants, steps_of

Array = np.ndarray
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
        return tuple(v.double().numpy() for v in (self.net.w[0], self.net.a[0], self.x))  # pyright: ignore[reportReturnType]


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
    twice = lambda v: np.stack([v, v])  # noqa: E731
    return (
        equal(
            "W after three steps",
            REAL,
            twice(w),
            SOURCE,
            margin=1e-12,
            axis="network, weight",
            rival=twice(literal(settings, "hinge")[0]),
            rival_says="the hinge loss",
        ),
        equal(
            "second layer and biases after three steps",
            REAL,
            twice(rest),
            SOURCE,
            axis="network, weight",
            rival=twice(literal(settings, "logistic", both=True)[1]),
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
    """The engine as the experiments of this work use it: two networks, each with its own samples, here two orders."""
    p, stage = settings, Stage(STEPS, rate_w=RATE)
    x, y = torch.stack([p.x, p.x.flip(0)]), torch.stack([p.y, p.y.flip(0)])
    got = fit(stack([p.net, p.net]), x, y, [stage], Key(), loss="logistic").net
    return {
        "W after three steps": got.w.numpy(),
        "second layer and biases after three steps": torch.cat([got.a, got.b], 1).numpy(),
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
