"""Contrastive pretraining of any encoder: views, steps, a trace that shows chance and collapse, checkpoints."""

import contextlib
import copy
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import Diverged, Key, SettingError
from featlearn.core.check import checked
from featlearn.core.device import resolve
from featlearn.learn.contrastive import checkpoints
from featlearn.learn.contrastive.objectives import Objective, matched_share, random_numbers_of, spread_of
from featlearn.learn.contrastive.settings import QUEUED, Contrastive
from featlearn.learn.contrastive.views import ImageViews, Views, as_they_are, check_views, pair_of

CHECK_EVERY = 20
"""Steps between two checks of whether the loss is finite; each one waits for a GPU."""
COLLAPSED = 0.1
"""A spread of the embeddings below this is called a collapse; 1 is uniform on the sphere, 0 one direction."""

Features = Callable[[Tensor], Tensor]
"""Inputs (n, ...) -> features (n, d) of the encoder as it stands, in evaluation mode."""
Probe = Callable[[Features], float]


@dataclass(frozen=True)
class Epoch:
    """Of one epoch, counted from 1.

    loss: its mean; chance: that of embeddings which say nothing. matched, chance_matched: share of images of the last
    batch whose other view is the nearest of all, and that of guessing. spread, rank: of the embeddings of the last
    batch (`spread_of`); a spread near 0 is a collapse. probe: what the probe gave, where it was asked.
    """

    epoch: int
    loss: float
    chance: float
    matched: float
    chance_matched: float
    spread: float
    rank: float
    probe: float | None = None


@dataclass(frozen=True)
class Pretrained:
    """What pretraining leaves: encoder and projection head on the CPU, in evaluation mode, and the trace."""

    encoder: nn.Module
    projection: nn.Module
    trace: tuple[Epoch, ...]

    @property
    def collapsed(self) -> bool:
        """Whether the embeddings of the last batch have a spread below COLLAPSED."""
        return self.trace[-1].spread < COLLAPSED


@checked()
def pretrain(
    encoder: nn.Module,
    images: Float[Tensor, "n ..."],
    settings: Contrastive,
    *,
    key: Key,
    views: Views | None = None,
    probe: Probe | None = None,
    probe_every: int = 10,
    checkpoint: str | Path | None = None,
    save_every: int = 1,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Pretrained:
    """Train a copy of an encoder on views of unlabelled inputs, by SGD with momentum and a cosine schedule.

    encoder: any module of inputs (n, ...) -> features (n, d). images: (n, c, h, w) in [0, 1] for the usual views, or
    inputs of any shape with views of yours. views: ImageViews() if left out, no change for simcse, whose views are the
    encoder's dropout. probe: from the features as they stand to a number, every `probe_every` epochs and after the
    last, such as `lambda f: knn_accuracy(f(x), y, f(x_test), y_test)` (featlearn.measure). checkpoint: a file that
    holds the run after every `save_every` epochs; where it is there, the run goes on from it and ends with the bits
    that it would have had, on the same machine and number of threads.

    Each epoch has n // batch steps of an order of its own; the short rest of a batch is left out. All randomness is the
    key's, by epoch and step. The module given is not changed, nor the random state.

    Source: thesis F.3.2, tradeoff.method_cr. Errors, before any work: SettingError where lightly is missing, for a
    batch larger than the data, a queue larger than the data (an image would be its own negative), images that the
    encoder does not take, such as grey ones for a network of colours, and a checkpoint of another run. Diverged when
    the loss leaves the finite numbers.

    Example:
        >>> from featlearn.nets import SmallEncoder
        >>> x = torch.rand(32, 1, 8, 8, generator=Key("images").torch())
        >>> run = pretrain(SmallEncoder(1, Key("net"), width=8), x, Contrastive(epochs=2, batch=16), key=Key("run"))
        >>> len(run.trace), round(run.trace[0].chance, 3), run.collapsed
        (2, 3.434, False)
    """
    n = len(images)
    if settings.batch > n:
        raise SettingError("batch", settings.batch, f"at most the {n} images", "lower it, or bring more images")
    if settings.method in QUEUED and settings.queue > n:
        why = "a longer one holds the image itself as its own negative or neighbour"
        raise SettingError("queue", settings.queue, f"at most the {n} images", why)
    for name, value in (("probe_every", probe_every), ("save_every", save_every)):
        if value < 1:
            raise SettingError(name, value, "1 or more", "it counts epochs")
    views = views or (as_they_are if settings.method == "simcse" else ImageViews())
    check_views(views, images)
    if settings.method == "simcse" and not _drops(encoder) and views is as_they_are:
        raise SettingError("encoder", "without dropout", "one with dropout for simcse", "its two views would be equal")
    place = resolve(device)
    features = features_given(encoder, views(images[:2], key / "try"))
    path = Path(os.path.expanduser(checkpoint)) if checkpoint is not None else None
    state = None
    run: dict[str, Any] = {}
    if path is not None:
        run = checkpoints.run_of(settings, key.path, views, images, encoder.state_dict())
        state = checkpoints.read(path, run)

    objective = Objective(copy.deepcopy(encoder).cpu(), features, settings, key / "head").to(place).train()
    learned = [p for p in objective.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(
        learned, lr=settings.rate, momentum=settings.momentum, weight_decay=settings.weight_decay
    )
    trace: list[Epoch] = []
    if state is not None:
        _restore(objective, optimizer, state)
        trace = [Epoch(**row) for row in state["trace"]]
    images = images.to(place)
    for epoch in range(len(trace), settings.epochs):
        with random_numbers_of(key / "modules" / epoch, place):
            row = _epoch(objective, optimizer, images, settings, views, key / "epoch" / epoch, epoch, progress)
        last = epoch + 1 == settings.epochs
        if probe is not None and (last or (epoch + 1) % probe_every == 0):
            row = Epoch(**{**asdict(row), "probe": float(probe(_as_it_stands(objective.encoder)))})
        trace.append(row)
        if path is not None and (last or (epoch + 1) % save_every == 0):
            tensors = {name: value.detach().cpu() for name, value in objective.tensors().items()}
            rows = [asdict(one) for one in trace]
            checkpoints.write(path, run, {"tensors": tensors, "optimizer": optimizer.state_dict(), "trace": rows})
    return Pretrained(objective.encoder.cpu().eval(), objective.projection.cpu().eval(), tuple(trace))


def _epoch(
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    settings: Contrastive,
    views: Views,
    key: Key,
    epoch: int,
    progress: Callable[[int, int], None] | None,
) -> Epoch:
    """All steps of one epoch."""
    steps = len(images) // settings.batch
    order = torch.from_numpy((key / "order").numpy().permutation(len(images))).to(images.device)
    total = torch.zeros((), device=images.device, dtype=torch.float64)
    done = None
    for step in range(steps):
        at = epoch * steps + step
        for group in optimizer.param_groups:
            group["lr"] = settings.rate_at(at, steps)
        batch = images[order[step * settings.batch : (step + 1) * settings.batch]]
        done = objective(*pair_of(views, batch, key / step))
        optimizer.zero_grad()
        done.loss.backward()
        optimizer.step()
        total += done.loss.detach()
        if at % CHECK_EVERY == 0:
            _check_finite(float(done.loss.detach()), at)
        if progress:
            progress(at + 1, steps * settings.epochs)
    mean = float(total) / steps
    _check_finite(mean, (epoch + 1) * steps - 1)
    assert done is not None  # the batch is at most the data
    first, second = done.first.detach(), done.second.detach()
    matched = matched_share(first, second)
    return Epoch(epoch + 1, mean, settings.chance(), matched, 1 / len(first), *spread_of(first))


def _check_finite(loss: float, step: int) -> None:
    if not abs(loss) < float("inf"):
        raise Diverged(f"the contrastive loss is {loss} at step {step}: lower the rate or raise the temperature")


def _restore(objective: Objective, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    there = objective.tensors()
    if there.keys() != state["tensors"].keys():
        raise SettingError("checkpoint", "with other tensors", "those of this encoder", "name a new file")
    with torch.no_grad():
        for name, value in state["tensors"].items():
            there[name].copy_(value)
    optimizer.load_state_dict(state["optimizer"])


def _drops(encoder: nn.Module) -> bool:
    return any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in encoder.modules())


def _as_it_stands(encoder: nn.Module) -> Features:
    return lambda x: features_of(encoder, x)


@contextlib.contextmanager
def evaluating(encoder: nn.Module) -> Generator[None, None, None]:
    """A module in evaluation mode, without gradients; the modes of all its parts come back."""
    modes = {module: module.training for module in encoder.modules()}
    encoder.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def features_of(encoder: nn.Module, x: Tensor, batch: int = 512) -> Float[Tensor, "n d"]:
    """Features (n, d) of inputs (n, ...) in evaluation mode, in blocks, without gradients; modes come back.

    Blocks are moved to the device of the encoder's weights, and the features to that of the inputs.

    Errors: SettingError where the encoder does not take them or gives no (n, d).

    Example:
        >>> features_of(nn.Flatten(), torch.zeros(3, 1, 2, 2)).shape
        torch.Size([3, 4])
    """
    features_given(encoder, x[:1])
    place = next(encoder.parameters(), x).device
    with evaluating(encoder):
        return torch.cat([encoder(block.to(place)).float().to(x.device) for block in x.split(batch)])


def features_given(encoder: nn.Module, x: Tensor) -> int:
    """How many features d an encoder gives for inputs (n, ...), by asking it in evaluation mode.

    Errors: SettingError where it does not take them, with a remedy for grey images, or where it gives no finite (n, d).
    """
    weight = next(encoder.parameters(), x)
    try:
        with evaluating(encoder):
            found = encoder(x.to(weight.device))
    except (RuntimeError, SettingError, ValueError) as why:
        reason = " ".join(str(why).split())[:120]
        shape = f"of shape (n, {', '.join(map(str, x.shape[1:]))})"
        if x.ndim == 4 and x.shape[1] == 1 and _first_channels(encoder) == 3:
            remedy = "grey images in a network of colours: images.expand(-1, 3, -1, -1) fills its channels"
        else:
            remedy = reason
        raise SettingError("images", shape, "what the encoder takes", remedy) from None
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(x):
        remedy = "flatten maps, or average over places"
        raise SettingError("encoder", f"one that gives {shape}", f"features ({len(x)}, d)", remedy)
    if not bool(torch.isfinite(found).all()):
        raise SettingError("encoder", "one that gives nan or infinity", "finite features", "look at its weights")
    return found.shape[1]


def _first_channels(encoder: nn.Module) -> int | None:
    first = next((m for m in encoder.modules() if isinstance(m, nn.Conv2d)), None)
    return first.in_channels if first is not None else None
