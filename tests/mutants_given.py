"""Mutants of what people hand in, of chat templates, files and windows, for the runner of `tests/test_mutants.py`."""

_GIVEN, _SELECTING, _GENERATING, _BLOCKS, _ATTENTION = (
    f"src/featlearn/methods/gemfilter/{name}.py"
    for name in ("given", "selecting", "generating", "blocks", "chunked_attention")
)
_CHAT = "src/featlearn/tasks/chat.py"
_ANSWER, _FILES, _SCORE, _CALIBRATE = (
    f"src/featlearn/apply/gemfilter/{name}.py" for name in ("answer", "files", "score", "calibrate")
)
_G = "tests/methods/test_gemfilter_given.py::test_"
_C = "tests/methods/test_gemfilter_chunked.py::test_"
_H = "tests/tasks/test_chat_hostile.py::test_"
_I = "tests/apply/test_long_prompt_inputs.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    # prompts and numbers
    (_GIVEN, "return ids.long(), None", "return ids, None", f"{_G}ids_of_any_whole_type[uint8]"),
    (_GIVEN, "torch.as_tensor(np.array(value))", "torch.as_tensor(value)", f"{_G}ids_of_any_whole_type[backwards]"),
    (_GIVEN, "if found.is_meta or found.layout != torch.strided:", "if False:", f"{_G}what_is_no_mask[mask1]"),
    (
        "errors.py",
        "str(value) if number else repr(value)",
        "str(value)",
        f"{_G}a_message_does_not_deny_what_it_shows[8-keep = '8']",
    ),
    (_GIVEN, "or own.dtype != torch.bool", "", f"{_G}what_protects_nothing_is_one_short_line[protect1]"),
    (_SELECTING, 'object.__setattr__(self, "heads", heads)', "pass", f"{_G}scorings_of_numpy_and_torch_numbers"),
    (
        _SELECTING,
        "with torch.autocast(keys.device.type, enabled=False):  # it would round the sums",
        "if True:",
        f"{_G}sums_keep_their_precision_under_autocast",
    ),
    (
        _SELECTING,
        "with torch.autocast(keys.device.type, enabled=False):  # it would round the logits",
        "if True:",
        f"{_G}sums_keep_their_precision_under_autocast",
    ),
    # pass two
    (
        _GENERATING,
        'found += (getattr(getattr(model, "generation_config", None), "stop_strings", None),)',
        "pass",
        f"{_G}the_tokenizer_is_handed_on_for_whatever_needs_it[config of the model]",
    ),
    (
        _GENERATING,
        'or generate_kwargs.get("assistant_tokenizer") is not None',
        "",
        f"{_G}the_tokenizer_is_handed_on_for_whatever_needs_it[assistant]",
    ),
    (
        _BLOCKS,
        "*(b for b in _BLOCKS.get() if b.open), block",
        "*_BLOCKS.get(), block",
        f"{_G}a_block_that_another_thread_closes_is_forgotten",
    ),
    (
        _BLOCKS,
        'asked = meant("max_length")',
        'asked = changed["max_length"] + left_out',
        f"{_G}lengths_are_told_as_they_were_given",
    ),
    # templates and roles
    (
        _CHAT,
        "not before.endswith((introduction, introduction.lstrip()))",
        "False",
        f"{_H}a_template_that_changes_the_message_is_refused[cuts the introduction]",
    ),
    (
        _CHAT,
        "or not after.startswith(own):",
        "or False:",
        f"{_H}a_template_that_changes_the_message_is_refused[drops the question]",
    ),
    (_CHAT, "if how.system.strip() not in before:", "if False:", f"{_H}what_a_template_leaves_out_is_refused"),
    (
        _CHAT,
        'lines[-1] if turn["role"] == "assistant" and lines else turn["content"].strip()',
        'turn["content"].strip()',
        f"{_H}what_a_template_leaves_out_is_refused",
    ),
    (
        _CHAT,
        "for value in turn.values()",
        'for value in (turn["content"],)',
        f"{_H}system_and_names_open_no_role[chat1]",
    ),
    (_CHAT, '("system", "one", how.system)', '("system", "one", "")', f"{_H}system_and_names_open_no_role[chat0]"),
    (_CHAT, 'object.__setattr__(self, "turns", tuple(self.turns))', "pass", f"{_H}turns_that_can_be_read_once_count"),
    (
        _CHAT,
        "if any(name in request for name in names):",
        "if False:",
        f"{_H}a_question_that_is_shown_twice_opens_no_role",
    ),
    (
        _CHAT,
        "{*special_names(tokenizer), *_named_in_template(tokenizer)}",
        "{*special_names(tokenizer)}",
        f"{_H}tokens_that_the_template_names_open_nothing_either",
    ),
    (_CHAT, "if not roles.isdisjoint(ids):", "if False:", f"{_H}a_text_that_is_read_as_a_role_all_the_same_is_refused"),
    # files
    (
        _FILES,
        'decode("utf-8-sig")',
        'decode("utf-8")',
        f"{_I}texts_are_read_without_marks_of_editors[\\xef\\xbb\\xbfriver-river]",
    ),
    (
        _FILES,
        "except RecursionError:",
        "except ZeroDivisionError:",
        f"{_I}lines_that_are_none[line0-nested too deeply]",
    ),
    (
        _FILES,
        "if str(path) == STDIN:\n            data",
        "if False:\n            data",
        f"{_I}the_standard_input_and_pipes_are_files",
    ),
    # answers, scores and calibrations
    (
        _ANSWER,
        "if measure_loss and not blind:",
        "if False:",
        f"{_I}what_is_no_setting_is_told_before_the_text_is_read[more11-measure_loss = True]",
    ),
    (_SCORE, "if not math.isfinite(likelihood):", "if False:", f"{_I}a_likelihood_that_is_not_finite_is_no_row"),
    (
        _SCORE,
        'getattr(other, "unit", "") or other.name',
        "other.name",
        f"{_I}a_unit_that_one_line_names_is_that_of_all_lines_about_the_context",
    ),
    (
        _CALIBRATE,
        "plain_parts(tokenizer, context)",
        "[(0, context)]",
        f"{_I}needles_stand_where_they_are_read_also_behind_names_of_special_tokens",
    ),
    (
        _CALIBRATE,
        "all(0 <= a < b <= n for",
        "all(0 <= a for",
        f"{_I}calibrations_of_what_is_none[more7-needles = ((9, 3),) of w]",
    ),
    # windows
    (
        _ATTENTION,
        "start < window and not queries.is_cuda",
        "False",
        f"{_C}a_window_computes_less_than_all_from_twice_its_length_on",
    ),
    (
        _ATTENTION,
        "min(max(window // 8, 64), 256)",
        "min(max(window, 128), 2048)",
        f"{_C}a_window_computes_less_than_all_from_twice_its_length_on",
    ),
]
