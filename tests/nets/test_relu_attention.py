"""Heads with ReLU against their definition written out, and the binary-code heads of Theorem 5.5.1."""

import itertools

import numpy as np
import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.nets import ReluAttention, binary_code_heads, diagonal_heads

G = Key("tests/relu_attention").numpy()


def drawn(*shape):
    return torch.from_numpy(G.normal(size=shape))


def test_the_call_is_the_formula():
    x, y, query, w = drawn(2, 7, 3), drawn(2, 7), drawn(2, 3), drawn(4, 3, 3)
    a = torch.tensor([0.5, -1.0, 1.0, 0.0], dtype=torch.float64)
    said = ReluAttention(w, a)(x, y, query)
    for b in range(2):
        mean = sum(float(y[b, n]) * x[b, n].numpy() for n in range(7)) / 7
        want = sum(float(a[i]) * max(0.0, mean @ w[i].numpy() @ query[b].numpy()) for i in range(4))
        assert abs(float(said[b]) - want) < 1e-12


def test_the_penalty_leaves_the_second_layer_out():
    w = drawn(3, 2, 2)
    for a in (torch.ones(3).double(), torch.zeros(3).double()):
        assert abs(float(ReluAttention(w, a).penalty) - float((w.numpy() ** 2).sum())) < 1e-12


def test_a_dictionary_turns_prompts_and_heads_alike():
    g = torch.linalg.qr(drawn(4, 4))[0]
    mean, query, v = drawn(5, 4), drawn(5, 4), drawn(3, 4)
    a = torch.ones(3, dtype=torch.float64)
    plain = diagonal_heads(v, a).read(mean, query)
    assert torch.allclose(diagonal_heads(v, a, g).read(mean @ g.T, query @ g.T), plain, atol=1e-12)
    assert not torch.allclose(diagonal_heads(v, a, g).read(mean, query), plain)


def test_the_example_of_the_thesis_entry_by_entry():
    net = binary_code_heads(8, 0.125, dtype=torch.float64)  # 1 / (4 gamma) = 2
    v = torch.diagonal(net.query_key, dim1=1, dim2=2)
    half = torch.tensor(
        [
            [-1, 1, -1, 1, -1, 1, -1, 1],
            [-1, -1, 1, 1, -1, -1, 1, 1],
            [-1, -1, -1, -1, 1, 1, 1, 1],
            [-3, -3, -3, -3, -3, -3, -3, -3],
        ]
    ).double()
    assert torch.equal(v, 2 * torch.cat([half, -half]))
    assert net.outer.tolist() == [-1, -1, -1, 1] * 2
    small = binary_code_heads(8, 0.125, bits=1, positive=3.0, dtype=torch.float64)
    assert torch.equal(small.query_key, net.query_key[[0, 3, 4, 7]])
    assert torch.equal(small.outer, net.outer[[0, 3, 4, 7]])


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_without_end_the_margin_counts_digits_that_differ(bits):
    g = torch.linalg.qr(drawn(8, 8))[0]
    net = binary_code_heads(8, 0.1, bits, dictionary=g, dtype=torch.float64)
    for i, j in itertools.combinations(range(8), 2):
        mean = 0.2 * (g[:, i] + g[:, j])
        phi = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=8)), dtype=torch.float64)
        said = phi[:, i] * phi[:, j] * net.read(mean.expand(256, -1), phi @ g.T)
        digits = (i ^ j) % 2**bits
        assert np.abs(said.numpy() - digits.bit_count()).max() < 1e-10


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: ReluAttention(torch.eye(2)[None], torch.tensor([1.5])), "outer"),
        (lambda: ReluAttention(torch.eye(2)[None], torch.tensor([float("nan")])), "outer"),
        (lambda: binary_code_heads(6, 0.1), "d"),
        (lambda: binary_code_heads(1, 0.1), "d"),
        (lambda: binary_code_heads(8, 0.0), "gamma"),
        (lambda: binary_code_heads(8, 0.1, 4), "bits"),
        (lambda: binary_code_heads(8, 0.1, 0), "bits"),
        (lambda: binary_code_heads(8, 0.1, positive=float("nan")), "positive"),
        (lambda: binary_code_heads(8, 0.1, dictionary=torch.eye(4)), "dictionary"),
    ],
)
def test_what_cannot_be_is_refused(call, field):
    with pytest.raises(SettingError, match=rf"^{field} = .* is not allowed: .*; "):
        call()
