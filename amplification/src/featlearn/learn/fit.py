"""Train ensembles of two-layer networks with hand-written gradients.

On a CPU networks are independent, so they train in small groups, each on one thread for all its steps, in blocks of
rows whose activations stay in cache. Networks that share their inputs are one wide network to the matrix products;
with a data set each, and on a GPU, products are batched. One step costs the two matrix products that backpropagation
needs and three passes over the activations.
"""

from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import Key
from featlearn.core.check import checked
from featlearn.learn.groups import (
    CACHE_FLOATS,
    Probe,
    Run,
    all_finite,
    column,
    diverged,
    each_group,
    is_zero,
    joined,
    least_rows,
    with_ones,
)
from featlearn.learn.schedules import Stage, batches, check_batch, check_rates
from featlearn.nets import TwoLayer
from featlearn.nets.pointwise import Activation, Loss, activate, check_choice, gated, loss_slope, noisy

WIDEST = 32  # networks in a wide product: block-diagonal products cost each of them as many columns as there are
SPREAD = 4  # groups that wide products leave, for the cores of a common machine


def _check(net: TwoLayer, n: int, stages: Sequence[Stage]) -> None:
    """Refuse what would train in silence: batches that are no samples, and rates for other networks."""
    for stage in stages:
        if stage.steps:
            check_batch(n, stage.batch)
        check_rates(stage, len(net))


def _take(data: Tensor, part: Tensor | slice) -> Tensor:
    """Rows of every network's data (e, n, ...)."""
    return data[:, part] if isinstance(part, slice) else data.index_select(1, part)


class _Group:
    """A few networks in training: packed first layer (g, m, d+1), second layer (g, m), data and work space."""

    def __init__(self, net: TwoLayer, x1: Tensor, y: Tensor, weights: Tensor | None, loss: str, members: slice) -> None:
        self.v = torch.cat([net.w, net.b[:, :, None]], -1).contiguous()
        self.a = net.a.clone()
        self.kind: Activation = net.activation
        self.loss, self.members = loss, members
        own = slice(None) if len(x1) == 1 else members
        self.x1, self.y = x1[own], y[slice(None) if len(y) == 1 else members]
        self.weights = None if weights is None else weights[slice(None) if len(weights) == 1 else members]
        self.wide = len(x1) == 1 and len(self.a) <= WIDEST and x1.device.type == "cpu"
        self.rooms: dict[tuple[str, int], Tensor] = {}
        self.speed: tuple[Tensor, Tensor] | None = None

    def net(self) -> TwoLayer:
        return TwoLayer(self.v[..., :-1].clone(), self.v[..., -1].clone(), self.a.clone(), self.kind)

    def blocks(self, rows: Tensor | None, size: int) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """Inputs, labels and weights of the minibatch `rows` (None: of all samples), `size` rows at a time."""
        for i in range(0, self.x1.shape[1] if rows is None else len(rows), size):
            part = slice(i, i + size) if rows is None else rows[i : i + size]
            yield _take(self.x1, part), _take(self.y, part), None if self.weights is None else _take(self.weights, part)

    def gradient(self, rows: Tensor | None, stage: Stage, first: bool) -> tuple[Tensor | None, Tensor]:
        """Gradients of the mean loss: packed first layer (None if it is frozen) and second layer."""
        total = self.x1.shape[1] if rows is None else len(rows)
        dv, da = (self.wide_sums if self.wide else self.batched_sums)(rows, total, stage, first)
        return (None if dv is None else dv.mul_(self.a[:, :, None])), da

    def room(self, name: str, rows: int) -> Tensor:
        """Work space for activations (rows, g m) that stays between steps, and so in cache and mapped."""
        found = self.rooms.get((name, rows))
        if found is None:
            found = self.rooms[name, rows] = self.v.new_empty(rows, self.a.numel())
        return found

    def wide_sums(self, rows: Tensor | None, total: int, stage: Stage, first: bool) -> tuple[Tensor | None, Tensor]:
        """The gradients, that of the first layer without its factor a, where all networks see the same inputs.

        Activations lie as (b, g m), so that all networks are one product. Scores are a product with a block-diagonal
        second layer, da the diagonal blocks of another: some columns too many, yet cheaper than g thin products.
        """
        g, m, d1 = self.v.shape
        v = self.v.view(g * m, d1)
        second = self.v.new_zeros(g, m, g)
        second.diagonal(dim1=0, dim2=2).copy_(self.a.T)
        dv = torch.zeros_like(v) if first else None
        da = self.v.new_zeros(g, g * m)
        parts = max(1, round(total * min(g * m / CACHE_FLOATS, 1 / least_rows(d1))))
        for x1, y, wt in self.blocks(rows, -(-total // parts)):
            x, b = x1[0], x1.shape[1]
            z, gate = torch.mm(x, v.T, out=self.room("z", b)), None
            if stage.noise:
                act, gate = noisy(z, self.kind, stage.noise)
            else:  # `activate`, into work space
                act = torch.clamp(z, 0.0, 1.0 if self.kind == "clip" else None, out=self.room("act", b))
            delta = loss_slope(torch.mm(act, second.view(g * m, g)), y.T, self.loss)
            delta = delta / total if wt is None else delta * (wt.T / total)
            da.addmm_(delta.T, act)
            if dv is not None:
                z, act, delta = z.view(b, g, m), act.view(b, g, m), delta[:, :, None]
                gate = gated(delta, z, self.kind, out=act) if gate is None else gate.view(b, g, m).mul_(delta)
                dv.addmm_(gate.view(b, g * m).T, x)
        own = da.view(g, g, m).diagonal(dim1=0, dim2=1).T.contiguous()
        return (None if dv is None else dv.view(g, m, d1)), own

    def batched_sums(self, rows: Tensor | None, total: int, stage: Stage, first: bool) -> tuple[Tensor | None, Tensor]:
        """As `wide_sums`, for inputs of any kind."""
        # a GPU takes the whole batch at once, up to a GiB of activations
        floats = CACHE_FLOATS if self.a.device.type == "cpu" else 2**28
        dv = None
        da = torch.zeros_like(self.a)
        for x, y, wt in self.blocks(rows, max(256, floats // self.a.numel())):
            z = torch.matmul(x, self.v.transpose(1, 2))
            act, gate = noisy(z, self.kind, stage.noise) if stage.noise else (activate(z, self.kind), None)
            score = torch.matmul(act, self.a[:, :, None])[..., 0]
            delta = loss_slope(score, y, self.loss)
            delta = delta / total if wt is None else delta * (wt / total)
            da += torch.matmul(delta[:, None, :], act)[:, 0]
            if first:
                delta = delta[:, :, None]
                gate = gated(delta, z, self.kind, out=act) if gate is None else gate.mul_(delta)
                part_v = torch.matmul(gate.transpose(1, 2), x)
                dv = part_v if dv is None else dv.add_(part_v)
        return dv, da

    def step(self, rows: Tensor | None, stage: Stage) -> None:
        moves_w, moves_b = not is_zero(stage.rate_w), not is_zero(stage.rate_b)
        dv, da = self.gradient(rows, stage, first=moves_w or moves_b)
        if stage.momentum:
            if self.speed is None:
                self.speed = torch.zeros_like(self.v), torch.zeros_like(self.a)
            if dv is not None:
                dv = self.speed[0].mul_(stage.momentum).add_(dv)
            da = self.speed[1].mul_(stage.momentum).add_(da)
        if stage.keep_w != 1:
            self.v[..., :-1].mul_(stage.keep_w)
        if dv is not None:
            rate_w, rate_b = (column(r, self.members, self.v, 3) for r in (stage.rate_w, stage.rate_b))
            if isinstance(rate_w, float) and isinstance(rate_b, float) and rate_w == rate_b:
                self.v.sub_(dv, alpha=rate_w)
            else:
                self.v[..., :-1].sub_(dv[..., :-1] * rate_w)
                self.v[..., -1:].sub_(dv[..., -1:] * rate_b)
        if stage.keep_a != 1:
            self.a.mul_(stage.keep_a)
        if not is_zero(stage.rate_a):
            self.a.sub_(da * column(stage.rate_a, self.members, self.a, 2))


def _train(
    group: _Group, stages: Sequence[Stage], key: Key, probes: Mapping[str, Probe], probe_at: frozenset[int]
) -> tuple[TwoLayer, dict[str, list[Tensor]]]:
    trace: dict[str, list[Tensor]] = {name: [] for name in probes}

    def record(step: int) -> None:
        if step in probe_at:
            net = group.net()
            for name, probe in probes.items():
                trace[name].append(probe(net, group.members).cpu())

    record(0)
    done, n = 0, group.x1.shape[1]
    each = group.v.device.type == "cpu"  # on a GPU reading a flag would wait for the queue at every step
    for i, stage in enumerate(stages):
        group.speed = None
        for rows in batches(n, stage.batch, stage.steps, key / i):
            group.step(None if rows is None else rows.to(group.v.device), stage)
            done += 1
            if each and not all_finite(group.v, group.a):
                raise diverged(done, i)
            record(done)
        if not all_finite(group.v, group.a):
            raise diverged(done, i)
    return group.net(), trace


def _groups(net: TwoLayer, x1: Tensor, stages: Sequence[Stage]) -> list[slice]:
    """Which networks train together; it must not depend on the number of threads, so that no result does."""
    (e, m), (sets, n, d1) = net.a.shape, x1.shape
    if x1.device.type != "cpu":
        return [slice(0, e)]
    batch = min([s.batch or n for s in stages if s.steps], default=1)
    count = -(-e // max(1, CACHE_FLOATS // (m * batch)))
    if sets == 1:  # wide products go through a batch in blocks of rows, and gain from more networks
        most = max(1, CACHE_FLOATS // (m * min(batch, least_rows(d1))))
        count = min(count, max(SPREAD, -(-e // min(most, WIDEST))))
    size = -(-e // count)
    return [slice(i, min(i + size, e)) for i in range(0, e, size)]


@checked(signs=("y",), moves=True)
def fit(
    net: TwoLayer,
    x: Float[Tensor, "n d"] | Float[Tensor, "#e n d"],
    y: Float[Tensor, " n"] | Float[Tensor, "#e n"],
    stages: Sequence[Stage],
    key: Key,
    *,
    loss: Loss = "hinge",
    weights: Float[Tensor, " n"] | Float[Tensor, "#e n"] | None = None,
    probes: Mapping[str, Probe] | None = None,
    probe_at: Sequence[int] = (),
    threads: int | None = None,
) -> Run:
    """Train an ensemble of two-layer networks through the given stages.

    Formula: theta <- keep theta - rate * grad mean_s weight_s l(g(x_s), y_s), stage by stage.
    Shapes: x (n, d) and y (n) shared by all networks, or (e, n, d) and (e, n) with one data set each; weights like y.
    Minibatch indices depend on `key` alone, so all members see the same rows and an ensemble equals a loop of single
    runs with the same key. probes: functions (networks of a group, their indices in the ensemble) -> values (g, ...),
    evaluated after the steps in `probe_at` (0 is the start; steps that training never reaches are left out).
    threads: groups trained at once on a CPU, by default as many as torch uses; the result does not depend on it.
    Errors, before any work: `SettingError` for a batch above n, for data, weights or rates that do not fit the
    networks, for values that are not finite, and for labels other than -1 and +1 unless loss = "squared". `Diverged`
    when weights leave the finite numbers, with the step (on a GPU with the last step of the stage).

    Example:
        >>> from featlearn.nets import gaussian_init
        >>> net = gaussian_init(8, 3, Key("n"), sigma_w=1.0, sigma_b=0.0, sigma_a=1.0)
        >>> x, y = torch.randn(20, 3), torch.ones(20)
        >>> fit(net, x, y, [Stage(steps=5, rate_w=0.1, rate_a=0.1)], Key("batches")).net.w.shape
        torch.Size([1, 8, 3])
    """
    check_choice("loss", loss, Loss)
    device = net.w.device
    x3 = (x if x.ndim == 3 else x[None]).to(net.w)
    y2 = (y if y.ndim == 2 else y[None]).to(net.w)
    w2 = None if weights is None else (weights if weights.ndim == 2 else weights[None]).to(net.w)
    _check(net, x3.shape[1], stages)
    x1 = with_ones(x3)
    groups = _groups(net, x1, stages)
    at = frozenset(probe_at)
    probes = probes or {}

    def work(members: slice) -> tuple[TwoLayer, dict[str, list[Tensor]]]:
        return _train(_Group(net[members], x1, y2, w2, loss, members), stages, key, probes, at)

    parts = each_group(work, groups, device, threads)
    return joined(parts, probes, at, sum(s.steps for s in stages))
