"""Gaussian clusters: settings as reported, coverage measured on what was trained, sizes measured on the samples."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.lab.experiment import Rows, TrialResult
from featlearn.lab.inventory import reported
from featlearn.lab.row import plain
from featlearn.learn import Run
from featlearn.nets import TwoLayer
from featlearn.works.emergence.experiments import figure16
from featlearn.works.emergence.experiments.figure16 import EXPERIMENT, Config, run_trial, trials
from featlearn.works.emergence.rows import Sizes

QUICK = Config(experiments=(2,), m=200, n=2000, n_test=1000, epochs=0.4, rate=1.0, seeds=(7,))


def as_table(results: list[TrialResult]) -> Rows:
    rows = tuple({**plain(row), "trial": str(i)} for i, r in enumerate(results) for row in r.rows)
    return Rows(rows, {str(i): (lambda a=r.arrays: a) for i, r in enumerate(results)})


@pytest.fixture(scope="module")
def quick() -> TrialResult:
    [trial] = trials(QUICK)
    return run_trial(trial)


def test_the_paper_preset_has_the_reported_sizes_and_epochs():
    made = trials(EXPERIMENT.presets["paper"])
    assert len(made) == 15
    for trial in made:
        sizes = {p.metric: p.value for p in reported("emergence.table6", row=f"Experiment {trial.experiment}")}
        task = trial.task
        assert (task.d, task.k, 2**task.k, task.sigma_r) == (
            sizes["d"],
            sizes["k"],
            sizes["clusters"],
            sizes["sigma_r"],
        )
        assert (trial.middle, trial.last) == {1: (50, 80), 2: (30, 50), 3: (50, 80)}[trial.experiment]
        assert trial.m == 800


def test_training_brings_neurons_to_every_centre(quick):
    """Experiment 2 with a quarter of the neurons and 40 % of the epochs, one seed that no preset reports."""
    row = vars(quick.rows[0])
    assert row["cover_init"] < 0.7
    assert row["cover_end"] > 0.9
    assert row["cover_init"] < row["cover_middle"] <= row["cover_end"] + 0.05
    assert row["cover_end"] <= row["cover_median_end"] <= 1
    assert row["covered_end"] == 100
    assert row["test_acc"] > 97
    assert 0 <= row["train_acc"] - row["test_acc"] < 3


def test_without_training_nothing_is_covered():
    """The rival: the same trial with a vanishing step size ends where it began, at chance."""
    [trial] = trials(replace(QUICK, rate=1e-9))
    row = vars(run_trial(trial).rows[0])
    assert row["cover_end"] == pytest.approx(row["cover_init"], abs=1e-6)
    assert row["test_acc"] == pytest.approx(50, abs=10)  # 1000 samples: 6 standard errors
    assert row["covered_end"] < 100


def test_start_has_the_stated_scales(monkeypatch):
    seen = {}

    def spy(net, *args, **kwargs):
        seen["net"] = net
        raise InterruptedError

    monkeypatch.setattr(figure16, "fit", spy)
    [trial] = trials(replace(QUICK, m=4000, scale_w=0.2, scale_a=3.0))
    with pytest.raises(InterruptedError):
        run_trial(trial)
    net = seen["net"]
    # 4000 neurons: norms average over 1e5 entries (0.2 % error), second-layer square sum over 4000 (2 %)
    assert float(net.w.square().sum(-1).mean()) == pytest.approx(0.04, rel=0.02)
    assert float(net.a.square().sum()) == pytest.approx(9, rel=0.1)
    assert net.activation == "relu"
    assert not net.b.any()


def test_sizes_are_measured_and_a_wrong_one_deviates(quick):
    rows = {(r.row, r.metric): r for r in figure16.summarise(as_table([quick]))}
    assert {rows[("Experiment 2", m)].verdict for m in ("d", "k", "clusters", "sigma_r")} == {"reproduced"}
    assert rows[("Network", "cover_end")].entry == "emergence.figure16"
    wrong = TrialResult([replace(r, sigma_r=0.75) if isinstance(r, Sizes) else r for r in quick.rows])
    rows = {(r.row, r.metric): r for r in figure16.summarise(as_table([wrong]))}
    assert rows[("Experiment 2", "sigma_r")].verdict == "deviates"


def test_same_trial_same_rows(quick):
    torch.manual_seed(5)
    [trial] = trials(QUICK)
    again = run_trial(trial)
    assert again.rows == quick.rows
    for name, array in quick.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)


def test_picture_shows_neurons_and_both_kinds_of_centres(quick):
    picture = figure16.draw(as_table([quick]))["emergence.figure16"]
    assert [a.get_title("left") for a in picture.figure.axes] == [f"Experiment 2, epoch {e}" for e in (0, 12, 20)]
    end = [r for r in picture.data if r["epoch"] == 20]
    assert sum(r["what"] == "neuron" for r in end) == 200
    assert sum(r["what"] == "centre, label +1" for r in end) == 8
    assert sum(r["what"] == "centre, label -1" for r in end) == 8
    assert figure16.draw(as_table([TrialResult(quick.rows)])) == {}


def test_one_centre_without_a_neuron_is_seen(monkeypatch):
    """Neurons on 15 of 16 centres: the one left out has cosine (k - 2) / k = 1/2 with its neighbours."""
    [trial] = trials(QUICK)
    centres = trial.task.draw(Key("emergence/figure16") / 2 / 7 / "truth").centres

    def planted(net, x, y, stages, key, *, loss, probes, probe_at):
        net = TwoLayer(centres[None, :-1], torch.zeros(1, 15), torch.ones(1, 15), "relu")
        trace = torch.stack([probes["cover"](net, slice(0, 1)) for _ in probe_at])
        return Run(net, tuple(probe_at), {"cover": trace})

    monkeypatch.setattr(figure16, "fit", planted)
    result = run_trial(trial)
    row = vars(result.rows[0])
    assert row["cover_end"] == pytest.approx(0.5, abs=1e-5)
    assert row["cover_median_end"] == pytest.approx(1, abs=1e-5)
    assert row["covered_end"] == 100 * 15 / 16
    at = result.arrays["end/at"]
    assert at.shape == (15 + 16, 2)
    assert np.linalg.norm(at[:15] - at[15:30], axis=1).max() < 0.02  # neurons first, then centres, in one order


@pytest.mark.parametrize(
    "field, value",
    [
        ("experiments", ()),
        ("experiments", (4,)),
        ("experiments", (1, 1)),
        ("rate", 0.0),
        ("scale_w", -1.0),
        ("scale_a", 0.0),
        ("epochs", 0.0),
        ("batch", 5000),
        ("m", 0),
        ("seeds", ()),
        ("seeds", (1, 1)),
    ],
)
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(SettingError) as error:
        Config(**{field: value})
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(("n = ",) if field == "batch" else f"{field} = ")
