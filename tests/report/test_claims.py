"""Pages of claims and of the entries they are about."""

import dataclasses
import re

import canned
import canned_typed
import pytest
from test_site import Page

from featlearn.core import Key
from featlearn.lab.claim import Claim, Premise, verdict_of
from featlearn.lab.quantity import REAL
from featlearn.lab.statement import at_least
from featlearn.lab.verdicts import judged
from featlearn.report import model, numberline, site


def text_of(page):
    return " ".join(page.text.split())


def badges(page, cls=None):
    found = re.findall(r'<span class="badge (\w+)">([^<]*)</span>', page.source)
    return [text for c, text in found if cls in (None, c)]


def head_badges(page):
    """Badges right below the headline."""
    first = re.search(r'</h1><div class="badges">(.*?)</div>', page.source, re.S)
    return re.findall(r'<span class="badge \w+">([^<]*)</span>', first[1])


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    """Pages of a site with the typed work and the toy work."""
    stale = dataclasses.replace(model.as_claim_page(canned_typed.verdicts()[0]), stale="rows")
    found = [stale, *canned_typed.verdicts()[1:], *canned.verdicts()]
    root = tmp_path_factory.mktemp("typed") / "site"
    built = site.build(root, [canned_typed.work(), canned.work()], [canned.experiment_page()], found)
    assert built.problems == ()
    return {str(p.relative_to(root)): Page(p) for p in sorted(root.rglob("*.html"))}


def page_of(typed, name):
    return typed[f"claim/typed.{name}.html"]


def test_a_question_about_no_entry_says_so_and_intervals_say_their_levels(tmp_path):
    question = dataclasses.replace(canned_typed.verdicts()[0], id="typed.question", entries=())
    found = [*map(model.as_claim_page, [*canned_typed.verdicts(), question])]
    pages = tmp_path / "site" / "claim"
    assert site.build(pages.parent, [canned_typed.work()], [], found).problems == ()
    text = text_of(Page(pages / "typed.question.html"))
    assert "A question of ours: no entry of the inventory." in text
    assert "90 % intervals; outside where one of 99.44 % is" in text  # one of nine statements
    assert "no entry of the inventory" not in text_of(Page(pages / "typed.good.html"))


@pytest.mark.parametrize(
    "name, expected",
    [
        ("good", ["confirmed", "as stated", "stale: the rows changed"]),
        ("wrong", ["as reported: contradicted", "as corrected: confirmed", "as stated"]),
        ("weak", ["too weak to test", "as stated"]),
        ("start", ["too weak to test", "as stated", "not as expected"]),
        ("open", ["inconclusive", "premise not decidable", "not as expected"]),
        ("never", ["not run"]),
    ],
)
def test_the_headline_shows_both_faces_scope_and_staleness(typed, name, expected):
    assert head_badges(page_of(typed, name)) == expected


def test_a_statement_shows_what_was_predicted_seen_and_refused(typed):
    page = page_of(typed, "good")
    text = text_of(page)
    for part in (
        "What good says",
        "= 2 ± 0.05",
        "off by 0.01 at most",
        "five quarters of it",
        "≤ 0.1",
        "0.9 to 1.5",
        "by our criterion; Lemma 1: nearly linear",
        "derived; Lemma 1, then its corollary",
        "60 elements (time)",
        "the same to 12 digits",
        "nearest to the limit: 0.002 for 0.0001",
        "no difference",
        "Seeds are few.",
        "featlearn verify typed.good",
        "have changed since the verdict",
    ):
        assert part in text, part
    assert re.search(r"1\.1 \[1\.08\d*, 1\.11\d*\]", text)
    assert "cannot tell wrong formulas apart" not in text
    assert 'alert("x")' not in page.source
    assert page.images == []
    lines = re.findall(r'<svg class="line" height="46" role="img" aria-label="([^"]*)"', page.source)
    assert len(lines) == len(canned_typed.verdicts()[0].statements)
    assert lines[0] == "trace: agrees from 1.95 to 2.05, observed 2.01, rival 2.5; confirmed."
    assert "as reported; Lemma 1" in text


def test_an_accusation_is_quoted_with_its_place_reading_and_derivation(typed):
    page = page_of(typed, "wrong")
    text = text_of(page)
    for part in (
        "Contradicts the statement as reported",
        "The size is two <b>exactly</b>.",
        "Lemma 2, second line",
        "size means length",
        "By hand the integral is one.",
        "as corrected; eq. (2), corrected: 1 in place of 2",
    ):
        assert part in text, part
    assert "<blockquote>" in page.source


@pytest.mark.parametrize("name", ["weak", "start", "open"])
def test_a_claim_that_decides_nothing_says_so(typed, name):
    assert "This claim cannot tell wrong formulas apart." in text_of(page_of(typed, name))


def test_what_was_expected_and_what_nothing_attains(typed):
    start = text_of(page_of(typed, "start"))
    assert "expected: confirmed" in start
    assert "met by the start" in start
    assert "none: a bound without a competitor" in text_of(page_of(typed, "weak"))


def test_premises_are_shown_with_their_state(typed):
    page = page_of(typed, "open")
    rows = re.findall(r"<tr>.*?</tr>", page.source, re.S)
    found = {re.sub("<[^>]+>", "|", r) for r in rows}
    for words in (("d &gt;= 10", "yes"), ("C is not given", "not decidable"), ("100 for 1000", "other size")):
        assert any(all(w in r for w in words) for r in found), words


def test_a_claim_that_was_not_judged_gives_the_command(typed):
    page = page_of(typed, "never")
    assert "Not judged yet" in page.text
    assert "featlearn run typed/never --preset paper" in page.text
    assert page.images == []
    assert "<h2>Statements</h2>" not in page.source


def test_a_check_that_broke_is_shown_in_one_line(tmp_path):
    j = dataclasses.replace(canned_typed.verdicts()[-1], error="Traceback\n  File x\nValueError: no")
    root = site.build(tmp_path / "s", [canned_typed.work()], [], [j]).index.parent
    page = Page(root / "claim/typed.never.html")
    assert "The check itself broke: ValueError: no" in page.text
    assert "not as expected" in badges(page)


def test_digits_of_numbers_for_people():
    found = (-0.0, 3.0, -2.0, 1.23456, 1e-7, -0.5, 123456.0, -123456789.0, 1e9, float("-inf"), float("nan"))
    shown = [numberline.digits(v) for v in found]
    assert shown == ["0", "3", "−2", "1.235", "10⁻⁷", "−0.5", "123456", "−1.235·10⁸", "10⁹", "−∞", "–"]


# --- entries and counts ----------------------------------------------------------------------------------------------


def test_an_entry_has_one_verdict_with_its_scope_and_why(typed):
    assert head_badges(typed["entry/typed.open.html"]) == ["inconclusive", "premise not decidable"]
    assert "the interval reaches over a limit" in typed["entry/typed.open.html"].text
    assert head_badges(typed["entry/typed.never.html"]) == ["not run"]
    assert head_badges(typed["entry/typed.no.html"]) == ["not run"]
    assert "no claim or experiment yet" in typed["entry/typed.no.html"].text
    assert head_badges(typed["entry/toy.table1.html"]) == ["3 of 5 reproduced"]


def test_an_entry_shows_each_check_with_its_statement_or_the_reason(typed):
    text = text_of(typed["entry/typed.good.html"])
    assert "typed.good: trace confirmed" in text
    assert "typed.good: no such statement not run" in text
    assert "not made: it has no number" in text
    assert "../claim/typed.good.html" in typed["entry/typed.good.html"].links
    assert "<h2>Each check</h2>" not in typed["entry/typed.weak.html"].source


def test_the_first_page_counts_entries_by_verdict(typed):
    tiles = re.findall(r'<div class="tile"><b>([^<]*)</b><span>([^<]*)</span>', typed["index.html"].source)
    assert tiles == [
        ("2", "entries confirmed, as stated"),
        ("1", "entries contradicted, as stated"),
        (
            "4 of 10",
            "entries covered",
        ),  # lemma2, wrong: by claims; table1, figure3: by rows; good is stale
        ("3 of 5", "reported numbers reproduced"),
    ]


def test_verdicts_are_counted_with_those_as_stated_alone(typed):
    index = typed["index.html"]
    assert "1 confirmed" in badges(index)
    assert "1 inconclusive" not in badges(index)  # its premise cannot be decided
    assert "at another scope: 1 inconclusive" in text_of(index)
    (row,) = re.findall(r'<tr><td class="left" data-label="verdict"><span class="badge odd">.*?</tr>', index.source)
    assert re.sub("<[^>]+>", " ", row).split()[:3] == ["inconclusive", "1", "0"]
    (row,) = re.findall(
        r'<tr><td class="left" data-label="verdict"><span class="badge none">not run.*?</tr>', index.source
    )
    assert re.sub("<[^>]+>", " ", row).split()[:4] == ["not", "run", "2", "–"]


def test_verdicts_that_differ_from_the_expected_are_named_first(typed):
    note = re.search(r'<div class="note bad".*?</div>', typed["index.html"].source, re.S)[0]
    assert re.findall(r">([a-z.]+)</span>", note) == ["typed.start", "typed.open"]


def test_the_work_page_filters_by_verdict(typed):
    source = typed["work/typed.html"].source
    options = re.search(r'<select name="state">.*?</select>', source, re.S)[0]
    assert re.findall('value="([^"]*)"', options) == [
        "",
        "confirmed",
        "contradicted",
        "inconclusive",
        "too weak to test",
        "not run",
    ]
    assert 'data-state="inconclusive"' in source


def test_coverage_is_that_of_the_engine():
    good, wrong, weak, *_ = map(model.as_claim_page, canned_typed.verdicts())
    assert model.state_of("typed.good", [good], []).covered
    assert not model.state_of("typed.good", [dataclasses.replace(good, stale="code")], []).covered
    assert model.state_of("typed.wrong", [wrong], []).covered
    assert not model.state_of("typed.weak", [weak], []).covered
    page = canned.experiment_page()
    assert model.state_of("toy.table1", [], [page]).covered
    assert not model.state_of("toy.table1", [], [dataclasses.replace(page, table=None, summary=())]).covered


@pytest.mark.parametrize(
    "verdict, group",
    [
        ("5 of 5 reproduced", "reproduced"),
        ("1 of 5 reproduced", "partly reproduced"),
        ("0 of 5 reproduced", "deviates"),
        ("run", "run"),
    ],
)
def test_groups_of_verdicts(verdict, group):
    assert model.group_of(verdict) == group
    assert group in model.CLASSES


def test_a_threshold_of_ours_that_is_missed_accuses_nobody(tmp_path):
    missed = at_least("x", REAL, 2.0, "Figure 1", form="criterion", expect="contradicted")
    smaller = (Premise("p = 97", False, "p = 47", size=True),)
    c = Claim(
        id="toy.small",
        entries=("toy.table1",),
        says="s",
        statements=lambda settings: (missed,),
        observe=lambda settings, key: {"x": 1.0},
        premises=smaller,
    )
    root = site.build(tmp_path / "s", [canned.work()], [], [judged(verdict_of(c, Key("t")))]).index.parent
    assert "nothing that the paper says is shown to be wrong" in (root / "claim/toy.small.html").read_text()
