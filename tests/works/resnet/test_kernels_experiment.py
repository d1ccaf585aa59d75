"""Hard instances: rows of the experiment against enumeration, the points that all share, and what is refused."""

import dataclasses

import pytest
import torch

from featlearn.core import SettingError
from featlearn.kernels import cube, fourier_coefficients, span_residuals
from featlearn.lab.experiment import Rows
from featlearn.lab.row import check
from featlearn.works.resnet.experiments import kernels
from featlearn.works.resnet.experiments.kernels import EXPERIMENT, Config, KernelTrial, NetworkTrial
from featlearn.works.resnet.rows import Learned

SMOKE = EXPERIMENT.presets["smoke"]


@pytest.mark.parametrize("name", kernels.NAMES)
def test_a_row_is_what_enumeration_gives(name):
    trial = KernelTrial(name, d=10, k=4, n=60, alpha=0.5, drawn=40, seed=7)
    row = EXPERIMENT.run_trial(trial).rows[0]
    centres, points, sets = (
        kernels.signs(kernels.samples(trial, 60, "points")).double(),
        cube(10),
        kernels.target_sets(trial),
    )
    if name == "degrees 1 and k":
        sizes = torch.tensor([t.bit_count() for t in range(2**10)])
        level = kernels.spectrum_of(name, 10, 4)[sizes]
        columns = level[:, None] * fourier_coefficients(torch.eye(2**10).double())[:, _index(centres)] * 2**10
    else:
        columns = fourier_coefficients(kernels.OF_PRODUCTS[name](points / 10**0.5, centres / 10**0.5))
    risks = span_residuals(columns, sets, alpha=0.5, cutoff=1e-12)
    assert row.least == pytest.approx(float(risks.min()), abs=1e-4)
    assert row.good == int((risks.amin(1) <= 0.5**2 / 16).sum())
    assert sets.shape == (40, 4)
    assert all(len(set(s)) == 4 for s in sets.tolist())


def _index(centres):
    return ((1 - centres) / 2 @ 2.0 ** torch.arange(10, dtype=torch.float64)).long()


def test_with_all_points_as_centres_every_set_is_good(monkeypatch):
    everything = cube(6).float()
    monkeypatch.setattr(kernels, "signs", lambda batch: everything)
    row = EXPERIMENT.run_trial(KernelTrial("RBF", d=6, k=3, n=64, alpha=0.5, drawn=20, seed=0)).rows[0]
    assert row.good == 20
    assert row.least < 1e-6


def test_a_network_has_the_points_of_the_kernels_of_its_instance():
    found = {}
    for trial in EXPERIMENT.trials(SMOKE):
        found.setdefault(trial.seed, []).append(kernels.samples(trial, trial.n, "points").x)
    for seed, inputs in found.items():
        assert len(inputs) == len(SMOKE.kernels) + 1
        assert all(torch.equal(x, inputs[0]) for x in inputs)
        assert not torch.equal(inputs[0], found[1 - seed][0])


def test_smoke_rows_are_rows_and_have_a_summary():
    trials = EXPERIMENT.trials(SMOKE)
    rows = [row for trial in trials for row in EXPERIMENT.run_trial(trial).rows]
    for row in rows:
        check(row)
    table = Rows(tuple(dataclasses.asdict(r) for r in rows))
    summary = {(s.row, s.metric): s.value for s in EXPERIMENT.summarise(table)}
    assert summary["RBF", "good of 100 target sets"] == 0
    assert summary["residual network", "good of 2 target sets"] == 0
    assert EXPERIMENT.draw(table)["resnet.theorem2"].caption
    network = next(t for t in trials if isinstance(t, NetworkTrial))
    assert EXPERIMENT.run_trial(network).rows == EXPERIMENT.run_trial(network).rows


def test_good_is_a_risk_within_the_threshold_and_divergence_is_none():
    row = Learned(d=4, k=2, n=50, m=20, alpha=0.4, seed=0, risk=0.01, start=1.0)
    assert row.good  # alpha^2/16 = 0.01
    assert not dataclasses.replace(row, risk=0.0101).good
    assert not dataclasses.replace(row, risk=None).good
    wild = NetworkTrial(d=16, k=4, n=50, alpha=0.5, m=20, rate=1e4, decay=0.0, epochs=60, seed=0, device="cpu")
    assert EXPERIMENT.run_trial(wild).rows[0].risk is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"k": 1}, "k = 1"),
        ({"k": 41}, "k = 41"),
        ({"alpha": 1.0}, "alpha = 1.0"),
        ({"n": 49}, "n = 49"),
        ({"decay": -0.1}, "decay"),
        ({"rate": 0.0}, "rate"),
        ({"kernels": ()}, "kernels"),
        ({"seeds": ()}, "seed"),
    ],
)
def test_settings_that_cannot_be_are_refused(change, says):
    with pytest.raises(SettingError, match=says):
        Config(**change)
