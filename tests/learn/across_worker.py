"""One of two processes: trains by every method on its half of each batch, and keeps what came of it.

`featlearn` finds its group by torch.distributed alone here; the test of Accelerate itself runs the same with it.
"""

import sys
from pathlib import Path

import torch
from torch import nn

from featlearn.core import Key
from featlearn.learn.contrastive import Contrastive, JointEmbedding, NoiseViews, pretrain_across
from featlearn.learn.contrastive.across import _objective

KEY = Key("tests/across")
N, BATCH = 24, 8
METHODS = ("simclr", "moco", "nnclr", "simsiam", "simcse", "mocov3", "byol", "barlow")


def settings(method: str) -> Contrastive | JointEmbedding:
    if method in ("mocov3", "byol", "barlow"):
        return JointEmbedding(method, epochs=2, batch=BATCH, dim=4, hidden=6)
    return Contrastive(method, epochs=2, batch=BATCH, dim=4, hidden=6, queue=12)


def encoder() -> nn.Module:
    """A convolution and a linear map, with batch norm behind both."""
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5), nn.BatchNorm1d(5)
        )
    return net


def images() -> torch.Tensor:
    """Later ones are brighter, so that halves of a batch have other means than the whole."""
    x = torch.rand(N, 1, 8, 8, generator=(KEY / "images").torch())
    return x * torch.linspace(0.5, 3, N)[:, None, None, None]


def gradients(method: str, together, mine: slice | None = None) -> dict[str, torch.Tensor]:
    """Loss and gradients of one step on one batch, of which this process has its share."""
    objective = _objective(encoder(), 5, settings(method), KEY / "head", together)[0]
    share = BATCH // together.count
    mine = mine or slice(together.index * share, (together.index + 1) * share)
    x1, x2 = images()[:BATCH], NoiseViews(0.3, 0.0)(images()[:BATCH], KEY / "view")
    done = objective(x1[mine], x2[mine])
    done.loss.backward()
    together.gradients([p for p in objective.parameters() if p.grad is not None])
    found = {name: p.grad for name, p in objective.named_parameters() if p.grad is not None}
    return {"loss": done.loss.detach(), **found, **{f"buffer {k}": v for k, v in objective.named_buffers()}}


def everything(together) -> dict:
    out = {}
    for method in METHODS:
        run = pretrain_across(
            encoder(), images(), settings(method), key=KEY, processes=together, views=NoiseViews(0.3, 0.1)
        )
        trace = [[e.loss, e.matched, e.spread, e.rank] for e in run.trace]
        out[method] = {
            "trace": torch.tensor(trace),
            "encoder": run.encoder.state_dict(),
            "projection": run.projection.state_dict(),
            "step": gradients(method, together),
        }
    return out


def main(out: str) -> None:
    from featlearn.apply.domains.distributed import Accelerated

    together = Accelerated()
    assert together.count == 2
    assert together.device.type == "cpu"
    assert together.gathered([together.index, 7]) == [[0, 7], [1, 7]]
    found = everything(together)
    path = Path(out) / "run.pt"
    twice = [
        pretrain_across(
            encoder(), images(), settings("moco"), key=KEY, processes=together, views=NoiseViews(), checkpoint=path
        )
        for _ in range(2)
    ]
    assert twice[0].trace == twice[1].trace
    torch.save(found, Path(out) / f"process{together.index}.pt")


if __name__ == "__main__":
    main(sys.argv[1])
