"""Checkpoints that do not fit, are damaged or hold no numbers are refused by name, and no path asks the network."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from writing import reference, write_gguf

from featlearn import data
from featlearn.data import checkpoints, models

Q1 = "model.layers.1.self_attn.q_proj.weight"


@pytest.fixture(scope="module")
def network():
    return reference()


@pytest.fixture(scope="module")
def good(network, tmp_path_factory):
    """A folder of save_pretrained with one file of weights."""
    folder = tmp_path_factory.mktemp("good")
    network.save_pretrained(folder)
    write_gguf(network, folder / "tiny.gguf")
    models.load_model(str(folder / "tiny.gguf"))[1].save_pretrained(folder)
    (folder / "tiny.gguf").unlink()
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "model")


def rewrite(folder, change):
    """The weights with other names or values; their tied head is not among them."""
    tensors = change(load_file(folder / "model.safetensors"))
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})


def refusal(path, **more):
    with pytest.raises(data.DataError) as error:
        models.load_model(str(path), **more)
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"model = {str(path)!r}")
    return text


def test_the_whole_checkpoint_loads(folder, network):
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")  # tied: not missing
    model, _ = models.load_model(str(folder))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), network.parameters(), strict=True))


BARE = Q1.removeprefix("model.")
FOLDERS = {
    "one tensor twice": (lambda t: t | {BARE: t[Q1] + 1}, ["one tensor under two names", BARE, Q1]),
    "whole numbers": (lambda t: t | {Q1: t[Q1].to(torch.int8)}, [f"{Q1} holds I8", "floating point"]),
    "truth values": (lambda t: t | {Q1: t[Q1] > 0}, [f"{Q1} holds BOOL"]),
    "plus infinity": (lambda t: t | {Q1: t[Q1].index_fill(0, torch.tensor([7]), torch.inf)}, ["not finite", Q1]),
    "line end in a name": (lambda t: t | {"a\nb": torch.ones(3)}, ["none of the model's: 'a\\nb'"]),
    "missing": (lambda t: {k: v for k, v in t.items() if k != Q1}, ["1 tensors are missing", Q1]),
    "extra": (lambda t: t | {"visual.head": torch.ones(3)}, ["1 tensors are none of the model's", "visual.head"]),
    "renamed": (
        lambda t: {k.replace("q_proj", "query"): v for k, v in t.items()},
        ["2 tensors are missing", "model.layers.0.self_attn.query.weight"],
    ),
    "prefixed": (lambda t: {f"module.{k}": v for k, v in t.items()}, ["tensors are missing", "strip 'module.'"]),
    "prefixed deeply": (lambda t: {f"a.b.{k}": v for k, v in t.items()}, ["tensors are missing", "strip 'a.b.'"]),
    "another shape": (lambda t: t | {Q1: torch.zeros(32, 31)}, ["1 tensors have another shape", Q1]),
    "a layer too many": (
        lambda t: t | {Q1.replace("1", "2"): t[Q1].clone()},
        ["none of the model's", "model.layers.2"],
    ),
    "nan": (lambda t: t | {Q1: t[Q1].fill_(torch.nan)}, ["not finite", Q1]),
    "one infinity": (lambda t: t | {Q1: t[Q1].index_fill(0, torch.tensor([7]), -torch.inf)}, ["not finite", Q1]),
    "nan in the norm": (
        lambda t: t | {"model.norm.weight": torch.full((32,), torch.nan)},
        ["1 tensors hold values", "model.norm.weight"],
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_does_not_fit_is_refused_by_name(name, folder):
    change, words = FOLDERS[name]
    rewrite(folder, change)
    text = refusal(folder)
    assert all(word in text for word in words), text


def test_numbers_too_large_for_float16_are_named_with_the_remedy(folder):
    rewrite(folder, lambda t: t | {Q1: t[Q1] * 1e6})
    assert "not finite: model.layers.1.self_attn.q_proj.weight in float16; bfloat16 may" in refusal(
        folder, dtype="float16"
    )
    models.load_model(str(folder), dtype="bfloat16")


def sharded(folder, network):
    network.save_pretrained(folder, max_shard_size="8KB")
    (folder / "model.safetensors").unlink()
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    return index, sorted(set(index["weight_map"].values()))


def test_shards_that_are_whole_load(folder, network):
    _, files = sharded(folder, network)
    assert len(files) > 3
    model, _ = models.load_model(str(folder))
    assert torch.equal(model.model.norm.weight, network.model.norm.weight)


def test_a_shard_that_is_not_there_is_named(folder, network):
    _, files = sharded(folder, network)
    (folder / files[1]).unlink()
    assert files[1] in refusal(folder)


def test_a_tensor_that_a_shard_lacks_is_named(folder, network):
    index, _ = sharded(folder, network)
    path = folder / index["weight_map"][Q1]
    tensors = load_file(path)
    del tensors[Q1]
    save_file(tensors or {"x": torch.ones(1)}, path, metadata={"format": "pt"})
    assert Q1 in refusal(folder)


def test_a_tensor_too_many_in_a_shard_is_named(folder, network):
    index, files = sharded(folder, network)
    save_file(load_file(folder / files[0]) | {"odd.one": torch.ones(2)}, folder / files[0], metadata={"format": "pt"})
    assert "1 tensors are none of the model's: odd.one" in refusal(folder)
    assert "odd.one" not in index["weight_map"]


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("cut", [0, 1, 9, 0.5, -3], ids=str)
def test_a_truncated_file_of_a_folder_is_one_line(file, cut, folder):
    body = (folder / file).read_bytes()
    (folder / file).write_bytes(body[: int(cut * len(body)) if isinstance(cut, float) else cut])
    refusal(folder)


def test_threads_load_one_after_the_other(folder, network):
    """Transformers switches tying and messages for the whole process while it loads."""
    from transformers import LlamaForCausalLM

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: models.load_model(str(folder))[0], range(8)))
    assert all(torch.equal(m.lm_head.weight, network.lm_head.weight) for m in found)
    fresh = LlamaForCausalLM(network.config)
    assert fresh.lm_head.weight is fresh.model.embed_tokens.weight


@pytest.mark.parametrize("name", ["~nosuchuser/m", "x" * 5000, "a/" + "b" * 5000, "a\0b"])
def test_names_that_no_file_system_has_are_refused(name):
    with pytest.raises(data.DataError, match="neither there nor known"):
        models.load_model(name)


ODD_CONFIGS = ("[" * 100_000, "[]", "{}", '{"model_type": "unheard_of"}', '{"model_type": "t5"}', "null", "\udcff")


@pytest.mark.parametrize("body", ODD_CONFIGS, ids=range(7))
def test_an_odd_config_is_one_line(body, folder):
    (folder / "config.json").write_bytes(body.encode(errors="surrogateescape"))
    refusal(folder)


def test_weights_in_a_pickle_are_read_as_tensors_only(folder, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "evil"),)

    (folder / "model.safetensors").unlink()
    torch.save({"x": Evil()}, folder / "pytorch_model.bin")
    refusal(folder)
    assert not (tmp_path / "evil").exists()


def test_code_that_a_folder_brings_is_not_run(folder, tmp_path):
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.C", "AutoModelForCausalLM": "mine.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text(f"import os; os.mkdir({str(tmp_path / 'evil')!r})")
    assert "brings code of its own, which is not run" in refusal(folder)
    assert not (tmp_path / "evil").exists()


# --- GGUF ------------------------------------------------------------------------------------------------------------


def at(name, other):
    """Change one tensor: other(name, weight) -> what stands in its place."""
    return lambda key, weight: other(key, weight) if key == name else {key: weight}


B1 = "blk.1.attn_q.weight"
GGUFS = {
    "missing": (at(B1, lambda k, w: {}), ["1 tensors are missing", Q1]),
    "extra": (at(B1, lambda k, w: {k: w, "extra.weight": w}), ["1 tensors are none of the model's: extra.weight"]),
    "renamed": (at(B1, lambda k, w: {"blk.1.query.weight": w}), ["are missing", Q1, "blk.1.query.weight"]),
    "prefixed": (lambda k, w: {f"module.{k}": w}, ["are missing", "module.blk.0.attn_k.weight"]),
    "a layer too many": (at(B1, lambda k, w: {k: w, "blk.2.attn_q.weight": w}), ["blk.2.attn_q.weight"]),
    "nan": (at(B1, lambda k, w: {k: w * np.float32("nan")}), ["not finite", Q1]),
    "another shape": (at(B1, lambda k, w: {k: np.ascontiguousarray(w[:, :16])}), []),
    "scaled rotary embedding": (
        at(B1, lambda k, w: {k: w, "rope_freqs.weight": np.linspace(1, 8, 4, dtype=np.float32)}),
        ["does not read rope_freqs.weight", "rotary embedding"],
    ),
}


@pytest.mark.parametrize("name", GGUFS)
def test_a_gguf_file_that_does_not_fit_is_refused_by_name(name, network, tmp_path):
    change, words = GGUFS[name]
    write_gguf(network, tmp_path / "odd.gguf", change)
    text = refusal(tmp_path / "odd.gguf")
    assert all(word in text for word in words), text


def test_rotary_factors_that_scale_nothing_are_no_fault(network, tmp_path):
    ones = np.ones(4, dtype=np.float32)
    write_gguf(network, tmp_path / "a.gguf", at(B1, lambda k, w: {k: w, "rope_freqs.weight": ones}))
    model, _ = models.load_model(str(tmp_path / "a.gguf"))
    assert torch.allclose(model.model.norm.weight, network.model.norm.weight)


def test_a_truncated_gguf_file_is_one_line_wherever_it_ends(network, tmp_path):
    write_gguf(network, tmp_path / "whole.gguf")
    body, odd = (tmp_path / "whole.gguf").read_bytes(), tmp_path / "odd.gguf"
    cuts = np.random.default_rng(0).integers(0, len(body) - 1, 40)
    for cut in [0, 1, 4, 7, 8, 20, 24, 100, len(body) // 2, len(body) - 1, *cuts.tolist()]:
        odd.write_bytes(body[:cut])
        text = refusal(odd)
        assert "GGUF" in text or "truncated" in text


@pytest.mark.parametrize("merges", [("Ċ",), ("Ċ Ċ Ċ",), ("x yy",), ("",)])
def test_bad_merges_are_one_line(merges, network, tmp_path):
    write_gguf(network, tmp_path / "odd.gguf", merges=merges)
    refusal(tmp_path / "odd.gguf")


@pytest.mark.parametrize(
    "body, words",
    [
        (b"", "is empty"),
        (b"PK\x03\x04 a zip", "begins with b'PK"),
        (b"GGUF" + bytes(100), "of GGUF version 0"),
        (b"GGUF\x01\x00\x00\x00" + bytes(90), "of GGUF version 1"),
        (b"GGUF\x03\x00\x00\x00" + b"\xff" * 90, "damaged or truncated"),
        (b"GGUF\x03\x00\x00\x00" + bytes(90), "cannot be loaded"),
    ],
)
def test_what_is_no_gguf_file_says_why(body, words, tmp_path):
    (tmp_path / "odd.gguf").write_bytes(body)
    assert words in refusal(tmp_path / "odd.gguf")


def test_of_several_gguf_files_one_is_asked_for(tmp_path):
    for name in ("b.gguf", "a.GGUF"):
        (tmp_path / name).write_bytes(b"GGUF")
    assert "holds 2 GGUF files; give one of them: a.GGUF, b.gguf" in refusal(tmp_path)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3_text"])
def test_every_parameter_of_a_known_family_has_a_name_in_gguf_files(family):
    """Or tensors too many would go unseen in files of this family."""
    import sys
    from pathlib import Path

    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    sys.path.insert(0, str(Path(__file__).parents[1] / "methods"))
    from families import build

    model = build(family)
    kind = {"gemma3_text": "gemma3"}.get(family, family)
    [arch] = [arch for arch, name in MODEL_ARCH_NAMES.items() if name == kind]
    names = get_tensor_name_map(arch, 4)
    own = {id(value): key for key, value in model.named_parameters()}.values()  # a tied head is the embedding
    found = [names.get_name(key, try_suffixes=(".weight", ".bias")) for key in own]
    assert None not in found
    assert len(set(found)) == len(found)


# --- paths and hub ids -----------------------------------------------------------------------------------------------

PATHS = (
    *("gg/nothere.gguf", "gg/NOTHERE.GGUF", "runs/model.safetensors", "a/b.bin", "a/config.json", "a", "models/", ""),
    *("./a/b", "../a/b", "/a/b", "~/a/b", "a/b/c", "a/b/", "a//b", "a\\b", "C:\\models\\a"),
    *("a/b c", "-a/b", "a/..", "a/b--c", "a/.b"),
)


@pytest.mark.parametrize("name", PATHS)
def test_a_name_that_looks_like_a_path_never_asks_the_network(name, monkeypatch):
    import transformers

    for loader in (transformers.AutoTokenizer, transformers.AutoModelForCausalLM):
        monkeypatch.setattr(loader, "from_pretrained", lambda *a, **k: pytest.fail("the network was asked"))
    assert checkpoints.looks_local(name)
    with pytest.raises(data.DataError, match="neither there nor known"):
        models.load_model(name)


def test_the_first_part_of_a_hub_id_may_not_be_a_folder_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not checkpoints.looks_local("models/tiny")
    (tmp_path / "models").mkdir()
    assert checkpoints.looks_local("models/tiny")


@pytest.mark.parametrize("name", ["HuggingFaceTB/SmolLM2-135M-Instruct", "meta-llama/Llama-3.1-8B", "a/b_c.d"])
def test_hub_ids_are_none(name):
    assert not checkpoints.looks_local(name)
