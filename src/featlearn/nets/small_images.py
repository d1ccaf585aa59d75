"""Encoders of small images: three convolutions for a CPU, and the ResNet-18 that is usual for 32 x 32 pixels."""

from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import Key, SettingError
from featlearn.nets.backbones import _check_images as check_images  # pyright: ignore[reportPrivateUsage]
from featlearn.nets.backbones import _drawn_from as drawn_from  # pyright: ignore[reportPrivateUsage]


class SmallEncoder(nn.Module):
    """Three 3 x 3 convolutions (strides 1, 2, 2), each with a norm and ReLU, the mean over places, a linear map.

    Shapes: images (n, channels, height, width) -> features (n, d), d = `features`.

    width: channels of the first convolution, doubled at each of the others. features: of the linear map at the end, so
    that their number can be made scarce; 0: no map, 4 width features behind a ReLU. norm: of a batch, or of groups of
    channels, which knows no statistics.

    Errors: SettingError for sizes below 1, and a width that is no multiple of 4 with groups.

    Example:
        >>> import torch
        >>> SmallEncoder(1, Key("demo"), width=8, features=32)(torch.zeros(5, 1, 14, 14)).shape
        torch.Size([5, 32])
    """

    def __init__(
        self, channels: int, key: Key, width: int = 16, features: int = 64, norm: Literal["batch", "group"] = "batch"
    ) -> None:
        super().__init__()
        for name, value, least in (("channels", channels, 1), ("width", width, 1), ("features", features, 0)):
            if value < least:
                raise SettingError(
                    name, value, f"at least {least}", "1 channel is grey, 3 are colour; width 16 is small"
                )
        if norm not in ("batch", "group"):
            raise SettingError("norm", repr(norm), "'batch' or 'group'", "batch is usual in contrastive learning")
        if norm == "group" and width % 4:
            raise SettingError("width", width, "a multiple of 4 with norm = 'group'", "16 is small")
        layers: list[nn.Module] = []
        with drawn_from(key):
            for inputs, outputs, stride in ((channels, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2)):
                own = nn.BatchNorm2d(outputs) if norm == "batch" else nn.GroupNorm(4, outputs)
                layers += [nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), own, nn.ReLU()]
            self.convolutions = nn.Sequential(*layers)
            self.map = nn.Linear(4 * width, features) if features else nn.Identity()
        self.channels, self.features = channels, features or 4 * width

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features."""
        check_images(x, self.channels)
        return self.map(self.convolutions(x).mean((2, 3)))


class SmallResNet(nn.Module):
    """ResNet-18 for small images: a 3 x 3 convolution of stride 1 in front and no pooling behind it.

    Shapes: images (n, channels, height, width) -> features (n, 512); for 32 x 32 pixels the last maps are 4 x 4.

    Source: thesis F.3.2, "a ResNet18 network (He et al., 2016) as a feature extractor"; the stem is that of the
    released code (models/backbones/resnet_1.py), and the text does not say it.
    Errors: SettingError for channels below 1, and where torchvision is not installed.
    """

    def __init__(self, channels: int, key: Key) -> None:
        super().__init__()
        if channels < 1:
            raise SettingError("channels", channels, "at least 1", "1 for grey images, 3 for colour")
        try:
            from torchvision import models  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError as why:
            if why.name != "torchvision":
                raise
            remedy = "pip install 'featlearn[vision]', or use SmallEncoder"
            raise SettingError("encoder", "SmallResNet", "available with torchvision", remedy) from None
        with drawn_from(key):
            self.net: Any = models.resnet18(weights=None)
            self.net.conv1 = nn.Conv2d(channels, 64, 3, 1, padding=1, bias=False)
            nn.init.kaiming_normal_(self.net.conv1.weight, mode="fan_out", nonlinearity="relu")
        self.net.maxpool = nn.Identity()
        self.net.fc = nn.Identity()
        self.channels, self.features = channels, 512

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features."""
        check_images(x, self.channels)
        return self.net(x)


def adapter(features: int, key: Key, hidden: int = 1024, outputs: int = 0) -> nn.Sequential:
    """Two layers with a ReLU between, (n, features) -> (n, outputs), for embeddings of a model that stays as it is.

        a(x) = W_2 relu(W_1 x + b_1) + b_2

    outputs: 0 for as many as `hidden`.

    Source: thesis F.3.4 ("a two-layer ReLU network as an adapter", hidden 1024). The released code differs: batch norm
    behind both layers, hidden 2048 (models/backbones/__init__.py).
    Errors: SettingError for sizes below 1.

    Example:
        >>> import torch
        >>> adapter(768, Key("demo"), hidden=32)(torch.zeros(5, 768)).shape
        torch.Size([5, 32])
    """
    for name, value, least in (("features", features, 1), ("hidden", hidden, 1), ("outputs", outputs, 0)):
        if value < least:
            raise SettingError(name, value, f"at least {least}", "1024 hidden ones are those of the paper")
    with drawn_from(key):
        return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, outputs or hidden))
