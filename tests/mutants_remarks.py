"""Mutants of remarks: a number in them that is not the rows' is seen."""

EMERGENCE = "tests/works/emergence/test_emergence_remarks.py::"
LABELS = "tests/works/icl_scale/test_label_noise.py::test_numbers_in_the_remarks_are_those_of_the_rows"
TRADEOFF = "tests/works/tradeoff/test_tradeoff_remarks.py::"
MUTANTS = (
    (
        "works/emergence/claims/filters.py",
        "-0.05 to -0.22",
        "-0.05 to -0.23",
        EMERGENCE + "test_cosines_of_groups[centres]",
    ),
    (
        "works/emergence/claims/input_structure.py",
        "of 8.6 points of FC(9)",
        "of 8.5 points of FC(9)",
        EMERGENCE + "test_gaps_of_students_that_have_read_no_image",
    ),
    ("works/icl_scale/claims/language_models.py", "[-9.3, 4.2]", "[-9.2, 4.2]", LABELS + "[base-gemma3-270m]"),
    (
        "works/looped/claims/figure.py",
        "6, 22, 53 and 61 of 100",
        "6, 22, 53 and 60 of 100",
        "tests/works/looped/test_figure8_1.py::test_numbers_in_the_remarks_are_those_of_the_rows",
    ),
    (
        "works/tradeoff/claims/reviews.py",
        "FT diverges on four of eight",
        "FT diverges on five of eight",
        TRADEOFF + "test_what_diverges_on_products_with_a_fifth_of_the_labels",
    ),
    (
        "works/tradeoff/claims/regularised.py",
        "in three of four arms",
        "in two of four arms",
        TRADEOFF + "test_decay_probes_and_weights_on_images",
    ),
)
