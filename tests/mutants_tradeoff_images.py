"""Committed mutants of the image and text experiments of the trade-off work: mixtures, splits, choices, paired gaps,
settings of the paper, and the levels that pages name."""

CURVE = "tests/works/tradeoff/test_tradeoff_curve.py::"
REVIEWS = "tests/works/tradeoff/test_tradeoff_reviews.py::"
REGULARISED = "tests/works/tradeoff/test_tradeoff_regularised.py::"
AGREE = "test_rows_that_agree_are_confirmed_and_told_apart_from_others"
MUTANTS = (
    (
        "works/tradeoff/experiments/curve.py",
        "{i: n // k + (i < n % k) for i in range(k)}",
        "{i: n // k for i in range(k)}",
        CURVE + "test_mixtures_have_the_sizes_that_their_modes_say",
    ),
    (
        "works/tradeoff/experiments/images.py",
        "        used[name] += block\n",
        "",
        CURVE + "test_sources_are_of_different_images_and_their_classes_stay",
    ),
    (
        "works/tradeoff/experiments/images.py",
        "order[len(order) - c.tested :]",
        "order[: c.tested]",
        CURVE + "test_sources_are_of_different_images_and_their_classes_stay",
    ),
    (
        "works/tradeoff/experiments/regularised.py",
        'if trial.role == "validation" else',
        'if trial.role == "reported" else',
        REGULARISED + "test_validation_seeds_see_no_test_image",
    ),
    (
        "works/tradeoff/experiments/regularised.py",
        'key=self.key / "tuning" / f"{share:g}",',
        'key=self.key / "tuning" / f"{share:g} {weight:g}",',
        REGULARISED + "test_validation_seeds_see_no_test_image",
    ),
    (
        "works/tradeoff/rows_adapted.py",
        'table.where(role="validation").by(*AXES)',
        'table.where(role="reported").by(*AXES)',
        REGULARISED + "test_validation_seeds_choose_where_reported_ones_would_choose_otherwise",
    ),
    (
        "works/tradeoff/rows_adapted.py",
        "value = guess if value is None",
        "value = 0.0 if value is None",
        REGULARISED + "test_a_run_that_diverged_is_not_chosen_and_a_guess_where_it_is_reported",
    ),
    (
        "works/tradeoff/rows_images.py",
        '"CR": (0.06, 5e-4, 0.1)',
        '"CR": (0.06, 5e-4, 1.0)',
        REGULARISED + "test_the_setting_of_the_paper_is_read_for_both_ways",
    ),
    (
        "works/tradeoff/claims/regularised.py",
        "TIGHT[how], how, at_given)",
        "TIGHT[how], how, at_chosen)",
        REGULARISED + "test_rows_that_disagree_are_contradicted_where_they_do",
    ),
    (
        "works/tradeoff/claims/regularised.py",
        "(AS_GIVEN, at_given)",
        "(AS_GIVEN, at_chosen)",
        REGULARISED + "test_rows_that_disagree_are_contradicted_where_they_do",
    ),
    (
        "works/tradeoff/claims/regularised.py",
        '"rate" in c.at_edge',
        '"decay" in c.at_edge',
        REGULARISED + "test_premises_say_where_searches_ended",
    ),
    (
        "works/tradeoff/claims/regularised.py",
        "c.point == GIVEN[how]",
        "c.point[0] == GIVEN[how][0]",
        REGULARISED + "test_premises_say_where_searches_ended",
    ),
    (
        "works/tradeoff/claims/reviews.py",
        "TWENTIETH = 0.05",
        "TWENTIETH = 0.1",
        REVIEWS + "test_a_gain_that_the_table_itself_has_is_no_contradiction",
    ),
    (
        "works/tradeoff/claims/reviews.py",
        '("decay" if how == "LP" else "rate")',
        '("rate" if how == "LP" else "decay")',
        REVIEWS + "test_premises_say_what_a_probe_finds_and_where_searches_ended",
    ),
    (
        "works/tradeoff/claims/curve.py",
        'row.paired("cka", {"two": k}, {"two": k + 1})',
        'row.paired("cka", {"two": k + 1}, {"two": k})',
        CURVE + AGREE,
    ),
    (
        "works/tradeoff/claims/curve.py",
        "math.log(percent / (100 - percent))",
        "percent",
        CURVE + "test_a_loss_that_a_ceiling_alone_makes_smaller_is_sharper_in_points_and_not_in_log_odds",
    ),
    (
        "works/tradeoff/claims/regularised.py",
        "many[seed] - few[seed] for seed in many",
        "many[seed] + few[seed] for seed in many",
        REGULARISED + "test_rows_that_disagree_are_contradicted_where_they_do",
    ),
    (
        "works/tradeoff/experiments/reviews.py",
        "every = [*parts[0][0], *(",
        "every = [*texts, *(",
        REVIEWS + "test_texts_of_a_draw_are_balanced_and_those_tested_on_are_kept_from_the_encoder",
    ),
    (
        "works/tradeoff/experiments/reviews.py",
        'test = texts.held if trial.role == "validation" else texts.test',
        "test = texts.test",
        REVIEWS + "test_smoke_has_equal_searches_and_validation_seeds_see_no_test_text",
    ),
    (
        "works/tradeoff/rows_adapted.py",
        'for point, part in table.where(role="validation").by',
        "for point, part in table.by",
        REVIEWS + "test_validation_seeds_choose_and_a_run_that_diverged_is_a_guess",
    ),
    (
        "works/tradeoff/claims/reviews.py",
        '[ahead(p, "FT", "LP", share) for p in parts]',
        '[ahead(p, "LP", "FT", share) for p in parts]',
        REVIEWS + AGREE,
    ),
    (
        "works/tradeoff/experiments/reviews.py",
        "diverged(first) + diverged(second)",
        "diverged(second)",
        "tests/test_docs_numbers.py::test_a_mean_with_runs_that_diverged_is_marked",
    ),
)
