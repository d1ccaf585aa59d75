"""Gaussian clusters with parity labels: neurons learn the directions of the centres, and every centre is covered.

The work shows Figure 16 (A.12) for the three settings of Table 6 (A.6) and m = 800 neurons as pictures at three
epochs, without numbers. We report, for the centre that is covered worst, the cosine of its nearest neuron at each
snapshot (`cover_init`, `cover_middle`, `cover_end`), the same for the median centre, and the accuracies.

The settings were chosen on other seeds than those reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.learn import Stage, fit
from featlearn.measure.clusters import best_cosine, mds
from featlearn.nets import TwoLayer, gaussian_init
from featlearn.report import style
from featlearn.report.compare import against_reported
from featlearn.report.plots import Picture
from featlearn.tasks import GaussianClusters
from featlearn.works.emergence.experiments.directions import Layer, direction_maps
from featlearn.works.emergence.experiments.pictures import without_reported
from featlearn.works.emergence.experiments.simulation import accuracy, check_sizes
from featlearn.works.emergence.rows import Cover, Mixture, Sizes

ENTRY, SIZES = "emergence.figure16", "emergence.table6"
# experiment: (d, k, sigma_r) of Table 6, middle and last epoch shown in Figure 16
SETTINGS = {1: (100, 4, 1.0, 50, 80), 2: (25, 4, 0.7, 30, 50), 3: (100, 5, 1.0, 50, 80)}
MIXTURES: Mapping[int, Mixture] = {1: "Experiment 1", 2: "Experiment 2", 3: "Experiment 3"}
METRICS = {
    "test_acc": "%",
    "train_acc": "%",
    "cover_init": "",
    "cover_middle": "",
    "cover_end": "",
    "cover_median_end": "",
    "covered_end": "%",
}
COVERED = 0.8


@dataclass(frozen=True, kw_only=True)
class Config:
    """Figure 16 (A.12) and Table 6 (A.6): every centre of a Gaussian mixture is covered by neurons."""

    experiments: tuple[int, ...] = (1, 2, 3)
    """Which of the three reported settings."""
    m: int = 800
    """Neurons."""
    n: int = 4000
    """Training samples."""
    n_test: int = 10000
    """Test samples."""
    batch: int = 100
    """Samples a step."""
    rate: float = 0.3
    """Step size of both layers and biases."""
    scale_w: float = 0.1
    """First layer at the start: standard deviation times sqrt(d), so the norm of a neuron."""
    scale_a: float = 1.0
    """Second layer at the start: standard deviation times sqrt(m)."""
    epochs: float = 1.0
    """Training length as a multiple of the reported number of epochs (80, 50, 80)."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """One draw of centres, samples and start per seed."""

    def __post_init__(self) -> None:
        if not self.experiments or not set(self.experiments) <= set(SETTINGS):
            raise SettingError("experiments", self.experiments, "one or more of 1, 2, 3", "they are rows of Table 6")
        if len(set(self.experiments)) < len(self.experiments):
            raise SettingError("experiments", self.experiments, "each once", "drop the duplicates")
        for field in ("rate", "scale_w", "scale_a", "epochs"):
            if not getattr(self, field) > 0:
                raise SettingError(field, getattr(self, field), "above 0", "see the default")
        check_sizes(n=self.n, batch=self.batch, m=self.m, steps=2, n_test=self.n_test, seeds=self.seeds)


@dataclass(frozen=True)
class Trial:
    """One seed of one setting."""

    experiment: int
    task: GaussianClusters
    m: int
    n: int
    n_test: int
    batch: int
    rate: float
    scale_w: float
    scale_a: float
    middle: int
    last: int
    seed: int
    pictures: bool


def trials(config: Config) -> list[Trial]:
    """One trial per setting and seed; the first seed also lays out its neurons."""
    c, made = config, []
    for number in c.experiments:
        d, k, sigma_r, middle, last = SETTINGS[number]
        task, last = GaussianClusters(d, k, sigma_r), max(1, round(c.epochs * last))
        middle = min(last, max(1, round(c.epochs * middle)))
        made += [
            Trial(number, task, c.m, c.n, c.n_test, c.batch, c.rate, c.scale_w, c.scale_a, middle, last, seed, not i)
            for i, seed in enumerate(c.seeds)
        ]
    return made


def run_trial(trial: Trial) -> TrialResult:
    """Train one network and measure how its neurons cover the centres."""
    task, name = trial.task, MIXTURES[trial.experiment]
    key = Key("emergence/figure16") / trial.experiment / trial.seed
    truth = task.draw(key / "truth")
    train, test = task.sample(truth, trial.n, key / "train"), task.sample(truth, trial.n_test, key / "test")
    start = gaussian_init(
        trial.m,
        task.d,
        key / "start",
        sigma_w=trial.scale_w * task.d**-0.5,
        sigma_b=0.0,
        sigma_a=trial.scale_a * trial.m**-0.5,
        activation="relu",
    )
    per_epoch = trial.n // trial.batch
    shown = {0: "init", trial.middle: "middle", trial.last: "end"}
    seen: list[TwoLayer] = []

    def cover(net: TwoLayer, members: slice) -> Tensor:
        seen.append(net)
        return best_cosine(net.w, truth.centres)

    stage = Stage(trial.last * per_epoch, trial.rate, trial.rate, trial.rate, batch=trial.batch)
    run = fit(
        start,
        train.x,
        train.y,
        [stage],
        key / "batches",
        loss="logistic",
        probes={"cover": cover},
        probe_at=[e * per_epoch for e in shown],
    )
    best = dict(zip(shown.values(), run.trace["cover"][:, 0], strict=True))
    at_end = best.get("end", best["init"])
    row = Cover(
        setting=name,
        seed=trial.seed,
        train_acc=accuracy(run.net(train.x)[:, 0], train.y),
        test_acc=accuracy(run.net(test.x)[:, 0], test.y),
        cover_init=float(best["init"].min()),
        cover_middle=float(best.get("middle", at_end).min()),
        cover_end=float(at_end.min()),
        cover_median_end=float(at_end.median()),
        covered_end=100 * float((at_end >= COVERED).float().mean()),
    )
    assert train.group is not None
    noise = (train.x - truth.centres[train.group]).square().sum(1).mean()
    sizes = Sizes(
        setting=name,
        seed=trial.seed,
        d=train.x.shape[1],
        k=task.k,
        clusters=len(train.group.unique()),
        sigma_r=float((noise / task.k).sqrt()),
    )
    arrays: dict[str, np.ndarray] = {}
    if trial.pictures:
        for (epoch, label), net in zip(shown.items(), seen, strict=True):
            alive = net.w[0].norm(dim=1) > 0
            arrays[f"{label}/at"] = mds(net.w[0][alive], truth.centres, key / "mds" / label).numpy()
            arrays[f"{label}/epoch"] = np.array(epoch)
        arrays["centres/labels"] = truth.labels.numpy()
    return TrialResult([row, sizes], arrays)


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means over seeds; Table 6 reports sizes, which are counted and measured on the samples; Figure 16 is a
    picture."""
    sizes = [{**r, "row": r["setting"], "setting": ""} for r in table.rows if r["kind"] == "sizes"]
    found = estimates(sizes, metrics=("d", "k", "clusters", "sigma_r"))
    cover = [{**r, "row": "Network"} for r in table.rows if r["kind"] == "cover"]
    return [*without_reported(cover, METRICS, ENTRY), *against_reported(found, [SIZES], {"sigma_r": 0.01})]


def draw(table: Rows) -> Mapping[str, Picture]:
    """Neurons and centres of one seed of every setting."""
    panels, data, done = [], [], set()
    for r in table.rows:
        load = table.arrays.get(r["trial"])
        if r["setting"] in done or load is None or "init/at" not in (arrays := load()):
            continue
        done.add(r["setting"])
        labels = np.asarray(arrays["centres/labels"])
        for name in ("init", "middle", "end"):
            if f"{name}/at" not in arrays:
                continue
            at, epoch = arrays[f"{name}/at"], int(arrays[f"{name}/epoch"])
            neurons, centres = at[: -len(labels)], at[-len(labels) :]
            layers = [
                Layer("neuron", neurons, style.METHODS["Network"]),
                Layer("centre, label +1", centres[labels > 0], style.STAR_PLUS, star=True),
                Layer("centre, label -1", centres[labels < 0], style.STAR_MINUS, star=True),
            ]
            panels.append((f"{r['setting']}, epoch {epoch}", layers))
            data += [
                {"setting": r["setting"], "epoch": epoch, "what": layer.name, "x": float(x), "y": float(y)}
                for layer in layers
                for x, y in layer.points
            ]
    if not panels:
        return {}
    caption = (
        "Neuron directions and cluster centres of one seed, by metric multidimensional scaling on 1 - cos. Centres at "
        "right angles to each other cannot all keep their distances in a plane."
    )
    return {ENTRY: Picture(direction_maps(panels), caption, data=data)}


def cost(trial: Trial) -> Cost:
    """From three matrix products a step at about 30 Gflop/s, and a few seconds for a picture."""
    flops = 6.0 * trial.last * trial.n * trial.m * (trial.task.d + 6)
    return Cost(0.5 + flops / 3e10 + 4 * trial.pictures * (trial.m / 800) ** 2, 500)


EXPERIMENT = Experiment(
    id="emergence/figure16",
    title="Gaussian clusters with parity labels: every centre is covered",
    reproduces=(ENTRY, SIZES),
    Config=Config,
    presets={
        "smoke": Config(experiments=(2,), m=100, n=500, n_test=500, epochs=0.1, seeds=(0, 1)),
        "small": Config(epochs=0.6, n_test=2000, seeds=(0, 1)),
        "paper": Config(),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    rows=(Cover, Sizes),
    deviations=(
        Deviation(
            "n, rate, batch, loss",
            reported="not stated (typical practice)",
            ours="4000, 0.3, 100, logistic",
            why="needed",
        ),
        Deviation(
            "start",
            reported="not stated",
            ours="first layer N(0, 0.01/d), second N(0, 1/m), biases 0",
            why="chosen on other seeds; with a first layer N(0, 1/d) the network fits as well but the worst centre of "
            "experiments 1 and 3 stays below cosine 0.8, since the start still shows in the directions",
        ),
        Deviation(
            "activation", reported="ReLU, by the form of the target network", ours="ReLU", why="the reading we took"
        ),
        Deviation(
            "coverage",
            reported="shown as a picture",
            ours="cosine of the nearest neuron per centre",
            why="a picture cannot fail",
        ),
    ),
    cost=cost,
)
