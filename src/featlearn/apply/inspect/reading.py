"""Lazy or rich: what the weights alone can say of it, and what they cannot.

A network that stays close to its linearisation trains as a kernel machine with fixed features; it is lazy. One that
leaves it has learnt features; it is rich. The statistic is the largest spectral change ||W' - W||_2 / ||W||_2 of any
matrix of the body. The read-out is left out, since outputs are linear in it: it may move far in a network that learns
no feature. Spectral norms and not those of Frobenius, since a change in few directions acts on activations by its
spectral norm, and is a vanishing part of a wide matrix's squares; on the networks of the benchmark below, whose widths
are at most 512, norms of Frobenius part the regimes as well.

Thresholds come from networks whose regime is known by construction: of two-layer networks that were trained beside
their linearisation, those that ended within 1 % of it and those that ended 20 % away or more (`benchmarks/regimes.py`,
which holds the thresholds against other families). Between the two the weights do not tell. All of those networks
began at random. Weights that were trained before have few large directions, and a function of them changes by small
steps: fine-tuning moved no matrix of SmolLM2-135M by 0.01 of its norm and left the linearisation by 85 % of how far
outputs moved (`benchmarks/other_models.py`). Such a start is never read as lazy. It is known by its stable ranks: those
of independent entries are m n / (sqrt m + sqrt n)^2 for a matrix of m x n.
"""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from featlearn.apply.inspect.layers import Layer

LAZY, RICH = 0.02, 0.15
"""Below the first a network is read as lazy, above the second as rich."""
TRAINED = 0.8
"""Stable rank over that of independent entries, below which half of the matrices say that the start is not random."""
UNRELATED = 0.1
"""Cosine of all weights below which two checkpoints have no more in common than two networks."""
HEADS = re.compile(r"(^|\.)(lm_head|embed_out|classifier|classification_head|score|heads?|fc|output|readout)$")
"""Names by which libraries call the last layer."""
TIED = re.compile(r"(^|\.)(embed_tokens|wte|word_embeddings|tok_embeddings|shared)\.weight$")
"""Names of token embeddings: without a layer of those names they read out as well."""

Regime = Literal["lazy", "rich", "undecided", "unread"]


@dataclass(frozen=True, kw_only=True)
class RegimeReading:
    """regime, the statistic and the layer that has it, the read-out that was left out, and a sentence."""

    regime: Regime
    statistic: float | None
    layer: str
    head: str
    why: str


def head_of(names: Sequence[str]) -> str:
    """The matrix that is the read-out: by the name of its module, tied embeddings, or the last by numbers in names.

    Example:
        >>> head_of(["fc.weight", "layer1.weight"]), head_of(["10.weight", "2.weight"])
        ('fc.weight', '10.weight')
    """
    for name in names:
        if HEADS.search(name.removesuffix(".weight")) and name.endswith(".weight"):
            return name
    tied = [name for name in names if TIED.search(name)]
    return tied[0] if tied else max(names, key=_natural, default="")


def _natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Numbers in names by their size, before words."""
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", name) if p)


def read(layers: Sequence[Layer], head: str) -> RegimeReading:
    """The regime of a pair of checkpoints by the layers that were compared."""
    common = {"head": head}
    bad = [layer.name for layer in layers if layer.state == "not finite"]
    if bad:
        why = f"{len(bad)} tensors hold values that are not finite, {bad[0]} first"
        return RegimeReading(regime="unread", statistic=None, layer="", why=why, **common)
    wide = [layer for layer in layers if layer.wide and layer.name != head]
    body = [layer for layer in wide if layer.change is not None]
    if not body:
        why = "no matrix beside the read-out was compared"
        return RegimeReading(regime="unread", statistic=None, layer="", why=why, **common)
    worst = max(body, key=lambda layer: layer.spectral or 0.0)
    cosines = [layer.cosine for layer in body if layer.cosine is not None]
    value = worst.spectral or 0.0
    if cosines and sum(c < UNRELATED for c in cosines) > len(cosines) / 2:
        why = "most matrices have nothing in common before and after: two networks, or one that forgot its start"
        return RegimeReading(regime="unread", statistic=value, layer=worst.name, why=why, **common)
    regime: Regime = "lazy" if value < LAZY else "rich" if value > RICH else "undecided"
    said = {
        "lazy": f"no matrix of the body moved by more than {LAZY:g} of its spectral norm: networks near their start",
        "rich": f"a body matrix moved by more than {RICH:g} of its spectral norm: networks away from their start",
        "undecided": f"between {LAZY:g} and {RICH:g} weights alone do not tell: featlearn.watch compares functions",
    }[regime]
    grown = [layer.name for layer in wide if layer.change is None and layer.state == "moved"]
    if regime == "lazy" and grown:
        regime, said = (
            "undecided",
            f"{len(grown)} matrices were zeros before, {grown[0]} first: no size to compare with",
        )
    share = randomness([layer for layer in body if layer.state == "moved"])
    if regime == "lazy" and share is not None and share < TRAINED:
        regime = "undecided"
        said = (
            f"the start was trained before (stable ranks of {share:.2f} of a random matrix's, in the median), where "
            "small changes can change functions: featlearn.watch compares those"
        )
    return RegimeReading(regime=regime, statistic=value, layer=worst.name, why=said, **common)


def randomness(layers: Sequence[Layer]) -> float | None:
    """Median over matrices before of their stable rank over that of independent entries; None without any."""
    found: list[float] = []
    for layer in layers:
        if layer.before is not None:
            m, n = layer.shape[0], math.prod(layer.shape[1:])
            found.append(layer.before.stable * (math.sqrt(m) + math.sqrt(n)) ** 2 / (m * n))
    return statistics.median(found) if found else None
