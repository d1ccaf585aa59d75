"""The XOR sweep: an ensemble over seeds and step sizes on new minibatches. Ours, a loop of autograd networks, JAX.

    python benchmarks/xor_sgd.py [--d 256] [--batch 64] [--seeds 5] [--device cpu] [--repeats 3]

The work: `seeds` x 6 networks of 100 ReLU neurons, all step sizes of a seed on the same new samples of the cube,
20 d samples in all, logistic loss. Ours: `featlearn.learn.fit_one_pass`. Loop: autograd and torch.optim.SGD, one
network after another, the samples of a seed drawn once for all of its step sizes. JAX (optional, a benchmark peer
only): value and gradient, vmap over step sizes and seeds, scan over steps, jit, compilation timed apart: once drawing
its samples in every step as the others do (`jax`, other samples), once with the same samples ready in memory, so that
drawing costs it nothing (`jax, given`), which must end with the same weights as ours and the loop. `products` is the
time of the two matrix products of every step alone.
"""

import argparse
import os
import time

import numpy
import torch
from _timing import in_turns, machine, show

from featlearn.core import Key
from featlearn.learn import Stage, fit_one_pass
from featlearn.learn.one_pass import DRAWN_FLOATS
from featlearn.nets import TwoLayer, mean_field_rates, sphere_init, stack
from featlearn.tasks import BooleanXor

P, THETA, NOISE = 100, 0.1, (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
KEY = Key("benchmark/xor")


def start_of(d: int, seeds: int, batch: int) -> tuple[TwoLayer, list[int], torch.Tensor]:
    """The ensemble, the seed of each member and its step size."""
    nets, sets, eta = [], [], []
    for seed in range(seeds):
        one = sphere_init(P, d, KEY / "start" / seed, theta=THETA)
        nets += [one] * len(NOISE)
        sets += [seed] * len(NOISE)
        eta += [noise * batch / d for noise in NOISE]
    return stack(nets), sets, torch.tensor(eta)


def sampler(d: int, device: str):
    """(n, key) -> x, y on the device."""
    task = BooleanXor(d=d)
    truth = task.draw(KEY)

    def sample(n: int, key: Key):
        batch = task.sample(truth, n, key, device)
        return batch.x, batch.y

    return sample


def stream(d: int, batch: int, steps: int, seed: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """All samples of one seed, as the engine draws them."""
    sample, each = sampler(d, device), max(1, DRAWN_FLOATS // (batch * d))
    parts = [sample(min(each, steps - c * each) * batch, KEY / "data" / 0 / seed / c) for c in range(-(-steps // each))]
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])


def ours(net: TwoLayer, sets: list[int], eta: torch.Tensor, d: int, batch: int, steps: int, device: str) -> TwoLayer:
    """The engine under test."""
    rate_w, rate_a = mean_field_rates(eta, P)
    stage = Stage(steps, rate_w, 0.0, rate_a, batch=batch)
    return fit_one_pass(net, sampler(d, device), [stage], KEY / "data", sets=sets).net


def loop(net: TwoLayer, sets: list[int], eta: torch.Tensor, d: int, batch: int, steps: int, device: str) -> TwoLayer:
    """One network after another, as a user would write it."""
    done = []
    for i in range(len(net)):
        if not i or sets[i] != sets[i - 1]:
            x, y = stream(d, batch, steps, sets[i], device)
        w, a = (t[i].clone().requires_grad_() for t in (net.w, net.a))
        rate_w, rate_a = mean_field_rates(float(eta[i]), P)
        optimiser = torch.optim.SGD([{"params": [w], "lr": rate_w}, {"params": [a], "lr": rate_a}])
        for t in range(steps):
            part = slice(t * batch, (t + 1) * batch)
            optimiser.zero_grad()
            score = torch.relu(x[part] @ w.T) @ a
            torch.nn.functional.softplus(-y[part] * score).mean().backward()
            optimiser.step()
        done.append(TwoLayer(w.detach()[None], net.b[i : i + 1], a.detach()[None], "relu"))
    return stack(done)


def jax_run(net: TwoLayer, sets: list[int], eta: torch.Tensor, d: int, batch: int, steps: int):
    """(compile seconds, training on given samples, training on its own) or None where JAX is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    seeds, r = len(set(sets)), len(NOISE)
    streams = [stream(d, batch, steps, seed, "cpu") for seed in dict.fromkeys(sets)]
    xs = jnp.asarray(torch.stack([s[0] for s in streams]).view(seeds, steps, batch, d).transpose(0, 1).numpy())
    ys = jnp.asarray(torch.stack([s[1] for s in streams]).view(seeds, steps, batch).transpose(0, 1).numpy())
    w0 = jnp.asarray(net.w.cpu().numpy().reshape(seeds, r, P, d))
    a0 = jnp.asarray(net.a.cpu().numpy().reshape(seeds, r, P))
    rate_w, rate_a = (jnp.asarray(v.numpy().reshape(seeds, r)) for v in mean_field_rates(eta, P))

    def loss(params, x, y):
        w, a = params
        return jax.nn.softplus(-y * (jax.nn.relu(x @ w.T) @ a)).mean()

    members = jax.vmap(jax.vmap(jax.grad(loss), (0, None, None)), (0, 0, 0))

    def step(params, data):
        dw, da = members(params, *data)
        return (params[0] - rate_w[..., None, None] * dw, params[1] - rate_a[..., None] * da), None

    def drawn(params, key):
        x = jax.random.rademacher(key, (seeds, batch, d), dtype=jnp.float32)
        return step(params, (x, -x[..., 0] * x[..., 1]))

    keys = jax.random.split(jax.random.key(0), steps)
    begin = time.perf_counter()
    given = jax.jit(lambda p, xs, ys: jax.lax.scan(step, p, (xs, ys))[0]).lower((w0, a0), xs, ys).compile()
    own = jax.jit(lambda p, keys: jax.lax.scan(drawn, p, keys)[0]).lower((w0, a0), keys).compile()
    return (
        time.perf_counter() - begin,
        lambda: jax.block_until_ready(given((w0, a0), xs, ys)),
        lambda: jax.block_until_ready(own((w0, a0), keys)),
    )


def products(net: TwoLayer, seeds: int, d: int, batch: int, steps: int) -> None:
    """The matrix products alone, all step sizes of a seed as one."""
    w = net.w.view(seeds, -1, d)
    x = torch.ones(seeds, batch, d, device=net.w.device)
    z, g = torch.empty(seeds, batch, w.shape[1], device=net.w.device), torch.empty_like(w)
    for _ in range(steps):
        torch.bmm(x, w.transpose(1, 2), out=z)
        torch.bmm(z.transpose(1, 2), x, out=g)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, default=256)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args()
    d, batch, steps = args.d, args.batch, max(1, 20 * args.d // args.batch)
    net, sets, eta = start_of(d, args.seeds, batch)
    net = net.to(args.device)
    given = (net, sets, eta, d, batch, steps, args.device)
    peer = jax_run(net, sets, eta, d, batch, steps)
    runs = {
        "ours": lambda: ours(*given),
        "loop": lambda: loop(*given),
        "products": lambda: products(net, args.seeds, d, batch, steps),
    }
    if peer is not None:
        runs["jax, given"], runs["jax"] = peer[1], peer[2]
    middle, ends = in_turns(runs, args.repeats, args.device)
    out = {
        "networks": len(net),
        "d": d,
        "p": P,
        "batch": batch,
        "steps": steps,
        **machine(args.device),
        "seconds": {k: round(v, 4) for k, v in middle.items()},
        "loop / ours": round(middle["loop"] / middle["ours"], 2),
        "products / ours": round(middle["products"] / middle["ours"], 2),
        "largest weight difference to the loop": float((ends["ours"].w - ends["loop"].w).abs().max()),
        "largest weight": float(ends["ours"].w.abs().max()),
    }
    if peer is not None:
        for name in ("jax", "jax, given"):
            out[f"{name} / ours"] = round(middle[name] / middle["ours"], 2)
        out["jax compile seconds"] = round(peer[0], 2)
        theirs = torch.from_numpy(numpy.array(ends["jax, given"][0])).view_as(ends["ours"].w)
        out["largest weight difference to jax"] = float((ends["ours"].w.cpu() - theirs).abs().max())
    flops = 4 * len(net) * P * d * batch * steps
    out["ours Gflop/s"] = round(flops / middle["ours"] / 1e9, 1)
    out["products Gflop/s"] = round(flops / middle["products"] / 1e9, 1)
    show(out, args.json)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    main()
