"""Claims on the objects of the XOR work: data, network, loss and update."""

import numpy as np

from featlearn.core import Key
from featlearn.lab.claim import verdict_of
from featlearn.works.xor_sgd.claims import definitions

BY_NAME = {c.id.removeprefix("xor_sgd."): c for c in definitions.CLAIMS}


def test_the_loss_is_the_integral_of_slopes_of_either_label():
    scores = definitions.SCORES
    for y in (1.0, -1.0):
        assert np.allclose(definitions.engine_losses(y), 2 * np.logaddexp(0, -y * scores), atol=1e-8)


def test_another_engine_slope_contradicts_the_loss(monkeypatch):
    honest = definitions.engine_slopes
    monkeypatch.setattr(definitions, "engine_slopes", lambda scores, y: honest(scores, y) / 2)
    assert verdict_of(BY_NAME["loss"], Key("verify")).reported == "contradicted"


def test_an_engine_of_another_step_size_contradicts_the_update(monkeypatch):
    honest = definitions.engine_step
    monkeypatch.setattr(definitions, "engine_step", lambda net, x, y, eta: honest(net, x, y, 1.001 * eta))
    assert verdict_of(BY_NAME["minibatch_sgd"], Key("verify")).reported == "contradicted"
    assert verdict_of(BY_NAME["homogeneity"], Key("verify")).reported == "contradicted"
