"""Callbacks: the loops of transformers and Lightning watch by one line, and end with the same weights."""

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from featlearn.apply.watch.public import Scope, watch
from featlearn.core import Key
from featlearn.errors import DataUnavailable


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=3
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return BertForSequenceClassification(config)


def encoded(n: int = 24) -> dict[str, Tensor]:
    generator = Key("tests/callbacks").torch()
    ids = torch.randint(3, 30, (n, 7), generator=generator)
    mask = (torch.arange(7) < torch.randint(3, 8, (n, 1), generator=generator)).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def fitted(folder: Path, scope: Scope | None, model: nn.Module) -> dict[str, Tensor]:
    from transformers import Trainer, TrainingArguments

    x, y = encoded(), torch.arange(24) % 3
    rows = [{**{k: v[i] for k, v in x.items()}, "labels": y[i]} for i in range(24)]
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=31,
        per_device_train_batch_size=6,
        learning_rate=1e-2,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
        logging_strategy="no",
    )
    callbacks = [scope.trainer_callback()] if scope is not None else []
    Trainer(model=model, args=arguments, train_dataset=rows, callbacks=callbacks).train()  # pyright: ignore
    return {k: v.clone() for k, v in model.state_dict().items()}


@pytest.mark.slow
def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    """Of a small BERT with dropout: every measure is there, and the weights end as without."""
    alone = fitted(tmp_path / "alone", None, bert())
    model = bert()
    scope = watch(model, encoded(), torch.arange(24) % 3, share=0.9)
    beside = fitted(tmp_path / "beside", scope, model)
    assert all(torch.equal(alone[name], beside[name]) for name in alone)
    found = scope.result
    last = found.snapshots[-1]
    same_for_all = "bert.embeddings.position_embeddings: it gives no tensor with one row an input"
    assert (found.steps, last.step, found.remarks) == (31, 31, (f"no features of {same_for_all}",))
    assert len(found.agreement.cosines) == 3
    assert None not in (last.moved, last.apart, last.kernel_drift, last.alignment)
    assert "bert.encoder.layer.0" in {b.name for b in last.blocks}
    assert sum(b.cka is None for b in last.blocks) == 1
    assert len(last.layers) > 5


class OldLightning(types.ModuleType):
    """Stands in for a package of this name."""

    class Callback:
        pass


class LoopOfLightning:
    """The events of its Trainer, in its order; two batches make one step."""

    def __init__(self, callback: Any, net: nn.Linear) -> None:
        self.global_step = 0
        callback.on_train_start(self, net)
        for batch in range(8):
            net.weight.grad = torch.ones_like(net.weight)
            if batch % 2:
                net.weight.data += 1
                self.global_step += 1
            callback.on_train_batch_end(self, net, None, None, batch)


@pytest.fixture
def only_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", OldLightning("pytorch_lightning"))


@pytest.mark.usefixtures("only_old")
def test_a_step_of_lightning_is_one_of_its_optimiser() -> None:
    net = nn.Linear(3, 1)
    scope = watch(net, torch.eye(4, 3))
    callback = scope.lightning_callback()
    loop = LoopOfLightning(callback, net)
    callback.on_train_end(loop, net)
    assert isinstance(callback, OldLightning.Callback)
    assert (scope.result.steps, scope.result.snapshots[-1].step, scope.state) == (4, 4, "left")
    assert scope.result.agreement.seen == 4


@pytest.mark.usefixtures("only_old")
def test_a_scope_that_the_user_entered_is_left_by_the_user() -> None:
    net = nn.Linear(3, 1)
    with watch(net, torch.eye(4, 3)) as scope:
        callback = scope.lightning_callback()
        callback.on_train_end(LoopOfLightning(callback, net), net)
        assert scope.state == "entered"
    assert scope.result.steps == 4


@pytest.mark.usefixtures("only_old")
def test_an_exception_in_lightning_leaves_the_scope() -> None:
    net = nn.Linear(3, 1)
    scope = watch(net, torch.eye(4, 3))
    callback = scope.lightning_callback()
    callback.on_exception(LoopOfLightning(callback, net), net, KeyboardInterrupt())
    assert scope.state == "left"
    assert "training ended with KeyboardInterrupt" in scope.result.remarks[0]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("pytorch_lightning") is None, reason="needs pytorch_lightning")
@pytest.mark.filterwarnings("ignore")
def test_lightning_itself(tmp_path: Path) -> None:
    """In another process, since it changes what warnings say and where signals go."""
    import subprocess

    done = subprocess.run([sys.executable, "-c", LIGHTNING], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-3:] == ["5", "5", "5"]


LIGHTNING = """
import torch, featlearn
from pytorch_lightning import LightningModule, Trainer
class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(3, 1)
    def forward(self, x):
        return self.body(x)
    def training_step(self, batch, i):
        return self(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
net, x = Net(), torch.randn(40, 3)
scope = featlearn.watch(net, x)
Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        accumulate_grad_batches=2, callbacks=[scope.lightning_callback()],
        ).fit(net, torch.utils.data.DataLoader(x, batch_size=4))
print(scope.result.steps, scope.result.snapshots[-1].step, scope.result.agreement.seen)
"""


@pytest.mark.parametrize("missing", ["transformers", "lightning"])
def test_a_package_that_is_missing_is_named_with_its_command(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("transformers", "lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, name, None)
    scope = watch(nn.Linear(3, 1), torch.eye(4, 3))
    make = scope.trainer_callback if missing == "transformers" else scope.lightning_callback
    with pytest.raises(DataUnavailable, match="pip install") as caught:
        make()
    assert missing in str(caught.value)
    assert "\n" not in str(caught.value)
