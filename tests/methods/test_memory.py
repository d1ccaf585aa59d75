"""Peaks are those of the block of work, and the counters of the process are left as they were."""

import mmap
import threading
import time
from pathlib import Path

import pytest
import torch

from featlearn.methods import memory
from featlearn.methods.memory import measured

CPU = torch.device("cpu")
MIB = 2**20
LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counters of Linux")


def highest() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def fill(mib: int, seconds: float = 0.1) -> int:
    block = torch.ones(mib * MIB // 4)
    time.sleep(seconds)
    return block.numel()


@LINUX
def test_the_peak_of_the_process_is_not_set_back():
    fill(512)
    before = highest()
    found, cost = measured(CPU, 7, lambda: fill(32))
    assert found == 32 * MIB // 4
    assert cost.tokens == 7
    assert highest() >= before  # 500 MiB above what is in use now


@LINUX
def test_a_pass_below_an_earlier_peak_has_its_own():
    _, base = measured(CPU, 1, lambda: None)
    fill(600)
    _, cost = measured(CPU, 1, lambda: fill(200))
    assert base.peak_bytes is not None
    assert cost.peak_bytes is not None
    assert 190 * MIB < cost.peak_bytes - base.peak_bytes < 300 * MIB  # 200 here; 0 unseen, 600 that of before


@LINUX
def test_a_pass_above_all_before_is_exact_although_no_sample_saw_it(monkeypatch):
    monkeypatch.setattr(memory, "PERIOD", 3600.0)
    ever = highest()
    in_use = int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    more = (ever - in_use) // MIB + 300
    _, cost = measured(CPU, 1, lambda: fill(more, 0.0))
    assert cost.peak_bytes is not None
    assert abs(cost.peak_bytes - in_use - more * MIB) < 40 * MIB


def test_a_failing_pass_leaves_no_thread():
    threads = threading.active_count()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        measured(CPU, 1, fails)
    assert threading.active_count() == threads
