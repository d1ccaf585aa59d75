"""Many requests, one model: a call acts only on its own forward, whatever else uses the model at the same time."""

import gc
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from families import FAMILIES, assert_same, build, ids_of, state_of

from featlearn.core import SettingError
from featlearn.methods import kv_eviction
from featlearn.methods.gemfilter import RAW, SOFTMAX, Scoring, generate, layout_of, select, select_chunked
from featlearn.methods.gemfilter.selecting import observe
from featlearn.methods.gemfilter.views import undisturbed, watched

GREEDY = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0}
LENGTHS = (40, 61)
VOTES = Scoring(rows=4, softmax=True, pool=3, over_heads="max")


@pytest.fixture(autouse=True)
def often_in_turns():
    """Threads take turns a thousand times as often as usual, so that requests do overlap."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def model():
    return build("llama")


def answer_of(model, kind, ids):
    """What a request of one kind returns, as plain tensors."""
    if kind == "select":
        chosen = select(model, ids, layer=2, keep=9, scoring=VOTES)
        return chosen.indices[0], chosen.scores
    if kind == "generate":
        return (generate(model, ids, layer=2, keep=12, scoring=RAW, **GREEDY).sequences,)
    if kind == "chunked":
        chosen = select_chunked(model, ids, layer=3, keep=9, scoring=VOTES, chunk=16)
        return chosen.indices[0], chosen.scores
    if kind == "plain forward":
        with torch.no_grad():
            return (model(ids, use_cache=False).logits,)
    if kind == "cache":
        filled = kv_eviction.prefill(model, ids, want=("snapkv", "h2o"))
        cache = kv_eviction.evict(filled, "snapkv", 36)
        return kv_eviction.generate(model, filled, cache, max_new_tokens=3), filled.scores["h2o"][3]
    return (model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY),)


KINDS = ("select", "generate", "plain", "chunked", "plain forward", "cache")


def requests(count):
    return [(KINDS[i % len(KINDS)], ids_of(1, LENGTHS[(i // len(KINDS)) % 2], seed=i)) for i in range(count)]


def pooled(model, asked, workers):
    start = threading.Barrier(workers)
    with ThreadPoolExecutor(workers, initializer=start.wait) as pool:
        return list(pool.map(lambda request: answer_of(model, *request), asked))


def wrong(found, expected):
    return sum(
        not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        for one, other in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("family, count", [("llama", 500), ("gemma3_text", 60)])
def test_mixed_requests_in_a_pool_of_eight_are_those_of_one_after_the_other(family, count):
    model, asked = build(family), requests(count)
    serial = [answer_of(model, *request) for request in asked]
    before = state_of(model)
    assert wrong(pooled(model, asked, 8), serial) == 0
    assert_same(before, state_of(model))


@pytest.mark.parametrize("kinds", [("select",), ("select", "plain"), ("generate", "plain forward"), ("cache", "plain")])
def test_requests_of_equal_length_do_not_get_each_others_answers(model, kinds):
    asked = [(kinds[i % len(kinds)], ids_of(1, 50, seed=i)) for i in range(60)]
    serial = [answer_of(model, *request) for request in asked]
    assert wrong(pooled(model, asked, 6), serial) == 0


def test_a_forward_inside_a_users_hook_is_not_seen(model):
    """The hook of a user runs the same model on another prompt while a request is under way, and gets its answer."""
    inner, outer, inside, busy = ids_of(1, 30, seed=7), ids_of(1, 30, seed=8), [], []
    plain, chosen = answer_of(model, "plain forward", inner)[0], answer_of(model, "select", outer)[0]

    def nested(*_):
        if not busy:
            busy.append(True)
            inside.append((answer_of(model, "plain forward", inner)[0], answer_of(model, "select", inner)[0]))
            busy.clear()

    own = answer_of(model, "select", inner)[0]
    for module in (model.model.layers[1], model.model.layers[2].input_layernorm, model.model.embed_tokens):
        inside.clear()
        handle = module.register_forward_hook(nested)
        found = answer_of(model, "select", outer)[0]
        handle.remove()
        assert torch.equal(found, chosen)
        assert torch.equal(inside[0][0], plain)
        assert torch.equal(inside[0][1], own)


def test_hooks_of_the_user_run_in_every_pass_and_stay(model):
    calls = []
    layer = model.model.layers[2]
    layer.self_attn.register_forward_pre_hook(lambda m, args: calls.append(type(m).__name__))
    layer.input_layernorm.register_forward_hook(lambda m, args, out: calls.append("norm"))
    answer_of(model, "select", ids_of(1, 40))
    assert calls == ["norm", "LlamaAttention"]
    assert len(layer.self_attn._forward_pre_hooks) == 1


def test_hooks_see_the_modules_they_were_registered_on(model):
    """A user finds the name of a module by its identity, and leaves counts on it."""
    names, seen = {m: name for name, m in model.named_modules()}, []

    def look(module, args, *out):
        module.calls = getattr(module, "calls", 0) + 1
        seen.append(names[module])

    for module in (model.model.layers[1], model.model.layers[1].mlp, model.model.layers[2].self_attn, model.model):
        module.register_forward_pre_hook(look)
    model.model.layers[2].input_layernorm.register_forward_hook(look)
    model.train()
    answer_of(model, "select", ids_of(1, 40))
    assert seen == [
        "model",
        "model.layers.1",
        "model.layers.1.mlp",
        "model.layers.2.input_layernorm",
        "model.layers.2.self_attn",
    ]
    assert model.model.layers[2].self_attn.calls == 1
    seen.clear()
    answer_of(model, "cache", ids_of(1, 40))
    assert seen.count("model.layers.2.self_attn") == seen.count("model.layers.1.mlp") == 3  # the prompt and two tokens


@pytest.mark.parametrize("kind", ["select", "cache"])
def test_hooks_that_change_outputs_change_them_in_every_pass(model, kind):
    plain = answer_of(model, kind, ids_of(1, 40))
    for module in (model.model.layers[0].mlp, model.model.norm):
        module.register_forward_hook(lambda m, args, out: out * 1.5)
    changed = answer_of(model, kind, ids_of(1, 40))
    trained = answer_of(model.train(), kind, ids_of(1, 40))
    assert wrong([changed], [plain]) == 1
    assert wrong([trained], [changed]) == 0


def test_hooks_on_compiled_wrappers_run():
    torch._dynamo.reset()
    model, calls = build("llama"), []
    expected = answer_of(model, "cache", ids_of(1, 40))
    for i in (1, 3):
        layer = model.model.layers[i] = torch.compile(model.model.layers[i], backend="eager")
        layer.register_forward_pre_hook(lambda m, args, i=i: calls.append(i))
        layer.register_forward_hook(lambda m, args, kwargs, out: calls.append("out"), with_kwargs=True)
    found = answer_of(model, "cache", ids_of(1, 40))
    torch._dynamo.reset()
    assert calls == [1, "out", 3, "out"] * 3  # the prompt and two tokens
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected, strict=True))


def test_replaced_projections_count_in_training_mode_too(model):
    """An adapter as a method bound to the projection."""
    attn, ids = model.model.layers[2].self_attn, ids_of(1, 40)
    plain = answer_of(model, "select", ids)

    def adapted(module, x):
        return torch.nn.functional.linear(x, module.weight.roll(1, 0))

    attn.k_proj.forward = types.MethodType(adapted, attn.k_proj)
    own, trained = answer_of(model, "select", ids), answer_of(model.train(), "select", ids)
    assert wrong([own], [plain]) == 1
    assert wrong([trained], [own]) == 0


def longrope():
    parameters = {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "original_max_position_embeddings": 32,
        "short_factor": [1.0, 1.0],
        "long_factor": [3.0, 3.0],
        "partial_rotary_factor": 0.5,
        "factor": 4.0,
    }
    return build("phi3", rope_parameters=parameters, original_max_position_embeddings=32)


@pytest.mark.parametrize("kind", ["select", "chunked"])
def test_frequencies_that_follow_the_length_of_a_prompt_are_those_of_the_call(kind):
    model = longrope()
    before = model.model.rotary_emb.inv_freq.clone()
    short = answer_of(model, kind, ids_of(1, 30))
    long = answer_of(model, kind, ids_of(1, 60))
    assert torch.equal(model.model.rotary_emb.inv_freq, before)
    assert not model.model.rotary_emb.inv_freq.is_inference()
    assert wrong([answer_of(model, kind, ids_of(1, 30))], [short]) == 0
    with torch.no_grad():
        model(ids_of(1, 60))  # Transformers' own forward leaves its frequencies behind
    assert not torch.equal(model.model.rotary_emb.inv_freq, before)
    assert wrong([answer_of(model, kind, ids_of(1, 60))], [long]) == 0


# --- modes -----------------------------------------------------------------------------------------------------------


def noisy():
    """A model whose dropout would show."""
    model = build("phi3", attn_pdrop=0.5, resid_pdrop=0.5, attention_dropout=0.5)
    model.train()
    model.model.layers[0].mlp.eval()  # modes of a user's own
    return model


@pytest.mark.parametrize("kind", ["select", "chunked", "cache"])
def test_a_model_in_training_mode_is_read_without_dropout_and_never_leaves_it(kind):
    model, ids = noisy(), ids_of(1, 40)
    modes = [m.training for m in model.modules()]
    expected = answer_of(build("phi3"), kind, ids)
    seen, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            seen.add(tuple(m.training for m in model.modules()))

    watcher = threading.Thread(target=look)
    watcher.start()
    found = [answer_of(model, kind, ids) for _ in range(5)]
    stop.set()
    watcher.join()
    assert all(wrong([one], [expected]) == 0 for one in found)
    assert seen == {tuple(modes)}


def test_a_training_step_beside_requests_keeps_its_dropout_and_its_gradients():
    """The user's loop trains while others select: its modules are in training mode at every layer it runs."""
    model, ids = noisy(), ids_of(1, 40)
    modes = []
    model.model.layers[3].mlp.register_forward_pre_hook(
        lambda m, args: modes.append((m.training, torch.is_grad_enabled()))
    )
    done = threading.Event()

    def ask():
        while not done.is_set():
            answer_of(model, "select", ids)  # ends before layer 3

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        model(ids, labels=ids).loss.backward()
    done.set()
    for thread in threads:
        thread.join()
    assert modes == [(True, True)] * 10
    assert all(p.grad is not None and not p.grad.is_inference() for p in model.parameters())


# --- compiled models -------------------------------------------------------------------------------------------------


def compiled_model(model):
    return torch.compile(model, backend="eager")


def compiled_in_place(model):
    model.compile(backend="eager")
    return model


def compiled_decoder(model):
    model.model.compile(backend="eager")
    return model


def compiled_forward(model):
    model.forward = torch.compile(model.forward, backend="eager")
    return model


def compiled_layers(model):
    for i in (1, 2):
        model.model.layers[i] = torch.compile(model.model.layers[i], backend="eager")
    return model


def compiled_layer_in_place(model):
    model.model.layers[2].compile(backend="eager")
    return model


def compiled_attention(model):
    model.model.layers[2].self_attn = torch.compile(model.model.layers[2].self_attn, backend="eager")
    return model


COMPILED = (
    compiled_model,
    compiled_in_place,
    compiled_decoder,
    compiled_forward,
    compiled_layers,
    compiled_layer_in_place,
    compiled_attention,
)


@pytest.mark.parametrize("compiled", COMPILED)
def test_compiled_models_and_layers_answer_as_plain_ones(compiled):
    torch._dynamo.reset()
    model, asked = compiled(build("llama")), requests(24)
    expected = [answer_of(build("llama"), *request) for request in asked]
    for request in asked[:6]:
        answer_of(model, *request)  # compiles
    for found in (pooled(model, asked, 3), [answer_of(model, *request) for request in asked]):
        for one, other in zip(found, expected, strict=True):
            assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))
    torch._dynamo.reset()


# --- views -----------------------------------------------------------------------------------------------------------


def test_a_view_shares_all_weights_and_is_the_model_itself_where_nothing_differs(model):
    with undisturbed(model) as own:
        assert own is model
    with watched(layout_of(model), model, [1], lambda *_: None) as seen:
        assert seen is not model
        assert [id(p) for p in seen.parameters()] == [id(p) for p in model.parameters()]
        assert seen.model.layers[0] is model.model.layers[0]
        assert seen.model.layers[1] is not model.model.layers[1]


def test_forwards_bound_to_a_module_move_with_it(model):
    """As accelerate leaves them: a partial of the module, and the method it replaced."""
    layer, calls = model.model.layers[2], []

    def new_forward(module, *args, **kwargs):
        calls.append(module)
        return module._old_forward(*args, **kwargs)

    expected = answer_of(model, "select", ids_of(1, 40))
    layer._old_forward = layer.forward
    layer.forward = partial(new_forward, layer)
    found = answer_of(model, "select", ids_of(1, 40))
    assert wrong([found], [expected]) == 0
    assert len(calls) == 1


def test_a_forward_that_cannot_move_is_refused(model):
    old = model.model.layers[2].forward
    model.model.layers[2].forward = lambda *args, **kwargs: old(*args, **kwargs)
    with pytest.raises(SettingError, match=r"LlamaDecoderLayer with a replaced forward.*undo the replacement"):
        answer_of(model, "select", ids_of(1, 40))


def test_watchers_may_be_nested(model):
    order, ids = [], ids_of(1, 40)
    layout = layout_of(model)
    with (
        watched(layout, model, [1, -2], lambda layer, *_: order.append(("inner", layer))) as inner,
        watched(layout, inner, [2], lambda layer, *_: order.append(("outer", layer))) as outer,
        undisturbed(outer) as own,
    ):
        logits = own(ids, use_cache=False).logits
    assert order == [("inner", 1), ("outer", 2), ("inner", 2)]
    assert torch.equal(logits, model(ids, use_cache=False).logits)


@pytest.mark.parametrize("train", [False, True])
def test_what_a_call_saw_is_freed_with_it_without_a_collection(model, train):
    model.train(train)
    gc.collect()
    gc.disable()
    try:
        before = tensors_of_width(32)
        for _ in range(3):
            chosen = select(model, ids_of(1, 40), layer=2, keep=9, scoring=VOTES)
            observe(layout_of(model), model, ids_of(1, 40), torch.ones(1, 40, dtype=torch.bool), 2)
        assert tensors_of_width(32) == before
        assert chosen.kept == (9,)
    finally:
        gc.enable()


def tensors_of_width(width):
    """Tensors (1, n, width) that are alive: hidden states."""
    return sum(issubclass(type(o), torch.Tensor) and o.ndim == 3 and o.shape[-1] == width for o in gc.get_objects())


@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_that_a_config_asks_for_leave_no_hooks(family):
    model = build(family)
    model.config.output_hidden_states = True
    model.set_attn_implementation("eager")
    model.config.output_attentions = True
    before = state_of(model)
    for _ in range(2):
        select(model, ids_of(1, 20), layer=3, keep=5, scoring=SOFTMAX)
        kv_eviction.prefill(model, ids_of(1, 20), want=("h2o",))
    assert_same(before, state_of(model))
