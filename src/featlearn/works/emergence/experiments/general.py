"""The general setting: incoherent dictionary, input noise and unbalanced classes, with class-weighted first steps.

The work proves (theorem 34, A.28) that the same schedule learns there; it reports no simulation. We train the network
on parity labels with a share 0.8 of class -1, input noise, and two dictionaries: unit columns of equal coherence 1/(16
D), the largest that the theory admits, and random unit columns, whose coherence lies far above it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from featlearn.core import Key
from featlearn.lab.experiment import Cost, Experiment, Rows, SummaryRow, TrialResult
from featlearn.learn import Stage, fit
from featlearn.measure.alignment import closest_cosine
from featlearn.nets import gaussian_init, mirrored
from featlearn.report.plots import Picture, bars_against_reported
from featlearn.report.style import figure
from featlearn.tasks import ParityMix
from featlearn.works.emergence.experiments.pictures import without_reported
from featlearn.works.emergence.experiments.simulation import (
    accuracy,
    check_rates,
    check_sizes,
    energy,
    features,
    first_steps,
)
from featlearn.works.emergence.rows import General

ENTRY = "emergence.theorem34"
UNITS = {"train_acc": "%", "test_acc": "%", "cos": ""}


@dataclass(frozen=True, kw_only=True)
class Config:
    """The general setting."""

    dictionaries: tuple[str, ...] = ("tilted", "incoherent")
    """Dictionaries: tilted (coherence 1/(16 D)) or incoherent (random unit columns)."""
    d: int = 500
    """Input dimension."""
    D: int = 50
    """Hidden patterns."""
    k: int = 5
    """Relevant patterns, odd."""
    negative_share: float = 0.8
    """Share of class -1."""
    sigma_z: float = 0.05
    """Standard deviation of the input noise before normalisation."""
    m: int = 200
    """Mirrored pairs of neurons (2m neurons)."""
    n: int = 30000
    """Training samples."""
    n_test: int = 10000
    """New samples for test accuracy."""
    steps: int = 600
    """Gradient steps, the first two on all samples."""
    batch: int = 1000
    """Samples a minibatch step."""
    scale_1: float = 3e-4
    """First-layer step size of step 1, in units of st / (gamma sigma_a)."""
    scale_2: float = 2.0
    """First-layer step size of step 2, same units."""
    rate_w: float = 0.01
    """First-layer step size of the minibatch steps."""
    rate_a: float = 30.0
    """Second-layer step size of the minibatch steps, in units of 1 / mean ||features||^2 after two steps."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """One draw of task, data and start per seed."""

    def __post_init__(self) -> None:
        check_rates(self)
        trials(self)


@dataclass(frozen=True)
class Trial:
    """One seed with one dictionary."""

    task: ParityMix
    m: int
    n: int
    n_test: int
    steps: int
    batch: int
    scales: tuple[float, float]
    rates: tuple[float, float]
    seed: int


def trials(config: Config) -> list[Trial]:
    """One trial per seed and dictionary."""
    c = config
    check_sizes(n=c.n, batch=c.batch, m=c.m, steps=c.steps, n_test=c.n_test, seeds=c.seeds)
    tasks = [
        ParityMix(c.d, c.D, c.k, negative_share=c.negative_share, coordinates=name, sigma_z=c.sigma_z)
        for name in c.dictionaries
    ]
    sizes = (c.m, c.n, c.n_test, c.steps, c.batch, (c.scale_1, c.scale_2), (c.rate_w, c.rate_a))
    return [Trial(task, *sizes, seed) for seed in c.seeds for task in tasks]


def run_trial(trial: Trial) -> TrialResult:
    """Train the network through the whole schedule."""
    task, key = trial.task, Key("emergence/general") / trial.seed
    truth = task.draw(key / "truth")
    train, test = task.sample(truth, trial.n, key / "train"), task.sample(truth, trial.n_test, key / "test")
    k, sigma_a = task.k, truth.scale**2 / (truth.gamma * task.k**2)
    half = gaussian_init(trial.m, task.d, key / "start", sigma_w=1 / k, sigma_b=1 / k**2, sigma_a=sigma_a)
    unit = truth.scale / (truth.gamma * sigma_a)
    two = first_steps(mirrored(half), train, k=k, unit=unit, scales=trial.scales)[-1]
    rate_w, rate_a = trial.rates[0], trial.rates[1] / energy(features(two, train.x[:1000]))
    stage = Stage(trial.steps - 2, rate_w, rate_w, rate_a, batch=trial.batch)
    net = fit(two, train.x, train.y, [stage], key / "batches").net
    row = General(
        setting=cast(Any, task.coordinates),
        seed=trial.seed,
        train_acc=accuracy(net(train.x)[:, 0], train.y),
        test_acc=accuracy(net(test.x)[:, 0], test.y),
        cos=float(closest_cosine(net.w, truth.features[0])),
    )
    return TrialResult([row])


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means over seeds; the work reports no numbers for this setting."""
    return without_reported([{**r, "row": "Network"} for r in table.rows], UNITS, ENTRY)


def draw(table: Rows) -> Mapping[str, Picture]:
    """Test accuracy by dictionary."""
    rows = [r for r in summarise(table) if r.metric == "test_acc"]
    if not rows:
        return {}
    fig = figure(8, 2.4)
    bars_against_reported(fig, rows, "test_acc", label="test accuracy (%)", xlim=(0, 100), baseline=80)
    return {ENTRY: Picture(fig, "Test accuracy in the general setting; the dotted line answers -1 always.")}


EXPERIMENT = Experiment(
    id="emergence/general",
    title="The general setting: incoherent dictionary, noise, imbalance",
    reproduces=(ENTRY, "emergence.definition_general"),
    Config=Config,
    presets={
        "smoke": Config(d=40, D=20, k=3, m=10, n=1000, n_test=500, batch=200, steps=20, seeds=(0, 1)),
        "small": Config(d=200, D=30, m=100, n=10000, n_test=5000, batch=500, steps=300, seeds=(0, 1, 2)),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    rows=(General,),
    cost=lambda trial: Cost(
        2 + 4 * trial.task.d * trial.m * (2 * trial.steps * trial.batch + 14 * trial.n) / 3e10,
        400 + trial.n * (trial.task.d * 12 + trial.m * 16) / 2**20,
    ),
)
