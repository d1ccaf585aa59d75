"""Networks against kernels: smoke preset, nested sizes, ensembles, choice of settings, settings that are refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from featlearn import works
from featlearn.core import Key, SettingError
from featlearn.kernels import kernel_ridge, ntk, random_features, rbf
from featlearn.kernels.ridge import feature_ridge
from featlearn.lab.execute import run
from featlearn.lab.store import Store
from featlearn.learn import Stage, fit
from featlearn.works.gradient_features.experiments import kernels, learners
from featlearn.works.gradient_features.rows_kernels import FEW, LEARNERS, MANY, NETWORK, NTK, RBF, XOR, Fit

SMOKE = kernels.EXPERIMENT.presets["smoke"]


def trial_of(learner, **other):
    found = next(c for c in kernels.trials(SMOKE) if c.learner == learner and c.kind == XOR and c.d == 16)
    return replace(found, **other)


def test_smoke(tmp_path):
    experiment = works.load_experiment("gradient_features/kernels")
    assert {"smoke", "small", "paper"} <= set(experiment.presets)
    report = run(experiment, SMOKE, store=Store(tmp_path), preset="smoke")
    assert report.failed == 0, report.errors
    assert {r["row"] for r in report.table.rows} == set(LEARNERS)
    assert report.summary
    assert all(np.isfinite(r.value) for r in report.summary)
    assert len(experiment.draw(report.table)) == 2
    for preset in experiment.presets.values():
        assert all(experiment.cost(c).seconds > 0 for c in experiment.trials(preset))


def test_every_learner_sees_the_same_samples():
    for a, b in ((NETWORK, NTK), (NTK, FEW)):
        for one, other in zip(learners.data(trial_of(a), 3), learners.data(trial_of(b), 3), strict=True):
            assert torch.equal(one.x, other.x)


@pytest.mark.parametrize("learner", [NTK, RBF])
def test_nested_sizes_of_a_kernel_equal_fits_of_their_own(learner):
    trial = trial_of(learner)
    points = [(4.0, 0.001), (1.0, 0.1)] if learner == RBF else [(0.0, 0.001), (0.0, 0.1)]
    found = learners.kernel_errors(trial, (5,), points)
    train, test = learners.data(trial, 5)
    norm = (16 * (1 + trial.level**2)) ** 0.5
    for s, n in enumerate(trial.sizes):
        for j, (bandwidth, penalty) in enumerate(points):
            kernel = ntk if learner == NTK else lambda x, y, b=bandwidth: rbf(x, y, bandwidth=norm * b**0.5)
            scale = float(kernel(train.x, train.x).diagonal().mean())
            ridge = kernel_ridge(kernel, train.x[:n], train.y[:n], penalty=penalty * scale)
            wrong = 100 * float((ridge(test.x)[:, 0] * test.y <= 0).double().mean())
            assert float(found[s, 0, j]) == pytest.approx(wrong, abs=1e-6)


def test_networks_of_an_ensemble_are_those_trained_alone():
    trial = trial_of(NETWORK)
    points = [(0.03, 0.5), (0.1, 1.0)]
    found = learners.network_errors(trial, (1, 2), points)
    train, test = learners.data(trial, 2)
    for s, n in enumerate(trial.sizes):
        start = learners.start_of(trial, 2, train.x[:n], train.y[:n])
        for j, (eta, share) in enumerate(points):
            stage = Stage(round(share * trial.steps), eta, 0.0, eta, batch=min(n, 32))
            key = Key("gradient_features/kernels/batches") / n
            net = fit(start, train.x[:n], train.y[:n], [stage], key).net
            wrong = 100 * float((net(test.x)[:, 0] * test.y <= 0).double().mean())
            assert float(found[s, 1, j]) == pytest.approx(wrong, abs=0.6)  # one sample in 200 may be at the boundary


def test_features_in_the_box_have_the_norm_of_the_proposition():
    trial = trial_of(FEW)
    error, hinge, B = learners.feature_fits(trial, (0,), [(0.0, 0.1), (0.0, 0.001)])
    assert error.shape == hinge.shape == B.shape == (2, 1, 2)
    assert bool((B[:, :, 1] > B[:, :, 0]).all())  # less penalty, longer coefficients
    assert bool((hinge >= error / 100).all())  # the hinge loss is at least the share of errors


def test_more_features_than_samples_give_the_same_ridge():
    """Through one Gram matrix, against a fit of the coefficients for each size."""
    trial = next(c for c in kernels.trials(SMOKE) if c.learner == MANY and c.kind == XOR)
    assert trial.width > max(trial.sizes)
    error, hinge, B = learners.feature_fits(trial, (4,), [(0.0, 0.1), (0.0, 0.001)])
    train, test = learners.data(trial, 4)
    norm = (trial.d * (1 + trial.level**2)) ** 0.5
    key = Key("gradient_features/kernels/features") / trial.d / trial.width / 4
    draw = random_features(trial.d, trial.width, key, weight_var=norm**-2)

    def features(x):
        f = draw(x.double())
        return torch.cat([f, torch.full_like(f[:, :1], trial.width**-0.5)], 1)

    for s, n in enumerate(trial.sizes):
        phi = features(train.x[:n])
        for j, penalty in enumerate((0.1, 0.001)):
            ridge = feature_ridge(features, train.x[:n], train.y[:n], penalty=penalty * float((phi**2).sum(1).mean()))
            margin = ridge(test.x)[:, 0] * test.y
            assert float(error[s, 0, j]) == pytest.approx(100 * float((margin <= 0).double().mean()), abs=0.6)
            assert float(hinge[s, 0, j]) == pytest.approx(float((1 - margin).clamp_min(0).mean()), rel=1e-6)
            assert float(B[s, 0, j]) == pytest.approx(float(ridge.coefficients.norm() * phi.abs().max()), rel=1e-6)


def test_settings_are_chosen_on_validation_alone(monkeypatch):
    """Reported seeds would prefer the other point."""
    trial = trial_of(NTK)
    asked = []

    def errors_of(trial, seeds, points):
        asked.append((tuple(seeds), tuple(points)))
        low_first = seeds == trial.validation_seeds
        values = [[10.0, 20.0] if low_first else [40.0, 1.0]] * len(seeds)
        return torch.tensor([values] * len(trial.sizes))[:, :, [trial.second.index(p) for _, p in points]], {}

    monkeypatch.setattr(kernels, "errors_of", errors_of)
    rows = kernels.run_trial(trial).rows
    assert {r.error for r in rows if isinstance(r, Fit)} == {40.0}
    assert asked[1] == (trial.seeds, ((0.0, trial.second[0]),))
    assert {r.second for r in rows if isinstance(r, Fit)} == {trial.second[0]}


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: kernels.Config(d=()), "d"),
        (lambda: kernels.Config(d=(3,)), "d"),
        (lambda: kernels.Config(k=(4,)), "k"),
        (lambda: kernels.Config(uniform_k=(51,)), "r * k"),
        (lambda: kernels.Config(snr=(4.0, 3.0)), "snr"),
        (lambda: kernels.Config(C=0.0), "C"),
        (lambda: kernels.Config(seeds=(1000,)), "seeds"),
        (lambda: kernels.Config(validation_seeds=(3,)), "validation_seeds"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert error.value.field == field
    assert "\n" not in str(error.value)
