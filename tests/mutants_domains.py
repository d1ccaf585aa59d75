"""Mutants of what `featlearn domains` measures, chooses, splits and goes on from, for `tests/test_mutants.py`."""

_TRAIN = "src/featlearn/methods/domains/training.py"
_APPLY = "src/featlearn/apply/domains"
_R = "tests/apply/test_domain_results.py::test_"
_S = "tests/apply/test_domain_splits.py::test_"
_M = "tests/apply/test_domain_measures.py::test_"
_P = "tests/apply/test_domain_resume.py::test_"
_C = "tests/cli/test_cli_domain_results.py::test_"
_READ = "tests/apply/test_domain_reading.py::test_"
_STOPPED = f"{_P}a_run_that_was_stopped_ends_as_if_it_had_not"

MUTANTS: list[tuple[str, str, str, str]] = [
    # --- what is measured --------------------------------------------------------------------------------------------
    (
        f"{_APPLY}/measures.py",
        "self.bins[:, 2] - self.bins[:, 1]",
        "self.bins[:, 2] - self.bins[:, 0]",
        f"{_M}measures_are_their_formulas",
    ),
    (
        f"{_APPLY}/measures.py",
        "(sure * BINS).ceil().long().clamp(1, BINS) - 1",
        "(sure * BINS).floor().long().clamp(0, BINS - 1)",
        f"{_M}probabilities_at_the_edge_of_a_bin",
    ),
    (
        f"{_APPLY}/measures.py",
        "counts = self.confusion.sum(1)",
        "counts = self.confusion.sum(0)",
        f"{_M}measures_are_their_formulas",
    ),
    (
        f"{_APPLY}/measures.py",
        'alternative="greater"',
        'alternative="two-sided"',
        f"{_M}a_model_that_guessing_equals_has_a_large_p",
    ),
    (
        f"{_APPLY}/results.py",
        "if c.test <= c.measures",
        "if c.test < c.measures",
        f"{_R}runs_that_guessing_equals_are_named",
    ),
    (
        f"{_APPLY}/results.py",
        "ms[i].accuracy) for ms in whole",
        "-ms[i].accuracy) for ms in whole",
        f"{_R}measures_of_algorithms_are_over_seeds",
    ),
    # --- what is chosen ----------------------------------------------------------------------------------------------
    (f"{_APPLY}/scores.py", "if set(v) == set(others)", "if v", f"{_R}other_domains_select_by_their_mean"),
    (
        f"{_APPLY}/scores.py",
        'r["second_accuracy"] if first else r["test"]',
        'r["test"] if first else r["second_accuracy"]',
        f"{_R}other_domains_select_by_their_mean",
    ),
    (
        f"{_APPLY}/scores.py",
        'rows = [r for r in rows if not r.get("second")]',
        "rows = [*rows]",
        f"{_R}leave_one_domain_out_takes_the_draw_and_the_step_that_others_like",
    ),
    (
        f"{_APPLY}/results.py",
        "if set(v) == held_out]",
        "if v]",
        f"{_R}settings_for_a_fit_are_those_that_validate_best_everywhere",
    ),
    (
        f"{_APPLY}/results.py",
        'max((r["validation"] for r in kept)',
        'max((r["test"] for r in kept)',
        f"{_R}settings_for_a_fit_are_those_that_validate_best_everywhere",
    ),
    # --- what a run is -----------------------------------------------------------------------------------------------
    (
        "src/featlearn/lab/trial.py",
        'if not f.metadata.get("note")',
        "",
        f"{_R}a_run_is_what_it_is_made_from_wherever_that_lies",
    ),
    (
        "src/featlearn/data/domains.py",
        "(files[i].domain, files[i].label, contents[i])",
        "(files[i].domain, files[i].label)",
        f"{_R}rows_are_the_same_wherever_the_images_lie",
    ),
    (
        "src/featlearn/data/domains.py",
        r'f"{f.domain}\0{f.label}\0".encode() + content',
        r'f"{f.domain}\0".encode() + content',
        f"{_R}a_run_changes_with_what_it_is_made_from",
    ),
    (f"{_APPLY}/nearest.py", "key=len) if", "key=lambda d: -len(d)) if", f"{_R}what_tells_runs_from_those_asked_for"),
    # --- splits ------------------------------------------------------------------------------------------------------
    (
        f"{_APPLY}/splits.py",
        "kept < len(own) - 1 and",
        "kept < len(own) and",
        f"{_S}a_class_of_one_image_and_many_copies_of_another_trains",
    ),
    (
        f"{_APPLY}/splits.py",
        "max(round(SHARE * sum(map(len, own))), 1)",
        "round(SHARE * sum(map(len, own)))",
        f"{_S}every_class_trains_and_every_class_of_two_validates",
    ),
    (
        f"{_APPLY}/splits.py",
        "units.setdefault(twins[row], [])",
        "units.setdefault(str(row), [])",
        f"{_S}images_of_the_same_bytes_stay_together",
    ),
    (
        f"{_APPLY}/splits.py",
        "rows[TEST] if len(rows[TEST]) else rows[TRAINING]",
        "rows[TRAINING]",
        f"{_S}a_column_says_what_trains",
    ),
    (
        f"{_APPLY}/splits.py",
        "if all(map(len, pair))), key=lacking)",
        "if all(map(len, pair))), key=lambda pair: 0)",
        f"{_S}groups_stay_together_and_classes_are_alike",
    ),
    (
        f"{_APPLY}/balance.py",
        "turn // n), n)[turn % n]",
        "turn), n)[turn % n]",
        f"{_M}balanced_batches_hold_all_classes_alike",
    ),
    (
        f"{_APPLY}/balance.py",
        "if func is functional.cross_entropy:",
        "if False:",
        f"{_M}weights_stand_in_every_cross_entropy",
    ),
    # --- going on ----------------------------------------------------------------------------------------------------
    (_TRAIN, 'optimizer.load_state_dict(before["optimizer"])', "pass", f"{_STOPPED}[erm-nu-1]"),
    (_TRAIN, 'torch.set_rng_state(before["random"])', "pass", f"{_STOPPED}[erm-nu-7]"),
    (_TRAIN, 'swad.go_on(before["swad"], device)', "pass", f"{_STOPPED}[swad-nu-7]"),
    (_TRAIN, "module.load_state_dict(values)", "pass", f"{_STOPPED}[miro-7]"),
    (_TRAIN, "None if shares is None else shares.to(device)", "None", f"{_STOPPED}[group-dro-7]"),
    (
        f"{_APPLY}/resumable.py",
        'found.get("identity") == self.identity',
        "True",
        f"{_P}another_run_and_a_damaged_file_are_no_place_to_go_on_from",
    ),
    (
        f"{_APPLY}/runs.py",
        "checkpoint.remove()\n        raise",
        "pass\n        raise",
        f"{_P}a_run_that_diverges_leaves_no_place",
    ),
    # --- what is handed over -----------------------------------------------------------------------------------------
    (
        "src/featlearn/cli/domains/_results.py",
        "**b.settings} if searched",
        "} if searched",
        f"{_C}what_a_search_chose_is_shown_and_can_be_fitted",
    ),
    (f"{_APPLY}/scoring.py", "y = place[domain.y[good]]", "y = domain.y[good]", f"{_R}labels_are_matched_by_name"),
    # what is known of data sets without having them
    (
        "src/featlearn/data/folder_sets.py",
        '"digits", 10, 240000, 40000',
        '"digits", 10, 240000, 80000',
        "tests/data/test_known_sets.py::test_classes_and_images_are_as_many_as_were_published[emnist-digits]",
    ),
    (
        "src/featlearn/data/catalogue.py",
        ".gguf.part0{i - 1}",
        ".gguf.part0{i - 0}",
        "tests/data/test_known_sets.py::test_parts_of_a_model_are_those_of_its_packages",
    ),
    (
        "src/featlearn/data/catalogue.py",
        "607629",
        "1215258",
        "tests/data/test_known_sets.py::test_room_that_a_set_takes",
    ),
    (
        "src/featlearn/data/labelled.py",
        '"gtsrb": (32,',
        '"gtsrb": (64,',
        "tests/data/test_known_sets.py::test_edges_at_which_files_of_images_are_read",
    ),
    (
        "src/featlearn/data/pickles.py",
        "(1, 2, 4, 8)",
        "(1, 2, 4, 9)",
        "tests/data/test_known_sets.py::test_numbers_that_arrays_of_others_may_hold",
    ),
    (
        "src/featlearn/data/domains.py",
        "return hashlib.file_digest(f, lambda: hashlib.blake2b(digest_size=16)).digest()",
        "return hashlib.blake2b(f.read(4096), digest_size=16).digest()",
        "tests/data/test_image_domains.py::test_the_fingerprint_sees_every_byte",
    ),
    # --- reading ahead, several processes ----------------------------------------------------------------------------
    (
        f"{_APPLY}/reading.py",
        "or step != self._next",
        "",
        f"{_READ}processes_make_the_minibatches_of_the_plain_loop[minibatches_of_step]",
    ),
    (f"{_APPLY}/reading.py", "return why", "raise", f"{_READ}a_file_that_is_gone_is_one_line"),
    (
        f"{_APPLY}/reading.py",
        "4 * values * (AHEAD + 1)",
        "values",
        f"{_READ}where_processes_would_not_help_there_are_none",
    ),
    (
        f"{_APPLY}/together.py",
        "set.intersection(",
        "set.union(",
        f"{_P}several_processes_go_on_from_a_step_that_all_have",
    ),
    (
        f"{_APPLY}/together.py",
        " and not any(t for _, t in told)",
        "",
        f"{_P}where_one_process_cannot_write_none_does",
    ),
    (
        f"{_APPLY}/together.py",
        "self.turns[0] = 1 - turn\n",
        "self.turns[0] = turn\n",
        f"{_P}several_processes_keep_the_step_that_they_went_on_from",
    ),
    (
        f"{_APPLY}/splits.py",
        "for v in sorted(set(values))]",
        "for v in values]",
        "tests/apply/test_domain_splits.py::test_columns_that_are_no_splits_are_refused[Splitting(kind='stratified', "
        "group='', column='camera', digest='')-one has 'c0']",
    ),
    (
        f"{_APPLY}/verdicts.py",
        "    except FeatlearnError:\n        raise\n",
        "",
        "tests/apply/test_domain_verdicts.py::test_files_that_contradict_themselves_are_refused",
    ),
]
