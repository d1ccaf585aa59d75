"""Numbers of ours in the documentation are those of the committed rows, with n, unit and interval."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import docs_numbers  # noqa: E402

PAGES = sorted(p.name for p in docs_numbers.DOCS.glob("*.md"))
WITH_NUMBERS = [name for name in PAGES if docs_numbers.BLOCK.search((docs_numbers.DOCS / name).read_text())]


def test_some_pages_have_numbers():
    assert "gemfilter.md" in WITH_NUMBERS


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_tables_are_those_of_the_rows(name):
    text = (docs_numbers.DOCS / name).read_text(encoding="utf-8")
    assert docs_numbers.filled(text) == text, "run `python scripts/docs_numbers.py`"


@pytest.mark.parametrize("name", PAGES)
def test_no_share_of_ours_stands_outside_of_a_table(name):
    text = docs_numbers.BLOCK.sub("", (docs_numbers.DOCS / name).read_text(encoding="utf-8"))
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
    assert [n for n in re.findall(r"(\d+(?:\.\d+)?)\s*%", text) if n not in ("95", "80")] == []


def test_a_mean_with_runs_that_diverged_is_marked():
    shown = docs_numbers.table("tradeoff/reviews", "test accuracy", ["FT", "CR", "CR less FT"])
    marked = [line for line in shown.splitlines() if docs_numbers.MARK in line]
    assert [line.partition(",")[0] for line in marked] == ["| products", "Mean test accuracy in % or"]
    assert marked[0].count(docs_numbers.MARK) == 2  # of the regulariser and of the difference
    assert marked[1].endswith(f"{docs_numbers.MARK} 3 of 8 runs diverged and count as a guess.")


def test_a_row_that_is_gone_is_told():
    with pytest.raises(SystemExit, match="no row 'nobody' with accuracy"):
        docs_numbers.table("gemfilter/needle", "accuracy", ["nobody"])
