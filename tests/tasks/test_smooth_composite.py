"""Smooth composed targets against their formula, written out sample by sample."""

import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.tasks import SmoothComposite


def test_targets_are_the_formula_and_signals_have_norm_one():
    task = SmoothComposite(d=5, k=4, alpha=0.4)
    truth = task.draw(Key("truth"))
    batch = task.sample(truth, 7, Key("samples"))
    for x, y, f in zip(batch.x.double(), batch.y.double(), batch.hidden.double(), strict=True):
        assert float(x.norm()) == pytest.approx(1, abs=1e-6)
        assert float(f.norm()) == pytest.approx(1, abs=1e-6)
        want = []
        for j in range(2):
            angle = task.wave / math.sqrt(2) * float(truth.features[j].double() @ x)
            want += [math.sqrt(2 / 4) * math.sin(angle), math.sqrt(2 / 4) * math.cos(angle)]
        assert f.tolist() == pytest.approx(want, abs=1e-5)
        for r in range(4):
            g = sum(float(truth.a[r, i]) * float(truth.v[r, i].double() @ f) ** task.power for i in range(task.p_G))
            assert float(y[r]) == pytest.approx(want[r] + 0.4 * g, abs=1e-5)


def test_directions_vectors_and_weights_are_within_the_concept():
    truth = SmoothComposite().draw(Key("truth"))
    assert torch.allclose(truth.features.norm(dim=1), torch.ones(len(truth.features)))
    assert torch.allclose(truth.v.norm(dim=-1), torch.full(truth.v.shape[:-1], 0.5**0.5))
    assert float(truth.a.abs().max()) <= 1
    assert float(truth.a.abs().max()) > 0.5


@pytest.mark.parametrize(("settings", "field"), [({"k": 3}, "k"), ({"alpha": -0.1}, "alpha"), ({"wave": 0.0}, "wave")])
def test_what_does_not_fit_is_named(settings, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        SmoothComposite(**settings)
