"""Training as in the paper, and the moments that its steps use (Lemma 14)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.integrate import quad
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import REAL, SHARE
from featlearn.lab.statement import Statement, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.learn.fit import fit
from featlearn.learn.schedules import Stage
from featlearn.nets import TwoLayer, forward, gaussian_init, mirrored
from featlearn.nets.pointwise import activate, slope
from featlearn.tasks import ParityMix
from featlearn.works.emergence.claims.definitions import EXACT, Array
from featlearn.works.emergence.setup import by_count, fair, parity_mix

# training ------------------------------------------------------------------------------------------------------------

ETA, NOISE = 0.01, 0.6
GRID, SMOOTH = np.linspace(-1.0, 2.0, 25), 5**-1.5


def literal_smooth_clip(z: torch.Tensor, noise: float) -> torch.Tensor:
    """r(z) - r(z - 1) with r(u) = u Phi(u/s) + s phi(u/s), by torch's normal distribution; for autograd."""
    normal = torch.distributions.Normal(0.0, 1.0, validate_args=False)

    def ramp(u: torch.Tensor) -> torch.Tensor:
        return u * normal.cdf(u / noise) + noise * torch.exp(normal.log_prob(u / noise))

    return ramp(z) - ramp(z - 1)


@dataclass(frozen=True)
class Start:
    """A mirrored network in input coordinates with the samples it is trained on; M spans the inputs."""

    half: TwoLayer
    net: TwoLayer
    x: torch.Tensor
    y: torch.Tensor
    M: Array


def draw_start(key: Key) -> Start:
    """Twenty mirrored pairs, 400 samples in 25 dimensions of 12 patterns."""
    task = ParityMix(d=25, D=12, k=3, coordinates="input")
    truth = task.draw(key / "task")
    batch = task.sample(truth, 400, key / "data")
    net = gaussian_init(20, 25, key / "init", sigma_w=1 / 3, sigma_b=1 / 9, sigma_a=2.0)
    half = TwoLayer(net.w.double(), net.b.double(), net.a.double())
    M = np.linalg.qr(truth.dictionary.double().numpy())[0]
    return Start(half, mirrored(half), batch.x.double(), batch.y.double(), M)


def literal_step(at: Start, penalty: float) -> Array:
    """w - eta grad_w (mean max(1 - y g, 0) + penalty sum ||w||^2), by autograd."""
    w = at.net.w[0].clone().requires_grad_()
    score = literal_smooth_clip(at.x @ w.T + at.net.b[0], NOISE) @ at.net.a[0]
    loss = torch.relu(1 - at.y * score).mean() + penalty * (w**2).sum()
    (grad,) = torch.autograd.grad(loss, w)
    return (w - ETA * grad).detach().numpy()


def training_statements(at: Start) -> tuple[Statement, ...]:
    """The literal loss carries the penalty lam ||w||^2; the smoothed activation by numerical integration."""
    update, other = literal_step(at, 1 / (2 * ETA)), literal_step(at, 1 / (4 * ETA))

    def mean_clip(u: float) -> float:
        # the integrand is smooth between the kinks; outside (0, 1) it is constant
        middle = quad(lambda t: t * norm.pdf(t, u, SMOOTH), 0, 1, points=[min(max(u, 0), 1)], epsabs=1e-13)[0]
        return middle + norm.sf(1, u, SMOOTH)

    def mean_gate(u: float) -> float:
        return quad(lambda t: norm.pdf(t, u, SMOOTH), 0, 1, points=[min(max(u, 0), 1)], epsabs=1e-13)[0]

    return (
        equal(
            "g at the start",
            REAL,
            np.zeros(400),
            "mirrored start",
            axis="input",
            margin=EXACT,
            rival=control("g of one half"),
            rival_says="one half alone",
        ),
        equal(
            "w after step 1",
            REAL,
            update,
            "lam_w = 1/(2 eta): w^(1) = -eta dL/dw",
            axis="weight",
            margin=1e-9 * float(np.abs(update).max()),
            rival=other,
            rival_says="a penalty with the factor 1/2, which keeps half of w^(0)",
        ),
        equal(
            "part of w^(1) outside span(M)",
            REAL,
            np.zeros(40 * 25),
            "dL/dw is a mean of inputs",
            axis="weight",
            margin=1e-6 * float(np.abs(update).max()),
            rival=control("part of w^(0) outside span(M)"),
            rival_says="the start",
        ),
        equal(
            "E clip(z + s xi)",
            REAL,
            np.array([mean_clip(u) for u in GRID]),
            "integral over xi",
            axis="z",
            margin=1e-10,
            rival=GRID.clip(0, 1),
            rival_says="no smoothing",
        ),
        equal(
            "Pr[z + s xi in (0, 1)]",
            SHARE,
            np.array([mean_gate(u) for u in GRID]),
            "integral over xi",
            axis="z",
            margin=1e-10,
            rival=norm.cdf(GRID / SMOOTH),
            rival_says="the gate without its upper edge",
        ),
    )


def training_observe(at: Start, key: Key) -> Mapping[str, Observation]:
    """The engine's network, step and activation."""
    stage = Stage(steps=1, rate_w=ETA, rate_b=ETA, rate_a=ETA, keep_w=0.0, noise=NOISE)
    got = fit(at.net, at.x, at.y, [stage], key).net.w[0].numpy()
    start, z = at.net.w[0].numpy(), torch.as_tensor(GRID)
    return {
        "g at the start": forward(at.net, at.x)[0].numpy(),
        "g of one half": forward(at.half, at.x)[0].numpy(),
        "w after step 1": got,
        "part of w^(1) outside span(M)": got - got @ at.M @ at.M.T,
        "part of w^(0) outside span(M)": start - start @ at.M @ at.M.T,
        "E clip(z + s xi)": activate(z, "clip", SMOOTH).numpy(),
        "Pr[z + s xi in (0, 1)]": slope(z, "clip", SMOOTH).numpy(),
    }


# moments -------------------------------------------------------------------------------------------------------------

MOMENTS = ((0.5, 2.25, 0.25), (0.25, 2.0, 0.375), (0.5, 2.0, 0.1875), (0.5, 2 / 3 + 5 / 4, 1 / 3))
"""Rate of the background, st^2 and gamma of the four families below; the last has counts 0 and 2 of 3."""


def moments_statements(settings: None) -> tuple[Statement, ...]:
    """Lemma 14."""
    p, st, gamma = np.array(MOMENTS).T
    st, none = np.sqrt(st), np.zeros(4)
    alike = {"axis": "family", "margin": EXACT}
    return (
        equal("E y", REAL, none, "Lemma 14", rival=np.full(4, 0.1), rival_says="unbalanced classes", **alike),
        equal("E|y|", REAL, np.ones(4), "Lemma 14", rival=np.full(4, 0.5), rival_says="labels 0, 1", **alike),
        equal(
            "E|phi_j|, j not in A",
            REAL,
            2 * p * (1 - p) / st,
            "Lemma 14: 2 sphi2 st",
            rival=p * (1 - p) / st,
            rival_says="without the factor 2",
            **alike,
        ),
        equal(
            "E[y phi_j], j in A",
            REAL,
            gamma / st,
            "Lemma 14: gamma/st",
            rival=gamma,
            rival_says="gamma without 1/st",
            **alike,
        ),
        equal("E[y phi_j], j not in A", REAL, none, "Lemma 14", rival=gamma / st, rival_says="gamma/st", **alike),
        at_most("st max_j E|y phi_j|", REAL, np.ones(4), "Lemma 14: E|y phi_j| <= 1/st", axis="family"),
    )


def moments_observe(settings: None, key: Key) -> Mapping[str, Observation]:
    """Enumeration, for parities, majorities and a planted member."""
    families = (
        parity_mix(9, 3, 0.5),
        parity_mix(9, 5, 0.25),
        fair(8, 5, (3, 4, 5)),
        by_count(8, {0: 0.5, 2: 0.5}, (2,), 3),
    )
    seen = []
    for f in families:
        phi, y, prob = f.support()
        top = max(float(prob @ np.abs(y * phi[:, j])) for j in range(f.D))
        signal = [(prob * y) @ phi[:, 0], (prob * y) @ phi[:, -1]]
        seen.append((prob @ y, prob @ np.abs(y), prob @ np.abs(phi[:, -1]), *signal, f.scale * top))
    names = ("E y", "E|y|", "E|phi_j|, j not in A", "E[y phi_j], j in A", "E[y phi_j], j not in A")
    return dict(zip((*names, "st max_j E|y phi_j|"), np.array(seen, dtype=np.float64).T, strict=True))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.method_training",
        entries=("emergence.method_training",),
        says="Mirrored start gives g = 0; lam_w = 1/(2 eta) makes w^(1) = -eta dL/dw in span(M); the smoothed "
        "activation and its gate in closed form.",
        settings=draw_start,
        statements=training_statements,
        observe=training_observe,
        remarks="Theorem 26 sets eta_1 = gamma^2 st^2/(k m^3) and noise 1/k^2; Lemma 23, on which its proof rests "
        "through Lemmas 24 and 25, has gamma^2 st/(k m^3) and noise 1/k^(3/2).",
    ),
    Claim(
        id="emergence.lemma14",
        entries=("emergence.lemma14",),
        says="Moments: E y = 0, E|phi_j| = 2 sphi2 st, E[y phi_j] = gamma/st on A, E|y phi_j| <= 1/st.",
        statements=moments_statements,
        observe=moments_observe,
    ),
)
