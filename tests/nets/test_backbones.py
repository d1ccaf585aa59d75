"""Featurizers of images: shapes, starts from a key, frozen batch norm, weights from a file."""

import importlib.util
import math
import pickle

import pytest
import torch
from torch import nn

from featlearn.core import Key, SettingError
from featlearn.nets import ResNet, SmallCnn, backbone, linear_head, load_weights

KEY = Key("tests/backbones")
with_torchvision = pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None,
    reason="torchvision is not installed; `pip install 'featlearn[vision]'` brings it and this test then runs",
)


def test_the_small_network_is_that_of_the_benchmark():
    net = SmallCnn(2, KEY)
    x = torch.randn(3, 2, 28, 28, generator=KEY.torch())
    stages = net.stages(x)
    assert [tuple(s.shape[1:]) for s in stages] == [(64, 28, 28), *[(128, 14, 14)] * 3, (128,)]
    assert net.features == 128
    torch.testing.assert_close(net(x), stages[-1])
    torch.testing.assert_close(stages[-1], stages[-2].mean((2, 3)))
    assert sum(p.numel() for p in net.parameters()) == 64 * (18 + 3) + 128 * (576 + 3) + 2 * 128 * (1152 + 3)
    maps = net.norms[0](torch.relu(net.convolutions[0](x)))  # norm behind the ReLU
    torch.testing.assert_close(stages[0], maps)


def test_starts_are_functions_of_the_key():
    state = torch.get_rng_state()
    one, same, other = (SmallCnn(1, k, width=8) for k in (KEY, KEY, KEY / 1))
    name = "convolutions.1.weight"
    assert torch.equal(one.state_dict()[name], same.state_dict()[name])
    assert not torch.equal(one.state_dict()[name], other.state_dict()[name])
    assert torch.equal(linear_head(16, 3, KEY).weight, linear_head(16, 3, KEY).weight)
    assert linear_head(16, 3, KEY).weight.abs().max() <= 0.25
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("width", [4, 12, 0])
def test_widths_without_groups_are_refused(width):
    with pytest.raises(SettingError, match="multiple of 8"):
        SmallCnn(1, KEY, width)


def test_unknown_backbones_are_refused():
    with pytest.raises(SettingError, match="one of cnn, resnet18, resnet50"):
        backbone("vgg", KEY)
    with pytest.raises(SettingError, match="one of resnet18, resnet50"):
        ResNet("vgg", KEY)
    with pytest.raises(SettingError, match="takes three"):
        backbone("resnet18", KEY, channels=1)
    assert backbone("cnn", KEY, channels=1, width=8).features == 16


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is not None, reason="only where torchvision is missing")
def test_without_torchvision_the_remedy_is_named():
    with pytest.raises(SettingError, match=r"pip install 'featlearn\[vision\]'"):
        backbone("resnet50", KEY)


@with_torchvision
def test_resnet_against_torchvision_and_its_frozen_batch_norm():
    from torchvision import models

    net = backbone("resnet18", KEY)
    theirs = models.resnet18(weights=None)
    weights = {k: v for k, v in net.net.state_dict().items() if not k.startswith("fc")}
    theirs.load_state_dict(weights, strict=False)
    theirs.fc = nn.Identity()
    x = torch.randn(2, 3, 64, 64, generator=KEY.torch())
    net.eval()
    theirs.eval()
    torch.testing.assert_close(net(x), theirs(x))
    torch.testing.assert_close(net.stages(x)[-1], theirs(x))
    assert net.features == 512
    assert len(net.stages(x)) == 6


def moves(net):
    """Whether the statistics of batch norm follow a batch in training."""
    before = net.net.bn1.running_mean.clone()
    net.train()(torch.randn(2, 3, 64, 64, generator=KEY.torch()))
    return not torch.equal(net.net.bn1.running_mean, before)


@with_torchvision
def test_batch_norm_is_frozen_where_its_statistics_come_from_somewhere(tmp_path):
    """Those of a random start are mean 0 and variance 1 of nothing; those of pretrained weights are kept."""
    net = backbone("resnet18", KEY)
    torch.save(net.net.state_dict(), tmp_path / "r18.pth")
    assert moves(net)
    load_weights(net, tmp_path / "r18.pth")
    assert net.training
    assert not net.net.bn1.training  # at once, not with the next call of train()
    assert not moves(net)
    assert net.net.bn1.weight.requires_grad
    assert not moves(backbone("resnet18", KEY, frozen=True))
    assert not backbone("resnet18", KEY, frozen=True).net.bn1.training
    learned = backbone("resnet18", KEY, frozen=False)
    load_weights(learned, tmp_path / "r18.pth")
    assert moves(learned)


@with_torchvision
def test_weights_of_torchvision_load_without_their_last_layer(tmp_path):
    from torchvision import models

    torch.save(models.resnet18(weights=None).state_dict(), tmp_path / "r18.pth")
    net = backbone("resnet18", KEY)
    load_weights(net, tmp_path / "r18.pth")
    with pytest.raises(SettingError, match="another architecture"):
        load_weights(backbone("resnet50", KEY), tmp_path / "r18.pth")


class Netted(torch.nn.Module):
    """Names of its own begin with a usual prefix."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(2, 2)


def test_a_prefix_that_is_a_name_of_the_backbone_stays(tmp_path):
    source, target = Netted(), Netted()
    torch.save({"state_dict": source.state_dict()}, tmp_path / "w.pt")
    load_weights(target, tmp_path / "w.pt")
    assert torch.equal(target.model.weight, source.model.weight)


@pytest.mark.parametrize(
    "form", ["plain", "module.", "state_dict", "backbone.", "model.backbone.", "module.net.", "beside"]
)
def test_weights_from_a_file(tmp_path, form):
    source, target = SmallCnn(1, KEY / "source", width=8), SmallCnn(1, KEY / "target", width=8)
    weights = source.state_dict()
    saved = {
        "plain": weights,
        "module.": {f"module.{k}": v for k, v in weights.items()},
        "state_dict": {"state_dict": weights},
        "beside": {"model": {**{f"backbone.{k}": v for k, v in weights.items()}, "head.weight": torch.zeros(2)}},
    }
    saved |= {p: {f"{p}{k}": v for k, v in weights.items()} for p in ("backbone.", "model.backbone.", "module.net.")}
    torch.save(saved[form], tmp_path / "w.pt")
    load_weights(target, str(tmp_path / "w.pt"))
    assert all(torch.equal(v, target.state_dict()[k]) for k, v in weights.items())


def test_files_that_are_no_weights_of_this_network(tmp_path):
    net = SmallCnn(1, KEY, width=8)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(SettingError, match="check the path"):
        load_weights(net, tmp_path / "no.pt")
    for name, content in (("text", b"hello"), ("empty", b""), ("pickle", pickle.dumps(print))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SettingError, match="a file of tensors") as e:
            load_weights(net, tmp_path / name)
        assert "\n" not in str(e.value)
    torch.save(SmallCnn(1, KEY, width=16).state_dict(), tmp_path / "wide.pt")
    with pytest.raises(SettingError, match=r"convolutions.0.weight has \(16, 1, 3, 3\) for \(8, 1, 3, 3\)"):
        load_weights(net, tmp_path / "wide.pt")
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(SettingError, match="16 are missing, first convolutions"):
        load_weights(net, tmp_path / "other.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(SettingError, match="it holds a list"):
        load_weights(net, tmp_path / "list.pt")
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def refusal(net, data, path):
    torch.save(data, path)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    with pytest.raises(SettingError) as e:
        load_weights(net, path)
    assert "\n" not in str(e.value)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())  # nothing was loaded
    return str(e.value)


@pytest.mark.parametrize(
    "change, said",
    [
        (
            lambda w: {f"student.{k}": v for k, v in w.items()},
            "first convolutions.0.weight; 16 of the file are not of it",
        ),
        (lambda w: {f"student.{k}": v for k, v in w.items()}, "those that begin with student. would fit"),
        (
            lambda w: {f"{p}.{k}": v for k, v in w.items() for p in ("model", "encoder")},
            "those that begin with encoder. would fit",
        ),
        (
            lambda w: {f"backbone.{k}": v for k, v in {**w, "convolutions.4.weight": torch.zeros(2)}.items()},
            "1 of the file are not of it, first convolutions.4",
        ),
        (lambda w: {f"module.encoder_q.{k}": v for k, v in w.items()}, "those that begin with encoder_q. would fit"),
        (
            lambda w: {k.replace("norms", "bn"): v for k, v in w.items()},
            "8 of the file are not of it, first bn.0.weight",
        ),
        (lambda w: {**w, "convolutions.4.weight": torch.zeros(2)}, "1 of the file are not of it, first convolutions.4"),
        (lambda w: {"model": w, "ema": w}, "it holds 2, named model, ema: save the one that is meant alone"),
        (lambda w: {"epoch": 3, "args": "x"}, "it holds epoch, args"),
        (lambda w: {}, "it holds nothing"),
        (lambda w: {**w, "norms.1.bias": torch.full((16,), math.nan)}, "1 hold nan or infinity, first norms.1.bias"),
        (lambda w: {k: v / 0 if "norms" in k else v for k, v in w.items()}, "8 hold nan or infinity"),
        (lambda w: {k: v.round().to(torch.int8) for k, v in w.items()}, "convolutions.0.weight is torch.int8"),
    ],
    ids="prefix-prefix_named-both-deeper_prefix-moco-renamed-deeper-two-none-empty-nan-infinite-quantised".split("-"),
)
def test_weights_that_do_not_fit_say_what_was_found(tmp_path, change, said):
    net = SmallCnn(1, KEY, width=8)
    weights = SmallCnn(1, KEY / "source", width=8).state_dict()
    assert said in refusal(net, change(weights), tmp_path / "w.pt")


@with_torchvision
def test_a_deeper_network_is_not_cut_to_fit(tmp_path):
    """All names and shapes of a ResNet-18 are among those of a ResNet-34."""
    from torchvision import models

    deep = models.resnet34(weights=None).state_dict()
    assert "first layer1.2.conv1.weight; is it of another architecture?" in refusal(
        backbone("resnet18", KEY), deep, tmp_path / "r34.pth"
    )
    bad = backbone("resnet18", KEY).net.state_dict()
    bad["bn1.running_var"] = -torch.ones(64)
    assert "bn1.running_var has values below 0" in refusal(backbone("resnet18", KEY), bad, tmp_path / "bad.pth")


@pytest.mark.parametrize("name", ["model", "model_state_dict", "net"])
def test_the_one_state_dict_of_a_checkpoint_is_taken(tmp_path, name):
    source, target = SmallCnn(1, KEY / "source", width=8), SmallCnn(1, KEY / "target", width=8)
    optimizer = torch.optim.Adam(source.parameters()).state_dict()
    weights = {**source.state_dict(), "fc.weight": torch.zeros(3, 16)}
    torch.save({name: weights, "optimizer": optimizer, "epoch": 3}, tmp_path / "w.pt")
    load_weights(target, tmp_path / "w.pt")
    assert all(torch.equal(v, source.state_dict()[k]) for k, v in target.state_dict().items())
