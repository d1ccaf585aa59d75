"""Transformers for sums modulo p: table look-ups against a literal transcription, ensembles, attention matrices."""

import math

import pytest
import torch

from featlearn.core import Key, SettingError
from featlearn.nets import ModularShape, ModularTransformer, attention_matrices

SHAPES = [
    ModularShape(k=k, p=5, layers=layers, heads=3, width=8, head_dim=6, mlp=mlp, norm=norm, readout=readout)
    for k, layers, mlp, norm, readout in (
        (3, 1, 0, False, "equals"),
        (3, 1, 7, True, "last"),
        (2, 2, 7, True, "equals"),
        (3, 2, 0, True, "last"),
        (2, 2, 7, False, "last"),
    )
]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.layers}-{s.mlp}-{s.norm}-{s.readout}")


def built(shape, *names):
    net = ModularTransformer(shape, [Key("net") / name for name in names]).double()
    with torch.no_grad():  # the bias starts at 0 and scores are small: make every parameter count
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=Key("more").torch(), dtype=torch.float64))
    return net


def literal(net, member, numbers):
    """One sequence, position by position and head by head."""
    s = net.shape
    w = {name: value[member] for name, value in net.named_parameters()}

    def n(x):
        return (x - x.mean()) / (x.var(unbiased=False) + 1e-5).sqrt() if s.norm else x

    stream = [w["token"][a] + w["position"][j] for j, a in enumerate(numbers)]
    if s.readout == "equals":
        stream.append(w["equals"][0])
    for i in range(s.layers):
        after = []
        for t in range(len(stream)):
            heads = []
            for h in range(s.heads):
                part = slice(h * s.head_dim, (h + 1) * s.head_dim)
                q, ks, vs = (
                    n(stream[t]) @ w[f"query{i}"][:, part],
                    [n(x) @ w[f"key{i}"][:, part] for x in stream[: t + 1]],
                    [n(x) @ w[f"value{i}"][:, part] for x in stream[: t + 1]],
                )
                scores = torch.stack([q @ key / math.sqrt(s.head_dim) for key in ks])
                weights = (scores - scores.max()).exp()
                heads.append(sum(a * v for a, v in zip(weights / weights.sum(), vs, strict=True)))
            x = stream[t] + torch.cat(heads) @ w[f"out{i}"]
            if s.mlp:
                x = x + (n(x) @ w[f"in{i}"] + w[f"bias{i}"][0]).clamp(min=0) @ w[f"back{i}"]
            after.append(x)
        stream = after
    return n(stream[-1]) @ w["read"]


@every_shape
def test_forward_is_the_formula(shape):
    net = built(shape, "a", "b")
    x = torch.randint(shape.p, (2, 6, shape.k), generator=Key("x").torch())
    with torch.no_grad():
        expected = torch.stack([torch.stack([literal(net, e, row.tolist()) for row in x[e]]) for e in range(2)])
        torch.testing.assert_close(net(x), expected, atol=1e-9, rtol=0)


@every_shape
def test_an_ensemble_is_a_loop_of_single_networks(shape):
    both = ModularTransformer(shape, [Key("a"), Key("b")])
    x = torch.randint(shape.p, (2, 40, shape.k), generator=Key("x").torch())
    singles = [ModularTransformer(shape, [Key(name)]) for name in "ab"]
    torch.testing.assert_close(both(x), torch.cat([net(x[i : i + 1]) for i, net in enumerate(singles)]))
    both(x)[1].square().sum().backward()
    assert all(float(p.grad[0].abs().max()) == 0 for p in both.parameters())


def test_the_start_has_the_stated_scale():
    net = ModularTransformer(ModularShape(k=2, p=50, heads=16, width=64, head_dim=8, mlp=32), [Key("start")])
    fans = {"token": 64, "query0": 64, "out0": 128, "in0": 64, "back0": 32, "read": 64}
    for name, fan in fans.items():
        value = net[name].detach()
        # standard deviation of a standard deviation of n normals is 1/sqrt(2 n); 5 of them
        assert float(value.std()) * math.sqrt(fan) == pytest.approx(1, abs=5 / math.sqrt(2 * value.numel())), name
    assert float(net["bias0"].detach().abs().max()) == 0


def test_attention_matrices_are_the_reported_product():
    net = built(SHAPES[2], "a", "b")
    for layer in range(2):
        found = attention_matrices(net, layer)
        for e in range(2):
            for h in range(3):
                part = slice(6 * h, 6 * h + 6)
                w_kq = net[f"key{layer}"][e, :, part] @ net[f"query{layer}"][e, :, part].T
                expected = net["token"][e] @ w_kq @ net["token"][e].T
                torch.testing.assert_close(found[e, h], expected.detach(), atol=1e-10, rtol=1e-10)
    swapped = attention_matrices(net, tokens=torch.zeros_like(net["token"]))
    assert float(swapped.abs().max()) == 0


def test_read_at_equals_no_number_asks_another():
    """Why both read-outs are run: the gradient of W^Q is a multiple of one vector, the normalised last token."""
    shape = ModularShape(k=3, p=5, heads=2, width=8, head_dim=4, mlp=0, readout="equals")
    net = built(shape, "a")
    x = torch.randint(5, (1, 50, 3), generator=Key("x").torch())
    net(x).square().sum().backward()
    assert int(torch.linalg.matrix_rank(net["query0"].grad[0], rtol=1e-9)) == 1
    other = built(ModularShape(k=3, p=5, heads=2, width=8, head_dim=4, mlp=0, readout="last"), "a")
    other(x).square().sum().backward()
    assert int(torch.linalg.matrix_rank(other["query0"].grad[0], rtol=1e-9)) > 1


@pytest.mark.parametrize(
    "make, field",
    [
        (lambda: ModularShape(k=0, p=5), "k"),
        (lambda: ModularShape(k=2, p=1), "p"),
        (lambda: ModularShape(k=2, p=5, heads=0), "heads"),
        (lambda: ModularShape(k=2, p=5, mlp=-1), "mlp"),
        (lambda: ModularShape(k=2, p=5, layers=3), "layers"),
        (lambda: ModularShape(k=2, p=5, readout="mean"), "readout"),
        (lambda: ModularTransformer(SHAPES[0], []), "keys"),
        (lambda: attention_matrices(built(SHAPES[0], "a"), 1), "layer"),
    ],
)
def test_refused_before_any_work(make, field):
    with pytest.raises(SettingError) as error:
        make()
    assert error.value.field == field
    assert "\n" not in str(error.value)
