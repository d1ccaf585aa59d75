"""Both measuring tools on three networks of other people's, each trained here at a usual step size and at a small one.

    python benchmarks/other_models.py --threads 1 --out evidence/benchmarks/other_models.json
    python benchmarks/other_models.py --page PAGE.md      # writes the table of that file between its marks

- torchvision's ResNet-18 on Fashion-MNIST, from its random start, SGD with momentum;
- SmolLM2-135M fine-tuned on film reviews, the next word after "It was" being good or bad, AdamW;
- an encoder of torch's transformer layers on sparse parity: the product of three of twelve signs, AdamW.

`featlearn.watch` stands around each loop, on 64 inputs that are not trained on, and `featlearn.inspect` compares the
weights before and after. The small step size is the control: a hundredth of the usual one, in as many steps. Fixed
before the rows: data, steps, step sizes and seed; nothing is chosen by what comes out. One seed: these are examples of
what the tools say, and no claim about a kind of network.

Needs `featlearn data fetch` for fashion-mnist, smollm2-135m and reviews, and torchvision and transformers.
"""

import argparse
import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from _timing import machine
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import featlearn
from featlearn.core import Key
from featlearn.lab.files import write_whole

KEY = Key("benchmarks/other_models")
SMALL = 0.01
"""The control's step size over the usual one."""
BLOCK = re.compile(r"(<!-- other models: begin -->\n).*?(<!-- other models: end -->)", re.S)
Job = tuple[nn.Module, Any, Tensor, Callable[[nn.Module, float], Iterator[None]], Callable[[nn.Module], float], float]


def resnet() -> Job:
    """300 steps of 64 images of 10 classes, at 32 x 32 in three equal channels."""
    from torchvision.models import resnet18

    from featlearn.data import fashion_mnist

    def images(split: str, n: int) -> tuple[Tensor, Tensor]:
        found = fashion_mnist(split=split, classes=tuple(range(10)))
        rows = torch.from_numpy((KEY / "resnet" / split).numpy().permutation(len(found.y)))[:n]
        x = nn.functional.pad(found.x.view(-1, 1, 28, 28)[rows], (2, 2, 2, 2)).expand(-1, 3, -1, -1)
        return (x - 0.3).div(0.35).contiguous(), found.y[rows]

    (x, y), (x_test, y_test) = images("train", 300 * 64), images("test", 1000)
    torch.manual_seed(0)
    net = resnet18(num_classes=10)

    def train(model: nn.Module, rate: float) -> Iterator[None]:
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        for rows in torch.arange(len(y)).split(64):
            optimizer.zero_grad()
            cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
            yield

    return net, x_test, y_test, train, lambda model: _accuracy(model(x_test), y_test), 0.05


class Sentiment(nn.Module):
    """The scores of two words after a text, from a causal language model."""

    def __init__(self, body: nn.Module, words: Tensor) -> None:
        super().__init__()
        self.body, self.words = body, words

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(n, length) tokens, padded on the left -> (n, 2)."""
        return self.body(input_ids=input_ids, attention_mask=attention_mask).logits[:, -1][:, self.words]


def language_model() -> Job:
    """60 steps of 8 reviews, all weights trained."""
    from featlearn.data.models import load_model
    from featlearn.data.reviews import labelled

    body, tokenizer = load_model("smollm2-135m")
    task = next(t for t in labelled("reviews") if t.name == "movies")
    rows = (KEY / "reviews").numpy().permutation(len(task.texts))[: 60 * 8 + 200]
    words = torch.tensor([tokenizer(word)["input_ids"][0] for word in (" bad", " good")])
    tokenizer.padding_side = "left"
    given = tokenizer(
        [f"{task.texts[i]} It was" for i in rows],
        padding="max_length",
        truncation=True,
        max_length=48,
        return_tensors="pt",
    )
    ids, mask, y = given["input_ids"], given["attention_mask"], torch.tensor([task.labels[i] for i in rows])
    test = {"input_ids": ids[-200:], "attention_mask": mask[-200:]}

    def train(model: nn.Module, rate: float) -> Iterator[None]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
        for at in torch.arange(60 * 8).split(8):
            optimizer.zero_grad()
            cross_entropy(model(ids[at], mask[at]), y[at]).backward()
            optimizer.step()
            yield

    return Sentiment(body, words), test, y[-200:], train, lambda model: _accuracy(model(**test), y[-200:]), 2e-5


class Parity(nn.Module):
    """torch's encoder layers over tokens of bits, the mean over places, two scores."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(2, 64), nn.Parameter(0.1 * torch.randn(bits, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 2)

    def forward(self, bits: Tensor) -> Tensor:
        """(n, bits) of 0 and 1 -> (n, 2)."""
        return self.head(self.layers(self.tokens(bits) + self.places).mean(1))


def parity() -> Job:
    """1500 steps of 128 draws of 12 bits. (Of 16 bits, the first setting, nothing was learnt in as many steps.)"""
    torch.manual_seed(0)
    net, draw = Parity(12), KEY / "parity"

    def sample(n: int, key: Key) -> tuple[Tensor, Tensor]:
        bits = torch.from_numpy(key.numpy().integers(0, 2, (n, 12)))
        return bits, bits[:, :3].sum(1) % 2

    x, y = sample(1000, draw / "test")

    def train(model: nn.Module, rate: float) -> Iterator[None]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        for step in range(1500):
            bits, labels = sample(128, draw / step)
            optimizer.zero_grad()
            cross_entropy(model(bits), labels).backward()
            optimizer.step()
            yield

    return net, x, y, train, lambda model: _accuracy(model(x), y), 1e-3


JOBS = {
    "ResNet-18 (torchvision)": resnet,
    "SmolLM2-135M, fine-tuned": language_model,
    "transformer on sparse parity": parity,
}


def _accuracy(scores: Tensor, y: Tensor) -> float:
    return float((scores.argmax(1) == y).double().mean())


def measured(start: nn.Module, x: Any, y: Tensor, train: Any, test: Any, rate: float) -> dict[str, Any]:
    """One training, watched, and its weights inspected."""
    model = copy.deepcopy(start).train()
    with featlearn.watch(model, x, y) as scope:
        for _ in train(model, rate):
            scope.step()
    seen, pair = scope.result, featlearn.inspect.compare(start, model).pairs[0]
    model.eval()
    start.eval()
    with torch.no_grad():
        before, after = test(start), test(model)
    last = seen.snapshots[-1]
    moved = sorted((layer for layer in pair.layers if layer.spectral is not None), key=lambda v: -(v.spectral or 0))
    return {
        "rate": rate,
        "steps": seen.steps,
        "accuracy_before": before,
        "accuracy": after,
        "outputs_moved": last.moved,
        "off_linear": seen.reading.apart,
        "watch_reads": seen.reading.regime,
        "kernel_drift": last.kernel_drift,
        "alignment_before": seen.snapshots[0].alignment,
        "alignment": last.alignment,
        "least_cka": min((b.cka for b in last.blocks if b.cka is not None), default=None),
        "spectral": pair.reading.statistic,
        "layer": pair.reading.layer,
        "inspect_reads": pair.reading.regime,
        "largest": {layer.name: layer.spectral for layer in moved[:3]},
        "layers": {state: sum(v.state == state for v in pair.layers) for state in {v.state for v in pair.layers}},
        "watching": seen.seconds,
        "share": seen.share,
        "skipped": len(seen.skipped),
        "remarks": list(seen.remarks),
    }


def table(document: dict[str, Any]) -> str:
    """Markdown of a document."""
    heads = ["network", "step size", "watch reads", "inspect reads", "off linear", "largest change of a matrix"]
    heads += ["test accuracy", "outputs moved", "kernel drift", "alignment", "least CKA"]
    lines = [heads, ["---"] * len(heads)]
    for name, runs in document["networks"].items():
        for r in runs:
            accuracy, alignment = (f"{_of(r[f'{k}_before'])} → {_of(r[k])}" for k in ("accuracy", "alignment"))
            reads = r["watch_reads"], r["inspect_reads"], _of(r["off_linear"]), _of(r["spectral"])
            others = accuracy, _of(r["outputs_moved"]), _of(r["kernel_drift"]), alignment, _of(r["least_cka"])
            lines.append([name, f"{r['rate']:g}", *reads, *others])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _of(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def filled(page: str, document: dict[str, Any]) -> str:
    """A page with the table of a document between its marks."""
    return BLOCK.sub(lambda found: found[1] + table(document) + found[2], page)


def main() -> None:
    """Measure and write, or write the page from what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="networks whose name holds this; others stay in the file")
    parser.add_argument("--out", type=Path, default=Path("evidence/benchmarks/other_models.json"))
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    if given.page:
        document = json.loads(given.out.read_text())
        given.page.write_text(filled(given.page.read_text(encoding="utf-8"), document), encoding="utf-8")
        return
    torch.set_num_threads(given.threads)
    networks = json.loads(given.out.read_text())["networks"] if given.only and given.out.exists() else {}
    for name, job in JOBS.items():
        if given.only in name:
            *parts, rate = job()
            networks[name] = [measured(*parts, r) for r in (rate, SMALL * rate)]
            print(name, json.dumps(networks[name], indent=1), flush=True)
    ordered = {name: networks[name] for name in JOBS if name in networks}
    document = {"benchmark": "other_models", "machine": machine("cpu"), "networks": ordered}
    write_whole(given.out, json.dumps(document, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
