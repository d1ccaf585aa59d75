"""Shares of labels, linear probes on frozen features, and fine-tuning with and without a regulariser."""

import copy
import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn import (
    Adaptation,
    ImageViews,
    NoiseViews,
    fine_tune,
    fine_tuning,
    frozen,
    label_share,
    label_split,
    linear_probe,
    probing,
)
from featlearn.learn.adaptation import batches_of
from featlearn.methods import contrastive_regulariser
from featlearn.nets import SmallEncoder

KEY = Key("tests/adaptation")


def blobs(n=60, d=5, classes=3, apart=3.0):
    y = torch.arange(n) % classes
    centres = apart * torch.eye(d)[:classes]
    return centres[y] + torch.randn(n, d, generator=(KEY / "blobs").torch()), y


# shares of labels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.2, 1.0])
def test_shares_are_stratified_nested_and_of_the_key(share):
    y = torch.cat([torch.full((n,), c) for c, n in enumerate((400, 200, 60))])[torch.randperm(660)]
    rows = label_share(y, share, KEY)
    assert y[rows].bincount().tolist() == [int(share * n + 0.5) for n in (400, 200, 60)]
    assert rows.tolist() == sorted(set(rows.tolist()))
    assert torch.equal(rows, label_share(y, share, KEY))
    assert set(rows.tolist()) <= set(label_share(y, min(2 * share, 1.0), KEY).tolist())
    assert share == 1 or not torch.equal(rows, label_share(y, share, KEY / 1))


def test_a_share_that_leaves_a_class_empty_names_it_and_what_would_do():
    y = torch.cat([torch.zeros(400), torch.ones(40)]).long()
    with pytest.raises(SettingError) as e:
        label_share(y, 0.01, KEY)
    assert str(e.value) == (
        "share = 0.01 is not allowed: enough for one of the 40 labels of class 1; raise it to 0.0125 or more"
    )
    assert label_share(y, 0.0125, KEY).numel() == 6
    for bad in (0.0, -0.1, 1.5, math.inf):
        with pytest.raises(SettingError, match=r"^share"):
            label_share(y, bad, KEY)


def test_a_split_has_every_class_on_both_sides_and_refuses_a_single_label():
    y = torch.tensor([0] * 10 + [1] * 2 + [2] * 5)
    train, held = label_split(y, 0.2, KEY)
    assert sorted([*train.tolist(), *held.tolist()]) == list(range(17))
    assert y[held].bincount().tolist() == [2, 1, 1]
    assert y[label_split(y, 0.9, KEY)[0]].bincount().tolist() == [1, 1, 1]
    with pytest.raises(SettingError, match=r"^y = with a single label of class 3 is not allowed"):
        label_split(torch.cat([y, torch.tensor([3])]), 0.2, KEY)


def test_a_class_with_a_single_label_can_be_learned_from():
    x, y = blobs(61)
    y = torch.where(torch.arange(61) == 60, 3, y)
    x[60] = torch.tensor([0, 0, 0, 9.0, 0])
    found = linear_probe(
        nn.Identity(), x, y, Adaptation(solver="lbfgs", weight_decay=1e-3), key=KEY, watch={"it": (x[60:], y[60:])}
    )
    assert found.accuracy == {"it": 1.0}


# frozen means frozen --------------------------------------------------------------------------------------------------


class Moves(nn.Module):
    """A layer that changes something in every pass, whatever its mode."""

    def __init__(self, what):
        super().__init__()
        self.what = what
        self.weight = nn.Parameter(torch.ones(5))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        if self.what == "weight":
            with torch.no_grad():
                self.weight.add_(1)
        if self.what == "seen":
            self.seen += 1
        if self.what == "mode":
            self.train()
        if self.what == "raise":
            raise KeyboardInterrupt
        return x * self.weight


def pass_of(net):
    with frozen(net):
        net(blobs()[0])


@pytest.mark.parametrize("what", ["weight", "seen", "mode"])
def test_an_encoder_that_a_pass_changes_is_refused_and_put_back(what):
    net = nn.Sequential(nn.BatchNorm1d(5), Moves(what)).train()
    before, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    with pytest.raises(SettingError, match=rf"^encoder = one whose pass changes (the mode of 1|1.{what}) is") as e:
        pass_of(net)
    assert "\n" not in str(e.value)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert [m.training for m in net.modules()] == modes


def test_an_exception_inside_is_not_covered_and_all_comes_back():
    net = nn.Sequential(nn.BatchNorm1d(5), Moves("weight")).train()
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(KeyboardInterrupt):
        pass_of(nn.Sequential(net, Moves("raise")))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert all(m.training for m in net.modules())


def test_a_probe_changes_nothing_of_the_encoder():
    net = SmallEncoder(1, KEY, width=4, features=8)
    net.convolutions[0].eval()
    before, modes = copy.deepcopy(net.state_dict()), [m.training for m in net.modules()]
    x = torch.rand(20, 1, 8, 8, generator=KEY.torch())
    state = torch.get_rng_state()
    found = linear_probe(net, x, torch.arange(20) % 2, probing(epochs=3), key=KEY)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    assert [m.training for m in net.modules()] == modes
    assert all(p.grad is None for p in net.parameters())
    assert found.logits(x).shape == (20, 2)


# linear probes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standardise", [False, True])
def test_lbfgs_reaches_the_minimum_where_the_gradient_is_zero(standardise):
    x, y = blobs()
    x = x * torch.tensor([1.0, 10.0, 0.1, 1.0, 1.0]) + 4
    settings = Adaptation(solver="lbfgs", weight_decay=0.01, standardise=standardise)
    found = linear_probe(nn.Identity(), x, y, settings, key=KEY, watch={"train": (x, y)})
    centre, scale = (x.double().mean(0), x.double().std(0, unbiased=False)) if standardise else (0.0, 1.0)
    z = (x.double() - centre) / scale
    w = (found.head.weight.double() * scale).detach().requires_grad_()
    b = (
        (found.head.bias.double() + found.head.weight.double() @ (centre * torch.ones(5).double()))
        .detach()
        .requires_grad_()
    )
    (functional.cross_entropy(z @ w.T + b, y) + 0.01 * w.square().sum() / 2).backward()
    assert float(w.grad.abs().max()) < 1e-5
    assert float(b.grad.abs().max()) < 1e-5
    assert found.accuracy["train"] > 0.9


def test_the_sgd_probe_comes_near_the_minimum():
    x, y = blobs()
    exact = linear_probe(nn.Identity(), x, y, Adaptation(solver="lbfgs", weight_decay=0.02), key=KEY)
    sgd = linear_probe(nn.Identity(), x, y, Adaptation(epochs=200, rate=1.0, batch=60, weight_decay=0.02), key=KEY)
    both = [functional.cross_entropy(f.logits(x), y) + 0.01 * f.head.weight.square().sum() for f in (exact, sgd)]
    assert float((both[1] - both[0]).detach()) < 1e-2  # sgd has weight decay on its bias too
    assert sgd.loss[0] > sgd.loss[-1]


def test_probes_are_of_the_key_and_of_all_rows():
    x, y = blobs(61)
    first, again, other = (
        linear_probe(nn.Identity(), x, y, probing(epochs=2, batch=20), key=k) for k in (KEY, KEY, KEY / 1)
    )
    assert first.loss == again.loss != other.loss
    assert [len(b) for b in batches_of(torch.arange(61), 20)] == [20, 20, 21]
    assert [len(b) for b in batches_of(torch.arange(62), 20)] == [20, 20, 20, 2]
    assert torch.equal(torch.cat(batches_of(torch.arange(61), 20)), torch.arange(61))


# fine-tuning ----------------------------------------------------------------------------------------------------------


def tuned(weight=0.0, regulariser=contrastive_regulariser, **more):
    x, y = blobs()
    net = nn.Linear(5, 4, dtype=torch.float32)
    with torch.no_grad():
        net.weight.copy_(torch.randn(4, 5, generator=KEY.torch()))
        net.bias.zero_()
    given = {"settings": fine_tuning(epochs=3, batch=16), "key": KEY, "views": NoiseViews(), "watch": {"train": (x, y)}}
    return net, fine_tune(net, x, y, regulariser=regulariser, weight=weight, **{**given, **more})


def test_weight_zero_is_plain_fine_tuning_to_the_bit():
    _, plain = tuned(regulariser=None)
    _, zero = tuned(weight=0.0, regulariser=lambda a, b: pytest.fail("it is computed"))
    assert plain.loss == zero.loss == plain.task
    assert all(torch.equal(v, zero.encoder.state_dict()[k]) for k, v in plain.encoder.state_dict().items())


def test_a_step_is_that_of_the_equation():
    """One step without momentum moves the weights by the gradient of cross entropy plus weight times regulariser."""
    x, y = blobs(6)
    net, views = nn.Linear(5, 4), NoiseViews()
    settings = Adaptation(epochs=1, batch=256, rate=0.1, momentum=0.0, weight_decay=0.0)
    found = fine_tune(net, x, y, settings, key=KEY, views=views, regulariser=contrastive_regulariser, weight=0.7)
    start = fine_tune(net, x, y, Adaptation(epochs=1, rate=1e-30, momentum=0.0, weight_decay=0.0), key=KEY, views=views)
    own = copy.deepcopy(net)
    head = copy.deepcopy(start.head)  # the start, since the rate was next to nothing
    order = torch.from_numpy((KEY / "epoch" / 0 / "order").numpy().permutation(6))
    v1, v2 = (views(x[order], KEY / "epoch" / 0 / 0 / i) for i in (0, 1))
    task = functional.cross_entropy(head(own(v1)), y[order])
    whole = task + 0.7 * contrastive_regulariser(own(v1), own(v2))
    whole.backward()
    torch.testing.assert_close(found.encoder.weight, net.weight - 0.1 * own.weight.grad)
    torch.testing.assert_close(found.head.weight, head.weight.detach() - 0.1 * head.weight.grad)
    assert found.task[0] == pytest.approx(float(task.detach()), rel=1e-6)
    assert found.loss[0] == pytest.approx(float(whole.detach()), rel=1e-6)


def test_fine_tuning_leaves_the_encoder_and_the_random_state():
    x, y = blobs()
    net = nn.Linear(5, 4)
    before, state = net.weight.clone(), torch.get_rng_state()
    given = {"views": NoiseViews(), "regulariser": contrastive_regulariser, "weight": 1.0}
    fine_tune(net, x, y, fine_tuning(epochs=1), key=KEY, **given)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(net.weight, before)
    net, found = tuned(weight=1.0)
    assert not torch.equal(net.weight, found.encoder.weight)
    assert found.loss[0] > found.task[0]
    assert found.accuracy["train"] > 0.5
    assert found.loss == tuned(weight=1.0)[1].loss


def test_every_step_has_views_of_its_own():
    keys = []

    def views(x, key):
        keys.append(key)
        return x

    x, y = blobs()
    fine_tune(nn.Linear(5, 4), x, y, fine_tuning(epochs=2, batch=20), key=KEY, views=views)
    assert len(set(keys)) == len(keys) == 1 + 2 * 3  # one look at the shape, then one a step


def test_both_views_can_have_the_task():
    x, y = blobs(6)
    seen = []

    class Net(nn.Linear):
        def forward(self, v):
            seen.append(len(v))
            return super().forward(v)

    fine_tune(Net(5, 4), x, y, fine_tuning(epochs=1, task_views=2), key=KEY, views=NoiseViews())
    assert seen == [2, 6, 6]  # the first looks at the shape
    seen.clear()
    fine_tune(Net(5, 4), x, y, fine_tuning(epochs=1), key=KEY, views=NoiseViews())
    assert seen == [2, 6]


@pytest.mark.parametrize(
    "change, said",
    [
        ({"weight": -1.0}, "weight = -1.0 is not allowed: 0 or more"),
        ({"weight": math.nan}, "weight = nan"),
        ({"weight": 1.0, "regulariser": None}, "weight = 1.0 is not allowed: 0 without a regulariser"),
        (
            {"weight": 1.0, "regulariser": contrastive_regulariser, "x": torch.ones(1, 5), "y": torch.tensor([0])},
            "x = one input",
        ),
        ({"y": torch.zeros(5).long()}, "y = a tensor of shape (5,) is not allowed: (n) with n = 60 as in x"),
        ({"y": torch.arange(60) - 1}, "y = classes -1 to 58 is not allowed: class indices from 0"),
        ({"classes": 2}, "y = classes 0 to 2 is not allowed: classes 0 to 1"),
        ({"watch": {"test": (torch.ones(2, 5), torch.tensor([0, 7]))}}, "watch['test'] = classes 0 to 7"),
        ({"watch": {"test": (torch.ones(0, 5), torch.ones(0).long())}}, "watch['test'] = no rows"),
        ({"settings": Adaptation(solver="lbfgs")}, "solver = 'lbfgs' is not allowed: 'sgd' for fine-tuning"),
        ({"views": ImageViews()}, "images = of shape (60, 5) is not allowed"),
        ({"encoder": nn.Linear(4, 4)}, "images = of shape (n, 5) is not allowed: what the encoder takes"),
    ],
)
def test_what_cannot_be_fine_tuned_is_refused(change, said):
    x, y = blobs()
    given = {"encoder": nn.Linear(5, 4), "x": x, "y": y, "settings": fine_tuning(epochs=1), "key": KEY, **change}
    with pytest.raises(SettingError, match="^" + re.escape(said)) as e:
        fine_tune(**given)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "changed", [{"epochs": 0}, {"batch": 0}, {"rate": 0.0}, {"weight_decay": -1.0}, {"momentum": 1.0}]
)
def test_settings_that_cannot_be_are_refused(changed):
    (field,) = changed
    with pytest.raises(SettingError, match=f"^{field} = "):
        Adaptation(**changed)


def test_divergence_says_its_epoch():
    x, y = blobs()
    with pytest.raises(Diverged, match="in epoch"):
        fine_tune(nn.Linear(5, 4), x, y, Adaptation(epochs=4, rate=1e30), key=KEY)
