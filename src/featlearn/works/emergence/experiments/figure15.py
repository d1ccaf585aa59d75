"""Hidden-representation labels: neurons gather along the first-order signal within two steps.

The work shows Figure 15 (A.11) for a relevant block that is one of 100 random bit vectors, 50 per label (d = 500,
D = 250, k = 50), as a picture without numbers. We report the share of neurons whose cosine with the direction of
E[y x] exceeds 0.9 in absolute value, at the start and after one and two full-batch steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from featlearn.core import Key
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.measure.alignment import closest_cosine, cosines
from featlearn.nets import TwoLayer, gaussian_init, mirrored
from featlearn.tasks import HiddenCodes
from featlearn.works.emergence.experiments.pictures import neuron_maps, without_reported
from featlearn.works.emergence.experiments.simulation import check_rates, check_sizes, first_steps, neuron_picture
from featlearn.works.emergence.rows import Codes

ENTRY = "emergence.figure15"
UNITS = {"share_init": "%", "share_step1": "%", "share_step2": "%", "cos": ""}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Figure 15 (A.11): hidden-representation labels."""

    d: int = 500
    """Input dimension, at least D."""
    D: int = 250
    """Hidden patterns."""
    k: int = 50
    """Relevant patterns (length of a code)."""
    per_class: int = 50
    """Random codes for each label."""
    m: int = 100
    """Mirrored pairs of neurons (2m neurons)."""
    n: int = 50000
    """Training samples, all used in both steps."""
    scale_1: float = 3e-4
    """First-layer step size of step 1, in units of st / (gamma sigma_a)."""
    scale_2: float = 2.0
    """First-layer step size of step 2, same units."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """One draw of task, data and start per seed."""

    def __post_init__(self) -> None:
        check_rates(self)
        trials(self)


@dataclass(frozen=True)
class Trial:
    """One seed."""

    task: HiddenCodes
    m: int
    n: int
    scale_1: float
    scale_2: float
    seed: int
    pictures: bool


def trials(config: Config) -> list[Trial]:
    """One trial per seed."""
    task = HiddenCodes(config.d, config.D, config.k, config.per_class)
    check_sizes(n=config.n, batch=1, m=config.m, steps=2, n_test=1, seeds=config.seeds)
    c = config
    return [Trial(task, c.m, c.n, c.scale_1, c.scale_2, seed, seed == c.seeds[0]) for seed in c.seeds]


def run_trial(trial: Trial) -> TrialResult:
    """Two full-batch steps; shares of neurons along the signal."""
    key, task = Key("emergence/figure15") / trial.seed, trial.task
    truth = task.draw(key / "truth")
    data = task.sample(truth, trial.n, key / "train")
    k, sigma_a = task.k, truth.scale**2 / (truth.gamma * task.k**2)
    half = gaussian_init(trial.m, task.D, key / "half", sigma_w=1 / k, sigma_b=1 / k**2, sigma_a=sigma_a)
    outside = torch.randn(trial.m, task.d - task.D, generator=(key / "outside").torch()).repeat(2, 1) / k
    start, unit = mirrored(half), truth.scale / (truth.gamma * sigma_a)
    one, two = first_steps(start, data, k=k, unit=unit, scales=(trial.scale_1, trial.scale_2))
    signal = truth.features[0]

    def share(net: TwoLayer, extra: torch.Tensor) -> float:
        cos = cosines(net.w, signal, extra.norm(dim=1)[None])
        return 100.0 * float((cos.abs() > 0.9).float().mean())

    none = 0 * outside
    row = Codes(
        seed=trial.seed,
        share_init=share(start, outside),
        share_step1=share(one, none),
        share_step2=share(two, none),
        cos=float(closest_cosine(two.w, signal)),
    )
    arrays = {}
    if trial.pictures:
        for name, net, extra in (("init", start, outside), ("step 1", one, none), ("step 2", two, none)):
            arrays |= neuron_picture(name, net, extra, signal, key / "mds" / name)
    return TrialResult([row], arrays)


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means over seeds; the paper has a picture only."""
    return without_reported([{**r, "row": "Network"} for r in table.rows], UNITS, ENTRY)


def draw(table: Rows) -> Mapping[str, object]:
    """The neurons of one seed."""
    return neuron_maps(table, (ENTRY,))


EXPERIMENT = Experiment(
    id="emergence/figure15",
    title="Hidden-representation labels: neurons after two steps",
    reproduces=(ENTRY,),
    Config=Config,
    presets={
        "smoke": Config(d=30, D=20, k=6, per_class=4, m=10, n=1000, seeds=(0, 1)),
        "small": Config(m=50, n=20000, seeds=(0, 1, 2)),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    rows=(Codes,),
    deviations=(
        Deviation(
            "m, n, rates", reported="not stated", ours="m = 100 pairs, n = 50000, scales as in Table A.1", why="needed"
        ),
        Deviation(
            "codes", reported="distribution of the vectors not stated", ours="fair bits", why="the plain reading"
        ),
        Deviation(
            "normalisation",
            reported="x = M phit",
            ours="x = (M phit - mean) / st as elsewhere",
            why="the start assumes it",
        ),
        Deviation(
            "ground truth", reported="direction of the stars not stated", ours="E[y x]", why="the first-order signal"
        ),
    ),
    cost=lambda trial: Cost(3 + 8 * 4 * trial.task.D * trial.m * trial.n / 3e10 + 5 * trial.pictures, 500),
)
