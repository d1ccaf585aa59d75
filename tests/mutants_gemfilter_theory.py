"""Mutants of the claims about GemFilter, for the runner of `tests/test_mutants.py`."""

_LITERAL, _METER, _MEASURED = (
    f"src/featlearn/works/gemfilter/claims/{name}.py" for name in ("literal", "meters", "measured")
)
_ROWS_FILE = "src/featlearn/works/gemfilter/rows.py"
_VERDICT = "tests/works/test_typed_claims.py::test_the_verdict_stands_and_planted_numbers_are_told_apart"
_ROWS = "tests/works/gemfilter/test_gemfilter_measured.py::test_"
_METERS = "tests/works/gemfilter/test_gemfilter_meters.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    # the rules written out
    (_LITERAL, "(j < sinks) |", "(j <= sinks) |", f"{_VERDICT}[gemfilter.shipped_chunked]"),
    (_LITERAL, "[:, -16:].sum(1)", "[:, -15:].sum(1)", f"{_VERDICT}[gemfilter.shipped_selection]"),
    (_LITERAL, "/ np.sqrt(HEAD_DIM)", "", f"{_VERDICT}[gemfilter.snapkv_baseline]"),
    # prompts, or needles of one kind, as independent units
    (
        _ROWS_FILE,
        'needles.setdefault(getattr(row, "needle", 0), [])',
        "needles.setdefault(id(row), [])",
        f"{_ROWS}needles_of_a_kind_count_together",
    ),
    (
        _ROWS_FILE,
        "found.setdefault(getattr(row, table.kind.unit), {})",
        'found.setdefault(getattr(row, "needle", 0), {})',
        f"{_ROWS}needles_of_a_kind_count_together",
    ),
    (_ROWS_FILE, "FLOOR = 10.0", "FLOOR = 0.0", f"{_ROWS}tasks_in_which_the_full_cache_fails_are_left_out"),
    (_MEASURED, "MARGIN = 5.0", "MARGIN = 80.0", f"{_ROWS}other_rows_contradict_it[fig9_4]"),
    # weights counted among what a pass makes
    (_METER, "and name not in self._weights", "", f"{_METERS}bytes_follow_storages_not_views_or_weights"),
    (
        _METER,
        "a.numel() * b.shape[-1]",
        "a.numel() * b.shape[-2]",
        f"{_METERS}products_are_sorted_by_kind_and_counted_exactly",
    ),
]
