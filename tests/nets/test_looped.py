"""The looped transformer against its definition written out, its errors, and least squares of least norm."""

import numpy as np
import pytest
import torch

from featlearn.core import Diverged, Key, SettingError
from featlearn.nets import (
    LoopedTransformer,
    gradient_descent_weights,
    inverse_smoothness,
    least_squares,
    linear_attention,
    prompt_matrix,
    smoothness,
)
from featlearn.tasks import LinearRegression

KEY = Key("tests/looped")
G = KEY.numpy()


def prompts(b=3, n=7, d=4):
    g = (KEY / "prompts").torch()
    return (
        torch.randn(b, n, d, generator=g, dtype=torch.float64),
        torch.randn(b, n, generator=g, dtype=torch.float64),
        torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)[:b],
        torch.randn(b, d, generator=g, dtype=torch.float64),
    )


def test_attention_is_the_masked_product():
    z = torch.from_numpy(G.normal(size=(2, 6, 4)))
    q, p = (torch.from_numpy(G.normal(size=(4, 4))) for _ in range(2))
    mask = torch.zeros(6, 6, dtype=torch.float64)
    mask[-1, :-1] = 1
    want = (mask * (z @ q @ z.mT)) @ z @ p
    assert torch.allclose(linear_attention(z, q, p), want, atol=1e-12)


def test_loops_carry_on_the_whole_matrix():
    x, y, query, start = prompts()
    z = prompt_matrix(x, y, query, start)
    net = LoopedTransformer(*(torch.from_numpy(G.normal(size=(5, 5))) / 20 for _ in range(2)))
    rates = torch.tensor([[0.01, 0.02, 0.005]], dtype=torch.float64)
    said = net.loops(z, rates)
    for t in range(4):
        assert torch.allclose(said[t], -z[:, -1, :-1], atol=1e-10)
        if t < 3:
            z = z - rates[0, t] * linear_attention(z, net.query_key, net.value)
            # other weights than those of Lemma 8.13 move the query as well, which the next loop reads
    assert torch.equal(net(prompt_matrix(x, y, query, start), rates), said[-1])


def test_each_prompt_has_steps_of_its_own():
    x, y, query, start = prompts()
    rates = torch.tensor([[0.01, 0.02], [0.03, 0.04], [0.0, 0.05]], dtype=torch.float64)
    net = gradient_descent_weights(4, dtype=torch.float64)
    together = net(prompt_matrix(x, y, query, start), rates)
    for i in range(3):
        alone = net(prompt_matrix(*(v[i : i + 1] for v in (x, y, query, start))), rates[i : i + 1])
        assert torch.allclose(together[i], alone[0], atol=1e-14)
    assert not torch.allclose(together[0], net(prompt_matrix(x, y, query, start), rates[1:2])[0])


def test_a_call_can_be_trained():
    x, y, query, start = prompts()
    value = gradient_descent_weights(4, dtype=torch.float64).value.requires_grad_()
    net = LoopedTransformer(torch.eye(5, dtype=torch.float64), value)
    net(prompt_matrix(x, y, query, start), torch.full((1, 2), 0.01, dtype=torch.float64)).square().sum().backward()
    assert value.grad is not None
    assert value.grad.abs().sum() > 0


def test_steps_beyond_two_over_l_are_said_to_diverge():
    x, y, query, _ = prompts()
    z = prompt_matrix(x, y, query)
    net = gradient_descent_weights(4, dtype=torch.float64)
    with pytest.raises(Diverged, match=r"below 2/L = "):
        net(z, 50 * inverse_smoothness(x, 400))
    assert torch.isfinite(net(z, 1.9 * inverse_smoothness(x, 400))).all()


def test_smoothness_is_the_largest_eigenvalue():
    x = prompts()[0]
    want = torch.linalg.eigvalsh(x.mT @ x)[:, -1]
    assert torch.allclose(smoothness(x), want, rtol=1e-12)
    assert torch.allclose(inverse_smoothness(x, 2), (1 / want)[:, None].expand(3, 2), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_solved_in_float32_and_comes_back_as_it_was(dtype):
    x, y, query, _ = (v.to(dtype) for v in prompts())
    for ours, true in (
        (smoothness(x), smoothness(x.double())),
        (inverse_smoothness(x, 2), inverse_smoothness(x.double(), 2)),
        (least_squares(x, y), least_squares(x.double(), y.double())),
    ):
        assert ours.dtype == dtype
        assert torch.allclose(ours.double(), true, rtol=2 * torch.finfo(dtype).eps, atol=1e-3)
    net = gradient_descent_weights(4, dtype=dtype)
    assert net(prompt_matrix(x, y, query), inverse_smoothness(x, 3)).dtype == dtype


def test_least_squares_of_too_few_examples_has_the_least_norm():
    x, y = prompts(n=2)[:2]
    theta = least_squares(x, y)
    for i in range(3):
        want = np.linalg.lstsq(x[i].numpy(), y[i].numpy(), rcond=None)[0]
        assert np.abs(theta[i].numpy() - want).max() < 1e-12
    x[:, 1] = x[:, 0]  # and of examples that say the same
    y[:, 1] = y[:, 0]
    theta = least_squares(x, y)
    assert torch.allclose(theta, x[:, 0] * (y[:, 0] / x[:, 0].square().sum(-1))[:, None], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: prompt_matrix(*prompts()[:2], torch.tensor([1.0, 0.0, 2.0]).double()), "query"),
        (lambda: gradient_descent_weights(0), "d"),
        (lambda: inverse_smoothness(torch.zeros(1, 3, 2), 3), "x"),
        (lambda: inverse_smoothness(torch.ones(1, 3, 2), -1), "loops"),
        (lambda: LinearRegression(d=0), "d"),
        (lambda: LinearRegression(noise=float("nan")), "noise"),
    ],
)
def test_what_cannot_be_is_refused(call, field):
    with pytest.raises(SettingError, match=f"^{field} = "):
        call()


def test_labels_have_the_noise_that_was_asked_for():
    task = LinearRegression(d=3, noise=0.5)
    truth = task.draw(KEY)
    batch = task.sample(truth, 20_000, KEY / "examples")
    left = batch.y - batch.x @ truth.features[0]
    assert abs(float(left.std()) - 0.5) < 0.012  # standard error 0.0025
    assert abs(float(truth.features.norm()) - 1) < 1e-6
