"""Run the session of docs/domains_session.md and write the page from what the commands said.

    python scripts/domains_session.py --run FOLDER   # the commands, about six minutes of one core; then the page
    python scripts/domains_session.py --run FOLDER --first fit   # in the same folder, from that command on
    python scripts/domains_session.py                # the page alone, from docs/domains_session.json

The kept file has each command with its output, and the numbers as the commands' own --json gives them.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT, PAGE = ROOT / "docs" / "domains_session.json", ROOT / "docs" / "domains_session.md"
COLUMNS = 116
DATA = "--data digits --size 28 --width 16 --batch 24 --steps 120 --evaluate-every 30 --search 2 --device cpu"
COMMANDS = {
    "fetch": "featlearn data fetch mnist",
    "draw": "python digit_styles.py digits --each 30",
    "check": "featlearn domains check --data digits",
    "evaluate": f"featlearn domains evaluate {DATA} --algorithm erm erm-nu --workers 1 --out digits.html digits.json",
    "compare": f"featlearn domains compare erm erm-nu {DATA}",
    "fit": "",  # the command that `evaluate` prints for erm-nu
    "show": "featlearn domains show erm-nu.pt",
    "score": "featlearn domains score erm-nu.pt --data turned --out turned.html",
    "predict": "featlearn domains predict --model erm-nu.pt turned/turned/3 --out threes.csv",
}
"""In their order."""


def run(folder: Path, first: str = "") -> dict[str, Any]:
    """Every command in an empty folder, as a user types it; with `first`, in the folder of the session before, those
    from it on."""
    if first:
        kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
        names = list(COMMANDS)[: list(COMMANDS).index(first)]
        kept["commands"] = [c for c in kept["commands"] if c["name"] in names]
    else:
        folder.mkdir(parents=True)
        shutil.copy(ROOT / "docs" / "examples" / "digit_styles.py", folder)
        kept = {"commands": [], "seconds": 0.0}
    todo = list(COMMANDS)[list(COMMANDS).index(first or "fetch") :]
    for name in todo:
        command = COMMANDS[name]
        if name == "fit":
            command = f"{_results(folder)['fit']['erm-nu']['command']} --out erm-nu.pt"
        for target in command.partition(" --out ")[2].split():
            (folder / target).unlink(missing_ok=True)
        kept["commands"].append({"name": name, "command": command, **_call(command, folder, kept)})
    found = _results(folder)
    kept["results"] = {n: found[n] for n in ("domains", "labels", "sizes", "flags", "scores", "measures", "levels")}
    kept["fit"] = found["fit"]
    for name in ("compare", "score", "show"):
        words = COMMANDS[name].partition(" --out ")[0]
        kept[name] = json.loads(_call(f"{words} --json", folder, kept)["out"])
    return kept


def _results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "digits.json").read_text(encoding="utf-8"))


def _call(command: str, folder: Path, kept: dict[str, Any]) -> dict[str, Any]:
    words = shlex.split(command)
    words = [sys.executable, *(["-m", "featlearn.cli"] if words[0] == "featlearn" else []), *words[1:]]
    env = {**os.environ, "COLUMNS": str(COLUMNS), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    before = os.times()
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)
    after = os.times()
    kept["seconds"] += sum(after[2:4]) - sum(before[2:4])
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return {"out": _plain(done.stdout, folder), "err": _plain(done.stderr, folder)}


def _plain(text: str, folder: Path) -> str:
    """Without names of this machine, and without the blanks that tables end in."""
    for place, name in ((str(folder.resolve()), "."), (str(Path.home()), "~")):
        text = text.replace(place, name)
    return "\n".join(line.rstrip() for line in text.replace("\r", "\n").splitlines()) + "\n" if text else ""


# --- the page -------------------------------------------------------------------------------------------------------


def page(kept: Mapping[str, Any]) -> str:
    """The page as Markdown; every number on it is of the kept file."""
    by = {c["name"]: c for c in kept["commands"]}
    sizes = kept["results"]["sizes"]
    parts = [
        "# A session with digits in four styles\n",
        "From a folder of images to a model, with what the nuclear norm did and did not do: MNIST, drawn plain, "
        "inverted,\ncoloured and as edges, and a fifth style, turned, that nothing is chosen or trained on. "
        f"{sum(sizes.values())} pictures of\n{len(sizes)} domains, a network of four convolutions, "
        f"{round(kept['seconds'] / 60)} minutes of one core. The commands and what they said "
        "are\nkept in `domains_session.json` and written here by `python scripts/domains_session.py`. What the flags "
        "mean is told\non the page on [new domains](domains.md).\n",
        "## The data\n",
        _shown(by["fetch"], by["draw"], output=False),
        "`digit_styles.py`, of `docs/examples`, draws each digit in one style alone.\n",
        _shown(by["check"]),
        "Three of the styles are grey: that is told, and they are read as RGB.\n",
        "## Each style held out in turn\n",
        _shown(by["evaluate"]),
        _found(kept),
        "## Is it better?\n",
        _shown(by["compare"]),
        _difference(kept["compare"]),
        "## A model\n",
        "The command that `evaluate` printed, with a name for the file:\n",
        _shown(by["fit"]),
        _fitted(kept),
        _shown(by["show"]),
        "## On a style that it never saw\n",
        _shown(by["score"]),
        _scored(kept),
        _shown(by["predict"], output=False),
        "`threes.csv` has a line a picture: the class, and its probability.\n",
    ]
    return "\n".join(parts)


def _shown(*commands: Mapping[str, str], output: bool = True) -> str:
    lines = "\n".join(c["command"] for c in commands)
    said = "".join(c["err"] + c["out"] for c in commands) if output else ""
    said = re.sub(r"^(runs|steps): \d+/\d+\n", "", said, flags=re.M)  # how far it was
    return f"```sh\n{lines}\n```\n" + (f"\n```text\n{said}```\n" if said else "")


def _found(kept: Mapping[str, Any]) -> str:
    scores = {(s["algorithm"], s["domain"]): s["mean"] for s in kept["results"]["scores"]}
    domains = kept["results"]["domains"]
    hardest = min(domains, key=lambda d: scores["erm", d])
    seeds = len(kept["results"]["flags"]["seeds"])
    first = kept["fit"]["erm-nu"]
    weight = first["settings"]["nuclear_weight"]
    return (
        f"Plain training finds `{hardest}` the hardest. A line of the first table is a mean over {seeds} seeds; the "
        "third table says\nwhich of the two draws was chosen for each. The draws of a seed are the same for both "
        "algorithms, and the first has\nthe settings as they are. What did best over all styles and seeds is in the "
        f"command below: a nuclear weight of {weight:.3g},\nof {first['of']} that were tried.\n"
    )


def _difference(found: Mapping[str, Any]) -> str:
    whole = found["differences"][-1]
    low, high = whole["by_seed"][1:]
    if low > 0:
        said = "so that the gain is more than chance among seeds, on these digits and at these sizes"
    elif high < 0:
        said = "so that the nuclear norm does harm here"
    else:
        said = "so that neither a gain nor a loss is established"
    return (
        "With seeds alone counted as independent, the interval of the difference is from "
        f"{100 * low:+.1f} to {100 * high:+.1f} points,\n{said}. Of three seeds such an interval is wide; more seeds "
        "cost only what is new.\n"
    )


def _fitted(kept: Mapping[str, Any]) -> str:
    found = kept["show"]["measures"]["validation"]
    worst, steps = found["worst_class"], kept["results"]["flags"]["steps"]
    ready = "" if worst["accuracy"] > 0.5 else f": a model of {steps} steps is one to train further, not one to use"
    right, least = 100 * found["accuracy"], 100 * worst["accuracy"]
    return (
        f"`fit` ends with how good the model is on the images kept back: {right:.1f} in a hundred are right, and of "
        f"the\nworst class, {worst['class']}, {least:.1f}{ready}. What the file of the\nmodel knows:\n"
    )


def _scored(kept: Mapping[str, Any]) -> str:
    whole = kept["score"]["domains"]["all images"]
    validation = kept["show"]["measures"]["validation"]["accuracy"]
    right, low, high = (100 * whole[n] for n in ("accuracy", "low", "high"))
    return (
        f"{right:.1f} in a hundred of the turned digits are right, from {low:.1f} to {high:.1f} by the number of "
        f"images, where {100 * validation:.1f}\nwere of the images kept back: what a model reaches on styles that it "
        "knows says little of another one. `turned.html`\nshows who is taken for whom, and how far the stated "
        "probabilities are true.\n"
    )


def main(args: Sequence[str] | None = None) -> None:
    """The session, or the page alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="an empty folder to run the commands in")
    parser.add_argument(
        "--first", choices=COMMANDS, default="", help="with the folder of the session before: from there"
    )
    given = parser.parse_args(args)
    if given.run:
        KEPT.write_text(json.dumps(run(given.run, given.first), indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(json.loads(KEPT.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
