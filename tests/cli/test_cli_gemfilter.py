"""`featlearn gemfilter` on a tiny model: output, JSON, and what it refuses before anything is loaded."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

TINY = Path(__file__).parents[1] / "apply"


@pytest.fixture(scope="module")
def tiny():
    sys.path.insert(0, str(TINY))
    try:
        import tiny
    finally:
        sys.path.remove(str(TINY))
    essays = tiny.made_essays()
    tokenizer = tiny.made_tokenizer(essays)
    return SimpleNamespace(essays=essays, tokenizer=tokenizer, model=tiny.made_model(len(tokenizer)))


@pytest.fixture
def loaded(monkeypatch, tiny, tmp_path):
    """The tiny model under every name, the tiny essays as a folder; which models were asked for."""
    asked = []

    def load_model(name, *, dtype, device):
        asked.append((name, dtype, device))
        return tiny.model, tiny.tokenizer

    monkeypatch.setattr("featlearn.data.models.load_model", load_model)
    monkeypatch.setenv("FEATLEARN_CALIBRATION", str(tmp_path / "calibrations"))
    folder = tmp_path / "essays"
    folder.mkdir()
    for i, essay in enumerate(tiny.essays * 2):
        (folder / f"{i}.txt").write_text(essay.text)
    more = {k: v for k, v in vars(tiny).items() if k != "essays"}
    calibrations = tmp_path / "calibrations"
    return SimpleNamespace(asked=asked, haystack=folder, calibrations=calibrations, essays=tiny.essays, **more)


@pytest.fixture
def text(tiny):
    Path("long.txt").write_text(" ".join(tiny.essays[0].text.split()[:300]))
    return "long.txt"


def jsonl(name, *lines):
    Path(name).write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    return name


def questions(tiny, count=2):
    words = tiny.essays[1].text.split()
    contexts = [" ".join(words[200 * i : 200 * i + 180]) for i in range(count)]
    return [{"context": c, "question": "Which stone?", "answer": c.split()[90].strip(".")} for c in contexts]


def one_document(out):
    found = json.loads(out)
    assert out.strip().startswith("{")
    return found


# --- help ------------------------------------------------------------------------------------------------------------


def test_help(featlearn):
    status, out, _ = featlearn("gemfilter", "--help")
    assert status == 0
    assert out.startswith("usage: featlearn gemfilter COMMAND MODEL")
    for name in ("calibrate", "generate", "score", "longbench", "bench"):
        assert f"\n  {name} " in out
        sub, told, _ = featlearn("gemfilter", name, "--help")
        assert sub == 0
        assert told.startswith(f"usage: featlearn gemfilter {name}")


@pytest.mark.parametrize(
    "words, said",
    [
        ([], "which of its commands?"),
        (["--json"], "which of its commands?"),
        (["calibrte", "m"], "no command 'calibrte' of gemfilter; did you mean calibrate?"),
        (["calibrate"], "which model? featlearn gemfilter calibrate MODEL"),
        (["bench", "m", "--lenghts", "64"], "unknown flag --lenghts; did you mean --lengths?"),
        (["calibrate", "m", "--keep", "0"], "keep = 0 is not allowed"),
        (["calibrate", "m", "--keep", "nan"], "keep = nan is not allowed"),
        (["calibrate", "m", "--keep", "-5"], "keep = -5 is not allowed"),
        (["calibrate", "m", "--keep", "2.5"], "keep = 2.5 is not allowed"),
        (["calibrate", "m", "--keep", "many"], "--keep"),
        (["calibrate", "m", "--lengths", "64"], "lengths = (64,) is not allowed"),
        (["calibrate", "m", "--lengths", "1k"], "lengths = 1k is not allowed"),
        (["calibrate", "m", "--count", "0"], "count = 0 is not allowed"),
        (["calibrate", "m", "--haystack", "nowhere"], "nowhere"),
        (["calibrate", "m", "--prompts", "none.jsonl"], "prompts = none.jsonl is not allowed"),
        (["generate", "m"], "prompt-file is missing"),
        (["generate", "m", "--prompt-file", "none.txt", "--question", "q"], "prompt-file = none.txt is not allowed"),
        (["generate", "m", "--prompt-file", __file__], "question is missing"),
        (["generate", "m", "--prompt-file", __file__, "--question", " "], "question is missing or empty"),
        (["generate", "m", "--prompt-file", __file__, "--question", "q", "--layer", "x"], "--layer"),
        (["generate", "m", "--prompt-file", __file__, "--question", "q", "--measure-loss"], "measure-loss = True"),
        (["generate", "m", "--max-new-tokens", "0"], "max-new-tokens = 0"),
        (["score", "m"], "file is missing"),
        (["score", "m", "--file", "q.jsonl", "--replies", "-1"], "replies = -1 is not allowed: 0 or more"),
        (["score", "m", "--file", "none.jsonl"], "file = none.jsonl is not allowed"),
        (["score", "m", "--file", __file__], "file = " + __file__ + ":1 is not allowed"),
        (["longbench", "m"], "one of --data FILE_OR_FOLDER and --mini"),
        (["longbench", "m", "--mini", "--data", "x"], "not both"),
        (["longbench", "m", "--mini", "--tasks", "trec"], "tasks = trec is not allowed"),
        (["longbench", "m", "--mini", "--length", "100"], "length = 100 is not allowed"),
        (["longbench", "m", "--data", "none"], "data = none is not allowed"),
        (["longbench", "m", "--data", __file__, "--tasks", "vcsum"], "tasks = vcsum is not allowed"),
        (["bench"], "which model?"),
        (["bench", "--shape", "llama"], "shape = llama is not allowed"),
        (["bench", "m", "--shape", "tiny"], "shape = tiny is not allowed"),
        (["bench", "m", "--keep", "4096"], "keep = 4096 is not allowed"),
        (["bench", "m", "--repeats", "0"], "repeats = 0 is not allowed"),
    ],
)
def test_refused_before_a_model_is_loaded(refused, loaded, words, said):
    assert said in refused("gemfilter", *words)
    assert loaded.asked == []


def test_refused_by_the_line_before_a_model_is_loaded(refused, loaded):
    good = {"context": "a b", "question": "q", "answer": "b"}
    jsonl("q.jsonl", good, "{]")
    assert "file = q.jsonl:2 is not allowed" in refused("gemfilter", "score", "m", "--file", "q.jsonl")
    assert "prompts = q.jsonl:2 is not allowed" in refused("gemfilter", "calibrate", "m", "--prompts", "q.jsonl")
    assert "data = q.jsonl:1 is not allowed" in refused("gemfilter", "longbench", "m", "--data", "q.jsonl")
    Path("empty.txt").write_text(" \n")
    words = ("--prompt-file", "empty.txt", "--question", "q")
    assert "the prompt is empty" in refused("gemfilter", "generate", "m", *words)
    assert loaded.asked == []


def test_an_unknown_model_and_device(refused, text):
    words = ("--prompt-file", text, "--question", "q")
    assert "no-such-model" in refused("gemfilter", "generate", "no-such-model", *words)
    assert "device = 'abacus'" in refused("gemfilter", "generate", "smollm2-135m", *words, "--device", "abacus")


def test_a_layer_out_of_range_and_one_that_nobody_knows(refused, loaded, text):
    words = ("generate", "m", "--prompt-file", text, "--question", "Which stone?")
    assert "layer = 5 is not allowed: 0 to 4" in refused("gemfilter", *words, "--layer", "5")
    assert "layer = auto is not allowed" in refused("gemfilter", *words)


def test_a_model_of_another_family(refused, loaded, monkeypatch, text):
    other = SimpleNamespace(config=SimpleNamespace(model_type="mamba", get_text_config=None), get_decoder=None)
    monkeypatch.setattr("featlearn.data.models.load_model", lambda *a, **k: (other, loaded.tokenizer))
    words = ("generate", "m", "--prompt-file", text, "--question", "q", "--layer", "1")
    assert "model = mamba, which is built otherwise (TypeError" in refused("gemfilter", *words)


def piped(monkeypatch, data, terminal=False):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: terminal))


def test_the_standard_input_is_a_prompt_file(featlearn, loaded, text, monkeypatch):
    more = ("--question", "Which stone?", "--layer", "2", "--keep", "64", "--max-new-tokens", "3", "--json")
    _, wanted, _ = featlearn("gemfilter", "generate", "mine", "--prompt-file", text, *more)
    piped(monkeypatch, Path(text).read_bytes())
    status, out, err = featlearn("gemfilter", "generate", "mine", "--prompt-file", "-", *more)
    assert status == 0, err
    assert one_document(out)["replies"][0]["text"] == one_document(wanted)["replies"][0]["text"]


def test_the_standard_input_is_a_file_of_questions(featlearn, loaded, monkeypatch):
    lines = "\n".join(map(json.dumps, questions(loaded))).encode()
    piped(monkeypatch, lines)
    words = ("--file", "-", "--methods", "gemfilter", "--keep", "64", "--layer", "2", "--max-new-tokens", "2", "--json")
    status, out, err = featlearn("gemfilter", "score", "mine", *words)
    assert status == 0, err
    assert {row["question"] for row in one_document(out)["rows"]} == {"stdin:1", "stdin:2"}
    piped(monkeypatch, lines)
    words = ("--prompts", "-", "--keep", "0.4", "--no-save", "--answers", "0", "--json")
    status, out, err = featlearn("gemfilter", "calibrate", "mine", *words)
    assert status == 0, err
    assert one_document(out)["prompts"] == 2


def test_the_standard_input_is_read_once_and_not_from_a_terminal(refused, loaded, monkeypatch):
    piped(monkeypatch, b"river", terminal=True)
    words = ("generate", "m", "--question", "q", "--prompt-file", "-")
    assert "prompt-file = - is not allowed here: nothing is piped in" in refused("gemfilter", *words)
    assert "file = - is not allowed here" in refused("gemfilter", "score", "m", "--file", "-")
    assert "prompts = - is not allowed here" in refused("gemfilter", "calibrate", "m", "--prompts", "-")
    piped(monkeypatch, b"river")
    assert "turns = - is not allowed beside prompt-file = -" in refused("gemfilter", *words, "--turns", "-")
    assert loaded.asked == []


# --- what the commands print -----------------------------------------------------------------------------------------


def test_calibrate_saves_and_generate_finds_it(featlearn, loaded, text):
    words = ("--haystack", loaded.haystack, "--lengths", "160,200", "--count", "4", "--keep", "48")
    status, out, err = featlearn("gemfilter", "calibrate", "mine", *words, "--max-new-tokens", "2")
    assert status == 0, err
    assert "4 prompts: a recall of" in err
    assert "72 prompts that are kept whole would say above 0.95" in err
    assert "answers right," in out
    assert "expected: about" in out
    assert "estimated from" in out
    assert "4 prompts" in out
    assert "layer = auto takes it from now on" in " ".join(out.split())
    assert loaded.asked == [("mine", "float32", "cpu")]
    (saved,) = loaded.calibrations.glob("*.json")
    assert saved.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    layer = json.loads(saved.read_text())["layer"]
    fewer = ("--haystack", loaded.haystack, "--lengths", "160", "--count", "3", "--keep", "48", "--answers", "0")
    status, out, err = featlearn("gemfilter", "calibrate", "mine", *fewer)
    assert (
        f"not kept for layer = auto: layer {layer} rests on 4 prompts and this on 3; take more prompts, or --force"
        in err
    )
    assert "takes it from now on" not in out
    assert "answers right" not in out
    status, out, err = featlearn(
        "gemfilter",
        "generate",
        "mine",
        "--prompt-file",
        text,
        "--question",
        "Which stone?",
        "--keep",
        "64",
        "--max-new-tokens",
        "3",
        "--json",
    )
    assert status == 0, err
    assert one_document(out)["replies"][0]["layer"] == layer


def test_calibrate_json_on_prompts_of_the_user(featlearn, loaded):
    path = jsonl("mine.jsonl", *questions(loaded))
    words = ("--prompts", path, "--keep", "0.4", "--no-save", "--picture", "new/x.png", "--answers", "0", "--json")
    status, out, err = featlearn("gemfilter", "calibrate", "mine", *words)
    assert status == 0, err
    found = one_document(out)
    assert found["prompts"] == 2
    assert len(found["layers"]) == 5
    assert found["saved"] is None
    assert Path("new/x.png").is_file()
    assert not loaded.calibrations.exists()
    assert "expected: about" in err


def test_generate_prints_replies_and_what_they_took(featlearn, loaded, text):
    words = ("--prompt-file", text, "--layer", "2", "--keep", "64", "--max-new-tokens", "3")
    asked = ("--question", "Which stone?", "--question", "What market?")
    status, out, err = featlearn("gemfilter", "generate", "mine", *words, *asked, "--show-kept")
    assert status == 0, err
    assert "Which stone?" in out
    assert "What market?" in out
    assert out.count("-> 64 tokens (") == 2
    assert out.count("pass one") == out.count("pass two") == 2
    assert "[...]" in out
    assert "Reading" not in err
    _, chunked, _ = featlearn("gemfilter", "generate", "mine", *words, *asked, "--show-kept", "--chunked-prefill")
    same = ("stone", "market", "[...]", "tokens (")  # not the lines with seconds
    assert [x for x in chunked.splitlines() if any(w in x for w in same)] == [
        x for x in out.splitlines() if any(w in x for w in same)
    ]


def test_several_questions_read_the_text_once_and_are_answered_as_before(featlearn, loaded, text):
    words = ("--prompt-file", text, "--layer", "2", "--keep", "64", "--max-new-tokens", "3", "--show-kept", "--json")
    asked = ("--question", "Which stone?", "--question", "What market?")
    _, out, _ = featlearn("gemfilter", "generate", "mine", *words, *asked)
    _, again, _ = featlearn("gemfilter", "generate", "mine", *words, *asked, "--no-read-once")
    once, each = (one_document(text)["replies"] for text in (out, again))
    assert [(r["text"], r["kept_text"]) for r in once] == [(r["text"], r["kept_text"]) for r in each]
    assert each[1]["first"]["tokens"] == each[1]["tokens"]
    assert once[0]["first"]["tokens"] == once[0]["tokens"]
    assert once[1]["first"]["tokens"] < 10


LOADING = ("--revision", "v1", "--attn-implementation", "eager", "--quantization", "4bit")


@pytest.mark.parametrize(
    "words, given",
    [
        (("--device-map", "auto"), {"device_map": "auto"}),
        (("--device-map", '{"": "cpu"}', *LOADING), {"device_map": {"": "cpu"}, "revision": "v1"}),
        (("--device", "cpu", *LOADING), {"device": "cpu", "attn_implementation": "eager", "quantization": "4bit"}),
    ],
)
def test_how_a_model_is_loaded_is_passed_on(featlearn, loaded, text, monkeypatch, words, given):
    asked = []

    def load(name, **more):
        asked.append(more)
        return loaded.model, loaded.tokenizer

    monkeypatch.setattr("featlearn.data.loading.load_model", load)
    rest = (
        "--prompt-file",
        text,
        "--layer",
        "2",
        "--keep",
        "64",
        "--max-new-tokens",
        "2",
        "--question",
        "Which stone?",
    )
    status, _, err = featlearn("gemfilter", "generate", "mine", *rest, *words)
    assert status == 0, err
    (more,) = asked
    assert given.items() <= more.items()
    assert ("device" in more) != ("device_map" in more)
    unsaid = {"revision", "attn_implementation", "quantization"} if len(words) == 2 else set()
    assert {n for n in more if more[n] is None} == unsaid


@pytest.mark.parametrize(
    "words, told",
    [
        (("--device", "cpu", "--device-map", "auto"), "device = cpu is not allowed beside --device-map"),
        (("--device-map", "{cpu"), "device-map = {cpu is not allowed: a name, or a JSON object"),
        (("--quantization", "5bit"), "quantization"),
        (("--quantization", "8bit"), "quantization = '8bit' needs the package bitsandbytes"),
        (("--revision", "v1"), "revision = 'v1' is not allowed: smollm2-135m is no hub id"),
    ],
)
def test_ways_of_loading_that_are_refused(refused, text, monkeypatch, words, told):
    monkeypatch.setattr("featlearn.data.loading.find_spec", lambda name: None)
    asked = ("--prompt-file", text, "--question", "Which stone?")
    status = 1 if "8bit" in words else 2  # what is missing here is no bad argument
    assert told in refused("gemfilter", "generate", "smollm2-135m", *asked, *words, status=status)


def test_generate_with_template_system_and_turns(featlearn, loaded, text, monkeypatch):
    """The words of the frame are what the model is given, and what is true or false is no text."""
    monkeypatch.setattr(loaded.tokenizer, "chat_template", FRAME)
    Path("turns.jsonl").write_text('{"role": "user", "content": "river"}\n{"role": "assistant", "content": "stone"}\n')
    words = ("--prompt-file", text, "--layer", "2", "--keep", "64", "--max-new-tokens", "3", "--show-kept")
    frame = ("--system", "garden", "--turns", "turns.jsonl", "--template", "mode=paper", "--template", "loud=true")
    asked = ("--question", "Which stone?")
    status, out, err = featlearn("gemfilter", "generate", "mine", *words, *asked, *frame, "--stream", "--keep", "9999")
    assert status == 0, err
    kept = " ".join(out.split())
    assert "garden <end><user> river" in kept.replace("<end> <user>", "<end><user>")
    assert "stone <end>" in kept
    assert "paper music" in kept


FRAME = (
    "{% for m in messages %}<user> {{ m['content'] }} <end>{% endfor %}"
    "{% if mode is defined %} {{ mode }} {{ 'music' if loud is true else 'letter' }}{% endif %} <bot>"
)


@pytest.mark.parametrize(
    "words, told",
    [
        (["--template", "loud"], "template = loud is not allowed: name=value"),
        (["--system", "x", "--no-chat"], "system is not allowed with --no-chat"),
        (["--stream", "--json"], "stream = True is not allowed: --json prints one document"),
        (["--turns", "none.jsonl"], "turns = none.jsonl is not allowed: a text file that exists"),
    ],
)
def test_generate_flags_that_do_not_go_together(refused, loaded, text, words, told):
    assert told in refused("gemfilter", "generate", "m", "--prompt-file", text, "--question", "q", *words)
    assert loaded.asked == []


def test_generate_question_blind_with_its_loss(featlearn, loaded, text):
    words = ("--prompt-file", text, "--layer", "2", "--keep", "64", "--max-new-tokens", "3", "--question-blind")
    asked = ("--question", "Which stone?", "--question", "What market?")
    status, out, err = featlearn("gemfilter", "generate", "mine", *words, *asked, "--measure-loss")
    assert status == 0, err
    assert out.count("pass one") == 1
    assert out.count("with the question known") == 2
    status, out, err = featlearn("gemfilter", "generate", "mine", *words, *asked, "--measure-loss", "--json")
    replies = one_document(out)["replies"]
    assert [set(r["loss"]) for r in replies] == [{"likelihood_aware", "likelihood_blind", "agreement", "aware"}] * 2
    assert "kept_text" not in replies[0]


def test_generate_warns_when_the_question_exceeds_keep(featlearn, loaded, text):
    words = (
        "--prompt-file",
        text,
        "--layer",
        "2",
        "--keep",
        "8",
        "--max-new-tokens",
        "2",
        "--question",
        "Which stone?",
    )
    status, _, err = featlearn("gemfilter", "generate", "mine", *words)
    assert status == 0
    assert "featlearn: keep = 8 is less than the" in err


def test_score(featlearn, loaded):
    path = jsonl("q.jsonl", *questions(loaded))
    words = ("--file", path, "--layer", "2", "--keep", "64", "--max-new-tokens", "2", "--methods", "gemfilter,snapkv")
    status, out, err = featlearn("gemfilter", "score", "mine", *words)
    assert status == 0, err
    assert "2 questions x 3 methods" in out
    assert "2 questions longer than keep = 64" in out
    for name in ("full", "gemfilter", "snapkv"):
        assert name in out
    assert out.count("snapkv: ") == 2  # replies side by side
    assert "replies end at max-new-tokens = 2" in err
    assert "questions are in" not in out
    (kept,) = Path("runs/gemfilter").glob("score-*.jsonl")
    assert len(kept.read_text().splitlines()) == 6
    status, out, err = featlearn("gemfilter", "score", "mine", *words, "--json")
    assert f"2 of 2 questions are in {kept}" in " ".join(err.split())
    found = one_document(out)
    assert [m["method"] for m in found["methods"]] == ["full", "gemfilter", "snapkv"]
    assert len(found["rows"]) == 6
    assert found["filtered"] == 2
    status, out, err = featlearn("gemfilter", "score", "mine", *words, "--again", "--replies", "0")
    assert "questions are in" not in out
    assert "snapkv: " not in out


def test_score_of_short_prompts_says_that_nothing_was_filtered(featlearn, loaded):
    path = jsonl("q.jsonl", *questions(loaded))
    words = ("--file", path, "--layer", "2", "--keep", "9999", "--max-new-tokens", "2", "--methods", "gemfilter")
    status, out, err = featlearn("gemfilter", "score", "mine", *words)
    assert status == 0, err
    assert "featlearn: none of 2 prompts is longer than keep = 9999: nothing was filtered" in err
    assert "+0.000" not in out


def test_unknown_methods(refused, loaded):
    pytest.importorskip("featlearn.methods.long_context", reason="until methods/long_context.py exists")
    path = jsonl("q.jsonl", *questions(loaded))
    assert "methods = snapvk is not allowed" in refused(
        "gemfilter", "score", "m", "--file", path, "--methods", "snapvk"
    )
    assert loaded.asked == []


def test_longbench_on_a_file_and_on_the_mini_set(featlearn, loaded):
    pytest.importorskip("featlearn.methods.long_context", reason="until methods/long_context.py exists")
    line = {
        "input": "Which stone?",
        "context": " ".join(e.text for e in loaded.essays),
        "answers": ["stone"],
        "dataset": "hotpotqa",
    }
    path = jsonl("hotpotqa.jsonl", line, {**line, "dataset": "passage_count", "answers": ["3"]})
    words = ("--layer", "2", "--keep", "64")
    status, out, err = featlearn("gemfilter", "longbench", "mine", "--data", path, *words)
    assert status == 0, err
    assert "hotpotqa" in out
    assert "passage_count" in out
    assert "not the official ones" in out
    assert "their middle is left out" in err
    mini = ("--mini", "--count", "1", "--length", "512", "--haystack", loaded.haystack, "--json")
    status, out, err = featlearn("gemfilter", "longbench", "mine", *mini, *words)
    assert status == 0, err
    found = one_document(out)
    assert [a["method"] for a in found["averages"]] == ["full", "gemfilter"]
    assert len(found["rows"]) == 12
    assert found["cut"] == 0


def test_bench_on_a_shape(featlearn):
    words = ("--shape", "tiny", "--lengths", "128,192", "--keep", "32", "--layer", "3", "--repeats", "1")
    status, out, err = featlearn("gemfilter", "bench", *words)
    assert status == 0, err
    assert "pass one begins 50.0% of the layers" in out
    assert "at most 2.00x; m / r as reported: 2.67x" in out
    status, out, err = featlearn("gemfilter", "bench", *words, "--json")
    assert [r["tokens"] for r in one_document(out)["rows"]] == [128, 192]
