"""Committed mutants of the form of claims: what a number can be, what a prediction may see, which rows are averaged."""

_F = "tests/lab/test_form.py::test_"
_B = "tests/lab/test_blind.py::test_"

MUTANTS = (
    (
        "lab/judge.py",
        "min(q.high, max(e.high for e in own))",
        "q.high",
        f"{_F}a_share_is_one_whatever_it_is_called",
    ),
    (
        "lab/judge.py",
        'if statement.relation == "at least" and statement.met_by(statement.inside(guessed, value)):',
        "if statement.trivial is None and statement.met_by(statement.inside(guessed, value)):",
        f"{_F}guessing_is_an_object_that_has_learnt_nothing",
    ),
    (
        "lab/judge.py",
        '2 - 1e-9 if other is statement.rival and statement.relation == "equal" else 1.0',
        "1.0",
        f"{_F}a_control_of_an_equality_is_two_margins_away_as_a_number_is",
    ),
    ("lab/judge.py", "out=np.zeros_like(larger)", "out=np.ones_like(larger)", f"{_F}a_bound_of_nothing_needs_a_rival"),
    (
        "lab/judge.py",
        "if outside.any():",
        "if outside.all():",
        f"{_F}a_mean_over_settings_on_both_sides_of_a_limit_is_inconclusive",
    ),
    (
        "lab/judge.py",
        "if limit < 0 and math.isnan(e.room[1]):",
        "if False:",
        f"{_F}arms_that_may_both_guess_are_not_as_good_as_each_other",
    ),
    ("lab/statement.py", "LEAST_SHARE = 0.5", "LEAST_SHARE = 0.4", f"{_F}a_share_of_the_elements_is_at_least_half"),
    (
        "lab/statistics.py",
        'return replace(made, refused="two levels: lack of fit cannot be tested")',
        "return made",
        f"{_F}two_levels_confirm_no_exponent_however_they_are_fitted",
    ),
    (
        "lab/uncertainty.py",
        "or self.other < 1 or not self.value > 0:",
        "or self.other < 1:",
        f"{_F}units_without_spread_have_no_small_deviation",
    ),
    (
        "lab/claim.py",
        "lost > MAY_LACK * (lost + table.trials)",
        "lost > MAY_LACK * table.trials * lost",
        f"{_F}a_claim_is_judged_on_all_that_was_planned_but_a_twentieth",
    ),
    (
        "lab/table.py",
        "chosen_by=self.chosen_by | self._decide(test)",
        "chosen_by=self.chosen_by",
        f"{_F}rows_are_not_chosen_by_what_is_averaged",
    ),
    (
        "lab/table.py",
        "return own.fget(self)",
        "return own.fget(self._row)",
        f"{_F}rows_are_not_chosen_by_what_is_averaged",
    ),
    (
        "lab/table.py",
        "len({u >= VALIDATION for u in units}) > 1",
        "len({u > 2 * VALIDATION for u in units}) > 1",
        f"{_F}validation_seeds_are_not_averaged_with_reported_ones",
    ),
    (
        "lab/table.py",
        "if 1 < len({s for _, s in seeds}) < len(seeds) == len(units)",
        "if 2 < len({s for _, s in seeds}) < len(seeds) == len(units)",
        f"{_F}prompts_of_two_seeds_are_two_units",
    ),
    (
        "lab/blind.py",
        "roles.setdefault(u // VALIDATION, [])",
        "roles.setdefault(0, [])",
        f"{_B}seeds_keep_their_role_when_they_are_renamed",
    ),
    (
        "lab/blind.py",
        "e.n > max(trials, units * (len(e.parts) + 1))",
        "e.n > units * e.n",
        f"{_B}more_units_than_the_rows_have_are_caught",
    ),
    (
        "lab/blind.py",
        'if event == "open":',
        'if event == "open" and args[1]:',
        f"{_B}a_prediction_that_reads_a_file_is_caught[found-statements]",
    ),
    (
        "lab/blind.py",
        "        settings = settle(claim, own)\n        statements",
        "        settings = claim.settings\n        statements",
        f"{_B}a_prediction_that_reads_a_file_is_caught[found.txt-settings]",
    ),
    (
        "lab/blind.py",
        "different.size >= MANY and",
        "different.size < 3 and",
        f"{_B}a_control_in_the_order_of_the_observation_is_caught",
    ),
    ("lab/blind.py", "AGAIN = 2", "AGAIN = 1", f"{_B}a_control_of_one_number_is_watched_with_other_keys"),
)
