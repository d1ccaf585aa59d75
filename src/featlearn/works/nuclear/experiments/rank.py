"""Stable rank of held-out features and accuracy there, over the weight of the nuclear norm.

The work shows Figure 6.5 for photographs and a ResNet-50 of 2048 features: the stable rank falls with the weight, the
accuracy first rises and then falls. It does not say which form of the stable rank, whether features are centred, the
weights, the data or the seeds. Here: turned and coloured digits, a domain held out, the usual form raw and centred and
|F|_F^2 / |F|_2, which also falls with the scale of the features; Spearman's correlation of each with the weight.

All presets but `smoke` need `featlearn data fetch mnist`; `images="digits"` is bundled with scikit-learn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from featlearn.core import SettingError
from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.report import style
from featlearn.report.plots import Picture, Series, curves
from featlearn.works.nuclear.experiments.training import DigitsConfig, Trial, cost, needs, run, runs
from featlearn.works.nuclear.rows import RANK, RANKS, correlations, settings

ENTRIES = ("nuclear.fig6_5", "nuclear.def_stable_rank")


@dataclass(frozen=True, kw_only=True)
class Config(DigitsConfig):
    """Figure 6.5 on turned and coloured digits."""

    weights: tuple[float, ...] = (0.0, 0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    """Weights of the nuclear norm by the rows of a step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.weights) < 3:
            raise SettingError("weights", self.weights, "three or more", "a correlation of two says nothing")


def trials(config: Config) -> list[Trial]:
    """One trial per run of ERM with a weight."""
    return runs(config, ("erm",), {"erm": config.weights})


def run_trial(trial: Trial) -> TrialResult:
    """One run."""
    return run(trial)


def _within(metric: str, values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and interval, cut at what a percentage or a stable rank (1 in the usual form, 0 in the other) can be."""
    mean, low, high = interval(values)
    least = 1.0 if metric in ("rank", "rank_centred") else 0.0
    return mean, max(low, min(least, mean)), min(high, 100.0) if metric == "test" else high


def _erm(table: Rows) -> list[Mapping]:
    return [r for r in table.rows if r["row"] == "erm"]


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Stable ranks and accuracy by weight, and the correlation of each with the weight within seeds."""
    rows, out = _erm(table), []
    for setting in settings(rows):
        here = [r for r in rows if r["setting"] == setting]
        for weight in sorted({r["weight"] for r in here}):
            for metric in ("test", *RANKS):
                own = [(100 if metric == "test" else 1) * r[metric] for r in here if r["weight"] == weight]
                name, unit = ("test_acc", "%") if metric == "test" else (RANKS[metric], "")
                found = _within(metric, own)
                out.append(
                    SummaryRow(setting, f"weight {weight:g}", name, *found, len(own), entry=ENTRIES[0], unit=unit)
                )
        for metric, name in RANKS.items():
            found = correlations(here, metric)
            if found:
                entry = ENTRIES[1] if metric == "reported" else ENTRIES[0]
                mean, low, high = interval(found)
                low, high = max(low, -1.0), min(high, 1.0)
                out.append(
                    SummaryRow(
                        setting,
                        row="Spearman with the weight",
                        metric=name,
                        value=mean,
                        low=low,
                        high=high,
                        n=len(found),
                        entry=entry,
                    )
                )
    return out


def draw(table: Rows) -> Mapping[str, Picture]:
    """Figure 6.5: stable ranks above, accuracy below, one column per kind of data."""
    rows = _erm(table)
    names = settings(rows)
    if not names:
        return {}
    fig, data = style.figure(10, 7.6), []
    with style.applied(7.5):
        grid = fig.subplots(2, len(names), squeeze=False)
    for column, setting in zip(grid.T, names, strict=True):
        here = [r for r in rows if r["setting"] == setting]
        weights = sorted({r["weight"] for r in here})

        def line(
            metric: str, name: str, scale: float = 1.0, here: Any = here, weights: Any = weights, setting: Any = setting
        ) -> Series:
            points = [_within(metric, [scale * r[metric] for r in here if r["weight"] == w]) for w in weights]
            middle, low, high = map(list, zip(*points, strict=True))
            data.extend(
                {"setting": setting, "weight": w, "measure": name, "value": y}
                for w, y in zip(weights, middle, strict=True)
            )
            return Series(name, range(len(weights)), middle, low, high)

        shown = [line(m, RANKS[m]) for m in ("rank", "rank_centred")]
        curves(column[0], shown, "", "stable rank", title=setting)
        curves(column[1], [line("test", "accuracy", 100.0)], "weight of the nuclear norm", "OOD accuracy (%)")
        for axes in column:
            axes.set_xticks(range(len(weights)), [f"{w:g}" for w in weights], fontsize="small")
            if axes.get_legend() is not None:
                axes.get_legend().remove()
    with style.applied(7.5):
        fig.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        "Stable rank (usual form) of the features of the held-out domain, and accuracy there, over the weight of the "
        "nuclear norm; mean and 95 % interval over seeds and held-out domains."
    )
    return {ENTRIES[0]: Picture(fig, caption, data=data)}


EXPERIMENT = Experiment(
    id=RANK,
    title="Stable rank and accuracy out of distribution over the weight",
    reproduces=ENTRIES,
    Config=Config,
    presets={
        "smoke": Config(
            images="digits",
            rotated=("75",),
            colored=(),
            weights=(0.0, 0.1, 1.0),
            per_domain=60,
            size=8,
            width=8,
            steps=8,
            batch=8,
            rate=3e-3,
            evaluate_every=4,
            seeds=(0, 1),
        ),
        "small": Config(
            rotated=("75",),
            colored=("+90%",),
            weights=(0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0),
            per_domain=600,
            size=14,
            width=16,
            steps=200,
            batch=16,
            rate=3e-3,
            evaluate_every=20,
        ),
        "cpu": Config(
            rotated=("75",),
            colored=("+90%",),
            weights=(0.0, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0),
            per_domain=1000,
            size=14,
            width=16,
            steps=400,
            batch=16,
            rate=3e-3,
            evaluate_every=40,
        ),
        "paper": Config(device="cuda"),
    },
    trials=trials,
    run_trial=run_trial,
    needs=needs,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "data, network",
            reported="photographs, ResNet-50, 2048 features",
            ours="MNIST, four convolutions, 128 features (32 in small and cpu)",
            why="as in nuclear/digits",
        ),
        Deviation(
            "stable rank",
            reported="|M|_F^2 / |M|_2",
            ours="usual form |M|_F^2 / |M|_2^2, raw and centred; |M|_F^2 / |M|_2 beside it",
            why="a square may be missing in our copy; that form changes with the scale of the features",
        ),
        Deviation(
            "weight",
            reported="of the norm, or divided by the rows as in the code",
            ours="divided by the rows; rows of the table also have the weight of the norm itself",
            why="the batch is the same for all, so it is one grid",
        ),
        Deviation(
            "rows of the matrix",
            reported="not stated",
            ours="all images of the held-out domain",
            why="features in evaluation mode",
        ),
        Deviation("domains held out", reported="each in turn", ours="small and cpu: one of each kind", why="time"),
    ),
    cost=cost,
)
