"""The meters that the complexity claims read: products and bytes, against counts by hand."""

import pytest
import torch
from torch import nn

from featlearn.core import Key
from featlearn.works.gemfilter.claims.meters import count_bytes, count_products

transformers = pytest.importorskip("transformers", reason="pip install 'featlearn[llm]'")


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_products_are_sorted_by_kind_and_counted_exactly(context):
    linear, biased = nn.Linear(8, 5, bias=False), nn.Linear(5, 3)
    x, q, k = torch.randn(2, 7, 8), torch.randn(1, 4, 7, 8), torch.randn(1, 4, 9, 8)
    with context(), count_products(heads=4) as seen:
        biased(linear(x))
        q @ k.transpose(2, 3)
        torch.einsum("gd,gnd->gn", torch.randn(2, 8), torch.randn(2, 6, 8))
    assert seen.linear == 2 * 7 * 8 * 5 + 2 * 7 * 5 * 3
    assert seen.attention == 4 * 7 * 8 * 9
    assert seen.calls == [(4, 7, 8, 9)]
    assert seen.other == 2 * 8 * 6


def test_fused_attention_is_refused_rather_than_missed():
    x = torch.randn(1, 4, 7, 8)
    with torch.no_grad(), pytest.raises(NotImplementedError, match="eager attention"), count_products():
        nn.functional.scaled_dot_product_attention(x, x, x)


def test_bytes_follow_storages_not_views_or_weights():
    model = nn.Linear(8, 8, bias=False)
    with torch.no_grad(), count_bytes(model) as seen:
        x = torch.ones(10, 8)
        assert seen.now == 320
        view = x.T
        assert seen.now == 320
        y = model(x)
        assert (seen.now, seen.peak) == (640, 640)
        assert model.weight.T.shape == (8, 8)
        del x
        assert seen.now == 640
        del view
        assert (seen.now, seen.peak) == (320, 640)
        del y
    assert (seen.now, seen.peak) == (0, 640)


def test_decoders_depend_on_their_key_alone():
    from featlearn.works.gemfilter.setup import decoder

    one, same, other = (decoder(Key(k), 2) for k in ("a", "a", "b"))
    for p, q, r in zip(one.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)
        assert not torch.equal(p, r)
