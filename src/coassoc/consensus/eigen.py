"""Leading eigenvectors of symmetric operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

_WHOLE = 200  # matrices up to this size are decomposed whole
_WHOLE_PER_VECTOR = 20  # or up to this many times the number of vectors
_SPARE = 8  # vectors iterated beyond those asked for
_MAX_ITER = 100
# Largest residual |M v − λ v|. An eigenvalue is then wrong by the square of that over the gap to the next, and labels
# are those of exact eigenvectors but for items on a border: tests/consensus/test_spectral.py compares them.
_TOLERANCE = 1e-4


def leading_eigenvectors(
    matrix: np.ndarray | Callable[[np.ndarray], np.ndarray], start: np.ndarray, k: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues, largest first, and their eigenvectors (n, k), each with a positive largest entry.

    `matrix` may be a function that multiplies a block of columns with it; `start` (n,) is an eigenvector known
    beforehand, or a guess. LOBPCG iterates a block, which finds eigenvalues that occur several times, as those of a
    graph in several pieces do; ``eigsh`` misses some of them. LOBPCG breaks down where the rank is a few times the
    width of the block; a wider random block then holds the range. The result depends on the arguments alone if BLAS
    uses one thread.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import lobpcg

    n, product = len(start), matrix if callable(matrix) else matrix.__matmul__
    if n <= max(_WHOLE, _WHOLE_PER_VECTOR * k):
        whole = _symmetric(product(np.eye(n)) if callable(matrix) else matrix)
        values, vectors = eigh(whole, subset_by_index=(n - k, n - 1), overwrite_a=True, check_finite=False)
        return values[::-1], _signed(vectors[:, ::-1])
    m = k + _SPARE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # spare vectors need not converge
        block = np.column_stack([start, rng.standard_normal((n, m - 1))])
        values, vectors = lobpcg(product, block, tol=_TOLERANCE, maxiter=_MAX_ITER)
    width = 4 * m
    while width < n and np.linalg.norm((product(vectors) - vectors * values)[:, :k], axis=0).max() > 2 * _TOLERANCE:
        basis = np.linalg.qr(product(rng.standard_normal((n, width))))[0]
        values, rotation = np.linalg.eigh(_symmetric(basis.T @ product(basis)))
        values, vectors = values[: -m - 1 : -1], basis @ rotation[:, : -m - 1 : -1]
        width *= 2
    return values[:k], _signed(vectors[:, :k])


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2.0


def _signed(vectors: np.ndarray) -> np.ndarray:
    peak = np.argmax(np.abs(vectors), axis=0)
    return vectors * np.where(vectors[peak, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
