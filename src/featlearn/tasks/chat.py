"""What stands around a text in a prompt: a chat template with its arguments, a system prompt, earlier turns.

Whoever writes a text or a question does not speak for the other roles: what looks like a token of the template in them
is read as characters.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from featlearn.core import SettingError

ROLES = ("user", "assistant", "system", "tool")


@dataclass(frozen=True)
class Chat:
    """How a chat template is filled.

    template: its arguments, such as {"enable_thinking": False}. system: a system prompt, "" for what the template does
    without. turns: what was said before, {"role": "user" or "assistant", "content": text} each.
    """

    template: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    system: str = ""
    turns: Sequence[Mapping[str, str]] = ()

    def __post_init__(self) -> None:
        for i, turn in enumerate(self.turns):
            if (
                not isinstance(turn, Mapping)
                or turn.get("role") not in ROLES
                or not isinstance(turn.get("content"), str)
            ):
                allowed = '{"role": "user" or "assistant", "content": a text}'
                raise SettingError("turns", f"number {i + 1}, {str(turn)[:60]}", allowed, "one object for each turn")


def frame(tokenizer: Any, introduction: str, request: str, chat: bool | Chat = True) -> tuple[str, str]:
    """What stands before and after the text: through the tokenizer's chat template where it has one and chat holds.

    Errors: SettingError for a template that fails, or does not show the message once as it is.
    """
    if not chat or not tokenizer.chat_template:
        start = tokenizer.bos_token or ""
        return start + introduction, request + "\nAnswer:"
    how = Chat() if chat is True else chat
    names = special_names(tokenizer)
    for i, turn in enumerate(how.turns):
        forged = next((name for name in names if name in turn["content"]), None)
        if forged:
            what = f"number {i + 1} with {forged}, a token of the template"
            raise SettingError("turns", what, "texts without such tokens", "take it out: it would open another role")
    mark = "<<<text>>>"
    while mark in introduction + request:
        mark = f"<{mark}>"
    messages = [{"role": "system", "content": how.system}] if how.system else []
    messages += [dict(turn) for turn in how.turns]
    messages.append({"role": "user", "content": introduction + mark + request})
    try:
        whole = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **how.template)
    except Exception as e:  # templates are programs of others
        told = " ".join(f"{type(e).__name__}: {e}".split())[:160]
        remedy = "look at --system, --turns and --template, or leave the template out with --no-chat"
        raise SettingError("chat", f"with a template that fails ({told})", "messages that it takes", remedy) from None
    parts = whole.split(mark)
    if len(parts) != 2:
        what = f"a template that shows the message {len(parts) - 1} times"
        raise SettingError("chat", what, "one that shows it once, as it is", "leave the template out: --no-chat")
    return parts[0], parts[1]


def encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    """Text to ids, nothing added, no warning about the length."""

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    return encode


def text_encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    """As `encoder`, for texts of a user: names of special tokens in them are characters, and open no role."""
    encode, names = encoder(tokenizer), special_names(tokenizer)
    if not names:
        return encode
    pattern = re.compile("|".join(map(re.escape, names)))

    def plain(text: str) -> list[int]:
        ids: list[int] = []
        first = 0
        for found in pattern.finditer(text):  # cut within the name, so that the tokenizer does not see it
            cut = found.start() + 1
            ids += encode(text[first:cut])
            first = cut
        return ids + encode(text[first:])

    return plain


def special_names(tokenizer: Any) -> list[str]:
    """Texts that a tokenizer reads as one special token, longer ones first."""
    known = getattr(tokenizer, "added_tokens_decoder", {})
    special = {str(t.content) for t in known.values() if getattr(t, "special", False)}
    special |= set(getattr(tokenizer, "all_special_tokens", ()))
    return sorted((t for t in special if len(t) > 1), key=len, reverse=True)
