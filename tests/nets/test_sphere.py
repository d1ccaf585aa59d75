"""Sphere starts and mean-field scaling: the engine's step is the reported one, by autograd of the reported form."""

import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.nets import TwoLayer, gradients, mean_field_rates, neuron_weights, sphere_init
from featlearn.tasks import BooleanXor

KEY = Key("tests/sphere")


def test_start_lies_on_the_sphere_with_balanced_layers():
    net = sphere_init(400, 30, KEY, theta=0.2)
    torch.testing.assert_close(net.w.norm(dim=2), torch.full((1, 400), 0.2))
    torch.testing.assert_close(net.a.abs() * 400, net.w.norm(dim=2))
    assert not net.b.any()
    assert net.activation == "relu"
    assert abs(float((net.a > 0).float().mean()) - 0.5) < 0.1  # 4 standard errors
    # directions are uniform: 12000 coordinates of variance theta^2 / d, relative error of a variance 1.3 %
    assert float(net.w.square().mean()) == pytest.approx(0.04 / 30, rel=1e-5)
    assert net.w.mean(1).abs().max() < 5 * 0.2 / math.sqrt(30 * 400)
    plain = sphere_init(400, 30, KEY, theta=0.2, mean_field=False)
    torch.testing.assert_close(plain.a, neuron_weights(net))


def test_a_step_of_the_engine_is_the_reported_step():
    """l = 2 softplus(-y f), f = (1/p) sum a relu(w.x), gradients times p: by autograd in float64."""
    p, d, eta = 12, 6, 0.3
    task = BooleanXor(d=d)
    batch = task.sample(task.draw(KEY), 20, KEY / "x")
    x, y = batch.x.double(), batch.y.double()
    start = sphere_init(p, d, KEY / "start", theta=0.7)
    net = TwoLayer(start.w.double(), start.b.double(), start.a.double(), "relu")
    w = net.w[0].clone().requires_grad_()
    a = neuron_weights(net)[0].clone().requires_grad_()
    f = torch.relu(x @ w.T) @ a / p
    loss = -2 * torch.log(1 / (1 + torch.exp(-y * f)))
    dw, da = torch.autograd.grad(loss.mean(), [w, a])
    reported_w, reported_a = w - eta * p * dw, a - eta * p * da
    g = gradients(net, x, y, loss="logistic")
    rate_w, rate_a = mean_field_rates(eta, p)
    torch.testing.assert_close(net.w[0] - rate_w * g.w[0], reported_w, atol=1e-13, rtol=0)
    torch.testing.assert_close(neuron_weights(net)[0] - p * rate_a * g.a[0], reported_a, atol=1e-13, rtol=0)
    assert (reported_w - w).norm() > 0.1


def test_rates_of_an_ensemble():
    rate_w, rate_a = mean_field_rates(torch.tensor([0.1, 0.2]), 50)
    torch.testing.assert_close(rate_w, torch.tensor([10.0, 20.0]))
    torch.testing.assert_close(rate_a, torch.tensor([0.004, 0.008]))


@pytest.mark.parametrize("field, value", [("p", 0), ("d", 0), ("theta", 0.0), ("theta", math.inf)])
def test_wrong_settings_are_refused(field, value):
    with pytest.raises(SettingError, match=f"^{field} = "):
        sphere_init(**{"p": 3, "d": 3, "key": KEY, "theta": 0.1, field: value})
