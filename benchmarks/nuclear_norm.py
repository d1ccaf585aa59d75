"""What the nuclear norm of a batch of features costs: forward and backward, against torch.svd and a ResNet-50 step.

    python benchmarks/nuclear_norm.py --device cuda --out evidence/benchmarks/nuclear_norm_cuda.json
    python benchmarks/nuclear_norm.py --device cpu --batches 32 96

reported: torch.svd and the sum of its singular values, as the listing of the paper. svd, gram, newton-schulz: the
methods of `nuclear_norm`. Features are batch x 2048 (width of a ResNet-50), float32. Seconds are medians of runs in
turns. step: one training step of torchvision's ResNet-50 at the same batch, forward, backward and Adam, 224 x 224
pixels (left out where torchvision is missing; on a CPU one repeat, about half a second an image).

`speed-up`: seconds of reported over those of the method; target 3 for the method that "auto" takes. `share`: seconds of
the method over those of the step; target 0.1 on a GPU. `gradient`: largest difference from U V' of float64.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _timing import in_turns, machine
from torch import Tensor

from featlearn.core import Key
from featlearn.methods.nuclear_norm import nuclear_norm

METHODS = ("svd", "gram", "newton-schulz")
SPEED_UP, SHARE = 3.0, 0.1


def reported(features: Tensor) -> Tensor:
    """As the listing has it."""
    _, s, _ = torch.svd(features)
    return torch.sum(s)


def backward(norm: Callable[[Tensor], Tensor], features: Tensor) -> Callable[[], Tensor]:
    """A run that gives the gradient of a norm."""

    def run() -> Tensor:
        leaf = features.detach().requires_grad_()
        norm(leaf).backward()
        assert leaf.grad is not None
        return leaf.grad

    return run


def features_like(batch: int, width: int, kind: str, device: str) -> Tensor:
    """relu: half of a normal law, as behind a ReLU; low: the same of rank 8, plus a hundredth of noise."""
    draw = (Key("benchmarks/nuclear_norm") / kind / batch).torch()
    if kind == "relu":
        return torch.randn(batch, width, generator=draw).relu().to(device)
    few = torch.randn(batch, 8, generator=draw) @ torch.randn(8, width, generator=draw)
    return (few + 0.01 * torch.randn(batch, width, generator=draw)).to(device)


def resnet_step(batch: int, device: str, precision: str) -> Callable[[], Any] | None:
    """One training step, or None without torchvision."""
    try:
        from torchvision.models import resnet50  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        return None
    net = resnet50(weights=None, num_classes=7).to(device).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-5)
    draw = Key("benchmarks/nuclear_norm/images").torch()
    x = torch.randn(batch, 3, 224, 224, generator=draw).to(device)
    y = torch.randint(7, (batch,), generator=draw).to(device)

    def run() -> None:
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return run


def one_batch(batch: int, args: argparse.Namespace, auto: str) -> dict[str, Any]:
    """All runs at one batch."""
    step = None if args.no_step else resnet_step(batch, args.device, args.precision)
    step_seconds = None
    if step is not None:
        step_seconds = in_turns({"step": step}, args.repeats if args.device == "cuda" else 1, args.device)[0]["step"]
    out: dict[str, Any] = {"batch": batch, "step seconds": step_seconds, "features": {}}
    for kind in ("relu", "low"):
        features = features_like(batch, args.width, kind, args.device)
        runs = {"reported": backward(reported, features)}
        for method in METHODS:
            runs[method] = backward(lambda f, method=method: nuclear_norm(f, "sum", method), features)
        seconds, gradients = in_turns(runs, args.repeats, args.device)
        u, _, vh = torch.linalg.svd(features.double(), full_matrices=False)
        found = {}
        for name in runs:
            found[name] = {
                "seconds": round(seconds[name], 6),
                "speed-up": round(seconds["reported"] / seconds[name], 2),
                "gradient": float((gradients[name].double() - u @ vh).abs().max()),
            }
            if step_seconds:
                found[name]["share"] = round(seconds[name] / step_seconds, 4)
        out["features"][kind] = found
        out.setdefault("targets", {})[f"{kind}: {auto} speed-up >= {SPEED_UP}"] = found[auto]["speed-up"] >= SPEED_UP
        if step_seconds and args.device == "cuda":
            out["targets"][f"{kind}: {auto} share <= {SHARE}"] = found[auto]["share"] <= SHARE
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of the nuclear norm")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=(32, 64, 96, 128))
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32", help="of the step")
    parser.add_argument("--no-step", action="store_true", help="leave the ResNet-50 step out")
    parser.add_argument("--threads", type=int, help="of torch; as it chooses if left out")
    parser.add_argument("--out", type=Path, help="write the JSON document here; without it, print it")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    auto = "newton-schulz" if args.device == "cuda" else "gram"
    found = [one_batch(batch, args, auto) for batch in args.batches]
    out = {
        **machine(args.device),
        "width": args.width,
        "repeats": args.repeats,
        "precision of the step": args.precision,
        "auto": auto,
        "batches": found,
    }
    text = json.dumps(out, indent=1)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
