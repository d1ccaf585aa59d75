"""The site: complete, closed, escaped, and careful with what lies in its folder."""

import dataclasses
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import canned
import pytest

from featlearn.errors import ReportError
from featlearn.lab.experiment import SummaryRow
from featlearn.lab.find import Origin
from featlearn.report import model, site


class Page(HTMLParser):
    """Links, images, headings and visible text of a page; complains about elements left open."""

    def __init__(self, path: Path):
        super().__init__()
        self.links, self.images, self.headings, self.tags, self.text, self.open = [], [], [], [], "", []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        assert self.open == [], path

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.tags.append(tag)
        if tag not in ("img", "meta", "link", "input", "br"):
            self.open.append(tag)
        self.links += [a[k] for k in ("href", "src") if k in a]
        if tag == "img":
            self.images.append(a)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "script" not in self.open:
            self.text += data


@pytest.fixture(scope="module")
def pages(built):
    root = built.index.parent
    return {str(p.relative_to(root)): Page(p) for p in sorted(root.rglob("*.html"))}


def files(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_page_for_everything(built, pages):
    assert set(pages) == {
        "index.html",
        "glossary.html",
        "work/toy.html",
        *(f"entry/{e.id}.html" for e in canned.work().entries),
        "experiment/toy.table1.html",
        *(f"claim/{v.id}.html" for v in canned.verdicts()),
    }
    assert built.pages == len(pages)
    assert built.problems == ()


def test_every_link_resolves_inside_the_site(built, pages):
    root = built.index.parent
    for name, page in pages.items():
        for link in page.links:
            if link.startswith(("#", "https://arxiv.org/abs/")):
                continue
            target = (root / name).parent / unquote(link)
            assert target.is_file(), (name, link)
            assert target.resolve().is_relative_to(root.resolve()), (name, link)


def test_every_page_and_picture_is_reached_from_the_index(built, pages):
    root, seen, todo = built.index.parent, set(), ["index.html"]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            found = (
                [(root / name).parent / unquote(x) for x in pages[name].links if not x.startswith(("#", "https:"))]
                if name in pages
                else []
            )
            todo += [str(f.resolve().relative_to(root.resolve())) for f in found]
    assert seen == set(files(root)) - {site.MARKER}


def test_nothing_from_the_network(built):
    for name, data in files(built.index.parent).items():
        if name.endswith((".html", ".css")):
            # the papers are named, and linked for readers to follow: nothing that a page loads by itself
            rest = re.sub(
                rb"""<a href="https://arxiv\.org/abs/[\d.]+"|url = \{https://arxiv\.org/abs/[\d.]+\}""", b"", data
            )
            assert not re.search(rb"""(src|href)=["']?(https?:)?//|@import|url\(|https?://""", rest), name
        if name.endswith(".svg"):  # only the names of namespaces and of licences, which nothing loads
            assert not re.search(rb"""(xlink:)?href="(?!#)|<image|<script""", data), name


def test_all_text_is_escaped(pages):
    for name, page in pages.items():
        assert 'alert("x")' not in page.source, name
        assert page.tags.count("script") == (1 if name.startswith("work/") else 0), name
    assert canned.NASTY in pages["work/toy.html"].text
    assert canned.NASTY in pages["entry/toy.table1.html"].text
    assert canned.NASTY in pages["entry/toy.lemma2.html"].text
    assert canned.NASTY in pages["experiment/toy.table1.html"].text


def test_pages_can_be_read_aloud(pages):
    for name, page in pages.items():
        assert page.headings[0] == 1, name
        assert page.headings.count(1) == 1, name
        assert all(b - a <= 1 for a, b in zip(page.headings, page.headings[1:], strict=False)), name
        assert all(i["alt"].strip() and i["width"] and i["height"] for i in page.images), name
        assert '<html lang="en">' in page.source
        assert 'name="viewport"' in page.source


def test_experiment_page_says_everything(pages):
    text = pages["experiment/toy.table1.html"].text
    for part in (
        "3 of 5 reproduced",
        "What toy.table1 says.",
        "featlearn run toy/table1 --preset small",
        "0123abcd with local changes",
        "CPU, 2 cores",
        "torch 2.14",
        "2025-01-02",
        "75.0 s",
        "812 MiB",
        "0, 1, 2, 3, 4",
        "1 trial diverged",
        "step size",
        "deviates",
        "not reported",
        "Accuracy on test data.",
    ):
        assert part in text, part
    assert len(pages["experiment/toy.table1.html"].images) == 2
    rows = re.findall(r"<tr>.*?</tr>", pages["experiment/toy.table1.html"].source, re.S)
    (d,) = [r for r in rows if "<code>d</code>" in r]
    assert re.sub("<[^>]+>", " ", d).split() == ["d", "100", "500"]  # ours, and what preset paper has


@pytest.mark.parametrize("reported", [True, False])
def test_numbers_without_reported_stand_side_by_side_below_the_pictures(tmp_path, reported):
    own = [
        SummaryRow("", row=row, metric=m, value=7.5, low=7.0, high=8.0, n=3)
        for m in ("steps", "norm")
        for row in ("NTK", "Network")
    ]
    page = canned.experiment_page(summary=[*canned.summary(), *own] if reported else own)
    root = site.build(tmp_path / "s", [canned.work()], [page], []).index.parent
    source = (root / "experiment/toy.table1.html").read_text()
    (heads,) = [h for h in re.findall(r"<thead>.*?</thead>", source, re.S) if "steps" in h]
    assert re.sub("<[^>]+>", " ", heads).split() == ["row", "steps", "norm"]
    assert source.index("<img") < source.index(heads)
    assert ("Numbers that are not in the paper" in source, "none is of what ours measure" in source) == (
        reported,
        not reported,
    )


def test_entry_pages_keep_reported_values_apart_from_derived_ones_and_own_runs(pages):
    source = pages["entry/toy.figure3.html"].source
    titles = ("Reported values", "Derived from the reported values", "Runs of our own", "How it can be checked")
    starts = [source.index(f"<h2>{title}</h2>") for title in titles]
    assert starts == sorted(starts)
    parts = [source[a:b] for a, b in itertools.pairwise(starts)]
    assert ["2.5" in x for x in parts] == [True, False, False]
    assert ["2.75" in x for x in parts] == [False, True, False]
    assert ["0.125" in x for x in parts] == [False, False, True]
    plain = pages["entry/toy.table1.html"].text
    assert "Derived from" not in plain
    assert "Runs of our own" not in plain


def test_entry_pages_show_the_pictures_of_their_experiments(pages):
    assert [i["src"] for i in pages["entry/toy.figure3.html"].images] == [
        "../pictures/experiment.toy.table1.toy.figure3.svg"
    ]
    assert "toy.table1: Accuracy on test data." in pages["entry/toy.table1.html"].text
    assert pages["entry/toy.lemma2.html"].images == []


def test_a_claim_and_its_entry_show_the_picture_of_the_claim(tmp_path):
    def draw():
        return {"toy.lemma2": dataclasses.replace(canned.picture(), caption="The bound <drawn>.")}

    def broken():
        raise ZeroDivisionError("no size")

    claims = [
        dataclasses.replace(model.as_claim_page(canned.verdict(id_)), draw=drawn)
        for id_, drawn in (("toy.holds", draw), ("toy.breaks", broken), ("toy.plain", None))
    ]
    built = site.build(tmp_path / "s", [canned.work()], [], claims)
    root, shown = built.index.parent, ["../pictures/claim.toy.holds.toy.lemma2.svg"]
    assert [*files(root / "pictures")] == ["claim.toy.holds.toy.lemma2.svg"]
    for name in ("claim/toy.holds", "entry/toy.lemma2"):
        page = Page(root / f"{name}.html")
        assert [i["src"] for i in page.images] == shown
        assert "The bound <drawn>." in page.text
    assert Page(root / "claim/toy.plain.html").images == []
    assert "ZeroDivisionError: no size" in Page(root / "claim/toy.breaks.html").text
    assert built.problems == ("toy.breaks: the picture could not be drawn: ZeroDivisionError: no size",)


def test_a_picture_of_two_entries_is_saved_once(tmp_path):
    def draw(table):
        return dict.fromkeys(("toy.table1", "toy.figure3"), next(iter(canned.quick(table).values())))

    page = canned.experiment_page(experiment=canned.experiment(draw=draw))
    root = site.build(tmp_path / "s", [canned.work()], [page], []).index.parent
    assert [*files(root / "pictures")] == ["experiment.toy.table1.toy.table1.svg"]
    shown = [
        Page(root / name).images
        for name in ("experiment/toy.table1.html", "entry/toy.table1.html", "entry/toy.figure3.html")
    ]
    assert len({i["src"] for images in shown for i in images}) == 1
    assert [len(images) for images in shown] == [1, 1, 1]
    assert "toy.table1, toy.figure3: " in shown[2][0]["alt"]


def test_claim_pages_say_everything(pages):
    text = pages["claim/toy.holds.html"].text
    for part in (
        "‖w‖² ≤ 2·σ²·log(1/δ)",
        "confirmed",
        "a fifth too large",
        "500 >= 100",
        "featlearn verify toy.holds",
    ):
        assert part in text, part


@pytest.mark.parametrize("cls", sorted({*model.CLASSES.values()}))
def test_every_badge_has_a_colour(cls):
    css = (Path(site.__file__).parent / "style.css").read_text()
    assert f".badge.{cls} " in css or cls == "none"


def test_states_of_experiments():
    page = canned.experiment_page()
    state = model.experiment_state
    assert (state(page).text, state(page).cls) == ("3 of 5 reproduced", "warn")
    assert state(page, "toy.figure3").text == "run"
    good = tuple(r for r in page.summary if r.verdict == "reproduced")
    assert state(dataclasses.replace(page, summary=good)).cls == "good"
    bad = tuple(r for r in page.summary if r.verdict == "deviates")
    assert state(dataclasses.replace(page, summary=bad)).cls == "bad"
    assert state(dataclasses.replace(page, stale=True)).text == "stale"
    assert state(dataclasses.replace(page, table=None)).text == "not run"


def test_a_stored_verdict_and_the_origin_of_trials_are_taken(tmp_path):
    made = {"commit": "beef", "dirty": False, "python": "3.11"}
    saved = dataclasses.replace(
        canned.verdict("toy.a"), when="2025-03-04", made=made, error="Traceback ...\nValueError: no"
    )
    origin = Origin(
        commit="cafe",
        dirty=False,
        device="cpu",
        versions={},
        started="2025-05-06",
        seconds=1.0,
        peak_mib=None,
        seeds=(7,),
    )
    page = canned.experiment_page(experiment=canned.experiment(draw=canned.quick), provenance=origin)
    built = site.build(tmp_path / "s", [canned.work()], [page], [saved])
    claim = Page(built.index.parent / "claim/toy.a.html").text
    assert all(
        part in claim for part in ("beef", "python 3.11", "2025-03-04", "The check itself broke: ValueError: no")
    )
    experiment = Page(built.index.parent / "experiment/toy.table1.html").text
    assert "cafe" in experiment
    assert "2025-05-06" in experiment


def test_not_run_and_broken_pictures_do_not_cost_the_page(tmp_path):
    def broken(table):
        raise ZeroDivisionError("no <b>rows</b>")

    pages = [
        canned.experiment_page(experiment=canned.experiment("toy/broken", draw=broken)),
        canned.experiment_page(experiment=canned.experiment("toy/never"), table=None, summary=(), command=""),
    ]
    built = site.build(tmp_path / "s", [canned.work()], pages, [])
    assert built.problems == ("toy/broken: the picture could not be drawn: ZeroDivisionError: no <b>rows</b>",)
    text = Page(built.index.parent / "experiment/toy.broken.html").text
    assert "no <b>rows</b>" in text
    assert "reproduced" in text
    never = Page(built.index.parent / "experiment/toy.never.html").text
    assert "Not run." in never
    assert "featlearn run toy/never" in never


def test_the_same_input_gives_the_same_bytes(built, tmp_path):
    path, _ = site.page(canned.experiment_page(), tmp_path / "s", [canned.work()])
    again, once = files(path.parent.parent / "pictures"), files(built.index.parent / "pictures")
    assert len(again) == 3
    assert again == {k: once[k] for k in again}
    for out in ("a", "b"):
        small(tmp_path / out)
    assert files(tmp_path / "a") == files(tmp_path / "b")


# --- the folder ------------------------------------------------------------------------------------------------------


def small(out, ids=("toy.a",), **other):
    return site.build(out, [canned.work()], [], [canned.verdict(i, run=False) for i in ids], **other)


@pytest.mark.parametrize("what", ["file", "foreign"])
def test_a_folder_of_someone_else_is_refused_untouched(tmp_path, what):
    out = tmp_path / "out"
    if what == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "index.html").write_text("mine")
    before = files(tmp_path)
    for write in (lambda: small(out), lambda: site.page(canned.experiment_page(), out)):
        with pytest.raises(ReportError, match="out = ") as error:
            write()
        assert "\n" not in str(error.value)
    assert files(tmp_path) == before


def test_empty_and_own_folders_are_taken_and_foreign_files_stay(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    small(out, ("toy.a", "toy.b"))
    (out / "claim" / "notes.txt").write_text("mine")
    small(out, ("toy.a",))
    assert (out / "claim/toy.a.html").is_file()
    assert not (out / "claim/toy.b.html").exists()  # ours, and no longer part of the site
    assert (out / "claim" / "notes.txt").read_text() == "mine"
    assert not list(out.glob(".making-*"))


def test_a_manifest_cannot_reach_outside(tmp_path):
    out, victim = tmp_path / "out", tmp_path / "victim.html"
    victim.write_text("mine")
    small(out)
    marker = out / site.MARKER
    data = json.loads(marker.read_text())
    data["files"] |= {"../victim.html": "build", str(victim): "build"}
    marker.write_text(json.dumps(data))
    small(out)
    assert victim.read_text() == "mine"


def test_an_interrupted_build_changes_nothing(tmp_path):
    out = tmp_path / "out"

    def stop(done, total):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(out, progress=stop)
    assert not out.exists()
    small(out)
    before = files(out)
    with pytest.raises(KeyboardInterrupt):
        small(out, ("toy.z",), progress=stop)
    assert files(out) == before


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path, monkeypatch):
    out = tmp_path / "out"
    small(out)
    before = files(out)
    write = Path.write_bytes

    def full(self, data):
        if "work" in self.parts:
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ReportError, match="No space left on device; free space") as error:
        small(out, ("toy.a", "toy.b"))
    assert "\n" not in str(error.value)
    assert files(out) == before


def test_ids_that_share_a_file_name_are_refused(tmp_path):
    for ids in (("toy.a", "toy.a"), ("toy.a", "toy.A"), ("toy.a?", "toy.a*")):
        with pytest.raises(ReportError, match="twice"):
            small(tmp_path / "out", ids)
        assert not (tmp_path / "out").exists()


def test_one_page_alone_then_in_its_site(tmp_path):
    out, page = tmp_path / "out", canned.experiment_page(experiment=canned.experiment(draw=canned.quick))
    where, problems = site.page(page, out, [canned.work()])
    assert problems == ()
    alone = Page(where)
    assert where == out / "experiment/toy.table1.html"
    assert all((where.parent / link).is_file() for link in alone.links if not link.startswith("#"))  # none dangles
    assert "../entry/toy.table1.html" not in alone.links
    own = canned.experiment_page(experiment=canned.experiment("mine/own", reproduces=(), draw=canned.quick))
    site.page(own, out)
    site.build(out, [canned.work()], [page], [])
    assert "../entry/toy.table1.html" in Page(where).links
    assert (out / "experiment/mine.own.html").is_file()  # a page of the user's own experiment outlives a build
    site.page(page, out, [canned.work()])
    assert "../entry/toy.table1.html" in Page(where).links


def test_an_entry_says_how_to_make_what_checks_it(pages):
    text = pages["entry/toy.table1.html"].text
    assert "featlearn run toy/table1 --preset paper" in text
    checked = [p.text for name, p in pages.items() if name.startswith("entry/") and "Nothing covers this" not in p.text]
    assert checked
    assert all("featlearn verify toy." in text or "featlearn run toy/" in text for text in checked)


def test_works_and_entries_cite_their_paper(pages):
    for name in ("work/toy.html", "entry/toy.table1.html"):
        assert "https://arxiv.org/abs/2001.00001" in pages[name].links, name
        assert "@misc{toy2020toy," in pages[name].text
