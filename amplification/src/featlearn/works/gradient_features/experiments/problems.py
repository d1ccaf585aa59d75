"""The XOR mixture and structured parities of one block, as lottery tickets and kernels meet them."""

from featlearn.core import Task
from featlearn.tasks import BlockParity, GaussianMixture


def xor_mixture(d: int, sigma: float) -> tuple[Task, float, float]:
    """The task, the typical norm of the noise in x, and the squared size of a feature in x."""
    return GaussianMixture.xor(d, sigma=sigma), sigma * d**0.5, float(d)


def block_parity(d: int, k: int) -> tuple[Task, float, float]:
    """The same for p_A = 1/4, p_o = 1/2."""
    return BlockParity(d, 1, k, 0.25, 0.5), d**0.5, float(k)
