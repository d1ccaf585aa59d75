"""The second gradient step improves the features (Lemmas 19-22), and neurons gather along them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COSINE, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, control, equal, exponent
from featlearn.lab.uncertainty import Observation
from featlearn.learn.fit import fit
from featlearn.learn.schedules import Stage
from featlearn.measure.clusters import cosine_silhouette
from featlearn.nets import TwoLayer, forward
from featlearn.tasks import ParityMix
from featlearn.works.emergence.claims.first_step import signal_ratio
from featlearn.works.emergence.setup import (
    Family,
    Init,
    Terms,
    background_gate,
    draw_init,
    eta_1,
    gate,
    gate_derivative,
    gate_second_derivative,
    mirrored_network,
    network,
    parity_mix,
    population_terms,
    sigma_a,
    smooth_clip,
)

Array = np.ndarray
D, K = 100, 5
NOISE, ST, GAMMA = K**-1.5, 5.0, 0.25
"""Noise of Lemma 23, st and gamma of the mixture of Table 1."""


@dataclass(frozen=True)
class AfterStep:
    """All 2m neurons after the first population step, in pattern coordinates, and its terms (of the first half)."""

    q: Float[Array, "n D"]
    b: Float[Array, " n"]
    a: Float[Array, " n"]
    first: Terms


def population_step(family: Family, init: Init, eta: float, noise: float, first: Terms | None = None) -> AfterStep:
    """First step with lam_w = 1/(2 eta), lam_a = 0, exactly; g^(0) = 0 keeps the hinge active everywhere.

    first: the terms at the start, if they are known already (they do not depend on eta).
    """
    t = first or population_terms(family, init.q, init.b, noise)
    move, shift = eta * init.a[:, None] * t.T, eta * init.a * t.T_b
    return AfterStep(
        np.vstack([move, -move]),
        np.r_[init.b + shift, init.b - shift],
        np.r_[init.a + eta * t.T_a, -init.a + eta * t.T_a],
        t,
    )


def samples(D: int, k: int, n: int, key: Key) -> tuple[Array, Array]:
    """n inputs of the parity mixture in pattern coordinates with the relevant patterns first."""
    task = ParityMix(d=D, D=D, k=k, p_o=0.5)
    truth = task.draw(key / "task")
    batch = task.sample(truth, n, key / "data")
    inside = truth.relevant.numpy()
    return batch.x.double().numpy()[:, np.r_[inside, np.setdiff1d(np.arange(D), inside)]], batch.y.double().numpy()


@dataclass(frozen=True)
class Start:
    """The mixture of Table 1 and the first halves of a mirrored start."""

    family: Family
    init: Init


def draw_start(key: Key) -> Start:
    """Sixty mirrored pairs."""
    family = parity_mix(D, K, 0.5)
    return Start(family, draw_init(family, 60, key.numpy()))


# Lemma 19 ------------------------------------------------------------------------------------------------------------

SIGMA_A = ST**2 / (GAMMA * K**2)
N_SMALL = 4000


def steps_of(m: int) -> Array:
    """Step sizes: Lemma 23, Theorem 26, and the largest that Lemma 19 allows with constant 1."""
    one = GAMMA**2 * ST / (K * m**3)
    return np.array([one, one * ST, GAMMA / (K * m * SIGMA_A)])


@dataclass(frozen=True)
class Small(Start):
    """The same with inputs (n, D)."""

    x: Array


def draw_small(key: Key) -> Small:
    """4000 inputs."""
    start = draw_start(key)
    return Small(start.family, start.init, samples(D, K, N_SMALL, key)[0])


def small_statements(at: Small) -> tuple[Statement, ...]:
    """g^(1) to first order in eta, which is far below 1."""
    init = at.init
    t = population_terms(at.family, init.q, init.b, NOISE)
    u = at.x @ t.T.T
    opened = init.a**2 * gate(init.b, NOISE)
    whole = 2 * (t.T_a * smooth_clip(init.b, NOISE) + opened * (u + t.T_b)).sum(1)
    return (
        equal(
            "g^(1)/eta",
            REAL,
            np.concatenate([whole] * 3),
            "Lemma 19, to first order: 2 sum_i (T_a S(b) + a^2 F(b) (sum_j T_j phi_j + T_b))",
            axis="step size, input",
            margin=0.01 * float(np.abs(whole).max()),
            rival=np.concatenate([2 * (opened * u).sum(1)] * 3),
            rival_says="only the movement of w counted, not that of b and a",
            form="derived",
        ),
        at_most(
            "largest |g^(1)| on samples",
            POSITIVE,
            np.ones(3),
            "Lemma 19: y g^(1) < 1",
            axis="step size",
            rival=control("largest |g^(1)| on samples, eta_1 = 2 st/(gamma sigma_a)"),
            rival_says="a first step that moves weights by their own size",
            trivial=0.0,
            trivial_says="the start, whose output is 0",
            expect="too weak to test",
        ),
        equal(
            "b_i - b_{m+i} after step 1, over eta",
            REAL,
            2 * init.a * t.T_b,
            "Lemma 19: the two halves move apart",
            axis="neuron",
            margin=1e-9,
            rival=init.a * t.T_b,
            rival_says="eta a T_b, as if one half stayed",
            form="derived",
        ),
    )


def small_observe(at: Small, key: Key) -> Mapping[str, Observation]:
    """The engine's output after population steps."""
    m, found, largest = len(at.init.b), [], []
    start = population_terms(at.family, at.init.q, at.init.b, NOISE)
    sizes = (*steps_of_engine(at.family, m), 2 * ST / (GAMMA * sigma_a(at.family)))
    for eta in sizes:
        after = population_step(at.family, at.init, eta, NOISE, start)
        g = forward(network(after.q, after.b, after.a), torch.as_tensor(at.x), NOISE)[0].numpy()
        found.append(g / eta)
        largest.append(float(np.abs(g).max()))
    eta = sizes[2]
    after = population_step(at.family, at.init, eta, NOISE, start)
    return {
        "g^(1)/eta": np.concatenate(found[:3]),
        "largest |g^(1)| on samples": np.array(largest[:3]),
        "largest |g^(1)| on samples, eta_1 = 2 st/(gamma sigma_a)": largest[3],
        "b_i - b_{m+i} after step 1, over eta": (after.b[:m] - after.b[m:]) / eta,
    }


def steps_of_engine(family: Family, m: int) -> tuple[float, float, float]:
    """The step sizes as the setup has them."""
    return eta_1(family, m, 1), eta_1(family, m, 2), GAMMA / (K * m * sigma_a(family))


# Lemmas 20 to 22 -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Second(Start):
    """A start with what one population step of size eta makes of it."""

    eta: float
    after: AfterStep


def draw_second(key: Key) -> Second:
    """100 times the step of Lemma 23 at m = 300: the largest of three."""
    start = draw_start(key)
    eta = 100 * eta_1(start.family, 300)
    return Second(start.family, start.init, eta, population_step(start.family, start.init, eta, NOISE))


def second_statements(at: Second) -> tuple[Statement, ...]:
    """Leading orders of the second gradient; beta has no background in it any more."""
    q, b = at.after.q, at.after.b
    pull, sphi2 = GAMMA * q[:, :K].sum(1) / ST, 0.25 / ST**2
    law = np.repeat(gate(np.r_[at.init.b, at.init.b], NOISE) * GAMMA / ST, K)
    first = background_gate(at.family, at.init.q, at.init.b, NOISE) * GAMMA / ST

    def order(name: str, value: Array) -> Statement:
        margin = 0.01 * float(np.abs(value).max())
        return equal(
            name,
            REAL,
            np.ravel(value),
            "Lemma 20, first term of its proof's expansion",
            axis="neuron, pattern",
            margin=margin,
            rival=np.zeros(value.size),
            rival_says="exactly 0",
            form="derived",
        )

    return (
        equal(
            "T_j of step 2, j in A",
            REAL,
            law,
            "Lemma 20: beta gamma/st, beta = Phi((1-b)/s) - Phi(-b/s)",
            axis="neuron, pattern",
            margin=1e-4 * law,
            rival=np.repeat(np.r_[first, first], K),
            rival_says="the beta of step 1, with the background in the gate",
        ),
        order(
            "T_j of step 2, j not in A", gate_second_derivative(b, NOISE)[:, None] * sphi2 * q[:, K:] * pull[:, None]
        ),
        order("T_b of step 2", gate_derivative(b, NOISE) * pull),
        order("T_a of step 2", gate(b, NOISE) * pull),
        exponent(
            "exponent in eta_1 of background |T_j| of step 2",
            "equal",
            2.0,
            "Lemma 20, the product of two weights of order eta_1; its bound sphi2 eps_e2 st has 1",
            margin=0.02,
            rival=1.0,
            rival_says="the bound's rate",
            form="derived",
        ),
        at_least(
            "share of neurons whose signal-to-background ratio grows",
            SHARE,
            0.95,
            "Lemma 20 beside Lemma 6: the second step improves the direction",
            rival=0.5,
            rival_says="no improvement",
            form="criterion",
        ),
    )


def second_observe(at: Second, key: Key) -> Mapping[str, Observation]:
    """Exact population terms, which emergence.lemma6 compares with the engine."""
    t = population_terms(at.family, at.after.q, at.after.b, NOISE)
    m, rest = len(at.init.b), [math.sqrt((t.T[:, K:] ** 2).mean())]
    sizes = at.eta / np.array([1.0, 10.0, 100.0])
    for eta in sizes[1:]:
        step = population_step(at.family, at.init, float(eta), NOISE, at.after.first)
        rest.append(math.sqrt((population_terms(at.family, step.q, step.b, NOISE).T[:, K:] ** 2).mean()))
    grown = signal_ratio(t.T[:m], K) > signal_ratio(at.after.first.T, K)
    return {
        "T_j of step 2, j in A": t.T[:, :K],
        "T_j of step 2, j not in A": t.T[:, K:],
        "T_b of step 2": t.T_b,
        "T_a of step 2": t.T_a,
        "exponent in eta_1 of background |T_j| of step 2": float(np.polyfit(np.log(sizes), np.log(rest), 1)[0]),
        "share of neurons whose signal-to-background ratio grows": float(grown.mean()),
    }


# directions ----------------------------------------------------------------------------------------------------------


def directions_statements(at: Start) -> tuple[Statement, ...]:
    """Numbers behind the neuron pictures."""
    name, source = "share of neurons with |cos(w, wstar)| > 0.95 after {}, {} structure", "Section E.1, neuron maps"
    given = {"rival_says": "the same steps without structure", "form": "criterion"}
    return (
        at_most(
            "share of neurons with |cos(w, wstar)| > 0.95 at the start",
            SHARE,
            0.1,
            source,
            rival=control(name.format("step 2", "with")),
            rival_says="the share after step 2",
            form="criterion",
        ),
        *(
            at_least(
                name.format(step, "with"), SHARE, 0.9, source, rival=control(name.format(step, "without")), **given
            )
            for step in ("step 1", "step 2")
        ),
        at_least(
            "largest cosine after step 2, with structure",
            COSINE,
            0.99,
            "Figure 6: above 0.99",
            rival=control("largest cosine after step 2, without structure"),
            rival_says="the same steps without structure",
        ),
        at_least(
            "silhouette of the split by the sign of a, after step 2, with structure",
            COSINE,
            0.9,
            source,
            rival=control("silhouette of the split by the sign of a, at the start"),
            rival_says="the start",
            form="criterion",
        ),
    )


def directions_observe(at: Start, key: Key) -> Mapping[str, Observation]:
    """Two real steps of the engine on 25,000 samples."""
    eta, found = eta_1(at.family, len(at.init.b)), {}
    stages = [
        Stage(steps=1, rate_w=eta, rate_b=eta, rate_a=eta, keep_w=0.0, noise=NOISE),
        Stage(steps=1, rate_w=1.0, rate_b=1.0, rate_a=1.0, keep_w=0.0, keep_a=0.0, noise=NOISE),
    ]
    for structure, word in ((True, "with"), (False, "without")):
        task = ParityMix(d=D, D=D, k=K, structure=structure)
        truth = task.draw(key / "task")
        batch = task.sample(truth, 25_000, key / "data" / int(structure))
        inside = truth.relevant.numpy()
        x = batch.x.double()[:, np.r_[inside, np.setdiff1d(np.arange(D), inside)]]
        nets: list[TwoLayer] = [mirrored_network(at.init)]
        for stage in stages:
            nets.append(fit(nets[-1], x, batch.y.double(), [stage], key / "fit").net)
        ws = [v.w[0].numpy() for v in nets]
        cos = [w[:, :K].sum(1) / np.linalg.norm(w, axis=1) / math.sqrt(K) for w in ws]
        share = [float((np.abs(c) > 0.95).mean()) for c in cos]
        positive = torch.as_tensor(np.r_[at.init.a, -at.init.a] > 0).long()
        found["share of neurons with |cos(w, wstar)| > 0.95 at the start"] = share[0]
        for i in (1, 2):
            found[f"share of neurons with |cos(w, wstar)| > 0.95 after step {i}, {word} structure"] = share[i]
        found[f"largest cosine after step 2, {word} structure"] = float(cos[2].max())
        found[f"silhouette of the split by the sign of a, after step 2, {word} structure"] = cosine_silhouette(
            nets[2].w[0], positive
        )
        found["silhouette of the split by the sign of a, at the start"] = cosine_silhouette(nets[0].w[0], positive)
    return found


def many(m: int, name: str) -> Premise:
    """k = Omega(log^2(.)), whose constant is not given."""
    need = math.log(D * m / (0.1 * GAMMA)) ** 2
    return Premise(f"k = Omega(log^2({name}))", None, f"{K} against {need:.0f}")


PREMISE = Premise("eta_1 <= gamma/(k m sigma_a)", bool((steps_of(60) <= steps_of(60)[2]).all()), "three step sizes")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.lemma19",
        entries=("emergence.lemma19",),
        says="After step 1 |g| < 1 on every input; g and the pair differences by their leading orders.",
        settings=draw_small,
        statements=small_statements,
        observe=small_observe,
        premises=(PREMISE,),
        remarks="For |<w^(1), x>| (A.127) derives O(eta (1 + p_o st)/gamma), and (A.135) goes on with O(eta/gamma); at "
        "the steps of Lemma 23 and Theorem 26 either leaves |g| far below 1.",
    ),
    Claim(
        id="emergence.lemma20",
        entries=("emergence.lemma20",),
        says="Second gradient: beta gamma/st on A with beta = Phi((1-b)/s) - Phi(-b/s), of order eta_1^2 elsewhere, so "
        "every neuron's signal-to-background ratio grows.",
        settings=draw_second,
        statements=second_statements,
        observe=second_observe,
        premises=(many(60, "D m/delta"),),
        remarks="Population gradients: with the samples of the simulations, noise hides the gain in direction.",
    ),
    Claim(
        id="emergence.method_mds",
        entries=("emergence.method_mds",),
        says="Numbers behind the neuron pictures: the share of neurons along +-wstar rises with the steps, only with "
        "structure.",
        settings=draw_start,
        statements=directions_statements,
        observe=directions_observe,
    ),
)
