"""`featlearn domains check`: domains and classes of the data, and what is odd about them."""

from collections.abc import Sequence

from featlearn.cli._show import console, print_json, put
from featlearn.cli.domains._shared import DataOptions, describe, options_of, remark, source_of
from featlearn.errors import DONE


def check_command(args: Sequence[str]) -> int:
    """Look at the data."""
    options = options_of(DataOptions, args, "check", "Domains and classes of the data, and what is odd about it.")
    from featlearn.apply.domains.sources import load
    from featlearn.lab.submit import cores

    found = load(source_of(options), cores(), least=1)
    counts = {d.name: [int((d.y == i).sum()) for i in range(len(found.labels))] for d in found.domains}
    remark(found)
    if options.json:
        print_json(
            {
                "data": found.name,
                "labels": list(found.labels),
                "domains": counts,
                "remarks": list(found.remarks),
                "fingerprint": found.fingerprint,
                "depth": found.scale.bits,
                "float_range": found.scale.floats,
            }
        )
        return DONE
    from rich.table import Table
    from rich.text import Text

    out = console()
    describe(out, found)
    table = Table("class", title="images of each class and domain", title_justify="left")
    for name in found.names:
        table.add_column(Text(name))  # a name is no markup
    for i, label in enumerate(found.labels):
        table.add_row(Text(label), *(str(counts[d][i] or "–") for d in found.names))
    put(out, table)
    return DONE
