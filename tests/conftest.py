"""What holds for every test: threads, no windows, no network, nothing written into the checkout."""

import itertools
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from xdist.scheduler import LoadFileScheduling

CHECKOUT = Path(__file__).resolve().parents[1]

# Before torch or numpy are loaded. A thread count in the environment (`OMP_NUM_THREADS=1 pytest`) is respected, but
# workers of pytest-xdist have one thread each: they share the cores.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"
THREADS = int(os.environ.setdefault("OMP_NUM_THREADS", "2"))
for _name in ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = str(THREADS)
os.environ["MPLBACKEND"] = "Agg"

# Commands that tests start cannot be guarded from here; those that respect these variables reach a closed port.
for _name in ("http_proxy", "https_proxy", "all_proxy"):
    os.environ[_name] = os.environ[_name.upper()] = "http://127.0.0.1:9"
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "localhost,127.0.0.1,::1"


class NetworkRefused(BaseException):
    """Not an Exception, so that code which falls back to a mirror on any error cannot hide the attempt."""


def _is_local(address: object) -> bool:
    host = address[0] if isinstance(address, tuple) else address
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host is None or not isinstance(host, str):
        return host is None
    return host in ("", "localhost", "::1") or host.startswith("127.") or host.startswith("/")


def _refuse(address: object) -> None:
    if not _is_local(address):
        raise NetworkRefused(f"a test reached for {address!r}: tests use no network; serve it on 127.0.0.1")


def _guard_sockets(patch: pytest.MonkeyPatch) -> None:
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded_connect(self, address):
        _refuse(address)
        return connect(self, address)

    def guarded_connect_ex(self, address):
        _refuse(address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host, *args, **kwargs):
        _refuse(host)
        return getaddrinfo(host, *args, **kwargs)

    patch.setattr(socket.socket, "connect", guarded_connect)
    patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)


WRITES = {
    "os.mkdir": 1,
    "os.rename": 2,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.symlink": 2,
    "os.link": 2,
    "os.truncate": 1,
    "shutil.rmtree": 1,
}
SCRATCH = {"__pycache__", ".pytest_cache", ".ruff_cache", ".venv", ".git"}
PATHS = str | bytes | os.PathLike
_running: list[str] = []


def written_paths(event: str, args: tuple) -> list[Path]:
    """The paths that an audited event would create, change or remove."""
    if event == "open":
        path, _, flags = args
        writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        found = [path] if writing else []
    else:
        found = list(args[: WRITES.get(event, 0)])
    # rmtree names a file within a folder that it has opened
    within = args[1] if event in ("os.remove", "os.rmdir") and isinstance(args[1], int) and args[1] >= 0 else None
    base = os.getcwd() if within is None else os.path.realpath(f"/dev/fd/{within}")
    return [Path(os.path.normpath(os.path.join(base, os.fsdecode(p)))) for p in found if isinstance(p, PATHS)]


def in_checkout(path: Path) -> bool:
    """Whether a path lies in the sources, caches and the user's environment aside."""
    return path.is_relative_to(CHECKOUT) and not SCRATCH & set(path.relative_to(CHECKOUT).parts)


def _audit(event: str, args: tuple) -> None:
    running = tuple(_running)  # a thread may end with its test
    if not running or (event != "open" and event not in WRITES):
        return
    for path in written_paths(event, args):
        if in_checkout(path):
            raise PermissionError(f"{running[-1]} writes {path}: tests write to tmp_path only")


sys.addaudithook(_audit)  # cannot be removed again, so it asks whether a test is running


@pytest.fixture(scope="session")
def _folders(tmp_path_factory) -> Iterator[Path]:
    """New folders, all within one: pytest reads through all that lie beside each other for the number of the next."""
    base = tmp_path_factory.mktemp("cwd")
    return (base / str(i) for i in itertools.count())


@pytest.fixture(autouse=True)
def _house_rules(request, monkeypatch, _folders):
    """Each test runs in an empty folder of its own, with the thread count and the guards of this file."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(THREADS)
    _guard_sockets(monkeypatch)
    folder = next(_folders)
    folder.mkdir()
    monkeypatch.chdir(folder)
    _running.append(request.node.nodeid)
    yield
    _running.pop()


@pytest.fixture
def as_user() -> Iterator[None]:
    """Annotations are enforced only while testing; users meet the checks behind them."""
    from users import unchecked

    with unchecked():
        yield


@pytest.fixture(scope="session")
def catalog_kept(tmp_path_factory) -> None:
    """The catalog of this checkout is in its cache, so that `list` only reads it; one worker makes it for all."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "catalog.lock"):
        subprocess.run([sys.executable, "-c", "from featlearn import catalog; catalog.read()"], check=True, timeout=300)


class ByWork(LoadFileScheduling):
    """A file's tests stay on one worker, since they share fixtures; the file of all typed claims is split by work."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        work = re.search(r"\[(\w+)[.\]]", test) if file.endswith("test_typed_claims.py") else None
        return f"{file}[{work[1]}]" if work else file


def pytest_xdist_make_scheduler(config, log):
    """Which tests go to which worker."""
    return ByWork(config, log)
