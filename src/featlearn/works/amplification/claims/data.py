"""The distribution: moments, clusters, labels and flips, and what linear classifiers make of it (sections 1 to 3)."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from scipy.stats import norm

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import POSITIVE, REAL, SHARE, Quantity
from featlearn.lab.statement import Statement, at_most, equal
from featlearn.lab.uncertainty import Estimate, Observation, mean_of
from featlearn.tasks import XorClusters
from featlearn.tasks.xor_clusters import Law, Noise, XorTruth

Array = np.ndarray
LAWS: tuple[Law, ...] = ("gaussian", "laplace", "uniform", "exponential")
NOISES: tuple[Noise, ...] = ("random", "adversarial")
ABSOLUTE = np.array([math.sqrt(2 / math.pi), math.sqrt(0.5), math.sqrt(0.75), 2 / math.e])
"""E |zeta| of these laws at variance 1; each has a density exp(-U) with a convex U."""
D, N, SIGMA, ETA, BLOCKS = 6, 100_000, 0.3, 0.15, 20
SOURCE = "Section 2"


def averages(values: Array | torch.Tensor, quantity: Quantity = REAL, blocks: int = BLOCKS) -> list[Estimate]:
    """The mean of each column of (n, k) independent samples; a block of them is the unit, or with n blocks a sample."""
    x = np.asarray(values, dtype=np.float64).reshape(blocks, len(values) // blocks, -1).mean(1)
    return [mean_of(column, quantity, "block of samples") for column in x.T]


# the distribution ----------------------------------------------------------------------------------------------------


def says_data(settings: None) -> Sequence[Statement]:
    """E z = 0, Cov z = sigma^2 I, four clusters of weight 1/4, labels of an XOR, flips of mean eta."""
    eye, both = np.eye(D).ravel(), "law, kind of flips"
    return (
        equal(
            "mean of z",
            REAL,
            np.zeros(8 * D),
            SOURCE,
            margin=0.01,
            axis=f"{both}, coordinate",
            rival=np.full(8 * D, SIGMA),
            rival_says="an exponential law that is not centred",
        ),
        equal(
            "covariance of z",
            REAL,
            np.tile(SIGMA**2 * eye, 8),
            SOURCE,
            margin=0.006,
            axis=f"{both}, entry",
            rival=np.tile(SIGMA * eye, 8),
            rival_says="sigma I, with sigma taken for the variance",
        ),
        equal(
            "E |<mu, z>| over sigma",
            POSITIVE,
            np.repeat(ABSOLUTE, 2),
            f"{SOURCE}: log-concave laws, here Gaussian, Laplace, uniform and centred exponential",
            margin=0.01,
            axis=both,
            rival=np.repeat(np.roll(ABSOLUTE, 1), 2),
            rival_says="another of the four laws",
        ),
        equal(
            "share of each cluster",
            SHARE,
            np.full(32, 0.25),
            SOURCE,
            margin=0.01,
            axis=f"{both}, cluster",
            rival=np.tile([0.5, 0.0, 0.5, 0.0], 8),
            rival_says="one cluster a label",
        ),
        equal(
            "share of clean labels +1 in each cluster",
            SHARE,
            np.tile([1.0, 1.0, 0.0, 0.0], 8),
            SOURCE,
            axis=f"{both}, cluster",
            rival=np.tile([1.0, 0.0, 1.0, 0.0], 8),
            rival_says="a label for each sign, which is linear",
        ),
        equal(
            "share of flipped labels",
            SHARE,
            np.full(8, ETA),
            f"{SOURCE}: E eta(x) = eta",
            margin=0.005,
            axis=both,
            rival=np.full(8, ETA / 2),
            rival_says="labels that are drawn anew, half of which stay",
        ),
        equal(
            "accuracy of linear classifiers through 0, symmetric laws",
            SHARE,
            np.full(3 * 55, 0.5),
            f"{SOURCE}: z and -z have the same law, so x and -x have the same label",
            margin=0.02,
            axis="law, direction",
            rival=np.full(3 * 55, 0.75),
            rival_says="three of the four clusters on the right side",
            form="derived",
        ),
    )


def sees_data(settings: None, key: Key) -> Mapping[str, Observation]:
    """Samples of the task, of each law with each kind of flips."""
    mean, cov, size, share, flips, linear, labels = [], [], [], [], [], [], []
    for law in LAWS:
        for noise in NOISES:
            here = key / law / noise
            task = XorClusters(D, SIGMA, ETA, noise, law)
            truth = task.draw(here / "means")
            batch = task.sample(truth, N, here / "data")
            assert batch.group is not None
            assert batch.hidden is not None
            z = (batch.x - truth.centres[batch.group]).double()
            members = torch.nn.functional.one_hot(batch.group, 4).double()
            mean += averages(z)
            cov += averages(z[:, :, None] * z[:, None, :])
            size += averages((z @ truth.features.T.double()).abs().mean(1) / SIGMA, POSITIVE)
            share += averages(members, SHARE)
            flips += averages((batch.y != batch.hidden).double(), SHARE)
            labels.append((members.T @ (batch.hidden > 0).double() / members.sum(0)).numpy())
            if law != "exponential" and noise == "random":
                mu1, mu2 = truth.features
                w = torch.randn(50, D, generator=(here / "directions").torch())
                half = batch.x[: N // 2].T @ batch.y[: N // 2]  # the direction that the data suggest
                w = torch.cat([w, torch.stack([mu1, mu2, mu1 + mu2, mu1 - mu2, half])])
                right = batch.x[N // 2 :] @ w.T * batch.hidden[N // 2 :, None] > 0
                linear += averages(right.double(), SHARE)
    return {
        "mean of z": mean,
        "covariance of z": cov,
        "E |<mu, z>| over sigma": size,
        "share of each cluster": share,
        "share of clean labels +1 in each cluster": np.concatenate(labels),
        "share of flipped labels": flips,
        "accuracy of linear classifiers through 0, symmetric laws": linear,
    }


# the signal in the variance ------------------------------------------------------------------------------------------


def says_variance(settings: None) -> Sequence[Statement]:
    """1 + sigma^2 along the mean of a class among its own samples; over all four clusters 1/2 + sigma^2."""
    mixture = "E <mu_1, x>^2: half of the samples have <mu_1, x> = +-1 + <mu_1, z>, the others <mu_1, z>"
    return (
        equal(
            "variance along mu_1 and mu_2, of the class that has this mean",
            POSITIVE,
            np.full(2, 1 + SIGMA**2),
            "Section 3: 'the variance in the direction of mu_1 and mu_2 is equal to 1 + sigma^2', read class by class",
            margin=0.02,
            axis="mean",
            rival=np.full(2, 0.5 + SIGMA**2),
            rival_says="that of all samples",
        ),
        equal(
            "variance along mu_1 and mu_2, of all samples",
            POSITIVE,
            np.full(2, 0.5 + SIGMA**2),
            mixture,
            margin=0.02,
            axis="mean",
            rival=np.full(2, 1 + SIGMA**2),
            rival_says="that of one class",
            form="derived",
        ),
        equal(
            "variance along a direction orthogonal to both",
            POSITIVE,
            SIGMA**2,
            "Section 3",
            margin=0.005,
            rival=1.0,
            rival_says="isotropic inputs, as those of the rates that are compared",
        ),
    )


def sees_variance(settings: None, key: Key) -> Mapping[str, Observation]:
    """Squared projections of samples (their mean is 0)."""
    truth = XorTruth(torch.eye(D)[:2])
    batch = XorClusters(D, SIGMA, ETA).sample(truth, N, key)
    assert batch.group is not None
    square, first = batch.x.double() ** 2, batch.group < 2
    classes = [square[first][: N // 4, 0], square[~first][: N // 4, 1]]
    return {
        "variance along mu_1 and mu_2, of the class that has this mean": [averages(c, POSITIVE)[0] for c in classes],
        "variance along mu_1 and mu_2, of all samples": averages(square[:, :2], POSITIVE),
        "variance along a direction orthogonal to both": averages(square[:, 2], POSITIVE)[0],
    }


# linear classifiers --------------------------------------------------------------------------------------------------

ROOM = 0.1
"""sigma of the linear classifiers that are better than chance."""
BETTER = "accuracy of sign(-<mu_2, x>), centred exponential"
SHIFTED = "accuracy of sign(<mu_1, x> - 1/2), Gaussian"


def says_linear(settings: None) -> Sequence[Statement]:
    """No linear classifier beats chance; one through 0 does for a skewed law, and one with a threshold for any law."""
    q = norm.cdf(np.array([0.5, -1.5]) / ROOM)
    value = 0.75 - 0.5 * math.exp(-1)
    return (
        at_most(
            f"{BETTER}, as reported",
            SHARE,
            0.5,
            "Section 1",
            of=BETTER,
            margin=0.01,
            rival=value,
            rival_says="as corrected",
            expect="contradicted",
        ),
        equal(
            BETTER,
            SHARE,
            value,
            "Section 1, for a law that is not symmetric",
            margin=0.01,
            rival=0.5,
            rival_says="as reported",
            form="corrected",
            twin=f"{BETTER}, as reported",
        ),
        equal(
            SHIFTED,
            SHARE,
            0.25 * (3 * q[0] + q[1]),
            "the cluster at +mu_1 on one side, the other three on the other",
            margin=0.01,
            rival=0.5,
            rival_says="chance, as without a threshold",
            form="derived",
        ),
    )


def sees_linear(settings: None, key: Key) -> Mapping[str, Observation]:
    """Two classifiers on clean samples."""
    truth = XorTruth(torch.eye(4)[:2])
    one = XorClusters(4, ROOM, 0.0).sample(truth, N, key / "gaussian")
    two = XorClusters(4, ROOM, 0.0, law="exponential").sample(truth, N, key / "skewed")
    right = torch.stack([-two.x[:, 1] * two.y > 0, (one.x[:, 0] - 0.5) * one.y > 0], 1)
    return dict(zip((BETTER, SHIFTED), averages(right.double(), SHARE), strict=True))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="amplification.data",
        entries=("amplification.data",),
        says="Four log-concave clusters with E z = 0, Cov z = sigma^2 I, label +1 at +-mu_1, flips of mean eta; linear "
        "classifiers through 0 are right half of the time.",
        statements=says_data,
        observe=sees_data,
    ),
    Claim(
        id="amplification.signal_variance",
        entries=("amplification.rate_comparison",),
        says="Along mu_1 and mu_2 the variance is 1 + sigma^2, along directions orthogonal to both sigma^2.",
        statements=says_variance,
        observe=sees_variance,
        remarks="The sentence is true of the samples of the class that has the mean. Over all four clusters, each of "
        "weight 1/4, the variance is 1/2 + sigma^2; the signal-to-noise ratio Omega(1) that it serves is the same.",
    ),
    Claim(
        id="amplification.linear",
        entries=("amplification.data",),
        says="No linear classifier does better than random guessing.",
        statements=says_linear,
        observe=sees_linear,
        accuses=Accusation(
            quote="no linear classifier (that use input features) can perform better than random guessing",
            place="Section 1; the abstract has it too",
            reading="of classifiers through the origin, as the networks have no biases, and of every log-concave law "
            "that Section 2 admits; where the clusters are symmetric it is true (amplification.data)",
            hits="remark",
            derivation="As sigma -> 0, sign(-<mu_2, x>) is right on +mu_2 and wrong on -mu_2, and on the clusters "
            "+-mu_1 right where <mu_2, z> < 0, for a centred exponential with probability 1 - 1/e: "
            "(2 (1 - 1/e) + 1)/4.",
        ),
        remarks="No theorem uses the sentence. A classifier with a threshold is right on three of the four clusters, "
        "whatever their law; the sentence need not mean those.",
    ),
)
