"""What no N functions can span: Theorems 2 and 3 over every target set of small cubes, and the lemmas of appendix D.

The instances that come nearest to the bounds are planted. Target sets fall into groups of sixteen that share a
coordinate i; x_i and the fifteen dimensions of a group that are orthogonal to the sum of its sixteen parities leave
each target a risk of alpha^2/16 exactly. So 1 + 15 g functions fit 16 g sets.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.kernels import (
    arcsine,
    cube,
    fourier_coefficients,
    fourier_features,
    ntk,
    random_features,
    rbf,
    span_residuals,
)
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, SHARE
from featlearn.lab.statement import Statement, at_most, control
from featlearn.lab.uncertainty import Observation
from featlearn.works.resnet.setup import ALPHA, GOOD, Cube, pivots, planted_groups, planted_targets

EXACT = 1e-9

SMALL = (Cube(10, 5, 31), Cube(10, 5, 106))
FEW = (Cube(14, 7, 3), Cube(16, 8, 12))
WIDE = Cube(10, 5, 16)
"""Sizes for the counts; sizes that meet N <= C(d, k)/1000; one far above it, where the share must not stay small."""


def low_degrees(c: Cube) -> Tensor:
    """The coordinates, then products of pairs."""
    points = cube(c.d)
    sets = [*combinations(range(c.d), 1), *combinations(range(c.d), 2), *combinations(range(c.d), 3)][: c.n]
    return torch.stack([points[:, list(s)].prod(1) for s in sets], 1)


def features(c: Cube, key: Key) -> dict[str, Tensor]:
    """Feature maps of dimension n on all points: (2^d, n) each."""
    g = key.torch()
    return {
        "values at random": torch.randn(2**c.d, c.n, generator=g, dtype=torch.float64),
        "random ReLU neurons": random_features(c.d, c.n, key, bias_var=1.0)(cube(c.d)),
        "Fourier features": fourier_features(c.d, c.n, key, bandwidth=c.d**0.5)(cube(c.d)),
        "products of low degree": low_degrees(c),
        "planted targets": planted_targets(c),
        "planted groups": planted_groups(c),
    }


def kernels(c: Cube, key: Key) -> dict[str, Tensor]:
    """K(., x_n) for n random points: (2^d, n) each. The last two kernels know planted functions, and have n points at
    which these are independent."""
    points = cube(c.d)
    centres = torch.randperm(2**c.d, generator=key.torch())[: c.n]
    x = points / c.d**0.5
    found = {
        "RBF": rbf(x, x[centres], bandwidth=0.5**0.5),
        "arcsine": arcsine(x, x[centres]),
        "NTK": ntk(x, x[centres], bias_var=0.1),
    }
    planted = {"planted targets": planted_targets(c), "planted groups": planted_groups(c)}
    return {**found, **{name: phi @ phi[pivots(phi)].T for name, phi in planted.items()}}


def good_sets(columns: Tensor, c: Cube) -> int:
    """How many of all C(d, k) sets have a risk of at most alpha^2/16 at one of their coordinates."""
    sets = torch.tensor(list(combinations(range(c.d), c.k)))
    risks = span_residuals(fourier_coefficients(columns), sets, alpha=ALPHA)
    return int((risks.amin(1) <= GOOD * (1 + EXACT)).sum())


def counts(what: str, letter: str, sizes: Sequence[Cube], each: int, source: str) -> tuple[Statement, Statement]:
    """Fewer than 2 N sets, as Lemma D.2 has it, and 9 N/8 at most, as its proof has it, at every N."""
    n = np.repeat([c.n for c in sizes], each)
    lemma = at_most(
        f"target sets within alpha^2/16 of {what}",
        COUNT,
        2.0 * n - 1,
        f"{source} with Lemma D.2 for R = 2 {letter}",
        axis=what,
        rival=2.0 * n,
        rival_says=f"2 {letter} sets",
    )
    proof = at_most(
        f"target sets within alpha^2/16 of {what}, by the rank",
        COUNT,
        np.floor(9 * n / 8),
        f"8 R/9 <= rank(I + E) <= {letter} (appendix D.3)",
        of=lemma.name,
        axis=what,
        rival=2.0 * n - 1,
        rival_says="what Lemma D.2 allows",
        form="derived",
    )
    return lemma, proof


def says_features(settings: None) -> Sequence[Statement]:
    """At most 1 % of the sets for D <= C(d, k)/1000; fewer than 2 D for every D."""
    return (
        *counts("features", "D", SMALL, 6, "Appendix D.2"),
        at_most(
            "share of target sets within alpha^2/16 of D <= C(d, k)/1000 features",
            SHARE,
            0.01,
            "Theorem 3",
            axis="features",
            rival=control("the same at D = 16 of C(10, 5) = 252"),
            rival_says="more features than the premise allows",
        ),
    )


def sees_features(settings: None, key: Key) -> Mapping[str, Observation]:
    """Counts over all sets."""
    found = [good_sets(phi, c) for c in SMALL for phi in features(c, key / c.n).values()]
    few = [good_sets(phi, c) / comb(c.d, c.k) for c in FEW for phi in (planted_targets(c), planted_groups(c))]
    return {
        "target sets within alpha^2/16 of features": np.array(found),
        "share of target sets within alpha^2/16 of D <= C(d, k)/1000 features": np.array(few),
        "the same at D = 16 of C(10, 5) = 252": good_sets(planted_groups(WIDE), WIDE) / comb(WIDE.d, WIDE.k),
    }


def says_every_set(settings: None) -> Sequence[Statement]:
    """Fewer than 2 N sets for every N, whatever the kernel."""
    return counts("kernels", "N", SMALL, 5, "Appendix D.1")


def sees_every_set(settings: None, key: Key) -> Mapping[str, Observation]:
    """Counts over all sets, centres drawn."""
    found = [good_sets(columns, c) for c in SMALL for columns in kernels(c, key / c.n).values()]
    return {"target sets within alpha^2/16 of kernels": np.array(found)}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="resnet.theorem3",
        entries=("resnet.theorem3",),
        says="D features, whatever they are, fit fewer than 2 D target sets to alpha^2/16: at most 1 % of C(d, k) for"
        " D <= C(d, k)/1000.",
        statements=says_features,
        observe=sees_features,
    ),
    Claim(
        id="resnet.theorem2_every_set",
        entries=("resnet.theorem2",),
        says="A kernel with N centres fits fewer than 2 N target sets to alpha^2/16, at every N.",
        statements=says_every_set,
        observe=sees_every_set,
    ),
)
