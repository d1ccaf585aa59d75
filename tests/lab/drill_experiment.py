"""Trials in a world that fails: DRILL_DISK = share of writes that find the disk full or read-only; the clock jumps."""

import errno
import os
import random
import time
from dataclasses import dataclass

import numpy as np

from featlearn.lab import files
from featlearn.lab.experiment import Cost, Experiment, SummaryRow, TrialResult

CHAOS = random.Random(int.from_bytes(os.urandom(8), "little"))
if float(os.environ.get("DRILL_DISK", "0")) > 0:
    real_write, real_time = os.write, time.time

    def write(handle, data):
        if CHAOS.random() < float(os.environ["DRILL_DISK"]):
            real_write(handle, data[: len(data) // 2])  # half of it is there already
            raise OSError(CHAOS.choice([errno.ENOSPC, errno.EROFS]), "injected")
        return real_write(handle, data)

    files.os.write = write
    time.time = lambda: real_time() - CHAOS.choice([0.0, 1e5, 1e9])


@dataclass(frozen=True)
class Config:
    count: int = 200
    """Trials."""
    pause: float = 0.0
    """Seconds that each takes, at most."""


@dataclass(frozen=True)
class Trial:
    seed: int


PAUSE = float(os.environ.get("DRILL_PAUSE", "0"))


def trials(config):
    return [Trial(seed) for seed in range(config.count)]


def run_trial(trial):
    time.sleep(PAUSE * CHAOS.random())
    x = np.random.default_rng(trial.seed).normal(size=50)
    return TrialResult([{"row": "normal", "seed": trial.seed, "mean": float(x.mean())}], {"x": x})


def summarise(table):
    return [SummaryRow.of("", "normal", "mean", table.values("mean"))]


EXPERIMENT = Experiment(
    id="toy/drill",
    title="Trials in a world that fails",
    reproduces=(),
    Config=Config,
    presets={"small": Config()},
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=lambda table: {},
    cost=lambda trial: Cost(0.02, 100.0),
)
