"""Kernels of any module at its present weights: the tangent kernel of its outputs, the conjugate one of a layer.

The module is copied first, so that its weights, hooks, mode and random state stay as they are. Gram matrices are made
in blocks that fit a memory budget, and `report` is told before the work what it will take.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.core.check import check_finite, check_number, checked
from featlearn.kernels.blocks import MIB, Report, mirrored
from featlearn.kernels.module_gradients import (
    Cost,
    Factor,
    Seen,
    check_apart,
    cost_of,
    in_chunks,
    outputs_of,
    own_copy,
    prepared,
    undisturbed,
    watched,
)

Factors = Callable[[Tensor], Sequence[Factor]]
OUTPUTS = ("trace", "each", "full")
CHUNK = 256
"""Samples whose factors are made at once, at most."""


@checked(mixed=("x", "y"))
def empirical_ntk(
    model: nn.Module,
    x: Shaped[Tensor, "n *rest"],
    y: Shaped[Tensor, "p *rest"] | None = None,
    *,
    outputs: str | int = "trace",
    dtype: torch.dtype = torch.float64,
    memory_mib: float = 256.0,
    report: Report | None = None,
) -> Float[Tensor, "n p *out"]:
    """Inner products of the gradients of a module's outputs in its trained weights (requires_grad), float64.

    K[i, j, c, c'] = <grad f_c(x_i), grad f_c'(y_j)>. outputs: "full" gives all of it (n, p, o, o), "each" its diagonal
    in the outputs (n, p, o), "trace" the sum of that (n, p), and a whole number that of one output (n, p). y=None
    means y = x, and half the work. An output of more axes is flattened to (n, o). For prediction on new points take
    `empirical_ntk(model, new, x)`, or `functools.partial(empirical_ntk, model)` as the kernel of `kernel_ridge`.

    dtype: of the gradients and their products. memory_mib bounds factors, graph and temporaries; the result itself
    takes 8 bytes a number on top. report: called once, before the work, with a line on memory and blocks.

    Frozen weights have no part in the kernel; tied ones count once, with the sum of their gradients. Batch norm is
    right in evaluation mode. Source: Jacot, Gabriel and Hongler (2018), equation 4, for one finite network.

    Errors: SettingError for a module in which samples see each other or outputs are random (batch norm and dropout in
    training mode), without trained weights, or that gives no tensor with a row for each sample; for outputs that are
    not there; for a budget below one sample. NotFiniteInput for inputs, weights, outputs or gradients.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> empirical_ntk(net, torch.tensor([[1.0, 2.0], [0.0, 3.0]]))
        tensor([[ 6.,  7.],
                [ 7., 10.]], dtype=torch.float64)
    """
    if outputs not in OUTPUTS and not (isinstance(outputs, int) and not isinstance(outputs, bool) and outputs >= 0):
        raise SettingError("outputs", repr(outputs), f"one of {OUTPUTS} or the number of one", "they count from 0")
    with undisturbed(x.device):
        own = own_copy(model, x, dtype)
        x, y = _converted(x, y, dtype)
        taken, graph = prepared(own, x, lambda o: _combinations(o, outputs))
        o = len(taken.combine)
        mode = outputs if isinstance(outputs, str) else "trace"
        shape = {"trace": (), "each": (o,), "full": (o, o)}[mode]
        cost = cost_of(taken, x, graph)
        parts = f"{len(taken.layers)} layers contracted, {len(taken.others)} tensors of weights sample by sample"
        return _blocked(taken.factors, x, y, mode, shape, cost, memory_mib, report, f"tangent kernel: {parts}")


@checked(mixed=("x", "y"))
def conjugate_kernel(
    model: nn.Module,
    layer: str,
    x: Shaped[Tensor, "n *rest"],
    y: Shaped[Tensor, "p *rest"] | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    memory_mib: float = 256.0,
    report: Report | None = None,
) -> Float[Tensor, "n p"]:
    """Inner products <h(x), h(y)> of what a layer gives, flattened, float64; not divided by its width.

    layer: a name of `model.named_modules()`, or "" for the output of the module. It is the kernel of a model that
    trains only a linear read-out of that layer. Other arguments and errors: as `empirical_ntk`; a layer that is not
    there, or that runs more than once or not at all, is refused by name.

    Example:
        >>> net = nn.Sequential(nn.ReLU(), nn.Linear(2, 1))
        >>> conjugate_kernel(net, "0", torch.tensor([[1.0, -2.0], [3.0, 3.0]]))
        tensor([[ 1.,  3.],
                [ 3., 18.]], dtype=torch.float64)
    """
    names = dict(model.named_modules())
    if layer not in names:
        near = get_close_matches(layer, names, 3) or list(names)[1:4]
        raise SettingError("layer", repr(layer), "a name of model.named_modules()", f"such as {', '.join(near)}")
    with undisturbed(x.device), torch.no_grad():
        own = own_copy(model, x, dtype)
        x, y = _converted(x, y, dtype)
        hooked = {layer: own.get_submodule(layer)}

        def hidden(part: Tensor) -> list[Factor]:
            seen: Seen = {}
            with watched(hooked, seen):
                outputs_of(own, part)
            calls = seen.get(layer, [])
            if len(calls) != 1 or calls[0][1].ndim < 1 or len(calls[0][1]) != len(part):
                says = f"{layer!r}, which gives no tensor with a row for each sample, once"
                raise SettingError("layer", says, "one that runs once and does", "name the layer after it")
            out = calls[0][1].reshape(len(part), -1).to(dtype)
            check_finite(out, f"what layer {layer!r} gives")
            return [Factor(None, out[:, None])]

        three = x[torch.arange(3) % len(x)]
        together = hidden(three)[0].right[:, 0]
        for i in range(3):
            check_apart(together, hidden(three[i : i + 1])[0].right[:, 0], i)
        everywhere: Seen = {}
        with watched(dict(own.named_modules()), everywhere):
            outputs_of(own, three)
        widest = max(out.numel() // 3 for calls in everywhere.values() for _, out in calls)
        each, forward = (k * together.element_size() for k in (together.shape[1], 4 * widest))
        cost = Cost(each, 2 * each + forward)
        what = f"conjugate kernel of {together.shape[1]} features"
        return _blocked(hidden, x, y, "trace", (), cost, memory_mib, report, what)


def _converted(x: Tensor, y: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Their numbers, apart from any graph; tokens stay whole. Errors: SettingError for one of each kind."""
    if y is not None and x.is_floating_point() != y.is_floating_point():
        (odd, z), (other, w) = (("y", y), ("x", x)) if x.is_floating_point() else (("x", x), ("y", y))
        raise SettingError(odd, f"a tensor of {z.dtype}", f"{w.dtype} as {other}", "convert one of them")
    x, *more = (z.detach().clone() for z in (x, y) if z is not None)
    if x.is_floating_point():
        x, more = x.to(dtype), [z.to(dtype) for z in more]
    return x, more[0] if more else None


def _combinations(o: int, outputs: str | int) -> Tensor:
    if isinstance(outputs, str):
        return torch.eye(o)
    if outputs >= o:
        raise SettingError("outputs", outputs, f"below {o}, the number of outputs", "they count from 0")
    return torch.eye(o)[outputs : outputs + 1]


def _blocked(
    factors: Factors,
    x: Tensor,
    y: Tensor | None,
    mode: str,
    shape: tuple[int, ...],
    cost: Cost,
    memory_mib: float,
    report: Report | None,
    what: str,
) -> Tensor:
    """The Gram matrix in blocks."""
    check_number(memory_mib, "memory_mib", "a finite number above 0", "256 is the default", above=True)
    numbers = math.prod(shape)
    columns = x if y is None else y
    longest = max(len(x), len(columns))
    chunk = max(1, min(CHUNK, int(memory_mib * MIB / 4 / cost.making)))

    def step(b: int) -> int:
        """Rows that are summed at once."""
        return max(1, min(512, 2**22 // (b * numbers * cost.spread)))

    def needs(b: int) -> int:
        """Bytes of blocks of b samples: one or two sets of factors, those being made, and the temporaries of a tile."""
        sets = 1 if y is None and b >= longest else 2
        return b * sets * cost.each + min(b, chunk) * cost.making + 3 * 8 * numbers * cost.spread * step(b) * b

    budget = memory_mib * MIB
    if needs(1) > budget:
        least = f"at least {needs(1) / MIB:.3g} for one sample"
        raise SettingError("memory_mib", memory_mib, least, "raise it, or take dtype=torch.float32")
    block = longest if needs(longest) <= budget else bisect_left(range(1, longest), 1, key=lambda b: needs(b) > budget)
    rows, sides = (-(-len(z) // block) for z in (x, columns))
    if report is not None:
        result = 8 * numbers * len(x) * len(columns) / MIB
        report(
            f"{what}; {needs(block) / MIB:.4g} of {memory_mib:g} MiB for {rows} x {sides} blocks of up to {block} "
            f"samples, {result:.4g} MiB on top for the result ({len(x)} x {len(columns)} x {numbers})"
        )
    out = torch.zeros(len(x), len(columns), *shape, dtype=torch.float64, device=x.device)
    kept: Sequence[Factor] | None = None
    for top, part in _parts(x, block):
        left = in_chunks(factors, part, chunk)
        for start, side in _parts(columns, block):
            if y is None and start < top:
                continue
            if y is None and start == top:
                right = left
            elif kept is not None:
                right = kept
            else:
                right = in_chunks(factors, side, chunk)
                kept = right if sides == 1 else None
            rows_at_once = step(len(side))
            for i in range(0, len(part), rows_at_once):
                stop = min(i + rows_at_once, len(part))
                first = i if right is left else 0
                tile = _summed(
                    [(u.rows(i, stop), v.rows(first, len(side))) for u, v in zip(left, right, strict=True)], mode
                )
                out[top + i : top + stop, start + first : start + len(side)] = tile
    if y is None:
        mirrored(out)
    return out


def _parts(x: Tensor, block: int) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, len(x), block):
        yield start, x[start : start + block]


def _summed(pairs: Sequence[tuple[Factor, Factor]], mode: str) -> Tensor:
    total = pairs[0][0].gram(pairs[0][1], mode)
    for left, right in pairs[1:]:
        total += left.gram(right, mode)
    return total
