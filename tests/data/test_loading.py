"""Loading as Transformers can: what is passed on, what comes of it, what is refused in one line."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from writing import reference, write_gguf

from featlearn import data, gemfilter
from featlearn.core import SettingError
from featlearn.data import checkpoints, loading, models

HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"


@pytest.fixture(scope="module")
def network():
    return reference()


@pytest.fixture(scope="module")
def folder(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    write_gguf(network, path / "tiny.gguf")
    network.save_pretrained(path / "mine")
    models.load_model(str(path / "tiny.gguf"))[1].save_pretrained(path / "mine")
    return str(path / "mine")


@pytest.fixture
def asked(monkeypatch, network):
    """What the two `from_pretrained` are given, in place of a hub; the model is a small one."""
    found = []

    def tokenizer(source, **given):
        found.append(("tokenizer", source, given))
        return "a tokenizer"

    def model(source, **given):
        found.append(("model", source, given))
        return network, {}

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", tokenizer)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", model)
    monkeypatch.setattr(checkpoints, "_stored_twice", lambda *args: [])
    return found


ALWAYS = {"dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
ALWAYS["trust_remote_code"] = False


def test_what_is_said_is_passed_on(asked):
    config = SimpleNamespace(bits=4)
    more = {"device_map": "auto", "attn_implementation": "sdpa"}
    loading.load_model(HUB, revision="v1", quantization=config, **more)
    (_, source, words), (_, same, given) = asked
    assert source == same == HUB
    assert words == {"trust_remote_code": False, "revision": "v1"}
    assert given == {**ALWAYS, "revision": "v1", "quantization_config": config, **more}


@pytest.mark.parametrize("more", [{"revision": "v1"}, {"attn_implementation": "eager"}, {"device_map": "balanced"}])
def test_nothing_else_is_passed_on(asked, more):
    loading.load_model(HUB, **more)
    (_, _, words), (_, _, given) = asked
    assert given == {**ALWAYS, **more}
    assert set(words) == {"trust_remote_code", *({"revision"} & set(more))}


@pytest.mark.parametrize("bits", [4, 8])
def test_bits_are_those_of_bitsandbytes_on_the_device_that_is_meant(asked, monkeypatch, bits):
    monkeypatch.setattr(loading, "find_spec", lambda name: name == "bitsandbytes")
    loading.load_model(HUB, quantization=f"{bits}bit", dtype="bfloat16")
    given = asked[1][2]
    config = given["quantization_config"]
    assert (config.load_in_4bit, config.load_in_8bit) == (bits == 4, bits == 8)
    assert config.bnb_4bit_compute_dtype == torch.bfloat16
    assert given["device_map"] == {"": torch.device("cpu")}
    loading.load_model(HUB, quantization="8bit", device_map="auto")
    assert asked[3][2]["device_map"] == "auto"


def test_a_folder_is_loaded_with_the_attention_and_the_places_that_are_asked_for(folder, network):
    ids = torch.arange(3, 43)[None]
    for more in ({"attn_implementation": "eager"}, {"device_map": {"": "cpu"}}, {}):
        model, tokenizer = gemfilter.load_model(folder, **more)
        with torch.no_grad():
            assert torch.allclose(model(ids).logits, network(ids).logits, atol=1e-4)
        assert model.config._attn_implementation == more.get("attn_implementation", "sdpa")
        assert not model.training
        assert tokenizer.eos_token == "<|im_end|>"
    assert gemfilter.load_model(folder, attn_implementation="eager", dtype="bfloat16")[0].dtype == torch.bfloat16


def test_loading_stays_strict(folder, tmp_path):
    from safetensors.torch import load_file, save_file

    weights = load_file(f"{folder}/model.safetensors")
    gone = sorted(weights)[0]
    weights.pop(gone)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((Path(folder) / name).read_bytes())
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(data.DataError, match="tensors are missing"):
        loading.load_model(str(tmp_path), attn_implementation="eager")


@pytest.mark.parametrize(
    "more, told",
    [
        ({"quantization": "5bit"}, "quantization = '5bit' is not allowed: 4bit, 8bit or a quantization_config"),
        ({"device": "cpu", "device_map": "auto"}, "device = 'cpu' is not allowed beside device_map"),
        ({"dtype": "int8", "device_map": "auto"}, "dtype = 'int8'"),
        ({"device": "sofa", "attn_implementation": "eager"}, "device = 'sofa'"),
    ],
)
def test_settings_are_refused_before_any_work(monkeypatch, more, told):
    monkeypatch.setattr(loading, "needed_packages", lambda: pytest.fail("work was done"))
    with pytest.raises((data.DataError, SettingError)) as error:
        loading.load_model(HUB, **more)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_revision_is_one_of_a_hub_id(folder):
    for name in ("smollm2-135m", folder):
        with pytest.raises(data.DataError, match=r"revision = 'v1' is not allowed: .* is no hub id"):
            loading.load_model(name, revision="v1")


@pytest.mark.parametrize("bits", ["4bit", "8bit"])
def test_a_missing_bitsandbytes_is_one_line(monkeypatch, folder, bits):
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(data.DataError, match=f"quantization = '{bits}' needs the package bitsandbytes: pip install"):
        loading.load_model(folder, quantization=bits)


@pytest.mark.parametrize("more", [{"attn_implementation": "nonsense"}, {"device_map": "nonsense"}])
def test_what_transformers_refuses_is_one_line_that_names_the_setting(folder, more):
    (name,) = more
    with pytest.raises(data.DataError, match=f"cannot be loaded: .*nonsense.*; look at {name}, or leave") as error:
        loading.load_model(folder, **more)
    assert "\n" not in str(error.value)


def test_without_them_it_is_the_loading_of_experiments(monkeypatch):
    seen = []

    def load(*args, **given):
        seen.append((args, given))
        return None, None

    monkeypatch.setattr(models, "load_model", load)
    gemfilter.load_model("smollm2-135m")
    gemfilter.load_model("x/y", dtype="bfloat16", device="cuda")
    cpu = (("smollm2-135m",), {"dtype": "float32", "device": "cpu"})
    assert seen == [cpu, (("x/y",), {"dtype": "bfloat16", "device": "cuda"})]


@pytest.mark.slow
def test_the_real_smollm2_by_eager_attention(real_cache):
    if not (real_cache("smollm2-135m") / models.CONVERTED / "config.json").is_file():
        pytest.skip(
            "smollm2-135m was not converted yet; load_model('smollm2-135m') does it once and this test then runs"
        )
    model, tokenizer = loading.load_model("smollm2-135m", attn_implementation="eager")
    assert model.config._attn_implementation == "eager"
    assert tokenizer.convert_ids_to_tokens(tokenizer("\n\n12").input_ids) == ["ĊĊ", "1", "2"]
    assert json.loads((real_cache("smollm2-135m") / models.CONVERTED / "config.json").read_text())["model_type"]
    assert "bitsandbytes" not in sys.modules
