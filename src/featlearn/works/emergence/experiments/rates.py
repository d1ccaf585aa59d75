"""Choice of the settings that the rows of Tables A.1 to A.5 are tuned in, on seeds of 1000 and above.

The work lists no step sizes for its simulations. Every row is tuned on its own metric over a grid of 9 points: two
settings of it, 3 by 3, or the only one at 9 levels. `lab.selection.search` takes the middle of the points that are
within 0.1 points of the best; where this lies at an edge of the grid there is another level beyond it, or three on a
single axis, at most twice. The metric is accuracy on validation data, with the reported number of steps. Without
structure parity labels leave every validation accuracy at that of guessing, so Network is tuned for training accuracy
there, as the text says that it overfits. Two Step reads out the features of the network after its first two steps,
which the two rows share: their size is tuned in Two Step, and Network goes on from there. Not tuned: the size of the
first of them, small enough for lemma 19, and that of One Step + start, fitted to reported cosines.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from featlearn.core import Key, SettingError
from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import Cost, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.selection import Choice, search, select
from featlearn.learn import Stage, fit, fit_linear, fit_linearised
from featlearn.nets import TwoLayer, mirrored
from featlearn.report.plots import Picture, Series, curves
from featlearn.report.style import figure
from featlearn.tasks import Interval, ParityMix
from featlearn.works._settings import check_positive
from featlearn.works.emergence.experiments.own import adam, wide
from featlearn.works.emergence.experiments.pictures import without_reported
from featlearn.works.emergence.experiments.simulation import (
    RATES,
    Setting,
    accuracy,
    check_sizes,
    energy,
    features,
    normal_start,
    tangent_energy,
    two_steps,
)
from featlearn.works.emergence.rows import ALONE, KEPT, Point, Tuned

LINE = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
READ_OUT = (3.0, 30.0, 300.0)
LAYERS = ((0.01, 0.1, 1.0), (10.0, 100.0, 1000.0))
GRIDS: Mapping[Tuned, Mapping[str, tuple[float, ...]]] = {
    "Two Step": {"scale_2": (2.0, 8.0, 32.0), "rate_two": READ_OUT},
    "Network": dict(zip(("rate_w", "rate_a"), LAYERS, strict=True)),
    "One Step": {"scale_own": (0.01, 0.3, 10.0), "rate_own": READ_OUT},
    KEPT: {"rate_kept": LINE},
    "NTK": {"rate_ntk": LINE},
    "RF": {"rate_rf": LINE},
    "Linear": {"rate_linear": LINE},
}
MEMORY: Mapping[str, tuple[float, ...]] = {"width": (5.0, 10.0, 20.0), "rate_adam": (0.05, 0.1, 0.2)}
PLAIN: Mapping[str, tuple[float, ...]] = dict(zip(("rate_w_plain", "rate_a_plain"), LAYERS, strict=True))
"""Of Network without structure, on parity labels and on interval labels."""
COLUMNS = {"scale_2": "scale", "scale_own": "scale", "width": "width", "rate_w": "rate_w", "rate_w_plain": "rate_w"}
"""Setting -> column of Point; that of all others is `rate`."""
AXES = ("scale", "width", "rate_w", "rate")
EQUAL = 0.1
"""Points of accuracy within which means tie."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Choice of settings for parity (Tables A.1, A.3), interval labels (A.2), unbalanced (A.4), few samples (A.5)."""

    seeds: tuple[int, ...] = (1000, 1001)
    """Seeds of 1000 and above, so that no reported seed is used for choosing."""
    d: int = 500
    """Input dimension, at least D."""
    D: int = 100
    """Hidden patterns (dimension of the span of the data)."""
    n: int = 50000
    """Training samples."""
    n_test: int = 10000
    """Validation samples."""
    batch: int = 1000
    """Samples a minibatch step; the first two steps use all n."""
    m_parity: int = 300
    """Mirrored pairs of neurons, parity."""
    m_interval: int = 100
    """Mirrored pairs of neurons, interval labels."""
    negative_share: float = 0.9
    """Share of class -1, parity with unbalanced classes."""
    n_few: int = 10000
    """Training samples, parity with few samples."""
    m_few: int = 50
    """Mirrored pairs of neurons, parity with few samples."""
    scale_1: float = 3e-4
    """As in the tables."""
    scale_kept: float = 1.7
    """As in the tables."""
    steps_parity: int = 600
    """Gradient steps, parity."""
    steps_interval: int = 200
    """Gradient steps, interval labels."""

    def __post_init__(self) -> None:
        low = [s for s in self.seeds if s < 1000]
        if low:
            raise SettingError("seeds", low[0], "1000 or above", "smaller seeds are reported, not used for choosing")
        check_positive(self, "scale_1", "scale_kept")
        trials(self)


@dataclass(frozen=True)
class Trial:
    """The search for the settings of some rows, each of which may start from what the rows before it have."""

    setting: Setting
    rows: tuple[Tuned, ...]
    seeds: tuple[int, ...]


def trials(config: Config) -> list[Trial]:
    """One trial per task and row, Network beside Two Step."""
    c, parity = config, ParityMix(d=config.d, D=config.D)
    tasks: list[tuple[str, ParityMix | Interval, int, int, int]] = [
        ("parity", parity, c.m_parity, c.n, c.steps_parity),
        ("interval", Interval(d=c.d, D=c.D), c.m_interval, c.n, c.steps_interval),
        ("unbalanced", replace(parity, negative_share=c.negative_share), c.m_parity, c.n, c.steps_parity),
        ("few samples", parity, c.m_few, c.n_few, c.steps_parity),
    ]
    planned = []
    for name, task, m, n, steps in tasks:
        check_sizes(n=n, batch=c.batch, m=m, steps=steps, n_test=c.n_test, seeds=c.seeds)
        s = Setting(name, task, m, n, c.n_test, c.batch, steps, **dict.fromkeys(RATES, 0.0))
        shared: tuple[Tuned, ...] = ("Two Step", "Network")
        first = replace(s, scale_1=c.scale_1)
        if isinstance(task, ParityMix):
            planned += [Trial(first, shared, c.seeds), Trial(s, (ALONE,), c.seeds)]
        else:
            planned.append(Trial(first, (*shared, ALONE), c.seeds))
        planned.append(Trial(replace(s, scale_kept=c.scale_kept), (KEPT,), c.seeds))
        planned += [Trial(s, (row,), c.seeds) for row in GRIDS if row not in (*shared, KEPT)]
    return planned


def grid_of(setting: Setting, row: Tuned) -> Mapping[str, tuple[float, ...]]:
    """Levels of the settings that a row is tuned in."""
    if row == ALONE:
        return MEMORY if isinstance(setting.task, ParityMix) else PLAIN
    return GRIDS[row]


Scores = list[tuple[float | None, float]]
"""Training accuracy, where it is the metric, and validation accuracy of points."""


def run_trial(trial: Trial) -> TrialResult:
    """Every point of the grids, widened ones too, on each seed."""
    rows: list[Point] = []
    setting = trial.setting
    for row in trial.rows:
        grid = grid_of(setting, row)
        measure = measuring(setting, row, trial.seeds, rows)
        choice, _ = search(measure, grid, least=False, plateau=EQUAL, levels=1 if len(grid) > 1 else 3)
        if row == "Two Step":
            setting = replace(setting, scale_2=choice.point[0])
    return TrialResult(rows)


def measuring(
    setting: Setting, row: Tuned, seeds: Sequence[int], rows: list[Point]
) -> Callable[[Sequence[tuple[float, ...]]], Mapping[tuple[float, ...], list[float]]]:
    """Points of the grid of a row -> its metric on each seed; what was measured is added to `rows`."""
    names, runs = tuple(grid_of(setting, row)), [(seed, scorer(setting, row, seed)) for seed in seeds]

    def measure(points: Sequence[tuple[float, ...]]) -> Mapping[tuple[float, ...], list[float]]:
        out: dict[tuple[float, ...], list[float]] = {p: [] for p in points}
        for seed, score in runs:
            for point, (train_acc, val_acc) in zip(points, score(points), strict=True):
                at: dict[str, Any] = {COLUMNS.get(n, "rate"): v for n, v in zip(names, point, strict=True)}
                at |= {"setting": setting.name, "row": row, "seed": seed}
                rows.append(Point(**at, train_acc=train_acc, val_acc=val_acc))
                out[point].append(val_acc if train_acc is None else train_acc)
        return out

    return measure


def scorer(setting: Setting, row: Tuned, seed: int) -> Callable[[Sequence[tuple[float, ...]]], Scores]:
    """Accuracies of a row at points of its grid, on one seed."""
    s = replace(setting, task=replace(setting.task, structure=row != ALONE))
    key = Key("emergence/rates") / seed
    truth = s.task.draw(key / "truth")
    train, valid = s.task.sample(truth, s.n, key / "train"), s.task.sample(truth, s.n_test, key / "validation")
    half, _ = normal_start(s, truth, key / "start")
    budget: Any = {"steps": s.steps, "batch": s.batch}

    def each(scores: torch.Tensor) -> Scores:
        return [(None, accuracy(score, valid.y)) for score in scores.T]

    def linear(net: TwoLayer | None, rates: Sequence[float]) -> Scores:
        def of(x: torch.Tensor) -> torch.Tensor:
            return torch.cat([x, x.new_ones(len(x), 1)], 1) if net is None else features(net, x)

        seen = of(train.x)
        scaled = [r / energy(seen) for r in rates]
        return each(fit_linear(seen, train.y, scaled, key / "batches", **budget)(of(valid.x)))

    def stepped(steps: int, *, keep_init: bool = False, **scales: float) -> TwoLayer:
        scaled = replace(s, **scales)
        return two_steps(scaled, mirrored(half), truth, train, keep_init=keep_init, steps=steps)[-1]

    def read_out(points: Sequence[tuple[float, ...]]) -> Scores:
        found: dict[tuple[float, ...], tuple[float | None, float]] = {}
        for scale, group in itertools.groupby(points, lambda p: p[0]):
            here = list(group)
            net = stepped(1, scale_1=scale) if row == "One Step" else stepped(2, scale_2=scale)
            found |= dict(zip(here, linear(net, [p[1] for p in here]), strict=True))
        return [found[p] for p in points]

    def network(points: Sequence[tuple[float, ...]]) -> Scores:
        start, e = stepped(2), len(points)
        copies = TwoLayer(start.w.repeat(e, 1, 1), start.b.repeat(e, 1), start.a.repeat(e, 1), start.activation)
        unit = energy(features(start, train.x[:1000]))
        rate_w, rate_a = torch.tensor([w for w, _ in points]), torch.tensor([a / unit for _, a in points])
        stage = Stage(s.steps - 2, rate_w, rate_w, rate_a, batch=s.batch)
        return each(fit(copies, train.x, train.y, [stage], key / "batches").net(valid.x))

    def memory(points: Sequence[tuple[float, ...]]) -> Scores:
        found: Scores = []
        for width, rate in points:
            net = adam(wide(half, width), train, key / "batches", rate=rate, **budget)
            found.append((accuracy(net(train.x)[:, 0], train.y), accuracy(net(valid.x)[:, 0], valid.y)))
        return found

    def tangent(points: Sequence[tuple[float, ...]]) -> Scores:
        rates = [r / tangent_energy(half, train.x) for [r] in points]
        return each(fit_linearised(half, train.x, train.y, rates, key / "batches", **budget)(valid.x))

    if row in ("One Step", "Two Step"):
        return read_out
    if row == ALONE and isinstance(s.task, ParityMix):
        return memory
    if row in ("Network", ALONE):
        return network
    if row == "NTK":
        return tangent
    net = {"Linear": None, "RF": half}.get(row) if row != KEPT else stepped(1, keep_init=True)
    return lambda points: linear(net, [r for [r] in points])


@dataclass(frozen=True)
class Selected:
    """The settings of a row by name, how they were chosen, and from how many points."""

    settings: Mapping[str, float]
    choice: Choice
    points: int

    @property
    def words(self) -> str:
        """What a reader has to know of the choice."""
        if self.choice.tied:
            return f"chosen: all {self.points} points tie"
        edge = f", at the edge of {' and '.join(self.choice.at_edge)}" if self.choice.at_edge else ""
        return f"chosen from {self.points} points, {len(self.choice.plateau)} of which tie{edge}"


def chosen(table: Rows) -> Mapping[str, Mapping[Tuned, Selected]]:
    """Setting -> row -> what is selected from all points that were measured."""
    picked: dict[str, dict[Tuned, Selected]] = {}
    for (setting, row), part in table.of(Point).by("setting", "row").items():
        axes = tuple(a for a in AXES if getattr(part.rows[0], a) is not None)
        metric = "val_acc" if part.rows[0].train_acc is None else "train_acc"
        points = {p if isinstance(p, tuple) else (p,): list(t.column(metric)) for p, t in part.by(*axes).items()}
        choice = select(points, axes, least=False, plateau=EQUAL)
        names = (MEMORY if "width" in axes else PLAIN) if row == ALONE else GRIDS[row]
        settings = dict(zip(names, choice.point, strict=True))
        picked.setdefault(setting, {})[row] = Selected(settings, choice, len(points))
    return picked


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Mean accuracy of every grid point, and the chosen settings."""
    shown = [
        {**r, "row": f"{r['row']}: {', '.join(f'{n}={r[n]:g}' for n in AXES if r[n] is not None)}"} for r in table.rows
    ]
    rows = without_reported(shown, {"val_acc": "%", "train_acc": "%"}, "")
    for setting, found in chosen(table).items():
        for row, selected in found.items():
            name = f"{row}, {selected.words}"
            metric = "train_acc" if row == ALONE and "width" in selected.settings else "val_acc"
            rows.append(SummaryRow.of(setting, name, metric, selected.choice.value, unit="%"))
            rows += [SummaryRow.of(setting, name, n, v) for n, v in selected.settings.items()]
    return rows


def draw(table: Rows) -> Mapping[str, Picture]:
    """Validation accuracy against the step size, for the methods with one rate."""
    settings = list(dict.fromkeys(r["setting"] for r in table.rows))
    if not settings:
        return {}
    fig = figure(10, 4.2)
    axes = fig.subplots(1, len(settings), squeeze=False, sharey=True)[0]
    for ax, setting in zip(axes, settings, strict=True):
        series = []
        for method in ("NTK", "RF", "Linear"):
            rows = [r for r in table.rows if r["setting"] == setting and r["row"] == method]
            found = estimates(rows, by=("rate",), metrics=("val_acc",))
            if found:
                series.append(Series(method, [e.group[0] for e in found], [e.value for e in found]))
        curves(ax, series, "step size x mean ||features||^2", "validation accuracy (%)", log="x", title=setting)
    return {
        "emergence.rates": Picture(fig, "Validation accuracy of the fixed-feature methods over their grid of rates.")
    }


def cost(trial: Trial) -> Cost:
    """Expected seconds from operations at about 30 Gflop/s on one core, with one widening."""
    s = trial.setting
    unit = 4 * s.task.D * s.m * len(trial.seeds)
    share = {"Network": 24.0, "NTK": 12.0, "Two Step": 3.0, "One Step": 3.0, ALONE: 24.0}
    work = sum(share.get(row, 0.5) * s.steps * s.batch + 14 * 8 * s.n for row in trial.rows)
    return Cost(1 + unit * work / 3e10, 600 + 2 * s.n * (s.task.D * 12 + 2 * s.m * 8) / 2**20)


EXPERIMENT = Experiment(
    id="emergence/rates",
    title="Choice of step sizes on validation data of other seeds",
    reproduces=(),
    Config=Config,
    presets={
        "smoke": Config(
            D=40,
            d=50,
            m_parity=10,
            m_interval=10,
            m_few=5,
            n=400,
            n_few=300,
            n_test=200,
            batch=100,
            steps_parity=6,
            steps_interval=6,
            seeds=(1000,),
        ),
        "small": Config(
            D=50,
            d=100,
            m_parity=50,
            m_interval=50,
            m_few=25,
            n=5000,
            n_few=2500,
            n_test=2000,
            batch=500,
            steps_parity=150,
        ),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    cost=cost,
    rows=(Point,),
)
