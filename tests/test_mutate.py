"""The tool that draws mutants: what it edits and leaves alone, what counts as noticed, and that it leaves no trace."""

import ast
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import mutate  # noqa: E402
import mutate_kinds  # noqa: E402
import mutate_reach  # noqa: E402
import mutate_report  # noqa: E402
import mutate_run  # noqa: E402
import mutate_sites  # noqa: E402

ROWS = "class Budget:\n    d: int\n    seed: int\n\n\n"

EXAMPLES = [
    ("constant", "x = 0.5", "x = 1.0"),
    ("constant", "x = 0.5", "x = 0.25"),
    ("constant", "x = 3", "x = 4"),
    ("constant", "x = 400", "x = 200"),
    ("exponent", "x = d**2", "x = d**3"),
    ("exponent", "x = d**k", "x = d**(k + 1)"),
    ("exponent", "x = math.sqrt(a + b)", "x = (a + b)"),
    ("exponent", "x = np.linalg.norm(w, axis=1)", "x = np.linalg.norm(w, axis=1)**2"),
    ("sign", "x = -a", "x = a"),
    ("sign", "x = (a)  + (b)", "x = (a)  - (b)"),
    ("sign", "x = a * b", "x = a / b"),
    ("sign", "x = a * b", "x = -a * b"),
    ("sign", "x += a", "x -= a"),
    ("relation", "x = a < b", "x = a <= b"),
    ("relation", "x = a < b", "x = a > b"),
    ("relation", "x = 'ä' + a == b", "x = 'ä' + a != b"),
    ("relation", "x = max(a)", "x = min(a)"),
    ("relation", "x = w.argmin(1)", "x = w.argmax(1)"),
    ("relation", "x = any(a)", "x = all(a)"),
    ("relation", "f(relation='at most')", 'f(relation="at least")'),
    ("relation", "x = s.at_most('a', 1)", "x = s.at_least('a', 1)"),
    ("relation", "x = order(a, b, c)", "x = order(b, a, c)"),
    (
        "relation",
        "from featlearn.lab import at_most\nx = at_most(a)",
        'from featlearn.lab import at_most\nx = __import__("featlearn.lab", fromlist=["at_least"]).at_least(a)',
    ),
    ("axis", "x = w.mean(0)", "x = w.mean(1)"),
    ("axis", "x = np.sum(w, axis=-1)", "x = np.sum(w, axis=0)"),
    ("axis", "x = w.sum((1, 2))", "x = w.sum(1)"),
    ("axis", "x = w[:, 0]", "x = w[0, :]"),
    ("axis", "x = w.T @ v", "x = w @ v"),
    ("margin", "f(tolerance=0.5)", "f(tolerance=5.0)"),
    ("margin", "f(delta=a + b)", "f(delta=10 * (a + b))"),
    ("margin", "MARGIN = 0.1", "MARGIN = 1.0"),
    ("unit", ROWS + "f(unit='seed')", ROWS + 'f(unit="d")'),
    ("unit", ROWS + "x = table.mean('d')", ROWS + 'x = table.mean("seed")'),
    ("unit", "x = 100 * share", "x = 1 * share"),
    ("unit", "SHARE = PERCENT = 1\nx = Q[SHARE]", "SHARE = PERCENT = 1\nx = Q[PERCENT]"),
    ("unit", "class R:\n    key = ('d', 'n')", "class R:\n    key = ('n',)"),
    ("boolean", "x = a and b", "x = a or b"),
    ("boolean", "x = not (a or b)", "x =  (a or b)"),
    ("boolean", "x = a & ~b", "x = a | ~b"),
    ("boundary", "x = a[1:n]", "x = a[2:n]"),
    ("boundary", "x = a[1:n]", "x = a[1:n - 1]"),
    ("boundary", "x = a[:-1]", "x = a[:-2]"),
    ("boundary", "x = range(n)", "x = range(n + 1)"),
]


def every(source: str, **more) -> list[mutate_kinds.Mutant]:
    return [m for place in mutate_sites.sites(source.encode(), **more) for m in place]


@pytest.mark.parametrize("kind, before, after", EXAMPLES)
def test_an_example_of_each_kind(kind, before, after):
    made = {m.applied(before.encode()).decode(): m for m in every(before)}
    assert after in made
    assert made[after].kind == kind


def test_each_kind_has_an_example():
    assert {kind for kind, _, _ in EXAMPLES} == set(mutate_kinds.KINDS)


@pytest.mark.parametrize(
    "source",
    [
        '"""Takes 3 < 4."""',
        'x = f"{3 * a:.2f}"',
        'raise ValueError(f"{3}" + str(4 * a))',
        "def draw(ax):\n    return 3 * ax",
        "class Config:\n    d: int = 3",
        "f(presets={'small': 3})",
        "x = key / 3",
        "x = folder / 'a'",
        "def f(a: int | None, b: tuple[int, ...]): ...",
        "x = isinstance(a, int | float)",
        "x = '=' * n",
        "if __name__ == '__main__':\n    f(3)",
    ],
)
def test_what_is_left_alone(source):
    assert every(source) == []


def test_names_tell_mutants_of_one_line_apart():
    names = [m.name for m in every("x = a + b + c\ny = 1", file="a.py")]
    assert names == ["a.py:1:sign:+->-", "a.py:1:sign:+->-#2", "a.py:2:constant:1->2"]


def test_edits_of_a_real_file_parse_change_it_and_have_an_idle_twin():
    source = (SCRIPTS.parent / "src/featlearn/lab/statistics.py").read_bytes()
    tree = ast.dump(ast.parse(source))
    found = [m for place in mutate_sites.sites(source, "s.py") for m in place]
    assert len(found) > 80
    assert len({m.name for m in found}) == len(found)
    for m in found:
        assert ast.dump(ast.parse(m.applied(source))) != tree
        assert ast.dump(ast.parse(m.idle(source))) != tree


def test_a_draw_is_set_by_its_seed_and_shared_by_places():
    one, two = "\n".join(f"x = a + {i}.5" for i in range(30)), "x = a * b\ny = a < b\nz = not a"
    found = {f: mutate_sites.sites(s.encode(), f) for f, s in {"one.py": one, "two.py": two, "no.py": "x = y"}.items()}
    drawn = mutate_sites.draw(found, 21, seed=0)
    assert drawn == mutate_sites.draw(dict(reversed(found.items())), 21, seed=0)
    assert drawn != mutate_sites.draw(found, 21, seed=1)
    assert [sum(m.file == f for m in drawn) for f in found] == [20, 1, 0]
    assert len({(m.file, m.start) for m in drawn}) == 21
    assert len(mutate_sites.draw(found, 1000, seed=0)) == 63


# --- running ---------------------------------------------------------------------------------------------------------

THING = """def three(n=3):
    return n + 0 * n


def unseen(n):
    return n - 1


def ends(n):
    while n < 4:
        n += 1
    return n
"""
TESTS = """import hashlib, inspect, pathlib
from featlearn.toy import thing


def test_three():
    pathlib.Path(thing.__file__).with_name("litter").write_text("x")
    assert thing.three() == 3


def test_ends():
    assert thing.ends(0) == 4


def test_of_the_text():
    assert hashlib.md5(inspect.getsource(thing.unseen).encode()).hexdigest() == "DIGEST"
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and ".git" not in p.parts}


@pytest.fixture
def checkout(tmp_path):
    """A small checkout of a package that is also called featlearn."""
    root = tmp_path / "checkout"
    unseen = THING[THING.index("def unseen") : THING.index("\n\n\ndef ends") + 1]
    digest = hashlib.md5(unseen.encode()).hexdigest()
    files = {"src/featlearn/toy/thing.py": THING, "tests/toy/test_thing.py": TESTS.replace("DIGEST", digest)}
    files |= {"src/featlearn/__init__.py": "", "src/featlearn/toy/__init__.py": "", "pyproject.toml": "[tool.pytest]\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def mutant_of(label: str) -> mutate_kinds.Mutant:
    return next(m for m in every(THING, file="src/featlearn/toy/thing.py") if m.label == label)


def states(checkout, mutants, known=(), **more):
    killers = mutate.Killers([], ["tests/toy"])
    before = contents(checkout)
    found = mutate.run_all(mutants, killers, dict(known), checkout=checkout, workers=1, heavy=["pytest"], **more)
    assert contents(checkout) == before
    return [(r.state, r.by, r.why) for r in found], killers


def test_what_dies_what_survives_and_what_sees_every_edit(checkout, monkeypatch):
    monkeypatch.setattr(mutate, "SLACK", 1.0)
    seen, unseen, stuck = mutant_of("constant:3->4"), mutant_of("sign:-->+"), mutant_of("sign:+=->-=")
    idle = replace(seen, text="(3)", after="(3)")
    reason = {mutate_report.key_of(idle): "brackets"}
    found, killers = states(checkout, [seen, unseen, stuck, idle, seen], reason)
    test = "tests/toy/test_thing.py::test_three"
    assert found[0] == found[4] == ("killed", "own tests", test)
    assert found[1] == ("survived", "", "")  # only the test of its text turns red, as it does after any edit
    assert found[2][:2] == ("killed", "own tests")
    assert found[2][2].startswith("timeout")
    assert found[3] == ("explained", "", "brackets")
    assert killers.sees_edits == {"src/featlearn/toy/thing.py": {"tests/toy/test_thing.py::test_of_the_text"}}


def test_tests_that_are_red_before_any_edit_are_refused_or_left_out(checkout):
    tests = checkout / "tests/toy/test_thing.py"
    tests.write_text(tests.read_text().replace("three() == 3", "three() == 5"))
    with pytest.raises(mutate.MutateError, match=r"unmutated copy: tests/toy/test_thing.py::test_three"):
        states(checkout, [mutant_of("constant:3->4")])
    found, _ = states(checkout, [mutant_of("constant:3->4")], allow_red=True)
    assert found == [("survived", "", "")]


JUDGE = {
    "src/featlearn/catalog.py": """def layers(store): return store
def tables_of(store): return None""",
    "src/featlearn/cli/__init__.py": "",
    "src/featlearn/cli/verify.py": """def check(claims, tables, store):
    return [(c.id, c.ask()) for c in claims]""",
    "src/featlearn/lab/__init__.py": "",
    "src/featlearn/lab/verdicts.py": 'def as_json(found): return {"id": found[0], "outcome": found[1]}',
    "src/featlearn/works/__init__.py": """import hashlib, inspect
from types import SimpleNamespace as Claim
from featlearn.toy import thing

def load_claims(work):
    text = lambda: hashlib.md5(inspect.getsource(thing.three).encode()).hexdigest()
    asks = {"three": lambda: thing.three() == 3, "ends": lambda: thing.ends(0) == 4, "text": text}
    return [Claim(id=name, ask=ask) for name, ask in asks.items()]""",
}


def test_a_mutant_costs_the_claims_that_reach_it(checkout, monkeypatch):
    monkeypatch.setattr(mutate, "SLACK", 1.0)
    file = "src/featlearn/toy/thing.py"
    for name, text in JUDGE.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    reach = mutate.traced("toy", checkout, heavy=[])
    assert list(reach.shown) == ["three", "ends", "text"]
    sources = {file: THING.encode()}
    places, order = mutate_reach.reached({f: mutate_sites.sites(s, f) for f, s in sources.items()}, sources, reach)
    within = {m.within: set(order[m]) for place in places[file] for m in place if m.label != "constant:3->4"}
    assert within == {"three": {"three"}, "ends": {"ends"}}  # no claim runs `unseen`
    default = mutant_of("constant:3->4")
    assert set(order[default]) == set(reach.shown)  # what ran at import may reach any claim
    idle = replace(default, text="(3)", after="(3)")
    minus = mutant_of("sign:+->-")
    order[idle] = order[default]
    killers = mutate.Killers(["toy"], [], reach=reach, order=order)
    assert killers.stages(file, checkout) == [("verify", ["toy"])]
    killers.tests = ["tests/toy"]
    stuck = mutant_of("sign:+=->-=")
    found = mutate.run_all([idle, default, minus, stuck], killers, {}, checkout=checkout, workers=1, heavy=["pytest"])
    assert [(r.state, r.by) for r in found[:2]] == [("survived", ""), ("killed", "verify")]
    assert found[1].why == "three: three outcome: True -> False"
    assert (found[2].state, killers.sees_edits[file]) == ("survived", {"text"})
    assert found[3].why.startswith("timeout")


def test_the_statement_around_a_line():
    source = "@f(\n    1,\n)\ndef g(a=2):\n    if a:\n        return (\n            3\n        )\n    return 4\n"
    found = mutate_reach.statements(source.encode())
    assert [mutate_reach.around(n, found) for n in (2, 4, 5, 7, 9)] == [(1, 4), (1, 4), (5, 5), (6, 8), (9, 9)]


@pytest.mark.parametrize(
    "file, counts",
    [
        ("works/nuclear/claims/sums.py", True),
        ("works/nuclear/setup.py", True),
        ("nets/two_layer.py", True),
        ("works/nuclear/experiments/time.py", False),
        ("works/nuclear/rows.py", False),
        ("works/fourier/setup.py", False),
        ("lab/judge.py", False),
    ],
)
def test_what_the_claims_of_a_work_are_about(file, counts):
    assert mutate_reach.about_claims(f"src/featlearn/{file}", "nuclear") is counts


@pytest.mark.slow
def test_ctrl_c_leaves_no_trace(checkout, tmp_path):
    shutil.copytree(SCRIPTS, checkout / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    tests = checkout / "tests/toy/test_thing.py"
    tests.write_text("import time\n" + tests.read_text() + "\n\ndef test_slow():\n    time.sleep(3)\n")
    before, scratch, out = contents(checkout), tmp_path / "scratch", tmp_path / "out.json"
    scratch.mkdir()
    command = [sys.executable, "-u", "-B", "scripts/mutate.py", "--over", "src/featlearn/toy", "--tests", "tests/toy"]
    command += ["--works", "--workers", "1", "--out", str(out)]
    env = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        command, cwd=checkout, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("1/"):
            break
    servers = [p for p in Path("/proc").glob("[0-9]*") if str(scratch) in _cwd(p)]
    assert servers
    time.sleep(0.5)  # in the midst of the next
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 130, rest
    assert contents(checkout) == before
    assert list(scratch.iterdir()) == []
    assert not [p for p in Path("/proc").glob("[0-9]*") if str(scratch) in _cwd(p)]
    assert '"tried": ' in out.read_text()


def _cwd(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""


def test_an_impatient_second_ctrl_c_does_not_stop_the_cleaning():
    before = signal.getsignal(signal.SIGINT)
    with mutate._undisturbed() as cleaning:
        cleaning()
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            pytest.fail("interrupted")
    assert signal.getsignal(signal.SIGINT) == before


def test_outcomes_count_and_numbers_do_not():
    said = [{"id": "a", "seconds": 3, "statements": [{"quantity": "q", "observed": 0.3, "outcome": "confirmed"}]}]
    kept = [{"id": "a", "statements": [{"quantity": "q", "outcome": "confirmed"}]}]
    assert mutate_run.outcomes(said) == kept
    other = [{"id": "a", "statements": [{"quantity": "q", "outcome": "contradicted"}]}]
    assert mutate_report.difference(kept, other) == "a statements outcome: confirmed -> contradicted"


def test_each_reason_still_has_its_mutant():
    for (file, label, code), reason in mutate_report.reasons(mutate.SURVIVORS).items():
        here = every(
            (SCRIPTS.parent / file).read_text(), file=file, columns=mutate_sites.columns_near(SCRIPTS.parent / file)
        )
        assert (file, label, code) in {mutate_report.key_of(m) for m in here}, (
            f"{file}:{label} is gone: drop its reason"
        )
        assert len(reason) > 20
