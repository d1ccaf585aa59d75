"""Weights that pass one does not read, off the device while it runs."""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from featlearn.core import SettingError
from featlearn.methods.gemfilter.layouts import check_layer, layout_of

LOCAL = ("cpu", "meta")
"""Devices whose weights stay: they take no device memory, or another program brings them."""
SCORED = ("q_proj", "k_proj", "qkv_proj", "q_norm", "k_norm")
"""What of the filter layer's attention is read."""


def read_by_filter(model: Any, layer: int) -> list[nn.Parameter]:
    """The parameters of pass one: embedding, the layers before `layer`, and of it the norm, queries and keys."""
    layers = layout_of(model).layers(model)
    last: Any = layers[layer]
    parts = [model.get_input_embeddings(), *layers[:layer], last.input_layernorm]
    parts += [getattr(last.self_attn, name) for name in SCORED if hasattr(last.self_attn, name)]
    return [p for part in parts for p in part.parameters()]


_ONE_AT_A_TIME = threading.Lock()


@contextlib.contextmanager
def offloaded_for_filter(model: Any, layer: int) -> Iterator[int]:
    """Within the block only what pass one reads is on the device; the rest waits in CPU memory, pinned if possible.

    Yields the bytes that left. The embedding stays, and with it a head that is tied to it. Parameters are the same
    objects throughout and hold the same bits afterwards, also when the block raises; the model is whole inside too,
    only partly on the CPU. What is on the CPU or brought by another program (meta) stays as it is. Blocks of several
    threads wait for each other; any other use of the model meanwhile finds its weights on two devices, so leave offload
    off where requests come in parallel.

    Source: Theorem 9.3 (gemfilter.complexity): r of m layers in memory during pass one; the released code keeps all.

    Raises SettingError as `check_layer`, and for weights in a container whose parts cannot be moved alone.

    Example:
        >>> from featlearn.methods.gemfilter import select_chunked
        >>> with offloaded_for_filter(model, 13):
        ...     chosen = select_chunked(model, ids, layer=13, keep=1024)
    """
    layer = check_layer(layout_of(model), model, layer, 1)
    with _ONE_AT_A_TIME:
        stays = {id(p) for p in read_by_filter(model, layer)}
        leaving = [p for p in model.parameters() if id(p) not in stays and p.device.type not in LOCAL]
        for p in leaving:
            if type(p.data) is not Tensor:
                kind = type(p.data).__name__
                raise SettingError(
                    "offload", kind, "plain tensors as weights", "leave offload off for this quantisation"
                )
        with _away(leaving):
            yield sum(p.numel() * p.element_size() for p in leaving)


@contextlib.contextmanager
def _away(parameters: Iterable[Any]) -> Iterator[None]:
    moved: list[tuple[Any, torch.device]] = []
    try:
        for p in parameters:
            host = _host_copy(p.data)
            moved.append((p, p.device))
            p.data = host
        yield
    finally:
        _back(moved)


def _back(moved: list[tuple[Any, torch.device]]) -> None:
    devices = {device for _, device in moved if device.type == "cuda"}
    with torch.inference_mode(False):  # or a caller's inference mode would leave inference tensors in the model
        hosts = []
        for p, device in moved:
            hosts.append(p.data)  # alive until the copies are done
            p.data = hosts[-1].to(device, non_blocking=True, copy=True)
    for device in devices:
        torch.cuda.synchronize(device)


def _host_copy(data: Tensor) -> Tensor:
    with torch.inference_mode(False):
        if data.is_cuda:
            with contextlib.suppress(RuntimeError):  # no more memory can be pinned: slower, not wrong
                return torch.empty_like(data, device="cpu", pin_memory=True).copy_(data)
        return data.to("cpu", copy=True)
