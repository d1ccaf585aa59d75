"""The curve of one to four sources: planted rows that agree and disagree, what is paired, and settings refused."""

import dataclasses

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.table import Table
from featlearn.works.tradeoff.claims.curve import APART, CLAIMS, LEARNT, LOSS, ODDS, RISE, SHARPER, STEPS, TREND
from featlearn.works.tradeoff.experiments import curve, images
from featlearn.works.tradeoff.rows_images import Alike, Encoded, Probed

BY_ID = {c.id.removeprefix("tradeoff."): c for c in CLAIMS}
TARGETS = ("MNIST", "Fashion-MNIST")
NUMBERS = {"start": (0,), "growing": (1, 2, 3, 4), "fixed": (1, 2, 3, 4), "single": (1, 2, 3, 4)}


def same(target, seed, mode, number):
    return {"target": target, "method": "simclr", "seed": seed, "mode": mode, "number": number}


def noise(rng):
    return 0.01 * float(rng.standard_normal())


def planted(fall=3.0, fall_all=0.5, rise=2.0, start=40.0, spread=0.8):
    """Target accuracy falls by `fall` from one source to four at 1 % of labels and by `fall_all` with all; every other
    task rises so that the average rises by `rise`."""
    probed, encoded, rng = [], [], Key("planted").numpy()
    for target in TARGETS:
        for seed in range(5):
            for mode, numbers in NUMBERS.items():
                for k in numbers:
                    at = same(target, seed, mode, k)
                    base = start if mode == "start" else 60.0
                    for task in images.SOURCES[target]:
                        steps = max(k - 1, 0) / 3
                        if task != target:
                            up = (4 * rise + fall_all) / 3 * steps
                            probed.append(Probed(task=task, share=1.0, accuracy=base + up + noise(rng), **at))
                            continue
                        for share, down in ((0.01, fall), (0.1, fall_all), (1.0, fall_all)):
                            probed.append(
                                Probed(task=task, share=share, accuracy=base - down * steps + noise(rng), **at)
                            )
                    trained = {"loss": 4.0, "matched": 0.5, "spread": spread, "rank": 9.0}
                    if mode == "start":
                        trained = dict.fromkeys(trained)
                    encoded.append(Encoded(images=0, knn=50.0, **trained, **at))
    return Table.of(Probed, probed), Table.of(Encoded, encoded)


def similar(step=0.1, single=0.4):
    """CKA falls by `step` with each number between two encoders; of singles it is one number."""
    rows, rng = [], Key("planted").numpy()
    for target in TARGETS:
        for seed in range(5):
            for mode in ("growing", "fixed", "single"):
                for i in range(1, 5):
                    for j in range(i + 1, 5):
                        value = single if mode == "single" else 0.95 - step * (j - i)
                        at = {"target": target, "method": "simclr", "seed": seed}
                        rows.append(Alike(mode=mode, one=i, two=j, cka=value + noise(rng) / 10, **at))
    return (Table.of(Alike, rows),)


def outcomes(name, tables):
    return {f.statement.name: f.outcome for f in verdict_of(BY_ID[name], Key("verify"), tables).findings}


def tables_of(name, **changed):
    return similar(**changed) if name == "curve_similarity" else planted(**changed)[: len(BY_ID[name].reads)]


@pytest.mark.parametrize("name", BY_ID)
def test_rows_that_agree_are_confirmed_and_told_apart_from_others(name):
    claim, tables = BY_ID[name], tables_of(name)
    verdict = verdict_of(claim, Key("verify"), tables)
    assert {f.outcome for f in verdict.findings} == {"confirmed"}, [(f.statement.name, f.why) for f in verdict.findings]
    assert (verdict.scope, verdict.covers) == ("premise unmet", False)  # other images confirm nothing
    assert blind(claim, Key("verify"), tables) == []
    assert apart(claim, Key("verify"), tables) == []


@pytest.mark.parametrize(
    ("name", "changed", "against"),
    [
        ("curve", {"fall": -3.0}, set(LOSS.values())),
        ("curve", {"fall": 0.0}, set(LOSS.values())),
        ("curve", {"rise": -1.0}, set(RISE.values())),
        ("curve", {"start": 65.0}, {LEARNT}),
        ("curve_fewer_labels", {"fall": 0.5}, {*SHARPER.values(), *ODDS.values()}),
        ("curve_fewer_labels", {"fall": 0.5, "fall_all": 3.0}, {*SHARPER.values(), *ODDS.values()}),
        ("curve_similarity", {"step": -0.1}, {TREND, STEPS}),
        ("curve_similarity", {"step": 0.0, "single": 0.2}, {TREND, STEPS}),
        ("curve_similarity", {"single": 0.9}, {APART}),
    ],
)
def test_rows_that_disagree_are_contradicted_where_they_do(name, changed, against):
    found = outcomes(name, tables_of(name, **changed))
    assert {statement for statement, outcome in found.items() if outcome == "contradicted"} == against


def test_a_loss_that_a_ceiling_alone_makes_smaller_is_sharper_in_points_and_not_in_log_odds():
    (probed,) = tables_of("curve_fewer_labels")
    near = [
        dataclasses.replace(r, accuracy=r.accuracy + 38.0) if r.task == r.target and r.share == 1.0 else r
        for r in probed.rows
    ]
    found = outcomes("curve_fewer_labels", (Table.of(Probed, near),))
    assert {n for n, o in found.items() if o == "confirmed"} == set(SHARPER.values())
    assert {n for n, o in found.items() if o == "contradicted"} == set(ODDS.values())


def test_similarity_is_read_along_every_row():
    (table,) = similar()
    rows = [
        dataclasses.replace(r, cka=0.9) if (r.target, r.mode, r.one, r.two) == ("MNIST", "growing", 2, 4) else r
        for r in table.rows
    ]
    found = outcomes("curve_similarity", (Table.of(Alike, rows),))
    assert {n for n, o in found.items() if o == "contradicted"} == {STEPS}


def test_one_target_that_goes_the_other_way_is_seen():
    probed, encoded = planted()
    rows = [
        dataclasses.replace(r, accuracy=120.0 - r.accuracy) if r.target == "MNIST" and r.mode == "fixed" else r
        for r in probed.rows
    ]
    found = outcomes("curve", (Table.of(Probed, rows), encoded))
    assert {n for n, o in found.items() if o == "contradicted"} == {LOSS["fixed"], RISE["fixed"]}


def test_a_collapse_is_a_premise_that_is_unmet():
    tables = planted(spread=0.01)
    premises = verdict_of(BY_ID["curve"], Key("verify"), tables).premises
    assert [p.met for p in premises] == [False, False]


@pytest.mark.parametrize("target", ["MNIST", "digits"])
def test_sources_are_of_different_images_and_their_classes_stay(target, monkeypatch):
    x = torch.rand(60_000 if target == "MNIST" else 1348, 1, 8, 8, generator=Key("images").torch())
    y = torch.arange(len(x)) % 10
    monkeypatch.setattr(images, "loaded", lambda name, size, split: (x, y) if split == "train" else (x[:300], y[:300]))
    c = images.Common(n=200, labelled=150, tested=100, size=8)
    parts = images.sources(c, target, Key("seed"))
    assert [p.name for p in parts] == list(images.SOURCES[target])
    back = {"turned": lambda v: v.rot90(-1, (2, 3)), "inverted": lambda v: 1 - v, "mirrored": lambda v: v.flip(3)}
    seen = {}
    for p in parts:
        name, _, change = p.name.partition(" ")
        for i, image in zip(p.y, back.get(change, lambda v: v)(p.x), strict=True):
            (row,) = ((x - image).abs().amax((1, 2, 3)) < 1e-6).nonzero().flatten().tolist()
            assert y[row] == i
            assert seen.setdefault((name, row), p.name) == p.name  # no two sources have one image
    first = parts[0]
    held = {tuple(v.flatten().tolist()) for v in first.x_held}
    assert not held & {tuple(v.flatten().tolist()) for v in first.x}


def test_mixtures_have_the_sizes_that_their_modes_say():
    found = {(mode, number): sizes for modes, number, sizes in curve.mixtures(10, 4) for mode in modes}
    assert found[("growing", 3)] == {0: 10, 1: 10, 2: 10}
    assert found[("fixed", 3)] == {0: 4, 1: 3, 2: 3}
    assert found[("fixed", 4)] == {0: 3, 1: 3, 2: 2, 3: 2}
    assert found[("single", 3)] == {2: 10}
    assert found[("fixed", 1)] == found[("single", 1)] == found[("growing", 1)] == {0: 10}


def test_smoke_has_every_encoder_of_a_seed_probed_on_every_source():
    experiment = curve.EXPERIMENT
    trial = experiment.trials(experiment.presets["smoke"])[0]
    rows = experiment.run_trial(trial).rows
    tables = {kind: Table.of(kind, [r for r in rows if type(r) is kind]) for kind in experiment.rows}
    assert {(r.mode, r.number) for r in tables[Encoded].rows} == {(m, k) for m, ks in NUMBERS.items() for k in ks}
    assert {len(p) for p in tables[Probed].by("mode", "number").values()} == {5}  # two shares of the target, three more
    assert len(tables[Alike]) == 18
    one = [tables[Probed].where(mode=m, number=1).column("accuracy") for m in ("growing", "fixed", "single")]
    assert (one[0] == one[1]).all()
    assert (one[0] == one[2]).all()
    end, start = (tables[Encoded].where(mode="growing", number=4).rows[0], tables[Encoded].where(mode="start").rows[0])
    assert end.images == 4 * trial.n
    assert start.loss is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"targets": ()}, "targets"),
        ({"targets": ("MNIST", "MNIST")}, "targets"),
        ({"targets": ("digits",)}, "size"),
        ({"size": 20}, "size"),
        ({"n": 15_001, "batch": 256}, "n"),
        ({"labelled": 15_001}, "labelled"),
        ({"tested": 10_001}, "tested"),
        ({"batch": 1}, "batch"),
        ({"batch": 2561}, "batch"),
        ({"method": "moco", "queue": 2561}, "queue"),
        ({"shares": (0.1,)}, "shares"),
        ({"shares": (1.0, 0.1)}, "shares"),
        ({"shares": (0.001, 1.0)}, "shares"),
        ({"draws": 0}, "draws"),
        ({"width": 0}, "width"),
        ({"features": 0}, "features"),
        ({"queue": 0}, "queue"),
        ({"seeds": ()}, "seeds"),
    ],
)
def test_impossible_settings_are_refused_by_field_and_remedy(changed, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        curve.Config(**changed)
