"""The task of two inputs: linear features with a head by gradient descent, with and without the nuclear norm.

The work shows Figures 6.2 and 6.3 with out-of-distribution accuracies 0.76 (ERM) and 0.94 (ERM-NU) "at convergence", in
distribution nearly perfect, without the size of the sample, the start, the head, the step or the weight. Measured here:

* paths: accuracy over training time from many starts, for both objectives and for a free head and one of norm 1;
* ends: after long training, over the weight of the nuclear norm, of the squared norm of the features (equation 6.4,
  with a unit head), and of weight decay of both layers;
* where 0.76 and 0.94 lie on these: shares of starts near them at each step.

Accuracies are exact for the law: they depend on the direction A'a alone. n = 0 trains on the law itself, by Gauss
quadrature. Weights of the nuclear norm are for ||Phi(X)||_* / sqrt(n), whose meaning does not change with n.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.lab.estimate import estimates
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.tasks import Environments2d as Plane
from featlearn.works._settings import check_counts, check_filled, check_ladders, check_positive, check_seeds
from featlearn.works.nuclear.experiments.plane_pictures import ENTRIES, REPORTED, SHOWN, draw
from featlearn.works.nuclear.rows import (
    DECAY_FREE,
    DECAY_UNIT,
    ERM,
    FREE,
    NEAR,
    NU,
    NUCLEAR_FREE,
    NUCLEAR_UNIT,
    SYNTHETIC,
    UNIT,
    End,
    Path,
    place,
)

METRICS = ("id", "ood", "train_loss")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Figures 6.2 and 6.3: linear features of two inputs, with and without the nuclear norm."""

    n: tuple[int, ...] = (30, 100, 1000, 0)
    """Training samples; 0 stands for the law itself."""
    agree: float = 0.7
    """Probability that the second input agrees with the label in distribution; out of it, that it does not."""
    starts: int = 20
    """Random starts per size of the start, on one sample."""
    scales: tuple[float, ...] = (0.1, 1.0)
    """Size of the start: entries of A and the head are N(0, scale^2 / 2); a head of norm 1 is fixed."""
    weight: float = 0.1
    """Weight of the nuclear norm, divided by sqrt(n), on the paths over time."""
    decay_unit: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    """Weights lambda of (lambda / 2) |A|^2 with a unit head."""
    decay_free: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2)
    """Weights lambda of (lambda / 2) (|A|^2 + |a|^2)."""
    nuclear: tuple[float, ...] = (0.003, 0.01, 0.03, 0.1, 0.2, 0.4)
    """Weights of the nuclear norm divided by sqrt(n), with a unit and with a free head."""
    rate: float = 0.3
    """Step size of the paths."""
    steps: int = 3000
    """Steps of the paths."""
    end_rate: float = 1.0
    """Step size of the runs with a penalty; it falls to a thousandth in their second half, since a subgradient of the
    nuclear norm does not get smaller by itself."""
    end_steps: int = 3000
    """Steps of the runs with a penalty."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """A sample and starts each."""

    def __post_init__(self) -> None:
        check_filled(self, "n", "scales")
        if any(n < 0 for n in self.n) or len(set(self.n)) < len(self.n):
            raise SettingError("n", self.n, "different sizes, 0 or more", "0 stands for the law itself")
        if not 0.5 < self.agree < 1:
            raise SettingError("agree", self.agree, "in (1/2, 1)", "0.7 is reported")
        check_ladders(self, "scales", "decay_unit", "decay_free", "nuclear")
        check_positive(self, "weight", "rate", "end_rate")
        check_counts(self, "starts", "steps", "end_steps")
        check_seeds(self.seeds)
        if self.end_rate * max(*self.decay_unit, *self.decay_free) > 1:
            raise SettingError("end_rate", self.end_rate, "at most 1 / the largest decay", "lower it")


@dataclass(frozen=True)
class Trial:
    """One sample with all its starts and weights."""

    n: int
    agree: float
    starts: int
    scales: tuple[float, ...]
    weight: float
    decay_unit: tuple[float, ...]
    decay_free: tuple[float, ...]
    nuclear: tuple[float, ...]
    rate: float
    steps: int
    end_rate: float
    end_steps: int
    seed: int
    pictures: bool


def trials(config: Config) -> list[Trial]:
    """One trial per size of the sample and seed; the first seed also keeps its points."""
    c = config
    return [
        Trial(
            n,
            c.agree,
            c.starts,
            c.scales,
            c.weight,
            c.decay_unit,
            c.decay_free,
            c.nuclear,
            c.rate,
            c.steps,
            c.end_rate,
            c.end_steps,
            seed,
            seed == c.seeds[0],
        )
        for n in c.n
        for seed in c.seeds
    ]


@dataclass(frozen=True)
class Points:
    """What is trained on: y x (n, 2), with weights (n) that sum to 1."""

    z: Float[Tensor, "n 2"]
    share: Float[Tensor, " n"]


def law(agree: float, order: int = 8) -> Points:
    """The law of y x as points of Gauss-Legendre quadrature on [0, 1]^2 and [0, 1] x [-1, 0]."""
    x, w = (torch.from_numpy(v) for v in np.polynomial.legendre.leggauss(order))
    x, w = (x + 1) / 2, w / 2
    square = torch.cartesian_prod(x, x)
    each = torch.cartesian_prod(w, w).prod(1)
    z = torch.cat([square, square * torch.tensor([1.0, -1.0])])
    return Points(z.float(), torch.cat([agree * each, (1 - agree) * each]).float())


@dataclass(frozen=True)
class Members:
    """An ensemble of linear features with a head, all on one sample.

    a (m, 2, 2): features A x; head (m, 2); free (m): whose head learns; nuclear, decay (m): weights of
    ||Phi(X)||_* / sqrt(n) and of half the squared norm of what learns.
    """

    a: Float[Tensor, "m 2 2"]
    head: Float[Tensor, "m 2"]
    free: Bool[Tensor, " m"]
    nuclear: Float[Tensor, " m"]
    decay: Float[Tensor, " m"]

    @property
    def direction(self) -> Float[Tensor, "m 2"]:
        """A'a (m, 2), all that predictions depend on."""
        return (self.a * self.head[:, :, None]).sum(1)


def started(
    key: Key, starts: int, scale: float, free: bool, nuclear: Sequence[float], decay: Sequence[float]
) -> Members:
    """`starts` members with Gaussian starts for each pair of weights; the same starts for each pair."""
    g = key.torch()
    a, head = scale * torch.randn(starts, 2, 2, generator=g) / 2**0.5, torch.randn(starts, 2, generator=g) / 2**0.5
    head = scale * head if free else functional.normalize(head)
    k = len(nuclear)
    weights = (torch.tensor(v).repeat_interleave(starts) for v in (list(nuclear), list(decay)))
    return Members(a.repeat(k, 1, 1), head.repeat(k, 1), torch.full((k * starts,), free), *weights)


def joined(parts: Sequence[Members]) -> Members:
    """One ensemble of several."""
    return Members(*(torch.cat([getattr(p, f) for p in parts]) for f in ("a", "head", "free", "nuclear", "decay")))


def polar(b: Float[Tensor, "m 2 2"]) -> Float[Tensor, "m 2 2"]:
    """The subgradient U V' of the nuclear norm at matrices of 2 x 2, as `featlearn.methods.nuclear_norm` has it.

        U V' = (B + sign(det B) cof B) / ||B||_*,   ||B||_*^2 = |B|_F^2 + 2 |det B|

    Written out because it is called at every step: a batch of eigendecompositions takes 20 times as long.
    """
    cofactors = b.flip(1, 2) * _SIGNS
    det = (b[:, 0] * cofactors[:, 0]).sum(1)[:, None, None]
    norm = (b.square().sum((1, 2), keepdim=True) + 2 * det.abs()).sqrt()
    return (b + det.sign() * cofactors) / norm.clamp(min=torch.finfo(b.dtype).tiny)


_SIGNS = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])


def descend(
    members: Members,
    points: Points,
    rate: float,
    steps: int,
    evaluations: Sequence[int] = (),
    evaluate: Callable[[int, Members], None] | None = None,
    settle: bool = False,
) -> Members:
    """Gradient descent on the mean logistic loss of y a'A x plus the penalties; `evaluate` is called before a step in
    `evaluations`. settle: the rate falls to a thousandth in the second half.

    ||Phi(X)||_* / sqrt(n) = ||R A'||_* with R'R the second moments of the sample, a matrix of 2 x 2 for any n.
    """
    z, weighted = points.z, points.z * points.share[:, None]
    root = torch.linalg.cholesky(weighted.double().mT @ z.double()).mT.float()
    a, head, nuclear = members.a, members.head, members.nuclear[:, None, None]
    first = int((members.nuclear > 0).logical_not().sum())  # those with a nuclear norm come last
    assert bool((members.nuclear[first:] > 0).all()), "sort the members by whether they have a nuclear norm"
    decay, free = members.decay[:, None, None], members.free[:, None].float()
    seen = set(evaluations)
    for step in range(steps + 1):
        if evaluate is not None and step in seen:
            evaluate(step, Members(a, head, members.free, members.nuclear, members.decay))
        if step == steps:
            break
        w = (a * head[:, :, None]).sum(1)
        slope = -torch.sigmoid(-z @ w.mT).mT @ weighted
        da = head[:, :, None] * slope[:, None, :] + decay * a
        da[first:] += nuclear[first:] * (polar(root @ a[first:].mT).mT @ root)
        dhead = (a @ slope[:, :, None])[:, :, 0] + decay[:, 0] * head
        now = rate * (10 ** min(0.0, 3 * (1 - 2 * step / steps)) if settle else 1.0)
        a, head = a - now * da, head - now * free * dhead
    return Members(a, head, members.free, members.nuclear, members.decay)


def train_loss(members: Members, points: Points) -> Float[Tensor, " m"]:
    """Mean logistic loss (m), without penalties."""
    return (functional.softplus(-points.z @ members.direction.mT) * points.share[:, None]).sum(0)


def closest(trial: "Trial") -> float:
    """The weight of the end that is drawn."""
    return min(trial.nuclear, key=lambda w: abs(w - trial.weight))


def path_rows(
    members: Members, points: Points, trial: Trial, groups: Sequence[Mapping[str, Any]], step: int
) -> list[Path]:
    """One row per group of `starts` members: quantiles over starts."""
    w, loss = members.direction, train_loss(members, points)
    task = Plane(trial.agree)
    inside, out = task.accuracy(w), task.shifted.accuracy(w)
    rows = []
    for i, group in enumerate(groups):
        own = slice(i * trial.starts, (i + 1) * trial.starts)
        low, middle, high = torch.quantile(out[own], torch.tensor([0.05, 0.5, 0.95], dtype=out.dtype)).tolist()
        near = (out[own] - REPORTED[str(group["row"])]).abs() <= NEAR
        rows.append(
            Path(
                **group,
                step=step,
                ood_low=low,
                ood=middle,
                ood_high=high,
                id=float(inside[own].mean()),
                train_loss=float(loss[own].mean()),
                near=float(near.double().mean()),
            )
        )
    return rows


def run_trial(trial: Trial) -> TrialResult:
    """Both ensembles on one sample: rows over time, rows of the ends, points for the pictures."""
    key = Key(SYNTHETIC) / trial.n / trial.seed
    if trial.n:
        task = Plane(trial.agree)
        batch = task.sample(task.draw(key / "truth"), trial.n, key / "sample")
        points = Points(batch.x * batch.y[:, None], torch.full((trial.n,), 1 / trial.n))
    else:
        points = law(trial.agree)
    base: dict[str, Any] = {"n": trial.n, "seed": trial.seed}
    rows: list[Path | End] = []
    groups, parts = [], []
    for name, weight in ((ERM, 0.0), (NU, trial.weight)):
        for head in (FREE, UNIT):
            for scale in trial.scales:
                groups.append({**base, "row": name, "head": head, "scale": scale})
                parts.append(started(key / "start" / f"{scale:g}", trial.starts, scale, head == FREE, [weight], [0.0]))
    evaluations = sorted(
        {t for t in SHOWN if t <= trial.steps}
        | {trial.steps, *np.unique(np.geomspace(1, trial.steps, 40).round().astype(int)).tolist()}
    )
    scatter: dict[str, np.ndarray] = {}

    def evaluate(step: int, members: Members) -> None:
        rows.extend(path_rows(members, points, trial, groups, step))
        if trial.pictures and step in SHOWN:
            scatter[f"starts/{step}"] = members.direction.numpy()

    paths = descend(joined(parts), points, trial.rate, trial.steps, evaluations, evaluate)
    kinds = (
        (DECAY_UNIT, False, 0.0, trial.decay_unit),
        (DECAY_FREE, True, 0.0, trial.decay_free),
        (NUCLEAR_UNIT, False, 1.0, trial.nuclear),
        (NUCLEAR_FREE, True, 1.0, trial.nuclear),
    )
    few = 2
    parts = [
        started(key / "end", few, 1.0, free, [nu * w for w in ladder], [(1 - nu) * w for w in ladder])
        for _, free, nu, ladder in kinds
    ]
    ends = descend(joined(parts), points, trial.end_rate, trial.end_steps, settle=True)
    names = [(name, w) for name, _, _, ladder in kinds for w in ladder]
    rows += end_rows(ends, points, trial, base, names, few)
    arrays: dict[str, np.ndarray] = {}
    if trial.pictures:
        at = few * names.index((NUCLEAR_UNIT, closest(trial)))
        first = (len(trial.scales) - 1) * trial.starts  # the largest start, from which ERM has two features
        shown = {ERM: (paths.a[first], paths.head[first]), NU: (ends.a[at], ends.head[at])}
        arrays = scatter | {"agree": np.array(trial.agree)}
        for where, task in (("ID", Plane(trial.agree)), ("OOD", Plane(trial.agree).shifted)):
            batch = task.sample(task.draw(key / "truth"), 400, key / "shown" / where)
            for name, (a, head) in shown.items():
                arrays[f"{name}/head"] = head.numpy()
                arrays[f"{name}/{where}/features"] = (batch.x @ a.mT).numpy()
                arrays[f"{name}/{where}/label"] = batch.y.numpy()
                arrays[f"{name}/{where}/accuracy"] = task.accuracy((head @ a)[None]).numpy()
    return TrialResult(rows, arrays)


def end_rows(
    ends: Members,
    points: Points,
    trial: Trial,
    base: Mapping[str, Any],
    names: Sequence[tuple[str, float]],
    few: int,
) -> list[End]:
    """One row per penalty and weight: means over its `few` starts, and how far apart these end."""
    w, loss = ends.direction.double(), train_loss(ends, points)
    task = Plane(trial.agree)
    inside, out = task.accuracy(w), task.shifted.accuracy(w)
    top = torch.linalg.matrix_norm(ends.a, 2)
    rows = []
    for i, (name, weight) in enumerate(names):
        own = slice(i * few, (i + 1) * few)
        rows.append(
            End(
                **base,
                row=name,  # pyright: ignore[reportArgumentType]
                weight=weight,
                slope=float((w[own, 1] / w[own, 0]).mean()),
                id=float(inside[own].mean()),
                ood=float(out[own].mean()),
                train_loss=float(loss[own].mean()),
                spread=float(out[own].max() - out[own].min()),
                head_norm=float(ends.head[own].norm(dim=1).mean()),
                top=float(top[own].mean()),
            )
        )
    return rows


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """At the last step and where the median start has the paper's accuracy; ends over weights."""
    last = max((r["step"] for r in table.rows if "step" in r), default=None)
    rows = [
        {**r, "setting": f"{place(r['n'])}, {r['head']}, start {r['scale']:g}"}
        for r in table.rows
        if "step" in r and r["step"] == last
    ]
    out = []
    for e in estimates(rows, metrics=METRICS):
        setting, row = str(e.group[0]), str(e.group[1])
        entry = ENTRIES[0] if row == ERM else ENTRIES[1]
        reported = REPORTED[row] if e.metric == "ood" else None
        agrees = reported is not None and abs(e.value - reported) <= NEAR
        verdict = "not reported" if reported is None else "reproduced" if agrees else "deviates"
        out.append(
            SummaryRow(
                setting,
                row=row,
                metric=e.metric,
                value=e.value,
                low=e.low,
                high=e.high,
                n=e.n,
                reported=reported,
                verdict=verdict,
                entry=entry,
            )
        )
    ends = [{**r, "setting": place(r["n"]), "row": f"{r['row']}, {r['weight']:g}"} for r in table.rows if "weight" in r]
    for e in estimates(ends, metrics=(*METRICS, "slope")):
        out.append(
            SummaryRow(
                str(e.group[0]),
                row=str(e.group[1]),
                metric=e.metric,
                value=e.value,
                low=e.low,
                high=e.high,
                n=e.n,
                entry=ENTRIES[str(e.group[1]).startswith("nuclear")],
            )
        )
    return out


def cost(trial: Trial) -> Cost:
    """From measured seconds on one core."""
    members = 4 * len(trial.scales) * trial.starts
    penalised = members / 2
    ends = 2 * (len(trial.decay_unit) + len(trial.decay_free) + 2 * len(trial.nuclear))
    n = trial.n or 128
    seconds = trial.steps * (3e-4 + 5e-9 * n * members + 8e-6 * penalised)
    return Cost(0.5 + seconds + trial.end_steps * (4e-4 + 5e-9 * n * ends + 8e-6 * ends / 2), 400)


EXPERIMENT = Experiment(
    id=SYNTHETIC,
    title="Two inputs, linear features: what the nuclear norm does out of distribution",
    reproduces=ENTRIES,
    rows=(Path, End),
    Config=Config,
    presets={
        "smoke": Config(
            n=(100, 0),
            starts=4,
            steps=120,
            end_steps=150,
            nuclear=(0.1, 0.4),
            decay_unit=(0.1, 1.0),
            decay_free=(0.1,),
            seeds=(0, 1),
        ),
        "small": Config(steps=1000),
        "paper": Config(steps=10000, end_steps=10000, seeds=tuple(range(10))),
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation(
            "sample, start, head, step size, weight, stopping",
            reported="not stated",
            ours="ranges of each",
            why="needed",
        ),
        Deviation(
            "law of x2 given y = -1",
            reported="not stated",
            ours="the mirror image of that given y = 1",
            why="the usual reading",
        ),
        Deviation("bias", reported="not stated", ours="none", why="the law is symmetric: the best bias is 0"),
        Deviation(
            "accuracy",
            reported="on points that are drawn",
            ours="exact for the law, by direction",
            why="no noise of the test",
        ),
        Deviation(
            "nuclear norm",
            reported="||Phi(X)||_*",
            ours="||Phi(X)||_* / sqrt(n)",
            why="lambda of the paper is weight / sqrt(n)",
        ),
    ),
    cost=cost,
)
