"""Experiments of the amplification work: smoke presets, shared data, training in the span, flips, refused settings."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from featlearn import works
from featlearn.core import Key, SettingError
from featlearn.lab.execute import run
from featlearn.lab.experiment import Rows, TrialResult
from featlearn.lab.store import Store
from featlearn.nets import TwoLayer
from featlearn.works.amplification import setup as ensembles
from featlearn.works.amplification.experiments import figure1, figure2, steps, theorem1
from featlearn.works.amplification.setup import Setting, steps_of

IDS = tuple(i for i in works.EXPERIMENTS if i.startswith("amplification/"))
SMALL = Setting(d=30, n=60, sigma=0.1, m=20)


def as_table(results: list[TrialResult]) -> Rows:
    return Rows(tuple({**row, "trial": str(i)} for i, r in enumerate(results) for row in r.rows))


@pytest.mark.parametrize("id_", IDS)
def test_smoke(id_, tmp_path):
    experiment = works.load_experiment(id_)
    assert {"smoke", "small", "paper"} <= set(experiment.presets)
    report = run(experiment, experiment.presets["smoke"], store=Store(tmp_path), preset="smoke")
    assert report.failed == 0, report.errors
    assert report.ok == len(experiment.trials(experiment.presets["smoke"]))
    assert report.summary
    assert all(np.isfinite([r.value, r.low, r.high]).all() and r.low <= r.value <= r.high for r in report.summary)
    pictures = experiment.draw(report.table)
    assert pictures
    assert set(pictures) <= set(experiment.reproduces)
    assert all(p.caption and len(p.data) for p in pictures.values())
    assert experiment.draw(Rows(())) == {}
    assert all(experiment.cost(c).seconds > 0 for c in experiment.trials(experiment.presets["paper"]))


def test_seeds_can_be_added_and_members_do_not_depend_on_company():
    few = theorem1.trials(
        theorem1.Config(d=(20,), n=(100,), seeds=(0, 1), chunk=2, m=20, n_few=(), d_regime=(), others=False)
    )
    more = theorem1.trials(
        theorem1.Config(d=(20,), n=(100,), seeds=(0, 1, 2), chunk=2, m=20, n_few=(), d_regime=(), others=False)
    )
    assert more[: len(few)] == few
    [trial] = few
    both = theorem1.run_trial(dataclasses.replace(trial, n_test=50)).rows
    alone = theorem1.run_trial(dataclasses.replace(trial, n_test=50, seeds=(1,))).rows
    assert [r for r in both if r.seed == 1] == list(alone)


def test_step_sizes_and_scales_see_the_same_data_and_start():
    found = ensembles.truths(SMALL, [3])
    other = dataclasses.replace(SMALL, scale=0.5)
    assert torch.equal(ensembles.draw(SMALL, found, [3], "train").x, ensembles.draw(other, found, [3], "train").x)
    torch.testing.assert_close(ensembles.start(other, [3]).w, 5 * ensembles.start(SMALL, [3]).w)
    assert float(ensembles.start(other, [3]).w.norm()) == pytest.approx(0.5, rel=0.1)
    parts = [ensembles.draw(SMALL, found, [3], part).y for part in ("train", "test")]
    assert not torch.equal(*parts)


def test_descent_is_plain_gradient_descent_on_the_first_layer():
    found = ensembles.truths(SMALL, [0, 1])
    data, net = ensembles.draw(SMALL, found, [0, 1], "train"), ensembles.start(SMALL, [0, 1])
    w = net.w.double().requires_grad_()
    f = (torch.relu(data.x.double() @ w.transpose(1, 2)) @ net.a.double()[..., None])[..., 0]
    [grad] = torch.autograd.grad(torch.log1p(torch.exp(-data.y * f)).mean(1).sum(), w)
    got = ensembles.descend(net, data, 0.3, 1)
    torch.testing.assert_close(got.w.double(), (w - 0.3 * grad).detach(), atol=1e-7, rtol=1e-5)
    assert torch.equal(got.a, net.a)
    assert got.b.abs().max() == 0


def test_shares_of_right_and_wrong_labels_by_hand():
    net = TwoLayer(torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]]), torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]), "relu")
    x = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [-3.0, 0.0]]])  # the score is x1
    y, clean = torch.tensor([[1.0, -1.0, -1.0, 1.0]]), torch.tensor([[1.0, 1.0, 1.0, 1.0]])
    found = ensembles.fits(net, ensembles.Data(x, y, clean, torch.zeros(1, 4).long(), torch.zeros(1, 4, 2)))
    values = {k: float(v) for k, v in found.items()}
    assert values == {"clean_right": 0.5, "noisy_wrong": 0.5, "acc": 0.5, "clean_acc": 0.5}
    score_all = ensembles.fits(net, ensembles.Data(x, -y, clean, torch.zeros(1, 4).long(), torch.zeros(1, 4, 2)))
    assert float(score_all["clean_right"]) == 0.5


@pytest.mark.parametrize("alpha, up, down", [(0.25, 2, 2), (0.1, 4, 3), (0.05, 6, 6), (2.0, 2, 1)])
def test_number_of_steps(alpha, up, down):
    assert (steps_of(alpha), steps_of(alpha, "down")) == (up, down)


def test_training_in_the_span_is_training():
    """d = 30 > n = 12: 40 steps in 12 coordinates and in 30 give the same network, in float64."""
    s = dataclasses.replace(SMALL, n=12)
    found = ensembles.truths(s, [0, 1])
    data, net = ensembles.draw(s, found, [0, 1], "train"), ensembles.start(s, [0, 1])
    net = TwoLayer(net.w.double(), net.b.double(), net.a.double(), "relu")
    data = dataclasses.replace(data, x=data.x.double())
    full = ensembles.descend(net, data, 1.0, 40)
    inside, x, basis, outside = figure2.in_span(net, data.x)
    assert inside.w.shape == (2, 20, 12)
    back = figure2.out_of_span(ensembles.descend(inside, dataclasses.replace(data, x=x), 1.0, 40), basis, outside)
    torch.testing.assert_close(back.w, full.w, atol=1e-10, rtol=1e-8)
    assert float((full.w - net.w).norm()) > 0.1


def test_flips_are_a_fixed_share_of_every_cluster():
    s = dataclasses.replace(SMALL, n=400, eta=0.0)
    data = ensembles.draw(s, ensembles.truths(s, [0, 1]), [0, 1], "train")
    flipped = figure2.flip_within(data, 0.15, Key("flips"))
    for member in range(2):
        for c in range(4):
            mine = data.group[member] == c
            assert int(flipped.flipped[member, mine].sum()) == round(0.15 * int(mine.sum()))
    assert torch.equal(flipped.clean, data.clean)
    assert not data.flipped.any()
    other = figure2.flip_within(data, 0.15, Key("other"))
    assert not torch.equal(other.y, flipped.y)


def test_low_dimension_overfits_and_high_dimension_does_not():
    """One seed that no preset reports, at a third of the samples; over seeds 1000-1005 of the paper setting the fall
    was 13 to 16 points in low and 0 in high dimension."""
    low = figure2.Trial(figure2.LOW, Setting(8, 30, 8**-0.6, m=60), 4.0, 2000.0, 1000, 1000)
    high = figure2.Trial(figure2.HIGH, Setting(600, 30, 600**-0.6, m=60), 4.0, 10000.0, 1000, 1000)
    first, second = figure2.run_trial(low).rows[0], figure2.run_trial(high).rows[0]
    assert first.drop > 5
    assert second.train_acc == 100
    assert second.drop < 1
    assert second.clean_min > 99.5


def test_one_step_amplifies_a_small_start_only():
    """Two seeds that no preset reports."""
    big = steps.Trial("tight clusters", Setting(100, 1000, 0.01, m=100, scale=1.0), 0.1, 10.0, (1000, 1001))
    small = dataclasses.replace(big, setting=dataclasses.replace(big.setting, scale=1e-3))
    for trial, least, most in ((small, 0.7, 1.0), (big, 0.0, 0.2)):
        rows = [r for r in steps.run_trial(trial).rows if getattr(r, "t", None) == 1]
        assert all(least < r.cos_median < most for r in rows)
    start = [r for r in steps.run_trial(small).rows if getattr(r, "t", None) == 0]
    assert all(0.08 < r.cos_median < 0.13 for r in start)  # 1.056/sqrt(d) = 0.106


def test_edges_by_hand():
    s = dataclasses.replace(SMALL, n=200, m=6)
    found = ensembles.truths(s, [0])
    data, net = ensembles.draw(s, found, [0], "train"), ensembles.start(s, [0])
    own = torch.tensor([[0, 1, -1, 2, 3, -1]])
    slow = []
    for j, c in enumerate(own[0].tolist()):
        if c >= 0:
            fires = (data.x[0] @ net.w[0, j] > 0) & ~data.flipped[0]
            against = int(ensembles.OPPOSITE[c])
            slow.append((int(fires[data.group[0] == c].sum()) - int(fires[data.group[0] == against].sum())) / 200)
    assert float(ensembles.edges(net.w, own, data)[0]) == pytest.approx(min(slow), abs=1e-6)


def test_margins_of_a_part_by_hand():
    found = ensembles.truths(SMALL, [0])
    data, net = ensembles.draw(SMALL, found, [0], "train"), ensembles.start(SMALL, [0])
    keep = torch.arange(20)[None] < 7
    f = torch.relu(data.x[0] @ net.w[0, :7].T) @ net.a[0, :7] * data.y[0]
    clean, noisy = steps.margins(net, keep, data)
    assert float(clean) == pytest.approx(float(f[~data.flipped[0]].min()), abs=1e-7)
    assert float(noisy) == pytest.approx(float(f[data.flipped[0]].max()), abs=1e-7)


def test_the_boundary_in_the_plane():
    """One seed that no preset reports."""
    [trial] = figure1.trials(figure1.Config(n=600, steps=200, m=100, alpha=0.5, n_test=2000, seeds=(1000,)))
    result = figure1.run_trial(trial)
    end = next(r for r in result.rows if r.kind == "plane")
    assert end.agree > 97
    assert end.clean_right > 99
    assert end.noisy_wrong > 99
    assert result.arrays["score"].shape == (161, 161)
    assert [r.step for r in result.rows if r.kind == "point"][-1] == 200


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: theorem1.Config(m=401), "m"),
        (lambda: theorem1.Config(eta=0.5), "eta"),
        (lambda: theorem1.Config(d=(50, 1)), "d"),
        (lambda: theorem1.Config(n=()), "n"),
        (lambda: theorem1.Config(alpha=(0.0,)), "alpha"),
        (lambda: theorem1.Config(seeds=(1, 1)), "seeds"),
        (lambda: theorem1.Config(seeds_few=(999, 1000)), "seeds_few"),  # the means would refuse them after all work
        (lambda: theorem1.Config(scale=0.0), "scale"),
        (lambda: theorem1.Config(chunk=0), "chunk"),
        (lambda: theorem1.Config(n_test=0), "n_test"),
        (lambda: steps.Config(m=3), "m"),
        (lambda: steps.Config(c0=1.0), "c0"),
        (lambda: steps.Config(scales=()), "scales"),
        (lambda: steps.Config(scales=(0.1, -1.0)), "scale"),
        (lambda: steps.Config(seeds=()), "seeds"),
        (lambda: figure1.Config(variance=-1.0), "variance"),
        (lambda: figure1.Config(m=7), "m"),
        (lambda: figure1.Config(steps=0), "steps"),
        (lambda: figure1.Config(seeds=()), "seeds"),
        (lambda: figure2.Config(most=1.0), "most"),
        (lambda: figure2.Config(eta=0.7), "eta"),
        (lambda: figure2.Config(m=5), "m"),
        (lambda: figure2.Config(seeds=()), "seeds"),
        (lambda: figure2.Config(alpha=math.nan), "alpha"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as e:
        make()
    assert e.value.field == field
    assert "\n" not in str(e.value)
