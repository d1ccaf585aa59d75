"""Devices by name: which is meant, which are refused, and which GPU a worker takes."""

import multiprocessing
from types import SimpleNamespace

import pytest
import torch

from featlearn.core import SettingError
from featlearn.core.device import check, resolve


def test_devices():
    assert resolve("cpu") == torch.device("cpu")
    assert resolve("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(SettingError, match="device = 'gpu0' is not allowed: auto, cpu, cuda or cuda:N"):
        resolve("gpu0")


@pytest.mark.parametrize("name", ["cuda", "cuda:99", "mps", "meta", "xpu"])
def test_devices_that_are_not_here(name, monkeypatch):
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    if name == "cuda":
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(SettingError, match="a device that torch sees here: cpu"):
        resolve(name)


@pytest.mark.parametrize("worker, index", [((), 0), ((1,), 0), ((2,), 1), ((3,), 0), ((4,), 1)])
def test_auto_gives_each_worker_a_gpu_of_its_own(worker, index, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr(multiprocessing, "current_process", lambda: SimpleNamespace(_identity=worker))
    assert resolve("auto") == torch.device("cuda", index)


def test_the_last_gpu_is_allowed_and_the_next_is_not(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert resolve("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(SettingError, match=r"device = 'cuda:2'.*a device that torch sees here: cpu, cuda"):
        resolve("cuda:2")


def test_names_are_checked_without_looking_for_the_device(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("cpu", "cuda", "cuda:1"):
        check(name)
    for name in ("auto", "cuda:", "cuda:99x", "tpu", "CPU", " cpu", ""):
        with pytest.raises(SettingError, match="cpu, cuda or cuda:N; cpu is the default") as error:
            check(name)
        assert error.value.field == "device"
