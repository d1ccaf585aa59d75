"""The teacher of Algorithm 1 on MNIST, and curves of students of three teachers (Figure 26).

Settings and criteria, fixed before any row; rates, batches, epochs and weights were chosen on one draw of images and
Gaussian inputs with another key, so that networks interpolate within the sizes and every size trains.

- Networks FC(m), cross-entropy, m in steps of the root of 2. For each size one network is trained on `n` images of the
  set, and its loss is taken on test images.
- The classical regime. The peak is the size whose test loss is larger than the least of smaller sizes by the largest
  factor, of 1.05 or more; the regime is the sizes below it, and its minimum i_t the size of least test loss there. Of a
  curve that comes down again it is the interpolation peak. One that does not come down within the sizes, as where the
  teacher is among the networks, is U-shaped, the whole of it is classical, and the last size stands for the peak:
  `descends` says which. The factor is that from the minimum, and not the largest loss, so that losses of networks that
  are too small to fit anything are no peak. A curve without such a rise has no peak: the seed counts as not decided.
- Algorithm 1: FC(i_t) is trained once more with R1 + `mixing` R2, times `weight`, on as many Gaussian inputs, and as a
  control without it from the same start and in the same order. Labels of both on fresh Gaussian inputs: the divergence
  of their shares from uniform is smaller with R, by 0.01 nats or more.
- Figure 26: FC(i_t), FC(9), FC(50) and FC(500), each trained with R, label the same Gaussian inputs and fresh ones; the
  paper's i_t is 9. Students of all sizes, trained as the networks of the set's curve. The minimum of the students of
  FC(i_t) lies within a factor of 2 of i_t, in more than half of the seeds; as a control the same of FC(50). Minima are
  in the order of FC(9), FC(50), FC(500) in more than half of the seeds, and that of FC(500) is larger than that of
  FC(9); as a control the opposite order. Shares of seeds have exact intervals, which five seeds leave too wide: ten.

A seed draws images, Gaussian inputs, starts and orders. The Gaussian is that of `labelling`. All presets but `smoke`
need `featlearn data fetch mnist`.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.core.device import check as check_device
from featlearn.core.device import resolve
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.works._settings import check_ladders, check_seeds
from featlearn.works.emergence.experiments.labelling import (
    Training,
    agreement,
    built,
    check_set,
    check_training,
    divergence,
    drawn,
    labels,
    largest,
    needs,
    scores,
    shares,
    train,
)
from featlearn.works.emergence.rows_teachers import TEACHER, Arm, Balance, Fitted, Minimum, Target

ENTRIES = ("emergence.figure26", "emergence.algorithm1")
RISE = 1.05
"""Of the test loss, above its minimum, where a curve has a peak."""
FIXED: tuple[Arm, ...] = ("small", "middle", "large")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The size that a set's curve chooses for the teacher, its labels, and curves of students of three teachers."""

    target: Target = "MNIST"
    """Images: MNIST, Fashion-MNIST, or the bundled digits."""
    size: int = 14
    """Pixels of an edge: 28, or 14 by means of squares; digits have 8."""
    n: int = 10_000
    """Training images, and as many Gaussian inputs."""
    tested: int = 5000
    """Test images, and fresh Gaussian inputs."""
    sizes: tuple[int, ...] = (3, 4, 6, 9, 13, 18, 26, 36, 52, 72, 104, 144)
    """Hidden units of the networks of a curve."""
    teachers: tuple[int, ...] = (9, 50, 500)
    """Hidden units of the three teachers of fixed size, ascending."""
    epochs: int = 40
    """Passes over the training examples."""
    batch: int = 200
    """Examples a step."""
    rate: float = 0.06
    """Of Adam at the start, over the root of the number of units; it falls to 0."""
    weight: float = 1.0
    """Of the regulariser beside the cross-entropy."""
    mixing: float = 0.5
    """Of R2 beside R1: lambda."""
    device: str = "cpu"
    """cpu or cuda."""
    seeds: tuple[int, ...] = tuple(range(10))
    """Images, Gaussian inputs, starts and orders each."""

    def __post_init__(self) -> None:
        if self.target in ("CIFAR-10", "SVHN"):
            raise SettingError("target", self.target, "MNIST, Fashion-MNIST or digits", "FC(m) is for grey images")
        check_set(self.target, self.size, n=self.n, tested=self.tested)
        check_ladders(self, "sizes", "teachers")
        if len(self.sizes) < 3:
            raise SettingError("sizes", self.sizes, "three or more", "a U has a left, a middle and a right")
        if len(self.teachers) != len(FIXED):
            raise SettingError("teachers", self.teachers, "three sizes", "9 50 500 are reported")
        check_training(self.n, training(self))
        check_device(self.device)
        check_seeds(self.seeds)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One seed."""

    target: Target
    size: int
    n: int
    tested: int
    sizes: tuple[int, ...]
    teachers: tuple[int, ...]
    epochs: int
    batch: int
    rate: float
    weight: float
    mixing: float
    device: str
    seed: int


def training(c: Config | Trial) -> Training:
    """Of every network."""
    return Training(c.epochs, c.batch, c.rate, c.weight, c.mixing)


def trials(config: Config) -> list[Trial]:
    """One trial a seed."""
    shared = {name: value for name, value in vars(config).items() if name != "seeds"}
    return [Trial(**shared, seed=seed) for seed in config.seeds]


@dataclass(frozen=True)
class Shape:
    """The minimum of a curve in its classical regime, the size where that ends, the rise between them as a factor, and
    whether some larger size has less loss, by the same factor as makes a rise."""

    least: int
    peak: int
    rise: float
    descends: bool


def shape(curve: Mapping[int, float]) -> Shape | None:
    """Of test losses by size; None where none rises above a smaller size's by RISE.

    Example:
        >>> shape({4: 0.9, 6: 0.5, 9: 0.6, 18: 0.8, 36: 0.4})
        Shape(least=6, peak=18, rise=1.6, descends=True)
        >>> shape({4: 0.9, 6: 0.5, 9: 0.4}) is None
        True
    """
    sizes = sorted(curve)
    lowest = list(itertools.accumulate((curve[m] for m in sizes), min))
    rises = {m: curve[m] / low for m, low in zip(sizes[1:], lowest, strict=False)}
    peak = max(rises, key=lambda m: rises[m])
    if not rises[peak] >= RISE:
        return None
    below = [m for m in sizes if m < peak]
    later = [curve[m] for m in sizes if m > peak]
    return Shape(
        min(below, key=lambda m: curve[m]), peak, rises[peak], bool(later) and min(later) * RISE <= curve[peak]
    )


def run_trial(trial: Trial) -> TrialResult:
    """The set's curve, the teachers that follow from it and those of fixed size, and the curves of their students."""
    device, settings = resolve(trial.device), training(trial)
    key = Key(TEACHER) / trial.target / trial.seed
    found = drawn(trial.target, "Gaussian", trial.size, trial.n, trial.tested, key / "inputs")
    x, y, u, x_new, y_new, u_new = (
        v.to(device) for v in (found.x, found.y, found.u, found.x_new, found.y_new, found.u_new)
    )
    own = curve(trial, settings, "set", (x, y), (x_new, y_new), key / "curve")
    at = shape({r.size: r.test_loss for r in own})
    rows: list[Fitted | Minimum | Balance] = [*own, minimum(trial, "set", 0, at)]
    size = trial.teachers[0] if at is None else at.least  # where nothing is chosen, R is seen on the first teacher
    ways: tuple[tuple[Literal["yes", "no"], Tensor | None], ...] = (("yes", u), ("no", None))
    for name, on in ways:
        teacher = train(built("FC", size, x, key / "start" / size), x, y, settings, key / "teacher", balance=on)
        y_u = labels(teacher, u_new)
        rows.append(
            Balance(
                regularised=name,
                seed=trial.seed,
                size=size,
                divergence=divergence(shares(y_u)),
                mean_divergence=divergence(scores(teacher, u_new).double().softmax(1).mean(0)),
                largest=largest(y_u),
                test_acc=agreement(labels(teacher, x_new), y_new),
            )
        )
    arms: dict[Arm, int | None] = {"chosen": at and at.least, **dict(zip(FIXED, trial.teachers, strict=True))}
    seen: dict[int, list[Fitted]] = {}
    for arm, m in arms.items():
        if m is None:
            rows.append(minimum(trial, arm, None, None))
            continue
        if m not in seen:
            teacher = train(built("FC", m, x, key / "start" / m), x, y, settings, key / "teacher", balance=u)
            of = [(v, labels(teacher, v)) for v in (u, u_new)]
            seen[m] = curve(trial, settings, arm, of[0], of[1], key / "students")
        mine = [Fitted(**{**vars(r), "arm": arm}) for r in seen[m]]
        rows += [*mine, minimum(trial, arm, m, shape({r.size: r.test_loss for r in mine}))]
    return TrialResult(rows)


def curve(
    trial: Trial, settings: Training, arm: Arm, on: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor], key: Key
) -> list[Fitted]:
    """Networks of all sizes on examples, and their losses there and on fresh ones."""
    rows = []
    for m in trial.sizes:
        net = train(built("FC", m, on[0], key / m), *on, settings, key / m / "order")
        (loss, acc), (test_loss, test_acc) = (
            (float(functional.cross_entropy(s.double(), y)), agreement(s.argmax(1), y))
            for s, y in ((scores(net, x), y) for x, y in (on, new))
        )
        rows.append(
            Fitted(
                arm=arm,
                size=m,
                seed=trial.seed,
                train_loss=loss,
                train_acc=acc,
                test_loss=test_loss,
                test_acc=test_acc,
            )
        )
    return rows


def minimum(trial: Trial, arm: Arm, teacher: int | None, at: Shape | None) -> Minimum:
    """The row of a curve."""
    return Minimum(
        arm=arm,
        seed=trial.seed,
        target=trial.target,
        examples=trial.n,
        pixels=trial.size,
        teacher=teacher,
        least=at and at.least,
        peak=at and at.peak,
        rise=at and at.rise,
        descends=at and at.descends,
    )


# --- tables and pictures ---------------------------------------------------------------------------------------------

NAMED: dict[Arm, str] = {
    "set": "labels of the set",
    "chosen": "teacher FC(i_t)",
    "small": "first teacher",
    "middle": "second teacher",
    "large": "third teacher",
}


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Minima and peaks in units, mean over seeds that have them; the labels of the teacher with R and without."""
    out: list[SummaryRow] = []
    if not table.rows:
        return out
    for arm, part in table.of(Minimum).by("arm").items():
        decided = [r for r in part.rows if r.least is not None]
        name = named(arm, part.rows[0].teacher)
        out.append(
            SummaryRow.of("classical regime", name, "seeds with a peak", 100 * len(decided) / len(part), unit="%")
        )
        for column, words in (("least", "units at the minimum"), ("peak", "units at the peak"), ("rise", "rise")):
            values = [float(getattr(r, column)) for r in decided]
            if values:
                out.append(
                    SummaryRow.of("classical regime", name, words, values, geometric=min(values) > 0, entry=ENTRIES[0])
                )
    for how, part in table.of(Balance).by("regularised").items():
        name = "with R" if how == "yes" else "without R"
        for column, words, unit in (
            ("divergence", "divergence of labels from uniform (nats)", ""),
            ("mean_divergence", "divergence of the mean prediction (nats)", ""),
            ("largest", "share of the most frequent label", "%"),
            ("test_acc", "test accuracy", "%"),
        ):
            found = [float(getattr(r, column)) for r in part.rows]
            out.append(SummaryRow.of("teacher FC(i_t)", name, words, found, entry=ENTRIES[1], unit=unit))
    return out


def named(arm: Arm, teacher: int | None) -> str:
    """Of an arm, with its size where it is one for all seeds."""
    return f"teacher FC({teacher})" if arm in FIXED else NAMED[arm]


def draw(table: Rows) -> Mapping[str, Picture]:
    """The curves by size, one panel each as in Figure 26."""
    if not table.rows:
        return {}
    teachers = {arm: part.rows[0].teacher for arm, part in table.of(Minimum).by("arm").items()}
    panels = []
    for arm, part in sorted(table.of(Fitted).by("arm").items(), key=lambda item: list(NAMED).index(item[0])):
        lines = [
            Series.of(words, {m: rows.mean(column) for m, rows in part.by("size").items()})
            for column, words in (("test_loss", "new inputs"), ("train_loss", "training"))
        ]
        panels.append(Panel(lines, "hidden units", "cross-entropy", title=named(arm, teachers[arm]), log="x"))
    caption = (
        "Loss of FC(m) on images with labels of the set, and of students on Gaussian inputs that teachers label; mean "
        "and 95 % interval over seeds."
    )
    return {ENTRIES[0]: line_picture(panels, caption)}


def cost(trial: Trial) -> Cost:
    """Steps, by their operations and what each takes anyway, as measured on one core."""
    steps = training(trial).steps(trial.n)
    d = {8: 64, 14: 196, 28: 784}[trial.size]
    units = 5 * sum(trial.sizes) + 2 * sum(trial.teachers)
    runs = 5 * len(trial.sizes) + len(trial.teachers) + 3
    each = 1e-10 if trial.device == "cpu" else 1e-12
    return Cost(3 + steps * (runs * 6.5e-4 + each * trial.batch * d * units), 700 + 4e-6 * 8 * trial.n * d)


EXPERIMENT = Experiment(
    id=TEACHER,
    title="The size of a teacher by the minimum of its curve, its labels, and curves of its students",
    reproduces=ENTRIES,
    Config=Config,
    presets={
        "smoke": Config(
            target="digits",
            size=8,
            n=800,
            tested=400,
            sizes=(2, 4, 8, 16),
            teachers=(3, 6, 12),
            epochs=15,
            batch=50,
            seeds=(0, 1),
        ),
        "small": Config(n=2000, tested=2000, sizes=(3, 4, 6, 9, 13, 18, 26, 52), teachers=(9, 50, 100), seeds=(0, 1)),
        "cpu": Config(),
        "paper": Config(
            size=28,
            n=60_000,
            tested=10_000,
            sizes=(3, 4, 6, 9, 13, 18, 26, 36, 52, 72, 104, 144, 208, 288, 416, 576, 832, 1152),
            device="cuda",
        ),
    },
    trials=trials,
    run_trial=run_trial,
    needs=lambda trial: needs(trial.target, ("Gaussian",)),
    summarise=summarise,
    draw=draw,
    rows=(Fitted, Minimum, Balance),
    deviations=(
        Deviation(
            "images",
            reported="MNIST",
            ours="10000 of them at 14 x 14 and as many Gaussian inputs; paper: 60000 at 28 x 28",
            why="two cores",
        ),
        Deviation("sizes", reported="not stated", ours="3 to 144 in steps of the root of 2", why="needed"),
        Deviation(
            "optimiser, batch, epochs",
            reported="not stated",
            ours="Adam, 200, 40, the rate over the root of the units and falling to 0",
            why="all sizes train, and large ones interpolate",
        ),
        Deviation("weights of R", reported="not stated", ours="1, and lambda 1/2", why="needed"),
        Deviation(
            "classical regime",
            reported="identified in a plot",
            ours="sizes below the one whose test loss rises by the largest factor above its minimum so far",
            why="a picture cannot fail",
        ),
        Deviation(
            "Gaussian inputs",
            reported="mean and covariance not stated",
            ours="mean and variance of each pixel of the training images, independent",
            why="inputs of the same size",
        ),
        Deviation("size of a curve", reported="parameters", ours="units, m (d + 11) + 10 parameters", why="the same"),
    ),
    cost=cost,
)
