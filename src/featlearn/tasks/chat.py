"""What stands around a text in a prompt: a chat template with its arguments, a system prompt, earlier turns.

Whoever writes a text or a question does not speak for the other roles: what looks like a token of the template in them
is read as characters.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from featlearn.core import SettingError
from featlearn.errors import brief

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
        if not isinstance(self.template, Mapping) or not all(isinstance(name, str) for name in self.template):
            raise SettingError(
                "template", brief(self.template), "its arguments by name", 'such as {"enable_thinking": False}'
            )
        check_text("system", self.system, empty=True)
        if isinstance(self.turns, str | Mapping) or not isinstance(self.turns, Iterable):
            raise SettingError(
                "turns", brief(self.turns), "a list of turns", 'such as [{"role": "user", "content": a text}]'
            )
        object.__setattr__(self, "turns", tuple(self.turns))  # what can be read once is read here
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
    if not isinstance(chat, bool | Chat):
        raise SettingError("chat", brief(chat), "True, False or a Chat", "Chat(template={...}) fills the template")
    how = chat if isinstance(chat, Chat) else Chat()
    if not chat or not tokenizer.chat_template:
        for name in ("system", "turns", "template"):
            if getattr(how, name):
                raise SettingError(name, "given", "a model with a chat template", "say it in the text")
        start = tokenizer.bos_token or ""
        return start + introduction, request + "\nAnswer:"
    names = special_names(tokenizer)
    _check_turns(how, names)
    before, after = _rendered(tokenizer, how, introduction, request)
    own = request if after.startswith(request) else request.rstrip()  # some templates strip a message
    if not before.endswith((introduction, introduction.lstrip())) or not after.startswith(own):
        raise SettingError("chat", "a template that changes the message", *AS_IT_IS)
    _check_shown(how, before)
    names = _names(tokenizer)
    if any(name in request for name in names):
        clean = functools.reduce(lambda text, name: text.replace(name, "-" * len(name)), names, request)
        if _rendered(tokenizer, how, introduction, clean)[1][len(own) :] != after[len(own) :]:
            raise SettingError("chat", "a template that shows the request twice", *AS_IT_IS)
    return before, after


AS_IT_IS = "one that shows it once, as it is", "leave the template out: --no-chat"


def _rendered(tokenizer: Any, how: Chat, introduction: str, request: str) -> tuple[str, str]:
    """What the template puts before and after the text of a message."""
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
        raise SettingError("chat", f"a template that shows the message {len(parts) - 1} times", *AS_IT_IS)
    return parts[0], parts[1]


def _check_turns(how: Chat, names: Sequence[str]) -> None:
    """Refuse a system prompt and earlier turns that would open another role."""
    said = [("system", "one", how.system)]
    for i, turn in enumerate(how.turns):
        said += [("turns", f"number {i + 1}", value) for value in turn.values() if isinstance(value, str)]
    for field_name, which, text in said:
        forged = next((name for name in names if name in text), None)
        if forged:
            what = f"{which} with {forged}, a token of the template"
            remedy = "take it out: it would open another role"
            raise SettingError(field_name, what, "texts without such tokens", remedy)


def _check_shown(how: Chat, before: str) -> None:
    """Refuse what a template leaves out: of earlier replies it may drop all but the end, such as what was thought."""
    remedy = "say it in the text or the question, or leave the template out: --no-chat"
    if how.system.strip() not in before:
        raise SettingError("system", "left out by the template", "a template that shows it", remedy)
    for i, turn in enumerate(how.turns):
        lines = turn["content"].strip().splitlines()
        part = lines[-1] if turn["role"] == "assistant" and lines else turn["content"].strip()
        if turn["role"] != "tool" and part not in before:
            raise SettingError("turns", f"number {i + 1} left out by the template", "a template that shows it", remedy)


def check_text(name: str, value: Any, empty: bool = False) -> None:
    """Refuse what is no text, without words, or cannot be written as UTF-8."""
    if not isinstance(value, str):
        raise SettingError(name, f"a {type(value).__name__}", "a text", "give a str; files are read with .read_text()")
    if not value.strip() and not empty:
        raise SettingError(name, repr(value[:20]), "a text with words in it", "the prompt is empty")
    try:
        value.encode()
    except UnicodeEncodeError as e:
        what = f"with {value[e.start]!a} at character {e.start}"
        raise SettingError(name, what, "a text of whole characters", "it was cut or decoded wrongly") from None


def encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    """Text to ids, nothing added, no warning about the length."""

    def encode(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    return encode


def text_encoder(tokenizer: Any) -> Callable[[str], list[int]]:
    """As `encoder`, for texts of a user: names of special tokens in them are characters, and open no role."""
    encode, names = encoder(tokenizer), _names(tokenizer)
    if not names:
        return encode
    roles = {tokenizer.convert_tokens_to_ids(name) for name in names} - {getattr(tokenizer, "unk_token_id", None)}

    def plain(text: str) -> list[int]:
        ids = [i for _, part in plain_parts(tokenizer, text) for i in encode(part)]
        if not roles.isdisjoint(ids):  # a tokenizer that reads other spellings as the same token
            token = tokenizer.convert_ids_to_tokens(next(i for i in ids if i in roles))
            what = f"with what this tokenizer reads as {token}, a token of the template"
            raise SettingError("text", what, "texts without such tokens", "take it out: it would open another role")
        return ids

    return plain


def plain_parts(tokenizer: Any, text: str) -> list[tuple[int, str]]:
    """(place, part) of a text that is cut within every name of a token of the template, so that none is seen."""
    names = _names(tokenizer)
    found = re.finditer("|".join(map(re.escape, names)), text) if names else ()
    cuts = [0, *(place.start() + 1 for place in found), len(text)]
    return [(a, text[a:b]) for a, b in itertools.pairwise(cuts) if b > a]


def _names(tokenizer: Any) -> list[str]:
    """Names of special tokens and of those in the template, longer ones first."""
    return sorted({*special_names(tokenizer), *_named_in_template(tokenizer)}, key=len, reverse=True)


def _named_in_template(tokenizer: Any) -> list[str]:
    """Further tokens that stand for something in the chat template, such as <think> or <tool_call>."""
    template = tokenizer.chat_template or ""
    text = template if isinstance(template, str) else "\n".join(map(str, dict(template).values()))
    added = (str(t.content) for t in getattr(tokenizer, "added_tokens_decoder", {}).values())
    return [t for t in added if len(t) > 1 and t.strip() and t in text]


def special_names(tokenizer: Any) -> list[str]:
    """Texts that a tokenizer reads as one special token, longer ones first."""
    known = getattr(tokenizer, "added_tokens_decoder", {})
    special = {str(t.content) for t in known.values() if getattr(t, "special", False)}
    special |= set(getattr(tokenizer, "all_special_tokens", ()))
    return sorted((t for t in special if len(t) > 1), key=len, reverse=True)
