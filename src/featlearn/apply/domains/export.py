"""A fitted model for other programs: ONNX and safetensors, checked against the model before they are written."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.apply.domains.models import METADATA, Model, contents, safetensors_of
from featlearn.apply.domains.models import load as load_model
from featlearn.apply.files import keep
from featlearn.core import Key, SettingError
from featlearn.errors import DataError

CLOSE = 1e-4
"""How far logits of an exported model may be off, for logits of size 1: rounding of 32 bits over a hundred layers."""
IMAGES = 3
"""Images of the check."""


class Whole(nn.Module):
    """A model with its preprocessing: images (n, c, size, size) in [0, 1] -> logits and probabilities (n, classes)."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.featurizer, self.head = model.featurizer, model.head
        made = model.preprocessing
        known = model.channels == 3  # grey digits are taken as they are
        self.register_buffer("mean", torch.tensor(made.mean if known else 0.0).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(made.std if known else 1.0).view(1, -1, 1, 1))

    def forward(self, images: Float[Tensor, "n c h w"]) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k"]]:
        """Logits, probabilities."""
        logits = self.head(self.featurizer((images - self.mean) / self.std))
        return logits, logits.softmax(1)


def example(model: Model) -> Float[Tensor, "n c h w"]:
    """Random images of a model's shape."""
    size = model.preprocessing.size
    return torch.rand(IMAGES, model.channels, size, size, generator=Key("domains/export").torch())


def to_onnx(model: Model, path: str | Path) -> float:
    """Write a model as ONNX, for any number of images, and return how far its logits are off.

    The input `images` (n, channels, size, size) has values in [0, 1]; outputs are `logits` and `probabilities`. Labels
    and how the model was made are in its metadata.

    Errors: SettingError where onnx, onnxscript or onnxruntime is not installed; DataError, with nothing written, where
    the network cannot be written as ONNX, or the file computes something else than the model; StoreError.
    """
    onnxruntime = _packages(str(path))
    whole, x = Whole(model).cpu().eval(), example(model)
    with torch.no_grad():
        expected, _ = whole(x)
    try:
        with _quietly(), torch.no_grad():
            program: Any = torch.onnx.export(
                whole,
                (x,),
                input_names=["images"],
                output_names=["logits", "probabilities"],
                dynamic_shapes={"images": {0: torch.export.Dim.DYNAMIC}},
                dynamo=True,
                verbose=False,
            )
            proto = program.model_proto
    except Exception as why:  # whatever the exporter raises on a network of other people's
        raise DataError(f"the network cannot be written as ONNX ({' '.join(str(why).split())[:160]})") from None
    for name, value in (("labels", list(model.labels)), (METADATA, contents(model))):
        proto.metadata_props.add(key=name, value=json.dumps(value))
    data = proto.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    off = 0.0
    for n in (IMAGES, 1):
        logits, _ = session.run(None, {"images": x[:n].numpy()})
        off = max(off, float((torch.from_numpy(logits) - expected[:n]).abs().max()))
    _check(off, expected)
    keep(Path(path), data)
    return off


def to_safetensors(model: Model, path: str | Path) -> float:
    """Write a model as safetensors, its settings as JSON in the metadata; `load` reads it. Returns 0, its error.

    Errors: DataError where what is read back computes something else; StoreError where it cannot be written.
    """
    keep(Path(path), safetensors_of(model))
    x = example(model)
    own = model.network.backbone if model.network.library == "own" else ""
    with torch.no_grad():
        expected, _ = Whole(model).cpu().eval()(x)
        found, _ = Whole(load_model(path, own)).eval()(x)
    if not torch.equal(found, expected):
        raise DataError(f"{path} computes other logits than the model; it is no use: keep the .pt file")
    return 0.0


def _check(off: float, expected: Tensor) -> None:
    allowed = CLOSE * max(1.0, float(expected.abs().max()))
    if not off <= allowed:
        raise DataError(f"the exported model gives logits that are {off:.2g} off, {allowed:.2g} are rounding: not kept")


def _packages(path: str) -> Any:
    try:
        import onnx  # noqa: F401  # pyright: ignore[reportMissingImports]
        import onnxruntime  # pyright: ignore[reportMissingImports]
        import onnxscript  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as why:
        if why.name not in ("onnx", "onnxruntime", "onnxscript"):
            raise
        remedy = "pip install 'featlearn[onnx]', or export to .safetensors"
        raise SettingError("out", path, f"written with {why.name}", remedy) from None
    return onnxruntime


@contextlib.contextmanager
def _quietly() -> Generator[None, None, None]:
    """The exporter tells of its steps, on stdout too."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
