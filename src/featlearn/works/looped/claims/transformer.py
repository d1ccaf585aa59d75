"""Prompts, the attention layer and its loops: Definitions 8.2 to 8.7, Lemma 8.13 and Theorem 8.14."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.nets import LoopedTransformer, gradient_descent_weights, linear_attention, prompt_matrix
from featlearn.tasks import LinearRegression
from featlearn.works.looped.setup import Array, Prompt, draw_prompts, joined, steps_of, tensor

PROMPTS = 20
Prompts = tuple[Prompt, ...]


def literal(p: Prompt) -> Array:
    """Z = [[X, y], [q^T, alpha]]."""
    return np.block([[p.x, p.y[:, None]], [p.q[None], np.array([[p.alpha]])]])


def engine(p: Prompt) -> torch.Tensor:
    """The same by the library."""
    return prompt_matrix(tensor(p.x), tensor(p.y), tensor(p.alpha), tensor(p.q))


def draw_general(key: Key) -> Prompts:
    """Labels that are no linear function of x, a start other than 0."""
    return draw_prompts(key, PROMPTS, free_labels=True)


# data ----------------------------------------------------------------------------------------------------------------

DRAWS, DIMENSION = 2000, 3


def says_prompt(settings: Prompts) -> Sequence[Statement]:
    """Definitions 8.2 to 8.5."""
    whole = joined([literal(p) for p in settings])
    other = joined([np.roll(literal(p), 1, axis=1) for p in settings])
    return (
        equal(
            "entries of Z",
            REAL,
            whole,
            "Definition 8.5",
            axis="entry",
            rival=other,
            rival_says="labels and query in the first column",
        ),
        equal(
            "||theta*||",
            POSITIVE,
            1.0,
            "Definition 8.3",
            margin=1e-6,
            axis="draw",
            rival=(DIMENSION * 1.0) ** 0.5,
            rival_says="a standard Gaussian",
        ),
        equal(
            "mean of theta*",
            REAL,
            np.zeros(DIMENSION),
            "Definition 8.3: uniform",
            margin=0.06,
            axis="coordinate",
            rival=0.5,
            rival_says="uniform on the positive part of the sphere",
        ),
        equal(
            "y less <theta*, x>",
            REAL,
            0.0,
            "Definition 8.3: y = X theta*",
            margin=1e-5,
            axis="example",
            rival=control("y less <theta*, x>, with noise"),
            rival_says="labels with noise of 0.1",
        ),
    )


def sees_prompt(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """The library's prompts and its task."""
    task = LinearRegression(d=DIMENSION)
    thetas = torch.stack([task.draw(key / "theta" / i).features[0] for i in range(DRAWS)]).double().numpy()
    truth = task.draw(key / "truth")

    def left(noise: float) -> Array:
        batch = LinearRegression(d=DIMENSION, noise=noise).sample(truth, 200, key / "examples")
        return (batch.y - batch.x @ truth.features[0]).numpy()

    return {
        "entries of Z": joined([engine(p)[0].numpy() for p in settings]),
        "||theta*||": np.linalg.norm(thetas, axis=1),
        "mean of theta*": [mean_of(column, REAL, "draw") for column in thetas.T],
        "y less <theta*, x>": left(0.0),
        "y less <theta*, x>, with noise": left(0.1),
    }


def says_task(settings: Prompts) -> Sequence[Statement]:
    """The error is |<q, theta*> - alpha|: alpha theta* has none, nor has any q that differs from it across theta*."""
    return (
        equal(
            "error of alpha theta* + v over 1 + |alpha|, v across theta*",
            POSITIVE,
            np.zeros(PROMPTS),
            "Definition 8.4",
            margin=1e-12,
            axis="prompt",
            rival=control("error of alpha (theta* + v) + v over 1 + |alpha|, v along theta*"),
            rival_says="v along theta*",
            form="derived",
        ),
    )


def sees_task(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """From the definition."""
    across, along = [], []
    for i, p in enumerate(settings):
        v = (key / i).numpy().normal(size=len(p.theta))
        v -= (v @ p.theta) * p.theta
        across.append(abs((p.alpha * p.theta + v) @ p.theta - p.alpha) / (1 + abs(p.alpha)))
        along.append(abs((p.alpha + 1) * (p.theta @ p.theta) - p.alpha) / (1 + abs(p.alpha)))
    return {
        "error of alpha theta* + v over 1 + |alpha|, v across theta*": np.array(across),
        "error of alpha (theta* + v) + v over 1 + |alpha|, v along theta*": np.array(along),
    }


# one layer -----------------------------------------------------------------------------------------------------------

LAST, REST = "last row of a layer, Q = I and P = diag(I, 0)", "other rows of a layer, Q and P at random"


def size_of(p: Prompt) -> float:
    """What rounding is in proportion to."""
    return (1 + abs(p.alpha)) * (1 + float(p.spectrum[-1]))


def says_layer(settings: Prompts) -> Sequence[Statement]:
    """Attn(Z) = [[0, 0], [q^T X^T X + alpha y^T X, 0]]."""
    rows = [np.append(p.gram @ p.q + p.alpha * p.x.T @ p.y, 0.0) for p in settings]
    minus = [np.append(p.gram @ p.q - p.alpha * p.x.T @ p.y, 0.0) for p in settings]
    margin = joined([np.full(len(p.q) + 1, 1e-13 * size_of(p)) for p in settings])
    return (
        equal(
            LAST,
            REAL,
            joined(rows),
            "Lemma 8.13",
            margin=margin,
            axis="entry",
            rival=joined(minus),
            rival_says="the gradient at q, with the other sign of alpha",
        ),
        equal(
            REST,
            REAL,
            0.0,
            "Definition 8.6: only the last token reads",
            axis="entry",
            rival=control("the same without the mask"),
            rival_says="(Z Q Z^T) Z P",
        ),
    )


def sees_layer(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """The library's layer."""
    last, rest, free = [], [], []
    for i, p in enumerate(settings):
        z, net = engine(p), gradient_descent_weights(len(p.q), dtype=torch.float64)
        last.append(linear_attention(z, net.query_key, net.value)[0, -1].numpy())
        g = (key / i).numpy()
        q, v = (torch.from_numpy(g.normal(size=(len(p.q) + 1,) * 2)) for _ in range(2))
        rest.append(linear_attention(z, q, v)[0, :-1].numpy())
        free.append((z @ q @ z.mT @ z @ v)[0, :-1].numpy())
    return {LAST: joined(last), REST: joined(rest), "the same without the mask": joined(free)}


# loops ---------------------------------------------------------------------------------------------------------------

SAID, STAYS = "q after each loop over -alpha", "examples and query after a loop less those before"
WEIGHTS = "entries of Q and P for d = 3"


def descent(p: Prompt, rates: Array, start: Array) -> Array:
    """theta_t = theta_(t-1) - eta_(t-1) (X^T X theta_(t-1) - X^T y), all of them (t + 1, d)."""
    found = [start]
    for rate in rates:
        found.append(found[-1] - rate * (p.gram @ found[-1] - p.x.T @ p.y))
    return np.array(found)


def says_loops(settings: Prompts) -> Sequence[Statement]:
    """TF = alpha theta_T, from theta_0 = -q_0/alpha, at every loop."""
    paths, others = [], []
    for i, p in enumerate(settings):
        rates = steps_of(p, i)
        paths.append(p.alpha * descent(p, rates, -p.q / p.alpha))
        others.append(p.alpha * descent(p, rates, 0 * p.q))
    margin = joined([np.full(paths[i].size, 1e-12 * (1 + abs(p.alpha))) for i, p in enumerate(settings)])
    d = 3
    return (
        equal(
            SAID,
            REAL,
            joined(paths),
            "Theorem 8.14",
            margin=margin,
            axis="loop and entry",
            rival=joined(others),
            rival_says="descent from 0",
        ),
        equal(
            WEIGHTS,
            REAL,
            joined([np.eye(d + 1), np.diag([1.0] * d + [0.0])]),
            "Lemma 8.13, Remark 8.8: the same for every X",
            axis="entry",
            rival=joined([np.eye(d + 1), np.eye(d + 1)]),
            rival_says="a value matrix that also moves alpha",
        ),
        equal(
            STAYS,
            REAL,
            0.0,
            "Definition 8.7 and Lemma 8.13",
            axis="entry",
            rival=control("the same for a value matrix of ones"),
            rival_says="a value matrix that moves the query",
        ),
    )


def sees_loops(settings: Prompts, key: Key) -> Mapping[str, Observation]:
    """The library's loops, and Z carried on in full."""
    said, stays, moved = [], [], []
    for i, p in enumerate(settings):
        rates = torch.from_numpy(steps_of(p, i))[None]
        z, net = engine(p), gradient_descent_weights(len(p.q), dtype=torch.float64)
        said.append(net.loops(z, rates)[:, 0].numpy())
        for value, into in ((net.value, stays), (torch.ones_like(net.value), moved)):
            after = z - rates[0, 0] * linear_attention(z, net.query_key, value)
            change = (after - z)[0]
            into.append(np.append(change[:-1].numpy(), change[-1, -1].item()))
    chosen: LoopedTransformer = gradient_descent_weights(3)
    return {
        SAID: joined(said),
        WEIGHTS: joined([chosen.query_key.double().numpy(), chosen.value.double().numpy()]),
        STAYS: joined(stays),
        "the same for a value matrix of ones": joined(moved),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="looped.prompts",
        entries=("looped.definition8_2", "looped.definition8_3", "looped.definition8_5"),
        says="A prompt is Z = [[X, y], [q^T, alpha]] with y = X theta*, theta* uniform on the unit sphere.",
        settings=draw_general,
        statements=says_prompt,
        observe=sees_prompt,
        remarks="The thesis writes the unit sphere of R^d as S^d, usually S^(d-1).",
    ),
    Claim(
        id="looped.generation",
        entries=("looped.definition8_4",),
        says="A vector q is wanted with <q, theta*> = alpha.",
        settings=draw_general,
        statements=says_task,
        observe=sees_task,
        remarks="alpha theta* is one of many answers. The remark that the task is as hard as regression comes without "
        "a reduction.",
    ),
    Claim(
        id="looped.lemma8_13",
        entries=("looped.lemma8_13", "looped.definition8_6"),
        says="With Q = I and P = diag(I, 0) a layer gives q^T X^T X + alpha y^T X in its last row, 0 elsewhere.",
        settings=draw_general,
        statements=says_layer,
        observe=sees_layer,
        remarks="Definition 8.6 has Q and P of d x d and Z of n x d; the mask asks for d + 1 and n + 1, as in the "
        "lemma.",
    ),
    Claim(
        id="looped.theorem8_14",
        entries=("looped.theorem8_14", "looped.definition8_7", "looped.remark8_8"),
        says="After T loops the transformer says alpha theta_T, gradient descent from -q_0/alpha with the same steps.",
        settings=draw_general,
        statements=says_loops,
        observe=sees_loops,
        remarks="The theorem's index begins at 2 and is used from 1. Q and P know nothing of X, but the step 1/L of "
        "Theorem 8.25 does: of each prompt the largest eigenvalue of X^T X.",
    ),
)
