"""Contrastive pretraining: losses against formulas written out, chance, collapse, checkpoints, and what is refused."""

import builtins
import copy
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from featlearn.core import Diverged, Key, SettingError
from featlearn.learn.contrastive import (
    Contrastive,
    ImageViews,
    NoiseViews,
    Objective,
    StoredViews,
    matched_share,
    pretrain,
    simcse_loss,
    spread_of,
)
from featlearn.nets import SmallEncoder, SmallResNet, adapter

KEY = Key("tests/contrastive")
METHODS = ("simclr", "moco", "nnclr", "simsiam", "simcse")


def images(n=48, channels=1, size=8):
    return torch.rand(n, channels, size, size, generator=(KEY / "images").torch())


def encoder(method="simclr", channels=1):
    net = SmallEncoder(channels, KEY / "net", width=4, features=8)
    return nn.Sequential(net, nn.Dropout(0.2)) if method == "simcse" else net


def settings(method="simclr", **changed):
    return Contrastive(**{"method": method, "epochs": 2, "batch": 16, "queue": 32, "dim": 8, **changed})


def rows(*shape, name="z"):
    return torch.randn(*shape, generator=(KEY / name).torch(), dtype=torch.float64)


def unit(z):
    return [[float(v) / math.sqrt(sum(float(w) ** 2 for w in row)) for v in row] for row in z]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


# the losses of lightly's parts against sums written out in float64 ----------------------------------------------------


class Same(nn.Module):
    """An encoder of vectors that leaves them as they are, with a weight that does nothing."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + 0 * self.weight


def nt_xent(one, two, t):
    """Over both views of all rows, all other rows of both views as candidates."""
    z = unit(one) + unit(two)
    n, total = len(one), 0.0
    for i in range(2 * n):
        own = (i + n) % (2 * n)
        parts = [math.exp(cosine(z[i], z[j]) / t) for j in range(2 * n) if j != i]
        total -= math.log(math.exp(cosine(z[i], z[own]) / t) / sum(parts))
    return total / (2 * n)


def test_simclr_is_nt_xent_written_out():
    one, two = rows(5, 3), rows(5, 3, name="other")
    objective = Objective(Same(), 3, settings(head="none", temperature=0.3), KEY)
    found = objective(one.float(), two.float()).loss
    assert float(found.detach()) == pytest.approx(nt_xent(one, two, 0.3), rel=1e-5)
    assert float(found.detach()) != pytest.approx(nt_xent(one, two, 0.5), rel=1e-2)


def test_moco_looks_for_the_positive_in_the_queue_and_keeps_its_keys():
    one, two, t = rows(4, 3), rows(4, 3, name="other"), 0.2
    objective = Objective(Same(), 3, settings("moco", head="none", temperature=t, queue=6), KEY)
    bank = objective.loss.memory_bank.bank.clone()
    assert bank.norm(dim=1).tolist() == pytest.approx([1.0] * 6)
    found = float(objective(one.float(), two.float()).loss.detach())
    total = 0.0
    for q, k in zip(unit(one), unit(two), strict=True):
        parts = [math.exp(cosine(q, [float(v) for v in old]) / t) for old in bank]
        own = math.exp(cosine(q, k) / t)
        total -= math.log(own / (own + sum(parts)))
    assert found == pytest.approx(total / 4, rel=1e-5)
    after = objective.loss.memory_bank.bank
    torch.testing.assert_close(after[:4], torch.tensor(unit(two)), atol=1e-6, rtol=0, check_dtype=False)
    assert torch.equal(after[4:], bank[4:])


def test_the_slow_copy_of_moco_moves_by_its_share_and_has_no_gradient():
    objective = Objective(encoder(), 8, settings("moco", slow=0.9), KEY)
    before = [p.clone() for p in objective.slow.parameters()]
    with torch.no_grad():
        for p in (*objective.encoder.parameters(), *objective.projection.parameters()):
            p.add_(1.0)
    fast = [p.detach().clone() for p in (*objective.encoder.parameters(), *objective.projection.parameters())]
    objective(images(8), images(8)).loss.backward()
    for slow, old, new in zip(objective.slow.parameters(), before, fast, strict=True):
        torch.testing.assert_close(slow.detach(), 0.9 * old + 0.1 * new)
        assert slow.grad is None


def test_nnclr_takes_the_nearest_in_the_queue_as_the_positive():
    one, two, t = rows(4, 3), rows(4, 3, name="other"), 0.4
    objective = Objective(Same(), 3, settings("nnclr", temperature=t, queue=5), KEY).eval()
    objective.projection = objective.prediction = nn.Identity()
    objective.neighbours.bank = objective.neighbours.bank[:, :3].contiguous()
    bank = [[float(v) for v in row] for row in objective.neighbours.bank]
    near = [[max(bank, key=lambda b, z=z: cosine(z, b)) for z in unit(v)] for v in (one, two)]
    wanted = (nt_xent(near[0], two, t) + nt_xent(near[1], one, t)) / 2
    assert float(objective(one.float(), two.float()).loss.detach()) == pytest.approx(wanted, rel=1e-5)


def test_simsiam_is_minus_the_cosine_and_stops_the_gradient():
    one, two = rows(4, 3), rows(4, 3, name="other")
    objective = Objective(Same(), 3, settings("simsiam"), KEY)
    objective.projection = objective.prediction = nn.Identity()
    x1, x2 = one.float().requires_grad_(), two.float().requires_grad_()
    found = objective(x1, x2).loss
    cosines = [cosine(a, b) for a, b in zip(unit(one), unit(two), strict=True)]
    assert float(found.detach()) == pytest.approx(-sum(cosines) / 4, rel=1e-5)
    found.backward()
    for mine, other, found in ((one, two, x1.grad), (two, one, x2.grad)):
        a = mine.clone().requires_grad_()
        (-torch.cosine_similarity(a, other).mean() / 2).backward()  # half: the other way has no gradient in this view
        torch.testing.assert_close(found.double(), a.grad, atol=1e-6, rtol=1e-5)


def test_simcse_is_its_equation_written_out():
    one, two, t = rows(4, 3), rows(4, 3, name="other"), 0.25
    a, b = unit(one), unit(two)
    total = 0.0
    for i in range(4):
        total -= math.log(math.exp(cosine(a[i], b[i]) / t) / sum(math.exp(cosine(a[i], b[j]) / t) for j in range(4)))
    assert float(simcse_loss(one, two, t)) == pytest.approx(total / 4, rel=1e-12)
    for bad in (0.0, -1.0, math.inf):
        with pytest.raises(SettingError, match="temperature"):
            simcse_loss(one, two, bad)
    with pytest.raises(SettingError, match="of one row"):
        simcse_loss(one[:1], two[:1], t)


@pytest.mark.parametrize("method", ["simclr", "moco", "simcse"])
def test_chance_is_the_loss_of_equal_embeddings(method):
    chosen = settings(method, head="none", dim=3)
    objective = Objective(Same(), 3, chosen, KEY)
    x = torch.ones(chosen.batch, 3)
    if method == "moco":
        objective.loss.memory_bank.bank.fill_(3**-0.5)
    assert float(objective(x, x).loss.detach()) == pytest.approx(chosen.chance(), abs=1e-5)
    assert chosen.chance() == pytest.approx(math.log({"simclr": 31, "moco": 33, "simcse": 16}[method]))


# what the trace says --------------------------------------------------------------------------------------------------


def test_spread_and_rank_tell_a_collapse_from_a_sphere():
    z = torch.randn(4000, 6, generator=KEY.torch())
    spread, rank = spread_of(z)
    assert spread == pytest.approx(1, abs=0.03)
    assert rank == pytest.approx(6, abs=0.05)
    assert spread_of(torch.ones(50, 6)) == (0.0, 0.0)
    one_way = torch.where(torch.arange(50)[:, None] % 2 == 0, 1.0, -1.0) * torch.ones(50, 6)
    assert spread_of(one_way)[1] == pytest.approx(1)


def test_the_rank_is_the_exponential_of_the_entropy():
    z = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [1, 0, 0], [-1, 0, 0]]).double()
    p = [4 / 6, 2 / 6]  # squares of the singular values of rows that are centred already
    assert spread_of(z)[1] == pytest.approx(math.exp(-sum(q * math.log(q) for q in p)))


def test_matched_share_counts_ties_in_part():
    eye = torch.eye(4)
    assert matched_share(eye, eye) == 1
    assert matched_share(eye, eye.roll(1, 0)) == 0
    assert matched_share(torch.ones(4, 2), torch.ones(4, 2)) == 0.25


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_says_chance_and_collapse(method):
    net = encoder(method)
    start = copy.deepcopy(net.state_dict())
    state = torch.get_rng_state()
    calls = []
    run = pretrain(
        net, images(), settings(method), key=KEY, probe=lambda f: calls.append(f(images()).shape) or 0.5, probe_every=5
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(v, start[k]) for k, v in net.state_dict().items())
    assert net.training
    assert [e.epoch for e in run.trace] == [1, 2]
    assert [e.probe for e in run.trace] == [None, 0.5]
    assert calls == [(48, 8)]
    last = run.trace[-1]
    assert last.chance == settings(method).chance()
    assert last.chance_matched == 1 / 16
    assert 0 <= last.matched <= 1
    assert last.spread > 0.1 or run.collapsed
    assert not run.encoder.training
    moved = [not torch.equal(v, start[k]) for k, v in run.encoder.state_dict().items()]
    assert any(moved)


def test_a_collapse_is_said():
    net = encoder()
    nn.init.zeros_(net.map.weight)
    nn.init.ones_(net.map.bias)
    run = pretrain(net, images(), settings(head="none", epochs=1, rate=1e-9), key=KEY)
    assert run.collapsed
    assert run.trace[0].loss == pytest.approx(run.trace[0].chance, abs=1e-4)
    assert run.trace[0].matched == pytest.approx(run.trace[0].chance_matched)


@pytest.mark.parametrize("value", [0.0, 1e-7, 1.0, 6e4])
def test_collapsed_embeddings_in_float16_are_said(value):
    """Squares of these are 0 or infinite in float16: embeddings are compared in wider numbers."""
    z = torch.full((16, 8), value, dtype=torch.float16)
    assert spread_of(z) == (0.0, 0.0)
    assert matched_share(z, z) == pytest.approx(1 / 16)

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return (value + 0 * self.weight).half().expand(len(x), 8)

    for method in ("simclr", "moco"):
        chosen = settings(method, head="none", epochs=1)
        if not value and method == "moco":  # the direction of nothing has no gradient: half of nan is none either
            with pytest.raises(Diverged, match="at step"):
                pretrain(Half(), images(), chosen, key=KEY)
            continue
        run = pretrain(Half(), images(), chosen, key=KEY)
        assert run.collapsed
        assert math.isfinite(run.trace[0].loss)
        if method == "simclr":
            assert run.trace[0].loss == pytest.approx(run.trace[0].chance, abs=1e-4)


def test_learning_is_seen_in_loss_and_matches():
    """Blobs at four places: after some epochs the loss is below chance, matches above it, and not before."""
    n = 64
    x = torch.zeros(n, 1, 8, 8)
    draw = (KEY / "blobs").torch()
    places = torch.randint(1, 7, (n, 2), generator=draw)
    for i, (a, b) in enumerate(places.tolist()):
        x[i, 0, a - 1 : a + 2, b - 1 : b + 2] = 1
    same = nn.Sequential(nn.Flatten(), nn.Linear(64, 16))
    views = NoiseViews(noise=0.2, dropout=0.1)
    run = pretrain(same, x, settings(epochs=10, batch=32, rate=1.0, head="none", temperature=0.2), key=KEY, views=views)
    assert run.trace[-1].loss < run.trace[0].loss
    assert run.trace[-1].loss < run.trace[-1].chance - 0.5
    assert run.trace[-1].matched > 10 * run.trace[-1].chance_matched


def test_the_key_decides():
    first = pretrain(encoder(), images(), settings(), key=KEY)
    again = pretrain(encoder(), images(), settings(), key=Key(KEY.path))
    other = pretrain(encoder(), images(), settings(), key=KEY / "other")
    assert first.trace == again.trace
    assert first.trace != other.trace


def test_every_epoch_and_step_has_views_and_dropout_of_its_own():
    keys, masks = [], []

    class Dropped(nn.Dropout):
        def forward(self, x):
            out = super().forward(x)
            if self.training:
                masks.append((out == 0).flatten().tolist())
            return out

    def views(x, key):
        keys.append(key)
        return x

    net = nn.Sequential(nn.Flatten(), Dropped(0.5), nn.Linear(64, 4))
    pretrain(net, images() + 1, settings(epochs=2), key=KEY, views=views)
    assert len(set(keys)) == len(keys) == 1 + 2 * 3 * 2  # one look at the shape, then two a step
    assert len({tuple(mask) for mask in masks}) == len(masks) == 12


def test_a_short_last_batch_is_left_out_and_the_rest_changes():
    seen = []

    def views(x, key):
        seen.append(x)
        return x

    pretrain(encoder(), images(40), settings(epochs=2), key=KEY, views=views)
    steps = seen[1::2]  # the first call looks at the shape, and both views of a step see the same images
    assert [len(x) for x in steps] == [16] * 4
    left = [
        {i for i in range(40)} - {int((images(40) == one).all((1, 2, 3)).nonzero()) for one in torch.cat(part)}
        for part in (steps[:2], steps[2:])
    ]
    assert all(len(part) == 8 for part in left)
    assert left[0] != left[1]


def test_the_rate_rises_and_falls():
    chosen = settings(epochs=10, warmup=2, rate=0.1, batch=128)
    rates = [chosen.rate_at(step, 5) for step in range(50)]
    assert rates[0] == pytest.approx(0.05 / 10)
    assert rates[9] == rates[10] == pytest.approx(0.05)
    assert rates[30] == pytest.approx(0.025)
    assert 0 < rates[-1] < 0.001


# checkpoints ----------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_run_ends_with_the_same_bits(method, tmp_path):
    chosen = settings(method, epochs=4)
    whole = pretrain(encoder(method), images(), chosen, key=KEY)
    path = tmp_path / "run.pt"

    def kill(done, of):
        if done == 7:  # in the third of four epochs of three steps
            raise Killed

    with pytest.raises(Killed):
        pretrain(encoder(method), images(), chosen, key=KEY, checkpoint=path, progress=kill)
    steps = []
    on = pretrain(
        encoder(method), images(), chosen, key=KEY, checkpoint=path, progress=lambda done, of: steps.append(done)
    )
    assert steps == list(range(7, 13))
    assert on.trace == whole.trace
    for name, value in whole.encoder.state_dict().items():
        assert torch.equal(value, on.encoder.state_dict()[name]), name
    again = pretrain(encoder(method), images(), chosen, key=KEY, checkpoint=path, progress=kill)
    assert again.trace == whole.trace
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.pt"]


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"settings": settings(batch=12)}, "batch is 16 there, 12 here"),
        ({"key": KEY / "x"}, "key is"),
        ({"views": ImageViews(flip=0.0)}, "views is"),
        ({"images": images() / 2}, "other images there"),
        ({"encoder": SmallEncoder(1, KEY / "else", width=4, features=8)}, "other weights there"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(changed, said, tmp_path):
    path = tmp_path / "run.pt"
    given = {"encoder": encoder(), "images": images(), "settings": settings(), "key": KEY, "checkpoint": path}
    pretrain(**given)
    before = path.read_bytes()
    with pytest.raises(SettingError, match=re.escape(said)) as e:
        pretrain(**{**given, **changed})
    assert "\n" not in str(e.value)
    assert path.read_bytes() == before


def test_files_that_are_no_checkpoints_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    torch.save({"weights": torch.ones(2)}, tmp_path / "other")
    pretrain(encoder(), images(), settings(), key=KEY, checkpoint=tmp_path / "good")
    (tmp_path / "half").write_bytes((tmp_path / "good").read_bytes()[:300])
    for name, said in (
        ("text", "a whole file"),
        ("other", "that `pretrain` wrote"),
        ("half", "a whole file"),
        ("no/x", "exists"),
    ):
        with pytest.raises(SettingError, match=r"^checkpoint = ") as e:
            pretrain(encoder(), images(), settings(), key=KEY, checkpoint=tmp_path / name)
        assert said in str(e.value)
        assert "\n" not in str(e.value)


class Touches:
    """A pickle that runs code of its own when it is loaded."""

    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_a_checkpoint_runs_no_code(tmp_path):
    torch.save({"kind": "featlearn contrastive", "format": 1, "run": Touches()}, tmp_path / "bad")
    with pytest.raises(SettingError, match=r"^checkpoint = "):
        pretrain(encoder(), images(), settings(), key=KEY, checkpoint=tmp_path / "bad")
    assert not Path("ran").exists()


def test_a_checkpoint_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("featlearn.learn.contrastive.checkpoints.os.replace", full)
    with pytest.raises(SettingError, match=r"^checkpoint = .*No space left"):
        pretrain(encoder(), images(), settings(), key=KEY, checkpoint=tmp_path / "run.pt")
    assert list(tmp_path.iterdir()) == []


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"temperature": 0.0}, "temperature = 0.0 is not allowed: above 0"),
        ({"temperature": math.nan}, "temperature = nan"),
        ({"batch": 1}, "batch = 1 is not allowed: 2 or more; an image alone has no negatives"),
        ({"epochs": 0}, "epochs = 0"),
        ({"queue": 0}, "queue = 0"),
        ({"method": "byol"}, "method = 'byol' is not allowed: one of simclr"),
        ({"method": "simsiam", "head": "none"}, "head = 'none' is not allowed: 'mlp' for simsiam"),
        ({"head": "deep"}, "head = 'deep'"),
        ({"rate": 0.0}, "rate = 0.0"),
        ({"weight_decay": -1.0}, "weight_decay = -1.0"),
        ({"momentum": 1.0}, "momentum = 1.0"),
        ({"slow": 1.5}, "slow = 1.5"),
        ({"warmup": 2}, "warmup = 2 is not allowed: below epochs = 2"),
    ],
)
def test_settings_that_cannot_be_are_refused(changed, said, as_user):
    with pytest.raises(SettingError, match="^" + re.escape(said)) as e:
        settings(**changed)
    assert "\n" not in str(e.value)


def colour_net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.parametrize(
    "call, said",
    [
        ({"images": images(10)}, "batch = 16 is not allowed: at most the 10 images"),
        ({"settings": settings("moco", queue=49)}, "queue = 49 is not allowed: at most the 48 images"),
        ({"settings": settings("nnclr", queue=49)}, "queue = 49"),
        (
            {"encoder": colour_net()},
            "images = of shape (n, 1, 8, 8) is not allowed: what the encoder takes; grey images",
        ),
        (
            {"encoder": SmallEncoder(3, KEY)},
            "images = of shape (n, 1, 8, 8) is not allowed: what the encoder takes; grey",
        ),
        ({"encoder": nn.Conv2d(1, 2, 3)}, "encoder = one that gives (2, 2, 6, 6) is not allowed: features (2, d)"),
        ({"images": 255 * images()}, "images = from 0"),
        ({"images": images(channels=2), "encoder": nn.Flatten()}, "images = of 2 channels is not allowed: 1 or 3"),
        ({"images": torch.rand(48, 5), "encoder": nn.Linear(5, 3)}, "images = of shape (48, 5) is not allowed"),
        ({"settings": settings("simcse")}, "encoder = without dropout is not allowed: one with dropout"),
        ({"probe_every": 0}, "probe_every = 0"),
        ({"save_every": 0}, "save_every = 0"),
        ({"device": "gpu"}, "device = 'gpu'"),
    ],
)
def test_calls_that_cannot_be_are_refused_by_name_before_any_work(call, said):
    given = {"encoder": encoder(), "images": images(), "settings": settings(), "key": KEY, **call}
    with pytest.raises(SettingError, match="^" + re.escape(said)) as e:
        pretrain(**given, progress=lambda done, of: pytest.fail("it began"))
    assert "\n" not in str(e.value)


def test_a_missing_lightly_is_said_in_one_line(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == "lightly":
            raise ModuleNotFoundError("No module named 'lightly'", name="lightly")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingError, match=r"available with lightly; pip install 'featlearn\[contrastive\]'"):
        pretrain(encoder(), images(), settings(), key=KEY)


def test_training_that_diverges_says_where():
    x, net = rows(48, 5).float(), nn.Linear(5, 3)
    with pytest.raises(Diverged, match="at step"):
        pretrain(net, x, settings(rate=1e30, epochs=4, head="none"), key=KEY, views=NoiseViews())


# views and encoders ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_views_are_images_and_functions_of_the_key(channels):
    x = images(20, channels, 10)
    held = x.clone()
    one = ImageViews()(x, KEY)
    assert one.shape == x.shape
    assert 0 <= float(one.min()) <= float(one.max()) <= 1
    assert torch.equal(one, ImageViews()(x, KEY))
    assert not torch.equal(one, ImageViews()(x, KEY / 1))
    assert torch.equal(x, held)


def test_views_without_changes_are_the_images():
    plain = ImageViews(scale=(1.0, 1.0), flip=0.0, jitter=0.0, grey=0.0)
    x = images(5, 3, 9)
    aspect_free = plain._crops(x, KEY.torch())
    assert aspect_free.shape == x.shape
    torch.testing.assert_close(plain._colours(x, KEY.torch()), x)


def test_each_change_does_what_it_says():
    x = images(200, 3, 6)
    off = {"flip": 0.0, "jitter": 0.0, "grey": 0.0}
    grey = ImageViews(**{**off, "grey": 1.0})._colours(x, KEY.torch())
    torch.testing.assert_close(grey, grey[:, :1].expand_as(grey))
    weights = torch.tensor([0.299, 0.587, 0.114])
    torch.testing.assert_close(grey[:, 0], (x * weights[:, None, None]).sum(1))
    moved = (ImageViews(**{**off, "grey": 0.2})._colours(x, KEY.torch()) - x).abs().flatten(1).amax(1)
    share = (moved > 1e-4).double().mean()
    assert abs(float(share) - 0.2) < 4 * (0.2 * 0.8 / 200) ** 0.5
    dim = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue": 0.0}
    hue = ImageViews(**{**off, "jitter": 1.0, **dim, "hue": 0.1})._colours(0.3 + 0.2 * x, KEY.torch())
    luma = [(v * weights[:, None, None]).sum(1) for v in (hue, 0.3 + 0.2 * x)]
    torch.testing.assert_close(luma[0], luma[1], atol=2e-3, rtol=0)
    assert not torch.allclose(hue, 0.3 + 0.2 * x, atol=1e-2)
    bright = ImageViews(**{**off, "jitter": 1.0, **dim, "brightness": 0.4})._colours(0.5 * x, KEY.torch())
    ratio = (bright / (0.5 * x).clamp_min(1e-6)).flatten(1)
    torch.testing.assert_close(ratio.amin(1), ratio.amax(1), atol=1e-3, rtol=1e-3)
    assert 0.6 <= float(ratio.min()) < 0.7
    assert 1.3 < float(ratio.max()) <= 1.401


def test_crops_keep_the_area_that_was_asked_for():
    """A ramp cropped to a share s of its area and an aspect r spans sqrt(s r) of its values."""
    ramp = torch.linspace(0, 1, 101).expand(300, 1, 101, 101)
    spans = ImageViews(scale=(0.25, 0.25), flip=0.0, jitter=0.0, grey=0.0)._crops(ramp, KEY.torch()).flatten(1)
    span = spans.amax(1) - spans.amin(1)
    assert 0.5 * math.sqrt(3 / 4) - 0.02 < float(span.min()) < float(span.max()) < 0.5 * math.sqrt(4 / 3) + 0.02


def test_stored_views_give_two_different_ones():
    x = torch.arange(30.0).view(10, 3, 1)
    one, two = StoredViews().pair(x, KEY)
    assert bool((one != two).all())
    seen = torch.stack([torch.cat(StoredViews().pair(x, KEY / i), 1) for i in range(300)]).long() % 3
    counts = torch.bincount((3 * seen[..., 0] + seen[..., 1]).flatten(), minlength=9).view(3, 3)
    assert counts.diagonal().sum() == 0
    share = 1 / 6
    off = ~torch.eye(3).bool()
    assert bool(((counts[off] / 3000 - share).abs() < 4.5 * (share * (1 - share) / 3000) ** 0.5).all())
    with pytest.raises(SettingError, match="two views"):
        StoredViews()(x[:, :1], KEY)


def test_noise_views_have_the_size_that_was_asked_for():
    x = 3 + torch.zeros(400, 50)
    noise = NoiseViews(noise=0.2, dropout=0.0)(x, KEY) - x
    assert float(noise.std()) == pytest.approx(0.6, rel=0.05)
    dropped = NoiseViews(noise=0.0, dropout=0.25)(x, KEY)
    assert float((dropped == 0).double().mean()) == pytest.approx(0.25, abs=0.015)
    assert set(dropped.unique().tolist()) == {0.0, 4.0}


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: ImageViews(scale=(0.5, 0.2)), "scale"),
        (lambda: ImageViews(flip=1.5), "flip"),
        (lambda: ImageViews(hue=0.7), "hue"),
        (lambda: NoiseViews(noise=-1.0), "noise"),
        (lambda: NoiseViews(dropout=1.0), "dropout"),
        (lambda: NoiseViews(0.0, 0.0), "noise = 0"),
        (lambda: SmallEncoder(0, KEY), "channels"),
        (lambda: SmallEncoder(1, KEY, width=6, norm="group"), "width"),
        (lambda: SmallResNet(0, KEY), "channels"),
        (lambda: adapter(0, KEY), "features"),
    ],
)
def test_views_and_encoders_that_cannot_be_are_refused(make, said):
    with pytest.raises(SettingError, match=f"^{said}") as e:
        make()
    assert "\n" not in str(e.value)


def test_encoders_are_functions_of_the_key_and_give_what_they_say():
    x = images(4, 3, 16)
    for make in (lambda k: SmallEncoder(3, k, width=8, features=5), lambda k: SmallEncoder(3, k, width=8, features=0)):
        one, two, other = make(KEY), make(KEY), make(KEY / 1)
        one, two, other = (net.eval()(x) for net in (one, two, other))
        assert torch.equal(one, two)
        assert not torch.equal(one, other)
    assert SmallEncoder(3, KEY, width=8, features=0).features == 32
    net = SmallResNet(3, KEY).eval()
    assert net(x).shape == (4, net.features)
    assert net.net.layer1(net.net.conv1(x)).shape == (4, 64, 16, 16)  # nothing was pooled away
