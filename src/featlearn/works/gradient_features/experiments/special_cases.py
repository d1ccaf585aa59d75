"""The special cases of the gradient-feature framework: each network trained by its reported algorithm.

The work proves that gradient descent comes close to the best network on gradient features and shows no run. Here
every special case is trained (Algorithm 1; Algorithm 6 for the uniform parity, Algorithm 7 for multi-index regression),
beside the best network on the true features at its reported budget, the network after its first step alone, and the
best second layer on the first layer of the start. Also measured: which neurons the first step sends into cones of true
features, whether a true feature (and not its rival) is in the gradient-feature set, and the family learned over time,
on a mixture whose pairs of clusters have different probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from featlearn.core import Batch, Key, SettingError
from featlearn.lab.estimate import VALIDATION, estimates, interval
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.learn.framework import forgetful_step
from featlearn.report import style
from featlearn.report.plots import Picture, Series, curves
from featlearn.works._settings import check_counts, check_validation_seeds
from featlearn.works.gradient_features.experiments import special
from featlearn.works.gradient_features.experiments.special import Trial
from featlearn.works.gradient_features.rows import (
    BEST,
    CASES,
    FIRST,
    FIXED,
    GAMMAS,
    LINEAR,
    MIXTURE,
    MULTI,
    NETWORK,
    NEURONS,
    OPPOSITE,
    PARITY,
    SHARES,
    SKEWED,
    SPECIAL,
    TIME,
    UNIFORM,
    XOR,
    Course,
    Neurons,
    Reference,
    Trained,
    chosen,
    reported,
    settings,
)

ENTRY = {
    LINEAR: "gradient_features.theorem_b27",
    MIXTURE: "gradient_features.theorem3_18",
    OPPOSITE: "gradient_features.theorem3_18",
    SKEWED: "gradient_features.theorem3_18",
    XOR: "gradient_features.theorem_b42",
    PARITY: "gradient_features.theorem3_22",
    UNIFORM: "gradient_features.theorem_b56",
    MULTI: "gradient_features.theorem_b69",
}
ENTRIES = (*dict.fromkeys(ENTRY.values()), "gradient_features.theorem3_12")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Networks of every special case, at several step sizes."""

    cases: tuple[str, ...] = CASES
    """Which cases."""
    xor_d: tuple[int, ...] = (50, 100, 200, 400)
    """Dimensions of the XOR mixture."""
    width_xor: float = 4.0
    """C of m = C log d on the XOR mixture."""
    samples_xor: float = 8.0
    """C of n = C d^1.5, half of it for the first step."""
    xor_steps: int = 100
    """Later steps on it, whatever d."""
    clusters: tuple[int, ...] = (4, 6, 8)
    """Numbers of clusters of the mixture."""
    k: tuple[int, ...] = (5, 7, 9)
    """Sizes of the block of the structured parity, odd."""
    parity_steps: tuple[int, ...] = (3000, 10_000, 60_000)
    """Steps for every k."""
    uniform_d: tuple[int, ...] = (51, 101)
    """Dimensions of the uniform parity, odd."""
    uniform_steps: int = 300
    """Its steps on the second layer."""
    d: int = 100
    """Dimension of linear data, mixtures of clusters and the structured parity."""
    multi_d: int = 50
    """Dimension of the multi-index task."""
    multi_n: int = 50_000
    """Its samples."""
    multi_m: int = 125
    """Its m, a quarter of its neurons."""
    first: int = 10_000
    """Samples of the first step, twice as many for the structured parity and unequal clusters."""
    steps: int = 400
    """Later steps on linear data and mixtures, twice as many for unequal clusters."""
    n_test: int = 4000
    """Test samples."""
    draws: int = 2000
    """Neurons drawn to estimate membership in the gradient-feature set, half of each bias sign."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Reported seeds, below 1000: one task, start, training and test set each."""
    validation_seeds: tuple[int, ...] = (1000, 1001)
    """Validation seeds: they choose the step size, 1000 and above."""

    def __post_init__(self) -> None:
        if not self.cases or any(c not in CASES for c in self.cases):
            raise SettingError("cases", self.cases, "some of " + ", ".join(CASES), "leave it out for all")
        check_counts(self, "first", "steps", "xor_steps", "uniform_steps", "d", "multi_d", "multi_n", "multi_m")
        check_counts(self, "n_test", "draws")
        if any(k % 2 == 0 or not 3 <= k <= self.d // 3 for k in self.k):
            raise SettingError("k", self.k, f"odd, 3 to d/3 = {self.d // 3}", "5 7 9 is the default")
        if any(d % 2 == 0 or d < 9 for d in self.uniform_d):
            raise SettingError("uniform_d", self.uniform_d, "odd and at least 9", "majority needs d odd; try 51")
        if any(r < 4 or r % 2 for r in self.clusters):
            raise SettingError("clusters", self.clusters, "even, at least 4", "classes have equal probability")
        if min(self.xor_d, default=0) < 10:
            raise SettingError("xor_d", self.xor_d, "one or more dimensions of at least 10", "50 100 200 400")
        if len(self.parity_steps) != len(self.k) or min(self.parity_steps, default=1) < 1:
            raise SettingError(
                "parity_steps", self.parity_steps, f"one number of steps for each k of {self.k}", "match"
            )
        for field in ("width_xor", "samples_xor"):
            if not getattr(self, field) >= 1:
                raise SettingError(field, getattr(self, field), "at least 1", "see the default")
        check_validation_seeds(self.seeds, self.validation_seeds)


def _plans(c: Config) -> list[Trial]:
    """Every setting once, at seed 0."""
    plans = []

    def plan(case: str, name: str, d: int, **other: Any) -> None:
        fields = {
            "r": 0,
            "k": 0,
            "level": 1.0,
            "ratio": 4.0,
            "eta_1": 0.02,
            "steps": c.steps,
            "batch": 100,
            "etas": (0.003, 0.01, 0.03),
            "first": c.first,
            "m": 40,
            **other,
        }
        if case in c.cases:
            plans.append(Trial(case, name, d, seed=0, n_test=c.n_test, draws=c.draws, **fields))

    plan(LINEAR, "", c.d, m=10, level=0.5, eta_1=0.01)
    for r in c.clusters:
        plan(MIXTURE, f"r = {r}", c.d, r=r)
    for r in c.clusters:
        if r % 4 == 0 and r > 4:
            plan(OPPOSITE, f"r = {r}", c.d, r=r)
    plan(SKEWED, "r = 8", c.d, r=8, m=60, first=2 * c.first, steps=2 * c.steps, etas=(0.0003, 0.001, 0.003))
    for d in c.xor_d:
        half = round(c.samples_xor * d**1.5 / 2)
        plan(
            XOR,
            f"d = {d}",
            d,
            r=4,
            m=round(c.width_xor * float(np.log(d))),
            eta_1=0.05,
            first=half,
            steps=c.xor_steps,
            batch=max(1, half // c.xor_steps),
            etas=(0.003, 0.01, 0.03, 0.1),
        )
    for k, steps in zip(c.k, c.parity_steps, strict=True):
        # one step size where a run takes a minute: the middle one, best or nearly so for smaller k
        etas = (0.015, 0.03, 0.06) if k < 9 else (0.03,)
        plan(PARITY, f"k = {k}", c.d, r=1, k=k, m=125, ratio=1.5, first=2 * c.first, steps=steps, batch=50, etas=etas)
    for d in c.uniform_d:
        plan(
            UNIFORM,
            f"d = {d}",
            d,
            r=1,
            k=2,
            m=24,
            first=c.first * (2 if d > 51 else 1),
            steps=c.uniform_steps,
            etas=(1 / (24 * d * d), 0.1, 0.3, 1.0),
        )
    plan(
        MULTI,
        f"n = {c.multi_n}",
        c.multi_d,
        r=2,
        m=c.multi_m,
        first=c.multi_n,
        etas=(5.0, 10.0, 20.0),
        steps=round((4 * c.multi_m) ** 2 / special.MULTI_EPS),
    )
    return [replace(p, eta_1=special.first_rate(p)) if p.case == UNIFORM else p for p in plans]


def trials(config: Config) -> list[Trial]:
    """One trial per setting and seed, validation seeds as well as reported ones."""
    return [replace(p, seed=seed) for p in _plans(config) for seed in (*config.validation_seeds, *config.seeds)]


def run_trial(trial: Trial) -> TrialResult:
    """Train at every step size; rows of the network, what it is compared with, its neurons, and its course."""
    key = Key(SPECIAL) / trial.case / trial.name / trial.seed
    task: Any = special.task_of(trial)
    truth = task.draw(key / "truth")
    first = task.sample(truth, trial.first, key / "first")
    test = task.sample(truth, trial.n_test, key / "test")
    setting = f"{trial.case}, {trial.name}" if trial.name else trial.case
    base = {
        "case": trial.case,
        "setting": setting,
        "d": trial.d,
        "r": trial.r,
        "k": trial.k,
        "m": trial.m,
        "seed": trial.seed,
        "role": "validation" if trial.seed >= VALIDATION else "reported",
    }
    best = special.best_of(trial, truth, test)
    if trial.case == MULTI:
        rows, one = _regression(trial, key, first, test, truth, base, best.loss)
        return TrialResult(
            [
                *rows,
                Reference(**base, row=BEST, loss=best.loss, lower=best.lower),
                Neurons(**base, **special.neurons(trial, truth, one, first, key)),
            ]
        )
    net = special.start_of(trial, trial.m, key / "start")
    one = forgetful_step(net, first.x, first.y, trial.eta_1)
    # Algorithm 6 keeps its one sample; Algorithm 1 sees new ones
    rest = first if trial.case == UNIFORM else task.sample(truth, min(trial.steps * trial.batch, 400_000), key / "rest")
    rows: list[Any] = [Neurons(**base, **special.neurons(trial, truth, one, first, key))]
    used = Batch(torch.cat([first.x, rest.x])[:20_000], torch.cat([first.y, rest.y])[:20_000])
    error, _ = special.error_of(special.frozen(net.w[0], net.b[0], used, test), test.y.double())
    rows.append(Reference(**base, row=FIXED, error=error))
    error, loss = special.error_of(one(test.x)[:, 0], test.y)
    rows.append(Reference(**base, row=FIRST, error=error, loss=loss))
    rows.append(Reference(**base, row=BEST, loss=best.loss, lower=best.lower))
    arrays = {"start": special.plane(net, truth), "first": special.plane(one, truth)} if trial.case == XOR else {}
    for found in special.train(trial, net, one, first, rest, test, truth, key):
        row = {**base, "eta": found.eta, "steps": trial.steps, "batch": trial.batch}
        if found.net is None:
            rows.append(Trained(**row))
            continue
        evaluations = [
            dict(zip(special.EVALUATED, v, strict=False)) | {"margins": v[7:]} for v in found.evaluations.tolist()
        ]
        end = evaluations[-1]
        rows.append(
            Trained(
                **row,
                error=end["error"],
                loss=end["loss"],
                gap=end["loss"] - best.loss,
                moved=end["moved"],
                used=end["used"],
            )
        )
        for step, evaluation in zip(found.steps, evaluations, strict=True):
            margins = (
                {f"margin_{i}": v for i, v in enumerate(evaluation.pop("margins"))} if trial.case == SKEWED else {}
            )
            evaluation.pop("margins", None)
            rows.append(Course(**base, eta=found.eta, step=step, **evaluation, **margins))
        if arrays:
            arrays[f"end {found.eta:g}"] = special.plane(found.net, truth)
    return TrialResult(rows, arrays)


def _regression(
    trial: Trial, key: Key, train: Any, test: Any, truth: Any, base: Any, best: Any
) -> tuple[list[Any], Any]:
    """Rows of Algorithm 7 at every first step size, and the network after the first of these steps."""
    rows, kept = [], None
    for eta, one, errors in special.regression(trial, key, train, test):
        kept = kept or one
        own, other = errors["own"], errors["other"]
        span = special.in_span(one, truth)
        row = {**base, "eta": eta, "steps": trial.steps}
        rows.append(Trained(**row, loss=own[-1], gap=own[-1] - best, span=span))
        rows.append(Reference(**row, row=FIXED, loss=other[-1]))
        rows += [Course(**row, step=t, loss=v) for t, v in zip(special.times(trial.steps), own, strict=True)]
    return rows, kept


METRICS = {
    NETWORK: ("error", "loss", "gap", "moved", "used", "span"),
    FIXED: ("error", "loss"),
    FIRST: ("error", "loss"),
    BEST: ("loss",),
    NEURONS: (*(f"cone_{round(100 * g)}" for g in GAMMAS), "slack", "member", "rival"),
}
UNITS = {"error": "%", "span": "%", "member": "%", "rival": "%", **{f"cone_{round(100 * g)}": "%" for g in GAMMAS}}


def _all_settings(table: Rows) -> list[str]:
    return [s for case in CASES for s in settings(table, case)]


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Every setting at its chosen step size: the network and what it is compared with, its neurons, and membership."""
    out = []
    for setting in _all_settings(table):
        for row, metrics in METRICS.items():
            rows = reported(table, setting, row)
            entry = ENTRY[rows[0]["case"]] if rows else ""
            out += [
                SummaryRow(
                    setting,
                    row=row,
                    metric=e.metric,
                    value=e.value,
                    low=e.low,
                    high=e.high,
                    n=e.n,
                    entry=entry,
                    unit=UNITS.get(e.metric, ""),
                )
                for e in estimates(rows, metrics=metrics)
            ]
        eta = chosen(table, setting)
        assert eta is not None
        out.append(SummaryRow(setting, row=NETWORK, metric="chosen step size", value=eta, low=eta, high=eta, n=1))
    return out


def _xor_errors(table: Rows) -> list[Series]:
    series = []
    for row in (NETWORK, FIRST, FIXED):
        x, y, low, high = [], [], [], []
        for setting in settings(table, XOR):
            rows = [r for r in reported(table, setting, row) if r["error"] is not None]
            if rows:
                mean, a, b = interval([r["error"] for r in rows])
                x, y, low, high = [*x, rows[0]["d"]], [*y, mean], [*low, max(a, 0.0)], [*high, b]
        if x:
            series.append(Series(row, x, y, low, high))
    return series


def draw(table: Rows) -> Mapping[str, Picture]:
    """Error on the XOR mixture against d with neurons in its plane; the learned family over time."""
    out: dict[str, Picture] = {}
    series = _xor_errors(table)
    if series:
        out[ENTRY[XOR]] = _draw_xor(table, series)
    if settings(table, SKEWED):
        out[ENTRY[SKEWED]] = _draw_family(table)
    return out


def _draw_xor(table: Rows, series: list[Series]) -> Picture:
    fig = style.figure(13, 3.9)
    with style.applied(9):
        axes = fig.subplots(1, 4, width_ratios=(1.5, 1, 1, 1))
    curves(axes[0], series, "d", "test error (%)", log="x", ylim=(-2, 62), title="n ~ d^1.5, m ~ log d")
    ticks = sorted({d for s in series for d in s.x})
    axes[0].set_xticks(ticks, [f"{d:g}" for d in ticks])
    axes[0].minorticks_off()
    last = settings(table, XOR)[-1]
    row = reported(table, last, NETWORK)[0]
    arrays = table.arrays[row["trial"]]() if row["trial"] in table.arrays else {}
    panels = (("start", "start"), ("first", "first step"), (f"end {row['eta']:g}", "end"))
    with style.applied(9):
        for panel, (name, title) in zip(axes[1:], panels, strict=True):
            if name in arrays:
                panel.scatter(*arrays[name].T, s=14, color=style.NEURON, alpha=0.7, linewidths=0, zorder=3)
            panel.plot([1, -1], [0, 0], "*", color=style.STAR_PLUS, ms=13, mec="white")
            panel.plot([0, 0], [1, -1], "*", color=style.STAR_MINUS, ms=13, mec="white")
            panel.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal", title=title)
            panel.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1))
            panel.set_xlabel("cos(w, D_1)")
        axes[1].set_ylabel("cos(w, D_3)")
    caption = (
        "Left: test error on the XOR mixture, mean and interval over seeds. Right: cosines of the neurons with both "
        f"directions of the clusters (stars: label +1 on the horizontal, -1 on the vertical axis), {last}, one seed."
    )
    data = [{"row": s.name, "d": d, "error": y} for s in series for d, y in zip(s.x, s.y, strict=True)]
    return Picture(fig, caption, data=data)


def _draw_family(table: Rows) -> Picture:
    fig = style.figure(11, 4.2)
    with style.applied(9):
        left, right = fig.subplots(1, 2)
    [setting] = settings(table, SKEWED)
    rows = reported(table, setting, TIME)
    pairs = len(SHARES)
    lines = []
    for i, share in enumerate(SHARES):
        at = [
            {"step": r["step"], "seed": r["seed"], "v": (r[f"margin_{2 * i}"] + r[f"margin_{2 * i + 1}"]) / 2}
            for r in rows
        ]
        found = estimates(at, by=("step",), metrics=("v",))
        x = [e.group[0] + 1 for e in found]
        lines.append(
            Series(
                f"pair with p = {share:g}", x, [e.value for e in found], [e.low for e in found], [e.high for e in found]
            )
        )
    curves(
        left,
        lines,
        "step + 1",
        "mean margin",
        log="x",
        ylim=(-1, 8),
        title=f"mixture of {pairs} unequal pairs",
    )
    names = {
        "learned": "clusters of margin 1/2",
        "found_90": "with a neuron of cosine 0.9",
        "found_95": "with a neuron of cosine 0.95",
    }
    counts = []
    for metric, name in names.items():
        found = estimates(rows, by=("step",), metrics=(metric,))
        counts.append(
            Series(
                name,
                [e.group[0] + 1 for e in found],
                [e.value for e in found],
                [e.low for e in found],
                [e.high for e in found],
            )
        )
    curves(right, counts, "step + 1", "of 8 clusters", log="x", ylim=(-0.3, 13), title="family over time")
    caption = (
        "Clusters come in opposite pairs of probability 0.4, 0.3, 0.2 and 0.1. Left: mean margin of each pair. Right: "
        "how many clusters the network has learned, and how many have a neuron that points to them."
    )
    keep = ("seed", "step", "learned", "found_90", "found_95", "used", "error", "loss")
    return Picture(fig, caption, data=[{k: r[k] for k in keep} for r in rows])


def cost(trial: Trial) -> Cost:
    """Measured on one core: 0.25 ms a small step and products at 12 Gflop/s."""
    width = (2 if trial.case == UNIFORM else 4) * trial.m
    if trial.case == MULTI:
        return Cost(0.5 + len(trial.etas) * 2 * trial.first * width * (width + 2 * trial.d) * 2 / 1.2e10, 700)
    batch = trial.first if trial.case == UNIFORM else trial.batch
    each = 1.0 if trial.case == UNIFORM else 4.0  # the first layer of the uniform parity stands still
    flops = each * batch * trial.d * width * trial.steps + 40.0 * trial.n_test * trial.d * width
    return Cost(
        0.7 + len(trial.etas) * (2.5e-4 * trial.steps + flops / 1.2e10), 600 + trial.first * trial.d * 12 / 2**20
    )


EXPERIMENT = Experiment(
    id=SPECIAL,
    title="Special cases of the framework: gradient features found, networks trained",
    reproduces=ENTRIES,
    rows=(Trained, Reference, Neurons, Course),
    Config=Config,
    presets={
        "smoke": Config(
            xor_d=(12,),
            xor_steps=20,
            clusters=(8,),
            k=(3,),
            parity_steps=(20,),
            uniform_d=(9,),
            uniform_steps=20,
            d=20,
            first=400,
            steps=20,
            multi_d=8,
            multi_n=600,
            multi_m=8,
            n_test=300,
            draws=60,
            seeds=(0, 1),
            validation_seeds=(1000,),
        ),
        "small": Config(
            xor_d=(50, 100),
            clusters=(4, 8),
            k=(5,),
            parity_steps=(2000,),
            uniform_d=(51,),
            multi_n=20_000,
            multi_m=60,
            n_test=2000,
            draws=1000,
            seeds=(0, 1, 2),
            validation_seeds=(1000,),
        ),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "scale of the start",
            reported="sigma_w, sigma_a, eta_1, bt up to constants",
            ours="bt = 1; sigma_w and sigma_a from "
            "b / (sigma_w |<x, D>|) = 1 and <w, x> / b = 4 (parities 1.5) after the first step",
            why="constants are not given, and only ratios matter",
        ),
        Deviation(
            "step size",
            reported="Theta of the theorems, or 1/(d^2 m)",
            ours="the best of a grid on seeds of 1000 and above",
            why="constants are not given; 1/(d^2 m) is in the grid of the uniform parity. Often the largest of its "
            "grid is best: on data that a network separates the hinge loss only falls faster",
        ),
        Deviation(
            "samples a step",
            reported="n new ones at every step, n = poly",
            ours="n for the first step, then minibatches",
            why="the later steps need fewer; on the XOR mixture both together are C d^1.5",
        ),
        Deviation("C", reported="m = Omega(log d), n = Omega(d^1.5)", ours="4 and 8", why="not given"),
        Deviation(
            "multi-index: steps on a",
            reported="T steps of gradient descent",
            ours="the same T steps in closed form",
            why="T = m^2 / eps is 2.5 million, and the problem is quadratic",
        ),
    ),
    cost=cost,
)
