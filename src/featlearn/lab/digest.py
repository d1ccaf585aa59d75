"""Digests: what a result depends on, as a short text that changes when it does.

A digest of code covers the syntax trees of the functions and classes that a function can reach within featlearn, and by
content every value that they name: constants, defaults, closures, arguments of partials, attributes of classes. It
knows no comments, docstrings, annotations, positions or module paths, so that a move or a reformatting changes nothing.

What it cannot see: names made while running (`getattr(x, name)`), files that are read, the state of objects of other
packages that are no arrays, containers or dataclasses (of those the kind counts), and other packages' code.
"""

import ast
import contextlib
import dataclasses
import datetime
import decimal
import dis
import enum
import fractions
import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import types
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

PACKAGE, FILE = "featlearn", "featlearn_file_"
"""The package, and how modules are named that were loaded from a user's file (lab.load)."""
ENGINE = ("featlearn.lab", "featlearn.report", "featlearn.errors")
"""What judges and shows: a change there is a change of all verdicts, which its own tests answer for."""
CHECKS = "featlearn.core.check"
"""Whose wrapper only refuses: no part of what it is about, since the type checks of a test run take its place."""
INVENTORY = "featlearn.lab.inventory"
"""Who names it reads what is reported: the numbers of the work that it belongs to are part of it."""
_SIMPLE = (bool, int, float, complex, str, bytes, range, slice, type(None), type(...))
SHOWN = (*_SIMPLE, fractions.Fraction, decimal.Decimal, datetime.date, datetime.timedelta)
"""Kinds of values whose repr is exact and the same everywhere; and, by name, those of torch."""
TORCH = ("torch.dtype", "torch.device", "torch.memory_format")


def text_digest(text: str) -> str:
    """Sixteen hexadecimal digits of a text."""
    return bytes_digest(text.encode())


def bytes_digest(data: bytes) -> str:
    """Sixteen hexadecimal digits of bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def rows_digest(rows: Iterable[Any]) -> str:
    """Of rows: mappings or row dataclasses of numbers and text."""
    plain: list[dict[str, Any]] = []
    names: dict[type, list[str]] = {}
    for row in rows:
        kind = type(row)
        if kind not in names:
            names[kind] = [f.name for f in dataclasses.fields(row)] if dataclasses.is_dataclass(row) else []
        values: Any = row
        plain.append({n: getattr(row, n) for n in names[kind]} if names[kind] else dict(values))
    return text_digest(json.dumps(plain, sort_keys=True))


@functools.lru_cache(maxsize=512)
def code_digest(*functions: Callable[..., Any]) -> str:
    """Of functions and of all that they reach within featlearn, or beside a user's own file; kept while the process
    runs."""
    return content_digest(*functions)


def content_digest(*things: Any) -> str:
    """Of values of any kind, in order, and of all the code that they reach.

    Reached: functions and classes that a value holds, that a body names, directly or as an attribute of a module of
    featlearn, or that it imports; of a class all its methods and bases.

    Example:
        >>> content_digest([1.0, {"a": None}]) == content_digest([1.0, {"a": None}])
        True
        >>> content_digest([1.0, {"a": None}]) == content_digest([1.0, {"a": 0}])
        False
    """
    walk = _Walk(_beside(things), [])
    given = [_content(t, walk) for t in things]
    found: set[str] = set()
    seen: dict[int, Any] = {}  # holds what it has seen, so that no id is used twice
    while walk.reach:
        thing = walk.reach.pop()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            if _ours(_home(thing), walk.beside):
                found.add(json.dumps(_class(thing, walk) if isinstance(thing, type) else _function(thing, walk)))
    return text_digest(json.dumps([given, sorted(found)]))


@dataclasses.dataclass(frozen=True)
class _Walk:
    """beside: folders of users' files; reach: functions and classes to look at, which grows on the way."""

    beside: frozenset[str]
    reach: list[Any]


# --- where things come from ------------------------------------------------------------------------------------------


def _home(thing: Any) -> str:
    """The module that a function or class was written in, whatever it calls itself."""
    return str(thing.__module__ if isinstance(thing, type) else thing.__globals__.get("__name__", ""))


def _ours(module: str, beside: frozenset[str]) -> bool:
    """Whether a module is of this package, a user's experiment file, or lies in the folder of one (`beside`)."""
    if module.split(".")[0].startswith(PACKAGE):
        return not module.startswith(ENGINE)
    return bool(beside) and _folder(sys.modules.get(module)) in beside


def _folder(module: ModuleType | None) -> str:
    file = getattr(module, "__file__", None)
    return os.path.dirname(os.path.realpath(file)) if file else ""


def _beside(things: Iterable[Any]) -> frozenset[str]:
    names = {str(getattr(t, "__module__", None) or "") for t in things}
    return frozenset(_folder(sys.modules.get(n)) for n in names if n.startswith(FILE)) - {""}


# --- values ----------------------------------------------------------------------------------------------------------


def _content(value: Any, walk: _Walk, above: tuple[int, ...] = ()) -> Any:
    """What a value is, as JSON, without addresses and without any order of hashes; the code in it goes to `walk`."""
    kind = type(value)
    if kind in SHOWN or f"{kind.__module__}.{kind.__name__}" in TORCH:
        return [kind.__name__, repr(value)]
    if id(value) in above:
        return ["what holds it"]

    def inside(one: Any) -> Any:
        return _content(one, walk, (*above, id(value)))

    if isinstance(value, FunctionType | type) or hasattr(value, "__wrapped__"):
        return _named_code(value, walk)
    if isinstance(value, functools.partial):
        return ["partial", *map(inside, (value.func, value.args, dict(sorted(value.keywords.items()))))]
    if isinstance(value, MethodType):
        return ["method", inside(value.__self__), inside(value.__func__)]
    if isinstance(value, enum.Enum):
        return ["member", inside(kind), value.name, inside(value.value)]
    if isinstance(value, dict | types.MappingProxyType):
        return [kind.__name__, [[inside(k), inside(v)] for k, v in value.items()]]
    if isinstance(value, tuple | list | deque):
        return [kind.__name__, [inside(v) for v in value]]
    if isinstance(value, set | frozenset):
        return [kind.__name__, sorted((inside(v) for v in value), key=json.dumps)]
    if isinstance(value, re.Pattern):
        return ["pattern", str(value.pattern), value.flags]
    if kind.__module__.split(".")[0] == "torch" and hasattr(value, "detach"):
        return ["tensor", str(value.dtype), list(value.shape), inside(value.detach().cpu().tolist())]
    if isinstance(value, np.ndarray | np.generic):
        return _array(np.asarray(value), inside)
    if dataclasses.is_dataclass(value):
        shown = [[f.name, inside(getattr(value, f.name, None))] for f in dataclasses.fields(value)]
        return ["instance", _named_code(kind, walk), shown]
    if typing.get_origin(value) is not None:  # Literal["a", "b"], and what else types are made of
        return ["of types", inside(typing.get_origin(value)), [inside(a) for a in typing.get_args(value)]]
    if _ours(kind.__module__, walk.beside):
        return ["instance", _named_code(kind, walk), inside(dict(sorted(getattr(value, "__dict__", {}).items())))]
    return ["other", kind.__qualname__, str(getattr(value, "__name__", ""))]


def _array(array: np.ndarray, inside: Callable[[Any], Any]) -> Any:
    if array.dtype.hasobject:
        return ["objects", inside(array.tolist())]
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return ["array", little.dtype.str, list(array.shape), bytes_digest(little.tobytes())]


def _named_code(value: Any, walk: _Walk) -> Any:
    """A function or class by its name and its own text; what it reaches goes to `walk`, as does what wraps it."""
    while True:
        wraps = not isinstance(value, type) and hasattr(value, "__wrapped__")
        if isinstance(value, FunctionType | type) and not (wraps and _home(value) == CHECKS):
            walk.reach.append(value)
        if not wraps:
            break
        value = cast(Any, value).__wrapped__
    name = str(getattr(value, "__qualname__", type(value).__qualname__))
    known = isinstance(value, FunctionType | type) and _ours(_home(value), walk.beside)  # of others the name alone
    return ["code", name, _source(value) if known else ""]


# --- functions and classes -------------------------------------------------------------------------------------------


def _function(function: FunctionType, walk: _Walk) -> Any:
    """Its text, and by content what it names, what it takes where nothing is given, and what it closes over."""
    names = {n: _content(v, walk) for n, v in _names(function.__code__, function.__globals__, walk)}
    if any(_of_inventory(function.__globals__.get(n)) for n in names):
        names["what is reported"] = _reported(_home(function))
    closed = [c.cell_contents for c in function.__closure__ or () if c != _EMPTY]
    held = [function.__defaults__, dict(sorted((function.__kwdefaults__ or {}).items())), closed]
    return ["def", function.__code__.co_qualname, _source(function), sorted(names.items()), _content(held, walk)]


_EMPTY = type((lambda x: lambda: x)(0).__closure__[0])()  # pyright: ignore[reportOptionalSubscript]


def _class(kind: type, walk: _Walk) -> Any:
    """Its text, its bases, and by content its attributes, the defaults of its fields and what its columns can be."""
    bases = [_named_code(b, walk) for b in kind.__bases__]
    held: dict[str, Any] = {}
    for name, member in vars(kind).items():
        inner = getattr(member, "fget", None) or getattr(member, "__func__", None) or getattr(member, "func", member)
        if isinstance(inner, FunctionType) or hasattr(inner, "__wrapped__"):
            if _text(sys.modules.get(_home(kind)), f"{kind.__qualname__}.{name}") or not name.startswith("__"):
                held[name] = _named_code(inner, walk)  # else it was generated, and its source stands here
        elif not name.startswith(("__", "_abc_")) and not (issubclass(kind, enum.Enum) and name.endswith("_")):
            held[name] = _content(member, walk)
    if issubclass(kind, enum.Enum):
        held |= {m.name: _content(m.value, walk) for m in kind}
    if dataclasses.is_dataclass(kind):
        held |= {f"{f.name} = ": _content([f.default, f.default_factory], walk) for f in dataclasses.fields(kind)}
        hints = inspect.get_annotations(kind)
        held |= {f"{n}: ": _content(list(_metadata(h)), walk) for n, h in hints.items() if not isinstance(h, str)}
    return ["class", kind.__qualname__, _source(kind), bases, sorted(held.items())]


def _metadata(hint: Any) -> Iterator[Any]:
    """What stands in an `Annotated[...]`, also within a union: the quantity of a column."""
    if typing.get_origin(hint) is typing.Annotated:
        yield from hint.__metadata__
    elif typing.get_origin(hint) in (types.UnionType, typing.Union):
        for one in typing.get_args(hint):
            yield from _metadata(one)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A body and the bodies inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and inner.co_name != "__annotate__":
            yield from _codes(inner)


def _names(code: CodeType, names: Mapping[str, Any], walk: _Walk) -> Iterator[tuple[str, Any]]:
    """What a body names: global values, and attributes of modules of ours that it names or imports."""
    for one in _codes(code):
        modules: list[ModuleType] = []
        for name in one.co_names:
            thing = names.get(name, names)  # `names` itself: a name that is not global
            if isinstance(thing, ModuleType):
                modules.append(thing)
                if thing.__name__ == INVENTORY:
                    yield name, "inventory"
            elif thing is not names and not name.startswith("__"):  # where the code lies changes nothing
                yield name, thing
        if any(n.split(".")[0].startswith(PACKAGE) or walk.beside for n in one.co_names):
            for module in _imported(one, walk):
                if isinstance(module, ModuleType):
                    modules.append(module)
                else:
                    yield module
        seen: set[str] = set()
        while modules:
            module = modules.pop()
            if module.__name__ in seen or not _ours(module.__name__, walk.beside):
                continue
            seen.add(module.__name__)
            for name in one.co_names:
                thing = None if name.startswith("__") else vars(module).get(name)
                if isinstance(thing, ModuleType):
                    modules.append(thing)
                elif thing is not None:
                    yield f"{module.__name__.rpartition('.')[2]}.{name}", thing


def _imported(code: CodeType, walk: _Walk) -> Iterator[ModuleType | tuple[str, str]]:
    """Modules of ours that a body imports; of a file beside a user's, which may not be loaded yet, its whole text."""
    found, names = "", []
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            found = str(step.argval)
            names.append(found)
        elif step.opname == "IMPORT_FROM":
            names.append(f"{found}.{step.argval}")
    for name in dict.fromkeys(names):
        if name.split(".")[0].startswith(PACKAGE):
            try:
                if importlib.util.find_spec(name) is not None:
                    yield importlib.import_module(name)
            except ImportError:  # an attribute of a module that is no package
                continue
        for folder in sorted(walk.beside):
            file = Path(folder, *name.split(".")).with_suffix(".py")
            if file.is_file():
                yield f"import {name}", text_digest(json.dumps(_tree(ast.parse(file.read_bytes()))))


def _of_inventory(thing: Any) -> bool:
    return getattr(thing, "__module__", getattr(thing, "__name__", "")) == INVENTORY


def _reported(module: str) -> str:
    """Of what the inventory holds of the work that a module belongs to, but for words about it."""
    from featlearn.lab import inventory

    work = (*module.split("."), "", "")[2]
    known = inventory.load(work).entries if work in inventory.WORKS else ()
    return _numbers(tuple(inventory.entry(e.id) for e in known))


@functools.cache
def _numbers(entries: tuple[Any, ...]) -> str:
    parts = ("id", "setting", "numbers", "derived", "own_runs", "verified_by_hand", "from_code", "reported")
    return content_digest([[getattr(e, p) for p in parts] for e in entries])


# --- text ------------------------------------------------------------------------------------------------------------


def _source(thing: Any) -> str:
    """A digest of the syntax tree of a function or class; of a lambda, of all those that begin in its line."""
    name = thing.__qualname__ if isinstance(thing, type) else thing.__code__.co_qualname
    if name.endswith("<lambda>"):
        name = f"<lambda> {thing.__code__.co_firstlineno}"
    return _text(sys.modules.get(_home(thing)), name)


@functools.cache
def _text(module: ModuleType | None, name: str) -> str:
    return text_digest(json.dumps(_tree(_nodes(module)[name]))) if name in _nodes(module) else ""


@functools.cache
def _nodes(module: ModuleType | None) -> Mapping[str, list[ast.AST]]:
    """Qualified name -> what is defined by it in a module, lambdas by their line; nothing where there is no source."""
    out: dict[str, list[ast.AST]] = {}

    def visit(node: ast.AST, path: str) -> None:
        for child in ast.iter_child_nodes(node):
            below = path
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                out.setdefault(f"{path}{child.name}", []).append(child)
                below = f"{path}{child.name}{'.' if isinstance(child, ast.ClassDef) else '.<locals>.'}"
            elif isinstance(child, ast.Lambda):
                out.setdefault(f"<lambda> {child.lineno}", []).append(child)
            visit(child, below)

    with contextlib.suppress(OSError, TypeError):  # typed at a prompt
        visit(ast.parse(inspect.getsource(module)), "")  # pyright: ignore[reportArgumentType]
    return out


def _tree(node: Any) -> Any:
    """A syntax tree as nested lists, the same for every version of Python: without what is empty, docstrings,
    annotations of arguments and positions."""
    if isinstance(node, list):
        return [_tree(n) for n in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    without = {"annotation"} if isinstance(node, ast.arg) else {"returns", "type_comment", "kind", "ctx"}
    parts: list[Any] = [type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list):
            value = [n for n in value if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
        if name not in without and value is not None and value != []:
            parts.append([name, _tree(value)])
    return parts
