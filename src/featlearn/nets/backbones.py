"""Featurizers of images: a small convolutional network, and the ResNets of torchvision."""

import contextlib
import os
import pickle
import warnings
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from featlearn.core import Key, SettingError

RESNETS = ("resnet18", "resnet50")
BACKBONES = ("cnn", *RESNETS)


class SmallCnn(nn.Module):
    """Four 3 x 3 convolutions, the second with stride 2, each with ReLU and group norm, then the mean over places.

    Shapes: images (n, channels, height, width) -> features (n, 2 width). width 64: the network of 128 features that
    the benchmark uses for 28 x 28 images (nuclear.method_ermnu, small_images). `features` holds the number of features.

    Errors: SettingError for a width that is no multiple of 8 (the groups).

    Example:
        >>> SmallCnn(1, Key("demo"))(torch.zeros(5, 1, 28, 28)).shape
        torch.Size([5, 128])
    """

    def __init__(self, channels: int, key: Key, width: int = 64) -> None:
        super().__init__()
        if channels < 1:
            raise SettingError("channels", channels, "at least 1", "1 for grey images, 3 for colour")
        if width < 8 or width % 8:
            raise SettingError("width", width, "a multiple of 8", "64 is that of the benchmark, 16 suits a CPU")
        with _drawn_from(key):
            self.convolutions = nn.ModuleList(
                nn.Conv2d(inputs, outputs, 3, stride, padding=1)
                for inputs, outputs, stride in (
                    (channels, width, 1),
                    (width, 2 * width, 2),
                    (2 * width, 2 * width, 1),
                    (2 * width, 2 * width, 1),
                )
            )
        self.norms = nn.ModuleList(nn.GroupNorm(8, n) for n in (width, *[2 * width] * 3))
        self.features = 2 * width

    def stages(self, x: Float[Tensor, "n c h w"]) -> tuple[Tensor, ...]:
        """Maps after each convolution, and last the features."""
        _check_images(x, self.convolutions[0].in_channels)
        maps = []
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(functional.relu(convolution(x)))
            maps.append(x)
        return (*maps, x.mean((2, 3)))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features."""
        return self.stages(x)[-1]


class ResNet(nn.Module):
    """A ResNet of torchvision without its last layer: images (n, 3, height, width) -> features (n, 512 or 2048).

    frozen: batch norm keeps the statistics it came with and stays in evaluation mode while the rest trains, as in the
    released code (nuclear.method_ermnu); its scales and shifts still learn. None: once `load_weights` has brought
    pretrained statistics; those of a random start, mean 0 and variance 1, are of nothing, and batch norm learns.

    Errors: SettingError for a name that is not in RESNETS, and where torchvision is not installed.
    """

    def __init__(self, name: str, key: Key, frozen: bool | None = None) -> None:
        super().__init__()
        if name not in RESNETS:
            raise SettingError("backbone", repr(name), f"one of {', '.join(RESNETS)}", "or cnn for a small network")
        try:
            from torchvision import models  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError as why:
            if why.name != "torchvision":
                raise
            remedy = "pip install 'featlearn[vision]', or use cnn"
            raise SettingError("backbone", name, "available with torchvision", remedy) from None
        with _drawn_from(key):
            self.net: Any = getattr(models, name)(weights=None)
        self.features = int(self.net.fc.in_features)
        self.net.fc = nn.Identity()
        self.frozen = bool(frozen)
        self.follows_weights = frozen is None
        self.train()

    def train(self, mode: bool = True) -> "ResNet":
        """As of any module, except for frozen batch norm."""
        super().train(mode)
        if self.frozen:
            for module in self.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()
        return self

    def stages(self, x: Float[Tensor, "n c h w"]) -> tuple[Tensor, ...]:
        """Maps after the stem and the four groups of blocks, and last the features."""
        _check_images(x, 3)
        net = self.net
        maps = [net.maxpool(net.relu(net.bn1(net.conv1(x))))]
        for group in (net.layer1, net.layer2, net.layer3, net.layer4):
            maps.append(group(maps[-1]))
        return (*maps, net.avgpool(maps[-1]).flatten(1))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features."""
        _check_images(x, 3)
        return self.net(x)


def backbone(name: str, key: Key, channels: int = 3, width: int = 64, frozen: bool | None = None) -> Any:
    """A featurizer by name, one of BACKBONES, with random weights; `features` of it is how many it gives.

    channels, width: of cnn; frozen: batch norm of a ResNet, which takes three channels; None: frozen with the first
    pretrained weights.

    Errors: SettingError for an unknown name, or channels that a ResNet does not take.
    """
    if name == "cnn":
        return SmallCnn(channels, key, width)
    if name in RESNETS and channels != 3:
        raise SettingError("backbone", name, f"cnn for images of {channels} channels", "a ResNet takes three")
    if name not in RESNETS:
        raise SettingError("backbone", repr(name), f"one of {', '.join(BACKBONES)}", "cnn needs nothing more")
    return ResNet(name, key, frozen)


def linear_head(features: int, classes: int, key: Key) -> nn.Linear:
    """A linear classifier (features, classes), started as torch starts one, from the key.

    Errors: SettingError for sizes below 1.
    """
    for name, value in (("features", features), ("classes", classes)):
        if value < 1:
            raise SettingError(name, value, "at least 1", "features are those of the backbone")
    with _drawn_from(key):
        return nn.Linear(features, classes)


def read_tensors(path: str | Path, field: str) -> Any:
    """What `torch.save` wrote into a file, if it is tensors and plain containers; nothing else is unpickled.

    Errors: SettingError naming `field`: no such file, or not such a file.
    """
    path = Path(os.path.expanduser(path))
    if not os.path.isfile(path):
        raise SettingError(field, path, "a file that torch.save wrote", "there is none: check the path")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols of files that are then refused
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError, AttributeError) as why:
        reason = " ".join(str(why).split())[:80]
        remedy = f"save it anew ({type(why).__name__}: {reason})"
        raise SettingError(field, path, "a file of tensors that torch.load reads", remedy) from None


def load_weights(featurizer: nn.Module, path: str | Path) -> None:
    """Load pretrained weights from a file that `torch.save` wrote: a state dict, also as the only one in a checkpoint.

    The names may be those of the library or of the featurizer itself, with usual words (WRAPPERS) in front or not; a
    last layer (LAST_LAYERS) is left out. Nothing but tensors and plain containers is unpickled.

    Errors: SettingError, before anything is loaded: no such file, not such a file, names, shapes or kinds of numbers
    that do not fit, tensors that the backbone does not have (a deeper network has all of a shallower one), values that
    are not finite.
    """
    data = _state_dict(read_tensors(path, "weights"), path)
    target: Any = getattr(featurizer, "net", featurizer)
    wanted = target.state_dict()
    found = _named_as(wanted, data)
    missing = [k for k in wanted if k not in found and not k.endswith(_COUNTER)]
    extra = [k for k in found if k not in wanted and not k.startswith(LAST_LAYERS) and not k.endswith(_COUNTER)]
    if missing or extra:
        raise SettingError(
            "weights", path, f"the {len(wanted)} tensors of the backbone", _misfit(missing, extra, found)
        )
    wrong = [k for k, v in wanted.items() if k in found and tuple(found[k].shape) != tuple(v.shape)]
    if wrong:
        shapes = f"{tuple(found[wrong[0]].shape)} for {tuple(wanted[wrong[0]].shape)}"
        raise SettingError("weights", path, "tensors of the backbone's shapes", f"{wrong[0]} has {shapes}")
    kinds = [k for k, v in wanted.items() if k in found and found[k].is_floating_point() != v.is_floating_point()]
    if kinds:
        remedy = f"{kinds[0]} is {found[kinds[0]].dtype}: give weights that are not quantised"
        raise SettingError("weights", path, "tensors of floating point numbers", remedy)
    bad = not_finite({k: v for k, v in found.items() if k in wanted})
    negative = [k for k in wanted if k.endswith("running_var") and k in found and bool((found[k] < 0).any())]
    if bad or negative:
        what = f"{len(bad)} hold nan or infinity, first {bad[0]}" if bad else f"{negative[0]} has values below 0"
        raise SettingError("weights", path, "finite tensors, with variances from 0", f"{what}: take another checkpoint")
    target.load_state_dict({k: found.get(k, v) for k, v in wanted.items()})
    if isinstance(featurizer, ResNet) and featurizer.follows_weights:
        featurizer.frozen = True
        featurizer.train(featurizer.training)


LAST_LAYERS = ("fc.", "head.", "heads.", "classifier.", "linear.")
"""Names of layers behind the features, which are left out of pretrained weights."""
WRAPPERS = ("module", "_orig_mod", "model", "net", "backbone", "featurizer", "encoder", "trunk")
"""What training code puts in front of the names of a backbone, and nothing else is meant by."""
_COUNTER = "num_batches_tracked"


def not_finite(tensors: Mapping[str, Any]) -> list[str]:
    """Names of the tensors that hold nan or infinity."""
    return [k for k, v in tensors.items() if isinstance(v, Tensor) and not bool(torch.isfinite(v).all())]


def _state_dict(data: Any, path: str | Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint: its own, or those of the one dictionary in it that holds nothing else."""
    kind = f"it holds a {type(data).__name__}"
    if isinstance(data, Mapping):
        own = {str(k): v for k, v in data.items() if isinstance(v, Tensor)}
        inner = {str(k): v for k, v in data.items() if isinstance(v, Mapping) and _is_state_dict(v)}
        if "state_dict" in inner:
            inner = {"state_dict": inner["state_dict"]}
        if len(inner) == 1 and not own:
            return {str(k): v for k, v in next(iter(inner.values())).items() if isinstance(v, Tensor)}
        if own:
            return own
        kind = f"it holds {', '.join(str(k) for k in list(data)[:6]) or 'nothing'}"
        if inner:
            kind = f"it holds {len(inner)}, named {', '.join(inner)}: save the one that is meant alone"
    raise SettingError("weights", path, "one state dict, a dictionary of tensors by name", kind)


def _is_state_dict(value: Mapping[Any, Any]) -> bool:
    return bool(value) and any(isinstance(v, Tensor) for v in value.values()) and all(isinstance(k, str) for k in value)


def _named_as(wanted: Mapping[str, Any], data: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors by the names of the backbone: as they are, or without the one usual prefix that all of it has; what
    stands beside that prefix is another part of the model."""
    needed = [k for k in wanted if not k.endswith(_COUNTER)]
    if needed and not all(k in data for k in needed):
        ends = (k[: -len(needed[0])] for k in data if k.endswith("." + needed[0]))
        usual = [p for p in ends if set(p[:-1].split(".")) <= set(WRAPPERS) and all(p + k in data for k in needed)]
        if len(usual) == 1:
            return {k.removeprefix(usual[0]): v for k, v in data.items() if k.startswith(usual[0])}
    if all(k in data for k in needed):
        return dict(data)
    return {k.removeprefix("module.").removeprefix("net."): v for k, v in data.items()}


def _misfit(missing: list[str], extra: list[str], found: Mapping[str, Any]) -> str:
    """What is missing, what was found instead, and the prefix without which it would fit."""
    told = []
    if missing:
        told.append(f"{len(missing)} are missing, first {missing[0]}")
    if extra:
        told.append(f"{len(extra)} of the file are not of it, first {extra[0]}")
    prefixes = sorted({k[: -len(missing[0])] for k in found if k.endswith("." + missing[0])} if missing else ())
    for prefix in prefixes:
        if all(prefix + name in found for name in missing):
            told.append(f"those that begin with {prefix} would fit: save them alone, without it in their names")
            return "; ".join(told)
    return "; ".join([*told, "is it of another architecture?"])


def _check_images(x: Tensor, channels: Any) -> None:
    """The shape alone: a step of training must not wait for a GPU, and `train` stops at a loss that is not finite."""
    if not isinstance(x, Tensor):
        raise SettingError("x", f"a {type(x).__name__}", "a torch tensor", "torch.as_tensor makes one")
    if x.ndim != 4 or x.shape[1] != channels:
        shape = f"a tensor of shape {tuple(x.shape)}"
        raise SettingError("x", shape, f"(n, {channels}, height, width)", "x[:, None] gives grey images their channel")


@contextlib.contextmanager
def _drawn_from(key: Key) -> Generator[None, None, None]:
    """Layers draw their start from torch's global state: it is set from the key, and comes back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.seed)
        yield
