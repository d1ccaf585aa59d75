"""Mutants of blocks around generate, of texts that are read once, of loading and the pipeline."""

_BLOCKS = "src/featlearn/methods/gemfilter/blocks.py"
_EVICTION, _TEXT = (f"src/featlearn/methods/{name}.py" for name in ("eviction_block", "shared_context"))
_ANSWER, _PIPELINE = (f"src/featlearn/apply/gemfilter/{name}.py" for name in ("answer", "pipeline"))
_LOADING = "src/featlearn/data/loading.py"
_B = "tests/methods/test_gemfilter_blocks.py::test_"
_T = "tests/methods/test_shared_context.py::test_"
_A = "tests/apply/test_answer.py::test_"
_P = "tests/apply/test_gemfilter_pipeline.py::test_"
_L = "tests/data/test_loading.py::test_"

_SHARED = """class _Shared:
    value: Any = ()

    def get(self) -> Any:
        return self.value

    def set(self, value: Any) -> Any:
        self.value, before = value, self.value
        return before

    def reset(self, before: Any) -> None:
        self.value = before


_BLOCKS: Any = _Shared()"""

MUTANTS: list[tuple[str, str, str, str]] = [
    # whose calls are changed, and for how long
    (
        _BLOCKS,
        '_BLOCKS: ContextVar[tuple[_Block, ...]] = ContextVar("featlearn_generate_blocks", default=())',
        _SHARED,
        f"{_B}other_threads_are_not_filtered_and_may_open_blocks_of_their_own",
    ),
    (
        _BLOCKS,
        "if b.open and b.model is self.model]",
        "if b.model is self.model]",
        f"{_B}a_task_that_outlives_the_block_is_plain",
    ),
    (
        _BLOCKS,
        "and b.model is model and b.kind == kind",
        "and b.kind == kind",
        f"{_B}blocks_of_one_kind_are_not_nested_and_those_of_two_models_are",
    ),
    (_BLOCKS, 'del model.__dict__["generate"]', "pass", f"{_B}the_model_is_what_it_was[filter]"),
    (_BLOCKS, "stands.blocks -= 1", "stands.blocks = 0", f"{_B}a_block_that_closes_first_leaves_the_other_open"),
    (
        _BLOCKS,
        "            if stands.replaced:",
        "            if False:",
        f"{_B}a_generate_of_the_users_own_comes_back",
    ),
    (_BLOCKS, "if not stands.blocks and model", "if model", f"{_B}a_block_that_closes_first_leaves_the_other_open"),
    # what comes out
    (
        _BLOCKS,
        "block = min(mine, key=lambda b: b.kind)",
        "block = mine[-1]",
        f"{_B}the_filter_comes_first_and_then_the_eviction[llama-False]",
    ),
    (
        _BLOCKS,
        "token = _BLOCKS.set(tuple(b for b in around if b is not block))",
        "token = _BLOCKS.set(())",
        f"{_B}the_filter_comes_first_and_then_the_eviction[llama-False]",
    ),
    (_BLOCKS, "max(value - left_out, 0)", "value", f"{_B}lengths_count_the_whole_prompt[argument]"),
    (
        _BLOCKS,
        'given["generation_config"] = copy.deepcopy(config)',
        'given["generation_config"] = config',
        f"{_B}lengths_count_the_whole_prompt[config]",
    ),
    (
        _BLOCKS,
        "ids.repeat_interleave(len(made) // len(ids), 0)",
        "ids.repeat(len(made) // len(ids), 1)",
        f"{_B}ways_to_generate_are_those_of_pass_two[num_beams]",
    ),
    # eviction
    (
        _EVICTION,
        "by_head.unflatten(1, (keys.shape[1], -1)).sum(2)",
        "by_head.unflatten(1, (keys.shape[1], -1)).amax(2)",
        f"{_B}eviction_around_generate_is_eviction_by_hand[llama-snapkv]",
    ),
    (
        _EVICTION,
        "None if s is None else s[row]",
        "None if s is None else s[0]",
        f"{_B}eviction_around_generate_is_eviction_by_hand[llama-h2o]",
    ),
    (_EVICTION, "if not bool(mask.all()):", "if False:", f"{_B}prompts_of_several_lengths_are_not_evicted"),
    (_EVICTION, "if not dropped:", "if True:", f"{_B}eviction_around_generate_is_eviction_by_hand[llama-snapkv]"),
    # a text that is read once
    (
        _TEXT,
        "torch.arange(first, first + ids.shape[1]",
        "torch.arange(ids.shape[1]",
        f"{_T}questions_select_what_separate_calls_select[llama-votes]",
    ),
    (_TEXT, "copied(self.cache)", "self.cache", f"{_T}questions_select_what_separate_calls_select[llama-raw]"),
    (
        _TEXT,
        "torch.cat([self.hidden, hidden], dim=1)",
        "torch.cat([0 * self.hidden, hidden], dim=1)",
        f"{_T}questions_select_what_separate_calls_select[llama-votes]",
    ),
    (
        _TEXT,
        "or not torch.equal(ids[:p], self.input_ids[0].to(ids.device))",
        "",
        f"{_T}prompts_and_settings_that_the_text_was_not_read_for_are_refused",
    ),
    (
        _TEXT,
        "in LENGTH_DEPENDENT for module",
        "in () for module",
        f"{_T}models_that_read_a_text_otherwise_before_another_question_are_refused",
    ),
    (
        _ANSWER,
        "return choose is select and longer > 1",
        "return longer > 1",
        f"{_A}a_text_is_not_read_once_where_that_is_not_asked_for_or_brings_nothing",
    ),
    (
        _ANSWER,
        "speed.cache * (layer + 1)",
        "speed.cache * layer",
        f"{_A}the_estimate_of_a_blind_run_counts_one_first_pass",
    ),
    # the pipeline and loading
    (_PIPELINE, "if TASK not in PIPELINE_REGISTRY", "if PIPELINE_REGISTRY", f"{_P}it_is_registered_once"),
    (
        _LOADING,
        "partial(tokenizers.from_pretrained, **both)",
        "tokenizers.from_pretrained",
        f"{_L}what_is_said_is_passed_on",
    ),
    (
        _LOADING,
        'given.setdefault("device_map", {"": place})',
        "pass",
        f"{_L}bits_are_those_of_bitsandbytes_on_the_device_that_is_meant",
    ),
    (
        _LOADING,
        "Path(source).exists()",
        "False",
        f"{_L}a_revision_is_one_of_a_hub_id",
    ),
]
