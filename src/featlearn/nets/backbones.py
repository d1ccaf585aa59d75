"""Featurizers of images: a small convolutional network, and the ResNets of torchvision."""

import contextlib
import pickle
import warnings
from collections.abc import Iterator
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

    def __init__(self, channels: int, key: Key, width: int = 64):
        super().__init__()
        if width < 8 or width % 8:
            raise SettingError("width", width, "a multiple of 8", "64 is that of the benchmark, 16 suits a CPU")
        with _drawn_from(key):
            self.convolutions = nn.ModuleList(
                nn.Conv2d(inputs, outputs, 3, stride, padding=1)
                for inputs, outputs, stride in (
                    (channels, width, 1), (width, 2 * width, 2), (2 * width, 2 * width, 1), (2 * width, 2 * width, 1),
                )
            )  # fmt: skip
        self.norms = nn.ModuleList(nn.GroupNorm(8, n) for n in (width, *[2 * width] * 3))
        self.features = 2 * width

    def stages(self, x: Float[Tensor, "n c h w"]) -> tuple[Tensor, ...]:
        """Maps after each convolution, and last the features."""
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
    released code (nuclear.method_ermnu); its scales and shifts still learn.

    Errors: SettingError for a name that is not in RESNETS, and where torchvision is not installed.
    """

    def __init__(self, name: str, key: Key, frozen: bool = True):
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
        self.frozen = frozen

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
        net = self.net
        maps = [net.maxpool(net.relu(net.bn1(net.conv1(x))))]
        for group in (net.layer1, net.layer2, net.layer3, net.layer4):
            maps.append(group(maps[-1]))
        return (*maps, net.avgpool(maps[-1]).flatten(1))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features."""
        return self.net(x)


def backbone(name: str, key: Key, channels: int = 3, width: int = 64, frozen: bool = True) -> Any:
    """A featurizer by name, one of BACKBONES, with random weights; `features` of it is how many it gives.

    channels, width: of cnn; frozen: batch norm of a ResNet, which takes three channels.

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
    """A linear classifier (features, classes), started as torch starts one, from the key."""
    with _drawn_from(key):
        return nn.Linear(features, classes)


def read_tensors(path: str | Path, field: str) -> Any:
    """What `torch.save` wrote into a file, if it is tensors and plain containers; nothing else is unpickled.

    Errors: SettingError naming `field`: no such file, or not such a file.
    """
    path = Path(path).expanduser()
    if not path.is_file():
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
    """Load pretrained weights from a file that `torch.save` wrote: a state dict, also below "state_dict".

    The names may be those of torchvision (a last layer `fc` is left out) or of the featurizer itself, with `module.` in
    front or not. Nothing but tensors and plain containers is unpickled.

    Errors: SettingError, before anything is loaded: no such file, not such a file, names or shapes that do not fit.
    """
    data = read_tensors(path, "weights")
    data = data.get("state_dict", data) if isinstance(data, dict) else {}
    target: Any = featurizer.net if isinstance(featurizer, ResNet) else featurizer
    wanted = target.state_dict()
    found = {str(k).removeprefix("module.").removeprefix("net."): v for k, v in data.items()}
    missing = [k for k in wanted if k not in found and not k.endswith("num_batches_tracked")]
    if missing:
        remedy = f"{len(missing)} are missing, first {missing[0]}: is it of another architecture?"
        raise SettingError("weights", path, f"all {len(wanted)} tensors of the backbone", remedy)
    wrong = [k for k, v in wanted.items() if k in found and tuple(found[k].shape) != tuple(v.shape)]
    if wrong:
        shapes = f"{tuple(found[wrong[0]].shape)} for {tuple(wanted[wrong[0]].shape)}"
        raise SettingError("weights", path, "tensors of the backbone's shapes", f"{wrong[0]} has {shapes}")
    target.load_state_dict({k: found.get(k, v) for k, v in wanted.items()})


@contextlib.contextmanager
def _drawn_from(key: Key) -> Iterator[None]:
    """Layers draw their start from torch's global state: it is set from the key, and comes back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.seed)
        yield
