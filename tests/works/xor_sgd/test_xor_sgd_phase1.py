"""Claims on the gradients of phase 1 of the XOR work."""

import numpy as np
import pytest

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.xor_sgd.claims import phase1
from featlearn.works.xor_sgd.setup import Net, cube, first_order, labels, random_net, true_gradients

BY_NAME = {c.id.removeprefix("xor_sgd."): c for c in phase1.CLAIMS}


def test_the_example_of_the_accusation_by_hand():
    """d = 4, a = 1, w = (1, -1, 1, 2): -w_3 grad_3 L0 is +1/8, and B4 as reported has -1/8."""
    net, direct = Net(np.array([[1.0, -1.0, 1.0, 2.0]]), np.ones(1)), []
    for x in cube(4):
        active = x[0] - x[1] + x[2] + 2 * x[3] > 0
        direct.append(-x[0] * x[1] * active * x[2])
    assert np.mean(direct) == 1 / 8
    assert phase1.right_sides(net)["B4"][0, 0] == 1 / 8


def test_b4_as_reported_is_what_the_paper_has():
    """|a||w_i|/4 (Pr[X near sqrt(2)||w_opp||] - Pr[X near sqrt(2)||w_sig||]), counted one by one."""
    net, d = random_net(3, 5, Key("net")), 5
    said = {s.name: s.value for s in phase1.says_c4(net)}["-w_i grad_i L0, i >= 3, as reported"]
    noise = [np.append([0.0, 0.0], x[2:]) for x in cube(d)]
    for j in range(3):
        for i in range(2, d):
            size, counts = abs(net.w[j, i]), []
            for part in (net.opp[j], net.sig[j]):
                level = 2**0.5 * np.linalg.norm(part)
                inside = [abs(xi @ net.w[j] - xi[i] * net.w[j, i] - level) <= size for xi in noise]
                counts.append(np.mean(inside))
            assert said[j, i - 2] == pytest.approx(abs(net.a[j]) * size / 4 * (counts[0] - counts[1]), abs=1e-14)


def test_the_accusation_stands_on_the_statement_as_reported_alone():
    verdict = verdict_of(BY_NAME["lemmaC4"], Key("verify"))
    assert (verdict.reported, verdict.corrected) == ("contradicted", "confirmed")
    assert [f.statement.name for f in verdict.findings if f.outcome != "confirmed"] == [
        "-w_i grad_i L0, i >= 3, as reported"
    ]


def test_gradients_of_the_engine_are_those_of_the_formulas():
    net, x = random_net(9, 6, Key("net")), cube(6)
    for ours, formula in ((phase1.gradient, true_gradients), (phase1.gradient_at_zero, first_order)):
        found, (gw, ga) = ours(net, x, labels(x)), formula(net, x)
        np.testing.assert_allclose(found.w, gw, atol=1e-12)
        np.testing.assert_allclose(found.a, ga, atol=1e-12)


@pytest.mark.parametrize("name", ["lemmaC2_C5", "lemmaC3"])
def test_gradients_of_half_the_size_contradict(name, monkeypatch):
    """What the loss without the factor 2 would give: bounds would not notice, the derived sizes do."""
    honest = phase1.engine_step

    def half(net, x, y, eta):
        end = honest(net, x, y, eta)
        return Net((net.w + end.w) / 2, (net.a + end.a) / 2)

    monkeypatch.setattr(phase1, "engine_step", half)
    assert verdict_of(BY_NAME[name], Key("verify")).reported == "contradicted"
