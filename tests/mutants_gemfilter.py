"""Mutants of GemFilter, its rivals and needles, for the runner of `tests/test_mutants.py`."""

_LAYOUT, _LAYOUTS, _SELECTING, _GENERATING, _RECOMMENDED = (
    f"src/featlearn/methods/gemfilter/{name}.py"
    for name in ("layout", "layouts", "selecting", "generating", "recommended")
)
_GIVEN = "src/featlearn/methods/gemfilter/given.py"
_VIEWS = "src/featlearn/methods/gemfilter/views.py"
_REQUESTS = "tests/methods/test_gemfilter_requests.py::test_"
_OTHERS = "_do_not_get_each_others_answers"
_FINITE = "tests/methods/test_gemfilter_finite.py::test_"
_EVICTION, _LONG = (f"src/featlearn/methods/{name}.py" for name in ("kv_eviction", "long_context"))
_NEEDLES = "src/featlearn/tasks/needles.py"
_SPARSE, _PROMPTS = (f"src/featlearn/works/gemfilter/experiments/{name}.py" for name in ("sparse", "prompts"))
_EXPERIMENT = "tests/works/gemfilter/test_gemfilter_experiments.py::test_"
_TEST = "tests/methods/test_gemfilter.py::test_"
_KV = "tests/methods/test_kv_eviction.py::test_"
_NEEDLE = "tests/tasks/test_needles.py::test_"
_BRUTE = f"{_TEST}tokens_are_those_of_a_brute_force"
_LLAMA = f"{_BRUTE}[llama-probabilities]"
_PADDED = f"{_TEST}batches_with_padding_on_either_side_are_as_one_at_a_time[llama]"
_GROUPED = f"{_TEST}grouped_heads_are_summed_without_repeating_keys"
_WINDOW = f"{_TEST}window_layers_are_refused_with_those_that_see_all"

MUTANTS: list[tuple[str, str, str, str]] = [
    # what a family does between hidden states and logits
    (_LAYOUT, "x = (x if norm is None else norm(x)).transpose(1, 2)", "x = x.transpose(1, 2)", f"{_BRUTE}[qwen3-raw]"),
    (_LAYOUT, 'if getattr(attn, "use_rope", True) else x', "", f"{_BRUTE}[smollm3-raw]"),
    (_LAYOUT, "torch.cat([-b, a], dim=-1)", "torch.cat([b, -a], dim=-1)", _LLAMA),
    (
        _LAYOUT,
        "x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]",
        "x[..., -cos.shape[-1] :], x[..., : -cos.shape[-1]]",
        f"{_BRUTE}[phi3-raw]",
    ),
    (_LAYOUT, "[..., first * d : (first + heads) * d]", "[..., : heads * d]", f"{_BRUTE}[phi3-raw]"),
    (_LAYOUT, 'return size if kinds[layer] == "sliding_attention" else None', "return None", _WINDOW),
    (_LAYOUTS, "(everywhere or window < length)", "window < length and everywhere", _WINDOW),
    # scores
    (_SELECTING, "votes.to(wide).sum(2)", "votes.to(wide).mean(2)", _GROUPED),
    (
        _SELECTING,
        "summed = votes.unflatten(1, (groups, -1)).sum(2)",
        "summed = votes.unflatten(1, (-1, groups)).sum(1)",
        _GROUPED,
    ),
    (_SELECTING, "finite_or_nan(logits.mul_(scale))", "finite_or_nan(logits)", _LLAMA),
    (_SELECTING, "logits = torch.tanh(logits / softcap) * softcap", "pass", f"{_BRUTE}[gemma2-probabilities]"),
    (
        _SELECTING,
        "by_head.amax(1) if scoring.over_heads",
        "by_head.sum(1) if scoring.over_heads",
        f"{_BRUTE}[llama-best head]",
    ),
    (_SELECTING, "torch.arange(1 - w, 1, device=mask.device)", "torch.arange(1, 1 + w, device=mask.device)", _LLAMA),
    (
        _SELECTING,
        "nn.functional.avg_pool1d(found[:, None], wide, 1, half)",
        "nn.functional.avg_pool1d(found[:, None], wide, 1, half, count_include_pad=False)",
        f"{_TEST}pooling_counts_zeros_beyond_the_ends",
    ),
    (_SELECTING, "order[:count].sort().values", "order[:count]", _LLAMA),
    # padding and protection
    (_SELECTING, "ends = mask.shape[1] - mask.flip(1).int().argmax(1)", "ends = mask.sum(1)", _PADDED),
    (_SELECTING, "found = found.masked_fill(~mask, 0)", "found = found", _PADDED),
    (_GIVEN, "place >= mask.sum(1, keepdim=True) - last", "place >= mask.shape[1] - last", _PADDED),
    (_GIVEN, "math.ceil(round(keep * length, 9))", "math.ceil(keep * length)", f"{_TEST}counts_and_shares"),
    # the model stays as it is
    (_VIEWS, "own = _copy(module, changed)", "own = module", f"{_REQUESTS}requests_of_equal_length{_OTHERS}[kinds1]"),
    (
        _VIEWS,
        "view(model, {}, evaluating=True)",
        "view(model.eval(), {}, evaluating=True)",
        f"{_REQUESTS}a_model_in_training_mode_is_read_without_dropout_and_never_leaves_it[select]",
    ),
    (
        _VIEWS,
        "(evaluating and module.training)",
        "False",
        f"{_REQUESTS}a_model_in_training_mode_is_read_without_dropout_and_never_leaves_it[select]",
    ),
    (
        _VIEWS,
        "                own.__dict__.pop(name, None)",
        "                pass",
        f"{_REQUESTS}what_a_call_saw_is_freed_with_it_without_a_collection[False]",
    ),
    (
        _VIEWS,
        "return types.MethodType(value.__func__, own)",
        "return value",
        f"{_REQUESTS}forwards_bound_to_a_module_move_with_it",
    ),
    (
        _VIEWS,
        '{"output_attentions": False, "output_hidden_states": False}',
        "{}",
        f"{_REQUESTS}outputs_that_a_config_asks_for_leave_no_hooks[llama]",
    ),
    (
        _VIEWS,
        'own.__dict__.pop("_compiled_call_impl", None)',
        "pass",
        f"{_REQUESTS}compiled_models_and_layers_answer_as_plain_ones[compiled_layer_in_place]",
    ),
    # finite or refused; prompts without a mask
    (
        _SELECTING,
        "        part.masked_fill_(part.isinf(), torch.nan)",
        "        pass",
        f"{_FINITE}softmax_does_not_hide_minus_infinity",
    ),
    (_SELECTING, "    check_scores(found, mask, attn)\n", "", f"{_FINITE}scores_that_overflow_are_named"),
    (
        _SELECTING,
        "if pad is None or int(pad) in ends:",
        "if pad is None:",
        f"{_FINITE}a_prompt_without_a_mask_is_read_as_transformers_reads_it[pad ends]",
    ),
    (
        _GENERATING,
        "torch.isnan(scores) | torch.isposinf(scores)",
        "torch.isposinf(scores)",
        f"{_FINITE}replies_are_not_made_of_nan",
    ),
    (
        _SELECTING,
        "mask, scoring))\n        raise _ReadError\n",
        "mask, scoring))\n",
        f"{_TEST}pass_one_leaves_later_layers_alone[llama]",
    ),
    # pass two
    (
        _GENERATING,
        "attention_mask=kept_mask.long()",
        "attention_mask=torch.ones_like(kept_ids)",
        f"{_TEST}generation_of_a_padded_batch_is_as_one_at_a_time",
    ),
    (_GENERATING, "ids[row, k - len(chosen) :] =", "ids[row, : len(chosen)] =", f"{_TEST}gather_pads_on_the_left"),
    (
        _GENERATING,
        "all(count_of(keep, n) >= n for n in lengths)",
        "False",
        f"{_TEST}keeping_everything_is_plain_generation[llama]",
    ),
    (
        _GENERATING,
        "chosen = choose(model",
        "chosen = select(model",
        f"{_TEST}pass_one_can_be_any_that_is_called_like_select",
    ),
    (
        _RECOMMENDED,
        "repr(shape_of(model)).encode() + sample",
        "repr(shape_of(model)).encode()",
        f"{_TEST}auto_takes_the_calibrated_layer",
    ),
    # rivals
    (
        _EVICTION,
        "by_head[0].unflatten(0, (keys.shape[1], -1)).sum(1)",
        "by_head[0].unflatten(0, (-1, keys.shape[1])).sum(0)",
        f"{_KV}snapkv_keeps_what_a_brute_force_keeps[llama]",
    ),
    (
        _EVICTION,
        "logits[..., first:].masked_fill_(later, -torch.inf)",
        "pass",
        f"{_KV}h2o_keeps_what_received_most_attention[llama]",
    ),
    (
        _EVICTION,
        "torch.arange(n - budget + sinks, n, device=device)",
        "torch.arange(n - budget, n - sinks, device=device)",
        f"{_KV}streaming_keeps_both_ends_and_one_run_a_given_set",
    ),
    (
        _EVICTION,
        "token, place = torch.where(torch.isin(token, ends), token, new), place + 1",
        "token, place = torch.where(torch.isin(token, ends), token, new), place",
        f"{_KV}new_tokens_have_the_positions_after_the_prompt",
    ),
    (
        _EVICTION,
        'if getattr(layer, "is_sliding", False):',
        "if False:",
        f"{_KV}h2o_keeps_what_received_most_attention[gemma3_text]",
    ),
    (
        _EVICTION,
        "    cache.layers = [copy.copy(layer) for layer in prefilled.cache.layers]\n    if policy",
        "    if policy",
        f"{_KV}the_prefilled_cache_and_the_model_stay_as_they_are[llama]",
    ),
    (_LONG, '(0, 0) if method == "gemfilter_raw" else protect', "(0, 0)", f"{_KV}any_method_answers"),
    # needles
    (
        _NEEDLES,
        "if needle not in found:",
        "if True:",
        f"{_NEEDLE}needles_are_different_and_do_not_depend_on_their_number",
    ),
    (
        _NEEDLES,
        "_sentence_end(tokenizer, straw, round(depth * room))",
        "round(depth * room)",
        f"{_NEEDLE}the_needle_is_where_it_is_said_to_be",
    ),
    (_NEEDLES, 'r"(?<=\\d),(?=\\d)", ""', 'r",", " "', f"{_NEEDLE}replies_are_right_when_they_contain_the_answer"),
    (_NEEDLES, "/ len(words)", "/ len(set(words))", f"{_NEEDLE}the_reported_score_by_hand"),
    # experiments
    (
        _SPARSE,
        "np.minimum(i + 1, pattern.window)",
        "np.minimum(i, pattern.window)",
        f"{_EXPERIMENT}share_of_products_is_that_of_the_pattern",
    ),
    (
        _PROMPTS,
        "super().__post_init__()\n        check_essays",
        "check_essays",
        f"{_EXPERIMENT}senseless_settings_are_refused",
    ),
]
