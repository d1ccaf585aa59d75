"""Training many two-layer networks: ours, a loop of autograd networks, and JAX, in one process run.

    python benchmarks/two_layer.py [--networks 16] [--device cpu] [--repeats 3]

The work: `networks` independent networks (d = 100, m = 100, truncated ReLU, hinge loss, plain SGD on all weights),
batch 1000, 200 steps. Ours: `featlearn.learn.fit`. Loop: nn.Module, autograd and torch.optim.SGD, one by one.
JAX (optional, a benchmark peer only): value_and_grad, vmap over networks, scan over steps, jit; compilation is timed
apart. All three see the same minibatches and must end with the same weights. `products` is the time that the two
matrix products of every step need alone, as one wide torch.mm each.
"""

import argparse
import os
import time

import numpy
import torch
from _timing import in_turns, machine, show

from featlearn.core import Key
from featlearn.learn import Stage, fit
from featlearn.learn.schedules import batches
from featlearn.nets import TwoLayer, gaussian_init, stack

D, M, N, BATCH, STEPS, RATE = 100, 100, 20000, 1000, 200, 0.5


class Net(torch.nn.Module):
    """The peer: a plain module."""

    def __init__(self, start: TwoLayer):
        super().__init__()
        self.w = torch.nn.Parameter(start.w[0].clone())
        self.b = torch.nn.Parameter(start.b[0].clone())
        self.a = torch.nn.Parameter(start.a[0].clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.w, self.b).clamp(0, 1) @ self.a


def ours(start: TwoLayer, x: torch.Tensor, y: torch.Tensor) -> TwoLayer:
    """The engine under test."""
    return fit(start, x, y, [Stage(STEPS, RATE, RATE, RATE, batch=BATCH)], Key("batches")).net


def loop(start: TwoLayer, x: torch.Tensor, y: torch.Tensor) -> TwoLayer:
    """One network after another, as a user would write it."""
    done = []
    for i in range(len(start)):
        net = Net(start[i : i + 1])
        optimiser = torch.optim.SGD(net.parameters(), lr=RATE)
        for rows in batches(len(x), BATCH, STEPS, Key("batches") / 0):
            rows = rows.to(x.device)
            optimiser.zero_grad()
            torch.relu(1 - y[rows] * net(x[rows])).mean().backward()
            optimiser.step()
        done.append(TwoLayer(net.w.data[None], net.b.data[None], net.a.data[None]))
    return stack(done)


def jax_run(start: TwoLayer, x: torch.Tensor, y: torch.Tensor):
    """(compile seconds, a function that trains) or None where JAX is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    params = tuple(jnp.asarray(p.cpu().numpy()) for p in (start.w, start.b, start.a))
    data, labels = jnp.asarray(x.cpu().numpy()), jnp.asarray(y.cpu().numpy())
    order = jnp.asarray(torch.stack(list(batches(len(x), BATCH, STEPS, Key("batches") / 0))).numpy())

    def loss(p, rows):
        w, b, a = p
        score = jnp.clip(data[rows] @ w.T + b, 0, 1) @ a
        return jnp.maximum(1 - labels[rows] * score, 0).mean()

    def step(p, rows):
        grads = jax.vmap(jax.grad(loss), (0, None))(p, rows)
        return tuple(v - RATE * g for v, g in zip(p, grads, strict=True)), None

    train = jax.jit(lambda p: jax.lax.scan(step, p, order)[0])
    begin = time.perf_counter()
    compiled = train.lower(params).compile()
    compile_seconds = time.perf_counter() - begin
    return compile_seconds, lambda: jax.block_until_ready(compiled(params))


def products(start: TwoLayer, x: torch.Tensor) -> None:
    """The matrix products alone: forward and weight gradient of every step, as one wide product each."""
    w = start.w.reshape(-1, D)
    part = x[:BATCH].contiguous()
    z = torch.empty(BATCH, len(w), device=x.device)
    g = torch.empty_like(w)
    for _ in range(STEPS):
        torch.mm(part, w.T, out=z)
        torch.mm(z.T, part, out=g)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=16)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args()
    key = Key("benchmark")
    x = torch.randn(N, D, generator=(key / "x").torch()) / D**0.5
    y = torch.where(torch.randn(N, generator=(key / "y").torch()) > 0, 1.0, -1.0)
    nets = [gaussian_init(M, D, key / i, sigma_w=1.0, sigma_b=0.3, sigma_a=0.1) for i in range(args.networks)]
    start = stack(nets).to(args.device)
    x, y = x.to(args.device), y.to(args.device)
    peer = jax_run(start, x, y)
    runs = {
        "ours": lambda: ours(start, x, y),
        "loop": lambda: loop(start, x, y),
        "products": lambda: products(start, x),
    }
    if peer is not None:
        runs["jax"] = peer[1]
    middle, ends = in_turns(runs, args.repeats, args.device)
    apart = float((ends["ours"].w - ends["loop"].w).abs().max())
    out = {
        "networks": args.networks,
        "d": D,
        "m": M,
        "batch": BATCH,
        "steps": STEPS,
        **machine(args.device),
        "seconds": {k: round(v, 4) for k, v in middle.items()},
        "loop / ours": round(middle["loop"] / middle["ours"], 2),
        "products / ours": round(middle["products"] / middle["ours"], 2),
        "largest weight difference to the loop": apart,
    }
    if peer is not None:
        out["jax / ours"] = round(middle["jax"] / middle["ours"], 2)
        out["jax compile seconds"] = round(peer[0], 2)
        out["largest weight difference to jax"] = float(
            (ends["ours"].w.cpu() - torch.from_numpy(numpy.array(ends["jax"][0]))).abs().max()
        )
    flops = 4 * args.networks * M * D * BATCH * STEPS
    out["ours Gflop/s"] = round(flops / middle["ours"] / 1e9, 1)
    out["products Gflop/s"] = round(flops / middle["products"] / 1e9, 1)
    show(out, args.json)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
