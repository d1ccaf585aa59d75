"""Runs one test against a mutated copy of the package.

`python mutation.py` serves requests, one JSON object a line on stdin ({"src", "test", "scratch"}), one answer a line on
stdout. It has loaded torch and the like but not featlearn, and forks for each request, so that a mutant costs its test
and not the imports. Where fork is not safe (anywhere but Linux) the caller starts a server for each request.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

CHECKOUT = Path(__file__).resolve().parents[1]
FORKS = sys.platform.startswith("linux")
T = TypeVar("T")
SECONDS = 300.0
"""After this long a test counts as stuck."""


def mutate(package: Path, scratch: Path, file: str, old: str, new: str) -> Path:
    """A copy of the package with one edit, in scratch/src; ValueError unless `old` stands there exactly once.

    Compiled files come along, but for those of the edited one: a run need not compile 300 others again. The catalog
    that lies among them does not: it is of another folder, and tests beside watch who opens files of results.
    """
    text = (package / file).read_text()
    if text.count(old) != 1:
        raise ValueError(f"{file} holds {old!r} {text.count(old)} times: a mutant needs a text that stands there once")
    if old == new:
        raise ValueError(f"{file}: the mutant of {old!r} changes nothing")
    src = scratch / "src"
    shutil.copytree(package, src / "featlearn", ignore=shutil.ignore_patterns("catalog.json"))
    edited = src / "featlearn" / file
    for compiled in edited.parent.glob(f"__pycache__/{edited.stem}.*"):
        compiled.unlink()
    edited.write_text(text.replace(old, new))
    return src


def draw(mutants: Sequence[T], *, share: float, seed: str) -> list[T]:
    """That share of the mutants (at least one), in their order; each keeps its lot whatever others there are."""

    def lot(mutant: T) -> str:
        return hashlib.sha256(f"{seed}{mutant!r}".encode()).hexdigest()

    drawn = set(sorted(mutants, key=lot)[: max(1, round(share * len(mutants)))])
    return [m for m in mutants if m in drawn]


def commit(root: Path) -> str:
    """The commit a checkout stands at, or "none"."""
    done = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "none"


class _Recorder:
    def __init__(self):
        self.ran, self.failed, self.broken = [], [], []

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.ran.append(report.nodeid)
        if report.failed:
            (self.failed if report.when == "call" else self.broken).append(report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.broken.append(report.nodeid or "collection")


def run_test(src: str, test: str, scratch: str) -> dict:
    """Run one test on the package in `src`; which tests ran, failed, or broke before they could fail."""
    import pytest

    sys.path.insert(0, src)
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = os.pathsep.join([src, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.chdir(CHECKOUT)
    recorder = _Recorder()
    # anyio, which transformers loads, has a plugin that pytest would rather have loaded itself
    options = [
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-x",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        f"--basetemp={scratch}/tmp",
        "-c",
        "pyproject.toml",
    ]
    code = pytest.main([test, *options], plugins=[recorder])
    home = getattr(sys.modules.get("featlearn"), "__file__", None)
    return {"code": int(code), "ran": recorder.ran, "failed": recorder.failed, "broken": recorder.broken, "home": home}


def _child(request: dict, log: Path, answer: Path) -> None:
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # the next request is not this child's to read
    result = run_test(**request)
    sys.stdout.flush()
    answer.write_text(json.dumps(result))


def _wait(pid: int) -> bool:
    end = time.monotonic() + SECONDS
    done = False
    while not done and time.monotonic() < end:
        done = bool(os.waitpid(pid, os.WNOHANG)[0])
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):  # what the test started may go on for ever, also where it ended
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.waitpid(pid, 0)
    return done


def serve() -> None:
    """Answer requests until stdin ends."""
    # not jaxtyping: pytest warns, and warnings are errors, when one of its plugins is already there
    import beartype  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401

    with contextlib.suppress(ImportError):  # an extra; loading it takes longer than most tests that need it
        import transformers.models.auto.modeling_auto
        import transformers.models.llama.modeling_llama  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")  # without fork, 1 becomes the log of the test
    for line in sys.stdin:
        request = json.loads(line)
        log, answer = Path(request["scratch"], "log.txt"), Path(request["scratch"], "answer.json")
        if not FORKS:
            _child(request, log, answer)
        elif pid := os.fork():
            _wait(pid)
        else:
            try:
                os.setsid()
                _child(request, log, answer)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        text = log.read_text(errors="replace")[-4000:] if log.exists() else ""
        found = json.loads(answer.read_text()) if answer.exists() else {"broken": ["the run died or was stuck"]}
        print(json.dumps({"ran": [], "failed": [], "home": None, **found, "log": text}), file=answers, flush=True)


class Server:
    """A client of one serving process."""

    def __init__(self):
        self._process: subprocess.Popen | None = None

    def ask(self, src: Path, test: str, scratch: Path) -> dict:
        """The answer to one request."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"src": str(src), "test": test, "scratch": str(scratch)}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not (line and FORKS):
            self.close()
        return (
            json.loads(line)
            if line
            else {"ran": [], "failed": [], "broken": ["the server died"], "home": None, "log": ""}
        )

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()  # between requests it holds nothing
            self._process.communicate()
            self._process = None


if __name__ == "__main__":
    serve()
