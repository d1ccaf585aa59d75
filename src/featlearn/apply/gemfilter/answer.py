"""Answer questions about a long text from the tokens that GemFilter keeps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from featlearn.apply.gemfilter.speed import Speed
from featlearn.core import SettingError
from featlearn.errors import brief
from featlearn.methods.gemfilter import Result, Scoring, Selection, generate, layout_of, recommended, select
from featlearn.methods.gemfilter.generating import greedily, readable
from featlearn.methods.gemfilter.given import count_of, plain_number, whole
from featlearn.methods.gemfilter.layouts import check_layer
from featlearn.methods.gemfilter.selecting import SOFTMAX, check_prompt, check_scoring
from featlearn.methods.gemfilter.views import undisturbed
from featlearn.methods.memory import PassCost, device_of_model, measured
from featlearn.methods.shared_context import Context, read_context, text_changes
from featlearn.tasks.chat import Chat, check_text
from featlearn.tasks.metrics import qa_f1
from featlearn.tasks.needles import INTRODUCTION
from featlearn.tasks.prompts import TokenizedPrompt, read

REQUEST = "\n\nAnswer from the text above. {question}"
BLIND = "\n\nQuestions about the facts in the text above will follow."


@dataclass(frozen=True)
class Loss:
    """What selecting before the question was known changed, against the question-aware reply.

    likelihood: of that reply, mean log-probability per token under its own kept tokens and under the blind ones;
    agreement: F1 of the words of the two replies; aware: the question-aware reply.
    """

    likelihood_aware: float
    likelihood_blind: float
    agreement: float
    aware: str


@dataclass(frozen=True)
class Reply:
    """A reply, what it was made from, and what it took.

    tokens, kept: of the prompt and of what the whole model saw; protected: of these, kept whatever their score. first:
    pass one, zero for the second question on one selection; second: pass two with the generation. warnings: in words.
    """

    question: str
    text: str
    tokens: int
    kept: int
    protected: int
    layer: int
    kept_text: str
    first: PassCost
    second: PassCost
    warnings: tuple[str, ...] = ()
    loss: Loss | None = None


def prompts(
    tokenizer: Any, context: str, questions: Sequence[str], chat: bool | Chat = True, request: str = REQUEST
) -> tuple[TokenizedPrompt, ...]:
    """One prompt per question, through the chat template where there is one and chat holds."""
    if isinstance(questions, str | bytes) or not isinstance(questions, Iterable):
        raise SettingError("question", brief(questions), "a list of texts", "put it in a list: [question]")
    questions = tuple(questions)
    for q in questions:
        check_text("question", q, empty=True)
    if not questions or not all(q.strip() for q in questions):
        raise SettingError("question", list(questions), "at least one, none of them empty", "ask with --question")
    check_tokenizer(tokenizer)
    return tuple(read(tokenizer, INTRODUCTION, context, request.format(question=q), chat=chat) for q in questions)


def answer(
    model: Any,
    tokenizer: Any,
    context: str,
    questions: Sequence[str],
    *,
    keep: int | float = 1024,
    layer: int | str = "auto",
    scoring: Scoring | None = None,
    max_new_tokens: int = 64,
    chat: bool | Chat = True,
    protect: bool = True,
    blind: bool = False,
    measure_loss: bool = False,
    choose: Callable[..., Selection] = select,
    read_once: bool = True,
    streamer: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Reply, ...]:
    """Answer questions about one text with GemFilter, greedily.

    Start token and question are protected (a warning says so where they alone exceed `keep`; then nothing is). blind:
    select once, before any question: what votes is the end of the text with a request that announces questions; each
    question is then added to the same kept tokens. measure_loss: answer every question both ways and compare. choose:
    pass one, `select` or `select_chunked`, as for `generate` of the method. read_once: with `select` and several
    questions, pass one reads the text once and then only each question (see `read_context`), in the memory of the cache
    of the layers before the filter; replies are those of separate calls. chat: False for no template, or a Chat with
    its arguments, a system prompt and earlier turns. streamer: as Transformers has them, is given the tokens of the
    replies as they come.

    Raises SettingError, before any work, for empty texts and questions and as `generate` of the method.

    Example:
        >>> (reply,) = answer(model, tokenizer, text, ["Who owns the mill?"], keep=512, layer=18)
        >>> reply.kept, reply.first.seconds > 0
        (512, True)
    """
    max_new_tokens = whole("max-new-tokens", max_new_tokens, 1, "64 is the default")
    flags = {"protect": protect, "blind": blind, "measure_loss": measure_loss, "read_once": read_once}
    for name, value in flags.items():
        if not isinstance(plain_number(value), bool):
            raise SettingError(name, brief(value), "True or False", "generate of gemfilter takes masks to protect")
    if measure_loss and not blind:
        raise SettingError("measure_loss", True, "with blind=True", "it compares blind with the usual way")
    if streamer is not None and not hasattr(streamer, "put"):
        raise SettingError("streamer", brief(streamer), "a streamer of Transformers", "TextStreamer prints replies")
    for name, value in (("choose", choose), ("progress", progress)):
        if not callable(value) and (name, value) != ("progress", None):
            raise SettingError(name, brief(value), "a function", "leave it out")
    questions = tuple(questions) if isinstance(questions, Iterable) and not isinstance(questions, str) else questions
    tokenized_prompts = prompts(tokenizer, context, questions, chat)
    layer, scoring = filter_of(model, layer, scoring)
    longest = max(r.input_ids.shape[1] for r in tokenized_prompts)
    check_layer(layout_of(model), model, layer, longest)
    for r in tokenized_prompts:
        count_of(keep, r.input_ids.shape[1])
        check_prompt(layout_of(model), model, r.input_ids, r.mask())
    setting = {"layer": layer, "keep": keep, "scoring": scoring, "choose": choose}
    out = []
    if not blind:
        text = _read_once(model, tokenized_prompts, setting) if read_once else None
        if text is not None:
            setting["choose"] = text.select
        for question, tokenized in zip(questions, tokenized_prompts, strict=True):
            result, warnings = _aware(model, tokenizer, tokenized, setting, max_new_tokens, protect, streamer)
            out.append(_reply(question, tokenized, result, warnings))
            if text is not None and len(out) == 1:
                out[0] = replace(out[0], first=_both(text.cost, out[0].first))
            if progress:
                progress(len(out), len(tokenized_prompts))
        return tuple(out)
    chosen = _blind_selection(model, tokenizer, context, chat, setting, protect)
    for i, (question, tokenized) in enumerate(zip(questions, tokenized_prompts, strict=True)):
        ids = torch.cat([chosen.ids, tokenized.input_ids[:, -tokenized.tail :]], dim=1)
        result, second = measured(
            device_of_model(model),
            ids.shape[1],
            lambda ids=ids: greedy(model, ids, max_new_tokens, streamer),
        )
        text = tokenizer.decode(result[0], skip_special_tokens=True)
        loss = None
        if measure_loss:
            aware, _ = _aware(model, tokenizer, tokenized, setting, max_new_tokens, protect)
            said = aware.new_tokens[:, :max_new_tokens]
            under = [float(log_likelihood(model, p, said).mean()) for p in (aware.kept_ids, ids)]
            loss = Loss(under[0], under[1], qa_f1(text, aware.text[0]), aware.text[0])
        first = chosen.cost if i == 0 else PassCost(0.0, None, 0)
        kept_text = chosen.text + tokenizer.decode(tokenized.input_ids[0, -tokenized.tail :])
        protected = chosen.protected + tokenized.tail if protect else 0
        out.append(
            Reply(
                question,
                text,
                tokenized.input_ids.shape[1],
                ids.shape[1],
                protected,
                layer,
                kept_text,
                first,
                second,
                chosen.warnings,
                loss,
            )
        )
        if progress:
            progress(len(out), len(tokenized_prompts))
    return tuple(out)


def check_tokenizer(tokenizer: Any) -> None:
    """Errors: SettingError for what cannot make prompts."""
    if not callable(tokenizer) or not hasattr(tokenizer, "chat_template"):
        raise SettingError("tokenizer", brief(tokenizer), "a tokenizer of Transformers", "AutoTokenizer loads one")


def printer(tokenizer: Any) -> Any:
    """A streamer that prints the words of a reply as they come."""
    from transformers import TextStreamer

    return TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)


def filter_of(model: Any, layer: int | str, scoring: Scoring | None = None) -> tuple[int, Scoring]:
    """The filter layer and scoring that are meant: "auto" is the calibrated or the known one of this model."""
    if isinstance(layer, str):
        if layer != "auto":
            raise SettingError("layer", layer, 'a number from 0, or "auto"', "auto takes the calibrated layer")
        setting = recommended(model)
        layer, scoring = setting.layer, setting.scoring if scoring is None else scoring
    scoring = SOFTMAX if scoring is None else scoring
    check_scoring(scoring)
    return layer, scoring


def greedy(model: Any, input_ids: Int[Tensor, "1 n"], max_new_tokens: int, streamer: Any = None) -> Int[Tensor, "1 t"]:
    """The ids (1, t) that the model's own greedy `generate` adds to a prompt (1, n)."""
    input_ids = input_ids.to(device_of_model(model))
    found = model.generate(
        input_ids, attention_mask=torch.ones_like(input_ids), streamer=streamer, **greedily(model, max_new_tokens)
    )
    return found[:, input_ids.shape[1] :]


def log_likelihood(model: Any, input_ids: Int[Tensor, "1 n"], reply_ids: Int[Tensor, "1 t"]) -> Float[Tensor, " t"]:
    """log-probability (t) of every token of a reply (1, t) after a prompt (1, n) and the reply's earlier tokens."""
    ids = torch.cat([input_ids, reply_ids.to(input_ids.device)], dim=1).to(device_of_model(model))
    t = reply_ids.shape[1]
    with undisturbed(model) as own:
        logits = own(ids, use_cache=False, logits_to_keep=t + 1).logits[0, -t - 1 : -1].float()
        return logits.log_softmax(-1).gather(1, ids[0, -t:, None])[:, 0].cpu()


def protection(
    tokenized: TokenizedPrompt, keep: int | float, protect: bool = True
) -> tuple[Bool[Tensor, "1 n"], tuple[str, ...]]:
    """What is protected of a prompt (1, n), nothing where that alone exceeds `keep`, and the warning that says so."""
    mask = tokenized.protected()
    count, needed = count_of(keep, mask.shape[1]), int(mask.sum())
    if not protect:
        return torch.zeros_like(mask), ()
    if needed > min(count, mask.shape[1]):
        return torch.zeros_like(mask), (
            f"keep = {keep} is less than the {needed} tokens of the question and the start: nothing is protected",
        )
    return mask, ()


def shares(model: Any, tokenized_prompts: Sequence[TokenizedPrompt], keep: int | float, choose: Any = select) -> bool:
    """Whether `answer` reads the text of several questions once: two that are filtered, by `select`."""
    lengths = [r.input_ids.shape[1] for r in tokenized_prompts]
    longer = sum(count_of(keep, n) < n for n in lengths)
    return choose is select and longer > 1 and not text_changes(model)


def _read_once(model: Any, tokenized_prompts: Sequence[TokenizedPrompt], setting: dict[str, Any]) -> Context | None:
    """What all prompts begin with, read by pass one; None where each is better read by itself."""
    if not shares(model, tokenized_prompts, setting["keep"], setting["choose"]):
        return None
    rows = [r.input_ids[0] for r in tokenized_prompts]
    n = min(map(len, rows))
    same = torch.stack([row[:n] == rows[0][:n] for row in rows]).all(0)
    p = min(int(same.int().cumprod(0).sum()), n - 1)
    return read_context(model, rows[0][None, :p], layer=setting["layer"], scoring=setting["scoring"]) if p else None


def _both(one: PassCost, other: PassCost) -> PassCost:
    peaks = [c.peak_bytes for c in (one, other) if c.peak_bytes is not None]
    return PassCost(one.seconds + other.seconds, max(peaks, default=None), one.tokens + other.tokens)


def _aware(
    model: Any,
    tokenizer: Any,
    tokenized: TokenizedPrompt,
    setting: dict[str, Any],
    max_new_tokens: int,
    protect: bool,
    streamer: Any = None,
) -> tuple[Result, tuple[str, ...]]:
    mask, warnings = protection(tokenized, setting["keep"], protect)
    more = {**greedily(model, max_new_tokens), "streamer": streamer}
    result = generate(
        model, tokenized.input_ids, tokenized.mask(), **setting, protect=mask, tokenizer=tokenizer, **more
    )
    return result, warnings


def _reply(question: str, tokenized: TokenizedPrompt, result: Result, warnings: tuple[str, ...]) -> Reply:
    kept = result.kept_ids.shape[1]
    n = tokenized.input_ids.shape[1]
    protected = int(result.selection.protected.sum()) if kept < n else 0
    return Reply(
        question,
        result.text[0],
        n,
        kept,
        protected,
        result.selection.layer,
        result.kept_text[0],
        result.first,
        result.second,
        warnings,
    )


@dataclass(frozen=True)
class _Blind:
    ids: Tensor
    text: str
    protected: int
    cost: PassCost
    warnings: tuple[str, ...]


def _blind_selection(
    model: Any, tokenizer: Any, context: str, chat: bool | Chat, setting: dict[str, Any], protect: bool
) -> _Blind:
    """The kept tokens of introduction and text, chosen without a question."""
    tokenized = read(tokenizer, INTRODUCTION, context, BLIND, chat=chat)
    ids, n = tokenized.input_ids, tokenized.input_ids.shape[1]
    mask, warnings = protection(tokenized, setting["keep"], protect)
    if count_of(setting["keep"], n) >= n:
        indices, cost = torch.arange(n), PassCost(0.0, None, 0)
    else:
        how = {name: value for name, value in setting.items() if name != "choose"}
        chosen = setting["choose"](model, ids, tokenized.mask(), **how, protect=mask)
        indices, cost = chosen.indices[0].cpu(), chosen.cost
    indices = indices[indices < n - tokenized.tail]
    text = readable(tokenizer, ids[0, : n - tokenized.tail], indices.tolist())
    protected = int(mask[:, : n - tokenized.tail].sum())
    return _Blind(ids[:, indices], text, protected, cost, warnings)


def expected(
    speed: Speed,
    tokenized_prompts: Sequence[TokenizedPrompt],
    keep: int | float,
    layer: int,
    max_new_tokens: int,
    blind: bool = False,
    measure_loss: bool = False,
    chunked_prefill: bool = False,
    shared: bool = False,
) -> tuple[float, float]:
    """Seconds, at most, and bytes at the peak that `answer` will need; chunked_prefill: with `select_chunked` as pass
    one; shared: where it `shares` the reading of the text, which then stays in memory."""
    seconds = peak = 0.0
    for i, tokenized in enumerate(tokenized_prompts):
        n = tokenized.input_ids.shape[1]
        k = min(n, count_of(keep, n))
        both = speed.filtered(n, k, max_new_tokens, layer)
        seconds += speed.reply(k, max_new_tokens) if (blind or shared) and i else both
        seconds += both if measure_loss else 0
        first = speed.chunked_peak(n) if chunked_prefill else speed.peak(n, cached=False)
        held = n * speed.cache * (layer + 1) / speed.layers if shared else 0
        peak = max(peak, first + held if k < n else 0, speed.peak(k + max_new_tokens) + held)
    return seconds, peak
