"""Committed mutants of hierarchical tasks, three-layer networks, kernels on the cube and of depth, and their claims."""

MUTANTS = (
    (
        "nets/residual.py",
        "into = through + back if net.wiring in SKIPS else back",
        "into = back",
        "tests/nets/test_residual.py::test_gradients_are_those_of_autograd",
    ),
    (
        "nets/residual.py",
        '                found["a"] = found["a"] + read\n',
        "                pass\n",
        "tests/nets/test_residual.py::test_gradients_are_those_of_autograd",
    ),
    (
        "learn/residual.py",
        "g = torch.addcmul(slopes[name], decays[name], theta[name])",
        "g = slopes[name]",
        "tests/learn/test_fit_residual.py::test_steps_are_those_of_torch_sgd",
    ),
    (
        "learn/residual.py",
        "rates = {name: rate / 10 for name, rate in rates.items()}",
        "rates = {name: rate / 2 for name, rate in rates.items()}",
        "tests/learn/test_fit_residual.py::test_steps_are_those_of_torch_sgd",
    ),
    (
        "kernels/cube.py",
        "(spectrum.square()[:, None] * krawtchouk(d))",
        "(spectrum[:, None] * krawtchouk(d))",
        "tests/kernels/test_cube.py::test_spectrum_and_gram_are_those_of_the_cube",
    ),
    (
        "kernels/cube.py",
        "alpha * spectrum[blocks.shape[1]] * x[:, blocks].prod(-1)",
        "spectrum[blocks.shape[1]] * x[:, blocks].prod(-1)",
        "tests/kernels/test_cube.py::test_best_risks_agree_with_least_squares_on_all_points",
    ),
    (
        "kernels/deep.py",
        "value + value2 + mean_x * over_y + over_x * mean_y",
        "value + value2",
        "tests/kernels/test_deep.py::test_kernels_of_the_residual_network_are_the_limits_of_wide_ones",
    ),
    (
        "kernels/deep.py",
        "tangent = value + 1 + weight_var * slope * tangent",
        "tangent = value + weight_var * slope * tangent",
        "tests/kernels/test_deep.py::test_deep_kernels_are_the_limits_of_wide_networks",
    ),
    (
        "tasks/hierarchical.py",
        "(-1.0) ** torch.arange(1, self.k + 1)",
        "(-1.0) ** torch.arange(self.k)",
        "tests/tasks/test_hierarchical.py::test_targets_of_section_8_1_are_written_out",
    ),
    (
        "tasks/smooth_composite.py",
        "math.sqrt(2 / self.k) * torch.stack",
        "torch.stack",
        "tests/tasks/test_smooth_composite.py::test_targets_are_the_formula_and_signals_have_norm_one",
    ),
    (
        "measure/complexity.py",
        "0.5 * math.log(math.log(1 / eps) / i)",
        "0.5 * math.log(math.log(1 / eps))",
        "tests/measure/test_complexity.py::test_log_complexity_by_hand",
    ),
    (
        "works/resnet/rows.py",
        "[DIVERGED if r.validation is None else r.validation for r in part.rows]",
        "[DIVERGED if r.validation is None else r.test for r in part.rows]",
        "tests/works/resnet/test_figures.py::test_validation_chooses_where_the_test_would_choose_otherwise",
    ),
    (
        "works/resnet/rows.py",
        'runs = part.where(role="validation")',
        'runs = part.where(role="reported")',
        "tests/works/resnet/test_rates.py::test_validation_seeds_choose_and_reported_seeds_count",
    ),
    (
        "works/_settings.py",
        "    if min(seeds) < 0:\n",
        "    if False:\n",
        "tests/works/test_settings.py::test_minus_one_is_refused_where_it_has_no_meaning[xor_sgd/time]",
    ),
)
