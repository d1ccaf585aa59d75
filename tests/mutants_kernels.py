"""Committed mutants of kernels of modules, of convolutional ones, of Gram matrices in tiles and of learners on them."""

MUTANTS = (
    (
        "kernels/module_gradients.py",
        "any(counts[id(p)] != 1 for p in trained)",
        "any(counts[id(p)] < 1 for p in trained)",
        "tests/kernels/test_empirical.py::test_tied_weights_are_found_where_the_first_samples_do_not_show_them",
    ),
    (
        "kernels/blocks.py",
        "above.transpose(0, 1).transpose(2, 3)",
        "above.transpose(0, 1)",
        "tests/kernels/test_empirical.py::"
        "test_the_symmetric_kernel_is_symmetric_to_the_bit_and_repeats_rows_of_duplicates",
    ),
    (
        "kernels/convolutional.py",
        "total[high] += t[low]",
        "total[high] += 0 * t[low]",
        "tests/kernels/test_convolutional.py::test_kernels_are_the_recursion_written_out",
    ),
    (
        "kernels/convolutional.py",
        "(_relu(v, v, v)[0] for v in (var_x, var_y))",
        "(v / 2 * (1 + 2e-16) for v in (var_x, var_y))",
        "tests/kernels/test_convolutional.py::test_identical_images_keep_all_digits",
    ),
    (
        "kernels/deep_gram.py",
        "return i[same], j[same]",
        "return i[:0], j[:0]",
        "tests/kernels/test_deep_gram.py::test_equal_inputs_keep_all_digits",
    ),
    (
        "kernels/machines.py",
        "C=1 / (2 * penalty)",
        "C=1 / penalty",
        "tests/kernels/test_machines.py::test_the_machine_by_hand",
    ),
    (
        "kernels/machines.py",
        "equal[len(equal) // 2]",
        "equal[0]",
        "tests/kernels/test_machines.py::test_edges_ties_and_plateaus_are_said",
    ),
)
