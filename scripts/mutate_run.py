"""Copies of the checkout in which mutants live, and a process a copy that runs tests there.

`python scripts/mutate_run.py MODULE ...` in a copy loads these modules, but never featlearn, and serves requests, one
JSON object a line on stdin, one answer a line on stdout. It forks for each, so that a mutant costs its tests and not
the imports of torch and the like. Linux only.
"""

import contextlib
import ctypes
import importlib
import inspect
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
HEAVY = (
    "beartype",
    "numpy",
    "scipy.stats",
    "torch",
    "sklearn.linear_model",
    "matplotlib.pyplot",
    "pandas",
    "tyro",
    "rich",
)
HEAVY += ("pytest", "transformers.models.auto.modeling_auto", "transformers.models.llama.modeling_llama")
SHOWN = {"id", "verdict", "scope", "corrected", "expected", "as_expected", "outcome", "form", "relation", "quantity"}
SHOWN |= {"name", "cases", "error"}
"""What counts of the JSON of `verify`: verdicts and outcomes, not the measured numbers."""

BUSY = 6
"""How many times slower than alone a process may be where others use the same cores."""

# --- copies ----------------------------------------------------------------------------------------------------------


def snapshot(checkout: Path, folder: Path, commit: str = "") -> None:
    """The files of a checkout, as they are on disk or as of a commit, in a new folder with a repository of its own."""
    folder.mkdir(parents=True)
    if commit:
        done = subprocess.run(["git", "-C", str(checkout), "archive", commit], capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=done.stdout, check=True)
    else:
        words = ["git", "-C", str(checkout), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(words, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            if (checkout / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, folder / name)
    # committed rows are found only in a repository, and it tells afterwards what a mutant has written
    own_git(folder, "init", "-q")
    own_git(folder, "add", "-A")
    own_git(folder, "-c", "user.name=none", "-c", "user.email=none@none", "commit", "-q", "--no-verify", "-m", "copy")


def own_git(folder: Path, *words: str) -> str:
    """git on the repository of a copy and on no other above it, whatever has become of the copy."""
    place = [f"--git-dir={folder / '.git'}", f"--work-tree={folder}"]
    done = subprocess.run(["git", *place, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"git {words[0]} in {folder}: {done.stderr.strip()}")
    return done.stdout


class Closed(Exception):
    """A copy that is closed answers nothing."""


class Copy:
    """A copy of the checkout with its server. One edit at a time."""

    def __init__(self, original: Path, folder: Path, heavy: Sequence[str] = HEAVY):
        shutil.copytree(original, folder, symlinks=True)
        self.folder, self._heavy = folder, heavy
        self.scratch = folder.with_name(folder.name + "-scratch")
        self._process: subprocess.Popen | None = None
        self._edits = 0
        self._closed = False

    def put(self, file: str, content: bytes) -> None:
        """Write one file, with a time of change that no compiled copy has."""
        self._edits += 1
        path = self.folder / file
        path.write_bytes(content)
        later = time.time_ns() + self._edits * 10**9
        os.utime(path, ns=(later, later))

    def restore(self) -> None:
        """Undo the edit and whatever ran with it has written; compiled files stay."""
        own_git(self.folder, "checkout", "-q", "--force", "--", ".")
        own_git(self.folder, "clean", "-fdxq", "-e", "__pycache__")

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The answer to one request, which is stopped after so many seconds of computing ("timeout")."""
        if self._closed:
            raise Closed(str(self.folder))
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(exist_ok=True)
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), *self._heavy],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=self.folder,
                env=environment(self.folder),
                start_new_session=True,  # Ctrl-C is for the tool, which then ends its servers
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = ""
        with contextlib.suppress(BrokenPipeError):
            asked = {**request, "seconds": seconds, "scratch": str(self.scratch), "copy": str(self.folder)}
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        if self._closed:
            raise Closed(str(self.folder))
        self.close()
        return {"status": "died", "log": "the server died"}

    def close(self, for_good: bool = False) -> None:
        """End the server and what it runs; another starts at the next request, unless this was for good."""
        self._closed = self._closed or for_good
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError, AttributeError):
                    pipe.close()  # type: ignore[union-attr]


def environment(copy: Path) -> dict[str, str]:
    """The environment of a server: the copy comes first on the path, one thread, no bytecode of mutants."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "GIT_"))}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    here = {"PYTHONPATH": str(copy / "src"), "MPLBACKEND": "Agg", "GIT_CEILING_DIRECTORIES": str(copy.parent)}
    return {**kept, **threads, **here, "TMPDIR": str(copy.parent)}


# --- the server ------------------------------------------------------------------------------------------------------


class _Recorder:
    """A plugin of pytest: what failed, and how long each file took."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.broken: list[str] = []
        self.seconds: dict[str, float] = {}
        self.ran = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = report.nodeid.split("::")[0]
        self.seconds[file] = self.seconds.get(file, 0.0) + report.duration
        self.ran += report.when == "call"
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.broken.append(report.nodeid or "collection")


def _pytest(request: Mapping[str, Any]) -> dict[str, Any]:
    import pytest

    recorder = _Recorder()
    # anyio, which transformers loads, has a plugin that pytest would rather have loaded itself
    options = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "--tb=short", "-p", "no:cacheprovider"]
    options += [f"--basetemp={request['scratch']}/tmp", "-c", "pyproject.toml", "--rootdir", request["copy"]]
    options += [w for d in request.get("deselect", ()) for w in ("--deselect", d)]
    code = int(pytest.main([*request["args"], *options], plugins=[recorder]))
    found = {"failed": recorder.failed, "broken": recorder.broken, "ran": recorder.ran, "files": recorder.seconds}
    return {"status": "green" if code in (0, 5) else "red", "code": code, **found}


def _verify(request: Mapping[str, Any]) -> dict[str, Any]:
    from featlearn.cli import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(["verify", request["what"], "--json", "--store", f"{request['scratch']}/runs"])
    try:
        shown = outcomes(json.loads(out.getvalue()))
    except ValueError:
        shown = out.getvalue()[-2000:]
    return {"status": "done", "code": code, "shown": shown}


def _claims(request: Mapping[str, Any]) -> dict[str, Any]:
    """Check claims of a work in turn, until one comes to something else than before."""
    from featlearn import works

    by_id = {c.id: c for c in works.load_claims(request["what"])}
    for name in request["claims"]:
        shown = _one_claim(by_id[name], f"{request['scratch']}/runs")
        if shown != request["before"][name]:
            return {"status": "done", "claim": name, "shown": shown}
    return {"status": "done", "claim": ""}


def _one_claim(claim: Any, store: str) -> Any:
    from featlearn import catalog
    from featlearn.cli import verify
    from featlearn.lab.verdicts import as_json

    layers = catalog.layers(store)
    (found,) = verify.check([claim], catalog.tables_of(layers), layers)
    return json.loads(json.dumps(outcomes(as_json(found))))


def _trace(request: Mapping[str, Any]) -> dict[str, Any]:
    """Check every claim of a work and note the lines of the package that each runs, by file; "" for imports."""
    home = f"{Path(request['copy']).resolve()}/"
    ran: dict[str, dict[str, set[int]]] = {}
    now = ""

    def enter(frame: Any, event: str, arg: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(home):
            return None
        who = now if frame.f_code.co_flags & inspect.CO_OPTIMIZED else ""  # else a module or the body of a class
        lines = ran.setdefault(who, {}).setdefault(file[len(home) :], set())

        def step(frame: Any, event: str, arg: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return step

        return step

    shown, seconds = {}, {}
    sys.settrace(enter)
    try:
        from featlearn import works

        for claim in works.load_claims(request["what"]):
            now, start = claim.id, time.monotonic()
            shown[now] = _one_claim(claim, f"{request['scratch']}/runs")
            seconds[now] = round(time.monotonic() - start, 3)
    finally:
        sys.settrace(None)
    kept = {who: {file: sorted(n) for file, n in files.items()} for who, files in ran.items()}
    return {"status": "done", "shown": shown, "seconds": seconds, "ran": kept}


def outcomes(document: Any) -> Any:
    """Verdicts and outcomes of a document of `verify --json`, without numbers and times."""
    if isinstance(document, list):
        return [outcomes(x) for x in document]
    if not isinstance(document, dict):
        return document
    lists = {k for k, v in document.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    return {k: outcomes(v) for k, v in document.items() if k in SHOWN | lists}


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what is asked, in this process; the home of the package that was imported comes along."""
    sys.dont_write_bytecode = not request.get("warm", False)
    if sys.dont_write_bytecode:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    found = {"pytest": _pytest, "verify": _verify, "claims": _claims, "trace": _trace}[request["do"]](request)
    return {**found, "home": getattr(sys.modules.get("featlearn"), "__file__", None)}


def _limits(seconds: float) -> None:
    """A mutant may ask for any amount of memory, disk or computing: it is stopped before the machine suffers."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), resource.RLIM_INFINITY))
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    resource.setrlimit(resource.RLIMIT_AS, (half, half))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))


def _child(request: Mapping[str, Any], log: Path, result: Path) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # the next request is not this child's to read
    _limits(request["seconds"])
    found = answer(request)
    sys.stdout.flush()
    result.write_text(json.dumps(found))


def _end_children() -> None:
    """End every process that a request has left behind: as their adopter this process knows them all."""
    while True:
        try:
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return
        if not children:
            return
        for pid in map(int, children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _wait(pid: int, seconds: float) -> bool:
    """Whether a process ends by itself: it may take so many seconds of computing, and BUSY times as long in all."""
    end = time.monotonic() + BUSY * seconds
    while time.monotonic() < end:
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(code) != -signal.SIGXCPU
        time.sleep(0.01)
    return False


def _stop(*_: object) -> None:
    _end_children()
    os._exit(1)


def serve(heavy: Sequence[str]) -> None:
    """Load what is heavy and answer requests until stdin ends."""
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    signal.signal(signal.SIGTERM, _stop)
    for name in heavy:  # not jaxtyping: pytest warns when one of its plugins is already there
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        log, result = Path(request["scratch"], "log.txt"), Path(request["scratch"], "answer.json")
        start = time.monotonic()
        pid = os.fork()
        if not pid:
            try:
                _child(request, log, result)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)
        ended = _wait(pid, request["seconds"])
        _end_children()
        found = json.loads(result.read_text()) if ended and result.exists() else {}
        text = log.read_text(errors="replace")[-3000:] if log.exists() else ""
        status = "died" if ended else "timeout"
        spent = round(time.monotonic() - start, 2)
        print(json.dumps({"status": status, **found, "log": text, "spent": spent}), file=answers, flush=True)


def files_of(paths: Sequence[str]) -> list[str]:
    """The Python files at or below some paths of the checkout, as it names them."""
    found = []
    for path in paths:
        full = (CHECKOUT / path).resolve()
        below = sorted(full.rglob("*.py")) if full.is_dir() else [full] if full.is_file() else []
        if not below or not full.is_relative_to(CHECKOUT):
            raise ValueError(
                f"--over {path}: a file or folder of this checkout that holds Python, as src/featlearn/lab"
            )
        found += [p.relative_to(CHECKOUT).as_posix() for p in below]
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]
    serve(sys.argv[1:])
