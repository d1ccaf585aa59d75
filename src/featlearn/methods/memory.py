"""Seconds and peak memory of a block of work, whose host keeps its own counters of peaks."""

import mmap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

T = TypeVar("T")
CPU = torch.device("cpu")
PAGE = mmap.PAGESIZE
PERIOD = 0.005
"""Seconds between two samples of the memory in use: a layer of a prompt worth measuring takes longer."""


@dataclass(frozen=True)
class PassCost:
    """What a pass took.

    seconds: wall clock; peak_bytes: the most memory in use during the pass, all that was there before included
    (allocated on a CUDA device; resident for the process on a CPU under Linux; elsewhere None); tokens: positions
    processed, padding included.
    """

    seconds: float
    peak_bytes: int | None
    tokens: int


def measured(device: torch.device, tokens: int, work: Callable[[], T]) -> tuple[T, PassCost]:
    """The result of work() and what it took on `device`.

    The counter of the process's highest memory is read and never set back, since it may be someone else's measure.
    Where work() raises it, the peak is exact; where an earlier peak was higher, it is the highest of what was seen
    every 5 ms.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    before = _highest_ever(device)
    with _Sampling(device) as seen:
        start = time.perf_counter()
        result = work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - start
    after = _highest_ever(device)
    raised = before is not None and after is not None and after > before
    return result, PassCost(seconds, after if raised else seen.highest, tokens)


class _Sampling:
    """Samples the memory in use every few milliseconds, in a thread, as long as the block runs."""

    def __init__(self, device: torch.device) -> None:
        self.highest: int | None = None
        self._device, self._done = device, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _sample(self) -> None:
        now = _in_use(self._device)
        if now is not None and (self.highest is None or now > self.highest):
            self.highest = now

    def _run(self) -> None:
        while not self._done.wait(PERIOD):
            self._sample()

    def __enter__(self) -> "_Sampling":
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._sample()


def _highest_ever(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        with open("/proc/self/status") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM")), None)
    except OSError:
        return None


def _in_use(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * PAGE
    except OSError:
        return None


def device_of_model(model: Any, otherwise: torch.device = CPU) -> torch.device:
    """Where a model takes its input ids; `otherwise` for one whose weights another program brings when needed."""
    device = model.get_input_embeddings().weight.device
    return otherwise if device.type == "meta" else device
