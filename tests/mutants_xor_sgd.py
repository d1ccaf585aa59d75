"""Mutants of the XOR work: task, scaling, one-pass SGD, signal measures, budgets, claims."""

_TASK, _INITIAL, _FRESH, _SIGNAL = (
    f"src/featlearn/{name}.py" for name in ("tasks/boolean_xor", "nets/initial", "learn/one_pass", "measure/signal")
)
_BUDGETS = "src/featlearn/works/xor_sgd/experiments/budgets.py"
_PHASE1, _ROWS = (f"src/featlearn/works/xor_sgd/{name}.py" for name in ("claims/phase1", "rows"))
_FIT = "tests/learn/test_one_pass.py::test_"
_MEASURE = "tests/measure/test_signal.py::test_"
_CLAIM = "tests/works/xor_sgd/test_xor_sgd_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        _TASK,
        "y = -pair[:, 0] * pair[:, 1]",
        "y = pair[:, 0] * pair[:, 1]",
        "tests/tasks/test_boolean_xor.py::test_samples_are_cluster_centres_plus_orthogonal_noise[pair0-standard]",
    ),
    (
        _INITIAL,
        "return 2 * p * eta, 2 * eta / p",
        "return p * eta, eta / p",
        "tests/nets/test_sphere.py::test_a_step_of_the_engine_is_the_reported_step",
    ),
    (
        _FRESH,
        "torch.linalg.vecdot(self.v, dv)",
        "torch.linalg.vecdot(self.v, dv).abs()",
        f"{_FIT}an_ensemble_is_a_loop_of_single_runs[in blocks-sets0-large batch]",
    ),
    (_FRESH, "key / name / chunk", "key / chunk", f"{_FIT}no_sample_is_used_twice_and_sets_have_their_own"),
    (
        _FRESH,
        "self.alive = before & (self.a.abs().amax(-1, keepdim=True) < LARGEST)",
        "self.alive = before",
        f"{_FIT}a_member_that_diverges_rests_and_disturbs_nobody[sets0]",
    ),
    (
        _FRESH,
        "self.v.view(s, r, m, -1).masked_fill_(~self.alive[..., None], 0)",
        "pass",
        f"{_FIT}weights_that_overflow_within_a_step_disturb_nobody[1e+34-10000.0]",
    ),
    (
        _SIGNAL,
        "torch.where(own, first, second), torch.where(own, second, first)",
        "torch.where(own, first, second), torch.where(own, first, second)",
        f"{_MEASURE}parts_against_projections_one_neuron_at_a_time",
    ),
    (
        _SIGNAL,
        "return 2 * torch.sigmoid(-margins)",
        "return torch.sigmoid(-margins)",
        f"{_MEASURE}loss_sizes_are_the_slope_of_the_reported_loss",
    ),
    (_SIGNAL, "math.exp(6 * H) * perp", "perp", f"{_MEASURE}each_clause_of_the_definition_can_fail[change0-4e-05-1.0]"),
    (
        _BUDGETS,
        "score += b[done:n].T @ u[done:n, 0]",
        "score = b[done:n].T @ u[done:n, 0]",
        "tests/works/xor_sgd/test_xor_sgd_experiments.py::test_nested_sizes_of_a_kernel_equal_fits_of_their_own[NTK]",
    ),
    (
        _PHASE1,
        "(near[0] - near[1])",
        "(near[1] - near[0])",
        f"{_CLAIM}phase1.py::test_the_example_of_the_accusation_by_hand",
    ),
    (
        _ROWS,
        'table.where(role="validation").by("share", "noise")',
        'table.by("share", "noise")',
        f"{_CLAIM}on_rows.py::test_the_selection_does_not_see_reported_seeds",
    ),
    (
        "works/xor_sgd/claims/samples.py",
        "all(max(of, default=1.0) < AT_EDGES for of in shares.values())",
        "True",
        "tests/works/xor_sgd/test_xor_sgd_on_rows.py::test_a_kernel_whose_grid_ends_where_it_still_saves_was_not_given_its_best",
    ),
    (
        "works/xor_sgd/rows.py",
        "0.0 if len(means) > 2 else 1.0",
        "0.0",
        "tests/works/xor_sgd/test_xor_sgd_on_rows.py::test_a_kernel_whose_grid_ends_where_it_still_saves_was_not_given_its_best",
    ),
]
