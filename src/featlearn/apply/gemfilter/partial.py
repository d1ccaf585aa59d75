"""Rows of questions that were asked already: kept as they come, so that a long run can end at any time and go on.

A file is for one model, its weights and precision, and one way of asking; another way has another file. Every line is
one reply; a line that the end of a process cut short is left out and made anew.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from featlearn.core import SettingError
from featlearn.errors import StoreError
from featlearn.tasks.prompts import Item, TokenizedPrompt

SAMPLE = 4096
"""Entries of a tensor that its digest looks at, evenly spread."""


@dataclass
class Rows:
    """Replies by question and method, in a file that grows."""

    path: Path
    found: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def done(self, item: Item, tokenized: TokenizedPrompt) -> dict[str, dict[str, Any]]:
        """method -> row of this question."""
        key = question_key(item, tokenized)
        return {method: dict(row) for (of, method), row in self.found.items() if of == key}

    def keep(self, item: Item, tokenized: TokenizedPrompt, rows: Sequence[dict[str, Any]]) -> None:
        """Append rows of a question; they are on the disk when this returns."""
        key = question_key(item, tokenized)
        lines = [json.dumps({"key": key, **row}, allow_nan=False) + "\n" for row in rows]
        try:
            with open(self.path, "a+b") as f:
                f.seek(0, 2)
                if f.tell():
                    f.seek(-1, 2)
                    if f.read(1) != b"\n":  # what a killed process had begun
                        f.write(b"\n")
                f.write("".join(lines).encode())
        except OSError as e:
            raise StoreError(f"{self.path} cannot be written ({e.strerror or e}): free some space, run it again") from e
        self.found.update({(key, row["method"]): row for row in rows})


def question_key(item: Item, tokenized: TokenizedPrompt) -> str:
    """A name for what is asked and what counts as right: token ids, so that the tokenizer and its template count."""
    ids = tokenized.input_ids.to(torch.int64).contiguous().numpy().tobytes()
    more = repr((tokenized.head, tokenized.tail, item.answers)).encode()
    return hashlib.blake2b(ids + more, digest_size=12).hexdigest()


def weights_key(model: Any) -> str:
    """A name for the weights as they are loaded: shapes, types, and a sample of every tensor."""
    digest = hashlib.blake2b(digest_size=12)
    for name, value in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        if value.is_meta or not value.numel():
            continue
        flat = value.detach().reshape(-1)
        sample = flat[:: max(1, len(flat) // SAMPLE)].to("cpu").contiguous()
        digest.update(sample.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def open_rows(folder: str | Path, model: Any, again: bool = False, **setting: Any) -> Rows:
    """The file in a folder that belongs to a model and a setting, with what it holds.

    again: nothing of it is taken; what is asked anew stands behind it and counts from then on, and rows of other
    questions stay. The setting counts, and so does the version of the code that reads and answers.
    Errors: SettingError for a folder that cannot be made, or a file that cannot be read.
    """
    device = str(model.device).partition(":")[0]
    told = json.dumps([weights_key(model), device, _code(), sorted(setting.items())], default=str)
    path = Path(folder) / f"score-{hashlib.blake2b(told.encode(), digest_size=8).hexdigest()}.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() and not again else ""
    except (OSError, UnicodeDecodeError) as e:
        why = getattr(e, "strerror", None) or type(e).__name__
        raise SettingError("store", folder, f"a folder that can be written ({why})", "name another") from None
    rows = Rows(path)
    for line in text.splitlines():
        try:
            row = json.loads(line)
            rows.found[row.pop("key"), row["method"]] = row
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # cut short: it is made anew
    return rows


def _code() -> str:
    """A digest of the modules on which a reply and its score depend."""
    root, digest = Path(__file__).parents[2], hashlib.blake2b(digest_size=8)
    for part in ("methods", "apply/gemfilter", "tasks"):
        for path in sorted((root / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
