"""The audit of reported tables: a planted wrong cell, average or row is found by the claim that it concerns."""

from dataclasses import replace

import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works import _audit
from featlearn.works.nuclear.claims import tables

BY_NAME = {c.id.removeprefix("nuclear."): c for c in tables.CLAIMS}


def failing(name):
    verdict = verdict_of(BY_NAME[name], Key("verify"))
    return [f.statement.name for f in verdict.findings if f.outcome != "confirmed"]


@pytest.mark.parametrize(
    ("entry", "row", "metric", "by", "found"),
    [
        ("tableE_4", "SWAD", "l43", 1.0, {"table_averages": ["averages of tableE_4"]}),
        ("tableE_4", "SWAD", "l43", 0.1, {"table_rows": ["six rows of TerraIncognita in tableE_4"]}),
        ("table6_2", "Mixup-NU", "average", -0.1, {"table6_2_averages": ["gain of the 15 averages"]}),
        ("table6_1", "SWAD-NU", "average", -1.0, {"table6_1_order": ["place of SWAD-NU by average among all 25"]}),
        ("table6_1", "MMD", "average", 2.0, {"table6_1_order": ["rows of other work in the order of their averages"]}),
        ("table6_1", "ERM-NU", "pacs", -0.2, {"table6_1_gains": ["gain of ERM-NU and of SWAD-NU in each column"]}),
        (
            "tableE_6",
            "SWAD-NU",
            "average",
            0.4,
            {"table6_3_order": ["places of SWAD-MIRO and SWAD-NU by average of all five data sets"]},
        ),
    ],
)
def test_a_single_wrong_cell_is_found(monkeypatch, entry, row, metric, by, found):
    real = _audit.reported

    def planted(name, **filters):
        rows = real(name, **filters)
        at = [
            name == f"nuclear.{entry}" and (p.row, p.metric) == (row, metric) and p.setting in ("", "VLCS")
            for p in rows
        ]
        return tuple(replace(p, value=p.value + by) if w else p for p, w in zip(rows, at, strict=True))

    monkeypatch.setattr(_audit, "reported", planted)
    for name, statements in found.items():
        assert failing(name) == statements


def test_accusations_hold_in_their_corrected_form():
    for name in ("table6_1_selfreg", "tableE_3_swap"):
        verdict = verdict_of(BY_NAME[name], Key("verify"))
        assert (verdict.reported, verdict.corrected) == ("contradicted", "confirmed")


def test_the_bars_are_drawn():
    (picture,) = tables.draw_bars().values()
    assert len(picture.figure.axes[0].patches) == 15
