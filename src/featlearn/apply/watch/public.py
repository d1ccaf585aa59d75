"""`featlearn.watch` and `featlearn.coordinate_check`."""

from collections.abc import Container, Sequence
from typing import Any

from torch import Tensor, nn

from featlearn.apply.watch.probe import check_model, probe_of
from featlearn.apply.watch.records import Watched as Watched
from featlearn.apply.watch.scope import Doubling, Log
from featlearn.apply.watch.scope import Scope as Scope
from featlearn.apply.watch.widths import CoordinateCheck as CoordinateCheck
from featlearn.apply.watch.widths import coordinate_check as coordinate_check
from featlearn.core import Key, SettingError
from featlearn.core.check import check_finite

__all__ = ["CoordinateCheck", "Scope", "Watched", "coordinate_check", "watch"]

DOUBLING = Doubling()


def watch(
    model: nn.Module,
    x: Any,
    y: Tensor | None = None,
    *,
    layers: Sequence[str] = (),
    steps: Container[int] = DOUBLING,
    share: float = 0.05,
    log: Log | None = None,
    key: Key | None = None,
) -> Scope:
    """What a network learns while your loop trains it: tangent kernel, features, weights, and whether it is lazy.

        with featlearn.watch(model, x, y) as scope:
            for batch in loader:
                ...                  # your step, as it is
                optimizer.step()
                scope.step()
        print(scope.result)

    x: what the model takes, one row an input: a tensor, a tuple of them, or a mapping as tokenizers give; 64 rows of
    it are looked at. y: their labels or targets, for the alignment of the tangent kernel. layers: modules by name; by
    default the model's children. steps: where a snapshot is due, anything that answers `step in steps`; by default 1,
    2, 4, 8 and so on. The first is taken on entering, the last on leaving, and others while watching takes less than
    `share` of the time of the rest; what was skipped is told. log: called as log(name, value, step), which is what
    TensorBoard's `writer.add_scalar` and `mlflow.log_metric` take.

    A snapshot is of a copy without hooks, in evaluation mode: the model, its modes, hooks and gradients and all random
    generators stay as they are. The start takes the memory of one model, a snapshot of about four more and of the
    activations of eight inputs. What fails after the first snapshot is told in the result and never ends the training.

    Source: drift and alignment of tangent kernels as in Fort et al. 2020 and Atanasov, Bordelon and Pehlevan 2022;
    lazy training as in Chizat, Oyallon and Bach 2019, by the linearisation in the weights that training reached, not
    by a linearised network that was trained; gradient outer products as in Radhakrishnan et al. 2024; CKA as in
    `featlearn.measure.linear_cka`.
    Errors: SettingError for inputs that are none, a share outside of (0, 1), names that are not there, and models
    without trained weights, that cannot be copied, that are random in evaluation mode, or whose outputs are not finite.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
        >>> x = Key("demo").numpy().normal(size=(16, 2))
        >>> with watch(net, Tensor(x)) as scope:
        ...     for weight in net.parameters():
        ...         weight.data = weight.data / 2
        ...     scope.step()
        >>> [snapshot.step for snapshot in scope.result.snapshots]
        [0, 1]
    """
    check_model(model)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise SettingError("share", share, "above 0 and below 1", "0.05 is the default")
    if not hasattr(steps, "__contains__"):
        raise SettingError("steps", f"a {type(steps).__name__}", "a range, set or tuple of steps", "range(0, 999, 9)")
    if log is not None and not callable(log):
        raise SettingError("log", f"a {type(log).__name__}", "a function of (name, value, step)", "writer.add_scalar")
    if isinstance(layers, str):
        raise SettingError("layers", repr(layers), "a sequence of names", f"({layers!r},) has one")
    key = key or Key("watch")
    probe = probe_of(x, key)
    labels = None if y is None else _labels(y, probe.total)[probe.rows]
    if labels is not None and bool((labels == labels[0]).all()):
        raise SettingError("y", "of one value in the probe", "two or more", "give inputs of several labels")
    return Scope(model, probe, labels, tuple(layers), steps, float(share), log, key)


def _labels(y: object, total: int) -> Tensor:
    """(n, c) in float64: classes as one column each, targets as they are."""
    if not isinstance(y, Tensor) or y.ndim not in (1, 2) or len(y) != total:
        says = f"a tensor of shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise SettingError("y", says, f"({total},) labels or ({total}, c) targets", "give one row an input")
    y = y.detach().cpu()
    if y.is_floating_point():
        check_finite(y, "y")
        return y.double().reshape(total, -1)
    if y.ndim == 2:
        raise SettingError("y", f"a tensor {tuple(y.shape)} of {y.dtype}", "one class an input", "or .float() targets")
    return nn.functional.one_hot(y.long().unique(return_inverse=True)[1]).double()
