"""One-pass SGD on ensembles of two-layer networks: every step draws new samples, and each is used once.

Members of one set share every minibatch (say, all step sizes of one seed) and are one wide network to the matrix
products; sets draw their own data. Sets too small to fill a core are trained in one batched product. One step costs
the two products that backpropagation needs and three passes over the activations: the second product adds to the
weights at once. Batches too large for the cache go in blocks of rows; then the gradient is summed first, and as ReLU is
homogeneous, that of the second layer is read off that of the first (w . grad_w = a grad_a).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.core.check import check_finite, check_signs
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
from featlearn.learn.schedules import Stage, check_rates
from featlearn.nets import TwoLayer
from featlearn.nets.pointwise import Activation, Loss, check_choice, gated, loss_slope

Sampler = Callable[[int, Key], tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]]
"""(n, key) -> n new samples x (n, d) and labels y (n), on the device of the networks."""

DRAWN_FLOATS = 2**19  # samples of several small steps are drawn at once, so that a draw costs little beside a step
LEAST_WORK = 2**25  # multiplications of a step below which sets are trained together
LARGEST = 1e15  # of a second layer that is still training
CHECK_EVERY = 8  # steps between two checks for divergence
Diverging = Literal["raise", "rest"]


class _Moves:
    """A stage, worked out once for a group: which layers move, and step sizes (s, r, 1) ready to multiply."""

    def __init__(self, stage: Stage, group: "_Group") -> None:
        def ready(value: float | Tensor) -> Tensor | float:
            found = column(value, group.members, group.a, 2)
            return found.view(-1, group.a.shape[1], 1) if isinstance(found, Tensor) and len(found) > 1 else found

        self.w, self.a = not is_zero(stage.rate_w), not is_zero(stage.rate_a)
        self.b = group.ones and not is_zero(stage.rate_b)
        self.rate_w, self.rate_b, self.rate_a = ready(stage.rate_w), ready(stage.rate_b), ready(stage.rate_a)
        self.keep_w, self.keep_a = stage.keep_w, stage.keep_a


class _Group:
    """A few sets in training: packed first layer (s, r m, d), second layer (s, r, m), r members a set."""

    def __init__(
        self, net: TwoLayer, sets: Sequence[int], members: slice, loss: str, ones: bool, diverging: str
    ) -> None:
        part = net[members]
        self.sets, self.members, self.loss, self.ones = tuple(sets), members, loss, ones
        self.kind: Activation = part.activation
        s, (e, m, d) = len(self.sets), part.w.shape
        packed = torch.cat([part.w, part.b[:, :, None]], -1) if ones else part.w.clone()
        self.v = packed.reshape(s, e // s * m, d + ones)
        # scores are one product with a block-diagonal second layer, transposed, which is faster; a is its diagonal
        self.second = part.a.new_zeros(s, e // s, e // s, m)
        self.a = self.second.diagonal(dim1=1, dim2=2).transpose(1, 2)
        self.a.copy_(part.a.view(s, e // s, m))
        self.alive: Tensor | None = None
        if diverging == "rest":  # who comes as NaN, from an earlier call, stays at rest
            finite = torch.isfinite(self.v.view(s, e // s, -1).sum(-1) + self.a.sum(-1))
            self.alive = finite[..., None]
            self.v.view(s, e // s, m, -1).masked_fill_(~finite[..., None, None], 0)
            self.a.masked_fill_(~self.alive, 0)
        self.rooms: dict[tuple[str, int], Tensor] = {}

    def net(self) -> TwoLayer:
        s, r, m = self.a.shape
        v, a = self.v.view(s * r, m, -1), self.a.reshape(s * r, m)
        b = v[..., -1].clone() if self.ones else torch.zeros_like(a)
        return TwoLayer((v[..., :-1] if self.ones else v).clone(), b, a.clone(), self.kind)

    def room(self, name: str, rows: int) -> Tensor:
        """Work space for activations (s, rows, r m) that stays between steps."""
        found = self.rooms.get((name, rows))
        if found is None:
            found = self.rooms[name, rows] = self.v.new_empty(len(self.v), rows, self.v.shape[1])
        return found

    def blocks(self, total: int, d: int) -> int:
        """In how many blocks of rows a batch goes, so that activations stay in cache."""
        if self.v.device.type != "cpu":
            return 1
        return max(1, round(total * min(self.a.numel() / CACHE_FLOATS, 1 / least_rows(d))))

    def forward(self, x: Tensor, y: Tensor, total: int) -> tuple[Tensor, Tensor, Tensor]:
        """Preactivations and activations (s, b, r m), and the slope of the loss over `total` (s, b, r)."""
        (s, r, m), b = self.a.shape, x.shape[1]
        z = torch.bmm(x, self.v.transpose(1, 2), out=self.room("z", b))
        act = torch.clamp(z, 0.0, 1.0 if self.kind == "clip" else None, out=self.room("act", b))
        score = torch.bmm(act, self.second.view(s, r, r * m).transpose(1, 2))
        return z, act, loss_slope(score, y[:, :, None], self.loss) / total

    def own(self, across: Tensor) -> Tensor:
        """The members' own blocks (s, r, m) of the products (s, r, r m) of all slopes with all activations."""
        s, r, m = self.a.shape
        return across.view(s, r, r, m).diagonal(dim1=1, dim2=2).transpose(1, 2)

    def sums(self, x: Tensor, y: Tensor, first: bool) -> tuple[Tensor | None, Tensor]:
        """Mean of l' sigma' x for each neuron (s, r m, d), and the gradient of the second layer (s, r, m)."""
        s, r, m = self.a.shape
        total, d = x.shape[1], x.shape[2]
        by_product = not (first and self.kind == "relu" and total > d)  # else homogeneity gives it more cheaply
        dv = torch.zeros_like(self.v) if first else None
        da = self.a.new_zeros(s, r, r * m) if by_product else None
        size = -(-total // self.blocks(total, d))
        for i in range(0, total, size):
            xb = x[:, i : i + size]
            b = xb.shape[1]
            z, act, delta = self.forward(xb, y[:, i : i + size], total)
            if da is not None:
                da.baddbmm_(delta.transpose(1, 2), act)
            if dv is not None:
                gate = gated(delta[..., None], z.view(s, b, r, m), self.kind, out=act.view(s, b, r, m))
                dv.baddbmm_(gate.view(s, b, r * m).transpose(1, 2), xb)
        if da is not None:
            return dv, self.own(da)
        assert dv is not None
        return dv, torch.linalg.vecdot(self.v, dv).view(s, r, m)

    def in_place(self, x: Tensor, y: Tensor, moves: "_Moves") -> Tensor:
        """Move the first layer by its gradient without ever holding that, and return the gradient of the second.

        Step sizes and second layer multiply activations, which are fewer than weights where a batch is small.
        """
        (s, r, m), b = self.a.shape, x.shape[1]
        z, act, delta = self.forward(x, y, b)
        da = self.own(torch.bmm(delta.transpose(1, 2), act))
        gate = gated(delta[..., None], z.view(s, b, r, m), self.kind, out=act.view(s, b, r, m))
        gate.mul_((self.a * moves.rate_w)[:, None])
        self.v.baddbmm_(gate.view(s, b, r * m).transpose(1, 2), x, beta=moves.keep_w, alpha=-1)
        return da

    def step(self, x: Tensor, y: Tensor, moves: "_Moves") -> None:
        s, r, m = self.a.shape
        if moves.w and not self.ones and self.blocks(x.shape[1], x.shape[2]) == 1:
            da = self.in_place(x, y, moves)
        else:
            dv, da = self.sums(x, y, moves.w or moves.b)
            if moves.keep_w != 1:
                (self.v[..., :-1] if self.ones else self.v).mul_(moves.keep_w)
            if dv is not None:
                own = (self.a * moves.rate_w).view(s, r * m, 1)
                if not self.ones:
                    self.v.addcmul_(dv, own, value=-1)
                else:
                    self.v[..., :-1].addcmul_(dv[..., :-1], own, value=-1)
                    own = (self.a * moves.rate_b).view(s, r * m, 1)
                    self.v[..., -1:].addcmul_(dv[..., -1:], own, value=-1)
        if moves.keep_a != 1:
            self.a.mul_(moves.keep_a)
        if moves.a:
            self.a.sub_(da * moves.rate_a)
        if self.alive is not None:
            self.rest()

    def rest(self) -> None:
        """Members that have just left the range stand still from now on: zeros add nothing to products of their set.

        Both layers: an infinite activation times a zero second layer would be NaN for everybody.
        """
        assert self.alive is not None
        s, r, m = self.a.shape
        before = self.alive
        self.alive = before & (self.a.abs().amax(-1, keepdim=True) < LARGEST)
        self.a.masked_fill_(~self.alive, 0)
        if self.v.device.type != "cpu" or not torch.equal(before, self.alive):  # on a GPU asking would wait
            self.v.view(s, r, m, -1).masked_fill_(~self.alive[..., None], 0)


def _minibatches(group: _Group, sample: Sampler, stage: Stage, key: Key) -> Iterator[tuple[Tensor, Tensor]]:
    """New minibatches x (s, b, d) and y (s, b) of one stage, several at a draw."""
    batch = stage.batch
    assert batch is not None
    d = group.v.shape[2] - group.ones
    steps = max(1, DRAWN_FLOATS // (batch * d))
    for chunk in range(-(-stage.steps // steps)):
        count = min(steps, stage.steps - chunk * steps)
        pairs = [sample(count * batch, key / name / chunk) for name in group.sets]
        for x, y in pairs:
            if x.shape != (count * batch, d) or y.shape != (count * batch,):
                allowed = f"x ({count * batch}, {d}) and y ({count * batch})"
                raise SettingError("sample", (tuple(x.shape), tuple(y.shape)), allowed, "return n rows of width d")
            if not chunk:  # the first draw of a stage answers for the others, as a GPU would wait at each
                check_finite(x, "sample x")
                check_finite(y, "sample y")
                if group.loss != "squared":
                    check_signs(y, "sample y", group.loss)
        x, y = torch.stack([p[0] for p in pairs]).to(group.v), torch.stack([p[1] for p in pairs]).to(group.v)
        x = with_ones(x) if group.ones else x
        yield from zip(x.split(batch, 1), y.split(batch, 1), strict=True)


def _train(
    group: _Group, sample: Sampler, stages: Sequence[Stage], key: Key, probes: Mapping[str, Probe], at: frozenset[int]
) -> tuple[TwoLayer, dict[str, list[Tensor]]]:
    trace: dict[str, list[Tensor]] = {name: [] for name in probes}

    def record(step: int) -> None:
        if step in at:
            net = group.net()
            for name, probe in probes.items():
                trace[name].append(probe(net, group.members).cpu())

    record(0)
    done = 0
    each = group.v.device.type == "cpu"  # on a GPU reading a flag would wait for the queue at every step
    for i, stage in enumerate(stages):
        moves = _Moves(stage, group)
        for x, y in _minibatches(group, sample, stage, key / i):
            group.step(x, y, moves)
            done += 1
            # the second layer shows it at once and is small; the first is looked at in the end
            if (
                each
                and done % CHECK_EVERY == 0
                and not bool(torch.isfinite(group.a.sum()))
                and not all_finite(group.v, group.a)
            ):
                raise diverged(done, i)
            record(done)
        if not all_finite(group.v, group.a):
            raise diverged(done, i)
    net = group.net()
    if group.alive is not None:
        gone = ~group.alive.view(-1)
        net.w[gone], net.a[gone] = torch.nan, torch.nan
    return net, trace


def _groups(net: TwoLayer, sets: Sequence[int], stages: Sequence[Stage]) -> list[tuple[tuple[int, ...], slice]]:
    """(sets, members) that train together; it does not depend on the number of threads, so that no result does."""
    runs: list[tuple[int, slice]] = []
    for i, name in enumerate(sets):
        if runs and runs[-1][0] == name:
            runs[-1] = (name, slice(runs[-1][1].start, i + 1))
        else:
            runs.append((name, slice(i, i + 1)))
    names = [name for name, _ in runs]
    if len(set(names)) < len(names):
        raise SettingError("sets", tuple(sets), "members of one set beside each other", "sort the members by set")
    sizes = {part.stop - part.start for _, part in runs}
    together = 1
    if len(sizes) == 1 and len(runs) > 1:
        batch = min([s.batch or 1 for s in stages if s.steps], default=1)
        work = max(1, sizes.pop() * net.w.shape[1] * net.w.shape[2] * batch)
        together = min(-(-LEAST_WORK // work), -(-len(runs) // 2)) if net.w.device.type == "cpu" else len(runs)
    parts = [runs[i : i + together] for i in range(0, len(runs), together)]
    return [(tuple(name for name, _ in part), slice(part[0][1].start, part[-1][1].stop)) for part in parts]


def fit_one_pass(
    net: TwoLayer,
    sample: Sampler,
    stages: Sequence[Stage],
    key: Key,
    *,
    loss: Loss = "logistic",
    diverging: Diverging = "raise",
    sets: Int[Tensor, " e"] | Sequence[int] | None = None,
    probes: Mapping[str, Probe] | None = None,
    probe_at: Sequence[int] = (),
    threads: int | None = None,
) -> Run:
    """Train an ensemble of two-layer networks, every step on samples that no step has seen.

    Formula: theta <- keep theta - rate * grad mean_s l(g(x_s), y_s) over `batch` new samples, stage by stage.
    Shapes: net holds e networks (e, m, d); sample(n, key) returns x (n, d) and y (n), which only the key may decide.
    sets (e): members of one set share every minibatch and stand beside each other; the data of a set depend on its
    number, `key` and the batch alone, so a set trains alike whoever trains beside it. None: one set. Rates of a stage
    are numbers or one for each member.
    diverging: "raise", or "rest" for sweeps: a member whose second layer passes 1e15 stands still from then on and is
    returned as NaN, and the others train as if it were not there.
    probes, probe_at, threads: as in `fit`. On a GPU let `sample` draw there (`BooleanXor.sample` takes a device).
    Source: xor_sgd.minibatch_sgd; `featlearn.nets.mean_field_rates` gives the rates of its reported scaling.
    Errors, before any work: `SettingError` for a stage without batch, with momentum or noise (`fit` has them), for
    sets or rates that do not fit the networks, for networks that are not finite (unless they rest), and for samples of
    another width, not finite, or with labels other than -1 and +1 unless loss = "squared" (the first draw is looked
    at). `Diverged` when weights leave the finite numbers.

    Example:
        >>> from featlearn.nets import mean_field_rates, sphere_init
        >>> def sample(n, key):
        ...     x = torch.randn(n, 3, generator=key.torch())
        ...     return x, x[:, 0].sign()
        >>> rate_w, rate_a = mean_field_rates(0.1, 8)
        >>> net = sphere_init(8, 3, Key("n"), theta=0.1)
        >>> run = fit_one_pass(net, sample, [Stage(5, rate_w, 0.0, rate_a, batch=4)], Key("data"))
        >>> run.net.w.shape
        torch.Size([1, 8, 3])
    """
    check_choice("loss", loss, Loss)
    check_choice("diverging", diverging, Diverging)
    e = len(net)
    if diverging == "raise":  # else members that rest are nan, and may be handed in again
        for field in ("w", "b", "a"):
            check_finite(getattr(net, field), f"net.{field}")
    names = [0] * e if sets is None else [int(i) for i in sets]
    if len(names) != e:
        raise SettingError("sets", f"{len(names)} numbers", f"one for each of e = {e} networks", "give a set a member")
    for stage in stages:
        if stage.batch is None:
            raise SettingError("batch", None, "a number of samples", "one-pass SGD has no full batch; try d")
        for field, value in (("noise", stage.noise), ("momentum", stage.momentum)):
            if value:
                raise SettingError(field, value, "0 on new samples", "use featlearn.learn.fit on a fixed set")
        check_rates(stage, e)
    ones = bool(net.b.any()) or any(not is_zero(s.rate_b) for s in stages)
    groups = _groups(net, names, stages)
    at = frozenset(probe_at)
    probes = probes or {}

    def work(part: tuple[tuple[int, ...], slice]) -> tuple[TwoLayer, dict[str, list[Tensor]]]:
        return _train(_Group(net, *part, loss, ones, diverging), sample, stages, key, probes, at)

    parts = each_group(work, groups, net.w.device, threads)
    return joined(parts, probes, at, sum(stage.steps for stage in stages))
