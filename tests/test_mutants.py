"""Each committed mutant must turn its test red; and the runner must not call red what is only broken.

A run takes a tenth of them, drawn by the commit; `make mutants` takes all. FEATLEARN_MUTANTS is `all` or another seed.
"""

import ast
import importlib
import os
import queue
import re
import shutil
import textwrap
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from mutants import Mutant
from mutation import CHECKOUT, FORKS, Server, commit, draw, mutate

import featlearn

PACKAGE = Path(featlearn.__file__).parent


def collected() -> list[Mutant]:
    """The mutants of every `mutants*.py` beside this file; paths count from the package."""
    lists = [importlib.import_module(p.stem).MUTANTS for p in sorted(Path(__file__).parent.glob("mutants*.py"))]
    found = [Mutant(*mutant) for mutants in lists for mutant in mutants]
    return [m._replace(file=m.file.removeprefix("src/featlearn/")) for m in found]


MUTANTS = collected()
NAMED = (ast.FunctionDef, ast.ClassDef)
NAMES = {m: f"{m.file}-{i}" for i, m in enumerate(MUTANTS)}
SEED = os.environ.get("FEATLEARN_MUTANTS") or commit(CHECKOUT)
DRAWN = MUTANTS if SEED == "all" else draw(MUTANTS, share=0.1, seed=SEED)


class Runner:
    """Two servers, so that mutants run two at a time; each test then waits for its own."""

    def __init__(self, scratch: Path, servers: int):
        self._scratch, self._free = scratch, queue.Queue()
        self.servers = [Server() for _ in range(servers)]
        for server in self.servers:
            self._free.put(server)
        self._pool = ThreadPoolExecutor(servers)
        self._found: dict[Mutant, Future] = {}

    def start(self, mutant: Mutant) -> Future:
        """The answer to come for a mutant."""
        if mutant not in self._found:
            self._found[mutant] = self._pool.submit(self._run, mutant, self._scratch / str(len(self._found)))
        return self._found[mutant]

    def _run(self, mutant: Mutant, scratch: Path) -> dict:
        scratch.mkdir()
        src = mutate(PACKAGE, scratch, mutant.file, mutant.old, mutant.new)
        server = self._free.get()
        try:
            return server.ask(src, mutant.test, scratch)
        finally:
            self._free.put(server)
            shutil.rmtree(scratch, ignore_errors=True)  # 60 MB each, and pytest keeps the folders of three runs

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        for server in self.servers:
            server.close()


@pytest.fixture(scope="session")
def runner(tmp_path_factory) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("mutants"), min(2, os.cpu_count() or 1))
    yield made
    made.close()


@pytest.fixture(scope="session")
def queued(runner, request) -> None:
    """Start every mutant whose test was selected."""
    for item in request.session.items:
        mutant = getattr(item, "callspec", None) and item.callspec.params.get("mutant")
        if isinstance(mutant, Mutant):
            runner.start(mutant)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", DRAWN, ids=[NAMES[m] for m in DRAWN])
def test_mutant_is_seen(mutant, runner, queued):
    found = runner.start(mutant).result()
    assert found["failed"], f"{mutant.test} stays green, or broke ({found['broken']}):\n{found['log']}"
    assert found["home"] is None or not Path(found["home"]).is_relative_to(PACKAGE)


@pytest.mark.parametrize("mutant", MUTANTS, ids=list(NAMES.values()))
def test_mutant_stands_in_the_file_once(mutant):
    text = (PACKAGE / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    assert mutant.old != mutant.new


@cache
def defined(file: str) -> set[str]:
    """Names of the functions and classes that a file defines."""
    return {n.name for n in ast.walk(ast.parse((CHECKOUT / file).read_text())) if isinstance(n, NAMED)}


def test_every_mutant_names_a_test_that_is_there(request):
    absent = set()
    for test in {m.test for m in MUTANTS}:
        file, *names = test.partition("[")[0].split("::")
        if not (CHECKOUT / file).is_file() or not set(names) <= defined(file):
            absent.add(test)
    assert not absent
    if request.config.option.keyword or request.config.option.markexpr or len(request.session.items) < 5000:
        return  # values of parameters are known only where every file is collected
    found = {item.nodeid for item in request.session.items}
    assert {m.test for m in MUTANTS if "[" in m.test} <= found


def test_no_two_files_of_tests_share_a_name():
    names = [p.name for p in Path(__file__).parent.rglob("test_*.py")]
    assert {n for n in names if names.count(n) > 1} == set()  # pytest imports files by their bare name


def test_no_mutant_twice():
    assert len({(m.file, m.old, m.new) for m in MUTANTS}) == len(MUTANTS)


def test_the_draw_is_a_tenth_that_changes_with_the_seed_and_stays_with_it():
    one, again, other = (draw(MUTANTS, share=0.1, seed=seed) for seed in ("a", "a", "b"))
    assert one == again
    assert one != other
    assert len(one) == round(len(MUTANTS) / 10)
    assert one == [m for m in MUTANTS if m in one]
    # one mutant less takes no other mutant out of the draw
    fewer = draw([m for m in MUTANTS if m != one[0]], share=0.1, seed="a")
    assert set(one[1:]) <= set(fewer) <= set(MUTANTS) - {one[0]}
    seen = {m for seed in range(100) for m in draw(MUTANTS, share=0.1, seed=str(seed))}
    assert len(seen) > 0.99 * len(MUTANTS)  # one in 38,000 is never drawn: 0.9^100


def test_the_draw_of_a_run_follows_the_commit():
    assert re.fullmatch("[0-9a-f]{40,}|none", commit(CHECKOUT))
    assert commit(Path("/")) == "none"


TRIALS = "tests/lab/test_trial.py::test_experiment_and_version_count"


@pytest.mark.slow
@pytest.mark.parametrize(
    "new, test, ran, broken",
    [
        ('"""Trials: ', TRIALS, True, False),  # nothing changes: green, not red
        ('"""Trials: ', "tests/lab/test_trial.py::test_that_does_not_exist", False, True),
        ('1 / 0\n"""Trials: ', TRIALS, False, True),  # the module cannot be imported
        ('syntax error"""Trials: ', TRIALS, False, True),
        ('import os; os._exit(3)\n"""Trials: ', TRIALS, False, True),  # dies
    ],
    ids=["unchanged", "no such test", "import fails", "syntax", "dies"],
)
def test_only_a_failing_assertion_is_red(new, test, ran, broken, runner, tmp_path):
    src = mutate(PACKAGE, tmp_path, "lab/trial.py", '"""Trials: ', f"# changed\n{new}")
    found = runner.servers[0].ask(src, test, tmp_path)
    assert found["failed"] == []
    assert bool(found["ran"]) == ran, found["log"]
    assert bool(found["broken"]) == broken or (not found["ran"] and found.get("code") == 4)
    assert not ran or Path(found["home"]).is_relative_to(tmp_path)


def test_an_edit_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match="0 times"):
        mutate(PACKAGE, tmp_path, "lab/trial.py", "no such text", "")
    with pytest.raises(ValueError, match="stands there once"):
        mutate(PACKAGE, tmp_path, "lab/trial.py", "return", "yield")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not FORKS, reason="without fork there is no group of processes to end")
def test_what_a_test_leaves_running_ends_with_it(tmp_path):
    code = """
        import pathlib, subprocess, sys
        def test_it():
            left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
            pathlib.Path(PID).write_text(str(left.pid))
            left.returncode = 0
        """
    pid = tmp_path / "pid"
    test = tmp_path / "test_left.py"
    test.write_text(textwrap.dedent(code).replace("PID", repr(str(pid))))
    server = Server()
    try:
        assert server.ask(PACKAGE.parent, f"{test}::test_it", tmp_path)["ran"]
    finally:
        server.close()
    state = Path("/proc", pid.read_text(), "stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
