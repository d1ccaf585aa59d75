"""Chunked prefill as pass one: the scores of the model's own forward in chunks, windows as masks say, weights that come
back."""

import contextlib
import copy
import functools
import math
import types

import families
import pytest
import torch
from families import FAMILIES, assert_same, ids_of, state_of

from featlearn.core import SettingError
from featlearn.methods.gemfilter import RAW, SOFTMAX, Scoring, chunked, chunked_attention, layout_of, offload, select
from featlearn.methods.gemfilter.chunked import SinksAndWindow, chunked_hidden, offloaded_for_filter, select_chunked
from featlearn.methods.gemfilter.chunked_attention import attend
from featlearn.methods.gemfilter.selecting import observe
from featlearn.methods.gemfilter.views import undisturbed

CLOSE = 5e-6  # of the largest: the models' norms and spelled-out softmaxes round to float32 even in float64
build = functools.partial(families.build, dtype=torch.float64, max_position_embeddings=256)


@pytest.fixture(scope="module", params=list(FAMILIES))
def model(request):
    return build(request.param)


@pytest.fixture(scope="module")
def llama():
    return build("llama")


# --- the same as the model's own forward -----------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [7, 64])
def test_hidden_states_are_those_of_the_model(model, chunk):
    layout, ids = layout_of(model), ids_of(1, 50)
    for layer in layout.global_layers(model):
        _, want, rotary = observe(layout, model, ids, torch.ones_like(ids).bool(), layer)
        with undisturbed(model):
            got, turned = chunked_hidden(layout, model, ids, layer, chunk=chunk)
        assert torch.allclose(got, want, atol=CLOSE * float(want.abs().max()), rtol=0)
        assert all(torch.equal(a, b) for a, b in zip(turned, rotary, strict=True))


@pytest.mark.parametrize(
    "scoring",
    [RAW, SOFTMAX, Scoring(rows=60, softmax=True, heads=(1, 2)), Scoring(pooling="max", pool=3)],
    ids=["raw", "best head", "more rows than tokens", "max pooling"],
)
def test_selection_is_that_of_select(model, scoring):
    ids = ids_of(3, 50)
    mask = torch.ones_like(ids)
    mask[0, :9], mask[1, 40:] = 0, 0  # one padded on the left, one on the right
    layer = layout_of(model).global_layers(model)[-1]
    how = {"layer": layer, "keep": 12, "scoring": scoring, "protect": (2, 3)}
    got = select_chunked(model, ids, mask, chunk=13, **how)
    for row in range(3):  # one at a time: in float64 the spelled-out attention of gemma2 is NaN at padding
        own = mask[row].bool()
        want = select(model, ids[row : row + 1, own], **how)
        atol = CLOSE * float(want.scores.abs().max())
        assert torch.allclose(got.scores[row, own], want.scores[0], atol=atol, rtol=0)
        assert bool((got.scores[row, ~own] == -torch.inf).all())
        assert got.indices[row].tolist() == want.indices[0].tolist()
        assert torch.equal(got.protected[row, own], want.protected[0])
        assert not bool(got.protected[row, ~own].any())
    assert (got.layer, got.lengths, got.kept) == (layer, (41, 40, 50), (12, 12, 12))
    assert got.cost.tokens == 150
    assert got.cost.seconds > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_types_agree_to_their_rounding(dtype):
    model = build("llama")
    want = select(model, ids_of(1, 200), layer=2, keep=20, scoring=RAW).scores
    own, chunked_own = (
        f(copy.deepcopy(model).to(dtype), ids_of(1, 200), layer=2, keep=20, scoring=RAW).scores.double() - want
        for f in (select, lambda *a, **k: select_chunked(*a, chunk=64, **k))
    )
    spread = float(want.std())
    assert float(own.abs().max()) < (0.3 if dtype is torch.bfloat16 else 1e-4) * spread
    assert float(chunked_own.abs().max()) < 2 * float(own.abs().max())


def test_rotary_variants_see_the_whole_length():
    long = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "long_factor": [3.0, 7.0],
        "short_factor": [1.0, 1.0],
        "original_max_position_embeddings": 32,
        "partial_rotary_factor": 0.5,
    }
    model = build("phi3", rope_parameters=long, original_max_position_embeddings=32)
    for n in (20, 60):  # below and above the length at which the factors change
        want = select(model, ids_of(1, n), layer=2, keep=5, scoring=RAW)
        got = select_chunked(model, ids_of(1, n), layer=2, keep=5, scoring=RAW, chunk=16)
        assert torch.allclose(got.scores, want.scores, atol=CLOSE * float(want.scores.abs().max()), rtol=0)


def test_layer_zero_needs_no_attention(llama):
    want, got = (f(llama, ids_of(1, 40), layer=0, keep=5, scoring=RAW) for f in (select, select_chunked))
    assert torch.allclose(got.scores, want.scores, atol=1e-10)


def test_only_rows_of_a_chunk_pass_a_map_and_no_later_layer_runs(model):
    layout, widest, later = layout_of(model), [], []
    layer = layout.global_layers(model)[-1]
    handles = [
        m.register_forward_pre_hook(lambda m, args: widest.append(args[0].shape[1]))
        for m in model.modules()
        if isinstance(m, torch.nn.Linear)
    ]
    layers = layout.layers(model)
    late = [*layers[layer].mlp.modules(), layers[layer].self_attn.o_proj, *list(layers)[layer + 1 :]]
    handles += [m.register_forward_pre_hook(lambda m, args: later.append(m)) for m in late]
    try:
        select_chunked(model, ids_of(1, 50), layer=layer, keep=5, chunk=8)
    finally:
        for handle in handles:
            handle.remove()
    assert max(widest) == SOFTMAX.rows == 16  # the voting rows are the one exception
    assert sum(w == 8 for w in widest) >= layer * 6 * 4
    assert not later


# --- attention -------------------------------------------------------------------------------------------------------


def brute_force(q, k, v, start, scale, softcap, window, sinks):
    share = q.shape[1] // k.shape[1]
    k, v = k.double().repeat_interleave(share, 1), v.double().repeat_interleave(share, 1)
    logits = q.double() @ k.transpose(2, 3) * scale
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    row, j = torch.arange(start, start + q.shape[2])[:, None], torch.arange(k.shape[2])
    visible = (j <= row) & (torch.tensor(window is None) | (j < sinks) | (row - j < (window or 0)))
    return torch.softmax(logits.masked_fill(~visible, -math.inf), -1) @ v


@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("window, sinks", [(None, 0), (1, 0), (1, 3), (40, 0), (40, 5), (150, 4), (300, 1), (700, 3)])
@pytest.mark.parametrize("start", [0, 333])
def test_attention_equals_a_brute_force_mask(softcap, window, sinks, start):
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, h, n, 8, generator=generator) for h, n in ((6, 300), (2, 650), (2, 650)))
    found = attend(q, k, v, start, scale=0.5, softcap=softcap, window=window, sinks=sinks)
    assert torch.allclose(found.double(), brute_force(q, k, v, start, 0.5, softcap, window, sinks), atol=1e-5)


@pytest.mark.parametrize("start", [0, 70])
def test_the_kernel_for_grouped_heads_has_its_edge_at_the_end(monkeypatch, start):
    monkeypatch.setattr(chunked_attention, "_fused_from_the_end", lambda queries: True)  # on a CPU: its stand-in
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, h, n, 8, generator=generator) for h, n in ((6, 30), (2, 110), (2, 110)))
    found = attend(q, k, v, start, scale=0.5)
    assert torch.allclose(found.double(), brute_force(q, k, v, start, 0.5, None, None, 0), atol=1e-5)


class Cuda(torch.Tensor):
    """A tensor that says that it is on a GPU."""

    is_cuda = True


def test_the_kernel_for_grouped_heads_is_that_of_half_precision_on_a_gpu():
    rows = torch.zeros(1, 6, 3, 256, dtype=torch.float16)
    takes = chunked_attention._fused_from_the_end
    assert takes(rows.as_subclass(Cuda))
    assert takes(rows.bfloat16().as_subclass(Cuda))
    assert not takes(rows)
    assert not takes(rows.float().as_subclass(Cuda))
    assert not takes(torch.zeros(1, 6, 3, 257, dtype=torch.float16).as_subclass(Cuda))


def test_blocks_are_bounded_and_masks_of_equal_blocks_are_built_once(monkeypatch):
    monkeypatch.setattr(chunked_attention, "ENTRIES", 3 * 2**10)
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, h, 400, 8, generator=generator) for h in (6, 2, 2))
    own, sizes, masks, keys = torch.nn.functional.scaled_dot_product_attention, [], set(), []

    def record(q, k, v, attn_mask=None, **kwargs):
        if attn_mask is None:  # rows that see all before them
            return own(q, k, v, **kwargs)
        sizes.append(attn_mask.numel())
        keys.append(attn_mask.shape[-1])
        masks.add(attn_mask.data_ptr())
        masks.add(attn_mask)  # kept, that no address is used twice
        return own(q, k, v, attn_mask=attn_mask, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
    for sinks in (0, 5):
        sizes.clear(), masks.clear(), keys.clear()
        found = attend(q, k, v, 0, scale=0.5, window=20, sinks=sinks)
        assert torch.allclose(found.double(), brute_force(q, k, v, 0, 0.5, None, 20, sinks), atol=1e-5)
        assert max(sizes) <= 3 * 2**10
        assert len(sizes) > 20
        assert sum(k % 16 == 0 for k in keys) > len(sizes) / 2
        assert len(masks) // 2 < len(sizes) / 2


def test_a_window_computes_less_than_all_from_twice_its_length_on(monkeypatch):
    own, products, masks = torch.nn.functional.scaled_dot_product_attention, [], []

    def count(q, k, v, attn_mask=None, is_causal=False, **kwargs):
        products.append(q.shape[1] * q.shape[2] * k.shape[2] // (2 if is_causal else 1))
        masks.append(attn_mask)
        return own(q, k, v, attn_mask=attn_mask, is_causal=is_causal, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", count)

    def work(n, **how):
        products.clear(), masks.clear()
        q, k, v = (torch.zeros(1, h, n, 8) for h in (6, 2, 2))
        attend(q, k, v, 0, scale=0.5, **how)
        return sum(products)

    work(1024, window=512, sinks=16)
    assert masks[0] is None  # rows that see all before them
    for n, share in ((1024, 1.0), (2048, 0.62), (4096, 0.34)):
        assert work(n, window=512, sinks=16) < share * work(n)


@pytest.mark.parametrize("name", ["llama", "qwen2", "gemma2", "gemma3_text"])
def test_pattern_is_that_of_the_model_under_the_same_mask(name):
    model, ids, n = build(name), ids_of(1, 90), 90
    model.set_attn_implementation("eager")
    pattern = SinksAndWindow(sinks=3, window=10, dense_tail=7)
    layout = layout_of(model)
    row, at = torch.arange(n)[:, None], torch.arange(n)
    sparse = (at <= row) & ((at < 3) | (row - at < 10) | (row >= n - 7))
    own = (at <= row) & (row - at < 16)
    kinds = {"full_attention": sparse, "sliding_attention": own}
    masks = {k: torch.zeros(1, 1, n, n, dtype=torch.float64).masked_fill(~m, -math.inf) for k, m in kinds.items()}
    layer, seen = 3, []
    handle = layout.layers(model)[layer].self_attn.register_forward_pre_hook(
        lambda m, args, kwargs: seen.append(kwargs["hidden_states"]), with_kwargs=True
    )
    with torch.no_grad(), contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(handle.remove)
        model.get_decoder()(ids, attention_mask=masks if name != "llama" else masks["full_attention"])
    for chunk in (11, 85, 128):
        with undisturbed(model):
            found, _ = chunked_hidden(layout, model, ids, layer, chunk=chunk, attention=pattern)
        assert torch.allclose(found, seen[0], atol=CLOSE * float(seen[0].abs().max()), rtol=0)
    with undisturbed(model):
        full, _ = chunked_hidden(layout, model, ids, layer)
    assert float((full - seen[0]).abs().max()) > 1e-2


def test_tail_holds_the_voting_and_the_protected_rows(llama):
    def scores(tail, rows=1, protect=(0, 0), window=10):
        pattern = SinksAndWindow(sinks=2, window=window, dense_tail=tail)
        how = {"scoring": Scoring(rows=rows), "protect": protect, "attention": pattern}
        return select_chunked(llama, ids_of(1, 90), layer=3, keep=30, **how).scores

    assert not torch.equal(scores(1), scores(20))
    assert torch.equal(scores(1, rows=20), scores(20, rows=20))
    assert torch.equal(scores(1, protect=(0, 20)), scores(20))
    full = select_chunked(llama, ids_of(1, 90), layer=3, keep=30, scoring=RAW).scores
    assert torch.allclose(scores(1, window=90), full, atol=1e-9)


# --- weights that leave and come back --------------------------------------------------------------------------------


class Away:
    """Takes the place of copying to the CPU on a machine without another device: counts, and copies in memory."""

    def __init__(self, monkeypatch):
        self.copied, self.back = [], []
        own, bring = offload._away, offload._back
        monkeypatch.setattr(offload, "_host_copy", self._copy)
        monkeypatch.setattr(offload, "_back", lambda moved: (self.back.append(len(moved)), bring(moved)))
        monkeypatch.setattr(offload, "LOCAL", ("meta",))
        assert own is offload._away

    def _copy(self, data):
        with torch.inference_mode(False):
            self.copied.append(data.clone())
        return self.copied[-1]


@pytest.mark.parametrize("tied", [False, True])
def test_what_pass_one_does_not_read_leaves_and_comes_back(monkeypatch, tied):
    model = build("llama", tie_word_embeddings=tied)
    before, away = state_of(model), Away(monkeypatch)
    places = {name: p.data_ptr() for name, p in model.named_parameters()}
    with torch.inference_mode(), offloaded_for_filter(model, 2) as count:
        left = {name for name, p in model.named_parameters() if p.data_ptr() != places[name]}
        assert count == sum(p.numel() * 8 for name, p in model.named_parameters() if name in left)
        stay = {"model.embed_tokens.weight", "model.layers.2.input_layernorm.weight"}
        stay |= {f"model.layers.2.self_attn.{k}_proj.{w}" for k in "qk" for w in ("weight", "bias")}
        stay |= {n for n, _ in model.named_parameters() if n.startswith(("model.layers.0.", "model.layers.1."))}
        assert left == set(places) - stay
        assert ("lm_head.weight" in left) is not tied
        with torch.no_grad():
            model(ids_of(1, 5))  # whole inside too
    assert away.back == [len(left)]
    assert_same(before, state_of(model))
    assert (model.lm_head.weight is model.get_input_embeddings().weight) is tied


def test_offloaded_pass_gives_the_same_and_leaves_the_model_as_it_was(monkeypatch, model):
    layer, ids = layout_of(model).global_layers(model)[-1], ids_of(2, 40)
    want = select_chunked(model, ids, layer=layer, keep=8)
    before, away = state_of(model), Away(monkeypatch)
    model.train()
    training = state_of(model)
    got = select_chunked(model, ids, layer=layer, keep=8, offload=True)
    assert torch.equal(got.scores, want.scores)
    assert away.copied
    assert len(away.back) == 1
    assert_same(training, state_of(model))
    model.eval()
    assert_same(before, state_of(model))


@pytest.mark.parametrize("where", ["mlp", "o_proj", "copy"])
def test_model_is_as_before_after_an_exception(monkeypatch, where):
    model = build("gemma3_text").train()
    before, away, calls = state_of(model), Away(monkeypatch), []

    def fail(*args):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    layer, handle = model.model.layers[1], None
    if where == "copy":
        own = offload._host_copy
        monkeypatch.setattr(offload, "_host_copy", lambda data: (fail(), own(data))[1])
    else:
        handle = (layer.mlp if where == "mlp" else layer.self_attn.o_proj).register_forward_pre_hook(fail)
    with pytest.raises(KeyboardInterrupt):
        select_chunked(model, ids_of(1, 40), layer=3, keep=8, chunk=8, offload=True)
    if handle is not None:
        handle.remove()
    assert len(calls) == 3
    assert away.back == [2 if where == "copy" else len(away.copied)]
    assert_same(before, state_of(model))


def test_weights_return_to_the_device_they_came_from(monkeypatch):
    class Weight:  # a parameter that can be on a device which this machine has not
        data = torch.zeros(3, device="meta")
        device = property(lambda self: self.data.device)

    weight = Weight()
    monkeypatch.setattr(offload, "_host_copy", lambda data: torch.ones(3))
    with offload._away([weight]):
        assert torch.equal(weight.data, torch.ones(3))
    assert weight.data.device.type == "meta"


def test_a_model_on_the_cpu_has_nothing_to_offload(llama):
    places = [p.data_ptr() for p in llama.parameters()]
    with offloaded_for_filter(llama, 2) as count:
        assert count == 0
        assert places == [p.data_ptr() for p in llama.parameters()]


def test_seconds_of_a_offloaded_pass_include_the_moves(monkeypatch, llama):
    ticks = iter(range(100))
    monkeypatch.setattr(chunked.time, "perf_counter", lambda: float(next(ticks)))  # one clock for all modules
    assert select_chunked(llama, ids_of(1, 20), layer=1, keep=8, offload=False).cost.seconds == 1
    assert select_chunked(llama, ids_of(1, 20), layer=1, keep=8, offload=True).cost.seconds == 3


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field, change",
    [
        ("chunk", {"chunk": 0}),
        ("chunk", {"chunk": True}),
        ("attention", {"attention": "sparse"}),
        ("heads", {"scoring": Scoring(heads=(4,))}),
        ("keep", {"keep": 3, "protect": (2, 2)}),
        ("keep", {"keep": 0}),
        ("layer", {"layer": 4}),
        ("input_ids", {"input_ids": torch.full((1, 5), 97)}),
        ("attention_mask", {"attention_mask": torch.zeros(1, 20)}),
    ],
)
def test_bad_settings_are_refused_before_any_work(llama, field, change):
    how = {"input_ids": ids_of(1, 20), "layer": 2, "keep": 5, "offload": True, **change}
    handle = llama.get_input_embeddings().register_forward_pre_hook(lambda *args: pytest.fail("work began"))
    try:
        with pytest.raises(SettingError) as error:
            select_chunked(llama, **how)
    finally:
        handle.remove()
    assert error.value.args[0].startswith(field)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [{"sinks": -1}, {"window": 0}, {"dense_tail": 0}, {"sinks": True}])
def test_bad_patterns_are_refused(bad):
    with pytest.raises(SettingError, match=f"^{next(iter(bad))}"):
        SinksAndWindow(**bad)


def test_layers_built_otherwise_are_refused_by_name(monkeypatch):
    ids = ids_of(1, 20)
    more = build("llama")
    more.model.layers[1].adapter = torch.nn.Linear(2, 2)
    inner = build("llama")
    inner.model.layers[1].self_attn.sink_gate = torch.nn.Linear(2, 2)
    both = build("llama")
    both.model.layers[1].self_attn.is_causal = False
    spread = build("llama")
    spread.model.layers[1].mlp.to("meta")
    others = {name: of for name, of in chunked.LAYERS.items() if name != "qwen3"}
    monkeypatch.setattr(chunked, "LAYERS", others)  # taken out and put back it would stand last, for digests too
    for model, says in (
        (more, "adapter"),
        (inner, "sink_gate"),
        (both, "both directions"),
        (spread, "cpu, meta"),
        (build("qwen3"), "qwen3"),
    ):
        with pytest.raises(SettingError, match=says):
            select_chunked(model, ids, layer=2, keep=5)
    select_chunked(more, ids, layer=0, keep=5)  # what is wrong comes later than the filter


def test_weights_in_containers_are_not_offloaded(monkeypatch):
    class Packed(torch.Tensor):
        pass

    model = build("llama")
    Away(monkeypatch)
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().as_subclass(Packed))
    before = state_of(model)
    with pytest.raises(SettingError, match=r"^offload"):
        select_chunked(model, ids_of(1, 20), layer=2, keep=5, offload=True)
    assert_same(before, state_of(model))
    select_chunked(model, ids_of(1, 20), layer=2, keep=5)


# --- what the loop would leave out is refused ------------------------------------------------------------------------


def own_forward(model):
    attn = model.model.layers[1].self_attn
    attn.forward = types.MethodType(type(attn).forward, attn)


def own_class(model):
    attn = model.model.layers[1].self_attn
    attn.__class__ = type("Mine", (type(attn),), {"__module__": "mine"})


def own_hook(model):
    model.model.layers[2].self_attn.register_forward_hook(lambda m, args, out: out)


@pytest.mark.parametrize(
    "change, said",
    [(own_forward, "a replaced forward"), (own_class, "the attention Mine"), (own_hook, "hooks on its attention")],
)
def test_attention_that_is_not_the_librarys_own_is_refused(change, said):
    model = build("llama")
    change(model)
    with pytest.raises(SettingError, match=f"{said}.*use select"):
        select_chunked(model, ids_of(1, 20), layer=2, keep=4)
    assert select(model, ids_of(1, 20), layer=2, keep=4).kept == (4,)


def test_autocast_is_refused(llama):
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(SettingError, match="autocast = on"):
        select_chunked(llama, ids_of(1, 20), layer=2, keep=4)
