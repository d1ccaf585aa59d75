"""One-line callbacks for the loops of transformers and Lightning; each package is loaded when its callback is made."""

import importlib
from typing import Any, Protocol, runtime_checkable

from featlearn.errors import DataUnavailable

NEEDED = "this callback needs a package that is not installed,"


@runtime_checkable
class Entered(Protocol):
    """A scope."""

    state: str

    def __enter__(self) -> Any: ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...
    def step(self) -> None: ...


class _Turns:
    """Enters a scope when training begins, unless the user has, and leaves it if it has entered it."""

    def __init__(self, scope: Entered) -> None:
        self.scope, self.own = scope, False

    def begin(self) -> None:
        if self.scope.state != "entered":
            self.scope.__enter__()
            self.own = True

    def end(self, error: BaseException | None = None) -> None:
        if self.own:
            self.scope.__exit__(None if error is None else type(error), error, None)


def of_transformers(scope: Entered) -> Any:
    """A TrainerCallback. Gradients are still there at `on_optimizer_step`, the event after the optimiser's step."""
    base = _trainer_callback()
    turns = _Turns(scope)

    class Watching(base):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            turns.begin()

        def on_optimizer_step(self, *_: Any, **__: Any) -> None:
            scope.step()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            turns.end()

    return Watching()


def of_lightning(scope: Entered) -> Any:
    """A Callback of `lightning`, or of `pytorch_lightning`. A batch that only adds to gradients makes no step."""
    base = _lightning_callback()
    turns = _Turns(scope)

    class Watching(base):
        def __init__(self) -> None:
            super().__init__()
            self.done = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.done = trainer.global_step
            turns.begin()

        def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
            if trainer.global_step != self.done:
                self.done = trainer.global_step
                scope.step()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            turns.end()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            turns.end(exception)

    return Watching()


def _trainer_callback() -> Any:
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise DataUnavailable(f"{NEEDED} transformers: pip install 'featlearn[llm]'") from None
    return TrainerCallback


def _lightning_callback() -> Any:
    for load in (_new_lightning, _old_lightning):
        try:
            return load().Callback
        except ImportError:
            continue
    raise DataUnavailable(f"{NEEDED} lightning: pip install lightning")


def _new_lightning() -> Any:
    return importlib.import_module("lightning.pytorch")


def _old_lightning() -> Any:
    return importlib.import_module("pytorch_lightning")
