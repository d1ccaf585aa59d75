"""`featlearn domains`: check, evaluate, compare, fit, show, score, predict, export; images of several domains."""

from collections.abc import Callable, Sequence

from featlearn.cli._parse import later, subcommand

USAGE = "featlearn domains check|evaluate|compare|fit|show|score|predict|export ..."


ABOUT = """usage: featlearn domains COMMAND ...

Domain generalisation: train on some domains (photos, sketches, cameras, hospitals), be right on one never seen.
--data is a folder of domain/class/image, a .csv file with the columns path, label, domain, or one of
rotated-mnist, colored-mnist, rotated-fashion-mnist, colored-fashion-mnist.
Algorithms: erm, mixup, coral, irm, vrex, group-dro, miro, dann, sam; with -nu behind for nuclear-norm regularisation,
and swad- in front for weight averaging: erm-nu, mixup-nu, swad, swad-nu, swad-coral, ...

commands:
  check     look at the data: domains, classes, what is odd
  evaluate  hold each domain out in turn: a table with standard errors; resumes where it was stopped
  compare   two algorithms, paired over seeds and held-out domains
  fit       train on all domains and keep the model; goes on where it was stopped
  show      what a model was made from and how good it was
  score     a model on labelled images
  predict   classes of images by a model that fit kept
  export    a model as ONNX or safetensors

featlearn domains COMMAND --help shows its flags.
"""


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    name: later(f"domains.{name}")
    for name in ("check", "evaluate", "compare", "fit", "show", "score", "predict", "export")
}


def domains_command(args: Sequence[str]) -> int:
    """Run one of the commands of `featlearn domains`."""
    return subcommand("domains", COMMANDS, args, ABOUT, USAGE)
