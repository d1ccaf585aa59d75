"""Theorem 1: after T = 1 + 1/(4 alpha) steps every clean training point is right and every noisy one wrong.

The work proves it for constants that no computer reaches; its mechanism is measured here over dimensions, samples and
step sizes, with the noise, width and start of the work's Figure 2 and many seeds. There no constant C satisfies A1 to
A7, so rows named "regime of A1 to A7" have settings that one C (between 4 and 4.7) does: step size 0.25, sigma sqrt(d)
= 0.1, and d >= 4 log^2(n/delta).

Rows named "few samples" belong to the comparison of rates (section 3): in that regime, samples so few that some runs
fail, with sigma^2 d and n held fixed while d grows, from a start that is small against a step and from that of Figure
2. Settings and criterion were fixed before any of these rows, after exploration on scratch seeds of 1000 and above,
where the error of n = 100 samples had a standard deviation of twice its mean: 400 seeds give its exponent in d a
standard error of about 0.06, and 0.2 is the largest exponent that counts as flat beside the 1/2 of sqrt(d/n).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from featlearn.core import SettingError
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.tasks.xor_clusters import Law, Noise
from featlearn.works._settings import check_counts, check_entries, check_filled, check_seeds
from featlearn.works.amplification import setup as ensembles
from featlearn.works.amplification.rows import FEW, GRID, OTHERS, REGIME, Fit
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
    d_regime: tuple[int, ...] = (400, 1600)
    """Dimensions of the rows named "regime of A1 to A7", at the largest step size; empty for none."""
    n_regime: tuple[int, ...] = (200, 1000)
    """Their training samples."""
    radius: float = 0.1
    """Their sigma sqrt(d), and that of the rows named "few samples"."""
    scales: tuple[float, ...] = (1e-3, 0.1)
    """omega sqrt(m d) of both."""
    d_few: tuple[int, ...] = (200, 600, 1800)
    """Dimensions of the rows named "few samples", at the largest step size."""
    n_few: tuple[int, ...] = (40, 100)
    """Their training samples; empty for none."""
    n_test_few: int = 400
    """Their test samples."""
    seeds_few: tuple[int, ...] = tuple(range(1000))
    """Their seeds: with few samples the error varies much."""
    others: bool = True
    """Whether to add adversarial flips and the other cluster laws at the median d and n."""
    seeds: tuple[int, ...] = tuple(range(20))
    """One task, data set and start per seed."""
    chunk: int = 5
    """Seeds that train together in a trial."""

    def __post_init__(self) -> None:
        check_filled(self, "d", "n", "alpha")
        check_entries(self, 1, "d", "n", "d_regime", "n_regime", "d_few", "n_few")
        check_counts(self, "chunk", "n_test", "n_test_few")
        if self.rounding not in ("up", "down"):
            raise SettingError("rounding", self.rounding, "up or down", "up is the default")
        check_seeds(self.seeds)
        check_seeds(self.seeds_few, "seeds_few")
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
    own, small = (c.noise, c.law), c.scales
    points = [(GRID, d, n, d ** (-c.exponent / 2), c.scale, own) for d in c.d for n in c.n]
    d, n = sorted(c.d)[len(c.d) // 2], sorted(c.n)[len(c.n) // 2]
    points += [(name, d, n, d ** (-c.exponent / 2), c.scale, how) for name, how in OTHERS.items() if c.others]
    points += [(REGIME, d, n, c.radius / math.sqrt(d), s, own) for d in c.d_regime for n in c.n_regime for s in small]
    points += [(FEW, d, n, c.radius / math.sqrt(d), s, own) for d in c.d_few for n in c.n_few for s in small]
    out = []
    for part, d, n, sigma, scale, how in points:
        few = part == FEW
        seeds, chunk = (c.seeds_few, 4 * c.chunk) if few else (c.seeds, c.chunk)
        alpha = (max(c.alpha),) if part in (FEW, REGIME) else c.alpha
        for i in range(0, len(seeds), chunk):
            setting = Setting(d, n, sigma, c.eta, c.m, scale, *how)  # pyright: ignore[reportArgumentType]
            n_test = c.n_test_few if few else c.n_test
            out.append(Trial(part, setting, alpha, c.rounding, n_test, seeds[i : i + chunk]))
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
                Fit(
                    part=trial.kind,  # pyright: ignore[reportArgumentType]
                    d=s.d,
                    n=s.n,
                    m=s.m,
                    sigma=s.sigma,
                    eta=s.eta,
                    scale=s.scale,
                    alpha=alpha,
                    steps=steps,
                    seed=seed,
                    noisy=noisy,
                    clean_right=clean_right,
                    noisy_wrong=noisy_wrong,
                    norm=float(norm[i]),
                    good=100.0 * (clean_right == 1 and noisy_wrong == 1),
                    n_test=trial.n_test,
                    test_flips=float(test.flipped[i].float().mean()),
                    test_error=100 * (1 - float(unseen["acc"][i])),
                    clean_acc=100 * float(unseen["clean_acc"][i]),
                )
            )
    return TrialResult(rows)


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means over seeds with 95 % intervals, and pooled over the grid per step size."""
    out, fits = [], table.of(Fit)
    for (part, d, n, alpha, scale), here in fits.by("part", "d", "n", "alpha", "scale").items():
        entry = ENTRIES[1] if part == FEW else ENTRIES[0]
        setting, row = f"{part}: d={d}, n={n}", f"alpha={alpha:g}, omega sqrt(m d)={scale:g}"
        out += [SummaryRow.of(setting, row, m, here.mean(m), entry=entry, unit=unit) for m, unit in METRICS.items()]
    for alpha, here in fits.where(part=GRID).by("alpha").items():
        for m, unit in METRICS.items():
            found = here.mean(m, over=("d", "n"))
            out.append(SummaryRow.of("grid, pooled", f"alpha={alpha:g}", m, found, entry=ENTRIES[0], unit=unit))
    return out


def draw(table: Rows) -> Mapping[str, Picture]:
    """Test error over the grid; error on clean labels against d for few samples."""
    if not table.rows:
        return {}
    fits = table.of(Fit)
    grid = fits.where(part=GRID)
    alpha = max(r.alpha for r in grid.rows)
    at = grid.where(alpha=alpha)
    series = [
        Series.of(f"n = {n}", {d: here.column("test_error") for d, here in part.by("d").items()})
        for n, part in at.by("n").items()
    ]
    flips, good = 100 * at.column("test_flips").mean(), at.column("good").mean()
    panel = Panel(series, "dimension d", "test error (%), noisy labels", log="x", ticks=sorted({r.d for r in at.rows}))
    caption = (
        f"Test error at T for alpha = {alpha:g}; {flips:.2f} % of the test labels are flipped. {good:.1f} % of the "
        f"runs have every clean training point right and every noisy one wrong; {len(at.units())} seeds."
    )
    found = {ENTRIES[0]: line_picture([panel], caption, [asdict(r) for r in at.rows], height=4.2)}
    if any(r.part == FEW for r in fits.rows):
        few, panels = fits.where(part=FEW), []
        for scale, part in few.by("scale").items():
            lines = [
                Series.of(f"n = {n}", {d: 100 - here.column("clean_acc") for d, here in same.by("d").items()})
                for n, same in part.by("n").items()
            ]
            ticks, title = sorted({r.d for r in part.rows}), f"omega sqrt(m d) = {scale:g}"
            panels.append(Panel(lines, "dimension d", "test error (%), clean labels", title, "x", ticks))
        text = (
            f"Error on clean labels with few samples in the regime of A1 to A7, sigma sqrt(d) fixed; 95 % intervals "
            f"over {len(few.units())} seeds. An error ~ sqrt(d/n) would grow with the root of d."
        )
        data = [{"scale": r.scale, "n": r.n, "d": r.d, "seed": r.seed, "clean_acc": r.clean_acc} for r in few.rows]
        found[ENTRIES[1]] = line_picture(panels, text, data, height=4.2)
    return found


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
    rows=(Fit,),
    Config=Config,
    presets={
        "smoke": Config(
            d=(20, 40),
            n=(100, 200),
            d_regime=(40,),
            n_regime=(100,),
            d_few=(20, 40),
            n_few=(40,),
            m=100,
            n_test=200,
            seeds=(0, 1, 2),
            seeds_few=(0, 1, 2, 3),
            chunk=2,
        ),
        "small": Config(
            d=(50, 200),
            n=(200, 1000),
            d_regime=(400,),
            d_few=(200, 600),
            seeds=tuple(range(10)),
            seeds_few=tuple(range(100)),
        ),
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
            why="no computer holds such a network; the premises of the claims say which settings one C satisfies",
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
            ours="sigma sqrt(d) = 0.1, n = 40 and 100, d = 200 to 1800, 400 seeds",
            why="with more samples the error on clean labels is 0, and 0 has no rate",
        ),
    ),
    cost=cost,
)
