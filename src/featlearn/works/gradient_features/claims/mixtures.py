"""Mixtures of Gaussians and their gradient features: Definition 3.9, Lemmas B.28 to B.33, with exact integrals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from featlearn.core import Key, SettingError
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.measure import gate_shares
from featlearn.measure.best_network import best_network
from featlearn.measure.gradient_features import draw_in_box, gaussian_gradients, membership, simplified_gradients
from featlearn.tasks import GaussianMixture
from featlearn.tasks.gaussian_mixture import MixtureTruth
from featlearn.works.gradient_features.setup import (
    Array,
    chance,
    hinge,
    mixture_gradient,
    over_groups,
    turned,
)

TAU, INF = 8.0, math.inf

# Definition 3.9 ------------------------------------------------------------------------------------------------------

D_FAMILY = 100
S_FAMILY = math.sqrt(D_FAMILY) / 4.35


@dataclass(frozen=True)
class Family:
    """Unit features and labels of the XOR mixture, a direction 20 degrees off the first, and a sample."""

    D: Array
    labels: Array
    off: Array
    x: Array
    y: Array


def draw_family(key: Key) -> Family:
    """2000 samples in 100 dimensions."""
    task = GaussianMixture.xor(d=D_FAMILY)
    truth = task.draw(key / "truth")
    batch, D = task.sample(truth, 2000, key / "data"), truth.features.double().numpy()
    off = turned(truth.features[0], 20.0, key / "aside", truth.features[[2]]).numpy()
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return Family(D, truth.labels.double().numpy(), off, batch.x.double().numpy(), batch.y.double().numpy())


MEMBERS = "g*, turned by 20 degrees, a larger by 5 %, b < 0, b = 0, -D_j: belongs to the family"


def says_family(settings: Family) -> Sequence[Statement]:
    """Lines of features, signs of biases and three norms; OPT is at most L(g*)."""
    f = settings
    star = hinge(np.maximum(f.x @ f.D.T - 2 * S_FAMILY, 0) @ f.labels / S_FAMILY, f.y)
    half = control("the same of half the norm")
    return (
        equal(MEMBERS, SHARE, np.array([1.0, 0, 0, 0, 0, 1]), "Definition 3.9", rival=np.ones(6), rival_says="all do"),
        at_most(
            "OPT on those neurons", POSITIVE, star, "Definition 3.11: L(g*)", margin=1e-3, rival=half, rival_says="half"
        ),
    )


def sees_family(settings: Family, key: Key) -> Mapping[str, Observation]:
    """A checker of membership, and the library's solver."""
    f, s = settings, S_FAMILY

    def belongs(w: Array, a: Array, b: Array) -> bool:
        on = (np.abs(w @ f.D.T) > 1 - 1e-9) & (np.sign(b)[:, None] == 1)
        limits = np.abs(a).max() * s, np.linalg.norm(a) * s / 2, np.abs(b).max() / (2 * s)
        return bool(on.any(1).all() and max(limits) <= 1 + 1e-9)

    a, b, away = f.labels / s, np.full(4, 2 * s), np.concatenate([f.off[None], f.D[1:]])
    cases = ((f.D, a, b), (away, a, b), (f.D, 1.05 * a, b), (f.D, a, -b), (f.D, a, 0 * b), (-f.D, a, b))
    features = torch.as_tensor(np.maximum(f.x @ f.D.T - 2 * s, 0))
    best, half = (best_network(features, torch.as_tensor(f.y), v * 2 / s) for v in (1.0, 0.5))
    return {
        MEMBERS: np.array([float(belongs(*c)) for c in cases]),
        "OPT on those neurons": best.loss,
        "the same of half the norm": half.lower,
    }


# Assumption 3.15 -----------------------------------------------------------------------------------------------------

MEANS, WEIGHTS, SIGMA = (2.0, 1.0, 3.0), (0.5, 0.2, 0.3), 1.5


def mixture() -> GaussianMixture:
    """Three clusters in eight dimensions."""
    return GaussianMixture(d=8, labels=(1, -1, -1), weights=WEIGHTS, separation=MEANS, sigma=SIGMA)


def says_mixture(settings: MixtureTruth) -> Sequence[Statement]:
    """Moments, with sigma_j as a deviation and p_j as total probabilities; what is refused."""
    means, p = settings.means.double().numpy(), np.array(WEIGHTS)
    refusals = {"rival": np.zeros(2), "rival_says": "accepted"}
    return (
        equal("component means", REAL, means, "Assumption 3.15", margin=0.1, rival=-means, rival_says="-mu_j"),
        equal(
            "||mu_j||/sqrt d",
            POSITIVE,
            np.array(MEANS),
            "Assumption 3.15: between B_mu1 and B_mu2",
            margin=1e-5,
            rival=np.ones(3),
            rival_says="unit means",
        ),
        equal(
            "spread of a component",
            POSITIVE,
            np.full(3, SIGMA),
            "exp(-b^2/(2 sigma_j^2)) of the tail bounds",
            margin=0.03,
            rival=np.full(3, math.sqrt(SIGMA)),
            rival_says="a variance, as Sigma_j = sigma_j I reads",
        ),
        equal(
            "shares of the components",
            SHARE,
            p,
            "Assumption B.36: p_j is a total probability",
            margin=0.02,
            rival=np.array([0.5, 0.4, 0.6]),
            rival_says="conditional on the class",
        ),
        equal("labels beyond +-1, slanted means: refused", SHARE, np.ones(2), "Assumption 3.15", **refusals),
    )


def sees_mixture(settings: MixtureTruth, key: Key) -> Mapping[str, Observation]:
    """40 000 samples, and the checks of the task."""
    batch = mixture().sample(settings, 40_000, key / "data")
    assert batch.group is not None
    x, group, refused = batch.x.double().numpy(), batch.group.numpy(), []
    slanted = ((1.0,) * 8, (1.0,) * 4 + (0.0,) * 4, (0.0,) * 7 + (1.0,))
    for bad in ({"labels": (1, 2, -1)}, {"means": slanted}):
        try:
            GaussianMixture(**{"d": 8, "labels": (1, -1, -1), **bad})
            refused.append(0.0)
        except SettingError:
            refused.append(1.0)
    parts = [x[group == j] for j in range(3)]
    spread = [float((v - settings.means[j].numpy()).std()) for j, v in enumerate(parts)]
    return {
        "component means": [e for v in parts for e in over_groups(v, 20, REAL)],
        "||mu_j||/sqrt d": settings.means.norm(dim=1).numpy() / math.sqrt(8),
        "spread of a component": np.array(spread),
        "shares of the components": [chance(group == j, SHARE) for j in range(3)],
        "labels beyond +-1, slanted means: refused": np.array(refused),
    }


# Definition B.29, Lemmas B.31 and B.32 -------------------------------------------------------------------------------

NORMS, SIGMA_W, NEAR_BIAS = np.array([3.0, 4.0, 5.0]), 0.7, 3.0
FAR, D = (1e3, 1e6, 1e12, 1e24), 1000


def log_sure(norms: Array, j: int, bias: float | int, sigma_w: float | int) -> float:
    """log Pr[<w, mu_j> >= 3/2 b, <w, mu_l> <= b/2 for l != j] for orthogonal means of these norms."""
    z = bias / (sigma_w * norms)
    return float(log_ndtr(-1.5 * z[j]) + log_ndtr(0.5 * np.delete(z, j)).sum())


def says_sure(settings: None) -> Sequence[Statement]:
    """The formula where it can be sampled, at the rare draws, and its exponent in d against the lemma's."""
    near = np.exp([log_sure(NORMS, j, NEAR_BIAS, SIGMA_W) for j in range(3)])
    alone = norm.sf(1.5 * NEAR_BIAS / (SIGMA_W * NORMS))
    rare = log_sure(np.full(4, math.sqrt(D)), 0, math.sqrt(TAU * D * math.log(D)), 1.0)
    t = 1.5 * math.sqrt(TAU * math.log(D))
    beyond = math.exp(float(norm.logpdf(t) - norm.logsf(t))) - t
    order = [math.log(1 / (3 * math.sqrt(2 * math.pi) * math.sqrt(TAU * math.log(d)))) for d in FAR]
    mills = np.array([o - 9 / 8 * TAU * math.log(d) for o, d in zip(order, FAR, strict=True)])
    formula = "Q(C1 b/(sigma_w ||mu_j||)) prod Phi(C2 b/(sigma_w ||mu_l||))"
    return (
        equal(
            "Pr[S_sure]",
            SHARE,
            near,
            f"Definition B.29: {formula}",
            margin=0.002,
            axis="cluster",
            rival=alone,
            rival_says="without the other clusters",
        ),
        at_least(
            "log Pr[S_sure], C_b = 1",
            REAL,
            mills,
            "Lemma B.31 for orthogonal means: exponent 9/8 C_b^2 tau, constant 1/(3 sqrt(2 pi)), by Mills' lower bound",
            axis="d = 1e3 to 1e24",
        ),
        at_least(
            "the same, exponent of the lemma",
            REAL,
            np.array(order) - 9 / 2 * TAU * np.log(FAR),
            "Lemma B.31: exponent 9/2",
            of="log Pr[S_sure], C_b = 1",
            axis="d = 1e3 to 1e24",
            expect="too weak to test",
        ),
        equal(
            "log Pr of the rare draws, d = 1000",
            REAL,
            rare,
            f"Definition B.29: {formula}",
            margin=1e-4,
            rival=rare + math.log(2),
            rival_says="its own cluster taken two-sided",
        ),
        equal("rare draws outside S_sure", SHARE, 0.0, "Definition B.29", rival=0.5, rival_says="half of them"),
        equal(
            "mean of <w, mu_1>/(sigma_w ||mu_1||) of the rare draws, above its bound",
            POSITIVE,
            beyond,
            "the mean of a normal beyond t = 3/2 sqrt(tau log d), npdf(t)/Q(t), less t",
            margin=0.3 * beyond,  # four standard errors of 200 draws
            rival=0.0,
            rival_says="all of them at the bound",
            form="derived",
        ),
    )


def sure_neurons(d: int, r: int, C_b: float | int, m: int, key: Key) -> tuple[torch.Tensor, float, float]:
    """m neurons given S_{D_1, sure} for r orthogonal means along the axes, ||mu|| = sqrt(d); bias; log Pr."""
    bias, s = C_b * math.sqrt(TAU * d * math.log(d)) * SIGMA_W, math.sqrt(d)
    low = torch.tensor([1.5 * bias / s] + [-INF] * (r - 1))
    high = torch.tensor([INF] + [0.5 * bias / s] * (r - 1))
    w, log_p = draw_in_box(torch.eye(d, dtype=torch.float64)[:r], low, high, SIGMA_W, m, key)
    return w, bias, log_p


def sees_sure(settings: None, key: Key) -> Mapping[str, Observation]:
    """400 000 plain draws, a mean of axis-aligned neurons far away, and the library's rare draws."""
    u = SIGMA_W * key.numpy().normal(size=(400_000, 3)) * NORMS
    hits = [(u[:, j] >= 1.5 * NEAR_BIAS) & (np.delete(u, j, 1) <= 0.5 * NEAR_BIAS).all(1) for j in range(3)]
    far = []
    for d in FAR:
        t = math.sqrt(TAU * math.log(d))
        far.append(float(norm.logsf(1.5 * t) + 3 * norm.logcdf(0.5 * t)))
    w, bias, log_p = sure_neurons(D, 4, 1.0, 200, key / "sure")
    inside = (w[:, 0] >= 1.5 * bias / math.sqrt(D) * (1 - 1e-6)) & (
        w[:, 1:4] <= 0.5 * bias / math.sqrt(D) * (1 + 1e-6)
    ).all(1)
    return {
        "Pr[S_sure]": [chance(h, SHARE) for h in hits],
        "log Pr[S_sure], C_b = 1": np.array(far),
        "log Pr of the rare draws, d = 1000": log_p,
        "rare draws outside S_sure": 1 - float(inside.double().mean()),
        "mean of <w, mu_1>/(sigma_w ||mu_1||) of the rare draws, above its bound": mean_of(
            (w[:, 0] / SIGMA_W - 1.5 * bias / SIGMA_W / math.sqrt(D)).numpy(), POSITIVE, "neuron"
        ),
    }


LARGE, MILD, LOUD = 1e6, 0.3, 1.5
"""A dimension at which the norm condition can hold, a C_b at which firing can be sampled, and a sigma other than 1."""


@dataclass(frozen=True)
class Mild:
    """Sure neurons of a small C_b with their bias, and a mixture of four clusters along the axes."""

    w: Array
    bias: float
    truth: MixtureTruth


def axes(r: int = 4) -> GaussianMixture:
    """Four orthogonal means of norm sqrt(d) along the axes, labels alternating."""
    means = torch.eye(D)[:r] * math.sqrt(D)
    return GaussianMixture(d=D, labels=(1, -1) * (r // 2), means=tuple(tuple(v) for v in means.tolist()))


def draw_mild(key: Key) -> Mild:
    """50 neurons in 1000 dimensions."""
    w, bias, _ = sure_neurons(D, 4, MILD, 50, key / "mild")
    return Mild(w.numpy(), bias, axes().draw(key))


def says_activation(settings: Mild) -> Sequence[Statement]:
    """d^-tau from C_b = 3.12 on, no less; the formula against samples."""
    means = settings.truth.means.double().numpy()
    exact = ndtr((settings.w @ means.T - settings.bias) / np.linalg.norm(settings.w, axis=1, keepdims=True))
    need, source = -TAU * math.log(LARGE), "Lemma B.32: O(d^-tau), ||w|| <= 1.1 sqrt(d) sigma_w"
    weak = control("log Pr[own cluster silent], C_b = 1")
    return (
        at_most("log Pr[own cluster silent], C_b = 3.12", REAL, need, source, rival=weak, rival_says="C_b = 1"),
        at_most(
            "log Pr[other cluster fires], C_b = 3.12",
            REAL,
            need,
            source,
            rival=control("log Pr[other cluster fires], C_b = 1"),
            rival_says="C_b = 1",
        ),
        equal(
            "firing probabilities by cluster, C_b = 0.3",
            SHARE,
            exact,
            "Lemma B.32: Phi((<w, mu> - b)/(||w|| sigma))",
            margin=0.07,
            axis="neuron, cluster",
            rival=exact[:, [1, 0, 2, 3]],
            rival_says="clusters 1 and 2 exchanged",
        ),
    )


def sees_activation(settings: Mild, key: Key) -> Mapping[str, Observation]:
    """Exact at the largest norm and at the edges of the conditions; the library's gates on 8000 samples."""
    seen = {}
    for C_b in (3.12, 1.0):
        level = C_b * math.sqrt(TAU * math.log(LARGE)) * math.sqrt(LARGE)  # b/sigma_w, and 1.1 sqrt(d) is the norm
        edge = float(log_ndtr(-0.5 * level / (1.1 * math.sqrt(LARGE))))
        seen[f"log Pr[own cluster silent], C_b = {C_b:g}"] = edge
        low, high = torch.tensor([-INF]), torch.tensor([0.5 * level / math.sqrt(LARGE)])
        u, _ = draw_in_box(torch.eye(1), low, high, 1.0, 200, key / "sure" / str(C_b))
        top = max(float(u.max()), 0.5 * level / math.sqrt(LARGE))
        seen[f"log Pr[other cluster fires], C_b = {C_b:g}"] = float(
            log_ndtr((top * math.sqrt(LARGE) - level) / (1.1 * math.sqrt(LARGE)))
        )
    batch = axes().sample(settings.truth, 8000, key / "data")
    assert batch.group is not None
    w, b = torch.as_tensor(settings.w)[None], torch.full((1, 50), -settings.bias).double()
    found = gate_shares(w, batch.x.double(), batch.group, 4, b)[0].numpy()
    return {**seen, "firing probabilities by cluster, C_b = 0.3": found}


# Lemmas B.30 and B.33 ------------------------------------------------------------------------------------------------


def says_alignment(settings: Mild) -> Sequence[Statement]:
    """G of a sure neuron is p_1 mu_1; the closed form against itself written out and against samples."""
    t = settings.truth
    b = np.full(50, settings.bias)
    means, labels = t.means.double().numpy(), t.labels.double().numpy()
    exact, loud = (mixture_gradient(settings.w, b, means, labels, np.full(4, 0.25), s)[:, :4] for s in (1.0, LOUD))
    log_gamma, size = -(0.9 * TAU - 1.5) * math.log(D), math.sqrt(D) / 4
    member = "sure neurons in the cone of D_1, norm p ||mu|| less 5 %"
    share = {"axis": "gamma", "form": "criterion"}
    return (
        equal(
            "<G, y_1 D_1>",
            REAL,
            np.full(400, size),
            "Lemma B.33: p_1 ||mu_1||",
            margin=1e-6,
            axis="neuron",
            rival=np.full(400, 2 * size),
            rival_says="p conditional on the class",
        ),
        at_most(
            "log of 1 - cos(G, D_1)",
            REAL,
            np.full(400, log_gamma),
            "Lemma 3.17: gamma = d^-(0.9 tau - 1.5)",
            axis="neuron",
            rival=control("log of 1 - cos(G, D_1), C_b = 0.3"),
            rival_says="neurons of C_b = 0.3",
        ),
        at_least(
            member,
            SHARE,
            np.full(3, 0.95),
            "Lemma 3.17: (D_1, +1) in S; p is that of S_sure",
            **share,
            rival=control("the same with D_1 turned by 20 degrees"),
            rival_says="a direction 20 degrees off",
            trivial=control("the same with D_2"),
            trivial_says="another cluster's direction",
        ),
        equal(
            "G of 50 neurons by its closed form, C_b = 0.3, sigma = 1.5",
            REAL,
            loud,
            "Lemma B.33, proof, written out",
            margin=1e-9,
            rival=exact,
            rival_says="sigma = 1",
        ),
        equal(
            "the same by 6000 samples",
            REAL,
            exact,
            "Lemma B.33, proof",
            margin=1.0,  # five standard errors of sqrt(d)/2/sqrt(6000)
            axis="neuron, cluster",
            rival=2 * exact,
            rival_says="twice that",
        ),
    )


def sees_alignment(settings: Mild, key: Key) -> Mapping[str, Observation]:
    """The library's exact gradients of 400 sure neurons; the cosine from its sine, as 1 - cos is below rounding."""
    t, (w, bias, log_p) = settings.truth, sure_neurons(D, 4, 3.2, 400, key / "sure")
    law = (t.means, t.labels, t.weights, t.sigma)
    g = gaussian_gradients(w, torch.full((400,), bias).double(), *law)
    mild, b = torch.as_tensor(settings.w), torch.full((50,), settings.bias, dtype=torch.float64)
    few, loud = (gaussian_gradients(mild, b, *law[:3], s * t.sigma) for s in (1.0, LOUD))
    slack = lambda v: 2 * np.log(v[:, 1:].norm(dim=1).numpy() / v[:, 0].abs().numpy()) - math.log(2)  # noqa: E731
    gammas = torch.tensor([1e-3, 1e-2, 0.05], dtype=torch.float64)
    eye = torch.eye(D, dtype=torch.float64)
    directions = torch.stack([eye[0], turned(eye[0].float(), 20.0, key / "aside", eye[1:4].float()).double(), eye[1]])
    share = membership(g, directions, gammas, math.sqrt(D) / 4 * 0.95, log_given=log_p).share.numpy()
    batch = axes().sample(t, 6000, key / "data")
    sampled = simplified_gradients(mild, b, batch.x.double(), batch.y.double())
    return {
        "<G, y_1 D_1>": g[:, 0].numpy(),
        "log of 1 - cos(G, D_1)": slack(g),
        "log of 1 - cos(G, D_1), C_b = 0.3": np.resize(slack(few), 400),
        "sure neurons in the cone of D_1, norm p ||mu|| less 5 %": share[0],
        "the same with D_1 turned by 20 degrees": share[1],
        "the same with D_2": share[2],
        "G of 50 neurons by its closed form, C_b = 0.3, sigma = 1.5": loud[:, :4].numpy(),
        "the same by 6000 samples": sampled[:, :4].numpy(),
    }


def separated(settings: Mild) -> Sequence[Premise]:
    """Assumption 3.15 at the sizes used, constant 4 in the separation."""
    t = settings.truth
    least = 4 * max(1.0, float(t.means.norm(dim=1).max()) / math.sqrt(D)) * math.sqrt(TAU * math.log(D) / D)
    sep = float(t.means.norm(dim=1).min()) / math.sqrt(D)
    return (
        Premise("8 <= tau <= d", 8 <= TAU <= D, f"tau = {TAU:g}"),
        Premise("r <= 2 d and p_B >= 1/(2 d)", len(t.labels) <= 2 * D and float(t.weights.min()) >= 1 / (2 * D)),
        Premise("B_mu1 >= 4 sigma_B+ sqrt(tau log d / d)", sep >= least, f"{sep:.3g} against {least:.3g}"),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.definition3_9",
        entries=("gradient_features.definition3_9",),
        says="Gradient-feature-induced networks and OPT.",
        settings=draw_family,
        statements=says_family,
        observe=sees_family,
        remarks="A bias of 0 has no sign: the network of linear data (B.26) is a limit of members without loss.",
    ),
    Claim(
        id="gradient_features.definition_mog",
        entries=("gradient_features.definition_mog",),
        says="The mixture of Gaussians and what it takes to meet its premises.",
        settings=lambda key: mixture().draw(key / "truth"),
        statements=says_mixture,
        observe=sees_mixture,
        remarks="The text writes Sigma_j = sigma_j I; sigma_j is a standard deviation here, as its tail bounds use it.",
    ),
    Claim(
        id="gradient_features.definition_b29",
        entries=("gradient_features.definition_b29", "gradient_features.lemma_b31"),
        says="The probability of a sure start, exactly, and its lower bound.",
        statements=says_sure,
        observe=sees_sure,
        remarks="The exponent 9/2 of the lemma is the safe one for means that are only nearly orthogonal; orthogonal "
        "means have 9/8, at which the bound is nearly attained. At no d do they come near the lemma's.",
    ),
    Claim(
        id="gradient_features.lemma_b32",
        entries=("gradient_features.lemma_b32",),
        says="A sure neuron fires on its own cluster and is silent on others, but for d^-tau.",
        settings=draw_mild,
        statements=says_activation,
        observe=sees_activation,
        remarks="At the edges of the conditions and the largest norm. With ||w|| <= 1.1 sqrt(d) sigma_w the exponent "
        "is (C_b/2.2)^2/2 tau, so d^-tau takes C_b >= 3.12.",
    ),
    Claim(
        id="gradient_features.lemma3_17_features",
        entries=("gradient_features.lemma3_17", "gradient_features.lemma_b33"),
        says="(D_j, +1) is a gradient feature of the mixture: G of a sure neuron is p_j mu_j.",
        settings=draw_mild,
        statements=says_alignment,
        observe=sees_alignment,
        premises=separated,
        remarks="d = 1000, tau = 8, C_b = 3.2; the chance of such a start is far below what plain draws could see.",
    ),
)
