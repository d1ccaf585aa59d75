"""Tensors of checkpoints: names and shapes first, then one tensor at a time, and never an object that is not a tensor.

safetensors files and folders of them (sharded or not), and what torch.save wrote, read with `weights_only`: a pickle
that names anything to run is refused. Files are mapped, so that a checkpoint costs the memory of its largest tensor.
"""

import json
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from featlearn.data.names import shown, some
from featlearn.errors import DataError

WRAPPERS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "weights", "params")
"""Keys under which training scripts keep the weights, in the order in which they are tried."""
PREFIXES = ("module.", "_orig_mod.")
"""What distributed training and compilation put before every name."""
INDEX = (".safetensors.index.json", ".bin.index.json")
REMEDY = "save the weights alone: safetensors.torch.save_file(model.state_dict(), 'model.safetensors')"
LONGEST_HEADER = 2**27


@dataclass(frozen=True)
class Weights:
    """A checkpoint: the shape and the kind of numbers of every tensor by its name, and a way to read each.

    kinds: torch's names of types (float32, bfloat16, int8, ...); remarks: what was left out or renamed.
    """

    source: str
    shapes: Mapping[str, tuple[int, ...]]
    kinds: Mapping[str, str]
    load: Callable[[str], Tensor] = field(repr=False)
    remarks: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all tensors, in the order of the file."""
        return tuple(self.shapes)


def read_weights(source: "str | Path | nn.Module | Mapping[str, Tensor]") -> Weights:
    """The tensors of a file, a folder, a module or a mapping.

    source: a .safetensors file, a folder that holds such files or those of torch, a file of torch.save, a module, or
    its `state_dict()`. Nothing is read but names and shapes, where the format keeps them apart.
    Weights that scripts wrap ("state_dict", "model", ...) are found; "module." and "_orig_mod." before every
    name are cut.

    Errors: DataError, one line, for what is not there, damaged, not weights (an optimizer's state), or a pickle with
    more than tensors.

    Example:
        >>> read_weights({"fc.weight": torch.ones(2, 3)}).shapes
        {'fc.weight': (2, 3)}
    """
    if isinstance(source, nn.Module):
        return _of_mapping(source.state_dict(), type(source).__name__, ())
    if isinstance(source, Mapping):
        return _of_mapping(source, "weights", ())
    path = Path(os.path.expanduser(source))
    told = shown(path)
    if os.path.isdir(path):
        return _folder(path, told)
    if not os.path.isfile(path):
        raise DataError(f"checkpoint {told} is not there: give a file of weights, or the folder of a model")
    if path.suffix.lower() in (".gguf", ".onnx", ".h5", ".msgpack"):
        raise DataError(f"checkpoint {told} is a {path.suffix} file, which is not read: {REMEDY}")
    if path.suffix.lower() == ".json":
        return _folder(path.parent, told, only=path)
    return _renamed(_safetensors([path], told) if _is_safetensors(path) else _torch(path, told))


def _folder(path: Path, told: str, only: Path | None = None) -> Weights:
    """A model that is kept in a folder: sharded with an index, in one file, or in all safetensors files there."""
    indices = [only] if only else sorted(p for kind in INDEX for p in path.glob(f"*{kind}"))
    if indices and indices[0]:
        return _renamed(_sharded(path, indices[0], told))
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        files = sorted(path.glob(pattern))
        if files and pattern == "*.safetensors":
            return _renamed(_safetensors(files, told))
        if len(files) == 1:
            return _renamed(_torch(files[0], told))
    raise DataError(f"folder {told} holds no weights: *.safetensors or pytorch_model.bin are looked for; name a file")


def _sharded(folder: Path, index: Path, told: str) -> Weights:
    try:
        places: dict[str, str] = dict(json.loads(index.read_bytes())["weight_map"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as why:
        raise DataError(f"index {shown(index)} cannot be read ({type(why).__name__}); copy it again") from None
    files = sorted(set(places.values()))
    outside = [f for f in files if os.path.basename(f) != f or not f]
    if outside:
        raise DataError(f"index {shown(index)} names files outside its folder: {some(outside)}; they are not read")
    missing = [f for f in files if not os.path.isfile(folder / f)]
    if missing:
        raise DataError(f"checkpoint {told} lacks {len(missing)} of {len(files)} parts: {some(missing)}; copy them")
    parts = [folder / f for f in files]
    if index.name.endswith(INDEX[0]):
        found = _safetensors(parts, told)
    else:
        whole: dict[str, Tensor] = {}
        for part in parts:
            whole |= _tensors(_unpickled(part, told), told)[0]
        found = _of_mapping(whole, told, ())
    lost = [name for name in places if name not in found.shapes]
    if lost:
        raise DataError(f"checkpoint {told} lacks {len(lost)} tensors of its index: {some(lost)}; copy it again")
    return found


# --- safetensors -----------------------------------------------------------------------------------------------------


def _is_safetensors(path: Path) -> bool:
    """By the suffix, or by the length of a header of JSON at the start."""
    if path.suffix.lower() == ".safetensors":
        return True
    with open(path, "rb") as f:
        head = f.read(9)
    return len(head) == 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < LONGEST_HEADER


def _safetensors(files: list[Path], told: str) -> Weights:
    from safetensors import safe_open

    places: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    kinds: dict[str, str] = {}
    for path in files:
        try:
            with safe_open(path, "pt") as f:
                for name in f.keys():  # noqa: SIM118 (a safetensors file is no mapping)
                    if name in places:
                        both = some([places[name].name, path.name])
                        raise DataError(f"checkpoint {told}: tensor {name!r} is in two files, {both}; name one of them")
                    part = f.get_slice(name)
                    places[name], shapes[name] = path, tuple(part.get_shape())
                    kind = part.get_dtype()
                    kinds[name] = KINDS.get(kind or "", kind or "unknown")
        except DataError:
            raise
        except Exception as why:  # SafetensorError, OSError, and what its parts raise
            reason = " ".join(str(why).split())[:120]
            raise DataError(
                f"checkpoint {shown(path)} is no whole safetensors file ({reason}); copy it again"
            ) from None

    def load(name: str) -> Tensor:
        with safe_open(places[name], "pt") as f:
            return f.get_tensor(name)

    return Weights(told, shapes, kinds, load)


KINDS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
}


# --- torch.save ------------------------------------------------------------------------------------------------------


def _torch(path: Path, told: str) -> Weights:
    tensors, remarks = _tensors(_unpickled(path, told), told)
    return _of_mapping(tensors, told, remarks)


def _unpickled(path: Path, told: str) -> Any:
    """What torch.load gives for tensors alone; mapped where the file is of the present format."""
    for mapped in (True, False):
        try:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        except Exception as why:  # UnpicklingError, RuntimeError, EOFError, OSError, KeyError, ... of its parts
            reason = " ".join(str(why).split())
            if isinstance(why, pickle.UnpicklingError) and ("Unsupported" in reason or "GLOBAL" in reason):
                raise DataError(
                    f"checkpoint {told} holds Python objects beside its tensors, which could run code, and is not "
                    f"opened: {REMEDY}"
                ) from None
            if mapped:
                continue
            if "pickle" in reason.lower() or not reason:
                raise DataError(f"checkpoint {told} is no file of weights, or damaged: {REMEDY}") from None
            raise DataError(f"checkpoint {told} cannot be read ({reason[:120]}): {REMEDY}") from None
    raise AssertionError("unreachable")


def _tensors(found: Any, told: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The weights of what a file holds, names of nested parts joined by dots; and remarks."""
    if isinstance(found, Tensor):
        return {"tensor": found}, ()
    if not isinstance(found, Mapping):
        raise DataError(f"checkpoint {told} holds a {type(found).__name__}, not tensors by name: {REMEDY}")
    remarks: list[str] = []
    for key in WRAPPERS:
        inner = found.get(key)
        if isinstance(inner, Mapping) and _flat(inner):
            others = [str(k) for k in found if k != key]
            if others:
                remarks.append(f"{told}: the weights are those under {key!r}; left out: {some(others)}")
            found = inner
            break
    else:
        if {"state", "param_groups"} <= set(found):
            raise DataError(f"checkpoint {told} is the state of an optimizer, not of a model: give the model's file")
    flat = _flat(found)
    if not flat:
        raise DataError(f"checkpoint {told} holds no tensor: {REMEDY}")
    return flat, tuple(remarks)


def _flat(found: Mapping[Any, Any], before: str = "") -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for key, value in found.items():
        name = f"{before}{key}"
        if isinstance(value, Tensor):
            out[name] = value
        elif isinstance(value, Mapping):
            out |= _flat(value, f"{name}.")
    return out


def _of_mapping(tensors: Mapping[str, Any], source: str, remarks: tuple[str, ...]) -> Weights:
    """Tensors that are in memory; those that share all of their memory are kept once."""
    seen: dict[tuple[int, tuple[int, ...], tuple[int, ...]], str] = {}
    kept: dict[str, Tensor] = {}
    tied: list[str] = []
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            kind = type(value).__name__
            raise DataError(f"weights: {name!r} is a {kind}, not a tensor: give a module or its state_dict()")
        place = (value.data_ptr(), tuple(value.shape), tuple(value.stride()) if value.layout == torch.strided else ())
        if value.numel() and not value.is_meta and place in seen:
            tied.append(f"{name} is {seen[place]}")
            continue
        seen[place] = name
        kept[name] = value.detach()
    more = (f"{source}: tied and counted once: {some(tied)}",) if tied else ()
    shapes = {name: tuple(value.shape) for name, value in kept.items()}
    kinds = {name: _kind(value) for name, value in kept.items()}
    return _renamed(Weights(source, shapes, kinds, kept.__getitem__, (*remarks, *more)))


def _kind(value: Tensor) -> str:
    return "meta" if value.is_meta else str(value.dtype).removeprefix("torch.")


def _renamed(found: Weights) -> Weights:
    """Without what stands before every name."""
    for prefix in PREFIXES:
        if found.shapes and all(name.startswith(prefix) for name in found.shapes):
            return _renamed(without(found, prefix))
    return found


def without(found: Weights, prefix: str) -> Weights:
    """A checkpoint with a prefix cut from every name that has it."""
    return _named(found, {name.removeprefix(prefix): name for name in found.names}, f"{prefix!r} is cut from names")


def beneath(found: Weights, prefix: str) -> Weights:
    """A checkpoint with a prefix put before every name."""
    return _named(found, {prefix + name: name for name in found.names}, f"{prefix!r} is put before names")


def _named(found: Weights, old: Mapping[str, str], remark: str) -> Weights:
    return Weights(
        found.source,
        {name: found.shapes[o] for name, o in old.items()},
        {name: found.kinds[o] for name, o in old.items()},
        lambda name: found.load(old[name]),
        (*found.remarks, f"{found.source}: {remark}"),
    )
