"""The balance regulariser of Algorithm 1 (Section A.7.5): its two entropies and their gradients."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import softmax, xlogy

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL
from featlearn.lab.statement import Statement, at_most, control, equal
from featlearn.lab.uncertainty import Observation
from featlearn.learn.balance import regulariser

Array = np.ndarray


@dataclass(frozen=True)
class Predictions:
    """Class probabilities (n, C) of several models, and logits."""

    probabilities: tuple[Array, ...]
    logits: Array


def balance_settings(key: Key) -> Predictions:
    """Random predictions, balanced one-hot, constant and flat ones."""
    rng, C = key.numpy(), 5
    one_hot = np.eye(C)
    models = (rng.dirichlet(np.full(C, 0.5), 40), one_hot[np.arange(40) % C], one_hot[np.zeros(40, int)])
    return Predictions((*models, np.full((40, C), 1 / C)), rng.normal(size=(7, C)))


def balance_statements(at: Predictions) -> tuple[Statement, ...]:
    """R1 = -H(mean prediction), R2 = mean entropy, and the gradient of R1 + 0.3 R2 by hand."""

    def entropy(p: Array) -> Array:
        return np.asarray(-xlogy(p, p).sum(-1))

    def gradient(sign: float) -> Array:
        p = softmax(at.logits, axis=1)
        outer = ((np.log(p.mean(0)) + 1) - sign * 0.3 * (np.log(p) + 1)) / len(p)
        return np.tile(np.ravel(p * (outer - (p * outer).sum(1, keepdims=True))), 2)

    C = at.logits.shape[1]
    mixed = at.probabilities[0]
    return (
        equal(
            "R1 of random, balanced, constant and flat predictions",
            REAL,
            np.array([-entropy(mixed.mean(0)), -math.log(C), 0.0, -math.log(C)]),
            "Algorithm 1: R1 = -H(mean prediction), from -ln C to 0, least where the mean is uniform",
            axis="predictions",
            margin=1e-12,
            rival=np.array([-entropy(mixed).mean(), 0.0, -math.log(C), 0.0]),
            rival_says="the mean of the entropies, extremes the other way round",
        ),
        equal(
            "R2 of random, balanced, constant and flat predictions",
            REAL,
            np.array([entropy(mixed).mean(), 0.0, 0.0, math.log(C)]),
            "Algorithm 1: R2 = mean entropy, from 0 to ln C",
            axis="predictions",
            margin=1e-12,
            rival=np.array([entropy(mixed.mean(0)), math.log(C), 0.0, math.log(C)]),
            rival_says="the entropy of the mean",
        ),
        equal(
            "gradient of R1 + 0.3 R2",
            REAL,
            gradient(1.0),
            "chain rule by hand",
            axis="autograd and finite differences, by logit",
            margin=1e-8,
            rival=gradient(-1.0),
            rival_says="R2 with the opposite sign",
            form="derived",
        ),
        at_most(
            "divergence of the mean prediction from uniform after descending R1",
            POSITIVE,
            0.01,
            "Algorithm 1: R1 balances the classes",
            rival=control("divergence before"),
            rival_says="the start",
            form="criterion",
        ),
    )


def balance_observe(at: Predictions, key: Key) -> Mapping[str, Observation]:
    """The regulariser in torch."""
    values = np.array([[float(r) for r in regulariser(torch.as_tensor(p))] for p in at.probabilities])

    def total(z: torch.Tensor) -> torch.Tensor:
        one, two = regulariser(torch.softmax(z, 1))
        return one + 0.3 * two

    logits = torch.as_tensor(at.logits).requires_grad_()
    (auto,) = torch.autograd.grad(total(logits), logits)
    ways = 1e-6 * np.eye(logits.numel()).reshape(-1, *logits.shape)
    plain = [float(total(logits.detach() + e) - total(logits.detach() - e)) / 2e-6 for e in map(torch.as_tensor, ways)]
    z = torch.as_tensor(key.numpy().normal([2.0, 0, 0, 0, 0], 1, (200, 5)))

    def divergence(z: torch.Tensor) -> float:
        return float(regulariser(torch.softmax(z, 1))[0]) + math.log(z.shape[1])

    before = divergence(z)
    for _ in range(200):
        z.requires_grad_()
        (g,) = torch.autograd.grad(regulariser(torch.softmax(z, 1))[0], z)
        z = (z - 20 * g).detach()
    return {
        "R1 of random, balanced, constant and flat predictions": values[:, 0],
        "R2 of random, balanced, constant and flat predictions": values[:, 1],
        "gradient of R1 + 0.3 R2": np.concatenate([np.ravel(auto.numpy()), plain]),
        "divergence of the mean prediction from uniform after descending R1": divergence(z),
        "divergence before": before,
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="emergence.algorithm1_regulariser",
        entries=("emergence.algorithm1",),
        says="The class-balance regulariser: R1 = -H(mean prediction) in [-ln C, 0], R2 = mean entropy in [0, ln C].",
        settings=balance_settings,
        statements=balance_statements,
        observe=balance_observe,
        remarks="Only the regulariser; the search for a teacher and its labels are the experiment `emergence/teacher`.",
    ),
)
