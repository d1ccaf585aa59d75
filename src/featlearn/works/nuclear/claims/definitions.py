"""The data, the loss and the objectives of the theory as identities that can fail."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COSINE, COUNT, POSITIVE, REAL
from featlearn.lab.statement import Statement, at_least, at_most, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks import Environments, Environments2d
from featlearn.works.nuclear.claims.sums import Part, log_tail

# --- data ------------------------------------------------------------------------------------------------------------

N = 200_000
LATENTS = (
    "correlation of z_c with y, in and out",
    "correlation of z_e with y, in and out",
    "correlation of z_c and z_e given environment and label",
)


def model_said(settings: None) -> tuple[Statement, ...]:
    """Equation 6.1 on the plane, x2 agreeing with y at 0.7 in and 0.3 out: for a given environment and label the two
    latents are independent; E[y z_c] = 1/2, E[y z_e] = +-0.2, E z^2 = 1/3."""
    spread = 3**-0.5
    values = (np.full(2, 0.5 / spread), np.array([0.2, -0.2]) / spread, np.zeros(2))
    rivals = (np.full(2, 0.5), np.full(2, 0.2 / spread), np.array([0.3, -0.3]))
    says = ("the covariance", "the same in both", "that without the label")
    return tuple(
        equal(
            name,
            COSINE,
            value,
            "Section 6.2.1, equation 6.1",
            margin=4 / N**0.5,
            axis="environment",
            rival=rival,
            rival_says=said,
        )
        for name, value, rival, said in zip(LATENTS, values, rivals, says, strict=True)
    )


def model_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Correlations of samples."""
    stats = []
    for agree in (0.7, 0.3):
        task = Environments2d(agree)
        batch = task.sample(task.draw(key), N, key / "sample" / str(agree))
        x, y = batch.x.double().numpy(), batch.y.double().numpy()
        centred = x - np.outer(y, [x[:, j] @ y / N for j in (0, 1)])
        stats.append([*(np.corrcoef(x[:, j], y)[0, 1] for j in (0, 1)), np.corrcoef(centred.T)[0, 1]])
    return dict(zip(LATENTS, np.array(stats).T, strict=True))


def draw_graph() -> dict[str, Any]:
    """Figure 6.1a: what depends on what."""
    from matplotlib.figure import Figure

    from featlearn.report.plots import Picture

    figure = Figure(figsize=(4.6, 2.4), layout="constrained")
    axes = figure.subplots()
    at = {"$y$": (0, 1), "$e$": (0, 0), "$z_c$": (1, 1), "$z_e$": (1, 0), "$x$": (2, 0.5)}
    for start, end in (("$y$", "$z_c$"), ("$y$", "$z_e$"), ("$e$", "$z_e$"), ("$z_c$", "$x$"), ("$z_e$", "$x$")):
        axes.annotate("", at[end], at[start], arrowprops={"arrowstyle": "->", "shrinkA": 17, "shrinkB": 17, "lw": 1.2})
    for name, (x, y) in at.items():
        colour = {"$z_c$": "#cfe8d8", "$z_e$": "#f7d9c4"}.get(name, "white")
        axes.plot(x, y, "o", ms=30, mfc=colour, mec="0.2")
        axes.text(x, y, name, ha="center", va="center", fontsize=13)
    axes.text(1, 1.32, "invariant", ha="center", fontsize=9, color="0.3")
    axes.text(1, -0.42, "environmental", ha="center", fontsize=9, color="0.3")
    axes.set(xlim=(-0.4, 2.4), ylim=(-0.6, 1.5))
    axes.axis("off")
    caption = (
        "The data model: the label y decides the invariant features, label and environment e the environmental ones, "
        "and both kinds make the input x."
    )
    return {"nuclear.fig6_1": Picture(figure, caption)}


ROWS, R, U, GAMMA = 40_000, 12, 28, 0.3


def theory_said(settings: None) -> tuple[Statement, ...]:
    """Section 6.4 and Lemma E.3: invariant features are U[0, 1], environmental ones have density 1/2 +- gamma."""
    g, source = GAMMA, "Section 6.4, Lemma E.3"
    var = np.array([1 / 12, 1 / 3 - g**2])
    fourth = np.array([1 / 80, 1 / 5 - 3 * g**4])  # E z = g, E z^2 = 1/3, E z^3 = g/2, E z^4 = 1/5
    size = ROWS * np.array([R, U])
    out = []
    for where, sign in (("in", 1), ("out", -1)):
        out += [
            equal(
                f"means, {where}",
                REAL,
                np.array([0.5, sign * g]),
                source,
                margin=4 * np.sqrt(var / size),
                axis="kind of feature",
                rival=np.array([0.5, -sign * g]),
                rival_says="the other environment",
            ),
            equal(
                f"variances, {where}",
                POSITIVE,
                var,
                source,
                margin=4 * np.sqrt((fourth - var**2) / size),
                axis="kind of feature",
                rival=np.array([1 / 12, 1 / 3]),
                rival_says="1/3, the second moment",
            ),
        ]
    return (
        *out,
        equal(
            "integral, mean and second moment of the density",
            REAL,
            np.array([1.0, g, 1 / 3]),
            source,
            margin=1e-9,
            axis="power",
            rival=np.array([1.0, g, 1 / 3 - g**2]),
            rival_says="the variance",
        ),
        equal(
            "density at -0.5 and 0.5 out of distribution, gamma = 0",
            POSITIVE,
            np.full(2, 0.5),
            f"{source}: 1/2 -+ 0, as in distribution",
            margin=1e-6,
            axis="place",
            rival=np.array([0.5 + g, 0.5 - g]),
            rival_says="gamma = 0.3",
        ),
        equal(
            "smallest r that has a gamma",
            COUNT,
            37.0,
            "(3 / sqrt(r), 1/2) is not empty from r > 36",
            rival=20.0,
            rival_says="20, above any C of Proposition 6.3",
        ),
    )


def theory_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Samples, the density on a grid, and the range of gamma as the task has it."""
    task, seen = Environments(d=R + U, r=R, gamma=GAMMA), {}
    for name, where in (("in", task), ("out", task.shifted)):
        truth = where.draw(key)
        z = where.sample(truth, ROWS, key / "sample" / name).hidden
        assert z is not None
        inside = truth.features.sum(0) > 0.5
        parts = [z[:, inside].double().numpy(), z[:, ~inside].double().numpy()]
        seen |= {
            f"means, {name}": np.array([p.mean() for p in parts]),
            f"variances, {name}": np.array([p.var() for p in parts]),
        }
    grid = torch.linspace(-1, 1, 200_001, dtype=torch.float64)[:-1] + 5e-6
    density = task.density(grid)
    seen["integral, mean and second moment of the density"] = np.array(
        [float((density * grid**k).mean() * 2) for k in (0, 1, 2)]
    )
    flat = Environments(d=40, r=12, gamma=0.0).shifted
    seen["density at -0.5 and 0.5 out of distribution, gamma = 0"] = flat.density(torch.tensor([-0.5, 0.5])).numpy()
    least = next(r for r in range(1, 100) if Environments(d=200, r=r, gamma=0.4999).in_theory)
    return {**seen, "smallest r that has a gamma": float(least)}


# --- loss and objectives ---------------------------------------------------------------------------------------------

Z, C = np.linspace(-30, 30, 6001), np.geomspace(0.01, 10, 40)


def loss_said(settings: None) -> tuple[Statement, ...]:
    """Lemma E.1 of l(z) = log(1 + exp(-z)) on a grid."""
    wrong, source = 1 / (1 + np.exp(Z)), "Lemma E.1"
    return (
        at_least(
            "l, -l' and l''",
            REAL,
            1e-14,
            f"{source} (1): positive, decreasing, convex",
            axis="z",
            rival=0.0,
            rival_says="flat somewhere",
        ),
        equal(
            "l'",
            REAL,
            -wrong,
            f"{source} (2)",
            axis="z",
            margin=1e-12,
            rival=-np.exp(-Z.clip(0)),
            rival_says="-e^-z, that of the exponential loss",
        ),
        at_most(
            "l''' for z > 0",
            REAL,
            -1e-15,
            f"{source} (3): l' is strictly concave",
            axis="z",
            rival=0.0,
            rival_says="straight somewhere",
        ),
        at_least("l'(z + c) over e^-c l'(z)", POSITIVE, 1.0, f"{source} (4)", axis="z, c", margin=1e-12),
    )


def loss_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """The loss of torch and its derivatives by autograd."""

    def derived(at: np.ndarray, order: int) -> list[np.ndarray]:
        z = torch.from_numpy(at).requires_grad_()
        found = [torch.log1p(torch.exp(-z))]
        for _ in range(order):
            found.append(torch.autograd.grad(found[-1].sum(), z, create_graph=True)[0])
        return [v.detach().numpy() for v in found]

    loss, slope, curvature, third = derived(Z, 3)
    shifted = np.array([derived(Z + c, 1)[1] / (np.exp(-c) * slope) for c in C])
    return {
        "l, -l' and l''": np.concatenate([loss, -slope, curvature]),
        "l'": slope,
        "l''' for z > 0": third[Z > 1e-9],
        "l'(z + c) over e^-c l'(z)": shifted.ravel(),
    }


def irwin_hall(r: int, x: Fraction) -> Fraction:
    """P(S_R <= x) for a sum of r uniform features, in exact fractions."""
    terms = ((-1) ** k * math.comb(r, k) * (x - k) ** r for k in range(int(x) + 1))
    return sum(terms, Fraction(0)) / math.factorial(r)


INVARIANT, OTHERS = (4, 16, 40, 100), ((20, 0.1), (100, 0.3), (200, 0.48))


def tails_said(settings: None) -> tuple[Statement, ...]:
    """Lemma E.4, by Hoeffding's inequality."""
    return (
        at_most(
            "log P(S_R <= r/4), r = 4, 16, 40, 100",
            REAL,
            np.array([-r / 8 for r in INVARIANT]),
            "Lemma E.4: exp(-r/8), features of range 1",
            axis="r",
            expect="too weak to test",
        ),
        at_most(
            "log P(S_U <= 0), (d - r, gamma) = (20, .1), (100, .3), (200, .48)",
            REAL,
            np.array([-m * g**2 / 2 for m, g in OTHERS]),
            "Lemma E.4: exp(-(d - r) gamma^2 / 2), features of range 2",
            axis="d - r, gamma",
            expect="too weak to test",
        ),
    )


def tails_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Exact tails."""
    return {
        "log P(S_R <= r/4), r = 4, 16, 40, 100": np.array([math.log(irwin_hall(r, Fraction(r, 4))) for r in INVARIANT]),
        "log P(S_U <= 0), (d - r, gamma) = (20, .1), (100, .3), (200, .48)": np.array(
            [log_tail([Part(m, -1.0, g)]) for m, g in OTHERS]
        ),
    }


@dataclass(frozen=True)
class Sample:
    """Latents times the label z (n, 9), of which 4 are invariant, weights w (9), and the weight of the decay."""

    z: np.ndarray
    w: np.ndarray
    lam: float = 0.3


def draw_sample(key: Key) -> Sample:
    """500 samples of gamma = 0.25, invariant features first."""
    rng = key.numpy()
    size, flip = rng.uniform(size=(500, 9)), rng.uniform(size=(500, 9)) < 0.25
    flip[:, :4] = False
    return Sample(np.where(flip, -size, size), rng.standard_normal(9))


ALPHA, BETA = 0.4, 0.2


def objectives_said(settings: Sample) -> tuple[Statement, ...]:
    """Equation 6.4 and Lemma E.2; at equal weights within R and within U two unknowns are left."""
    z, w, lam = settings.z, settings.w, settings.lam
    plain = -(z / (1 + np.exp(z @ w))[:, None]).mean(0)
    reduced = np.log1p(np.exp(-ALPHA * z[:, :4].sum(1) - BETA * z[:, 4:].sum(1))).mean()
    return (
        equal(
            "dL/dw_j",
            REAL,
            plain + lam * w,
            "Lemma E.2: E[l'(y f) z_j] + lambda w_j",
            axis="j",
            margin=1e-12,
            rival=plain,
            rival_says="without lambda w_j",
        ),
        equal(
            "L at alpha on R and beta on U",
            POSITIVE,
            reduced + lam / 2 * (4 * ALPHA**2 + 5 * BETA**2),
            "E l(alpha S_R + beta S_U) + (lambda / 2)(r alpha^2 + (d - r) beta^2)",
            margin=1e-12,
            rival=reduced + lam / 2 * (5 * ALPHA**2 + 4 * BETA**2),
            rival_says="a feature of U counted with R",
        ),
    )


def objectives_observed(settings: Sample, key: Key) -> Mapping[str, Observation]:
    """The objective over all weights, and its slope by autograd."""
    z = torch.from_numpy(settings.z)

    def objective(w: torch.Tensor) -> torch.Tensor:
        return functional.softplus(-z @ w).mean() + settings.lam / 2 * w @ w

    w = torch.from_numpy(settings.w).requires_grad_()
    (slope,) = torch.autograd.grad(objective(w), w)
    both = torch.tensor([ALPHA] * 4 + [BETA] * 5, dtype=torch.float64)
    return {"dL/dw_j": slope.numpy(), "L at alpha on R and beta on U": float(objective(both))}


SCALES = 4.0 ** np.arange(0, 9)


def minimiser_said(settings: None) -> tuple[Statement, ...]:
    """Without a bound on the norm the loss of c w falls in c for every w with positive weights on R alone: like
    (pi^2 / 12) / c for one feature, the integral of log(1 + exp(-x)) over the half line."""
    return (
        at_most(
            "loss of 4 c w less that of c w, one invariant feature",
            REAL,
            -1e-5,
            "Lemma 6.2 as a statement on directions: more of a right direction is better at every scale",
            axis="c = 1, 4, ..., 4^7",
            rival=0.0,
            rival_says="a scale at which it stops",
            form="derived",
        ),
        equal(
            "c times the loss at c = 1024",
            POSITIVE,
            math.pi**2 / 12,
            "int_0^inf log(1 + exp(-x)) dx = pi^2 / 12",
            margin=1e-3,
            rival=math.log(2),
            rival_says="log 2, the loss at 0",
            form="derived",
        ),
    )


def minimiser_observed(settings: None, key: Key) -> Mapping[str, Observation]:
    """Quadrature on pieces that follow the scale."""
    x, p = np.polynomial.legendre.leggauss(60)
    ends = np.append(0.0, np.geomspace(1e-6, 1.0, 40))
    pieces = list(itertools.pairwise(ends))
    u = np.concatenate([(a + b + (b - a) * x) / 2 for a, b in pieces])
    mass = np.concatenate([(b - a) * p / 2 for a, b in pieces])
    loss = np.array([float(mass @ np.logaddexp(0, -c * u)) for c in SCALES])
    return {
        "loss of 4 c w less that of c w, one invariant feature": np.diff(loss),
        "c times the loss at c = 1024": float(SCALES[5] * loss[5]),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="nuclear.data_model",
        entries=("nuclear.data_model", "nuclear.fig6_1"),
        says="The invariant latent keeps its correlation with the label across environments, the environmental one "
        "does not; for a given environment and label the two are independent.",
        statements=model_said,
        observe=model_observed,
        draw=draw_graph,
    ),
    Claim(
        id="nuclear.data_theory",
        entries=("nuclear.data_theory", "nuclear.prop6_3"),
        says="Invariant features have mean 1/2 and variance 1/12, environmental ones gamma and 1/3 - gamma^2.",
        statements=theory_said,
        observe=theory_observed,
    ),
    Claim(
        id="nuclear.lemmaE_1",
        entries=("nuclear.lemmaE_1",),
        says="The logistic loss is decreasing and convex, l' = -1 / (1 + e^z) is concave above 0, and "
        "l'(z + c) <= e^-c l'(z).",
        statements=loss_said,
        observe=loss_observed,
    ),
    Claim(
        id="nuclear.lemmaE_4",
        entries=("nuclear.lemmaE_4",),
        says="P(S_U <= 0) <= exp(-(d - r) gamma^2 / 2) and P(S_R <= r/4) <= exp(-r/8).",
        statements=tails_said,
        observe=tails_observed,
        remarks="Both hold, by Hoeffding's inequality, and are so loose that no tail comes near them.",
    ),
    Claim(
        id="nuclear.objectives",
        entries=("nuclear.objectives",),
        says="Gradients are E[l' z_j] + lambda w_j, and ERM-l2 has two unknowns.",
        statements=objectives_said,
        observe=objectives_observed,
        settings=draw_sample,
    ),
    Claim(
        id="nuclear.rank_minimiser",
        entries=("nuclear.objectives", "nuclear.lemma6_2"),
        says="An optimum of ERM-rank is a direction: without a bound on the norm its loss falls to 0 with the scale.",
        statements=minimiser_said,
        observe=minimiser_observed,
        remarks="Lemma 6.2 speaks of an optimal w*. As a minimiser of (6.5), which bounds the number of weights and "
        "not their size, none is attained; as a direction, or with a bound on the norm, it is right.",
    ),
)
