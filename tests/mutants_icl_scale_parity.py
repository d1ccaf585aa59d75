"""Committed mutants of parities in context: the task, the heads, and the claims on both."""

TASK, NET = "tests/tasks/test_parity_prompts.py", "tests/nets/test_relu_attention.py"
CLAIMS = "tests/works/test_typed_claims.py::test_the_verdict_stands_and_planted_numbers_are_told_apart"
MUTANTS = (
    (
        "tasks/parity_prompts.py",
        "(u >= 0.75 + self.gamma)",
        "(u >= 0.75)",
        f"{TASK}::test_pairs_of_signs_have_the_four_probabilities",
    ),
    (
        "tasks/parity_prompts.py",
        "torch.where(rare[:, None], ~important, important)",
        "torch.where(rare[:, None], ~important | important, important)",
        f"{TASK}::test_tasks_share_a_dictionary_and_prefer_the_first_signs",
    ),
    (
        "nets/relu_attention.py",
        "return heads.relu() @ self.outer",
        "return heads @ self.outer",
        f"{NET}::test_the_call_is_the_formula",
    ),
    (
        "nets/relu_attention.py",
        "heads = dictionary @ heads @ dictionary.T",
        "heads = dictionary.T @ heads @ dictionary",
        f"{NET}::test_a_dictionary_turns_prompts_and_heads_alike",
    ),
    (
        "nets/relu_attention.py",
        "(number >> i) % 2",
        "(number >> (bits - 1 - i)) % 2",
        f"{NET}::test_the_example_of_the_thesis_entry_by_entry",
    ),
    (
        "works/icl_scale/claims/parity_code.py",
        "other = margins(construction(d, a, a + 1.0), d)",
        "other = margins(construction(d, a, a + 0.5), d)",
        f"{CLAIMS}[icl_scale.theorem5_5_1]",
    ),
    (
        "works/icl_scale/claims/parity_code.py",
        "found[SMALL].append(float(small[~s1].mean()))",
        "found[SMALL].append(float(small.mean()))",
        f"{CLAIMS}[icl_scale.small_model_coverage]",
    ),
    (
        "works/icl_scale/claims/parity_heads.py",
        "int(a != b and a & b == a)",
        "int(a & b == a)",
        f"{CLAIMS}[icl_scale.lemma_min_heads]",
    ),
    (
        "works/icl_scale/claims/parity_heads.py",
        "(middle - 1) * (net.outer < 0)",
        "(middle - 1) * (net.outer > 0)",
        f"{CLAIMS}[icl_scale.lemma_min_heads]",
    ),
    (
        "works/icl_scale/claims/parity_noise.py",
        "return d @ np.linalg.pinv(d)",
        "return d @ d.T",
        f"{CLAIMS}[icl_scale.theorem5_5_2]",
    ),
    (
        "works/icl_scale/claims/parity_noise.py",
        "(nu**2 + nu - 1) * own",
        "(nu + nu - 1) * own",
        "tests/works/icl_scale/test_parity_networks.py::test_the_error_of_long_prompts_is_that_of_normal_noise",
    ),
    (
        "works/icl_scale/claims/parity_noise.py",
        "keep(TAIL, seen, square * mu / 3)",
        "keep(TAIL, seen, square * mu / 2)",
        f"{CLAIMS}[icl_scale.lemmaD_3]",
    ),
)
