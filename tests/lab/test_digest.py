"""Digests: what changes them and what does not."""

import dataclasses
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from featlearn.lab import digest as digests
from featlearn.lab import inventory
from featlearn.lab.digest import code_digest, rows_digest
from featlearn.lab.verdicts import digest_of

SOURCE = '''
"""A module."""
RATE = 0.5
TABLE = {"a": 1}

@__import__("functools").cache
def cached(x):
    return x + 5

def helper(x):
    """Doc."""
    return x * 2

def unused(x):
    return x + 1

class Shape:
    def area(self):
        return 3

def measure(x):
    # a comment
    def inner(y):
        return y - 1
    return helper(inner(x)) * RATE + TABLE["a"] + Shape().area() + cached(x)
'''


@pytest.fixture
def digest(tmp_path, monkeypatch):
    made = []

    def digest_of(source: str) -> str:
        name = f"featlearn_digest_{len(made)}"
        path = tmp_path / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        made.append(module)
        return code_digest(module.measure)

    return digest_of


@pytest.mark.parametrize(
    "change",
    [
        ("# a comment", "# another, longer comment\n"),
        ('"""Doc."""', '"""A different docstring."""'),
        ("return x * 2", "return (x * 2)"),
        ("def unused(x):\n    return x + 1", ""),
        ('"""A module."""', ""),
        ("def helper(x):", "def helper(x: int) -> int:"),
        ("def inner(y):", "def inner(y: 'float') -> 'float':"),
    ],
)
def test_comments_docstrings_annotations_positions_and_what_is_not_reached_change_nothing(digest, change):
    assert change[0] in SOURCE
    assert digest(SOURCE) == digest(SOURCE.replace(*change))


@pytest.mark.parametrize(
    "change",
    [
        ("return x * 2", "return x * 3"),
        ("return y - 1", "return y - 2"),
        ("RATE = 0.5", "RATE = 0.25"),
        ('TABLE = {"a": 1}', 'TABLE = {"a": 2}'),
        ("return 3", "return 4"),
        ("return x + 5", "return x + 6"),
        ("* RATE", "/ RATE"),
    ],
)
def test_what_is_reached_changes_it(digest, change):
    assert change[0] in SOURCE
    assert digest(SOURCE) != digest(SOURCE.replace(*change))


PLACED = SOURCE.replace(
    'TABLE = {"a": 1}',
    """import weakref
TABLE = {"a": 1}
def one(x):
    return x + 10
BY_NAME = {"a": (1, one)}
NAMES = [("b", 2)]
SEEN = weakref.WeakKeyDictionary()""",
).replace("cached(x)\n", 'cached(x) + len(__file__) + BY_NAME["a"][0] + len(NAMES) + len(SEEN)\n')


def test_where_the_code_lies_and_where_functions_lie_in_memory_change_nothing(digest):
    """Every copy has a file of another name, functions at other addresses, and a table that shows its own."""
    assert "BY_NAME[" in PLACED
    assert digest(PLACED) == digest(PLACED)


@pytest.mark.parametrize("change", [("return x + 10", "return x + 11"), ('("b", 2)', '("b", 3)')])
def test_functions_and_values_in_nested_tables_count(digest, change):
    assert digest(PLACED) != digest(PLACED.replace(*change))


HEAD = """
import enum, functools, re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated
import numpy as np
import torch

@dataclass(frozen=True)
class S:
    d: object = 0

class Plain:
    def __init__(self, d):
        self.d = d
    def f(self):
        return 5

def make(n):
    def inner():
        return n
    return inner

def times(n):
    def wrap(f):
        @functools.wraps(f)
        def inner():
            return n * f()
        return inner
    return wrap
"""
NAMED = {
    "an integer": "5",
    "a float in its last digit": "0.1",
    "an array": "np.array([5.0, 1.0])",
    "a tensor": "torch.tensor([5.0, 1.0])",
    "a number of numpy": "np.float32(5)",
    "the type of a number": "np.float32",
    "a dataclass": "S(5)",
    "a tuple of dataclasses": "(S((S(5),)),)",
    "a set": "{5, 'a', 'b', 'c'}",
    "a range": "range(5)",
    "a list in a dict": "{'a': [5]}",
    "None in a dict": "{'a': 5, 'b': None}",
    "a dict in a dict": "{'a': {'b': 5}}",
    "the order of a dict": "{'a': 5, 'b': 6}",
    "a fraction": "Fraction(5, 7)",
    "a pattern": "re.compile('5')",
    "a lambda": "lambda: 5",
    "a lambda in a tuple": "(1, lambda: 5)",
    "a partial": "functools.partial(make, 5)",
    "a closure": "make(5)",
    "an attribute of an instance": "Plain(5)",
    "a method": "Plain(5).f",
    "a member": "enum.Enum('E', {'a': 5, 'b': 6}).a",
    "a literal type": "Annotated[int, S(5)]",
}


@pytest.mark.parametrize("kind", NAMED)
def test_values_of_every_kind_count_by_content(digest, kind):
    source = f"{HEAD}N = {NAMED[kind]}\ndef measure():\n    return N\n"
    changes = [("0.1", "0.10000000000000002"), ("float32\n", "float64\n"), ("'a': 5, 'b': 6}\n", "'b': 6, 'a': 5}\n")]
    changes += [
        ("N = 5", "N = 6"),
        ("(5", "(6"),
        ("[5", "[6"),
        ("{5", "{6"),
        (": 5", ": 6"),
        ("'5'", "'6'"),
        (", 5)", ", 6)"),
    ]
    where = source.index("N = ")
    other = next(source[:where] + source[where:].replace(a, b) for a, b in changes if a in source[where:])
    assert digest(source) == digest(source)
    assert digest(source) != digest(other)


@pytest.mark.parametrize(
    "body, change",
    [
        ("N = 5\ndef measure(n=N): return n", ("N = 5", "N = 6")),
        ("N = 5\ndef measure(*, n=N): return n", ("N = 5", "N = 6")),
        ("measure = functools.partial(make, 5)", ("5)", "6)")),
        ("measure = functools.partial(make, n=5)", ("5)", "6)")),
        ("measure = make(5)", ("5)", "6)")),
        ("measure = lambda: 5", ("5", "6")),
        ("N = Plain(1)\ndef measure(): return N.f()", ("return 5", "return 6")),
        ("N = 5\n@times(N)\ndef measure(): return 1", ("N = 5", "N = 6")),
        ("@times(2)\ndef measure(): return 1", ("n * f()", "n + f()")),
        ("N = 5\nclass C:\n    n = N\ndef measure(): return C.n", ("N = 5", "N = 6")),
        ("N = 5\n@dataclass(frozen=True)\nclass C:\n    n: int = N\ndef measure(): return C()", ("N = 5", "N = 6")),
        (
            "@dataclass(frozen=True, slots=True)\nclass C:\n    n: list = field(default_factory=make(5))\n"
            "def measure(): return C()",
            ("make(5", "make(6"),
        ),
        (
            "def f(): return 1\ndef g(): return 2\nN = {'a': f, 'b': g}\ndef measure(): return N",
            ("f, 'b': g", "g, 'b': f"),
        ),
        (
            "def measure():\n    from featlearn.core.key import Key\n    return Key",
            ("key import Key", "types import Key"),
        ),
    ],
)
def test_what_a_function_holds_counts(digest, body, change):
    source = HEAD + body + "\n"
    assert change[0] in source
    assert digest(source) == digest(source)
    if "import Key" in body:
        reached = digests.content_digest(importlib.import_module("featlearn.core.key").Key)
        assert (
            reached
            != digest(source)
            != digest(source.replace("return Key", "return 0").replace("import Key", "import Batch"))
        )
        return
    assert digest(source) != digest(source.replace(*change))


def test_two_constants_of_one_name_are_told_apart(digest):
    """Each stands with the function that names it."""
    source = HEAD + "N = 5\ndef a(): return N\ndef measure(): return a(), S(N)\n"
    assert digest(source) != digest(source.replace("N = 5", "N = 5\nM = 6").replace("S(N)", "S(M)"))


def test_a_claim_is_digested_with_all_its_fields():
    from featlearn.lab.claim import Accusation, Claim, Premise

    accusation = Accusation(quote="q", place="p", reading="r", hits="number", derivation="d")
    claim = Claim(
        id="emergence.toy",
        entries=("emergence.table1",),
        says="s",
        statements=lambda settings: (),
        observe=lambda settings, key: {},
        settings=Pair(1, 0.5),
        premises=(Premise("p", True),),
        accuses=accusation,
    )
    changes = {
        "settings": Pair(1, 0.25),
        "premises": (Premise("p", False),),
        "reads": (Pair,),
        "may_lack": "some",
        "entries": ("emergence.table2",),
        "accuses": dataclasses.replace(accusation, hits="remark"),
    }
    for name, value in changes.items():
        assert digest_of(claim) == digest_of(dataclasses.replace(claim))
        assert digest_of(claim) != digest_of(dataclasses.replace(claim, **{name: value})), name
    assert digest_of(claim) == digest_of(dataclasses.replace(claim, remarks="for people"))


def test_reported_numbers_that_a_claim_reads_are_part_of_it(monkeypatch):
    from featlearn.works import load_claims

    by_id = {c.id: c for c in load_claims("nuclear")}
    reads, other = by_id["nuclear.fig6_3_converged"], by_id["nuclear.objectives"]
    before = digest_of(reads), digest_of(other)
    known = inventory._index("nuclear")[1]
    entry = known["nuclear.fig6_2"]
    changed = tuple(dataclasses.replace(p, value=0.5) for p in entry.reported)
    monkeypatch.setitem(known, "nuclear.fig6_2", dataclasses.replace(entry, reported=changed))
    assert digest_of(reads) != before[0]
    assert digest_of(other) == before[1]
    monkeypatch.setitem(known, "nuclear.fig6_2", dataclasses.replace(entry, says="other words"))
    assert digest_of(reads) == before[0]


@dataclass(frozen=True)
class Pair:
    d: int
    value: float


def test_rows_are_told_apart_by_every_value():
    assert rows_digest([Pair(1, 0.5)]) == rows_digest([{"value": 0.5, "d": 1}])
    assert rows_digest([Pair(1, 0.5)]) != rows_digest([Pair(1, 0.5000001)])
    assert rows_digest([Pair(1, 0.5), Pair(2, 0.5)]) != rows_digest([Pair(1, 0.5)])


def test_type_checks_of_a_test_run_change_no_digest():
    """The functions of the package are wrapped here and are not in a process of its own."""
    from featlearn.works.xor_sgd.experiments.time import run_trial

    code = (
        "from featlearn.lab.digest import code_digest as d\n"
        "from featlearn.works.xor_sgd.experiments.time import run_trial; print(d(run_trial))"
    )
    for seed in ("1", "2"):  # nor does the order of hashes
        given = {**os.environ, "PYTHONHASHSEED": seed}
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=given)
        assert out.stdout.strip() == code_digest(run_trial)
