"""The rooms of the package: who imports whom, what is loaded when, file sizes, docstrings."""

import ast
import importlib
import importlib.util
import inspect
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import featlearn

PACKAGE = Path(featlearn.__file__).parent
FILES = sorted(p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py"))

TENSOR = {"numpy", "torch", "jaxtyping", "scipy"}
PLOT = {"matplotlib"}
LOOPS = {"lightning", "pytorch_lightning"}
BACKBONES = {"torchvision", "timm", "huggingface_hub", "onnx", "onnxscript", "onnxruntime"}
LLM = {"transformers", "tokenizers", "safetensors", "accelerate", "gguf"}

# room -> (rooms it may import, packages it may import, packages it may import inside functions only)
RULES: dict[str, tuple[set[str], set[str], set[str]]] = {
    "errors": (set(), set(), set()),
    "core": (set(), {"numpy", "torch", "jaxtyping"}, set()),
    "tasks": ({"core"}, TENSOR, set()),
    "nets": ({"core"}, TENSOR, {"torchvision"}),
    "learn": ({"core", "nets"}, TENSOR, {"lightly"}),  # it trains networks with the gradients that nets writes
    "kernels": ({"core"}, TENSOR, {"sklearn"}),
    "measure": ({"core"}, TENSOR, {"sklearn"}),
    "methods": ({"core"}, TENSOR, {"transformers"}),
    "data": ({"core"}, TENSOR | {"filelock"}, {"sklearn", "torchvision", "PIL"} | LLM),
    "lab": (set(), {"numpy", "scipy"}, {"threadpoolctl"}),  # which only sets the threads of numpy's own libraries
    "report": ({"lab"}, {"numpy"}, PLOT | {"scipy", "rich", "pandas", "pyarrow"}),
}
LIBRARY = {"core", "tasks", "nets", "learn", "kernels", "measure", "methods", "data"}
RULES["works"] = (LIBRARY | {"lab", "report"}, TENSOR, PLOT | {"sklearn", "transformers"})
RULES["apply"] = (LIBRARY | {"lab", "report"}, TENSOR, PLOT | LOOPS | LLM | BACKBONES | {"sklearn"})
# `--help` must not wait for torch, so the command line imports rooms inside functions (tested below by running it).
RULES["cli"] = (set(RULES) | {"catalog"}, {"tyro", "rich", "numpy"}, {"torch"})
# The command line's table of contents: made once from the code, then only read.
RULES["catalog"] = (set(RULES) - {"cli", "apply", "catalog"}, set(), set())
# The package names its rooms and loads none of them (tested below).
RULES["__init__"] = (LIBRARY | {"lab", "report", "apply"}, set(), set())
for _room in set(RULES) - {"errors", "__init__"}:
    RULES[_room][0].add("errors")  # each names what it refuses

INSIDE_FUNCTIONS_ONLY = {"cli", "catalog", "__init__"}
"""Modules that may import other rooms, the errors apart, inside functions only."""

# within a work, part -> parts it may import; what has no part is the work's own `__init__.py`
PARTS: dict[str, set[str]] = {
    "setup": set(),
    "rows": {"setup"},
    "experiments": {"rows", "setup"},
    "claims": {"rows", "setup"},
}

COMPUTED = {"lab", "cli", "works"}
"""Rooms that load what the user, or a list of names, asks for."""

IMPORTERS = {"import_module", "importlib.import_module", "__import__"}


def room_of(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def part_of(names: list[str]) -> tuple[str, str]:
    """(work, part) of what lies under works/: ("fourier", "claims"), or "" where there is none."""
    work, part = (*names, "", "")[:2]
    part = "rows" if part.startswith("rows") else part
    return work, part if part in PARTS else ""


def imports(source: str, file: str) -> list[tuple[int, str, bool]]:
    """(line, dotted name, whether inside a function) of every import, relative ones resolved; nothing is executed.

    Imports under `if TYPE_CHECKING:` count like those inside functions: an arrow is an arrow, but it loads nothing.
    """
    package = ["featlearn", *file.split("/")[:-1]]
    found: list[tuple[int, str, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend((node.lineno, a.name, inside) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from featlearn import run` and `from . import x` name the room in the second half
            whole = module == "featlearn" or not node.module
            found.extend((node.lineno, f"{module}.{a.name}" if whole else module, inside) for a in node.names)
        elif isinstance(node, ast.Call) and _name(node.func) in (
            "import_module",
            "importlib.import_module",
            "__import__",
        ):
            found.append((node.lineno, _leading_text(node.args[0]) if node.args else "", inside))
        deeper = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        deeper = deeper or (isinstance(node, ast.If) and _name(node.test).endswith("TYPE_CHECKING"))
        for child in ast.iter_child_nodes(node):
            visit(child, deeper)

    visit(ast.parse(source), False)
    return found


def _leading_text(node: ast.AST) -> str:
    """ "featlearn.theory.x" of "featlearn.theory.x" and "featlearn.theory." of f"featlearn.theory.{work}"."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def breaches(source: str, file: str) -> list[str]:
    """One line for each import of a file that its room may not make."""
    room = room_of(file)
    if room not in RULES:
        return [f"{file}: {room!r} is no room of the design; put the file into one of {', '.join(sorted(RULES))}"]
    rooms, packages, lazy = RULES[room]
    out = []
    for line, name, inside in imports(source, file):
        top, *rest = name.split(".")
        if not name:
            if room not in COMPUTED:
                out.append(f"{file}:{line}: {room} may not import a name that is computed")
        elif top == "featlearn":
            target = room_of(rest[0]) if rest else ""
            if room == target == "works":
                out += _breach_of_works(file, line, rest[1:])
            if target in ("", "__version__", room):
                continue
            if target not in rooms:
                out.append(f"{file}:{line}: {room} may not import {target}")
            elif room in INSIDE_FUNCTIONS_ONLY and not inside and target != "errors":
                out.append(f"{file}:{line}: {room} imports {target} inside functions only")
        elif top not in sys.stdlib_module_names and top not in packages:
            if top not in lazy:
                out.append(f"{file}:{line}: {room} may not import {top}")
            elif not inside:
                out.append(f"{file}:{line}: {room} imports {top} inside functions only")
    return out


def _breach_of_works(file: str, line: int, names: list[str]) -> list[str]:
    """Inside works/: never another work, and inside one only what PARTS says."""
    own, here = part_of(file.removesuffix(".py").split("/")[1:])
    work, part = part_of(names)
    if not work or work.startswith("_"):
        return (
            [f"{file}:{line}: {own} may not import the list of works"]
            if own and not own.startswith("_") and not work
            else []
        )
    if own != work:
        return [] if own == "__init__" else [f"{file}:{line}: {own} may not import {work}"]
    if here and part and part != here and part not in PARTS[here]:
        return [f"{file}:{line}: {here} may not import {part}"]
    return []


@pytest.mark.parametrize("file", FILES)
def test_imports_follow_the_table(file):
    assert breaches((PACKAGE / file).read_text(), file) == []


@pytest.mark.parametrize(
    "file, source, said",
    [
        ("core/x.py", "from featlearn.tasks import ParityMix", "core may not import tasks"),
        ("core/x.py", "from ..tasks import ParityMix", "core may not import tasks"),
        ("core/x.py", "from .. import tasks", "core may not import tasks"),
        ("tasks/x.py", "from featlearn import core, nets", "tasks may not import nets"),
        ("lab/x.py", "def f():\n    import torch", "lab may not import torch"),
        ("run/x.py", "import os", "no room of the design"),
        (
            "core/x.py",
            "import importlib\nimportlib.import_module('transformers.x')",
            "core may not import transformers",
        ),
        ("lab/x.py", "from featlearn.core import Key", "lab may not import core"),
        ("report/x.py", "from featlearn.works import load_claims", "report may not import works"),
        ("report/x.py", "from matplotlib.figure import Figure", "report imports matplotlib inside functions only"),
        ("works/fourier/claims/x.py", "from featlearn.works.nuclear import rows", "fourier may not import nuclear"),
        (
            "works/fourier/claims/x.py",
            "from featlearn.works.fourier.experiments import margin",
            "claims may not import",
        ),
        ("works/fourier/experiments/x.py", "from featlearn.works.fourier.claims import exact", "experiments may not"),
        ("works/fourier/rows.py", "from featlearn.works.fourier.claims import exact", "rows may not import claims"),
        ("works/fourier/setup.py", "from featlearn.works.fourier.rows import TRAINED", "setup may not import rows"),
        ("works/fourier/claims/x.py", "from featlearn.works import load_claims", "may not import the list of works"),
        ("works/fourier/claims/x.py", "class A:\n    import matplotlib", "works imports matplotlib inside functions"),
        ("apply/x.py", "from featlearn.works import load_claims", "apply may not import works"),
        ("cli/x.py", "from featlearn.core import Key", "cli imports core inside functions only"),
        ("works/fourier/experiments/x.py", "import featlearn.cli", "works may not import cli"),
        ("apply/x.py", "import importlib\nimportlib.import_module(x)", "a name that is computed"),
        ("core/x.py", "if TYPE_CHECKING:\n    from featlearn.tasks import ParityMix", "core may not import tasks"),
        ("errors.py", "from featlearn.core import Key", "errors may not import core"),
        ("helpers/x.py", "", "no room of the design"),
    ],
)
def test_a_forbidden_arrow_is_seen(file, source, said):
    (found,) = breaches(source, file)
    assert said in found


@pytest.mark.parametrize(
    "file, source",
    [
        ("core/x.py", "import hashlib\nimport torch\nfrom featlearn.core.key import Key\nfrom .key import Key"),
        ("tasks/x.py", "from featlearn.core import Key\nimport featlearn"),
        ("report/x.py", "def draw():\n    from matplotlib.figure import Figure\n    import pandas"),
        ("works/__init__.py", "import importlib\nimportlib.import_module(f'featlearn.works.{x}')"),
        ("works/fourier/claims/x.py", "from featlearn.works.fourier.claims.exact import points"),
        ("works/fourier/experiments/x.py", "from featlearn.works._settings import check_seeds"),
        ("cli/x.py", "def main():\n    import featlearn.works\n    from featlearn import works"),
        ("cli/x.py", "from featlearn.errors import CommandError"),
        ("cli/x.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from featlearn.core import Key"),
    ],
)
def test_an_allowed_arrow_passes(file, source):
    assert breaches(source, file) == []


def test_only_the_command_line_imports_works():
    assert {room for room, (rooms, _, _) in RULES.items() if "works" in rooms} == {"cli", "catalog"}


def test_no_circle_of_imports():
    """Modules by what they import at the top or inside functions; a list of names to load is no arrow of its own."""
    modules = {"featlearn." + f.removesuffix(".py").removesuffix("/__init__").replace("/", "."): f for f in FILES}
    arrows: dict[str, set[str]] = {}
    for module, file in modules.items():
        found = {name for _, name, _ in imports((PACKAGE / file).read_text(), file)}
        found |= {f"{n}.{a}" for n, a in _members((PACKAGE / file).read_text())}
        arrows[module] = {name for name in found if name in modules and name != module}
        inside = {name for name in arrows[module] if name.startswith(module + ".")}
        arrows[module] -= inside if file.endswith("__init__.py") else set()  # a facade shows what is below it
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for name in sorted(arrows[module]):
                visit(name, (*path, module))
            done.add(module)

    for module in modules:
        visit(module, ())


def _members(source: str) -> list[tuple[str, str]]:
    found = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ImportFrom) and n.module]
    return [(str(n.module), a.name) for n in found for a in n.names]


HEAVY = ("torch", "transformers", "matplotlib", "scipy", "sklearn")


def loaded_after(code: str) -> tuple[str, list[str]]:
    """What a new interpreter prints, and which heavy packages it has loaded at its end."""
    code = f"import sys\ntry:\n    {code}\nfinally:\n    print('LOADED', *[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    *head, last = done.stdout.rstrip().split("\n")
    assert last.startswith("LOADED"), done.stdout + done.stderr
    return "\n".join(head) + done.stderr, last.split()[1:]


FACADES = """
import featlearn
for name in featlearn.__all__:
    module = getattr(featlearn, name)
    assert name in dir(featlearn) and module.__doc__, name
    for word in getattr(module, "__all__", ()):
        assert hasattr(module, word), (name, word)
assert featlearn.gemfilter.answer.__name__ == "answer" and featlearn.domains.fit.__name__ == "fit"
from featlearn import domains, gemfilter
assert gemfilter is featlearn.gemfilter and not hasattr(featlearn, "gemfliter")
"""


def test_rooms_and_facades_are_there_when_they_are_named():
    done = subprocess.run([sys.executable, "-c", FACADES], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_probe_for_heavy_packages_sees_one():
    assert loaded_after("import scipy, featlearn")[1] == ["scipy"]


def test_importing_featlearn_loads_nothing_heavy():
    assert loaded_after("import featlearn")[1] == []


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list"], ["list", "--json"], ["rum"]], ids=" ".join)
def test_the_first_words_of_the_command_line_load_nothing_heavy(words, catalog_kept):
    printed, heavy = loaded_after(f"sys.argv = {['featlearn', *words]!r}; from featlearn.cli import main; main()")
    assert "Traceback" not in printed.replace("SystemExit", "")
    assert heavy == []


@pytest.mark.parametrize("file", FILES)
def test_files_stay_short(file):
    lines = len((PACKAGE / file).read_text().splitlines())
    assert lines < 600, f"{file} has {lines} lines: split it by subject"
    if lines >= 500:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(f"{file} has {lines} lines: near the limit of 600", stacklevel=1)


ROOMS = sorted(f"featlearn.{f[: -len('/__init__.py')].replace('/', '.')}" for f in FILES if f.endswith("/__init__.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_public_names_are_documented(room):
    module = importlib.import_module(room)
    assert module.__doc__, f"{room} has no docstring"
    missing = []
    for name in getattr(module, "__all__", ()):
        found = getattr(module, name)  # AttributeError: a name in __all__ that does not exist
        if (inspect.isfunction(found) or inspect.isclass(found)) and not _has_docstring(found):
            missing.append(name)
    assert not missing, f"{room}: no docstring: {', '.join(missing)}"


def _has_docstring(thing: object) -> bool:
    doc = thing.__doc__ or ""
    # a dataclass without a docstring gets its signature as one
    return bool(doc) and not doc.startswith(f"{getattr(thing, '__name__', '')}(")


def test_the_table_of_rooms_in_contributing_is_current():
    path = PACKAGE.parents[1] / "scripts/rooms_table.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    rooms_table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms_table)
    text = rooms_table.PAGE.read_text()
    assert len(rooms_table.MARKED.findall(text)) == 1
    assert rooms_table.page(text) == text, "run: python scripts/rooms_table.py"
    assert {m for line in text.splitlines() if (m := line[3:].split("`")[0]) in RULES} == set(RULES) - {"__init__"}
