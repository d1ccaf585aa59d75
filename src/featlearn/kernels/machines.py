"""Ridge regression and support vector machines on Gram matrices, and the choice of kernel and penalty by validation.

A Gram matrix may come from anywhere: `gram`, `empirical_ntk`, `conv_ntk`, a file. Both learners minimise a loss summed
over the samples plus penalty ||f||^2 over the space of the kernel, so that one grid of penalties serves both.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from featlearn.core import SettingError
from featlearn.core.check import check_number, checked
from featlearn.kernels.ridge import Kernel, _called, _check_penalties, _check_symmetric, _rows_per_block, _solve

Labels = Float[Tensor, " k"] | Float[Tensor, "k o"] | Int[Tensor, " k"]
LEARNERS = ("ridge", "svm")


@dataclass(frozen=True)
class GramPredictor:
    """k -> k @ coefficients + intercept, k (n, c) the kernel between new points and centres: scores (n, o)."""

    coefficients: Float[Tensor, "c o"]
    intercept: Float[Tensor, " o"]

    @checked(empty=("k",), moves=True)
    def __call__(self, k: Float[Tensor, "n c"], /) -> Float[Tensor, "n o"]:
        return k.to(self.coefficients) @ self.coefficients + self.intercept


@dataclass(frozen=True)
class KernelMachine:
    """x -> scores(kernel(x, centres)), in blocks of rows: a Predictor with scores (n, o); x of any shape (n, ...)."""

    kernel: Kernel
    centres: Shaped[Tensor, "c *rest"]
    scores: GramPredictor
    memory_mib: float = 256.0

    @checked(empty=("x",), moves=True)
    def __call__(self, x: Shaped[Tensor, "n *rest"], /) -> Float[Tensor, "n o"]:
        return self.scores(_gram(self.kernel, x, self.centres, self.memory_mib))


@dataclass(frozen=True)
class Tuned:
    """What validation chose. errors: of every kernel and penalty; edge: the best penalty is the first or last of the
    grid, or its kernel the first or last of several; tied: all of the grid are equally good.
    """

    kernel: Hashable
    penalty: float
    error: float
    errors: Mapping[tuple[Hashable, float], float]
    edge: bool
    tied: bool
    scores: GramPredictor


def _gram(kernel: Kernel, x: Tensor, y: Tensor, memory_mib: float) -> Tensor:
    rows = _rows_per_block(len(y), memory_mib)
    blocks = [_called(kernel, part, y) for part in x.split(rows) if len(part)]
    return torch.cat(blocks) if blocks else torch.zeros(0, len(y), dtype=torch.float64, device=y.device)


def _square(k: Tensor, y: Tensor) -> Tensor:
    """k in float64. Errors: SettingError for one that is no Gram matrix of the samples of y."""
    if k.shape != (len(y), len(y)):
        allowed = f"({len(y)}, {len(y)}), the kernel between all samples of y"
        raise SettingError("k", f"a tensor of shape {tuple(k.shape)}", allowed, "pass matching samples")
    _check_symmetric(k)
    return k.double()


def _alike(name: str, x: Tensor, y: Tensor) -> None:
    """Errors: SettingError where x and the validation samples of that name are of two kinds of numbers."""
    if x.is_floating_point() != y.is_floating_point():
        odd, kind = (name, x.dtype) if not x.is_floating_point() else (f"{name}_validation", y.dtype)
        raise SettingError(odd, f"a tensor of {kind}", "the kind of the other samples", "convert one of them")


def _scores_wanted(y: Tensor, name: str = "y", classes: int | None = None) -> Tensor:
    """Targets (k, o): labels 0, 1, ... become one column a class."""
    if y.is_floating_point():
        return (y[:, None] if y.ndim == 1 else y).double()
    if int(y.min()) < 0 or (classes is not None and int(y.max()) >= classes):
        last = "..." if classes is None else classes - 1
        raise SettingError(name, f"labels from {int(y.min())} to {int(y.max())}", f"0 to {last}", "number the classes")
    return torch.nn.functional.one_hot(y.long(), classes or int(y.max()) + 1).double()


@checked(mixed=("k", "y"))
def gram_ridge(k: Float[Tensor, "k k"], y: Labels, *, penalty: float) -> GramPredictor:
    """Minimise sum_s (f(x_s) - y_s)^2 + penalty ||f||^2, given the Gram matrix k of the samples.

    y: targets (k) or (k, o), or class labels 0, 1, ..., which become targets 0 and 1 of one column a class.
    Errors: SettingError for a matrix that is not symmetric, of another size, indefinite or singular; NotFiniteInput.

    Example:
        >>> f = gram_ridge(torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([2.0, 8.0]), penalty=1.0)
        >>> [round(s, 9) for s in f(torch.eye(2)).flatten().tolist()]
        [1.0, 2.0]
    """
    _check_penalties([penalty])
    k = _square(k, y)
    coefficients = _solve(k, _scores_wanted(y), penalty, "k")
    return GramPredictor(coefficients, coefficients.new_zeros(coefficients.shape[1]))


@checked(mixed=("k", "y"))
def gram_svm(k: Float[Tensor, "k k"], y: Float[Tensor, " k"] | Int[Tensor, " k"], *, penalty: float) -> GramPredictor:
    """Minimise sum_s max(0, 1 - y_s (f(x_s) + b)) + penalty ||f||^2 by scikit-learn, given the Gram matrix k.

    y: -1 and +1 (one score), or class labels 0, 1, ... (one score a class, each class against the rest). The constant
    C of the field is 1 / (2 penalty).
    Errors: SettingError for a penalty that is not above 0, other labels, a class alone; as `gram_ridge` for k.

    Example:
        >>> x = torch.tensor([[1.0], [3.0], [-1.0]])
        >>> f = gram_svm(x @ x.T, torch.tensor([1.0, 1.0, -1.0]), penalty=1e-3)
        >>> [round(s, 3) for s in f(torch.tensor([[2.0]]) @ x.T).flatten().tolist()]
        [2.0]
    """
    from sklearn.svm import SVC  # only here: importing it takes a second

    check_number(penalty, "penalty", "a finite number above 0", "1 / (2 C)", above=True)
    k = _square(k, y)
    signs = y[:, None].double() if y.is_floating_point() else 2 * _scores_wanted(y) - 1
    if not bool((signs.abs() == 1).all()):
        odd = float(y[y.abs() != 1][0])
        raise SettingError("y", f"{odd:g}", "-1 or +1, or whole class labels from 0", "code the classes")
    coefficients, intercept = torch.zeros_like(signs), torch.zeros_like(signs[0])
    matrix = k.cpu().numpy()
    for i, column in enumerate(signs.T.cpu()):
        if bool((column == column[0]).all()):
            what = "one class alone" if y.is_floating_point() else f"labels of which class {i} has none or all"
            raise SettingError("y", what, "samples of each class", "leave the class out, or add samples of it")
        found = SVC(C=1 / (2 * penalty), kernel="precomputed", tol=1e-6).fit(matrix, column.numpy())
        coefficients[torch.as_tensor(found.support_).long(), i] = torch.as_tensor(found.dual_coef_[0]).to(signs)
        intercept[i] = float(found.intercept_[0])
    return GramPredictor(coefficients.to(k.device), intercept.to(k.device))


@checked(mixed=("x", "y"))
def kernel_svm(
    kernel: Kernel,
    x: Shaped[Tensor, "k *rest"],
    y: Float[Tensor, " k"] | Int[Tensor, " k"],
    *,
    penalty: float,
    memory_mib: float = 256.0,
) -> KernelMachine:
    """`gram_svm` on the Gram matrix of a kernel; a predictor on new points.

    Errors: as `gram_svm`, and what `gram` refuses of a kernel.
    """
    return KernelMachine(kernel, x, gram_svm(_gram(kernel, x, x, memory_mib), y, penalty=penalty), memory_mib)


@checked(mixed=("y", "y_validation"))
def tuned_gram(
    grams: Mapping[Hashable, tuple[Tensor, Tensor]],
    y: Labels,
    y_validation: Float[Tensor, " v"] | Float[Tensor, "v o"] | Int[Tensor, " v"],
    *,
    penalties: Sequence[float],
    learner: str = "ridge",
) -> Tuned:
    """The kernel and penalty with the smallest error on validation samples.

    grams: by name, the Gram matrix (k, k) of the training samples and (v, k) of validation with training samples; names
    such as bandwidths, in their order. The error is the share of wrong labels for class labels and for every SVM, and
    the mean square for other targets. Where several penalties of the best kernel are equally good, the middle one.
    What is at the edge of the grid, and a grid whose points are all equally good, is said: widen it, or doubt it.

    Errors: SettingError for an empty grid, another learner, shapes that do not fit; as `gram_ridge` and `gram_svm`.
    """
    if learner not in LEARNERS:
        raise SettingError("learner", repr(learner), f"one of {LEARNERS}", "ridge takes real targets too")
    if not grams or not penalties:
        empty = "grams" if not grams else "penalties"
        raise SettingError(empty, "empty", "at least one", "e.g. penalties [1e-3, 1e-2, 1e-1]")
    _alike("y", y, y_validation)
    _check_penalties(penalties)
    penalties = sorted(penalties)
    fit = gram_ridge if learner == "ridge" else gram_svm
    errors: dict[tuple[Hashable, float], float] = {}
    made: list[tuple[float, Hashable, float, GramPredictor]] = []
    for name, (k, new) in grams.items():
        if new.shape != (len(y_validation), len(y)):
            allowed = f"({len(y_validation)}, {len(y)}), validation with training samples"
            raise SettingError(f"grams[{name!r}]", f"a tensor of shape {tuple(new.shape)}", allowed, "match them")
        fits = [fit(k, y, penalty=penalty) for penalty in penalties]
        found = [_error(f(new), y_validation, y, learner) for f in fits]
        errors |= {(name, p): e for p, e in zip(penalties, found, strict=True)}
        equal = [i for i, e in enumerate(found) if e == min(found)]
        at = equal[len(equal) // 2]
        made.append((found[at], name, penalties[at], fits[at]))
    error, name, penalty, scores = min(made, key=lambda one: one[0])
    names = list(grams)
    at_end = len(names) > 1 and name in (names[0], names[-1])
    edge = (len(penalties) > 1 and penalty in (penalties[0], penalties[-1])) or at_end
    return Tuned(name, penalty, error, errors, edge, len(set(errors.values())) == 1 < len(errors), scores)


def _error(scores: Tensor, wanted: Tensor, y: Tensor, learner: str) -> float:
    if not y.is_floating_point():
        _scores_wanted(wanted, "y_validation", scores.shape[1])
        return float((scores.argmax(1) != wanted.to(scores.device)).double().mean())
    if learner == "svm":
        return float((scores[:, 0] * wanted.to(scores) <= 0).double().mean())
    return float((scores - _scores_wanted(wanted).to(scores)).square().mean())


@checked(mixed=("x", "y", "x_validation", "y_validation"))
def tuned(
    kernels: Mapping[Hashable, Kernel],
    x: Shaped[Tensor, "k *rest"],
    y: Labels,
    x_validation: Shaped[Tensor, "v *rest"],
    y_validation: Float[Tensor, " v"] | Float[Tensor, "v o"] | Int[Tensor, " v"],
    *,
    penalties: Sequence[float],
    learner: str = "ridge",
    memory_mib: float = 256.0,
) -> tuple[KernelMachine, Tuned]:
    """`tuned_gram` with the Gram matrices of kernels, and a predictor on new points.

    Example:
        >>> from functools import partial
        >>> from featlearn.kernels import rbf
        >>> x = torch.linspace(-3, 3, 60)[:, None].double()
        >>> kernels = {b: partial(rbf, bandwidth=b) for b in (0.01, 0.1, 1.0, 10.0)}
        >>> f, said = tuned(kernels, x[::2], x[::2, 0].sin(), x[1::2], x[1::2, 0].sin(), penalties=[1e-6, 1e-3, 1.0])
        >>> said.kernel, said.edge, said.error < 1e-4
        (1.0, True, True)
    """
    _alike("x", x, x_validation)
    made = {
        name: (_gram(kernel, x, x, memory_mib), _gram(kernel, x_validation, x, memory_mib))
        for name, kernel in kernels.items()
    }
    found = tuned_gram(made, y, y_validation, penalties=penalties, learner=learner)
    return KernelMachine(kernels[found.kernel], x, found.scores, memory_mib), found
