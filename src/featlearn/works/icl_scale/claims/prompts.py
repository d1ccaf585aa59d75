"""Prompts, the layer and its answer: section 5.3, Eqs. (5.1) and (5.2), tasks of sections 5.4 and 5.4.2."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from featlearn.core import Batch, Key, Truth
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, control, equal
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.nets import LinearSelfAttention
from featlearn.tasks import RegressionPrompts
from featlearn.works.icl_scale.setup import Array, Instance, draw_instances, prompt_of, weights

Instances = tuple[Instance, ...]
PROMPTS, DRAWS = 4, 20_000


def task_of(p: Instance, **changed: object) -> tuple[RegressionPrompts, Truth]:
    """The library's task with these eigenvalues and eigenvectors; prompts of M examples and noise sigma."""
    made = RegressionPrompts(variances=tuple(p.values.tolist()), examples=p.m, noise=p.sigma)
    return replace(made, **changed), Truth(torch.from_numpy(p.vectors.T.copy()))


def weights_of(batch: Batch) -> torch.Tensor:
    """w of each prompt (n, d)."""
    assert batch.hidden is not None
    return batch.hidden


# the prompt ----------------------------------------------------------------------------------------------------------

SHAPE, CORNER = "rows and columns of E", "last corner of E over 1 + |y_q|"
LABELS = "labels of E less <w, x>, without noise"


def says_prompt(settings: Instances) -> Sequence[Statement]:
    """(d + 1) x (M + 1), nothing where the label of the query would stand."""
    shape = np.array([[p.d + 1, p.m + 1] for p in settings], dtype=float)
    return (
        equal(
            SHAPE,
            POSITIVE,
            np.ravel(shape),
            "Section 5.3",
            axis="setting",
            margin=0.1,
            rival=np.ravel(shape[:, ::-1]),
            rival_says="a token a row",
        ),
        equal(
            CORNER,
            REAL,
            0.0,
            "Section 5.3",
            axis="setting and prompt",
            rival=control("y_q over 1 + |y_q|"),
            rival_says="the answer given away",
        ),
        equal(
            LABELS,
            REAL,
            0.0,
            "Section 5.4: y = <w, x>",
            margin=1e-12,
            axis="setting, prompt and example",
            rival=control("the same with labels of noise 1"),
            rival_says="noise in pretraining",
        ),
    )


def sees_prompt(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """The library's prompts."""
    shapes, corners, answers, left, noisy = [], [], [], [], []
    for i, p in enumerate(settings):
        for sigma, into in ((1.0, noisy), (0.0, left)):
            task, truth = task_of(p, noise=sigma)
            batch = task.sample(truth, PROMPTS, key / i)
            y = batch.x[:, -1, :-1] - (weights_of(batch)[:, None] @ batch.x[:, :-1, :-1])[:, 0]
            into.append(np.ravel(y.numpy()))
        shapes.append([float(v) for v in batch.x.shape[1:]])
        corners.append((batch.x[:, -1, -1] / (1 + batch.y.abs())).numpy())
        answers.append((batch.y / (1 + batch.y.abs())).numpy())
    return {
        SHAPE: np.ravel(shapes),
        CORNER: np.concatenate(corners),
        "y_q over 1 + |y_q|": np.concatenate(answers),
        LABELS: np.concatenate(left),
        "the same with labels of noise 1": np.concatenate(noisy),
    }


# the task ------------------------------------------------------------------------------------------------------------

INPUTS, QUERY, WEIGHTS = "x_i x_j", "x_i x_j of the query", "w_i w_j"
NOISE, ANSWER = "square of y less <w, x>", "answer less <w, x_q>"


def one(settings: Instances) -> Instance:
    """The first setting with five dimensions."""
    return next(p for p in settings if p.d == 5)


def says_task(settings: Instances) -> Sequence[Statement]:
    """Moments of x, the query and w; labels of variance sigma^2 about <w, x>, answers without noise."""
    p = next(q for q in settings if q.d == 5)
    covariance = np.ravel(p.covariance)
    root = np.ravel(p.vectors * np.sqrt(p.values) @ p.vectors.T)
    return (
        equal(
            INPUTS,
            REAL,
            covariance,
            "Section 5.4: x ~ N(0, Lambda)",
            margin=0.12,
            axis="entry",
            rival=root,
            rival_says="covariance Lambda^(1/2)",
        ),
        equal(
            QUERY,
            REAL,
            covariance,
            "Section 5.4: the query is one of them",
            margin=0.12,
            axis="entry",
            rival=np.ravel(np.eye(5)),
            rival_says="a standard Gaussian",
        ),
        equal(
            WEIGHTS,
            REAL,
            np.ravel(np.eye(5)),
            "Section 5.4: w ~ N(0, I)",
            margin=0.06,
            axis="entry",
            rival=np.ravel(np.eye(5)) / 5,
            rival_says="uniform on the unit sphere",
        ),
        equal(
            NOISE,
            POSITIVE,
            p.sigma**2,
            "Section 5.4.2: noise of N(0, sigma^2)",
            margin=0.03,
            rival=p.sigma,
            rival_says="a variance of sigma",
        ),
        equal(
            ANSWER,
            REAL,
            0.0,
            "Section 5.4.2: <w, x_q> is wanted",
            margin=1e-10,
            axis="prompt",
            rival=control("a noisy label less <w, x>"),
            rival_says="a noisy answer",
        ),
    )


def sees_task(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """The library's task."""
    task, truth = task_of(one(settings))
    batch = task.sample(truth, DRAWS, key)
    x, w = batch.x[:, :-1].numpy(), weights_of(batch).numpy()

    def products(rows: Array) -> list:
        return [mean_of(rows[:, i] * rows[:, j], REAL, "prompt") for i in range(5) for j in range(5)]

    left = (batch.x[:, -1, :-1] - (weights_of(batch)[:, None] @ batch.x[:, :-1, :-1])[:, 0]).numpy()
    return {
        INPUTS: products(x[:, :, 0]),
        QUERY: products(x[:, :, -1]),
        WEIGHTS: products(w),
        NOISE: mean_of(left[:, 0] ** 2, POSITIVE, "prompt"),
        ANSWER: batch.y.numpy()[:200] - (w * x[:, :, -1]).sum(1)[:200],
        "a noisy label less <w, x>": left[:200, 0],
    }


# the layer -----------------------------------------------------------------------------------------------------------

CORNERS, SAID = "last corner of f(E)", "answer of the layer"
OTHERS, READ = "change of the answer with all weights but those of Eq. (5.2)", "change of the answer with those"


def says_layer(settings: Instances) -> Sequence[Statement]:
    """Eq. (5.2), E E^T with the query's column."""
    answers, without = [], []
    for i, p in enumerate(settings):
        e, (value, key, query) = prompt_of(p, i), weights(p, i)
        kq = key.T @ query
        for columns, into in ((slice(None), answers), (slice(-1), without)):
            part = e[:, columns]
            into.append(value[-1] @ (part @ part.T / p.m) @ kq[:, :-1] @ e[:-1, -1])
    size = 1e-10 * (1 + np.abs(answers))
    more = {"margin": size, "axis": "setting", "rival": np.array(without), "rival_says": "E E^T over examples alone"}
    return (
        equal(CORNERS, REAL, np.array(answers), "Eq. (5.1), its last corner by Eq. (5.2)", **more),
        equal(SAID, REAL, np.array(answers), "Eq. (5.2)", **more),
        equal(
            OTHERS,
            REAL,
            0.0,
            "Below Eq. (5.2): only the last row of W_PV and the first d columns of W_KQ",
            margin=1e-10,
            axis="setting",
            rival=control(READ),
            rival_says="the last row of W_PV",
        ),
    )


def sees_layer(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """The library's layer in full, its answer, and answers with other weights."""
    corners, said, others, read = [], [], [], []
    for i, p in enumerate(settings):
        e = torch.from_numpy(prompt_of(p, i))[None]
        value, k, q = (torch.from_numpy(a) for a in weights(p, i))
        net = LinearSelfAttention(p.d, p.rank, key, dtype=torch.float64)
        with torch.no_grad():
            for own, given in ((net.value, value), (net.key, k), (net.query, q)):
                own[0] = given
            corners.append(float(net.output(e)[0, 0, -1, -1]))
            said.append(float(net(e)[0, 0]))
            net.value[0, :-1] += 1
            net.query[0, :, -1] += 1  # the last column of W_KQ
            others.append(float(net.output(e)[0, 0, -1, -1]) - corners[-1])
            net.value[0, -1] += 1
            read.append(float(net.output(e)[0, 0, -1, -1]) - corners[-1])
    return {CORNERS: np.array(corners), SAID: np.array(said), OTHERS: np.array(others), READ: np.array(read)}


# the split -----------------------------------------------------------------------------------------------------------

SPLIT, CROSS = "Q^T w of the library's prompts", "|w|_Lambda^2 less those of its two parts"


def says_split(settings: Instances) -> Sequence[Statement]:
    """s + xi = Q^T w, nothing in common."""
    coordinates = np.concatenate([p.coordinates for p in settings])
    return (
        equal(
            SPLIT,
            REAL,
            coordinates,
            "Section 5.4.2: w = Q (s + xi)",
            margin=1e-10,
            axis="setting and direction",
            rival=np.concatenate([p.vectors.T @ p.coordinates for p in settings]),
            rival_says="w = s + xi in the coordinates of x",
        ),
        equal(
            CROSS,
            REAL,
            0.0,
            "Section 5.4.2: s_i = 0 for i > r and xi_i = 0 for i <= r, so s^T D xi = 0",
            margin=1e-10,
            axis="setting",
            rival=control("the same for parts in the coordinates of x"),
            rival_says="the first r inputs instead of eigenvectors",
        ),
    )


def sees_split(settings: Instances, key: Key) -> Mapping[str, Observation]:
    """The weights of the library's prompts, projected onto the first r eigenvectors and the rest."""
    found, cross, plain = [], [], []
    for i, p in enumerate(settings):
        task, truth = task_of(p, weight=tuple(p.coordinates.tolist()))
        w = weights_of(task.sample(truth, 1, key / i))[0].numpy()
        found.append(p.vectors.T @ w)
        covered = p.vectors[:, : p.rank] @ p.vectors[:, : p.rank].T @ w
        for part, into in ((covered, cross), (w * (np.arange(p.d) < p.rank), plain)):
            if p.rank < p.d:
                rest = w - part
                into.append(w @ p.covariance @ w - part @ p.covariance @ part - rest @ p.covariance @ rest)
    return {
        SPLIT: np.concatenate(found),
        CROSS: np.array(cross),
        "the same for parts in the coordinates of x": np.array(plain),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="icl_scale.definition_prompt",
        entries=("icl_scale.definition_prompt",),
        says="A prompt is E = [[x_1 .. x_N, x_q], [y_1 .. y_N, 0]].",
        settings=draw_instances,
        statements=says_prompt,
        observe=sees_prompt,
    ),
    Claim(
        id="icl_scale.definition_regression_task",
        entries=("icl_scale.definition_regression_task",),
        says="x ~ N(0, Lambda), w ~ N(0, I), y = <w, x>; in evaluation labels have noise of variance sigma^2.",
        settings=draw_instances,
        statements=says_task,
        observe=sees_task,
    ),
    Claim(
        id="icl_scale.eq5_1",
        entries=("icl_scale.eq5_1",),
        says="f(E) = E + W_PV E (E^T W_KQ E)/rho answers by the last row of W_PV and the first d columns of W_KQ.",
        settings=draw_instances,
        statements=says_layer,
        observe=sees_layer,
        remarks="rho at evaluation is not said in the text; the proof of Theorem 5.4.2 has M, the length there.",
    ),
    Claim(
        id="icl_scale.definition_eval_prompt",
        entries=("icl_scale.definition_eval_prompt",),
        says="The weight of an evaluation splits into s along the first r eigenvectors and xi along the others.",
        settings=draw_instances,
        statements=says_split,
        observe=sees_split,
    ),
)
