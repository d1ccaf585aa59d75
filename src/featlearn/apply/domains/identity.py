"""What a backbone is: its tensors, its layers, the code of a module of the user's, what it makes of fixed images."""

import hashlib
import math
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

import featlearn
from featlearn.apply.domains.libraries import OWN, drawn_from, library_of
from featlearn.core import Key

LIBRARIES = (*(Path(sysconfig.get_path(n)) for n in ("stdlib", "platstdlib")), Path(featlearn.__file__).parent)
NUMBERS = 4
"""Of an answer."""
CLOSE = 0.01
"""How far an answer may be off, for the largest of its numbers: other machines and versions of libraries round."""


def digest_of(name: str, net: nn.Module, size: int) -> str:
    """Of all tensors and their names and of the layers; of a module of the user's also of its code and of its answer
    to images of `size` pixels. What the module is called and where it lies are no part of it."""
    made = hashlib.blake2b(repr(net).encode(), digest_size=8)
    for key, value in net.state_dict().items():
        made.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
        made.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    if library_of(name) == OWN:
        told = " ".join(f"{v:.3g}" for v in answer_of(net, size))
        made.update(f"{code_of(name, net)} {told}".encode())
    return made.hexdigest()


def code_of(name: str, net: nn.Module) -> str:
    """Of the files that the code of a user's module stands in; "" for other backbones."""
    if library_of(name) != OWN:
        return ""
    contents = sorted(hashlib.blake2b(path.read_bytes(), digest_size=8).digest() for path in files_of(name, net))
    return hashlib.blake2b(b"".join(contents), digest_size=8).hexdigest()


def files_of(name: str, net: nn.Module) -> set[Path]:
    """Files of the module MODULE:NAME, of the classes of its parts, and of all that these import by name, outside of
    installed packages, the standard library and featlearn. Not seen: what is imported inside a function."""
    waiting = [name.partition(":")[0], *(c.__module__ for m in net.modules() for c in type(m).__mro__)]
    found: set[Path] = set()
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file is None or Path(file) in found or not _is_users(Path(file)):
            continue
        found.add(Path(file))
        waiting.append(name.rpartition(".")[0])  # the package that it is in
        for value in list(vars(module).values()):
            where = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            waiting += [where] if isinstance(where, str) else []
    return found


def _is_users(file: Path) -> bool:
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return file.is_file() and not installed and not any(file.is_relative_to(p) for p in LIBRARIES)


def answer_of(net: nn.Module, size: int) -> tuple[float, ...]:
    """NUMBERS numbers of the features of two fixed images, in evaluation mode. Modes and random state come back."""
    like: Any = next(net.parameters(), torch.zeros(()))
    key = Key("domains/answer")
    images = torch.rand(2, 3, size, size, generator=(key / "images").torch()).to(like)
    modes = {m: m.training for m in net.modules()}
    net.eval()
    try:
        with torch.no_grad(), drawn_from(key):
            features = net(images).double().cpu().mean(0)
    finally:
        for module, mode in modes.items():
            module.training = mode
    directions = torch.randn(len(features), NUMBERS, generator=(key / "directions").torch(), dtype=torch.float64)
    return tuple((features @ directions / math.sqrt(len(features)) + 0.0).tolist())


def apart(there: Sequence[float], here: Sequence[float]) -> bool:
    """Whether two answers are those of different networks."""
    allowed = CLOSE * max(map(abs, (*there, *here)))
    return not all(abs(a - b) <= allowed for a, b in zip(there, here, strict=True))
