"""Mutants of the chunked prefill of GemFilter, for the runner of `tests/test_mutants.py`."""

_CHUNKED, _ATTENTION, _OFFLOAD = (
    f"src/featlearn/methods/gemfilter/{name}.py" for name in ("chunked", "chunked_attention", "offload")
)
_TEST = "tests/methods/test_gemfilter_chunked.py::test_"
_HIDDEN, _SELECTION = f"{_TEST}hidden_states_are_those_of_the_model", f"{_TEST}selection_is_that_of_select"
_PATTERN = f"{_TEST}pattern_is_that_of_the_model_under_the_same_mask"
_BRUTE = f"{_TEST}attention_equals_a_brute_force_mask"
_TAIL = f"{_TEST}tail_holds_the_voting_and_the_protected_rows"
_LEAVES = f"{_TEST}what_pass_one_does_not_read_leaves_and_comes_back"
_BLOCKS = f"{_TEST}blocks_are_bounded_and_masks_of_equal_blocks_are_built_once"
_REFUSED = f"{_TEST}layers_built_otherwise_are_refused_by_name"

MUTANTS: list[tuple[str, str, str, str]] = [
    # what a family does differently
    (_CHUNKED, "rows += layer.post_attention_layernorm(mixed) if sandwich else mixed", "rows += mixed", _HIDDEN),
    (_CHUNKED, "q, k = attn.q_norm(q), attn.k_norm(k)", "q = attn.q_norm(q)", _HIDDEN),
    (_CHUNKED, 'if getattr(attn, "use_rope", True):', "if True:", _HIDDEN),
    (_CHUNKED, "return [found[kind] for kind in kinds]", "return [found[kinds[-1]] for kind in kinds]", _HIDDEN),
    (_CHUNKED, '"softcap": layout.softcap(attn)}', '"softcap": None}', _HIDDEN),
    (
        _CHUNKED,
        "attend(queries, keys, values, a, window=window, **how)",
        "attend(queries, keys, values, a, **how)",
        _HIDDEN,
    ),
    # the loop
    (
        _CHUNKED,
        "keys[:, :, a:b] = layout.keys(attn, hidden[:, a:b], (cos[:, a:b], sin[:, a:b]))",
        "keys[:, :, a:b] = layout.keys(attn, hidden[:, a:b], (cos[:, : b - a], sin[:, : b - a]))",
        _SELECTION,
    ),
    (_CHUNKED, "(cos[:, -w:], sin[:, -w:])", "(cos[:, :w], sin[:, :w])", _SELECTION),
    (_CHUNKED, "input_ids[row : row + 1, own]", "input_ids[row : row + 1, : int(own.sum())]", _SELECTION),
    (
        _CHUNKED,
        "b = min(a + chunk, n)\n        rows =",
        "b = n\n        rows =",
        _TEST + "only_rows_of_a_chunk_pass_a_map_and_no_later_layer_runs",
    ),
    (_CHUNKED, "n - max(tail, attention.dense_tail)", "n - attention.dense_tail", _TAIL),
    (_CHUNKED, "tail=max(tail, scoring.rows)", "tail=tail", _TAIL),
    (_CHUNKED, 'if window is not None or attention == "full":', 'if attention == "full":', _PATTERN),
    (
        _CHUNKED,
        "attend(queries[:, :, near:], keys, values, a + near, **how)",
        "attend(queries[:, :, near:], keys, values, a, **how)",
        _PATTERN,
    ),
    # attention
    (_ATTENTION, "(row - at < window)", "(row - at <= window)", _BRUTE),
    (_ATTENTION, "(at < sinks)", "(at <= sinks)", _BRUTE),
    (_ATTENTION, "visible = at <= row", "visible = at < row + 2", _BRUTE),
    (_ATTENTION, "shape = (b - a, a - first, head)", "shape = (b - a, head)", _BRUTE),
    (
        _ATTENTION,
        "first = 0 if window is None else max(0, a - window + 1)",
        "first = 0 if window is None else max(0, a - window + 17)",
        _BRUTE,
    ),
    (_ATTENTION, ".mul_(softcap).add_(mask)", ".add_(mask)", _BRUTE),
    (_ATTENTION, "share * (b - a), -1)", "share * (b - a), -1).flip(2)", _BRUTE),
    (_ATTENTION, "min(step, ENTRIES // (share * (sinks + window + step + ALIGN)))", "step", _BLOCKS),
    (_ATTENTION, "if self._known is None or self._known[0] != shape:", "if True:", _BLOCKS),
    (_ATTENTION, "first -= (first - b - sinks) % ALIGN", "first -= (first - b) % ALIGN", _BLOCKS),
    # weights off the device
    (_OFFLOAD, "*layers[:layer], last.input_layernorm", "*layers[: layer + 1], last.input_layernorm", _LEAVES),
    (_OFFLOAD, '"qkv_proj", "q_norm", "k_norm")', '"qkv_proj", "q_norm", "k_norm", "v_proj")', _LEAVES),
    (_OFFLOAD, "with torch.inference_mode(False):  # or", "with torch.inference_mode(True):  # or", _LEAVES),
    (
        _OFFLOAD,
        "moved.append((p, p.device))\n            p.data = host",
        "p.data = host\n            moved.append((p, p.device))",
        _TEST + "weights_return_to_the_device_they_came_from",
    ),
    (
        _OFFLOAD,
        "    finally:\n        _back(moved)",
        "    except ValueError:\n        _back(moved)",
        _TEST + "model_is_as_before_after_an_exception",
    ),
    (_OFFLOAD, "if type(p.data) is not Tensor:", "if False:", _TEST + "weights_in_containers_are_not_offloaded"),
    (
        _CHUNKED,
        "PassCost(time.perf_counter() - start,",
        "PassCost(cost.seconds,",
        _TEST + "seconds_of_a_offloaded_pass_include_the_moves",
    ),
    # refusals
    (_CHUNKED, "if parts != known or not inner <= ATTENTION:", "if parts != known:", _REFUSED),
    (_CHUNKED, "if parts != known or not inner", "if not inner", _REFUSED),
    (_CHUNKED, "for i in range(layer + 1):\n        parts", "for i in range(len(layers)):\n        parts", _REFUSED),
    (_CHUNKED, 'if len(devices) != 1 or next(iter(devices)).type == "meta":', "if False:", _REFUSED),
    (
        _ATTENTION,
        "queries.is_cuda and queries.dtype in",
        "queries.is_cuda or queries.dtype in",
        f"{_TEST}the_kernel_for_grouped_heads_is_that_of_half_precision_on_a_gpu",
    ),
]
