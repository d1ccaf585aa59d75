"""What the figures say in numbers: compression, the needle score and its averages, distances."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.claim import Claim
from featlearn.lab.inventory import entry, reported
from featlearn.lab.quantity import COUNT, POSITIVE, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, equal, order
from featlearn.lab.uncertainty import Observation, mean_of
from featlearn.tasks.needles import distance, overlap, recall
from featlearn.works._audit import audited

# --- compression -----------------------------------------------------------------------------------------------------


def says_compression(settings: None) -> Sequence[Statement]:
    """n / k of Figure 9.1."""
    return (
        at_least(
            "tokens of Figure 9.1 over those kept",
            POSITIVE,
            1000.0,
            "caption of Figure 9.1: a 1000x compression",
            rival=131072 / 1024,
            rival_says="from 128K to 1024 tokens, which Section 9.3.1 names for this figure",
        ),
    )


def sees_compression(settings: None, key: Key) -> Mapping[str, Observation]:
    """The numbers of the caption."""
    found = entry("gemfilter.fig9_1").setting
    return {"tokens of Figure 9.1 over those kept": found["n"] / found["k"]}


# --- needle score ----------------------------------------------------------------------------------------------------

EXPECTED = "eat a sandwich and sit in Dolores Park on a sunny day."
START = "The best thing to do in San Francisco is "
REPLIES = {
    START + EXPECTED: 11,
    "Eat" + EXPECTED[3:]: 11,
    "Sit in Dolores Park on a sunny day and eat a sandwich.": 9,
    START + EXPECTED[:-1]: 10,
    START + "eat a sandwich.": 3,
    "Eat a sandwich at a deli in the Mission District.": 4,
    "Eat a sandwich.": 2,
    START + "to see a museum and a show on Sunday.": 4,
}
"""Replies of the figures and constructed ones, with their distinct words among the 12 expected, counted by hand."""
ORDINARY = 4 / 12
"""What a, and, in, on score."""


def says_score(settings: None) -> Sequence[Statement]:
    """Distinct words shared over 12, of which 11 are distinct; what that makes of the reported averages."""
    words = np.array(list(REPLIES.values()), dtype=float)
    source = "released code (gemfilter.fig9_4): |set(reply) & set(expected)| / len(expected)"
    return (
        equal(
            "score of eight replies",
            SHARE,
            words / 12,
            source,
            axis="reply",
            margin=1e-12,
            rival=np.minimum(1.0, words / 11 + 1e-6),
            rival_says="over the 11 distinct words",
        ),
        equal(
            "largest score that a reply can have",
            SHARE,
            11 / 12,
            f"{source}: 'a' stands twice among the 12 words",
            margin=1e-12,
            rival=1.0,
            rival_says="1",
        ),
        at_most(
            "reported averages, Figures G.1 to G.4",
            SHARE,
            11 / 12,
            f"{source}: no reply scores more",
            axis="average",
            form="audit",
        ),
        at_most(
            "reported averages of the middle and the largest row",
            SHARE,
            ORDINARY,
            "G.4.4: both fail to find the needle; what a, and, in, on score",
            axis="row",
            form="audit",
        ),
        order(
            "reported average of two runs less one run",
            SHARE,
            "G.4.5: the one run is worse",
            delta=0.001,
            form="audit",
        ),
    )


def averages_of(*names: str) -> dict[str, float]:
    """Reported averages of the needle score by row."""
    return {p.row: p.value for name in names for p in reported(f"gemfilter.{name}", metric="needle_score")}


def sees_score(settings: None, key: Key) -> Mapping[str, Observation]:
    """`overlap`; the averages of the inventory."""
    everything = " ".join([EXPECTED, EXPECTED[:-1], START]).lower()
    rows, runs = averages_of("figG_3"), averages_of("figG_4")
    every = [v for name in ("figG_1", "figG_2", "figG_3", "figG_4") for v in averages_of(name).values()]
    return {
        "score of eight replies": np.array([overlap(text, EXPECTED) for text in REPLIES]),
        "largest score that a reply can have": overlap(everything, EXPECTED),
        "reported averages, Figures G.1 to G.4": np.array(every),
        "reported averages of the middle and the largest row": np.array(list(rows.values())),
        "reported average of two runs less one run": runs["GemFilter"] - runs["GemFilter-One-Run"],
    }


# --- distance --------------------------------------------------------------------------------------------------------

N, K, NEEDLE, LONG, DRAWS = 1024, 256, 512, 20, 4000


def draw_sets(key: Key) -> np.ndarray:
    """Random sets of k of n tokens."""
    rng = key.numpy()
    return np.sort(np.array([rng.choice(N, K, replace=False) for _ in range(DRAWS)]))


def says_distance(settings: np.ndarray) -> Sequence[Statement]:
    """min |j - i| over kept j and tokens i of the needle; what random tokens reach."""
    inside = np.arange(NEEDLE, NEEDLE + LONG)
    gaps = settings[:200, :, None] - inside
    source = "caption of Figure 9.5, with the absolute value of the released code"
    return (
        equal(
            "distance of random tokens to the needle",
            COUNT,
            np.abs(gaps).min((1, 2)),
            source,
            axis="draw",
            rival=np.abs(settings[:200] - NEEDLE).min(1),
            rival_says="to its first token alone",
        ),
        equal(
            "share of the needle kept by random tokens",
            SHARE,
            (gaps == 0).any(1).mean(1),
            "the inventory's check of Figure 9.1: recall of the needle's tokens",
            axis="draw",
            margin=1e-12,
            form="derived",
            rival=(gaps == 0).any((1, 2)).astype(float),
            rival_says="whether any is kept",
        ),
        equal(
            "share of draws at distance 0",
            SHARE,
            1 - math.prod((N - K - i) / (N - i) for i in range(LONG)),
            "1 - C(n - L, k) / C(n, k): distance 0 shows nothing for a needle of 20 tokens",
            margin=0.01,
            form="derived",
            rival=K / N,
            rival_says="k / n, the chance of a single token",
        ),
    )


def sees_distance(settings: np.ndarray, key: Key) -> Mapping[str, Observation]:
    """`distance` and `recall` of the experiments."""
    needle = (NEEDLE, NEEDLE + LONG)
    sets = [torch.from_numpy(s) for s in settings]
    found = np.array([float(distance(s, needle)) for s in sets])
    return {
        "distance of random tokens to the needle": found[:200],
        "share of the needle kept by random tokens": np.array([recall(s, needle) for s in sets[:200]]),
        "share of draws at distance 0": mean_of((found == 0).astype(float), SHARE, "draw"),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gemfilter.fig9_1_compression",
        entries=("gemfilter.fig9_1",),
        says="108172 tokens to 100 is a reduction by more than 1000.",
        statements=audited(says_compression),
        observe=sees_compression,
        remarks="Section 9.3.1 has 'k = 1024' and 'from 128K to 1024 tokens in Figure 9.1'; read as numbers of that "
        "figure they differ from its caption, which is the one that gives the 1000 times.",
    ),
    Claim(
        id="gemfilter.fig9_4_score",
        entries=("gemfilter.fig9_4", "gemfilter.figG_1", "gemfilter.figG_2", "gemfilter.figG_3", "gemfilter.figG_4"),
        says="The needle score counts distinct words shared, over 12: at most 11/12, and 4/12 for ordinary words; the "
        "reported averages keep to that.",
        statements=says_score,
        observe=sees_score,
        remarks="The score is that of the released code; the text does not describe it. Of three replies that it calls "
        "totally correct one scores 9/12, and a wrong reply in ordinary words can score more than two of the three "
        "that it calls partially correct. Prompts and spreads of the averages are not given.",
    ),
    Claim(
        id="gemfilter.fig9_5_distance",
        entries=("gemfilter.fig9_5",),
        says="min |j - needle| over the kept j is 0 exactly where the needle is kept; random tokens reach it with "
        "chance 1 - C(n - L, k) / C(n, k).",
        settings=draw_sets,
        statements=says_distance,
        observe=sees_distance,
        remarks="The caption calls 'min(topk_index - needle_index)' a distance: read with the absolute value, as the "
        "released code has it. The figure states neither k nor n.",
    ),
)
