"""The table of rooms in CONTRIBUTING.md, from the rules that tests/test_rooms.py enforces.

    python scripts/rooms_table.py

What a room holds is the first sentence of its own docstring.
"""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
MARKED = re.compile(r"(<!-- rooms: begin[^\n]*-->\n).*?(<!-- rooms: end -->)", re.S)


def rules() -> ModuleType:
    """The module of the rules."""
    spec = importlib.util.spec_from_file_location("rooms_rules", ROOT / "tests/test_rooms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def holds(room: str) -> str:
    """The first sentence of a room's docstring."""
    folder = ROOT / "src/featlearn" / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
    return re.split(r"\.(?: |$)", said)[0].replace("|", r"\|")


def listed(names: Iterable[str]) -> str:
    """Names as code, or a dash."""
    return ", ".join(f"`{n}`" for n in names) or "-"


def table() -> str:
    """The table in Markdown."""
    found = rules()
    order = [room for room in found.RULES if room != "__init__"]
    lines = ["| room | holds | may import | packages | packages inside functions |", "| --- | --- | --- | --- | --- |"]
    for room in order:
        rooms, packages, lazy = found.RULES[room]
        all_of_it = found.LIBRARY <= rooms
        named = listed(r for r in order if r in rooms and not (all_of_it and r in found.LIBRARY))
        reach = f"the library, {named}" if all_of_it else named
        lines.append(f"| `{room}` | {holds(room)} | {reach} | {listed(sorted(packages))} | {listed(sorted(lazy))} |")
    library = listed(r for r in order if r in found.LIBRARY)
    return "\n".join(lines) + f"\n\nThe library: {library}. Beyond these, the standard library.\n"


def page(text: str) -> str:
    """CONTRIBUTING.md with the table as it is now."""
    return MARKED.sub(lambda found: found[1] + table() + found[2], text)


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    if len(MARKED.findall(before)) != 1:
        sys.exit(f"{PAGE.name} has no pair of marks <!-- rooms: begin --> and <!-- rooms: end -->: add them")
    PAGE.write_text(page(before), encoding="utf-8")
