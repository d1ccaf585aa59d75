"""From a pretrained encoder to a classifier with labels: linear probing on frozen features, and fine-tuning."""

import contextlib
import copy
import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Diverged, Key, SettingError
from featlearn.core.check import checked
from featlearn.core.device import resolve
from featlearn.errors import NotFiniteInput
from featlearn.learn.contrastive.objectives import random_numbers_of
from featlearn.learn.contrastive.training import evaluating, features_given, features_of
from featlearn.learn.contrastive.views import Views, as_they_are, check_views, first_of, pair_of
from featlearn.learn.labels import check_labels

Data = tuple[Tensor, Tensor]
"""Inputs (n, ...) and class indices (n)."""
Regulariser = Callable[[Tensor, Tensor], Tensor]
"""Features of two views (n, d) of the same rows -> a loss."""


@dataclass(frozen=True)
class Adaptation:
    """How a classifier is trained on labels: SGD with momentum and a cosine schedule, or L-BFGS for a linear one.

    epochs; batch: rows a step; all rows of an epoch are used, its rest in a shorter step, and a row that would be alone
    joins the step before. rate: for a batch of 256, scaled by batch / 256. weight_decay: of all weights that learn.
    solver: "sgd", or "lbfgs" for linear probes: the exact minimum of the cross entropy plus weight_decay |W|^2 / 2.
    standardise: features of a linear probe are centred and scaled by those of the training rows.
    task_views: how many of the two views of a step have the cross entropy; with 1 a second view is made for the
    regulariser alone.

    Source: thesis F.3.2 and F.3.4, tradeoff.method_cr: `probing()` and `fine_tuning()` are its settings.
    Errors: SettingError.
    """

    epochs: int = 200
    batch: int = 256
    rate: float = 0.06
    momentum: float = 0.9
    weight_decay: float = 5e-4
    solver: Literal["sgd", "lbfgs"] = "sgd"
    standardise: bool = False
    task_views: Literal[1, 2] = 1

    def __post_init__(self) -> None:
        for name, remedy in (("epochs", "200 is that of the paper"), ("batch", "256 is that of the paper")):
            if getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "1 or more", remedy)
        if not 0 < self.rate < math.inf:
            raise SettingError("rate", self.rate, "above 0 and finite", "5 for probes and 0.06 else are the paper's")
        if not 0 <= self.weight_decay < math.inf:
            raise SettingError("weight_decay", self.weight_decay, "0 or more", "5e-4 is that of the paper")
        if not 0 <= self.momentum < 1:
            raise SettingError("momentum", self.momentum, "in [0, 1)", "0.9 is usual")
        if self.solver not in ("sgd", "lbfgs"):
            raise SettingError("solver", repr(self.solver), "'sgd' or 'lbfgs'", "lbfgs is exact and has no rate")
        if self.task_views not in (1, 2):
            raise SettingError("task_views", self.task_views, "1 or 2", "1 is that of the released code")


def probing(**changed: object) -> Adaptation:
    """Settings of linear probing in the thesis: 200 epochs at a rate of 5.0 without weight decay.

    Example:
        >>> probing(epochs=10).rate
        5.0
    """
    return Adaptation(**{"rate": 5.0, "weight_decay": 0.0, **changed})  # pyright: ignore[reportArgumentType]


def fine_tuning(**changed: object) -> Adaptation:
    """Settings of fine-tuning in the thesis: 200 epochs at a rate of 0.06 with weight decay 5e-4.

    Example:
        >>> fine_tuning(batch=64).weight_decay
        0.0005
    """
    return Adaptation(**changed)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Adapted:
    """A classifier: encoder and head on the CPU, in evaluation mode. accuracy: of each named set that was watched.

    loss: mean loss of each epoch, regulariser included; task: its cross entropy alone. One value each for lbfgs.
    """

    encoder: nn.Module
    head: nn.Module
    accuracy: Mapping[str, float]
    loss: tuple[float, ...]
    task: tuple[float, ...]

    def logits(self, x: Tensor) -> Float[Tensor, "n c"]:
        """Scores (n, c) of inputs (n, ...)."""
        with torch.no_grad():
            return self.head(features_of(self.encoder, x))


@contextlib.contextmanager
def frozen(encoder: nn.Module) -> Generator[None, None, None]:
    """An encoder that must not change: evaluation mode, no gradients; weights, statistics and modes are compared after.

    What changed is put back, also after an exception. Errors: SettingError naming the first weight, statistic or mode
    that a pass changed.

    Example:
        >>> with frozen(net := nn.BatchNorm1d(2)):
        ...     _ = net(torch.randn(5, 2))
        >>> net.training, net.running_mean
        (True, tensor([0., 0.]))
    """
    held = {name: value.detach().clone() for name, value in _tensors(encoder).items()}
    wanted = {name: False for name, _ in encoder.named_modules()}
    changed = ""
    with evaluating(encoder):
        try:
            yield
        finally:
            there = _tensors(encoder)
            names = [n for n in held if n not in there or not _same(there[n], held[n])]
            names += [n for n in there if n not in held]
            modes = [n or "the encoder" for n, m in encoder.named_modules() if m.training is not wanted.get(n, False)]
            for name in names:
                if name in there and name in held and there[name].shape == held[name].shape:
                    there[name].copy_(held[name])
            changed = names[0] if names else f"the mode of {modes[0]}" if modes else ""
    if changed:
        remedy = "take out what changes it in a pass in evaluation mode"
        raise SettingError("encoder", f"one whose pass changes {changed}", "frozen", remedy)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _same(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and bool(((one == two) | (one.isnan() & two.isnan())).all())


@checked()
def linear_probe(
    encoder: nn.Module,
    x: Float[Tensor, "n ..."],
    y: Int[Tensor, " n"],
    settings: Adaptation | None = None,
    *,
    key: Key,
    watch: Mapping[str, Data] | None = None,
    classes: int | None = None,
) -> Adapted:
    """A linear classifier on the features of an encoder that stays as it is.

        min_{W, b} (1/n) sum_i cross_entropy(W phi(x_i) + b, y_i)

    Shapes: x (n, ...), y (n) class indices. settings: `probing()` if left out. watch: more data by name whose accuracy
    is measured. classes: their number, if y lacks some. The features are computed once, without augmentation.

    Source: thesis equation 7.2 and F.3.2. Errors: SettingError for labels that are none, an encoder that a pass changes
    (`frozen`), and data that it does not take; Diverged.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> y = torch.tensor([0, 0, 1, 1])
        >>> linear_probe(nn.Flatten(), x, y, probing(epochs=20), key=Key("demo"), watch={"train": (x, y)}).accuracy
        {'train': 1.0}
    """
    settings = settings or probing()
    classes = check_labels(y, len(x), classes=classes)
    sets = _watched(watch, classes)
    with frozen(encoder):
        features = features_of(encoder, x)
        watched = {name: (features_of(encoder, a), b) for name, (a, b) in sets.items()}
    centre, scale = torch.zeros(features.shape[1]), torch.ones(features.shape[1])
    if settings.standardise:
        centre, scale = features.mean(0), features.std(0, unbiased=False)
        scale = torch.where(scale > 1e-6 * scale.max().clamp_min(1e-30), scale, 1.0)  # features that do not vary
    inputs = (features - centre) / scale
    with random_numbers_of(key / "head"):
        head = nn.Linear(features.shape[1], classes)
    if settings.solver == "lbfgs":
        losses = _lbfgs(head, inputs, y, settings)
    else:
        losses = _sgd_probe(head, inputs, y, settings, key)
    with torch.no_grad():  # the head takes the features as they come
        head.weight.div_(scale)
        head.bias.sub_(head.weight @ centre)
        accuracy = {name: _accuracy(head(a), b) for name, (a, b) in watched.items()}
    return Adapted(encoder, head.eval(), accuracy, losses, losses)


def _sgd_probe(head: nn.Linear, inputs: Tensor, y: Tensor, settings: Adaptation, key: Key) -> tuple[float, ...]:
    def losses(rows: Tensor, own: Key) -> tuple[Tensor, Tensor]:  # noqa: ARG001
        loss = functional.cross_entropy(head(inputs[rows]), y[rows])
        return loss, loss

    return _train(list(head.parameters()), len(y), settings, key, losses)[0]


def _lbfgs(head: nn.Linear, inputs: Tensor, y: Tensor, settings: Adaptation) -> tuple[float, ...]:
    """In float64, from zero weights: a convex problem has no need of a random start."""
    x = inputs.double()
    w = torch.zeros(head.out_features, head.in_features, dtype=torch.float64, requires_grad=True)
    b = torch.zeros(head.out_features, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [w, b], max_iter=500, tolerance_grad=1e-8, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(functional.linear(x, w, b), y) + settings.weight_decay * w.square().sum() / 2
        loss.backward()
        return loss.detach()

    optimizer.step(closure)
    last = float(closure())
    if not math.isfinite(last):
        raise Diverged(f"the loss of the linear probe is {last}: standardise the features")
    with torch.no_grad():
        head.weight.copy_(w)
        head.bias.copy_(b)
    return (last,)


@checked()
def fine_tune(
    encoder: nn.Module,
    x: Float[Tensor, "n ..."],
    y: Int[Tensor, " n"],
    settings: Adaptation | None = None,
    *,
    key: Key,
    views: Views | None = None,
    regulariser: Regulariser | None = None,
    weight: float = 0.0,
    watch: Mapping[str, Data] | None = None,
    classes: int | None = None,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Adapted:
    """Train a copy of an encoder together with a linear classifier on its features.

        loss = cross_entropy(f(phi(v1)), y) + weight * regulariser(phi(v1), phi(v2)),   v1, v2 views of the batch

    Shapes: x (n, ...), y (n) class indices. settings: `fine_tuning()` if left out. views: no change if left out.
    regulariser: of the features of both views, such as `featlearn.methods.contrastive_regulariser`; with weight 0 it is
    not computed. Runs of one key have the same rows and the same first views in each step, whatever their weight, so
    that fine-tuning with and without it are paired. watch: data by name whose accuracy is measured at the end.

    Source: thesis equation 7.9 and F.3.4; the cross entropy on the first view alone is the released code's. Differs:
    the text says that fine-tuning "follows MAE mostly" and does not say in what not. Errors: SettingError for a weight
    below 0 or without a regulariser, one label with it, and labels or data as in `linear_probe`; Diverged.

    Example:
        >>> x, y = torch.randn(8, 3, generator=Key("x").torch()), torch.tensor([0, 1] * 4)
        >>> run = fine_tune(nn.Linear(3, 4), x, y, fine_tuning(epochs=2), key=Key("demo"), watch={"train": (x, y)})
        >>> len(run.loss), run.head.out_features
        (2, 2)
    """
    settings, views = settings or fine_tuning(), views or as_they_are
    classes = check_labels(y, len(x), classes=classes)
    sets = _watched(watch, classes)
    if not 0 <= weight < math.inf:
        raise SettingError("weight", weight, "0 or more", "0.1 and 1 are those of the paper")
    if weight and regulariser is None:
        raise SettingError("weight", weight, "0 without a regulariser", "give contrastive_regulariser")
    if weight and len(x) < 2:
        raise SettingError("x", "one input", "two or more with a regulariser", "a view alone has no negatives")
    if settings.solver != "sgd":
        raise SettingError("solver", repr(settings.solver), "'sgd' for fine-tuning", "lbfgs is for linear probes")
    check_views(views, x)
    place = resolve(device)
    width = features_given(encoder, first_of(views, x[:2], key / "try"))
    with random_numbers_of(key / "head"):
        head = nn.Linear(width, classes)
    encoder, head, x, y = copy.deepcopy(encoder).to(place).train(), head.to(place), x.to(place), y.to(place)
    second = bool(weight) or settings.task_views == 2

    def losses(rows: Tensor, own: Key) -> tuple[Tensor, Tensor]:
        if not second:
            task = functional.cross_entropy(head(encoder(first_of(views, x[rows], own))), y[rows])
            return task, task
        first, other = (encoder(v) for v in pair_of(views, x[rows], own))
        task = functional.cross_entropy(head(first), y[rows])
        if settings.task_views == 2:
            task = (task + functional.cross_entropy(head(other), y[rows])) / 2
        if not weight or regulariser is None:
            return task, task
        try:
            return task + weight * regulariser(first, other), task
        except NotFiniteInput as why:  # of a regulariser that looks at its features
            raise Diverged(f"the features left the finite numbers ({why.field}): lower the rate or the weight") from why

    with random_numbers_of(key / "modules", place):
        learned = [p for p in (*encoder.parameters(), *head.parameters()) if p.requires_grad]
        loss, task = _train(learned, len(y), settings, key, losses, place, progress)
    encoder, head = encoder.eval(), head.cpu().eval()
    with torch.no_grad():
        accuracy = {name: _accuracy(head(features_of(encoder, a)), b) for name, (a, b) in sets.items()}
    return Adapted(encoder.cpu(), head, accuracy, loss, task)


# --- one loop for both -----------------------------------------------------------------------------------------------


def _train(
    learned: list[nn.Parameter],
    n: int,
    settings: Adaptation,
    key: Key,
    losses: Callable[[Tensor, Key], tuple[Tensor, Tensor]],
    device: torch.device | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """SGD on losses(rows, key of the step) -> (what is minimised, its task part); their means over each epoch."""
    top = settings.rate * settings.batch / 256
    optimizer = torch.optim.SGD(learned, lr=top, momentum=settings.momentum, weight_decay=settings.weight_decay)
    steps = len(batches_of(torch.arange(n), settings.batch))
    means: list[tuple[float, float]] = []
    for epoch in range(settings.epochs):
        own = key / "epoch" / epoch
        order = torch.from_numpy((own / "order").numpy().permutation(n)).to(device or "cpu")
        total = torch.zeros(2, dtype=torch.float64, device=device)
        for i, rows in enumerate(batches_of(order, settings.batch)):
            at = epoch * steps + i
            for group in optimizer.param_groups:
                group["lr"] = top * (1 + math.cos(math.pi * at / (steps * settings.epochs))) / 2
            both = losses(rows, own / i)
            optimizer.zero_grad()
            both[0].backward()
            optimizer.step()
            total += len(rows) * torch.stack([one.detach() for one in both])
            if progress:
                progress(at + 1, steps * settings.epochs)
        loss, task = (float(v) / n for v in total)
        if not math.isfinite(loss):
            raise Diverged(f"the loss is {loss} in epoch {epoch + 1}: lower the rate or the weight")
        means.append((loss, task))
    return tuple(m[0] for m in means), tuple(m[1] for m in means)


def batches_of(order: Tensor, batch: int) -> list[Tensor]:
    """An order (n) in pieces of `batch`, the rest in a shorter one; a row that would be alone joins the piece before,
    since batch norm and contrastive losses need two.

    Example:
        >>> [len(b) for b in batches_of(torch.arange(9), 4)]
        [4, 5]
    """
    pieces = list(order.split(batch))
    if len(pieces) > 1 and len(pieces[-1]) == 1 and batch > 1:
        pieces[-2:] = [torch.cat(pieces[-2:])]
    return pieces


def _watched(watch: Mapping[str, Data] | None, classes: int) -> Mapping[str, Data]:
    for name, (a, b) in (watch or {}).items():
        if not len(a):
            raise SettingError(f"watch[{name!r}]", "no rows", "at least one", "leave it out")
        check_labels(b, len(a), f"watch[{name!r}]", classes)
    return watch or {}


def _accuracy(logits: Tensor, y: Tensor) -> float:
    return float((logits.argmax(1) == y).double().mean())
