"""Whether early gradients agree: mean gradients of three windows of ten steps, as the loop leaves them in p.grad."""

import math

import torch
from torch import Tensor, nn

from featlearn.apply.watch.records import Agreement
from featlearn.core import Key

WINDOW, WINDOWS = 10, 3
MOST = 10**6
"""Coordinates that are looked at; of more, as many are drawn."""
PAIRS = ((0, 1), (0, 2), (1, 2))


class Gradients:
    """Sums of gradients over windows of steps. Gradients are read, and nothing is written to the model."""

    def __init__(self, model: nn.Module, key: Key) -> None:
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad and p.is_floating_point()}
        self.of = sum(p.numel() for p in trained.values())
        self.drawn: list[tuple[Tensor, Tensor | None]] = []
        for name, p in trained.items():
            rows = None
            if self.of > MOST:
                count = max(1, MOST * p.numel() // self.of)
                rows = torch.randint(p.numel(), (count,), generator=(key / "gradients" / name).torch())
                rows = rows.sort().values.to(p.device)
            self.drawn.append((p, rows))
        self.coordinates = sum(p.numel() if rows is None else len(rows) for p, rows in self.drawn)
        self.sums: list[Tensor | None] = [None] * WINDOWS
        self.counts = [0] * WINDOWS
        self.asked = self.missing = self.broken = 0

    def see(self, step: int) -> None:
        """Take the gradients that are there after a step, which counts from 1."""
        window = (step - 1) // WINDOW
        if window >= WINDOWS:
            return
        self.asked += 1
        if all(p.grad is None for p, _ in self.drawn):
            self.missing += 1
            return
        with torch.inference_mode(False), torch.no_grad():
            seen = torch.cat([_picked(p, rows) for p, rows in self.drawn])
            if not bool(torch.isfinite(seen.sum())):
                self.broken += 1
                return
            before = self.sums[window]
            self.sums[window] = seen if before is None else before.add_(seen)
            self.counts[window] += 1

    def result(self) -> Agreement:
        """Cosines of all pairs, where all windows have their ten steps; else why not."""
        why = ""
        if self.missing == self.asked:
            why = "none was seen: call step() after the optimiser's step and before gradients are set to None"
        elif self.asked < WINDOW * WINDOWS:
            why = f"of {WINDOW * WINDOWS} steps, {self.asked} were made"
        elif self.missing or self.broken:
            why = f"steps without gradients: {self.missing}; with some that are not finite: {self.broken}"
        cosines: list[float] = []
        chance: list[float] = []
        sums = [None if s is None else s.double() for s in self.sums]
        for i, j in PAIRS if not why else ():
            a, b = sums[i], sums[j]
            size = 0.0 if a is None or b is None else float(a.norm() * b.norm())
            if a is None or b is None or size == 0:
                return Agreement(
                    cosines=(), chance=(), why="a mean gradient is zero", seen=sum(self.counts), **self._sizes()
                )
            cosines.append(float(a @ b) / size)
            chance.append(math.sqrt(float((a * b).square().sum())) / size)
        return Agreement(cosines=tuple(cosines), chance=tuple(chance), seen=sum(self.counts), why=why, **self._sizes())

    def _sizes(self) -> dict[str, int]:
        return {"coordinates": self.coordinates, "of": self.of}


def _picked(p: Tensor, rows: Tensor | None) -> Tensor:
    """The coordinates of one gradient in float32; zeros where there is none."""
    count = p.numel() if rows is None else len(rows)
    if p.grad is None:
        return torch.zeros(count, device=p.device)
    grad = (p.grad.to_dense() if p.grad.is_sparse else p.grad).reshape(-1)
    return (grad if rows is None else grad[rows.to(grad.device)]).to(torch.float32, copy=True)
