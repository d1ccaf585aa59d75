"""Mutants of core, tasks, nets, learn and report, for the runner of `tests/test_mutants.py`.

Each is (file relative to the repository root, text that stands there once, wrong text, node id that must turn red): the
nearest wrong code to what its test protects. Tests that load torch.optim are left to others, since that takes seconds.
"""

_LEARN = ("fit", "groups", "linear", "schedules")
_FIT, _GROUPS, _LINEAR, _SCHEDULES = (f"src/featlearn/learn/{name}.py" for name in _LEARN)
_NET, _POINTWISE = (f"src/featlearn/nets/{name}.py" for name in ("two_layer", "pointwise"))
_PATTERNS, _CLUSTERS = (f"src/featlearn/tasks/{name}.py" for name in ("patterns", "clusters"))

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        "src/featlearn/catalog.py",
        "reasons=e.reasons, waits=e.waits)",
        "reasons=e.reasons)",
        "tests/works/icl_scale/test_label_noise.py::test_the_figures_wait_for_their_models_whatever_small_ones_show",
    ),
    # rows of another model that cover a figure whose own model nobody can bundle
    (
        "src/featlearn/lab/coverage.py",
        'any(c.covers and c.scope == "as stated" for c in mine)',
        "any(c.covers for c in mine)",
        "tests/lab/test_coverage.py::test_an_entry_whose_data_are_needed_is_not_decided_by_claims_on_other_models",
    ),
    # rows of other images that cover a figure whose own nobody can bundle
    (
        "src/featlearn/lab/coverage.py",
        "if waits and (mine or with_rows) and",
        "if waits and mine and",
        "tests/lab/test_coverage.py::test_rows_on_other_data_do_not_cover_an_entry_that_waits_for_its_own",
    ),
    # a weighted mean that divides by the weights' sum trains unbalanced classes at another rate
    (
        _FIT,
        "delta * (wt.T / total)",
        "delta * (wt.T / wt.sum())",
        "tests/learn/test_fit.py::test_weights_multiply_the_loss_and_are_not_normalised",
    ),
    (
        _FIT,
        "delta * (wt / total)",
        "delta * (wt / wt.sum())",
        "tests/learn/test_fit.py::test_shared_data_equals_the_same_data_given_to_each",
    ),
    # the other networks' errors in a network's second layer
    (
        _FIT,
        "da.view(g, g, m).diagonal(dim1=0, dim2=1).T.contiguous()",
        "da.view(g, g, m).sum(0)",
        "tests/learn/test_fit.py::test_ensemble_equals_a_loop_of_single_runs",
    ),
    # the last block of rows in place of all
    (
        _FIT,
        "dv.addmm_(gate.view(b, g * m).T, x)",
        "torch.mm(gate.view(b, g * m).T, x, out=dv)",
        "tests/learn/test_fit.py::test_ensemble_equals_a_loop_of_single_runs",
    ),
    # each network its own minibatches: an ensemble would no longer be a loop of single runs
    (
        _FIT,
        "batches(n, stage.batch, stage.steps, key / i)",
        "batches(n, stage.batch, stage.steps, key / i / group.members.start)",
        "tests/learn/test_fit.py::test_ensemble_equals_a_loop_of_single_runs",
    ),
    # a rate read by position in the group instead of position in the ensemble
    (
        _FIT,
        "self.a.sub_(da * column(stage.rate_a, self.members, self.a, 2))",
        "self.a.sub_(da * column(stage.rate_a, slice(0, len(self.a)), self.a, 2))",
        "tests/learn/test_fit.py::test_ensemble_equals_a_loop_of_single_runs",
    ),
    # the penalty that the paper puts on weights alone reaches the biases
    (
        _FIT,
        "self.v[..., :-1].mul_(stage.keep_w)",
        "self.v.mul_(stage.keep_w)",
        "tests/learn/test_fit.py::test_keep_factors_shrink_weights_and_leave_biases_alone",
    ),
    # a probe that sees the weights themselves instead of a copy
    (
        _FIT,
        "TwoLayer(self.v[..., :-1].clone(), self.v[..., -1].clone(), self.a.clone(), self.kind)",
        "TwoLayer(self.v[..., :-1], self.v[..., -1], self.a, self.kind)",
        "tests/learn/test_fit.py::test_probes_do_not_change_training_and_cannot_reach_into_it",
    ),
    (
        _GROUPS,
        "        torch.set_num_threads(before)",
        "        pass",
        "tests/learn/test_fit.py::test_nothing_of_the_callers_changes",
    ),
    (
        _SCHEDULES,
        "if at + batch > len(order):",
        "if at >= len(order):",
        "tests/learn/test_schedules.py::test_short_last_batch_of_an_epoch_is_dropped",
    ),
    # tangent features without the second layer's sign: halves of a mirrored network no longer cancel
    (
        _LINEAR,
        "gated(net.a, z, net.activation, out=torch.empty_like(z))",
        "gated(net.a.abs(), z, net.activation, out=torch.empty_like(z))",
        "tests/learn/test_linear_models.py::test_tangent_scores_are_the_jacobian_vector_product_of_the_network",
    ),
    # the reported gradient of the biases, without the noise inside its indicator
    (
        _NET,
        "db += gate.sum(1)",
        "db += gated(delta, z, net.activation, out=torch.empty_like(z)).sum(1)",
        "tests/nets/test_two_layer.py::test_reported_bias_gradient_without_noise_in_its_indicator_is_wrong",
    ),
    (
        _POINTWISE,
        "where(y * score <= 1,",
        "where(y * score < 1,",
        "tests/nets/test_pointwise.py::test_hinge_is_active_at_its_kink_as_reported",
    ),
    (
        _POINTWISE,
        "return act, slope_.sub_(lower)",
        "return act, slope_",
        "tests/nets/test_pointwise.py::test_smoothed_activation_equals_quadrature",
    ),
    # background patterns with marginal p_o (1 - p_o) / 2 + p_o / 2 instead of p_o
    (
        _PATTERNS,
        "off_rate = self.p_o / (2 - 2 * self.p_o)",
        "off_rate = self.p_o / 2",
        "tests/tasks/test_patterns.py::test_parity_sampler_follows_the_recipe",
    ),
    # an all-or-none block that no longer decides the label
    (
        _PATTERNS,
        "block = torch.where(fair[:, None], block, plus[:, None].float())",
        "block = torch.where(fair[:, None], block, 1 - plus[:, None].float())",
        "tests/tasks/test_patterns.py::test_parity_labels_and_inputs_come_from_the_hidden_bits",
    ),
    (
        _PATTERNS,
        "gamma = (pmf * y * count).sum() / self.k - (pmf * y).sum() * p",
        "gamma = (pmf * y * count).sum() / self.k",
        "tests/tasks/test_patterns.py::test_interval_numbers_of_the_inventory",
    ),
    (
        _PATTERNS,
        "return (q * r.diagonal().sign()).float()",
        "return q.float()",
        "tests/tasks/test_patterns.py::test_orthonormal_dictionary_is_uniform_over_directions",
    ),
    (
        _PATTERNS,
        "randperm(D, generator=key.torch())",
        "randperm(D)",
        "tests/test_contracts.py::test_draw_and_sample_are_functions_of_the_key",
    ),
    (
        _CLUSTERS,
        "(self.sigma_r * (self.k / self.d) ** 0.5)",
        "(self.sigma_r * self.d**-0.5)",
        "tests/tasks/test_gaussian_clusters.py::test_samples_lie_around_their_centres_with_the_reported_noise",
    ),
    (
        "src/featlearn/errors.py",
        "return type(self), (self.field, self.value, self.allowed, self.remedy)",
        "return type(self), (str(self),)",
        "tests/core/test_types.py::test_setting_error_survives_a_worker_process",
    ),
    (
        "src/featlearn/core/key.py",
        "digest_size=8",
        "digest_size=16",
        "tests/core/test_key.py::test_seeds_and_streams_are_pinned",
    ),
    (
        "src/featlearn/measure/alignment.py",
        ".max(-1).values",
        ".abs().max(-1).values",
        "tests/nets/test_alignment.py::test_closest_cosine_is_the_signed_maximum_over_neurons",
    ),
    # labels 0 and 1 would train a margin loss in silence
    (
        _FIT,
        '@checked(signs=("y",), moves=True)',
        "@checked(moves=True)",
        "tests/learn/test_fit.py::test_labels_other_than_signs_are_refused_where_the_loss_is_a_margin",
    ),
    (
        "src/featlearn/measure/tangent.py",
        "a[i].square()",
        "a[i].abs()",
        "tests/measure/test_tangent.py::test_kernel_equals_products_of_autograd_gradients[True]",
    ),
    # --- report ------------------------------------------------------------------------------------------------------
    (
        "src/featlearn/report/plots.py",
        '        if "x" in p.log and not len(p.ticks):',
        "        if not p.log:",
        "tests/report/test_plots.py::test_ticks_of_a_short_logarithmic_axis_and_titles_of_panels_do_not_overlap",
    ),
    (
        "src/featlearn/report/plots.py",
        "title=textwrap.fill(p.title, room)",
        "title=p.title",
        "tests/report/test_plots.py::test_ticks_of_a_short_logarithmic_axis_and_titles_of_panels_do_not_overlap",
    ),
    (
        "lab/judge.py",
        "return 1 - 2 * alpha / (n - needed + 1), 1 - alpha / (m * needed)",
        "return 1 - 2 * alpha / (n - needed + 1), 1 - alpha / m",
        "tests/report/test_statements.py::test_levels_are_those_of_the_judge",
    ),
    (
        "lab/uncertainty.py",
        "e.moved_units < min(FEW_MOVED, e.n / 2)",
        "e.moved_units < 0",
        "tests/lab/test_uncertainty.py::test_differences_of_units_that_gain_or_lose_are_covered[0.0-0.05-40]",
    ),
    (
        "lab/uncertainty.py",
        "e.moved_units < min(FEW_MOVED, e.n / 2)",
        "e.moved_units < FEW_MOVED",
        "tests/lab/test_uncertainty.py::test_a_difference_that_few_units_make_has_no_interval_of_their_spread",
    ),
]
