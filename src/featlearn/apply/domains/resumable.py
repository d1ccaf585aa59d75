"""Training that goes on where it was stopped: the loop of `methods.domains.train`, with measures and a checkpoint."""

import contextlib
import copy
import dataclasses
import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from featlearn.apply.domains.measures import Details, Measures, evaluated
from featlearn.core import Key
from featlearn.errors import StoreError
from featlearn.lab.files import write_whole
from featlearn.methods.domains import VALIDATION, Evaluation, Minibatch, Objective, Part, Schedule, Swad, SwadRule
from featlearn.methods.domains.averaging import Mean, _Segment, refresh_statistics, set_modes, training_modes
from featlearn.methods.domains.objectives import State
from featlearn.methods.domains.training import (
    CHECK_EVERY,
    Processes,
    SingleProcess,
    Trained,
    _autocast,
    _check_finite,
    _load,
    _own_random_numbers,
    _prepared,
    _to_cpu,
    _weights,
    minibatches_of_step,
)

FORMAT = 1
SECONDS = 60.0
"""Between two checkpoints: what a kill costs."""
T = TypeVar("T")
Batches = Callable[[Sequence[Part], int, int, Key, int, int], list[Minibatch]]


@dataclass(frozen=True)
class Checkpoint:
    """Where a run keeps its place. identity: of the run and of its code, so that no other run goes on from here."""

    path: Path
    identity: str
    seconds: float = SECONDS

    def read(self) -> dict[str, Any] | None:
        """What was kept of this very run; None where nothing was, or what is there is damaged or of another run."""
        try:
            found = torch.load(self.path, map_location="cpu", weights_only=True)
        except Exception:  # no file, half a file, another kind of file: the run begins anew
            return None
        same = isinstance(found, dict) and found.get("format") == FORMAT and found.get("identity") == self.identity
        return found if same else None

    def write(self, data: Mapping[str, Any]) -> None:
        """Keep the place, whole or not at all. Errors: StoreError in one line."""
        buffer = io.BytesIO()
        torch.save({"format": FORMAT, "identity": self.identity, **data}, buffer)
        try:
            write_whole(self.path, buffer.getvalue())
        except OSError as why:
            remedy = "free some space, or choose another --store"
            raise StoreError(f"{self.path} cannot be written ({why.strerror or why}): {remedy}") from why

    def remove(self) -> None:
        """The run is over."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Result:
    """As training left it. details: measures of each evaluation; averaged: those of SWAD's average; resumed: the step
    that the run went on from, 0 for its beginning; trouble: why no checkpoint could be kept, "" otherwise."""

    trained: Trained
    details: Sequence[Details]
    averaged: Details | None
    resumed: int = 0
    trouble: str = ""

    def chosen(self, averaged: bool) -> tuple[Evaluation, Details]:
        """Of the weights that are selected, or of SWAD's."""
        if averaged:
            assert self.trained.averaged_evaluation is not None, "train with average=SwadRule()"
            assert self.averaged is not None
            return self.trained.averaged_evaluation, self.averaged
        assert self.trained.best is not None, "train with a validation part"
        return self.trained.best, self.details[self.trained.evaluations.index(self.trained.best)]


def train_resumable(
    featurizer: nn.Module,
    classifier: nn.Module,
    objective: Objective,
    parts: Sequence[Part],
    schedule: Schedule,
    *,
    key: Key,
    watch: Mapping[str, Sequence[Part]],
    average: SwadRule | None = None,
    extra: Sequence[tuple[nn.Module, float]] = (),
    processes: Processes | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    batches: Batches = minibatches_of_step,
) -> Result:
    """As `methods.domains.train`, number by number, with measures at each evaluation, and a place to go on from.

    checkpoint: written every so many seconds and after the last step; a run that finds its own goes on from it, and who
    keeps the result removes it. Where it cannot be written the run goes on without. batches: what makes the minibatches
    of a step, a function of step and key alone.

    Errors: Diverged.
    """
    processes = processes or SingleProcess()
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
        swad = Swad(average) if average is not None else None
        evaluations: list[Evaluation] = []
        details: list[Details] = []
        best: Evaluation | None = None
        kept: dict[str, Tensor] = {}
        sums: dict[str, Tensor] = {}
        since, begun, trouble = 0, 0, ""

        before = checkpoint.read() if checkpoint is not None else None
        if before is not None:
            begun = before["step"]
            _load(featurizer, classifier, before["weights"])
            optimizer.load_state_dict(before["optimizer"])
            for (module, _), values in zip(extra, before["extra"], strict=True):
                module.load_state_dict(values)
            shares = before["shares"]
            state = State(key, begun, None if shares is None else shares.to(device))
            evaluations = [Evaluation(**e) for e in before["evaluations"]]
            details = [_details_of(d) for d in before["details"]]
            best = next((e for e in evaluations if e.step == before["best"]), None)
            kept, since, spent = before["kept"], before["since"], before["spent"]
            sums = {name: value.to(device) for name, value in before["sums"].items()}
            if swad is not None:
                _swad_into(swad, before["swad"], device)
            torch.set_rng_state(before["random"])
            if device.type == "cuda" and before["random_cuda"] is not None:
                torch.cuda.set_rng_state(before["random_cuda"], device)

        def make(step: int) -> list[Minibatch]:
            return batches(parts, schedule.batch, step, key, processes.index, processes.count)

        def place(step: int) -> dict[str, Any]:
            return {
                "step": step,
                "weights": _to_cpu(_weights(featurizer, classifier)),
                "optimizer": optimizer.state_dict(),
                "extra": [m.state_dict() for m, _ in extra],
                "shares": state.shares,
                "evaluations": [dataclasses.asdict(e) for e in evaluations],
                "details": [_plain(d) for d in details],
                "best": best.step if best else None,
                "kept": kept,
                "sums": sums,
                "since": since,
                "spent": spent,
                "swad": None if swad is None else _swad_state(swad),
                "random": torch.get_rng_state(),
                "random_cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
            }

        saved = time.perf_counter()
        left = schedule.steps - begun if swad is None or not swad.over else 0
        with contextlib.closing(_prepared(lambda i: make(begun + i), left, schedule.ahead)) as ready:
            for i, minibatches in enumerate(ready):
                step, begin = begun + i, time.perf_counter()
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
                if (step + 1) % schedule.evaluate_every == 0 or step == schedule.steps - 1:
                    means = {name: float(value) / since for name, value in sums.items()}
                    found, detail = evaluated(featurizer, classifier, watch, step + 1, means, schedule.precision)
                    _check_finite(torch.tensor(means["loss"]), step)
                    evaluations.append(found)
                    details.append(detail)
                    sums, since = {}, 0
                    if best is None or found.accuracy[VALIDATION] > best.accuracy[VALIDATION]:
                        best, kept = found, _to_cpu(_weights(featurizer, classifier))
                    if swad is not None:
                        swad.evaluated(found.loss[VALIDATION])
                if progress:
                    progress(step + 1, schedule.steps)
                over = step == schedule.steps - 1 or (swad is not None and swad.over)
                due = over or time.perf_counter() - saved >= (checkpoint.seconds if checkpoint else 0)
                if checkpoint is not None and due and not trouble:
                    try:
                        checkpoint.write(place(step + 1))
                    except StoreError as why:
                        trouble = str(why)
                    saved = time.perf_counter()
                if swad is not None and swad.over:
                    break
        averaged, averaged_evaluation, averaged_details, window = None, None, None, None
        if swad is not None:
            window = swad.finish()
            _load(featurizer, classifier, swad.weights())
            anew = (b.x.to(device) for step in range(100) for b in make(step))
            refresh_statistics(featurizer, anew)
            averaged = _to_cpu(_weights(featurizer, classifier))
            averaged_evaluation, averaged_details = evaluated(
                featurizer, classifier, watch, evaluations[-1].step, {}, schedule.precision
            )
    seconds = time.perf_counter() - start
    trained = Trained(tuple(evaluations), best, kept, averaged, averaged_evaluation, window, seconds, spent)
    return Result(trained, tuple(details), averaged_details, begun, trouble)


# --- what a checkpoint holds --------------------------------------------------------------------------------------


def _plain(details: Details) -> dict[str, Any]:
    return {
        name: {domain: (torch.from_numpy(m.confusion), torch.from_numpy(m.bins)) for domain, m in by.items()}
        for name, by in details.items()
    }


def _details_of(plain: Mapping[str, Any]) -> Details:
    return {
        name: {domain: Measures(np.asarray(c), np.asarray(b)) for domain, (c, b) in by.items()}
        for name, by in plain.items()
    }


def _swad_state(swad: Swad) -> dict[str, Any]:
    def mean(m: Mean) -> tuple[int, dict[str, Tensor]]:
        return m.count, _to_cpu(m.weights)

    return {
        "over": swad.over,
        "current": mean(swad._current),
        "queue": [(mean(s.mean), s.loss, s.number) for s in swad._queue],
        "total": mean(swad._total),
        "threshold": swad._threshold,
        "evaluations": swad._evaluations,
        "first": swad._first,
        "last": swad._last,
    }


def _swad_into(swad: Swad, state: Mapping[str, Any], device: torch.device) -> None:
    swad.over = state["over"]
    count, weights = state["current"]
    swad._current = Mean(count, {name: value.to(device) for name, value in weights.items()})
    swad._queue = [_Segment(Mean(*mean), loss, number) for mean, loss, number in state["queue"]]
    swad._total = Mean(*state["total"])
    swad._threshold, swad._evaluations = state["threshold"], state["evaluations"]
    swad._first, swad._last = state["first"], state["last"]
