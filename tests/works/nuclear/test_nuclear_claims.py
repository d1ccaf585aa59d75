"""Claims of the nuclear work that need no rows: faults of the engines below them are noticed, and pictures drawn."""

import importlib

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.tasks import Environments2d
from featlearn.works import load_claims
from featlearn.works.nuclear import setup
from featlearn.works.nuclear.claims import definitions, figures, optima, proposition

BY_NAME = {c.id.removeprefix("nuclear."): c for c in load_claims("nuclear")}


def failing(name):
    """Statements of a claim that do not come out as expected."""
    return [f.statement.name for f in verdict_of(BY_NAME[name], Key("verify")).findings if not f.as_expected]


def test_sufficient_lambda_by_hand():
    """E.31 at alpha = 1 / sqrt(r): r = 40, m = 175, gamma = 0.48."""
    task = setup.least(40, 0.48)
    assert task.d == 215
    terms = 1 / (2 * (1 + np.exp(39 / (4 * np.sqrt(40))))), np.exp(-39 / 8) / 4, np.exp(-175 * 0.48**2 / 2) / 2
    assert setup.sufficient(task) == pytest.approx(np.sqrt(40) * sum(terms), rel=1e-12)
    assert all(p.met for p in setup.premises(setup.POINTS))


def test_hoeffdings_exponent_by_hand():
    """r = 40, m = 175, gamma = 0.48: -2 (84 - 31.25)^2 over 97.65625 + 700."""
    point = setup.Point(setup.least(40, 0.48), 1.0)
    assert proposition.squares(point) == pytest.approx(797.65625, rel=1e-12)
    assert proposition.exponent(point) == pytest.approx(-5565.125 / 797.65625, rel=1e-12)


def test_accusations_say_what_they_hit():
    hits = {name: c.accuses.hits for name, c in BY_NAME.items() if c.accuses}
    assert hits == {
        "table6_1_selfreg": "number",
        "tableE_3_swap": "number",
    }


def test_another_weight_of_the_decay_is_noticed(monkeypatch):
    """2 % off in lambda, as a slip in the gradient would have it."""
    real = optima.decayed
    monkeypatch.setattr(optima, "decayed", lambda task, lam, finer=1: real(task, 1.02 * lam, finer))
    assert failing("lemma6_1_e31") == ["-E[l' z_k] over lambda alpha"]
    monkeypatch.setattr(optima, "decayed", lambda task, lam, finer=1: real(task, 1.5 * lam, finer))
    assert failing("lemma6_1_ratio") == ["alpha / beta at r = 4, gamma = 0.1, d = 405, lambda = 1e-5"]


def test_environments_that_are_not_exchanged_are_noticed(monkeypatch):
    monkeypatch.setattr(figures, "OUT", Environments2d(0.7))
    assert "accuracy of (1, b), and of -(1, b)" in failing("plane_law")
    assert "accuracy out of distribution, every lambda" not in failing("plane_decay")


def test_penalties_that_are_exchanged_are_noticed(monkeypatch):
    one, two = figures.plane_decayed, figures.plane_nuclear
    monkeypatch.setattr(figures, "plane_decayed", lambda v: two(min(v, 0.43)))
    monkeypatch.setattr(figures, "plane_nuclear", one)
    assert failing("plane_decay")
    assert failing("plane_nuclear")


def test_a_label_that_leaks_into_the_environment_is_noticed(monkeypatch):
    monkeypatch.setattr(definitions, "Environments2d", lambda agree: Environments2d(max(agree, 1 - agree)))
    assert definitions.LATENTS[1] in failing("data_model")


def test_tails_that_lose_a_factor_are_noticed(monkeypatch):
    real = proposition.log_accuracy
    monkeypatch.setattr(proposition, "log_accuracy", lambda *a: real(*a) / 100)
    assert "log accuracy of ERM-l2 by -r/10" in failing("prop6_3")


def test_tails_that_are_too_heavy_for_e49_are_noticed(monkeypatch):
    monkeypatch.setattr(proposition, "log_accuracy", lambda *a: -1.0)
    assert failing("prop6_3_e49") == ["log of the probability in E.48 by E.49"]


def test_a_norm_of_centred_features_is_noticed(monkeypatch):
    norms = importlib.import_module("featlearn.works.nuclear.claims.norms")
    real = norms.nuclear_norm
    monkeypatch.setattr(norms, "nuclear_norm", lambda x, *a: real(x - x.mean(0), *a))
    assert "||M||_*" in failing("norm")
    assert "penalty of c Phi" in failing("method_loophole")


@pytest.mark.parametrize(
    ("module", "name", "fault", "claim", "says"),
    [
        ("objectives", "nuclear_norm", lambda f: lambda x, *a: f(x, *a).detach(), "algorithms", "update of ERM-NU"),
        ("objectives", "nuclear_norm", lambda f: lambda x, *a: f(x, "root"), "algorithms", "loss of ERM-NU"),
        ("averaging.Swad", "_advance", lambda f: lambda self, ahead: f(self, ahead[:1]), "swad", "mean of the steps"),
        ("averaging.Mean", "add", lambda f: lambda self, w, count=1: f(self, w), "swad", "mean of the steps"),
    ],
    ids=["a penalty without gradient", "another reduction", "a tolerance of one", "segments that count alike"],
)
def test_faults_of_what_ships_are_noticed(module, name, fault, claim, says, monkeypatch):
    where = f"featlearn.methods.domains.{module}"
    owner, _, inner = where.rpartition(".") if module.count(".") else (where, "", "")
    target = importlib.import_module(owner)
    target = getattr(target, inner) if inner else target
    monkeypatch.setattr(target, name, fault(getattr(target, name)))
    assert any(found.startswith(says) for found in failing(claim))


@pytest.mark.parametrize("name", ["data_model", "fig6_3_matched", "prop6_3_sharp"])
def test_pictures_are_drawn(name, tmp_path):
    (picture,) = BY_NAME[name].draw().values()
    picture.figure.savefig(tmp_path / "x.png", dpi=40)
    assert (tmp_path / "x.png").stat().st_size > 2000
