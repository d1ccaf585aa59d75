"""DANN and SAM, with the nuclear norm and without: one step in float64 against formulas and central differences."""

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from featlearn.apply.domains.balance import weighted
from featlearn.core import Key, SettingError
from featlearn.methods.domains import (
    Algorithm,
    Minibatch,
    Settings,
    State,
    build,
    dann,
    domain_discriminator,
    erm,
    sharpness_aware,
    with_nuclear_norm,
)

KEY = Key("tests/steps")
SIZES = (4, 5, 6)


def problem():
    """Weights of featurizer, head and discriminator, all without shifts; rows of three domains."""
    draw = (KEY / "problem").numpy()
    w = {"f": draw.standard_normal((4, 3)), "c": draw.standard_normal((3, 4)), "d": draw.standard_normal((3, 4))}
    return w, [draw.standard_normal((n, 3)) for n in SIZES], [draw.integers(0, 3, n) for n in SIZES]


def modules(w):
    out = []
    for value in w.values():
        layer = nn.Linear(value.shape[1], value.shape[0], bias=False).double()
        layer.weight = nn.Parameter(torch.tensor(value))
        out.append(layer)
    return nn.Sequential(out[0], nn.Tanh()), out[1], out[2]


def minibatches(xs, ys):
    return [Minibatch(torch.tensor(x), torch.tensor(y)) for x, y in zip(xs, ys, strict=True)]


def cross(z, y):
    return (np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]).mean()


def risk(w, xs, ys):
    return np.mean([cross(np.tanh(x @ w["f"].T) @ w["c"].T, y) for x, y in zip(xs, ys, strict=True)])


def pooled(w, xs, ys, weight=0.0):
    f = np.tanh(np.concatenate(xs) @ w["f"].T)
    return cross(f @ w["c"].T, np.concatenate(ys)) + weight * np.linalg.svd(f, compute_uv=False).sum() / len(f)


def told(w, xs, ys):
    f = np.tanh(np.concatenate(xs) @ w["f"].T)
    return cross(f @ w["d"].T, np.repeat(np.arange(3), SIZES))


def nuclear(w, xs):
    f = np.tanh(np.concatenate(xs) @ w["f"].T)
    return np.linalg.svd(f, compute_uv=False).sum() / len(f)


def slope(value, w, name):
    """Central differences in each entry."""
    out = np.zeros_like(w[name])
    for place in np.ndindex(*out.shape):
        both = []
        for sign in (1, -1):
            moved = {k: v.copy() for k, v in w.items()}
            moved[name][place] += sign * 1e-5
            both.append(value(moved))
        out[place] = (both[0] - both[1]) / 2e-5
    return out


@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_a_step_of_dann(weight):
    w, xs, ys = problem()
    featurizer, classifier, judge = modules(w)
    objective = with_nuclear_norm(partial(dann, discriminator=judge, weight=0.7), weight, start=0)
    outcome = objective(featurizer, classifier, minibatches(xs, ys), State(KEY))
    outcome.loss.backward()
    expected = risk(w, xs, ys) + told(w, xs, ys) + weight * nuclear(w, xs)
    assert float(outcome.loss.detach()) == pytest.approx(expected, rel=1e-12)
    found = {"f": featurizer[0].weight.grad, "c": classifier.weight.grad, "d": judge.weight.grad}
    right = {
        "f": slope(lambda v: risk(v, xs, ys) - 0.7 * told(v, xs, ys) + weight * nuclear(v, xs), w, "f"),
        "c": slope(lambda v: risk(v, xs, ys), w, "c"),
        "d": slope(lambda v: told(v, xs, ys), w, "d"),
    }
    for name, value in right.items():
        np.testing.assert_allclose(found[name].numpy(), value, atol=1e-8)
    assert outcome.state.step == 1


def test_weights_of_classes_are_none_of_domains():
    w, xs, ys = problem()
    featurizer, classifier, judge = modules(w)
    weights = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    objective = weighted(partial(dann, discriminator=judge), weights)
    outcome = objective(featurizer, classifier, minibatches(xs, ys), State(KEY))
    assert float(outcome.parts["dann"].detach()) == pytest.approx(told(w, xs, ys), rel=1e-12)
    assert float(outcome.parts["risk"].detach()) != pytest.approx(risk(w, xs, ys), rel=1e-3)


@pytest.mark.parametrize("weight", [0.0, 0.05])
def test_a_step_of_sam(weight):
    """The gradient at w + rho g / |g| over all weights, applied at w: the weights are where they were."""
    w, xs, ys = problem()
    w.pop("d")
    both = {**w, "d": np.zeros((3, 4))}
    featurizer, classifier, _ = modules(both)
    objective = sharpness_aware(with_nuclear_norm(erm, weight, start=0), rho=0.1)
    outcome = objective(featurizer, classifier, minibatches(xs, ys), State(KEY))
    outcome.loss.backward()

    def loss(v):
        return pooled(v, xs, ys, weight)

    g = {name: slope(loss, w, name) for name in w}
    length = np.sqrt(sum((v**2).sum() for v in g.values()))
    moved = {name: v + 0.1 * g[name] / length for name, v in w.items()}
    assert float(outcome.loss.detach()) == pytest.approx(loss(moved), rel=1e-8)
    for name, layer in (("f", featurizer[0]), ("c", classifier)):
        np.testing.assert_allclose(layer.weight.detach().numpy(), w[name], atol=0)
        np.testing.assert_allclose(layer.weight.grad.numpy(), slope(loss, moved, name), atol=1e-7)
        assert np.abs(layer.weight.grad.numpy() - g[name]).max() > 1e-3  # not the plain gradient


def test_sam_moves_what_learns_alone():
    w, xs, ys = problem()
    featurizer, classifier, _ = modules(w)
    featurizer.requires_grad_(False)
    outcome = sharpness_aware(erm, rho=0.1)(featurizer, classifier, minibatches(xs, ys), State(KEY))
    outcome.loss.backward()
    features = torch.tanh(torch.tensor(np.concatenate(xs) @ w["f"].T))
    torch.testing.assert_close(outcome.features, features)
    still = sharpness_aware(erm, rho=0.0)(featurizer, classifier, minibatches(xs, ys), State(KEY))
    assert float(still.loss.detach()) == pytest.approx(pooled(w, xs, ys), rel=1e-12)


def test_build_puts_sam_around_the_nuclear_norm_and_starts_a_discriminator_from_the_key():
    w, xs, ys = problem()
    featurizer, classifier, _ = modules(w)
    settings = Settings(nuclear_weight=0.05, nuclear_start=0.0, sam_rho=0.1)
    x = minibatches(xs, ys)
    made = build(Algorithm("sam", nuclear=True), settings, 60, 3, featurizer, x[0].x)
    expected = sharpness_aware(with_nuclear_norm(erm, 0.05, start=0), 0.1)
    found = [f(featurizer, classifier, x, State(KEY)).loss.detach() for f in (made.objective, expected)]
    assert torch.equal(*found)
    starts = [
        build(Algorithm("dann"), Settings(), 60, 3, featurizer, x[0].x, key=k).extra[0]
        for k in (KEY, KEY, KEY / "other")
    ]
    assert [factor for _, factor in starts] == [1.0] * 3
    first, same, other = (m[0].weight for m, _ in starts)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert [tuple(p.shape) for p in starts[0][0].parameters()][::2] == [(256, 4), (256, 256), (3, 256)]


def test_what_dann_and_sam_refuse():
    w, xs, ys = problem()
    featurizer, classifier, judge = modules(w)
    x = minibatches(xs, ys)
    with pytest.raises(SettingError, match="at least 2 for DANN"):
        dann(featurizer, classifier, x[:1], State(KEY), discriminator=judge)
    with pytest.raises(SettingError, match="dann weight"):
        dann(featurizer, classifier, x, State(KEY), discriminator=judge, weight=-1.0)
    with pytest.raises(SettingError, match="sam rho"):
        sharpness_aware(erm, float("nan"))
    with pytest.raises(SettingError, match="at least 2 for dann"):
        build(Algorithm("dann"), Settings(), 60, 1, featurizer, x[0].x)
    with pytest.raises(SettingError, match="sam_rho"):
        dataclasses.replace(Settings(), sam_rho=-0.1)
    assert domain_discriminator(4, 2, KEY, width=8, depth=1)[0].weight.shape == (2, 4)
