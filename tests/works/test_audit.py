"""Print audits: averages and orders recomputed from reported cells, on a small table made by hand."""

import numpy as np
import pytest

from featlearn.lab.inventory import reported
from featlearn.works._audit import averages, averages_fit, cells, less, means, place, said, table, without

ROWS = {
    "a": {"x": 1.0, "y": 2.0, "z": 6.0, "average": 3.0},
    "b": {"x": 5.0, "y": 1.0, "z": 3.1, "average": 3.0},
    "c": {"x": 0.0, "y": 0.0, "z": 0.9, "average": 0.3},
}


def test_the_average_is_no_cell_of_its_row():
    assert cells(ROWS["a"]).tolist() == [1.0, 2.0, 6.0]
    assert means(ROWS) == pytest.approx([3.0, 9.1 / 3, 0.3])
    assert averages(ROWS).tolist() == [3.0, 3.0, 0.3]
    assert list(without(ROWS, "a", "c")) == ["b"]


def test_a_table_is_what_the_inventory_reports():
    rows = table("nuclear.table6_2", "VLCS")
    found = reported("nuclear.table6_2", setting="VLCS")
    assert {(r, m): v for r, row in rows.items() for m, v in row.items()} == {(p.row, p.metric): p.value for p in found}
    spread = table("nuclear.table6_1", spread=True)
    assert spread["ERM"]["vlcs"] == next(
        p.spread for p in reported("nuclear.table6_1", row="ERM") if p.metric == "vlcs"
    )


def test_orders():
    assert less(ROWS["a"], ROWS["b"], ("z", "x")) == pytest.approx([2.9, -4.0])
    assert [place(v, [3.0, 3.0, 0.3]) for v in (3.0, 0.3, 9.0)] == [1, 3, 1]


def test_what_predicts_reads_averages_and_cells_apart():
    rows = table("nuclear.table6_2", "VLCS")
    assert said("nuclear.table6_2", setting="VLCS").tolist() == [v for r in rows.values() for v in cells(r)]
    assert said("nuclear.table6_2", setting="VLCS", metric="average").tolist() == averages(rows).tolist()
    made = averages_fit("x", "nuclear.table6_2", 0.05, setting="VLCS", leave_out=("ERM",), loose=("SWAD",))
    assert np.asarray(made.value).tolist() == averages(without(rows, "ERM")).tolist()
    assert np.asarray(made.margin).tolist() == [0.05, 0.05, 0.05, 0.1, 0.05]
    assert np.asarray(made.rival)[0] == pytest.approx(cells(rows["ERM-NU"])[:-1].mean())
