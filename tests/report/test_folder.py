"""The folder of a site: only what changed is written, what is ours is removed, what is someone else's stays."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import canned
import canned_typed
import pytest
from test_site import files, small

from featlearn.errors import ReportError
from featlearn.report import folder, pictures, site


def times(root):
    return {str(p.relative_to(root)): p.stat().st_mtime_ns for p in sorted(root.rglob("*")) if p.is_file()}


def build(out, verdicts=None, drawn=None, **other):
    """A site of both canned works. drawn: a list that each drawing is noted in; the picture has a key of its own."""
    found = canned_typed.verdicts() if verdicts is None else verdicts
    return site.build(out, [canned_typed.work(), canned.work()], [canned.experiment_page()], found, **other)


@pytest.fixture
def keyed(monkeypatch):
    """Pictures of the canned experiment have a key as those of the package have; what was drawn, in order."""
    drawn, make = [], pictures.made

    def noted(job):
        drawn.append(job.owner)
        return make(job)

    monkeypatch.setattr(pictures, "key", lambda draw, given, *more: pictures.text_digest(repr((given.rows, more))))
    monkeypatch.setattr(pictures, "made", noted)
    return drawn


def test_an_unchanged_site_is_neither_drawn_nor_written_again(tmp_path, keyed, monkeypatch):
    out, drawing, asked = tmp_path / "out", pictures.drawing, []
    monkeypatch.setattr(pictures, "drawing", lambda jobs: asked.append([j.owner for j in jobs]) or drawing(jobs))
    build(out)
    before = times(out)
    assert keyed == ["toy/table1"]
    build(out)
    assert keyed == ["toy/table1"]
    assert asked == [["toy/table1"], []]  # no process is started for what stands
    assert times(out) == before


def test_a_changed_verdict_writes_its_pages_alone(tmp_path, keyed):
    out = tmp_path / "out"
    build(out)
    before = times(out)
    found = canned_typed.verdicts()
    found[1] = dataclasses.replace(found[1], remarks="Another remark.")
    build(out, found)
    after = times(out)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"claim/typed.wrong.html", folder.MARKER}
    assert keyed == ["toy/table1"]


def test_rows_that_changed_are_drawn_again_and_so_is_a_picture_that_someone_edited(tmp_path, keyed):
    out = tmp_path / "out"
    build(out)
    (picture, *_) = sorted(out.glob("pictures/*.svg"))
    content = picture.read_bytes()
    picture.write_bytes(b"<svg/>")
    build(out)
    assert keyed == ["toy/table1"] * 2
    assert picture.read_bytes() == content
    page = canned.experiment_page()
    other = dataclasses.replace(page, table=dataclasses.replace(page.table, rows=({"trial": "b", "x": 2.0},)))
    site.build(out, [canned_typed.work(), canned.work()], [other], canned_typed.verdicts())
    assert keyed == ["toy/table1"] * 3


def test_a_picture_that_failed_is_tried_again(tmp_path, keyed):
    def broken(table):
        raise ZeroDivisionError

    page = canned.experiment_page(experiment=canned.experiment(draw=broken))
    for _ in range(2):
        assert len(site.build(tmp_path / "out", [canned.work()], [page], [], inputs="same").problems) == 1
    assert len(keyed) == 2
    assert site.unchanged(tmp_path / "out", "same") is None


def test_a_site_made_from_the_same_inputs_is_known_until_a_file_is_touched(tmp_path):
    out = tmp_path / "out"
    assert site.unchanged(out, "a") is None
    made = small(out, inputs="a")
    assert site.unchanged(out, "a") == made
    assert site.unchanged(out, "b") is None
    small(tmp_path / "other")
    assert site.unchanged(tmp_path / "other", "") is None
    (out / "notes.txt").write_text("mine")
    assert site.unchanged(out, "a") == made  # a file of someone else is no part of the site
    (out / "style.css").write_text("")
    assert site.unchanged(out, "a") is None
    small(out, inputs="a")
    (out / "claim/toy.a.html").unlink()
    assert site.unchanged(out, "a") is None


def test_a_page_of_ours_that_someone_edited_is_not_removed(tmp_path):
    out = tmp_path / "out"
    small(out, ("toy.a", "toy.b", "toy.c"))
    (out / "claim/toy.b.html").write_text("mine now")
    small(out, ("toy.a",))
    assert (out / "claim/toy.b.html").read_text() == "mine now"
    assert not (out / "claim/toy.c.html").exists()
    small(out, ("toy.a",))
    assert (out / "claim/toy.b.html").read_text() == "mine now"


def test_a_file_of_someone_else_is_not_written_over(tmp_path):
    out = tmp_path / "out"
    small(out)
    (out / "claim/toy.b.html").write_text("mine")
    before = files(out)
    with pytest.raises(ReportError, match=r"claim/toy\.b\.html there is not ours; move it away") as error:
        small(out, ("toy.a", "toy.b"))
    assert "\n" not in str(error.value)
    assert files(out) == before


def test_a_folder_of_an_older_version_is_made_again(tmp_path, keyed):
    out = tmp_path / "out"
    build(out)
    again = files(out)
    marker = out / folder.MARKER
    old = {"made_by": "featlearn report", "files": json.loads(marker.read_text())["files"]}
    marker.write_text(json.dumps(old | {"files": old["files"] | {"pictures/claim.old.svg": "build"}}))
    (out / "pictures/claim.old.svg").write_text("<svg/>")
    (out / "index.html").write_text("an older page")
    build(out)
    assert files(out) == again
    assert keyed == ["toy/table1"] * 2


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"files": []}', '{"files": {}, "last": 1}', '{"files": {}, "pictures": {"a": 1}}']
)
def test_a_list_that_cannot_be_read_is_an_empty_one(tmp_path, text):
    (tmp_path / folder.MARKER).write_text(text)
    assert folder.listed(tmp_path).files == {}
    assert folder.standing(tmp_path, [pictures.Job("a", "a", print, None, "key")]) == {}


def test_what_a_killed_command_left_is_swept_after_an_hour(tmp_path):
    out = tmp_path / "out"
    small(out)
    for name, age in ((".making-old", 2 * folder.LEFT), (".making-new", 0.0)):
        (out / name).mkdir()
        (out / name / "page.html").write_text("half")
        os.utime(out / name, (time.time() - age,) * 2)
    small(out)
    assert [p.name for p in out.glob(".making-*")] == [".making-new"]


def test_a_report_that_is_stopped_leaves_no_folder_and_the_site_as_it_was(tmp_path):
    code = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background
sys.path.insert(0, sys.argv[2])
import canned
from featlearn.report import site
def wait(done, total):
    if done == 3:
        print("ready", flush=True)
        time.sleep(60)
site.build(sys.argv[1], [canned.work()], [canned.experiment_page()], [canned.verdict("toy.z", run=False)], wait)
"""
    out = tmp_path / "out"
    small(out)
    before = files(out)
    words = [sys.executable, "-c", code, str(out), os.path.dirname(canned.__file__)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    assert list(out.glob(".making-*"))
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    assert files(out) == before
    assert not list(out.glob(".making-*"))
