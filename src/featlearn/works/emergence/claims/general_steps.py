"""The two gradient steps in the general setting (Lemmas 40 to 48), with exact population gradients.

Hidden bits are enumerated. Input noise enters a neuron as Gaussian preactivation noise of variance
sigma_z^2 ||w||^2 / st^2, and the noise part of the gradient follows from Stein's identity, so nothing is sampled except
where a statement is about single inputs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim, Premise
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, control, equal, exponent
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.learn.fit import fit
from featlearn.learn.schedules import Stage
from featlearn.works.emergence.setup import (
    Array,
    GeneralLaw,
    gate,
    gate_derivative,
    gate_second_derivative,
    general_parity,
    general_terms,
    near_orthogonal,
    network,
)

DELTA = 0.1
ETA = 0.05
NARROW, ERROR = 1e-4, 0.01
"""eps_e of the start for the leading orders, and of the one for the bounds (the inventory's)."""


def eps_e(law: GeneralLaw, sigma_w: float, noise: float) -> float:
    """The relative error of the first step, constant 1, with the noise of the data, sigma_z, in its second term."""
    d, D = law.M.shape
    log = math.sqrt(2 * math.log(D / DELTA))
    return D * sigma_w * log / (law.scale**2 * noise) + math.sqrt(d) * law.sigma_z * sigma_w * log / (law.scale * noise)


@dataclass(frozen=True)
class Start:
    """A law and first halves w (m, d), b (m), a (m) of a start; error: its eps_e; noise: s_1 = s_2 = k^(-3/2)."""

    law: GeneralLaw
    w: Array
    b: Array
    a: Array
    error: float
    noise: float = 3**-1.5


def start(law: GeneralLaw, m: int, sigma_w: float, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """w ~ N(0, sigma_w^2), b ~ N(0, 1/k^4), a ~ N(0, sigma_a^2) with sigma_a = st^2 / (gamma k^2)."""
    sigma_a = law.scale**2 / (float(law.gamma[0]) * law.k**2)
    return (
        sigma_w * rng.normal(size=(m, len(law.M))),
        rng.normal(size=m) / law.k**2,
        sigma_a * rng.normal(size=m),
    )


def small_law(key: Key, sigma_z: float = 0.05) -> GeneralLaw:
    """10 patterns, 3 relevant, share of class -1 0.8, inner products of exactly +-1/(16 D)."""
    D, k, d = 10, 3, 14
    return general_parity(D, k, near_orthogonal(D, d, 1 / (16 * D), key.numpy()), sigma_z=sigma_z)


def draw_start(key: Key, error: float) -> Start:
    """Twelve neurons."""
    law = small_law(key / "dictionary")
    sigma_w = error / eps_e(law, 1.0, law.k**-1.5)
    return Start(law, *start(law, 12, sigma_w, (key / "start").numpy()), error)


def unmet(s: Start) -> tuple[Premise, ...]:
    """Conditions of Lemma 40; constants are not given, so what grows with log^2 is not decidable at one size."""
    law, D = s.law, s.law.M.shape[1]
    need = math.log(D * len(s.b) * len(law.M) / DELTA) ** 2
    return (
        Premise("k = Omega(log^2(D m d/delta))", None, f"{law.k} against {need:.0f}"),
        Premise("p_o = Omega(k^2/D)", None, f"{law.mean[-1]:g} against {law.k**2 / D:g}"),
    )


# Lemmas 40 to 43


def sphi2(law: GeneralLaw) -> float:
    """Var(phi_l) of a background pattern."""
    return float(law.mean[-1] * (1 - law.mean[-1])) / law.scale**2


def first_statements(s: Start) -> tuple[Statement, ...]:
    """Leading orders in w, with constant 1 in front of eps_e, and the powers of sigma_w behind them."""
    law, k = s.law, s.law.k
    st, share = law.scale, float(law.gamma[0]) / law.scale
    q = s.w @ law.M
    pull = q[:, :k].sum(1) * share
    on, rho = gate(s.b, s.noise) * share, (law.M.T @ law.M)[k:, :k].sum(1)
    side = sphi2(law) * q[:, k:] * (gate_second_derivative(s.b, s.noise) * pull)[:, None]
    bias, out = gate_derivative(s.b, s.noise) * pull, gate(s.b, s.noise) * pull
    near = {n: 0.02 * float(np.abs(v).max()) for n, v in (("side", side), ("bias", bias), ("out", out))}
    step = general_terms(replace(law, sigma_z=0.0), s.w, s.b, s.noise).T @ law.M.T
    return (
        equal(
            "T_j, j in A",
            REAL,
            np.repeat(on[:, None], k, 1),
            "Lemma 40: beta gamma/st up to eps_e/st, beta = Pr[b + s xi in (0, 1)] to this order",
            axis="neuron, pattern",
            margin=s.error / st,
            rival=control("T_j, j in A, without class weights"),
            rival_says="no class weights",
        ),
        exponent(
            "power of sigma_w in T_j - beta gamma/st, j in A",
            "equal",
            1.0,
            "Lemma 40: eps_e/st, of first order in sigma_w",
            margin=0.02,
            rival=2.0,
            rival_says="the order of the background terms",
        ),
        equal(
            "T_l, l not in A",
            REAL,
            side,
            "Taylor's formula: sphi2 q_l F''(b) gamma sum_A q/st",
            axis="neuron, pattern",
            margin=near["side"],
            rival=0.5 * side,
            rival_says="a Taylor term not counted twice",
            form="derived",
        ),
        exponent(
            "power of sigma_w in T_l, l not in A",
            "at least",
            1.0,
            "Lemma 40: sphi2 eps_e st, of first order in sigma_w",
            margin=0.05,
            rival=0.0,
            rival_says="a background part that does not shrink with the start",
        ),
        equal(
            "<sum_j M_j T_j + v, M_l>, l not in A",
            REAL,
            on[:, None] * rho,
            "Lemma 43 read for inner products: sum_{j in A} rho_jl beta gamma/st, the coefficient of M_l being smaller",
            axis="neuron, pattern",
            margin=s.error / st,
            rival=0.0,
            rival_says="as small as the coefficients",
            form="derived",
        ),
        equal(
            "T_b",
            REAL,
            bias,
            "Lemma 41, O(eps_e), and Taylor's formula: F'(b) gamma sum_A q/st",
            axis="neuron",
            margin=near["bias"],
            rival=control("T_b without class weights"),
            rival_says="no class weights",
            form="derived",
        ),
        equal(
            "T_a",
            REAL,
            out,
            "Lemma 42, O(max q), and Taylor's formula: F(b) gamma sum_A q/st",
            axis="neuron",
            margin=near["out"],
            rival=control("T_a without class weights"),
            rival_says="no class weights",
            form="derived",
        ),
        equal(
            "w^(1), over eta a",
            REAL,
            step,
            "Lemma 43: w^(1) = eta a sum_j M_j T_j (no input noise), the start forgotten",
            axis="neuron, coordinate",
            margin=1e-11,
            rival=step + s.w / (ETA * s.a[:, None]),
            rival_says="the start kept",
        ),
    )


def own_gate(s: Start) -> Array:
    """beta gamma/st, the gate averaged over the background and all Gaussian noise."""
    law, k = s.law, s.law.k
    total = np.sqrt(s.noise**2 + (law.sigma_z / law.scale) ** 2 * (s.w**2).sum(1))
    rest = law.phi.copy()
    rest[:, :k] = 0
    beta = law.prob @ gate(rest @ law.M.T @ s.w.T + s.b, total)
    return (beta * float(law.gamma[0]) / law.scale)[:, None]


def first_observe(s: Start, key: Key) -> Mapping[str, Observation]:
    """Every hidden vector enumerated, at this start and one ten times as wide; one step of the engine without noise."""
    law, k, m = s.law, s.law.k, len(s.b)
    wide = replace(s, w=10 * s.w)
    t, far = (general_terms(law, v.w, v.b, v.noise) for v in (s, wide))
    plain = general_terms(law, s.w, s.b, s.noise, np.ones_like(law.y))
    powers = [
        math.log10(np.linalg.norm(high) / np.linalg.norm(low))
        for low, high in (
            (t.T[:, :k] - own_gate(s), far.T[:, :k] - own_gate(wide)),
            (t.T[:, k:], far.T[:, k:]),
        )
    ]
    still = replace(law, sigma_z=0.0)
    stage = Stage(steps=1, rate_w=ETA, rate_b=ETA, rate_a=ETA, keep_w=0.0, noise=s.noise)
    moved = fit(
        network(np.vstack([s.w, s.w]), np.r_[s.b, s.b], np.r_[s.a, -s.a]),
        torch.as_tensor(still.x),
        torch.as_tensor(still.y),
        [stage],
        key / "fit",
        weights=torch.as_tensor(still.prob * still.alpha * len(still.prob)),
    ).net
    return {
        "T_j, j in A": t.T[:, :k],
        "T_j, j in A, without class weights": plain.T[:, :k],
        "power of sigma_w in T_j - beta gamma/st, j in A": powers[0],
        "T_l, l not in A": t.T[:, k:],
        "power of sigma_w in T_l, l not in A": powers[1],
        "<sum_j M_j T_j + v, M_l>, l not in A": ((t.T @ law.M.T + t.v) @ law.M)[:, k:],
        "T_b": t.T_b,
        "T_b without class weights": plain.T_b,
        "T_a": t.T_a,
        "T_a without class weights": plain.T_a,
        "w^(1), over eta a": moved.w[0, :m].numpy() / (ETA * s.a[:, None]),
    }


C = 3.0
"""In front of each O(.), as the inventory asks."""


def bounds_statements(s: Start) -> tuple[Statement, ...]:
    """The bounds of Lemma 40 at eps_e = 0.01."""
    law, st = s.law, s.law.scale
    low = C * s.error / st
    weak = {"axis": "neuron", "expect": "too weak to test"}
    return (
        at_most("largest |T_j - beta gamma/st|, j in A", POSITIVE, low, "Lemma 40, constant 3", **weak),
        at_most("largest |T_l|, l not in A", POSITIVE, low * sphi2(law) * st**2, "Lemma 40, constant 3", **weak),
        at_most("|T_b|", POSITIVE, C * s.error, "Lemma 41, constant 3", **weak),
        at_most("|T_a|", POSITIVE, C * np.abs(s.w @ law.M).max(1), "Lemma 42, constant 3, max|q_l|", **weak),
        at_most(
            "largest |v_j|", POSITIVE, low * law.sigma_z * math.sqrt(math.log(law.k)), "Lemma 40, constant 3", **weak
        ),
    )


def bounds_observe(s: Start, key: Key) -> Mapping[str, Observation]:
    """Every hidden vector enumerated."""
    t, k = general_terms(s.law, s.w, s.b, s.noise), s.law.k
    return {
        "largest |T_j - beta gamma/st|, j in A": np.abs(t.T[:, :k] - own_gate(s)).max(1),
        "largest |T_l|, l not in A": np.abs(t.T[:, k:]).max(1),
        "|T_b|": np.abs(t.T_b),
        "|T_a|": np.abs(t.T_a),
        "largest |v_j|": np.abs(t.v).max(1),
    }


def draw_negative(key: Key) -> Start:
    """A start with every q_l negative: minus the absolute values, on an orthonormal dictionary; 6 patterns."""
    law = general_parity(6, 3, np.eye(6))
    w, b, a = start(law, 12, 1e-3, key.numpy())
    return Start(law, -np.abs(w), np.abs(b), a, math.nan)


def negative_statements(s: Start) -> tuple[Statement, ...]:
    """O(max_l q_l) with constant 3, and what holds instead."""
    q, k = s.w @ s.law.M, s.law.k
    share = float(s.law.gamma[0]) / s.law.scale
    exact = gate(s.b, s.noise) * np.abs(q[:, :k].sum(1)) * share
    said = "|T_a| at most 3 max_l q_l, every q_l negative"
    return (
        at_most(
            said,
            REAL,
            C * q.max(1),
            "Lemma 42 (thesis A.36), constant 3",
            axis="neuron",
            of="|T_a|",
            expect="contradicted",
        ),
        equal(
            "|T_a|",
            REAL,
            exact,
            "Lemma 42, corrected: F(b) gamma |sum_A q|/st, which is O(max_l |q_l|)",
            axis="neuron",
            margin=0.01 * exact,
            rival=gate(s.b, s.noise) * np.abs(q[:, :k]).max(1) * share,
            rival_says="the largest q_l alone",
            form="corrected",
            twin=said,
        ),
    )


def negative_observe(s: Start, key: Key) -> Mapping[str, Observation]:
    """Every hidden vector enumerated."""
    return {"|T_a|": np.abs(general_terms(s.law, s.w, s.b, s.noise).T_a)}


@dataclass(frozen=True)
class Loud:
    """A law with much input noise and one neuron along wstar that is half on: its kinks lie at counts 0 and 3,
    whose labels differ, or alpha y would average out."""

    law: GeneralLaw
    w: Array
    b: Array


DRAWS = 400_000


def draw_loud(key: Key) -> Loud:
    """sigma_z = 0.5."""
    law = small_law(key, sigma_z=0.5)
    return Loud(law, law.scale / 3 * law.M[:, : law.k].sum(1)[None], np.array([0.5]))


def stein_statements(s: Loud) -> tuple[Statement, ...]:
    """v = (sigma_z/st)^2 w E[alpha y F'(z)]."""
    law, noise = s.law, s.law.k**-1.5
    length, part = float(np.linalg.norm(s.w)), law.sigma_z / law.scale
    total = np.array([math.hypot(noise, part * length)])
    bend = float((law.prob * law.alpha * law.y) @ gate_derivative(law.x @ s.w.T + s.b, total)[:, 0])
    law_v = part**2 * length * bend
    return (
        equal(
            "v along w",
            REAL,
            law_v,
            "Lemma 40: v = E[alpha y zeta/st F], by Stein's identity (sigma_z/st)^2 w E[alpha y F'(z)]",
            margin=0.15 * abs(law_v),
            rival=law_v / part * law.sigma_z,
            rival_says="noise that is not divided by st",
        ),
    )


def stein_observe(s: Loud, key: Key) -> Mapping[str, Observation]:
    """Inputs sampled with their noise along w."""
    law, rng = s.law, key.numpy()
    rows = rng.choice(len(law.prob), DRAWS, p=law.prob)
    zeta = law.sigma_z * rng.normal(size=DRAWS)
    z = law.x[rows] @ s.w[0] + np.linalg.norm(s.w) * zeta / law.scale + s.b[0]
    terms = law.alpha[rows] * law.y[rows] * (zeta / law.scale) * gate(z, law.k**-1.5)
    return {"v along w": mean_of(terms, REAL, "input")}


CLAIMS = (
    Claim(
        id="emergence.lemma40",
        entries=("emergence.lemma40",),
        says="First step in the general setting with class weights: T_j = beta gamma/st up to eps_e/st on relevant "
        "patterns and much less on others; weights become eta a sum M_j T_j.",
        settings=lambda key: draw_start(key, NARROW),
        statements=first_statements,
        observe=first_observe,
        premises=unmet,
        remarks="Lemma 43 is right for the coefficients of M_j, which its sum makes of q_j; the notation also has q_j "
        "for <w, M_j>, and these inner products keep sum_{j in A} rho_jl beta gamma/st.",
    ),
    Claim(
        id="emergence.lemma40_bounds",
        entries=("emergence.lemma40",),
        says="The bounds of Lemmas 40 to 42 at eps_e = 0.01, constant 3.",
        settings=lambda key: draw_start(key, ERROR),
        statements=bounds_statements,
        observe=bounds_observe,
        premises=unmet,
    ),
    Claim(
        id="emergence.lemma42_sign",
        entries=("emergence.lemma40",),
        says="|T_a| <= O(max_l q_l) where every q_l is negative.",
        settings=draw_negative,
        statements=negative_statements,
        observe=negative_observe,
        accuses=Accusation(
            quote="|T_a| <= O(max_l q_l)",
            place="Lemma 42; thesis, Lemma A.36",
            reading="q_l as the signed components of a weight; max_l |q_l| in its place is true",
            hits="misprint",
            derivation="All q_l < 0 make the right side negative, the left side is at least 0. The next sentence of "
            "the lemma bounds |T_a| by what holds for max_l |q_l|, which is all that is used, as in Lemma 17.",
        ),
    ),
    Claim(
        id="emergence.lemma40_noise",
        entries=("emergence.lemma40",),
        says="The noise part v of the gradient, by Stein's identity and by sampling.",
        settings=draw_loud,
        statements=stein_statements,
        observe=stein_observe,
    ),
)
