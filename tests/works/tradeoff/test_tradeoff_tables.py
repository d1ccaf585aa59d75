"""The audit of reported tables: a planted wrong cell is found by the claim that it concerns, and by nothing else."""

from dataclasses import replace

import pytest

from featlearn.core import Key
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.works import _audit
from featlearn.works.tradeoff.claims import tables, tables_data

CLAIMS = {c.id.removeprefix("tradeoff.table_"): c for c in (*tables.CLAIMS, *tables_data.CLAIMS)}


def surprising(name):
    verdict = verdict_of(CLAIMS[name], Key("verify"))
    return [f.statement.name for f in verdict.findings if not f.as_expected]


@pytest.mark.parametrize("name", CLAIMS)
def test_verdicts_are_as_expected_and_can_fail(name):
    claim = CLAIMS[name]
    assert surprising(name) == []
    assert blind(claim, Key("verify"), ()) == []
    assert apart(claim, Key("verify"), ()) == []


AHEAD, LP, WHOLE = tables.AHEAD, tables.ABOVE_LP, tables.ON_THE_WHOLE


@pytest.mark.parametrize(
    ("entry", "setting", "row", "metric", "by", "name", "found"),
    [
        ("tableF_5", "+SVHN", "FT", "labels_100pct", 0.01, "cells", ["last column of Table F.5"]),
        (
            "tableF_7",
            "GTSRB, aug=10",
            "Ours",
            "labels_100pct",
            -0.01,
            "cells",
            ["last column of Tables F.6 to F.8, 10 augmentations"],
        ),
        ("tableF_9", "", "LP", "cinic_10", 0.01, "cells", ["LP of Table F.9"]),
        ("tableF_11", "", "ImageNet", "vehicle_1k", 0.01, "cells", ["1k labels of Tables F.10 and F.11"]),
        (
            "table7_1",
            "",
            "Ours",
            "plus_imagenet32",
            -0.1,
            "gains",
            ["gain over fine-tuning in Table 7.1"],
        ),
        ("tableF_6", "SVHN, aug=100", "FT", "labels_1pct", 0.1, "consistently", [AHEAD]),
        ("tableF_5", "+GTSRB", "LP", "labels_1pct", 1.0, "consistently", [LP]),
        ("tableF_8", "IMDB", "Ours", "labels_1pct", -20.0, "consistently", [WHOLE, AHEAD]),
        ("tableF_5", "CINIC10", "FT", "labels_1pct", -3.4, "fewer_labels", [tables_data.SHARPER]),
        (
            "tableF_5",
            "+GTSRB",
            "LP",
            "labels_10pct",
            4.0,
            "diversity",
            ["loss of linear probing by each further set, Table F.5"],
        ),
        (
            "tableF_5",
            "CINIC10",
            "LP",
            "labels_1pct",
            1.0,
            "fewer_labels",
            [tables_data.LEVEL],
        ),
        ("tableF_2", "", "ImageNet", "bird_4k", -4.0, "sizes", [tables_data.GAP.format("F.2")]),
        (
            "tableF_4",
            "",
            "ImageNet",
            "imagenet_all",
            2.0,
            "sizes",
            [f"{tables_data.SIGNS} with all labels: rise on both"],
        ),
        (
            "tableF_9",
            "",
            "CR then LP",
            "plus_imagenet32",
            -13.0,
            "probing",
            [tables_data.HELPED, "rise of the gain with each further set, Table F.9"],
        ),
    ],
)
def test_a_single_wrong_cell_is_found(monkeypatch, entry, setting, row, metric, by, name, found):
    real = _audit.reported

    def planted(id_, **filters):
        return tuple(
            replace(p, value=p.value + by)
            if (id_, p.setting, p.row, p.metric) == (f"tradeoff.{entry}", setting, row, metric)
            else p
            for p in real(id_, **filters)
        )

    monkeypatch.setattr(_audit, "reported", planted)
    assert surprising(name) == found
