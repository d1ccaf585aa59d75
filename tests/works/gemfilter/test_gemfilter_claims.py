"""GemFilter: a method that does something else, or numbers that say something else, change a claim's outcome."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from featlearn.core import Key
from featlearn.errors import DataUnavailable
from featlearn.lab.claim import verdict_of
from featlearn.methods import kv_eviction
from featlearn.methods.gemfilter import RAW, SinksAndWindow, generate, select, select_chunked
from featlearn.methods.gemfilter import selecting as ours
from featlearn.works import load_claims
from featlearn.works.gemfilter import setup
from featlearn.works.gemfilter.claims import (
    algorithm,
    attention,
    complexity,
    eviction,
    figures,
    memory,
    shipped,
    tables,
)

pytest.importorskip("transformers", reason="pip install 'featlearn[llm]'")

BY_NAME = {claim.id.removeprefix("gemfilter."): claim for claim in load_claims("gemfilter")}
right_smooth, right_best, right_observe = ours.smooth, ours.best, ours.observe
right_products, right_probabilities = ours.products, ours.probabilities
right_evict, right_prefill = kv_eviction.evict, kv_eviction.prefill
right_overlap, right_table, right_held = figures.overlap, tables.table, memory.held
right_distance, right_bytes = figures.distance, kv_eviction.kv_bytes


def outcomes(name):
    verdict = verdict_of(BY_NAME[name], Key("test"))
    return {f.statement.name: f.outcome for f in verdict.findings}


def test_claims_do_not_use_the_global_generator():
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    outcomes("algorithm2_second_pass")
    assert torch.equal(torch.random.get_rng_state(), state)


def test_without_transformers_the_command_is_named(monkeypatch):
    monkeypatch.setattr(setup.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataUnavailable, match="pip install"):
        outcomes("algorithm2_selection")
    assert set(outcomes("def9_1").values()) == {"confirmed"}


def one_layer_later(model, ids, *rest, layer, **more):
    return select(model, ids, *rest, layer=layer + 1, **more)


def one_token_less(model, ids, *rest, keep, **more):
    return generate(model, ids, *rest, keep=keep - 1, **more)


def one_token_more(model, ids, *rest, max_new_tokens, **more):
    return generate(model, ids, *rest, max_new_tokens=max_new_tokens + 1, **more)


def whole_prompt(model, ids, *rest, keep, **more):
    return generate(model, ids, *rest, keep=ids.shape[1] - 1, **more)


def half_precision(model, ids, *rest, **more):
    found = select(model, ids, *rest, **more)
    return replace(found, scores=found.scores.half().float())


def unsorted(found, mask, protected, counts):
    return tuple(i.flip(0) for i in right_best(found, mask, protected, counts))


def scored(**changes):
    """`select` with a scoring of its own."""

    def wrong(model, ids, *rest, scoring=ours.SOFTMAX, **more):
        return select(model, ids, *rest, scoring=replace(scoring, **changes), **more)

    return wrong


def unprotected(model, ids, *rest, protect, **more):
    return select(model, ids, *rest, **more)


def wider(model, ids, *rest, attention, **more):
    if isinstance(attention, SinksAndWindow):
        attention = replace(attention, window=attention.window + 40)
    return select_chunked(model, ids, *rest, attention=attention, **more)


def sink_lost(model, ids, *rest, attention, **more):
    if isinstance(attention, SinksAndWindow):
        attention = replace(attention, sinks=attention.sinks - 1)
    return select_chunked(model, ids, *rest, attention=attention, **more)


def own_chunk(model, ids, *rest, chunk, **more):
    return select_chunked(model, ids[:, -chunk:].repeat(1, 9)[:, : ids.shape[1]], *rest, chunk=chunk, **more)


def values_of_another_group(*a, **k):
    cache = right_evict(*a, **k)
    for layer in cache.layers:
        layer.values = layer.values.flip(1)
    return cache


def other_numbers(change):
    def table(name, setting=""):
        return {r: {k: change(r, k, v) for k, v in row.items()} for r, row in right_table(name, setting).items()}

    return table


WRONG = {
    "def9_2": (attention, "observe", lambda a, b, c, d, layer: right_observe(a, b, c, d, layer - 1)),
    "algorithm2_groups": (attention, "products", lambda votes, keys, *a: right_products(votes, keys.flip(1), *a)),
    "algorithm2_groups rows": (attention, "products", lambda votes, *a: right_products(votes[:, :, -1:], *a)),
    "algorithm2_groups cap": (
        attention,
        "probabilities",
        lambda v, k, m, s, c, h: right_probabilities(v, k, m, s, 1.0, h),
    ),
    "algorithm2_pooling": (attention, "smooth", lambda f, m, s: right_smooth(f, m, replace(s, pooling="max"))),
    "algorithm2_ranking": (attention, "probabilities", lambda v, k, m, s: -right_probabilities(v, k, m, s)),
    "listing": (attention, "best", unsorted),
    "listing pool": (attention, "smooth", lambda f, m, s: right_smooth(f, m, replace(s, pool=7))),
    "algorithm2_selection": (algorithm, "select", one_layer_later),
    "algorithm2_selection scoring": (algorithm, "RAW", replace(RAW, softmax=True)),
    "algorithm2_second_pass": (algorithm, "generate", one_token_less),
    "algorithm2_second_pass layers": (algorithm, "select", one_layer_later),
    "rope_positions": (algorithm, "generate", whole_prompt),
    "behaviour": (algorithm, "generate", one_token_more),
    "behaviour precision": (algorithm, "select", half_precision),
    "shipped_selection": (shipped, "select", scored(over_heads="sum")),
    "shipped_selection rows": (shipped, "select", scored(rows=15)),
    "shipped_selection pool": (shipped, "select", scored(pool=5)),
    "shipped_selection protection": (shipped, "select", unprotected),
    "shipped_chunked window": (shipped, "select_chunked", wider),
    "shipped_chunked sink": (shipped, "select_chunked", sink_lost),
    "shipped_chunked": (shipped, "select_chunked", own_chunk),
    "time_prompt": (complexity, "select", one_layer_later),
    "time_generation": (complexity, "generate", one_token_less),
    "time_generation_same": (complexity, "fed", lambda model, ids, t: 1e12),
    "speedup": (complexity, "select", one_layer_later),
    "memory": (memory, "kv_bytes", lambda cache: 2 * right_bytes(cache)),
    "memory second pass": (memory, "generate", one_token_less),
    "memory_llama_8b": (memory, "held", lambda layers, *caches: right_held(layers + 1, *caches)),
    "snapkv_baseline": (eviction, "evict", lambda *a, **k: right_evict(*a, **{**k, "pooling": "none"})),
    "snapkv_baseline window": (eviction, "evict", lambda *a, **k: right_evict(*a, **{**k, "window": 31})),
    "snapkv_baseline sinks": (eviction, "evict", lambda *a, **k: right_evict(*a, **{**k, "sinks": 3})),
    "snapkv_baseline values": (eviction, "evict", values_of_another_group),
    "one_run": (eviction, "evict", lambda *a, **k: right_evict(*a, **{**k, "indices": k["indices"].roll(1)})),
    "fig9_4_score": (figures, "overlap", lambda a, b: min(1.0, right_overlap(a, b) * 12 / 11)),
    "fig9_5_distance": (figures, "distance", lambda kept, needle: right_distance(kept, (needle[0], needle[0] + 1))),
    "table_averages": (tables, "averages", lambda rows: np.array([v["musique"] for v in rows.values()])),
    "table9_1_orders": (tables, "table", other_numbers(lambda r, k, v: v - 3.2 * r.startswith("GemFilter"))),
    "table9_1_negligible": (tables, "table", other_numbers(lambda r, k, v: v - 20 * r.startswith("GemFilter"))),
    "table9_2_layers": (tables, "table", other_numbers(lambda r, k, v: v + (r == "layer-14"))),
    "tableG_1_gains": (tables, "table", lambda name, setting="": right_table("table9_1", tables.LLAMA)),
    "tableG_1_comparable": (tables, "table", other_numbers(lambda r, k, v: v - 15 * r.startswith("GemFilter"))),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_method_or_number_contradicts_the_claim(name, monkeypatch):
    module, attribute, wrong = WRONG[name]
    before = outcomes(name.split()[0])
    monkeypatch.setattr(module, attribute, wrong)
    try:
        after = outcomes(name.split()[0])
    except (ValueError, LookupError):  # observations of another shape
        return
    assert any(after[n] == "contradicted" for n in before if before[n] != "contradicted")


TRUE = {
    "time_other_operations": (complexity, "exponent_of", lambda x, y: 1.0),
    "memory_as_reported": (memory, "kv_bytes", lambda cache: 100),
    "case_study_prompt_memory": (memory, "held", lambda layers, *caches: 0.963 if len(caches) == 1 else 1.0),
}


@pytest.mark.parametrize("name", TRUE)
def test_what_is_contradicted_would_be_confirmed_by_other_numbers(name, monkeypatch):
    module, attribute, other = TRUE[name]
    [reported] = [n for n, outcome in outcomes(name).items() if outcome == "contradicted"]
    monkeypatch.setattr(module, attribute, other)
    assert outcomes(name)[reported] == "confirmed"
