"""What users get beyond Algorithm 2 as reported: the shipped scoring, protection, chunked prefill, sparse pass.

Random models in double precision, against the rules written out; rotary angles, norms and softmax stay in float32, as
in the models, so scores agree to that precision and the tokens kept exactly.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.quantity import COUNT, REAL
from featlearn.lab.statement import Statement, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods.gemfilter import SinksAndWindow, select, select_chunked
from featlearn.works.gemfilter.claims import literal
from featlearn.works.gemfilter.setup import FAMILIES, Asked, asked

R, N, K, FIRST, LAST = 2, 150, 40, 4, 11
PATTERN = {"sinks": 3, "window": 12, "dense_tail": 5}
VOTES, POOL = 16, 25
ROUNDING = 1e-5
"""Of scores that add up to 16 probabilities."""


def draw(key: Key) -> tuple[Asked, ...]:
    """A model of each family in double precision, and a prompt for it."""
    return tuple(asked(key, N, 4, family, torch.float64) for family in FAMILIES)


def says_selection(settings: tuple[Asked, ...]) -> Sequence[Statement]:
    """16 rows, probabilities, the best head, mean over 25, the first 4 and the last 11 kept."""
    places = (*range(FIRST), *range(N - LAST, N))

    def scores(over: object = np.max, width: int = POOL) -> np.ndarray:
        found = [literal.at_filter(a.model, a.ids, R) for a in settings]
        return np.array([literal.pooled(literal.shipped(q, k, over), width) for q, k in found])  # pyright: ignore[reportArgumentType]

    right = scores()
    source = "docs/gemfilter.md and `SOFTMAX`: the shipped rule"
    return (
        equal(
            "scores",
            REAL,
            right,
            source,
            margin=ROUNDING,
            axis="family and token",
            rival=scores(np.mean),
            rival_says="the mean of the heads",
        ),
        equal(
            "scores: pooled over 25",
            REAL,
            right,
            source,
            of="scores",
            margin=ROUNDING,
            axis="family and token",
            rival=scores(width=POOL - 2),
            rival_says="pooled over 23",
        ),
        equal(
            "tokens kept",
            COUNT,
            np.array([literal.chosen(s, K, places) for s in right]),
            source,
            axis="family and token",
            rival=np.array([literal.chosen(s, K) for s in right]),
            rival_says="without protection",
        ),
    )


def sees_selection(settings: tuple[Asked, ...], key: Key) -> Mapping[str, Observation]:
    """`select` as it is by default."""
    found = [select(a.model, a.ids, layer=R, keep=K, protect=(FIRST, LAST)) for a in settings]
    return {
        "scores": np.array([f.scores[0].numpy() for f in found]),
        "tokens kept": np.array([f.indices[0].numpy() for f in found]),
    }


def says_chunked(settings: tuple[Asked, ...]) -> Sequence[Statement]:
    """The chunked prefill gives the scores of the whole pass; the sparse one those of its pattern."""

    def scores(sees: literal.Sees) -> np.ndarray:
        found = [literal.at_filter(a.model, a.ids, R, sees) for a in settings]
        return np.array([literal.pooled(literal.shipped(q, k), POOL) for q, k in found])

    def sparse(sinks: int = 3, window: int = 12, tail: int = VOTES) -> np.ndarray:
        return scores(literal.windowed(N, sinks, window, tail))

    pattern = "SinksAndWindow: row i sees j <= i with j < sinks or i - j < window, the rows that vote see all"
    name, right = "scores of the sparse pass", sparse()
    return (
        equal(
            "scores of the chunked prefill",
            REAL,
            scores(literal.causal),
            "select_chunked: the scores of `select`",
            margin=ROUNDING,
            axis="family and token",
            rival=scores(lambda i, j: (j <= i) & (i // 37 == j // 37)),
            rival_says="rows that see their own chunk alone",
        ),
        equal(
            name,
            REAL,
            right,
            pattern,
            margin=ROUNDING,
            axis="family and token",
            rival=sparse(window=13),
            rival_says="a window of one more",
        ),
        equal(
            f"{name}: sinks",
            REAL,
            right,
            pattern,
            of=name,
            margin=ROUNDING,
            axis="family and token",
            rival=sparse(sinks=2),
            rival_says="one sink less",
        ),
        equal(
            f"{name}: dense rows",
            REAL,
            right,
            pattern,
            of=name,
            margin=ROUNDING,
            axis="family and token",
            rival=sparse(tail=LAST),
            rival_says="the protected end alone, fewer than vote",
        ),
    )


def sees_chunked(settings: tuple[Asked, ...], key: Key) -> Mapping[str, Observation]:
    """`select_chunked` in chunks of 37 rows, exact and sparse."""
    found: dict[str, list[np.ndarray]] = {"scores of the chunked prefill": [], "scores of the sparse pass": []}
    for a in settings:
        for name, pattern in zip(found, ("full", SinksAndWindow(**PATTERN)), strict=True):
            chosen = select_chunked(a.model, a.ids, layer=R, keep=K, protect=(FIRST, LAST), chunk=37, attention=pattern)
            found[name].append(chosen.scores[0].numpy())
    return {name: np.array(each) for name, each in found.items()}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gemfilter.shipped_selection",
        entries=("gemfilter.algorithm2",),
        says="The selection that is shipped: attention of the last 16 rows, the best head, mean over 25 tokens, start "
        "and question kept in any case.",
        settings=draw,
        statements=says_selection,
        observe=sees_selection,
        remarks="This rule is ours and not the paper's.",
    ),
    Claim(
        id="gemfilter.shipped_chunked",
        entries=("gemfilter.algorithm2",),
        says="Pass one by chunks of rows scores tokens as pass one does; with sinks and a window, as its pattern says.",
        settings=draw,
        statements=says_chunked,
        observe=sees_chunked,
        remarks="The sparse pass is ours and not the paper's. Its speed was measured on two cores only, at lengths at "
        "which it is not yet: `benchmarks/gemfilter.py` has longer ones, for a GPU.",
    ),
)
