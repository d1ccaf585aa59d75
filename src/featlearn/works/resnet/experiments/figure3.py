"""The same task with the base signal weighed down: beta F + 0.3 G(F) for the residual bottleneck network (Figure 3).

Criterion, unit and choice were fixed before any row: unit and choice as in `figure2`, the choice at each beta by
itself. The grid was not. That of `figure2` was too coarse and ended too early for a weak base signal: at beta = 0.5 it
held no setting that learns, while a seed that is not reported learned at a step size of 0.15 (all layers) and of 0.5
(hidden ones). Rows of it were thrown away; that of `cpu` here has the steps between and beyond.
The composite signal counts as learned where the median seed's test error is below k alpha^2 = 1.35, which is also what
the zero network has at beta = 0. beta = 1 and 0.5 should learn it, 0.2 and 0 not; 0.3, where both signals are of one
size, is reported and not judged. The claim on these rows judges the mean over seeds, with its interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from featlearn.core import SettingError
from featlearn.lab.experiment import Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.works._settings import check_counts, check_filled, check_ladders, check_positive, check_seeds
from featlearn.works.resnet.experiments import training
from featlearn.works.resnet.experiments.figure2 import check_batches
from featlearn.works.resnet.rows import FIGURE3, RESIDUAL, Trained, Weighted, at_chosen, chosen, median_seed, test_error

ENTRY = "resnet.figure3"


@dataclass(frozen=True, kw_only=True)
class Config:
    """The residual bottleneck network on beta F + alpha G(F)."""

    betas: tuple[float, ...] = (0.0, 0.2, 0.3, 0.5, 1.0)
    """Weights of the base signal."""
    trained: tuple[Trained, ...] = ("all",)
    """What is trained: all layers or the hidden ones, these on twice the samples."""
    m: int = 200
    """Width."""
    n: int = 500
    """Training samples, a multiple of the batch of 50."""
    alpha: float = 0.3
    """Weight of the composite signal."""
    rates: tuple[float, ...] = (0.05, 0.1, 0.2)
    """Step sizes."""
    decays: tuple[float, ...] = (0.002, 0.005, 0.01)
    """Weight decays."""
    epochs: int = 800
    """Epochs; the step size falls to a tenth in the middle."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Samples, a start and an order of minibatches each."""
    device: str = "cpu"
    """cpu or cuda."""

    def __post_init__(self) -> None:
        check_filled(self, "trained")
        check_ladders(self, "rates", "decays")
        check_counts(self, "epochs", "m")
        check_positive(self, "alpha")
        check_seeds(self.seeds)
        check_batches(self.n)
        if not self.betas or list(self.betas) != sorted(set(self.betas)) or self.betas[0] < 0:
            raise SettingError("betas", self.betas, "ascending weights of at least 0", "0,0.2,0.3,0.5,1 are reported")
        if "layer by layer" in self.trained:
            raise SettingError("trained", "layer by layer", "all or hidden", "resnet/figure2 trains layer by layer")


def trials(config: Config) -> list[training.Trial]:
    """One trial per weight, part that is trained and seed."""
    c = config
    return [
        training.Trial(
            wiring=RESIDUAL,
            trained=trained,
            n=2 * c.n if trained == "hidden" else c.n,
            m=c.m,
            alpha=c.alpha,
            beta=beta,
            rates=c.rates,
            decays=c.decays,
            epochs=c.epochs,
            seed=seed,
            device=c.device,
        )
        for trained in c.trained
        for beta in c.betas
        for seed in c.seeds
    ]


def run_trial(trial: training.Trial) -> TrialResult:
    """Train every point of the grid."""
    return TrialResult(training.runs(trial, training.train(trial), Weighted))


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """The test error of the mean and of the median seed, and the setting."""
    out: list[SummaryRow] = []
    for (trained, beta), part in table.of(Weighted).by("trained", "beta").items():
        row, choice = f"beta = {beta:g}", chosen(part)
        if all(r.test is not None for r in at_chosen(part).rows):
            out.append(SummaryRow.of(trained, row, "test error", test_error(part), entry=ENTRY))
        out.append(SummaryRow.of(trained, row, "test error of the median seed", median_seed(part), entry=ENTRY))
        for name, value in zip(("step size", "weight decay"), choice.point, strict=True):
            out.append(SummaryRow.of(trained, row, name, value, entry=ENTRY))
        out.append(SummaryRow.of(trained, row, "of these at an edge", float(len(choice.at_edge)), entry=ENTRY))
        best = min((r.test for r in part.rows if r.test is not None), default=math.inf)
        out.append(SummaryRow.of(trained, row, "best of all runs", best, entry=ENTRY))
    return out


def draw(table: Rows) -> Mapping[str, Picture]:
    """Test errors over the weight of the base signal."""
    runs = table.of(Weighted)
    if not len(runs):
        return {}
    lines = []
    for trained, part in runs.by("trained").items():
        found = {
            beta: test_error(here)
            for beta, here in part.by("beta").items()
            if all(r.test is not None for r in at_chosen(here).rows)
        }
        lines.append(Series.of(f"trained: {trained}", found))
    betas = sorted({r.beta for r in runs.rows})
    lines.append(Series.of("k alpha^2", dict.fromkeys(betas, runs.rows[0].threshold)))
    caption = "Test error of the residual bottleneck network at the setting that validation chooses."
    return {ENTRY: line_picture([Panel(lines, "weight of the base signal", "test error", log="y")], caption)}


EXPERIMENT = Experiment(
    id=FIGURE3,
    title="Parities of parities whose base signal is weak",
    reproduces=(ENTRY,),
    rows=(Weighted,),
    Config=Config,
    presets={
        "smoke": Config(betas=(0.0, 1.0), m=20, n=100, rates=(0.05, 0.1), decays=(0.005,), epochs=2, seeds=(0, 1)),
        "small": Config(betas=(0.0, 0.2, 0.5, 1.0), decays=(0.002, 0.005)),
        "cpu": Config(
            trained=("all", "hidden"),
            rates=(0.05, 0.1, 0.15, 0.2, 0.5, 1.0),
            decays=(0.0005, 0.001, 0.002, 0.003, 0.005, 0.01),
            seeds=(0, 1, 2, 3, 4),
        ),
        "paper": Config(
            trained=("all", "hidden"),
            m=2000,
            decays=(0.001, 0.002, 0.005, 0.01, 0.02),
            seeds=(0, 1, 2, 3, 4),
            device="cuda",
        ),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation("samples", reported="not given", ours="500, and 1000 for hidden layers", why="as in Figure 2"),
        Deviation("width", reported="20 to what 16 GB hold", ours="200", why="two cores; Figure 2 learns at 200"),
        Deviation(
            "grid",
            reported="1, 2, 5 times powers of ten, of unknown range",
            ours="three step sizes and three weight decays, six at cpu, chosen after rows of another",
            why="two cores",
        ),
        Deviation(
            "choice",
            reported="by test error",
            ours="by 500 samples a seed that are not tested on, one setting for all seeds",
            why="the test error should not choose",
        ),
    ),
    cost=training.cost,
)
