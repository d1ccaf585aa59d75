"""What section 5 of the work leaves open, tried: batch 1, Gaussian inputs, squared loss, descent on a fixed set.

Exploratory: numbers that no paper reports, without pass or fail. Every variant differs in one thing from minibatch SGD
with batches of d/8 (`Minibatch`). For new samples the best step size is taken on the validation seeds, as in `samples`;
for the fixed set (`Fixed set`) it is the smallest number of samples with which full-batch gradient descent reaches the
target at some time within `time`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.device import resolve
from featlearn.lab.experiment import Cost, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.statistics import crossing
from featlearn.lab.table import Table as LabTable
from featlearn.lab.uncertainty import slope
from featlearn.learn import Stage, fit
from featlearn.nets import TwoLayer, mean_field_rates, sphere_init
from featlearn.nets.pointwise import Loss
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.works._settings import (
    check_counts,
    check_dimensions,
    check_filled,
    check_ladders,
    check_positive,
    check_target,
    check_validation_seeds,
)
from featlearn.works.xor_sgd.experiments.budgets import (
    Measured,
    NetworkTrial,
    boolean,
    gaussian,
    network_budgets,
    percent_right,
    role_of,
)
from featlearn.works.xor_sgd.rows import Variant, chosen

ENTRY = "xor_sgd.discussion_limits"
ONE_PASS = ("Minibatch", "Batch 1", "Gaussian inputs", "Squared loss")
FIXED = "Fixed set"
LOSS: Mapping[str, Loss] = {"Squared loss": "squared"}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Samples to the target accuracy under the variations that the work names as open."""

    d: tuple[int, ...] = (32, 64, 128, 256)
    """Dimensions."""
    variants: tuple[str, ...] = (*ONE_PASS, FIXED)
    """Which of them."""
    share: float = 0.125
    """Batch size as a share of d, except for Batch 1."""
    noise: tuple[float, ...] = (0.54, 0.8, 1.2, 1.8, 2.7, 4.0)
    """Step sizes, as eta d / batch."""
    p: int = 100
    """Neurons."""
    theta: float = 0.1
    """Radius of the start."""
    target: float = 95.0
    """Test accuracy in percent."""
    n_test: int = 2000
    """Test samples."""
    most: float = 200.0
    """Budget in units of d after which a variant is given up."""
    time: float = 60.0
    """Steps times step size of gradient descent on a fixed set."""
    eta: float = 0.25
    """Its step size."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Reported seeds, below 1000."""
    validation_seeds: tuple[int, ...] = (1000, 1001, 1002)
    """Validation seeds: they choose the step size, 1000 and above."""
    device: str = "cpu"
    """cpu or cuda."""

    def __post_init__(self) -> None:
        check_filled(self, "d")
        check_dimensions(self, "d", least=8)
        unknown = [v for v in self.variants if v not in (*ONE_PASS, FIXED)]
        if unknown or not self.variants:
            raise SettingError("variants", self.variants, f"some of {', '.join((*ONE_PASS, FIXED))}", "drop the others")
        check_target(self.target)
        check_positive(self, "share", "theta", "most", "time", "eta")
        check_ladders(self, "noise")
        check_counts(self, "p", "n_test")
        check_validation_seeds(self.seeds, self.validation_seeds)


@dataclass(frozen=True)
class FixedTrial:
    """Gradient descent on fixed sets of growing size, one seed."""

    d: int
    seed: int
    p: int
    theta: float
    target: float
    n_test: int
    most: float
    time: float
    eta: float
    device: str


def trials(config: Config) -> list[NetworkTrial | FixedTrial]:
    """One trial per variant, dimension and kind of seeds; for the fixed set one per seed."""
    c, made = config, []
    for d in c.d:
        for name in c.variants:
            if name == FIXED:
                made += [
                    FixedTrial(d, seed, c.p, c.theta, c.target, c.n_test, c.most, c.time, c.eta, c.device)
                    for seed in c.seeds
                ]
                continue
            batch = 1 if name == "Batch 1" else max(1, round(c.share * d))
            made += [
                NetworkTrial(
                    d, batch, batch / d, c.noise, seeds, c.p, c.theta, c.target, c.n_test, c.most, 2.0, c.device, name
                )
                for seeds in (c.validation_seeds, c.seeds)
            ]
    return made


def fixed_set(trial: FixedTrial) -> Measured:
    """Smallest n, on a grid of 15 %, at which full-batch descent reaches the target at one of its evaluations."""
    resolve(trial.device)
    key, draw = Key("xor_sgd/limits") / FIXED / trial.d / trial.seed, boolean(trial.d, trial.device)
    test, pool = draw(trial.n_test, key / "test"), draw(round(trial.most * trial.d), key / "train")
    start = sphere_init(trial.p, trial.d, key / "start", theta=trial.theta).to(trial.device)
    rate_w, rate_a = mean_field_rates(trial.eta, trial.p)
    steps = max(1, round(trial.time / trial.eta))
    evaluations = range(0, steps + 1, max(1, steps // 24))

    def right(net: TwoLayer, members: slice) -> Tensor:
        return percent_right(net, test)

    sizes, scores, size = [], [], 0.5 * trial.d
    while round(size) <= len(pool.y) and (not scores or scores[-1] < trial.target):
        n = round(size)
        run = fit(
            start,
            pool.x[:n],
            pool.y[:n],
            [Stage(steps, rate_w, 0.0, rate_a)],
            key / "fit",
            loss="logistic",
            probes={"right": right},
            probe_at=evaluations,
        )
        sizes.append(float(n))
        scores.append(float(run.trace["right"].max()))
        size *= 1.15
    found = crossing(sizes, scores, trial.target)
    return Measured(0.0, 0.0, trial.seed, found, None if found else sizes[-1], max(scores))


def run_trial(trial: NetworkTrial | FixedTrial) -> TrialResult:
    """Rows like those of `samples`."""
    if isinstance(trial, FixedTrial):
        name, found = FIXED, [fixed_set(trial)]
    else:
        name = trial.method
        draw = (gaussian if name == "Gaussian inputs" else boolean)(trial.d, trial.device)
        found = network_budgets(trial, draw, Key("xor_sgd/limits") / name / trial.d, loss=LOSS.get(name, "logistic"))
    return TrialResult(
        [
            Variant(
                learner=cast(Any, name),
                d=trial.d,
                share=m.share,
                noise=m.noise,
                role=role_of(m.seed),
                seed=m.seed,
                samples=m.samples,
                over=m.over,
                best=m.best,
            )
            for m in found
        ]
    )


def reported(variants: LabTable[Variant], name: str) -> list[tuple[int, tuple[float, ...], int]]:
    """(d, budgets of the reported seeds, how many never arrived)."""
    if name != FIXED:
        return [(p.d, p.samples, p.missed) for p in chosen(variants, name)]
    found = []
    for d, part in variants.where(learner=FIXED).by("d").items():
        budgets = tuple(r.samples for r in part.rows if r.samples is not None)
        found.append((d, budgets, len(part) - len(budgets)))
    return found


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Samples and samples / d of every variant, and its exponent."""
    variants, out = table.of(Variant), []
    for name in (*ONE_PASS, FIXED):
        if not any(r.learner == name for r in variants.rows):
            continue
        points = reported(variants, name)
        pairs = [(d, n) for d, budgets, _ in points for n in budgets]
        if len({d for d, _ in pairs}) > 1 and len(pairs) > 2:
            log_d, log_n = np.log(np.array(pairs)).T
            power = slope(log_d, log_n, "seed")
            out.append(SummaryRow.of("", name, "exponent", power, entry=ENTRY))
        for d, budgets, missed in points:
            if budgets:
                each = [n / d for n in budgets]
                out.append(SummaryRow.of(f"d = {d}", name, "samples / d", each, geometric=True, entry=ENTRY))
            if missed:
                out.append(SummaryRow.of(f"d = {d}", name, "seeds that never arrived", missed))
        for d, part in variants.where(learner=name).by("d").items():
            if d not in {d for d, *_ in points}:  # no step size brought every validation seed to the target
                best = max(r.best for r in part.rows)
                out.append(SummaryRow.of(f"d = {d}", name, "never arrived; best accuracy", best, unit="%"))
        if name != FIXED:
            out += [
                SummaryRow.of(f"d = {p.d}", name, "eta d / batch", p.choice.point[1]) for p in chosen(variants, name)
            ]
    return out


def draw(table: Rows) -> Mapping[str, Picture]:
    """Samples over d against d."""
    variants, series = table.of(Variant), []
    for name in (*ONE_PASS, FIXED):
        if any(r.learner == name for r in variants.rows):
            found = {d: [n / d for n in budgets] for d, budgets, _ in reported(variants, name) if budgets}
            if found:
                series.append(Series.of(name, found, geometric=True))
    if not series:
        return {}
    data = [{"row": s.name, "d": d, "samples / d": y} for s in series for d, y in zip(s.x, s.y, strict=True)]
    panel = Panel(series, "d", "samples / d to the target", log="xy", ticks=sorted({r["d"] for r in data}))
    caption = "Samples to the target accuracy under variations that the work leaves open."
    return {ENTRY: line_picture([panel], caption, data, height=4.2)}


def cost(trial: NetworkTrial | FixedTrial) -> Cost:
    """At 25 Gflop/s and 0.3 ms a step; batch 1 moves all weights at every sample."""
    if isinstance(trial, FixedTrial):
        n, steps = 40.0 * trial.d, trial.time / trial.eta
        return Cost(0.5 + 8 * 4.0 * trial.p * trial.d * n * steps / 2.5e10, 400)
    members, budget = len(trial.seeds) * len(trial.noise), 40.0 * trial.d
    flops = members * 4.0 * trial.p * trial.d * (budget + 15 * trial.n_test)
    passes = members * 16.0 * trial.p * trial.d * budget / trial.batch
    return Cost(0.3 + flops / 2.5e10 + budget / trial.batch * 3e-4 + passes / 8e9, 400)


EXPERIMENT = Experiment(
    id="xor_sgd/limits",
    title="XOR beyond the theorem: batch 1, Gaussian inputs, squared loss, a fixed set",
    reproduces=(ENTRY,),
    rows=(Variant,),
    version=2,
    Config=Config,
    presets={
        "smoke": Config(
            d=(8,),
            p=20,
            share=0.25,
            noise=(1.0,),
            target=75.0,
            n_test=200,
            most=24.0,
            time=10.0,
            seeds=(0, 1),
            validation_seeds=(1000,),
        ),
        "small": Config(
            d=(32, 64), noise=(0.8, 1.2, 1.8, 2.7), n_test=1000, seeds=(0, 1, 2), validation_seeds=(1000,), most=100.0
        ),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    cost=cost,
)
