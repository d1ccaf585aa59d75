"""Mutants of backbones of other people, their weights, linear probes and exports, for `tests/test_mutants.py`."""

_LIBRARIES = "src/featlearn/apply/domains/libraries.py"
_SOURCES = "src/featlearn/apply/domains/sources.py"
_MODELS = "src/featlearn/apply/domains/models.py"
_EXPORT = "src/featlearn/apply/domains/export.py"
_NETS = "src/featlearn/nets/backbones.py"
_L = "tests/apply/test_domain_libraries.py::test_"
_E = "tests/apply/test_domain_export.py::test_"
_B = "tests/nets/test_backbones.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        _LIBRARIES,
        "        super().train(mode)\n        self.net.eval()\n",
        "        super().train(mode)\n",
        f"{_L}batch_norm_under_a_linear_probe_keeps_its_statistics",
    ),
    (
        _LIBRARIES,
        'if getattr(self, "frozen", False):',
        'if not getattr(self, "frozen", False):',
        f"{_L}batch_norm_of_the_users_can_be_frozen",
    ),
    (
        _LIBRARIES,
        "for module, mode in modes.items():\n                module.training = mode",
        "self.train()",
        f"{_L}a_module_of_the_users_keeps_its_modes",
    ),
    (
        _LIBRARIES,
        "copy.deepcopy(found) if isinstance(found, nn.Module)",
        "found if isinstance(found, nn.Module)",
        f"{_L}a_module_of_the_users_keeps_its_modes",
    ),
    (
        _LIBRARIES,
        "    thread.join(seconds)",
        "    thread.join(10 * seconds)",
        f"{_L}a_hub_that_says_nothing_is_waited_for_no_longer",
    ),
    (
        "src/featlearn/apply/domains/identity.py",
        "    if library_of(name) == OWN:\n        told",
        "    if library_of(name) != OWN:\n        told",
        f"{_L}a_changed_module_is_another_network",
    ),
    (
        _LIBRARIES,
        "image_embeds",
        "last_hidden_state[:, 0]",
        f"{_L}features_of_a_clip_are_those_of_its_images",
    ),
    (
        _SOURCES,
        "return bool(self.weights) and self.library != libraries.OWN",
        "return bool(self.weights)",
        f"{_L}weights_for_a_module_of_the_users_leave_its_modes",
    ),
    (
        _MODELS,
        "if network.library == OWN and own != network.backbone:",
        'if network.library == OWN and own not in ("", network.backbone):',
        f"{_L}a_model_runs_no_code_that_its_user_has_not_named",
    ),
    (
        _MODELS,
        "replace(source.preprocessing(), size",
        "replace(Preprocessing(), size",
        f"{_L}a_model_on_a_clip_needs_its_folder_no_more",
    ),
    (
        _LIBRARIES,
        'f"{constants.ENDPOINT}/{name}"',
        'f"https://another.invalid/{name}"',
        f"{_L}a_clip_that_is_nowhere_is_one_line",
    ),
    (_EXPORT, "if not off <= allowed:", "if off > 2 * allowed:", f"{_E}what_counts_as_rounding"),
    (
        _NETS,
        "if len(usual) == 1:",
        "if usual:",
        f"{_B}weights_that_do_not_fit_say_what_was_found",
    ),
]
