"""What claims say against a paper: each accusation names what it hits, quotes it, and says where it stands."""

import re
from dataclasses import dataclass

import pytest

from featlearn import works
from featlearn.lab.claim import HITS


@dataclass(frozen=True)
class Spoken:
    """What a claim says against its paper: words, and which of HITS they are; "" for a remark."""

    id: str
    says: str
    words: str
    hits: str


def spoken(claim) -> Spoken:
    a = claim.accuses
    words = f"{a.place}: '{a.quote}' {a.reading}" if a else claim.remarks
    return Spoken(claim.id, claim.says, words, a.hits if a else "")


CLAIMS = {claim.id: spoken(claim) for work in works.WITH_CLAIMS for claim in works.load_claims(work)}
SPEAKING = [c for c in CLAIMS.values() if c.words]

WITHDRAWN = (
    "gemfilter.tableG_1_gains",
    "gemfilter.tableG_1_comparable",
    "gemfilter.table9_1_orders",
    "gemfilter.table9_1_negligible",
    "gemfilter.table9_2_layers",
    "gemfilter.measured_rows",
    "gemfilter.measured_fig9_4_raw",
    "gemfilter.time_generation",
    "gemfilter.fig9_4_score",
    "gemfilter.snapkv_baseline",
    "gemfilter.speedup",
    "gemfilter.memory_llama_8b",
    "gemfilter.rope_positions",
    "gemfilter.algorithm2_selection",
    "gemfilter.algorithm2_ranking",
    "fourier.all_frequencies",
    "fourier.cosine_of_sums",
    "fourier.combinations",
    "fourier.trained_recipe",
    "fourier.grokking",
    "fourier.saddle",
    "fourier.necessary_neurons",
    "fourier.trained_starts",
    "amplification.lemma5",
    "amplification.cosines",
    "gemfilter.time_generation_same",
    "xor_sgd.clean_grad",
    "xor_sgd.lemmaD6",
    "xor_sgd.margins",
)
"""Accused a paper once and did not stand: nothing of the paper is hit."""
WITHDRAWN_ELSEWHERE: tuple[str, ...] = (
    "tradeoff.theorem7_2_order",
    "tradeoff.table_fewer_labels",
    "tradeoff.table_consistently",
    "tradeoff.table_probing",
    "gradient_features.theorem_b56_trained",
    "gradient_features.claim_xor_kernels",
    "gradient_features.assumption3_1",
    "gradient_features.theorem3_12",
    "gradient_features.theorem_b62",
    "gradient_features.algorithm7",
    "gradient_features.definition_b46",
    "gradient_features.definition_uniform_parity",
    "gradient_features.lemma3_21_norm",
    "gradient_features.lemma3_17_network",
    "gradient_features.lemma_b59",
    "gradient_features.lemma_b73",
    "emergence.seed_spread",
    "emergence.clusters_covered",
    "emergence.interval_ntk",
    "emergence.interval_one_step",
    "emergence.order2",
    "emergence.order3",
    "emergence.order4",
    "emergence.one_step_cosine",
    "emergence.corollary3",
    "emergence.lemma5",
    "emergence.definition_data",
    "emergence.definition_interval",
    "emergence.lemma24",
    "emergence.theorem1",
    "emergence.theorem2",
    "emergence.theorem29",
    "emergence.theorem4",
    "emergence.algorithm1_regulariser",
    "nuclear.stable_rank_reported",
    "nuclear.data_model",
    "nuclear.digits_rank",
    "nuclear.method",
    "nuclear.fig6_2_accuracy",
    "nuclear.fig6_3_converged",
    "nuclear.lemma6_1",
    "nuclear.lemma6_1_any_lambda",
    "nuclear.lemma6_1_e31",
    "nuclear.lemma6_2",
    "nuclear.prop6_3_e49",
    "nuclear.trained_erm",
    "nuclear.trained_order",
    "looped.figure8_1_gap",
)
"""The same of the other works."""

GONE: tuple[str, ...] = (
    "gemfilter.table9_1_h2o",
    "gemfilter.table9_2_each",
    "gemfilter.table9_1_budgets",
    "gemfilter.table9_1_kept",
    "gemfilter.measured_figG_3_largest",
    "gemfilter.case_study_generation_time",
    "gemfilter.figG_3_floor",
    "gemfilter.figG_5_sets",
    "gemfilter.fig9_6_speedup",
    "gemfilter.memory_savings",
    "amplification.reported_start",
    "gradient_features.prop_b1_random",
    "gradient_features.theorem_b56",
    "gradient_features.assumption3_1_logistic",
    "nuclear.fig6_3_accuracy",
    "nuclear.table6_1_significant",
    "nuclear.table6_2_domains",
    "nuclear.tableE_6_order",
    "nuclear.stable_rank_lipschitz",
    "nuclear.method_batch",
    "nuclear.method_listing",
    "nuclear.prop6_3_constant",
    "tradeoff.table_baselines",
)
"""Claims that accused a paper and did not stand, and that no longer exist: merged into others, or dropped."""

QUOTED = re.compile(r"'[^']{3,}'|\"[^\"]{3,}\"|\u201c[^\u201d]{3,}\u201d|\([A-Z]?\.?\d+[.\d]*\)")
"""Words in quotation marks, or the number of an equation."""
PLACE = re.compile(
    r"\b(Theorem|Lemma|Proposition|Corollary|Claim|Section|Eq\.|Equation|Table|Figure|Appendix|Definition|Condition|"
    r"Assumption|Remark|Algorithm|Proof of \w+)s? \(?([A-Z]\b|[A-Z]?\.?\d)|\b(Thesis|thesis|paper), [A-Z\d]\.\d"
)
ACCUSING = re.compile(r"\b(misprint|typo|(is|are) (wrong|false)|(must|should) be|fails|contradicts)\b")


def test_every_work_is_looked_at():
    assert len(works.WITH_CLAIMS) == 11
    assert {c.id.partition(".")[0] for c in SPEAKING} == set(works.WITH_CLAIMS)


@pytest.mark.parametrize("claim", SPEAKING, ids=lambda c: c.id)
def test_an_accusation_quotes_what_it_hits_and_says_where(claim: Spoken):
    if claim.hits:
        assert claim.hits in HITS
        assert QUOTED.search(claim.words), "no words of the paper in quotation marks, and no equation number"
        assert PLACE.search(claim.words), "no place: Theorem 4.9, Section 9.4.2, Appendix D, ..."
    else:
        assert not ACCUSING.search(claim.words), "accuses, and does not say what it hits"


@pytest.mark.parametrize("id_", [*WITHDRAWN, *WITHDRAWN_ELSEWHERE])
def test_what_did_not_stand_hits_nothing(id_: str):
    assert id_ in CLAIMS
    assert CLAIMS[id_].hits == ""


def test_what_is_gone_has_not_come_back_unseen():
    assert [id_ for id_ in GONE if id_ in CLAIMS] == []


@pytest.mark.parametrize(
    ("text", "quoted", "placed"),
    [
        ("Theorem 4.9: 'at least one neuron' is right.", True, True),
        ("Thesis, Lemma B.21, (B.151): a factor.", True, True),
        ("Appendix D, \u201cwhich holds\u201d.", True, True),
        ("Thesis, 6.3.1, 'until convergence'.", True, True),
        ("The proof loses a factor.", False, False),
        ("Somewhere 'it is said' so.", True, False),
        ("Section 9.4.2 is wrong.", False, True),
    ],
)
def test_what_counts_as_a_quotation_and_a_place(text, quoted, placed):
    assert (bool(QUOTED.search(text)), bool(PLACE.search(text))) == (quoted, placed)
