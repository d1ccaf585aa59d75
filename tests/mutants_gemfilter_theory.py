"""Mutants of the claims about GemFilter, for the runner of `tests/test_mutants.py`: no transformers needed for most."""

_FIGURES, _TABLES, _TINY = (f"src/featlearn/works/gemfilter/claims/{name}.py" for name in ("figures", "tables", "tiny"))
_VERDICT = "tests/works/gemfilter/test_gemfilter_claims.py::test_verdict_is_the_expected_one"
_METERS = "tests/works/gemfilter/test_gemfilter_meters.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (_FIGURES, '"Phi, GemFilter, \'totally correct\'": ("Sit', '"Phi": ("Stand', f"{_VERDICT}[fig9_4_score]"),
    (_FIGURES, "np.abs(gaps).min(1)", "gaps.min(1)", f"{_VERDICT}[fig9_5_distance]"),
    (
        _TABLES,
        '"mf_en": 4559,\n    "hotpotqa": 9151,',
        '"mf_en": 9151,\n    "hotpotqa": 91510,',
        f"{_VERDICT}[table9_1_kept]",
    ),
    (_TABLES, 'if k not in ("average", "pre")', 'if k not in ("average",)', f"{_VERDICT}[table9_1_h2o]"),
    # weights counted among what a pass makes
    (_TINY, "and name not in self._weights", "", f"{_METERS}bytes_follow_storages_not_views_or_weights"),
    (
        _TINY,
        "a.numel() * b.shape[-1]",
        "a.numel() * b.shape[-2]",
        f"{_METERS}products_are_sorted_by_kind_and_counted_exactly",
    ),
]
