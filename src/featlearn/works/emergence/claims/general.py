"""The general setting: incoherent dictionary, input noise, unbalanced classes (definition, moments, existence, start).

Everything about the hidden bits is enumerated; input noise is Gaussian, so its part is in closed form.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, both, equal
from featlearn.lab.uncertainty import Observation
from featlearn.nets import gradients
from featlearn.tasks import ParityMix
from featlearn.works.emergence.setup import (
    GeneralLaw,
    gate,
    general_parity,
    near_orthogonal,
    network,
    smooth_clip,
)

Array = np.ndarray
EXACT = 1e-12
N = 100_000

# Definition ----------------------------------------------------------------------------------------------------------

D, K, SIGMA_Z, SHARE_MINUS = 10, 3, 0.3, 0.8
"""p_o = 1/2 everywhere. Given its class a relevant pattern is present with chance 1/2 +- gamma, gamma = 1/4."""
MEAN = 0.5 + (1 - 2 * SHARE_MINUS) / 4
"""E phit_j, j in A."""
BITS = K * MEAN * (1 - MEAN) + (D - K) / 4
"""sum_j Var(phit_j)."""


def draw_dictionary(key: Key) -> Array:
    """Ten random unit columns in R^14."""
    M = key.numpy().normal(size=(14, D))
    return M / np.linalg.norm(M, axis=0)


def definition_statements(M: Array) -> tuple[Statement, ...]:
    """Normalisation by st, the signal gamma, and the example of two Gaussians."""
    total = BITS + D * SIGMA_Z**2
    law = general_parity(D, K, M, negative_share=SHARE_MINUS)
    centred = law.phit - law.mean
    gram, cov = M.T @ M, centred.T @ (law.prob[:, None] * centred)
    plain = BITS + len(M) * SIGMA_Z**2
    spread = 6 * np.r_[np.full(3, 0.4), np.full(3, 0.16 * math.sqrt(2))] / math.sqrt(N)
    return (
        *both(
            "E||x||^2, orthonormal patterns",
            POSITIVE,
            "Appendix F.1.1 (thesis A.8.1)",
            reported=BITS / total + D,
            corrected=1.0,
            says="zeta/st in place of zeta/sigma_zeta",
            margin=0.01,
        ),
        *both(
            "E||xt - E xt||^2, a random dictionary",
            POSITIVE,
            "Appendix F.1.1 (thesis A.8.1)",
            reported=plain,
            corrected=plain + float((gram * cov).sum() - np.trace(cov)),
            says="with the cross terms <M_j, M_l> Cov(phit_j, phit_l)",
            margin=1e-6,
        ),
        equal(
            "gamma, unbalanced",
            REAL,
            0.25,
            "Appendix F.1, A1: (E[phit_i | +1] - E[phit_i | -1])/2 = (1 - p_o)/2",
            margin=1e-6,
            rival=0.25 * (1 - (1 - 2 * SHARE_MINUS) ** 2),
            rival_says="the main text's E[y phit] - E[y] E[phit]",
        ),
        equal(
            "E[y phit_i] - E[y] E[phit_i], balanced",
            REAL,
            0.25,
            "Appendix F.1, A1: gamma of the main text where classes are balanced",
            margin=EXACT,
            rival=0.5,
            rival_says="a sum in place of the mean over classes",
        ),
        equal(
            "means and variances of xt - v/2 - y v/2",
            REAL,
            np.array([0.0, 0.0, 0.0, 0.16, 0.16, 0.16]),
            "Appendix F.1, the example: one pattern v, sigma_zeta = 0.4",
            axis="moment",
            margin=spread,
            rival=np.array([0.0, 0.0, 0.0, 0.4, 0.4, 0.4]),
            rival_says="sigma_zeta as a variance",
        ),
    )


def definition_observe(M: Array, key: Key) -> Mapping[str, Observation]:
    """Samples of the tasks, and every hidden vector of a law with a random dictionary."""
    task = ParityMix(d=D, D=D, k=K, p_o=0.5, negative_share=SHARE_MINUS, sigma_z=SIGMA_Z)
    truth = task.draw(key / "task")
    x = task.sample(truth, N, key / "data").x.double().numpy()
    law = general_parity(D, K, M, negative_share=SHARE_MINUS, sigma_z=SIGMA_Z)
    length = law.scale**2 * float(law.prob @ (law.x**2).sum(1)) + len(M) * SIGMA_Z**2
    fair = general_parity(D, K, np.eye(D), negative_share=0.5)
    weight = fair.prob * fair.y
    pair = ParityMix(d=3, D=1, k=1, structure=False, coordinates="incoherent", sigma_z=0.4)
    one = pair.draw(key / "pair")
    drawn = pair.sample(one, N, key / "pair/data")
    v, sign = one.dictionary[:, 0].double().numpy(), drawn.y.double().numpy()
    rest = drawn.x.double().numpy() * one.scale + v * float(one.mean[0]) - v / 2 - sign[:, None] * v / 2
    return {
        "E||x||^2, orthonormal patterns": float((x**2).sum(1).mean()),
        "E||xt - E xt||^2, a random dictionary": length,
        "gamma, unbalanced": np.array([*law.gamma, truth.gamma]),
        "E[y phit_i] - E[y] E[phit_i], balanced": weight @ fair.phit[:, :K] - weight.sum() * fair.mean[:K],
        "means and variances of xt - v/2 - y v/2": np.r_[rest.mean(0), (rest**2).mean(0)],
    }


# Lemmas 38 and 39 ----------------------------------------------------------------------------------------------------

UNBALANCED = ((0.5, 0.8), (0.25, 0.7), (0.4, 0.2))
"""(p_o, share of class -1), with 9 patterns, 3 of them relevant."""


@dataclass(frozen=True)
class Neurons:
    """A law in a dictionary of coherence 0.1, and six neurons of which not every hinge is active."""

    law: GeneralLaw
    w: Array
    b: Array
    a: Array
    noise: float = 0.2


def draw_neurons(key: Key) -> Neurons:
    """Eight patterns in R^10."""
    rng = key.numpy()
    law = general_parity(8, 3, near_orthogonal(8, 10, 0.1, rng), negative_share=0.8)
    return Neurons(law, rng.normal(size=(6, 10)), 0.2 * rng.normal(size=6), 2 * rng.normal(size=6))


def weighted_gradients(
    law: GeneralLaw, w: Array, b: Array, a: Array, noise: float, own: float | None = None
) -> tuple[Array, Array, Array]:
    """Lemma 38, literally: dw, db, da of E[alpha_y hinge] with the noise inside the indicator of db, too.

    own: the noise of the score that decides whether the hinge is active, where it is another.
    """
    z = law.x @ w.T + b
    active = law.y * (smooth_clip(z, own or noise) @ a) <= 1
    weight = (law.prob * law.alpha * law.y * active)[:, None]
    hit = weight * gate(z, noise)
    return -a[:, None] * (hit.T @ law.x), -a * hit.sum(0), -(weight * smooth_clip(z, noise)).sum(0)


def moment_statements(s: Neurons) -> tuple[Statement, ...]:
    """Moments with class weights in closed form; the three gradients with the noise inside the indicators."""
    p, minus = np.array(UNBALANCED).T
    gamma = (1 - p) / 2
    m = 0.5 + (1 - 2 * minus) * gamma
    st = np.sqrt(3 * m * (1 - m) + 6 * p * (1 - p))
    dw, db, da = weighted_gradients(s.law, s.w, s.b, s.a, s.noise)
    hard = weighted_gradients(s.law, s.w, s.b, s.a, 1e-9, s.noise)[1]
    twice = {"axis": "engine and autograd, neuron", "margin": 1e-10}
    alike = {"axis": "p_o, share of class -1", "margin": EXACT}
    return (
        equal("E[alpha_y y]", REAL, 0.0, "Lemma 39", rival=1 - 2 * minus, rival_says="no class weights", **alike),
        equal("E|alpha_y y|", POSITIVE, 1.0, "Lemma 39", rival=2.0, rival_says="weights 1/Pr[y]", **alike),
        equal(
            "E[alpha_y y phi_j], j in A",
            REAL,
            gamma / st,
            "Lemma 39: gamma/st",
            rival=gamma * (1 - (1 - 2 * minus) ** 2) / st,
            rival_says="no class weights",
            **alike,
        ),
        equal(
            "E|phi_l|, l not in A",
            POSITIVE,
            2 * p * (1 - p) / st,
            "Lemma 39: 2 sphi_l^2 st",
            rival=p * (1 - p) / st,
            rival_says="without the factor 2",
            **alike,
        ),
        equal(
            "E|alpha_y y phi_j|, j in A",
            POSITIVE,
            0.5 / st,
            "Lemma 39 bounds it by 1/st; under the class weights a relevant bit is fair, which makes it half of that",
            rival=1 / st,
            rival_says="the bound taken as attained",
            form="derived",
            **alike,
        ),
        equal(
            "dL/dw",
            REAL,
            np.stack([dw, dw]),
            "Lemma 38, (A.317)",
            rival=np.stack([-dw, -dw]),
            rival_says="the opposite sign",
            **twice,
        ),
        *both(
            "dL/db",
            REAL,
            "Lemma 38, (A.318)",
            reported=np.stack([hard, hard]),
            corrected=np.stack([db, db]),
            says="xi_i inside the indicator",
            **twice,
        ),
        equal(
            "dL/da",
            REAL,
            np.stack([da, da]),
            "Lemma 38",
            rival=np.stack([-da, -da]),
            rival_says="the opposite sign",
            **twice,
        ),
    )


def autograd_gradients(law: GeneralLaw, w: Array, b: Array, a: Array, noise: float) -> tuple[Array, Array, Array]:
    """The same by automatic differentiation of the smoothed, weighted hinge loss."""
    x, y = torch.as_tensor(law.x), torch.as_tensor(law.y)
    leaves = [torch.tensor(v, requires_grad=True) for v in (w, b, a)]

    def ramp(u: torch.Tensor) -> torch.Tensor:
        bell = torch.exp(-0.5 * (u / noise) ** 2) / math.sqrt(2 * math.pi)
        return u * torch.special.ndtr(u / noise) + noise * bell

    z = x @ leaves[0].T + leaves[1]
    loss = (1 - y * ((ramp(z) - ramp(z - 1)) @ leaves[2])).clamp_min(0)
    total = (torch.as_tensor(law.prob * law.alpha) * loss).sum()
    dw, db, da = (g.numpy() for g in torch.autograd.grad(total, leaves))
    return dw, db, da


def moment_observe(s: Neurons, key: Key) -> Mapping[str, Observation]:
    """Every input of three laws; gradients by the engine and by automatic differentiation."""
    laws = [general_parity(9, 3, np.eye(9), p_o=p, negative_share=q) for p, q in UNBALANCED]
    signed = [law.prob * law.alpha * law.y for law in laws]
    pairs = list(zip(laws, signed, strict=True))
    law = s.law
    got = gradients(
        network(s.w, s.b, s.a),
        torch.as_tensor(law.x),
        torch.as_tensor(law.y),
        noise=s.noise,
        weights=torch.as_tensor(law.prob * law.alpha * len(law.prob)),
    )
    auto = autograd_gradients(law, s.w, s.b, s.a, s.noise)
    both_ways = [np.stack([g[0].numpy(), h]) for g, h in zip((got.w, got.b, got.a), auto, strict=True)]
    return {
        "E[alpha_y y]": np.array([w.sum() for w in signed]),
        "E|alpha_y y|": np.array([np.abs(w).sum() for w in signed]),
        "E[alpha_y y phi_j], j in A": np.array([w @ f.phi[:, 0] for f, w in pairs]),
        "E|phi_l|, l not in A": np.array([f.prob @ np.abs(f.phi[:, -1]) for f in laws]),
        "E|alpha_y y phi_j|, j in A": np.array([np.abs(w) @ np.abs(f.phi[:, 0]) for f, w in pairs]),
        "dL/dw": both_ways[0],
        "dL/db": both_ways[1],
        "dL/da": both_ways[2],
    }


CLAIMS = (
    Claim(
        id="emergence.definition_general",
        entries=("emergence.definition_general",),
        says="General setting: x = M phi + zeta/st with E||x||^2 = 1 for orthonormal M, and gamma = (gamma_+ + "
        "gamma_-)/2, which is the main text's gamma when classes are balanced.",
        settings=draw_dictionary,
        statements=definition_statements,
        observe=definition_observe,
        accuses=Accusation(
            quote="is equivalent to ... generating x = M phi + zeta/sigma_zeta",
            place="ICLR paper, Appendix F.1.1; thesis, A.8.1",
            reading="zeta/sigma_zeta has variance 1 a coordinate; zeta/st is right, as in the proof of Lemma A.36",
            hits="remark",
            derivation="x = (xt - E xt)/st with xt = M phit + zeta gives M phi + zeta/st at once. In the same place "
            "'sum_i (xt_i - E xt_i)^2 = sum_j Var(phit_j) + d sigma_zeta^2' leaves out sum_{j != l} <M_j, M_l> "
            "Cov(phit_j, phit_l), which is 0 for orthogonal columns and for uncorrelated patterns. The definition of x "
            "itself, x = (xt - E xt)/st, is not touched, and the proofs use zeta/st.",
        ),
    ),
    Claim(
        id="emergence.lemma39",
        entries=("emergence.lemma39",),
        says="With class weights: E[alpha y] = 0, E|alpha y| = 1, E[alpha y phi_j] = gamma/st, E|phi_l| = 2 sphi_l^2 "
        "st, and the three gradients of Lemma 38.",
        settings=draw_neurons,
        statements=moment_statements,
        observe=moment_observe,
        accuses=Accusation(
            quote="E_{xi_i} I[<w_i, x> + b_i in (0, 1)]",
            place="Lemma 38, dL/db; thesis (A.318)",
            reading="xi_i is the noise in the activation, as in dL/dw, (A.317)",
            hits="misprint",
            derivation="An expectation over xi_i of an indicator without xi_i is no average; the derivative of "
            "E sigma(z + xi) in b is Pr[z + xi in (0, 1)]. Both versions have it so, as in Lemma 12.",
        ),
    ),
)
