"""Attention, truncated transformers, and the identities behind the score of a token: what holds for any weights."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.pending import Case, Claim, Evidence
from featlearn.methods.gemfilter import RAW, Scoring, layout_of
from featlearn.methods.gemfilter.selecting import best, observe, probabilities, products, smooth
from featlearn.works.gemfilter.claims.tiny import decoder, needs_transformers, prompt, run_layers


def arr(x: Tensor) -> np.ndarray:
    """Detached, in numpy."""
    return x.detach().numpy()


def usual(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attention with the mask inside the softmax: (weights, output)."""
    mask = torch.ones(len(q), len(q), dtype=torch.bool).tril()
    weights = torch.softmax((q @ k.T / math.sqrt(q.shape[1])).masked_fill(~mask, -torch.inf), dim=-1)
    return weights, weights @ v


def as_reported(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Definition 9.1 to the letter: the mask times the softmax over all keys, future ones included."""
    weights = torch.softmax(q @ k.T / math.sqrt(q.shape[1]), dim=-1).tril()
    return weights, weights @ v


def check_attention(key: Key, tables: Any) -> Evidence:
    """Row sums, rows in common, and whether a row looks ahead, of both forms."""
    n, d = 24, 16
    q, k, v = torch.randn(3, n, d, generator=key.torch(), dtype=torch.float64)
    weights, out = usual(q, k, v)
    reported_weights, reported_out = as_reported(q, k, v)
    sums = reported_weights.sum(1)
    later = k.clone()
    later[-1] += 1.0
    moved = (usual(q, later, v)[1] - out)[:-1].abs().amax(1)
    reported_moved = (as_reported(q, later, v)[1] - reported_out)[:-1].abs().amax(1)
    mass = torch.exp(q @ k.T / math.sqrt(d))
    share = (mass.tril().sum(1) / mass.sum(1)).numpy()
    return Evidence(
        (
            Case(
                "row sums, mask before softmax",
                predict=np.ones(n),
                observe=weights.sum(1).numpy(),
                rival=sums.numpy(),
                tolerance=1e-12,
                rival_says="mask after softmax, as reported",
            ),
            Case(
                "row sums as reported: share of the past in the sum over all keys",
                predict=share,
                observe=sums.numpy(),
                rival=np.ones(n),
                tolerance=1e-12,
                rival_says="a proper average",
            ),
            Case(
                "largest row sum as reported, last row aside",
                predict=1 - 1e-6,
                observe=float(sums[:-1].max()),
                rival=0.5,
                relation="at most",
                tolerance=0.0,
                rival_says="half of the mass is lost in every row",
            ),
            Case(
                "row n is the same in both",
                predict=out[-1].numpy(),
                observe=reported_out[-1].numpy(),
                rival=out[-2].numpy(),
                tolerance=1e-12,
                rival_says="row n - 1",
            ),
            Case(
                "each row as reported, over its sum",
                predict=out.numpy(),
                observe=(reported_out / sums[:, None]).numpy(),
                rival=reported_out.numpy(),
                tolerance=1e-12,
                rival_says="without renormalisation",
            ),
            Case(
                "change of rows 1..n-1 when key n changes",
                predict=np.zeros(n - 1),
                observe=moved.numpy(),
                rival=reported_moved.numpy(),
                tolerance=1e-12,
                rival_says="the reported form, whose denominators see the future",
            ),
        ),
        comment="Row n, the only one that Algorithm 2 reads, is the same in both forms; every row agrees after "
        f"division by its sum. Row sums of the definition's form here run from {float(sums.min()):.2f} to 1.",
    )


@needs_transformers
def check_layers(key: Key, tables: Any) -> Evidence:
    """F_{1:r} as a prefix of F_{1:m}; where the final norm sits; the embedding."""
    m, r, n = 8, 5, 32
    model, ids = decoder(key / "model", m), prompt(key / "ids", n)
    with torch.no_grad():
        out = model(ids, output_hidden_states=True, use_cache=False)
        states = out.hidden_states
        early, late = decoder(key / "early", r), decoder(key / "late", m - r)
        early.get_decoder().embed_tokens = model.get_decoder().embed_tokens
        early.get_decoder().layers = model.get_decoder().layers[:r]
        early.get_decoder().norm = torch.nn.Identity()
        prefix = run_layers(early, ids, use_cache=False).last_hidden_state
        late.get_decoder().layers = model.get_decoder().layers[r:]
        late.get_decoder().norm = model.get_decoder().norm
        late.lm_head = model.lm_head
        whole = late(inputs_embeds=prefix, use_cache=False).logits
        last = model.get_decoder().layers[m - 1](
            states[m - 1],
            attention_mask=torch.full((n, n), -torch.inf).triu(1)[None, None],
            position_embeddings=model.get_decoder().rotary_emb(states[m - 1], torch.arange(n)[None]),
        )
        _, received, _ = observe(layout_of(model), model, ids, torch.ones_like(ids, dtype=torch.bool), r)
        norm = model.get_decoder().layers[r].input_layernorm
        table = model.get_input_embeddings().weight
        cases = (
            Case(
                "F_{1:r} alone = the r-th hidden state of F_{1:m}",
                predict=arr(states[r]),
                observe=arr(prefix),
                rival=arr(states[r + 1]),
                tolerance=1e-5,
                rival_says="one layer more",
            ),
            Case(
                "layers r+1..m on F_{1:r}(T) = the whole model's logits",
                predict=arr(out.logits),
                observe=arr(whole),
                rival=arr(out.logits.flip(1)),
                tolerance=1e-4,
                rival_says="logits of other positions",
            ),
            Case(
                "the state after all m layers is normalised, once",
                predict=arr(states[m]),
                observe=arr(model.get_decoder().norm(last)),
                rival=arr(last),
                tolerance=1e-4,
                rival_says="without the final norm",
            ),
            Case(
                "pass one reads the r-th hidden state through the layer's norm",
                predict=arr(norm(states[r])),
                observe=arr(received),
                rival=arr(norm(states[r - 1])),
                tolerance=1e-5,
                rival_says="one layer earlier",
            ),
            Case(
                "E(T)_i = D[T_i]",
                predict=arr(table[ids]),
                observe=arr(states[0]),
                rival=arr(table[ids.roll(1)]),
                tolerance=1e-7,
                rival_says="the previous token's row",
            ),
        )
    return Evidence(cases, comment=f"A random {m}-layer LLaMA, r = {r}, n = {n}; the final norm belongs to the last g.")


def repeated(votes: Tensor, keys: Tensor) -> Tensor:
    """sum over heads of q_j . k_{group of j}, one head at a time."""
    heads, groups = votes.shape[1], keys.shape[1]
    found = torch.zeros(keys.shape[0], keys.shape[2], dtype=votes.dtype)
    for j in range(heads):
        found += (keys[:, j // (heads // groups)] @ votes[:, j, 0, :, None])[..., 0]
    return found


def check_groups(key: Key, tables: Any) -> Evidence:
    """Grouped heads can be summed before the product with the keys."""
    b, h, g, n, d = 2, 9, 3, 40, 8
    generator = key.torch()
    votes, keys = torch.randn(b, h, 1, d, generator=generator), torch.randn(b, g, n, d, generator=generator)
    direct = repeated(votes.double(), keys.double())
    folded = torch.einsum(
        "bc,bnc->bn",
        votes.double().view(b, g, h // g, d).sum(2).view(b, g * d),
        keys.double().transpose(1, 2).reshape(b, n, g * d),
    )
    other = votes[:, [0, 3, 6, 1, 4, 7, 2, 5, 8]]  # heads dealt out to groups in turn
    interleaved = products(other, keys).numpy()
    return Evidence(
        (
            Case(
                "<concat_g sum_j q_j, concat_g k_g>, in double",
                predict=direct.numpy(),
                observe=folded.numpy(),
                rival=interleaved,
                tolerance=1e-12,
                rival_says="heads assigned to groups in turn, not in runs",
            ),
            Case(
                "scores of `products`",
                predict=direct.numpy(),
                observe=products(votes, keys).numpy(),
                rival=interleaved,
                tolerance=1e-4,
                rival_says="heads assigned to groups in turn, not in runs",
            ),
            Case(
                "keys read, relative to repeated ones",
                predict=1 / 3,
                observe=keys.numel() / keys.repeat_interleave(3, 1).numel(),
                rival=1.0,
                tolerance=1e-12,
                rival_says="keys repeated for every query head",
            ),
        ),
        comment="No key has to be repeated for grouped heads: LLaMA 3.1 8B would repeat each four times.",
    )


def check_pooling(key: Key, tables: Any) -> Evidence:
    """Average pooling is linear, so it may follow the sum over heads; zeros beyond the ends count."""
    h, n = 6, 50
    by_head = torch.randn(h, n, generator=key.torch())
    mask = torch.ones(1, n, dtype=torch.bool)
    rows = mask.expand(h, n)
    after = smooth(by_head.sum(0, keepdim=True), mask, RAW)[0]
    before = smooth(by_head, rows, RAW).sum(0)
    largest = Scoring(pooling="max")
    max_after = smooth(by_head.sum(0, keepdim=True), mask, largest)[0]
    ones = torch.ones(1, n)
    edge = np.ones(n)
    edge[[0, 1, -2, -1]] = 0.6, 0.8, 0.8, 0.6
    nothing = torch.zeros_like(mask)
    kept = best(smooth(-ones, mask, RAW), mask, nothing, [4])[0]
    return Evidence(
        (
            Case(
                "pooled sum = sum of pooled heads (average)",
                predict=before.numpy(),
                observe=after.numpy(),
                rival=max_after.numpy(),
                tolerance=1e-5,
                rival_says="maximum pooling",
            ),
            Case(
                "pooled constant 1",
                predict=edge,
                observe=smooth(ones, mask, RAW)[0].numpy(),
                rival=np.ones(n),
                tolerance=1e-6,
                rival_says="padding left out of the average",
            ),
            Case(
                "of a constant -1, the tokens kept (k = 4)",
                predict=[0, 1, n - 2, n - 1],
                observe=kept.numpy(),
                rival=[0, 1, 2, 3],
                rival_says="the first of equal scores",
            ),
        ),
        comment="Zero padding multiplies the scores of the first and last two positions by .6 and .8: it favours them "
        "when inner products are negative and penalises them when they are positive. bos and the end of the question "
        "stand there.",
    )


def overlap(a: Tensor, b: Tensor, k: int) -> float:
    """Share of the k best positions in common."""
    return len(set(a.topk(k).indices.tolist()) & set(b.topk(k).indices.tolist())) / k


def check_ranking(key: Key, tables: Any) -> Evidence:
    """Sums of raw products against sums of attention probabilities, with one head and with eight."""
    n, d, draws = 500, 64, 20
    sizes = (1, 10, 100)
    mask = torch.ones(1, n, dtype=torch.bool)
    found: dict[int, np.ndarray] = {}
    for h in (1, 8):
        per_draw = []
        for i in range(draws):
            generator = (key / h / i).torch()
            votes, keys = torch.randn(1, h, 1, d, generator=generator), torch.randn(1, h, n, d, generator=generator)
            raw = products(votes, keys)[0]
            soft = probabilities(votes, keys, mask, d**-0.5).sum(1)[0]
            per_draw.append([overlap(raw, soft, k) for k in sizes])
        found[h] = np.mean(per_draw, axis=0)
    return Evidence(
        (
            Case(
                "k best in common, one head, k = 1, 10, 100",
                predict=np.ones(3),
                observe=found[1],
                rival=found[8],
                tolerance=0.0,
                rival_says="the same with eight heads",
            ),
            Case(
                "k best in common, eight heads, k = 10, 100",
                predict=[0.9, 0.9],
                observe=found[8][1:],
                rival=[0.02, 0.2],
                relation="at most",
                tolerance=0.0,
                rival_says="no more than k / n: rankings that have nothing to do with each other",
            ),
        ),
        comment=f"Gaussian queries and keys, n = {n}, {draws} draws; with eight heads {found[8][1]:.2f} of the best 10 "
        f"and {found[8][2]:.2f} of the best 100 are common. The formula, the words 'i.e., the inner product' "
        "and the listing sum logits; a reader who sums attention probabilities has another method for h > 1.",
        data={"k": np.array(sizes), "one head": found[1], "eight heads": found[8]},
    )


def literal_selection(products_by_head: np.ndarray, k: int, width: int = 5) -> np.ndarray:
    """The listing in plain loops: sum over heads, mean over a window with zeros beyond the ends, k best, ascending."""
    scores = products_by_head.sum(0)
    n, half = len(scores), width // 2
    pooled = [sum(scores[j] for j in range(i - half, i + half + 1) if 0 <= j < n) / width for i in range(n)]
    order = sorted(range(n), key=lambda i: (-pooled[i], i))
    return np.array(sorted(order[:k]))


def check_listing(key: Key, tables: Any) -> Evidence:
    """The listing in its right form, against plain loops; the three poolings select differently."""
    h, n, k = 4, 200, 20
    by_head = torch.randn(h, n, generator=key.torch())
    mask = torch.ones(1, n, dtype=torch.bool)
    nothing = torch.zeros_like(mask)
    sets = {}
    for name in ("avg", "max", "none"):
        found = smooth(by_head.sum(0, keepdim=True), mask, Scoring(pooling=name))
        sets[name] = best(found, mask, nothing, [k])[0].numpy()
    literal = literal_selection(by_head.double().numpy(), k)
    common = {
        pair: len(set(sets[pair[0]]) & set(sets[pair[1]])) / k
        for pair in (("avg", "max"), ("avg", "none"), ("max", "none"))
    }
    return Evidence(
        (
            Case(
                "tokens kept by the average over 5",
                predict=literal,
                observe=sets["avg"],
                rival=sets["max"],
                rival_says="the maximum over 5, one reading of G.4.2",
            ),
            Case(
                "tokens kept without pooling",
                predict=literal_selection(by_head.double().numpy(), k, 1),
                observe=sets["none"],
                rival=sets["avg"],
                rival_says="the average over 5",
            ),
            Case(
                "order: ascending",
                predict=np.sort(sets["avg"]),
                observe=sets["avg"],
                rival=sets["avg"][::-1],
                rival_says="order of the scores",
            ),
        ),
        comment="Sets in common: " + ", ".join(f"{a}/{b} {v:.2f}" for (a, b), v in common.items()) + f" (k = {k}).",
    )


def runs(call: Any) -> float:
    """1 if the call returns, 0 if torch refuses its arguments."""
    try:
        call()
    except (TypeError, RuntimeError):
        return 0.0
    return 1.0


def check_reported_pooling(key: Key, tables: Any) -> Evidence:
    """The pooling call of the listing, and the two changes that make it run."""
    scores = torch.randn(1, 1, 1, 64, generator=key.torch())  # one prompt, heads summed, one query, 64 keys
    pool: Any = torch.nn.functional.avg_pool1d
    shape = {"padding": 2, "stride": 1}
    as_listed = runs(lambda: pool(scores, kernel=5, **shape))
    renamed = runs(lambda: pool(scores, kernel_size=5, **shape))
    squeezed = runs(lambda: pool(scores[:, :, 0], kernel_size=5, **shape))
    return Evidence(
        (
            Case(
                "runs with its query axis dropped and its keyword renamed",
                predict=1.0,
                observe=squeezed,
                rival=0.0,
                rival_says="still refused",
            ),
            Case(
                "runs with its keyword renamed (1 = yes)",
                predict=1.0,
                observe=renamed,
                rival=0.0,
                rival_says="a 4-D input is refused",
            ),
            Case(
                "runs as listed (1 = yes)",
                predict=1.0,
                observe=as_listed,
                rival=0.0,
                rival_says="an unknown keyword is refused",
            ),
        ),
        comment="avg_pool1d has no keyword `kernel` and takes no 4-D input; here `kernel_size` and a squeezed axis.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gemfilter.def9_1",
        entries=("gemfilter.def9_1",),
        says="Causal attention masks before the softmax: rows sum to 1 and see no later key. The order of Definition "
        "9.1, mask after softmax, agrees on row n only, and on every row once divided by its sum.",
        check=check_attention,
        reported="Definition 9.1 writes 'M_c ⊙ Softmax(QK^T / √d) · V'. Read as shorthand for a mask inside the "
        "softmax it is the attention of the models; read literally, rows before the last sum to less than 1. Row n, "
        "the only one that Algorithm 2 reads, is the same on both readings.",
    ),
    Claim(
        "gemfilter.def9_2",
        entries=("gemfilter.def9_2", "gemfilter.skipped"),
        says="F_{1:r} is the prefix of F_{1:m}: its output is the r-th hidden state, and layers "
        "r+1..m continue from it.",
        check=check_layers,
        reported="Where the final norm sits is not said: it follows layer m, so F_{1:r} is without it.",
    ),
    Claim(
        "gemfilter.algorithm2_groups",
        entries=("gemfilter.algorithm2",),
        says="With grouped heads, sum_j <q_j, k_g(j)> = <concat_g sum_{j in g} q_j, concat_g k_g>.",
        check=check_groups,
    ),
    Claim(
        "gemfilter.algorithm2_pooling",
        entries=("gemfilter.algorithm2",),
        says="Average pooling commutes with the sum over heads, and weighs the first and last two tokens by .6 and .8.",
        check=check_pooling,
    ),
    Claim(
        "gemfilter.algorithm2_ranking",
        entries=("gemfilter.algorithm2",),
        says="Ranking by summed logits equals ranking by summed attention probabilities for one head, not for several.",
        check=check_ranking,
        reported="Section 9.3.1 sums the 'attention matrices' of the heads, glossed as 'i.e., the inner product': "
        "that is what is summed here. In line 6 of Algorithm 2 K_n is read as K, since its comment puts the product "
        "in R^n.",
    ),
    Claim(
        "gemfilter.listing",
        entries=("gemfilter.listing",),
        says="The listing, made to run: sum over heads, mean over 5 positions, k best, ascending.",
        check=check_listing,
        reported="Appendix G.4.2 has 'a maximum pooling kernel size (line 16 of the PyTorch code below) of 5'; line "
        "16 averages, which is what is done here. Pooling by the maximum would keep other tokens.",
    ),
    Claim(
        "gemfilter.listing_as_reported",
        entries=("gemfilter.listing",),
        says="The pooling call of the listing in G.4.1 runs.",
        check=check_reported_pooling,
        expected="refuted",
        hits="statement",
        reported="Appendix G.4.1, PyTorch listing, line 16: 'F.avg_pool1d(in_pro, kernel=kernel, ...)', read with "
        "torch's own avg_pool1d and the 4-D tensor of the lines before. The keyword is kernel_size, and the query "
        "axis has to be dropped; the released code does both.",
    ),
)
