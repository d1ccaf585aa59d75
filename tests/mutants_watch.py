"""Committed mutants of watching: what it costs, what it leaves alone, and what it says of known cases."""

WATCH = "tests/apply/test_watch.py::"
WIDTHS = "tests/apply/test_watch_widths.py::"
LOOPS = "tests/apply/test_watch_callbacks.py::"
ATTENTION = "tests/apply/test_watch_attention.py::"

MUTANTS = (
    (
        "apply/watch/scope.py",
        "if self._spent + 2 * self._cost <= self._share",
        "if self._spent + self._cost <= self._share",
        f"{WATCH}test_watching_stays_within_its_share",
    ),
    (
        "apply/watch/scope.py",
        "        except Exception as why:\n            self._stop(",
        "        except ValueError as why:\n            self._stop(",
        f"{WATCH}test_what_fails_in_a_snapshot_is_told_and_ends_nothing",
    ),
    (
        "apply/watch/probe.py",
        'given.arguments["need_weights"] = True',
        'given.arguments["need_weights"] = asked',
        f"{ATTENTION}test_the_distance_to_the_linearisation_is_that_by_differences[encoder]",
    ),
    (
        "apply/watch/probe.py",
        "return out, weights if asked else None",
        "return out, weights",
        f"{ATTENTION}test_the_distance_to_the_linearisation_is_that_by_differences[causal]",
    ),
    (
        "apply/watch/probe.py",
        "    return own.eval()",
        "    return own",
        f"{WATCH}test_copies_are_apart_from_the_model_and_have_no_hooks",
    ),
    (
        "apply/watch/probe.py",
        'if "_hooks" in name and isinstance(value, dict)',
        'if "_no_hooks" in name and isinstance(value, dict)',
        f"{WATCH}test_copies_are_apart_from_the_model_and_have_no_hooks",
    ),
    (
        "apply/watch/probe.py",
        "            own = copy.deepcopy(model, memo)",
        "            own = copy.copy(model)",
        f"{WATCH}test_a_training_is_the_same_to_the_bit_with_and_without",
    ),
    (
        "apply/watch/moments.py",
        "    return float((now.outputs - before - step).norm()) / way",
        "    return float((now.outputs - before - step).norm()) / float(before.norm())",
        f"{WATCH}test_the_distance_to_the_linearisation_is_that_by_hand",
    ),
    (
        "apply/watch/moments.py",
        "    y = (labels - labels.mean(0)).to(k)",
        "    y = labels.to(k)",
        f"{WATCH}test_tangent_kernels_are_those_of_the_kernels_room",
    ),
    (
        "apply/watch/moments.py",
        "    h = g @ w\n",
        "    h = g.abs() @ w\n",
        f"{WATCH}test_gradient_outer_products_are_those_of_autograd",
    ),
    (
        "apply/watch/moments.py",
        "for seen in (start, previous))",
        "for seen in (start, start))",
        f"{WATCH}test_features_are_held_against_the_start_and_the_snapshot_before",
    ),
    (
        "apply/watch/records.py",
        'if value < LAZY else "rich" if value > RICH',
        'if value < RICH else "rich" if value > RICH',
        f"{WATCH}test_the_reading_is_that_of_the_last_distance",
    ),
    (
        "apply/watch/agreement.py",
        "        window = (step - 1) // WINDOW",
        "        window = step // WINDOW",
        f"{WATCH}test_early_gradients_agree_as_they_were_made",
    ),
    (
        "apply/watch/widths.py",
        "                torch.manual_seed((key / width / seed).seed)\n",
        "",
        f"{WIDTHS}test_torch_generators_are_as_before_and_seeds_differ",
    ),
    (
        "apply/watch/widths.py",
        "    x = np.log(np.array(widths, dtype=np.float64))",
        "    x = np.sqrt(np.array(widths, dtype=np.float64))",
        f"{WIDTHS}test_standard_parametrisation_has_outputs_that_grow_and_features_that_vanish",
    ),
    (
        "apply/watch/callbacks.py",
        "            if trainer.global_step != self.done:",
        "            if trainer.global_step or not self.done:",
        f"{LOOPS}test_a_step_of_lightning_is_one_of_its_optimiser",
    ),
    (
        "apply/watch/moments.py",
        "range(i, min(i + AT_ONCE, n)) for i",
        "range(i, n) for i",
        "tests/apply/test_watch.py::test_derivatives_are_of_few_inputs_at_once_and_say_the_same",
    ),
)
