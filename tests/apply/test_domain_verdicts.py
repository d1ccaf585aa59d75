"""The verdict of a table of accuracies by a planted result file: the reported numbers, others, and other protocols."""

import copy
import json

import pytest

from featlearn.apply.domains.protocols import BENCHMARKS, preset
from featlearn.apply.domains.verdicts import TABLES, table_verdict
from featlearn.errors import DataError, SettingError
from featlearn.lab.inventory import entry

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
PACS = next(b for b in BENCHMARKS if b.name == "PACS")
ERM_NU = (87.4, 79.6, 96.3, 79.0)
ID = "nuclear.tableE_2"


def planted(rows, protocol="dg-nu", shift=0.0):
    """The document of a run of PACS whose accuracies are these, spread by a tenth of a point over three seeds."""
    flags = {n: list(v) if isinstance(v, tuple) else v for n, v in preset(protocol, PACS).items()}
    chosen = [
        {"algorithm": name, "held_out": d, "seed": s, "test": (v + shift + 0.1 * (s - 1)) / 100}
        for name, values in rows.items()
        for d, v in zip(DOMAINS, values, strict=True)
        for s in range(3)
    ]
    scores = [
        {
            "algorithm": name,
            "domain": d,
            "values": {str(c["seed"]): c["test"] for c in chosen if (c["algorithm"], c["held_out"]) == (name, d)},
        }
        for name in rows
        for d in DOMAINS
    ]
    sizes = dict(zip(DOMAINS, (2048, 2344, 1670, 3929), strict=True))
    labels = ["dog", "elephant", "giraffe", "guitar", "horse", "house", "person"]
    return {
        "domains": list(DOMAINS),
        "labels": labels,
        "sizes": sizes,
        "flags": flags | {"algorithm": list(rows)},
        "chosen": chosen,
        "scores": scores,
        "missing": [],
        "protocol": {"name": protocol},
    }


@pytest.fixture
def judged(tmp_path):
    """The verdict of a table by a document."""

    def call(document, id_=ID):
        path = tmp_path / "r.json"
        path.write_text(json.dumps(document))
        return table_verdict(id_, path)

    return call


def reported_rows(row):
    by = {p.metric: p.value for p in entry(ID).reported if p.row == row}
    return tuple(by[c] for c in ("a", "c", "p", "s"))


def test_the_reported_numbers_reproduce_the_table(judged):
    assert reported_rows("ERM-NU") == ERM_NU
    found = judged(planted({"erm-nu": ERM_NU, "swad-nu": reported_rows("SWAD-NU")}))
    assert found.outcome == "reproduced"
    assert [r.metric for r in found.own] == ["a", "c", "p", "s", "average"] * 2
    assert {r.verdict for r in found.own} == {"reproduced"}
    left = f"{found.reported - 10} of {found.reported} reported numbers not compared"
    assert found.says == f"reproduced: 10 of 10 numbers reproduced; {left}"
    assert found.reported == len(entry(ID).reported) > 100
    assert found.notes


def test_numbers_that_are_off_deviate(judged):
    found = judged(planted({"erm-nu": ERM_NU}, shift=-3.0))
    assert found.outcome == "deviates"
    assert found.says.startswith("deviates: 0 of 5 numbers reproduced")


CASES = {
    "--steps 5000 in place of 5001": lambda d: d["flags"].update(steps=5000),
    "--seeds 0 1 in place of 0 1 2": lambda d: d["flags"].update(seeds=[0, 1]),
    "--weights none in place of IMAGENET1K_V1": lambda d: d["flags"].update(weights=""),
    "--swad-rule valley in place of released": lambda d: d["flags"].update(swad_rule="valley"),
    "--selection oracle in place of training-domain": lambda d: d["flags"].update(selection="oracle"),
    "--rate is not stated": lambda d: d["flags"].pop("rate"),
    "--probe True": lambda d: d["flags"].update(probe=True),
    "6 classes in place of 7": lambda d: d["labels"].pop(),
    "9990 images in place of 9991": lambda d: d["sizes"].update(photo=1669),
    "--protocol none in place of dg-nu or domainbed": lambda d: d.update(protocol={}),
    "erm-nu on photo has 2 of 3 seeds": lambda d: (d["chosen"].pop(8), d["scores"][2]["values"].pop("2")),
    "a run of erm-nu with sketch held out is missing": lambda d: d["missing"].append(
        {"algorithm": "erm-nu", "held_out": "sketch", "second": ""}
    ),
    "--held-out art_painting cartoon photo in place of all domains": lambda d: (
        d["chosen"].__delitem__(slice(9, None)),
        d["scores"].pop(),
    ),
}


@pytest.mark.parametrize("said", CASES)
def test_another_or_incomplete_protocol_is_not_comparable(judged, said):
    document = planted({"erm-nu": ERM_NU})
    CASES[said](document)
    found = judged(document)
    assert found.outcome == "not comparable"
    assert said in found.why
    assert said in found.says


def test_settings_of_the_algorithms_that_were_run_count(judged):
    document = planted({"mixup-nu": reported_rows("ERM-NU")})
    document["flags"]["mixup_alpha"] = 0.9
    assert judged(document).why == ("--mixup-alpha 0.9 in place of 0.2",)
    document = planted({"erm-nu": ERM_NU})
    document["flags"]["mixup_alpha"] = 0.9
    assert judged(document).outcome == "reproduced"


def test_rows_of_other_code_do_not_decide(judged):
    found = judged(planted({"erm-nu": ERM_NU, "erm": (1.0, 1.0, 1.0, 1.0)}))
    assert found.outcome == "reproduced"
    assert "5 of 10 numbers reproduced, 5 not comparable" in found.says
    found = judged(planted({"erm": reported_rows("ERM")}))
    assert found.says == "not comparable: the table has ERM by other code than that of dg-nu"
    assert judged(planted({"erm": reported_rows("ERM")}, "domainbed")).outcome == "reproduced"
    assert judged(planted({"dann-nu": ERM_NU})).outcome == "not reported"


def test_another_set_of_photographs_is_named(judged):
    found = judged(planted({"erm-nu": ERM_NU}), "nuclear.tableE_1")
    assert found.says == "not comparable: PACS in place of VLCS"
    assert found.numbers == ()
    with pytest.raises(SettingError, match=r"nuclear.tableE_1, nuclear.tableE_2"):
        judged(planted({"erm-nu": ERM_NU}), "nuclear.table6_1")
    assert sorted(TABLES) == [f"nuclear.tableE_{i}" for i in range(1, 6)]


def test_files_that_contradict_themselves_are_refused(judged, tmp_path):
    good = planted({"erm-nu": ERM_NU})
    for change, said in (
        (lambda d: d["chosen"][0].update(test=0.9), "scores and choices of erm-nu on art_painting differ"),
        (lambda d: d["chosen"].append(dict(d["chosen"][0])), "two accuracies of erm-nu"),
        (lambda d: d["chosen"][0].update(test=87.4), "the accuracy 87.4 of erm-nu"),
        (lambda d: d.pop("flags"), "it has no flags"),
        (lambda d: d["chosen"][0].pop("seed"), "is no result file"),
    ):
        document = copy.deepcopy(good)
        change(document)
        with pytest.raises(DataError, match=said) as told:
            judged(document)
        assert str(told.value).count("results") == 1
    (tmp_path / "t.json").write_text("accuracy")
    for name, said in (("t.json", "is no JSON document"), ("none.json", "cannot be read")):
        with pytest.raises(DataError, match=said) as told:
            table_verdict(ID, tmp_path / name)
        assert str(told.value).count("results = ") == 1  # said once, not in the words of another refusal


def test_the_command_prints_statement_found_reported_and_outcome(tmp_path, monkeypatch, capsys):
    from featlearn.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "r.json").write_text(json.dumps(planted({"erm-nu": ERM_NU})))
    assert main(["verify", ID, "--results", "r.json"]) == 0
    out = capsys.readouterr().out
    assert "nuclear.tableE_2, PACS under dg-nu: reproduced: 5 of 5 numbers reproduced" in out
    line = next(line for line in out.splitlines() if "accuracy of ERM-NU, a" in line)
    assert all(said in line for said in ("87.4 [87.2, 87.6]", "87.4 ± 1.4", "reproduced", ID))
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]  # no store, no verdict
    (tmp_path / "r.json").write_text(json.dumps(planted({"erm-nu": ERM_NU}, shift=-3.0)))
    assert main(["verify", ID, "--results", "r.json", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "deviates"


def test_without_a_run_the_entry_says_how_to_make_its_verdict(tmp_path, monkeypatch, capsys):
    from featlearn.cli import main

    monkeypatch.chdir(tmp_path)
    assert main(["verify", ID]) == 0
    out = capsys.readouterr().out
    assert "nuclear.tableE_2: data needed: the images of PACS" in out
    assert "featlearn verify nuclear.tableE_2 --results FILE.json" in out
