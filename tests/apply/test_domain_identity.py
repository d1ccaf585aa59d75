"""What a backbone of the user's is: all of its code and what it answers, not what it is called; and what is refused."""

import dataclasses
import sys

import pytest
from colours import FAST, made, pictures_in

from featlearn.apply.domains import export, identity, models, scoring, sources
from featlearn.apply.domains.runs import ID, VERSION, trials
from featlearn.apply.domains.sources import Network
from featlearn.core import SettingError
from featlearn.lab.trial import trial_hash
from featlearn.methods.domains import Settings

FILES = {
    "__init__.py": "from pets_of_test.net import encoder\n",
    "net.py": """
from torch import nn
from pets_of_test import parts


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(192, 8)

    def forward(self, x):
        return parts.turned(self.layer(x.flatten(1)))


def encoder():
    return Encoder()


def double():
    return Encoder().double()


def nothing():
    return nn.Flatten()


def frozen():
    return Encoder().requires_grad_(False)


class Twice(Encoder):
    def forward(self, x):
        found = super().forward(x)
        return (found, found) if self.training else found
""",
    "parts.py": "def turned(x):\n    return x\n",
}
NAME = "pets_of_test:encoder"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A package of the user's in the current folder; call it with a changed file to import it anew."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets_of_test").mkdir()

    def forget():
        for name in [n for n in sys.modules if n.split(".")[0] == "pets_of_test"]:
            sys.modules.pop(name)

    def write(**changed):
        forget()
        for name, text in {**FILES, **{f"{n}.py": t for n, t in changed.items()}}.items():
            (tmp_path / "pets_of_test" / name).write_text(text)
        for cache in (tmp_path / "pets_of_test").glob("__pycache__/*"):
            cache.unlink()

    write()
    yield write
    forget()


def hash_of(name=NAME):
    return sources.with_hash(Network(name), 8).weights_hash


def fitted(tree, name=NAME):
    found, config = made(tree)
    network = sources.with_hash(Network(name), 8)
    model, _ = models.fit(config.source, found, network, "erm", FAST, Settings())
    return model


def test_all_files_that_a_module_comes_from_count(mine):
    first = hash_of()
    assert hash_of() == first
    mine(parts="def turned(x):\n    return x  # as it is\n")
    assert hash_of() != first
    mine(net=FILES["net.py"].replace("parts.turned(", "0 * ("))
    assert hash_of() != first


def test_code_that_no_file_shows_is_told_by_its_answer(mine, tmp_path):
    """A factor that the module reads from a file of its own."""
    read = "from pathlib import Path\n\n\ndef turned(x):\n    return float(Path('factor').read_text()) * x\n"
    mine(parts=read)
    (tmp_path / "factor").write_text("1")
    first = hash_of()
    (tmp_path / "factor").write_text("-1")
    assert hash_of() != first


def test_a_moved_module_is_the_same_network(mine, tmp_path):
    """Its name is no part of a run; that of a backbone of a library is."""
    _, config = made(pictures_in(tmp_path))

    def run_of(network):
        return trial_hash(ID, VERSION, trials(dataclasses.replace(config, network=network))[0])

    here, there = (sources.with_hash(Network(name), 8) for name in (NAME, "pets_of_test.net:encoder"))
    assert here != there
    assert run_of(here) == run_of(there)
    clip = {"weights": "pretrained", "weights_hash": "abc", "config": "{}"}
    assert run_of(Network("clip//data/clip", **clip)) == run_of(Network("clip//mnt/clip", **clip))
    assert run_of(Network("resnet18")) != run_of(Network("resnet50"))


def test_a_model_tells_that_its_code_has_changed(mine, tmp_path):
    tree = pictures_in(tmp_path)
    model = fitted(tree)
    assert model.about["network"]["backbone"] == NAME
    models.save(model, tmp_path / "m.pt")
    export.to_safetensors(model, tmp_path / "m.safetensors")
    found = sources.load(sources.Source(str(tree), size=8), held=False)
    for file in ("m.pt", "m.safetensors"):
        mine()
        assert models.load(tmp_path / file, NAME).remarks == ()
        mine(parts="def turned(x):\n    return -x\n")
        back = models.load(tmp_path / file, NAME)
        assert "gives other features with the weights of this model than when it was fitted" in back.remarks[0]
        assert scoring.score(back, found).remarks[0] == back.remarks[0]
        mine(parts="def turned(x):\n    return 1 * x\n")
        (told,) = models.load(tmp_path / file, NAME).remarks
        assert told.startswith("the code of pets_of_test:encoder has changed since")


def test_rounding_is_no_other_answer():
    assert not identity.apart((1.0, -2.0, 0.001), (1.001, -1.99, 0.0))
    assert identity.apart((1.0, -2.0), (-1.0, -2.0))
    assert identity.apart((float("nan"),), (1.0,))


@pytest.mark.parametrize(
    "name, said",
    [
        ("double", "it holds torch.float64: call .float"),
        ("nothing", "a module with parameters"),
        ("Twice", "while it trains: it gives a tuple|while it trains; it gives a tuple"),
    ],
)
def test_what_training_would_stumble_over_is_refused(mine, name, said):
    with pytest.raises(SettingError, match=said):
        hash_of(f"pets_of_test.net:{name}")


@pytest.mark.parametrize("algorithm", ["erm-nu", "coral", "dann"])
def test_a_module_that_is_frozen_has_no_features_to_regularise(mine, tmp_path, algorithm):
    """The differences to plain training were exactly 0, without a word."""
    found, config = made(pictures_in(tmp_path))
    network = sources.with_hash(Network("pets_of_test.net:frozen"), 8)
    with pytest.raises(SettingError, match=r"all of pets_of_test\.net:frozen is frozen, which leaves the features"):
        models.fit(config.source, found, network, algorithm, FAST, Settings())
    models.fit(config.source, found, network, "erm", FAST, Settings())


def test_miro_needs_maps_of_stages(mine, tmp_path):
    found, config = made(pictures_in(tmp_path))
    network = sources.with_hash(Network(NAME), 8)
    with pytest.raises(SettingError, match="maps of its stages; pets_of_test:encoder gives features alone"):
        models.fit(config.source, found, network, "miro", FAST, Settings())
