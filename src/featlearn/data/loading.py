"""Language models as Transformers can load them: spread over devices, of a revision, quantised, with an attention."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from featlearn.data import checkpoints, models
from featlearn.data.models import _bundled as bundled  # pyright: ignore[reportPrivateUsage]
from featlearn.data.models import _digits_apart as digits_apart  # pyright: ignore[reportPrivateUsage]
from featlearn.data.models import _quiet as quiet  # pyright: ignore[reportPrivateUsage]
from featlearn.data.models import _transformers as needed_packages  # pyright: ignore[reportPrivateUsage]
from featlearn.data.models import _users as given_by_user  # pyright: ignore[reportPrivateUsage]
from featlearn.errors import DataError, DataUnavailable

BITS = ("4bit", "8bit")
DEVICE = "cpu"


def load_model(
    name: str,
    *,
    dtype: str = "float32",
    device: str | None = None,
    device_map: Any = None,
    revision: str | None = None,
    attn_implementation: str | None = None,
    quantization: Any = None,
) -> tuple[Any, Any]:
    """A causal language model in evaluation mode, and its tokenizer; strictly, as `featlearn.data.models.load_model`.

    name: a bundled model, a folder, a .gguf file, or a hub id. dtype: float32, float16, bfloat16 or float64; device:
    cpu (where None), cuda, cuda:1, ..., or auto for the GPU where there is one.

    Handed to `from_pretrained` of Transformers where given: device_map, in place of device ("auto", "balanced", a
    mapping); revision, of a hub id, of the tokenizer too; attn_implementation (sdpa, eager, flash_attention_2, ...);
    quantization: "4bit" or "8bit" by bitsandbytes, or any `quantization_config`. Weights that are quantised while they
    are loaded are not looked at for nan and infinity.

    Errors, before any work where possible: those of `featlearn.data.models.load_model`, and DataError for device beside
    device_map, a revision of what is no hub id, unknown bits, and a missing package.

    Example:
        >>> model, tokenizer = load_model("smollm2-135m", attn_implementation="eager")
    """
    given = {"device_map": device_map, "attn_implementation": attn_implementation, "quantization": quantization}
    given = {key: value for key, value in given.items() if value is not None}
    if not given and revision is None:
        return models.load_model(name, dtype=dtype, device=device or DEVICE)
    place = models.check_model(name, dtype, device or DEVICE)
    if device_map is not None and device is not None:
        raise DataError(f"device = {device!r} is not allowed beside device_map: that says where layers go; drop one")
    bits = given.pop("quantization", None)
    if isinstance(bits, str) and bits not in BITS:
        raise DataError(f"quantization = {bits!r} is not allowed: {', '.join(BITS)} or a quantization_config")
    source, gguf = (None, None) if name in models.BUNDLED else given_by_user(name)
    if revision is not None and (source is None or Path(source).exists()):
        raise DataError(f"revision = {revision!r} is not allowed: {name} is no hub id; leave it out")
    if isinstance(bits, str) and find_spec("bitsandbytes") is None:
        raise DataUnavailable(f"quantization = {bits!r} needs the package bitsandbytes: pip install bitsandbytes")
    transformers = needed_packages()
    if isinstance(bits, str):
        how = {f"load_in_{bits}": True, "bnb_4bit_compute_dtype": getattr(torch, dtype)}
        bits = transformers.BitsAndBytesConfig(**how)
    if bits is not None:
        given["quantization_config"] = bits
        given.setdefault("device_map", {"": place})  # quantised weights do not move later
    if source is None:
        source = bundled(name, transformers)
    library = _passing(transformers, {} if revision is None else {"revision": revision}, given)
    try:
        with quiet(transformers):
            tokenizer, model = checkpoints.load(library, source, gguf, getattr(torch, dtype), name)
    except DataError as why:
        told = str(why).removesuffix("; give a causal language model")
        if told == str(why):
            raise
        passed = ", ".join([*given, *(["revision"] if revision is not None else [])])
        raise DataError(f"{told}; look at {passed}, or leave them out") from None
    if name == "smollm2-135m":
        digits_apart(tokenizer)
    return (model if "device_map" in given else model.to(place)).eval(), tokenizer


def _passing(transformers: Any, both: dict[str, Any], model: dict[str, Any]) -> Any:
    """Transformers as `checkpoints.load` uses it, with further arguments of `from_pretrained`."""
    tokenizers, decoders = transformers.AutoTokenizer, transformers.AutoModelForCausalLM
    return SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=partial(tokenizers.from_pretrained, **both)),
        AutoModelForCausalLM=SimpleNamespace(from_pretrained=partial(decoders.from_pretrained, **both, **model)),
    )
