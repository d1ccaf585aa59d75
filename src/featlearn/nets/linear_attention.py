"""One layer of linear self-attention with key and query maps of limited width, and its optimum on linear regression."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from featlearn.core import Key, SettingError
from featlearn.core.check import checked


class LinearSelfAttention(nn.Module):
    """e layers f(E) = E + W_PV E (E^T W_KQ E) / rho with W_KQ = W_K^T W_Q; what is answered is f(E) in the last corner.

    Prompts: E = [[x_1 .. x_N, x_q], [y_1 .. y_N, 0]], a token a column; rho is their number of examples N.
    key W_K, query W_Q: (e, r, d + 1), so that W_KQ has rank r at most; value W_PV: (e, d + 1, d + 1). All of them are
    trained. The answer depends only on the last row of W_PV and the first d columns of W_KQ, Eq. (5.2).
    rank: r from 0, which answers 0, to d; none beyond: the answer reads d columns of W_KQ. scale: of random weights, a
    standard deviation over the square root of their width.

    Source: thesis Eq. (5.1), (5.2) and the paragraph on scale and rank (icl_scale.eq5_1, icl_scale.method_rank_scale).
    Differs: there W_K and W_Q have d columns, which does not fit the d + 1 rows of E; here they have d + 1.
    Errors: SettingError for d or e below 1, a rank outside 0..d, prompts of another width or without an example.

    Example:
        >>> net = LinearSelfAttention(3, rank=2, key=Key("demo"))
        >>> net(torch.ones(5, 4, 7)).shape
        torch.Size([1, 5])
    """

    def __init__(
        self,
        d: int,
        rank: int,
        key: Key,
        *,
        networks: int = 1,
        scale: float = 0.5,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if d < 1:
            raise SettingError("d", d, "at least 1", "it is the number of features of an example")
        if networks < 1:
            raise SettingError("networks", networks, "at least 1", "they are trained together")
        check_rank(rank, d)
        if not 0 <= scale < float("inf"):
            raise SettingError("scale", scale, "a finite number of at least 0", "0.5 is the default")
        self.d, self.rank = d, rank

        def made(name: str, *shape: int) -> nn.Parameter:
            drawn = torch.randn(networks, *shape, generator=(key / name).torch(), dtype=torch.float64)
            return nn.Parameter((scale * drawn / shape[-1] ** 0.5).to(dtype))

        self.key, self.query = made("key", rank, d + 1), made("query", rank, d + 1)
        self.value = made("value", d + 1, d + 1)

    @property
    def key_query(self) -> Float[Tensor, "e d1 d1"]:
        """W_KQ (e, d + 1, d + 1), of rank r at most."""
        return self.key.mT @ self.query

    @property
    def matrix(self) -> Float[Tensor, "e d d"]:
        """What multiplies y^T X / N on its way to x_q (e, d, d): w22_PV W11_KQ + w21_PV w21_KQ^T, of rank r at most."""
        below = self.key_query[:, :, :-1]
        row = self.value[:, -1]
        return row[:, -1, None, None] * below[:, :-1] + row[:, :-1, None] * below[:, -1:]

    @checked()
    def forward(self, prompts: Float[Tensor, "n d1 n1"] | Float[Tensor, "#e n d1 n1"]) -> Float[Tensor, "e n"]:
        """Answers (e, n) to n prompts (n, d + 1, N + 1), or to prompts of its own for every layer (e, n, d + 1, N + 1).

        By Eq. (5.2), without the other entries of f(E).
        """
        rho = self._examples(prompts)
        gram = prompts @ prompts.mT / rho
        left = self.value[:, None, None, -1] @ gram  # e n 1 d1
        right = self.key_query[:, None, :, :-1] @ prompts[..., :-1, -1:]  # e n d1 1
        return (left @ right)[..., 0, 0]

    @checked()
    def output(self, prompts: Float[Tensor, "n d1 n1"]) -> Float[Tensor, "e n d1 n1"]:
        """f(E) in full, (n, d + 1, N + 1) -> (e, n, d + 1, N + 1), by Eq. (5.1)."""
        rho = self._examples(prompts)
        scores = prompts.mT @ self.key_query[:, None] @ prompts
        return prompts + self.value[:, None] @ prompts @ scores / rho

    def _examples(self, prompts: Tensor) -> int:
        rows, columns = prompts.shape[-2:]
        if prompts.dtype != self.value.dtype or prompts.device != self.value.device:
            given, own = (f"{t.dtype} on {t.device}".removeprefix("torch.") for t in (prompts, self.value))
            raise SettingError("prompts", given, f"{own}, as the weights", "bring them there with .to()")
        if rows != self.d + 1:
            raise SettingError("prompts", f"{rows} rows", f"d + 1 = {self.d + 1}", "a token is an input and its label")
        if columns < 2:
            raise SettingError("prompts", "no example", "at least 1 and the query", "rho would be 0")
        return columns - 1


def check_rank(rank: int, d: int) -> None:
    """SettingError for a rank outside 0..d."""
    if not 0 <= rank <= d:
        raise SettingError("rank", rank, f"in 0..d = {d}", "U is d x d; 0 answers 0 to every prompt")


@checked()
def optimal_matrix(covariance: Float[Tensor, "d d"], examples: int, rank: int) -> Float[Tensor, "d d"]:
    """U of rank r at most whose answers y^T X U x_q / N are the best on average over prompts of N examples.

        U* = Q diag(v) Q^T,   v_i = N / ((N + 1) lambda_i + tr Lambda) for i <= r, else 0

    Shapes: covariance Lambda (d, d), its eigenvalues lambda_1 >= ... >= lambda_d with eigenvectors Q -> (d, d).
    A singular Lambda is fine; with lambda_r = lambda_(r + 1) the best U is not unique, and one of them is given.
    Source: thesis Theorem 5.4.1 (icl_scale.theorem5_4_1) with c = 1.
    Errors: SettingError for a covariance that is not symmetric, has a negative eigenvalue or is 0, for fewer than 1
    example, and for a rank outside 0..d.

    Example:
        >>> optimal_matrix(torch.diag(torch.tensor([1.0, 3.0])), examples=4, rank=1)
        tensor([[0.0000, 0.0000],
                [0.0000, 0.2105]])
    """
    check_rank(rank, len(covariance))
    values, vectors = _spectrum(covariance, examples)
    kept = vectors[:, :rank]
    return (kept * (examples / ((examples + 1) * values[:rank] + values.sum()))) @ kept.mT


@checked()
def optimal_attention(covariance: Float[Tensor, "d d"], examples: int, rank: int) -> LinearSelfAttention:
    """The layer of rank r at most that answers best after N = `examples`: u = 1 in the last corner of W_PV, U* in W_KQ.

        W_PV = [[0, 0], [0, 1]],   W_KQ = [[U*, 0], [0, 0]]

    Shapes: covariance (d, d). On prompts of another length its rho is theirs, as in the proof of Theorem 5.4.2.
    Source: thesis Eq. (5.3) (icl_scale.theorem5_4_1). Errors: those of `optimal_matrix`.

    Example:
        >>> net = optimal_attention(torch.eye(2), examples=4, rank=2)
        >>> net.matrix[0].detach()
        tensor([[0.5714, 0.0000],
                [0.0000, 0.5714]])
    """
    check_rank(rank, len(covariance))
    values, vectors = _spectrum(covariance, examples)
    net = LinearSelfAttention(len(covariance), rank, Key("optimum"), scale=0.0, dtype=covariance.dtype)
    root = (vectors * (examples / ((examples + 1) * values + values.sum())).sqrt())[:, :rank].mT
    with torch.no_grad():
        net.key[0, :, :-1] = net.query[0, :, :-1] = root
        net.value[0, -1, -1] = 1
    return net


@checked()
def population_loss(
    matrix: Float[Tensor, "e d d"], covariance: Float[Tensor, "d d"], examples: int
) -> Float[Tensor, " e"]:
    """Half the mean square error of the answers y^T X U x_q / N on prompts without noise, with w ~ N(0, I).

        tr(Gamma Lambda U Lambda U^T) / 2 - tr(Lambda^2 U^T) + tr(Lambda) / 2
        Gamma = (1 + 1/N) Lambda + tr(Lambda) I / N

    Shapes: matrix U (e, d, d), covariance Lambda (d, d) -> (e).
    Source: thesis Lemma 5.1 (icl_scale.lemma5_1) with its constant. Errors: those of `optimal_matrix`.

    Example:
        >>> population_loss(torch.zeros(1, 2, 2), torch.eye(2), examples=4)
        tensor([1.])
    """
    _spectrum(covariance, examples)
    trace = covariance.trace()
    gamma = (1 + 1 / examples) * covariance + trace / examples * torch.eye(len(covariance)).to(covariance)
    square = ((gamma @ covariance @ matrix @ covariance) * matrix).sum((-2, -1)) / 2
    return square - ((covariance @ covariance) * matrix).sum((-2, -1)) + trace / 2


def _spectrum(covariance: Tensor, examples: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues in descending order, those of rounding taken as 0, and eigenvectors as columns."""
    if examples < 1:
        raise SettingError("examples", examples, "at least 1", "the layer divides by their number")
    size = float(covariance.abs().max())
    if not size > 0:
        raise SettingError("covariance", "0 in all entries", "not all 0", "inputs that are 0 say nothing of w")
    if float((covariance - covariance.mT).abs().max()) > 1e-5 * size:
        raise SettingError("covariance", "not symmetric", "symmetric", "give (C + C^T) / 2")
    values, vectors = torch.linalg.eigh((covariance + covariance.mT) / 2)
    if float(values[0]) < -1e-5 * size:
        raise SettingError("covariance", f"with eigenvalue {float(values[0]):.3g}", "no negative one", "is it one?")
    return values.flip(0).clamp(min=0), vectors.flip(1)
