"""Probe inputs, and a copy of a model that is run on them while the model itself is left alone.

Nothing here sets what is shared between threads: the generators of torch, numpy and Python are neither read nor set,
modes are those of the copy, and the contexts below (gradients, autocast, functions in place of others) hold for one
thread. A model that draws random numbers in evaluation mode is refused rather than run.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import MethodType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from featlearn.core import Key, SettingError
from featlearn.core.check import check_finite

LOOPS = ("_trainer", "_fabric")
MOST, FEWEST = 64, 4
"""Inputs of a probe; fewer than the second have no centred kernel to speak of."""


@dataclass(frozen=True)
class Probe:
    """Inputs of a model: n rows of every tensor in args and kwargs, of `total` that were given."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    n: int
    total: int
    rows: Tensor

    def each(self, change: Callable[[Tensor], Tensor]) -> "Probe":
        """With every tensor changed."""

        def changed(value: Any) -> Any:
            return change(value) if isinstance(value, Tensor) else value

        return replace(
            self, args=tuple(map(changed, self.args)), kwargs={k: changed(v) for k, v in self.kwargs.items()}
        )

    def some(self, rows: range) -> "Probe":
        """The inputs of these rows."""
        return replace(self.each(lambda t: t[rows.start : rows.stop] if t.ndim else t), n=len(rows))

    def one(self, i: int) -> "Probe":
        """The i-th input alone."""
        return self.some(range(i, i + 1))

    def beside(self, model: nn.Module) -> "Probe":
        """On the device and in the precision of a model."""
        like = next(p for p in model.parameters() if p.is_floating_point())
        return self.each(lambda t: t.to(like.device, like.dtype if t.is_floating_point() else None))

    def masked(self, value: Tensor) -> Tensor:
        """Zeros in place of what a model says at padded positions, where inputs have an attention mask."""
        mask = self.kwargs.get("attention_mask")
        if not isinstance(mask, Tensor) or value.ndim < 2 or mask.shape != value.shape[:2]:
            return value
        return value.masked_fill((mask == 0).reshape(*mask.shape, *[1] * (value.ndim - 2)), 0)


def probe_of(x: object, key: Key) -> Probe:
    """At most 64 inputs, drawn where there are more. Errors: SettingError for what is no input of a model."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(x, Tensor):
        args = (x,)
    elif isinstance(x, Mapping):
        kwargs = {str(k): v for k, v in x.items()}
    elif isinstance(x, tuple | list):
        args = tuple(x)
    named = {**{f"x[{i}]" if len(args) > 1 else "x": v for i, v in enumerate(args)}}
    named |= {f"x[{k!r}]": v for k, v in kwargs.items()}
    tensors = {k: v for k, v in named.items() if isinstance(v, Tensor) and v.ndim}
    if not tensors or (args and len(tensors) < len(args)):
        says = f"a {type(x).__name__}" + ("" if isinstance(x, Tensor | Mapping) else " that is not all tensors")
        allowed = "a tensor, a tuple of tensors or a mapping with tensors, one row an input"
        raise SettingError("x", says, allowed, "give what model(...) takes, as a tokenizer or a loader makes it")
    total = len(next(iter(tensors.values())))
    for name, value in tensors.items():
        if len(value) != total:
            says, allowed = f"a tensor of {len(value)} rows", f"{total} rows as {next(iter(tensors))}"
            raise SettingError(name, says, allowed, "give one row an input")
        if value.is_floating_point():
            check_finite(value.detach(), name)
    if total < FEWEST:
        raise SettingError("x", f"of {total} inputs", f"{FEWEST} or more", "kernels of fewer say nothing; 64 are taken")
    rows = torch.arange(total)
    if total > MOST:
        rows = torch.randperm(total, generator=(key / "probe").torch())[:MOST].sort().values
    whole = Probe(args, kwargs, len(rows), total, rows)
    return whole.each(lambda t: (t.detach()[rows.to(t.device)] if t.ndim else t.detach()).clone())


# a copy ---------------------------------------------------------------------------------------------------------------


def bare(model: nn.Module) -> nn.Module:
    """Without the wrappers of torch.compile, DataParallel and DistributedDataParallel."""
    while True:
        if isinstance(compiled := getattr(model, "_orig_mod", None), nn.Module):
            model = compiled
        elif isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model


def check_model(model: object) -> nn.Module:
    """The model without wrappers. Errors: SettingError for one that cannot be copied and run as a whole."""
    if not isinstance(model, nn.Module):
        raise SettingError("model", f"a {type(model).__name__}", "a torch.nn.Module", "wrap your function in one")
    inner = bare(model)
    who = type(inner).__name__
    if isinstance(inner, torch.jit.ScriptModule):
        raise SettingError("model", f"{who}, a script", "a module of Python", "watch the module it was made from")
    for name, weight in inner.named_parameters():
        says = f"{who} whose {name} is "
        if isinstance(weight, nn.UninitializedParameter):
            raise SettingError("model", says + "not made yet", "weights", "call the model once first")
        if weight.is_complex():
            raise SettingError("model", says + "complex", "real weights", "split it into two real ones")
        if weight.is_meta or hasattr(weight, "device_mesh"):
            raise SettingError("model", says + "not here as a whole", "weights on one device", "watch it unsharded")
    places = sorted({str(p.device) for p in inner.parameters()})
    if len(places) > 1:
        raise SettingError("model", f"{who} on {', '.join(places)}", "one device", "watch a part of it")
    if not any(p.requires_grad and p.is_floating_point() for p in inner.parameters()):
        says = f"{who} with no parameter that is trained"
        raise SettingError("model", says, "at least one that requires_grad", "set requires_grad_(True) on some")
    for name, module in inner.named_modules():
        forward = vars(module).get("forward")
        if forward is not None and not isinstance(forward, MethodType | functools.partial):
            says = f"{who} whose {name or 'forward'} runs a function that was put in place of its forward"
            raise SettingError("model", says, "one whose copy is apart from it", "subclass the module instead")
    return inner


def copied(model: nn.Module) -> nn.Module:
    """A copy without hooks and without the loop that a module of Lightning points to, in evaluation mode, in float32
    where weights are of half precision.

    Errors: SettingError for a model that does not let itself be copied, by name.
    """
    memo: dict[int, Any] = {}
    for module in model.modules():
        for name, value in vars(module).items():
            if "_hooks" in name and isinstance(value, dict):
                memo[id(value)] = type(value)()
            elif name in LOOPS and value is not None:
                memo[id(value)] = SimpleNamespace()
    try:
        with torch.inference_mode(False):
            own = copy.deepcopy(model, memo)
    except (RuntimeError, TypeError, AttributeError, NotImplementedError) as why:
        says = f"{type(model).__name__}, which cannot be copied ({str(why).splitlines()[0]})"
        raise SettingError("model", says, "one that copy.deepcopy takes", "watch the part of it that does") from why
    kinds = {p.dtype for p in own.parameters() if p.is_floating_point()}
    if kinds != {torch.float64}:
        own = own.float()
    return own.eval()


def hooks_of(model: nn.Module) -> int:
    """How many hooks would run in a forward pass, which copies do without."""
    names = ("_forward_hooks", "_forward_pre_hooks")
    return sum(len(vars(module).get(name, ())) for module in model.modules() for name in names)


# running it -----------------------------------------------------------------------------------------------------------


class _NoDraws(TorchDispatchMode):
    """Refuses operations that draw from a generator shared with others."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs):
            says = f"one that draws random numbers in evaluation mode ({func})"
            raise SettingError("model", says, "one output for each input", "watch a part of it that does not")
        return func(*args, **kwargs)


def _draws(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    given = {a.name: a.default_value for a in func._schema.arguments if a.has_default_value()}
    given |= dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | dict(kwargs)
    if given.get("generator") is not None:
        return False
    rates = [given[name] for name in ("dropout_p", "dropout", "dropout_rate") if name in given]
    modes = [given[name] for name in ("train", "training") if name in given]
    return not ((rates and not any(rates)) or (modes and not any(modes)))


MULTI_HEAD = inspect.signature(torch.nn.functional.multi_head_attention_forward)


class _PlainAttention(TorchFunctionMode):
    """Attention by its formula, since fused kernels have no second derivative."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.scaled_dot_product_attention:
            return torch.ops.aten._scaled_dot_product_attention_math(*args, **(kwargs or {}))[0]
        if func is torch.nn.functional.multi_head_attention_forward:
            # what it calls is not seen here: asked for its weights, it computes them without a fused kernel
            given = MULTI_HEAD.bind(*args, **(kwargs or {}))
            asked = given.arguments.get("need_weights", True)
            given.arguments["need_weights"] = True
            out, weights = func(*given.args, **given.kwargs)
            return out, weights if asked else None
        return func(*args, **(kwargs or {}))


@contextmanager
def calm(device: torch.device) -> Iterator[None]:
    """Gradients on and autocast off, whatever the caller has, in this thread alone."""
    off = torch.autocast(device.type, enabled=False)
    with torch.inference_mode(False), torch.enable_grad(), off, _PlainAttention():
        yield


@dataclass
class Caught:
    """What modules gave in one run, by name."""

    outputs: dict[str, Tensor] = field(default_factory=dict[str, Tensor])


@contextmanager
def caught(modules: Mapping[str, nn.Module], found: Caught, *, apart: bool = False) -> Iterator[None]:
    """Keep the last output of modules of a copy. apart: in the graph, and apart from what changes it in place."""

    def keep(name: str) -> Callable[..., Any]:
        def hook(_: nn.Module, __: Any, out: Any) -> Any:
            if not apart:
                value = first_tensor(out)
                if value is not None:
                    found.outputs[name] = value.detach().clone()
                return None
            if isinstance(out, Tensor) and out.is_floating_point():
                value = out if out.requires_grad else out.detach().requires_grad_()
                found.outputs[name] = value
                return value.clone()
            return None

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(out: Any) -> Tensor | None:
    """What a module gives: itself, `.logits`, `.last_hidden_state`, or the first tensor of real numbers."""
    if isinstance(out, Tensor):
        return out if out.is_floating_point() else None
    for name in ("logits", "last_hidden_state"):
        value = out.get(name) if isinstance(out, Mapping) else getattr(out, name, None)
        if isinstance(value, Tensor):
            return value
    inside = out.values() if isinstance(out, Mapping) else out if isinstance(out, tuple | list) else ()
    return next((v for v in inside if isinstance(v, Tensor) and v.is_floating_point()), None)


def scores(model: Callable[..., Any], probe: Probe, *, guarded: bool = True, finite: bool = True) -> Tensor:
    """(n, o), what a model gives for the probe. guarded: look for random draws; finite: for values that are not.

    Errors: SettingError, NotFiniteInput.
    """
    try:
        with _NoDraws() if guarded else nullcontext():
            out: Any = model(*probe.args, **probe.kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, KeyError) as why:
        if isinstance(why, SettingError):
            raise
        says = f"inputs on which the model fails ({str(why).splitlines()[0] if str(why) else type(why).__name__})"
        raise SettingError("x", says, "what model(...) takes", "try model(x) by itself in evaluation mode") from why
    value = first_tensor(out)
    if value is None or value.ndim < 1 or len(value) != probe.n:
        found = f"gives a {type(out).__name__}" if value is None else f"gives a tensor {tuple(value.shape)}"
        allowed = f"a tensor of real numbers with {probe.n} rows, alone, first, or as .logits"
        raise SettingError("model", found, allowed, "wrap it in a module that returns one row an input")
    if finite:
        check_finite(value.detach(), "model(x)")
    return probe.masked(value).reshape(probe.n, -1)
