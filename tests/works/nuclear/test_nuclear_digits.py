"""Turned and coloured digits: the data, one run, the choice of a weight, tables and pictures."""

import math
from dataclasses import replace

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.data import DataError
from featlearn.data.mnist_domains import FLIPS
from featlearn.errors import MissingUnit
from featlearn.lab.experiment import Rows, TrialResult
from featlearn.lab.store import plain_rows
from featlearn.lab.table import Table
from featlearn.methods.domains import VALIDATION
from featlearn.works.nuclear.experiments import digits, training
from featlearn.works.nuclear.experiments.training import COLORED, NAMES, ROTATED, TEST, Config, domains, run, turned
from featlearn.works.nuclear.rows import Run, arms, by_seed, pairs

SMOKE = digits.EXPERIMENT.presets["smoke"]
QUICK = replace(SMOKE, rotated=("75",), seeds=(7,), colored=(), bases=("erm", "coral"))


def as_table(results: list[TrialResult]) -> Rows:
    return Rows(tuple({**row, "trial": str(i)} for i, r in enumerate(results) for row in plain_rows(r.rows)))


@pytest.fixture(scope="module")
def smoke() -> Rows:
    return as_table([run(trial) for trial in digits.trials(SMOKE)])


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
        run(trial)
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
    rows = {w: {r.row: r for r in run(replace(none, weight=w)).rows} for w in (0.0, 1e-9, 3.0)}
    assert set(rows[0.0]) == {"erm", "swad"}
    for name in ("erm", "swad"):
        for metric in ("norm", "rank"):
            assert getattr(rows[1e-9][name], metric) == pytest.approx(getattr(rows[0.0][name], metric), rel=1e-4)
        assert rows[3.0][name].norm < 0.98 * rows[0.0][name].norm


def test_reported_stable_rank_moves_with_the_scale_of_features(smoke):
    for r in smoke.of(Run).rows:
        assert 1 <= r.rank <= 16
        assert r.reported > 1.5 * r.rank  # times the largest singular value


def test_the_rule_that_sees_the_colour_alone():
    red, green = torch.zeros(4, 2, 3, 3), torch.zeros(4, 2, 3, 3)
    red[:, 0], green[:, 1] = 0.5, 0.2
    images = torch.cat([red, green])
    assert training.ruled(torch.tensor([1, 1, 1, 1, 0, 0, 0, 0]), images) == 1.0
    assert training.ruled(torch.tensor([1, 1, 1, 0, 0, 0, 1, 1]), images) == 5 / 8
    assert training.ruled(torch.tensor([7, 7, 7, 3]), torch.rand(4, 1, 3, 3)) == 0.75


def test_same_trial_same_rows():
    [trial, *_] = digits.trials(QUICK)
    first = run(trial)
    torch.manual_seed(5)
    assert run(trial).rows == first.rows


def test_both_methods_have_as_many_candidates():
    made = digits.trials(QUICK)
    assert [(c.base, c.rate, c.weight) for c in made] == [
        ("erm", 3e-3, 0.0),
        ("erm", 1e-2, 0.0),
        ("erm", 3e-3, 0.1),
        ("erm", 3e-3, 1.0),
        ("coral", 3e-3, 0.0),
        ("coral", 1e-2, 0.0),
    ]
    paper = digits.EXPERIMENT.presets["paper"]
    assert (paper.width, paper.size, paper.steps, paper.batch, paper.rate) == (64, 28, 5001, 64, 1e-3)
    assert paper.per_domain is None
    assert len(digits.trials(paper)) == 9 * 3 * (8 + 8 + 4)


# --- the choice of settings ------------------------------------------------------------------------------------------


def made(weight, validation, test, seed=0, held_out="75", rate=3e-3, **more):
    given = {
        "data": "rotated mnist",
        "row": "erm",
        "step": 1,
        "rule": 0.2,
        "norm": 1.0,
        "rank": 2.0,
        "rank_centred": 2.0,
        "reported": 4.0,
        **more,
    }
    return Run(held_out=held_out, seed=seed, weight=weight, rate=rate, validation=validation, test=test, **given)


def test_validation_alone_chooses():
    rows = [made(0.0, 0.95, 0.70), made(0.0, 0.97, 0.65, rate=1e-2), made(0.01, 0.90, 0.60)]
    rows += [made(0.1, 0.92, 0.50), made(1.0, 0.91, 0.99)]
    [found] = pairs(Table.of(Run, rows))
    assert (found.with_.weight, found.without.rate, found.same.rate) == (0.1, 1e-2, 3e-3)
    assert found.gain == pytest.approx(-15)


def test_the_smallest_of_equal_candidates_is_chosen():
    rows = [made(w, 0.9, 0.5, rate=r) for w, r in ((0.0, 1e-2), (0.0, 3e-3), (1.0, 3e-3), (0.1, 3e-3))]
    [found] = pairs(Table.of(Run, rows))
    assert (found.with_.weight, found.without.rate) == (0.1, 3e-3)


def test_runs_without_their_partner_are_an_error():
    with pytest.raises(MissingUnit, match="with and without"):
        pairs(Table.of(Run, [made(0.1, 0.9, 0.7), made(0.0, 0.9, 0.7, seed=1)]))
    with pytest.raises(MissingUnit, match="with and without"):
        pairs(Table.of(Run, [made(0.1, 0.9, 0.7), made(0.0, 0.9, 0.7, rate=1e-2)]))
    assert arms(Table.of(Run, [made(0.1, 0.9, 0.7)])) == {}


def test_gains_are_averaged_within_a_seed_first():
    gains = ((0, "0", 0.1), (0, "75", 0.3), (1, "0", 0.5), (1, "75", 0.1))
    table = Table.of(Run, [made(w, 0.9, 0.3 + w * 10 * g, s, d) for s, d, g in gains for w in (0.0, 0.1)])
    assert by_seed(pairs(table), lambda p: p.gain) == pytest.approx([20, 30])
    assert digits.gain(table).value == pytest.approx(25)
    assert digits.gain(table).n == 2


# --- tables and pictures ---------------------------------------------------------------------------------------------


def test_summary_and_pictures(smoke):
    summary = digits.summarise(smoke)
    assert {r.row for r in summary if r.metric == "test_acc"} == {"ERM", "ERM-NU", "SWAD", "SWAD-NU"}
    assert {r.metric for r in summary} >= {"gain", "degenerate of 4 chosen", "stable rank"}
    assert all(r.verdict == "not reported" for r in summary)
    pictures = digits.draw(smoke)
    assert set(pictures) == {"nuclear.fig6_4", "nuclear.table6_1.weights", "nuclear.fig6_5"}
    bars = pictures["nuclear.fig6_4"].figure.axes[0].patches
    gains = {(r.setting, r.row): r.value for r in summary if r.metric == "gain"}
    assert len(gains) == 4
    assert sorted(b.get_height() for b in bars) == pytest.approx(sorted(gains.values()))
    assert digits.draw(Rows(())) == {}
    assert digits.summarise(Rows(())) == []


@pytest.mark.parametrize(
    "field, value",
    [
        ("rotated", ("10",)),
        ("rotated", ("0", "0")),
        ("colored", ("90%",)),
        ("weights", (0.1, 0.01)),
        ("weights", (0.0, 1.0)),
        ("rates", (1e-3, 3e-3)),
        ("rates", (1e-4, 2e-4, 3e-4, 4e-4)),
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
        ("evaluate_every", 0),
        ("seeds", ()),
        ("seeds", (1, 1)),
    ],
)
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(SettingError) as error:
        replace(Config(), **{field: value})
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{field} = ")


def test_other_wrong_settings():
    with pytest.raises(SettingError, match="at least one domain"):
        Config(rotated=(), colored=())
    with pytest.raises(SettingError, match=r"one of \(8,\) for digits"):
        Config(images="digits", size=14)
    with pytest.raises(SettingError, match="device = 'tpu'"):
        run(replace(digits.trials(QUICK)[0], device="tpu"))
