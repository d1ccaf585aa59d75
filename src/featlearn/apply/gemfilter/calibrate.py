"""Which layer of a model should filter: where the last query sees the needle, by layer and scoring (Figure 9.5)."""

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from featlearn.apply.gemfilter.answer import check_tokenizer, greedy
from featlearn.apply.gemfilter.files import lines_of, word
from featlearn.apply.gemfilter.speed import Speed
from featlearn.apply.gemfilter.speed import speed_of as speed_of
from featlearn.core import Key, SettingError
from featlearn.lab.quantity import SHARE
from featlearn.lab.uncertainty import mean_of
from featlearn.methods.gemfilter.given import count_of, plain_number, whole
from featlearn.methods.gemfilter.layout import Layout
from featlearn.methods.gemfilter.layouts import layout_of
from featlearn.methods.gemfilter.recommended import Setting, fingerprint, folder, recommended, shape_of
from featlearn.methods.gemfilter.recommended import save as save_setting
from featlearn.methods.gemfilter.selecting import RAW, SOFTMAX, Scoring, best, check_prompt, score_layer
from featlearn.methods.gemfilter.views import PLAIN_OUTPUT, undisturbed, watched
from featlearn.tasks.chat import plain_parts
from featlearn.tasks.needles import INTRODUCTION, REQUEST, distance, found_in, hide, needles, recall
from featlearn.tasks.prompts import read

SCORINGS: dict[str, Scoring] = {"softmax": SOFTMAX, "raw": RAW}
SHORTEST = 128
SHIPPED = {("llama", 30, 576, 49152): 30, ("gemma3_text", 18, 640, 262144): 20}
"""Prompts on which the known layers of shapes rest that were measured here; the others are published only."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Marked:
    """A prompt whose relevant tokens are known.

    input_ids: (n); needles: (first, end) of every place where the answer stands, one of which is enough; tail: tokens
    of the question at the end; where: what to call it in messages; answer: what a right reply contains, "" if unknown.
    """

    input_ids: Int[Tensor, " n"]
    needles: tuple[tuple[int, int], ...]
    tail: int
    where: str
    answer: str = ""

    def protected(self) -> Tensor:
        """The start token and the question: Bool 1 n, as `answer` protects them."""
        mask = torch.zeros(1, len(self.input_ids), dtype=torch.bool)
        mask[:, :1] = True
        mask[:, len(self.input_ids) - self.tail :] = True
        return mask


@dataclass(frozen=True)
class Curve:
    """What one scoring keeps of the needle, by layer.

    recall: (layers, prompts) share of the needle's tokens that are kept; distance: (layers, prompts) tokens between
    the needle and the nearest one kept. NaN in the rows of layers that see a window only.
    """

    recall: np.ndarray
    distance: np.ndarray


@dataclass(frozen=True)
class Answered:
    """Which prompts were answered right: by the full model, and with the tokens that a layer and its scoring keep."""

    full: np.ndarray
    by: dict[tuple[int, str], np.ndarray]


@dataclass(frozen=True)
class Calibration:
    """The advice and what it rests on.

    windows: by layer the window it sees, None for all. answered: of the layers that recall puts first, None where no
    prompt has an answer or none was asked for. replaces: what `layer="auto"` took before, "" for nothing; path: where
    the advice was saved, None where it was not, with the reason in `unsaved`.
    """

    curves: dict[str, Curve]
    windows: tuple[int | None, ...]
    layer: int
    scoring: str
    keep: int | float
    lengths: tuple[int, ...]
    answered: Answered | None = None
    replaces: str = ""
    unsaved: str = ""
    path: Path | None = None

    def recall(self, scoring: str, layer: int) -> tuple[float, float, float]:
        """Mean recall of a layer and its 95 % interval over prompts, exact near 0 and 1."""
        found = mean_of(self.curves[scoring].recall[layer], SHARE, "prompt")
        return found.value, *found.at(0.95)

    def rows(self) -> list[dict[str, Any]]:
        """A row per layer for tables and JSON; None where a layer sees a window only, or was not asked to answer."""
        out = []
        for layer, window in enumerate(self.windows):
            row: dict[str, Any] = {"layer": layer, "window": window}
            for name in self.curves:
                seen = (None,) * 3 if window is not None else self.recall(name, layer)
                row |= dict(zip((f"recall_{name}", f"low_{name}", f"high_{name}"), seen, strict=True))
                distance = self.curves[name].distance[layer]
                row[f"distance_{name}"] = None if window is not None else float(np.median(distance))
                right = self.answered.by.get((layer, name)) if self.answered else None
                row[f"answers_{name}"] = None if right is None else float(right.mean())
            out.append(row)
        return out


def standard_error(values: np.ndarray) -> float:
    """Of the mean of independent values; 0 for a single one."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


# --- prompts ---------------------------------------------------------------------------------------------------------


def hidden(
    tokenizer: Any, essays: Sequence[Any], lengths: Sequence[int], count: int, key: Key, chat: bool = True
) -> tuple[Marked, ...]:
    """`count` prompts of the lengths in turn, needles of the validation set at depths spread over the text.

    essays: texts, or things with a `.text`.
    """
    check_hidden(lengths, count)
    texts = [getattr(e, "text", e) for e in essays]
    depths = np.linspace(0.05, 0.95, count)[(key / "depths").numpy().permutation(count)]
    out = []
    for i, needle in enumerate(needles("validation", count, key)):
        length = lengths[i % len(lengths)]
        first = int((key / "text" / i).numpy().integers(len(texts)))
        straw: list[str] = []
        while sum(map(len, straw)) < 8 * length and len(straw) < len(texts):
            straw.append(texts[(first + len(straw)) % len(texts)])
        prompt = hide(tokenizer, "\n\n".join(straw), needle, length=length, depth=float(depths[i]), chat=chat)
        tail = prompt.question[1] - prompt.question[0]
        out.append(Marked(prompt.input_ids, (prompt.needle,), tail, f"needle {i}", needle.answer))
    return tuple(out)


def check_hidden(lengths: Sequence[int], count: int) -> None:
    """Refuse lengths and counts that `hidden` cannot make prompts of."""
    if not lengths or min(lengths) < SHORTEST:
        raise SettingError("lengths", tuple(lengths), f"token counts of at least {SHORTEST}", "1024,2048 is usual")
    needles("validation", count, Key("count"))


def marked_lines(path: str | Path) -> tuple[tuple[str, str, str, str], ...]:
    """(place, context, question, answer) of every line of a JSONL file; the answer must stand in its context."""
    out = []
    for where, data in lines_of(path, "prompts"):
        context, question, answer = (word(data, name, where, "prompts") for name in ("context", "question", "answer"))
        if not places_of(context, answer):
            short = answer if len(answer) < 40 else answer[:37] + "..."
            raise SettingError("prompts", where, "an answer whose words stand in its context", f"{short!r} does not")
        out.append((where, context, question, answer))
    return tuple(out)


def marked(
    tokenizer: Any, lines: Sequence[tuple[str, str, str, str]], chat: bool = True, longest: int | None = None
) -> tuple[Marked, ...]:
    """The lines of `marked_lines` as prompts; the tokens of the answer are the needle, wherever it stands."""
    if not getattr(tokenizer, "is_fast", False):
        raise SettingError("prompts", type(tokenizer).__name__, "a fast tokenizer", "it has to say where tokens stand")
    out = []
    for where, context, question, answer in lines:
        tokenized = read(tokenizer, INTRODUCTION, context, REQUEST.format(question=question), chat=chat)
        n = tokenized.input_ids.shape[1]
        if longest is not None and n > longest:
            raise SettingError("prompts", where, f"at most the model's context of {longest} tokens", f"it has {n}")
        places = token_places(tokenizer, context)
        if len(places) + tokenized.head + tokenized.tail != n:
            raise SettingError("prompts", where, "a tokenizer that says where tokens stand", "leave the line out")
        needles = []
        for first, end in places_of(context, answer):
            at = [i for i, (a, b) in enumerate(places) if a < end and b > first]
            if at:
                needles.append((tokenized.head + at[0], tokenized.head + at[-1] + 1))
        out.append(Marked(tokenized.input_ids[0], tuple(needles), tokenized.tail, where, answer))
    return tuple(out)


def token_places(tokenizer: Any, context: str) -> list[tuple[int, int]]:
    """(first, end) in characters of every token of a text, read as prompts have it: no part of it is a role."""
    found: list[tuple[int, int]] = []
    for start, part in plain_parts(tokenizer, context):
        spans = tokenizer(part, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        found += [(start + a, start + b) for a, b in spans["offset_mapping"]]
    return found


def places_of(context: str, answer: str) -> list[tuple[int, int]]:
    """(first, end) of every occurrence of the answer's words, in characters; case and what stands between is free."""
    parts = re.findall(r"\w+", answer)
    if not parts:
        return []
    pattern = r"(?<!\w)" + r"\W+".join(map(re.escape, parts)) + r"(?!\w)"
    return [m.span() for m in re.finditer(pattern, context, re.IGNORECASE)]


# --- curves ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def scoring_layers(
    layout: Layout, model: Any, layers: Sequence[int], scorings: Sequence[Scoring], mask: Tensor
) -> Iterator[tuple[Any, dict[tuple[int, int], Tensor]]]:
    """The model to run, and what fills as it does: (layer, number of the scoring) -> scores "b n".

    Scored in passing, so that no layer's hidden states are kept.
    """
    found: dict[tuple[int, int], Tensor] = {}

    def score(layer: int, attn: nn.Module, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> None:
        for i, scoring in enumerate(scorings):
            found[layer, i] = score_layer(layout, attn, hidden, rotary, mask, scoring)

    with watched(layout, model, layers, score) as seeing:
        yield seeing, found


def kept_by_layer(
    model: Any,
    input_ids: Int[Tensor, "1 n"],
    *,
    keep: int | float,
    scorings: Sequence[Scoring],
    protected: Tensor | None = None,
    layers: Sequence[int] | None = None,
) -> dict[tuple[int, int], Tensor]:
    """(layer, number of the scoring) -> what `select` keeps there of a prompt (1, n), all layers by one forward pass.

    Layers that see a window only are left out.
    """
    layout = layout_of(model)
    input_ids, mask = check_prompt(layout, model, input_ids, torch.ones_like(input_ids))
    protected = torch.zeros_like(mask) if protected is None else protected.to(mask.device)
    layers = filtering_layers(layout, model, input_ids.shape[1]) if layers is None else layers
    count = count_of(keep, input_ids.shape[1])
    with scoring_layers(layout, model, layers, scorings, mask) as (seeing, found), undisturbed(seeing) as own:
        own.get_decoder()(input_ids=input_ids, attention_mask=None, use_cache=False, **PLAIN_OUTPUT)
    return {at: best(scores, mask, protected, [count])[0].cpu() for at, scores in found.items()}


def filtering_layers(layout: Layout, model: Any, length: int) -> list[int]:
    """Layers that see all of a prompt of this length; of models with global layers only these."""
    everywhere = layout.global_layers(model)
    if everywhere:
        return everywhere
    return [i for i in range(len(layout.layers(model))) if (layout.window(model, i) or length) >= length]


def check(model: Any, prompts: Sequence[Marked], keep: int | float) -> None:
    """Refuse prompts that the model cannot read and a `keep` with which there is nothing to see."""
    layout = layout_of(model)
    if not prompts:
        raise SettingError("prompts", "none", "at least one prompt", "12 is usual")
    for prompt in prompts:
        n = len(prompt.input_ids)
        if not prompt.needles or not all(0 <= a < b <= n for a, b in prompt.needles):
            told = f"places within its {n} tokens, (first, end) each"
            raise SettingError("needles", f"{prompt.needles} of {prompt.where}", told, "say where its answer stands")
        check_prompt(layout, model, prompt.input_ids[None], torch.ones_like(prompt.input_ids[None]))
        needed, count = int(prompt.protected().sum()), count_of(keep, n)
        if needed >= count:
            raise SettingError("keep", keep, f"more than the {needed} protected tokens of {prompt.where}", "keep more")
        if count >= n:
            raise SettingError("keep", keep, f"less than the {n} tokens of {prompt.where}", "nothing would be left out")
    longest = max(len(p.input_ids) for p in prompts)
    if not filtering_layers(layout, model, longest):
        raise SettingError("model", layout.model_type, f"a layer that sees all {longest} tokens", "use shorter prompts")


def calibrate(
    model: Any,
    prompts: Sequence[Marked],
    *,
    keep: int | float = 256,
    tokenizer: Any = None,
    candidates: int = 3,
    max_new_tokens: int = 32,
    save: bool = True,
    force: bool = False,
    about: str = "",
    progress: Progress | None = None,
) -> Calibration:
    """Needle recall and distance of every layer, and the filter layer that `layer="auto"` will take.

    Of all layers and both scorings the one with the best mean recall sets the mark; layers whose mean, paired by
    prompt, is below it by no more than one standard error are in question, for early layers cost less. With a
    tokenizer, the prompts are answered with what the earliest `candidates` of them and the best keep, and by the full
    model: the earliest whose share of right answers is not below the best of them by more than one standard error is
    recommended. Without, it is the earliest of all in question. Start token and question are protected, as in use.

    save: keep the setting and this evidence for `layer="auto"`. force: also where what it takes now rests on more
    prompts. about: where the prompts come from. progress: of prompts, whose answers come with them.

    Source: Figure 9.5 and section 9.4.3 (gemfilter.fig9_5), which shows the distance on single prompts with raw scores.

    Raises SettingError, before any work, for prompts that do not fit the model or a `keep` that its protected tokens
    fill.

    Example:
        >>> found = calibrate(model, hidden(tokenizer, essays("sotu"), (512, 1024), 4, Key("calibrate")))
        >>> share, low, high = found.recall(found.scoring, found.layer)
        >>> 0 <= low <= share <= high <= 1
        True
    """
    prompts, keep = tuple(prompts), plain_number(keep)
    candidates = whole("candidates", candidates, 0, "3 is the default")
    max_new_tokens = whole("max_new_tokens", max_new_tokens, 1, "32 is the default")
    if tokenizer is not None:
        check_tokenizer(tokenizer)
    check(model, prompts, keep)
    layout = layout_of(model)
    longest = max(len(p.input_ids) for p in prompts)
    layers = filtering_layers(layout, model, longest)
    total = len(layout.layers(model))
    names = list(SCORINGS)
    curves = {name: Curve(*(np.full((total, len(prompts)), np.nan) for _ in range(2))) for name in names}
    answering = tokenizer is not None and all(p.answer for p in prompts)
    steps = len(prompts) * (2 if answering else 1)
    for p, prompt in enumerate(prompts):
        kept = kept_by_layer(
            model,
            prompt.input_ids[None],
            keep=keep,
            scorings=list(SCORINGS.values()),
            protected=prompt.protected(),
            layers=layers,
        )
        for (layer, i), indices in kept.items():
            curves[names[i]].recall[layer, p] = max(recall(indices, needle) for needle in prompt.needles)
            curves[names[i]].distance[layer, p] = min(distance(indices, needle) for needle in prompt.needles)
        if progress:
            progress(p + 1, steps)
    asked, top = in_question({name: curve.recall for name, curve in curves.items()}, layers)
    answered = None
    if answering:
        tried = list(dict.fromkeys([*asked[:candidates], top]))
        told = (lambda done: progress(len(prompts) + done, steps)) if progress else None
        answered = answers(model, tokenizer, prompts, tried, keep, max_new_tokens, told)
        layer, scoring = recommend_answers(answered.by)
    else:
        layer, scoring = asked[0]
    windows = tuple(None if i in layers else layout.window(model, i) for i in range(total))
    lengths = tuple(sorted({len(p.input_ids) for p in prompts}))
    made = Calibration(curves, windows, layer, scoring, keep, lengths, answered)
    if not save:
        return replace(made, unsaved="it was not asked for")
    return _saved(model, made, len(prompts), about, force)


def _saved(model: Any, made: Calibration, count: int, about: str, force: bool) -> Calibration:
    """With the advice kept, unless what there is rests on more prompts."""
    now, rests_on = current(model)
    replaces = f"layer {now.layer}, {now.source}" if now else ""
    if count < rests_on and not force:
        why = f"layer {now.layer} rests on {rests_on} prompts and this on {count}" if now else ""
        return replace(made, replaces=replaces, unsaved=why)
    mean, low, high = made.recall(made.scoring, made.layer)
    told = f"recall {mean:.2f} [{low:.2f}, {high:.2f}] at keep={made.keep} on {count} prompts"
    if made.answered:
        right = made.answered.by[made.layer, made.scoring]
        told += f", {right.sum():.0f} answered ({made.answered.full.sum():.0f} by the full model)"
    source = f"calibrated: {told}{f' of {about}' if about else ''}"
    evidence = {
        "keep": made.keep,
        "prompts": count,
        "lengths": made.lengths,
        "about": about,
        "layers": made.rows(),
        "full": float(made.answered.full.mean()) if made.answered else None,
    }
    path = save_setting(model, Setting(made.layer, SCORINGS[made.scoring], source), evidence)
    return replace(made, replaces=replaces, path=path)


def current(model: Any) -> tuple[Setting | None, int]:
    """What `layer="auto"` takes now, and the number of prompts that it rests on; 0 where nothing was measured."""
    path = folder() / f"{fingerprint(model)}.json"
    try:
        now = recommended(model)
    except SettingError:  # nothing, or a damaged file, which may be replaced
        return None, 0
    if not path.is_file():
        return now, SHIPPED.get(shape_of(model), 0)
    evidence = json.loads(path.read_text()).get("evidence")
    count = evidence.get("prompts", 0) if isinstance(evidence, dict) else 0
    return now, count if isinstance(count, int) else 0


def in_question(recalls: dict[str, np.ndarray], layers: Sequence[int]) -> tuple[list[tuple[int, str]], tuple[int, str]]:
    """(layer, scoring) of layers that are not below the best by more than one paired standard error, and the best.

    recalls: scoring -> (layers, prompts). Ascending, at one layer the scoring with the higher mean; equal means go to
    the first scoring named and to the earlier layer.
    """
    means = {(layer, name): float(found[layer].mean()) for layer in layers for name, found in recalls.items()}
    top = max(means, key=lambda at: means[at])
    out = []
    for layer in sorted(layers):
        name = max(recalls, key=lambda name: means[layer, name])
        less = recalls[top[1]][top[0]] - recalls[name][layer]
        if less.mean() <= standard_error(less):
            out.append((layer, name))
    return out, top


def answers(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Marked],
    tried: Sequence[tuple[int, str]],
    keep: int | float,
    max_new_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> Answered:
    """Ask every prompt of the full model and with what each (layer, scoring) keeps; right is what holds the answer."""
    full, by = np.zeros(len(prompts)), {at: np.zeros(len(prompts)) for at in tried}

    def is_right(ids: Tensor, answer: str) -> bool:
        return found_in(tokenizer.decode(greedy(model, ids, max_new_tokens)[0], skip_special_tokens=True), answer)

    for p, prompt in enumerate(prompts):
        ids = prompt.input_ids[None]
        full[p] = is_right(ids, prompt.answer)
        for (layer, name), right in by.items():
            kept = kept_by_layer(
                model, ids, keep=keep, scorings=[SCORINGS[name]], protected=prompt.protected(), layers=[layer]
            )
            right[p] = is_right(ids[:, kept[layer, 0]], prompt.answer)
        if progress:
            progress(p + 1)
    return Answered(full, by)


def recommend_answers(by: dict[tuple[int, str], np.ndarray]) -> tuple[int, str]:
    """The earliest (layer, scoring) whose right answers are not below the best by more than one standard error."""
    top = max(by.values(), key=lambda right: right.mean())
    return min(at for at, right in by.items() if (top - right).mean() <= standard_error(top - right))


def prompts_for(share: float) -> int:
    """How many prompts have to be kept whole for the 95 % interval of the recall to lie above a share.

    Example:
        >>> prompts_for(0.95)
        72
    """
    return math.ceil(math.log(0.025) / math.log(share))


def expected(
    speed: Speed, prompts: Sequence[Marked], keep: int | float = 256, candidates: int = 0, max_new_tokens: int = 32
) -> tuple[float, float]:
    """Seconds, at most, and bytes at the peak that `calibrate` will need; candidates: 0 without answers."""
    lengths = [len(p.input_ids) for p in prompts]
    seconds = sum(map(speed.prompt, lengths))
    if not candidates:
        return seconds, speed.peak(max(lengths), cached=False)
    for n in lengths:
        k = min(n, count_of(keep, n))
        seconds += speed.reply(n, max_new_tokens)
        seconds += (candidates + 1) * (speed.prompt(n) + speed.reply(k, max_new_tokens))
    return seconds, speed.peak(max(lengths) + max_new_tokens)


# --- picture ---------------------------------------------------------------------------------------------------------


def picture(made: Calibration, title: str = "") -> Any:
    """Recall with its 95 % interval above the median distance, by layer and scoring; a matplotlib figure."""
    from matplotlib.figure import Figure

    from featlearn.report.plots import Series, curves

    figure = Figure(figsize=(8, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    layers = [i for i, window in enumerate(made.windows) if window is None]
    seen = {name: np.array([made.recall(name, i) for i in layers]) for name in made.curves}
    recalls = [Series(n, layers, *v.T) for n, v in seen.items()]
    curves(above, recalls, "", "needle recall", title=title, ylim=(-0.05, 1.05))
    apart = {name: np.median(curve.distance[layers], axis=1) for name, curve in made.curves.items()}
    curves(below, [Series(n, layers, v) for n, v in apart.items()], "layer", "median distance (tokens)")
    for axes in (above, below):
        axes.axvline(made.layer, color="#1F2328", linestyle=":", linewidth=1.2, zorder=1)
    below.set_yscale("symlog", linthresh=1)
    below.set_ylim(bottom=-0.1)
    below.xaxis.get_major_locator().set_params(integer=True)
    return figure


def save_picture(made: Calibration, path: str | Path, title: str = "") -> Path:
    """Write the picture as PNG; its folder is made where it is missing."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(made, title).savefig(path, format="png", dpi=110)
    return path
