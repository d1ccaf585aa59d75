"""How papers are cited, and that nothing a reader sees names a text file or one of its lines."""

import re

import pytest

from featlearn.lab import inventory
from featlearn.lab.citation import papers, readable, readable_all


def test_every_work_is_cited_by_its_own_paper_first():
    for work in inventory.WORKS:
        own, *rest = inventory.load(work).papers
        assert own.key == work
        assert [p.key for p in rest] in ([], ["thesis"])
        assert bool(rest) == bool(inventory.load(work).read_in)
    assert set(papers()) == {*inventory.WORKS, "thesis"}


def test_a_citation_has_all_that_a_reader_needs():
    for p in papers().values():
        assert p.full.startswith(p.authors[0])
        assert p.title in p.full
        assert str(p.year) in p.short
        assert p.bibtex.count("{") == p.bibtex.count("}")
        assert (p.arxiv in p.bibtex) and (p.url.endswith(p.arxiv)) if p.arxiv else "url" not in p.bibtex
    keys = [re.match(r"@\w+\{(\w+),", p.bibtex)[1] for p in papers().values()]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("thesis_2024.txt Theorem 4.9 line 1182 (formal: C.22 line 8640)", "Shi (2024), Theorem 4.9 (formal: C.22)"),
        ("thesis_2024.txt section 4.1, lines 1062-1066 (unnumbered)", "Shi (2024), section 4.1 (unnumbered)"),
        ("Source: thesis_2024.txt, chapter 4 (lines 1050-1278).", "Source: Shi (2024), chapter 4."),
        ("emergence_iclr2022.txt", "Shi, Wei and Liang (2022)"),
        ("line 6 of Algorithm 2", "line 6 of Algorithm 2"),
        ("GF:requirements.txt", "GF:requirements.txt"),
    ],
)
def test_files_and_their_lines_are_left_out(text, said):
    assert readable(text) == said
    assert readable_all({"a": [text, 1]}) == {"a": [said, 1]}


@pytest.mark.parametrize("work", inventory.WORKS)
def test_no_text_of_an_entry_names_a_file_of_ours(work):
    found = inventory.load(work)
    for text in (found.notes, *map(repr, found.entries)):
        assert not re.search(r"(2024|2022|xor_sgd|amplification|kernels)\.txt|\blines? \d{3}", text)
