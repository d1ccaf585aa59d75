"""Balancing the margins in phase 2: what shrinks, how fast any neuron can grow, and what bounds the loss derivative."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.linalg import norm

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.works.xor_sgd.claims.clean import (
    EXACT,
    ZETA,
    D,
    H,
    along,
    clean_gradients,
    heavy,
    measured_margins,
    measured_sizes,
    population_gradients,
    projections,
    sizes,
)
from featlearn.works.xor_sgd.setup import ROOT2, TAU2, Array, Net, centres, heavy_net

# Lemma D.7 and Corollary D.8 -----------------------------------------------------------------------------------------


def draw_d7(key: Key) -> list[tuple[Net, Array]]:
    """40 networks of heavy neurons with ||perp||/||opp|| from 1e-3 to 1e3, and g from exp(-H) to 1 at the centres."""
    rng = key.numpy()
    found = []
    for i in range(40):
        share = 10 ** rng.uniform(-3, 3)
        opp = 0.9 * ZETA / (1 + math.exp(6 * H) * share)
        g = np.exp(-rng.uniform(0, H, 4)) if i % 4 else np.full(4, math.exp(-H))
        found.append((heavy_net(16, D, key / i, opp=opp, perp=opp * share), g))
    return found


def d7_statements(drawn: list[tuple[Net, Array]]) -> tuple[Statement, ...]:
    """The bounds of Lemma D.7, and the decay of Corollary D.8."""
    opp, grown, perp, lone = [], [], [], []
    for net, g in drawn:
        size, rest = norm(net.opp, axis=1), norm(net.perp, axis=1)
        mixes = (np.abs(projections(net)) >= ROOT2 * size).mean(0)
        grown.append(-ROOT2 / 4 * g.max() * mixes * size)
        opp.append(ROOT2 / 8 * g.min() * size + grown[-1])
        lone.append(-ZETA * rest)
        perp.append(ROOT2 / 8 * g.min() * mixes * rest + lone[-1])
    return (
        at_least(
            "w_opp . clean grad_w / |a|",
            REAL,
            np.concatenate(opp),
            "Lemma D.7, opposite part",
            axis="neuron",
            margin=1e-15,
            rival=np.concatenate(grown),
            rival_says="without the first term: nothing shrinks w_opp",
        ),
        at_least(
            "w_perp . clean grad_w / |a|",
            REAL,
            np.concatenate(perp),
            "Lemma D.7, orthogonal part; its constant c, not legible in our copy, is sqrt(2)/8 by E|w.xi| >= "
            "||w_perp|| / sqrt(2) (Khintchine's inequality with Szarek's constant) in the last step of the proof",
            axis="neuron",
            margin=1e-15,
            rival=np.concatenate(lone),
            rival_says="without the term in X: nothing shrinks w_perp",
            form="derived",
        ),
        at_least(
            "decay of ||w_opp|| + exp(6 H) ||w_perp|| over itself",
            REAL,
            ZETA,
            "Corollary D.8 with power 1 of zeta; the power is not legible in our copy",
            axis="neuron",
            rival=control("decay of ||w_opp|| alone"),
            rival_says="without the weights: w_opp alone would shrink",
        ),
    )


def d7_observe(drawn: list[tuple[Net, Array]], key: Key) -> dict[str, Array]:
    """From clean gradients at the given g; decays are a unit of time and of |a|."""
    weight = math.exp(6 * H)
    opp, perp, whole, alone = [], [], [], []
    for net, g in drawn:
        gw, _ = clean_gradients(net, g)
        a, size, rest = np.abs(net.a), norm(net.opp, axis=1), norm(net.perp, axis=1)
        opp.append(along(net.opp, gw) / a)
        perp.append(along(net.perp, gw) / a)
        whole.append((opp[-1] + weight * perp[-1]) / (size + weight * rest))
        alone.append(opp[-1] / size)
    return {
        "w_opp . clean grad_w / |a|": np.concatenate(opp),
        "w_perp . clean grad_w / |a|": np.concatenate(perp),
        "decay of ||w_opp|| + exp(6 H) ||w_perp|| over itself": np.concatenate(whole),
        "decay of ||w_opp|| alone": np.concatenate(alone),
    }


# Lemmas D.10 and D.11 ------------------------------------------------------------------------------------------------

ETA = ZETA**3


@dataclass(frozen=True)
class Growth:
    """nets, g: neurons with g at the four centres, two arrays of equal length. alone: one neuron along each centre.

    trained: a signal-heavy network with small neurons outside of S.
    """

    nets: tuple[Net, ...]
    g: tuple[Array, ...]
    alone: Net
    trained: Net


def draw_growth(key: Key) -> Growth:
    """60 sets of 40 random neurons, from those in the signal plane to those spread over all coordinates."""
    rng, nets, g = key.numpy(), [], []
    for _ in range(60):
        w = rng.normal(size=(40, D)) * np.concatenate([np.ones(2), np.full(D - 2, 10 ** rng.uniform(-3, 0))])
        nets.append(Net(w, rng.choice([-1.0, 1.0], 40)))
        g.append(rng.uniform(0, 1, 4) ** rng.uniform(0, 3))
    kept = heavy_net(36, D, key / "heavy", opp=0.4 * ZETA, perp=0.4 * ZETA * math.exp(-6 * H))
    small = 1e-4 * rng.normal(size=(4, D))
    trained = Net(np.concatenate([kept.w, small]), np.concatenate([kept.a, norm(small, axis=1) * [1, 1, -1, -1]]))
    return Growth(tuple(nets), tuple(g), Net(centres(D), np.array([1.0, 1, -1, -1])), trained)


def growth_statements(drawn: Growth) -> tuple[Statement, ...]:
    """tau g_max ||w||, and 2 (1 + 2 zeta H) tau g_max a unit of time."""
    bound = np.concatenate([TAU2 * g.max() * net.norm for net, g in zip(drawn.nets, drawn.g, strict=True)])
    return (
        at_most("|clean grad_a|", POSITIVE, bound, "Lemma D.10", axis="neuron", margin=EXACT),
        at_most("|w . clean grad_w / a|", POSITIVE, bound, "Lemma D.10", axis="neuron", margin=EXACT),
        equal(
            "|clean grad_a| along a centre",
            POSITIVE,
            TAU2 * drawn.alone.norm,
            "Lemma D.10, last line of its proof: the largest value is at w along mu",
            axis="centre",
            margin=EXACT,
            rival=drawn.alone.norm / 2,
            rival_says="the rate 1/2",
        ),
        at_most(
            "growth of ||w||^2 over itself, a unit of time",
            REAL,
            2 * (1 + 2 * ZETA * H) * TAU2 * sizes(drawn.trained).max(),
            "Lemma D.11",
            axis="neuron",
        ),
    )


def growth_observe(drawn: Growth, key: Key) -> dict[str, Array]:
    """Clean gradients at the given g; one step of size zeta^3 along the population gradient of the heavy network."""
    found = [(net, *clean_gradients(net, g)) for net, g in zip(drawn.nets, drawn.g, strict=True)]
    gw, _ = population_gradients(drawn.trained)
    w = drawn.trained.w
    return {
        "|clean grad_a|": np.concatenate([np.abs(ga) for _, _, ga in found]),
        "|w . clean grad_w / a|": np.concatenate([np.abs(along(net.w, gw) / net.a) for net, gw, _ in found]),
        "|clean grad_a| along a centre": np.abs(clean_gradients(drawn.alone, np.ones(4))[1]),
        "growth of ||w||^2 over itself, a unit of time": (ETA * along(gw, gw) - 2 * along(w, gw)) / along(w, w),
    }


def growth_premises(drawn: Growth) -> tuple[Premise, ...]:
    """Lemma D.11 is for signal-heavy networks and small steps; it allows for the error of a minibatch."""
    return (
        Premise("(zeta, H)-signal-heavy network, H = 1 and zeta = exp(-10)", heavy(drawn.trained)),
        Premise("eta <= zeta^3", ETA <= ZETA**3, "the population gradient: a minibatch without its error"),
    )


# Eq. (D.1) -----------------------------------------------------------------------------------------------------------

MASSES = (0.25, 1.0, 4.0, 9.0, 16.0)


def one_direction(mass: float, sign: float = 1.0) -> Net:
    """One neuron along mu_1 of mass H_rho; sign = -1 votes for the wrong label."""
    w = np.zeros((1, 4))
    w[0, :2] = math.sqrt(mass) / ROOT2 * np.array([1, -1])
    return Net(w, np.array([sign * math.sqrt(mass)]))


@dataclass(frozen=True)
class Networks:
    """nets: unbalanced ones, also of wrong labels. balanced: all four margins are equal."""

    nets: tuple[Net, ...]
    balanced: tuple[Net, ...]


def draw_networks(key: Key) -> Networks:
    """One neuron of five masses, right and wrong; four clusters of five sizes, unequal and equal."""
    nets = [one_direction(h, sign) for sign in (1.0, -1.0) for h in MASSES]
    nets += [heavy_net(12, 6, key / i, size=s, opp=0.3, perp=0.3) for i, s in enumerate((0.3, 1.0, 2.0, 3.0))]
    even = [math.sqrt(h) / ROOT2 * centres(4) for h in MASSES]
    return Networks(tuple(nets), tuple(Net(w, norm(w, axis=1) * [1, 1, -1, -1]) for w in even))


def gmin_statements(drawn: Networks) -> tuple[Statement, ...]:
    """As reported, for every network; as corrected by ||mu|| = sqrt(2); and where the margins are balanced."""
    mass, even = (np.array([net.mass for net in nets]) for nets in (drawn.nets, drawn.balanced))
    least = np.array([(net(centres(net.w.shape[1])) * [1, 1, -1, -1]).min() for net in drawn.nets])
    return (
        at_most(
            "g_max",
            POSITIVE,
            2.0,
            "Eq. (D.1)",
            axis="network",
            rival=np.exp(-least),
            rival_says="exp(-gamma_min), the slope of the exponential loss",
        ),
        at_least(
            "g_min, as reported",
            POSITIVE,
            np.exp(-mass),
            "Eq. (D.1)",
            of="g_min",
            axis="network",
            margin=EXACT,
            rival=np.exp(-ROOT2 * mass),
            rival_says="as corrected: the margin of a centre is at most ||mu|| H_rho = sqrt(2) H_rho",
            expect="contradicted",
        ),
        at_least(
            "g_min",
            POSITIVE,
            np.exp(-ROOT2 * mass),
            "Eq. (D.1), corrected: the margin of a centre is at most ||mu|| H_rho = sqrt(2) H_rho",
            axis="network",
            margin=EXACT,
            rival=np.exp(-2 * mass),
            rival_says="||mu||^2 in place of ||mu||",
            form="corrected",
            twin="g_min, as reported",
        ),
        at_most(
            "gamma_max / H_rho",
            REAL,
            ROOT2,
            "f(mu) = E[a relu(w.mu)] <= ||mu|| E||a w||",
            axis="network",
            margin=EXACT,
            rival=2.0,
            rival_says="||mu||^2 in place of ||mu||",
            form="derived",
        ),
        at_least(
            "g_min, balanced networks",
            POSITIVE,
            np.exp(-ROOT2 / 4 * even),
            "the four margins add up to at most sqrt(2) H_rho, so that (D.1) holds where they are equal",
            axis="network",
            margin=EXACT,
            rival=np.exp(-ROOT2 * even),
            rival_says="all mass on one centre",
            form="derived",
        ),
    )


def gmin_observe(drawn: Networks, key: Key) -> dict[str, Array]:
    """From the margins of the package."""
    g = [measured_sizes(net) for net in drawn.nets]
    margins = np.array([measured_margins(net).max() for net in drawn.nets])
    return {
        "g_max": np.array([v.max() for v in g]),
        "g_min": np.array([v.min() for v in g]),
        "gamma_max / H_rho": margins / [net.mass for net in drawn.nets],
        "g_min, balanced networks": np.array([measured_sizes(net).min() for net in drawn.balanced]),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="xor_sgd.lemmaD7_D8",
        entries=("xor_sgd.lemmaD7_D8",),
        says="The weighted sum of opposite and orthogonal parts of a heavy neuron shrinks.",
        settings=draw_d7,
        statements=d7_statements,
        observe=d7_observe,
        remarks="640 heavy neurons with any g from exp(-H) to 1 at the centres, H = 1 and zeta = exp(-10). In "
        "Corollary D.8 zeta has power 1 here: it is not legible in our copy, and a power below 1 would allow more.",
    ),
    Claim(
        id="xor_sgd.lemmaD10_D11",
        entries=("xor_sgd.lemmaD10_D11",),
        says="|clean grad_a| <= tau g_max ||w|| for every neuron, with equality along a mean; ||w||^2 grows by at most "
        "2 eta (1 + 2 zeta H) tau g_max a step.",
        settings=draw_growth,
        statements=growth_statements,
        observe=growth_observe,
        premises=growth_premises,
    ),
    Claim(
        id="xor_sgd.gmin_D1",
        entries=("xor_sgd.gmin_D1",),
        says="exp(-H_rho) <= g_min <= g_max <= 2.",
        settings=draw_networks,
        statements=gmin_statements,
        observe=gmin_observe,
        accuses=Accusation(
            quote="exp(-H_rho) <= g_min <= g_max <= 2",
            place="Appendix D, Eq. (D.1)",
            reading="for every network, or every signal-heavy one, with H_rho = E||a_w w||; of the networks on the "
            "path of training, whose margins balance, nothing is said",
            hits="statement",
            derivation="One neuron along mu_1 with label +1, which is signal-heavy at H = 2.1, has f(mu_1) = ||mu_1|| "
            "|a| ||w|| = sqrt(2) H_rho, so that g_min = 2 / (1 + exp(sqrt(2) H_rho)): 0.00696 at H_rho = 4, below "
            "exp(-4) = 0.0183. exp(-sqrt(2) H_rho) <= g_min holds for all networks, and serves where (D.1) is cited, "
            "as zeta <= exp(-10 H); (D.1) itself holds where the four margins are balanced.",
        ),
    ),
)
