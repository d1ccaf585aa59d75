"""What statements of gemfilter predict, and their rivals, against numbers worked out by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from featlearn.core import Key
from featlearn.methods.gemfilter import RAW, select
from featlearn.works.gemfilter.claims import (
    algorithm,
    attention,
    complexity,
    eviction,
    figures,
    measured,
    memory,
    tables,
)
from featlearn.works.gemfilter.setup import Asked, decoder

NOTHING = Asked(None, torch.zeros(1, 1))


def check(statements, numbers):
    """value and rival of the statements that are named."""
    said = {s.name: s for s in statements}
    for name, (value, rival) in numbers.items():
        np.testing.assert_allclose(said[name].value, value, rtol=1e-7, err_msg=name)
        if rival is not None:
            np.testing.assert_allclose(said[name].rival, rival, rtol=1e-7, err_msg=f"rival of {name}")


# multiply-adds -------------------------------------------------------------------------------------------------------


def test_products_of_a_prompt():
    """6 layers, 4 heads in 2 groups, 8 wide; prompts of 64, 128, 256 and 512."""
    numbers = {
        "attention of a standard prompt": (
            [1572864, 6291456, 25165824, 100663296],
            [786432, 3145728, 12582912, 50331648],
        ),
        "attention of pass one": ([524288, 2097152, 8388608, 33554432], [786432, 3145728, 12582912, 50331648]),
        "score of pass one": ([1024, 2048, 4096, 8192], [2048, 4096, 8192, 16384]),
    }
    check(complexity.says_prompt((None, [])), numbers)


def test_products_of_generated_tokens():
    """2 layers of 32, so 128 for a token and an entry: after 128 tokens 129 of these, then 130; k is 16, 32 and 64."""
    numbers = {
        "standard, t = 1, 4, 12": ([16512, 66816, 206592], [16384, 65536, 196608]),
        "cache of k (SnapKV, H2O), k = 16, 32, 64": ([14976, 27264, 51840], [12288, 24576, 49152]),
        "GemFilter in all: pass one, T_J again, its tokens": (
            [1048576 + 32768 + 14976, 1048576 + 131072 + 27264, 1048576 + 524288 + 51840],
            [1063552, 1075840, 1100416],
        ),
        "attention of a token: n over k = 16": (129 / 17, 4.0),
    }
    check(complexity.says_generation((None, torch.empty(0))), numbers)


def test_growth_of_the_second_prompt_and_of_other_operations():
    growth = np.log((1 + 4096 / 405) / (1 + 256 / 117)) / np.log(4)
    check(
        complexity.says_same((None, torch.empty(0))), {complexity.GROWTH: (growth, 0.0), "the same, t = k": (2, None)}
    )
    name = "exponent in the width of the other operations"
    numbers = {f"{name}, as reported": (1, 2), name: (2, 1), "exponent in n of the other operations": (1, 2)}
    check(complexity.says_other(([], [])), numbers)
    assert complexity.exponent_of(np.array([1.0, 10.0, 100.0]), np.array([3.0, 300.0, 30000.0])) == pytest.approx(2)


# bytes ---------------------------------------------------------------------------------------------------------------


def test_bytes_of_tiny_models():
    """128 bytes for a token and a layer (2 groups, 8 wide, keys and values in float32); 96 tokens, of which 24 stay."""
    numbers = {
        "cache of a standard prompt, m = 2, 4, 6": ([24576, 49152, 73728], [49152, 98304, 147456]),
        "growth of the peak a layer: standard": ([12288] * 2, [6144] * 2),
        "growth of the peak a layer: pass one": ([0] * 3, [12288] * 3),
        "left behind by pass one beside the scores": ([288] * 4, [12576] * 4),
        "cache after GemFilter's reply": (22272, 77568),
    }
    check(memory.says_memory(([], torch.empty(0))), numbers)
    name = "exponent in n of the cache of a standard prompt"
    check(memory.says_as_reported((None, [])), {f"{name}, as reported": (0, 1), name: (1, 0)})


def test_bytes_of_the_shape_of_llama():
    """218,112,000 weights a layer in two bytes each; 4096 bytes for a token and a layer."""
    layer, gib = 436224000, 2**30
    standard, snap, ours = 32 * layer + 17179869184, 32 * layer + 671088640, 13 * layer + 536870912
    wide = [32 * layer + 68719476736, 32 * layer + 2684354560, 13 * layer + 2147483648]
    early, late = 1 - (32 * layer + 536870912) / snap, 1 - ours / snap
    numbers = {
        "GiB of a layer's weights": (layer / gib, (layer - 16777216) / gib),
        "GiB of the prompt: standard, SnapKV, GemFilter": (
            np.array([standard, snap, ours]) / gib,
            np.array(wide) / gib,
        ),
        "share saved against SnapKV with all layers resident": (early, late),
        "generation memory over m h d: SnapKV and GemFilter, less w / (h d)": (4096, 2048),
        "SnapKV, GiB of the prompt less those of generation": (0, -1),
        "GemFilter, GiB of the prompt less those of generation, n = 2^23": (0, -1),
        "reported savings of memory: SnapKV, standard": ([late, 1 - ours / standard], None),
    }
    check(memory.says_llama(None), numbers)
    name = "prompt memory of standard attention over that of SnapKV"
    reported, corrected = (n / (32 * layer + 536870912) for n in (32 * layer + 131072, standard))
    assert (reported, corrected) == pytest.approx((0.96297, 2.14811), abs=1e-5)
    check(memory.says_case(None), {f"{name}, as reported": (reported, corrected), name: (corrected, reported)})


# figures and tables --------------------------------------------------------------------------------------------------


def test_needle_scores_and_compression():
    check(figures.says_compression(None), {"tokens of Figure 9.1 over those kept": (1000, 128)})
    numbers = {
        "score of eight replies": (
            np.array([11, 11, 9, 10, 3, 4, 2, 4]) / 12,
            [1, 1, 0.818182818, 0.909091909, 0.272728273, 0.363637364, 0.181819182, 0.363637364],
        ),
        "largest score that a reply can have": (11 / 12, 1),
        "reported averages, Figures G.1 to G.4": (11 / 12, None),
        "reported averages of the middle and the largest row": (4 / 12, None),
        "reported average of two runs less one run": (0.001, 0),
    }
    check(figures.says_score(None), numbers)


def test_distances_to_a_needle_at_512_to_531():
    sets = np.array([[500, 505], [540, 600], [520, 700]])
    missed = math.comb(768, 20) / math.comb(1024, 20)  # all 20 among the 768 that are left out
    numbers = {
        "distance of random tokens to the needle": ([7, 9, 0], [7, 28, 8]),
        "share of the needle kept by random tokens": ([0, 0, 0.05], [0, 0, 1]),
        "share of draws at distance 0": (1 - missed, 0.25),
    }
    check(figures.says_distance(sets), numbers)


def test_orders_of_the_tables_and_their_layers():
    settings = tables.nine_two(Key("unused"))
    assert [f"layer-{i}" for i in tables.LAYERS] == list(settings[0])
    numbers = {
        "filter layer with the best average": (13, 14),
        "steps up to layer 13": (0.01, 0),
        "steps down from layer 13": (0.01, 0),
        "range of the averages of layers 13, 14, 19, 25": (1, 5),
    }
    check(tables.says_layers(settings), numbers)


# rows ----------------------------------------------------------------------------------------------------------------


def test_thresholds_on_runs_of_a_real_model():
    numbers = {
        measured.BY_LAYER: (90, 25),
        measured.AT_LAYER: (90, 25),
        measured.FIRST: (18, 30),
        measured.HALVES: (2, 15),
        measured.ENDS: (10, 0),
        measured.NEXT: (-5, -10),
    }
    check(measured.says_layers(None), numbers)
    numbers = {
        "MiB of the cache of GemFilter, SnapKV and the full prompt, 4096 tokens": (
            [11.25, 11.25, 180],
            [33.75, 33.75, 540],
        ),
        "seconds a token, 4096 over 512 tokens": (1.25, 2),
        "the same, full cache": (1.25, 1),
    }
    check(measured.says_cost(None), numbers)


# rivals that need scores ---------------------------------------------------------------------------------------------


def test_attention_of_two_tokens():
    """Products 0 and 2 log 3 in four dimensions: masses 1 and 3, without the root 1 and 9."""
    q, k, v = (torch.zeros(2, 4, dtype=torch.float64) for _ in range(3))
    q[1, 0], k[1, 0], v[:, 0] = 2 * np.log(3), 1, torch.tensor([4, 8])
    numbers = {
        "causal attention": ([[4, 0, 0, 0], [7, 0, 0, 0]], [[2, 0, 0, 0], [7, 0, 0, 0]]),
        "row n of the definition to the letter": ([7, 0, 0, 0], [7.6, 0, 0, 0]),
    }
    check(attention.says_attention((q, k, v)), numbers)


def test_states_and_logits_of_layers(monkeypatch):
    """State i of two tokens is i and i + 0.1; a norm adds a half, the last map doubles."""
    states = [np.array([[i], [i + 0.1]]) for i in range(9)]
    block = SimpleNamespace(input_layernorm=None)
    decoder = SimpleNamespace(layers=[block] * 8)
    model = SimpleNamespace(get_decoder=lambda: decoder, lm_head=SimpleNamespace(weight=None))
    stub = SimpleNamespace(
        states=lambda model, ids: states,
        array=lambda weight: np.array([[2.0]]),
        normed=lambda x, module: x + 0.5,
        logits=lambda model, ids: np.array([[17.0], [17.2]]),
    )
    monkeypatch.setattr(attention, "literal", stub)
    numbers = {
        "F_{1:r}(T): hidden states after r layers": ([[5], [5.1]], [[6], [6.1]]),
        "logits of F_{1:m}": ([[17], [17.2]], [[16], [16.2]]),
        "what the filter layer reads": ([[5.5], [5.6]], [[4.5], [4.6]]),
        "E(T)": ([[0], [0.1]], [[0.1], [0]]),
    }
    check(attention.says_layers(Asked(model, torch.zeros(1, 2))), numbers)


def test_pooling_of_six_scores():
    scores = torch.tensor([[1, 5, 2, -3, 4, 0]], dtype=torch.float64)
    numbers = {
        "pooled sum over heads": ([1.6, 1, 1.8, 1.6, 0.6, 0.2], [5, 5, 5, 5, 4, 4]),
        "pooled scores of 1": ([0.6, 0.8, 1, 1, 0.8, 0.6], [1] * 6),
        "tokens kept of equal scores of -1, k = 4": ([0, 1, 4, 5], [0, 1, 2, 3]),
    }
    check(attention.says_pooling(scores), numbers)


@pytest.fixture
def places(monkeypatch):
    """Scores name their layer and whether they were turned; places 3, 5, 8 stay; a short prompt is its own reply."""
    stub = SimpleNamespace(
        at_filter=lambda model, ids, layer, rotary=True: (layer, rotary),
        raw=lambda layer, rotary: np.array([layer, rotary, -4.0]),
        pooled=lambda scores, width: scores,
        chosen=lambda scores, k: np.array([3, 5, 8]),
        greedy=lambda model, ids, t: np.ravel(ids).tolist() if len(np.ravel(ids)) < 4 else [0, 1, 2],
    )
    monkeypatch.setattr(algorithm, "literal", stub)
    return stub


def test_selections_name_their_layer(places):
    places.chosen = lambda scores, k: scores[:2]
    name = "tokens kept, in order"
    numbers = {
        name: ([[2, 1]], [[2, 0]]),
        f"{name}: layer r": ([[2, 1]], [[3, 1]]),
        "distinct tokens kept for k = 1, 7, n - 1, n, n + 50, and 5.1 % of 120": (
            [1, 7, 119, 120, 120, 7],
            [1, 7, 119, 120, 170, 6],
        ),
    }
    check(algorithm.says_selection((NOTHING,)), numbers)


def test_second_passes_and_positions(places):
    numbers = {
        "(2) reply for k >= n": ([0, 1, 2], [103, 105, 108]),
        "(3) reply to T_J": ([103, 105, 108], [108, 105, 103]),
        "(7) times that each layer finishes in pass one": ([1, 1, 0, 0, 0], [1, 1, 1, 0, 0]),
        "(8) tokens kept of a padded batch": ([[3, 5, 8]] * 3, [[53, 55, 58], [3, 5, 8], [28, 30, 33]]),
        "(8) scores of a padded batch, over the largest of each prompt": (
            [0.5, 0.25, -1] * 3,
            [0.5 / 0.6, 0.25 / 0.8, -1] * 3,
        ),
        "(8) replies of a padded batch": (
            [[3, 5, 8], [103, 105, 108], [203, 205, 208]],
            [[103, 105, 108]] * 3,
        ),
        "(8) how many of each prompt stay, k = 80": ([70, 80, 80], [70, 120, 95]),
    }
    prompts = [torch.arange(n)[None] + first for n, first in ((70, 0), (120, 100), (95, 200))]
    check(algorithm.says_second_pass((None, prompts)), numbers)
    numbers = {
        "largest positions of pass one, then of pass two and its reply": (
            [119, *range(15, 23)],
            [119, 119, *range(120, 127)],
        ),
        "longest prompt that a context of 64 takes": (64, 80),
    }
    check(algorithm.says_positions((NOTHING, NOTHING)), numbers)


def test_half_precision_loses_one_of_2049(monkeypatch):
    """The last rows of four queries are 1 and the rows before 0; the last of 20 keys is 2049 in one group.

    Two heads make 4096 in half precision, where 4096 / 5 is 819.
    """
    q, k = np.zeros((4, 20, 1)), np.zeros((2, 20, 1))
    q[:, -1], k[0, -1] = 1, 2049
    monkeypatch.setattr(algorithm.literal, "at_filter", lambda model, ids, layer: (q, k))
    monkeypatch.setattr(algorithm.literal, "greedy", lambda model, ids, t, without=(): [5 if without else 7])
    asked = Asked(None, torch.arange(20)[None])
    numbers = {
        "tokens for max_new_tokens = 8": (8, 9),
        "tokens until the second of two end tokens": (4, 8),
        "reply with suppress_tokens": ([5], [7]),
        "after an exception in pass one: hooks left, layers, training mode": ([0, 5, 1], [1, 2, 0]),
        "tokens kept after the exception": ([*range(13), 17, 18, 19], range(16)),
        "scores over the largest": ([0] * 17 + [0.2] * 3, [0] * 17 + [819 / 4098] * 3),
    }
    check(algorithm.says_behaviour(algorithm.Stopping(asked, (2, 3), 3)), numbers)


def test_entries_of_rivals(monkeypatch):
    """3 layers, 2 groups, 270 tokens of which 48 stay, in double precision; a reply is its prompt."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(eviction, "attention_of", lambda one: list(rng.random((3, 2, 270, 270))))
    monkeypatch.setattr(
        eviction.literal, "greedy", lambda model, ids, t: [*np.ravel(ids)[-48:].tolist(), len(np.ravel(ids))]
    )
    numbers = {
        "streaming: entries kept": (
            np.tile([0, 1, 2, 3, *range(226, 270)], (3, 2, 1)),
            np.tile([0, 1, 2, *range(225, 270)], (3, 2, 1)),
        ),
        "entries of SnapKV for k = 40, 48, n, n + 9": ([40, 48, 270, 270], [72, 80, 272, 273]),
        "bytes of SnapKV's cache": (36864, 73728),
        "reply of SnapKV for k >= n": ([*range(222, 270), 270], [*range(222, 270), 48]),
        "positions of SnapKV's reply": (range(270, 275), range(48, 53)),
        "index sets of SnapKV": (6, 1),
        "distinct positions in SnapKV's sets of a layer": (49, 48),
    }
    check(eviction.says_rivals(Asked(None, torch.arange(270)[None])), numbers)


def test_places_in_a_padded_prompt_count_from_its_first_token():
    """The model's own angles hardly show it: turning all places alike leaves every product as it is."""
    pytest.importorskip("transformers", reason="pip install 'featlearn[llm]'")
    model = decoder(Key("model"), 2)
    ids = torch.arange(2, 42).view(2, 20)
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[:, :7], mask[0, 7] = 0, 0  # 12 tokens and 13
    with algorithm.positions(model) as largest:
        select(model, ids, mask, layer=1, keep=4, scoring=RAW)
    assert largest == [12]
