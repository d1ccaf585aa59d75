"""Linear data: Lemmas B.25 to B.27."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import chi2

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.measure.best_network import mean_loss
from featlearn.measure.gradient_features import membership, simplified_gradients
from featlearn.tasks import LinearData
from featlearn.works.gradient_features.setup import Array, over_groups, turned

MARGIN, RHO = 0.4, 1.1


def draw_data(key: Key) -> tuple[Array, Array, Array]:
    """w*, x and y of 60 000 samples."""
    task = LinearData(d=30, margin=MARGIN, rho=RHO, sigma=1.5)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 60_000, key / "data")
    return truth.features[0].double().numpy(), batch.x.double().numpy(), batch.y.double().numpy()


def says_data(settings: tuple[Array, Array, Array]) -> Sequence[Statement]:
    """E[yx] = rho w* and the least margin."""
    star = settings[0]
    return (
        equal(
            "E[y x]",
            REAL,
            RHO * star,
            "B.5.1: rho w*, as E[y P_perp x] = 0",
            margin=0.04,
            axis="coordinate",
            rival=MARGIN * star,
            rival_says="margin w*",
        ),
        equal("least y <w*, x>", POSITIVE, MARGIN, "B.5.1: beta", margin=1e-3, rival=0.0, rival_says="no margin"),
    )


def sees_data(settings: tuple[Array, Array, Array], key: Key) -> Mapping[str, Observation]:
    """The sampler, in 20 groups of samples."""
    star, x, y = settings
    return {"E[y x]": over_groups(y[:, None] * x, 20, REAL), "least y <w*, x>": float((y * (x @ star)).min())}


# Lemma B.25 ----------------------------------------------------------------------------------------------------------

D, TAU, SIGNAL, N = 50, 3.5, 2.0, 20_000
RARE, V = 0.02, 20.0
C = RARE * V / (1 - RARE)
POINTS = np.array([[1.0, V], [-1.0, -V], [1.0, -C], [-1.0, C]])
"""A law where Cauchy and Schwarz are nearly attained: y x = w* + V u with probability RARE, else w* - C u, so that
E[yx] = w*; labels are +1, -1, +1, -1, each as likely."""
WEIGHTS = np.array([RARE, RARE, 1 - RARE, 1 - RARE]) / 2


@dataclass(frozen=True)
class Linear:
    """w*, a direction 20 degrees off, x, y, and 100 neurons of norm at most 2 sqrt d."""

    star: Array
    off: Array
    x: Array
    y: Array
    w: Array


def draw_linear(key: Key) -> Linear:
    """50 dimensions, rho = 2."""
    task = LinearData(d=D, margin=MARGIN, rho=SIGNAL)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, N, key / "data")
    w = torch.randn(130, D, generator=(key / "w").torch(), dtype=torch.float64)
    w = w[w.norm(dim=1) <= 2 * math.sqrt(D)][:100].numpy()
    off = turned(truth.features[0], 20.0, key / "aside", truth.features).numpy()
    return Linear(truth.features[0].double().numpy(), off, batch.x.double().numpy(), batch.y.double().numpy(), w)


def says_feature(settings: Linear) -> Sequence[Statement]:
    """Each step of the proof with its constant, at a tau with e < rho."""
    B2 = float((settings.x**2).sum(1).mean())
    e = math.sqrt(2 * B2) * D ** (0.25 - TAU / 2)
    off = math.sqrt(float(WEIGHTS @ (POINTS**2).sum(1)) * RARE / 2)
    return (
        at_least("Pr[||w|| <= 2 sqrt(d) sigma_w]", SHARE, np.full(3, 0.75), "Lemma B.25, proof", axis="d = 1, 10, 50"),
        at_most(
            "||G - rho w*|| on a rare law",
            POSITIVE,
            off,
            "Lemma B.25, proof: sqrt(E||x||^2 Pr[silent]), by Cauchy and Schwarz",
        ),
        at_least("least ||G||", POSITIVE, SIGNAL - e - 0.05, "Lemma B.25: rho - e, less the sample's own error of rho"),
        at_most(
            "largest 1 - cos(G, w*)",
            POSITIVE,
            2 * e / (SIGNAL + e),
            "Lemma B.25: gamma = 2 e/(rho + e), e = sqrt(2 B_x2) d^(1/4 - tau/2)",
            rival=control("least 1 - cos with w* turned by 20 degrees"),
            rival_says="a direction 20 degrees off",
        ),
        at_least(
            "neurons with G in the cone of w* of that gamma, b = -bt",
            SHARE,
            0.5,
            "Lemma B.25: (w*, -1) in S with p = 1/2",
            rival=control("neurons with G in the cone of w* of that gamma, b = bt"),
            rival_says="the other sign of the bias",
            trivial=control("neurons with G in the cone of w* turned by 20 degrees"),
            trivial_says="a direction 20 degrees off",
        ),
    )


def sees_feature(settings: Linear, key: Key) -> Mapping[str, Observation]:
    """The library's gradients at b = -d^tau B_x1 sigma_w, on the sample and on a rare law."""
    s, size = settings, np.linalg.norm(settings.x, axis=1)
    B1, B2, d = size.mean(), (size**2).mean(), np.array([1, 10, 50])
    x, y, w = (torch.as_tensor(v) for v in (s.x, s.y, s.w))
    bt = torch.full((len(w),), D**TAU * B1, dtype=torch.float64)
    g, other = simplified_gradients(w, -bt, x, y), simplified_gradients(w, bt, x, y)
    both = torch.as_tensor(np.stack([s.star, s.off]))
    slack = (1 - g @ both.T / g.norm(dim=1, keepdim=True)).numpy()
    gamma = 2 * math.sqrt(2 * B2) * D ** (0.25 - TAU / 2)
    gamma = torch.tensor([gamma / (SIGNAL + gamma / 2)], dtype=torch.float64)
    hits = [float(membership(part, both[[j]], gamma).share[0, 0]) for part, j in ((g, 0), (other, 0), (g, 1))]
    labels, up = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64), torch.tensor([[0.0, 1.0]]).double()
    edge, weight = torch.tensor([-V + 1e-9], dtype=torch.float64), torch.as_tensor(WEIGHTS)
    rare = simplified_gradients(up, edge, torch.as_tensor(POINTS), labels, weights=weight)[0].numpy()
    return {
        "Pr[||w|| <= 2 sqrt(d) sigma_w]": chi2.cdf(4 * d, d),
        "||G - rho w*|| on a rare law": float(np.linalg.norm(rare - [1.0, 0.0])),
        "least ||G||": float(g.norm(dim=1).min()),
        "largest 1 - cos(G, w*)": float(slack[:, 0].max()),
        "least 1 - cos with w* turned by 20 degrees": float(slack[:, 1].min()),
        "neurons with G in the cone of w* of that gamma, b = -bt": hits[0],
        "neurons with G in the cone of w* of that gamma, b = bt": hits[1],
        "neurons with G in the cone of w* turned by 20 degrees": hits[2],
    }


# Lemma B.26 and Theorem B.27 -----------------------------------------------------------------------------------------


def draw_network(key: Key) -> Linear:
    """20 000 samples in 40 dimensions, rho = 1."""
    task = LinearData(d=40, margin=MARGIN, rho=1.0)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 20_000, key / "data")
    off = turned(truth.features[0], 20.0, key / "aside", truth.features).numpy()
    x, y = batch.x.double().numpy(), batch.y.double().numpy()
    return Linear(truth.features[0].double().numpy(), off, x, y, np.zeros((0, 40)))


def says_network(settings: Linear) -> Sequence[Statement]:
    """No hinge loss, which neither another direction nor a smaller second layer has."""
    name, source = "hinge loss of g*", "Lemma B.26: (relu(<w*, x>) - relu(-<w*, x>))/beta, OPT = 0"
    tilted, small = (
        control("the same along w* turned by 20 degrees"),
        control("the same with a second layer 5 % smaller"),
    )
    more = {"margin": 1e-6, "rival_says": "that network"}
    return (
        equal(name, POSITIVE, 0.0, source, rival=tilted, **more),
        equal("hinge loss of g*, at 1/beta", POSITIVE, 0.0, source, of=name, rival=small, **more),
    )


def sees_network(settings: Linear, key: Key) -> Mapping[str, Observation]:
    """On 20 000 samples."""
    x, y = torch.as_tensor(settings.x), torch.as_tensor(settings.y)

    def loss(v: Array, c: float | int) -> float:
        u = x @ torch.as_tensor(v)
        return mean_loss(c * (torch.relu(u) - torch.relu(-u)), y, "hinge")

    return {
        "hinge loss of g*": loss(settings.star, 1 / MARGIN),
        "the same along w* turned by 20 degrees": loss(settings.off, 1 / MARGIN),
        "the same with a second layer 5 % smaller": loss(settings.star, 0.95 / MARGIN),
    }


def draw_numbers(key: Key) -> Array:
    """B_x1, B_x2, beta, rho, d and tau of 20 cases."""
    rng = key.numpy()
    return np.concatenate([rng.uniform(0.5, 3, (4, 20)), rng.uniform(25, 150, (1, 20)), rng.uniform(1, 3, (1, 20))])


def says_theorem(settings: Array) -> Sequence[Statement]:
    """The first term of the theorem."""
    B1, B2, beta, rho, d, tau = settings
    first = 2 * math.sqrt(2) * B1 * B2**0.25 / (beta * np.sqrt(rho) * d ** (tau / 4 - 0.125))
    return (
        equal(
            "r B_a1 B_x1 sqrt(2 gamma)",
            POSITIVE,
            first,
            "Theorem B.27: B_x1 B_x2^(1/4)/(beta sqrt(rho) d^(tau/4 - 1/8)), times 2 sqrt 2",
            margin=1e-9 * first,
            axis="numbers",
            rival=first * d**0.125,
            rival_says="exponent tau/4 - 1/4 of d",
            form="derived",
        ),
    )


def sees_theorem(settings: Array, key: Key) -> Mapping[str, Observation]:
    """Lemma B.26's r = 2 and B_a1 = 1/beta with Lemma B.25's gamma = sqrt(B_x2)/(rho d^(tau/2 - 1/4))."""
    B1, B2, beta, rho, d, tau = settings
    return {"r B_a1 B_x1 sqrt(2 gamma)": 2 / beta * B1 * np.sqrt(2 * np.sqrt(B2) / (rho * d ** (tau / 2 - 0.25)))}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.definition_linear",
        entries=("gradient_features.definition_linear",),
        says="Linearly separable data with margin beta and mean signal rho.",
        settings=draw_data,
        statements=says_data,
        observe=sees_data,
        remarks="The text asks for E[y P x] = 0 and glosses it as independence; this instance has both.",
    ),
    Claim(
        id="gradient_features.lemma_b25",
        entries=("gradient_features.lemma_b25",),
        says="(w*, -1) is a gradient feature of linear data with p = 1/2.",
        settings=draw_linear,
        statements=says_feature,
        observe=sees_feature,
        remarks="tau is taken so large that e < rho. On the rare law the step by Cauchy and Schwarz is nearly "
        "attained; the cosine itself is of second order in e/rho, so its bound is told from a rotated direction only.",
    ),
    Claim(
        id="gradient_features.lemma_b26",
        entries=("gradient_features.lemma_b26",),
        says="Two neurons along +-w* have no hinge loss.",
        settings=draw_network,
        statements=says_network,
        observe=sees_network,
        remarks="Biases are 0 in g*, which has no sign. With -eps in their place, eps at most beta and B_b, the "
        "network is in the family and has no hinge loss either.",
    ),
    Claim(
        id="gradient_features.theorem_b27",
        entries=("gradient_features.theorem_b27",),
        says="The first error term of linear data follows from the two lemmas.",
        settings=draw_numbers,
        statements=says_theorem,
        observe=sees_theorem,
    ),
)
