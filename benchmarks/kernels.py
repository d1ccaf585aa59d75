"""Kernels of many points: the analytic NTK against neural-tangents, the empirical one against torch.func.

    python benchmarks/kernels.py --peer /path/to/python --out evidence/benchmarks/kernels_cpu.json
    python benchmarks/kernels.py --points 1000          # neural-tangents: "not measured" without --peer

analytic: NTK of a ReLU network of three layers in float64, `deep_gram` against `neural-tangents` under `jax.jit`, all
variances 1. --peer is the Python of an environment with neural-tangents 0.6.5, jax and jaxlib 0.4.30, numpy < 2,
scipy < 1.13, and tf2jax 0.3.5 without its dependencies. The peer runs in its own process and times itself without
imports, compilation and files.

empirical: the trace over outputs of the NTK of a small network in float32, `empirical_ntk` against the two ways of
PyTorch's tutorial on the same weights: products of Jacobians (in blocks that fit the same memory), and NTK-vector
products. Both take time for each pair of points: the latter are measured on --pairs points, the former on --jacobians
points if given, and their seconds are multiplied to all points ("measured" is what was measured, "scaled to" how many).

Seconds are medians on a clock; `processor seconds` are those of all threads of the process, which other work on the
machine changes little. `difference`: largest difference of two kernels over the largest entry of the peer's; targets
1e-6 and 1e-5. `ahead`: processor seconds of the peer over ours; target above 1.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _timing import machine
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap

from featlearn.core import Key
from featlearn.kernels import deep_gram, empirical_ntk

KEY = Key("benchmarks/kernels")
PEER = """
import json, os, sys, time
os.environ["JAX_ENABLE_X64"] = "1"
import jax, numpy as np
from neural_tangents import stax
folder, repeats = sys.argv[1], int(sys.argv[2])
x = np.load(folder + "/x.npy")
hidden = lambda: stax.Dense(1, W_std=1.0, b_std=1.0)
last = stax.Dense(1, W_std=1.0, b_std=None)
kernel = stax.serial(hidden(), stax.Relu(), hidden(), stax.Relu(), last)[2]
made, clocks = jax.jit(kernel, static_argnames=("get",)), []
for _ in range(repeats + 1):
    wall, busy = time.perf_counter(), time.process_time()
    # its first layer divides by the number of coordinates, ours does not
    k = made(x * x.shape[1] ** 0.5, None, get="ntk").block_until_ready()
    clocks.append((time.perf_counter() - wall, time.process_time() - busy))
np.save(folder + "/k.npy", np.asarray(k))
print(json.dumps(clocks[1:]))
"""


def timed(run: Callable[[], Tensor], repeats: int, warm: bool = True) -> tuple[dict[str, float], Tensor]:
    """Median seconds and processor seconds, and the last value."""
    out = run() if warm else torch.zeros(0)
    clocks = []
    for _ in range(repeats):
        wall, busy = time.perf_counter(), time.process_time()
        out = run()
        clocks.append((time.perf_counter() - wall, time.process_time() - busy))
    return medians(clocks), out


def medians(clocks: list[tuple[float, float]]) -> dict[str, float]:
    """Of pairs of a clock's and a processor's seconds."""
    wall, busy = (statistics.median(column) for column in zip(*clocks, strict=True))
    return {"seconds": round(wall, 3), "processor seconds": round(busy, 3)}


def compared(ours: dict[str, float], theirs: dict[str, float], difference: float, target: float) -> dict[str, Any]:
    """A peer beside ours."""
    ahead = round(theirs["processor seconds"] / ours["processor seconds"], 2)
    return {
        **theirs,
        "ahead": ahead,
        "difference": difference,
        "targets": {"ahead > 1": ahead > 1, f"difference <= {target}": difference <= target},
    }


def apart(ours: Tensor, theirs: Tensor) -> float:
    """Largest difference over the largest entry."""
    return float((ours - theirs.to(ours)).abs().max() / theirs.abs().max())


def analytic(x: Tensor, peer: str | None, repeats: int) -> dict[str, Any]:
    """Ours and neural-tangents."""
    seconds, ours = timed(lambda: deep_gram(x, bias_var=1.0), repeats)
    out: dict[str, Any] = {"deep_gram": seconds, "neural-tangents": "not measured: no --peer"}
    if peer:
        with tempfile.TemporaryDirectory() as folder:
            np.save(f"{folder}/x.npy", x.numpy())
            command = [peer, "-c", PEER, folder, str(repeats)]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)  # none of our files beside it
            if done.returncode:
                out["neural-tangents"] = f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
                return out
            theirs = torch.from_numpy(np.load(f"{folder}/k.npy"))
        clocks = medians(json.loads(done.stdout.splitlines()[-1]))
        out["neural-tangents"] = compared(seconds, clocks, apart(ours, theirs), 1e-6)
        off = ~torch.eye(len(x), dtype=torch.bool)
        out["neural-tangents"]["difference off the diagonal"] = apart(ours[off], theirs[off])
    return out


def by_jacobians(net: nn.Module, x: Tensor, block: int) -> Tensor:
    """The tutorial's products of Jacobians, in blocks."""
    weights = {k: p.detach() for k, p in net.named_parameters()}

    def single(weights: dict[str, Tensor], sample: Tensor) -> Tensor:
        return functional_call(net, weights, (sample[None],))[0]

    def rows(part: Tensor) -> list[Tensor]:
        return [j.flatten(2) for j in vmap(jacrev(single), (None, 0))(weights, part).values()]

    out = torch.empty(len(x), len(x))
    parts = list(range(0, len(x), block))
    for i in parts:
        left = rows(x[i : i + block])
        for j in parts:
            right = rows(x[j : j + block])
            sums = [torch.einsum("naf,maf->nm", u, v) for u, v in zip(left, right, strict=True)]
            out[i : i + block, j : j + block] = torch.stack(sums).sum(0)
    return out


def by_products(net: nn.Module, x: Tensor) -> Tensor:
    """The tutorial's NTK-vector products, one for each output of each pair."""
    weights = {k: p.detach() for k, p in net.named_parameters()}

    def pair(u: Tensor, v: Tensor) -> Tensor:
        def at_u(w: dict[str, Tensor]) -> Tensor:
            return functional_call(net, w, (u[None],))[0]

        def at_v(w: dict[str, Tensor]) -> Tensor:
            return functional_call(net, w, (v[None],))[0]

        out, pull = vjp(at_u, weights)
        basis = torch.eye(len(out))
        full = vmap(lambda row: jvp(at_v, (weights,), pull(row))[1])(basis)
        return full.trace()

    return vmap(lambda u: vmap(lambda v: pair(u, v))(x))(x)


def scaled(ours: dict[str, float], some: dict[str, float], k: Tensor, theirs: Tensor, n: int) -> dict[str, Any]:
    """A peer beside ours whose time was taken on fewer points and grows as their square."""
    few = len(theirs)
    whole = {name: round(value * (n / few) ** 2, 1) for name, value in some.items()}
    said = compared(ours, whole, apart(k[:few, :few], theirs), 1e-5)
    return {"points": few, "measured": some, "scaled to": n, **said} if few < n else said


def empirical(x: Tensor, args: argparse.Namespace) -> dict[str, Any]:
    """Ours and both ways of the tutorial."""
    net = nn.Sequential(
        nn.Linear(x.shape[1], args.width),
        nn.ReLU(),
        nn.Linear(args.width, args.width),
        nn.ReLU(),
        nn.Linear(args.width, 10),
    )
    for name, p in net.named_parameters():
        p.data = torch.randn(p.shape, generator=(KEY / name).torch()) / max(1, p.shape[-1]) ** 0.5
    x = x.float()
    numbers = sum(p.numel() for p in net.parameters())
    given = {"dtype": torch.float32, "memory_mib": args.memory_mib}
    plan: list[str] = []
    seconds, ours = timed(lambda: empirical_ntk(net, x, report=plan.append, **given), args.repeats)
    out: dict[str, Any] = {"weights": numbers, "plan": plan[0], "empirical_ntk": seconds}
    block = max(1, min(len(x), int(args.memory_mib * 2**20 / (2 * 4 * 10 * numbers))))
    few = x[: args.jacobians or len(x)]
    some, k = timed(lambda: by_jacobians(net, few, block), 1, warm=False)
    out["torch.func, Jacobians"] = {"block": block, **scaled(seconds, some, ours, k, len(x))}
    few = x[: args.pairs]
    some, k = timed(lambda: by_products(net, few), 1)
    out["torch.func, products"] = scaled(seconds, some, ours, k, len(x))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Kernels against neural-tangents and torch.func")
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--dim", type=int, default=50)
    parser.add_argument("--width", type=int, default=64, help="of the network of the empirical kernel")
    parser.add_argument(
        "--jacobians", type=int, help="points on which products of Jacobians are measured; all if left out"
    )
    parser.add_argument("--pairs", type=int, default=100, help="points on which NTK-vector products are measured")
    parser.add_argument("--memory-mib", type=float, default=1024.0, help="of both ways by gradients")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peer", help="the Python that has neural-tangents; not measured if left out")
    parser.add_argument("--threads", type=int, help="of torch; as it chooses if left out")
    parser.add_argument("--out", type=Path, help="write the JSON document here; without it, print it")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    x = torch.randn(args.points, args.dim, generator=(KEY / "x").torch(), dtype=torch.float64)
    out = {
        **machine("cpu"),
        "points": args.points,
        "coordinates": args.dim,
        "analytic": analytic(x, args.peer, args.repeats),
        "empirical": empirical(x, args),
    }
    text = json.dumps(out, indent=1)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
