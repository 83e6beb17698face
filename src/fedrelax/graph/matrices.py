"""The adjacency matrix: what is accepted, how it is stored, its Laplacian and second eigenvalue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.graph.tables import as_array, clean_labels, frame_labels, is_frame, is_number
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label, SparseMatrix

ROUNDING = 1e-12
"""Relative difference between A_ij and A_ji that counts as rounding and is averaged out."""

Where = Callable[[int], str]
"""Says in messages where edge number e was read: "roads.csv, line 7: ", or nothing."""


def nowhere(edge: int) -> str:
    """Return no location: the edges were not read from a file or table."""
    return ""


def read_matrix(
    matrix: object, labels: Iterable[object] | None
) -> tuple[sparse.csr_array, tuple[Label, ...]]:
    """Return the checked adjacency (see `clean_adjacency`) and the labels of its rows."""
    entries: Any = matrix
    if is_frame(matrix):
        named = labels is None
        labels = frame_labels(entries, labels)
        if named and set(clean_labels(entries.columns)) != set(labels):
            raise FedRelaxError(
                "the rows and the columns of the matrix name different nodes; "
                "give both the same labels"
            )
        entries = (entries[list(entries.index)] if named else entries).to_numpy()
    if not sparse.issparse(entries):
        try:
            entries = as_array(entries)
        except ValueError:
            raise FedRelaxError("the rows of the matrix have different lengths") from None
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
        raise FedRelaxError(
            f"the matrix has shape {entries.shape}; give a square one, a row and a column per node"
        )
    names = clean_labels(labels, entries.shape[0])
    return clean_adjacency(_as_numbers(entries, names), names), names


def clean_adjacency(matrix: SparseMatrix, labels: Sequence[Label]) -> sparse.csr_array:
    """Return a read-only CSR copy with A_ij = A_ji > 0 and A_ii = 0; refuse a wrong edge by name.

    A zero weight is no edge. Differences within `ROUNDING` between A_ij and A_ji are averaged.
    """
    kept = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    kept.sum_duplicates()
    kept.eliminate_zeros()
    triplets = kept.tocoo()
    check_weights(triplets.row, triplets.col, triplets.data, labels)
    gap = kept - kept.T
    if gap.nnz:
        _check_symmetric(kept, gap, labels)
        kept = sparse.csr_array(0.5 * kept + 0.5 * kept.T)
    kept.sort_indices()
    for part in (kept.data, kept.indices, kept.indptr):
        part.flags.writeable = False
    return kept


def check_weights(
    rows: AnyArray,
    columns: AnyArray,
    weights: FloatArray,
    labels: Sequence[Label],
    where: Where = nowhere,
) -> None:
    """Refuse infinite, NaN and negative weights and self-loops; name the first one."""
    faults = (
        (~np.isfinite(weights), "has the weight {}; give a finite number"),
        (
            weights < 0,
            "has the negative weight {}; weights must be zero (no edge) or positive",
        ),
        (
            (rows == columns) & (weights != 0),
            "with weight {} joins a node to itself; remove it (in a matrix, set the diagonal to zero)",
        ),
    )
    for wrong, text in faults:
        if wrong.any():
            e = int(np.argmax(wrong))
            pair = f"({labels[rows[e]]!r}, {labels[columns[e]]!r})"
            raise FedRelaxError(f"{where(e)}edge {pair} {text.format(float(weights[e]))}")


def from_pairs(n_nodes: int, i: IntArray, j: IntArray, weights: FloatArray) -> sparse.csr_array:
    """Return the symmetric matrix of edges (i, j), each of which is given once."""
    rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
    both = np.concatenate([weights, weights])
    return sparse.csr_array((both, (rows, columns)), shape=(n_nodes, n_nodes))


def _check_symmetric(kept: Any, gap: Any, labels: Sequence[Label]) -> None:
    excess = (abs(gap) - ROUNDING * kept.maximum(kept.T)).tocoo()
    wrong = np.flatnonzero(excess.data > 0)
    if not len(wrong):
        return
    i, j = int(excess.row[wrong[0]]), int(excess.col[wrong[0]])
    raise FedRelaxError(
        f"the matrix is not symmetric: the weight from {labels[i]!r} to {labels[j]!r} is "
        f"{float(kept[i, j])} and from {labels[j]!r} to {labels[i]!r} it is {float(kept[j, i])}; "
        "make both equal (A + A.T if each edge is stored only once)"
    )


def _as_numbers(entries: Any, labels: Sequence[Label]) -> Any:
    if entries.dtype.kind in "biuf":
        return entries
    if not sparse.issparse(entries):
        for i, j in np.ndindex(*entries.shape):
            if not is_number(entries[i, j]):
                raise FedRelaxError(
                    f"the weight between {labels[i]!r} and {labels[j]!r} is {entries[i, j]!r}; "
                    "give a real number"
                )
        return entries.astype(np.float64)
    raise FedRelaxError(f"the matrix has entries of type {entries.dtype}; give real numbers")


DENSE = 500
"""Up to this many nodes, all eigenvalues are computed."""


def laplacian(adjacency: SparseMatrix) -> sparse.csr_array:
    """Return L = D - A, with the weighted degrees on the diagonal of D."""
    return sparse.csr_array(sparse.diags_array(adjacency.sum(axis=1)) - adjacency)


def second_eigenvalue(matrix: SparseMatrix) -> float:
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
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, splu

    def extreme(apply: Callable[[FloatArray], FloatArray], which: str, **limits: int) -> float:
        operator = LinearOperator((n, n), matvec=apply, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(n)
        more = {"k": 1, "tol": 1e-9, "v0": start, "return_eigenvectors": False, **limits}
        return float(eigsh(operator, which=which, **more)[0])

    top = 2 * matrix.diagonal().max()  # bounds all eigenvalues; the constant vector goes there
    try:
        return extreme(lambda v: matrix @ v.ravel() + top * v.mean(), "SA", ncv=20, maxiter=15)
    except ArpackNoConvergence:
        # L without its last node is positive definite; solving with it and centring inverts L.
        factor = splu(
            matrix[:-1, :-1].tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    def inverse(v: FloatArray) -> FloatArray:
        centred = v.ravel() - v.mean()
        solved = np.append(factor.solve(centred[:-1]), 0.0)
        return np.asarray(solved - solved.mean())

    return 1 / extreme(inverse, "LA")
