"""list, verify, report, diff, data, bench; and what they may load."""

import dataclasses
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from featlearn import catalog, works
from featlearn.cli.diff import compared
from featlearn.cli.report import experiment_pages
from featlearn.cli.verify import coverage
from featlearn.lab import inventory
from featlearn.lab.execute import run
from featlearn.lab.experiment import SummaryRow
from featlearn.lab.pending import Evidence, Verdict
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
    assert {w["id"]: w["entries"] for w in got["works"]} == {w: len(inventory.load(w).entries) for w in inventory.WORKS}
    for work in got["works"]:
        assert 0 <= work["covered"] <= work["entries"]
    assert [e["id"] for e in got["experiments"]] == list(works.EXPERIMENTS)
    for e in got["experiments"]:
        assert e["evidence"] in ("ok", "stale", "none")
        assert {"smoke", "small", "paper"} <= set(e["presets"])
        for entry in e["reproduces"]:
            inventory.entry(entry)
    claims = [c for work in works.WITH_CLAIMS for c in works.load_claims(work)]
    assert [c["id"] for c in got["claims"]] == [c.id for c in claims]
    for c in got["claims"]:
        assert {"id", "entries", "verdict"} <= c.keys()
        for entry in c["entries"]:
            inventory.entry(entry)


def test_list_one_work_and_its_text(featlearn, refused):
    status, out, _ = featlearn("list", "--work", "resnet")
    assert status == 0
    assert "resnet" in out
    assert "gemfilter" not in out
    assert "no work 'resnt'; did you mean resnet?" in refused("list", "--work", "resnt")
    assert "unknown flag --jsn; did you mean --json?" in refused("list", "--jsn")


def test_coverage_counts_what_was_judged():
    def claim(verdict, mechanism, entry):
        return {"entries": [f"w.{entry}"], "verdict": verdict, "mechanism": mechanism}

    found = {
        "experiments": [
            {"evidence": "ok", "reproduces": ["w.a", "v.a"]},
            {"evidence": "stale", "reproduces": ["w.b"]},
            {"evidence": "none", "reproduces": ["w.c"]},
        ],
        "claims": [
            claim("holds", True, "d"),
            claim("refuted", False, "e"),
            claim("vacuous", True, "f"),
            claim("vacuous", False, "g"),
            claim("assumptions unmet", False, "h"),
            claim("not established", True, "i"),
            claim("data needed", False, "j"),
            claim("not run", False, "k"),
        ],
    }
    assert catalog.covered(found, "w") == {"w.a", "w.d", "w.e", "w.f"}


# --- verify ----------------------------------------------------------------------------------------------------------


def test_verify_a_work(featlearn, claims):
    status, out, _ = featlearn("verify", "emergence")
    assert status == 0
    assert re.search(r"emergence\.toy_holds.*holds.*holds.*2 cases, every rival", out)
    for entry in inventory.load("emergence").entries:
        assert entry.id in out
    assert re.search(r"emergence\.lemma5 .*holds .*emergence\.toy_holds", out)
    assert re.search(r"emergence\.table4 .*not run", out)
    assert re.search(r"emergence\.table2 .*data needed", out)
    assert "2 claims, all as expected" in out
    saved = json.loads(Path("runs/verdicts/emergence/emergence.toy_holds.json").read_text())
    assert saved["verdict"] == "holds"
    assert saved["provenance"]["python"]
    assert len(saved["cases"][1]["observe"]) <= 200
    assert Path("runs/verdicts/emergence/emergence.toy_holds.npz").exists()


def test_coverage_by_experiments_where_no_claim_covers(claims, toy, monkeypatch):
    entries = {e for c in claims for e in c.entries}
    free = [e.id for e in inventory.load("emergence").entries if e.id not in entries][:2]
    ours = dataclasses.replace(
        toy,
        reproduces=("emergence.table1", *free),
        summarise=lambda t: [
            SummaryRow(
                "",
                row="a",
                metric="x",
                value=1.0,
                low=1.0,
                high=1.0,
                n=1,
                reported=1.0,
                verdict="reproduced",
                entry=free[0],
            ),
            SummaryRow(
                "",
                row="b",
                metric="x",
                value=1.0,
                low=1.0,
                high=1.0,
                n=1,
                reported=9.0,
                verdict="deviates",
                entry=free[0],
            ),
            SummaryRow("", row="c", metric="x", value=1.0, low=1.0, high=1.0, n=1),
        ],
    )
    monkeypatch.setattr(works, "EXPERIMENTS", ("emergence/toy",))
    monkeypatch.setattr(works, "load_experiment", lambda id: ours)
    judged = [(Verdict(claims[0], "holds", "", Evidence(), 0.0), "")]
    store = Store("runs")
    rows = {entry: (verdict, by) for entry, verdict, by in coverage("emergence", judged, store)}
    assert rows["emergence.table1"] == ("holds", "emergence.toy_holds")
    assert rows[free[0]] == rows[free[1]] == ("not run", "featlearn run emergence/toy")
    run(ours, toy.presets["small"], store=store)
    rows = {entry: (verdict, by) for entry, verdict, by in coverage("emergence", judged, store)}
    assert rows[free[0]] == ("1 of 2 reproduced", "emergence/toy@small")
    assert rows[free[1]] == ("run", "emergence/toy@small")
    assert rows["emergence.skipped"] == ("not run", "")


def test_verify_json(featlearn, claims):
    status, out, _ = featlearn("verify", "emergence", "--json")
    assert status == 0
    got = json.loads(out)
    assert [g["id"] for g in got] == ["emergence.toy_holds", "emergence.toy_rows"]
    for g in got:
        assert {"id", "entries", "verdict", "expected", "predict", "observe", "rival", "seconds"} <= g.keys()
    assert (got[0]["predict"][0], got[0]["observe"][0], got[0]["rival"][0]) == (2.0, 2.01, 3.0)


def test_verify_one_claim_reads_rows_paper_first(featlearn, claims, toy_file):
    status, out, _ = featlearn("verify", "emergence.toy_rows")
    assert status == 0
    assert "data needed" in out
    assert "Coverage" not in out
    for preset, rows in (("small", 6), ("paper", 10)):
        featlearn("run", toy_file, "--preset", preset, "--no-report")
        status, out, _ = featlearn("verify", "emergence.toy_rows", "--json")
        assert status == 1  # it holds now, and "data needed" was expected
        assert json.loads(out)[0]["verdict"] == "holds"
        assert json.loads(out)[0]["observe"] == [rows]


def test_verify_says_what_differs_and_what_broke(featlearn, claims, wrong_and_broken):
    wrong, broken = wrong_and_broken
    claims.append(wrong)
    status, out, _ = featlearn("verify", "emergence")
    assert status == 1
    assert "3 claims; not as expected: emergence.toy_wrong" in out
    claims[-1] = broken
    status, out, err = featlearn("verify", "emergence")
    assert status == 1  # although "not run" was expected
    assert "emergence.toy_broken: the check broke: RuntimeError: the check itself is wrong" in err
    assert "Traceback" not in err
    assert "Traceback" in json.loads(Path("runs/verdicts/emergence/emergence.toy_broken.json").read_text())["error"]


def test_verify_refuses_names(refused, featlearn, claims):
    assert "no work or claim 'emergnce'; did you mean emergence?" in refused("verify", "emergnce")
    assert "no claim 'emergence.toy_hold'; did you mean emergence.toy_holds?" in refused("verify", "emergence.toy_hold")
    assert refused("verify").startswith("Missing from featlearn verify")
    status, out, _ = featlearn("verify", "gemfilter")  # a work without claims yet
    assert status == 0
    assert out.count("not run") == len(inventory.load("gemfilter").entries)


def test_verdicts_of_the_user_are_newer_than_the_shipped(featlearn, monkeypatch, claims):
    shipped = {
        "works": [{"id": "emergence", "title": "t", "entries": 71}],
        "experiments": [],
        "claims": [
            {
                "id": "emergence.toy_holds",
                "entries": ["emergence.table1"],
                "says": "s",
                "expected": "holds",
                "verdict": "not run",
                "mechanism": False,
            }
        ],
    }
    monkeypatch.setattr(catalog, "read", lambda: json.loads(json.dumps(shipped)))
    assert json.loads(featlearn("list", "--json")[1])["works"][0]["covered"] == 0
    featlearn("verify", "emergence")
    got = json.loads(featlearn("list", "--json")[1])
    assert got["works"][0]["covered"] == 1
    assert got["claims"][0]["verdict"] == "holds"


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
    assert "does not exist" in refused("diff", "none.run.json", manifest)


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
    line = refused("data", "fetch", "mnist", "--root", tmp_path / "root", status=1)
    assert "holds no file of mnist" in line


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
