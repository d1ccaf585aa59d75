"""Real images: into how many clusters the neurons of a two-layer network go, and whether labels are what makes them.

Settings and criteria, fixed before any row. Figures 17 to 19 (A.13 to A.15) are pictures of the weights of m = 50
neurons on MNIST 0/1, CIFAR-10 airplane/automobile and SVHN 0/1: two clusters, two and four. Training is that of
`emergence/figure17`: ReLU, logistic loss, momentum 0.95, no regularisation, a first layer from N(0, 0.01^2). Pixels of
other sets are brighter, so that the step size is `rate` over the mean squared length of an image; 8 is 0.1 on MNIST.

The unit is a seed: a start, an order of samples and a shuffling. Both arms of a seed and a pair have the same images,
start and order; the arm of shuffled labels has in each class half of either label, so that no feature of the class is
of use. Directions are split by spherical k-means with k = 2, 3 and 4, and judged by the cosine silhouette.

Clusters form where the silhouette of k = 2 at the end exceeds that at the start, and that at the end with shuffled
labels, by 0.1: seen where the interval over seeds excludes less. Two clusters, rather than four, are there where the
silhouette of k = 2 is the larger one, counted over seeds: seen where the exact interval of the share of seeds excludes
a half, which takes ten seeds to be seen either way. Nothing is expected of pairs that the paper has not.

`cpu` and `small` need `featlearn data fetch mnist` and the same for `fashion-mnist`; `paper` asks for CIFAR-10 and SVHN
as folders of yours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.row import Row
from featlearn.learn import Stage, fit
from featlearn.measure.clusters import cosine_silhouette, spherical_kmeans
from featlearn.nets import TwoLayer, gaussian_init
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.works._settings import check_counts, check_positive, check_seeds
from featlearn.works.emergence.experiments.pairs import check_pairs, labels_of, loaded, needs, set_of
from featlearn.works.emergence.experiments.simulation import accuracy
from featlearn.works.emergence.rows_images import CLUSTERS, Labels, Learnt, Pair, Parted

ENTRIES = ("emergence.figure18", "emergence.figure19")
LABELS: tuple[Labels, ...] = ("true", "shuffled")
SNAPSHOTS = ("start", "early", "epoch 1", "end")
SIZES = {"digits": (280, 64), "CIFAR-10": (10_000, 3072), "SVHN": (18_809, 3072)}
"""Training images and pixels; of the others about 12000 and 784."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Clusters of neurons of a two-layer network on pairs of classes, with true and with shuffled labels."""

    pairs: tuple[Pair, ...] = ("MNIST 0/1", "Fashion-MNIST pullover/coat")
    """Data set and two classes."""
    m: int = 50
    """Neurons."""
    rate: float = 8.0
    """Step size of both layers and biases, times the mean squared length of an image."""
    momentum: float = 0.95
    """Heavy-ball factor."""
    batch: int = 100
    """Samples a step."""
    epochs: int = 10
    """Passes over the training images, at least two."""
    sigma_w: float = 0.01
    """Standard deviation of the first layer at the start; the second has 1/sqrt(m), biases are 0."""
    early: int = 20
    """Step of the early snapshot."""
    seeds: tuple[int, ...] = tuple(range(10))
    """A start, an order of samples and a shuffling each."""

    def __post_init__(self) -> None:
        check_pairs(self.pairs)
        check_positive(self, "rate", "sigma_w")
        check_counts(self, "batch", "early")
        if not 0 <= self.momentum < 1:
            raise SettingError("momentum", self.momentum, "in [0, 1)", "0.95 is reported")
        if self.m < 5:
            raise SettingError("m", self.m, "at least 5 (four clusters need five neurons)", "50 is reported")
        if self.epochs < 2:
            raise SettingError("epochs", self.epochs, "at least 2, so that the first is not the last", "raise it")
        check_seeds(self.seeds)


@dataclass(frozen=True)
class Trial:
    """Both networks of one pair and seed."""

    pair: Pair
    m: int
    rate: float
    momentum: float
    batch: int
    epochs: int
    sigma_w: float
    early: int
    seed: int


def trials(config: Config) -> list[Trial]:
    """One trial per pair and seed."""
    c = config
    return [
        Trial(pair, c.m, c.rate, c.momentum, c.batch, c.epochs, c.sigma_w, c.early, seed)
        for pair in c.pairs
        for seed in c.seeds
    ]


def parted(net: TwoLayer, key: Key) -> dict[str, float]:
    """Silhouettes of two, three and four clusters of the directions of the neurons, and the cosine of two centres."""
    found = {k: spherical_kmeans(net.w[0], k, key / k) for k in (2, 3, 4)}
    silhouettes = {f"silhouette_{k}": cosine_silhouette(net.w[0], f.labels) for k, f in found.items()}
    one, two = found[2].centres
    return {**silhouettes, "centres": float((one @ two).clamp(-1, 1))}


def run_trial(trial: Trial) -> TrialResult:
    """Train on true and on shuffled labels from one start, and cluster the neurons at the snapshots."""
    data = loaded(trial.pair)
    x, x_test = data.x.flatten(1), data.x_test.flatten(1)
    if len(x) < trial.batch:
        raise SettingError("batch", trial.batch, f"at most n = {len(x)}", "lower it")
    key = Key(CLUSTERS) / trial.pair / trial.seed
    rate = trial.rate / float(x.square().sum(1).mean())
    start = gaussian_init(
        trial.m, x.shape[1], key / "start", sigma_w=trial.sigma_w, sigma_b=0.0, sigma_a=trial.m**-0.5, activation="relu"
    )
    epoch = len(x) // trial.batch
    last = epoch * trial.epochs
    if not trial.early < last:
        raise SettingError("early", trial.early, f"below the {last} steps of training", "20 is the default")
    steps = dict(zip(SNAPSHOTS, (0, trial.early, epoch, last), strict=True))
    stage = Stage(last, rate, rate, rate, batch=trial.batch, momentum=trial.momentum)
    rows: list[Row] = []
    for labels in LABELS:
        y, seen = labels_of(data.y, labels, key / "shuffling"), list[TwoLayer]()

        def keep(net: TwoLayer, members: slice, seen: list[TwoLayer] = seen) -> Tensor:
            seen.append(net)
            return torch.zeros(len(net))

        at = sorted(set(steps.values()))
        end = fit(start, x, y, [stage], key / "batches", loss="logistic", probes={"net": keep}, probe_at=at).net
        same = {"pair": trial.pair, "labels": labels, "seed": trial.seed}
        for snapshot, step in steps.items():
            rows.append(Parted(snapshot=snapshot, **same, **parted(seen[at.index(step)], key / "clusters")))  # pyright: ignore[reportArgumentType]
        train_acc, test_acc = accuracy(end(x)[:, 0], y), accuracy(end(x_test)[:, 0], data.y_test)
        rows.append(Learnt(train_acc=train_acc, test_acc=test_acc, **same))  # pyright: ignore[reportArgumentType]
    return TrialResult(rows)


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Means over seeds by pair, labels and snapshot; the paper has pictures only."""
    out: list[SummaryRow] = []
    for (pair, labels), part in table.of(Parted).by("pair", "labels").items():
        entry = entry_of(pair)
        for snapshot in SNAPSHOTS:
            here = part.where(snapshot=snapshot)
            for column in ("silhouette_2", "silhouette_3", "silhouette_4", "centres"):
                found = here.mean(column)
                out.append(SummaryRow.of(f"{pair}, {labels} labels", snapshot, column, found, entry=entry))
    for (pair, labels), part in table.of(Learnt).by("pair", "labels").items():
        for column in ("train_acc", "test_acc"):
            where = f"{pair}, {labels} labels"
            out.append(SummaryRow.of(where, "end", column, part.mean(column), entry=entry_of(pair), unit="%"))
    return out


def entry_of(pair: Pair) -> str:
    """The figure that is about this pair, or the first."""
    return ENTRIES[set_of(pair)[0] == "SVHN"]


def draw(table: Rows) -> Mapping[str, Picture]:
    """Silhouettes of two and of four clusters by snapshot, with both kinds of labels."""
    if not table.rows:
        return {}
    made: dict[str, list[Panel]] = {}
    for pair, part in table.of(Parted).by("pair").items():
        lines = [
            Series.of(
                f"k = {k}, {labels} labels",
                {i: part.where(labels=labels, snapshot=s).mean(f"silhouette_{k}") for i, s in enumerate(SNAPSHOTS)},
            )
            for k in (2, 4)
            for labels in LABELS
        ]
        made.setdefault(entry_of(pair), []).append(Panel(lines, ", ".join(SNAPSHOTS), "cosine silhouette", title=pair))
    caption = (
        "Cosine silhouette of spherical k-means of the directions of 50 neurons at the start, early, after one epoch "
        "and at the end of training, with true labels and with labels shuffled within each class."
    )
    return {entry: line_picture(panels, caption) for entry, panels in made.items()}


def cost(trial: Trial) -> Cost:
    """Of both networks, from measured seconds on one core."""
    n, d = SIZES.get(set_of(trial.pair)[0], (12_000, 784))
    steps = trial.epochs * n / trial.batch
    return Cost(1.5 + 2 * steps * (2e-4 + 6 * trial.batch * d * trial.m / 3e10), 500 + n * d * 8e-6)


EXPERIMENT = Experiment(
    id=CLUSTERS,
    title="Pairs of classes of images: clusters of neurons, with true and with shuffled labels",
    reproduces=ENTRIES,
    rows=(Parted, Learnt),
    Config=Config,
    presets={
        "smoke": Config(pairs=("digits 0/1", "digits 4/9"), m=20, batch=32, epochs=5, seeds=(0, 1)),
        "small": Config(epochs=3, seeds=(0, 1)),
        "cpu": Config(pairs=("MNIST 0/1", "MNIST 4/9", "Fashion-MNIST t-shirt/trouser", "Fashion-MNIST pullover/coat")),
        "paper": Config(pairs=("CIFAR-10 airplane/automobile", "SVHN 0/1")),
    },
    trials=trials,
    run_trial=run_trial,
    needs=lambda trial: needs(trial.pair),
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "data of presets small and cpu",
            reported="CIFAR-10 airplane/automobile, SVHN 0/1",
            ours="pairs of classes of MNIST and of Fashion-MNIST",
            why="no registry has the others",
        ),
        Deviation(
            "loss, activation", reported="not stated", ours="logistic loss, ReLU, one output", why="as for figure 17"
        ),
        Deviation(
            "rate, batch, epochs",
            reported="not stated",
            ours="8 over the mean squared length of an image, 100, 10",
            why="on MNIST those of figure 17",
        ),
        Deviation(
            "start",
            reported="random Gaussian, scale not stated",
            ours="first layer N(0, 0.01^2), second N(0, 1/m), biases 0",
            why="as for figure 17",
        ),
        Deviation("preprocessing", reported="not stated", ours="pixels in [0, 1], not centred", why="nothing is said"),
        Deviation(
            "clusters",
            reported="a picture",
            ours="spherical k-means, silhouette with 1 - cos, against the start and against shuffled labels",
            why="a picture cannot fail, and any training on images with a mean gathers weights along it",
        ),
    ),
    cost=cost,
)
