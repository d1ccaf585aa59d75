"""What public functions refuse before any work: shapes, precisions, devices, labels, and values that are not finite.

The annotations of tensors say what a function takes. The hooks of jaxtyping read them under test; `checked` reads the
same ones at every call, so that a notebook is told what a test would be told, with the argument's name in one line. It
looks at what comes in once, at the public entry, and never at what loops inside do. A device is asked once a call,
however many tensors there are.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

import torch
from torch import Tensor

from featlearn.errors import NotFiniteInput, SettingError

P = ParamSpec("P")
R = TypeVar("R")
Sizes = dict[str, tuple[Any, str]]
"""Size of each axis by its name, and the argument that it was first seen in."""


def checked(
    *,
    signs: Sequence[str] = (),
    empty: Sequence[str] = (),
    loose: Sequence[str] = (),
    mixed: Sequence[str] = (),
    sizes: Sequence[str] = (),
    moves: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Refuse arguments that are not what the annotations of a function say, each by name.

    Tensors: kind of numbers, number of axes, axes of one name equal in all arguments, in the tensor fields of dataclass
    arguments such as networks, and in those of `self`; one device and one precision for all of them; at least one
    entry; finite. Floats: not nan. A whole number called n, of samples: at least 1.
    signs: arguments whose entries must be -1 or +1 (unless the call says loss="squared").
    empty: arguments that may have no entry. loose: arguments that may hold what is not finite.
    mixed: arguments of any precision, such as factors that torch widens.
    moves: the function brings its tensors to one device and precision itself.
    sizes: whole numbers of `self` that are the axes of these names.

    Errors: SettingError; NotFiniteInput for nan and infinity.

    Example:
        >>> from jaxtyping import Float
        >>> @checked()
        ... def product(w: Float[Tensor, "m d"], x: Float[Tensor, " d"]) -> Tensor:
        ...     return w @ x
        >>> product(torch.ones(2, 3), torch.ones(4))
        Traceback (most recent call last):
        featlearn.errors.SettingError: x = a tensor of shape (4,) is not allowed: (d) with d = 3 as in w; match them
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = tuple(inspect.signature(function).parameters.values())
        wanted = tuple((i, p.name, _wanted(p.annotation)) for i, p in enumerate(parameters))
        loss = next((p.default for p in parameters if p.name == "loss"), "")
        rules = _Rules(frozenset(signs), frozenset(empty), frozenset(loose), frozenset(mixed), tuple(sizes), moves)

        @functools.wraps(function)
        def entry(*args: P.args, **kwargs: P.kwargs) -> R:
            seen = _Seen(rules, loss)
            for i, name, want in wanted:
                if i < len(args):
                    seen.take(name, args[i], want)
                elif name in kwargs:
                    seen.take(name, kwargs[name], want)
            seen.refuse_values()
            return function(*args, **kwargs)

        return entry

    return decorate


def check_fields(value: Any, moves: bool = False) -> None:
    """Refuse a dataclass whose tensors are not what its fields say, for `__post_init__`, values apart.

    moves: they may differ in device and precision.
    """
    seen = _Seen(_MOVED if moves else _STRICT)
    for name, want in _fields(type(value)):
        seen.take(name, getattr(value, name), want, own="self")


def check_finite(x: Tensor, name: str = "x") -> None:
    """NotFiniteInput for nan and infinite values in x (n, ...), with how many there are and which is the first."""
    if _is_finite(x):
        return
    bad = (~torch.isfinite(x)).nonzero()
    first = tuple(bad[0].tolist())
    where = f"{name}[{', '.join(map(str, first))}] = {float(x[first]):g}"
    says = f"{len(bad)} of {x.numel()} values not finite, the first {where},"
    raise NotFiniteInput(name, says, "finite values", "remove or impute them")


def check_signs(y: Tensor, name: str = "y", loss: str = "") -> None:
    """SettingError for labels other than -1 and +1. loss: the one that asks for them, for the message."""
    if not bool((y.abs() == 1).all()):
        value = float(y[y.abs() != 1].flatten()[0])
        allowed = f"-1 or +1 for the {loss} loss" if loss else "-1 or +1"
        raise SettingError(name, f"{value:g}", allowed, "code the classes as -1 and +1")


def check_number(value: float, name: str, allowed: str, remedy: str, *, low: float = 0.0, above: bool = False) -> None:
    """SettingError for a number that is nan, infinite or below `low` (above: or equal to it)."""
    if not (low < value < float("inf") if above else low <= value < float("inf")):
        raise SettingError(name, value, allowed, remedy)


# what an annotation asks for ------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Form:
    """A tensor that an annotation allows. kind: of numbers, "" for any; axes: their names as written, "" one of any."""

    kind: str
    axes: tuple[str, ...]
    rest: int | None
    """Where among the axes a name stands for any number of them."""

    def says(self) -> str:
        """The shape as in a docstring."""
        return f"({', '.join(a.lstrip('*#') for a in self.axes)})"


@dataclasses.dataclass(frozen=True)
class _Want:
    """forms: tensors that are allowed; others: whether other things are; number: whether one of them is a float."""

    forms: tuple[_Form, ...]
    others: bool
    none: bool
    number: bool


@functools.cache
def _wanted(annotation: Any) -> _Want:
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    forms = tuple(form for part in parts if (form := _form(part)) is not None)
    others = [part for part in parts if _form(part) is None and part not in (NoneType, float, int)]
    return _Want(forms, bool(others), NoneType in parts, float in parts)


def _form(part: Any) -> _Form | None:
    if part is Tensor:
        return _Form("", ("...",), 0)
    array = getattr(part, "array_type", None)  # an annotation of jaxtyping, its hooks switched on or off
    if not (inspect.isclass(array) and issubclass(array, Tensor)):
        return None
    names = part.dtypes if isinstance(part.dtypes, tuple) else ()
    kind = next((k for k, one in _KINDS.items() if one in names), "")
    axes = tuple(part.dim_str.split())
    rest = next((i for i, axis in enumerate(axes) if axis.lstrip("#").startswith(("*", "..."))), None)
    return _Form(kind, axes, rest)


_KINDS = {"floating point": "float32", "whole": "int64", "true or false": "bool"}
"""What the numbers of an annotation are called, and a type that only this kind has."""


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, _Want], ...]:
    """Tensor fields of a dataclass; none of another class."""
    if not dataclasses.is_dataclass(kind):
        return ()
    found = ((f.name, _wanted(f.type)) for f in dataclasses.fields(kind) if not isinstance(f.type, str))
    return tuple((name, want) for name, want in found if want.forms)


# what came in ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Rules:
    signs: frozenset[str] = frozenset()
    empty: frozenset[str] = frozenset()
    loose: frozenset[str] = frozenset()
    mixed: frozenset[str] = frozenset()
    sizes: tuple[str, ...] = ()
    moves: bool = False


_STRICT, _MOVED = _Rules(), _Rules(moves=True)


class _Seen:
    """The arguments of one call so far."""

    def __init__(self, rules: _Rules, loss: Any = "") -> None:
        self.rules, self.loss = rules, loss
        self.sizes: Sizes = {}
        self.first: tuple[str, Tensor] | None = None
        self.precision: tuple[str, Tensor] | None = None
        self.values: list[tuple[str, Tensor]] = []
        self.signs: list[tuple[str, Tensor]] = []

    def take(self, name: str, value: Any, want: _Want, own: str = "") -> None:
        """Refuse one argument that does not fit those before it."""
        if isinstance(value, Tensor):
            if want.forms:
                self.tensor(name, value, want, own)
        elif want.number and isinstance(value, float | int):
            if value != value:
                raise SettingError(name, value, "a number", "leave nan out")
        elif want.forms and not want.others and not (value is None and want.none):
            raise SettingError(name, f"a {type(value).__name__}", "a torch tensor", "torch.as_tensor makes one")
        elif name == "n" and isinstance(value, int) and value < 1:
            raise SettingError(name, value, "at least 1", "it is a number of samples")
        elif name == "loss":
            self.loss = value
        elif value is not None and not isinstance(value, type):
            self.inside(name, value)

    def inside(self, name: str, value: Any) -> None:
        """The tensor fields of a dataclass; the values of those of `self` are its own business."""
        prefix = "" if name == "self" else f"{name}."
        if name == "self":
            for size in self.rules.sizes:
                self.sizes.setdefault(size, (getattr(value, size), size))
        for field, want in _fields(type(value)):
            inner = getattr(value, field)
            if isinstance(inner, Tensor):
                self.tensor(prefix + field, inner, want, name)

    def tensor(self, name: str, x: Tensor, want: _Want, own: str = "") -> None:
        """Refuse a tensor of another kind, shape, device or precision."""
        form = _chosen(name, x, want)
        _agree(name, x, form, self.sizes)
        rules = self.rules
        argument = own or name
        if not x.numel() and argument not in rules.empty and argument != "self":
            allowed = f"{form.says()} with at least one of each"
            raise SettingError(name, _shape(x), allowed, "nothing can be said of no values")
        if not rules.moves:
            self.first = self.first or (name, x)
            if x.device != self.first[1].device:
                allowed = f"on {self.first[1].device} as {self.first[0]}"
                raise SettingError(name, f"a tensor on {x.device}", allowed, "move one of them with .to(device)")
        if not x.is_floating_point():
            return
        if not rules.moves and argument not in rules.mixed:
            self.precision = self.precision or (name, x)
            if x.dtype != self.precision[1].dtype:
                allowed = f"{self.precision[1].dtype} as {self.precision[0]}"
                raise SettingError(name, f"a tensor of {x.dtype}", allowed, "convert one of them with .to(dtype)")
        if argument not in rules.loose and argument != "self":
            self.values.append((name, x))
        if name in rules.signs:
            self.signs.append((name, x))

    def refuse_values(self) -> None:
        """Refuse what is not finite, and labels that are no signs: one question to the device, details only then."""
        signs = () if self.loss == "squared" else self.signs
        if not self.values and not signs:
            return
        with torch.no_grad():
            sums = [_total(x) for _, x in self.values]
            if len({total.device for total in sums}) <= 1:
                fine = torch.isfinite(functools.reduce(torch.add, sums)) if sums else torch.tensor(True)
                for _, y in signs:
                    fine = fine & (y.abs() == 1).all()
                if bool(fine):
                    return
            for name, x in self.values:
                check_finite(x, name)
            for name, y in signs:
                check_signs(y, name, str(self.loss))


def _total(x: Tensor) -> Tensor:
    """A number that is finite only if all of x are: one pass, and no memory of the size of x."""
    return x.detach().sum(dtype=None if x.dtype in (torch.float32, torch.float64) else torch.float32)


def _is_finite(x: Tensor) -> bool:
    """A sum is finite only if all its terms are; one that overflowed needs the full check."""
    if not x.is_floating_point():
        return True
    return bool(torch.isfinite(_total(x))) or bool(torch.isfinite(x).all())


def _shape(x: Tensor) -> str:
    return f"a tensor of shape {tuple(x.shape)}"


def _chosen(name: str, x: Tensor, want: _Want) -> _Form:
    """The form that a tensor may have by its kind and number of axes."""
    kinds = [f for f in want.forms if not f.kind or _is(x, f.kind)]
    if not kinds:
        allowed = " or ".join(dict.fromkeys(f.kind for f in want.forms)) + " numbers"
        remedy = "convert it with .float()" if want.forms[0].kind == "floating point" else "convert it with .long()"
        raise SettingError(name, f"a tensor of {x.dtype}", allowed, remedy)
    for form in kinds:
        if x.ndim == len(form.axes) if form.rest is None else x.ndim >= len(form.axes) - 1:
            return form
    allowed = " or ".join(dict.fromkeys(f.says() for f in kinds))
    least = min(len(f.axes) for f in kinds)
    remedy = f"{name}[None] has an axis more" if x.ndim < least else f"flatten or select axes of {name}"
    raise SettingError(name, _shape(x), allowed, remedy)


def _is(x: Tensor, kind: str) -> bool:
    if kind == "floating point":
        return x.is_floating_point()
    return x.dtype == torch.bool if kind == "true or false" else not (x.is_floating_point() or x.dtype == torch.bool)


def _agree(name: str, x: Tensor, form: _Form, sizes: Sizes) -> None:
    """Refuse axes of another size than those of the same name before."""
    shape, axes = tuple(x.shape), form.axes
    if form.rest is not None:
        tail = len(axes) - 1 - form.rest
        rest = shape[form.rest : len(shape) - tail]
        shape = (*shape[: form.rest], rest, *shape[len(shape) - tail :])
    for axis, size in zip(axes, shape, strict=True):
        free, plain = "#" in axis, axis.lstrip("*#")
        if plain in ("...", "_", "") or (free and size == 1):  # repeated as often as the others need
            continue
        found, owner = (int(plain), "") if plain.isdigit() else sizes.setdefault(plain, (size, name))
        if found != size and not (free and isinstance(size, tuple)):
            number = " x ".join(map(str, found)) or "none" if isinstance(found, tuple) else found
            number = f"1 or {number}" if free else number
            allowed = form.says() if plain.isdigit() else f"{form.says()} with {plain} = {number} as in {owner}"
            raise SettingError(name, _shape(x), allowed, "match them")
