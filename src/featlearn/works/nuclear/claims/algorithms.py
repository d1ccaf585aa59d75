"""The algorithms that the tables compare with, as they ship: loss and update against formulas written out in float64.

Updates are those of ten entries of the featurizer at a step size of 1, by central differences of the formula's loss.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods.domains import (
    ChannelScales,
    Minibatch,
    Settings,
    State,
    Swad,
    SwadRule,
    algorithm,
    build,
    coral,
    erm,
    group_dro,
    irm,
    miro,
    mixup,
    vrex,
    with_nuclear_norm,
)

Array = np.ndarray
SHARES = np.array([0.2, 0.3, 0.5])
"""GroupDRO's shares before the step."""
MIX = Key("nuclear.algorithms")
"""Of the state in which each algorithm takes its step."""
STEPS = 5001
NUMERIC = 1e-7
"""What central differences at 1e-5 leave of a slope."""


@dataclass(frozen=True)
class Problem:
    """Two stages, tanh(x W1') and W2', and a head; three domains of unlike size; W1 of the pretrained network."""

    w1: Array
    w2: Array
    head: Array
    before: Array
    x: tuple[Array, ...]
    y: tuple[Array, ...]


def draw_problem(key: Key) -> Problem:
    """5 inputs, 6 channels, 4 features, 3 classes; 6, 8 and 10 rows."""
    rng = key.numpy()
    sizes = (6, 8, 10)
    return Problem(
        rng.standard_normal((6, 5)) / 2,
        rng.standard_normal((4, 6)) / 2,
        rng.standard_normal((3, 4)),
        rng.standard_normal((6, 5)) / 2,
        tuple(rng.standard_normal((n, 5)) for n in sizes),
        tuple(rng.integers(0, 3, n) for n in sizes),
    )


# --- formulas --------------------------------------------------------------------------------------------------------


def features(p: Problem) -> list[Array]:
    """Features of each domain."""
    return [np.tanh(x @ p.w1.T) @ p.w2.T for x in p.x]


def logits(p: Problem) -> list[Array]:
    """Logits of each domain."""
    return [f @ p.head.T for f in features(p)]


def losses(z: Array, y: Array) -> Array:
    """Cross entropy of each row."""
    return np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]


def risks(p: Problem) -> Array:
    """R_e, the mean cross entropy of each domain."""
    return np.array([losses(z, y).mean() for z, y in zip(logits(p), p.y, strict=True)])


def of_coral(p: Problem, less: int = 1) -> float:
    """mean_e R_e + mean over pairs of mean (mu_e - mu_f)^2 + mean (C_e - C_f)^2, C with n - 1 below."""
    f = features(p)
    mean = [v.mean(0) for v in f]
    cov = [(v - m).T @ (v - m) / (len(v) - less) for v, m in zip(f, mean, strict=True)]
    pairs = ((0, 1), (0, 2), (1, 2))
    apart = [((mean[i] - mean[j]) ** 2).mean() + ((cov[i] - cov[j]) ** 2).mean() for i, j in pairs]
    return float(risks(p).mean() + 0.7 * np.mean(apart))


def of_irm(p: Problem, halves: bool = True, weight: float = 3.0) -> float:
    """mean_e R_e + 3 mean_e g_e g'_e with g the slope of the risk in a factor of the logits, even and odd rows."""
    terms = []
    for z, y in zip(logits(p), p.y, strict=True):
        share = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        slope = (share * z).sum(1) - z[np.arange(len(y)), y]
        terms.append(slope[::2].mean() * slope[1::2].mean() if halves else slope.mean() ** 2)
    return float(risks(p).mean() + weight * np.mean(terms))


def of_vrex(p: Problem, power: int = 2, weight: float = 3.0) -> float:
    """mean_e R_e + 3 mean_e (R_e - mean R)^2."""
    r = risks(p)
    return float(r.mean() + weight * (np.abs(r - r.mean()) ** power).mean())


def of_dro(p: Problem, shares: Array) -> float:
    """sum_e q_e R_e."""
    return float(shares @ risks(p))


def new_shares(p: Problem) -> Array:
    """q_e exp(eta R_e) over their sum, eta = 0.5."""
    grown = SHARES * np.exp(0.5 * risks(p))
    return grown / grown.sum()


def of_miro(p: Problem, v: float = 0.1) -> float:
    """Mean cross entropy of all rows + 0.4 mean [(z - z0)^2 / v + log v] / 2 of the first stage."""
    x, y = np.concatenate(p.x), np.concatenate(p.y)
    now, before = np.tanh(x @ p.w1.T), np.tanh(x @ p.before.T)
    penalty = ((now - before) ** 2 / v + np.log(v)).mean() / 2
    return float(losses(now @ p.w2.T @ p.head.T, y).mean() + 0.4 * penalty)


def of_nuclear(p: Problem, power: float = 1.0) -> float:
    """Mean cross entropy of all rows + 0.5 ||Phi(X)||_* / n, the rows of all domains together."""
    z, y, f = np.concatenate(logits(p)), np.concatenate(p.y), np.concatenate(features(p))
    return float(losses(z, y).mean() + 0.5 * np.linalg.svd(f, compute_uv=False).sum() / len(y) ** power)


def of_mixup(p: Problem, both: bool = True) -> float:
    """Mean over neighbours (i, j) in a cycle of l CE(x, y_i) + (1 - l) CE(x, y_j) at x = l x_i + (1 - l) x_j."""
    draw = (MIX / "mixup" / 1).numpy()
    order = draw.permutation(3)
    shares, found = draw.beta(0.2, 0.2, size=3), []
    for i, j, share in zip(order, np.roll(order, -1), shares, strict=True):
        n = min(len(p.y[i]), len(p.y[j]))
        mixed = replace(p, x=(share * p.x[i][:n] + (1 - share) * p.x[j][:n],))
        (z,) = logits(mixed)
        other = p.y[j][:n] if both else p.y[i][:n]
        found.append(share * losses(z, p.y[i][:n]).mean() + (1 - share) * losses(z, other).mean())
    return float(np.mean(found))


def slopes(loss: Callable[[Problem], float], p: Problem) -> Array:
    """Central differences in ten entries of W1, the update at a step size of -1."""
    out = []
    for i in range(10):
        e = np.zeros(p.w1.size)
        e[3 * i] = 1e-5
        e = e.reshape(p.w1.shape)
        out.append((loss(replace(p, w1=p.w1 + e)) - loss(replace(p, w1=p.w1 - e))) / 2e-5)
    return -np.array(out)


def statements(settings: Problem) -> tuple[Statement, ...]:
    """Each loss and its update, with the nearest other formula as rival."""
    p = settings
    out = []
    for name, loss, other, says, source in (
        ("CORAL", of_coral, partial(of_coral, less=0), "covariances over n", "Sun and Saenko 2016"),
        ("IRM", of_irm, partial(of_irm, halves=False), "the squared slope of all rows", "Arjovsky et al. 2019"),
        ("V-REx", of_vrex, partial(of_vrex, power=1), "|R_e - mean R| in place of its square", "Krueger et al. 2021"),
        (
            "GroupDRO",
            partial(of_dro, shares=new_shares(p)),
            partial(of_dro, shares=SHARES),
            "the shares before the step",
            "Sagawa et al. 2019",
        ),
        ("MIRO", of_miro, partial(of_miro, v=0.11), "variances of 0.11 for those of 0.1", "Cha et al. 2022"),
        ("Mixup", of_mixup, partial(of_mixup, both=False), "the labels of one of the two alone", "Yan et al. 2020"),
        ("ERM-NU", of_nuclear, partial(of_nuclear, power=0.5), "the norm over sqrt(n)", "equation 6.3, over n"),
    ):
        more = {"margin": 1e-9, "rival": other(p), "rival_says": says, "form": "derived"}
        out.append(equal(f"loss of {name}", REAL, loss(p), f"{source}, as in the benchmark's code", **more))
        more |= {"margin": NUMERIC, "rival": slopes(other, p), "axis": "entry"}
        out.append(equal(f"update of {name}", REAL, slopes(loss, p), f"{source}: minus the slope", **more))
    steps = [of(p, weight=w) for of in (of_irm, of_vrex) for w in (1.0, 3.0)]
    return (
        *out,
        equal(
            "GroupDRO's shares after the step",
            SHARE,
            new_shares(p),
            "Sagawa et al. 2019: q_e exp(eta R_e) over their sum",
            margin=1e-9,
            axis="domain",
            form="derived",
            rival=SHARES,
            rival_says="those before it",
        ),
        equal(
            "loss of IRM and of V-REx by name, at steps 499 and 500 of 5001",
            REAL,
            np.array(steps),
            "the benchmark's code: weight 1 before a tenth of the steps",
            margin=1e-9,
            axis="algorithm and step",
            form="derived",
            rival=np.array([steps[1], steps[1], steps[3], steps[3]]),
            rival_says="the weight from the first step on",
        ),
    )


# --- what ships ------------------------------------------------------------------------------------------------------


class Stages(nn.Module):
    """The featurizer of a problem, with the stages that MIRO asks for."""

    def __init__(self, w1: Array, w2: Array) -> None:
        super().__init__()
        self.w1, self.w2 = (nn.Parameter(torch.from_numpy(w.copy())) for w in (w1, w2))

    def stages(self, x: torch.Tensor) -> list[torch.Tensor]:
        """The first layer, and the features."""
        first = torch.tanh(x @ self.w1.T)
        return [first, first @ self.w2.T]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stages(x)[-1]


def observe(settings: Problem, key: Key) -> Mapping[str, Observation]:
    """Loss and update of each algorithm of the library."""
    p = settings
    batches = [Minibatch(torch.from_numpy(x), torch.from_numpy(y)) for x, y in zip(p.x, p.y, strict=True)]
    before = Stages(p.before, p.w2)
    scales = ChannelScales(before.stages(batches[0].x)[:1]).double()
    for b in scales.b:
        b.data.fill_(float(np.log(np.expm1(0.1 - 1e-5))))  # 0.1 in float64, as the formula has it
    seen: dict[str, Observation] = {}
    for name, objective in (
        ("CORAL", partial(coral, weight=0.7)),
        ("IRM", partial(irm, weight=3.0, anneal=0)),
        ("V-REx", partial(vrex, weight=3.0, anneal=0)),
        ("GroupDRO", partial(group_dro, eta=0.5)),
        ("MIRO", partial(miro, pretrained=before, scales=scales, weight=0.4)),
        ("Mixup", partial(mixup, alpha=0.2)),
        ("ERM-NU", with_nuclear_norm(erm, 0.5, start=0)),
    ):
        featurizer, head = Stages(p.w1, p.w2), nn.Linear(4, 3, bias=False, dtype=torch.float64)
        head.weight.data = torch.from_numpy(p.head.copy())
        state = State(MIX, step=1, shares=torch.from_numpy(SHARES))
        outcome = objective(featurizer, head, batches, state)
        (slope,) = torch.autograd.grad(outcome.loss, featurizer.w1)
        seen[f"loss of {name}"] = float(outcome.loss.detach())
        seen[f"update of {name}"] = -slope.numpy().ravel()[::3]
        if outcome.state.shares is not state.shares:
            seen["GroupDRO's shares after the step"] = outcome.state.shares.numpy()  # pyright: ignore[reportOptionalMemberAccess]
    settled, named = Settings(irm_weight=3.0, vrex_weight=3.0), []
    featurizer, head = Stages(p.w1, p.w2), nn.Linear(4, 3, bias=False, dtype=torch.float64)
    head.weight.data = torch.from_numpy(p.head.copy())
    for name in ("irm", "vrex"):
        objective = build(algorithm(name), settled, STEPS, 3, featurizer, batches[0].x).objective
        named += [float(objective(featurizer, head, batches, State(MIX, step=s)).loss.detach()) for s in (499, 500)]
    return {**seen, "loss of IRM and of V-REx by name, at steps 499 and 500 of 5001": np.array(named)}


# --- SWAD ------------------------------------------------------------------------------------------------------------

RULE = SwadRule(converge=3, tolerance=4, ratio=0.3)


@dataclass(frozen=True)
class Curves:
    """Validation losses (c, n) and how many steps come before each evaluation (c, n)."""

    losses: Array
    steps: Array


def draw_curves(key: Key) -> Curves:
    """40 curves of 20 evaluations that fall, rest, jump now and then and mostly rise again; two fall to the end."""
    rng = key.numpy()
    at = np.arange(20)
    turn, rise = rng.integers(3, 12, (40, 1)), rng.uniform(0.0, 0.3, (40, 1))
    losses = 1 + np.maximum(turn - at, 0) / 4 + rise * np.maximum(at - turn - 2, 0) + rng.uniform(0, 0.2, (40, 20))
    losses += rng.uniform(size=(40, 20)) < 0.1  # one above the threshold does not end the valley
    losses[:2] = 3 - at / 10
    return Curves(losses, rng.integers(1, 4, (40, 20)))


def averaged(losses: Array, steps: Array, ends: bool = True) -> float:
    """Mean number of the steps that are averaged: Algorithm 1 of SWAD with N_s = 3, N_e = 4, r = 1.3, in segments."""
    n, first, last = len(losses), len(losses) - 1, len(losses) - 1
    for k in range(n - RULE.converge + 1):
        if losses[k] <= losses[k : k + RULE.converge].min():
            first = k
            worst = 1.3 * losses[k : k + RULE.converge].mean()
            above = [j for j in range(k, n) if ends and (losses[j : j + RULE.tolerance] > worst).all()]
            last = min(above, default=n) - 1
            break
    stop = np.cumsum(steps)
    return float(np.arange(stop[first] - steps[first], stop[last]).mean())


def says_swad(settings: Curves) -> tuple[Statement, ...]:
    """Which steps are averaged, from every evaluation of a training."""
    right, whole = (
        np.array([averaged(v, s, ends) for v, s in zip(settings.losses, settings.steps, strict=True)])
        for ends in (True, False)
    )
    return (
        equal(
            "mean of the steps whose weights are averaged",
            POSITIVE,
            right,
            "Cha et al. 2021, Algorithm 1",
            margin=1e-4,
            axis="curve",
            form="derived",
            rival=whole,
            rival_says="a valley that never ends",
        ),
    )


def sees_swad(settings: Curves, key: Key) -> Mapping[str, Observation]:
    """`Swad` on a network whose only weight is the number of the step."""
    found = []
    for losses, steps in zip(settings.losses, settings.steps, strict=True):
        swad, at = Swad(RULE), 0
        for loss, count in zip(losses, steps, strict=True):
            for _ in range(count):
                swad.step({"w": torch.tensor(float(at))})
                at += 1
            swad.evaluated(float(loss))
        swad.finish()
        found.append(float(swad.weights()["w"]))
    return {"mean of the steps whose weights are averaged": np.array(found)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="nuclear.algorithms",
        entries=("nuclear.table6_1", "nuclear.table6_3"),
        says="CORAL, IRM, V-REx, GroupDRO, MIRO, Mixup and ERM-NU as they ship minimise the objectives that the tables "
        "name.",
        statements=statements,
        observe=observe,
        settings=draw_problem,
        remarks="The tables quote other work for these methods; the formulas are those of the benchmark's code.",
    ),
    Claim(
        id="nuclear.swad",
        entries=("nuclear.table6_1", "nuclear.table6_3"),
        says="SWAD as it ships averages the weights of every step in the valley of the validation loss.",
        statements=says_swad,
        observe=sees_swad,
        settings=draw_curves,
        remarks="The published code also takes in those segments before the valley that are under its threshold.",
    ),
)
