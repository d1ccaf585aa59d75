"""Pages of the documentation that are made from the code, as a hook of mkdocs (`hooks:` in mkdocs.yml).

Made in memory at build time: the command line from `--help`, one page an experiment, one a work with its claims, one
a room of the package, and the project's own CONTRIBUTING and CHANGELOG.
"""

import ast
import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import io
import os
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("list", "run", "verify", "report", "diff", "data", "gemfilter", "domains", "inspect", "adapt", "bench")
ROOMS = (
    "core",
    "tasks",
    "nets",
    "learn",
    "kernels",
    "measure",
    "methods",
    "data",
    "lab",
    "report",
    "apply",
)


# --- text -----------------------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Plain text as Markdown that shows it as it is; what stands in backticks stays code."""
    parts = re.split(r"(`[^`\n]+`)", text)
    for i in range(0, len(parts), 2):
        shown = parts[i].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        parts[i] = re.sub(r"([\\*_\[\]#|~`])", r"\\\1", shown)
    return "".join(parts)


def cell(value: object) -> str:
    """One cell of a Markdown table."""
    return escape(" ".join(str(value).split()))


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table of ready cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def docstring(text: str) -> str:
    """A docstring as Markdown: paragraphs as they stand, examples as code."""
    out: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        before, arrow, code = block.partition(">>> ")
        if arrow:
            lead = before.rstrip()
            if lead:
                out.append(escape(lead))
            out.append("```pycon\n" + textwrap.dedent(" " * (len(before) - len(lead) - 1) + arrow + code) + "\n```")
        else:
            out.append(escape(block))
    return "\n\n".join(out)


def code(text: str, language: str = "") -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```\n"


# --- the command line ------------------------------------------------------------------------------------------------


def help_of(words: list[str]) -> str:
    """What `featlearn <words> --help` prints, 80 columns wide."""
    from featlearn.cli import main

    before = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR", "TERM")}
    os.environ.update(COLUMNS="80", NO_COLOR="1", TERM="dumb")
    shown = io.StringIO()
    try:
        with contextlib.redirect_stdout(shown):
            main([*words, "--help"])
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue()).replace(str(Path.home()), "~")


def cli_page() -> str:
    """Every command and its flags."""
    out = [
        "# Command line",
        "Exit status: 0 done, 1 something failed or a verdict differs from the expected one, 2 bad arguments."
        " With `--json` one JSON document goes to stdout and everything else to stderr.",
        code(help_of([]), "text"),
    ]
    for name in COMMANDS:
        out += [f"## featlearn {name}", code(help_of([name]), "text")]
    return "\n\n".join(out)


# --- experiments -----------------------------------------------------------------------------------------------------


def field_help(kind: type) -> dict[str, str]:
    """The docstring below each field of a dataclass, bases included."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        with contextlib.suppress(OSError, TypeError):
            (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(body, ast.ClassDef)
            for one, following in zip(body.body, body.body[1:], strict=False):
                is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and is_text:
                    found[one.target.id] = inspect.cleandoc(str(following.value.value))
    return found


def duration(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def expected(experiment: Any, config: Any) -> str:
    """Expected seconds on one core and peak memory of one process."""
    costs = [experiment.cost(c) for c in experiment.trials(config)]
    return f"{duration(sum(c.seconds for c in costs))}, {max(c.mib for c in costs):.0f} MiB"


def experiment_page(experiment: Any) -> str:
    """Docstring, entries, command, settings and deviations of one experiment."""
    from featlearn.lab import inventory

    module = inspect.getmodule(experiment.Config)
    names = list(experiment.presets)
    fields = [f for f in dataclasses.fields(experiment.Config) if f.init]
    helps = field_help(experiment.Config)
    out = [f"# {escape(experiment.title)}", f"`{experiment.id}`, version {experiment.version}"]
    if module and module.__doc__:
        out.append(docstring(module.__doc__))
    out += ["## Run it", code("\n".join(f"featlearn run {experiment.id} --preset {n}" for n in names), "sh")]
    rows = [[f"`{n}`", str(len(experiment.trials(c))), expected(experiment, c)] for n, c in experiment.presets.items()]
    out.append(table(["preset", "trials", "expected on one core"], rows))
    rows = [[f"`{id_}`", cell(inventory.entry(id_).says)] for id_ in experiment.reproduces]
    out += ["## What the work reports", table(["entry", "says"], rows) if rows else "An experiment of its own."]
    rows = [
        [f"`--{f.name.replace('_', '-')}`", cell(helps.get(f.name, ""))]
        + [f"`{shown(getattr(experiment.presets[n], f.name))}`" for n in names]
        for f in fields
    ]
    out += ["## Settings", table(["flag", "meaning", *names], rows)]
    rows = [[cell(d.what), cell(d.reported), cell(d.ours), cell(d.why)] for d in experiment.deviations]
    out += [
        "## Where we differ from the paper",
        table(["what", "reported", "ours", "why"], rows) if rows else "Nowhere.",
    ]
    return "\n\n".join(out)


def shown(value: Any) -> str:
    """A setting as it is typed on the command line."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


# --- works and claims ------------------------------------------------------------------------------------------------


def works_table() -> str:
    """The eleven works with the state of their entries and claims."""
    from featlearn import catalog
    from featlearn.lab import inventory

    found = catalog.read()
    rows = []
    for w in found["works"]:
        runs = sum(e["id"].split("/")[0] == w["id"] for e in found["experiments"])
        claims = [c for c in found["claims"] if c["id"].split(".")[0] == w["id"]]
        covered = len(catalog.covered(found, w["id"]))
        numbers = [str(w["entries"]), str(covered), str(runs), str(len(claims))]
        paper = inventory.load(w["id"]).papers[0]
        rows.append(
            [f"`{w['id']}`", f"{cell(w['title'])} ([{paper.short}]({paper.url}))", *numbers, outcomes_said(claims)]
        )
    return table(["work", "what", "entries", "covered", "experiments", "claims", "verdicts of the claims"], rows)


def outcomes_said(claims: list[dict[str, Any]]) -> str:
    """How many claims of a work have which outcome as stated, and how many are of another scope or stale."""
    from featlearn.lab.statement import OUTCOMES

    fresh = [c for c in claims if not c["stale"]]
    stated = [c["verdict"] for c in fresh if c["scope"] == "as stated"]
    parts = [f"{stated.count(o)} {o}" for o in reversed(OUTCOMES) if o in stated]
    elsewhere = len(fresh) - len(stated)
    parts += [f"{elsewhere} in another scope"] if elsewhere else []
    parts += [f"{len(claims) - len(fresh)} stale"] if len(fresh) < len(claims) else []
    return ", ".join(parts) or "-"


def works_page() -> str:
    """The works, what covered means, and how to cite them."""
    from featlearn.lab.citation import papers

    return "\n\n".join(
        [
            "# Works",
            "An entry is a table, figure, theorem or method of a work. It is covered when committed rows of an"
            " experiment that reproduces it stand beside it, or when a claim covers it: a statement of the source could"
            " have failed, and it was confirmed or contradicted. [Concepts](concepts.md#verdicts) has the details.",
            works_table(),
            "## Papers",
            "To cite a result, cite the work that reported it.",
            *(f"- {escape(p.full)}" + (f" [arXiv:{p.arxiv}]({p.url})" if p.url else "") for p in papers().values()),
            code("\n\n".join(p.bibtex for p in papers().values()), "bibtex"),
        ]
    )


WORKS_IN_README = re.compile(r"(<!-- works: begin[^\n]*-->\n).*?(<!-- works: end -->)", re.S)


def readme(text: str) -> str:
    """The README with the table of works as it is now."""
    return WORKS_IN_README.sub(lambda found: found[1] + works_table() + found[2], text)


def claims_page(work: str, claims: tuple[Any, ...]) -> str:
    """The claims of one work."""
    from featlearn.lab import inventory
    from featlearn.lab.claim import HITS

    out = [f"# Claims of {work}", f"{escape(inventory.load(work).title)}", code(f"featlearn verify {work}", "sh")]
    for c in claims:
        out += [f"## {escape(c.id)}", escape(c.says)]
        a = c.accuses
        said = f'{HITS[a.hits]}: "{escape(a.quote)}" ({escape(a.place)}). {escape(a.reading)}' if a else ""
        said = "\n\n".join(filter(None, (said, escape(c.remarks))))
        out += [said] if said else []
        out.append("Entries: " + ", ".join(f"`{e}`" for e in c.entries) + ".")
        out.append(code(f"featlearn verify {c.id}", "sh"))
    return "\n\n".join(out)


# --- rooms -----------------------------------------------------------------------------------------------------------


def modules_of(room: str) -> Iterator[ModuleType]:
    """A room and the modules in it."""
    package = importlib.import_module(f"featlearn.{room}")
    yield package
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(info.name)


def public(module: ModuleType) -> list[tuple[str, Any]]:
    """Classes and functions that a module makes public: its `__all__`, else what it defines."""
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    found = [(n, getattr(module, n)) for n in names]
    things = [(n, x) for n, x in found if inspect.isclass(x) or inspect.isfunction(x)]
    return [(n, x) for n, x in things if hasattr(module, "__all__") or x.__module__ == module.__name__]


def signature(name: str, thing: Any) -> str:
    """`name(arguments) -> result`, without the annotations that make it unreadable."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    plain = [
        p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values() if not p.name.startswith("_")
    ]
    text = str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return f"{name}{re.sub(r'<factory>|<function [^>]*>|<[^>]*object at 0x[^>]*>', '...', text)}"


def room_page(room: str) -> str:
    """Docstrings of a room: the public names of its `__init__`, or of each of its modules."""
    package, *modules = list(modules_of(room))
    out = [f"# featlearn.{room}", docstring(package.__doc__ or "")]
    names = public(package)
    sections = [(package, names)] if names else [(m, public(m)) for m in modules]
    for module, things in sections:
        if module is not package and things:
            out += [f"## {escape(module.__name__.removeprefix('featlearn.'))}", docstring(module.__doc__ or "")]
        for name, thing in things:
            doc = thing.__doc__ or ""
            if doc.startswith(f"{name}("):
                doc = ""  # made by dataclass
            level = "##" if module is package else "###"
            out += [f"{level} {escape(name)}", code(signature(name, thing), "python"), docstring(doc)]
            if inspect.isclass(thing):
                out += [item for method in methods(thing) for item in method]
    return "\n\n".join(out)


def methods(kind: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties with a docstring that a class itself defines."""
    for name, found in vars(kind).items():
        thing = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if name.startswith("_") or not inspect.isfunction(thing) or not thing.__doc__:
            continue
        label = (
            name
            if isinstance(found, property)
            else signature(name, thing).replace("(self, ", "(").replace("(self)", "()")
        )
        yield f"**`.{label}`**", docstring(thing.__doc__)


# --- the hook --------------------------------------------------------------------------------------------------------


def pages() -> Iterator[tuple[str, str, str, str]]:
    """(section, title, path, Markdown) of every generated page."""
    from featlearn import works
    from featlearn.report import glossary

    yield "", "", "cli.md", cli_page()
    yield "", "", "glossary.md", glossary.markdown()
    yield "Works", "Overview", "works.md", works_page()
    for id_ in works.EXPERIMENTS:
        yield "Experiments", id_, f"experiments/{id_}.md", experiment_page(works.load_experiment(id_))
    for work in works.WITH_CLAIMS:
        yield "Works", f"Claims of {work}", f"claims/{work}.md", claims_page(work, works.load_claims(work))
    for room in ROOMS:
        if importlib.util.find_spec(f"featlearn.{room}") is not None:
            yield "Rooms", room, f"rooms/{room}.md", room_page(room)
    yield "Project", "Contributing", "contributing.md", (ROOT / "CONTRIBUTING.md").read_text()
    yield "Project", "Changelog", "changelog.md", (ROOT / "CHANGELOG.md").read_text()


_made: list[tuple[str, str, str, str]] = []


def on_config(config: Any) -> Any:
    """Make the pages and put them into the navigation."""
    _made[:] = list(pages())
    sections: dict[str, list[dict[str, str]]] = {}
    for section, title, path, _ in _made:
        if section:
            sections.setdefault(section, []).append({title: path})
    config.nav = [*config.nav, *({name: items} for name, items in sections.items())]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Hand the pages to mkdocs; nothing is written into docs/."""
    from mkdocs.structure.files import File

    for _, _, path, text in _made:
        files.append(File.generated(config, path, content=text))
    return files


if __name__ == "__main__":
    README = ROOT / "README.md"
    README.write_text(readme(README.read_text()))
    print("README.md: table of works written")
