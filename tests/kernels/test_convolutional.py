"""Kernels of convolutional networks against finite ones, the recursion written out, and where both are known."""

import math

import mpmath as mp
import pytest
import torch

from featlearn.core import SettingError
from featlearn.kernels import conv_nngp, conv_ntk, deep_nngp, deep_ntk

VARIANCES = {"weight_var": 1.7, "bias_var": 0.4, "readout_var": 1.3}
H, W, C = 2, 3, 2


def images(n=4, seed=5):
    return torch.randn(n, C, H, W, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# finite networks ------------------------------------------------------------------------------------------------------


def finite(readout, nets=60, m=250):
    """Inner products of what the read-out sees, and tangent kernels, of single networks: (nets, 2, n, n)."""
    g, x, found = torch.Generator().manual_seed(1), images(), []

    def normal(var, *shape):
        drawn = math.sqrt(var) * torch.randn(*shape, generator=g, dtype=torch.float64)
        return drawn.requires_grad_()

    for _ in range(nets):
        one, two = normal(1.7, m, C, 3, 3), normal(1.7, m, m, 3, 3)
        b1, b2 = normal(0.4, m), normal(0.4, m)
        a = normal(1.3, m) if readout == "average" else normal(1.3, m, H, W)

        def output(z, one=one, two=two, b1=b1, b2=b2, a=a):
            h = torch.relu(torch.nn.functional.conv2d(z, one / 3, b1, padding=1))
            h = torch.relu(torch.nn.functional.conv2d(h, two / (3 * math.sqrt(m)), b2, padding=1))[0]
            if readout == "average":
                return (a * h.mean((1, 2))).sum() / math.sqrt(m)
            return (a * h).sum() / math.sqrt(H * W * m)

        rows = [torch.autograd.grad(output(x[i : i + 1]), (one, b1, two, b2, a)) for i in range(len(x))]
        grams = [z @ z.T for z in (torch.stack([r[j].flatten() for r in rows]) for j in range(5))]
        found.append(torch.stack([1.3 * grams[-1], sum(grams, torch.zeros_like(grams[0]))]))
    return torch.stack(found).transpose(0, 1)


def errors_off(found, kernel):
    """The largest distance of an entry from the mean over networks, in standard errors."""
    return float(((found.mean(0) - kernel).abs() / (found.std(0) / math.sqrt(len(found)))).amax())


@pytest.mark.slow
@pytest.mark.parametrize("readout", ["flatten", "average"])
def test_kernels_are_the_limits_of_wide_networks(readout):
    """Ten entries each, at 4 standard errors over 60 networks: a false alarm in about a thousand seeds."""
    x, other = images(), {"flatten": "average", "average": "flatten"}[readout]
    for found, kernel in zip(finite(readout), (conv_nngp, conv_ntk), strict=True):
        assert errors_off(found, kernel(x, readout=readout, **VARIANCES)) < 4
        assert errors_off(found, kernel(x, readout=other, **VARIANCES)) > 8
        assert errors_off(found, kernel(x, readout=readout, size=1, **VARIANCES)) > 8
        assert errors_off(found, kernel(x, readout=readout, **{**VARIANCES, "bias_var": 0.0})) > 8


# the recursion, position by position ----------------------------------------------------------------------------------


def moments(u, v, c):
    scale = math.sqrt(u * v)
    angle = math.acos(max(-1.0, min(1.0, c / scale)))
    return scale * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi), (math.pi - angle) / (
        2 * math.pi
    )


def literal(x, y, hidden, size, readout):
    """(nngp, ntk) of two images, all pairs of positions in loops."""
    places = [(i, j) for i in range(H) for j in range(W)]
    half = size // 2
    moves = [(di, dj) for di in range(-half, half + 1) for dj in range(-half, half + 1)]

    def box(table):
        def shifted(s, move):
            return s[0] + move[0], s[1] + move[1]

        return {
            (s, t): sum(table.get((shifted(s, move), shifted(t, move)), 0.0) for move in moves) / size**2
            for s in places
            for t in places
        }

    def inner(u, v):
        return {(s, t): float(u[:, s[0], s[1]] @ v[:, t[0], t[1]]) for s in places for t in places}

    tables = {"xy": box(inner(x, y)), "xx": box(inner(x, x)), "yy": box(inner(y, y))}
    tangent = {k: v + 1 for k, v in tables["xy"].items()}
    for layer in range(hidden):
        cov = {name: {k: 1.7 * v + 0.4 for k, v in t.items()} for name, t in tables.items()}
        values = {name: {} for name in tables}
        slope = {}
        for name, (left, right) in {"xy": ("xx", "yy"), "xx": ("xx", "xx"), "yy": ("yy", "yy")}.items():
            for s, t in cov[name]:
                value, rate = moments(cov[left][s, s], cov[right][t, t], cov[name][s, t])
                values[name][s, t] = value
                if name == "xy":
                    slope[s, t] = rate
        if layer < hidden - 1:
            tables = {name: box(t) for name, t in values.items()}
            moved = box({k: slope[k] * tangent[k] for k in slope})
            tangent = {k: tables["xy"][k] + 1 + 1.7 * moved[k] for k in moved}
    pairs = [(s, t) for s in places for t in places if readout == "average" or s == t]
    nngp = sum(1.3 * values["xy"][k] for k in pairs) / len(pairs)
    return nngp, sum(values["xy"][k] + 1.3 * slope[k] * tangent[k] for k in pairs) / len(pairs)


@pytest.mark.parametrize("readout", ["flatten", "average"])
@pytest.mark.parametrize("hidden, size", [(1, 3), (2, 3), (3, 3), (2, 5), (2, 7), (2, 1)])
def test_kernels_are_the_recursion_written_out(hidden, size, readout):
    x, y = images(2), images(3, seed=6)
    expected = torch.tensor([[literal(u, v, hidden, size, readout) for v in y] for u in x], dtype=torch.float64)
    given = {"layers": hidden + 1, "size": size, "readout": readout, **VARIANCES}
    torch.testing.assert_close(conv_nngp(x, y, **given), expected[..., 0], rtol=1e-12, atol=0)
    torch.testing.assert_close(conv_ntk(x, y, **given), expected[..., 1], rtol=1e-12, atol=0)


# where both are known -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [2, 3, 4])
def test_one_pixel_is_a_fully_connected_network(layers):
    x, y = images(4).flatten(1), images(3, seed=6).flatten(1)
    one, two = (z[:, :, None, None] for z in (x, y))
    for readout in ("flatten", "average"):
        given = {"layers": layers, "size": 1, "readout": readout, **VARIANCES}
        dense = {"layers": layers, **VARIANCES}
        torch.testing.assert_close(conv_nngp(one, two, **given), deep_nngp(x, y, **dense), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(conv_ntk(one, two, **given), deep_ntk(x, y, **dense), rtol=1e-10, atol=1e-10)


def test_identical_images_keep_all_digits():
    """Flattened, one patch a position of one image: E[r r] is half the variance, E[r' r'] one half, in 30 digits."""
    mp.mp.dps = 30
    x = images(1)
    moves = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    places = [(i, j) for i in range(H) for j in range(W)]

    def box(table):
        return {s: mp.fsum(table.get((s[0] + d[0], s[1] + d[1]), 0) for d in moves) / 9 for s in places}

    mean = box({s: mp.fsum(mp.mpf(float(v)) ** 2 for v in x[0, :, s[0], s[1]]) for s in places})
    tangent = {s: v + 1 for s, v in mean.items()}
    for _ in range(2):
        value = {s: (mp.mpf(1.7) * v + mp.mpf(0.4)) / 2 for s, v in mean.items()}
        mean, moved = box(value), box({s: t / 2 for s, t in tangent.items()})
        last, tangent = tangent, {s: mean[s] + 1 + mp.mpf(1.7) * moved[s] for s in mean}
    exact = mp.fsum(value[s] + mp.mpf(1.3) * last[s] / 2 for s in places) / len(places)
    found = conv_ntk(torch.cat([x, images(2, seed=6), x]), **VARIANCES)
    for i, j in ((0, 0), (0, 3), (3, 0), (3, 3)):
        assert abs(mp.mpf(float(found[i, j])) - exact) < 2e-15 * exact


def test_blank_images_have_the_kernel_of_the_biases():
    x = torch.cat([torch.zeros(2, C, H, W).double(), images(1)])
    for readout in ("flatten", "average"):
        assert torch.equal(conv_nngp(x, readout=readout)[:2], torch.zeros(2, 3).double())
        # layers 2 and 3: a bias of the last hidden layer is dead where its preactivation is 0
        assert torch.equal(conv_ntk(x, readout=readout)[:2, :2], torch.zeros(2, 2).double())
        assert float(conv_nngp(x, readout=readout, bias_var=1.0)[:2].min()) > 0


@pytest.mark.parametrize("readout", ["flatten", "average"])
def test_blocks_change_nothing_and_are_told(readout):
    x, y, said = images(11), images(6, seed=6), []
    for other in (None, y):
        whole = conv_ntk(x, x if other is None else other, readout=readout, **VARIANCES)
        given = {"readout": readout, "memory_mib": 0.04, "report": said.append, **VARIANCES}
        torch.testing.assert_close(conv_ntk(x, other, **given), whole, rtol=1e-13, atol=0)
    k = conv_ntk(x, memory_mib=0.04, **VARIANCES)
    assert torch.equal(k, k.T)
    assert "11 x 11 images of 2 x 3" in said[0]
    assert "11 x 6" in said[1]
    assert float(said[0].split(": ")[1].split()[0]) <= 0.04


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"layers": 1}, "layers = 1"),
        ({"size": 2}, "size = 2 .*odd"),
        ({"readout": "sum"}, "readout = 'sum'"),
        ({"weight_var": -1.0}, "weight_var = -1.0"),
        ({"readout_var": math.inf}, "readout_var = inf"),
        ({"memory_mib": 1e-5}, "memory_mib = 1e-05 .*one pair"),
    ],
)
def test_what_is_no_network_is_refused(given, says):
    for kernel in (conv_nngp, conv_ntk):
        with pytest.raises(SettingError, match=says):
            kernel(images(), **given)
