"""The nouns every room shares: Truth, Batch, Task, Predictor."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Shaped
from torch import Tensor

from featlearn.core.check import check_fields
from featlearn.core.key import Key


@dataclass(frozen=True)
class Truth:
    """What labels really depend on.

    features: unit vectors (r, d), the directions that a learner should find.
    Errors: `SettingError` for tensors of another shape or kind than the fields say; so are those of `Batch`.
    """

    features: Float[Tensor, "r d"]

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Batch:
    """Samples of a task.

    x: inputs (n, ...): vectors, images, index tuples or prompts.
    y: labels (n) in {-1, +1}, class indices, or real targets of a regression.
    hidden: the latent variables behind x (n, ...), or None.
    group: an integer per sample naming its component or domain (n), or None.
    """

    x: Shaped[Tensor, "n ..."]
    y: Shaped[Tensor, " n"]
    hidden: Shaped[Tensor, "n ..."] | None = None
    group: Shaped[Tensor, " n"] | None = None

    def __post_init__(self) -> None:
        check_fields(self, moves=True)


@dataclass(frozen=True)
class VectorBatch(Batch):
    """Samples whose targets are vectors: y (n, o)."""

    y: Shaped[Tensor, "n o"]


T = TypeVar("T", bound=Truth)


@runtime_checkable
class Task(Protocol[T]):
    """A family of learning problems with known truth; a frozen dataclass whose fields are its settings."""

    def draw(self, key: Key) -> T:
        """One member of the family."""
        ...

    def sample(self, truth: T, n: int, key: Key) -> Batch:
        """n independent labelled samples of that member."""
        ...


@runtime_checkable
class Predictor(Protocol):
    """x (n, ...) -> scores (n, o): networks, kernels and closed forms alike."""

    def __call__(self, x: Any, /) -> Tensor: ...
