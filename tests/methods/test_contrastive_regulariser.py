"""The contrastive regulariser against sums written out in float64, half precision, and what it refuses."""

import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.errors import NotFiniteInput
from featlearn.methods import contrastive_regulariser

KEY = Key("tests/contrastive_regulariser")


def rows(n=5, d=4, name="first"):
    return torch.randn(n, d, generator=(KEY / name).torch(), dtype=torch.float64)


ONE, TWO, QUEUE = rows(), rows(name="second"), rows(7, name="queue")


def dot(a, b):
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def nt_xent(one, two, t):
    z, n, total = [*one, *two], len(one), 0.0
    for i in range(2 * n):
        parts = {j: math.exp(cosine(z[i], z[j]) / t) for j in range(2 * n) if j != i}
        total -= math.log(parts[(i + n) % (2 * n)] / sum(parts.values()))
    return total / (2 * n)


def simcse(one, two, t):
    total = 0.0
    for i, a in enumerate(one):
        parts = [math.exp(cosine(a, b) / t) for b in two]
        total -= math.log(parts[i] / sum(parts))
    return total / len(one)


def triples(one, two, slope):
    terms = [
        slope(dot(one[i], two[i]) - dot(one[i], two[j])) for i in range(len(one)) for j in range(len(one)) if j != i
    ]
    return sum(terms) / len(terms)


WRITTEN = {
    "nt-xent": lambda: nt_xent(ONE, TWO, 0.3),
    "simcse": lambda: simcse(ONE, TWO, 0.3),
    "logistic": lambda: triples(ONE, TWO, lambda m: math.log(1 + math.exp(-m))),
    "linear": lambda: triples(ONE, TWO, lambda m: -m),
}


@pytest.mark.parametrize("loss", WRITTEN)
def test_each_loss_is_its_formula(loss):
    found = contrastive_regulariser(ONE, TWO, temperature=0.3, loss=loss)
    assert found.dtype == torch.float64
    assert float(found) == pytest.approx(WRITTEN[loss](), rel=1e-12)
    single = contrastive_regulariser(ONE.float(), TWO.float(), temperature=0.3, loss=loss)
    assert float(single) == pytest.approx(WRITTEN[loss](), rel=1e-5)


def test_with_a_queue_it_is_the_loss_of_moco_and_one_way():
    total = 0.0
    for a, b in zip(ONE, TWO, strict=True):
        own = math.exp(cosine(a, b) / 0.2)
        total -= math.log(own / (own + sum(math.exp(cosine(a, q) / 0.2) for q in QUEUE)))
    leaves = [v.clone().requires_grad_() for v in (ONE, TWO, QUEUE)]
    found = contrastive_regulariser(leaves[0], leaves[1], temperature=0.2, queue=leaves[2])
    assert float(found.detach()) == pytest.approx(total / 5, rel=1e-12)
    found.backward()
    assert float(leaves[0].grad.abs().sum()) > 0
    assert leaves[1].grad is None
    assert leaves[2].grad is None


def test_the_linear_loss_of_a_linear_map_is_minus_the_trace_of_theorem_7_1():
    """l(t) = -t and phi(x) = W x: with all pairs of n inputs and their average views, -tr(W Cov W') n / (n - 1)."""
    x, w = rows(9, 4, "inputs"), rows(3, 4, "weights")
    phi = x @ w.T
    found = contrastive_regulariser(phi, phi, loss="linear")
    centred = x - x.mean(0)
    cov = centred.T @ centred / 9
    assert float(found) == pytest.approx(-float(torch.trace(w @ cov @ w.T)) * 9 / 8, rel=1e-12)


def test_gradients_are_those_of_finite_differences():
    for loss in WRITTEN:
        assert torch.autograd.gradcheck(
            lambda a, b, loss=loss: contrastive_regulariser(a, b, temperature=0.3, loss=loss),
            (ONE.clone().requires_grad_(), TWO.clone().requires_grad_()),
        )


def test_the_classifier_has_no_gradient_from_it():
    body, head = nn.Linear(4, 3), nn.Linear(3, 2)
    a, b = body(ONE.float()), body(TWO.float())
    _ = head(a)
    contrastive_regulariser(a, b).backward()
    assert head.weight.grad is None
    assert float(body.weight.grad.abs().sum()) > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("temperature", [0.05, 0.5])
@pytest.mark.parametrize("kind", ["zeros", "equal", "tiny", "one row of zeros", "huge"])
def test_collapsed_features_have_finite_losses_and_gradients(dtype, temperature, kind):
    x = {
        "zeros": torch.zeros(4, 8),
        "equal": torch.ones(4, 8),
        "tiny": torch.full((4, 8), 6e-8),
        "one row of zeros": torch.cat([torch.zeros(1, 8), torch.eye(8)[:3]]),
        "huge": torch.full((4, 8), 6e4),
    }[kind]
    one, two = x.to(dtype).requires_grad_(), x.to(dtype).requires_grad_()
    found = contrastive_regulariser(one, two, temperature=temperature)
    found.backward()
    assert found.dtype == torch.float32
    if kind != "one row of zeros":
        assert float(found.detach()) == pytest.approx(math.log(7), rel=1e-3)
    for leaf in (one, two):
        assert bool(torch.isfinite(leaf.grad).all())


def test_it_is_float32_inside_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        found = contrastive_regulariser(ONE.float(), TWO.float(), temperature=0.3)
    assert found.dtype == torch.float32
    assert float(found) == pytest.approx(WRITTEN["nt-xent"](), rel=1e-5)


def test_it_is_usable_in_ten_lines_of_a_loop():
    x, y = rows(32, 4, "x").float(), torch.arange(32) % 2
    body, head = nn.Linear(4, 8), nn.Linear(8, 2)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    for _ in range(3):
        first, second = (body(x + 0.1 * torch.randn_like(x)) for _ in range(2))
        loss = functional.cross_entropy(head(first), y) + 0.1 * contrastive_regulariser(first, second)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert math.isfinite(float(loss.detach()))


@pytest.mark.parametrize(
    "change, said",
    [
        ({"temperature": 0.0}, "temperature = 0.0 is not allowed: above 0 and finite"),
        ({"temperature": -1.0}, "temperature = -1.0"),
        ({"temperature": math.inf}, "temperature = inf"),
        ({"first": ONE[:1], "second": TWO[:1]}, "first = of one row is not allowed: two rows or more"),
        ({"second": TWO[:3]}, "second = a tensor of shape (3, 4)"),
        ({"queue": QUEUE[:, :3]}, "queue = a tensor of shape (7, 3)"),
        ({"queue": QUEUE, "loss": "simcse"}, "queue = of 7 rows is not allowed: none for loss = 'simcse'"),
    ],
)
def test_what_cannot_be_is_refused(change, said):
    with pytest.raises(SettingError, match="^" + re.escape(said)) as e:
        contrastive_regulariser(**{"first": ONE, "second": TWO, **change})
    assert "\n" not in str(e.value)


def test_nan_is_named():
    with pytest.raises(NotFiniteInput, match=r"^second"):
        contrastive_regulariser(ONE, TWO * math.nan)
