"""The loss with its least value, margins, the saddle: identities that can fail.

Predictions are written out from the weights by numpy, observations are the engine's.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.optimize import linprog, minimize_scalar

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.measure import class_weighted_margins, margins
from featlearn.nets.power import PowerNetwork
from featlearn.works.fourier.claims.by_hand import Array, margins_by_hand, neurons_by_hand, weighted_by_hand
from featlearn.works.fourier.claims.exact import (
    best_on_ray,
    everything,
    loss,
    random_cosines,
    random_network,
    scaled,
    survey,
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
    minimum,
    neuron_margins,
    setting_of,
)

EXACT = 1e-12
SCALE = 1.7
FEWER = "one neuron fewer"


# the objective -------------------------------------------------------------------------------------------------------

ATTAINED = ((2, 7, 0.005), (2, 23, 0.005), (3, 5, 0.01), (3, 7, 0.005))
RAYS = (2, 7, 0.005)


def least(k: int, p: int, lam: float, wrong: int = 1) -> float:
    """min over c >= 0 of log(1 + (p - wrong) exp(-g c^(k+1))) + lam c, with g of Theorem 4.9."""
    g = 2 * math.factorial(k) / ((2 * k + 2) ** ((k + 1) / 2) * (p - 1) * p ** ((k - 1) / 2))

    def at(c: float) -> float:
        return float(np.logaddexp(0.0, math.log(p - wrong) - g * c ** (k + 1))) + lam * c

    grid = np.linspace(0, math.log(p) / lam, 4001)
    near = grid[int(np.argmin([at(c) for c in grid]))]
    ends = (max(near - grid[1], 0), near + grid[1])
    found = minimize_scalar(at, bounds=ends, options={"xatol": 1e-10}, method="bounded")
    return min(float(found.fun), at(0.0))


def draw_rays(key: Key) -> tuple[Network, ...]:
    """Networks of norm 1 at k = 2, p = 7: the best one with more and more noise, cosines, Gaussian weights."""
    k, p, _ = RAYS
    best = constructed(k, p)
    noise = random_network(len(best[0]), k, p, key / "noise")
    near = [unit((best[0] + s * noise[0], best[1] + s * noise[1])) for s in (0.0, 0.1, 0.3, 1.0, 3.0)]
    loose = [random_cosines(24, k, p, key / "cosines" / i) for i in range(5)]
    return (*near, *loose, *(random_network(24, k, p, key / "random" / i) for i in range(5)))


def objective_statements(settings: tuple[Network, ...]) -> Sequence[Statement]:
    """Definition 4.1: the least value of the objective in closed form, the gradient of the penalty."""
    oracle = entry("fourier.definition4_1").verified_by_hand["oracle_values"]
    source = "Definition 4.1, by Jensen over wrong classes, then over points, then the class-weighted margin"
    value = np.array([least(*s) for s in ATTAINED])
    u, w = (t.numpy() for t in settings[-1])
    n = np.sqrt((u**2).sum((1, 2)) + (w**2).sum(1))[:, None, None]
    size, k = float((n**3).sum() ** (1 / 3)), 2
    hand = "the inventory, worked out by hand"
    return (
        equal(
            "c*",
            POSITIVE,
            np.array([v["c"] for v in oracle.values()]),
            hand,
            margin=6e-4,
            axis="setting",
            rival=np.array([v["c"] for v in oracle.values()]) * 2 ** (1 / 3),
            rival_says="gamma* of half the size at k = 2",
            form="derived",
        ),
        equal(
            "L",
            POSITIVE,
            np.array([v["Lmin"] for v in oracle.values()]),
            hand,
            margin=6e-8,
            axis="setting",
            rival=np.array([least(*setting_of(name), wrong=0) for name in oracle]),
            rival_says="p wrong classes",
            form="derived",
        ),
        equal(
            "loss of the constructed network scaled to c*, over all points",
            POSITIVE,
            value,
            source,
            margin=1e-10,
            axis="setting",
            rival=np.array([least(*s, wrong=0) for s in ATTAINED]),
            rival_says="p wrong classes",
            form="derived",
        ),
        at_least(
            "least loss along the rays of 15 networks, k = 2, p = 7",
            POSITIVE,
            least(*RAYS),
            source,
            margin=1e-9,
            axis="network",
            form="derived",
        ),
        equal(
            "gradient of lam |theta|",
            REAL,
            2.0 * size**-k * n ** (k - 1) * u,
            "Definition 4.1: lam |theta|^-k n_i^(k-1) theta_i",
            margin=EXACT,
            axis="entry",
            rival=2.0 * size**-k * n ** (k - 2) * u,
            rival_says="n_i^(k-2)",
            form="derived",
        ),
    )


def objective_observed(settings: tuple[Network, ...], key: Key) -> Mapping[str, Observation]:
    """The closed form as the engine has it, losses over all points, and the slope of the engine's norm."""
    names = entry("fourier.definition4_1").verified_by_hand["oracle_values"]
    ours = np.array([minimum(*setting_of(name)) for name in names])
    u, w = (t.clone().requires_grad_() for t in settings[-1])
    norm = torch.linalg.vector_norm(PowerNetwork(u, w).neuron_norms(), 3)
    return {
        "c*": ours[:, 0],
        "L": ours[:, 1],
        "loss of the constructed network scaled to c*, over all points": np.array(
            [loss(scaled(constructed(k, p), minimum(k, p, lam)[0]), lam) for k, p, lam in ATTAINED]
        ),
        "least loss along the rays of 15 networks, k = 2, p = 7": np.array(
            [best_on_ray(net, RAYS[2]) for net in settings]
        ),
        "gradient of lam |theta|": torch.autograd.grad(2.0 * norm, u)[0].numpy(),
    }


# margins -------------------------------------------------------------------------------------------------------------


def draw_margin(key: Key) -> tuple[Array, Array, Network]:
    """Logits with labels, and a network."""
    g = key.numpy()
    return g.standard_normal((50, 6)), g.integers(0, 6, 50), random_network(9, 3, 5, key / "net")


def margin_statements(settings: tuple[Array, Array, Network]) -> Sequence[Statement]:
    """Definitions 4.2 and 4.3."""
    f, y, net = settings
    phi, labels_ = neurons_by_hand(net)
    each = margins_by_hand(phi.sum(0), labels_)
    h, c, k = float(each.min()), SCALE, net[0].shape[1]
    return (
        equal(
            "g",
            REAL,
            margins_by_hand(f, y),
            "Definition 4.2",
            margin=EXACT,
            axis="point",
            rival=f[np.arange(50), y] - f.max(1),
            rival_says="the maximum over all classes",
        ),
        equal("h", REAL, h, "Definition 4.3", margin=EXACT, rival=float(each.mean()), rival_says="the mean"),
        equal(
            "h(c theta)",
            REAL,
            c ** (k + 1) * h,
            "Definition 4.3 and Eq. (4.2)",
            margin=EXACT,
            rival=c**k * h,
            rival_says="degree k",
        ),
    )


def margin_observed(settings: tuple[Array, Array, Network], key: Key) -> Mapping[str, Observation]:
    """The measure, and the survey of all points."""
    f, y, net = settings
    found = margins(torch.from_numpy(f), torch.from_numpy(y)).numpy()
    return {"g": found, "h": survey(net).least, "h(c theta)": survey(scaled(net, SCALE)).least}


LAWS = "least E_q g over all laws q of the data"
UNIT = "h(theta / |theta|)"


def draw_networks(key: Key) -> tuple[Network, ...]:
    """Random networks and one that is nearly the best, k = 2, p = 5; the first is three times as large."""
    nets = [random_network(8, 2, 5, key / i) for i in range(5)]
    return (scaled(nets[0], 3.0), *nets[1:], without(constructed(2, 5), 0))


def normalised_statements(settings: tuple[Network, ...]) -> Sequence[Statement]:
    """Definition 4.4: the margin is the least expected margin over laws of the data; its normalisation."""
    k, found = 2, []
    for net in settings:
        phi, y = neurons_by_hand(net)
        found.append(margins_by_hand(phi.sum(0), y))
    h, mean = np.array([g.min() for g in found]), np.array([g.mean() for g in found])
    sizes = [((n[0] ** 2).sum((1, 2)) + (n[1] ** 2).sum(1)).numpy() for n in settings]
    norm = np.array([float((s ** ((k + 1) / 2)).sum() ** (1 / (k + 1))) for s in sizes])
    return (
        equal(
            LAWS,
            REAL,
            h,
            "Definition 4.4, Eq. (4.3)",
            margin=1e-9,
            axis="network",
            rival=mean,
            rival_says="the uniform law",
        ),
        equal(
            UNIT,
            REAL,
            h / norm ** (k + 1),
            "Definition 4.4: h(theta) / |theta|^(k+1)",
            margin=EXACT,
            axis="network",
            rival=h / norm**k,
            rival_says="|theta|^k",
        ),
    )


def normalised_observed(settings: tuple[Network, ...], key: Key) -> Mapping[str, Observation]:
    """A linear program over the laws, and the survey of the network of norm 1."""
    low = []
    for net in settings:
        x, y = everything(5, 2)
        each = margins(logits(*net, x), y).numpy()
        low.append(linprog(each, A_eq=np.ones((1, len(each))), b_eq=[1.0], bounds=(0, None)).fun)
    return {LAWS: np.array(low), UNIT: np.array([survey(unit(net)).least for net in settings])}


EQUAL_MARGINS = "g under theta* over gamma*, every point, k = 2, p = 7 and k = 3, p = 5"
BEST = "E_q g(theta) over gamma* of networks of norm 1"
SADDLES = ((2, 7), (3, 5))


def draw_saddle(key: Key) -> tuple[tuple[Network, ...], ...]:
    """For each (k, p) networks of norm 1, the last of them theta*."""
    made = []
    for k, p in SADDLES:
        best = constructed(k, p)
        nets = [random_network(12, k, p, key / k / i) for i in range(8)]
        nets += [random_cosines(12, k, p, key / k / "c" / i, off) for i, off in enumerate((0.0, 0.0, 0.5, 1.5))]
        for i in range(4):
            n = random_network(len(best[0]), k, p, key / k / "n" / i)
            nets.append(unit((best[0] + 0.2 * n[0], best[1] + 0.2 * n[1])))
        made.append((*nets, best))
    return tuple(made)


def saddle_statements(settings: tuple[tuple[Network, ...], ...]) -> Sequence[Statement]:
    """Definition 4.5: with the uniform law on all points theta* is best, and the uniform law is worst for theta*."""
    points_ = sum(p**k for k, p in SADDLES)
    return (
        equal(
            EQUAL_MARGINS,
            REAL,
            np.ones(points_),
            "Definition 4.5: mass only on points of the least margin; Theorem 4.9",
            margin=EXACT,
            axis="point",
            rival=control(FEWER),
            rival_says=FEWER,
        ),
        at_most(
            BEST,
            REAL,
            1.0,
            "Definition 4.5: theta* maximises the expected margin, by the sentence after Eq. (4.4)",
            margin=EXACT,
            axis="network",
        ),
    )


def saddle_observed(settings: tuple[tuple[Network, ...], ...], key: Key) -> Mapping[str, Observation]:
    """Every point of both tasks."""
    under, fewer, value = [], [], []
    for (k, p), nets in zip(SADDLES, settings, strict=True):
        x, y = everything(p, k)
        top = gamma_star(k, p)
        under.append(margins(logits(*nets[-1], x), y).numpy() / top)
        fewer.append(margins(logits(*without(nets[-1], 0), x), y).numpy() / top)
        value += [float(margins(logits(*net, x), y).mean()) / top for net in nets]
    return {
        EQUAL_MARGINS: np.concatenate(under),
        FEWER: np.concatenate(fewer),
        BEST: np.array(value),
    }


def draw_weighted(key: Key) -> Network:
    """Nine neurons for k = 3, p = 5."""
    return random_network(9, 3, 5, key)


def weighted_statements(settings: Network) -> Sequence[Statement]:
    """Definition 4.6: above the margin at every point, additive over neurons."""
    phi, y = neurons_by_hand(settings)
    f, source = phi.sum(0), "Definition 4.6"
    g, each = margins_by_hand(f, y), np.array([weighted_by_hand(part, y).mean() for part in phi])
    right = np.array([part[np.arange(len(y)), y].mean() for part in phi])

    def same(name: str, value: Array | float, rival: Array | float, says: str, axis: str = "") -> Statement:
        return equal(name, REAL, value, source, margin=EXACT, axis=axis, rival=rival, rival_says=says)

    alone = "the right class alone"
    return (
        same("g' with uniform weights", weighted_by_hand(f, y), g, "g", "point"),
        at_least("g' at every point", REAL, g, f"{source}: at least g", axis="point"),
        same("E g' of the network, by spectra", float(each.sum()), float(right.sum()), alone),
        same("E g' of each neuron, by spectra", each, right, alone, "neuron"),
    )


def weighted_observed(settings: Network, key: Key) -> Mapping[str, Observation]:
    """The measure at every point, and the spectra."""
    k, p = settings[0].shape[1:]
    x, y = everything(p, k)
    each = class_weighted_margins(logits(*settings, x), y).numpy()
    return {
        "g' with uniform weights": each,
        "g' at every point": each,
        "E g' of the network, by spectra": class_weighted_margin(*settings),
        "E g' of each neuron, by spectra": neuron_margins(*settings).numpy(),
    }


CONDITION = ((2, 5), (2, 7), (2, 13), (3, 3), (3, 5), (3, 7), (4, 5), (4, 7), (5, 5))
LOOSE = "networks of optimal neurons with random phases and shares"


def condition_statements(settings: None) -> Sequence[Statement]:
    """Condition 4.8: all wrong logits of a point are equal."""
    return tuple(
        equal(
            f"largest difference of two wrong logits over gamma*, {name} network",
            POSITIVE,
            np.zeros(len(CONDITION)),
            "Condition 4.8 with uniform weights",
            margin=EXACT,
            axis="(k, p)",
            rival=control(LOOSE),
            rival_says=LOOSE,
        )
        for name in ("constructed", "cyclic")
    )


def condition_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """All points."""
    makes = {"constructed": constructed, "cyclic": cyclic}
    seen: dict[str, Observation] = {
        f"largest difference of two wrong logits over gamma*, {name} network": np.array(
            [survey(make(k, p)).spread / gamma_star(k, p) for k, p in CONDITION]
        )
        for name, make in makes.items()
    }
    loose = [survey(random_cosines(2 * p, k, p, key / k / p)).spread / gamma_star(k, p) for k, p in CONDITION]
    return {**seen, LOOSE: np.array(loose)}


LAMBDAS = (0.1, 0.03, 0.01, 1e-3, 1e-5, 1e-7)
LOWEST = "margin over gamma* of the ray with the least loss, for each lambda"
NEXT = "margin of the ray with the second least loss"


def draw_noisy(key: Key) -> tuple[Network, ...]:
    """theta* of k = 2, p = 7 with more and more noise, norm 1, in a random order."""
    best = constructed(2, 7)
    noise = random_network(len(best[0]), 2, 7, key)
    rays = [unit((best[0] + s * noise[0], best[1] + s * noise[1])) for s in (0.0, 0.02, 0.05, 0.1, 0.3, 1.0)]
    return tuple(rays[i] for i in (key / "order").numpy().permutation(len(rays)))


def regularised_statements(settings: tuple[Network, ...]) -> Sequence[Statement]:
    """Lemma 4.7; with all points and an exact penalty the margin is gamma* at every lambda."""
    return (
        equal(
            LOWEST,
            REAL,
            np.ones(len(LAMBDAS)),
            "Lemma 4.7, and by the least loss in closed form at every lambda",
            margin=1e-9,
            axis="lambda",
            rival=control(NEXT),
            rival_says="the next ray",
            form="derived",
        ),
    )


def regularised_observed(settings: tuple[Network, ...], key: Key) -> Mapping[str, Observation]:
    """Least losses along the rays, and margins over all points."""
    ratio = np.array([survey(net).least / gamma_star(2, 7) for net in settings])
    order = [np.argsort([best_on_ray(net, lam) for net in settings]) for lam in LAMBDAS]
    return {LOWEST: np.array([ratio[o[0]] for o in order]), NEXT: np.array([ratio[o[1]] for o in order])}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="fourier.objective",
        entries=("fourier.definition4_1",),
        says="mean CE + lam |theta|_{2, k+1} has the global minimum min_c log(1 + (p-1) exp(-gamma* c^(k+1))) + lam c, "
        "attained by the constructed network.",
        settings=draw_rays,
        statements=objective_statements,
        observe=objective_observed,
    ),
    Claim(
        id="fourier.margin",
        entries=("fourier.definition4_2", "fourier.definition4_3"),
        says="g = f[y] - max wrong logit; h = min g over all points; h is homogeneous of degree k + 1.",
        settings=draw_margin,
        statements=margin_statements,
        observe=margin_observed,
    ),
    Claim(
        id="fourier.normalised_margin",
        entries=("fourier.definition4_4",),
        says="h(theta) = min over laws q of E_q g; normalised margin h / |theta|^(k+1).",
        settings=draw_networks,
        statements=normalised_statements,
        observe=normalised_observed,
    ),
    Claim(
        id="fourier.saddle",
        entries=("fourier.definition4_5",),
        says="Uniform q over all points and theta* are a saddle of E_q g(theta): theta* maximises over unit theta.",
        settings=draw_saddle,
        statements=saddle_statements,
        observe=saddle_observed,
        remarks="Eq. (4.4) and Eq. (C.1) write arg min over theta; the sentence after (4.4) has theta* maximise the "
        "expected margin, as every proof uses it, and so it is read. In the proofs of Lemmas C.17 and C.18 "
        "'unif(Z_p)' is read as the uniform law of the points, on Z_p^k.",
    ),
    Claim(
        id="fourier.class_weighted",
        entries=("fourier.definition4_6",),
        says="g' >= g at every point; E g' is a sum over neurons.",
        settings=draw_weighted,
        statements=weighted_statements,
        observe=weighted_observed,
        remarks="psi' in Lemmas C.5 and C.6 is not defined there; read as g' of a single neuron.",
    ),
    Claim(
        id="fourier.regularised",
        entries=("fourier.lemma4_7",),
        says="The normalised margin of minimisers tends to gamma* as lambda -> 0; here it is gamma* at every lambda "
        "with a minimum above 0.",
        settings=draw_noisy,
        statements=regularised_statements,
        observe=regularised_observed,
    ),
    Claim(
        id="fourier.condition",
        entries=("fourier.condition4_8",),
        says="All p - 1 wrong logits of a max-margin network are equal at every point.",
        statements=condition_statements,
        observe=condition_observed,
    ),
)
