"""The graph Laplacian and its second smallest eigenvalue."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.typing import FloatArray

DENSE = 500
"""Up to this many nodes, all eigenvalues are computed."""


def laplacian(adjacency: Any) -> sparse.csr_array:
    """Return L = D - A, with the weighted degrees on the diagonal of D."""
    return sparse.csr_array(sparse.diags_array(adjacency.sum(axis=1)) - adjacency)


def second_eigenvalue(matrix: Any) -> float:
    """Return the second smallest eigenvalue of the Laplacian of a *connected* graph.

    Large graphs: Lanczos on L itself is quick if the graph is well connected. If it does not converge,
    the graph is elongated (a road, a map), and a sparse factorisation is cheap: Lanczos on the
    pseudo-inverse of L then finds 1 / lambda_2 as the largest eigenvalue.
    """
    n = matrix.shape[0]
    if n == 1:
        return 0.0
    if n <= DENSE:
        return max(0.0, float(np.linalg.eigvalsh(matrix.toarray())[1]))
    from scipy.sparse.linalg import ArpackNoConvergence

    try:
        return _direct(matrix)
    except ArpackNoConvergence:
        return _inverse(matrix)


def _direct(matrix: Any) -> float:
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = matrix.shape[0]
    top = 2 * matrix.diagonal().max()  # bounds all eigenvalues; the constant vector goes there

    def apply(v: FloatArray) -> FloatArray:
        moved: FloatArray = matrix @ v.ravel() + top * v.mean()
        return moved

    operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    found = eigsh(
        operator,
        k=1,
        which="SA",
        ncv=20,
        maxiter=15,
        tol=1e-9,
        v0=_start(n),
        return_eigenvectors=False,
    )
    return float(found[0])


def _inverse(matrix: Any) -> float:
    from scipy.sparse.linalg import LinearOperator, eigsh, splu

    n = matrix.shape[0]
    # L without its last node is positive definite; solving with it and centring inverts L.
    factor = splu(
        matrix[:-1, :-1].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def apply(v: FloatArray) -> FloatArray:
        centred = v.ravel() - v.mean()
        solved = np.append(factor.solve(centred[:-1]), 0.0)
        moved: FloatArray = solved - solved.mean()
        return moved

    operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    found = eigsh(operator, k=1, which="LA", tol=1e-9, v0=_start(n), return_eigenvectors=False)
    return float(1 / found[0])


def _start(n: int) -> FloatArray:
    return np.random.default_rng(0).standard_normal(n)
