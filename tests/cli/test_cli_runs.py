"""Runs of one's own file: code that changes, workers that die, runs that are found again, stores that are only read."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from featlearn.cli.report import own_runs
from featlearn.errors import StoreError
from featlearn.lab import store as store_module
from featlearn.report import site

OWN = '''
"""An experiment of my own."""
import os, time
from dataclasses import dataclass
from featlearn.lab.experiment import Cost, Experiment, SummaryRow, TrialResult

@dataclass(frozen=True)
class Config:
    d: int = 5
    """Dimension."""
    c: float = 1.0
    """Scale."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """One trial each."""

@dataclass(frozen=True)
class Trial:
    d: int
    c: float
    seed: int

def trials(config):
    return [Trial(config.d, config.c, seed) for seed in config.seeds]

def run_trial(trial):
    if os.environ.get("OWN_KILL") and (trial.d, trial.seed) == (5, 1):
        os.kill(os.getpid(), 9)
    time.sleep(float(os.environ.get("OWN_PAUSE", "0")))
    return TrialResult([{"row": "mean", "seed": trial.seed, "cos": trial.c * trial.d + trial.seed + 1}])

def summarise(table):
    if os.environ.get("OWN_SUMMARY"):
        raise KeyError("cosine")
    return [SummaryRow.of("", "mean", "cos", table.values("cos"))]

EXPERIMENT = Experiment(
    id="mine/mean", title="A mean", reproduces=(), Config=Config,
    presets={"small": Config()}, trials=trials, run_trial=run_trial, summarise=summarise,
    draw=lambda table: {}, cost=lambda trial: Cost(5.0, 50.0),
)
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A file of one's own in the current folder, anew in every test."""
    monkeypatch.chdir(tmp_path)
    path = Path("mine.py")
    path.write_text(textwrap.dedent(OWN))
    return path


def start(*words, **env):
    """featlearn in a process of its own."""
    command = [sys.executable, "-m", "featlearn.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1", **env}, **pipes)


def featlearn_apart(*words, status=0, **env):
    process = start(*words, **env)
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == status, (out, err)
    assert "Traceback" not in err
    return out, err


def trials_of(out):
    return json.loads(out)["trials"]


RUN = ("run", "mine.py", "--no-report", "--json")


def test_changed_code_is_said_and_computed_again_on_demand(own):
    first, err = featlearn_apart(*RUN)
    assert "another version" not in err
    own.write_text(own.read_text().replace("# a comment", "") + "\n# a remark, and nothing else\n")
    _, err = featlearn_apart(*RUN)
    assert "another version" not in err
    own.write_text(own.read_text().replace("trial.seed + 1}", "trial.seed + 3}"))
    out, err = featlearn_apart(*RUN)
    assert "3 of 3 trials in the store were made by another version of mine.py" in err
    assert "--again" in err
    assert "version" in err
    assert json.loads(out)["summary"] == json.loads(first)["summary"]
    out, err = featlearn_apart(*RUN, "--again")
    assert trials_of(out) == {"ok": 3, "diverged": 0, "failed": 0, "skipped": 0}
    assert json.loads(out)["summary"][0]["value"] == json.loads(first)["summary"][0]["value"] + 2
    _, err = featlearn_apart(*RUN)
    assert "another version" not in err
    out, _ = featlearn_apart(*RUN, "--again")  # by the same code: everything
    assert trials_of(out)["ok"] == 3


def test_again_goes_on_where_it_was_interrupted(own):
    """A sweep by other code: of four trials that are to be done anew, those that are done stay."""
    words = (*RUN, "--sweep", "d=5,6", "--seeds", "0", "1")
    featlearn_apart(*words)
    own.write_text(own.read_text().replace("trial.seed + 1}", "trial.seed + 3}"))
    featlearn_apart(*RUN, "--seeds", "0", "1", "--again")
    out, err = featlearn_apart(*words, "--again")
    assert trials_of(out) == {"ok": 2, "diverged": 0, "failed": 0, "skipped": 2}
    assert "another version" not in err


def test_a_sweep_that_is_stopped_shows_what_finished(own, featlearn, monkeypatch):
    real, count = store_module.write_atomic, []

    def full(path, data):
        count.append(path)
        if len(count) > 7:
            raise StoreError(f"{path} cannot be written (No space left on device)")
        real(path, data)

    monkeypatch.setattr(store_module, "write_atomic", full)
    status, out, err = featlearn("run", "mine.py", "--no-report", "--workers", "1", "--sweep", "d=5,6")
    assert status == 1
    assert "d = 5" in out
    assert "d = 6" not in out
    assert err.strip().splitlines()[-1].endswith("(No space left on device)")


def test_run_without_an_export_is_refused(own, refused):
    assert "--run goes with --to" in refused("report", "--run", "0123")


def test_a_helper_beside_the_file_is_part_of_its_code(own):
    Path("helper.py").write_text("def shift():\n    return 1\n")
    own.write_text(
        "import sys\nsys.path.insert(0, '.')\nimport helper\n"
        + own.read_text().replace("trial.seed + 1}", "trial.seed + helper.shift()}")
    )
    featlearn_apart(*RUN)
    Path("helper.py").write_text("def shift():\n    return 2\n")
    _, err = featlearn_apart(*RUN)
    assert "another version" in err


def test_a_worker_that_dies_costs_its_trial_alone_and_the_sweep_goes_on(own):
    out, err = featlearn_apart(*RUN, "--sweep", "d=5,6,7", "--workers", "2", status=1, OWN_KILL="1")
    done = json.loads(out)
    assert done["trials"] == {"ok": 8, "diverged": 0, "failed": 1, "skipped": 0}
    assert [r["sweep"] for r in done["summary"]] == [{"d": 5}, {"d": 6}, {"d": 7}]
    (failure,) = done["failures"]
    record = json.loads(Path(f"runs/mine/mean/{failure['hash']}.json").read_text())
    assert (record["status"], record["trial"]["seed"]) == ("failed", 1)
    assert f"{failure['hash']}.json" in err
    assert trials_of(featlearn_apart(*RUN, "--sweep", "d=5,6,7")[0])["ok"] == 1


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_says_how_to_resume(own, workers):
    process = start("run", "mine.py", "--no-report", "--workers", workers, OWN_PAUSE="1.5")
    deadline = time.monotonic() + 60
    while not list(Path("runs/mine/mean").glob("[0-9a-f]*.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    last = err.strip().splitlines()[-1]
    assert last.endswith(f"to resume: featlearn run mine.py --no-report --workers {workers}"), err
    assert "Traceback" not in err
    assert "resource_tracker" not in err


def test_a_summary_that_raises_is_named_and_ends_nothing_else(own):
    out, err = featlearn_apart(*RUN, "--sweep", "d=5,6", status=1, OWN_SUMMARY="1")
    assert trials_of(out)["ok"] == 6
    assert err.count("summarise() of mine/mean raised KeyError: 'cosine'") == 2
    assert "mine.py:" in err


def test_a_finished_store_can_be_read_only(own, featlearn, monkeypatch):
    first = featlearn(*RUN)[1]

    def refuse(path, data):
        raise StoreError(f"{path} cannot be written (Read-only file system)")

    monkeypatch.setattr(store_module, "write_atomic", refuse)
    status, out, err = featlearn(*RUN)
    assert status == 0
    assert "cannot be written" not in err
    assert json.loads(out)["summary"] == json.loads(first)["summary"]


def test_runs_are_found_again_by_name(own, featlearn, refused):
    featlearn(*RUN)
    featlearn(*RUN, "--c", "2", "--sweep", "d=5,6")
    status, out, _ = featlearn("list", "--runs", "--json")
    runs = json.loads(out)["runs"]
    assert status == 0
    assert sorted((r["changed"].get("c", 1.0), r["changed"].get("d", 5)) for r in runs) == [(1, 5), (2, 5), (2, 6)]
    swept = [r for r in runs if r["sweeps"]]
    assert len(swept) == 2
    assert len({name for r in swept for name in r["sweeps"]}) == 1
    plain = next(r for r in runs if not r["changed"])
    other = next(r for r in runs if r["changed"].get("d") == 6)
    lines = featlearn("list", "--runs")[1].splitlines()
    assert [line.split()[0] for line in lines] == [r["hash"] for r in runs]
    out = json.loads(featlearn("diff", plain["hash"][:8], other["hash"], "--json")[1])
    assert out["settings"] == {"c": [1.0, 2.0], "d": [5, 6]}
    assert out["rows"][0]["difference"] == 7.0
    assert "mine/mean@small" in featlearn("diff", "mine/mean@small", other["hash"])[1]
    assert "no run in runs begins with '0000'" in refused("diff", "0000", "1111")
    # the same settings in a second, smaller sweep: the run is a member of both
    featlearn(*RUN, "--c", "2", "--sweep", "d=6,7")
    runs = json.loads(featlearn("list", "--runs", "--json")[1])["runs"]
    assert sorted(len(r["sweeps"]) for r in runs) == [0, 1, 1, 2]


def test_diff_runs_no_code_that_a_file_names(own, featlearn):
    featlearn(*RUN)
    (path,) = Path("runs/mine/mean").glob("*.run.json")
    Path("evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    path.write_text(path.read_text().replace(str(own.resolve()), "evil.py"))
    assert '"evil.py"' in path.read_text()
    assert featlearn("diff", path, path)[0] == 0
    assert not Path("ran").exists()


def test_a_summary_in_a_manifest_that_was_edited_is_refused(own, featlearn):
    featlearn(*RUN)
    (path,) = Path("runs/mine/mean").glob("*.run.json")
    data = json.loads(path.read_text())
    data["summary"][0]["value"] = "7"
    path.write_text(json.dumps(data))
    status, out, err = featlearn("diff", path, path)
    assert (status, out) == (1, "")
    assert "damaged: run it again" in err


def test_runs_and_sweeps_have_pages_and_exports(own, featlearn):
    words = ("run", "mine.py", "--json")
    swept = json.loads(featlearn(*words, "--sweep", "d=5,6", "--sweep", "c=1,2")[1])
    alone = json.loads(featlearn(*words, "--d", "9")[1])
    plain = json.loads(featlearn("run", "mine.py", "--json")[1])
    assert len({swept["page"], alone["page"], plain["page"]}) == 3
    text = Path(swept["page"]).read_text()
    assert text.count("<img") == 1  # one metric, a panel for each value of c
    for run in swept["runs"]:
        assert f"run/{run['hash']}.html" in text
    before = Path(alone["page"]).read_bytes()
    assert (
        site.build("site", [], [], [], runs=own_runs("runs")).problems == ()
    )  # the part of `report` that is about them
    assert Path(alone["page"]).read_bytes() == before  # it has the pictures that the run drew
    index = Path("site/index.html").read_text()
    for page in (alone["page"], swept["page"]):
        assert page.removeprefix("site/") in index
    (hash_,) = [r["hash"] for r in alone["runs"]]
    _, out, _ = featlearn("report", "--to", "csv", "--out", "out", "--run", hash_[:8])
    rows = Path(f"out/mine.mean.{hash_[:8]}.rows.csv").read_text().splitlines()
    assert len(out.splitlines()) == 2
    assert rows[0].split(",")[:3] == ["row", "seed", "cos"]
    assert [float(r.split(",")[2]) for r in rows[1:]] == [10.0, 11.0, 12.0]
    sweep = Path(swept["page"]).stem
    featlearn("report", "--to", "csv", "--out", "out", "--run", sweep[:8])
    rows = Path(f"out/mine.mean.sweep.{sweep[:8]}.rows.csv").read_text().splitlines()
    assert rows[0].split(",")[:2] == ["sweep_d", "sweep_c"]
    assert len(rows) == 13
    featlearn("report", "--to", "latex", "--out", "out", "--run", sweep[:8])
    assert "d = 6, c = 2.0" in Path(f"out/mine.mean.sweep.{sweep[:8]}.summary.tex").read_text()
