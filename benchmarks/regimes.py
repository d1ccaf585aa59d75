"""Whether `featlearn inspect` reads lazy and rich right, on networks whose regime is known by construction.

    python benchmarks/regimes.py --threads 1 --out evidence/benchmarks/regimes.json

Every network is trained by gradient descent on a scaled output, alpha (f(x; w) - f(x; w0)), with the loss over alpha^2,
as in Chizat, Oyallon and Bach (2019), and beside it its linearisation at the start, with the same steps: a large alpha
keeps the network near its linearisation, a small one lets it leave. The truth is the distance of the two functions on
other inputs, over the size of the linear one: below 1 % lazy, above 20 % rich, between them neither, which is left out
(and so is what left the finite numbers; both are counted). What is read are the weights before and after.

Families: networks of two layers, of three, a small convolutional one, a small transformer, each of several widths,
activations and seeds. Thresholds were set on two layers, seeds 0 and 1, before any network here was trained; seeds here
are others. AUC: of the statistic, lazy against rich. `read right`: of the networks of a regime, how many are read so;
`read wrong`: read as the other; the rest are undecided. Rivals, by their AUC on the same networks: the same with the
read-out among the matrices; the largest change of a body matrix by Frobenius norms; that of all parameters together.

Fixed before the rows: alphas, widths, steps and seeds below, the two limits, target AUC 0.95 in every family.
"""

import argparse
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from _timing import machine
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap

from featlearn.apply.inspect import public as tool
from featlearn.core import Key
from featlearn.lab.files import write_whole

ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
STEPS, SAMPLES, RATE = 200, 48, 0.3
LAZY, RICH, TARGET = 0.01, 0.2, 0.95
RIVALS = ("with read-out", "Frobenius", "all parameters")
KEY = Key("benchmarks/regimes")
Arrays = dict[str, Tensor]


class Convolutional(nn.Module):
    """Two convolutions, the mean over pixels, a read-out."""

    def __init__(self, width: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        first, second = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.body = nn.Sequential(first, act(), second, act())
        self.head = nn.Linear(2 * width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean((2, 3)))


class Transformer(nn.Module):
    """One block with layer norms in front, one head, the mean over tokens, a read-out."""

    def __init__(self, width: int, act: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(8, width), nn.Embedding(6, width)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.tokens(x) + self.places.weight
        n = self.before(h)
        scores = self.query(n) @ self.key(n).transpose(-1, -2) / n.shape[-1] ** 0.5
        h = h + self.mix(torch.softmax(scores, -1) @ self.value(n))
        return self.head((h + self.mlp(self.between(h))).mean(-2))


def layered(depth: int) -> Callable[[int, Callable[[], nn.Module]], nn.Module]:
    """Fully connected networks of `depth` layers on 10 inputs."""

    def build(width: int, act: Callable[[], nn.Module]) -> nn.Module:
        sizes = [10, *[width] * (depth - 1)]
        body = [part for m, n in itertools.pairwise(sizes) for part in (nn.Linear(m, n), act())]
        return nn.Sequential(*body, nn.Linear(width, 1))

    return build


def vectors(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The product of two signs of ten Gaussian coordinates."""
    x = torch.randn(n, 10, generator=generator)
    return x, torch.sign(x[:, :1] * x[:, 1:2])


def pictures(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Whether pixels agree with their lower right neighbours on average, on 6 x 6 noise."""
    x = torch.randn(n, 1, 6, 6, generator=generator)
    return x, torch.sign((x[:, :, :-1, :-1] * x[:, :, 1:, 1:]).mean((2, 3)))


def sentences(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The parity of the first two of six tokens of eight."""
    x = torch.randint(0, 8, (n, 6), generator=generator)
    return x, (1.0 - 2.0 * ((x[:, 0] + x[:, 1]) % 2))[:, None]


FAMILIES: dict[str, tuple[Callable[[int, Callable[[], nn.Module]], nn.Module], Any, Sequence[int]]] = {
    "two layers": (layered(2), vectors, (32, 128, 512)),
    "three layers": (layered(3), vectors, (32, 64, 128)),
    "convolutional": (Convolutional, pictures, (8, 16, 32)),
    "transformer": (Transformer, sentences, (16, 32)),
}
ACTS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


def trained(net: nn.Module, data: Any, key: Key) -> tuple[Arrays, Arrays, Tensor, Tensor]:
    """(start, ends stacked over ALPHAS, distances to the linear ends, whether the ends are finite)."""
    (x, y), (other, _) = data(SAMPLES, (key / "train").torch()), data(SAMPLES, (key / "test").torch())
    start = {name: value.detach().clone().double() for name, value in net.named_parameters()}
    x, other, y = (v.double() if v.is_floating_point() else v for v in (x, other, y))
    alphas = torch.tensor(ALPHAS, dtype=torch.float64)

    def out(w: Arrays, inputs: Tensor) -> Tensor:
        return functional_call(net, w, (inputs,))

    def pull(w: Arrays, residual: Tensor) -> Arrays:
        return grad(lambda v: (out(v, x) * residual).sum())(w)

    def push(inputs: Tensor, v: Arrays) -> Tensor:
        return jvp(lambda w: out(w, inputs), (start,), (v,))[1]

    residual = torch.randn(y.shape, generator=(key / "power").torch()).double()
    for _ in range(20):  # power iteration for the largest eigenvalue of the tangent kernel
        residual = push(x, pull(start, residual))
        top = residual.norm()
        residual = residual / top
    rate = RATE / float(top)
    zero_x, zero_other = out(start, x).detach(), out(start, other).detach()
    w = {name: value.expand(len(ALPHAS), *value.shape).clone() for name, value in start.items()}
    v = {name: torch.zeros_like(value) for name, value in w.items()}

    def step(w: Arrays, v: Arrays, alpha: Tensor) -> tuple[Arrays, Arrays]:
        own = pull(w, (alpha * (out(w, x) - zero_x) - y) / alpha)
        linear = pull(start, (alpha * push(x, v) - y) / alpha)
        new = {name: value - rate * own[name] for name, value in w.items()}
        return new, {name: value - rate * linear[name] for name, value in v.items()}

    both = vmap(step)
    with torch.no_grad():
        for _ in range(STEPS):
            w, v = both(w, v, alphas)
        ends = vmap(lambda a: out(a, other) - zero_other)(w)
        linear = vmap(lambda a: push(other, a))(v)
    sizes = linear.flatten(1).norm(dim=1)
    distance = (ends - linear).flatten(1).norm(dim=1) / sizes
    return start, w, distance, torch.isfinite(distance)


def row(family: str, width: int, act: str, seed: int) -> list[dict[str, Any]]:
    """One network at every alpha."""
    build, data, _ = FAMILIES[family]
    key = KEY / family / width / act / seed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key.seed % 2**63)
        net = build(width, ACTS[act])
    start, ends, distance, finite = trained(net, data, key)
    rows = []
    for i, alpha in enumerate(ALPHAS):
        same = {"family": family, "width": width, "act": act, "seed": seed, "alpha": alpha}
        if not bool(finite[i]):
            rows.append({**same, "distance": None, "statistic": None, "read": "diverged"})
            continue
        end = {name: value[i] for name, value in ends.items()}
        pair = tool.compare(start, end, clusters=0).pairs[0]
        found = pair.reading
        read = {"distance": float(distance[i]), "statistic": found.statistic, "read": found.regime}
        rows.append({**same, **read, **rivals(pair.layers, found.head, start, end)})
    return rows


def rivals(layers: Sequence[Any], head: str, start: Arrays, end: Arrays) -> dict[str, float]:
    """Other statistics of the same two checkpoints."""
    wide = [layer for layer in layers if layer.wide]
    moved = math.sqrt(sum(float((end[name] - value).square().sum()) for name, value in start.items()))
    size = math.sqrt(sum(float(value.square().sum()) for value in start.values()))
    return {
        "with read-out": max(layer.spectral or 0.0 for layer in wide),
        "Frobenius": max(layer.change or 0.0 for layer in wide if layer.name != head),
        "all parameters": moved / size,
    }


def area(low: Sequence[float], high: Sequence[float]) -> float:
    """How often a value of `high` is larger than one of `low`; ties count half."""
    wins = sum((h > v) + 0.5 * (h == v) for h in high for v in low)
    return wins / (len(low) * len(high)) if low and high else math.nan


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """AUC and readings by family."""
    out: dict[str, Any] = {}
    for family in dict.fromkeys(r["family"] for r in rows):
        own = [r for r in rows if r["family"] == family]
        finite = [r for r in own if r["distance"] is not None]
        parts = {
            "lazy": [r for r in finite if r["distance"] < LAZY],
            "rich": [r for r in finite if r["distance"] > RICH],
        }
        told: dict[str, Any] = {"networks": len(own), "diverged": len(own) - len(finite)}
        told["neither"] = len(finite) - sum(map(len, parts.values()))
        told["auc"] = area(*([r["statistic"] for r in part] for part in parts.values()))
        told["rivals"] = {name: area(*([r[name] for r in part] for part in parts.values())) for name in RIVALS}
        for regime, part in parts.items():
            wrong = {"lazy": "rich", "rich": "lazy"}[regime]
            told[regime] = {"networks": len(part)}
            told[regime] |= {"read right": sum(r["read"] == regime for r in part)}
            told[regime] |= {"read wrong": sum(r["read"] == wrong for r in part)}
            told[regime] |= {"range": [f([r["statistic"] for r in part], default=None) for f in (min, max)]}
        out[family] = told
    return out


def main() -> None:
    """Train, read, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    rows = []
    for family in options.families:
        for width in FAMILIES[family][2]:
            for act in ACTS:
                for seed in options.seeds:
                    rows += row(family, width, act, seed)
        print(family, json.dumps(summary([r for r in rows if r["family"] == family])[family]), flush=True)
    if options.out is not None:
        document = {"machine": machine("cpu"), "target": TARGET, "summary": summary(rows), "rows": rows}
        write_whole(options.out, json.dumps(document, indent=1).encode())


if __name__ == "__main__":
    main()
