"""Canned claims in the typed form: one of each outcome, two faces, every kind of strip."""

import numpy as np
from canned import NASTY, PAPERS, entry

from featlearn.core import Key
from featlearn.lab.claim import Accusation, Claim, Premise, broken, verdict_of
from featlearn.lab.inventory import Work
from featlearn.lab.quantity import COUNT, POSITIVE, REAL, SHARE
from featlearn.lab.statement import at_least, at_most, between, both, equal, order
from featlearn.lab.uncertainty import mean_of
from featlearn.lab.verdicts import judged

RISING = np.linspace(0.5, 3.0, 60)
NEURONS = np.linspace(-1.0, 1.0, 500)


def seeds(mean, spread=0.02):
    """Five seeds about a mean."""
    return mean + spread * np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def good_statements(settings):
    return (
        equal("trace", POSITIVE, 2.0, "Lemma 1", margin=0.05, rival=2.5, rival_says="five quarters of it"),
        at_most(
            "error of the best learner", SHARE, 0.1, f"Lemma 1, {NASTY}", rival=0.5, rival_says="the error of a coin"
        ),
        between(
            "exponent of the samples in the dimension, a name that is longer than a line of a title can be",
            REAL,
            0.9,
            1.5,
            "Lemma 1: nearly linear",
            rival=2.0,
            rival_says="the rate of kernels",
            form="criterion",
        ),
        equal(
            "growth",
            POSITIVE,
            RISING,
            "Lemma 1, then its corollary",
            margin=0.04,
            axis="time",
            rival=RISING**2 + 0.2,
            rival_says="a square",
            form="derived",
        ),
        equal("weights", REAL, NEURONS, "Lemma 1", margin=1e-9, axis="neuron", rival=-NEURONS, rival_says="the sign"),
        equal("seeds that fail", COUNT, 0.0, "Lemma 1", axis="dimension", rival=5.0, rival_says="no seed arrives"),
        at_least("far", POSITIVE, np.array([1e-4, 1.0, 1e3]), "Lemma 1", rival=1e-6, rival_says="nothing", axis="d"),
        order("gain", SHARE, "Lemma 1", delta=0.05),
        at_most("errors of all", SHARE, 0.4, "Lemma 1", axis="run", rival=0.5, rival_says="the error of a coin"),
    )


def good_observed(settings, key):
    return {
        "trace": np.array(2.01),
        "error of the best learner": mean_of(seeds(0.05), SHARE, "seed"),
        "exponent of the samples in the dimension, a name that is longer than a line of a title can be": mean_of(
            seeds(1.1), REAL, "seed"
        ),
        "growth": RISING + 0.01,
        "weights": NEURONS,
        "seeds that fail": np.zeros(6),
        "far": np.array([2e-3, 4.0, 3e3]),
        "gain": mean_of(seeds(0.2), SHARE, "seed"),
        "errors of all": np.linspace(0.1, 0.35, 30),
    }


def wrong_statements(settings):
    return both("size", POSITIVE, "eq. (2)", reported=2.0, corrected=1.0, says="1 in place of 2", margin=0.1)


ACCUSES = Accusation(
    quote="The size is two <b>exactly</b>.",
    place="Lemma 2, second line",
    reading="size means length",
    hits="statement",
    derivation="By hand the integral is one.",
)
PREMISES = (
    Premise("d >= 10", True, "d = 12"),
    Premise("C of the proof", None, "C is not given"),
    Premise("n as in the table", False, "100 for 1000", size=True),
)


def claim(slug, statements, observe, **other):
    return Claim(
        id=f"typed.{slug}",
        entries=(f"typed.{slug}",),
        says=f"What {slug} says: `x` is at most 2.",
        statements=statements,
        observe=observe,
        **other,
    )


def one(name, statement, observation, **other):
    return claim(name, lambda settings: (statement,), lambda settings, key: {statement.name: observation}, **other)


CLAIMS = (
    claim("good", good_statements, good_observed, remarks="Seeds are few."),
    claim(
        "wrong", wrong_statements, lambda settings, key: {"size": np.array(1.0)}, accuses=ACCUSES, premises=PREMISES[:1]
    ),
    one("weak", at_most("bound", POSITIVE, 1e3, "Lemma 3", expect="too weak to test"), np.array(0.01)),
    one("start", at_most("norm", POSITIVE, 4.0, "Lemma 4", trivial=1.0, trivial_says="the start"), np.array(3.0)),
    one(
        "open",
        equal("share", SHARE, 0.5, "Table 1", margin=0.01, rival=0.6, rival_says="another share"),
        mean_of(seeds(0.5, 0.1), SHARE, "seed"),
        premises=PREMISES,
    ),
)


def verdicts():
    """One verdict a claim, and one that was not run."""
    never = one("never", at_most("x", POSITIVE, 1.0, "Lemma 5"), np.array(0.5))
    found = [judged(verdict_of(c, Key("canned"))) for c in CLAIMS]
    return [*found, judged(broken(never, "not run", "featlearn run typed/never --preset paper"))]


def statement(**other):
    """The first statement of the good claim, changed."""
    import dataclasses

    return dataclasses.replace(verdicts()[0].statements[0], **other)


def work():
    """A work whose claims are in the typed form."""
    checks = {
        "the trace is two": ("typed.good: trace", "typed.good: no such statement"),
        "the rest": ("reason: it has no number",),
    }
    entries = [entry(f"typed.{c.id.split('.')[1]}", "lemma") for c in CLAIMS]
    entries[0] = entry("typed.good", "lemma", checks=checks)
    return Work("typed", "A typed work", PAPERS, "", "About.", (*entries, entry("typed.never"), entry("typed.no")))
