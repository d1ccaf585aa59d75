"""What users have and tests have not: no checks of annotations, and errors that are one line before any work."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jaxtyping
import pytest

from featlearn.core import SettingError


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Annotated shapes and types are not checked meanwhile, as in an installed package."""
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@contextlib.contextmanager
def unread(model: Any) -> Iterator[None]:
    """The first layer of a decoder must not run meanwhile."""

    def fail(*_: Any) -> None:
        raise AssertionError("the model ran")

    handle = model.model.layers[0].register_forward_pre_hook(fail)
    try:
        yield
    finally:
        handle.remove()


def refusal(call: Callable[[], Any]) -> str:
    """What a call is refused with: one short line."""
    with pytest.raises(SettingError) as caught:
        call()
    told = str(caught.value)
    assert "\n" not in told
    assert len(told) < 400
    return told
