"""An experiment without machine learning: rows that depend on the seed, and every way in which a trial can end."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import Cost, Deviation, Experiment, SummaryRow, TrialResult


@dataclass(frozen=True)
class Config:
    size: int = 40
    """Numbers drawn in each trial."""
    scale: float = 1.0
    """Standard deviation of the numbers."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One trial a seed."""
    loud: bool = False
    """Adds one to every number."""
    pause: float = 0.0
    """Seconds that a trial sleeps before it ends."""
    diary: str = ""
    """Folder in which each trial leaves a file when it begins; empty for none."""
    broken: str = ""
    """A trial fails while this file exists; empty for never."""
    diverging: int = -1
    """The seed whose trial diverges."""

    def __post_init__(self):
        if self.size < 2:
            raise ValueError(f"size = {self.size} is not allowed: at least 2; raise size")


@dataclass(frozen=True)
class Trial:
    size: int
    scale: float
    seed: int
    loud: bool
    pause: float
    diary: str
    broken: str
    diverging: bool


def trials(config: Config) -> tuple[Trial, ...]:
    c = config
    return tuple(Trial(c.size, c.scale, s, c.loud, c.pause, c.diary, c.broken, s == c.diverging) for s in c.seeds)


def run_trial(trial: Trial) -> TrialResult:
    if trial.diary:
        Path(trial.diary, f"{trial.seed}-{os.getpid()}-{time.time_ns()}").touch()
    if trial.broken and Path(trial.broken).exists():
        raise RuntimeError(f"seed {trial.seed}\nis broken")
    if trial.diverging:
        raise FloatingPointError(f"not finite at step {trial.seed}")
    time.sleep(trial.pause)
    x = np.random.default_rng(trial.seed).normal(trial.loud, trial.scale, trial.size)
    # a matrix product, so that the number of threads could show in the last digit
    y = np.outer(x, x) @ np.outer(x, x)
    rows = [
        {"setting": "plain", "row": "mean", "seed": trial.seed, "score": x.mean()},
        {"setting": "plain", "row": "trace", "seed": trial.seed, "score": np.trace(y)},
    ]
    return TrialResult(rows, {"x": x})


def summarise(table):
    reported = {"mean": 0.5}
    out = []
    for e in estimates(table.rows, metrics=("score",)):
        p = reported.get(e.group[1])
        verdict = "not reported" if p is None else "reproduced" if abs(e.value - p) < 0.3 else "deviates"
        out.append(SummaryRow(*e.group, e.metric, e.value, e.low, e.high, e.n, p, verdict, "toy.table1" if p else ""))
    return out


EXPERIMENT = Experiment(
    id="toy/normal",
    title="Normal numbers",
    reproduces=("toy.table1",),
    Config=Config,
    presets={
        "smoke": Config(size=4, seeds=(0,)),
        "small": Config(),
        "paper": Config(size=400, seeds=(0, 1, 2, 3, 4)),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=lambda table: {},
    deviations=(Deviation("numbers", reported="unknown", ours="numpy's generator", why="any will do"),),
    cost=lambda trial: Cost(0.5 + trial.pause, 60.0),
)
