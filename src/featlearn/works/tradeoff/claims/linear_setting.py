"""The setting of section 7.2.2: tasks that share features, pairs of their mixture, and the loss of linear maps."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.tasks import TaskMixture

Array = np.ndarray

TASKS, R, S, SPURIOUS, SAMPLES, NEAR = 3, 6, 2, 2, 200_000, 0.02
K = S + TASKS * (R - S)
"""Invariant features; those of the target are the first r."""


LOSS = "E l(phi(x)^T (phi(x+) - E phi(x-))) of W and of Q W"


def draw_gram(key: Key) -> Array:
    """(WM)^T WM of a representation of spectral norm 0.7."""
    w = key.numpy().normal(size=(K, K + SPURIOUS))
    return 0.49 * w.T @ w / np.linalg.norm(w, 2) ** 2


def mean_exponential(gram: Array, negatives: bool) -> float:
    """E exp(-z^T G (z+ - E z-)) = E exp(-z^T G z+) of the mixture by Gaussian integrals; negatives: with an independent
    z- in place of its mean, E exp(z^T G z-) = exp(z^T G Cov(z-) G z/2) on each of its tasks."""
    total, u = 0.0, SPURIOUS
    alive = [np.eye(K + u)[[*range(S), *range(S + t * (R - S), S + (t + 1) * (R - S))]] for t in range(TASKS)]
    spurious = np.eye(K + u)[K:]
    for own in alive:
        first = np.concatenate([own, spurious, 0 * spurious]).T  # z of (z_R, z_U, z_U+)
        second = np.concatenate([own, 0 * spurious, spurious]).T
        h = first.T @ gram @ second
        h = h + h.T
        for other in alive if negatives else alive[:1]:
            kept = np.concatenate([other, spurious])
            down = kept @ gram @ first
            less = down.T @ down if negatives else 0.0
            weight = 1 / TASKS**2 if negatives else 1 / TASKS
            total += weight * np.linalg.det(np.eye(len(h)) + h - less) ** -0.5
    return float(total)


def says_setting(settings: Array) -> Sequence[Statement]:
    """z_Rt and z_U standard normal, other invariant features 0, x = Mz, y = <u_t*, z_Rt>; pairs share z_R alone."""
    alive = np.zeros(K + SPURIOUS)
    alive[:R], alive[K:] = 1, 1
    shared = np.concatenate([np.ones(S), np.full(K - S, 1 / TASKS), np.zeros(SPURIOUS)])
    same = np.concatenate([shared[:K], np.ones(SPURIOUS)])
    source = "Section 7.2.2, eq. (7.6), (7.7)"
    return (
        equal(
            "E z z^T in the target task",
            REAL,
            np.diag(alive),
            source,
            margin=NEAR,
            axis="features",
            rival=np.eye(len(alive)),
            rival_says="features of other tasks are alive",
        ),
        equal(
            "E z z+^T in an even mixture",
            REAL,
            np.diag(shared),
            source,
            margin=NEAR,
            axis="features",
            rival=np.diag(same),
            rival_says="z_U is shared",
        ),
        equal(
            "M^T M",
            REAL,
            np.eye(K + SPURIOUS),
            "Section 7.2.2: M is an orthonormal dictionary",
            margin=1e-5,
            axis="features",
            rival=np.eye(K + SPURIOUS) * (K + SPURIOUS),
            rival_says="a Gaussian matrix",
        ),
        equal(
            LOSS,
            POSITIVE,
            np.full(2, mean_exponential(settings, False)),
            "Section 7.2.2: E phi(x-) = 0, so that the loss is E l(z^T G z+), G = (WM)^T WM; l(t) = exp(-t)",
            margin=0.005,
            axis="representation",
            rival=mean_exponential(settings, True),
            rival_says="a single negative in place of the mean of many",
        ),
        equal(
            "shares of E y^2 from shared and from own features",
            SHARE,
            np.array([0.5, 0.5]),
            "Section 7.2.2: v_t1 = v_t2 = ||u_t*||^2/2",
            margin=NEAR,
            axis="kind",
            rival=np.array([S / R, 1 - S / R]),
            rival_says="in proportion to their numbers",
        ),
    )


def sees_setting(settings: Array, key: Key) -> Mapping[str, Observation]:
    """Second moments of what the library samples."""
    task = TaskMixture(tasks=TASKS, r=R, s=S, spurious=SPURIOUS)
    truth = task.draw(key)
    m = truth.dictionary.double()
    batch = task.sample(truth, SAMPLES, key / "labelled")
    z, y = batch.x.double() @ m, batch.y.double()
    one, two = (x.double() @ m for x in task.pairs(truth, SAMPLES, key / "pairs"))
    pull = z[:, :R].T @ y / SAMPLES  # E y z_j = u_j
    shares = torch.stack([pull[:S].square().sum(), pull[S:].square().sum()]) / y.square().mean()
    negative = task.pairs(truth, SAMPLES, key / "negatives")[0].mean(0).double() @ m
    values, vectors = np.linalg.eigh(settings)
    w = torch.from_numpy(vectors * np.sqrt(values.clip(0)))
    turn = torch.linalg.qr(torch.randn(w.shape[1], w.shape[1], generator=key.torch(), dtype=torch.float64))[0]
    losses = []
    for v in (w, w @ turn):
        losses.append(float(torch.exp(-((one @ v) * ((two - negative) @ v)).sum(1)).mean()))
    return {
        LOSS: np.array(losses),
        "E z z^T in the target task": (z.T @ z / SAMPLES).numpy(),
        "E z z+^T in an even mixture": (one.T @ two / SAMPLES).numpy(),
        "M^T M": (m.T @ m).numpy(),
        "shares of E y^2 from shared and from own features": shares.numpy(),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="tradeoff.linear_setting",
        entries=("tradeoff.linear_setting",),
        says="T tasks share s features and own r - s; x = Mz is linear, y = <u_t*, z_Rt>, pairs share z_R.",
        settings=draw_gram,
        statements=says_setting,
        observe=sees_setting,
    ),
)
