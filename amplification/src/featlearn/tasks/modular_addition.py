"""Addition modulo p of k inputs, points generated from flat indices: p^k of them never stand in memory as one-hots.

Source: fourier.eq4_1. A point is a tuple (a_1, ..., a_k) in {0, ..., p - 1}^k, its label the sum modulo p; its flat
index is the number with those digits in base p, a_1 the most significant.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from featlearn.core import Batch, Key, SettingError, Truth
from featlearn.core.check import checked

INT32 = 2**31 - 1


def check_points(p: int, k: int) -> None:
    """SettingError unless p >= 2 and k >= 1 are whole and all p^k points have an int64 index."""
    for name, value in (("p", p), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise SettingError(name, repr(value), "a whole number", f"write {name} without a fraction")
    if p < 2:
        raise SettingError("p", p, "at least 2", "numbers are counted modulo p")
    if k < 1:
        raise SettingError("k", k, "at least 1", "k numbers are added; the theory speaks of k >= 2")
    if k * math.log2(p) > 63 and p**k > 2**63 - 1:
        bits = k * math.log2(p)
        raise SettingError("p^k", f"2^{bits:.1f}", "at most 2^63 - 1 points", f"lower p = {p} or k = {k}")


def theory_covers(p: int, k: int) -> str | None:
    """None where the theory of Fourier circuits holds as written, p an odd prime and k >= 2; else what it misses.

    The task itself works for every p >= 2 and k >= 1. Source: fourier.theorem4_9 for the odd prime,
    fourier.method_parity_limit for p = 2; the rest is ours.

    Example:
        >>> theory_covers(97, 2) is None
        True
        >>> theory_covers(9, 2)
        'p = 9 is not prime: frequencies that share a factor with 9, such as 3, cannot tell all classes apart alone'
    """
    check_points(p, k)
    if k == 1:
        return "k = 1: the label is the input, nothing is added, and margin-optimal neurons need not have one frequency"
    if p == 2:
        return "p = 2: parity of k bits; there is no frequency in 1..(p-1)/2"
    if p % 2 == 0:
        return f"p = {p} is even: frequency {p // 2} is real, so its neurons beat the margin of the theorem's cosines"
    factor = next((q for q in range(3, math.isqrt(p) + 1, 2) if p % q == 0), 0)
    if factor:
        why = f"frequencies that share a factor with {p}, such as {factor}, cannot tell all classes apart alone"
        return f"p = {p} is not prime: {why}"
    return None


def points(index: Int[Tensor, " n"], p: int, k: int) -> Int[Tensor, "n k"]:
    """Inputs from flat indices, on the device of the indices: digit j of base p, the first input most significant.

    Shapes: index (n) in 0..p^k - 1, of any integer type -> (n, k) int64. Indices are not checked: this runs in the
    inner loop of training.

    Example:
        >>> points(torch.tensor([0, 5, 8]), 3, 2)
        tensor([[0, 0],
                [1, 2],
                [2, 2]])
    """
    powers = torch.tensor([p**j for j in range(k - 1, -1, -1)], device=index.device)
    return index.long()[:, None] // powers % p


def labels(x: Int[Tensor, "n k"], p: int) -> Int[Tensor, " n"]:
    """Sum of the k inputs modulo p. Shapes: x (n, k) -> (n).

    Example:
        >>> labels(torch.tensor([[1, 2], [2, 2]]), 3)
        tensor([0, 1])
    """
    return x.sum(1) % p


def _memory(device: torch.device) -> int | float:
    """Bytes a device has in all; infinity where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


def task_name(k: int, p: int) -> str:
    """How tables call a task: "k = 3, p = 9 is not prime (outside the theory)" where the theorems do not cover it."""
    why = theory_covers(p, k)
    return f"k = {k}, {why.partition(':')[0]} (outside the theory)" if why else f"k = {k}, p = {p}"


def train_points(p: int, k: int, share: float | int, field: str = "share") -> int:
    """How many of the p^k points a share is. field: its name in errors.

    Errors: `SettingError` for a share that leaves a side empty.

    Example:
        >>> train_points(5, 2, 0.6)
        15
    """
    if not 0 <= share <= 1:
        raise SettingError(field, share, "between 0 and 1", "0.5 trains on half of the points")
    total = p**k
    n = round(share * total)
    if n in (0, total):
        side = "no point to train on" if n == 0 else "no point to test on"
        remedy = "lower the share, or take torch.arange(p**k) to train on all" if n else "raise the share"
        raise SettingError(field, share, f"a split of {total} points with two sides, this has {side}", remedy)
    return n


def split(
    p: int, k: int, share: float | int, key: Key, device: str | torch.device = "cpu"
) -> tuple[Int[Tensor, " n"], Int[Tensor, " m"]]:
    """Flat indices (n) of the training points and (m) of the test points: a random permutation of all p^k, cut.

    n = share p^k, rounded. The permutation is drawn on the CPU, so a key gives one split on every device; int32 where
    p^k fits, else int64. To train on all points there is nothing to split: take torch.arange(p**k).

    Errors: `SettingError` for a share that leaves a side empty, and for more points than the memory holds.

    Example:
        >>> train, test = split(5, 2, 0.6, Key("demo"))
        >>> len(train), len(test)
        (15, 10)
    """
    check_points(p, k)
    total = p**k
    device = torch.device(device)
    wide = 4 if total <= INT32 else 8
    have = min(_memory(device), _memory(torch.device("cpu")))
    if wide * total > have:
        allowed = f"at most the {have:.3g} bytes of memory, one index of {wide} bytes a point"
        raise SettingError("p^k", f"{total} points = {wide * total:.3g} bytes", allowed, f"lower p = {p} or k = {k}")
    n = train_points(p, k, share)
    order = torch.randperm(
        total, generator=(key / "split").torch(), dtype=torch.int32 if wide == 4 else torch.int64
    ).to(device)
    return order[:n], order[n:]


def decoder(p: int, k: int) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """A function from flat indices (...) to inputs (..., k) and labels (...), on their device: data for a trainer.

    Errors: `SettingError` as for the task.

    Example:
        >>> x, y = decoder(5, 2)(torch.tensor([[0, 7], [24, 9]]))
        >>> tuple(x.shape), y.tolist()
        ((2, 2, 2), [[0, 3], [3, 0]])
    """
    check_points(p, k)

    def decode(index: Tensor) -> tuple[Tensor, Tensor]:
        x = points(index.flatten(), p, k)
        return x.view(*index.shape, k), labels(x, p).view(index.shape)

    return decode


@dataclass(frozen=True)
class ModularAddition:
    """y = (a_1 + ... + a_k) mod p for uniform inputs in {0, ..., p - 1}^k (fourier.eq4_1).

    x are the numbers themselves, (n, k) int64, to look rows up with: a one-hot times a matrix is a row. The label is
    a class index. features (p - 1, p): cosine and sine of every frequency 1..(p-1)/2 and, for even p, the alternating
    vector; together the unit vectors in which max-margin circuits are one-sparse pairs. p need not be prime and k = 1
    (the label is the input) is allowed; `theory_covers` says what no longer follows.

    Errors: `SettingError` for p < 2, k < 1 and more points than int64 counts.

    Example:
        >>> task = ModularAddition(p=7, k=3)
        >>> task.size
        343
        >>> task.draw(Key("demo")).features.shape
        torch.Size([6, 7])
    """

    p: int = 97
    k: int = 2

    def __post_init__(self) -> None:
        check_points(self.p, self.k)

    @property
    def size(self) -> int:
        """Number of points, p^k."""
        return self.p**self.k

    def draw(self, key: Key) -> Truth:
        """The one member of the family; `key` has no say."""
        angle = 2 * math.pi * torch.arange(self.p, dtype=torch.float64) / self.p
        turns = torch.arange(1, (self.p - 1) // 2 + 1, dtype=torch.float64)[:, None] * angle
        rows = [torch.stack([turns.cos(), turns.sin()], 1).flatten(0, 1) * (2 / self.p) ** 0.5]
        if self.p % 2 == 0:
            rows.append((1 - 2 * (torch.arange(self.p) % 2).double())[None] / self.p**0.5)
        return Truth(torch.cat(rows).float())

    @checked()
    def sample(self, truth: Truth, n: int, key: Key) -> Batch:
        """n points drawn with replacement; hidden and group are None."""
        x = torch.randint(self.p, (n, self.k), generator=key.torch())
        return Batch(x, labels(x, self.p))
