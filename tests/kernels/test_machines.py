"""Learners on Gram matrices: by hand, against scikit-learn on features, against their own optimality conditions."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from featlearn.core import Key, SettingError
from featlearn.errors import NotFiniteInput
from featlearn.kernels import (
    conv_ntk,
    empirical_ntk,
    gram_ridge,
    gram_svm,
    kernel_ridge,
    kernel_svm,
    polynomial,
    rbf,
    tuned,
    tuned_gram,
)

LINEAR = partial(polynomial, degree=1, offset=0.0)


def data(n=60, name="train"):
    x = torch.randn(n, 3, generator=(Key("machines") / name).torch(), dtype=torch.float64)
    noise = torch.randn(n, generator=(Key("machines") / name / "noise").torch(), dtype=torch.float64)
    return x, x[:, 0] * x[:, 1] + 0.3 * noise


def signs(y):
    return torch.where(y > 0, 1.0, -1.0)


def classes(x):
    return (x[:, 0] > 0.5).long() + (x[:, 0] > -0.5).long()


def test_ridge_on_a_gram_matrix_is_ridge_on_the_kernel_and_scikit_learns():
    (x, y), (new, _) = data(), data(9, "new")
    scores = gram_ridge(rbf(x, x), y, penalty=0.3)(rbf(new, x))
    torch.testing.assert_close(scores, kernel_ridge(rbf, x, y, penalty=0.3)(new), rtol=1e-12, atol=0)
    theirs = KernelRidge(alpha=0.3, kernel="precomputed").fit(rbf(x, x).numpy(), y.numpy()).predict(rbf(new, x).numpy())
    np.testing.assert_allclose(scores[:, 0].numpy(), theirs, rtol=1e-9)


def test_class_labels_become_one_column_each():
    x, _ = data()
    k, y = rbf(x, x), classes(x)
    columns = torch.stack([(y == c).double() for c in range(3)], 1)
    given = gram_ridge(k, columns, penalty=0.1)(k)
    torch.testing.assert_close(gram_ridge(k, y, penalty=0.1)(k), given, rtol=1e-12, atol=0)


def test_the_machine_by_hand():
    """Of 1 and 3 against -1 the widest margin has w = 1 and b = 0; with C = 1/8, w = 1/4 + ..., by the dual."""
    x, y = torch.tensor([[1.0], [3.0], [-1.0]]), torch.tensor([1.0, 1.0, -1.0])
    hard = gram_svm(x @ x.T, y, penalty=1e-3)
    torch.testing.assert_close(hard(torch.tensor([[2.0], [-4.0]]) @ x.T)[:, 0], torch.tensor([2.0, -4.0]).double())
    pair, labels = torch.tensor([[1.0], [-1.0]]), torch.tensor([1.0, -1.0])
    # both multipliers at C: w = 2 C, the margin is missed by both, b = 0 by symmetry
    soft = gram_svm(pair @ pair.T, labels, penalty=2.0)
    torch.testing.assert_close(soft(pair @ pair.T)[:, 0], torch.tensor([0.5, -0.5]).double())


@pytest.mark.parametrize("penalty", [0.01, 0.3, 3.0])
def test_the_machine_is_scikit_learns_and_leaves_no_gap(penalty):
    (x, y), (new, _) = data(), data(9, "new")
    fit, labels = kernel_svm(rbf, x, signs(y), penalty=penalty), signs(y).double()
    theirs = SVC(C=1 / (2 * penalty), gamma=0.5, tol=1e-6).fit(x.numpy(), signs(y).numpy())
    np.testing.assert_allclose(fit(new)[:, 0].numpy(), theirs.decision_function(new.numpy()), atol=1e-5)
    # primal minus dual value of sum hinge + penalty ||f||^2, with a = y coefficients in [0, C]
    k, c = rbf(x, x), fit.scores.coefficients[:, 0]
    size = float(c @ k @ c)
    primal = float((1 - labels * fit(x)[:, 0]).clamp_min(0).sum()) + penalty * size
    dual = 2 * penalty * (float((labels * c).sum()) - size / 2)
    assert 0 <= primal - dual + 1e-9 < 1e-4 * primal
    assert float((labels * c).min()) >= 0
    assert float((labels * c).max()) <= 1 / (2 * penalty) + 1e-9


def test_machines_of_several_classes_are_one_against_the_rest():
    (x, _), (new, _) = data(), data(9, "new")
    y = classes(x)
    scores = kernel_svm(rbf, x, y, penalty=0.1)(new)
    for c in range(3):
        alone = kernel_svm(rbf, x, torch.where(y == c, 1.0, -1.0), penalty=0.1)(new)
        torch.testing.assert_close(scores[:, c], alone[:, 0], rtol=0, atol=1e-9)


def test_blocks_and_inputs_of_more_axes():
    x = torch.randn(8, 1, 3, 3, generator=Key("machines/images").torch(), dtype=torch.float64)
    y = signs(x[:, 0, 0, 0])
    fit = kernel_svm(conv_ntk, x, y, penalty=0.1, memory_mib=8 * 10 * 8 * 3 / 2**20)
    torch.testing.assert_close(fit(x), gram_svm(conv_ntk(x), y, penalty=0.1)(conv_ntk(x)), rtol=1e-6, atol=1e-6)
    assert fit(x[:0]).shape == (0, 1)


# selection ------------------------------------------------------------------------------------------------------------


def test_validation_chooses_the_smallest_error_of_the_whole_grid():
    (x, y), (xv, yv) = data(80), data(80, "validation")
    penalties, bandwidths = [1e-2, 1e-1, 1.0, 10.0], [0.1, 1.0, 3.0, 30.0]
    kernels = {b: partial(rbf, bandwidth=b) for b in bandwidths}
    fit, said = tuned(kernels, x, y, xv, yv, penalties=penalties)
    expected = {
        (b, p): float((kernel_ridge(kernels[b], x, y, penalty=p)(xv)[:, 0] - yv).square().mean())
        for b in bandwidths
        for p in penalties
    }
    assert said.errors.keys() == expected.keys()
    np.testing.assert_allclose(list(said.errors.values()), [expected[k] for k in said.errors], rtol=1e-8)
    assert (said.kernel, said.penalty) == min(expected, key=expected.get)
    assert not said.edge
    assert not said.tied
    torch.testing.assert_close(fit(xv), kernel_ridge(kernels[said.kernel], x, y, penalty=said.penalty)(xv))
    assert len(set(expected.values())) == len(expected)


def test_edges_ties_and_plateaus_are_said():
    (x, y), (xv, yv) = data(40), data(40, "validation")
    k, new = rbf(x, x), rbf(xv, x)
    low = tuned_gram({"k": (k, new)}, y, yv, penalties=[10.0, 100.0, 1000.0])
    assert low.penalty == 10.0
    assert low.edge
    assert not low.tied
    # one sample far away on its own side: right whatever the penalty
    far, labels = torch.tensor([[5.0], [-5.0]]), torch.tensor([1.0, -1.0])
    flat = tuned_gram({"k": (far @ far.T, far @ far.T)}, labels, labels, penalties=[3.0, 1.0, 2.0], learner="svm")
    assert flat.tied
    assert (flat.penalty, flat.error, flat.edge) == (2.0, 0.0, False)
    # the second kernel is blind, the third as good as the first: the first of the best, which is an end
    grams = {0: (k, new), 1: (torch.eye(40), torch.zeros(40, 40)), 2: (k, new)}
    assert tuned_gram(grams, y, yv, penalties=[0.1, 1.0, 10.0]).kernel == 0
    assert tuned_gram(grams, y, yv, penalties=[0.1, 1.0, 10.0]).edge


@pytest.mark.parametrize("learner", ["ridge", "svm"])
def test_class_labels_are_judged_by_the_share_of_wrong_ones(learner):
    (x, _), (xv, _) = data(50), data(30, "validation")
    y, yv = classes(x), classes(xv)
    fit, said = tuned({"rbf": rbf}, x, y, xv, yv, penalties=[0.1], learner=learner)
    assert said.error == float((fit(xv).argmax(1) != yv).double().mean())
    assert 0 < said.error < 0.4


def test_the_tangent_kernel_of_a_module_is_tuned_like_any_other():
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    (x, y), (xv, yv) = data(30), data(10, "validation")
    kernel = partial(empirical_ntk, net)
    fit, said = tuned({"tangent": kernel}, x, y, xv, yv, penalties=[0.1, 1.0])
    direct = gram_ridge(kernel(x), y, penalty=said.penalty)(kernel(xv, x))
    torch.testing.assert_close(fit(xv), direct, rtol=1e-7, atol=1e-9)


X, Y = data(6)
K = rbf(X, X)
REFUSED = [
    (lambda: gram_ridge(K[:, :5], Y, penalty=0.1), "k = "),
    (lambda: gram_ridge(K, Y[:5], penalty=0.1), "y = .*k = 6|k = a tensor"),
    (lambda: gram_ridge(K + torch.arange(6), Y, penalty=0.1), "kernel = not symmetric"),
    (lambda: gram_ridge(K - 2 * torch.eye(6), Y, penalty=0.1), "k = indefinite"),
    (lambda: gram_ridge(K, Y, penalty=-0.1), "penalty = -0.1"),
    (lambda: gram_ridge(K, torch.tensor([0, 1, -1, 0, 1, 2]), penalty=0.1), "labels from -1 to 2"),
    (lambda: gram_svm(K, Y, penalty=0.1), "y = .*-1 or \\+1"),
    (lambda: gram_svm(K, torch.ones(6), penalty=0.1), "one class alone"),
    (lambda: gram_svm(K, torch.tensor([0, 0, 2, 2, 2, 0]), penalty=0.1), "class 1 has none"),
    (lambda: gram_svm(K, signs(Y), penalty=0.0), "penalty = 0.0"),
    (lambda: tuned_gram({}, Y, Y, penalties=[0.1]), "grams = empty"),
    (lambda: tuned_gram({1: (K, K)}, Y, Y, penalties=[]), "penalties = empty"),
    (lambda: tuned_gram({1: (K, K)}, Y, Y, penalties=[1.0], learner="tree"), "learner = 'tree'"),
    (lambda: tuned_gram({1: (K, K)}, Y, Y[:5], penalties=[1.0]), r"grams\[1\] = .*validation"),
    (lambda: tuned_gram({1: (K, K)}, classes(X), classes(X) + 5, penalties=[1.0]), "y_validation = labels"),
]


@pytest.mark.parametrize("i", range(len(REFUSED)))
def test_what_cannot_be_learnt_is_refused_by_name_in_one_line(i):
    call, says = REFUSED[i]
    with pytest.raises(SettingError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_gram_matrix_that_is_not_finite_is_named():
    broken = K.clone()
    broken[1, 2] = float("nan")
    with pytest.raises(NotFiniteInput, match=r"k\[1, 2\] = nan"):
        gram_ridge(broken, Y, penalty=0.1)
