"""Mutants of the target of GemFilter, for the runner of `tests/test_mutants.py`."""

_METHODS = "src/featlearn/methods/gemfilter/alternatives.py"
_KINDS = "src/featlearn/tasks/validation_kinds.py"
_ROWS, _CLAIMS, _EXPERIMENT = (
    f"src/featlearn/works/gemfilter/{name}.py" for name in ("rows_target", "claims/target", "experiments/target")
)
_M = "tests/methods/test_gemfilter_alternatives.py::test_"
_W = "tests/works/gemfilter/test_gemfilter_target.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    # sentences
    (_METHODS, r"[\"')\]]*\s+|\n", r"[\"')\]]*\s*|\n", f"{_M}sentences_by_hand[pieces3-numbers3]"),
    (_METHODS, r"\s+|\n\s*", r"\s+", f"{_M}sentences_by_hand[pieces5-numbers5]"),
    (_METHODS, "for p in pieces]) - 1", "for p in pieces])", f"{_M}sentences_by_hand[pieces1-numbers1]"),
    (_METHODS, "number[~kept], own[~kept]", "number, own", f"{_M}whole_sentences_by_hand[4-protected10-kept10]"),
    (
        _METHODS,
        "[-own, number, -best[number]]",
        "[number, -own, -best[number]]",
        f"{_M}whole_sentences_by_hand[6-protected2-kept2]",
    ),
    (
        _METHODS,
        "[-own, number, -best[number]]",
        "[number, -best[number], -own]",
        f"{_M}whole_sentences_by_hand[3-protected0-kept0]",
    ),
    (
        _METHODS,
        "[[0.0], [0.0], [-np.inf]]",
        "[[0.0], [0.0], [0.0]]",
        f"{_M}whole_sentences_by_hand[2-protected8-kept8]",
    ),
    # two layers, a second query
    (_METHODS, "part / total", "part", f"{_M}added_scores_by_hand"),
    (_METHODS, "part.masked_fill(part == -torch.inf, 0)", "part", f"{_M}added_scores_by_hand"),
    (
        _METHODS,
        "scoring)[:, :-1]",
        "scoring)[:, 1:]",
        f"{_M}a_second_query_is_the_attention_of_one_query[llama]",
    ),
    (
        _METHODS,
        "layout.queries(attn, *token)",
        "layout.queries(attn, *prompt)[:, :, -1:]",
        f"{_M}a_second_query_is_the_attention_of_one_query[gemma2]",
    ),
    # kinds to choose on, and where they are hidden
    (
        _KINDS,
        '"Sylvester"',
        '"Eleanor"',
        "tests/tasks/test_needles.py::test_kinds_to_choose_on_share_no_name_value_or_wording_with_any_other",
    ),
    (
        _KINDS,
        "What is the tallest tree in {name}?",
        "Which colour is the front door of {name}?",
        "tests/tasks/test_needles.py::test_kinds_to_choose_on_share_no_name_value_or_wording_with_any_other",
    ),
    (
        _EXPERIMENT,
        'trial.haystack, "validation"',
        'trial.haystack, "kinds"',
        f"{_W}needles_of_the_stages_are_hidden_in_different_halves",
    ),
    # the rule, the power, the claims
    (_ROWS, "return min(round(", "return max(round(", f"{_W}the_rule_takes_the_best_at_the_worse_length"),
    (
        _ROWS,
        "max(CANDIDATES, key",
        "max(reversed(CANDIDATES), key",
        f"{_W}of_equals_the_rule_takes_the_simpler_one_and_each_model_has_its_own",
    ),
    (_ROWS, "gap.error * gap.n**0.5", "gap.error", f"{_W}kinds_needed_are_those_of_the_spread_over_kinds"),
    (
        _ROWS,
        '"gemma3-270m": OURS',
        '"gemma3-270m": "Sentences"',
        f"{_W}the_candidate_that_is_reported_is_the_one_that_the_rule_chose",
    ),
    (
        _CLAIMS,
        "            -MARGIN,\n",
        "            -40 * MARGIN,\n",
        f"{_W}a_loss_at_one_length_contradicts_there_alone",
    ),
    (
        _CLAIMS,
        "table.where(model=settings).by",
        'table.where(model="smollm2-135m").by',
        f"{_W}a_claim_judges_its_own_model",
    ),
    (_CLAIMS, "rule == chosen", "True", f"{_W}premises_are_a_full_cache_off_the_floor_and_the_choice_of_the_rule"),
    (
        _CLAIMS,
        "min(shares) >= FLOOR",
        "max(shares) >= FLOOR",
        f"{_W}premises_are_a_full_cache_off_the_floor_and_the_choice_of_the_rule",
    ),
    # the replies
    (
        _EXPERIMENT,
        "abs(3 * i - 2 * len",
        "abs(3 * i - 0 * len",
        f"{_W}every_method_replies_as_the_model_does_on_what_it_kept",
    ),
    (
        _EXPERIMENT,
        "torch.full((1, 1), n, device",
        "torch.full((1, 1), n // 2, device",
        f"{_W}every_method_replies_as_the_model_does_on_what_it_kept",
    ),
    (
        _EXPERIMENT,
        "(HALF, trial.keep // 2)",
        "(HALF, trial.keep)",
        f"{_W}every_method_replies_as_the_model_does_on_what_it_kept",
    ),
    (
        _EXPERIMENT,
        "(ONE_RUN_SENTENCES, SENTENCES))",
        "(ONE_RUN_SENTENCES, OURS))",
        f"{_W}one_run_and_the_full_cache_go_on_from_the_first_prefill",
    ),
    (
        _EXPERIMENT,
        "(True, False)}[c.stage]",
        "(False, True)}[c.stage]",
        f"{_W}stages_share_no_prompt_and_kinds_vary_slowest",
    ),
]
