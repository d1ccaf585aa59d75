"""Committed mutants of the image and text experiments of the trade-off work: mixtures, splits, choices, paired gaps."""

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
        "works/tradeoff/rows_images.py",
        'table.where(role="validation").by("rate", "decay", "weight")',
        'table.where(role="reported").by("rate", "decay", "weight")',
        REGULARISED + "test_validation_seeds_choose_where_reported_ones_would_choose_otherwise",
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
        "works/tradeoff/rows_texts.py",
        'for point, part in table.where(role="validation").by',
        "for point, part in table.by",
        REVIEWS + "test_validation_seeds_choose_and_a_run_that_diverged_is_a_guess",
    ),
    (
        "works/tradeoff/claims/reviews.py",
        '[less(p, "FT", "LP", share) for p in parts]',
        '[less(p, "LP", "FT", share) for p in parts]',
        REVIEWS + AGREE,
    ),
)
