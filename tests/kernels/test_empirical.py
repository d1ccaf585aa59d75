"""Kernels of modules against Jacobians taken one sample and one output at a time, in float64."""

import copy
import re

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from featlearn.core import Key, SettingError
from featlearn.errors import NotFiniteInput
from featlearn.kernels import conjugate_kernel, empirical_ntk, gram, kernel_ridge
from featlearn.measure import tangent_kernel

KEY = Key("empirical")


def normal(*shape, name="x", dtype=torch.float64):
    return torch.randn(*shape, generator=(KEY / name).torch(), dtype=dtype)


def filled(net):
    """The same module with weights from a key, in float64."""
    net = net.double()
    for name, p in net.named_parameters():
        p.data.copy_(normal(*p.shape, name=name) * (0.5 if p.ndim > 1 else 1.0))
    return net.eval()


def jacobian(net, x):
    """(n, o, weights) by one backward pass for each sample and output."""
    weights = [p for p in net.parameters() if p.requires_grad]
    rows = []
    for i in range(len(x)):
        out = net(x[i : i + 1]).reshape(-1)
        pulled = [torch.autograd.grad(o, weights, retain_graph=True, materialize_grads=True) for o in out]
        rows.append(torch.stack([torch.cat([g.flatten() for g in p]) for p in pulled]))
    return torch.stack(rows).detach()


def reference(net, x, y):
    return torch.einsum("icw,jdw->ijcd", jacobian(net, x), jacobian(net, y))


class Twice(nn.Module):
    """One layer that runs twice, as in a recurrent network."""

    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(torch.tanh(self.inner(torch.tanh(self.inner(x)))))


class Tied(nn.Module):
    """The weight of a layer that also decodes, past the layer."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3, bias=False)

    def forward(self, x):
        return torch.tanh(self.inner(x)) @ self.inner.weight


class Shared(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


class Tokens(nn.Module):
    """An embedding and positions of their own, then a layer over positions, then a mean."""

    def __init__(self, width, out=3):
        super().__init__()
        self.table, self.position = nn.Embedding(7, width), nn.Parameter(torch.zeros(5, width))
        self.norm, self.mix, self.out = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, out)

    def forward(self, x):
        h = self.norm(self.table(x) + self.position)
        return self.out(torch.tanh(self.mix(h)).mean(1))


class PositionsFirst(nn.Module):
    """A layer that sees (positions, samples, width)."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(torch.relu(self.mix(x.transpose(0, 1))).mean(0))


class TurnedAround(nn.Module):
    """Layers that see the samples in another order."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return self.out(torch.relu(self.mix(x.flip(0)))).flip(0)


class Stateful(nn.Module):
    """What vmap cannot follow: a branch on a value."""

    def __init__(self):
        super().__init__()
        self.scale, self.out = nn.Parameter(torch.ones(4)), nn.Linear(4, 2)

    def forward(self, x):
        h = x * self.scale
        return self.out(torch.where(h > 0, h, 0.3 * h) if float(h.detach().sum()) < 1e9 else h)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


def frozen():
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    net[0].requires_grad_(False)
    net[2].weight.requires_grad_(False)
    net[4].bias.requires_grad_(False)
    return net


def hooked():
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    net[0].register_forward_hook(lambda m, args, out: 2 * out)
    return net


def convolution(**kwargs):
    return nn.Sequential(nn.Conv2d(2, 4, 3, **kwargs), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(3))


def seeded(net, x):
    net(x)  # lazy layers
    return filled(net)


# (model, inputs, layers that are contracted)
MODELS = {
    "mlp": (nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)), normal(6, 4), 2),
    "one output without axis": (
        nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0)),
        normal(6, 4),
        2,
    ),
    "frozen": (frozen(), normal(6, 4), 2),
    "hook of the user": (hooked(), normal(6, 4), 2),
    "a layer twice": (Twice(), normal(6, 4), 1),
    "tied to a product": (Tied(), normal(6, 4), 0),
    "tied layers": (Shared(), normal(6, 4), 0),
    "reparametrised": (nn.Sequential(weight_norm(nn.Linear(4, 5)), nn.ReLU(), nn.Linear(5, 2)), normal(6, 4), 1),
    "batch norm": (nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)), normal(6, 4), 2),
    "few positions, wide": (Tokens(40), torch.arange(30).reshape(6, 5) % 7, 2),
    "many positions, narrow": (Tokens(3), torch.arange(30).reshape(6, 5) ** 2 % 7, 2),
    "positions first": (PositionsFirst(), normal(6, 3, 3), 1),
    "turned around": (TurnedAround(), normal(6, 4), 0),
    "a branch": (Stateful(), normal(6, 4), 1),
    "recurrent": (Recurrent(), normal(6, 5, 3), 1),
    "image": (convolution(), normal(6, 2, 6, 6), 2),
    "image, same": (convolution(padding="same", dilation=2), normal(6, 2, 6, 6), 2),
    "image, stride": (convolution(stride=2, padding=1, bias=False), normal(6, 2, 6, 6), 2),
    "image, around": (convolution(padding=1, padding_mode="circular"), normal(6, 2, 6, 6), 2),
    "image, groups": (convolution(groups=2), normal(6, 2, 6, 6), 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_tangent_kernels_are_those_of_jacobians(name):
    net, x, layers = MODELS[name]
    net, said = seeded(copy.deepcopy(net).double(), x), []
    for y in (None, x[[4, 0, 4]]):
        full = reference(net, x, x if y is None else y)
        close = {"rtol": 1e-9, "atol": 1e-10 * float(full.abs().max())}
        torch.testing.assert_close(empirical_ntk(net, x, y, outputs="full", report=said.append), full, **close)
        each = full.diagonal(dim1=2, dim2=3)
        torch.testing.assert_close(empirical_ntk(net, x, y, outputs="each"), each, **close)
        torch.testing.assert_close(empirical_ntk(net, x, y), each.sum(2), **close)
        torch.testing.assert_close(empirical_ntk(net, x, y, outputs=each.shape[2] - 1), each[..., -1], **close)
    assert f" {layers} layers contracted" in said[0]


def test_float32_agrees_to_its_own_precision_and_is_what_was_asked_for():
    net = filled(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)))
    x = normal(6, 4)
    exact, low = empirical_ntk(net, x), empirical_ntk(net.float(), x.float(), dtype=torch.float32)
    assert low.dtype == exact.dtype == torch.float64
    assert 1e-12 < float((low - exact).abs().max() / exact.max()) < 1e-5


def test_kernel_of_two_layers_is_the_measure_of_that_name():
    w, b, a, x = normal(5, 4, name="w"), normal(5, name="b"), normal(5, name="a"), normal(6, 4)
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1, bias=False)).double()
    net[0].weight.data, net[0].bias.data, net[2].weight.data = w, b, a[None]
    expected = tangent_kernel(w[None], a[None], x, b[None])[0]
    torch.testing.assert_close(empirical_ntk(net, x), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("outputs, memory", [("trace", 0.5), ("each", 0.5), ("full", 2.0)])
def test_blocks_change_nothing_and_are_told_before_the_work(outputs, memory):
    net, said = filled(nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 3))), []
    x, y = normal(90, 4), normal(70, 4, name="y")
    for other in (None, y):
        whole = empirical_ntk(net, x, other, outputs=outputs)
        parts = empirical_ntk(net, x, other, outputs=outputs, memory_mib=memory, report=said.append)
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    assert len(said) == 2
    blocks = [tuple(map(int, re.search(r"(\d+) x (\d+) blocks of up to (\d+)", line).groups())) for line in said]
    assert all(rows > 1 and sides > 1 for rows, sides, _ in blocks)
    assert all(float(re.search(r"; ([\d.]+) of", line)[1]) <= memory for line in said)
    assert f"({90} x 90 x {dict(trace=1, each=3, full=9)[outputs]})" in said[0]


def test_the_symmetric_kernel_is_symmetric_to_the_bit_and_repeats_rows_of_duplicates():
    net = filled(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)))
    x = normal(600, 4)
    x = torch.cat([x, torch.zeros(2, 4).double(), x[:3]])
    k = empirical_ntk(net, x, outputs="full")
    assert torch.equal(k, k.transpose(0, 1).transpose(2, 3))
    torch.testing.assert_close(k[602:], k[:3], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(k[600, 600], reference(net, x[600:601], x[600:601])[0, 0], rtol=1e-12, atol=0)
    assert float(k[600, 601].diagonal().min()) > 0  # biases alone


def test_tied_weights_are_found_where_the_first_samples_do_not_show_them():
    """Samples at 0 have no gradient, so that a contraction that leaves the second use out agrees on them."""
    net, x = filled(Tied()), normal(8, 4)
    x[:3] = 0.0
    torch.testing.assert_close(empirical_ntk(net, x), reference(net, x, x).diagonal(dim1=2, dim2=3).sum(2))


def test_conjugate_kernels_are_products_of_what_layers_give():
    net = filled(nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)))
    x, y = normal(9, 4), normal(7, 4, name="y")
    hidden = {"0": lambda z: net[0](z), "1": lambda z: net[0](z).relu(), "": net}
    for layer, features in hidden.items():
        for other in (None, y):
            expected = (features(x) @ features(x if other is None else other).T).detach()
            for memory in (256.0, 0.013):
                found = conjugate_kernel(net, layer, x, other, memory_mib=memory)
                torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert found.shape == (9, 7)


def test_prediction_on_new_points_is_that_of_the_linearised_network():
    net = filled(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1)))
    x, new, y = normal(30, 4), normal(5, 4, name="new"), normal(30, name="y")
    phi, psi = jacobian(net, x)[:, 0], jacobian(net, new)[:, 0]
    weights = torch.linalg.solve(phi.T @ phi + 0.1 * torch.eye(phi.shape[1]), phi.T @ y)
    fit = kernel_ridge(lambda a, b: empirical_ntk(net, a, b), x, y, penalty=0.1)
    torch.testing.assert_close(fit(new)[:, 0], psi @ weights, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(gram(lambda a, b: empirical_ntk(net, a, b), x), empirical_ntk(net, x))


def test_nothing_of_the_users_is_changed():
    net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.0), nn.ReLU(inplace=True), nn.Linear(6, 2)).train()
    net[0].bias.requires_grad_(False)
    x = normal(6, 4, dtype=torch.float32)
    state, inputs, random = copy.deepcopy(net.state_dict()), x.clone(), torch.get_rng_state()
    with torch.no_grad():
        empirical_ntk(net, x)
        conjugate_kernel(net, "2", x)
    with torch.inference_mode():
        empirical_ntk(net, x)
    with pytest.raises(SettingError):
        empirical_ntk(nn.Sequential(net, Noise()), x)
    assert all(torch.equal(v, state[k]) and v.dtype == torch.float32 for k, v in net.state_dict().items())
    assert torch.equal(x, inputs)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None and not m._forward_hooks for m in net.modules() for p in m.parameters())
    assert [p.requires_grad for p in net.parameters()] == [True, False, True, True]
    assert net.training


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Pair(nn.Module):
    def forward(self, x):
        return x, x


def net(*more, **kwargs):
    return nn.Sequential(nn.Linear(4, 4), *more)


def blown():
    made = net()
    made[0].weight.data[1, 2] = float("nan")
    return made


X = normal(5, 4)
REFUSED = [
    (lambda: empirical_ntk(net(nn.BatchNorm1d(4)), X), r"BatchNorm1d '1' in training mode .*call model.eval\(\)"),
    (lambda: empirical_ntk(net(nn.Dropout(0.5)), X), r"Dropout '1' in training mode .*call model.eval\(\)"),
    (lambda: empirical_ntk(net(nn.LSTM(4, 2, 2, dropout=0.5)), X), "LSTM '1' in training mode"),
    (lambda: conjugate_kernel(net(nn.Dropout(0.5)), "0", X), "Dropout '1' in training mode"),
    (lambda: empirical_ntk(net(Noise()), X), r"one sample alone and in a batch .*model.eval\(\)"),
    (lambda: conjugate_kernel(net(Noise()), "1", X), "one sample alone and in a batch"),
    (lambda: empirical_ntk(net(Centred()), X), "one sample alone and in a batch"),
    (lambda: empirical_ntk(net(Pair()), X), "gives a tuple .*a row|gives a tuple"),
    (lambda: empirical_ntk(net(nn.Flatten(0)), X), "5 rows|3 rows"),
    (lambda: empirical_ntk(net().requires_grad_(False), X), "weights are all frozen .*requires_grad"),
    (lambda: empirical_ntk(nn.Sequential(nn.LazyLinear(3)), X), "not made yet"),
    (lambda: empirical_ntk(net(), X[:, :3]), r"x = a tensor \(3, 3\) .*the model fails"),
    (lambda: empirical_ntk(net(), X, X.long()), "y = a tensor of torch.int64 .*as x"),
    (lambda: empirical_ntk(net(), X, outputs="all"), "outputs = 'all'"),
    (lambda: empirical_ntk(net(), X, outputs=4), "outputs = 4 .*below 4"),
    (lambda: empirical_ntk(net(), X, outputs=True), "outputs = True"),
    (lambda: empirical_ntk(net(), X, dtype=torch.float16), "dtype = torch.float16"),
    (lambda: empirical_ntk(net(), X, memory_mib=1e-6), "memory_mib = 1e-06 .*at least"),
    (lambda: empirical_ntk(net(), X, memory_mib=0.0), "memory_mib = 0.0"),
    (lambda: conjugate_kernel(net(), "9", X), "layer = '9' .*named_modules"),
    (lambda: conjugate_kernel(Twice(), "inner", X), "'inner', which gives no tensor .*once"),
]


@pytest.mark.parametrize("i", range(len(REFUSED)))
def test_what_has_no_kernel_is_refused_by_name_in_one_line(i):
    call, says = REFUSED[i]
    with pytest.raises(SettingError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: empirical_ntk(blown(), X), r"model.0.weight"),
        (lambda: empirical_ntk(net(), X.log()), "x"),
        (lambda: empirical_ntk(net(Root()), torch.zeros(3, 4).double()), "gradient|model"),
    ],
)
def test_what_is_not_finite_is_named(call, says):
    with pytest.raises(NotFiniteInput, match=says):
        call()


class Root(nn.Module):
    def forward(self, x):
        return (x * 0).abs().sqrt()
