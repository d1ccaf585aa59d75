"""Peaks are those of the block of work, and the counters of the process are left as they were."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from featlearn.methods.memory import measured

MIB = 2**20
PASSES = """
import json, mmap, time
from pathlib import Path
import torch
from featlearn.methods import memory
from featlearn.methods.memory import measured

CPU, MIB = torch.device("cpu"), 2**20

def highest():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

def in_use():
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

def fill(mib, seconds):
    block = torch.ones(mib * MIB // 4)
    time.sleep(seconds)
    return block.numel()

out = {}
fill(600, 0.0)
out["before"], start = highest(), in_use()
out["found"], cost = measured(CPU, 7, lambda: fill(200, 0.5))
out["after"], out["tokens"], out["below"] = highest(), cost.tokens, cost.peak_bytes - start
memory.PERIOD = 3600.0
start = in_use()
_, cost = measured(CPU, 1, lambda: fill(900, 0.0))
out["above"] = cost.peak_bytes - start
print(json.dumps(out))
"""


@pytest.fixture(scope="module")
def passes():
    """Passes of 200 and of 900 MiB after one of 600, in a process whose memory nobody else gives back."""
    if not Path("/proc/self/status").exists():
        pytest.skip("counters of Linux")
    done = subprocess.run([sys.executable, "-c", PASSES], check=True, capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_peak_of_the_process_is_not_set_back(passes):
    assert passes["found"] == 200 * MIB // 4
    assert passes["tokens"] == 7
    assert passes["after"] >= passes["before"]  # 400 MiB above what the pass had


def test_a_pass_below_an_earlier_peak_has_its_own(passes):
    assert 190 * MIB < passes["below"] < 300 * MIB  # 200 here; 0 unseen, 600 that of before


def test_a_pass_above_all_before_is_exact_although_no_sample_saw_it(passes):
    assert abs(passes["above"] - 900 * MIB) < 40 * MIB


def test_a_failing_pass_leaves_no_thread():
    threads = threading.active_count()

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        measured(torch.device("cpu"), 1, fails)
    assert threading.active_count() == threads
