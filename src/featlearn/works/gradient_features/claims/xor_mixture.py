"""The four-cluster XOR mixture: Assumption B.36 to Theorem B.42, with exact integrals."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.special import erf, ndtr
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import EXPONENT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, both, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.measure.gradient_features import draw_in_box, gaussian_gradients
from featlearn.tasks import GaussianMixture
from featlearn.tasks.gaussian_mixture import MixtureTruth
from featlearn.works.gradient_features.claims.bounds import excess, xor_numbers
from featlearn.works.gradient_features.claims.mixture_networks import other_loss, own_loss
from featlearn.works.gradient_features.claims.mixtures import TAU
from featlearn.works.gradient_features.setup import Array, over_groups, xor_components

# Assumption B.36 -----------------------------------------------------------------------------------------------------

D = 40


def says_definition(settings: None) -> Sequence[Statement]:
    """Two lines at right angles, fair and without a linear part."""
    gram, s = np.kron(np.eye(2), [[1.0, -1.0], [-1.0, 1.0]]), math.sqrt(D)
    wrong = np.full(D, s / 2 / s)
    return (
        equal("cosines of the means", REAL, gram, "B.36", margin=1e-5, rival=np.eye(4), rival_says="all orthogonal"),
        equal("||mu_j||", POSITIVE, np.full(4, s), "B.36: sqrt d", margin=1e-4, rival=np.ones(4), rival_says="1"),
        equal(
            "labels of the four",
            REAL,
            np.array([1.0, 1, -1, -1]),
            "B.36",
            rival=np.array([1.0, -1, 1, -1]),
            rival_says="labels that a line separates",
        ),
        equal(
            "E[y x]",
            REAL,
            np.zeros(D),
            "B.36: 0",
            margin=0.1,
            axis="coordinate",
            rival=wrong,
            rival_says="mu_1/2, as if -mu_1 had the other label",
        ),
    )


def sees_definition(settings: None, key: Key) -> Mapping[str, Observation]:
    """The sampler."""
    task = GaussianMixture.xor(d=D)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 40_000, key / "data")
    return {
        "cosines of the means": (truth.features @ truth.features.T).numpy(),
        "||mu_j||": truth.means.norm(dim=1).numpy(),
        "labels of the four": truth.labels.numpy(),
        "E[y x]": over_groups((batch.y[:, None] * batch.x).numpy(), 20, REAL),
    }


# Lemmas B.37 to B.40 -------------------------------------------------------------------------------------------------

SURE = ((1e3, 1.0), (1e6, 1.0), (1e3, 1.5))
"""d and sigma_B at which Pr[S_sure] is given."""
FULL, WIDE = 1000, np.geomspace(1e8, 1e16, 5)


def draw_features(key: Key) -> tuple[MixtureTruth, Array]:
    """The mixture in 1000 dimensions, and 300 neurons."""
    return GaussianMixture.xor(d=FULL).draw(key / "truth"), key.numpy().normal(size=(300, FULL))


def says_features(settings: tuple[MixtureTruth, Array]) -> Sequence[Statement]:
    """Pr[S_sure] with its two-sided condition; the component of G along mu_3, which the proof drops."""
    truth, w = settings
    own = [float(norm.sf(1.2 * s * math.sqrt(math.log(math.log(d))))) for d, s in SURE]
    exact = [p * float(erf(s)) for p, (_, s) in zip(own, SURE, strict=True)]
    one_sided = [p * float(norm.cdf(math.sqrt(2) * s)) for p, (_, s) in zip(own, SURE, strict=True)]
    means, size, b = truth.means.double().numpy(), np.linalg.norm(w, axis=1), 40.0
    P = ndtr((w @ means.T - b) / size[:, None])
    h = (b - w @ means.T) / size[:, None]
    bell = (np.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)) @ truth.labels.double().numpy()
    D_3 = truth.features[2].double().numpy()
    whole = -math.sqrt(FULL) / 4 * (P[:, 2] - P[:, 3])
    return (
        equal(
            "Pr[S_sure]",
            SHARE,
            np.array(exact),
            "Lemma B.39: Q(1.2 sigma_B sqrt(tau log log d)) for mu_1, and erf(sigma_B) for mu_3, two-sided",
            margin=1e-5,
            axis="d and sigma_B",
            rival=np.array(one_sided),
            form="derived",
            rival_says="the condition on mu_3 taken one-sided",
        ),
        equal(
            "<G, D_3>",
            REAL,
            whole + bell / 4 * (w @ D_3) / size,
            "Lemma B.40: the mean terms and the Gaussian one",
            margin=1e-5,
            axis="neuron",
            rival=bell / 4 * (w @ D_3) / size,
            rival_says="the Gaussian term alone, as (B.388) has it",
            form="derived",
        ),
        *both(
            "exponent in d of |<G, D_3>| on S_sure at <w, D_3> = sigma_w",
            EXPONENT,
            "Lemma B.40, (B.367)",
            reported=0.0,
            corrected=0.5,
            says="the mean terms, sqrt d (P_3 - P_4)/4",
            margin=0.05,
        ),
        at_most(
            "median 1 - |cos(G, D_1)| on S_sure",
            POSITIVE,
            0.15,
            "Lemma B.37 in words: G is near D_1",
            form="criterion",
            axis="d = 100, 1000, 10 000",
            rival=control("median 1 - |cos(G, D_1)| of all neurons"),
            rival_says="any start",
        ),
    )


def sure_projections(d: int, m: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """(<w, D_1>, <w, D_3>, ||rest of w||) of m neurons given S_sure at tau = sigma_B = 1."""
    level, c = math.sqrt(math.log(math.log(d))), math.sqrt(2)  # b/(sigma_w sqrt d), and C_2 b/sqrt d
    u = norm.isf(norm.sf(1.2 * level) * rng.random(m))
    v = norm.ppf(norm.cdf(-c) + (norm.cdf(c) - norm.cdf(-c)) * rng.random(m))
    return u, v, np.sqrt(rng.chisquare(d - 2, m))


def slack(u: Array, v: Array, rest: Array, d: int | float) -> tuple[Array, Array]:
    """1 - |cos(G, D_1)| and ||G|| at the bias of tau = sigma_B = 1."""
    bias = math.sqrt(math.log(math.log(d)) * d)
    g1, g3, g0 = xor_components(u, v, rest, np.full(np.shape(u), bias), 1.0, d)
    size = np.sqrt(g1**2 + g3**2 + g0**2)
    return 1 - np.abs(g1) / size, size


def sees_features(settings: tuple[MixtureTruth, Array], key: Key) -> Mapping[str, Observation]:
    """The chances and exact gradients of the library, and 20 000 starts a dimension."""
    truth, w = settings
    law = (truth.means, truth.labels, truth.weights, truth.sigma)
    g = gaussian_gradients(torch.as_tensor(w), torch.full((300,), 40.0).double(), *law).numpy()
    along, near, far, rng = g @ truth.features[2].double().numpy(), [], [], key.numpy()
    for d in (100, 1000, 10_000):
        near.append(float(np.median(slack(*sure_projections(d, 20_000, rng), d)[0])))
        every = rng.normal(size=20_000), rng.normal(size=20_000), np.sqrt(rng.chisquare(d - 2, 20_000))
        far.append(float(np.median(slack(*every, d)[0])))
    third = []
    for d in WIDE:
        level, one = np.array([math.sqrt(math.log(math.log(d)))]), np.ones(1)
        third.append(
            float(xor_components(1.2 * level, one, one * math.sqrt(d), level * math.sqrt(d), 1.0, float(d))[1][0])
        )
    sure = []
    for d, s in SURE:
        level, c = 1.2 * s * math.sqrt(math.log(math.log(d))), math.sqrt(2) * s
        low, high = torch.tensor([level, -c]).double(), torch.tensor([math.inf, c]).double()
        sure.append(math.exp(draw_in_box(torch.eye(2), low, high, 1.0, 1, key / "sure")[1]))
    return {
        "Pr[S_sure]": np.array(sure),
        "<G, D_3>": along,
        "exponent in d of |<G, D_3>| on S_sure at <w, D_3> = sigma_w": float(
            np.polyfit(np.log(WIDE), np.log(np.abs(third)), 1)[0]
        ),
        "median 1 - |cos(G, D_1)| on S_sure": np.array(near),
        "median 1 - |cos(G, D_1)| of all neurons": np.array(far),
    }


def cone_chance(d: float | int, key: Key, strips: int = 400, draws: int = 4000) -> float:
    """Pr over all starts of G in the cone of sigma_B/sqrt d around D_1 with ||G|| >= sqrt d/8, sigma_B = tau = 1.

    v = <w, D_3> by midpoints over [-8, 8], equal in |v|^(1/4) so that the narrow strip of the cone at 0 is resolved;
    u = <w, D_1> and the rest of w are drawn.
    """
    rng, edges = key.numpy(), 8 * np.linspace(0, 1, strips + 1) ** 4
    v, weight = (edges[1:] + edges[:-1]) / 2, 2 * (norm.cdf(edges[1:]) - norm.cdf(edges[:-1]))
    u, rest = rng.normal(size=draws), np.sqrt(d - 2 + math.sqrt(2 * (d - 2)) * rng.normal(size=draws))
    shape = np.broadcast_shapes(u.shape, v[:, None].shape)
    off, size = slack(np.broadcast_to(u, shape), np.broadcast_to(v[:, None], shape), np.broadcast_to(rest, shape), d)
    return float(weight @ ((off < 1 / math.sqrt(d)) & (size >= math.sqrt(d) / 8)).mean(1))


def says_gamma(settings: None) -> Sequence[Statement]:
    """The order of p, and what the strip that the cone leaves makes of it."""
    inner = np.log(np.log(WIDE))
    order = -0.5 * np.log(inner) - 18 / 25 * inner  # tau = sigma_B = 1
    fit = lambda y: float(np.polyfit(np.log(WIDE), y, 1)[0])  # noqa: E731
    return both(
        "exponent in d of Pr[G in the cone of sigma_B/sqrt d, ||G|| >= sqrt d/8]",
        EXPONENT,
        "Lemma B.37",
        reported=fit(order),
        corrected=fit(order - np.log(WIDE) / 4 + 0.5 * inner),
        says="the cone leaves a strip of width d^(-1/4) sqrt(log d) for <w, D_3>",
        margin=0.05,
    )


def sees_gamma(settings: None, key: Key) -> Mapping[str, Observation]:
    """Exact in <w, D_3>, drawn in the rest; a dimension is one number."""
    chances = [math.log(cone_chance(float(d), key / f"{d:g}")) for d in WIDE]
    return {
        "exponent in d of Pr[G in the cone of sigma_B/sqrt d, ||G|| >= sqrt d/8]": float(
            np.polyfit(np.log(WIDE), chances, 1)[0]
        ),
    }


# Lemma B.41 and Theorem B.42 -----------------------------------------------------------------------------------------

C, ENOUGH = 4.35, 18.0
"""sqrt d/(sqrt(tau~ log d) sigma_B); log log d from which on ||G|| is at least sqrt d/5 on all of S_sure."""
HUGE = np.linspace(1.0, 6.0, 6) * 100


def says_comparison(settings: None) -> Sequence[Statement]:
    """OPT, B_x1, B_G and p of the lemma."""
    loss = "log of the hinge loss of g*, tau~ = 8, d = 1e5"
    return (
        at_most(
            loss,
            REAL,
            math.log(opt_claimed(1e5)),
            "Lemma B.41: OPT",
            rival=control("the same at 3.9"),
            rival_says="sqrt d/sigma_B = 3.9 sqrt(tau~ log d)",
        ),
        equal(
            f"hinge loss of g* at d = {D_NEAR}",
            POSITIVE,
            near_loss(C_NEAR),
            "Lemma B.41, by integrals, at a separation where samples see the loss",
            margin=0.012,  # five standard errors of 20 000 samples
            rival=near_loss(C_NEAR - 0.1),
            rival_says=f"a constant of {C_NEAR - 0.1:g} in place of {C_NEAR:g}",
            form="derived",
        ),
        at_most(
            "E||x||/sqrt d at d = 100",
            POSITIVE,
            np.array([1.5, 2.0, 3.0]),
            "Lemma B.41: B_x1 = (1 + sigma_B) sqrt d",
            axis="sigma_B = 0.5, 1, 2",
        ),
        at_least(
            "least ||G||/sqrt d on S_sure, log log d = 18", POSITIVE, 0.2, "Lemma B.41: B_G = sqrt d/5, d large enough"
        ),
        at_least(
            "exponent in log d of Pr[S_sure], sigma_B = 1",
            EXPONENT,
            -1.0,
            "Lemma B.41: p = Omega(1/(sigma_B (log d)^(sigma_B^2)))",
        ),
    )


D_NEAR, C_NEAR = 16, 2.6
"""A dimension and a constant, sqrt d/(sqrt(tau~ log d) sigma_B), at which the comparison network has a loss to see."""


def near_loss(C: float | int) -> float:
    """E max(0, 1 - own + other) of the cluster at +mu_1: <x, D_1> = 4 + z and <x, D_3> another normal, on a grid."""
    s, z = math.sqrt(D_NEAR) / C, np.linspace(-8, 8, 1601)
    weight = norm.pdf(z) * (z[1] - z[0])
    own = np.maximum(math.sqrt(D_NEAR) + z - 2 * s, 0) / s
    other = np.maximum(np.abs(z) - 2 * s, 0) / s
    return float(weight @ np.maximum(1 - own[:, None] + other, 0) @ weight)


def opt_claimed(d: float | int) -> float:
    """3/d^tau + 4/(d^(0.9 tau - 1) sqrt(tau log d)), written out."""
    return 3 * math.exp(-TAU * math.log(d)) + 4 * math.exp((1 - 0.9 * TAU) * math.log(d)) / math.sqrt(TAU * math.log(d))


def sees_comparison(settings: None, key: Key) -> Mapping[str, Observation]:
    """Integrals, 20 000 samples, and the edge of S_sure in the limit of large d."""
    s = math.sqrt(TAU * math.log(1e5))
    total = lambda c: math.log(own_loss(c, s) + 2 * other_loss(s))  # noqa: E731
    task, least = GaussianMixture.xor(d=D_NEAR), math.sqrt(D_NEAR) / C_NEAR
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 20_000, key / "data")
    score = torch.relu(batch.x @ truth.features.T - 2 * least) @ (truth.labels / least)
    sizes = []
    for sigma in (0.5, 1.0, 2.0):
        noisy = GaussianMixture.xor(d=100, sigma=sigma)
        x = noisy.sample(noisy.draw(key / "truth"), 4000, key / "norm").x
        sizes.append(mean_of(x.norm(dim=1).double().numpy() / 10, POSITIVE, "sample"))
    level = math.sqrt(ENOUGH)
    own, other = ndtr(0.2 * level), ndtr(-2.2 * level)  # <w, D_1> = 1.2 b/sqrt d, and <w, D_3> = 0
    logs = [norm.logsf(1.2 * math.sqrt(math.log(v))) for v in np.exp(HUGE)]
    return {
        "log of the hinge loss of g*, tau~ = 8, d = 1e5": total(C),
        "the same at 3.9": total(3.9),
        f"hinge loss of g* at d = {D_NEAR}": over_groups((1 - batch.y * score).clamp_min(0).numpy(), 20, POSITIVE),
        "E||x||/sqrt d at d = 100": sizes,
        "least ||G||/sqrt d on S_sure, log log d = 18": float(own - other) / 4,
        "exponent in log d of Pr[S_sure], sigma_B = 1": float(np.polyfit(HUGE, logs, 1)[0]),
    }


def says_theorem(settings: None) -> Sequence[Statement]:
    """r B_a1 B_x1 sqrt(2 gamma) simplified by hand: 4 sqrt 2 C (1 + sigma_B) sigma_B^(1/2) d^(-1/4)."""
    source = "Theorem B.42: sigma_B^(3/2) d^(-1/4)"
    more = {"form": "derived"}
    bites = (8 * C * math.sqrt(2)) ** 4
    return (
        equal(
            "exponent in d", EXPONENT, -0.25, source, margin=1e-9, rival=-0.5, rival_says="gamma, not its root", **more
        ),
        equal(
            "exponent in sigma_B",
            EXPONENT,
            1.5,
            source,
            margin=0.02,
            rival=0.5,
            rival_says="gamma's root alone",
            **more,
        ),
        equal(
            "log of the d from which on the excess is below 1",
            REAL,
            math.log(bites),
            "4 (C/sqrt d) 2 sqrt d sqrt 2 d^(-1/4)",
            margin=0.01,
            rival=math.log(bites) / 2,
            rival_says="exponent -1/2",
            **more,
        ),
    )


def sees_theorem(settings: None, key: Key) -> Mapping[str, Observation]:
    """The numbers of Lemma B.41 in Theorem 3.12; sigma_B well above 1, as B_x1 = (1 + sigma_B) sqrt d."""
    d, sigma = np.geomspace(1e3, 1e9, 7), np.geomspace(100, 10_000, 7)
    in_d = np.polyfit(np.log(d), np.log([excess(xor_numbers(float(v))) for v in d]), 1)[0]
    in_s = np.polyfit(np.log(sigma), np.log([excess(xor_numbers(1e9, float(v))) for v in sigma]), 1)[0]
    size = 100.0
    while excess(xor_numbers(size)) > 1:
        size *= 1.005
    return {
        "exponent in d": float(in_d),
        "exponent in sigma_B": float(in_s),
        "log of the d from which on the excess is below 1": math.log(size),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.definition_xor",
        entries=("gradient_features.definition_xor",),
        says="The four-cluster XOR mixture.",
        statements=says_definition,
        observe=sees_definition,
    ),
    Claim(
        id="gradient_features.lemma_b37",
        entries=("gradient_features.lemma_b37",),
        says="XOR: gradients of sure neurons lie along D_j, Pr[S_sure] exact, and |<G, D_perp>| <= sigma_B O((log d)^"
        "(-0.018 tau)).",
        settings=draw_features,
        statements=says_features,
        observe=sees_features,
        accuses=Accusation(
            quote="|<G(w, b), D_perp>| <= sigma_B O((log d)^(-0.018 tau))",
            place="Lemma B.40, (B.367), a step of the proof of Lemma B.37; its own proof loses mu_l after (B.386)",
            reading="for every unit vector orthogonal to D_j, D_3 among them; sigma_B fixed and d large",
            hits="proof",
            derivation="The means +-mu_3 of the label -1 have a component along D_perp = D_3, so that <G, D_3> = "
            "-(sqrt d/4)(P_3 - P_4) beside the Gaussian term, with the activation probabilities of the two clusters; "
            "for |<w, D_3>| of order sigma_w this grows like sqrt d up to powers of log d.",
        ),
        remarks="tau = sigma_B = 1. (B.353) bounds a two-sided probability by what bounds one side, which the Theta of "
        "the lemma absorbs.",
    ),
    Claim(
        id="gradient_features.lemma_b37_gamma",
        entries=("gradient_features.lemma_b37",),
        says="XOR, sigma_B fixed: gradients are in the cone of gamma = sigma_B/sqrt d around D_j with a probability of "
        "the order of p, 1/(sqrt(log log d) (log d)^(18/25)) at tau = sigma_B = 1.",
        statements=says_gamma,
        observe=sees_gamma,
        accuses=Accusation(
            quote="gamma = sigma_B / sqrt d",
            place="Lemma B.37, (B.340)",
            reading="sigma_B fixed and d large",
            hits="statement",
            derivation="G has the component -(sqrt d/4)(P_3 - P_4) along D_3, of order sqrt d <w, D_3>/(log d)^(1/2). "
            "A cone of sigma_B/sqrt d allows an angle of order d^(-1/4), so <w, D_3> has to lie in a strip of that "
            "width, whose chance falls like d^(-1/4) while p falls like a power of log d. With a gamma that falls "
            "like a power of 1/log d the lemma would stand.",
        ),
        remarks="||G|| >= sqrt d/5 of Lemma B.41 asks for d beyond e^(e^17), which 'd is large enough' allows.",
    ),
    Claim(
        id="gradient_features.lemma_b41",
        entries=("gradient_features.lemma_b41",),
        says="XOR: the comparison network and its numbers B_x1, B_G, p and OPT.",
        statements=says_comparison,
        observe=sees_comparison,
    ),
    Claim(
        id="gradient_features.theorem_b42",
        entries=("gradient_features.theorem_b42",),
        says="XOR: the excess over OPT scales as sigma_B^(3/2) d^(-1/4).",
        statements=says_theorem,
        observe=sees_theorem,
        remarks="With constants 1 the bound falls below 1, the loss of the zero network, at 6 million dimensions.",
    ),
)
