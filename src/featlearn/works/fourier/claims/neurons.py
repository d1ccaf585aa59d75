"""Single neurons: the identities behind the proof, the optimal family, and that ascent finds nothing better."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import minimize

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, both, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.measure import frequency_share, phase_residual, random_share
from featlearn.works.fourier.claims.by_hand import Array, literal_eta
from featlearn.works.fourier.claims.exact import everything, random_network, scaled, survey, unit
from featlearn.works.fourier.setup import (
    Network,
    cosine_network,
    cosines,
    gamma_star,
    logits,
    network_norm,
    neuron_margins,
)

EXACT = 1e-12

# Lemma C.14 ----------------------------------------------------------------------------------------------------------

SHAPES = ((2, 5), (3, 5), (3, 7), (4, 5), (2, 6), (3, 4))
BY_SPECTRA = "eta(0) - mean of eta(delta), delta != 0, of a neuron"
BY_PHASES = f"{BY_SPECTRA}, by amplitudes and phases"
FACTOR = "eta(0) - mean of eta(delta), delta != 0, over eta(0) - mean of all"


def draw_neurons(key: Key) -> tuple[Network, ...]:
    """A neuron of each shape, two of them at even p, whose vectors have means that are not 0."""
    made = [random_network(1, k, p, key / k / p) for k, p in SHAPES]
    return tuple((u + 0.3, w - 0.2) for u, w in made)


def transform_statements(settings: tuple[Network, ...]) -> Sequence[Statement]:
    """Lemma C.14 (and C.10): the class-weighted margin of one neuron in frequency space."""
    literal, constant, aligned, phased, reported, corrected = [], [], [], [], [], []
    for u, w in settings:
        (k, p), eta = u.shape[1:], literal_eta(u[0].numpy(), w[0].numpy())
        hat, out = np.fft.fft(u[0].numpy()), np.fft.fft(w[0].numpy())
        scale = math.factorial(k) / ((p - 1) * p**k)
        size = np.abs(out) * np.prod(np.abs(hat), 0)
        angle = np.angle(hat).sum(0) - np.angle(out)
        literal.append(eta[0] - eta[1:].mean())
        phased.append(scale * float((size * np.cos(angle))[1:].sum()))
        aligned.append(scale * float(size[1:].sum()))
        constant.append(scale * float((size * np.cos(angle)).sum()))
        reported.append(1 - 1 / (p - 1))
        corrected.append(1 + 1 / (p - 1))
    return (
        *both(
            FACTOR,
            REAL,
            "proofs of Lemmas C.10 and C.14",
            reported=np.array(reported),
            corrected=np.array(corrected),
            says="1 + 1/(p-1), which is p/(p-1)",
            margin=1e-9,
            axis="(k, p)",
        ),
        equal(
            BY_SPECTRA,
            REAL,
            np.array(literal),
            "Lemma C.14, by a loop over all points",
            margin=EXACT,
            axis="(k, p)",
            rival=np.array(constant),
            rival_says="j = 0 included",
        ),
        equal(
            BY_PHASES,
            REAL,
            np.array(phased),
            "Lemma C.14: k!/((p-1) p^k) sum over j != 0 of |w^| prod |u^_i| cos(sum of phases)",
            of=BY_SPECTRA,
            margin=EXACT,
            axis="(k, p)",
            rival=np.array(aligned),
            rival_says="phases that add up",
        ),
    )


def transform_observed(settings: tuple[Network, ...], key: Key) -> Mapping[str, Observation]:
    """The engine's margins by spectra, and eta from its logits at all points."""
    found, factor = [], []
    for u, w in settings:
        k, p = u.shape[1:]
        x, y = everything(p, k)
        f, at = logits(u, w, x), (y[:, None] - torch.arange(p)) % p
        eta = f.gather(1, at).mean(0)
        found.append(float(neuron_margins(u, w)[0]))
        factor.append(float((eta[0] - eta[1:].mean()) / (eta[0] - eta.mean())))
    return {BY_SPECTRA: np.array(found), FACTOR: np.array(factor)}


# the share of the strongest frequency --------------------------------------------------------------------------------

PRIMES, VECTORS, ABOVE = (23, 47, 97), 20_000, 0.5
WAVE = "share of a cosine at its frequency"
RAISED = "share of a cosine raised by half its amplitude"
NOISE = "mean share of Gaussian vectors"
QUADRATURE = f"{NOISE}, by quadrature"


def share_statements(settings: None) -> Sequence[Statement]:
    """The statistic of Figures 4.2, C.2 and C.4: of a cosine, with a constant, and of noise."""
    baseline = entry("fourier.method_max_normalised_power").own_runs["random_baseline"]
    noise = np.array([baseline[f"p{p}"] for p in PRIMES])
    source = "captions of Figures 4.2, C.2, C.4, over frequencies"
    return (
        equal(
            WAVE,
            SHARE,
            np.ones(3),
            f"{source}: almost 1",
            margin=EXACT,
            axis="p",
            rival=0.5,
            rival_says="the sum over all p bins",
        ),
        equal(
            RAISED,
            SHARE,
            np.full(3, 0.5 / (0.5 + ABOVE**2)),
            f"{source}: a cosine has power 1/2, a constant b has b^2",
            margin=EXACT,
            axis="p",
            rival=0.5 / (0.5 + 2 * ABOVE**2),
            rival_says="the constant counted twice",
            form="derived",
        ),
        *(
            equal(
                name,
                SHARE,
                noise,
                f"{source}; the inventory's numbers",
                margin=margin,
                axis="p",
                rival=noise / 2,
                rival_says="the sum over all p bins",
                form="derived",
            )
            for name, margin in ((NOISE, 0.003), (QUADRATURE, 5e-4))
        ),
    )


def share_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """20000 vectors for each p."""
    waves = [cosines(torch.tensor([0.3], dtype=torch.float64), torch.tensor([2]), p) for p in PRIMES]
    draws = [torch.randn(VECTORS, p, generator=(key / p).torch(), dtype=torch.float64) for p in PRIMES]
    return {
        WAVE: np.array([float(frequency_share(w)[0]) for w in waves]),
        RAISED: np.array([float(frequency_share(w + ABOVE)[0]) for w in waves]),
        NOISE: [mean_of(frequency_share(x).numpy(), SHARE, "vector") for x in draws],
        QUADRATURE: np.array([random_share(p) for p in PRIMES]),
    }


# polynomial and trigonometric identities -----------------------------------------------------------------------------

FULL = "sum over c of (-1)^((k - sum c)/2) (c.a)^k, over 2^k k!, k = 1..7"
HALF = "half of it with c_1 = +1, over 2^(k-1) k!"


def draw_numbers(key: Key) -> tuple[Array, ...]:
    """k numbers of either sign for k = 1 to 7."""
    g = key.numpy()
    return tuple(g.uniform(0.5, 1.5, k) * g.choice([-1, 1], k) for k in range(1, 8))


def power_statements(settings: tuple[Array, ...]) -> Sequence[Statement]:
    """Lemma C.16."""
    product = np.array([np.prod(a) for a in settings])
    return tuple(
        equal(
            name,
            REAL,
            product,
            "Lemma C.16: the product of the a_j",
            margin=1e-11,
            axis="k",
            rival=rival * product,
            rival_says=says,
        )
        for name, rival, says in ((FULL, 2.0, "2^(k-1) k!"), (HALF, 0.5, "2^k k!"))
    )


def power_observed(settings: tuple[Array, ...], key: Key) -> Mapping[str, Observation]:
    """Enumerated signs."""
    full, half = [], []
    for a in settings:
        k = len(a)
        c = np.array(list(itertools.product((1, -1), repeat=k)))
        terms = (-1.0) ** ((k - c.sum(1)) // 2) * (c @ a) ** k / (2**k * math.factorial(k))
        full.append(terms.sum())
        half.append(2 * terms[c[:, 0] == 1].sum())
    return {FULL: np.array(full), HALF: np.array(half)}


EXPANDED = "signed products of sines and cosines with an even number of sines, n = 2..7"
TERMS = "terms that are not 0 for n arguments"


def draw_angles(key: Key) -> tuple[Array, ...]:
    """n angles for n = 2 to 7."""
    g = key.numpy()
    return tuple(g.uniform(0, 2 * np.pi, n) for n in range(2, 8))


def sum_statements(settings: tuple[Array, ...]) -> Sequence[Statement]:
    """Eq. (C.21)."""
    n = np.arange(2.0, 8.0)
    plus = [(np.prod(np.cos(x) + np.sin(x)) + np.prod(np.cos(x) - np.sin(x))) / 2 for x in settings]
    return (
        equal(
            EXPANDED,
            REAL,
            np.array([np.cos(x.sum()) for x in settings]),
            "Eq. (C.21): cos(x_1 + ... + x_n)",
            margin=EXACT,
            axis="n",
            rival=np.array(plus),
            rival_says="all signs +",
        ),
        equal(
            TERMS,
            COUNT,
            2 ** (n - 1),
            "Eq. (C.21): 2^k for k + 1 arguments",
            axis="n",
            rival=2**n,
            rival_says="every summand",
        ),
    )


def sum_observed(settings: tuple[Array, ...], key: Key) -> Mapping[str, Observation]:
    """Enumerated products."""
    total, terms = [], []
    for x in settings:
        b = np.array([b for b in itertools.product((0, 1), repeat=len(x)) if sum(b) % 2 == 0])
        each = np.where(b, np.sin(x), np.cos(x)).prod(1) * np.where(b.sum(1) % 4 == 2, -1, 1)
        total.append(each.sum())
        terms.append(float((each != 0).sum()))
    return {EXPANDED: np.array(total), TERMS: np.array(terms)}


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
    value = product[(slice(1, None),) * (k + 1)].real.ravel()
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
    return {INSIDE: transform(settings).real.ravel(), BESIDE: sizes[0], RANDOM: sizes[1]}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.transform",
        entries=("fourier.lemmaC_14",),
        says="eta(0) - mean_{delta != 0} eta(delta) = k!/((p-1) p^k) sum_{j != 0} w^(-j) prod_i u^_i(j).",
        settings=draw_neurons,
        statements=transform_statements,
        observe=transform_observed,
        accuses=Accusation(
            quote="1 - 1/(p-1) = p/(p-1)",
            place="proofs of Lemmas C.10 and C.14",
            reading="As it stands. The right side is the one that is used, and the lemmas hold.",
            hits="proof",
            derivation="p = 3: 1 - 1/2 = 1/2, and 3/2 = 1 + 1/2. eta(0) less the mean of the p - 1 others is eta(0) - "
            "(p mean - eta(0))/(p-1) = p/(p-1) (eta(0) - mean).",
        ),
        remarks="Vectors with means that are not 0. The other monomials vanish since they do not depend on delta and "
        "cancel in the difference, not only for a w of mean 0.",
    ),
    Claim(
        id="fourier.normalised_power",
        entries=("fourier.method_max_normalised_power",),
        says="max_i P_i / sum_j P_j over frequencies is 1 for a cosine; of noise 0.265, 0.159, 0.092 at p = 23, 47, 97.",
        statements=share_statements,
        observe=share_observed,
        remarks="The captions of Figures 4.2, C.2 and C.4 leave the range of the sum over j open: over frequencies, +j "
        "and -j together, a cosine has 1, as 'almost 1 for all neurons' needs.",
    ),
    Claim(
        id="fourier.powers",
        entries=("fourier.lemmaC_16",),
        says="2^k k! prod a_j = sum_{c in {-1,1}^k} (-1)^((k - sum c)/2) (sum c_j a_j)^k.",
        settings=draw_numbers,
        statements=power_statements,
        observe=power_observed,
    ),
    Claim(
        id="fourier.cosine_of_sums",
        entries=("fourier.eqC_21",),
        says="cos of a sum of n is a signed sum of 2^(n-1) products with an even number of sines.",
        settings=draw_angles,
        statements=sum_statements,
        observe=sum_observed,
        remarks="The sum in the proof sketch of Lemma 4.11 has 2^k summands for k arguments, half of them 0; the 2^k "
        "products of the construction are those of the k + 1 arguments of Eq. (C.21).",
    ),
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
