"""The field's words: names that the project has given up come back in no identifier, flag, header or evidence key."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import featlearn

PACKAGE = Path(featlearn.__file__).parent
ROOT = PACKAGE.parents[1]
RETIRED = {
    "cell": "trial",
    "choosing": "validation",
    "fresh": "one pass, or new",
    "lean": "chunked",
    "look": "evaluation",
    "print": "reported",
    "team": "distributed",
}
"""Words of identifiers, in the singular, and what the project says instead; docs/glossary.md defines the latter."""
RETIRED |= {"cells": "trials", "looks": "evaluations", "printed": "reported", "teams": "processes"}
NAMES = {"Alone": "SingleProcess", "Reading": "TokenizedPrompt or Preprocessing", "BEST_FIRST": "LARGEST_FIRST"}
"""Whole identifiers, and what the project says instead."""
HEADERS = {*RETIRED, "no print", "choose", "find.best"}
"""Texts that must not stand alone as a header, a level, a verdict or a key."""

IN_ANY_FILE = {
    "print": "the built-in function",
    "print_json": "writes to stdout",
    "cell_contents": "of a closure in Python",
    "_print_reply": "writes to stdout",
    "_print_differences": "writes to stdout",
    "look_up": "a verb: in a table",
    "_look_up": "a verb: in a table",
    "looks_local": "a verb: of a name",
    "looks_like_an_image": "a verb: of bytes",
}
"""Identifiers that hold a retired word in another sense, and in which."""
TABLES = "of a table in a paper, on a page or in a terminal"
IN_FILES = {
    ("cell", "report/compare.py"): TABLES,
    ("cell", "report/html.py"): TABLES,
    ("cell", "report/pages.py"): TABLES,
    ("cell", "report/results.py"): TABLES,
    ("cell", "lab/inventory.py"): TABLES,
    ("cell", "cli/_show.py"): TABLES,
    ("cell", "cli/gemfilter/calibrate.py"): TABLES,
    ("cell", "cli/gemfilter/longbench.py"): TABLES,
    ("cell", "works/gemfilter/claims/tables.py"): TABLES,
    ("cell", "works/_audit.py"): TABLES,
    ("cell", "works/emergence/rows.py"): TABLES,
    ("cell", "works/tradeoff/claims/tables.py"): TABLES,
    ("cell", "works/xor_sgd/claims/limits.py"): "of a cube that hyperplanes cut",
}
"""(word, file): the sense that it has there."""
TEXTS = {
    ("choose", "tasks/needles.py"): "a part of the path of random keys, which stays so that committed prompts do",
    ("choose", "apply/gemfilter/answer.py"): "a verb: the function that chooses tokens",
    ("choose", "apply/gemfilter/pipeline.py"): "a verb: the function that chooses tokens",
    ("choose", "cli/gemfilter/generate.py"): "a verb: the function that chooses tokens",
    ("choose", "methods/gemfilter/blocks.py"): "a verb: the function that chooses tokens",
    ("choose", "methods/gemfilter/generating.py"): "a verb: the function that chooses tokens",
    ("cells", "works/xor_sgd/claims/limits.py"): "of a cube that hyperplanes cut",
}
"""(text, file): the sense that it has there."""


def words(name: str) -> list[str]:
    """The words of an identifier, in snake or camel case."""
    return re.findall(r"[a-z]+|[A-Z][a-z]*", re.sub(r"([A-Z]+)(?=$|[^a-z])", lambda m: m[1].lower(), name))


def retired(name: str) -> list[str]:
    """The retired words in an identifier."""
    return [w.lower() for w in words(name) if w.lower() in RETIRED]


def names_and_texts(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """(line, text, whether it is an identifier) of everything that a module names or writes as a literal."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield line, name, True
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name, True
            case ast.alias(name=name):
                yield line, name.rpartition(".")[2], True
            case ast.Constant(value=str(text)):
                yield line, text, False
            case _:
                pass


SOURCES = sorted(PACKAGE.rglob("*.py"))


def offences(file: str, text: str) -> list[str]:
    """What of a source uses a retired word, with what to say instead."""
    out = []
    for line, name, identifier in names_and_texts(ast.parse(text)):
        if identifier and name not in IN_ANY_FILE:
            out += [
                f"{file}:{line}: {name}: say {RETIRED[w]}"
                for w in retired(name)
                if (w.removesuffix("s"), file) not in IN_FILES
            ]
            out += [f"{file}:{line}: {name}: say {NAMES[name]}"] if name in NAMES else []
        if not identifier and name in HEADERS and (name, file) not in TEXTS:
            out.append(f"{file}:{line}: {name!r}")
    return out


def test_no_retired_word_in_an_identifier_a_flag_or_a_header():
    found = [o for p in SOURCES for o in offences(p.relative_to(PACKAGE).as_posix(), p.read_text())]
    assert found == []


def test_no_retired_word_in_the_name_of_a_file():
    assert [p.name for p in SOURCES if retired(p.stem)] == []


@pytest.mark.parametrize("work", sorted(p.name for p in (ROOT / "evidence").iterdir()))
def test_no_retired_word_in_a_key_or_a_level_of_the_evidence(work):
    found = set()
    for path in (ROOT / "evidence" / work).rglob("*.json"):
        stack = [json.loads(path.read_bytes())]
        while stack:
            value = stack.pop()
            if isinstance(value, dict):
                found |= {key for key in value if retired(key) or key in HEADERS}
                stack += value.values()
            elif isinstance(value, list):
                stack += value
            elif isinstance(value, str) and value in HEADERS:
                found.add(value)
    # the cells into which n samples cut the cube (Claim F.2 of xor_sgd): an observation of that name
    assert found - ({"cells"} if work == "verdicts" else set()) == set()


def test_no_retired_word_in_a_field_of_the_inventories():
    for path in PACKAGE.glob("works/*/work.toml"):
        keys = re.findall(r"^\s*\[*([A-Za-z_.0-9]+)\]*\s*(?:=|$)", path.read_text(), re.M)
        own = {k for k in keys for part in k.split(".") if retired(part)} - {"cells"}  # of a table in a paper
        assert own == set(), path


def test_the_exceptions_are_still_needed():
    """An exception without a use would let the word come back."""
    used = {p.relative_to(PACKAGE).as_posix(): list(names_and_texts(ast.parse(p.read_text()))) for p in SOURCES}
    everywhere = {name for found in used.values() for _, name, identifier in found if identifier}
    assert set(IN_ANY_FILE) <= everywhere
    for word, file in IN_FILES:
        assert any(word in (w.removesuffix("s") for w in retired(name)) for _, name, i in used[file] if i), (word, file)
    for text, file in TEXTS:
        assert any(name == text for _, name, identifier in used[file] if not identifier), (text, file)


@pytest.mark.parametrize(
    "source",
    [
        "def run_cell(): ...",
        "x.printed",
        "f(looks=3)",
        "class Alone: ...",
        "FRESH = 1",
        "table('print')",
        "x = 'choose'",
    ],
)
def test_each_kind_of_use_is_seen(source):
    assert len(offences("works/new.py", source)) == 1


@pytest.mark.parametrize("source", ["clean, misprint, fingerprint = cancelled, excellent, lookup", "print('a cell')"])
def test_other_words_are_left_alone(source):
    assert offences("works/new.py", source) == []
