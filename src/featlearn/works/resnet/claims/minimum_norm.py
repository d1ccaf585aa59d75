"""Parities of six signs by networks of small norm: the weights of section 8.2, and what their norm promises."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.kernels import cube
from featlearn.lab.quantity import POSITIVE
from featlearn.lab.statement import Statement, at_most, equal
from featlearn.lab.uncertainty import Observation
from featlearn.nets import TwoLayer

RATIOS, BOUNDS = np.array([9.7, 12.5, 13.8]), np.array([0.12, 0.037, 0.011])
"""||W||_F / sqrt(d) and the mean squared errors that the three bullets of section 8.2 give."""
VARIATION = 32.0
"""prod_i z_i = sum_s (1/2) chi(s) relu(<s, z>/6) over the 64 sign vectors s: weights of absolute sum 32."""
WIDTH = 200

# the weights ---------------------------------------------------------------------------------------------------------


def built(m: int, d: int) -> TwoLayer:
    """Rows along the sign vectors of six coordinates, more for some than for others, and a of fixed signs.

    A direction u with n rows has n c/sqrt(m) = 1/2 for rows c sqrt(d/6) u, |u| = 1: the scale that inputs of
    +-1/sqrt(d) need.
    """
    signs = cube(6)
    parity = signs.prod(1)
    w, a = torch.zeros(m, d, dtype=torch.float64), torch.zeros(m, dtype=torch.float64)
    row = 0
    for sign in (1.0, -1.0):
        own = signs[parity == sign]
        for i, s in enumerate(own):
            rows = m // 2 // 32 + (i < m // 2 % 32)
            w[row : row + rows, :6] = s / math.sqrt(6) * (0.5 * math.sqrt(m) / rows) * math.sqrt(d / 6)
            a[row : row + rows] = sign / math.sqrt(m)
            row += rows
    return TwoLayer(w[None], torch.zeros(1, m, dtype=torch.float64), a[None], "relu")


def mse(net: TwoLayer, scale: float, d: int) -> float:
    """E (F(scale W; x) - y)^2 over the 64 sign patterns that y and the first six columns of W see."""
    x = torch.zeros(64, d, dtype=torch.float64)
    x[:, :6] = cube(6) / math.sqrt(d)
    y = d**3 * x[:, :6].prod(1)
    out = TwoLayer(net.w * scale, net.b, net.a, "relu")(x)[:, 0]
    return float((out - y).square().mean())


def ratio(net: TwoLayer, d: int) -> float:
    """||W||_F / sqrt(d)."""
    return float(net.w.norm()) / math.sqrt(d)


def says_weights(settings: None) -> Sequence[Statement]:
    """Errors of at most 0.12, 0.037 and 0.011 at norms 9.7, 12.5 and 13.8 sqrt(d), at every even m >= 200, d >= 6."""
    sizes = "d = 6, m = 200", "d = 40, m = 400"
    rows = np.array([3] * 28 + [4] * 4)
    least = math.sqrt(2 * (0.25 * WIDTH / rows).sum() / 6)
    found = (1 - np.minimum(RATIOS, least) / least) ** 2
    source = "Section 8.2, first list"
    bounds = [
        at_most(
            f"squared error at ||W||_F / sqrt(d) = 9.7, 12.5, 13.8, {size}",
            POSITIVE,
            BOUNDS,
            source,
            axis="norm",
            trivial=np.ones(3),
            trivial_says="the network 0",
        )
        for size in sizes
    ]
    return (
        *bounds,
        equal(
            f"squared error of the built weights, {sizes[0]}",
            POSITIVE,
            found,
            "(1 - norm/13.12)^2: scaling weights that are right by c leaves (1 - c) of y",
            margin=1e-10,
            axis="norm",
            rival=(1 - np.minimum(RATIOS, VARIATION / math.sqrt(6)) / (VARIATION / math.sqrt(6))) ** 2 + 1e-6,
            rival_says="rows of equal weight, as only m divisible by 64 has them",
            form="derived",
        ),
        equal(
            "least norm with no error, over sqrt(d): m = 200 and d = 6, m = 400 and d = 40, m = 640 and d = 6",
            POSITIVE,
            np.array([least, least, VARIATION / math.sqrt(6)]),
            "footnote 16: columns of zeros and copies of rows, rescaled, leave ||W||_F / sqrt(d) as it is",
            margin=1e-10,
            axis="size",
            rival=np.array([least / 2, least * math.sqrt(6 / 40), VARIATION]),
            rival_says="without the scale sqrt(d/6), or that of the copies",
            form="derived",
        ),
    )


def sees_weights(settings: None, key: Key) -> Mapping[str, Observation]:
    """The 64 patterns, exactly; a network of norm below the limit is scaled down, one above is the exact one."""
    small = built(WIDTH, 6)
    copies = torch.cat([small.w, small.w], 1) / math.sqrt(2)
    padded = torch.zeros(1, 2 * WIDTH, 40, dtype=torch.float64)
    padded[..., :6] = copies * math.sqrt(40 / 6)
    large = TwoLayer(
        padded, torch.zeros(1, 2 * WIDTH).double(), torch.cat([small.a, small.a], 1) / math.sqrt(2), "relu"
    )
    even = built(640, 6)
    errors = [
        np.array([mse(net, min(1.0, r / ratio(net, d)), d) for r in RATIOS]) for net, d in ((small, 6), (large, 40))
    ]
    return {
        "squared error at ||W||_F / sqrt(d) = 9.7, 12.5, 13.8, d = 6, m = 200": errors[0],
        "squared error at ||W||_F / sqrt(d) = 9.7, 12.5, 13.8, d = 40, m = 400": errors[1],
        "squared error of the built weights, d = 6, m = 200": errors[0],
        "least norm with no error, over sqrt(d): m = 200 and d = 6, m = 400 and d = 40, m = 640 and d = 6": np.array(
            [ratio(net, d) for net, d in ((small, 6), (large, 40), (even, 6)) if mse(net, 1.0, d) < 1e-20]
        ),
    }


# the setup -----------------------------------------------------------------------------------------------------------


def says_setup(settings: None) -> Sequence[Statement]:
    """y = d^3 x_i1 ... x_i6 is +-1 and x has norm 1."""
    return (
        equal(
            "|y| for d = 6, 40, 100",
            POSITIVE,
            np.ones(3),
            "Section 8.2",
            margin=1e-12,
            axis="dimension",
            rival=np.array([6.0, 40.0, 100.0]) ** -3,
            rival_says="without the factor d^3",
        ),
        equal(
            "||x|| for d = 6, 40, 100",
            POSITIVE,
            np.ones(3),
            "Section 8.2",
            margin=1e-12,
            axis="dimension",
            rival=np.sqrt(np.array([6.0, 40.0, 100.0])),
            rival_says="signs that are not scaled",
        ),
    )


def sees_setup(settings: None, key: Key) -> Mapping[str, Observation]:
    """The hard parity of the library with six coordinates and no base signal."""
    from featlearn.tasks import HierarchicalParity

    labels, norms = [], []
    for d in (6, 40, 100):
        task = HierarchicalParity(d=d, k=6, degree=1, top=6, alpha=1.0, beta=0.0, signs="equal", scale=1 / math.sqrt(d))
        batch = task.sample(task.draw(key), 500, key / d)
        labels.append(float(batch.y[:, 0].double().abs().max()))
        norms.append(float(batch.x.double().norm(dim=1).max()))
    return {"|y| for d = 6, 40, 100": np.array(labels).round(6), "||x|| for d = 6, 40, 100": np.array(norms).round(6)}
