"""Committed mutants of label noise on language models: prompts, scores, attention, texts, rows and claims."""

SCORES, PROMPTS = "tests/methods/test_in_context.py", "tests/tasks/test_demonstrations.py"
ROWS, TEXTS = "tests/works/icl_scale/test_label_noise.py", "tests/data/test_reviews.py"
ALONE = f"{SCORES}::test_scores_with_a_shared_prefix_are_those_of_each_prompt_read_alone"
MUTANTS = (
    ("methods/in_context.py", "own = copy.deepcopy(cache)", "own = cache", ALONE),
    (
        "methods/in_context.py",
        "logits[:, low - width :]",
        "logits[:, -1:]",
        ALONE,
    ),
    (
        "methods/in_context.py",
        "mine[w.start - 1 - low : len(row) - low]",
        "mine[w.start - low : len(row) + 1 - low]",
        ALONE,
    ),
    (
        "methods/in_context.py",
        "n = min(_common(fed), most)",
        "n = 0",
        f"{SCORES}::test_the_shared_part_is_read_once_and_a_label_of_one_token_costs_no_row",
    ),
    (
        "methods/in_context.py",
        "content_free.softmax(-1).mean(0).log()",
        "content_free.log_softmax(-1).mean(0)",
        f"{SCORES}::test_calibration_divides_by_the_mean_of_what_no_content_gets",
    ),
    (
        "methods/in_context.py",
        "row = found[-1][0, :, -1].float()",
        "row = found[0][0, :, -1].float()",
        f"{SCORES}::test_attention_is_the_norm_over_heads_and_tokens_of_the_last_row",
    ),
    (
        "tasks/demonstrations.py",
        "[: round(rate * len(labels))]",
        "[: int(rate * len(labels))]",
        f"{PROMPTS}::test_exactly_round_rate_m_labels_are_inverted",
    ),
    (
        "tasks/demonstrations.py",
        'return before + text + middle.rstrip(" ")',
        "return before + text + middle",
        f"{PROMPTS}::test_the_sample_of_the_thesis_letter_by_letter",
    ),
    (
        "tasks/demonstrations.py",
        "del shown[0]",
        "del shown[-1]",
        f"{PROMPTS}::test_demonstrations_that_do_not_fit_are_dropped_whole_the_first_ones_first",
    ),
    (
        "data/reviews.py",
        "if abs(rating) >= NEUTRAL",
        "if rating",
        f"{TEXTS}::test_the_neutral_middle_and_equal_texts_are_left_out",
    ),
    (
        "data/download.py",
        '"--require-hashes", only',
        "only",
        f"{TEXTS}::test_files_come_out_of_the_archive_in_the_archive",
    ),
    (
        "works/icl_scale/experiments/label_noise.py",
        "calibrated=accuracy(calibrated(raw, free)",
        "calibrated=accuracy((raw)",
        f"{ROWS}::test_a_model_that_ignores_the_prompt_has_only_pretraining",
    ),
    (
        "works/icl_scale/experiments/label_noise.py",
        'if name == "calibrated" else (0.0, 0.5)',
        'if name == "calibrated" else (0.0, 1.0)',
        f"{ROWS}::test_a_model_that_ignores_the_prompt_has_only_pretraining",
    ),
    (
        "works/icl_scale/experiments/attention.py",
        "(far.tokens / near.tokens) ** 0.5",
        "1.0",
        f"{ROWS}::test_attention_counts_the_two_sentences_and_both_labels",
    ),
    (
        "works/icl_scale/claims/language_models.py",
        "FLAT * (2 * a[i] - 100) - (a[i] - b[i])",
        "FLAT * (2 * a[i] - 100)",
        f"{ROWS}::test_a_flat_model_is_told_from_one_that_follows_and_from_one_that_guesses",
    ),
    (
        "works/icl_scale/claims/language_models.py",
        'ABOVE: every.mean("calibrated"',
        'ABOVE: none.mean("calibrated"',
        f"{ROWS}::test_a_flat_model_is_told_from_one_that_follows_and_from_one_that_guesses",
    ),
    (
        "works/icl_scale/claims/language_models.py",
        'NEAR: by_label(mine.where(order="irrelevant first"))',
        'NEAR: by_label(mine.where(order="relevant first"))',
        f"{ROWS}::test_focus_is_told_from_equal_attention_in_each_order_and_over_both",
    ),
    (
        "works/icl_scale/experiments/label_noise.py",
        "left = [FLAT * (2 * none[i] - 100)",
        "left = [FLAT * (none[i] - 100)",
        f"{ROWS}::test_tables_and_pictures_of_both_experiments",
    ),
    (
        "works/icl_scale/experiments/attention.py",
        "np.mean([log2(r.relevant / r.irrelevant)",
        "np.mean([log2(r.irrelevant / r.relevant)",
        f"{ROWS}::test_tables_and_pictures_of_both_experiments",
    ),
    (
        "cli/_parse.py",
        "groups.append(first[name])  # what follows goes there, too",
        "groups.append([name])",
        "tests/cli/test_cli_run.py::test_a_flag_of_several_values_may_stand_more_than_once",
    ),
)
