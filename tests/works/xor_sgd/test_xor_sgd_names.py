"""How many names of core, lab and report a claim and an experiment of the XOR work use, attributes counted: a ratchet.

A claim uses what its functions (settings, statements, observe, premises) and the helpers that they reach in its module
use, with annotations, and the names of its own call of `Claim`; an experiment what its module uses. Counted are names
imported from the three rooms, and attributes that a class of theirs and none of the work defines, looked up on what
comes from an argument of such a class, or on anything where no array, tensor, text or container has an attribute of
that name.
"""

import ast
import importlib
import inspect
import pkgutil
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

import featlearn
from featlearn.works import xor_sgd

ROOMS = ("core", "lab", "report")
TARGET = {"claims": 6, "experiments": 12}
"""What a new one should need at most."""
MOST: Mapping[str, tuple[float, int]] = {"claims": (9.0, 19), "experiments": (20.5, 22)}
"""The largest median and the largest number that are accepted: lower them when they have fallen, never raise them."""
OTHERS = (np.ndarray, torch.Tensor, str, dict, list, tuple, set, float, int)
FOLDER = Path(inspect.getfile(xor_sgd)).parent


def room_attributes() -> frozenset[str]:
    """Public attributes that the classes of the rooms define: fields, methods and properties."""
    found: set[str] = set()
    for room in ROOMS:
        package = importlib.import_module(f"featlearn.{room}")
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for kind in vars(importlib.import_module(info.name)).values():
                if inspect.isclass(kind) and kind.__module__ == info.name:
                    found |= {n for n in (*vars(kind), *getattr(kind, "__annotations__", ())) if n[0] != "_"}
    return frozenset(found)


def own_attributes() -> set[str]:
    """Fields, methods and properties that the classes of the work define: columns of rows, settings, trials."""
    found: set[str] = set()
    for path in FOLDER.rglob("*.py"):
        for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for n in kind.body if isinstance(kind, ast.ClassDef) else ():
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name):
                    found.add(n.target.id)
                if isinstance(n, ast.FunctionDef):
                    found.add(n.name)
    return found


ATTRIBUTES = room_attributes() - own_attributes()
COMMON = frozenset(name for kind in OTHERS for name in dir(kind))


def imported(tree: ast.Module) -> set[str]:
    """Names that a module imports from the rooms."""
    rooms = tuple(f"featlearn.{room}" for room in ROOMS)
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(rooms):
            found |= {a.asname or a.name for a in node.names}
        if isinstance(node, ast.ImportFrom) and node.module == "featlearn":
            found |= {a.asname or a.name for a in node.names if a.name in ROOMS}
    return found


def root(node: ast.AST) -> str:
    """The name at the start of a chain of attributes, calls and subscripts, or ""."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def names(node: ast.AST | None) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node is not None else set()


def ours(parts: Iterable[ast.AST], known: set[str]) -> set[str]:
    """Variables that hold something of the rooms: arguments of their types, and what is taken out of those."""
    found: set[str] = set()
    nodes = [n for part in parts for n in ast.walk(part)]
    for n in nodes:
        if isinstance(n, ast.arg) and names(n.annotation) & known:
            found.add(n.arg)
    for _ in range(3):  # assignments of assignments
        for n in nodes:
            if isinstance(n, ast.Assign) and root(n.value) in found | known:
                found |= {m for t in n.targets for m in names(t)}
            if isinstance(n, ast.For | ast.comprehension) and root(n.iter) in found:
                found |= names(n.target)
    return found


def used(parts: list[ast.AST], known: set[str]) -> set[str]:
    """Names of the rooms that some code uses; known: those imported in its module."""
    out: set[str] = set()
    held = ours(parts, known)
    for part in parts:
        for n in ast.walk(part):
            if isinstance(n, ast.Name) and n.id in known:
                out.add(n.id)
            if isinstance(n, ast.Attribute) and n.attr in ATTRIBUTES:
                start = root(n)
                if start in held | known or (n.attr not in COMMON and start not in ("np", "math", "torch")):
                    out.add(f".{n.attr}")
    return out


def claims(path: Path) -> Iterator[tuple[str, set[str]]]:
    """(id, names) of each claim of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and root(call) == "Claim" and isinstance(call.func, ast.Name)):
            continue
        parts: dict[str, ast.AST] = {}
        stack: list[ast.AST] = [call]
        while stack:
            for name in names(stack.pop()) & set(defined) - set(parts):
                parts[name] = defined[name]
                stack.append(defined[name])
        (id_,) = [k.value for k in call.keywords if k.arg == "id"]
        said = ast.literal_eval(id_) if isinstance(id_, ast.Constant) else f"{path.stem}: {ast.unparse(id_)}"
        yield said, used([call, *parts.values()], imported(tree))


def counts() -> dict[str, dict[str, set[str]]]:
    """The names that each claim and each experiment uses."""
    found: dict[str, dict[str, set[str]]] = {"claims": {}, "experiments": {}}
    for module in xor_sgd.CLAIMS:
        found["claims"] |= dict(claims(FOLDER / "claims" / f"{module}.py"))
    for module in xor_sgd.EXPERIMENTS:
        tree = ast.parse((FOLDER / "experiments" / f"{module}.py").read_text(encoding="utf-8"))
        body: list[ast.AST] = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)]
        found["experiments"][module] = used(body, imported(tree))
    return found


@pytest.mark.parametrize("kind", MOST)
def test_claims_and_experiments_do_not_come_to_need_more_names(kind):
    found = {name: len(those) for name, those in counts()[kind].items()}
    median, most = MOST[kind]
    worst = max(found, key=lambda name: found[name])
    assert statistics.median(found.values()) <= median, found
    assert found[worst] <= most, f"{worst} uses {sorted(counts()[kind][worst])}"


def test_what_is_counted():
    """Imported names and attributes of what comes from the rooms; not those of arrays, nor what is not used."""
    code = """
from featlearn.core import Key
from featlearn.lab.statement import equal, order
from featlearn.lab.table import Table
from featlearn.works.xor_sgd.setup import centres

def observe(settings, table: Table[int]):
    part = table.where(d=1)
    x = np.array([r.d for r in part.rows])
    return {"a": x.mean(), "b": part.by("d")}
"""
    tree = ast.parse(code)
    assert imported(tree) == {"Key", "equal", "order", "Table"}
    assert used([tree.body[-1]], imported(tree)) == {"Table", ".where", ".rows", ".by"}
    assert Path(featlearn.__file__).parent in FOLDER.parents
