"""list, verify, report, diff, data, bench; and what they may load."""

import dataclasses
import functools
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest

from featlearn import catalog, works
from featlearn.cli import main
from featlearn.cli.diff import compared
from featlearn.cli.report import experiment_pages
from featlearn.errors import DamagedError
from featlearn.lab import inventory, verdicts
from featlearn.lab.claim import Accusation, Claim, Premise
from featlearn.lab.execute import run
from featlearn.lab.experiment import SummaryRow, TrialResult
from featlearn.lab.quantity import COUNT, REAL, SEED
from featlearn.lab.row import Row
from featlearn.lab.statement import both, equal
from featlearn.lab.store import Store

HEAVY = ("torch", "transformers", "matplotlib", "scipy", "sklearn", "numpy")


@pytest.mark.parametrize(
    "words, allowed",
    [(["--help"], ()), (["list"], ()), (["list", "--json"], ()), (["run", "--help"], ()), (["lisst"], ())],
)
def test_nothing_heavy_is_loaded(words, allowed, catalog_kept):
    code = (
        "import sys\nfrom featlearn.cli import main\nstatus = main(sys.argv[1:])\n"
        "print([m for m in sys.modules if m.split('.')[0] in " + repr(HEAVY) + "], file=sys.stderr)\n"
        "rooms = ('featlearn.works',)\n"
        "print([m for m in sys.modules if m.startswith(rooms)], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-2:] == ["[]", "[]"], done.stderr


def test_run_imports_one_experiment_only(toy_file):
    code = (
        "import sys\nfrom featlearn.cli import main\nmain(sys.argv[1:])\n"
        "print(sorted(m for m in sys.modules if '.experiments.' in m or '.claims.' in m), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, "run", toy_file, "--help"], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_and_version(featlearn):
    status, out, _ = featlearn("--help")
    assert status == 0
    for name in ("list", "run", "verify", "report", "diff", "data", "bench"):
        assert re.search(rf"^  {name} ", out, re.M)
        sub, text, _ = featlearn(name, "--help")
        assert sub == 0
        assert text.startswith("usage: featlearn " + name)
    assert featlearn("--version")[1].startswith("featlearn 0.")
    assert featlearn()[0] == 2


# --- list ------------------------------------------------------------------------------------------------------------


def test_list_json(featlearn):
    status, out, _ = featlearn("list", "--json")
    assert status == 0
    got = json.loads(out)
    assert list(got) == ["works", "experiments", "claims", "entries"]
    assert {w["id"]: w["entries"] for w in got["works"]} == {w: len(inventory.load(w).entries) for w in inventory.WORKS}
    assert [e["id"] for e in got["entries"]] == [e.id for w in inventory.WORKS for e in inventory.load(w).entries]
    for e in got["entries"]:
        assert e.keys() == {"id", "verdict", "scope", "why", "covered"}
    for work in got["works"]:
        assert work["covered"] == sum(e["covered"] for e in got["entries"] if e["id"].split(".")[0] == work["id"])
    assert [e["id"] for e in got["experiments"]] == list(works.EXPERIMENTS)
    for e in got["experiments"]:
        assert e["evidence"] in ("ok", "stale", "none")
        assert {"smoke", "small", "paper"} <= set(e["presets"])
        for entry in e["reproduces"]:
            inventory.entry(entry)
    claims = [c for work in works.WITH_CLAIMS for c in works.load_claims(work)]
    assert [c["id"] for c in got["claims"]] == [c.id for c in claims]
    for c in got["claims"]:
        assert {"id", "entries", "verdict", "scope", "corrected", "stale", "covers"} <= c.keys()
        assert not (c["covers"] and c["stale"])
        for entry in c["entries"]:
            inventory.entry(entry)


def test_list_one_work_and_its_text(featlearn, refused):
    status, out, _ = featlearn("list", "--work", "resnet")
    assert status == 0
    assert "resnet" in out
    assert "gemfilter" not in out
    assert "no work 'resnt'; did you mean resnet?" in refused("list", "--work", "resnt")
    assert "unknown flag --jsn; did you mean --json?" in refused("list", "--jsn")


def test_covered_counts_the_entries_of_one_work(featlearn, monkeypatch):
    def entry(id_, covered):
        return {"id": id_, "verdict": "run", "scope": "", "why": "", "covered": covered}

    found = {"entries": [entry("w.a", True), entry("w.b", False), entry("ww.c", True), entry("w.d.e", True)]}
    assert catalog.covered(found, "w") == {"w.a", "w.d.e"}
    shown = [{"id": "w", "title": "t", "entries": 3}, {"id": "ww", "title": "t", "entries": 1}]
    monkeypatch.setattr(inventory, "WORKS", ("w", "ww"))
    monkeypatch.setattr(catalog, "read", lambda store: {"works": shown, "experiments": [], "claims": [], **found})
    assert [w["covered"] for w in json.loads(featlearn("list", "--json")[1])["works"]] == [2, 1]
    assert json.loads(featlearn("list", "--json", "--work", "ww")[1])["entries"] == [entry("ww.c", True)]


# --- verify ----------------------------------------------------------------------------------------------------------


def says(settings):
    """A slope of 2, and a constant of 5 that is reported as 6."""
    return (
        equal("slope", REAL, 2.0, "Lemma 1", margin=0.1, rival=3.0, rival_says="another slope"),
        *both("constant", REAL, "Lemma 2", reported=6.0, corrected=5.0, says="5 in place of 6", margin=0.1),
    )


def sees(settings, key):
    return {"slope": settings, "constant": 5.0}


def breaks(settings, key):
    raise RuntimeError("the check\nitself is wrong")


ACCUSED = Accusation(quote="it is 6", place="Lemma 2", reading="for all d", hits="number", derivation="2 + 3 = 5")
TYPED = Claim(
    id="xor_sgd.toy",
    entries=("xor_sgd.data", "xor_sgd.model"),
    says="two and five",
    settings=2.01,
    statements=says,
    observe=sees,
    premises=(Premise("p as in the table", False, size=True),),
    accuses=ACCUSED,
)


@pytest.fixture
def typed(monkeypatch, claims):
    """A toy claim of the work xor_sgd; no experiment has rows."""
    current = [TYPED]
    monkeypatch.setattr(works, "WITH_CLAIMS", ("xor_sgd", "emergence"))
    monkeypatch.setattr(works, "load_claims", lambda work: tuple(current if work == "xor_sgd" else claims))
    return current


def entry_lines(out):
    """Cells of the table of entries, by entry; of a cell that takes several lines the first."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    return {row[0]: row[1:] for row in rows if row[0]}


def test_verify_a_work(featlearn, typed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # an id is not cut, whoever runs the tests
    status, out, _ = featlearn("verify", "xor_sgd")
    assert status == 0
    text, _, table = out.partition("Entries")
    assert text.splitlines()[0] == "xor_sgd.toy: contradicted as reported, confirmed as corrected, other size"
    assert "  confirmed: slope = 2 ± 0.1; observed 2.01; rival 3 (another slope)" in text
    assert re.search(r"^  contradicted: constant, as reported = 6 ± 0\.1; observed 5", text, re.M)
    assert "claim/xor_sgd.toy.html" in text
    assert text.splitlines()[-1] == "1 claim, all as expected"
    rows = entry_lines(table)
    assert set(rows) == {e.id for e in inventory.load("xor_sgd").entries}
    assert rows["xor_sgd.data"] == rows["xor_sgd.model"] == ["contradicted", "other size", "yes", "xor_sgd.toy"]
    assert rows["xor_sgd.margins"] == ["not run", "", "no", "no claim or experiment yet"]
    saved = json.loads(Path("runs/verdicts/xor_sgd/xor_sgd.toy.json").read_text())
    assert (saved["verdict"], saved["corrected"], saved["scope"]) == ("contradicted", "confirmed", "other size")


def test_an_experiment_with_rows_covers_an_entry_without_claim(featlearn, typed, toy, monkeypatch):
    ours = dataclasses.replace(toy, id="xor_sgd/toy", reproduces=("xor_sgd.margins",))
    monkeypatch.setattr(works, "EXPERIMENTS", ("xor_sgd/toy",))
    monkeypatch.setattr(works, "load_experiment", lambda id: ours)
    rows = entry_lines(featlearn("verify", "xor_sgd")[1])
    assert rows["xor_sgd.margins"] == ["not run", "", "no", "xor_sgd/toy"]
    run(ours, toy.presets["small"], store=Store("runs"))
    rows = entry_lines(featlearn("verify", "xor_sgd")[1])
    assert rows["xor_sgd.margins"] == ["run", "", "yes", "xor_sgd/toy"]
    assert rows["xor_sgd.data"][-1] == "xor_sgd.toy"


def test_verify_json(featlearn, typed):
    status, out, _ = featlearn("verify", "xor_sgd", "--json")
    assert status == 0
    [got] = json.loads(out)
    assert (got["id"], got["entries"]) == ("xor_sgd.toy", ["xor_sgd.data", "xor_sgd.model"])
    assert (got["verdict"], got["corrected"], got["scope"]) == ("contradicted", "confirmed", "other size")
    assert got["expected"] is True
    slope = next(s for s in got["statements"] if s["name"] == "slope")
    assert [slope[n] for n in ("value", "observed", "rival", "margin")] == [2.0, 2.01, 3.0, 0.1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score(Row):
    experiment = "toy/normal"
    kind: Literal["score"] = "score"
    seed: Annotated[int, SEED]


def test_verify_one_claim_reads_rows_paper_first(featlearn, claims, toy, monkeypatch):
    scored = dataclasses.replace(toy, rows=(Score,), run_trial=lambda trial: TrialResult([Score(seed=trial.seed)]))
    monkeypatch.setattr(works, "load_experiment", lambda id: scored)
    five = equal("seeds", COUNT, 5.0, "Table 2", rival=3.0, rival_says="those of another preset")
    claims.append(
        Claim(
            id="emergence.toy_rows",
            entries=("emergence.table2",),
            says="there are rows",
            statements=lambda settings: (five,),
            observe=lambda settings, table: {"seeds": float(len(table))},
            reads=(Score,),
        )
    )
    status, out, _ = featlearn("verify", "emergence.toy_rows")
    assert status == 1
    assert "featlearn run toy/normal" in out
    assert "Entries" not in out
    for preset, verdict in (("small", "contradicted"), ("paper", "confirmed")):
        run(scored, scored.presets[preset], store=Store("runs"))
        status, out, _ = featlearn("verify", "emergence.toy_rows", "--json")
        assert (status, json.loads(out)[0]["verdict"]) == (int(preset == "small"), verdict)


def scores(more, trial):
    """Other code with every number of `more`."""
    return TrialResult([Score(seed=trial.seed + more)])


def test_rows_of_other_code_are_told(featlearn, claims, toy, monkeypatch):
    """Fresh rows of a deeper layer come first; where none are fresh, the verdict carries it wherever it is shown."""
    scored = dataclasses.replace(toy, rows=(Score,), run_trial=functools.partial(scores, 0))
    monkeypatch.setattr(works, "load_experiment", lambda id: scored)
    monkeypatch.setattr(catalog, "CACHE", Path("cache/catalog.json"))
    monkeypatch.setattr(catalog, "evidence_root", lambda: Path("evidence") if Path("evidence").is_dir() else None)
    claims[:] = [
        Claim(
            id="emergence.toy_rows",
            entries=("emergence.table2",),
            says="the seeds are few",
            statements=lambda settings: (
                equal("seeds", REAL, 1.0, "Table 2", margin=0.1, rival=3.0, rival_says="those of other code"),
            ),
            observe=lambda settings, table: {"seeds": float(table.rows[1].seed)},
            reads=(Score,),
        )
    ]

    def checked():
        (got,) = json.loads(featlearn("verify", "emergence.toy_rows", "--json")[1])
        (listed,) = json.loads(featlearn("list", "--json", "--work", "emergence")[1])["claims"]
        return got["verdict"], got["stale"], listed["stale"], listed["covers"]

    run(scored, scored.presets["small"], store=Store("runs"))
    assert checked() == ("confirmed", "", "", True)
    other = dataclasses.replace(toy, rows=(Score,), run_trial=functools.partial(scores, 2))
    run(other, other.presets["small"], store=Store("runs"), again="all")
    assert "stale: its rows changed" in featlearn("list", "--work", "emergence")[1]
    assert checked() == ("contradicted", "stale rows", "stale rows", False)
    out = featlearn("verify", "emergence.toy_rows")[1]
    assert "emergence.toy_rows: contradicted, stale rows (not as expected)" in out
    assert out.count("featlearn run toy/normal --again\n") == 1  # words that the command takes
    assert "[stale rows]" in featlearn("list", "--work", "emergence")[1]
    run(scored, scored.presets["smoke"], store=Store("evidence"))
    assert checked()[0] == "contradicted"  # another preset, of which the larger one is stale
    run(scored, scored.presets["small"], store=Store("evidence"))
    assert checked() == ("confirmed", "", "", True)


def test_verify_says_what_differs(featlearn, typed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # an id is not cut, whoever runs the tests
    typed.append(dataclasses.replace(TYPED, id="xor_sgd.toy_wrong", settings=3.0))
    status, out, _ = featlearn("verify", "xor_sgd")
    assert status == 1
    assert re.search(r"^xor_sgd\.toy_wrong: contradicted.* \(not as expected\)$", out, re.M)
    assert "  contradicted (expected: confirmed): slope = 2 ± 0.1; observed 3" in out
    assert "2 claims; not as expected: xor_sgd.toy_wrong\n" in out


def test_verify_says_what_broke(featlearn, typed):
    typed.append(dataclasses.replace(TYPED, id="xor_sgd.toy_broken", observe=breaks))
    status, out, err = featlearn("verify", "xor_sgd")
    assert status == 1
    assert "xor_sgd.toy_broken: the check broke: RuntimeError: the check itself is wrong (traceback in " in err
    assert "Traceback" not in out + err
    assert "xor_sgd.toy_broken: not run, " in out or "xor_sgd.toy_broken: not run (not as expected)" in out
    assert "Traceback" in json.loads(Path("runs/verdicts/xor_sgd/xor_sgd.toy_broken.json").read_text())["error"]


def test_verify_an_entry_checks_its_claims(featlearn, typed, refused, toy, monkeypatch):
    typed.append(dataclasses.replace(TYPED, id="xor_sgd.data", entries=("xor_sgd.margins",)))
    typed.append(dataclasses.replace(TYPED, id="xor_sgd.third", entries=("xor_sgd.model", "xor_sgd.loss")))

    def checked(what):
        status, out, _ = featlearn("verify", what, "--json")
        assert status == 0
        return [c["id"] for c in json.loads(out)]

    assert checked("xor_sgd.model") == ["xor_sgd.toy", "xor_sgd.third"]
    assert checked("xor_sgd.data") == ["xor_sgd.data"]  # a claim of that id goes first
    assert "Entries" not in featlearn("verify", "xor_sgd.model")[1]
    line = refused("verify", "xor_sgd.minibach_sgd")
    assert line.startswith("no claim or entry 'xor_sgd.minibach_sgd'; did you mean xor_sgd.minibatch_sgd?")
    assert refused("verify", "xor_sgd.lemmaC4") == "xor_sgd.lemmaC4 has no claim; nothing checks it yet"
    monkeypatch.setattr(works, "load_experiment", lambda id: dataclasses.replace(toy, reproduces=("xor_sgd.lemmaC4",)))
    line = refused("verify", "xor_sgd.lemmaC4")
    assert line == "xor_sgd.lemmaC4 has no claim; `featlearn run toy/normal` reproduces it"


def test_verify_refuses_names(refused, featlearn, claims):
    assert "no work or claim 'emergnce'; did you mean emergence?" in refused("verify", "emergnce")
    assert "'emergence.toy_hold'; did you mean emergence.toy_holds?" in refused("verify", "emergence.toy_hold")
    assert refused("verify").startswith("Missing from featlearn verify")
    status, out, _ = featlearn("verify", "gemfilter")  # a work without claims yet
    assert status == 0
    assert out.count("not run") == sum(not e.reasons for e in inventory.load("gemfilter").entries)


def test_verdicts_of_the_user_are_newer_than_the_shipped(featlearn, monkeypatch, typed):
    monkeypatch.setattr(catalog, "CACHE", Path("cache/catalog.json"))

    def listed():
        found = json.loads(featlearn("list", "--json", "--work", "xor_sgd")[1])
        (c,) = found["claims"]
        covered = {e["id"] for e in found["entries"] if e["covered"]}
        assert [w["covered"] for w in found["works"]] == [len(covered)]
        return c["verdict"], c["corrected"], c["scope"], c["expected"], c["stale"], covered

    assert listed() == ("not run", "", "as stated", "", "", set())
    featlearn("verify", "xor_sgd")
    judged = ("contradicted", "confirmed", "other size", "contradicted")
    assert listed() == (*judged, "", {"xor_sgd.data", "xor_sgd.model"})
    monkeypatch.setattr(works, "load_claims", lambda work: pytest.fail("what is known is not made again"))
    assert listed() == (*judged, "", {"xor_sgd.data", "xor_sgd.model"})
    monkeypatch.setattr(works, "load_claims", lambda work: (dataclasses.replace(TYPED, settings=2.02),))
    Path("runs/new").touch()
    assert listed() == (*judged, "code", set())


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d | {"verdict": "confirmed"},
        lambda d: d | {"statements": [{**s, "observed": [2.0]} for s in d["statements"]]},
        lambda d: d | {"scope": "as stated", "seal": None},
        lambda d: {k: v for k, v in d.items() if k != "seal"},
        lambda d: sealed(d | {"corrected": ""}),
        lambda d: sealed(d | {"scope": "as stated"}),
        lambda d: sealed(d | {"as_expected": False}),
        lambda d: sealed(d | {"covers": False}),
        lambda d: sealed(d | {"verdict": "confirmed"}),
        lambda d: sealed(d | {"id": "xor_sgd.other"}),
    ],
)
def test_a_verdict_that_was_edited_is_refused_in_one_line(featlearn, monkeypatch, typed, change):
    monkeypatch.setattr(catalog, "CACHE", Path("cache/catalog.json"))
    featlearn("verify", "xor_sgd")
    path = Path("runs/verdicts/xor_sgd/xor_sgd.toy.json")
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(DamagedError, match=r"damaged .*run `featlearn verify` again"):
        verdicts.read(Store("runs"), "xor_sgd.toy")
    status, out, err = featlearn("list", "--json", "--work", "xor_sgd")
    (c,) = json.loads(out)["claims"]
    assert (status, c["verdict"], c["covers"]) == (0, "not run", False)
    assert len(err.splitlines()) == 1
    assert err.startswith("featlearn: runs/verdicts/xor_sgd/xor_sgd.toy.json is damaged")
    featlearn("verify", "xor_sgd")
    assert featlearn("list", "--work", "xor_sgd")[2] == ""


def sealed(data):
    """As somebody writes it who knows how files are sealed."""
    return data | {"seal": verdicts.seal_of(data)}


# --- report and diff -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["smoke", "small", "cpu", "paper"])
def test_a_page_shows_rows_of_any_preset(preset, toy, monkeypatch):
    experiment = dataclasses.replace(toy, presets={**toy.presets, "cpu": toy.Config(size=20, seeds=(7,))})
    monkeypatch.setattr(works, "EXPERIMENTS", (experiment.id,))
    monkeypatch.setattr(works, "load_experiment", lambda id_: experiment)
    store = Store("runs")
    for made in dict.fromkeys(("smoke", preset)):  # smoke last: it shows only where nothing larger was run
        run(experiment, experiment.presets[made], store=store)
    (page,) = experiment_pages("", store)
    assert page.preset == preset


def test_report_site_and_exports(featlearn, refused, claims, toy_file):
    assert "there are no rows to export: run an experiment first" in refused("report", "--to", "csv", status=1)
    featlearn("run", toy_file, "--no-report")
    featlearn("verify", "emergence")
    status, out, _ = featlearn("report", "--work", "emergence", "--out", "pages")
    assert status == 0, out
    assert Path("pages/index.html").is_file()
    assert "two is two" in Path("pages/claim/emergence.toy_holds.html").read_text()
    status, out, _ = featlearn("report", "--to", "csv", "--out", "tables")
    assert status == 0
    assert out.split() == ["tables/toy.normal.small.summary.csv", "tables/toy.normal.small.rows.csv"]
    assert len(Path("tables/toy.normal.small.rows.csv").read_text().splitlines()) == 7
    status, out, _ = featlearn("report", "--to", "latex", "--out", "tables")
    assert out.split() == ["tables/toy.normal.small.summary.tex"]
    assert "toprule" in Path("tables/toy.normal.small.summary.tex").read_text()
    assert "no work 'emergnce'" in refused("report", "--work", "emergnce")
    assert "--to" in refused("report", "--to", "word")


def test_a_second_report_finds_nothing_changed_until_a_verdict_does(featlearn, claims):
    first = featlearn("report", "--work", "emergence", "--out", "pages")
    assert first[0] == 0
    before = {p: p.stat().st_mtime_ns for p in Path("pages").rglob("*")}
    assert featlearn("report", "--work", "emergence", "--out", "pages") == (
        0,
        first[1].replace(" pages:", " pages, nothing changed:"),
        "",
    )
    assert {p: p.stat().st_mtime_ns for p in Path("pages").rglob("*")} == before
    featlearn("verify", "emergence.toy_holds")
    status, out, _ = featlearn("report", "--work", "emergence", "--out", "pages")
    assert (status, out) == first[:2]
    changed = {p.name for p, when in before.items() if p.is_file() and p.stat().st_mtime_ns != when}
    assert "emergence.toy_holds.html" in changed
    assert not [p for p in changed if p.endswith((".svg", ".csv", ".png"))]


def test_a_picture_that_raises_is_named_and_the_rest_is_made(featlearn, claims, toy, monkeypatch):
    def draw(table):
        raise ZeroDivisionError("no rows")

    experiment = dataclasses.replace(toy, draw=draw)
    monkeypatch.setattr(works, "EXPERIMENTS", (experiment.id,))
    monkeypatch.setattr(works, "load_experiment", lambda id_: experiment)
    run(experiment, experiment.presets["small"], store=Store("runs"))
    for _ in range(2):  # tried again each time
        status, out, err = featlearn("report", "--out", "pages")
        assert status == 1
        assert " ".join(err.split()) == (
            "featlearn: toy/normal: the picture could not be drawn: ZeroDivisionError: no rows"
        )
        assert "pages: pages/index.html" in out
    assert "ZeroDivisionError: no rows" in Path("pages/experiment/toy.normal.html").read_text()


def test_diff_of_presets_manifests_and_stores(featlearn, refused, claims, toy_file):
    assert "has no rows in runs: run it first" in refused("diff", "toy/normal@small", "toy/normal@paper")
    for preset in ("small", "paper"):
        featlearn("run", toy_file, "--preset", preset, "--no-report")
    featlearn("run", toy_file, "--size", "41", "--no-report", "--store", "other")
    status, out, _ = featlearn("diff", "toy/normal@small", "toy/normal@paper", "--json")
    assert status == 0
    got = json.loads(out)
    assert got["settings"] == {"size": [40, 400], "seeds": [[0, 1, 2], [0, 1, 2, 3, 4]]}
    row = got["rows"][0]
    assert row["difference"] == pytest.approx(row["other"] - row["one"])
    (manifest,) = Path("other/toy/normal").glob("*.run.json")
    status, out, _ = featlearn("diff", "toy/normal@small", manifest)
    assert status == 0
    assert re.search(r"size .* 40 .* 41", out)
    shutil.copytree("runs", "copy")
    status, out, _ = featlearn("diff", "toy/normal@small", "copy:toy/normal@small", "--json")
    assert json.loads(out)["settings"] == {}
    assert all(r["difference"] == 0 and r["intervals"] == "overlap" for r in json.loads(out)["rows"])
    assert "no preset 'papr' of toy/normal; did you mean paper?" in refused("diff", "toy/normal@papr", manifest)
    assert "a .run.json file, experiment@preset" in refused("diff", "toy/normal", manifest)
    assert "does not exist" in refused("diff", "none.run.json", manifest, status=1)


def test_intervals_apart_or_overlapping():
    def row(name, value, low, high):
        return SummaryRow("", row=name, metric="acc", value=value, low=low, high=high, n=3)

    one = [row("a", 1.0, 0.5, 1.5), row("b", 1.0, 0.9, 1.1), row("gone", 1.0, 1.0, 1.0)]
    other = [row("a", 2.0, 1.4, 2.5), row("b", 2.0, 1.2, 2.5), row("new", 1.0, 1.0, 1.0)]
    got = [(r["row"], r["difference"], r["intervals"]) for r in compared(one, other)]
    assert got == [("a", 1.0, "overlap"), ("b", 1.0, "apart"), ("gone", None, ""), ("new", None, "")]


# --- data and bench --------------------------------------------------------------------------------------------------


def test_data(featlearn, refused, monkeypatch, tmp_path):
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path / "cache"))
    status, out, _ = featlearn("data", "list", "--json")
    assert status == 0
    got = {d["name"]: d for d in json.loads(out)}
    assert got["mnist"]["here"] is False
    assert {"about", "licence", "size_mib"} <= got["mnist"].keys()
    assert "mnist" in featlearn("data")[1]
    assert "no data set 'mnst'; did you mean mnist?" in refused("data", "fetch", "mnst")
    assert "fetch what?" in refused("data", "fetch")
    (tmp_path / "root").mkdir()
    line = refused("data", "fetch", "mnist", "--root", tmp_path / "root")
    assert "holds no file of mnist" in line
    assert "nowhere" in refused("data", "fetch", "mnist", "--root", tmp_path / "nowhere")


def test_data_fetch_prints_the_folder(featlearn, monkeypatch):
    from featlearn import data

    def fetch(name, root=None, progress=None):
        progress("x", 1, 2)
        return Path("/somewhere") / name

    monkeypatch.setattr(data, "fetch", fetch)
    assert featlearn("data", "fetch", "mnist")[1] == "mnist: /somewhere/mnist\n"
    assert json.loads(featlearn("data", "fetch", "mnist", "--json")[1])["path"] == "/somewhere/mnist"


def test_bench(featlearn, refused, monkeypatch, tmp_path):
    from featlearn.lab import provenance

    monkeypatch.setattr(provenance, "checkout", lambda: None)
    assert "benchmarks are part of a source checkout" in refused("bench", "two_layer")
    folder = tmp_path / "checkout"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks/ok.py").write_text("import sys; print(sys.argv[1:]); sys.exit(len(sys.argv) > 2)")
    monkeypatch.setattr(provenance, "checkout", lambda: folder)
    assert "no benchmark 'okk'; did you mean ok?" in refused("bench", "okk")
    assert featlearn("bench", "ok", "--a")[0] == 0
    assert featlearn("bench", "ok", "--a", "--b")[0] == 1
    assert "ok" in featlearn("bench", "--help")[1]


def test_a_closed_pipe_is_no_error():
    if not hasattr(os, "killpg"):
        pytest.skip("needs POSIX pipes; lift when the suite runs on Windows")
    command = f"{sys.executable} -m featlearn.cli list --json | head -c 5"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stdout == '{\n "w'
    assert "Traceback" not in done.stderr


def test_the_command_line_as_a_module_refuses_in_one_line():
    run = subprocess.run([sys.executable, "-m", "featlearn.cli", "lits"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "featlearn: no command 'lits'; did you mean list? (featlearn --help)\n"


@pytest.mark.parametrize(
    "words, kept",
    [
        (("domains", "fit"), False),
        (("domains", "check"), False),
        (("domains", "predict"), False),
        (("domains", "evaluate"), True),
        (("report",), False),
        (("run", "toy/normal"), True),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_an_interrupt_promises_only_what_is_true(featlearn, monkeypatch, words, kept):
    def interrupted(args):
        raise KeyboardInterrupt

    cli = importlib.import_module("featlearn.cli")
    monkeypatch.setitem(cli.COMMANDS, words[0], interrupted)
    more = ": what was finished is kept; the same command resumes" if kept else ""
    assert featlearn(*words) == (130, "", f"featlearn: interrupted{more}\n")


def test_a_statement_that_no_element_meets_is_shown_as_nothing():
    from featlearn.cli.verify import span

    assert [span(v) for v in ([], [2.0], [3.0, 2.0])] == ["nothing", "2", "2 .. 3 (2)"]


@pytest.mark.parametrize("to", ["html", "csv"])
def test_a_folder_that_is_a_file_is_refused_before_any_work(to, monkeypatch, capsys):
    """Reading verdicts and rows of all works takes a while."""
    from featlearn.cli import report

    for name in ("experiment_pages", "claim_pages", "_inputs", "_tables"):
        monkeypatch.setattr(report, name, lambda *a: pytest.fail("work before the refusal"))
    Path("file").touch()
    assert main(["report", "--out", "file", "--to", to]) == 2
    assert "it is a file" in capsys.readouterr().err


def test_a_work_that_is_none_is_refused_before_the_catalog_is_made(monkeypatch, refused):
    monkeypatch.setattr(catalog, "read", lambda: pytest.fail("a catalog before the refusal"))
    assert "no work 'resnt'; did you mean resnet?" in refused("list", "--work", "resnt")
