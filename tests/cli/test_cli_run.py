"""`featlearn run`: flags are the fields of the Config, refusals come first, one JSON document, exit statuses."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from featlearn.lab.store import FORMAT, Store, read_manifest

KEYS = {"experiment", "preset", "seconds", "trials", "store", "summary"}
ROW_KEYS = {"row", "metric", "value", "low", "high", "reported", "verdict"}


def test_run_prints_cost_first_then_table_then_page(featlearn, toy_file):
    status, out, err = featlearn("run", toy_file)
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "toy/normal: Normal numbers"
    assert lines[1] == "preset small"
    assert lines[2] == "3 trials: about 2 s in this process, up to 60 MiB"
    assert "95 % intervals" in out
    assert re.search(r"mean .* 0\.500 !", out)
    page = Path(out.splitlines()[-1].removeprefix("page: "))
    assert "Normal numbers" in page.read_text()
    assert "3 ok" in out
    assert "3/3" in err  # progress
    status, out, err = featlearn("run", toy_file, "--no-report")
    assert status == 0
    assert "3 trials, all of them done before" in out
    assert "0 ok, 3 skipped" in out
    assert "page:" not in out
    assert err == ""


def test_json_is_one_document_on_stdout(featlearn, toy_file):
    status, out, err = featlearn("run", toy_file, "--json", "--preset", "smoke", "--store", "mine")
    assert status == 0
    got = json.loads(out)
    assert KEYS <= got.keys()
    assert (got["experiment"], got["preset"], got["store"]) == ("toy/normal", "smoke", "mine")
    assert got["trials"] == {"ok": 1, "diverged": 0, "failed": 0, "skipped": 0}
    assert [r["row"] for r in got["summary"]] == ["mean", "trace"]
    for row in got["summary"]:
        assert ROW_KEYS <= row.keys()
        assert row["verdict"] in ("reproduced", "deviates", "not reported")
    assert got["summary"][0]["reported"] == 0.5
    assert got["summary"][1]["reported"] is None
    assert Path(got["page"]).is_file()
    assert "toy/normal" in err
    assert Store("mine").manifests()[0][1].hash == got["runs"][0]["hash"]


def test_every_field_is_a_flag_with_help_and_the_preset_as_default(featlearn, toy_file):
    status, out, _ = featlearn("run", toy_file, "--preset", "paper", "--help")
    assert status == 0
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", out).split())
    assert "--size INT Numbers drawn in each trial. (default: 400)" in text
    assert "--seeds [INT [INT ...]] One trial a seed. (default: 0 1 2 3 4)" in text
    for name in ("scale", "loud", "pause", "diary", "broken", "diverging", "sweep", "workers", "json", "store"):
        assert f"--{name} " in text or f"--{name}," in text
    assert not Path("runs").exists()


def test_flags_change_the_preset_and_the_header_says_so(featlearn, toy_file):
    status, out, _ = featlearn("run", toy_file, "--size", "5", "--seeds", "7", "8", "--loud", "--no-report")
    assert status == 0
    assert "preset small; changed from the preset: size = 5, seeds = [7, 8], loud = True" in out
    ((_, manifest),) = Store("runs").manifests()
    assert manifest.changed == {"size": 5, "seeds": [7, 8], "loud": True}
    assert manifest.config["scale"] == 1.0
    assert manifest.preset == "small"
    assert manifest.source == toy_file
    assert manifest.command == f"featlearn run {toy_file} --size 5 --seeds 7 8 --loud --no-report"


def test_a_flag_of_several_values_may_stand_more_than_once(featlearn, toy_file):
    status, out, _ = featlearn("run", toy_file, "--seeds", "7", "--size=5", "--seeds=8", "--seeds", "9", "--no-report")
    assert status == 0
    assert "changed from the preset: size = 5, seeds = [7, 8, 9]" in out


@pytest.mark.parametrize(
    "words, says",
    [
        (["--sizee", "4"], r"unknown flag --sizee; did you mean --size\? \(featlearn run .*toy_experiment.py --help\)"),
        (["--size=4", "--workerz=2"], r"unknown flag --workerz=2; did you mean --workers\?"),
        (["--no-lowd"], r"unknown flag --no-lowd; did you mean --no-loud\?"),
        (["extra"], r"unknown word extra"),
        (["--size", "1"], r"^size = 1 is not allowed: at least 2; raise size$"),
        (["--size", "abc"], r"^--size: invalid literal for int\(\) with base 10: 'abc' "),
        (["--size"], r"--size.*\(featlearn run"),
        (["--preset", "papre"], r"preset = papre is not allowed; did you mean paper\?"),
        (["--seeds", "1", "2", "1"], r"trials 0 and 2 of toy/normal are the same: remove the repeated setting"),
        (["--workers", "-1"], r"workers = -1 is not allowed: at least 0"),
        (["--threads", "0"], r"threads = 0 is not allowed: at least 1"),
        (["--sweep", "size"], r"--sweep size is not allowed: field=a,b,c"),
        (["--sweep", "sise=3,4"], r"--sweep sise=3,4: no setting 'sise'; did you mean size\?"),
        (["--sweep", "size=3,x"], r"--size: invalid literal for int\(\) with base 10: 'x'"),
        (["--sweep", "size=3,1"], r"^size = 1 is not allowed"),
        (["--sweep", "size=3", "size=4"], r"--sweep size is given twice"),
        (["--sweep", "size=3,3"], r"size = 3 is there twice"),
    ],
)
def test_refused_with_one_line_and_nothing_written(refused, toy_file, words, says):
    assert re.search(says, refused("run", toy_file, *words))


def test_refused_names(refused, tmp_path, monkeypatch):

    from featlearn import works

    monkeypatch.setattr(works, "EXPERIMENTS", ("toy/normal",))
    assert "no experiment 'toy/norml'; did you mean toy/normal?" in refused("run", "toy/norml")
    assert "does not exist" in refused("run", tmp_path / "none.py")
    assert "which experiment?" in refused("run")
    assert "the experiment comes first" in refused("run", "--preset", "small", "toy/normal")
    assert "no command 'rum'; did you mean run?" in refused("rum")
    bad = tmp_path / "bad.py"
    bad.write_text("import os\n\nx = 1 / 0\n")
    assert refused("run", bad) == f"{bad} cannot be loaded: ZeroDivisionError: division by zero ({bad}, line 3)"
    bad.write_text("x = (\n")
    assert "bad.py cannot be loaded" in refused("run", bad)
    bad.write_text("x = 1\n")
    assert "has no EXPERIMENT" in refused("run", bad)


def test_a_config_field_may_not_hide_a_flag(refused, tmp_path, toy_file):
    mine = tmp_path / "mine.py"
    mine.write_text(
        Path(toy_file).read_text().replace("    size: int = 40\n", "    size: int = 40\n    store: int = 1\n")
    )
    assert "has the field store, a flag of `featlearn run`: rename it" in refused("run", mine)


def test_sweep_is_the_product_of_settings(featlearn, toy_file):
    words = ("--sweep", "size=5,6", "loud=true,false", "--sweep", "seeds=0+1,2", "--json", "--no-report")
    status, out, _ = featlearn("run", toy_file, *words)
    assert status == 0
    got = json.loads(out)
    sweeps = [r["sweep"] for r in got["runs"]]
    assert sweeps == [
        {"size": size, "loud": loud, "seeds": seeds}
        for size in (5, 6)
        for loud in (True, False)
        for seeds in ([0, 1], [2])
    ]
    assert got["trials"]["ok"] == 4 * 3
    assert len(got["summary"]) == 8 * 2
    assert got["summary"][-1]["sweep"] == sweeps[-1]
    assert len(list(Path("runs/toy/normal").glob("*.run.json"))) == 8
    assert read_manifest(got["runs"][1]["manifest"]).sweep == {"size": 5, "loud": True, "seeds": [2]}
    status, out, _ = featlearn("run", toy_file, "--sweep", "size=5,6", "--seeds", "0", "--no-report")
    assert "sweep of size: 2 runs" in out
    assert "size = 6" in out
    assert "0 ok, 2 skipped" in out  # trials of the product above: what is the same is not computed twice
    assert status == 0


def test_failed_trials_give_status_1_and_a_line_each(featlearn, toy_file):
    Path("broken").touch()
    status, out, err = featlearn("run", toy_file, "--broken", "broken")
    assert status == 1
    assert err.count("failed: RuntimeError: seed") == 3
    assert "Traceback" not in err
    assert "no rows" in out
    Path("broken").unlink()
    status, out, err = featlearn("run", toy_file, "--broken", "broken", "--no-report", "--diverging", "1")
    assert status == 0  # a divergence is a result
    assert "2 ok, 1 diverged" in out
    assert "diverged: not finite at step 1" in err


def test_two_workers_give_the_same_document(featlearn, toy_file):
    _, one, _ = featlearn("run", toy_file, "--json", "--no-report", "--store", "a", "--workers", "1")
    _, two, _ = featlearn("run", toy_file, "--json", "--no-report", "--store", "b", "--workers", "2")
    assert json.loads(one)["summary"] == json.loads(two)["summary"]
    assert json.loads(two)["trials"]["ok"] == 3


def test_a_site_folder_with_other_files_is_left_alone(featlearn, toy_file):
    Path("site").mkdir()
    Path("site/mine.txt").write_text("mine")
    status, out, err = featlearn("run", toy_file, "--preset", "smoke")
    assert status == 0
    assert "no page was written" in err
    assert [p.name for p in Path("site").iterdir()] == ["mine.txt"]
    assert "page:" not in out


def test_store_of_a_newer_version(featlearn, toy_file):
    featlearn("run", toy_file, "--no-report")
    record = next(p for p in Path("runs/toy/normal").glob("*.json") if ".run." not in p.name)
    record.write_text(json.dumps({**json.loads(record.read_text()), "format": 9}))
    status, out, err = featlearn("run", toy_file, "--no-report")
    assert (status, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert f"has format 9, this featlearn reads up to {FORMAT}: update featlearn" in err


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals; lift when the suite runs on Windows")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_leaves_a_resumable_store(featlearn, toy_file, workers):
    words = ["run", toy_file, "--seeds", *map(str, range(8)), "--pause", "0.2", "--workers", workers, "--no-report"]
    process = subprocess.Popen(
        [sys.executable, "-m", "featlearn.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # what a shell starts in the background ignores Ctrl-C, and so does all that it starts
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )

    def done():
        return [p for p in Path("runs").glob("toy/normal/*.json") if ".run." not in p.name]

    end = time.monotonic() + 60
    while len(done()) < 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    last = err.strip().splitlines()[-1]
    assert last.startswith("featlearn: interrupted: finished trials are kept in runs; to resume: featlearn run ")
    finished = len(done())
    assert 2 <= finished < 8
    status, out, _ = featlearn(*words, "--json")
    assert status == 0
    assert json.loads(out)["trials"] == {"ok": 8 - finished, "diverged": 0, "failed": 0, "skipped": finished}


@pytest.mark.parametrize("columns, tables", [("200", 1), ("60", 3)])
def test_names_of_rows_are_never_cut(featlearn, toy_file, tmp_path, monkeypatch, columns, tables):
    mine = tmp_path / "mine.py"
    text = Path(toy_file).read_text().replace('metrics=("score",)', 'metrics=("score", "second", "third")')
    text = text.replace('"row": "trace"', '"row": "a row with a long name"')
    mine.write_text(re.sub(r'"score": (.*)}', r'"score": \1, "second": 12345678.9, "third": 0.123456789}', text))
    monkeypatch.setenv("COLUMNS", columns)
    status, out, _ = featlearn("run", mine, "--no-report")
    assert status == 0
    assert out.count("long") == out.count("name") == tables  # wrapped at most
    assert out.count("95 % intervals") == tables


def test_a_device_that_is_not_here_is_refused_before_any_trial(featlearn, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    status, out, err = featlearn("run", "fourier/circuits", "--preset", "smoke", "--device", "cuda")
    assert status == 2
    assert not out
    assert "device = 'cuda' is not allowed" in err
    assert not Path("runs").exists()
