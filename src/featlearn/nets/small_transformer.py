"""A vision transformer for small images: torchvision's, with patches of a few pixels."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import Key, SettingError
from featlearn.nets.backbones import _check_images as check_images  # pyright: ignore[reportPrivateUsage]
from featlearn.nets.backbones import _drawn_from as drawn_from  # pyright: ignore[reportPrivateUsage]


class SmallViT(nn.Module):
    """torchvision's VisionTransformer without its last layer: tokens of patch x patch pixels and one more, whose last
    state is the features.

    Shapes: images (n, channels, size, size) -> features (n, width); (size / patch)^2 + 1 tokens.

    width: of a token; depth: blocks; heads: of attention, width a multiple of them; the hidden layers have 4 width
    units. The defaults are those of ViT-Tiny with half of its blocks: 2.7 million weights. frozen_patches: the map from
    patches to tokens stays as drawn, which makes contrastive training of transformers stable.

    Source: Dosovitskiy et al. 2021; frozen patches: Chen, Xie and He 2021, section 4. Differs: places are learned
    vectors, as torchvision has them, where MoCo v3 takes fixed sines.
    Errors: SettingError for sizes below 1, a size that patches do not tile, a width that the heads do not share
    equally, and where torchvision is not installed.

    Example:
        >>> import torch
        >>> net = SmallViT(1, Key("demo"), size=8, patch=4, width=16, depth=1, heads=2)
        >>> net(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 16])
    """

    def __init__(
        self,
        channels: int,
        key: Key,
        *,
        size: int = 32,
        patch: int = 4,
        width: int = 192,
        depth: int = 6,
        heads: int = 3,
        frozen_patches: bool = False,
    ) -> None:
        super().__init__()
        for name, value, remedy in (
            ("channels", channels, "1 for grey images, 3 for colour"),
            ("size", size, "32 is that of CIFAR-10"),
            ("patch", patch, "4 makes 64 tokens of 32 x 32 pixels"),
            ("width", width, "192 is that of ViT-Tiny"),
            ("depth", depth, "6 is small"),
            ("heads", heads, "3 is that of ViT-Tiny"),
        ):
            if value < 1:
                raise SettingError(name, value, "at least 1", remedy)
        if size % patch:
            raise SettingError("patch", patch, f"a divisor of size = {size}", "4 divides 28, 32 and 64")
        if width % heads:
            raise SettingError("width", width, f"a multiple of heads = {heads}", "64 units a head are usual")
        try:
            from torchvision.models import VisionTransformer  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError as why:
            if why.name != "torchvision":
                raise
            remedy = "pip install 'featlearn[vision]', or use SmallEncoder"
            raise SettingError("encoder", "SmallViT", "available with torchvision", remedy) from None
        with drawn_from(key):
            self.net: Any = VisionTransformer(
                image_size=size,
                patch_size=patch,
                num_layers=depth,
                num_heads=heads,
                hidden_dim=width,
                mlp_dim=4 * width,
                norm_layer=partial(nn.LayerNorm, eps=1e-6),
            )
            if channels != 3:  # drawn as torchvision draws its own
                own = nn.Conv2d(channels, width, patch, patch)
                nn.init.trunc_normal_(own.weight, std=(channels * patch**2) ** -0.5)
                own.bias = nn.Parameter(torch.zeros(width))
                self.net.conv_proj = own
        self.net.heads = nn.Identity()
        self.net.conv_proj.requires_grad_(not frozen_patches)
        self.channels, self.size, self.features = channels, size, width

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features."""
        check_images(x, self.channels)
        if x.shape[2:] != (self.size, self.size):
            shape = f"of {' x '.join(map(str, x.shape[2:]))} pixels"
            remedy = "resize them, or build SmallViT with another size"
            raise SettingError("x", shape, f"{self.size} x {self.size}", remedy)
        return self.net(x)
