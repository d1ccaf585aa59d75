"""Training on several domains: splits, minibatches, evaluations, the weights that are selected, their average."""

import contextlib
import copy
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Diverged, Key, SettingError
from featlearn.methods.domains.averaging import (
    SwadRule,
    Weights,
    Window,
    refresh_statistics,
    set_modes,
    training_modes,
)
from featlearn.methods.domains.objectives import Minibatch, Objective, State
from featlearn.methods.domains.valleys import swad_of

VALIDATION = "validation"
"""Name of the part that selects the weights."""
CPU = torch.device("cpu")
CHECK_EVERY = 20
"""Steps between two checks of whether the loss is finite; each one waits for a GPU."""


@runtime_checkable
class Domain(Protocol):
    """Where the rows of one domain come from: tensors, or image files (see `featlearn.data.domains`)."""

    @property
    def name(self) -> str: ...

    @property
    def y(self) -> Int[Tensor, " n"]:
        """Class indices (n)."""
        ...

    def inputs(self, rows: Int[Tensor, " b"], key: Key | None, /) -> Shaped[Tensor, "b ..."]:
        """Inputs (b, ...) of these rows; augmented by numbers of `key` for training, as they are for None."""
        ...


@dataclass(frozen=True)
class Part:
    """Some rows (b) of a domain."""

    domain: Domain
    rows: Int[Tensor, " b"]


def split(domain: Domain, key: Key, share: float = 0.2) -> tuple[Part, Part]:
    """(rows to train on, rows to validate on): `share` of a random order is kept back, at least one row each.

    Errors: SettingError for a domain with fewer than two rows, and for a share outside (0, 1).
    """
    if not 0 < share < 1:
        raise SettingError("share", share, "in (0, 1)", "0.2 is that of the paper")
    n = len(domain.y)
    if n < 2:
        raise SettingError(
            f"domain {domain.name!r}", f"{n} rows", "at least 2, to be split", "add images or leave it out"
        )
    order = torch.from_numpy((key / "split" / domain.name).numpy().permutation(n))
    kept = min(max(round(share * n), 1), n - 1)
    return Part(domain, order[kept:]), Part(domain, order[:kept])


@dataclass(frozen=True)
class Schedule:
    """How to train.

    steps; batch: rows a domain and process; rate, weight_decay: of Adam, as the paper's code; evaluate_every: steps
    between evaluations, of which there is one after the last step too; evaluate_from: a step after which one of them
    is (1: after steps 1, 101, 201, ..., as the released code does); precision: of the forward pass; ahead: batches that
    are prepared while the device computes, 0 for none.
    """

    steps: int = 5001
    batch: int = 32
    rate: float = 5e-5
    weight_decay: float = 0.0
    evaluate_every: int = 300
    precision: Literal["float32", "bfloat16"] = "float32"
    ahead: int = 0
    evaluate_from: int = 0

    def __post_init__(self) -> None:
        for name, least, remedy in (
            ("steps", 1, "5001 is that of the benchmark"),
            ("batch", 2, "statistics of one row say nothing, and its nuclear norm is its length; 32 is usual"),
            ("evaluate_every", 1, "300 is that of the benchmark"),
            ("ahead", 0, "0 prepares batches when they are needed"),
            ("evaluate_from", 0, "1 is that of the released code"),
        ):
            if getattr(self, name) < least:
                raise SettingError(name, getattr(self, name), f"{least} or more", remedy)
        if not 0 < self.rate < float("inf"):
            raise SettingError("rate", self.rate, "above 0", "5e-5 suits a pretrained ResNet, 1e-3 a small network")
        if not 0 <= self.weight_decay < float("inf"):
            raise SettingError("weight_decay", self.weight_decay, "0 or more", "0 is that of the paper's code")


@dataclass(frozen=True)
class Evaluation:
    """After `step` steps: accuracy and mean cross entropy of each named part; training: mean terms since the last."""

    step: int
    accuracy: Mapping[str, float]
    loss: Mapping[str, float]
    training: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trained:
    """What training leaves, weights on the CPU.

    evaluations: in order; best: the one with the highest validation accuracy, the earliest of equals (None without a
    validation part); weights: those of `best`, or the last; averaged: SWAD's and their evaluation, where asked for;
    window: the evaluations whose segments it averages; seconds: all, and those of the steps alone.
    """

    evaluations: Sequence[Evaluation]
    best: Evaluation | None
    weights: Weights
    averaged: Weights | None
    averaged_evaluation: Evaluation | None
    window: Window | None
    seconds: float
    step_seconds: float

    def weights_into(self, featurizer: nn.Module, classifier: nn.Module, averaged: bool = False) -> None:
        """Load what was trained into two modules of the same kind."""
        chosen = self.averaged if averaged else self.weights
        assert chosen is not None, "train with average=SwadRule() for averaged weights"
        _load(featurizer, classifier, chosen)


@runtime_checkable
class Processes(Protocol):
    """Distributed training: processes that train together. `gradients` replaces each gradient by the mean over the
    processes."""

    @property
    def device(self) -> torch.device: ...

    @property
    def index(self) -> int: ...

    @property
    def count(self) -> int: ...

    def gradients(self, parameters: Sequence[nn.Parameter], /) -> None: ...


@dataclass(frozen=True)
class SingleProcess:
    """The one process of a run that is not distributed."""

    device: torch.device = CPU
    index: int = 0
    count: int = 1

    def gradients(self, parameters: Sequence[nn.Parameter], /) -> None:
        """Nothing to do."""


def rows_of_step(n: int, batch: int, step: int, key: Key, index: int = 0, count: int = 1) -> Int[Tensor, " b"]:
    """Rows (b) that process `index` of `count` takes from n in a step: the places of one endless sequence of
    permutations, so that each row is used once before any is used again."""
    places = torch.arange(batch) + (step * count + index) * batch
    out = torch.empty(batch, dtype=torch.int64)
    for epoch in range(int(places[0]) // n, int(places[-1]) // n + 1):
        here = places // n == epoch
        out[here] = _order(key / "order" / epoch, n)[places[here] % n]
    return out


@lru_cache(maxsize=64)
def _order(key: Key, n: int) -> Tensor:
    return torch.from_numpy(key.numpy().permutation(n))


def minibatches_of_step(
    parts: Sequence[Part], batch: int, step: int, key: Key, index: int = 0, count: int = 1
) -> list[Minibatch]:
    """One minibatch per part, a function of step and key alone, on the CPU."""
    found = []
    for part in parts:
        own = key / part.domain.name
        chosen = part.rows[rows_of_step(len(part.rows), batch, step, own, index, count)]
        found.append(Minibatch(part.domain.inputs(chosen, own / "augment" / step / index), part.domain.y[chosen]))
    return found


def _prepared(make: Callable[[int], list[Minibatch]], steps: int, ahead: int) -> Generator[list[Minibatch], None, None]:
    """make(0), make(1), ... with `ahead` of them made beforehand in another thread."""
    if not ahead:
        yield from map(make, range(steps))
        return
    pool = ThreadPoolExecutor(1)
    try:
        waiting = [pool.submit(make, i) for i in range(min(ahead, steps))]
        for i in range(steps):
            ready = waiting.pop(0).result()
            if i + ahead < steps:
                waiting.append(pool.submit(make, i + ahead))
            yield ready
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@runtime_checkable
class Place(Protocol):
    """Where a training keeps its place, so that another call goes on from there."""

    def begin(self) -> Mapping[str, Any] | None:
        """The state that was kept of this very training, None where none was."""
        ...

    def after(self, step: int, over: bool, state: Callable[[], dict[str, Any]]) -> None:
        """Told after each step, counted from 1. state(): all that it takes to go on, tensors and plain values."""
        ...


Batches = Callable[[Sequence[Part], int, int, Key, int, int], list[Minibatch]]
"""Parts, batch, step, key, index and count of processes -> the minibatches of a step."""


def train(
    featurizer: nn.Module,
    classifier: nn.Module,
    objective: Objective,
    parts: Sequence[Part],
    schedule: Schedule,
    *,
    key: Key,
    watch: Mapping[str, Sequence[Part]] | None = None,
    average: SwadRule | None = None,
    extra: Sequence[tuple[nn.Module, float]] = (),
    processes: Processes | None = None,
    progress: Callable[[int, int], None] | None = None,
    place: Place | None = None,
    batches: Batches = minibatches_of_step,
    measure: Callable[..., Evaluation] | None = None,
) -> Trained:
    """Train copies of two modules on several domains by Adam.

    parts: one per training domain. watch: parts to evaluate by name; those named VALIDATION together select the
    weights ("training-domain validation": the accuracy over all of them). average: also the SWAD mean of the weights,
    by the loss of VALIDATION; training ends when its valley does. extra: modules of the objective that learn too, with
    the factor of their rate (trained in place). processes: processes that share the work, each with minibatches of its
    own (a nuclear norm is that of each process's rows). Parts that were put into evaluation mode, such as batch norm
    that is to keep its statistics, stay in it while the rest trains. The modules given are not changed, nor is the
    random state. place: goes on from what it kept, and ends as if nothing had stopped it. batches: a function of step
    and key alone. measure: in place of `evaluate`, with its arguments.

    Source: protocol of thesis sec. 6.3.2 (nuclear.method_ermnu). Errors: Diverged when the loss leaves the finite
    numbers; SettingError, before any work, for no domain, parts without rows, classes that the classifier does not
    have, or an average without validation.

    Example:
        >>> trained = train(net, head, with_nuclear_norm(erm), parts, Schedule(steps=5), key=Key("run"),
        ...                 watch={VALIDATION: held_back, "test": unseen})
        >>> sorted(trained.best.accuracy)
        ['test', 'validation']
    """
    watch = dict(watch or {})
    if not parts:
        raise SettingError("parts", "none", "at least one training domain", "give the parts that split() makes")
    for name, given in (("parts", parts), *watch.items()):
        _check_parts(name, given, classifier)
    if average is not None and not watch.get(VALIDATION):
        raise SettingError("average", average, f"with parts named {VALIDATION!r} to watch", "SWAD needs their loss")
    processes, measure = processes or SingleProcess(), measure or evaluate
    device = processes.device
    start, spent = time.perf_counter(), 0.0
    with _own_random_numbers(key, device):
        featurizer, classifier = copy.deepcopy(featurizer).to(device), copy.deepcopy(classifier).to(device)
        groups = [{"params": [*featurizer.parameters(), *classifier.parameters()]}]
        groups += [{"params": list(m.to(device).parameters()), "lr": schedule.rate * factor} for m, factor in extra]
        learned = [p for g in groups for p in g["params"] if p.requires_grad]

        def new_optimizer() -> torch.optim.Adam:
            return torch.optim.Adam(groups, lr=schedule.rate, weight_decay=schedule.weight_decay)

        optimizer, state = new_optimizer(), State(key)
        modes = training_modes(featurizer, classifier)
        swad = swad_of(average) if average is not None else None
        evaluations: list[Evaluation] = []
        best: Evaluation | None = None
        kept: dict[str, Tensor] = {}
        sums: dict[str, Tensor] = {}
        since, begun = 0, 0

        before = place.begin() if place is not None else None
        if before is not None:
            begun = before["step"]
            _load(featurizer, classifier, before["weights"])
            optimizer.load_state_dict(before["optimizer"])
            for (module, _), values in zip(extra, before["extra"], strict=True):
                module.load_state_dict(values)
            shares = before["shares"]
            state = State(key, begun, None if shares is None else shares.to(device))
            evaluations = [Evaluation(**e) for e in before["evaluations"]]
            best = next((e for e in evaluations if e.step == before["best"]), None)
            kept, since, spent = before["kept"], before["since"], before["spent"]
            sums = {name: value.to(device) for name, value in before["sums"].items()}
            if swad is not None:
                swad.go_on(before["swad"], device)
            torch.set_rng_state(before["random"])
            if device.type == "cuda" and before["random_cuda"] is not None:
                torch.cuda.set_rng_state(before["random_cuda"], device)

        def make(step: int) -> list[Minibatch]:
            return batches(parts, schedule.batch, step, key, processes.index, processes.count)

        def to_go_on(step: int) -> dict[str, Any]:
            return {
                "step": step,
                "weights": _to_cpu(_weights(featurizer, classifier)),
                "optimizer": optimizer.state_dict(),
                "extra": [m.state_dict() for m, _ in extra],
                "shares": state.shares,
                "evaluations": [asdict(e) for e in evaluations],
                "best": best.step if best else None,
                "kept": kept,
                "sums": sums,
                "since": since,
                "spent": spent,
                "swad": None if swad is None else swad.state(),
                "random": torch.get_rng_state(),
                "random_cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
            }

        left = schedule.steps - begun if swad is None or not swad.over else 0
        with contextlib.closing(_prepared(lambda i: make(begun + i), left, schedule.ahead)) as ready:
            for step, minibatches in enumerate(ready, begun):
                begin = time.perf_counter()
                set_modes(modes)
                minibatches = [Minibatch(b.x.to(device), b.y.to(device)) for b in minibatches]
                with _autocast(device, schedule.precision):
                    outcome = objective(featurizer, classifier, minibatches, state)
                if step % CHECK_EVERY == 0 or step == schedule.steps - 1:
                    _check_finite(outcome.loss, step)
                if outcome.restart_optimizer:
                    optimizer = new_optimizer()
                optimizer.zero_grad()
                outcome.loss.backward()
                processes.gradients(learned)
                optimizer.step()
                state, since = outcome.state, since + 1
                for name, value in {"loss": outcome.loss, **outcome.parts}.items():
                    sums[name] = sums.get(name, torch.zeros((), device=device)) + value.detach().float()
                if swad is not None:
                    swad.step(_weights(featurizer, classifier))
                spent += time.perf_counter() - begin
                if (step + 1 - schedule.evaluate_from) % schedule.evaluate_every == 0 or step == schedule.steps - 1:
                    means = {name: float(value) / since for name, value in sums.items()}
                    found = measure(featurizer, classifier, watch, step + 1, means, schedule.precision)
                    for loss in (means["loss"], found.loss.get(VALIDATION, 0.0)):
                        _check_finite(torch.tensor(loss), step)
                    evaluations.append(found)
                    sums, since = {}, 0
                    if VALIDATION in found.accuracy and (
                        best is None or found.accuracy[VALIDATION] > best.accuracy[VALIDATION]
                    ):
                        best, kept = found, _to_cpu(_weights(featurizer, classifier))
                    if swad is not None:
                        swad.evaluated(found.loss[VALIDATION])
                if progress:
                    progress(step + 1, schedule.steps)
                ended = swad is not None and swad.over
                if place is not None:
                    place.after(step + 1, ended or step == schedule.steps - 1, partial(to_go_on, step + 1))
                if ended:
                    break
        last = _to_cpu(_weights(featurizer, classifier))
        averaged, averaged_evaluation, window = None, None, None
        if swad is not None:
            window = swad.finish()
            _load(featurizer, classifier, swad.weights())
            anew = (torch.cat([b.x for b in make(step)]).to(device) for step in range(100))  # as a step sees them
            refresh_statistics(featurizer, anew)
            averaged = _to_cpu(_weights(featurizer, classifier))
            averaged_evaluation = measure(featurizer, classifier, watch, evaluations[-1].step, {}, schedule.precision)
    return Trained(
        tuple(evaluations),
        best,
        kept or last,
        averaged,
        averaged_evaluation,
        window,
        time.perf_counter() - start,
        spent,
    )


def evaluate(
    featurizer: nn.Module,
    classifier: nn.Module,
    watch: Mapping[str, Sequence[Part]],
    step: int = 0,
    training: Mapping[str, float] | None = None,
    precision: str = "float32",
) -> Evaluation:
    """Accuracy and mean cross entropy over all rows of the parts of each name. Modes of the modules come back.

    Errors: SettingError for parts without rows, and classes that the classifier does not have.
    """
    accuracy, loss = {}, {}
    for name, parts in watch.items():
        _check_parts(name, parts, classifier)
        right = total = 0.0
        n = sum(len(p.rows) for p in parts)
        for _, logits, y in _in_batches(featurizer, classifier, parts, precision):
            right += float((logits.argmax(1) == y).sum())
            total += float(functional.cross_entropy(logits.double(), y, reduction="sum"))
        accuracy[name], loss[name] = right / n, total / n
    return Evaluation(step, accuracy, loss, dict(training or {}))


def features_of(featurizer: nn.Module, parts: Sequence[Part], precision: str = "float32") -> Float[Tensor, "n d"]:
    """Features (n, d) of all rows of the parts, on the CPU, for `stable_rank` and the like.

    Errors: SettingError for parts without rows.
    """
    _check_parts("parts", parts, nn.Identity())
    return torch.cat([f.float().cpu() for f, _, _ in _in_batches(featurizer, nn.Identity(), parts, precision)])


def _in_batches(
    featurizer: nn.Module, classifier: nn.Module, parts: Sequence[Part], precision: str, size: int = 256
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    device = next(featurizer.parameters()).device
    modes = {m: m.training for top in (featurizer, classifier) for m in top.modules()}
    featurizer.eval()
    classifier.eval()
    try:
        with torch.no_grad(), _autocast(device, precision):
            for part in parts:
                for rows in part.rows.split(size):
                    features = featurizer(part.domain.inputs(rows, None).to(device))
                    yield features, classifier(features), part.domain.y[rows].to(device)
    finally:
        set_modes(modes)


def _autocast(device: torch.device, precision: str) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")


def _weights(featurizer: nn.Module, classifier: nn.Module) -> dict[str, Tensor]:
    both = (("featurizer", featurizer), ("classifier", classifier))
    return {f"{name}.{k}": v for name, module in both for k, v in module.state_dict().items()}


def _to_cpu(weights: Weights) -> dict[str, Tensor]:
    return {k: v.detach().to("cpu", copy=True) for k, v in weights.items()}


def _load(featurizer: nn.Module, classifier: nn.Module, weights: Weights) -> None:
    for name, module in (("featurizer.", featurizer), ("classifier.", classifier)):
        module.load_state_dict({k.removeprefix(name): v for k, v in weights.items() if k.startswith(name)})


def _check_parts(name: str, parts: Sequence[Part], classifier: nn.Module) -> None:
    """Refuse parts without rows, rows that are not there, and classes that the classifier does not have."""
    if not sum(len(p.rows) for p in parts):
        raise SettingError(name, "no rows", "at least one row", "leave the part out")
    classes = getattr(classifier, "out_features", None)
    for part in parts:
        y, where = part.domain.y, f"domain {part.domain.name!r}"
        if len(part.rows) and not 0 <= int(part.rows.min()) <= int(part.rows.max()) < len(y):
            found = f"rows {int(part.rows.min())} to {int(part.rows.max())}"
            raise SettingError(where, found, f"rows 0 to {len(y) - 1}", "give the rows that split() makes")
        if y.is_floating_point():
            raise SettingError(where, f"labels of {y.dtype}", "class indices", "convert them with .long()")
        if len(y) and not 0 <= int(y.min()) <= int(y.max()) < (classes or math.inf):
            found = f"classes {int(y.min())} to {int(y.max())}"
            raise SettingError(where, found, f"0 to {(classes or math.inf) - 1}", "number the classes from 0")


def _check_finite(loss: Tensor, step: int) -> None:
    value = float(loss.detach())
    if not math.isfinite(value):
        raise Diverged(f"the loss is {value} at step {step}: lower the rate or the weight of a penalty")


@contextlib.contextmanager
def _own_random_numbers(key: Key, device: torch.device) -> Iterator[None]:
    """Modules such as dropout draw from the global state: they get numbers of the key, and the state comes back."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed((key / "modules").seed)
        yield
