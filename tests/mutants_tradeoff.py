"""Committed mutants of the theory of the trade-off work: its tasks, linear pretraining, probing and claims."""

THEORY = "tests/works/tradeoff/test_tradeoff_theory.py::"
MIXTURES = "tests/works/tradeoff/test_tradeoff_mixtures.py::"
STANDS = "tests/works/test_typed_claims.py::test_the_verdict_stands_and_planted_numbers_are_told_apart"
MUTANTS = (
    (
        "tasks/task_mixture.py",
        "            z[:, self.k :] = torch.randn(n, self.spurious, generator=g)\n",
        "            z[:, self.k :] = 1.0\n",
        "tests/tasks/test_tradeoff_tasks.py::test_pairs_share_the_features_of_one_task_and_nothing_else",
    ),
    (
        "tasks/task_mixture.py",
        "label = torch.cat([p / p.norm() for p in parts]) / 2**0.5",
        "label = torch.cat([p / p.norm() for p in parts])",
        "tests/tasks/test_tradeoff_tasks.py::test_inputs_and_labels_are_written_out",
    ),
    (
        "tasks/invariant.py",
        'self.sample(truth, n, key / "negative")',
        'self._batch(truth, x.group, key / "negative")',
        "tests/tasks/test_tradeoff_tasks.py::test_triples_share_what_they_should",
    ),
    (
        "learn/linear_contrastive.py",
        "(sums[i] - budget) / (sums[i] - sums[i + 1])",
        "0.5",
        "tests/learn/test_linear_contrastive.py::test_projection_is_the_nearest_matrix_of_the_set",
    ),
    (
        "learn/linear_contrastive.py",
        "        if step > steps // 2:\n",
        "        if step >= steps // 2:\n",
        "tests/learn/test_linear_contrastive.py::test_steps_are_those_of_autograd",
    ),
    (
        "works/tradeoff/experiments/mixtures.py",
        "c = -h * b / (top + high - h)",
        "c = h * b / (top + high - h)",
        MIXTURES + "test_worst_is_the_largest_risk_among_interpolators_of_the_norm_of_the_truth",
    ),
    (
        "works/tradeoff/experiments/mixtures.py",
        "tuned = min(1.0, largest**-0.5 + c.gamma / math.sqrt(c.r - c.s))",
        "tuned = min(1.0, largest**-0.5 + c.gamma / math.sqrt(c.r))",
        MIXTURES + "test_trials_are_mixtures_and_closed_forms",
    ),
    (
        "works/tradeoff/claims/mixtures.py",
        "slopes = np.diff(risks, axis=2) / np.diff(np.log(tasks))",
        "slopes = np.diff(risks, axis=2) / np.diff(np.log(tasks)) / 2",
        MIXTURES + "test_growth_as_the_root_of_the_tasks_would_have_been_seen",
    ),
    (
        "works/tradeoff/claims/hidden.py",
        'smooth = np.einsum("u,ruk->rk", s.q, s.phi)',
        "smooth = s.phi.mean(1)",
        STANDS + "[tradeoff.theorem7_1]",
    ),
    (
        "works/tradeoff/claims/invariance.py",
        "math.exp(2 * p * (math.log(2)",
        "math.exp(p * (math.log(2)",
        STANDS + "[tradeoff.theorem7_2_2]",
    ),
    (
        "works/tradeoff/claims/invariance.py",
        "math.log((3 * c - 1) / (1 - c))",
        "math.log(2 * c / (1 - c))",
        STANDS + "[tradeoff.theorem7_2_order]",
    ),
    (
        "works/tradeoff/claims/linear_data.py",
        "[[-(f * m.s * a / x).sum()], -f * n * b / y]",
        "[[-(f * m.s * a / x).sum()], -f * n * b]",
        STANDS + "[tradeoff.lemmaF_3]",
    ),
    (
        "works/tradeoff/claims/bounds.py",
        "np.minimum(1, start + g / math.sqrt(s))",
        "start + g / math.sqrt(s)",
        STANDS + "[tradeoff.propF_9]",
    ),
)
