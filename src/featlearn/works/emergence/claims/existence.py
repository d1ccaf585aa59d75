"""A network of 3(k+1) neurons along wstar that equals the label on every input (Lemmas 5, 7 and 8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, REAL
from featlearn.lab.statement import Statement, at_least, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.nets import TwoLayer, forward
from featlearn.nets.pointwise import activate
from featlearn.tasks.patterns import orthonormal_dictionary
from featlearn.works.emergence.setup import network

Array = np.ndarray


def triangle(z: Array, s: float, slope: float, half_width: float) -> Array:
    """The bump of Lemma 7 in closed form: slope (half_width - |z - s|) near s, 0 elsewhere."""
    return slope * np.clip(half_width - np.abs(z - s), 0, None)


def bump_neurons(s: float, slope: float, half_width: float) -> tuple[Array, Array]:
    """(coefficients, biases) of the three ReLUs whose sum is the bump at s: a r(z-s+b) - 2a r(z-s) + a r(z-s-b)."""
    return slope * np.array([1.0, -2.0, 1.0]), np.array([half_width - s, -s, -half_width - s])


@dataclass(frozen=True)
class Construction:
    """g*(x) = sum_i a_i clip(u / (4k) + b_i) with u = <st wstar, x> = count - mu. Coefficients a, biases b (n)."""

    k: int
    a: Float[Array, " n"]
    b: Float[Array, " n"]

    def net(self, direction: Float[Array, " d"], scale: float) -> TwoLayer:
        """As the engine's network: every first-layer weight is st wstar / (4k)."""
        w = np.repeat((scale * direction / (4 * self.k))[None], len(self.a), 0)
        return network(w, self.b, self.a)


def construct(k: int, mu: float, positive: tuple[int, ...]) -> Construction:
    """The network of Lemma 5.

    Bumps of height 1 at every count p in 0..k, with the sign of its label. Two versions: centred on p with slope 2, or
    shifted by 1/4 with slope 4; their biases lie on lattices of spacing 1/2 that are 1/4 apart, so one of the two keeps
    |b| >= 1/8. Then a is multiplied by 4k and b divided by 4k, which clip() does not notice below 1.
    """
    versions = []
    for slope, shift in ((2.0, 0.0), (4.0, 0.25)):
        a, b = [], []
        for p in range(k + 1):
            coefficient, bias = bump_neurons(p - mu + shift, slope, 0.5)
            a.append(coefficient if p in positive else -coefficient)
            b.append(bias)
        versions.append((np.concatenate(a), np.concatenate(b)))
    a, b = next(v for v in versions if np.abs(v[1]).min() >= 0.125 - 1e-12)
    return Construction(k, 4 * k * a, b / (4 * k))


Bump = tuple[Array, float, float, float]
"""Points z, centre, slope and half width."""


def draw_bumps(key: Key) -> tuple[Bump, ...]:
    """The two bumps of Lemma 5 and six others, with the points where their slope changes."""
    others = key.numpy().uniform([-2, 0.1, 0.1], [2, 5, 2], (6, 3))
    bumps = ((0.0, 2.0, 0.5), (1.3, 4.0, 0.5), *(tuple(map(float, o)) for o in others))
    line = np.linspace(-6, 6, 481)
    return tuple((np.r_[line, s - half, s, s + half], s, slope, half) for s, slope, half in bumps)


def triangle_statements(settings: tuple[Bump, ...]) -> tuple[Statement, ...]:
    """Lemma 7."""
    two = [slope * (np.maximum(z - s + half, 0) - 2 * np.maximum(z - s, 0)) for z, s, slope, half in settings]
    return (
        equal(
            "a r(z-s+b) - 2a r(z-s) + a r(z-s-b)",
            REAL,
            np.concatenate([triangle(z, s, slope, half) for z, s, slope, half in settings]),
            "Lemma 7: a (b - |z-s|), or 0 from |z-s| = b on",
            axis="bump and z",
            margin=1e-12,
            rival=np.concatenate(two),
            rival_says="one ReLU fewer",
        ),
    )


def triangle_observe(settings: tuple[Bump, ...], key: Key) -> Mapping[str, Observation]:
    """The engine's ReLU."""
    got = []
    for z, s, slope, half in settings:
        coefficient, bias = bump_neurons(s, slope, half)
        got.append(activate(torch.as_tensor(z[:, None] + bias), "relu").numpy() @ coefficient)
    return {"a r(z-s+b) - 2a r(z-s) + a r(z-s-b)": np.concatenate(got)}


@dataclass(frozen=True)
class Member:
    """A labelling by the count of k patterns: the counts with label +1, and the mean count."""

    k: int
    positive: tuple[int, ...]
    mu: float


KS, REPEATS = (1, 3, 5, 8), 4
COUNTED = tuple(k for k in KS for _ in range(20))


def draw_members(key: Key) -> tuple[Member, ...]:
    """Four labellings by five mean counts of each k; mu = k/2 - 3/8 attains the bounds."""
    found = []
    for k in KS:
        kinds = (
            range((k + 1) // 2 + (k + 1) % 2, k + 1),
            range(1, k + 1, 2),
            range(0, k + 1, 2),
            range(k // 3, 2 * k // 3 + 1),
        )
        means = (k / 2, 0.3 * k, 0.5 * k - 0.375, 0.2 * k + 0.125, 1.0)
        found += [Member(k, tuple(kind), mu) for kind in kinds for mu in means]
    return tuple(found)


def _inputs(at: Member, key: Key) -> tuple[Array, Array, float]:
    """Every count 0..k with random backgrounds, in input coordinates: x, wstar, st."""
    k, D, d, st = at.k, at.k + 6, at.k + 9, 1.7
    M, _ = np.linalg.qr(orthonormal_dictionary(d, D, key / "dictionary").double().numpy())
    rng = key.numpy()
    count = np.repeat(np.arange(k + 1), REPEATS)
    phit = (rng.random((len(count), D)) < 0.5).astype(float)
    phit[:, :k] = rng.permuted(np.arange(k)[None] < count[:, None], axis=1)
    mean = np.full(D, 0.5)
    mean[:k] = at.mu / k
    return ((phit - mean) / st) @ M.T, M[:, :k].sum(1), st


def existence_statements(settings: tuple[Member, ...]) -> tuple[Statement, ...]:
    """Lemma 5: the labels and the bounds."""

    def labels(shift: int) -> Array:
        counts = [np.repeat(np.arange(m.k + 1), REPEATS) + shift for m in settings]
        return np.concatenate(
            [np.where(np.isin(c, m.positive), 1.0, -1.0) for c, m in zip(counts, settings, strict=True)]
        )

    k = np.array(COUNTED, dtype=np.float64)
    same = {"of": "g*(x)", "axis": "member and input", "margin": 1e-11}
    each = {"axis": "member"}
    return (
        equal(
            "g*(x)",
            REAL,
            labels(0),
            "Lemma 5: y",
            rival=labels(1),
            rival_says="labels of the next count",
            **{**same, "of": ""},
        ),
        equal(
            "g*(x), against bumps at 1..k alone",
            REAL,
            labels(0),
            "Lemma 5: y",
            rival=control("g*(x) without the bump at 0"),
            rival_says="no bump at count 0",
            **same,
        ),
        equal(
            "number of neurons",
            COUNT,
            3 * (k + 1),
            "Lemma 5: 3 (k + 1)",
            rival=3 * k,
            rival_says="3 k",
            **each,
        ),
        equal(
            "neurons that are 0 on every input",
            COUNT,
            np.full(len(k), 2.0),
            "the outer two ReLUs of the bump at k begin beyond the largest count",
            rival=np.zeros(len(k)),
            rival_says="all 3 (k + 1) needed",
            form="derived",
            **each,
        ),
        at_most("max |a*|", REAL, 32 * k, "Lemma 5: 32 k", margin=1e-9, **each),
        at_least("min |b*|", REAL, 1 / (32 * k), "Lemma 5: 1/(32 k)", margin=1e-12, **each),
        at_most("max |b*|", REAL, np.full(len(k), 0.5), "Lemma 5: 1/2", **each),
        at_most(
            "max |<w*, x> + b*|, over all members of k",
            REAL,
            (np.array(KS) + 0.75) / (4 * np.array(KS)),
            "Lemma 5 has 1; the bump at k, shifted by 1/4, at count 0 has (k + 3/4)/(4k)",
            margin=1e-9,
            axis="k",
            rival=np.ones(4),
            rival_says="the bound 1 attained",
            form="derived",
        ),
    )


def existence_observe(settings: tuple[Member, ...], key: Key) -> Mapping[str, Observation]:
    """Scores of the engine's network; k = 1, 3, 5, 8, twenty members each."""
    got, without_zero, sizes = [], [], []
    for i, m in enumerate(settings):
        star = construct(m.k, m.mu, m.positive)
        x, direction, st = _inputs(m, key / m.k / i)
        got.append(forward(star.net(direction, st), torch.as_tensor(x))[0].numpy())
        less = Construction(m.k, star.a[3:], star.b[3:])
        without_zero.append(forward(less.net(direction, st), torch.as_tensor(x))[0].numpy())
        z = x @ star.net(direction, st).w[0].numpy().T + star.b
        a, b = np.abs(star.a), np.abs(star.b)
        sizes.append((len(a), (z <= 1e-12).all(0).sum(), a.max(), b.min(), b.max(), np.abs(z).max()))
    n, idle, top, low, high, reach = np.array(sizes, dtype=np.float64).T
    return {
        "g*(x)": np.concatenate(got),
        "g*(x) without the bump at 0": np.concatenate(without_zero),
        "number of neurons": n,
        "neurons that are 0 on every input": idle,
        "max |a*|": top,
        "min |b*|": low,
        "max |b*|": high,
        "max |<w*, x> + b*|, over all members of k": np.array([reach[np.equal(COUNTED, k)].max() for k in KS]),
    }


def draw_existence() -> dict[str, Any]:
    """g* of a 5-parity over the count, and the six bumps that make it."""
    from matplotlib.figure import Figure

    from featlearn.report.plots import Picture

    k, mu, positive = 5, 2.5, (1, 3, 5)
    star = construct(k, mu, positive)
    count = np.linspace(-0.8, k + 1.2, 801)
    ramps = np.clip((count - mu)[:, None] / (4 * k) + star.b, 0, 1) * star.a
    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    for p in range(k + 1):
        bump = ramps[:, 3 * p : 3 * p + 3].sum(1)
        axes.fill_between(count, bump, color=("C1", "C2")[p % 2], alpha=0.3, lw=0, label="bumps" if p == 0 else None)
    axes.plot(count, ramps.sum(1), color="C0", lw=1.4, label="g*")
    whole = np.arange(k + 1)
    label = [1 if p in positive else -1 for p in whole]
    axes.plot(whole, label, "o", color="C3", label="label", zorder=3)
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.set(xlabel="number of present relevant patterns", ylabel="network output")
    axes.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 1.16))
    caption = (
        "The network g* of Lemma 5 for a parity of five patterns: six triangle bumps, each of three neurons, add up to "
        "the label at every count of present relevant patterns."
    )
    return {"emergence.lemma5": Picture(figure, caption)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.lemma7",
        entries=("emergence.lemma7",),
        says="Three ReLUs make a triangle bump: 0 for |z - s| >= b, else a (b - |z - s|).",
        settings=draw_bumps,
        statements=triangle_statements,
        observe=triangle_observe,
    ),
    Claim(
        id="emergence.lemma5",
        entries=("emergence.lemma5",),
        says="3(k+1) truncated-ReLU neurons with weights st wstar/(4k) equal y on every input, |a*| <= 32k, "
        "1/(32k) <= |b*| <= 1/2, |<w*, x> + b*| <= 1.",
        settings=draw_members,
        statements=existence_statements,
        observe=existence_observe,
        remarks="The paper has P inside [k], so that the count 0 is labelled -1; the members here also have 0 in P.",
        draw=draw_existence,
    ),
)
