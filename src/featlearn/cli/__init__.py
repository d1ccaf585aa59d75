"""The command line. Each command builds a config and calls what a notebook would call.

Nothing heavy is imported before a command needs it: `featlearn --help` and `featlearn list` load neither torch nor
matplotlib, and `featlearn run X` imports the module of X alone.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence

from featlearn.cli._parse import later, nearest
from featlearn.cli._show import warn
from featlearn.cli._streams import safe_streams
from featlearn.errors import BAD, DONE, FAILED, INTERRUPTED, TERMINATED, CommandError, FeatlearnError, Terminated

ABOUT = """usage: featlearn COMMAND ...

A laboratory for feature learning: reproduce, measure, apply.

commands:
  list     works, experiments, claims, presets and the last verdicts
  run      an experiment, or a file of your own that defines EXPERIMENT
  verify   check the claims of a work, or one claim
  report   make the static site, or export the rows (LaTeX, CSV, parquet)
  diff     two runs side by side
  data     list or fetch real data
  gemfilter  long prompts: find a model's filter layer, answer from the kept tokens, measure the cost
  domains  images from several domains: hold one out, compare algorithms, fit a model, predict
  inspect  checkpoints of any network: what moved, in which directions, lazy or rich
  adapt    heads on embeddings from few labels: linear, fine-tuned, regularised; predict
  bench    run a benchmark of this checkout

featlearn COMMAND --help shows the flags of a command, featlearn run X --help those of an experiment.
"""


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    name: later(name)
    for name in ("list", "run", "verify", "report", "diff", "data", "gemfilter", "domains", "inspect", "adapt", "bench")
}

LLM = ("transformers", "gguf", "accelerate")
"""Packages of the extra `llm`, which are imported where they are used."""


def main(args: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0 done, 1 something failed or differs from what is expected, 2 bad arguments.

    This is the only place where errors become exit statuses: each kind carries its own (`featlearn.errors`). What
    terminals, pipes and disks do to the output is dealt with in `featlearn.cli._streams`.
    """
    return ended(_status, [*(sys.argv[1:] if args is None else args)])  # `list` is a module here


def ended(run: Callable[[Sequence[str]], int], args: Sequence[str]) -> int:
    """How a command ends: its status, or the line and the status of what it raised."""
    with safe_streams():
        try:
            try:
                status = run(args)
            except SystemExit as e:  # --help of a command, a benchmark
                if isinstance(e.code, str):
                    warn(e.code)
                status = e.code if isinstance(e.code, int) else FAILED if e.code else DONE
            sys.stdout.flush()
            return status
        except FeatlearnError as e:
            warn(" ".join(line.strip() for line in str(e).splitlines()))
            return e.status


def _status(args: Sequence[str]) -> int:
    if not args or args[0] in ("-h", "--help", "help"):
        print(ABOUT, end="")
        return DONE if args else BAD
    if args[0] == "--version":
        from featlearn import __version__

        print(f"featlearn {__version__}")
        return DONE
    command = COMMANDS.get(args[0])
    try:
        if command is None:
            raise CommandError(f"no command {args[0]!r}{nearest(args[0], tuple(COMMANDS))} (featlearn --help)")
        with _terminable():
            return command(args[1:])
    except ModuleNotFoundError as e:
        if e.name not in LLM:
            raise
        warn(f"{e.name} is needed for this: pip install 'featlearn[llm]'")
        return FAILED
    except KeyboardInterrupt as e:
        resumes, ended = args[0] == "run" or args[:2] == ["domains", "evaluate"], isinstance(e, Terminated)
        what = "terminated" if ended else "interrupted"
        warn(what + (": what was finished is kept; the same command resumes" if resumes else ""))
        return TERMINATED if ended else INTERRUPTED


@contextlib.contextmanager
def _terminable() -> Generator[None, None, None]:
    """SIGTERM ends a block like Ctrl-C, so that what runs below is ended and the user hears how to go on."""
    import signal

    def end(*_: object) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # only the main thread of a process has signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
