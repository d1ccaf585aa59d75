"""A run on a real full disk and a real read-only mount, for root on Linux: what was finished is kept and resumes.

    sudo python scripts/drill_mounts.py

Exit status: 0 if every step does what docs/researcher.md says, 1 if not, 2 where nothing can be mounted.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

DRILL = Path(__file__).resolve().parents[1] / "tests" / "lab" / "drill_experiment.py"


def run(store: Path, count: int, *words: str) -> subprocess.CompletedProcess[str]:
    """featlearn run of the drill."""
    command = [sys.executable, "-m", "featlearn.cli", "run", str(DRILL), "--count", str(count), "--store", str(store)]
    return subprocess.run([*command, "--no-report", *words], capture_output=True, text=True)


def expect(what: str, done: subprocess.CompletedProcess[str], status: int, says: str) -> bool:
    """Print whether a run ended as it should, in one line and without a traceback."""
    good = done.returncode == status and says in done.stderr and "Traceback" not in done.stderr
    last = (done.stderr.strip().splitlines() or [""])[-1]
    print(f"{'ok ' if good else 'BAD'} {what}: status {done.returncode}; {last}")
    return good


def main() -> int:
    """Mount, run, unmount."""
    with tempfile.TemporaryDirectory() as folder:
        disk = Path(folder) / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True)
        if mounted.returncode:
            print(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
            return 2
        try:
            good = expect("full disk", run(disk / "runs", 200), 1, "No space left on device")
            kept = len(list(disk.glob("runs/toy/drill/*.json")))
            good &= kept > 5 and not list(disk.rglob("*.tmp"))
            subprocess.run(["mount", "-o", "remount,size=32m", str(disk)], check=True)
            good &= expect("grown, resumed", run(disk / "runs", 200), 0, "")
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            good &= expect("read-only, finished", run(disk / "runs", 200), 0, "")
            good &= expect("read-only, more to do", run(disk / "runs", 201), 1, "Read-only file system")
        finally:
            subprocess.run(["umount", str(disk)], check=False)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
