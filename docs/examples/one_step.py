"""How many samples does one gradient step need to point at the hidden patterns?

An experiment of my own: run it with `featlearn run one_step.py`, sweep it with `--sweep k=3,5,7`.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from featlearn.core import Key
from featlearn.lab.experiment import Cost, Experiment, SummaryRow, TrialResult
from featlearn.lab.quantity import COSINE, COUNT, SEED
from featlearn.lab.row import Row
from featlearn.measure.alignment import closest_cosine
from featlearn.nets import gaussian_init, gradients
from featlearn.report.plots import Panel, Series, line_picture
from featlearn.tasks import ParityMix


@dataclass(frozen=True, kw_only=True)
class Step(Row):
    """Cosine of the best neuron with the hidden direction after one step from n samples."""

    experiment, key = "mine/one_step", ("n",)
    kind: Literal["step"] = "step"
    n: Annotated[int, COUNT]
    seed: Annotated[int, SEED]
    cos: Annotated[float, COSINE]


@dataclass(frozen=True)
class Config:
    D: int = 50
    """Hidden patterns."""
    k: int = 5
    """Relevant patterns, odd."""
    m: int = 64
    """Neurons."""
    sizes: tuple[int, ...] = (100, 300, 1000, 3000, 10000)
    """Samples behind the one gradient."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Repetitions with new data and new weights."""

    def __post_init__(self):
        ParityMix(self.D, self.D, self.k)  # refuses wrong settings in one line, before any work


@dataclass(frozen=True)
class Trial:
    D: int
    k: int
    m: int
    n: int
    seed: int


def trials(config):
    return [Trial(config.D, config.k, config.m, n, seed) for n in config.sizes for seed in config.seeds]


def run_trial(trial):
    key = Key("one_step") / trial.seed
    task = ParityMix(trial.D, trial.D, trial.k)
    truth = task.draw(key / "task")
    batch = task.sample(truth, trial.n, key / "data")
    net = gaussian_init(trial.m, trial.D, key / "net", sigma_w=0.01, sigma_b=0.01, sigma_a=0.01)
    first = gradients(net, batch.x, batch.y)
    cosine = closest_cosine(-first.w, truth.features[0])
    return TrialResult([Step(n=trial.n, seed=trial.seed, cos=float(cosine))])


def means(table):
    return {n: part.mean("cos") for n, part in table.of(Step).by("n").items()}  # over seeds


def summarise(table):
    return [SummaryRow.of(f"n = {n}", "one step", "cos", mean) for n, mean in means(table).items()]


def draw(table):
    panel = Panel([Series.of("one step", means(table))], "samples", "closest cosine", log="x")
    caption = "Cosine of the best neuron after one gradient step, with 95 % intervals over seeds."
    return {"samples": line_picture([panel], caption)}


EXPERIMENT = Experiment(
    id="mine/one_step",
    title="Samples behind one gradient step",
    reproduces=(),
    rows=(Step,),
    Config=Config,
    presets={
        "smoke": Config(D=20, k=3, m=8, sizes=(100, 1000), seeds=(0, 1)),
        "small": Config(),
        "paper": Config(D=100, m=300, sizes=(100, 1000, 10000, 100000), seeds=tuple(range(10))),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    cost=lambda trial: Cost(0.02 + 1e-9 * trial.n * trial.m * trial.D, 300.0 + 8e-6 * trial.n * (trial.m + trial.D)),
)
