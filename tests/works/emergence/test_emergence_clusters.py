"""Clusters of neurons on pairs of classes: shuffled labels, the measure on planted networks, planted rows, refusals."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.errors import DataUnavailable
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.table import Table
from featlearn.nets import TwoLayer
from featlearn.works.emergence.claims.clusters import CLAIMS, MADE, MORE, ON_SVHN, OPPOSITE, RIGHT, TIGHTER
from featlearn.works.emergence.experiments import clusters, pairs
from featlearn.works.emergence.experiments.clusters import EXPERIMENT, SNAPSHOTS, Config, parted
from featlearn.works.emergence.rows_images import Learnt, Parted

BY_ID = {c.id.removeprefix("emergence."): c for c in (*CLAIMS, *ON_SVHN)}
CPU = EXPERIMENT.presets["cpu"].pairs


# --- pairs and labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(10, 10), (7, 5), (1, 4)])
def test_shuffled_labels_say_nothing_of_the_class(sizes):
    y = torch.tensor([1.0] * sizes[0] + [-1.0] * sizes[1])
    found = pairs.labels_of(y, "shuffled", Key("k"))
    assert pairs.labels_of(y, "true", Key("k")) is y
    assert set(found.tolist()) <= {1.0, -1.0}
    for sign, more in ((1.0, 1), (-1.0, -1)):
        here = found[y == sign]
        assert float(here.sum()) == (more if len(here) % 2 else 0)
    again = pairs.labels_of(y, "shuffled", Key("k"))
    assert torch.equal(found, again)


def test_another_shuffling_is_another_one():
    y = torch.tensor([1.0, -1.0]).repeat(50)
    assert not torch.equal(pairs.labels_of(y, "shuffled", Key("a")), pairs.labels_of(y, "shuffled", Key("b")))


def test_a_pair_has_its_first_class_at_plus_one_and_half_the_pixels_where_that_is_asked():
    whole, half = pairs.loaded("digits 4/9"), pairs.loaded("digits 4/9", 4)
    assert whole.x.shape[1:] == (1, 8, 8)
    assert half.x.shape == (len(whole.x), 1, 4, 4)
    torch.testing.assert_close(half.x[3, 0, 1, 2], whole.x[3, 0, 2:4, 4:6].mean())
    zero = pairs.loaded("digits 0/1")
    assert zero.x[zero.y > 0][:, 0, 3:5, 3:5].mean() < 0.1  # 0 is dark in the middle


def test_a_sample_is_of_both_classes_alike():
    found = pairs.sample(pairs.loaded("digits 0/1"), 40, 20, Key("k"))
    assert (len(found.x), len(found.x_test)) == (40, 20)
    assert float(found.y.sum()) == float(found.y_test.sum()) == 0
    other = pairs.sample(pairs.loaded("digits 0/1"), 40, 20, Key("l"))
    assert not torch.equal(found.x, other.x)


@pytest.mark.parametrize(("pair", "name"), [("CIFAR-10 airplane/automobile", "cifar10"), ("SVHN 0/1", "svhn")])
def test_a_set_of_yours_is_read_by_the_names_of_its_classes_and_asked_for_where_it_is_not(
    pair, name, tmp_path, monkeypatch
):
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path))
    assert pairs.needs(pair) == (name,)
    pairs.loaded.cache_clear()
    with pytest.raises(DataUnavailable, match=f"data needed: {name}"):
        pairs.loaded(pair)
    labels = ("bird", "automobile", "airplane") if name == "cifar10" else "0123456789"
    values = torch.arange(6, dtype=torch.uint8)[:, None, None, None].expand(6, 3, 32, 32).clone()
    y = torch.tensor([0, 1, 2, 1, 2, 0])

    def found(asked, split):
        assert asked == name
        return pairs_of(values, y, labels)

    monkeypatch.setattr(pairs, "labelled_images", found)
    two = pairs.loaded(pair)
    wanted = [-1, 1, -1, 1] if name == "cifar10" else [1, -1, -1, 1]
    assert two.y.tolist() == wanted
    rows = [1, 2, 3, 4] if name == "cifar10" else [0, 1, 3, 5]
    assert (two.x[:, 0, 0, 0] * 255).round().tolist() == rows
    pairs.loaded.cache_clear()


def pairs_of(values, y, labels):
    from featlearn.data import LabelledImages

    return LabelledImages(values, y, tuple(labels))


# --- the measure -----------------------------------------------------------------------------------------------------


def planted_net(centres, each=10, noise=0.02):
    """`each` neurons near each of some directions of the plane, by angle."""
    ends = torch.tensor([[math.cos(a), math.sin(a)] for a in centres])
    w = ends.repeat_interleave(each, 0) + noise * torch.randn(each * len(centres), 2, generator=Key("net").torch())
    return TwoLayer(w[None], torch.zeros(1, len(w)), torch.ones(1, len(w)), "relu")


@pytest.mark.parametrize("k", [2, 3, 4])
def test_as_many_clusters_as_are_planted_have_the_largest_silhouette(k):
    found = parted(planted_net([2 * math.pi * i / k for i in range(k)]), Key("k"))
    best = max((2, 3, 4), key=lambda n: found[f"silhouette_{n}"])
    assert best == k
    assert found[f"silhouette_{k}"] > 0.99
    if k == 2:
        assert found["centres"] == pytest.approx(-1, abs=1e-3)


def test_the_cosine_of_two_centres_is_that_of_their_angle():
    assert parted(planted_net([0.0, 1.2]), Key("k"))["centres"] == pytest.approx(math.cos(1.2), abs=0.02)


@pytest.fixture(scope="module")
def smoke():
    trial = EXPERIMENT.trials(EXPERIMENT.presets["smoke"])[0]
    rows = EXPERIMENT.run_trial(dataclasses.replace(trial, seed=1007)).rows
    return {kind: Table.of(kind, [r for r in rows if type(r) is kind]) for kind in EXPERIMENT.rows}


def test_both_arms_have_one_start_and_every_snapshot(smoke):
    found = smoke[Parted]
    assert set(found.by("labels", "snapshot")) == {(a, s) for a in ("true", "shuffled") for s in SNAPSHOTS}
    one, two = ({c: getattr(r, c) for c in ("silhouette_2", "silhouette_4", "centres")} for r in starts(found))
    assert one == two
    end = {a: found.where(labels=a, snapshot="end").rows[0].silhouette_2 for a in ("true", "shuffled")}
    assert end["true"] != end["shuffled"]


def starts(table):
    return [table.where(labels=a, snapshot="start").rows[0] for a in ("true", "shuffled")]


def test_true_labels_are_learnt_and_shuffled_ones_are_of_no_use(smoke):
    of = {r.labels: r for r in smoke[Learnt].rows}
    assert of["true"].test_acc >= 95
    assert of["shuffled"].test_acc <= 75  # 89 images: 50 +- 5 by chance, and five epochs learn some shuffling by heart


def test_the_step_size_is_that_of_a_set_of_unit_length(monkeypatch):
    seen = []

    def spy(net, x, y, stages, *args, **more):
        seen.append((stages[0], float(x.square().sum(1).mean())))
        raise InterruptedError

    monkeypatch.setattr(clusters, "fit", spy)
    for pair in ("digits 0/1", "digits 4/9"):
        trial = next(t for t in EXPERIMENT.trials(EXPERIMENT.presets["smoke"]) if t.pair == pair)
        with pytest.raises(InterruptedError):
            EXPERIMENT.run_trial(trial)
    for stage, length in seen:
        assert stage.rate_w == stage.rate_a == stage.rate_b == pytest.approx(8.0 / length)
        assert (stage.momentum, stage.keep_w, stage.keep_a, stage.noise) == (0.95, 1.0, 1.0, 0.0)
    assert seen[0][1] != seen[1][1]


def test_presets_have_the_settings_and_the_needs_that_they_say():
    assert EXPERIMENT.presets["paper"].m == 50
    needed = {name: {n for t in EXPERIMENT.trials(c) for n in EXPERIMENT.needs(t)} for name, c in presets()}
    assert needed == {
        "smoke": set(),
        "small": {"mnist", "fashion-mnist"},
        "cpu": {"mnist", "fashion-mnist"},
        "paper": {"cifar10", "svhn"},
    }
    assert sum(EXPERIMENT.cost(t).seconds for t in EXPERIMENT.trials(EXPERIMENT.presets["cpu"])) < 2400


def presets():
    return EXPERIMENT.presets.items()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"pairs": ()}, "pairs"),
        ({"pairs": ("MNIST 0/1", "MNIST 0/1")}, "pairs"),
        ({"m": 4}, "m"),
        ({"rate": 0.0}, "rate"),
        ({"sigma_w": 0.0}, "sigma_w"),
        ({"momentum": 1.0}, "momentum"),
        ({"batch": 0}, "batch"),
        ({"epochs": 1}, "epochs"),
        ({"early": 0}, "early"),
        ({"seeds": (1, 1)}, "seeds"),
    ],
)
def test_impossible_settings_are_refused_by_field_and_remedy(changed, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        Config(**changed)


@pytest.mark.parametrize(("changed", "field"), [({"batch": 10_000}, "batch"), ({"early": 10_000}, "early")])
def test_settings_that_the_images_refuse_name_them(changed, field):
    trial = EXPERIMENT.trials(EXPERIMENT.presets["smoke"])[0]
    with pytest.raises(SettingError, match=f"^{field} = "):
        EXPERIMENT.run_trial(dataclasses.replace(trial, **changed))


# --- claims ----------------------------------------------------------------------------------------------------------


def planted(which=CPU, two=0.6, four=0.5, start=0.05, shuffled=0.3, opposite=-0.9, right=98.0):
    """Rows of ten seeds: silhouettes at the end with true labels, at the start, and with shuffled labels."""
    parted_rows, learnt, rng = [], [], Key("planted").numpy()
    for pair in which:
        for seed in range(10):
            for labels in ("true", "shuffled"):
                at = {"pair": pair, "labels": labels, "seed": seed}
                for snapshot in SNAPSHOTS:
                    true = labels == "true"
                    level = {2: start, 4: start} if snapshot == "start" else {2: two, 4: four} if true else None
                    level = level or {2: shuffled, 4: shuffled}
                    noise = 0.005 * rng.standard_normal(3)
                    centres = -0.1 if snapshot == "start" else opposite
                    parted_rows.append(
                        Parted(
                            snapshot=snapshot,
                            silhouette_2=level[2] + noise[0],
                            silhouette_3=0.4,
                            silhouette_4=level[4] + noise[1],
                            centres=float(np.clip(centres + noise[2], -1, 1)),
                            **at,
                        )
                    )
                accuracy = (right if labels == "true" else 50.0) + rng.standard_normal()
                learnt.append(Learnt(train_acc=60.0, test_acc=float(accuracy), **at))
    return Table.of(Parted, parted_rows), Table.of(Learnt, learnt)


def tables_of(name, **changed):
    return planted(**changed)[: len(BY_ID[name].reads)]


def outcomes(name, tables):
    return {f.statement.name: f.outcome for f in verdict_of(BY_ID[name], Key("verify"), tables).findings}


SAID = {"two_clusters_images": {}, "four_clusters": {"two": 0.5, "four": 0.6}}


@pytest.mark.parametrize("name", BY_ID)
def test_rows_that_agree_are_confirmed_and_told_apart_from_others(name):
    claim, tables = BY_ID[name], tables_of(name, **SAID[name])
    verdict = verdict_of(claim, Key("verify"), tables)
    assert {f.outcome for f in verdict.findings} == {"confirmed"}, [(f.statement.name, f.why) for f in verdict.findings]
    assert (verdict.scope, verdict.covers) == ("premise unmet", False)  # other images confirm nothing
    assert blind(claim, Key("verify"), tables) == []
    assert apart(claim, Key("verify"), tables) == []


@pytest.mark.parametrize(
    ("name", "changed", "against"),
    [
        ("two_clusters_images", {"start": 0.55}, {TIGHTER[2]}),
        ("two_clusters_images", {"shuffled": 0.7}, {MADE[2]}),
        ("two_clusters_images", {"shuffled": 0.6}, {MADE[2]}),
        ("two_clusters_images", {"four": 0.7}, {MORE[2]}),
        ("two_clusters_images", {"opposite": -0.3}, {OPPOSITE}),
        ("two_clusters_images", {"right": 52.0}, {RIGHT}),
        ("four_clusters", {"start": 0.55, **SAID["four_clusters"]}, {TIGHTER[4]}),
        ("four_clusters", {"shuffled": 0.6, **SAID["four_clusters"]}, {MADE[4]}),
        ("four_clusters", {}, {MORE[4]}),
    ],
)
def test_rows_that_disagree_are_contradicted_where_they_do(name, changed, against):
    found = outcomes(name, tables_of(name, **changed))
    assert {statement for statement, outcome in found.items() if outcome == "contradicted"} == against


def test_one_pair_that_goes_the_other_way_is_seen():
    parted_table, learnt = planted()
    rows = [
        dataclasses.replace(r, silhouette_2=0.02) if (r.pair, r.labels, r.snapshot) == (CPU[1], "true", "end") else r
        for r in parted_table.rows
    ]
    found = outcomes("two_clusters_images", (Table.of(Parted, rows), learnt))
    assert {n for n, o in found.items() if o == "contradicted"} == {TIGHTER[2], MADE[2], MORE[2]}


def test_images_of_the_paper_are_judged_each_by_its_own_figure():
    """CIFAR-10 with two clusters and SVHN with four: each claim sees its own pair, and both are as the paper says."""
    cifar, svhn = EXPERIMENT.presets["paper"].pairs
    both = [planted((cifar,)), planted((svhn,), **SAID["four_clusters"])]
    joined = tuple(Table.of(k, [r for t in both for r in t[i].rows]) for i, k in enumerate((Parted, Learnt)))
    for name, claim in BY_ID.items():
        verdict = verdict_of(claim, Key("verify"), joined[: len(claim.reads)])
        assert {f.outcome for f in verdict.findings} == {"confirmed"}, [
            (f.statement.name, f.why) for f in verdict.findings
        ]
        assert verdict.scope == "premise not decidable"  # the paper's step size is not given
        assert verdict.premises[0].met, name
