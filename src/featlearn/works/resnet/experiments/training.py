"""One training on parities of parities at every step size and weight decay of a grid, as Figures 2 and 3 need it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from featlearn.core import Batch, Diverged, Key
from featlearn.core.device import resolve
from featlearn.lab.experiment import Cost
from featlearn.learn import ResidualSchedule, fit_residual
from featlearn.learn.residual import HIDDEN
from featlearn.nets import Residual, residual_forward, residual_init, residual_stack
from featlearn.tasks import HierarchicalParity
from featlearn.works.resnet.rows import RESIDUAL, R, Trained, Wiring

MOMENTUM, BATCH = 0.9, 50
NEXT = {"validation": 500, "test": 4000}
EPOCHS_SEEN = (0, 2, 5, 10, 20, 40, 80, 160, 240, 320, 400, 480, 640, 800)


@dataclass(frozen=True)
class Trial:
    """A network, what of it is trained, and the grid: all points start alike and see the same minibatches."""

    wiring: Wiring
    trained: Trained
    n: int
    m: int
    alpha: float
    beta: float
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    epochs: int
    seed: int
    device: str

    @property
    def grid(self) -> list[tuple[float, float]]:
        """(rate, decay) of each member."""
        return [(rate, decay) for rate in self.rates for decay in self.decays]


@dataclass(frozen=True)
class Found:
    """Errors by kind of sample (e), None for networks that diverged; and the way of the two errors (t, e)."""

    train: list[float | None]
    validation: list[float | None]
    test: list[float | None]
    epochs: tuple[int, ...] = ()
    lower: Tensor | None = None
    whole: Tensor | None = None


def samples(trial: Trial) -> tuple[HierarchicalParity, dict[str, Batch]]:
    """The task and its samples: the same for every network and grid point of a seed."""
    task = HierarchicalParity(alpha=trial.alpha, beta=trial.beta)
    truth, key = task.draw(Key("resnet/parities")), Key("resnet/parities") / trial.seed
    sizes = {"train": trial.n, **NEXT}
    return task, {name: task.sample(truth, n, key / name) for name, n in sizes.items()}


def train(trial: Trial) -> Found:
    """Train every grid point as one ensemble."""
    device = resolve(trial.device)
    task, data = samples(trial)
    start = residual_init(trial.m, task.d, task.k, Key("resnet/start") / trial.seed, wiring=trial.wiring)
    net = residual_stack([start] * len(trial.grid))
    net = replace(net, **{n: v.to(device) for n, v in vars(net).items() if isinstance(v, Tensor)})
    test = data["test"]
    assert test.hidden is not None  # the base signal F
    x, base, target = (v[:1000].to(device) for v in (test.x, test.hidden, test.y))

    def errors(net: Residual) -> Tensor:
        seen = residual_forward(net, x)
        first = torch.bmm(seen.h, net.a.mT)
        return torch.stack([_error(first, trial.beta * base), _error(seen.out, target)])

    steps = trial.n // BATCH
    follow = trial.wiring == RESIDUAL and trial.trained != "layer by layer"
    at = [e * steps for e in EPOCHS_SEEN if e <= trial.epochs] if follow else []
    xy = data["train"].x[None].to(device), data["train"].y[None].to(device)
    key = Key("resnet/batches") / trial.seed
    probes = {"errors": errors} if follow else {}
    try:
        if trial.trained == "layer by layer":
            net, trace, seen = _layer_by_layer(trial, net, xy, key), None, ()
        else:
            named = HIDDEN if trial.trained == "hidden" else ("w", "b1", "v", "b2", "a", "a1")
            run = fit_residual(net, xy, _schedule(trial), key, trained=named, probes=probes, probe_at=at)
            net, trace, seen = run.net, run.trace.get("errors"), run.steps
    except Diverged:
        none: list[float | None] = [None] * len(trial.grid)
        return Found(none, none, none)
    found = {
        name: _finite(_error(residual_forward(net, b.x.to(device)).out, b.y.to(device))) for name, b in data.items()
    }
    lower, whole = (None, None) if trace is None else (trace[:, 0], trace[:, 1])
    return Found(**found, epochs=tuple(s // steps for s in seen), lower=lower, whole=whole)


def _schedule(trial: Trial) -> ResidualSchedule:
    steps = trial.epochs * (trial.n // BATCH)
    rates, decays = zip(*trial.grid, strict=True)
    return ResidualSchedule(
        steps=steps,
        rate=torch.tensor(rates),
        decay=torch.tensor(decays),
        momentum=MOMENTUM,
        batch=BATCH,
        drops=(steps // 2,),
    )


def _layer_by_layer(trial: Trial, net: Residual, xy: tuple[Tensor, Tensor], key: Key) -> Residual:
    """First the lower layer with the read-out, as a two-layer network; then the upper layer alone."""
    lower = Residual(w=net.w, b1=net.b1, a=net.a, wiring="two layers")
    lower = fit_residual(lower, xy, _schedule(trial), key / "lower").net
    whole = replace(net, w=lower.w, b1=lower.b1, a=lower.a)
    return fit_residual(whole, xy, _schedule(trial), key / "upper", trained=("v", "b2")).net


def runs(trial: Trial, found: Found, kind: type[R]) -> list[R]:
    """A row of this kind for each point of the grid."""
    return [
        kind(
            wiring=trial.wiring,
            trained=trial.trained,
            n=trial.n,
            m=trial.m,
            alpha=trial.alpha,
            beta=trial.beta,
            rate=rate,
            decay=decay,
            seed=trial.seed,
            train=found.train[i],
            validation=found.validation[i],
            test=found.test[i],
        )
        for i, (rate, decay) in enumerate(trial.grid)
    ]


def _error(out: Tensor, y: Tensor) -> Tensor:
    """Mean ||out - y||^2 of each network (e)."""
    return (out - y).square().sum(-1).mean(-1)


def _finite(values: Tensor) -> list[float | None]:
    return [float(v) if torch.isfinite(v) else None for v in values]


def cost(trial: Trial) -> Cost:
    """From measured seconds on one core: 8000 steps of four networks of width 200 take 10 s full, 7 s narrow."""
    steps = trial.epochs * (trial.n // BATCH) * (2 if trial.trained == "layer by layer" else 1)
    full = trial.wiring in ("residual", "three layers")
    each = 1e-4 * (trial.m / 200) + (1.2e-4 * (trial.m / 200) ** 2 if full else 1e-4 * (trial.m / 200))
    return Cost(2 + steps * len(trial.grid) * each, 500 + len(trial.grid) * (trial.m**2 if full else 0) * 3e-5)
