"""Check the types: `make types`. What is not clean yet is counted a room, and a count may only fall.

    python scripts/types_ratchet.py            compare with the counts of types_ratchet.json
    python scripts/types_ratchet.py --update   write the counts as they are now

Rooms in `strict` of pyproject.toml are checked strictly, all others by the standard rules. In strict ones nothing
counts that only says that a library has no types of its own (torch, scipy, matplotlib), or that an argument is checked.
A count that rose shows its errors; one that fell asks for --update, so that it cannot rise again. Exit status 1 for
both.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "types_ratchet.json"
LEFT_OUT = ("reportUnknown", "reportMissingTypeStubs", "reportUnnecessaryIsInstance")
"""The first two: no types in a library. The last: what a caller hands over is checked, whatever its annotation says."""


def room_of(file: str) -> str:
    """ "lab" of src/featlearn/lab/store.py, "works/fourier" of what lies in a work."""
    parts = Path(file).resolve().relative_to(ROOT / "src/featlearn").parts
    return "/".join(parts[:2]) if parts[0] == "works" and len(parts) > 2 else parts[0].removesuffix(".py")


def counted(diagnostics: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The errors that count."""
    return [d for d in diagnostics if d["severity"] == "error" and not d.get("rule", "").startswith(LEFT_OUT)]


def compare(kept: Mapping[str, int], errors: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int], list[str]]:
    """Counts as they are now, and a line for each room that differs; the errors of those that rose."""
    now = dict(sorted(Counter(room_of(d["file"]) for d in errors).items()))
    said: list[str] = []
    for room in sorted({*kept, *now}):
        before, after = kept.get(room, 0), now.get(room, 0)
        if after > before:
            said += [_line(d) for d in errors if room_of(d["file"]) == room]
            said.append(f"{room}: {after} errors of types, {before} are known: mend the new ones")
        elif after < before:
            said.append(
                f"{room}: {after} errors of types, {before} are known: python scripts/types_ratchet.py --update"
            )
    return now, said


def _line(d: Mapping[str, Any]) -> str:
    where = f"{Path(d['file']).relative_to(ROOT)}:{d['range']['start']['line'] + 1}"
    return f"{where}: {' '.join(d['message'].split())} ({d.get('rule', 'syntax')})"


def main(update: bool) -> int:
    """Run pyright and compare; the exit status."""
    env = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    words = [sys.executable, "-m", "pyright", "--outputjson"]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    try:
        errors = counted(json.loads(done.stdout)["generalDiagnostics"])
    except (ValueError, KeyError):
        print(done.stdout + done.stderr, file=sys.stderr)
        return 1
    now, said = compare(json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}, errors)
    if update:
        KEPT.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        return 0
    if said:
        print("\n".join(said), file=sys.stderr)
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main("--update" in sys.argv[1:]))
