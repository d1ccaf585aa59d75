"""Mutants of the claims about GemFilter, for the runner of `tests/test_mutants.py`."""

_LITERAL, _METER, _MEASURED = (
    f"src/featlearn/works/gemfilter/claims/{name}.py" for name in ("literal", "meters", "measured")
)
_ALGORITHM, _ATTENTION, _COMPLEXITY, _EVICTION, _FIGURES, _MEMORY, _TABLES = (
    f"src/featlearn/works/gemfilter/claims/{name}.py"
    for name in ("algorithm", "attention", "complexity", "eviction", "figures", "memory", "tables")
)
_HAND = "tests/works/gemfilter/test_gemfilter_by_hand.py::test_"
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
    # rivals, sizes and thresholds that an observation is far from
    (_COMPLEXITY, "[64, 128, 256, 512]", "[64, 128, 256, 1024]", f"{_HAND}products_of_a_prompt"),
    (
        _COMPLEXITY,
        "rival=2.0 * WIDTH * PROMPT**2 + steps",
        "rival=4.0 * WIDTH * PROMPT**2 + steps",
        f"{_HAND}products_of_generated_tokens",
    ),
    (
        _COMPLEXITY,
        "(1 + k**2 / (k * NEW",
        "(2 + k**2 / (k * NEW",
        f"{_HAND}growth_of_the_second_prompt_and_of_other_operations",
    ),
    (_MEMORY, "rival=np.full(3, whole)", "rival=np.full(3, 2 * whole)", f"{_HAND}bytes_of_tiny_models"),
    (
        _MEMORY,
        "(shape.layer - 4 * HIDDEN * KV_WIDTH)",
        "(shape.layer + 4 * HIDDEN * KV_WIDTH)",
        f"{_HAND}bytes_of_the_shape_of_llama",
    ),
    (_FIGURES, "words / 11 + 1e-6", "words / 11 - 1e-6", f"{_HAND}needle_scores_and_compression"),
    (
        _FIGURES,
        "rival=(gaps == 0).any((1, 2))",
        "rival=(gaps != 0).any((1, 2))",
        f"{_HAND}distances_to_a_needle_at_512_to_531",
    ),
    (_TABLES, "14, 19, 25, 31)", "14, 19, 50, 31)", f"{_HAND}orders_of_the_tables_and_their_layers"),
    (_MEASURED, "30, 3, 64, 9", "30, 3, 64, 10", f"{_HAND}thresholds_on_runs_of_a_real_model"),
    (_MEASURED, '{"layer": at + 1}', '{"layer": at + 2}', f"{_ROWS}other_rows_contradict_it[layers next alone]"),
    (_ATTENTION, "rival=plain @ v", "rival=-plain @ v", f"{_HAND}attention_of_two_tokens"),
    (_ATTENTION, "rival=states[PREFIX + 1]", "rival=states[PREFIX - 1]", f"{_HAND}states_and_logits_of_layers"),
    (_ATTENTION, "summed[i - 2 : i + 3].max()", "summed[i + 2 : i + 3].max()", f"{_HAND}pooling_of_six_scores"),
    (_ALGORITHM, "rival=kept(R + 1)", "rival=kept(R - 1)", f"{_HAND}selections_name_their_layer"),
    (_ALGORITHM, "at[::-1]", "at[::-2]", f"{_HAND}second_passes_and_positions"),
    (_ALGORITHM, "@ q[j, -1]", "@ q[j, -2]", f"{_HAND}half_precision_loses_one_of_2049"),
    (_EVICTION, "settings.ids[0][-K:]", "settings.ids[0][-K - 1 :]", f"{_HAND}entries_of_rivals"),
    (
        "src/featlearn/methods/gemfilter/selecting.py",
        "(mask.cumsum(1) - 1)",
        "(mask.cumsum(1) + 1)",
        f"{_HAND}places_in_a_padded_prompt_count_from_its_first_token",
    ),
]
