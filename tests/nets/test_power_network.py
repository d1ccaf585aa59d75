"""k-th power networks: look-ups against one-hot products, homogeneity, norms, refusals."""

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.nets import PowerNetwork, power_init
from featlearn.nets import power as room


def _net(m=6, k=3, p=5) -> PowerNetwork:
    return power_init(m, k, p, Key("test"), scale=0.45).to(torch.float64)


def _inputs(n: int, k: int, p: int) -> torch.Tensor:
    return torch.randint(p, (n, k), generator=Key("x").torch())


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_look_ups_equal_the_reported_form_on_one_hots(k):
    net, x = _net(k=k), _inputs(20, k, 5)
    hot = torch.nn.functional.one_hot(x, 5).double()
    sums = torch.einsum("njp,mjp->nm", hot, net.u)
    expected = torch.einsum("nm,mp->np", sums**k, net.w)
    torch.testing.assert_close(net(x), expected, rtol=1e-12, atol=1e-12)
    assert (sums ** max(k - 1, 2) @ net.w - net(x)).abs().max() > 1e-3 or k == 3 or k == 2  # another power is not it


def test_blocks_change_nothing(monkeypatch):
    net, x = _net(), _inputs(50, 3, 5)
    whole = net(x)
    monkeypatch.setattr(room, "BLOCK_FLOATS", 7 * len(net))
    torch.testing.assert_close(net(x), whole, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_homogeneous_of_degree_k_plus_1(k):
    net, x = _net(k=k), _inputs(20, k, 5)
    torch.testing.assert_close(net.scaled(1.7)(x), 1.7 ** (k + 1) * net(x), rtol=1e-10, atol=1e-12)
    assert net.scaled(1.7).norm() == pytest.approx(1.7 * net.norm(), rel=1e-12)


def test_norm_by_hand():
    net = PowerNetwork(torch.tensor([[[3.0, 0.0]], [[0.0, 0.0]]]), torch.tensor([[0.0, 4.0], [2.0, 0.0]]))
    assert net.neuron_norms().tolist() == [5.0, 2.0]
    assert net.norm() == pytest.approx((25 + 4) ** 0.5, rel=1e-12)


def test_whole_powers_keep_the_sign():
    x = torch.tensor([-2.0, 0.0, 3.0])
    for k in range(1, 9):
        assert room.whole_power(x, k).tolist() == [(-2.0) ** k, 0.0, 3.0**k]
        assert x.tolist() == [-2.0, 0.0, 3.0]


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: power_init(0, 2, 5, Key("a")), "m"),
        (lambda: power_init(3, 0, 5, Key("a")), "k"),
        (lambda: power_init(3, 2, 1, Key("a")), "p"),
        (lambda: power_init(3, 2, 5, Key("a"), scale=0.0), "scale"),
        (lambda: power_init(3, 2, 5, Key("a"), scale=float("nan")), "scale"),
        (lambda: PowerNetwork(torch.zeros(3, 2, 5), torch.zeros(3, 4)), "w"),
        (lambda: _net()(torch.zeros(4, 2, dtype=torch.long)), "x"),
        (lambda: _net()(torch.full((4, 3), 5)), "x"),
        (lambda: _net()(torch.full((4, 3), -1)), "x"),
    ],
)
def test_refused(make, field):
    with pytest.raises((SettingError, Exception)) as error:
        make()
    assert field in str(error.value)
    assert isinstance(error.value, SettingError) or field == "w"
