"""Training of transformers on sums modulo p: flat indices in, AdamW, evaluations of accuracy, early stop, resumable.

Source: fourier.method_transformer_training and fourier.figure4_4. The paper gives batch, rate, decay, betas and
warm-up steps; steps, splits of batches and evaluations are ours. Batches are functions of key and step alone, so a run
that is cut into slices, or trains among others, takes the same steps as one that is not.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from featlearn.core import Diverged, Key, SettingError
from featlearn.core.check import checked
from featlearn.learn.points import Decode, check_apart, check_points
from featlearn.learn.schedules import check_batch
from featlearn.nets.modular_transformer import ModularTransformer

PRECISIONS = ("float32", "tf32", "bf16")
BLOCK = 64  # steps whose batches are drawn, moved and decoded together
CHUNK = 2048  # points evaluated at once
EAGER = 3  # steps before one is captured


@dataclass(frozen=True, kw_only=True)
class ModularSchedule:
    """How to train: AdamW at a rate that climbs linearly over `warmup` steps, stays, and falls to 0 over `cool` steps.

    steps: the budget; its last `cool` steps are those of the falling rate, none in the paper. batch: points a step,
    None for all of them. decay: decoupled weight decay, of every parameter. replace: draw batches with replacement
    instead of in epochs of a new permutation, whose short last batch is left out. An evaluation measures accuracy and
    loss on the first `probe` points of both sides; evaluations come at growing steps, each `growth` times the one
    before but at least `gap` later. A run ends early once every member had an evaluation at or above the last of the
    `thresholds` on both sides, at `settle` times the step where the last one did (inf: never).
    precision: float32, tf32 (products on a GPU) or bf16 (products on any device).

    Errors: `SettingError` for each of these out of its range.
    """

    steps: int
    batch: int | None = 1024
    rate: float | int = 1e-3
    decay: float | int = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    warmup: int = 10
    cool: int = 0
    replace: bool = False
    growth: float | int = 1.05
    gap: int = 5
    probe: int = 2000
    thresholds: tuple[float, float] = (0.95, 0.99)
    settle: float | int = math.inf
    precision: str = "float32"

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "gap", "probe"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(name, value, "at least 1", "see the default")
        for name, low, strict in (("rate", 0, True), ("decay", 0, False), ("warmup", 0, False), ("cool", 0, False)):
            value = getattr(self, name)
            if not (value > low if strict else value >= low) or not math.isfinite(value):
                raise SettingError(name, value, f"a number {'above' if strict else 'from'} {low}", "see the default")
        for name in ("growth", "settle"):
            if not getattr(self, name) >= 1:
                raise SettingError(name, getattr(self, name), "at least 1", "see the default")
        if not 0 < self.thresholds[0] <= self.thresholds[1] <= 1:
            raise SettingError("thresholds", self.thresholds, "ascending, in (0, 1]", "0.95 0.99 is the default")
        if self.precision not in PRECISIONS:
            raise SettingError("precision", self.precision, f"one of {PRECISIONS}", "float32 is the default")

    def rate_at(self, step: int) -> float:
        """The rate of step 0, 1, ...

        Example:
            >>> schedule = ModularSchedule(steps=6, rate=1.0, warmup=2, cool=2)
            >>> [schedule.rate_at(s) for s in range(6)]
            [0.5, 1.0, 1.0, 1.0, 1.0, 0.5]
        """
        up, down = (step + 1) / max(1, self.warmup), (self.steps - step) / max(1, self.cool)
        return self.rate * min(1.0, up, down)

    def evaluations(self) -> list[int]:
        """The steps after which to evaluate: 0, then growing gaps, then the last step.

        Example:
            >>> ModularSchedule(steps=30, gap=5, growth=1.5).evaluations()
            [0, 5, 10, 15, 22, 30]
        """
        found = [0]
        while found[-1] < self.steps:
            found.append(min(self.steps, max(found[-1] + self.gap, int(found[-1] * self.growth))))
        return found


@dataclass(frozen=True)
class ModularRun:
    """Result of training, and what it takes to go on.

    net: the trained networks. steps (t): the evaluations. trace: "train_accuracy", "test_accuracy", "train_loss",
    "test_loss", each (t, e), on the probed points. train_accuracy, test_accuracy (e): shares over all points of a side
    at the end (None after a slice that is not the last). zero_loss: for each member the first evaluation at which its
    probed training loss was exactly 0, else None: from there its gradients are 0 in float32 and it learns no more,
    weight decay alone moves it. optimizer: both averages of Adam, for `resume`.
    """

    net: ModularTransformer
    steps: tuple[int, ...]
    trace: Mapping[str, Float[Tensor, "t e"]]
    train_accuracy: Float[Tensor, " e"] | None
    test_accuracy: Float[Tensor, " e"] | None
    zero_loss: tuple[int | None, ...]
    optimizer: Mapping[str, Tensor]
    done: bool

    def first(self, name: str, threshold: float) -> list[int | None]:
        """For each member the first evaluation at which a trace reached a threshold, None where it never did.

        An evaluation sees a crossing late by at most `gap` steps or `growth`, and training may fall below again later.
        """
        reached = self.trace[name] >= threshold
        return [next((s for s, r in zip(self.steps, column, strict=True) if r), None) for column in reached.T.tolist()]


class _Batches:
    """Indices of any step: (steps, e, b), functions of keys and step alone."""

    def __init__(self, data: Tensor, schedule: ModularSchedule, keys: Sequence[Key]) -> None:
        self.data, self.keys, self.replace = data, keys, schedule.replace
        self.n = data.shape[1]
        self.batch = schedule.batch or self.n
        self.held: tuple[int, list[Tensor]] = (-1, [])

    def _epoch(self, number: int) -> list[Tensor]:
        """A permutation per member, or, with replacement, the draws of BLOCK steps."""
        if self.held[0] != number:
            draws = []
            for key in self.keys:
                g = (key / "batches" / number).torch()
                if self.replace:
                    draws.append(torch.randint(self.n, (BLOCK * self.batch,), generator=g))
                else:
                    draws.append(torch.randperm(self.n, generator=g))
            self.held = number, draws
        return self.held[1]

    def block(self, start: int, stop: int) -> Tensor:
        """Flat indices of the points of steps start..stop - 1, on the device of the data."""
        if self.batch == self.n and not self.replace:
            return self.data.expand(stop - start, *self.data.shape)
        each = BLOCK if self.replace else self.n // self.batch
        rows = []
        for step in range(start, stop):
            order, at = self._epoch(step // each), step % each * self.batch
            rows.append(torch.stack([o[at : at + self.batch] for o in order]))
        places = torch.stack(rows).to(self.data.device)
        return torch.gather(self.data.expand(stop - start, *self.data.shape), 2, places)


def _cuda_capture(work: Callable[[], None]) -> Callable[[], None]:
    """Record `work` as a CUDA graph and give back its replay; recording does not run it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class _Stepper:
    """Runs steps; with `capture`, the first `eager` one by one on a side stream and the others as replays of one."""

    def __init__(
        self,
        work: Callable[[Tensor, Tensor], None],
        eager: int = 0,
        capture: Callable[[Callable[[], None]], Callable[[], None]] | None = None,
    ) -> None:
        self.work, self.eager, self.capture = work, eager, capture
        self.replay: Callable[[], None] | None = None
        self.held: tuple[Tensor, Tensor] | None = None

    def __call__(self, x: Tensor, y: Tensor) -> None:
        if self.capture is None:
            self.work(x, y)
        elif self.eager > 0:  # lets libraries and the optimizer set themselves up, which no graph may record
            self.eager -= 1
            with _side_stream(x.device):
                self.work(x, y)
        else:
            if self.held is None or self.replay is None:
                self.held = held = x.clone(), y.clone()
                self.replay = self.capture(lambda: self.work(*held))
            self.held[0].copy_(x)
            self.held[1].copy_(y)
            self.replay()


@contextmanager
def _side_stream(device: torch.device) -> Iterator[None]:
    if device.type != "cuda":
        yield
        return
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream(device).wait_stream(side)


@contextmanager
def _products(precision: str) -> Iterator[None]:
    """Products of float32 at a precision, and afterwards as they were before."""
    before = torch.get_float32_matmul_precision()
    try:
        if precision == "tf32":
            torch.set_float32_matmul_precision("high")
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _cast(precision: str, device: torch.device) -> torch.autocast:
    # no cache of cast weights: a captured step has to cast what the optimizer has changed
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16", cache_enabled=False)


class _AdamW:
    """Adam with decoupled decay on all parameters as one vector, which they become views of.

    Formula: m <- b1 m + (1 - b1) g, v <- b2 v + (1 - b2) g^2, theta <- (1 - rate decay) theta - rate m^ / (sqrt(v^) +
    1e-8), hats divided by 1 - b^t. What changes from step to step is read from a tensor, so a captured step sees it.
    torch's own optimizer is left alone because making one imports its compiler, seconds in every process.
    """

    def __init__(self, net: ModularTransformer, schedule: ModularSchedule) -> None:
        parameters = list(net.parameters())
        self.schedule = schedule
        self.theta = torch.cat([p.detach().flatten() for p in parameters])
        self.grad, self.m, self.v = (torch.zeros_like(self.theta) for _ in range(3))
        self.factors = self.theta.new_zeros(3)
        at = 0
        for p in parameters:
            p.data = self.theta[at : at + p.numel()].view(p.shape)
            p.grad = self.grad[at : at + p.numel()].view(p.shape)
            at += p.numel()

    def state(self) -> dict[str, Tensor]:
        return {"m": self.m, "v": self.v}

    def load(self, state: Mapping[str, Tensor]) -> None:
        self.m.copy_(state["m"])
        self.v.copy_(state["v"])

    def prepare(self, step: int) -> None:
        """Factors of step 0, 1, ...: of theta, of m and of sqrt(v)."""
        rate, (b1, b2) = self.schedule.rate_at(step), self.schedule.betas
        bias1, bias2 = 1 - b1 ** (step + 1), 1 - b2 ** (step + 1)
        self.factors.copy_(torch.tensor([1 - rate * self.schedule.decay, rate / bias1, bias2**-0.5]))

    def step(self) -> None:
        b1, b2 = self.schedule.betas
        keep, rate, scale = self.factors.unbind()
        self.m.lerp_(self.grad, 1 - b1)
        self.v.mul_(b2).addcmul_(self.grad, self.grad, value=1 - b2)
        self.theta.mul_(keep).sub_((self.v.sqrt() * scale).add_(1e-8).reciprocal_().mul_(self.m).mul_(rate))


def _losses(net: ModularTransformer, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy and whether the best class is right, both (e, n)."""
    scores = net(x).float()
    return F.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="none").view_as(y), scores.argmax(-1) == y


@checked()
@torch.no_grad()
def modular_accuracy(
    net: ModularTransformer, index: Int[Tensor, "e n"], decode: Decode
) -> tuple[Float[Tensor, " e"], Float[Tensor, " e"]]:
    """Share of right answers and mean loss over given points, member by member: (e, n) flat indices -> (e), (e).

    Errors: `SettingError` for no points, for points of other sums, and for sets of another number of members.
    """
    if len(index) != net.members:
        raise SettingError("index", f"{len(index)} sets", f"one per network, {net.members}", "stack one per member")
    check_points("index", index, decode, net.shape.k, net.shape.p)
    return _accuracy(net, index, decode)


@torch.no_grad()
def _accuracy(net: ModularTransformer, index: Tensor, decode: Decode) -> tuple[Tensor, Tensor]:
    """`modular_accuracy` of points that have been checked."""
    right = torch.zeros(len(index), dtype=torch.float64)
    loss = torch.zeros(len(index), dtype=torch.float64)
    for part in index.split(CHUNK, 1):
        losses, hits = _losses(net, *decode(part))
        right += hits.sum(1).cpu()
        loss += losses.double().sum(1).cpu()
    n = index.shape[1]
    return (right / n).float(), (loss / n).float()


@checked()
def fit_modular(
    net: ModularTransformer,
    train: Int[Tensor, "e n"],
    test: Int[Tensor, "e m"],
    decode: Decode,
    schedule: ModularSchedule,
    keys: Sequence[Key],
    *,
    resume: ModularRun | None = None,
    until: int | None = None,
) -> ModularRun:
    """Train an ensemble of transformers on points given by flat indices; the given networks stay as they are.

    Formula: theta <- (1 - rate decay) theta - rate Adam(grad mean_b cross-entropy), member by member.
    Shapes: train (e, n) and test (e, m) flat indices, on the device of the networks; decode makes inputs (..., k) and
    labels (...) of them. keys: one per member, for its batches. until: stop at the first evaluation from this step on,
    for a run in slices; give the result to `resume` to go on, with the same other arguments.
    On a GPU the step is captured once as a graph after the warm-up.

    Errors, before any work: `SettingError` for a batch above n, for sides or keys of another number of members, for an
    empty side, for points of other sums, and for points on both sides. `Diverged` at the first evaluation with a loss
    that is not finite.

    Example:
        >>> from featlearn.nets.modular_transformer import ModularShape
        >>> net = ModularTransformer(ModularShape(k=2, p=3, heads=1, width=4, head_dim=4, mlp=0), [Key("a")])
        >>> decode = lambda i: (torch.stack([i // 3, i % 3], -1), (i // 3 + i % 3) % 3)
        >>> train, test = torch.arange(6)[None], torch.arange(6, 9)[None]
        >>> fit_modular(net, train, test, decode, ModularSchedule(steps=4, batch=3), [Key("a")]).steps
        (0, 4)
    """
    for name, value in (("train", train), ("test", test), ("keys", keys)):
        if len(value) != net.members:
            raise SettingError(name, f"{len(value)} sets", f"one per network, {net.members}", "stack one per member")
    check_batch(train.shape[1], schedule.batch)
    if resume is None:
        for name, side in (("train", train), ("test", test)):
            check_points(name, side, decode, net.shape.k, net.shape.p)
        check_apart(train, test)
    device = train.device
    net = copy.deepcopy(net if resume is None else resume.net)
    optimizer = _AdamW(net, schedule)
    if resume is not None:
        optimizer.load(resume.optimizer)

    def work(x: Tensor, y: Tensor) -> None:
        optimizer.grad.zero_()
        with _products(schedule.precision):
            with _cast(schedule.precision, device):
                loss = _losses(net, x, y)[0].mean(1).sum()
            loss.backward()
        optimizer.step()

    steps = [] if resume is None else list(resume.steps)
    names = ("train_accuracy", "train_loss", "test_accuracy", "test_loss")
    trace: dict[str, list[Tensor]] = {name: [] if resume is None else list(resume.trace[name]) for name in names}
    zero: list[int | None] = [None] * net.members if resume is None else list(resume.zero_loss)
    step = steps[-1] if steps else 0
    stepper = _Stepper(work, EAGER, _cuda_capture if device.type == "cuda" else None)
    batches = _Batches(train, schedule, keys)

    def record() -> None:
        steps.append(step)
        with _products(schedule.precision), _cast(schedule.precision, device):
            for i, side in enumerate((train, test)):
                right, loss = _accuracy(net, side[:, : schedule.probe], decode)
                if not torch.isfinite(loss).all():
                    member = int((~torch.isfinite(loss)).nonzero()[0])
                    raise Diverged(f"step {step}: the loss of member {member} is not finite; lower the rate")
                trace[names[2 * i]].append(right)
                trace[names[2 * i + 1]].append(loss)
        for m, value in enumerate(trace["train_loss"][-1].tolist()):
            if value == 0 and zero[m] is None:
                zero[m] = step

    def arrived() -> bool:
        """Whether all members had both accuracies at the last threshold, and long enough ago."""
        last = schedule.thresholds[1]
        reached = [torch.stack(trace[name]) >= last for name in (names[0], names[2])]
        if not all(bool(r.any(0).all()) for r in reached):
            return False
        when = max(steps[int(r.int().argmax(0).max())] for r in reached)
        return step >= schedule.settle * when

    if not steps:
        record()
    ahead = [s for s in schedule.evaluations() if s > step]
    end = arrived()
    while ahead and not end and (until is None or step < until):
        goal = ahead.pop(0)
        while step < goal:
            stop = min(goal, (step // BLOCK + 1) * BLOCK)
            x, y = decode(batches.block(step, stop))
            for i in range(stop - step):
                optimizer.prepare(step + i)
                stepper(x[i], y[i])
            step = stop
        record()
        end = arrived()
    done = end or step >= schedule.steps
    full = None, None
    if done:
        with _products(schedule.precision), _cast(schedule.precision, device):
            full = _accuracy(net, train, decode)[0], _accuracy(net, test, decode)[0]
    return ModularRun(
        net,
        tuple(steps),
        {name: torch.stack(values) for name, values in trace.items()},
        *full,
        tuple(zero),
        optimizer.state(),
        done,
    )
