"""The scope of one training: when snapshots are taken, what they may cost, and where their numbers go."""

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from featlearn.apply.watch import callbacks
from featlearn.apply.watch.agreement import Gradients
from featlearn.apply.watch.moments import (
    STILL,
    Parts,
    Seen,
    blocks_of,
    kernels_apart,
    observe,
    off_linear,
    parts_of,
    rehearse,
)
from featlearn.apply.watch.probe import Probe, check_model, copied, hooks_of
from featlearn.apply.watch.records import Snapshot, Watched, reading_of
from featlearn.core import Key, SettingError
from featlearn.errors import NotFiniteInput

Log = Callable[[str, float, int], object]

clock = time.perf_counter


class Doubling:
    """1, 2, 4, 8 and so on."""

    def __contains__(self, step: object) -> bool:
        return isinstance(step, int) and step > 0 and step & (step - 1) == 0


class Scope:
    """What `watch` returns: enter it before training, call `step()` after each optimiser step, read `result`."""

    def __init__(
        self,
        model: nn.Module,
        probe: Probe,
        labels: Tensor | None,
        layers: Sequence[str],
        steps: Container[int],
        share: float,
        log: Log | None,
        key: Key,
    ) -> None:
        self._model, self._probe, self._labels, self._layers = model, probe, labels, layers
        self._steps, self._share, self._log, self._key = steps, share, log, key
        self.state: str = "new"
        self._count = 0
        self._spent = self._began = self._ended = 0.0
        self._cost = 0.0
        self._snapshots: list[Snapshot] = []
        self._skipped: list[int] = []
        self._remarks: list[str] = []
        self._parts = Parts((), ())
        self._start: Seen | None = None
        self._previous: Seen | None = None
        self._gradients: Gradients | None = None
        self._stopped = False

    # entering, stepping, leaving --------------------------------------------------------------------------------------

    def __enter__(self) -> "Scope":
        if self.state != "new":
            raise SettingError("scope", self.state, "one that was not entered before", "call featlearn.watch anew")
        self._began = clock()
        inner = check_model(self._model)
        copy = copied(inner)
        self._parts = parts_of(copy, self._layers)
        for one in self._parts.left_out:
            self._remark(one)
        if hooks := hooks_of(inner):
            self._remark(f"{hooks} hooks of the model have no part in snapshots")
        probe = self._probe.beside(copy)
        rehearse(copied(inner), probe, self._key)
        self._probe = probe
        self._gradients = Gradients(inner, self._key)
        try:
            self._snapshot(copy)
        except RuntimeError as why:
            says = f"{type(inner).__name__}, whose gradients cannot be had ({str(why).splitlines()[0]})"
            raise SettingError("model", says, "backward passes in evaluation mode", "watch a part of it") from why
        self.state = "entered"
        return self

    def step(self) -> None:
        """After each step of the optimiser; before gradients are set to None, if their agreement is wanted."""
        if self.state != "entered":
            raise SettingError(
                "step()", f"called on a scope that is {self.state}", "inside of `with`", "enter it first"
            )
        self._count += 1
        began = clock()
        assert self._gradients is not None
        self._safely(self._gradients.see, self._count)
        self._spent += clock() - began
        if self._stopped or self._count not in self._steps:
            return
        elapsed = clock() - self._began
        # one more like the dearest so far, and one like it when the scope is left
        if self._spent + 2 * self._cost <= self._share * (elapsed - self._spent):
            self._safely(self._snapshot)
        else:
            self._skipped.append(self._count)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state != "entered":
            return
        if kind is None and not self._stopped and self._snapshots[-1].step != self._count:
            self._safely(self._snapshot)
        elif kind is not None:
            self._remark(f"training ended with {kind.__name__}, without a last snapshot")
        self._ended = clock()
        self.state = "left"

    @property
    def result(self) -> Watched:
        """What was seen so far, or in all."""
        if self.state == "new" or self._gradients is None:
            raise SettingError("result", "read before training", "after entering the scope", "enter it first")
        elapsed = (self._ended if self.state == "left" else clock()) - self._began
        rest = elapsed - self._spent
        return Watched(
            snapshots=tuple(self._snapshots),
            reading=reading_of(self._snapshots),
            agreement=self._gradients.result(),
            steps=self._count,
            skipped=tuple(self._skipped),
            seconds=self._spent,
            share=self._spent / rest if rest > 0 else 0.0,
            probe=self._probe.n,
            remarks=tuple(self._remarks),
        )

    def trainer_callback(self) -> Any:
        """A transformers.TrainerCallback that enters, steps and leaves: `Trainer(..., callbacks=[it])`."""
        return callbacks.of_transformers(self)

    def lightning_callback(self) -> Any:
        """A Callback of Lightning that enters, steps and leaves: `Trainer(..., callbacks=[it])`."""
        return callbacks.of_lightning(self)

    # one snapshot -----------------------------------------------------------------------------------------------------

    def _snapshot(self, copy: nn.Module | None = None) -> None:
        device = next(self._model.parameters()).device
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # so that work of the loop that waits is not counted as ours
        first, looked = copy is not None, clock()
        began = self._began if first else looked
        own = copy if copy is not None else copied(check_model(self._model))
        now = observe(own, self._probe, self._parts, self._key)
        start = now if self._start is None else self._start
        apart = None
        if not first:
            apart, why = off_linear(own, start, now, self._probe)
            self._remark(why)
        drift, aligned = kernels_apart(start, now, self._labels)
        size = float(start.outputs.norm())
        blocks = blocks_of(start, self._previous or now, now, self._parts, self._labels, self._key, self._remark)
        self._start, self._previous = start, replace(now, weights={}, kernels={})
        ended = clock()
        self._spent += ended - began
        self._cost = max(self._cost, ended - looked)
        found = Snapshot(
            step=self._count,
            at=ended - self._began,
            seconds=ended - began,
            moved=float((now.outputs - start.outputs).norm()) / size
            if size > STILL * float(now.outputs.norm())
            else None,
            apart=apart,
            kernel_drift=drift,
            alignment=aligned,
            blocks=tuple(blocks),
            layers=now.layers,
        )
        self._snapshots.append(found)
        self._tell(found)

    def _safely(self, work: Callable[..., object], *given: int) -> None:
        """What fails here never ends the training that is watched: it is told, and no more is looked at."""
        try:
            work(*given)
        except NotFiniteInput as why:
            self._stop(f"the network is not finite any more: {why.field}")
        except Exception as why:
            self._stop(f"{type(why).__name__}: {str(why).splitlines()[0] if str(why) else ''}")

    def _stop(self, why: str) -> None:
        self._stopped = True
        self._remark(f"stopped watching after step {self._count}: {why}")

    def _remark(self, text: str) -> None:
        if text and text not in self._remarks:
            self._remarks.append(text)

    def _tell(self, found: Snapshot) -> None:
        """One call of the user's log for each number; one that fails is not called again."""
        if self._log is None:
            return
        numbers = [(name, getattr(found, name)) for name in ("moved", "apart", "kernel_drift", "alignment")]
        for block in found.blocks:
            kinds = ("kernel_drift", "alignment", "movement", "cka", "cka_previous", "change", "spectral")
            numbers += [(f"{kind}/{block.name}", getattr(block, kind)) for kind in kinds]
        numbers += [(f"agop/{layer.name}", layer.cosine) for layer in found.layers]
        try:
            for name, value in numbers:
                if value is not None:
                    self._log(f"watch/{name}", value, found.step)
        except Exception as why:
            self._log = None
            self._remark(f"no more is logged: the log failed with {type(why).__name__}: {why}")
