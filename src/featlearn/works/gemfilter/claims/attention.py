"""Attention, truncated transformers, and the identities behind the score of a token: what holds for any weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim
from featlearn.lab.quantity import COUNT, REAL, SHARE
from featlearn.lab.statement import Statement, at_most, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods.gemfilter import RAW, Scoring, layout_of
from featlearn.methods.gemfilter.selecting import best, observe, probabilities, products, smooth
from featlearn.works.gemfilter.claims import literal
from featlearn.works.gemfilter.setup import Asked, asked

EXACT = 1e-12
SINGLE = 2e-4
"""Rounding of float32 through a few layers, relative to numbers of order 1 to 10."""


# --- Definition 9.1 --------------------------------------------------------------------------------------------------


def draw_head(key: Key) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys, values of one head: 24 tokens, 16 wide."""
    q, k, v = torch.randn(3, 24, 16, generator=key.torch(), dtype=torch.float64)
    return q, k, v


def says_attention(settings: tuple[Tensor, Tensor, Tensor]) -> Sequence[Statement]:
    """softmax over the keys up to its own for each row; and the definition to the letter, mask after the softmax."""
    q, k, v = (x.numpy() for x in settings)
    n = len(q)
    mass = np.exp(q @ k.T / np.sqrt(q.shape[1]))
    inside = np.stack([mass[i, : i + 1] @ v[: i + 1] / mass[i, : i + 1].sum() for i in range(n)])
    after = np.stack([mass[i, : i + 1] @ v[: i + 1] / mass[i].sum() for i in range(n)])
    plain = np.exp(q[-1] @ k.T)
    source = "Definition 9.1"
    return (
        equal(
            "causal attention",
            REAL,
            inside,
            f"{source}, the mask inside the softmax",
            margin=EXACT,
            axis="row and coordinate",
            rival=after,
            rival_says="the mask after the softmax",
        ),
        equal(
            "row n of the definition to the letter",
            REAL,
            inside[-1],
            f"{source}: row n sees every key, so both orders agree",
            margin=EXACT,
            axis="coordinate",
            rival=plain @ v / plain.sum(),
            rival_says="without 1/sqrt(d)",
        ),
        at_most(
            "row sums of the definition to the letter, before row n",
            SHARE,
            1 - 1e-9,
            f"{source}: its softmax runs over later keys, too",
            axis="row",
            rival=1.0,
            rival_says="rows that are averages",
        ),
    )


def sees_attention(settings: tuple[Tensor, Tensor, Tensor], key: Key) -> Mapping[str, Observation]:
    """torch's causal attention; torch's softmax with the mask after it."""
    q, k, v = settings
    late = torch.softmax(q @ k.T / q.shape[1] ** 0.5, dim=-1).tril()
    whole = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)
    return {
        "causal attention": whole[0].numpy(),
        "row n of the definition to the letter": (late @ v)[-1].numpy(),
        "row sums of the definition to the letter, before row n": late.sum(1)[:-1].numpy(),
    }


# --- Definition 9.2 --------------------------------------------------------------------------------------------------

PREFIX = 5


def draw_layers(key: Key) -> Asked:
    """Eight layers, 32 tokens."""
    return asked(key, 32, 8)


def says_layers(settings: Asked) -> Sequence[Statement]:
    """F_{1:r} in double precision; the final norm follows the last layer, once."""
    model, ids = settings.model, settings.ids
    states = literal.states(model, ids)
    last = literal.array(model.lm_head.weight).T
    first = model.get_decoder().layers[PREFIX].input_layernorm
    source = "Definition 9.2"
    return (
        equal(
            "F_{1:r}(T): hidden states after r layers",
            REAL,
            states[PREFIX],
            source,
            margin=SINGLE,
            rival=states[PREFIX + 1],
            rival_says="one layer more",
        ),
        equal(
            "logits of F_{1:m}",
            REAL,
            literal.logits(model, ids),
            f"{source} with the embedding functions of G.1",
            margin=20 * SINGLE,
            rival=states[-1] @ last,
            rival_says="without the final norm",
        ),
        equal(
            "what the filter layer reads",
            REAL,
            literal.normed(states[PREFIX], first),
            f"Algorithm 2 on {source}: the r-th state through the layer's norm",
            margin=SINGLE,
            rival=literal.normed(states[PREFIX - 1], first),
            rival_says="one layer earlier",
        ),
        equal(
            "E(T)",
            REAL,
            states[0],
            "G.1: E(T)_i = D[T_i]",
            margin=1e-7,
            rival=np.roll(states[0], 1, axis=0),
            rival_says="the previous token's row",
        ),
    )


def sees_layers(settings: Asked, key: Key) -> Mapping[str, Observation]:
    """The model's own states and logits, and what pass one received."""
    model, ids = settings.model, settings.ids
    with torch.no_grad():
        out = model(ids, output_hidden_states=True, use_cache=False)
    _, received, _ = observe(layout_of(model), model, ids, torch.ones_like(ids, dtype=torch.bool), PREFIX)
    return {
        "F_{1:r}(T): hidden states after r layers": out.hidden_states[PREFIX][0].numpy(),
        "logits of F_{1:m}": out.logits[0].numpy(),
        "what the filter layer reads": received[0].detach().numpy(),
        "E(T)": out.hidden_states[0][0].numpy(),
    }


# --- the score of a token --------------------------------------------------------------------------------------------

HEADS_OF, GROUPS_OF, TOKENS, WIDE = 9, 3, 16_400, 8
"""More tokens than are scored at a time."""
VOTERS, CAP = (1, 7), 1.5


def draw_grouped(key: Key) -> tuple[Tensor, Tensor]:
    """Two rows of queries of nine heads, keys of three groups."""
    generator = key.torch()
    votes = torch.randn(1, HEADS_OF, 2, WIDE, generator=generator, dtype=torch.float64)
    return votes, torch.randn(1, GROUPS_OF, TOKENS, WIDE, generator=generator, dtype=torch.float64)


def says_groups(settings: tuple[Tensor, Tensor]) -> Sequence[Statement]:
    """sum_j q_j . k_{g(j)} over heads and rows, keys read head by head."""
    votes, keys = (x[0].numpy() for x in settings)
    share = HEADS_OF // GROUPS_OF
    rows = np.array([votes[j] @ keys[j // share].T for j in range(HEADS_OF)])
    logits, dealt = rows.sum(1), np.sum([votes[j].sum(0) @ keys[j % GROUPS_OF].T for j in range(HEADS_OF)], axis=0)
    capped = CAP * np.tanh(rows[list(VOTERS)] * WIDE**-0.5 / CAP)
    capped[:, 0, -1] = -np.inf  # the last row alone sees the last key
    return (
        equal(
            "scores of grouped heads",
            REAL,
            logits.sum(0),
            "Algorithm 2: sum_j q_n^j . k_i^j with k^j that of the group of head j",
            margin=EXACT,
            axis="token",
            rival=dealt,
            rival_says="heads dealt out to groups in turn, not in runs",
        ),
        equal(
            "scores of heads 1 and 7 alone",
            REAL,
            logits[list(VOTERS)].sum(0),
            "Scoring(heads=...): these query heads vote",
            margin=EXACT,
            axis="token",
            form="derived",
            rival=logits[: len(VOTERS)].sum(0),
            rival_says="as many heads, the first",
        ),
        equal(
            "probabilities of these heads, logits capped at 1.5",
            REAL,
            literal.softmax(capped).sum(1),
            "c tanh(z / c) before the softmax, as Gemma 2 has it",
            margin=EXACT,
            axis="head, token",
            form="derived",
            rival=literal.softmax(capped / CAP).sum(1),
            rival_says="tanh(z / c) alone",
        ),
    )


def sees_groups(settings: tuple[Tensor, Tensor], key: Key) -> Mapping[str, Observation]:
    """`products`, which sums the heads of a group first and never repeats a key."""
    votes, keys = settings
    mask = torch.ones(1, TOKENS, dtype=torch.bool)
    return {
        "scores of grouped heads": products(votes, keys)[0].numpy(),
        "scores of heads 1 and 7 alone": products(votes, keys, VOTERS)[0].numpy(),
        "probabilities of these heads, logits capped at 1.5": probabilities(votes, keys, mask, WIDE**-0.5, CAP, VOTERS)[
            0
        ].numpy(),
    }


def draw_scores(key: Key) -> Tensor:
    """Scores by head, h n."""
    return torch.randn(6, 200, generator=key.torch(), dtype=torch.float64)


def says_pooling(settings: Tensor) -> Sequence[Statement]:
    """Average over five places with zeros beyond the ends."""
    by_head = settings.numpy()
    n = by_head.shape[1]
    edge = np.ones(n)
    edge[[0, 1, -2, -1]] = 0.6, 0.8, 0.8, 0.6
    summed = by_head.sum(0)
    largest = np.array([max(0.0, *summed[max(0, i - 2) : i + 3]) if i in (0, 1, n - 2, n - 1) else
                        summed[i - 2 : i + 3].max() for i in range(n)])  # fmt: skip
    return (
        equal(
            "pooled sum over heads",
            REAL,
            np.sum([literal.pooled(h, 5) for h in by_head], axis=0),
            "G.4.1, line 16: pooling is linear, so it may follow the sum",
            margin=EXACT,
            axis="token",
            rival=largest,
            rival_says="pooling by the maximum",
        ),
        equal(
            "pooled scores of 1",
            SHARE,
            edge,
            "G.4.1, line 16: padding of zeros counts into the average",
            margin=EXACT,
            axis="token",
            rival=np.ones(n),
            rival_says="padding left out of the average",
        ),
        equal(
            "tokens kept of equal scores of -1, k = 4",
            COUNT,
            np.array([0, 1, n - 2, n - 1]),
            "the same: negative scores are raised at both ends",
            axis="token",
            rival=np.arange(4),
            rival_says="the first of equal scores",
        ),
    )


def sees_pooling(settings: Tensor, key: Key) -> Mapping[str, Observation]:
    """`smooth` and `best`."""
    mask = torch.ones(1, settings.shape[1], dtype=torch.bool)
    ones = torch.ones(1, settings.shape[1], dtype=torch.float64)
    return {
        "pooled sum over heads": smooth(settings.sum(0, keepdim=True), mask, RAW)[0].numpy(),
        "pooled scores of 1": smooth(ones, mask, RAW)[0].numpy(),
        "tokens kept of equal scores of -1, k = 4": best(smooth(-ones, mask, RAW), mask, ~mask, [4])[0].numpy(),
    }


SIZES = np.array([10, 100])


def draw_ranked(key: Key) -> dict[int, tuple[Tensor, Tensor]]:
    """Gaussian queries and keys of 20 draws of 500 tokens, with one head and with eight."""
    return {
        h: (
            torch.randn(20, h, 1, 64, generator=(key / h).torch()),
            torch.randn(20, h, 500, 64, generator=(key / h / "k").torch()),
        )
        for h in (1, 8)
    }


def says_ranking(settings: Mapping[int, tuple[Tensor, Tensor]]) -> Sequence[Statement]:
    """softmax is increasing, so one head ranks alike; a sum of exponentials is not the exponential of a sum."""
    one_off = np.tile((SIZES - 1) / SIZES, 20)
    return (
        equal(
            "k best in common, one head",
            SHARE,
            np.ones(40),
            "Section 9.3.1: the softmax of one row is increasing in q.k",
            axis="draw and k",
            margin=1e-9,
            rival=one_off,
            rival_says="another token among the k",
        ),
        at_most(
            "k best in common, eight heads",
            SHARE,
            one_off,
            "Section 9.3.1: sums over heads of logits and of probabilities are not functions of one another",
            axis="draw and k",
            margin=1e-9,
            rival=1.0,
            rival_says="the same tokens",
        ),
    )


def sees_ranking(settings: Mapping[int, tuple[Tensor, Tensor]], key: Key) -> Mapping[str, Observation]:
    """`products` against `probabilities`."""
    seen = {}
    for h, says in ((1, "one head"), (8, "eight heads")):
        votes, keys = settings[h]
        mask = torch.ones(keys.shape[0], keys.shape[2], dtype=torch.bool)
        raw, soft = products(votes, keys), probabilities(votes, keys, mask, 64**-0.5).sum(1)
        common = [
            len(set(a.topk(k).indices.tolist()) & set(b.topk(k).indices.tolist())) / k
            for a, b in zip(raw, soft, strict=True)
            for k in SIZES.tolist()
        ]
        seen[f"k best in common, {says}"] = np.array(common)
    return seen


def says_listing(settings: Tensor) -> Sequence[Statement]:
    """Sum over heads, pool, the k best, ascending."""
    summed = settings.numpy().sum(0)
    average, unpooled = literal.chosen(literal.pooled(summed, 5), 20), literal.chosen(summed, 20)
    wide = np.lib.stride_tricks.sliding_window_view(np.pad(summed, 2), 5).max(1)
    return (
        equal(
            "tokens kept, average over 5",
            COUNT,
            average,
            "G.4.1, the listing",
            axis="token",
            rival=literal.chosen(wide, 20),
            rival_says="the maximum over 5, as G.4.2 words it",
        ),
        equal(
            "tokens kept, maximum over 5",
            COUNT,
            literal.chosen(wide, 20),
            "G.4.2: 'a maximum pooling kernel size of 5'",
            axis="token",
            rival=average,
            rival_says="the average over 5",
        ),
        equal(
            "tokens kept without pooling",
            COUNT,
            unpooled,
            "Algorithm 2, line 6, without the listing's pooling",
            axis="token",
            rival=average,
            rival_says="the average over 5",
        ),
    )


def sees_listing(settings: Tensor, key: Key) -> Mapping[str, Observation]:
    """`smooth` and `best` with the three poolings."""
    mask = torch.ones(1, settings.shape[1], dtype=torch.bool)
    names = {"avg": "average over 5", "max": "maximum over 5"}
    seen = {}
    for pooling in ("avg", "max", "none"):
        found = smooth(settings.sum(0, keepdim=True), mask, Scoring(pooling=pooling))
        words = f"tokens kept, {names[pooling]}" if pooling in names else "tokens kept without pooling"
        seen[words] = best(found, mask, ~mask, [20])[0].numpy()
    return seen


# --- the listing as it stands ----------------------------------------------------------------------------------------


def draw_pooled(key: Key) -> Tensor:
    """One prompt, heads summed, one query, 64 keys: the 4-D tensor of the lines before."""
    return torch.randn(1, 1, 1, 64, generator=key.torch())


def says_call(settings: Tensor) -> Sequence[Statement]:
    """The pooling call returns (1) or torch refuses it (0)."""
    return (
        equal(
            "the pooling call returns, as listed",
            COUNT,
            1.0,
            "G.4.1, line 16",
            rival=0.0,
            rival_says="refused",
            expect="contradicted",
        ),
        equal(
            "the pooling call returns, with kernel_size and without the query axis",
            COUNT,
            1.0,
            "G.4.1, line 16, corrected as the released code has it",
            form="corrected",
            twin="the pooling call returns, as listed",
            rival=0.0,
            rival_says="refused",
        ),
        equal(
            "the pooling call returns, with kernel_size alone",
            COUNT,
            0.0,
            "avg_pool1d takes 2-D and 3-D input",
            form="derived",
            rival=1.0,
            rival_says="the keyword is the only slip",
        ),
    )


def sees_call(settings: Tensor, key: Key) -> Mapping[str, Observation]:
    """torch's answer to each call."""
    pool: Any = torch.nn.functional.avg_pool1d

    def returns(scores: Tensor, **more: int) -> float:
        try:
            pool(scores, padding=2, stride=1, **more)
        except (TypeError, RuntimeError):
            return 0.0
        return 1.0

    return {
        "the pooling call returns, as listed": returns(settings, kernel=5),
        "the pooling call returns, with kernel_size and without the query axis": returns(
            settings[:, :, 0], kernel_size=5
        ),
        "the pooling call returns, with kernel_size alone": returns(settings, kernel_size=5),
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gemfilter.def9_1",
        entries=("gemfilter.def9_1",),
        says="Causal attention masks before the softmax. Definition 9.1 to the letter, mask after softmax, agrees on "
        "row n, the only one that Algorithm 2 reads.",
        settings=draw_head,
        statements=says_attention,
        observe=sees_attention,
        remarks="Definition 9.1 writes 'M_c ⊙ Softmax(QK^T / √d) · V'. Read as shorthand for a mask inside the softmax "
        "it is the attention of the models; read literally, rows before the last sum to less than 1.",
    ),
    Claim(
        id="gemfilter.def9_2",
        entries=("gemfilter.def9_2",),
        says="F_{1:r} is the prefix of F_{1:m}: pass one reads the r-th hidden state, and the logits follow m layers.",
        settings=draw_layers,
        statements=says_layers,
        observe=sees_layers,
        remarks="Where the final norm sits is not said: it follows layer m, so F_{1:r} is without it.",
    ),
    Claim(
        id="gemfilter.algorithm2_groups",
        entries=("gemfilter.algorithm2",),
        says="With grouped heads, sum_j <q_j, k_g(j)> = <concat_g sum_{j in g} q_j, concat_g k_g>.",
        settings=draw_grouped,
        statements=says_groups,
        observe=sees_groups,
    ),
    Claim(
        id="gemfilter.algorithm2_pooling",
        entries=("gemfilter.algorithm2",),
        says="Average pooling commutes with the sum over heads, and weighs the first and last two tokens by .6 and .8.",
        settings=draw_scores,
        statements=says_pooling,
        observe=sees_pooling,
    ),
    Claim(
        id="gemfilter.algorithm2_ranking",
        entries=("gemfilter.algorithm2",),
        says="Ranking by summed logits equals ranking by summed attention probabilities for one head, not for several.",
        settings=draw_ranked,
        statements=says_ranking,
        observe=sees_ranking,
        remarks="Section 9.3.1 sums the 'attention matrices' of the heads, glossed as 'i.e., the inner product': that "
        "is what is summed here. In line 6 of Algorithm 2 K_n is read as K, since its comment puts the product in R^n.",
    ),
    Claim(
        id="gemfilter.listing",
        entries=("gemfilter.listing",),
        says="The listing, made to run: sum over heads, mean over 5 positions, k best, ascending.",
        settings=draw_scores,
        statements=says_listing,
        observe=sees_listing,
        remarks="Appendix G.4.2 has 'a maximum pooling kernel size (line 16 of the PyTorch code below) of 5'; line 16 "
        "averages, as the released code does.",
    ),
    Claim(
        id="gemfilter.listing_as_reported",
        entries=("gemfilter.listing",),
        says="The pooling call of the listing in G.4.1 runs.",
        settings=draw_pooled,
        statements=says_call,
        observe=sees_call,
        accuses=Accusation(
            quote="F.avg_pool1d(in_pro, kernel=kernel, ...)",
            place="Thesis, Appendix G.4.1, PyTorch listing, line 16",
            reading="torch's own avg_pool1d on the 4-D tensor of the lines before",
            hits="misprint",
            derivation="The signature of torch's avg_pool1d has kernel_size and no kernel, and its input is 2-D or "
            "3-D; the released code has kernel_size and drops the query axis, so that no result rests on this line.",
        ),
    ),
)
