"""Models for other programs: ONNX and safetensors, checked before they count."""

import importlib.util
import json
import sys

import pytest
import torch
from colours import FAST, KEY, made, pictures_in

from featlearn.apply.domains import export, models, sources
from featlearn.apply.domains.models import Model
from featlearn.apply.domains.sources import Network
from featlearn.core import SettingError
from featlearn.data.pictures import Preprocessing
from featlearn.errors import DataError
from featlearn.methods.domains import Settings

HAS_ONNX = all(importlib.util.find_spec(n) for n in ("onnx", "onnxscript", "onnxruntime"))
with_onnx = pytest.mark.skipif(not HAS_ONNX, reason="needs onnx, onnxscript and onnxruntime")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A tree and a model fitted on it."""
    tree = pictures_in(tmp_path_factory.mktemp("export"))
    found, config = made(tree)
    model, _ = models.fit(config.source, found, config.network, "erm-nu", FAST, Settings())
    return tree, model


def model_of(network, size, channels=3):
    featurizer, head = sources.build(network, channels, 2, KEY, size)
    made = Preprocessing(size, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    return Model(featurizer.eval(), head.eval(), ("blue", "red"), network, channels, made, {})


def test_safetensors_are_the_model_bit_for_bit(fitted, tmp_path):
    tree, model = fitted
    export.to_safetensors(model, tmp_path / "m.safetensors")
    back = models.load(tmp_path / "m.safetensors")
    paths = models.images_in([tree / "dusk"])
    assert models.predict(back, paths) == models.predict(model, paths)
    assert back.about == json.loads(json.dumps(model.about))
    from safetensors import safe_open

    with safe_open(tmp_path / "m.safetensors", "pt") as file:
        assert json.loads(file.metadata()["featlearn domains"])["labels"] == ["blue", "red"]
        assert "head.weight" in file.keys()


def test_other_safetensors_are_refused(fitted, tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(SettingError, match="a file that `featlearn domains fit` wrote"):
        models.load(tmp_path / "other.safetensors")
    export.to_safetensors(fitted[1], tmp_path / "m.safetensors")
    (tmp_path / "half.safetensors").write_bytes((tmp_path / "m.safetensors").read_bytes()[:-40])
    with pytest.raises(SettingError, match="a whole file of safetensors") as e:
        models.load(tmp_path / "half.safetensors")
    assert "\n" not in str(e.value)


@with_onnx
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cnn", "grey", "resnet18", "probe"])
def test_onnx_gives_the_probabilities_of_predict(kind, tmp_path):
    import onnx
    import onnxruntime
    from PIL import Image

    network = {
        "cnn": Network(width=8),
        "grey": Network(width=8),
        "resnet18": Network("resnet18"),
        "probe": Network(width=8, probe=True),
    }[kind]
    model = model_of(network, 32, 1 if kind == "grey" else 3)
    off = export.to_onnx(model, tmp_path / "m.onnx")
    assert 0 <= off < 1e-4
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for n in (1, 5):
        x = torch.rand(n, model.channels, 32, 32, generator=(KEY / n).torch())
        pictures = (x * 255).round() / 255
        _, p = session.run(None, {"images": pictures.numpy()})
        paths = []
        for i, picture in enumerate(pictures):
            values = (picture * 255).round().byte().permute(1, 2, 0).numpy()
            Image.fromarray(values[:, :, 0] if kind == "grey" else values).save(tmp_path / f"{i}.png")
            paths.append(tmp_path / f"{i}.png")
        expected = torch.tensor([q.probabilities for q in models.predict(model, paths)])
        torch.testing.assert_close(torch.from_numpy(p), expected, atol=1e-5, rtol=1e-4)
    kept = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(kept["labels"]) == ["blue", "red"]


@with_onnx
@pytest.mark.slow
def test_an_export_that_computes_something_else_is_not_kept(tmp_path, monkeypatch):
    """A file whose preprocessing is not that of the model."""
    model, real = model_of(Network(width=8), 16), export.Whole.forward

    def forward(self, images):
        return real(self, images * 1.01 if torch.compiler.is_exporting() else images)

    monkeypatch.setattr(export.Whole, "forward", forward)
    with pytest.raises(DataError, match="are rounding: not kept"):
        export.to_onnx(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("off", [1.5e-3, float("nan")])
def test_what_counts_as_rounding(off):
    export._check(0.9e-3, torch.tensor([[-10.0, 1.0]]))
    with pytest.raises(DataError, match=r"0.001 are rounding: not kept"):
        export._check(off, torch.tensor([[-10.0, 1.0]]))


def test_without_onnx_the_remedy_is_named(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SettingError, match=r"pip install 'featlearn\[onnx\]'"):
        export.to_onnx(fitted[1], tmp_path / "m.onnx")
