"""Theorem 1: after T = 1 + 1/(4 alpha) steps every clean training point is right and every noisy one wrong.

The work proves it for constants that no computer reaches; its mechanism is measured here over dimensions, samples and
step sizes, with the noise, width and start of the work's Figure 2 and many seeds. Rows named "few samples" belong to
the comparison of rates (section 3): clusters so wide and samples so few that the error is not zero, with sigma^2 d and
n held fixed while d grows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from featlearn.core import SettingError
from featlearn.lab.estimate import interval
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.report import style
from featlearn.report.plots import Picture, Series, curves
from featlearn.tasks.xor_clusters import Law, Noise
from featlearn.works._settings import check_counts, check_filled, check_seeds
from featlearn.works.amplification import setup as ensembles
from featlearn.works.amplification.rows import FEW, GRID, OTHERS
from featlearn.works.amplification.setup import Rounding, Setting, steps_of

ENTRIES = ("amplification.theorem1", "amplification.rate_comparison", "amplification.gd")
METRICS = {"good": "%", "test_error": "%", "clean_acc": "%", "norm": ""}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Theorem 1 over dimensions, samples and step sizes; error against dimension when samples are few."""

    d: tuple[int, ...] = (50, 200, 800)
    """Dimensions."""
    n: tuple[int, ...] = (200, 1000, 5000)
    """Training samples."""
    alpha: tuple[float, ...] = (0.1, 0.25)
    """Step sizes; training takes T = 1 + 1/(4 alpha) steps."""
    rounding: Rounding = "up"
    """What T is where 1/(4 alpha) is no integer."""
    eta: float = 0.15
    """Share of flipped labels."""
    noise: Noise = "random"
    """Flips: random, or adversarial."""
    law: Law = "gaussian"
    """Law of a cluster."""
    exponent: float = 1.2
    """sigma^2 = 1/d^exponent, as in Figure 2."""
    m: int = 400
    """Neurons."""
    scale: float = 0.1
    """omega sqrt(m d), the Frobenius norm of the start; 0.1 as in Figure 2."""
    n_test: int = 2000
    """Test samples of a run."""
    n_few: tuple[int, ...] = (40, 100)
    """Training samples of the rows named "few samples", at the largest step size; empty for none."""
    radius_few: float = 1.0
    """Their sigma sqrt(d)."""
    seeds_few: tuple[int, ...] = tuple(range(60))
    """Their seeds: with few samples the error varies much."""
    others: bool = True
    """Whether to add adversarial flips and the other cluster laws at the median d and n."""
    seeds: tuple[int, ...] = tuple(range(20))
    """One task, data set and start per seed."""
    chunk: int = 5
    """Seeds that train together in a trial."""

    def __post_init__(self) -> None:
        check_filled(self, "d", "n", "alpha")
        check_counts(self, "chunk", "n_test")
        if self.rounding not in ("up", "down"):
            raise SettingError("rounding", self.rounding, "up or down", "up is the default")
        for seeds in (self.seeds, self.seeds_few):
            check_seeds(seeds)
        for trial in trials(self):
            for alpha in trial.alpha:
                ensembles.check(trial.setting, alpha)


@dataclass(frozen=True)
class Trial:
    """A chunk of seeds at one dimension and sample size, for all step sizes on the same data."""

    kind: str
    setting: Setting
    alpha: tuple[float, ...]
    rounding: str
    n_test: int
    seeds: tuple[int, ...]


def trials(config: Config) -> list[Trial]:
    """One trial per dimension, sample size and chunk of seeds."""
    c = config
    own = (c.noise, c.law)
    points = [(GRID, d, n, d ** (-c.exponent / 2), own) for d in c.d for n in c.n]
    points += [(FEW, d, n, c.radius_few / math.sqrt(d), own) for d in c.d for n in c.n_few]
    d, n = sorted(c.d)[len(c.d) // 2], sorted(c.n)[len(c.n) // 2]
    points += [(name, d, n, d ** (-c.exponent / 2), how) for name, how in OTHERS.items() if c.others]
    out = []
    for kind, d, n, sigma, how in points:
        seeds, alpha = (c.seeds_few, (max(c.alpha),)) if kind == FEW else (c.seeds, c.alpha)
        for i in range(0, len(seeds), c.chunk):
            setting = Setting(d, n, sigma, c.eta, c.m, c.scale, *how)
            out.append(Trial(kind, setting, alpha, c.rounding, c.n_test, seeds[i : i + c.chunk]))
    return out


def run_trial(trial: Trial) -> TrialResult:
    """Train every member at every step size; judge it on training and on unseen test data."""
    s, rows = trial.setting, []
    found = ensembles.truths(s, trial.seeds)
    train = ensembles.draw(s, found, trial.seeds, "train")
    test = ensembles.draw(s, found, trial.seeds, "test", trial.n_test)
    begin = ensembles.start(s, trial.seeds)
    for alpha in trial.alpha:
        steps = steps_of(alpha, "up" if trial.rounding == "up" else "down")
        net = ensembles.descend(begin, train, alpha, steps)
        seen, unseen = ensembles.fits(net, train), ensembles.fits(net, test)
        norm = net.w.flatten(1).norm(dim=1)
        for i, seed in enumerate(trial.seeds):
            noisy = int(train.flipped[i].sum())
            clean_right = float(seen["clean_right"][i])
            noisy_wrong = float(seen["noisy_wrong"][i]) if noisy else 1.0
            rows.append(
                {
                    "setting": f"{trial.kind}: d={s.d}, n={s.n}",
                    "row": f"alpha={alpha:g}",
                    "seed": seed,
                    "kind": trial.kind,
                    "d": s.d,
                    "n": s.n,
                    "alpha": alpha,
                    "steps": steps,
                    "noisy": noisy,
                    "clean_right": clean_right,
                    "noisy_wrong": noisy_wrong,
                    "norm": float(norm[i]),
                    "good": 100.0 * (clean_right == 1 and noisy_wrong == 1),
                    "n_test": trial.n_test,
                    "test_flips": float(test.flipped[i].float().mean()),
                    "test_error": 100 * (1 - float(unseen["acc"][i])),
                    "clean_acc": 100 * float(unseen["clean_acc"][i]),
                }
            )
    return TrialResult(rows)


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means over seeds with 95 % intervals, and pooled over the grid per step size."""
    out = []
    for setting in dict.fromkeys(r["setting"] for r in table.rows):
        for row in dict.fromkeys(r["row"] for r in table.rows):
            mine = [r for r in table.rows if (r["setting"], r["row"]) == (setting, row)]
            out += [_row(setting, row, metric, [r[metric] for r in mine]) for metric in METRICS if mine]
    for row in dict.fromkeys(r["row"] for r in table.rows):
        mine = [r for r in table.rows if r["row"] == row and r["kind"] == GRID]
        out += [_row("grid, pooled", row, metric, [r[metric] for r in mine]) for metric in METRICS if mine]
    return out


def _row(setting: str, row: str, metric: str, values: Sequence[float]) -> SummaryRow:
    mean, low, high = interval(values)
    most = 100.0 if METRICS[metric] == "%" else math.inf
    return SummaryRow(
        setting,
        row=row,
        metric=metric,
        value=mean,
        low=max(low, 0.0),
        high=min(high, most),
        n=len(values),
        unit=METRICS[metric],
        entry=ENTRIES[0],
    )


def draw(table: Rows) -> Mapping[str, Picture]:
    """Test error over the grid; error on clean labels against d for few samples."""
    return {**_errors(table, GRID, ENTRIES[0]), **_errors(table, FEW, ENTRIES[1])}


def _errors(table: Rows, kind: str, entry: str) -> Mapping[str, Picture]:
    rows = [r for r in table.rows if r["kind"] == kind]
    if not rows:
        return {}
    alpha = max(r["alpha"] for r in rows)
    rows = [r for r in rows if r["alpha"] == alpha]
    series, data, sizes = [], [], sorted({r["d"] for r in rows})
    for n in sorted({r["n"] for r in rows}):
        points = []
        for d in sizes:
            mine = [r for r in rows if (r["d"], r["n"]) == (d, n)]
            value = [r["test_error"] if kind == GRID else 100 - r["clean_acc"] for r in mine]
            points.append(interval(value))
            data.append({"n": n, "d": d, "error": points[-1][0], "low": points[-1][1], "high": points[-1][2]})
        mean, low, high = (np.array(v) for v in zip(*points, strict=True))
        series.append(Series(f"n = {n}", sizes, mean, np.maximum(low, 0), high))
    fig, seeds = style.figure(6.5, 4.2), len({r["seed"] for r in rows})
    if kind == GRID:
        flips = 100 * float(np.mean([r["test_flips"] for r in rows]))
        axes = curves(fig, series, "dimension d", "test error (%), noisy labels", log="x", ylim=(12, 18))
        axes.axhline(flips, color=style.REPORTED, linestyle=":", linewidth=1.3)
        good = np.mean([r["good"] for r in rows])
        caption = (
            f"Test error at T for alpha = {alpha:g}; dotted: the share of flipped test labels. {good:.1f} % of the "
            f"runs have every clean training point right and every noisy one wrong; 95 % intervals over {seeds} seeds."
        )
    else:
        axes = curves(fig, series, "dimension d", "test error (%), clean labels", log="x")
        axes.set_ylim(bottom=0)
        factor = math.sqrt(sizes[-1] / sizes[0])
        caption = (
            f"Error on clean labels with few samples, sigma sqrt(d) fixed, alpha = {alpha:g}; 95 % intervals over "
            f"{seeds} seeds. An error ~ sqrt(d/n) would grow by {factor:.3g} from d = {sizes[0]} to {sizes[-1]}."
        )
    axes.set_xticks(sizes, [str(d) for d in sizes])
    axes.minorticks_off()
    return {entry: Picture(fig, caption, data=data)}


def cost(trial: Trial) -> Cost:
    """From the matrix products at about 40 Gflop/s on one core."""
    s, e = trial.setting, len(trial.seeds)
    steps = sum(steps_of(a) for a in trial.alpha)
    flops = e * s.m * s.d * (s.n * (4 * steps + 2 * len(trial.alpha)) + 2 * trial.n_test * len(trial.alpha))
    return Cost(0.3 + flops / 4e10, 350 + e * s.d * (2 * s.n + trial.n_test) * 4 / 2**20)


EXPERIMENT = Experiment(
    id="amplification/theorem1",
    title="Clean points right, noisy points wrong after 1 + 1/(4 alpha) steps",
    reproduces=ENTRIES,
    Config=Config,
    presets={
        "smoke": Config(
            d=(20, 40), n=(100, 200), n_few=(40,), m=100, n_test=200, seeds=(0, 1, 2), seeds_few=(0, 1, 2, 3), chunk=2
        ),
        "small": Config(d=(50, 200), n=(200, 1000), seeds=tuple(range(10)), seeds_few=tuple(range(40))),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "constants",
            reported="one constant C, above 1e22 if the proof is followed",
            ours="m = 400, alpha 0.1 and 0.25, eta 0.15",
            why="no computer holds such a network; verify says `assumptions unmet` and this run tests the mechanism",
        ),
        Deviation(
            "T",
            reported="1 + 1/(4 alpha)",
            ours="rounded up: 4 at alpha = 0.1",
            why="the paper gives no rule for 3.5 steps",
        ),
        Deviation(
            "sigma, omega, m, eta",
            reported="not stated for the theorem",
            ours="those of Figure 2: sigma^2 = 1/d^1.2, omega^2 = 0.01/(m d), m = 400, 15 % flips",
            why="the only ones that the work uses in more than two dimensions",
        ),
        Deviation(
            "few samples",
            reported="rates only, for another distribution",
            ours="sigma sqrt(d) = 1, n = 40 and 100, 60 seeds",
            why="at the settings of the grid the error on clean labels is 0, and 0 has no rate",
        ),
    ),
    cost=cost,
)
