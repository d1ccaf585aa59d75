"""Linear models on fixed features, and linearised networks, against autograd loops and Jacobians in float64."""

import pytest
import torch

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn import Linear, Linearised, Stage, fit, fit_linear, fit_linearised
from featlearn.learn.schedules import batches
from featlearn.nets import TwoLayer, forward, mirrored

KEY = Key("linear/batches")
LOSSES = ("hinge", "logistic", "squared")
ACTIVATIONS = ("relu", "clip")
RATES = [0.05, 0.4, 1.0]
TIGHT = {"atol": 1e-11, "rtol": 0.0}  # float64, tens of steps on numbers of size 1; wrong answers are off by > 1e-3
N, D, M = 40, 4, 6


def problem(width=D, n=N):
    g = Key("linear/data").torch()
    x = torch.randn(n, width, generator=g, dtype=torch.float64)
    y = torch.where(x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + 0.4 * x[:, 3] > 0, 1.0, -1.0).double()
    return x, y


def start(activation="clip", e=1) -> TwoLayer:
    g = Key("linear/net").torch()

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return TwoLayer(0.6 * draw(e, M, D), 0.3 + 0.5 * draw(e, M), draw(e, M), activation)


def loss_by_name(score, y, loss):
    if loss == "hinge":
        return (1 - y * score).relu()
    if loss == "logistic":
        return torch.log1p(torch.exp(-y * score))
    return (score - y) ** 2 / 2


def autograd_loop(predict, size: int, x, y, rate: float, steps: int, batch: int | None, loss: str) -> torch.Tensor:
    """Plain gradient descent from zero on a parameter vector, with predict(vector, rows of x) -> scores."""
    theta = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    for rows in batches(len(x), batch, steps, KEY):
        rows = torch.arange(len(x)) if rows is None else rows
        (slope,) = torch.autograd.grad(loss_by_name(predict(theta, x[rows]), y[rows], loss).mean(), theta)
        theta = (theta.detach() - rate * slope).requires_grad_()
    return theta.detach()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("batch", [None, 12])
def test_linear_equals_an_autograd_loop(loss, batch):
    x, y = problem()
    got = fit_linear(x, y, RATES, KEY, steps=15, batch=batch, loss=loss)
    for j, rate in enumerate(RATES):
        theta = autograd_loop(lambda t, rows: rows @ t, D, x, y, rate, 15, batch, loss)
        torch.testing.assert_close(got.weights[j], theta, **TIGHT)
    assert (got.weights[1:] - got.weights[0]).abs().amax(1).min() > 0.02


def test_linear_scores_are_samples_by_models():
    x, _ = problem()
    model = Linear(torch.tensor([[1.0, 0, 0, 0], [0, 0, -2.0, 0]]).double())
    torch.testing.assert_close(model(x), torch.stack([x[:, 0], -2 * x[:, 2]], 1))


@pytest.mark.parametrize("loss", LOSSES)
def test_several_rates_at_once_equal_one_at_a_time(loss):
    x, y = problem()
    together = fit_linear(x, y, RATES, KEY, steps=15, batch=12, loss=loss)
    small = [rate / 20 for rate in RATES]  # there are 36 tangent features: stay where the squared loss contracts
    tangent = fit_linearised(start(), x, y, small, KEY, steps=15, batch=12, loss=loss)
    for j, rate in enumerate(RATES):
        alone = fit_linear(x, y, [rate], KEY, steps=15, batch=12, loss=loss)
        torch.testing.assert_close(together.weights[j : j + 1], alone.weights, **TIGHT)
        alone = fit_linearised(start(), x, y, [small[j]], KEY, steps=15, batch=12, loss=loss)
        torch.testing.assert_close(tangent.v[j : j + 1], alone.v, **TIGHT)
        torch.testing.assert_close(tangent.a[j : j + 1], alone.a, **TIGHT)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_tangent_scores_are_the_jacobian_vector_product_of_the_network(activation):
    net, (x, _) = start(activation), problem()
    g = Key("linear/direction").torch()
    v = torch.randn(3, M, D + 1, generator=g, dtype=torch.float64)
    a = torch.randn(3, M, generator=g, dtype=torch.float64)
    model = Linearised(net, v, a)
    got = model(x)
    assert got.shape == (N, 3)

    def scores(w, b, second):
        z = x @ w.T + b  # written out: forward of the package is itself under test
        return (z.relu() if activation == "relu" else z.clamp(0, 1)) @ second

    for j in range(3):
        at, along = (net.w[0], net.b[0], net.a[0]), (v[j, :, :-1], v[j, :, -1], a[j])
        value, tangent = torch.autograd.functional.jvp(scores, at, along)
        torch.testing.assert_close(value, forward(net, x)[0], **TIGHT)
        torch.testing.assert_close(got[:, j], tangent, **TIGHT)
    torch.testing.assert_close(model(x, block=7), got, **TIGHT)


def explicit_features(net: TwoLayer, x):
    """(n, m (d + 1) + m): the gradient of the score in (w, b) packed by neuron, then in a, by the Jacobian."""

    def score(w, b, a, one):
        z = w @ one + b
        return (z.relu() if net.activation == "relu" else z.clamp(0, 1)) @ a

    jac = torch.func.vmap(torch.func.jacrev(score, argnums=(0, 1, 2)), in_dims=(None, None, None, 0))
    dw, db, da = jac(net.w[0], net.b[0], net.a[0], x)
    return torch.cat([torch.cat([dw, db[..., None]], -1).flatten(1), da], 1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("batch", [None, 12])
def test_linearised_training_equals_sgd_on_explicit_tangent_features(activation, loss, batch):
    net, (x, y) = start(activation), problem()
    features = explicit_features(net, x)
    got = fit_linearised(net, x, y, [0.02, 0.1], KEY, steps=15, batch=batch, loss=loss)
    for j, rate in enumerate([0.02, 0.1]):
        theta = autograd_loop(lambda t, rows: rows @ t, features.shape[1], features, y, rate, 15, batch, loss)
        torch.testing.assert_close(torch.cat([got.v[j].flatten(), got.a[j]]), theta, **TIGHT)
        torch.testing.assert_close(got(x)[:, j], features @ theta, **TIGHT)
        assert theta[: M * (D + 1)].abs().max() > 1e-2


@pytest.mark.parametrize("loss", LOSSES)
def test_half_a_mirrored_network_at_twice_the_rate_predicts_as_the_whole(loss):
    """Both halves have equal or opposite tangent features; once the rate is not doubled, scores differ by > 0.01."""
    half, (x, y) = start(), problem()
    whole = mirrored(half)
    assert forward(whole, x).abs().max() < 1e-12
    fresh, _ = problem(n=2 * N)
    full = fit_linearised(whole, x, y, [0.05, 0.1], KEY, steps=15, batch=12, loss=loss)(fresh)
    twice = fit_linearised(half, x, y, [0.1, 0.2], KEY, steps=15, batch=12, loss=loss)(fresh)
    same = fit_linearised(half, x, y, [0.05, 0.1], KEY, steps=15, batch=12, loss=loss)(fresh)
    torch.testing.assert_close(twice, full, **TIGHT)
    assert (same - full).abs().max() > 0.01


def test_first_step_of_a_mirrored_network_is_the_first_step_of_its_tangent_model():
    """While no neuron crosses a kink the second-order terms of the two halves cancel, so the step is the same exactly.

    A tangent model whose layers had unlike rates, or that left out a bias, would be off by about the step, 1e-3.
    """
    net, (x, y) = mirrored(start("relu")), problem()
    moved = fit(net, x, y, [Stage(1, rate_w=1e-4, rate_b=1e-4, rate_a=1e-4)], KEY).net
    tangent = fit_linearised(net, x, y, [1e-4], KEY, steps=1, batch=None)(x)
    torch.testing.assert_close(moved(x), tangent, atol=1e-12, rtol=0)
    assert tangent.abs().max() > 1e-4


@pytest.mark.parametrize("kind", ["linear", "linearised"])
def test_watch_sees_what_a_shorter_run_ends_with_and_may_keep_it(kind):
    x, y = problem()

    def train(steps, **watch):
        if kind == "linear":
            return fit_linear(x, y, [0.1, 0.3], KEY, steps=steps, batch=12, **watch)
        return fit_linearised(start(), x, y, [0.1, 0.3], KEY, steps=steps, batch=12, **watch)

    kept = {}
    train(9, watch=lambda step, model: kept.setdefault(step, model), watch_at=(0, 4, 9, 50))
    assert sorted(kept) == [0, 4, 9]
    for step, model in kept.items():
        assert torch.equal(model(x), train(step)(x))
    assert kept[0](x).abs().max() == 0
    assert kept[4](x).abs().max() > 0.01


@pytest.mark.parametrize("kind", ["linear", "linearised"])
def test_divergence_names_its_step_and_its_rates(kind):
    """The second of two rates explodes; one step fewer still ends in finite numbers."""
    x, y = (t.float() for t in problem())
    net = TwoLayer(start().w.float(), start().b.float(), start().a.float())

    def train(steps):
        if kind == "linear":
            return fit_linear(x, y, [0.01, 1e4], KEY, steps=steps, batch=None, loss="squared")(x)
        return fit_linearised(net, x, y, [0.01, 1e4], KEY, steps=steps, batch=None, loss="squared")(x)

    with pytest.raises(Diverged) as info:
        train(60)
    step = int(str(info.value).split("after step ")[1].split(";")[0])
    assert str(info.value) == f"weights are not finite after step {step}; lower the step sizes [10000.0]"
    assert 2 < step < 30
    train(step - 1)
    with pytest.raises(Diverged, match=f"after step {step};"):
        train(step)


def test_divergence_of_the_second_layer_is_seen_at_once():
    """Activations of 1e200 at a rate of 1e150; with a = 0 the first layer has no tangent features and stays at zero."""
    base = start("relu")
    net = TwoLayer(base.w, torch.full_like(base.b, 1e200), torch.zeros_like(base.a), "relu")
    x, y = problem()
    with pytest.raises(Diverged, match=r"after step 1; lower the step sizes \[1e\+150\]"):
        fit_linearised(net, x, y, [1e150], KEY, steps=1, batch=None, loss="squared")


@pytest.mark.parametrize("kind", ["linear", "linearised"])
def test_wrong_input_is_refused_in_one_line(kind, as_user):
    x, y = problem()

    def refuse(match, error=SettingError, x=x, y=y, net=None, **settings):
        settings = {"steps": 3, "batch": 12} | settings
        given = (x, y) if kind == "linear" else (start() if net is None else net, x, y)
        with pytest.raises(error, match=match) as info:
            (fit_linear if kind == "linear" else fit_linearised)(*given, [0.1], KEY, **settings)
        assert "\n" not in str(info.value)

    name = "features" if kind == "linear" else "x"
    bad_x, bad_y = x.clone(), y.clone()
    bad_x[3, 1], bad_y[3] = float("nan"), float("inf")
    refuse(rf"^{name} = 1 of 160 values not finite, the first {name}\[3, 1\] = nan", x=bad_x)
    refuse(r"^y = 1 of 40 values not finite, the first y\[3\] = inf", y=bad_y)
    refuse(r"^y = 0 is not allowed: -1 or \+1 for the hinge loss; code the classes", y=(y > 0).to(y))
    refuse(r"batch = 41 is not allowed: at most n = 40; lower batch or raise n", batch=41)
    refuse(r"loss = huber is not allowed: one of hinge, logistic, squared", loss="huber")
    refuse(rf"^y = a tensor of shape \(39,\) is not allowed: \(n\) with n = 40 as in {name}", y=y[:39])
    refuse(r"^y = a tensor of torch.float32 is not allowed: torch.float64 as", y=y.float())
    if kind == "linearised":
        refuse(r"net = 2 networks is not allowed: one network, e = 1", net=start(e=2))


def test_nothing_of_the_callers_changes():
    net, (x, y) = start(), problem()
    before, state = [t.clone() for t in (net.w, net.b, net.a, x, y)], torch.get_rng_state()
    fit_linear(x, y, [0.1], KEY, steps=5, batch=12)
    fit_linearised(net, x, y, [0.1], KEY, steps=5, batch=12)
    assert all(torch.equal(p, q) for p, q in zip(before, (net.w, net.b, net.a, x, y), strict=True))
    assert torch.equal(torch.get_rng_state(), state)
