"""Devices by name: which one is meant, and whether it is here. The only check of a device in the package."""

import multiprocessing
import re

import torch

from featlearn.errors import SettingError

NAME = re.compile(r"cpu|cuda(:\d+)?")


def check(name: str) -> None:
    """Refuse a name that no trial can have; whether the device is here shows when the trial starts, maybe elsewhere.

    A trial names its device, since its rows may depend on it: auto is for commands (see `resolve`).

    Errors: SettingError.

    Example:
        >>> check("cuda:1")
        >>> check("gpu")
        Traceback (most recent call last):
        featlearn.errors.SettingError: device = 'gpu' is not allowed: cpu, cuda or cuda:N; cpu is the default
    """
    if not NAME.fullmatch(name):
        raise SettingError("device", repr(name), "cpu, cuda or cuda:N", "cpu is the default")


def resolve(name: str) -> torch.device:
    """The device that is meant: auto is the GPU where there is one, and of several the one of this worker's number.

    Errors: SettingError for what is no device, and for one that torch does not see here.

    Example:
        >>> resolve("cpu")
        device(type='cpu')
    """
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        worker = multiprocessing.current_process()._identity
        return torch.device("cuda", (worker[0] - 1) % torch.cuda.device_count() if worker else 0)
    try:
        found = torch.device(name)
    except RuntimeError:
        raise SettingError("device", repr(name), "auto, cpu, cuda or cuda:N", "auto takes the GPU if any") from None
    seen = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not seen.get(found.type, False) or (found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count()):
        there = ", ".join(kind for kind, is_there in seen.items() if is_there)
        raise SettingError("device", repr(name), f"a device that torch sees here: {there}", "cpu is always there")
    return found
