"""Claims about runs of a real model, on planted rows: as the papers describe them, and otherwise."""

from functools import partial

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.lab.table import Table
from featlearn.works.gemfilter.claims import measured
from featlearn.works.gemfilter.claims.measured import FEW, LAYERS, filter_layer
from featlearn.works.gemfilter.rows import (
    BEST,
    FULL,
    LAST,
    LOGITS,
    MIDDLE,
    ONE_RUN,
    OURS,
    QUERY,
    RANDOM,
    RAW_ROW,
    SNAPKV,
    Answer,
    Kept,
    KindAnswer,
    Score,
    Timing,
    by_unit,
    less,
    off_the_floor,
)

pytest.importorskip("torch")
BY_NAME = {claim.id.removeprefix("gemfilter.measured_"): claim for claim in measured.CLAIMS}


def recall_of(rule, layer):
    """A model as the work describes it."""
    if rule == BEST:
        return 99.0 if layer not in (0, 1, LAYERS - 2, LAYERS - 1) else 40.0
    return {LAST: 60.0, MIDDLE: 15.0, RANDOM: 25.0, SNAPKV: 50.0}.get(rule, 25.0)


def kept(recall=recall_of, focus=lambda rule: 18.0 if rule in (BEST, LAST) else 14.0, union=400.0, spread=2.0):
    """40 kinds of sentence; recall spreads by kind."""
    rng, rows = Key("rows").numpy(), []
    for sentence in range(40):
        shift = rng.normal()
        for chat in (True, False):
            for rule in (BEST, LAST, MIDDLE, RANDOM, SNAPKV, QUERY, LOGITS):
                for layer in range(LAYERS):
                    value = recall(rule, layer)
                    row = Kept(
                        length=1024,
                        chat=chat,
                        sentence=sentence,
                        needle=sentence,
                        depth=0.5,
                        layer=layer,
                        sees_all=True,
                        rule=rule,
                        recall=value
                        if value >= 90
                        else float(np.clip(value + spread * (shift if rule != LAST else -shift), 0, 100)),
                        distance=0.0,
                        focus=focus(rule) + (0.1 if rule == SNAPKV else 0.2) * shift,
                        union=union if rule == SNAPKV else None,
                    )
                    rows.append(row)
    return Table.of(Kept, rows)


def answers(ours=95.0, snap=60.0, full=60.0, one=60.0, raw=10.0, recall=99.0):
    """100 kinds at four lengths, each right or wrong; every method has its share."""
    rows = []
    for n in measured.LENGTHS:
        for method, share in ((OURS, ours), (SNAPKV, snap), (FULL, full), (ONE_RUN, one), (RAW_ROW, raw)):
            for sentence in range(100):
                row = Answer(
                    length=n,
                    sentence=sentence,
                    needle=sentence,
                    depth=0.5,
                    method=method,
                    accuracy=100.0 * (sentence < share),
                    needle_score=0.5,
                    recall=recall if method == OURS else None,
                    reply="",
                )
                rows.append(row)
    return Table.of(Answer, rows)


def scores(ours=60.0, few=100.0, full=65.0):
    """40 items; single-document QA and few-shot classification."""
    rng, rows = Key("kinds").numpy(), []
    for chat in (True, False):
        for item in range(40):
            noise = rng.normal(0, 2)
            for task in ("single-document QA", FEW):
                for method, budget in ((FULL, 0), (OURS, 128), (OURS, 256), (SNAPKV, 128), (SNAPKV, 256)):
                    mean = full if method == FULL else 60.0 if method == SNAPKV else ours
                    if task == FEW:
                        mean = few if method == OURS else 80.0
                    row = Score(
                        chat=chat,
                        task=task,
                        item=item,
                        method=method,
                        budget=budget,
                        layer=None,
                        score=float(np.clip(mean + noise + rng.normal(0, 0.5), 0, 100)),
                        tokens=1000,
                        kept=budget or 1000,
                        reply="",
                    )
                    rows.append(row)
    return Table.of(Score, rows)


def timings(ratio=0.47, growth=1.0, heads=3, full=2.0):
    """Eight repetitions with a little noise."""
    rng, rows = Key("clock").numpy(), []
    for n in (512, 4096):
        for repeat in range(8):
            for method in (FULL, SNAPKV, OURS):
                entries = n if method == FULL else 256
                row = Timing(
                    length=n,
                    method=method,
                    repeat=repeat,
                    prompt=1.0,
                    pass_one=ratio + 0.002 * rng.normal(),
                    token=10.0 * ((full if method == FULL else growth) if n == 4096 else 1.0) + 0.02 * rng.normal(),
                    cache=2 * LAYERS * heads * 64 * entries * 4 / 2**20,
                    prompt_peak=None,
                    prompt_ratio=2.0,
                    layer_share=0.5,
                )
                rows.append(row)
    return Table.of(Timing, rows)


def unseen(recall=99.0):
    """What GemFilter keeps of needles of 40 kinds that chose nothing; recall spreads by kind."""
    base = {"needle": 0, "depth": 0.5, "method": OURS, "accuracy": 90.0, "needle_score": 0.0, "reply": ""}
    rows = [KindAnswer(**base, length=n, sentence=i, recall=recall - i % 2) for n in (1024, 2048) for i in range(40)]
    return Table.of(KindAnswer, rows)


def outcomes(name, table, others=None):
    claim = BY_NAME[name]
    more = (unseen() if others is None else others,) if KindAnswer in claim.reads else ()
    verdict = verdict_of(claim, Key("test"), (table, *more))
    return {f.statement.name: f.outcome for f in verdict.findings}


GOOD = {
    "layers": kept,
    "rows": kept,
    "figG_5": kept,
    "fig9_4": answers,
    "figG_4": answers,
    "fig9_4_raw": answers,
    "tasks": partial(scores, few=20.0),
    "fig9_3": timings,
}


@pytest.mark.parametrize("name", GOOD)
def test_rows_as_each_claim_describes_them_are_confirmed(name):
    found = outcomes(name, GOOD[name]())
    assert set(found.values()) <= {"confirmed", "inconclusive"}
    open_ = {n for n, outcome in found.items() if outcome == "inconclusive"}
    assert not open_ - {measured.NEXT}  # equal in every unit: no spread, so nothing is known of it


def only(rule, value):
    """Recall of one rule changed."""
    return kept(lambda r, layer: value(layer) if r == rule else recall_of(r, layer))


BAD = {
    "layers": (partial(only, BEST, lambda i: 60.0), measured.BY_LAYER),
    "layers late": (partial(only, BEST, lambda i: 99.0 if i > LAYERS // 2 + 3 else 30.0), measured.FIRST),
    "layers end": (partial(only, BEST, lambda i: 50.0 + i), measured.ENDS),
    "layers next": (partial(only, BEST, lambda i: 99.0 if i <= filter_layer() else 40.0), measured.NEXT),
    "layers next alone": (partial(only, BEST, lambda i: 99.0 if i != filter_layer() + 1 else 60.0), measured.NEXT),
    "rows": (partial(only, LAST, lambda i: 25.0), "needle kept: last row less random tokens"),
    "rows middle": (partial(only, MIDDLE, lambda i: 70.0), "needle kept: random tokens less middle row"),
    **{
        f"figG_5 {i}": (
            partial(kept, focus=lambda r, other=rule: 12.0 if r == other else {BEST: 18.0, LAST: 18.0}.get(r, 14.0)),
            f"share of the kept tokens in needle or last 32: GemFilter less SnapKV, {words}",
        )
        for i, (words, (rule, _, _)) in enumerate(measured.FOCUS.items())
    },
    "figG_5 union": (partial(kept, union=256.0), "positions of a layer's groups of heads together, over those of one"),
    "fig9_4": (partial(answers, ours=5.0), "right answers of 1024 tokens: GemFilter less SnapKV"),
    "fig9_4 full": (partial(answers, ours=5.0), "right answers of 1024 tokens: GemFilter less Full cache"),
    "fig9_4 kept": (partial(answers, recall=60.0), "needle kept"),
    "figG_4": (partial(answers, ours=5.0), "right answers of 2048 tokens: GemFilter less One run"),
    "fig9_4_raw": (
        partial(answers, raw=95.0),
        "right answers of 1024 tokens: SnapKV less raw products of the last row",
    ),
    "tasks": (partial(scores, ours=40.0), measured.QA),
    "tasks few": (partial(scores, few=90.0), measured.SHOTS),
    "fig9_3": (partial(timings, ratio=0.9), "seconds of pass one over those of the full prompt, 4096 tokens"),
    "fig9_3 quick": (partial(timings, ratio=0.36), "seconds of pass one over those of the full prompt, 4096 tokens"),
    "fig9_3 tokens": (partial(timings, growth=2.0), "seconds a token, 4096 over 512 tokens"),
    "fig9_3 full": (partial(timings, full=1.0), "the same, full cache"),
    "fig9_3 heads": (
        partial(timings, heads=9),
        "MiB of the cache of GemFilter, SnapKV and the full prompt, 4096 tokens",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_other_rows_contradict_it(name):
    make, statement = BAD[name]
    assert outcomes(name.split()[0], make())[statement] == "contradicted"


def test_the_recommended_layer_is_judged_on_kinds_that_did_not_choose_it():
    """Whatever it keeps of those that did."""
    assert outcomes("layers", kept(), unseen(60.0))[measured.AT_LAYER] == "contradicted"
    worse = only(BEST, lambda i: 99.0 if i != filter_layer() else 60.0)
    assert outcomes("layers", worse)[measured.AT_LAYER] == "confirmed"


def test_halves_that_differ_are_seen():
    rows = [
        r if r.rule != BEST or r.sentence % 2 == 0 or r.layer >= 12 else type(r)(**{**vars(r), "recall": 10.0})
        for r in kept().rows
    ]
    assert outcomes("layers", Table.of(Kept, rows))[measured.HALVES] == "contradicted"


def test_needles_of_a_kind_count_together():
    rows = [
        Answer(
            length=1024,
            sentence=sentence,
            needle=needle,
            depth=depth,
            method=method,
            accuracy=accuracy if method == OURS else 100.0,
            needle_score=0.0,
            recall=None,
            reply="",
        )
        for sentence, needle, accuracy in ((0, 0, 0.0), (0, 2, 100.0), (0, 4, 0.0), (1, 1, 100.0))
        for depth in ((0.1, 0.5, 0.9) if needle == 2 else (0.1, 0.9))  # a needle at more depths counts for no more
        for method in (OURS, FULL)
    ]
    table = Table.of(Answer, rows)
    assert by_unit(table.where(method=OURS), "accuracy") == {0: pytest.approx(100 / 3), 1: 100.0}
    gap = less(table, "accuracy", {"method": OURS}, {"method": FULL})
    assert (gap.value, gap.n, gap.reference) == (pytest.approx(-100 / 3), 2, 100.0)
    assert gap.room == (0.0, 100.0)


def test_tasks_in_which_the_full_cache_fails_are_left_out():
    table = scores()
    assert off_the_floor(table.where(chat=True)) == (FEW, "single-document QA")
    assert off_the_floor(scores(full=5.0).where(chat=True)) == (FEW,)
