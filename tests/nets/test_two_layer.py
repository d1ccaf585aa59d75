"""Two-layer networks: hand-written gradients against autograd and against a literal triple loop, all in float64."""

import itertools
import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.nets import TwoLayer, forward, gaussian_init, gradients, mirrored, stack
from featlearn.nets.pointwise import loss_value

ACTIVATIONS = ("relu", "clip")
LOSSES = ("hinge", "logistic", "squared")
E, M, D, N = 3, 7, 4, 23
# Everything below is float64 with sums of at most N M = 161 terms of size about 1: rounding stays below 1e-13, while
# the smallest wrong answer tried (db without noise, a dropped weight, another loss) is off by more than 1e-3.
TIGHT = {"atol": 1e-13, "rtol": 1e-12}


def make(activation="clip", e=E, m=M, d=D) -> TwoLayer:
    """Scores on both sides of the hinge and pre-activations in all three pieces of the truncated ReLU."""
    g = Key("two_layer/net").torch()

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    return TwoLayer(0.6 * draw(e, m, d), 0.3 + 0.5 * draw(e, m), draw(e, m), activation)


def data(shared: bool, n=N):
    g = Key("two_layer/data").torch()
    shape = () if shared else (E,)
    x = torch.randn(*shape, n, D, generator=g, dtype=torch.float64)
    y = torch.where(torch.rand(*shape, n, generator=g) < 0.4, 1.0, -1.0).double()
    weights = 0.5 + torch.rand(*shape, n, generator=g, dtype=torch.float64)
    return x, y, weights


def phi(t: float) -> float:
    return 0.5 * math.erfc(-t / math.sqrt(2))


def literal_activation(z: float, kind: str, s: float) -> tuple[float, float]:
    """(E sigma, E sigma') as the closed forms of emergence.method_training, one number at a time."""
    if s == 0:
        return (max(z, 0.0), float(z > 0)) if kind == "relu" else (min(1.0, max(z, 0.0)), float(0 < z < 1))

    def r(u: float) -> float:
        return u * phi(u / s) + s * math.exp(-u * u / (2 * s * s)) / math.sqrt(2 * math.pi)

    if kind == "relu":
        return r(z), phi(z / s)
    return r(z) - r(z - 1), phi((1 - z) / s) - phi(-z / s)


def literal_gradients(net: TwoLayer, x, y, weights, s: float):
    """Lemma 12 in loops over networks, samples and neurons (hinge loss), with the noise inside both indicators."""
    e, m, d = net.w.shape
    dw, db, da = torch.zeros(e, m, d).double(), torch.zeros(e, m).double(), torch.zeros(e, m).double()
    for j in range(e):
        xs, ys, ws = (t if t.ndim == base else t[j] for t, base in ((x, 2), (y, 1), (weights, 1)))
        n = len(xs)
        for t in range(n):
            z = [sum(float(net.w[j, i, c] * xs[t, c]) for c in range(d)) + float(net.b[j, i]) for i in range(m)]
            both = [literal_activation(v, net.activation, s) for v in z]
            score = sum(float(net.a[j, i]) * both[i][0] for i in range(m))
            if float(ys[t]) * score > 1:
                continue
            push = -float(ys[t]) * float(ws[t]) / n
            for i in range(m):
                da[j, i] += push * both[i][0]
                db[j, i] += push * float(net.a[j, i]) * both[i][1]
                for c in range(d):
                    dw[j, i, c] += push * float(net.a[j, i]) * both[i][1] * float(xs[t, c])
    return dw, db, da


def autograd(net: TwoLayer, x, y, weights, loss: str, noise: float):
    leaves = [t.clone().requires_grad_() for t in (net.w, net.b, net.a)]
    score = forward(TwoLayer(*leaves, net.activation), x, noise)
    value = loss_value(score, y if y.ndim == 2 else y[None], loss)
    if weights is not None:
        value = value * weights
    return torch.autograd.grad(value.mean(1).sum(), leaves)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_equal_autograd(activation, loss, noise, weighted, shared):
    net = make(activation)
    x, y, weights = data(shared)
    weights = weights if weighted else None
    got = gradients(net, x, y, loss=loss, noise=noise, weights=weights, block=9)  # 23 samples in three blocks
    for name, hand, auto in zip("wba", (got.w, got.b, got.a), autograd(net, x, y, weights, loss, noise), strict=True):
        torch.testing.assert_close(hand, auto, msg=lambda m, name=name: f"d{name}: {m}", **TIGHT)
        assert auto.abs().max() > 1e-2


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_equal_the_reported_formula_in_loops(activation, noise, shared):
    net = make(activation)
    x, y, weights = data(shared)
    margins = y * forward(net, x, noise)
    assert 0.1 < (margins <= 1).double().mean() < 0.95  # both branches of the hinge are taken
    got = gradients(net, x, y, noise=noise, weights=weights)
    for hand, literal in zip((got.w, got.b, got.a), literal_gradients(net, x, y, weights, noise), strict=True):
        torch.testing.assert_close(hand, literal, **TIGHT)


def test_reported_bias_gradient_without_noise_in_its_indicator_is_wrong():
    """The paper leaves the noise out of the indicator of db; autograd of the smoothed loss says it belongs there."""
    net = make()
    x, y, weights = data(True)
    reported = literal_gradients(net, x, y, weights, 0.0)[1]
    right = autograd(net, x, y, weights, "hinge", 0.3)[1]
    assert (reported - right).abs().max() > 1e-2
    torch.testing.assert_close(gradients(net, x, y, noise=0.3, weights=weights).b, right, **TIGHT)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_forward_is_the_literal_sum_whatever_the_block(activation, noise):
    net = make(activation)
    x, _, _ = data(False)
    expect = torch.zeros(E, N).double()
    for j, t, i in itertools.product(range(E), range(N), range(M)):
        z = float(net.w[j, i] @ x[j, t] + net.b[j, i])
        expect[j, t] += float(net.a[j, i]) * literal_activation(z, activation, noise)[0]
    for block in (1, 5, 4096):
        torch.testing.assert_close(forward(net, x, noise, block), expect, **TIGHT)


def test_calling_a_network_gives_samples_first():
    net = make()
    x, _, _ = data(True)
    assert net(x).shape == (N, E)
    torch.testing.assert_close(net(x), forward(net, x).T)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_mirrored_is_zero_everywhere_and_keeps_the_first_half(activation):
    net = make(activation)
    both = mirrored(net)
    x, _, _ = data(True)
    assert both.w.shape == (E, 2 * M, D)
    assert both.activation == activation
    assert torch.equal(both.w[:, :M], net.w)
    assert torch.equal(both.w[:, M:], net.w)
    assert torch.equal(both.b[:, M:], net.b)
    assert torch.equal(both.a[:, M:], -net.a)
    for noise in (0.0, 0.4):
        torch.testing.assert_close(forward(both, x, noise), torch.zeros(E, N).double(), **TIGHT)
        assert forward(net, x, noise).abs().max() > 0.1


def test_gaussian_init_has_the_given_standard_deviations():
    """Deviations of 40 000, 2000 and 2000 numbers within 5 s.e. (s.e. = sigma / sqrt(2 n)), six checks at 6e-7."""
    net = gaussian_init(2000, 20, Key("init"), sigma_w=0.2, sigma_b=0.04, sigma_a=4.0, activation="relu")
    assert net.w.shape == (1, 2000, 20)
    assert net.activation == "relu"
    for values, sigma in ((net.w, 0.2), (net.b, 0.04), (net.a, 4.0)):
        n = values.numel()
        assert abs(float(values.std()) / sigma - 1) < 5 / (2 * n) ** 0.5
        assert abs(float(values.mean())) < 5 * sigma / n**0.5


def test_gaussian_init_draws_its_parts_from_separate_streams():
    """More neurons or another sigma of one part leave the other parts as they are."""
    one = gaussian_init(5, 3, Key("init"), sigma_w=1.0, sigma_b=1.0, sigma_a=1.0)
    two = gaussian_init(5, 9, Key("init"), sigma_w=7.0, sigma_b=2.0, sigma_a=1.0)
    assert torch.equal(one.a, two.a)
    assert torch.equal(2 * one.b, two.b)
    assert not torch.equal(one.a, one.b)
    assert not torch.equal(one.w, gaussian_init(5, 3, Key("other"), sigma_w=1.0, sigma_b=1.0, sigma_a=1.0).w)


def test_stack_and_slices_are_inverse():
    one, two = make(e=2), make(e=1)
    both = stack([one, two])
    assert len(both) == 3
    assert torch.equal(both[0:2].w, one.w)
    assert torch.equal(both[2:3].a, two.a)
    assert torch.equal(both[2:3].b, two.b)
    assert both[0:2].activation == one.activation


def test_stack_refuses_what_would_change_a_network_in_silence():
    with pytest.raises(SettingError, match=r"activation = relu is not allowed: clip, as the first"):
        stack([make("clip"), make("relu")])
    with pytest.raises(SettingError, match=r"w = \(3, 9, 4\) is not allowed: \(e, 7, 4\), as the first"):
        stack([make(), make(m=9)])


def test_unknown_activation_is_refused(as_user):
    with pytest.raises(SettingError, match=r"activation = gelu is not allowed: one of relu, clip; choose one of them"):
        TwoLayer(torch.zeros(1, 2, 3), torch.zeros(1, 2), torch.zeros(1, 2), "gelu")  # pyright: ignore[reportArgumentType]


def test_to_a_device_keeps_values_and_kind():
    net = make("relu")
    moved = net.to("cpu")
    assert torch.equal(moved.w, net.w) and torch.equal(moved.b, net.b) and torch.equal(moved.a, net.a)  # noqa: PT018
    assert moved.activation == "relu"
