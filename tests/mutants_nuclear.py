"""Mutants of the nuclear norm, its theory and domain generalisation, for the runner of `tests/test_mutants.py`."""

_NORM = "src/featlearn/methods/nuclear_norm.py"
_AVERAGING, _TRAINING = (f"src/featlearn/methods/domains/{name}.py" for name in ("averaging", "training"))
_SCORES = "src/featlearn/tools/domains/scores.py"
_RUNS = "src/featlearn/tools/domains/runs.py"
_ROWS = "src/featlearn/theory/nuclear/rows.py"
_PLANE = "src/featlearn/experiments/nuclear/synthetic.py"
_SUMS = "src/featlearn/theory/nuclear/sums.py"
_TASKS = "src/featlearn/tasks/environments.py"
_P = "tests/theory/test_nuclear_population.py::test_"
_E = "tests/tasks/test_environments.py::test_"
_X = "tests/experiments/test_nuclear_"
_N = "tests/methods/test_nuclear_norm.py::test_"
_T = "tests/methods/test_domain_training.py::test_"
_TOOL = "tests/tools/test_domain_tool.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (_NORM, "torch.where(s > s[..., -1:] * noise, 1 / s, 0.0)", "1 / s",
     f"{_N}degenerate_batches_have_the_smallest_subgradient[repeated rows-gram]"),
    (_NORM, "torch.float32 if x.device.type == \"mps\" else torch.float64", "torch.float32",
     f"{_N}singular_values_far_apart_keep_their_gradient[gram]"),
    (_SUMS, "-np.expm1(-decay * high)", "1 - np.exp(-decay * high)", f"{_P}tails_at_the_ends"),
    (_SUMS, "c * (c - 1) * psi[1] ** 2", "c * c * psi[1] ** 2", f"{_P}moments_of_the_parts"),
    (_TASKS, "torch.where(b <= a, 1 - ratio / 2, ratio / 2)", "torch.where(b <= a, 1 - ratio / 2, ratio)",
     f"{_E}accuracy_is_the_area_that_a_direction_gets_right[0.7]"),
    (_ROWS, "(r[\"validation\"], -r[\"weight\"])", "(r[\"test\"], -r[\"weight\"])",
     f"{_X}digits.py::test_validation_alone_chooses_the_weight"),
    (_AVERAGING, "mean.add_(value.to(mean) - mean, alpha=count / self.count)",
     "mean.add_(value.to(mean) - mean, alpha=1 / self.count)", f"{_T}the_mean_counts_and_keeps_precision"),
    (_AVERAGING, "losses[0] == min(losses)", "losses[-1] == max(losses)",
     f"{_T}the_stream_follows_the_window[SwadRule(converge=3, tolerance=6, ratio=0.3)]"),
    (_TRAINING, "found.accuracy[VALIDATION] > best.accuracy[VALIDATION]",
     "found.accuracy[VALIDATION] >= best.accuracy[VALIDATION]", f"{_T}the_earliest_of_equal_evaluations_is_kept"),
    (_RUNS, "watch |= {TEST: [inside], ORACLE: [outside]}", "watch |= {TEST: [inside], ORACLE: [inside]}",
     f"{_TOOL}nothing_selects_on_what_is_tested"),
    (_SCORES, "kept = [r for r in kept if r[\"step\"] == last[r[\"trial\"]]]", "pass",
     f"{_TOOL}oracle_selection_looks_at_the_last_steps_only"),
    (_PLANE, "(b + det.sign() * cofactors)", "(b + cofactors)",
     f"{_X}synthetic.py::test_polar_is_the_subgradient_of_the_nuclear_norm"),
]  # fmt: skip
