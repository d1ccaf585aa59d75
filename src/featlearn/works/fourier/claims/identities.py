"""Identities behind the proof: a neuron's margin by spectra, the share of a frequency, powers, cosines of sums."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import COUNT, REAL, SHARE
from featlearn.lab.statement import Statement, both, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.measure import frequency_share, random_share
from featlearn.works.fourier.claims.by_hand import Array, literal_eta
from featlearn.works.fourier.claims.exact import everything, random_network
from featlearn.works.fourier.setup import (
    Network,
    cosines,
    logits,
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
            reading="As it stands in our copy, a sign in the reason given for Eq. (C.2) and Eq. (C.9). These use the "
            "right side, which is the right factor, and the lemmas hold.",
            hits="proof",
            derivation="p = 3: 1 - 1/2 = 1/2, and 3/2 = 1 + 1/2. eta(0) less the mean of the p - 1 others is eta(0) - "
            "(p mean - eta(0))/(p-1) = p/(p-1) (eta(0) - mean).",
        ),
        remarks="Vectors with means that are not 0: the other monomials, which are 0 for a w of mean 0, do not depend "
        "on delta for any w and cancel in the difference.",
    ),
    Claim(
        id="fourier.normalised_power",
        entries=("fourier.method_max_normalised_power",),
        says="max_i P_i / sum_j P_j over frequencies is 1 for a cosine and small for noise.",
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
)
