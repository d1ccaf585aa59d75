"""The nuclear norm: values, subgradients, degenerate batches, precision, what is refused; the stable rank."""

import math
import pickle

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.errors import NotFiniteInput
from featlearn.methods.nuclear_norm import _check, nuclear_norm, stable_rank

KEY = Key("tests/nuclear_norm")
METHODS = ("svd", "gram", "newton-schulz")
every_method = pytest.mark.parametrize("method", METHODS)


def normal(*shape, key="x"):
    return torch.randn(shape, generator=(KEY / key).torch(), dtype=torch.float64)


def of_rank(n, d, rank, key="low"):
    return normal(n, rank, key=f"{key}/a") @ normal(rank, d, key=f"{key}/b")


def truth(x):
    """Value and U V' of the non-zero singular values, in float64."""
    u, s, vh = torch.linalg.svd(x.double(), full_matrices=False)
    kept = s > 1e-6 * s[0]
    return s.sum(), u[:, kept] @ vh[kept]


def with_gradient(x, method, reduction="sum"):
    leaf = x.clone().requires_grad_()
    value = nuclear_norm(leaf, reduction, method)
    value.sum().backward()
    return value.detach(), leaf.grad


# --- value and gradient ----------------------------------------------------------------------------------------------


@every_method
def test_values_known_by_hand(method):
    x = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    value, gradient = with_gradient(x, method)
    torch.testing.assert_close(value, torch.tensor(7.0))
    torch.testing.assert_close(gradient, torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), atol=1e-6, rtol=0)


@every_method
@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (6, 6), (1, 7), (7, 1)])
def test_value_and_gradient_are_those_of_autograd_through_the_svd(method, shape):
    x = normal(*shape)
    leaf = x.clone().requires_grad_()
    torch.linalg.svdvals(leaf).sum().backward()
    for dtype, tolerance in ((torch.float64, 1e-7), (torch.float32, 2e-5)):
        value, gradient = with_gradient(x.to(dtype), method)
        torch.testing.assert_close(value.double(), torch.linalg.svdvals(x).sum(), atol=0, rtol=tolerance)
        torch.testing.assert_close(gradient.double(), leaf.grad, atol=tolerance, rtol=0)
        assert gradient.dtype == dtype


def test_the_gradient_by_finite_differences():
    assert torch.autograd.gradcheck(lambda x: nuclear_norm(x, "sum"), normal(4, 6).requires_grad_())


@every_method
@pytest.mark.parametrize("rank", [1, 3, 30])
def test_wide_float32_batches_agree_with_the_exact_one(method, rank):
    x = of_rank(30, 200, rank).float()
    value, gradient = with_gradient(x, method)
    exact, polar = truth(of_rank(30, 200, rank))
    assert abs(value.double() / exact - 1) < 1e-4
    # Of directions that are rounding of float32, Newton-Schulz keeps a part: another subgradient, not the smallest.
    tolerance = 0.01 if method == "newton-schulz" and rank < 30 else 1e-4
    assert torch.linalg.matrix_norm(gradient.double() - polar, 2) < tolerance
    assert torch.linalg.matrix_norm(gradient, 2) < 1 + 1e-5


@every_method
def test_singular_values_far_apart_keep_their_gradient(method):
    """Squared in float32 the smallest would be lost."""
    u, _ = torch.linalg.qr(normal(8, 8, key="u"))
    v, _ = torch.linalg.qr(normal(20, 8, key="v"))
    s = torch.logspace(0, -3.5, 8, dtype=torch.float64)
    _, gradient = with_gradient(((u * s) @ v.T).float(), method)
    torch.testing.assert_close(gradient.double(), u @ v.T, atol=2e-3, rtol=0)


@every_method
@pytest.mark.parametrize("case", ["zeros", "one row", "repeated rows", "constant columns", "low rank"])
def test_degenerate_batches_have_the_smallest_subgradient(method, case):
    x = {
        "zeros": torch.zeros(6, 10),
        "one row": normal(1, 10).float(),
        "repeated rows": normal(2, 10).float().repeat(3, 1),
        "constant columns": torch.full((6, 10), 0.7),
        "low rank": of_rank(6, 10, 2).float(),
    }[case]
    value, gradient = with_gradient(x, method)
    if case == "zeros":
        assert value == 0
        assert (gradient == 0).all()
        return
    exact, polar = truth(x)
    assert abs(value.double() / exact - 1) < 1e-5
    torch.testing.assert_close(gradient.double(), polar, atol=5e-3 if method == "newton-schulz" else 1e-4, rtol=0)
    # The inequality that makes it a subgradient, at other matrices, and within the unit ball of the operator norm.
    for i in range(20):
        y = normal(*x.shape, key=f"y{i}")
        assert torch.linalg.svdvals(y).sum() >= exact + (polar * (y - x.double())).sum() - 1e-4
    assert torch.linalg.matrix_norm(gradient, 2) <= 1 + 1e-4


@every_method
def test_an_ensemble_is_each_of_its_members(method):
    x = torch.stack([normal(4, 7, key=f"m{i}").float() * 10.0**i for i in range(3)] + [torch.zeros(4, 7)])
    value, gradient = with_gradient(x, method)
    for i in range(4):
        one, own = with_gradient(x[i], method)
        torch.testing.assert_close(value[i], one)
        torch.testing.assert_close(gradient[i], own, atol=1e-5, rtol=1e-5)


def test_200_random_matrices_keep_the_known_inequalities():
    for i in range(200):
        n, d, rank = (int(v) for v in torch.randint(1, 9, (3,), generator=(KEY / "shape" / i).torch()))
        x = of_rank(n, d, min(n, d, rank), key=f"inequality{i}")
        nuclear, top = nuclear_norm(x, "sum"), torch.linalg.matrix_norm(x, 2)
        frobenius, r = x.norm(), torch.linalg.matrix_rank(x).double()
        assert frobenius <= nuclear * (1 + 1e-9)
        assert nuclear <= r.sqrt() * frobenius * (1 + 1e-9)
        assert nuclear / top <= r * (1 + 1e-9)


# --- scale -----------------------------------------------------------------------------------------------------------


def test_reductions_divide_by_rows_and_their_root():
    x = normal(9, 30)
    total = nuclear_norm(x, "sum")
    torch.testing.assert_close(nuclear_norm(x), total / 9)
    torch.testing.assert_close(nuclear_norm(x, "root"), total / 3)
    torch.testing.assert_close(with_gradient(x, "gram", "mean")[1], with_gradient(x, "gram", "sum")[1] / 9)


def test_what_keeps_a_weight_when_the_batch_doubles():
    """Few directions, repeated: "root"; rows that all differ: "mean"."""
    few = of_rank(4000, 30, 2)
    ratio = nuclear_norm(few, "root") / nuclear_norm(few[:2000], "root")
    assert abs(ratio - 1) < 0.05  # 1.41 for the sum, 0.71 for the mean
    many = torch.eye(64, dtype=torch.float64)
    torch.testing.assert_close(nuclear_norm(many), nuclear_norm(many[:32]))


def test_the_scale_loophole():
    """Smaller features with a larger head predict the same at a smaller penalty."""
    x, head = normal(6, 10), normal(10, 3, key="head")
    torch.testing.assert_close((0.01 * x) @ (100 * head), x @ head)
    torch.testing.assert_close(nuclear_norm(0.01 * x), 0.01 * nuclear_norm(x))


# --- precision -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_float32_inside_autocast(method):
    layer = torch.nn.Linear(12, 20)
    with torch.no_grad():
        layer.weight.copy_(normal(20, 12, key="w"))
    inputs = normal(8, 12).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = layer(inputs)
        assert features.dtype == torch.bfloat16
        value = nuclear_norm(features, "sum", method)
    assert value.dtype == torch.float32
    assert abs(value.double() / truth(features.detach())[0] - 1) < 1e-5  # bfloat16 would be off by 1e-3 and more
    value.backward()
    assert layer.weight.grad.isfinite().all()
    wide = normal(8, 12).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, gradient = with_gradient(wide, method)
    torch.testing.assert_close(gradient.double(), truth(wide)[1], atol=1e-5, rtol=0)


def test_half_precision_gets_its_gradient_back_in_half():
    x = normal(4, 6).half().requires_grad_()
    nuclear_norm(x).backward()
    assert x.grad.dtype == torch.float16


def test_without_a_gradient_nothing_more_is_made():
    with torch.no_grad():
        assert not nuclear_norm(normal(4, 6)).requires_grad


def test_it_is_differentiable_once_and_says_so():
    x = normal(4, 6).requires_grad_()
    (first,) = torch.autograd.grad(nuclear_norm(x) ** 2, x, create_graph=True)
    with pytest.raises(SettingError, match="second derivative"):
        first.sum().backward()


@pytest.mark.parametrize("method", METHODS)
def test_a_second_derivative_of_a_sum_of_losses_is_refused(method):
    """There the gradient that comes in is a constant, and dropping the norm's part would go unnoticed."""
    x = normal(4, 6).requires_grad_()
    (first,) = torch.autograd.grad((x**3).sum() + nuclear_norm(x, method=method), x, create_graph=True)
    (plain,) = torch.autograd.grad((x**3).sum() + nuclear_norm(x, method=method), x)
    torch.testing.assert_close(first, plain, rtol=0, atol=0)
    with pytest.raises(SettingError, match="second derivative"):
        first.square().sum().backward()


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite_are_named(method, value):
    x = normal(4, 6).float()
    x[1, 2] = x[1, 3] = value
    with pytest.raises(SettingError, match=r"features = a tensor with 2 of 24 values nan or infinite .* 1 rows") as e:
        nuclear_norm(x, method=method)
    assert isinstance(e.value, FloatingPointError)  # a run ends as diverged
    assert type(pickle.loads(pickle.dumps(e.value))) is NotFiniteInput
    with pytest.raises(NotFiniteInput):
        stable_rank(x)


@pytest.mark.parametrize(
    "shape, remedy",
    [
        ((4,), r"features\[None\]"),
        ((2, 3, 4, 4), r"flatten\(1\)"),
        ((0, 4), "without rows has no norm: leave it out"),
        ((2, 0, 4), "without rows"),
        ((4, 0), "a layer that gives features"),
        ((0, 3, 4), "an ensemble without members"),
    ],
)
def test_shapes_that_are_no_feature_matrix(shape, remedy):
    with pytest.raises(SettingError, match=remedy):
        _check(torch.ones(shape), "mean", "auto")  # behind the annotation, which is enforced while testing only


@pytest.mark.parametrize("words", [("median", "auto"), ("mean", "qr")])
def test_unknown_words(words):
    with pytest.raises(SettingError, match=r"mean, root, sum|auto, svd"):
        _check(torch.ones(2, 2), *words)
    with pytest.raises(SettingError, match="floating point"):
        _check(torch.ones(2, 2, dtype=torch.int64), "mean", "auto")


def test_squares_that_overflow():
    with pytest.raises(NotFiniteInput, match="squares"):
        nuclear_norm(torch.full((2, 3), 1e200, dtype=torch.float64), method="gram")
    assert nuclear_norm(torch.full((2, 3), 1e200, dtype=torch.float64)).isfinite()
    assert nuclear_norm(torch.full((2, 3), 1e30), method="gram").isfinite()


# --- stable rank -----------------------------------------------------------------------------------------------------


def test_stable_rank_as_reported_and_as_usual():
    x = 10 * torch.eye(3)
    assert stable_rank(x) == 3
    assert stable_rank(x, "reported") == pytest.approx(30)
    assert stable_rank(torch.zeros(3, 4)) == stable_rank(torch.zeros(3, 4), "reported") == 0
    for tiny in (1e-200, 1e200):
        assert stable_rank(tiny * torch.eye(3).double()) == 3
        assert stable_rank(tiny * torch.eye(3).double(), "reported") == pytest.approx(3 * tiny)


@pytest.mark.parametrize("shape", [(5, 9), (9, 5)])
def test_stable_rank_against_its_formula(shape):
    x = normal(*shape)
    s = torch.linalg.svdvals(x)
    torch.testing.assert_close(stable_rank(x), (s**2).sum() / s[0] ** 2)
    torch.testing.assert_close(stable_rank(x, "reported"), (s**2).sum() / s[0])
    torch.testing.assert_close(stable_rank(7 * x), stable_rank(x))
    torch.testing.assert_close(stable_rank(7 * x, "reported"), 7 * stable_rank(x, "reported"))
    assert 1 <= stable_rank(x) <= 5
    centred = x - x.mean(0)
    torch.testing.assert_close(stable_rank(x + 100, centred=True), stable_rank(centred), rtol=1e-9, atol=0)
    assert stable_rank(x + 100) < 1.01


def test_stable_rank_of_an_ensemble_without_a_gradient():
    x = torch.stack([normal(4, 7), torch.zeros(4, 7).double()]).requires_grad_()
    found = stable_rank(x)
    assert not found.requires_grad
    torch.testing.assert_close(found, torch.stack([stable_rank(x[0]), torch.tensor(0.0).double()]))
