"""Interval labels: a simpler labelling that fixed features also learn, and that needs no input structure.

The work reports Table A.2 and Figures 7 (learning curves) and 8 (neurons): y = +1 iff 20 to 30 of k = 30 relevant
patterns are present, 100 mirrored pairs of neurons, 200 steps. The reported One Step accuracy (41-44 %) is about the
share of the smaller class, 0.415; how its classifier was fitted is not stated.
"""

from dataclasses import dataclass

from featlearn.lab.experiment import Experiment
from featlearn.tasks import Interval
from featlearn.works.emergence.experiments import own, pictures
from featlearn.works.emergence.experiments.simulation import DEVIATIONS, Common
from featlearn.works.emergence.rows import TABLES

ENTRY = "emergence.table2"
CHANGES = (
    own.changed("NTK", "five times as many steps", steps=1000),
    own.changed("RF", times=1 / 3),
    own.changed("RF", own.WIDER, m=300),
    own.changed("RF", times=3.0),
    own.changed("RF", "1000 pairs of neurons, 2000 samples", m=1000, n=2000),
    own.kept(0.4),
    own.changed("Network", times=30.0, structure=False),
    own.changed("Network", times=300.0, structure=False),
)


@dataclass(frozen=True, kw_only=True)
class Config(Common):
    """Table A.2: interval labels."""

    d: int = 500
    """Input dimension, at least D."""
    k: int = 30
    """Relevant patterns."""
    t1: int = 20
    """Smallest count with label +1."""
    t2: int = 30
    """Largest count with label +1."""
    m: int = 100
    """Mirrored pairs of neurons (2m neurons)."""
    n: int = 50000
    """Training samples."""
    steps: int = 200
    """Gradient steps of every method."""
    # chosen by emergence/rates, setting "interval"; the help of each is that of Common
    scale_2: float = 32.0
    rate_ntk: float = 3330.0
    rate_rf: float = 10.0
    rate_linear: float = 10.0
    scale_own: float = 0.01
    rate_own: float = 30.0
    rate_kept: float = 300.0

    def __post_init__(self) -> None:
        trials(self)


def trials(config: Config) -> list[own.Trial]:
    """One trial per seed, with and without structure."""
    task = Interval(config.d, config.D, config.k, config.t1, config.t2)
    setting = config.setting("", task, m=config.m, n=config.n, steps=config.steps)
    return own.trials_of(config, [setting], CHANGES)


EXPERIMENT = Experiment(
    id="emergence/table2",
    title="Interval labels: six methods",
    reproduces=(ENTRY, "emergence.figure7", "emergence.figure8", "emergence.definition_interval"),
    Config=Config,
    presets={
        "smoke": Config(d=40, D=30, k=10, t1=7, t2=10, m=20, n=1000, n_test=500, batch=200, steps=20, seeds=(0, 1)),
        "small": Config(n=15000, n_test=5000, batch=500, seeds=(0, 1, 2), causes=False),
        "paper": Config(),
    },
    trials=trials,
    run_trial=own.run_trial,
    summarise=lambda table: pictures.summarise(table, ENTRY),
    draw=lambda table: pictures.draw(table, ENTRY, ("emergence.figure7",), ("emergence.figure8",)),
    deviations=DEVIATIONS,
    cost=own.cost,
    rows=TABLES[2],
)
