"""Committed mutants of in-context regression: prompts, layer, optimum, training, and the claims on them."""

NETS, TRIALS = "tests/nets/test_linear_attention.py", "tests/works/icl_scale/test_rank_noise.py"
CLAIMS = "tests/works/test_typed_claims.py::test_the_verdict_stands_and_planted_numbers_are_told_apart"
MUTANTS = (
    (
        "tasks/regression_prompts.py",
        "answer = said[:, -1].clone()",
        "answer = said[:, 0].clone()",
        f"{NETS}::test_prompts_have_the_covariance_the_noise_and_the_weight_that_were_asked_for",
    ),
    (
        "tasks/regression_prompts.py",
        "return truth.features.new_tensor(self.variances).sqrt()",
        "return truth.features.new_tensor(self.variances)",
        f"{NETS}::test_prompts_have_the_covariance_the_noise_and_the_weight_that_were_asked_for",
    ),
    (
        "nets/linear_attention.py",
        "gram = prompts @ prompts.mT / rho",
        "gram = prompts[..., :-1] @ prompts[..., :-1].mT / rho",
        f"{NETS}::test_the_layer_is_the_formula_and_its_answer_the_last_corner",
    ),
    (
        "nets/linear_attention.py",
        "+ row[:, :-1, None] * below[:, -1:]",
        "+ 0 * row[:, :-1, None] * below[:, -1:]",
        f"{NETS}::test_answers_have_the_matrix_of_the_layer_in_their_odd_part",
    ),
    (
        "nets/linear_attention.py",
        "return values.flip(0).clamp(min=0), vectors.flip(1)",
        "return values.clamp(min=0), vectors",
        f"{NETS}::test_no_matrix_of_the_rank_has_less_loss",
    ),
    (
        "nets/linear_attention.py",
        "(examples / ((examples + 1) * values[:rank] + values.sum()))",
        "(examples / ((examples + 1) * values[:rank] + values[:rank].sum()))",
        f"{NETS}::test_no_matrix_of_the_rank_has_less_loss",
    ),
    (
        "nets/linear_attention.py",
        "gamma = (1 + 1 / examples) * covariance",
        "gamma = covariance",
        f"{NETS}::test_the_population_loss_of_one_direction_is_that_of_moments",
    ),
    (
        "works/icl_scale/experiments/rank_noise.py",
        "even = ((net(x)[i] + net(turned)[i]) / 2)",
        "even = ((net(x)[i] - net(turned)[i]) / 2)",
        f"{TRIALS}::test_answers_that_do_not_turn_with_the_labels_are_all_excess",
    ),
    (
        "works/icl_scale/experiments/rank_noise.py",
        "p.grad *= mask",
        "pass",
        f"{TRIALS}::test_weights_outside_of_the_form_stay_zero",
    ),
    (
        "works/icl_scale/experiments/rank_noise.py",
        "losses.append(float((s2 @ g**2 + ",
        "losses.append(float((",
        f"{TRIALS}::test_the_picture_has_the_best_rank_of_the_theorem",
    ),
    (
        "works/icl_scale/claims/trained.py",
        "spread = ((s**2 * v**2 * lam**3).sum(-1) + whole * trace)",
        "spread = (whole * trace)",
        f"{TRIALS}::test_exact_losses_agree_with_the_law_and_its_best_rank",
    ),
    (
        "works/icl_scale/claims/noise.py",
        "xi = p.coordinates - s",
        "xi = 0 * s",
        f"{CLAIMS}[icl_scale.theorem5_4_2]",
    ),
    (
        "works/icl_scale/claims/gap.py",
        "gaps.append(square[small.rank : large.rank].sum())",
        "gaps.append(np.sqrt(square[small.rank : large.rank]).sum())",
        f"{CLAIMS}[icl_scale.theorem5_4_3]",
    ),
    (
        "works/icl_scale/setup.py",
        "np.where(points == 0, 2 / 3, 1 / 6)",
        "np.where(points == 0, 1 / 3, 1 / 3)",
        f"{CLAIMS}[icl_scale.lemmaD_2]",
    ),
)
