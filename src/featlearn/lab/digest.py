"""Digests: what a result depends on, as a short text that changes when it does.

A digest of code covers the syntax trees of the functions that a function can reach within featlearn, without comments,
docstrings, annotations of arguments, positions or module paths, so that a move or a reformatting changes nothing.
"""

import ast
import dataclasses
import functools
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

PACKAGE, FILE = "featlearn", "featlearn_file_"
"""The package, and how modules are named that were loaded from a user's file (lab.load)."""
ENGINE = ("featlearn.lab", "featlearn.report", "featlearn.errors")
"""What judges and shows: a change there is a change of all verdicts, which its own tests answer for."""


def text_digest(text: str) -> str:
    """Sixteen hexadecimal digits of a text."""
    return bytes_digest(text.encode())


def bytes_digest(data: bytes) -> str:
    """Sixteen hexadecimal digits of bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def rows_digest(rows: Iterable[Any]) -> str:
    """Of rows: mappings or row dataclasses of numbers and text."""
    plain: list[dict[str, Any]] = []
    for row in rows:
        shown: Any = dataclasses.asdict(row) if dataclasses.is_dataclass(row) else row  # pyright: ignore[reportArgumentType]
        plain.append(dict(shown))
    return text_digest(json.dumps(plain, sort_keys=True))


@functools.lru_cache(maxsize=512)
def code_digest(*functions: Callable[..., Any]) -> str:
    """Of the functions and of all that they reach within featlearn, or beside a user's own file.

    Reached: functions and classes that a body names, directly or as an attribute of a module of featlearn, and plain
    constants. Not seen: what is imported inside a body by a computed name.
    """
    found: dict[str, str] = {}
    beside = _beside(functions)
    stack: list[Any] = [*functions]
    seen: dict[int, Any] = {}  # holds what it has seen, so that no id is used twice
    while stack:
        thing = inspect.unwrap(stack.pop()) if callable(stack[-1]) else stack.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, functools.partial):
            stack += [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, FunctionType) and _ours(thing.__module__, beside):
            found.setdefault(thing.__qualname__, "")
            found[thing.__qualname__] += _tree(thing.__module__, thing.__qualname__)
            stack += _named(thing.__code__, thing.__globals__, beside)
            stack += [c.cell_contents for c in thing.__closure__ or () if callable(c.cell_contents)]
        elif isinstance(thing, type) and _ours(thing.__module__, beside):
            found.setdefault(thing.__qualname__, "")
            found[thing.__qualname__] += _tree(thing.__module__, thing.__qualname__)
            for base in thing.__mro__[1:]:
                stack.append(base)
            for member in vars(thing).values():
                inner = getattr(member, "fget", None) or getattr(member, "__func__", member)
                inner = inspect.unwrap(inner) if callable(inner) else inner
                if isinstance(inner, FunctionType):
                    stack += _named(inner.__code__, inner.__globals__, beside)
        elif isinstance(thing, _Constant):
            found[f"constant {thing.name}"] = thing.shown
    return text_digest(json.dumps(sorted(found.items())))


@dataclasses.dataclass(frozen=True)
class _Constant:
    name: str
    shown: str


def _ours(module: str, beside: frozenset[str]) -> bool:
    """Whether a module is of this package, a user's experiment file, or lies in the folder of one (`beside`)."""
    if module.split(".")[0].startswith(PACKAGE):
        return not module.startswith(ENGINE)
    return _folder(sys.modules.get(module)) in beside


def _folder(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return os.path.dirname(os.path.realpath(file)) if file else ""


def _beside(functions: Iterable[Any]) -> frozenset[str]:
    names = {getattr(f, "__module__", None) or "" for f in functions}
    return frozenset(_folder(sys.modules.get(n)) for n in names if n.startswith(FILE)) - {""}


def _named(code: CodeType, names: Mapping[str, Any], beside: frozenset[str]) -> list[Any]:
    """What a body, and the bodies inside it, name."""
    out: list[Any] = []
    codes = [code]
    while codes:
        one = codes.pop()
        codes += [c for c in one.co_consts if isinstance(c, CodeType)]
        for name in one.co_names:
            thing = None if name == "__file__" else names.get(name)  # where the code lies changes nothing
            if isinstance(thing, ModuleType):
                if _ours(thing.__name__, beside):
                    out += [vars(thing)[n] for n in one.co_names if n in vars(thing) and n != name]
            elif isinstance(thing, FunctionType | type | functools.partial) or hasattr(thing, "__wrapped__"):
                out.append(thing)
            elif isinstance(thing, bool | int | float | str):
                out.append(_Constant(name, repr(thing)))
            elif isinstance(thing, tuple | list | Mapping):
                inner = list(thing.values()) if isinstance(thing, Mapping) else list(thing)
                leaves = list(_leaves(inner))
                out += [v for v in leaves if isinstance(v, FunctionType | type)]
                plain = all(isinstance(v, bool | int | float | str | tuple) for v in inner)
                if plain and " at 0x" not in repr(thing):  # an address is no part of what it is
                    out.append(_Constant(name, repr(thing)))
    return out


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    """What stands in nested tuples and lists."""
    for value in values:
        if isinstance(value, tuple | list):
            yield from _leaves(value)
        else:
            yield value


@functools.cache
def _trees(module: ModuleType) -> Mapping[str, str]:
    """Qualified name -> dump of its syntax tree, without docstrings, of one module."""
    source = inspect.getsource(module)
    out: dict[str, str] = {}

    def visit(node: ast.AST, path: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                here = f"{path}{child.name}"
                visit(child, here + (".<locals>." if not isinstance(child, ast.ClassDef) else "."))
                out[here] = out.get(here, "") + ast.dump(_bare(child))
            else:
                visit(child, path)

    visit(ast.parse(source), "")
    return out


def _bare(node: Any) -> Any:
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            inner.returns = None
        elif isinstance(inner, ast.arg):
            inner.annotation = None
        body = getattr(inner, "body", None)
        if isinstance(body, list):
            inner.body = [  # pyright: ignore[reportAttributeAccessIssue]
                n for n in body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
            ]
    return node


def _tree(module: str, name: str) -> str:
    try:
        return _trees(sys.modules[module]).get(name, "")
    except (OSError, KeyError):  # typed at a prompt: no source
        return ""
