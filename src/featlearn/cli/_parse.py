"""Flags from dataclasses by tyro, with errors of one line and the nearest known word."""

import contextlib
import difflib
import importlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from featlearn.errors import DONE, CommandError

T = TypeVar("T")


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
) -> int:
    """Run one of the commands of `featlearn NAME`."""
    if args and args[0] in ("-h", "--help"):
        print(about, end="")
        return DONE
    if not args or args[0].startswith("-"):
        raise CommandError(f"which of its commands? {usage}")
    if args[0] not in commands:
        raise CommandError(f"no command {args[0]!r} of {name}{choose(args[0], list(commands))}")
    return commands[args[0]](args[1:])


MOST = 256
"""Threads or processes; more bring nothing and can bring a machine down."""


def check_count(name: str, value: int, low: int, chosen: str = "") -> None:
    """CommandError for a number of threads or processes out of range; chosen: what 0 means, where it is allowed."""
    if not low <= value <= MOST:
        bound = f"at least {low}" if value < low else f"at most {MOST}"
        raise CommandError(f"{name} = {value} is not allowed: {bound}{chosen and '; 0 '}{chosen}")


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


def given(args: Sequence[str]) -> set[str]:
    """Names of the fields whose flags stand in `args`.

    Example:
        >>> sorted(given(["--evaluate-every", "300", "--no-probe", "--rate=1"]))
        ['evaluate_every', 'no_probe', 'probe', 'rate']
    """
    names = {word[2:].partition("=")[0].replace("-", "_") for word in args if word.startswith("--")}
    return names | {name.removeprefix("no_") for name in names}


def gathered(args: Sequence[str], several: Sequence[str]) -> list[str]:
    """The same words with a flag that takes several values and stands more than once gathered where it stands first.

    Example:
        >>> gathered(["--model", "a", "--shots", "2", "--model=b"], ["--model"])
        ['--model', 'a', 'b', '--shots', '2']
    """
    groups: list[list[str]] = [[]]
    first: dict[str, list[str]] = {}
    for word in args:
        name, sign, value = word.partition("=")
        if not word.startswith("--"):
            groups[-1].append(word)
        elif name in first:
            groups.append(first[name])  # what follows goes there, too
            first[name] += [value] if sign else []
        elif name in several:
            first[name] = [name, *([value] if sign else [])]
            groups.append(first[name])
        else:
            groups.append([word])
    seen: list[list[str]] = []
    for group in groups:
        if not any(group is other for other in seen):
            seen.append(group)
    return [word for group in seen for word in group]


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


def later(module: str) -> Callable[[Sequence[str]], int]:
    """The command of a module of the command line, imported when it is called: `run_command` of `featlearn.cli.run`."""

    def call(args: Sequence[str]) -> int:
        name = module.rpartition(".")[2]
        return getattr(importlib.import_module(f"featlearn.cli.{module}"), f"{name}_command")(args)

    return call
