"""Draw mutants of the package by a seed and see which of them something notices.

    python scripts/mutate.py --over src/featlearn/lab src/featlearn/works/xor_sgd --number 200 --seed 0

Each mutant is one small edit (`mutate_kinds.py` lists the kinds and what is left alone) in a copy of the checkout. What
may notice it runs from the cheap to the dear until something does: the tests of its module, `featlearn verify` of the
works in question (exit status, verdicts and outcomes against those of the unmutated copy), their blind tests, and all
tests of TESTS. A run of three times its usual length counts as noticed. A test that also fails after an edit that means
the same (it compares digests or texts of the source) does not count. Mutants that no test can notice are listed with a
reason in tests/mutants_survivors.toml.

    python scripts/mutate.py --claims-of nuclear

draws from the code that the claims of a work run (its claims and what they rest on, and the engine's), and tries the
claims that reach the edited line, one by one, then the tests of its module.

Exit status: 0 if the share that died is at least --share and every survivor has its reason, 1 if not, 2 for a wrong
setting or an unmutated copy that fails, 130 after Ctrl-C, when what was found so far is written.
"""

import argparse
import contextlib
import fnmatch
import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import mutate_reach
import mutate_run
import mutate_sites
from mutate_kinds import Mutant
from mutate_report import MutateError, Result, difference, key_of, line_of, reasons, report, write
from mutate_run import CHECKOUT, Copy

SURVIVORS = CHECKOUT / "tests" / "mutants_survivors.toml"
TESTS = ("tests/lab", "tests/works/{work}", "tests/report", "tests/cli")
SLACK = 20.0
"""Seconds that a run may take beyond three times its usual length: two workers disturb each other."""
UNKNOWN = 900.0
"""Seconds for tests of which nothing is known."""


@dataclass
class Killers:
    """What may notice a mutant, and how long it takes and what it says on the unmutated copy.

    red: tests that fail there, which are left out. sees_edits: by file, what fails after an edit that means the same.
    reach, order: what claims run, and the claims to try for each mutant, in order; they replace `verify` as a whole.
    """

    works: Sequence[str]
    tests: Sequence[str]
    verdicts: dict[str, Any] = field(default_factory=dict)
    verify_seconds: dict[str, float] = field(default_factory=dict)
    file_seconds: dict[str, float] = field(default_factory=dict)
    overhead: float = 0.0
    red: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    sees_edits: dict[str, set[str]] = field(default_factory=dict)
    fair: set[tuple[str, str]] = field(default_factory=set)
    reach: mutate_reach.Reach | None = None
    order: Mapping[Mutant, list[str]] = field(default_factory=dict)

    def allowed(self, paths: Sequence[str]) -> float:
        """Seconds after which tests at some paths count as stuck."""
        if self.reach:  # then no test has run on the unmutated copy
            return UNKNOWN
        own = (s for f, s in self.file_seconds.items() if any(f == p or f.startswith(p + "/") for p in paths))
        return 3 * (self.overhead + sum(own)) + SLACK

    def stages(self, file: str, folder: Path) -> list[tuple[str, list[str]]]:
        """(name, arguments) of the runs for a mutant of a file, in order."""
        parts = Path(file).relative_to("src/featlearn").parts if file.startswith("src/featlearn/") else ("",)
        home = "/".join(["tests", *(parts[:2] if parts[0] == "works" else parts[:1])])
        stem = Path(file).stem
        own = [f for f in sorted((folder / home).glob("**/test_*.py")) if stem in f.stem and stem != "__init__"]
        exact = [f for f in own if f.stem == f"test_{stem}"] or own
        if self.reach:
            tests = [home] if parts[0] == "works" or not exact else [f.relative_to(folder).as_posix() for f in exact]
            tests = [t for t in tests if self.tests and (folder / t).exists()]
            return [("verify", [self.reach.work]), *([("own tests", tests)] if tests else [])]
        ordered = sorted(self.tests, key=lambda t: t != home)
        blind = [t for t in ordered if t.startswith("tests/works")]
        out = [("own tests", [f.relative_to(folder).as_posix() for f in exact])] if exact else []
        out += [("verify", [work]) for work in self.works]
        out += [("blind tests", [*blind, "-k", "blind"])] if blind else []
        return [*out, ("all tests", ordered)]


def ask(copy: Copy, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """An answer of a copy. Errors: MutateError if it imported the package from anywhere else."""
    found = copy.ask(request, seconds)
    home = found.get("home")
    if home is not None and not Path(home).is_relative_to(copy.folder):
        raise MutateError(f"featlearn came from {home} and not from the copy {copy.folder}: unset what leads there")
    return found


def baseline(copy: Copy, killers: Killers) -> None:
    """Run everything on the unmutated copy; failures there are noted in `killers.red`."""
    if killers.reach:
        return
    for work in killers.works:
        found = ask(copy, {"do": "verify", "what": work, "warm": True}, 1200)
        if found["status"] != "done":
            raise MutateError(f"verify {work} fails on the unmutated copy: {found['log'][-600:]}")
        killers.verdicts[work] = (found["code"], found["shown"])
        killers.verify_seconds[work] = max(found["spent"], killers.verify_seconds.get(work, 0.0))
    found = ask(copy, {"do": "pytest", "args": list(killers.tests), "warm": True}, 2400)
    if "files" not in found or (found["ran"] == 0 and not found["broken"]):
        raise MutateError(f"{' '.join(killers.tests)} ran no test on the unmutated copy: {found['log'][-600:]}")
    if found["broken"] and not found["ran"]:
        killers.ignored.update(found["broken"])
        found = ask(copy, _tests(killers, "", list(killers.tests)) | {"warm": True}, 2400)
    killers.red.update(found["failed"])
    killers.file_seconds.update(found["files"])
    killers.overhead = max(found["spent"] - sum(found["files"].values()), killers.overhead, 1.0)


def _tests(killers: Killers, file: str, args: Sequence[str]) -> dict[str, Any]:
    ignored = [f"--ignore={f}" for f in sorted(killers.ignored)]
    left_out = sorted(killers.red | killers.sees_edits.get(file, set()))
    return {"do": "pytest", "args": [*(a for a in args if a not in killers.ignored), *ignored], "deselect": left_out}


def try_mutant(copy: Copy, mutant: Mutant, killers: Killers) -> tuple[str, str]:
    """What noticed a mutant, and how; ("", "") if nothing did."""
    source = (copy.folder / mutant.file).read_bytes()
    try:
        for stage, args in killers.stages(mutant.file, copy.folder):
            copy.put(mutant.file, mutant.applied(source))
            run = (_by_claim if killers.reach else _verify) if stage == "verify" else _pytest
            why = run(copy, mutant, killers, args, source)
            if why:
                return stage, why
        return "", ""
    finally:
        with contextlib.suppress(mutate_run.Closed):
            copy.restore()


def _verify(copy: Copy, mutant: Mutant, killers: Killers, args: Sequence[str], source: bytes) -> str:
    work = args[0]
    name = f"verify {work}"
    if name in killers.sees_edits.get(mutant.file, set()):
        return ""
    request, seconds = {"do": "verify", "what": work}, 3 * killers.verify_seconds[work] + SLACK
    found = ask(copy, request, seconds)
    if found["status"] != "done":
        return f"{found['status']}: {_last(found)}"
    now, before = (found["code"], found["shown"]), killers.verdicts[work]
    if tuple(now) == tuple(before):
        return ""
    if (mutant.file, name) not in killers.fair:
        copy.put(mutant.file, mutant.idle(source))
        idle = ask(copy, request, seconds)
        if (idle.get("code"), idle.get("shown")) != tuple(before):
            killers.sees_edits.setdefault(mutant.file, set()).add(name)
            return ""
        killers.fair.add((mutant.file, name))
    return f"exit status {now[0]}" if now[0] != before[0] else f"other outcomes: {difference(before[1], now[1])}"


def _by_claim(copy: Copy, mutant: Mutant, killers: Killers, args: Sequence[str], source: bytes) -> str:
    reach, sees_edits = killers.reach, killers.sees_edits.setdefault(mutant.file, set())
    assert reach is not None
    while claims := [c for c in killers.order.get(mutant, ()) if c not in sees_edits]:
        seconds = 3 * sum(reach.seconds[c] for c in claims) + 2 * SLACK
        request = {"do": "claims", "what": reach.work, "claims": claims, "before": {c: reach.shown[c] for c in claims}}
        found = ask(copy, request, seconds)
        if found["status"] != "done":
            return f"{found['status']}: {_last(found)}"
        claim = found["claim"]
        if not claim:
            return ""
        if (mutant.file, claim) not in killers.fair:
            copy.put(mutant.file, mutant.idle(source))
            if ask(copy, {**request, "claims": [claim]}, seconds).get("claim") != "":
                sees_edits.add(claim)
                copy.put(mutant.file, mutant.applied(source))
                continue
            killers.fair.add((mutant.file, claim))
        return f"{claim}: {difference(reach.shown[claim], found['shown'])}"
    return ""


def _pytest(copy: Copy, mutant: Mutant, killers: Killers, args: Sequence[str], source: bytes) -> str:
    while True:
        request = _tests(killers, mutant.file, [*args, "-x"])
        found = ask(copy, request, killers.allowed([a for a in args if a.startswith("tests")]))
        if found["status"] == "green":
            return ""
        if found["status"] != "red":
            return f"{found['status']}: {_last(found)}"
        if not found["failed"]:
            return f"broken: {', '.join(found['broken']) or _last(found)}"
        test = found["failed"][0]
        if (mutant.file, test) in killers.fair:
            return test
        copy.put(mutant.file, mutant.idle(source))
        idle = ask(copy, {"do": "pytest", "args": [test, "-x"]}, killers.allowed([test.split("::")[0]]))
        if not idle.get("failed"):
            killers.fair.add((mutant.file, test))
            return test
        killers.sees_edits.setdefault(mutant.file, set()).add(test)
        copy.put(mutant.file, mutant.applied(source))


def _last(found: Mapping[str, Any]) -> str:
    lines = [line for line in found.get("log", "").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


# --- all of them -----------------------------------------------------------------------------------------------------


def run_all(
    mutants: Sequence[Mutant],
    killers: Killers,
    known: Mapping[tuple[str, str, str], str],
    *,
    checkout: Path,
    workers: int,
    commit: str = "",
    allow_red: bool = False,
    heavy: Sequence[str] = mutate_run.HEAVY,
    found: list[Result] | None = None,
) -> list[Result]:
    """Try every mutant on copies of a checkout, which themselves go away at the end, also after Ctrl-C.

    found: a list to fill, which then holds what was known at an interrupt.
    """
    found = [] if found is None else found
    waiting: queue.Queue[Mutant] = queue.Queue()
    for mutant in mutants:
        waiting.put(mutant)
    told: queue.Queue[Result | BaseException | None] = queue.Queue()
    ready = threading.Barrier(workers)

    def work(copy: Copy) -> None:
        try:
            baseline(copy, killers)
            ready.wait()
            if killers.red | killers.ignored and not allow_red:
                names = ", ".join(sorted(killers.red | killers.ignored))
                raise MutateError(f"these fail on the unmutated copy: {names}; mend them or pass --allow-red")
            while True:
                mutant = waiting.get_nowait()
                start = time.monotonic()
                by, why = try_mutant(copy, mutant, killers)
                reason = known.get(key_of(mutant), "")
                state = "killed" if by else "explained" if reason else "survived"
                told.put(Result(mutant, state, by, why or reason, time.monotonic() - start))
        except queue.Empty:
            told.put(None)
        except (mutate_run.Closed, threading.BrokenBarrierError):
            told.put(None)
        except BaseException as e:
            ready.abort()
            told.put(e)

    with _undisturbed() as cleaning, tempfile.TemporaryDirectory(prefix="featlearn-mutants-") as folder:
        original = Path(folder, "original")
        mutate_run.snapshot(checkout, original, commit)
        copies = [Copy(original, Path(folder, f"copy{i}"), heavy) for i in range(workers)]
        threads = [threading.Thread(target=work, args=(copy,), daemon=True) for copy in copies]
        try:
            for thread in threads:
                thread.start()
            ended = 0
            while ended < workers:
                try:
                    said = told.get(timeout=0.2)  # without a limit Ctrl-C would wait
                except queue.Empty:
                    continue
                if isinstance(said, BaseException):
                    raise said
                if said is None:
                    ended += 1
                    continue
                found.append(said)
                print(f"{len(found)}/{len(mutants)} {line_of(said)}", flush=True)
        finally:
            cleaning()
            for copy in copies:
                copy.close(for_good=True)
            for thread in threads:
                if thread.ident:
                    thread.join()
    return found


@contextlib.contextmanager
def _undisturbed() -> Iterator[Callable[[], None]]:
    """A function to call before cleaning up: from there to the end of the block a second Ctrl-C does nothing."""
    signals = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {s: signal.getsignal(s) for s in signals}

    def cleaning() -> None:
        for s in signals:
            signal.signal(s, signal.SIG_IGN)

    try:
        yield cleaning
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def traced(work: str, checkout: Path, commit: str = "", heavy: Sequence[str] = mutate_run.HEAVY) -> mutate_reach.Reach:
    """What the claims of a work come to on a copy of the checkout, and the lines that each runs."""
    with tempfile.TemporaryDirectory(prefix="featlearn-mutants-") as folder:
        mutate_run.snapshot(checkout, Path(folder, "original"), commit)
        copy = Copy(Path(folder, "original"), Path(folder, "copy"), heavy)
        try:
            found = ask(copy, {"do": "trace", "what": work, "warm": True}, 3600)
        finally:
            copy.close(for_good=True)
    if found["status"] != "done":
        raise MutateError(f"verify {work} fails on the unmutated copy: {found['log'][-600:]}")
    return mutate_reach.Reach.of(work, found)


def chosen(options: argparse.Namespace, killers: Killers) -> tuple[list[Mutant], dict[str, int]]:
    """The mutants that are asked for, and how many places each file has (that claims reach, if they matter)."""
    files = mutate_run.files_of(options.over)
    if options.only_room:
        files = [f for f in files if set(options.only_room) & set(Path(f).parts[2:3])]
    files = [f for f in files if not any(fnmatch.fnmatch(f, pattern) for pattern in options.without)]
    if options.named:
        files = [f for f in files if f in {n.split(":")[0] for n in options.named}]
    elif killers.reach:
        files = [f for f in files if mutate_reach.about_claims(f, killers.reach.work) and killers.reach.near(f)]
    found, sources = {}, {}
    for f in files:
        sources[f] = (
            subprocess.run(["git", "-C", str(CHECKOUT), "show", f"{options.commit}:{f}"], capture_output=True).stdout
            if options.commit
            else (CHECKOUT / f).read_bytes()
        )
        found[f] = mutate_sites.sites(sources[f], f, mutate_sites.columns_near(CHECKOUT / f))
    if killers.reach:
        places, killers.order = mutate_reach.reached(found, sources, killers.reach)
        total = sum(map(len, found.values()))
        print(f"{total - sum(map(len, places.values()))} of {total} places are reached by no claim")
        found = found if options.named or options.again else places
    counts = {f: len(s) for f, s in found.items()}
    wanted = list(options.named)
    if options.again:
        last = json.loads(options.again.read_text(encoding="utf-8"))["mutants"]
        lost = [r for r in last if r["state"] == "survived"]
        keys = {(r["mutant"].split(":")[0], r["mutant"].split(":", 2)[2], r["code"]) for r in lost}
        return [m for s in found.values() for v in s for m in v if key_of(m) in keys], counts
    if wanted:
        named = {m.name: m for s in found.values() for v in s for m in v}
        unknown = [n for n in wanted if n not in named]
        if unknown:
            raise MutateError(f"--named {unknown[0]}: no mutant of that name; --list shows those that are drawn")
        return [named[n] for n in wanted], counts
    return mutate_sites.draw(found, options.number, options.seed), counts


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Flags."""
    about = (__doc__ or "").split("\n")[0]
    flags = argparse.ArgumentParser(prog="mutate.py", description=about)
    flags.add_argument("--claims-of", default="", metavar="WORK", help="mutants that claims of a work reach, by claim")
    flags.add_argument("--only-verify", action="store_true", help="with --claims-of: no tests after the claims")
    flags.add_argument("--over", nargs="+", metavar="PATH", help="default: lab and xor_sgd; with --claims-of: all")
    flags.add_argument("--only-room", nargs="+", default=[], metavar="ROOM", help="of those files, these rooms only")
    flags.add_argument("--without", nargs="+", default=[], metavar="GLOB", help="files to leave alone")
    flags.add_argument("--number", type=int, default=200)
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--workers", type=int, default=2)
    flags.add_argument(
        "--works", nargs="*", default=None, help="what to verify and test (default: those of --over, or xor_sgd)"
    )
    flags.add_argument(
        "--tests", nargs="+", default=list(TESTS), metavar="PATH", help="all tests; {work} stands for each work"
    )
    flags.add_argument("--commit", default="", help="mutate this commit in place of the files on disk")
    flags.add_argument("--named", nargs="+", default=[], help="these mutants in place of a draw")
    flags.add_argument("--again", type=Path, help="the survivors in a file of results in place of a draw")
    flags.add_argument("--share", type=float, help="what share has to die (default: 0.95; 0.9 with --claims-of)")
    flags.add_argument("--allow-red", action="store_true", help="leave out tests that fail without a mutant")
    flags.add_argument("--list", action="store_true", help="name the mutants and stop")
    flags.add_argument("--out", type=Path, default=CHECKOUT / "build" / "mutants.json")
    options = flags.parse_args(words)
    whole = ["src/featlearn"] if options.claims_of else ["src/featlearn/lab", "src/featlearn/works/xor_sgd"]
    options.over = options.over or whole
    options.share = options.share or (0.9 if options.claims_of else 0.95)
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Draw, try, report; the exit status."""
    options = parse(words)
    killers = Killers([], [])
    try:
        if options.claims_of:
            killers.reach = traced(options.claims_of, CHECKOUT, options.commit)
        mutants, counts = chosen(options, killers)
        known = reasons(SURVIVORS)
    except (MutateError, ValueError, SyntaxError) as e:
        print(f"mutate.py: {e}", file=sys.stderr)
        return 2
    print(f"{len(mutants)} mutants of {sum(counts.values())} places in {sum(map(bool, counts.values()))} files")
    if options.list:
        print("\n".join(m.name for m in mutants))
        return 0
    parts = [Path(f).parts for f in counts]
    works = options.works
    if works is None:
        works = list(dict.fromkeys(p[3] for p in parts if p[2] == "works" and len(p) > 4)) or ["xor_sgd"]
    tests = dict.fromkeys(t.format(work=w) for t in options.tests for w in (works or [""]))
    killers.works = works
    killers.tests = [] if options.only_verify else [t for t in tests if (CHECKOUT / t).exists()]
    found: list[Result] = []
    start, status = time.monotonic(), 0
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell lets what it starts with & ignore the first
        signal.signal(number, signal.default_int_handler)
    try:
        run_all(
            mutants,
            killers,
            known,
            checkout=CHECKOUT,
            workers=max(1, min(options.workers, len(mutants))),
            commit=options.commit,
            allow_red=options.allow_red,
            found=found,
        )
    except KeyboardInterrupt:
        status = 130
        print(f"interrupted after {len(found)} of {len(mutants)}", file=sys.stderr)
    except MutateError as e:
        print(f"mutate.py: {e}", file=sys.stderr)
        return 2
    print(report(found, killers.sees_edits, killers.red | killers.ignored, time.monotonic() - start, known))
    write(options.out, found, {"over": options.over, "number": options.number, "seed": options.seed, "places": counts})
    print(f"{options.out}")
    died = sum(r.state == "killed" for r in found)
    bad = died < options.share * len(found) or any(r.state == "survived" for r in found)
    return status or int(bad)


if __name__ == "__main__":
    sys.exit(main())
