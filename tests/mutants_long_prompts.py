"""Mutants of scores, calibration, proofs of layouts and prompts, for the runner of `tests/test_mutants.py`."""

_COMPARE, _SCORE, _PARTIAL, _CALIBRATE = (
    f"src/featlearn/apply/gemfilter/{name}.py" for name in ("compare", "score", "partial", "calibrate")
)
_PROOF, _LAYOUTS, _SELECTING, _GENERATING = (
    f"src/featlearn/methods/gemfilter/{name}.py" for name in ("proof", "layouts", "selecting", "generating")
)
_GIVEN = "src/featlearn/methods/gemfilter/given.py"
_LONG, _CHAT, _PROMPTS = (
    "src/featlearn/methods/long_context.py",
    *(f"src/featlearn/tasks/{name}.py" for name in ("chat", "prompts")),
)
_T = "tests/apply/test_gemfilter_compare.py::test_"
_C = "tests/apply/test_calibrate.py::test_"
_P = "tests/methods/test_gemfilter_proof.py::test_"
_G = "tests/methods/test_gemfilter.py::test_"
_R = "tests/tasks/test_chat.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    # intervals over units
    (_COMPARE, "found.setdefault(unit, [])", "found.setdefault(str(len(found)), [])", f"{_T}paired_shares_by_hand"),
    ("lab/uncertainty.py", "part.at((1 + level) / 2)", "part.at(level / 2)", f"{_T}paired_shares_cover[40-0.0-0.05]"),
    ("lab/uncertainty.py", "least - many", "least - few", f"{_T}units_that_all_agree_have_the_exact_bound[6]"),
    ("lab/uncertainty.py", "min(of.gaining, of.losing) >= FEW_MOVED", "True", f"{_T}paired_shares_cover[12-0.0-0.02]"),
    ("lab/uncertainty.py", "min(of.gaining, of.losing) >= FEW_MOVED", "False", f"{_T}paired_shares_by_hand"),
    # what is compared, and what is said
    (
        _SCORE,
        'own = [r for r in rows if r["question"] in longer] or list(rows)',
        "own = list(rows)",
        f"{_T}prompts_no_longer_than_keep_are_left_out_of_the_comparison",
    ),
    (_SCORE, "name == FULL or not filtered", "name == FULL", f"{_T}nothing_filtered_is_said_and_not_compared"),
    (_SCORE, "if other.context == item.context", "if other is item", f"{_T}questions_about_one_text_are_one_unit"),
    (_SCORE, 'len({r["right"] for r in own}) == 1', "False", f"{_T}replies_that_differ_are_shown_first"),
    (_LONG, "int(new[0, -1]) not in stops", "True", f"{_T}a_reply_is_cut_where_it_has_not_ended[full]"),
    # rows that are kept
    (
        _PARTIAL,
        "for name, value in sorted(model.state_dict().items()):",
        "for name, value in sorted(model.state_dict().items())[:1]:",
        f"{_T}another_model_setting_or_answer_has_no_rows[weights]",
    ),
    (_PARTIAL, "item.answers)).encode()", "())).encode()", f"{_T}another_model_setting_or_answer_has_no_rows[answers]"),
    (
        _PARTIAL,
        "_code(), sorted(setting.items())",
        "_code(), sorted(setting)",
        f"{_T}another_model_setting_or_answer_has_no_rows[setting]",
    ),
    (_PARTIAL, 'if f.read(1) != b"\\n":', "if False:", f"{_T}a_line_that_was_cut_short_is_made_anew"),
    (
        _PARTIAL,
        "if path.exists() and not again else",
        "if path.exists() else",
        f"{_T}what_is_asked_anew_counts_and_rows_of_other_questions_stay",
    ),
    # which layer, and what it replaces
    (
        _CALIBRATE,
        "if less.mean() <= standard_error(less):",
        "if less.mean() <= 0:",
        f"{_C}layers_within_one_paired_standard_error_are_in_question",
    ),
    (
        _CALIBRATE,
        "(top - right).mean() <= standard_error(top - right)",
        "(top - right).mean() <= 0",
        f"{_C}answers_decide_between_layers_in_question",
    ),
    (
        _CALIBRATE,
        "dict.fromkeys([*asked[:candidates], top])",
        "dict.fromkeys(asked[:candidates])",
        f"{_C}answers_of_layers_and_of_the_full_model",
    ),
    (_CALIBRATE, "if count < rests_on and not force:", "if False:", f"{_C}what_rests_on_more_prompts_is_not_replaced"),
    (
        _CALIBRATE,
        "SHIPPED.get(shape_of(model), 0)",
        "0",
        f"{_C}shipped_layers_that_were_measured_are_not_replaced_by_a_few_prompts",
    ),
    # proofs
    (
        _PROOF,
        "<= (COARSE if half else TOLERANCE) * spread",
        "<= (COARSE if half else TOLERANCE)",
        f"{_P}attention_that_is_uniform_proves_nothing",
    ),
    (
        _PROOF,
        "if spread < (NEARLY if half else UNIFORM):",
        "if False:",
        f"{_P}attention_that_is_uniform_proves_nothing",
    ),
    (
        _PROOF,
        "found[layer] = torch.inf, 0.0",
        "found[layer] = 0.0, 1.0",
        f"{_P}weights_that_are_not_finite_prove_nothing",
    ),
    (
        _PROOF,
        "- KINDS)",
        '- set(KINDS) - {"chunked_attention"})',
        f"{_P}what_is_computed_otherwise_is_refused_by_name[llama4_text]",
    ),
    (
        _LAYOUTS,
        "kind in FAMILIES and kind not in _REGISTERED",
        "kind in FAMILIES",
        f"{_P}a_layout_of_the_users_that_is_wrong_is_refused_also_for_known_families",
    ),
    (_LAYOUTS, "_PROVED[model] = found", "pass", f"{_P}a_model_is_proved_once"),
    # prompts
    (
        _GIVEN,
        'mask = input_ids.get("attention_mask") if attention_mask is None else attention_mask',
        "mask = attention_mask",
        f"{_G}a_mask_in_a_mapping_counts",
    ),
    (_SELECTING, "found = found.clone()", "found = found", f"{_G}scores_can_take_part_in_training"),
    (_GENERATING, 'generate_kwargs["tokenizer"] = tokenizer', "pass", f"{_G}stop_strings_stop"),
    (_CHAT, "place.start() + 1 for place", "place.end() for place", f"{_R}the_users_text_opens_no_role[context]"),
    (_CHAT, "while mark in introduction + request:", "while False:", f"{_R}a_question_may_hold_the_mark"),
    (_CHAT, "if len(parts) != 2:", "if len(parts) < 2:", f"{_R}a_template_that_fails_is_one_line[twice]"),
    (
        _PROMPTS,
        "forged = after.startswith(own) and spoken != encode(own)",
        "forged = False",
        f"{_R}the_users_text_opens_no_role[question]",
    ),
    (
        "methods/memory.py",
        "after if raised else seen.highest",
        "after",
        "tests/methods/test_memory.py::test_a_pass_below_an_earlier_peak_has_its_own",
    ),
    (
        "methods/memory.py",
        "after if raised else seen.highest",
        "seen.highest",
        "tests/methods/test_memory.py::test_a_pass_above_all_before_is_exact_although_no_sample_saw_it",
    ),
    (
        "methods/memory.py",
        "while not self._done.wait(PERIOD):",
        "while not self._done.wait(3600):",
        "tests/methods/test_memory.py::test_a_pass_below_an_earlier_peak_has_its_own",
    ),
    (
        "methods/memory.py",
        "        self._thread.join()\n",
        "",
        "tests/methods/test_memory.py::test_a_failing_pass_leaves_no_thread",
    ),
]
