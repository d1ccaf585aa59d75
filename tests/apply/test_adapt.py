"""`featlearn adapt`: heads on embeddings, their files, intervals and refusals, as functions and on the command line."""

import dataclasses
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from featlearn.apply.adapt import files, heads
from featlearn.apply.adapt.files import Embeddings
from featlearn.apply.adapt.heads import AdaptSettings, bootstrap, wilson
from featlearn.core import Diverged, Key, SettingError

KEY = Key("tests/adapt")
FAST = AdaptSettings(epochs=8, batch=16, rates=(1.5,), weights=(0.1,), hidden=16)


def made(n=60, views=3, d=6):
    """Three named classes, far apart, in several noisy views."""
    draw = KEY.torch()
    y = torch.arange(n) % 3
    x = 3 * torch.eye(d)[y][:, None] + 0.4 * torch.randn(n, views, d, generator=draw)
    return Embeddings(x, "made"), [("ant", "bee", "cow")[c] for c in y.tolist()]


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """one.npz, many.npz, labels.csv in the current folder."""
    monkeypatch.chdir(tmp_path)
    found, labels = made()
    np.savez("one.npz", found.x[:, 0].numpy())
    np.savez("many.npz", embeddings=found.x.numpy(), other=np.ones(2))
    Path("labels.csv").write_text("id,label\n" + "".join(f"{i},{c}\n" for i, c in enumerate(labels)))
    return tmp_path


@pytest.fixture
def featlearn(capsys):
    main = importlib.import_module("featlearn.cli").main

    def call(*words):
        status = main([str(w) for w in words])
        out = capsys.readouterr()
        return status, out.out, out.err

    return call


QUICK = ("--epochs", 4, "--batch", 16, "--rates", 0.2, "--weights", 0.1, "--hidden", 8)


# heads ----------------------------------------------------------------------------------------------------------------


def test_three_heads_are_judged_on_rows_kept_back():
    found, labels = made()
    held = found.x.clone()
    result = heads.fit(found, labels, FAST)
    assert torch.equal(found.x, held)
    assert [s.method for s in result.scores] == ["lp", "ft", "cr"]
    assert result.rows == (39, 9, 12)
    assert result.unlabelled == 0
    for score in result.scores:
        assert score.accuracy > 0.8
        assert 0 <= score.low < score.accuracy <= score.high <= 1
        assert len(score.right) == 12
    assert set(result.differences) == {"ft - lp", "cr - lp", "cr - ft"}
    again = heads.fit(found, labels, FAST)
    assert [s.accuracy for s in again.scores] == [s.accuracy for s in result.scores]
    assert all(torch.equal(v, again.head.net.state_dict()[k]) for k, v in result.head.net.state_dict().items())


def test_a_setting_that_diverges_costs_itself_alone():
    found, labels = made()
    both = dataclasses.replace(FAST, rates=(1e30, 1.5), weights=(0.1, 0.1))
    result = heads.fit(found, labels, both)  # the weights of cr are tried at the first rate
    assert [s.method for s in result.scores] == ["lp", "ft"]
    assert result.diverged == ("cr",)
    assert result.scores[1].chosen == (1.5,)
    assert result.scores[1].accuracy > 0.8
    with pytest.raises(Diverged, match=r"lower --rates"):
        heads.fit(found, labels, dataclasses.replace(FAST, methods=("ft", "cr"), rates=(1e30,)))


def test_unlabelled_rows_change_nothing_and_names_of_classes_are_kept():
    found, labels = made()
    result = heads.fit(found, labels, FAST)
    more = Embeddings(torch.cat([found.x, 9 + found.x[:7]]), "made")
    other = heads.fit(more, [*labels, *[""] * 7], FAST)
    assert other.unlabelled == 7
    assert [s.accuracy for s in other.scores] == [s.accuracy for s in result.scores]
    assert result.head.labels == ("ant", "bee", "cow")
    assert [label for label in heads.predict(result.head, found)[0]][:3] == ["ant", "bee", "cow"]


def test_the_test_rows_choose_nothing(monkeypatch):
    """Wrong labels on the test rows change accuracies and neither the choice nor the head."""
    found, labels = made()
    before = heads.fit(found, labels, FAST)
    real = heads._right
    monkeypatch.setattr(heads, "_right", lambda run, x, y: ~real(run, x, y))
    after = heads.fit(found, labels, FAST)
    assert all(a.accuracy == pytest.approx(1 - b.accuracy) for a, b in zip(after.scores, before.scores, strict=True))
    assert after.head.method == before.head.method
    assert all(torch.equal(v, after.head.net.state_dict()[k]) for k, v in before.head.net.state_dict().items())


def test_seeds_are_averaged_and_the_rows_stay():
    found, labels = made()
    two = heads.fit(found, labels, dataclasses.replace(FAST, seeds=(0, 1), epochs=1, methods=("ft",), rates=(0.01,)))
    each = [
        heads.fit(found, labels, dataclasses.replace(FAST, seeds=(s,), epochs=1, methods=("ft",), rates=(0.01,)))
        for s in (0, 1)
    ]
    torch.testing.assert_close(two.scores[0].right, sum(r.scores[0].right for r in each) / 2)
    assert len(two.scores[0].chosen) == 2
    assert not torch.equal(each[0].scores[0].right, each[1].scores[0].right)


def test_one_view_has_no_regularisation_unless_views_are_made():
    found, labels = made(views=1)
    assert [s.method for s in heads.fit(found, labels, FAST).scores] == ["lp", "ft"]
    noisy = dataclasses.replace(FAST, noise=0.1)
    assert [s.method for s in heads.fit(found, labels, noisy).scores] == ["lp", "ft", "cr"]
    with pytest.raises(SettingError, match=r"^methods = cr with one view of each row") as e:
        heads.fit(found, labels, dataclasses.replace(FAST, methods=("cr",)))
    assert "--noise" in str(e.value)


def test_a_head_comes_back_from_its_file(tmp_path):
    found, labels = made()
    for method in ("lp", "ft"):
        head = heads.fit(found, labels, dataclasses.replace(FAST, methods=(method,))).head
        heads.save(head, tmp_path / "h.pt")
        back = heads.load(tmp_path / "h.pt")
        assert back.labels == head.labels
        assert back.about == head.about
        torch.testing.assert_close(back.probabilities(found.first), head.probabilities(found.first), rtol=0, atol=0)
        assert isinstance(torch.load(tmp_path / "h.pt", weights_only=True), dict)


def test_probabilities_are_those_of_the_standardised_rows():
    found, labels = made()
    head = heads.fit(found, labels, dataclasses.replace(FAST, methods=("lp",))).head
    z = (found.first - head.mean) / head.scale
    scores = z @ head.net[1].weight.T + head.net[1].bias
    torch.testing.assert_close(head.probabilities(found.first), scores.exp() / scores.exp().sum(1, keepdim=True))
    shifted = Embeddings(100 + 7 * found.x, "made")
    other = heads.fit(shifted, labels, dataclasses.replace(FAST, methods=("lp",))).head
    torch.testing.assert_close(
        other.probabilities(shifted.first), head.probabilities(found.first), atol=1e-3, rtol=1e-3
    )


# intervals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
def test_wilson_covers_what_it_says(p):
    """Of 2000 samples of 60 rows, the interval holds p in 95 % of them, within what 2000 can tell."""
    right = torch.bernoulli(torch.full((2000, 60), p), generator=KEY.torch())
    inside = sum(low <= p <= high for _, low, high in map(wilson, right)) / 2000
    assert 0.93 < inside < 0.99
    assert wilson(torch.ones(10))[1] < 0.8


def test_the_bootstrap_is_about_the_normal_interval_of_a_mean():
    gaps = torch.cat([torch.ones(60), -torch.ones(40), torch.zeros(300)]).double()
    mean, low, high = bootstrap(gaps, KEY)
    error = 1.96 * float(gaps.std(unbiased=False)) / 20
    assert mean == pytest.approx(0.05)
    assert (low, high) == (pytest.approx(0.05 - error, abs=0.006), pytest.approx(0.05 + error, abs=0.006))


# files ----------------------------------------------------------------------------------------------------------------


def test_embeddings_and_labels_are_read_in_every_form(saved):
    found, labels = made()
    assert torch.equal(files.read_embeddings("one.npz").first, found.first)
    assert torch.equal(files.read_embeddings("many.npz").x, found.x)
    np.save("half.npy", found.x[:, 0].numpy().astype("f2"))
    assert files.read_embeddings("half.npy").x.dtype == torch.float32
    assert files.read_labels("labels.csv", 60) == labels
    Path("labels.txt").write_text("\n".join(labels) + "\n")
    assert files.read_labels("labels.txt", 60) == labels
    np.save("labels.npy", np.arange(60) % 3)
    assert files.read_labels("labels.npy", 60)[:4] == ["0", "1", "2", "0"]
    np.save("words.npy", np.array(labels))
    assert files.read_labels("words.npy", 60) == labels


def test_files_that_cannot_be_are_refused_in_one_line(saved):
    bad = np.ones((4, 3), "f4")
    bad[2, 1] = np.nan
    np.save("nan.npy", bad)
    np.save("whole.npy", np.ones((4, 3), int))
    np.save("flat.npy", np.ones(3, "f4"))
    np.save("empty.npy", np.ones((0, 3), "f4"))
    np.save("objects.npy", np.array([{}], dtype=object))
    np.savez("two.npz", a=bad, b=bad)
    Path("text.npz").write_text("hello")
    Path("other.csv").write_text("id,class\n0,a\n")
    Path("short.csv").write_text("label\na\n")
    Path("bytes.txt").write_bytes(b"\xff\xfe\x00")
    said = {
        "nan.npy": "embeddings = with 1 of 4 rows not finite",
        "whole.npy": "embeddings = of int64",
        "flat.npy": "embeddings = of shape (3,)",
        "empty.npy": "embeddings = of shape (0, 3)",
        "objects.npy": "embeddings = objects.npy is not allowed: a .npy or .npz file of numbers",
        "two.npz": "embeddings = two.npz is not allowed: an archive of one array",
        "text.npz": "embeddings = text.npz is not allowed",
        "no.npz": "embeddings = no.npz is not allowed: a file; there is none",
    }
    for name, line in said.items():
        with pytest.raises(SettingError, match="^" + re.escape(line)) as e:
            files.read_embeddings(name)
        assert "\n" not in str(e.value)
    for name, line in {
        "other.csv": "labels = other.csv is not allowed: a table with a column label; its first line has id, class",
        "short.csv": "labels = 1 in short.csv is not allowed: 60",
        "bytes.txt": "labels = bytes.txt is not allowed: a file of labels (it is no UTF-8 text)",
        "nan.npy": "labels = of float32 and shape (4, 3)",
        "no.txt": "labels = no.txt",
    }.items():
        with pytest.raises(SettingError, match="^" + re.escape(line)):
            files.read_labels(name, 60)


@pytest.mark.parametrize(
    "labels, said",
    [
        (["a"] * 58 + ["b"] * 2, "labels = with 2 of class 'b' is not allowed: three or more of each class"),
        (["a"] * 60, "labels = of 1 class is not allowed"),
        ([""] * 60, "labels = of 0 class"),
        (["a"] * 59, "labels = 59 is not allowed: 60"),
    ],
)
def test_labels_that_cannot_be_split_are_refused(labels, said):
    with pytest.raises(SettingError, match="^" + re.escape(said)):
        heads.fit(made()[0], labels, FAST)


@pytest.mark.parametrize(
    "changed, field",
    [
        ({"epochs": -1}, "epochs"),
        ({"batch": 1}, "batch"),
        ({"hidden": 0}, "hidden"),
        ({"rates": ()}, "rates"),
        ({"weights": (0.1, 1.0)}, "weights"),
        ({"weights": (-1.0,)}, "weights"),
        ({"temperature": 0.0}, "temperature"),
        ({"noise": -0.1}, "noise"),
        ({"dropout": 1.0}, "dropout"),
        ({"test": 0.0}, "test"),
        ({"validation": 1.0}, "validation"),
        ({"seeds": ()}, "seeds"),
        ({"seeds": (1, 1)}, "seeds"),
        ({"seeds": (-1,)}, "seeds"),
    ],
)
def test_settings_that_cannot_be_are_refused(changed, field):
    with pytest.raises(SettingError, match=f"^{field} = ") as e:
        dataclasses.replace(FAST, **changed)
    assert "\n" not in str(e.value)


def test_files_that_are_no_heads_are_refused(tmp_path):
    found, labels = made()
    head = heads.fit(found, labels, dataclasses.replace(FAST, methods=("lp",))).head
    heads.save(head, tmp_path / "h.pt")
    data = torch.load(tmp_path / "h.pt", weights_only=True)
    changes = {
        "other": ({**data, "kind": "x"}, "a file that `featlearn adapt` wrote"),
        "newer": ({**data, "format": 9}, "of format 1"),
        "part": ({k: v for k, v in data.items() if k != "mean"}, "mean missing"),
        "nan": ({**data, "mean": data["mean"] * float("nan")}, "mean is not"),
        "misfit": ({**data, "labels": ["a"]}, "with the tensors of its layers"),
    }
    for name, (content, said) in changes.items():
        torch.save(content, tmp_path / name)
        with pytest.raises(SettingError, match=r"^head = ") as e:
            heads.load(tmp_path / name)
        assert said in str(e.value)
        assert "\n" not in str(e.value)


# the command line -----------------------------------------------------------------------------------------------------


def test_the_command_fits_keeps_and_predicts(saved, featlearn):
    status, out, err = featlearn("adapt", "many.npz", "--labels", "labels.csv", *QUICK)
    assert status == 0, err
    for words in ("linear probe", "fine-tuned adapter", "contrastive regularisation", "cr - ft: ", "head: head.pt"):
        assert words in out
    status, out, err = featlearn("adapt", "predict", "one.npz", "--head", "head.pt")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0] == "row,label,probability"
    assert len(lines) == 61
    right = [line.split(",")[1] == label for line, label in zip(lines[1:], made()[1], strict=True)]
    assert np.mean(right) > 0.9
    status, out, _ = featlearn("adapt", "predict", "one.npz", "--head", "head.pt", "--all", "--out", "p.csv")
    assert (status, out) == (0, "")
    assert Path("p.csv").read_text().splitlines()[0] == "row,label,probability,ant,bee,cow"
    found = json.loads(featlearn("adapt", "predict", "one.npz", "--head", "head.pt", "--json")[1])
    assert sum(found[0]["probabilities"].values()) == pytest.approx(1, abs=1e-5)


def test_the_command_says_json_and_what_it_leaves_out(saved, featlearn):
    text = Path("labels.csv").read_text().replace("0,ant\n", "0,\n", 1)
    Path("labels.csv").write_text(text)
    status, out, err = featlearn("adapt", "one.npz", "--labels", "labels.csv", *QUICK, "--json")
    assert status == 0
    found = json.loads(out)
    assert set(found["accuracy"]) == {"lp", "ft"}
    assert found["rows"]["unlabelled"] == 1
    assert "1 of 60 rows have no label" in err
    assert "--noise 0.1" in err


def test_the_command_names_a_head_that_diverged(saved, featlearn):
    rest = ("--epochs", 4, "--batch", 16, "--weights", 0.1, 0.1, "--hidden", 8)
    status, out, err = featlearn("adapt", "many.npz", "--labels", "labels.csv", *rest, "--rates", 1e30, 0.2, "--json")
    assert status == 0
    found = json.loads(out)
    assert found["diverged"] == ["cr"]
    assert set(found["accuracy"]) == {"lp", "ft"}
    assert "contrastive regularisation left the finite numbers at every setting" in err


def test_the_command_refuses_before_any_work(saved, featlearn):
    Path("there.pt").write_text("x")
    np.save("wide.npy", np.ones((3, 9), "f4"))
    featlearn("adapt", "one.npz", "--labels", "labels.csv", *QUICK, "--out", "head.pt")
    for words, said in (
        (("adapt",), "embeddings is missing"),
        (("adapt", "one.npz"), "labels is missing"),
        (("adapt", "one.npz", "--labels", "labels.csv", "--methods", "cr", "--out", "n.pt"), "cr with one view"),
        (("adapt", "one.npz", "--labels", "labels.csv", "--out", "there.pt"), "a new file"),
        (("adapt", "one.npz", "--labels", "labels.csv", "--out", "one.npz", "--replace"), "none of the files that are"),
        (("adapt", "one.npz", "--labels", "labels.csv", "--temperature", "0", "--out", "n.pt"), "temperature = 0.0"),
        (("adapt", "one.npz", "--labels", "labels.csv", "--ratess", "1"), "--ratess"),
        (("adapt", "predict", "one.npz"), "head is missing"),
        (("adapt", "predict", "one.npz", "--head", "there.pt"), "head = there.pt"),
        (("adapt", "predict", "wide.npy", "--head", "head.pt"), "6, as the head"),
    ):
        status, out, err = featlearn(*words)
        assert (status, out) == (2, ""), (words, out, err)
        assert said in err
        assert len(err.strip().splitlines()) == 1
    assert not Path("n.pt").exists()
    assert Path("there.pt").read_text() == "x"


def test_help(featlearn):
    assert featlearn("adapt", "--help")[1].startswith("usage: featlearn adapt")
    assert featlearn("adapt", "predict", "--help")[1].startswith("usage: featlearn adapt predict")


def test_flags_have_the_defaults_of_the_settings():
    from featlearn.cli.adapt.fit import AdaptOptions

    flags = AdaptOptions()
    for f in dataclasses.fields(AdaptSettings):
        assert getattr(flags, f.name) == f.default
