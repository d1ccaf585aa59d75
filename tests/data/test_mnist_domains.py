"""Rotated and coloured MNIST, of random pixels with the names of the real files."""

import dataclasses
import hashlib

import numpy as np
import pytest
import torch
from PIL import Image

from featlearn.core import SettingError
from featlearn.data import DataError, catalogue, images, mnist_domains
from featlearn.data.catalogue import File
from featlearn.data.mnist_domains import colored_mnist, rotated_mnist


@pytest.fixture
def root(tmp_path, tiny, monkeypatch):
    """The tiny files in place of MNIST and of Fashion-MNIST."""
    registry = dict(catalogue._REGISTRY)
    for name in ("mnist", "fashion-mnist"):
        files = tuple(File(n, len(b), hashlib.sha256(b).hexdigest()) for n, b in tiny.items())
        registry[name] = dataclasses.replace(registry[name], files=files)
    monkeypatch.setattr(catalogue, "_REGISTRY", registry)
    folder = tmp_path / "files"
    folder.mkdir()
    for name, content in tiny.items():
        (folder / name).write_bytes(content)
    return folder


def raw(root):
    both = [images.mnist(root, tuple(range(10)), split) for split in ("train", "test")]
    return torch.cat([b.x for b in both]).view(-1, 28, 28), torch.cat([b.y for b in both])


def test_all_images_are_dealt_once(root):
    found = rotated_mnist(root, angles=(0, 90, 180))
    assert found.names == ("0", "90", "180")
    assert found.labels == tuple("0123456789")
    assert [d.x.shape for d in found.domains] == [(20, 1, 28, 28)] * 3
    x, y = raw(root)
    back = torch.cat([torch.rot90(d.x[:, 0], -i, (1, 2)) for i, d in enumerate(found.domains)])
    match = (back.flatten(1)[:, None] - x.flatten(1)).abs().amax(2) < 0.01
    assert (match.sum(0) == 1).all()  # every image once, in one domain, turned counter-clockwise
    labels = torch.cat([d.y for d in found.domains])
    assert torch.equal(y[match.float().argmax(1)], labels)
    assert not torch.equal(labels[:20], y[:20])


def test_the_angles_of_the_benchmark_as_pil_turns(root):
    found = rotated_mnist(root)
    assert found.names == ("0", "15", "30", "45", "60", "75")
    x, _ = raw(root)
    order = torch.from_numpy((mnist_domains.Key("data/rotated-mnist") / "order").numpy().permutation(60))
    grey = (x[order[2]] * 255).round().byte().numpy()
    turned = np.asarray(Image.fromarray(grey).rotate(30, Image.Resampling.BICUBIC))
    torch.testing.assert_close(found.domain("30").x[0, 0], torch.from_numpy(turned.copy()).float() / 255)


def test_fewer_and_smaller_images(root):
    whole, few = rotated_mnist(root), rotated_mnist(root, per_domain=4, size=14)
    assert few.shape == (1, 14, 14)
    big = whole.domain("45").x[:4]
    torch.testing.assert_close(few.domain("45").x, big.view(4, 1, 14, 2, 14, 2).mean((3, 5)))
    assert few.fingerprint != whole.fingerprint


def test_colours_agree_with_labels_as_often_as_said(root, monkeypatch):
    """With all labels of one class, flips of label and colour are counted: 4 standard errors of 3000 draws."""
    x, y = torch.ones(9000, 784), torch.arange(9000) % 10
    one = images.Images(x, y, (28, 28))
    none = images.Images(x[:0], y[:0], (28, 28))
    monkeypatch.setattr(mnist_domains, "mnist", lambda root, digits, split: one if split == "train" else none)
    found = colored_mnist(size=7)
    assert found.names == ("+90%", "+80%", "-90%")
    assert found.labels == ("5-9", "0-4")
    order = torch.from_numpy((mnist_domains.Key("data/colored-mnist") / "order").numpy().permutation(9000))
    for i, (domain, flip) in enumerate(zip(found.domains, (0.1, 0.2, 0.9), strict=True)):
        filled = domain.x.flatten(2).sum(2) > 0
        assert (filled.sum(1) == 1).all()
        colour = filled.float().argmax(1)
        assert abs(float((colour != domain.y).float().mean()) - flip) < 4 * (flip * (1 - flip) / 3000) ** 0.5
        clean = (y[order[i::3]] < 5).long()
        assert abs(float((domain.y != clean).float().mean()) - 0.25) < 4 * (0.1875 / 3000) ** 0.5


def test_noise_and_flips_at_their_ends(root):
    found = colored_mnist(root, flips=(0.0, 1.0), noise=0.0)
    assert found.names == ("+100%", "-100%")
    for domain, same in zip(found.domains, (True, False), strict=True):
        colour = (domain.x.flatten(2).sum(2) > 0).float().argmax(1)
        assert ((colour == domain.y) == same).all()


def test_fashion_has_its_own_names_and_files(root):
    found = rotated_mnist(root, fashion=True)
    assert found.name == "rotated-fashion-mnist"
    assert found.labels[9] == "ankle boot"
    assert colored_mnist(root, fashion=True).name == "colored-fashion-mnist"


@pytest.mark.parametrize(
    "make, words",
    [
        (rotated_mnist, {"angles": (0, 0)}),
        (rotated_mnist, {"angles": (0,)}),
        (rotated_mnist, {"size": 13}),
        (rotated_mnist, {"per_domain": 1}),
        (colored_mnist, {"flips": (0.1, 1.2)}),
        (colored_mnist, {"flips": (0.1, 0.1)}),
        (colored_mnist, {"noise": -0.1}),
    ],
)
def test_settings_that_make_no_sense(root, make, words):
    with pytest.raises(SettingError, match=next(iter(words))):
        make(root, **words)


def test_without_the_files_the_command_is_named():
    with pytest.raises(DataError, match="featlearn data fetch fashion-mnist"):
        rotated_mnist(fashion=True)
