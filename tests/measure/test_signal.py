"""Signal measures against literal loops and closed cases, for any orthogonal pair of means."""

import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.measure.signal import (
    check_orthogonal_pair,
    cluster_margins,
    heavy_mass,
    loss_sizes,
    signal_heavy,
    signal_parts,
)

KEY = Key("tests/signal")
E, M, D = 3, 7, 5


def weights():
    g = KEY.torch()
    w = torch.randn(E, M, D, generator=g, dtype=torch.float64)
    return w, torch.randn(E, M, generator=g, dtype=torch.float64)


def frame():
    """Orthogonal means of different lengths, along no axis."""
    q = torch.linalg.qr(torch.randn(D, D, generator=(KEY / "q").torch(), dtype=torch.float64)).Q
    return torch.stack([3.0 * q[0], 0.5 * q[1]])


def test_parts_against_projections_one_neuron_at_a_time():
    w, a = weights()
    means = frame()
    parts = signal_parts(w, a, means)
    for e in range(E):
        for j in range(M):
            own, other = (means[0], means[1]) if a[e, j] >= 0 else (means[1], means[0])
            sig = torch.outer(own, own) / own.dot(own) @ w[e, j]
            opp = torch.outer(other, other) / other.dot(other) @ w[e, j]
            assert abs(float(parts.sig[e, j])) == pytest.approx(float(sig.norm()), abs=1e-12)
            assert float(parts.sig[e, j]) * float(own @ w[e, j]) > 0  # signed
            assert abs(float(parts.opp[e, j])) == pytest.approx(float(opp.norm()), abs=1e-12)
            torch.testing.assert_close(parts.perp[e, j], w[e, j] - sig - opp, atol=1e-12, rtol=0)
            assert float(parts.rest[e, j]) == pytest.approx(float((w[e, j] - sig).norm()), abs=1e-12)
    squares = parts.sig**2 + parts.opp**2 + parts.perp.square().sum(-1)
    torch.testing.assert_close(squares, w.square().sum(-1), atol=1e-12, rtol=0)


def test_a_zero_second_layer_counts_as_positive():
    w = torch.tensor([[[3.0, 4.0]]])
    assert signal_parts(w, torch.zeros(1, 1), torch.eye(2)).sig.item() == 3.0


def test_margins_are_scores_times_labels():
    w, a = weights()
    means = frame()
    found = cluster_margins(w, a, means, scale=1 / M)
    for e in range(E):
        for c, (mu, y) in enumerate(((means[0], 1), (-means[0], 1), (means[1], -1), (-means[1], -1))):
            f = sum(float(a[e, j]) * max(float(w[e, j] @ mu), 0) for j in range(M)) / M
            assert float(found[e, c]) == pytest.approx(y * f, abs=1e-12)


def test_loss_sizes_are_the_slope_of_the_reported_loss():
    f = torch.linspace(-4, 4, 9, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad((-2 * torch.log(1 / (1 + torch.exp(-f)))).sum(), f)
    torch.testing.assert_close(loss_sizes(f.detach()), -slope, atol=1e-13, rtol=0)
    assert float(loss_sizes(torch.zeros(1))) == 1.0


def planted(sig=1.0, opp=0.0, perp=0.0, second=1.0, m=4):
    """One neuron a cluster, in three dimensions."""
    w = torch.tensor(
        [[[sig, opp, perp], [-sig, opp, perp], [opp, sig, perp], [opp, -sig, perp]][:m]], dtype=torch.float64
    )
    a = second * torch.tensor([[1.0, 1.0, -1.0, -1.0][:m]], dtype=torch.float64)
    return w, a, torch.eye(3, dtype=torch.float64)[:2]


def test_signal_heavy_on_a_planted_network():
    found = signal_heavy(*planted(), zeta=4e-5, H=1.0)
    assert bool(found.holds)
    assert found.heavy.all()
    torch.testing.assert_close(found.heavy_margins, torch.full((1, 4), 0.25).double())
    assert float(found.outside) == 0.0


@pytest.mark.parametrize(
    "change, zeta, H",
    [
        ({"perp": 1e-6}, 4e-5, 1.0),  # exp(6) 1e-6 is above zeta
        ({"opp": 1e-4}, 4e-5, 1.0),
        ({"second": 1.1}, 4e-5, 1.0),  # |a| > ||w||
        ({"second": 0.9}, 4e-5, 1.0),  # E||w||^2 > E a^2 + zeta H
        ({"sig": 1.5, "second": 1.5}, 4e-5, 1.0),  # E a^2 + zeta H > 2 H
        ({}, 1e-4, 1.0),  # zeta > exp(-10 H)
        ({"m": 3}, 4e-5, 1.0),  # a cluster without a neuron: its heavy margin is 0, but nothing is outside
    ],
)
def test_each_clause_of_the_definition_can_fail(change, zeta, H):
    holds = bool(signal_heavy(*planted(**change), zeta=zeta, H=H).holds)
    assert holds == (change == {"m": 3})  # Definition 4.2 as reported lets an empty outside pass


def test_outside_mass_and_heavy_margins_count_only_their_neurons():
    w, a, means = planted()
    w[0, 0, 2] = 5.0  # the neuron of +mu_1 is mostly noise
    found = signal_heavy(w, a, means, zeta=0.5, H=0.0)
    assert found.heavy.tolist() == [[False, True, True, True]]
    assert float(found.outside) == pytest.approx(26 / 4)
    torch.testing.assert_close(found.heavy_margins, torch.tensor([[0, 0.25, 0.25, 0.25]]).double())
    assert float(heavy_mass(w, a, means)) == pytest.approx(3 / 29)
    assert float(heavy_mass(w, a, means, zeta=5.1)) == pytest.approx(1)
    assert float(heavy_mass(torch.zeros(1, 2, 3), torch.ones(1, 2), torch.eye(3)[:2])) == 0


def test_a_neuron_that_votes_against_its_cluster_is_not_in_a_heavy_margin():
    w, a, means = planted()
    found = signal_heavy(w, -a, means, zeta=0.5, H=0.0)
    assert not found.heavy.any()
    assert math.isclose(float(found.outside), 1.0)


@pytest.mark.parametrize(
    "means, said",
    [
        (torch.tensor([[1.0, 0.0], [0.1, 1.0]]), "cosine 0.0995"),
        (torch.tensor([[1.0, 0.0], [0.0, 0.0]]), "not zero"),
        (torch.tensor([[1.0, 0.0], [0.0, math.nan]]), "finite"),
    ],
)
def test_means_that_are_not_orthogonal_are_refused_by_name(means, said):
    w, a = torch.ones(1, 2, 2), torch.ones(1, 2)
    calls = [
        lambda: check_orthogonal_pair(means),
        lambda: signal_parts(w, a, means),
        lambda: cluster_margins(w, a, means),
        lambda: signal_heavy(w, a, means, zeta=0.1, H=1.0),
        lambda: heavy_mass(w, a, means),
    ]
    for call in calls:
        with pytest.raises(SettingError, match=said) as error:
            call()
        assert error.value.field == "means"
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("field, value", [("zeta", 0.0), ("H", -1.0)])
def test_wrong_thresholds_are_refused(field, value):
    with pytest.raises(SettingError, match=f"^{field} = "):
        signal_heavy(*planted(), **{"zeta": 0.1, "H": 1.0, field: value})
