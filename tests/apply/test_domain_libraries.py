"""Backbones of other people: timm, torchvision, CLIP, the user's own; modes, weights, hubs that are away."""

import importlib.util
import json
import socket
import sys
import time

import pytest
import torch
from colours import FAST, KEY, made, pictures_in
from torch import nn

from featlearn.apply.domains import libraries, models, sources
from featlearn.apply.domains.runs import check_algorithms
from featlearn.apply.domains.sources import Network
from featlearn.core import Key, SettingError
from featlearn.errors import DataUnavailable
from featlearn.methods.domains import Settings


def needs(package):
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"needs {package}")


OWN = """
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU())
        self.top = nn.Sequential(nn.Conv2d(6, 5, 3), nn.BatchNorm2d(5), nn.ReLU())
        self.stem.requires_grad_(False).eval()

    def forward(self, x):
        return self.top(self.stem(x)).mean((2, 3))


class Maps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 6, 3)

    def forward(self, x):
        return self.layer(x)


ready = Encoder()
number = 3


def broken():
    raise OSError("no such disk")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of the user's in the current folder."""
    (tmp_path / "mine_of_test.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield "mine_of_test"
    sys.modules.pop("mine_of_test", None)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """No network, empty caches, and a hub of the user's own."""
    from huggingface_hub import constants

    def refuse(*args, **kwargs):
        raise OSError("no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "ENDPOINT", "https://hub.invalid")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))


def images(n=2, size=32):
    return torch.randn(n, 3, size, size, generator=KEY.torch())


def one_fit(tree, network, name="erm", **changed):
    found, config = made(tree)
    return models.fit(config.source, found, network, name, FAST, Settings(), **changed)


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, library",
    [
        ("cnn", ""),
        ("resnet50", ""),
        ("timm/resnet18.a1_in1k", "timm"),
        ("clip/some/where", "clip"),
        ("a.b:c", "own"),
        ("timm:resnet18", "own"),
    ],
)
def test_what_a_name_stands_for(name, library):
    assert libraries.library_of(name) == library


@pytest.mark.parametrize("name", ["resnet34", "timm/", "other/resnet18", "a:", ":b", "a b:c", "", "/etc/passwd"])
def test_other_names_are_refused(name):
    with pytest.raises(SettingError, match="one of cnn, resnet18, resnet50, timm/NAME"):
        libraries.library_of(name)


@needs("torchvision")
def test_names_that_a_library_does_not_have():
    with pytest.raises(SettingError, match="for example resnet101"):
        libraries.inputs_of("torchvision/resnet19")
    with pytest.raises(SettingError, match="ends in a linear layer"):
        libraries.featurizer_of("torchvision/squeezenet1_0", KEY, size=64)


def test_a_library_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SettingError, match=r"pip install 'featlearn\[timm\]'"):
        libraries.featurizer_of("timm/resnet18", KEY, size=64)


# --- torchvision and timm -------------------------------------------------------------------------------------------


@needs("torchvision")
def test_features_of_torchvision_are_those_before_its_last_layer():
    from torchvision.models import mobilenet_v3_small

    net = libraries.featurizer_of("torchvision/mobilenet_v3_small", KEY, size=32).eval()
    theirs = mobilenet_v3_small(weights=None).eval()
    theirs.load_state_dict({**theirs.state_dict(), **net.net.state_dict()})
    x = images()
    before = theirs.classifier[:3](theirs.avgpool(theirs.features(x)).flatten(1))
    torch.testing.assert_close(net(x), before)
    assert net.features == 1024
    again = libraries.featurizer_of("torchvision/mobilenet_v3_small", KEY, size=32)
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in net.state_dict().items())


@needs("torchvision")
def test_weights_by_name_are_torchvisions_file(tmp_path, alone, monkeypatch):
    """A version is a file of the cache; without one, and without a network, that is one line."""
    from torchvision.models import ResNet18_Weights, resnet18

    start = time.perf_counter()
    with pytest.raises(
        DataUnavailable, match=r"download.pytorch.org does not answer, and the weights of resnet18"
    ) as e:
        sources.with_hash(Network("resnet18", weights="IMAGENET1K_V1"))
    assert time.perf_counter() - start < 5
    assert "\n" not in str(e.value)
    with pytest.raises(SettingError, match="a file, pretrained, or one of IMAGENET1K_V1"):
        sources.with_hash(Network("resnet18", weights="IMAGENET1K_V7"))
    folder = tmp_path / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    theirs = resnet18(weights=None)
    torch.save(theirs.state_dict(), folder / ResNet18_Weights.IMAGENET1K_V1.url.rsplit("/", 1)[-1])
    for name, version in (("resnet18", "IMAGENET1K_V1"), ("torchvision/resnet18", "pretrained")):
        network = sources.with_hash(Network(name, weights=version), 32)
        featurizer, _ = sources.build(network, 3, 2, KEY, 32)
        assert torch.equal(featurizer.net.conv1.weight, theirs.conv1.weight)
        assert network.weights.startswith(str(folder))
        assert network.keeps_statistics
        assert not featurizer.train().net.bn1.training


@needs("timm")
def test_a_network_of_timm_with_its_maps(tmp_path):
    import timm

    net = libraries.featurizer_of("timm/resnet18", KEY, size=32, frozen=True)
    theirs = timm.create_model("resnet18", num_classes=5)
    torch.save(theirs.state_dict(), tmp_path / "w.pt")
    sources.load_weights(net, tmp_path / "w.pt")
    x = images()
    expected = theirs.eval().forward_head(theirs.forward_features(x), pre_logits=True)
    torch.testing.assert_close(net.eval()(x), expected)
    torch.testing.assert_close(net.stages(x)[-1], expected)
    assert [s.shape[1] for s in net.stages(x)] == [64, 64, 128, 256, 512, 512]
    assert not any(m.training for m in net.train().modules() if isinstance(m, nn.BatchNorm2d))
    assert libraries.inputs_of("timm/vit_tiny_patch16_224").mean == (0.5, 0.5, 0.5)
    with pytest.raises(SettingError, match=r"takes images \(n, 3, 32, 32\); choose another --size"):
        libraries.featurizer_of("timm/vit_tiny_patch16_224", KEY, size=32)


@needs("timm")
def test_pretrained_weights_of_timm_come_from_its_cache(tmp_path, alone, monkeypatch):
    import timm
    from safetensors.torch import save_file

    start = time.perf_counter()
    with pytest.raises(DataUnavailable, match=r"hub\.invalid does not answer, and the weights of timm/resnet18"):
        sources.with_hash(Network("timm/resnet18.a1_in1k", weights="pretrained"), 32)
    assert time.perf_counter() - start < 5
    theirs = timm.create_model("resnet18")
    repository = tmp_path / "hub" / "models--timm--resnet18.a1_in1k"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    (repository / "snapshots" / ("0" * 40)).mkdir(parents=True)
    save_file(theirs.state_dict(), repository / "snapshots" / ("0" * 40) / "model.safetensors")
    network = sources.with_hash(Network("timm/resnet18.a1_in1k", weights="pretrained"), 32)
    featurizer, _ = sources.build(network, 3, 2, KEY, 32)
    assert torch.equal(featurizer.net.conv1.weight, theirs.conv1.weight)
    assert len(network.weights_hash) == 16
    monkeypatch.setattr(timm, "get_pretrained_cfg", lambda name: None)
    with pytest.raises(SettingError, match=r"there for timm/vit_base_patch8_224.dino; it has none") as e:
        sources.with_hash(Network("timm/vit_base_patch8_224.dino", weights="pretrained"), 32)
    assert "\n" not in str(e.value)


# --- CLIP -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clip_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision |= {"image_size": 16, "patch_size": 8}
    text = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(vision_config=vision, text_config=text | {"vocab_size": 99}, projection_dim=12)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        whole = transformers.CLIPModel(config).eval()
    whole.save_pretrained(tmp_path / "clip")
    made = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.2, 0.2], "image_processor_type": "CLIPImageProcessor"}
    (tmp_path / "clip" / "preprocessor_config.json").write_text(json.dumps(made))
    return tmp_path / "clip", whole


def test_features_of_a_clip_are_those_of_its_images(clip_folder, alone):
    folder, whole = clip_folder
    name = f"clip/{folder}"
    assert libraries.inputs_of(name) == libraries.Inputs(16, (0.4, 0.5, 0.6), (0.2, 0.2, 0.2))
    network = sources.with_hash(Network(name), 16)
    featurizer, _ = sources.build(network, 3, 2, KEY, 16)
    x = images(3, 16)
    with torch.no_grad():
        pooled = whole.vision_model(pixel_values=x).pooler_output
        torch.testing.assert_close(featurizer.eval()(x), whole.visual_projection(pooled))
    assert featurizer.features == 12


def test_a_clip_that_is_nowhere_is_one_line(alone):
    start = time.perf_counter()
    with pytest.raises(DataUnavailable, match=r"hub\.invalid does not answer") as e:
        sources.with_hash(Network("clip/openai/none"))
    assert time.perf_counter() - start < 5
    assert "\n" not in str(e.value)


def test_a_model_on_a_clip_needs_its_folder_no_more(clip_folder, tmp_path):
    folder, _ = clip_folder
    tree = pictures_in(tmp_path)
    network = sources.with_hash(Network(f"clip/{folder}"), 16)
    source = sources.Source(str(tree), size=16, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.2))
    found = sources.load(source)
    model, _ = models.fit(source, found, network, "erm-nu", FAST, Settings())
    models.save(model, tmp_path / "m.pt")
    folder.rename(tmp_path / "elsewhere")
    back = models.load(tmp_path / "m.pt")
    assert back.preprocessing.mean == (0.4, 0.5, 0.6)
    paths = models.images_in([tree / "dusk"])[:3]
    before, after = (models.predict(m, paths) for m in (model, back))
    assert [p.probabilities for p in before] == [p.probabilities for p in after]


def test_a_hub_that_says_nothing_is_waited_for_no_longer(monkeypatch):
    def look_up(*args, **kwargs):
        time.sleep(3)
        raise OSError("not here")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    start = time.perf_counter()
    assert not libraries.reachable("https://hub.invalid/x", 0.3)
    assert time.perf_counter() - start < 2


# --- a module of the user's -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Encoder", "ready"])
def test_a_module_of_the_users_keeps_its_modes(tmp_path, mine, name):
    """What came frozen stays so, statistics of batch norm included; the rest learns. What was handed in stays."""
    tree = pictures_in(tmp_path)
    network = sources.with_hash(Network(f"{mine}:{name}"), 8)
    start, _ = sources.build(network, 3, 2, Key("domains/fit") / 0, 8)
    for algorithm in ("erm-nu", "swad"):
        model, _ = one_fit(tree, network, algorithm)
        before, after = start.state_dict(), model.featurizer.state_dict()
        same = {k for k, v in before.items() if torch.equal(v, after[k])}
        assert same == {k for k in before if "stem" in k}
    if name == "ready":
        ready = sys.modules[mine].ready
        assert not ready.stem.training
        assert ready.top.training
        assert torch.equal(ready.top[1].running_mean, torch.zeros(5))


def test_batch_norm_of_the_users_can_be_frozen(mine):
    network = sources.with_hash(Network(f"{mine}:Encoder", frozen=True), 8)
    featurizer, _ = sources.build(network, 3, 2, KEY, 8)
    featurizer.train()(images(4, 8))
    assert torch.equal(featurizer.net.top[1].running_mean, torch.zeros(5))


def test_weights_for_a_module_of_the_users_leave_its_modes(tmp_path, mine):
    first, _ = sources.build(sources.with_hash(Network(f"{mine}:Encoder"), 8), 3, 2, KEY / "other", 8)
    torch.save({"model": {f"module.backbone.{k}": v for k, v in first.net.state_dict().items()}}, tmp_path / "w.pt")
    network = sources.with_hash(Network(f"{mine}:Encoder", weights=str(tmp_path / "w.pt")), 8)
    assert not network.keeps_statistics
    assert network.weights_hash != sources.with_hash(Network(f"{mine}:Encoder"), 8).weights_hash
    featurizer, _ = sources.build(network, 3, 2, KEY, 8)
    assert all(torch.equal(v, featurizer.net.state_dict()[k]) for k, v in first.net.state_dict().items())
    assert not featurizer.train().frozen
    assert featurizer.net.top[1].training


@pytest.mark.parametrize(
    "name, said",
    [
        ("number", "it is a int"),
        ("Maps", r"it gives \(1, 6, 6, 6\) for one image: pool them"),
        ("broken", "OSError: no such disk"),
        ("absent", "AttributeError"),
    ],
)
def test_what_is_no_featurizer(mine, name, said):
    with pytest.raises(SettingError, match=said):
        sources.with_hash(Network(f"{mine}:{name}"), 8)
    with pytest.raises(SettingError, match="ModuleNotFoundError"):
        sources.with_hash(Network(f"not_{mine}:{name}"), 8)


def test_a_model_runs_no_code_that_its_user_has_not_named(tmp_path, mine):
    tree = pictures_in(tmp_path)
    network = sources.with_hash(Network(f"{mine}:Encoder"), 8)
    model, _ = one_fit(tree, network)
    models.save(model, tmp_path / "m.pt")
    sys.modules.pop(mine)
    with pytest.raises(SettingError, match=f"--backbone {mine}:Encoder runs that code"):
        models.load(tmp_path / "m.pt")
    assert mine not in sys.modules
    back = models.load(tmp_path / "m.pt", f"{mine}:Encoder")
    paths = models.images_in([tree / "dusk"])[:3]
    assert models.predict(back, paths) == models.predict(model, paths)


def test_a_changed_module_is_another_network(tmp_path, mine):
    first = sources.with_hash(Network(f"{mine}:Encoder"), 8)
    assert sources.with_hash(Network(f"{mine}:Encoder"), 8) == first
    (tmp_path / f"{mine}.py").write_text(OWN.replace(".mean((2, 3))", ".amax((2, 3))"))
    sys.modules.pop(mine)
    assert sources.with_hash(Network(f"{mine}:Encoder"), 8).weights_hash != first.weights_hash


# --- a linear probe -------------------------------------------------------------------------------------------------


def test_a_linear_probe_leaves_the_features_as_they_are(tmp_path):
    tree = pictures_in(tmp_path)
    network = Network(width=8, probe=True)
    start, head = sources.build(network, 3, 2, Key("domains/fit") / 0, 8)
    model, _ = one_fit(tree, network)
    assert all(torch.equal(v, model.featurizer.state_dict()[k]) for k, v in start.state_dict().items())
    assert not torch.equal(head.weight, model.head.weight)
    models.save(model, tmp_path / "m.pt")
    paths = models.images_in([tree / "dusk"])[:3]
    assert models.predict(models.load(tmp_path / "m.pt"), paths) == models.predict(model, paths)


@needs("torchvision")
def test_batch_norm_under_a_linear_probe_keeps_its_statistics():
    probe, _ = sources.build(Network("resnet18", probe=True, frozen=False), 3, 2, KEY, 32)
    before = probe.net.net.bn1.running_mean.clone()
    assert not probe.train()(images()).requires_grad
    assert torch.equal(probe.net.net.bn1.running_mean, before)


@pytest.mark.parametrize("name", ["erm-nu", "coral", "swad-coral", "mixup-nu"])
def test_what_asks_something_of_the_features_refuses_a_probe(name):
    with pytest.raises(SettingError, match="a linear probe leaves the features as they are"):
        check_algorithms((name,), Network(probe=True))
    check_algorithms(("erm", "irm", "swad"), Network(probe=True))
