"""Mutants of the amplification work, for the runner of `tests/test_mutants.py`."""

_TASK, _INIT, _NEURONS = (
    f"src/featlearn/{name}.py" for name in ("tasks/xor_clusters", "nets/initial", "measure/neurons")
)
_ENSEMBLES = "src/featlearn/works/amplification/setup.py"
_FIGURE2 = "src/featlearn/works/amplification/experiments/figure2.py"
_XOR = "tests/tasks/test_xor_clusters.py::test_"
_MEASURE = "tests/measure/test_neurons.py::test_"
_RUN = "tests/works/amplification/test_amplification.py::test_"
_THEORY = "tests/works/amplification/test_amplification_theory.py::test_"
_CLAIM = "tests/works/amplification/test_amplification_on_rows.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        _TASK,
        "z.addmm_((z @ v)[:, None], v[None], alpha=-1)",
        "z.addmm_((z @ v)[:, None], v[None], alpha=-0.5)",
        f"{_XOR}turning_takes_the_first_axes_to_the_means_and_keeps_lengths",
    ),
    (
        _TASK,
        "up = -lower_quantile(self.law, 1 - self.eta)",
        "up = lower_quantile(self.law, self.eta)",
        f"{_XOR}adversarial_flips_of_a_skewed_law_are_the_lower_tail_of_each_cluster",
    ),
    (_INIT, "a[:, m // 2 :] *= -1", "a[:, 1::2] *= 1", "tests/nets/test_initial.py::test_signs_scale_and_no_biases"),
    (
        _NEURONS,
        "return (own >= 0) & (on == 1) & (off == 0)",
        "return (own >= 0) & (on == 1)",
        f"{_MEASURE}alignment_needs_both_halves",
    ),
    (
        _NEURONS,
        "masked_fill(a[..., None] * labels > 0, 0)",
        "masked_fill(a[..., None] * labels < 0, 0)",
        f"{_MEASURE}overlap_is_over_the_other_class",
    ),
    (
        _NEURONS,
        "active = (z if b is None else z + b[i, :, None]) > 0",
        "active = z >= 0",
        f"{_MEASURE}captures_one_missing_sample",
    ),
    (
        "src/featlearn/measure/checks.py",
        "bad = ~((peak > 0) & torch.isfinite(peak))",
        "bad = ~torch.isfinite(peak)",
        f"{_MEASURE}refused_in_one_line",
    ),
    (_ENSEMBLES, "math.ceil(more - 1e-9)", "math.floor(more)", f"{_RUN}number_of_steps"),
    (
        _FIGURE2,
        "return replace(net, w=torch.matmul(net.w, basis) + outside)",
        "return replace(net, w=torch.matmul(net.w, basis))",
        f"{_RUN}training_in_the_span_is_training",
    ),
    (_ENSEMBLES, "clean = torch.where(train.flipped, 4, train.group)", "clean = train.group", f"{_RUN}edges_by_hand"),
    (
        _ENSEMBLES,
        '"A7": (1 / (4 * alpha**2), 1 / alpha**2)',
        '"A7": (1 / (2 * alpha**2), 1 / alpha**2)',
        f"{_THEORY}premises_name_what_no_constant_satisfies",
    ),
    (
        "src/featlearn/works/amplification/claims/measured.py",
        "                margin=0.2,\n                rival=0.5,",
        "                margin=0.45,\n                rival=0.5,",
        f"{_CLAIM}wrong_rows_contradict",
    ),
]
