"""Theorem 9.3, memory: bytes of live tensors in tiny models, and of the LLaMA 3.1 8B shape on the meta device."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from featlearn.core import Key
from featlearn.lab.pending import Case, Claim, Evidence
from featlearn.methods.gemfilter import RAW, generate, select
from featlearn.methods.kv_eviction import cache_of, kv_bytes
from featlearn.works.gemfilter.claims.tiny import (
    GROUPS,
    HEAD_DIM,
    HEADS,
    continue_from,
    count_bytes,
    decoder,
    needs_transformers,
    prompt,
)

GIB = 2**30
FLOAT32 = 4


def key_value_bytes(layers: int, tokens: int, heads: int = GROUPS) -> int:
    """2 m h_kv n d, in float32."""
    return 2 * layers * heads * tokens * HEAD_DIM * FLOAT32


@needs_transformers
def check_memory(key: Key, tables: Any) -> Evidence:
    """Caches to the byte, and the peak of live tensors against depth."""
    n, k, t = 96, 24, 6
    ids = prompt(key / "ids", n)
    depths, standard, peaks = (2, 4, 6), [], []
    for m in depths:
        model = decoder(key / m, m)
        with count_bytes(model) as seen:
            filled = cache_of(continue_from(model, ids))
        standard.append(kv_bytes(filled))
        peaks.append(seen.peak)
        del filled
    m = depths[-1]
    model = decoder(key / m, m)
    early, left = [], []
    for r in (2, 3, 4, 5):
        with count_bytes(model) as seen:
            chosen = select(model, ids, layer=r, keep=k, scoring=RAW)
        early.append(seen.peak)
        scores = chosen.scores.untyped_storage().nbytes()
        left.append(seen.now - scores)
        del chosen
    result = generate(model, ids, layer=2, keep=k, scoring=RAW, max_new_tokens=t, return_dict_in_generate=True)
    second = kv_bytes(cache_of(result.output))
    whole = key_value_bytes(1, n)
    return Evidence(
        (
            Case(
                "standard: cache after the prompt, m = 2, 4, 6: 2 m h_kv n d",
                predict=[key_value_bytes(x, n) for x in depths],
                observe=standard,
                rival=[key_value_bytes(x, n, HEADS) for x in depths],
                rival_says="query heads in place of h_kv",
                unit="bytes",
            ),
            Case(
                "growth of the peak per layer, standard",
                predict=[whole, whole],
                observe=np.diff(peaks) / 2,
                rival=[whole / 2] * 2,
                rival_says="keys alone",
                unit="bytes",
            ),
            Case(
                "growth of the peak per layer, pass one",
                predict=np.zeros(3),
                observe=np.diff(early),
                rival=np.full(3, whole),
                rival_says="one more layer of keys and values",
                unit="bytes",
            ),
            Case(
                "left behind by pass one beside the scores: a mask and k indices",
                predict=np.full(4, n + 8 * k),
                observe=left,
                rival=np.full(4, n + 8 * k + whole),
                rival_says="its layer's keys and values too",
                unit="bytes",
            ),
            Case(
                "GemFilter: cache after the reply, 2 m h_kv (k + t - 1) d",
                predict=key_value_bytes(m, k + t - 1),
                observe=second,
                rival=key_value_bytes(m, n + t - 1),
                rival_says="n for k",
                unit="bytes",
            ),
        ),
        comment=f"n = {n}, k = {k}, t = {t}, float32, every tensor that an operation makes counted. Pass one holds no "
        "keys and values of the layers before r, and of layer r its keys alone. The last generated token is never fed, "
        "so k + t - 1 are cached, within the k + t of the theorem. For grouped heads h means h_kv.",
    )


@needs_transformers
def check_reported_prompt_memory(key: Key, tables: Any) -> Evidence:
    """The reported expression 2 m h d for the prompt's cache, against its length."""
    m, model = 3, decoder(key / "model", 3)
    lengths = np.array([16, 32, 64])
    seen = [kv_bytes(cache_of(continue_from(model, prompt(key / n, n)))) for n in lengths.tolist()]
    per_token = np.array(seen) / lengths
    return Evidence(
        (
            Case(
                "bytes per token: 2 m h_kv d",
                predict=np.full(3, key_value_bytes(m, 1)),
                observe=per_token,
                rival=np.full(3, key_value_bytes(m, 1)) / lengths,
                rival_says="no growth with n",
                unit="bytes",
            ),
            Case(
                "cache of n = 16, 32, 64 tokens: 2 m h_kv d, as reported",
                predict=np.full(3, key_value_bytes(m, 1)),
                observe=seen,
                rival=key_value_bytes(m, 1) * lengths,
                rival_says="2 m h_kv n d",
                unit="bytes",
            ),
        ),
        comment="The generation row of the same table, 2 m h (n + t) d, has the n.",
    )


@dataclass(frozen=True)
class Shape:
    """Bytes of a model's parts: one layer's weights, keys and values of one token in one layer; and its depth."""

    layer: int
    token: int
    depth: int
    width: int

    def prompt(self, n: int, k: int, r: int, resident: bool = False) -> np.ndarray:
        """Prompt phase: standard, SnapKV, GemFilter. resident: layers past the filter stay in memory."""
        weights, one = self.depth * self.layer, n * self.token
        early = weights if resident else r * self.layer
        return np.array([weights + self.depth * one, weights + one + self.depth * k * self.token, early + one])

    def generation(self, n: int, k: int, t: int) -> np.ndarray:
        """Generation phase: standard, SnapKV, GemFilter."""
        kept = np.array([n, k, k]) + t
        return self.depth * (self.layer + kept * self.token)


@cache
def llama_8b(heads: int = 8) -> Shape:
    """The LLaMA 3.1 8B shape in half precision, measured on tensors without storage. heads: of keys and values."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=1,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=131072,
    )
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config).half()
    layer = model.get_decoder().layers[0]
    weights = sum(p.nbytes for p in layer.parameters())
    keys = torch.empty(1, heads, 1, layer.self_attn.head_dim, dtype=torch.float16, device="meta")
    return Shape(weights, 2 * keys.nbytes, 32, 4096)


N_CASE, K_CASE, R_CASE = 131072, 1024, 13


@needs_transformers
def check_llama_bytes(key: Key, tables: Any) -> Evidence:
    """The expressions at the sizes of the case study, grouped heads, half precision."""
    one, many = llama_8b(), llama_8b(32)
    dropped, resident = one.prompt(N_CASE, K_CASE, R_CASE) / GIB, one.prompt(N_CASE, K_CASE, R_CASE, True) / GIB
    other, other_resident = many.prompt(N_CASE, K_CASE, R_CASE) / GIB, many.prompt(N_CASE, K_CASE, R_CASE, True) / GIB
    # filter layer counted from 0: layers 0..13 ran in the released code
    saving = np.array([1 - dropped[2] / dropped[1], 1 - resident[2] / resident[1]])
    return Evidence(
        (
            Case(
                "weights of a layer",
                predict=0.40627,
                observe=one.layer / GIB,
                rival=0.375,
                tolerance=1e-5,
                rival_says="without the key and value projections",
                unit="GiB",
            ),
            Case(
                "keys and values of one layer, 131072 tokens",
                predict=0.5,
                observe=N_CASE * one.token / GIB,
                rival=2.0,
                tolerance=1e-12,
                rival_says="32 heads in place of 8",
                unit="GiB",
            ),
            Case(
                "prompt: standard, SnapKV, GemFilter",
                predict=[29.0, 13.625, 5.781],
                observe=dropped,
                rival=other,
                tolerance=1e-3,
                rival_says="32 heads in place of 8",
                unit="GiB",
            ),
            Case(
                "GemFilter with all layers resident",
                predict=13.5,
                observe=resident[2],
                rival=dropped[2],
                tolerance=1e-3,
                rival_says="r w: layers past the filter not in memory",
                unit="GiB",
            ),
            Case(
                "share saved against SnapKV in the prompt phase: dropped, resident",
                predict=[0.576, 0.009],
                observe=saving,
                rival=[1 - other[2] / other[1], 1 - other_resident[2] / other_resident[1]],
                tolerance=1e-3,
                rival_says="32 heads in place of 8",
            ),
        ),
        comment="r w is reached only by a program that keeps layers past the filter out of memory during pass one; the "
        "released code does not, and then 0.125 of 13.6 GiB are saved. Embeddings, lm_head (1 GiB each) and "
        "activations (up to 7 GiB in the MLP of one layer at this length) are left out by the theorem.",
    )


@needs_transformers
def check_bottleneck(key: Key, tables: Any) -> Evidence:
    """Peak of both phases, by the theorem's own expressions, and the length from which the prompt is the larger."""
    shape = llama_8b()
    kept = (K_CASE + 1024) * shape.token
    # n at which r w + 2 h n d = m w + 2 m h (k + t) d
    even = ((shape.depth - R_CASE) * shape.layer + shape.depth * kept) / shape.token
    first = shape.prompt(N_CASE, K_CASE, R_CASE) / GIB
    then = shape.generation(N_CASE, K_CASE, 1024) / GIB
    return Evidence(
        (
            Case(
                "standard: generation needs at least as much as the prompt",
                predict=first[0],
                observe=then[0],
                rival=first[0] + 1,
                relation="at least",
                tolerance=0.0,
                rival_says="1 GiB more",
                unit="GiB",
            ),
            Case(
                "SnapKV: the prompt needs at least as much as generation",
                predict=then[1],
                observe=first[1],
                rival=then[1] + 1,
                relation="at least",
                tolerance=0.0,
                rival_says="1 GiB more",
                unit="GiB",
            ),
            Case(
                "GemFilter: the prompt needs at least as much as generation",
                predict=then[2],
                observe=first[2],
                rival=0.0,
                relation="at least",
                tolerance=0.0,
                rival_says="nothing",
                unit="GiB",
            ),
        ),
        comment=f"LLaMA 3.1 8B shape, n = {N_CASE}, k = t = {K_CASE}. GemFilter: {first[2]:.2f} GiB in pass one, "
        f"{then[2]:.2f} in generation, where all m layers are "
        f"needed; over both phases {max(first[2], then[2]):.2f} against {max(first[1], then[1]):.2f} for SnapKV, "
        f"{1 - max(first[2], then[2]) / max(first[1], then[1]):.1%} less. From n = {even / 1e6:.1f} million "
        "tokens on GemFilter's prompt needs more than its generation.",
    )


def savings(shape: Shape, n: int, r: int, k: int = K_CASE, t: int = 50) -> np.ndarray:
    """Shares saved against SnapKV and standard, in four readings: layers dropped or resident, prompt or both phases."""
    found = []
    for resident in (False, True):
        first, then = shape.prompt(n, k, r, resident), shape.generation(n, k, t)
        for total in (first, np.maximum(first, then)):
            found.append([1 - total[2] / total[1], 1 - total[2] / total[0]])
    return np.array(found)


@needs_transformers
def check_reported_savings(key: Key, tables: Any) -> Evidence:
    """30 % and 70 % beside the theorem's expressions, over prompt lengths and readings."""
    lengths = np.unique(np.geomspace(1024, N_CASE, 200).astype(int)).tolist()
    grid = np.array(
        [savings(llama_8b(heads), n, r) for heads in (8, 32) for r in (13, 14) for n in lengths]
    )  # case reading saving
    error = np.abs(grid - [0.3, 0.7]).max(-1)
    nearest = grid.reshape(-1, 2)[error.argmin()]
    dropped = savings(llama_8b(), N_CASE, R_CASE)[0]
    return Evidence(
        (
            Case(
                "larger distance to 30 % and 70 % of the nearest reading, points",
                predict=17.3,
                observe=100 * float(error.min()),
                rival=0.0,
                tolerance=0.1,
                rival_says="0: some reading gives both",
            ),
            Case(
                "shares saved in the prompt phase at 131072 tokens, 13 layers: SnapKV, standard",
                predict=[0.576, 0.801],
                observe=dropped,
                rival=[0.3, 0.7],
                tolerance=1e-3,
                rival_says="the shares of the figure",
            ),
        ),
        comment="Readings: layers past the filter dropped or resident, prompt phase or both phases, 8 or 32 key heads, "
        f"13 or 14 layers, every n up to 128K. Nearest: {nearest[0]:.0%} and {nearest[1]:.0%}. The figure measures a "
        "program, with activations, embeddings and the allocator that the theorem leaves out; that it supports the "
        "theorem, as Section 9.4.5 says, is about the order of the methods.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gemfilter.memory",
        entries=("gemfilter.theorem9_3",),
        says="The cache takes 2 m h_kv n d for the standard prompt and 2 m h_kv (k + t) d in "
        "GemFilter's second pass; the "
        "peak of pass one does not grow with the number of layers.",
        check=check_memory,
    ),
    Claim(
        "gemfilter.memory_as_reported",
        entries=("gemfilter.theorem9_3",),
        says="The cache of a prompt takes 2 m h d, whatever its length.",
        check=check_reported_prompt_memory,
        expected="refuted",
        hits="statement",
        reported="Theorem 9.3 (and G.4) gives standard attention's prompt memory as 'mw + 2mhd', and its proof '2mhd "
        "GPU memory consumption for the KV cache'; no reading of the symbols has the prompt's length in it. It is "
        "2mhnd, as the generation row, 2mh(n + t)d, has it.",
    ),
    Claim(
        "gemfilter.memory_llama_8b",
        entries=("gemfilter.theorem9_3",),
        says="LLaMA 3.1 8B shape, n = 131072, k = 1024, r = 13: 29.0, 13.6 and 5.8 GiB in the prompt "
        "phase; 13.5 instead "
        "of 5.8 while the layers past the filter stay in memory.",
        check=check_llama_bytes,
        reported="r w + 2 h n d is the memory of a program that holds r layers of weights in pass one; the released "
        "code holds all m, with which the saving against SnapKV is 1 % in place of 58 %.",
    ),
    Claim(
        "gemfilter.memory_bottleneck",
        entries=("gemfilter.case_study",),
        says="At the LLaMA 3.1 8B shape and the sizes of the case study the memory bottleneck of "
        "SnapKV and of GemFilter "
        "is the prompt, not the generation.",
        check=check_bottleneck,
        expected="refuted",
        hits="remark",
        reported="Section 9.3.2: 'for other methods, the memory bottleneck arises during prompt computation', read "
        "for GemFilter too, at the sizes of the case study. Right for SnapKV. By Theorem 9.3 GemFilter needs m w in "
        "generation and r w in pass one, 13.3 against 5.8 GiB on this shape; the sentence is true for it from some "
        "2.1 million tokens on.",
    ),
    Claim(
        "gemfilter.memory_savings",
        entries=("gemfilter.fig9_3",),
        says="Our question, whether Theorem 9.3's expressions give the measured savings of 30 % "
        "against SnapKV and 70 % "
        "against standard attention: no prompt length up to 128K and no reading gives both within 17 points.",
        check=check_reported_savings,
    ),
)
