"""`featlearn bench`: a benchmark of this checkout."""

import subprocess
import sys
from collections.abc import Sequence

from featlearn.cli._parse import choose
from featlearn.errors import DONE, FAILED, CommandError


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
    return DONE if subprocess.call([sys.executable, str(folder / f"{args[0]}.py"), *args[1:]]) == 0 else FAILED
