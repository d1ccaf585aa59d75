"""Special cases: smoke preset, closed-form descent, what evaluations and cones count, settings that are refused."""

import numpy as np
import pytest
import torch

from featlearn import works
from featlearn.core import Key, SettingError
from featlearn.lab.execute import run
from featlearn.lab.store import Store
from featlearn.learn import Stage, fit
from featlearn.nets import TwoLayer
from featlearn.works.gradient_features.experiments import special, special_cases
from featlearn.works.gradient_features.rows import CASES, LINEAR, MULTI, NETWORK, PARITY, SKEWED, UNIFORM


def test_smoke(tmp_path):
    experiment = works.load_experiment("gradient_features/special_cases")
    assert {"smoke", "small", "paper"} <= set(experiment.presets)
    report = run(experiment, experiment.presets["smoke"], store=Store(tmp_path), preset="smoke")
    assert report.failed == 0, report.errors
    assert {r["case"] for r in report.table.rows if r["row"] == NETWORK} == set(CASES)
    assert report.summary
    assert all(np.isfinite(r.value) for r in report.summary)
    assert len(experiment.draw(report.table)) == 2
    for preset in experiment.presets.values():
        assert all(experiment.cost(c).seconds > 0 for c in experiment.trials(preset))


def test_descent_in_closed_form_is_descent():
    """37 steps of the engine at 1 / L; a singular Gram matrix keeps what it does not see."""
    gen = torch.Generator().manual_seed(1)
    x = torch.randn(20, 6, generator=gen, dtype=torch.float64)
    w = torch.randn(1, 8, 6, generator=gen, dtype=torch.float64)
    w[0, 7] = w[0, 6]  # two equal neurons: one direction is not seen
    net = TwoLayer(
        w, torch.zeros(1, 8, dtype=torch.float64), torch.randn(1, 8, generator=gen, dtype=torch.float64), "relu"
    )
    y = torch.randn(20, generator=gen, dtype=torch.float64)
    f = torch.relu(x @ w[0].T)
    gram, right = f.T @ f / 20, f.T @ y / 20
    rate = 1 / float(torch.linalg.eigvalsh(gram)[-1])
    slow = fit(net, x, y, [Stage(37, 0.0, 0.0, rate)], Key("t"), loss="squared").net.a[0]
    torch.testing.assert_close(special.descent(gram, right, net.a[0], 37), slow, atol=1e-9, rtol=0)
    assert (special.descent(gram, right, net.a[0], 36) - slow).abs().max() > 1e-5


def trial(case, **changes):
    plans = {p.case: p for p in special_cases._plans(special_cases.EXPERIMENT.presets["smoke"])}
    return special.replace(plans[case], **changes)


def test_looks_count_features_groups_and_neurons():
    """A network with one neuron along each of two features: found, used, learned and margins are known."""
    case = trial(SKEWED, d=20)
    task = special.task_of(case)
    truth = task.draw(Key("t"))
    D = torch.nn.functional.normalize(truth.features.float(), dim=1)
    signs = truth.labels.float()[:2]
    net = TwoLayer(D[None, :2], torch.zeros(1, 2), 2 * signs[None] / 20**0.5, "relu")
    batch = task.sample(truth, 4000, Key("u"))
    found = dict(zip(special.EVALUATED, special.evaluate(net, net, truth, batch).tolist(), strict=False))
    assert (found["found_90"], found["found_95"]) == (2, 2)
    assert found["used"] == pytest.approx(2.0, abs=1e-4)
    assert found["moved"] == 0.0
    margins = special.evaluate(net, net, truth, batch)[7:]
    scale = 2 * float((truth.means[:2].norm(dim=1) / 20**0.5).mean())
    torch.testing.assert_close(margins[:2].float(), torch.full((2,), scale), atol=0.25, rtol=0)
    assert margins[2:].max() < 0.5
    assert found["learned"] == 2


@pytest.mark.parametrize("case", [LINEAR, SKEWED, PARITY, UNIFORM, MULTI])
def test_the_rival_direction_is_near_but_not_the_feature(case):
    this = trial(case)
    truth = special.task_of(this).draw(Key("t"))
    D, rival = torch.nn.functional.normalize(special.directions(this, truth, Key("r")).double(), dim=1)
    cos = float(D @ rival)
    if case in (PARITY, UNIFORM):
        assert int(((D != 0) & (rival == 0)).sum()) == 1  # one wrong coordinate
        assert cos == pytest.approx(1 - 1 / this.k)
    else:
        assert cos == pytest.approx(np.cos(np.deg2rad(20)), abs=1e-4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cases", ("cubic",)),
        ("k", (4,)),
        ("k", (51,)),
        ("uniform_d", (50,)),
        ("clusters", (5,)),
        ("xor_d", ()),
        ("parity_steps", (10,)),
        ("width_xor", float("nan")),
        ("first", 0),
        ("seeds", (0, 1000)),
        ("validation_seeds", ()),
    ],
)
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(SettingError) as error:
        special_cases.Config(**{field: value})
    assert error.value.field == field
    assert "\n" not in str(error.value)
