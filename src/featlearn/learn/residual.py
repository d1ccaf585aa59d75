"""Train ensembles of three-layer networks: SGD with momentum, weight decay and a rate that drops, or one-pass SGD."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Diverged, Key, SettingError
from featlearn.core.check import check_number, checked
from featlearn.learn.schedules import Rate, batches
from featlearn.nets.residual import Residual, backward, parameters, residual_forward

Probe = Callable[[Residual], Tensor]
Sampler = Callable[[int, Key], tuple[Float[Tensor, "n d"], Float[Tensor, "n k"]]]
"""(n, key) -> n new samples."""
HIDDEN = ("w", "b1", "v", "b2")
CHECK_EVERY = 50  # steps between two checks for divergence


@dataclass(frozen=True, kw_only=True)
class ResidualSchedule:
    """SGD as PyTorch defines it: g = gradient + decay theta, u <- momentum u + g, theta <- theta - rate u.

    rate, decay: one number or one per network (e). rates: factors of `rate` for single parameters, by name (w, b1, v,
    b2, a, a1); 0 leaves one as it is. drops: steps at which the rate falls to a tenth. batch: samples a step.
    Source: resnet.sec8_1_setup (momentum 0.9, batch 50, rate a tenth from the middle), resnet.algorithm1 (batch 1,
    no momentum, two rates, `a` at rest). Errors: `SettingError` for each of these out of its range.
    """

    steps: int
    rate: Rate
    decay: Rate = 0.0
    rates: Mapping[str, float] | None = None
    momentum: float = 0.9
    batch: int = 50
    drops: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "at least 1", "section 8.1 has 8000 steps of 50 samples")
        for name in ("rate", "decay"):
            least = float(torch.as_tensor(getattr(self, name)).min())
            most = float(torch.as_tensor(getattr(self, name)).max())
            if not (least >= 0 and math.isfinite(most)):
                raise SettingError(name, least, "finite numbers of at least 0", "0 leaves it out")
        check_number(self.momentum, "momentum", "in [0, 1)", "0 is plain SGD")
        if self.momentum >= 1:
            raise SettingError("momentum", self.momentum, "in [0, 1)", "0 is plain SGD")


@dataclass(frozen=True)
class ResidualRun:
    """Result of training. net: the networks; those that left the finite numbers are nan, and `alive` (e) is False.

    trace: for every probe its values (t, ...) after the `steps` (t).
    """

    net: Residual
    alive: tuple[bool, ...]
    steps: tuple[int, ...]
    trace: Mapping[str, Tensor]


def _ready(rate: Rate, like: Tensor) -> Tensor:
    return torch.as_tensor(rate, dtype=like.dtype, device=like.device).reshape(-1, *[1] * (like.ndim - 1))


@checked(loose=("net",))
def fit_residual(
    net: Residual,
    data: tuple[Float[Tensor, "#e n d"], Float[Tensor, "#e n k"]] | Sampler,
    schedule: ResidualSchedule,
    key: Key,
    *,
    trained: Sequence[str] = ("w", "b1", "v", "b2", "a", "a1"),
    probes: Mapping[str, Probe] | None = None,
    probe_at: Sequence[int] = (),
) -> ResidualRun:
    """Minimise mean ||out(x) - y||^2 / 2 over the parameters named in `trained`; a network that diverges rests as nan.

    data: x (e, n, d) or (1, n, d) with y (e, n, k) or (1, n, k), gone through in epochs of new permutations that all
    networks share, or a function that draws new samples for every step (one-pass SGD). probe_at: steps after which
    the probes (networks -> tensor) are evaluated, 0 for the start. HIDDEN names what "hidden" training moves.
    Source: resnet.sec8_1_setup, resnet.algorithm1.
    Errors: `SettingError` for rates of another number of networks, a batch above n, unknown names in `trained` or
    `rates`; `Diverged` when all networks are gone.
    """
    theta = {name: value.clone() for name, value in parameters(net).items()}
    known = {"w", "b1", "v", "b2", "a", "a1"}
    factors = dict(schedule.rates or {})
    for name, given in (("trained", trained), ("rates", factors)):
        if odd := set(given) - known:
            raise SettingError(name, sorted(odd), "of w, b1, v, b2, a, a1", "name parameters")
    for name in ("rate", "decay"):
        value = torch.as_tensor(getattr(schedule, name))
        if value.ndim and len(value) not in (1, len(net)):
            raise SettingError(name, tuple(value.shape), f"a number or one for each of e = {len(net)}", "stack them")
    moving = [name for name in theta if name in set(trained) and factors.get(name, 1.0) != 0]
    rates = {name: _ready(schedule.rate, theta[name]) * factors.get(name, 1.0) for name in moving}
    decays = {name: _ready(schedule.decay, theta[name]) for name in moving}
    speed = {name: torch.zeros_like(theta[name]) for name in moving} if schedule.momentum else {}
    at, trace = frozenset(probe_at), {name: [] for name in probes or {}}

    def evaluate(step: int) -> None:
        if step in at:
            for name, probe in (probes or {}).items():
                trace[name].append(probe(replace(net, **theta)).cpu().clone())  # weights move in place

    evaluate(0)
    chosen = None if callable(data) else batches(data[0].shape[1], schedule.batch, schedule.steps, key / "batches")
    for step in range(schedule.steps):
        if step in schedule.drops:
            rates = {name: rate / 10 for name, rate in rates.items()}
        if callable(data):
            x, y = data(schedule.batch, key / "samples" / step)
            x, y = x[None], y[None]
        else:
            rows = next(chosen) if chosen is not None else None
            x, y = (z if rows is None else z[:, rows] for z in data)
        now = replace(net, **theta)
        x = x.expand(len(net), -1, -1).to(now.w)
        seen = residual_forward(now, x)
        slopes = backward(now, x, seen, (seen.out - y.to(now.w)) / x.shape[1])
        for name in moving:
            g = torch.addcmul(slopes[name], decays[name], theta[name])
            if speed:
                g = speed[name].mul_(schedule.momentum).add_(g)
            theta[name].addcmul_(rates[name], g, value=-1)
        if step % CHECK_EVERY == CHECK_EVERY - 1 and not bool(_alive(theta).any()):
            raise Diverged(f"all networks have left the finite numbers after step {step + 1}; lower the rate")
        evaluate(step + 1)
    alive = _alive(theta)
    for value in theta.values():
        value[~alive] = math.nan
    steps = tuple(sorted(s for s in at if 0 <= s <= schedule.steps))
    return ResidualRun(
        replace(net, **theta), tuple(alive.tolist()), steps, {n: torch.stack(v) for n, v in trace.items() if v}
    )


def _alive(theta: Mapping[str, Tensor]) -> Tensor:
    """Which networks (e) are all finite."""
    return torch.stack([torch.isfinite(v.flatten(1).sum(1)) for v in theta.values()]).all(0)
