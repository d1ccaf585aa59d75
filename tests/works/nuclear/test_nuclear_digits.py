"""Turned and coloured digits: the data, one run, the choice of a weight, tables and pictures."""

import math
from dataclasses import replace

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.data import DataError
from featlearn.data.mnist_domains import FLIPS
from featlearn.lab.experiment import Rows, TrialResult
from featlearn.methods.domains import VALIDATION
from featlearn.works.nuclear.experiments import digits, rank, training
from featlearn.works.nuclear.experiments.training import COLORED, NAMES, ROTATED, TEST, domains, run, turned
from featlearn.works.nuclear.rows import correlations, pairs

SMOKE = digits.EXPERIMENT.presets["smoke"]
QUICK = replace(SMOKE, rotated=("75",), seeds=(7,), colored=(), bases=("erm", "coral"))


def as_table(results: list[TrialResult]) -> Rows:
    return Rows(tuple({**row, "trial": str(i)} for i, r in enumerate(results) for row in r.rows))


@pytest.fixture(scope="module")
def smoke() -> Rows:
    return as_table([digits.run_trial(trial) for trial in digits.trials(SMOKE)])


@pytest.fixture(scope="module")
def ranked() -> Rows:
    return as_table([rank.run_trial(trial) for trial in rank.trials(rank.EXPERIMENT.presets["smoke"])])


# --- data ------------------------------------------------------------------------------------------------------------


def test_turned_by_a_right_angle():
    x = torch.rand(3, 1, 8, 8, generator=Key("tests/turn").torch())
    torch.testing.assert_close(turned(x, 90), torch.rot90(x, 1, (2, 3)), atol=1e-5, rtol=0)
    torch.testing.assert_close(turned(x, 0), x, atol=1e-6, rtol=0)


def test_rotated_digits_are_dealt_without_repeats():
    found = domains("digits", ROTATED, None, 8)
    assert found.names == NAMES[ROTATED]
    assert sum(len(d.y) for d in found.domains) == 1797
    assert found.shape == (1, 8, 8)
    assert len(domains("digits", ROTATED, 50, 8).domains[0].y) == 50


def test_coloured_digits_agree_as_often_as_said():
    """About 599 images a domain: the shares are off by at most 4.5 standard deviations, 0.075."""
    found = domains("digits", COLORED, None, 8)
    assert found.names == NAMES[COLORED]
    for domain, flip in zip(found.domains, FLIPS, strict=True):
        colour = (domain.x[:, 1].flatten(1).sum(1) > 0).long()
        assert float((domain.x[:, 0] * domain.x[:, 1]).abs().max()) == 0
        assert float((colour != domain.y).float().mean()) == pytest.approx(flip, abs=4.5 * math.sqrt(0.16 / 599))
        assert 0.3 < float(domain.y.float().mean()) < 0.7


def test_mnist_that_is_not_here_is_one_line_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path))
    domains.cache_clear()
    [trial, *_] = digits.trials(replace(digits.EXPERIMENT.presets["small"], seeds=(0,)))
    with pytest.raises(DataError, match="run `featlearn data fetch mnist`") as error:
        digits.run_trial(trial)
    assert "\n" not in str(error.value)


# --- one run ---------------------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def test_the_held_out_domain_is_tested_and_nothing_else(monkeypatch):
    seen = {}

    def spy(featurizer, head, objective, parts, schedule, **rest):
        seen.update(parts=parts, **rest)
        raise Stop

    monkeypatch.setattr(training, "train", spy)
    [trial, *_] = digits.trials(QUICK)
    with pytest.raises(Stop):
        run(trial)
    assert {p.domain.name for p in seen["parts"]} == set(NAMES[ROTATED]) - {"75"}
    assert {p.domain.name for p in seen["watch"][TEST]} == {"75"}
    assert sorted(torch.cat([p.rows for p in seen["watch"][TEST]]).tolist()) == list(range(60))
    validated = seen["watch"][VALIDATION]
    assert {p.domain.name for p in validated} == set(NAMES[ROTATED]) - {"75"}
    assert [len(p.rows) for p in seen["parts"]] == [48] * 5
    assert all(not set(a.rows.tolist()) & set(b.rows.tolist()) for a, b in zip(seen["parts"], validated, strict=True))
    assert seen["average"].tolerance > 2  # training goes on past the end of the valley


def test_runs_of_different_weights_are_pairs():
    """The least weight changes nothing but the last bits; a large one makes the features small."""
    none, *_ = digits.trials(QUICK)
    rows = {w: {r["row"]: r for r in run(replace(none, weight=w)).rows} for w in (0.0, 1e-9, 3.0)}
    assert set(rows[0.0]) == {"erm", "swad"}
    for name in ("erm", "swad"):
        for metric in ("validation_loss", "norm", "rank"):
            assert rows[1e-9][name][metric] == pytest.approx(rows[0.0][name][metric], rel=1e-4)
        assert rows[3.0][name]["norm"] < 0.98 * rows[0.0][name]["norm"]
    assert rows[3.0]["erm"]["raw"] == pytest.approx(3.0 / 40)


def test_reported_stable_rank_moves_with_the_scale_of_features(ranked):
    for r in ranked.rows:
        assert 1 <= r["rank"] <= 16
        assert r["reported"] > 1.5 * r["rank"]  # times the largest singular value


def test_same_trial_same_rows():
    [trial, *_] = digits.trials(QUICK)
    first = run(trial)
    torch.manual_seed(5)
    assert run(trial).rows == first.rows


def test_trial():
    made = digits.trials(QUICK)
    assert [(c.base, c.weight) for c in made] == [("erm", 0.0), ("erm", 0.1), ("coral", 0.0)]
    paper = digits.EXPERIMENT.presets["paper"]
    assert (paper.width, paper.size, paper.steps, paper.batch, paper.rate, paper.per_domain) == (
        64,
        28,
        5001,
        64,
        1e-3,
        None,
    )
    assert len(digits.trials(paper)) == 9 * 3 * (5 + 5 + 1)
    assert {c.base for c in rank.trials(rank.EXPERIMENT.presets["small"])} == {"erm"}


# --- the choice of a weight ------------------------------------------------------------------------------------------


def row(weight, validation, test, seed=0, held_out="75", name="erm", **more):
    return {
        "setting": "s",
        "row": name,
        "held_out": held_out,
        "seed": seed,
        "weight": weight,
        "validation": validation,
        "test": test,
        **more,
    }


def test_validation_alone_chooses_the_weight():
    rows = [row(0.0, 0.95, 0.70), row(0.01, 0.90, 0.60), row(0.1, 0.92, 0.50), row(1.0, 0.91, 0.99)]
    [found] = pairs(rows)
    assert (found.weight, found.without, found.with_, found.gain) == (0.1, 70.0, 50.0, pytest.approx(-20))


def test_the_smallest_of_equal_weights_is_chosen():
    rows = [row(0.0, 0.9, 0.7), row(1.0, 0.9, 0.1), row(0.1, 0.9, 0.8), row(0.5, 0.9, 0.2)]
    assert pairs(rows)[0].weight == 0.1


def test_runs_without_their_partner_are_no_pair():
    assert pairs([row(0.1, 0.9, 0.7), row(0.0, 0.9, 0.7, seed=1)]) == []
    assert len(pairs([row(0.1, 0.9, 0.7, seed=s) for s in (0, 1)] + [row(0.0, 0.9, 0.7, seed=s) for s in (0, 1)])) == 2


def test_correlations_by_hand():
    weights = [(0.0, 5.0), (0.1, 4.0), (1.0, 1.0)]
    rows = [row(w, 0.9, 0.5, rank=v) for w, v in weights] + [row(w, 0.9, 0.5, 1, rank=2.0) for w, _ in weights]
    rows += [row(w, 0.9, 0.5, 2, rank=v) for w, v in ((0.0, 1.0), (0.1, 5.0), (1.0, 3.0))]
    rows += [row(0.0, 0.9, 0.5, 3, rank=1.0), row(1.0, 0.9, 0.5, 3, rank=2.0)]  # two weights: no correlation
    assert correlations(rows, "rank") == [pytest.approx(-1), 0.0, pytest.approx(0.5)]


def test_gains_by_seed_average_whole_seeds_only():
    gains = ((0, "0", 0.1), (0, "75", 0.3), (1, "0", 0.5))
    rows = [row(w, 0.9, 0.5 + w * 10 * gain, s, d) for s, d, gain in gains for w in (0.0, 0.1)]
    found = {r.metric: r for r in digits.summarise(Rows(tuple(rows))) if r.row == "ERM-NU"}
    assert found["gain"].value == pytest.approx(30)
    assert found["gain"].n == 3
    assert found["gain by seed"].value == pytest.approx(20)
    assert found["test_acc"].value == pytest.approx(70)


# --- tables and pictures ---------------------------------------------------------------------------------------------


def test_summary_and_pictures(smoke):
    summary = digits.summarise(smoke)
    assert {r.row for r in summary if r.metric == "test_acc"} == {"ERM", "ERM-NU", "SWAD", "SWAD-NU"}
    assert all(r.verdict == "not reported" for r in summary)
    pictures = digits.draw(smoke)
    assert set(pictures) == {"nuclear.fig6_4", "nuclear.table6_1.weights"}
    assert len(pictures["nuclear.fig6_4"].data) == 4
    bars = pictures["nuclear.fig6_4"].figure.axes[0].patches
    gains = {(r.setting, r.row): r.value for r in summary if r.metric == "gain" and "held out" not in r.row}
    assert sorted(b.get_height() for b in bars) == pytest.approx(sorted(gains.values()))
    assert digits.draw(Rows(())) == {}
    assert digits.summarise(Rows(())) == []


def test_ranks_in_summary_and_picture(ranked):
    summary = rank.summarise(ranked)
    found = [r for r in summary if r.row == "Spearman with the weight"]
    assert len(found) == 3
    assert all(-1 <= r.low <= r.value <= r.high <= 1 for r in found)
    assert len([r for r in summary if r.metric == "test_acc"]) == 3
    assert set(rank.draw(ranked)) == {"nuclear.fig6_5"}
    assert rank.draw(Rows(())) == {}


@pytest.mark.parametrize(
    "field, value",
    [
        ("rotated", ("10",)),
        ("rotated", ("0", "0")),
        ("colored", ("90%",)),
        ("weights", (0.1, 0.0)),
        ("weights", (0.0,)),
        ("weights", (0.1, 1.0)),
        ("weights", (-1.0, 0.0)),
        ("weights", ()),
        ("bases", ()),
        ("bases", ("irm",)),
        ("bases", ("erm", "erm")),
        ("per_domain", 5),
        ("size", 10),
        ("width", 12),
        ("width", 0),
        ("steps", 0),
        ("batch", 1),
        ("rate", 0.0),
        ("evaluate_every", 0),
        ("seeds", ()),
        ("seeds", (1, 1)),
    ],
)
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(SettingError) as error:
        replace(digits.Config(), **{field: value})
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{field} = ")


def test_other_wrong_settings():
    with pytest.raises(SettingError, match="at least one domain"):
        digits.Config(rotated=(), colored=())
    with pytest.raises(SettingError, match=r"one of \(8,\) for digits"):
        digits.Config(images="digits", size=14)
    with pytest.raises(SettingError, match=r"weights = .* three or more"):
        rank.Config(weights=(0.0, 1.0))
    with pytest.raises(SettingError, match="device = 'tpu'"):
        run(replace(digits.trials(QUICK)[0], device="tpu"))
