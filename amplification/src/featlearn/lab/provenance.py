"""Where a result came from: commit, versions, device, threads, peak memory. Loads nothing to find out."""

import contextlib
import importlib
import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Generator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

PACKAGES = ("featlearn", "torch", "numpy")


@lru_cache(maxsize=1)
def checkout() -> Path | None:
    """Root of the git checkout this package runs from, or None for an installed copy.

    An installed copy may lie inside somebody else's repository; only <root>/src/featlearn counts.
    """
    package = Path(__file__).resolve().parents[1]
    root = package.parents[1]
    return root if package.parent.name == "src" and (root / ".git").exists() else None


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@lru_cache(maxsize=1)
def _provenance() -> dict[str, Any]:
    root = checkout()
    commit = _git(root, "rev-parse", "HEAD") if root else None
    changes = _git(root, "status", "--porcelain", "--untracked-files=no") if root and commit else None
    return {
        "commit": commit,
        "dirty": None if changes is None else bool(changes),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **{name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def provenance() -> dict[str, Any]:
    """Commit and dirty flag (None outside a checkout), versions of python and of PACKAGES; read once a process."""
    return dict(_provenance())


def device() -> str:
    """Name of the accelerator in use by this process, else "cpu"."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.get_device_name()
    return "cpu"


def peak_mib() -> float | None:
    """Highest resident memory of this process so far in MiB; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


@contextlib.contextmanager
def fixed_threads(threads: int) -> Generator[None, None, None]:
    """Run a block with `threads` threads in torch and in the linear algebra of numpy; as before afterwards.

    Sums are split by the number of threads, so rows would depend on it in the last digit.
    """
    with contextlib.ExitStack() as stack:
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            before = torch.get_num_threads()
            if before != threads:
                torch.set_num_threads(threads)
                stack.callback(torch.set_num_threads, before)
        controller = _controller(len(sys.modules))
        if controller is not None:
            stack.enter_context(controller.limit(limits=threads))
        yield


@lru_cache(maxsize=1)
def _controller(_modules: int) -> Any:
    """What sets the threads of the libraries that are loaded; found again, which takes 3 ms, once modules have come."""
    try:
        return importlib.import_module("threadpoolctl").ThreadpoolController()  # comes with scikit-learn
    except ImportError:
        return None


def same_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The keys whose values differ between two mappings, with both values (None where a side lacks the key)."""
    keys = sorted(set(one) | set(other))
    return {k: (one.get(k), other.get(k)) for k in keys if one.get(k) != other.get(k)}
