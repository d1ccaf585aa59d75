"""Numbers as text, tables, and the export formats."""

import dataclasses
import io
import re

import canned
import pytest

from featlearn.errors import ReportError
from featlearn.lab.experiment import SummaryRow
from featlearn.report import export, tables

ODD = SummaryRow(
    "d = 100",
    row='Net, "w/o" & 50 % _x_',
    metric="m",
    value=0.1 + 0.2,
    low=-1e-17,
    high=1e300,
    n=3,
    reported=None,
    verdict="not reported",
    entry="",
    unit="α",
)


@pytest.mark.parametrize(
    "value, unit, spread, text",
    [
        (86.4, "%", None, "86.4"),
        (99.987, "%", 0.01, "99.99"),
        (0.99712, "", 0.0004, "0.99712"),
        (0.99712, "", 0.04, "0.997"),
        (1.5, "", 0.1, "1.50"),
        (-0.5, "", None, "−0.500"),
        (1234.5678, "", 30.0, "1235"),
        (300.0, "", None, "300"),
        (1.2e-9, "", None, "1.2e-09"),
        (float("nan"), "", None, "nan"),
        (float("inf"), "", None, "∞"),
        (None, "", None, "–"),
    ],
)
def test_number(value, unit, spread, text):
    assert tables.number(value, unit, spread) == text


def test_long_has_every_number_and_its_verdict():
    grid = tables.long(canned.summary())
    assert [h for h, _ in grid.columns][-1] == "verdict"
    assert grid.verdict == len(grid.columns) - 1
    by = {r[:2]: r for r in grid.rows}
    assert by["NTK", "test_acc (%)"][-1] == "deviates"
    assert by["Network", "test_acc (%)"][-1] == "reproduced"
    assert by["Linear", "test_acc (%)"][-3:] == ("–", "–", "not reported")
    assert by["Network w/o structure", "cos"][3:5] == ("–", "1")  # one seed has no interval


def test_wide_puts_print_beside_ours_and_marks_what_deviates():
    grid = tables.wide(canned.summary())
    assert [h for h, _ in grid.columns] == ["row", "test_acc (%)", "reported", "cos", "reported"]
    ntk = next(r for r in grid.rows if r[0] == "NTK")
    assert re.fullmatch(r"84\.\d ± 0\.\d", ntk[1])
    assert ntk[2:] == ("86.4 !", "–", "–")
    assert "deviates" in grid.note
    steps = SummaryRow("", row="NTK", metric="steps", value=7.0, low=6.0, high=8.0, n=3)
    assert [h for h, _ in tables.wide([*canned.summary(), steps]).columns][-2:] == ["reported", "steps"]


def test_loose_is_agreement_by_a_wide_interval_only():
    row = SummaryRow("", row="a", metric="m", value=52.0, low=46.9, high=57.1, n=2, reported=50.0, verdict="reproduced")
    assert tables.loose(row)
    assert tables.long([row]).rows[0][-1] == "reproduced (wide)"
    assert tables.long([row], metric=False).rows[0][:2] == ("a", "52.0")
    assert not tables.loose(dataclasses.replace(row, low=47.1, high=56.9))
    assert not tables.loose(dataclasses.replace(row, verdict="deviates"))
    assert not tables.loose(dataclasses.replace(row, reported=None, verdict="not reported"))


def test_rich_shows_brackets_as_text():
    from rich.console import Console

    console = Console(file=io.StringIO(), width=200)
    console.print(
        tables.long([SummaryRow("", row="[red]row[/red]", metric="m", value=1.0, low=0.9, high=1.1, n=5)]).to_rich()
    )
    shown = console.file.getvalue()
    assert "[red]row[/red]" in shown
    assert "[0.90, 1.10]" in shown


def test_csv_round_trip_is_exact():
    rows = [*canned.summary(), ODD]
    assert export.read_summary(export.csv_text(rows)) == rows


def test_csv_of_rows_with_different_fields():
    assert export.csv_text([{"a": 1}, {"b": None, "c": 0.1}]) == "a,b,c\n1,,\n,,0.1\n"


def test_csv_that_is_no_summary_is_refused():
    with pytest.raises(ReportError, match="'row' is missing in line 2"):
        export.read_summary("setting\nx\n")
    text = export.csv_text([ODD]).replace("0.30000000000000004", "half")
    with pytest.raises(ReportError, match="line 2"):
        export.read_summary(text)


def test_latex_is_balanced_and_escaped():
    text = export.latex([*canned.summary(), ODD], "A & B", "tab:a")
    body = text.split("\\midrule\n")[1].split("    \\bottomrule")[0].splitlines()
    columns = len(re.search(r"begin\{tabular\}\{([lr]+)\}", text).group(1))
    assert all(len(re.split(r"(?<!\\)&", line)) == columns and line.endswith(r"\\") for line in body)
    assert r"Net, " in text
    assert r"\& 50 \% \_x\_" in text
    assert r"\caption{A \& B}" in text
    assert text.count(r"\begin") == text.count(r"\end")
    assert r"86.4$^\dagger$" in text
    assert re.search(r"& Network & [^&]* & 100\.0 &", text)  # reproduced: no dagger


def test_write_is_whole_or_not_at_all(tmp_path, monkeypatch):
    target = tmp_path / "deep" / "rows.csv"
    rows = canned.summary()
    assert export.read_summary(export.write(rows, target, "csv").read_text()) == rows
    with pytest.raises(ReportError, match="exists"):
        export.write(rows, target, "csv")
    before = target.read_text()

    def full(self, data):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError):
        export.write(rows[:1], target, "csv", overwrite=True)
    assert target.read_text() == before
    assert [p.name for p in target.parent.iterdir()] == ["rows.csv"]


@pytest.mark.parametrize(
    "rows, to, says", [([], "csv", "rows"), ([ODD], "xlsx", "to = 'xlsx'"), ([{"a": 1}], "latex", "summary rows")]
)
def test_write_refuses(tmp_path, rows, to, says):
    with pytest.raises(ReportError, match=says):
        export.write(rows, tmp_path / "x", to)
    assert not list(tmp_path.iterdir())


def test_parquet_names_the_remedy_where_pyarrow_is_absent(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ReportError, match="pip install pyarrow"):
        export.write([ODD], tmp_path / "x", "parquet")
    assert not list(tmp_path.iterdir())


def test_parquet_round_trip(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow runs this")
    rows = canned.summary()
    got = parquet.read_table(export.write(rows, tmp_path / "x.parquet", "parquet")).to_pylist()
    assert [SummaryRow(**r) for r in got] == rows
    mixed = parquet.read_table(export.write([{"a": 1, "b": "x"}, {"a": 2.5, "b": 3}], tmp_path / "y", "parquet"))
    assert mixed.to_pylist() == [{"a": 1.0, "b": "x"}, {"a": 2.5, "b": "3"}]
