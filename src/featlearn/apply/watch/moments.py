"""One snapshot: outputs, features, tangent kernels and gradient outer products of a copy, held against the start.

The tangent kernel is that of one random combination of the outputs, sum_c v_c f_c with signs v that stay the same, so
that one backward pass an input gives it for all parts of the weights. Gradients and features of more coordinates than
are kept are added up in as many bins under random signs, which stay the same too; inner products keep their mean.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from featlearn.apply.watch.probe import Caught, Probe, calm, caught, scores
from featlearn.apply.watch.records import Ansatz, Block
from featlearn.core import Key, SettingError
from featlearn.core.check import check_finite
from featlearn.measure import kernel_drift, linear_cka
from featlearn.measure.spectra import leading_singular

NUMBERS = 2**25
"""Coordinates of gradients that are kept at once, of all inputs and weights."""
KEPT = (4093, 65521)
"""Bins of one tensor, at least and at most; primes, so that no rows or columns fall into one bin."""
FEATURES = 8191
AT_ONCE = 8
"""Inputs whose activations are kept for derivatives at once: of all 64 they take several times a large model's room."""
COMBINED = 8
"""Combinations of the outputs in gradient outer products; of so many outputs or fewer, each by itself."""
BLOCKS, LAYERS = 16, 16
STILL = 1e-4
"""Outputs that moved by less than this share of them are left unread: rounding would be a part of the distance."""
APART = 1e-3
"""Outputs for an input alone and in a batch, or twice, that differ by more than this share of them are refused."""


# the parts of a network ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parts:
    """Names of the blocks and of the linear layers that are looked at, and how many of each were left out."""

    blocks: tuple[str, ...]
    layers: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def parts_of(model: nn.Module, named: Sequence[str]) -> Parts:
    """The blocks that were named, or children of the module, opened where one holds more than half of the weights or
    a list of layers.

    Lists of modules are always opened. Errors: SettingError for a name that is not there.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    for name in named:
        if name not in modules or not name:
            some = ", ".join([n for n in modules if n][:4])
            raise SettingError("layers", repr(name), "names of model.named_modules()", f"such as {some}")
    blocks = list(dict.fromkeys(named)) or _opened(model)
    linear = [n for n, m in modules.items() if matrix_of(m) is not None and _within(n, blocks)]
    left = [f"{len(a) - b} of {len(a)} {w} are left out" for a, b, w in _over(blocks, linear)]
    return Parts(_spread(blocks, BLOCKS), _spread(linear, LAYERS), tuple(left))


def _over(blocks: Sequence[str], linear: Sequence[str]) -> list[tuple[Sequence[str], int, str]]:
    pairs = [(blocks, BLOCKS, "blocks"), (linear, LAYERS, "linear layers")]
    return [(names, most, word) for names, most, word in pairs if len(names) > most]


def _spread(names: Sequence[str], most: int) -> tuple[str, ...]:
    """Evenly, with both ends."""
    if len(names) <= most:
        return tuple(names)
    return tuple(names[round(i * (len(names) - 1) / (most - 1))] for i in range(most))


def _opened(model: nn.Module) -> list[str]:
    """Blocks by default, in the order of the network."""
    blocks = {name: child for name, child in model.named_children() if _size(child)}
    if not blocks:
        return [""]
    whole = _size(model)
    while True:
        lists = [n for n, m in blocks.items() if isinstance(m, nn.ModuleList | nn.ModuleDict)]
        heavy = [n for n, m in blocks.items() if (_size(m) > whole / 2 or _stacks(m)) and len(_inner(n, m)) > 0]
        opening = lists or [n for n in heavy if len(blocks) - 1 + len(_inner(n, blocks[n])) <= BLOCKS]
        if not opening:
            return list(blocks)
        first = opening[0]
        found: dict[str, nn.Module] = {}
        for name, module in blocks.items():
            found |= _inner(name, module) if name == first else {name: module}
        blocks = found


def _stacks(module: nn.Module) -> bool:
    """Whether it holds a list of layers."""
    return any(isinstance(m, nn.ModuleList) and len(m) > 1 for m in module.children())


def _inner(name: str, module: nn.Module) -> dict[str, nn.Module]:
    return {f"{name}.{inner}": child for inner, child in module.named_children() if _size(child)}


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _within(name: str, blocks: Sequence[str]) -> bool:
    return any(not b or name == b or name.startswith(f"{b}.") for b in blocks)


def matrix_of(module: nn.Module) -> Tensor | None:
    """(out, in) of a linear layer, also of the kind that transformers writes the other way round for GPT-2."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        return None
    if isinstance(module, nn.Linear):
        return weight
    return weight.T if type(module).__name__ == "Conv1D" and hasattr(module, "nf") else None


# random signs --------------------------------------------------------------------------------------------------------


class Folds:
    """Vectors of more than `bins` numbers, added up in bins under random signs of `key`, the same for equal names."""

    def __init__(self, key: Key, bins: int) -> None:
        self.key, self.bins = key, bins
        self._signs: dict[str, Tensor] = {}

    def __call__(self, rows: Tensor, name: str) -> Tensor:
        """(n, p) -> (n, at most bins)."""
        rows = rows.flatten(1)
        n, p = rows.shape
        if p <= self.bins:
            return rows
        if name not in self._signs:
            self._signs[name] = signs(p, self.key / name).to(rows.device)
        rows = nn.functional.pad(rows * self._signs[name], (0, -p % self.bins))
        return rows.view(n, -1, self.bins).sum(1)


def signs(n: int, key: Key) -> Tensor:
    """n random signs, one byte each."""
    return torch.randint(0, 2, (n,), generator=key.torch(), dtype=torch.int8).mul_(2).sub_(1)


def bins_of(n: int, tensors: int) -> int:
    """How many bins a tensor of gradients may have."""
    wanted = min(max(NUMBERS // (n * max(1, tensors)), KEPT[0]), KEPT[1])
    return next(k for k in range(wanted, 1, -1) if all(k % d for d in range(2, math.isqrt(k) + 1)))


# what is seen ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """Of a copy at one step: weights by name, outputs, features by block, kernels by tensor, linear layers."""

    weights: Mapping[str, Tensor]
    outputs: Tensor
    features: Mapping[str, Tensor]
    kernels: Mapping[str, Tensor]
    layers: tuple[Ansatz, ...]


def rehearse(model: nn.Module, probe: Probe, key: Key) -> None:
    """Refuse a model whose outputs are random, or depend on the other inputs, before any training.

    model: a copy that is thrown away. Its weights are moved by 10 %, so that outputs that cancel at the start do not.
    """
    with calm(_device(model)), torch.no_grad():
        for name, p in model.named_parameters():
            if p.is_floating_point():
                p.mul_(1 + 0.1 * signs(p.numel(), key / "rehearsal" / name).to(p.device).view(p.shape))
        first, again = (scores(model, probe, finite=False) for _ in range(2))
        alone = scores(model, probe.one(0), finite=False)
    size = max(float(first.abs().max()), 1e-30)
    if float((first - again).abs().max()) > APART * size:
        remedy = "watch a part of it that is not random"
        raise SettingError("model", "gives other outputs for the same inputs", "one output for each input", remedy)
    if alone.shape[1] != first.shape[1] or float((first[0] - alone[0]).abs().max()) > APART * size:
        remedy = "watch a part of it that looks at one input at a time"
        raise SettingError("model", "gives an input alone other outputs", "a function of each input", remedy)


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def observe(model: nn.Module, probe: Probe, parts: Parts, key: Key) -> Seen:
    """Look at a copy."""
    modules = dict(model.named_modules(remove_duplicate=False))
    with calm(_device(model)):
        found = Caught()
        with torch.no_grad(), caught({n: modules[n] for n in parts.blocks}, found):
            outputs = scores(model, probe)
        fold = Folds(key / "features", FEATURES)
        features = {
            n: fold(probe.masked(h), n).cpu() for n, h in found.outputs.items() if h.ndim > 1 and len(h) == probe.n
        }
        for name, h in features.items():
            check_finite(h, f"what {name or 'the model'} gives")
        kernels = _kernels(model, probe, outputs.shape[1], key)
        layers = _ansatz(model, probe, {n: modules[n] for n in parts.layers}, key)
    weights = {n: p.detach() for n, p in model.named_parameters()}
    return Seen(weights, outputs.double().cpu(), features, kernels, layers)


def _kernels(model: nn.Module, probe: Probe, o: int, key: Key) -> dict[str, Tensor]:
    """Of each trained tensor of weights, inner products of the gradients of one combination of outputs, (n, n)."""
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    fold = Folds(key / "gradients", bins_of(probe.n, len(trained)))
    v = signs(o, key / "outputs").to(_device(model)) / math.sqrt(o)
    rows: dict[str, list[Tensor]] = {n: [] for n in trained}
    for i in range(probe.n):
        out = scores(model, probe.one(i), guarded=False, finite=False)
        pulled = torch.autograd.grad((out[0] * v).sum(), [*trained.values()], allow_unused=True)
        for (name, p), g in zip(trained.items(), pulled, strict=True):
            g = torch.zeros_like(p) if g is None else g.to_dense() if g.is_sparse else g
            rows[name].append(fold(g.detach().reshape(1, -1), name)[0])
    kernels: dict[str, Tensor] = {}
    for name in trained:
        stacked = torch.stack(rows.pop(name)).double().cpu()
        check_finite(stacked, f"the gradient of model(x) in {name}")
        kernels[name] = stacked @ stacked.T
    return kernels


def _ansatz(model: nn.Module, probe: Probe, layers: Mapping[str, nn.Module], key: Key) -> tuple[Ansatz, ...]:
    """Through each layer but the read-out: the gradient in its inputs is that in its outputs times its weights."""
    if not layers:
        return ()
    pulled: dict[str, list[Tensor]] = {}
    for rows in _pieces(probe.n):
        found, some = Caught(), probe.some(rows)
        with caught(layers, found, apart=True):
            out = scores(model, some)
        o = out.shape[1]
        if o <= COMBINED:
            combined = [torch.eye(o, device=out.device)[c].expand(len(rows), o) for c in range(o)]
        else:
            whole = (signs(probe.n * o, key / "outer" / c).view(probe.n, o) for c in range(COMBINED))
            combined = [v[rows.start : rows.stop].to(out) for v in whole]
        names = [name for name, h in found.outputs.items() if not _same(some.masked(h), out)]
        for v in combined if names else ():
            grads = torch.autograd.grad(out, [found.outputs[m] for m in names], v, retain_graph=True, allow_unused=True)
            for name, g in zip(names, grads, strict=True):
                if g is not None:
                    pulled.setdefault(name, []).append(g.detach().reshape(-1, g.shape[-1]))
    made: list[Ansatz] = []
    for name, gradients in pulled.items():
        w = matrix_of(layers[name])
        if w is not None:
            one = outer_against_gram(torch.cat(gradients), w.detach(), name)
            made += [one] if one is not None else []
    return tuple(made)


def _same(h: Tensor, out: Tensor) -> bool:
    return h.numel() == out.numel() and torch.equal(h.reshape(len(out), -1), out)


def outer_against_gram(g: Tensor, w: Tensor, name: str) -> Ansatz | None:
    """cos(W'W, sum_i h_i h_i') with h_i = W'g_i, g (m, out) gradients in the outputs of the layer.

    None for zeros, and for a layer of one output, where it is 1 whatever was learnt.

    <W'W, H'H> = ||W H'||^2, and the norm of a Gram matrix is that of its smaller side.
    chance: tr A tr B / (d ||A|| ||B||), the mean over rotations of one of the two.
    """
    if len(w) < 2:
        return None
    g, w = g.double(), w.double()
    g = g / g.abs().max().clamp_min(1e-300)
    h = g @ w
    norms = [float(torch.linalg.matrix_norm(m @ m.T if len(m) < m.shape[1] else m.T @ m)) for m in (w, h)]
    if not min(norms) > 0:
        return None
    cosine = float((h @ w.T).square().sum()) / (norms[0] * norms[1])
    chance = float(w.square().sum() * h.square().sum()) / (w.shape[1] * norms[0] * norms[1])
    return Ansatz(name=name, cosine=cosine, chance=chance)


# against the start ----------------------------------------------------------------------------------------------------


def blocks_of(
    start: Seen,
    previous: Seen,
    now: Seen,
    parts: Parts,
    labels: Tensor | None,
    key: Key,
    remark: Callable[[str], None],
) -> list[Block]:
    """Each block now, against the start and against the snapshot before."""
    found: list[Block] = []
    for name in parts.blocks:
        drift, aligned = kernels_apart(start, now, labels, name)
        own = [(n, w, now.weights[n]) for n, w in start.weights.items() if _within(n, [name]) and n in now.weights]
        squares = [(_squares(v - w), _squares(w)) for _, w, v in own if w.is_floating_point()]
        moved, size = (math.sqrt(sum(each)) for each in zip(*squares, strict=True)) if squares else (0.0, 0.0)
        spectral = [s for n, w, v in own if (s := _spectral(w, v, key / n)) is not None]
        movement = cka = cka_previous = None
        h = now.features.get(name)
        if h is None:
            remark(f"no features of {name or 'the model'}: it gives no tensor with one row an input")
        else:
            before = start.features[name].double()
            norm = float(before.norm())
            movement = float((h.double() - before).norm()) / norm if norm > 0 else None
            cka, cka_previous = (_cka(seen.features[name], h, name, remark) for seen in (start, previous))
        block = Block(
            name=name or "model",
            kernel_drift=drift,
            alignment=aligned,
            movement=movement,
            cka=cka,
            cka_previous=cka_previous,
            change=moved / size if size > 0 else None,
            spectral=max(spectral, default=None),
        )
        found.append(block)
    return found


def _squares(value: Tensor) -> float:
    return float(torch.linalg.vector_norm(value, dtype=torch.float64)) ** 2


def _cka(before: Tensor, after: Tensor, name: str, remark: Callable[[str], None]) -> float | None:
    try:
        return linear_cka(_reduced(before.double()), _reduced(after.double()), unbiased=True)
    except SettingError as why:
        remark(f"no CKA of {name or 'the model'}: features {why.value}")
        return None


def _reduced(features: Tensor) -> Tensor:
    """(n, n) features with the Gram matrix of the centred ones, on which alone linear CKA depends."""
    rows = features - features.mean(0)
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    return vectors * values.clamp_min(0).sqrt()


def _spectral(before: Tensor, after: Tensor, key: Key) -> float | None:
    """||W' - W||_2 / ||W||_2 of a matrix; None of what is none, or of zeros."""
    if before.ndim < 2 or before.shape != after.shape or not before.is_floating_point():
        return None
    w, d = before.flatten(1), (after - before).flatten(1)
    size = float(leading_singular(w, 1, key).values[0])
    return float(leading_singular(d, 1, key).values[0]) / size if size > 0 else None


def kernels_apart(start: Seen, now: Seen, labels: Tensor | None, name: str = "") -> tuple[float | None, float | None]:
    """Drift of the tangent kernel of a block since the start, and its alignment with the labels."""
    before, after = (
        sum((k for n, k in seen.kernels.items() if _within(n, [name])), torch.zeros(())) for seen in (start, now)
    )
    if not (before.ndim and after.ndim and float(before.abs().max()) > 0 and float(after.abs().max()) > 0):
        return None, None
    drift = max(float(kernel_drift(before, after)), 0.0)
    return drift, alignment(after, labels) if labels is not None else None


def _pieces(n: int) -> list[range]:
    return [range(i, min(i + AT_ONCE, n)) for i in range(0, n, AT_ONCE)]


def alignment(kernel: Tensor, labels: Tensor) -> float | None:
    """Cosine of a centred kernel (n, n) and of the Gram matrix of centred labels (n, c); None for a constant kernel."""
    k = kernel - kernel.mean(0) - kernel.mean(1, keepdim=True) + kernel.mean()
    y = (labels - labels.mean(0)).to(k)
    target = y @ y.T
    norm = float(k.norm())
    return float((k * target).sum()) / (norm * float(target.norm())) if norm > 0 else None


def off_linear(model: nn.Module, start: Seen, now: Seen, probe: Probe) -> tuple[float | None, str]:
    """||f' - f_lin|| / ||f' - f||, and why it cannot be had where it cannot.

    f_lin = f(x; w0) + J (w - w0) with J the Jacobian at the start, in all weights, and with the buffers of the moment
    in f, f' and f_lin. The product with J is the derivative of its transpose's, both by plain backward passes.
    """
    if {n: w.shape for n, w in start.weights.items()} != {n: w.shape for n, w in now.weights.items()}:
        return None, "no linearisation: weights have other names or shapes than at the start"
    moved = {n: w.clone().requires_grad_() for n, w in start.weights.items() if not torch.equal(w, now.weights[n])}
    base = {**start.weights, **moved}
    if not moved:
        return None, ""

    def run(*args: object, **kwargs: object) -> object:
        return functional_call(model, base, args, dict(kwargs))

    found: list[tuple[Tensor, Tensor]] = []
    with calm(_device(model)):
        try:
            for rows in _pieces(probe.n):  # outputs are of one input each, which `rehearse` has made sure of
                out = scores(run, probe.some(rows))
                v = torch.zeros_like(out).requires_grad_()
                pulled = torch.autograd.grad(out, [*moved.values()], v, create_graph=True, materialize_grads=True)
                inner = sum(
                    ((now.weights[n] - w.detach()) * g).sum() for (n, w), g in zip(moved.items(), pulled, strict=True)
                )
                assert isinstance(inner, Tensor)
                push = torch.autograd.grad(inner, v, materialize_grads=True)[0]
                found.append((out.detach().double().cpu(), push.double().cpu()))
        except (RuntimeError, NotImplementedError) as why:
            return None, f"no linearisation: {str(why).splitlines()[0]}"
    before, step = (torch.cat(parts) for parts in zip(*found, strict=True))
    way = float((now.outputs - before).norm())
    if way <= STILL * float(before.norm()):
        return None, ""
    return float((now.outputs - before - step).norm()) / way, ""
