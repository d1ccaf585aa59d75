"""Layers of every rank, trained by gradients from a random start, and their errors against noise and length of prompts.

Settings and criteria, fixed before any row. Inputs of d = 6 dimensions with variances 3/i along random eigenvectors,
prompts of N = 20 examples without noise, w ~ N(0, I), as in section 5.4: neighbouring eigenvalues differ, so that the
best layer of each rank is unique, and a layer of rank r that takes direction r + 1 for its last one has an excess of
1.5 % of that of a start at r = 5, of more at other ranks. A layer of Eq. (5.1) starts at random weights and is trained
on drawn prompts, new ones at each step, by Adam, with a rate that falls to 0 as a cosine. Rate, batch and steps were
chosen on seeds from 1000 on. Form "U and u" trains the weights of Eq. (5.3), on which Theorem 5.4.1 minimises; "all
weights" also those that Lemma 5.1 has as 0, at `free_ranks`. The unit is the seed: eigenvectors, start and prompts.

The excess is exact up to its even part. Under w -> -w the answer of Eq. (5.2) splits into a part that turns with the
labels, y^T X U x_q / N with the U of `LinearSelfAttention.matrix`, and an even one, and the loss into that of Lemma 5.1
at this U and half the mean square of the even part, which is measured on HELD prompts. U has rank r at most, so that
the least loss of rank r is a bound for all weights too.
Criterion of training (Theorem 5.4.1 says nothing of it): an excess of at most 1 % of that at the start.

Map: the trained layers of form "U and u" and, on the same prompts, those of the closed form, at each M and sigma, for
w with 1 along the first 2 eigenvectors (the case of Theorem 5.4.3) and along all 6. Rank 0 answers 0. Prompts are the
same for all ranks. Criteria (claims/trained.py): losses within a tenth of Theorem 5.4.2, and the best rank that of
Theorem 5.4.2 wherever the next one is 5 % worse.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Diverged, Key, SettingError, Truth
from featlearn.lab.experiment import Cost, Deviation, Experiment, Rows, SummaryRow, TrialResult
from featlearn.lab.table import Table
from featlearn.nets import LinearSelfAttention, optimal_attention, optimal_matrix, population_loss
from featlearn.report import style
from featlearn.report.plots import Heat, Picture, heat_maps
from featlearn.tasks import RegressionPrompts
from featlearn.works._settings import (
    check_counts,
    check_entries,
    check_filled,
    check_ladders,
    check_positive,
    check_seeds,
)
from featlearn.works.icl_scale.rows import FREE, RANK_NOISE, RESTRICTED, Answered, Form, Trained
from featlearn.works.icl_scale.setup import VARIANCES

ENTRY, MAP = "icl_scale.theorem5_4_1", "icl_scale.theorem5_4_2_implication"
D = len(VARIANCES)
SIGNALS = (2, D)
HELD = 4000
TOLERANCE = 0.01
"""Of the excess over that of the start."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Ranks of a layer, how it is trained, and the prompts it answers."""

    ranks: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """Ranks of form "U and u", from 0, which answers 0, to 6."""
    free_ranks: tuple[int, ...] = (6,)
    """Ranks at which all weights are trained."""
    n: int = 20
    """Examples of a prompt in training."""
    steps: int = 1600
    """Steps of training."""
    batch: int = 256
    """Prompts of a step."""
    rate: float = 0.01
    """Rate of Adam at the start."""
    m: tuple[int, ...] = (4, 16, 64)
    """Examples of a prompt in evaluation."""
    noise: tuple[float, ...] = (0.0, 2.0, 8.0)
    """Standard deviations of labels in evaluation."""
    prompts: int = 8000
    """Prompts of an evaluation."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Eigenvectors, starts and prompts."""

    def __post_init__(self) -> None:
        check_counts(self, "n", "steps", "batch", "prompts")
        check_positive(self, "rate")
        check_ladders(self, "m")
        check_filled(self, "ranks", "noise")
        check_entries(self, 0, "noise")
        check_seeds(self.seeds)
        for field, least in (("ranks", 0), ("free_ranks", 1)):
            given = getattr(self, field)
            if list(given) != sorted(set(given)) or any(not least <= r <= D for r in given):
                allowed = f"ranks from {least} to {D}, ascending, each once"
                raise SettingError(field, given, allowed, f"U is {D} x {D}; rank 0 has nothing to train")
        if list(self.noise) != sorted(set(self.noise)) or not all(map(math.isfinite, self.noise)):
            raise SettingError("noise", self.noise, "finite, in ascending order, each once", "0 2 8 is the default")


@dataclass(frozen=True)
class Trial:
    """All seeds of one rank and form."""

    form: Form
    rank: int
    n: int
    steps: int
    batch: int
    rate: float
    m: tuple[int, ...]
    noise: tuple[float, ...]
    prompts: int
    seeds: tuple[int, ...]


def trials(config: Config) -> list[Trial]:
    """One trial per rank and form, the slow ones first."""
    c = config
    common = {"n": c.n, "steps": c.steps, "batch": c.batch, "rate": c.rate, "prompts": c.prompts, "seeds": c.seeds}
    restricted = [Trial(form=RESTRICTED, rank=r, m=c.m, noise=c.noise, **common) for r in reversed(c.ranks)]
    return restricted + [Trial(form=FREE, rank=r, m=(), noise=(), **common) for r in reversed(c.free_ranks)]


def run_trial(trial: Trial) -> TrialResult:
    """Train, and let the layers answer."""
    keys = [Key("icl_scale/rank_noise") / s for s in trial.seeds]
    task = RegressionPrompts(variances=VARIANCES, examples=trial.n)
    truths = [task.draw(k / "eigenvectors") for k in keys]
    net = _start(trial, keys)
    rows: list[Trained | Answered] = []
    if trial.rank:
        start = _excess(net, trial, truths, keys)
        train(net, trial, truths, keys)
        end = _excess(net, trial, truths, keys)
        for i, seed in enumerate(trial.seeds):
            rows.append(
                Trained(
                    form=trial.form,
                    rank=trial.rank,
                    n=trial.n,
                    steps=trial.steps,
                    seed=seed,
                    start=sum(start[i]),
                    end=sum(end[i]),
                    even=end[i][1],
                    angle=None if trial.rank == D else angle(net.matrix[i].detach(), truths[i], trial.rank),
                )
            )
    for i, seed in enumerate(trial.seeds):
        rows += _answers(net, i, trial, truths[i], keys[i], seed)
    return TrialResult(rows)


def _start(trial: Trial, keys: Sequence[Key]) -> LinearSelfAttention:
    """A layer for each seed, of its own key."""
    net = LinearSelfAttention(D, trial.rank, keys[0], networks=len(keys))
    with torch.no_grad():
        for i, k in enumerate(keys):
            one = LinearSelfAttention(D, trial.rank, k / "start")
            for own, drawn in zip(net.parameters(), one.parameters(), strict=True):
                own[i] = drawn[0]
        if trial.form == RESTRICTED:
            for own, kept in zip(net.parameters(), _kept(net), strict=True):
                own *= kept
    return net


def _kept(net: LinearSelfAttention) -> list[Tensor]:
    """1 for weights of Eq. (5.3), 0 for others: those of key, query and value."""
    key = torch.ones_like(net.key)
    key[..., -1] = 0
    value = torch.zeros_like(net.value)
    value[:, -1, -1] = 1
    return [key, key, value]


def train(net: LinearSelfAttention, trial: Trial, truths: Sequence[Truth], keys: Sequence[Key]) -> None:
    """Adam on the squared error of new prompts; errors: Diverged where it leaves the finite numbers."""
    moved = torch.optim.Adam(net.parameters(), lr=trial.rate, betas=(0.9, 0.99))
    kept = _kept(net) if trial.form == RESTRICTED else [torch.ones_like(p) for p in net.parameters()]
    task = RegressionPrompts(variances=VARIANCES, examples=trial.n)
    for t in range(trial.steps):
        drawn = [task.sample(truth, trial.batch, k / "prompts" / t) for truth, k in zip(truths, keys, strict=True)]
        answers = net(torch.stack([b.x for b in drawn]))
        loss = (answers - torch.stack([b.y for b in drawn])).square().mean(1).sum() / 2
        if not bool(torch.isfinite(loss)):
            raise Diverged(f"training left the finite numbers at step {t} of {trial.steps}; a smaller rate may help")
        for group in moved.param_groups:
            group["lr"] = trial.rate * (1 + math.cos(math.pi * t / trial.steps)) / 2
        moved.zero_grad()
        loss.backward()
        for p, mask in zip(net.parameters(), kept, strict=True):
            assert p.grad is not None
            p.grad *= mask
        moved.step()


def _excess(
    net: LinearSelfAttention, trial: Trial, truths: Sequence[Truth], keys: Sequence[Key]
) -> list[tuple[float, float]]:
    """For each seed: loss of the odd part less the least one of the rank, and half the mean square of the even part."""
    task, found = RegressionPrompts(variances=VARIANCES, examples=trial.n), []
    for i, (truth, k) in enumerate(zip(truths, keys, strict=True)):
        c = task.covariance(Truth(truth.features.double()))
        best = population_loss(optimal_matrix(c, trial.n, trial.rank)[None], c, trial.n)
        x = task.sample(truth, HELD, k / "held").x
        turned = x.clone()
        turned[:, -1] *= -1
        with torch.no_grad():
            odd = population_loss(net.matrix[i : i + 1].double(), c, trial.n) - best
            even = ((net(x)[i] + net(turned)[i]) / 2).square().mean() / 2
        found.append((max(float(odd), 0.0), float(even)))
    return found


def angle(matrix: Tensor, truth: Truth, rank: int) -> float:
    """The largest angle in degrees between the first `rank` left singular vectors of U and eigenvectors of Lambda."""
    left = torch.linalg.svd(matrix.double()).U[:, :rank]
    least = torch.linalg.svdvals(truth.features[:rank].double() @ left)[-1]
    return math.degrees(math.acos(min(float(least), 1.0)))


def _answers(net: LinearSelfAttention, i: int, trial: Trial, truth: Truth, key: Key, seed: int) -> list[Answered]:
    """Errors of the layer and of the closed form at every length and noise."""
    rows = []
    for signal in SIGNALS if trial.m else ():
        weight = tuple(float(j < signal) for j in range(D))
        for m in trial.m:
            for noise in trial.noise:
                task = RegressionPrompts(variances=VARIANCES, examples=m, noise=noise, weight=weight)
                batch = task.sample(truth, trial.prompts, key / "answers" / signal / m / f"{noise:g}")
                best = optimal_attention(task.covariance(truth), trial.n, trial.rank)
                with torch.no_grad():
                    loss, optimal = (
                        float((said - batch.y).square().double().mean()) for said in (net(batch.x)[i], best(batch.x)[0])
                    )
                where = {"signal": signal, "m": m, "noise": noise, "rank": trial.rank, "n": trial.n, "seed": seed}
                rows.append(Answered(**where, loss=loss, optimal=optimal))
    return rows


def summarise(table: Rows) -> Sequence[SummaryRow]:
    """Excess over that of the start, angles, and the best rank at each length and noise."""
    out = []
    for (form, rank), part in table.of(Trained).by("form", "rank").items():
        left = [r.end / r.start for r in part.rows]
        where = (f"rank {rank}", form)
        out.append(SummaryRow.of(*where, "excess over that of the start", left, entry=ENTRY))
        met = float(sum(v <= TOLERANCE for v in left))
        out.append(SummaryRow.of(*where, f"layers within {TOLERANCE:.0%}", met, entry=ENTRY))
        if all(r.angle is not None for r in part.rows):
            found = part.mean("angle")
            out.append(SummaryRow.of(*where, "largest angle to the eigenvectors", found, entry=ENTRY, unit="degrees"))
    answered = table.of(Answered)
    for (signal, m, noise), part in answered.by("signal", "m", "noise").items():
        for column, name in (("loss", "trained"), ("optimal", "closed form")):
            where = (f"w on {signal} directions, M = {m}, sigma = {noise:g}", name)
            out.append(SummaryRow.of(*where, "best rank", float(best_rank(part, column)), entry=MAP))
    return out


def best_rank(part: Table[Answered], column: str) -> int:
    """The rank of the least mean loss."""
    means = {rank: rows.mean(column).value for rank, rows in part.by("rank").items()}
    return min(means, key=lambda rank: (means[rank], rank))


def predicted_rank(signal: int, m: int, noise: float, n: int) -> int:
    """That of Theorem 5.4.2, from the closed form's first two moments."""
    lam = np.array(VARIANCES)
    shrunk = n * lam / ((n + 1) * lam + lam.sum())
    s2 = lam * (np.arange(D) < signal)
    losses = []
    for r in range(D + 1):
        g = shrunk * (np.arange(D) < r)
        losses.append(float((s2 @ g**2 + (s2.sum() + noise**2) * (g**2).sum()) / m + s2 @ (g - 1) ** 2))
    return int(np.argmin(losses))


def draw(table: Rows) -> Mapping[str, Picture]:
    """Best rank over d at each noise and length, of trained layers and by Theorem 5.4.2."""
    answered = table.of(Answered)
    if not answered.rows:
        return {}
    lengths, noises = (sorted({getattr(r, name) for r in answered.rows}) for name in ("m", "noise"))
    panels, data = [], []
    for signal, part in answered.by("signal").items():
        found = {place: best_rank(some, "loss") for place, some in part.by("m", "noise").items()}
        said = {(m, noise): predicted_rank(signal, m, noise, part.rows[0].n) for m, noise in found}
        data += [
            {"signal": signal, "m": m, "noise": noise, "trained": found[m, noise], "theorem": said[m, noise]}
            for m, noise in found
        ]
        for name, ranks in (("trained", found), ("Theorem 5.4.2", said)):
            values = [[ranks[m, noise] / D for noise in noises] for m in lengths]
            panels.append(Heat(f"{signal} of {D}: {name}", values))
    figure = style.figure(height=4.8)
    ticks = [f"{noise:g}" for noise in noises], [str(m) for m in lengths]
    names = {"xlabel": "noise of labels", "ylabel": "examples M", "label": "best rank over d"}
    heat_maps(figure, panels, *ticks, **names, across=2)
    caption = (
        f"The rank, over d = {D}, whose layer has the least error, at each noise of labels and length of prompts: of "
        "trained layers (left) and where the formula of Theorem 5.4.2 is least (right). Noise and short prompts favour "
        f"small ranks; rank 0 answers 0. Above, w has the first 2 of {D} directions, below all."
    )
    return {MAP: Picture(figure, caption, data=data)}


def cost(trial: Trial) -> Cost:
    """From measured seconds on one core."""
    trained = 6e-6 * trial.steps * trial.batch * len(trial.seeds) if trial.rank else 0.0
    answered = 1.5e-7 * trial.prompts * len(SIGNALS) * len(trial.noise) * len(trial.seeds) * (sum(trial.m) + 4)
    return Cost(1 + trained + answered, 600)


SMALL = Config()
EXPERIMENT = Experiment(
    id=RANK_NOISE,
    title="Linear attention of limited rank: gradient training, and the best rank against noise",
    reproduces=(ENTRY, MAP),
    rows=(Trained, Answered),
    Config=Config,
    presets={
        "smoke": Config(
            ranks=(0, 1, 6), free_ranks=(1,), steps=40, batch=64, m=(4,), noise=(0.0, 8.0), prompts=500, seeds=(0, 1)
        ),
        "small": SMALL,
        "cpu": dataclasses.replace(
            SMALL,
            free_ranks=(1, 2, 3, 4, 5, 6),
            m=(2, 4, 8, 16, 32, 64),
            noise=(0.0, 1.0, 2.0, 4.0, 8.0),
            seeds=tuple(range(20)),
        ),
        "paper": SMALL,
    },
    trials=trials,
    run_trial=run_trial,
    summarise=summarise,
    draw=draw,
    deviations=(
        Deviation("training", reported="none", ours="Adam on drawn prompts", why="the thesis has closed forms alone"),
        Deviation("d, N, eigenvalues", reported="not given", ours="6, 20, 3/i", why="free in the theorems"),
    ),
    cost=cost,
)
