"""Committed mutants: edits of the package, each of which must turn its named test red.

A mutant is the nearest wrong code to what its test protects: a factor dropped, a sign, an off-by-one, a check that is
gone. `old` stands exactly once in the file. Run those of one file with `pytest tests/test_mutants.py -k run/trials`.
Other lists stand in files called `mutants_*.py` beside this one; their items may be plain tuples.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """file: below src/featlearn. old -> new: the edit. test: node id of the test that must fail."""

    file: str
    old: str
    new: str
    test: str


MUTANTS: tuple[Mutant, ...] = (
    # --- run ---------------------------------------------------------------------------------------------------------
    Mutant(
        "lab/trial.py",
        "sort_keys=True",
        "sort_keys=False",
        "tests/lab/test_trial.py::test_tuples_are_lists_and_order_of_fields_does_not_matter",
    ),
    Mutant(
        "lab/trial.py",
        "canonical_json([experiment, version]) + canonical_json(trial)",
        "canonical_json([experiment]) + canonical_json(trial)",
        "tests/lab/test_trial.py::test_experiment_and_version_count",
    ),
    Mutant(
        "lab/trial.py",
        "if not math.isfinite(value):",
        "if math.isnan(value):",
        "tests/lab/test_trial.py::test_refused_by_name_in_one_line",
    ),
    Mutant(
        "lab/trial.py",
        "ID.fullmatch(experiment)",
        "ID.match(experiment)",
        "tests/lab/test_trial.py::test_ids_stay_inside_the_store",
    ),
    Mutant(
        "lab/estimate.py", "ddof=1", "ddof=0", "tests/lab/test_estimate.py::test_interval_covers_the_mean_in_95_percent"
    ),
    Mutant(
        "lab/estimate.py",
        "(2 * i) / (2 * i + 1) if df % 2",
        "(2 * i - 1) / (2 * i + 1) if df % 2",
        "tests/lab/test_estimate.py::test_quantile_equals_scipy",
    ),
    Mutant(
        "lab/estimate.py",
        'mark = (group, name, row["seed"])',
        "mark = (group, name, id(row))",
        "tests/lab/test_estimate.py::test_rows_of_one_seed_are_not_independent",
    ),
    Mutant(
        "lab/store.py",
        'write_atomic(path.with_suffix(".npz"), packed)\n        write_atomic(path, text.encode())',
        "pass\n        write_atomic(path, text.encode())",
        "tests/lab/test_store.py::test_json_implies_arrays",
    ),
    Mutant(
        "lab/files.py",
        'if data["format"] > FORMAT:',
        'if data["format"] > FORMAT + 1:',
        "tests/lab/test_store.py::test_newer_record_is_refused_before_any_work",
    ),
    Mutant(
        "lab/execute.py",
        'if record is None or record.status == "failed":',
        "if record is None:",
        "tests/lab/test_execute.py",
    ),
    # --- core --------------------------------------------------------------------------------------------------------
    Mutant(
        "core/key.py",
        'Key(f"{self.path}/{name}")',
        'Key(f"{self.path}{name}")',
        "tests/core/test_key.py::test_path_is_all_there_is_to_a_key",
    ),
    # --- tasks -------------------------------------------------------------------------------------------------------
    Mutant(
        "tasks/patterns.py",
        "gamma = (1 - fair) / 2",
        "gamma = 1 - fair",
        "tests/tasks/test_patterns.py::test_parity_closed_forms_equal_enumeration",
    ),
    # --- inventory ---------------------------------------------------------------------------------------------------
    Mutant(
        "lab/inventory.py",
        "if e.id in entries:",
        "if e.id in []:",
        "tests/lab/test_inventory.py::test_a_bad_file_is_refused",
    ),
    Mutant(
        "lab/inventory.py",
        "if row in (None, p.row) and metric in (None, p.metric)",
        "if row in (None, p.row)",
        "tests/lab/test_inventory.py::test_reported_values",
    ),
    # --- the tests of the package itself -----------------------------------------------------------------------------
    Mutant(
        "core/key.py",
        "import hashlib\n",
        "import hashlib\n\nimport featlearn.tasks  # noqa\n",
        "tests/test_rooms.py::test_imports_follow_the_table",
    ),
    Mutant(
        "__init__.py",
        "__version__ =",
        "import scipy\n\n__version__ =",
        "tests/test_rooms.py::test_importing_featlearn_loads_nothing_heavy",
    ),
)
