"""Training of k-th power networks on sums modulo p: gradients written by hand, Adam, the L_{2,k+1} penalty.

A step looks up and adds rows of one table, multiplies twice by the output vectors and once transposed, and adds the
slopes back to the rows; samples go in blocks whose activations stay in cache. Nothing is ever one-hot.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from featlearn.core import Diverged, Key, SettingError
from featlearn.core.check import checked
from featlearn.learn.points import Decode, check_points
from featlearn.learn.schedules import batches
from featlearn.nets.power import PowerNetwork, block_rows, look_up, whole_power

Probe = Callable[[PowerNetwork], Mapping[str, float]]
# steps between two checks for divergence and for a loss of exactly 0; on a GPU a check waits for the queue
CHECK_EVERY = 50


@dataclass(frozen=True, kw_only=True)
class PowerSchedule:
    """How to train: Adam at a rate that climbs over `warmup` steps and falls by a half cosine, or stays.

    Loss: mean cross-entropy + lambda |theta|_{2,k+1}, the norm to the first power (Definition 4.1); `penalty` is lambda
    and rises linearly from 0 over the first share `ramp` of the steps. weight_decay: AdamW's decoupled one, the other
    reading of the paper. batch: training points a step, None for all of them.

    Source: fourier.definition4_1, fourier.method_nn_training; the schedule of the rate, the ramp and the number of
    steps are ours. Errors: `SettingError` for each of these out of its range.
    """

    steps: int
    batch: int | None = 2048
    rate: float | int = 2e-2
    decay: str = "cosine"
    warmup: int = 10
    penalty: float | int = 1e-2
    ramp: float | int = 0.0
    weight_decay: float | int = 0.0
    betas: tuple[float, float] = (0.9, 0.98)

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(name, value, "at least 1", "see the default")
        for name, strict in (("rate", True), ("penalty", False), ("weight_decay", False), ("warmup", False)):
            value = getattr(self, name)
            if not (value > 0 if strict else value >= 0) or not math.isfinite(value):
                allowed = "a finite number " + ("above 0" if strict else "of at least 0")
                raise SettingError(name, value, allowed, "see the default")
        if not 0 <= self.ramp <= 1:
            raise SettingError("ramp", self.ramp, "a share of the steps, 0 to 1", "0 is the default")
        if self.decay not in ("cosine", "constant"):
            raise SettingError("decay", self.decay, "cosine or constant", "cosine is the default")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise SettingError("betas", self.betas, "each in [0, 1)", "0.9 0.98 is reported")

    def rate_at(self, step: int) -> float:
        """The rate of step 0, 1, ...

        Example:
            >>> s = PowerSchedule(steps=4, rate=1.0, warmup=2)
            >>> [round(s.rate_at(t), 3) for t in range(4)]
            [0.5, 0.854, 0.5, 0.146]
        """
        up = min(1.0, (step + 1) / max(1, self.warmup))
        return self.rate * up * (0.5 * (1 + math.cos(math.pi * step / self.steps)) if self.decay == "cosine" else 1.0)

    def penalty_at(self, step: int) -> float:
        """lambda of step 0, 1, ..."""
        return self.penalty * min(1.0, step / (self.ramp * self.steps)) if self.ramp else self.penalty


@dataclass(frozen=True)
class PowerRun:
    """net: the trained network. steps (t): the evaluations. trace: the numbers of each probe at these evaluations (t),
    by name.

    stalled: the step at which the loss of every training point was exactly 0 and nothing else moved the weights, or
    None: all probabilities had rounded to 1, so that gradients are 0 and training stopped there, with a last
    evaluation.
    """

    net: PowerNetwork
    steps: tuple[int, ...]
    trace: Mapping[str, tuple[float, ...]]
    stalled: int | None


class _Engine:
    """Parameters as one table ((k + 1) p, m): a row for each value of each input, then the output vectors."""

    def __init__(self, net: PowerNetwork) -> None:
        self.k, self.p, m = net.k, net.p, len(net)
        rows = torch.cat([net.u.permute(1, 2, 0).reshape(self.k * self.p, m), net.w.T])
        self.table = torch.nn.Parameter(rows.contiguous())
        self.table.grad = torch.zeros_like(rows)
        self.offset = torch.arange(self.k, device=rows.device) * self.p

    def net(self) -> PowerNetwork:
        rows, at = self.table.detach(), self.k * self.p
        u = rows[:at].view(self.k, self.p, -1).permute(2, 0, 1).clone()
        return PowerNetwork(u, rows[at:].T.clone())

    def cross_entropy(self, x: Tensor, y: Tensor, scale: float) -> Tensor:
        """Adds scale * gradient of the summed cross-entropy to the gradient, and returns that sum."""
        rows, grad, at = self.table.detach(), self.table.grad, self.k * self.p
        assert grad is not None
        total = rows.new_zeros(())
        size = block_rows(rows.shape[1], rows.device)
        for xb, yb in zip(x.split(size), y.split(size), strict=True):
            where = xb + self.offset
            s = look_up(rows[:at], where)
            lower = whole_power(s, self.k - 1) if self.k > 1 else torch.ones_like(s)
            act = s.mul_(lower)
            log_q = torch.log_softmax(act @ rows[at:].T, 1)
            total -= log_q.gather(1, yb[:, None]).sum()
            delta = log_q.exp_()
            delta.scatter_add_(1, yb[:, None], delta.new_full((len(yb), 1), -1.0)).mul_(scale)
            grad[at:].addmm_(delta.T, act)
            slope = torch.mm(delta, rows[at:], out=act).mul_(lower).mul_(self.k)
            for j in range(self.k):
                grad.index_add_(0, where[:, j], slope)
        return total

    def add_penalty(self, penalty: float) -> None:
        """Adds the gradient of penalty * |theta|_{2,k+1}: penalty |theta|^-k n_i^(k-1) theta_i for neuron i."""
        rows, k = self.table.detach(), self.k
        n = rows.square().sum(0).sqrt()
        largest = n.max().clamp_min(torch.finfo(n.dtype).tiny)  # powers of small numbers stay in range
        share = n / largest
        whole = share.pow(k + 1).sum().pow(k / (k + 1))
        assert self.table.grad is not None
        self.table.grad.addcmul_(rows, penalty / largest * share.pow(k - 1) / whole)


def _all_zero(net: PowerNetwork, train: Tensor, decode: Decode) -> bool:
    """Whether no training point has a loss; one batch without any says little about the others."""
    for part in train.split(block_rows(len(net), train.device)):
        x, y = decode(part)
        if float(torch.nn.functional.cross_entropy(net(x), y, reduction="sum")) != 0:
            return False
    return True


@checked(empty=("train",))
def fit_power(
    net: PowerNetwork,
    train: Int[Tensor, " n"],
    decode: Decode,
    key: Key,
    schedule: PowerSchedule,
    *,
    probes: Sequence[Probe] = (),
    probe_at: Sequence[int] = (),
) -> PowerRun:
    """Train a k-th power network on points given by flat indices, decoded on the device where they lie.

    Formula: Adam on mean_s -log softmax(f(x_s))[y_s] + lambda |theta|_{2,k+1}, `PowerSchedule` says how.
    Shapes: train (n), decode(train[i]) -> x (b, k), y (b). probes: functions of the network, called after the steps
    in `probe_at` (0 is the start), each giving numbers by name.
    Source: fourier.method_nn_training, fourier.definition4_1. The text says SGD and the recipe AdamW: ours is AdamW.
    Errors: `SettingError`, before any work, for an empty training set or a batch above it, for points of other sums,
    and for a network that is not finite; `Diverged` when a loss is not finite.

    Example:
        >>> from featlearn.nets.power import power_init
        >>> def decode(i):
        ...     x = torch.stack([i // 5, i % 5], 1)
        ...     return x, x.sum(1) % 5
        >>> run = fit_power(power_init(8, 2, 5, Key("n")), torch.arange(25), decode, Key("t"),
        ...                 PowerSchedule(steps=3, batch=None))
        >>> run.net.u.shape
        torch.Size([8, 2, 5])
    """
    if not len(train):
        raise SettingError("train", 0, "at least one point", "an empty side of a split teaches nothing")
    check_points("train", train, decode, net.k, net.p)
    engine, s = _Engine(net), schedule
    optimizer = torch.optim.AdamW(
        [engine.table], lr=s.rate, betas=s.betas, eps=1e-12, weight_decay=s.weight_decay, fused=True
    )
    at, steps, trace = frozenset(probe_at), [], {}
    stalled: int | None = None

    def record(step: int, wanted: bool = False) -> None:
        if wanted or step in at:
            steps.append(step)
            for name, value in (item for probe in probes for item in probe(engine.net()).items()):
                trace.setdefault(name, []).append(value)

    whole = decode(train) if s.batch in (None, len(train)) else None
    record(0)
    for step, index in enumerate(batches(len(train), s.batch, s.steps, key)):
        assert engine.table.grad is not None
        engine.table.grad.zero_()
        found = whole if index is None else decode(train[index.to(train.device)])
        assert found is not None
        x, y = found
        loss = engine.cross_entropy(x, y, 1 / len(y))
        if (step + 1) % CHECK_EVERY == 0 or step + 1 == s.steps:
            if not math.isfinite(value := float(loss)):
                raise Diverged(f"loss is {value} at step {step + 1}; lower the rate {s.rate}")
            if (
                value == 0
                and not s.penalty
                and not s.weight_decay
                and (whole or _all_zero(engine.net(), train, decode))
            ):
                stalled = step + 1
                record(stalled, wanted=bool(probes))
                break
        if s.penalty:
            engine.add_penalty(s.penalty_at(step))
        optimizer.param_groups[0]["lr"] = s.rate_at(step)
        optimizer.step()
        record(step + 1)
    return PowerRun(engine.net(), tuple(steps), {name: tuple(v) for name, v in trace.items()}, stalled)
