"""Published tables and pictures, one module each; `load` imports only the one that is asked for.

Adding an experiment: write `<work>/<item>.py` with EXPERIMENT = Experiment(...), and its line here.
"""

import importlib

from featlearn.run.experiment import Experiment

EXPERIMENTS: tuple[str, ...] = (
    "emergence/table1",
    "emergence/table2",
    "emergence/table3",
    "emergence/table4",
    "emergence/table5",
    "emergence/figure15",
    "emergence/figure16",
    "emergence/figure17",
    "emergence/general",
    "emergence/rates",
    "amplification/figure1",
    "amplification/figure2",
    "amplification/theorem1",
    "amplification/steps",
    "xor_sgd/phases",
    "xor_sgd/samples",
    "xor_sgd/limits",
    "gradient_features/special_cases",
    "gradient_features/lottery",
    "gradient_features/kernels",
    "fourier/attention",
    "fourier/grokking",
    "fourier/margin",
    "fourier/circuits",
    "nuclear/synthetic",
    "nuclear/digits",
    "nuclear/rank",
    "gemfilter/needle",
    "gemfilter/layers",
    "gemfilter/cost",
    "gemfilter/minibench",
    "gemfilter/sparse",
)


def load(id: str) -> Experiment:
    """The experiment "<work>/<item>", from `featlearn.experiments.<work>.<item>`; LookupError if it is not listed."""
    if id not in EXPERIMENTS:
        raise LookupError(f"no experiment {id!r}: one of {', '.join(EXPERIMENTS) or 'none yet'}")
    found = importlib.import_module(f"featlearn.experiments.{id.replace('/', '.')}").EXPERIMENT
    if found.id != id:
        raise LookupError(f"featlearn/experiments/{id}.py calls itself {found.id!r}: give it the id {id!r}")
    return found
