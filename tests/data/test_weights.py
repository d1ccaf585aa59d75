"""Checkpoints of every format give the same tensors by name; what is not weights is refused in one line."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from featlearn.data.weights import read_weights
from featlearn.errors import DataError


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    return {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.ones(2).bfloat16(), "n": torch.tensor([3])}


def same(found: Any, tensors: dict[str, Tensor]) -> None:
    assert set(found.names) == set(tensors)
    for name, value in tensors.items():
        assert found.shapes[name] == tuple(value.shape)
        assert found.kinds[name] == str(value.dtype).removeprefix("torch.")
        assert torch.equal(found.load(name), value)


def sharded(folder: Path, tensors: dict[str, Tensor]) -> Path:
    names = list(tensors)
    places = {name: f"model-{min(i, 1)}.safetensors" for i, name in enumerate(names)}
    for part in set(places.values()):
        save_file({n: tensors[n] for n in names if places[n] == part}, folder / part)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def test_every_format_gives_the_same(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, tmp_path / "one.safetensors")
    (tmp_path / "odd.name").write_bytes((tmp_path / "one.safetensors").read_bytes())
    torch.save(tensors, tmp_path / "new.pt")
    torch.save(tensors, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "parts").mkdir()
    sources = ["one.safetensors", "odd.name", "new.pt", "old.pt"]
    for source in [*(tmp_path / s for s in sources), sharded(tmp_path / "parts", tensors), tensors]:
        same(read_weights(source), tensors)
    (tmp_path / "hub").mkdir()
    torch.save(tensors, tmp_path / "hub" / "pytorch_model.bin")
    same(read_weights(tmp_path / "hub"), tensors)


@pytest.mark.parametrize("wrapper", ["state_dict", "model"])
def test_weights_of_training_scripts_are_found_below_their_wrappers(
    tmp_path: Path, tensors: dict[str, Tensor], wrapper: str
) -> None:
    spread = {f"module._orig_mod.{name}": value for name, value in tensors.items()}
    torch.save({"epoch": 3, wrapper: spread, "optimizer": {"state": {}}}, tmp_path / "last.ckpt")
    found = read_weights(tmp_path / "last.ckpt")
    same(found, tensors)
    assert any("left out: epoch, optimizer" in r for r in found.remarks)
    assert any("'module.' is cut" in r for r in found.remarks)


def test_tied_weights_count_once() -> None:
    net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    net[1].weight = net[0].weight
    found = read_weights(net)
    assert found.names == ("0.weight",)
    assert "1.weight is 0.weight" in found.remarks[0]


class Evil:
    """A pickle that would write a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_that_runs_something_is_refused_and_not_run(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2), "x": Evil(tmp_path / "ran")}, tmp_path / "evil.pt")
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    for name in ("evil.pt", "plain.pkl"):
        with pytest.raises(DataError, match=r"could run code|no file of weights") as error:
            read_weights(tmp_path / name)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "ran").exists()


def test_what_is_not_weights_is_refused_in_one_line(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"epoch": 3}, tmp_path / "nothing.pt")
    save_file(tensors, tmp_path / "cut.safetensors")
    whole = (tmp_path / "cut.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-4])
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    lost = tmp_path / "lost"
    lost.mkdir()
    sharded(lost, tensors)
    (lost / "model-1.safetensors").unlink()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "m.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../cut.safetensors"}}))
    expected = {
        "optimizer.pt": "state of an optimizer",
        "list.pt": "holds a list",
        "nothing.pt": "holds no tensor",
        "cut.safetensors": "no whole safetensors file",
        "empty.pt": "cannot be read|no file of weights",
        "folder": "holds no weights",
        "model.gguf": "a .gguf file",
        "absent.pt": "is not there",
        "lost": "lacks 1 of 2 parts: model-1.safetensors",
        "outside": "outside its folder",
    }
    for name, why in expected.items():
        with pytest.raises(DataError, match=why) as error:
            read_weights(tmp_path / name)
        assert "\n" not in str(error.value), name
        assert ";" in str(error.value) or ":" in str(error.value), name
