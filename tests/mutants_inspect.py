"""Committed mutants of inspected checkpoints: sizes, ranks, directions, what the reading leaves out, what is opened."""

INSPECT = "tests/apply/test_inspect.py::"
SPECTRA = "tests/measure/test_spectra.py::"
WEIGHTS = "tests/data/test_weights.py::"

MUTANTS = (
    (
        "measure/spectra.py",
        "math.sqrt(12) * (math.sqrt(m) + math.sqrt(n))",
        "math.sqrt(12) * math.sqrt(m)",
        f"{SPECTRA}test_rounding_leaves_half_of_the_floor",
    ),
    (
        "measure/spectra.py",
        "inner, values, right = torch.linalg.svd(basis.T @ matrix, full_matrices=False)",
        "inner, values, right = torch.linalg.svd(basis.T @ matrix * 1.01, full_matrices=False)",
        f"{SPECTRA}test_leading_values_and_subspaces_are_those_of_the_whole_decomposition",
    ),
    (
        "measure/spectra.py",
        "scaled = matrix / size if size > 0 else matrix",
        "scaled = matrix",
        f"{SPECTRA}test_ranks_of_known_spectra",
    ),
    (
        "measure/spectra.py",
        "generator=key.torch()).to(matrix)",
        ").to(matrix)",
        f"{SPECTRA}test_no_number_is_drawn_from_the_generators_of_torch",
    ),
    (
        "apply/inspect/layers.py",
        "spectral=float(led.values[0] / top.values[0])",
        "spectral=float(led.values[0] / led.values.square().sum().sqrt())",
        f"{INSPECT}test_a_change_of_low_rank_is_told_with_its_rank_and_size",
    ),
    (
        "apply/inspect/layers.py",
        "floor = max(rounding_floor(v, kind), FLOAT32 * float(led.values[0]))",
        "floor = FLOAT32 * float(led.values[0])",
        f"{INSPECT}test_rounding_is_no_change",
    ),
    (
        "apply/inspect/layers.py",
        "more=rank == len(led.values) and not led.whole",
        "more=False",
        f"{INSPECT}test_a_change_of_full_rank_is_above_64",
    ),
    (
        "apply/inspect/layers.py",
        "within=(share_within(d, top.right), share_within(d.T, top.left))",
        "within=(share_within(d.T, top.left), share_within(d, top.right))",
        f"{INSPECT}test_directions_that_moved_are_held_against_those_of_the_weights",
    ),
    (
        "apply/inspect/layers.py",
        "        start = _narrow(flat(before)[live], key)\n        labels",
        "        start = points\n        labels",
        f"{INSPECT}test_clusters_of_neurons_are_held_against_those_of_the_start",
    ),
    (
        "apply/inspect/reading.py",
        "if layer.wide and layer.name != head]",
        "if layer.wide]",
        f"{INSPECT}test_the_reading_is_that_of_the_matrix_of_the_body_that_moved_most",
    ),
    (
        "apply/inspect/reading.py",
        "LAZY, RICH = 0.02, 0.15",
        "LAZY, RICH = 0.02, 0.02",
        f"{INSPECT}test_the_reading_is_that_of_the_matrix_of_the_body_that_moved_most",
    ),
    (
        "apply/inspect/reading.py",
        "if cosines and sum(c < UNRELATED for c in cosines) > len(cosines) / 2:",
        "if cosines and sum(c < -UNRELATED for c in cosines) > len(cosines) / 2:",
        f"{INSPECT}test_two_networks_are_not_read_as_one",
    ),
    (
        "apply/inspect/reading.py",
        "share < TRAINED:",
        "share < 0:",
        f"{INSPECT}test_a_small_change_of_weights_that_were_trained_before_is_not_called_lazy",
    ),
    (
        "apply/inspect/reading.py",
        "layer.before.stable * (math.sqrt(m) + math.sqrt(n)) ** 2 / (m * n)",
        "layer.before.stable * (m + n) / (m * n)",
        f"{INSPECT}test_a_random_start_is_random_whatever_its_shape",
    ),
    (
        "apply/inspect/reading.py",
        'if regime == "lazy" and grown:',
        "if False:",
        f"{INSPECT}test_a_matrix_of_zeros_that_grew_is_not_called_lazy",
    ),
    (
        "apply/inspect/layers.py",
        'state="same", change=0.0, cosine=1.0,',
        'state="same", change=0.0,',
        f"{INSPECT}test_one_matrix_that_was_drawn_anew_does_not_make_two_networks",
    ),
    (
        "data/weights.py",
        "weights_only=True",
        "weights_only=False",
        f"{WEIGHTS}test_a_pickle_that_runs_something_is_refused_and_not_run",
    ),
    (
        "data/weights.py",
        "if os.path.basename(f) != f or not f]",
        "if not f]",
        f"{WEIGHTS}test_what_is_not_weights_is_refused_in_one_line",
    ),
)
