"""What benchmark scripts share: several runs of the same work timed in turns, and their report."""

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch


def clock(run: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds of one call, and its value."""
    start = time.perf_counter()
    value = run()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - start, value


def in_turns(
    runs: Mapping[str, Callable[[], Any]], repeats: int, device: str
) -> tuple[dict[str, float], dict[str, Any]]:
    """Median seconds and last value of each run after one to warm up; interleaved, so that a drift hits all."""
    ends = {name: clock(run, device)[1] for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds[name].append(clock(run, device)[0])
    return {name: statistics.median(s) for name, s in seconds.items()}, ends


def machine(device: str) -> dict[str, Any]:
    """Where it ran."""
    return {
        "device": torch.cuda.get_device_name() if device != "cpu" else "cpu",
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }


def show(out: Mapping[str, Any], as_json: bool) -> None:
    """A line each, or one JSON document."""
    if as_json:
        print(json.dumps(out))
        return
    for name, value in out.items():
        print(f"{name:40} {value}")
