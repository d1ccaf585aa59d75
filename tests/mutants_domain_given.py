"""Mutants of what `featlearn domains` keeps apart without a word: flags, groups, depths, seen images, code."""

_APPLY = "src/featlearn/apply/domains"
_I = "tests/apply/test_domain_identity.py::test_"
_S = "tests/apply/test_domain_splits.py::test_"
_E = "tests/cli/test_cli_domain_edges.py::test_"
_F = "tests/cli/test_cli_domain_flags.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        "src/featlearn/methods/domains/training.py",
        "(torch.cat([b.x for b in make(step)]).to(device) for step in range(100))",
        "(b.x.to(device) for step in range(100) for b in make(step))",
        "tests/methods/test_domain_training.py"
        "::test_statistics_of_the_mean_of_weights_are_those_of_all_domains_together",
    ),
    (
        f"{_APPLY}/identity.py",
        "            waiting += [where] if isinstance(where, str) else []\n",
        "            pass\n",
        f"{_I}all_files_that_a_module_comes_from_count",
    ),
    (
        f"{_APPLY}/identity.py",
        'told = " ".join(f"{v:.3g}" for v in answer_of(net, size))',
        'told = ""',
        f"{_I}code_that_no_file_shows_is_told_by_its_answer",
    ),
    (
        f"{_APPLY}/models.py",
        "if answer and identity.apart(",
        "if not answer and identity.apart(",
        f"{_I}a_model_tells_that_its_code_has_changed",
    ),
    (
        "src/featlearn/cli/domains/_shared.py",
        "flags = {f.name for f in dataclasses.fields(options)} - set(stated)",
        "flags = {f.name for f in dataclasses.fields(options) if getattr(options, f.name) == f.default}",
        f"{_F}a_flag_of_its_default_value_is_given_all_the_same",
    ),
    (
        f"{_APPLY}/splits.py",
        "together.get(domain.name) or parted(",
        "parted(",
        f"{_S}a_group_is_on_one_side_over_all_training_domains",
    ),
    (
        f"{_APPLY}/splits.py",
        "sum(not v.strip() for v in",
        "sum(v is None for v in",
        f"{_S}rows_without_a_group_are_no_group",
    ),
    (
        f"{_APPLY}/scoring.py",
        "progress=told, scale=found.scale)",
        "progress=told)",
        f"{_F}a_score_reads_images_as_it_says",
    ),
    (
        f"{_APPLY}/sources.py",
        "if name in TOTALS]",
        "if name not in found.names]",
        f"{_F}a_domain_is_not_called_as_a_total",
    ),
    (
        f"{_APPLY}/scoring.py",
        "again = sum(m in used for m in here)",
        "again = 0",
        f"{_F}images_of_training_are_known_under_other_names",
    ),
    (
        f"{_APPLY}/runs.py",
        "if (network.probe or frozen) and",
        "if network.probe and",
        f"{_I}a_module_that_is_frozen_has_no_features_to_regularise",
    ),
    (
        f"{_APPLY}/scores.py",
        "if at not in absent))",
        "if at not in ()))",
        "tests/apply/test_domain_tool.py::test_none_is_the_best_of_more_draws_than_the_other",
    ),
    (
        "src/featlearn/methods/domains/training.py",
        "found.loss.get(VALIDATION, 0.0)):",
        "0.0):",
        f"{_E}runs_that_all_diverge_are_no_success",
    ),
]
