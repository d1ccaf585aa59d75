"""`featlearn bench`: a benchmark of this checkout."""

import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from featlearn.cli._parse import choose
from featlearn.errors import BAD, DONE, FAILED, CommandError


def bench_command(args: Sequence[str]) -> int:
    """Run a script of benchmarks/, with its own flags."""
    from featlearn.lab.provenance import checkout

    root = checkout()
    folder = root / "benchmarks" if root else None
    known = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")) if folder else []
    if args and args[0] in ("-h", "--help"):
        print(f"usage: featlearn bench NAME [its flags]\n\nbenchmarks: {', '.join(known) or 'none here'}")
        return DONE
    if folder is None or not known:
        raise CommandError("benchmarks are part of a source checkout, which this is not: clone the repository")
    if not args or args[0] not in known:
        word = args[0] if args else ""
        raise CommandError(f"no benchmark {word!r}{choose(word, known)}")
    # a process of its own, since benchmarks measure memory; its output fares as ours
    command = [sys.executable, "-m", "featlearn.cli.bench", str(folder / f"{args[0]}.py"), *args[1:]]
    return {DONE: DONE, BAD: BAD}.get(subprocess.call(command), FAILED)


def _script(words: Sequence[str]) -> int:
    sys.argv, sys.path[0] = [*words], str(Path(words[0]).parent)  # as `python FILE` sets them
    runpy.run_path(words[0], run_name="__main__")
    return DONE


if __name__ == "__main__":
    from featlearn.cli import ended

    sys.exit(ended(_script, sys.argv[1:]))
