"""An experiment without machine learning: rows that depend on the seed, and every way in which a cell can end."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import CellResult, Cost, Deviation, Experiment, SummaryRow


@dataclass(frozen=True)
class Config:
    size: int = 40
    """Numbers drawn in each cell."""
    scale: float = 1.0
    """Standard deviation of the numbers."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One cell a seed."""
    loud: bool = False
    """Adds one to every number."""
    pause: float = 0.0
    """Seconds that a cell sleeps before it ends."""
    diary: str = ""
    """Folder in which each cell leaves a file when it begins; empty for none."""
    broken: str = ""
    """A cell fails while this file exists; empty for never."""
    diverging: int = -1
    """The seed whose cell diverges."""

    def __post_init__(self):
        if self.size < 2:
            raise ValueError(f"size = {self.size} is not allowed: at least 2; raise size")


@dataclass(frozen=True)
class Cell:
    size: int
    scale: float
    seed: int
    loud: bool
    pause: float
    diary: str
    broken: str
    diverging: bool


def cells(config: Config) -> tuple[Cell, ...]:
    c = config
    return tuple(Cell(c.size, c.scale, s, c.loud, c.pause, c.diary, c.broken, s == c.diverging) for s in c.seeds)


def run_cell(cell: Cell) -> CellResult:
    if cell.diary:
        Path(cell.diary, f"{cell.seed}-{os.getpid()}-{time.time_ns()}").touch()
    if cell.broken and Path(cell.broken).exists():
        raise RuntimeError(f"seed {cell.seed}\nis broken")
    if cell.diverging:
        raise FloatingPointError(f"not finite at step {cell.seed}")
    time.sleep(cell.pause)
    x = np.random.default_rng(cell.seed).normal(cell.loud, cell.scale, cell.size)
    # a matrix product, so that the number of threads could show in the last digit
    y = np.outer(x, x) @ np.outer(x, x)
    rows = [
        {"setting": "plain", "row": "mean", "seed": cell.seed, "score": x.mean()},
        {"setting": "plain", "row": "trace", "seed": cell.seed, "score": np.trace(y)},
    ]
    return CellResult(rows, {"x": x})


def summarise(table):
    printed = {"mean": 0.5}
    out = []
    for e in estimates(table.rows, metrics=("score",)):
        p = printed.get(e.group[1])
        verdict = "no print" if p is None else "reproduced" if abs(e.value - p) < 0.3 else "deviates"
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
    cells=cells,
    run_cell=run_cell,
    summarise=summarise,
    draw=lambda table: {},
    deviations=(Deviation("numbers", printed="unknown", ours="numpy's generator", why="any will do"),),
    cost=lambda cell: Cost(0.5 + cell.pause, 60.0),
)
