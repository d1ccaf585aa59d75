"""Choice of the rates used by the tables of the emergence work: validation accuracy on seeds of 1000 and above.

The work lists no step sizes for its simulations. For every method this experiment trains the whole grid on new draws
of task, data and start (seeds that no table uses), with the reported number of steps, and reports validation accuracy;
`chosen` picks the best mean, `chosen_own` that of the rows with settings of their own, and a test holds the defaults
of the tables to both.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from featlearn.core import Batch, Key, SettingError
from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import Cost, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.selection import Choice, select
from featlearn.learn import Stage, fit, fit_linear, fit_linearised
from featlearn.nets import TwoLayer, mirrored
from featlearn.report.plots import Picture, Series, curves
from featlearn.report.style import figure
from featlearn.tasks import Interval, ParityMix
from featlearn.works.emergence.experiments.own import adam, wide
from featlearn.works.emergence.experiments.pictures import without_reported
from featlearn.works.emergence.experiments.simulation import (
    RATES,
    Common,
    Setting,
    accuracy,
    check_rates,
    check_sizes,
    energy,
    features,
    normal_start,
    tangent_energy,
    two_steps,
)
from featlearn.works.emergence.rows import KEPT, Memory, Method, Point

WIDE = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STEP_1 = (3e-4, 1e-3, 3e-3, 2.0)  # three that keep the output under the margin, as lemma 19 asks, and a large one
WIDER = {"scale_1": (8.0, 32.0), "rate_one": WIDE}  # the best of One Step lay at the edge of its grid
WIDER_KEPT = (0.01, 0.03, 1000.0, 3000.0)  # two levels beyond each edge, at both of which One Step + start had a best
MEMORY = {"width": (5.0, 10.0, 20.0), "rate": (0.05, 0.1, 0.2)}  # of Adam
READ_OUT = ("rate_kept", "rate_two", "rate_one", "rate_ntk", "rate_rf", "rate_linear")
GRIDS: Mapping[Method, Mapping[str, tuple[float, ...]]] = {
    "Two Step": {"scale_1": STEP_1, "scale_2": (2.0, 4.0, 8.0, 16.0, 32.0), "rate_two": WIDE},
    "One Step": {"scale_1": STEP_1, "rate_one": WIDE},
    "Network": {"rate_w": (0.01, 0.1, 1.0), "rate_a": (30.0, 100.0, 300.0, 1000.0)},
    "NTK": {"rate_ntk": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)},
    "RF": {"rate_rf": WIDE},
    "Linear": {"rate_linear": WIDE},
}


@dataclass(frozen=True, kw_only=True)
class Config(Common):
    """Choice of rates for parity (Tables A.1, A.3), interval labels (A.2), unbalanced (A.4) and few samples (A.5)."""

    seeds: tuple[int, ...] = (1000, 1001)
    """Seeds of 1000 and above, so that no reported seed is used for choosing."""
    d: int = 500
    """Input dimension, at least D."""
    n: int = 50000
    """Training samples."""
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
    scale_2_interval: float = 32.0
    """scale_2 for interval labels (scale_2 itself is for parity); the grid of Network is trained at these scales."""
    scale_2_unbalanced: float = 4.0
    """The same for unbalanced classes."""
    scale_2_few: float = 8.0
    """The same for few samples."""
    steps_parity: int = 600
    """Gradient steps, parity."""
    steps_interval: int = 200
    """Gradient steps, interval labels."""

    def __post_init__(self) -> None:
        low = [s for s in self.seeds if s < 1000]
        if low:
            raise SettingError("seeds", low[0], "1000 or above", "smaller seeds are reported, not used for choosing")
        check_rates(self)
        trials(self)


def _scales_2(config: Config) -> tuple[float, ...]:
    return config.scale_2, config.scale_2_interval, config.scale_2_unbalanced, config.scale_2_few


@dataclass(frozen=True)
class Trial:
    """The whole grid of one method on one seed; grid: (rate, values) pairs."""

    setting: Setting
    method: Method
    seed: int
    grid: tuple[tuple[str, tuple[float, ...]], ...]


def trials(config: Config) -> list[Trial]:
    """One trial per task, method and seed."""
    parity = ParityMix(d=config.d, D=config.D)
    interval = Interval(d=config.d, D=config.D)
    settings = [
        config.setting("parity", parity, m=config.m_parity, n=config.n, steps=config.steps_parity),
        config.setting("interval", interval, m=config.m_interval, n=config.n, steps=config.steps_interval),
        config.setting(
            "unbalanced",
            replace(parity, negative_share=config.negative_share),
            m=config.m_parity,
            n=config.n,
            steps=config.steps_parity,
        ),
        config.setting("few samples", parity, m=config.m_few, n=config.n_few, steps=config.steps_parity),
    ]
    for s in settings:
        check_sizes(n=s.n, batch=s.batch, m=s.m, steps=s.steps, n_test=s.n_test, seeds=config.seeds)
    # a trial holds only the rates that its grid starts from, so that a new default recomputes nothing else
    bare = [replace(s, **dict.fromkeys(RATES, 0.0)) for s in settings]
    scales = [(config.scale_1, two) for two in _scales_2(config)]
    after = [replace(s, scale_1=one, scale_2=two) for s, (one, two) in zip(bare, scales, strict=True)]
    planned = [
        Trial(start if method == "Network" else s, method, seed, tuple(grid.items()))
        for s, start in zip(bare, after, strict=True)
        for method, grid in GRIDS.items()
        for seed in config.seeds
    ]
    kept = [replace(s, scale_kept=config.scale_kept) for s in bare]
    alone = [replace(s, task=replace(s.task, structure=False)) for s in bare if isinstance(s.task, ParityMix)]
    for seed in config.seeds:
        planned += [Trial(s, "One Step", seed, tuple(WIDER.items())) for s in bare]
        planned += [Trial(s, KEPT, seed, (("rate_kept", rates),)) for rates in (WIDE, WIDER_KEPT) for s in kept]
        planned += [Trial(s, "Network", seed, tuple(MEMORY.items())) for s in alone]
    return planned


def run_trial(trial: Trial) -> TrialResult:
    """Validation accuracy of every point of the grid."""
    s, task, key = trial.setting, trial.setting.task, Key("emergence/rates") / trial.seed
    truth = task.draw(key / "truth")
    train, valid = task.sample(truth, s.n, key / "train"), task.sample(truth, s.n_test, key / "validation")
    half, _ = normal_start(s, truth, key / "start")
    batches, grid = key / "batches", dict(trial.grid)
    rows: list[Point] = []

    def report(point: Mapping[str, float], score: torch.Tensor) -> None:
        values = {"rate" if name in READ_OUT else name: v for name, v in point.items()}
        base: Mapping[str, Any] = {"setting": s.name, "row": trial.method, "seed": trial.seed, **values}
        rows.append(Point(**base, val_acc=accuracy(score, valid.y)))

    def linear(net: TwoLayer | None, name: str, fixed: Mapping[str, float]) -> None:
        prepare = (lambda x: torch.cat([x, x.new_ones(len(x), 1)], 1)) if net is None else (lambda x: features(net, x))
        f = prepare(train.x)
        rates = [r / energy(f) for r in grid[name]]
        scores = fit_linear(f, train.y, rates, batches, steps=s.steps, batch=s.batch)(prepare(valid.x))
        for rate, score in zip(grid[name], scores.T, strict=True):
            report({**fixed, name: rate}, score)

    def after(steps: int, **scales: float) -> TwoLayer:
        return two_steps(replace(s, **scales), mirrored(half), truth, train, steps=steps)[-1]

    if not task.structure:
        return TrialResult(_memory(trial, half, train, valid))
    if trial.method == "Linear":
        linear(None, "rate_linear", {})
    elif trial.method == "RF":
        linear(half, "rate_rf", {})
    elif trial.method == "One Step":
        for scale in grid["scale_1"]:
            linear(after(1, scale_1=scale), "rate_one", {"scale_1": scale})
    elif trial.method == KEPT:
        linear(two_steps(s, mirrored(half), truth, train, keep_init=True, steps=1)[0], "rate_kept", {})
    elif trial.method == "Two Step":
        # step 2 starts from weights that step 1 replaced, so its gradient is one for all scales: take it once
        for one in grid["scale_1"]:
            unit_net = after(2, scale_1=one, scale_2=1.0)
            for two in grid["scale_2"]:
                net = replace(unit_net, w=unit_net.w * two)
                linear(net, "rate_two", {"scale_1": one, "scale_2": two})
    elif trial.method == "NTK":
        unit = tangent_energy(half, train.x)
        rates = [r / unit for r in grid["rate_ntk"]]
        scores = fit_linearised(half, train.x, train.y, rates, batches, steps=s.steps, batch=s.batch)(valid.x)
        for rate, score in zip(grid["rate_ntk"], scores.T, strict=True):
            report({"rate_ntk": rate}, score)
    else:
        points = list(itertools.product(grid["rate_w"], grid["rate_a"]))
        start, e = after(2), len(points)
        copies = TwoLayer(start.w.repeat(e, 1, 1), start.b.repeat(e, 1), start.a.repeat(e, 1), start.activation)
        unit = energy(features(start, train.x[:1000]))
        rate_w, rate_a = torch.tensor([w for w, _ in points]), torch.tensor([a / unit for _, a in points])
        trained = fit(
            copies, train.x, train.y, [Stage(s.steps - 2, rate_w, rate_w, rate_a, batch=s.batch)], batches
        ).net
        for (w, a), score in zip(points, trained(valid.x).T, strict=True):
            report({"rate_w": w, "rate_a": a}, score)
    return TrialResult(rows)


def _memory(trial: Trial, half: TwoLayer, train: Batch, valid: Batch) -> list[Memory]:
    s, rows = trial.setting, []
    key = Key("emergence/rates") / trial.seed / "batches"
    for width, rate in itertools.product(*dict(trial.grid).values()):
        net = adam(wide(half, width), train, key, rate=rate, steps=s.steps, batch=s.batch)
        on = [accuracy(net(d.x)[:, 0], d.y) for d in (train, valid)]
        base: Any = {"setting": s.name, "width": width, "rate": rate, "seed": trial.seed}
        rows.append(Memory(**base, train_acc=on[0], val_acc=on[1]))
    return rows


NAMES: Mapping[Any, tuple[str, ...]] = {
    "One Step": ("scale_own", "rate_own"),
    KEPT: ("rate_kept",),
    Memory: ("width", "rate_adam"),
}
"""What is chosen for the rows that have settings of their own."""
EQUAL = 0.1
"""Points by which accuracies may differ and tie; the middle of what ties with the best is taken."""


def chosen_own(table: Rows) -> Mapping[str, Mapping[Any, Choice]]:
    """Setting -> row -> choice for One Step and One Step + start by validation accuracy, for Network without structure
    (Memory) by training accuracy: its validation accuracy is that of guessing everywhere."""
    picked: dict[str, dict[Any, Choice]] = {}
    points, found = table.of(Point), table.of(Memory)
    for row, axes in (("One Step", ("scale_1", "rate")), (KEPT, ("rate",))):
        for setting, part in points.where(row=row).by("setting").items():
            grid = {k if isinstance(k, tuple) else (k,): list(p.column("val_acc")) for k, p in part.by(*axes).items()}
            picked.setdefault(setting, {})[row] = select(grid, axes, least=False, plateau=EQUAL)
    for setting, part in found.by("setting").items():
        grid = {k: list(p.column("train_acc")) for k, p in part.by("width", "rate").items()}
        picked[setting][Memory] = select(grid, ("width", "rate"), least=False, plateau=EQUAL)
    return picked


def chosen(table: Rows) -> Mapping[str, Mapping[str, float]]:
    """Setting -> the best rates by mean validation accuracy, averaged over a grid point and its neighbours.

    Averaging over neighbours keeps the choice off the edge of a plateau; remaining ties go to the smaller step. The
    scales of the first two steps are chosen for Two Step, and One Step takes its rate at the chosen scale_1.
    """
    picked: dict[str, dict[str, float]] = {}
    for method in GRIDS:  # Two Step comes first and fixes scale_1
        for setting in dict.fromkeys(r["setting"] for r in table.rows):
            found = picked.setdefault(setting, {})
            rows = [r for r in table.rows if r["setting"] == setting and r.get("row") == method]
            if method == "One Step":
                rows = [r for r in rows if r["scale_1"] == found["scale_1"]]
            if not rows:
                continue
            names = tuple(GRIDS[method])
            columns = ["rate" if name in READ_OUT else name for name in names]
            axes = [sorted({r[name] for r in rows}) for name in columns]
            seen: dict[tuple[int, ...], list[float]] = {}
            for r in rows:
                seen.setdefault(tuple(axis.index(r[n]) for n, axis in zip(columns, axes, strict=True)), []).append(
                    r["val_acc"]
                )
            means = {at: sum(v) / len(v) for at, v in seen.items()}

            def smoothed(at: tuple[int, ...], means: Mapping[tuple[int, ...], float] = means) -> float:
                near = [v for b, v in means.items() if all(abs(i - j) <= 1 for i, j in zip(at, b, strict=True))]
                return sum(near) / len(near)

            best = min(means, key=lambda at: (-round(smoothed(at), 6), at))
            found |= {n: axis[i] for n, axis, i in zip(names, axes, best, strict=True)}
    return picked


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Mean validation accuracy of every grid point, and the chosen rates."""
    axes = ("scale_1", "scale_2", "rate", "rate_w", "rate_a")
    points = [r for r in table.rows if r["kind"] == "point"]
    shown = [
        {**r, "row": f"{r['row']}: {', '.join(f'{n}={r[n]:g}' for n in axes if r[n] is not None)}"} for r in points
    ]
    rows = without_reported(shown, {"val_acc": "%"}, "")
    for setting, rates in chosen(table).items():
        for method, grid in GRIDS.items():
            ends = [n for n, levels in grid.items() if n in rates and rates[n] in (levels[0], levels[-1])]
            which = "One Step after the first step of Two Step" if method == "One Step" else method
            name = f"{which}, chosen{_at(ends)}"
            rows += [SummaryRow.of(setting, name, n, rates[n]) for n in grid if n in rates]
    for setting, choices in chosen_own(table).items():
        for of, choice in choices.items():
            metric, which = ("train_acc", "Network w/o structure") if of is Memory else ("val_acc", of)
            name = f"{which}, chosen{', all points tie' if choice.tied else _at(choice.at_edge)}"
            rows.append(SummaryRow.of(setting, name, metric, choice.value, unit="%"))
            settings = zip(NAMES[of], choice.point, strict=True)
            rows += [SummaryRow.of(setting, name, n, value) for n, value in settings]
    return rows


def _at(edge: Sequence[str]) -> str:
    """What a reader has to know of a choice at an edge of its grid."""
    return f", at the edge of {' and '.join(edge)}" * bool(edge)


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
            rows = [r for r in table.rows if r["setting"] == setting and r.get("row") == method]
            found = estimates(rows, by=("rate",), metrics=("val_acc",))
            if found:
                series.append(Series(method, [e.group[0] for e in found], [e.value for e in found]))
        curves(ax, series, "step size x mean ||features||^2", "validation accuracy (%)", log="x", title=setting)
    return {
        "emergence.rates": Picture(fig, "Validation accuracy of the fixed-feature methods over their grid of rates.")
    }


def cost(trial: Trial) -> Cost:
    """Expected seconds from operations at about 30 Gflop/s on one core."""
    s, points = trial.setting, len(list(itertools.product(*(v for _, v in trial.grid))))
    unit = 4 * s.task.D * s.m
    share = {"Network": 2.0 * points, "NTK": 1.2 * points, "Two Step": 4, "One Step": 1}.get(trial.method, 0.5)
    passes = {"Two Step": 16 * 14, "One Step": 4 * 8}.get(trial.method, 8) * s.n
    return Cost(
        1 + unit * (share * s.steps * s.batch + passes) / 3e10, 400 + s.n * (s.task.D * 12 + 2 * s.m * 8) / 2**20
    )


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
    rows=(Point, Memory),
)
