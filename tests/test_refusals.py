"""Every public function refuses wrong tensors by name, walked from `__all__`, without the hooks of jaxtyping.

A new function is tested by being listed in CALLS with a call that works; what is not refused is in TAKEN with a reason.
"""

import dataclasses
import importlib
import inspect
import math
from functools import partial

import pytest
import torch

from featlearn import errors, kernels, learn, measure, methods, nets, tasks
from featlearn.core import Key, check
from featlearn.methods import domains

KEY = Key("refusals")
ROOMS = ["core", "tasks", "nets", "learn", "kernels", "measure", "methods", "methods.domains", "methods.gemfilter"]
E, M, N, D, C = 2, 6, 8, 4, 3


def normal(*shape, name="x"):
    return torch.randn(*shape, generator=(KEY / name).torch())


NET = nets.TwoLayer(normal(E, M, D, name="w"), normal(E, M, name="b"), normal(E, M, name="a"), "relu")
ONE = nets.TwoLayer(NET.w[:1], NET.b[:1], NET.a[:1], "relu")
POWER = nets.power_init(M, 2, 5, KEY)
FORMER = nets.ModularTransformer(nets.ModularShape(k=2, p=5, heads=2, width=8, head_dim=4, mlp=0), [KEY / 0, KEY / 1])
X, SIGNS = normal(N, D), torch.tensor([1.0, -1.0] * (N // 2))
W, A, B = NET.w, NET.a, NET.b
CENTRES, LABELS = torch.eye(D)[:C], torch.tensor([1.0, -1.0, 1.0])
MEANS = torch.eye(D)[:2]
WEIGHTS = torch.full((N,), 1 / N)
GROUP = torch.arange(N) % C
OWN = torch.zeros(E, M, dtype=torch.long)
STAGE = learn.Stage(2, 0.1, 0.1, 0.1, batch=4)
POSITIVE = normal(N, M, name="f").abs()
WAVE = normal(M, 7, name="wave")


PROMPTS = normal(2, N, D, name="prompts")
ATTENTION = nets.LinearSelfAttention(D - 1, 2, KEY)
LOOPED = nets.LoopedTransformer(torch.eye(D), torch.eye(D))
HEADS = nets.ReluAttention(normal(C, D, D, name="heads"), torch.tensor([1.0, -1.0, 0.5]))


def decode(i):
    return torch.stack([i // 5, i % 5], -1), (i // 5 + i % 5) % 5


def sample(n, key):
    x = torch.randn(n, D, generator=key.torch())
    return x, torch.where(x[:, 0] > 0, 1.0, -1.0)


POINTS = torch.stack([torch.arange(16), torch.arange(16)])
REST = torch.stack([torch.arange(16, 25), torch.arange(16, 25)])
SCHEDULE = learn.ModularSchedule(steps=1, batch=4)
RIDGE = {"penalty": 0.5}
GRAM = kernels.rbf(X, X)
MAPS = kernels.random_features(D, 5, KEY)

CLOSED_FORMS = (
    *("ntk", "nngp", "rbf", "polynomial"),
    *("arcsine", "deep_gram", "deep_nngp", "deep_ntk", "residual_nngp", "residual_ntk"),
)
RESIDUAL = nets.residual_init(M, D, 2, KEY)
IMAGES = normal(2, 1, 3, 3)
LINEAR = torch.nn.Linear(D, 2)
CORNERS = kernels.cube(4)
SPECTRUM = kernels.cube_spectrum(kernels.rbf, 4)

CALLS = {
    "nets.residual_gradients": (nets.residual_gradients, {"net": RESIDUAL, "x": X, "y": normal(N, 2, name="y")}),
    "kernels.recursive": (partial(kernels.recursive, step=lambda u, v, c: c), {"x": X, "y": normal(5, D)}),
    "kernels.cube_gram": (kernels.cube_gram, {"spectrum": SPECTRUM, "centres": CORNERS[:3]}),
    "kernels.cube_residuals": (
        partial(kernels.cube_residuals, alpha=0.5),
        {"spectrum": SPECTRUM, "centres": CORNERS[:3], "blocks": torch.tensor([[0, 1]])},
    ),
    "kernels.span_residuals": (
        partial(kernels.span_residuals, alpha=0.5),
        {"coefficients": kernels.fourier_coefficients(CORNERS), "blocks": torch.tensor([[0, 1]])},
    ),
    "kernels.fourier_coefficients": (kernels.fourier_coefficients, {"values": CORNERS}),
    "kernels.well_conditioned": (partial(kernels.well_conditioned, cutoff=1e-12), {"gram": torch.eye(N).double()}),
    "nets.forward": (nets.forward, {"net": NET, "x": X}),
    "nets.gradients": (nets.gradients, {"net": NET, "x": X, "y": SIGNS, "weights": WEIGHTS}),
    "nets.attention_matrices": (nets.attention_matrices, {"net": FORMER, "tokens": normal(2, 5, 8)}),
    "nets.mean_field_rates": (nets.mean_field_rates, {"eta": torch.ones(E), "p": M}),
    "nets.TwoLayer": (nets.TwoLayer, {"w": W, "b": B, "a": A}),
    "nets.TwoLayer()": (NET.__call__, {"x": X}),
    "nets.PowerNetwork": (nets.PowerNetwork, {"u": POWER.u, "w": POWER.w}),
    "nets.PowerNetwork()": (POWER.__call__, {"x": torch.tensor([[1, 2], [3, 4]])}),
    "nets.ModularTransformer()": (FORMER.forward, {"x": torch.ones(2, 3, 2).long()}),
    "nets.prompt_matrix": (
        nets.prompt_matrix,
        {
            "x": PROMPTS,
            "y": normal(2, N, name="labels"),
            "query": torch.tensor([1.0, -2.0]),
            "start": normal(2, D, name="start"),
        },
    ),
    "nets.linear_attention": (nets.linear_attention, {"z": PROMPTS, "query_key": torch.eye(D), "value": torch.eye(D)}),
    "nets.smoothness": (nets.smoothness, {"x": PROMPTS}),
    "nets.inverse_smoothness": (partial(nets.inverse_smoothness, loops=2), {"x": PROMPTS}),
    "nets.least_squares": (nets.least_squares, {"x": PROMPTS, "y": normal(2, N, name="labels")}),
    "nets.LoopedTransformer.loops": (LOOPED.loops, {"z": PROMPTS, "rates": torch.full((2, 3), 0.01)}),
    "nets.ReluAttention": (nets.ReluAttention, {"query_key": HEADS.query_key, "outer": HEADS.outer}),
    "nets.ReluAttention()": (
        HEADS.__call__,
        {"x": PROMPTS, "y": normal(2, N, name="labels"), "query": normal(2, D, name="start")},
    ),
    "nets.ReluAttention.read": (HEADS.read, {"mean": normal(2, D), "query": normal(2, D, name="start")}),
    "nets.diagonal_heads": (
        nets.diagonal_heads,
        {"diagonals": W[0], "outer": torch.ones(M), "dictionary": torch.eye(D)},
    ),
    "nets.binary_code_heads": (partial(nets.binary_code_heads, d=D, gamma=0.1), {"dictionary": torch.eye(D)}),
    "nets.LinearSelfAttention()": (ATTENTION.forward, {"prompts": normal(2, D, N, name="prompts")}),
    "nets.LinearSelfAttention.output": (ATTENTION.output, {"prompts": normal(2, D, N, name="prompts")}),
    **{
        f"nets.{n}": (partial(getattr(nets, n), examples=5, rank=2), {"covariance": torch.eye(D)})
        for n in ("optimal_matrix", "optimal_attention")
    },
    "nets.population_loss": (
        partial(nets.population_loss, examples=5),
        {"matrix": torch.eye(D)[None], "covariance": torch.eye(D)},
    ),
    "nets.SmallCnn()": (nets.SmallCnn(1, KEY, width=8).forward, {"x": torch.zeros(2, 1, 8, 8)}),
    "learn.fit": (learn.fit, {"net": NET, "x": X, "y": SIGNS, "weights": WEIGHTS, "stages": [STAGE], "key": KEY}),
    "learn.fit_linear": (
        learn.fit_linear,
        {"features": X, "y": SIGNS, "rates": [0.1], "key": KEY, "steps": 2, "batch": 4},
    ),
    "learn.fit_linearised": (
        learn.fit_linearised,
        {"net": ONE, "x": X, "y": SIGNS, "rates": [0.1], "key": KEY, "steps": 2, "batch": 4},
    ),
    "learn.fit_one_pass": (learn.fit_one_pass, {"net": NET, "sample": sample, "stages": [STAGE], "key": KEY}),
    "learn.fit_power": (
        learn.fit_power,
        {
            "net": POWER,
            "train": POINTS[0],
            "decode": decode,
            "key": KEY,
            "schedule": learn.PowerSchedule(steps=1, batch=4),
        },
    ),
    "learn.fit_modular": (
        learn.fit_modular,
        {"net": FORMER, "train": POINTS, "test": REST, "decode": decode, "schedule": SCHEDULE, "keys": [KEY / 0, KEY]},
    ),
    "learn.project_gram": (partial(learn.project_gram, budget=2.0), {"g": normal(D, D)}),
    "learn.modular_accuracy": (learn.modular_accuracy, {"net": FORMER, "index": POINTS, "decode": decode}),
    "learn.Linear": (learn.Linear, {"weights": normal(E, D)}),
    "learn.Linear()": (learn.Linear(normal(E, D)).__call__, {"features": X}),
    "learn.Linearised()": (learn.Linearised(ONE, normal(E, M, D + 1), normal(E, M)).__call__, {"x": X}),
    **{f"kernels.{n}": (getattr(kernels, n), {"x": X, "y": normal(5, D)}) for n in CLOSED_FORMS},
    **{
        f"kernels.{n}": (
            getattr(kernels, n),
            {"var_x": torch.ones(N, 1), "var_y": torch.ones(1, 5), "cov": torch.zeros(N, 5)},
        )
        for n in ("clip_moments", "relu_moments")
    },
    **{f"kernels.{n}": (getattr(kernels, n), {"x": IMAGES, "y": IMAGES[:1]}) for n in ("conv_nngp", "conv_ntk")},
    "kernels.empirical_ntk": (partial(kernels.empirical_ntk, LINEAR), {"x": X, "y": normal(5, D)}),
    "kernels.conjugate_kernel": (partial(kernels.conjugate_kernel, LINEAR, ""), {"x": X, "y": normal(5, D)}),
    "kernels.mirror": (kernels.mirror, {"w": MAPS.w, "b": MAPS.b, "a": MAPS.b}),
    "kernels.gram": (partial(kernels.gram, kernels.rbf), {"x": X, "y": normal(5, D)}),
    "kernels.kernel_ridge": (partial(kernels.kernel_ridge, kernels.rbf, **RIDGE), {"x": X, "y": SIGNS}),
    "kernels.ridge_path": (partial(kernels.ridge_path, kernels.rbf, penalties=[0.5]), {"x": X, "y": SIGNS}),
    "kernels.feature_ridge": (partial(kernels.feature_ridge, MAPS, **RIDGE), {"x": X, "y": SIGNS}),
    "kernels.gram_ridge": (partial(kernels.gram_ridge, **RIDGE), {"k": GRAM, "y": SIGNS}),
    "kernels.gram_svm": (partial(kernels.gram_svm, **RIDGE), {"k": GRAM, "y": SIGNS}),
    "kernels.kernel_svm": (partial(kernels.kernel_svm, kernels.rbf, **RIDGE), {"x": X, "y": SIGNS}),
    "kernels.tuned": (
        partial(kernels.tuned, {1.0: kernels.rbf}, penalties=[0.5]),
        {"x": X, "y": SIGNS, "x_validation": normal(5, D), "y_validation": SIGNS[:5]},
    ),
    "kernels.tuned_gram": (
        partial(kernels.tuned_gram, {1.0: (GRAM, GRAM[:5])}, penalties=[0.5]),
        {"y": SIGNS, "y_validation": SIGNS[:5]},
    ),
    "kernels.GramPredictor()": (kernels.gram_ridge(GRAM, SIGNS, **RIDGE).__call__, {"k": GRAM}),
    "kernels.KernelMachine()": (kernels.kernel_svm(kernels.rbf, X, SIGNS, **RIDGE).__call__, {"x": X}),
    "kernels.hinge_classifier": (
        partial(kernels.hinge_classifier, max_norm=1.0),
        {"features": X, "y": SIGNS, "weights": WEIGHTS},
    ),
    "kernels.KernelPredictor()": (kernels.kernel_ridge(kernels.rbf, X, SIGNS, **RIDGE).__call__, {"x": X}),
    "kernels.FeaturePredictor()": (kernels.feature_ridge(MAPS, X, SIGNS, **RIDGE).__call__, {"x": X}),
    "kernels.HingeFit()": (kernels.hinge_classifier(X, SIGNS, 1.0).__call__, {"features": X}),
    "kernels.RandomFeatures()": (MAPS.__call__, {"x": X}),
    "kernels.FourierFeatures()": (kernels.fourier_features(D, 5, KEY).__call__, {"x": X}),
    "kernels.TangentFeatures()": (kernels.TangentFeatures(MAPS.w, MAPS.b, MAPS.b).__call__, {"x": X}),
    "measure.cosines": (measure.cosines, {"w": W, "feature": X[0], "outside": A}),
    "measure.closest_cosine": (measure.closest_cosine, {"w": W, "feature": X[0], "outside": A}),
    "measure.best_network": (
        partial(measure.best_network, norm=1.0),
        {"features": POSITIVE, "y": SIGNS, "weights": WEIGHTS},
    ),
    "measure.best_bounded_network": (
        partial(measure.best_bounded_network, largest=1.0),
        {"features": POSITIVE, "y": SIGNS, "weights": WEIGHTS},
    ),
    "measure.subnetwork_scores": (
        measure.subnetwork_scores,
        {"features": POSITIVE, "a": A[0], "keep": torch.ones(M).bool()},
    ),
    "measure.loss_by_size": (
        measure.loss_by_size,
        {"features": POSITIVE, "y": SIGNS, "a": A[0], "order": torch.arange(M), "sizes": torch.tensor([1, 2])},
    ),
    "measure.best_cosine": (measure.best_cosine, {"weights": W, "targets": CENTRES}),
    "measure.spherical_kmeans": (partial(measure.spherical_kmeans, k=2, key=KEY), {"directions": X}),
    "measure.cosine_silhouette": (measure.cosine_silhouette, {"directions": X, "labels": GROUP}),
    "measure.linear_cka": (measure.linear_cka, {"x": X, "y": normal(N, C)}),
    "measure.source_overlap": (partial(measure.source_overlap, k=1), {"features": X, "source": GROUP}),
    "measure.knn_accuracy": (
        partial(measure.knn_accuracy, k=2),
        {"train": X, "y_train": GROUP, "test": normal(5, D), "y_test": torch.arange(5) % C},
    ),
    "measure.tsne": (partial(measure.tsne, key=KEY, perplexity=2.0), {"features": X}),
    "measure.mds": (partial(measure.mds, key=KEY), {"directions": X, "stars": CENTRES}),
    **{
        f"measure.{n}": (getattr(measure, n), {"w": WAVE})
        for n in ("half_power", "frequency_share", "top_frequency", "fit_cosine")
    },
    "measure.coverage": (
        partial(measure.coverage, p=7),
        {"top": torch.tensor([1, 2]), "alive": torch.tensor([True, False])},
    ),
    "measure.phase_residual": (measure.phase_residual, {"u": normal(M, 2, 7), "w": WAVE}),
    "measure.interpolate": (measure.interpolate, {"w": WAVE, "t": torch.linspace(0, 1, 3)}),
    **{
        f"measure.{n}": (getattr(measure, n), {"a": normal(3, 7, 7)})
        for n in ("power_2d", "top_share_2d", "top_frequency_2d")
    },
    "measure.live": (measure.live, {"norms": A.abs()}),
    **{f"measure.{n}": (getattr(measure, n), {"power": POSITIVE}) for n in ("participation", "gini")},
    "measure.grokking_delay": (
        measure.grokking_delay,
        {"train_accuracy": torch.rand(E, 3), "test_accuracy": torch.rand(E, 3), "steps": torch.arange(3)},
    ),
    "measure.simplified_gradients": (
        measure.simplified_gradients,
        {"w": W[0], "b": B[0], "x": X, "y": SIGNS, "weights": WEIGHTS},
    ),
    "measure.gaussian_gradients": (
        measure.gaussian_gradients,
        {
            "w": W[0],
            "b": B[0],
            "means": CENTRES,
            "labels": LABELS,
            "weights": torch.ones(C) / C,
            "sigma": torch.ones(C),
        },
    ),
    "measure.in_cone": (partial(measure.in_cone, gamma=0.5), {"vectors": X, "directions": CENTRES}),
    "measure.in_max_cone": (partial(measure.in_max_cone, gamma=0.5), {"vectors": X, "direction": CENTRES[0]}),
    "measure.membership": (
        measure.membership,
        {
            "gradients": X,
            "directions": CENTRES,
            "gammas": torch.tensor([0.1, 0.5]),
            "right_sign": torch.ones(N).bool(),
        },
    ),
    "measure.gradient_feature_set": (
        partial(measure.gradient_feature_set, p=0.1, gamma=0.5),
        {"gradients": X, "b": SIGNS},
    ),
    "measure.nice_neurons": (
        partial(measure.nice_neurons, sign=1.0, gamma=0.5, least_norm=0.1, step=0.1),
        {"w1": W[0], "a0": A[0], "b": B[0], "direction": CENTRES[0]},
    ),
    "measure.draw_in_box": (
        partial(measure.draw_in_box, sigma_w=1.0, m=3, key=KEY),
        {"directions": CENTRES, "low": torch.zeros(C), "high": torch.ones(C)},
    ),
    **{
        f"measure.{n}": (getattr(measure, n), {"scores": normal(N, C), "y": GROUP})
        for n in ("margins", "class_weighted_margins")
    },
    "measure.data_margin": (partial(measure.data_margin, lambda x: x), {"x": normal(N, C), "y": GROUP}),
    **{
        f"measure.{n}": (getattr(measure, n), {"w": W, "centres": CENTRES})
        for n in ("cluster_cosines", "closest_cluster")
    },
    "measure.matching_neurons": (
        partial(measure.matching_neurons, least=0.1),
        {"w": W, "a": A, "centres": CENTRES, "labels": LABELS},
    ),
    **{
        f"measure.{n}": (partial(getattr(measure, n), clusters=C), {"w": W, "x": X, "group": GROUP, "b": B})
        for n in ("gate_shares", "captures")
    },
    "measure.aligned": (
        measure.aligned,
        {"w": W, "x": X, "group": GROUP, "own": OWN, "opposite": torch.tensor([1, 0, 2]), "b": B},
    ),
    "measure.off_class_overlap": (
        measure.off_class_overlap,
        {"w": W, "a": A, "centres": CENTRES, "labels": LABELS},
    ),
    "measure.feature_movement": (
        measure.feature_movement,
        {"before": W, "after": 2 * W, "x": X, "b_before": B + 9, "b_after": B},
    ),
    "measure.decision_grid": (partial(measure.decision_grid, lambda x: x[:, :1]), {"plane": MEANS}),
    "measure.check_orthogonal_pair": (measure.check_orthogonal_pair, {"means": MEANS}),
    **{
        f"measure.{n}": (getattr(measure, n), {"w": W, "a": A, "means": MEANS})
        for n in ("signal_parts", "cluster_margins", "heavy_mass")
    },
    "measure.signal_heavy": (partial(measure.signal_heavy, zeta=0.1, H=1.0), {"w": W, "a": A, "means": MEANS}),
    "measure.loss_sizes": (measure.loss_sizes, {"margins": A}),
    "measure.leading_singular": (partial(measure.leading_singular, k=2, key=KEY), {"matrix": X}),
    "measure.stable_rank": (partial(measure.stable_rank, key=KEY), {"matrix": X}),
    "measure.effective_rank": (measure.effective_rank, {"matrix": X}),
    "measure.rounding_floor": (partial(measure.rounding_floor, kind="float32"), {"matrix": X}),
    "measure.share_within": (measure.share_within, {"change": X, "directions": torch.eye(D)[:, :2]}),
    "measure.tangent_kernel": (measure.tangent_kernel, {"w": W, "a": A, "x": X, "b": B}),
    "measure.kernel_drift": (measure.kernel_drift, {"before": torch.eye(N), "after": torch.eye(N)}),
    "nets.SmallEncoder()": (nets.SmallEncoder(1, KEY, width=4).forward, {"x": torch.zeros(2, 1, 8, 8)}),
    "nets.SmallResNet()": (nets.SmallResNet(1, KEY).forward, {"x": torch.zeros(2, 1, 8, 8)}),
    "learn.label_share": (partial(learn.label_share, share=0.5, key=KEY), {"y": GROUP}),
    "learn.label_split": (partial(learn.label_split, share=0.5, key=KEY), {"y": GROUP}),
    "learn.pretrain": (
        partial(
            learn.pretrain,
            torch.nn.Linear(D, 2),
            settings=learn.Contrastive(epochs=1, batch=4),
            key=KEY,
            views=learn.NoiseViews(),
        ),
        {"images": X},
    ),
    "learn.pretrain_across": (
        partial(
            learn.pretrain_across,
            torch.nn.Linear(D, 2),
            settings=learn.Contrastive(epochs=1, batch=4),
            key=KEY,
            views=learn.NoiseViews(),
        ),
        {"images": X},
    ),
    "learn.linear_probe": (
        partial(learn.linear_probe, torch.nn.Identity(), settings=learn.probing(epochs=1), key=KEY),
        {"x": X, "y": GROUP},
    ),
    "learn.fine_tune": (
        partial(learn.fine_tune, torch.nn.Linear(D, 2), settings=learn.fine_tuning(epochs=1), key=KEY),
        {"x": X, "y": GROUP},
    ),
    "methods.contrastive_regulariser": (
        methods.contrastive_regulariser,
        {"first": X, "second": normal(N, D, name="second"), "queue": normal(5, D, name="queue")},
    ),
    "methods.nuclear_norm": (methods.nuclear_norm, {"features": X}),
    "methods.stable_rank": (methods.stable_rank, {"features": X}),
    "methods.domains.Minibatch": (domains.Minibatch, {"x": X, "y": GROUP}),
    "core.Truth": (tasks.xor_clusters.Truth, {"features": CENTRES}),
    "core.Batch": (tasks.xor_clusters.Batch, {"x": X, "y": SIGNS, "hidden": GROUP, "group": GROUP}),
}

FUNCTION = "takes a function; the features of a kernel are checked where it is called"
MODULES = "takes modules and parts of domains, not tensors; its refusals are in tests/methods"
NO_TENSORS = {
    "learn.features_of": "asks the encoder, which says what it takes; see tests/learn/test_contrastive.py",
    "kernels.cube_spectrum": FUNCTION,
    "nets.residual_forward": "the pass of each step of training; `residual_gradients` looks at what it takes",
    "learn.fit_linear_contrastive": "takes its pairs from a function; see tests/learn/test_linear_contrastive.py",
    "learn.fit_residual": "takes its samples as a pair or a function; see tests/learn/test_fit_residual.py",
    "nets.mirrored": "takes a network, whose shapes are checked when it is built; it may hold nan, one that diverged",
    "nets.neuron_weights": "takes a network, as `mirrored`",
    "kernels.gram_of": FUNCTION,
    "methods.domains.build": MODULES,
    "methods.domains.features_of": MODULES,
    "methods.gemfilter.generate": "takes a language model; see tests/methods/test_gemfilter_requests.py",
    "methods.gemfilter.select": "takes a language model; see tests/methods/test_gemfilter_requests.py",
    "methods.gemfilter.select_chunked": "takes a language model; see tests/methods/test_gemfilter_requests.py",
}
"""Functions with tensors in their signature that are not walked."""

HELD = (
    "holds values and does not look at them: a diverged network among others is nan, and reading would wait for a GPU"
)
STEP = "the shape alone: at every step of training a GPU would wait; `fit_modular` and `train` look at values"
NOTHING = "no samples have no answers, which is an answer"
CONVERTS = "is converted to the precision of the others"
PREDICTORS = (
    *("KernelPredictor", "FeaturePredictor", "GramPredictor", "KernelMachine", "HingeFit"),
    *("RandomFeatures", "FourierFeatures", "TangentFeatures"),
)
LEARNERS = ("gram_ridge", "gram_svm", "kernel_svm", "tuned", "tuned_gram")
TAKEN = {
    ("nets.TwoLayer", "*", "nan inf empty"): HELD,
    ("nets.PowerNetwork", "*", "nan inf empty"): HELD,
    ("nets.ReluAttention", "*", "nan inf empty"): HELD,
    ("learn.Linear", "*", "nan inf empty"): HELD,
    ("core.Truth", "*", "nan inf empty"): HELD,
    ("core.Batch", "*", "nan inf empty precision kind"): HELD,
    ("methods.domains.Minibatch", "*", "nan inf empty"): HELD,
    ("nets.PowerNetwork()", "x", "empty"): NOTHING,
    ("nets.ModularTransformer()", "x", "empty"): STEP,
    **{(f"nets.{n}()", "x", "nan inf empty kind"): STEP for n in ("SmallCnn", "SmallEncoder", "SmallResNet")},
    ("learn.fit", "*", "precision"): CONVERTS,
    **{(f"kernels.{n}", "*", "precision"): CONVERTS for n in LEARNERS},
    **{(f"kernels.{n}", "*", "empty precision"): NOTHING for n in (*CLOSED_FORMS, "recursive", "gram")},
    **{(f"kernels.{n}", "*", "precision"): CONVERTS for n in ("clip_moments", "relu_moments", "hinge_classifier")},
    **{(f"kernels.{n}", "*", "precision"): CONVERTS for n in ("kernel_ridge", "ridge_path", "feature_ridge")},
    **{
        (f"kernels.{n}", "*", "precision"): CONVERTS
        for n in ("empirical_ntk", "conjugate_kernel", "conv_nngp", "conv_ntk")
    },
    **{(f"kernels.{n}()", "*", "empty precision"): NOTHING for n in PREDICTORS},
    ("measure.linear_cka", "*", "precision"): CONVERTS,
    ("measure.mds", "stars", "empty"): "a picture without stars",
    ("measure.mds", "*", "precision"): CONVERTS,
    ("measure.cosines", "outside", "precision"): CONVERTS,
    ("measure.closest_cosine", "outside", "precision"): CONVERTS,
    **{(f"measure.{n}", "*", "precision"): CONVERTS for n in ("best_network", "best_bounded_network", "interpolate")},
    ("measure.loss_by_size", "*", "precision"): CONVERTS,
    ("nets.gradients", "weights", "precision"): CONVERTS,
    ("measure.phase_residual", "*", "precision"): CONVERTS,
    ("measure.coverage", "*", "empty"): "no neurons use no frequency",
    ("measure.grokking_delay", "*", "precision"): CONVERTS,
    ("measure.grokking_delay", "steps", "kind"): "steps may be epochs, halves too",
    ("measure.data_margin", "x", "kind"): "the predictor says which inputs it takes",
    ("methods.domains.Minibatch", "x", "kind"): "inputs of any kind",
    **{
        (f"measure.{n}", "*", "precision"): CONVERTS
        for n in ("gaussian_gradients", "in_cone", "in_max_cone", "membership", "gradient_feature_set", "nice_neurons")
    },
    ("measure.draw_in_box", "*", "precision"): CONVERTS,
    ("measure.draw_in_box", "high", "inf"): "a half line is an interval",
    **{(f"measure.{n}", "*", "empty"): NOTHING for n in ("margins", "class_weighted_margins")},
    **{
        (f"measure.{n}", v, "precision"): CONVERTS
        for n in ("matching_neurons", "off_class_overlap")
        for v in ("a", "labels")
    },
    **{(f"measure.{n}", "b", "precision"): CONVERTS for n in ("gate_shares", "captures", "aligned")},
    ("measure.feature_movement", "b_before", "precision"): CONVERTS,
    ("measure.feature_movement", "b_after", "precision"): CONVERTS,
    **{
        (f"measure.{n}", "*", "precision"): CONVERTS
        for n in ("signal_parts", "cluster_margins", "heavy_mass", "signal_heavy", "kernel_drift")
    },
}
"""(function, argument, faults) -> why they are taken."""

SIGNED = {"y", "labels"}
NOT_SIGNED = {
    "nets.ReluAttention()",
    "nets.prompt_matrix",
    "nets.least_squares",
    "measure.linear_cka",
    "measure.simplified_gradients",
    *(
        f"kernels.{n}"
        for n in (
            *CLOSED_FORMS,
            *("recursive", "gram", "conv_nngp", "conv_ntk"),
            *("kernel_ridge", "ridge_path", "feature_ridge", "gram_ridge", "tuned", "tuned_gram"),
        )
    ),
    "nets.residual_gradients",
}
"""Real targets, and inputs called y."""


def wants(call) -> dict:
    """Forms of the tensors that a function takes, with those of the networks and of `self` that share its axes."""
    inner = call.func if isinstance(call, partial) else call
    if inspect.isclass(inner):
        return {f.name: check._wanted(f.type) for f in dataclasses.fields(inner)}
    return {n: check._wanted(p.annotation) for n, p in inspect.signature(inspect.unwrap(inner)).parameters.items()}


def axes_bound(name, call, arguments) -> set[str]:
    """Names of axes that are in more than one argument."""
    inner = call.func if isinstance(call, partial) else call
    found = [wants(call)[n] for n, v in arguments.items() if isinstance(v, torch.Tensor) and n in wants(call)]
    owners = [v for v in (*arguments.values(), getattr(inner, "__self__", None)) if dataclasses.is_dataclass(v)]
    names = [{a for f in w.forms for a in f.axes} for w in found]
    names += [{a for _, w in check._fields(type(o)) for f in w.forms for a in f.axes} for o in owners]
    return {a for i, one in enumerate(names) for a in one if any(a in other for other in names[i + 1 :])}


def faults(name, call, arguments, argument):
    """(kind of fault, wrong tensor) for one argument of a call."""
    x, want = arguments[argument], wants(call)[argument]
    form = next(f for f in want.forms if f.rest is not None or len(f.axes) == x.ndim)
    floats = [v for v in arguments.values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
    if x.is_floating_point():
        for kind, value in (("nan", math.nan), ("inf", math.inf)):
            bad = x.clone()
            bad.view(-1)[-1] = value
            yield kind, bad
        if len(floats) > 1 or "net" in arguments:
            yield "precision", x.double() if x.dtype == torch.float32 else x.float()
        if argument in SIGNED and name not in NOT_SIGNED and want.forms[0].kind == "floating point":
            yield "labels", (x + 1) / 2
            yield "labels", 2 * x
    yield "kind", x.float() if not x.is_floating_point() else x.long()
    yield "empty", x[:0]
    if form.rest is None:
        for bad in (x[None], x[None, None], x[0]):
            if all(len(f.axes) != bad.ndim for f in want.forms):
                yield "axes", bad
        bound = axes_bound(name, call, arguments)
        for i, axis in enumerate(form.axes):
            if axis in bound and "#" not in axis:
                yield "size", torch.cat([x, x.narrow(i, 0, 1)], i)
    yield "no tensor", x.tolist()


def is_taken(name, argument, kind) -> bool:
    return any(n == name and a in ("*", argument) and kind in k.split() for n, a, k in TAKEN)


CASES = [
    (name, argument)
    for name, (_, arguments) in CALLS.items()
    for argument, value in arguments.items()
    if isinstance(value, torch.Tensor)
]


@pytest.mark.parametrize("name", CALLS)
def test_the_right_call_is_taken(name, as_user):
    call, arguments = CALLS[name]
    call(**arguments) if not name.endswith("()") else call(*arguments.values())


@pytest.mark.parametrize("name, argument", CASES, ids=[f"{n}-{a}" for n, a in CASES])
def test_wrong_tensors_are_refused_by_name(name, argument, as_user):
    call, arguments = CALLS[name]
    seen = []
    for kind, bad in faults(name, call, arguments, argument):
        if is_taken(name, argument, kind):
            continue
        given = {**arguments, argument: bad}
        try:
            call(**given) if not name.endswith("()") else call(*given.values())
        except errors.FeatlearnError as e:
            said = str(e)
        else:
            pytest.fail(f"{name} takes {argument} with the fault {kind!r}")
        assert "\n" not in said
        field = said.split(" ")[0].split(".")[0].split("[")[0].rstrip(",")
        # two arguments that do not fit each other: either may be named, with the other one in the same line
        assert field == argument or (field in arguments and kind in ("size", "axes", "precision", "empty")), said
        seen.append(kind)
    assert {"axes", "no tensor"} & set(seen)


def test_every_public_function_with_tensors_is_walked():
    there = {}
    for room in ROOMS:
        module = importlib.import_module(f"featlearn.{room}")
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if inspect.isroutine(vars(module)[n])]:
            thing = getattr(module, name)
            if inspect.isfunction(thing) and "Tensor" in str(
                [p.annotation for p in inspect.signature(inspect.unwrap(thing)).parameters.values()]
            ):
                there[f"{room}.{name}"] = thing
    assert set(there) - set(CALLS) - set(NO_TENSORS) == set()
    assert all(isinstance(why, str) and len(why) > 10 for why in (*NO_TENSORS.values(), *TAKEN.values()))


@pytest.mark.parametrize("name", tasks.__all__)
def test_tasks_refuse_the_truth_of_another_task_and_no_samples(name, as_user):
    task = getattr(tasks, name)()
    truth = task.draw(KEY)
    for n in (0, -1):
        with pytest.raises(errors.SettingError, match=rf"^n = {n} is not allowed: at least 1"):
            task.sample(truth, n, KEY)
    nan = dataclasses.replace(truth, features=truth.features * math.nan) if name != "XorClusters" else None
    if nan is not None:
        with pytest.raises(errors.NotFiniteInput, match=r"^truth.features = "):
            task.sample(nan, 3, KEY)
    settings = [f.name for f in dataclasses.fields(task)]
    size = next((f for f in ("D", "d") if f in settings), None)  # patterns lie in R^D, unless another basis is asked
    if size is not None:
        other = dataclasses.replace(task, **{size: getattr(task, size) + 2})
        with pytest.raises(errors.SettingError, match=r"^truth"):
            task.sample(other.draw(KEY), 3, KEY)


def test_patterns_of_another_space_are_refused(as_user):
    task = tasks.ParityMix(d=20, D=10, k=3, coordinates="input")
    with pytest.raises(errors.SettingError, match=r"^truth = a dictionary of shape \(22, 10\)"):
        task.sample(dataclasses.replace(task, d=22).draw(KEY), 3, KEY)


def test_the_check_is_at_the_entry_and_not_at_every_step():
    seen = []
    before = check._total
    check._total = lambda x: seen.append(1) or before(x)
    try:
        for steps in (1, 50):
            seen.clear()
            learn.fit(NET, X, SIGNS, [learn.Stage(steps, 0.01, 0.01, 0.01)], KEY)
            assert len(seen) == 5  # w, b and a of the networks, x and y
    finally:
        check._total = before
