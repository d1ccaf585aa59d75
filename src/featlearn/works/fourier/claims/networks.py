"""Whole networks: that they attain gamma* and nothing exceeds it, which frequencies and which neurons they use."""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import COUNT, POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.measure import coverage, top_frequency
from featlearn.works.fourier.claims.by_hand import Array
from featlearn.works.fourier.claims.exact import (
    Survey,
    chosen,
    everything,
    off_family,
    phases_off,
    random_cosines,
    random_network,
    ratio_of,
    sees_no_order,
    sorted_points,
    survey,
    uneven,
    unit,
    without,
)
from featlearn.works.fourier.setup import (
    Network,
    class_weighted_margin,
    constructed,
    cyclic,
    gamma_star,
    logits,
)

EXACT = 1e-12
PAIRS = tuple(itertools.product((2, 3, 4, 5), (5, 7, 11, 13)))
"""(k, p) at which both constructions are checked."""
MANY = 1e7
"""Hidden values beyond which points are taken up to the order of the inputs."""
FEWER = "one neuron fewer"
UNWEIGHTED = "a norm that leaves w out"


def lone(k: Array) -> Array:
    """gamma* over what a norm of the k vectors u alone would allow."""
    return (k / (k + 1)) ** ((k + 1) / 2)


def whole(net: Network) -> Survey:
    """Margins over all p^k points, or for a network that sees no order over one point of each order."""
    m, k, p = net[0].shape
    if m * p**k <= MANY:
        return survey(net)
    if not sees_no_order(net):
        raise ValueError("a network that sees the order of its inputs has to be enumerated")
    return survey(net, sorted_points(p, k))


# Theorem 4.9, the value ----------------------------------------------------------------------------------------------

SMALL, COMPOSITE = ((2, 5), (2, 7), (3, 5), (4, 5)), ((2, 9), (3, 9), (2, 15))
ENUMERATED = tuple((k, p) for k, p in PAIRS if 3 ** (k - 1) * (p - 1) * p**k <= MANY)
BY_HAND = "gamma* over the value worked out by hand"
TWO = "gamma* for k = 2, p = 5, 23, 97, over sqrt(2/27) / ((p-1) sqrt p)"
CONSTRUCTED = "smallest and largest margin of the constructed network over gamma*, k = 2..5, p = 5..13"
CYCLIC = "smallest and largest margin of the network with cyclic phases over gamma*"
KEPT = "margin of the constructed network over gamma*, small p"
STRAIGHT = "margin of the network with cyclic phases over gamma*, small p"
WEIGHTED = "E g' over gamma* of networks of norm 1"
ODD = "margins over gamma* at odd p that is not prime, 9 and 15"
TURNED, LONGER = "phases 0.1 radian off", "one vector of one neuron 5 % longer"


def draw_norms(key: Key) -> tuple[Network, ...]:
    """60 networks of norm 1: Gaussian, cosines with phases off, the best one with more and more noise."""
    nets: list[Network] = []
    for k, p in ((2, 7), (3, 5), (4, 5)):
        nets += [random_network(10, k, p, key / k / i) for i in range(10)]
        nets += [random_cosines(10, k, p, key / k / "c" / i, off=i / 5) for i in range(5)]
        best = constructed(k, p)
        for i, s in enumerate((0, 0.01, 0.1, 0.3, 1)):
            n = random_network(len(best[0]), k, p, key / k / "n" / i)
            nets.append(unit((best[0] + s * n[0], best[1] + s * n[1])))
    return tuple(nets)


def attained_statements(settings: tuple[Network, ...]) -> Sequence[Statement]:
    """Theorem 4.9: the value, attained by both constructions, exceeded by nothing."""
    names = list(entry("fourier.theorem4_9").derived["gamma_star"])
    theorem = "Theorem 4.9: gamma* is attained"

    def ones(name: str, pairs: Sequence[tuple[int, int]], each: int, source: str, **more: object) -> Statement:
        k = np.repeat([float(k) for k, _ in pairs], each)
        rival = {"rival": lone(k), "rival_says": UNWEIGHTED, "axis": "(k, p)", **more}
        return equal(name, REAL, np.ones(len(k)), source, margin=EXACT, **rival)

    return (
        equal(
            BY_HAND,
            REAL,
            np.ones(len(names)),
            "Theorem 4.9; the inventory, by hand",
            margin=2e-7,
            axis="(k, p)",
            rival=np.array([int(n.split("_p")[1]) ** 0.5 for n in names]),
            rival_says="p^((k-2)/2)",
        ),
        equal(
            TWO,
            REAL,
            np.ones(3),
            "Theorem 4.9 at k = 2",
            margin=EXACT,
            axis="p",
            rival=np.array([(p - 1) / p for p in (5, 23, 97)]),
            rival_says="p in place of p - 1",
            form="derived",
        ),
        ones(CONSTRUCTED, PAIRS, 2, theorem),
        ones(CYCLIC, ENUMERATED, 2, theorem),
        ones(KEPT, SMALL, 1, theorem, rival=control(FEWER), rival_says=FEWER),
        ones(f"{KEPT}: equal amplitudes", SMALL, 1, theorem, of=KEPT, rival=control(LONGER), rival_says=LONGER),
        ones(STRAIGHT, SMALL, 1, theorem, rival=control(TURNED), rival_says=TURNED),
        at_most(WEIGHTED, REAL, 1.0, "Theorem 4.9, by Lemma C.14", margin=EXACT, axis="network"),
        ones(ODD, COMPOSITE * 2, 1, "Theorem 4.9's construction, which needs no prime", form="derived"),
    )


def attained_observed(settings: tuple[Network, ...], key: Key) -> Mapping[str, Observation]:
    """Margins over all points, enumerated or, where the set of neurons is the same under every exchange of inputs, over
    one point of each order."""
    reported = entry("fourier.theorem4_9").derived["gamma_star"]
    shapes = {n: [int(part[1:]) for part in n.split("_")] for n in reported}

    def ends(found: Survey, k: int, p: int) -> tuple[float, float]:
        return found.least / gamma_star(k, p), found.most / gamma_star(k, p)

    weighted = [class_weighted_margin(*net) / gamma_star(*net[0].shape[1:]) for net in settings]
    return {
        BY_HAND: np.array([gamma_star(*shapes[n]) / v for n, v in reported.items()]),
        TWO: np.array([gamma_star(2, p) * (p - 1) * math.sqrt(p * 27 / 2) for p in (5, 23, 97)]),
        CONSTRUCTED: np.array([ends(whole(constructed(k, p)), k, p) for k, p in PAIRS]),
        CYCLIC: np.array([ends(survey(cyclic(k, p)), k, p) for k, p in ENUMERATED]),
        KEPT: np.array([ratio_of(constructed(k, p)) for k, p in SMALL]),
        FEWER: np.array([ratio_of(without(constructed(k, p), 0)) for k, p in SMALL]),
        LONGER: np.array([ratio_of(uneven(k, p)) for k, p in SMALL]),
        STRAIGHT: np.array([ratio_of(cyclic(k, p)) for k, p in SMALL]),
        TURNED: np.array([ratio_of(phases_off(k, p, 0.1)) for k, p in SMALL]),
        WEIGHTED: np.array(weighted),
        ODD: np.array([ratio_of(make(k, p)) for make in (constructed, cyclic) for k, p in COMPOSITE]),
    }


THREE = (5, 7, 11, 23)
CLOSED = "gamma* for k = 3, p = 5, 7, 11, 23, times 16 p^2 / 3"
MARGIN_3 = "margin of the constructed network, k = 3, p = 5, 7"
NUMBER_3 = "neurons of the constructed network, k = 3"


def three_statements(settings: None) -> Sequence[Statement]:
    """Theorem C.21: k = 3."""
    derived = entry("fourier.theoremC_21").derived
    n = np.array(THREE, dtype=float)
    return (
        equal(
            CLOSED,
            REAL,
            n / (n - 1),
            "Theorem C.21: 3 / (16 p (p-1))",
            margin=EXACT,
            axis="p",
            rival=1.0,
            rival_says="p^2 in place of p (p-1)",
        ),
        equal(
            MARGIN_3,
            REAL,
            np.array([derived["gamma_star_p5"], derived["gamma_star_p7"]]),
            "Theorem C.21",
            margin=1e-15,
            axis="p",
            rival=control(FEWER),
            rival_says=FEWER,
        ),
        equal(
            NUMBER_3,
            COUNT,
            16 * (n - 1),
            "Theorem C.21: m = 16 (p-1)",
            axis="p",
            rival=28 * (n - 1),
            rival_says="56 for each frequency",
        ),
    )


def three_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """All points at p = 5 and 7."""
    return {
        CLOSED: np.array([gamma_star(3, p) * 16 * p**2 / 3 for p in THREE]),
        MARGIN_3: np.array([survey(constructed(3, p)).least for p in (5, 7)]),
        FEWER: np.array([survey(without(constructed(3, p), 0)).least for p in (5, 7)]),
        NUMBER_3: np.array([len(constructed(3, p)[0]) for p in THREE]),
    }


# Lemma C.20 ----------------------------------------------------------------------------------------------------------

SPECTRA = ((2, 7), (3, 5), (4, 5))
DIAGONAL = "f^(j, ..., j, -j) over gamma* p^k for j = 1..p-1, constructed and cyclic networks"
REST = "largest other value of f^ with j_(k+1) != 0 over gamma* p^k"
MISSING, LOOSE = "the network without frequency 1", "the largest other value of one neuron fewer"
PER = "neurons of each frequency"


def on_the_diagonal(net: Network) -> tuple[Array, float]:
    """Real parts of f^(j, ..., j, -j) for j = 1..p-1, and the largest size of another value with j_{k+1} != 0."""
    k, p = net[0].shape[1:]
    x, _ = everything(p, k)
    hat = np.fft.fftn(logits(*net, x).reshape(*(p,) * (k + 1)).numpy())
    j = np.arange(1, p)
    at = (*[j] * k, -j % p)
    diagonal, rest = np.real(hat[at]), np.abs(hat)
    rest[at] = 0
    return diagonal, float(rest[..., 1:].max())


def frequency_statements(settings: None) -> Sequence[Statement]:
    """Lemma C.20 and the last point of Theorem 4.9: every frequency is used."""
    lemma, count = "Lemma C.20", sum(p - 1 for _, p in SPECTRA)
    ks = np.array([2.0, 3.0, 4.0])
    return (
        equal(
            DIAGONAL,
            REAL,
            np.ones(2 * count),
            f"{lemma}: gamma* p^k > 0",
            margin=EXACT,
            axis="j",
            rival=control(MISSING),
            rival_says=MISSING,
        ),
        equal(
            REST,
            POSITIVE,
            np.zeros(2 * len(SPECTRA)),
            lemma,
            margin=EXACT,
            axis="(k, p), network",
            rival=control(LOOSE),
            rival_says=FEWER,
        ),
        equal(
            PER,
            COUNT,
            2 ** (2 * ks - 1),
            "Lemma 4.11",
            axis="k",
            rival=2 ** (2 * ks - 2),
            rival_says="half of the sign patterns",
        ),
    )


def frequency_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Every index of the transform over p^(k+1) values."""
    diagonal, missing, rest, loose = [], [], [], []
    for make in (constructed, cyclic):
        for k, p in SPECTRA:
            net, value = make(k, p), gamma_star(k, p) * p**k
            found, other = on_the_diagonal(net)
            diagonal.append(found / value)
            rest.append(other / value)
            missing.append(on_the_diagonal(unit(chosen(net, top_frequency(net[1]) != 1)))[0] / value)
            loose.append(on_the_diagonal(without(net, 0))[1] / value)
    counts = [coverage(top_frequency(constructed(k, p)[1]), p).counts for k, p in ((2, 23), (3, 7), (4, 5))]
    return {
        DIAGONAL: np.concatenate(diagonal),
        MISSING: np.concatenate(missing),
        REST: np.array(rest),
        LOOSE: np.array(loose),
        PER: np.array([float(c.min()) if c.min() == c.max() else 0.0 for c in counts]),
    }


# Lemma C.6 -----------------------------------------------------------------------------------------------------------

OUTSIDE = "margin over gamma* of networks some of whose neurons are outside of the optimal family"
OUT_OF = "distance of their worst neuron from the family"


def only_statements(settings: None) -> Sequence[Statement]:
    """Lemma C.6, read backwards: with a neuron that is not optimal the margin is below gamma*."""
    return (
        at_most(
            OUTSIDE,
            REAL,
            1 - 1e-6,
            "Lemma C.6: every max-margin network uses only optimal neurons",
            axis="network",
            rival=1.0,
            rival_says="as good as the family",
        ),
        at_least(
            OUT_OF,
            POSITIVE,
            0.01,
            "by construction, a premise of the other statement",
            axis="network",
            rival=0.0,
            rival_says="networks of the family",
            form="derived",
        ),
    )


def only_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Max-margin networks with phases off, one vector longer, a neuron of the same size in a random direction, and two
    frequencies in one neuron."""
    nets: list[Network] = []
    for k, p in ((2, 7), (3, 5), (4, 5)):
        nets += [phases_off(k, p, 0.1), uneven(k, p)]
        for make in (constructed, cyclic):
            u, w = (t.clone() for t in make(k, p))
            other = random_network(1, k, p, key / k / p)
            size = float(u[0].square().sum() + w[0].square().sum()) ** 0.5
            u[0], w[0] = other[0][0] * size, other[1][0] * size
            nets.append((u, w))
            u, w = (t.clone() for t in make(k, p))
            u[0], w[0] = (u[0] + u[-1]) / 2**0.5, (w[0] + w[-1]) / 2**0.5
            nets.append(unit((u, w)))
    far = [max(float(v.max()) for v in off_family(net).values()) for net in nets]
    return {OUTSIDE: np.array([ratio_of(net) for net in nets]), OUT_OF: np.array(far)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.best_margin",
        entries=("fourier.theorem4_9",),
        says="gamma* = 2 k! / ((2k+2)^((k+1)/2) (p-1) p^((k-1)/2)) is attained with 2^(2k-2) (p-1) neurons and bounds "
        "E g' of every network of norm 1.",
        settings=draw_norms,
        statements=attained_statements,
        observe=attained_observed,
    ),
    Claim(
        id="fourier.best_margin_k3",
        entries=("fourier.theoremC_21",),
        says="k = 3: gamma* = 3 / (16 p (p-1)), 16 (p-1) neurons.",
        statements=three_statements,
        observe=three_observed,
    ),
    Claim(
        id="fourier.all_frequencies",
        entries=("fourier.lemmaC_20", "fourier.theorem4_9"),
        says="Max-margin networks have f^(j, ..., j, -j) = gamma* p^k > 0 for every j != 0: each frequency is used.",
        statements=frequency_statements,
        observe=frequency_observed,
        remarks="Of networks that are built; those of trained ones near gamma* are in fourier.trained_margin.",
    ),
    Claim(
        id="fourier.only_optimal",
        entries=("fourier.lemmaC_6",),
        says="A network of norm 1 with margin gamma* has optimal neurons only.",
        statements=only_statements,
        observe=only_observed,
        remarks="The first point of Lemma C.6 leaves (x, y) unbound; read with the minimum over data, as the second "
        "point has it. Trained networks near gamma* are in fourier.trained_near_best.",
    ),
)
