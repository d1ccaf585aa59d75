"""Whole sentences, two layers and a second query: by hand, and against the model's own attention."""

import copy
import dataclasses

import pytest
import torch
from families import build, ids_of
from test_gemfilter import brute_force

from featlearn.core import SettingError
from featlearn.methods.gemfilter import RAW, SOFTMAX, Scoring, layout_of, select
from featlearn.methods.gemfilter.alternatives import added, second_query, sentences_of, whole_sentences
from featlearn.methods.gemfilter.selecting import observe


class Pieces:
    """A tokenizer whose tokens are the pieces it is given."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def decode(self, ids):
        return "".join(self.pieces[i] for i in ids)


@pytest.mark.parametrize(
    "pieces, numbers",
    [
        (("It", " rains", ".", " We", " go", "."), [0, 0, 0, 1, 1, 1]),
        (("Why", "?", "\n", "\n", "Go", "!", " ", "Now"), [0, 0, 0, 0, 1, 1, 1, 2]),  # space goes with what it ends
        (("a", ". ", "b"), [0, 0, 1]),
        (("3", ".", "5", " m", ".", " B"), [0, 0, 0, 0, 0, 1]),  # no space, no end
        (("He", " said", ' "', "No", '."', " Then"), [0, 0, 0, 0, 0, 1]),
        (("Heading", "\n", "text"), [0, 0, 1]),
        (("", "a", "", ".", " b"), [0, 0, 0, 0, 1]),  # tokens that show nothing belong before
        (("one", " two"), [0, 0]),
    ],
)
def test_sentences_by_hand(pieces, numbers):
    assert sentences_of(Pieces(*pieces), torch.arange(len(pieces))).tolist() == numbers


#         0    1    2    3    4    5    6    7    8    9
SCORES = [0.5, 0.2, 0.1, 0.9, 0.0, 0.3, 0.6, 0.3, 0.6, 0.1]
NUMBERS = [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]
"""Best tokens: 0.5, 0.9, 0.6, 0.6 (the earlier first)."""


@pytest.mark.parametrize(
    "keep, protected, kept",
    [
        (3, (), [2, 3, 4]),  # the whole sentence, though its others are the lowest of all
        (2, (), [2, 3]),  # the last one that fits in part: its best, 3 and 2
        (6, (), [2, 3, 4, 5, 6, 7]),  # of equal sentences the earlier
        (4, (), [2, 3, 4, 6]),
        (5, (), [2, 3, 4, 5, 6]),  # of equal tokens the earlier
        (8, (), [2, 3, 4, 5, 6, 7, 8, 9]),
        (9, (), [0, 2, 3, 4, 5, 6, 7, 8, 9]),
        (99, (), list(range(10))),
        (2, (9, 0), [0, 9]),
        (5, (9, 0), [0, 2, 3, 4, 9]),
        (4, (3,), [3, 5, 6, 7]),  # what is protected does not make its sentence a good one
        (3, (1, 4, 7, 9), [1, 4, 7]),
    ],
)
def test_whole_sentences_by_hand(keep, protected, kept):
    mask = torch.zeros(10, dtype=torch.bool)
    mask[list(protected)] = True
    found = whole_sentences(torch.tensor(SCORES), torch.tensor(NUMBERS), mask, keep)
    assert found.tolist() == kept


def test_sentences_of_one_token_are_the_best_tokens():
    model, ids = build("llama"), ids_of(1, 40)
    chosen = select(model, ids, layer=2, keep=9, protect=(2, 3))
    found = whole_sentences(chosen.scores[0], torch.arange(40), chosen.protected[0], 9)
    assert found.tolist() == chosen.indices[0].tolist()


def test_senseless_sentences_are_refused():
    number, mask = torch.arange(2), torch.zeros(2, dtype=torch.bool)
    with pytest.raises(SettingError, match="keep = 0 is not allowed: at least 1"):
        whole_sentences(torch.ones(2), number, mask, 0)
    with pytest.raises(SettingError, match="scores = with nan"):
        whole_sentences(torch.tensor([1.0, torch.nan]), number, mask, 1)


def test_added_scores_by_hand():
    one = torch.tensor([[1.0, 3.0, 4.0], [2.0, 2.0, -torch.inf]])
    two = torch.tensor([[0.5, 0.25, 0.25], [30.0, 10.0, -torch.inf]])
    want = torch.tensor([[0.625, 0.625, 0.75], [1.25, 0.75, -torch.inf]])
    assert torch.allclose(added([one, two]), want)
    assert torch.allclose(added([7 * one, two]), want)  # no part counts for more by its scale
    for wrong in (torch.tensor([[1.0, -1.0]]), torch.zeros(1, 2)):
        with pytest.raises(SettingError, match=r"scores = below 0, or all 0 .* score with softmax=True"):
            added([wrong, torch.ones(1, 2)])


def queried(model, ids, layer, scoring):
    """The second query at all but the last token of a prompt, by that one."""
    layout, mask = layout_of(model), torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        attn, hidden, (cos, sin) = observe(layout, model, ids, mask, layer)
        prompt, token = (hidden[:, :-1], (cos[:, :-1], sin[:, :-1])), (hidden[:, -1:], (cos[:, -1:], sin[:, -1:]))
        return second_query(layout, attn, prompt, token, scoring)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gemma2"])
def test_a_second_query_is_the_attention_of_one_query(family):
    model, ids = copy.deepcopy(build(family)).double(), ids_of(1, 50)
    model.set_attn_implementation("eager")
    layer = layout_of(model).global_layers(model)[-1]
    for scoring in (SOFTMAX, Scoring(rows=16, softmax=True, pool=7), RAW):
        found = queried(model, ids, layer, scoring)
        one = dataclasses.replace(scoring, rows=1)
        assert torch.allclose(found, brute_force(model, ids, layer, one)[:, :-1], atol=1e-10, rtol=0)
        assert torch.allclose(found, select(model, ids, layer=layer, keep=5, scoring=one).scores[:, :-1].double())
