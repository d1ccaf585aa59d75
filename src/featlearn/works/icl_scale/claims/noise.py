"""How a layer of limited rank fares under noise: Theorem 5.4.2 and its implications."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise
from featlearn.lab.quantity import COUNT, POSITIVE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.nets import optimal_matrix
from featlearn.works.icl_scale.setup import LARGE, Array, Instance, draw_instances, exact_loss, one_task

Instances = tuple[Instance, ...]
DRAWS, SETTING, EXACT = 20_000, "setting", 1e-9


def best(p: Instance) -> Array:
    """The library's matrix of Theorem 5.4.1."""
    return optimal_matrix(torch.from_numpy(p.covariance), p.n, p.rank).numpy()


def rows(p: Instance, key: Key) -> Array:
    """y^T X / M of drawn prompts, (DRAWS, d)."""
    g = key.numpy()
    x = g.standard_normal((DRAWS, p.m, p.d)) * np.sqrt(p.values) @ p.vectors.T
    y = x @ p.w + p.sigma * g.standard_normal((DRAWS, p.m))
    return np.einsum("bm,bmd->bd", y, x) / p.m


# Theorem 5.4.2 -------------------------------------------------------------------------------------------------------


def parts(p: Instance) -> dict[str, float]:
    """The six terms of Theorem 5.4.2, with what stands beside tr(V^2 D^2) taken apart."""
    lam = p.values
    v = p.n / ((p.n + 1) * lam + lam.sum()) * (np.arange(p.d) < p.rank)
    s = p.coordinates * (np.arange(p.d) < p.rank)
    xi = p.coordinates - s
    trace = np.sum(v**2 * lam**2)
    return {
        "1/M |s|^2 with V^2 D^3": np.sum(s**2 * v**2 * lam**3) / p.m,
        "1/M |s|^2 tr(V^2 D^2)": np.sum(s**2 * lam) * trace / p.m,
        "1/M |xi|^2 tr(V^2 D^2)": np.sum(xi**2 * lam) * trace / p.m,
        "1/M sigma^2 tr(V^2 D^2)": p.sigma**2 * trace / p.m,
        "|xi|^2": np.sum(xi**2 * lam),
        "sum s^2 lambda (lambda v - 1)^2": np.sum((s**2 * lam * (lam * v - 1) ** 2)[: p.rank]),
    }


TERMS = tuple(parts(Instance(np.ones(1), np.eye(1), np.ones(1), 1, 1, 1, 1.0)))
LOSS, DRAWN = "loss", "loss on drawn prompts over 1 + |w|^2"
LABEL, INPUT, BIAS = "term (II)", "term (III)", "term (IV)"


def says_loss(settings: Instances) -> Sequence[Statement]:
    """The sum of all terms; each of them dropped is a rival."""
    each = [parts(p) for p in settings]
    whole = np.array([sum(t.values()) for t in each])
    size = np.array([1 + p.coordinates @ p.coordinates for p in settings])
    swapped = np.array([sum(parts(p.but(m=p.n)).values()) for p in settings])
    label = np.array([t["1/M sigma^2 tr(V^2 D^2)"] for t in each])
    inner = np.array([sum(t[k] for k in TERMS[:3]) for t in each])
    bias = np.array([sum(t[k] for k in TERMS[4:]) for t in each])
    # the proof's E[x x^T w w^T x x^T] with the number w^T w between Lambda and Lambda, as it stands
    scalar = []
    for p, t in zip(settings, each, strict=True):
        lam, v = p.values, p.n / ((p.n + 1) * p.values + p.values.sum()) * (np.arange(p.d) < p.rank)
        wrong = 2 * (p.coordinates @ p.coordinates) * np.sum(v**2 * lam**3) / p.m
        scalar.append(-t[TERMS[0]] + t[TERMS[1]] + t[TERMS[2]] + wrong)
    theorem = "Theorem 5.4.2"
    drops = [
        equal(
            f"loss, against one without {name}",
            POSITIVE,
            whole,
            theorem,
            of=LOSS,
            margin=EXACT * (1 + whole),
            axis=SETTING,
            rival=np.array([w - t[name] for w, t in zip(whole, each, strict=True)]),
            rival_says=f"{name} left out",
        )
        for name in TERMS
    ]
    return (
        *drops,
        equal(
            "loss, against N for M",
            POSITIVE,
            whole,
            theorem,
            of=LOSS,
            margin=EXACT * (1 + whole),
            axis=SETTING,
            rival=swapped,
            rival_says="as many examples as in pretraining",
        ),
        equal(
            DRAWN,
            POSITIVE,
            whole / size,
            theorem,
            margin=0.06 * whole / size,
            axis=SETTING,
            rival=(whole - np.array([t[TERMS[0]] for t in each])) / size,
            rival_says=f"{TERMS[0]} left out",
        ),
        equal(
            LABEL,
            POSITIVE,
            label,
            "Proof of Theorem 5.4.2",
            margin=EXACT * (1 + whole),
            axis=SETTING,
            rival=np.array([b / p.sigma if p.sigma else 0.0 for b, p in zip(label, settings, strict=True)]),
            rival_says="sigma, not squared",
        ),
        equal(
            INPUT,
            POSITIVE,
            inner,
            "Proof of Theorem 5.4.2, last line of (III)",
            margin=EXACT * (1 + whole),
            axis=SETTING,
            rival=np.array(scalar),
            rival_says="w^T w as a number, as the line before it has it",
        ),
        equal(
            BIAS,
            POSITIVE,
            bias,
            "Proof of Theorem 5.4.2",
            margin=EXACT * (1 + whole),
            axis=SETTING,
            rival=np.array([t["|xi|^2"] for t in each]),
            rival_says="no shrinking of the directions that are kept",
        ),
    )


def sees_loss(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """Exact by a rule of quadrature, and on drawn prompts, averaged over the query."""
    loss, label, inner, bias, drawn = [], [], [], [], []
    for i, p in enumerate(settings):
        u = best(p)
        quiet, endless = exact_loss(p.but(sigma=0.0), u), (p.covariance @ p.w) @ u - p.w
        loss.append(exact_loss(p, u))
        bias.append(float(endless @ p.covariance @ endless))
        label.append(max(loss[-1] - quiet, 0.0))
        inner.append(quiet - bias[-1])
        miss = rows(p, key / i) @ u - p.w
        losses = np.einsum("bd,de,be->b", miss, p.covariance, miss) / (1 + p.w @ p.w)
        drawn.append(mean_of(losses, POSITIVE, "prompt"))
    return {
        LOSS: np.array(loss),
        DRAWN: drawn,
        LABEL: np.array(label),
        INPUT: np.array(inner),
        BIAS: np.array(bias),
    }


# its implication -----------------------------------------------------------------------------------------------------

NEAR = "loss at N = 10^7, over |w|^2"
HALVING = "change of the loss from N = 10^4 to 2 10^4 over that from there to 4 10^4"
NOISES, MANY = (0.0, 1.0, 3.0, 8.0), 10**6
CHOSEN = "best rank at N = 10^7 and M = 16, sigma = 0 to 8"
FULL = "best rank without label noise, M = 10^6"


def approximate(p: Instance) -> float:
    """|xi|^2 + ((r + 1) |s|^2 + r |xi|^2 + r sigma^2) / M, norms with D."""
    kept = np.arange(p.d) < p.rank
    s, xi = (np.sum((p.coordinates**2 * p.values)[k]) for k in (kept, ~kept))
    return float(xi + ((p.rank + 1) * s + p.rank * xi + p.rank * p.sigma**2) / p.m)


def says_approximation(settings: Instances) -> Sequence[Statement]:
    """Up to 1/N; the best rank falls with the noise of labels, from d."""
    near = np.array([approximate(p) / (p.coordinates @ p.coordinates) for p in settings])
    off = np.array(
        [
            (approximate(p) - np.sum((p.coordinates**2 * p.values)[: p.rank]) / p.m) / (p.coordinates @ p.coordinates)
            for p in settings
        ]
    )
    p = one_task()
    losses = np.array([[approximate(p.but(rank=r, sigma=s)) for r in range(p.d + 1)] for s in NOISES])
    chosen = losses.argmin(1).astype(float)
    return (
        equal(
            NEAR,
            POSITIVE,
            near,
            "Implications of Theorem 5.4.2",
            margin=1e-5 * (1 + near),
            axis=SETTING,
            rival=off,
            rival_says="r |s|^2 for (r + 1) |s|^2",
        ),
        equal(
            HALVING,
            POSITIVE,
            2.0,
            "Theorem 5.4.2: 1/(1 + (lambda + tr D)/(N lambda)) is 1 less a term of 1/N",
            margin=0.05,
            axis=SETTING,
            rival=4.0,
            rival_says="a remainder of 1/N^2",
            form="derived",
        ),
        equal(
            CHOSEN,
            COUNT,
            chosen,
            "Implications of Theorem 5.4.2: a trade-off between two error terms, smaller ranks under more noise",
            margin=0.4,
            axis="sigma",
            rival=np.full(len(NOISES), float(p.d)),
            rival_says="the largest rank whatever the noise",
            form="derived",
        ),
        equal(
            FULL,
            COUNT,
            float(p.d),
            "Implications of Theorem 5.4.2: without noise, as M grows, only |xi|^2 is left",
            margin=0.4,
            rival=chosen[-1],
            rival_says="as under noise",
            form="derived",
        ),
    )


def sees_approximation(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """Exact losses by quadrature."""
    near, ratio = [], []
    for p in settings:
        near.append(exact_loss(p.but(n=LARGE), best(p.but(n=LARGE))) / float(p.w @ p.w))
        a, b, c = (exact_loss(q, best(q)) for q in (p.but(n=n) for n in (10_000, 20_000, 40_000)))
        ratio.append((a - b) / (b - c))

    def chosen(m: int, sigma: float) -> float:
        tried = [one_task().but(rank=r, sigma=sigma, m=m) for r in range(7)]
        return float(np.argmin([exact_loss(q, best(q)) for q in tried]))

    return {
        NEAR: np.array(near),
        HALVING: np.array(ratio),
        CHOSEN: np.array([chosen(16, s) for s in NOISES]),
        FULL: chosen(MANY, 0.0),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.theorem5_4_2",
        entries=("icl_scale.theorem5_4_2",),
        says="The loss of the best layer of rank r under label noise, with M examples and a fixed w, is the sum of six "
        "terms, counting |s|^2, |xi|^2 and sigma^2 beside tr(V^2 D^2) apart.",
        settings=draw_instances,
        statements=says_loss,
        observe=sees_loss,
    ),
    Claim(
        id="icl_scale.theorem5_4_2_implication",
        entries=("icl_scale.theorem5_4_2_implication",),
        says="For large N the loss is |xi|^2 + ((r + 1) |s|^2 + r |xi|^2 + r sigma^2)/M: a trade-off in r.",
        settings=draw_instances,
        statements=says_approximation,
        observe=sees_approximation,
        premises=(Premise("N lambda_r >> tr D", True, "N = 10^7; the smallest eigenvalue is 3/64"),),
    ),
)
