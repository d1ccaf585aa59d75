"""Digits 0 and 1: the two-cluster measure on planted networks, and training on the bundled digits."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.data import DataError
from featlearn.lab.experiment import Rows, TrialResult
from featlearn.lab.row import plain
from featlearn.nets import TwoLayer
from featlearn.works.emergence.experiments import figure17
from featlearn.works.emergence.experiments.figure17 import EXPERIMENT, Config, run_trial, trials, two_clusters
from featlearn.works.emergence.rows import Tightening

QUICK = Config(m=30, epochs=6, seeds=(7,))


def as_table(results: list[TrialResult]) -> Rows:
    rows = tuple({**plain(row), "trial": str(i)} for i, r in enumerate(results) for row in r.rows)
    return Rows(rows, {str(i): (lambda a=r.arrays: a) for i, r in enumerate(results)})


@pytest.fixture(scope="module")
def quick() -> TrialResult:
    [trial] = trials(QUICK)
    return run_trial(trial)


def final(result: TrialResult) -> dict:
    return dict(vars(result.rows[0]))


def planted(angle: float, positive_first: bool) -> TwoLayer:
    """20 + 10 neurons near two directions `angle` apart, output weights of opposite signs."""
    g = Key("tests/figure17").torch()
    ends = torch.tensor([[1.0, 0.0], [np.cos(angle), np.sin(angle)]], dtype=torch.float32)
    w = ends.repeat_interleave(torch.tensor([20, 10]), 0) + 0.01 * torch.randn(30, 2, generator=g)
    a = torch.ones(30)
    a[20:] = -1
    return TwoLayer(w[None], torch.zeros(1, 30), (a if positive_first else -a)[None], "relu")


@pytest.mark.parametrize("angle", [np.pi, 2.0])
@pytest.mark.parametrize("positive_first", [True, False])
def test_cluster_0_is_the_positive_one(angle, positive_first):
    silhouette, between, labels, centres = two_clusters(planted(angle, positive_first), Key("k"))
    assert silhouette > 0.98
    assert between == pytest.approx(np.cos(angle), abs=0.03)
    assert labels.tolist() == [0 if positive_first else 1] * 20 + [1 if positive_first else 0] * 10
    first = torch.tensor([1.0, 0.0]).double()
    assert float(centres[0 if positive_first else 1] @ first) > 0.99


def test_training_forms_two_opposite_clusters(quick):
    """A short run on the bundled digits, one seed that no preset reports."""
    row = final(quick)
    assert row["silhouette_end"] > row["silhouette_init"] + 0.2
    assert row["centre_cos"] < -0.7
    assert row["centre_cos"] < row["centre_cos_init"]
    assert row["test_acc"] >= 97
    assert row["sign_share"] > 75


def test_without_training_there_are_no_clusters():
    """The rival: a vanishing step size leaves the silhouette at its start."""
    [trial] = trials(replace(QUICK, rate=1e-9))
    row = final(run_trial(trial))
    assert row["silhouette_end"] == pytest.approx(row["silhouette_init"], abs=1e-4)
    assert row["test_acc"] < 97


def test_curve_begins_and_ends_at_the_reported_values(quick):
    points = {r.epoch: vars(r) for r in quick.rows if isinstance(r, Tightening)}
    assert sorted(points) == [0, 1, 2, 20 / 8, 5, 6]  # 271 images: 8 batches of 32 an epoch
    assert points[0]["silhouette"] == final(quick)["silhouette_init"]
    assert points[6]["silhouette"] == final(quick)["silhouette_end"]
    assert points[6]["between"] == final(quick)["centre_cos"]


def test_same_trial_same_rows(quick):
    torch.manual_seed(3)
    [trial] = trials(QUICK)
    again = run_trial(trial)
    assert again.rows == quick.rows
    for name, array in quick.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)


def test_training_uses_the_reported_momentum_and_no_regularisation(monkeypatch):
    seen = {}

    def spy(net, x, y, stages, *args, **kwargs):
        seen.update(net=net, stage=stages[0], x=x, y=y)
        raise InterruptedError

    monkeypatch.setattr(figure17, "fit", spy)
    paper = EXPERIMENT.presets["paper"]
    assert (paper.data, paper.m, paper.momentum, len(paper.seeds)) == ("mnist", 50, 0.95, 5)
    [trial] = trials(replace(QUICK, m=2000))
    with pytest.raises(InterruptedError):
        run_trial(trial)
    stage = seen["stage"]
    assert (stage.momentum, stage.keep_w, stage.keep_a, stage.noise) == (0.95, 1.0, 1.0, 0.0)
    assert stage.rate_w == stage.rate_a == stage.rate_b == 0.1
    assert float(seen["net"].w.std()) == pytest.approx(0.01, rel=0.02)  # 128000 entries: 0.2 % error
    assert float(seen["net"].a.std()) * 2000**0.5 == pytest.approx(1, rel=0.1)
    zeros = seen["x"][seen["y"] > 0].reshape(-1, 8, 8)[:, 3:5, 3:5].mean()
    assert zeros < 0.1  # +1 is the digit 0, dark in the middle


def test_pictures(quick):
    pictures = figure17.draw(as_table([quick]))
    assert set(pictures) == set(EXPERIMENT.reproduces)
    maps = pictures["emergence.figure17"]
    assert [a.get_title("left") for a in maps.figure.axes] == ["init", "step 20", "epoch 6"]
    assert len(maps.data) == 90
    assert len(pictures["emergence.figure3"].data) == 12
    assert figure17.draw(Rows(())) == {}


def test_intervals_stay_within_what_a_number_can_be():
    rows = [
        {"setting": "digits", "row": "Network", "seed": s, "test_acc": v, "centre_cos": c, "trial": "0"}
        for s, v, c in ((0, 100.0, -1.0), (1, 90.0, -0.2))
    ]
    summary = {r.metric: r for r in figure17.summarise(Rows(tuple(rows)))}
    assert (summary["test_acc"].value, summary["test_acc"].high, summary["test_acc"].unit) == (95, 100, "%")
    assert summary["centre_cos"].low == -1
    assert summary["test_acc"].low < 90  # cut only at the ends


def test_mnist_that_is_not_here_is_one_line_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("FEATLEARN_DATA", str(tmp_path))
    with pytest.raises(DataError, match="run `featlearn data fetch mnist`") as error:
        run_trial(trials(replace(QUICK, data="mnist"))[0])
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "field, value",
    [
        ("m", 2),
        ("rate", 0.0),
        ("momentum", 1.0),
        ("momentum", -0.1),
        ("batch", 0),
        ("epochs", 0),
        ("early", 0),
        ("sigma_w", 0.0),
        ("seeds", ()),
        ("seeds", (3, 3)),
    ],
)
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(SettingError) as error:
        replace(Config(), **{field: value})
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(("n = ", "batch = ") if field == "batch" else f"{field} = ")


def test_unknown_data_are_refused():
    config = Config()
    object.__setattr__(config, "data", "cifar")  # past the annotation, which only the tests enforce
    with pytest.raises(SettingError, match="data = cifar is not allowed: digits or mnist"):
        config.__post_init__()


def test_a_batch_above_the_images_is_refused():
    with pytest.raises(SettingError, match="batch = 500 is not allowed: at most n = 271"):
        run_trial(trials(replace(QUICK, batch=500))[0])
