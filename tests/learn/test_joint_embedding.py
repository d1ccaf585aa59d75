"""MoCo v3, BYOL and Barlow Twins: losses against formulas written out, slow copies, chance, collapse, checkpoints."""

import copy
import math

import pytest
import torch
from torch import nn

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn.contrastive import (
    Contrastive,
    JointEmbedding,
    JointObjective,
    NoiseViews,
    pretrain,
    pretrain_across,
)
from featlearn.learn.contrastive.checkpoints import read
from featlearn.nets import SmallEncoder, SmallResNet, SmallViT

KEY = Key("tests/joint")
METHODS = ("mocov3", "byol", "barlow")


def images(n=48, channels=1, size=8):
    return torch.rand(n, channels, size, size, generator=(KEY / "images").torch())


def encoder(channels=1):
    return SmallEncoder(channels, KEY / "net", width=4, features=8)


def linear(features):
    """A linear encoder with weights from the key."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, features))
    with torch.no_grad():
        net[1].weight.copy_(torch.randn(features, 64, generator=(KEY / "linear").torch()) / 14)
        net[1].bias.zero_()
    return net


def settings(method="mocov3", **changed):
    return JointEmbedding(**{"method": method, "epochs": 2, "batch": 16, "dim": 8, **changed})


def rows(*shape, name="z"):
    return torch.randn(*shape, generator=(KEY / name).torch(), dtype=torch.float64)


def cosine(a, b):
    a, b = [float(v) for v in a], [float(v) for v in b]
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Linear(nn.Module):
    """An encoder of vectors whose weights are the identity, so that a slow copy starts as the same map."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))

    def forward(self, x):
        return x @ self.weight


def bare(method, **changed):
    """An objective without heads: what the loss itself does with two embeddings."""
    objective = JointObjective(Linear(), 3, settings(method, dim=3, **changed), KEY)
    objective.projection, objective.prediction = nn.Identity(), nn.Identity()
    if method != "barlow":
        objective.slow = nn.Sequential(copy.deepcopy(objective.encoder), nn.Identity()).requires_grad_(False)
    return objective


# losses ---------------------------------------------------------------------------------------------------------------


def test_mocov3_looks_for_the_key_of_the_other_view_in_the_batch():
    one, two, t = rows(5, 3), rows(5, 3, name="other"), 0.3

    def one_way(q, k):
        parts = [[math.exp(cosine(a, b) / t) for b in k] for a in q]
        return -sum(math.log(parts[i][i] / sum(parts[i])) for i in range(5)) / 5

    found = bare("mocov3", temperature=t)(one.float(), two.float())
    assert float(found.loss.detach()) == pytest.approx((one_way(one, two) + one_way(two, one)) / 2, rel=1e-5)
    assert float(found.loss.detach()) != pytest.approx(one_way(one, two), rel=1e-3)
    torch.testing.assert_close(found.first, one.float())
    torch.testing.assert_close(found.second, two.float())


def test_byol_is_minus_the_cosine_with_the_slow_copy_both_ways():
    one, two = rows(4, 3), rows(4, 3, name="other")
    objective = bare("byol")
    with torch.no_grad():
        objective.slow[0].weight.mul_(torch.tensor([1.0, 2.0, -1.0]))
    objective.keep = 1.0  # it stays as it is
    slow = (two * torch.tensor([1.0, 2.0, -1.0]), one * torch.tensor([1.0, 2.0, -1.0]))
    wanted = -sum(cosine(a, b) for a, b in zip([*one, *two], [*slow[0], *slow[1]], strict=True)) / 8
    assert float(objective(one.float(), two.float()).loss.detach()) == pytest.approx(wanted, rel=1e-5)


def test_barlow_is_its_cross_correlation_written_out():
    one, two = rows(6, 3), rows(6, 3, name="other")

    def columns(z):
        out = []
        for j in range(3):
            values = [float(v) for v in z[:, j]]
            mean = sum(values) / 6
            scale = math.sqrt(sum((v - mean) ** 2 for v in values) / 6 + 1e-5)
            out.append([(v - mean) / scale for v in values])
        return out

    a, b = columns(one), columns(two)
    c = [[sum(x * y for x, y in zip(p, q, strict=True)) / 6 for q in b] for p in a]
    on = sum((1 - c[j][j]) ** 2 for j in range(3))
    off = sum(c[i][j] ** 2 for i in range(3) for j in range(3) if i != j)
    found = float(bare("barlow", redundancy=0.2)(one.float(), two.float()).loss.detach())
    assert found == pytest.approx(on + 0.2 * off, rel=1e-4)
    assert found != pytest.approx(on, rel=1e-2)


@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_is_that_of_the_loss_with_keys_that_are_constants(method):
    """Barlow Twins has a gradient in both views; the keys of the others have none."""
    one, two = rows(4, 3).float(), rows(4, 3, name="other").float()
    objective = bare(method)
    objective.keep = 1.0
    objective(one, two).loss.backward()
    weight, losses, step = objective.encoder.weight, [], 1e-2
    for sign in (1, -1):
        with torch.no_grad():
            weight[0, 1] += sign * step
            losses.append(float(objective(one, two).loss))
            weight[0, 1] -= sign * step
    assert float(weight.grad[0, 1]) == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-2, abs=1e-4)
    assert abs(float(weight.grad[0, 1])) > 1e-3
    if method != "barlow":
        assert all(p.grad is None for p in objective.slow.parameters())


def test_the_slow_copy_keeps_its_share_and_the_share_rises_to_one():
    objective = JointObjective(encoder(), 8, settings("byol"), KEY)
    before = [p.clone() for p in objective.slow.parameters()]
    with torch.no_grad():
        for p in (*objective.encoder.parameters(), *objective.projection.parameters()):
            p.add_(1.0)
    fast = [p.detach().clone() for p in (*objective.encoder.parameters(), *objective.projection.parameters())]
    objective.keep = 0.75
    objective(images(8), images(8))
    for slow, old, new in zip(objective.slow.parameters(), before, fast, strict=True):
        torch.testing.assert_close(slow.detach(), 0.75 * old + 0.25 * new)
    chosen = settings("mocov3", slow=0.9)
    assert chosen.slow_at(0, 40) == pytest.approx(0.9)
    assert chosen.slow_at(20, 40) == pytest.approx(0.95)
    assert chosen.slow_at(40, 40) == 1
    assert settings("byol").slow_at(0, 9) == pytest.approx(0.996)


def test_training_moves_the_slow_copy_by_the_schedule(monkeypatch):
    seen = []
    real = JointObjective.forward

    def forward(self, x1, x2):
        seen.append(self.keep)
        return real(self, x1, x2)

    monkeypatch.setattr(JointObjective, "forward", forward)
    chosen = settings("byol", slow=0.5)
    pretrain_across(encoder(), images(), chosen, key=KEY)
    assert seen == pytest.approx([chosen.slow_at(i, 6) for i in range(6)])


# chance and collapse --------------------------------------------------------------------------------------------------


def test_chance_is_the_loss_of_embeddings_that_say_nothing():
    equal = torch.ones(16, 3)
    assert float(bare("mocov3")(equal, equal).loss.detach()) == pytest.approx(settings("mocov3").chance(), abs=1e-5)
    n, trials = 16, 400
    for method in ("byol", "barlow"):
        objective, found = bare(method, redundancy=0.5), []
        for i in range(trials):
            one, two = rows(n, 3, name=f"one {i}").float(), rows(n, 3, name=f"two {i}").float()
            found.append(float(objective(one, two).loss.detach()))
        values = torch.tensor(found)
        error = float(values.std()) / trials**0.5
        wanted = settings(method, dim=3, redundancy=0.5).chance()
        assert abs(float(values.mean()) - wanted) < 4 * error
        assert error < 0.1 * max(wanted, 0.5)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_says_a_collapse(method):
    net = encoder()
    start, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    run = pretrain_across(net, images(), settings(method), key=KEY, probe=lambda f: f(images()).shape[1])
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(v, start[k]) for k, v in net.state_dict().items())
    assert [e.epoch for e in run.trace] == [1, 2]
    assert [e.probe for e in run.trace] == [None, 8]
    assert run.trace[-1].chance == settings(method).chance()
    assert any(not torch.equal(v, start[k]) for k, v in run.encoder.state_dict().items())
    assert not run.collapsed
    nn.init.normal_(net.map.weight, std=1e-7)  # features are equal up to rounding, which batch norm would blow up
    nn.init.ones_(net.map.bias)
    net.map.requires_grad_(False)  # else the batch norm of the heads makes so large a gradient that it leaves at once
    gone = pretrain_across(net, images(), settings(method, epochs=1, rate=1e-9), key=KEY)
    assert gone.collapsed
    assert gone.trace[0].matched == pytest.approx(1 / 16)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 1.0, 6e4])
def test_a_collapse_in_float16_is_said(method, value):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1), requires_grad=False)

        def forward(self, x):
            return (value + 0 * self.weight).half().expand(len(x), 8)

    run = pretrain_across(Half(), images(), settings(method, epochs=1), key=KEY)
    assert run.collapsed
    assert math.isfinite(run.trace[0].loss)
    assert run.trace[0].matched == pytest.approx(1 / 16)


def test_byol_without_its_predictor_collapses_and_says_so():
    """Its loss reaches -1 by equal embeddings; without predictor and with a copy that is not slow it goes there."""

    class NoPredictor(JointObjective):
        def __init__(self, *rest):
            super().__init__(*rest)
            self.prediction = nn.Identity()

    chosen = settings("byol", slow=0.0, epochs=40, rate=2.0, batch=48, weight_decay=0.0)
    flat = linear(8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("featlearn.learn.contrastive.across.JointObjective", NoPredictor)
        run = pretrain_across(flat, images(), chosen, key=KEY, views=NoiseViews(0.5, 0.3))
    assert run.trace[-1].loss < -0.95
    assert run.trace[-1].spread < 0.5 * run.trace[0].spread


def test_learning_is_seen_in_loss_and_matches():
    draw = (KEY / "blobs").torch()
    x = torch.zeros(64, 1, 8, 8)
    for i, (a, b) in enumerate(torch.randint(1, 7, (64, 2), generator=draw).tolist()):
        x[i, 0, a - 1 : a + 2, b - 1 : b + 2] = 1
    for method, rate in (("mocov3", 1.0), ("byol", 1.0), ("barlow", 0.2)):
        chosen = settings(method, epochs=15, batch=32, rate=rate, dim=16)
        run = pretrain_across(linear(16), x, chosen, key=KEY, views=NoiseViews(0.2, 0.1))
        assert run.trace[-1].loss < run.trace[0].loss
        assert run.trace[-1].loss < run.trace[-1].chance - 0.2
        # of 32 views one is right by chance: a mean of 3 over five epochs has a probability below 1e-4
        matched = sum(epoch.matched for epoch in run.trace[-5:]) / 5
        assert matched > 3 * run.trace[-1].chance_matched


# the loop -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["simclr", "moco", "nnclr", "simsiam"])
def test_one_process_gives_what_pretrain_gives(method):
    chosen = Contrastive(method, epochs=2, batch=16, queue=32, dim=8)
    one = pretrain(encoder(), images(), chosen, key=KEY)
    two = pretrain_across(encoder(), images(), chosen, key=KEY)
    assert one.trace == two.trace
    for mine, other in ((one.encoder, two.encoder), (one.projection, two.projection)):
        assert all(torch.equal(v, other.state_dict()[k]) for k, v in mine.state_dict().items())


class Killed(BaseException):
    pass


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_killed_run_ends_with_the_same_bits(method, optimizer, tmp_path):
    chosen = settings(method, epochs=3, optimizer=optimizer, rate=0.01)
    whole = pretrain_across(encoder(), images(), chosen, key=KEY)

    def kill(done, of):
        if done == 5:
            raise Killed

    given = {"key": KEY, "checkpoint": tmp_path / "run.pt"}
    with pytest.raises(Killed):
        pretrain_across(encoder(), images(), chosen, progress=kill, **given)
    on = pretrain_across(encoder(), images(), chosen, **given)
    assert on.trace == whole.trace
    assert all(torch.equal(v, on.encoder.state_dict()[k]) for k, v in whole.encoder.state_dict().items())
    other = settings(method, epochs=3, optimizer=optimizer, rate=0.02)
    with pytest.raises(SettingError, match=r"rate is 0.01 there, 0.02 here"):
        pretrain_across(encoder(), images(), other, **given)
    assert read(tmp_path / "run.pt", {"processes": 1}) is not None
    with pytest.raises(SettingError, match="processes is 1 there, 2 here"):
        read(tmp_path / "run.pt", {"processes": 2})


def test_training_that_diverges_says_where():
    for method in METHODS:
        with pytest.raises(Diverged, match="at step"):
            pretrain_across(
                nn.Linear(5, 3), rows(48, 5).float(), settings(method, rate=1e30, epochs=4), key=KEY, views=NoiseViews()
            )


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"method": "simclr"}, "method = 'simclr' is not allowed: one of mocov3, byol, barlow; Contrastive has five"),
        ({"temperature": 0.0}, "temperature = 0.0 is not allowed: above 0"),
        ({"batch": 1}, "batch = 1 is not allowed: 2 or more"),
        ({"epochs": 0}, "epochs = 0"),
        ({"slow": 1.0}, "slow = 1.0 is not allowed: in [0, 1)"),
        ({"redundancy": -1.0}, "redundancy = -1.0"),
        ({"redundancy": math.nan}, "redundancy = nan"),
        ({"optimizer": "lars"}, "optimizer = 'lars'"),
        ({"rate": 0.0}, "rate = 0.0"),
        ({"dim": 1}, "dim = 1"),
        ({"warmup": 2}, "warmup = 2 is not allowed: below epochs"),
    ],
)
def test_settings_that_cannot_be_are_refused(changed, said, as_user):
    with pytest.raises(SettingError) as e:
        settings(**changed)
    assert str(e.value).startswith(said)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "given, said",
    [
        ({"settings": settings(batch=64)}, "batch = 64 is not allowed: at most the 48 images"),
        ({"settings": Contrastive("moco", batch=16, queue=64)}, "queue = 64 is not allowed: at most the 48 images"),
        ({"encoder": SmallEncoder(3, KEY, width=4)}, "grey images in a network of colours"),
        ({"encoder": SmallViT(1, KEY, size=12, width=8, depth=1, heads=1)}, "images = of shape (n, 1, 8, 8)"),
        ({"save_every": 0}, "save_every = 0"),
        ({"probe_every": 0}, "probe_every = 0"),
    ],
)
def test_runs_that_cannot_be_are_refused(given, said):
    with pytest.raises(SettingError) as e:
        pretrain_across(**{"encoder": encoder(), "images": images(), "settings": settings(), "key": KEY, **given})
    assert said in str(e.value)
    assert "\n" not in str(e.value)


# the transformer ------------------------------------------------------------------------------------------------------


def test_the_transformer_is_a_function_of_the_key_and_gives_what_it_says():
    x = images(4, 2, 8)
    given = {"size": 8, "patch": 2, "width": 12, "depth": 2, "heads": 3}
    one, two, other = (SmallViT(2, key, **given).eval() for key in (KEY, KEY, KEY / 1))
    assert torch.equal(one(x), two(x))
    assert not torch.equal(one(x), other(x))
    assert one(x).shape == (4, one.features) == (4, 12)
    assert one.net.encoder.pos_embedding.shape == (1, 17, 12)  # 16 tokens and one more
    mixed = x.clone()
    mixed[:, :, :4], mixed[:, :, 4:] = x[:, :, 4:], x[:, :, :4]
    assert not torch.allclose(one(x), one(mixed), atol=1e-6)  # it sees places
    scale = float(SmallViT(1, KEY, size=8, patch=4, width=192).net.conv_proj.weight.detach().std())
    assert scale == pytest.approx(1 / 4, rel=0.05)  # of 16 inputs


@pytest.mark.parametrize("frozen", [False, True])
def test_the_transformer_is_pretrained_like_the_resnet(frozen):
    net = SmallViT(1, KEY, size=8, patch=4, width=8, depth=1, heads=2, frozen_patches=frozen)
    start = copy.deepcopy(net.state_dict())
    chosen = settings("mocov3", optimizer="adamw", rate=0.01)
    after = pretrain_across(net, images(), chosen, key=KEY).encoder.state_dict()
    assert torch.equal(after["net.conv_proj.weight"], start["net.conv_proj.weight"]) == frozen
    assert not torch.equal(after["net.encoder.pos_embedding"], start["net.encoder.pos_embedding"])
    plain = pretrain(net, images(), Contrastive(epochs=1, batch=16, dim=8), key=KEY)
    assert plain.trace[0].loss > 0


def test_the_resnet_and_colours_are_taken():
    run = pretrain_across(SmallResNet(3, KEY), images(16, 3, 16), settings("barlow", epochs=1, batch=8), key=KEY)
    assert math.isfinite(run.trace[0].loss)


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"size": 30}, "patch = 4 is not allowed: a divisor of size = 30"),
        ({"width": 100}, "width = 100 is not allowed: a multiple of heads = 3"),
        ({"depth": 0}, "depth = 0"),
        ({"channels": 0}, "channels = 0"),
    ],
)
def test_transformers_that_cannot_be_are_refused(changed, said):
    with pytest.raises(SettingError) as e:
        SmallViT(**{"channels": 1, "key": KEY, **changed})
    assert str(e.value).startswith(said)


def test_images_of_another_size_are_refused_by_name():
    net = SmallViT(1, KEY, size=8, patch=4, width=8, depth=1, heads=1)
    with pytest.raises(SettingError, match=r"x = of 12 x 12 pixels is not allowed: 8 x 8"):
        net(torch.zeros(2, 1, 12, 12))
    with pytest.raises(SettingError, match="gives grey images their channel"):
        net(torch.zeros(2, 3, 8, 8))
