"""Linear data of section 7.2.2: what pretraining on T tasks learns, and the risk of linear probing on one of them.

Settings and criteria, fixed before any row. r = 20 features a task, s = 10 of them shared, labels with v_1 = v_2 = 1/2:
the example of section 7.2.2. Labels are noiseless, so that with m < r of them every empirical risk minimiser in F
interpolates and there are many. Two are measured: the one of least norm, to which gradient descent from 0 leads, and
the one of F with the largest risk, which the bound of Proposition 7.3 speaks of as much. Risks are exact given the m
samples: l_c(u, y) = |u - y|, L = 1, and a Gaussian error. m = 5, 10 and 15 are a quarter, half and three quarters of r;
half is s, where interpolation of shared features is at its most fragile and growth with T should be strongest.

Representations: the optimum that Proposition F.8 names (1 on S, 1/sqrt(T) on P); the one that projected SGD on the
logistic contrastive loss learns from samples of the mixture; and F.9's, at its largest T and gamma = 1. The loss has
temperature r, since at 1 its slope at typical t = r is e^(-r); the propositions hold for every convex decreasing l.
T = 1, 2, 4, 8, 16, and for the closed form 64 and 256 beside them: the ratio of the bounds is (T + 1)/(2 sqrt T), whose
own exponent over T = 1..16 is far below 1/2 and beyond 16 within 0.03 of it, so that growth as sqrt(T) can be told only
there. The unit is the seed: dictionary, labels, pretraining samples and 1000 draws of m samples each, the same ones
for every T. Slopes are within seeds, on logarithms, with Hotelling's test of fit.
Criteria (claims/mixtures.py): exponents within 0.1 of 1/2; risks that differ by 0.004, half a per cent of the zero
predictor's sqrt(2/pi); trained weights within 0.01 of the optimum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.learn import fit_linear_contrastive
from featlearn.report.plots import Panel, Picture, Series, line_picture
from featlearn.tasks import TaskMixture
from featlearn.tasks.task_mixture import MixtureTruth
from featlearn.works._settings import check_counts, check_entries, check_filled, check_positive, check_seeds
from featlearn.works.tradeoff.rows import CLOSED, EVEN, MIXTURES, TRAINED, TUNED, UNEVEN, Learned, Probe, Representation

ENTRY = "tradeoff.propF_8"
ENTRIES = (ENTRY, "tradeoff.prop7_3", "tradeoff.prop7_4", "tradeoff.propF_9", "tradeoff.lemmaF_3")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Mixtures of tasks, labels, and what is learned from each."""

    tasks: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Tasks in the mixture, of trained representations and of closed forms."""
    more: tuple[int, ...] = (64, 256)
    """Tasks of closed forms alone."""
    labels: tuple[int, ...] = (5, 10, 15)
    """Labelled samples of the target task, fewer than r."""
    r: int = 20
    """Features of a task."""
    s: int = 10
    """Features that all tasks share."""
    spurious: int = 10
    """Features that the transformation draws anew."""
    gamma: float = 1.0
    """How far contrastive fine-tuning on the target may move the weights, in Frobenius norm."""
    uneven: float = 0.55
    """Weight of the target in a mixture of two tasks."""
    steps: int = 1000
    """Steps of pretraining."""
    batch: int = 4096
    """Positive pairs a step."""
    rate: float = 20.0
    """Step size."""
    draws: int = 1000
    """Draws of the labelled samples."""
    seeds: tuple[int, ...] = tuple(range(12))
    """Dictionaries, labels and samples."""

    def __post_init__(self) -> None:
        check_filled(self, "tasks", "labels")
        check_entries(self, 1, "tasks", "more", "labels")
        check_counts(self, "r", "s", "spurious", "steps", "batch", "draws")
        check_positive(self, "rate")
        check_seeds(self.seeds)
        if not self.s < self.r:
            raise SettingError("s", self.s, f"below r = {self.r}", "tasks own features too")
        if max(self.labels) >= self.r:
            raise SettingError("labels", self.labels, f"below r = {self.r}", "r labels tell the target without error")
        if not 0 <= self.gamma < math.inf:
            raise SettingError("gamma", self.gamma, "a finite number of at least 0", "0 does not tune")
        if not 0 < self.uneven < 1:
            raise SettingError("uneven", self.uneven, "above 0 and below 1", "two tasks share the mixture")
        if set(self.tasks) & set(self.more):
            raise SettingError("more", self.more, "other numbers than in tasks", "drop what stands in both")


@dataclass(frozen=True)
class Pretraining:
    """A mixture to learn from, and labels to probe with."""

    tasks: int
    weights: tuple[float, ...]
    labels: tuple[int, ...]
    r: int
    s: int
    spurious: int
    steps: int
    batch: int
    rate: float
    draws: int
    seed: int


@dataclass(frozen=True)
class ClosedForm:
    """Weights 1 on shared features and `own` on those of the target, and labels to probe with."""

    representation: Representation
    tasks: int
    own: float
    labels: tuple[int, ...]
    r: int
    s: int
    spurious: int
    draws: int
    seed: int


def trials(config: Config) -> list[Pretraining | ClosedForm]:
    """One trial per mixture and seed that is trained, and per closed form and seed."""
    c, found = config, []
    mixtures: list[tuple[int, tuple[float, ...]]] = [*((t, ()) for t in c.tasks), (2, (c.uneven, 1 - c.uneven))]
    largest = max(c.tasks)
    tuned = min(1.0, largest**-0.5 + c.gamma / math.sqrt(c.r - c.s))
    forms: list[tuple[Representation, int, float]] = [
        *((CLOSED, t, t**-0.5) for t in (*c.tasks, *c.more)),
        (TUNED, largest, tuned),
    ]
    for seed in c.seeds:
        found += [
            Pretraining(t, w, c.labels, c.r, c.s, c.spurious, c.steps, c.batch, c.rate, c.draws, seed)
            for t, w in mixtures
        ]
        found += [ClosedForm(name, t, own, c.labels, c.r, c.s, c.spurious, c.draws, seed) for name, t, own in forms]
    return found


def run_trial(trial: Pretraining | ClosedForm) -> TrialResult:
    """Pretrain and probe, or probe a closed form."""
    if isinstance(trial, Pretraining):
        return TrialResult(_pretrain(trial))
    own = torch.full((trial.r - trial.s,), trial.own**2)
    gram = torch.diag(torch.cat([torch.ones(trial.s), own, torch.zeros(trial.spurious)]))
    task = TaskMixture(tasks=1, r=trial.r, s=trial.s, spurious=trial.spurious)
    label = task.draw(Key(MIXTURES) / trial.seed).label
    return TrialResult(_probes(trial, trial.representation, trial.tasks, gram, label))


def _pretrain(trial: Pretraining) -> list[Learned | Probe]:
    t, r, s = trial.tasks, trial.r, trial.s
    task = TaskMixture(tasks=t, r=r, s=s, spurious=trial.spurious, weights=trial.weights)
    key = Key(MIXTURES) / trial.seed
    truth = task.draw(key)
    gram = _in_features(task, truth, trial, key / "pretraining" / t / str(trial.weights))
    diagonal = gram.diagonal()
    ideal = torch.zeros(task.d)
    ideal[: task.k], ideal[:s] = 1 / t, 1.0
    found: list[Learned | Probe] = [
        Learned(
            tasks=t,
            mixture=UNEVEN if trial.weights else EVEN,
            weight=(trial.weights or (1 / t,))[0],
            r=r,
            s=s,
            temperature=float(r),
            seed=trial.seed,
            shared=float(diagonal[:s].mean()),
            own=float(diagonal[s:r].mean()),
            other=float(diagonal[r : task.k].mean()) if t > 1 else None,
            spurious=float(diagonal[task.k :].mean()),
            distance=None if trial.weights else float((gram - ideal.diag()).norm() / ideal.norm()),
        )
    ]
    if not trial.weights:
        alive = torch.cat([task.of_task(0), torch.arange(task.k, task.d)])
        found += _probes(trial, TRAINED, t, gram[alive][:, alive], truth.label)
    return found


def _in_features(task: TaskMixture, truth: MixtureTruth, trial: Pretraining, key: Key) -> Tensor:
    """(WM)^T WM after pretraining."""
    gram = fit_linear_contrastive(
        lambda step: task.pairs(truth, trial.batch, key / step),
        budget=float(trial.r),
        steps=trial.steps,
        rate=trial.rate,
        temperature=float(trial.r),
    )
    return truth.dictionary.T @ gram @ truth.dictionary


def _probes(
    trial: Pretraining | ClosedForm, name: Representation, tasks: int, gram: Tensor, label: Tensor
) -> list[Probe]:
    key = Key(MIXTURES) / trial.seed / "labels"
    found = []
    for m in trial.labels:
        z = torch.randn(trial.draws, m, len(gram), generator=(key / m).torch(), dtype=torch.float64)
        risk, worst = probe_risks(gram.double(), label.double(), z)
        found.append(
            Probe(
                representation=name,
                tasks=tasks,
                m=m,
                r=trial.r,
                s=trial.s,
                seed=trial.seed,
                risk=risk,
                worst=worst,
            )
        )
    return found


def probe_risks(gram: Tensor, label: Tensor, z: Tensor) -> tuple[float, float]:
    """Mean risks E |u^T phi - y| of the interpolator of least norm, and of the worst within the norm of the truth.

    gram (d, d): (WM)^T WM over features alive on the task; label (r): y = <label, z_1..r>; z (draws, m, d).
    With w = u along W's principal directions and R the root of gram, u^T phi = <R w, z>: samples fix w up to the null
    space N of z R, in which the truth lies at c* and the worst w of the same norm solves (H - lambda) c = H c*, where
    H = N^T gram N and lambda is above its largest eigenvalue.
    """
    values, vectors = torch.linalg.eigh((gram + gram.T) / 2)
    live = values > 1e-6 * values[-1]
    root = vectors[:, live] * values[live].sqrt()  # (d, k): R without its null space
    u = torch.cat([label, label.new_zeros(len(gram) - len(label))])
    truth = torch.linalg.lstsq(root, u[:, None], driver="gelsd").solution[:, 0]
    x = z @ root
    _, _, right = torch.linalg.svd(x, full_matrices=True)
    free = right[:, x.shape[1] :]  # (draws, k - m, k): null space of the samples
    star = free @ truth
    least = torch.linalg.vector_norm((free.transpose(1, 2) @ star[..., None])[..., 0] @ root.T, dim=1)
    h, basis = torch.linalg.eigh(free @ (root.T @ root) @ free.transpose(1, 2))
    b = (basis.transpose(1, 2) @ star[..., None])[..., 0]
    size = torch.linalg.vector_norm(b, dim=1)
    top = h[:, -1:]
    low, high = torch.zeros_like(top), top * 1e6
    for _ in range(200):
        gap = (low + high) / 2
        c = -h * b / (top + gap - h)
        longer = torch.linalg.vector_norm(c, dim=1, keepdim=True) > size[:, None]
        low, high = torch.where(longer, gap, low), torch.where(longer, high, gap)
    c = -h * b / (top + high - h)
    c = c * (size / torch.linalg.vector_norm(c, dim=1))[:, None]
    worst = (h * (c - b).square()).sum(1).sqrt()
    scale = math.sqrt(2 / math.pi)
    return scale * float(least.mean()), scale * float(worst.mean())


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Weights that pretraining has learned, and risks by tasks and labels."""
    out: list[SummaryRow] = []
    for (t, mixture), part in table.of(Learned).by("tasks", "mixture").items():
        setting = f"pretraining, T = {t}" + ("" if mixture == EVEN else f", weight {part.rows[0].weight:g}")
        for name in ("shared", "own", "other", "spurious", "distance"):
            if getattr(part.rows[0], name) is not None:
                out.append(SummaryRow.of(setting, "trained", name, part.column(name), entry=ENTRY))
    for (name, t, m), part in table.of(Probe).by("representation", "tasks", "m").items():
        for column in ("risk", "worst"):
            out.append(SummaryRow.of(f"m = {m}, T = {t}", name, column, part.column(column), entry=ENTRY))
    return out


def draw(table: Rows) -> Mapping[str, Picture]:
    """Risks over the number of tasks, one panel for each number of labels."""
    panels = []
    for m, part in table.of(Probe).by("m").items():
        lines = []
        for name, column in ((CLOSED, "risk"), (TRAINED, "risk"), (CLOSED, "worst")):
            means = {t: float(p.column(column).mean()) for t, p in part.where(representation=name).by("tasks").items()}
            lines.append(Series.of(f"{name}, {'least norm' if column == 'risk' else 'worst'}", means))
        first = lines[0].y[0]
        lines.append(Series.of("sqrt(T)", {t: first * t**0.5 for t in lines[0].x}))
        panels.append(Panel(lines, f"tasks T, m = {m}", "risk", log="xy"))
    return {ENTRY: line_picture(panels, "Risk of linear probing on one of T tasks, and growth as sqrt(T).")}


def cost(trial: Pretraining | ClosedForm) -> Cost:
    """From measured seconds on one core: 25 s for 1000 steps on 16 tasks, 0.2 s for a closed form."""
    if isinstance(trial, ClosedForm):
        return Cost(1 + trial.draws / 5000, 400)
    d = trial.s + trial.tasks * (trial.r - trial.s) + trial.spurious
    return Cost(4 + 2e-2 * trial.steps * (d / 180) ** 2 * max(1.0, trial.batch / 4096), 500)


EXPERIMENT = Experiment(
    id=MIXTURES,
    title="Mixtures of tasks: what is learned, and the risk of linear probing on one of them",
    reproduces=ENTRIES,
    rows=(Learned, Probe),
    Config=Config,
    presets={
        "smoke": Config(
            tasks=(1, 2), more=(8,), labels=(1, 3), r=4, s=2, spurious=2, steps=20, batch=64, draws=10, seeds=(0, 1)
        ),
        "small": Config(steps=300, batch=2048, draws=100, seeds=tuple(range(5))),
        "cpu": Config(),
        "paper": Config(seeds=tuple(range(40))),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "sizes",
            reported="any r = 2s, T and m",
            ours="r = 20, s = 10, T up to 16 (closed forms 256), m = 5, 10 and 15",
            why="the example of section 7.2.2 has no numbers",
        ),
        Deviation(
            "negatives",
            reported="E phi(x-)",
            ours="the mean of the batch before",
            why="its expectation is the same, and it is independent of the pair",
        ),
        Deviation(
            "loss",
            reported="convex and decreasing",
            ours="logistic at temperature r",
            why="at temperature 1 its slope at a typical t = r is e^(-r)",
        ),
    ),
    cost=cost,
)
