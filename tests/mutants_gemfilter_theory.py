"""Mutants of the claims about GemFilter, for the runner of `tests/test_mutants.py`: no transformers needed for most."""

_ATTENTION, _FIGURES, _MEASURED, _TABLES, _TINY = (
    f"src/featlearn/works/gemfilter/claims/{name}.py" for name in ("attention", "figures", "measured", "tables", "tiny")
)
_VERDICT = "tests/works/gemfilter/test_gemfilter_claims.py::test_verdict_is_the_expected_one"
_ROWS = "tests/works/gemfilter/test_gemfilter_measured.py::test_"
_METERS = "tests/works/gemfilter/test_gemfilter_meters.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (_ATTENTION, "masked_fill(~mask, -torch.inf), dim=-1)", "masked_fill(~mask, 0.0), dim=-1)", f"{_VERDICT}[def9_1]"),
    (_FIGURES, '"Phi, GemFilter, \'totally correct\'": ("Sit', '"Phi": ("Stand', f"{_VERDICT}[fig9_4_score]"),
    (_FIGURES, "np.abs(gaps).min(1)", "gaps.min(1)", f"{_VERDICT}[fig9_5_distance]"),
    (
        _TABLES,
        '"mf_en": 4559,\n    "hotpotqa": 9151,',
        '"mf_en": 9151,\n    "hotpotqa": 91510,',
        f"{_VERDICT}[table9_1_kept]",
    ),
    (_TABLES, 'if k not in ("average", "pre")', 'if k not in ("average",)', f"{_VERDICT}[table9_1_h2o]"),
    # prompts of one needle as independent units
    (
        _MEASURED,
        "found.setdefault(tuple(r[name] for name in by), [])",
        "found.setdefault((id(r),), [])",
        f"{_ROWS}needles_are_the_units_not_prompts",
    ),
    (_MEASURED, "share: float = 0.98", "share: float = 0.90", f"{_ROWS}separated_has_its_error_rate"),
    (
        _MEASURED,
        'less["with template"] + 3.1',
        'less["with template"]',
        f"{_ROWS}a_few_points_below_are_within_what_the_claim_allows",
    ),
    # weights counted among what a pass makes
    (_TINY, "and name not in self._weights", "", f"{_METERS}bytes_follow_storages_not_views_or_weights"),
    (
        _TINY,
        "a.numel() * b.shape[-1]",
        "a.numel() * b.shape[-2]",
        f"{_METERS}products_are_sorted_by_kind_and_counted_exactly",
    ),
]
