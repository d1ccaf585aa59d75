"""Starts and training of the gradient-feature framework, against literal transcriptions."""

import itertools

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.learn.framework import WithLinear, forgetful_step, joint, multi_index, one_step, residual
from featlearn.nets import TwoLayer, sign_init, symmetric_init
from featlearn.tasks import GaussianMixture, MultiIndex

KEY = Key("tests/framework")


def data(n=200, d=6):
    task = GaussianMixture.xor(d=d)
    batch = task.sample(task.draw(KEY), n, KEY / "data")
    return batch.x.double(), batch.y.double()


def double(net):
    return TwoLayer(net.w.double(), net.b.double(), net.a.double(), net.activation)


def test_symmetric_start():
    m = 5
    net = symmetric_init(m, 6, KEY, sigma_w=0.5, sigma_a=2.0, bias=0.7)
    w, b, a = net.w[0], -net.b[0], net.a[0]
    assert w.shape == (20, 6)
    assert torch.equal(w[m : 2 * m], -w[:m])
    assert torch.equal(w[2 * m :], w[: 2 * m])
    assert torch.equal(b[:m], torch.full((m,), 0.7))
    assert torch.equal(b[m : 2 * m], -b[:m])
    assert torch.equal(a[m : 2 * m], -a[:m])
    assert torch.equal(a[2 * m :], -a[: 2 * m])
    assert net(torch.randn(50, 6, generator=KEY.torch())).abs().max() < 1e-6
    wide = symmetric_init(4000, 6, KEY, sigma_w=0.5, sigma_a=2.0, bias=0.7)
    assert float(wide.w.std()) == pytest.approx(0.5, rel=0.02)
    assert float(wide.a.std()) == pytest.approx(2.0, rel=0.06)


def test_sign_start():
    net = sign_init(500, 4, 3, KEY)
    assert set(net.w.unique().tolist()) == {-1.0, 1.0}
    grid = [-2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3]
    torch.testing.assert_close(net.b.unique(), torch.tensor(grid), atol=1e-6, rtol=0)
    assert net(torch.randn(9, 4, generator=KEY.torch())).abs().max() < 1e-4


def literal_step(w, b, a, x, y, eta, lam, loss):
    w, a = w.clone().requires_grad_(), a.clone().requires_grad_()
    score = torch.relu(x @ w.T - b) @ a
    per = torch.relu(1 - y * score) if loss == "hinge" else torch.nn.functional.softplus(-y * score)
    value = per.mean() + lam / 2 * (w.square().sum() + a.square().sum())
    dw, da = torch.autograd.grad(value, (w, a))
    return (w - eta * dw).detach(), (a - eta * da).detach()


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_first_step_forgets_and_joint_steps_follow_the_listing(loss):
    x, y = data()
    net = double(symmetric_init(4, 6, KEY, sigma_w=0.3, sigma_a=1.0, bias=0.4))
    got = joint(net, (x, y), (x, y), eta_1=0.3, eta=0.05, steps=3, batch=200, key=KEY, loss=loss, penalty=0.2).net
    w, b, a = net.w[0], -net.b[0], net.a[0]
    w, a = literal_step(w, b, a, x, y, 0.3, 1 / 0.3, loss)
    first = forgetful_step(net, x, y, 0.3, loss=loss)
    torch.testing.assert_close(first.w[0], w, atol=1e-12, rtol=0)
    torch.testing.assert_close(first.a[0], a, atol=1e-12, rtol=0)
    for _ in range(3):
        w, a = literal_step(w, b, a, x, y, 0.05, 0.2, loss)
    torch.testing.assert_close(got.w[0], w, atol=1e-12, rtol=0)
    torch.testing.assert_close(got.a[0], a, atol=1e-12, rtol=0)
    assert torch.equal(got.b, net.b)


def test_one_step_freezes_the_first_layer_and_never_rises():
    x, y = data(300)
    net = double(symmetric_init(10, 6, KEY, sigma_w=0.3, sigma_a=1.0, bias=0.2))
    values = []

    def loss_of(nets, members):
        score = nets(x).T
        values.append(float(torch.nn.functional.softplus(-y * score).mean()))
        return score.new_zeros(len(nets))

    run = one_step(net, x, y, eta_1=1.0, steps=60, loss="logistic", probes={"loss": loss_of}, probe_at=range(61))
    assert torch.equal(run.net.w, forgetful_step(net, x, y, 1.0, loss="logistic").w)
    assert len(values) == 61
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(values))
    assert values[-1] < values[0] - 0.01


def test_residual_has_almost_no_linear_part():
    task = MultiIndex(d=5, terms=((1,), (0,), (2,)), coefficients=(1.0, 1.0, 1.0))
    batch = task.sample(task.draw(KEY), 50_000, KEY)
    x, y = batch.x.double(), batch.y.double()
    left, rho, beta = residual(x, y)
    torch.testing.assert_close(left, y - rho - x @ beta)
    assert abs(rho - 3**-0.5) < 0.03
    assert abs(float(beta.norm()) - 3**-0.5) < 0.03
    assert abs(float(left.mean())) < 0.03
    assert (left[:, None] * x).mean(0).norm() < 0.05


def test_multi_index_predictor_adds_the_linear_part_back():
    task = MultiIndex(d=8, terms=((2, 0), (0, 1)), coefficients=(1.0, 1.0))
    truth = task.draw(KEY)
    batch, test = task.sample(truth, 4000, KEY / "train"), task.sample(truth, 2000, KEY / "test")
    net = symmetric_init(40, 8, KEY, sigma_w=8**-0.5, sigma_a=0.1, bias=1e-6)
    found, run = multi_index(net, batch.x, batch.y, eta_1=30.0, steps=400, key=KEY)
    assert isinstance(found, WithLinear)
    error = float((found(test.x)[:, 0] - test.y).square().mean())
    bare = float((run.net(test.x)[:, 0] - test.y).square().mean())
    assert error < 0.2
    assert bare > error + 0.3


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda: symmetric_init(3, 2, KEY, sigma_w=1.0, sigma_a=1.0, bias=0.0), "bias = 0.0"),
        (lambda: symmetric_init(0, 2, KEY, sigma_w=1.0, sigma_a=1.0, bias=1.0), "m = 0"),
        (lambda: sign_init(3, 2, 1, KEY), "k = 1"),
        (lambda: sign_init(0, 2, 2, KEY), "m = 0"),
        (lambda: forgetful_step(sign_init(2, 3, 2, KEY), torch.ones(1, 3), torch.ones(1), 0.0), "eta_1 = 0.0"),
    ],
)
def test_wrong_settings_are_refused(call, said):
    with pytest.raises(SettingError, match=said):
        call()
