"""Mutants of tasks, measures and claims of the gradient-feature work, for the runner of `tests/test_mutants.py`."""

_FEATURES, _BEST = (f"src/featlearn/measure/{name}.py" for name in ("gradient_features", "best_network"))
_PARITIES, _MIXTURE = (f"src/featlearn/tasks/{name}.py" for name in ("parities", "gaussian_mixture"))
_THEORY = "src/featlearn/works/gradient_features/claims/"
_TASKS = "tests/tasks/test_gradient_feature_tasks.py::test_"
_MEASURE = "tests/measure/test_gradient_features.py::test_"
_VERDICT = "tests/works/test_typed_claims.py::test_the_verdict_stands_and_planted_numbers_are_told_apart"

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        _PARITIES,
        "y = values.prod(2).sum(1).sign()",
        "y = values.sum(2).prod(1).sign()",
        f"{_TASKS}block_parity_law[pattern]",
    ),
    (
        _MIXTURE,
        "torch.stack([frame, -frame], 1)",
        "torch.stack([frame, frame], 1)",
        f"{_TASKS}xor_mixture_is_two_opposite_pairs",
    ),
    (
        _FEATURES,
        "gate = (x[rows] @ w.T > b)",
        "gate = (x[rows] @ w.T > -b)",
        f"{_MEASURE}simplified_gradient_is_the_gradient_where_the_network_is_zero[7]",
    ),
    (
        _FEATURES,
        "(bell @ sigma / size)[:, None] * w",
        "(bell @ sigma)[:, None] * w",
        f"{_MEASURE}gaussian_gradients_agree_with_samples",
    ),
    (
        _FEATURES,
        "value = torch.where(flip, -value, value)",
        "value = value.abs()",
        f"{_MEASURE}draws_beyond_every_sample",
    ),
    (
        _FEATURES,
        "return (b.sign() == sign) & (along >",
        "return (b.sign() == sign) & (along.abs() >",
        f"{_MEASURE}nice_neurons_are_signed",
    ),
    (
        _BEST,
        "return norm * size - float(alpha.sum())",
        "return 0.5 * norm * size - float(alpha.sum())",
        "tests/measure/test_best_network.py::test_value_is_between_lower_bound_and_every_other_point[1.0-hinge]",
    ),
    # the step size chosen on the seeds that are reported
    (
        "src/featlearn/works/gradient_features/rows.py",
        'r["row"] == NETWORK and r["seed"] >= VALIDATION',
        'r["row"] == NETWORK',
        "tests/works/gradient_features/test_trained_claims.py::"
        "test_a_step_size_is_chosen_on_validation_seeds_and_must_stay_finite",
    ),
    (
        "src/featlearn/learn/framework.py",
        "left = 1 - eta * penalty",
        "left = 1 - 2 * eta * penalty",
        "tests/learn/test_framework.py::test_first_step_forgets_and_joint_steps_follow_the_listing[hinge]",
    ),
    (
        "src/featlearn/works/gradient_features/setup.py",
        "total += (-1) ** (i + 1 + shift) * math.sqrt(k) * bump",
        "total += (-1) ** (i + shift) * math.sqrt(k) * bump",
        f"{_VERDICT}[gradient_features.lemma3_21]",
    ),
    (
        f"{_THEORY}uniform_parity.py",
        "xi(d, A + 1) * sign * w[:, A:]",
        "xi(d, A - 1) * sign * w[:, A:]",
        f"{_VERDICT}[gradient_features.lemma_b63]",
    ),
    (
        f"{_THEORY}xor_mixture.py",
        "p * float(erf(s))",
        "p * float(norm.cdf(s))",
        f"{_VERDICT}[gradient_features.lemma_b37]",
    ),
]
