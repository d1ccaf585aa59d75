"""Throughput of contrastive pretraining against lightly's own loop, on the same model, views and images, in turns.

    python benchmarks/contrastive.py --threads 1 --out evidence/benchmarks/contrastive_cpu.json
    python benchmarks/contrastive.py --device cuda --encoder resnet18 --size 32 --channels 3 --batch 512

ours: `featlearn.learn.pretrain`, with its trace of chance, matches and collapse. lightly: the loop of its examples for
SimCLR, MoCo, NNCLR and SimSiam (encoder, head, loss, SGD; it has no SimCSE), given batches by index, without a loader,
and the same views, so that what is compared is the loop. Seconds are medians of whole runs of some epochs, interleaved.
`ratio`: seconds of ours over those of lightly; target at most 1.1. `images a second`: of ours.
"""

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _timing import in_turns, machine
from lightly import loss as losses
from lightly.models import utils
from lightly.models.modules import NNMemoryBankModule, heads
from torch import Tensor, nn

from featlearn.core import Key
from featlearn.learn import Contrastive, ImageViews, pretrain
from featlearn.nets import SmallEncoder, SmallResNet

KEY = Key("benchmarks/contrastive")
TARGET = 1.1


def lightly_loop(encoder: nn.Module, images: Tensor, settings: Contrastive, device: str) -> Callable[[], float]:
    """A run of lightly's loop for one method; its value is the last loss."""

    def run() -> float:
        torch.manual_seed(0)
        body = copy.deepcopy(encoder).to(device).train()
        width, dim, views = encoder.features, settings.dim, ImageViews()
        kind = {
            "simclr": heads.SimCLRProjectionHead,
            "moco": heads.MoCoProjectionHead,
            "nnclr": heads.NNCLRProjectionHead,
            "simsiam": heads.SimSiamProjectionHead,
        }[settings.method]
        model = nn.Sequential(body, kind(width, width, dim).to(device))
        learned = list(model.parameters())
        if settings.method == "simclr":
            criterion = losses.NTXentLoss(settings.heat)
        elif settings.method == "moco":
            slow = copy.deepcopy(model)
            utils.deactivate_requires_grad(slow)
            criterion = losses.NTXentLoss(settings.heat, memory_bank_size=(settings.queue, dim)).to(device)
        elif settings.method == "nnclr":
            predict = heads.NNCLRPredictionHead(dim, width, dim).to(device)
            learned += list(predict.parameters())
            criterion = losses.NTXentLoss(settings.heat)
            nearest = NNMemoryBankModule(size=(settings.queue, dim)).to(device)
        else:
            predict = heads.SimSiamPredictionHead(dim, dim // 4, dim).to(device)
            learned += list(predict.parameters())
            criterion = losses.NegativeCosineSimilarity()
        optimizer = torch.optim.SGD(learned, lr=0.06, momentum=0.9, weight_decay=5e-4)
        here = images.to(device)
        for epoch in range(settings.epochs):
            for step, rows in enumerate(torch.randperm(len(images)).to(device).split(settings.batch)):
                if len(rows) < settings.batch:
                    break
                x1, x2 = (views(here[rows], KEY / epoch / step / i) for i in (0, 1))
                if settings.method == "moco":
                    utils.update_momentum(model, slow, settings.slow)
                    with torch.no_grad():
                        k = slow(x2)
                    loss = criterion(model(x1), k)
                elif settings.method == "simclr":
                    loss = criterion(model(x1), model(x2))
                elif settings.method == "nnclr":
                    z1, z2 = model(x1), model(x2)
                    p1, p2 = predict(z1), predict(z2)
                    n1, n2 = nearest(z1.detach(), update=False), nearest(z2.detach(), update=True)
                    loss = 0.5 * (criterion(n1, p2) + criterion(n2, p1))
                else:
                    z1, z2 = model(x1), model(x2)
                    loss = 0.5 * (criterion(predict(z1), z2.detach()) + criterion(predict(z2), z1.detach()))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        return float(loss.detach())

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description="Throughput of contrastive pretraining")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--encoder", choices=("small", "resnet18"), default="small")
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--size", type=int, default=14)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, help="of torch; as it chooses if left out")
    parser.add_argument("--out", type=Path, help="write the JSON document here; without it, print it")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    net = SmallEncoder(args.channels, KEY) if args.encoder == "small" else SmallResNet(args.channels, KEY)
    images = torch.rand(args.images, args.channels, args.size, args.size, generator=(KEY / "images").torch())
    found: dict[str, Any] = {}
    for method in ("simclr", "moco", "nnclr", "simsiam"):
        settings = Contrastive(method, epochs=args.epochs, batch=args.batch, queue=min(4096, args.images))
        runs = {
            "ours": lambda s=settings: pretrain(net, images, s, key=KEY, device=args.device).trace[-1].loss,
            "lightly": lightly_loop(net, images, settings, args.device),
        }
        seconds, ends = in_turns(runs, args.repeats, args.device)
        seen = args.images // args.batch * args.batch * args.epochs
        found[method] = {
            "seconds": {name: round(value, 4) for name, value in seconds.items()},
            "images a second": round(seen / seconds["ours"]),
            "ratio": round(seconds["ours"] / seconds["lightly"], 3),
            "losses": {name: round(value, 3) for name, value in ends.items()},
        }
    asked = {k: v for k, v in vars(args).items() if k not in ("out", "threads", "device")}
    targets = {f"{m}: ratio <= {TARGET}": row["ratio"] <= TARGET for m, row in found.items()}
    text = json.dumps({**machine(args.device), **asked, "methods": found, "targets": targets}, indent=1)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
