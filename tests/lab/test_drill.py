"""A run that everything happens to: the table at the end is that of a run that nothing happened to."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from featlearn.lab.execute import run
from featlearn.lab.load import load_source
from featlearn.lab.store import Store

FILE = str(Path(__file__).with_name("drill_experiment.py"))
DRIVER = """
import sys
from featlearn.lab.execute import run
from featlearn.lab.load import load_source
from featlearn.lab.submit import ProcessPool
if __name__ == "__main__":
    drill = load_source(sys.argv[1])
    with ProcessPool(2) as pool:
        report = run(drill, drill.presets["small"], store=sys.argv[2], submit=pool)
    print(report.ok, report.skipped, report.failed)
"""


def driver(tmp_path, store, **env):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), FILE, str(store)]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1", **env}, **quiet)


def workers_of(process):
    """Process ids of the workers: spawned, so that the tracker of resources is told apart by what it runs."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        found = [int(pid) for pid in children.read_text().split()]
        return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    except OSError:
        return []


def records(store):
    return [p for p in (store / "toy/drill").glob("*.json") if not p.name.endswith(".run.json")]


def test_the_drill(tmp_path):
    """200 trials, two drivers with two workers each; killed at random moments (seeded choices; the moments are those of
    the machine), one in a hundred writes fails half-way, clocks jump back."""
    chaos, store = random.Random(0), tmp_path / "store"
    killed = {"worker": 0, "driver": 0}
    env = {"DRILL_DISK": "0.01", "DRILL_PAUSE": "0.3"}
    drivers = [driver(tmp_path, store, **env) for _ in range(2)]
    end = time.monotonic() + 60.0
    while time.monotonic() < end and len(records(store)) < 150:
        time.sleep(0.5)
        victim = chaos.choice(drivers)
        workers = workers_of(victim)
        if workers and chaos.random() < 0.5:
            os.kill(chaos.choice(workers), signal.SIGKILL)
            killed["worker"] += 1
        elif chaos.random() < 0.15:
            killed["driver"] += victim.poll() is None
            victim.kill()
        for i, one in enumerate(drivers):  # those that ended (a full disk ends a run) are started again
            if one.poll() is not None:
                one.communicate()
                drivers[i] = driver(tmp_path, store, **env)
    for one in drivers:
        one.kill()
        one.communicate()
    for path in records(store):
        json.loads(path.read_bytes())  # whole, or not there
    assert killed["worker"] >= 3
    assert len(records(store)) > 50
    calm = driver(tmp_path, store)
    calm.communicate(timeout=120)
    assert calm.returncode == 0
    drill = load_source(FILE)
    disturbed = run(drill, drill.presets["small"], store=store)
    undisturbed = run(drill, drill.presets["small"], store=tmp_path / "calm")
    assert (disturbed.ok, disturbed.failed, disturbed.skipped) == (0, 0, 200)
    assert json.dumps(disturbed.table.rows) == json.dumps(undisturbed.table.rows)
    assert disturbed.summary == undisturbed.summary
    for name, load in undisturbed.table.arrays.items():
        np.testing.assert_array_equal(load()["x"], disturbed.table.arrays[name]()["x"])
    assert not list(store.rglob("*.tmp"))
    assert not list(store.rglob("*.damaged*"))


def test_two_drivers_share_the_work(tmp_path):
    """Every trial is computed once: the counts of the two add up to all."""
    store = tmp_path / "store"
    both = [driver(tmp_path, store, DRILL_PAUSE="0.05") for _ in range(2)]
    counts = [[int(n) for n in one.communicate(timeout=120)[0].split()] for one in both]
    assert sum(ok for ok, _, _ in counts) == 200
    assert [ok + skipped for ok, skipped, _ in counts] == [200, 200]
    assert all(ok > 0 for ok, _, _ in counts), counts
    assert len(Store(store).records("toy/drill")) == 200
