"""Featurizers of other people: of timm, torchvision, transformers' CLIP, and a module of the user's own, by name.

- timm/NAME: any model of timm, without its classifier
- torchvision/NAME: any classifier of torchvision with a last linear layer, without that layer
- clip/NAME: the image encoder of a CLIP in a folder or on the hub, with its projection
- MODULE:NAME: a torch module of the user's, or what makes one when it is called
"""

import contextlib
import copy
import json
import os
import pkgutil
import sys
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import Key, SettingError
from featlearn.data.models import quiet
from featlearn.errors import DataUnavailable
from featlearn.nets.backbones import RESNETS

LIBRARIES = ("timm", "torchvision", "clip")
OWN = "own"
PRETRAINED = "pretrained"
"""In place of a file: the weights that the library has for this name."""
SECONDS = 4.0
"""How long a hub is waited for."""
CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
"""Of the images that CLIP was trained on, where its preprocessing is not in its folder."""
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def library_of(name: str) -> str:
    """One of LIBRARIES, OWN for module:name, "" for a backbone of featlearn. Errors: SettingError for other names."""
    first, slash, rest = name.partition("/")
    if slash and first in LIBRARIES and rest:
        return first
    module, colon, attribute = name.partition(":")
    if colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split(".")):
        return OWN
    if name in ("cnn", *RESNETS):
        return ""
    allowed = f"one of cnn, {', '.join(RESNETS)}, {', '.join(f'{x}/NAME' for x in LIBRARIES)}, MODULE:NAME"
    raise SettingError("backbone", repr(name), allowed, "for example timm/convnext_tiny, or mine:encoder")


class Featurizer(nn.Module):
    """A module of a library or of the user's, as a featurizer: images (n, 3, height, width) -> features (n, d).

    frozen: its batch norm keeps its statistics while the rest trains. Other parts keep the mode that they came in.
    features: d, measured on one image of `size` pixels.

    Errors: SettingError for a module that gives no such features, or that does not take images of that size.
    """

    def __init__(self, name: str, net: nn.Module, size: int, frozen: bool = False) -> None:
        super().__init__()
        self.name, self.net, self.frozen = name, net, frozen
        if frozen:
            for module in _norms(net):
                module.eval()
        self.features = self._measured(size)

    def _measured(self, size: int) -> int:
        modes = {m: m.training for m in self.modules()}
        like = next(iter(self.net.parameters()), None)
        if like is None:
            raise SettingError(
                "backbone", self.name, "a module with parameters", "it has none: add a layer that learns"
            )
        if any(p.dtype != torch.float32 for p in self.net.parameters()):
            odd = next(p.dtype for p in self.net.parameters() if p.dtype != torch.float32)
            raise SettingError("backbone", self.name, "a module of float32", f"it holds {odd}: call .float() on it")
        self.net.eval()
        try:
            width = self._width(self.net, torch.zeros(1, 3, size, size, device=like.device), "")
        finally:
            for module, mode in modes.items():
                module.training = mode
        if any(modes.values()):  # some modules give more than features while they train
            images = torch.zeros(2, 3, size, size, device=like.device)
            self._width(copy.deepcopy(self.net), images, " while it trains")
        return width

    def _width(self, net: nn.Module, images: Tensor, when: str) -> int:
        size = images.shape[-1]
        try:
            with torch.no_grad(), drawn_from(Key("domains/measured")):
                found: Any = net(images)
        except Exception as why:  # whatever a module of other people's raises
            reason = " ".join(str(why).split())[:120]
            allowed = f"a module that takes images (n, 3, {size}, {size}){when}"
            raise SettingError("backbone", self.name, allowed, f"choose another --size ({reason})") from None
        if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(images):
            many = "one image" if len(images) == 1 else f"{len(images)} images"
            told = f"{tuple(found.shape)} for {many}" if isinstance(found, Tensor) else ""
            kind = told or f"a {type(found).__name__}"
            allowed = f"a module with features (n, d){when}"
            raise SettingError("backbone", self.name, allowed, f"it gives {kind}: pool them, or give one tensor")
        return found.shape[1]

    def train(self, mode: bool = True) -> "Featurizer":
        """As of any module, except for frozen batch norm."""
        super().train(mode)
        if getattr(self, "frozen", False):
            for module in _norms(self.net):
                module.eval()
        return self

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Features."""
        if x.ndim != 4 or x.shape[1] != 3:
            raise SettingError(
                "x", f"a tensor of shape {tuple(x.shape)}", "(n, 3, height, width)", "give colour images"
            )
        return self.net(x)


class Staged(Featurizer):
    """A featurizer whose library gives the maps of its stages, for MIRO."""

    def stages(self, x: Float[Tensor, "n c h w"]) -> tuple[Tensor, ...]:
        """Maps (n, c, ...) of the stages, and last the features."""
        net: Any = self.net
        last, maps = net.forward_intermediates(x)
        return (*maps, net.forward_head(last, pre_logits=True))


class Frozen(nn.Module):
    """A featurizer that does not learn: for a linear probe, in evaluation mode and without gradients.

    Example:
        >>> from featlearn.nets import SmallCnn
        >>> Frozen(SmallCnn(3, Key("demo"), 8)).train()(torch.zeros(2, 3, 8, 8)).requires_grad
        False
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net.requires_grad_(False)
        self.features = net.features
        self.train()

    def train(self, mode: bool = True) -> "Frozen":
        """The featurizer stays in evaluation mode."""
        super().train(mode)
        self.net.eval()
        return self

    def forward(self, x: Float[Tensor, "n ..."]) -> Float[Tensor, "n d"]:
        """Features."""
        with torch.no_grad():
            return self.net(x)


def _norms(net: nn.Module) -> list[nn.Module]:
    return [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


# --- what a name stands for -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """What a backbone was made for: size in pixels, mean and standard deviation of each channel of [0, 1]."""

    size: int = 224
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD


def inputs_of(name: str) -> Inputs:
    """The inputs that the library states for a name; those of ImageNet at 224 pixels where it states none.

    Errors: SettingError for a name that the library does not have.
    """
    library, rest = library_of(name), name.partition("/")[2]
    if library == "timm":
        timm = _timm(name)
        found = timm.get_pretrained_cfg(rest)
        if found is None:
            return Inputs()
        return Inputs(int(found.input_size[-1]), _three(found.mean), _three(found.std))
    if library == "torchvision":
        models = _torchvision(name)
        transforms = models.get_model_weights(rest)["DEFAULT"].transforms()
        return Inputs(int(transforms.crop_size[0]), _three(transforms.mean), _three(transforms.std))
    if library == "clip":
        made = _clip_files(rest)
        return Inputs(int(made["image_size"]), _three(made["mean"]), _three(made["std"]))
    return Inputs()


def _three(values: Any) -> tuple[float, float, float]:
    a, b, c = (float(v) for v in values)
    return a, b, c


def featurizer_of(
    name: str, key: Key, *, size: int, frozen: bool = False, pretrained: bool = False, config: str = ""
) -> Featurizer:
    """The featurizer of a name of this module, with random weights from the key or with those of its library.

    size: pixels of the images that it is to take; pretrained: with the weights that timm or transformers have for the
    name (of torchvision they are a file: see `weights_file`); config: of CLIP, as `config_of` gave it.

    Errors: SettingError or DataUnavailable, one line: a package that is not installed, a name that is not there, a hub
    that does not answer.
    """
    library, rest = library_of(name), name.partition("/")[2]
    kind, named = Featurizer, _named(name) if library == OWN else None
    with drawn_from(key):
        if library == "timm":
            net = _from_timm(name, rest, pretrained)
            kind = Staged if hasattr(net, "forward_intermediates") and hasattr(net, "forward_head") else Featurizer
        elif library == "torchvision":
            net = _without_last_layer(name, rest)
        elif library == "clip":
            net = _clip(rest, pretrained, config)
        else:
            net = _own(name, named)
    return kind(name, net, size, frozen)


def _absent(package: str, extra: str, name: str, why: ModuleNotFoundError) -> Exception:
    """The error of a package that is not installed; that of another one that it lacks as it is."""
    if why.name != package:
        return why
    return SettingError("backbone", name, f"available with {package}", f"pip install 'featlearn[{extra}]'")


def _timm(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import timm  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as why:
        raise _absent("timm", "timm", name, why) from None
    rest = name.partition("/")[2]
    if not timm.is_model(rest):
        near = timm.list_models(f"*{rest.split('.')[0]}*")[:4] or timm.list_models("resnet1*")[:4]
        raise SettingError("backbone", name, "a model of timm", f"for example {', '.join(near)}")
    return timm


def _from_timm(name: str, rest: str, pretrained: bool) -> nn.Module:
    timm = _timm(name)
    cfg = timm.get_pretrained_cfg(rest)
    if pretrained and (cfg is None or not cfg.has_weights):
        raise SettingError("weights", PRETRAINED, f"there for {name}", "it has none: give a file, or another name")
    host = _hub(cfg.hf_hub_id) if pretrained and cfg.hf_hub_id else str((cfg and cfg.url) or "")
    with _from_hub(name, host if pretrained else ""), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return timm.create_model(rest, pretrained=pretrained, num_classes=0)


def _torchvision(name: str) -> Any:
    try:
        from torchvision import models
    except ModuleNotFoundError as why:
        raise _absent("torchvision", "vision", name, why) from None
    rest = name.partition("/")[2] or name
    known = models.list_models(module=models)
    if rest not in known:
        near = [n for n in known if n.startswith(rest[:3])][:4] or known[:4]
        raise SettingError("backbone", name, "a classifier of torchvision", f"for example {', '.join(near)}")
    return models


def _without_last_layer(name: str, rest: str) -> nn.Module:
    models = _torchvision(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about starts that will change
        net = models.get_model(rest, weights=None)
    layers = [(n, m) for n, m in net.named_modules() if isinstance(m, nn.Linear) and m.out_features == 1000]
    if not layers:
        raise SettingError("backbone", name, "a classifier that ends in a linear layer", "choose another one")
    *above, last = layers[-1][0].split(".")
    setattr(net.get_submodule(".".join(above)), last, nn.Identity())
    return net


def weights_file(name: str, version: str, progress: bool = False) -> Path:
    """The file of torchvision's weights for a backbone, fetched where it is not in the cache of torch.hub.

    version: PRETRAINED for the newest, or a name as IMAGENET1K_V1.

    Errors: SettingError for a version that there is not; DataUnavailable where the hub does not answer.
    """
    rest = name.partition("/")[2] or name
    models = _torchvision(name)
    known = models.get_model_weights(rest)
    wanted = "DEFAULT" if version == PRETRAINED else version
    if wanted not in known.__members__:
        allowed = f"a file, {PRETRAINED}, or one of {', '.join(known.__members__)}"
        raise SettingError("weights", version, allowed, "check the path, or the name")
    url = known[wanted].url
    path = Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[-1]
    if not path.is_file():
        _reach(url, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            torch.hub.download_url_to_file(url, str(path), hash_prefix=path.stem.rsplit("-", 1)[-1], progress=progress)
        except (OSError, RuntimeError) as why:
            reason = " ".join(str(why).split())[:120]
            raise DataUnavailable(f"the weights of {name} could not be fetched ({reason}); try again") from None
    return path


# --- CLIP -----------------------------------------------------------------------------------------------------------


def _transformers(source: str) -> Any:
    try:
        import transformers
    except ModuleNotFoundError as why:
        raise _absent("transformers", "llm", f"clip/{source}", why) from None
    return transformers


class _ClipImages(nn.Module):
    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(pixel_values=x).image_embeds


def config_of(name: str) -> str:
    """What makes the network of a CLIP without its folder, as JSON; "" for other backbones."""
    if library_of(name) != "clip":
        return ""
    return json.dumps(_clip_files(name.partition("/")[2])["config"], sort_keys=True)


def _clip_files(source: str) -> dict[str, Any]:
    """Configuration of the encoder, and how images become its inputs."""
    transformers = _transformers(source)
    folder = Path(os.path.expanduser(source))
    name = str(folder) if folder.is_dir() else source
    url = "" if folder.is_dir() else _hub(source)
    with _from_hub(f"clip/{source}", url):
        config = transformers.CLIPVisionConfig.from_pretrained(name)
        whole, _ = transformers.PretrainedConfig.get_config_dict(name)
        if whole.get("projection_dim"):
            config.projection_dim = whole["projection_dim"]
        made: dict[str, Any] = {}
        with contextlib.suppress(OSError):
            made, _ = transformers.CLIPImageProcessor.get_image_processor_dict(name)
    mean, std = made.get("image_mean") or CLIP_MEAN, made.get("image_std") or CLIP_STD
    plain = {k: v for k, v in config.to_diff_dict().items() if k != "_name_or_path"}
    return {"config": plain, "image_size": config.image_size, "mean": mean, "std": std}


def _clip(source: str, pretrained: bool, config: str) -> nn.Module:
    transformers = _transformers(source)
    kind = transformers.CLIPVisionModelWithProjection
    if not pretrained:
        made = json.loads(config) if config else _clip_files(source)["config"]
        return _ClipImages(kind(transformers.CLIPVisionConfig(**made)))
    folder = Path(os.path.expanduser(source))
    config_here = transformers.CLIPVisionConfig(**_clip_files(source)["config"])
    with _from_hub(f"clip/{source}", "" if folder.is_dir() else _hub(source)):
        place = str(folder) if folder.is_dir() else source
        with quiet(transformers):  # the report would be on the text encoder, which is left out
            net, told = kind.from_pretrained(
                place, config=config_here, dtype=torch.float32, use_safetensors=True, output_loading_info=True
            )
    if told["missing_keys"]:
        missing = sorted(told["missing_keys"])
        remedy = f"{len(missing)} tensors are missing, first {missing[0]}: is it a CLIP?"
        raise SettingError("backbone", f"clip/{source}", "a whole CLIP with its projection", remedy)
    return _ClipImages(net)


# --- hubs -----------------------------------------------------------------------------------------------------------


def _hub(name: str) -> str:
    """Where a model of the hub lies: on the host that the user has set for it."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{name}"


@contextlib.contextmanager
def _from_hub(name: str, url: str) -> Generator[None, None, None]:
    """Load from a hub: what is kept here where the hub does not answer, and one line where nothing is."""
    if not url:
        try:
            yield
        except (OSError, RuntimeError, ValueError, KeyError) as why:
            raise SettingError("backbone", name, "one that can be loaded", _reason(why)) from None
        return
    from huggingface_hub import constants

    before, answers = constants.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE or reachable(url)
    constants.HF_HUB_OFFLINE = before or not answers
    try:
        yield
    except Exception as why:  # of requests, of the hub, of transformers
        if not answers or before:
            raise _unreachable(name, url) from None
        raise DataUnavailable(f"{name} could not be had from its hub: {_reason(why)}") from None
    finally:
        constants.HF_HUB_OFFLINE = before


def _reason(why: Exception) -> str:
    return f"{type(why).__name__}: {' '.join(str(why).split())[:160]}"


def _unreachable(name: str, url: str) -> DataUnavailable:
    host = url.split("/")[2]
    return DataUnavailable(
        f"{host} does not answer, and the weights of {name} are not on this machine: fetch them where there is a "
        "network and give --weights FILE"
    )


def _reach(url: str, name: str) -> None:
    if not reachable(url):
        raise _unreachable(name, url)


def reachable(url: str, seconds: float = SECONDS) -> bool:
    """Whether whoever serves a url answers within so many seconds, through the proxies of the environment.

    In a thread of its own: the look-up of a name cannot be given a limit.
    """
    found: list[bool] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=seconds):
                found.append(True)
        except urllib.error.HTTPError:  # an answer, too
            found.append(True)
        except (OSError, ValueError):
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(found)


# --- of the user's own ----------------------------------------------------------------------------------------------


def _own(name: str, found: Any) -> nn.Module:
    made: Any = copy.deepcopy(found) if isinstance(found, nn.Module) else found
    if callable(made) and not isinstance(made, nn.Module):
        try:
            made = made()
        except Exception as why:  # whatever the user's code raises
            raise SettingError("backbone", name, "a module, or made without arguments", _reason(why)) from None
    if not isinstance(made, nn.Module):
        raise SettingError("backbone", name, "a torch module", f"it is a {type(made).__name__}")
    return made


def _named(name: str) -> Any:
    """What a name stands for; a module that is made while its file is imported starts alike in every process."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        with drawn_from(Key("domains/own")):
            return pkgutil.resolve_name(name)
    except Exception as why:  # whatever the user's file raises
        raise SettingError("backbone", name, "a name in a module that can be imported", _reason(why)) from None
    finally:
        sys.path.remove(here)


@contextlib.contextmanager
def drawn_from(key: Key) -> Generator[None, None, None]:
    """Modules that draw from the global state get numbers of the key, and the state comes back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.seed)
        yield
