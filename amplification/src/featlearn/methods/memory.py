"""Seconds and peak memory of a block of work."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

T = TypeVar("T")
CPU = torch.device("cpu")


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
    """The result of work() and what it took on `device`."""
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    else:
        _reset_resident_peak()
    start = time.perf_counter()
    result = work()
    if cuda:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated(device) if cuda else _resident_peak()
    return result, PassCost(seconds, peak, tokens)


def _reset_resident_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass  # not Linux, or not permitted: the peak since the process began is what is left to report


def _resident_peak() -> int | None:
    try:
        with open("/proc/self/status") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM")), None)
    except OSError:
        return None


def device_of_model(model: Any, otherwise: torch.device = CPU) -> torch.device:
    """Where a model takes its input ids; `otherwise` for one whose weights another program brings when needed."""
    device = model.get_input_embeddings().weight.device
    return otherwise if device.type == "meta" else device
