"""The inventory: complete, well-formed, and true to the paper where typed here by hand."""

from collections import Counter

import pytest

from featlearn.errors import InventoryError
from featlearn.lab import inventory
from featlearn.lab.inventory import CHECK_KINDS, WORKS, _parse, entry, load, reported

COUNTS = {
    "emergence": 71,
    "gradient_features": 65,
    "amplification": 25,
    "xor_sgd": 30,
    "resnet": 35,
    "fourier": 36,
    "icl_scale": 26,
    "looped": 24,
    "nuclear": 27,
    "tradeoff": 40,
    "gemfilter": 24,
}

ENTRIES = [e for w in WORKS for e in load(w).entries]


def test_every_entry_is_there():
    assert {w: len(load(w).entries) for w in WORKS} == COUNTS
    assert len(ENTRIES) == 403
    assert len({e.id for e in ENTRIES}) == 403


def test_entries_know_their_work():
    for e in ENTRIES:
        assert e.id.startswith(e.work + ".")
        assert entry(e.id) == e


def test_check_kinds():
    assert {e.check_kind for e in ENTRIES} == set(CHECK_KINDS)
    kinds = {e.id: e.check_kind for e in ENTRIES}
    assert kinds["emergence.lemma7"] == "exact"
    assert kinds["emergence.table1"] == "statistical"
    assert kinds["emergence.figure1"] == "figure"
    assert kinds["gemfilter.table9_1"] == "data-needed"
    assert kinds["emergence.notation"] == "prose"


def test_no_entry_is_blank():
    for e in ENTRIES:
        assert e.where, e.id
        assert e.says, e.id
        assert e.check, e.id
        assert e.cost, e.id


# Typed from the documents, not from the files under test: (entry, setting, row, metric, value, unit, spread).
REPORTED = [
    ("emergence.table1", "", "NTK", "test_acc", 86.4, "%", None),
    ("emergence.table1", "", "One Step", "cos", 0.848, "", None),
    ("emergence.table1", "", "Network w/o structure", "test_acc", 52.0, "%", None),
    ("emergence.table2", "", "RF", "train_acc", 76.4, "%", None),
    ("emergence.table3", "d=2000", "One Step", "test_acc", 50.01, "%", None),
    ("emergence.table4", "ratio=0.8", "NTK", "train_acc", 62.9, "%", None),
    ("emergence.table5", "n=10000", "Two Step", "cos", 0.994, "", None),
    ("emergence.table6", "", "Experiment 2", "sigma_r", 0.7, "", None),
    ("emergence.table7", "", "ResNet(128)", "cos_v1_v3", 0.5083, "", None),
    ("nuclear.table6_1", "", "SWAD-NU", "domainnet", 47.1, "%", 0.1),
    ("nuclear.table6_1", "", "ERM-NU", "average", 65.0, "%", None),
    ("nuclear.table6_2", "TerraIncognita", "Mixup", "l100", 59.6, "%", 2.0),
    ("nuclear.tableE_4", "", "MTL", "l38", 39.6, "%", 6.3),
    ("tradeoff.table7_1", "", "Ours", "plus_imagenet32", 93.66, "%", 0.12),
    ("tradeoff.table7_2", "", "FT", "mocov3_gtsrb", 76.45, "%", 0.29),
    ("tradeoff.tableF_2", "", "10% ImageNet", "bird_8k", 48.5, "%", None),
    ("tradeoff.tableF_5", "+GTSRB", "FT", "labels_5pct", 78.9, "%", 0.41),
    ("tradeoff.tableF_6", "SVHN, aug=100", "Ours", "labels_100pct", 82.5, "%", 0.01),
    ("tradeoff.tableF_10", "", "ImageNet then CR on Bird", "bird_1k", 73.25, "%", None),
    ("gemfilter.table9_1", "Mistral Nemo 12B Instruct", "GemFilter-2048", "average", 47.11, "", None),
    ("gemfilter.table9_2", "", "layer-13", "pre", 92.22, "", None),
    ("gemfilter.tableG_1", "", "SnapKV-1024", "musique", 31.56, "", None),
    ("gemfilter.figG_2", "", "GemFilter-1024", "needle_score", 0.91, "", None),
    ("looped.figure8_1", "n=32", "Gaussian X", "mean_kappa", 3.13, "", None),
]


@pytest.mark.parametrize("case", REPORTED, ids=lambda c: f"{c[0]}-{c[2]}-{c[3]}")
def test_reported_values(case):
    id, setting, row, metric, value, unit, spread = case
    (p,) = reported(id, setting=setting, row=row, metric=metric)
    assert (p.value, p.unit, p.spread) == (value, unit, spread)


@pytest.mark.parametrize(
    ("id", "settings"),
    [
        ("emergence.table1", [""]),
        ("emergence.table2", [""]),
        ("emergence.table3", ["d=100", "d=2000"]),
        ("emergence.table4", ["ratio=0.8", "ratio=0.9"]),
        ("emergence.table5", ["n=25000", "n=10000"]),
    ],
)
def test_emergence_tables_are_complete(id, settings):
    rows = ["Network", "NTK", "RF", "One Step", "Two Step", "Network w/o structure"]
    metrics = ["train_acc", "test_acc", "cos"]
    cells = {(s, r, m) for s in settings for r in rows for m in metrics if (r, m) != ("NTK", "cos")}
    assert {(p.setting, p.row, p.metric) for p in reported(id)} == cells


def test_the_na_cell_is_empty():
    assert reported("emergence.table1", row="NTK", metric="cos") == ()


def leaves(value):
    """Every number below a value; an int counts as the equal float."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [x for v in value for x in leaves(v)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.mark.parametrize("e", [e for e in ENTRIES if e.reported], ids=lambda e: e.id)
def test_reported_and_numbers_agree(e):
    # the same print is kept twice, so each row must be found among the numbers
    rows = Counter(x for p in e.reported for x in (p.value, p.spread) if x is not None)
    assert rows <= Counter(leaves(e.numbers))


@pytest.mark.parametrize("e", [e for e in ENTRIES if "rows" in e.numbers], ids=lambda e: e.id)
def test_every_tabulated_number_has_a_row(e):
    assert len(leaves(e.numbers["rows"])) == sum(1 + (p.spread is not None) for p in e.reported)


def test_derived_values_and_own_runs_are_not_among_the_reported_numbers():
    assert not entry("fourier.figureC_2").numbers
    assert entry("fourier.figureC_2").own_runs["init_power_baseline"] == 0.092
    assert entry("fourier.figureC_2").derived["expected_per_frequency"] == 32
    assert entry("gemfilter.fig9_1").derived["compression"] == 1081.72
    ours = ("baseline", "expected_per", "our_", "own_", "ideal_")
    assert [(e.id, key) for e in ENTRIES for key in e.numbers if any(word in key for word in ours)] == []


ENTRY = """
[[entry]]
id = "looped.a"
kind = "lemma"
check_kind = "exact"
where = "w"
says = "s"
check = "c"
cost = "1 s"
unstated = ["u"]
reported = [{setting = "n=1", row = "r", metric = "m", value = 1, unit = "%", spread = 0.5}]
[entry.numbers]
x = 1
[entry.derived]
twice = 2
[entry.own_runs]
mean = 3.5
"""
GOOD = '[work]\nid = "looped"\ntitle = "t"\npapers = ["looped"]\nabout = "a"\n' + ENTRY


def test_a_good_file_is_read():
    (e,) = _parse(GOOD, "looped").entries
    assert (e.id, e.work, e.kind, e.check_kind, e.unstated) == ("looped.a", "looped", "lemma", "exact", ("u",))
    assert (e.numbers, e.derived, e.own_runs) == ({"x": 1}, {"twice": 2}, {"mean": 3.5})
    assert e.reported == (inventory.Reported("n=1", "r", "m", 1.0, "%", 0.5),)
    assert isinstance(e.reported[0].value, float)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cost =", "csot =", "unknown key 'csot'; did you mean 'cost'"),
        ('cost = "1 s"\n', "", "missing key 'cost'"),
        ("cost =", "cost = 1 #", "cost must be text"),
        ('"exact"', '"maybe"', "check_kind is 'maybe'"),
        ('"lemma"', '"rumour"', "kind is 'rumour'"),
        ('"looped.a"', '"fourier.a"', "must start with 'looped.'"),
        (ENTRY, ENTRY + ENTRY, "duplicate id 'looped.a'"),
        ('["u"]', '"u"', "unstated must be a list"),
        ("row =", "line =", "unknown key 'line'"),
        ("value = 1", "value = true", "value must be a number"),
        ("value = 1", 'value = "1"', "value must be a number"),
        ("0.5}", '0.5}, {setting = "n=1", row = "r", metric = "m", value = 2}', "occurs twice"),
        ("[entry.numbers]", "[entry.number]", "unknown key 'number'; did you mean 'numbers'"),
        ("[entry.derived]", "[entry.derivd]", "unknown key 'derivd'; did you mean 'derived'"),
        ("[entry.own_runs]", "[entry.ownruns]", "unknown key 'ownruns'; did you mean 'own_runs'"),
        ("[entry.own_runs]\nmean = 3.5", "[[entry.own_runs]]\nmean = 3.5", "own_runs must be a table"),
        ("about =", "abuot =", r"\[work\]: unknown key 'abuot'"),
        ('id = "looped"', 'id = "fourier"', "expected 'looped'"),
        ("[work]", "[work", "looped.toml: "),
    ],
)
def test_a_bad_file_is_refused(old, new, message):
    assert GOOD.count(old) >= 1
    with pytest.raises(InventoryError, match=message) as caught:
        _parse(GOOD.replace(old, new, 1), "looped")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: entry("emergence.tabel1"), "no entry 'emergence.tabel1'; did you mean 'emergence.table1'?"),
        (lambda: entry("emergnce.table1"), "no entry 'emergnce.table1'; did you mean 'emergence.table1'?"),
        (lambda: reported("gemfilter.table91"), "no entry 'gemfilter.table91'; did you mean 'gemfilter.table9_1'?"),
        (lambda: load("fourrier"), "no work 'fourrier'; did you mean 'fourier'?"),
        (lambda: load("../emergence"), "no work '../emergence'; did you mean 'emergence'?"),
        (lambda: entry("zzzz"), "no entry 'zzzz'"),
    ],
)
def test_the_nearest_name_is_suggested(call, message):
    with pytest.raises(KeyError) as caught:
        call()
    assert str(caught.value) == message
