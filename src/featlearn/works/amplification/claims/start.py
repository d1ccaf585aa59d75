"""What holds before training: the random start and the geometry of the sample (Lemmas 3 to 6, Definition 7)."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.special import betainc
from scipy.stats import norm
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal, exponent
from featlearn.lab.uncertainty import Derived, Estimate, Law, Observation, mean_of, slope
from featlearn.measure import captures, closest_cluster, matching_neurons
from featlearn.nets import fixed_signs_init
from featlearn.tasks import XorClusters
from featlearn.tasks.xor_clusters import XorTruth
from featlearn.works.amplification.setup import C0, DELTA, LABELS, Data, edge_of_each, edges

M, CONSTANT = 400, 10.0  # neurons, and a C0 that leaves neurons outside the sets
DIMENSIONS = (50, 200, 800)
LAWS = ("gaussian", "laplace", "uniform", "exponential")

# Lemma 3 -------------------------------------------------------------------------------------------------------------


def says_start(settings: None) -> Sequence[Statement]:
    """||w_j|| within omega sqrt(d)/2 and 3 omega sqrt(d)/2; m (1 - 1/(2 C0) - sqrt(2 log(4/delta)/m)) neurons have
    |<w_j, mu>| >= omega/(2 C0). A chi variable of d degrees has deviation 1/sqrt(2), hence 1/sqrt(2 d)."""
    sure = 1 - 1 / (2 * CONSTANT) - math.sqrt(2 * math.log(4 / DELTA) / M)
    return (
        at_most(
            "90 % quantile of max_j | ||w_j||/(omega sqrt(d)) - 1 |",
            POSITIVE,
            np.full(3, 0.5),
            "Lemma 3",
            axis="dimension",
            trivial=np.ones(3),
            trivial_says="neurons at 0",
        ),
        equal(
            "deviation of ||w_j||/(omega sqrt(d)) times sqrt(2 d)",
            POSITIVE,
            np.ones(3),
            "the chi law in the proof of Lemma 3",
            margin=0.05,
            axis="dimension",
            rival=np.full(3, math.sqrt(2)),
            rival_says="1/sqrt(d), the deviation of a mean of d squares over their mean",
            form="derived",
        ),
        at_least(
            "10 % quantile of the share of neurons with |<w_j, mu>| >= omega/(2 C0)",
            SHARE,
            np.full(3, sure),
            "Lemma 3",
            axis="dimension",
            trivial=np.zeros(3),
            trivial_says="neurons at 0",
        ),
        equal(
            "mean share of neurons with |<w_j, mu>| >= omega/(2 C0)",
            SHARE,
            np.full(3, 2 * norm.sf(1 / (2 * CONSTANT))),
            "P(|g| >= 1/(2 C0)) of a Gaussian g",
            margin=0.005,  # half of the way to the rival
            axis="dimension",
            rival=np.full(3, 1 - 1 / (2 * CONSTANT)),
            rival_says="the bound 1 of twice the density, as in eq. (3)",
            form="derived",
        ),
    )


def sees_start(settings: None, key: Key) -> Mapping[str, Observation]:
    """200 starts of 400 neurons in each dimension."""
    worst, spread, few, share = [], [], [], []
    for d in DIMENSIONS:
        norms, above = [], []
        for i in range(200):
            w = fixed_signs_init(M, d, key / d / i, omega=1.0).w[0].double()
            norms.append((w.norm(dim=1) / math.sqrt(d)).numpy())
            above.append(float((w[:, 0].abs() >= 1 / (2 * CONSTANT)).double().mean()))
        worst.append(np.quantile(np.abs(np.array(norms) - 1).max(1), 1 - DELTA))
        spread.append(mean_of(np.std(norms, axis=1, ddof=1) * math.sqrt(2 * d), POSITIVE, "start"))
        few.append(np.quantile(above, DELTA))
        share.append(mean_of(above, SHARE, "start"))
    return {
        "90 % quantile of max_j | ||w_j||/(omega sqrt(d)) - 1 |": np.array(worst),
        "deviation of ||w_j||/(omega sqrt(d)) times sqrt(2 d)": spread,
        "10 % quantile of the share of neurons with |<w_j, mu>| >= omega/(2 C0)": np.array(few),
        "mean share of neurons with |<w_j, mu>| >= omega/(2 C0)": share,
    }


# Lemma 4 -------------------------------------------------------------------------------------------------------------

SETS, WEAK, STARTS = (50, 200), (50, 100, 200, 400, 800, 1600), 200
MEDIAN = norm.isf(0.5 * (1 - math.sqrt(0.5)))
"""Median of the larger of two |normals|: P(|g| < MEDIAN)^2 = 1/2."""


def chance(hits: np.ndarray) -> Estimate:
    """The share of starts that hit."""
    return mean_of(hits.astype(float), SHARE, "start")


def says_sets(settings: None) -> Sequence[Statement]:
    """|J_mu| >= (m/4) (1 - 1/C0)^2, |J| >= m (1 - 1/C0)^2; the square of a cosine is Beta(1/2, (d-1)/2)."""
    bound = np.full(2, (1 - 1 / CONSTANT) ** 2)
    least = [1 / (3 * CONSTANT * math.sqrt(d)) for d in SETS]
    return (
        at_least(
            "share of starts with every |J_mu| >= (m/4)(1 - 1/C0)^2",
            SHARE,
            np.full(2, 1 - DELTA),
            "Lemma 4, with probability 1 - delta",
            axis="dimension",
            rival=control("share of starts with every |J_mu| >= m/4"),
            rival_says="the expected size of a set that takes half of the neurons of its sign",
        ),
        equal(
            "mean |J|/m",
            POSITIVE,
            np.array([1 - betainc(0.5, (d - 1) / 2, v**2) for d, v in zip(SETS, least, strict=True)]),
            "the Beta law of a squared cosine: half of the neurons of each sign have it above and half below 0",
            margin=0.004,
            axis="dimension",
            rival=bound,
            rival_says="the bound of Lemma 4",
            form="derived",
        ),
        equal(
            "sqrt(d) times the median cosine with the closest centre",
            POSITIVE,
            np.full(len(WEAK), MEDIAN),
            "Section 4.1: of order 1/sqrt(d); the constant is the median of the larger of two |normals|",
            margin=0.05,
            axis="dimension",
            rival=np.full(len(WEAK), norm.isf(0.25)),
            rival_says="one mean instead of two",
            form="derived",
        ),
    )


def sees_sets(settings: None, key: Key) -> Mapping[str, Observation]:
    """Sets of 200 starts, and cosines of 12 starts of 1000 neurons in six dimensions."""
    least, half, shares, cosines = [], [], [], []
    for d in SETS:
        truth, smallest, share = XorTruth(torch.eye(d)[:2]), [], []
        for i in range(STARTS):
            net = fixed_signs_init(M, d, key / d / i, omega=0.01)
            own = matching_neurons(net.w, net.a, truth.centres, LABELS, 1 / (3 * CONSTANT * math.sqrt(d)))[0]
            sizes = torch.bincount(own[own >= 0], minlength=4)
            smallest.append(float(sizes.min()) / (M / 4))
            share.append(float(sizes.sum()) / M)
        least.append(chance(np.array(smallest) >= (1 - 1 / CONSTANT) ** 2))
        half.append(chance(np.array(smallest) >= 1))
        shares.append(mean_of(share, POSITIVE, "start"))
    for d in WEAK:
        centres = torch.cat([torch.eye(d)[:2], -torch.eye(d)[:2]])
        starts = [fixed_signs_init(1000, d, key / "weak" / d / i, omega=1.0) for i in range(12)]
        cosines.append([float(closest_cluster(net.w, centres)[0].median()) for net in starts])
    return {
        "share of starts with every |J_mu| >= (m/4)(1 - 1/C0)^2": least,
        "share of starts with every |J_mu| >= m/4": half,
        "mean |J|/m": shares,
        "sqrt(d) times the median cosine with the closest centre": [
            mean_of(row * math.sqrt(v), POSITIVE, "start") for row, v in zip(np.array(cosines), WEAK, strict=True)
        ],
    }


# Lemma 5 -------------------------------------------------------------------------------------------------------------

SAMPLES, DRAWS, C1 = np.array([100.0, 400.0, 1600.0, 6400.0]), 400, 4.0
"""Sample sizes of parts (c) and (d), samples of each, and one C1 >= 2 for all parts and laws; 4 was taken with the
largest distances of these laws in sight, as the lemma gives no value."""


def says_geometry(settings: None) -> Sequence[Statement]:
    """(b) ||x - mu||^2 <= C1 sigma^2 d; flips and clusters deviate like 1/sqrt(n), as (c) and (d) have it."""
    return (
        at_most(
            "(b) max ||x_i - mu||^2 over sigma^2 d",
            POSITIVE,
            np.full(12, C1),
            "Lemma 5, with C1 = 4",
            axis="law, dimension",
            form="criterion",
        ),
        equal(
            "(c) 90 % quantile of |N|/n - eta, over sqrt(eta (1 - eta)/n)",
            REAL,
            np.full(4, norm.isf(DELTA)),
            "the binomial law of |N|",
            margin=0.3,
            axis="sample size",
            rival=norm.isf(DELTA) * np.sqrt(100 / SAMPLES),
            rival_says="a deviation that falls like 1/n",
            form="derived",
        ),
        exponent(
            "(d) exponent in n of max_mu | |I_mu|/n - 1/4 |",
            "equal",
            -0.5,
            "Lemma 5",
            margin=0.05,
            rival=-1.0,
            rival_says="1/n",
        ),
    )


def sees_geometry(settings: None, key: Key) -> Mapping[str, Observation]:
    """2000 samples of each law and dimension; counts of 400 samples of each size."""
    far = []
    for law in LAWS:
        for d in DIMENSIONS:
            task = XorClusters(d, 0.1, 0.15, law=law)
            truth = task.draw(key / law / d)
            batch = task.sample(truth, 2000, key / law / d / "data")
            assert batch.group is not None
            far.append(float((batch.x - truth.centres[batch.group]).square().sum(1).max()) / (0.01 * d))
    flips, shares = deviations(key)
    return {
        "(b) max ||x_i - mu||^2 over sigma^2 d": np.array(far),
        "(c) 90 % quantile of |N|/n - eta, over sqrt(eta (1 - eta)/n)": np.quantile(flips, 1 - DELTA, axis=1)
        / np.sqrt(0.15 * 0.85 / SAMPLES),
        "(d) exponent in n of max_mu | |I_mu|/n - 1/4 |": slope(
            np.repeat(np.log(SAMPLES), DRAWS), np.log(shares).ravel(), "sample"
        ),
    }


def deviations(key: Key) -> tuple[np.ndarray, np.ndarray]:
    """|N|/n - eta and max_mu | |I_mu|/n - 1/4 | of 400 samples of each size, both (sizes, 400)."""
    flips, shares = [], []
    task = XorClusters(2, 0.1, 0.15)
    truth = task.draw(key / "counts")
    for size in SAMPLES.astype(int).tolist():
        batch = task.sample(truth, size * DRAWS, key / "counts" / size)
        assert batch.group is not None
        assert batch.hidden is not None
        flips.append((batch.y != batch.hidden).double().view(DRAWS, size).mean(1).numpy() - 0.15)
        member = torch.nn.functional.one_hot(batch.group, 4).double().view(DRAWS, size, 4).mean(1)
        shares.append((member - 0.25).abs().amax(1).numpy())
    return np.array(flips), np.array(shares)


def says_bounds(settings: None) -> Sequence[Statement]:
    """(a) |<x - mu, mu'>| <= C1 sigma sqrt(d); (c), (d) deviations of at most C1 sqrt(log(1/delta)/n)."""
    rate, weak = C1 * np.sqrt(math.log(1 / DELTA) / SAMPLES), "too weak to test"
    source = "Lemma 5, with C1 = 4"
    return (
        at_most("(a) max |<x_i - mu, mu'>| over sigma sqrt(d)", POSITIVE, C1, source, form="criterion", expect=weak),
        at_most("(c) 90 % quantile of |N|/n - eta", REAL, rate, source, form="criterion", expect=weak),
        at_most("(d) the same of max_mu | |I_mu|/n - 1/4 |", REAL, rate, source, form="criterion", expect=weak),
    )


def sees_bounds(settings: None, key: Key) -> Mapping[str, Observation]:
    """The law of heaviest tails at d = 50, and the counts."""
    task = XorClusters(50, 0.1, 0.15, law="exponential")
    truth = task.draw(key / "means")
    batch = task.sample(truth, 2000, key / "data")
    assert batch.group is not None
    along = ((batch.x - truth.centres[batch.group]) @ truth.features.T).abs().max()
    flips, shares = deviations(key)
    return {
        "(a) max |<x_i - mu, mu'>| over sigma sqrt(d)": float(along) / (0.1 * math.sqrt(50)),
        "(c) 90 % quantile of |N|/n - eta": np.quantile(flips, 1 - DELTA, axis=1),
        "(d) the same of max_mu | |I_mu|/n - 1/4 |": np.quantile(shares, 1 - DELTA, axis=1),
    }


# Lemma 6 -------------------------------------------------------------------------------------------------------------


def draw_sample(d: int, radius: float, n: int, key: Key, scale: float = 1e-3) -> tuple[Data, Tensor, Tensor]:
    """Training data of one seed, the weights of its start, and the set of each neuron."""
    task = XorClusters(d, radius / math.sqrt(d), 0.15)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, n, key / "data")
    assert batch.group is not None
    assert batch.hidden is not None
    net = fixed_signs_init(M, d, key / "start", omega=scale / math.sqrt(M * d))
    own = matching_neurons(net.w, net.a, truth.centres, LABELS, 1 / (3 * CONSTANT * math.sqrt(d)))
    data = Data(batch.x[None], batch.y[None], batch.hidden[None], batch.group[None], truth.centres[None])
    return data, net.w, own


EDGES = ((200, 0.1), (800, 0.1), (200, 0.3))
"""Dimension and sigma sqrt(d)."""


def edge_law(cosine: np.ndarray, sigma: np.ndarray, *, eta: float) -> np.ndarray:
    """(1 - eta)/4 (P(g < cos/sigma) - P(g > cos/sigma)) for a Gaussian g."""
    return np.asarray(0.25 * (1 - eta) * (2 * norm.cdf(cosine / sigma) - 1))


def says_edge(settings: None) -> Sequence[Statement]:
    """A neuron of J_mu fires on more clean samples of mu than of -mu, by n/C2."""
    weakest = [(1 / (3 * CONSTANT * math.sqrt(d)), radius / math.sqrt(d)) for d, radius in EDGES]
    law = Law(edge_law, eta=0.15)
    return (
        equal(
            "(N_mu - N_-mu)/n over clean samples, neuron by neuron",
            REAL,
            law,
            "proof of Lemma 6: binomial counts with p = P(<z, w> > -<w, mu>), Gaussian clusters",
            margin=0.015,  # four standard errors of 10^4 samples
            axis="setting, neuron",
            rival=law.but(eta=0.0),
            rival_says="flipped samples counted as well",
            form="derived",
        ),
        at_least(
            "least edge of the sets J_mu, over n",
            REAL,
            np.array([0.5 * edge_law(np.array(c), np.array(s), eta=0.15) for c, s in weakest]),
            "Lemma 6: n/C2, where 2/C2 is the expected edge of the weakest neuron that the sets admit",
            axis="setting",
            trivial=np.zeros(3),
            trivial_says="neurons that do not depend on the cluster",
            form="criterion",
        ),
    )


def sees_edge(settings: None, key: Key) -> Mapping[str, Observation]:
    """10^4 samples and 400 neurons in three settings."""
    seen, cosines, sizes, least, n = [], [], [], [], 10_000
    for d, radius in EDGES:
        data, w, own = draw_sample(d, radius, n, key / d / str(radius))
        inside = own[0] >= 0
        mine = own[0][inside]
        edge = edge_of_each(w, own, data)[0, inside]
        cos = (w[0] @ data.centres[0].T / w[0].norm(dim=1, keepdim=True))[inside].gather(1, mine[:, None])
        seen.append(edge.double().numpy())
        cosines.append(cos[:, 0].double().numpy())
        sizes.append(np.full(len(mine), radius / math.sqrt(d)))
        least.append(seen[-1].min())
    covariates = {"cosine": np.concatenate(cosines), "sigma": np.concatenate(sizes)}
    return {
        "(N_mu - N_-mu)/n over clean samples, neuron by neuron": Derived(np.concatenate(seen), covariates),
        "least edge of the sets J_mu, over n": np.array(least),
    }


# Definition 7 --------------------------------------------------------------------------------------------------------

RUNS = 40


def draw_neurons(key: Key) -> tuple[Tensor, Data]:
    """400 neurons, four of them on the centres, and 300 samples of wide clusters in 20 dimensions."""
    data, w, _ = draw_sample(20, 0.5, 300, key)
    w[0, :4] = data.centres[0]
    return w, data


def says_captures(settings: tuple[Tensor, Data]) -> Sequence[Statement]:
    """Captures: active on every sample of the cluster, by a slow count; a good run has the events of Lemmas 3 to 6."""
    w, data = settings
    on = [[data.x[0][data.group[0] == c].double() @ w[0, j].double() > 0 for c in range(4)] for j in range(M)]
    return (
        equal(
            "captured clusters",
            SHARE,
            np.array([[float(v.all()) for v in row] for row in on]),
            "Section 4.1",
            axis="neuron, cluster",
            rival=np.array([[float(v.double().mean() > 0.5) for v in row] for row in on]),
            rival_says="active on most samples",
        ),
        equal(
            "clusters captured by neurons on the centres",
            SHARE,
            np.eye(4),
            "Section 4.1",
            axis="neuron, cluster",
            rival=np.ones((4, 4)),
            rival_says="all clusters",
        ),
        at_least(
            "share of good runs, sigma sqrt(d) = 0.1",
            SHARE,
            1 - 4 * DELTA,
            "Section 4.1: with probability 1 - 4 delta; C0 = 10, C1 = 2, C2 = 200",
            rival=control("share of good runs at the sigma of Figure 2"),
            rival_says="the sigma of Figure 2, outside A2",
            form="criterion",
        ),
    )


def good_run(d: int, radius: float, n: int, key: Key) -> bool:
    """Whether one start and sample have the events of Lemmas 3 to 6, with C0 = 10, C1 = 2 and an edge of n/200."""
    data, w, own = draw_sample(d, radius, n, key)
    along = (w[0] @ data.centres[0].T).abs() >= 1e-3 / math.sqrt(M * d) / (2 * CONSTANT)
    few = 1 - 1 / (2 * CONSTANT) - math.sqrt(2 * math.log(4 / DELTA) / M)
    sizes = torch.bincount(own[own >= 0], minlength=4) / (M / 4)
    norms = w[0].norm(dim=1) / (1e-3 / math.sqrt(M))
    slack = 2 * math.sqrt(math.log(1 / DELTA) / n)
    z = data.x[0] - data.centres[0][data.group[0]]
    return all(
        (
            bool((norms > 0.5).all() and (norms < 1.5).all()),
            bool((along.double().mean(0) >= few).all()),
            bool((sizes >= (1 - 1 / CONSTANT) ** 2).all()),
            bool(z.norm(dim=1).max() <= math.sqrt(2) * radius),
            float(data.flipped.double().mean()) <= 0.15 + slack,
            bool((torch.bincount(data.group[0], minlength=4) / n - 0.25).abs().max() <= slack),
            float(edges(w, own, data)[0]) >= 1 / 200,
        )
    )


def sees_captures(settings: tuple[Tensor, Data], key: Key) -> Mapping[str, Observation]:
    """The measure, and 40 runs at two sigma."""
    w, data = settings
    found = captures(w, data.x, data.group, 4)[0].double().numpy()
    runs = {
        name: [float(good_run(200, radius, 2000, key / name / i)) for i in range(RUNS)]
        for name, radius in (("tight", 0.1), ("reported", 200**-0.1))
    }
    return {
        "captured clusters": found,
        "clusters captured by neurons on the centres": found[:4],
        "share of good runs, sigma sqrt(d) = 0.1": mean_of(runs["tight"], SHARE, "run"),
        "share of good runs at the sigma of Figure 2": mean_of(runs["reported"], SHARE, "run"),
    }


NOT_GIVEN = "C1, C2 and the C of A1 to A7 are not given"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="amplification.lemma3",
        entries=("amplification.lemma3",),
        says="omega sqrt(d)/2 <= ||w_j|| <= 3 omega sqrt(d)/2 for all j, and at least m (1 - 1/(2 C0) - "
        "sqrt(2 log(4/delta)/m)) neurons have |<w_j, mu>| >= omega/(2 C0).",
        statements=says_start,
        observe=sees_start,
    ),
    Claim(
        id="amplification.lemma4",
        entries=("amplification.lemma4",),
        says="Each set J_mu holds at least (m/4)(1 - 1/C0)^2 neurons; cosines at the start are ~ 1/sqrt(d).",
        statements=says_sets,
        observe=sees_sets,
        premises=(
            Premise(
                "m large enough",
                None,
                f"no number is given; with {16 * CONSTANT**2 * math.log(32 / DELTA):.0f} the proof works, {M} here",
            ),
        ),
    ),
    Claim(
        id="amplification.lemma5",
        entries=("amplification.lemma5",),
        says="||x_i - mu||^2 <= C1 sigma^2 d for every sample and its centre; flips and clusters are balanced up to "
        "C1 sqrt(log(1/delta)/n).",
        statements=says_geometry,
        observe=sees_geometry,
        remarks="One universal C1 of at least 2 serves the distance in (a) and its square in (b); C1 = 4 is ours.",
    ),
    Claim(
        id="amplification.lemma5_bounds",
        entries=("amplification.lemma5",),
        says="Projections on means deviate by at most C1 sigma sqrt(d), counts by at most C1 sqrt(log(1/delta)/n).",
        statements=says_bounds,
        observe=sees_bounds,
        remarks="sigma sqrt(d) is the length of the whole deviation, its part along one mean a few sigma; counts "
        "deviate by their binomial standard deviation (amplification.lemma5).",
    ),
    Claim(
        id="amplification.lemma6",
        entries=("amplification.lemma6",),
        says="A neuron of J_mu fires on more clean samples of mu than of -mu, by n/C2.",
        statements=says_edge,
        observe=sees_edge,
        premises=(
            Premise("C0 sigma sqrt(d) <= 3 (proof)", CONSTANT * max(r for _, r in EDGES) <= 3 + 1e-9, "1 and 3"),
            Premise("C2 and the C of A1 to A7", None, NOT_GIVEN),
        ),
    ),
    Claim(
        id="amplification.captures",
        entries=("amplification.captures",),
        says="A neuron captures a cluster if it is active on all of its samples; runs are good with probability "
        "1 - 4 delta.",
        settings=draw_neurons,
        statements=says_captures,
        observe=sees_captures,
        premises=(Premise("C large enough", None, NOT_GIVEN),),
        remarks=f"The C0 of the definition, {C0:.2g}, puts every neuron into a set at any size; C0 = 10 is used.",
    ),
)
