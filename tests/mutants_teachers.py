"""Mutants of teachers and mixtures of inputs: the rule for the size of a teacher, its regulariser, parts, pairs."""

TEACHER = "tests/works/emergence/test_teacher.py::"
STRUCTURE = "tests/works/emergence/test_input_structure.py::"
BALANCE = "tests/learn/test_balance.py::"
EDGES = "test_rows_that_disagree_are_contradicted_where_they_do"
MUTANTS = (
    (
        "learn/balance.py",
        "-_xlogx(prob).sum(1).mean()",
        "-_xlogx(prob.mean(0)).sum()",
        BALANCE + "test_it_is_the_formula",
    ),
    (
        "learn/balance.py",
        "torch.xlogy(p, p.clamp_min(LEAST))",
        "torch.xlogy(p, p)",
        BALANCE + "test_certain_predictions_have_no_entropy_and_finite_gradients",
    ),
    (
        "works/emergence/experiments/teacher.py",
        "peak = max(rises, key=lambda m: rises[m])",
        "peak = max(rises, key=lambda m: curve[m])",
        TEACHER + "test_the_classical_regime_ends_at_the_largest_rise",
    ),
    (
        "works/emergence/experiments/teacher.py",
        "if m < peak]",
        "if m <= sizes[-1]]",
        TEACHER + "test_the_classical_regime_ends_at_the_largest_rise",
    ),
    (
        "works/emergence/experiments/labelling.py",
        "(one + settings.mixing * two)",
        "(one - settings.mixing * two)",
        TEACHER + "test_training_adds_the_regulariser_on_the_other_inputs",
    ),
    (
        "works/emergence/experiments/labelling.py",
        "both = deviation / scale *",
        "both =",
        TEACHER + "test_gaussian_inputs_have_the_mean_and_variance_of_each_pixel",
    ),
    (
        "works/emergence/experiments/input_structure.py",
        "torch.cat([y_x[: n - k], y_u[:k]])",
        "torch.cat([y[: n - k], y_u[:k]])",
        STRUCTURE + "test_a_student_reads_the_share_that_alpha_says_with_labels_of_the_teacher",
    ),
    (
        "works/emergence/experiments/input_structure.py",
        "(1 - alpha) * a + alpha * b, (1 - alpha)",
        "alpha * a + alpha * a, (1 - alpha)",
        STRUCTURE + "test_smoke_has_every_student_part_and_time",
    ),
    (
        "works/emergence/experiments/input_structure.py",
        'x, key / "student" / m)',
        'x, key / "student" / m / trial.injected)',
        STRUCTURE + "test_students_of_both_kinds_of_inputs_have_one_start_and_one_set_of_images",
    ),
    (
        "works/emergence/claims/input_structure.py",
        "return table.paired(measure, DATA, INJECTED, over=",
        "return table.paired(measure, INJECTED, DATA, over=",
        STRUCTURE + "test_rows_that_agree_are_confirmed_and_told_apart_from_others",
    ),
    (
        "works/emergence/claims/input_structure.py",
        '- of[1.0, "data"][s] + of[1.0, "injected"][s]',
        '- of[1.0, "injected"][s] + of[1.0, "injected"][s]',
        STRUCTURE + EDGES,
    ),
    (
        "works/emergence/claims/teacher.py",
        'ALIKE: share(decided, lambda m: near(m, "chosen"))',
        'ALIKE: share(decided, lambda m: near(m, "small"))',
        TEACHER + EDGES,
    ),
    (
        "works/emergence/claims/teacher.py",
        'm["small"] <= m["middle"] <= m["large"]',
        'm["small"] <= m["large"]',
        TEACHER + EDGES,
    ),
    (
        "works/emergence/claims/teacher.py",
        "min(taught.values()) >=",
        "max(taught.values()) >=",
        TEACHER + "test_labels_that_no_student_learns_decide_no_figure",
    ),
)
