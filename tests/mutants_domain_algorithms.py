"""Mutants of SWAD's rules, DANN, SAM and the evaluations of the released code, for `tests/test_mutants.py`."""

_D = "src/featlearn/methods/domains"
_V = "tests/methods/test_domain_valleys.py::test_"
_S = "tests/methods/test_domain_steps.py::test_"
_T = "tests/methods/test_domain_training.py::test_"

MUTANTS: list[tuple[str, str, str, str]] = [
    (
        f"{_D}/valleys.py",
        "above[-1] + 2 if above else 1",
        "above[-1] + 1 if above else 1",
        f"{_V}the_rule_of_the_released_code",
    ),
    (
        f"{_D}/valleys.py",
        "above[-1] + 2 if above else 1",
        "above[-1] + 2 if above else 0",
        f"{_V}the_rule_of_the_released_code",
    ),
    (
        f"{_D}/valleys.py",
        "self._total.add(segment.mean.weights, 1)",
        "self._total.add(segment.mean.weights, segment.mean.count)",
        f"{_V}the_rule_of_the_released_code",
    ),
    (
        f"{_D}/valleys.py",
        "if last[0].number < self._begin.number:",
        "if last[0].number <= self._begin.number:",
        f"{_V}the_rule_of_the_released_code",
    ),
    (
        f"{_D}/valleys.py",
        "self._queue[-self.rule.tolerance :][1:]",
        "self._queue[-self.rule.tolerance :]",
        f"{_V}the_rule_of_the_released_code",
    ),
    (
        f"{_D}/valleys.py",
        "            if not self.taken:\n                self._take(self._begin)\n",
        "",
        f"{_V}the_rule_of_the_released_code",
    ),
    (
        f"{_D}/valleys.py",
        "while self._queue and not self.over:\n            self._take(self._queue",
        "while self._queue and self.over:\n            self._take(self._queue",
        f"{_V}the_rule_of_the_paper",
    ),
    (
        f"{_D}/valleys.py",
        '"all": (self._all.count, kept)',
        '"all": (0, kept)',
        f"{_V}a_rule_goes_on_where_it_was_stopped",
    ),
    (
        f"{_D}/valleys.py",
        'self.taken = list(state["taken"])',
        "self.taken = []",
        f"{_V}a_rule_goes_on_where_it_was_stopped",
    ),
    (
        f"{_D}/training.py",
        "swad = swad_of(average)",
        "swad = swad_of(SwadRule(average.converge, average.tolerance, average.ratio))",
        f"{_T}swad_follows_the_rule_that_is_asked_for",
    ),
    (
        f"{_D}/training.py",
        "(step + 1 - schedule.evaluate_from)",
        "(step + schedule.evaluate_from)",
        f"{_T}evaluations_may_begin_after_the_first_step",
    ),
    (f"{_D}/adversarial.py", "return -ctx.factor * grad[0]", "return -grad[0]", f"{_S}a_step_of_dann"),
    (f"{_D}/adversarial.py", "return -ctx.factor * grad[0]", "return ctx.factor * grad[0]", f"{_S}a_step_of_dann"),
    (
        f"{_D}/adversarial.py",
        "functional.nll_loss(guess.log_softmax(1), domain)",
        "functional.cross_entropy(guess, domain)",
        f"{_S}weights_of_classes_are_none_of_domains",
    ),
    (f"{_D}/sharpness.py", "p + scale * g", "p - scale * g", f"{_S}a_step_of_sam"),
    (
        f"{_D}/sharpness.py",
        "stack([g.square().sum() for g in slopes]).sum().sqrt()",
        "stack([g.square().sum() for g in slopes]).sum()",
        f"{_S}a_step_of_sam",
    ),
    (f"{_D}/sharpness.py", "p + scale * g", "(p + scale * g).detach() + 0 * p", f"{_S}a_step_of_sam"),
    (
        f"{_D}/algorithms.py",
        '(key or Key("domains")) / "discriminator"',
        'Key("domains") / "discriminator"',
        f"{_S}build_puts_sam_around_the_nuclear_norm_and_starts_a_discriminator_from_the_key",
    ),
]
