"""Committed mutants of running and storing: workers that die, locks, seals, code that changes."""

MUTANTS = (
    (
        "lab/files.py",
        "        return e.errno not in (errno.EAGAIN, errno.EACCES)\n",
        "        return True\n",
        "tests/lab/test_drill.py::test_two_drivers_share_the_work",
    ),
    (
        "lab/files.py",
        "                _flock(handle)  # until it is renamed",
        "                pass  # until it is renamed",
        "tests/lab/test_store.py::test_nobody_sweeps_a_file_while_it_is_written",
    ),
    (
        "lab/files.py",
        "            if last:\n",
        "            if True:\n",
        "tests/lab/test_store.py::test_a_temporary_file_that_is_swept_before_its_lock_is_written_again",
    ),
    (
        "lab/files.py",
        "                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n                path.unlink()",
        "                path.unlink()",
        "tests/lab/test_store.py::test_temporary_files_are_removed_unless_somebody_writes_them",
    ),
    (
        "lab/store.py",
        "        if record.seal != seal_of(record):",
        "        if False:",
        "tests/lab/test_store.py::test_a_record_that_was_edited_is_damaged",
    ),
    (
        "lab/store.py",
        "        if trial_hash(experiment, record.version, record.trial) != hash_:",
        "        if False:",
        "tests/lab/test_store.py::test_a_record_that_was_edited_is_damaged",
    ),
    (
        "lab/execute.py",
        "own.read(experiment.id, hash_, arrays=True)",
        "own.read(experiment.id, hash_)",
        "tests/lab/test_store.py::test_arrays_changed_at_equal_size_are_computed_again",
    ),
    (
        "lab/workers.py",
        "            yield i, done or _guilty(job, trials[i], run.last_words)",
        '            yield i, done or Done("", "failed", 0.0, run.last_words)',
        "tests/lab/test_execute.py::test_a_trial_that_loses_its_worker_twice_fails_with_a_record",
    ),
    (
        "lab/workers.py",
        "        if not job.again and _done(store, job.experiment, hash_):",
        "        if False:",
        "tests/lab/test_execute.py::test_a_trial_that_another_run_could_end_keeps_its_rows",
    ),
    (
        "lab/workers.py",
        "                    renew()\n",
        "                    pass\n",
        "tests/cli/test_cli_runs.py::test_a_worker_that_dies_costs_its_trial_alone_and_the_sweep_goes_on",
    ),
    (
        "lab/execute.py",
        'again == "changed" and r.code == code}',
        'again == "changed"}',
        "tests/cli/test_cli_runs.py::test_again_goes_on_where_it_was_interrupted",
    ),
    (
        "lab/digest.py",
        'names if n.startswith(FILE)) - {""}',
        'names if n.startswith(FILE) and False) - {""}',
        "tests/cli/test_cli_runs.py::test_a_helper_beside_the_file_is_part_of_its_code",
    ),
    (
        "cli/__init__.py",
        "        before = signal.signal(signal.SIGTERM, end)",
        "        before = signal.getsignal(signal.SIGTERM)",
        "tests/cli/test_cli_runs.py::test_sigterm_says_how_to_resume",
    ),
    (
        "cli/report.py",
        "    guard(Path(options.out))  # before any work",
        "    # before any work",
        "tests/cli/test_cli_other.py::test_a_folder_that_is_a_file_is_refused_before_any_work",
    ),
    (
        "cli/list.py",
        "        if options.work not in WORKS:",
        "        if catalog.read() and options.work not in WORKS:",
        "tests/cli/test_cli_other.py::test_a_work_that_is_none_is_refused_before_the_catalog_is_made",
    ),
    (
        "lab/uncertainty.py",
        "return self.value / math.sqrt(low), self.value / math.sqrt(high)",
        "return self.value / low, self.value / high",
        "tests/lab/test_uncertainty.py::test_deviations_have_their_textbook_intervals",
    ),
)
