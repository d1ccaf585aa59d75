"""Protocols: whose data it is, the flags of the released code, the reported numbers beside those of a run."""

import dataclasses
import math

import pytest
import torch
from colours import made, pictures_in
from torch import nn

from featlearn.apply.domains import protocols
from featlearn.apply.domains.protocols import BENCHMARKS, benchmark_of, beside, departures, outcome, preset
from featlearn.apply.domains.scores import AVERAGE, Score
from featlearn.cli.domains._shared import TrainOptions
from featlearn.cli.domains.evaluate import EvaluateOptions
from featlearn.core import SettingError
from featlearn.lab.inventory import entry
from featlearn.methods.domains import Algorithm, Schedule, Settings, build

BY = {b.name: b for b in BENCHMARKS}
FOLDERS = {
    "PACS": ("art_painting", "cartoon", "photo", "sketch"),
    "VLCS": ("Caltech101", "LabelMe", "SUN09", "VOC2007"),
    "OfficeHome": ("Art", "Clipart", "Product", "Real World"),
    "TerraIncognita": ("location_100", "location_38", "location_43", "location_46"),
    "DomainNet": ("clipart", "infograph", "painting", "quickdraw", "real", "sketch"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_data_are_known_by_their_domains(name):
    found = benchmark_of(FOLDERS[name])
    assert found.name == name
    assert {p.metric for p in entry(found.entry).reported} == {*map(found.column_of, FOLDERS[name]), "average"}
    assert benchmark_of(tuple(found.domains)).name == name  # as the tables write them
    with pytest.raises(SettingError, match="give the settings by flags"):
        benchmark_of(FOLDERS[name][1:])
    with pytest.raises(SettingError, match="for PACS, VLCS, OfficeHome, TerraIncognita, DomainNet"):
        benchmark_of((*FOLDERS[name], "other"))


def test_numbers_of_the_sets_are_those_of_the_inventory():
    said = entry("nuclear.table6_1").setting["datasets"]
    for name, key in (("PACS", "PACS"), ("VLCS", "VLCS"), ("TerraIncognita", "TerraInc"), ("DomainNet", "DomainNet")):
        b = BY[name]
        assert said[key] == f"{len(b.domains)} domains, {b.classes} classes, {b.images}" or said[key].startswith(
            f"{len(b.domains)} domains, {b.classes} classes, {b.images} "
        )


@pytest.mark.parametrize(
    "name, steps, every, ratio",
    [
        ("PACS", 5001, 100, 0.3),
        ("VLCS", 5001, 50, 0.2),
        ("OfficeHome", 5001, 100, 0.3),
        ("TerraIncognita", 5001, 100, 0.3),
        ("DomainNet", 15001, 500, 0.3),
    ],
)
def test_the_released_code(name, steps, every, ratio):
    """As `from_code` of nuclear.method_ermnu has it; the nuclear norm begins with step 101, annealing ends with 500."""
    found = preset("dg-nu", BY[name])
    assert (found["steps"], found["evaluate_every"], found["swad_ratio"]) == (steps, every, ratio)
    assert (found["swad_converge"], found["swad_tolerance"], found["swad_rule"]) == (3, 6, "released")
    assert (found["batch"], found["rate"], found["weight_decay"], found["search"]) == (32, 5e-5, 0.0, 1)
    assert (found["weights"], found["backbone"], found["batch_norm"]) == ("IMAGENET1K_V1", "resnet50", "frozen")
    assert found["evaluate_from"] == 1
    code = (
        entry("nuclear.method_ermnu").setting["from_code"]
        if "from_code" in entry("nuclear.method_ermnu").setting
        else entry("nuclear.method_ermnu").from_code
    )
    assert "5001, DomainNet 15001" in code["steps"]
    assert "checkpoint_freq 100, VLCS 50, DomainNet 500" in code["steps"]
    assert "n_converge 3, n_tolerance 6, tolerance_ratio 0.3, VLCS 0.2" in code["swad"]
    settings = Settings(nuclear_start=found["nuclear_start"], anneal=found["anneal"])
    assert math.ceil(settings.nuclear_start * steps) == 101
    made = build(Algorithm("vrex"), settings, steps, 2, nn.Identity(), torch.zeros(1))
    assert made.objective.keywords["anneal"] == 500


def test_the_benchmark_searches_and_evaluates_less_often():
    found = preset("domainbed", BY["PACS"])
    assert (found["steps"], found["evaluate_every"], found["search"]) == (5001, 300, 20)
    big = preset("domainbed", BY["DomainNet"])
    assert (big["steps"], big["evaluate_every"]) == (5001, 1000)
    assert any("not rate" in line for line in protocols.notes("domainbed"))


def test_each_setting_is_a_flag_and_a_schedule():
    names = {f.name for f in dataclasses.fields(EvaluateOptions)}
    for protocol in protocols.PROTOCOLS:
        for b in BENCHMARKS:
            found = preset(protocol, b)
            assert set(found) <= names
            known = {f.name for f in dataclasses.fields(Schedule)}
            Schedule(**{n: v for n, v in found.items() if n in known})


# --- beside the reported numbers ------------------------------------------------------------------------------------


def scores_of(name, values, shift=0.0, half=0.0, seeds=3):
    """Scores of PACS; `half`: of the interval."""
    by = dict(zip((*FOLDERS["PACS"], AVERAGE), values, strict=True))
    out = []
    for domain, value in by.items():
        v = (value + shift) / 100
        own = dict.fromkeys(range(seeds), v)
        out.append(Score(name, domain, own, v, None, 3, low=v - half / 100, high=v + half / 100))
    return out


ERM_NU = (87.4, 79.6, 96.3, 79.0, 85.6)


def test_a_run_that_equals_the_table_reproduces_it():
    rows = beside(scores_of("erm-nu", ERM_NU), BY["PACS"], "dg-nu")
    assert [r.metric for r in rows] == ["a", "c", "p", "s", "average"]
    assert [r.reported for r in rows] == list(ERM_NU)
    assert {r.row for r in rows} == {"ERM-NU"}
    assert {r.verdict for r in rows} == {"reproduced"}
    assert {r.entry for r in rows} == {"nuclear.tableE_2"}
    assert outcome(rows) == "reproduced"
    assert rows[0].tolerance == pytest.approx(2.8 * 0.5)
    assert rows[4].tolerance == 1.0


def test_what_is_off_deviates():
    """C of ERM-NU is printed with 0.9, S with 0.5: two points are within reach of the one alone."""
    rows = beside(scores_of("erm-nu", ERM_NU, shift=2.0), BY["PACS"], "dg-nu")
    assert [r.verdict for r in rows] == ["deviates", "reproduced", "deviates", "deviates", "deviates"]
    assert outcome(rows) == "deviates"
    wide = beside(scores_of("erm-nu", ERM_NU, shift=2.0, half=2.5), BY["PACS"], "dg-nu")
    assert {r.verdict for r in wide} == {"reproduced"}


def test_other_settings_other_code_and_missing_seeds_are_not_comparable():
    same = scores_of("erm-nu", ERM_NU)
    for rows in (
        beside(same, BY["PACS"], "dg-nu", ["--steps 10"]),
        beside(same, BY["PACS"], "domainbed"),
        beside(scores_of("erm-nu", ERM_NU, seeds=2), BY["PACS"], "dg-nu"),
        beside(scores_of("erm", (84.7, 80.8, 97.2, 79.3, 85.5)), BY["PACS"], "dg-nu"),
        beside(scores_of("dann", (86.4, 77.4, 97.3, 73.5, 83.6)), BY["PACS"], "domainbed"),
    ):
        assert {r.verdict for r in rows} == {"not comparable"}
        assert outcome(rows) == "not comparable"
        assert all(r.reported is not None for r in rows)
    assert {r.verdict for r in beside(scores_of("erm", (84.7, 80.8, 97.2, 79.3, 85.5)), BY["PACS"], "domainbed")} == {
        "reproduced"
    }


def test_one_domain_held_out_is_compared_with_its_column_and_no_average():
    """The mean over one domain is no mean over four, however near to it."""
    whole = {s.domain: s for s in scores_of("erm-nu", (87.4, 79.6, 96.3, 85.6, 85.6))}
    s, average = beside([whole["sketch"], whole[AVERAGE]], BY["PACS"], "dg-nu")
    assert (s.metric, s.reported, s.verdict) == ("s", 79.0, "deviates")
    assert (average.reported, average.verdict) == (85.6, "not comparable")


def test_averages_of_rows_that_other_tables_have():
    rows = beside(scores_of("swad-coral", (0.0, 0.0, 0.0, 0.0, 88.3)), BY["PACS"], "dg-nu")
    assert [r.verdict for r in rows] == ["not reported"] * 4 + ["reproduced"]
    assert (rows[4].entry, rows[4].metric, rows[4].reported) == ("nuclear.tableE_6", "pacs", 88.3)
    rows = beside(scores_of("sam", (0.0, 0.0, 0.0, 0.0, 85.8)), BY["PACS"], "dg-nu")
    assert (rows[4].entry, rows[4].reported) == ("nuclear.table6_1", 85.8)
    rows = beside(scores_of("dann-nu", (0.0, 0.0, 0.0, 0.0, 85.8)), BY["PACS"], "dg-nu")
    assert outcome(rows) == "not reported"


def test_departures_are_told(tmp_path):
    found, _ = made(pictures_in(tmp_path))
    flags = preset("dg-nu", BY["PACS"]) | {"steps": 10, "group": "", "probe": False}
    assert departures("dg-nu", BY["PACS"], flags, found) == [
        "--steps 10 in place of 5001",
        "2 classes in place of 7",
        "60 images in place of 9991",
    ]
    told = departures("dg-nu", BY["PACS"], flags | {"steps": 5001, "seeds": (0,), "group": "site"}, found)
    assert told[:2] == ["--seeds 0 in place of 0 1 2", "--group site"]
    told = departures("dg-nu", BY["PACS"], flags | {"steps": 5001, "weights": ""}, found)
    assert told[0] == "--weights none in place of IMAGENET1K_V1"


def test_flags_of_training_alone_are_taken_too():
    assert {"steps", "swad_rule", "evaluate_from", "batch_norm"} <= {f.name for f in dataclasses.fields(TrainOptions)}
