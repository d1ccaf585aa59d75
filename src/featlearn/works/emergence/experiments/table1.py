"""Parity labels: the learned network and two-step features are perfect, fixed features fail, structure is needed.

The work reports Table A.1 (Table 1 of the paper's appendix) and Figures 1/5 (learning curves) and 2/6 (neurons by
multidimensional scaling) for sparse parity hidden in a mixture that betrays the relevant block: d = 500, D = 100,
k = 5, p_o = 1/2, 300 mirrored pairs of neurons, 50000 samples, 600 steps of which the first two use all samples.
"""

from dataclasses import dataclass

from featlearn.lab.experiment import Experiment
from featlearn.tasks import ParityMix
from featlearn.works.emergence.experiments import own, pictures
from featlearn.works.emergence.experiments.simulation import DEVIATIONS, Common
from featlearn.works.emergence.rows import TABLES

ENTRY = "emergence.table1"
CHANGES = (
    own.changed("RF", times=30.0),
    own.changed("RF", times=1 / 30),
    own.changed("NTK", times=30.0),
    own.changed("NTK", "three times as many steps", steps=1800),
    own.changed("NTK", f"tested on {own.FEW} samples", n_test=own.FEW),
    own.changed("NTK", "three times as many steps", times=1 / 3, steps=1800),
)


@dataclass(frozen=True, kw_only=True)
class Config(Common):
    """Table A.1: parity labels."""

    d: int = 500
    """Input dimension, at least D."""
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
    """One trial per seed, with and without structure."""
    task = ParityMix(config.d, config.D, config.k, config.p_o)
    setting = config.setting("", task, m=config.m, n=config.n, steps=config.steps)
    return own.trials_of(config, [setting], CHANGES)


SMALL = Config(d=200, D=50, k=5, m=100, n=15000, n_test=5000, batch=500, steps=300, seeds=(0, 1, 2), causes=False)

EXPERIMENT = Experiment(
    id="emergence/table1",
    title="Parity labels: six methods",
    reproduces=(
        ENTRY,
        "emergence.figure1",
        "emergence.figure2",
        "emergence.figure5",
        "emergence.figure6",
        "emergence.claim_onestep_twostep",
        "emergence.claim_seeds",
        "emergence.method_training",
        "emergence.method_baselines",
        "emergence.method_mds",
    ),
    Config=Config,
    presets={
        "smoke": Config(d=30, D=20, k=3, m=20, n=1000, n_test=500, batch=200, steps=20, seeds=(0, 1)),
        "small": SMALL,
        "paper": Config(),
    },
    trials=trials,
    run_trial=own.run_trial,
    summarise=lambda table: pictures.summarise(table, ENTRY),
    draw=lambda table: pictures.draw(
        table, ENTRY, ("emergence.figure1", "emergence.figure5"), ("emergence.figure2", "emergence.figure6")
    ),
    deviations=DEVIATIONS,
    cost=own.cost,
    rows=TABLES[1],
)
