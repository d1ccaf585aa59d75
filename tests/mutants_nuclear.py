"""Mutants of the nuclear norm, its theory and domain generalisation, for the runner of `tests/test_mutants.py`."""

_NORM = "src/featlearn/methods/nuclear_norm.py"
_AVERAGING, _TRAINING = (f"src/featlearn/methods/domains/{name}.py" for name in ("averaging", "training"))
_SCORES = "src/featlearn/apply/domains/scores.py"
_SPLITS = "src/featlearn/apply/domains/splits.py"
_ROWS = "src/featlearn/works/nuclear/rows.py"
_PLANE = "src/featlearn/works/nuclear/experiments/synthetic.py"
_SUMS = "src/featlearn/works/nuclear/claims/sums.py"
_OBJECTIVES = "src/featlearn/methods/domains/objectives.py"
_VERDICT = "test_the_verdict_stands_and_planted_numbers_are_told_apart"
_TYPED = f"tests/works/test_typed_claims.py::{_VERDICT}"
_ALGORITHMS = f"{_TYPED}[nuclear.algorithms]"
_TASKS = "src/featlearn/tasks/environments.py"
_P = "tests/works/nuclear/test_nuclear_population.py::test_"
_E = "tests/tasks/test_environments.py::test_"
_X = "tests/works/nuclear/test_nuclear_"
_N = "tests/methods/test_nuclear_norm.py::test_"
_T = "tests/methods/test_domain_training.py::test_"
_TOOL = "tests/apply/test_domain_tool.py::test_"
_DECODING, _INSPECTION, _LISTING, _TABLES = (
    f"src/featlearn/data/{name}.py" for name in ("decoding", "inspection", "listing", "tables")
)
_PICTURES, _SETS, _CSV = (f"tests/data/test_torture_{name}.py::test_" for name in ("pictures", "sets", "tables"))
_NETS = "src/featlearn/nets/backbones.py"
_B = "tests/nets/test_backbones.py::test_"
_CLI = "tests/cli/test_cli_domains.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        _NORM,
        "torch.where(s > s[..., -1:] * noise, 1 / s, 0.0)",
        "1 / s",
        f"{_N}degenerate_batches_have_the_smallest_subgradient[repeated rows-gram]",
    ),
    (
        _NORM,
        'torch.float32 if x.device.type == "mps" else torch.float64',
        "torch.float32",
        f"{_N}singular_values_far_apart_keep_their_gradient[gram]",
    ),
    (_OBJECTIVES, "/ (len(f) - 1)", "/ len(f)", _ALGORITHMS),
    (_OBJECTIVES, "(risks - risk).square().mean()", "(risks - risk).abs().mean()", _ALGORITHMS),
    (_OBJECTIVES, "slope[::2].mean() * slope[1::2].mean()", "slope.mean().square()", _ALGORITHMS),
    (_OBJECTIVES, "loss = shares @ risks", "loss = old @ risks / old.sum()", _ALGORITHMS),
    (_OBJECTIVES, "+ v.log()).mean() / 2", ").mean() / 2", _ALGORITHMS),
    (_NORM, "STEPS = 30", "STEPS = 8", f"{_TYPED}[nuclear.norm]"),
    (_NORM, "x - x.mean(-2, keepdim=True) if centred else x", "x", f"{_TYPED}[nuclear.stable_rank]"),
    (_SUMS, "-np.expm1(-decay * high)", "1 - np.exp(-decay * high)", f"{_P}tails_at_the_ends"),
    (_SUMS, "c * (c - 1) * psi[1] ** 2", "c * c * psi[1] ** 2", f"{_P}moments_of_the_parts"),
    (
        _TASKS,
        "torch.where(b <= a, 1 - ratio / 2, ratio / 2)",
        "torch.where(b <= a, 1 - ratio / 2, ratio)",
        f"{_E}accuracy_is_the_area_that_a_direction_gets_right[0.7]",
    ),
    (
        _ROWS,
        "(-r.validation, r.weight, r.rate)",
        "(-r.test, r.weight, r.rate)",
        f"{_X}digits.py::test_validation_alone_chooses",
    ),
    (
        _AVERAGING,
        "mean.add_(value.to(mean) - mean, alpha=count / self.count)",
        "mean.add_(value.to(mean) - mean, alpha=1 / self.count)",
        f"{_T}the_mean_counts_and_keeps_precision",
    ),
    (
        _AVERAGING,
        "losses[0] == min(losses)",
        "losses[-1] == max(losses)",
        f"{_T}the_stream_follows_the_window[SwadRule(converge=3, tolerance=6, ratio=0.3, kind='valley')]",
    ),
    (
        _TRAINING,
        "found.accuracy[VALIDATION] > best.accuracy[VALIDATION]",
        "found.accuracy[VALIDATION] >= best.accuracy[VALIDATION]",
        f"{_T}the_earliest_of_equal_evaluations_is_kept",
    ),
    (
        _SPLITS,
        "watch |= {TEST: [inside], ORACLE: [outside]}",
        "watch |= {TEST: [inside], ORACLE: [inside]}",
        f"{_TOOL}nothing_selects_on_what_is_tested",
    ),
    (
        _SCORES,
        'kept = [r for r in kept if r["step"] == last[r["draw"]] and r["oracle"] is not None]',
        "pass",
        f"{_TOOL}oracle_selection_looks_at_the_last_steps_only",
    ),
    (
        _PLANE,
        "(b + det.sign() * cofactors)",
        "(b + cofactors)",
        f"{_X}synthetic.py::test_polar_is_the_subgradient_of_the_nuclear_norm",
    ),
    (
        _DECODING,
        "float(2**bits - 1)",
        "float(max(found.values.max(), 255))",
        f"{_PICTURES}pixels_are_those_of_the_file[grey 16 of 300]",
    ),
    (
        _DECODING,
        "return image.transpose(turns[stated]) if stated in turns else image",
        "return image",
        f"{_PICTURES}pixels_are_those_of_the_file[webp, orientation 6]",
    ),
    (
        _DECODING,
        "share = 1 - share if found.inverted else share",
        "pass",
        f"{_PICTURES}pixels_are_those_of_the_file[tiff 16, white is 0]",
    ),
    (
        _DECODING,
        'low = np.asarray(_upright(image, Header("", "", (0, 0))))',
        "pass",
        f"{_PICTURES}pixels_are_those_of_the_file[12 bits in 16, colour]",
    ),
    (
        _DECODING,
        "if not stat.S_ISREG(found.st_mode):",
        "if stat.S_ISSOCK(found.st_mode) and False:",
        f"{_PICTURES}names_that_are_no_files[socket]",
    ),
    (_INSPECTION, "if infinite:", "if infinite and False:", f"{_SETS}sets_that_are_refused_before_work[nan]"),
    (
        _INSPECTION,
        "len(found) == len(labels) and (len(found) > 1 or any(below.values()))",
        "False",
        f"{_CSV}tables_that_are_refused[labels of splits]",
    ),
    (
        _LISTING,
        "if here in within:",
        "if here in within and here in seen:",
        f"{_SETS}sets_that_are_read_with_a_remark[link upwards]",
    ),
    (
        _TABLES,
        "if any(v.strip() for v in values[len(names) :]):",
        "if False:",
        f"{_CSV}tables_that_are_refused[too many values]",
    ),
    (_NETS, "if missing or extra:", "if missing:", f"{_B}a_deeper_network_is_not_cut_to_fit"),
    (
        _NETS,
        "self.follows_weights = frozen is None",
        "self.follows_weights = False",
        f"{_B}batch_norm_is_frozen_where_its_statistics_come_from_somewhere",
    ),
    (
        _AVERAGING,
        "out = {m: mode and m.training for m, mode in given.items()}",
        "out = {m: m.training for m in given}",
        f"{_T}parts_in_evaluation_mode_stay_there[swad]",
    ),
    (_SCORES, 'converged=best.get("swad_converged", True)', "converged=True", f"{_CLI}swad_without_a_valley_is_told"),
]
