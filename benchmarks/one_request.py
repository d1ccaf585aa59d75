"""How much one request alone is slowed down against another checkout: alternating pairs of processes.

    python benchmarks/one_request.py --against CHECKOUT [--model smollm2-135m] [--length 1024] [--pairs 20]

A pair is two processes, one of each checkout, in an order drawn at random: each loads the model (without --model a
random decoder, the same in both), asks once to warm up and then times `select` and `generate` of four tokens,
--inner requests each, of which the median counts. Processes of the same code differ by where their memory lies, which
many pairs average. Per kind of request the slowdown is the median of the pairs' ratios; its interval at 95 % is that of
order statistics, exact for any distribution. Both must select the same tokens. The target is an upper end below 5 %;
exit status 1 says that it was not reached. Leave the machine idle meanwhile.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from scipy import stats

KINDS = ("select", "generate")
TARGET = 0.05
SMALL = {
    "vocab_size": 512,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def worker(name: str, length: int, inner: int) -> dict[str, Any]:
    """Seconds of each kind of request in this process, and what was selected."""
    import torch

    from featlearn.methods import gemfilter

    if name:
        from featlearn.data.models import load_model

        model = load_model(name)[0]
    else:
        import transformers

        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)).eval()
    ids = torch.randint(3, 500, (1, length), generator=torch.Generator().manual_seed(1))
    how = {"layer": model.config.num_hidden_layers // 2, "keep": length // 4, "scoring": gemfilter.RAW}
    mask, found = torch.ones_like(ids), {}
    chosen: Any = None
    for kind in KINDS:
        seconds = []
        for _ in range(inner + 1):
            start = time.perf_counter()
            if kind == "select":
                chosen = gemfilter.select(model, ids, mask, **how)
            else:
                gemfilter.generate(model, ids, mask, max_new_tokens=4, do_sample=False, **how)
            seconds.append(time.perf_counter() - start)
        found[kind] = statistics.median(seconds[1:])
    return {"source": gemfilter.__file__, "chosen": chosen.indices[0].tolist(), **found}


def asked(checkout: Path, args: argparse.Namespace) -> dict[str, Any]:
    """What a process of a checkout says."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": str(args.threads)}
    words = [sys.executable, str(Path(__file__).resolve()), "--worker", "--model", args.model]
    words += ["--length", str(args.length), "--inner", str(args.inner)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the process of {checkout} failed:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    if not found["source"].startswith(str(checkout)):
        sys.exit(f"{found['source']} was imported in place of {checkout / 'src'}")
    return found


def median_interval(values: list[float], level: float = 0.95) -> tuple[float, float, float]:
    """Median, and the narrowest symmetric pair of order statistics that covers it with `level`; the ends of all values
    where so few do not."""
    ordered, n = sorted(values), len(values)
    k = int(stats.binom.ppf((1 - level) / 2, n, 0.5))
    while k > 0 and 2 * stats.binom.cdf(k - 1, n, 0.5) > 1 - level:
        k -= 1
    k = max(k, 1)
    return statistics.median(ordered), ordered[k - 1], ordered[n - k]


def main() -> int:
    """Compare and print; 0 where every upper end is below the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--model", default="")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--inner", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(worker(args.model, args.length, args.inner)))
        return 0
    if args.against is None or not (args.against / "src" / "featlearn").is_dir():
        parser.error("--against names a checkout, a folder with src/featlearn")
    if args.pairs < 6:
        parser.error("--pairs: at least 6, or no interval of the median covers 95 %")
    checkouts = {"new": Path(__file__).resolve().parents[1], "old": args.against.resolve()}
    draw, pairs = random.Random(0), []
    for i in range(args.pairs):
        names = draw.sample(list(checkouts), 2)
        found = {name: asked(checkouts[name], args) for name in names}
        if found["new"]["chosen"] != found["old"]["chosen"]:
            sys.exit("the versions select other tokens")
        pairs.append(found)
        told = ", ".join(f"{kind} {found['new'][kind] / found['old'][kind] - 1:+.1%}" for kind in KINDS)
        print(f"pair {i + 1} of {args.pairs}: {told}", file=sys.stderr, flush=True)
    reached = True
    for kind in KINDS:
        middle, low, high = median_interval([p["new"][kind] / p["old"][kind] for p in pairs])
        now, before = (1000 * statistics.median(p[name][kind] for p in pairs) for name in ("new", "old"))
        reached &= high - 1 < TARGET
        print(
            f"{kind}: {now:.1f} ms against {before:.1f} ms, slowdown {middle - 1:+.1%} "
            f"[{low - 1:+.1%}, {high - 1:+.1%}], {len(pairs)} pairs"
        )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
