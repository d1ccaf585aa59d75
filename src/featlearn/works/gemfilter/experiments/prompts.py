"""What the experiments of this work share: a loaded model, its haystack, prompts, and selections at several layers."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from featlearn.core import Key, SettingError
from featlearn.data.models import BUNDLED, check_model, load_model
from featlearn.data.texts import COLLECTIONS, check_essays, essays, split
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.selecting import Scoring, best, score_layer
from featlearn.methods.gemfilter.views import watched
from featlearn.tasks.needle_kinds import of_kind
from featlearn.tasks.needles import SETS as FACTS
from featlearn.tasks.needles import STREAMS, Needle, Prompt, hide, needles

SETS = ("validation", "reported")


@dataclass(frozen=True, kw_only=True)
class OnModel:
    """The model of an experiment."""

    model: str = "smollm2-135m"
    """A bundled model (smollm2-135m, gemma3-270m), a hub id, a local folder or a GGUF file."""
    dtype: str = "float32"
    """Floating-point type of the weights."""
    device: str = "auto"
    """auto, cpu or cuda."""

    def __post_init__(self) -> None:
        check_model(self.model, self.dtype, self.device)


@dataclass(frozen=True, kw_only=True)
class OnTexts(OnModel):
    """The model of an experiment, and the texts of its prompts."""

    haystack: str = "sotu"
    """Essays that hide the facts: sotu (`featlearn data fetch sotu` brings it), or a folder of .txt files."""
    which: Literal["reported", "validation"] = "reported"
    """Facts and essays: settings are chosen on one half and reported on the other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_essays(self.haystack)


@dataclass(frozen=True, kw_only=True)
class OnNeedles(OnTexts):
    """The model of an experiment, its texts, and a grid of needles in them."""

    lengths: tuple[int, ...] = (1024, 2048)
    """Tokens of the whole prompt."""
    depths: tuple[float, ...] = (0.1, 0.5, 0.9)
    """Where the needle is: 0 at the start of the text, 1 at its end."""
    needles: tuple[int, ...] = (1,)
    """Needles per length: one count for all lengths, or one for each."""
    keep: int = 256
    """Tokens, or cache entries per layer and head, that stay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_grid(self.lengths, self.depths, self.needles, self.which)

    def pairs(self) -> list[tuple[int, int]]:
        """(needle, length) of every trial; needles vary slowest, so that an interrupted run has all lengths."""
        counts = self.needles * len(self.lengths) if len(self.needles) == 1 else self.needles
        given = list(zip(self.lengths, counts, strict=True))
        return [(i, n) for i in range(max(counts)) for n, count in given if i < count]


@dataclass(frozen=True, kw_only=True)
class OnReplies(OnNeedles):
    """A grid of needles, and how GemFilter selects and the model replies."""

    layer: int = -1
    """Filter layer of GemFilter; -1 for the recommended one of the model."""
    protect_start: int = 4
    """First tokens that GemFilter keeps in any case; it keeps what follows the text, too."""
    chat: bool = True
    """Ask through the model's chat template."""
    max_new_tokens: int = 16
    """Longest reply."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_new_tokens < 1:
            raise SettingError("max_new_tokens", self.max_new_tokens, "at least 1", "16 is usual")
        if self.protect_start < 0:
            raise SettingError("protect_start", self.protect_start, "at least 0", "4 keeps the start of the template")


def needs(trial: Any) -> tuple[str, ...]:
    """What of `featlearn data` a trial reads: models and texts of the user's own are theirs."""
    return tuple(n for n in (trial.model, getattr(trial, "haystack", "")) if n in (*BUNDLED, *COLLECTIONS))


@lru_cache(maxsize=1)
def loaded(model: str, dtype: str, device: str) -> tuple[Any, Any]:
    """The model and its tokenizer; the trials of one worker share them. device: auto, or as torch names it."""
    return load_model(model, dtype=dtype, device=device)


@lru_cache(maxsize=2)
def _texts(haystack: str, which: str) -> tuple[str, ...]:
    validation, reported = split(essays(haystack), 0.5)
    return tuple(e.text for e in (validation if which == "validation" else reported))


def haystack_text(haystack: str, which: str, needle: int, characters: int) -> str:
    """Essays of one half of the haystack, from a place that depends on the needle, joined until long enough."""
    texts = _texts(haystack, which)
    start = Key("gemfilter/haystack") / STREAMS.get(which, which) / needle
    first = int(start.numpy().integers(len(texts)))
    found: list[str] = []
    for i in range(len(texts)):
        found.append(texts[(first + i) % len(texts)])
        if sum(map(len, found)) >= characters:
            break
    return "\n\n".join(found)


def needle_number(which: str, i: int) -> Needle:
    """The i-th needle of a set, whatever the number of needles that are used; of "kinds" the one of the i-th kind."""
    if which == "kinds":
        return of_kind(i, Key("gemfilter/needles"))
    return needles(which, i + 1, Key("gemfilter/needles"))[i]


def sentence_of(which: str, needle: int) -> int:
    """The kind of sentence of a needle."""
    return needle if which == "kinds" else needle % len(FACTS[which])


def prompt_of(tokenizer: Any, haystack: str, which: str, needle: int, length: int, depth: float, chat: bool) -> Prompt:
    """The prompt of a setting; settings are chosen and results reported on different needles and essays."""
    text = haystack_text(haystack, which, needle, 8 * length)
    return hide(tokenizer, text, needle_number(which, needle), length=length, depth=depth, chat=chat)


def check_window(keep: int) -> None:
    """Refuse a cache that is hardly more than the window that SnapKV and H2O keep."""
    if keep < 40:
        raise SettingError("keep", keep, "at least 40", "SnapKV and H2O keep a window of 32 in any case")


def check_grid(lengths: tuple[int, ...], depths: tuple[float, ...], counts: tuple[int, ...], which: str) -> None:
    """Refuse a grid that is empty or out of range."""
    if not lengths or min(lengths) < 128:
        raise SettingError("lengths", lengths, "token counts of at least 128", "1024 and 2048 are usual")
    if not depths or not all(0 <= d <= 1 for d in depths):
        raise SettingError("depths", depths, "numbers from 0 to 1", "0.5 puts the needle in the middle")
    if len(counts) not in (1, len(lengths)) or min(counts, default=0) < 1:
        raise SettingError("needles", counts, "one count, or one per length, each at least 1", "5 is usual")
    if which not in SETS:
        raise SettingError("which", which, "validation or reported", "reported is the set for results")


@contextlib.contextmanager
def keeping(layout: Layout, model: Any, layers: Iterable[int]) -> Iterator[tuple[Any, dict[int, tuple[Any, ...]]]]:
    """The model to run, and what the attention of some layers receives of the prompt as it does: layer -> (module,
    hidden, rotary); later calls are generated tokens."""
    seen: dict[int, tuple[Any, ...]] = {}

    def keep(layer: int, attn: Any, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> None:
        seen.setdefault(layer, (layout.layers(model)[layer].self_attn, hidden, rotary))  # it outlives the block

    with watched(layout, model, set(layers), keep) as seeing:
        yield seeing, seen


def protected_of(prompt: Prompt, start: int) -> Tensor:
    """Bool 1 n: the first `start` tokens and everything after the text."""
    mask = torch.zeros(1, len(prompt.input_ids), dtype=torch.bool)
    mask[:, :start] = True
    mask[:, prompt.question[0] :] = True
    return mask


def kept_at(
    layout: Layout, seen: tuple[Any, ...], scoring: Scoring, keep: int, protected: Tensor | None = None
) -> Tensor:
    """The tokens that a watched layer keeps of one prompt, as `select` would."""
    attn, hidden, rotary = seen
    mask = torch.ones(1, hidden.shape[1], dtype=torch.bool, device=hidden.device)
    with torch.inference_mode():
        found = score_layer(layout, attn, hidden, rotary, mask, scoring)
    protected = torch.zeros_like(mask) if protected is None else protected.to(mask.device)
    return best(found, mask, protected, [keep])[0].cpu()
