"""A text, a request about it, and the replies that count as right: what every long-prompt comparison is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from featlearn.core import SettingError
from featlearn.tasks.chat import Chat, check_text, encoder, frame, text_encoder
from featlearn.tasks.metrics import METRICS, graded


@dataclass(frozen=True)
class Item:
    """One request about one text.

    kind: which data set or kind of task; introduction, context, request: the prompt in three parts, of which the
    middle one is long; answers: right replies; metric: a name of METRICS; classes: what a classification chooses
    from; first_line: only the first line of the reply counts; continued: the reply goes on where the request ends, so
    that neither a chat template nor "Answer:" may follow it.
    """

    kind: str
    introduction: str
    context: str
    request: str
    answers: tuple[str, ...]
    metric: str = "qa_f1"
    classes: tuple[str, ...] = ()
    max_new_tokens: int = 32
    first_line: bool = False
    continued: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise SettingError("metric", self.metric, f"one of {', '.join(METRICS)}", "see featlearn.tasks.metrics")


@dataclass(frozen=True)
class TokenizedPrompt:
    """The prompt of an item.

    input_ids: 1 n; head, tail: how many of its first and last tokens are no text but introduction and request;
    cut: tokens that were taken out of the middle because the prompt was too long.
    """

    input_ids: Int[Tensor, "1 n"]
    head: int
    tail: int
    cut: int = 0

    def mask(self) -> Bool[Tensor, "1 n"]:
        """The attention mask of a prompt without padding: Bool 1 n, all True."""
        return torch.ones(self.input_ids.shape, dtype=torch.bool)

    def protected(self, start: int = 1) -> Bool[Tensor, "1 n"]:
        """The first `start` tokens and the request: Bool 1 n."""
        mask = torch.zeros(self.input_ids.shape, dtype=torch.bool)
        mask[:, :start] = True
        mask[:, mask.shape[1] - self.tail :] = True
        return mask


def framed(
    tokenizer: Any, introduction: str, request: str, chat: bool | Chat, continued: bool = False
) -> tuple[str, str]:
    """What stands before and after the text; see `frame`. continued: as it is, the reply goes on where request ends."""
    if continued:
        return (tokenizer.bos_token or "") + introduction, request
    return frame(tokenizer, introduction, request, chat)


def read(
    tokenizer: Any,
    introduction: str,
    context: str,
    request: str,
    *,
    chat: bool | Chat = True,
    continued: bool = False,
    longest: int | None = None,
) -> TokenizedPrompt:
    """The three parts as one prompt, through the chat template where there is one and chat holds.

    What looks like a token of the template in the text or the request is read as characters there.

    longest: of a longer prompt the middle is left out, as the LongBench harness does: longest // 2 tokens at its
    start stay and the others at its end. Raises SettingError for a text without tokens, and where the request alone is
    longer than what may stay.
    """
    check_text("context", context)
    check_text("request", request, empty=True)
    encode = encoder(tokenizer)
    before, after = framed(tokenizer, introduction, request, chat, continued)
    plain = text_encoder(tokenizer)
    head, inside = encode(before), plain(context)
    own = request if after.startswith(request) else request.rstrip()  # some templates strip a message
    spoken = plain(own)
    forged = after.startswith(own) and spoken != encode(own)
    tail = spoken + encode(after[len(own) :]) if forged else encode(after)
    ids = head + inside + tail
    if longest is None or len(ids) <= longest:
        return TokenizedPrompt(torch.tensor([ids]), len(head), len(tail))
    first = longest // 2
    last = longest - first
    if len(tail) > last or len(head) > first:
        raise SettingError(
            "request", f"{len(tail)} tokens", f"at most {last} of the {longest} that fit", "shorten it, or keep more"
        )
    return TokenizedPrompt(torch.tensor([ids[:first] + ids[-last:]]), len(head), len(tail), len(ids) - longest)


def prompt(tokenizer: Any, item: Item, *, chat: bool | Chat = True, longest: int | None = None) -> TokenizedPrompt:
    """The prompt of an item; see `read`."""
    parts = item.introduction, item.context, item.request
    return read(tokenizer, *parts, chat=chat, continued=item.continued, longest=longest)


def grade(item: Item, reply: str) -> float:
    """How good a reply is by the metric of its item, from 0 to 1."""
    return graded(item.metric, reply, item.answers, item.classes, item.first_line)


def kinds(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Items by kind, in order of first appearance."""
    out: dict[str, list[Item]] = {}
    for item in items:
        out.setdefault(item.kind, []).append(item)
    return out
