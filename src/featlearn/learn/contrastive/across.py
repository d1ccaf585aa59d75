"""Pretraining by any of the eight methods, in one process or in several that are as one with the whole batch."""

import copy
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import Key, SettingError
from featlearn.core.check import checked
from featlearn.core.device import resolve
from featlearn.learn.contrastive import checkpoints
from featlearn.learn.contrastive.joint import JointEmbedding, JointObjective, itself
from featlearn.learn.contrastive.objectives import Objective, matched_share, random_numbers_of, spread_of
from featlearn.learn.contrastive.settings import QUEUED, Contrastive
from featlearn.learn.contrastive.training import (
    CHECK_EVERY,
    Epoch,
    Pretrained,
    Probe,
    _as_it_stands,
    _check_finite,
    _drops,
    features_given,
)
from featlearn.learn.contrastive.views import ImageViews, Views, as_they_are, check_views, pair_of
from featlearn.learn.contrastive.whole_batch import OneProcess, Together, gathered, synchronised


@checked()
def pretrain_across(
    encoder: nn.Module,
    images: Float[Tensor, "n ..."],
    settings: Contrastive | JointEmbedding,
    *,
    key: Key,
    processes: Together | None = None,
    views: Views | None = None,
    probe: Probe | None = None,
    probe_every: int = 10,
    checkpoint: str | Path | None = None,
    save_every: int = 1,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Pretrained:
    """`pretrain` for MoCo v3, BYOL and Barlow Twins as well, and for several processes; the rest is as there.

    Shapes: images (n, ...) -> an encoder to features (n, d), as there.

    processes: `featlearn.adapt.Accelerated()` in a script that `accelerate launch` or torchrun starts, with the same
    images, settings and key in every process; None: this one alone, on `device`. Each takes its share of every batch,
    batch norm is over the whole batch, embeddings of all are compared with each other, and gradients are averaged: the
    run is that of one process with the whole batch up to rounding, its queue and its trace included, except for masks
    of dropout, which are drawn by each for its own rows. A process draws the views of the whole batch and keeps its
    part. Process 0 alone writes the checkpoint, which all must be able to read.

    In one process and with settings of `Contrastive` it gives what `pretrain` gives, bit for bit.

    Errors: as `pretrain`; SettingError for a batch that the processes cannot share equally, and a share of one image.

    Example:
        >>> from featlearn.nets import SmallEncoder
        >>> x = torch.rand(32, 1, 8, 8, generator=Key("images").torch())
        >>> settings = JointEmbedding("mocov3", epochs=2, batch=16)
        >>> run = pretrain_across(SmallEncoder(1, Key("net"), width=8), x, settings, key=Key("run"))
        >>> len(run.trace), round(run.trace[0].chance, 3), run.collapsed
        (2, 2.773, False)
    """
    together = processes or OneProcess(resolve(device))
    _check(settings, len(images), together.count, probe_every, save_every)
    views = views or (as_they_are if settings.method == "simcse" else ImageViews())
    check_views(views, images)
    if settings.method == "simcse" and not _drops(encoder) and views is as_they_are:
        raise SettingError("encoder", "without dropout", "one with dropout for simcse", "its two views would be equal")
    features = features_given(encoder, views(images[:2], key / "try"))
    path = Path(os.path.expanduser(checkpoint)) if checkpoint is not None else None
    run: dict[str, Any] = {}
    state = None
    if path is not None:
        run = checkpoints.run_of(settings, key.path, views, images, encoder.state_dict())
        run["processes"] = together.count
        state = checkpoints.read(path, run)
        together.wait()  # before process 0 writes another

    objective, plain = _objective(encoder, features, settings, key / "head", together)
    optimizer = _optimizer(objective, settings)
    trace: list[Epoch] = []
    if state is not None:
        _restore(objective, optimizer, state)
        trace = [Epoch(**row) for row in state["trace"]]
    images = images.to(together.device)
    for epoch in range(len(trace), settings.epochs):
        own = key / "modules" / epoch if together.count == 1 else key / "modules" / epoch / together.index
        with random_numbers_of(own, together.device):
            row = _epoch(
                objective, optimizer, images, settings, views, key / "epoch" / epoch, epoch, together, progress
            )
        last = epoch + 1 == settings.epochs
        if probe is not None and (last or (epoch + 1) % probe_every == 0):
            row = Epoch(**{**asdict(row), "probe": float(probe(_as_it_stands(objective.encoder)))})
        trace.append(row)
        if path is not None and (last or (epoch + 1) % save_every == 0):
            if together.index == 0:
                tensors = {name: value.detach().cpu() for name, value in objective.tensors().items()}
                rows = [asdict(one) for one in trace]
                checkpoints.write(path, run, {"tensors": tensors, "optimizer": optimizer.state_dict(), "trace": rows})
            together.wait()
    for mine, trained in zip(plain, (objective.encoder, objective.projection), strict=True):
        mine.load_state_dict(trained.state_dict())
    return Pretrained(plain[0].eval(), plain[1].eval(), tuple(trace))


def _check(settings: Contrastive | JointEmbedding, n: int, count: int, probe_every: int, save_every: int) -> None:
    if settings.batch > n:
        raise SettingError("batch", settings.batch, f"at most the {n} images", "lower it, or bring more images")
    if isinstance(settings, Contrastive) and settings.method in QUEUED and settings.queue > n:
        why = "a longer one holds the image itself as its own negative or neighbour"
        raise SettingError("queue", settings.queue, f"at most the {n} images", why)
    for name, value in (("probe_every", probe_every), ("save_every", save_every)):
        if value < 1:
            raise SettingError(name, value, "1 or more", "it counts epochs")
    if settings.batch % count or settings.batch < 2 * count:
        remedy = "each takes as many images of a batch"
        raise SettingError("batch", settings.batch, f"a multiple of {count} processes, two images each", remedy)


class _Gather(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return gathered(z)


class _WholeBatch(Objective):
    """Objective of `Contrastive` whose embeddings are those of all processes: its losses and queues need no change."""

    def __init__(self, encoder: nn.Module, features: int, settings: Contrastive, key: Key) -> None:
        super().__init__(encoder, features, settings, key)
        if settings.method == "moco":
            self.slow = nn.Sequential(*self.slow, _Gather())

    def _embedded(self, x: Tensor) -> Tensor:
        return gathered(super()._embedded(x))


def _objective(
    encoder: nn.Module, features: int, settings: Contrastive | JointEmbedding, key: Key, together: Together
) -> tuple[Objective | JointObjective, nn.ModuleList]:
    """(What is trained, on its device; encoder and projection head as they are alone, to take the weights at the end).

    Heads behind the gathered embeddings see the whole batch in every process, and their batch norm stays.
    """
    alone, encoder = together.count == 1, copy.deepcopy(encoder).cpu()
    if isinstance(settings, JointEmbedding):
        objective: Objective | JointObjective = JointObjective(
            encoder, features, settings, key, itself if alone else gathered
        )
    else:
        objective = (Objective if alone else _WholeBatch)(encoder, features, settings, key)
    plain = copy.deepcopy(nn.ModuleList((objective.encoder, objective.projection)))
    objective.to(together.device).train()
    for name in () if alone else ("encoder", "projection", "slow"):
        part = getattr(objective, name, None)
        if part is not None:
            setattr(objective, name, synchronised(part, together.device))
    return objective, plain


def _restore(objective: Objective | JointObjective, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    there = objective.tensors()
    if there.keys() != state["tensors"].keys():
        raise SettingError("checkpoint", "with other tensors", "those of this encoder", "name a new file")
    with torch.no_grad():
        for name, value in state["tensors"].items():
            there[name].copy_(value)
    optimizer.load_state_dict(state["optimizer"])


def _optimizer(objective: nn.Module, settings: Contrastive | JointEmbedding) -> torch.optim.Optimizer:
    learned = [p for p in objective.parameters() if p.requires_grad]
    if isinstance(settings, JointEmbedding) and settings.optimizer == "adamw":
        betas = (settings.momentum, 0.999)
        return torch.optim.AdamW(learned, lr=settings.rate, betas=betas, weight_decay=settings.weight_decay)
    return torch.optim.SGD(learned, lr=settings.rate, momentum=settings.momentum, weight_decay=settings.weight_decay)


def _epoch(
    objective: Objective | JointObjective,
    optimizer: torch.optim.Optimizer,
    images: Tensor,
    settings: Contrastive | JointEmbedding,
    views: Views,
    key: Key,
    epoch: int,
    together: Together,
    progress: Callable[[int, int], None] | None,
) -> Epoch:
    """All steps of one epoch; loss and embeddings are those of the whole batch in every process."""
    steps = len(images) // settings.batch
    order = torch.from_numpy((key / "order").numpy().permutation(len(images))).to(images.device)
    share = settings.batch // together.count
    mine = slice(together.index * share, (together.index + 1) * share)
    total = torch.zeros((), device=images.device, dtype=torch.float64)
    done = None
    for step in range(steps):
        at = epoch * steps + step
        for group in optimizer.param_groups:
            group["lr"] = settings.rate_at(at, steps)
        if isinstance(objective, JointObjective):
            objective.keep = objective.settings.slow_at(at, steps * settings.epochs)
        batch = images[order[step * settings.batch : (step + 1) * settings.batch]]
        x1, x2 = pair_of(views, batch, key / step)
        done = objective(x1[mine], x2[mine])
        optimizer.zero_grad()
        done.loss.backward()
        together.gradients([p for group in optimizer.param_groups for p in group["params"] if p.grad is not None])
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
    return Epoch(epoch + 1, mean, settings.chance(), matched_share(first, second), 1 / len(first), *spread_of(first))
