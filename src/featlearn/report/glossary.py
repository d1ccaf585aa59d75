"""The words of this project, each with the meaning that it has in code, flags, tables and pages.

The one source of the site's glossary page and of the documentation's.
"""

from collections.abc import Mapping

from featlearn.report.html import document, table, tag

PATH = "glossary.html"
"""Where the page lies in the site; every page links to it."""

RUNS: Mapping[str, str] = {
    "experiment": "A reported table or figure as a value: its settings, the trials they make, and how their rows "
    "become the numbers beside the reported ones.",
    "preset": "A named choice of settings. smoke takes seconds, small about a minute on two cores, cpu is the largest "
    "that two cores do, paper has the reported settings and nothing else.",
    "trial": "One independent chunk of computation with its seed or seeds. It is named by a hash of its settings and "
    "kept as one file; a second run computes only the trials that are missing.",
    "row": "One measured record of a trial: its columns are numbers with a unit, or levels.",
    "level": "One of the values that a column of names can have, such as the name of a method.",
    "unit of replication": "What is independent in an experiment, declared before any row exists: a seed, a subject, a "
    "kind of needle; never a setting. Intervals are over units.",
    "role": "What a row is for: validation rows choose settings, reported rows give the numbers that are shown. No row "
    "has both roles.",
    "evaluation": "One measurement during or at the end of training: accuracy, loss, margins. Between two evaluations "
    "nothing is recorded.",
    "checkpoint": "Weights kept at an evaluation, or weights of a pretrained model.",
    "validation seeds": "Seeds on which hyperparameters are chosen, 1000 and above; no number that is shown comes from "
    "them.",
    "one-pass SGD": "Stochastic gradient descent in which every step draws new samples and each is used once.",
    "ensemble": "Networks with different seeds or settings that train together as one batched tensor; each is the same "
    "as if it were trained alone.",
    "distributed": "Several processes train one model, each on minibatches of its own, and average their gradients. A "
    "run that is not distributed has a single process.",
    "chunked prefill": "Reading a long prompt layer by layer in chunks of rows, with the keys and values of one layer "
    "alive at a time: the same scores in less memory.",
    "offload": "To move weights that a pass does not read into the memory of the CPU while it runs.",
    "diverged": "How a trial ends whose training leaves the finite numbers; it has no rows, and its page says so.",
    "stale": "Said of rows or verdicts that come from another version of the code that makes them.",
}
"""Words about runs and what they leave."""

CLAIMS: Mapping[str, str] = {
    "work": "A body of published work: a paper, or chapters of a thesis with their paper.",
    "entry": "An item of a work's inventory: a table, a figure, a theorem, a method. Its id is that of the command "
    "line.",
    "reported": "As the paper has it: a reported number, a reported setting. Verdict of a number beside ours: "
    "reproduced, deviates, not comparable, or not reported where the paper has none.",
    "claim": "What a source says, as something that can fail: statements, and the observations they are judged on.",
    "statement": "One prediction of a claim, written down without any measurement: a value and how the observation "
    "must stand to it (equal, at most, at least, between).",
    "observation": "What was measured for a statement: an exact value, or an estimate with its interval.",
    "margin": "How far an observation may lie from a statement's value and still agree; fixed beforehand.",
    "rival": "The nearest wrong answer. A statement is confirmed only if the observation would have refused its rival.",
    "premise": "A condition of the source under which a statement is made, evaluated at the settings used.",
    "outcome": "What came of a statement: contradicted, not run, data needed, inconclusive, too weak to test, "
    "confirmed.",
    "too weak to test": "Said of a statement that everything of its domain meets, or an object that learned nothing.",
    "scope": "How far an outcome reaches: as stated, other size, premise not decidable, premise unmet.",
    "reported face": "The outcome of a claim's statements as the paper has them.",
    "corrected face": "The outcome of the same claim in the form that we hold to be right where the paper is wrong.",
    "audit": "Reported numbers set against one another, by arithmetic: nothing was run, and no entry is covered by it.",
    "criterion": "A threshold of ours that stands for words of the source without a number.",
    "derived": "Said of a statement that follows from the source by a named derivation: it supports an entry and never "
    "carries it.",
    "deviation": "A place where an experiment does not do what the paper says: what, as reported, as done here, why.",
}
"""Words about what is checked and what came of it."""

SECTIONS: Mapping[str, Mapping[str, str]] = {"Runs and rows": RUNS, "Entries, claims and verdicts": CLAIMS}


def page() -> str:
    """The glossary as a page of the site."""
    body = [tag("h1", "Glossary")]
    for title, words in SECTIONS.items():
        body += [tag("h2", title), table([("word", "name"), ("meaning", "wide")], list(words.items()), class_="stack")]
    return document("Glossary · featlearn", [tag("a", "featlearn", href="index.html"), "Glossary"], body, "")


def markdown() -> str:
    """The glossary as a page of the documentation."""
    out = ["# Glossary"]
    for title, words in SECTIONS.items():
        lines = ["| word | meaning |", "| --- | --- |", *(f"| {word} | {says} |" for word, says in words.items())]
        out += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(out) + "\n"
