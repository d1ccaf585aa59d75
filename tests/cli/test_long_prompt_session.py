"""The session in docs/gemfilter.md gives the same replies from the command line, from Python and from the server."""

import importlib.util
import json
import re
import shlex
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from featlearn.methods.gemfilter import SOFTMAX, Setting
from featlearn.methods.gemfilter.recommended import save

ROOT = Path(__file__).parents[2]


@pytest.fixture
def blocks():
    """Title -> code of the section."""
    section = (ROOT / "docs/gemfilter.md").read_text(encoding="utf-8").split("## One session, three ways")[1]
    found = re.findall(r'```\w+ title="([\w ]+)"\n(.*?)```', section.split("\n## ")[0], re.DOTALL)
    assert [title for title, _ in found] == ["command line", "Python", "server"]
    return dict(found)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A tiny model and tokenizer in place of the bundled one, with a layer that is known, and the text in long.txt."""
    sys.path.insert(0, str(ROOT / "tests/apply"))
    try:
        import tiny
    finally:
        sys.path.pop(0)
    essays = tiny.made_essays()
    tokenizer = tiny.made_tokenizer(essays)
    model = tiny.made_model(len(tokenizer))
    monkeypatch.setenv("FEATLEARN_CALIBRATION", str(tmp_path / "calibrations"))
    save(model, Setting(2, SOFTMAX, "of this test"))
    asked = []

    def load_model(name, **_):
        asked.append(name)
        return model, tokenizer

    monkeypatch.setattr("featlearn.data.models.load_model", load_model)
    Path("long.txt").write_text(" ".join(essays[0].text.split()[:900]))
    yield model, tokenizer
    assert set(asked) == {"smollm2-135m"}


def test_the_three_ways_give_the_same_replies(blocks, tiny, featlearn, capsys):
    program, *words = shlex.split(blocks["command line"].replace("\\\n", " "))
    status, out, err = featlearn(*words, "--json")
    assert program == "featlearn"
    assert status == 0, err
    replies = json.loads(out)["replies"]
    assert [r["kept"] for r in replies] == [512, 512]
    assert replies[1]["first"]["tokens"] < 20 < replies[0]["first"]["tokens"]
    by_command = [r["text"] for r in replies]
    assert len(set(by_command)) == 2

    capsys.readouterr()
    exec(compile(blocks["Python"], "docs/gemfilter.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == by_command

    file, options = re.findall(r"python (\S+) smollm2-135m (.*?) &", blocks["server"])[0]
    assert options == "--port 8000"
    path = re.findall(r"localhost:8000(/\w+)", blocks["server"])[0]
    asked = re.findall(r"'\{text: \$text, (.*)\}'", blocks["server"])[0]
    asked = json.loads("{" + re.sub(r"\b(keep|questions):", r'"\1":', asked) + "}")
    spec = importlib.util.spec_from_file_location("served", ROOT / "docs/examples" / file)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    running = example.server(*tiny, 0)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        body = json.dumps({"text": Path("long.txt").read_text(), **asked}).encode()
        with opener.open(f"http://127.0.0.1:{running.server_address[1]}{path}", body, timeout=120) as found:
            told = json.loads(found.read())
    finally:
        running.shutdown()
        thread.join()
        running.server_close()
    assert [r["reply"] for r in told["replies"]] == by_command
