"""Committed mutants of looped transformers: prompts, layer, loops, the figure and its claims."""

NETS, FIGURE = "tests/nets/test_looped.py", "tests/works/looped/test_figure8_1.py"
MUTANTS = (
    (
        "nets/looped.py",
        "read = (last @ query_key @ rest.mT) @ rest @ value",
        "read = (last @ query_key.mT @ rest.mT) @ rest @ value",
        f"{NETS}::test_attention_is_the_masked_product",
    ),
    (
        "nets/looped.py",
        "last = last - step[:, None, None] * read",
        "last = last - step[:1, None, None] * read",
        f"{NETS}::test_each_prompt_has_steps_of_its_own",
    ),
    (
        "nets/looped.py",
        "if not bool(torch.isfinite(found.detach()).all()):",
        "if False:",
        f"{NETS}::test_steps_beyond_two_over_l_are_said_to_diverge",
    ),
    (
        "nets/looped.py",
        "return torch.linalg.matrix_norm(_wide(x), ord=2).square()",
        "return torch.linalg.matrix_norm(_wide(x)).square()",
        f"{NETS}::test_smoothness_is_the_largest_eigenvalue",
    ),
    (
        "tasks/linear_regression.py",
        "y = y + self.noise * torch.randn",
        "y = y + self.noise**2 * torch.randn",
        f"{NETS}::test_labels_have_the_noise_that_was_asked_for",
    ),
    (
        "works/looped/experiments/figure8_1.py",
        "shrink = np.abs(1 - trial.step * values / values[-1])",
        "shrink = np.abs(1 - values / values[-1])",
        f"{FIGURE}::test_another_step_falls_at_another_rate",
    ),
    (
        "works/looped/experiments/figure8_1.py",
        "v > slope * t + 1e-9",
        "v > slope * t + 1.0",
        f"{FIGURE}::test_crossings_are_the_first",
    ),
    (
        "works/looped/claims/figure.py",
        "SQUARED: loops - lines[1.0],",
        "SQUARED: loops - lines[0.5],",
        f"{FIGURE}::test_errors_that_fall_half_as_fast_are_seen",
    ),
    (
        "works/looped/claims/figure.py",
        "means[n // 2] < value",
        "means[n] < value",
        f"{FIGURE}::test_means_at_half_as_many_examples_are_another_law_at_every_n",
    ),
    (
        "works/looped/claims/figure.py",
        "float(np.exp(theory) - np.exp(r.exact))",
        "float(np.exp(r.exact) - np.exp(theory))",
        f"{FIGURE}::test_rows_of_the_theory_agree_and_the_gap_narrows_in_loops_and_widens_in_early_logarithms",
    ),
    (
        "works/looped/claims/figure.py",
        "r.t / -theory - r.t / -r.exact",
        "r.t / -theory",
        f"{FIGURE}::test_a_gap_that_widens_in_loops_is_seen",
    ),
    (
        "nets/looped.py",
        "return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x",
        "return x",
        f"{NETS}::test_half_precision_is_solved_in_float32_and_comes_back_as_it_was",
    ),
)
