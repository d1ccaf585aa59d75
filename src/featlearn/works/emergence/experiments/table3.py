"""Parity labels at other input dimensions: d = 100 and d = 2000 instead of 500.

The work reports Table A.3 and Figures 9 and 10. Data span D = 100 dimensions, so for the same pattern coordinates the
methods do not depend on d; cosines of neurons that keep part of their start do. The reported One Step cosines (0.967,
0.848, 0.560 at d = 100, 500, 2000) fall as they would then; the regulariser of the simulations is not listed.
"""

from dataclasses import dataclass

from featlearn.lab.experiment import Experiment
from featlearn.tasks import ParityMix
from featlearn.works.emergence.experiments import own, pictures
from featlearn.works.emergence.experiments.simulation import DEVIATIONS, Common
from featlearn.works.emergence.rows import TABLES

ENTRY = "emergence.table3"
CHANGES = (
    own.changed("RF", times=1 / 30, only="d=2000"),
    own.changed("NTK", times=30.0, only="d=2000"),
    own.changed("NTK", times=10.0, only="d=100"),
    own.changed("RF", "3000 pairs of neurons, 2000 samples", only="d=100", m=3000, n=2000),
)


@dataclass(frozen=True, kw_only=True)
class Config(Common):
    """Table A.3: input dimension."""

    d: tuple[int, ...] = (100, 2000)
    """Input dimensions, each at least D."""
    k: int = 5
    """Relevant patterns, odd."""
    p_o: float = 0.5
    """Chance that a background pattern is present, in (0, 1/2]; also the weight of the fair component."""
    m: int = 300
    """Mirrored pairs of neurons (2m neurons)."""
    n: int = 50000
    """Training samples."""
    steps: int = 600
    """Gradient steps of every method."""

    def __post_init__(self) -> None:
        trials(self)


def trials(config: Config) -> list[own.Trial]:
    """One trial per dimension and seed, with and without structure."""
    tasks = {d: ParityMix(d, config.D, config.k, config.p_o) for d in config.d}
    settings = [config.setting(f"d={d}", t, m=config.m, n=config.n, steps=config.steps) for d, t in tasks.items()]
    return own.trials_of(config, settings, CHANGES)


EXPERIMENT = Experiment(
    id="emergence/table3",
    title="Parity labels: input dimension",
    reproduces=(ENTRY, "emergence.figure9", "emergence.figure10"),
    Config=Config,
    presets={
        "smoke": Config(d=(20, 60), D=20, k=3, m=20, n=1000, n_test=500, batch=200, steps=20, seeds=(0, 1)),
        "small": Config(D=50, m=100, n=15000, n_test=5000, batch=500, steps=300, seeds=(0, 1, 2), causes=False),
        "paper": Config(),
    },
    trials=trials,
    run_trial=own.run_trial,
    summarise=lambda table: pictures.summarise(table, ENTRY),
    draw=lambda table: pictures.draw(table, ENTRY, ("emergence.figure9",), ("emergence.figure10",)),
    deviations=DEVIATIONS,
    cost=own.cost,
    rows=TABLES[3],
)
