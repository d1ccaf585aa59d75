"""Claims on phase 2: clean gradients, what shrinks, how fast neurons can grow, and bounds on the loss derivative."""

import dataclasses
import math

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.measure import signal_heavy
from featlearn.works.xor_sgd.claims import clean, phase2, phase2_growth
from featlearn.works.xor_sgd.setup import centres, cube, heavy_net, labels, tensors

BY_NAME = {c.id.removeprefix("xor_sgd."): c for c in (*phase2.CLAIMS, *phase2_growth.CLAIMS)}


def test_contradicted_as_reported_and_confirmed_as_corrected():
    verdict = verdict_of(BY_NAME["gmin_D1"], Key("verify"))
    assert (verdict.reported, verdict.corrected) == ("contradicted", "confirmed")


def test_the_network_that_contradicts_eq_d1_is_signal_heavy():
    """One neuron of H = 4, with H = 2.1 and zeta = exp(-21) of Definition 4.2."""
    w, a, means = tensors(phase2_growth.one_direction(4.0))
    assert bool(signal_heavy(w, a, means, zeta=math.exp(-21), H=2.1).holds)


def test_g_min_where_hand_work_found_it():
    """H = 4: g_min 0.00696 is below exp(-4) = 0.0183; at 0.25 and 1 the paper holds."""
    finding = next(
        f for f in verdict_of(BY_NAME["gmin_D1"], Key("verify")).findings if f.statement.name == "g_min, as reported"
    )
    assert finding.observed[2] == pytest.approx(0.00696, abs=2e-5)
    assert (finding.observed >= finding.value)[:5].tolist() == [True, True, False, False, False]


def test_one_network_that_is_not_signal_heavy_fails_the_premise_of_lemma_d5():
    claim = BY_NAME["lemmaD5"]
    drawn = claim.settings(Key("premise"))
    mixed = dataclasses.replace(drawn, heavy=(*drawn.heavy, drawn.long[0]))
    assert [p.met for p in (*claim.premises(drawn), *claim.premises(mixed))] == [True, False]


def slow_clean(net, x):
    """Eq. (4.7), input by input and neuron by neuron."""
    gw, ga = np.zeros_like(net.w), np.zeros_like(net.a)
    for one in x:
        z = np.where(np.arange(len(one)) < 2, one, 0.0)
        score = sum(a * max(float(w @ z), 0.0) for w, a in zip(net.w, net.a, strict=True)) / len(net.a)
        y = -one[0] * one[1]
        push = -2 * y * math.exp(-y * score) / (1 + math.exp(-y * score))
        for i, (w, a) in enumerate(zip(net.w, net.a, strict=True)):
            gw[i] += a * push * float(w @ one > 0) * one / len(x)
            ga[i] += push * max(float(w @ one), 0.0) / len(x)
    return gw, ga


def test_clean_gradients_are_eq_4_7():
    net = heavy_net(5, 6, Key("slow"), opp=0.2, perp=0.6)
    gw, ga = clean.clean_gradients(net, clean.measured_sizes(net))
    slow_w, slow_a = slow_clean(net, cube(6))
    assert np.allclose(gw, slow_w, atol=1e-13)
    assert np.allclose(ga, slow_a, atol=1e-13)


def test_decays_are_those_of_their_definition():
    """Neuron by neuron, from the clean gradients: opposite part on mu_1 or mu_2, orthogonal part in the rest."""
    net = heavy_net(4, 6, Key("decay"), opp=0.2, perp=0.6)
    g = clean.measured_sizes(net)
    gw, _ = clean.clean_gradients(net, g)
    found = phase2_growth.d7_observe([(net, g)], Key("unused"))
    for j in range(4):
        own = net.w[j] @ centres(6).T
        u = centres(6)[np.argsort(-np.abs(own))[2]] / np.sqrt(2)  # the two largest are the own centre and its negative
        opp, perp = (u @ net.w[j]) * u, np.where(np.arange(6) < 2, 0.0, net.w[j])
        first, second = float(opp @ gw[j]) / abs(net.a[j]), float(perp @ gw[j]) / abs(net.a[j])
        size = np.sqrt(opp @ opp) + math.exp(6) * np.sqrt(perp @ perp)
        assert found["w_opp . clean grad_w / |a|"][j] == pytest.approx(first, rel=1e-9)
        assert found["w_perp . clean grad_w / |a|"][j] == pytest.approx(second, rel=1e-9)
        whole = found["decay of ||w_opp|| + exp(6 H) ||w_perp|| over itself"][j]
        assert whole == pytest.approx((first + math.exp(6) * second) / size, rel=1e-9)


def test_population_gradients_descend_the_loss_of_the_work():
    """Central differences of p E[2 softplus(-y f)], neuron by neuron."""
    net = heavy_net(4, 5, Key("loss"), opp=0.3, perp=0.4)
    x = cube(5)
    gw, ga = clean.population_gradients(net)

    def loss(w, a):
        return len(a) * float(np.mean(2 * np.logaddexp(0, -labels(x) * dataclasses.replace(net, w=w, a=a)(x))))

    for i in range(4):
        step = np.zeros_like(net.w)
        step[i, 3] = 1e-6
        assert gw[i, 3] == pytest.approx((loss(net.w + step, net.a) - loss(net.w - step, net.a)) / 2e-6, abs=1e-7)
        tall = np.where(np.arange(4) == i, 1e-6, 0.0)
        assert ga[i] == pytest.approx((loss(net.w, net.a + tall) - loss(net.w, net.a - tall)) / 2e-6, abs=1e-7)


def test_definition_and_package_give_the_same_sizes():
    net = heavy_net(12, 6, Key("sizes"), size=1.5, opp=0.3, perp=0.3)
    assert np.allclose(clean.sizes(net), clean.measured_sizes(net), atol=1e-14)
    assert len(centres(6)) == len(clean.sizes(net))


def test_a_gradient_without_its_orthogonal_part_contradicts_eq_4_7(monkeypatch):
    honest = phase2.clean_gradients

    def flat(net, g):
        gw, ga = honest(net, g)
        return np.where(np.arange(gw.shape[1]) < 2, gw, 0.0), ga

    monkeypatch.setattr(phase2, "clean_gradients", flat)
    assert verdict_of(BY_NAME["clean_grad"], Key("verify")).reported == "contradicted"


@pytest.mark.parametrize(("name", "module"), [("lemmaD6", phase2), ("lemmaD10_D11", phase2_growth)])
def test_another_rate_contradicts(monkeypatch, name, module):
    monkeypatch.setattr(module, "TAU2", 0.97 * module.TAU2)
    findings = verdict_of(BY_NAME[name], Key("verify")).findings
    assert any(f.outcome == "contradicted" and f.statement.expect == "confirmed" for f in findings)


def test_without_small_orthogonal_parts_lemma_d5_is_not_met():
    """The control: the premise of Lemma D.5 is what makes it true."""
    claim = BY_NAME["lemmaD5"]
    drawn = phase2.draw_rests(Key("rests"))
    broken = dataclasses.replace(drawn, loose=drawn.long)
    claim = dataclasses.replace(claim, settings=broken)
    assert verdict_of(claim, Key("verify")).reported == "contradicted"
