"""Mutants of the Fourier work: task, measures, closed forms, training, claims."""

_TASK, _MEASURE, _FORM, _NETWORKS = (
    f"src/featlearn/{name}.py"
    for name in ("tasks/modular_addition", "measure/fourier", "works/fourier/setup", "works/fourier/claims/networks")
)
_T, _M, _C = (
    f"tests/{name}.py::test_"
    for name in ("tasks/test_modular_addition", "measure/test_fourier", "works/fourier/test_fourier_closed_form")
)

MUTANTS: list[tuple[str, str, str, str]] = [
    (_TASK, "for j in range(k - 1, -1, -1)", "for j in range(k)", f"{_T}indices_count_the_points_in_order[dtype0-5-3]"),
    (
        _TASK,
        "if n in (0, total):",
        "if n == 0:",
        f"{_T}a_split_with_an_empty_side_is_refused"
        r"[1.0-torch.arange\\(p\\*\\*k\\)]",
    ),
    (
        _MEASURE,
        "both = power.new_full((p // 2 + 1,), 2.0)",
        "both = power.new_full((p // 2 + 1,), 1.0)",
        f"{_M}power_is_that_of_projections_on_cosines[7]",
    ),
    (
        "src/featlearn/learn/power.py",
        ".mul_(lower).mul_(self.k)",
        ".mul_(lower)",
        "tests/learn/test_fit_power.py::test_gradient_equals_autograd_of_the_reported_loss[3]",
    ),
    (
        _MEASURE,
        "phases - _at(other, frequency).angle()",
        "phases + _at(other, frequency).angle()",
        f"{_M}phases_of_cosines_add_up[7]",
    ),
    (_MEASURE, "own[..., q // 2 + 1 :] = 0", "pass", f"{_M}power_in_two_dimensions_is_that_of_pairs[5-5]"),
    (
        _MEASURE,
        "censored = test.isnan() & ~train.isnan()",
        "censored = test.isnan()",
        f"{_M}grokking_delay_with_and_without_an_end",
    ),
    (_FORM, "p ** ((k - 1) / 2))", "p ** (k / 2))", f"{_C}gamma_star_of_hand_checked_settings"),
    (_FORM, "* (-1 if odd else 1)", "* 1", f"{_C}constructions_attain_the_best_margin_at_every_point[2-5-constructed]"),
    (
        _FORM,
        "lam - (k + 1) * g * c**k / (1 + math.exp(-z)) if",
        "lam - k * g * c**k / (1 + math.exp(-z)) if",
        f"{_C}minimum_against_a_fine_grid[2-23-0.005]",
    ),
    (
        "src/featlearn/learn/power.py",
        "share.pow(k - 1) / whole",
        "share.pow(k) / whole",
        "tests/learn/test_fit_power.py::test_gradient_equals_autograd_of_the_reported_loss[2]",
    ),
    (
        _NETWORKS,
        "if not sees_no_order(net):",
        "if not sees_no_order:",
        "tests/works/fourier/test_fourier_claims.py::test_margins_by_orders_only_where_the_network_sees_none",
    ),
]
