"""Scores of label words with what prompts share read once, beside reading every prompt whole.

    python benchmarks/in_context.py [--model smollm2-135m] [--shots 16] [--queries 24] [--repeats 3] [--json]

Two rows of work on `reviews`: queries behind one set of demonstrations, as the experiment has them, and queries with a
set of demonstrations each, which share a few tokens, too few for a cache. Both ways read the same prompts in the same
batches, in this process and in turns; their scores are compared. Seconds are of the process's own processor time where
it runs on a CPU, so that other work on the machine does not count, and of the clock on a GPU.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _timing import in_turns, machine, show

from featlearn.core import Key
from featlearn.data.models import load_model
from featlearn.data.reviews import labelled
from featlearn.methods.in_context import label_scores
from featlearn.tasks.demonstrations import Template, drawn


def on_processor(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of a call, and its value."""
    start = time.process_time()
    value = run()
    return time.process_time() - start, value


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--queries", type=int, default=24)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_model(args.model, device=args.device)
    task, template, key = labelled("reviews")[0], Template(), Key("benchmarks/in_context")
    words = [template.continuation(w) for w in task.words]

    def prompts(own: bool) -> list[str]:
        found = []
        for i in range(args.queries):
            shown = drawn(task.labels, args.shots, args.queries, key / (i if own else 0))
            examples = [(task.texts[j], task.words[task.labels[j]]) for j in shown.demonstrations]
            found.append(template.prompt(examples, task.texts[shown.queries[i]]))
        return found

    out = {**machine(args.device), "model": args.model, "shots": args.shots, "queries": args.queries}
    for name, own in (("shared demonstrations", False), ("demonstrations of each query", True)):
        asked = prompts(own)
        ways = {
            share: partial(label_scores, model, tokenizer, asked, words, batch=args.batch, share=share)
            for share in (True, False)
        }
        if args.device == "cpu":
            taken = {way: [on_processor(run) for _ in range(args.repeats)] for way, run in ways.items()}
            seconds = {way: sorted(s for s, _ in found)[len(found) // 2] for way, found in taken.items()}
            ends = {way: found[-1][1] for way, found in taken.items()}
        else:
            timed, ended = in_turns({str(way): run for way, run in ways.items()}, args.repeats, args.device)
            seconds = {way: timed[str(way)] for way in ways}
            ends = {way: ended[str(way)] for way in ways}
        out[f"{name}: tokens of a prompt"] = len(tokenizer(asked[0])["input_ids"])
        out[f"{name}: seconds, shared"] = round(seconds[True], 3)
        out[f"{name}: seconds, whole"] = round(seconds[False], 3)
        out[f"{name}: ratio"] = round(seconds[False] / seconds[True], 2)
        out[f"{name}: largest difference of scores"] = float((ends[True] - ends[False]).abs().max())
    show(out, args.json)


if __name__ == "__main__":
    main()
