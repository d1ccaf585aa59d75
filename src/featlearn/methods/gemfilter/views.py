"""A model as one call sees it: module objects of its own where the call needs something of its own, weights shared.

A hook, or evaluation mode, on the modules of a model is seen by whoever uses the model at the same time: other
threads, a nested forward of a user's hook, a plain `generate`. Here nothing is hung on the model. The call runs copies
of those module objects that have to differ, and of the modules around them; parameters, buffers, the user's hooks and
all other modules are the model's own.
"""

import contextlib
import functools
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.layout import Layout

See = Callable[[int, nn.Module, Tensor, tuple[Tensor, Tensor]], None]
Forward = Callable[[nn.Module, Callable[..., Any]], Callable[..., Any]]
"""(copied module, its forward) -> the forward that takes its place."""

BOUND = ("forward", "_old_forward")
"""Methods that other programs (accelerate, kernels) leave in a module's own dictionary, bound to the module."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks")
HOW = ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")
LENGTH_DEPENDENT = ("dynamic", "longrope")
"""Kinds of rotary embedding whose frequencies follow the longest prompt so far: a call has buffers of its own."""
PLAIN_OUTPUT = {"output_attentions": False, "output_hidden_states": False}
"""Arguments of a forward that keep transformers from installing hooks on the model's modules."""


@contextlib.contextmanager
def watched(layout: Layout, model: Any, layers: Iterable[int], see: See) -> Iterator[Any]:
    """The model for the block, with see(layer, attention module, hidden states, rotary (cos, sin)) called as the
    attention of each of these layers is. Only forwards of what is yielded are seen, those of `model` itself are not;
    layers that are watched run uncompiled."""

    def seen(layer: int) -> Forward:
        def replace(attn: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
            return functools.partial(_seen, attn, layer, see, forward)

        return replace

    stack: Any = layout.layers(model)
    forwards = {id(uncompiled(stack[i].self_attn)): seen(i % len(stack)) for i in layers}
    with view(model, forwards, evaluating=False) as own:
        yield own


@contextlib.contextmanager
def undisturbed(model: Any) -> Iterator[Any]:
    """The model in evaluation mode, without gradients in the block; the modes of `model` itself stay as they are."""
    with torch.inference_mode(), view(model, {}, evaluating=True) as own:
        yield own


def received(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Hidden states and rotary (cos, sin) among what a layer's attention was called with."""
    hidden = args[0] if args else kwargs["hidden_states"]
    return hidden, kwargs["position_embeddings"] if "position_embeddings" in kwargs else args[1]


def _seen(attn: nn.Module, layer: int, see: See, forward: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    see(layer, attn, *received(args, kwargs))
    return forward(*args, **kwargs)


def uncompiled(module: Any) -> Any:
    """What torch.compile wrapped, or the module itself."""
    inner = module._modules.get("_orig_mod")
    return module if inner is None else inner


@contextlib.contextmanager
def view(root: nn.Module, forwards: Mapping[int, Forward], *, evaluating: bool) -> Iterator[Any]:
    """`root` with other forwards (by id of the module) and, if evaluating, without training mode; itself where
    nothing has to differ."""
    done: dict[int, nn.Module] = {}
    copies: list[nn.Module] = []
    try:
        yield _differing(root, forwards, evaluating, done, copies)
    finally:
        for own in copies:  # a bound forward is a circle: what it saw would stay in memory until a collection
            for name in BOUND:
                own.__dict__.pop(name, None)


def _differing(
    module: nn.Module,
    forwards: Mapping[int, Forward],
    evaluating: bool,
    done: dict[int, nn.Module],
    copies: list[nn.Module],
) -> nn.Module:
    """A module as the call needs it; modules done before are the same again."""
    if id(module) in done:
        return done[id(module)]
    there = {name: child for name, child in module._modules.items() if child is not None}
    children = {name: _differing(child, forwards, evaluating, done, copies) for name, child in there.items()}
    changed = {name: child for name, child in children.items() if child is not there[name]}
    own = module
    if changed and uncompiled(module) is not module:
        own = changed["_orig_mod"]  # what was compiled runs the module as it was: the call runs it uncompiled
        for name in HOOKS:  # those of the wrapper stand outside those of the module
            outside, inside = _hooks(module, name), own.__dict__[name]
            own.__dict__[name] = OrderedDict(
                [*outside, *inside.items()] if "pre" in name else [*inside.items(), *outside]
            )
        for name in HOW:
            own.__dict__[name] = OrderedDict({**own.__dict__[name], **module.__dict__[name]})
    elif changed or id(module) in forwards or (evaluating and module.training):
        own = _copy(module, changed)
        copies.append(own)
        if id(module) in forwards:
            own.__dict__["forward"] = forwards[id(module)](own, own.forward)
        if evaluating:
            own.__dict__["training"] = False
    elif evaluating and getattr(module, "rope_type", None) in LENGTH_DEPENDENT:
        own = _copy(module, {})  # its forward writes frequencies that depend on the longest prompt it was given
        own.__dict__["_buffers"] = {name: None if b is None else b.clone() for name, b in module._buffers.items()}
    done[id(module)] = own
    return own


def _copy(module: nn.Module, children: Mapping[str, nn.Module]) -> nn.Module:
    """A module object of the same parameters, buffers and hooks, with some other children."""
    own = object.__new__(type(module))
    own.__dict__.update(module.__dict__)
    own.__dict__["_modules"] = {**module._modules, **children}
    own.__dict__.pop("_compiled_call_impl", None)
    for name in HOOKS:  # a hook sees the module that it was registered on, and what it leaves there stays
        own.__dict__[name] = OrderedDict(_hooks(module, name))
    for name in BOUND:
        if name in module.__dict__:
            given = module.__dict__[name]
            given = getattr(given, "_torchdynamo_orig_callable", given)  # torch.compile(module.forward)
            own.__dict__[name] = _rebound(given, module, own)
            if own.__dict__[name] is given:
                raise SettingError(
                    "model",
                    f"{type(module).__name__} with a replaced {name}",
                    "the forward of its class, or a method bound to the module",
                    "undo the replacement; for one in training mode, call model.eval()",
                )
    return own


def _hooks(module: nn.Module, name: str) -> list[tuple[Any, Callable[..., Any]]]:
    return [(key, functools.partial(_showing, hook, module)) for key, hook in module.__dict__[name].items()]


def _showing(hook: Callable[..., Any], shown: nn.Module, _: nn.Module, /, *args: Any) -> Any:
    return hook(shown, *args)


def _rebound(value: Any, module: nn.Module, own: nn.Module) -> Any:
    """A bound method or partial of `module` as one of `own`; anything else as it is."""
    if value is module:
        return own
    if isinstance(value, types.MethodType) and value.__self__ is module:
        return types.MethodType(value.__func__, own)
    if isinstance(value, functools.partial):
        args = [_rebound(a, module, own) for a in value.args]
        if any(a is not b for a, b in zip(args, value.args, strict=True)):
            return functools.partial(value.func, *args, **value.keywords)
    return value
