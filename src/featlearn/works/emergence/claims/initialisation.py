"""Typical starts (Lemmas 9, 10), Gaussian approximation of the background (11, 13) and the gradients (12)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import binom, chi2, norm

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, both, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.nets import gaussian_init, gradients
from featlearn.works.emergence.setup import bits, gate, network, smooth_clip

Array = np.ndarray
BERRY_ESSEEN = 0.56
"""Constant of the theorem for independent, not identically distributed summands (Shevtsova 2010)."""

D, K, M, DELTA = 100, 5, 300, 0.1
"""Size of Table 1, and the chance of failure."""
NEURONS = 333 * M
ENERGIES = np.array([10.0, 30.0, 95.0, 200.0, 500.0, 1000.0])
"""Numbers of background patterns D - k."""


def chernoff_rate(ratio: float) -> float:
    """Exponent c of Pr[chi2_n / n beyond ratio] <= exp(-c n): (ratio - 1 - log ratio) / 2."""
    return (ratio - 1 - math.log(ratio)) / 2


def start_statements(settings: None) -> tuple[Statement, ...]:
    """Failures of Lemmas 9 and 10; both tails of a normal or chi-square variable written out."""
    far = math.sqrt(2 * math.log(D / DELTA))
    upper, lower = float(chi2.sf(1.5 * (D - K), D - K)), float(chi2.cdf(0.5 * (D - K), D - K))
    slow = chernoff_rate(1.5)
    return (
        at_most(
            "share of networks beyond sqrt(2 log(n/delta)) deviations",
            SHARE,
            DELTA,
            "Lemma 10: max|q| of n = D m, |a| and |b| of n = m weights, each with failure delta",
            axis="weights",
            rival=control("share of networks beyond sqrt(log(n/delta)) deviations"),
            rival_says="the factor 2 under the root dropped",
        ),
        equal(
            "share of neurons with max|q_l| beyond sqrt(2 log(D/delta)) deviations",
            SHARE,
            1 - (1 - 2 * float(norm.sf(far))) ** D,
            "Lemma 9: two tails of D independent normal weights",
            margin=3e-3,
            rival=1 - (1 - float(norm.sf(far))) ** D,
            rival_says="one tail instead of two",
            form="derived",
        ),
        at_most(
            "log Pr[sum_{l not in A} q_l^2 outside (1/2, 3/2) sigma_w^2 (D-k)]",
            REAL,
            math.log(2) - slow * ENERGIES,
            "Lemma 9: exp(-Theta(D-k)), by Chernoff with (1/2 - log 3/2)/2 a dimension",
            axis="D - k",
        ),
        equal(
            "fall of that logarithm a dimension between D - k = 500 and 1000",
            POSITIVE,
            slow,
            "Chernoff exponent of the upper tail",
            margin=0.003,
            rival=chernoff_rate(0.5),
            rival_says="the exponent of the lower tail",
            form="derived",
        ),
        equal(
            "share of neurons of atypical background energy",
            SHARE,
            upper + lower,
            "chi-square with D - k = 95 degrees of freedom",
            margin=5e-4,
            rival=2 * upper,
            rival_says="both tails as heavy as the upper one",
            form="derived",
        ),
    )


def start_observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """Failures on 333 starts of the engine, and the exact chi-square tails."""
    net = gaussian_init(NEURONS, D, key / "init", sigma_w=0.2, sigma_b=0.04, sigma_a=4.0)
    q, b, a = net.w[0].double().numpy() / 0.2, net.b[0].double().numpy() / 0.04, net.a[0].double().numpy() / 4.0
    top = np.abs(q).max(1)
    largest = [np.abs(v).reshape(-1, M).max(1) for v in (top, a, b)]
    counts = (D * M, M, M)

    def beyond(factor: float) -> list:
        limits = [math.sqrt(factor * math.log(n / DELTA)) for n in counts]
        return [mean_of(v > t, SHARE, "network") for v, t in zip(largest, limits, strict=True)]

    tails = np.logaddexp(chi2.logcdf(ENERGIES / 2, ENERGIES), chi2.logsf(1.5 * ENERGIES, ENERGIES))
    energy = (q[:, K:] ** 2).mean(1)
    return {
        "share of networks beyond sqrt(2 log(n/delta)) deviations": beyond(2.0),
        "share of networks beyond sqrt(log(n/delta)) deviations": beyond(1.0),
        "share of neurons with max|q_l| beyond sqrt(2 log(D/delta)) deviations": float(
            (top > math.sqrt(2 * math.log(D / DELTA))).mean()
        ),
        "log Pr[sum_{l not in A} q_l^2 outside (1/2, 3/2) sigma_w^2 (D-k)]": tails,
        "fall of that logarithm a dimension between D - k = 500 and 1000": float(tails[-2] - tails[-1]) / 500,
        "share of neurons of atypical background energy": float(((energy < 0.5) | (energy > 1.5)).mean()),
    }


@dataclass(frozen=True)
class Projection:
    """Background weights q, the rate p of their bits, st, and the standard deviation of the projection.

    alike: all entries of q are equal.
    """

    p: float
    q: Array
    st: float
    sd: float
    alike: bool = False

    @property
    def third(self) -> float:
        """sum E|phi_l q_l|^3."""
        p = self.p
        return (p * (1 - p) ** 3 + (1 - p) * p**3) / self.st**3 * float((np.abs(self.q) ** 3).sum())


def projection(p: float, q: Array, st: float, alike: bool = False) -> Projection:
    """With its standard deviation."""
    return Projection(p, q, st, math.sqrt(p * (1 - p) * float((q**2).sum())) / st, alike)


THRESHOLDS = (0.5, 1.0)


def tail_settings(key: Key) -> tuple[Projection, ...]:
    """Typical q at the size of Table 1, and q of equal entries, whose projection is a binomial variable."""
    rng = key.numpy()
    typical = [
        projection(p, rng.normal(0, 1 / K, D - K), math.sqrt(K / 4 + (D - K) * p * (1 - p)))
        for p in (0.5, 0.1)
        for _ in range(4)
    ]
    planted = [projection(p, np.ones(n), 1.0, True) for p in (0.5, 0.3, 0.1) for n in (25, 95, 400)]
    return (*typical, *planted)


NOISE = 5 * 0.5 / math.sqrt(100_000)
"""Five standard errors of a share among the sampled inputs."""


def tail_statements(settings: tuple[Projection, ...]) -> tuple[Statement, ...]:
    """The Berry-Esseen form of Lemma 11."""
    typical = [s for s in settings if not s.alike]
    error = [BERRY_ESSEEN * s.third / s.sd**3 for s in settings]
    normal = [float(norm.sf(c)) for _ in typical for c in THRESHOLDS]
    twice = [float(norm.sf(2 * c)) for _ in typical for c in THRESHOLDS]
    return (
        at_most(
            "largest |Pr[background >= c sd] - Q(c)|",
            SHARE,
            np.array(error),
            "Lemma 11 by Berry-Esseen: 0.56 sum E|phi q|^3 / sd^3",
            axis="q",
            margin=np.array([0.0 if s.alike else NOISE for s in settings]),
        ),
        equal(
            "Pr[background >= c sd], typical q, c = 1/2 and 1",
            SHARE,
            np.array(normal),
            "Lemma 11: Theta(1), in the limit Q(c)",
            axis="q and c",
            margin=NOISE + 0.02,
            rival=np.array(twice),
            rival_says="Q(2c)",
            form="derived",
        ),
    )


def tail_observe(settings: tuple[Projection, ...], key: Key) -> Mapping[str, Observation]:
    """Shares among 100,000 sampled backgrounds; for equal entries the worst threshold of the binomial law, exact."""
    n, shares, errors = 100_000, [], []
    for p in dict.fromkeys(s.p for s in settings if not s.alike):
        group = [s for s in settings if s.p == p and not s.alike]
        bit = (torch.rand(n, D - K, generator=(key / "bits" / str(p)).torch()) < p).float() - p
        z = (bit @ torch.as_tensor(np.stack([s.q for s in group], 1), dtype=torch.float32)).double().numpy()
        for s, values in zip(group, z.T / np.array([[s.st] for s in group]), strict=True):
            found = [float((values >= c * s.sd).mean()) for c in THRESHOLDS]
            shares += found
            errors.append(max(abs(f - norm.sf(c)) for f, c in zip(found, THRESHOLDS, strict=True)))
    for s in settings:
        if s.alike:
            size = len(s.q)
            counts = np.arange(size + 1)
            tail = norm.sf((counts - size * s.p) / math.sqrt(size * s.p * (1 - s.p)))
            errors.append(max(np.abs(binom.sf(counts - i, size, s.p) - tail).max() for i in (0, 1)))
    return {
        "largest |Pr[background >= c sd] - Q(c)|": np.array(errors),
        "Pr[background >= c sd], typical q, c = 1/2 and 1": np.array(shares),
    }


@dataclass(frozen=True)
class Block:
    """A projection on ten background bits with added noise s, V = Var(<phi, q>) + s^2, and t, what is left out."""

    projection: Projection
    s: float
    variance: float
    t: float


LATTICE = 400


def block_settings(key: Key) -> tuple[Block, ...]:
    """Typical and equal q, with and without noise, and a block from far below to above the standard deviation."""
    rng, found = key.numpy(), []
    for p, s in ((0.5, 0.3), (0.25, 0.3), (0.5, 0.05), (0.5, 0.0), (0.1, 0.0)):
        for q in (rng.normal(0, 0.3, 10), np.full(10, 0.3)):
            at = projection(p, q, math.sqrt(3 / 4 + 10 * p * (1 - p)))
            sd = math.hypot(at.sd, s)
            found += [Block(at, s, sd**2, t) for t in (1e-6, 0.1 * sd, sd, 3 * sd)]
    return tuple(found)


def block_statements(settings: tuple[Block, ...]) -> tuple[Statement, ...]:
    """Lemma 13 with its constants, and the first-order term alone where the Berry-Esseen term is small."""
    noise = [2 * math.sqrt(2 / math.pi) * b.s**3 for b in settings]  # E|nu|^3
    bound = [
        2 * b.t / math.sqrt(2 * math.pi * b.variance) + 2 * BERRY_ESSEEN * (n + b.projection.third) / b.variance**1.5
        for b, n in zip(settings, noise, strict=True)
    ]
    return (
        at_most(
            "largest change of a tail probability over thresholds",
            SHARE,
            np.array(bound),
            "Lemma 13: 2|t|/sqrt(2 pi V) + 1.12 (E|nu|^3 + sum E|phi q|^3)/V^(3/2)",
            axis="q, noise and t",
        ),
        equal(
            f"the same over |t|/sqrt(2 pi V), {LATTICE} equal entries, t = sqrt(V)",
            POSITIVE,
            math.sqrt(2 * math.pi) * (norm.cdf(0.5) - norm.cdf(-0.5)),
            "normal limit: the interval between the two thresholds has length |t|",
            margin=0.1,
            rival=2 * math.sqrt(2 * math.pi) * (norm.cdf(0.5) - norm.cdf(-0.5)),
            rival_says="the interval [-t, t] of the proof, twice as long",
            form="derived",
        ),
    )


def block_observe(settings: tuple[Block, ...], key: Key) -> Mapping[str, Observation]:
    """Exact: 2^10 backgrounds times the normal distribution; a binomial law for the equal entries."""
    rest, moved = bits(10), []
    for block in settings:
        at, sd = block.projection, math.sqrt(block.variance)
        chance = at.p ** rest.sum(1) * (1 - at.p) ** (10 - rest.sum(1))
        z = (rest - at.p) / at.st @ at.q
        limits = np.unique(np.concatenate([np.linspace(-1.5, 1.5, 121) * sd, z[:: 2**4]]))

        def tail(b: Array, z: Array = z, chance: Array = chance, s: float = block.s) -> Array:
            above = norm.cdf((z[:, None] - b) / s) if s else z[:, None] >= b - 1e-12
            return chance @ above

        moved.append(float(np.abs(tail(limits - block.t) - tail(limits)).max()))
    counts, step = np.arange(LATTICE + 1), round(math.sqrt(LATTICE) / 2)
    upper = binom.sf(counts - 1, LATTICE, 0.5)
    change = float((upper[:-step] - upper[step:]).max())
    return {
        "largest change of a tail probability over thresholds": np.array(moved),
        f"the same over |t|/sqrt(2 pi V), {LATTICE} equal entries, t = sqrt(V)": change * math.sqrt(2 * math.pi),
    }


@dataclass(frozen=True)
class Loss:
    """A network and a sample on which the smoothed hinge loss is differentiated."""

    w: Array
    b: Array
    a: Array
    x: Array
    y: Array
    noise: float = 0.3


def gradient_settings(key: Key) -> Loss:
    """Six neurons, 60 samples; the hinge is active on some of them and not on others."""
    rng = key.numpy()
    w, b, a = rng.normal(0, 0.8, (6, 7)), rng.normal(0.3, 0.5, 6), rng.normal(0, 1.5, 6)
    return Loss(w, b, a, rng.normal(0, 0.7, (60, 7)), np.where(rng.random(60) < 0.5, 1.0, -1.0))


def gradient_statements(at: Loss) -> tuple[Statement, ...]:
    """(A.19), (A.20) as reported and with the noise inside, (A.21)."""
    z, s, n = at.x @ at.w.T + at.b, at.noise, len(at.x)
    active = at.y * (at.y * (smooth_clip(z, s) @ at.a) <= 1)

    def weights(push: Array) -> Array:
        return np.ravel(-at.a[:, None] * (push[:, None] * gate(z, s)).T @ at.x / n)

    def twice(values: Array) -> Array:
        return np.tile(values, 2)

    alike = {"axis": "engine and autograd, by parameter", "margin": 1e-10}
    return (
        equal(
            "dL/dw",
            REAL,
            twice(weights(active)),
            "Lemma 12, (A.19)",
            rival=twice(weights(at.y)),
            rival_says="the hinge taken as active on every sample",
            **alike,
        ),
        *both(
            "dL/db",
            REAL,
            "Lemma 12, (A.20)",
            reported=twice(-at.a * (active[:, None] * ((z > 0) & (z < 1))).mean(0)),
            corrected=twice(-at.a * (active[:, None] * gate(z, s)).mean(0)),
            says="xi_i inside the indicator, as in (A.19)",
            **alike,
        ),
        equal(
            "dL/da",
            REAL,
            twice(-(active[:, None] * smooth_clip(z, s)).mean(0)),
            "Lemma 12, (A.21)",
            rival=twice(-(active[:, None] * z.clip(0, 1)).mean(0)),
            rival_says="activation not averaged over the noise",
            **alike,
        ),
    )


def gradient_observe(at: Loss, key: Key) -> Mapping[str, Observation]:
    """The engine's hand-written gradients, then autograd of the smoothed loss."""
    x, y = torch.as_tensor(at.x), torch.as_tensor(at.y)
    got = gradients(network(at.w, at.b, at.a), x, y, loss="hinge", noise=at.noise)
    params = [torch.as_tensor(v).requires_grad_() for v in (at.w, at.b, at.a)]
    normal = torch.distributions.Normal(torch.zeros(()).double(), at.noise, validate_args=False)

    def ramp(u: torch.Tensor) -> torch.Tensor:
        """E max(u + xi, 0)."""
        return u * normal.cdf(u) + at.noise**2 * torch.exp(normal.log_prob(u))

    z = x @ params[0].T + params[1]
    loss = torch.relu(1 - y * ((ramp(z) - ramp(z - 1)) @ params[2])).mean()
    auto = torch.autograd.grad(loss, params)
    engine = (got.w[0], got.b[0], got.a[0])
    return {
        f"dL/d{name}": np.concatenate([np.ravel(one.numpy()), np.ravel(two.numpy())])
        for name, one, two in zip("wba", engine, auto, strict=True)
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.lemma9",
        entries=("emergence.lemma9",),
        says="Typical start: max|q_l|, |a|, |b| within sqrt(2 log(.)) deviations, background energy within 50 %, with "
        "failure at most delta + 2 m exp(-c (D-k)), c = (1/2 - log 3/2)/2.",
        statements=start_statements,
        observe=start_observe,
        remarks="At D - k = 95 and m = 300 the term 2 m exp(-c (D-k)) is above 1: the joint bound says nothing at the "
        "size of Table 1, where the events themselves are rare.",
    ),
    Claim(
        id="emergence.lemma11",
        entries=("emergence.lemma11",),
        says="The background projection exceeds c standard deviations with chance Q(c), up to the Berry-Esseen error.",
        settings=tail_settings,
        statements=tail_statements,
        observe=tail_observe,
    ),
    Claim(
        id="emergence.lemma13",
        entries=("emergence.lemma13",),
        says="Leaving out a block moves every tail probability by at most 2|t|/sqrt(2 pi V) + 1.12 rho/V^(3/2).",
        settings=block_settings,
        statements=block_statements,
        observe=block_observe,
    ),
    Claim(
        id="emergence.lemma12",
        entries=("emergence.lemma12",),
        says="The gradients of the smoothed hinge loss in closed form.",
        settings=gradient_settings,
        statements=gradient_statements,
        observe=gradient_observe,
        accuses=Accusation(
            quote="dL/db_i = -a_i E{y I[y g(x; xi) <= 1] E_{xi_i} I[<w_i, x> + b_i in (0, 1)]}",
            place="Lemma 12 of the ICLR paper; thesis (A.20)",
            reading="xi_i is the noise in the activation, sigma(<w_i, x> + b_i + xi_i), as in (A.19)",
            hits="misprint",
            derivation="One neuron, x = 0, y = 1, a small enough for an active hinge: the score is a E clip(b + xi), "
            "so dL/db = -a Pr[b + xi in (0, 1)], which at b = -1e-9 is about -a/2 for small noise; the formula as "
            "reported gives 0. An expectation over xi_i of an indicator without xi_i is no average; (A.19) has it "
            "inside, and so has (A.88), where the formula is used.",
        ),
    ),
)
