"""Arrays in pickle files of others, without running anything: a file names what it is made of, and gets stand-ins."""

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from featlearn.data.names import shown
from featlearn.errors import DataUnavailable

KINDS = frozenset(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8)) | {"f2", "f4", "f8"}
"""Numbers that an array may hold, as NumPy names them."""


class _StandIn:
    """What a file gets for a name that it asks for. A pickle may set the state of whatever it holds: here it cannot."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("it sets the state of something that has none")


class _Ndarray(_StandIn):
    """`numpy.ndarray`, which the file hands over and never calls."""

    def __new__(cls, *_: object) -> "_Ndarray":
        raise pickle.UnpicklingError("it makes an array directly")


class _Encode(_StandIn):
    """`_codecs.encode`, by which Python 3 writes bytes for Python 2."""

    def __new__(cls, text: str, encoding: str) -> Any:
        if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError("it encodes something else than bytes")
        return text.encode("latin1")


class _Bytes(_StandIn):
    """`bytes`, by which Python 3 writes none of them for Python 2."""

    def __new__(cls) -> Any:
        return b""


class _Dtype(_StandIn):
    """`numpy.dtype` of plain numbers: a kind of KINDS, and the order of its bytes."""

    __slots__ = ("name", "order")

    def __init__(self, name: Any, *_: object) -> None:
        self.name, self.order = _text(name), "="
        if self.name not in KINDS:
            raise pickle.UnpicklingError(f"it holds an array of {self.name[:20]!r} and not of numbers")

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])
        if self.order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError("it holds numbers of an unknown order of bytes")


class _Array(_StandIn):
    """`numpy._core.multiarray._reconstruct` and the state of an array that follows."""

    __slots__ = ("value",)

    def __init__(self, *_: object) -> None:
        self.value: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        self.value = _array(data, kind, shape, "F" if fortran else "C")


class _FromBuffer(_StandIn):
    """`numpy._core.numeric._frombuffer`: an array as protocol 5 writes it."""

    def __new__(cls, data: Any, kind: Any, shape: Any, order: Any) -> Any:
        found = _Array()
        found.value = _array(data, kind, shape, "F" if order == "F" else "C")
        return found


def _array(data: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    data = data.encode("latin1") if isinstance(data, str) else data
    plain = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not (isinstance(data, bytes | bytearray) and isinstance(kind, _Dtype) and plain):
        raise pickle.UnpicklingError("it holds an array that is not made of numbers")
    dtype = np.dtype(kind.order + kind.name)
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise pickle.UnpicklingError(f"it holds an array of {len(data)} bytes, which do not fill {shape}")
    return np.frombuffer(data, dtype).reshape(shape, order=order)


def _text(name: Any) -> str:
    return name.decode("latin1") if isinstance(name, bytes) else str(name)


_NAMES: dict[tuple[str, str], type[_StandIn]] = {("numpy", "ndarray"): _Ndarray, ("numpy", "dtype"): _Dtype}
_NAMES |= {("_codecs", "encode"): _Encode, ("__builtin__", "bytes"): _Bytes}
for _core in ("numpy.core", "numpy._core"):
    _NAMES |= {(f"{_core}.multiarray", "_reconstruct"): _Array, (f"{_core}.numeric", "_frombuffer"): _FromBuffer}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return _NAMES[module, name]

    def persistent_load(self, pid: object) -> Any:
        raise pickle.UnpicklingError("it refers to something outside of itself")


def read_pickle(path: str | Path) -> dict[str, Any]:
    """The dictionary in a pickle file: text keys, values of plain containers, texts, numbers, and arrays of numbers.

    Nothing that the file names is looked up: a handful of NumPy's names get stand-ins, which make arrays of plain
    numbers out of bytes, and every other name refuses the file. Keys and texts of Python 2 come as text and bytes.

    Errors: DataUnavailable, one line: a file that is not there, damaged, no dictionary, or names anything else.

    Example:
        >>> read_pickle("data_batch_1")["data"].shape  # doctest: +SKIP
        (10000, 3072)
    """
    told = shown(path)
    try:
        with open(path, "rb") as f:
            found = _Reader(f, encoding="bytes").load()
    except OSError as why:
        raise DataUnavailable(f"{told} cannot be read ({why.strerror}); check the path") from None
    except MemoryError:
        raise DataUnavailable(f"{told} is damaged: it asks for more memory than there is; fetch it again") from None
    except Exception as why:
        reason = " ".join(str(why).split())[:100] or type(why).__name__
        remedy = "only arrays and plain values are read: get it from its own source"
        raise DataUnavailable(f"{told} is no pickle file of arrays ({reason}); {remedy}") from None
    if not isinstance(found, dict):
        raise DataUnavailable(f"{told} holds a {type(found).__name__} and no dictionary; is it the right file?")
    return {_text(k): v.value if isinstance(v, _Array) else v for k, v in found.items() if isinstance(k, str | bytes)}
