"""The second gradient step in the general setting, and a second layer on its features (Lemmas 44, 45, 48)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.kernels import hinge_classifier
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, control, equal, exponent
from featlearn.lab.uncertainty import Observation
from featlearn.works.emergence.claims.general_steps import DELTA, Start, small_law, start, unmet
from featlearn.works.emergence.setup import Array, GeneralLaw, GeneralTerms, gate, general_terms, smooth_clip


@dataclass(frozen=True)
class TwoSteps:
    """Parameters of both mirrored halves after steps 1 and 2, and the terms of the two gradients."""

    w1: Array
    b1: Array
    a1: Array
    w2: Array
    b2: Array
    a2: Array
    first: GeneralTerms
    second: GeneralTerms


def rate(law: GeneralLaw, m: int) -> float:
    """eta_1 of Lemma 48: gamma^2 p_min st/(k m^3)."""
    p_min = float(min(law.prob @ (law.y > 0), law.prob @ (law.y < 0)))
    return float(law.gamma[0]) ** 2 * p_min * law.scale / (law.k * m**3)


def two_steps(s: Start, *, weighted: bool = True, factor: float = 1.0) -> TwoSteps:
    """Steps 1 and 2 of the schedule of Lemma 48 from exact gradients, while the hinge is active everywhere.

    factor multiplies eta_1. The two halves of the mirrored start part ways in step 1.
    """
    law, noise = s.law, s.noise
    w, b, a = np.vstack([s.w, s.w]), np.r_[s.b, s.b], np.r_[s.a, -s.a]
    weights = None if weighted else np.ones_like(law.y)
    eta = factor * rate(law, len(s.b))
    first = general_terms(law, w, b, noise, weights)
    w1 = eta * a[:, None] * (first.T @ law.M.T + first.v)
    b1, a1 = b + eta * a * first.T_b, a + eta * first.T_a
    second = general_terms(law, w1, b1, noise, weights)
    w2 = a1[:, None] * (second.T @ law.M.T + second.v)
    return TwoSteps(w1, b1, a1, w2, b1 + a1 * second.T_b, second.T_a, first, second)


def noisy_inputs(law: GeneralLaw, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """n samples (x, y) with input noise."""
    rows = rng.choice(len(law.prob), n, p=law.prob)
    return law.x[rows] + (law.sigma_z / law.scale) * rng.normal(size=(n, len(law.M))), law.y[rows]


def best_readout(w: Array, b: Array, law: GeneralLaw, key: Key, n: int = 2000) -> float:
    """Hinge loss on unseen inputs of the best second layer on sigma(<w, x> + b)."""
    rng = key.numpy()
    x, y = noisy_inputs(law, n, rng)
    new, label = noisy_inputs(law, 20_000, rng)
    features, unseen = (np.clip(v @ w.T + b, 0, 1) for v in (x, new))
    readout = hinge_classifier(torch.from_numpy(features), torch.from_numpy(y), 1e3, tolerance=2e-3)
    return float(np.clip(1 - label * (unseen @ readout.w.numpy()), 0, None).mean())


HALF = 40


def draw_wide(key: Key) -> Start:
    """The start of the main text, sigma_w = 1/k, whose first step is noisy; 2m = 80 neurons."""
    law = small_law(key / "dictionary", sigma_z=0.02)
    return Start(law, *start(law, HALF, 1 / law.k, (key / "start").numpy()), math.nan)


def second_statements(s: Start) -> tuple[Statement, ...]:
    """Lemma 44, the leading orders of Lemma 45, and Lemma 48 with constant 1 and its logarithm."""
    law, k, m, st = s.law, s.law.k, HALF, s.law.scale
    b = np.r_[s.b, s.b]
    on = np.repeat(gate(b, s.noise) * float(law.gamma[0]) / st, k)
    tail = math.sqrt(2 * math.log(2 * m / DELTA))
    return (
        equal(
            "share of inputs with y g^(1) < 1",
            SHARE,
            1.0,
            "Lemma 44, to within exp(-Omega(k))",
            margin=1e-4,
            rival=control("the same at a thousand times the largest step of the lemma"),
            rival_says="a step beyond its condition",
            trivial=1.0,
            trivial_says="the start, whose output is 0",
            expect="too weak to test",
        ),
        equal(
            "T_j of step 2, j in A",
            REAL,
            on,
            "Lemma 45: beta gamma/st with beta = Pr[b + s xi in (0, 1)]",
            axis="neuron, pattern",
            margin=1e-3 * on,
            rival=control("T_j of step 1, j in A"),
            rival_says="the terms of step 1",
        ),
        at_most(
            "largest |T_l| of step 2 over that of step 1, l not in A",
            POSITIVE,
            0.01,
            "Lemma 45: sphi2 eps_e2 st with eps_e2 of order eta_1, against eps_e",
            axis="neuron",
            rival=1.0,
            rival_says="no gain in the second step",
            form="criterion",
        ),
        exponent(
            "power of eta_1 in T_l of step 2, l not in A",
            "at least",
            1.0,
            "Lemma 45: sphi2 eps_e2 st with eps_e2 of order eta_1",
            margin=0.05,
            rival=0.0,
            rival_says="a background part that no step size removes",
        ),
        exponent(
            "power of eta_1 in v of step 2",
            "at least",
            1.0,
            "Lemma 45: eta_1 sigma_z/(gamma s_2)",
            margin=0.05,
            rival=0.0,
            rival_says="a noise part that no step size removes",
        ),
        at_most(
            "hinge loss of the best second layer, unseen inputs",
            POSITIVE,
            math.exp(-k),
            "Lemma 48: exp(-Omega(k)), constant 1",
            rival=control("the same on features of the start"),
            rival_says="features of the start",
        ),
        at_most(
            "largest ||w^(2)||",
            POSITIVE,
            tail * st / k**1.5,
            "Lemma 48: st/k^(3/2), with the largest |a| of 2m written out",
        ),
        at_most(
            "largest |b^(2)|",
            POSITIVE,
            tail / k**2,
            "Lemma 48: 1/k^2, with the largest of 2m normal biases written out",
            rival=control("largest |b^(2)| without class weights"),
            rival_says="no class weights",
        ),
        at_most(
            "largest |a^(2)|",
            POSITIVE,
            1 / (k * m**2),
            "Lemma 48: 1/(k m^2), constant 1",
            rival=control("largest |a^(2)| without class weights"),
            rival_says="no class weights",
        ),
    )


def second_observe(s: Start, key: Key) -> Mapping[str, Observation]:
    """Two exact steps, at eta_1 and ten times it, without class weights, and far beyond the condition on eta_1."""
    law, k, m = s.law, s.law.k, HALF
    run, more, plain = two_steps(s), two_steps(s, factor=10.0), two_steps(s, weighted=False)
    sigma_a = law.scale**2 / (float(law.gamma[0]) * k**2)
    largest = float(law.gamma[0]) / (k * m * sigma_a * law.scale) / rate(law, m)
    x, y = noisy_inputs(law, 20_000, (key / "inputs").numpy())

    def active(steps: TwoSteps) -> float:
        return float((y * (smooth_clip(x @ steps.w1.T + steps.b1, s.noise) @ steps.a1) < 1).mean())

    def power(low: Array, high: Array) -> float:
        return math.log10(np.linalg.norm(high) / np.linalg.norm(low))

    rest = [np.abs(t.T[:, k:]).max(1) for t in (run.first, run.second)]
    both = np.vstack([s.w, s.w]), np.r_[s.b, s.b]
    return {
        "share of inputs with y g^(1) < 1": active(run),
        "the same at a thousand times the largest step of the lemma": active(two_steps(s, factor=1000 * largest)),
        "T_j of step 2, j in A": run.second.T[:, :k],
        "T_j of step 1, j in A": run.first.T[:, :k],
        "largest |T_l| of step 2 over that of step 1, l not in A": rest[1] / rest[0],
        "power of eta_1 in T_l of step 2, l not in A": power(run.second.T[:, k:], more.second.T[:, k:]),
        "power of eta_1 in v of step 2": power(run.second.v, more.second.v),
        "hinge loss of the best second layer, unseen inputs": best_readout(run.w2, run.b2, law, key / "readout"),
        "the same on features of the start": best_readout(*both, law, key / "readout"),
        "largest ||w^(2)||": float(np.linalg.norm(run.w2, axis=1).max()),
        "largest |b^(2)|": float(np.abs(run.b2).max()),
        "largest |b^(2)| without class weights": float(np.abs(plain.b2).max()),
        "largest |a^(2)|": float(np.abs(run.a2).max()),
        "largest |a^(2)| without class weights": float(np.abs(plain.a2).max()),
    }


CLAIMS = (
    Claim(
        id="emergence.lemma44",
        entries=("emergence.lemma44",),
        says="Second step in the general setting: the hinge is active on almost all inputs, T_j = beta gamma/st on "
        "relevant patterns and nearly 0 elsewhere, and some second layer has hinge loss below exp(-k).",
        settings=draw_wide,
        statements=second_statements,
        observe=second_observe,
        premises=unmet,
        remarks="The proof of Lemma 45 quotes Lemma 44 as y g^(1) > 1 and goes on with y g^(1) < 1, which that lemma "
        "has.",
    ),
)
