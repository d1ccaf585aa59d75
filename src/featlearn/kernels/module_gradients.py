"""Per-sample gradients of any module, as factors whose Gram matrices are cheap, one part of the weights at a time.

The gradient of an output in the weights of a linear layer is an outer product of what came in and the gradient of what
went out. So its Gram matrix is the product, entry by entry, of two small ones, and no Jacobian is made. A layer that
sums such products over positions (a convolution) is either multiplied out for one block of samples, or contracted over
pairs of positions, whichever takes fewer products. All other weights get their gradients sample by sample.
"""

import copy
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from featlearn.core import SettingError
from featlearn.core.check import check_finite

Seen = dict[str, list[tuple[Tensor, Tensor]]]
"""Of each layer by name, what came in and what went out, at every call."""


@dataclass(frozen=True)
class Factor:
    """Gradients of n samples in one part of the weights: entries <left, left'> <right, right'>, summed over positions.

    left: (n, a), or (n, t, a) with t positions, or None for a factor 1. right: (n, c, b), or (n, t, c, b), for c
    combinations of the outputs.
    """

    left: Tensor | None
    right: Tensor

    def rows(self, start: int, stop: int) -> "Factor":
        """Those of some of the samples."""
        return Factor(None if self.left is None else self.left[start:stop], self.right[start:stop])

    def numbers(self) -> int:
        """Entries that it holds for a sample."""
        left = 0 if self.left is None else self.left.numel()
        return (left + self.right.numel()) // max(1, len(self.right))

    def gram(self, other: "Factor", outputs: str) -> Tensor:
        """Inner products with the gradients of another block, (n, p), (n, p, c) or (n, p, c, c) as `outputs` says."""
        if self.left is None or other.left is None:
            return _paired(self.right, other.right, outputs)
        if self.left.ndim == 2:
            product = _paired(self.right, other.right, outputs)
            return product.mul_(_widened(self.left @ other.left.T, product))
        n, p, t = len(self.left), len(other.left), self.left.shape[1]
        product = _paired(self.right.flatten(0, 1), other.right.flatten(0, 1), outputs)
        product = product.mul_(_widened(self.left.flatten(0, 1) @ other.left.flatten(0, 1).T, product))
        return product.unflatten(1, (p, t)).unflatten(0, (n, t)).sum((1, 3))


def _widened(gram: Tensor, like: Tensor) -> Tensor:
    return gram.reshape(*gram.shape, *[1] * (like.ndim - 2))


def _paired(left: Tensor, right: Tensor, outputs: str) -> Tensor:
    """Inner products over b of (n, c, b) and (p, c, b), summed over c, for each c, or for each pair."""
    if outputs == "trace":
        return left.flatten(1) @ right.flatten(1).T
    if outputs == "each":
        return torch.bmm(left.transpose(0, 1), right.permute(1, 2, 0)).permute(1, 2, 0).contiguous()
    full = left.flatten(0, 1) @ right.flatten(0, 1).T
    return full.unflatten(1, right.shape[:2]).unflatten(0, left.shape[:2]).transpose(1, 2).contiguous()


# a copy that may be used ----------------------------------------------------------------------------------------------


@contextmanager
def undisturbed(device: torch.device) -> Iterator[None]:
    """Gradients on, whatever the caller switched off, and the random state as before."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.inference_mode(False), torch.enable_grad():
        yield


def own_copy(model: nn.Module, x: Tensor, dtype: torch.dtype) -> nn.Module:
    """The model in another precision, so that nothing is done to the user's.

    Errors: SettingError for what has no kernel: batch norm or dropout in training mode, weights that are not there yet,
    complex ones, and weights on another device than x.
    """
    if dtype not in (torch.float32, torch.float64):
        raise SettingError("dtype", dtype, "torch.float64 or torch.float32", "float64 is the default")
    model = getattr(model, "_orig_mod", model)  # of torch.compile
    for name, module in model.named_modules():
        says = f"{type(module).__name__} {name!r} in training mode"
        if module.training and isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise SettingError("model", says, "samples apart from each other", "call model.eval() first")
        if module.training and _rate(module) > 0:
            raise SettingError("model", says, "one output for each input", "call model.eval() first")
    for name, weight in model.named_parameters():
        if isinstance(weight, nn.UninitializedParameter):
            raise SettingError("model", f"one whose {name} is not made yet", "weights", "call the model once first")
        if weight.is_complex():
            raise SettingError("model", f"one whose {name} is complex", "real weights", "split it into two real ones")
        if weight.device != x.device:
            says = f"one whose {name} is on {weight.device}"
            raise SettingError("model", says, f"on {x.device} as x", "move one of them with .to(device)")
        check_finite(weight.detach(), f"model.{name}")
    return copy.deepcopy(model).to(dtype)


def _rate(module: nn.Module) -> float:
    """Of dropout, which recurrent layers and attention have a field for."""
    rate = module.p if isinstance(module, nn.modules.dropout._DropoutNd) else getattr(module, "dropout", 0)
    return float(rate) if isinstance(rate, float | int) else 0.0


def outputs_of(model: nn.Module, x: Tensor) -> Tensor:
    """(n, o). Errors: SettingError for a model that fails, or gives no row of numbers for each row of x."""
    try:
        out: Any = model(x)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        says = f"a tensor {tuple(x.shape)} of {x.dtype}, on which the model fails ({str(error).splitlines()[0]}),"
        raise SettingError("x", says, "inputs of the model", "try model(x[:2]) by itself") from error
    if not isinstance(out, Tensor) or out.ndim < 1 or len(out) != len(x) or not out.is_floating_point():
        found = f"gives a tensor {tuple(out.shape)}" if isinstance(out, Tensor) else f"gives a {type(out).__name__}"
        remedy = "wrap it in a module that returns one row of scores for each input"
        raise SettingError("model", found, f"a tensor of real numbers with {len(x)} rows", remedy)
    check_finite(out.detach(), "model(x)")
    return out.reshape(len(x), -1)


def check_apart(out: Tensor, single: Tensor, i: int) -> None:
    """Errors: SettingError where sample i alone gives another output than in a batch, or twice gives two."""
    slack = 1e-3 if out.dtype == torch.float32 else 1e-7
    apart = float((out[i] - single[0]).abs().amax())
    if apart > slack * max(1e-30, float(out.abs().amax())):
        says = f"gives outputs for one sample alone and in a batch that differ by {apart:.3g}"
        remedy = "call model.eval() first, or drop what is random or shared between samples"
        raise SettingError("model", says, "a function of each sample", remedy)


@contextmanager
def watched(modules: Mapping[str, nn.Module], seen: Seen) -> Iterator[None]:
    """Keep what goes in and out of modules, before the user's own hooks and before changes in place."""

    def keep(name: str) -> Callable[..., Any]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
            entered = args[0] if args else next(iter(kwargs.values()), None)
            if isinstance(entered, Tensor) and isinstance(out, Tensor):
                seen.setdefault(name, []).append((entered, out))
                return out.clone()  # what follows may be in place
            return None

        return hook

    handles = [m.register_forward_hook(keep(k), prepend=True, with_kwargs=True) for k, m in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# which weights are contracted -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gradients:
    """How the gradients of a model are taken: layers by contraction, the other weights sample by sample.

    weight, bias of a layer: whether it is trained. combine: (c, o), the combinations of the outputs.
    """

    model: nn.Module
    combine: Tensor
    layers: Mapping[str, tuple[nn.Module, bool, bool]] = field(default_factory=dict[str, tuple[nn.Module, bool, bool]])
    others: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])

    def factors(self, x: Tensor) -> list[Factor]:
        """One for each layer, and one for all other weights."""
        seen: Seen = {}
        made: list[Factor] = []
        if self.layers:
            with watched({name: layer for name, (layer, _, _) in self.layers.items()}, seen):
                out = outputs_of(self.model, x)
            calls = [seen[name][0] for name in self.layers]
            pulled = [
                torch.autograd.grad(
                    out, [o for _, o in calls], row.expand_as(out), retain_graph=i > 1, materialize_grads=True
                )
                for i, row in zip(range(len(self.combine), 0, -1), self.combine, strict=True)
            ]
            del out
            for i, (layer, weight, bias) in enumerate(self.layers.values()):
                grads = torch.stack([p[i].detach() for p in pulled], 1)
                made.append(_factor(layer, calls[i][0].detach(), grads, weight, bias))
        if self.others:
            made.append(Factor(None, self._by_sample(x)))
        for factor in made:
            check_finite(factor.right, "the gradient of model(x)")
        return made

    def _by_sample(self, x: Tensor) -> Tensor:
        """(n, c, weights) of the other weights."""
        apart = {name: p.detach() for name, p in self.others.items()}

        def one(sample: Tensor) -> Tensor:
            def run(weights: Mapping[str, Tensor]) -> Tensor:
                return functional_call(self.model, dict(weights), (sample[None],)).reshape(-1)

            pull = vjp(run, apart)[1]
            grads = vmap(lambda row: pull(row)[0])(self.combine)
            return torch.cat([g.flatten(1) for g in grads.values()], 1)

        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")
                return vmap(one)(x).detach()
        except (RuntimeError, NotImplementedError, ValueError):  # what vmap cannot follow
            return torch.stack([self.single(sample[None], list(self.others.values())) for sample in x])

    def single(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """(c, weights) of one sample, by one backward pass for each combination."""
        out = outputs_of(self.model, x)
        rows = [
            torch.autograd.grad(out[0], weights, row, retain_graph=True, materialize_grads=True) for row in self.combine
        ]
        return torch.stack([torch.cat([g.flatten() for g in row]) for row in rows]).detach()


def _factor(layer: nn.Module, entered: Tensor, grads: Tensor, weight: bool, bias: bool) -> Factor:
    """Of what came in and the gradients (n, c, ...) of what went out."""
    n, c = grads.shape[:2]
    if isinstance(layer, nn.Conv2d):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        entered = nn.functional.pad(entered, layer._reversed_padding_repeated_twice, mode)
        entered = nn.functional.unfold(entered, layer.kernel_size, layer.dilation, 0, layer.stride).transpose(1, 2)
        grads = grads.flatten(3).movedim(3, 1)  # (n, t, c, b)
    else:
        grads = grads.reshape(n, c, -1, grads.shape[-1]).transpose(1, 2)
    entered = entered.reshape(n, grads.shape[1], -1)
    ones = entered.new_ones(*entered.shape[:2], 1)
    entered = torch.cat([entered] * weight + [ones] * bias, 2)
    t, a, b = grads.shape[1], entered.shape[2], grads.shape[3]
    if not weight:
        return Factor(None, grads.sum(1))
    if t == 1:
        return Factor(entered[:, 0], grads[:, 0])
    if t <= 32 and t * t * (a + c * b) < a * b * c:
        return Factor(entered, grads.contiguous())
    return Factor(None, torch.einsum("nta,ntcb->ncab", entered, grads).flatten(2))


def _uses(out: Tensor) -> Counter[int]:
    """How often the graph of an output reads each weight, by the id of the weight."""
    counts: Counter[int] = Counter()
    stack, seen = [out.grad_fn], {out.grad_fn}
    while stack:
        node = stack.pop()
        for following, _ in node.next_functions if node is not None else ():
            weight = getattr(following, "variable", None)
            if weight is not None:
                counts[id(weight)] += 1
            elif following is not None and following not in seen:
                seen.add(following)
                stack.append(following)
    return counts


def prepared(model: nn.Module, x: Tensor, combine: Callable[[int], Tensor]) -> tuple[Gradients, int]:
    """How the gradients of a copy are taken, and the bytes of its graph for a sample.

    A layer is contracted if it is a plain linear or convolutional one that the graph reads once, has the samples along
    its first axis, and, on three samples, agrees with gradients taken one by one.

    Errors: SettingError where no trained weight reaches the outputs, and for samples that see each other.
    """
    three = x[torch.arange(3) % len(x)]
    plain = {name: m for name, m in model.named_modules() if _is_plain(m)}
    seen: Seen = {}
    saved: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        if t.ndim and len(t) == 3 and not isinstance(t, nn.Parameter):
            saved[t.data_ptr()] = t.numel() * t.element_size()
        return t

    with watched(plain, seen), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = outputs_of(model, three)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    counts = _uses(out)
    used = {name: p for name, p in trained.items() if counts[id(p)]}
    if not used:
        says = "with no trained weight that its outputs depend on" if trained else "whose weights are all frozen"
        raise SettingError("model", says, "at least one that requires_grad", "set requires_grad_(True) on some")
    layers = {name: m for name, m in plain.items() if _contracts(seen.get(name, []), m, counts)}
    two = x[torch.arange(2) % len(x)]
    again: Seen = {}
    with watched(layers, again):
        outputs_of(model, two)
    layers = {name: m for name, m in layers.items() if len(again[name][0][1]) == 2}
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(1, out.shape[1], generator=generator, dtype=torch.float64).to(out)
    taken = Gradients(model, probe, {n: (m, *_trained(m)) for n, m in layers.items()})
    taken = _agreeing(taken, three, out.detach())
    inside = {id(p) for m, _, _ in taken.layers.values() for p in m.parameters()}
    others = {name: p for name, p in used.items() if id(p) not in inside}
    graph = sum(saved.values()) // 3
    return replace(taken, combine=combine(out.shape[1]).to(out), others=others), graph


def _is_plain(m: nn.Module) -> bool:
    """A linear or convolutional layer as torch made it: no parametrisation, no groups, no forward of its own."""
    own = {name for name, p in m.named_parameters(recurse=False) if p is not None}
    kind = type(m) is nn.Linear or (type(m) is nn.Conv2d and m.groups == 1)
    return kind and {"weight"} <= own <= {"weight", "bias"} and "forward" not in vars(m)


def _trained(m: nn.Module) -> tuple[bool, bool]:
    weight, bias = m.weight, m.bias
    return bool(weight.requires_grad), isinstance(bias, Tensor) and bool(bias.requires_grad)


def _contracts(calls: list[tuple[Tensor, Tensor]], m: nn.Module, counts: Mapping[int, int]) -> bool:
    trained = [p for p in m.parameters() if p.requires_grad]
    if not trained or len(calls) != 1 or any(counts[id(p)] != 1 for p in trained):
        return False
    entered, left = calls[0]
    axes = 4 if isinstance(m, nn.Conv2d) else 2
    return left.requires_grad and len(left) == len(entered) == 3 and entered.ndim >= axes


def _agreeing(taken: Gradients, x: Tensor, out: Tensor) -> Gradients:
    """Without the layers whose contraction differs from gradients of single samples."""
    singles = [outputs_of(taken.model, x[i : i + 1]) for i in range(len(x))]
    for i, single in enumerate(singles):
        check_apart(out, single.detach(), i)
    kept: dict[str, tuple[nn.Module, bool, bool]] = {}
    slack = 1e-3 if out.dtype == torch.float32 else 1e-8
    for (name, (layer, weight, bias)), factor in zip(taken.layers.items(), taken.factors(x), strict=True):
        weights = [p for p in layer.parameters() if p.requires_grad]
        pulled = [
            torch.autograd.grad(one, weights, taken.combine, retain_graph=True, materialize_grads=True)
            for one in singles
        ]
        rows = torch.stack([torch.cat([g.flatten() for g in p]) for p in pulled]).detach()
        gram = rows @ rows.T
        if float((factor.gram(factor, "trace") - gram).abs().amax()) <= slack * float(gram.abs().amax()):
            kept[name] = (layer, weight, bias)
    return replace(taken, layers=kept)


@dataclass(frozen=True)
class Cost:
    """Of the factors of one sample: bytes that stay, bytes while they are made, and pairs of positions summed over."""

    each: int
    making: int
    spread: int = 1


def cost_of(taken: Gradients, x: Tensor, graph: int) -> Cost:
    """What two samples take: graph is what one sample's forward pass keeps."""
    two = x[torch.arange(2) % len(x)]
    seen: Seen = {}
    with watched({name: layer for name, (layer, _, _) in taken.layers.items()}, seen):
        out = outputs_of(taken.model, two)
    c, size = len(taken.combine), out.element_size()
    factors = taken.factors(two)
    entered = 0
    for name, (layer, _, _) in taken.layers.items():
        came, left = seen[name][0]
        patch = math.prod(layer.kernel_size) if isinstance(layer, nn.Conv2d) else 1
        positions = left.numel() // (2 * layer.weight.shape[0]) if isinstance(layer.weight, Tensor) else 1
        entered += 3 * (positions * patch * came.shape[1 if patch > 1 else -1] + c * left.numel() // 2)
    apart = 2 * c * (sum(p.numel() for p in taken.others.values()) + graph // size) if taken.others else 0
    each = sum(f.numbers() for f in factors)
    spread = max(f.left.shape[1] ** 2 if f.left is not None and f.left.ndim == 3 else 1 for f in factors)
    return Cost(each * size, (each + entered + apart) * size + 2 * graph, spread)


def in_chunks(factors: Callable[[Tensor], Sequence[Factor]], x: Tensor, chunk: int) -> Sequence[Factor]:
    """factors(x), made for so many samples at a time."""
    if len(x) <= chunk:
        return factors(x)
    whole: list[Factor] = []
    for start in range(0, len(x), chunk):
        part = factors(x[start : start + chunk])
        if not whole:
            whole = [Factor(None if f.left is None else _room(f.left, len(x)), _room(f.right, len(x))) for f in part]
        for all_, some in zip(whole, part, strict=True):
            all_.right[start : start + chunk] = some.right
            if all_.left is not None and some.left is not None:
                all_.left[start : start + chunk] = some.left
    return whole


def _room(like: Tensor, n: int) -> Tensor:
    return like.new_empty(n, *like.shape[1:])
