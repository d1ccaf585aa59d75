"""Experiments on k-th power networks: smoke presets, what is measured on networks known in closed form."""

import pytest
import torch

from featlearn import works
from featlearn.core import Key, SettingError
from featlearn.lab.execute import run
from featlearn.lab.store import Store
from featlearn.nets import PowerNetwork, power_init
from featlearn.works.fourier.experiments import circuits, margin, trained
from featlearn.works.fourier.setup import constructed, cosines

OVER = "loss over the least"


def _best(k: int, p: int) -> PowerNetwork:
    net = constructed(k, p)
    return net if isinstance(net, PowerNetwork) else PowerNetwork(*net)


@pytest.mark.parametrize("name", ["fourier/circuits", "fourier/margin"])
def test_smoke(name, tmp_path):
    experiment = works.load_experiment(name)
    config = experiment.presets["smoke"]
    report = run(experiment, config, store=Store(tmp_path), preset="smoke")
    assert report.failed == 0, report.errors
    metrics = {*circuits.METRICS, circuits.STOPPED} if name == "fourier/circuits" else {*margin.METRICS, OVER}
    assert {r.metric for r in report.summary} <= metrics
    assert all(r.high <= max(1, r.value) for r in report.summary if r.metric == "margin")  # no network exceeds gamma*
    pictures = experiment.draw(report.table)
    assert pictures
    assert all(picture.data for picture in pictures.values())
    last = report.table.of(experiment.rows[0]).rows
    assert len(last) == len(experiment.trials(config))
    assert all(r.margin <= 1 + 1e-6 for r in last)
    for preset in experiment.presets.values():
        assert all(experiment.cost(c).seconds > 0 for c in experiment.trials(preset))


def test_a_network_known_to_be_best_is_seen_as_best():
    net = _best(3, 7)
    found = trained.judged(net, torch.arange(343))
    assert found["margin"] == pytest.approx(1, abs=1e-9)
    assert found["mean_margin"] == pytest.approx(1, abs=1e-9)
    assert found["acc"] == 100.0
    seen = trained.structure(net)
    for name in ("live", "held", "same", "covered"):
        assert seen[name] == pytest.approx(100)
    for name in ("share", "share_low", "share_vectors", "cosine_low", "most_over_least"):
        assert seen[name] == pytest.approx(1, abs=1e-9)
    assert seen["phase"] == pytest.approx(0, abs=1e-9)


def test_a_random_network_is_not():
    net = power_init(96, 3, 7, Key("random"))
    seen = trained.structure(net)
    assert trained.judged(net, torch.arange(343))["margin"] < 0
    assert seen["share"] < 0.8
    assert seen["same"] < 50
    assert seen["phase"] > 0.5


def test_parts_of_the_points_are_joined(monkeypatch):
    net = power_init(24, 2, 7, Key("random"))
    whole = trained.judged(net, torch.arange(49))
    monkeypatch.setattr(trained, "PART", 10)
    parts = trained.judged(net, torch.arange(49))
    assert parts == pytest.approx(whole, rel=1e-6)


def test_a_frequency_without_neurons_has_no_ratio():
    net = _best(2, 7)
    one = PowerNetwork(net.u[:8], net.w[:8])
    seen = trained.structure(one)
    assert seen["most_over_least"] is None
    assert seen["covered"] == pytest.approx(100 / 3)


def test_networks_have_shares_and_numbers_of_seeds_of_their_own():
    config = circuits.Config(k=(2, 2), p=(5, 7), steps=(9, 9), batch=(3, 3), train=(0.5, 1.0), runs=(1, 2))
    assert [(t.p, t.train, t.seed) for t in circuits.trials(config)] == [(5, 0.5, 0), (7, 1.0, 0), (7, 1.0, 1)]


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: circuits.Config(k=(3,), p=(97, 5)), "p"),
        (lambda: circuits.Config(k=(), p=()), "k"),
        (lambda: circuits.Config(k=(1,), p=(5,), steps=(9,), batch=(3,)), "k, p"),
        (lambda: circuits.Config(k=(2,), p=(2,), steps=(9,), batch=(3,)), "k, p"),
        (lambda: circuits.Config(k=(2,), p=(8,), steps=(9,), batch=(3,)), "k, p"),
        (lambda: circuits.Config(train=(0.0,)), "train"),
        (lambda: circuits.Config(train=(1e-4,), k=(2,), p=(5,), steps=(9,), batch=(3,)), "train"),
        (lambda: circuits.Config(train=(0.999,), k=(2,), p=(5,), steps=(9,), batch=(3,)), "train"),
        (lambda: circuits.Config(train=(0.5, 0.5)), "train"),
        (lambda: circuits.Config(runs=(1, 4, 1)), "runs"),
        (lambda: circuits.Config(runs=(1, 1)), "runs"),
        (lambda: circuits.Config(neurons=-1), "neurons"),
        (lambda: circuits.Config(steps=(0, 1, 1)), "steps"),
        (lambda: circuits.Config(batch=(0, 1, 1)), "batch"),
        (lambda: circuits.Config(penalty=-1.0), "penalty"),
        (lambda: circuits.Config(seeds=(1, 1)), "seeds"),
        (lambda: margin.Config(penalty=(0.1, 0.01)), "penalty"),
        (lambda: margin.Config(steps=(5,)), "steps"),
        (lambda: margin.Config(width=(0, 1, 1, 1, 1)), "width"),
        (lambda: circuits.Config(device="cuda:99x"), "device"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_a_cosine_by_hand():
    """cos(pi/6 + 4 pi a/3), a = 0, 1, 2: sqrt(3)/2, 0, -sqrt(3)/2."""
    phase = torch.full((1,), torch.pi / 6, dtype=torch.float64)
    found = cosines(phase, torch.tensor([2]), 3)[0].tolist()
    assert found == pytest.approx([3**0.5 / 2, 0, -(3**0.5) / 2], abs=1e-12)
