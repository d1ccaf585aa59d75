"""Mutants of RULER made anew, for the runner of `tests/test_mutants.py`."""

_TASKS = "src/featlearn/tasks/ruler.py"
_ROWS, _CLAIMS, _EXPERIMENT = (
    f"src/featlearn/works/gemfilter/{name}.py" for name in ("rows_ruler", "claims/ruler", "experiments/ruler")
)
_T = "tests/tasks/test_ruler.py::test_"
_W = "tests/works/gemfilter/test_gemfilter_ruler.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    # what is hidden, and where
    (
        _TASKS,
        "made.max_new_tokens - length",
        "0 - length",
        f"{_T}prompt_and_reply_fit_and_one_piece_more_would_not[cwe-True]",
    ),
    (
        _TASKS,
        "if excess(n) <= 0 else (fits, n)",
        "if excess(n) <= -300 else (fits, n)",
        f"{_T}prompt_and_reply_fit_and_one_piece_more_would_not[niah_single_2-True]",
    ),
    (
        _TASKS,
        "round(depth * len(straw))",
        "round((1 - depth) * len(straw))",
        f"{_T}lines_go_where_their_depth_says_and_keep_their_order",
    ),
    (_TASKS, "/ (DEPTHS - 1)).tolist()", "/ DEPTHS).tolist()", f"{_T}depths_go_from_the_start_to_the_end"),
    (
        _TASKS,
        "drawn[i * what.values :][: what.values]",
        "drawn[: what.values]",
        f"{_T}values_are_hidden_once_and_asked_for_by_key[niah_multiquery]",
    ),
    (
        _TASKS,
        "for k in asked for value in own[k]",
        "for k in own for value in own[k]",
        f"{_T}values_are_hidden_once_and_asked_for_by_key[niah_multikey_1]",
    ),
    (_TASKS, "[value, *found[:-1]]", "[value] * len(found)", f"{_T}a_chain_passes_its_value_on"),
    (
        _TASKS,
        "shown, words = words[:many], words[many:]",
        "shown = words[:many]",
        f"{_T}common_words_are_those_that_come_most_often[12000]",
    ),
    (_TASKS, "(30, 3) if large", "(10, 3) if large", f"{_T}common_words_are_those_that_come_most_often[12000]"),
    (_TASKS, "ranks**-ALPHA / (np.pi**2 / 6)", "ranks**-ALPHA", f"{_T}coded_words_follow_the_zeta_law"),
    (_TASKS, 'zip(["...", *found]', 'zip([*found, "..."]', f"{_T}coded_words_follow_the_zeta_law"),
    (
        _TASKS,
        "draw.permutation(900)[:count] + 1001",
        "0 * draw.permutation(900)[:count] + 1001",
        f"{_T}one_passage_holds_the_answer[0-qa_1]",
    ),
    (
        _TASKS,
        "choose(draw, every[1:], count // 2 - 1)",
        "every[:1] * (count // 2 - 1)",
        f"{_T}one_passage_holds_the_answer[0-qa_2]",
    ),
    # scores
    (
        _TASKS,
        "sum(held) / len(held) if self.every",
        "float(all(held)) if self.every",
        f"{_T}replies_are_scored_as_by_hand",
    ),
    (_TASKS, "float(any(held))", "float(all(held))", f"{_T}replies_are_scored_as_by_hand"),
    (_TASKS, "answer.lower() in reply.lower()", "answer in reply", f"{_T}replies_are_scored_as_by_hand"),
    # the floor, the claims, the haystacks
    (_ROWS, "* full.error < FLOOR", "* 0 < FLOOR", f"{_W}the_floor_by_hand[scores1-False]"),
    (_ROWS, "    if full.value == 0:", "    if full.value < 0:", f"{_W}the_floor_by_hand[scores7-True]"),
    (_ROWS, "room=(made.room[0], 0.0)", "room=made.room", f"{_W}outcomes_of_planted_rows"),
    (
        _CLAIMS,
        "difference(found[task], OURS, budget)",
        "difference(found[task], OURS, 256)",
        f"{_W}a_claim_judges_its_own_model_and_budget",
    ),
    (_EXPERIMENT, "order[number::HANDS]", "order[number : number + 3]", f"{_W}haystacks_of_a_task_share_no_essay"),
    (
        _EXPERIMENT,
        'by("model", "task").items()',
        'by("model", "kind").items()',
        f"{_W}the_summary_averages_haystacks_and_never_tasks",
    ),
    (
        "works/gemfilter/claims/kinds.py",
        "            -MARGIN,\n",
        "            -4 * MARGIN,\n",
        "tests/works/gemfilter/test_gemfilter_kinds.py::test_a_loss_at_one_length_contradicts_there_alone",
    ),
    (
        "works/gemfilter/claims/kinds.py",
        "min(shares) >= FLOOR",
        "max(shares) >= FLOOR",
        "tests/works/gemfilter/test_gemfilter_kinds.py::test_a_full_cache_that_answers_few_at_one_length_leaves_the_premise_unmet",
    ),
    (
        "works/gemfilter/claims/kinds.py",
        "table.where(length=n), ",
        "table, ",
        "tests/works/gemfilter/test_gemfilter_kinds.py::test_a_loss_at_one_length_contradicts_there_alone",
    ),
]
