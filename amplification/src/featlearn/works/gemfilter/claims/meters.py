"""Two meters for any forward pass: multiply-adds by kind, and bytes of live tensors."""

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from featlearn.methods.kv_eviction import cache_name
from featlearn.works.gemfilter.setup import HEADS


@dataclass
class Products:
    """Multiply-adds of matrix products.

    attention: products of one matrix a head (queries with keys, probabilities with values); linear: those with a
    weight; other: the rest (scores of a selection, rotary angles). calls: attention products alone, in order.
    """

    attention: int = 0
    linear: int = 0
    other: int = 0
    calls: list[tuple[int, ...]] = field(default_factory=list)


class count_products(TorchDispatchMode):
    """Counts every matrix product from its real shapes while the block runs: `with count_products() as seen`.

    heads: the batch that marks a product of attention (prompts times query heads).
    """

    def __init__(self, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.seen = Products()

    def __enter__(self) -> Products:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().__enter__()
        return self.seen

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__.split(".")[0]
        if name in ("linear", "matmul", "einsum"):  # whole only under inference_mode
            with self:
                return func.decompose(*args, **kwargs)
        if name == "addmm":
            args_of_product = args[1:3]
        elif name in ("mm", "bmm"):
            args_of_product = args[:2]
        elif "attention" in name or name == "baddbmm":
            raise NotImplementedError(f"{name} is not counted: build the model with eager attention")
        else:
            return func(*args, **kwargs)
        a, b = args_of_product
        macs = a.numel() * b.shape[-1]
        if name != "bmm":
            self.seen.linear += macs
        elif a.shape[0] == self.heads:
            self.seen.attention += macs
            self.seen.calls.append((*a.shape, b.shape[-1]))
        else:
            self.seen.other += macs
        return func(*args, **kwargs)


@dataclass
class Bytes:
    """Bytes of tensors made while the block runs and still alive: now, and at most."""

    now: int = 0
    peak: int = 0


class count_bytes(TorchDispatchMode):
    """Bytes of all storages that operations of the block made; weights of `model` are not counted."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.seen = Bytes()
        self._weights = {t.untyped_storage()._cdata for t in (*model.parameters(), *model.buffers())}
        self._alive: dict[int, int] = {}

    def __enter__(self) -> Bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().__enter__()
        return self.seen

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_iter(made):
            if not isinstance(tensor, Tensor):
                continue
            storage = tensor.untyped_storage()
            name = storage._cdata
            if name not in self._alive and name not in self._weights:
                self._alive[name] = storage.nbytes()
                self.seen.now += storage.nbytes()
                weakref.finalize(storage, self._drop, name)
        self.seen.peak = max(self.seen.peak, self.seen.now)
        return made

    def _drop(self, name: int) -> None:
        self.seen.now -= self._alive.pop(name)


def run_layers(model: Any, ids: Tensor, use_cache: bool = True) -> Any:
    """The decoder alone, without gradients."""
    with torch.no_grad():
        return model.get_decoder()(input_ids=ids, use_cache=use_cache)


def continue_from(model: Any, ids: Tensor, cache: Any = None) -> Any:
    """One forward pass that reads and fills a cache, logits of the last token only."""
    given = {} if cache is None else {cache_name(model): cache}
    with torch.no_grad():
        return model(ids, use_cache=True, logits_to_keep=1, **given)
