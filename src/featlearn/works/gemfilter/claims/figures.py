"""What the figures and the case study say in numbers: ratios, bounds on speed, the needle score, index sets."""

import math
from typing import Any

import numpy as np

from featlearn.core import Key
from featlearn.lab.inventory import entry, reported
from featlearn.lab.pending import Case, Claim, Evidence
from featlearn.methods.gemfilter import RAW, select
from featlearn.tasks.needles import overlap
from featlearn.works.gemfilter.claims.memory import K_CASE, N_CASE, R_CASE, llama_8b
from featlearn.works.gemfilter.claims.tiny import HEADS, count_products, decoder, needs_transformers, prompt, run_layers

# --- case study ------------------------------------------------------------------------------------------------------


@needs_transformers
def check_case_study(key: Key, tables: Any) -> Evidence:
    """Limits for n much larger than k = t, from exact sums and measured bytes."""
    shape, h_d, t = llama_8b(32), 4096, K_CASE
    unit = shape.depth * h_d * 2  # m h d elements of two bytes
    memory = shape.generation(N_CASE, K_CASE, t) / unit
    weights = shape.layer / (2 * h_d)
    limit = np.array([weights + 2 * N_CASE, weights + 4 * K_CASE, weights + 4 * K_CASE])
    steps = np.arange(1, t + 1)
    time = np.array([(N_CASE + steps).sum(), (K_CASE + steps).sum(), K_CASE**2 + (K_CASE + steps).sum()]) / t
    share = time / [N_CASE, K_CASE, K_CASE]
    return Evidence(
        (
            Case(
                "generation memory over m h d: w/(hd) + 4k for SnapKV and GemFilter",
                predict=limit[1:],
                observe=memory[1:],
                rival=limit[1:] - 2 * K_CASE,
                tolerance=1e-6,
                rival_says="w/(hd) + 2k: the reply's cache left out",
            ),
            Case(
                "the same for standard attention over w/(hd) + 2n",
                predict=1.01,
                observe=memory[0] / limit[0],
                rival=1.001,
                relation="at most",
                tolerance=0.0,
                rival_says="within a thousandth",
            ),
            Case(
                "attention per generated token over n, k, k",
                predict=2.5 + 1e-3,
                observe=share,
                rival=[1.5, 1.5, 1.5],
                relation="at most",
                tolerance=0.0,
                rival_says="within 1.5: GemFilter's second prompt",
            ),
        ),
        comment=f"n = {N_CASE}, k = t = {K_CASE}: attention per generated token is {share[0]:.2f} n, {share[1]:.2f} k "
        f"and {share[2]:.2f} k. Here h counts key heads as query heads, as the theorem does.",
    )


@needs_transformers
def check_case_prompt_memory(key: Key, tables: Any) -> Evidence:
    """The reported ratio of prompt memory against the theorem's expressions, in elements."""
    shape, h_d = llama_8b(32), 4096
    w = shape.layer / 2
    exact = shape.prompt(N_CASE, K_CASE, R_CASE)
    shown = np.array([32 * w + 32 * h_d, 32 * w + h_d * N_CASE, R_CASE * w + h_d * N_CASE])
    with_n = np.array([32 * w + 32 * h_d * N_CASE, *shown[1:]])
    return Evidence(
        (
            Case(
                "standard over SnapKV, at least 1",
                predict=1.0,
                observe=exact[0] / exact[1],
                rival=10.0,
                relation="at least",
                tolerance=0.0,
                rival_says="10",
            ),
            Case(
                "standard over SnapKV, mw + mhnd : mw + hnd, at least 1",
                predict=1.0,
                observe=with_n[0] / with_n[1],
                rival=10.0,
                relation="at least",
                tolerance=0.0,
                rival_says="10",
            ),
            Case(
                "standard over SnapKV as reported, mw + mhd : mw + hnd, at least 1",
                predict=1.0,
                observe=shown[0] / shown[1],
                rival=0.5,
                relation="at least",
                tolerance=0.0,
                rival_says="half",
            ),
            Case(
                "SnapKV's kept cache over one layer's, which the ratio leaves out",
                predict=0.25,
                observe=32 * K_CASE / N_CASE,
                rival=1.0,
                tolerance=1e-9,
                rival_says="as much as it",
            ),
        ),
        comment=f"Standard over SnapKV is {exact[0] / exact[1]:.2f} by the theorem with n, {with_n[0] / with_n[1]:.2f} "
        f"by the ratio with n and {shown[0] / shown[1]:.2f} by the ratio as reported: without n standard attention "
        "would need less memory than SnapKV. Factors of 2, and SnapKV's 2 m h k d, are left out under the sign for "
        "'approximately', which n much larger than m k allows.",
    )


@needs_transformers
def check_case_generation_time(key: Key, tables: Any) -> Evidence:
    """All products of a generated token, weights included, with n and with k tokens in the cache."""
    shape, h_d = llama_8b(), 4096
    weights = shape.layer / 2

    def products(n: Any) -> Any:
        return weights + np.asarray(n, dtype=float) * 2 * h_d

    ratio = float(products(N_CASE) / products(K_CASE))
    moved = float(np.divide(*shape.generation(N_CASE, K_CASE, 1)[:2]))
    far = np.geomspace(1e8, 1e10, 5)
    return Evidence(
        (
            Case(
                "attention alone: n / k",
                predict=N_CASE / K_CASE,
                observe=(products(N_CASE) - weights) / (products(K_CASE) - weights),
                rival=64.0,
                tolerance=1e-9,
                rival_says="half of it",
            ),
            Case(
                "exponent in n of all products of a layer, n from 1e8",
                predict=1.0,
                observe=float(np.polyfit(np.log(far), np.log(products(far) / products(K_CASE)), 1)[0]),
                rival=0.0,
                tolerance=0.01,
                rival_says="0: no growth",
            ),
            Case(
                "all products of a layer, 131072 over 1024 tokens",
                predict=5.7,
                observe=ratio,
                rival=N_CASE / K_CASE,
                tolerance=0.05,
                rival_says="n / k: weights left out",
            ),
        ),
        comment=f"Standard over SnapKV and GemFilter, per generated token on the LLaMA 3.1 8B shape: {ratio:.1f} in "
        f"multiply-adds and {moved:.1f} in bytes of weights and cache read; 128 in attention alone. Theta(n : k : k) "
        "is about n large against the weights, some 27k tokens here.",
    )


# --- ratios of tokens and of time ------------------------------------------------------------------------------------


def check_compression(key: Key, tables: Any) -> Evidence:
    """Tokens in over tokens kept, of every number that the text gives for Figure 9.1."""
    setting = entry("gemfilter.fig9_1").setting
    n, k = setting["n"], setting["k"]
    lengths = np.linspace(1000, 128000, 40)
    lengths = lengths[lengths <= 120000]
    shares = np.minimum(1, 1024 / lengths)
    return Evidence(
        (
            Case(
                "n / k of Figure 9.1, at least 1000",
                predict=1000.0,
                observe=n / k,
                rival=1082.0,
                relation="at least",
                tolerance=0.0,
                rival_says="1082",
            ),
            Case(
                "n / k",
                predict=entry("gemfilter.fig9_1").derived["compression"],
                observe=n / k,
                rival=n / 1024,
                tolerance=0.005,
                rival_says="k = 1024, which 9.3.1 gives for this figure",
            ),
            Case(
                "share kept with k = 1024 at 120K tokens, at most 1 %",
                predict=0.01,
                observe=1024 / 120000,
                rival=0.005,
                relation="at most",
                tolerance=0.0,
                rival_says="half a percent",
            ),
            Case(
                "the same, mean over the 37 lengths of the grid up to 120K, at least 5 %",
                predict=0.05,
                observe=shares.mean(),
                rival=0.1,
                relation="at least",
                tolerance=0.0,
                rival_says="10 %",
            ),
        ),
        comment=f"{n} / {k} = {n / k:.1f}; with k = 1024, as 9.3.1 has it for the same figure, {n / 1024:.1f}. The "
        f"reported averages use k >= 1024: 0.9 % of 120K tokens, {shares.mean():.1%} on average over the needle grid, "
        "8 to 32 % on LongBench.",
    )


@needs_transformers
def check_speedup(key: Key, tables: Any) -> Evidence:
    """The reported speed-up against m / r, and m / r against all products that tiny models multiply."""
    m, r, ratio = 6, 2, []
    model = decoder(key / "model", m)
    for n in (64, 256):
        ids = prompt(key / n, n)
        with count_products() as full:
            run_layers(model, ids)
        with count_products() as early:
            select(model, ids, layer=r, keep=16, scoring=RAW)
        ratio.append((full.attention + full.linear + full.other) / (early.attention + early.linear + early.other))
    shown = entry("gemfilter.fig9_3").numbers["speedup_vs_snapkv"]
    return Evidence(
        (
            Case(
                "all products, full prompt over pass one, at most m / r",
                predict=m / r,
                observe=ratio,
                rival=m / (r + 1),
                relation="at most",
                tolerance=0.0,
                rival_says="m / (r + 1)",
            ),
            Case(
                "the same, at least 0.9 m / r",
                predict=0.9 * m / r,
                observe=ratio,
                rival=0.999 * m / r,
                relation="at least",
                tolerance=0.0,
                rival_says="0.999: the keys of the filter layer are not free",
            ),
            Case(
                "LLaMA 3.1 8B: 2.4 is at most m / r = 32 / 13",
                predict=32 / 13,
                observe=shown,
                rival=32 / 14,
                relation="at most",
                tolerance=0.0,
                rival_says="the 14 layers that the released code runs: 2.29",
            ),
        ),
        comment="2.4 is 97 % of 32/13 and more than 32/14 = 2.29. These are ratios of multiply-adds, not of seconds: a "
        "measured speed-up also has what else the two programs do, such as keys that a baseline repeats.",
    )


def check_other_speedups(key: Key, tables: Any) -> Evidence:
    """m / r of the two models of Figure 9.6 beside the 2.4 of its caption."""
    shown = entry("gemfilter.fig9_6").numbers["speedup"]
    bound = np.array([40 / 19, 32 / 19])
    return Evidence(
        (
            Case(
                "m / r: Mistral Nemo 40 / 19, Phi 3.5 Mini 32 / 19",
                predict=[2.105, 1.684],
                observe=bound,
                rival=[2.0, 1.6],
                tolerance=1e-3,
                rival_says="m / (r + 1), the layers that the released code runs",
            ),
            Case(
                "2.4 over m / r, at least 1",
                predict=[1.0, 1.0],
                observe=shown / bound,
                rival=[1.5, 1.5],
                relation="at least",
                tolerance=0.0,
                rival_says="1.5",
            ),
            Case(
                "m / r for LLaMA 3.1 8B, Figure 9.3, at least 2.4",
                predict=shown,
                observe=32 / 13,
                rival=2.5,
                relation="at least",
                tolerance=0.0,
                rival_says="2.5",
            ),
        ),
        comment="m / r is 2.11 and 1.68 (2.0 and 1.6 for r + 1 layers); Theorem 9.3 gives it up to constants, and the "
        "speed-up is one of seconds against another program: the released variants of these two models repeat keys and "
        "values of the baseline for every query head. The caption has the same 2.4 as Figure 9.3.",
    )


# --- needle score ----------------------------------------------------------------------------------------------------

EXPECTED = "eat a sandwich and sit in Dolores Park on a sunny day."
MOST = 11 / 12


def check_needle_score(key: Key, tables: Any) -> Evidence:
    """Reported replies and constructed ones under the score of the figures."""
    start = "The best thing to do in San Francisco is "
    replies = {
        "Mistral, GemFilter, 'totally correct'": (start + EXPECTED, 11),
        "LLaMA, GemFilter, 'totally correct'": ("Eat" + EXPECTED[3:], 11),
        "Phi, GemFilter, 'totally correct'": ("Sit in Dolores Park on a sunny day and eat a sandwich.", 9),
        "the answer without its full stop": (start + EXPECTED[:-1], 10),
        "Mistral, SnapKV, 'partially correct'": (start + "eat a sandwich.", 3),
        "LLaMA, SnapKV, 'partially correct'": ("Eat a sandwich at a deli in the Mission District.", 4),
        "Phi, SnapKV, 'partially correct'": ("Eat a sandwich.", 2),
        "a wrong reply in ordinary words": (start + "to see a museum and a show on Sunday.", 4),
    }
    got = np.array([overlap(text, EXPECTED) for text, _ in replies.values()])
    law = np.array([words for _, words in replies.values()]) / 12
    everything = " ".join([EXPECTED, EXPECTED[:-1], start]).lower()
    return Evidence(
        (
            Case(
                "most that any reply can score",
                predict=MOST,
                observe=overlap(everything, EXPECTED),
                rival=1.0,
                tolerance=1e-12,
                rival_says="1: a occurs twice among the 12 words",
            ),
            Case(
                "words shared, of 12: eight replies",
                predict=law,
                observe=got,
                rival=law * 12 / 11,
                tolerance=1e-12,
                rival_says="over the 11 distinct words",
            ),
            Case(
                "a wrong reply against the partially correct ones of Mistral and Phi, at least as much",
                predict=got[[4, 6]],
                observe=[got[7]] * 2,
                rival=got[:2],
                relation="at least",
                tolerance=0.0,
                rival_says="what a correct reply scores",
            ),
        ),
        comment="; ".join(f"{name}: {value:.3f}" for name, value in zip(replies, got, strict=True)) + ". A reply that "
        "says all of it in another order loses two words to punctuation; one that names neither sandwich nor park "
        "gets a third for a, and, in, on.",
    )


def needle_average(name: str, row: str) -> float:
    """A reported average of the needle score."""
    return reported(f"gemfilter.{name}", row=row, metric="needle_score")[0].value


def check_phi_averages(key: Key, tables: Any) -> Evidence:
    """Averages of Phi 3.5 relative to what the score allows."""
    rows = ("All KV", "SnapKV-1024", "GemFilter-1024")
    values = np.array([needle_average("figG_2", row) for row in rows])
    share = values / MOST
    return Evidence(
        (
            Case(
                "GemFilter over the most attainable",
                predict=0.993,
                observe=share[2],
                rival=values[2],
                tolerance=1e-3,
                rival_says="over 1",
            ),
            Case(
                "all three below the most attainable",
                predict=np.full(3, MOST),
                observe=values,
                rival=np.full(3, 0.9),
                relation="at most",
                tolerance=0.0,
                rival_says="0.9",
            ),
            Case(
                "GemFilter above full and SnapKV, in words of the answer out of 12",
                predict=[0.5, 0.5],
                observe=12 * (values[2] - values[:2]),
                rival=[0.6, 0.6],
                relation="at least",
                tolerance=0.0,
                rival_says="0.6 words",
            ),
        ),
        comment=f"Shares of the attainable 11/12: {', '.join(f'{s:.3f}' for s in share)}. GemFilter's lead is "
        f"{12 * (values[2] - values[0]):.2f} and {12 * (values[2] - values[1]):.2f} of twelve words per reply; the "
        "number of prompts and a spread are not given.",
    )


def check_mistral_averages(key: Key, tables: Any) -> Evidence:
    """Row ablation and one run against two, on the scale of the score."""
    rows = [needle_average("figG_3", r) for r in ("Middle-Row-1024", "Largest-Row-1024")]
    two, one = (needle_average("figG_4", r) for r in ("GemFilter", "GemFilter-One-Run"))
    common = overlap("to see a museum and a show in town on sunday", EXPECTED)
    return Evidence(
        (
            Case(
                "middle and largest row: no more than ordinary words score",
                predict=[common, common],
                observe=rows,
                rival=[0.15, 0.1],
                relation="at most",
                tolerance=0.0,
                rival_says="0.15 and 0.10",
            ),
            Case(
                "GemFilter: more than ordinary words score",
                predict=common,
                observe=two,
                rival=MOST,
                relation="at least",
                tolerance=0.0,
                rival_says="all of 11/12",
            ),
            Case(
                "two runs above one run, words of twelve",
                predict=12 * 0.011,
                observe=12 * (two - one),
                rival=1.0,
                tolerance=1e-9,
                rival_says="a whole word",
            ),
        ),
        comment=f"a, and, in, on alone score {common:.3f}: .198 and .125 are no retrieval at all. Two runs are .011, "
        "0.13 of a word per reply, above one run, which G.4.5 calls comparable.",
    )


def check_distance(key: Key, tables: Any) -> Evidence:
    """The distance of Figure 9.5 with and without absolute value, and what random tokens reach."""
    n, k, needle, length, draws = 1024, 256, 512, 20, 4000
    rng = key.numpy()
    sets = np.array([rng.choice(n, k, replace=False) for _ in range(draws)])
    covered = (sets == needle).any(1)
    gaps = sets - needle
    span = ((sets >= needle) & (sets < needle + length)).any(1)
    exact = 1 - math.prod((n - k - i) / (n - i) for i in range(length))
    error = 6 * math.sqrt(exact * (1 - exact) / draws)
    return Evidence(
        (
            Case(
                "min |j - needle| = 0 where the needle is kept",
                predict=covered,
                observe=np.abs(gaps).min(1) == 0,
                rival=gaps.min(1) == 0,
                rival_says="min (j - needle), without the absolute value",
            ),
            Case(
                "random tokens reach 0 for a needle of 20 tokens: 1 - C(n - 20, k) / C(n, k)",
                predict=exact,
                observe=span.mean(),
                rival=k / n,
                tolerance=error,
                rival_says="k / n, the chance of a single token",
            ),
        ),
        comment=f"n = {n}, k = {k}: random tokens touch such a needle in {exact:.1%} of draws, so distance 0 shows "
        "nothing there. With k = 1024 of 60000 or 120000 tokens and one needle index the chance is 1.7 or 0.9 %, and "
        "the mean distance of random tokens 29 or 59. The figure states neither k nor n.",
    )


@needs_transformers
def check_index_sets(key: Key, tables: Any) -> Evidence:
    """How many index sets each method keeps, at the reported sizes."""
    setting = entry("gemfilter.figG_5").setting["G.5"]
    m, h, k, n = (setting[x] for x in ("layers_total", "heads", "k", "n"))
    model, ids = decoder(key / "model", 4), prompt(key / "ids", 60, 3)
    chosen = select(model, ids, layer=2, keep=8, scoring=RAW)
    grouped = m * 8
    return Evidence(
        (
            Case(
                "SnapKV, Mistral Nemo: m h",
                predict=1280,
                observe=m * h,
                rival=grouped,
                rival_says="one set per key head: 320",
            ),
            Case(
                "GemFilter: index tensors per prompt",
                predict=1.0,
                observe=len(chosen.indices) / len(ids),
                rival=4 * HEADS,
                rival_says="one for every layer and head",
            ),
            Case(
                "SnapKV's sets may cover the whole prompt of G.5",
                predict=n,
                observe=m * h * k,
                rival=3 * n,
                relation="at least",
                tolerance=0.0,
                rival_says="three times over",
            ),
        ),
        comment=f"{m} layers of {h} heads with {k} indices each could reach {m * h * k} of n = {n} positions, so wide "
        "marks in the figure say little by themselves. The figure draws what GemFilter would select at every layer; "
        "Algorithm 2 uses the set of layer r.",
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "gemfilter.case_study",
        entries=("gemfilter.case_study",),
        says="For n much larger than k = t: generation time of attention n : k : k, and generation memory "
        "w/hd + 2n : w/hd + 4k : w/hd + 4k.",
        check=check_case_study,
    ),
    Claim(
        "gemfilter.case_study_prompt_memory",
        entries=("gemfilter.case_study",),
        says="Prompt memory is mw + mhd : mw + hnd : rw + hnd.",
        check=check_case_prompt_memory,
        expected="refuted",
        hits="statement",
        reported="Section 9.3.2, Case Study: 'Standard attention : SnapKV/H2O : GemFilter ≈ mw + mhd : mw + hnd : rw "
        "+ hnd', read as prompt memory for n = 128K. The first term lacks n: by the generation row of Theorem 9.3, "
        "2mh(n + t)d, it is mw + mhnd. As it stands standard attention, which keeps every key and value, would need "
        "less memory than SnapKV, which keeps a part of them.",
    ),
    Claim(
        "gemfilter.case_study_generation_time",
        entries=("gemfilter.case_study",),
        says="A generated token's attention takes n : k : k, and all its multiply-adds too as n "
        "grows; with the weights "
        "of LLaMA 3.1 8B, 128K against 1024 tokens, they differ 5.7 times, not yet 128.",
        check=check_case_generation_time,
    ),
    Claim(
        "gemfilter.fig9_1_compression",
        entries=("gemfilter.fig9_1",),
        says="108172 tokens to 100 is a reduction by more than 1000.",
        check=check_compression,
        hits="number",
        reported="Section 9.3.1 has 'k = 1024' and 'from 128K to 1024 tokens in Figure 9.1'; read as numbers of that "
        "figure they differ from its caption, 'reducing the input token length to 100' from 108,172, which is the "
        "one that gives the reported 1000 times.",
    ),
    Claim(
        "gemfilter.fig9_3_speedup",
        entries=("gemfilter.fig9_3",),
        says="Multiply-adds of the prompt fall at most by m / r; the reported 2.4 on LLaMA 3.1 8B is "
        "within m / r = 2.46 "
        "for 13 layers (14 would give 2.29).",
        check=check_speedup,
        reported="Whether the 13th layer is counted from 0 or 1 is not said; the released code counts from 0 and runs "
        "14 layers.",
    ),
    Claim(
        "gemfilter.fig9_6_speedup",
        entries=("gemfilter.fig9_6",),
        says="The multiply-adds of the prompt on Mistral Nemo and Phi 3.5 Mini fall at most by m / r "
        "= 2.11 and 1.68; the "
        "2.4 in the caption is a ratio of seconds and above both.",
        check=check_other_speedups,
    ),
    Claim(
        "gemfilter.fig9_4_score",
        entries=("gemfilter.fig9_4",),
        says="The needle score counts distinct words shared, over 12: at most 11/12, and 4/12 for ordinary words.",
        check=check_needle_score,
        reported="The score is that of the released code; the text does not describe it. Of three replies that it "
        "calls totally correct one scores 9/12, and a wrong reply in ordinary words can score more than two of the "
        "three that it calls partially correct.",
    ),
    Claim(
        "gemfilter.fig9_5_distance",
        entries=("gemfilter.fig9_5",),
        says="min |j - needle| over the kept j is 0 exactly where the needle is kept; random tokens "
        "reach it with chance "
        "1 - C(n - L, k) / C(n, k).",
        check=check_distance,
        reported="The caption calls 'min(topk_index - needle_index)' a distance: read with the absolute value, as the "
        "released code has it.",
    ),
    Claim(
        "gemfilter.figG_2_share",
        entries=("gemfilter.figG_2",),
        says="GemFilter's .910 on Phi 3.5 is 99 % of what the score allows; full attention's .851 is 93 %.",
        check=check_phi_averages,
    ),
    Claim(
        "gemfilter.figG_3_floor",
        entries=("gemfilter.figG_3", "gemfilter.figG_4"),
        says="Middle row (.198) and largest row (.125) score no more than ordinary words; one run loses .011 to two.",
        check=check_mistral_averages,
    ),
    Claim(
        "gemfilter.figG_5_sets",
        entries=("gemfilter.figG_5",),
        says="SnapKV keeps m h index sets (1280 for Mistral Nemo), GemFilter one, that of layer r.",
        check=check_index_sets,
    ),
)
