"""What people hand in as prompts, counts and masks, in the form that the methods take; what is none is one line."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from featlearn.core import SettingError
from featlearn.errors import brief

PROMPTS = "tokenise it with return_tensors='pt' and padding, or ask with gemfilter.answer, which takes texts"


def plain_number(value: Any) -> Any:
    """A NumPy or torch number as Python's, anything else as it is."""
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value


def whole(name: str, value: Any, least: int, remedy: str) -> int:
    """A count of at least `least`, of Python, NumPy or torch; SettingError for anything else."""
    number = plain_number(value)
    if isinstance(number, bool) or not isinstance(number, int) or number < least:
        raise SettingError(name, brief(number), f"a count of at least {least}", remedy)
    return number


def count_of(keep: Any, length: int) -> int:
    """How many of `length` tokens `keep` means: a count as it is, a share of (0, 1] rounded up."""
    allowed, remedy = "a count of at least 1, or a share in (0, 1]", "1024 and 0.05 are both usual"
    keep = plain_number(keep)
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not keep > 0:
        raise SettingError("keep", brief(keep), allowed, remedy)
    if isinstance(keep, int):
        return keep
    if keep > 1:
        raise SettingError("keep", keep, allowed, "write a count without a decimal point")
    return max(1, math.ceil(round(keep * length, 9)))  # rounded, that 0.07 of 100 tokens are 7


def as_prompt(input_ids: Any, attention_mask: Any) -> tuple[Tensor, Tensor | None]:
    """Ids (b, n) and a mask from what people have: tensors, arrays, lists of ids, or what a tokenizer returns."""
    if isinstance(input_ids, Mapping):  # a BatchEncoding is one
        if "input_ids" not in input_ids:
            raise SettingError(
                "input_ids", f"a mapping of {', '.join(map(str, input_ids))}", "input_ids in it", PROMPTS
            )
        mask = input_ids.get("attention_mask") if attention_mask is None else attention_mask
        return as_prompt(input_ids["input_ids"], mask)
    ids = _table("input_ids", input_ids)
    if not ids.numel():
        raise SettingError("input_ids", list(ids.shape), "at least one token", "the prompt is empty")
    if ids.ndim != 2 or ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        what = f"{ids.dtype} {list(ids.shape)}"
        raise SettingError(
            "input_ids", what, "whole numbers of shape b n", "add a batch axis" * (ids.ndim < 2) or PROMPTS
        )
    return ids.long(), None if attention_mask is None else _table("attention_mask", attention_mask)


def _table(name: str, value: Any) -> Tensor:
    """A tensor that holds numbers, with a batch axis where lists and arrays have none."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError("a text")
        found = value
        if isinstance(value, list | tuple) and value and all(isinstance(row, Tensor) for row in value):
            found = torch.stack(list(value))
        elif isinstance(value, np.ndarray):
            found = torch.as_tensor(np.array(value))  # a copy: of what runs backwards or cannot be written, too
        elif not isinstance(value, Tensor):
            found = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        what = "a text" if isinstance(value, str | bytes) else f"a {type(value).__name__}"
        raise SettingError(name, what, "whole numbers of shape b n, rows of one length", PROMPTS) from None
    if found.is_meta or found.layout != torch.strided:
        what = "on the meta device" if found.is_meta else f"a tensor of layout {found.layout}"
        raise SettingError(name, what, "a dense tensor with values", "call .to_dense(), or make it anew")
    return found[None] if found.ndim == 1 and not isinstance(value, Tensor) else found


def protected_tokens(protect: Any, mask: Bool[Tensor, "b n"]) -> Bool[Tensor, "b n"]:
    """The tokens that `protect`, (first, last) or a mask, means in prompts with this mask."""
    rows = isinstance(protect, list | tuple) and protect and all(isinstance(row, list | tuple) for row in protect)
    if isinstance(protect, Tensor | np.ndarray) or rows:
        own = protect if isinstance(protect, Tensor) else _table("protect", protect)
        if own.is_meta or own.shape != mask.shape or own.dtype != torch.bool:
            what = f"{own.dtype} {list(own.shape)}{' on the meta device' * own.is_meta}"
            raise SettingError("protect", what, f"bool of the prompt's shape {list(mask.shape)}", "or (first, last)")
        return own.to(mask.device) & mask
    first, last = ends_of(protect)
    place = mask.cumsum(1) - 1
    return mask & ((place < first) | (place >= mask.sum(1, keepdim=True) - last))


def ends_of(protect: Any) -> tuple[int, int]:
    """How many of the first and of the last tokens `protect` = (first, last) means."""
    pair = tuple(map(plain_number, protect)) if isinstance(protect, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(p, int) and not isinstance(p, bool) for p in pair):
        told = "(first, last), two counts, or a mask"
        raise SettingError("protect", brief(protect), told, "(0, 0) protects nothing")
    if min(pair) < 0:
        raise SettingError("protect", protect, "(first, last), neither negative", "(0, 0) protects nothing")
    return pair
