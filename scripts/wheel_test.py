"""A wheel in an empty environment says the same as the checkout: `make wheel-test`.

    python scripts/wheel_test.py build/wheel/featlearn-0.1.0-py3-none-any.whl

The new environment holds the wheel and what its metadata declares, step by step down to the last dependency, and
nothing else: an import that is not declared fails. These packages are linked from the environment that runs this
script, which takes seconds; with --install pip gets them afresh. Then, from an empty folder, `list` must equal the
checkout's, `verify` of a claim that reads rows must give the committed verdict, `report` and `diff` must find the
committed rows. One line a step; the first step that fails ends it with what was said, exit status 1.
"""

import argparse
import email
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
CLAIM = "fourier.trained_margin"
"""Quick, and read from committed rows."""
RUN, PRESET = "fourier/margin", "paper"


class Failed(Exception):
    """What a step found wrong, in one line."""


def call(*words: str | Path, cwd: Path, src: Path | None = None) -> str:
    """What a command prints; Failed with the end of what it said if it fails. src: where it shall find the package."""
    # no variable of this shell may lead the installed copy to the checkout
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    if src is not None:
        env["PYTHONPATH"] = str(src)
    done = subprocess.run([*words], cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"{' '.join(map(str, words[-3:]))}: exit status {done.returncode}\n{said}")
    return done.stdout


def declared(wheel: Path) -> set[str]:
    """Names of all packages that the metadata of a wheel asks for, without extras, and theirs, down to the last."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    found: set[str] = set()
    waiting = [(r, "") for r in metadata.get_all("Requires-Dist", [])]
    while waiting:
        text, extra = waiting.pop()
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        try:
            below = distribution(name)
        except PackageNotFoundError:
            raise Failed(f"{name} is declared and not installed here: make wheel-test installs it") from None
        if not wanted.specifier.contains(below.version, prereleases=True):
            raise Failed(f"{text} is declared, {below.version} is installed here: make wheel-test installs it")
        for part in ("", *wanted.extras):
            if f"{name}[{part}]" not in found:
                found.add(f"{name}[{part}]")
                waiting += [(r, part) for r in below.requires or ()]
    return {key.partition("[")[0] for key in found}


def link(names: Iterable[str], target: Path) -> None:
    """The files of these packages, as their RECORD lists them, in another folder of packages."""
    for name in names:
        files = distribution(name).files
        if files is None:
            raise Failed(f"{name} has no list of its files: use --install")
        for file in files:
            if ".." in file.parts:  # commands, in bin/
                continue
            new, old = target / file, Path(str(file.locate()))
            new.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(old, new)
            except FileNotFoundError:
                continue  # a compiled file that is gone
            except OSError:  # another file system
                shutil.copy2(old, new)


def check_list(featlearn: Path, cwd: Path) -> str:
    """`list` says what the checkout says."""
    shown = json.loads(call(featlearn, "list", "--json", cwd=cwd))
    here = json.loads(call(sys.executable, "-m", "featlearn.cli", "list", "--json", cwd=cwd, src=ROOT / "src"))
    for part in here:
        differ = [a.get("id") for a, b in zip(here[part], shown.get(part, ()), strict=False) if a != b]
        if differ or len(here[part]) != len(shown.get(part, ())):
            raise Failed(f"list: {part} differ from the checkout's: {differ[:5] or 'their number'}")
    return f"list: {len(shown['experiments'])} experiments, {len(shown['claims'])} claims as in the checkout"


def check_verify(featlearn: Path, cwd: Path) -> str:
    """`verify` reads shipped rows and comes to the committed verdict."""
    (row,) = json.loads(call(featlearn, "verify", CLAIM, "--json", cwd=cwd))
    listed = json.loads(call(featlearn, "list", "--json", "--store", "none", cwd=cwd))["claims"]
    (shipped,) = (c["verdict"] for c in listed if c["id"] == CLAIM)
    if row["verdict"] != shipped:
        raise Failed(f"verify: {CLAIM} is {row['verdict']!r}, the committed verdict is {shipped!r}")
    return f"verify: {CLAIM} {row['verdict']}"


def check_report(featlearn: Path, cwd: Path) -> str:
    """`report` makes the pages of a work, with the shipped rows, to the last byte as the checkout does."""
    work, name = RUN.split("/")
    said = call(featlearn, "report", "--work", work, cwd=cwd).strip()
    page = cwd / "site/experiment" / f"{work}.{name}.html"
    if not page.is_file() or f"--preset {PRESET}" not in page.read_text(encoding="utf-8"):
        raise Failed(f"report: {page.name} does not show the committed rows of {RUN}")
    words = ("-m", "featlearn.cli", "report", "--work", work, "--out", "checkout")
    call(sys.executable, *words, cwd=cwd, src=ROOT / "src")
    here, there = (
        {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.suffix != ".json"}
        for root in (cwd / "checkout", cwd / "site")
    )
    if differ := sorted(str(p) for p in here.keys() | there.keys() if here.get(p) != there.get(p)):
        raise Failed(f"report: {len(differ)} files differ from the checkout's: {', '.join(differ[:5])}")
    return f"report: {said}, {len(there)} files as in the checkout"


def check_diff(featlearn: Path, cwd: Path) -> str:
    """`diff` finds shipped runs."""
    run = f"{RUN}@{PRESET}"
    found = json.loads(call(featlearn, "diff", run, run, "--json", cwd=cwd))
    rows = [r for r in found["rows"] if r["difference"] == 0]
    if not rows or len(rows) != len(found["rows"]):
        raise Failed(f"diff: {len(rows)} of {len(found['rows'])} numbers of {run} equal themselves")
    return f"diff: {len(rows)} numbers of {run}"


def main(wheel: Path, install: bool) -> int:
    """Make the environment and check; the exit status."""
    start = time.perf_counter()
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:  # beside .venv, where files can be linked
        home, empty = Path(folder, "env"), Path(folder, "empty")
        empty.mkdir()
        venv.create(home, with_pip=True)
        paths = sysconfig.get_paths("venv", vars={"base": str(home), "platbase": str(home)})
        featlearn, python = Path(paths["scripts"], "featlearn"), Path(paths["scripts"], "python")
        try:
            names = () if install else sorted(declared(wheel))
            link(names, Path(paths["purelib"]))
            pip = (python, "-m", "pip", "--disable-pip-version-check")
            call(*pip, "install", "--quiet", *(() if install else ("--no-deps",)), wheel.resolve(), cwd=empty)
            call(*pip, "check", cwd=empty)
            where = call(python, "-c", "import featlearn; print(featlearn.__file__)", cwd=empty).strip()
            if not Path(where).is_relative_to(home):
                raise Failed(f"featlearn is {where}, not the installed copy")
            print(f"{wheel.name} with {len(names) or 'all'} declared packages", flush=True)
            for check in (check_list, check_verify, check_report, check_diff):
                print(check(featlearn, empty), flush=True)
        except Failed as e:
            print(e, file=sys.stderr)
            return 1
    print(f"the wheel works ({time.perf_counter() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--install", action="store_true", help="get the dependencies afresh, by pip")
    given = parser.parse_args()
    sys.exit(main(given.wheel, given.install))
