"""What one request costs beside another version of featlearn: alternating pairs, and the interval of the slowdown.

    python benchmarks/requests.py --against CHECKOUT [--model smollm2-135m] [--length 1024] [--pairs 60]

The work: `select` on a random prompt, then `generate` of four tokens from 256 kept ones, one request at a time. Both
versions run in this process on the same model (two processes differ by up to 10 % with the same code, by where their
memory lies), in an order drawn at random within each pair. The slowdown is the mean of the log ratios with Student's
95 % interval over the pairs; both must select the same tokens. Without --model a random decoder of eight layers is
used, so that what a request costs by itself is not hidden by large products.
"""

import argparse
import importlib
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from scipy import stats

FAMILY = {
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


def version_of(source: Path, model_name: str) -> tuple[Any, Any]:
    """`featlearn.methods.gemfilter` of a checkout, and the model where this version loads it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "featlearn"]:
        del sys.modules[name]
    sys.path.insert(0, str(source))
    try:
        found = importlib.import_module("featlearn.methods.gemfilter")
        assert str(found.__file__).startswith(str(source))
        model = importlib.import_module("featlearn.data.models").load_model(model_name)[0] if model_name else None
    finally:
        sys.path.remove(str(source))
    return found, model


def timed(work: Callable[[], Any]) -> tuple[float, list[int]]:
    """Seconds, and the tokens that were selected."""
    start = time.perf_counter()
    selection = work()
    return time.perf_counter() - start, selection.indices[0].tolist()


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="another checkout")
    parser.add_argument("--model", default="")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--pairs", type=int, default=60)
    args = parser.parse_args()
    old, _ = version_of(args.against.resolve() / "src", "")
    new, model = version_of(Path(__file__).resolve().parents[1] / "src", args.model)
    if model is None:
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**FAMILY)).eval()
    ids = torch.randint(3, 500, (1, args.length), generator=torch.Generator().manual_seed(1))
    mask, draw = torch.ones_like(ids), random.Random(0)

    def request(version: Any, kind: str) -> Any:
        how = {"layer": model.config.num_hidden_layers // 2, "keep": args.length // 4, "scoring": version.RAW}
        if kind == "select":
            return version.select(model, ids, mask, **how)
        return version.generate(model, ids, mask, max_new_tokens=4, do_sample=False, **how).selection

    for kind in ("select", "generate"):
        ratios, seconds = [], {"new": [], "old": []}
        for pair in range(-3, args.pairs):
            order = draw.sample([("new", new), ("old", old)], 2)
            found = {name: timed(partial(request, version, kind)) for name, version in order}
            assert found["new"][1] == found["old"][1], "the versions select other tokens"
            if pair >= 0:
                ratios.append(math.log(found["new"][0] / found["old"][0]))
                for name, (took, _) in found.items():
                    seconds[name].append(took)
        mean, error = statistics.fmean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))
        half = float(stats.t.ppf(0.975, len(ratios) - 1)) * error
        low, high = (100 * math.expm1(x) for x in (mean - half, mean + half))
        now, before = (1000 * statistics.median(seconds[name]) for name in ("new", "old"))
        print(
            f"{kind}: {now:.2f} ms against {before:.2f} ms, slowdown {100 * math.expm1(mean):+.2f} % "
            f"[{low:+.2f}, {high:+.2f}], {len(ratios)} pairs"
        )


if __name__ == "__main__":
    main()
