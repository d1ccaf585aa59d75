"""Parity labels with fewer samples: n = 25000, and n = 10000 with a smaller network.

The work reports Table A.5 and Figures 13 and 14. Its row of n = 10000 uses m = 50, since it observes
over-fitting with the larger network; that one is trained here beside the row, in two ways.
"""

from dataclasses import dataclass, replace

from featlearn.core import SettingError
from featlearn.lab.experiment import Deviation, Experiment
from featlearn.tasks import ParityMix
from featlearn.works.emergence.experiments import own, pictures
from featlearn.works.emergence.experiments.simulation import DEVIATIONS, Common, Setting
from featlearn.works.emergence.rows import TABLES

ENTRY = "emergence.table5"
CHANGES = (
    own.changed("RF", times=30.0, only="n=25000"),
    own.changed("NTK", times=1 / 3, only="n=25000"),
    own.changed("RF", own.WIDER, only="n=10000", m=300),
    own.changed("NTK", times=10.0, only="n=10000"),
    own.changed("Network", own.WIDER, only="n=10000", m=300),
    own.kept(7.3, only="n=10000"),
    own.changed("NTK", times=30.0, only="n=10000"),
)


@dataclass(frozen=True, kw_only=True)
class Config(Common):
    """Table A.5: sample size."""

    n: tuple[int, ...] = (25000, 10000)
    """Training samples."""
    m: tuple[int, ...] = (300, 50)
    """Mirrored pairs of neurons for each n (2m neurons); one number serves all."""
    d: int = 500
    """Input dimension, at least D."""
    k: int = 5
    """Relevant patterns, odd."""
    p_o: float = 0.5
    """Chance that a background pattern is present, in (0, 1/2]; also the weight of the fair component."""
    steps: int = 600
    """Gradient steps of every method."""
    # chosen by emergence/rates, setting "few samples"; the help of each is that of Common
    rate_ntk: float = 1.0
    rate_linear: float = 0.3
    rate_own: float = 30.0
    rate_kept: float = 0.0333

    def __post_init__(self) -> None:
        if len(self.m) not in (1, len(self.n)):
            raise SettingError("m", self.m, f"one width, or one for each of n = {self.n}", "give as many as n")
        trials(self)


def overfits(config: Config) -> own.Change:
    """The sentence of E.2.3 on 10000 samples and 300 pairs of neurons, for a network that is trained by Adam."""

    def trial(s: Setting, alone: Setting, seed: int) -> list[own.Trial]:
        one = replace(own.bare(s), m=max(config.m))
        return [own.Memoriser(one, seed, config.width, config.rate_adam, f"{own.WIDER}, {own.ADAM}")] * (
            s.n == min(config.n)
        )

    return trial


def trials(config: Config) -> list[own.Trial]:
    """One trial per sample size and seed, with and without structure."""
    task = ParityMix(config.d, config.D, config.k, config.p_o)
    widths = config.m * len(config.n) if len(config.m) == 1 else config.m
    settings = [
        config.setting(f"n={n}", task, m=m, n=n, steps=config.steps) for n, m in zip(config.n, widths, strict=True)
    ]
    return own.trials_of(config, settings, (*CHANGES, overfits(config)))


EXPERIMENT = Experiment(
    id="emergence/table5",
    title="Parity labels: sample size",
    reproduces=(ENTRY, "emergence.figure13", "emergence.figure14"),
    Config=Config,
    presets={
        "smoke": Config(n=(1000, 500), m=(20, 10), d=30, D=20, k=3, n_test=500, batch=200, steps=20, seeds=(0, 1)),
        "small": Config(
            n=(10000, 5000), m=(100, 50), d=200, D=50, n_test=5000, batch=500, steps=300, seeds=(0, 1, 2), causes=False
        ),
        "paper": Config(),
    },
    trials=trials,
    run_trial=own.run_trial,
    summarise=lambda table: pictures.summarise(table, ENTRY),
    draw=lambda table: pictures.draw(table, ENTRY, ("emergence.figure13",), ("emergence.figure14",)),
    deviations=(
        *DEVIATIONS,
        Deviation(
            "full batches",
            reported="two steps on 50000 samples",
            ours="two steps on all n",
            why="there are only n samples",
        ),
    ),
    cost=own.cost,
    rows=TABLES[5],
)
