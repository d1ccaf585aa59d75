"""The target: the rule that chooses, planted rows with known outcomes, prompts of both stages, replies."""

import dataclasses

import pytest
import torch
from test_gemfilter_experiments import places  # noqa: F401

from featlearn import works
from featlearn.core import Key, SettingError
from featlearn.data import DataError
from featlearn.lab.blind import apart, blind
from featlearn.lab.claim import verdict_of
from featlearn.lab.experiment import Rows
from featlearn.lab.row import plain, read
from featlearn.lab.statistics import units_needed
from featlearn.lab.store import Store
from featlearn.lab.table import Table
from featlearn.works.gemfilter import rows_target
from featlearn.works.gemfilter.claims.target import CLAIMS, LENGTHS, MODELS, NAMES
from featlearn.works.gemfilter.rows import FULL, ONE_RUN, OURS
from featlearn.works.gemfilter.rows_target import (
    CANDIDATES,
    CHOSEN,
    HALF,
    LAYERS,
    ONE_RUN_SENTENCES,
    QUERIED,
    SENTENCES,
    TargetAnswer,
    ValidationAnswer,
    by_the_rule,
    kinds_needed,
)

EXPERIMENT = works.load_experiment("gemfilter/target")


def rows(kind, methods, right, kinds, models=tuple(MODELS)):
    """right: (model, method, length, kind of sentence, depth by its place) -> whether the needle is answered."""
    return [
        kind(
            model=model,
            length=n,
            sentence=i,
            depth=depth,
            method=method,
            accuracy=100.0 * right(model, method, n, i, j),
            recall=None,
            kept=256,
            reply="",
        )
        for model in models
        for n in LENGTHS
        for i in range(kinds)
        for j, depth in enumerate((0.1, 0.5, 0.9))
        for method in methods
    ]


def validation(right, kinds=12):
    return Table.of(ValidationAnswer, rows(ValidationAnswer, (FULL, *CANDIDATES), right, kinds))


def reported(right, kinds=86):
    return Table.of(TargetAnswer, rows(TargetAnswer, (FULL, OURS), right, kinds))


def alike(model, method, n, i, j):
    return (i + j) % 3 > 0


# --- the rule --------------------------------------------------------------------------------------------------------


def test_the_rule_takes_the_best_at_the_worse_length():
    def right(model, method, n, i, j):
        if method == SENTENCES:  # all of the short prompts, a third of the long ones
            return n == 1024 or i % 3 == 0
        if method == QUERIED:  # half of both: more at the worse length
            return i % 2 == 0
        return i % 6 == 0

    assert by_the_rule(validation(right)) == dict.fromkeys(MODELS, QUERIED)


def test_of_equals_the_rule_takes_the_simpler_one_and_each_model_has_its_own():
    def right(model, method, n, i, j):
        if model == "gemma3-270m":
            return method in (ONE_RUN, LAYERS, SENTENCES) and i % 3 > 0
        return i % 3 > 0

    assert by_the_rule(validation(right)) == {"smollm2-135m": OURS, "gemma3-270m": SENTENCES}
    assert CANDIDATES[0] == OURS
    assert set(CANDIDATES[-2:]) == {ONE_RUN, ONE_RUN_SENTENCES}


def test_shares_are_over_kinds_and_the_full_cache_is_no_candidate():
    found = validation(lambda model, method, n, i, j: method == FULL or (method == HALF and j == 1))
    assert by_the_rule(found) == dict.fromkeys(MODELS, HALF)
    assert rows_target.worst_share(found.where(model="gemma3-270m"), HALF) == pytest.approx(100 / 3)


def test_kinds_needed_are_those_of_the_spread_over_kinds():
    def right(model, method, n, i, j):
        return method == FULL or i % 4 > 0  # one kind in four is lost wholly

    part = validation(right).where(model="gemma3-270m", length=1024)
    spread = torch.tensor([-100.0 * (i % 4 == 0) for i in range(12)]).double().std()
    assert kinds_needed(rows_target.difference(part, OURS)) == units_needed(float(spread), 5.0)
    same = validation(alike).where(model="gemma3-270m", length=1024)
    assert kinds_needed(rows_target.difference(same, OURS)) is None


def test_the_candidate_that_is_reported_is_the_one_that_the_rule_chose():
    from pathlib import Path

    store = Store(Path(__file__).resolve().parents[3] / "evidence")
    found = [r for record in store.records("gemfilter/target") for r in record.rows if r["kind"] == "validation answer"]
    if not found:
        assert set(CHOSEN.values()) == {OURS}
    else:
        table = Table.of(ValidationAnswer, read([ValidationAnswer], found)[ValidationAnswer])
        assert by_the_rule(table) == dict(CHOSEN)


# --- the claims ------------------------------------------------------------------------------------------------------


def judged(right, chose=alike, which=0):
    return verdict_of(CLAIMS[which], Key("test"), (reported(right), validation(chose)))


def outcomes(right):
    found = judged(right)
    return {n: f.outcome for n, f in zip(LENGTHS, found.findings, strict=True)}, [p.met for p in found.premises]


def mostly(model, method, n, i, j):
    """As alike, one needle in 19 right or wrong where the full cache's is not: in 14 kinds of 86."""
    return alike(model, method, n, i, j) != (method == OURS and (5 * i + j) % 19 == 0)


def test_answers_that_hardly_differ_are_confirmed():
    assert outcomes(mostly) == (dict.fromkeys(LENGTHS, "confirmed"), [False, False, True, True])


def test_a_loss_at_one_length_contradicts_there_alone():
    found, _ = outcomes(lambda m, method, n, i, j: mostly(m, method, n, i, j) and not (method == OURS and n == 2048))
    assert found == {1024: "confirmed", 2048: "contradicted"}


def test_differences_as_large_as_kinds_differ_are_inconclusive():
    """Seven kinds of 86 lost wholly, five gained wholly."""
    lost, gained = range(0, 14, 2), range(1, 11, 2)
    found, _ = outcomes(lambda m, method, n, i, j: i not in (lost if method == OURS else gained))
    assert found == dict.fromkeys(LENGTHS, "inconclusive")


def test_a_claim_judges_its_own_model():
    def right(model, method, n, i, j):
        return mostly(model, method, n, i, j) and not (method == OURS and model == "gemma3-270m")

    assert [judged(right, which=w).reported for w in (0, 1)] == ["confirmed", "contradicted"]


def test_premises_are_a_full_cache_off_the_floor_and_the_choice_of_the_rule():
    _, floor = outcomes(lambda m, method, n, i, j: n == 1024 or i % 10 == 0)
    assert floor == [False, False, True, False]
    other = judged(mostly, lambda m, method, n, i, j: method == QUERIED)
    assert [p.met for p in other.premises] == [False, False, False, True]
    assert other.scope == "premise unmet"
    assert {c.entries for c in CLAIMS} == {()}
    assert [f.statement.name for f in other.findings] == list(NAMES.values())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_claims_are_blind_and_their_halves_apart(claim):
    tables = (reported(mostly), validation(alike))
    assert blind(claim, Key("test"), tables) == []
    assert apart(claim, Key("test"), tables) == []


# --- the experiment --------------------------------------------------------------------------------------------------


def test_stages_share_no_prompt_and_kinds_vary_slowest():
    paper = EXPERIMENT.presets["paper"]
    both = EXPERIMENT.trials(paper)
    stages = {s: EXPERIMENT.trials(dataclasses.replace(paper, stage=s)) for s in ("validation", "reported")}
    assert both == stages["validation"] + stages["reported"]
    assert [len(t) for t in stages.values()] == [36 * 2 * 2, 86 * 2 * 2]
    for found in stages.values():
        assert [t.needle for t in found] == sorted(t.needle for t in found)
        assert {(t.model, t.length) for t in found[:4]} == {(m, n) for m in MODELS for n in LENGTHS}
        assert {len(t.depths) for t in found} == {3}
    assert {t.methods for t in stages["validation"]} == {(FULL, *CANDIDATES)}
    assert {t.methods for t in stages["reported"]} == {tuple(dict.fromkeys((FULL, OURS, c))) for c in CHOSEN.values()}
    other = dataclasses.replace(paper, stage="reported", chosen=(SENTENCES, OURS))
    assert {t.model: t.methods for t in EXPERIMENT.trials(other)} == {
        "smollm2-135m": (FULL, OURS, SENTENCES),
        "gemma3-270m": (FULL, OURS),
    }


@pytest.mark.parametrize(
    "change, says",
    [
        ({"models": ()}, "models = .* at least one"),
        ({"chosen": ("SnapKV",)}, "chosen = .* one of GemFilter, Sentences"),
        ({"chosen": (OURS, OURS), "models": ("smollm2-135m",)}, "chosen = .* for all models or for each"),
        ({"validation_kinds": 37}, "validation_kinds = 37 is not allowed: 1 to 36"),
        ({"kinds": 0}, "kinds = 0 is not allowed: 1 to 86"),
        ({"validation_depths": (2.0,)}, "depths = .* from 0 to 1"),
        ({"depths": ()}, "depths"),
        ({"lengths": (64,)}, "lengths = .* at least 128"),
        ({"keep": 1}, "keep = 1 is not allowed: at least 2"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"protect_start": -1}, "protect_start"),
        ({"haystack": "/nowhere"}, "haystack = '/nowhere' is not allowed"),
    ],
)
def test_senseless_settings_are_refused(change, says):
    with pytest.raises((SettingError, DataError), match=says):
        dataclasses.replace(EXPERIMENT.presets["small"], **change)


@pytest.fixture(scope="module")
def asked(places):  # noqa: F811
    """The model, its tokenizer, a validation trial and its prompt."""
    from featlearn.works.gemfilter.experiments import target

    config = dataclasses.replace(EXPERIMENT.presets["smoke"], models=(places[0],), haystack=places[1], layer=1)
    config = dataclasses.replace(config, lengths=(700,), keep=320, max_new_tokens=5)
    trial = target.trials(config)[0]
    model, tokenizer = target.loaded(trial.model, trial.dtype, trial.device)
    return model, tokenizer, trial, target.prompt_for(tokenizer, trial, 0.4)


def test_every_method_replies_as_the_model_does_on_what_it_kept(asked):
    from featlearn.methods.gemfilter import SOFTMAX, layout_of, select
    from featlearn.methods.gemfilter.alternatives import added, sentences_of, whole_sentences
    from featlearn.methods.gemfilter.selecting import best
    from featlearn.works.gemfilter.experiments.prompts import protected_of
    from featlearn.works.gemfilter.experiments.target import answered

    model, tokenizer, trial, prompt = asked
    found = answered(model, tokenizer, prompt, trial)
    assert list(found) == [FULL, *CANDIDATES]
    ids, protected = prompt.input_ids[None], protected_of(prompt, 4)
    first, second = (
        select(model, ids, layer=i, keep=320, protect=protected, scoring=SOFTMAX) for i in (1, 2)
    )  # two thirds of three layers
    sentence = sentences_of(tokenizer, ids[0])

    def new(kept):
        part = ids[:, kept]
        out = model.generate(part, attention_mask=torch.ones_like(part), max_new_tokens=5, do_sample=False)
        return out[0, len(kept) :]

    token = new(first.indices[0])[:1]
    later = torch.cat([ids, token[None]], dim=1)
    one = dataclasses.replace(SOFTMAX, rows=1)
    queried = select(model, later, layer=1, keep=320, scoring=one).scores[:, :-1]
    mask = torch.ones_like(protected)
    wanted = {
        OURS: first.indices[0],
        HALF: whole_sentences(first.scores[0], sentence, protected[0], 160),
        SENTENCES: whole_sentences(first.scores[0], sentence, protected[0], 320),
        LAYERS: best(added([first.scores, second.scores]), mask, protected, [320])[0],
        QUERIED: best(added([first.scores, queried]), mask, protected, [320])[0],
    }
    for method, kept in wanted.items():
        assert found[method].kept.tolist() == kept.tolist(), method
        assert found[method].text == tokenizer.decode(new(kept), skip_special_tokens=True), method
    assert len({tuple(k.tolist()) for k in wanted.values()}) == len(wanted)
    assert layout_of(model).global_layers(model) == [0, 1, 2]


def test_one_run_and_the_full_cache_go_on_from_the_first_prefill(asked):
    from featlearn.methods import kv_eviction
    from featlearn.works.gemfilter.experiments.target import answered

    model, tokenizer, trial, prompt = asked
    found = answered(model, tokenizer, prompt, trial)
    filled = kv_eviction.prefill(model, prompt.input_ids[None], torch.ones(1, 700))
    for method, same in ((ONE_RUN, OURS), (ONE_RUN_SENTENCES, SENTENCES)):
        assert found[method].kept.tolist() == found[same].kept.tolist()
        cache = kv_eviction.evict(filled, "one_run", 320, indices=found[same].kept)
        new = kv_eviction.generate(model, filled, cache, max_new_tokens=5)
        assert found[method].text == tokenizer.decode(new[0], skip_special_tokens=True)
    plain_ids = prompt.input_ids[None]
    new = model.generate(plain_ids, attention_mask=torch.ones(1, 700), max_new_tokens=5, do_sample=False)[0, 700:]
    assert (found[FULL].text, found[FULL].kept) == (tokenizer.decode(new, skip_special_tokens=True), None)


@pytest.mark.parametrize("method", [LAYERS, QUERIED, HALF, ONE_RUN_SENTENCES])
def test_fewer_methods_change_no_reply(asked, method):
    from featlearn.works.gemfilter.experiments.target import answered

    model, tokenizer, trial, prompt = asked
    whole = answered(model, tokenizer, prompt, trial)
    few = answered(model, tokenizer, prompt, dataclasses.replace(trial, methods=(FULL, OURS, method)))
    alone = answered(model, tokenizer, prompt, dataclasses.replace(trial, methods=(method,)))
    assert {m: r.text for m, r in few.items()} == {m: whole[m].text for m in (FULL, OURS, method)}
    assert alone[method].text == whole[method].text


def test_needles_of_the_stages_are_hidden_in_different_halves(asked, places):  # noqa: F811
    from featlearn.tasks.validation_kinds import of_validation_kind
    from featlearn.works.gemfilter.experiments import target
    from featlearn.works.gemfilter.experiments.prompts import haystack_text, needle_number

    _, tokenizer, trial, _ = asked
    texts = {which: haystack_text(places[1], which, 0, 10**6) for which in ("validation", "reported")}
    for validation, which, needle in (
        (True, "validation", of_validation_kind(0, target.KEY)),
        (False, "reported", needle_number("kinds", 0)),
    ):
        prompt = target.prompt_for(tokenizer, dataclasses.replace(trial, validation=validation), 1.0)
        text = tokenizer.decode(prompt.input_ids[: prompt.needle[0]]).split("text.\n\n")[1]
        assert len(text) > 200
        assert {w for w, t in texts.items() if text in t} == {which}
        assert tokenizer.decode(prompt.input_ids[slice(*prompt.needle)]) == " " + needle.sentence


def test_the_summary_tells_what_was_chosen_and_what_is_needed():
    made = rows(
        ValidationAnswer, (FULL, *CANDIDATES), lambda m, method, n, i, j: method in (FULL, QUERIED) or i % 4 > 0, 12
    )
    made += rows(TargetAnswer, (FULL, OURS), mostly, 86)
    table = Rows(tuple(plain(r) for r in made))
    found = {(r.setting, r.row, r.metric): r for r in EXPERIMENT.summarise(table)}
    assert found["validation, gemma3-270m", QUERIED, "chosen by the rule"].value == 1
    gap = found["validation, gemma3-270m, n = 1024", f"{OURS} - full", "difference"]
    assert (gap.value, gap.n) == (-25.0, 12)
    needed = "kinds of sentence for 80 % power at 5 points"
    power = found["validation, gemma3-270m, n = 1024", f"{OURS} - full", needed].value
    assert power == units_needed(100 * (0.25 * 0.75 * 12 / 11) ** 0.5, 5.0)
    assert ("validation, gemma3-270m, n = 1024", f"{QUERIED} - full", needed) not in found
    assert found["reported, smollm2-135m, n = 2048", f"{OURS} - full", "difference"].n == 86
    assert not any(s.startswith("reported") and m == needed for s, _, m in found)
    picture = EXPERIMENT.draw(table)["gemfilter.target"]
    assert len(picture.data) == 2 * 2 * (8 + 2)
