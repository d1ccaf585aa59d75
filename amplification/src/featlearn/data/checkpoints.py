"""Strict loading of language models: every tensor of a checkpoint is one of the model's, and every one is finite."""

import contextlib
import io
import json
import re
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from featlearn.errors import DataError

ONE_AT_A_TIME = threading.RLock()
"""Transformers switches the tying of weights off for the whole process while it loads, and so do we its messages."""
SHOWN = 3
"""How many names of tensors or files a message gives."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w-][\w.-]*")
LONGEST = 96
"""Characters of a hub id."""
FILES = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".json", ".zip", ".gz", ".tar", ".onnx", ".h5")
"""Suffixes of files: a name that ends so is none of the hub."""
GGUF_VERSIONS = (2, 3)
ROTARY = ("rope_freqs", "rope_factors_long", "rope_factors_short")
"""Tensors of a GGUF file that scale the rotary embedding; all ones where there is nothing to scale."""


def looks_local(name: str) -> bool:
    """Whether a name is meant as a path, so that the network must not be asked for it.

    Example:
        >>> looks_local("models/tiny.gguf"), looks_local("HuggingFaceTB/SmolLM2-135M-Instruct")
        (True, False)
    """
    if (
        len(name) > LONGEST
        or name.lower().endswith(FILES)
        or not HUB_ID.fullmatch(name)
        or "--" in name
        or ".." in name
    ):
        return True
    return Path(name.split("/")[0]).is_dir()


def local(name: str, path: Path) -> tuple[str, str | None]:
    """What `from_pretrained` takes for a file or folder, and the GGUF file in it.

    Errors: DataError for a file of another kind, a folder without a model or with several GGUF files and no config.
    """
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise DataError(f"model = {name!r} is not allowed: a folder, a .gguf file or a hub id; give its folder")
        check_gguf(name, path)
        return str(path.parent), path.name
    if (path / "config.json").is_file():
        _check_config(name, path / "config.json")
        return str(path), None
    files = sorted(p.name for p in path.glob("*.[gG][gG][uU][fF]"))
    if len(files) > 1:
        raise DataError(f"model = {name!r} holds {len(files)} GGUF files; give one of them: {some(files)}")
    if not files:
        raise DataError(f"model = {name!r} holds no config.json; give a folder that save_pretrained wrote")
    check_gguf(name, path / files[0])
    return str(path), files[0]


def _check_config(name: str, path: Path) -> None:
    remedy = "give a folder that save_pretrained wrote"
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as why:
        raise DataError(f"model = {name!r}: {path.name} is no JSON ({one_line(why)}); {remedy}") from None
    if not isinstance(config, dict) or not config.get("model_type"):
        raise DataError(f"model = {name!r}: {path.name} names no model_type; {remedy}")


def check_gguf(name: str, path: Path) -> None:
    """DataError where a file is no GGUF file that can be read to its end."""
    from gguf import GGUFReader

    try:
        with open(path, "rb") as f:
            head = f.read(8)
    except OSError as why:
        raise DataError(f"model = {name!r} cannot be read ({why.strerror or why}); check the file") from None
    if head[:4] != b"GGUF":
        what = "is empty" if not head else f"begins with {head[:4]!r}, not with GGUF"
        raise DataError(f"model = {name!r} is no GGUF file: it {what}; download it again")
    version = int.from_bytes(head[4:8], "little")
    if version not in GGUF_VERSIONS:
        known = " and ".join(map(str, GGUF_VERSIONS))
        raise DataError(f"model = {name!r} is of GGUF version {version}; versions {known} can be read: convert it anew")
    try:
        reader = GGUFReader(path)
        size = path.stat().st_size
        end = max((int(t.data_offset) + int(t.n_bytes) for t in reader.tensors), default=size)
    except Exception as why:  # the reader raises whatever its parts do: struct.error, ValueError, IndexError, ...
        what = f"is a damaged or truncated GGUF file ({one_line(why)})"
        raise DataError(f"model = {name!r} {what}; download it again") from None
    if end > size:
        raise DataError(f"model = {name!r} is truncated: {size} of {end} bytes; download it again")


def load(transformers: Any, source: str, gguf: str | None, dtype: torch.dtype, name: str) -> tuple[Any, Any]:
    """Tokenizer and model; DataError, one line, where the checkpoint does not fit or is damaged.

    Refused by name: tensors that are missing (tied ones excepted), that the model does not have, of another shape, or
    with values that are not finite. Code that a checkpoint brings is not run.
    """
    more = {} if gguf is None else {"gguf_file": gguf}
    # The bar of a GGUF conversion is not one of those that transformers can be told to leave out.
    silent = contextlib.nullcontext() if gguf is None else contextlib.redirect_stderr(io.StringIO())
    try:
        with silent:
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, **more)
            model, info = transformers.AutoModelForCausalLM.from_pretrained(
                source,
                dtype=dtype,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are refused below, by name
                trust_remote_code=False,
                **more,
            )
    except Exception as why:  # libraries raise whatever their parts do: struct.error, SafetensorError, Exception
        reason = "it brings code of its own, which is not run" if "trust_remote_code" in str(why) else one_line(why)
        raise DataError(f"model = {name!r} cannot be loaded: {reason}; give a causal language model") from None
    unread = _unread(model, Path(source) / gguf) if gguf is not None else _stored_twice(name, model, Path(source))
    _check_names(name, info, unread)
    check_finite(name, model.state_dict().items(), dtype)
    return tokenizer, model


def _check_names(name: str, info: Any, unread: Collection[str]) -> None:
    missing = sorted(info.get("missing_keys") or ())
    extra = sorted({*(info.get("unexpected_keys") or ()), *unread})
    shapes = sorted(str(key[0] if isinstance(key, tuple) else key) for key in info.get("mismatched_keys") or ())
    faults = sorted(map(str, info.get("error_msgs") or ()))
    scaling = [key for key in extra if key.split(".")[0] in ROTARY]
    if scaling:
        raise DataError(
            f"model = {name!r}: transformers does not read {some(scaling)}, which scales the rotary embedding, so that "
            "long prompts would go wrong; load the original folder in place of the GGUF file"
        )
    kinds = {"are missing": missing, "are none of the model's": extra, "have another shape": shapes}
    said = [f"{len(keys)} tensors {what}: {some(keys)}" for what, keys in kinds.items() if keys]
    said += map(one_line, faults[:1])
    if said:
        prefix = _prefix(missing, extra)
        hint = f"strip {prefix!r} from the names" if prefix else "the checkpoint is damaged or of another architecture"
        raise DataError(f"model = {name!r} does not fit its checkpoint: {'; '.join(said)}; {hint}")


def _stored_twice(name: str, model: Any, folder: Path) -> list[str]:
    """Refuse tensors that a folder holds under two names, of which one would replace the other, and whole numbers as
    weights; no name is left over then."""
    from safetensors import safe_open

    prefix, quantised = f"{model.base_model_prefix}.", hasattr(model.config, "quantization_config")
    seen: dict[str, str] = {}
    for path in sorted(folder.glob("*.safetensors")) if folder.is_dir() else ():
        with safe_open(path, "pt") as f:
            for key in f.keys():  # noqa: SIM118 (a safetensors file is no mapping)
                plain = key.removeprefix(prefix)
                if plain in seen and seen[plain] != key:
                    both = some([seen[plain], key])
                    raise DataError(f"model = {name!r} holds one tensor under two names: {both}; remove one of them")
                seen[plain] = key
                kind = f.get_slice(key).get_dtype()
                if not quantised and key.endswith(".weight") and not kind.startswith(("F", "BF")):
                    raise DataError(f"model = {name!r}: {key} holds {kind}, not floating point; convert it back")
    return []


def _prefix(missing: Collection[str], extra: Collection[str]) -> str:
    """What stands before the names of the missing tensors in those that are there."""
    for key in extra:
        for wanted in missing:
            if key.endswith(f".{wanted}"):
                return key.removesuffix(wanted)
    return ""


def _unread(model: Any, path: Path) -> list[str]:
    """Tensors of a GGUF file that no parameter of the model is read from; ones that scale nothing excepted."""
    from gguf import MODEL_ARCH_NAMES, GGUFReader, get_tensor_name_map

    reader = GGUFReader(path)
    kind = bytes(reader.fields["general.architecture"].parts[-1]).decode()
    arch: Any = next((arch for arch, known in MODEL_ARCH_NAMES.items() if known == kind), None)
    if arch is None:
        return []
    names = get_tensor_name_map(arch, model.config.get_text_config().num_hidden_layers)
    own = {value.data_ptr(): key for key, value in reversed(model.state_dict().items())}.values()  # tied ones once
    read = {names.get_name(key, try_suffixes=(".weight", ".bias")) for key in own}
    if None in read:
        return []  # a family whose names the table does not have: what is missing is still refused
    return [
        t.name
        for t in reader.tensors
        if t.name not in read and not (t.name.split(".")[0] in ROTARY and bool((t.data == 1).all()))
    ]


def check_finite(name: str, tensors: Iterable[tuple[str, Tensor]], dtype: torch.dtype | None = None) -> None:
    """DataError that names the tensors with nan or infinity."""
    bad = [key for key, value in tensors if value.is_floating_point() and not _finite(value)]
    if bad:
        where = " in float16; bfloat16 may hold them" if dtype == torch.float16 else "; the checkpoint is damaged"
        raise DataError(f"model = {name!r}: {len(bad)} tensors hold values that are not finite: {some(bad)}{where}")


def _finite(value: Tensor) -> bool:
    if value.numel() == 0 or value.is_meta:
        return True
    low, high = torch.aminmax(value.detach())  # both are nan where any element is; no mask of the tensor's size
    return bool(torch.isfinite(low) & torch.isfinite(high))


def some(names: Collection[str]) -> str:
    """The first few names."""
    shown = (name if name.isprintable() else ascii(name) for name in sorted(names)[:SHOWN])
    return ", ".join(shown) + (", ..." if len(names) > SHOWN else "")


def one_line(why: object) -> str:
    """An error as one line of at most 200 characters; its type where it says nothing."""
    return " ".join(str(why).split())[:200] or type(why).__name__
