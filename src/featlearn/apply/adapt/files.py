"""Embeddings and labels from files, each refused in one line by what is wrong in it."""

import csv
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from featlearn.core import SettingError
from featlearn.data.names import shown, some

LABEL = "label"
"""The column of a table that holds the labels."""


@dataclass(frozen=True)
class Embeddings:
    """x (n, v, d): v stored views of each of n inputs, the first as it is, in float32; file: where they came from."""

    x: Float[Tensor, "n v d"]
    file: str

    @property
    def first(self) -> Float[Tensor, "n d"]:
        """The first view of each (n, d)."""
        return self.x[:, 0]


def read_embeddings(path: str | Path, width: int | None = None) -> Embeddings:
    """Embeddings (n, d), or (n, views, d), from a .npy file, or a .npz archive of one array or one called `embeddings`.

    Nothing is unpickled. width: how many numbers an embedding must have.
    Errors: SettingError: no such file, not such a file, other axes or kinds of numbers, rows that are not finite.
    """
    array = _array(path, "embeddings")
    told = shown(path)
    if array.ndim not in (2, 3) or 0 in array.shape:
        remedy = "one row an input; squeeze or flatten other axes"
        raise SettingError("embeddings", f"of shape {array.shape} in {told}", "(n, d) or (n, views, d)", remedy)
    if array.dtype.kind != "f":
        raise SettingError("embeddings", f"of {array.dtype} in {told}", "floating point", "convert with .astype('f4')")
    x = torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))
    x = x[:, None] if x.ndim == 2 else x
    if width is not None and x.shape[2] != width:
        remedy = "embed with the model that the head was fitted on"
        raise SettingError("embeddings", f"of {x.shape[2]} numbers in {told}", f"{width}, as the head", remedy)
    bad = ~torch.isfinite(x).flatten(1).all(1)
    if bool(bad.any()):
        first = int(bad.nonzero()[0])
        says = f"with {int(bad.sum())} of {len(x)} rows not finite in {told}"
        raise SettingError("embeddings", says, "finite numbers", f"the first is row {first}: remove or embed it anew")
    return Embeddings(x, str(path))


def read_labels(path: str | Path, n: int) -> list[str]:
    """n labels as text, in the order of the embeddings: a .npy or .npz array, a .csv file with a column `label`, or a
    text file of one label a line. An empty one stands for a row without a label.

    Errors: SettingError: no such file, not such a file, another number of labels.
    """
    told = shown(path)
    if Path(path).suffix.lower() in (".npy", ".npz"):
        array = _array(path, "labels")
        if array.ndim != 1 or array.dtype.kind not in "iubUS":
            says = f"of {array.dtype} and shape {array.shape} in {told}"
            raise SettingError("labels", says, "whole numbers or texts (n)", "one label a row")
        found = [v.decode("utf-8", "backslashreplace") if isinstance(v, bytes) else str(v) for v in array.tolist()]
    else:
        found = _lines(path)
    if len(found) != n:
        remedy = "one label a row of the embeddings, an empty one where there is none"
        raise SettingError("labels", f"{len(found)} in {told}", f"{n}, one a row", remedy)
    return found


def _lines(path: str | Path) -> list[str]:
    try:
        text = Path(os.path.expanduser(path)).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as why:
        reason = getattr(why, "strerror", None) or "it is no UTF-8 text"
        raise SettingError("labels", shown(path), f"a file of labels ({reason})", "give .npy, .csv or text") from None
    if Path(path).suffix.lower() != ".csv":
        return [line.strip() for line in text.splitlines()]
    rows = list(csv.reader(text.splitlines()))
    if not rows or LABEL not in rows[0]:
        there = some(rows[0]) if rows else "nothing"
        raise SettingError("labels", shown(path), f"a table with a column {LABEL}", f"its first line has {there}")
    column = rows[0].index(LABEL)
    return [row[column].strip() if len(row) > column else "" for row in rows[1:] if row]


def _array(path: str | Path, name: str) -> np.ndarray:
    """The one array of a .npy or .npz file."""
    told = shown(path)
    place = Path(os.path.expanduser(path))
    if not place.is_file():
        raise SettingError(name, told, "a file", "there is none: check the path")
    try:
        found = np.load(place, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found:
            names: Sequence[str] = list(found.files)
            chosen = name if name in names else names[0] if len(names) == 1 else None
            if chosen is None:
                remedy = f"it has {some(names) or 'none'}: name the one that is meant {name}"
                raise SettingError(name, told, f"an archive of one array, or one called {name}", remedy)
            return found[chosen]
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as why:
        if isinstance(why, SettingError):
            raise
        reason = " ".join(str(why).split())[:80]
        raise SettingError(name, told, "a .npy or .npz file of numbers", f"save it with numpy ({reason})") from None
