"""Runs: the same table whatever runs the trials, in whatever order, however often interrupted."""

import dataclasses
import functools
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from featlearn.errors import RunError, StoreError
from featlearn.lab.execute import plan, run
from featlearn.lab.experiment import Experiment
from featlearn.lab.find import origin
from featlearn.lab.load import load_source, source_of
from featlearn.lab.store import Store, read_manifest
from featlearn.lab.submit import ProcessPool

TOY = str(Path(__file__).with_name("toy_experiment.py"))


class Backwards:
    """Runs everything in a shuffled order when the first result is asked for."""

    def __init__(self):
        self.calls, self.results = [], None

    def submit(self, fn, *args):
        self.calls.append((fn, args))
        n, outer = len(self.calls) - 1, self

        class Handle:
            def result(self):
                if outer.results is None:
                    order = random.Random(1).sample(range(len(outer.calls)), len(outer.calls))
                    outer.results = {i: outer.calls[i][0](*outer.calls[i][1]) for i in order}
                return outer.results[n]

        return Handle()


def test_rows_do_not_depend_on_who_runs_the_trials(tmp_path, toy):
    config = dataclasses.replace(toy.presets["small"], size=300, seeds=(3, 1, 2, 0))
    serial = run(toy, config, store=tmp_path / "serial", preset="small")
    assert [r["seed"] for r in serial.table.rows] == [3, 3, 1, 1, 2, 2, 0, 0]
    assert (serial.ok, serial.diverged, serial.failed, serial.skipped) == (4, 0, 0, 0)
    assert [(s.row, s.n, s.verdict) for s in serial.summary] == [("mean", 4, "deviates"), ("trace", 4, "not reported")]
    with ProcessPool(2) as pool:
        two = run(toy, config, store=tmp_path / "two", submit=pool)
    with ThreadPoolExecutor(2) as threads:  # a foreign executor, unchanged
        foreign = run(toy, config, store=tmp_path / "foreign", submit=threads)
    shuffled = run(toy, config, store=tmp_path / "shuffled", submit=Backwards())
    for other in (two, foreign, shuffled):
        assert other.table.rows == serial.table.rows
        assert other.summary == serial.summary
        assert other.errors == {}


def test_rerun_skips_done_and_diverged_and_retries_failed(tmp_path, toy):
    broken, diary = tmp_path / "broken", tmp_path / "diary"
    diary.mkdir()
    config = dataclasses.replace(toy.presets["small"], broken=str(broken), diary=str(diary), diverging=1)
    broken.touch()
    first = run(toy, config, store=tmp_path / "runs")
    assert (first.ok, first.diverged, first.failed, first.skipped) == (0, 0, 3, 0)
    assert first.table.rows == ()
    assert first.summary == ()
    assert len(first.table.failed) == 3
    assert set(first.errors.values()) == {f"RuntimeError: seed {s} is broken" for s in range(3)}
    record = Store(tmp_path / "runs").read("toy/normal", first.table.failed[0])
    assert "Traceback" in record.error
    assert "run_trial" in record.error
    broken.unlink()
    second = run(toy, config, store=tmp_path / "runs")
    assert (second.ok, second.diverged, second.failed, second.skipped) == (2, 1, 0, 0)
    assert second.table.diverged == (first.table.failed[1],)
    assert Store(tmp_path / "runs").read("toy/normal", second.table.diverged[0]).error == "not finite at step 1"
    third = run(toy, config, store=tmp_path / "runs")
    assert (third.ok, third.diverged, third.failed, third.skipped) == (0, 0, 0, 3)
    assert third.table.rows == second.table.rows
    assert len(list(diary.iterdir())) == 6
    assert read_manifest(third.manifest).seconds == read_manifest(second.manifest).seconds


def test_a_row_that_is_not_finite_fails_its_trial(tmp_path, toy):
    bad = dataclasses.replace(
        toy, run_trial=lambda trial: dataclasses.replace(toy.run_trial(trial), rows=[{"a": 1e400}])
    )
    report = run(bad, toy.presets["smoke"], store=tmp_path)
    assert report.failed == 1
    assert next(iter(report.errors.values())) == (
        "ValueError: rows[0].a = inf is not allowed: a finite number, or None for 'no value'"
    )


def test_record_says_where_it_came_from(tmp_path, toy):
    report = run(toy, toy.presets["smoke"], store=tmp_path, threads=1)
    record = Store(tmp_path).read("toy/normal", report.table.rows[0]["trial"])
    assert record.seeds == [0]
    assert record.trial["size"] == 4
    assert record.seconds >= 0
    assert record.threads == 1
    assert record.peak_mib is None or 5 < record.peak_mib < 50000
    assert record.provenance["featlearn"]
    assert record.provenance["numpy"] == __import__("numpy").__version__
    assert {"commit", "dirty", "python", "torch"} <= set(record.provenance)
    assert read_manifest(report.manifest).trials == [record.hash]


def test_the_origin_of_trials_is_named_once_where_it_is_one_and_as_mixed_where_not(tmp_path, toy):
    store = Store(tmp_path)
    hashes = read_manifest(run(toy, toy.presets["small"], store=store, preset="small").manifest).trials
    found = origin(store, toy.id, hashes)
    assert found is not None
    assert (found.device, "mixed" in found.commit) == ("cpu", False)
    other = dataclasses.replace(store.read(toy.id, hashes[0]), device="cuda")
    assert origin(store, toy.id, hashes, {hashes[0]: other}).device == "mixed: cpu, cuda"
    assert origin(store, toy.id, []) is None


def test_progress_and_expected_cost(tmp_path, toy):
    config = dataclasses.replace(toy.presets["small"], pause=0.02)
    todo = plan(toy, config, Store(tmp_path))
    assert todo.seconds == pytest.approx(3 * 0.52)
    assert todo.seconds_with(2) == pytest.approx(1.5 * 0.52)
    assert todo.seconds_with(8) == pytest.approx(0.52)  # not below the longest trial
    uneven = dataclasses.replace(todo, costs=(4.0, 1.0, 1.0))
    assert [uneven.seconds_with(n) for n in (0, 1, 2)] == [6.0, 6.0, 4.0]
    assert todo.mib == 60.0
    seen = []
    run(toy, config, store=tmp_path, progress=lambda *a: seen.append(a))
    assert [s[:2] for s in seen] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert seen[0][2] == pytest.approx(3 * 0.52)
    # a trial takes 0.02 s and a write, not the promised 0.52 s: what is left follows what was seen
    assert 0.02 < seen[1][2] < 1.0
    assert seen[-1][2] == 0.0


def test_refused_before_any_work(tmp_path, toy, snapshot):
    twice = dataclasses.replace(toy.presets["small"], seeds=(0, 1, 0))
    with pytest.raises(RunError, match=r"trials 0 and 2 of toy/normal are the same"):
        run(toy, twice, store=tmp_path)
    with pytest.raises(RunError, match="has no trials"):
        run(toy, dataclasses.replace(toy.presets["small"], seeds=()), store=tmp_path)
    stray = dataclasses.replace(toy, title="not the one in the file")
    with pytest.raises(RunError, match="cannot be found by other processes"):
        run(stray, toy.presets["small"], store=tmp_path, submit=Backwards())
    assert snapshot(tmp_path) == {}


def test_sources(tmp_path, toy):
    assert source_of(toy) == TOY
    assert load_source(TOY) is toy
    with pytest.raises(RunError, match="does not exist"):
        load_source(str(tmp_path / "none.py"))
    (tmp_path / "empty.py").write_text("EXPERIMENT = 3\n")
    with pytest.raises(RunError, match="has no EXPERIMENT"):
        load_source(str(tmp_path / "empty.py"))


def test_full_disk_stops_the_run(tmp_path, toy, monkeypatch):
    import featlearn.lab.store as store_module

    real, count = store_module.write_atomic, []

    def write(path, data):
        count.append(path.name)
        if len(count) > 3:  # manifest, then arrays and record of the first trial
            raise StoreError(f"{path} cannot be written (No space left on device): free some space")
        real(path, data)

    monkeypatch.setattr(store_module, "write_atomic", write)
    with pytest.raises(StoreError, match="No space left"):
        run(toy, toy.presets["paper"], store=tmp_path)
    assert len(count) == 4  # the other trials were not begun
    monkeypatch.undo()
    report = run(toy, toy.presets["paper"], store=tmp_path)
    assert (report.ok, report.skipped) == (4, 1)


class Lossy:
    """An executor that loses the trial of seed 1: so many times."""

    def __init__(self, times):
        self.times, self.calls = times, []

    def submit(self, fn, *args):
        seed = pickle.loads(args[1]).seed
        self.calls.append(seed)

        class Handle:
            def result(handle):
                if seed == 1 and self.times > 0:
                    self.times -= 1
                    raise ConnectionError("gone")
                return fn(*args)

        return Handle()


def test_a_trial_whose_worker_is_lost_is_tried_again_alone(tmp_path, toy):
    lossy = Lossy(times=1)
    report = run(toy, toy.presets["small"], store=tmp_path, submit=lossy)
    assert (report.ok, report.failed, report.errors) == (3, 0, {})
    assert lossy.calls == [0, 1, 2, 1]


def test_a_trial_that_loses_its_worker_twice_fails_with_a_record(tmp_path, toy):
    report = run(toy, toy.presets["small"], store=tmp_path, submit=Lossy(times=9))
    assert (report.ok, report.failed) == (2, 1)
    ((hash_, message),) = report.errors.items()
    assert "gone" in message
    record = Store(tmp_path).read(toy.id, hash_)
    assert (record.status, record.trial["seed"], record.error) == ("failed", 1, message)
    assert run(toy, toy.presets["small"], store=tmp_path).ok == 1


def test_a_trial_that_another_run_could_end_keeps_its_rows(tmp_path, toy):
    """Its worker dies twice here; meanwhile another run, on a larger machine say, has ended it."""
    alone = dataclasses.replace(toy.presets["small"], seeds=(1,))

    class Overtaken(Lossy):
        def submit(self, fn, *args):
            if len(self.calls) == 3:  # the second try of seed 1
                run(toy, alone, store=tmp_path)
            return super().submit(fn, *args)

    report = run(toy, toy.presets["small"], store=tmp_path, submit=Overtaken(times=9))
    assert (report.ok, report.failed, report.skipped) == (2, 0, 1)
    assert len({row["trial"] for row in report.table.rows}) == 3


# --- interruptions ---------------------------------------------------------------------------------------------------

DRIVER = """
import sys, dataclasses
from featlearn.lab.execute import run
from featlearn.lab.load import load_source
from featlearn.lab.submit import ProcessPool
if __name__ == "__main__":
    toy = load_source(sys.argv[1])
    new = {"seeds": tuple(range(8)), "pause": float(sys.argv[4]), "diary": sys.argv[3]}
    config = dataclasses.replace(toy.presets["paper"], **new)
    with ProcessPool(2) as pool:
        report = run(toy, config, store=sys.argv[2], submit=pool)
    print(report.ok, report.skipped, report.failed)
"""


def start_driver(tmp_path, store, pause):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    (tmp_path / "diary").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, str(script), TOY, str(store), str(tmp_path / "diary"), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored in background shells
    )


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def diary(tmp_path):
    """(seed, pid) of every trial that was begun."""
    return [tuple(p.name.split("-")[:2]) for p in sorted((tmp_path / "diary").iterdir())]


def records(store):
    return [p for p in Path(store).glob("toy/normal/*.json") if ".run." not in p.name]


def alive(pid):
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals; lift when the suite runs on Windows")
@pytest.mark.parametrize("how", ["kill the driver", "kill the group", "interrupt the group"])
def test_interrupted_two_worker_run_resumes_bit_for_bit(tmp_path, toy, how):
    store = tmp_path / "runs"
    process = start_driver(tmp_path, store, 0.15)
    wait_until(lambda: len(records(store)) >= 2)
    if how == "kill the driver":
        os.kill(process.pid, signal.SIGKILL)
    else:
        os.killpg(process.pid, signal.SIGKILL if how == "kill the group" else signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode != 0
    # no worker lives on and goes on writing
    wait_until(lambda: not any(alive(pid) for _, pid in diary(tmp_path)), 20)
    if how == "interrupt the group":
        assert "KeyboardInterrupt" in err
    done, begun = len(records(store)), len(diary(tmp_path))
    assert 2 <= done < 8

    config = dataclasses.replace(toy.presets["paper"], seeds=tuple(range(8)), pause=0.15, diary=str(tmp_path / "diary"))
    with ProcessPool(2) as pool:
        again = run(toy, config, store=store, submit=pool)
    assert (again.ok, again.skipped, again.failed) == (8 - done, done, 0)
    assert len(diary(tmp_path)) == begun + 8 - done  # only the missing trials were begun again
    undisturbed = run(toy, config, store=tmp_path / "undisturbed")
    assert again.table.rows == undisturbed.table.rows
    for hash_, load in undisturbed.table.arrays.items():
        assert load()["x"].tobytes() == again.table.arrays[hash_]()["x"].tobytes()


def test_an_interrupted_pool_ends_without_a_word(monkeypatch):
    # Workers that die before the executor hears of its end, and handles that were cancelled: both happen on Ctrl-C.
    said, shutdown = [], ProcessPoolExecutor.shutdown

    def late(self, *args, **kwargs):
        time.sleep(0.5)
        shutdown(self, *args, **kwargs)

    monkeypatch.setattr(threading, "excepthook", said.append)
    monkeypatch.setattr(ProcessPoolExecutor, "shutdown", late)

    def interrupted():
        with ProcessPool(1) as pool:
            pool.submit(time.sleep, 0.01).result()
            for handle in [pool.submit(time.sleep, 5) for _ in range(6)]:
                getattr(handle, "cancel", bool)()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert said == []


def test_ctrl_c_in_a_serial_run_leaves_finished_trials(tmp_path, toy):
    def run_trial(trial):
        if trial.seed == 2:
            raise KeyboardInterrupt
        return toy.run_trial(trial)

    stopping = dataclasses.replace(toy, run_trial=run_trial)
    with pytest.raises(KeyboardInterrupt):
        run(stopping, toy.presets["small"], store=tmp_path)
    report = run(toy, toy.presets["small"], store=tmp_path)
    assert (report.ok, report.skipped) == (1, 2)


def test_ctrl_c_cancels_what_was_not_begun(tmp_path, toy):
    cancelled = []

    class Stopping:
        def submit(self, fn, *args):
            class Handle:
                def result(self):
                    raise KeyboardInterrupt

                def cancel(self):
                    cancelled.append(args)

            return Handle()

    with pytest.raises(KeyboardInterrupt):
        run(toy, toy.presets["small"], store=tmp_path, submit=Stopping())
    assert len(cancelled) == 3


def test_state_of_the_caller_is_as_before(tmp_path, toy):
    torch = pytest.importorskip("torch", reason="torch is a dependency; never skipped in a full installation")
    before, environment = torch.get_num_threads(), dict(os.environ)
    torch.set_num_threads(2)
    seen = []
    watching = dataclasses.replace(
        toy, run_trial=lambda trial: (seen.append(torch.get_num_threads()), toy.run_trial(trial))[1]
    )
    run(watching, toy.presets["smoke"], store=tmp_path, threads=1)
    assert seen == [1]
    assert torch.get_num_threads() == 2
    assert dict(os.environ) == environment
    torch.set_num_threads(before)


def test_workers_fix_their_threads_before_numpy_loads(tmp_path):
    script = tmp_path / "threads.py"
    script.write_text(
        "import sys\n"
        "from featlearn.lab.submit import ProcessPool\n"
        "def look():\n"
        "    import os\n"
        "    loaded = 'numpy' in sys.modules\n"
        "    import threadpoolctl, numpy\n"
        "    counts = [i['num_threads'] for i in threadpoolctl.threadpool_info()]\n"
        "    return loaded, os.environ['OMP_NUM_THREADS'], counts\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPool(1, threads=3) as pool:\n"
        "        print(pool.submit(look).result())\n"
    )
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=60)
    loaded, variable, counts = eval(out.stdout)
    assert (loaded, variable) == (False, "3")
    assert counts
    assert set(counts) == {min(3, max(counts))}


def test_the_room_loads_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import featlearn.lab.submit; assert 'numpy' not in sys.modules\n"
        "import featlearn.lab.execute, featlearn.lab.estimate, featlearn.lab.judge\n"
        "top = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(t for t in top if t[:2] != '__' and t not in sys.stdlib_module_names))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # what scipy brings with it is its own affair; none of these is
    assert not set(eval(out.stdout)) & {"torch", "matplotlib", "transformers", "sklearn", "pandas", "rich", "jaxtyping"}


def test_experiment_is_a_value(toy):
    assert isinstance(toy, Experiment)


def test_a_run_with_nothing_to_do_keeps_what_is_known_of_the_one_that_did_it(tmp_path, toy):
    path = run(toy, toy.presets["small"], store=tmp_path).manifest
    made = dataclasses.replace(read_manifest(path), started="2026-01-01T00:00:00Z", seconds=17.0)
    Store(tmp_path).write_manifest(made)
    run(toy, toy.presets["small"], store=tmp_path)
    assert (read_manifest(path).started, read_manifest(path).seconds) == ("2026-01-01T00:00:00Z", 17.0)
    run(toy, toy.presets["small"], store=tmp_path, again="all")
    assert read_manifest(path).seconds < 17.0
    assert read_manifest(path).started > "2026-01-01T00:00:00Z"
