"""Loading: IDX parsing, choice of digits, the bundled digits, and the real MNIST where present."""

import gzip

import numpy as np
import pytest
import torch

from featlearn import data
from featlearn.core import SettingError
from featlearn.data import download
from featlearn.data.images import parse_idx, read_idx
from featlearn.errors import DataError


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


@pytest.fixture
def tiny_mnist(tiny, entry, monkeypatch, tmp_path):
    folder = tmp_path / "cache" / "mnist"
    folder.mkdir(parents=True)
    for name, body in tiny.items():
        (folder / name).write_bytes(body)
    monkeypatch.setattr(download, "dataset", lambda name: entry(tiny) if name == "mnist" else name)
    return tiny


def test_idx_round_trip_of_every_type(tmp_path):
    for code, kind in {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}.items():
        array = np.arange(24).reshape(2, 3, 4).astype(kind)
        body = bytes([0, 0, code, 3]) + np.array([2, 3, 4], ">i4").tobytes() + array.tobytes()
        np.testing.assert_array_equal(parse_idx(body), array)
        (tmp_path / "f.gz").write_bytes(gzip.compress(body))
        np.testing.assert_array_equal(data.read_idx(tmp_path / "f.gz"), array)
    (tmp_path / "f").write_bytes(body)
    np.testing.assert_array_equal(data.read_idx(tmp_path / "f"), array)


@pytest.mark.parametrize(
    "body, match",
    [
        (b"", "not an IDX file: header empty"),
        (b"\x1f\x8b\x08\x08", "not an IDX file: header 1f8b0808"),
        (idx(np.zeros((2, 3), np.uint8))[:-1], "expected 18 bytes, found 17"),
        (idx(np.zeros((2, 3), np.uint8)) + b"x", "expected 18 bytes, found 19"),
        (idx(np.zeros((2, 3), np.uint8))[:9], "truncated"),
    ],
)
def test_a_broken_idx_file_says_how(body, match):
    with pytest.raises(data.DataError, match=match):
        parse_idx(body, "mine")


def test_mnist_selects_digits_in_file_order(tiny_mnist):
    pixels = np.frombuffer(tiny_mnist["train-images-idx3-ubyte"], np.uint8, offset=16).reshape(40, 784)
    images = data.mnist(digits=(7, 2))
    rows = [i for i in range(40) if i % 10 in (7, 2)]
    assert images.shape == (28, 28)
    assert images.x.dtype == torch.float32
    torch.testing.assert_close(images.x, torch.from_numpy(pixels[rows] / np.float32(255)), rtol=0, atol=0)
    assert images.y.tolist() == [1, 0] * 4  # 2, 7, 2, 7, ... as positions in (7, 2)
    assert data.mnist(digits=(7, 2), split="test").y.tolist() == [1, 0] * 2
    assert data.mnist(digits=tuple(range(10))).y.tolist() == [i % 10 for i in range(40)]


@pytest.mark.parametrize("digits", [(), (0, 0), (0, 10), (-1, 1)])
@pytest.mark.parametrize("load", [data.mnist, data.digits])
def test_wrong_digits_and_splits_are_refused_before_any_file_is_read(load, digits):
    with pytest.raises(SettingError, match="digits = "):
        load(digits=digits)
    with pytest.raises(SettingError, match="split = valid"):
        load(split="valid")


def test_mnist_that_is_not_here_names_the_command():
    with pytest.raises(data.DataError, match="featlearn data fetch mnist"):
        data.mnist()


def test_bundled_digits_are_split_once_for_all_choices():
    train, test = data.digits(), data.digits(split="test")
    assert len(train.y) + len(test.y) == 360  # 178 zeros and 182 ones
    assert torch.cat([train.y, test.y]).bincount().tolist() == [178, 182]
    assert (train.x.min(), train.x.max()) == (0, 1)
    assert train.shape == (8, 8)
    everything = data.digits(digits=tuple(range(10)))
    assert len(everything.y) == 1797 - round(0.25 * 1797)
    torch.testing.assert_close(everything.x[everything.y < 2], train.x, rtol=0, atol=0)
    with pytest.raises(SettingError, match="test_share = 1"):
        data.digits(test_share=1.0)


def test_bundled_digits_look_like_digits():
    """A zero is dark in the middle, a one is bright there."""
    train = data.digits()
    centre = train.x.reshape(-1, 8, 8)[:, 3:5, 3:5].mean((1, 2))
    assert centre[train.y == 0].mean() < 0.1
    assert centre[train.y == 1].mean() > 0.7


def test_the_real_mnist(real_mnist):
    """Counts and histograms of the published files; skips, with the command, where they were never fetched."""
    train, test = data.mnist(), data.mnist(split="test")
    assert train.y.bincount().tolist() == [5923, 6742]
    assert test.y.bincount().tolist() == [980, 1135]
    assert train.x.shape == (12665, 784)
    everything = data.mnist(digits=tuple(range(10)))
    assert everything.y.bincount().tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert abs(float(everything.x.double().mean()) - 0.1306604763) < 1e-7


@pytest.mark.parametrize(
    "content, says",
    [
        (gzip.compress(b"\0\0\x08\x00\x07", mtime=0)[:-9], "cannot be read"),
        (b"\x1f\x8b no gzip", "cannot be read"),
        (b"\0\0\x08\x01" + (-1).to_bytes(4, "big", signed=True), "is not|cannot be read"),
    ],
    ids=["cut", "no gzip", "not packed"],
)
def test_a_damaged_file_is_named_whatever_is_wrong_with_it(tmp_path, content, says):
    path = tmp_path / "labels.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"labels\.gz.*({says})"):
        read_idx(path)
    with pytest.raises(DataError, match=r"none.*cannot be read \(No such file"):
        read_idx(tmp_path / "none")


@pytest.mark.parametrize("shape", [(-1,), (2**31 - 1, 2**31 - 1, 2**31 - 1), (0, *[2**31 - 1] * 4), (1,) * 40], ids=len)
def test_axes_that_no_array_has(shape):
    data = b"\0\0\x08" + bytes([len(shape)]) + b"".join(n.to_bytes(4, "big", signed=True) for n in shape)
    with pytest.raises(DataError, match=r"^data is (damaged|truncated)"):
        parse_idx(data + b"\0" * (shape == (1,) * 40))
