"""Training steps of a k-th power network on modular addition: ours, and a plain PyTorch loop on one-hot inputs.

    python benchmarks/fourier.py [--k 3] [--p 47] [--batch 4096] [--steps 20] [--device cpu] [--repeats 3] [--json]

The work: the reported width m = 2^(2k-2) (p-1), `steps` steps of AdamW on `batch` points with the L_{2,k+1} penalty,
the same points and the same start. Ours: `featlearn.learn.fit_power`. Loop: one-hot inputs, einsum, autograd and
torch.optim.AdamW, as a user would write it. Both must end with the same weights. `products` is the time of the three
matrix products that every step needs (logits, and the gradients of both of their factors).
"""

import argparse

import torch
from _timing import in_turns, machine, show

from featlearn.core import Key
from featlearn.learn import PowerSchedule, fit_power
from featlearn.learn.schedules import batches
from featlearn.nets import PowerNetwork, power_init
from featlearn.tasks.modular_addition import decoder

KEY, PENALTY = Key("benchmark/fourier"), 0.01


def loop(start: PowerNetwork, train: torch.Tensor, s: PowerSchedule) -> PowerNetwork:
    """As a user would write it."""
    u, w = start.u.clone().requires_grad_(), start.w.clone().requires_grad_()
    k, p = start.k, start.p
    optimizer = torch.optim.AdamW([u, w], lr=s.rate, betas=s.betas, eps=1e-12, weight_decay=0.0)
    for step, index in enumerate(batches(len(train), s.batch, s.steps, KEY)):
        assert index is not None
        x, y = decoder(p, k)(train[index.to(train.device)])
        hot = torch.nn.functional.one_hot(x, p).to(u)
        logits = torch.einsum("njp,mjp->nm", hot, u) ** k @ w
        n = (u.square().sum((1, 2)) + w.square().sum(1)).sqrt()
        loss = torch.nn.functional.cross_entropy(logits, y) + PENALTY * (n ** (k + 1)).sum() ** (1 / (k + 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.param_groups[0]["lr"] = s.rate_at(step)
        optimizer.step()
    return PowerNetwork(u.detach(), w.detach())


def products(start: PowerNetwork, s: PowerSchedule) -> None:
    """The three products of every step, in blocks as large as the batch."""
    assert s.batch is not None
    act, delta = start.w.new_ones(s.batch, len(start)), start.w.new_ones(s.batch, start.p)
    for _ in range(s.steps):
        torch.mm(act, start.w)
        torch.mm(delta.T, act)
        torch.mm(delta, start.w.T, out=act)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--p", type=int, default=47)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args()
    m = 2 ** (2 * args.k - 2) * (args.p - 1)
    start = power_init(m, args.k, args.p, KEY / "start").to(args.device)
    train = torch.arange(args.p**args.k, device=args.device)
    s = PowerSchedule(steps=args.steps, batch=args.batch, penalty=PENALTY)

    runs = {
        "ours": lambda: fit_power(start, train, decoder(args.p, args.k), KEY, s).net,
        "loop": lambda: loop(start, train, s),
        "products": lambda: products(start, s),
    }
    seconds, ended = in_turns(runs, args.repeats, args.device)
    flops = 6.0 * args.batch * m * args.p * args.steps
    show(
        {
            "k": args.k,
            "p": args.p,
            "m": m,
            "batch": args.batch,
            "steps": args.steps,
            **machine(args.device),
            "seconds": seconds,
            "loop / ours": round(seconds["loop"] / seconds["ours"], 2),
            "products / ours": round(seconds["products"] / seconds["ours"], 2),
            "ours Gflop/s": round(flops / seconds["ours"] / 1e9, 1),
            "products Gflop/s": round(flops / seconds["products"] / 1e9, 1),
            "largest weight difference": float((ended["ours"].u - ended["loop"].u).abs().max()),
            "largest weight": float(ended["loop"].u.abs().max()),
            "largest change": float((ended["loop"].u - start.u).abs().max()),
        },
        args.json,
    )


if __name__ == "__main__":
    main()
