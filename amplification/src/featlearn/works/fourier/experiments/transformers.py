"""What both experiments on transformers share: settings and their checks, points from indices, training of one seed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from featlearn.core import Key, SettingError
from featlearn.core.device import resolve
from featlearn.lab.experiment import Cost
from featlearn.learn import ModularRun, ModularSchedule, fit_modular
from featlearn.nets import ModularShape, ModularTransformer
from featlearn.tasks.modular_addition import check_points, decoder, split, train_points

DEVIATIONS = (
    (
        "heads and their width",
        "160 heads, hidden dimension 128, which 160 does not divide",
        "160 heads of 32 in preset paper, the default of the base code that the paper names; fewer elsewhere",
        "the width of a head is not given; 160 heads are for a GPU",
    ),
    ("optimizer", "SGD in the text, AdamW in caption and appendix", "AdamW", "the settings given are those of AdamW"),
    (
        "what lambda = 1e-3 is",
        "regularization strength",
        "decoupled weight decay of all parameters",
        "the caption of Figure 4.4 calls it weight decay",
    ),
    ("steps", "not given", "a budget a preset, see Config", "needed to run"),
    (
        "transformer",
        "dropout, positions, normalisation, biases and start not given",
        "no dropout, learned positions, normalisation before each map, relu in place of gelu, no biases but in the MLP",
        "positions and normalisation as in the base code; dropout there is 0.1 and would hide when training is done",
    ),
)


@dataclass(frozen=True)
class Trial:
    """One seed of one network. variant: "" where there is only one; n_train: 0 for the share of all points; settle:
    None for a run of all its steps."""

    k: int
    p: int
    seed: int
    variant: str
    readout: str
    layers: int
    heads: int
    width: int
    head_dim: int
    mlp: int
    share: float
    n_train: int
    rate: float
    decay: float
    batch: int
    steps: int
    cool: int
    settle: float | None
    growth: float
    probe: int
    precision: str
    device: str


def check_pairs(field: str, pairs: Sequence[tuple[int, int]]) -> None:
    """Refuse no pairs, a pair given twice, k = 1, and p^k points that no index counts."""
    if not pairs or len(set(pairs)) < len(pairs):
        raise SettingError(field, tuple(pairs), "one or more pairs (k, p), each once", "3 61 4 31 are two")
    for k, p in pairs:
        check_points(p, k)
        if k < 2:
            raise SettingError(field, (k, p), "k of at least 2", "one number leaves nothing to add")


def check_share(share: float, pairs: Sequence[tuple[int, int]]) -> None:
    """Refuse a split with an empty side."""
    if not 0 < share < 1:
        raise SettingError("share", share, "between 0 and 1", "0.5 is reported")
    for k, p in pairs:
        train_points(p, k, share)


def shape_of(trial: Trial) -> ModularShape:
    """The transformer of a trial."""
    return ModularShape(
        k=trial.k,
        p=trial.p,
        layers=trial.layers,
        heads=trial.heads,
        width=trial.width,
        head_dim=trial.head_dim,
        mlp=trial.mlp,
        readout=trial.readout,
    )


def train(trial: Trial, name: str) -> tuple[ModularTransformer, ModularRun, int]:
    """The network at the start, its training, and the number of training points of a trial."""
    resolve(trial.device)
    key = Key(name) / trial.k / trial.p / trial.seed
    share = trial.n_train / trial.p**trial.k if trial.n_train else trial.share
    left, right = split(trial.p, trial.k, share, key, trial.device)
    net = ModularTransformer(shape_of(trial), [key / "start"], device=trial.device)
    schedule = ModularSchedule(
        steps=trial.steps,
        batch=min(trial.batch, len(left)),
        rate=trial.rate,
        decay=trial.decay,
        cool=trial.cool,
        settle=trial.settle or math.inf,
        growth=trial.growth,
        probe=trial.probe,
        precision=trial.precision,
    )
    run = fit_modular(net, left[None], right[None], decoder(trial.p, trial.k), schedule, [key])
    return net, run, len(left)


def accuracies(run: ModularRun) -> tuple[float, float]:
    """Percent of all training and of all test points, at the end."""
    assert run.train_accuracy is not None
    assert run.test_accuracy is not None
    return 100 * float(run.train_accuracy[0]), 100 * float(run.test_accuracy[0])


def cost(trial: Trial) -> Cost:
    """From measured seconds on one core of two that were busy: 5 ms and 9 ns per unit of width that a point moves
    through, and products at 20 Gflop/s, a step.

    On a GPU, where nothing was measured, the same work at 300 times the speed and 1 ms a step.
    """
    s = shape_of(trial)
    inner, positions = s.heads * s.head_dim, (s.length if s.layers > 1 else 1)
    moved = positions * (inner + s.width + s.mlp) + s.length * inner * s.layers
    flops = 2 * positions * s.width * (inner + 2 * s.mlp) + (4 * s.length * s.width * inner if s.layers > 1 else 0)
    point = 9e-9 * moved + 3 * flops / 2e10
    n = min(trial.batch, trial.n_train or max(1, round(trial.share * trial.p**trial.k)))
    evaluations = (math.log(trial.steps) / math.log(trial.growth) * 2 * trial.probe + trial.p**trial.k) / 3
    each, speed = (5e-3, 1) if trial.device == "cpu" else (1e-3, 300)
    seconds = trial.steps * (each + n * point / speed) + evaluations * point / speed
    return Cost(0.5 + seconds, 500 + 40 * max(n, 2048) * moved / 2**20)


def trace_arrays(run: ModularRun) -> Mapping[str, Any]:
    """Steps of the evaluations and the accuracies there."""
    return {
        "steps": torch.tensor(run.steps).numpy(),
        "train_accuracy": run.trace["train_accuracy"][:, 0].numpy(),
        "test_accuracy": run.trace["test_accuracy"][:, 0].numpy(),
    }
