"""Mutants of the emergence work, each seen by a number that is known by hand."""

_CLAIMS = "works/emergence/claims/"
_HAND = "tests/works/emergence/test_emergence_by_hand.py::test_"
MUTANTS = (
    (
        _CLAIMS + "definitions.py",
        "margin=band(1, 0.5),",
        "margin=band(2, 0.5),",
        _HAND + "bands_and_rivals_of_the_family",
    ),
    (
        _CLAIMS + "general.py",
        "rival=0.25 * (1 - (1 - 2 * SHARE_MINUS) ** 2),",
        "rival=0.25 * (1 - (2 - 2 * SHARE_MINUS) ** 2),",
        _HAND + "covariance_of_label_and_bit_where_classes_are_unbalanced",
    ),
    (
        _CLAIMS + "other_laws.py",
        "plus = sum(pmf[low : high + 1], Fraction(0))",
        "plus = sum(pmf[low : high + 2], Fraction(0))",
        _HAND + "interval_moments_of_three_coins",
    ),
    (
        _CLAIMS + "existence.py",
        "counts = [np.repeat(np.arange(m.k + 1), REPEATS) + shift",
        "counts = [np.repeat(np.arange(m.k + 1), REPEATS) - shift",
        _HAND + "labels_of_the_next_count",
    ),
    (
        _CLAIMS + "general_network.py",
        "chi2.logcdf(DIMS / 2, DIMS), chi2.logsf(1.5 * DIMS, DIMS)",
        "chi2.logcdf(DIMS / 3, DIMS), chi2.logsf(1.5 * DIMS, DIMS)",
        _HAND + "tails_of_norms",
    ),
    (
        _CLAIMS + "initialisation.py",
        "float(chi2.cdf(0.5 * (D - K), D - K))",
        "float(chi2.cdf(0.5 * (D + K), D - K))",
        _HAND + "tails_of_95_squares",
    ),
    (
        _CLAIMS + "initialisation.py",
        "noise = [2 * math.sqrt(2 / math.pi) * b.s**3",
        "noise = [2 * (2 / math.pi) * b.s**3",
        _HAND + "the_bound_of_a_block",
    ),
    (
        _CLAIMS + "initialisation.py",
        "chance = at.p ** rest.sum(1) *",
        "chance = at.p ** (rest.sum(1) + 1) *",
        _HAND + "ten_fair_bits_moved_by_one_bit",
    ),
    (
        _CLAIMS + "first_step.py",
        "error, st = eps_e(D, K, WIDTH, 0.5), math.sqrt(D / 4)",
        "error, st = eps_e(D, K, WIDTH, 0.5), D / 4",
        _HAND + "bounds_of_the_first_step_at_the_size_of_table_1",
    ),
    (
        "works/emergence/setup.py",
        "if np.abs(family.chance @ family.y).max() > 1e-15:",
        "if np.abs(family.chance @ family.y).min() > 1e-15:",
        _HAND + "components_that_are_unbalanced_one_by_one_are_refused",
    ),
    (
        _CLAIMS + "second_step.py",
        "Stage(steps=1, rate_w=eta, rate_b=eta, rate_a=eta, keep_w=0.0, noise=NOISE),",
        "Stage(steps=2, rate_w=eta, rate_b=eta, rate_a=eta, keep_w=0.0, noise=NOISE),",
        _HAND + "each_stage_of_the_neuron_maps_is_one_step",
    ),
    (
        _CLAIMS + "main_theorem.py",
        "return TwoLayer(-g.w, one.b - g.b, -g.a, start.activation)",
        "return TwoLayer(-g.w, one.b - g.b, g.a, start.activation)",
        _HAND + "two_steps_of_one_neuron",
    ),
    (
        _CLAIMS + "general_second.py",
        "tail = math.sqrt(2 * math.log(2 * m / DELTA))",
        "tail = math.sqrt(3 * math.log(2 * m / DELTA))",
        _HAND + "the_bounds_of_the_second_step_in_the_general_setting",
    ),
    (
        _CLAIMS + "general_second.py",
        "* law.scale) / rate(law, m)",
        "* law.scale) * rate(law, m)",
        _HAND + "a_first_step_beyond_its_condition_closes_hinges",
    ),
    (
        _CLAIMS + "general_steps.py",
        "sigma_w = error / eps_e(law, 1.0, law.k**-1.5)",
        "sigma_w = 2 * error / eps_e(law, 1.0, law.k**-1.5)",
        _HAND + "the_start_of_the_leading_orders_has_the_error_that_is_said",
    ),
    (
        _CLAIMS + "general_network.py",
        "FALL = 0.01\n",
        "FALL = 0.005\n",
        _HAND + "a_failure_rate_falls_by_a_hundredth_a_pattern",
    ),
    (
        _CLAIMS + "optimisation.py",
        '"norm": np.full(n, np.linalg.norm(second)),',
        '"norm": np.full(n, np.linalg.norm(second) ** 2),',
        _HAND + "the_gap_of_sixteen_equal_neurons",
    ),
    (
        _CLAIMS + "optimisation.py",
        "([1.0, -1.0], 0.0, 0.0, 0.5)):",
        "([0.5, -1.0], 0.0, 0.0, 0.5)):",
        _HAND + "losses_that_need_a_part_of_the_bound_each",
    ),
    (
        _CLAIMS + "lower_bounds.py",
        "rival=1 - planted.norms / math.sqrt(2),",
        "rival=1 + planted.norms / math.sqrt(2),",
        _HAND + "rivals_of_the_lower_bounds",
    ),
    (
        _CLAIMS + "simulated_figures.py",
        'BETTER: (1 - two.column("cos")) / (1 - one.column("cos")),',
        'BETTER: (1 - two.column("cos")) / (2 - one.column("cos")),',
        _HAND + "the_largest_cosine_comes_nearer_to_1",
    ),
    (
        _CLAIMS + "teacher.py",
        'UNDER: share(decided, lambda m: m["small"] > m["middle"]),',
        'UNDER: share(decided, lambda m: m["small"] >= m["middle"]),',
        "tests/works/emergence/test_teacher.py::test_equal_minima_are_neither_smaller_nor_larger",
    ),
    (
        "kernels/features.py",
        "    if d < 1:\n",
        "    if d <= 1:\n",
        "tests/kernels/test_features.py::test_inputs_of_one_dimension_have_features_too",
    ),
    (
        "kernels/ridge.py",
        "    for start in range(0, len(x), rows):\n        out[start",
        "    for start in range(0, len(x) + 1, rows):\n        out[start",
        "tests/kernels/test_ridge.py::test_no_block_is_empty",
    ),
    (
        "tasks/clusters.py",
        "    d: int = 100\n",
        "    d: int = 50\n",
        "tests/tasks/test_gaussian_clusters.py::test_the_first_experiment_is_what_is_drawn_unasked",
    ),
    (
        "data/folder_sets.py",
        '_emnist("digits", 10, 240000, 40000),',
        '_emnist("digits", 10, 240000, 80000),',
        "tests/data/test_labelled.py::test_the_six_sets_of_letters_and_digits_have_as_many_images_as_their_paper_says",
    ),
)
