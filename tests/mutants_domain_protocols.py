"""Mutants of protocols and of what is set beside the reported numbers, for `tests/test_mutants.py`."""

_P = "src/featlearn/apply/domains/protocols.py"
_V = "src/featlearn/apply/domains/verdicts.py"
_U = "tests/apply/test_domain_verdicts.py::test_"
_T = "tests/apply/test_domain_protocols.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (_P, "15001 if big and released", "15001 if big", f"{_T}the_benchmark_searches_and_evaluates_less_often"),
    (_P, "500 if big else 50 if small else 100", "500 if big else 100", f"{_T}the_released_code"),
    (_P, "0.2 if small else 0.3", "0.3", f"{_T}the_released_code"),
    (_P, "100.5 / steps", "0.02", f"{_T}the_released_code"),
    (_P, '"swad_rule": "released"', '"swad_rule": "valley"', f"{_T}the_released_code"),
    (
        _P,
        "or row not in COMPARABLE[protocol]",
        "",
        f"{_T}other_settings_other_code_and_missing_seeds_are_not_comparable",
    ),
    (
        _P,
        "or len(s.values) < s.expected or",
        "or",
        f"{_T}other_settings_other_code_and_missing_seeds_are_not_comparable",
    ),
    (
        _P,
        'or (metric == "average" and some_only)',
        "",
        f"{_T}one_domain_held_out_is_compared_with_its_column_and_no_average",
    ),
    (_P, "TWO_MEANS = 2.8", "TWO_MEANS = 9.0", f"{_T}what_is_off_deviates"),
    (
        _P,
        '("deviates", "not comparable", "reproduced")',
        '("reproduced", "not comparable", "deviates")',
        f"{_T}what_is_off_deviates",
    ),
    (
        _P,
        "there = benchmark.column if id_ != benchmark.entry else metric",
        "there = metric",
        f"{_T}averages_of_rows_that_other_tables_have",
    ),
    (_P, "if benchmark.images not in (None, images):", "if False:", f"{_T}departures_are_told"),
    (
        _P,
        "wanted = {n: v for n, v in asdict(Settings()).items() if n in own} | preset",
        "wanted = preset",
        f"{_U}settings_of_the_algorithms_that_were_run_count",
    ),
    (_V, 'or c["seed"] in values:', ":", f"{_U}files_that_contradict_themselves_are_refused"),
    (_V, "outcome(deciding or own)", "outcome(own)", f"{_U}rows_of_other_code_do_not_decide"),
    (
        _V,
        "beside(found, benchmark, protocol, why, gone)",
        "beside(found, benchmark, protocol, why)",
        f"{_U}another_or_incomplete_protocol_is_not_comparable",
    ),
    (
        _V,
        'is not stated" for n in unstated]',
        'is not stated" for n in unstated[:0]]',
        f"{_U}another_or_incomplete_protocol_is_not_comparable",
    ),
]
