"""Committed mutants of MoCo v3, BYOL and Barlow Twins, of processes that are as one, and of sets in users' folders."""

JOINT = "tests/learn/test_joint_embedding.py"
SETS = "tests/data/test_labelled.py"
MUTANTS = (
    (
        "learn/contrastive/joint.py",
        "(self._one_way(q1, k2) + self._one_way(q2, k1)) / 2",
        "(self._one_way(q1, k1) + self._one_way(q2, k2)) / 2",
        f"{JOINT}::test_mocov3_looks_for_the_key_of_the_other_view_in_the_batch",
    ),
    (
        "learn/contrastive/joint.py",
        "q @ k.T / self.settings.temperature",
        "q @ k.T",
        f"{JOINT}::test_mocov3_looks_for_the_key_of_the_other_view_in_the_batch",
    ),
    (
        "learn/contrastive/joint.py",
        "BarlowTwinsLoss(settings.redundancy)",
        "BarlowTwinsLoss()",
        f"{JOINT}::test_barlow_is_its_cross_correlation_written_out",
    ),
    (
        "learn/contrastive/joint.py",
        "(d + self.redundancy * d * (d - 1)) / (n - 1)",
        "(d + self.redundancy * d * (d - 1)) / (2 * n)",
        f"{JOINT}::test_chance_is_the_loss_of_embeddings_that_say_nothing",
    ),
    (
        "learn/contrastive/joint.py",
        "return 1 - (1 - start) * (1 + math.cos(math.pi * step / steps)) / 2",
        "return start",
        f"{JOINT}::test_the_slow_copy_keeps_its_share_and_the_share_rises_to_one",
    ),
    (
        "learn/contrastive/joint.py",
        "return ((f - f.mean(0)).norm() > ROUNDING * f.norm()).float()",
        "return torch.ones(())",
        f"{JOINT}::test_every_method_trains_and_says_a_collapse",
    ),
    (
        "learn/contrastive/across.py",
        "objective.keep = objective.settings.slow_at(at, steps * settings.epochs)",
        "objective.keep = objective.settings.slow_at(0, steps * settings.epochs)",
        f"{JOINT}::test_training_moves_the_slow_copy_by_the_schedule",
    ),
    (
        "learn/contrastive/across.py",
        'run["processes"] = together.count',
        'run["processes"] = 2',
        f"{JOINT}::test_a_killed_run_ends_with_the_same_bits",
    ),
    (
        "nets/small_transformer.py",
        "self.net.conv_proj.requires_grad_(not frozen_patches)",
        "self.net.conv_proj.requires_grad_(True)",
        f"{JOINT}::test_the_transformer_is_pretrained_like_the_resnet",
    ),
    (
        "learn/contrastive/whole_batch.py",
        "        total = gradients[0].clone()\n        torch.distributed.all_reduce(total)\n        return total",
        "        return gradients[0].clone()",
        "tests/learn/test_across.py::test_loss_gradient_and_statistics_are_those_of_the_whole_batch",
    ),
    (
        "learn/contrastive/whole_batch.py",
        "variance = _Sum.apply(centred.square().mean(axes)) / count",
        "variance = centred.square().mean(axes)",
        "tests/learn/test_across.py::test_loss_gradient_and_statistics_are_those_of_the_whole_batch",
    ),
    (
        "learn/contrastive/whole_batch.py",
        "        if not module.training:\n            return module",
        "        if module.training:\n            return module",
        "tests/learn/test_across.py::test_batch_norm_that_is_kept_in_evaluation_mode_stays",
    ),
    (
        "data/pickles.py",
        "        if (module, name) not in _NAMES:\n"
        '            raise pickle.UnpicklingError(f"it names {module}.{name}")\n',
        "        if (module, name) not in _NAMES:\n            return super().find_class(module, name)\n",
        f"{SETS}::test_a_batch_runs_no_code",
    ),
    (
        "data/pickles.py",
        "np.frombuffer(data, dtype).reshape(shape, order=order)",
        "np.frombuffer(data, dtype).reshape(shape)",
        f"{SETS}::test_arrays_of_other_shapes_and_orders_are_what_they_were",
    ),
    (
        "data/labelled.py",
        "return x.transpose(0, 1, 3, 2), y - first",
        "return x, y - first",
        f"{SETS}::test_what_was_written_is_read",
    ),
    (
        "data/labelled.py",
        "np.where(y == 10, 0, y)",
        "y % 9",
        f"{SETS}::test_what_was_written_is_read",
    ),
    (
        "data/labelled.py",
        "if os.path.basename(file) != file or not file:",
        "if not file:",
        f"{SETS}::test_tables_beside_image_files_lead_nowhere_else",
    ),
)
