"""Processor time and size of the whole site from committed evidence: from nothing, unchanged, and after a change.

    python benchmarks/report.py [--work xor_sgd] [--out build/report-benchmark] [--json]

Three runs of `featlearn report` in processes of their own: into an empty folder; again, where nothing has changed; and
again after the list of the folder has forgotten what it was made from, so that all is read and compared and nothing
drawn. Seconds are user and system time of the command and its workers.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from _timing import machine, show


def report(out: Path, work: str) -> tuple[float, float]:
    """Processor and wall seconds of one report."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = [sys.executable, "-m", "featlearn.cli", "report", "--out", str(out), "--store", "none", "--work", work]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, time.perf_counter() - start


def forget(out: Path) -> None:
    """As after a change of a file that no page shows."""
    marker = out / ".featlearn-site.json"
    data = json.loads(marker.read_text())
    marker.write_text(json.dumps(data | {"last": {}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", default="")
    parser.add_argument("--out", type=Path, default=Path("build/report-benchmark"))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    shutil.rmtree(given.out, ignore_errors=True)
    found = {}
    for name in ("from nothing", "unchanged", "compared"):
        if name == "compared":
            forget(given.out)
        found[f"{name}: processor s"], found[f"{name}: wall s"] = (round(v, 2) for v in report(given.out, given.work))
    files = [p for p in given.out.rglob("*") if p.is_file()]
    found |= {"files": len(files), "megabytes": round(sum(p.stat().st_size for p in files) / 1e6, 2)}
    show(machine("cpu") | found, given.json)


if __name__ == "__main__":
    main()
