"""`featlearn adapt`: heads on embeddings of yours from few labels, and their predictions."""

from collections.abc import Sequence

from featlearn.cli._parse import later


def adapt_command(args: Sequence[str]) -> int:
    """Fit heads on embeddings, or predict with one that was kept."""
    if args and args[0] == "predict":
        return later("adapt.predict")(args[1:])
    return later("adapt.fit")(args)
