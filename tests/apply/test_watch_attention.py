"""A network whose attention is torch's own module is linearised as any other, though fused kernels have no second
derivative and are called where they cannot be seen."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from featlearn import watch
from featlearn.core import Key

KEY = Key("watch attention")


def encoder(**options: object) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    return nn.Sequential(body, nn.Flatten(), nn.Linear(24, 2)).double()


class Own(nn.Module):
    """Attention called with a mask, as causal, and with its weights wanted or not."""

    def __init__(self, causal: bool, weights: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.causal, self.weights = causal, weights

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=x.dtype) if self.causal else None
        out, seen = self.attend(x, x, x, attn_mask=mask, is_causal=self.causal, need_weights=self.weights)
        assert (seen is not None) is self.weights
        return out[:, -1]


def by_differences(net: nn.Module, other: nn.Module, x: Tensor) -> float:
    """||f' - f - J (w' - w)|| / ||f' - f||, the derivative from two runs near the start."""
    start, end = (dict(n.named_parameters()) for n in (net, other))

    def at(t: float) -> Tensor:
        with torch.no_grad():
            return functional_call(net, {k: w + t * (end[k] - w) for k, w in start.items()}, (x,))

    step = (at(1e-4) - at(-1e-4)) / 2e-4
    return float((at(1.0) - at(0.0) - step).norm() / (at(1.0) - at(0.0)).norm())


@pytest.mark.parametrize(
    "build",
    [encoder, lambda: Own(False, False).double(), lambda: Own(True, False).double(), lambda: Own(True, True).double()],
    ids=["encoder", "attention", "causal", "causal with weights"],
)
def test_the_distance_to_the_linearisation_is_that_by_differences(build) -> None:
    net = build()
    start, g = copy.deepcopy(net), KEY.torch()
    x = torch.randn(12, 3, 8, dtype=torch.float64, generator=g)
    with watch(net, x) as scope:
        with torch.no_grad():
            for w in net.parameters():
                w += 0.3 * torch.randn(w.shape, dtype=w.dtype, generator=g)
        scope.step()
    assert not [remark for remark in scope.result.remarks if "linearisation" in remark]
    assert scope.result.snapshots[-1].apart == pytest.approx(by_differences(start.eval(), net.eval(), x), rel=1e-5)
