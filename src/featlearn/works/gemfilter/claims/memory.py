"""Theorem 9.3, memory: bytes of live tensors in tiny models, and of the LLaMA 3.1 8B shape on the meta device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim, Premise
from featlearn.lab.inventory import entry
from featlearn.lab.quantity import COUNT, EXPONENT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import Statement, at_least, at_most, both, equal
from featlearn.lab.uncertainty import Observation
from featlearn.methods.gemfilter import RAW, generate, select
from featlearn.methods.kv_eviction import cache_of, kv_bytes
from featlearn.works.gemfilter.claims.meters import continue_from, count_bytes
from featlearn.works.gemfilter.setup import GROUPS, HEAD_DIM, HEADS, K_CASE, N_CASE, R_CASE, decoder, prompt

GIB = 2**30
DEPTHS, N, K, T = np.array([2, 4, 6]), 96, 24, 6
FILTERS = (2, 3, 4, 5)
THEOREM = "Theorem 9.3"
CASE = "Section 9.3.2, Case Study"


# --- tiny models -----------------------------------------------------------------------------------------------------


def entries(layers: Any, tokens: Any, heads: int = GROUPS) -> Any:
    """2 m h_kv n d, in float32."""
    return 2.0 * layers * heads * tokens * HEAD_DIM * 4


def of_depths(key: Key) -> tuple[list[Any], Tensor]:
    """Models of three depths and one prompt."""
    return [decoder(key / m, m) for m in DEPTHS.tolist()], prompt(key / "ids", N)


def says_memory(settings: tuple[list[Any], Tensor]) -> Sequence[Statement]:
    """2 m h_kv n d for the prompt, 2 m h_kv (k + t) d for the second pass, one layer at most in pass one."""
    deepest, whole = int(DEPTHS[-1]), entries(1, N)
    return (
        equal(
            "cache of a standard prompt, m = 2, 4, 6",
            COUNT,
            entries(DEPTHS, N),
            f"{THEOREM}: 2 m h n d with h_kv for grouped heads",
            axis="m",
            rival=entries(DEPTHS, N, HEADS),
            rival_says="query heads for h_kv",
        ),
        equal(
            "growth of the peak a layer: standard",
            COUNT,
            np.full(2, whole),
            f"{THEOREM}: keys and values of every layer stay",
            axis="m",
            rival=np.full(2, whole / 2),
            rival_says="keys alone",
        ),
        equal(
            "growth of the peak a layer: pass one",
            REAL,
            np.zeros(3),
            f"{THEOREM}: 2 h n d, whatever r",
            axis="r",
            rival=np.full(3, whole),
            rival_says="one more layer of keys and values",
        ),
        equal(
            "left behind by pass one beside the scores",
            COUNT,
            np.full(4, N + 8.0 * K),
            "Algorithm 2: k indices, here with a mask of n",
            axis="r",
            rival=np.full(4, N + 8.0 * K + whole),
            rival_says="its layer's keys and values, too",
        ),
        equal(
            "cache after GemFilter's reply",
            COUNT,
            entries(deepest, K + T - 1),
            f"{THEOREM}: 2 m h (k + t) d; the last new token is never fed",
            rival=entries(deepest, N + T - 1),
            rival_says="n for k",
        ),
    )


def sees_memory(settings: tuple[list[Any], Tensor], key: Key) -> Mapping[str, Observation]:
    """Every tensor that an operation makes, counted."""
    models, ids = settings
    standard, peaks = [], []
    for model in models:
        with count_bytes(model) as seen:
            filled = cache_of(continue_from(model, ids))
        standard.append(float(kv_bytes(filled)))
        peaks.append(float(seen.peak))
        del filled
    early, left = [], []
    for r in FILTERS:
        with count_bytes(models[-1]) as seen:
            chosen = select(models[-1], ids, layer=r, keep=K, scoring=RAW)
        early.append(float(seen.peak))
        left.append(float(seen.now - chosen.scores.untyped_storage().nbytes()))
        del chosen
    made = generate(models[-1], ids, layer=2, keep=K, scoring=RAW, max_new_tokens=T, return_dict_in_generate=True)
    return {
        "cache of a standard prompt, m = 2, 4, 6": np.array(standard),
        "growth of the peak a layer: standard": np.diff(peaks) / 2,
        "growth of the peak a layer: pass one": np.diff(early),
        "left behind by pass one beside the scores": np.array(left),
        "cache after GemFilter's reply": float(kv_bytes(cache_of(made.output))),
    }


TOKENS = np.array([16, 32, 64])


def of_lengths(key: Key) -> tuple[Any, list[Tensor]]:
    """One model and prompts of three lengths."""
    return decoder(key / "model", 3), [prompt(key / n, n) for n in TOKENS.tolist()]


def says_as_reported(settings: tuple[Any, list[Tensor]]) -> Sequence[Statement]:
    """2 m h d has no n in it."""
    return both(
        "exponent in n of the cache of a standard prompt",
        EXPONENT,
        f"{THEOREM}: m w + 2 m h d",
        reported=0.0,
        corrected=1.0,
        says="2 m h n d, as the generation row, 2 m h (n + t) d, has it",
        margin=1e-9,
    )


def sees_as_reported(settings: tuple[Any, list[Tensor]], key: Key) -> Mapping[str, Observation]:
    """Bytes of the model's own cache."""
    model, prompts = settings
    seen = [kv_bytes(cache_of(continue_from(model, ids))) for ids in prompts]
    return {"exponent in n of the cache of a standard prompt": float(np.polyfit(np.log(TOKENS), np.log(seen), 1)[0])}


# --- the LLaMA 3.1 8B shape ------------------------------------------------------------------------------------------

DEPTH, HIDDEN, INNER, KV_WIDTH = 32, 4096, 14336, 1024


@dataclass(frozen=True)
class Bytes:
    """Of a layer's weights, and of one token's keys and values in one layer."""

    layer: float
    token: float

    def prompt(self, n: Any, resident: bool = False) -> np.ndarray:
        """Prompt phase: standard, SnapKV, GemFilter. resident: layers past the filter stay in memory."""
        weights = DEPTH * self.layer
        early = weights if resident else R_CASE * self.layer
        kept = DEPTH * K_CASE * self.token
        return np.array([weights + DEPTH * n * self.token, weights + n * self.token + kept, early + n * self.token])


def by_hand() -> Bytes:
    """Two bytes a number: queries and output, keys and values of 8 of 32 heads, three maps of the MLP, two norms."""
    weights = 2 * HIDDEN**2 + 2 * HIDDEN * KV_WIDTH + 3 * HIDDEN * INNER + 2 * HIDDEN
    return Bytes(2.0 * weights, 2.0 * 2 * KV_WIDTH)


def held(layers: int, *caches: tuple[int, int]) -> float:
    """GiB of weights of `layers` layers and of caches of (layers, tokens): tensors of the shape without storage.

    Errors: ImportError without transformers.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=1,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=131072,
    )
    total = 0
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config).half()
        layer = model.get_decoder().layers[0]
        for depth, tokens in caches:
            hidden = torch.empty(1, tokens, HIDDEN, dtype=torch.float16)
            total += depth * (layer.self_attn.k_proj(hidden).nbytes + layer.self_attn.v_proj(hidden).nbytes)
    return (total + layers * sum(p.nbytes for p in layer.parameters())) / GIB


def says_llama(settings: None) -> Sequence[Statement]:
    """m w + 2 m h n d, m w + 2 h n d + 2 m h k d, r w + 2 h n d in GiB."""
    shape = by_hand()
    repeated = Bytes(shape.layer, 4 * shape.token)
    source = f"{THEOREM} at n = 131072, k = 1024, r = 13, half precision, h_kv = 8"
    return (
        equal(
            "GiB of a layer's weights",
            POSITIVE,
            shape.layer / GIB,
            "w of LLaMA 3.1 8B",
            margin=1e-9,
            rival=(shape.layer - 4 * HIDDEN * KV_WIDTH) / GIB,
            rival_says="without the key and value projections",
        ),
        equal(
            "GiB of the prompt: standard, SnapKV, GemFilter",
            POSITIVE,
            shape.prompt(N_CASE) / GIB,
            source,
            axis="method",
            margin=1e-9,
            rival=repeated.prompt(N_CASE) / GIB,
            rival_says="32 heads in place of 8",
        ),
        equal(
            "share saved against SnapKV with all layers resident",
            SHARE,
            1 - shape.prompt(N_CASE, True)[2] / shape.prompt(N_CASE)[1],
            f"{source}: m w for r w, a program that keeps every layer",
            margin=1e-9,
            form="derived",
            rival=1 - shape.prompt(N_CASE)[2] / shape.prompt(N_CASE)[1],
            rival_says="layers past the filter not in memory",
        ),
        equal(
            "generation memory over m h d: SnapKV and GemFilter, less w / (h d)",
            POSITIVE,
            4.0 * K_CASE,
            f"{CASE}: w/hd + 4k at t = k",
            margin=1e-6,
            rival=2.0 * K_CASE,
            rival_says="the reply's own cache left out",
        ),
        at_least(
            "SnapKV, GiB of the prompt less those of generation",
            REAL,
            0.0,
            "Section 9.3.2: the bottleneck of other methods is the prompt",
            rival=-1.0,
            rival_says="generation needs more",
        ),
        at_least(
            "GemFilter, GiB of the prompt less those of generation, n = 2^23",
            REAL,
            0.0,
            "Section 9.3.2, for n large: r w + 2 h n d against m w + 2 m h (k + t) d",
            rival=-1.0,
            rival_says="generation needs more",
        ),
        at_most(
            "reported savings of memory: SnapKV, standard",
            SHARE,
            np.array([1 - shape.prompt(N_CASE)[2] / shape.prompt(N_CASE)[i] for i in (1, 0)]),
            f"Section 9.4.5, 'supports our theory': at most what {source} saves",
            axis="rival",
            form="derived",
        ),
    )


def percent(words: str) -> float:
    """ "30%" -> .3."""
    return float(words.rstrip("%")) / 100


def sees_llama(settings: None, key: Key) -> Mapping[str, Observation]:
    """The same from tensors of the shape; the numbers of the figure."""
    numbers, far, one_layer = entry("gemfilter.fig9_3").numbers, 2**23, (1, N_CASE)
    kept, both_kept = (DEPTH, K_CASE), (DEPTH, 2 * K_CASE)
    snap, after = held(DEPTH, one_layer, kept), held(DEPTH, both_kept)
    return {
        "GiB of a layer's weights": held(1),
        "GiB of the prompt: standard, SnapKV, GemFilter": np.array(
            [held(DEPTH, (DEPTH, N_CASE)), snap, held(R_CASE, one_layer)]
        ),
        "share saved against SnapKV with all layers resident": 1 - held(DEPTH, one_layer) / snap,
        "generation memory over m h d: SnapKV and GemFilter, less w / (h d)": (after - held(DEPTH))
        * GIB
        / (DEPTH * 2 * KV_WIDTH),
        "SnapKV, GiB of the prompt less those of generation": snap - after,
        "GemFilter, GiB of the prompt less those of generation, n = 2^23": held(R_CASE, (1, far)) - after,
        "reported savings of memory: SnapKV, standard": np.array(
            [percent(numbers["memory_cut_vs_snapkv"]), percent(numbers["memory_cut_vs_full"])]
        ),
    }


def says_case(settings: None) -> Sequence[Statement]:
    """mw + mhd : mw + hnd, which leaves out factors of 2 and SnapKV's kept entries."""
    shape = by_hand()
    weights, one = DEPTH * shape.layer, shape.token
    return both(
        "prompt memory of standard attention over that of SnapKV",
        POSITIVE,
        f"{CASE}: mw + mhd : mw + hnd",
        reported=(weights + DEPTH * one) / (weights + N_CASE * one),
        corrected=(weights + DEPTH * N_CASE * one) / (weights + N_CASE * one),
        says="mw + mhnd for the first term",
        margin=0.1,
    )


def sees_case(settings: None, key: Key) -> Mapping[str, Observation]:
    """Bytes of weights and caches, SnapKV's kept entries included."""
    standard, snap = held(DEPTH, (DEPTH, N_CASE)), held(DEPTH, (1, N_CASE), (DEPTH, K_CASE))
    return {"prompt memory of standard attention over that of SnapKV": standard / snap}


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="gemfilter.memory",
        entries=("gemfilter.theorem9_3",),
        says="The cache takes 2 m h_kv n d for the standard prompt and 2 m h_kv (k + t) d in GemFilter's second pass; "
        "the peak of pass one does not grow with the number of layers.",
        settings=of_depths,
        statements=says_memory,
        observe=sees_memory,
        premises=(Premise("n >= max(d, k, t)", True, f"n = {N}"),),
        remarks="Pass one holds no keys and values of the layers before r, and of layer r its keys alone. SnapKV's "
        "row, 2 h n d + 2 m h k d, needs a program that drops entries inside the forward pass; ours reads the whole "
        "prompt first, so its peak is that of standard attention and is not charged to SnapKV.",
    ),
    Claim(
        id="gemfilter.memory_as_reported",
        entries=("gemfilter.theorem9_3",),
        says="The cache of a prompt takes 2 m h d, whatever its length.",
        settings=of_lengths,
        statements=says_as_reported,
        observe=sees_as_reported,
        accuses=Accusation(
            quote="mw + 2mhd",
            place="Thesis, Theorem 9.3 (and G.4), prompt memory of standard attention",
            reading="bytes of the key and value cache of the prompt; no reading of the symbols has its length in them",
            hits="misprint",
            derivation="Every token of the prompt has its own keys and values in each layer: 2mhnd. The generation row "
            "of the same table, 2mh(n + t)d, has the n, so that it is a letter left out.",
        ),
    ),
    Claim(
        id="gemfilter.memory_llama_8b",
        entries=("gemfilter.theorem9_3", "gemfilter.case_study", "gemfilter.fig9_3"),
        says="LLaMA 3.1 8B shape: prompt and generation memory by Theorem 9.3 at the sizes of the case study, with and "
        "without the layers past the filter; the prompt is the bottleneck of other methods there, and of GemFilter "
        "only far beyond, seen here at eight million tokens.",
        statements=says_llama,
        observe=sees_llama,
        remarks="r w is reached only by a program that keeps layers past the filter out of memory during pass one, as "
        "`offload=True` does; the released code holds all m. With all layers "
        "resident its prompt takes more than its generation at the sizes of the case study too, as the sentence on the "
        "bottleneck has it; with r w, generation, which needs all weights, takes more up to about 2 million tokens. "
        "Embeddings, lm_head and activations are left out, as in the theorem; the figure measures a "
        "program with them.",
    ),
    Claim(
        id="gemfilter.case_study_prompt_memory",
        entries=("gemfilter.case_study",),
        says="Prompt memory is mw + mhd : mw + hnd : rw + hnd.",
        statements=says_case,
        observe=sees_case,
        accuses=Accusation(
            quote="Standard attention : SnapKV/H2O : GemFilter ≈ mw + mhd : mw + hnd : rw + hnd",
            place=f"Thesis, {CASE}",
            reading="prompt memory for n = 128K, up to factors of 2 and what n much larger than m k allows to drop",
            hits="misprint",
            derivation="It is the letter that is left out in Theorem 9.3, once more (gemfilter.memory_as_reported): by "
            "its generation row the first term is mw + mhnd. Without n, standard attention, which keeps every key and "
            "value, would need less than SnapKV, which keeps a part of them. The conclusion drawn from it holds.",
        ),
    ),
)
