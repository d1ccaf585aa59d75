"""The command line. Each command builds a config and calls what a notebook would call.

Nothing heavy is imported before a command needs it: `featlearn --help` and `featlearn list` load neither torch nor
matplotlib, and `featlearn run X` imports the module of X alone.
"""

import contextlib
import difflib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

DONE, FAILED, BAD, INTERRUPTED = 0, 1, 2, 130
PIPE_WIDTH = 120

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
  bench    run a benchmark of this checkout

featlearn COMMAND --help shows the flags of a command, featlearn run X --help those of an experiment.
"""


class CommandError(Exception):
    """Something the caller can put right: one line, and the exit status."""

    def __init__(self, message: str, status: int = BAD):
        super().__init__(message)
        self.status = status


def nearest(word: str, known: Sequence[str]) -> str:
    """ "; did you mean X?" for the closest known word, or nothing."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


def choose(word: str, known: Sequence[str]) -> str:
    """As `nearest`, or else all the known words."""
    return nearest(word, known) or f"; one of {', '.join(known) or 'none'}"


def subcommand(
    name: str,
    commands: Mapping[str, Callable[[Sequence[str]], int]],
    args: Sequence[str],
    about: str,
    usage: str,
    guard: Callable[[], contextlib.AbstractContextManager[None]],
) -> int:
    """Run one of the commands of `featlearn NAME`; guard turns the errors of its work into one line."""
    if args and args[0] in ("-h", "--help"):
        print(about, end="")
        return DONE
    if not args or args[0].startswith("-"):
        raise CommandError(f"which of its commands? {usage}")
    if args[0] not in commands:
        raise CommandError(f"no command {args[0]!r} of {name}{choose(args[0], list(commands))}")
    if set(args[1:]) & {"-h", "--help"}:
        return commands[args[0]](args[1:])
    with guard():
        return commands[args[0]](args[1:])


def flag(name: str) -> str:
    """The flag of a field."""
    return "--" + name.replace("_", "-")


def flags_of(kind: type) -> list[str]:
    """Flags of a dataclass, its nested dataclasses included; a bool has two."""
    out = []
    for f in fields(kind):
        inner = getattr(f.type, "__origin__", f.type) if hasattr(f.type, "__metadata__") else f.type
        if isinstance(inner, type) and hasattr(inner, "__dataclass_fields__"):
            out += flags_of(inner)
        else:
            out += [flag(f.name), f"--no-{flag(f.name)[2:]}"] if inner is bool else [flag(f.name)]
    return out


def parse(kind: type[T], args: Sequence[str], prog: str, about: str, default: T | None = None, **more: Any) -> T:
    """`args` as an instance of a dataclass; CommandError in one line for an unknown flag or a bad value."""
    import tyro

    shown = io.StringIO()
    given: dict[str, Any] = {"prog": prog, "description": about, "args": list(args), **more}
    if default is not None:
        given["default"] = default
    try:
        with contextlib.redirect_stderr(shown):
            value, unknown = tyro.cli(kind, return_unknown_args=True, **given)
    except SystemExit as e:
        if not e.code:  # --help
            raise
        raise CommandError(_plain_error(shown.getvalue(), prog)) from None
    if unknown:
        word = next((u for u in unknown if u.startswith("-")), unknown[0])
        what = "flag" if word.startswith("-") else "word"
        raise CommandError(f"unknown {what} {word}{nearest(word.split('=')[0], flags_of(kind))} ({prog} --help)")
    return value


def _plain_error(box: str, prog: str) -> str:
    """The message inside tyro's box, in one line. Where stdout is not UTF-8, rules of dashes stand for the box."""
    lines = [line.strip().removeprefix("│").removesuffix("│").strip() for line in box.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("╭", "╰"))]
    rules = [i for i, line in enumerate(lines) if re.fullmatch(r"[─-]+", line)]
    if "╭" not in box and rules[:1] == [1]:  # a title above the first rule; a drawn box has it in its border
        lines, rules = lines[2:], [i - 2 for i in rules[1:]]
    message = " ".join(" ".join(lines[: rules[0] if rules else None]).split()).removeprefix("Error parsing ")
    return f"{message or 'these arguments cannot be read'} ({prog} --help)"


def console(err: bool = False) -> Any:
    """A rich console on stdout, or on stderr; into a file or a pipe it writes wide lines."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    wide = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=err, highlight=False, width=wide)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(document, indent=1, allow_nan=False))


def warn(message: str) -> None:
    """One line on stderr."""
    print(f"featlearn: {message}", file=sys.stderr)


# --- list ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListOptions:
    work: str = ""
    """Only this work."""
    json: bool = False
    """One JSON document."""
    store: str = "runs"
    """Folder of your runs; its verdicts are newer than the ones that ship."""


def list_command(args: Sequence[str]) -> int:
    """Show works, experiments, claims."""
    from featlearn import catalog

    options = parse(ListOptions, args, "featlearn list", "Works, experiments, claims, presets and the last verdicts.")
    found = with_local_verdicts(catalog.read(), Path(options.store))
    names = [w["id"] for w in found["works"]]
    if options.work and options.work not in names:
        raise CommandError(f"no work {options.work!r}{choose(options.work, names)}")
    works = [
        {"id": w["id"], "entries": w["entries"], "covered": len(catalog.covered(found, w["id"])), "title": w["title"]}
        for w in found["works"]
        if options.work in ("", w["id"])
    ]
    experiments = [e for e in found["experiments"] if options.work in ("", e["id"].split("/")[0])]
    claims = [c for c in found["claims"] if options.work in ("", c["id"].split(".")[0])]
    if options.json:
        print_json({"works": works, "experiments": experiments, "claims": claims})
        return DONE
    from rich.table import Table

    out = console()
    table = Table("work", "what", "entries", "covered", title="Works", title_justify="left")
    for w in works:
        table.add_row(w["id"], w["title"], str(w["entries"]), str(w["covered"]))
    out.print(table)
    if experiments:
        table = Table("experiment", "what", "presets", "evidence", title="Experiments", title_justify="left")
        for e in experiments:
            table.add_row(e["id"], e["title"], " ".join(e["presets"]), e["evidence"])
        out.print(table)
    if claims:
        table = Table("claim", "says", "verdict", title="Claims", title_justify="left")
        for c in claims:
            as_expected = c["verdict"] in (c["expected"], "not run")
            table.add_row(c["id"], c["says"], c["verdict"] if as_expected else f"{c['verdict']} (!)")
        out.print(table)
    return DONE


def with_local_verdicts(found: dict[str, Any], store: Path) -> dict[str, Any]:
    """The catalog with verdicts of the user's store in place of those that shipped."""
    for claim in found["claims"]:
        path = store / "verdicts" / claim["id"].split(".")[0] / f"{claim['id']}.json"
        if path.is_file():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                data = json.loads(path.read_bytes())
                claim["verdict"], claim["mechanism"] = str(data["verdict"]), bool(data["mechanism"])
    return found


# --- dispatch --------------------------------------------------------------------------------------------------------


def _command(module: str, name: str) -> Callable[[Sequence[str]], int]:
    def call(args: Sequence[str]) -> int:
        import importlib

        return getattr(importlib.import_module(f"featlearn.{module}"), name)(args)

    return call


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": list_command,
    "run": _command("cli_run", "run_command"),
    "verify": _command("cli_verify", "verify_command"),
    "report": _command("cli_report", "report_command"),
    "diff": _command("cli_report", "diff_command"),
    "data": _command("cli_report", "data_command"),
    "gemfilter": _command("cli_gemfilter", "gemfilter_command"),
    "domains": _command("cli_domains", "domains_command"),
    "bench": _command("cli_report", "bench_command"),
}


def main(args: Sequence[str] | None = None) -> int:
    """Run a command; the exit status: 0 done, 1 something failed or differs from what is expected, 2 bad arguments."""
    args = list(sys.argv[1:] if args is None else args)
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
            raise CommandError(f"no command {args[0]!r}{nearest(args[0], list(COMMANDS))} (featlearn --help)")
        return command(args[1:])
    except CommandError as e:
        warn(str(e))
        return e.status
    except SystemExit as e:  # --help of a command
        return e.code if isinstance(e.code, int) else DONE
    except KeyboardInterrupt:
        resumes = args[0] == "run" or args[:2] == ["domains", "evaluate"]
        warn("interrupted" + (": what was finished is kept; the same command resumes" if resumes else ""))
        return INTERRUPTED
    except BrokenPipeError:  # `featlearn list | head`
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


if __name__ == "__main__":
    # `python -m featlearn.cli` runs this file a second time under another name, whose CommandError nobody raises
    from featlearn.cli import main as main_of_the_package

    sys.exit(main_of_the_package())
