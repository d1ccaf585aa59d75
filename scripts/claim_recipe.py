"""The claim that CONTRIBUTING.md shows, quoted from the code as a module of its own.

    python scripts/claim_recipe.py

Quoted are the claim, the functions and constants that it reaches in its module, and the imports that these need.
"""

import ast
import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
CLAIM = "xor_sgd.decomposition"
SAYS = "Table 1: the three parts of a neuron, and the sign that decides which mean is its own."
MARKED = re.compile(r"(<!-- claim: begin[^\n]*-->\n).*?(<!-- claim: end -->)", re.S)


def found(claim: str, works: Path) -> tuple[Path, ast.Call]:
    """The module in which a claim stands, and its call of `Claim`. Errors: LookupError where there is none."""
    for path in sorted((works / claim.partition(".")[0] / "claims").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
                ids = [k.value.value for k in node.keywords if k.arg == "id" and isinstance(k.value, ast.Constant)]
                if ids == [claim]:
                    return path, node
    raise LookupError(f"no claim {claim!r} below {works}")


def quoted(claim: str, works: Path) -> str:
    """A module that holds one claim and nothing else, each part as it stands in the code."""
    path, call = found(claim, works)
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    defined: dict[str, ast.stmt] = {}
    for node in tree.body:
        names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        names += [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
        defined |= dict.fromkeys(names, node)
    needed = reached(call, defined)
    parts = [n for n in tree.body if any(defined.get(name) is n for name in needed)]
    imports = [line for n in tree.body if (line := kept_import(n, needed | {"Claim"}))]
    out = f'"""{SAYS}"""\n\n'
    last = None
    for line in imports:
        group = "ours" if "featlearn" in line else "numpy" if "numpy" in line else "standard"
        out += ("\n" if last not in (None, group) else "") + line + "\n"
        last = group
    for node in parts:
        gap = "\n" if isinstance(node, ast.Assign) else "\n\n"
        out += f"{gap}{ast.get_source_segment(text, node)}\n"
    indented = ast.get_source_segment(text, call, padded=True) or ""
    return f"{out}\n\nCLAIMS: tuple[Claim, ...] = (\n    {indented.lstrip()},\n)\n"


def reached(start: ast.AST, defined: Mapping[str, ast.stmt]) -> set[str]:
    """Names that a piece of code uses, and those of what it reaches in its module."""
    names: set[str] = set()
    stack: list[ast.AST] = [start]
    while stack:
        for node in ast.walk(stack.pop()):
            if isinstance(node, ast.Name) and node.id not in names:
                names.add(node.id)
                if node.id in defined:
                    stack.append(defined[node.id])
    return names


def kept_import(node: ast.stmt, names: set[str]) -> str:
    """An import of the names that are used, or ""."""
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return ""
    kept = [a for a in node.names if (a.asname or a.name) in names]
    listed = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in kept)
    if not kept:
        return ""
    return f"from {node.module} import {listed}" if isinstance(node, ast.ImportFrom) else f"import {listed}"


def page(text: str, works: Path = ROOT / "src/featlearn/works") -> str:
    """CONTRIBUTING.md with the claim as the code has it now."""
    work, _, name = CLAIM.partition(".")
    block = f'```python title="src/featlearn/works/{work}/claims/{name}.py"\n{quoted(CLAIM, works)}```\n'
    return MARKED.sub(lambda m: f"{m[1]}{block}{m[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write("CONTRIBUTING.md: the claim written\n")
