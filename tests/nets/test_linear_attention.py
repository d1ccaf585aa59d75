"""Linear self-attention against Eq. (5.1) written out, its optimum of each rank against a search, and its errors."""

import dataclasses

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError, Truth
from featlearn.nets import LinearSelfAttention, optimal_attention, optimal_matrix, population_loss
from featlearn.tasks import RegressionPrompts

KEY = Key("tests/linear_attention")
TASK = RegressionPrompts(variances=(3.0, 2.0, 1.2, 0.6, 0.2), examples=7)
TRUTH = Truth(TASK.draw(KEY / "truth").features.double())
TRUTH = Truth(torch.linalg.qr(TRUTH.features)[0])  # orthonormal in float64 too
COVARIANCE = TASK.covariance(TRUTH)


def layer(rank=2, networks=3, scale=1.0):
    return LinearSelfAttention(5, rank, KEY / "net", networks=networks, scale=scale, dtype=torch.float64)


def prompts(n=6, **changed):
    return dataclasses.replace(TASK, **changed).sample(TRUTH, n, KEY / "prompts")


def literal(net, e, prompt):
    """E + W_PV E (E^T W_KQ E) / N."""
    kq = (net.key[e].T @ net.query[e]).detach()
    return prompt + net.value[e].detach() @ prompt @ (prompt.T @ kq @ prompt) / (prompt.shape[1] - 1)


def test_the_layer_is_the_formula_and_its_answer_the_last_corner():
    net, x = layer(), prompts(noise=0.3).x
    out, said = net.output(x).detach(), net(x).detach()
    for e in range(3):
        for i in range(len(x)):
            want = literal(net, e, x[i])
            assert torch.allclose(out[e, i], want, atol=1e-10)
            assert said[e, i] == pytest.approx(float(want[-1, -1]), abs=1e-10)


def test_layers_may_have_prompts_of_their_own():
    net = layer()
    x = torch.stack([prompts(n=4).x, prompts(n=4, noise=1.0).x, prompts(n=4, noise=2.0).x])
    together = net(x)
    for e in range(3):
        assert torch.allclose(together[e], net(x[e])[e])


def test_the_length_of_a_prompt_is_its_own():
    net = optimal_attention(COVARIANCE, examples=7, rank=3)
    batch = prompts(n=5, examples=11)
    e = batch.x
    want = ((e[:, -1:, :-1] @ e[:, :-1, :-1].mT / 11) @ optimal_matrix(COVARIANCE, 7, 3) @ e[:, :-1, -1:])[:, 0, 0]
    assert torch.allclose(net(e)[0].detach(), want)


def test_answers_have_the_matrix_of_the_layer_in_their_odd_part():
    """The other part, even in the labels, does not change with their sign."""
    net, x = layer(), prompts().x
    turned = x.clone()
    turned[:, -1] *= -1
    odd = (net(x) - net(turned)) / 2
    want = x[:, -1:, :-1] @ x[:, :-1, :-1].mT / 7 @ net.matrix[:, None] @ x[:, :-1, -1:]
    assert torch.allclose(odd, want[..., 0, 0], atol=1e-10)
    assert torch.linalg.matrix_rank(net.matrix.detach()).tolist() == [2, 2, 2]


@pytest.mark.parametrize("rank", range(6))
def test_no_matrix_of_the_rank_has_less_loss(rank):
    best = population_loss(optimal_matrix(COVARIANCE, 7, rank)[None], COVARIANCE, 7)
    g = (KEY / "search" / rank).torch()
    a, b = (torch.randn(40, 5, rank, generator=g, dtype=torch.float64).mul(0.5).requires_grad_() for _ in range(2))
    if rank:
        moved = torch.optim.LBFGS(
            [a, b], max_iter=2000, history_size=50, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )

        def loss():
            moved.zero_grad()
            total = population_loss(a @ b.mT, COVARIANCE, 7).sum()
            total.backward()
            return total

        moved.step(loss)
    found = population_loss((a @ b.mT).detach(), COVARIANCE, 7)
    assert float(found.min()) >= float(best) - 1e-10
    assert float(found.min()) == pytest.approx(float(best), abs=1e-6)


def test_the_population_loss_is_that_of_prompts():
    net = layer(rank=5, networks=1)
    with torch.no_grad():
        net.value[:, -1, :-1], net.query[..., -1], net.key[..., -1] = 0, 0, 0
    batch = prompts(n=200_000)
    loss = (net(batch.x)[0] - batch.y).square().detach() / 2
    want = population_loss(net.matrix.detach(), COVARIANCE, 7)
    assert abs(float(loss.mean() - want)) < 4 * float(loss.std()) / len(loss) ** 0.5


def test_the_population_loss_of_one_direction_is_that_of_moments():
    """E of the squared mean of N squares of variance a is a^2 (1 + 2/N), of N products of two variances a b / N."""
    a, b, n, u = 2.0, 0.5, 4, 0.3
    matrix, covariance = torch.tensor([[u, 0.0], [0.0, 0.0]])[None], torch.diag(torch.tensor([a, b]))
    want = a * (u**2 * a**2 * (1 + 2 / n) - 2 * u * a + 1) / 2 + a * u**2 * a * b / n / 2 + b / 2
    assert float(population_loss(matrix, covariance, n)) == pytest.approx(want)


def test_a_singular_covariance_has_an_optimum():
    flat = torch.diag(torch.tensor([2.0, 0.0, 1.0]))
    assert torch.allclose(optimal_matrix(flat, 4, 2).diagonal(), torch.tensor([4 / 13, 0.0, 4 / 8]))
    assert float(optimal_matrix(flat, 4, 3)[1, 1]) == pytest.approx(4 / 3)  # reads a direction that never comes


def test_layers_can_be_trained_and_rank_zero_answers_zero():
    net = layer()
    net(prompts().x).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())
    assert not optimal_attention(COVARIANCE, 7, 0)(prompts().x).detach().any()


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: LinearSelfAttention(3, 4, KEY), r"^rank = 4 is not allowed: in 0..d = 3"),
        (lambda: LinearSelfAttention(3, -1, KEY), r"^rank = -1 is not allowed"),
        (lambda: LinearSelfAttention(0, 0, KEY), r"^d = 0 is not allowed"),
        (lambda: LinearSelfAttention(3, 1, KEY, networks=0), r"^networks = 0"),
        (lambda: LinearSelfAttention(3, 1, KEY, scale=float("nan")), r"^scale = nan"),
        (lambda: layer()(torch.zeros(1, 5, 4, dtype=torch.float64)), r"^prompts = 5 rows is not allowed: d \+ 1 = 6"),
        (lambda: layer()(torch.zeros(1, 6, 1, dtype=torch.float64)), r"^prompts = no example is not allowed"),
        (lambda: layer()(torch.zeros(1, 6, 4)), r"^prompts = float32 on cpu is not allowed: float64 on cpu"),
        (lambda: optimal_matrix(torch.eye(3), 0, 1), r"^examples = 0 is not allowed: at least 1"),
        (lambda: optimal_matrix(torch.eye(3), 4, 4), r"^rank = 4 is not allowed: in 0..d = 3"),
        (lambda: optimal_matrix(torch.zeros(3, 3), 4, 1), r"^covariance = 0 in all entries"),
        (lambda: optimal_matrix(torch.tensor([[1.0, 0.5], [0.0, 1.0]]), 4, 1), r"^covariance = not symmetric"),
        (lambda: optimal_matrix(-torch.eye(2), 4, 1), r"^covariance = with eigenvalue -1"),
        (lambda: RegressionPrompts(examples=0), r"^examples = 0 is not allowed: at least 1"),
        (lambda: RegressionPrompts(variances=(1.0, 2.0)), r"^variances = "),
        (lambda: RegressionPrompts(variances=(0.0, 0.0)), r"^variances = "),
        (lambda: RegressionPrompts(variances=()), r"^variances = "),
        (lambda: RegressionPrompts(variances=(1.0, -1.0)), r"^variances = "),
        (lambda: RegressionPrompts(noise=-1.0), r"^noise = -1.0"),
        (lambda: RegressionPrompts(weight=(1.0,)), r"^weight = "),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(call, says):
    with pytest.raises(SettingError, match=says) as said:
        call()
    assert "\n" not in str(said.value)


def test_prompts_have_the_covariance_the_noise_and_the_weight_that_were_asked_for():
    batch = prompts(n=40_000, noise=0.5, examples=2)
    x, y = batch.x[:, :-1], batch.x[:, -1]
    want = TRUTH.features.T @ torch.diag(torch.tensor(TASK.variances, dtype=torch.float64)) @ TRUTH.features
    assert torch.allclose(COVARIANCE, want, atol=1e-6)
    for k in range(3):  # the query too
        assert np.abs((x[:, :, k].T @ x[:, :, k] / len(x) - want).numpy()).max() < 0.1
    noise = y[:, :2] - (batch.hidden[:, None] @ x[:, :, :2])[:, 0]
    assert float(noise.std()) == pytest.approx(0.5, abs=0.01)
    assert float(y[:, 2].abs().max()) == 0
    assert torch.allclose(batch.y, (batch.hidden * x[:, :, 2]).sum(1))
    assert np.abs((batch.hidden.T @ batch.hidden / len(x)).numpy() - np.eye(5)).max() < 0.04
    fixed = prompts(n=3, weight=(1.0, 0.0, 0.0, 0.0, 2.0)).hidden
    assert torch.allclose(fixed, (TRUTH.features[0] + 2 * TRUTH.features[4]).expand(3, -1))
