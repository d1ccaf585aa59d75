"""Rows of Tables A.1 to A.5 with settings of their own, and runs that test why a cell is not as reported.

One Step and One Step + start have steps of their own: the text asks for the best classifier on the features of step
one. Network without structure is said to overfit parity labels; it is trained there by Adam from a wider start, since
gradient descent with the step sizes of Network does not fit such labels in as many steps. All settings are chosen by
`emergence/rates`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from featlearn.core import Batch, Key
from featlearn.lab.experiment import Cost, TrialResult
from featlearn.lab.row import Row
from featlearn.learn import fit_linear, fit_linearised
from featlearn.learn.schedules import batches
from featlearn.measure.alignment import closest_cosine
from featlearn.nets import TwoLayer, mirrored
from featlearn.tasks import ParityMix
from featlearn.works.emergence.experiments import simulation
from featlearn.works.emergence.experiments.simulation import (
    RATES,
    Common,
    Setting,
    accuracy,
    check_rates,
    class_weights,
    curve_steps,
    energy,
    features,
    normal_start,
    tangent_energy,
    two_steps,
)
from featlearn.works.emergence.rows import KEPT, Cause, Curve, Final, Method

UNTRAINED = "a read-out before training"
BALANCED = "trained on as many samples of both classes"
WIDER = "300 pairs of neurons"
ADAM = "Adam from a wide start"
STEPPED = "Adam after the two full-batch steps"
FEW = 500


@dataclass(frozen=True)
class OneStep:
    """One seed of One Step and One Step + start."""

    setting: Setting
    seed: int
    scale: float
    rate: float
    scale_kept: float
    rate_kept: float


@dataclass(frozen=True)
class Memoriser:
    """One seed of Network, trained by Adam. width: of its start; 0 starts from the network after two full-batch steps.
    cause: "" for the row of the table."""

    setting: Setting
    seed: int
    width: float
    rate: float
    cause: str = ""


@dataclass(frozen=True)
class Weighted(Memoriser):
    """The same with the loss of each class weighted by 1 / (2 share), as in the first two steps."""


@dataclass(frozen=True)
class Kept:
    """One seed of One Step after a first step that keeps the start; read-out as in One Step."""

    setting: Setting
    seed: int
    scale: float
    rate: float
    cause: str


@dataclass(frozen=True)
class Changed:
    """One seed of some rows after a change of their settings; balanced: of their training samples too."""

    inner: simulation.Trial
    cause: str
    balanced: bool = False


Trial = simulation.Trial | OneStep | Kept | Memoriser | Changed


def bare(setting: Setting) -> Setting:
    """Without rates, for trials that have their own."""
    return replace(setting, **dict.fromkeys(RATES, 0.0))


def trials_of(config: Common, settings: Sequence[Setting], changes: Sequence["Change"] = ()) -> list[Trial]:
    """The trials of a table: all rows with the settings of `simulation`, those with their own, and the changes."""
    check_rates(config)
    found: list[Trial] = [*simulation.trials_of(settings, config.seeds, config.alone)]
    c = config
    for seed in config.seeds:
        for s in settings:
            found.append(OneStep(bare(s), seed, c.scale_own, c.rate_own, c.scale_kept, c.rate_kept))
            alone, parity = bare(c.alone(s)), isinstance(s.task, ParityMix)
            if parity:
                found.append(Memoriser(alone, seed, c.width, c.rate_adam))
            if parity and c.causes:
                found.append(Memoriser(replace(alone, **steps_of(s)), seed, 0.0, c.rate_adam, STEPPED))
                few = replace(alone, n_test=min(FEW, s.n_test))
                found.append(Memoriser(few, seed, c.width, c.rate_adam, f"tested on {FEW} samples"))
            found += [trial for change in changes if c.causes for trial in change(s, c.alone(s), seed)]
    return found


def steps_of(setting: Setting) -> dict[str, float]:
    """Its first two steps."""
    return {"scale_1": setting.scale_1, "scale_2": setting.scale_2}


Change = Callable[[Setting, Setting, int], Sequence[Trial]]
"""A setting with structure, the same without, and a seed -> the trials of a change."""
RATE_OF: Mapping[Method, str] = {"Network": "rate_w", "NTK": "rate_ntk", "RF": "rate_rf"}


def changed(
    row: Method,
    cause: str = "",
    *,
    times: float = 1.0,
    only: str = "",
    balanced: bool = False,
    structure: bool = True,
    **settings: Any,
) -> Change:
    """The change of a row's settings (those of `Setting`), at the setting named `only` or at each.

    times: a factor on its step size (of Network: that of the first layer).
    """
    more = f"a step size {times:g} times as large" if times > 1 else f"a step size {1 / times:.4g} times smaller"
    words = ", ".join([cause] * bool(cause) + [more] * (times != 1))

    def trial(s: Setting, alone: Setting, seed: int) -> Sequence[Trial]:
        if only not in ("", s.name):
            return ()
        here = s if structure else alone
        scaled = {RATE_OF[row]: times * getattr(here, RATE_OF[row])} if times != 1 else {}
        one = replace(here, **scaled, **settings)
        return [Changed(simulation.Trial(one, seed, (row,)), words, balanced)]

    return trial


def weighted(config: Common) -> Change:
    """Network without structure with a weighted loss."""

    def trial(s: Setting, alone: Setting, seed: int) -> Sequence[Trial]:
        return [Weighted(bare(alone), seed, config.width, config.rate_adam, "a loss that weights the classes")]

    return trial


def kept(scale: float, *, only: str = "") -> Change:
    """One Step after another first step that keeps the start, at one setting or at each."""

    def trial(s: Setting, alone: Setting, seed: int) -> Sequence[Trial]:
        cause = f"a first step of {scale:g} that keeps the start"
        return [Kept(bare(s), seed, scale, s.rate_one, cause)] if only in ("", s.name) else ()

    return trial


def draw(setting: Setting, seed: int) -> tuple[Any, Batch, Batch, TwoLayer, Tensor]:
    """Truth, samples, test samples and start as `simulation.run_trial` draws them."""
    key = Key("emergence") / seed
    truth = setting.task.draw(key / "truth")
    train = setting.task.sample(truth, setting.n, key / "train")
    test = setting.task.sample(truth, setting.n_test, key / "test")
    return truth, train, test, *normal_start(setting, truth, key / "start")


def run_trial(trial: Trial) -> TrialResult:
    """The rows of a trial of any kind."""
    if isinstance(trial, OneStep):
        return TrialResult(_one_step(trial))
    if isinstance(trial, Kept):
        s = OneStep(trial.setting, trial.seed, trial.scale, trial.rate, trial.scale, trial.rate)
        found = [r for r in _one_step(s) if isinstance(r, Final) and r.row == KEPT]
        return TrialResult([Cause(**{**vars(r), "kind": "cause", "row": "One Step"}, cause=trial.cause) for r in found])
    if isinstance(trial, Memoriser):
        return TrialResult(_memoriser(trial))
    if isinstance(trial, Changed):
        return TrialResult(_balanced(trial) if trial.balanced else _changed(trial))
    return simulation.run_trial(trial)


def _one_step(trial: OneStep) -> list[Row]:
    s, structure = trial.setting, trial.setting.task.structure
    truth, train, test, half, outside = draw(s, trial.seed)
    star, length, none = truth.features[0], outside.norm(dim=1), torch.zeros(2 * s.m)
    rows: list[Row] = []
    ways: tuple[tuple[Method, bool, float, float, Tensor], ...] = (
        ("One Step", False, trial.scale, trial.rate, none),
        (KEPT, True, trial.scale_kept, trial.rate_kept, torch.cat([length, length])),
    )
    for name, keep, scale, rate, outer in ways:
        scaled = replace(s, scale_1=scale, scale_kept=scale)
        net = two_steps(scaled, mirrored(half), truth, train, keep_init=keep, steps=1)[0]
        seen, unseen = features(net, train.x), features(net, test.x)
        model = fit_linear(
            seen,
            train.y,
            [rate / energy(seen)],
            Key("emergence") / trial.seed / "batches",
            steps=s.steps,
            batch=s.batch,
        )
        base: Any = {"setting": s.name, "structure": structure, "row": name, "seed": trial.seed}
        base["cos"] = float(closest_cosine(net.w, star, outer[None]))
        on = accuracy(model(seen)[:, 0], train.y), accuracy(model(unseen)[:, 0], test.y)
        rows.append(Final(**base, train_acc=on[0], test_acc=on[1]))
        if not keep:
            on = accuracy(0 * train.y, train.y), accuracy(0 * test.y, test.y)
            rows.append(Cause(**base, cause=UNTRAINED, train_acc=on[0], test_acc=on[1]))
    return rows


def adam(
    net: TwoLayer,
    data: Batch,
    key: Key,
    *,
    rate: float,
    steps: int,
    batch: int,
    weights: Tensor | None = None,
    watch: Callable[[int, TwoLayer], None] = lambda step, net: None,
) -> TwoLayer:
    """One network after minibatch steps of Adam on the (weighted) hinge loss, with a rate that falls linearly to 0."""
    w, b, a = (v[0].clone().requires_grad_() for v in (net.w, net.b, net.a))
    optimiser = torch.optim.Adam([w, b, a], lr=rate)

    def now() -> TwoLayer:
        return TwoLayer(w.detach()[None], b.detach()[None], a.detach()[None], net.activation)

    watch(0, now())
    for step, rows in enumerate(batches(len(data.x), batch, steps, key), 1):
        x, y = (data.x, data.y) if rows is None else (data.x[rows], data.y[rows])
        optimiser.param_groups[0]["lr"] = rate * (1 - (step - 1) / steps)
        optimiser.zero_grad()
        score = torch.addmm(b, x, w.T).clamp(0, 1) @ a
        loss = (1 - y * score).clamp(min=0)
        (loss if weights is None else loss * (weights if rows is None else weights[rows])).mean().backward()
        optimiser.step()
        watch(step, now())
    return now()


def wide(half: TwoLayer, width: float) -> TwoLayer:
    """The mirrored start with first layer and biases `width` times as large, biases as those of N(0, 1/k^2)."""
    return mirrored(replace(half, w=half.w * width, b=half.b * width))


def _memoriser(trial: Memoriser) -> list[Row]:
    s, structure = trial.setting, trial.setting.task.structure
    truth, train, test, half, outside = draw(s, trial.seed)
    part, grid, rows = (test.x[:2000], test.y[:2000]), set(curve_steps(s.steps)), []
    base: Any = {"setting": s.name, "structure": structure, "row": "Network", "seed": trial.seed}

    def watch(step: int, net: TwoLayer) -> None:
        if step in grid and not trial.cause:
            rows.append(Curve(**base, step=step, acc=round(accuracy(net(part[0])[:, 0], part[1]), 4)))

    key = Key("emergence") / trial.seed / "batches"
    start = wide(half, trial.width) if trial.width else two_steps(s, mirrored(half), truth, train)[-1]
    weights = class_weights(train.y) if isinstance(trial, Weighted) else None
    net = adam(start, train, key, rate=trial.rate, steps=s.steps, batch=s.batch, weights=weights, watch=watch)
    length = trial.width * outside.norm(dim=1)
    base["train_acc"], base["test_acc"] = (accuracy(net(d.x)[:, 0], d.y) for d in (train, test))
    base["cos"] = float(closest_cosine(net.w, truth.features[0], torch.cat([length, length])[None]))
    rows.append(Cause(**base, cause=trial.cause) if trial.cause else Final(**base))
    return rows


def _changed(trial: Changed) -> list[Row]:
    found: list[Row] = []
    for r in simulation.run_trial(trial.inner).rows:
        if isinstance(r, Final):
            found.append(Cause(**{k: v for k, v in vars(r).items() if k != "kind"}, cause=trial.cause))
    return found


def _balanced(trial: Changed) -> list[Row]:
    """NTK or RF, trained on all samples of the rarer class and the first of the other, tested on the table's samples;
    the cosine is that of a start that has no part outside the pattern coordinates."""
    s, [row], seed = trial.inner.setting, trial.inner.methods, trial.inner.seed
    truth, train, test, half, _ = draw(s, seed)
    sides = [torch.nonzero(train.y == v)[:, 0] for v in (-1, 1)]
    some = torch.cat([side[: min(map(len, sides))] for side in sides])
    x, y, key, batch = train.x[some], train.y[some], Key("emergence") / seed / "batches", min(s.batch, len(some))
    if row == "RF":
        seen = features(half, x)
        linear = fit_linear(seen, y, [s.rate_rf / energy(seen)], key, steps=s.steps, batch=batch)
        scores = [linear(features(half, d.x))[:, 0] for d in (train, test)]
    else:
        tangent = fit_linearised(half, x, y, [s.rate_ntk / tangent_energy(half, x)], key, steps=s.steps, batch=batch)
        scores = [tangent(d.x)[:, 0] for d in (train, test)]
    cos = float(closest_cosine(half.w, truth.features[0])) if row == "RF" else None
    on = [accuracy(f, d.y) for f, d in zip(scores, (train, test), strict=True)]
    base: Any = {"setting": s.name, "structure": s.task.structure, "row": row, "seed": seed}
    return [Cause(**base, cause=trial.cause, train_acc=on[0], test_acc=on[1], cos=cos)]


def cost(trial: Trial) -> Cost:
    """As `simulation.cost`."""
    inner = trial if isinstance(trial, simulation.Trial) else getattr(trial, "inner", None)
    if inner is not None:
        return simulation.cost(inner)
    s: Setting = trial.setting  # pyright: ignore[reportAttributeAccessIssue]
    unit, mib = 4 * s.task.D * s.m, 400 + s.n * (s.task.D * 12 + 4 * s.m * 8) / 2**20
    return Cost(1 + unit * (3 * s.steps * s.batch if isinstance(trial, Memoriser) else 20 * s.n) / 3e10, mib)
