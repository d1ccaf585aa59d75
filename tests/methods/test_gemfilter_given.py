"""Whatever is handed in is taken for what it means or refused in one line, before the prompt is read."""

import contextlib
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from families import assert_same, build, ids_of, state_of
from users import refusal, unread

from featlearn.methods import gemfilter
from featlearn.methods.eviction_block import evicting
from featlearn.methods.gemfilter import blocks
from featlearn.methods.gemfilter.generating import _pad_id
from featlearn.methods.gemfilter.layouts import check_layer, layout_of
from featlearn.methods.gemfilter.selecting import observe, probabilities, products
from featlearn.methods.shared_context import read_context

transformers = pytest.importorskip("transformers", reason="needs the llm extra; lift when it is part of the core")

pytestmark = pytest.mark.usefixtures("as_user")
IDS = ids_of(2, 40)
HOW = {"layer": 1, "keep": 8}
SHORT = {**HOW, "max_new_tokens": 3, "do_sample": False}


@pytest.fixture(scope="module")
def model():
    return build("llama")


@pytest.fixture(name="unread")
def _unread(model):
    with unread(model):
        yield model


def kept(model, ids=IDS, mask=None, **more):
    return [i.tolist() for i in gemfilter.select(model, ids, mask, **{**HOW, **more}).indices]


# --- prompts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        IDS.numpy().astype(np.uint8),
        IDS.numpy().astype(np.uint16),
        IDS.numpy().astype(np.uint64),
        IDS.to(torch.int16),
        np.ascontiguousarray(IDS.numpy()[:, ::-1])[:, ::-1],
        np.broadcast_to(IDS.numpy(), IDS.shape),
        list(IDS),
        tuple(map(tuple, IDS.tolist())),
    ],
    ids=["uint8", "uint16", "uint64", "int16", "backwards", "read-only", "list of tensors", "tuples"],
)
def test_ids_of_any_whole_type(model, ids):
    assert kept(model, ids) == kept(model)
    made = gemfilter.generate(model, ids, **SHORT)
    assert made.sequences.dtype == torch.int64
    assert torch.equal(made.sequences, gemfilter.generate(model, IDS, **SHORT).sequences)


@pytest.mark.parametrize(
    "ids, told",
    [
        (IDS > 5, "input_ids = torch.bool [2, 40]"),
        ([[True, False]], "input_ids = torch.bool [1, 2]"),
        (IDS.to(torch.complex64), "input_ids = torch.complex64"),
        (IDS.to("meta"), "input_ids = on the meta device"),
        (IDS.to_sparse(), "input_ids = a tensor of layout torch.sparse_coo"),
        ([], "the prompt is empty"),
        ([[]], "the prompt is empty"),
        ([torch.zeros(2), torch.zeros(3)], "input_ids = a list"),
    ],
)
def test_what_is_no_ids(unread, ids, told):
    assert told in refusal(lambda: kept(unread, ids))


@pytest.mark.parametrize("mask", [torch.ones(2, 40, device="meta"), torch.ones(2, 40).to_sparse()])
def test_what_is_no_mask(unread, mask):
    assert "attention_mask = " in refusal(lambda: kept(unread, IDS, mask))


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_protection_as_arrays_and_lists(model):
    mask = torch.zeros(2, 40, dtype=torch.bool)
    mask[:, :3] = True
    wanted = kept(model, protect=mask)
    assert wanted != kept(model)
    for given in (mask.numpy(), mask.tolist(), (3, 0), [np.int64(3), torch.tensor(0)]):
        assert kept(model, protect=given) == wanted


@pytest.mark.parametrize("protect", [np.ones((3, 40), bool), np.ones((2, 40)), [[1, 0]], "ab", 4, {"a": 1}])
def test_what_protects_nothing_is_one_short_line(unread, protect):
    assert "protect = " in refusal(lambda: kept(unread, protect=protect))


@pytest.mark.parametrize("value, told", [("8", "keep = '8'"), (["8"], "keep = ['8']"), (True, "keep = True")])
def test_a_message_does_not_deny_what_it_shows(unread, value, told):
    assert told in refusal(lambda: kept(unread, keep=value))
    assert "layer = '1'" in refusal(lambda: check_layer(layout_of(unread), unread, "1", 40))


def test_scorings_of_numpy_and_torch_numbers():
    given = gemfilter.Scoring(rows=np.int64(3), softmax=np.bool_(True), pool=torch.tensor(5), heads=np.array([0, 1]))
    assert given == gemfilter.Scoring(rows=3, softmax=True, pool=5, heads=(0, 1))
    assert all(type(h) is int for h in given.heads)
    assert gemfilter.SinksAndWindow(np.int64(2), torch.tensor(4)) == gemfilter.SinksAndWindow(2, 4)


@pytest.mark.parametrize(
    "more, told",
    [
        ({"heads": (0.5,)}, "heads = 0.5"),
        ({"heads": (True,)}, "heads = True"),
        ({"heads": 5}, "heads = 5"),
        ({"heads": "ab"}, "heads = "),
        ({"softmax": "no"}, "softmax = 'no'"),
        ({"rows": 2.0}, "rows = 2.0"),
        ({"pool": "5"}, "pool = '5'"),
    ],
)
def test_scorings_that_are_none(more, told):
    assert told in refusal(lambda: gemfilter.Scoring(**more))


@pytest.mark.parametrize("scoring", [None, "softmax", {}])
def test_a_scoring_is_a_scoring(unread, scoring):
    assert "scoring = " in refusal(lambda: kept(unread, scoring=scoring))
    if scoring is not None:
        assert "scoring = " in refusal(lambda: gemfilter.generate(unread, IDS, **{**SHORT, "scoring": scoring}))
        assert "scoring = " in refusal(lambda: gemfilter.filtered(unread, **HOW, scoring=scoring).__enter__())
        assert "scoring = " in refusal(lambda: read_context(unread, IDS[:1], layer=1, scoring=scoring))


def test_chunks_of_numpy_numbers(model):
    wanted = kept(model, protect=(1, 2))
    found = gemfilter.select_chunked(model, IDS, **HOW, chunk=np.int64(7), protect=[1, np.int64(2)])
    assert [i.tolist() for i in found.indices] == wanted


def test_evictions_of_numpy_numbers(model):
    def made(budget, window):
        with evicting(model, "snapkv", budget=budget, window=window):
            return model.generate(IDS, max_new_tokens=3, do_sample=False)

    assert torch.equal(made(np.int64(12), torch.tensor(4)), made(12, 4))
    assert "window = '4'" in refusal(lambda: made(12, "4"))
    assert "budget = '12'" in refusal(lambda: made("12", 4))


# --- what would fail after the prompt was read ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more, told",
    [
        ({"tokenizer": "smollm2"}, "tokenizer = 'smollm2'"),
        ({"choose": "select"}, "choose = 'select'"),
        ({"choose": None}, "choose = None"),
        ({"max_new_tokens": 0}, "max_new_tokens = 0"),
        ({"max_new_tokens": "3"}, "max_new_tokens = '3'"),
        ({"max_new_tokens": 2.5}, "max_new_tokens = 2.5"),
        ({"generation_config": {"max_new_tokens": 3}}, "generation_config = a dict"),
        ({"logits_processor": lambda ids, scores: scores}, "logits_processor = "),
        ({"pad_token_id": "<pad>"}, "pad_token_id = '<pad>'"),
        ({"stop_strings": ["a"]}, "stop_strings = without a tokenizer"),
    ],
)
def test_arguments_of_pass_two_are_looked_at_before_pass_one(unread, more, told):
    assert told in refusal(lambda: gemfilter.generate(unread, IDS, **{**SHORT, **more}))


def test_a_model_that_cannot_generate(unread):
    assert "model = LlamaModel" in refusal(lambda: gemfilter.generate(unread.model, IDS, **SHORT))


@pytest.mark.parametrize("pad", [[3], torch.tensor([3]), np.int64(3)])
def test_padding_tokens_as_people_have_them(pad):
    assert _pad_id(SimpleNamespace(), {"pad_token_id": pad}) == 3
    assert _pad_id(SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=pad)), {}) == 3


@pytest.mark.parametrize(
    "more", [{"choose": 3}, {"protect": 4}, {"protect": "ab"}, {"protect": (1.0, 2.0)}, {"keep": "8"}, {"layer": None}]
)
def test_settings_of_a_block_are_refused_where_it_is_opened(unread, more):
    refusal(lambda: gemfilter.filtered(unread, **{**HOW, **more}).__enter__())
    assert "generate" not in vars(unread)


def test_lengths_are_told_as_they_were_given(unread):
    def call(**more):
        with gemfilter.filtered(unread, **HOW):
            unread.generate(IDS, do_sample=False, **more)

    assert "max_length = 20 is not allowed: above the 40 tokens" in refusal(lambda: call(max_length=20))
    assert "generation_config = a dict" in refusal(lambda: call(generation_config={"max_length": 44}))


class Words:
    """A tokenizer that only has to be handed on."""

    def decode(self, ids, **_):
        return " ".join(map(str, ids))

    def batch_decode(self, rows, **_):
        return [self.decode(row) for row in rows]


@pytest.mark.parametrize("where", ["config of the call", "config of the model", "assistant"])
def test_the_tokenizer_is_handed_on_for_whatever_needs_it(model, monkeypatch, where):
    seen = {}

    def generate(ids, **given):
        seen.update(given)
        return ids

    more, tokenizer = {}, Words()
    if where == "config of the call":
        more["generation_config"] = transformers.GenerationConfig(stop_strings=["a"], max_new_tokens=3)
    elif where == "config of the model":
        monkeypatch.setattr(model.generation_config, "stop_strings", ["a"])
    else:
        more |= {"assistant_model": model, "assistant_tokenizer": Words()}
    monkeypatch.setattr(model, "generate", generate, raising=False)
    gemfilter.generate(model, IDS, **HOW, tokenizer=tokenizer, **more)
    assert seen["tokenizer"] is tokenizer


# --- precision -------------------------------------------------------------------------------------------------------


def test_sums_keep_their_precision_under_autocast(model):
    layout, mask = layout_of(model), torch.ones_like(IDS, dtype=torch.bool)
    with torch.inference_mode():
        attn, hidden, rotary = observe(layout, model, IDS, mask, 1)
        keys, queries = layout.keys(attn, hidden, rotary), layout.queries(attn, hidden, rotary)[:, :, -4:]
        plain = products(queries, keys), probabilities(queries, keys, mask, layout.scale(attn))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = products(queries, keys), probabilities(queries, keys, mask, layout.scale(attn))
            assert gemfilter.select(model, IDS, **HOW).scores.dtype == torch.float32
    for one, other in zip(plain, inside, strict=True):
        assert torch.equal(one, other)


# --- calls that end early --------------------------------------------------------------------------------------------


class EndedError(Exception):
    pass


class Ending:
    """A streamer, criterion or processor that raises at its second call."""

    def __init__(self, error):
        self.error, self.calls = error, 0

    def __call__(self, *_, **__):
        self.put(None)

    def put(self, _):
        self.calls += 1
        if self.calls >= 2:
            raise self.error

    def end(self):
        pass


ONE = IDS[:1]


def in_blocks(model, given, *made):
    with contextlib.ExitStack() as stack:
        for block in made:
            stack.enter_context(block)
        return model.generate(ONE, **given)


def after_reading(model, given):
    text = read_context(model, ONE[:, :30], layer=1)
    return in_blocks(model, given, gemfilter.filtered(model, **HOW, choose=text.select))


CALLS = {
    "method": lambda model, given: gemfilter.generate(model, ONE, **HOW, **given),
    "filtered": lambda model, given: in_blocks(model, given, gemfilter.filtered(model, **HOW)),
    "evicting": lambda model, given: in_blocks(model, given, evicting(model, "snapkv", budget=12, window=4)),
    "both": lambda model, given: in_blocks(
        model, given, gemfilter.filtered(model, layer=1, keep=20), evicting(model, "snapkv", budget=12, window=4)
    ),
    "context": after_reading,
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, EndedError, GeneratorExit])
@pytest.mark.parametrize("way", CALLS)
def test_a_call_that_ends_early_leaves_nothing(model, error, way):
    before = state_of(model)
    for name in ("streamer", "logits_processor"):
        ending = Ending(error)
        given = {name: ending if name == "streamer" else [lambda ids, scores, ending=ending: ending() or scores]}
        with pytest.raises(error):
            CALLS[way](model, {"max_new_tokens": 6, "do_sample": False, **given})
        assert_same(before, state_of(model))
        assert "generate" not in vars(model)
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()


def test_a_block_that_another_thread_closes_is_forgotten(model):
    def opened():
        with gemfilter.filtered(model, **HOW):
            yield

    made = opened()
    next(made)
    closing = threading.Thread(target=made.close)
    closing.start()
    closing.join()
    assert "generate" not in vars(model)
    with gemfilter.filtered(model, **HOW):
        assert all(b.open for b in blocks._BLOCKS.get())
        model.generate(IDS, max_new_tokens=2, do_sample=False)
    blocks._BLOCKS.set(tuple(b for b in blocks._BLOCKS.get() if b.open))
