"""Gradient features: a fault planted in the engine, or in what is measured, changes the verdict of its claim."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from featlearn.core import Key
from featlearn.errors import LabError
from featlearn.lab.claim import verdict_of
from featlearn.nets import TwoLayer
from featlearn.works import load_claims
from featlearn.works.gradient_features.claims import (
    bounds,
    dynamics,
    emergence,
    framework,
    frozen,
    linear,
    mixture_networks,
    mixtures,
    multi_index,
    parities,
    parity_features,
    uniform_parity,
    uniform_samples,
    xor_mixture,
)
from featlearn.works.gradient_features.setup import xor_components

CLAIMS = {c.id.removeprefix("gradient_features."): c for c in load_claims("gradient_features")}


def one_sign(m, d, key, *, bias, **more):
    """The symmetric start with a positive bias for mirrored neurons too."""
    net = framework_init(m, d, key, bias=bias, **more)
    return TwoLayer(net.w, -net.b.abs(), net.a, net.activation)


framework_init, step, train, gradient = (
    framework.symmetric_init,
    framework.forgetful_step,
    framework.joint,
    framework.simplified_gradients,
)
cone, smooth, once, exact = framework.in_cone, frozen.smoothness, frozen.one_step, emergence.gaussian_gradients
value = framework.loss_value

FAULTS = {
    "assumption3_1": (framework, "loss_value", lambda z, y, kind: value(z, y, kind) * 1.01),
    "method_init": (framework, "symmetric_init", one_sign),
    "algorithm1": (framework, "joint", lambda *a, eta, **k: train(*a, eta=1.1 * eta, **k)),
    "definition3_5": (framework, "simplified_gradients", lambda w, b, x, y: gradient(w, b, x, -y)),
    "definition3_7": (framework, "in_cone", lambda v, D, g: cone(v.abs(), D, g)),
    "algorithm4": (frozen, "smoothness", lambda net, x, loss: smooth(net, x, loss) / 3),
    "theorem3_4": (frozen, "one_step", lambda *a, steps, **k: once(*a, steps=steps, eta=1e-3, **k)),
    "theorem_b7": (frozen, "online_bound", lambda **c: c["star"] ** 2 / (4 * c["eta"] * c["T"]) + c["eta"]),
    "lemma_b8": (dynamics, "joint", lambda *a, eta, **k: train(*a, eta=30 * eta, **k)),
    "lemma_b10": (
        dynamics,
        "trajectory",
        lambda p: [(w * (1 + i), a * 20**i) for i, (w, a) in enumerate(path(p)[:25])],
    ),
    "lemma_b18": (dynamics, "gaussian_gradients", lambda *a: exact(*a) + 8),
    "lemma3_13": (emergence, "nice_neurons", lambda *a: torch.ones(1600, dtype=torch.bool)),
    "lemma3_14": (emergence, "nice_neurons", lambda w, *a: torch.ones(len(w), dtype=torch.bool)),
    "theorem3_12": (bounds, "reported_steps", lambda v, m, eps, bt: 1.0),
    "theorem_b62": (bounds, "UniformParity", lambda d, k: Wide(d)),
    "definition_linear": (linear, "over_groups", lambda v, n, q: [framework.over_groups(1.1 * v, n, q)[0]] * 30),
    "lemma_b25": (linear, "simplified_gradients", lambda w, b, x, y, **k: gradient(w, -b, x, y, **k)),
    "definition3_9": (mixtures, "best_network", lambda f, y, bound: best(f, y, bound / 3)),
    "definition_mog": (mixtures, "chance", lambda hits, q: linear.over_groups(0.9 * hits, 20, q)[0]),
    "definition_b29": (mixtures, "draw_in_box", lambda f, low, high, *a: box(f, low - 0.5, high, *a)),
    "lemma_b32": (mixtures, "gate_shares", lambda *a: gates(*a).flip(-1)),
    "lemma3_17_features": (mixtures, "gaussian_gradients", lambda *a: 1.1 * exact(*a)),
    "lemma3_17_network": (mixture_networks, "own_loss", lambda C, s: own(C - 0.4, s)),
    "theorem3_18": (mixture_networks, "opt_bound", lambda d, tau: 1.0),
    "lemma_b37": (xor_mixture, "gaussian_gradients", lambda *a: 1.1 * exact(*a)),
    "lemma_b37_gamma": (xor_mixture, "slack", lambda u, v, r, d: (near(u, v, r, d)[0] / d**0.1, near(u, v, r, d)[1])),
    "lemma_b41": (xor_mixture, "own_loss", lambda C, s: own(C - 0.6, s)),
    "theorem_b42": (xor_mixture, "excess", lambda v: bounds.excess(v) ** 2),
    "definition_parity": (parities, "over_groups", lambda v, n, q: linear.over_groups(v + 0.2, n, q)),
    "lemma3_21": (parities, "hats", lambda u, k, shift=0: 0.97 * bumps(u, k, shift)),
    "lemma3_21_norm": (parities, "twin_tips", lambda k: (tips(k)[0] * 1.01, tips(k)[1])),
    "lemma3_21_features": (parity_features, "simplified_gradients", lambda w, b, x, y: gradient(w, 0 * b, x, y)),
    "lemma3_21_sign": (parity_features, "simplified_gradients", lambda w, b, x, y: gradient(w, 0 * b, x, y)),
    "definition_b46": (parity_features, "gate_shares", lambda *a: 1 - gates(*a)),
    "prop3_23": (parities, "best_network", lambda *a, **k: SimpleNamespace(loss=0.3, lower=0.3)),
    "definition_uniform_parity": (uniform_parity, "log_xi", lambda d, k: d * k / 100),
    "lemma_b63": (uniform_parity, "simplified_gradients", lambda w, b, x, y: gradient(w, b, x, -y)),
    "definition_b57": (uniform_parity, "in_max_cone", lambda v, D, g: cones(v, D, 2 * g)),
    "lemma_b64": (uniform_parity, "hats", lambda u, k, shift=0: 0.97 * bumps(u, k, shift)),
    "lemma_b54": (uniform_samples, "forgetful_step", lambda net, *a: net),
    "lemma_b54_samples": (uniform_samples, "log_samples", lambda d, k, m: float(k)),
    "lemma_b59": (uniform_samples, "simplified_gradients", lambda w, b, x, y: gradient(w, b, x, -y)),
    "definition_multi_index": (multi_index, "over_groups", lambda v, n, q: linear.over_groups(1.5 * v, n, q)),
    "algorithm7": (multi_index, "residual", lambda x, y: (y, 0.0, 0 * x[0])),
    "lemma_b68": (multi_index, "forgetful_step", lambda net, *a, **k: net),
    "theorem_b69": (multi_index, "slope", lambda x, y, unit: dynamics.slope(x, [v / 2 for v in y], unit)),
    "lemma_b26": (linear, "mean_loss", lambda s, y, kind: float((1 - s * y).abs().mean())),
}
AGAIN = [
    ("lemma3_13", emergence, "xor_components", lambda u, v, *a: xor_components(-u, v, *a)),
    ("lemma3_17_features", mixtures, "gaussian_gradients", lambda w, b, mu, y, p, s: exact(w, b, mu, y, p, s**2)),
    ("definition_b29", mixtures, "draw_in_box", lambda f, low, high, s, *a: unscaled(f, low, high, s, *a)),
    ("definition_b29", mixtures, "draw_in_box", lambda f, low, high, s, *a: at_the_edge(f, low, high, s, *a)),
    (
        "method_init",
        framework,
        "symmetric_init",
        lambda m, d, key, *, sigma_a, **k: framework_init(m, d, key, sigma_a=sigma_a**0.5, **k),
    ),
    ("algorithm4", frozen, "smoothness", lambda net, x, loss: 0.9 * smooth(net, x, loss)),
    ("algorithm7", multi_index, "multi_index", lambda *a, **k: old_biases(*train_residual(*a, **k))),
    ("lemma_b8", dynamics, "fit", lambda net, x, y, stages, key, **k: train_alone(net, x, -y, stages, key, **k)),
    ("lemma_b10", dynamics, "fit", lambda net, x, y, stages, key, **k: train_alone(net, 2 * x, y, stages, key, **k)),
    ("lemma_b37", xor_mixture, "draw_in_box", lambda f, low, high, *a: box(f, low.clamp_min(0), high, *a)),
    ("lemma_b41", xor_mixture, "GaussianMixture", SimpleNamespace(xor=lambda d, sigma=1.0: louder(d, 1.5 * sigma))),
    ("lemma_b59", uniform_samples, "simplified_gradients", lambda *a: 0.8 * gradient(*a)),
    ("lemma_b54_samples", uniform_samples, "log_xi", lambda d, k: log_xi(d, k) + 0.02),
    ("lemma3_17_network", mixture_networks, "own_loss", lambda C, s: own(C, s) * 1.01),
]


def unscaled(f, low, high, s, m, key):
    """Bounds on <w, D> taken for bounds on <w, D>/sigma_w."""
    w, log_p = box(f, low, high, 1.0, m, key)
    return s * w, log_p


def old_biases(found, run):
    """Algorithm 7 with the biases of the start."""
    net = TwoLayer(run.net.w, 0 * run.net.b, run.net.a, "relu")
    return found, SimpleNamespace(net=net)


def at_the_edge(f, low, high, s, m, key):
    """Every draw at the first bound."""
    w, log_p = box(f, low, high, s, m, key)
    return w + (low[0] - w @ f[0].to(w))[:, None] * f[0].to(w), log_p


train_residual = multi_index.multi_index
train_alone, louder, log_xi = dynamics.fit, xor_mixture.GaussianMixture.xor, uniform_samples.log_xi
path, best, box, gates = dynamics.trajectory, mixtures.best_network, mixtures.draw_in_box, mixtures.gate_shares
own, near, bumps, tips = mixture_networks.own_loss, xor_mixture.slack, parities.hats, parities.twin_tips
cones = uniform_parity.in_max_cone


class Wide:
    """Inputs of +-2."""

    def __init__(self, d):
        self.d = d

    def draw(self, key):
        return None

    def sample(self, truth, n, key):
        class Batch:
            x = 2.0 * torch.randint(2, (n, self.d), generator=key.torch()) * 2 - 2

        return Batch


@pytest.mark.parametrize("name, module, attribute, wrong", [*((n, *f) for n, f in FAULTS.items()), *AGAIN])
def test_a_fault_changes_the_verdict(name, module, attribute, wrong, monkeypatch):
    monkeypatch.setattr(module, attribute, wrong)
    try:
        assert not verdict_of(CLAIMS[name], Key("verify")).as_expected
    except LabError:  # what was measured cannot be judged at all
        pass


def test_xor_components_equal_the_closed_form():
    d, m = 50, 40
    rng = Key("xor").numpy()
    w = rng.normal(size=(m, d))
    means = np.zeros((4, d))
    means[0, 0], means[1, 0], means[2, 1], means[3, 1] = d**0.5 * np.array([1, -1, 1, -1])
    y, p, s = np.array([1.0, 1, -1, -1]), np.full(4, 0.25), np.full(4, 1.3)
    b = np.full(m, 5.0)
    full = exact(*(torch.as_tensor(v) for v in (w, b, means, y, p, s))).numpy()
    g1, g3, g0 = xor_components(w[:, 0], w[:, 1], np.linalg.norm(w[:, 2:], axis=1), b, 1.3, d)
    np.testing.assert_allclose(full[:, 0], g1, atol=1e-10)
    np.testing.assert_allclose(full[:, 1], g3, atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(full[:, 2:], axis=1), np.abs(g0), atol=1e-10)
