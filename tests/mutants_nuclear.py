"""Mutants of the nuclear norm and of domain generalisation, for the runner of `tests/test_mutants.py`."""

_NORM = "src/featlearn/methods/nuclear_norm.py"
_OBJECTIVES, _AVERAGING, _TRAINING = (
    f"src/featlearn/methods/domains/{name}.py" for name in ("objectives", "averaging", "training")
)
_SCORES = "src/featlearn/tools/domains/scores.py"
_RUNS = "src/featlearn/tools/domains/runs.py"
_ROWS = "src/featlearn/theory/nuclear/rows.py"
_PLANE = "src/featlearn/experiments/nuclear/synthetic.py"
_X = "tests/experiments/test_nuclear_"
_N = "tests/methods/test_nuclear_norm.py::test_"
_O = "tests/methods/test_domain_objectives.py::test_"
_T = "tests/methods/test_domain_training.py::test_"
_TOOL = "tests/tools/test_domain_tool.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (_NORM, "torch.where(s > s[..., -1:] * noise, 1 / s, 0.0)", "1 / s",
     f"{_N}degenerate_batches_have_the_smallest_subgradient[repeated rows-gram]"),
    (_NORM, "torch.float32 if x.device.type == \"mps\" else torch.float64", "torch.float32",
     f"{_N}singular_values_far_apart_keep_their_gradient[gram]"),
    (_NORM, "enabled=False):\n        x = features if", "enabled=True):\n        x = features if",
     f"{_N}float32_inside_autocast[svd]"),
    (_OBJECTIVES, "slope[::2].mean() * slope[1::2].mean()", "slope.mean() ** 2", f"{_O}irm_slope_is_that_of_autograd"),
    (_OBJECTIVES, "(f - mu) / (len(f) - 1)", "(f - mu) / len(f)", f"{_O}coral_by_hand"),
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
