"""Uniform parity: one sign-initialised step finds the relevant set. Lemmas B.53 and B.57 to B.65, by formula."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import EXPONENT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, both, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.learn.framework import forgetful_step
from featlearn.measure.gradient_features import in_max_cone, simplified_gradients
from featlearn.nets import TwoLayer, sign_init
from featlearn.tasks import UniformParity
from featlearn.works.gradient_features.setup import (
    Array,
    chance,
    cube,
    double,
    hats,
    log_xi,
    over_groups,
    xi,
)

# Definition of xi_k --------------------------------------------------------------------------------------------------

LEVELS = tuple((d, k) for d in (5, 7, 9, 11, 13) for k in range(1, d + 1, 2))
RATIOS = ((51, 2), (101, 4), (801, 6))


def says_majority(settings: None) -> Sequence[Statement]:
    """xi_k by enumeration of majority, and the ratio of neighbours."""
    exact = []
    for d, k in LEVELS:
        x = cube(d)
        exact.append(float((np.sign(x.sum(1)) * x[:, :k].prod(1)).mean()))
    typo = [v / math.comb((d - 1) // 2, (k - 1) // 2) for v, (d, k) in zip(exact, LEVELS, strict=True)]
    ratio = np.array([(k - 1) / (d - k) for d, k in RATIOS])
    return (
        equal(
            "xi_k",
            REAL,
            np.array(exact),
            "(B.478): the Fourier coefficient of majority, by enumeration",
            margin=1e-12,
            axis="d, k",
            rival=np.array(typo),
            rival_says="C((d-1)/2, (d-1)/2) = 1 in the numerator, as in our copy",
        ),
        equal(
            "|xi_(k+1)/xi_(k-1)|",
            POSITIVE,
            ratio,
            "work.toml, definition_uniform_parity: check",
            margin=1e-12,
            axis="d, k",
            rival=np.array([k / (d - k) for d, k in RATIOS]),
            rival_says="k/(d - k)",
            form="derived",
        ),
        equal(
            "E y and E y x of the sampler",
            REAL,
            np.zeros(10),
            "Assumption B.53: k even",
            margin=0.04,
            rival=np.full(10, 0.2),
            rival_says="a linear part",
        ),
        equal(
            "y for x with one relevant minus sign",
            REAL,
            -1.0,
            "Assumption B.53",
            rival=1.0,
            rival_says="k odd, other sign",
        ),
    )


def sees_majority(settings: None, key: Key) -> Mapping[str, Observation]:
    """The product's xi_k, and the sampler."""
    task = UniformParity(d=9, k=4)
    truth = task.draw(key / "truth")
    batch = task.sample(truth, 20_000, key / "data")
    one = (batch.x[:, truth.blocks[0]] < 0).sum(1) == 1
    values = torch.cat([batch.y[:, None], batch.y[:, None] * batch.x], 1).double().numpy()
    return {
        "xi_k": np.array([xi(d, k) for d, k in LEVELS]),
        "|xi_(k+1)/xi_(k-1)|": np.array([math.exp(log_xi(d, k + 1) - log_xi(d, k - 1)) for d, k in RATIOS]),
        "E y and E y x of the sampler": over_groups(values, 20, REAL),
        "y for x with one relevant minus sign": float(batch.y[one].mean()),
    }


# Lemma B.63 and Algorithm 6 ------------------------------------------------------------------------------------------

SMALL = ((7, 2), (7, 4), (9, 4), (11, 4))


def first_gradient(w: Array, A: int, d: int) -> Array:
    """G_j = 1/2 xi_(k-1) prod_(A without j) w_l for j in A, 1/2 xi_(k+1) prod_(A and j) w_l else: (m, d); A = [k].

    By hand: relu' = (1 + sign)/2, and E y x_j sign(<w, x> - b) is the coefficient of majority at A with or without j.
    """
    sign = w[:, :A].prod(1, keepdims=True)
    return 0.5 * np.concatenate([xi(d, A - 1) * sign * w[:, :A], xi(d, A + 1) * sign * w[:, A:]], 1)


@dataclass(frozen=True)
class Signs:
    """Sign vectors with biases below 1, by (d, k), and the start of Algorithm 6."""

    w: tuple[Array, ...]
    b: tuple[Array, ...]
    net: TwoLayer


def draw_signs(key: Key) -> Signs:
    """Eight of each; six neurons in nine dimensions, k = 2."""
    rng = key.numpy()
    w, b = [rng.choice([-1.0, 1.0], (8, d)) for d, _ in SMALL], [rng.uniform(-0.9, 0.9, 8) for _ in SMALL]
    return Signs(tuple(w), tuple(b), double(sign_init(6, 9, 2, key / "net")))


def says_first(settings: Signs) -> Sequence[Statement]:
    """As reported and with index and factor put right; the step."""
    law = [first_gradient(w, k, d) for w, (d, k) in zip(settings.w, SMALL, strict=True)]
    inside = np.concatenate([g[:, :k].ravel() for g, (_, k) in zip(law, SMALL, strict=True)])
    outside = np.concatenate([g[:, k:].ravel() for g, (_, k) in zip(law, SMALL, strict=True)])
    ratio = np.concatenate([np.full(8 * (d - k), 2 * xi(d, k - 1) / xi(d, k + 1)) for d, k in SMALL])
    w, a = settings.net.w[0].numpy(), settings.net.a[0].numpy()
    eta = 1 / (2 * abs(xi(9, 1)))
    step = eta * a[:, None] * first_gradient(w, 2, 9)
    half = {"margin": 1e-12, "axis": "d, k, neuron, coordinate"}
    return (
        *both(
            "g_ij, j in A",
            REAL,
            "Lemma B.63, (B.548)",
            reported=2 * inside,
            corrected=inside,
            says="the factor 1/2 of relu'",
            **half,
        ),
        *both(
            "g_ij, j outside A",
            REAL,
            "Lemma B.63, (B.549)",
            reported=ratio * outside,
            corrected=outside,
            says="xi_(k+1) for xi_(k-1), and the factor 1/2",
            **half,
        ),
        equal(
            "W^(1) of Algorithm 6",
            REAL,
            step,
            "Algorithm 6: eta_1 = 1/(k |xi_(k-1)|), lambda_1 = 1/eta_1",
            margin=1e-12,
            rival=step + 0.5 * w,
            rival_says="half of the start stays",
        ),
        equal(
            "k b_i at the start, off whole numbers",
            REAL,
            np.zeros(12),
            "Algorithm 6: b in {-1 + 1/k, .., 1 - 1/k}",
            margin=1e-6,
            rival=np.full(12, 0.25),
            rival_says="a quarter off",
        ),
        at_most("|b_i| at the start", POSITIVE, 0.5, "Algorithm 6: 1 - 1/k", margin=1e-6, axis="neuron"),
    )


def sees_first(settings: Signs, key: Key) -> Mapping[str, Observation]:
    """The library's gradient on every input, and the engine's step."""
    inside, outside = [], []
    for w, b, (d, k) in zip(settings.w, settings.b, SMALL, strict=True):
        x = torch.as_tensor(cube(d))
        g = simplified_gradients(torch.as_tensor(w), torch.as_tensor(b), x, x[:, :k].prod(1)).numpy()
        inside.append(g[:, :k].ravel())
        outside.append(g[:, k:].ravel())
    x, net = torch.as_tensor(cube(9)), settings.net
    moved = forgetful_step(net, x, x[:, :2].prod(1), 1 / (2 * abs(xi(9, 1))))
    grid = net.b[0].numpy() * 2
    return {
        "g_ij, j in A": np.concatenate(inside),
        "g_ij, j outside A": np.concatenate(outside),
        "W^(1) of Algorithm 6": moved.w[0].numpy(),
        "k b_i at the start, off whole numbers": grid - np.round(grid),
        "|b_i| at the start": np.abs(grid) / 2,
    }


# Definition B.57, Lemma B.64 and Theorem B.65 ------------------------------------------------------------------------

FEATURES = ((51, 2), (101, 4), (201, 4))
LARGE = (1001, 4001, 16_001)


def draw_cone(key: Key) -> tuple[Array, Array]:
    """300 vectors about a unit direction."""
    rng = key.numpy()
    D = np.array([0.5, 0.5, 0.5, 0.5, 0.0, 0.0])
    return rng.uniform(0.2, 3, (300, 1)) * (D + rng.uniform(-0.15, 0.15, (300, 6))), D


def says_cone(settings: tuple[Array, Array]) -> Sequence[Statement]:
    """||w/||w|| - D||_inf < gamma_inf: signed, and free of scale."""
    v, D = settings
    unit = v / np.linalg.norm(v, axis=1, keepdims=True)
    inside = (np.abs(unit - D).max(1) < 0.1).astype(float)
    wide = (np.linalg.norm(unit - D, axis=1) < 0.1).astype(float)
    return (
        equal(
            "in the cone of 0.1",
            SHARE,
            inside,
            "Definition B.57",
            axis="vector",
            rival=wide,
            rival_says="the Euclidean norm in place of the largest coordinate",
        ),
        equal("5 times the vector", SHARE, inside, "Definition B.57: scale-free", rival=wide, rival_says="Euclidean"),
        equal(
            "the vector turned round",
            SHARE,
            np.zeros(300),
            "Definition B.57: signed",
            rival=inside,
            rival_says="a cone that is a line",
        ),
    )


def sees_cone(settings: tuple[Array, Array], key: Key) -> Mapping[str, Observation]:
    """The library's test."""
    v, D = (torch.as_tensor(u) for u in settings)
    test = lambda u: in_max_cone(u, D, 0.1).double().numpy()  # noqa: E731
    return {"in the cone of 0.1": test(v), "5 times the vector": test(5 * v), "the vector turned round": test(-v)}


def says_network(settings: None) -> Sequence[Statement]:
    """Network, feature and probability; the order of ||G||."""
    limit = np.array([math.sqrt(k) / (d - k) for d, k in FEATURES])
    p = np.array([2.0 ** -(k - 1) for _, k in FEATURES])
    return (
        equal(
            "hinge loss of g*, k = 2, 4, 6",
            POSITIVE,
            np.zeros(3),
            "Lemma B.64: sign (-1)^i, OPT = 0",
            margin=1e-9,
            rival=control("hinge loss with the sign of odd k"),
            rival_says="the sign of odd k",
        ),
        at_most(
            "||G/||G|| - D||_inf where w agrees on A",
            POSITIVE,
            limit,
            "Lemma B.64: sqrt k/(d - k)",
            axis="d, k",
            rival=control("||G/||G|| - D||_inf where one sign of A differs"),
            rival_says="one relevant sign wrong",
        ),
        equal(
            "share of such neurons",
            SHARE,
            p,
            "Lemma B.64: p = Theta(2^-(k-1)), here exactly",
            margin=0.01,
            axis="d, k",
            rival=p / 2,
            rival_says="2^-k, one ray only",
        ),
        *both(
            "exponent in d of ||G||, k = 4",
            EXPONENT,
            "Lemma B.64: B_G = Theta(d^-k)",
            reported=-4.0,
            corrected=-1.5,
            says="d^(-(k-1)/2), from (B.557)",
            margin=0.05,
        ),
    )


def sees_network(settings: None, key: Key) -> Mapping[str, Observation]:
    """Every pattern of A; G as lemma_b63 has it, which the library's gradient is judged by."""
    rng, hinge, less, off, wrong, share = key.numpy(), [], [], [], [], []
    for k in (2, 4, 6):
        x = cube(k)
        y, u = x.prod(1), x.sum(1) / math.sqrt(k)
        for out, shift in ((hinge, 1), (less, 0)):
            out.append(float(np.maximum(1 - y * hats(u, k, shift), 0).mean()))
    for d, k in FEATURES:
        w, D = rng.choice([-1.0, 1.0], (60_000, d)), np.r_[np.full(k, k**-0.5), np.zeros(d - k)]
        agree = np.abs(w[:, :k].sum(1)) == k
        share.append(chance(agree, SHARE))
        uneven = w[:200].copy()
        uneven[:, :k] = [*[1] * (k - 1), -1]
        for out, rows in ((off, w[agree][:200]), (wrong, uneven)):
            g = first_gradient(rows, k, d)
            unit = g / np.linalg.norm(g, axis=1, keepdims=True)
            unit *= np.sign(unit[:, :1])  # the sign of a picks the ray
            out.append(float(np.abs(unit - D).max()))
    size = [np.linalg.norm(first_gradient(np.ones((1, d)), 4, d)) for d in LARGE]
    return {
        "hinge loss of g*, k = 2, 4, 6": np.array(hinge),
        "hinge loss with the sign of odd k": np.array(less),
        "||G/||G|| - D||_inf where w agrees on A": np.array(off),
        "||G/||G|| - D||_inf where one sign of A differs": np.array(wrong),
        "share of such neurons": share,
        "exponent in d of ||G||, k = 4": float(np.polyfit(np.log(LARGE), np.log(size), 1)[0]),
    }


CASES = ((101, 4), (1001, 4), (10_001, 6))


def says_theorem(settings: None) -> Sequence[Statement]:
    """The reported term, and what the numbers of Lemma B.64 give."""
    said = np.array([k * k * math.sqrt(d * math.log(d)) / (d - k) for d, k in CASES])
    more = np.array([6 * math.sqrt(2) * (k + 1) / k for _, k in CASES])
    return both(
        "log of r B_a1 sqrt(2 d log d) gamma_inf",
        REAL,
        "proof of Theorem B.65",
        reported=np.log(said),
        corrected=np.log(said * more),
        says="6 sqrt 2 (k + 1)/k times that",
        margin=1e-9,
        axis="d, k",
    )


def sees_theorem(settings: None, key: Key) -> Mapping[str, Observation]:
    """r = 3 (k + 1), B_a1 = 2 sqrt k and gamma_inf = sqrt k/(d - k) in Theorem B.62."""
    found = [3 * (k + 1) * 2 * k**0.5 * math.sqrt(2 * d * math.log(d)) * k**0.5 / (d - k) for d, k in CASES]
    return {"log of r B_a1 sqrt(2 d log d) gamma_inf": np.log(found)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gradient_features.definition_uniform_parity",
        entries=("gradient_features.definition_uniform_parity",),
        says="Fourier coefficients of majority, which the first gradient consists of.",
        statements=says_majority,
        observe=sees_majority,
        remarks="The numerator is that of (B.547), C((d-1)/2, (k-1)/2). d is odd.",
    ),
    Claim(
        id="gradient_features.lemma_b63",
        entries=("gradient_features.lemma_b63", "gradient_features.algorithm6"),
        says="The first gradient of a sign-initialised neuron under uniform parity, exactly.",
        settings=draw_signs,
        statements=says_first,
        observe=sees_first,
        accuses=Accusation(
            quote="If i is not in A, then g_ij = xi_{k-1} prod_{l in A u {j}} w_il",
            place="Lemma B.63, (B.548) and (B.549)",
            reading="g_ij as defined in (B.546), the expectation with relu', for coordinates j in A and outside",
            hits="misprint",
            derivation="relu' = (1 + sign)/2 and the half without sign has mean 0, so g_ij is 1/2 E[y x_j sign(<w, x> "
            "- b)], half a Fourier coefficient of majority: at A without j for j in A, which has k - 1 members, and "
            "at A with j for j outside, which has k + 1. The indices, i for j and k - 1 for k + 1, are misprints: "
            "(B.554) has them right. The factor cancels in the directions, which Lemma B.64 uses.",
        ),
        remarks="d >= 2 (k + 1)^2 is not needed for the identity; d odd, |b| < 1 and k even are.",
    ),
    Claim(
        id="gradient_features.definition_b57",
        entries=("gradient_features.definition_b57",),
        says="The cone in the largest coordinate.",
        settings=draw_cone,
        statements=says_cone,
        observe=sees_cone,
    ),
    Claim(
        id="gradient_features.lemma_b64",
        entries=("gradient_features.lemma_b64", "gradient_features.definition_b57"),
        says="Uniform parity has a feature in the largest coordinate, with gradients of norm Theta(d^-k), and a "
        "network without loss.",
        statements=says_network,
        observe=sees_network,
        accuses=Accusation(
            quote="B_G = Theta(B_G1) = Theta(d^-k)",
            place="Lemma B.64",
            reading="k fixed and d large",
            hits="misprint",
            derivation="By (B.557) the norm of the gradient is sqrt(k xi_{k-1}^2 + (d - k) xi_{k+1}^2) up to a factor, "
            "and |xi_{k-1}| is of order d^(-(k-1)/2), |xi_{k+1}| smaller by k/d: the norm is of order d^(-(k-1)/2). "
            "Read as d^(-Theta(k)), as (B.557) suggests and Theorem B.65 needs, it is right.",
        ),
        remarks="For even k the centre bump has its tip at b = 0, where a bias has no sign. With every tip as two "
        "neurons ||a|| is within B_a2, as in lemma3_21_norm.",
    ),
    Claim(
        id="gradient_features.theorem_b65",
        entries=("gradient_features.theorem_b65",),
        says="The derivation: with the numbers of Lemma B.64 the second term of Theorem B.62 is "
        "k^2 sqrt(d log d)/(d - k).",
        statements=says_theorem,
        observe=sees_theorem,
        accuses=Accusation(
            quote="Plug the values of parameters into Theorem B.62 and directly get the result",
            place="proof of Theorem B.65",
            reading="gamma_inf = sqrt k/(d - k), as the proof of Lemma B.64 has it, and 3 (k + 1) neurons",
            hits="proof",
            derivation="3 (k + 1) times 2 sqrt k times sqrt(2 d log d) times sqrt k/(d - k) is 6 sqrt 2 k (k + 1) "
            "sqrt(d log d)/(d - k), which is 6 sqrt 2 (k + 1)/k times the reported term. Whether the error of the "
            "theorem is above its bound is open.",
        ),
    ),
)
