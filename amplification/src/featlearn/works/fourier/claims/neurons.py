"""Single neurons: the optimal family, that ascent finds nothing better, combinations and spectra."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import minimize

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.measure import frequency_share, phase_residual
from featlearn.works.fourier.claims.by_hand import Array
from featlearn.works.fourier.claims.exact import everything, random_network, scaled, survey, unit
from featlearn.works.fourier.setup import (
    Network,
    cosine_network,
    gamma_star,
    logits,
    network_norm,
    neuron_margins,
)

EXACT = 1e-12

# the best neuron -----------------------------------------------------------------------------------------------------

ASCENTS, STARTS = ((2, 7), (3, 5), (3, 7), (4, 7)), 10
ANGLES = np.linspace(0.2, 3.0, 6)
VALUE = "E g' over gamma* of a cosine neuron of norm 1, every zeta, random phases"
TURNED = "E g' over gamma* with phases off by an angle"
ENDS = "E g' over gamma* where ascent ends, 40 random starts"
SHARES = "share of the strongest frequency there, least of the k + 1 vectors"
NORMS = "largest difference of the k + 1 norms there"
SUMS = "|sum theta_u - theta_w| there"
SPECTRUM = "size of the spectrum of u_1 at +-zeta there, over sqrt(p / (2 (k+1)))"


def ascend(k: int, p: int, start: Array) -> tuple[float, Array]:
    """The largest class-weighted margin over the (k+1)-th power of the norm near a start: BFGS with exact slopes."""
    weight = math.factorial(k) / ((p - 1) * float(p) ** k)

    def objective(flat: Array) -> tuple[float, Array]:
        v = flat.reshape(k + 1, p)
        hat = np.fft.fft(v)
        hat[:, 0] = 0  # the constant has no say
        factors = np.concatenate([hat[:k], hat[k:].conj()])
        value = weight * np.real(np.prod(factors, 0).sum())
        slope = np.empty_like(v)
        for i in range(k + 1):
            rest = np.prod(np.delete(factors, i, 0), 0)
            # d/dv(a) of sum_j exp(-+ 2 pi i j a / p) rest_j
            slope[i] = np.real(np.fft.fft(rest)) if i < k else np.real(np.fft.ifft(rest) * p)
        square = float(flat @ flat)
        size = square ** ((k + 1) / 2)
        grad = weight * slope.ravel() / size - (k + 1) * value / size * flat / square
        return -value / size, -grad

    scale = gamma_star(k, p)  # BFGS stops on absolute slopes, so the objective is measured in gamma*
    found = minimize(
        lambda v: tuple(t / scale for t in objective(v)),
        start,
        jac=True,
        method="BFGS",
        options={"gtol": 1e-9, "maxiter": 2000},
    )
    end = found.x / np.linalg.norm(found.x)
    return -objective(end)[0] / scale, end.reshape(k + 1, p)


def optimum_statements(settings: None) -> Sequence[Statement]:
    """Lemma 4.10: value of the family, what phases that do not add up cost, ascent from random starts."""
    lemma, runs = "Lemma 4.10", len(ASCENTS) * STARTS
    ks = np.repeat([float(k) for k, _ in ASCENTS], STARTS)
    zetas = np.array([float(k) for k, p in ASCENTS for _ in range((p - 1) // 2)])
    two = "two frequencies at once"
    return (
        equal(
            VALUE,
            REAL,
            np.ones(len(zetas)),
            lemma,
            margin=EXACT,
            axis="zeta",
            rival=(zetas / (zetas + 1)) ** ((zetas + 1) / 2),
            rival_says="a norm of 1 for each k vectors of k + 1",
        ),
        equal(
            TURNED,
            REAL,
            np.tile(np.cos(ANGLES), len(ASCENTS)),
            "Lemma C.14: cos(sum theta_u - theta_w)",
            margin=EXACT,
            axis="(k, p), angle",
            rival=1.0,
            rival_says="phases do not matter",
            form="derived",
        ),
        at_most(f"{ENDS}, bound", REAL, 1.0, f"{lemma}: the maximum", of=ENDS, margin=1e-9, axis="start"),
        equal(
            ENDS,
            REAL,
            np.ones(runs),
            f"{lemma}: the maximum is gamma*",
            margin=1e-7,
            axis="start",
            rival=2 ** ((1 - ks) / 2),
            rival_says=two,
        ),
        at_least(SHARES, SHARE, 0.999, lemma, axis="start", rival=0.5, rival_says=two, form="criterion"),
        at_most(
            NORMS,
            POSITIVE,
            1e-3,
            f"{lemma}: equal amplitudes",
            axis="start",
            rival=2**-0.5 - (2 * ks) ** -0.5,
            rival_says="w as long as all u together",
            form="criterion",
        ),
        at_most(
            SUMS,
            POSITIVE,
            1e-3,
            f"{lemma}: phases add up",
            axis="start",
            rival=math.pi / 2,
            rival_says="phases that are unrelated",
            form="criterion",
        ),
        equal(
            SPECTRUM,
            POSITIVE,
            np.ones(runs),
            f"{lemma}: amplitude sqrt(2/((k+1)p))",
            margin=1e-3,
            axis="start",
            rival=2**0.5,
            rival_says="all power at one sign",
        ),
    )


def optimum_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Margins by spectra of cosines, and BFGS in R^((k+1) p)."""
    g = key.numpy()
    seen: dict[str, list[float]] = {name: [] for name in (VALUE, TURNED, ENDS, SHARES, NORMS, SUMS, SPECTRUM)}
    for k, p in ASCENTS:
        theta = torch.from_numpy(g.uniform(0, 2 * np.pi, ((p - 1) // 2, k)))
        zeta, top = torch.arange(1, (p - 1) // 2 + 1), gamma_star(k, p)
        for i in range(len(zeta)):
            net = unit(cosine_network(theta[i : i + 1], zeta[i : i + 1], p))
            seen[VALUE].append(float(neuron_margins(*net)[0]) / top)
        for angle in ANGLES:
            net = unit(cosine_network(theta[:1], zeta[:1], p, float(angle)))
            seen[TURNED].append(float(neuron_margins(*net)[0]) / top)
        for _ in range(STARTS):
            value, end = ascend(k, p, g.standard_normal((k + 1) * p))
            vectors = torch.from_numpy(end)
            lengths = vectors.norm(dim=1)
            largest = float(np.abs(np.fft.fft(end[0]))[1:].max())
            seen[ENDS].append(value)
            seen[SHARES].append(float(frequency_share(vectors).min()))
            seen[NORMS].append(float(lengths.max() - lengths.min()))
            seen[SUMS].append(abs(float(phase_residual(vectors[:k], vectors[k]))))
            seen[SPECTRUM].append(largest / math.sqrt(p / (2 * k + 2)))
    return {name: np.array(values) for name, values in seen.items()}


# Lemma C.5 -----------------------------------------------------------------------------------------------------------

MIXED, MANY = ((2, 7), (3, 5), (3, 7), (4, 5)), 9
WEIGHTED = "E g' over gamma*, nine random optimal neurons with shares alpha"
NORMED = "|theta|_{2, k+1}"
LOW = "their margin over gamma*"


def draw_mixture(key: Key) -> tuple[tuple[Network, Array], ...]:
    """For each (k, p) nine optimal neurons of norm 1, of random frequencies and phases, and shares alpha with
    sum alpha^(k+1) = 1."""
    made = []
    for k, p in MIXED:
        g = (key / k / p).numpy()
        theta = torch.from_numpy(g.uniform(0, 2 * np.pi, (MANY, k)))
        zeta = torch.from_numpy(g.integers(1, (p - 1) // 2 + 1, MANY))
        alpha = g.uniform(0.1, 1.0, MANY)
        alpha /= (alpha ** (k + 1)).sum() ** (1 / (k + 1))
        made.append((scaled(cosine_network(theta, zeta, p), MANY ** (1 / (k + 1))), alpha))
    return tuple(made)


def combination_statements(settings: tuple[tuple[Network, Array], ...]) -> Sequence[Statement]:
    """Lemma C.5: any shares are optimal for E g', not for the margin itself."""
    square = np.array([float(np.sqrt((a**2).sum())) for _, a in settings])
    lemma = "Lemma C.5 with nu = k + 1"
    return (
        equal(
            WEIGHTED,
            REAL,
            np.ones(len(MIXED)),
            lemma,
            margin=EXACT,
            axis="(k, p)",
            rival=math.cos(0.3),
            rival_says="phases 0.3 off",
        ),
        equal(
            NORMED,
            POSITIVE,
            np.ones(len(MIXED)),
            f"{lemma}: sum alpha^(k+1) = 1",
            margin=EXACT,
            axis="(k, p)",
            rival=square,
            rival_says="the Euclidean norm",
        ),
        at_most(
            LOW,
            REAL,
            0.5,
            "Lemma C.6 needs Condition 4.8; half of gamma* by our criterion",
            axis="(k, p)",
            rival=1.0,
            rival_says="a margin of gamma* as well",
            quantifier="some",
            quantifier_says="may be far below",
            form="criterion",
        ),
    )


def combination_observed(settings: tuple[tuple[Network, Array], ...], key: Key) -> Mapping[str, Observation]:
    """Margins by spectra, and over all points."""
    nets = [scaled(net, torch.from_numpy(alpha)) for net, alpha in settings]
    top = np.array([gamma_star(k, p) for k, p in MIXED])
    return {
        WEIGHTED: np.array([float(neuron_margins(*net).sum()) for net in nets]) / top,
        NORMED: np.array([network_norm(*net) for net in nets]),
        LOW: np.array([survey(net).least for net in nets]) / top,
    }


# Lemma C.20, one neuron ----------------------------------------------------------------------------------------------

SINGLE = (3, 5)
INSIDE = "phi^(j_1, ..., j_(k+1)) where no index is 0, real parts"
BESIDE = "largest phi^ of a cosine neuron where no index is 0 and some is not +-zeta, over the largest"
RANDOM = "the same of a random neuron"


def draw_single(key: Key) -> Network:
    """A random neuron."""
    return random_network(1, *SINGLE, key)


def spectrum_statements(settings: Network) -> Sequence[Statement]:
    """The transform of one neuron inside Lemma C.20: a product where no index is 0."""
    (k, p), (u, w) = SINGLE, settings
    product = math.factorial(k) * np.ones((p,) * (k + 1), dtype=complex)
    for axis, vector in enumerate([*u[0].numpy(), w[0].numpy()]):
        product = product * np.fft.fft(vector).reshape([-1 if i == axis else 1 for i in range(k + 1)])
    value = np.real(product[(slice(1, None),) * (k + 1)]).ravel()
    return (
        equal(
            INSIDE,
            REAL,
            value,
            "proof of Lemma C.20: k! w^ prod u^_i, where no index is 0",
            margin=1e-10,
            axis="index",
            rival=value / math.factorial(k),
            rival_says="without k!",
        ),
        equal(
            BESIDE,
            POSITIVE,
            0.0,
            "proof of Lemma C.20: supported on +-zeta",
            margin=1e-12,
            rival=control(RANDOM),
            rival_says="a random neuron",
        ),
    )


def spectrum_observed(settings: Network, key: Key) -> Mapping[str, Observation]:
    """Transforms of the engine's logits over all points and classes."""
    k, p = SINGLE
    x, _ = everything(p, k)
    inner = (slice(1, None),) * (k + 1)

    def transform(net: Network) -> Array:
        return np.fft.fftn(logits(*net, x).reshape(*(p,) * (k + 1)).numpy())[inner]

    at = np.ix_(*[[1, 2]] * (k + 1))  # indices 2 and 3, where the frequency is 2, with index 0 left out
    sizes = []
    for net in (cosine_network(torch.tensor([[0.1, 0.5, 1.2]]).double(), torch.tensor([2]), p), settings):
        size = np.abs(transform(net))
        largest = size.max()
        size[at] = 0
        sizes.append(float(size.max() / largest))
    return {INSIDE: np.real(transform(settings)).ravel(), BESIDE: sizes[0], RANDOM: sizes[1]}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.optimal_neuron",
        entries=("fourier.lemma4_10",),
        says="The best single neurons of norm 1 are the cosines of one frequency with equal amplitudes and phases that "
        "add up; their class-weighted margin is gamma*.",
        statements=optimum_statements,
        observe=optimum_observed,
        remarks="Lemma 4.10 has the cosine form among its conditions; read: the set of maximisers is that family.",
    ),
    Claim(
        id="fourier.combinations",
        entries=("fourier.lemmaC_5",),
        says="Optimal neurons with any shares, sum alpha^(k+1) = 1, maximise E g'.",
        settings=draw_mixture,
        statements=combination_statements,
        observe=combination_observed,
        remarks="In our copy of Lemma C.5 the exponent on the shares reads gamma; it is nu = k + 1, the degree of "
        "homogeneity, which the copy may have lost.",
    ),
    Claim(
        id="fourier.neuron_spectrum",
        entries=("fourier.lemmaC_20",),
        says="The (k+1)-dimensional transform of one neuron is k! w^ prod u^_i where no index is 0.",
        settings=draw_single,
        statements=spectrum_statements,
        observe=spectrum_observed,
        remarks="Other monomials of the k-th power live where some index is 0, as the proof of Lemma C.19 says; the "
        "lemma uses none of those.",
    ),
)
