"""Parities in context, what is defined: the task, the label-weighted mean that betrays a pair, and the heads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import EXPONENT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, between, control, equal
from featlearn.lab.uncertainty import Observation, mean_of, slope
from featlearn.nets import ReluAttention, diagonal_heads
from featlearn.tasks import ParityPrompts

Array = np.ndarray
D, K, GAMMA, RARE = 8, 4, 0.1, 0.2
PAIR = (2, 1)
"""An ordered pair of S_1, counted from 0."""

# the task ------------------------------------------------------------------------------------------------------------

N, TASKS = 100_000, 4000
LAW = "share of (phi_i, phi_j) = (1, 1), (1, -1), (-1, 1), (-1, -1)"
MEANS, LABEL, OTHER = "mean of phi", "share of labels 1", "share of tasks outside S_1"
ORTHONORMAL, GAUSSIAN = "entries of G^T G", "entries of G^T G of a Gaussian matrix"


def at_pair(value: float) -> Array:
    """This at both signs of the pair, 0 elsewhere."""
    found = np.zeros(D)
    found[list(PAIR)] = value
    return found


def says_task(settings: None) -> Sequence[Statement]:
    """The four probabilities, 2 gamma for both means, 1/2, p_T, and an orthonormal dictionary."""
    return (
        equal(
            LAW,
            SHARE,
            np.array([0.25 + GAMMA, 0.25, 0.25, 0.25 - GAMMA]),
            "Section 5.5, the law of the pair",
            margin=0.01,
            axis="pair of signs",
            rival=0.25,
            rival_says="fair signs",
        ),
        equal(
            MEANS,
            REAL,
            at_pair(2 * GAMMA),
            "Section 5.5: (1/4 + gamma) + 1/4 - 1/4 - (1/4 - gamma), fair signs elsewhere",
            margin=0.02,
            axis="sign",
            rival=at_pair(GAMMA),
            rival_says="gamma",
        ),
        equal(
            LABEL,
            SHARE,
            0.5,
            "Section 5.5: (1/4 + gamma) + (1/4 - gamma)",
            margin=0.01,
            rival=0.5 + GAMMA,
            rival_says="as likely as phi_i = 1",
        ),
        equal(
            OTHER,
            SHARE,
            RARE,
            "Section 5.5: the less-important task rate p_T",
            margin=0.03,
            rival=1 - K * (K - 1) / (D * (D - 1)),
            rival_says="a pair uniform on all",
        ),
        equal(
            ORTHONORMAL,
            REAL,
            np.ravel(np.eye(D)),
            "Section 5.5: an orthonormal dictionary",
            margin=1e-5,
            axis="entry",
            rival=control(GAUSSIAN),
            rival_says="a dictionary of Gaussian columns",
        ),
    )


def sees_task(settings: None, key: Key) -> Mapping[str, Observation]:
    """Samples of the library's task."""
    task = ParityPrompts(d=D, k=K, gamma=GAMMA, p_T=RARE)
    tasks = task.tasks(key / "tasks", TASKS)
    g = tasks[0].dictionary
    batch = task.sample(task.member(torch.tensor(PAIR), g), N, key / "data")
    phi = (batch.x @ g).double().numpy().round()
    i, j = phi[:, PAIR[0]], phi[:, PAIR[1]]
    free = (key / "free").numpy().normal(size=(D, D)) / D**0.5
    law = [mean_of((i == a) & (j == b), SHARE, "example") for a, b in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    return {
        LAW: law,
        MEANS: [mean_of(column, REAL, "example") for column in phi.T],
        LABEL: mean_of(batch.y.numpy() == 1, SHARE, "example"),
        OTHER: mean_of([int(t.blocks.max()) >= K for t in tasks], SHARE, "task"),
        ORTHONORMAL: np.ravel((g.T @ g).double().numpy()),
        GAUSSIAN: np.ravel(free.T @ free),
    }


# the correlation -----------------------------------------------------------------------------------------------------

SIZES, SEEDS, PROMPTS = (64, 256, 1024, 4096), 8, 30
MEAN, FALLS = "mean of y phi", "exponent of N of the error of y^T X / N"
REDUCED, NORM, SKEW = "g of random heads on a prompt without end", "sum of |W_i|_F^2", "the same with a Gaussian G"
HEADS, QUERIES = 5, 12


@dataclass(frozen=True)
class Heads:
    """v (h, d, d), a (h), signs of queries phi (q, d)."""

    v: Array
    a: Array
    phi: Array


def draw_heads(key: Key) -> Heads:
    """At random, V not diagonal."""
    g = key.numpy()
    v, a = g.normal(size=(HEADS, D, D)), g.uniform(-1, 1, HEADS)
    return Heads(v, a, g.choice([-1.0, 1.0], size=(QUERIES, D)))


def says_correlation(settings: Heads) -> Sequence[Statement]:
    """2 gamma at i and j, errors like N^(-1/2), relu(2 gamma (V_i + V_j) phi_q), |W|_F = |V|_F."""
    v, (i, j) = settings.v, PAIR
    rows = np.maximum(2 * GAMMA * (v[:, i] + v[:, j]) @ settings.phi.T, 0).T @ settings.a
    columns = np.maximum(2 * GAMMA * (v[:, :, i] + v[:, :, j]) @ settings.phi.T, 0).T @ settings.a
    return (
        equal(
            MEAN,
            REAL,
            at_pair(2 * GAMMA),
            "Proof of Theorem 5.5.1: z_tau",
            margin=0.02,
            axis="sign",
            rival=at_pair(GAMMA),
            rival_says="gamma",
        ),
        between(
            FALLS,
            EXPONENT,
            -0.6,
            -0.4,
            "Means of N independent terms",
            rival=-1.0,
            rival_says="an error like 1/N",
            form="derived",
        ),
        equal(
            REDUCED,
            REAL,
            rows,
            "Proof of Theorem 5.5.1: the fourth line of the loss",
            margin=1e-10,
            axis="query",
            rival=columns,
            rival_says="columns of V in place of rows",
        ),
        equal(
            NORM,
            POSITIVE,
            float((v**2).sum()),
            "Proof of Theorem 5.5.1: |W|_F = |V|_F",
            margin=1e-9,
            rival=control(SKEW),
            rival_says="a dictionary that is not orthonormal",
        ),
    )


def sees_correlation(settings: Heads, key: Key) -> Mapping[str, Observation]:
    """Samples of the library's task, and its heads."""
    task = ParityPrompts(d=D, k=K, gamma=GAMMA, p_T=0.0)
    truth = task.member(torch.tensor(PAIR), task.draw(key / "dictionary").dictionary)
    g = truth.dictionary.double()
    batch = task.sample(truth, N, key / "data")
    products = (batch.y[:, None] * batch.x).double() @ g
    size, error = [], []
    for n in SIZES:
        for seed in range(SEEDS):
            part = task.sample(truth, PROMPTS * n, key / "errors" / n / seed)
            means = ((part.y[:, None] * part.x).view(PROMPTS, n, D).mean(1).double() @ g).numpy()
            want = np.where(np.isin(np.arange(D), PAIR), 2 * GAMMA, 0.0)
            size.append(np.log(n))
            error.append(np.log(((means - want) ** 2).mean()) / 2)
    v, a, phi = (torch.from_numpy(x) for x in (settings.v, settings.a, settings.phi))
    exact = torch.linalg.qr(torch.from_numpy((key / "exact").numpy().normal(size=(D, D))))[0]
    skew = torch.from_numpy((key / "skew").numpy().normal(size=(D, D))) / D**0.5
    net = ReluAttention(exact @ v @ exact.T, a)
    limit = 2 * GAMMA * (exact[:, PAIR[0]] + exact[:, PAIR[1]])
    return {
        MEAN: [mean_of(column, REAL, "example") for column in products.numpy().T],
        FALLS: slope(size, error, "prompts of a seed"),
        REDUCED: net.read(limit.expand(QUERIES, -1), phi @ exact.T).numpy(),
        NORM: float(net.penalty),
        SKEW: float(ReluAttention(skew @ v @ skew.T, a).penalty),
    }


# the model -----------------------------------------------------------------------------------------------------------

PASS, TURNED, STILL = (
    "g of random prompts",
    "g with G phi and G V G^T less g with phi and V",
    "the same with V not turned",
)
EXAMPLES = 9


@dataclass(frozen=True)
class Prompts:
    """w (h, d, d), a (h), x (q, n, d), y (q, n), queries (q, d)."""

    w: Array
    a: Array
    x: Array
    y: Array
    queries: Array


def draw_prompts(key: Key) -> Prompts:
    """At random, labels that are no parities."""
    g = key.numpy()
    w, a = g.normal(size=(HEADS, D, D)), g.uniform(-1, 1, HEADS)
    x, y = g.normal(size=(QUERIES, EXAMPLES, D)), g.choice([-1.0, 1.0], size=(QUERIES, EXAMPLES))
    return Prompts(w, a, x, y, g.normal(size=(QUERIES, D)))


def says_model(settings: Prompts) -> Sequence[Statement]:
    """The formula head by head; without ReLU it is linear in the second layer's sum of heads."""
    heads = np.zeros((QUERIES, HEADS))
    for q in range(QUERIES):
        for i in range(HEADS):
            heads[q, i] = settings.y[q] @ settings.x[q] @ settings.w[i] @ settings.queries[q] / EXAMPLES
    return (
        equal(
            PASS,
            REAL,
            np.maximum(heads, 0) @ settings.a,
            "Section 5.5, the two-layer multiple-head transformer",
            margin=1e-10,
            axis="prompt",
            rival=heads @ settings.a,
            rival_says="no ReLU",
        ),
        equal(
            TURNED,
            REAL,
            0.0,
            "W = G V G^T, from Theorem 5.5.1",
            margin=1e-10,
            axis="prompt",
            rival=control(STILL),
            rival_says="heads that do not know G",
        ),
    )


def sees_model(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """The library's heads."""
    w, a, x, y, queries = (
        torch.from_numpy(t) for t in (settings.w, settings.a, settings.x, settings.y, settings.queries)
    )
    g = torch.linalg.qr(torch.from_numpy(key.numpy().normal(size=(D, D))))[0]
    diagonals = torch.diagonal(w, dim1=1, dim2=2)
    plain = diagonal_heads(diagonals, a)(x, y, queries)
    turned = [net(x @ g.T, y, queries @ g.T) for net in (diagonal_heads(diagonals, a, g), diagonal_heads(diagonals, a))]
    return {
        PASS: ReluAttention(w, a)(x, y, queries).numpy(),
        TURNED: (turned[0] - plain).numpy(),
        STILL: (turned[1] - plain).numpy(),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.parity_task",
        entries=("icl_scale.definition_parity_task",),
        says="Two of d signs have means 2 gamma and their product is a fair label; tasks prefer pairs of the first k.",
        statements=says_task,
        observe=sees_task,
    ),
    Claim(
        id="icl_scale.parity_correlation",
        entries=("icl_scale.lemma_parity_correlation",),
        says="Without end y^T X / N is 2 gamma (G_i + G_j)^T, so that a head reads relu(2 gamma (V_i + V_j) phi_q).",
        settings=draw_heads,
        statements=says_correlation,
        observe=sees_correlation,
    ),
    Claim(
        id="icl_scale.parity_model",
        entries=("icl_scale.definition_parity_model",),
        says="g = sum_i a_i relu((y^T X / N) W_i x_q), the same in every orthonormal dictionary.",
        settings=draw_prompts,
        statements=says_model,
        observe=sees_model,
        remarks="Read word by word, the minimiser of the limit of L^lambda at lambda -> 0+ is any network of least"
        " hinge loss: of two of equal loss the norm decides only before the limit. The claim on Theorem 5.5.1 says"
        " which reading it takes.",
    ),
)
