"""Checkpoints of contrastive pretraining: written whole or not at all, and read only by the run that wrote them."""

import contextlib
import dataclasses
import hashlib
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from featlearn.core import SettingError

KIND, FORMAT = "featlearn contrastive", 1


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """A digest of names, shapes, types and bytes."""
    found = hashlib.blake2b(digest_size=16)
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {tuple(value.shape)} {value.dtype};".encode())
        found.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def run_of(settings: Any, key: str, views: Any, images: Tensor, start: Mapping[str, Tensor]) -> dict[str, Any]:
    """What makes a run the same: settings, key, views, data and weights at the start."""
    named = repr(views) if dataclasses.is_dataclass(views) else getattr(views, "__qualname__", type(views).__qualname__)
    data, weights = digest_of({"images": images}), digest_of(start)
    return {**dataclasses.asdict(settings), "key": key, "views": named, "images": data, "weights": weights}


def write(path: Path, run: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write a checkpoint beside the path and rename it, so that a kill leaves the one before.

    Errors: SettingError where the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        torch.save({"kind": KIND, "format": FORMAT, "run": dict(run), **state}, temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as why:
        reason = " ".join(str(why).split())[:100]
        raise SettingError("checkpoint", path, f"a file that can be written ({reason})", "name another") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def read(path: Path, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state of a checkpoint of this run; None where there is no file. Nothing but tensors and plain values is
    unpickled.

    Errors: SettingError, one line: a folder, another kind of file, a damaged one, or one of another run, with what
    differs.
    """
    if not os.path.lexists(path):
        if not path.parent.is_dir():
            raise SettingError("checkpoint", path, "a file in a folder that exists", "make the folder")
        return None
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError) as why:
        reason = f"{type(why).__name__}: {' '.join(str(why).split())[:80]}"
        raise SettingError("checkpoint", path, f"a whole file of `pretrain` ({reason})", "remove it") from None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise SettingError("checkpoint", path, "a file that `pretrain` wrote", "name a new file")
    if found.get("format") != FORMAT:
        raise SettingError("checkpoint", path, f"of format {FORMAT}", f"it has {found.get('format')}: remove it")
    other = [name for name, value in run.items() if found["run"].get(name) != value]
    if other:
        name = other[0]
        plain = name not in ("images", "weights")
        says = f"{name} is {found['run'].get(name)} there, {run[name]} here" if plain else f"other {name} there"
        raise SettingError("checkpoint", path, "of this very run", f"{says}: name a new file")
    return found
