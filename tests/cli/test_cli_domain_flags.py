"""`featlearn domains`: flags that are given count as given, and what a model is told of images that it has seen."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

FAST = ("--width", 8, "--size", 8, "--steps", 4, "--evaluate-every", 2, "--batch", 4, "--device", "cpu")


@pytest.fixture
def pets(drawn_pets):
    drawn_pets("tests/cli/flags")
    return "pets"


@pytest.fixture
def pacs(pets):
    """The same pictures under the names of PACS."""
    for old, new in (("day", "art_painting"), ("dusk", "cartoon"), ("night", "photo")):
        (Path(pets) / old).rename(Path(pets) / new)
    shutil.copytree(Path(pets) / "photo", Path(pets) / "sketch")
    return pets


DEFAULTS = [
    ("--evaluate-every=300", "evaluate_every", 300),
    ("--backbone cnn", "backbone", "cnn"),
    ("--search 1", "search", 1),
    ("--split stratified", "split", "stratified"),
    ("--swad_rule valley", "swad_rule", "valley"),
    ("--batch-norm auto", "batch_norm", "auto"),
]


@pytest.mark.parametrize("words, name, value", DEFAULTS)
def test_a_flag_of_its_default_value_is_given_all_the_same(pacs, words, name, value):
    """`--protocol` took flags at their defaults for flags that are not there, and put its own in their place."""
    from featlearn.cli.domains._shared import options_of
    from featlearn.cli.domains.evaluate import EvaluateOptions

    for protocol in ("dg-nu", "domainbed"):
        given = ("--data", pacs, "--protocol", protocol, *words.split())
        options = options_of(EvaluateOptions, given, "evaluate", "")
        assert getattr(options, name) == value
        assert options.rate == 5e-5
        assert options.weights == ("" if name == "backbone" else "IMAGENET1K_V1")


def test_the_command_of_a_fit_has_the_flags_of_the_run(featlearn, pacs):
    words = ("--data", pacs, "--protocol", "dg-nu", "--backbone", "cnn", *FAST, "--augment", "no", "--seeds", 0)
    words = (*words, "--split", "stratified", "--held-out", "photo", "--algorithm", "erm", "--workers", 1, "--json")
    status, out, err = featlearn("domains", "evaluate", *words)
    assert status == 0, err
    command = json.loads(out)["fit"]["erm"]["command"]
    assert "--split stratified" in command
    assert "--backbone cnn" in command


@pytest.mark.parametrize("name", ["average", "all images"])
def test_a_domain_is_not_called_as_a_total(refused, pets, name):
    (Path(pets) / "day").rename(Path(pets) / name)
    for command in ("check", "evaluate", "fit"):
        assert f"domain {name} is called as tables call" in refused("domains", command, "--data", pets)


# --- depth -----------------------------------------------------------------------------------------------------------


def wide(folder, factor):
    """Grey pictures of 16 bits with values up to 255 times the factor."""
    for label, value in (("blue", 40), ("red", 200)):
        (Path(folder) / "noon" / label).mkdir(parents=True)
        for i in range(4):
            values = np.full((8, 8), (value + 10 * i) * factor, dtype=np.uint16)
            Image.fromarray(values).save(Path(folder) / "noon" / label / f"{i}.png")
    return folder


def test_a_score_reads_images_as_it_says(featlearn, pets):
    """It said 12 bits, by the whole set, and read 16, by the file: everything was nearly black."""
    assert featlearn("domains", "fit", "--data", pets, *FAST)[0] == 0
    twelve, sixteen = wide("twelve", 16), wide("sixteen", 256)
    status, out, err = featlearn("domains", "score", "model.pt", "--data", twelve, "--json")
    assert status == 0, err
    assert "read as 12 bits" in err
    assert "8 of 8 images: 16 bits read as 12, the model was fitted with 8 alone" in err
    told = json.loads(out)["domains"]["noon"]
    status, out, err = featlearn("domains", "score", "model.pt", "--data", sixteen, "--json")
    assert "read as 16, the model was fitted with 8 alone" in err
    bins = json.loads(out)["domains"]["noon"]["bins"]
    np.testing.assert_allclose(told["bins"], bins, atol=0.05)
    status, out, err = featlearn("domains", "predict", "--model", "model.pt", f"{twelve}/noon", "--depth", 12, "--json")
    assert status == 0
    assert "16 bits read as 12, the model was fitted with 8 alone" in err
    again = sorted(p["probability"] for p in json.loads(out))
    assert sum(again) == pytest.approx(sum(b[1] for b in told["bins"]))
    status, out, err = featlearn("domains", "score", "model.pt", "--data", twelve, "--depth", 16)
    assert "read as 16 bits" in err


def test_a_model_of_one_depth_scores_another_that_is_stated(featlearn, pets):
    """The advice was `--depth`, which the command did not have."""
    twelve = wide("twelve", 16)
    shutil.copytree(Path(twelve) / "noon", Path(twelve) / "dawn")
    assert featlearn("domains", "fit", "--data", twelve, *FAST)[0] == 0
    thirteen = wide("thirteen", 24)
    status, _, err = featlearn("domains", "score", "model.pt", "--data", thirteen)
    assert status == 2
    assert "--depth" in err
    status, _, err = featlearn("domains", "score", "model.pt", "--data", thirteen, "--depth", 14)
    assert status == 0
    assert "8 of 8 images: 16 bits read as 14, the model was fitted with 12" in err


# --- images that a model has seen -------------------------------------------------------------------------------------


def test_images_of_training_are_known_under_other_names(featlearn, pets):
    assert featlearn("domains", "fit", "--data", pets, *FAST, "--held-out", "night")[0] == 0
    for old, new in (("day", "x"), ("dusk", "y"), ("night", "z")):
        (Path(pets) / old).rename(Path(pets) / new)
    assert featlearn("domains", "export", "model.pt", "--out", "model.safetensors")[0] == 0
    for model in ("model.pt", "model.safetensors"):
        status, _, err = featlearn("domains", "score", model, "--data", pets)
        assert status == 0
        assert "the model was trained on 20 of these 30 images, or chosen by them" in err
    for name in ("x", "y"):
        shutil.rmtree(Path(pets) / name)
    (Path(pets) / "z").rename(Path(pets) / "day")
    status, _, err = featlearn("domains", "score", "model.pt", "--data", pets)
    assert "trained on day" not in err
    assert "domains of these names were trained on: day: no file is the same, but are the images others?" in err
