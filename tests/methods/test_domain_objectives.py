"""Objectives of domain generalisation against their formulas, on cases done by hand and by autograd."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from featlearn.core import Key, SettingError
from featlearn.methods.domains import (
    ChannelScales,
    Minibatch,
    State,
    coral,
    erm,
    group_dro,
    irm,
    miro,
    mixup,
    vrex,
    with_nuclear_norm,
)
from featlearn.methods.nuclear_norm import nuclear_norm

KEY = Key("tests/objectives")
STATE = State(KEY)


def head(weight):
    layer = nn.Linear(len(weight[0]), len(weight), bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weight))
    return layer


def batches(sizes=(4, 6, 5), d=3, classes=3):
    out = []
    for i, n in enumerate(sizes):
        draw = (KEY / "data" / i).torch()
        out.append(Minibatch(torch.randn(n, d, generator=draw), torch.randint(classes, (n,), generator=draw)))
    return out


def network(d=3, hidden=4, classes=3):
    draw = (KEY / "net").torch()
    featurizer, classifier = nn.Linear(d, hidden), nn.Linear(hidden, classes)
    with torch.no_grad():
        for p in (*featurizer.parameters(), *classifier.parameters()):
            p.copy_(torch.randn(p.shape, generator=draw))
    return featurizer, classifier


IDENTITY = nn.Identity()
# logits (0, ln 3): probabilities 1/4, 3/4
TWO = [
    Minibatch(torch.tensor([[0.0, math.log(3)]] * 2), torch.tensor([1, 1])),
    Minibatch(torch.tensor([[0.0, math.log(3)]] * 2), torch.tensor([0, 0])),
]
LOW, HIGH = math.log(4 / 3), math.log(4)  # their risks


def test_erm_by_hand():
    found = erm(IDENTITY, IDENTITY, TWO, STATE)
    assert float(found.loss) == pytest.approx((LOW + HIGH) / 2)
    assert found.features.shape == (4, 2)
    assert found.state.step == 1
    uneven = [Minibatch(TWO[0].x[:1], TWO[0].y[:1]), TWO[1]]
    assert float(erm(IDENTITY, IDENTITY, uneven, STATE).loss) == pytest.approx((LOW + 2 * HIGH) / 3)  # rows count alike


def test_vrex_by_hand():
    mean, variance = (LOW + HIGH) / 2, ((HIGH - LOW) / 2) ** 2
    early = vrex(IDENTITY, IDENTITY, TWO, STATE, weight=10.0, anneal=5)
    assert float(early.loss) == pytest.approx(mean + variance)
    late = vrex(IDENTITY, IDENTITY, TWO, State(KEY, step=5), weight=10.0, anneal=5)
    assert float(late.loss) == pytest.approx(mean + 10 * variance)
    assert (early.restart_optimizer, late.restart_optimizer) == (False, True)
    assert not vrex(IDENTITY, IDENTITY, TWO, State(KEY, step=6), anneal=5).restart_optimizer


def test_group_dro_by_hand():
    """Shares (1, 1) times (4/3, 4) at eta = 1: 1/4 and 3/4; again: 1/10 and 9/10."""
    first = group_dro(IDENTITY, IDENTITY, TWO, STATE, eta=1.0)
    torch.testing.assert_close(first.state.shares, torch.tensor([0.25, 0.75]))
    assert float(first.loss) == pytest.approx(LOW / 4 + 3 * HIGH / 4)
    second = group_dro(IDENTITY, IDENTITY, TWO, first.state, eta=1.0)
    torch.testing.assert_close(second.state.shares, torch.tensor([0.1, 0.9]))
    assert STATE.shares is None


def test_no_gradient_through_the_shares():
    scale = nn.Parameter(torch.tensor(1.0))
    scaled = [Minibatch(b.x, b.y) for b in TWO]

    class Scaled(nn.Module):
        def forward(self, x):
            return scale * x

    found = group_dro(Scaled(), IDENTITY, scaled, STATE, eta=1.0)
    (slope,) = torch.autograd.grad(found.loss, scale)
    ln3 = math.log(3)
    by_hand = 0.25 * (0.75 * ln3 - ln3) + 0.75 * (0.75 * ln3)
    assert float(slope) == pytest.approx(by_hand, rel=1e-5)


def test_irm_slope_is_that_of_autograd():
    featurizer, classifier = network()
    found = irm(featurizer, classifier, batches(), State(KEY, step=9), weight=7.0, anneal=5)
    risks, products = [], []
    for batch in batches():
        logits = classifier(featurizer(batch.x))
        scale = torch.tensor(1.0, requires_grad=True)
        slopes = [
            torch.autograd.grad(
                functional.cross_entropy(scale * logits[i::2], batch.y[i::2]), scale, create_graph=True
            )[0]
            for i in (0, 1)
        ]
        products.append(slopes[0] * slopes[1])
        risks.append(functional.cross_entropy(logits, batch.y))
    by_hand = torch.stack(risks).mean() + 7 * torch.stack(products).mean()
    torch.testing.assert_close(found.loss, by_hand)
    ours = torch.autograd.grad(found.loss, featurizer.weight)[0]
    torch.testing.assert_close(ours, torch.autograd.grad(by_hand, featurizer.weight)[0])
    before = irm(featurizer, classifier, batches(), State(KEY, step=4), weight=7.0, anneal=5)
    torch.testing.assert_close(before.loss, torch.stack(risks).mean() + torch.stack(products).mean())


def test_coral_by_hand():
    """Features 1, 3 and 0, 4 in one column: means 2 and 2, variances 2 and 8; the other column is constant."""
    one = Minibatch(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([0, 1]))
    other = Minibatch(torch.tensor([[0.0, 6.0], [4.0, 6.0]]), torch.tensor([0, 1]))
    found = coral(IDENTITY, IDENTITY, [one, other], STATE, weight=3.0)
    means, covariances = (0 + 1) / 2, 36 / 4
    assert float(found.parts["coral"]) == pytest.approx(means + covariances)
    risk = float(found.parts["risk"])
    assert float(found.loss) == pytest.approx(risk + 3 * (means + covariances))
    three = coral(IDENTITY, IDENTITY, [one, other, one], STATE)
    assert float(three.parts["coral"]) == pytest.approx(2 / 3 * (means + covariances))  # two of three pairs differ


def test_mixup_of_two_domains_by_hand():
    featurizer, classifier = network()
    a, b = batches((4, 6))
    found = mixup(featurizer, classifier, [a, b], STATE, alpha=0.7)
    draw = (KEY / "mixup" / 0).numpy()
    order, shares = draw.permutation(2), draw.beta(0.7, 0.7, size=2)
    pairs = [(a, b), (b, a)] if order[0] == 0 else [(b, a), (a, b)]
    losses = []
    for (p, q), s in zip(pairs, shares.tolist(), strict=True):
        logits = classifier(featurizer(s * p.x[:4] + (1 - s) * q.x[:4]))
        losses.append(
            s * functional.cross_entropy(logits, p.y[:4]) + (1 - s) * functional.cross_entropy(logits, q.y[:4])
        )
    torch.testing.assert_close(found.loss, torch.stack(losses).mean())
    assert found.features.shape == (8, 4)
    assert not torch.equal(found.loss, mixup(featurizer, classifier, [a, b], found.state, alpha=0.7).loss)


def test_each_domain_is_mixed_once_as_first_and_once_as_second():
    eye = torch.eye(3)
    one_row = [Minibatch(eye[i : i + 1], torch.tensor([i])) for i in range(3)]
    for step in range(20):
        features = mixup(IDENTITY, IDENTITY, one_row, State(KEY, step=step), alpha=1.0).features
        torch.testing.assert_close(features.sum(1), torch.ones(3))
        assert (features > 0).sum(0).tolist() == [2, 2, 2]
        assert features.diagonal().sum() <= features.sum()
        assert ((features > 0).sum(1) == 2).all()


class Staged(nn.Module):
    """Maps (n, 2, 1, 1) and features (n, 2)."""

    def __init__(self, factor):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def stages(self, x):
        x = self.factor * x
        return x[:, :, None, None], x

    def forward(self, x):
        return self.stages(x)[-1]


def test_miro_by_hand():
    """z = 2 x, z0 = x, variances v: the penalty is the mean of (x^2 / v + log v) / 2 over rows and channels."""
    x = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
    batch = Minibatch(x, torch.tensor([0, 1]))
    scales = ChannelScales([torch.zeros(1, 2, 1, 1)], start=0.5)
    torch.testing.assert_close(scales()[0], torch.tensor([0.5, 0.5]))
    featurizer = Staged(2.0)
    found = miro(featurizer, IDENTITY, [batch], STATE, pretrained=Staged(1.0), scales=scales, weight=0.1)
    penalty = (torch.tensor([1.0, 4.0, 9.0, 0.0]) / 0.5 + math.log(0.5)).mean() / 2
    torch.testing.assert_close(found.parts["miro"], penalty)
    torch.testing.assert_close(found.loss, functional.cross_entropy(2 * x, batch.y) + 0.1 * penalty)
    found.loss.backward()
    assert scales.b[0].grad.abs().min() > 0
    assert featurizer.factor.grad is not None
    with pytest.raises(SettingError, match="stages"):
        miro(nn.Linear(2, 2), IDENTITY, [batch], STATE, pretrained=Staged(1.0), scales=scales)


# --- with the nuclear norm -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", [erm, mixup, coral, irm, vrex, group_dro])
def test_the_nuclear_norm_is_added_to_any_objective(objective):
    featurizer, classifier = network()
    plain = objective(featurizer, classifier, batches(), State(KEY, step=3))
    both = with_nuclear_norm(objective, 0.3, start=3)(featurizer, classifier, batches(), State(KEY, step=3))
    rows = len(plain.features)
    norm = torch.linalg.svdvals(plain.features).sum() / rows
    torch.testing.assert_close(both.loss, plain.loss + 0.3 * norm)
    assert rows == (15 if objective is not mixup else sum(min(*p) for p in _cycle(3)))
    early = with_nuclear_norm(objective, 0.3, start=4)(featurizer, classifier, batches(), State(KEY, step=3))
    assert torch.equal(early.loss, plain.loss)
    same = [both.state.step, early.state.step]
    assert same == [4, 4]


def _cycle(step):
    sizes = (4, 6, 5)
    order = (KEY / "mixup" / step).numpy().permutation(3)
    return [(sizes[i], sizes[j]) for i, j in zip(order, np.roll(order, -1), strict=True)]


def test_the_gradient_of_the_penalty_reaches_the_featurizer_alone():
    featurizer, classifier = network()
    for weight in (0.0, 0.5):
        featurizer.zero_grad()
        classifier.zero_grad()
        with_nuclear_norm(erm, weight, start=0, reduction="sum")(
            featurizer, classifier, batches(), STATE
        ).loss.backward()
        if not weight:
            before, head_before = featurizer.weight.grad.clone(), classifier.weight.grad.clone()
    torch.testing.assert_close(classifier.weight.grad, head_before)
    x = torch.cat([b.x for b in batches()])
    (slope,) = torch.autograd.grad(nuclear_norm(featurizer(x), "sum"), featurizer.weight)
    torch.testing.assert_close(featurizer.weight.grad, before + 0.5 * slope)


@pytest.mark.parametrize("words", [{"weight": -0.1}, {"weight": math.inf}, {"weight": math.nan}, {"start": -1}])
def test_a_negative_weight_is_refused(words):
    with pytest.raises(SettingError, match="0 or more"):
        with_nuclear_norm(erm, **words)


def test_weight_zero_is_the_objective_itself():
    assert with_nuclear_norm(erm, 0.0) is erm


# --- too few -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", [coral, vrex])
def test_objectives_between_domains_refuse_one(objective):
    with pytest.raises(SettingError, match=r"training domains = 1 .* at least 2"):
        objective(*network(), batches((4,)), STATE)


@pytest.mark.parametrize("objective", [coral, irm])
def test_statistics_of_one_row_are_refused(objective):
    with pytest.raises(SettingError, match=r"batch = 1 .* at least 2 rows"):
        objective(*network(), batches((4, 1)), STATE)


def test_states_are_values():
    with pytest.raises(dataclasses.FrozenInstanceError):
        STATE.step = 3
