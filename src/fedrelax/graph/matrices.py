"""The adjacency matrix: what is accepted, how it is stored, its Laplacian and second eigenvalue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from fedrelax.errors import FedRelaxError
from fedrelax.graph.tables import clean_labels, frame_labels
from fedrelax.schema.kinds import as_frame, is_frame
from fedrelax.typing import AnyArray, FloatArray, IntArray, Label, SparseMatrix

ROUNDING = 1e-12
"""Relative difference between A_ij and A_ji that counts as rounding and is averaged out."""


def read_matrix(
    matrix: object, labels: Iterable[object] | None
) -> tuple[sparse.csr_array, tuple[Label, ...]]:
    """Return a read-only CSR copy with A_ij = A_ji > 0 and A_ii = 0, and the labels of its rows.

    A wrong edge is refused by name. A zero weight is no edge, and differences within `ROUNDING` between
    A_ij and A_ji are averaged.
    """
    entries: Any = matrix
    if is_frame(matrix):
        named = labels is None
        entries = as_frame(matrix)
        labels = frame_labels(entries, labels)
        if named and set(clean_labels(entries.columns)) != set(labels):
            raise FedRelaxError(
                "the rows and the columns of the matrix name different nodes; "
                "give both the same labels"
            )
        entries = (entries[list(entries.index)] if named else entries).to_numpy()
    if not sparse.issparse(entries):
        try:
            entries = np.array(entries, dtype=np.float64)
        except (TypeError, ValueError):
            raise FedRelaxError(
                "the matrix holds something other than real numbers, or rows of different lengths"
            ) from None
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
        raise FedRelaxError(
            f"the matrix has shape {entries.shape}; give a square one, a row and a column per node"
        )
    names = clean_labels(labels, entries.shape[0])
    if entries.dtype.kind not in "biuf":
        raise FedRelaxError(f"the matrix has entries of type {entries.dtype}; give real numbers")
    adjacency = sparse.csr_array(entries, dtype=np.float64, copy=True)
    adjacency.sum_duplicates()
    adjacency.eliminate_zeros()
    triplets = adjacency.tocoo()
    check_weights(triplets.row, triplets.col, triplets.data, names)
    gap = adjacency - adjacency.T
    if gap.nnz:
        excess = (abs(gap) - ROUNDING * adjacency.maximum(adjacency.T)).tocoo()
        if (excess.data > 0).any():
            e = int(np.argmax(excess.data > 0))
            i, j = excess.row[e], excess.col[e]
            raise FedRelaxError(
                f"the matrix is not symmetric: the weight from {names[i]!r} to {names[j]!r} is "
                f"{float(adjacency[i, j])} and from {names[j]!r} to {names[i]!r} it is "
                f"{float(adjacency[j, i])}; make both equal (A + A.T if each edge is stored only once)"
            )
        adjacency = sparse.csr_array(0.5 * adjacency + 0.5 * adjacency.T)
    adjacency.sort_indices()
    for part in (adjacency.data, adjacency.indices, adjacency.indptr):
        part.flags.writeable = False
    return adjacency, names


def check_weights(
    rows: AnyArray,
    columns: AnyArray,
    weights: FloatArray,
    labels: Sequence[Label],
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
            raise FedRelaxError(f"edge {pair} {text.format(float(weights[e]))}")


def from_pairs(n_nodes: int, i: IntArray, j: IntArray, weights: FloatArray) -> sparse.csr_array:
    """Return the symmetric matrix of edges (i, j), each of which is given once."""
    rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
    both = np.concatenate([weights, weights])
    return sparse.csr_array((both, (rows, columns)), shape=(n_nodes, n_nodes))


DENSE = 500
"""Up to this many nodes, all eigenvalues are computed."""
SHIFT = 1e-10
"""What is added to the diagonal, relative to the largest eigenvalue, so that L has an inverse."""


def second_eigenvalue(matrix: SparseMatrix) -> float:
    """Return the second smallest eigenvalue of the Laplacian of a *connected* graph.

    Large graphs: Lanczos on L itself is quick if the graph is well connected. If it does not converge,
    the graph is elongated (a road, a map), and a sparse factorisation is cheap: Lanczos on the inverse
    of L plus a tiny multiple of the identity then does.
    """
    n = matrix.shape[0]
    if n == 1:
        return 0.0
    if n <= DENSE:
        return max(0.0, float(np.linalg.eigvalsh(matrix.toarray())[1]))
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    top = 2 * matrix.diagonal().max()  # bounds all eigenvalues; the constant vector goes there
    lifted = LinearOperator((n, n), matvec=lambda v: matrix @ v.ravel() + top * v.mean())
    start = np.random.default_rng(0).standard_normal(n)
    more = {"tol": 1e-9, "v0": start, "return_eigenvectors": False}
    try:
        return float(eigsh(lifted, k=1, which="SA", ncv=20, maxiter=15, **more)[0])
    except ArpackNoConvergence:
        return float(max(eigsh(matrix.tocsc(), k=2, sigma=-SHIFT * top, **more)))
